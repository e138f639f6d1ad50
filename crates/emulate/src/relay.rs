//! A UDP relay: what clients send to it crosses the path and goes on to a target, and back.
//!
//! One thread serves all sockets. It waits to the nanosecond, knows from the kernel when a datagram came, and carries
//! ECN marks both ways. Everything that it holds is bounded.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use thalweg_link::PathConfig;
use thalweg_units::{Duration, Ecn, Instant};

use crate::carrier::Carrier;
use crate::engine::{Arrival, Departure, Engine, Port, Toward};
use crate::system::{self, Poll, Received};
use crate::verdict::{PathReport, Report};

/// Clients (by address) that a relay serves at most at a time.
const MAX_FLOWS: usize = 256;
/// A client that has been silent for so long makes room for another.
const SILENT: Duration = Duration::from_secs(30);
/// Datagrams that are read from a socket before anything else is done.
const BURST: usize = 32;
/// The largest datagram.
const LARGEST: usize = 65_535;
/// Bytes of IP and UDP headers, which take their time on a link.
const IPV4_UDP: u32 = 28;
const IPV6_UDP: u32 = 48;
/// Places in the list of what is waited for.
const STOPPED: usize = 0;
const FRONT: usize = 1;
const UPSTREAMS: usize = 2;

/// A relay to be started.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where clients send to; a free port if that is 0.
    pub listen: SocketAddr,
    /// Where their datagrams go on to.
    pub target: SocketAddr,
    /// The path, from client to server.
    pub hops: Vec<PathConfig>,
    /// Seeds every choice.
    pub seed: u64,
    /// Whether to ask for real-time priority.
    pub realtime: bool,
}

/// Datagrams of a relay so far, both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Passed on.
    pub forwarded: u64,
    /// Lost on purpose, because the relay was cut, or because there was no room.
    pub dropped: u64,
    /// Passed on after one that had come later.
    pub reordered: u64,
}

#[derive(Debug, Default)]
struct Shared {
    cut: AtomicBool,
    forwarded: AtomicU64,
    dropped: AtomicU64,
    reordered: AtomicU64,
}

/// A running relay; dropping it ends it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends the thread when it is closed.
    stop: UnixStream,
    thread: Option<JoinHandle<Report>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Relay {
    /// Starts a relay.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the path cannot work as described; else what the system says about sockets and threads.
    pub fn start(config: RelayConfig) -> io::Result<Relay> {
        let start = system::now();
        let engine = Engine::new(&config.hops, config.seed, start)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let front = system::udp_socket(config.listen)?;
        let address = front.local_addr()?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = UnixStream::pair()?;
        stopped.set_nonblocking(true)?;
        let worker = Worker {
            start,
            round_trip: PathReport::round_trip_of(&config.hops),
            target: config.target,
            shared: shared.clone(),
            engine,
            sockets: Sockets {
                front,
                is_ipv4: address.is_ipv4(),
                target_is_ipv4: config.target.is_ipv4(),
                flows: BTreeMap::new(),
            },
            numbers: BTreeMap::new(),
            next_number: 0,
            ignored: 0,
            cut: 0,
            dropped_by_closed: 0,
            burst: Burst { bytes: vec![0; 2 * BURST * LARGEST], end: 0, read: Vec::new() },
            stopped,
            poll: Poll::default(),
            has_changed: false,
        };
        let realtime = config.realtime;
        let thread = thread::Builder::new().name("relay".into()).spawn(move || worker.run(realtime))?;
        Ok(Relay { address, shared, stop, thread: Some(thread) })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the network (`true`: everything that comes is lost) or mends it.
    pub fn set_cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::Relaxed);
    }

    /// What it has done so far. A datagram may reach its receiver a moment before it is counted.
    pub fn counts(&self) -> RelayCounts {
        RelayCounts {
            forwarded: self.shared.forwarded.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            reordered: self.shared.reordered.load(Ordering::Relaxed),
        }
    }

    /// Ends it. What is on the way then is lost.
    pub fn stop(mut self) -> Report {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Report> {
        // The other end may be gone already.
        let _ = self.stop.write_all(b"x");
        self.thread.take()?.join().ok()
    }
}

