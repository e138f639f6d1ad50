//! How late packets were handed over.

use thalweg_link::Quantiles;
use thalweg_units::Duration;

/// Later than this is too late for any path.
pub const VERY_LATE: Duration = Duration::from_millis(5);

/// Times between when packets should have been handed over and when they were.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    times: Quantiles,
    very_late: u64,
}

impl Lateness {
    /// Adds a packet.
    pub fn record(&mut self, late: Duration) {
        self.times.record(late);
        self.very_late += u64::from(late > VERY_LATE);
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// Median, the 99th and the 99.9th percentile, and the largest.
    pub fn summary(&self) -> LatenessSummary {
        let mut quantiles = self.times.quantiles([(1, 2), (99, 100), (999, 1000)].into_iter());
        let [p50, p99, p999] = std::array::from_fn(|_| quantiles.next().unwrap_or_default());
        LatenessSummary { count: self.count(), p50, p99, p999, max: self.times.max(), very_late: self.very_late }
    }
}

/// The figures of a [`Lateness`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LatenessSummary {
    /// How many there were.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
    /// The largest.
    pub max: Duration,
    /// How many were later than [`VERY_LATE`].
    pub very_late: u64,
}
