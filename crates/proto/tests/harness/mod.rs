//! Two endpoints and a link between them in virtual time: the smallest world in which a connection can live.
#![allow(dead_code, clippy::unwrap_used)] // every test file uses its own part

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub mod alloc;
pub mod tap;
pub mod wire;

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustls::pki_types::UnixTime;
use thalweg_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig, Event, Route,
    ServerConfig, Side, Transmit, TransportConfig,
    cid::RandomCid,
    crypto::{
        ClientCrypto, ServerCrypto,
        deterministic::{DeterministicClient, DeterministicServer},
        null::{NullClient, NullServer},
    },
    observe::{ObservedConnection, Observer, ObserverEvent, ObserverFactory},
    streams::{Dir, ReadError, StreamEvent, StreamId},
    token::TokenKey,
};
use thalweg_recovery::Ecn;
use thalweg_units::Instant;

pub const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1000);
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 443);
/// 2026-01-01, for certificates and tokens.
pub const DATE: u64 = 1_767_225_600;

/// A datagram on the link.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
    /// How many datagrams its sender sent before it.
    pub ordinal: u64,
}

impl Packet {
    pub fn is_from_client(&self) -> bool {
        self.to == SERVER
    }
}

/// What the link does to a datagram: the copies that arrive, each with its extra delay. Empty: lost.
pub type Fate = Vec<(Duration, Packet)>;

pub type Meddle = Box<dyn FnMut(Packet, &mut ChaCha8Rng) -> Fate>;

/// The link. `meddle` decides over every datagram; the rest is a plain pipe with a rate and a tail-drop queue.
pub struct Link {
    pub delay: Duration,
    /// Bytes per second; 0: infinitely fast.
    pub rate: u64,
    /// Bytes that wait at most.
    pub queue: u64,
    pub meddle: Meddle,
    pub busy_until: [Instant; 2],
    pub dropped: u64,
}

impl Link {
    pub fn new(delay: Duration) -> Link {
        Link {
            delay,
            rate: 0,
            queue: u64::MAX,
            meddle: Box::new(|packet, _| vec![(Duration::ZERO, packet)]),
            busy_until: [Instant::ZERO; 2],
            dropped: 0,
        }
    }

    pub fn lossy(delay: Duration, percent: u32) -> Link {
        Link {
            meddle: Box::new(
                move |packet, rng| {
                    if rng.next_u32() % 100 < percent { vec![] } else { vec![(Duration::ZERO, packet)] }
                },
            ),
            ..Link::new(delay)
        }
    }
}

/// One end: its endpoint and connections, and what an application would keep.
pub struct Host {
    pub address: SocketAddr,
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionHandle, Connection>,
    pub events: Vec<(ConnectionHandle, Event)>,
    pub sent: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub max_segments: usize,
    /// Addresses it has left but still receives at: a NAT keeps its old mapping for a while.
    pub former: Vec<SocketAddr>,
}

pub struct Setup {
    pub seed: u64,
    pub client: TransportConfig,
    pub server: TransportConfig,
    pub null: bool,
    pub observer: Option<Arc<dyn ObserverFactory>>,
    pub tweak_client: Box<dyn FnOnce(&mut ClientConfig)>,
    pub tweak_server: Box<dyn FnOnce(&mut ServerConfig)>,
    pub link: Link,
    /// When the world begins.
    pub origin: Instant,
    /// Bytes in the connection IDs that client and server issue.
    pub cid_len: [usize; 2],
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            seed: 1,
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            null: false,
            observer: None,
            tweak_client: Box::new(|_| {}),
            tweak_server: Box::new(|_| {}),
            link: Link::new(Duration::from_millis(20)),
            origin: Instant::ZERO + Duration::from_secs(1),
            cid_len: [wire::CID_LEN; 2],
        }
    }
}

