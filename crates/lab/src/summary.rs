//! The summary of runs: each metric at each point, verdicts of expectations, and differences of points on the same
//! seeds.

mod difference;
mod run;
mod runs;
mod sample;
mod settle;
mod verdict;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::metric::{METRICS, Metric, Scope, Unit};
use crate::scenario::Scenario;
use crate::stats::{Estimate, Interval, Missing, Statistic};

pub(crate) use difference::on_same_seeds;
pub use difference::{Difference, compare, differences, pairs};
pub use run::Run;
pub use runs::{Place, Runs};
pub use sample::{Sample, resolution};
pub use verdict::{Outcome, Tally, Verdict, ends, many_intervals, speaks_of, verdicts, with_interval};

/// The names of what a scope has at a point: its flows, its links, or the run itself.
pub fn subjects(scenario: &Scenario, point: usize, scope: Scope) -> Vec<String> {
    let Some(point) = scenario.points.get(point) else { return Vec::new() };
    match scope {
        Scope::Run => vec![String::new()],
        Scope::Flow => point.world.flows.iter().map(|flow| flow.name.clone()).collect(),
        Scope::Link => point
            .world
            .paths
            .iter()
            .flat_map(|path| [format!("{}.up", path.name), format!("{}.down", path.name)])
            .collect(),
    }
}

/// Whether a run, or a flow of it, did not come to its end.
fn is_unfinished(record: &Run, subject: &str) -> bool {
    record.failed().is_some() || record.get(Scope::Flow, subject, "completed").first() == Some(&0.0)
}

/// The values of a metric at a point, seed by seed. What a failed run should have had is as bad as can be.
pub fn values(runs: &Runs, point: usize, subject: &str, metric: &Metric) -> Vec<(u64, Vec<f64>)> {
    let at_point = || runs.of_point(point);
    // Looked up once, not in every run.
    let number = run::number(metric.name);
    let is_here =
        |run: &Run| run.is_never(subject, metric.name) || !run.of_number(metric.scope, subject, number).is_empty();
    let others_have_it = core::cell::LazyCell::new(|| at_point().any(|(_, other)| is_here(other)));
    at_point()
        .map(|(seed, record)| {
            let mut values = record.of_number(metric.scope, subject, number).to_vec();
            let endless = usize::try_from(record.never(subject, metric.name)).unwrap_or(usize::MAX);
            values.extend(core::iter::repeat_n(f64::INFINITY, endless));
            if values.is_empty() && is_unfinished(record, subject) {
                let due = match metric.scope {
                    Scope::Flow
                        if record.has_flow(subject) && record.get(Scope::Flow, subject, "completed") != [0.0] =>
                    {
                        false
                    }
                    Scope::Flow if metric.is_due => !record.is_endless(subject),
                    // What else it should have had the other runs tell.
                    Scope::Flow => *others_have_it,
                    Scope::Link | Scope::Run => record.has_no_flows() && *others_have_it,
                };
                values.extend(metric.worst().filter(|_| due));
            }
            (seed, values)
        })
        .collect()
}

/// A quantile beside a median.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// What it comes to.
    pub estimate: f64,
    /// Where the true value is with 95 % confidence.
    pub interval: Option<Interval>,
}

/// A number with what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The metric.
    pub metric: &'static str,
    /// Median of the seeds, the mean of shares, or the rate if it is yes or no. Of metrics with many values per run the
    /// median over runs of the median within each.
    pub estimate: f64,
    /// Where the true value is with 95 % confidence.
    pub interval: Option<Interval>,
    /// Why there is no interval, if so.
    pub missing: Option<Missing>,
    /// The 95th percentile over seeds; of metrics with many values per run the median over runs of that within each.
    /// None of what is yes or no.
    pub p95: Option<Tail>,
    /// The 99th percentile, likewise.
    pub p99: Option<Tail>,
    /// The smallest of all values.
    pub min: f64,
    /// The largest of all values.
    pub max: f64,
    /// How many values there are.
    pub count: usize,
    /// How many runs have a value.
    pub runs: usize,
    /// How many different results these runs gave.
    pub distinct: usize,
}

/// All metrics of one flow, link or run at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Number of the point.
    pub point: usize,
    /// The flow or link; empty for the run.
    pub subject: String,
    /// What it comes to, in the order of [`METRICS`]; metrics without values are left out.
    pub cells: Vec<Cell>,
    /// What should be known about it, from the first run that says.
    pub notes: BTreeMap<String, String>,
}

