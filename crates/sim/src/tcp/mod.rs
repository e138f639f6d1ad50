//! Hosts that run a TCP: packet by packet, with the recovery that the QUIC hosts have.
//!
//! | what | where |
//! |---|---|
//! | header and options | `wire.rs` |
//! | what has arrived, and when to say so | `receiver.rs` |
//! | what is out, and when to send it again | `sender.rs`, over `thalweg_recovery`'s [`SegmentPath`](thalweg_recovery::SegmentPath) |
//! | handshake, options, the application's view | `connection.rs` |
//! | what the bytes mean | `content.rs` |
//! | what can be set | [`TcpConfig`]; the policies are those of the flow |
//!
//! SYN and SYN/ACK with MSS, window scale and SACK; ACKs with up to four SACK blocks, D-SACK among them; no timestamps. A connection ends with
//! the client's FIN; whoever has gone answers with FIN to what still comes. Requests of one flow follow each other on its connection, or
//! take one connection each.

mod connection;
mod content;
mod receiver;
mod sender;
mod settings;
mod wire;

use thalweg_proto::observe::EventHash;
use thalweg_recovery::{Config, Policies};
use thalweg_units::{Ecn, Instant};

use crate::app::{self, App, Launcher};
use crate::host::{Host, Hosts, Outbox, StackContext, StackFactory, Status};
use crate::meter::Meter;
use crate::plan::{FlowPlan, PlanError, Record, Traffic};
use crate::result::{Figure, PacketCounts, SideResult};

use connection::{Connection, Shared};
use content::Contents;
pub use settings::{MinRto, TcpConfig};
use wire::{FIN, Header, SYN};

/// Bytes of IPv4 and TCP headers without options.
pub(crate) const HEADERS: u16 = IP_HEADER as u16 + wire::HEADER as u16;
/// Bytes of a SYN with its options.
pub(crate) const SYN_SIZE: u32 = HEADERS as u32 + 12;
/// Bytes of an IPv4 header: what the network adds to a segment.
const IP_HEADER: u32 = 20;
/// The largest number of connections of a flow: what the pairs of ports can name.
const MOST_CONNECTIONS: usize = 1 << 22;

/// The stack "tcp".
#[derive(Debug)]
pub(crate) struct Tcp;

impl StackFactory for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let flow = context.flow;
        if matches!(flow.traffic, Traffic::Media { .. }) {
            return Err(PlanError::Traffic {
                flow: flow.name.clone(),
                reason: "is datagrams, which the stack \"tcp\" does not carry".to_owned(),
            });
        }
        let contents = Contents::default();
        let base = |role, policies: &Policies| TcpHost {
            role,
            recovery: Config {
                policies: policies.clone(),
                profile: flow.tcp.profile(),
                ecn: false,
                trace: context.hash.is_some() || context.record.metrics,
                ..Config::default()
            },
            config: flow.tcp,
            contents: contents.clone(),
            origin: context.origin,
            record: context.record,
            hash: context.hash.clone(),
            connections: Vec::new(),
            live: Vec::new(),
            touched: Vec::new(),
            farewells: Vec::new(),
            buf: Vec::new(),
            meter: Meter::new(context.origin, context.record.step),
            running: 0,
            failed: None,
            total: SideResult::default(),
        };
        let launcher = Launcher::new(&flow.traffic, &context.streams, context.start);
        let client = base(Role::Client(launcher), &flow.client.policies);
        let role = Role::Server(flow.traffic.clone());
        let server = base(role, &flow.server.policies);
        Ok((Box::new(client), Box::new(server)))
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        format!("{}; {}", flow.server.policies, flow.tcp)
    }
}

enum Role {
    Client(Launcher),
    Server(Traffic),
}

/// A connection and what runs on it, or what is left of it.
enum Slot {
    Live(Box<Live>),
    Gone(Header),
}

struct Live {
    connection: Connection,
    app: Box<dyn App>,
    touched: bool,
    wake: Option<Instant>,
}

/// One end of a flow.
struct TcpHost {
    role: Role,
    recovery: Config,
    config: TcpConfig,
    contents: Contents,
    origin: Instant,
    record: Record,
    hash: Option<EventHash>,
    /// By number.
    connections: Vec<Option<Slot>>,
    /// Numbers of those that live.
    live: Vec<usize>,
    touched: Vec<usize>,
    farewells: Vec<Header>,
    buf: Vec<u8>,
    meter: Meter,
    /// Clients: connections whose application has something left to do.
    running: u64,
    failed: Option<String>,
    total: SideResult,
}

