//! What ends a start, and what only interrupts it.

use super::super::Window;
use super::{EARLY_WINDOWS, MOST_ACCIDENTS};
use crate::Policies;
use crate::congestion::{
    AckEvent, Controller, ControllerPolicies, LossSample, Marks, PathContext, PathView, RecoveryPeriod, SentSpan,
};
use crate::testing::{Scene, ms};
use crate::trace::{CongestionCause, StartExit, State};
use thalweg_units::Instant;

const DATAGRAM: u64 = 1_200;
/// Packets in flight when the first loss becomes known: more than [`EARLY_WINDOWS`], which are 80.
const FLIGHT: u64 = 96;

/// A start that loses packets of a flight.
struct Stage {
    window: Window,
    scene: Scene,
    /// When the first loss became known.
    lost_at: Instant,
    delivered: u64,
}

/// What the packets in flight meet.
#[derive(Copy, Clone)]
struct Flight<'a> {
    /// Which of them are lost.
    lost: &'a [u64],
    /// The longest round trip of one that arrives, in ms. The shortest is 100 ms.
    longest: u64,
    is_marked: bool,
}

impl<'a> Flight<'a> {
    fn losing(lost: &'a [u64]) -> Flight<'a> {
        Flight { lost, longest: 100, is_marked: false }
    }
}

impl Stage {
    fn new(policies: &str) -> Stage {
        let policies: Policies = policies.parse().unwrap();
        let ControllerPolicies { window, is_paced, .. } = policies.of_controller();
        let context = PathContext { is_paced, ..PathContext::new(Instant::ZERO, DATAGRAM as u16) };
        let mut stage = Stage {
            window: Window::new(window.unwrap(), &context),
            scene: Scene::new(),
            lost_at: Instant::ZERO,
            delivered: 0,
        };
        stage.scene.now += ms(100);
        let _ = stage.window.on_ack(&stage.scene.ack(DATAGRAM, Some(ms(100)), true));
        stage.window.window = FLIGHT * DATAGRAM;
        stage
    }

    /// The first loss becomes known, and with it the others.
    fn lose(&mut self, lost: &[u64]) {
        self.lose_of(FLIGHT * DATAGRAM, lost);
    }

    /// The same with this window.
    fn lose_of(&mut self, window: u64, lost: &[u64]) {
        self.window.window = window;
        self.scene.now += ms(100);
        self.lost_at = self.scene.now;
        let losses: Vec<_> = lost.iter().map(|&order| loss(order)).collect();
        let event = AckEvent {
            lost: DATAGRAM * losses.len() as u64,
            losses: &losses,
            ..self.scene.congestion(CongestionCause::Loss)
        };
        let _ = self.window.on_ack(&event);
    }

    /// What was in flight is acknowledged but for what is lost.
    fn deliver(&mut self, flight: Flight<'_>) {
        let arrived = FLIGHT - flight.lost.len() as u64;
        self.scene.now += ms(90);
        let marks = Marks { ce: u64::from(flight.is_marked), ..Marks::default() };
        let sent = Some(SentSpan { oldest: Instant::ZERO, newest: self.lost_at });
        let longest = Some(ms(flight.longest));
        let delivered = arrived * DATAGRAM;
        let bytes_in_flight = DATAGRAM;
        let event = AckEvent {
            growth: 0,
            marks,
            sent,
            delivered,
            bytes_in_flight,
            ..self.scene.ack(delivered, longest, false)
        };
        let period = RecoveryPeriod { in_recovery: true, is_fresh: false };
        let _ = self.window.on_ack(&AckEvent { period, ..event });
        self.delivered = delivered;
    }

    /// Something is acknowledged that was sent after the loss was known, and what is lost becomes known with it.
    fn finish_with(&mut self, lost: &[u64], persistent_congestion: bool) {
        self.scene.now += ms(20);
        let newest = self.lost_at + ms(1);
        let sent = Some(SentSpan { oldest: newest, newest });
        let losses: Vec<_> = lost.iter().map(|&order| loss(order)).collect();
        let event = AckEvent {
            growth: 0,
            sent,
            delivered: self.delivered,
            lost: DATAGRAM * losses.len() as u64,
            losses: &losses,
            persistent_congestion,
            ..self.scene.ack(0, None, true)
        };
        let _ = self.window.on_ack(&event);
    }

    fn finish(&mut self) {
        self.finish_with(&[], false);
    }

    fn meet(&mut self, flight: Flight<'_>) {
        self.meet_with(FLIGHT * DATAGRAM, flight);
    }

    /// The same with this window.
    fn meet_with(&mut self, window: u64, flight: Flight<'_>) {
        self.lose_of(window, flight.lost);
        self.deliver(flight);
        self.finish();
    }

