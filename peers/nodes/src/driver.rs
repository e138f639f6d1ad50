//! The adapter for quinn-proto and for noq-proto, which has grown out of it: the same text compiled against either.
//!
//! The module that includes this one says which (`proto`) and bridges where the two have parted (`bridge`).

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as StdInstant, SystemTime};

use bytes::{Bytes, BytesMut};
use ring::hmac;
use thalweg_link::{Dice, Streams};
use thalweg_sim::app::Transport;
use thalweg_sim::{
    ConnectionEvents, Envelope, Figure, FlowPlan, Hosts, LogFiles, Node, Outbox, PlanError, Replies, Route, SideResult,
    Stack, StackContext,
};
use thalweg_units::{Ecn, Instant};

use super::{bridge, proto};
use crate::clock::Clock;
use crate::model::Watch;
use crate::settings::{self, Controller, Settings, Variant};
use crate::tls;

use proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, IdleTimeout, MtuDiscoveryConfig, ServerConfig, StreamId,
    TimeSource, TransportConfig, VarInt,
};

/// Makes the two ends.
pub(super) fn hosts(name: &str, variant: Variant, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
    let refuse = |reason: String| PlanError::Setup { flow: context.flow.name.clone(), reason };
    let [client, server] = Settings::of(name, variant, context.flow)?;

    let crypto = tls::client().map_err(|error| refuse(error.to_string()))?;
    let crypto = QuicClientConfig::try_from(crypto).map_err(|error| refuse(error.to_string()))?;
    let mut client_config = ClientConfig::new(Arc::new(crypto));
    let paths = 1 + context.beside.len();
    client_config.transport_config(Arc::new(transport(&client, paths)));
    let cids = Mutex::new(Cids(context.streams.dice("client first destination")));
    let first_ids: FirstIds = Arc::new(move || cids.lock().unwrap_or_else(PoisonError::into_inner).random(20));
    client_config.initial_dst_cid_provider(first_ids.clone());

    let crypto = tls::server().map_err(|error| refuse(error.to_string()))?;
    let crypto = QuicServerConfig::try_from(crypto).map_err(|error| refuse(error.to_string()))?;
    // The key of tokens is the system's choice, as TLS's randomness is: no size and no decision depends on it.
    let mut server_config = ServerConfig::with_crypto(Arc::new(crypto));
    server_config.transport_config(Arc::new(transport(&server, paths))).time_source(Arc::new(FixedDate));

    let clock = Clock::new();
    let clients = context.clients();
    let socket = |side: &str, settings: &Settings, server: Option<ServerConfig>, client: Option<ClientConfig>| Socket {
        logs: context.flow.log_files.clone().map(|files| Logs {
            files,
            is_client: client.is_some(),
            settings: settings.clone(),
            paths,
            server: server.clone(),
            first_ids: first_ids.clone(),
        }),
        endpoint: bridge::endpoint(endpoint(side, &context.streams), server),
        local: if client.is_some() { context.client } else { context.server },
        beside: if client.is_some() { context.beside.clone() } else { Vec::new() },
        clients: clients.clone(),
        client: client.map(|config| (config, context.server)),
        connections: Vec::new(),
        clock,
        buf: Vec::new(),
        ecn: settings.ecn || settings.variant == Variant::Shipped,
        is_model: settings.controller == Controller::Bbr,
    };
    let client = socket("client", &client, None, Some(client_config));
    let server = socket("server", &server, Some(server_config), None);
    Ok(Node::pair(context, client, server))
}

/// What a reader of the result must know: what a side is asked for, and what it does of itself.
pub(super) fn describe(name: &str, package: &str, variant: Variant, flow: &FlowPlan) -> String {
    let Ok(sides) = Settings::of(name, variant, flow) else { return String::new() };
    settings::describe(&sides, |settings| {
        let now = Clock::new().to_std(Instant::ZERO);
        let window = bridge::controller(settings.controller, settings.initial_window)
            .build(now, settings.initial_mtu)
            .initial_window();
        let windows = if variant == Variant::Shipped {
            "MTU 1200 to 1452, windows 1.25 MB per stream, no limit per connection, 10 MB to send".to_owned()
        } else {
            settings.windows()
        };
        format!(
            "{package} {}, {settings}, initial window {window} B, {windows}, packet threshold 3, ACK of every second packet \
             and after 25 ms, {}",
            settings::version(package),
            if settings.controller == Controller::Bbr { "paced" } else { "paced at 1.25 windows per RTT" },
        )
    })
}

