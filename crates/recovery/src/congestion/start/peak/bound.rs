//! The bound on the rate of a path by trains of packets, from arrivals on one clock.
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
//!
//! Times of ACKs have another flaw: a way back with time slots holds them back, and lets those of a whole train go as
//! fast as it can send them. Then neither the smallest delay nor the distance of two ACKs says anything. A train that
//! spans slots shows it by a pause that the bytes behind it do not explain. From then on each train may have taken a
//! slot longer than it seems, and what was measured within a slot is forgotten.

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Instant, Rate};

/// The fewest packets, the first not counted, that give a measurement: over less, a packet time more or less matters.
const FEWEST: u64 = 7;

/// A train goes on with what leaves so soon after the path was empty, in nanoseconds: the first packet too has to be
/// sent by the link, and hosts take a moment between packets.
const SLACK: i128 = 200_000;

/// A train has to be so many times as long as the one before to confirm its rate.
const LONGER: u64 = 2;

/// An ACK that came so much later than the bytes of it explain, in nanoseconds, may be the first after a slot.
const LATE: i128 = 500_000;

/// A train filled the path if its last packet waited so many times as long as a packet on an empty path was ever late.
const CLEAR: i128 = 4;

/// A time between two ACKs that is fewer times as long as their bytes explain is chance.
const LONG: i128 = 3;

/// A train has to span so many of the slots in which ACKs come to count.
const SLOTS: i128 = 2;

/// By ACKs, it confirms a rate only if it left faster than it arrived by one in so many: ACKs that come late in slots
/// make any train look as if it had waited.
const FASTER: u64 = 8;

/// Bytes of a full packet on a path that carries no more than any path must (RFC 9000 section 14).
const LEAST_FULL: u64 = 1_200;

/// A rate that exceeds another by less than one in so many is the same. A train twice as long has half of the error if
/// all its packets are late by some time: the rate is then known to a tenth, and longer trains make it exact before the
/// start ends. With 16, one start in twenty of 70 Mbps and 60 ms takes a round trip longer.
const SAME: u64 = 11;

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
    /// When the first arrival was, and the bytes behind the first packet by then.
    opened: (i128, u64),
    /// The longest time without an arrival after which more than one came, and the bytes that ended it.
    gap: (i128, u64),
    /// The time before the latest arrival, and its bytes.
    newest: (i128, u64),
}

impl Train {
    fn new(start: Instant, last: Instant, bytes: u64, arrived: i128) -> Train {
        Train { start, last, bytes, arrived, opened: (arrived, bytes), gap: (0, 0), newest: (0, 0) }
    }

    /// Another packet or more of it have arrived.
    fn push(&mut self, sent: Instant, bytes: u64, received: i128) {
        self.last = self.last.max(sent);
        self.bytes += bytes;
        // The last ACK of a train may be late for want of packets.
        self.gap = self.gap.max(self.newest);
        self.newest = (received - self.arrived, bytes);
        self.arrived = self.arrived.max(received);
    }

    /// The longest time between two ACKs of it, the latest left out, that the bytes of the second do not explain, and
    /// the same of the latest, in nanoseconds.
    fn unexplained(&self) -> (i128, i128) {
        let (from, before) = self.opened;
        let span = u64::try_from(self.arrived - from).unwrap_or(u64::MAX);
        let bytes = (self.bytes - before).max(1);
        let excess = |(gap, ended_by): (i128, u64)| {
            let explained = i128::from(mul_div(span, ended_by, bytes));
            if gap >= LONG * explained { gap - explained } else { 0 }
        };
        (excess(self.gap), excess(self.newest))
    }

    /// The rate at which ACKs reported it, if they came one after the other, and each up to `slot` late.
    fn rate_of_acks(&self, slot: i128) -> Option<Rate> {
        let (from, before) = self.opened;
        let span = self.arrived - from;
        let late = u64::try_from(span + slot).unwrap_or(u64::MAX);
        (span > 0).then(|| Rate::from_bytes_over(self.bytes - before, Duration::from_nanos(late)))
    }
}

