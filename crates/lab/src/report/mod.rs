//! The report as one page that opens from a file: verdicts, tables, distributions, time plots, and how to reproduce it.

mod assets;
mod collection;
mod compared;
pub mod csv;
mod emulated;
mod error;
pub mod json;
mod limited;
mod measurement;
mod overlay;
mod page;
mod picture;
mod plots;
mod senders;
mod shown;
mod tables;
mod thin;
mod words;

use std::path::Path;

pub use emulated::{Emulated, EmulatedDirection, emulated};
pub use error::ReportError;
pub use measurement::{DelayCourse, Delays, Magnified, Measurement, measurement};
pub use overlay::MOST_RECORDINGS;
pub use senders::{Sender, explained, senders};

use crate::file_name::file_name;
use crate::results::Results;
use crate::store::Store;
use crate::summary::{self, Difference};

impl Results {
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
        let summed = json::results(self);
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
                let file = format!("series/{}.csv", file_name(&[&name, &series.subject, &series.name]));
                folder.write(&file, csv::series(series).as_bytes())?;
                files += 1;
            }
            for plot in &recording.packets {
                let file = format!("series/{}.csv", file_name(&[&name, &plot.subject, "packets"]));
                folder.write(&file, csv::packets(plot).as_bytes())?;
                files += 1;
            }
        }
        Ok(files)
    }
}

/// The page that shows how B differs from A.
///
/// # Errors
/// When the template does not work.
pub fn comparison(a: &Results, b: &Results) -> Result<(String, Vec<Difference>), ReportError> {
    let differences = summary::compare((&a.scenario, &a.runs), (&b.scenario, &b.runs));
    Ok((page::comparison(a, b)?, differences))
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
