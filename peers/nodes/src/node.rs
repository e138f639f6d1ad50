//! A host of the simulator on a foreign stack: applications, what they receive, and when who is called.

use std::time::Duration;

use thalweg_link::Streams;
use thalweg_proto::connection::ConnectionStats;
use thalweg_sim::app::{self, App, Launcher, Transport};
use thalweg_sim::{Figure, Host, Hosts, Meter, Outbox, SideResult, StackContext, Status, Traffic};
use thalweg_units::{Ecn, Instant};

/// A socket's worth of a foreign stack: connections, by number.
pub(crate) trait Stack: Send {
    /// Opens a connection to the server; returns its number.
    fn connect(&mut self, now: Instant) -> Result<usize, String>;
    /// A datagram arrived. What the socket itself answers goes to `replies`.
    fn datagram(&mut self, now: Instant, ecn: Ecn, bytes: &mut [u8], replies: &mut Vec<(Ecn, Vec<u8>)>) -> Route;
    /// When a connection wants to be woken.
    fn timeout(&mut self, connection: usize) -> Option<Instant>;
    /// That time has come.
    fn wake(&mut self, connection: usize, now: Instant);
    /// Sends what a connection may send now, up to `batch` datagrams at a time; returns whether there was anything.
    fn send(&mut self, connection: usize, now: Instant, batch: usize, out: &mut Outbox<'_>) -> bool;
    /// Lets an application at a connection.
    fn with(&mut self, connection: usize, now: Instant, run: &mut dyn FnMut(&mut dyn Transport));
    /// Closes a connection in good order.
    fn close(&mut self, connection: usize, now: Instant);
    /// What became of a connection since it was last asked.
    fn news(&mut self, connection: usize, now: Instant) -> News;
    /// The connection's figures.
    fn stats(&mut self, connection: usize) -> ConnectionStats;
    /// Which of these figures [`stats`](Self::stats) fills; the others are zero for want of a count.
    fn measured(&self) -> &'static [Figure] {
        Figure::BASIC
    }
}

/// Where a datagram went.
pub(crate) enum Route {
    /// To a connection.
    Known(usize),
    /// To a connection that it opened.
    New(usize),
    /// Nowhere.
    Nowhere,
}

/// What became of a connection.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The handshake is complete since now.
    pub(crate) connected: bool,
    /// It is closed: because of this, and whether the other end did so in good order.
    pub(crate) closed: Option<(String, bool)>,
    /// Nothing of it is left.
    pub(crate) gone: bool,
}

/// One end: a socket, its connections and what runs on them.
pub(crate) struct Node<S> {
    stack: S,
    role: Role,
    /// By number.
    connections: Vec<Option<Live>>,
    /// Those that something happened to since the last time.
    touched: Vec<usize>,
    replies: Vec<(Ecn, Vec<u8>)>,
    batch: usize,
    meter: Meter,
    /// Connections whose application has something left to do.
    running: u64,
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
    started: Instant,
    handshake: Option<Duration>,
    touched: bool,
    done: bool,
    wake: Option<Instant>,
}

