//! The verdict on the results of a scenario: whether they pass, and the reasons if they do not.
//!
//! [`Judgment::of`] takes the [`Results`] of a run that has just ended, or those that [`Results::load`] reads from a
//! folder, and gives the same answer for both. `thalweg lab run` and `merge` print it and end with exit code 1 if the
//! results do not pass.
//!
//! Results pass if every run that was asked for is done, every expectation has a good outcome ([`Outcome::is_good`]),
//! the metric that `answer` names has a value, and no run failed unexpectedly. Three rules soften this:
//!
//! - A failed run is expected where an `[[expect]]` on `success` or `completed` speaks of its point: that expectation
//!   says how many runs may fail. Failed runs of rivals never count, for that a rival fails is a result.
//! - With fewer seeds than the scenario asks for, intervals are wider than its author planned. An expectation that
//!   [cannot be told](Outcome::CannotTell) then does not count against the scenario; one that [fails](Outcome::Fails)
//!   does.
//! - A part of the runs (a shard, one point, one seed) shows only a part of what expectations are about. They are not
//!   held against it, but neither do they excuse a failed run.
//!
//! ```no_run
//! use std::path::Path;
//! use thalweg_lab::engine::SimEngine;
//! use thalweg_lab::judgment::Judgment;
//! use thalweg_lab::engine::Engine;
//! use thalweg_lab::results::Results;
//!
//! let results = Results::load(Path::new("results/satellite"), &SimEngine::default().stacks())?;
//! let judgment = Judgment::of(&results);
//! for reason in &judgment.reasons {
//!     eprintln!("{reason}");
//! }
//! std::process::exit(i32::from(!judgment.passes()));
//! # Ok::<(), thalweg_lab::results::LoadError>(())
//! ```

use serde::Serialize;

use crate::metric::Scope;
use crate::results::Results;
use crate::runner::{Enough, enough};
use crate::scenario::Scenario;
use crate::summary::{Outcome, Run, Runs, Tally, Verdict, speaks_of, subjects, verdicts};

/// The verdict on the results of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgment {
    /// Every expectation at every point it speaks of, judged; then what is known to fall short.
    pub verdicts: Vec<Verdict>,
    /// The verdicts, counted.
    pub tally: Tally,
    /// How many expectations count against the results.
    pub broken: usize,
    /// How many expectations have an outcome that is not good and do not count, for want of seeds or of runs.
    pub excused: usize,
    /// The failed runs, counted.
    pub failures: Failures,
    /// Why the results do not pass; empty if they do.
    pub reasons: Vec<Reason>,
    /// How many seeds were run and how many the scenario asks for, if these are more.
    pub few_seeds: Option<(u64, u64)>,
    /// Whether there were enough seeds for the interval that `until` asks for; none if nothing asks. It is no reason
    /// not to pass.
    pub until: Option<Enough>,
}

/// Why results do not pass.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
#[non_exhaustive]
pub enum Reason {
    /// Not every run that was asked for is done. What is expected counts only when all are.
    Incomplete,
    /// Expectations have an outcome that is not good.
    Expectations {
        /// How many of them.
        broken: usize,
        /// How many verdicts there are on what is expected.
        of: usize,
    },
    /// The metric that the scenario names as its answer has no value in any run.
    Unanswered {
        /// The metric.
        metric: &'static str,
    },
    /// Runs failed of which the scenario does not say that they may.
    Failures {
        /// How many.
        runs: usize,
    },
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Reason::Incomplete => f.write_str("not every run is done"),
            Reason::Expectations { broken, of } => write!(f, "{broken} of {of} expectations do not hold"),
            Reason::Unanswered { metric } => {
                write!(f, "no run has a value of {metric}, which the scenario names as its answer")
            }
            Reason::Failures { runs: 1 } => f.write_str("1 run failed unexpectedly"),
            Reason::Failures { runs } => write!(f, "{runs} runs failed unexpectedly"),
        }
    }
}

impl Judgment {
    /// Judges results.
    pub fn of(results: &Results) -> Judgment {
        let Results { scenario, runs, manifest, .. } = results;
        let verdicts = verdicts(scenario, runs);
        let tally = Tally::of(&verdicts);
        let failures = Failures::of(scenario, runs);
        let few_seeds = Some((manifest.seeds, scenario.seeds)).filter(|(run, asked)| run < asked);
        let is_good = |outcome: Outcome| outcome.is_good() || few_seeds.is_some() && outcome == Outcome::CannotTell;
        let (broken, failed) = match manifest.is_part() {
            true => (0, failures.ours),
            false => (verdicts.iter().filter(|verdict| !is_good(verdict.outcome)).count(), failures.unexpected),
        };
        let excused = verdicts.iter().filter(|verdict| !verdict.outcome.is_good()).count() - broken;
        let mut reasons = Vec::new();
        if manifest.complete {
            reasons.extend((broken > 0).then_some(Reason::Expectations { broken, of: tally.expected }));
            reasons.extend(unanswered(scenario, runs).filter(|_| !manifest.is_part()));
            reasons.extend((failed > 0).then_some(Reason::Failures { runs: failed }));
        } else {
            reasons.push(Reason::Incomplete);
        }
        let until = enough(scenario, runs, manifest);
        Judgment { verdicts, tally, broken, excused, failures, reasons, few_seeds, until }
    }

    /// Whether the results pass: exit code 0 of `thalweg lab run`, else 1.
    pub fn passes(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// The named answer, if no run has a value of it.
fn unanswered(scenario: &Scenario, runs: &Runs) -> Option<Reason> {
    let (answer, of) = scenario.answer.as_ref()?;
    let metric = answer.metric;
    let of = of.as_deref().unwrap_or_default();
    let has = |run: &Run| !run.get(metric.scope, of, metric.name).is_empty() || run.is_never(of, metric.name);
    // What failed says so itself.
    let done: Vec<&Run> = runs.values().filter(|run| run.failed().is_none()).collect();
    (!done.is_empty() && !done.iter().any(|run| has(run))).then_some(Reason::Unanswered { metric: metric.name })
}

/// Failed runs, counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// All of them.
    pub all: usize,
    /// Those in which no rival takes our place.
    pub ours: usize,
    /// Those of ours that no expectation of success or completion speaks of.
    pub unexpected: usize,
    /// Those of rivals that no expectation of success or completion speaks of.
    pub unexpected_of_rivals: usize,
}

impl Failures {
    /// Counts them.
    pub fn of(scenario: &Scenario, runs: &Runs) -> Failures {
        let expected: Vec<bool> = (0..scenario.points.len()).map(|point| says_how_many_fail(scenario, point)).collect();
        let mut failures = Failures::default();
        for ((point, _), record) in runs {
            let Some(at) = scenario.points.get(*point).filter(|_| record.failed().is_some()) else { continue };
            let unexpected = usize::from(!expected[*point]);
            failures.all += 1;
            if at.rival.is_some() {
                failures.unexpected_of_rivals += unexpected;
            } else {
                failures.ours += 1;
                failures.unexpected += unexpected;
            }
        }
        failures
    }
}

impl core::ops::AddAssign for Failures {
    fn add_assign(&mut self, other: Failures) {
        self.all += other.all;
        self.ours += other.ours;
        self.unexpected += other.unexpected;
        self.unexpected_of_rivals += other.unexpected_of_rivals;
    }
}

/// Whether an expectation of the success of runs at a point, or of the completion of each of its flows, decides how
/// many may fail there.
fn says_how_many_fail(scenario: &Scenario, point: usize) -> bool {
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
}

#[cfg(test)]
mod tests;