fn transport(settings: &Settings, paths: usize) -> TransportConfig {
    let mut config = TransportConfig::default();
    if paths > 1 {
        bridge::negotiate_paths(&mut config, paths);
    }
    if settings.variant == Variant::Shipped {
        return config;
    }
    config.congestion_controller_factory(bridge::controller(settings.controller, settings.initial_window));
    let varint = |value: u64| VarInt::from_u64(value).unwrap_or(VarInt::MAX);
    let idle = settings.idle_timeout.map(|idle| IdleTimeout::try_from(idle).unwrap_or(VarInt::MAX.into()));
    let mut search = MtuDiscoveryConfig::default();
    search.upper_bound(settings.max_mtu);
    config
        .stream_receive_window(varint(settings.stream_window))
        .receive_window(varint(settings.connection_window))
        .send_window(settings.send_window)
        .max_concurrent_bidi_streams(varint(settings.streams))
        .initial_rtt(settings.initial_rtt)
        .max_idle_timeout(idle)
        .keep_alive_interval(settings.keep_alive)
        .initial_mtu(settings.initial_mtu)
        .mtu_discovery_config((settings.max_mtu > settings.initial_mtu).then_some(search))
        .datagram_send_buffer_size(settings.datagrams);
    config
}

fn endpoint(side: &str, streams: &Streams) -> EndpointConfig {
    let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &streams.bytes(&format!("{side} resets")));
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    let cids = streams.dice(&format!("{side} connection ids"));
    bridge::cid_generator(&mut config, move || Box::new(Cids(cids.clone())));
    config.rng_seed(Some(streams.bytes(side)));
    config
}

/// Connection IDs from the flow's own chance.
struct Cids(Dice);

impl Cids {
    fn random(&mut self, len: usize) -> ConnectionId {
        let mut bytes = [0; 24];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.bits().to_le_bytes());
        }
        ConnectionId::new(&bytes[..len])
    }
}

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.random(self.cid_len())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// What draws the destination of a client's first packet.
type FirstIds = Arc<dyn Fn() -> ConnectionId + Send + Sync>;

/// Lets each connection write its log, in times since its beginning.
struct Logs {
    files: Arc<dyn LogFiles>,
    is_client: bool,
    /// What a connection is configured with beside its log.
    settings: Settings,
    paths: usize,
    server: Option<ServerConfig>,
    first_ids: FirstIds,
}

impl Logs {
    /// The transport of a connection with a log; none if it is not logged.
    fn transport(&self, connection: ConnectionId, now: StdInstant) -> Option<Arc<TransportConfig>> {
        let file = self.files.open(self.is_client, &connection.to_string())?;
        let mut transport = transport(&self.settings, self.paths);
        bridge::log(&mut transport, file, now);
        Some(Arc::new(transport))
    }

    /// The configuration of a client's next connection.
    fn client(&self, config: &mut ClientConfig, now: StdInstant) {
        let id = (self.first_ids)();
        config.initial_dst_cid_provider(Arc::new(move || id));
        if let Some(transport) = self.transport(id, now) {
            config.transport_config(transport);
        }
    }

    /// The configuration of a server's next connection; none for that of all.
    fn server(&self, id: ConnectionId, now: StdInstant) -> Option<Arc<ServerConfig>> {
        let mut config = self.server.clone()?;
        config.transport_config(self.transport(id, now)?);
        Some(Arc::new(config))
    }
}

struct FixedDate;

impl TimeSource for FixedDate {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + tls::DATE
    }
}

/// An endpoint and its connections.
struct Socket {
    endpoint: Endpoint,
    local: SocketAddr,
    /// The addresses of a client's further paths.
    beside: Vec<SocketAddr>,
    /// The client's addresses on all paths, where there are several.
    clients: Vec<IpAddr>,
    /// What a client connects with, and to whom.
    client: Option<(ClientConfig, SocketAddr)>,
    connections: Vec<Option<Entry>>,
    clock: Clock,
    buf: Vec<u8>,
    /// Whether ECN marks leave this host.
    ecn: bool,
    /// Whether its controller works from a model.
    is_model: bool,
    logs: Option<Logs>,
}

