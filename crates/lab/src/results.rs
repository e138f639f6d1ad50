//! The results of a scenario: what was asked, what was run and what came of it, read from a folder.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;

use crate::record::{Recording, RunRecord};
use crate::scenario::{Scenario, ScenarioError, StackInfo};
use crate::store::{AT_ONCE, Manifest, ManifestRun, Plan, Store, StoreError};
use crate::summary::{self, Run, Runs, Verdict};

/// The results of one scenario, ready to be shown.
#[derive(Debug)]
pub struct Results {
    /// What was asked.
    pub scenario: Scenario,
    /// What came out.
    pub runs: Runs,
    /// What was run.
    pub manifest: Manifest,
    /// Where it is.
    pub store: Store,
}

impl Results {
    /// Reads the results in a directory.
    ///
    /// # Errors
    /// When there are none, or their scenario can no longer be read.
    pub fn load(directory: &Path, stacks: &[StackInfo]) -> Result<Results, LoadError> {
        let (store, manifest) = Store::open(directory)?;
        let scenario = manifest.scenario(stacks)?;
        let runs = load(&store, &manifest, &scenario);
        Ok(Results { scenario, runs, manifest, store })
    }

    /// Merges `parts` of the same work into `store`: takes their runs over and writes the manifest of all.
    ///
    /// # Errors
    /// When they are not of the same scenario and version, when two of them say different things about the same run,
    /// when a file cannot be read or written, or when their scenario can no longer be read. In the last case the merged
    /// results are there all the same.
    pub fn merge(store: Store, parts: &[Store], stacks: &[StackInfo]) -> Result<Results, LoadError> {
        let plan = Plan::of(parts)?;
        let scenario = plan.manifest.scenario(stacks);
        let mut runs = Runs::new();
        let places = scenario.as_ref().map_or(Vec::new(), |scenario| plan.manifest.places(scenario));
        let place = |point: usize| places.get(point).copied().flatten();
        store.take_over(&plan, |point, seed, record| {
            if let Some(place) = place(point) {
                runs.insert((place, seed), record);
            }
        })?;
        let manifest = plan.manifest;
        for run in &manifest.runs {
            // A failed run of which nothing else is known stands as its failure.
            if let (Some(reason), Some(place)) = (&run.failed, place(run.point))
                && !runs.contains_key(&(place, run.seed))
            {
                runs.insert((place, run.seed), &RunRecord::failure(reason.clone()));
            }
        }
        Ok(Results { scenario: scenario?, runs, manifest, store })
    }

    /// Judges the expectations.
    pub fn verdicts(&self) -> Vec<Verdict> {
        summary::verdicts(&self.scenario, &self.runs)
    }

    /// Every recording with the point and seed it is of, read from disk one by one.
    pub(crate) fn recordings(&self) -> impl Iterator<Item = (String, Recording)> + '_ {
        self.manifest.runs.iter().filter_map(|run| {
            let point = self.manifest.points.get(run.point)?;
            let recording = self.store.recording(&point.key, run.seed)?;
            let name = match point.name.is_empty() {
                true => format!("seed {}", run.seed),
                false => format!("{}, seed {}", point.name, run.seed),
            };
            Some((name, recording))
        })
    }
}

/// Why results could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

/// The runs that a manifest lists, by the points of `scenario`, which has fewer than the manifest if this program has
/// fewer stacks. A failed run of which nothing else is known stands as its failure.
pub fn load(store: &Store, manifest: &Manifest, scenario: &Scenario) -> Runs {
    let places = manifest.places(scenario);
    let read = |run: &ManifestRun| {
        let (point, place) = (manifest.points.get(run.point)?, places.get(run.point).copied()??);
        let record = store.run(&point.key, run.seed).or_else(|| run.failed.clone().map(RunRecord::failure))?;
        Some(((place, run.seed), record))
    };
    let mut runs = Runs::new();
    for some in manifest.runs.chunks(AT_ONCE) {
        let records: Vec<_> = some.par_iter().filter_map(read).collect();
        records.iter().for_each(|(run, record)| runs.insert(*run, record));
    }
    runs
}

/// What two sets of results have in common: runs of points of one name and of one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// How many runs are in both.
    pub runs: usize,
    /// How many of these have the same event logs in both: the same packets at the same times, for the same decisions.
    pub same: usize,
}

impl Common {
    /// Whether there are runs in both, and all of them are the same.
    pub fn is_identical(self) -> bool {
        self.runs > 0 && self.same == self.runs
    }
}

/// Counts the runs that two sets of results have in common. Runs that panicked have no event log and are never the
/// same.
pub fn common(a: &Results, b: &Results) -> Common {
    let name = |results: &Results, point: usize| {
        results.scenario.points.get(point).map(|point| point.name(&results.scenario.axes))
    };
    let place_in_b: BTreeMap<String, usize> =
        (0..b.scenario.points.len()).rev().filter_map(|point| Some((name(b, point)?, point))).collect();
    let mut common = Common::default();
    for ((point, seed), record) in &a.runs {
        let Some(place) = name(a, *point).and_then(|name| place_in_b.get(&name)) else { continue };
        let Some(other) = b.runs.get(&(*place, *seed)) else { continue };
        common.runs += 1;
        let hashes = |run: &Run| [run.wire_hash().to_owned(), run.decisions_hash().to_owned()];
        common.same += usize::from(!record.wire_hash().is_empty() && hashes(record) == hashes(other));
    }
    common
}
