//! The connect timeout: how long a client waits for the first answer, and what governs from then on.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::time::Duration;

use harness::{Link, Packet, Setup, World};
use thalweg_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, RetryPolicy, ServerConfig, TransportConfig,
};

const SECOND: Duration = Duration::from_secs(1);

/// A world whose client waits for an answer for so long, over a link of 20 ms that loses everything.
fn silent(timeout: Option<Duration>) -> World {
    with(timeout, Duration::from_secs(30), |_| {})
}

fn with(timeout: Option<Duration>, idle: Duration, server: impl FnOnce(&mut ServerConfig) + 'static) -> World {
    let transport = || TransportConfig { max_idle_timeout: Some(idle), ..TransportConfig::default() };
    let mut world = World::new(Setup {
        client: transport(),
        server: transport(),
        tweak_client: Box::new(move |config: &mut ClientConfig| config.connect_timeout = timeout),
        tweak_server: Box::new(server),
        link: Link::new(Duration::from_millis(20)),
        ..Setup::default()
    });
    let_through(&mut world, |_| false);
    world
}

/// From now on the link carries what `passes` says.
fn let_through(world: &mut World, mut passes: impl FnMut(&Packet) -> bool + 'static) {
    world.link.meddle =
        Box::new(move |packet, _| if passes(&packet) { vec![(Duration::ZERO, packet)] } else { vec![] });
}

fn is_confirmed(world: &World, handle: ConnectionHandle) -> bool {
    world.client.connections.get(&handle).is_some_and(Connection::is_confirmed)
}

/// When the client's connection ends, counted from its beginning, and why.
fn end_of(world: &mut World) -> (Duration, ConnectionError) {
    let begin = world.now;
    world.connect();
    world.run_until(100 * SECOND, |world| world.client_error().is_some());
    assert_eq!(world.client.endpoint.connections(), 0, "nothing is left of it");
    (world.now.saturating_since(begin), world.client_error().unwrap())
}

#[test]
fn without_any_answer_a_connection_ends_with_the_connect_timeout() {
    for seconds in [1, 10, 29] {
        let after = seconds * SECOND;
        assert_eq!(end_of(&mut silent(Some(after))), (after, ConnectionError::ConnectTimedOut { after }));
    }
}

#[test]
fn the_error_names_the_timeout_and_what_to_check() {
    let text = ConnectionError::ConnectTimedOut { after: 10 * SECOND }.to_string();
    assert_eq!(
        text,
        "no answer from the server within the connect timeout of 10 s; check its address and port, and that UDP gets \
         through"
    );
}

#[test]
fn without_a_connect_timeout_the_idle_timeout_ends_it() {
    for none in [None, Some(Duration::ZERO)] {
        let (took, error) = end_of(&mut silent(none));
        assert_eq!(error, ConnectionError::TimedOut);
        assert!(took >= 30 * SECOND, "{took:?}");
    }
}

#[test]
fn a_shorter_idle_timeout_comes_first() {
    let (took, error) = end_of(&mut with(Some(10 * SECOND), 5 * SECOND, |_| {}));
    assert_eq!(error, ConnectionError::TimedOut);
    assert!(took < 10 * SECOND, "{took:?}");
}

#[test]
fn an_outage_of_24_s_is_survived_without_a_connect_timeout_only() {
    for (timeout, survives) in [(None, true), (Some(10 * SECOND), false)] {
        let mut world = silent(timeout);
        let handle = world.connect();
        world.run_for(24 * SECOND);
        let_through(&mut world, |_| true);
        assert_eq!(world.run_until(10 * SECOND, |world| is_confirmed(world, handle)), survives);
        assert_eq!(world.client_error().is_none(), survives);
    }
}

/// The first datagram of the server is enough; then comes an outage that is longer than the connect timeout.
#[test]
fn after_an_answer_of_any_kind_the_idle_timeout_governs() {
    for (answer, policy) in [("a packet", RetryPolicy::Never), ("a Retry", RetryPolicy::Always)] {
        let mut world = with(Some(10 * SECOND), 30 * SECOND, move |config| config.retry = policy);
        let_through(&mut world, |packet| packet.ordinal == 0);
        let handle = world.connect();
        world.run_for(20 * SECOND);
        assert_eq!(world.client_error(), None, "{answer}");
        let_through(&mut world, |_| true);
        assert!(world.run_until(10 * SECOND, |world| is_confirmed(world, handle)), "{answer}: no handshake");
    }
}

#[test]
fn what_nobody_can_open_is_no_answer() {
    let mut world = silent(Some(10 * SECOND));
    world.link.meddle = Box::new(|mut packet, _| {
        if !packet.is_from_client() {
            packet.bytes.iter_mut().skip(50).for_each(|byte| *byte ^= 0x55);
        }
        vec![(Duration::ZERO, packet)]
    });
    let after = 10 * SECOND;
    assert_eq!(end_of(&mut world), (after, ConnectionError::ConnectTimedOut { after }));
    assert!(world.client.received_bytes > 1200, "the server answered");
}
