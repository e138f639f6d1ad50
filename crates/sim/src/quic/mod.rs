//! Hosts that run the project's own transport: the very code that runs on the wire.

pub(crate) mod stats;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use rustls_pki_types::UnixTime;
use thalweg_link::Streams;
use thalweg_proto::crypto::deterministic::{DeterministicClient, DeterministicServer};
use thalweg_proto::crypto::null::{NullClient, NullServer};
use thalweg_proto::crypto::{ClientCrypto, ServerCrypto};
use thalweg_proto::datagrams::WhenFull;
use thalweg_proto::observe::{ObserverFactory, TeeFactory};
use thalweg_proto::rustls::NoKeyLog;
use thalweg_proto::streams::{Dir, StreamId};
use thalweg_proto::token::TokenKey;
use thalweg_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig, Event, Route,
    ServerConfig, TransportConfig,
};
use thalweg_units::{ByteCount, Duration, DurationExt, Ecn, Instant, exact_duration};

use crate::app::{self, App, Launcher, Transport};
use crate::collect::Collector;
use crate::host::{Host, Hosts, Outbox, StackContext, StackFactory, Status};
use crate::meter::Meter;
use crate::plan::{Crypto, FlowPlan, PlanError, Traffic};
use crate::result::{Figure, PacketCounts, SideResult};

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 443);
/// 2026-01-01, when every run takes place: certificates and tokens have dates.
const DATE: u64 = 1_767_225_600;
const ALPN: &[&[u8]] = &[b"thalweg-lab"];

/// The stack "thalweg".
#[derive(Debug)]
pub struct Thalweg;

impl StackFactory for Thalweg {
    fn name(&self) -> &'static str {
        "thalweg"
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let refuse = |reason: String| PlanError::Setup { flow: context.flow.name.clone(), reason };
        let date = UnixTime::since_unix_epoch(Duration::from_secs(DATE));
        let seed = |name: &str| context.endpoints.bytes(name);
        let log = || context.flow.key_log.clone().unwrap_or_else(|| Arc::new(NoKeyLog {}));
        let client = DeterministicClient::with_key_log(seed("client tls"), ALPN, date, log())
            .map_err(|error| refuse(error.to_string()))?;
        let server = DeterministicServer::with_key_log(seed("server tls"), ALPN, date, log())
            .map_err(|error| refuse(error.to_string()))?;
        let mut client: Arc<dyn ClientCrypto> = Arc::new(client);
        let mut server: Arc<dyn ServerCrypto> = Arc::new(server);
        if context.crypto == Crypto::Null {
            client = Arc::new(NullClient::new(client));
            server = Arc::new(NullServer::new(server));
        }
        let collectors = [(); 2].map(|()| Collector::new(context.origin, context.record, context.tails));
        let transport = |config: &TransportConfig, side: usize| {
            let mut config = config.clone();
            let mut factory: Arc<dyn ObserverFactory> = Arc::new(collectors[side].clone());
            if let Some(hash) = &context.hash {
                factory = Arc::new(TeeFactory(factory, Arc::new(hash.clone())));
            }
            if let Some(other) = &context.flow.observers[side] {
                factory = Arc::new(TeeFactory(factory, other.clone()));
            }
            config.observer = Some(factory);
            if let Traffic::Media { interval, frame, deadline, .. } = context.flow.traffic {
                // Late is worthless: what waits longer than the deadline makes room.
                let frames = deadline.min(Duration::from_secs(1)).nanos() / interval.nanos().max(1) + 1;
                config.datagrams.when_full = WhenFull::DropOldest;
                config.datagrams.send_buffer = usize::try_from(frames * (frame + 256)).unwrap_or(usize::MAX);
            }
            Arc::new(config)
        };
        let mut client_config = ClientConfig::new(client);
        client_config.transport = transport(&context.flow.client, 0);
        let mut server_config = ServerConfig::new(server, Arc::new(TokenKey::new(&seed("tokens"))));
        server_config.transport = transport(&context.flow.server, 1);
        let [client_collector, server_collector] = collectors;

