//! The values of a metric at a place, and the one way in which they are summed up.

use std::collections::BTreeSet;

use thalweg_units::Rate;

use super::{Runs, values};
use crate::metric::{Metric, Scope, ShareOf, Unit};
use crate::scenario::Scenario;
use crate::scenario::world::World;
use crate::stats::{self, Estimate, Interval, Statistic};

/// The values of a metric of one flow, link or run at one point.
///
/// Bounds, ratios and differences all take the same way: the statistic within each run, then over runs. Where no run
/// has more than one value, that value is the run's and the statistic is that over runs. Where runs have many values,
/// the statistic is taken within each run and the median over runs is what it comes to; of the smallest and the largest
/// it is the smallest and the largest.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    metric: &'a Metric,
    runs: Vec<Vec<f64>>,
    is_repeated: bool,
    tolerance: f64,
    /// How many of the runs with a value have event logs of their own; a run without one counts as different.
    event_logs: usize,
}

impl<'a> Sample<'a> {
    /// The values at a point, and what the scenario states about them.
    pub fn new(scenario: &Scenario, runs: &Runs, point: usize, subject: &str, metric: &'a Metric) -> Sample<'a> {
        let by_seed = values(runs, point, subject, metric);
        let logs = by_seed
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(seed, _)| runs.get(&(point, *seed)).map_or("", |record| record.wire_hash()));
        let (unknown, known): (Vec<&str>, Vec<&str>) = logs.partition(|hash| hash.is_empty());
        let event_logs = unknown.len() + known.into_iter().collect::<BTreeSet<&str>>().len();
        let values: Vec<Vec<f64>> = by_seed.into_iter().map(|(_, values)| values).collect();
        let is_repeated = runs.is_repeated(subject, metric) || values.iter().any(|run| run.len() > 1);
        let tolerance = tolerance(scenario, runs, (point, subject), metric, values.iter().flatten());
        Sample { metric, runs: values, is_repeated, tolerance, event_logs }
    }

    /// All values of all runs.
    pub fn all(&self) -> Vec<f64> {
        self.runs.concat()
    }

    /// Whether runs have many values.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The statistic and its 95 % interval: Wilson's for shares of runs.
    pub fn estimate(&self, statistic: Statistic) -> Estimate {
        let filled = || self.runs.iter().filter(|run| !run.is_empty());
        if self.metric.is_yes_or_no() && !self.is_repeated && statistic == Statistic::Mean {
            let successes = filled().filter(|run| run[0] == 1.0).count() as u64;
            return Estimate::of_share(successes, filled().count() as u64, self.event_logs);
        }
        let (within, over) = ways(statistic, self.is_repeated);
        let of_runs: Vec<f64> = filled().map(|run| within.of(run)).collect();
        let mut estimate = Estimate::of(&of_runs, over, self.tolerance);
        if over == Statistic::Mean && of_runs.iter().all(|value| *value >= 0.0) {
            // Symmetry about a mean knows nothing of what a metric can be.
            let most = if self.metric.unit == Unit::Share { 1.0 } else { f64::INFINITY };
            estimate.interval =
                estimate.interval.map(|Interval { low, high }| Interval { low: low.max(0.0), high: high.min(most) });
        }
        estimate
    }
}

/// The statistic within each run, and then over runs.
pub(super) fn ways(statistic: Statistic, is_repeated: bool) -> (Statistic, Statistic) {
    match (is_repeated, statistic) {
        // Of one value whatever quantile is that value.
        (false, _) => (Statistic::MEDIAN, statistic),
        (true, Statistic::Min | Statistic::Max) => (statistic, statistic),
        (true, _) => (statistic, Statistic::MEDIAN),
    }
}

