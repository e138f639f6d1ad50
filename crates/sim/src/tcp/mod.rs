//! The stack "tcp": TCP packet by packet, with the recovery that QUIC has here.
//!
//! | what | where |
//! |---|---|
//! | header and options | `wire.rs` |
//! | what has arrived, and when to say so | `receiver.rs` |
//! | what is out, and when to send it again | `sender.rs`, over `thalweg_recovery`'s [`SegmentPath`](thalweg_recovery::SegmentPath) |
//! | handshake, options, the application's view | `connection.rs` |
//! | what the bytes mean | `content.rs` |
//! | how much leaves at once | `bursts.rs` |
//! | what can be set | [`TcpConfig`]; the policies are those of the flow, over those of its [`TcpProfile`] |
//!
//! SYN and SYN/ACK with MSS, window scale, SACK and timestamps; ACKs with up to four SACK blocks, D-SACK among them. A
//! connection ends with the client's FIN; whoever has gone answers with FIN to what still comes. Requests of one flow
//! follow each other on its connection, or take one connection each. A server knows a connection by both addresses: to
//! what comes from another one it answers RST, and the client's connection is over.

mod bursts;
mod connection;
mod content;
mod exchange;
mod order;
mod receiver;
mod sender;
mod settings;
mod wire;

use std::net::SocketAddr;

use thalweg_link::Quantiles;
use thalweg_proto::observe::EventHash;
use thalweg_recovery::{Config, Policies};
use thalweg_units::{Ecn, Instant};

use crate::app::Transport;
use crate::floor::Framing;
use crate::host::{Envelope, Outbox};
use crate::plan::{FlowPlan, PlanError, Record};
use crate::result::{Figure, PacketCounts, SideResult};
use crate::stack::{
    Carries, ConnectionEvents, Hosts, Node, Replies, Route, Stack, StackContext, StackFactory, StackInfo,
    SupportedPolicies,
};
use crate::traffic::Needs;

use connection::{Connection, Shared};
use content::Contents;
pub use settings::{MinRto, TcpAcks, TcpConfig, TcpProfile};
use wire::{FIN, HEADERS, Header, IP_HEADER, RST, SYN};

/// Bytes of a SYN with its options.
const SYN_SIZE: u32 = HEADERS as u32 + 12;
/// The same with timestamps, one of whose four bytes of padding SACK permitted takes.
const STAMPED_SYN_SIZE: u32 = HEADERS as u32 + 20;
/// The largest number of connections of a flow: what the pairs of ports can name.
const MOST_CONNECTIONS: usize = 1 << 22;

/// The stack "tcp".
#[derive(Debug)]
pub(crate) struct Tcp;

impl StackFactory for Tcp {
    fn info(&self) -> StackInfo {
        let instead = "its timers are set by tcp = { min_rto, tail_loss_probe }, and they repeat its handshake";
        StackInfo {
            carries: Carries::Streams,
            supported_policies: SupportedPolicies::AllBut { policies: TcpConfig::IGNORED_POLICIES, instead },
            policies: |settings, named| TcpProfile::from(settings).policies(named),
            schema: Some(&settings::SCHEMA),
            ..StackInfo::new("tcp")
        }
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let flow = context.flow;
        if flow.traffic.needs() == Needs::Datagrams {
            return Err(PlanError::Traffic {
                flow: flow.name.clone(),
                reason: "is datagrams, which the stack \"tcp\" does not carry".to_owned(),
            });
        }
        let mut config = TcpConfig::from(&flow.settings);
        let scales = [&flow.client, &flow.server].iter().any(|side| side.policies.mark.ecn_codepoint() == Ecn::Ect1);
        config.counts_marks = config.ecn && scales;
        let contents = Contents::default();
        let base = |is_client, policies: &Policies| Socket {
            is_client,
            local: if is_client { context.client } else { context.server },
            server: context.server,
            recovery: Config {
                policies: policies.clone(),
                profile: config.profile(),
                ecn: false,
                trace: context.hash.is_some() || context.record.metrics,
                ..Config::default()
            },
            config,
            contents: contents.clone(),
            origin: context.origin,
            record: context.record,
            hash: context.hash.clone(),
            slots: Vec::new(),
            by_ports: Vec::new(),
            rtt: Quantiles::default(),
            damaged: 0,
        };
        let client = base(true, &flow.client.policies);
        let server = base(false, &flow.server.policies);
        Ok(Node::pair(context, client, server))
    }

