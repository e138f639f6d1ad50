//! The stacks `quiche…`: quiche with its BoringSSL.
//!
//! Its clock is inside and its chance is BoringSSL's; both are the simulator's while it is called ([`within`]). What a
//! program around it has to do is done as its documentation says: `send` until there is nothing more after everything
//! that happens, each datagram at the time it is released for.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant as StdInstant;

use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use bytes::Bytes;
use quiche::{CongestionControlAlgorithm, Connection, ConnectionId, Header, QlogLevel, RecvInfo, Type};
use thalweg_link::Dice;
use thalweg_proto::crypto::deterministic::{test_certificate, test_key};
use thalweg_sim::app::Transport;
use thalweg_sim::{
    ConnectionEvents, Envelope, Figure, FlowPlan, Hosts, LogFile, LogFiles, Node, Outbox, PlanError, Replies, Route,
    SideResult, Stack, StackContext, StackFactory, StackInfo,
};
use thalweg_units::{Duration, Ecn, Instant, human_bytes};

use crate::clock::Clock;
use crate::model::{Phase, Watch, rate};
use crate::settings::{self, Controller, Settings, Variant};
use crate::tls;
use crate::virtual_world::{fill, within};

/// Length of connection IDs, as the other stacks have them.
const CID: usize = 8;
/// Its initial window, in packets.
const INITIAL_WINDOW: u64 = 10;
/// The size of the packets in which it counts it, bytes.
const PACKET: u64 = 1200;

/// The initial window, in packets.
fn initial_window(settings: &Settings) -> u64 {
    settings.initial_window.map_or(INITIAL_WINDOW, |bytes| bytes.div_ceil(PACKET))
}

/// quiche in one of its variants. It ships no windows (all are zero), so there is none "as shipped".
#[derive(Debug)]
pub(crate) struct Quiche(pub(crate) Variant);

impl Quiche {
    fn name(&self) -> &'static str {
        if self.0 == Variant::Bbr { "quiche-bbr" } else { "quiche" }
    }
}

impl StackFactory for Quiche {
    fn info(&self) -> StackInfo {
        settings::info(self.name())
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let refuse = |reason: String| PlanError::Setup { flow: context.flow.name.clone(), reason };
        let [client, server] = Settings::of(self.name(), self.0, context.flow)?;
        let socket = |side: &str, settings: &Settings| {
            if settings.keep_alive.is_some() {
                return Err(refuse("stack quiche has no keep-alive; leave it out".to_owned()));
            }
            let mut dice = context.streams.dice(&format!("{side} chance"));
            let made = within(Instant::ZERO, &mut dice, || config(side == "server", settings));
            let config = made.map_err(|error| refuse(format!("quiche: {error}")))?;
            let clock = within(Instant::ZERO, &mut dice, Clock::new);
            let later = within(Instant::ZERO + Duration::from_secs(5), &mut dice, StdInstant::now);
            if clock.to_sim(later) != Instant::ZERO + Duration::from_secs(5) {
                return Err(refuse(
                    "quiche would see the system's clock: this program was linked without --wrap".to_owned(),
                ));
            }
            Ok(Socket {
                config,
                is_client: side == "client",
                is_model: settings.controller == Controller::Bbr,
                local: if side == "client" { context.client } else { context.server },
                server: context.server,
                connections: Vec::new(),
                by_id: BTreeMap::new(),
                logs: context.flow.log_files.clone(),
                clock,
                dice,
                buf: vec![0; 65_535],
            })
        };
        Ok(Node::pair(context, socket("client", &client)?, socket("server", &server)?))
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        let Ok(sides) = Settings::of(self.name(), self.0, flow) else { return String::new() };
        settings::describe(&sides, |settings| {
            let (start, paced) = match settings.controller {
                Controller::Bbr => ("", "paced"),
                Controller::Cubic | Controller::NewReno => ("HyStart++, ", "not paced"),
            };
            let (stream, connection) = (human_bytes(settings.stream_window), human_bytes(settings.connection_window));
            format!(
                "quiche {} on BoringSSL, {settings}, {start}initial window {} packets, windows {stream} per stream, \
                 {connection} per connection, packet threshold 3 growing to 20, ACK of whatever is there at every call, no ECN, \
                 {paced}",
                settings::version("quiche"),
                initial_window(settings),
            )
        })
    }
}

