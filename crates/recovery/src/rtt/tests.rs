//! The estimators against their vectors, and what each consumer gets.

use super::*;
use crate::testing::{at, ms};
use proptest::prelude::*;

fn feed(rtt: &mut Rtt, latest: Duration, ack_delay: Duration) {
    rtt.on_sample(Sample { ack_delay, ..Sample::prompt(Instant::from_nanos(7), latest) });
}

fn after(first: Duration) -> Rtt {
    let mut rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
    feed(&mut rtt, first, Duration::ZERO);
    rtt
}

#[test]
fn rfc9002_5_3_before_a_sample_the_initial_rtt_and_half_of_it_are_assumed() {
    let rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
    assert_eq!((rtt.smoothed, rtt.variation), (ms(333), Duration::from_micros(166_500)));
    assert!(!rtt.has_sample);
    assert_eq!(rtt.probe_base(), ms(999));
}

#[test]
fn rfc9002_5_3_the_first_sample_replaces_every_assumption() {
    let rtt = after(ms(100));
    assert_eq!((rtt.smoothed, rtt.variation, rtt.min, rtt.latest), (ms(100), ms(50), ms(100), ms(100)));
    assert_eq!(rtt.first_sample, Some(Instant::from_nanos(7)));
}

#[test]
fn rfc9002_a7_the_deviation_is_taken_from_the_old_average() {
    let mut rtt = after(ms(100));
    feed(&mut rtt, ms(200), Duration::ZERO);
    assert_eq!((rtt.smoothed, rtt.variation), (Duration::from_micros(112_500), Duration::from_micros(62_500)));
}

#[test]
fn rfc9002_a7_four_samples() {
    let mut rtt = after(ms(100));
    for sample in [120, 140, 130, 110] {
        feed(&mut rtt, ms(sample), Duration::ZERO);
    }
    // 110.0341796875 ms and 27.490234375 ms, rounded down to a nanosecond at each step.
    assert_eq!(rtt.smoothed.as_nanos(), 110_034_179);
    assert_eq!(rtt.variation.as_nanos(), 27_490_234);
}

#[test]
fn rfc9002_5_2_the_minimum_ignores_the_reported_delay() {
    let mut rtt = after(ms(100));
    feed(&mut rtt, ms(120), ms(20));
    assert_eq!(rtt.min, ms(100));
    feed(&mut rtt, ms(90), ms(20));
    assert_eq!(rtt.min, ms(90));
}

#[test]
fn rfc9002_5_3_the_reported_delay_is_subtracted_unless_that_goes_below_the_minimum() {
    let mut rtt = after(ms(100));
    feed(&mut rtt, ms(120), ms(20));
    assert_eq!(rtt.adjusted, ms(100));
    assert_eq!(rtt.smoothed, ms(100));
    feed(&mut rtt, ms(119), ms(20));
    assert_eq!(rtt.adjusted, ms(119), "99 ms would be below the minimum of 100 ms");
}

#[test]
fn rfc9002_5_2_the_minimum_can_be_restarted_from_the_newest_sample() {
    let mut rtt = after(ms(100));
    feed(&mut rtt, ms(180), Duration::ZERO);
    rtt.restart_min();
    assert_eq!(rtt.min, ms(180));
}

#[test]
fn rfc9002_6_1_2_loss_delay_is_nine_eighths_of_the_larger_estimate_and_at_least_the_granularity() {
    let mut rtt = after(ms(80));
    assert_eq!(rtt.loss_delay(), ms(90));
    feed(&mut rtt, ms(160), Duration::ZERO);
    assert_eq!(rtt.loss_delay(), ms(180), "the newest sample is larger than the average");
    assert_eq!(after(Duration::from_micros(10)).loss_delay(), ms(1));
}

#[test]
fn rfc9002_6_2_1_the_variation_term_is_at_least_the_granularity() {
    let mut rtt = after(ms(10));
    for _ in 0..200 {
        feed(&mut rtt, ms(10), Duration::ZERO);
    }
    assert_eq!(rtt.probe_base(), ms(11));
}

fn of(policies: &str) -> Rtt {
    Rtt::of(&policies.parse::<crate::Policies>().unwrap(), INITIAL_RTT)
}

/// A sample that arrives at `now`.
fn sample(rtt: &mut Rtt, now: u64, latest: u64) {
    rtt.on_sample(Sample::prompt(at(now), ms(latest)));
}

const PROBE_POLICIES: [&str; 5] =
    ["classic", "per-round", "per-round(variations=3)", "per-round(base=largest, variations=1)", "windowed"];