struct Entry {
    connection: Connection,
    /// How many further paths it has opened.
    opened: usize,
    /// Largest congestion window seen.
    max_window: u64,
    /// Nothing is left of it.
    is_drained: bool,
    /// What its model has done.
    watch: Watch,
}

impl Socket {
    fn get(&mut self, index: usize) -> Option<&mut Entry> {
        self.connections.get_mut(index)?.as_mut()
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection) -> usize {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] =
            Some(Entry { connection, opened: 0, max_window: 0, is_drained: false, watch: Watch::default() });
        handle.0
    }

    /// Looks at what the model of a connection does now.
    fn watch(&mut self, index: usize) {
        if let Some(Some(entry)) = self.connections.get_mut(index).filter(|_| self.is_model)
            && let Some(look) = bridge::look(&mut entry.connection)
        {
            entry.watch.see(look);
        }
    }

    fn reply(&mut self, size: usize, envelope: &Envelope, replies: &mut Replies) -> Route {
        replies.push((envelope.reply(), self.buf[..size].to_vec()));
        Route::Nowhere
    }
}

impl Stack for Socket {
    fn connect(&mut self, now: Instant) -> Result<usize, String> {
        let (mut config, server) = self.client.clone().ok_or("a server opens no connections")?;
        let now = self.clock.to_std(now);
        if let Some(logs) = &self.logs {
            logs.client(&mut config, now);
        }
        let opened = self.endpoint.connect(now, config, server, tls::SERVER_NAME);
        let (handle, connection) = opened.map_err(|error| error.to_string())?;
        Ok(self.add(handle, connection))
    }

    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], replies: &mut Replies) -> Route {
        let now = self.clock.to_std(now);
        let ecn = EcnCodepoint::from_bits(envelope.ecn.bits());
        let (remote, bytes) = (envelope.source, BytesMut::from(&*bytes));
        let local = (!self.clients.is_empty()).then_some(envelope.destination.ip());
        self.buf.clear();
        match bridge::handle(&mut self.endpoint, now, (remote, local), ecn, bytes, &mut self.buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(entry) = self.get(handle.0) {
                    entry.connection.handle_event(event);
                }
                self.watch(handle.0);
                Route::Known(handle.0)
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.buf.clear();
                let config = self
                    .logs
                    .as_ref()
                    .and_then(|logs| logs.server(ConnectionId::new(&incoming.orig_dst_cid()[..]), now));
                match self.endpoint.accept(incoming, now, &mut self.buf, config) {
                    Ok((handle, connection)) => Route::New(self.add(handle, connection)),
                    Err(error) => match error.response {
                        Some(response) => self.reply(response.size, &envelope, replies),
                        None => Route::Nowhere,
                    },
                }
            }
            Some(DatagramEvent::Response(response)) => self.reply(response.size, &envelope, replies),
            None => Route::Nowhere,
        }
    }

    fn timeout(&mut self, connection: usize) -> Option<Instant> {
        let at = self.get(connection)?.connection.poll_timeout()?;
        Some(self.clock.to_sim(at))
    }

    fn wake(&mut self, connection: usize, now: Instant) {
        let now = self.clock.to_std(now);
        if let Some(entry) = self.get(connection) {
            entry.connection.handle_timeout(now);
        }
        self.watch(connection);
    }

    fn send(&mut self, connection: usize, now: Instant, batch: usize, out: &mut Outbox<'_>) -> bool {
        let now = self.clock.to_std(now);
        let Some(Some(entry)) = self.connections.get_mut(connection) else { return false };
        let mut sent = false;
        self.buf.clear();
        if let Some((_, server)) = &self.client {
            let further = self.beside.get(entry.opened..).unwrap_or_default();
            let opened =
                further.iter().take_while(|own| bridge::open_path(&mut entry.connection, *server, own.ip(), now));
            entry.opened += opened.count();
        }
        while let Some(transmit) = bridge::poll_transmit(&mut entry.connection, now, batch, &mut self.buf) {
            let ecn = transmit.ecn.filter(|_| self.ecn).map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            let beside = self.beside.iter().find(|address| Some(address.ip()) == transmit.src_ip);
            let source = beside.copied().unwrap_or(self.local);
            let envelope = Envelope { source, destination: transmit.destination, ecn };
            for datagram in self.buf[..transmit.size].chunks(segment) {
                out.push(envelope, datagram);
            }
            self.buf.clear();
            sent = true;
        }
        entry.max_window = entry.max_window.max(bridge::window(&entry.connection));
        sent
    }

    fn with(&mut self, connection: usize, _: Instant, run: &mut dyn FnMut(&mut dyn Transport)) {
        if let Some(entry) = self.get(connection) {
            let max_datagram = entry.connection.datagrams().max_size();
            run(&mut View { connection: &mut entry.connection, max_datagram });
        }
    }

    fn close(&mut self, connection: usize, now: Instant) {
        let now = self.clock.to_std(now);
        if let Some(entry) = self.get(connection) {
            entry.connection.close(now, VarInt::from_u32(0), Bytes::from_static(b"done"));
        }
    }

    fn events(&mut self, connection: usize, _: Instant) -> ConnectionEvents {
        let Some(Some(entry)) = self.connections.get_mut(connection) else { return ConnectionEvents::default() };
        let mut events = ConnectionEvents::default();
        while let Some(event) = entry.connection.poll_endpoint_events() {
            entry.is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(ConnectionHandle(connection), event) {
                entry.connection.handle_event(event);
            }
        }
        while let Some(event) = entry.connection.poll() {
            match event {
                Event::Connected => events.connected = true,
                Event::ConnectionLost { reason } => {
                    let orderly = matches!(reason, ConnectionError::ApplicationClosed(_));
                    events.closed = Some((reason.to_string(), orderly));
                }
                _ => {}
            }
        }
        events
    }

    fn is_over(&mut self, connection: usize, _: Instant) -> bool {
        self.get(connection).is_none_or(|entry| entry.is_drained)
    }

    fn retire(&mut self, connection: usize, _: Instant) -> SideResult {
        let mut result = SideResult::default();
        if let Some(mut entry) = self.connections.get_mut(connection).and_then(Option::take) {
            result.stats = bridge::stats(&mut entry.connection);
            result.stats.path.max_window = entry.max_window.max(result.stats.window);
            result.stats.path.model = entry.watch.stats();
            result.ways = bridge::ways(&mut entry.connection, &self.clients);
        }
        result
    }

    fn address_changed(&mut self, now: Instant, local: SocketAddr) {
        self.local = local;
        let now = self.clock.to_std(now);
        for entry in self.connections.iter_mut().flatten() {
            bridge::address_changed(&mut entry.connection, now);
        }
    }

    fn measured(&self) -> &'static [Figure] {
        bridge::MEASURED
    }
}

