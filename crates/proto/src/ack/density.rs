//! The density of ACKs as long as the peer has not asked for anything: packets per ACK, by what arrives in a round trip
//! and by what is missing.

use std::ops::Range;
use std::time::Duration;

use thalweg_units::Instant;

use super::AckPolicy;
use crate::range_set::RangeSet;

/// How many ack-eliciting packets arrive before ACKs thin out.
pub(super) const DENSE_PACKETS: u64 = 100;
/// Packets acknowledged densely after a loss. Many on purpose: a sender that fills a short queue loses something only
/// every ten thousand packets or so while ACKs are dense.
const LEAST_DENSE: u64 = 1 << 15;
/// … and at most, however often thinning was followed by loss: then it does not pay for this connection.
const MOST_DENSE: u64 = 1 << 20;
/// A loss within so many times the dense packets before it counts against thinning.
const BLAMED: u64 = 16;
/// By how much the number of dense packets then grows.
const GROWTH: u64 = 4;
/// Packets that may still arrive late: numbers are judged between so many and twice as many packets later.
const LATE: u64 = 128;
/// So many missing numbers among [`STRETCH`] packets are a loss while ACKs are thin; while they are dense, each is one.
const LOSS: u64 = 2;
const STRETCH: u64 = 1 << 12;
/// Senders never use some numbers, to catch receivers that acknowledge what they did not get (RFC 9000 section 21.4):
/// about one each time that the numbers double at first, and later one among so many or fewer.
const SKIPS: u64 = 1 << 16;

/// How densely one space is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Density {
    arrivals: ArrivalRate,
    losses: Losses,
}

impl Density {
    /// The shortest round-trip time of the path.
    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.arrivals.rtt = rtt;
    }

    /// The same; zero while unknown.
    pub(super) fn rtt(&self) -> Duration {
        self.arrivals.rtt
    }

    /// Takes note of a packet that is not ack-eliciting: it shows what is missing as well as others. `largest` is the
    /// largest number before this one.
    pub(super) fn see(&mut self, policy: AckPolicy, number: u64, largest: Option<u64>) {
        if policy == AckPolicy::UntilLoss {
            self.losses.see(number, largest);
        }
    }

    /// Takes note of an ack-eliciting packet and says after how many such packets an ACK is due. `received` are all
    /// numbers, `largest` is the largest before this one.
    pub(super) fn on_packet(
        &mut self,
        now: Instant,
        policy: AckPolicy,
        number: u64,
        largest: Option<u64>,
        received: &RangeSet,
    ) -> u64 {
        if policy == AckPolicy::EverySecond {
            return 2;
        }
        self.arrivals.on_packet(now);
        if policy == AckPolicy::UntilLoss {
            self.losses.see(number, largest);
            self.losses.judge(self.arrivals.total, number, received);
            if self.arrivals.total < self.losses.dense_until {
                return 2;
            }
        }
        self.arrivals.packets_per_ack(policy)
    }
}

/// What the numbers that are missing say about thinning.
#[derive(Debug, Default)]
struct Losses {
    /// What is not judged yet: from the first missing number to the one that showed the last.
    hole: Option<Range<u64>>,
    /// Numbers missing in the stretch that began when so many packets had arrived.
    missing: u64,
    since: u64,
    /// ACKs are dense until so many packets have arrived.
    dense_until: u64,
    /// Dense packets that a loss brings about.
    dense: u64,
    /// The latest stretch of numbers in which one was taken for skipped.
    skipped_in: Option<u64>,
}

impl Losses {
    /// A packet has arrived; `largest` is the largest number before it.
    #[inline]
    fn see(&mut self, number: u64, largest: Option<u64>) {
        let next = largest.map_or(number, |largest| largest.saturating_add(1));
        if number > next {
            self.hole = Some(self.hole.take().map_or(next, |hole| hole.start)..number);
        }
    }

    /// Judges what is missing for good, once the `total`th packet has arrived.
    #[inline]
    fn judge(&mut self, total: u64, number: u64, received: &RangeSet) {
        // What is missing so far below the largest number does not come any more.
        if let Some(hole) = self.hole.clone()
            && number >= hole.start.saturating_add(2 * LATE)
        {
            let judged = hole.start..hole.end.min(number - LATE);
            self.hole = (judged.end < hole.end).then_some(judged.end..hole.end);
            let missing = received.gaps(judged).map(|gap| self.lost_of(gap)).sum();
            self.on_missing(total, missing);
        }
    }

    /// How many of a run of missing numbers were lost: of each stretch of numbers one that stands alone may have been
    /// skipped by the sender.
    fn lost_of(&mut self, gap: Range<u64>) -> u64 {
        let count = gap.end - gap.start;
        let stretch = if gap.start < SKIPS { gap.start.max(1).ilog2().into() } else { SKIPS + gap.start / SKIPS };
        if count == 1 && self.skipped_in != Some(stretch) {
            self.skipped_in = Some(stretch);
            return 0;
        }
        count
    }

    /// So many numbers are missing for good.
    fn on_missing(&mut self, total: u64, missing: u64) {
        if missing == 0 {
            return;
        }
        if self.missing == 0 || total - self.since > STRETCH {
            (self.missing, self.since) = (0, total);
        }
        self.missing += missing;
        let is_dense = total < self.dense_until;
        if self.missing >= LOSS || is_dense {
            self.missing = 0;
            self.on_loss(total);
        }
    }

    fn on_loss(&mut self, total: u64) {
        let was_thin = total >= self.dense_until;
        if self.dense == 0 {
            self.dense = LEAST_DENSE;
        } else if was_thin && total - self.dense_until < BLAMED * self.dense {
            self.dense = (GROWTH * self.dense).min(MOST_DENSE);
        }
        self.dense_until = total + self.dense;
    }
}

/// How many ack-eliciting packets arrive in a round trip, measured over one round trip at a time.
#[derive(Debug, Default)]
struct ArrivalRate {
    /// Zero while unknown.
    rtt: Duration,
    total: u64,
    window_start: Option<Instant>,
    in_window: u64,
    per_round_trip: u64,
}

impl ArrivalRate {
    fn on_packet(&mut self, now: Instant) {
        self.total += 1;
        let start = *self.window_start.get_or_insert(now);
        let elapsed = now.saturating_since(start);
        if elapsed >= self.rtt && !self.rtt.is_zero() {
            // A window may have lasted longer than a round trip, because nothing came.
            let rtt = self.rtt.as_nanos();
            let scaled = u128::from(self.in_window) * rtt / elapsed.as_nanos().max(1);
            self.per_round_trip = scaled as u64;
            self.window_start = Some(now);
            self.in_window = 0;
        }
        self.in_window += 1;
    }

    fn packets_per_ack(&self, policy: AckPolicy) -> u64 {
        if self.total <= DENSE_PACKETS {
            return 2;
        }
        (self.per_round_trip / u64::from(policy.per_round_trip())).clamp(2, policy.most_packets())
    }
}
