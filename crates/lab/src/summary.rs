//! From runs to answers: what each metric comes to at each point, whether expectations hold, and how points differ on the
//! same seeds.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::metric::{self, METRICS, Metric, Scope, Unit};
use crate::record::RunRecord;
use crate::scenario::{Expectation, STACK, Scenario};
use crate::stats::{self, Interval, Paired, Statistic};
use crate::store::{Manifest, Store};

/// Runs by number of the point and seed.
pub type Runs = BTreeMap<(usize, u64), RunRecord>;

/// The runs that a manifest lists, by the points of `scenario`, which has fewer than the manifest if this program has fewer
/// stacks. A failed run of which nothing else is known stands as its failure.
pub fn load(store: &Store, manifest: &Manifest, scenario: &Scenario) -> Runs {
    manifest
        .runs
        .iter()
        .filter_map(|run| {
            let point = manifest.points.get(run.point)?;
            let place = manifest.place(scenario, run.point)?;
            let record = store.run(&point.key, run.seed).or_else(|| run.failed.clone().map(RunRecord::failure))?;
            Some(((place, run.seed), record))
        })
        .collect()
}

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

/// Metrics that every flow with an end has if it completes, and that are as bad as can be if it does not: leaving these runs
/// out would make a transport look better the more often it fails. What else a flow should have had, its record says.
const DUE: [&str; 3] = ["completion", "completion_less_interruptions", "goodput"];

/// Whether a run, or a flow of it, did not come to its end.
fn is_unfinished(record: &RunRecord, subject: &str) -> bool {
    record.failed.is_some() || record.get(Scope::Flow, subject, "completed").first() == Some(&0.0)
}

/// The values of a metric at a point, seed by seed. What a failed run should have had is as bad as can be.
pub fn values(runs: &Runs, point: usize, subject: &str, metric: &Metric) -> Vec<(u64, Vec<f64>)> {
    let at_point = || runs.range((point, 0)..=(point, u64::MAX));
    let is_here = |record: &RunRecord| {
        record.is_never(subject, metric.name) || !record.get(metric.scope, subject, metric.name).is_empty()
    };
    let others_have_it = core::cell::LazyCell::new(|| at_point().any(|(_, other)| is_here(other)));
    at_point()
        .map(|((_, seed), record)| {
            let mut values = record.get(metric.scope, subject, metric.name).to_vec();
            let endless = usize::try_from(record.never(subject, metric.name)).unwrap_or(usize::MAX);
            values.extend(core::iter::repeat_n(f64::INFINITY, endless));
            if values.is_empty() && is_unfinished(record, subject) {
                let part = record.flows.iter().find(|part| part.name == subject);
                let due = match (metric.scope, part) {
                    (Scope::Flow, Some(part)) if part.values.get("completed").is_none_or(|done| done[..] != [0.0]) => {
                        false
                    }
                    (Scope::Flow, part) if DUE.contains(&metric.name) => part.is_none_or(|part| !part.endless),
                    // What else it should have had the other runs tell.
                    (Scope::Flow, _) => *others_have_it,
                    (Scope::Link | Scope::Run, _) => record.flows.is_empty() && *others_have_it,
                };
                values.extend(metric.worst().filter(|_| due));
            }
            (*seed, values)
        })
        .collect()
}

/// The statistic of a metric and its 95 % interval: Wilson's for shares of runs, otherwise the bootstrap's.
pub fn sum_up(groups: &[&[f64]], metric: &Metric, statistic: Statistic) -> (f64, Option<Interval>) {
    let single = groups.iter().all(|group| group.len() <= 1);
    let yes_or_no = matches!(metric.name, "success" | "completed");
    if yes_or_no && single && statistic == Statistic::Mean {
        let trials = groups.iter().filter(|group| !group.is_empty()).count() as u64;
        let successes = groups.iter().filter(|group| group.first() == Some(&1.0)).count() as u64;
        return match stats::wilson(successes, trials) {
            Some((share, interval)) => (share, Some(interval)),
            None => (f64::NAN, None),
        };
    }
    (stats::estimate(groups, statistic), stats::bootstrap(groups, statistic))
}

