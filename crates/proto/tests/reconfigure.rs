//! A configuration for one client, chosen before its first datagram is handled.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{DATE, Setup, World};
use rustls::pki_types::UnixTime;
use thalweg_proto::{
    ConnectError, RetryPolicy, ServerConfig, TokenStore, TransportConfig, TransportErrorCode,
    crypto::deterministic::DeterministicServer,
    observe::{ObservedConnection, Observer, ObserverEvent, ObserverFactory},
    token::TokenKey,
    units::Instant,
};

const SECOND: Duration = Duration::from_secs(1);

/// A configuration that differs from the world's in everything that can differ for one client.
fn another(alpn: &[u8], observer: Option<Arc<dyn ObserverFactory>>) -> Arc<ServerConfig> {
    let date = UnixTime::since_unix_epoch(Duration::from_secs(DATE));
    let crypto = Arc::new(DeterministicServer::new([9; 32], &[alpn], date).unwrap());
    let mut config = ServerConfig::new(crypto, Arc::new(TokenKey::new(&[9; 32])));
    config.transport =
        Arc::new(TransportConfig { max_idle_timeout: Some(7 * SECOND), observer, ..TransportConfig::default() });
    config.migration = false;
    Arc::new(config)
}

#[test]
fn the_client_meets_the_configuration_chosen_for_it() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        let mut world = World::new(Setup {
            tweak_server: Box::new(move |config: &mut ServerConfig| config.retry = retry),
            ..Setup::default()
        });
        world.per_client = Some(another(b"test", None));
        let handle = world.handshake();
        let parameters = world.client_conn(handle).peer_transport_parameters();
        assert_eq!(parameters.max_idle_timeout, Some(7 * SECOND), "{retry:?}");
        assert!(parameters.disable_active_migration, "{retry:?}");
        let names =
            [world.client_conn(handle).original_destination_cid(), world.server_conn().original_destination_cid()];
        assert_eq!(names[0], names[1], "{retry:?}");
        assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some(), "{retry:?}");
    }
}

#[test]
fn tls_is_that_of_the_configuration_chosen_for_it() {
    let mut world = World::new(Setup::default());
    world.per_client = Some(another(b"another protocol", None));
    world.connect();
    assert!(world.run_until(5 * SECOND, |world| world.client_error().is_some()));
    let error = world.client_error().unwrap().to_string();
    assert!(error.contains(&TransportErrorCode::crypto(120).to_string()), "{error}");
}

/// The token that a client got last.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<Vec<u8>>>);

impl TokenStore for Kept {
    fn insert(&self, _: &str, token: Vec<u8>) {
        *self.0.lock().unwrap() = Some(token);
    }
    fn take(&self, _: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().take()
    }
}

/// The endpoint opens tokens before anybody chooses a configuration.
#[test]
fn tokens_for_later_connections_are_sealed_with_the_key_of_the_endpoint() {
    let mut world = World::new(Setup::default());
    world.client_config.tokens = Some(Arc::new(Kept::default()));
    world.per_client = Some(another(b"test", None));
    let mut validated = Vec::new();
    for _ in 0..2 {
        let handle = world.connect();
        world.run_until(5 * SECOND, |world| world.server.connections.len() == 1);
        validated.push(world.server_conn().is_address_validated());
        world.run_for(SECOND);
        let now = world.now;
        world.client_conn(handle).close(now, 0, Default::default());
        world.pump();
        world.run_for(20 * SECOND);
        assert!(world.server.connections.is_empty());
    }
    assert_eq!(validated, [false, true]);
}

#[test]
fn a_connection_that_has_begun_cannot_be_configured_any_more() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let now = world.now;
    let config = another(b"test", None);
    assert_eq!(world.server_conn().reconfigure(now, &config), Err(ConnectError::AlreadyBegun));
    assert_eq!(world.client_conn(handle).reconfigure(now, &config), Err(ConnectError::AlreadyBegun));
    assert!(world.transfer(handle, true, 10_000, 10 * SECOND).is_some(), "it goes on as before");
}

/// Counts observers that live, at present and at most.
#[derive(Debug, Default)]
struct Counted {
    alive: Arc<AtomicUsize>,
    most: AtomicUsize,
    made: AtomicUsize,
}

struct Alive(Arc<AtomicUsize>);

impl ObserverFactory for Counted {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        if connection.side.is_client() {
            return None;
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(self.alive.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(Box::new(Alive(self.alive.clone())))
    }
}

impl Observer for Alive {
    fn on_event(&mut self, _: Instant, _: &ObserverEvent<'_>) {}
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Two that write the same file at a time would spoil it.
#[test]
fn the_first_observer_is_gone_before_the_second_is_made() {
    let counted = Arc::new(Counted::default());
    let mut world = World::new(Setup { observer: Some(counted.clone()), ..Setup::default() });
    world.per_client = Some(another(b"test", Some(counted.clone())));
    world.handshake();
    assert_eq!(counted.made.load(Ordering::Relaxed), 2);
    assert_eq!(counted.most.load(Ordering::Relaxed), 1);
}