fn config(server: bool, settings: &Settings) -> Result<quiche::Config, String> {
    let words = |error: quiche::Error| error.to_string();
    let mut tls = SslContextBuilder::new(SslMethod::tls()).map_err(|error| error.to_string())?;
    let prepared = tls.set_sigalgs_list("ed25519").and_then(|()| {
        if server {
            tls.set_certificate(&*X509::from_der(&test_certificate())?)?;
            tls.set_private_key(&*PKey::private_key_from_pkcs8(test_key().secret_der())?)?;
        }
        Ok(())
    });
    prepared.map_err(|error| error.to_string())?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).map_err(words)?;
    // Whether the certificate is of today is not the question.
    config.verify_peer(false);
    config.set_application_protos(&[tls::ALPN]).map_err(words)?;
    config.set_cc_algorithm(match settings.controller {
        Controller::Cubic => CongestionControlAlgorithm::CUBIC,
        Controller::NewReno => CongestionControlAlgorithm::Reno,
        Controller::Bbr => CongestionControlAlgorithm::Bbr2Gcongestion,
    });
    config.set_initial_congestion_window_packets(initial_window(settings) as usize);
    config.set_initial_max_data(settings.connection_window);
    config.set_max_connection_window(settings.connection_window);
    config.set_initial_max_stream_data_bidi_local(settings.stream_window);
    config.set_initial_max_stream_data_bidi_remote(settings.stream_window);
    config.set_max_stream_window(settings.stream_window);
    config.set_initial_max_streams_bidi(settings.streams);
    config.set_initial_rtt(settings.initial_rtt);
    if let Some(idle) = settings.idle_timeout {
        config.set_max_idle_timeout(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
    }
    // It begins with 1200 B whatever is asked; larger datagrams are searched for.
    config.discover_pmtu(settings.max_mtu > settings.initial_mtu);
    config.set_max_send_udp_payload_size(settings.max_mtu.into());
    let queue = settings.datagrams / 1200 + 1;
    config.enable_dgram(true, queue, queue);
    Ok(config)
}

/// A socket and its connections.
struct Socket {
    config: quiche::Config,
    is_client: bool,
    /// Whether its controller works from a model.
    is_model: bool,
    local: SocketAddr,
    server: SocketAddr,
    connections: Vec<Entry>,
    /// Connections by what they are addressed with.
    by_id: BTreeMap<Vec<u8>, usize>,
    /// Where the connections' logs go, if they are wanted.
    logs: Option<Arc<dyn LogFiles>>,
    clock: Clock,
    dice: Dice,
    buf: Vec<u8>,
}

struct Entry {
    connection: Connection,
    /// Datagrams that are to leave later.
    held: VecDeque<(Instant, SocketAddr, Vec<u8>)>,
    streams: Streams,
    established: bool,
    /// What has been sent and received, datagrams and bytes.
    sent: (u64, u64),
    received: (u64, u64),
    max_window: u64,
    /// Phases that its BBR has entered since they were looked at.
    phases: Arc<Mutex<Phases>>,
    /// What its BBR has done.
    watch: Watch,
}

/// The phases of BBR in a qlog.
#[derive(Debug, Default)]
struct Phases {
    /// An incomplete record.
    line: Vec<u8>,
    entered: Vec<Phase>,
}

/// What quiche writes its qlog into: the phases are kept, and the rest goes into the file, if there is one.
struct Qlog {
    phases: Option<Arc<Mutex<Phases>>>,
    file: Option<LogFile>,
}

impl Write for Qlog {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if let Some(file) = &mut self.file {
            file.write_all(text)?;
        }
        let Some(phases) = &self.phases else { return Ok(text.len()) };
        let mut phases = phases.lock().unwrap_or_else(PoisonError::into_inner);
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            phases.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut phases.line);
                phases.entered.extend(phase(&line));
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.flush())
    }
}