/// A number with what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The metric.
    pub metric: &'static str,
    /// Median of the seeds, or the rate if it is yes or no.
    pub estimate: f64,
    /// Where the true value is with 95 % confidence.
    pub interval: Option<Interval>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many values there are.
    pub count: usize,
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

/// What every metric comes to at every point.
pub fn rows(scenario: &Scenario, runs: &Runs, scope: Scope) -> Vec<Row> {
    // Bootstrapping is most of the work of a report.
    places(scenario, runs, scope)
        .into_par_iter()
        .map(|(point, subject, notes)| {
            let cells: Vec<Cell> = METRICS
                .iter()
                .filter(|metric| metric.scope == scope)
                .filter_map(|metric| cell(runs, point, &subject, metric))
                .collect();
            Row { point, subject, cells, notes }
        })
        .filter(|row| !row.cells.is_empty())
        .collect()
}

/// What of a scope there is at every point: point, name, and what should be known about it. Links that no flow takes are left out.
pub fn places(scenario: &Scenario, runs: &Runs, scope: Scope) -> Vec<(usize, String, BTreeMap<String, String>)> {
    let mut places = Vec::new();
    for point in 0..scenario.points.len() {
        for subject in subjects(scenario, point, scope) {
            if scope == Scope::Link && !is_taken(scenario, point, &subject) {
                continue;
            }
            let notes = runs
                .range((point, 0)..=(point, u64::MAX))
                .find_map(|(_, record)| {
                    let parts = if scope == Scope::Link { &record.links } else { &record.flows };
                    parts.iter().find(|part| part.name == subject).map(|part| part.notes.clone())
                })
                .unwrap_or_default();
            places.push((point, subject, notes));
        }
    }
    places
}

fn is_taken(scenario: &Scenario, point: usize, link: &str) -> bool {
    let path = link.rsplit_once('.').map_or(link, |(path, _)| path);
    scenario.points.get(point).is_some_and(|point| point.world.flows.iter().any(|flow| flow.path == path))
}

fn cell(runs: &Runs, point: usize, subject: &str, metric: &'static Metric) -> Option<Cell> {
    let values = values(runs, point, subject, metric);
    let groups: Vec<&[f64]> = values.iter().map(|(_, values)| values.as_slice()).collect();
    let flat = groups.concat();
    if flat.is_empty() {
        return None;
    }
    let statistic = if metric.unit == Unit::Share { Statistic::Mean } else { Statistic::MEDIAN };
    let (estimate, interval) = sum_up(&groups, metric, statistic);
    Some(Cell {
        metric: metric.name,
        estimate,
        interval,
        min: Statistic::Min.of(&flat),
        max: Statistic::Max.of(&flat),
        count: flat.len(),
    })
}

/// What became of an expectation.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds, and so does every value in the interval.
    Holds,
    /// It holds, but the interval reaches beyond the bound: more seeds may change that.
    HoldsBarely,
    /// It does not hold, though the interval reaches the bound.
    FailsBarely,
    /// It does not hold, nor does any value in the interval.
    Fails,
    /// There is nothing to judge: the runs have not been made, or have nothing to be compared with.
    Unknown,
}

impl Outcome {
    /// Whether this is no reason to fail a build.
    pub fn is_good(self) -> bool {
        matches!(self, Outcome::Holds | Outcome::HoldsBarely)
    }

    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::HoldsBarely => "holds, barely",
            Outcome::FailsBarely => "fails, barely",
            Outcome::Fails => "fails",
            Outcome::Unknown => "unknown",
        }
    }
}

/// An expectation at one point, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The line of the scenario that expects it.
    pub line: usize,
    /// Number of the point.
    pub point: usize,
    /// The point in words.
    pub point_name: String,
    /// The flow or link; empty for the run.
    pub subject: String,
    /// What is measured, as written: "completion.p50".
    pub measured: String,
    /// What is expected, in words.
    pub expected: String,
    /// What was found; none if nothing was.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// What was found, in words.
    pub found: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Where the numbers come from.
    pub because: Option<String>,
}

