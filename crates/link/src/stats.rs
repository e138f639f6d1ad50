//! Statistics of a direction.

use core::fmt;

use thalweg_units::{Duration, DurationExt};

use crate::DropCause;

/// Counts of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectionStats {
    /// Packets offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that left the queue and were serialized.
    pub served: u64,
    /// Bytes serialized.
    pub served_bytes: u64,
    /// Packets delivered, duplicates included.
    pub delivered: u64,
    /// Bytes delivered, duplicates included.
    pub delivered_bytes: u64,
    /// Packets dropped, by [`DropCause::index`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Packets delivered a second time.
    pub duplicated: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets delivered after one that had been served later.
    pub reordered: u64,
    /// Packets that left the queue marked CE, those that came so included.
    pub marked: u64,
    /// Time with something to send: a packet waiting, held or being serialized.
    pub busy: Duration,
    /// Most bytes that ever waited.
    pub max_queue_bytes: u64,
    /// Most packets that ever waited.
    pub max_queue_packets: u64,
    /// How long packets waited before they were serialized.
    pub sojourn: Quantiles,
    /// The same of each flow, by [`Packet::flow`](crate::Packet::flow); flows from [`MOST_FLOWS`](Self::MOST_FLOWS) on
    /// share the last entry.
    pub flows: Vec<FlowStats>,
}

/// What the queue of a direction has done with the packets of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowStats {
    /// Packets that the queue dropped, by [`DropCause::index`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Packets that left the queue marked CE, those that came so included.
    pub marked: u64,
    /// How long packets waited before they were serialized.
    pub sojourn: Quantiles,
}

impl DirectionStats {
    /// Flows that are counted one by one. A flow's number is no reason to allocate without bound.
    pub const MOST_FLOWS: usize = 1 << 12;

    pub(crate) fn flow_mut(&mut self, flow: u32) -> &mut FlowStats {
        let index = (flow as usize).min(Self::MOST_FLOWS);
        if self.flows.len() <= index {
            self.flows.resize(index + 1, FlowStats::default());
        }
        &mut self.flows[index]
    }

    /// Packets dropped for this reason.
    pub const fn dropped_by(&self, cause: DropCause) -> u64 {
        self.dropped[cause.index()]
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// What this direction has worked through: packets enqueued or refused, services ended, deliveries.
    pub const fn events(&self) -> u64 {
        self.offered + self.served + self.delivered
    }
}

/// So many times are kept as they are: 256 KiB, which is enough for every acknowledgment of a transfer of 60 MB.
const EXACT: usize = 1 << 15;
/// Buckets per doubling once there are more: what is reported is then at most 1/2048 too high.
const STEPS: usize = 2048;
const STEP_BITS: u32 = STEPS.ilog2();

/// The quantiles of times, from a nanosecond to 584 years.
///
/// Exact for up to 32,768 of them. More are counted in buckets, and a quantile is then the upper end of its bucket:
/// never too low, and at most 1/2048 (0.05 %) too high.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Quantiles {
    /// In the order of their arrival; empty once there are buckets.
    exact: Vec<u64>,
    /// Counts by power of two; those without a value are empty. Grown to the largest in use.
    octaves: Vec<Vec<u64>>,
    total: u64,
    sum: u128,
    /// In nanoseconds, like the sum.
    min: u64,
    max: u64,
}

impl Quantiles {
    /// Adds a time.
    pub fn record(&mut self, span: Duration) {
        self.record_nanos(span.nanos());
    }

