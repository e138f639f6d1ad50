//! The round-trip estimators on whole paths: what each of the three consumers does differently.

use crate::common::world::{Link, World};
use crate::common::{Stage, at, ms, of_rfc9002, rfc9002};
use thalweg_recovery::trace::State;
use thalweg_recovery::{Config, SpaceId};
use thalweg_units::Duration;

const DATA: SpaceId = SpaceId::DATA;

#[test]
fn the_probe_timer_is_that_of_the_policy() {
    let timer = |policy: &str| {
        let mut stage = Stage::sampled(&format!("rtt={policy}"));
        stage.send(1);
        stage.wait(160);
        stage.ack(1..=1);
        stage.send(1);
        (stage.recovery.timer().unwrap().saturating_since(stage.now) - ms(25)).as_micros()
    };
    // After 100 and 160 ms. Sampled at each, or as one round of 130 ms with extremes 0 and 60 ms from the average.
    let (smoothed, variation) = (103_750, 52_500);
    assert_eq!(timer("classic"), 107_500 + 4 * variation);
    assert_eq!(timer("per-round"), smoothed + 4 * variation);
    assert_eq!(timer("per-round(variations=3)"), smoothed + 3 * variation);
    assert_eq!(timer("per-round(base=largest, variations=1)"), 160_000 + variation);
    assert_eq!(timer("windowed"), 160_000 + variation);
}

#[test]
fn rfc9002_6_2_1_the_timer_of_every_policy_doubles_and_includes_the_ack_delay() {
    for policy in
        ["classic", "per-round", "per-round(variations=3)", "per-round(base=largest, variations=1)", "windowed"]
    {
        let mut stage = Stage::sampled(&format!("rtt={policy}"));
        stage.send(1);
        assert_eq!(stage.recovery.pto(DATA), stage.recovery.pto(SpaceId::Handshake) + ms(25), "{policy}");
        let base = stage.recovery.pto(DATA);
        stage.expire();
        assert_eq!(stage.recovery.timer(), Some(stage.now + base * 2), "{policy}");
    }
}

#[test]
fn pacing_spreads_a_window_over_the_estimate_of_its_policy() {
    let rate = |policies: &str| {
        let policies = of_rfc9002(&format!("start=standard, {policies}"));
        let mut stage = Stage::new(Config { policies, ecn: false, ..rfc9002() }, false);
        stage.recovery.set_handshake_confirmed(at(0));
        for (number, latest) in [100, 300].into_iter().enumerate() {
            stage.send(1);
            stage.wait(latest);
            stage.ack(number as u64..=number as u64);
        }
        // Two windows per round trip.
        stage.window() as f64 * 16.0 / stage.path().pacing_rate().unwrap().bps() as f64
    };
    for (policies, seconds) in [
        ("", 0.125),
        ("pacing-rtt=classic", 0.125),
        ("pacing-rtt=short", 0.1),
        // The first round ends with the second sample: 7/8 of 100 and 1/8 of 200.
        ("pacing-rtt=per-round", 0.1125),
        ("rtt=per-round(variations=3)", 0.1125),
        ("rtt=per-round(variations=3), pacing-rtt=classic", 0.125),
    ] {
        assert!((rate(policies) - seconds).abs() < 0.000_1, "{policies}: {}", rate(policies));
    }
}

/// The round-trip time rises for a single round: enough for HyStart++ as it is, not for one that looks at the smallest
/// of eight samples.
#[test]
fn the_start_judges_by_the_estimate_of_its_policy() {
    let state = |policies: &str| {
        let mut stage = Stage::sampled(&format!("start=hystart++, {policies}"));
        for latest in [100, 100, 140] {
            let first = stage.next[2];
            let count = stage.fill();
            assert!(count >= 8);
            stage.wait(latest);
            for number in first..first + count {
                stage.ack(first..=number);
                stage.now += Duration::from_micros(1_000 / count);
            }
        }
        stage.path().state()
    };
    assert_eq!(state(""), State::ConservativeSlowStart);
    for policy in ["short", "classic", "per-round"] {
        assert_eq!(state(&format!("exit-rtt={policy}")), State::SlowStart, "{policy}");
    }
}

/// A link that holds everything for 200 ms every two seconds: the classic timer takes each for an outage, the windowed
/// one only the first.
#[test]
fn a_windowed_timer_does_not_take_the_same_peak_for_silence_twice() {
    let probes = |policy: &str| {
        let mut link = Link::new(10_000_000, ms(25), 100_000);
        link.holds = (1..10).map(|cycle| (at(2_000 * cycle), ms(200))).collect();
        let mut world = World::new(&format!("controller=new-reno, rtt={policy}"), link);
        world.run_for(20_000);
        world.probes.len()
    };
    let (classic, windowed) = (probes("classic"), probes("windowed"));
    assert!(classic >= 7, "{classic}");
    assert!(windowed <= 2, "{windowed}");
}
