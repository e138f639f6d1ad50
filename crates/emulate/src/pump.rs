//! Moves packets between the devices of the two ends, over the path.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_link::DropCause;
use thalweg_units::{Duration, Ecn, Instant};

use crate::capture::Capture;
use crate::carrier::Carrier;
use crate::device::Device;
use crate::engine::{Arrival, Departure, Drop, Engine, Port, Toward};
use crate::init::{CLIENT, DEVICE_QUEUE, End, SERVER, client};
use crate::ip::{self, Header};
use crate::system::{self, Poll};
use crate::verdict::{PathReport, Report};

/// Packets that are read from a device before anything else is done.
const BURST: usize = 32;
/// Flows with a number of their own; later ones share the last.
const MAX_FLOWS: usize = 1 << 16;
/// The largest IP packet.
const LARGEST: usize = 65_535;
/// A wait that took longer than this has slept.
const SLEPT: Duration = Duration::from_micros(50);
/// Rounds of reading and handing over come at most as often as this for long, ...
const ROUND: Duration = Duration::from_micros(40);
/// ... after so many at once.
const ROUNDS_AT_ONCE: u32 = 20;
/// How often it says how far it is.
const SAID_EVERY: Duration = Duration::from_millis(100);

/// What tells a flow from another, seen from the client.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowKey {
    is_ipv4: bool,
    protocol: u8,
    /// The client's and the server's.
    ports: (u16, u16),
}

/// A file that packets are written into, and what to add to the clock for the time of day.
type CaptureFile = (Capture<BufWriter<File>>, Duration);

/// The devices of the ends, for what crosses one of the paths.
struct Devices<'a> {
    /// Those of the client, by path, and that of the server.
    files: &'a mut [Device],
    path: usize,
    /// Whether senders are told of packets that are too big.
    icmp: bool,
    capture: &'a mut Option<CaptureFile>,
}

impl Devices<'_> {
    /// The number of the device that packets on this way come from.
    fn source(&self, toward: Toward) -> usize {
        match toward {
            Toward::Server => self.path,
            Toward::Client => self.files.len() - 1,
        }
    }
}

/// Writes down a packet that was at a device.
fn note(capture: &mut Option<CaptureFile>, device: usize, at: Instant, packet: &[u8], comment: Option<&str>) {
    if let Some((capture, offset)) = capture {
        capture.packet(device as u32, Duration::from_nanos(at.as_nanos()) + *offset, packet, comment);
    }
}

impl Port for Devices<'_> {
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
        let is_marked = departure.ecn == Ecn::Ce
            && self.capture.is_some()
            && Header::read(departure.bytes).is_some_and(|header| header.ecn != Ecn::Ce);
        ip::set_ecn(departure.bytes, departure.ecn);
        let destination = self.source(departure.toward.back());
        self.files[destination].write(departure.bytes).ok()?;
        let done = system::now();
        let comment = is_marked.then_some("marked CE on the path");
        note(self.capture, destination, done, departure.bytes, comment);
        Some(done)
    }

    fn dropped(&mut self, dropped: Drop<'_>) {
        let source = self.source(dropped.toward);
        if self.capture.is_some() {
            let comment = format!("dropped on the path: {}", dropped.cause.name());
            note(self.capture, source, dropped.at, dropped.bytes, Some(&comment));
        }
        if self.icmp
            && dropped.cause == DropCause::TooBig
            && let Some(message) = dropped.mtu.and_then(|mtu| ip::too_big(dropped.bytes, mtu))
        {
            // A sender that does not hear of it finds out by itself.
            let _ = self.files[source].write(&message);
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

/// Limits how often packets are looked for. A wait and a wake-up cost several times as much as a packet. A packet alone
/// takes two rounds, one when it comes and one when it is due: from some 12,500 packets per second on, a round has
/// several, which are late by a part of [`ROUND`] in return.
struct Rounds {
    /// When as many rounds as there were would have come if they had been evenly spaced.
    owed_until: Instant,
}

impl Rounds {
    /// How long to wait before the next round.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.owed_until = self.owed_until.max(now) + ROUND;
        let ahead = self.owed_until.saturating_since(now);
        (ahead > ROUND * ROUNDS_AT_ONCE).then_some(ROUND)
    }
}

/// A path that packets are carried over.
pub(crate) struct PumpPath {
    pub(crate) engine: Engine,
    /// What it is called in a capture.
    pub(crate) name: String,
    pub(crate) round_trip: Duration,
    /// Numbers of its flows.
    flows: BTreeMap<FlowKey, u32>,
}

impl PumpPath {
    pub(crate) fn new(engine: Engine, name: String, round_trip: Duration) -> Self {
        PumpPath { engine, name, round_trip, flows: BTreeMap::new() }
    }

    /// The number of a packet's flow.
    fn flow(&mut self, header: &Header, toward: Toward) -> u32 {
        let ports = match toward {
            Toward::Server => header.ports,
            Toward::Client => (header.ports.1, header.ports.0),
        };
        let key = FlowKey { is_ipv4: header.source.is_ipv4(), protocol: header.protocol, ports };
        let next = self.flows.len();
        match self.flows.get(&key) {
            Some(flow) => *flow,
            None if next >= MAX_FLOWS => MAX_FLOWS as u32,
            None => *self.flows.entry(key).or_insert(next as u32),
        }
    }
}

/// What has crossed a path so far, for others to look at.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Bytes handed over and packets dropped, toward the server and toward the client.
    pub(crate) bytes: [AtomicU64; 2],
    pub(crate) dropped: [AtomicU64; 2],
}