#[test]
fn rfc9002_6_2_2_before_a_sample_every_timer_waits_999_ms() {
    for policy in PROBE_POLICIES {
        assert_eq!(of(&format!("rtt={policy}")).probe_base(), ms(999), "{policy}");
    }
}

#[test]
fn every_timer_is_at_least_a_granularity_longer_than_a_steady_round_trip() {
    for policy in PROBE_POLICIES {
        let mut rtt = of(&format!("rtt={policy}"));
        for round in 1..200 {
            sample(&mut rtt, round * 10, 10);
        }
        assert_eq!(rtt.probe_base(), ms(11), "{policy}");
    }
}

/// recovery.md 1.2: smoothed 100 ms, variation 50 ms, and one round of 120, 140, 130 and 110 ms. The peer's 25 ms come
/// on top.
#[test]
fn one_round_gives_the_timers_of_the_published_comparison() {
    for (policy, base_micros) in [
        ("per-round", 293_125),
        ("per-round(variations=3)", 245_625),
        ("per-round(base=largest, variations=1)", 187_500),
        ("windowed", 187_500),
    ] {
        let mut rtt = of(&format!("rtt={policy}"));
        // A first sample of 100 ms leaves smoothed 100 and variation 50; its round ends with itself, so that the
        // vector's is the second.
        sample(&mut rtt, 100, 100);
        sample(&mut rtt, 200, 100);
        assert_eq!((rtt.smoothed, rtt.variation), (ms(100), Duration::from_micros(37_500)));
        if let Some(per_round) = &mut rtt.per_round {
            per_round.variation = ms(50);
        }
        for (now, latest) in [(210, 120), (240, 140), (270, 130), (310, 110)] {
            sample(&mut rtt, now, latest);
        }
        assert_eq!((rtt.smoothed, rtt.variation), (Duration::from_micros(103_125), Duration::from_micros(47_500)));
        assert_eq!(rtt.probe_base(), Duration::from_micros(base_micros), "{policy}");
    }
}

#[test]
fn within_a_round_the_timer_follows_a_single_sample_that_is_larger() {
    for policy in ["per-round", "per-round(variations=3)", "windowed"] {
        let mut rtt = of(&format!("rtt={policy}"));
        for round in 1..100 {
            sample(&mut rtt, round * 100, 100);
        }
        assert_eq!(rtt.probe_base(), ms(101));
        sample(&mut rtt, 9_950, 400);
        assert!(rtt.probe_base() >= ms(400), "{policy}");
    }
}

/// A hundred ACKs per round trip while the round-trip time climbs: the classic variation collapses, that of a round
/// does not.
#[test]
fn dense_samples_collapse_the_classic_variation_and_not_that_of_a_round() {
    let [mut classic, mut per_round] = ["classic", "per-round"].map(|policy| of(&format!("rtt={policy}")));
    for step in 0..1_000u64 {
        // 20 ms up and down again, over ten round trips of 100 ms.
        let latest = Duration::from_micros(100_000 + 40 * step.min(1_000 - step));
        for rtt in [&mut classic, &mut per_round] {
            rtt.on_sample(Sample::prompt(at(100 + step), latest));
        }
    }
    assert!(classic.variation < Duration::from_micros(500), "{:?}", classic.variation);
    assert!(per_round.variation > ms(2), "{:?}", per_round.variation);
}

#[test]
fn the_largest_sample_ever_is_the_peak_of_slow_start_and_a_window_forgets_it() {
    let mut timers = ["per-round(base=largest, variations=1)", "windowed"].map(|policy| of(&format!("rtt={policy}")));
    for rtt in &mut timers {
        sample(rtt, 100, 100);
        sample(rtt, 300, 200);
        sample(rtt, 900, 600);
        rtt.on_start_exit();
        for round in 0..30 {
            sample(rtt, 1_000 + 100 * round, 100);
        }
    }
    let [ever, windowed] = timers.map(|rtt| rtt.probe_base());
    assert!(ever > ms(600), "{ever:?}");
    assert!(windowed < ms(110), "{windowed:?}");
}

#[test]
fn a_windowed_timer_remembers_as_many_round_trips_as_it_is_told() {
    let mut rtt = of("rtt=windowed");
    rtt.set_memory(10);
    sample(&mut rtt, 100, 100);
    sample(&mut rtt, 400, 300);
    for round in 1..=9 {
        sample(&mut rtt, 400 + 100 * round, 100);
        assert!(rtt.probe_base() >= ms(300), "{round}");
    }
    sample(&mut rtt, 1_400, 100);
    assert!(rtt.probe_base() < ms(200));
}

