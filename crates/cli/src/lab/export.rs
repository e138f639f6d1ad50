//! `thalweg lab export`: results as tables for other programs.

use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_lab::engine::Engine;

use super::{collection, load, words};
use crate::failure::{Failure, Result};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes runs.csv (a row for each flow and run), values.csv (a row for each value), and series/*.csv (what was recorded
over time). Of a collection, each scenario gets a folder.

Examples:
  thalweg lab export results/satellite                 # to results/satellite/csv
  thalweg lab export results/recovery --out tables")]
pub(super) struct ExportArgs {
    /// Results of one scenario, or of several
    directory: PathBuf,
    /// Where the tables go [default: DIRECTORY/csv]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl ExportArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let out = self.out.unwrap_or_else(|| self.directory.join("csv"));
        let mut files = 0;
        for directory in collection::inside(&self.directory) {
            let results = load(&directory, engine)?;
            let name = directory.strip_prefix(&self.directory).unwrap_or(Path::new(""));
            files += results.export(&out.join(name)).map_err(Failure::failed)?;
        }
        eprintln!("thalweg: wrote {}", words::counted(files as u64, "file"));
        output::line(&out.display().to_string());
        Ok(())
    }
}
