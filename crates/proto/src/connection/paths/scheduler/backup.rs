//! The scheduler "backup": the path with the lowest identifier; the others only while it is silent or gone.

use thalweg_units::Instant;

use super::interface::{Candidate, Order, PathScheduler, Waiting};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Backup;

impl PathScheduler for Backup {
    fn order(&mut self, _: Instant, _: Waiting, candidates: &[Candidate], order: &mut Order) {
        order.extend(candidates.first().map(|path| path.id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SchedulerPolicy, testing::*};

    #[test]
    fn the_second_path_stands_by() {
        let mut scheduler = SchedulerPolicy::Backup.build();
        assert_eq!(ids(&mut scheduler, 1 << 20, &[candidate(0, 50, 0), candidate(1, 10, 9)]), [0]);
    }
}
