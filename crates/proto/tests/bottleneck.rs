//! A bulk download through a bottleneck, judged against the link's floor and over seeds.

use crate::harness;

use std::time::Duration;

use harness::{Link, Pump, Setup, World};
use rand_core::Rng;
use thalweg_proto::config::TransportConfig;
use thalweg_proto::connection::ConnectionStats;
use thalweg_proto::streams::Dir;

const RATE: u64 = 50_000_000 / 8;
const SIZE: u64 = 5_000_000;

/// Downloads `SIZE` bytes over 50 Mbps, 50 ms, a queue of one BDP, with a share (per mille) of packets `late`.
fn download(policies: &str, seed: u64, per_mille: u32, late: Duration) -> (Duration, ConnectionStats) {
    let link = Link {
        rate: RATE,
        queue: RATE / 20,
        meddle: Box::new(move |packet, rng| {
            let extra = if rng.next_u32() % 1000 < per_mille { late } else { Duration::ZERO };
            vec![(extra, packet)]
        }),
        ..Link::new(Duration::from_millis(25))
    };
    let server =
        TransportConfig { policies: policies.parse().expect("they can be read"), ..TransportConfig::default() };
    let mut world = World::new(Setup { seed, link, server, ..Setup::default() });
    let handle = world.handshake();
    let took = world.transfer(handle, true, SIZE, Duration::from_secs(300)).expect("the download ends");
    (took, world.server_conn().stats())
}

/// Serialisation of payload and headers, and the request's round trip.
fn floor() -> Duration {
    Duration::from_nanos(SIZE * 1_000_000_000 / RATE * 1452 / 1420) + Duration::from_millis(50)
}

#[test]
fn a_clean_link_is_used_within_a_third_of_its_floor() {
    let (took, stats) = download("", 1, 0, Duration::ZERO);
    eprintln!("took {took:?}, floor {:?}, {:?}", floor(), stats);
    assert!(took < floor() * 4 / 3, "{took:?} against a floor of {:?}", floor());
}

#[test]
fn reordering_without_loss_is_recognised_as_spurious_and_undone() {
    let late = Duration::from_millis(5);
    let (_, stats) = download("reordering=fixed", 1, 50, late);
    eprintln!("{stats:?}");
    assert!(stats.path.packets_spurious > 0);
    assert!(stats.path.undos > 0, "{:?}", stats.path);
    // As shipped, next to nothing has to be taken back.
    let (_, shipped) = download("", 1, 50, late);
    assert!(shipped.path.packets_spurious * 20 < stats.path.packets_spurious, "{:?}", shipped.path);
}

/// From the end of the start on, at every tenth of a second: what a user would read at any time, not only at the end.
#[test]
fn the_delivery_rate_is_that_of_the_link_under_bulk() {
    assert_rate_is_found("ack-rate=off", 0.05);
    // With a sixteenth or an eighth of the window in each acknowledgment, a reduction shows.
    assert_rate_is_found("", 0.15);
}

fn assert_rate_is_found(policies: &str, most: f64) {
    const RATE: u64 = 10_000_000 / 8;
    let mut readings = Vec::new();
    for (rtt_ms, queue_ms) in [(20, 40), (50, 50), (50, 200), (100, 100)] {
        let link = Link { rate: RATE, queue: RATE * queue_ms / 1000, ..Link::new(Duration::from_millis(rtt_ms / 2)) };
        let transport =
            thalweg_proto::TransportConfig { policies: policies.parse().expect("policies"), ..Default::default() };
        let mut world = World::new(Setup { server: transport, link, ..Setup::default() });
        let handle = world.handshake();
        assert_eq!(world.client_conn(handle).stats().delivery_rate.map(|rate| rate.bps() > RATE * 8), Some(false));
        let stream = world.client_conn(handle).streams().open(Dir::Bi).expect("a stream");
        let mut pump = Pump::new(stream, true, 12 * RATE);
        let (started, mut at) = (world.now, world.now + Duration::from_secs(3));
        pump.poke(&mut world, handle);
        world.pump();
        let done = world.run_until(Duration::from_secs(60), |world| {
            if world.now >= at && world.now < started + Duration::from_secs(11) {
                at += Duration::from_millis(100);
                let stats = world.server_conn().stats();
                let estimate = stats.delivery_rate.expect("there are samples").bps();
                readings.push((rtt_ms, queue_ms, world.now.saturating_since(started), estimate));
            }
            pump.poke(world, handle)
        });
        assert!(done);
    }
    assert!(readings.len() > 300, "{}", readings.len());
    let off = |estimate: u64| (estimate as f64 / (RATE * 8) as f64 - 1.0).abs();
    let worst = readings.iter().max_by(|a, b| off(a.3).total_cmp(&off(b.3))).expect("there are readings");
    eprintln!("worst of {}: RTT and queue in ms, time, bps: {worst:?}", readings.len());
    assert!(off(worst.3) < most, "RTT and queue in ms, time, bps: {worst:?}");
}

#[test]
fn the_statistics_tell_state_and_threshold() {
    let link = Link { rate: RATE, queue: RATE / 20, ..Link::new(Duration::from_millis(25)) };
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    let before = world.server_conn().stats();
    assert_eq!((before.congestion_state.label(), before.ssthresh), ("application_limited", None));
    world.transfer(handle, true, SIZE, Duration::from_secs(300)).expect("the download ends");
    let after = world.server_conn().stats();
    assert!(after.ssthresh.is_some_and(|ssthresh| ssthresh <= after.path.max_window), "{after:?}");
}
