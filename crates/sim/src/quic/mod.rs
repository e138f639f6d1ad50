//! The stack "thalweg": the project's own transport, the code that runs on the wire.

mod saved;
mod ways;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rustls_pki_types::UnixTime;
use thalweg_proto::cid::RandomCid;
use thalweg_proto::crypto::deterministic::{DeterministicClient, DeterministicServer};
use thalweg_proto::crypto::null::{NullClient, NullServer};
use thalweg_proto::crypto::{ClientCrypto, ServerCrypto};
use thalweg_proto::datagrams::WhenFull;
use thalweg_proto::observe::{ObserverFactory, TeeFactory};
use thalweg_proto::rustls::NoKeyLog;
use thalweg_proto::streams::{Dir, StreamId};
use thalweg_proto::token::TokenKey;
use thalweg_proto::{
    AckPolicy, ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig,
    Event, PathEvent, Route, ServerConfig, Side, TransportConfig,
};
use thalweg_units::{ByteCount, Duration, Instant, exact_duration, human_bytes, human_duration};

use crate::app::Transport;
use crate::collect::Collector;
use crate::host::{Envelope, Outbox};
use crate::plan::{Crypto, FlowPlan, PlanError, SavedState};
use crate::result::{Figure, PacketCounts, SideResult};
use crate::stack::{self, ConnectionEvents, Hosts, Node, Replies, Stack, StackContext, StackFactory, StackInfo};
use saved::{Before, shake_hands};
use ways::Ways;

/// 2026-01-01, when every run takes place: certificates and tokens have dates.
const DATE: u64 = 1_767_225_600;
const ALPN: &[&[u8]] = &[b"thalweg-lab"];
/// The application's code for streams whose data come too late.
const CANCELED: u64 = 1;

/// The stack "thalweg".
#[derive(Debug)]
pub struct Thalweg;