        let traffic = &context.flow.traffic;
        let base = |endpoint, role, collector, batch| QuicHost {
            endpoint,
            role,
            collector,
            connections: Vec::new(),
            touched: Vec::new(),
            replies: Vec::new(),
            buf: Vec::new(),
            reply: Vec::new(),
            batch,
            meter: Meter::new(context.origin, context.record.step),
            running: 0,
            lost: 0,
            failed: None,
            gone: SideResult::default(),
        };
        let launcher = Launcher::new(traffic, &Streams::clone(&context.streams), context.start);
        let role = Role::Client { config: client_config, launcher };
        let endpoint = Endpoint::new(EndpointConfig::new(seed("client")), None);
        let client = base(endpoint, role, client_collector, context.flow.client_host.batch);
        let role = Role::Server { traffic: traffic.clone() };
        let endpoint = Endpoint::new(EndpointConfig::new(seed("server")), Some(Arc::new(server_config)));
        let server = base(endpoint, role, server_collector, context.flow.server_host.batch);
        Ok((Box::new(client), Box::new(server)))
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        let side = |config: &TransportConfig| {
            format!(
                "{}, datagrams {} to {} B, connection window {}, stream window {}, ack delay {}, {}",
                config.policies,
                config.initial_mtu,
                config.max_mtu.max(config.initial_mtu),
                ByteCount(config.streams.receive_window),
                ByteCount(config.streams.stream_receive_window),
                exact_duration(config.max_ack_delay),
                if config.ack_every_second {
                    "every second packet acknowledged"
                } else {
                    "acknowledgements thinned out"
                },
            )
        };
        let (client, server) = (side(&flow.client), side(&flow.server));
        if client == server { client } else { format!("client: {client}; server: {server}") }
    }
}

/// Which end this is, and what it makes connections of.
enum Role {
    Client { config: ClientConfig, launcher: Launcher },
    Server { traffic: Traffic },
}

/// One end: an endpoint, its connections and what runs on them.
struct QuicHost {
    endpoint: Endpoint,
    role: Role,
    collector: Collector,
    /// By handle.
    connections: Vec<Option<Live>>,
    /// Those that something happened to since the last time.
    touched: Vec<usize>,
    replies: Vec<(Ecn, Vec<u8>)>,
    buf: Vec<u8>,
    reply: Vec<u8>,
    batch: usize,
    meter: Meter,
    /// Clients: connections whose application has something left to do.
    running: u64,
    /// Connections that ended before their time.
    lost: u64,
    failed: Option<String>,
    /// Figures of the connections that are gone.
    gone: SideResult,
}

/// A connection that lives.
struct Live {
    connection: Connection,
    app: Box<dyn App>,
    touched: bool,
    done: bool,
    wake: Option<Instant>,
}

impl QuicHost {
    fn add(&mut self, handle: ConnectionHandle, connection: Connection, app: Box<dyn App>) {
        let index = handle.0;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Live { connection, app, touched: false, done: false, wake: None });
        self.gone.connections += 1;
        self.running += 1;
        self.touch(index);
    }

    fn touch(&mut self, index: usize) {
        if let Some(Some(live)) = self.connections.get_mut(index)
            && !live.touched
        {
            live.touched = true;
            self.touched.push(index);
        }
    }

    /// Opens the connections that are due.
    fn launch(&mut self, now: Instant) {
        while let Role::Client { config, launcher } = &mut self.role
            && launcher.next().is_some_and(|at| at <= now)
        {
            let client = launcher.start(now);
            match self.endpoint.connect(now, config.clone(), SERVER, "localhost") {
                Ok((handle, connection)) => self.add(handle, connection, Box::new(client)),
                Err(error) => {
                    self.failed.get_or_insert_with(|| format!("the connection could not be opened: {error}"));
                }
            }
        }
    }

    /// Lets a connection's application and the connection itself do all they can.
    fn drive(&mut self, index: usize, now: Instant, out: &mut Outbox<'_>) {
        let Some(Some(live)) = self.connections.get_mut(index) else { return };
        live.touched = false;
        // An application that still writes after everything was sent gets another turn, but not for ever.
        for _ in 0..10_000 {
            let wrote = !live.done && live.app.poll(now, &mut Quic(&mut live.connection), &mut self.meter);
            let mut sent = false;
            while let Some(transmit) = live.connection.poll_transmit(now, self.batch, &mut self.buf) {
                let datagrams = self.buf[..transmit.size].chunks(transmit.segment.unwrap_or(transmit.size).max(1));
                let tails = self.collector.tails();
                for (left, datagram) in (0..datagrams.len()).rev().zip(datagrams) {
                    // Counted from the end: datagrams without application data come first.
                    out.push(transmit.ecn, datagram);
                    if tails.iter().rev().nth(left) == Some(&true) {
                        out.mark_tail();
                    }
                }
                sent = true;
            }
            while let Some(event) = live.connection.poll_event() {
                if let Event::ConnectionLost(error) = event
                    && !live.done
                {
                    live.done = true;
                    self.running -= 1;
                    // A server's connection ends with its client's.
                    let orderly = matches!(error, ConnectionError::PeerApplication { .. });
                    if !orderly || matches!(self.role, Role::Client { .. }) {
                        self.lost += 1;
                        self.failed.get_or_insert_with(|| format!("the connection was lost: {error}"));
                    }
                }
            }
            if !live.done && live.app.is_finished() {
                live.done = true;
                self.running -= 1;
                live.connection.close(now, 0, Bytes::from_static(b"done"));
                continue;
            }
            if !(wrote && sent) {
                break;
            }
        }
        let over = self.endpoint.update(ConnectionHandle(index), &mut live.connection);
        let app = if live.done { None } else { live.app.wakeup() };
        live.wake = live.connection.poll_timeout().into_iter().chain(app).min();
        if over && let Some(live) = self.connections[index].take() {
            stats::add(&mut self.gone.stats, &live.connection.stats());
            self.gone.repairs.add(&live.connection.repair_stats());
        }
    }
}

