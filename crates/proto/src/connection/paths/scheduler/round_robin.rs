//! The scheduler "round-robin": one path after the other, a batch each.

use thalweg_recovery::DataSpace;
use thalweg_units::Instant;

use super::interface::{Candidate, Order, PathScheduler, Waiting};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// The path that has sent last.
    last: Option<DataSpace>,
}

impl PathScheduler for RoundRobin {
    fn order(&mut self, _: Instant, _: Waiting, candidates: &[Candidate], order: &mut Order) {
        let next = candidates.iter().position(|path| Some(path.id) > self.last).unwrap_or(0);
        order.extend(candidates.iter().cycle().skip(next).take(candidates.len()).map(|path| path.id));
    }

    fn on_sent(&mut self, path: DataSpace, _: u64) {
        self.last = Some(path);
    }
}

#[cfg(test)]
mod tests {
    use thalweg_recovery::DataSpace;

    use super::super::{SchedulerPolicy, testing::*};

    #[test]
    fn paths_take_turns_and_one_that_is_gone_is_skipped() {
        let mut scheduler = SchedulerPolicy::RoundRobin.build();
        let paths = [0, 1, 2].map(|id| candidate(id, 10, 1));
        assert_eq!(ids(&mut scheduler, 0, &paths), [0, 1, 2]);
        scheduler.on_sent(DataSpace(0), 1_200);
        assert_eq!(ids(&mut scheduler, 0, &paths), [1, 2, 0]);
        scheduler.on_sent(DataSpace(1), 1_200);
        assert_eq!(ids(&mut scheduler, 0, &paths[..2]), [0, 1]);
    }
}
