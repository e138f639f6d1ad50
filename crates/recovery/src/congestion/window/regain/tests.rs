//! Properties of Regain: CUBIC wherever there is a queue, less than a reduction per round trip, and little loss.

mod losses;
mod room;

use super::super::cubic::Cubic;
use super::*;
use crate::congestion::{Arrival, LossSample, SentSpan};
use crate::delivery::RateSample;
use crate::testing::{Scene, at, ms};
use proptest::prelude::*;
use thalweg_units::Rate;

const DATAGRAM: u64 = 1_200;

/// A window on a path of 100 ms, whose newest sample is this.
fn view(window: u64, latest_ms: u64) -> View {
    View { latest_rtt: ms(latest_ms), ..View::new(at(0), window, DATAGRAM, ms(100)) }
}

/// The path of 100 ms, whose smallest round-trip time is known.
fn path() -> Scene {
    let mut scene = Scene::new();
    scene.ack(0, Some(ms(100)), false);
    scene
}

/// A round trip in which these samples come, without a loss that counts.
fn round(regain: &mut Regain, samples: &[u64]) {
    let mut scene = path();
    for (index, &latest) in samples.iter().enumerate() {
        let event = scene.ack(0, Some(ms(latest)), index == 0);
        regain.observe(view(1_000_000, latest), &event, false);
    }
}

/// A packet of so many bytes that was sent at 1 ms and lost.
fn loss(bytes: u64) -> LossSample {
    LossSample { bytes, sent: at(1), order: 1, delivered: 0, lost: 0, in_flight: 0, application_limited: false }
}

/// One that has left its start, has delivered much without a queue, and lost so many bytes of a million.
fn regain(lost: u64) -> Regain {
    let mut regain = Regain::new(Box::new(Cubic::default()));
    regain.on_start_exit(view(1_000_000, 100));
    let mut scene = Scene::new();
    let losses = [loss(lost)];
    let sent = Some(SentSpan { oldest: at(1), newest: at(1) });
    let event = AckEvent { losses: &losses, lost, sent, ..scene.ack(1_000_000 - lost, Some(ms(100)), false) };
    regain.observe(view(1_000_000, 100), &event, false);
    round(&mut regain, &[100]);
    regain
}

/// Reduced from a megabyte after two round trips with these samples; the window that is left.
fn reduced(latest_ms: u64, signal: Signal) -> (Regain, u64) {
    let mut regain = regain(1_000);
    round(&mut regain, &[latest_ms]);
    round(&mut regain, &[latest_ms]);
    regain.credit = 0;
    let window = regain.reduce(view(1_000_000, latest_ms), signal);
    assert_eq!(window, 700_000, "whatever caused it");
    (regain, window)
}

#[test]
fn after_a_loss_without_a_queue_a_round_trip_adds_three_eighths_up_to_the_old_window_and_an_eighth_beyond() {
    let (mut regain, window) = reduced(100, Signal::Loss);
    regain.was_full = true;
    assert_eq!(regain.grow(view(window, 100), 80_000), window + 30_000);
    assert_eq!(regain.grow(view(999_999, 100), 80_000), 1_000_000);
    assert_eq!(regain.grow(view(1_000_000, 100), 80_000), 1_010_000);
}

#[test]
fn beyond_the_old_window_it_adds_a_half_as_long_as_the_path_has_never_been_full() {
    let (mut regain, _) = reduced(100, Signal::Loss);
    assert_eq!(regain.grow(view(1_000_000, 100), 80_000), 1_040_000);
    round(&mut regain, &[150]);
    regain.reduce(view(1_000_000, 150), Signal::Loss);
    assert!(regain.was_full, "a queue");
}

#[test]
fn eight_small_reductions_need_no_verdict_and_then_every_one_is_a_test() {
    let mut regain = regain(0);
    round(&mut regain, &[100]);
    round(&mut regain, &[100]);
    for _ in 0..8 {
        assert_eq!(regain.reduce(view(1_000_000, 100), Signal::Loss), 968_750);
    }
    for _ in 0..8 {
        assert_eq!(regain.reduce(view(1_000_000, 100), Signal::Loss), 700_000);
    }
}

