//! The smallest round-trip time of the last round trip.

use thalweg_units::{Duration, Instant};

/// The smallest sample of one to two round trips before the newest.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Floor {
    began: Option<Instant>,
    before: Option<Duration>,
    now: Option<Duration>,
}

impl Floor {
    /// A sample, on a path on which a round trip takes so long.
    pub(crate) fn on_sample(&mut self, now: Instant, round_trip: Duration, sample: Duration) {
        if self.began.is_none_or(|began| now >= began + round_trip) {
            (self.began, self.before, self.now) = (Some(now), self.now, None);
        }
        self.now = Some(self.now.map_or(sample, |smallest| smallest.min(sample)));
    }

    /// `None` before the first sample.
    pub(crate) fn smallest(&self) -> Option<Duration> {
        self.now.into_iter().chain(self.before).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    #[test]
    fn a_sample_counts_for_one_to_two_round_trips() {
        let mut floor = Floor::default();
        assert_eq!(floor.smallest(), None);
        for (now, sample, expected) in
            [(0, 50, 50), (10, 20, 20), (99, 60, 20), (100, 70, 20), (199, 65, 20), (200, 80, 65), (300, 90, 80)]
        {
            floor.on_sample(at(now), ms(100), ms(sample));
            assert_eq!(floor.smallest(), Some(ms(expected)), "{now}");
        }
    }
}
