//! A metric in every place under every choice, each choice compared with the reference of the same place.

mod ratio;

use serde::Serialize;

use crate::choices::Grid;
use crate::metric::{self, Better, METRICS, Metric, Scope, Unit};
use crate::scenario::{Measured, Scenario};
use crate::stats::{Estimate, Statistic};
use crate::summary::{self, Runs, Sample};

pub use ratio::Ratio;
use ratio::{between, ratio};

/// A metric of one flow, link or run in every place under every choice.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What is measured.
    pub metric: &'static Metric,
    /// How runs are summed up.
    pub statistic: Statistic,
    /// The flow, or the link; empty of the run as a whole.
    pub subject: String,
    /// Whether runs have many values each: then runs are summed up one by one, and values are medians over runs.
    pub is_repeated: bool,
    /// By place and choice of the [`Grid`]; none where nothing was run or measured.
    pub entries: Vec<Vec<Option<Entry>>>,
    /// Each choice against the reference over all places together, by number of the choice.
    pub overall: Vec<Option<Ratio>>,
    /// The choices that are best in each place: one, and those that cannot be told from it beyond chance. None where no
    /// choice can be told from any other, or as long as [`Matrix::with_best`] has not looked.
    pub best: Vec<Vec<usize>>,
    /// The choices that are best over all places together; none where there is a choice of [`Matrix::unranked`].
    pub best_overall: Vec<usize>,
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

impl Matrix {
    /// The unit of the values.
    pub fn unit(&self) -> Unit {
        self.statistic.unit(self.metric.unit)
    }

    /// What it is called: "completion over floor of download"; without the flow if the scenario has one.
    pub fn name(&self, scenario: &Scenario) -> String {
        let metric = self.metric.name.replace('_', " ");
        let is_single = scenario.points.first().is_none_or(|point| point.world.flows.len() <= 1);
        match self.metric.scope {
            Scope::Flow if !is_single => format!("{metric} of {}", self.subject),
            Scope::Link => format!("{metric} of {}", self.subject),
            Scope::Flow | Scope::Run => metric,
        }
    }

    /// The same with how it is summed up, if that is neither the median nor the mean of a share: "p99 frame delay".
    pub fn words(&self, scenario: &Scenario) -> String {
        match self.statistic {
            Statistic::MEDIAN | Statistic::Spread => self.name(scenario),
            Statistic::Mean if self.unit() == Unit::Share => self.name(scenario),
            statistic => format!("{statistic} {}", self.name(scenario)),
        }
    }

    /// The metric at all points; none if no run has it.
    pub fn new(scenario: &Scenario, runs: &Runs, grid: &Grid, answer: Measured, of: &str) -> Option<Matrix> {
        let side = |place, choice| Some(Side { scenario, runs, point: grid.point(place, choice)? });
        Matrix::of_sides((grid.places.len(), grid.choices.len()), &side, answer, of)
    }

