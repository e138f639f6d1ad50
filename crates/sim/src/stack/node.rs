//! The host of every transport with connections: the order of calls, the application of each connection, the figures.

use std::net::SocketAddr;

use thalweg_units::{Duration, Instant};

use super::{Hosts, Replies, Route, Stack, StackContext};
use crate::app::App;
use crate::host::{Envelope, Host, Outbox, Status};
use crate::meter::Meter;
use crate::result::{PacketCounts, SideResult};
use crate::traffic::{Launcher, Traffic};

/// Turns that an application gets at one instant because it still writes after everything was sent.
const MOST_TURNS: u32 = 10_000;

/// One end of a flow on a [`Stack`]: a socket, its connections and what runs on them.
pub struct Node<S> {
    stack: S,
    role: Role,
    /// By number.
    connections: Vec<Option<Live>>,
    /// Numbers of those that live, in order.
    live: Vec<usize>,
    /// Those that something happened to since the last time.
    touched: Vec<usize>,
    replies: Replies,
    /// Datagrams per batch.
    batch: usize,
    meter: Meter,
    /// Connections whose application has something left to do.
    running: u64,
    /// Connections so far.
    opened: u32,
    /// Connections that ended before their time.
    lost: u64,
    failed: Option<String>,
    /// Figures of the connections that are gone.
    gone: SideResult,
}

/// Which end this is, and what runs on its connections.
enum Role {
    Client(Launcher),
    Server(Traffic),
}

/// A connection that lives.
struct Live {
    app: Box<dyn App>,
    /// Which of all connections of this end it is. Unlike the stack's number it is not used again.
    number: u32,
    started: Instant,
    handshake: Option<Duration>,
    touched: bool,
    done: bool,
    wake: Option<Instant>,
}

impl<S: Stack + 'static> Node<S> {
    /// A client and a server of the flow.
    pub fn pair(context: &StackContext<'_>, client: S, server: S) -> Hosts {
        let node = |stack, role, batch| {
            Box::new(Node {
                stack,
                role,
                connections: Vec::new(),
                live: Vec::new(),
                touched: Vec::new(),
                replies: Vec::new(),
                batch,
                meter: Meter::new(context.origin, context.record.step),
                running: 0,
                opened: 0,
                lost: 0,
                failed: None,
                gone: SideResult::default(),
            })
        };
        let flow = context.flow;
        let launcher = Launcher::new(&*flow.traffic, &context.streams, context.start);
        let client = node(client, Role::Client(launcher), flow.client_host.batch);
        let server = node(server, Role::Server(flow.traffic.clone()), flow.server_host.batch);
        (client, server)
    }

    fn add(&mut self, index: usize, now: Instant, app: Box<dyn App>) {
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        let number = self.opened;
        self.opened = self.opened.wrapping_add(1);
        let live = Live { app, number, started: now, handshake: None, touched: false, done: false, wake: None };
        self.connections[index] = Some(live);
        if let Err(at) = self.live.binary_search(&index) {
            self.live.insert(at, index);
        }
        self.gone.connections += 1;
        self.running += 1;
        self.touch(index);
    }

    /// A datagram went there.
    fn arrived(&mut self, now: Instant, route: Route) {
        match route {
            Route::Known(index) => self.touch(index),
            Route::New(index) => {
                let Role::Server(traffic) = &self.role else { return };
                let app = traffic.server();
                self.add(index, now, app);
            }
            Route::Nowhere => {}
        }
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
        while let Role::Client(launcher) = &mut self.role
            && launcher.next().is_some_and(|at| at <= now)
        {
            let client = launcher.start(now);
            match self.stack.connect(now) {
                Ok(index) => self.add(index, now, client),
                Err(error) => {
                    self.failed.get_or_insert_with(|| format!("the connection could not be opened: {error}"));
                }
            }
        }
    }

    /// When the next connection is to be opened.
    fn next_launch(&self) -> Option<Instant> {
        match &self.role {
            Role::Client(launcher) => launcher.next(),
            Role::Server(_) => None,
        }
    }

    /// Lets a connection's application and the connection itself do all they can.
    fn drive(&mut self, index: usize, now: Instant, out: &mut Outbox<'_>) {
        let Some(Some(live)) = self.connections.get_mut(index) else { return };
        live.touched = false;
        out.of(live.number);
        let mut can_send = true;
        for _ in 0..MOST_TURNS {
            let mut wrote = false;
            if !live.done {
                let (app, meter) = (&mut live.app, &mut self.meter);
                self.stack.with(index, now, &mut |transport| wrote = app.poll(now, transport, meter));
            }
            let sent = can_send && self.stack.send(index, now, self.batch, out);
            let events = self.stack.events(index, now);
            if events.connected {
                live.handshake.get_or_insert(now.saturating_since(live.started));
            }
            if let Some((reason, is_orderly)) = events.closed
                && !live.done
            {
                live.done = true;
                self.running -= 1;
                // A server's connection ends with its client's.
                if !is_orderly || matches!(self.role, Role::Client(_)) {
                    self.lost += 1;
                    self.failed.get_or_insert_with(|| format!("the connection was lost: {reason}"));
                }
            }
            if !live.done && live.app.is_finished() {
                live.done = true;
                self.running -= 1;
                self.stack.close(index, now);
                can_send = true;
                continue;
            }
            // A connection becomes ready within a call that sends nothing more; its application must be notified.
            if !(wrote && sent || events.connected) {
                break;
            }
            can_send = events.connected || self.stack.wants_data(index);
        }
        let is_over = self.stack.is_over(index, now);
        let app = if live.done { None } else { live.app.wakeup() };
        live.wake = match (self.stack.timeout(index), app) {
            (Some(connection), Some(app)) => Some(connection.min(app)),
            (connection, app) => connection.or(app),
        };
        if is_over {
            self.retire(index, now);
        }
    }

    /// Adds a connection's figures to those of the end and forgets it.
    fn retire(&mut self, index: usize, now: Instant) {
        let Some(live) = self.connections.get_mut(index).and_then(Option::take) else { return };
        self.live.retain(|live| *live != index);
        let mut figures = self.stack.retire(index, now);
        figures.stats.handshake_time = figures.stats.handshake_time.or(live.handshake);
        self.gone += figures;
    }
}

