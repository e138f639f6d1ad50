//! A metric in every place under every choice, each choice compared with the reference of the same place.

use serde::Serialize;
use thalweg_units::math;

use crate::choices::Grid;
use crate::metric::{self, Better, METRICS, Metric, Scope, Unit};
use crate::scenario::world::{FlowSpec, Traffic};
use crate::scenario::{Answer, Expectation, Scenario};
use crate::stats::{self, Estimate, Interval, Missing, Statistic};
use crate::summary::{self, Runs, Sample};

/// A metric of one flow, link or run in every place under every choice.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What is measured.
    pub metric: &'static Metric,
    /// How runs are summed up.
    pub statistic: Statistic,
    /// The flow, or the link; empty of the run as a whole.
    pub subject: String,
    /// By place and choice of the [`Grid`]; none where nothing was run or measured.
    pub entries: Vec<Vec<Option<Entry>>>,
    /// Each choice against the reference over all places together, by number of the choice.
    pub overall: Vec<Option<Ratio>>,
}

/// What was found in one place under one choice.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Number of the point.
    pub point: usize,
    /// The value with its interval.
    pub found: Estimate,
    /// The 95th and the 99th percentile, of times of which less is better.
    pub tails: Option<(f64, f64)>,
    /// How it compares with the reference; none of the reference itself, or where that is not run.
    pub ratio: Option<Ratio>,
}

/// A ratio to the reference, seed by seed.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// Whether the choice differs beyond what chance explains, and if so whether it is better.
    pub better: Option<bool>,
    /// On how many seeds both were run.
    pub pairs: usize,
}

impl Matrix {
    /// The unit of the values.
    pub fn unit(&self) -> Unit {
        self.statistic.unit(self.metric.unit)
    }

    /// The metric at all points; none if no run has it.
    pub fn new(scenario: &Scenario, runs: &Runs, grid: &Grid, answer: Answer, of: &str) -> Option<Matrix> {
        let side = |place, choice| Some(Side { scenario, runs, point: grid.point(place, choice)? });
        Matrix::of_sides((grid.places.len(), grid.choices.len()), &side, answer, of)
    }

    /// The metric where `side` says it is measured, in so many places under so many choices.
    pub fn of_sides<'a>(
        (places, choices): (usize, usize),
        side: &dyn Fn(usize, usize) -> Option<Side<'a>>,
        Answer { metric, statistic }: Answer,
        subject: &str,
    ) -> Option<Matrix> {
        // What runs of one seed have to do with each other says nothing about how far runs are apart.
        let pairs = statistic != Statistic::Spread;
        let entry = |place: usize, choice: usize| {
            let here = side(place, choice)?;
            let sample = Sample::new(here.scenario, here.runs, here.point, subject, metric);
            let found = sample.estimate(statistic);
            let tail = |share| sample.estimate(Statistic::Quantile(share)).value;
            let has_tails =
                statistic.unit(metric.unit) == Unit::Seconds && metric.better == Better::Less && found.distinct > 1;
            let base = side(place, 0).filter(|_| choice > 0 && pairs);
            let ratio = base.and_then(|base| ratio(base, here, subject, metric));
            (found.runs > 0).then_some(Entry {
                point: here.point,
                found,
                tails: has_tails.then(|| (tail(0.95), tail(0.99))),
                ratio,
            })
        };
        let entries: Vec<Vec<Option<Entry>>> =
            (0..places).map(|place| (0..choices).map(|choice| entry(place, choice)).collect()).collect();
        if entries.iter().flatten().all(Option::is_none) {
            return None;
        }
        let overall = |choice: usize| {
            let both = (0..places).filter_map(|place| Some((side(place, 0)?, side(place, choice)?)));
            if choice == 0 || !pairs { None } else { overall(both, subject, metric) }
        };
        let overall = (0..choices).map(overall).collect();
        Some(Matrix { metric, statistic, subject: subject.to_owned(), entries, overall })
    }

    /// The choice that is better than every other in a place beyond what chance explains.
    ///
    /// The reference is it where every other is worse or cannot be told from it; none if there is nothing to choose, or
    /// nothing that runs of one seed could tell, as of a spread.
    pub fn best(&self, place: usize) -> Option<usize> {
        let entries = self.entries.get(place)?;
        if entries.iter().flatten().count() < 2 || self.statistic == Statistic::Spread {
            return None;
        }
        let better = |one: &usize, other: &usize| {
            let value = |at: &usize| entries[*at].map_or(f64::NAN, |entry| entry.found.value);
            self.metric.is_better(value(one), value(other))
        };
        let surely = |at: &usize| entries[*at].and_then(|entry| entry.ratio).and_then(|ratio| ratio.better);
        let winners = (1..entries.len()).filter(|at| surely(at) == Some(true));
        let winner = winners.reduce(|best, at| if better(&at, &best) { at } else { best });
        winner.or_else(|| entries[0].map(|_| 0))
    }

    /// Whether a choice differs from the reference anywhere beyond what chance explains.
    pub fn tells_choices_apart(&self) -> bool {
        let mut ratios = self.entries.iter().flatten().flatten().filter_map(|entry| entry.ratio);
        ratios.any(|ratio| ratio.better.is_some())
    }
}

