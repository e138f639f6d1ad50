//! Whether an emulation was good enough for its figures to be believed.

use std::fmt;

use thalweg_link::PathConfig;
use thalweg_units::{Duration, exact_duration, human_duration};

use crate::engine::{Engine, Totals, Toward};
use crate::lateness::{LatenessSummary, VERY_LATE};
use crate::series::Series;

/// What an emulation may fall short by and still be valid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The 99th percentile of lateness, of each direction. None: half a millisecond, or 1 % of the path's round trip if
    /// that is more.
    pub lateness: Option<Duration>,
    /// Packets per thousand that may be more than 5 ms late, of each direction.
    pub very_late_per_mille: u64,
    /// The 99th percentile of how late the watcher was woken.
    pub wake_up: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { lateness: None, very_late_per_mille: 1, wake_up: Duration::from_millis(1) }
    }
}

/// Half a millisecond: the limit of lateness on short paths.
const LATENESS: Duration = Duration::from_micros(500);

impl Limits {
    /// The limit of the 99th percentile of lateness on a path of this round trip.
    pub fn lateness_on(&self, round_trip: Duration) -> Duration {
        self.lateness.unwrap_or_else(|| LATENESS.max(round_trip / 100))
    }
}

/// What an emulation did, and how well.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How long it ran.
    pub elapsed: Duration,
    /// What was done on each path, in the order in which they were given.
    pub paths: Vec<PathReport>,
    /// Packets that were left out, because an emulation has nothing to do with them.
    pub ignored: u64,
    /// How late a thread of the priority of the programs was woken.
    pub wake_ups: LatenessSummary,
    /// Packets that the system dropped before they could be read.
    pub device_dropped: u64,
    /// How long the machine was suspended.
    pub suspended: Duration,
    /// How long the thread that moves packets had a processor. What the system does for a receiver while a packet is
    /// handed over counts.
    pub processor: Duration,
    /// Whether real-time priority was asked for, and if it was not granted, why.
    pub realtime: Option<Result<(), String>>,
}

/// What an emulation did on a path.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PathReport {
    /// The sum of the fixed delays of the path, both ways.
    pub round_trip: Duration,
    /// What was done toward the server, and toward the client.
    pub directions: [Totals; 2],
    /// The same over time.
    pub series: [Series; 2],
    /// Flows that were seen.
    pub flows: u64,
}

impl PathReport {
    /// What an engine has done.
    pub(crate) fn of(engine: &Engine, round_trip: Duration, flows: u64) -> PathReport {
        let directions = Toward::BOTH.map(|toward| engine.totals(toward));
        let series = Toward::BOTH.map(|toward| engine.series(toward).clone());
        PathReport { round_trip, directions, series, flows }
    }

    /// The sum of the fixed delays of these hops, both ways.
    pub fn round_trip_of(hops: &[PathConfig]) -> Duration {
        hops.iter().map(PathConfig::round_trip).sum()
    }

    /// What was done in one direction.
    pub fn direction(&self, toward: Toward) -> &Totals {
        &self.directions[toward.index()]
    }
}

impl Report {
    /// The time of a processor per packet that was handed over; `None` if none was.
    pub fn processor_per_packet(&self) -> Option<Duration> {
        let directions = self.paths.iter().flat_map(|path| &path.directions);
        let packets: u64 = directions.map(|totals| totals.handed_over).sum();
        let nanos = u64::try_from(self.processor.as_nanos()).unwrap_or(u64::MAX);
        nanos.checked_div(packets).map(Duration::from_nanos)
    }

    /// What is wrong with it by these limits; nothing if it is valid.
    pub fn faults(&self, limits: &Limits) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (path, report) in self.paths.iter().enumerate() {
            let limit = limits.lateness_on(report.round_trip);
            for (toward, totals) in Toward::BOTH.into_iter().zip(&report.directions) {
                let late = totals.lateness.summary();
                if late.p99 > limit {
                    faults.push(Fault::Late { path, toward, p99: late.p99, limit });
                }
                if late.very_late.saturating_mul(1000) > late.count.saturating_mul(limits.very_late_per_mille) {
                    let (packets, of, per_mille) = (late.very_late, late.count, limits.very_late_per_mille);
                    faults.push(Fault::VeryLate { path, toward, packets, of, per_mille });
                }
                if totals.refused > 0 {
                    faults.push(Fault::NoRoom { path, toward, packets: totals.refused });
                }
            }
        }
        if self.wake_ups.p99 > limits.wake_up {
            faults.push(Fault::WokenLate { p99: self.wake_ups.p99, limit: limits.wake_up });
        }
        if self.device_dropped > 0 {
            faults.push(Fault::DeviceDropped { packets: self.device_dropped });
        }
        if !self.suspended.is_zero() {
            faults.push(Fault::Suspended { time: self.suspended });
        }
        faults
    }
}

