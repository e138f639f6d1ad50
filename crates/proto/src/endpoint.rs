//! The endpoint: routes datagrams to connections, admits new ones, and sends stateless replies.

use std::{collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustc_hash::FxHashMap;
use slab::Slab;
use thalweg_recovery::{DataSpace, Ecn};
use thalweg_units::Instant;

use crate::{
    Side,
    cid::{CidGenerator, ConnectionId, RandomCid, ResetToken},
    config::{ClientConfig, ConnectError, RetryPolicy, ServerConfig},
    connection::{Accept, ClientHello, Connection, EndpointEvent, open_copy},
    crypto::TAG_LEN,
    error::TransportErrorCode,
    frame::Frame,
    packet::{self, Header, Invariants, LongType, Partial},
    token::{BloomReplayFilter, ReplayFilter, ResetKey, RetryToken, Token},
    udp::{DatagramMeta, Transmit},
    version::Version,
};

pub use crate::packet::{issued_cid, short_header_cid};

/// The smallest datagram a server answers with a new connection (RFC 9000 section 14.1).
const MIN_INITIAL_DATAGRAM: usize = 1200;
/// Stateless resets per second at most: a looping peer or a flood of stray packets must not make us talk for ever.
const RESETS_PER_SECOND: u32 = 100;
/// Version Negotiation packets per second at most. Clients of other versions are few and ask again; datagrams with
/// made-up versions and senders are cheap to make (RFC 9000 section 5.2.2 permits a limit).
const NEGOTIATIONS_PER_SECOND: u32 = 100;
/// Memory for remembering used NEW_TOKEN tokens, bytes per filter.
const REPLAY_FILTER_BYTES: usize = 64 * 1024;

/// Names a connection within its endpoint.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// What an endpoint is made with.
pub struct EndpointConfig {
    /// Every random decision of the endpoint and its connections follows from this. From the operating system on the
    /// wire, from the scenario in the lab.
    pub seed: [u8; 32],
    /// Makes connection IDs.
    pub cids: Box<dyn CidGenerator>,
    /// Makes stateless reset tokens; share it between workers and restarts of one server.
    pub reset_key: ResetKey,
}

impl EndpointConfig {
    /// Random connection IDs of eight bytes; everything follows from `seed`.
    pub fn new(seed: [u8; 32]) -> Self {
        let mut key = [0; 32];
        ChaCha8Rng::from_seed(seed).fill_bytes(&mut key);
        Self { seed, cids: Box::new(RandomCid { len: 8 }), reset_key: ResetKey::new(&key) }
    }
}

/// What is to be done with a datagram.
pub enum Route {
    /// Give it to this connection.
    Connection(ConnectionHandle),
    /// Give it to this new connection, which the caller now owns.
    NewConnection(ConnectionHandle, Box<Connection>),
    /// Send what was written into the reply buffer.
    Reply(Transmit),
    /// Nothing.
    Drop,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Connection(handle) => write!(f, "Connection({})", handle.0),
            Route::NewConnection(handle, _) => write!(f, "NewConnection({})", handle.0),
            Route::Reply(transmit) => write!(f, "Reply({transmit:?})"),
            Route::Drop => f.write_str("Drop"),
        }
    }
}

/// What the endpoint remembers of a connection.
struct Entry {
    side: Side,
    cids: Vec<ConnectionId>,
    /// The destination of the first Initial, chosen by the client or by our Retry.
    initial: Option<(SocketAddr, ConnectionId)>,
    /// By path: from where, and what ends a stateless reset.
    resets: Vec<(DataSpace, SocketAddr, ResetToken)>,
    handshaking: bool,
}

/// Demultiplexes datagrams onto connections. Owns no connection: the caller does.
pub struct Endpoint {
    rng: ChaCha8Rng,
    cids: Box<dyn CidGenerator>,
    reset_key: ResetKey,
    server: Option<Arc<ServerConfig>>,
    replay: BloomReplayFilter,
    connections: Slab<Entry>,
    /// IDs that we issued; they are random, so the fast hash is safe.
    by_cid: FxHashMap<ConnectionId, usize>,
    /// IDs that clients chose: an ordered map, so that nobody can make it slow.
    by_initial: BTreeMap<(SocketAddr, ConnectionId), usize>,
    by_reset: BTreeMap<(SocketAddr, [u8; 16]), usize>,
    handshaking: usize,
    accepted: usize,
    resets: RateLimit,
    negotiations: RateLimit,
}