/// The phase that a record of a new state names, if it is one.
fn phase(record: &[u8]) -> Option<Phase> {
    let record = std::str::from_utf8(record).ok()?;
    let (_, name) = record.split_once("congestion_state_updated")?.1.split_once("\"new\":\"")?;
    Some(match name.split_once('"')?.0 {
        "bbr_startup" => Phase::Startup,
        "bbr_drain" => Phase::Drain,
        "bbr_probe_bw_down" => Phase::Down,
        "bbr_probe_bw_cruise" => Phase::Cruise,
        "bbr_probe_bw_refill" => Phase::Refill,
        "bbr_probe_bw_up" => Phase::Up,
        "bbr_probe_rtt" => Phase::ProbeRtt,
        _ => return None,
    })
}

impl Entry {
    /// Looks at what its BBR has done since.
    fn watch(&mut self) {
        let entered = std::mem::take(&mut self.phases.lock().unwrap_or_else(PoisonError::into_inner).entered);
        if entered.is_empty() && self.watch.stats().is_none() {
            return;
        }
        let lost = self.connection.stats().lost as u64;
        let path = self.connection.path_stats().next();
        let bandwidth = rate(path.and_then(|path| path.max_bandwidth).unwrap_or_default());
        self.watch.see_all(&entered, bandwidth, lost);
    }
}

/// Which streams have been opened by whom.
#[derive(Default)]
struct Streams {
    /// The next that is opened here.
    next: u64,
    /// The next of the peer's that is handed to the application.
    accept: u64,
    /// How many of the peer's are known to be open, all below this.
    opened: u64,
}

impl Socket {
    /// A new connection, the IDs by which it is addressed, and the destination of the client's first packet.
    fn add(&mut self, mut connection: Connection, ids: [Vec<u8>; 2], first: &[u8], now: Instant) -> usize {
        let index = self.connections.len();
        let phases = Arc::default();
        let name: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = self.logs.as_ref().and_then(|logs| logs.open(self.is_client, &name));
        if self.is_model || file.is_some() {
            let level = if file.is_some() { QlogLevel::Extra } else { QlogLevel::Base };
            let phases = self.is_model.then(|| Arc::clone(&phases));
            let qlog = Box::new(Qlog { phases, file });
            within(now, &mut self.dice, || {
                connection.set_qlog_with_level(qlog, "quiche".to_owned(), String::new(), level);
            });
        }
        let own = u64::from(!self.is_client);
        self.connections.push(Entry {
            connection,
            held: VecDeque::new(),
            streams: Streams { next: own, accept: 1 - own, opened: 1 - own },
            established: false,
            sent: (0, 0),
            received: (0, 0),
            max_window: 0,
            phases,
            watch: Watch::default(),
        });
        for id in ids {
            self.by_id.insert(id, index);
        }
        index
    }

    fn id(&mut self) -> Vec<u8> {
        let mut id = vec![0; CID];
        fill(&mut self.dice, &mut id);
        id
    }
}

