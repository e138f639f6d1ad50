//! The same seed gives the same run, to the last event: with real TLS and without encryption, at any hour of the clock.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Link, Setup, World, watch};
use rand_core::Rng;
use thalweg_proto::event_hash::EventHash;
use thalweg_units::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// 10 Mbps, 20 ms each way, 2 % loss, 10 % of the datagrams up to 15 ms late.
fn bad_link() -> Link {
    Link {
        rate: 1_250_000,
        queue: 60_000,
        meddle: Box::new(|packet, rng| match rng.next_u32() % 100 {
            0 | 1 => vec![],
            2..12 => vec![(Duration::from_micros(u64::from(rng.next_u32() % 15_000)), packet)],
            _ => vec![(Duration::ZERO, packet)],
        }),
        ..Link::new(Duration::from_millis(20))
    }
}

/// A transfer each way and a close.
fn live(world: &mut World) {
    let handle = world.handshake();
    for download in [true, false] {
        let took = world.transfer(handle, download, 400_000, 60 * SECOND);
        assert!(took.is_some(), "{:?} {:?}", world.client_error(), world.server_error());
    }
    let now = world.now;
    world.client_conn(handle).close(now, 0, bytes::Bytes::new());
    world.pump();
    world.run_for(60 * SECOND);
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
}

/// The wire and decisions hashes of a life, and how many events went in.
fn hash(seed: u64, null: bool, link: Link) -> (u128, u128, u64) {
    let hash = EventHash::new();
    live(&mut World::new(Setup { seed, null, link, observer: Some(Arc::new(hash.clone())), ..Setup::default() }));
    (hash.wire(), hash.decisions(), hash.events())
}

#[test]
fn the_same_seed_gives_the_same_events_at_the_same_times() {
    for seed in [1, 2, 3] {
        for link in [bad_link, || Link::new(Duration::from_millis(20))] {
            let first = hash(seed, false, link());
            assert!(first.1 > 1000, "only {} events", first.1);
            assert_eq!(first, hash(seed, false, link()), "seed {seed}");
        }
    }
}

#[test]
fn the_null_cipher_gives_the_events_of_real_tls() {
    for seed in [1, 2, 3] {
        assert_eq!(hash(seed, false, bad_link()), hash(seed, true, bad_link()), "seed {seed}");
    }
}

#[test]
fn another_seed_gives_other_events() {
    let hashes = [1, 2, 3, 4].map(|seed| hash(seed, true, bad_link()).0);
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash));
    }
}

/// All events in words, with times counted from the origin.
fn log(seed: u64, origin: Instant) -> Vec<String> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let shared = log.clone();
    let observer = watch(move |side, now, event| {
        shared.lock().unwrap().push(format!("{:?} {side:?} {event:?}", now.saturating_since(origin)));
    });
    live(&mut World::new(Setup { seed, link: bad_link(), origin, observer: Some(observer), ..Setup::default() }));
    std::mem::take(&mut *log.lock().unwrap())
}

/// Recovery's notes, N6: an implementation once stood still when a 32-bit clock wrapped.
#[test]
fn the_origin_of_the_clock_does_not_matter() {
    let nanos = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let reference = log(5, nanos(1000));
    for origin in [
        Instant::ZERO,
        Instant::from_nanos(1),
        nanos((1 << 32) - 100),
        nanos((1 << 31) - 100),
        Instant::from_nanos((1 << 32) - 100),
        Instant::from_nanos((1 << 63) - 100_000_000),
    ] {
        let shifted = log(5, origin);
        let differs = reference.iter().zip(&shifted).find(|(a, b)| a != b);
        assert_eq!(differs, None, "from {origin:?}");
        assert_eq!(reference.len(), shifted.len(), "from {origin:?}");
    }
}