/// Packets that are known to have arrived by some time: one, or those that an ACK covers.
#[derive(Copy, Clone, Debug)]
pub(super) struct Point {
    /// When the oldest of them left.
    pub(super) first: Instant,
    /// When the newest of them left.
    pub(super) sent: Instant,
    /// Its place among all packets sent on the path; zero where only ACKs are known.
    pub(super) order: u64,
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
    /// The most by which packets of a train came after the one before, in nanoseconds, and the next to that.
    jitter: [i128; 2],
    /// The most by which packets that found the path empty were late, and the next to that.
    lone: [i128; 2],
    /// By how much the latest packet of a train came after the one before. It counts once the next comes right behind:
    /// what others have overtaken, or could have, was late for a reason of its own.
    pending: i128,
    /// The last in order of sending of the packets that have arrived.
    newest: u64,
    /// The least of round trips less the delays of their packets, in nanoseconds: what the way back takes, by the clock
    /// of the arrivals.
    way_back: Option<i128>,
    /// The longest time that ACKs are known to have been held back and then let go together, in nanoseconds; zero by
    /// the receiver's clock. A way back with time slots does so. Within a slot, trains look as fast as ACKs can be
    /// sent.
    slot: i128,
    train: Option<Train>,
    /// The highest bound.
    peak: Option<Rate>,
    /// The shortest time that a bound was measured over which counts.
    shortest: i128,
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

/// Keeps the largest, in falling order.
fn insert(largest: &mut [i128], mut value: i128) {
    for kept in largest {
        if value > *kept {
            std::mem::swap(kept, &mut value);
        }
    }
}

impl Bound {
    pub(super) fn new(datagram: u64, by_receiver: bool) -> Bound {
        Bound {
            least_delay: None,
            least_before: 0,
            by_receiver,
            jitter: [0; 2],
            lone: [0; 2],
            pending: 0,
            newest: 0,
            way_back: None,
            slot: 0,
            train: None,
            peak: None,
            shortest: i128::MAX,
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

    /// The most that the path carries as far as its longest trains show, in the worst case, and the bytes of these.
    /// Only ACKs show it.
    pub(super) fn ceiling(&self) -> Option<(u64, Rate)> {
        self.ceiling
    }

    /// The most bytes of a train that [`ceiling`](Self::ceiling) could be of.
    pub(super) fn widest(&self) -> u64 {
        self.widest
    }

    /// The longest time that ACKs are known to have been held back and then let go together.
    pub(super) fn slot(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.slot).unwrap_or(u64::MAX))
    }

