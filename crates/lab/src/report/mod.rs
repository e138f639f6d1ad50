//! The answer as one page that opens from a file: verdicts, tables, distributions, time plots, and how to reproduce it.

mod collection;
pub mod csv;
mod delivery;
mod figures;
mod overlay;
mod page;
mod picture;
mod thin;

use std::path::Path;

use crate::record::Recording;
use crate::scenario::Scenario;
use crate::store::{Manifest, Store, StoreError};
use crate::summary::{self, Difference, Runs, Verdict};

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

    /// Judges the expectations.
    pub fn verdicts(&self) -> Vec<Verdict> {
        summary::verdicts(&self.scenario, &self.runs)
    }

    /// Writes `report.html`, `runs.csv`, `values.csv`, `results.json` and `series/*.csv`; gives the page's path.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self) -> Result<std::path::PathBuf, ReportError> {
        self.store.write("runs.csv", csv::runs(&self.scenario, &self.runs).as_bytes())?;
        self.store.write_with("values.csv", |out| csv::values(&self.scenario, &self.runs, out))?;
        let text = serde_json::to_vec_pretty(&csv::results(self))?;
        self.store.write("results.json", &text)?;
        for (name, recording) in self.recordings() {
            for series in &recording.series {
                let file = format!("series/{}.csv", csv::file_name(&[&name, &series.subject, &series.name]));
                self.store.write(&file, csv::series(series).as_bytes())?;
            }
            for plot in &recording.packets {
                let file = format!("series/{}.csv", csv::file_name(&[&name, &plot.subject, "packets"]));
                self.store.write(&file, csv::packets(plot).as_bytes())?;
            }
        }
        let page = page::single(self)?;
        Ok(self.store.write("report.html", page.as_bytes())?)
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

/// One page for several scenarios, with a link to each scenario's own page; the directories of the results are below `directory`.
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
