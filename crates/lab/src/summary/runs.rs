//! All runs of a scenario, and properties of all of them together.

use core::ops::Deref;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::run::{Common, Run};
use crate::metric::{METRICS, Metric, Scope};
use crate::record::RunRecord;

/// The flows and links that have many values of a metric in some run, by metric.
type Repeated = BTreeMap<&'static str, BTreeSet<String>>;

/// What should be known about a flow or link.
type Notes = BTreeMap<String, String>;

/// A flow or link at a point of some runs.
pub type Place<'a> = (&'a Runs, usize, &'a str);

/// Runs by number of the point and seed.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    runs: BTreeMap<(usize, u64), Run>,
    common: Common,
    /// By point: the first of its seeds that says anything, and what it says of its flows and of its links.
    notes: BTreeMap<usize, (u64, [BTreeMap<String, Notes>; 2])>,
    /// Every number of every report asks for it, so that looking through all runs each time would be quadratic.
    repeated: OnceLock<Repeated>,
}

impl Runs {
    /// No runs.
    pub fn new() -> Runs {
        Runs::default()
    }

    /// Takes over what statistics need of a run.
    pub fn insert(&mut self, (point, seed): (usize, u64), record: &RunRecord) {
        // What was true of all may not be true of those that come.
        self.repeated = OnceLock::new();
        let has_parts = !record.flows.is_empty() || !record.links.is_empty();
        if has_parts && self.notes.get(&point).is_none_or(|(first, _)| seed <= *first) {
            let of = |parts: &[crate::record::Part]| {
                // Of two parts of one name the first counts.
                parts.iter().rev().map(|part| (part.name.clone(), part.notes.clone())).collect()
            };
            self.notes.insert(point, (seed, [of(&record.flows), of(&record.links)]));
        }
        let run = self.common.run(record);
        self.runs.insert((point, seed), run);
    }

    /// The runs of a point with their seeds, in the order of these.
    pub fn of_point(&self, point: usize) -> impl Iterator<Item = (u64, &Run)> {
        self.runs.range((point, 0)..=(point, u64::MAX)).map(|((_, seed), run)| (*seed, run))
    }

    /// What should be known about a flow or link at a point, from the first run that says.
    pub fn notes(&self, point: usize, scope: Scope, subject: &str) -> Option<&Notes> {
        let (_, [flows, links]) = self.notes.get(&point)?;
        if scope == Scope::Link { links } else { flows }.get(subject)
    }

    /// Whether runs have many values of a metric. If it is so at one point, it is so at all: points are summed up
    /// alike.
    pub fn is_repeated(&self, subject: &str, metric: &Metric) -> bool {
        let repeated = self.repeated.get_or_init(|| repeated(self.runs.values()));
        repeated.get(metric.name).is_some_and(|subjects| subjects.contains(subject))
    }
}

fn repeated<'a>(runs: impl Iterator<Item = &'a Run>) -> Repeated {
    let mut repeated = Repeated::new();
    for (subject, metric) in runs.flat_map(Run::repeated) {
        let metric = &METRICS[usize::from(metric)];
        let subjects = repeated.entry(metric.name).or_default();
        if metric.can_repeat() && !subjects.contains(subject) {
            subjects.insert(subject.to_owned());
        }
    }
    repeated
}

impl PartialEq for Runs {
    fn eq(&self, other: &Runs) -> bool {
        self.runs == other.runs && self.notes == other.notes
    }
}

impl Deref for Runs {
    type Target = BTreeMap<(usize, u64), Run>;

    fn deref(&self) -> &Self::Target {
        &self.runs
    }
}

impl FromIterator<((usize, u64), RunRecord)> for Runs {
    fn from_iter<I: IntoIterator<Item = ((usize, u64), RunRecord)>>(records: I) -> Runs {
        let mut runs = Runs::new();
        records.into_iter().for_each(|(key, record)| runs.insert(key, &record));
        runs
    }
}

impl<const N: usize> From<[((usize, u64), RunRecord); N]> for Runs {
    fn from(runs: [((usize, u64), RunRecord); N]) -> Runs {
        runs.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = (&'a (usize, u64), &'a Run);
    type IntoIter = std::collections::btree_map::Iter<'a, (usize, u64), Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.runs.iter()
    }
}
