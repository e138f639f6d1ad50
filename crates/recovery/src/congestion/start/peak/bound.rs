//! What the trains of packets tell about the rate of a path, by the arrivals on one clock.
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

/// Packets that are known to have arrived by some time: one, or those that an ACK covers.
#[derive(Copy, Clone, Debug)]
pub(super) struct Point {
    /// When the oldest of them left.
    pub(super) first: Instant,
    /// When the newest of them left.
    pub(super) sent: Instant,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// Bytes of those before the newest.
    pub(super) before: u64,
    /// When the newest arrived, in nanoseconds.
    pub(super) received: i128,
    /// Whether that is known well enough to measure by.
    pub(super) is_exact: bool,
}

/// Bounds on the rate of a path, from the arrivals of its packets on one clock.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bound {
    /// The smallest difference between arrival and sending, in nanoseconds. Clocks may differ by any constant.
    least_delay: Option<i128>,
    /// Bytes that arrived with the packet that had it, and may have made it wait.
    least_before: u64,
    /// Whether arrivals are by the receiver's clock, packet by packet.
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
    /// The longest train that filled the path, and the highest rate that it or a longer one would admit.
    ceiling: Option<(u64, Rate)>,
    /// The longest train so far and its bound: what a longer one is compared with.
    longest: Option<(u64, Rate)>,
    confirmed: bool,
    measured: u64,
    /// The most bytes of a train that could be compared with the time that they took.
    widest: u64,
    /// Bytes of a full packet.
    datagram: u64,
}

impl Bound {
    pub(super) fn new(datagram: u64, by_receiver: bool) -> Bound {
        Bound {
            least_delay: None,
            least_before: 0,
            by_receiver,
            jitter: 0,
            way_back: None,
            train: None,
            peak: None,
            ceiling: None,
            longest: None,
            confirmed: false,
            measured: 0,
            widest: 0,
            datagram,
        }
    }

    /// The highest rate that the path is known to carry.
    pub(super) fn peak(&self) -> Option<Rate> {
        self.peak
    }

    /// The most that the path carries as far as its longest trains tell, in the worst case.
    pub(super) fn ceiling(&self) -> Option<Rate> {
        self.ceiling.map(|(_, rate)| rate)
    }

    /// The most bytes of a train that [`ceiling`](Self::ceiling) could be of.
    pub(super) fn widest(&self) -> u64 {
        self.widest
    }

    /// Whether a train at least twice as long as another gave no higher rate.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The most bytes that a bound was measured over.
    pub(super) fn measured(&self) -> u64 {
        self.measured
    }

    /// A packet that took so long by the clock of the arrivals had a round trip of so much.
    pub(super) fn on_round_trip(&mut self, delay: i128, round_trip: Duration) {
        let way_back = i128::from(round_trip.nanos()) - delay;
        self.way_back = Some(self.way_back.map_or(way_back, |least| least.min(way_back)));
    }

    /// Packets have arrived; `min_rtt` is the shortest round trip of the path.
    pub(super) fn on_arrival(&mut self, point: Point, min_rtt: Duration) {
        let Point { first, sent, bytes, before, received, is_exact } = point;
        let delay = received - i128::from(sent.as_nanos());
        if self.least_delay.is_none_or(|least| delay < least) {
            (self.least_delay, self.least_before) = (Some(delay), before);
        }
        let least = self.least_delay.unwrap_or(delay);
        let Some(train) = &mut self.train else {
            self.train = Some(Train { start: first, last: sent, bytes: before, arrived: received });
            return;
        };
        if sent < train.start {
            return;
        }
        // What leaves once all before it has arrived finds the path empty; so may what leaves a round trip after the
        // first.
        let empty = train.arrived - least + SLACK;
        let drained = empty <= i128::from(sent.as_nanos());
        if drained || sent.saturating_since(train.start) >= min_rtt {
            // Of packets of both, only the newest is known to belong to the new one.
            let is_whole = empty <= i128::from(first.as_nanos());
            let (start, bytes) = if is_whole { (first, before) } else { (sent, 0) };
            *train = Train { start, last: sent, bytes, arrived: received };
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
        let train = *train;
        // All of it has arrived by then; the first packet can have done so at its sending and the least delay.
        // The least delay may be that of a packet that was late itself. Then a round trip with it is longer than the
        // least.
        let doubt = self.way_back.map_or(0, |way_back| way_back + least - i128::from(min_rtt.nanos())).max(0);
        let span = train.arrived - i128::from(train.start.as_nanos()) - least + doubt;
        if !is_exact || span <= 0 {
            return;
        }
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        // Its last packet waited for longer than chance explains: the path was full.
        let sending = train.last.saturating_since(train.start);
        let waited = i128::from(span.saturating_sub(sending).nanos());
        let is_train = waited >= CLEAR * self.jitter;
        // What arrived with the packet of the least delay has had more time than it seems.
        let most = train.bytes.saturating_sub(self.least_before);
        if most >= FEWEST * self.datagram {
            let is_full = is_train || waited >= i128::from((min_rtt / 4).nanos());
            self.widest = self.widest.max(most);
            self.correct_ceiling(most, Rate::from_bytes_over(most, span), is_full);
        }
        // What arrived with this one may have, too.
        let behind = train.bytes.saturating_sub(before.max(self.least_before));
        if behind < FEWEST * self.datagram {
            return;
        }
        let rate = Rate::from_bytes_over(behind, span);
        self.measured = self.measured.max(behind);
        self.peak = self.peak.max(Some(rate));
        if is_train {
            self.compare(behind, rate);
        }
    }

    /// The longer a train, the less it matters by how much its times are wrong.
    fn correct_ceiling(&mut self, bytes: u64, rate: Rate, is_full: bool) {
        self.ceiling = match self.ceiling {
            Some((longest, highest))
                if bytes < longest || (bytes < LONGER * longest || !is_full) && rate <= highest =>
            {
                Some((longest, highest))
            }
            _ => Some((bytes, rate)),
        };
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