/// How each flow was set up at each point, in order, what is the same everywhere once: the stack, then its own words.
pub fn settings(scenario: &Scenario, runs: &Runs) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for (_, subject, notes) in places(scenario, runs, Scope::Flow) {
        let note = |name: &str| notes.get(name).cloned();
        let Some(text) = note("settings") else { continue };
        let stack = note("stack").unwrap_or(subject);
        if !settings.iter().any(|known| known.0 == stack && known.1 == text) {
            settings.push((stack, text));
        }
    }
    settings
}

/// "not in this program: quinn; …", if there are rivals that this program does not have.
pub fn absent(scenario: &Scenario) -> Option<String> {
    let absent = scenario.absent.join(", ");
    (!absent.is_empty()).then(|| format!("not in this program: {absent}; `thalweg-peers lab run` has them"))
}

/// What can be run but hardly is what was meant: the first few [`warnings`](crate::scenario::Remarks::warnings), and
/// how many more there are.
pub fn warnings(scenario: &Scenario) -> Vec<String> {
    const MOST: usize = 3;
    let more = scenario.remarks.warnings.len().saturating_sub(MOST);
    let first = scenario.remarks.warnings.iter().take(MOST).map(|warning| format!("warning: {warning}"));
    first.chain((more > 0).then(|| format!("… and {more} more warnings of this kind"))).collect()
}

/// What every metric comes to at every point.
pub fn rows(scenario: &Scenario, runs: &Runs, scope: Scope) -> Vec<Row> {
    rows_of(scenario, runs, scope, places(scenario, runs, scope))
}

/// What every metric comes to at some of the [`places`] of a scope.
pub(crate) fn rows_of(scenario: &Scenario, runs: &Runs, scope: Scope, places: Vec<NotedPlace>) -> Vec<Row> {
    places
        .into_par_iter()
        .map(|(point, subject, notes)| {
            let cells: Vec<Cell> = METRICS
                .iter()
                .filter(|metric| metric.scope == scope)
                .filter_map(|metric| cell(scenario, runs, point, &subject, metric))
                .collect();
            Row { point, subject, cells, notes }
        })
        .filter(|row| !row.cells.is_empty())
        .collect()
}

/// A point, the name of what there is, and what should be known about it.
pub type NotedPlace = (usize, String, BTreeMap<String, String>);

/// What of a scope there is at every point. Links that no flow takes are left out.
pub fn places(scenario: &Scenario, runs: &Runs, scope: Scope) -> Vec<NotedPlace> {
    let mut places = Vec::new();
    for point in 0..scenario.points.len() {
        for subject in subjects(scenario, point, scope) {
            if scope == Scope::Link && !is_taken(scenario, point, &subject) {
                continue;
            }
            let notes = runs.notes(point, scope, &subject).cloned().unwrap_or_default();
            places.push((point, subject, notes));
        }
    }
    places
}

/// Whether a flow takes a link.
pub(crate) fn is_taken(scenario: &Scenario, point: usize, link: &str) -> bool {
    let path = link.rsplit_once('.').map_or(link, |(path, _)| path);
    scenario.points.get(point).is_some_and(|point| point.world.takes(path))
}

fn cell(scenario: &Scenario, runs: &Runs, point: usize, subject: &str, metric: &'static Metric) -> Option<Cell> {
    let sample = Sample::new(scenario, runs, point, subject, metric);
    let flat = sample.all();
    if flat.is_empty() {
        return None;
    }
    let main = sample.estimate(statistic(metric));
    let tail = |share| {
        let Estimate { value, interval, .. } = sample.estimate(Statistic::Quantile(share));
        Some(Tail { estimate: value, interval }).filter(|_| !metric.is_yes_or_no())
    };
    Some(Cell {
        metric: metric.name,
        estimate: main.value,
        interval: main.interval,
        missing: main.missing,
        p95: tail(0.95),
        p99: tail(0.99),
        min: Statistic::Min.of(&flat),
        max: Statistic::Max.of(&flat),
        count: flat.len(),
        runs: main.runs,
        distinct: main.distinct,
    })
}

/// What tables show of a metric: the mean of shares, the median of everything else.
pub fn statistic(metric: &Metric) -> Statistic {
    if metric.unit == Unit::Share { Statistic::Mean } else { Statistic::MEDIAN }
}

#[cfg(test)]
mod tests;
