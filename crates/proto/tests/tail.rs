//! Second copies of what ends a transfer: `tail=repeat`.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::time::Duration;

use harness::{Link, Setup, World};
use thalweg_proto::{Side, TransportConfig, streams::Dir};

/// One way over a far path.
const FAR: Duration = Duration::from_millis(100);
/// Bytes per second of the link: a round trip holds 250 kB.
const RATE: u64 = 1_250_000;
const LEN: u64 = 1_000_000;
/// Of the server's datagrams, one that is lost in the middle.
const EARLY: u64 = 300;

fn setup(tail: &str, lost: Vec<u64>) -> Setup {
    let config = || {
        let policies = format!("tail={tail}").parse().unwrap();
        TransportConfig { policies, ..TransportConfig::default() }
    };
    let link = Link {
        rate: RATE,
        meddle: Box::new(move |packet, _| {
            let is_lost = !packet.is_from_client() && lost.contains(&packet.ordinal);
            if is_lost { vec![] } else { vec![(Duration::ZERO, packet)] }
        }),
        ..Link::new(FAR)
    };
    Setup { client: config(), server: config(), null: true, link, ..Setup::default() }
}

/// How long a download takes, and the server's datagrams and bytes until a while later.
fn download(tail: &str, lost: Vec<u64>) -> (Duration, u64, u64) {
    let mut world = World::new(setup(tail, lost));
    let handle = world.handshake();
    let took = world.transfer(handle, true, LEN, Duration::from_secs(60)).unwrap();
    world.run_for(Duration::from_secs(2));
    (took, world.server.sent, world.server.sent_bytes)
}

/// The ordinal of the last datagram with data, after a loss in the middle.
fn last() -> u64 {
    let mut world = World::new(setup("once", vec![EARLY]));
    let handle = world.handshake();
    world.transfer(handle, true, LEN, Duration::from_secs(60)).unwrap();
    world.server.sent - 1
}

#[test]
fn a_loss_among_the_last_datagrams_costs_less_than_half_a_round_trip() {
    let last = last();
    let clean = download("once", vec![EARLY]).0;
    let mut saved = 0;
    for back in 1..12 {
        let lost = vec![EARLY, last - back];
        let (once, repeat) = (download("once", lost.clone()).0, download("repeat", lost).0);
        let late = repeat.saturating_sub(clean);
        assert!(late <= FAR, "{late:?} late with the datagram {back} before the last lost");
        saved += u32::from(once >= repeat + FAR);
    }
    assert!(saved >= 8, "a repair takes a round trip: {saved} of 11");
}

#[test]
fn the_copies_are_at_most_what_the_path_holds() {
    let (once, _, plain) = download("once", vec![EARLY]);
    let (repeat, _, bytes) = download("repeat", vec![EARLY]);
    assert!(bytes > plain, "nothing was copied");
    // 200 ms at 1.25 MB/s, and some acknowledgments.
    assert!(bytes <= plain + 250_000 + 20_000, "{} bytes more", bytes - plain);
    assert!(repeat <= once + Duration::from_millis(2), "{repeat:?} instead of {once:?}");
}

#[test]
fn before_a_loss_nothing_is_copied() {
    assert_eq!(download("repeat", vec![]), download("once", vec![]));
}

/// Data that wait for the peer's credit are not the tail, though their end is written.
#[test]
fn with_little_credit_only_the_end_is_copied() {
    let bytes = |tail: &str| {
        let mut setup = setup(tail, vec![EARLY]);
        setup.client.streams.receive_window = 60_000;
        setup.client.streams.max_receive_window = 60_000;
        let mut world = World::new(setup);
        let handle = world.handshake();
        world.transfer(handle, true, LEN, Duration::from_secs(60)).unwrap();
        world.run_for(Duration::from_secs(2));
        world.server.sent_bytes
    };
    let (plain, repeated) = (bytes("once"), bytes("repeat"));
    assert!(repeated <= plain + 60_000 + 20_000, "{} bytes more", repeated - plain);
}

#[test]
fn what_may_go_on_is_not_copied() {
    let sent = |tail: &str| {
        let mut world = World::new(setup(tail, vec![EARLY]));
        let handle = world.handshake();
        world.transfer(handle, true, LEN, Duration::from_secs(60)).unwrap();
        world.run_for(Duration::from_secs(2));
        let before = world.server.sent_bytes;
        // A source that leaves its stream open.
        let stream = world.server_conn().streams().open(Dir::Uni).unwrap();
        assert_eq!(stream.initiator(), Side::Server);
        world.server_conn().streams().write(stream, &[7; 5_000]).unwrap();
        world.pump();
        world.run_for(Duration::from_secs(2));
        world.server.sent_bytes - before
    };
    let (repeat, once) = (sent("repeat"), sent("once"));
    // The 5,000 bytes leave once. Headers may differ: copies have used up packet numbers.
    assert!(repeat.abs_diff(once) < 100 && once < 6_000, "{repeat} and {once} bytes");
}