#[test]
fn a_loss_while_packets_wait_in_a_queue_too_short_for_a_sample_is_congestion() {
    let mut regain = regain(0);
    for _ in 0..3 {
        round(&mut regain, &[100, 102]);
    }
    assert!(regain.was_empty(view(1_000_000, 102)));
    assert_eq!(regain.reduce(view(1_000_000, 102), Signal::Loss), 700_000);
    assert_eq!(regain.prior, None);
}

#[test]
fn after_a_whole_round_trip_without_a_loss_it_adds_three_quarters() {
    let (mut regain, window) = reduced(100, Signal::Loss);
    assert_eq!(regain.grow(view(window, 100), 16_000), window + 6_000);
    round(&mut regain, &[100]);
    assert_eq!(regain.grow(view(window, 100), 16_000), window + 6_000, "what came before was part of a round trip");
    round(&mut regain, &[100]);
    assert_eq!(regain.grow(view(window, 100), 16_000), window + 12_000);
    assert_eq!(regain.grow(view(1_000_000, 100), 16_000), 1_008_000);
    regain.reduce(view(1_000_000, 100), Signal::Loss);
    assert_eq!(regain.grow(view(window, 100), 16_000), window + 6_000);
}

#[test]
fn with_a_queue_at_the_loss_it_comes_back_to_what_the_path_carried_and_is_cubic_above() {
    let mut regain = regain(1_000);
    round(&mut regain, &[125]);
    round(&mut regain, &[125]);
    let window = regain.reduce(queued(1_000_000, 125), Signal::Loss);
    assert_eq!((window, regain.prior), (700_000, Some(800_000)));
    assert_eq!(regain.grow(view(window, 100), 80_000), window + 30_000);
    let mut cubic = Cubic::default();
    cubic.on_start_exit(view(1_000_000, 100));
    cubic.reduce(view(1_000_000, 125), Signal::Loss);
    cubic.grow(view(window, 100), 80_000);
    for _ in 0..20 {
        assert_eq!(regain.grow(view(800_000, 100), 80_000), cubic.grow(view(800_000, 100), 80_000));
    }
}

#[test]
fn a_loss_beside_a_queue_that_was_far_from_full_leaves_what_the_path_carried_eight_times() {
    for (longest, is_far) in [(120, true), (130, false)] {
        let mut regain = regain(1_000);
        for longest in [150, longest, longest] {
            round(&mut regain, &[longest]);
        }
        for _ in 0..8 {
            let window = regain.reduce(queued(1_000_000, 125), Signal::Loss);
            assert_eq!(window, if is_far { 775_000 } else { 700_000 }, "{longest}");
            assert_eq!(regain.prior, Some(800_000));
        }
        assert_eq!(regain.reduce(queued(1_000_000, 125), Signal::Loss), 700_000);
    }
}

#[test]
fn a_queue_that_is_most_of_the_window_leaves_no_more_than_cubic_does() {
    let mut regain = regain(1_000);
    for longest in [500, 200, 200] {
        round(&mut regain, &[longest]);
    }
    assert_eq!(regain.reduce(queued(1_000_000, 200), Signal::Loss), 700_000);
}

#[test]
fn after_a_mark_or_losses_that_follow_the_flight_it_is_cubic() {
    for (latest, signal) in [(105, Signal::Mark), (100, Signal::Mark)] {
        let (mut regain, window) = reduced(latest, signal);
        let mut cubic = Cubic::default();
        cubic.on_start_exit(view(1_000_000, 100));
        cubic.reduce(view(1_000_000, latest), signal);
        for _ in 0..20 {
            assert_eq!(regain.grow(view(window, 100), 80_000), cubic.grow(view(window, 100), 80_000));
        }
    }
}

