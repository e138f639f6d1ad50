use std::collections::VecDeque;

use proptest::prelude::*;
use thalweg_units::Rate;

use super::*;
use crate::choice::Share;
use crate::congestion::window::Window;
use crate::congestion::{Controller, GrowthPolicy, PathView, ReductionPolicy, SentSpan, StartPolicy, WindowParts};
use crate::testing::{Scene, ms};
use crate::trace::CongestionCause;

/// Packets are of 1000 bytes, so that the initial window is ten of them.
const PACKET: u64 = 1_000;
const RTT: u64 = 100;

fn saved(packets: u64) -> SavedPath {
    SavedPath { window: packets * PACKET, min_rtt: ms(RTT), rate: None, age: Duration::ZERO }
}

fn context(resume: ResumePolicy, saved: Option<SavedPath>) -> PathContext {
    PathContext { resume, saved, ..PathContext::new(Instant::ZERO, PACKET as u16) }
}

/// A sender and its packets, all of them for a path without a queue.
struct Path {
    window: Window,
    scene: Scene,
    /// When each packet on its way left.
    flying: VecDeque<Instant>,
    delivered: u64,
    /// The sender has had nothing to send lately.
    is_idle: bool,
}

impl Path {
    fn new(resume: ResumePolicy, saved: Option<SavedPath>) -> Path {
        let context = context(resume, saved);
        let (growth, start, reduction) = (GrowthPolicy::NewReno, StartPolicy::Standard, ReductionPolicy::Immediate);
        Path {
            window: Window::new(WindowParts { growth, start, reduction }, &context),
            scene: Scene::new(),
            flying: VecDeque::new(),
            delivered: 0,
            is_idle: false,
        }
    }

    /// A path of which 300 packets were saved, after the first flight was acknowledged: 20 packets of window.
    fn confirmed(resume: ResumePolicy) -> Path {
        let mut path = Path::new(resume, Some(saved(300)));
        path.is_idle = true;
        path.send(10);
        path.wait(RTT);
        path.ack(10);
        path.is_idle = false;
        assert_eq!(path.packets(), 20);
        path
    }

    fn flight(&self) -> u64 {
        self.flying.len() as u64 * PACKET
    }

    /// The window in whole packets.
    fn packets(&self) -> u64 {
        self.allowance().window / PACKET
    }

    fn allowance(&self) -> crate::Allowance {
        self.window.allowance(&PathView::new(self.scene.now, &self.scene.rtt, self.flight()))
    }

    fn wait(&mut self, millis: u64) {
        self.scene.now += ms(millis);
    }

    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.scene.now += Duration::from_nanos(1);
            self.flying.push_back(self.scene.now);
            let _ = self.window.on_sent(self.scene.now, PACKET, self.flight());
        }
    }

    /// Sends what the window allows; returns how many packets that were.
    fn fill(&mut self) -> u64 {
        let before = self.flying.len();
        while self.flight() + PACKET <= self.allowance().window {
            self.send(1);
        }
        (self.flying.len() - before) as u64
    }

    /// One ACK for the oldest packets. The sample is what it would be without a queue.
    fn ack(&mut self, packets: u64) {
        self.ack_after(packets, RTT);
    }

    fn ack_after(&mut self, packets: u64, rtt: u64) {
        let prior_in_flight = self.flight();
        let packets_sent: Vec<Instant> = self.flying.drain(..packets as usize).collect();
        let sent = packets_sent.first().zip(packets_sent.last());
        let sent = sent.map(|(oldest, newest)| SentSpan { oldest: *oldest, newest: *newest });
        self.delivered += packets * PACKET;
        let flight = self.flight();
        let delivered = self.delivered;
        let application_limited = self.is_idle;
        let event = self.scene.ack(packets * PACKET, Some(ms(rtt)), true);
        let event =
            AckEvent { sent, delivered, prior_in_flight, bytes_in_flight: flight, application_limited, ..event };
        let _ = self.window.on_ack(&event);
    }

    /// The oldest packet is declared lost.
    fn lose(&mut self) {
        let prior_in_flight = self.flight();
        self.flying.pop_front();
        let (bytes_in_flight, delivered) = (self.flight(), self.delivered);
        let event = self.scene.congestion(CongestionCause::Loss);
        let event = AckEvent { lost: PACKET, prior_in_flight, bytes_in_flight, delivered, ..event };
        let _ = self.window.on_ack(&event);
    }
}

const CAREFUL: ResumePolicy = ResumePolicy::Careful;
const HALF: ResumePolicy = ResumePolicy::Handshake(HandshakeParameters::DEFAULT);
const FULL: ResumePolicy = ResumePolicy::Handshake(HandshakeParameters { share: Share::clamped(1_000) });

