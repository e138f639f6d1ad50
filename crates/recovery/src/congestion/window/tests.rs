//! The frame: slow start, reductions, limits, undo; and the whole controller against the theory.

use super::*;
use crate::Policies;
use crate::congestion::{LossSample, SentSpan};
use crate::profile::Profile;
use crate::testing::{Scene, ms};
use proptest::prelude::*;

const DATAGRAM: u64 = 1_200;

fn window(policies: &str) -> Window {
    let policies: Policies = policies.parse().unwrap();
    let ControllerPolicies { window, is_paced, ecn_codepoint } = policies.of_controller();
    let mut context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
    (context.is_paced, context.ecn_codepoint) = (is_paced, ecn_codepoint);
    Window::new(window.unwrap(), &context)
}

fn reno() -> Window {
    window("controller=new-reno, start=standard")
}

fn lose(window: &mut Window, scene: &mut Scene) {
    let event = scene.congestion(CongestionCause::Loss);
    let _ = window.on_ack(&event);
}

#[test]
fn rfc9002_7_2_initial_window_is_ten_datagrams_within_14720_bytes() {
    for (size, expected) in [(1_200, 12_000), (1_452, 14_520), (1_500, 14_720), (7_360, 14_720), (9_000, 18_000)] {
        assert_eq!(Profile::QUIC.initial_window.bytes(size), expected, "{size}");
    }
}

#[test]
fn rfc9002_7_2_minimum_window_is_two_datagrams() {
    let (mut window, mut scene) = (reno(), Scene::new());
    for _ in 0..20 {
        lose(&mut window, &mut scene);
    }
    assert_eq!(window.window, 2 * DATAGRAM);
    assert_eq!(window.ssthresh(), Some(2 * DATAGRAM));
}

#[test]
fn rfc9002_7_2_the_initial_window_follows_the_datagram_size() {
    let mut window = reno();
    window.on_datagram_size(1_452);
    assert_eq!(window.window, 14_520);
    window.on_datagram_size(1_200);
    assert_eq!(window.window, 12_000);
}

#[test]
fn rfc9002_7_2_a_window_that_has_grown_keeps_its_bytes() {
    let (mut window, mut scene) = (reno(), Scene::new());
    let _ = window.on_ack(&scene.ack(DATAGRAM, None, false));
    window.on_datagram_size(1_452);
    assert_eq!(window.window, 13_200);
    window.on_datagram_size(9_000);
    assert_eq!(window.window, 18_000, "but never below the minimum");
}

#[test]
fn rfc9002_7_3_1_slow_start_adds_what_is_acknowledged() {
    let (mut window, mut scene) = (reno(), Scene::new());
    let _ = window.on_ack(&scene.ack(5_000, None, false));
    assert_eq!(window.window, 17_000);
    assert_eq!(window.state(), State::SlowStart);
}

#[test]
fn rfc9002_7_3_1_slow_start_ends_at_the_threshold_and_the_rest_counts_for_avoidance() {
    let (mut window, mut scene) = (reno(), Scene::new());
    window.ssthresh = Some(15_000);
    let _ = window.on_ack(&scene.ack(3_000 + 14_999, None, false));
    assert_eq!(window.window, 15_000);
    assert_eq!(window.start_exit(), Some(StartExit::Threshold));
    let _ = window.on_ack(&scene.ack(1, None, false));
    assert_eq!(window.window, 16_200, "one byte completes a window of acknowledgments");
}

#[test]
fn rfc9002_7_3_2_congestion_sets_window_and_threshold() {
    for (controller, expected) in [("new-reno", 6_000), ("cubic", 8_400)] {
        for cause in [CongestionCause::Loss, CongestionCause::Ecn] {
            let (mut window, mut scene) = (window(&format!("controller={controller}, start=standard")), Scene::new());
            let _ = window.on_ack(&scene.congestion(cause));
            assert_eq!((window.window, window.ssthresh()), (expected, Some(expected)));
            assert_eq!(window.state(), State::CongestionAvoidance);
            assert_eq!(window.start_exit(), Some(StartExit::Congestion));
        }
    }
}