#[test]
fn it_stops_where_a_queue_begins_and_goes_on_when_that_is_gone() {
    let (mut regain, window) = reduced(100, Signal::Loss);
    let mut scene = path();
    let mut fast = |regain: &mut Regain, latest| {
        regain.observe(view(window, latest), &scene.ack(80_000, Some(ms(latest)), false), false);
        regain.grow(view(window, latest), 80_000) >= window + 30_000
    };
    assert!(fast(&mut regain, 104));
    assert!(!fast(&mut regain, 105));
    assert!(fast(&mut regain, 100));
}

#[test]
fn the_allowance_is_a_sixteenth_of_the_path_between_1_and_4_ms() {
    for (path, most) in [(1, 2), (16, 17), (32, 34), (64, 68), (100, 104), (600, 604)] {
        let view = View { min_rtt: ms(path), ..view(1, path) };
        assert!(is_empty(view, ms(most)), "{path}");
        assert!(!is_empty(view, ms(most + 1)), "{path}");
    }
}

#[test]
fn a_loss_is_by_chance_if_the_queue_was_empty_once_in_each_of_two_round_trips() {
    for (rounds, is_chance) in [
        ([&[130, 104, 120][..], &[120, 100, 150]], true),
        ([&[130, 105, 120], &[120, 100, 150]], false),
        ([&[130, 104, 120], &[120, 105, 150]], false),
        ([&[105, 106], &[105, 105]], false),
    ] {
        let mut regain = regain(1_000);
        for samples in rounds {
            round(&mut regain, samples);
        }
        // As if one wait had been as short as any other.
        regain.waits = Waits::new();
        regain.reduce(view(1_000_000, 150), Signal::Loss);
        assert_eq!(regain.prior.is_some() && !regain.is_bounded, is_chance, "{rounds:?}");
    }
}

#[test]
fn the_window_to_come_back_to_is_the_largest_since_a_loss_with_a_queue() {
    let (mut regain, window) = reduced(100, Signal::Loss);
    regain.reduce(view(window, 100), Signal::Loss);
    assert_eq!(regain.prior, Some(1_000_000));
    regain.reduce(view(1_200_000, 100), Signal::Loss);
    assert_eq!(regain.prior, Some(1_200_000));
    round(&mut regain, &[150]);
    regain.reduce(view(900_000, 150), Signal::Loss);
    assert_eq!((regain.prior, regain.is_bounded), (Some(900_000), true), "what the path carried");
    regain.reduce(view(900_000, 150), Signal::Mark);
    assert_eq!((regain.prior, regain.is_bounded), (None, false));
    round(&mut regain, &[100]);
    round(&mut regain, &[100]);
    regain.reduce(view(600_000, 100), Signal::Loss);
    assert_eq!(regain.prior, Some(600_000));
}

#[test]
fn single_bytes_add_up() {
    let (mut regain, mut window) = reduced(100, Signal::Loss);
    let before = window;
    for _ in 0..800 {
        window = regain.grow(view(window, 100), 1);
    }
    // What CUBIC gathers in the meantime is a few bytes more.
    assert!((300..=304).contains(&(window - before)), "{}", window - before);
}

/// A view of a path of 100 ms whose round trips have lately been of this length.
fn queued(window: u64, smoothed_ms: u64) -> View {
    View { smoothed_rtt: ms(smoothed_ms), ..view(window, smoothed_ms) }
}

#[test]
fn what_is_carried_is_what_is_not_in_the_queue() {
    assert_eq!(carried(view(1_000_000, 100)), 1_000_000);
    assert_eq!(carried(queued(1_000_000, 200)), 500_000);
    assert_eq!(carried(View { smoothed_rtt: ms(90), ..view(1_000_000, 100) }), 1_000_000, "never more than the window");
    assert_eq!(carried(View { smoothed_rtt: Duration::ZERO, ..view(1_000_000, 100) }), 0);
}

