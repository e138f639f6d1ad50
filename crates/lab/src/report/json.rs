//! Results as JSON for other programs: everything that was summed up.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::hash::Digest;
use crate::judgment::Judgment;
use crate::metric::Scope;
use crate::results::Results;
use crate::summary::{self, Difference, Row, Verdict};

/// `results.json`: everything the report shows as tables.
#[derive(Debug, Serialize)]
pub struct Summed<'a> {
    complete: bool,
    differences: Each<Difference>,
    engine: &'a str,
    flows: Each<Row>,
    intervals_that_may_miss: Option<String>,
    links: Each<Row>,
    passes: bool,
    points: Vec<String>,
    question: &'a str,
    reasons: Vec<String>,
    rivals_not_in_this_program: &'a [String],
    runs: Each<Row>,
    scenario_sha256: &'a Digest,
    seeds: u64,
    settings: Vec<(String, String)>,
    title: &'a str,
    until: Option<Value>,
    verdicts: Each<Verdict>,
}

/// A list whose elements become JSON one at a time: as a tree of values, whose keys are in the order of the alphabet,
/// all of them together would take a kilobyte for each number.
#[derive(Debug)]
struct Each<T>(Vec<T>);

impl<T: Serialize> Serialize for Each<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Tree))
    }
}

/// An element of such a list.
struct Tree<'a, T>(&'a T);

impl<T: Serialize> Serialize for Tree<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// What `results.json` holds.
pub fn results(results: &Results) -> Summed<'_> {
    let Results { scenario, runs, manifest, .. } = results;
    let judgment = Judgment::of(results);
    Summed {
        complete: manifest.complete,
        differences: Each(summary::differences(scenario, runs)),
        engine: &manifest.engine,
        flows: Each(summary::rows(scenario, runs, Scope::Flow)),
        intervals_that_may_miss: summary::many_intervals(judgment.tally.intervals),
        links: Each(summary::rows(scenario, runs, Scope::Link)),
        passes: judgment.passes(),
        points: scenario.points.iter().map(|point| point.name(&scenario.axes)).collect(),
        question: &scenario.question,
        reasons: judgment.reasons.iter().map(ToString::to_string).collect(),
        rivals_not_in_this_program: &scenario.absent,
        runs: Each(summary::rows(scenario, runs, Scope::Run)),
        scenario_sha256: &scenario.digest,
        seeds: manifest.seeds,
        settings: summary::settings(scenario, runs),
        title: &scenario.title,
        until: judgment.until.as_ref().map(|until| json!({ "met": until.is_met(), "asked": until })),
        verdicts: Each(judgment.verdicts),
    }
}
