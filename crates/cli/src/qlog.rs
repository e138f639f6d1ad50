//! `thalweg qlog FILE…`: a summary of a trace for people, in a page of text.

mod reader;
mod render;
mod summary;

use std::path::PathBuf;

use clap::Args;

pub use self::summary::Summary;
use crate::failure::{Context, Failure, Result};
use crate::output;

/// `thalweg qlog`.
#[derive(Debug, Args)]
pub struct QlogArgs {
    /// Traces to read: .sqlog (JSON text sequences) or .qlog (one JSON document), current drafts or version 0.3.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object per file instead.
    #[arg(long)]
    json: bool,
    /// Columns of the plots over time.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(8..=400))]
    width: u16,
}

impl QlogArgs {
    /// Reads every file and prints its summary on stdout.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is no qlog; the others are still printed.
    pub fn run(&self) -> Result<()> {
        let mut bad = None;
        for (index, file) in self.files.iter().enumerate() {
            let summary = match summarize(file, usize::from(self.width)) {
                Ok(summary) => summary,
                Err(error) => {
                    eprintln!("thalweg: {error}");
                    bad = Some(error);
                    continue;
                }
            };
            let text = if self.json {
                let mut line = serde_json::to_string(&summary).context("JSON")?;
                line.push('\n');
                line
            } else {
                let gap = if index > 0 { "\n" } else { "" };
                format!("{gap}{}", render::text(&summary))
            };
            if !output::bytes(text.as_bytes()) {
                // Whoever reads our output has seen enough (`| head`), or cannot take it.
                return Ok(());
            }
        }
        match bad {
            None => Ok(()),
            Some(_) => Err(Failure::failed("not every trace could be read")),
        }
    }
}

/// Reads one trace. `width` is the number of points in the series over time.
///
/// # Errors
///
/// When the file cannot be read or holds no qlog events.
pub fn summarize(file: &std::path::Path, width: usize) -> Result<Summary> {
    let name = file.display();
    let opened = std::fs::File::open(file).context(format_args!("cannot open {name}"))?;
    let mut builder = summary::Builder::new(name.to_string());
    reader::read(std::io::BufReader::with_capacity(1 << 18, opened), &mut |item| builder.add(item))
        .context(format_args!("cannot read {name}"))?;
    builder.finish(width).context(format_args!("{name} is not a trace"))
}