/// Judges every expectation at every point it speaks of, but none against itself.
pub fn verdicts(scenario: &Scenario, runs: &Runs) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    // What is said in relation to a rival that is not there cannot be judged.
    let judged = |expectation: &&Expectation| {
        let mut base = expectation.base().into_iter().flatten();
        base.all(|(axis, value)| axis != STACK || !scenario.absent.contains(value))
    };
    for expectation in scenario.expectations.iter().filter(judged) {
        for (point, _) in scenario.points.iter().enumerate() {
            let base = expectation.base().map(|base| sibling(scenario, point, base));
            if !speaks_of(scenario, expectation, point) || base == Some(Some(point)) {
                continue;
            }
            for subject in subjects(scenario, point, expectation.metric.scope) {
                let chosen = match expectation.metric.scope {
                    Scope::Flow => &expectation.flow,
                    Scope::Link => &expectation.link,
                    Scope::Run => &None,
                };
                if chosen.as_ref().is_none_or(|chosen| *chosen == subject) {
                    verdicts.push(judge(scenario, runs, expectation, (point, base), subject));
                }
            }
        }
    }
    verdicts
}

/// Whether an expectation is about a point.
pub fn speaks_of(scenario: &Scenario, expectation: &Expectation, point: usize) -> bool {
    matches_point(scenario, point, &expectation.points)
}

/// The runs that failed, ours and then those of rivals, without those that an expectation of success or completion speaks
/// of: whoever says how many may fail has them judged by that.
pub fn unexpected_failures(scenario: &Scenario, runs: &Runs) -> (usize, usize) {
    let is_judged = |point: usize| {
        let said = |metric: &str, flow: Option<&str>| {
            scenario.expectations.iter().any(|expectation| {
                expectation.metric.name == metric
                    && expectation.base().is_none()
                    && expectation.flow.as_deref().is_none_or(|name| Some(name) == flow)
                    && speaks_of(scenario, expectation, point)
            })
        };
        let flows = subjects(scenario, point, Scope::Flow);
        said("success", None) || flows.iter().all(|flow| said("completed", Some(flow)))
    };
    let judged: Vec<bool> = (0..scenario.points.len()).map(is_judged).collect();
    let (mut ours, mut rivals) = (0, 0);
    for ((point, _), record) in runs {
        let Some(at) = scenario.points.get(*point).filter(|_| record.failed.is_some() && !judged[*point]) else {
            continue;
        };
        *(if at.rival.is_some() { &mut rivals } else { &mut ours }) += 1;
    }
    (ours, rivals)
}

/// Rivals are meant only by name.
fn matches_point(scenario: &Scenario, point: usize, wanted: &[(String, String)]) -> bool {
    let Some(point) = scenario.points.get(point) else { return false };
    let named = || wanted.iter().any(|(axis, _)| axis == STACK);
    (point.rival.is_none() || named())
        && wanted.iter().all(|(axis, value)| {
            scenario.axes.iter().position(|known| known.label == *axis).is_some_and(|at| point.labels[at] == *value)
        })
}

/// The point that differs from `point` only in what `wanted` says. What does not concern a rival need not agree.
fn sibling(scenario: &Scenario, point: usize, wanted: &[(String, String)]) -> Option<usize> {
    let mut labels = scenario.points[point].labels.clone();
    for (axis, value) in wanted {
        let at = scenario.axes.iter().position(|known| known.label == *axis)?;
        labels[at].clone_from(value);
    }
    let agree = |other: &[String]| {
        other.iter().zip(&labels).all(|(one, other)| one == other || one.is_empty() || other.is_empty())
    };
    scenario.points.iter().position(|other| agree(&other.labels))
}

/// What an expectation is held against.
struct Measured {
    value: f64,
    interval: Option<Interval>,
    /// What it rests on, in words.
    on: String,
    /// Why nothing can be said, if so.
    doubt: Option<String>,
}

/// Fewer pairs say nothing about a difference.
const FEWEST_PAIRS: usize = 3;

