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

/// The fewest packets, the first not counted, that give a measurement: over less, a packet time more or less matters.
const FEWEST: u64 = 7;

/// A train goes on with what leaves so soon after the path was empty, in nanoseconds: the first packet too has to be
/// sent by the link, and hosts take a moment between packets.
const SLACK: i128 = 200_000;

/// A train has to be so many times as long as the one before to confirm its rate.
const LONGER: u64 = 2;

/// A train filled the path if its last packet waited so many times as long as a packet on an empty path was ever late.
const CLEAR: i128 = 4;

/// A rate that exceeds another by less than one in so many is the same.
const SAME: u64 = 16;

/// The train that is being acknowledged: packets each of which found the one before still under way.
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
    uncounted: u64,
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
    /// The most by which a packet that found the path empty was late, or by which one of a train came after the one
    /// before, in nanoseconds.
    jitter: i128,
    /// The least of round trips less the delays of their packets, in nanoseconds: what the way back takes, by the clock
    /// of the arrivals.
    way_back: Option<i128>,
    train: Option<Train>,
    /// The highest bound.
    peak: Option<Rate>,
    /// The longest train so far and its bound: what a longer one is compared with.
    longest: Option<(u64, Rate)>,
    confirmed: bool,
    measured: u64,
    /// Bytes of a full packet.
    datagram: u64,
}

impl Trains {
    pub(super) fn new(datagram: u64) -> Trains {
        Trains {
            least_delay: None,
            by_receiver: false,
            jitter: 0,
            way_back: None,
            train: None,
            peak: None,
            longest: None,
            confirmed: false,
            measured: 0,
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

    /// The most bytes that a bound was measured over.
    pub(super) fn measured(&self) -> u64 {
        self.measured
    }

    /// Takes in what an ACK tells: arrivals by the receiver's clock where it has them, else the ACK's own less its
    /// delay.
    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>) {
        if !event.arrivals.is_empty() && !self.by_receiver {
            // Another clock.
            *self = Trains { by_receiver: true, least_delay: None, jitter: 0, train: None, ..*self };
        }
        let newest = event.arrivals.iter().rfind(|arrival| Some(arrival.sent) == event.newest_sent);
        if let Some(newest) = newest.filter(|_| event.has_rtt_sample) {
            let delay = i128::from(newest.received.nanos()) - i128::from(newest.sent.as_nanos());
            let way_back = i128::from(event.rtt.adjusted.nanos()) - delay;
            self.way_back = Some(self.way_back.map_or(way_back, |least| least.min(way_back)));
        }
        for arrival in event.arrivals {
            let received = i128::from(arrival.received.nanos());
            let point = Point { sent: arrival.sent, bytes: arrival.bytes, uncounted: 0, received };
            self.on_arrival(point, event.rtt.min);
        }
        // An ACK without an RTT sample may be late by anything.
        let sent = event.newest_sent.filter(|_| event.has_rtt_sample && !self.by_receiver);
        if let Some(sent) = sent {
            let delay = event.rtt.latest.saturating_sub(event.rtt.adjusted);
            let received = i128::from((event.now - delay).as_nanos());
            // An ACK comes with the last packet that it covers, those from which the least delay is known too. So all
            // that it covers besides one packet has had more time than it seems.
            let uncounted = event.acked.saturating_sub(self.datagram);
            self.on_arrival(Point { sent, bytes: event.acked, uncounted, received }, event.rtt.min);
        }
    }

    fn on_arrival(&mut self, point: Point, min_rtt: Duration) {
        let Point { sent, bytes, uncounted, received } = point;
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
        // What leaves once all before it has arrived finds the path empty; so may what leaves a round trip after the
        // first.
        let drained = train.arrived - least + SLACK <= i128::from(sent.as_nanos());
        if drained || sent.saturating_since(train.start) >= min_rtt {
            *train = Train { start: sent, last: sent, bytes: 0, arrived: received };
            if drained {
                self.jitter = self.jitter.max(delay - least);
            }
            return;
        }
        train.last = train.last.max(sent);
        train.bytes += bytes;
        // Packets of a train come a packet time apart, unless chance has its hand in it. ACKs come further apart
        // anyway.
        if self.by_receiver {
            self.jitter = self.jitter.max(received - train.arrived);
        }
        train.arrived = train.arrived.max(received);
        // All of it has arrived by then; the first packet can have done so at its sending and the least delay.
        // The least delay may be that of a packet that was late itself. Then a round trip with it is longer than the
        // least.
        let doubt = self.way_back.map_or(0, |way_back| way_back + least - i128::from(min_rtt.nanos())).max(0);
        let span = train.arrived - i128::from(train.start.as_nanos()) - least + doubt;
        let behind = train.bytes.saturating_sub(uncounted);
        if behind < FEWEST * self.datagram || span <= 0 {
            return;
        }
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let rate = Rate::from_bytes_over(behind, span);
        // Its last packet waited for longer than chance explains: the path was full.
        let sending = train.last.saturating_since(train.start);
        let waited = i128::from(span.saturating_sub(sending).nanos());
        let is_train = waited >= CLEAR * self.jitter;
        self.measured = self.measured.max(behind);
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