/// How close, in seconds, two times of different seeds are one observation: two packet times of the slowest link that a
/// flow takes, at most a millisecond; where runs differ by a microsecond, that.
///
/// So much chance in a host adds to a packet at most, and so coarsely a packet fills a link, whether or not
/// `host_delay` is off.
pub fn resolution(world: &World) -> f64 {
    const PACKET: f64 = 1500.0 * 8.0;
    const MOST: f64 = 1e-3;
    if world.perturb.is_single() {
        return 1e-6;
    }
    let taken: BTreeSet<usize> =
        world.flows.iter().flat_map(|flow| flow.paths()).filter_map(|path| world.route(path)).flatten().collect();
    let paths = || taken.iter().filter_map(|path| world.paths.get(*path));
    let directions = || paths().flat_map(|path| [&path.up, &path.down]);
    if directions().any(|direction| direction.trace.is_some()) {
        return MOST;
    }
    let rates = directions().flat_map(|direction| direction.rate.values()).map(Rate::bps);
    rates
        .filter(|rate| (1..u64::MAX).contains(rate))
        .min()
        .map_or(0.0, |slowest| (2.0 * PACKET / slowest as f64).min(MOST))
}

/// How close two values of a metric are one result: times as close as [`resolution`] says; ratios and rates of such
/// times, and shares made of them, in proportion to how long the flow or the run took. Counts, bytes and other shares
/// are one only if they are equal.
pub(super) fn tolerance<'v>(
    scenario: &Scenario,
    runs: &Runs,
    (point, subject): (usize, &str),
    metric: &Metric,
    values: impl Iterator<Item = &'v f64>,
) -> f64 {
    let Some(at) = scenario.points.get(point) else { return 0.0 };
    let resolution = resolution(&at.world);
    match metric.unit {
        Unit::Seconds => resolution,
        Unit::Share if metric.share_of.is_none() => 0.0,
        Unit::Ratio | Unit::BitsPerSecond | Unit::Share => {
            let records = || runs.of_point(point).map(|(_, record)| record);
            let longest = |scope: Scope, subject: &str, name: &str| {
                records().flat_map(|record| record.get(scope, subject, name)).copied().fold(0.0, f64::max)
            };
            let took = match longest(metric.scope, subject, "completion") {
                0.0 => longest(Scope::Run, "", "virtual_time"),
                took => took,
            };
            let least = match metric.share_of {
                Some(ShareOf::Time) => 1.0,
                _ => values.copied().fold(f64::INFINITY, f64::min),
            };
            if took > 0.0 && least.is_finite() { least.abs() * resolution / took } else { 0.0 }
        }
        Unit::Count | Unit::Bytes => 0.0,
    }
}

/// What two places come to seed by seed: how to sum up and from where on results differ.
pub(super) struct Comparison {
    /// The statistic within each run, and then over seeds.
    pub(super) ways: (Statistic, Statistic),
    /// How close two values are one result.
    pub(super) tolerance: f64,
    /// Whether runs have many values.
    pub(super) is_repeated: bool,
}

impl Comparison {
    /// Of a flow or link at two points of some runs.
    pub(super) fn new(
        first: (&Scenario, super::Place<'_>),
        second: (&Scenario, super::Place<'_>),
        metric: &Metric,
        statistic: Statistic,
    ) -> Comparison {
        let sides = [first, second].map(|(scenario, (runs, point, subject))| {
            let values = values(runs, point, subject, metric);
            let flat = values.iter().flat_map(|(_, values)| values);
            let many = runs.is_repeated(subject, metric) || values.iter().any(|(_, values)| values.len() > 1);
            (many, tolerance(scenario, runs, (point, subject), metric, flat))
        });
        let is_repeated = sides[0].0 || sides[1].0;
        Comparison { ways: ways(statistic, is_repeated), tolerance: sides[0].1.max(sides[1].1), is_repeated }
    }
}

/// The statistic of the ratio or difference of one value per seed. Seeds of which `compare` cannot tell are left out.
pub(super) fn compared(
    pairs: &[(f64, f64)],
    over: Statistic,
    tolerance: f64,
    compare: impl Fn(f64, f64) -> f64,
) -> Estimate {
    let compare = |pair: &(f64, f64)| (*pair, compare(pair.0, pair.1));
    let (pairs, values): (Vec<(f64, f64)>, Vec<f64>) =
        pairs.iter().filter(|pair| stats::can_compare(pair)).map(compare).filter(|(_, value)| !value.is_nan()).unzip();
    stats::over_pairs(&pairs, &values, over, tolerance)
}
