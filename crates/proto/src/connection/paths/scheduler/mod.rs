//! The scheduler of paths, which chooses the path that sends next.
//!
//! [`PathScheduler`] is the interface; each that comes with the crate is a file, and [`SchedulerPolicy`] lists them.

mod backup;
mod earliest;
mod interface;
mod lowest_rtt;
mod redundant;
mod round_robin;
mod weighted;

use std::{fmt, str::FromStr, sync::Arc};

use thalweg_recovery::DataSpace;
use thalweg_units::Instant;

pub use self::interface::{Candidate, Order, PathScheduler, SchedulerFactory, Waiting};
use self::{
    backup::Backup, earliest::Earliest, lowest_rtt::LowestRtt, redundant::Redundant, round_robin::RoundRobin,
    weighted::Weighted,
};

/// Which scheduler distributes data over several paths.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum SchedulerPolicy {
    /// The path with the lowest smoothed round-trip time among those whose window has room.
    #[default]
    LowestRtt,
    /// Waits for a faster path where a slower one would deliver later (ECF: Lim et al., "ECF: An MPTCP Path Scheduler
    /// to Manage Heterogeneous Paths", CoNEXT 2017).
    Earliest,
    /// One path after the other.
    RoundRobin,
    /// Shares in proportion to the rates at which the paths deliver.
    Weighted,
    /// Everything on every path.
    Redundant,
    /// The path with the lowest identifier; the others only while it is silent or gone.
    Backup,
    /// One of the program's own.
    Custom(Arc<dyn SchedulerFactory>),
}

impl SchedulerPolicy {
    /// Those that have a name.
    pub const NAMED: [SchedulerPolicy; 6] = [
        SchedulerPolicy::LowestRtt,
        SchedulerPolicy::Earliest,
        SchedulerPolicy::RoundRobin,
        SchedulerPolicy::Weighted,
        SchedulerPolicy::Redundant,
        SchedulerPolicy::Backup,
    ];

    /// The name, as written in scenarios and on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            SchedulerPolicy::LowestRtt => "lowest-rtt",
            SchedulerPolicy::Earliest => "earliest",
            SchedulerPolicy::RoundRobin => "round-robin",
            SchedulerPolicy::Weighted => "weighted",
            SchedulerPolicy::Redundant => "redundant",
            SchedulerPolicy::Backup => "backup",
            SchedulerPolicy::Custom(_) => "custom",
        }
    }

    /// The scheduler.
    pub(crate) fn build(&self) -> Scheduler {
        Scheduler(match self {
            SchedulerPolicy::LowestRtt => Box::new(LowestRtt),
            SchedulerPolicy::Earliest => Box::new(Earliest::default()),
            SchedulerPolicy::RoundRobin => Box::new(RoundRobin::default()),
            SchedulerPolicy::Weighted => Box::new(Weighted::default()),
            SchedulerPolicy::Redundant => Box::new(Redundant),
            SchedulerPolicy::Backup => Box::new(Backup),
            SchedulerPolicy::Custom(factory) => factory.build(),
        })
    }
}

impl PartialEq for SchedulerPolicy {
    fn eq(&self, other: &SchedulerPolicy) -> bool {
        match (self, other) {
            (SchedulerPolicy::Custom(one), SchedulerPolicy::Custom(other)) => Arc::ptr_eq(one, other),
            _ => self.name() == other.name(),
        }
    }
}

impl fmt::Display for SchedulerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SchedulerPolicy {
    type Err = String;

    fn from_str(name: &str) -> Result<SchedulerPolicy, String> {
        let known = SchedulerPolicy::NAMED.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| {
            let names = SchedulerPolicy::NAMED.map(|policy| policy.name()).join(", ");
            format!("paths cannot be scheduled \"{name}\"; they can be scheduled {names}")
        })
    }
}

/// The scheduler of a connection.
#[derive(Debug)]
pub(crate) struct Scheduler(Box<dyn PathScheduler>);

impl Scheduler {
    /// See [`PathScheduler::order`]. Paths that are no candidates, or come twice, are left out.
    pub fn order(&mut self, now: Instant, waiting: Waiting, candidates: &[Candidate]) -> Order {
        let mut order = Order::new();
        match candidates {
            [] => {}
            [only] => order.push(only.id),
            _ => self.0.order(now, waiting, candidates, &mut order),
        }
        let mut seen = Order::new();
        order.retain(|id| {
            let is_new = candidates.iter().any(|known| known.id == *id) && !seen.contains(id);
            seen.push(*id);
            is_new
        });
        order
    }

    /// See [`PathScheduler::is_redundant`].
    pub fn is_redundant(&self) -> bool {
        self.0.is_redundant()
    }

    /// See [`PathScheduler::on_sent`].
    pub fn on_sent(&mut self, path: DataSpace, bytes: u64) {
        self.0.on_sent(path, bytes);
    }
}

#[cfg(test)]
pub(super) mod testing {
    use thalweg_units::Duration;

    use super::*;

    /// A path with this round trip in milliseconds and this many datagrams of room in a window of ten.
    pub fn candidate(id: u32, rtt: u64, room: u64) -> Candidate {
        Candidate {
            id: DataSpace(id),
            rtt: Duration::from_millis(rtt),
            rtt_variation: Duration::ZERO,
            window: 12_000,
            bytes_in_flight: 12_000 - room * 1_200,
            datagram_size: 1_200,
            delivery_rate: None,
            can_send: room > 0,
        }
    }

    /// The order that a policy gives.
    pub fn ids(scheduler: &mut Scheduler, waiting: u64, candidates: &[Candidate]) -> Vec<u32> {
        let waiting = Waiting { bytes: waiting, is_all: true };
        scheduler.order(Instant::ZERO, waiting, candidates).iter().map(|id| id.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::*, *};

    #[test]
    fn names_are_read_back() {
        for policy in SchedulerPolicy::NAMED {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("fastest".parse::<SchedulerPolicy>().unwrap_err().contains("lowest-rtt, earliest"));
    }

    #[test]
    fn every_scheduler_takes_the_only_path_there_is() {
        for policy in SchedulerPolicy::NAMED {
            assert_eq!(ids(&mut policy.build(), 1 << 20, &[candidate(3, 10, 0)]), [3]);
        }
    }

    #[test]
    fn what_a_scheduler_makes_up_is_left_out() {
        #[derive(Debug)]
        struct Wild;
        impl PathScheduler for Wild {
            fn order(&mut self, _: Instant, _: Waiting, _: &[Candidate], order: &mut Order) {
                order.extend([7, 1, 1, 0].map(DataSpace));
            }
        }
        impl SchedulerFactory for Wild {
            fn build(&self) -> Box<dyn PathScheduler> {
                Box::new(Wild)
            }
        }
        let mut scheduler = SchedulerPolicy::Custom(Arc::new(Wild)).build();
        assert_eq!(ids(&mut scheduler, 0, &[candidate(0, 10, 1), candidate(1, 20, 1)]), [1, 0]);
    }
}