impl StackFactory for Thalweg {
    fn info(&self) -> StackInfo {
        StackInfo {
            hears_of_moves: true,
            resumes: true,
            has_stream_priorities: true,
            uses_several_paths: true,
            ..StackInfo::new("thalweg")
        }
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
        let is_several = !context.beside.is_empty();
        let collectors = [(); 2].map(|()| Collector::new(context.origin, context.record, context.tails, is_several));
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
            if let Some(datagrams) = context.flow.traffic.datagrams() {
                config.datagrams.when_full = WhenFull::DropOldest;
                config.datagrams.send_buffer = datagrams.buffer();
            }
            Arc::new(config)
        };
        let mut client_config = ClientConfig::new(client);
        client_config.transport = transport(&context.flow.client, 0);
        let tokens = Arc::new(TokenKey::new(&seed("tokens")));
        let mut server_config = ServerConfig::new(server, tokens.clone());
        server_config.transport = transport(&context.flow.server, 1);
        let saved = context.flow.saved;
        if saved.early_data {
            let (mut client, mut server) = (client_config.clone(), server_config.clone());
            // Nobody watches, and nothing is counted. Tickets hold for the limits that they come with.
            for transport in [&mut client.transport, &mut server.transport] {
                *transport = Arc::new(TransportConfig { observer: None, ..TransportConfig::clone(transport) });
            }
            shake_hands(context.origin, client, server).map_err(refuse)?;
        }
        if saved != SavedState::default() {
            let before = Arc::new(Before::new(tokens, context.client, saved, seed("before")));
            client_config.tokens = Some(before.clone());
            client_config.saved_paths = Some(before);
        }
        let mut client_endpoint = EndpointConfig::new(seed("client"));
        client_endpoint.cids = Box::new(RandomCid { len: usize::from(context.flow.client_id_length) });
        let [client_collector, server_collector] = collectors;
        let ways = Ways::new(context.clients());
        let client = Socket {
            endpoint: Endpoint::new(client_endpoint, None),
            client: Some((client_config, context.server)),
            local: context.client,
            beside: context.beside.clone(),
            opened: Vec::new(),
            ways: ways.clone(),
            collector: client_collector,
            takes_early_data: saved.early_data,
            connections: Vec::new(),
            buf: Vec::new(),
            reply: Vec::new(),
        };
        let server = Socket {
            endpoint: Endpoint::new(EndpointConfig::new(seed("server")), Some(Arc::new(server_config))),
            client: None,
            local: context.server,
            beside: Vec::new(),
            opened: Vec::new(),
            ways,
            collector: server_collector,
            takes_early_data: saved.early_data,
            connections: Vec::new(),
            buf: Vec::new(),
            reply: Vec::new(),
        };
        Ok(Node::pair(context, client, server))
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
                match config.acks {
                    AckPolicy::EverySecond => "every second packet acknowledged",
                    AckPolicy::Sparse => "acknowledgments sparse",
                    AckPolicy::UntilLoss => "acknowledgments thinned out until packets are missing",
                    _ => "acknowledgments thinned out",
                },
            )
        };
        let (client, server) = (side(&flow.client), side(&flow.server));
        if client == server { client } else { format!("client: {client}; server: {server}") }
    }

    fn notes(&self, flow: &FlowPlan, sender: &SideResult) -> Vec<(&'static str, String)> {
        let (every, share) = match flow.client.acks {
            AckPolicy::EverySecond => ("every second packet", "a quarter"),
            AckPolicy::Sparse => ("sparse after 100 packets", "half"),
            AckPolicy::UntilLoss => ("thinned after 100 packets until packets are missing", "a quarter"),
            _ => ("thinned after 100 packets", "a quarter"),
        };
        let request = flow.client.min_ack_delay.map_or_else(String::new, |least| {
            format!("; on request as asked for, with a delay of {} or more", human_duration(least))
        });
        let delay = human_duration(flow.client.max_ack_delay);
        vec![
            ("policies", flow.server.policies.to_string()),
            (
                "datagrams",
                format!(
                    "{} B of UDP payload at first, up to {} B; {} B at the end",
                    flow.server.initial_mtu, flow.server.max_mtu, sender.stats.mtu
                ),
            ),
            (
                "acknowledgments",
                format!("{every}, held back for {share} of the shortest round trip, at most {delay}{request}"),
            ),
            ("receive window", human_bytes(flow.client.streams.receive_window)),
        ]
    }
}

/// An endpoint and its connections.
struct Socket {
    endpoint: Endpoint,
    /// What a client connects with, and to whom.
    client: Option<(ClientConfig, SocketAddr)>,
    local: SocketAddr,
    /// Further addresses, from which paths are opened beside the first.
    beside: Vec<SocketAddr>,
    /// How many of them each connection has used, by handle.
    opened: Vec<usize>,
    /// What the paths did that were given up.
    ways: Ways,
    collector: Collector,
    /// Applications do not wait for the end of the handshake.
    takes_early_data: bool,
    /// By handle.
    connections: Vec<Option<Connection>>,
    buf: Vec<u8>,
    reply: Vec<u8>,
}

impl Socket {
    fn get(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_mut()
    }

    /// Opens the paths that a connection lacks, as far as it can by now; `opened` is how many it has opened.
    fn open_paths(connection: &mut Connection, beside: &[SocketAddr], opened: &mut usize, now: Instant) {
        if *opened >= beside.len() || !connection.is_confirmed() || !connection.is_multipath() {
            return;
        }
        while let Some(address) = beside.get(*opened)
            && connection.open_path(now, Some(address.ip()), None).is_ok()
        {
            *opened += 1;
        }
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection) -> usize {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
            self.opened.resize(handle.0 + 1, 0);
        }
        self.opened[handle.0] = 0;
        self.connections[handle.0] = Some(connection);
        handle.0
    }
}