    fn framing(&self, flow: &FlowPlan, _: bool) -> Framing {
        let config = TcpConfig::from(&flow.settings);
        // The first packet is a SYN; the request follows a round trip later.
        let first = if config.timestamps { STAMPED_SYN_SIZE } else { SYN_SIZE };
        Framing { packet: u32::from(config.mtu), overhead: u32::from(config.headers()), first, handshake: 1 }
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        format!("{}; {}", flow.server.policies, TcpConfig::from(&flow.settings))
    }
}

/// A connection, or what is left of it.
struct Slot {
    /// Until its figures are asked for.
    connection: Option<Box<Connection>>,
    peer: SocketAddr,
    /// The application is done with it; FIN leaves with the next turn.
    is_closing: bool,
    /// It is over: the answer to whatever still comes.
    farewell: Option<Header>,
}

impl Slot {
    /// The connection, unless it is over.
    fn live(&mut self) -> Option<&mut Connection> {
        self.connection.as_deref_mut().filter(|_| self.farewell.is_none())
    }
}

/// One end of a flow: its connections, in the order in which they came.
struct Socket {
    is_client: bool,
    local: SocketAddr,
    server: SocketAddr,
    recovery: Config,
    config: TcpConfig,
    contents: Contents,
    origin: Instant,
    record: Record,
    hash: Option<EventHash>,
    slots: Vec<Slot>,
    /// Which of these has a pair of ports.
    by_ports: Vec<Option<usize>>,
    rtt: Quantiles,
    damaged: u64,
}

impl Socket {
    fn live(&mut self, index: usize) -> Option<&mut Connection> {
        self.slots.get_mut(index)?.live()
    }

    fn add(&mut self, ports: usize, peer: SocketAddr, now: Instant) -> usize {
        let shared = Shared {
            recovery: &self.recovery,
            config: self.config,
            contents: &self.contents,
            origin: self.origin,
            record: self.record,
        };
        let log = self.hash.as_ref().map(EventHash::observer);
        let addresses = Envelope { source: self.local, destination: peer, ecn: Ecn::NotEct };
        let connection = Connection::new(ports as u32, self.is_client, addresses, now, &shared, log);
        if self.by_ports.len() <= ports {
            self.by_ports.resize_with(ports + 1, || None);
        }
        self.by_ports[ports] = Some(self.slots.len());
        let connection = Some(Box::new(connection));
        self.slots.push(Slot { connection, peer, is_closing: false, farewell: None });
        self.slots.len() - 1
    }

    /// A connection is over, as far as this end is concerned.
    fn end(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if let Some(connection) = &slot.connection {
            slot.farewell = Some(connection.farewell());
            if !self.is_client {
                // The client has read everything.
                connection.contents_closed();
            }
        }
    }

    /// Answers a segment with nothing but a header.
    fn answer(&self, envelope: &Envelope, header: &Header, replies: &mut Replies) -> Route {
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        replies.push((envelope.reply(), bytes));
        Route::Nowhere
    }
}

