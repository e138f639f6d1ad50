//! A client that has been there before: with a session ticket, an address token and what was learned about the path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thalweg_proto::config::{SavedPathStore, TokenStore};
use thalweg_proto::crypto::deterministic::named_generator;
use thalweg_proto::recovery::SavedPath;
use thalweg_proto::token::TokenKey;
use thalweg_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig, Route, ServerConfig,
};
use thalweg_units::{Duration, Instant};

use super::DATE;
use crate::plan::SavedState;

/// Datagrams that a handshake takes at most, there being nothing to lose them.
const MOST_DATAGRAMS: usize = 1_000;

/// What the client has from an earlier connection.
#[derive(Debug)]
pub(super) struct Before {
    key: Arc<TokenKey>,
    client: SocketAddr,
    saved: SavedState,
    seed: [u8; 32],
    /// Tokens taken so far.
    taken: AtomicU64,
}

impl Before {
    pub(super) fn new(key: Arc<TokenKey>, client: SocketAddr, saved: SavedState, seed: [u8; 32]) -> Before {
        Before { key, client, saved, seed, taken: AtomicU64::new(0) }
    }

    /// Seconds since 1970 when the earlier connection ended.
    fn ended(&self) -> u64 {
        DATE.saturating_sub(self.saved.path.map_or(0, |saved| saved.age.as_secs()))
    }
}

impl TokenStore for Before {
    fn insert(&self, _: &str, _: Vec<u8>) {}

    fn take(&self, _: &str) -> Option<Vec<u8>> {
        let mut chance = named_generator(&self.seed, "token", self.taken.fetch_add(1, Ordering::Relaxed));
        let (ip, ended) = (self.client.ip(), self.ended());
        Some(match &self.saved.path {
            Some(saved) => self.key.seal_saved_path(&mut chance, ip, ended, saved),
            None => self.key.seal_new(&mut chance, ip, ended),
        })
    }
}

impl SavedPathStore for Before {
    fn insert(&self, _: &str, _: SocketAddr, _: SavedPath) {}

    fn take(&self, _: &str, _: SocketAddr) -> Option<SavedPath> {
        self.saved.path
    }
}

/// A handshake before the run, without a network: the client gets the tickets for 0-RTT.
pub(super) fn shake_hands(now: Instant, client: ClientConfig, server: ServerConfig) -> Result<(), String> {
    let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 50_000).into(), ([10, 1, 0, 1], 443).into()];
    let endpoint = |server| Endpoint::new(EndpointConfig::new([0; 32]), server);
    let mut ends = [endpoint(None), endpoint(Some(Arc::new(server)))];
    let opened = ends[0].connect(now, client, addresses[1], "localhost").map_err(|error| error.to_string())?;
    let mut connections: [Option<(ConnectionHandle, Connection)>; 2] = [Some(opened), None];
    let (mut buf, mut reply) = (Vec::new(), Vec::new());
    let mut now = now;
    for _ in 0..MOST_DATAGRAMS {
        let mut is_quiet = true;
        for side in 0..2 {
            let Some((_, connection)) = &mut connections[side] else { continue };
            let Some(transmit) = connection.poll_transmit(now, 1, &mut buf) else { continue };
            is_quiet = false;
            let peer = 1 - side;
            let meta =
                DatagramMeta { remote: addresses[side], local_ip: Some(addresses[peer].ip()), ecn: transmit.ecn };
            let datagram = &mut buf[..transmit.size];
            if let Route::NewConnection(handle, connection) = ends[peer].handle(now, DATE, &meta, datagram, &mut reply)
            {
                connections[peer] = Some((handle, *connection));
            }
            if let Some((_, connection)) = &mut connections[peer] {
                connection.handle_datagram(now, &meta, datagram);
            }
        }
        let connected = connections.iter().flatten().filter(|(_, connection)| connection.is_confirmed()).count();
        if connected == 2 && is_quiet {
            let Some((_, client)) = &mut connections[0] else { break };
            client.close(now, 0, Bytes::new());
            return Ok(());
        }
        if is_quiet {
            // Whatever waits for a time: acknowledgments that are held back.
            now += Duration::from_millis(1);
            connections.iter_mut().flatten().for_each(|(_, connection)| connection.handle_timeout(now));
        }
    }
    Err("the handshake before the run did not come to an end".to_owned())
}