/// What the expectation is about, at a point and, if it compares, at another.
fn measure(
    runs: &Runs,
    expectation: &Expectation,
    (point, base): (usize, Option<Option<usize>>),
    subject: &str,
) -> Measured {
    let (metric, statistic) = (expectation.metric, expectation.statistic);
    let Some(base) = base else {
        let values = values(runs, point, subject, metric);
        let groups: Vec<&[f64]> = values.iter().map(|(_, values)| values.as_slice()).collect();
        let (value, interval) = sum_up(&groups, metric, statistic);
        let filled = groups.iter().filter(|group| !group.is_empty()).count();
        return Measured { value, interval, on: format!("n = {filled}"), doubt: None };
    };
    let Some(base) = base else {
        let doubt = Some("there is no point to compare with".to_owned());
        return Measured { value: f64::NAN, interval: None, on: "no pairs".to_owned(), doubt };
    };
    let (first, second) = ((runs, base, subject), (runs, point, subject));
    let single = [first, second]
        .iter()
        .all(|place| values(place.0, place.1, place.2, metric).iter().all(|(_, values)| values.len() <= 1));
    // Ratios are of the statistic within each run, where a run has many values: then it is summed up already.
    let (within, over) = match (&expectation.relative_to, single) {
        (Some(_), false) => (statistic, Statistic::MEDIAN),
        _ => (Statistic::MEDIAN, statistic),
    };
    let pairs = pairs(first, second, metric, within);
    let compared: Vec<f64> = pairs
        .iter()
        .filter(|(first, second)| first.is_finite() && !second.is_nan())
        .map(|(first, second)| match expectation.relative_to {
            Some(_) => stats::ratio(*first, *second),
            None => second - first,
        })
        .collect();
    let never = pairs.iter().filter(|(first, _)| first.is_infinite()).count();
    let groups: Vec<&[f64]> = compared.chunks(1).collect();
    let on = match compared.len() == pairs.len() {
        true => format!("n = {} pairs", pairs.len()),
        false => format!("n = {} of {} pairs", compared.len(), pairs.len()),
    };
    let doubt = match compared.len() {
        _ if never > 0 => Some(format!("what it is compared with never came to it on {never} seeds")),
        n if n < pairs.len() => Some(format!("{} runs have no value", pairs.len() - n)),
        n if n < FEWEST_PAIRS => Some(format!("{FEWEST_PAIRS} pairs are the fewest that say anything")),
        _ => None,
    };
    let (value, interval) = (stats::estimate(&groups, over), stats::bootstrap(&groups, over));
    Measured { value, interval, on, doubt }
}

fn judge(
    scenario: &Scenario,
    runs: &Runs,
    expectation: &Expectation,
    (point, base): (usize, Option<Option<usize>>),
    subject: String,
) -> Verdict {
    let metric = expectation.metric;
    let Measured { value, interval, on, doubt } = measure(runs, expectation, (point, base), &subject);
    let unit = expectation.unit();
    // Of yes and no, what was seen is what counts: "always" has been seen or not.
    let counted = matches!(metric.name, "success" | "completed");
    let interval_matters = interval.filter(|_| !counted);
    let all =
        interval_matters.is_none_or(|interval| expectation.holds(interval.low) && expectation.holds(interval.high));
    let overlaps = interval_matters.is_some_and(|interval| {
        expectation.at_least.is_none_or(|least| interval.high >= least)
            && expectation.at_most.is_none_or(|most| interval.low <= most)
    });
    let outcome = match (value.is_nan() || doubt.is_some(), expectation.holds(value)) {
        (true, _) => Outcome::Unknown,
        (false, true) if all => Outcome::Holds,
        (false, true) => Outcome::HoldsBarely,
        (false, false) if overlaps => Outcome::FailsBarely,
        (false, false) => Outcome::Fails,
    };
    let words = |base: &[(String, String)]| {
        base.iter().map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ")
    };
    let relative = match (&expectation.relative_to, &expectation.versus) {
        (Some(base), _) => format!(" over that of {}", words(base)),
        (None, Some(base)) => format!(" less that of {}", words(base)),
        (None, None) => String::new(),
    };
    Verdict {
        line: expectation.line,
        point,
        point_name: scenario.points[point].name(&scenario.axes),
        subject,
        measured: format!("{}.{}{relative}", metric.name, expectation.statistic),
        expected: expectation.bounds(),
        value: (!value.is_nan()).then_some(value),
        interval,
        found: match doubt {
            Some(doubt) => format!("{}, {on}: {doubt}", with_interval(value, interval, unit)),
            None => format!("{}, {on}", with_interval(value, interval, unit)),
        },
        outcome,
        because: expectation.because.clone(),
    }
}