#[test]
fn a_path_that_has_become_longer_gets_the_window_for_the_rate_of_the_start_until_congestion() {
    let mut regain = regain(0);
    let mut scene = path();
    let mut round = |regain: &mut Regain, window: u64, now: u64| {
        let event = scene.ack(0, Some(ms(300)), true);
        regain.observe(View { now: at(now), ..view(window, 300) }, &event, false);
    };
    for _ in 0..3 {
        round(&mut regain, 1_000_000, 0);
    }
    assert_eq!(regain.grow(view(1_000_000, 300), 16_000), 1_004_000, "a trial");
    assert_eq!(regain.grow(view(1_062_000, 300), 16_000), 1_062_500, "of a sixteenth");
    for now in [100, 400, 550] {
        round(&mut regain, 1_062_500, now);
    }
    assert_eq!(regain.grow(view(1_062_500, 300), 16_000), 1_078_500);
    assert_eq!(regain.grow(view(2_999_000, 300), 16_000), 3_000_000, "three times the round trip");
    assert_eq!(regain.grow(view(3_000_000, 300), 16_000), 3_006_000);
    let window = regain.reduce(view(3_000_000, 300), Signal::Loss);
    assert_eq!(window, 2_100_000);
    assert!(regain.grow(view(window, 300), 16_000) < window + 6_000, "CUBIC again");
}

#[test]
fn a_pause_ends_a_trial_and_an_older_growth_forgets_its_own() {
    let mut regain = regain(0);
    let mut scene = path();
    for _ in 0..3 {
        let event = scene.ack(0, Some(ms(300)), true);
        regain.observe(view(1_000_000, 300), &event, false);
    }
    assert_eq!(regain.grow(view(1_000_000, 300), 16_000), 1_004_000, "a trial");
    // What is taken up again after a wrong reduction is told of the application.
    let mut undone = regain.snapshot();
    for growth in [&mut regain as &mut dyn Growth, &mut *undone] {
        growth.on_application_limited(at(0), false);
        assert!(growth.grow(view(1_000_000, 300), 16_000) < 1_004_000);
    }
}

proptest! {
    /// What a round trip adds is less than what the reduction before it took, whatever the samples say.
    #[test]
    fn it_yields_under_sustained_congestion(
        rounds in proptest::collection::vec((50u64..300, proptest::collection::vec(50u64..300, 4)), 150..160),
    ) {
        let mut regain = regain(0);
        let mut scene = Scene::new();
        let mut window = 2_000 * DATAGRAM;
        for (round, (congested, samples)) in rounds.into_iter().enumerate() {
            let now = at(round as u64 * 100);
            let view = |window, latest| View { latest_rtt: ms(latest), min_rtt: ms(50), ..View::new(now, window, DATAGRAM, ms(100)) };
            let before = window;
            let reduced = regain.reduce(view(window, congested), Signal::Loss).max(2 * DATAGRAM);
            window = reduced;
            // A round trip begins somewhere in it: rounds are not counted from the reduction.
            for (index, latest) in samples.into_iter().enumerate() {
                let event = scene.ack(reduced / 4, Some(ms(latest)), index == round % 4);
                regain.observe(view(window, latest), &event, false);
                window = window.max(regain.grow(view(window, latest), reduced / 4));
            }
            prop_assert!(window * 100 <= before * 97 || window <= 10 * DATAGRAM, "{} after {}", window, before);
        }
        prop_assert!(window <= 10 * DATAGRAM, "{}", window);
    }

    #[test]
    fn it_never_grows_less_than_cubic_and_nothing_overflows(
        steps in proptest::collection::vec((0u64.., 0u64..100_000, any::<bool>(), 0u64..1_000), 1..40),
    ) {
        let (mut regain, mut cubic) = (regain(0), Cubic::default());
        cubic.on_start_exit(view(1_000_000, 100));
        regain.credit = 0;
        for (window, acked, is_congested, latest) in steps {
            let view = view(window, latest);
            if is_congested {
                prop_assert_eq!(
                    regain.reduce(view, Signal::Loss), cubic.reduce(view, Signal::Loss)
                );
            } else {
                prop_assert!(regain.grow(view, acked) >= cubic.grow(view, acked));
            }
        }
    }
}