#[test]
fn rfc8511_3_1_a_mark_takes_less_than_a_loss_but_in_slow_start() {
    for (controller, loss, mark) in [
        ("new-reno", 500, 800),
        ("cubic", 700, 850),
        ("regain", 700, 850),
        #[cfg(feature = "study")]
        ("cuback", 700, 850),
        #[cfg(feature = "study")]
        ("abba", 700, 850),
    ] {
        for (is_starting, cause, expected) in [
            (false, CongestionCause::Ecn, mark),
            (false, CongestionCause::Loss, loss),
            (true, CongestionCause::Ecn, loss),
            (true, CongestionCause::Loss, loss),
        ] {
            let policies = format!("controller={controller}, start=standard, mark=abe");
            let (mut window, mut scene) = (window(&policies), Scene::new());
            window.window = 1_000 * DATAGRAM;
            if !is_starting {
                window.ssthresh = Some(500 * DATAGRAM);
            }
            let _ = window.on_ack(&scene.congestion(cause));
            let case = format!("{controller}, {cause:?}, starting: {is_starting}");
            assert_eq!(window.window, expected * DATAGRAM, "{case}");
        }
    }
}

#[test]
fn the_end_of_a_start_is_part_of_the_answer_to_its_last_round_trip() {
    let exit = Instant::ZERO + ms(100);
    for cause in [CongestionCause::Loss, CongestionCause::Ecn] {
        // A mark calls for 0.85 of 300, which is more than the start has left.
        let (last_round, later) = if cause == CongestionCause::Loss { (210, 154) } else { (220, 187) };
        for (in_flight, sent, expected) in
            [(300, exit, last_round), (300, exit + ms(1), later), (1_000, exit, 220), (200, exit, later)]
        {
            let (mut window, mut scene) = (window("controller=cubic, mark=abe"), Scene::new());
            window.window = 220 * DATAGRAM;
            window.ssthresh = Some(window.window);
            window.before_exit = Some((exit, in_flight * DATAGRAM));
            let losses = [lost_of(sent)];
            let losses = if cause == CongestionCause::Loss { &losses[..] } else { &[] };
            let event =
                AckEvent { sent: Some(SentSpan { oldest: sent, newest: sent }), losses, ..scene.congestion(cause) };
            let _ = window.on_ack(&event);
            assert_eq!(window.window, expected * DATAGRAM, "{cause:?}, {in_flight} in flight, sent {sent:?}");
        }
    }
}

fn lost_of(sent: Instant) -> LossSample {
    LossSample { bytes: DATAGRAM, sent, order: 1, delivered: 0, lost: 0, in_flight: 0, application_limited: false }
}

#[test]
fn only_a_start_that_ends_with_less_than_was_in_flight_is_part_of_an_answer() {
    for (in_flight, expected) in [(200, Some(200)), (50, None)] {
        let (mut window, mut scene) = (window("controller=cubic"), Scene::new());
        window.window = 300 * DATAGRAM;
        window.start = Box::new(Stops);
        let event = AckEvent { prior_in_flight: in_flight * DATAGRAM, ..scene.ack(DATAGRAM, Some(ms(100)), true) };
        let now = event.now;
        let _ = window.on_ack(&event);
        assert_eq!((window.window, window.start_exit()), (100 * DATAGRAM, Some(StartExit::Bandwidth)));
        assert_eq!(window.before_exit, expected.map(|datagrams| (now, datagrams * DATAGRAM)));
        let _ = window.on_ack(&scene.persistent_congestion());
        assert_eq!(window.before_exit, None);
    }
}

/// Ends with a window of a hundred datagrams.
#[derive(Debug)]
struct Stops;

impl Start for Stops {
    fn on_ack(&mut self, _: View, _: &AckEvent<'_>) -> Proposal {
        Proposal { exit: Some(StartExit::Bandwidth), ..Proposal::window(100 * DATAGRAM) }
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(Stops)
    }
}

#[test]
fn a_mark_with_a_loss_is_answered_as_the_loss_is() {
    let (mut window, mut scene) = (window("controller=cubic, start=standard, mark=abe"), Scene::new());
    window.window = 1_000 * DATAGRAM;
    window.ssthresh = Some(500 * DATAGRAM);
    let event = AckEvent { lost: DATAGRAM, ..scene.congestion(CongestionCause::Ecn) };
    let _ = window.on_ack(&event);
    assert_eq!(window.window, 700 * DATAGRAM);
}

#[test]
fn n3_one_round_of_avoidance_grows_by_one_datagram_of_the_path() {
    let (mut window, mut scene) = (reno(), Scene::new());
    lose(&mut window, &mut scene);
    let before = window.window;
    let _ = window.on_ack(&scene.ack(before, None, true));
    assert_eq!(window.window - before, 1_200);
    assert_eq!(window.minimum(), 2_400);
}

#[test]
fn rfc9002_7_6_2_persistent_congestion_leaves_the_minimum_window_and_the_threshold() {
    let (mut window, mut scene) = (reno(), Scene::new());
    let _ = window.on_ack(&scene.persistent_congestion());
    assert_eq!((window.window, window.ssthresh()), (2_400, Some(6_000)));
    assert_eq!(window.state(), State::SlowStart);
}

