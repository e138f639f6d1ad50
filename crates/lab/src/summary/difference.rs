//! Differences of points, and of whole sets of results, on the same seeds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sample::Comparison;
use super::{Place, Runs, is_unfinished, subjects, values};
use crate::choices::Grid;
use crate::metric::{self, Metric};
use crate::scenario::Scenario;
use crate::stats::{self, Paired, Statistic};

/// The statistic of each run of two places, on the seeds that both have. Where a run has no value, it is not a number;
/// if that is because the run failed, it is as bad as can be.
pub fn pairs(first: Place<'_>, second: Place<'_>, metric: &Metric, statistic: Statistic) -> Vec<(f64, f64)> {
    pairs_by_seed(first, second, metric, statistic).into_iter().map(|(_, pair)| pair).collect()
}

/// The pairs with their seeds, in the order of these.
pub(super) fn pairs_by_seed(
    first: Place<'_>,
    second: Place<'_>,
    metric: &Metric,
    statistic: Statistic,
) -> Vec<(u64, (f64, f64))> {
    let of = |(runs, point, subject): Place<'_>| -> BTreeMap<u64, f64> {
        let sum_up = |(seed, values): (u64, Vec<f64>)| {
            let failed = || runs.get(&(point, seed)).is_some_and(|record| is_unfinished(record, subject));
            let value = match values.is_empty() {
                true => metric.worst().filter(|_| failed()).unwrap_or(f64::NAN),
                false => statistic.of(&values),
            };
            (seed, value)
        };
        values(runs, point, subject, metric).into_iter().map(sum_up).collect()
    };
    let seconds = of(second);
    of(first).into_iter().filter_map(|(seed, first)| Some((seed, (first, *seconds.get(&seed)?)))).collect()
}

/// Whether there is something to report: not if both sides have nothing but zeros.
fn tells(pairs: &[(f64, f64)]) -> bool {
    pairs.iter().any(|(first, second)| *first != 0.0 || *second != 0.0)
}

/// Medians of runs compared seed by seed; none if there is nothing to report.
fn paired(first: (&Scenario, Place<'_>), second: (&Scenario, Place<'_>), metric: &Metric) -> Option<Paired> {
    let (pairs, tolerance, _) = on_same_seeds(first, second, metric, Statistic::MEDIAN);
    stats::paired(&pairs, tolerance).filter(|_| tells(&pairs))
}

/// The statistic of each run of two places, how close two values of one place are one result, and the statistic over
/// runs.
pub(crate) fn on_same_seeds(
    first: (&Scenario, Place<'_>),
    second: (&Scenario, Place<'_>),
    metric: &Metric,
    statistic: Statistic,
) -> (Vec<(f64, f64)>, f64, Statistic) {
    let Comparison { ways: (within, over), tolerance, .. } = Comparison::new(first, second, metric, statistic);
    (pairs(first.1, second.1, metric, within), tolerance, over)
}

/// How a point, or another set of results, differs from a base in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The base in words.
    pub base: String,
    /// What differs from it, in words.
    pub other: String,
    /// The flow, link, or empty.
    pub subject: String,
    /// The metric.
    pub metric: &'static str,
    /// How, seed by seed.
    pub paired: Paired,
}

/// Every choice against the reference in the same place, on the same seeds.
pub fn differences(scenario: &Scenario, runs: &Runs) -> Vec<Difference> {
    let grid = Grid::of(scenario);
    let mut differences = Vec::new();
    for metric in metric::in_order(|rank| rank.differences) {
        for (point, (place, choice)) in grid.of.iter().enumerate().filter(|(_, (_, choice))| *choice > 0) {
            let Some(base) = grid.point(*place, 0) else { continue };
            for subject in subjects(scenario, point, metric.scope) {
                let sides = ((scenario, (runs, base, &*subject)), (scenario, (runs, point, &*subject)));
                let Some(paired) = paired(sides.0, sides.1, metric) else { continue };
                differences.push(Difference {
                    base: grid.choices[0].name.clone(),
                    other: [&grid.choices[*choice].name, &grid.places[*place].name]
                        .into_iter()
                        .filter(|part| !part.is_empty())
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(", "),
                    subject,
                    metric: metric.name,
                    paired,
                });
            }
        }
    }
    differences
}

/// Two sets of results, A and B, point by point and flow by flow where names agree, on the seeds that both have.
pub fn compare(a: (&Scenario, &Runs), b: (&Scenario, &Runs)) -> Vec<Difference> {
    let mut differences = Vec::new();
    for metric in metric::in_order(|rank| rank.differences) {
        for (at, point) in a.0.points.iter().enumerate() {
            let name = point.name(&a.0.axes);
            let Some(bt) = b.0.points.iter().position(|other| other.name(&b.0.axes) == name) else { continue };
            let others = subjects(b.0, bt, metric.scope);
            for subject in subjects(a.0, at, metric.scope).into_iter().filter(|subject| others.contains(subject)) {
                let sides = ((a.0, (a.1, at, &*subject)), (b.0, (b.1, bt, &*subject)));
                let Some(paired) = paired(sides.0, sides.1, metric) else { continue };
                let other = if name.is_empty() { "B".to_owned() } else { format!("B: {name}") };
                differences.push(Difference { base: "A".to_owned(), other, subject, metric: metric.name, paired });
            }
        }
    }
    differences
}
