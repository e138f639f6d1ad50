//! Versions: v2 from the start, a compatible upgrade by the server, a server that knows none of ours.

use crate::harness;

use std::time::Duration;

use harness::{Setup, World};
use thalweg_proto::version::Version;

fn check(setup: Setup, expected: Version) {
    let mut world = World::new(setup);
    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).version(), expected);
    assert_eq!(world.server_conn().version(), expected);
    assert!(world.transfer(handle, true, 100_000, Duration::from_secs(20)).is_some());
}

#[test]
fn version_2_works_from_the_first_flight_on() {
    let tweak_client = Box::new(|config: &mut thalweg_proto::ClientConfig| config.version = Version::V2);
    check(Setup { tweak_client, ..Setup::default() }, Version::V2);
}

#[test]
fn a_server_that_prefers_version_2_moves_the_client_there_without_a_round_trip() {
    let prefer = |config: &mut thalweg_proto::ServerConfig| config.preferred_versions = vec![Version::V2];
    check(Setup { tweak_server: Box::new(prefer), ..Setup::default() }, Version::V2);
    let mut world = World::new(Setup { tweak_server: Box::new(prefer), ..Setup::default() });
    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).stats().handshake_time, Some(Duration::from_millis(40)));
}

#[test]
fn without_a_preference_the_client_keeps_its_version() {
    check(Setup::default(), Version::V1);
}

#[test]
fn a_client_says_which_version_it_would_rather_use() {
    let tweak_client =
        Box::new(|config: &mut thalweg_proto::ClientConfig| config.preferred_versions = vec![Version::V2]);
    // A server without a preference of its own leaves the client where it began.
    check(Setup { tweak_client, ..Setup::default() }, Version::V1);
}