/// A connection as the applications see it.
struct View<'a> {
    connection: &'a mut Connection,
    max_datagram: Option<usize>,
}

fn stream(id: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(id).unwrap_or(VarInt::MAX))
}

impl Transport for View<'_> {
    fn is_ready(&self) -> bool {
        !self.connection.is_handshaking() && !self.connection.is_closed()
    }

    fn open(&mut self) -> Option<u64> {
        self.connection.streams().open(Dir::Bi).map(u64::from)
    }

    fn accept(&mut self) -> Option<u64> {
        self.connection.streams().accept(Dir::Bi).map(u64::from)
    }

    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        bridge::write(&mut self.connection.send_stream(stream(id)), data)
    }

    fn finish(&mut self, id: u64) {
        // Fails only for a stream that is over anyway.
        let _ = self.connection.send_stream(stream(id)).finish();
    }

    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut stream = self.connection.recv_stream(stream(id));
        let Ok(mut chunks) = stream.read(true) else { return false };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => take(&chunk.bytes),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        // Whether credit is to be sent is asked anyway: sending follows reading.
        let _ = chunks.finalize();
        end
    }

    fn max_datagram(&self) -> Option<usize> {
        self.max_datagram
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.connection.datagrams().send(data, true).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        self.connection.datagrams().recv()
    }
}