    fn is_starting(&self) -> bool {
        let is_starting = self.window.state() == State::SlowStart;
        assert_eq!(self.window.start_exit().is_none(), is_starting);
        assert_eq!(self.window.window >= FLIGHT * DATAGRAM, is_starting, "all or nothing");
        is_starting
    }
}

/// Of the first packet in flight, which nothing precedes, or of a later one.
fn loss(order: u64) -> LossSample {
    let (sent, in_flight) = (Instant::ZERO, DATAGRAM);
    LossSample { bytes: DATAGRAM, sent, order, delivered: 0, lost: 0, in_flight, application_limited: false }
}

/// Whether the start goes on after that.
fn goes_on(policies: &str, flight: Flight<'_>) -> bool {
    let mut stage = Stage::new(policies);
    stage.meet(flight);
    stage.is_starting()
}

#[test]
fn one_lost_packet_reduces_the_window_for_a_round_trip_and_does_not_end_the_start() {
    let mut stage = Stage::new("");
    stage.lose(&[7]);
    assert_eq!(stage.window.window, FLIGHT * DATAGRAM / 10 * 7, "as RFC 9002 section 7.3.2 asks");
    assert_eq!(stage.window.start_exit(), None, "not known yet");
    stage.deliver(Flight::losing(&[7]));
    assert_eq!(stage.window.window, FLIGHT * DATAGRAM / 10 * 7);
    stage.finish();
    assert!(stage.is_starting());
}

#[test]
fn what_arrives_meanwhile_opens_the_window_if_a_sixteenth_of_it_or_less_was_lost() {
    for (lost, growth) in [(1, 95), (5, 91), (6, 0)] {
        let mut stage = Stage::new("");
        let lost: Vec<_> = (0..lost).map(|packet| 7 + 5 * packet).collect();
        stage.meet(Flight::losing(&lost));
        assert!(stage.is_starting());
        assert_eq!(stage.window.window, (FLIGHT + growth) * DATAGRAM, "{lost:?}");
    }
}

#[test]
fn the_end_is_told_once_it_is_known() {
    let mut stage = Stage::new("");
    let lost: Vec<_> = (0..FLIGHT).step_by(2).collect();
    stage.lose(&lost);
    stage.deliver(Flight::losing(&lost));
    assert_eq!(stage.window.start_exit(), None);
    stage.finish();
    assert_eq!(stage.window.start_exit(), Some(StartExit::Congestion));
}

#[test]
fn a_run_of_up_to_half_of_the_flight_is_a_burst_that_a_short_queue_has_cut_short() {
    let run: Vec<_> = (5..5 + FLIGHT / 2).collect();
    assert!(goes_on("", Flight::losing(&run)));
    let longer: Vec<_> = (5..6 + FLIGHT / 2).collect();
    assert!(!goes_on("", Flight::losing(&longer)));
}

#[test]
fn a_path_that_is_full_loses_packets_in_many_runs() {
    // One, and one for each eight of 96. Together more than an eighth.
    let runs: Vec<_> = (0..28).map(|packet| 1 + packet + packet / 2).collect();
    assert!(goes_on("", Flight::losing(&runs[..26])), "thirteen runs of two");
    assert!(!goes_on("", Flight::losing(&runs)), "fourteen");
}

#[test]
fn an_eighth_of_the_flight_may_be_lost_anywhere() {
    let lost: Vec<_> = (0..28).map(|packet| 1 + 3 * packet).collect();
    assert!(goes_on("", Flight::losing(&lost[..12])));
    assert!(!goes_on("", Flight::losing(&lost[..14])));
}

#[test]
fn a_start_that_has_opened_little_goes_on_once_whatever_is_lost_without_a_queue() {
    let most: Vec<_> = (1..FLIGHT).collect();
    for (windows, expected) in [(1, true), (EARLY_WINDOWS, true), (EARLY_WINDOWS + 1, false)] {
        let mut stage = Stage::new("");
        stage.meet_with(10 * windows * DATAGRAM, Flight::losing(&most));
        assert_eq!(stage.window.start_exit().is_none(), expected, "{windows} initial windows");
    }
    let mut stage = Stage::new("");
    for expected in [true, false] {
        stage.meet_with(20 * DATAGRAM, Flight::losing(&most));
        assert_eq!(stage.window.start_exit().is_none(), expected);
    }
    let mut stage = Stage::new("");
    stage.meet_with(20 * DATAGRAM, Flight { longest: 128, ..Flight::losing(&most) });
    assert_eq!(stage.window.start_exit(), Some(StartExit::Congestion), "a queue");
}

#[test]
fn losses_that_become_known_later_count() {
    for (later, expected) in [(44, true), (45, false)] {
        let mut stage = Stage::new("");
        let all: Vec<_> = (5..5 + 4 + later).collect();
        stage.lose(&all[..4]);
        stage.deliver(Flight::losing(&all));
        stage.finish_with(&all[4..], false);
        assert_eq!(stage.is_starting(), expected, "{} of {FLIGHT}, in a row", all.len());
    }
}

#[test]
fn a_queue_ends_the_start() {
    for (longest, expected) in [(127, true), (128, false), (250, false)] {
        let flight = Flight { longest, ..Flight::losing(&[7]) };
        assert_eq!(goes_on("", flight), expected, "{longest} ms: a quarter of 100 ms and 2 ms");
    }
}

#[test]
fn a_mark_ends_the_start() {
    assert!(!goes_on("", Flight { is_marked: true, ..Flight::losing(&[7]) }));
    let mut stage = Stage::new("");
    let _ = stage.window.on_ack(&stage.scene.congestion(CongestionCause::Ecn));
    assert_eq!(stage.window.start_exit(), Some(StartExit::Congestion));
}

#[test]
fn other_starts_end_with_any_loss() {
    for policies in ["start=standard", "start=hystart++", "start=rapid-start", "start=peak-bandwidth(accidents=off)"] {
        assert!(!goes_on(policies, Flight::losing(&[7])), "{policies}");
    }
}

#[test]
fn a_start_that_goes_on_sends_evenly() {
    let mut stage = Stage::new("");
    let is_even = |stage: &Stage| stage.window.allowance(&PathView::new(stage.scene.now, &stage.scene.rtt, 0)).is_even;
    assert!(!is_even(&stage));
    stage.meet(Flight::losing(&[7]));
    assert!(is_even(&stage));
}

#[test]
fn a_second_loss_is_judged_by_itself() {
    let mut stage = Stage::new("");
    stage.meet(Flight::losing(&[7]));
    assert!(stage.is_starting());
    stage.meet(Flight::losing(&[9]));
    assert!(stage.is_starting());
    let lost: Vec<_> = (0..FLIGHT).step_by(2).collect();
    stage.meet(Flight::losing(&lost));
    assert!(!stage.is_starting());
}

#[test]
fn a_start_goes_on_sixteen_times_at_most() {
    let mut stage = Stage::new("");
    for _ in 0..MOST_ACCIDENTS {
        stage.meet(Flight::losing(&[7]));
        assert!(stage.is_starting());
    }
    stage.meet(Flight::losing(&[7]));
    assert!(!stage.is_starting());
}

#[test]
fn what_turns_up_late_takes_nothing_back_from_a_start_that_goes_on() {
    let mut stage = Stage::new("");
    stage.meet(Flight::losing(&[7]));
    assert!(!stage.window.undo(stage.scene.now, stage.scene.episode));
}

/// Whether a start goes on after one lost packet if the policies change before that is known.
fn goes_on_as(policies: &str) -> bool {
    let mut stage = Stage::new("");
    stage.lose(&[7]);
    let other: Policies = policies.parse().unwrap();
    stage.window.on_policies(stage.scene.now, &other.of_controller());
    stage.deliver(Flight::losing(&[7]));
    stage.finish();
    stage.is_starting()
}

#[test]
fn other_policies_do_not_end_an_interrupted_start() {
    assert!(goes_on_as("mark=reduce, reduction=prr"));
}

#[test]
fn a_start_that_any_loss_ends_does_not_go_on_in_place_of_an_interrupted_one() {
    assert!(!goes_on_as("start=standard"));
}

#[test]
fn an_interruption_is_over_when_nothing_is_left_in_flight() {
    let mut stage = Stage::new("");
    stage.lose(&[7]);
    let sent = Some(SentSpan { oldest: Instant::ZERO, newest: stage.lost_at });
    let delivered = (FLIGHT - 1) * DATAGRAM;
    let event = AckEvent { growth: 0, sent, delivered, ..stage.scene.ack(delivered, Some(ms(100)), false) };
    let _ = stage.window.on_ack(&event);
    assert!(stage.is_starting());
}

#[test]
fn what_was_taken_back_already_is_not_taken_back_again() {
    let mut stage = Stage::new("");
    stage.lose(&[7]);
    assert!(stage.window.undo(stage.scene.now, stage.scene.episode), "the packet was late only");
    stage.window.window = 120 * DATAGRAM;
    stage.deliver(Flight::losing(&[7]));
    stage.finish();
    assert!(stage.window.window >= 120 * DATAGRAM);
    assert_eq!(stage.window.accidents, 0);
}

#[test]
fn persistent_congestion_ends_the_start() {
    let mut stage = Stage::new("");
    stage.lose(&[7]);
    stage.deliver(Flight::losing(&[7]));
    stage.finish_with(&[], true);
    assert!(stage.window.start_exit().is_some());
    assert_eq!((stage.window.window, stage.window.accidents), (2 * DATAGRAM, 0));
}
