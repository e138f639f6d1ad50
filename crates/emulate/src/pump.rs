//! Moves packets between the devices of the two ends, over the path.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use thalweg_link::DropCause;
use thalweg_units::{Duration, Ecn, Instant};

use crate::capture::Capture;
use crate::carrier::Carrier;
use crate::device::Device;
use crate::engine::{Arrival, Departure, Drop, Engine, Port, Toward};
use crate::init::{CLIENT, DEVICE_QUEUE, SERVER};
use crate::ip::{self, Header};
use crate::system::{self, Poll};
use crate::verdict::Report;

/// Packets that are read from a device before anything else is done.
const BURST: usize = 32;
/// Flows with a number of their own; later ones share the last.
const MAX_FLOWS: usize = 1 << 16;
/// The largest IP packet.
const LARGEST: usize = 65_535;
/// A wait that took longer than this has slept.
const SLEPT: Duration = Duration::from_micros(50);
/// The place of what ends it in the list of what is waited for; the devices come before.
const STOPPED: usize = 2;

/// What tells a flow from another, seen from the client.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowKey {
    is_ipv4: bool,
    protocol: u8,
    /// The client's and the server's.
    ports: (u16, u16),
}

/// The two devices.
struct Devices {
    /// That of the client, and that of the server.
    files: [Device; 2],
    /// Whether senders are told of packets that are too big.
    icmp: bool,
    /// Where packets are written down, and what to add to the clock for the time of day.
    capture: Option<(Capture<BufWriter<File>>, Duration)>,
}

impl Devices {
    /// The device that packets on this way come from.
    fn source(&mut self, toward: Toward) -> &mut Device {
        &mut self.files[toward.index()]
    }

    /// Writes down a packet that was at the client's end, or at the server's.
    fn note(&mut self, end: usize, at: Instant, packet: &[u8], comment: Option<&str>) {
        if let Some((capture, offset)) = &mut self.capture {
            capture.packet(end as u32, Duration::from_nanos(at.as_nanos()) + *offset, packet, comment);
        }
    }

    /// The device that they go to.
    fn destination(&mut self, toward: Toward) -> &mut Device {
        &mut self.files[toward.back().index()]
    }
}

impl Port for Devices {
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
        let is_marked = departure.ecn == Ecn::Ce
            && self.capture.is_some()
            && Header::read(departure.bytes).is_some_and(|header| header.ecn != Ecn::Ce);
        ip::set_ecn(departure.bytes, departure.ecn);
        self.destination(departure.toward).write(departure.bytes).ok()?;
        let done = system::now();
        let comment = is_marked.then_some("marked CE on the path");
        self.note(departure.toward.back().index(), done, departure.bytes, comment);
        Some(done)
    }

    fn dropped(&mut self, dropped: Drop<'_>) {
        if self.capture.is_some() {
            let comment = format!("dropped on the path: {}", dropped.cause.name());
            self.note(dropped.toward.index(), dropped.at, dropped.bytes, Some(&comment));
        }
        if self.icmp
            && dropped.cause == DropCause::TooBig
            && let Some(message) = dropped.mtu.and_then(|mtu| ip::too_big(dropped.bytes, mtu))
        {
            // A sender that does not hear of it finds out by itself.
            let _ = self.source(dropped.toward).write(&message);
        }
    }
}

/// What is known of when packets came to a device: it tells no times.
struct Arrivals {
    /// When it was last seen empty.
    empty: Instant,
    /// When the last packets were read: no more than these fit into its queue.
    read: Vec<Instant>,
    next: usize,
}

impl Arrivals {
    fn new(now: Instant) -> Self {
        Arrivals { empty: now, read: vec![now; DEVICE_QUEUE as usize], next: 0 }
    }

    /// How long a packet that is read now may have waited: it came after the device was seen empty, and after what was
    /// read a whole queue ago.
    fn waited(&mut self, now: Instant) -> Duration {
        let full = std::mem::replace(&mut self.read[self.next], now);
        self.next = (self.next + 1) % self.read.len();
        now.saturating_since(self.empty.max(full))
    }
}

/// Moves packets until it is stopped.
pub(crate) struct Pump {
    engine: Engine,
    devices: Devices,
    arrivals: [Arrivals; 2],
    flows: BTreeMap<FlowKey, u32>,
    ignored: u64,
    start: Instant,
    round_trip: Duration,
    buffer: Vec<u8>,
    /// Where fragments are built.
    fragment: Vec<u8>,
}

/// Real-time priority of the programs, below that of the thread that carries their packets.
pub(crate) const PROGRAM_PRIORITY: u8 = 10;