/// A path whose round trip is always the same: losses say all there is.
struct Road {
    regain: Regain,
    scene: Scene,
    window: u64,
    sent: u64,
    dice: u64,
}

impl Road {
    fn new(window: u64) -> Road {
        let mut road = Road {
            regain: Regain::new(Box::new(Cubic::default())),
            scene: Scene::new(),
            window: window * DATAGRAM,
            sent: 0,
            dice: 1,
        };
        road.regain.on_start_exit(road.view());
        road.scene.now += ms(100);
        road
    }

    fn view(&self) -> View {
        View::new(self.scene.now, self.window, DATAGRAM, ms(100))
    }

    fn packets(&self) -> u64 {
        self.window / DATAGRAM
    }

    /// A number below a million.
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % 1_000_000
    }

    /// A round trip in which so many in a million are lost by chance, and what is beyond `carried` packets.
    fn round(&mut self, chance: u64, carried: u64) {
        let packets = self.packets();
        let (window, now) = (self.window, self.scene.now);
        let mut losses = Vec::new();
        for packet in 1..=packets {
            // Every second packet finds the queue full once it is.
            let is_beyond =
                packets > carried && packet > packets.saturating_sub(2 * (packets - carried)) && packet % 2 == 0;
            if is_beyond || self.roll() < chance {
                losses.push(LossSample {
                    bytes: DATAGRAM,
                    sent: now,
                    order: self.sent + packet,
                    delivered: 0,
                    lost: 0,
                    in_flight: window,
                    application_limited: false,
                });
            }
        }
        let first = losses.first().map_or(packets, |loss| loss.order - self.sent - 1) * DATAGRAM;
        self.sent += packets;
        self.scene.now += ms(100);
        let lost = losses.len() as u64 * DATAGRAM;
        let sent = Some(SentSpan { oldest: now, newest: now });
        let delivery = |acked| RateSample {
            rate: Rate::from_bytes_over(window, ms(100)),
            delivered: acked,
            interval: ms(100),
            application_limited: false,
            sent_in_flight: window,
            lost,
            is_new: true,
        };
        let view = |window| View::new(now + ms(100), window, DATAGRAM, ms(100));
        // What arrives before the first loss lets the window grow, the rest comes in a recovery period.
        let event = AckEvent { delivery: Some(delivery(first)), sent, ..self.scene.ack(first, Some(ms(100)), true) };
        self.regain.observe(view(self.window), &event, false);
        self.window = self.window.max(self.regain.grow(view(self.window), first));
        if lost > 0 {
            let event = AckEvent { lost, losses: &losses, ..self.scene.ack(0, None, false) };
            self.regain.observe(view(self.window), &event, false);
            self.window = self.regain.reduce(view(self.window), Signal::Loss);
            let rest = window - lost - first;
            let event = AckEvent { delivery: Some(delivery(rest)), sent, ..self.scene.ack(rest, Some(ms(100)), false) };
            self.regain.observe(view(self.window), &event, true);
        }
        self.window = self.window.max(2 * DATAGRAM);
    }
}