/// 29 packets are in flight at the jump, and 121 follow.
fn appendix_b() -> Path {
    let mut path = Path::confirmed(CAREFUL);
    path.is_idle = true;
    path.send(9);
    path.wait(RTT);
    path.ack(9);
    path.is_idle = false;
    assert_eq!(path.packets(), 29);
    path.send(28);
    assert_eq!(path.packets(), 29, "the window does not limit the sender yet");
    path.send(1);
    assert_eq!(path.packets(), 150);
    path.wait(1);
    assert_eq!(path.fill(), 121);
    path
}

#[test]
fn rfc9959_appendix_b_a_jump_is_to_half_of_what_was_saved() {
    let mut path = appendix_b();
    // Everything arrives: growth goes on where the jump has led.
    path.wait(RTT - 1);
    path.ack(29);
    path.wait(1);
    path.ack(121);
    assert_eq!(path.packets(), 300);
    assert_eq!(path.window.ssthresh(), None);
}

#[test]
fn rfc9959_appendix_b_a_loss_among_the_unvalidated_halves_what_has_arrived() {
    let mut path = appendix_b();
    path.wait(RTT - 1);
    path.ack(29);
    path.wait(1);
    for _ in 0..34 {
        path.ack(1);
    }
    path.lose();
    // PipeSize is 63.
    assert_eq!(path.packets(), 31);
    for _ in 0..85 {
        path.ack(1);
        assert_eq!(path.packets(), 31, "nothing grows before the jump is settled");
    }
    assert_eq!(path.window.ssthresh(), None);
    path.ack(1);
    // The appendix prints a PipeSize of 120, its rules make it 149: half of either is the threshold.
    while path.window.ssthresh().is_none() {
        path.fill();
        path.wait(RTT);
        path.ack(1);
    }
    let threshold = path.window.ssthresh().unwrap() / PACKET;
    assert!((60..=74).contains(&threshold), "{threshold}");
    assert_eq!(path.window.start_exit(), Some(StartExit::Congestion));
}

#[test]
fn rfc9959_4_2_nothing_is_different_before_the_first_flight_is_acknowledged() {
    let mut path = Path::new(CAREFUL, Some(saved(300)));
    assert_eq!(path.fill(), 10);
    path.wait(RTT);
    for acked in 1..10 {
        path.ack(1);
        assert_eq!(path.packets(), 10 + acked);
    }
    path.ack(1);
    assert_eq!(path.packets(), 150);
}

#[test]
fn rfc9959_4_2_a_loss_or_a_mark_before_the_jump_prevents_it() {
    let mut path = Path::confirmed(CAREFUL);
    path.send(5);
    path.lose();
    path.fill();
    assert_eq!(path.packets(), 10, "what is halved is the window of the start");

    let mut path = Path::new(CAREFUL, Some(saved(300)));
    path.fill();
    path.lose();
    path.wait(RTT);
    path.ack(9);
    path.fill();
    assert!(path.packets() < 20);
}

#[test]
fn rfc9959_4_2_half_the_round_trip_time_or_less_is_another_path() {
    for (rtt, jumps) in [(50, false), (51, true), (100, true), (1_000, true), (1_001, false)] {
        let mut path = Path::new(CAREFUL, Some(saved(300)));
        path.fill();
        path.wait(rtt);
        path.ack_after(10, rtt);
        path.fill();
        assert_eq!(path.packets() == 150, jumps, "{rtt} ms");
    }
}

#[test]
fn rfc9959_4_1_what_was_saved_too_long_ago_is_not_used() {
    for (age, jumps) in [(LIFETIME, true), (LIFETIME + ms(1), false)] {
        let mut path = Path::new(CAREFUL, Some(SavedPath { age, ..saved(300) }));
        path.fill();
        path.wait(RTT);
        path.ack(10);
        assert_eq!(path.packets() == 150, jumps, "{age:?}");
    }
}

#[test]
fn rfc9959_4_3_a_jump_needs_a_sender_that_the_window_limits() {
    let mut path = Path::confirmed(CAREFUL);
    path.is_idle = true;
    path.send(19);
    assert_eq!(path.packets(), 20);
    path.send(1);
    assert_eq!(path.packets(), 150);
}

#[test]
fn rfc9959_4_3_the_jump_is_spread_over_a_round_trip() {
    let mut path = Path::confirmed(CAREFUL);
    path.fill();
    let rate = Rate::from_bytes_over(150 * PACKET, ms(RTT));
    let mut path = Path::confirmed(CAREFUL);
    path.send(20);
    assert_eq!(path.allowance().rate, Some(rate));
    assert_eq!(path.allowance().burst, 0);
}