    /// The metric where `side` says it is measured, in so many places under so many choices.
    pub fn of_sides<'a>(
        (places, choices): (usize, usize),
        side: &dyn Fn(usize, usize) -> Option<Side<'a>>,
        Measured { metric, statistic }: Measured,
        subject: &str,
    ) -> Option<Matrix> {
        // What runs of one seed have to do with each other says nothing about how far runs are apart.
        let pairs = statistic != Statistic::Spread;
        let mut is_repeated = false;
        let mut entry = |place: usize, choice: usize| {
            let here = side(place, choice)?;
            let sample = Sample::new(here.scenario, here.runs, here.point, subject, metric);
            is_repeated |= sample.is_repeated();
            let found = sample.estimate(statistic);
            let tail = |share| sample.estimate(Statistic::Quantile(share)).value;
            let has_tails =
                statistic.unit(metric.unit) == Unit::Seconds && metric.better == Better::Less && found.distinct > 1;
            let base = side(place, 0).filter(|_| choice > 0 && pairs);
            let ratio = base.and_then(|base| ratio(base, here, subject, (metric, statistic)));
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
        let against = |choice: usize| {
            if choice == 0 || !pairs { None } else { between(places, side, (0, choice), subject, (metric, statistic)) }
        };
        let overall = (0..choices).map(against).collect();
        let (best, best_overall) = (vec![Vec::new(); places], Vec::new());
        let subject = subject.to_owned();
        Some(Matrix { metric, statistic, subject, is_repeated, entries, overall, best, best_overall })
    }

    /// With the choices that are best in each place, and over all places. `side` is what the matrix was made of.
    #[must_use]
    pub fn with_best<'a>(mut self, side: &dyn Fn(usize, usize) -> Option<Side<'a>>) -> Matrix {
        let (places, measured) = (self.entries.len(), (self.metric, self.statistic));
        // Runs of one seed show nothing about a spread.
        if self.statistic == Statistic::Spread {
            return self;
        }
        let subject = self.subject.clone();
        self.best = (0..places)
            .map(|place| {
                let row = &self.entries[place];
                let known: Vec<Known> = row
                    .iter()
                    .enumerate()
                    .filter_map(|(choice, entry)| {
                        let entry = entry.as_ref()?;
                        Some((choice, entry.found.value, entry.ratio.and_then(|ratio| ratio.better)))
                    })
                    .collect();
                best(self.metric, &known, &|one, other| {
                    ratio(side(place, one)?, side(place, other)?, &subject, measured)
                })
            })
            .collect();
        let all = self.overall.iter().enumerate();
        let known: Vec<Known> = all
            .filter_map(|(choice, ratio)| match ratio {
                Some(ratio) => Some((choice, ratio.value, ratio.better)),
                None => (choice == 0).then_some((0, 1.0, None)),
            })
            .collect();
        self.best_overall = match places {
            1 => self.best[0].clone(),
            // The best of some is not the best.
            _ if !self.unranked().is_empty() => Vec::new(),
            _ => best(self.metric, &known, &|one, other| between(places, side, (one, other), &subject, measured)),
        };
        self
    }

    /// The choices that can be compared with the reference in some place but not over several together: where one of
    /// two values is 0, the geometric mean of ratios means nothing.
    pub fn unranked(&self) -> Vec<usize> {
        let has_ratio = |choice: usize| self.entries.iter().any(|row| row[choice].is_some_and(|it| it.ratio.is_some()));
        let choices = 1..self.overall.len();
        choices.filter(|it| self.entries.len() > 1 && self.overall[*it].is_none() && has_ratio(*it)).collect()
    }

    /// In how many places a choice is better than the reference beyond chance, worse, and neither.
    pub fn places_against_reference(&self, choice: usize) -> [usize; 3] {
        let ratios = || self.entries.iter().filter_map(|row| row[choice].as_ref()?.ratio);
        [Some(true), Some(false), None].map(|is| ratios().filter(|ratio| ratio.better == is).count())
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

/// A choice, its value, and whether it is better than the reference beyond chance, if it can be told from that.
type Known = (usize, f64, Option<bool>);

/// The choices of which none is worse than another beyond chance, and that are better than all others: the best of
/// those that are better than the reference, or else the reference, and what cannot be told from it. Empty if that is
/// true of all. `ratio` compares two choices.
fn best(metric: &Metric, known: &[Known], ratio: &dyn Fn(usize, usize) -> Option<Ratio>) -> Vec<usize> {
    let surely = || known.iter().filter(|(.., better)| *better == Some(true));
    let mut winner = surely().reduce(|one, other| if metric.is_better(other.1, one.1) { other } else { one });
    // What has the better value may still be beaten on the same seeds. Three choices may beat each other in a circle,
    // so that not everything that beats something is followed.
    let beats = |one: usize, other: usize| ratio(other, one).is_some_and(|ratio| ratio.better == Some(true));
    for _ in 0..known.len() {
        let Some((first, ..)) = winner else { break };
        let Some(beating) = surely().find(|(choice, ..)| choice != first && beats(*choice, *first)) else { break };
        winner = Some(beating);
    }
    let mut best: Vec<usize> = match winner {
        Some((winner, ..)) => known
            .iter()
            // Whatever is not better than the reference but that it is worse than the winner, which is better than
            // that.
            .filter(|(choice, _, better)| *choice != 0 && *better != Some(false) && choice != winner)
            .filter(|(choice, ..)| ratio(*winner, *choice).is_none_or(|ratio| ratio.better != Some(false)))
            .map(|(choice, ..)| *choice)
            .collect(),
        None => known.iter().filter(|(choice, _, better)| *choice != 0 && better.is_none()).map(|it| it.0).collect(),
    };
    let first = winner.map(|(winner, ..)| *winner).or_else(|| known.iter().any(|it| it.0 == 0).then_some(0));
    best.splice(0..0, first);
    if best.len() < known.len() { best } else { Vec::new() }
}

/// Every metric that the scenario asks about, with its flow or link: first the one that answers the question, then
/// those of `[[expect]]` and `[[known]]` in their order, then what the traffic of each flow is about.
pub fn asked(scenario: &Scenario) -> Vec<(Measured, String)> {
    let Some(flows) = scenario.points.first().map(|point| &point.world.flows) else { return Vec::new() };
    let all_of = |scope: Scope| summary::subjects(scenario, 0, scope);
    let mut all: Vec<(Measured, String)> = Vec::new();
    let mut add = |answer: Measured, subject: &str| {
        let known = all.iter().any(|(known, of)| known.metric == answer.metric && of == subject);
        if !known && all_of(answer.metric.scope).iter().any(|it| it == subject) {
            all.push((answer, subject.to_owned()));
        }
    };
    let spoken = || scenario.expectations.iter().chain(&scenario.known);
    let judging = || spoken().filter(|it| !it.metric.is_yes_or_no() && it.metric.better != Better::Neither);
    let of_flows = || judging().filter(|it| it.metric.scope == Scope::Flow);
    if let Some((answer, named)) = &scenario.answer {
        add(*answer, named.as_deref().unwrap_or_default());
    } else {
        // What most expectations of flows are about; of equals the first. What is the same number everywhere is no
        // question.
        let open = || of_flows().filter(|it| it.base().is_some() || it.at_least != it.at_most);
        let count = |metric: &Metric| open().filter(|it| it.metric.name == metric.name).count();
        let most = open().map(|it| count(it.metric)).max().unwrap_or(0);
        if let Some(first) = open().find(|it| count(it.metric) == most) {
            let statistic =
                if first.statistic.has_interval() { first.statistic } else { summary::statistic(first.metric) };
            let flow = first.flow.clone().unwrap_or_else(|| flows[0].name.clone());
            add(Measured { metric: first.metric, statistic }, &flow);
        } else if let Some(metric) = metric::find(flows[0].traffic.main_metric()) {
            add(Measured { metric, statistic: summary::statistic(metric) }, &flows[0].name);
        }
    }
    for expectation in judging() {
        let answer = Measured { metric: expectation.metric, statistic: summary::statistic(expectation.metric) };
        match expectation.subject() {
            Some(subject) => add(answer, subject),
            None => all_of(expectation.metric.scope).iter().for_each(|it| add(answer, it)),
        }
    }
    for flow in flows {
        if let Some(metric) = metric::find(flow.traffic.main_metric()) {
            add(Measured { metric, statistic: summary::statistic(metric) }, &flow.name);
        }
    }
    all
}

/// The matrices of what the scenario asks about, then of every other metric of flows, links and the run that tells its
/// choices apart; and how many metrics have a value, of each flow and link.
pub fn matrices(scenario: &Scenario, runs: &Runs, grid: &Grid) -> (Vec<Matrix>, usize) {
    let asked = asked(scenario);
    let side = |place, choice| Some(Side { scenario, runs, point: grid.point(place, choice)? });
    let new = |answer: Measured, of: &str| Matrix::new(scenario, runs, grid, answer, of);
    let mut all: Vec<Matrix> = asked.iter().filter_map(|(answer, of)| new(*answer, of)).collect();
    let mut measured = all.len();
    for (metric, of) in judging(scenario) {
        if !asked.iter().any(|(known, subject)| known.metric == metric && *subject == of) {
            let answer = Measured { metric, statistic: summary::statistic(metric) };
            let matrix = new(answer, &of);
            measured += usize::from(matrix.is_some());
            all.extend(matrix.filter(Matrix::tells_choices_apart));
        }
    }
    (all.into_iter().map(|matrix| matrix.with_best(&side)).collect(), measured)
}

/// Every metric of which less or more is better, with each flow or link of it: those of flows, of links, of the run.
pub fn judging(scenario: &Scenario) -> Vec<(&'static Metric, String)> {
    let mut all = Vec::new();
    for metric in METRICS.iter().filter(|metric| metric.better != Better::Neither) {
        let subjects = summary::subjects(scenario, 0, metric.scope).into_iter();
        let is_there = |of: &String| metric.scope != Scope::Link || summary::is_taken(scenario, 0, of);
        all.extend(subjects.filter(is_there).map(|of| (metric, of)));
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
        let answer = Measured { metric, statistic: summary::statistic(metric) };
        let side = |place, choice| Some(Side { scenario: &scenario, runs: &runs, point: grid.point(place, choice)? });
        let matrix = Matrix::new(&scenario, &runs, &grid, answer, "f").unwrap().with_best(&side);
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
            assert_eq!(matrix.best[place], [1], "half the time on every seed");
        }
        assert_eq!(matrix.best_overall, [1]);
        let overall = matrix.overall[2].unwrap();
        assert!((overall.value - 4.0).abs() < 1e-12, "{overall:?}");
    }

    #[test]
    fn a_lower_median_is_no_better_as_long_as_the_interval_reaches_one() {
        let (_, matrix) = matrix("ptos", |_, _| 1.0);
        assert!(matrix.entries[0][1].unwrap().found.value < 3.0);
        assert_eq!(matrix.best[0], [0; 0], "nothing is best where nothing differs: {:?}", matrix.entries[0]);
        assert!(!matrix.tells_choices_apart());
    }

    #[test]
    fn a_tie_is_no_best() {
        // Two choices take half the time of the reference, and which of them is quicker the seed decides.
        let time = |point: usize, seed: u64| match point % 4 {
            1 => 4.0 + seed as f64 / 100.0,
            0 | 2 => 2.0 + if (seed + point as u64 / 2).is_multiple_of(2) { 0.01 } else { 0.0 } + seed as f64 / 100.0,
            _ => 8.0,
        };
        let (_, matrix) = matrix("completion", time);
        let reference = matrix.entries[0][0].unwrap().found.value;
        assert!(matrix.entries[0].iter().flatten().filter(|entry| entry.found.value < reference).count() == 2);
        for best in [&matrix.best[0], &matrix.best[1], &matrix.best_overall] {
            assert_eq!(best.len(), 2, "{matrix:?}");
        }
        // The reference and one that cannot be told from it, before others that are worse.
        let (_, matrix) = self::matrix("completion", |point, _| [9.0, 1.0, 1.0, 9.0][point % 4]);
        assert_eq!(matrix.best[0], [0, 2]);
    }

    /// As [`matrix`], summed up otherwise.
    fn summed_up(statistic: Statistic, completion: impl Fn(usize, u64) -> f64) -> Matrix {
        let (scenario, runs) = results(completion);
        let grid = Grid::of(&scenario);
        let answer = Measured { metric: metric::find("completion").unwrap(), statistic };
        let side = |place, choice| Some(Side { scenario: &scenario, runs: &runs, point: grid.point(place, choice)? });
        Matrix::new(&scenario, &runs, &grid, answer, "f").unwrap().with_best(&side)
    }

    #[test]
    fn the_ratio_is_of_the_statistic_that_is_shown() {
        // Pacing off is a tenth quicker on three seeds of four and takes five times as long on the fourth.
        let time = |point: usize, seed: u64| {
            let reference = 1.0 + seed as f64 / 50.0;
            reference
                * if point % 2 == 1 {
                    1.0
                } else if seed.is_multiple_of(4) {
                    5.0
                } else {
                    0.9
                }
        };
        for statistic in [Statistic::MEDIAN, Statistic::Mean, Statistic::Quantile(0.9)] {
            let matrix = summed_up(statistic, time);
            let row = &matrix.entries[0];
            let expected = row[1].unwrap().found.value / row[0].unwrap().found.value;
            let found = row[1].unwrap().ratio.unwrap().value;
            assert!((found / expected - 1.0).abs() < 0.05, "{statistic}: {found} and {expected}");
            let overall = matrix.overall[1].unwrap().value;
            assert!((overall / expected - 1.0).abs() < 0.05, "{statistic}: {overall} and {expected}");
        }
    }

    #[test]
    fn a_choice_whose_value_is_zero_is_not_lost() {
        // Nothing takes any time without pacing at the second rate: no ratio over both rates means anything.
        let time = |point: usize, seed: u64| match point {
            4 => 0.0,
            0 => 0.5 + seed as f64 / 100.0,
            _ => 1.0 + seed as f64 / 100.0,
        };
        for statistic in [Statistic::MEDIAN, Statistic::Mean] {
            let matrix = summed_up(statistic, time);
            assert_eq!((matrix.unranked(), matrix.best_overall.len()), (vec![1], 0), "{statistic}: {matrix:?}");
        }
        let matrix = summed_up(Statistic::MEDIAN, time);
        assert_eq!(matrix.places_against_reference(1), [2, 0, 0]);
    }

    #[test]
    fn what_beats_the_best_value_on_the_same_seeds_is_best() {
        let metric = metric::find("completion").unwrap();
        let said = |value: f64, better: Option<bool>| Some(Ratio { value, interval: None, better, pairs: 30 });
        let known = [(0, 20.0, None), (1, 10.0, Some(true)), (2, 10.1, Some(true)), (3, 15.0, Some(true))];
        // 2 has the larger value of the two, and beats 1 seed by seed.
        let pairs = |one: usize, other: usize| match (one, other) {
            (1, 2) => said(0.98, Some(true)),
            (2, 1) => said(1.02, Some(false)),
            (_, 3) => said(1.5, Some(false)),
            _ => said(1.0, None),
        };
        assert_eq!(best(metric, &known, &pairs), [2]);
        // A circle ends.
        let circle = |one: usize, other: usize| match (one, other) {
            (1, 2) | (2, 3) | (3, 1) => said(0.9, Some(true)),
            _ => said(1.1, Some(false)),
        };
        assert!(!best(metric, &known, &circle).is_empty());
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
        // What is the same number at every point asks nothing.
        let stacks = ["thalweg", "quinn"].map(StackInfo::new);
        let text = TEXT.replace("at_most = 9", "equals = 0");
        let scenario = Scenario::parse("t.toml", &text, Path::new(""), &stacks).unwrap();
        let names: Vec<&str> = self::asked(&scenario).iter().map(|(answer, _)| answer.metric.name).collect();
        assert_eq!(names, ["completion", "ptos"]);
    }
}