/// How many of a hundred sequences of losses by chance do this.
fn of_a_hundred(does: impl Fn(u64) -> bool) -> usize {
    (1..=100u64).filter(|number| does(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).count()
}

/// Losses that come whenever the flight is above what the path carries, and never below, without any delay.
#[test]
fn losses_that_follow_the_flight_keep_the_window_below_what_the_path_carries() {
    for (carried, first) in [(50, 20), (100, 300), (200, 50), (400, 1_000), (800, 400)] {
        let mut road = Road::new(first);
        for _ in 0..200 {
            road.round(0, carried);
        }
        let above = (0..400).filter(|_| {
            road.round(0, carried);
            road.packets() > carried
        });
        let above = above.count();
        assert!(above <= 50, "{carried} packets: {above} of 400 round trips");
    }
}

#[test]
fn losses_by_chance_do_not_keep_the_window_from_what_the_path_carries() {
    for (chance, most) in [(0, 800), (1_000, 400), (10_000, 200)] {
        for carried in [most / 2, most] {
            let arrived = of_a_hundred(|dice| {
                let mut road = Road { dice, ..Road::new(carried / 4) };
                (0..200).any(|_| {
                    road.round(chance, u64::MAX);
                    road.packets() >= carried * 3 / 4
                })
            });
            assert!(arrived >= 90, "{chance} of a million, {carried} packets: {arrived} of 100");
        }
    }
}

/// A path that carries a fifth of what was sent, after losses by chance.
#[test]
fn a_path_that_carries_less_is_not_taken_for_chance() {
    for chance in [10_000, 20_000] {
        let followed = of_a_hundred(|dice| {
            let mut road = Road { dice, ..Road::new(500) };
            for _ in 0..60 {
                road.round(chance, 1_000);
            }
            let carried = road.packets() / 5;
            for _ in 0..40 {
                road.round(chance, carried);
            }
            let above = (0..100).filter(|_| {
                road.round(chance, carried);
                road.packets() > carried + carried / 4
            });
            above.count() <= 25
        });
        assert!(followed >= 90, "{chance} of a million: {followed} of 100");
    }
}

/// A round trip of 100 ms and then some of 130, one ACK each; how long their packets took by the receiver's clock.
fn rounds_reported(regain: &mut Regain, outward: &[u64]) {
    let mut scene = path();
    for (now, (&delay, latest)) in (200u64..).step_by(100).zip(outward.iter().zip([100, 130, 130, 130])) {
        let arrivals = [Arrival {
            sent: at(now - latest),
            order: now,
            begins_burst: true,
            bytes: DATAGRAM,
            received: ms(7_000_000 + now - latest + delay),
            is_told: true,
        }];
        scene.now = at(now);
        let event = AckEvent { arrivals: &arrivals, ..scene.ack(0, Some(ms(latest)), true) };
        regain.observe(View { now: at(now), ..view(1_000_000, latest) }, &event, false);
    }
}

#[test]
fn a_queue_of_the_way_back_alone_is_no_queue() {
    for (outward, is_chance) in [([50, 50, 51, 50], true), ([50, 80, 80, 80], false), ([50, 52, 80, 80], false)] {
        let mut regain = regain(1_000);
        rounds_reported(&mut regain, &outward);
        regain.waits = Waits::new();
        regain.reduce(view(1_000_000, 130), Signal::Loss);
        assert_eq!(regain.prior.is_some() && !regain.is_bounded, is_chance, "{outward:?}");
    }
}

#[test]
fn what_arrives_in_a_recovery_counts_later_until_losses_need_a_verdict() {
    let after = |credit| {
        let mut regain = regain(0);
        round(&mut regain, &[100]);
        regain.credit = credit;
        let window = regain.reduce(view(1_000_000, 100), Signal::Loss);
        let mut scene = path();
        regain.observe(view(window, 100), &scene.ack(80_000, Some(ms(100)), false), true);
        regain.grow(view(window, 100), 80_000) - window
    };
    // Three eighths of what has arrived in it and after it.
    assert_eq!(after(8), 31_250, "up to the window that was reduced");
    assert_eq!(after(0), 30_000, "of what has arrived after it alone");
}

#[test]
fn what_arrived_in_a_recovery_waits_for_an_empty_queue_for_a_round_trip() {
    for (rounds, grown) in [(1, 26_250), (2, 7_500)] {
        let mut regain = regain(0);
        regain.was_full = true;
        round(&mut regain, &[100]);
        let window = regain.reduce(view(1_000_000, 100), Signal::Loss);
        let mut scene = path();
        regain.observe(view(window, 100), &scene.ack(60_000, Some(ms(100)), false), true);
        let before = regain.grow(view(window, 105), 1_200);
        assert!(before < window + 1_200, "a queue");
        for _ in 0..rounds {
            round(&mut regain, &[100]);
        }
        let added = regain.grow(view(window, 100), 10_000) - window;
        assert_eq!(added, grown, "{rounds} round trips");
    }
}