#[test]
fn rfc9959_4_3_the_jump_ends_with_its_first_packet_acknowledged() {
    let mut path = Path::confirmed(CAREFUL);
    path.send(20);
    path.wait(50);
    path.send(30);
    path.wait(30);
    path.ack(20);
    assert_eq!(path.packets(), 150, "what was sent before tells nothing");
    path.send(10);
    path.wait(10);
    path.ack(1);
    // 40 were in flight; the one that was acknowledged opens the window by itself.
    assert_eq!(path.packets(), 41);
}

#[test]
fn rfc9959_4_3_the_jump_ends_after_a_round_trip() {
    let mut path = Path::confirmed(CAREFUL);
    path.send(20);
    path.wait(1);
    path.send(70);
    path.wait(RTT);
    path.send(1);
    assert_eq!(path.packets(), 91);
}

#[test]
fn rfc9959_4_3_a_jump_that_was_not_used_leaves_what_the_path_has_shown() {
    let mut path = Path::confirmed(CAREFUL);
    path.send(20);
    assert_eq!(path.packets(), 150);
    path.wait(RTT);
    path.ack(20);
    path.wait(RTT);
    path.send(1);
    assert_eq!(path.packets(), 20);
}

#[test]
fn rfc9959_4_5_a_retreat_is_not_below_the_initial_window() {
    let mut path = Path::confirmed(CAREFUL);
    path.ack_after(0, RTT);
    path.send(20);
    path.wait(1);
    path.fill();
    path.lose();
    assert_eq!(path.packets(), 10);
}

#[test]
fn rfc9959_4_5_more_congestion_during_a_retreat_is_answered_by_the_growth() {
    let mut path = appendix_b();
    path.wait(RTT);
    path.ack(29);
    path.lose();
    assert_eq!(path.packets(), 14);
    path.lose();
    assert_eq!(path.packets(), 7);
    assert_eq!(path.window.ssthresh(), Some(7_250));
}

#[test]
fn a_retreat_that_was_a_mistake_is_taken_back() {
    let mut path = appendix_b();
    path.wait(RTT);
    path.ack(29);
    path.ack(34);
    let before = path.packets();
    path.lose();
    assert_eq!(path.packets(), 31);
    assert!(path.window.undo(path.scene.now, 1));
    assert_eq!(path.packets(), before);
    path.ack(80);
    assert_eq!(path.packets(), before + 80);
}

#[test]
fn the_handshake_confirms_the_path_for_the_first_flight() {
    for (resume, packets) in [(HALF, 150), (FULL, 300)] {
        let mut path = Path::new(resume, Some(saved(300)));
        path.is_idle = true;
        path.send(3);
        path.wait(RTT);
        path.ack(3);
        path.wait(RTT);
        assert_eq!(path.packets(), 13, "the handshake opens the window as always");
        path.is_idle = false;
        path.fill();
        assert_eq!(path.packets(), packets, "{resume}");
    }
}

#[test]
fn a_window_that_was_partly_queue_is_not_taken_for_the_path() {
    let rate = Some(Rate::from_bytes_over(200 * PACKET, ms(RTT)));
    let mut path = Path::new(FULL, Some(SavedPath { rate, ..saved(300) }));
    path.fill();
    path.wait(RTT);
    path.ack(10);
    assert_eq!(path.packets(), 200);
}

#[test]
fn over_a_shorter_round_trip_the_bolder_rules_are_no_faster_than_before() {
    let before = Rate::from_bytes_over(300 * PACKET, ms(RTT));
    for rate in [None, Some(before)] {
        for (rtt, jumps) in [(50, false), (60, true), (100, true), (200, true), (201, false)] {
            let mut path = Path::new(FULL, Some(SavedPath { rate, ..saved(300) }));
            path.fill();
            path.wait(rtt);
            path.ack_after(10, rtt);
            let allowed = path.allowance();
            assert_eq!(allowed.window > 20 * PACKET, jumps, "{rtt} ms");
            assert!(!jumps || allowed.rate <= Some(before), "{rtt} ms: {allowed:?}");
        }
    }
}

/// A path that held 300 packets before, at 24 Mbps, after a jump that brought the window there; the round trip lasts
/// `rtt` by then.
fn filled(rtt: u64) -> Path {
    let rate = Some(Rate::from_bytes_over(300 * PACKET, ms(RTT)));
    let mut path = Path::new(FULL, Some(SavedPath { rate, ..saved(300) }));
    path.fill();
    path.wait(RTT);
    path.ack(10);
    assert_eq!(path.fill(), 300);
    path.wait(RTT);
    path.ack_after(1, rtt);
    path
}