/// So many in each second and no more.
struct RateLimit {
    per_second: u32,
    left: u32,
    since: Instant,
}

impl RateLimit {
    fn new(per_second: u32) -> RateLimit {
        RateLimit { per_second, left: per_second, since: Instant::ZERO }
    }

    /// Whether there may be one more now; counts as one.
    fn take(&mut self, now: Instant) -> bool {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.left = self.per_second;
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint; with a server configuration it accepts connections.
    pub fn new(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
        let lifetime = server.as_ref().map_or(0, |server| server.token_key.new_token_lifetime());
        Endpoint {
            rng: ChaCha8Rng::from_seed(config.seed),
            cids: config.cids,
            reset_key: config.reset_key,
            server,
            replay: BloomReplayFilter::new(REPLAY_FILTER_BYTES, lifetime),
            connections: Slab::new(),
            by_cid: FxHashMap::default(),
            by_initial: BTreeMap::new(),
            by_reset: BTreeMap::new(),
            handshaking: 0,
            accepted: 0,
            resets: RateLimit::new(RESETS_PER_SECOND),
            negotiations: RateLimit::new(NEGOTIATIONS_PER_SECOND),
        }
    }

    /// Changes how later connections are accepted (a new certificate, other limits); `None` accepts no more.
    pub fn set_server_config(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// Connections not yet forgotten.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Accepted connections in their handshake.
    pub fn handshakes(&self) -> usize {
        self.handshaking
    }

    /// The length of the IDs this endpoint issues, bytes.
    pub fn cid_len(&self) -> usize {
        self.cids.len()
    }

    /// Opens a connection. The caller owns it, sends what it has to transmit, and calls [`Self::update`] now and then.
    ///
    /// # Errors
    /// If name, address, version or TLS configuration cannot be used.
    pub fn connect(
        &mut self,
        now: Instant,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(ConnectError::InvalidRemoteAddress(remote));
        }
        let cid = self.new_cid().ok_or(ConnectError::TooManyConnections(self.connections.len()))?;
        let rng = ChaCha8Rng::from_rng(&mut self.rng);
        let connection = Connection::client(now, rng, config, server_name, remote, cid)?;
        let handle = self.insert(Side::Client, cid, None);
        Ok((handle, connection))
    }

    /// `None` if short IDs are used up; those of no length at all tell one connection from none.
    fn new_cid(&mut self) -> Option<ConnectionId> {
        fresh_cid(&mut *self.cids, &mut self.rng, &self.by_cid)
    }

    fn insert(
        &mut self,
        side: Side,
        cid: ConnectionId,
        initial: Option<(SocketAddr, ConnectionId)>,
    ) -> ConnectionHandle {
        let server = side == Side::Server;
        let index =
            self.connections.insert(Entry { side, cids: vec![cid], initial, resets: Vec::new(), handshaking: server });
        self.by_cid.insert(cid, index);
        if let Some(initial) = initial {
            self.by_initial.insert(initial, index);
        }
        if server {
            self.handshaking += 1;
            self.accepted += 1;
        }
        ConnectionHandle(index)
    }

    /// To be called after a connection was given datagrams or time: takes its news and supplies connection IDs.
    /// Returns `true` when the connection is over and its handle forgotten.
    pub fn update(&mut self, handle: ConnectionHandle, connection: &mut Connection) -> bool {
        if !self.connections.contains(handle.0) {
            return true;
        }
        connection.issue_cids(|| {
            let cid = fresh_cid(&mut *self.cids, &mut self.rng, &self.by_cid)?;
            // At once, so that the next one differs from it.
            self.by_cid.insert(cid, handle.0);
            Some((cid, self.reset_key.token(cid.as_slice())))
        });
        while let Some(event) = connection.poll_endpoint_event() {
            match event {
                EndpointEvent::CidIssued(cid) => {
                    self.by_cid.insert(cid, handle.0);
                    self.connections[handle.0].cids.push(cid);
                }
                EndpointEvent::CidForgotten(cid) => {
                    self.by_cid.remove(&cid);
                    self.connections[handle.0].cids.retain(|known| *known != cid);
                }
                EndpointEvent::ResetToken { path, remote, token } => {
                    self.forget_reset_token(handle, path);
                    self.connections[handle.0].resets.push((path, remote, token));
                    self.by_reset.insert((remote, token.0), handle.0);
                }
                EndpointEvent::PathAbandoned(path) => self.forget_reset_token(handle, path),
                EndpointEvent::HandshakeOver => self.handshake_over(handle),
                EndpointEvent::Drained => {
                    self.forget(handle);
                    return true;
                }
            }
        }
        false
    }

    fn forget_reset_token(&mut self, handle: ConnectionHandle, path: DataSpace) {
        let resets = &mut self.connections[handle.0].resets;
        if let Some(known) = resets.iter().position(|(of, ..)| *of == path) {
            let (_, remote, token) = resets.swap_remove(known);
            self.by_reset.remove(&(remote, token.0));
        }
    }

    fn handshake_over(&mut self, handle: ConnectionHandle) {
        let entry = &mut self.connections[handle.0];
        if std::mem::take(&mut entry.handshaking) {
            self.handshaking -= 1;
        }
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        self.handshake_over(handle);
        let entry = self.connections.remove(handle.0);
        // Not earlier: a late copy of the first Initial would open a second connection.
        if let Some(initial) = &entry.initial {
            self.by_initial.remove(initial);
        }
        for cid in &entry.cids {
            self.by_cid.remove(cid);
        }
        for (_, remote, token) in entry.resets {
            self.by_reset.remove(&(remote, token.0));
        }
        if entry.side == Side::Server {
            self.accepted -= 1;
        }
    }

    /// Forgets a connection that its owner throws away without a word, for example instead of accepting it.
    pub fn abandon(&mut self, handle: ConnectionHandle) {
        if self.connections.contains(handle.0) {
            self.forget(handle);
        }
    }

    /// Writes the answer CONNECTION_REFUSED to the datagram that [`Route::NewConnection`] came from into `reply`; the
    /// connection is to be [abandoned](Self::abandon).
    pub fn refuse(&self, meta: &DatagramMeta, datagram: &[u8], reply: &mut Vec<u8>) -> Route {
        reply.clear();
        let (Some(server), Ok((partial, _))) = (&self.server, Partial::parse(datagram, self.cids.len())) else {
            return Route::Drop;
        };
        let Header::Initial { version, dcid, scid, .. } = partial.header else {
            return Route::Drop;
        };
        refuse(server, meta, version, &dcid, &scid, TransportErrorCode::CONNECTION_REFUSED, reply)
    }

    /// Writes a Retry packet (RFC 9000 section 8.1.2) as the answer to the datagram that [`Route::NewConnection`] came
    /// from into `reply`: the client has to come again with a token that proves its address. The connection is to be
    /// [abandoned](Self::abandon). Not for a client that has come with such a token: it would not listen
    /// ([`Connection::is_address_validated`]).
    pub fn retry(&mut self, unix_time: u64, meta: &DatagramMeta, datagram: &[u8], reply: &mut Vec<u8>) -> Route {
        reply.clear();
        let (Some(server), Ok((partial, _))) = (self.server.clone(), Partial::parse(datagram, self.cids.len())) else {
            return Route::Drop;
        };
        let Header::Initial { version, dcid, scid, .. } = partial.header else {
            return Route::Drop;
        };
        self.write_retry(&server, unix_time, meta, version, &dcid, &scid, reply)
    }

    /// Finds out whose a received datagram is. `unix_time` (seconds since 1970) dates tokens. An immediate answer is
    /// written into `reply`, which is cleared.
    pub fn handle(
        &mut self,
        now: Instant,
        unix_time: u64,
        meta: &DatagramMeta,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Route {
        reply.clear();
        let Some(dcid) = packet::destination_cid(datagram, self.cids.len()) else {
            return Route::Drop;
        };
        if let Some(cid) = ConnectionId::new(dcid) {
            if let Some(&index) = self.by_cid.get(&cid) {
                return Route::Connection(ConnectionHandle(index));
            }
            if packet::is_long(datagram)
                && let Some(&index) = self.by_initial.get(&(meta.remote, cid))
            {
                return Route::Connection(ConnectionHandle(index));
            }
        }
        if packet::is_long(datagram) {
            return self.first_contact(now, unix_time, meta, datagram, reply);
        }
        if let Some(token) = packet::possible_reset_token(datagram)
            && let Some(&index) = self.by_reset.get(&(meta.remote, token.0))
        {
            return Route::Connection(ConnectionHandle(index));
        }
        self.stateless_reset(now, meta, datagram, reply)
    }

    /// A long header that belongs to no connection: perhaps a client's first Initial.
    fn first_contact(
        &mut self,
        now: Instant,
        unix_time: u64,
        meta: &DatagramMeta,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Route {
        let Some(server) = self.server.clone() else {
            return Route::Drop;
        };
        let Some(invariants) = Invariants::parse(datagram) else {
            return Route::Drop;
        };
        // RFC 9000 section 14.1: smaller datagrams are never answered, so that we amplify nothing.
        if datagram.len() < MIN_INITIAL_DATAGRAM || invariants.version == Version::NEGOTIATION {
            return Route::Drop;
        }
        if !invariants.version.is_supported() {
            if !self.negotiations.take(now) {
                return Route::Drop;
            }
            packet::write_version_negotiation(reply, &invariants, Version::SUPPORTED, &mut self.rng);
            return reply_to(meta, reply);
        }
        let Ok((partial, _)) = Partial::parse(datagram, self.cids.len()) else {
            return Route::Drop;
        };
        let Header::Initial { version, dcid, scid, token } = partial.header.clone() else {
            return Route::Drop;
        };
        // RFC 9000 section 7.2: the first destination ID has at least eight bytes; after a Retry it is ours.
        if dcid.len() < 8 {
            return Route::Drop;
        }
        // Noise must not cost us a connection.
        let keys = server.crypto.initial_keys(version, dcid.as_slice(), Side::Server);
        let Some(payload) = open_copy(&keys, &partial, datagram) else { return Route::Drop };
        let full = self.accepted >= server.max_connections || self.handshaking >= server.max_handshakes;
        if full {
            return refuse(&server, meta, version, &dcid, &scid, TransportErrorCode::CONNECTION_REFUSED, reply);
        }
        let token = &datagram[token];
        let looks_for_paths = server.transport.multipath.is_some();
        let hello = ClientHello::read(version, &server.preferred_versions, looks_for_paths, &payload);
        let mut accept = Accept {
            version: hello.version,
            first_version: version,
            asks_for_paths: hello.asks_for_paths,
            dcid,
            original_dcid: dcid,
            retry_scid: None,
            peer_scid: scid,
            remote: meta.remote,
            local_ip: meta.local_ip,
            address_validated: false,
            new_token: None,
            saved: None,
            unix_time,
            reset_token: ResetToken([0; 16]),
        };
        match server.token_key.open(token, meta.remote, unix_time) {
            Ok(Token::Retry(retry)) if retry.retry_source == dcid => {
                accept.original_dcid = retry.original_destination;
                accept.retry_scid = Some(dcid);
                accept.address_validated = true;
            }
            Ok(Token::Retry(_)) => {
                return refuse(&server, meta, version, &dcid, &scid, TransportErrorCode::INVALID_TOKEN, reply);
            }
            Ok(Token::New(new)) => {
                accept.address_validated = self.replay.first_use(&new, unix_time);
                // Whoever shows a token twice may be two, and only one of them is on the path.
                accept.saved = new.saved.filter(|_| accept.address_validated);
            }
            Err(error) if error.is_retry() => {
                return refuse(&server, meta, version, &dcid, &scid, TransportErrorCode::INVALID_TOKEN, reply);
            }
            Err(_) => {}
        }
        let retry = match server.retry {
            RetryPolicy::Never => false,
            RetryPolicy::Always => true,
            RetryPolicy::WhenHandshakesExceed(limit) => self.handshaking > limit,
        };
        if retry && !accept.address_validated {
            return self.write_retry(&server, unix_time, meta, version, &dcid, &scid, reply);
        }
        self.accept(now, unix_time, &server, accept)
    }

    fn accept(&mut self, now: Instant, unix_time: u64, server: &ServerConfig, mut accept: Accept) -> Route {
        let Some(cid) = self.new_cid() else { return Route::Drop };
        accept.reset_token = self.reset_key.token(cid.as_slice());
        if server.new_tokens {
            accept.new_token = Some(server.token_key.seal_new(&mut self.rng, accept.remote.ip(), unix_time));
        }
        let initial = (accept.remote, accept.dcid);
        let rng = ChaCha8Rng::from_rng(&mut self.rng);
        match Connection::server(now, rng, server, accept, cid) {
            Ok(connection) => {
                let handle = self.insert(Side::Server, cid, Some(initial));
                Route::NewConnection(handle, Box::new(connection))
            }
            // Only a configuration that does not fit QUIC gets here; the builders refuse it earlier.
            Err(_) => Route::Drop,
        }
    }

    #[allow(clippy::too_many_arguments)] // the fields of one packet
    fn write_retry(
        &mut self,
        server: &ServerConfig,
        unix_time: u64,
        meta: &DatagramMeta,
        version: Version,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        reply: &mut Vec<u8>,
    ) -> Route {
        // The client's next Initial needs an ID of at least eight bytes like its first, however short ours are.
        let retry_source = match self.cids.len() {
            0..8 => Some(ConnectionId::random(&mut self.rng, 8)),
            _ => self.new_cid(),
        };
        let Some(retry_source) = retry_source else { return Route::Drop };
        let token = RetryToken { original_destination: *dcid, retry_source, address: meta.remote, issued: unix_time };
        let token = server.token_key.seal_retry(&mut self.rng, &token);
        packet::write_retry(reply, version, scid, &retry_source, &token, |body| {
            server.crypto.retry_tag(version, dcid.as_slice(), body)
        });
        reply_to(meta, reply)
    }

    /// A short header that belongs to no connection: tell the peer that we have lost its state (RFC 9000 section 10.3).
    fn stateless_reset(&mut self, now: Instant, meta: &DatagramMeta, datagram: &[u8], reply: &mut Vec<u8>) -> Route {
        let dcid = datagram.get(1..1 + self.cids.len());
        let (Some(dcid), Some(_)) = (dcid, self.server.as_ref()) else {
            return Route::Drop;
        };
        // Section 10.3.3: smaller than what provoked it, so that two endpoints without state cannot loop.
        const LONGEST: usize = 42;
        let len = LONGEST.min(datagram.len().saturating_sub(1));
        if len < packet::MIN_STATELESS_RESET || !self.resets.take(now) {
            return Route::Drop;
        }
        let token = self.reset_key.token(dcid);
        packet::write_stateless_reset(reply, &token, len, &mut self.rng);
        reply_to(meta, reply)
    }
}

/// An ID that is not taken; `None` if chance finds none.
fn fresh_cid(
    cids: &mut dyn CidGenerator,
    rng: &mut ChaCha8Rng,
    taken: &FxHashMap<ConnectionId, usize>,
) -> Option<ConnectionId> {
    const ATTEMPTS: usize = 1000;
    (0..ATTEMPTS).map(|_| cids.generate(rng)).find(|cid| !taken.contains_key(cid))
}

fn reply_to(meta: &DatagramMeta, reply: &[u8]) -> Route {
    Route::Reply(Transmit {
        remote: meta.remote,
        local_ip: meta.local_ip,
        ecn: Ecn::NotEct,
        size: reply.len(),
        segment: None,
    })
}

/// Answers a first Initial with CONNECTION_CLOSE, keeping no state (RFC 9000 section 10.2.3).
fn refuse(
    server: &ServerConfig,
    meta: &DatagramMeta,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    code: TransportErrorCode,
    reply: &mut Vec<u8>,
) -> Route {
    let keys = server.crypto.initial_keys(version, dcid.as_slice(), Side::Server);
    let mark = packet::write_long_header(reply, LongType::Initial, version, scid, dcid, &[], 0, 1);
    Frame::ConnectionClose { error_code: code.0, frame_type: 0, reason: b"" }.encode(reply);
    debug_assert!(reply.len() + TAG_LEN < MIN_INITIAL_DATAGRAM);
    match mark.seal(reply, 0, &*keys.local.packet, &*keys.local.header) {
        Ok(()) => reply_to(meta, reply),
        Err(_) => Route::Drop,
    }
}