impl<S: Stack + 'static> Node<S> {
    /// A client and a server of the flow.
    pub(crate) fn pair(context: &StackContext<'_>, client: S, server: S) -> Hosts {
        let node = |stack, role, batch| {
            Box::new(Node {
                stack,
                role,
                connections: Vec::new(),
                touched: Vec::new(),
                replies: Vec::new(),
                batch,
                meter: Meter::new(context.origin, context.record.step),
                running: 0,
                failed: None,
                gone: SideResult::default(),
            })
        };
        let (flow, streams) = (context.flow, Streams::clone(&context.streams));
        let launcher = Launcher::new(&flow.traffic, &streams, context.start);
        let client = node(client, Role::Client(launcher), flow.client_host.batch);
        let server = node(server, Role::Server(flow.traffic.clone()), flow.server_host.batch);
        (client, server)
    }

    fn add(&mut self, index: usize, now: Instant, app: Box<dyn App>) {
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        let live = Live { app, started: now, handshake: None, touched: false, done: false, wake: None };
        self.connections[index] = Some(live);
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
        while let Role::Client(launcher) = &mut self.role
            && launcher.next().is_some_and(|at| at <= now)
        {
            let client = launcher.start(now);
            match self.stack.connect(now) {
                Ok(index) => self.add(index, now, Box::new(client)),
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
        let mut gone = false;
        // An application that still writes after everything was sent gets another turn, but not for ever.
        for _ in 0..10_000 {
            let mut wrote = false;
            if !live.done {
                let (app, meter) = (&mut live.app, &mut self.meter);
                self.stack.with(index, now, &mut |transport| wrote = app.poll(now, transport, meter));
            }
            let sent = self.stack.send(index, now, self.batch, out);
            let news = self.stack.news(index, now);
            if news.connected {
                live.handshake.get_or_insert(now.saturating_since(live.started));
            }
            if let Some((reason, orderly)) = news.closed
                && !live.done
            {
                live.done = true;
                self.running -= 1;
                // A server's connection ends with its client's.
                if !orderly || matches!(self.role, Role::Client(_)) {
                    self.failed.get_or_insert_with(|| format!("the connection was lost: {reason}"));
                }
            }
            gone = news.gone;
            if !live.done && live.app.is_finished() {
                live.done = true;
                self.running -= 1;
                self.stack.close(index, now);
                continue;
            }
            // A connection becomes ready within a call that sends nothing more; its application must hear of it.
            if !(wrote && sent || news.connected) {
                break;
            }
        }
        let app = if live.done { None } else { live.app.wakeup() };
        live.wake = self.stack.timeout(index).into_iter().chain(app).min();
        if gone {
            let handshake = live.handshake;
            self.account(index, handshake);
            self.connections[index] = None;
        }
    }

    /// Adds a connection's figures to those of the end. Of what is not a counter, the latest counts.
    fn account(&mut self, index: usize, handshake: Option<Duration>) {
        let mut stats = self.stack.stats(index);
        let total = &mut self.gone.stats;
        for (sum, before) in [(&mut stats.udp_sent, total.udp_sent), (&mut stats.udp_received, total.udp_received)] {
            sum.datagrams += before.datagrams;
            sum.bytes += before.bytes;
        }
        let (path, before) = (&mut stats.path, &total.path);
        path.packets_sent += before.packets_sent;
        path.bytes_sent += before.bytes_sent;
        path.packets_lost += before.packets_lost;
        path.bytes_lost += before.bytes_lost;
        path.packets_spurious += before.packets_spurious;
        path.mtu_probes_lost += before.mtu_probes_lost;
        path.congestion_events += before.congestion_events;
        path.undos += before.undos;
        path.ptos += before.ptos;
        path.max_window = path.max_window.max(before.max_window);
        stats.handshake_time = total.handshake_time.or(handshake);
        *total = stats;
    }
}

impl<S: Stack + 'static> Host for Node<S> {
    fn datagram(&mut self, now: Instant, ecn: Ecn, bytes: &mut [u8]) {
        match self.stack.datagram(now, ecn, bytes, &mut self.replies) {
            Route::Known(index) => self.touch(index),
            Route::New(index) => {
                let Role::Server(traffic) = &self.role else { return };
                let app = Box::new(app::server(traffic));
                self.add(index, now, app);
            }
            Route::Nowhere => {}
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let launch = match &self.role {
            Role::Client(launcher) => launcher.next(),
            Role::Server(_) => None,
        };
        self.connections.iter().flatten().filter_map(|live| live.wake).chain(launch).min()
    }

    fn timer(&mut self, now: Instant) {
        self.launch(now);
        for index in 0..self.connections.len() {
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
        for (ecn, reply) in self.replies.drain(..) {
            out.push(ecn, &reply);
        }
        while let Some(index) = self.touched.pop() {
            self.drive(index, now, out);
        }
    }

    fn status(&self) -> Status {
        let launching = matches!(&self.role, Role::Client(launcher) if launcher.next().is_some());
        match &self.failed {
            Some(reason) => Status::Failed(reason.clone()),
            None if self.running > 0 || launching => Status::Running,
            None => Status::Finished,
        }
    }

    fn is_busy(&self) -> bool {
        self.running > 0 || matches!(&self.role, Role::Client(launcher) if launcher.next().is_some())
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn report(&mut self, _: Instant) -> SideResult {
        for index in 0..self.connections.len() {
            if let Some(live) = self.connections[index].take() {
                self.account(index, live.handshake);
            }
        }
        self.gone.measured = self.stack.measured();
        self.gone.clone()
    }
}