#[test]
fn where_the_path_was_full_before_the_window_grows_by_a_quarter_and_stops_at_a_queue() {
    let mut path = filled(RTT);
    let before = path.packets();
    for _ in 0..40 {
        path.ack(1);
    }
    assert_eq!(path.packets(), before + 10);
    for _ in 0..7 {
        path.ack_after(1, 110);
    }
    assert_eq!(path.window.start_exit(), None, "seven samples");
    path.ack_after(1, 110);
    assert_eq!(path.window.start_exit(), Some(StartExit::Delay));
}

#[test]
fn a_queue_that_was_there_before_does_not_end_the_start() {
    let mut path = filled(150);
    for _ in 0..100 {
        path.ack_after(1, 150);
    }
    assert_eq!(path.window.start_exit(), None);
}

#[test]
fn a_path_that_holds_half_again_without_a_queue_is_opened_as_usual() {
    let mut path = filled(RTT);
    let mut acked = 0;
    while path.packets() <= 450 {
        path.ack(1);
        path.fill();
        acked += 1;
    }
    assert!(acked >= 4 * 145, "{acked}");
    let before = path.packets();
    (0..20).for_each(|_| path.ack(1));
    assert_eq!(path.packets(), before + 20);
}

#[test]
fn without_a_memory_or_a_rule_the_start_is_left_alone() {
    let stale = SavedPath { age: LIFETIME + ms(1), ..saved(300) };
    let nonsense = SavedPath { min_rtt: Duration::ZERO, ..saved(300) };
    for (resume, saved) in
        [(ResumePolicy::Off, Some(saved(300))), (CAREFUL, None), (CAREFUL, Some(stale)), (FULL, Some(nonsense))]
    {
        let context = context(resume, saved);
        let start = wrap(StartPolicy::default().build(&context), &context);
        assert_eq!(format!("{start:?}"), format!("{:?}", StartPolicy::default().build(&context)));
    }
}

fn saved_paths() -> impl Strategy<Value = SavedPath> {
    let rate = proptest::option::of(any::<u64>().prop_map(Rate::from_bps));
    (any::<u64>(), any::<u64>(), 40..300u64, rate, 0..7_200u64).prop_map(|(window, shift, rtt, rate, age)| SavedPath {
        window: window >> (shift % 64),
        min_rtt: ms(rtt),
        rate,
        age: Duration::from_secs(age),
    })
}

fn policies() -> impl Strategy<Value = ResumePolicy> {
    proptest::sample::select(vec![CAREFUL, HALF, FULL])
}

proptest! {
    /// Whatever was saved, and whatever happens.
    #[test]
    fn a_jump_never_exceeds_what_its_rule_allows_and_a_retreat_what_has_arrived(
        resume in policies(),
        saved in saved_paths(),
        steps in proptest::collection::vec((0..4u8, 1..60u64), 1..80),
    ) {
        let divisor = if resume == FULL { 1 } else { 2 };
        let most = (saved.window / divisor).min(MAX_JUMP);
        let mut path = Path::new(resume, Some(saved));
        let mut standard = Path::new(ResumePolicy::Off, None);
        // What acknowledgments alone would have opened the window to.
        let mut earned = 10 * PACKET;
        let mut has_lost = false;
        for (step, count) in steps {
            match step {
                0 => path.wait(count),
                1 => {
                    let room = (path.allowance().window.saturating_sub(path.flight()) / PACKET).min(count);
                    path.send(room);
                }
                2 if path.flying.len() as u64 >= count => {
                    path.ack(count);
                    earned += count * PACKET;
                }
                3 if !path.flying.is_empty() => {
                    let before = path.allowance().window;
                    path.lose();
                    has_lost = true;
                    prop_assert!(path.allowance().window <= before.max(10 * PACKET));
                    let proven = (path.delivered + path.flight() + PACKET).max(20 * PACKET);
                    prop_assert!(path.allowance().window <= proven, "{} of {proven}", path.allowance().window);
                }
                _ => {}
            }
            let window = path.allowance().window;
            prop_assert!(window >= 2 * PACKET);
            prop_assert!(window <= most.max(10 * PACKET) + earned, "{window} of {most} and {earned}");
            if saved.age > LIFETIME && !has_lost {
                prop_assert!(window <= earned);
            }
        }
        standard.fill();
        prop_assert_eq!(standard.packets(), 10);
    }
}
