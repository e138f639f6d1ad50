//! A sender with endless data, a link and a receiver, in virtual time: what [`Recovery`] does on a path rather than on
//! a single ACK.
//!
//! The link serialises at a rate behind a tail-drop queue; it can delay, drop and hold packets. The receiver
//! acknowledges every packet at once. What is lost is not repeated: the data is endless, and a delivered packet is a
//! delivered packet.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use thalweg_recovery::{
    AckFrame, Budget, Config, Ecn, NewPath, Outcome, Path, PathId, Recovery, Sent, SpaceId, Timeout,
};
use thalweg_units::{Duration, Instant};

use super::{SIZE, at};

/// Ranges that an ACK carries at most.
const RANGES: usize = 256;

pub struct Link {
    /// Bits per second.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// Bytes that wait at most; the one being sent does not count.
    pub queue: u64,
    /// How much later a packet arrives than its predecessors would have it.
    pub late: Box<dyn Fn(u64) -> Duration>,
    /// Which packets are lost, by number and time of sending.
    pub lose: Box<dyn Fn(u64, Instant) -> bool>,
    /// From when for how long nothing is served; what is in the queue stays there.
    pub holds: Vec<(Instant, Duration)>,
    /// The same behind the link: what arrives meanwhile is released at once in the end.
    pub releases: Vec<(Instant, Duration)>,
    /// The same for the ACKs on their way back.
    pub ack_releases: Vec<(Instant, Duration)>,
}

/// When something due at `time` comes through, given when everything is held.
fn held(time: Instant, holds: &[(Instant, Duration)]) -> Instant {
    holds.iter().fold(time, |time, (from, span)| match time >= *from && time < *from + *span {
        true => *from + *span,
        false => time,
    })
}

impl Link {
    pub fn new(rate: u64, delay: Duration, queue: u64) -> Link {
        Link {
            rate,
            delay,
            queue,
            late: Box::new(|_| Duration::ZERO),
            lose: Box::new(|_, _| false),
            holds: Vec::new(),
            releases: Vec::new(),
            ack_releases: Vec::new(),
        }
    }
}

pub struct World {
    pub recovery: Recovery<()>,
    pub path: PathId,
    pub now: Instant,
    pub link: Link,
    /// Distinct packets delivered.
    pub delivered: u64,
    /// Times at which packets were delivered, and the window after each ACK.
    pub deliveries: Vec<Instant>,
    pub windows: Vec<(Instant, u64)>,
    /// When probes were sent, and how many datagrams.
    pub probes: Vec<(Instant, u8)>,
    pub dropped: u64,
    /// When each packet was sent.
    pub sends: Vec<Instant>,
    next: u64,
    /// When the link has sent everything it has.
    busy_until: Instant,
    /// Departure times of what is in the queue.
    queue: VecDeque<Instant>,
    arrivals: BTreeMap<(Instant, u64), u64>,
    acks: BTreeMap<(Instant, u64), Vec<RangeInclusive<u64>>>,
    /// Descending.
    received: Vec<RangeInclusive<u64>>,
    events: u64,
    out: Outcome<()>,
}

impl World {
    pub fn new(policies: &str, link: Link) -> World {
        let config = Config { policies: super::of_rfc9002(policies), ecn: false, ..Config::default() };
        let mut recovery = Recovery::new(config, false);
        let path = recovery.add_path(Instant::ZERO, NewPath::new(SIZE as u16));
        recovery.set_handshake_confirmed(Instant::ZERO);
        recovery.set_idle_timeout(Some(Duration::from_secs(30)));
        World {
            recovery,
            path,
            now: Instant::ZERO,
            link,
            delivered: 0,
            deliveries: Vec::new(),
            windows: Vec::new(),
            probes: Vec::new(),
            dropped: 0,
            sends: Vec::new(),
            next: 0,
            busy_until: Instant::ZERO,
            queue: VecDeque::new(),
            arrivals: BTreeMap::new(),
            acks: BTreeMap::new(),
            received: Vec::new(),
            events: 0,
            out: Outcome::default(),
        }
    }

    pub fn path(&self) -> &Path {
        self.recovery.path(self.path).unwrap()
    }