impl Stack for Socket {
    fn connect(&mut self, now: Instant) -> Result<usize, String> {
        let id = self.id();
        let (local, peer) = (self.local, self.server);
        let config = &mut self.config;
        let opened = within(now, &mut self.dice, || {
            quiche::connect(Some(tls::SERVER_NAME), &ConnectionId::from_ref(&id), local, peer, config)
        });
        let connection = opened.map_err(|error| error.to_string())?;
        let first = connection.destination_id().to_vec();
        Ok(self.add(connection, [id.clone(), id], &first, now))
    }

    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], _: &mut Replies) -> Route {
        let (local, peer) = (self.local, envelope.source);
        let Ok(header) = Header::from_slice(bytes, CID) else { return Route::Nowhere };
        let known = self.by_id.get(&*header.dcid).copied();
        let index = match known {
            Some(index) => index,
            None if self.is_client || header.ty != Type::Initial => return Route::Nowhere,
            None => {
                let id = self.id();
                let config = &mut self.config;
                let accepted = within(now, &mut self.dice, || {
                    quiche::accept(&ConnectionId::from_ref(&id), None, local, peer, config)
                });
                let Ok(connection) = accepted else { return Route::Nowhere };
                self.add(connection, [id, header.dcid.to_vec()], &header.dcid, now)
            }
        };
        let entry = &mut self.connections[index];
        entry.received.0 += 1;
        entry.received.1 += bytes.len() as u64;
        // What is wrong with a datagram closes the connection or is nothing.
        let _ = within(now, &mut self.dice, || entry.connection.recv(bytes, RecvInfo { from: peer, to: local }));
        if known.is_some() { Route::Known(index) } else { Route::New(index) }
    }

    fn timeout(&mut self, connection: usize) -> Option<Instant> {
        let entry = self.connections.get(connection)?;
        let timer = entry.connection.timeout_instant().map(|at| self.clock.to_sim(at));
        timer.into_iter().chain(entry.held.front().map(|(at, ..)| *at)).min()
    }

    fn wake(&mut self, connection: usize, now: Instant) {
        if let Some(entry) = self.connections.get_mut(connection) {
            within(now, &mut self.dice, || entry.connection.on_timeout());
        }
    }

    fn send(&mut self, connection: usize, now: Instant, _: usize, out: &mut Outbox<'_>) -> bool {
        let Some(entry) = self.connections.get_mut(connection) else { return false };
        let mut any = false;
        let source = self.local;
        let mut leave = |destination: SocketAddr, datagram: &[u8], sent: &mut (u64, u64)| {
            out.push(Envelope { source, destination, ecn: Ecn::NotEct }, datagram);
            sent.0 += 1;
            sent.1 += datagram.len() as u64;
        };
        while entry.held.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, to, datagram)) = entry.held.pop_front()
        {
            leave(to, &datagram, &mut entry.sent);
            any = true;
        }
        // What is released later holds up what comes after it, as it does in a socket's queue.
        while entry.held.is_empty()
            && let Ok((size, info)) = within(now, &mut self.dice, || entry.connection.send(&mut self.buf))
        {
            let at = self.clock.to_sim(info.at);
            if at > now {
                entry.held.push_back((at, info.to, self.buf[..size].to_vec()));
            } else {
                leave(info.to, &self.buf[..size], &mut entry.sent);
                any = true;
            }
        }
        let window = entry.connection.path_stats().next().map_or(0, |path| path.cwnd as u64);
        entry.max_window = entry.max_window.max(window);
        entry.watch();
        any
    }

    fn with(&mut self, connection: usize, now: Instant, run: &mut dyn FnMut(&mut dyn Transport)) {
        let Some(entry) = self.connections.get_mut(connection) else { return };
        let mut view = View { connection: &mut entry.connection, streams: &mut entry.streams, buf: &mut self.buf };
        within(now, &mut self.dice, || run(&mut view));
    }

    fn close(&mut self, connection: usize, now: Instant) {
        if let Some(entry) = self.connections.get_mut(connection) {
            // Fails only if it is closed already.
            let _ = within(now, &mut self.dice, || entry.connection.close(true, 0, b"done"));
        }
    }

    fn events(&mut self, connection: usize, _: Instant) -> ConnectionEvents {
        let Some(entry) = self.connections.get_mut(connection) else { return ConnectionEvents::default() };
        let quic = &entry.connection;
        let connected = quic.is_established() && !entry.established;
        entry.established |= connected;
        let closed = (quic.is_closed() || quic.is_draining()).then(|| {
            let words = |error: &quiche::ConnectionError| {
                let by = if error.is_app { "application" } else { "transport" };
                format!("{by} error {:#x}: {}", error.error_code, String::from_utf8_lossy(&error.reason))
            };
            match (quic.peer_error(), quic.local_error()) {
                (Some(error), _) => {
                    (format!("closed by peer: {}", words(error)), error.is_app && error.error_code == 0)
                }
                (None, Some(error)) => (words(error), false),
                (None, None) if quic.is_timed_out() => ("timed out".to_owned(), false),
                (None, None) => ("closed".to_owned(), false),
            }
        });
        ConnectionEvents { connected, closed }
    }

    fn is_over(&mut self, connection: usize, _: Instant) -> bool {
        self.connections.get(connection).is_none_or(|entry| entry.connection.is_closed() && entry.held.is_empty())
    }

    fn retire(&mut self, connection: usize, _: Instant) -> SideResult {
        let mut result = SideResult::default();
        let to = &mut result.stats;
        let Some(entry) = self.connections.get_mut(connection) else { return result };
        (to.udp_sent.datagrams, to.udp_sent.bytes) = entry.sent;
        (to.udp_received.datagrams, to.udp_received.bytes) = entry.received;
        let stats = entry.connection.stats();
        to.path.packets_sent = stats.sent as u64;
        to.path.bytes_sent = stats.sent_bytes;
        to.path.packets_lost = stats.lost as u64;
        to.path.bytes_lost = stats.lost_bytes;
        to.path.packets_spurious = stats.spurious_lost as u64;
        if let Some(path) = entry.connection.path_stats().next() {
            (to.rtt, to.latest_rtt, to.min_rtt) = (path.rtt, path.rtt, path.min_rtt.unwrap_or_default());
            to.window = path.cwnd as u64;
            to.mtu = u16::try_from(path.pmtu).unwrap_or(u16::MAX);
            to.path.ptos = path.total_pto_count as u64;
        }
        to.path.max_window = entry.max_window.max(to.window);
        to.path.model = entry.watch.stats();
        result
    }

    fn measured(&self) -> &'static [Figure] {
        &[
            Figure::Datagrams,
            Figure::Packets,
            Figure::Rtt,
            Figure::MinRtt,
            Figure::MaxWindow,
            Figure::SpuriousPackets,
            Figure::Ptos,
            Figure::ModelBandwidth,
            Figure::ModelPhases,
            Figure::ModelExits,
        ]
    }
}

