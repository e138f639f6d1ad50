//! Hooks into a rustls session (key log, session and ticket stores), made to depend on that session's QUIC version.
//!
//! - Traffic secrets: passed to the key log, from where a session that was switched to another version takes them.
//! - Remembered sessions: those of one version must not be resumed in another (RFC 9369 section 5), nor those of a
//!   server with other limits: 0-RTT data would be sent within limits that no longer hold (RFC 9000 section 7.4.1).
//!
//! rustls calls back without saying which session it runs, so a session leaves word in a thread-local before it lets
//! rustls run.

use std::cell::RefCell;
use std::sync::Arc;

use ::rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use ::rustls::pki_types::ServerName;
use ::rustls::server::{ProducesTickets, StoresServerSessions};
use ::rustls::{KeyLog, NamedGroup};

use super::derive::Secret;
use crate::version::Version;

/// The traffic secrets of a handshake, client's and server's.
#[derive(Copy, Clone, Default)]
pub(super) struct Captured {
    pub(super) handshake: [Option<Secret>; 2],
    pub(super) one_rtt: [Option<Secret>; 2],
}

/// What a remembered session is good for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Bond {
    pub(super) version: Version,
    /// A fingerprint of the limits a server announces; 0 for a client.
    pub(super) limits: u64,
}

impl Bond {
    const LEN: usize = 4 + 8;

    fn bytes(self) -> [u8; Bond::LEN] {
        let mut bytes = [0; Bond::LEN];
        bytes[..4].copy_from_slice(&self.version.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.limits.to_be_bytes());
        bytes
    }
}

struct Running {
    bond: Bond,
    captured: Option<Captured>,
}

thread_local! {
    static RUNNING: RefCell<Running> = const {
        RefCell::new(Running { bond: Bond { version: Version::V1, limits: 0 }, captured: None })
    };
}

/// Lets rustls run for a session with this bond, and adds the traffic secrets that come up to `captured` if there is
/// one.
pub(super) fn run<R>(bond: Bond, captured: Option<&mut Captured>, f: impl FnOnce() -> R) -> R {
    let before = captured.as_ref().map(|captured| **captured);
    RUNNING.set(Running { bond, captured: before });
    let result = f();
    let after = RUNNING.with_borrow_mut(|running| running.captured.take());
    if let (Some(captured), Some(after)) = (captured, after) {
        *captured = after;
    }
    result
}

fn bond() -> Bond {
    RUNNING.with_borrow(|running| running.bond)
}

/// A key log that lets the running session listen in.
#[derive(Debug)]
pub(super) struct Tap(pub(super) Arc<dyn KeyLog>);

impl KeyLog for Tap {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        RUNNING.with_borrow_mut(|running| {
            let Some(captured) = &mut running.captured else {
                return;
            };
            let place = match label {
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut captured.handshake[0],
                "SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut captured.handshake[1],
                "CLIENT_TRAFFIC_SECRET_0" => &mut captured.one_rtt[0],
                "SERVER_TRAFFIC_SECRET_0" => &mut captured.one_rtt[1],
                _ => return,
            };
            *place = Secret::new(secret);
        });
        if self.0.will_log(label) {
            self.0.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        RUNNING.with_borrow(|running| running.captured.is_some()) || self.0.will_log(label)
    }
}

/// A client's memory of sessions, one per version.
#[derive(Debug)]
pub(super) struct ClientSessions {
    v1: ClientSessionMemoryCache,
    v2: ClientSessionMemoryCache,
}

impl ClientSessions {
    /// Remembers up to `servers` servers in each version.
    pub(super) fn new(servers: usize) -> Self {
        Self { v1: ClientSessionMemoryCache::new(servers), v2: ClientSessionMemoryCache::new(servers) }
    }

    fn running(&self) -> &ClientSessionMemoryCache {
        match bond().version {
            Version::V2 => &self.v2,
            _ => &self.v1,
        }
    }
}

impl ClientSessionStore for ClientSessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.running().set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.running().kx_hint(server_name)
    }

    // QUIC has no TLS 1.2 (RFC 9001 section 4.2).
    fn set_tls12_session(&self, _name: ServerName<'static>, _value: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _name: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.running().insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.running().take_tls13_ticket(server_name)
    }
}

/// Marks `session` with the running session's bond.
fn mark(session: &[u8]) -> Vec<u8> {
    [session, &bond().bytes()].concat()
}

/// Takes the mark off; `None` if it is of another bond.
fn unmark(mut session: Vec<u8>) -> Option<Vec<u8>> {
    let len = session.len().checked_sub(Bond::LEN)?;
    let same = session[len..] == bond().bytes();
    session.truncate(len);
    same.then_some(session)
}

/// A server's memory of sessions, each good only in the version and within the limits it comes from.
#[derive(Debug)]
pub(super) struct ServerSessions(pub(super) Arc<dyn StoresServerSessions>);

impl StoresServerSessions for ServerSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, mark(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).and_then(unmark)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).and_then(unmark)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}

/// A server's tickets, each good only in the version and within the limits it comes from.
#[derive(Debug)]
pub(super) struct Tickets(pub(super) Arc<dyn ProducesTickets>);

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(&mark(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher).and_then(unmark)
    }
}
