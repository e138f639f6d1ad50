//! Streams from end to end in virtual time, over good links and bad ones.

use crate::harness;

use std::time::Duration;

use harness::{Link, Setup, World};

#[test]
fn a_handshake_takes_one_round_trip_and_is_confirmed_in_two() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let stats = world.client_conn(handle).stats();
    assert_eq!(stats.handshake_time, Some(Duration::from_millis(40)));
    assert!(world.now.as_nanos() <= 1_000_000_000 + 85_000_000, "{:?}", world.now);
}

#[test]
fn bytes_arrive_in_both_directions() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    for download in [true, false] {
        let took = world.transfer(handle, download, 1_000_000, Duration::from_secs(30));
        assert!(took.is_some(), "download {download}: {:?} {:?}", world.client_error(), world.server_error());
    }
}

#[test]
fn bytes_arrive_over_a_link_that_loses_ten_percent() {
    for seed in 0..10 {
        let link = Link::lossy(Duration::from_millis(20), 10);
        let mut world = World::new(Setup { seed, link, ..Setup::default() });
        let handle = world.handshake();
        let took = world.transfer(handle, true, 300_000, Duration::from_secs(120));
        assert!(took.is_some(), "seed {seed}: {:?} {:?}", world.client_error(), world.server_error());
    }
}