/// A client and the socket that speaks for it to the target.
#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    upstream: UdpSocket,
    heard: Instant,
}

/// Where datagrams go.
struct Sockets {
    front: UdpSocket,
    is_ipv4: bool,
    target_is_ipv4: bool,
    /// By number.
    flows: BTreeMap<u32, Flow>,
}

impl Port for Sockets {
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
        let flow = self.flows.get(&departure.flow)?;
        let (socket, to, is_ipv4) = match departure.toward {
            Toward::Server => (&flow.upstream, None, self.target_is_ipv4),
            Toward::Client => (&self.front, Some(flow.client), self.is_ipv4),
        };
        let mut sent = system::send(socket, departure.bytes, to, is_ipv4, departure.ecn);
        // An ICMP error of an earlier datagram, which is told once.
        if sent.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            sent = system::send(socket, departure.bytes, to, is_ipv4, departure.ecn);
        }
        sent.ok().map(|()| system::now())
    }
}

/// A datagram that was read: its place in the buffer, and what is known of it.
#[derive(Copy, Clone, Debug)]
struct Read {
    at: Instant,
    place: usize,
    len: usize,
    ecn: Ecn,
    toward: Toward,
    flow: u32,
}

/// Datagrams that were read and are yet to be offered to the path.
struct Burst {
    bytes: Vec<u8>,
    end: usize,
    read: Vec<Read>,
}

struct Worker {
    start: Instant,
    round_trip: Duration,
    target: SocketAddr,
    shared: Arc<Shared>,
    engine: Engine,
    sockets: Sockets,
    /// The number of each client's flow.
    numbers: BTreeMap<SocketAddr, u32>,
    next_number: u32,
    /// Datagrams of clients that found no place.
    ignored: u64,
    /// Datagrams that came while the network was cut.
    cut: u64,
    /// Datagrams that the kernel dropped at sockets that are closed.
    dropped_by_closed: u64,
    burst: Burst,
    stopped: UnixStream,
    poll: Poll,
    /// Whether a socket was added or closed since the list of what is waited for was made.
    has_changed: bool,
}

impl Worker {
    fn run(mut self, realtime: bool) -> Report {
        let carrier = Carrier::start(realtime, None);
        self.watch();
        while self.wait() {
            self.read();
            self.offer();
            self.engine.run(system::now(), &mut self.sockets);
            self.publish();
        }
        let sockets = self.sockets.flows.values().map(|flow| &flow.upstream).chain([&self.sockets.front]);
        let path = PathReport::of(&self.engine, self.round_trip, u64::from(self.next_number));
        Report {
            ignored: self.ignored,
            device_dropped: self.dropped_by_closed + sockets.map(system::dropped_by).sum::<u64>(),
            ..carrier.report(vec![path], self.start)
        }
    }

    /// Waits until there is something to do. False if it has been stopped.
    fn wait(&mut self) -> bool {
        let timeout = self.engine.next_due().map(|due| due.saturating_since(system::now()));
        self.poll.wait(timeout).is_ok() && !self.poll.is_ready(STOPPED)
    }

    /// Has changes of the sockets waited for.
    fn watch(&mut self) {
        self.poll.clear();
        self.poll.push(self.stopped.as_fd());
        self.poll.push(self.sockets.front.as_fd());
        for flow in self.sockets.flows.values() {
            self.poll.push(flow.upstream.as_fd());
        }
    }

    /// Reads what has come, up to a burst of each socket.
    fn read(&mut self) {
        let offset = system::realtime_offset();
        self.burst.end = 0;
        self.burst.read.clear();
        if self.poll.is_ready(FRONT) {
            for _ in 0..BURST {
                let Some((received, place)) = self.burst.receive(&self.sockets.front) else { break };
                let Some(flow) = received.from.and_then(|client| self.admit(client)) else {
                    self.ignored += 1;
                    continue;
                };
                self.burst.add(Toward::Server, flow, place, &received, offset);
            }
        }
        let mut heard = None;
        for (index, (number, flow)) in self.sockets.flows.iter().enumerate() {
            // New flows are not waited for yet.
            if !self.poll.is_ready(UPSTREAMS + index) {
                continue;
            }
            for _ in 0..BURST {
                let Some((received, place)) = self.burst.receive(&flow.upstream) else { break };
                self.burst.add(Toward::Client, *number, place, &received, offset);
                heard = Some(*number);
            }
        }
        if let Some(flow) = heard.and_then(|number| self.sockets.flows.get_mut(&number)) {
            flow.heard = system::now();
        }
        if self.sockets.flows.len() + UPSTREAMS != self.poll.len() || self.has_changed {
            self.has_changed = false;
            self.watch();
        }
    }

