//! What trains of packets tell about the rate of a path.
//!
//! Packets that leave back to back arrive as far apart as the bottleneck takes for each. So a train of `n` packets that
//! left at `s`, on a path whose smallest delay is `d`, has arrived by `s + d + (n - 1) × the time for a packet`, or
//! later if something else delayed it. Solved for the rate, that is a bound from below:
//!
//! ```text
//! rate ≥ bytes behind the first packet / (arrival of the last - s - d)
//! ```
//!
//! The quotient that is usual, bytes over the time between two arrivals, has no such side: a packet that is late makes
//! those behind it look fast. With 3 ms of jitter it reads 10 Mbps as 18. The bound here reads less than there is
//! while a train is short against the jitter, and comes to the rate as trains grow. So a longer train that does not
//! raise it *confirms* it.

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::congestion::AckEvent;

/// Packets that leave so long after the one before begin another train.
const GAP: Duration = Duration::from_micros(200);

/// A train that lasts longer than this, by the times of sending, is cut: what began with an empty queue does not do so
/// any more.
const LONGEST: Duration = Duration::from_millis(25);

/// The fewest packets, the first not counted, that give a measurement: over less, a packet time more or less matters.
const FEWEST: u64 = 7;

/// A train has to be so many times as long as the one before to confirm its rate.
const LONGER: u64 = 2;

/// A rate that exceeds another by less than one in so many is the same.
const SAME: u64 = 16;

/// The train that is being acknowledged.
#[derive(Copy, Clone, Debug)]
struct Train {
    /// When its first packet left.
    start: Instant,
    /// When the latest of those acknowledged did.
    last: Instant,
    /// Bytes that have arrived behind the first packet.
    bytes: u64,
    /// When the last of them did, on the clock of the arrivals.
    arrived: i128,
}

/// Packets that an ACK tells of.
#[derive(Copy, Clone, Debug)]
struct Point {
    /// When the newest of them left.
    sent: Instant,
    /// Bytes of them.
    bytes: u64,
    /// Of these, the ones that do not count towards the rate.
    late: u64,
    /// When the newest arrived, in nanoseconds.
    received: i128,
}

/// Bounds on the rate of a path, from the arrivals of its packets.
#[derive(Copy, Clone, Debug)]
pub(super) struct Trains {
    /// The smallest difference between arrival and sending, in nanoseconds. Clocks may differ by any constant.
    least_delay: Option<i128>,
    /// Whether arrivals are by the receiver's clock. A change begins anew.
    by_receiver: bool,
    train: Option<Train>,
    /// The highest bound.
    peak: Option<Rate>,
    /// The longest train so far and its bound: what a longer one is compared with.
    longest: Option<(u64, Rate)>,
    confirmed: bool,
    /// Bytes of a full packet.
    datagram: u64,
}

impl Trains {
    pub(super) fn new(datagram: u64) -> Trains {
        Trains {
            least_delay: None,
            by_receiver: false,
            train: None,
            peak: None,
            longest: None,
            confirmed: false,
            datagram,
        }
    }

    /// The highest rate that the path is known to carry.
    pub(super) fn peak(&self) -> Option<Rate> {
        self.peak
    }

    /// Whether a train at least twice as long as another gave no higher rate.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Bytes of the longest train that gave a bound.
    pub(super) fn longest(&self) -> u64 {
        self.longest.map_or(0, |(bytes, _)| bytes)
    }

    /// Takes in what an ACK tells: arrivals by the receiver's clock where it has them, else the ACK's own less its
    /// delay.
    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>) {
        if event.arrivals.is_empty() {
            // An ACK without an RTT sample may be late by anything.
            if let Some(sent) = event.newest_sent.filter(|_| event.has_rtt_sample) {
                let delay = event.rtt.latest.saturating_sub(event.rtt.adjusted);
                self.expect_clock(false);
                let received = i128::from((event.now - delay).as_nanos());
                // The ACK came with the last packet of those that it covers, and so did all ACKs from which the least
                // delay is known: what it covers besides one packet has had that much more time.
                let late = event.acked.saturating_sub(self.datagram);
                self.on_arrival(Point { sent, bytes: event.acked, late, received });
            }
            return;
        }
        self.expect_clock(true);
        for arrival in event.arrivals {
            let received = i128::from(arrival.received.nanos());
            self.on_arrival(Point { sent: arrival.sent, bytes: arrival.bytes, late: 0, received });
        }
    }

    fn expect_clock(&mut self, by_receiver: bool) {
        if self.by_receiver != by_receiver {
            self.by_receiver = by_receiver;
            self.least_delay = None;
            self.train = None;
        }
    }

    fn on_arrival(&mut self, point: Point) {
        let Point { sent, bytes, late, received } = point;
        let delay = received - i128::from(sent.as_nanos());
        let least = self.least_delay.map_or(delay, |least| least.min(delay));
        self.least_delay = Some(least);
        let Some(train) = &mut self.train else {
            self.train = Some(Train { start: sent, last: sent, bytes: 0, arrived: received });
            return;
        };
        if sent < train.start {
            return;
        }
        if sent.saturating_since(train.last) >= GAP || sent.saturating_since(train.start) >= LONGEST {
            *train = Train { start: sent, last: sent, bytes: 0, arrived: received };
            return;
        }
        train.last = train.last.max(sent);
        train.bytes += bytes;
        train.arrived = train.arrived.max(received);
        // All of it has arrived by then; the first packet can have done so at its sending and the least delay.
        let span = train.arrived - i128::from(train.start.as_nanos()) - least;
        let behind = train.bytes.saturating_sub(late);
        if behind < FEWEST * self.datagram || span <= 0 {
            return;
        }
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let rate = Rate::from_bytes_over(behind, span);
        if std::env::var("DBG").is_ok() { eprintln!("pt sent {} start {} bytes {} recv {} least {} span {:?} rate {} conf {} peak {:?}", sent.as_nanos()/1000, train.start.as_nanos()/1000, behind, received/1000, least/1000, span, rate, self.confirmed, self.peak); }
        let is_train = train.last.saturating_since(train.start) <= span / 2;
        self.peak = self.peak.max(Some(rate));
        if is_train {
            self.compare(behind, rate);
        }
    }

    /// A train whose packets left much faster than they arrived confirms the bound of a shorter one, or replaces it.
    fn compare(&mut self, bytes: u64, rate: Rate) {
        let Some((shorter, before)) = self.longest else {
            self.longest = Some((bytes, rate));
            return;
        };
        if bytes < LONGER * shorter {
            return;
        }
        self.longest = Some((bytes, rate.max(before)));
        self.confirmed = rate <= before.mul_ratio(SAME + 1, SAME);
        // The longer, the less the packet times matter by which hosts are late. But a train that met others' packets
        // says nothing.
        if self.peak.is_some_and(|peak| rate >= peak.mul_ratio(7, 8)) {
            self.peak = Some(rate);
        }
    }
}