/// A connection as the applications see it.
struct View<'a> {
    connection: &'a mut Connection,
    streams: &'a mut Streams,
    buf: &'a mut [u8],
}

impl Transport for View<'_> {
    fn is_ready(&self) -> bool {
        self.connection.is_established() && !self.connection.is_closed() && !self.connection.is_draining()
    }

    fn open(&mut self) -> Option<u64> {
        if self.connection.peer_streams_left_bidi() == 0 {
            return None;
        }
        let id = self.streams.next;
        // So that it counts from now on and not from its first byte; nothing else is competing.
        self.connection.stream_priority(id, 127, true).ok()?;
        self.streams.next += 4;
        Some(id)
    }

    fn accept(&mut self) -> Option<u64> {
        // A stream opens all before it.
        let of_peer = self.connection.readable().filter(|id| id % 4 == self.streams.accept % 4);
        self.streams.opened = of_peer.map(|id| id + 4).fold(self.streams.opened, u64::max);
        let id = self.streams.accept;
        (id < self.streams.opened).then(|| {
            self.streams.accept += 4;
            id
        })
    }

    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        let written = self.connection.stream_send(id, data, false).unwrap_or(0);
        let _ = data.split_to(written);
        written
    }

    fn finish(&mut self, id: u64) {
        // Fails only for a stream that is over anyway.
        let _ = self.connection.stream_send(id, b"", true);
    }

    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        while let Ok((size, end)) = self.connection.stream_recv(id, self.buf) {
            take(&self.buf[..size]);
            if end {
                return true;
            }
        }
        false
    }

    fn max_datagram(&self) -> Option<usize> {
        self.connection.dgram_max_writable_len()
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.connection.dgram_send(&data).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        let size = self.connection.dgram_recv(self.buf).ok()?;
        Some(Bytes::copy_from_slice(&self.buf[..size]))
    }
}