impl<S: Stack + 'static> Host for Node<S> {
    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8]) {
        let route = self.stack.datagram(now, envelope, bytes, &mut self.replies);
        self.arrived(now, route);
    }

    fn padded(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], zeros: usize) {
        let route = self.stack.padded(now, envelope, bytes, zeros, &mut self.replies);
        self.arrived(now, route);
    }

    fn next_timer(&self) -> Option<Instant> {
        let wakes = self.live.iter().filter_map(|index| self.connections.get(*index)?.as_ref()?.wake);
        wakes.chain(self.next_launch()).min()
    }

    fn timer(&mut self, now: Instant) {
        self.launch(now);
        for at in 0..self.live.len() {
            let index = self.live[at];
            if !matches!(&self.connections[index], Some(live) if live.wake.is_some_and(|at| at <= now)) {
                continue;
            }
            if self.stack.timeout(index).is_some_and(|at| at <= now) {
                self.stack.wake(index, now);
            }
            self.touch(index);
        }
    }

    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>) {
        // What the socket itself answers has no connection; it counts as of the first.
        out.of(0);
        for (envelope, reply) in self.replies.drain(..) {
            out.push(envelope, &reply);
        }
        while let Some(index) = self.touched.pop() {
            self.drive(index, now, out);
        }
    }

    fn address_changed(&mut self, now: Instant, local: SocketAddr) {
        self.stack.address_changed(now, local);
        for at in 0..self.live.len() {
            self.touch(self.live[at]);
        }
    }

    fn status(&self) -> Status {
        match &self.failed {
            Some(reason) => Status::Failed(reason.clone()),
            None if self.is_busy() => Status::Running,
            None => Status::Finished,
        }
    }

    fn is_busy(&self) -> bool {
        self.running > 0 || self.next_launch().is_some()
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn overhead(&self) -> u32 {
        self.stack.overhead()
    }

    fn packets(&self) -> Option<PacketCounts> {
        let gone = &self.gone.stats.path;
        let gone = PacketCounts { sent: gone.packets_sent, lost: gone.packets_lost };
        self.live.iter().try_fold(gone, |total, index| {
            let one = self.stack.packets(*index)?;
            Some(PacketCounts { sent: total.sent + one.sent, lost: total.lost + one.lost })
        })
    }

    fn report(&mut self, now: Instant) -> SideResult {
        while let Some(index) = self.live.first().copied() {
            self.retire(index, now);
        }
        let mut total = std::mem::take(&mut self.gone);
        self.stack.finish(now, &mut total);
        total.measured = self.stack.measured();
        total.connections_lost = self.lost;
        total
    }
}