impl Host for QuicHost {
    fn datagram(&mut self, now: Instant, ecn: Ecn, bytes: &mut [u8]) {
        let (local, remote) = match self.role {
            Role::Client { .. } => (CLIENT, SERVER),
            Role::Server { .. } => (SERVER, CLIENT),
        };
        let meta = DatagramMeta { remote, local_ip: Some(local.ip()), ecn };
        let date = DATE + now.as_nanos() / 1_000_000_000;
        let handle = match self.endpoint.handle(now, date, &meta, bytes, &mut self.reply) {
            Route::Connection(handle) => handle,
            Route::NewConnection(handle, connection) => {
                let Role::Server { traffic } = &self.role else { return };
                let app = Box::new(app::server(traffic));
                self.add(handle, *connection, app);
                handle
            }
            Route::Reply(transmit) => {
                self.replies.push((transmit.ecn, self.reply.clone()));
                return;
            }
            Route::Drop => return,
        };
        if let Some(Some(live)) = self.connections.get_mut(handle.0) {
            live.connection.handle_datagram(now, &meta, bytes);
        }
        self.touch(handle.0);
    }

    fn next_timer(&self) -> Option<Instant> {
        let launch = match &self.role {
            Role::Client { launcher, .. } => launcher.next(),
            Role::Server { .. } => None,
        };
        self.connections.iter().flatten().filter_map(|live| live.wake).chain(launch).min()
    }

    fn timer(&mut self, now: Instant) {
        self.launch(now);
        for index in 0..self.connections.len() {
            let Some(live) = &mut self.connections[index] else { continue };
            if live.wake.is_none_or(|at| at > now) {
                continue;
            }
            if live.connection.poll_timeout().is_some_and(|at| at <= now) {
                live.connection.handle_timeout(now);
            }
            self.touch(index);
        }
    }

    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>) {
        for (ecn, reply) in self.replies.drain(..) {
            out.push(ecn, &reply);
        }
        while let Some(index) = self.touched.pop() {
            self.drive(index, now, out);
        }
    }

    fn status(&self) -> Status {
        let launching = matches!(&self.role, Role::Client { launcher, .. } if launcher.next().is_some());
        match &self.failed {
            Some(reason) => Status::Failed(reason.clone()),
            None if self.running > 0 || launching => Status::Running,
            None => Status::Finished,
        }
    }

    fn is_busy(&self) -> bool {
        self.running > 0 || matches!(&self.role, Role::Client { launcher, .. } if launcher.next().is_some())
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn packets(&self) -> Option<PacketCounts> {
        let live = self.connections.iter().flatten().map(|live| live.connection.stats());
        let all = live.chain([self.gone.stats.clone()]);
        Some(all.fold(PacketCounts::default(), |total, stats| PacketCounts {
            sent: total.sent + stats.path.packets_sent,
            lost: total.lost + stats.path.packets_lost,
        }))
    }

    fn report(&mut self, now: Instant) -> SideResult {
        let mut result = self.gone.clone();
        for live in self.connections.iter().flatten() {
            stats::add(&mut result.stats, &live.connection.stats());
            result.repairs.add(&live.connection.repair_stats());
        }
        self.collector.finish(now, &mut result);
        result.measured = Figure::ALL;
        result.connections_lost = self.lost;
        result
    }
}

/// A connection as the applications see it.
struct Quic<'a>(&'a mut Connection);

impl Transport for Quic<'_> {
    fn is_ready(&self) -> bool {
        !self.0.is_handshaking() && !self.0.is_closed()
    }

    fn open(&mut self) -> Option<u64> {
        self.0.streams().open(Dir::Bi).map(StreamId::as_u64)
    }

    fn accept(&mut self) -> Option<u64> {
        self.0.streams().accept(Dir::Bi).map(StreamId::as_u64)
    }

    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        self.0.streams().write_chunk(StreamId::from_u64(id), data).unwrap_or(0)
    }

    fn finish(&mut self, id: u64) {
        // Fails only for a stream that is over anyway.
        let _ = self.0.streams().finish(StreamId::from_u64(id));
    }

    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        while let Ok(chunk) = self.0.streams().read(StreamId::from_u64(id), 1 << 20) {
            match chunk {
                Some(bytes) => take(&bytes),
                None => return true,
            }
        }
        false
    }

    fn max_datagram(&self) -> Option<usize> {
        self.0.max_datagram_payload()
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        // A datagram may leave in a packet of the smallest size, hence the connection's own figure for the room.
        let Some(max) = self.0.max_datagram_payload() else { return false };
        self.0.datagrams().send(data, max + 3).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        self.0.datagrams().recv()
    }
}