impl Stack for Socket {
    fn connect(&mut self, now: Instant) -> Result<usize, String> {
        let (config, server) = self.client.clone().ok_or("a server opens no connections")?;
        let opened = self.endpoint.connect(now, config, server, "localhost");
        let (handle, connection) = opened.map_err(|error| error.to_string())?;
        Ok(self.add(handle, connection))
    }

    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], replies: &mut Replies) -> stack::Route {
        let local_ip = Some(envelope.destination.ip());
        let meta = DatagramMeta { remote: envelope.source, local_ip, ecn: envelope.ecn };
        let date = DATE + now.as_nanos() / 1_000_000_000;
        let route = match self.endpoint.handle(now, date, &meta, bytes, &mut self.reply) {
            Route::Connection(handle) => stack::Route::Known(handle.0),
            Route::NewConnection(handle, connection) => stack::Route::New(self.add(handle, *connection)),
            Route::Reply(transmit) => {
                replies.push((Envelope { ecn: transmit.ecn, ..envelope.reply() }, self.reply.clone()));
                stack::Route::Nowhere
            }
            Route::Drop => stack::Route::Nowhere,
        };
        if let stack::Route::Known(index) | stack::Route::New(index) = route
            && let Some(connection) = self.get(index)
        {
            connection.handle_datagram(now, &meta, bytes);
        }
        // As on the wire: the connection IDs of further paths leave in front of the data.
        if let stack::Route::Known(index) | stack::Route::New(index) = route
            && let Some(Some(connection)) = self.connections.get_mut(index)
            && connection.is_multipath()
        {
            self.endpoint.update(ConnectionHandle(index), connection);
        }
        route
    }

    fn timeout(&mut self, connection: usize) -> Option<Instant> {
        self.get(connection)?.poll_timeout()
    }

    fn wake(&mut self, connection: usize, now: Instant) {
        if let Some(connection) = self.get(connection) {
            connection.handle_timeout(now);
        }
    }

    fn with(&mut self, connection: usize, _: Instant, run: &mut dyn FnMut(&mut dyn Transport)) {
        let is_early = self.takes_early_data;
        if let Some(connection) = self.get(connection) {
            run(&mut Quic { connection, is_early });
        }
    }

    fn send(&mut self, index: usize, now: Instant, batch: usize, out: &mut Outbox<'_>) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return false };
        let mut sent = false;
        if let Some(opened) = self.opened.get_mut(index) {
            Self::open_paths(connection, &self.beside, opened, now);
        }
        while let Some(transmit) = connection.poll_transmit(now, batch, &mut self.buf) {
            let beside = self.beside.iter().find(|address| Some(address.ip()) == transmit.local_ip);
            let source = beside.copied().unwrap_or(self.local);
            let envelope = Envelope { source, destination: transmit.remote, ecn: transmit.ecn };
            let datagrams = self.buf[..transmit.size].chunks(transmit.segment.unwrap_or(transmit.size).max(1));
            let tails = self.collector.tails();
            for (left, datagram) in (0..datagrams.len()).rev().zip(datagrams) {
                // Counted from the end: datagrams without application data come first.
                out.push(envelope, datagram);
                if tails.iter().rev().nth(left) == Some(&true) {
                    out.mark_tail();
                }
            }
            sent = true;
        }
        sent
    }

    fn close(&mut self, connection: usize, now: Instant) {
        if let Some(connection) = self.get(connection) {
            connection.close(now, 0, Bytes::from_static(b"done"));
        }
    }

    fn events(&mut self, connection: usize, _: Instant) -> ConnectionEvents {
        let (mut events, mut gone) = (ConnectionEvents::default(), Vec::new());
        let Some(connection) = self.get(connection) else { return events };
        while let Some(event) = connection.poll_event() {
            match event {
                Event::ConnectionLost(error) => {
                    let is_orderly = matches!(error, ConnectionError::PeerApplication { .. });
                    events.closed.get_or_insert((error.to_string(), is_orderly));
                }
                Event::Path(PathEvent::Abandoned { id, .. }) => {
                    let given_up = connection.paths().find(|path| path.id == id);
                    given_up.into_iter().for_each(|path| gone.push(path));
                }
                _ => {}
            }
        }
        gone.iter().for_each(|path| self.ways.add(path));
        events
    }

    fn is_over(&mut self, connection: usize, _: Instant) -> bool {
        let Some(Some(live)) = self.connections.get_mut(connection) else { return true };
        self.endpoint.update(ConnectionHandle(connection), live)
    }

    fn retire(&mut self, connection: usize, _: Instant) -> SideResult {
        let gone = self.connections.get_mut(connection).and_then(Option::take);
        gone.map_or_else(SideResult::default, |gone| SideResult {
            stats: gone.stats(),
            repairs: gone.repair_stats(),
            ways: self.ways.take(&gone),
            ..SideResult::default()
        })
    }

    fn address_changed(&mut self, now: Instant, local: SocketAddr) {
        self.local = local;
        for connection in self.connections.iter_mut().flatten() {
            connection.local_address_changed(now, Some(local.ip()));
        }
    }

    fn packets(&self, connection: usize) -> Option<PacketCounts> {
        let stats = self.connections.get(connection)?.as_ref()?.stats();
        Some(PacketCounts { sent: stats.path.packets_sent, lost: stats.path.packets_lost })
    }

    fn measured(&self) -> &'static [Figure] {
        Figure::ALL
    }

    fn finish(&mut self, now: Instant, total: &mut SideResult) {
        self.collector.finish(now, total);
    }
}