/// A point of some results.
#[derive(Copy, Clone, Debug)]
pub struct Side<'a> {
    /// What was asked.
    pub scenario: &'a Scenario,
    /// What came out.
    pub runs: &'a Runs,
    /// Number of the point.
    pub point: usize,
}

/// The metric of each run of two sides, on the seeds that both have, and how close two values are one result.
fn on_same_seeds(base: Side<'_>, other: Side<'_>, flow: &str, metric: &Metric) -> (Vec<(f64, f64)>, f64) {
    summary::on_same_seeds(
        (base.scenario, (base.runs, base.point, flow)),
        (other.scenario, (other.runs, other.point, flow)),
        metric,
        summary::statistic(metric),
    )
}

/// A side against its base, seed by seed.
fn ratio(base: Side<'_>, other: Side<'_>, flow: &str, metric: &Metric) -> Option<Ratio> {
    let (pairs, tolerance) = on_same_seeds(base, other, flow, metric);
    let paired = stats::paired(&pairs, tolerance)?;
    // Where one side never came to an end, that the other did is beyond doubt.
    let rescued = pairs.iter().filter(|(first, second)| first.is_infinite() && second.is_finite()).count();
    let lost = pairs.iter().filter(|(first, second)| first.is_finite() && second.is_infinite()).count();
    // Seeds that change nothing leave nothing to chance: what differs, differs.
    let steady = paired.missing == Some(Missing::Alike(paired.pairs)) && paired.difference.abs() > tolerance;
    let differs = paired.ratio_interval.is_some_and(|interval| !interval.contains(1.0))
        || steady && paired.pairs >= stats::FEWEST_FOR_MEDIAN
        || paired.pairs >= 3 && (paired.pairs == rescued || paired.pairs == lost);
    let better = metric.is_better(paired.ratio, 1.0);
    Some(Ratio {
        value: paired.ratio,
        interval: paired.ratio_interval,
        better: (differs && metric.better != Better::Neither && paired.ratio != 1.0).then_some(better),
        pairs: paired.pairs,
    })
}

/// A choice against the reference over all places in which both are run: the geometric mean of the ratios of each seed,
/// then the median over seeds. None where a ratio to nothing makes such a mean meaningless.
fn overall<'a>(places: impl Iterator<Item = (Side<'a>, Side<'a>)>, flow: &str, metric: &Metric) -> Option<Ratio> {
    let by_place: Vec<Vec<(f64, f64)>> =
        places.map(|(base, other)| on_same_seeds(base, other, flow, metric).0).collect();
    // Where neither ever came to an end there is nothing to compare.
    let by_place: Vec<_> = by_place.into_iter().filter(|pairs| pairs.iter().any(stats::can_compare)).collect();
    let seeds = by_place.iter().map(Vec::len).min().filter(|seeds| *seeds > 0)?;
    let of_seed = |seed: usize| {
        let logs = by_place.iter().map(|pairs| {
            let (first, second) = pairs[seed];
            let ratio = stats::ratio(first, second);
            // What never ends is endlessly worse; nothing else makes a ratio endless or nothing.
            let means = ratio > 0.0 && (ratio.is_finite() || second.is_infinite());
            if means { math::ln(ratio) } else { f64::NAN }
        });
        math::exp(logs.sum::<f64>() / by_place.len() as f64)
    };
    let ratios: Vec<f64> = (0..seeds).map(of_seed).collect();
    if ratios.iter().any(|ratio| ratio.is_nan()) {
        return None;
    }
    let estimate = Estimate::of(&ratios, Statistic::MEDIAN, 0.0);
    let differs = estimate.interval.is_some_and(|interval| !interval.contains(1.0));
    let better = differs.then(|| metric.is_better(estimate.value, 1.0));
    Some(Ratio { value: estimate.value, interval: estimate.interval, better, pairs: seeds })
}