#[test]
fn n4_after_persistent_congestion_the_window_opens_in_slow_start() {
    for controller in ["new-reno", "cubic"] {
        let (mut window, mut scene) = (window(&format!("controller={controller}")), Scene::new());
        let _ = window.on_ack(&scene.persistent_congestion());
        let _ = window.on_ack(&scene.ack(2_400, None, true));
        assert_eq!(window.window, 4_800);
    }
}

#[test]
fn hystart_exit_sets_the_threshold_without_a_reduction() {
    let (mut window, mut scene) = (window("controller=cubic, start=hystart++"), Scene::new());
    let round = |window: &mut Window, scene: &mut Scene, rtt: u64| {
        for index in 0..10 {
            scene.now += ms(10);
            let _ = window.on_ack(&scene.ack(DATAGRAM, Some(ms(rtt)), index == 0));
        }
    };
    round(&mut window, &mut scene, 100);
    assert_eq!(window.state(), State::SlowStart);
    for _ in 0..5 {
        round(&mut window, &mut scene, 200);
        assert_eq!(window.state(), State::ConservativeSlowStart);
    }
    let before = window.window;
    round(&mut window, &mut scene, 200);
    assert_eq!(window.state(), State::CongestionAvoidance);
    assert_eq!(window.start_exit(), Some(StartExit::Delay));
    assert!(window.window >= before && window.window < before + 2 * DATAGRAM);
    assert!(window.ssthresh().is_some_and(|threshold| threshold <= window.window));
}

#[test]
#[cfg(feature = "study")]
fn the_ack_that_ends_hystart_counts_for_avoidance() {
    let (mut window, mut scene) = (window("controller=new-reno, start=hystart"), Scene::new());
    let mut ack = |window: &mut Window, rtt: u64, is_first: bool| {
        scene.now += ms(10);
        let _ = window.on_ack(&scene.ack(DATAGRAM, Some(ms(rtt)), is_first));
    };
    (0..20).for_each(|index| ack(&mut window, 100, index == 0));
    (0..8).for_each(|index| ack(&mut window, 200, index == 0));
    let before = window.window;
    ack(&mut window, 200, false);
    assert_eq!((window.start_exit(), window.window), (Some(StartExit::Delay), before));
    // A window of acknowledgments adds a datagram, that one among them.
    for _ in 1..before / DATAGRAM {
        assert_eq!(window.window, before);
        ack(&mut window, 200, false);
    }
    assert_eq!(window.window, before + DATAGRAM);
}

#[test]
fn rfc9438_4_9_undo_restores_everything_but_only_upwards() {
    for policies in ["controller=cubic", "controller=new-reno"] {
        let (mut window, mut scene) = (window(policies), Scene::new());
        let _ = window.on_ack(&scene.ack(20_000, None, true));
        lose(&mut window, &mut scene);
        assert!(window.window < 32_000);
        assert!(window.undo(scene.now, 1));
        assert_eq!((window.window, window.ssthresh()), (32_000, None));
        assert_eq!(window.state(), State::SlowStart, "slow start goes on");
        assert_eq!(window.start_exit(), None);
        assert!(!window.undo(scene.now, 1), "once");

        lose(&mut window, &mut scene);
        let reduced = window.window;
        window.window = 40_000;
        assert!(!window.undo(scene.now, 2), "the window has grown past the old one");
        assert_eq!(window.window, 40_000);
        assert_eq!(window.ssthresh(), Some(reduced));
    }
}

#[test]
fn rfc9438_4_9_undo_restores_the_cubic_function() {
    let (mut undone, mut scene) = (window("controller=cubic, start=standard"), Scene::new());
    lose(&mut undone, &mut scene);
    let _ = undone.on_ack(&scene.ack(DATAGRAM, None, false));
    let before = format!("{:?}", undone.growth);
    lose(&mut undone, &mut scene);
    assert_ne!(format!("{:?}", undone.growth), before);
    assert!(undone.undo(scene.now, 2));
    assert_eq!(format!("{:?}", undone.growth), before);
}

#[test]
fn reductions_can_be_taken_back_in_reverse_order() {
    let (mut window, mut scene) = (reno(), Scene::new());
    let _ = window.on_ack(&scene.ack(1_188_000, None, false));
    for _ in 0..6 {
        lose(&mut window, &mut scene);
    }
    for (episode, expected) in [(6, 37_500), (5, 75_000), (4, 150_000), (3, 300_000)] {
        assert!(window.undo(scene.now, episode), "{episode}");
        assert_eq!(window.window, expected);
    }
    assert!(!window.undo(scene.now, 2), "too many reductions ago");
}