    /// Adds a time in nanoseconds.
    pub(crate) fn record_nanos(&mut self, nanos: u64) {
        if self.octaves.is_empty() && self.exact.len() < EXACT {
            self.exact.push(nanos);
        } else {
            self.use_buckets();
            self.put(nanos, 1);
        }
        self.min = if self.total == 0 { nanos } else { self.min.min(nanos) };
        self.total += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// How many were added.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The smallest; zero if nothing was added.
    pub const fn min(&self) -> Duration {
        Duration::from_nanos(self.min)
    }

    /// The largest.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The mean, rounded down; zero if nothing was added.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The smallest time that `num / den` of all do not exceed; zero if nothing was added. Of more than 32,768 times it
    /// is up to 0.05 % too high.
    pub fn quantile(&self, num: u64, den: u64) -> Duration {
        self.quantiles(core::iter::once((num, den))).next().unwrap_or_default()
    }

    /// Several [`quantile`](Self::quantile)s, in the order asked for.
    pub fn quantiles(&self, wanted: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = Duration> {
        let rank_of = |(num, den): (u64, u64)| {
            let rank = (u128::from(self.total) * u128::from(num)).div_ceil(u128::from(den.max(1)));
            rank.clamp(1, u128::from(self.total.max(1)))
        };
        let ranks: Vec<u128> = wanted.map(rank_of).collect();
        let mut times = self.exact.clone();
        // Times that are all equal, as those of a queue that never fills, are in order as they are.
        if self.min < self.max {
            let mut places: Vec<usize> = ranks.iter().filter_map(|rank| usize::try_from(rank - 1).ok()).collect();
            places.retain(|place| *place < times.len());
            places.sort_unstable();
            places.dedup();
            put_in_place(&mut times, &places, 0);
        }
        ranks.into_iter().map(move |rank| match usize::try_from(rank - 1).ok().and_then(|at| times.get(at)) {
            Some(nanos) => Duration::from_nanos(*nanos),
            None => self.bucketed(rank),
        })
    }

    /// The upper end of the bucket in which the time of this rank lies.
    fn bucketed(&self, rank: u128) -> Duration {
        let mut seen = 0u128;
        for (octave, counts) in self.octaves.iter().enumerate() {
            for (step, count) in counts.iter().enumerate() {
                seen += u128::from(*count);
                if seen >= rank {
                    return Duration::from_nanos(ceiling_of(octave, step).min(self.max));
                }
            }
        }
        self.max()
    }

    /// Adds another collection's times.
    pub fn merge(&mut self, other: &Quantiles) {
        if self.octaves.is_empty() && other.octaves.is_empty() && self.exact.len() + other.exact.len() <= EXACT {
            self.exact.extend_from_slice(&other.exact);
        } else {
            self.use_buckets();
            for nanos in &other.exact {
                self.put(*nanos, 1);
            }
            for (octave, counts) in other.octaves.iter().enumerate() {
                for (step, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    self.put(ceiling_of(octave, step), *count);
                }
            }
        }
        self.min = match (self.total, other.total) {
            (_, 0) => self.min,
            (0, _) => other.min,
            _ => self.min.min(other.min),
        };
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The times that were added since `before`, an earlier state of this collection. Of more than 32,768 times the
    /// smallest, the largest and the mean are those of buckets as well.
    #[must_use]
    pub fn since(&self, before: &Quantiles) -> Quantiles {
        let mut rest = Quantiles::default();
        if self.octaves.is_empty() {
            for nanos in self.exact.get(before.exact.len()..).unwrap_or_default() {
                rest.record(Duration::from_nanos(*nanos));
            }
            return rest;
        }
        let mut before = before.clone();
        before.use_buckets();
        for (octave, counts) in self.octaves.iter().enumerate() {
            for (step, count) in counts.iter().enumerate() {
                let earlier = before.octaves.get(octave).and_then(|counts| counts.get(step)).copied().unwrap_or(0);
                let more = count.saturating_sub(earlier);
                if more > 0 {
                    let nanos = ceiling_of(octave, step).min(self.max);
                    rest.put(nanos, more);
                    rest.min = if rest.total == 0 { nanos } else { rest.min };
                    rest.total += more;
                    rest.sum += u128::from(nanos) * u128::from(more);
                    rest.max = nanos;
                }
            }
        }
        rest
    }

    /// From now on there are buckets.
    fn use_buckets(&mut self) {
        if self.octaves.is_empty() {
            // Never empty again, whatever it holds.
            self.octaves.push(Vec::new());
            for nanos in core::mem::take(&mut self.exact) {
                self.put(nanos, 1);
            }
        }
    }

    fn put(&mut self, nanos: u64, count: u64) {
        let (octave, step) = bucket_of(nanos);
        if octave >= self.octaves.len() {
            self.octaves.resize(octave + 1, Vec::new());
        }
        let counts = &mut self.octaves[octave];
        if counts.is_empty() {
            counts.resize(STEPS, 0);
        }
        counts[step] += count;
    }
}

/// The same times, in whatever order.
impl PartialEq for Quantiles {
    fn eq(&self, other: &Quantiles) -> bool {
        let sorted = |times: &Quantiles| {
            let mut sorted = times.exact.clone();
            sorted.sort_unstable();
            sorted
        };
        (self.total, self.sum, self.min, self.max) == (other.total, other.sum, other.min, other.max)
            && self.octaves == other.octaves
            && sorted(self) == sorted(other)
    }
}

impl Eq for Quantiles {}

impl fmt::Debug for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantiles")
            .field("count", &self.total)
            .field("median", &self.quantile(1, 2))
            .field("p95", &self.quantile(19, 20))
            .field("max", &self.max())
            .finish()
    }
}

/// Orders `times` so far that at each of these places stands what would stand there if all were sorted. Places are
/// ascending and count from `base` on. That is several times as fast as sorting if they are few.
fn put_in_place(times: &mut [u64], places: &[usize], base: usize) {
    let Some((before, [middle, after @ ..])) = places.split_at_checked(places.len() / 2) else { return };
    let (left, _, right) = times.select_nth_unstable(middle - base);
    put_in_place(left, before, base);
    put_in_place(right, after, middle + 1);
}

/// Values below 2048 have a bucket each; above, the eleven bits after the leading one choose it.
fn bucket_of(value: u64) -> (usize, usize) {
    if value < STEPS as u64 {
        return (0, value as usize);
    }
    let shift = value.ilog2() - STEP_BITS;
    (shift as usize + 1, (value >> shift) as usize & (STEPS - 1))
}

/// The largest value of a bucket.
fn ceiling_of(octave: usize, step: usize) -> u64 {
    match octave.checked_sub(1) {
        None => step as u64,
        Some(shift) => ((STEPS + step) as u64) << shift | ((1 << shift) - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The value of a rank among sorted ones.
    fn of_sorted(sorted: &[u64], num: u64, den: u64) -> u64 {
        let rank = (sorted.len() as u64 * num).div_ceil(den).max(1);
        sorted[rank as usize - 1]
    }

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_value(value: u64) {
            let (octave, step) = bucket_of(value);
            let ceiling = ceiling_of(octave, step);
            prop_assert!(ceiling >= value && ceiling - value <= value / 2048);
            prop_assert_eq!(bucket_of(ceiling), (octave, step));
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_list(mut nanos in proptest::collection::vec(0u64..1 << 40, 1..200), num in 0u64..=100) {
            let mut times = Quantiles::default();
            nanos.iter().for_each(|nanos| times.record(Duration::from_nanos(*nanos)));
            nanos.sort_unstable();
            let exact = of_sorted(&nanos, num, 100);
            prop_assert_eq!(times.quantile(num, 100).nanos(), exact);
            // In buckets: never too low, and by a thousandth too high at most.
            times.use_buckets();
            let found = times.quantile(num, 100).nanos();
            prop_assert!(found >= exact && found - exact <= exact / 1000, "{} {}", found, exact);
            prop_assert_eq!(times.max().nanos(), *nanos.last().unwrap());
            prop_assert_eq!(times.min().nanos(), nanos[0]);
        }

        #[test]
        fn what_was_added_since_is_the_rest(nanos in proptest::collection::vec(0u64..1 << 40, 2..200), bucketed: bool, num in 0u64..=100) {
            let (early, late) = nanos.split_at(nanos.len() / 2);
            let mut times = Quantiles::default();
            early.iter().for_each(|nanos| times.record(Duration::from_nanos(*nanos)));
            let before = times.clone();
            if bucketed {
                times.use_buckets();
            }
            late.iter().for_each(|nanos| times.record(Duration::from_nanos(*nanos)));
            let (rest, mut late) = (times.since(&before), late.to_vec());
            late.sort_unstable();
            let (found, exact) = (rest.quantile(num, 100).nanos(), of_sorted(&late, num, 100));
            prop_assert_eq!(rest.count(), late.len() as u64);
            prop_assert!(found >= exact && found - exact <= exact / 1000, "{} {}", found, exact);
            prop_assert!(rest.min().nanos() >= late[0] && rest.max() <= times.max());
        }
    }

    #[test]
    fn quantiles_come_in_the_order_asked_for_however_many() {
        let mut times = Quantiles::default();
        // In no order, and every value several times.
        let mut nanos: Vec<u64> = (0..5_000u64).map(|n| n * 7_919 % 1_237).collect();
        nanos.iter().for_each(|nanos| times.record(Duration::from_nanos(*nanos)));
        nanos.sort_unstable();
        for count in [1u64, 2, 3, 10, 1_000, 5_000] {
            let shares = (0..=count).rev().chain([0, count]).map(|num| (num, count));
            let found: Vec<u64> = times.quantiles(shares.clone()).map(Duration::nanos).collect();
            assert_eq!(found, shares.map(|(num, den)| of_sorted(&nanos, num, den)).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn memory_is_bounded_and_quantiles_stay_close() {
        let mut times = Quantiles::default();
        let mut nanos: Vec<u64> = (0..200_000u64).map(|n| 1_000_000 + n * n).collect();
        nanos.iter().for_each(|nanos| times.record(Duration::from_nanos(*nanos)));
        assert!(times.exact.is_empty() && times.octaves.iter().filter(|counts| !counts.is_empty()).count() <= 17);
        nanos.sort_unstable();
        for num in [1, 50, 95, 99, 100] {
            let (found, exact) = (times.quantile(num, 100).nanos(), of_sorted(&nanos, num, 100));
            assert!(found >= exact && found - exact <= exact / 1000, "{found} {exact}");
        }
    }

    #[test]
    fn nothing_recorded_is_zero() {
        let empty = Quantiles::default();
        assert_eq!((empty.quantile(1, 2), empty.mean(), empty.min(), empty.max()), Default::default());
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut a, mut b, mut both) = (Quantiles::default(), Quantiles::default(), Quantiles::default());
        for n in 0..100 {
            let span = Duration::from_micros(n * n);
            if n % 3 == 0 {
                a.record(span)
            } else {
                b.record(span)
            }
            both.record(span);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }
}