pub struct World {
    pub now: Instant,
    origin: Instant,
    pub rng: ChaCha8Rng,
    pub link: Link,
    /// Another address of the client, and the link that leads there.
    pub second: Option<(IpAddr, Link)>,
    pub client: Host,
    pub server: Host,
    pub client_config: ClientConfig,
    pub server_config: Arc<ServerConfig>,
    /// What every client of the server gets instead of `server_config`.
    pub per_client: Option<Arc<ServerConfig>>,
    seed: u64,
    pub ticks: u64,
    /// Steps since time last passed.
    same_time: u64,
    flight: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: BTreeMap<u64, Packet>,
    next_packet: u64,
    buf: Vec<u8>,
}

fn seed_of(seed: u64, name: u8) -> [u8; 32] {
    let mut bytes = [name; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

impl World {
    pub fn new(mut setup: Setup) -> World {
        setup.client.observer = setup.observer.clone();
        setup.server.observer = setup.observer.clone();
        let date = UnixTime::since_unix_epoch(Duration::from_secs(DATE));
        let alpn: &[&[u8]] = &[b"test"];
        let mut client: Arc<dyn ClientCrypto> =
            Arc::new(DeterministicClient::new(seed_of(setup.seed, 1), alpn, date).unwrap());
        let mut server: Arc<dyn ServerCrypto> =
            Arc::new(DeterministicServer::new(seed_of(setup.seed, 2), alpn, date).unwrap());
        if setup.null {
            client = Arc::new(NullClient::new(client));
            server = Arc::new(NullServer::new(server));
        }
        let mut client_config = ClientConfig::new(client);
        client_config.transport = Arc::new(setup.client);
        (setup.tweak_client)(&mut client_config);
        let mut server_config = ServerConfig::new(server, Arc::new(TokenKey::new(&seed_of(setup.seed, 3))));
        server_config.transport = Arc::new(setup.server);
        (setup.tweak_server)(&mut server_config);
        let server_config = Arc::new(server_config);
        let host = |address, seed, server: Option<_>| Host {
            address,
            endpoint: {
                let mut config = EndpointConfig::new(seed);
                config.cids = Box::new(RandomCid { len: setup.cid_len[usize::from(server.is_some())] });
                Endpoint::new(config, server)
            },
            connections: BTreeMap::new(),
            events: Vec::new(),
            sent: 0,
            sent_bytes: 0,
            received_bytes: 0,
            max_segments: 10,
            former: Vec::new(),
        };
        World {
            now: setup.origin,
            origin: setup.origin,
            rng: ChaCha8Rng::from_seed(seed_of(setup.seed, 4)),
            link: setup.link,
            second: None,
            client: host(CLIENT, seed_of(setup.seed, 5), None),
            server: host(SERVER, seed_of(setup.seed, 6), Some(server_config.clone())),
            client_config,
            server_config,
            per_client: None,
            seed: setup.seed,
            ticks: 0,
            same_time: 0,
            flight: BinaryHeap::new(),
            packets: BTreeMap::new(),
            next_packet: 0,
            buf: Vec::new(),
        }
    }

    /// The server loses all its connections, as if it had crashed and begun anew with the same keys.
    pub fn restart_server(&mut self) {
        self.server.connections.clear();
        let config = EndpointConfig::new(seed_of(self.seed, 6));
        self.server.endpoint = Endpoint::new(config, Some(self.server_config.clone()));
    }

    pub fn connect(&mut self) -> ConnectionHandle {
        let (handle, connection) =
            self.client.endpoint.connect(self.now, self.client_config.clone(), SERVER, "localhost").unwrap();
        self.client.connections.insert(handle, connection);
        self.pump();
        handle
    }

    /// Sends what both ends have to send.
    pub fn pump(&mut self) {
        for of_client in [true, false] {
            self.pump_host(of_client);
        }
    }

    fn pump_host(&mut self, of_client: bool) {
        let now = self.now;
        let mut out = Vec::new();
        let host = if of_client { &mut self.client } else { &mut self.server };
        let mut gone = Vec::new();
        for (&handle, connection) in &mut host.connections {
            if connection.is_multipath() {
                // As hosts do: it has connection IDs for further paths before it sends.
                host.endpoint.update(handle, connection);
            }
            let mut batches = 0;
            while let Some(transmit) = connection.poll_transmit(now, host.max_segments, &mut self.buf) {
                assert_eq!(transmit.size, self.buf.len());
                let segment = transmit.segment.unwrap_or(transmit.size);
                for bytes in self.buf.chunks(segment) {
                    out.push((transmit, bytes.to_vec()));
                }
                batches += 1;
                assert!(batches < 100_000, "a connection that never stops sending");
            }
            while let Some(event) = connection.poll_event() {
                host.events.push((handle, event));
            }
            if host.endpoint.update(handle, connection) {
                gone.push(handle);
            }
        }
        for handle in gone {
            host.connections.remove(&handle);
        }
        for (transmit, bytes) in out {
            self.send(of_client, &transmit, bytes);
        }
    }

    fn send(&mut self, of_client: bool, transmit: &Transmit, bytes: Vec<u8>) {
        let host = if of_client { &mut self.client } else { &mut self.server };
        host.sent += 1;
        host.sent_bytes += bytes.len() as u64;
        let second = self.second.as_ref().map(|(ip, _)| *ip).filter(|_| of_client);
        let local = transmit.local_ip.filter(|ip| Some(*ip) == second);
        let from = local.map_or(host.address, |ip| SocketAddr::new(ip, host.address.port()));
        let packet = Packet { from, to: transmit.remote, ecn: transmit.ecn, bytes, ordinal: host.sent - 1 };
        let of_second = |ip: &IpAddr| packet.from.ip() == *ip || packet.to.ip() == *ip;
        let link = match &mut self.second {
            Some((ip, link)) if of_second(ip) => link,
            _ => &mut self.link,
        };
        // Serialisation at the link's rate behind what waits already.
        let way = usize::from(of_client);
        let mut at = self.now;
        if link.rate > 0 {
            let start = link.busy_until[way].max(self.now);
            let waiting = start.saturating_since(self.now).as_nanos() as u64 * link.rate / 1_000_000_000;
            if waiting + packet.bytes.len() as u64 > link.queue {
                link.dropped += 1;
                return;
            }
            at = start + Duration::from_nanos(packet.bytes.len() as u64 * 1_000_000_000 / link.rate);
            link.busy_until[way] = at;
        }
        let delay = link.delay;
        for (extra, packet) in (link.meddle)(packet, &mut self.rng) {
            let id = self.next_packet;
            self.next_packet += 1;
            self.flight.push(Reverse((at + delay + extra, id)));
            self.packets.insert(id, packet);
        }
    }

    /// Gives a datagram to the host it is addressed to.
    pub fn deliver(&mut self, mut packet: Packet) {
        let of_client = !packet.is_from_client();
        let host = if of_client { &mut self.client } else { &mut self.server };
        let is_second = self.second.as_ref().is_some_and(|(ip, _)| packet.to.ip() == *ip);
        if packet.to != host.address && !host.former.contains(&packet.to) && !is_second {
            return; // sent to an address the host has left
        }
        host.received_bytes += packet.bytes.len() as u64;
        let meta = DatagramMeta { remote: packet.from, local_ip: Some(packet.to.ip()), ecn: packet.ecn };
        let unix = DATE + self.now.saturating_since(self.origin).as_secs();
        let mut reply = Vec::new();
        let handle = match host.endpoint.handle(self.now, unix, &meta, &packet.bytes, &mut reply) {
            Route::Connection(handle) => handle,
            Route::NewConnection(handle, mut connection) => {
                if let Some(config) = &self.per_client {
                    connection.reconfigure(self.now, config).unwrap();
                }
                host.connections.insert(handle, *connection);
                handle
            }
            Route::Reply(transmit) => {
                self.send(of_client, &transmit, reply);
                return;
            }
            Route::Drop => return,
        };
        if let Some(connection) = host.connections.get_mut(&handle) {
            connection.handle_datagram(self.now, &meta, &mut packet.bytes);
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let flight = self.flight.peek().map(|Reverse((at, _))| *at);
        let timers = self.client.connections.values().chain(self.server.connections.values());
        timers.filter_map(Connection::poll_timeout).chain(flight).min()
    }

    /// Moves to the next thing that happens. `false`: nothing ever will.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_time() else { return false };
        self.ticks += 1;
        self.same_time = if at > self.now { 0 } else { self.same_time + 1 };
        assert!(self.same_time < 1000, "a timer that is always due: time does not pass");
        self.now = self.now.max(at);
        while let Some(Reverse((at, id))) = self.flight.peek().copied() {
            if at > self.now {
                break;
            }
            self.flight.pop();
            let packet = self.packets.remove(&id).unwrap();
            self.deliver(packet);
        }
        for host in [&mut self.client, &mut self.server] {
            for connection in host.connections.values_mut() {
                if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                    connection.handle_timeout(self.now);
                }
            }
        }
        self.pump();
        true
    }

    /// Runs until `done`, at most `limit` of virtual time. Returns whether it was reached.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut World) -> bool) -> bool {
        let end = self.now + limit;
        let first = self.ticks;
        loop {
            if done(self) {
                return true;
            }
            assert!(self.ticks - first < 5_000_000, "time does not pass");
            match self.next_time() {
                Some(at) if at <= end => self.step(),
                _ => return false,
            };
        }
    }

    /// Runs for a span of virtual time.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        self.run_until(span, |_| false);
        self.now = end;
    }

    pub fn client_conn(&mut self, handle: ConnectionHandle) -> &mut Connection {
        self.client.connections.get_mut(&handle).expect("the client's connection")
    }

    /// The server's only connection.
    pub fn server_conn(&mut self) -> &mut Connection {
        self.server.connections.values_mut().next_back().expect("the server's connection")
    }

    pub fn has_server_conn(&self) -> bool {
        !self.server.connections.is_empty()
    }

    /// Connects and runs until both ends have confirmed the handshake.
    pub fn handshake(&mut self) -> ConnectionHandle {
        let handle = self.connect();
        let done = self.run_until(Duration::from_secs(60), |world| {
            world.client.connections.get(&handle).is_some_and(Connection::is_confirmed)
                && world.server.connections.values().any(Connection::is_confirmed)
        });
        assert!(done, "no handshake: {:?} {:?}", self.client.events, self.server.events);
        handle
    }

    pub fn client_error(&self) -> Option<ConnectionError> {
        lost(&self.client)
    }

    pub fn server_error(&self) -> Option<ConnectionError> {
        lost(&self.server)
    }

    /// Moves `len` bytes from the server to the client (or back) on a new stream; returns the time it took.
    pub fn transfer(
        &mut self,
        handle: ConnectionHandle,
        download: bool,
        len: u64,
        limit: Duration,
    ) -> Option<Duration> {
        let started = self.now;
        let stream = self.client_conn(handle).streams().open(Dir::Bi).expect("a stream");
        let mut pump = Pump::new(stream, download, len);
        pump.poke(self, handle);
        self.pump();
        self.run_until(limit, |world| pump.poke(world, handle)).then(|| self.now.saturating_since(started))
    }
}