impl Pump {
    /// Between these devices of the client and the server.
    pub(crate) fn new(
        engine: Engine,
        files: [Device; 2],
        icmp: bool,
        capture: Option<File>,
        round_trip: Duration,
    ) -> Self {
        let start = engine.now();
        let capture = capture.map(|file| {
            let capture = Capture::new(BufWriter::with_capacity(1 << 20, file), &[CLIENT.name, SERVER.name]);
            (capture, system::realtime_offset())
        });
        Pump {
            engine,
            devices: Devices { files, icmp, capture },
            arrivals: [Arrivals::new(start), Arrivals::new(start)],
            flows: BTreeMap::new(),
            ignored: 0,
            start,
            round_trip,
            buffer: vec![0; LARGEST],
            fragment: Vec::new(),
        }
    }

    /// Moves packets until the stream ends; reports, drops that only the ends know of aside.
    /// The second is why the capture is not whole.
    pub(crate) fn run(mut self, stopped: &UnixStream, realtime: bool) -> (Report, Option<io::Error>) {
        let carrier = Carrier::start(realtime, realtime.then_some(PROGRAM_PRIORITY));
        let mut poll = Poll::default();
        for file in &self.devices.files {
            poll.push(file.as_fd());
        }
        poll.push(stopped.as_fd());
        loop {
            let before = system::now();
            let timeout = self.engine.next_due().map(|due| due.saturating_since(before));
            if poll.wait(timeout).is_err() || poll.is_ready(STOPPED) {
                break;
            }
            let woken = system::now();
            for toward in Toward::BOTH {
                // What came while it slept woke it.
                if !poll.is_ready(toward.index()) || woken.saturating_since(before) > SLEPT {
                    self.arrivals[toward.index()].empty = woken;
                }
                // An end that was killed has no device any more.
                if poll.is_ready(toward.index()) && !self.read(toward) {
                    poll.ignore(toward.index());
                }
            }
            self.engine.run(system::now(), &mut self.devices);
        }
        let report = Report {
            flows: self.flows.len() as u64,
            ignored: self.ignored,
            device_dropped: self.devices.files.iter().map(Device::dropped).sum(),
            ..carrier.report(&self.engine, self.start, self.round_trip)
        };
        (report, self.devices.capture.and_then(|(capture, _)| capture.finish().err()))
    }

    /// Reads a burst from a device. False if the device is gone.
    fn read(&mut self, toward: Toward) -> bool {
        for _ in 0..BURST {
            let length = match self.devices.source(toward).read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) => {
                    self.arrivals[toward.index()].empty = system::now();
                    return error.kind() == io::ErrorKind::WouldBlock;
                }
            };
            let at = system::now();
            let waited = self.arrivals[toward.index()].waited(at);
            let Some(header) = Header::read(&self.buffer[..length]).filter(|header| is_ours(header, toward)) else {
                self.ignored += 1;
                continue;
            };
            let ports = match toward {
                Toward::Server => header.ports,
                Toward::Client => (header.ports.1, header.ports.0),
            };
            let key = FlowKey { is_ipv4: header.source.is_ipv4(), protocol: header.protocol, ports };
            let next = self.flows.len();
            let flow = match self.flows.get(&key) {
                Some(flow) => *flow,
                None if next >= MAX_FLOWS => MAX_FLOWS as u32,
                None => *self.flows.entry(key).or_insert(next as u32),
            };
            self.devices.note(toward.index(), at, &self.buffer[..length], None);
            let (ecn, damage_from) = (header.ecn, header.length);
            let size = u32::try_from(length).unwrap_or(u32::MAX);
            let arrival = Arrival { toward, at, waited, flow, ecn, size, damage_from };
            let (engine, packet) = (&mut self.engine, &self.buffer[..length]);
            let is_cut = engine.mtu(toward).is_some_and(|mtu| {
                ip::fragment(packet, mtu, &mut self.fragment, |fragment| {
                    let size = u32::try_from(fragment.len()).unwrap_or(u32::MAX);
                    engine.arrive(Arrival { size, ..arrival }, fragment);
                })
            });
            if !is_cut {
                engine.arrive(arrival, packet);
            }
        }
        true
    }
}

/// Whether a packet goes from one end to the other: not to everyone, nor to anybody else.
fn is_ours(header: &Header, toward: Toward) -> bool {
    let to = if toward == Toward::Server { SERVER } else { CLIENT };
    header.destination == IpAddr::from(to.ipv4) || header.destination == IpAddr::from(to.ipv6)
}