#[test]
fn slow_start_is_paced_at_twice_and_avoidance_at_five_quarters_of_the_window_per_round_trip() {
    let (mut window, mut scene) = (reno(), Scene::new());
    let rtt = scene.rtt;
    assert_eq!(
        window.allowance(&PathView::new(Instant::ZERO, &rtt, 0)).rate,
        Some(Rate::from_bps(12_000 * 8 * 10 * 2))
    );
    lose(&mut window, &mut scene);
    assert_eq!(
        window.allowance(&PathView::new(Instant::ZERO, &rtt, 0)).rate,
        Some(Rate::from_bps(6_000 * 8 * 10 * 5 / 4))
    );
}

/// Drives a controller alone over a path of fixed round-trip time where every `every`-th packet is lost. Returns the
/// mean window in packets.
fn mean_window(policies: &str, every: u64, rtt: Duration, cycles: u64) -> f64 {
    let (mut window, mut scene) = (window(policies), Scene::new());
    scene.rtt = crate::rtt::Rtt::new(crate::RttPolicy::Classic, rtt);
    let rtt_nanos = rtt.as_nanos() as u64;
    let (mut sent, mut measured, mut since) = (0u64, 0u64, Instant::ZERO);
    let mut nanos = 0;
    // Half of the cycles pass before measuring begins.
    while sent < every * cycles {
        let was_before = sent < every * cycles / 2;
        sent += 1;
        nanos += rtt_nanos * DATAGRAM / window.window;
        scene.now = Instant::from_nanos(nanos);
        if sent.is_multiple_of(every) {
            lose(&mut window, &mut scene);
        } else {
            let _ = window.on_ack(&scene.ack(DATAGRAM, None, false));
        }
        if was_before && sent >= every * cycles / 2 {
            since = scene.now;
            measured = sent;
        }
    }
    let elapsed = scene.now.saturating_since(since).as_secs_f64();
    (sent - measured) as f64 * rtt.as_secs_f64() / elapsed
}

#[test]
fn rfc9438_5_1_the_mean_window_follows_the_response_function() {
    // 1/p, round-trip time in ms, mean window in packets (RFC 9438 tables 1 and 2; the larger of CUBIC and Reno).
    for (every, rtt, expected) in
        [(1_000, 100, 38.0), (10_000, 100, 187.0), (100_000, 100, 1_054.0), (10_000, 10, 120.0), (100_000, 10, 379.0)]
    {
        let mean = mean_window("controller=cubic, start=standard", every, ms(rtt), 30);
        let ratio = mean / expected;
        assert!((0.9..=1.1).contains(&ratio), "1/p {every}, RTT {rtt} ms: {mean:.0} instead of {expected:.0}");
    }
}

#[test]
fn rfc5681_the_mean_window_of_reno_is_1_2_over_the_root_of_p() {
    for (every, expected) in [(1_000, 38.0), (10_000, 120.0)] {
        let mean = mean_window("controller=new-reno, start=standard", every, ms(100), 40);
        assert!((0.9..=1.1).contains(&(mean / expected)), "1/p {every}: {mean:.0} instead of {expected:.0}");
    }
}

proptest! {
    #[test]
    fn the_window_is_never_below_the_minimum_and_never_jumps(
        controller in prop::sample::select(vec!["cubic", "new-reno"]),
        start in prop::sample::select(vec!["standard", "hystart++"]),
        steps in proptest::collection::vec((0u64..200_000, 0u64..30_000, 0u8..20), 1..200),
    ) {
        let mut window = window(&format!("controller={controller}, start={start}"));
        let mut scene = Scene::new();
        for (micros, acked, kind) in steps {
            scene.now += Duration::from_micros(micros);
            let before = window.window;
            match kind {
                0 | 1 => lose(&mut window, &mut scene),
                2 => assert_eq!(window.on_ack(&scene.persistent_congestion()), Change::Allowance),
                3 => { window.undo(scene.now, scene.episode); }
                4 => assert_eq!(window.on_application_limited(scene.now, acked % 2 == 0), Change::None),
                _ => {
                    // No more is acknowledged than was in flight.
                    let acked = acked.min(before);
                    let _ = window.on_ack(&scene.ack(acked, Some(ms(50 + micros % 70)), kind % 5 == 0));
                    prop_assert!(window.window >= before);
                    prop_assert!(window.window <= before + acked.max(before / 2) + DATAGRAM);
                }
            }
            prop_assert!(window.window >= 2 * DATAGRAM);
            prop_assert!(window.ssthresh().is_none_or(|threshold| threshold >= 2 * DATAGRAM));
        }
    }
}