impl TcpHost {
    fn add(&mut self, index: usize, now: Instant, app: Box<dyn App>) {
        let shared = Shared {
            recovery: &self.recovery,
            config: self.config,
            contents: &self.contents,
            origin: self.origin,
            record: self.record,
        };
        let is_client = matches!(self.role, Role::Client(_));
        let log = self.hash.as_ref().map(EventHash::observer);
        let connection = Connection::new(index as u32, is_client, now, &shared, log);
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Slot::Live(Box::new(Live { connection, app, touched: false, wake: None })));
        self.live.push(index);
        self.total.connections += 1;
        self.running += 1;
        self.touch(index);
    }

    fn touch(&mut self, index: usize) {
        if let Some(Some(Slot::Live(live))) = self.connections.get_mut(index)
            && !live.touched
        {
            live.touched = true;
            self.touched.push(index);
        }
    }

    fn launch(&mut self, now: Instant) {
        while let Role::Client(launcher) = &mut self.role
            && launcher.next().is_some_and(|at| at <= now)
        {
            let client = launcher.start(now);
            self.add(self.connections.len(), now, Box::new(client));
        }
    }

    /// Lets a connection's application and the connection itself do all they can.
    fn drive(&mut self, index: usize, now: Instant, out: &mut Outbox<'_>) {
        let Some(Some(Slot::Live(live))) = self.connections.get_mut(index) else { return };
        live.touched = false;
        // An application that still writes after everything was sent gets another turn, but not for ever.
        for _ in 0..10_000 {
            let wrote = live.app.poll(now, &mut live.connection, &mut self.meter);
            let sent = live.connection.poll_send(now, &mut self.buf, out);
            if !(wrote && sent) {
                break;
            }
        }
        live.wake = live.connection.timer().into_iter().chain(live.app.wakeup()).min();
        if let Some(reason) = live.connection.failed() {
            self.failed.get_or_insert_with(|| format!("the connection was lost: {reason}"));
            self.remove(index, now);
        } else if live.app.is_finished() {
            live.connection.close(now, &mut self.buf, out);
            self.remove(index, now);
        }
    }

    /// The connection is over, as far as this end is concerned.
    fn remove(&mut self, index: usize, now: Instant) {
        if let Some(Some(Slot::Live(live))) = self.connections.get_mut(index) {
            live.connection.report(now, &mut self.total);
            let farewell = live.connection.farewell();
            if matches!(self.role, Role::Server(_)) {
                // The client has read everything.
                live.connection.contents().close(index as u32);
            }
            self.connections[index] = Some(Slot::Gone(farewell));
            self.live.retain(|live| *live != index);
            self.running -= 1;
        }
    }
}

impl Host for TcpHost {
    fn datagram(&mut self, now: Instant, ecn: Ecn, bytes: &mut [u8]) {
        let Some((header, data)) = Header::read(bytes) else {
            self.total.stats.packets_dropped += 1;
            return;
        };
        let index = header.connection as usize;
        let is_known = self.connections.get(index).is_some_and(Option::is_some);
        if !is_known
            && header.has(SYN)
            && index < MOST_CONNECTIONS
            && let Role::Server(traffic) = &self.role
        {
            let app = Box::new(app::server(traffic));
            self.add(index, now, app);
        }
        match self.connections.get_mut(index) {
            Some(Some(Slot::Live(live))) => {
                let size = bytes.len() as u64;
                live.connection.on_segment(now, ecn, &header, data as u64, size, &mut self.total.rtt);
                self.touch(index);
                if header.has(FIN) && matches!(self.role, Role::Server(_)) {
                    self.remove(index, now);
                }
            }
            Some(Some(Slot::Gone(farewell))) if !header.has(FIN) => self.farewells.push(*farewell),
            _ => {}
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let launch = match &self.role {
            Role::Client(launcher) => launcher.next(),
            Role::Server(_) => None,
        };
        let wakes = self.live.iter().filter_map(|index| match self.connections.get(*index) {
            Some(Some(Slot::Live(live))) => live.wake,
            _ => None,
        });
        wakes.chain(launch).min()
    }

    fn timer(&mut self, now: Instant) {
        self.launch(now);
        for at in 0..self.live.len() {
            let index = self.live[at];
            let Some(Some(Slot::Live(live))) = self.connections.get_mut(index) else { continue };
            if live.wake.is_some_and(|wake| wake <= now) {
                live.connection.on_timer(now);
                self.touch(index);
            }
        }
    }

    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>) {
        for farewell in self.farewells.drain(..) {
            farewell.write(0, &mut self.buf);
            out.push(Ecn::NotEct, &self.buf);
        }
        while let Some(index) = self.touched.pop() {
            self.drive(index, now, out);
        }
    }

    fn status(&self) -> Status {
        let is_launching = matches!(&self.role, Role::Client(launcher) if launcher.next().is_some());
        match &self.failed {
            Some(reason) => Status::Failed(reason.clone()),
            None if self.running > 0 || is_launching => Status::Running,
            None => Status::Finished,
        }
    }

    fn is_busy(&self) -> bool {
        self.running > 0 || matches!(&self.role, Role::Client(launcher) if launcher.next().is_some())
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn overhead(&self) -> u32 {
        IP_HEADER
    }

    fn packets(&self) -> Option<PacketCounts> {
        let gone = PacketCounts { sent: self.total.stats.path.packets_sent, lost: self.total.stats.path.packets_lost };
        let live = self.connections.iter().flatten().filter_map(|slot| match slot {
            Slot::Live(live) => Some(live.connection.packets()),
            Slot::Gone(_) => None,
        });
        Some(live.fold(gone, |total, one| PacketCounts { sent: total.sent + one.sent, lost: total.lost + one.lost }))
    }

    fn report(&mut self, now: Instant) -> SideResult {
        let mut total = std::mem::take(&mut self.total);
        for slot in self.connections.iter_mut().flatten() {
            if let Slot::Live(live) = slot {
                live.connection.report(now, &mut total);
            }
        }
        total.tcp.get_or_insert_default();
        total.measured = Figure::TCP;
        total
    }
}