    /// Runs until so many packets have been delivered, or until `limit`; returns when that was.
    pub fn run(&mut self, packets: u64, limit: Instant) -> Instant {
        while self.delivered < packets && self.now < limit {
            let wake = self.send();
            let arrival = self.arrivals.first_key_value().map(|(key, _)| key.0);
            let ack = self.acks.first_key_value().map(|(key, _)| key.0);
            let next = [wake, arrival, ack, self.recovery.timer()].into_iter().flatten().min();
            let next = next.expect("something is always under way").max(self.now);
            if next > limit {
                self.now = limit;
                break;
            }
            self.now = next;
            self.out.clear();
            if arrival.is_some_and(|time| time <= next) {
                self.receive();
            } else if ack.is_some_and(|time| time <= next) {
                let (_, ranges) = self.acks.pop_first().unwrap();
                let (space, ranges) = (SpaceId::DATA, ranges.into_iter());
                self.recovery.on_ack(next, space, AckFrame::new(next, ranges), &mut self.out).unwrap();
                self.windows.push((next, self.path().window()));
            } else if self.recovery.timer().is_some_and(|time| time <= next)
                && let Timeout::Probe { datagrams, .. } = self.recovery.on_timeout(next, &mut self.out)
            {
                self.probes.push((next, datagrams));
                for _ in 0..datagrams {
                    self.transmit();
                }
            }
        }
        self.now
    }

    pub fn run_for(&mut self, ms: u64) {
        let end = at(ms).max(self.now);
        self.run(u64::MAX, end);
    }

    /// Sends what may be sent; returns when to come back for pacing.
    fn send(&mut self) -> Option<Instant> {
        loop {
            match self.recovery.budget(self.now, self.path) {
                Budget::Now(_) => self.transmit(),
                Budget::Paced(time) => return Some(time),
                Budget::WindowFull => return None,
            }
        }
    }

    fn transmit(&mut self) {
        let number = self.next;
        self.next += 1;
        self.sends.push(self.now);
        let packet = Sent {
            number,
            time: self.now,
            size: SIZE,
            ack_eliciting: true,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            path: self.path,
            data: (),
        };
        self.recovery.on_sent(SpaceId::DATA, packet, true);
        while self.queue.front().is_some_and(|departure| *departure <= self.now) {
            self.queue.pop_front();
        }
        let waiting = self.queue.len().saturating_sub(1) as u64 * u64::from(SIZE);
        if waiting + u64::from(SIZE) > self.link.queue || (self.link.lose)(number, self.now) {
            self.dropped += 1;
            return;
        }
        let start = held(self.busy_until.max(self.now), &self.link.holds);
        let departure = start + Duration::from_nanos(u64::from(SIZE) * 8_000_000_000 / self.link.rate);
        self.busy_until = departure;
        self.queue.push_back(departure);
        let arrival = departure + self.link.delay + (self.link.late)(number);
        self.arrivals.insert((held(arrival, &self.link.releases), number), number);
    }

    fn receive(&mut self) {
        let (_, number) = self.arrivals.pop_first().unwrap();
        self.delivered += 1;
        self.deliveries.push(self.now);
        self.note(number);
        self.events += 1;
        let ranges = self.received.iter().take(RANGES).cloned().collect();
        self.acks.insert((held(self.now + self.link.delay, &self.link.ack_releases), self.events), ranges);
    }

    fn note(&mut self, number: u64) {
        // The first range that does not lie entirely above the number and its neighbour.
        let index = self.received.iter().position(|range| *range.start() <= number + 1).unwrap_or(self.received.len());
        match self.received.get(index).cloned() {
            Some(range) if *range.start() == number + 1 => self.received[index] = number..=*range.end(),
            Some(range) if *range.end() + 1 == number => self.received[index] = *range.start()..=number,
            _ => self.received.insert(index, number..=number),
        }
        if let (Some(upper), Some(lower)) = (self.received.get(index).cloned(), self.received.get(index + 1).cloned())
            && *lower.end() + 1 == *upper.start()
        {
            self.received[index] = *lower.start()..=*upper.end();
            self.received.remove(index + 1);
        }
        self.received.truncate(1_000);
    }
}