    /// Offers what was read to the path, in the order in which it came.
    fn offer(&mut self) {
        let Burst { bytes, read, .. } = &mut self.burst;
        read.sort_by_key(|read| read.at);
        let headers = if self.sockets.is_ipv4 { IPV4_UDP } else { IPV6_UDP };
        for &Read { at, place, len, ecn, toward, flow } in read.iter() {
            if self.shared.cut.load(Ordering::Relaxed) {
                self.cut += 1;
                continue;
            }
            let size = u32::try_from(len).unwrap_or(u32::MAX).saturating_add(headers);
            let arrival = Arrival { toward, at, waited: Duration::ZERO, flow, ecn, size, damage_from: 0 };
            self.engine.arrive(arrival, &bytes[place..place + len]);
        }
    }

    /// The number of the client's flow, a new one if there is room.
    fn admit(&mut self, client: SocketAddr) -> Option<u32> {
        let now = system::now();
        if let Some(number) = self.numbers.get(&client) {
            if let Some(flow) = self.sockets.flows.get_mut(number) {
                flow.heard = now;
            }
            return Some(*number);
        }
        if self.sockets.flows.len() >= MAX_FLOWS {
            let (&number, flow) = self.sockets.flows.iter().min_by_key(|(_, flow)| flow.heard)?;
            if now.saturating_since(flow.heard) < SILENT {
                return None;
            }
            self.dropped_by_closed += system::dropped_by(&flow.upstream);
            self.numbers.remove(&flow.client);
            self.sockets.flows.remove(&number);
        }
        let any = if self.target.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let upstream = system::udp_socket(SocketAddr::new(any, 0)).ok()?;
        upstream.connect(self.target).ok()?;
        let number = self.next_number;
        self.next_number = self.next_number.checked_add(1)?;
        self.numbers.insert(client, number);
        self.sockets.flows.insert(number, Flow { client, upstream, heard: now });
        self.has_changed = true;
        Some(number)
    }

    /// Publishes what is counted.
    fn publish(&self) {
        let (mut forwarded, mut dropped, mut reordered) = (0, self.cut + self.ignored, 0);
        for toward in Toward::BOTH {
            let counts = self.engine.counts(toward);
            forwarded += counts.handed_over;
            dropped += counts.refused + counts.stuck + counts.dropped;
            reordered += counts.reordered;
        }
        self.shared.forwarded.store(forwarded, Ordering::Relaxed);
        self.shared.dropped.store(dropped, Ordering::Relaxed);
        self.shared.reordered.store(reordered, Ordering::Relaxed);
    }
}

impl Burst {
    /// Reads a datagram; returns its place with what is known of it. An error of an earlier datagram is no reason to
    /// stop.
    fn receive(&mut self, socket: &UdpSocket) -> Option<(Received, usize)> {
        let place = self.end;
        let buffer = self.bytes.get_mut(place..place + LARGEST)?;
        loop {
            match system::receive(socket, buffer) {
                Ok(received) => return Some((received, place)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return None,
            }
        }
    }

    /// Keeps it.
    fn add(&mut self, toward: Toward, flow: u32, place: usize, received: &Received, offset: Duration) {
        let now = system::now();
        let stamp = received.stamp.and_then(|stamp| stamp.checked_sub(offset));
        let at = stamp.map_or(now, |stamp| (Instant::ZERO + stamp).min(now));
        self.end = place + received.len;
        self.read.push(Read { at, place, len: received.len, ecn: received.ecn, toward, flow });
    }
}
