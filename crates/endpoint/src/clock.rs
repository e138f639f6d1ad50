//! Real time, made into the [`Instant`] that the state machines below take as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_units::Instant;

/// Distance of the endpoint's start from `Instant::ZERO`: arithmetic that looks a little into the past never saturates.
const ORIGIN: Duration = Duration::from_secs(3600);

/// Where the endpoint's time starts.
///
/// It reads tokio's clock, which is the system's monotonic clock except in tests that pause it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock {
    base: tokio::time::Instant,
}

impl Clock {
    /// A clock that reads one hour now.
    pub(crate) fn new() -> Self {
        Self { base: tokio::time::Instant::now() }
    }

    /// The present.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + ORIGIN + self.base.elapsed()
    }

    /// `at` as tokio's timer wants it.
    pub(crate) fn to_tokio(self, at: Instant) -> tokio::time::Instant {
        self.base + at.saturating_since(Instant::ZERO + ORIGIN)
    }

    /// Seconds since 1970 (for tokens, which outlive a process); 0 if the system's clock stands before that.
    pub(crate) fn unix_seconds() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}