/// What the traffic of a flow is about.
fn main_metric(flow: &FlowSpec) -> &'static str {
    match flow.traffic {
        Traffic::Download(Some(_)) | Traffic::Upload(Some(_)) => "completion",
        Traffic::Download(None) | Traffic::Upload(None) => "goodput",
        Traffic::Flows { .. } => "flow_completion",
        Traffic::Media { .. } => "deadline_misses",
        Traffic::Call(_) => "call_delay_mean",
        // Requests, and pages of them.
        _ => "response",
    }
}

/// Every metric that the scenario asks about, with its flow or link: first the one that answers the question, then
/// those of `[[expect]]` and `[[known]]` in their order, then what the traffic of each flow is about.
pub fn asked(scenario: &Scenario) -> Vec<(Answer, String)> {
    let Some(flows) = scenario.points.first().map(|point| &point.world.flows) else { return Vec::new() };
    let all_of = |scope: Scope| summary::subjects(scenario, 0, scope);
    let mut all: Vec<(Answer, String)> = Vec::new();
    let mut add = |answer: Answer, subject: &str| {
        let known = all.iter().any(|(known, of)| known.metric == answer.metric && of == subject);
        if !known && all_of(answer.metric.scope).iter().any(|it| it == subject) {
            all.push((answer, subject.to_owned()));
        }
    };
    let spoken = || scenario.expectations.iter().chain(&scenario.known);
    let judging = || spoken().filter(|it| !it.metric.is_yes_or_no() && it.metric.better != Better::Neither);
    let of_flows = || judging().filter(|it| it.metric.scope == Scope::Flow);
    if let Some(answer) = scenario.answer {
        let subject = judging().find(|it| it.metric == answer.metric).and_then(|it| subject(it).cloned());
        if let Some(subject) = subject.or_else(|| first_subject(scenario, answer.metric.scope)) {
            add(answer, &subject);
        }
    } else {
        // What most expectations of flows are about; of equals the first.
        let count = |metric: &Metric| of_flows().filter(|it| it.metric.name == metric.name).count();
        let most = of_flows().map(|it| count(it.metric)).max().unwrap_or(0);
        if let Some(first) = of_flows().find(|it| count(it.metric) == most) {
            let statistic =
                if first.statistic.has_interval() { first.statistic } else { summary::statistic(first.metric) };
            let flow = first.flow.clone().unwrap_or_else(|| flows[0].name.clone());
            add(Answer { metric: first.metric, statistic }, &flow);
        }
    }
    for expectation in judging() {
        let answer = Answer { metric: expectation.metric, statistic: summary::statistic(expectation.metric) };
        match subject(expectation) {
            Some(subject) => add(answer, subject),
            None => all_of(expectation.metric.scope).iter().for_each(|it| add(answer, it)),
        }
    }
    for flow in flows {
        if let Some(metric) = metric::find(main_metric(flow)) {
            add(Answer { metric, statistic: summary::statistic(metric) }, &flow.name);
        }
    }
    all
}

/// The flow or link that an expectation names.
fn subject(expectation: &Expectation) -> Option<&String> {
    match expectation.metric.scope {
        Scope::Flow => expectation.flow.as_ref(),
        Scope::Link => expectation.link.as_ref(),
        Scope::Run => None,
    }
}

/// What a metric is of where nobody says: the first flow, the way down of the first path, the run.
fn first_subject(scenario: &Scenario, scope: Scope) -> Option<String> {
    let all = summary::subjects(scenario, 0, scope);
    let down = all.iter().find(|name| scope == Scope::Link && name.ends_with(".down"));
    down.or(all.first()).cloned()
}

