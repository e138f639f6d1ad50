//! A bulk download through a bottleneck, judged against the link's floor and over seeds.

mod harness;

use std::time::Duration;

use harness::{Link, Setup, World};
use rand_core::Rng;
use thalweg_proto::config::TransportConfig;
use thalweg_proto::connection::ConnectionStats;

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