/// An application that writes at one end and reads at the other, checking every byte.
pub struct Pump {
    stream: StreamId,
    download: bool,
    len: u64,
    written: u64,
    /// Generated, not yet written.
    pending: Bytes,
    read: u64,
    asked: bool,
    finished: bool,
}

/// The byte at an offset of every test stream.
pub fn pattern(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)) as u8
}

impl Pump {
    pub fn new(stream: StreamId, download: bool, len: u64) -> Pump {
        Pump { stream, download, len, written: 0, pending: Bytes::new(), read: 0, asked: false, finished: false }
    }

    /// Writes and reads what is possible; `true` when all arrived.
    pub fn poke(&mut self, world: &mut World, handle: ConnectionHandle) -> bool {
        if self.download && !self.asked {
            let Some(client) = world.client.connections.get_mut(&handle) else { return false };
            client.streams().write(self.stream, b"g").unwrap();
            client.streams().finish(self.stream).unwrap();
            self.asked = true;
            world.pump();
        }
        if self.finished_at(world, handle) {
            return true;
        }
        world.pump();
        false
    }

    fn finished_at(&mut self, world: &mut World, handle: ConnectionHandle) -> bool {
        let download = self.download;
        if download {
            if let Some(server) = world.server.connections.values_mut().next_back() {
                while server.streams().accept(Dir::Bi).is_some() {}
                let mut request = [0; 8];
                while let Ok(Some(_)) = server.streams().read_into(self.stream, &mut request) {}
                self.write(server);
            }
            world.client.connections.get_mut(&handle).is_some_and(|client| self.take(client))
        } else {
            let Some(client) = world.client.connections.get_mut(&handle) else { return false };
            self.write(client);
            let Some(server) = world.server.connections.values_mut().next_back() else { return false };
            while server.streams().accept(Dir::Bi).is_some() {}
            if !self.asked {
                self.asked = server.streams().finish(self.stream).is_ok();
            }
            self.take(server)
        }
    }

    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    fn write(&mut self, connection: &mut Connection) {
        while self.written < self.len {
            if self.pending.is_empty() {
                let n = (self.len - self.written).min(65536);
                self.pending = (self.written..self.written + n).map(pattern).collect::<Vec<u8>>().into();
            }
            match connection.streams().write_chunk(self.stream, &mut self.pending) {
                Ok(n) => self.written += n as u64,
                // No room, or not open yet, or reset: then the test will see that nothing arrives.
                Err(_) => return,
            }
        }
        if !self.finished {
            self.finished = connection.streams().finish(self.stream).is_ok();
        }
    }

