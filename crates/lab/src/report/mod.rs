//! The answer as one page that opens from a file: verdicts, tables, distributions, time plots, and how to reproduce it.

mod collection;
mod compared;
pub mod csv;
mod delivery;
mod figures;
mod limited;
mod overlay;
mod page;
mod picture;
mod thin;
mod waits;

use std::collections::BTreeMap;
use std::path::Path;

use crate::record::{Recording, RunRecord};
use crate::scenario::Scenario;
use crate::store::{Manifest, Plan, Store, StoreError};
use crate::summary::{self, Difference, Run, Runs, Verdict};

/// How many recordings a page has, unless it is told: the others are in files beside it.
pub const MOST_RECORDINGS: usize = 12;

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

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The template. A bug here, not a mistake of the user.
    #[error("the report's template does not work: {0}")]
    Template(#[from] minijinja::Error),
    /// Data that cannot be written as JSON.
    #[error("results cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Results {
    /// Reads the results in a directory.
    ///
    /// # Errors
    /// When there are none, or their scenario can no longer be read.
    pub fn load(directory: &std::path::Path, stacks: &[crate::scenario::StackInfo]) -> Result<Results, LoadError> {
        let (store, manifest) = Store::open(directory)?;
        let scenario = manifest.scenario(stacks)?;
        let runs = summary::load(&store, &manifest, &scenario);
        Ok(Results { scenario, runs, manifest, store })
    }

    /// Merges `parts` of the same work into `store`: takes their runs over and writes the manifest of all.
    ///
    /// # Errors
    /// When they are not of the same scenario and version, when two of them say different things about the same run,
    /// when a file cannot be read or written, or when their scenario can no longer be read. In the last case the merged
    /// results are there all the same.
    pub fn merge(store: Store, parts: &[Store], stacks: &[crate::scenario::StackInfo]) -> Result<Results, LoadError> {
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

    /// Writes `report.html` and `results.json`, which holds what was summed up; gives the page's path.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self) -> Result<std::path::PathBuf, ReportError> {
        self.write_with(MOST_RECORDINGS)
    }

    /// The same with so many recordings in the page, if there are as many.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_with(&self, recordings: usize) -> Result<std::path::PathBuf, ReportError> {
        let summed = csv::results(self);
        self.store.write_with("results.json", |out| Ok(serde_json::to_writer_pretty(out, &summed)?))?;
        drop(summed);
        let page = page::single(self, recordings)?;
        Ok(self.store.write("report.html", page.as_bytes())?)
    }

    /// Writes what the results hold as tables for other programs into `folder`, which is made if need be: `runs.csv`,
    /// `values.csv`, and for each recorded run its `series/*.csv`. Gives the number of files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn export(&self, folder: &Path) -> Result<usize, ReportError> {
        let folder = Store::create(folder)?;
        folder.write_with("runs.csv", |out| csv::runs(&self.scenario, &self.runs, out))?;
        folder.write_with("values.csv", |out| csv::values(&self.scenario, &self.runs, out))?;
        let mut files = 2;
        for (name, recording) in self.recordings() {
            for series in &recording.series {
                let file = format!("series/{}.csv", csv::file_name(&[&name, &series.subject, &series.name]));
                folder.write(&file, csv::series(series).as_bytes())?;
                files += 1;
            }
            for plot in &recording.packets {
                let file = format!("series/{}.csv", csv::file_name(&[&name, &plot.subject, "packets"]));
                folder.write(&file, csv::packets(plot).as_bytes())?;
                files += 1;
            }
        }
        Ok(files)
    }

    /// Every recording with the point and seed it is of, read from disk one by one.
    fn recordings(&self) -> impl Iterator<Item = (String, Recording)> + '_ {
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
    Scenario(#[from] crate::scenario::ScenarioError),
}

/// The page that shows how B differs from A.
///
/// # Errors
/// When the template does not work.
pub fn comparison(a: &Results, b: &Results) -> Result<(String, Vec<Difference>), ReportError> {
    let differences = summary::compare((&a.scenario, &a.runs), (&b.scenario, &b.runs));
    Ok((page::comparison(a, b)?, differences))
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

/// One page for several scenarios, with a link to each scenario's own page; the directories of the results are below
/// `directory`.
///
/// # Errors
/// When the template does not work.
pub fn collection(title: &str, sets: &[Results], directory: &Path) -> Result<String, ReportError> {
    let link = |set: &Results| {
        let inside = set.store.directory().strip_prefix(directory).unwrap_or(set.store.directory());
        inside.join("report.html").display().to_string()
    };
    collection::page(title, sets, &sets.iter().map(link).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