/// Moves packets until it is stopped.
pub(crate) struct Pump {
    paths: Vec<PumpPath>,
    /// Those of the client, by path, and that of the server.
    devices: Vec<Device>,
    arrivals: Vec<Arrivals>,
    icmp: bool,
    capture: Option<CaptureFile>,
    ignored: u64,
    start: Instant,
    said: Arc<Vec<Said>>,
    say_at: Instant,
    buffer: Vec<u8>,
    /// Where fragments are built.
    fragment: Vec<u8>,
}

/// Real-time priority of the programs, below that of the thread that carries their packets.
pub(crate) const PROGRAM_PRIORITY: u8 = 10;

impl Pump {
    /// Over these paths, between devices of the client, one for each, and the server's, which is the last.
    pub(crate) fn new(
        paths: Vec<PumpPath>,
        devices: Vec<Device>,
        icmp: bool,
        capture: Option<File>,
        start: Instant,
    ) -> Self {
        let capture = capture.map(|file| {
            let mut names: Vec<String> = match &paths[..] {
                [_] => vec![CLIENT.name.to_owned()],
                several => several.iter().map(|path| format!("{}-{}", CLIENT.name, path.name)).collect(),
            };
            names.push(SERVER.name.to_owned());
            let capture = Capture::new(BufWriter::with_capacity(1 << 20, file), &names);
            (capture, system::realtime_offset())
        });
        Pump {
            arrivals: devices.iter().map(|_| Arrivals::new(start)).collect(),
            said: Arc::new(paths.iter().map(|_| Said::default()).collect()),
            paths,
            devices,
            icmp,
            capture,
            ignored: 0,
            start,
            say_at: start,
            buffer: vec![0; LARGEST],
            fragment: Vec::new(),
        }
    }

    /// Where it says how far it is.
    pub(crate) fn said(&self) -> Arc<Vec<Said>> {
        self.said.clone()
    }

    /// Moves packets until the stream ends, on this processor if one is given and it has real-time priority; reports,
    /// drops that only the ends know of aside. The second is why the capture is not whole.
    pub(crate) fn run(
        mut self,
        stopped: &UnixStream,
        realtime: bool,
        processor: Option<usize>,
    ) -> (Report, Option<io::Error>) {
        let carrier = Carrier::start(realtime, realtime.then_some(PROGRAM_PRIORITY));
        // At ordinary priority it may have to make room for another program there.
        if let Some(processor) = processor.filter(|_| carrier.is_realtime()) {
            // One that was taken away meanwhile leaves the choice to the kernel.
            let _ = system::stay_on(processor);
        }
        let mut poll = Poll::default();
        for file in &self.devices {
            poll.push(file.as_fd());
        }
        poll.push(stopped.as_fd());
        let is_stopped = self.devices.len();
        let mut rounds = Rounds { owed_until: self.start };
        let mut pause = Poll::default();
        loop {
            if let Some(time) = rounds.pause(system::now()) {
                let _ = pause.wait(Some(time));
            }
            let before = system::now();
            let due = self.paths.iter().filter_map(|path| path.engine.next_due()).min();
            let timeout = due.map(|due| due.saturating_since(before));
            if poll.wait(timeout).is_err() || poll.is_ready(is_stopped) {
                break;
            }
            let woken = system::now();
            for device in 0..self.devices.len() {
                // What came while it slept woke it.
                if !poll.is_ready(device) || woken.saturating_since(before) > SLEPT {
                    self.arrivals[device].empty = woken;
                }
                // An end that was killed has no device any more.
                if poll.is_ready(device) && !self.read(device) {
                    poll.ignore(device);
                }
            }
            self.hand_over();
        }
        let flows = |path: &PumpPath| path.flows.len() as u64;
        let paths = self.paths.iter().map(|path| PathReport::of(&path.engine, path.round_trip, flows(path)));
        let report = Report {
            ignored: self.ignored,
            device_dropped: self.devices.iter().map(Device::dropped).sum(),
            ..carrier.report(paths.collect(), self.start)
        };
        (report, self.capture.and_then(|(capture, _)| capture.finish().err()))
    }

