//! The scheduler "redundant": everything leaves on every path, the one with the lowest smoothed round-trip time first.
//!
//! Each path sends what others have under way, the oldest first, and what is new once there is nothing of that. Stream
//! data that have arrived are not sent again, so that a slow path follows at its own pace. The first copy of a DATAGRAM
//! leaves at once on each path that has room; the receiver's application gets each copy that arrives.

use thalweg_units::Instant;

use super::{
    interface::{Candidate, Order, PathScheduler, Waiting},
    lowest_rtt::by_rtt,
};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Redundant;

impl PathScheduler for Redundant {
    fn order(&mut self, _: Instant, _: Waiting, candidates: &[Candidate], order: &mut Order) {
        by_rtt(candidates, order);
    }

    fn is_redundant(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SchedulerPolicy, testing::*};

    #[test]
    fn every_path_sends_the_shortest_round_trip_first() {
        let mut scheduler = SchedulerPolicy::Redundant.build();
        assert_eq!(ids(&mut scheduler, 0, &[candidate(0, 50, 5), candidate(1, 10, 0)]), [1, 0]);
        assert!(scheduler.is_redundant());
    }
}
