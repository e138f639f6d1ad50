//! A timer at fixed times, for disciplines that update something every so often.

use thalweg_units::{Duration, DurationExt, Instant};

/// A timer that is due at `start + k × period` for k = 1, 2, ….
///
/// A discipline that uses one catches up on every call, before it does anything else:
/// `while let Some(at) = self.grid.tick(now) { self.update(at) }`. What waits does not change between two calls, so an
/// update that is made late, with the time at which it was due, gives what it would have given then. An idle queue thus
/// needs no events of its own, and still is updated as often as its source says.
#[derive(Clone, Debug)]
pub struct Grid {
    due: Instant,
    period: Duration,
}

impl Grid {
    /// The most updates that are made up for at once; of more, the latest so many. With a period of 15 ms these are
    /// four minutes without a packet, in which every state here has long settled.
    pub const MOST: u64 = 1 << 14;

    /// A timer whose first time is one `period` after `start`. A period of zero counts as a nanosecond.
    pub fn new(start: Instant, period: Duration) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Grid { due: start + period, period }
    }

    /// The next time that was due by `now`; none if there is none any more.
    pub fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.due > now {
            return None;
        }
        let missed = now.saturating_since(self.due).nanos() / self.period.nanos().max(1);
        if missed >= Self::MOST {
            let skipped = missed + 1 - Self::MOST;
            self.due += Duration::from_nanos(self.period.nanos().saturating_mul(skipped));
        }
        let due = self.due;
        self.due = due + self.period;
        // At the end of time there is no next one: a loop over all that are due has to end.
        (self.due > due).then_some(due)
    }

    /// Leaves out all times up to `now`, for a discipline whose further updates would change nothing.
    pub fn skip(&mut self, now: Instant) {
        if self.due <= now {
            let missed = now.saturating_since(self.due).nanos() / self.period.nanos().max(1) + 1;
            self.due += Duration::from_nanos(self.period.nanos().saturating_mul(missed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ticks(grid: &mut Grid, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| grid.tick(now)).map(|at| at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn times_do_not_depend_on_when_it_is_asked() {
        let mut grid = Grid::new(at(7), Duration::from_millis(10));
        assert_eq!(ticks(&mut grid, at(16)), [0u64; 0]);
        assert_eq!(ticks(&mut grid, at(17)), [17]);
        assert_eq!(ticks(&mut grid, at(17)), [0u64; 0]);
        assert_eq!(ticks(&mut grid, at(49)), [27, 37, 47]);
        grid.skip(at(80));
        assert_eq!(ticks(&mut grid, at(100)), [87, 97]);
        grid.skip(at(100));
        assert_eq!(ticks(&mut grid, at(107)), [107]);
    }

    #[test]
    fn a_clock_that_jumps_costs_a_bounded_number_of_updates() {
        let mut grid = Grid::new(at(0), Duration::from_millis(1));
        let late = ticks(&mut grid, at(3_600_000));
        assert_eq!((late.len() as u64, late.last()), (Grid::MOST, Some(&3_600_000)));
        let mut grid = Grid::new(at(0), Duration::ZERO);
        assert!(grid.tick(Instant::FAR_FUTURE).is_some());
        grid.skip(Instant::FAR_FUTURE);
        assert!(ticks(&mut grid, Instant::FAR_FUTURE).len() as u64 <= Grid::MOST);
    }
}
