//! Silence on whole paths: outages that lose everything, suspensions that hold everything, and how soon the sender is back.
#![allow(clippy::unwrap_used)]

mod common;

use common::world::{Link, World};
use common::{Stage, at, ms};
use thalweg_recovery::{SpaceId, Timeout};
use thalweg_units::{Duration, Instant};

/// 10 Mbps and 50 ms; nothing arrives that was sent in the `outage` seconds after the second.
fn outage(policies: &str, outage: Duration) -> World {
    let mut link = Link::new(10_000_000, ms(25), 65_000);
    link.lose = Box::new(move |_, sent| sent >= at(1_000) && sent < at(1_000) + outage);
    World::new(policies, link)
}

/// How long after the repair the first packet is delivered, and how many probe datagrams were sent into the dark.
fn after_outage(policy: &str, length: Duration) -> (Duration, u32) {
    let mut world = outage(&format!("probe={policy}"), length);
    let repaired = at(1_000) + length;
    world.run(u64::MAX, repaired);
    let before = world.delivered;
    world.run(before + 1, at(60_000));
    let first = world.deliveries.iter().find(|time| **time > repaired).copied().unwrap_or(Instant::FAR_FUTURE);
    let probes = world.probes.iter().filter(|(time, _)| *time < repaired).map(|(_, datagrams)| u32::from(*datagrams));
    (first.saturating_since(repaired), probes.sum())
}

#[test]
fn a_cap_bounds_the_silence_after_an_outage_and_doubling_does_not() {
    // Half a probe timeout of the path and the way there come on top of the gap.
    let slack = ms(100);
    let mut worst = [Duration::ZERO; 5];
    let policies = ["rfc", "capped/8", "capped/16", "capped/32", "ladder"];
    for step in 0..12 {
        for (worst, policy) in worst.iter_mut().zip(policies) {
            let (silence, _) = after_outage(policy, ms(1_000 + 1_977 * step));
            *worst = (*worst).max(silence);
        }
    }
    let [rfc, eighth, sixteenth, thirtysecond, ladder] = worst;
    assert!(rfc > Duration::from_secs(6), "{rfc:?}");
    assert!(eighth <= ms(3_750) + slack, "{eighth:?}");
    assert!(sixteenth <= ms(1_875) + slack, "{sixteenth:?}");
    assert!(thirtysecond <= ms(938) + slack, "{thirtysecond:?}");
    assert!(ladder <= ms(1_000) + slack, "{ladder:?}");
}

#[test]
fn a_ladder_spends_at_most_forty_datagrams_on_thirty_seconds_of_darkness() {
    let (_, ladder) = after_outage("ladder", ms(29_000));
    let (_, rfc) = after_outage("rfc", ms(29_000));
    assert!(ladder <= 40, "{ladder}");
    assert!(ladder > rfc);
}

/// A response whose last packet is lost: nothing later will be acknowledged, so only the probe timer can find out.
#[test]
fn rfc9002_6_2_the_loss_of_the_last_packet_is_repaired_by_a_probe_under_every_timer() {
    for policy in ["rfc", "capped/8", "capped/16", "capped/32", "ladder"] {
        let mut stage = Stage::sampled(&format!("probe={policy}"));
        stage.recovery.set_idle_timeout(Some(Duration::from_secs(30)));
        stage.send(5);
        let sent = stage.now;
        stage.wait(100);
        stage.ack(1..=4);
        assert_eq!(stage.lost(), []);
        assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Data, datagrams: 2 }, "{policy}");
        assert_eq!(stage.now, sent + stage.recovery.pto(SpaceId::Data), "{policy}: not a moment before");
        stage.send(2);
        stage.wait(100);
        stage.ack_ranges(&[6..=7, 1..=4]);
        assert_eq!(stage.lost(), [5], "{policy}");
    }
}