/// "4.8 s [4.7 s, 4.9 s]".
pub fn with_interval(value: f64, interval: Option<Interval>, unit: Unit) -> String {
    let print = |value| metric::format(value, unit);
    match interval {
        Some(interval) if interval.width() != 0.0 => {
            format!("{} [{}, {}]", print(value), print(interval.low), print(interval.high))
        }
        _ => print(value),
    }
}

/// A flow or link at a point of some runs.
pub type Place<'a> = (&'a Runs, usize, &'a str);

/// The statistic of each run of two places, on the seeds that both have. Where a run has no value, it is not a number; if that
/// is because the run failed, it is as bad as can be.
pub fn pairs(first: Place<'_>, second: Place<'_>, metric: &Metric, statistic: Statistic) -> Vec<(f64, f64)> {
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
    of(first).into_iter().filter_map(|(seed, first)| Some((first, *seconds.get(&seed)?))).collect()
}

/// Whether there is something to tell: not if both sides have nothing but zeros.
fn tells(pairs: &[(f64, f64)]) -> bool {
    pairs.iter().any(|(first, second)| *first != 0.0 || *second != 0.0)
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

/// The metrics of which differences are shown, if they have values.
pub const COMPARED: [&str; 10] = [
    "completion",
    "goodput",
    "response",
    "flow_completion",
    "deadline_misses",
    "silence_after_repair",
    "packets_lost",
    "packets_spurious",
    "bytes_sent",
    "ptos",
];

/// What a point is compared with: the first; if it is a rival's, the first of ours on the same links.
fn base(scenario: &Scenario, point: usize) -> Option<usize> {
    if scenario.points[point].rival.is_none() {
        return Some(0);
    }
    sibling(scenario, point, &[(STACK.to_owned(), crate::scenario::OURS.to_owned())])
}

/// Every point against the first, rivals against ours on the same links, on the same seeds.
pub fn differences(scenario: &Scenario, runs: &Runs) -> Vec<Difference> {
    let mut differences = Vec::new();
    for metric in COMPARED.iter().filter_map(|name| metric::find(name)) {
        for point in 1..scenario.points.len() {
            let Some(base) = base(scenario, point) else { continue };
            for subject in subjects(scenario, point, metric.scope) {
                let pairs = pairs((runs, base, &subject), (runs, point, &subject), metric, Statistic::MEDIAN);
                let Some(paired) = stats::paired(&pairs).filter(|_| tells(&pairs)) else { continue };
                differences.push(Difference {
                    base: scenario.points[base].name(&scenario.axes),
                    other: scenario.points[point].name(&scenario.axes),
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
    for metric in COMPARED.iter().filter_map(|name| metric::find(name)) {
        for (at, point) in a.0.points.iter().enumerate() {
            let name = point.name(&a.0.axes);
            let Some(bt) = b.0.points.iter().position(|other| other.name(&b.0.axes) == name) else { continue };
            let others = subjects(b.0, bt, metric.scope);
            for subject in subjects(a.0, at, metric.scope).into_iter().filter(|subject| others.contains(subject)) {
                let pairs = pairs((a.1, at, &subject), (b.1, bt, &subject), metric, Statistic::MEDIAN);
                let Some(paired) = stats::paired(&pairs).filter(|_| tells(&pairs)) else { continue };
                let other = if name.is_empty() { "B".to_owned() } else { format!("B: {name}") };
                differences.push(Difference { base: "A".to_owned(), other, subject, metric: metric.name, paired });
            }
        }
    }
    differences
}

#[cfg(test)]
mod tests;