    /// Hands over what is due.
    fn hand_over(&mut self) {
        let Pump { paths, devices, icmp, capture, .. } = self;
        let mut now = self.start;
        for (path, at) in paths.iter_mut().zip(0..) {
            now = system::now();
            path.engine.run(now, &mut Devices { files: devices, path: at, icmp: *icmp, capture });
        }
        if now >= self.say_at {
            self.say_at = now + SAID_EVERY;
            for (path, said) in self.paths.iter().zip(self.said.iter()) {
                for toward in Toward::BOTH {
                    let counts = path.engine.counts(toward);
                    said.bytes[toward.index()].store(counts.handed_over_bytes, Ordering::Relaxed);
                    said.dropped[toward.index()].store(counts.dropped, Ordering::Relaxed);
                }
            }
        }
    }

    /// The path of a packet that was read from a device, and its way; `None` if it is not for the other end.
    fn path_of(&self, device: usize, header: &Header) -> Option<(usize, Toward)> {
        if device < self.paths.len() {
            return SERVER.is_at(header.destination).then_some((device, Toward::Server));
        }
        let path = (0..self.paths.len()).find(|path| address(*path).is_at(header.destination))?;
        Some((path, Toward::Client))
    }

    /// Reads a burst from a device. False if the device is gone.
    fn read(&mut self, device: usize) -> bool {
        for _ in 0..BURST {
            let length = match self.devices[device].read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) => {
                    self.arrivals[device].empty = system::now();
                    return error.kind() == io::ErrorKind::WouldBlock;
                }
            };
            let at = system::now();
            let waited = self.arrivals[device].waited(at);
            let header = Header::read(&self.buffer[..length]);
            let Some((header, (path, toward))) =
                header.and_then(|header| self.path_of(device, &header).map(|path| (header, path)))
            else {
                self.ignored += 1;
                continue;
            };
            let packet = &self.buffer[..length];
            note(&mut self.capture, device, at, packet, None);
            let path = &mut self.paths[path];
            let flow = path.flow(&header, toward);
            let (ecn, damage_from) = (header.ecn, header.length);
            let size = u32::try_from(length).unwrap_or(u32::MAX);
            let arrival = Arrival { toward, at, waited, flow, ecn, size, damage_from };
            let engine = &mut path.engine;
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

/// Where the client is on the path of this number.
pub(crate) fn address(path: usize) -> End {
    client(u8::try_from(path).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds in a second in which the next one is always due `every` after the last, and the longest pause.
    fn rounds(every: Duration) -> (u32, Duration) {
        let start = Instant::from_nanos(1);
        let (mut rounds, mut now, mut longest, mut count) = (Rounds { owed_until: start }, start, Duration::ZERO, 0);
        while now.saturating_since(start) < Duration::from_secs(1) {
            let pause = rounds.pause(now).unwrap_or_default();
            longest = longest.max(pause);
            now = now + pause + every;
            count += 1;
        }
        (count, longest)
    }

    #[test]
    fn what_is_looked_for_seldom_never_waits() {
        for every in [ROUND, Duration::from_micros(83), Duration::from_millis(1)] {
            assert_eq!(rounds(every).1, Duration::ZERO, "a round every {every:?}");
        }
    }

    #[test]
    fn rounds_are_limited_and_none_waits_longer_than_one() {
        let (count, longest) = rounds(Duration::from_nanos(500));
        assert!(count <= 25_000 + ROUNDS_AT_ONCE, "{count} rounds in a second");
        assert_eq!(longest, ROUND);
    }
}