/// A connection as the applications see it.
struct Quic<'a> {
    connection: &'a mut Connection,
    /// It takes 0-RTT data, or gives some.
    is_early: bool,
}

impl Transport for Quic<'_> {
    fn is_ready(&self) -> bool {
        // A server has nothing to read before it has the keys for it.
        let is_early = self.is_early && (self.connection.side() == Side::Server || self.connection.is_early());
        (is_early || !self.connection.is_handshaking()) && !self.connection.is_closed()
    }

    fn open(&mut self) -> Option<u64> {
        self.connection.streams().open(Dir::Bi).map(StreamId::as_u64)
    }

    fn accept(&mut self) -> Option<u64> {
        self.connection.streams().accept(Dir::Bi).map(StreamId::as_u64)
    }

    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        self.connection.streams().write_chunk(StreamId::from_u64(id), data).unwrap_or(0)
    }

    fn finish(&mut self, id: u64) {
        // Fails only for a stream that is over anyway.
        let _ = self.connection.streams().finish(StreamId::from_u64(id));
    }

    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        while let Ok(chunk) = self.connection.streams().read(StreamId::from_u64(id), 1 << 20) {
            match chunk {
                Some(bytes) => take(&bytes),
                None => return true,
            }
        }
        false
    }

    fn max_datagram(&self) -> Option<usize> {
        self.connection.max_datagram_payload()
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        // A datagram may leave in a packet of the smallest size, hence the connection's own figure for the room.
        let Some(max) = self.connection.max_datagram_payload() else { return false };
        self.connection.datagrams().send(data, max + 3).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        self.connection.datagrams().recv()
    }

    fn set_priority(&mut self, id: u64, priority: u8) {
        // Here higher goes first. Datagrams leave before any stream's data anyway.
        let _ = self.connection.streams().set_priority(StreamId::from_u64(id), -i32::from(priority));
    }

    fn stop(&mut self, id: u64) {
        // Fails only for a stream that is over anyway.
        let _ = self.connection.streams().stop(StreamId::from_u64(id), CANCELED);
    }

    fn is_stopped(&mut self, id: u64) -> bool {
        let id = StreamId::from_u64(id);
        let streams = self.connection.streams();
        // A stream that is stopped is forgotten once its reset is acknowledged.
        streams.stopped(id).is_some() || streams.priority(id).is_none()
    }
}