/// The matrices of what the scenario asks about, then of every other metric that tells its choices apart.
pub fn matrices(scenario: &Scenario, runs: &Runs, grid: &Grid) -> Vec<Matrix> {
    let asked = asked(scenario);
    let mut all: Vec<Matrix> =
        asked.iter().filter_map(|(answer, flow)| Matrix::new(scenario, runs, grid, *answer, flow)).collect();
    let flows: Vec<String> = scenario
        .points
        .first()
        .map(|point| point.world.flows.iter().map(|flow| flow.name.clone()).collect())
        .unwrap_or_default();
    for metric in METRICS.iter().filter(|metric| metric.scope == Scope::Flow && metric.better != Better::Neither) {
        for flow in &flows {
            if asked.iter().any(|(known, of)| known.metric == metric && of == flow) {
                continue;
            }
            let answer = Answer { metric, statistic: summary::statistic(metric) };
            all.extend(Matrix::new(scenario, runs, grid, answer, flow).filter(Matrix::tells_choices_apart));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::{Part, RunRecord};
    use crate::scenario::StackInfo;

    const TEXT: &str = r#"
title = "t"
question = "q?"
[path.p]
down = { rate = "10 Mbps", delay = "10 ms" }
up = { rate = "10 Mbps", delay = "10 ms" }
[[flow]]
name = "f"
transfer = { download = "1 MB" }
[vary]
"path.p.down.rate" = ["10 Mbps", "20 Mbps"]
"flow.f.stack" = ["thalweg", "quinn"]
"flow.f.policies.pacing" = ["off", "on"]
[[expect]]
metric = "ptos.max"
at_most = 9
"#;

    fn results(completion: impl Fn(usize, u64) -> f64) -> (Scenario, Runs) {
        let stacks = ["thalweg", "quinn"].map(StackInfo::new);
        let scenario = Scenario::parse("t.toml", TEXT, Path::new(""), &stacks).unwrap();
        let mut runs = Runs::new();
        for (point, at) in scenario.points.iter().enumerate() {
            for seed in 0..8 {
                let mut flow = Part { name: "f".to_owned(), ..Part::default() };
                match completion(point, seed) {
                    endless if endless.is_infinite() => flow.never("completion"),
                    time => flow.set("completion", time),
                }
                // Lower by chance on most seeds.
                flow.set("ptos", if at.labels[2] == "off" && seed % 2 == 0 { 2.0 } else { 3.0 });
                runs.insert((point, seed), &RunRecord { flows: vec![flow], ..RunRecord::default() });
            }
        }
        (scenario, runs)
    }

    fn matrix(metric: &str, completion: impl Fn(usize, u64) -> f64) -> (Grid, Matrix) {
        let (scenario, runs) = results(completion);
        let grid = Grid::of(&scenario);
        let metric = metric::find(metric).unwrap();
        let answer = Answer { metric, statistic: summary::statistic(metric) };
        let matrix = Matrix::new(&scenario, &runs, &grid, answer, "f").unwrap();
        (grid, matrix)
    }

    #[test]
    fn every_choice_is_compared_with_what_is_shipped_in_the_same_place() {
        // Points are rate, stack, pacing; pacing is on as shipped. Everything takes twice as long at the second rate.
        let time = |point: usize| [1.0, 2.0, 8.0, 8.0][point % 4] * if point < 4 { 2.0 } else { 1.0 };
        let (grid, matrix) = matrix("completion", |point, _| time(point));
        let names: Vec<&str> = grid.choices.iter().map(|choice| choice.name.as_str()).collect();
        assert_eq!(names[0], "stack = thalweg, pacing = on");
        for place in 0..2 {
            assert!(matrix.entries[place][0].unwrap().ratio.is_none());
            assert_eq!(matrix.entries[place][1].unwrap().ratio.unwrap().value, 0.5);
            assert_eq!(matrix.best(place), Some(1), "half the time on every seed");
        }
        let overall = matrix.overall[2].unwrap();
        assert!((overall.value - 4.0).abs() < 1e-12, "{overall:?}");
    }

    #[test]
    fn a_lower_median_is_no_better_as_long_as_the_interval_reaches_one() {
        let (_, matrix) = matrix("ptos", |_, _| 1.0);
        assert!(matrix.entries[0][1].unwrap().found.value < 3.0);
        assert_eq!(matrix.best(0), Some(0), "{:?}", matrix.entries[0]);
        assert!(!matrix.tells_choices_apart());
    }

    #[test]
    fn what_never_ends_is_worse_without_doubt() {
        let (_, matrix) = matrix("completion", |point, _| if point % 4 == 2 { f64::INFINITY } else { 1.0 });
        let lost = matrix.entries[0][2].unwrap();
        assert_eq!((lost.found.value, lost.ratio.unwrap().better), (f64::INFINITY, Some(false)));
        assert_eq!(matrix.overall[2].unwrap().value, f64::INFINITY);
    }

    #[test]
    fn the_answer_is_what_most_expectations_are_about() {
        let (scenario, _) = results(|_, _| 1.0);
        let asked = asked(&scenario);
        let names: Vec<&str> = asked.iter().map(|(answer, _)| answer.metric.name).collect();
        assert_eq!(names, ["ptos", "completion"]);
        assert_eq!(asked[0].0.statistic, Statistic::MEDIAN, "the largest value has no interval");
    }
}