    /// The most by which packets of trains came after the one before, once aside.
    pub(super) fn jitter(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.jitter[1]).unwrap_or(u64::MAX))
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
        let Point { first, sent, order, bytes, before, received, is_exact } = point;
        // A receiver may tell of a small packet first, which takes less time to send than the full ones behind it: with
        // its delay as the least, each train would seem to have waited. With that of later ones, trains may.
        if self.by_receiver && self.least_delay.is_none() && bytes < self.datagram.min(LEAST_FULL) {
            return;
        }
        let delay = received - i128::from(sent.as_nanos());
        let is_overtaken = order < self.newest;
        self.newest = self.newest.max(order);
        if self.least_delay.is_none_or(|least| delay < least) {
            (self.least_delay, self.least_before) = (Some(delay), before);
        }
        let least = self.least_delay.unwrap_or(delay);
        let Some(train) = &mut self.train else {
            self.train = Some(Train::new(first, sent, before, received));
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
            *train = Train::new(start, sent, bytes, received);
            self.pending = 0;
            // The newest of many waited for those before it.
            if drained && is_exact && before <= self.datagram {
                insert(&mut self.lone, delay - least);
            }
            return;
        }
        // Packets of a train come a packet time apart, unless chance has its hand in it. ACKs come further apart
        // anyway.
        let late = received - train.arrived;
        let since = i128::from(sent.saturating_since(train.last).nanos());
        train.push(sent, bytes, received);
        let Train { start, last, bytes, arrived, .. } = *train;
        if self.by_receiver && !is_overtaken {
            if since < self.pending {
                insert(&mut self.jitter, self.pending);
            }
            self.pending = late;
        }
        // What arrived with this one has had more time than it seems.
        let (behind, few) = (bytes.saturating_sub(before.max(self.least_before)), FEWEST * self.datagram);
        if self.by_receiver && behind < few {
            return;
        }
        // All of it has arrived by then; the first packet can have done so at its sending and the least delay.
        // The least delay may be that of a packet that was late itself. Then a round trip with it is longer than the
        // least.
        let doubt = self.way_back.map_or(0, |way_back| way_back + least - i128::from(min_rtt.nanos())).max(0);
        let taken = arrived - i128::from(start.as_nanos()) - least + doubt;
        if !is_exact || taken <= 0 {
            return;
        }
        let nanos = u64::try_from(taken).unwrap_or(u64::MAX);
        let span = Duration::from_nanos(nanos);
        // Its last packet waited for longer than chance explains: the path was full.
        let waited = i128::from(nanos.saturating_sub(last.saturating_since(start).nanos()));
        // One packet of either kind may have been late for a reason of its own.
        let jitter = self.jitter[1].max(self.lone[1]);
        let is_full = || waited >= (CLEAR * jitter).min(i128::from(min_rtt.nanos() / 4));
        let (mut is_faster, mut of_acks) = (true, Rate::MAX);
        if !self.by_receiver {
            let Some(rate) = self.rate_of_acks() else { return };
            of_acks = rate;
            is_faster = waited >= self.slot.max(LATE).max(i128::from(nanos / FASTER));
            self.shortest = self.shortest.min(taken);
            // What arrived with the packet of the least delay has had more time than it seems.
            let most = bytes.saturating_sub(self.least_before);
            if most >= FEWEST * self.datagram {
                self.widest = self.widest.max(most);
                self.correct_ceiling(most, Rate::from_bytes_over(most, span), is_full());
            }
        }
        if behind < few {
            return;
        }
        self.measured = self.measured.max(behind);
        let is_compared = self.is_longest(behind) || self.is_as_long(behind);
        // Most packets change nothing: without a division, which costs more than all the rest.
        let is_higher = |peak: Rate| u128::from(behind) * 8_000_000_000 > u128::from(peak.bps()) * u128::from(nanos);
        if !is_compared && !self.peak.is_none_or(is_higher) {
            return;
        }
        let rate = Rate::from_bytes_over(behind, span).min(of_acks);
        self.peak = self.peak.max(Some(rate));
        if is_compared && is_faster && is_full() {
            self.compare(behind, rate);
        }
    }

    /// The rate at which ACKs reported the train, if it can be measured by the latest.
    fn rate_of_acks(&mut self) -> Option<Rate> {
        let (unexplained, latest) = self.train.as_ref()?.unexplained();
        self.find_slot(unexplained);
        // The next ACK shows whether this one is the first after a slot, or the last of the train.
        if latest > self.slot.max(LATE) {
            return None;
        }
        self.train.as_ref()?.rate_of_acks(self.slot)
    }

    /// What was measured within a slot that has become known does not count.
    fn find_slot(&mut self, unexplained: i128) {
        if unexplained <= self.slot {
            return;
        }
        self.slot = unexplained;
        if self.shortest < SLOTS * self.slot {
            (self.peak, self.longest, self.confirmed, self.shortest) = (None, None, false, i128::MAX);
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

    /// Whether a train is long enough to be compared with the longest before, or there was none.
    fn is_longest(&self, bytes: u64) -> bool {
        self.longest.is_none_or(|(longest, _)| bytes >= LONGER * longest)
    }

    /// Whether a train is as long as the longest before, to a packet.
    fn is_as_long(&self, bytes: u64) -> bool {
        self.longest.is_some_and(|(longest, _)| bytes.abs_diff(longest) < self.datagram)
    }

    /// A train whose packets left much faster than they arrived confirms the bound of a shorter one, or replaces it.
    ///
    /// Each bound is from below, and the first of so many bytes may have been low by chance. The highest of as many is
    /// what the longer train has to come up to; else it seems to raise a rate that was known all along.
    fn compare(&mut self, bytes: u64, rate: Rate) {
        let Some((longest, before)) = self.longest else {
            self.longest = Some((bytes, rate));
            return;
        };
        if bytes < LONGER * longest {
            self.longest = Some((longest, rate.max(before)));
            return;
        }
        self.longest = Some((bytes, rate.max(before)));
        self.confirmed = rate <= before.mul_ratio(SAME + 1, SAME);
        // The longer, the less the packet times matter by which hosts are late. But a train that met others' packets
        // says nothing.
        if self.peak.is_some_and(|peak| rate >= peak.mul_ratio(7, 8)) {
            self.peak = Some(rate);
        } else if !self.by_receiver && self.confirmed {
            // What no train gave, ACKs that came together did.
            self.peak = Some(rate.max(before));
        }
    }
}