impl Stack for Socket {
    fn connect(&mut self, now: Instant) -> Result<usize, String> {
        Ok(self.add(self.slots.len(), self.server, now))
    }

    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], replies: &mut Replies) -> Route {
        self.padded(now, envelope, bytes, 0, replies)
    }

    fn padded(
        &mut self,
        now: Instant,
        envelope: Envelope,
        bytes: &mut [u8],
        zeros: usize,
        replies: &mut Replies,
    ) -> Route {
        let Some((header, data)) = Header::read(bytes) else {
            self.damaged += 1;
            return Route::Nowhere;
        };
        let ports = header.connection as usize;
        let known = self.by_ports.get(ports).copied().flatten();
        let is_new = known.is_none() && header.has(SYN) && ports < MOST_CONNECTIONS && !self.is_client;
        let Some(index) = known.or_else(|| is_new.then(|| self.add(ports, envelope.source, now))) else {
            return Route::Nowhere;
        };
        let Some(slot) = self.slots.get_mut(index) else { return Route::Nowhere };
        if let Some(farewell) = slot.farewell {
            let is_last = header.has(FIN) || header.has(RST);
            return if is_last { Route::Nowhere } else { self.answer(&envelope, &farewell, replies) };
        }
        if slot.peer != envelope.source {
            // Nobody here knows of a connection between these addresses (RFC 9293 section 3.10.7.1).
            let reset = Header { flags: RST, seq: header.ack, ..header.bare() };
            return if header.has(RST) { Route::Nowhere } else { self.answer(&envelope, &reset, replies) };
        }
        if let Some(connection) = slot.live() {
            let (data, size) = ((data + zeros) as u64, (bytes.len() + zeros) as u64);
            connection.on_segment(now, envelope.ecn, &header, data, size, &mut self.rtt);
        }
        if header.has(FIN) && !self.is_client {
            self.end(index);
        }
        if is_new { Route::New(index) } else { Route::Known(index) }
    }

    fn timeout(&mut self, connection: usize) -> Option<Instant> {
        self.live(connection)?.timer()
    }

    fn wake(&mut self, connection: usize, now: Instant) {
        if let Some(connection) = self.live(connection) {
            connection.on_timer(now);
        }
    }

    fn with(&mut self, connection: usize, _: Instant, run: &mut dyn FnMut(&mut dyn Transport)) {
        if let Some(connection) = self.live(connection) {
            run(connection);
        }
    }

    fn send(&mut self, connection: usize, now: Instant, _: usize, out: &mut Outbox<'_>) -> bool {
        let Some(slot) = self.slots.get_mut(connection) else { return false };
        let is_closing = slot.is_closing;
        let Some(live) = slot.live() else { return false };
        if is_closing {
            live.close(now, out);
            self.end(connection);
            return true;
        }
        live.poll_send(now, out)
    }

    fn wants_data(&self, connection: usize) -> bool {
        let live = self.slots.get(connection).and_then(|slot| slot.connection.as_deref());
        live.is_none_or(Connection::wants_data)
    }

    fn close(&mut self, connection: usize, _: Instant) {
        if let Some(slot) = self.slots.get_mut(connection) {
            slot.is_closing = true;
        }
    }

    fn events(&mut self, connection: usize, _: Instant) -> ConnectionEvents {
        let Some(reason) = self.live(connection).and_then(|connection| connection.failed()) else {
            return ConnectionEvents::default();
        };
        self.end(connection);
        ConnectionEvents { connected: false, closed: Some((reason.to_owned(), false)) }
    }

    fn is_over(&mut self, connection: usize, _: Instant) -> bool {
        self.live(connection).is_none()
    }

    fn retire(&mut self, connection: usize, now: Instant) -> SideResult {
        let gone = self.slots.get_mut(connection).and_then(|slot| slot.connection.take());
        gone.map_or_else(SideResult::default, |mut gone| gone.report(now))
    }

    fn overhead(&self) -> u32 {
        IP_HEADER
    }

    fn packets(&self, connection: usize) -> Option<PacketCounts> {
        self.slots.get(connection)?.connection.as_ref().map(|connection| connection.packets())
    }

    fn measured(&self) -> &'static [Figure] {
        Figure::TCP
    }

    fn finish(&mut self, _: Instant, total: &mut SideResult) {
        total.rtt = std::mem::take(&mut self.rtt);
        total.stats.packets_dropped += self.damaged;
        total.tcp.get_or_insert_default();
    }
}
