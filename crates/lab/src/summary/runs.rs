//! All runs of a scenario, and what is true of all of them at once.

use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::metric::{self, Metric};
use crate::record::{Part, RunRecord, Values};

/// The flows and links that have many values of a metric in some run, by metric.
type Repeated = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs by number of the point and seed.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    records: BTreeMap<(usize, u64), RunRecord>,
    /// Every number of every report asks for it, so that looking through all runs each time would be quadratic.
    repeated: OnceLock<Repeated>,
}

impl Runs {
    /// No runs.
    pub fn new() -> Runs {
        Runs::default()
    }

    /// Whether runs have many values of a metric. If it is so at one point, it is so at all: points are summed up
    /// alike.
    pub fn is_repeated(&self, subject: &str, metric: &Metric) -> bool {
        let repeated = self.repeated.get_or_init(|| repeated(self.records.values()));
        repeated.get(metric.name).is_some_and(|subjects| subjects.contains(subject))
    }
}

fn repeated<'a>(records: impl Iterator<Item = &'a RunRecord>) -> Repeated {
    let mut repeated = Repeated::new();
    let mut look = |subject: &str, values: &Values| {
        for (name, _) in values.iter().filter(|(_, values)| values.len() > 1) {
            let Some(metric) = metric::find(name).filter(|metric| metric.can_repeat()) else { continue };
            let subjects = repeated.entry(metric.name).or_default();
            if !subjects.contains(subject) {
                subjects.insert(subject.to_owned());
            }
        }
    };
    for record in records {
        let parts = || record.flows.iter().chain(&record.links);
        parts().for_each(|Part { name, values, .. }| look(name, values));
        look("", &record.values);
    }
    repeated
}

impl PartialEq for Runs {
    fn eq(&self, other: &Runs) -> bool {
        self.records == other.records
    }
}

impl Deref for Runs {
    type Target = BTreeMap<(usize, u64), RunRecord>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl DerefMut for Runs {
    fn deref_mut(&mut self) -> &mut Self::Target {
        // What was true of all may not be true of those that come.
        self.repeated = OnceLock::new();
        &mut self.records
    }
}

impl FromIterator<((usize, u64), RunRecord)> for Runs {
    fn from_iter<I: IntoIterator<Item = ((usize, u64), RunRecord)>>(runs: I) -> Runs {
        Runs { records: runs.into_iter().collect(), repeated: OnceLock::new() }
    }
}

impl<const N: usize> From<[((usize, u64), RunRecord); N]> for Runs {
    fn from(runs: [((usize, u64), RunRecord); N]) -> Runs {
        runs.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = (&'a (usize, u64), &'a RunRecord);
    type IntoIter = std::collections::btree_map::Iter<'a, (usize, u64), RunRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}
