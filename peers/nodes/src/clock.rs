//! Between the simulator's time and the standard library's.

use std::time::{Duration, Instant as StdInstant};

use thalweg_units::Instant;

/// Counts from an arbitrary instant, which is all that can be had of the standard library's. Only differences are ever
/// used.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock(StdInstant);

impl Clock {
    pub(crate) fn new() -> Self {
        Clock(StdInstant::now())
    }

    pub(crate) fn to_std(self, at: Instant) -> StdInstant {
        self.0 + Duration::from_nanos(at.as_nanos())
    }

    pub(crate) fn to_sim(self, at: StdInstant) -> Instant {
        let nanos = at.saturating_duration_since(self.0).as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
