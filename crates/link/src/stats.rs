//! What a direction has done, in numbers.

use core::fmt;

use thalweg_units::{Duration, DurationExt};

use crate::DropCause;

/// Counts of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Packets offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that left the queue and were serialised.
    pub served: u64,
    /// Bytes serialised.
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
    /// Packets that left the queue marked CE.
    pub marked: u64,
    /// Time with something to send: a packet waiting, held or being serialised.
    pub busy: Duration,
    /// Most bytes that ever waited.
    pub max_queue_bytes: u64,
    /// Most packets that ever waited.
    pub max_queue_packets: u64,
    /// How long packets waited before they were serialised.
    pub sojourn: Quantiles,
}

impl DirectionStats {
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

/// Buckets per doubling.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.ilog2();

/// A histogram of times with buckets no wider than 1/32 of their value, from a nanosecond to 584 years.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Grown to the largest bucket in use.
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    min: Duration,
    max: Duration,
}

impl Quantiles {
    /// Adds a time.
    pub fn record(&mut self, span: Duration) {
        let bucket = bucket_of(span.nanos());
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.min = if self.total == 0 { span } else { self.min.min(span) };
        self.total += 1;
        self.sum += u128::from(span.nanos());
        self.max = self.max.max(span);
    }

    /// How many were added.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The smallest; zero if nothing was added.
    pub const fn min(&self) -> Duration {
        self.min
    }

    /// The largest.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The mean, rounded down; zero if nothing was added.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The time below or at which `num / den` of the samples lie, at most 1/32 too low; zero if nothing was added.
    pub fn quantile(&self, num: u64, den: u64) -> Duration {
        let rank = (u128::from(self.total) * u128::from(num)).div_ceil(u128::from(den.max(1))).max(1);
        let mut seen = 0u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return Duration::from_nanos(floor_of(bucket));
            }
        }
        self.max
    }

    /// Adds another histogram's samples.
    pub fn merge(&mut self, other: &Quantiles) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
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
}

impl fmt::Debug for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantiles")
            .field("count", &self.total)
            .field("median", &self.quantile(1, 2))
            .field("p95", &self.quantile(19, 20))
            .field("max", &self.max)
            .finish()
    }
}

/// Values below 32 have a bucket each; above, the five bits after the leading one choose it.
fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    ((shift as usize + 1) << STEP_BITS) + ((value >> shift) as usize & (STEPS - 1))
}

/// The smallest value of a bucket.
fn floor_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = (bucket >> STEP_BITS) - 1;
    ((STEPS + (bucket & (STEPS - 1))) as u64) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_value(value: u64) {
            let floor = floor_of(bucket_of(value));
            prop_assert!(floor <= value && value - floor <= value / 32);
            prop_assert_eq!(bucket_of(floor), bucket_of(value));
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_list(mut nanos in proptest::collection::vec(0u64..1 << 40, 1..200), num in 0u64..=100) {
            let mut histogram = Quantiles::default();
            nanos.iter().for_each(|nanos| histogram.record(Duration::from_nanos(*nanos)));
            nanos.sort_unstable();
            let rank = (nanos.len() as u64 * num).div_ceil(100).max(1);
            let exact = nanos[rank as usize - 1];
            let found = histogram.quantile(num, 100).nanos();
            prop_assert!(found <= exact && exact - found <= exact / 32, "{} {}", found, exact);
            prop_assert_eq!(histogram.max().nanos(), *nanos.last().unwrap());
            prop_assert_eq!(histogram.min().nanos(), nanos[0]);
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