    fn take(&mut self, connection: &mut Connection) -> bool {
        loop {
            match connection.streams().read(self.stream, 1 << 20) {
                Ok(Some(bytes)) => {
                    for byte in bytes.iter() {
                        assert_eq!(*byte, pattern(self.read), "wrong byte at {}", self.read);
                        self.read += 1;
                    }
                }
                Ok(None) => {
                    assert_eq!(self.read, self.len);
                    return true;
                }
                Err(ReadError::Blocked) => return false,
                Err(_) => return false,
            }
        }
    }
}

pub fn lost(host: &Host) -> Option<ConnectionError> {
    host.events.iter().find_map(|(_, event)| match event {
        Event::ConnectionLost(error) => Some(error.clone()),
        _ => None,
    })
}

pub fn readable(host: &Host) -> bool {
    host.events.iter().any(|(_, event)| matches!(event, Event::Stream(StreamEvent::Readable { .. })))
}

/// Prints what happens, for the author of a test that fails: `Setup { observer: Some(Arc::new(Print)), .. }`.
#[derive(Debug)]
pub struct Print;

impl ObserverFactory for Print {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Printer(connection.side)))
    }
}

struct Printer(Side);

impl Observer for Printer {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        let tab = if self.0.is_client() { "" } else { "\t\t\t" };
        eprintln!("{:>10} {tab}{:?} {event:?}", now.as_nanos() / 1000, self.0);
    }
}

/// What [`watch`] calls.
type Watcher = dyn Fn(Side, Instant, &ObserverEvent<'_>) + Send + Sync;

/// Calls a function with every event of every connection.
pub fn watch(f: impl Fn(Side, Instant, &ObserverEvent<'_>) + Send + Sync + 'static) -> Arc<dyn ObserverFactory> {
    Arc::new(Watch(Arc::new(f)))
}

struct Watch(Arc<Watcher>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl ObserverFactory for Watch {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Watching(self.0.clone(), connection.side)))
    }
}

struct Watching(Arc<Watcher>, Side);

impl Observer for Watching {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        (self.0)(self.1, now, event);
    }
}