/// Why an emulation is invalid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Too many packets were handed over late.
    Late {
        /// On the path of this number.
        path: usize,
        /// Of this direction.
        toward: Toward,
        /// The 99th percentile.
        p99: Duration,
        /// What it may be.
        limit: Duration,
    },
    /// Too many packets were very late.
    VeryLate {
        /// On the path of this number.
        path: usize,
        /// Of this direction.
        toward: Toward,
        /// So many.
        packets: u64,
        /// Of so many.
        of: u64,
        /// So many of a thousand would be accepted.
        per_mille: u64,
    },
    /// Packets found no room in the emulator.
    NoRoom {
        /// On the path of this number.
        path: usize,
        /// Of this direction.
        toward: Toward,
        /// So many.
        packets: u64,
    },
    /// Programs were woken late.
    WokenLate {
        /// The 99th percentile.
        p99: Duration,
        /// What it may be.
        limit: Duration,
    },
    /// The system dropped packets before they were read.
    DeviceDropped {
        /// So many.
        packets: u64,
    },
    /// The machine was suspended.
    Suspended {
        /// For so long.
        time: Duration,
    },
}

impl Fault {
    /// The number of the path that it is about; `None` if it is about the machine.
    pub fn path(&self) -> Option<usize> {
        match *self {
            Fault::Late { path, .. } | Fault::VeryLate { path, .. } | Fault::NoRoom { path, .. } => Some(path),
            Fault::WokenLate { .. } | Fault::DeviceDropped { .. } | Fault::Suspended { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Late { toward, p99, limit, .. } => {
                let (name, p99, limit) = (toward.name(), human_duration(p99), exact_duration(limit));
                write!(f, "{name}: 1 % of the packets were handed over {p99} late or more; at most {limit} is accepted")
            }
            Fault::VeryLate { toward, packets, of, per_mille, .. } => write!(
                f,
                "{}: {packets} of {of} packets were handed over more than {} late; at most {per_mille} in 1000 are \
                 accepted",
                toward.name(),
                exact_duration(VERY_LATE)
            ),
            Fault::NoRoom { toward, packets, .. } => write!(
                f,
                "{}: {packets} packets found no room in the emulator; give the path a queue with a limit, or send less",
                toward.name()
            ),
            Fault::WokenLate { p99, limit } => write!(
                f,
                "programs on this machine are woken late, 1 % of the time by {} or more; at most {} is accepted: end \
                 what else runs, or use --realtime",
                human_duration(p99),
                exact_duration(limit)
            ),
            Fault::DeviceDropped { packets } => {
                write!(f, "the system dropped {packets} packets before the emulator could read them")
            }
            Fault::Suspended { time } => write!(f, "the machine was suspended for {}", human_duration(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lateness;

    fn on(round_trip: Duration, up: Totals) -> Report {
        let path = PathReport { round_trip, directions: [up, Totals::default()], ..PathReport::default() };
        Report { paths: vec![path], ..Report::default() }
    }

    fn report(late: &[u64]) -> Report {
        let mut lateness = Lateness::default();
        late.iter().for_each(|micros| lateness.record(Duration::from_micros(*micros)));
        let totals = Totals { lateness, ..Totals::default() };
        on(Duration::from_millis(20), totals)
    }

    #[test]
    fn a_run_without_packets_is_valid() {
        assert_eq!(Report::default().faults(&Limits::default()), []);
    }

    #[test]
    fn one_per_cent_may_be_late_and_longer_paths_may_be_later() {
        let mut late = vec![100; 990];
        late.extend([600; 10]);
        assert_eq!(report(&late).faults(&Limits::default()), []);
        late.push(600);
        let (p99, limit) = (Duration::from_micros(600), Duration::from_micros(500));
        assert_eq!(
            report(&late).faults(&Limits::default()),
            [Fault::Late { path: 0, toward: Toward::Server, p99, limit }]
        );
        let longer = on(Duration::from_millis(60), report(&late).paths[0].directions[0].clone());
        assert_eq!(longer.faults(&Limits::default()), []);
        let strict = Limits { lateness: Some(Duration::from_micros(50)), ..Limits::default() };
        assert_eq!(longer.faults(&strict).len(), 1);
    }

    #[test]
    fn one_in_a_thousand_may_be_very_late() {
        let mut late = vec![10; 999];
        late.push(5_001);
        assert_eq!(report(&late).faults(&Limits::default()), []);
        late.push(5_001);
        let faults = report(&late).faults(&Limits::default());
        assert_eq!(faults, [Fault::VeryLate { path: 0, toward: Toward::Server, packets: 2, of: 1001, per_mille: 1 }]);
        assert!(faults[0].to_string().contains("2 of 1001 packets were handed over more than 5 ms late"));
    }

    #[test]
    fn everything_else_counts_too() {
        let wake_ups = LatenessSummary { p99: Duration::from_millis(2), ..LatenessSummary::default() };
        let (device_dropped, suspended) = (3, Duration::from_secs(7));
        let totals = Totals { refused: 4, ..Totals::default() };
        let second = PathReport { directions: [Totals::default(), totals], ..PathReport::default() };
        let paths = vec![PathReport::default(), second];
        let report = Report { wake_ups, device_dropped, suspended, paths, ..Report::default() };
        let faults = report.faults(&Limits::default());
        assert_eq!(faults.iter().map(Fault::path).collect::<Vec<_>>(), [Some(1), None, None, None]);
        assert_eq!(faults.len(), 4);
        for (fault, words) in faults.iter().zip(["4 packets found no room", "woken late", "dropped 3", "for 7 s"]) {
            assert!(fault.to_string().contains(words), "{fault}");
        }
    }
}
