//! The scheduler "lowest-rtt": the path with the lowest smoothed round-trip time whose window has room.

use thalweg_units::Instant;

use super::interface::{Candidate, Order, PathScheduler};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LowestRtt;

impl PathScheduler for LowestRtt {
    fn order(&mut self, _: Instant, _: u64, candidates: &[Candidate], order: &mut Order) {
        by_rtt(candidates, order);
    }
}

/// The paths by ascending round-trip time.
pub(super) fn by_rtt(candidates: &[Candidate], order: &mut Order) {
    order.extend(candidates.iter().map(|path| path.id));
    let rtt = |id| candidates.iter().find(|path| path.id == id).map(|path| (path.rtt, path.id));
    order.sort_by_key(|id| rtt(*id));
}

#[cfg(test)]
mod tests {
    use super::super::{SchedulerPolicy, testing::*};

    #[test]
    fn the_shortest_round_trip_comes_first_whatever_the_windows() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        let paths = [candidate(0, 50, 5), candidate(1, 10, 0), candidate(2, 30, 1)];
        assert_eq!(ids(&mut scheduler, 0, &paths), [1, 2, 0]);
    }
}