#[test]
fn persistent_congestion_is_measured_alike_under_every_timer() {
    for policy in PROBE_POLICIES {
        let mut rtt = of(&format!("rtt={policy}"));
        sample(&mut rtt, 100, 100);
        assert_eq!(rtt.persistence_base(), ms(300), "{policy}");
    }
}

#[test]
fn pacing_and_start_exit_have_estimates_of_their_own() {
    let feed = |policies: &str| {
        let mut rtt = of(policies);
        for (now, latest) in [(100, 100), (110, 140), (120, 160), (130, 120)] {
            sample(&mut rtt, now, latest);
        }
        rtt
    };
    let classic = feed("").smoothed;
    for (policies, paced, exit) in [
        ("", classic, ms(120)),
        ("pacing-rtt=classic, exit-rtt=classic", classic, classic),
        ("pacing-rtt=short, exit-rtt=short", ms(100), ms(100)),
        ("pacing-rtt=per-round, exit-rtt=per-round", ms(100), ms(100)),
        ("rtt=per-round(variations=3)", ms(100), ms(120)),
        ("rtt=per-round(variations=3), pacing-rtt=classic", classic, ms(120)),
        ("rtt=windowed, pacing-rtt=short, exit-rtt=classic", ms(100), classic),
    ] {
        let rtt = feed(policies);
        assert_eq!((rtt.paced, rtt.exit), (paced, exit), "{policies}");
    }
}

/// An interruption makes the average a multiple of what the path takes afterwards. A window spread over such an average
/// would leave at a fraction of its rate, for as many round trips as the average needs to come down.
#[test]
fn after_an_interruption_a_window_is_spread_over_two_round_trips_at_most() {
    let mut rtt = of("");
    for now in [10, 20, 30] {
        sample(&mut rtt, now, 10);
    }
    sample(&mut rtt, 1_000, 1_000);
    assert_eq!(rtt.paced, rtt.smoothed, "while the newest sample is a long one, it counts");
    sample(&mut rtt, 1_001, 10);
    assert!(rtt.smoothed > ms(100));
    assert_eq!(rtt.paced, ms(20));
    let mut smoothed = of("pacing-rtt=smoothed");
    for (now, latest) in [(10, 10), (1_000, 1_000), (1_001, 10)] {
        sample(&mut smoothed, now, latest);
    }
    assert_eq!(smoothed.paced, smoothed.smoothed);
}

proptest! {
    #[test]
    fn the_average_stays_between_the_extremes(samples in proptest::collection::vec((1u64..5_000_000_000, 0u64..100_000_000), 1..50)) {
        let mut rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
        let (mut low, mut high) = (Duration::MAX, Duration::ZERO);
        for (latest, delay) in samples {
            let latest = Duration::from_nanos(latest);
            feed(&mut rtt, latest, Duration::from_nanos(delay));
            low = low.min(latest);
            high = high.max(latest);
            prop_assert_eq!(rtt.min, low);
            // Rounding down may lose a nanosecond per step.
            prop_assert!(rtt.smoothed + Duration::from_nanos(8) >= low && rtt.smoothed <= high);
            prop_assert!(rtt.adjusted >= rtt.min);
        }
    }

    #[test]
    fn no_sample_overflows(latest: u64, delay: u64, policy in prop::sample::select(PROBE_POLICIES.to_vec())) {
        let mut rtt = of(&format!("rtt={policy}, pacing-rtt=short, exit-rtt=per-round"));
        feed(&mut rtt, Duration::from_nanos(latest), Duration::ZERO);
        feed(&mut rtt, Duration::MAX, Duration::from_nanos(delay));
        feed(&mut rtt, Duration::from_nanos(latest), Duration::MAX);
        let _ = (rtt.probe_base(), rtt.persistence_base(), rtt.loss_delay());
    }

    /// Whatever the samples: the timers of a round are never below what the last samples took.
    #[test]
    fn no_timer_is_below_the_largest_sample_of_the_round(
        policy in prop::sample::select(PROBE_POLICIES[1..].to_vec()),
        samples in proptest::collection::vec(1u64..2_000, 1..100),
    ) {
        let mut rtt = of(&format!("rtt={policy}"));
        let mut now = 5_000;
        for latest in samples {
            now += 10;
            sample(&mut rtt, now, latest);
            let is_round_open = rtt.per_round.is_some_and(|per_round| per_round.largest_of_round() > Duration::ZERO);
            prop_assert!(!is_round_open || rtt.probe_base() >= ms(latest));
            prop_assert!(rtt.probe_base() > rtt.smoothed);
        }
    }
}
