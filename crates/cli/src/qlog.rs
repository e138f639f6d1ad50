//! `thalweg qlog FILE…`: a summary of a trace for people, in a page of text, or what senders did over time as a page
//! of HTML.

mod render;
mod sender;
mod summary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_lab::report::{self, Sender};
use thalweg_output::Place;
use thalweg_why::read;

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
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Draw congestion window, slow-start threshold, bytes in flight and RTT of all files over each other, with the
    /// states of congestion control, into one HTML page instead.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Columns of the plots over time.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(8..=400))]
    width: u16,
}

impl QlogArgs {
    /// Reads every file and prints its summary on stdout, or draws all of them.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is no qlog; the others are still summed up, but none is drawn.
    pub fn run(&self) -> Result<()> {
        if let Some(out) = &self.html {
            return self.draw(out);
        }
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

    fn draw(&self, out: &Path) -> Result<()> {
        // Who forgets OUT names a trace in its place.
        let is_trace = out.extension().is_some_and(|ending| ending == "sqlog" || ending == "qlog");
        let target = out.canonicalize().ok();
        let is_read = target.is_some() && self.files.iter().any(|file| file.canonicalize().ok() == target);
        if is_trace || is_read {
            let name = out.display();
            return Err(Failure::usage(format!(
                "--html {name} would replace a trace; name a page before it: --html OUT"
            )));
        }
        let mut senders = Vec::new();
        let mut bad: Option<Failure> = None;
        for (file, name) in self.files.iter().zip(names(&self.files)) {
            match read_sender(file, name) {
                Ok(sender) => senders.push(sender),
                Err(error) => {
                    // The last is reported by whoever called.
                    if let Some(before) = bad.replace(error) {
                        eprintln!("thalweg: {before}");
                    }
                }
            }
        }
        if let Some(bad) = bad {
            return Err(bad);
        }
        let title = match &senders[..] {
            [one] => format!("Congestion control of {}", one.name),
            _ => "Congestion control".to_owned(),
        };
        let page = report::senders(&title, &senders).map_err(Failure::failed)?;
        let is_file = matches!(Place::of(out), Ok(Place::File(_)));
        let advice = "name a file in a directory that exists and may be written to";
        thalweg_output::write(out, page.as_bytes())
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}; {advice}", out.display())))?;
        if is_file {
            output::line(&out.display().to_string());
        }
        Ok(())
    }
}

/// The names of files for a legend: without their directories, unless two would be the same.
fn names(files: &[PathBuf]) -> Vec<String> {
    let short = |file: &PathBuf| file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let names: Vec<String> = files.iter().map(short).collect();
    let different: BTreeSet<&String> = names.iter().collect();
    if different.len() == files.len() { names } else { files.iter().map(|file| file.display().to_string()).collect() }
}

/// Reads one trace. `width` is the number of points in the series over time.
///
/// # Errors
///
/// When the file cannot be read or holds no qlog events.
pub fn summarize(file: &Path, width: usize) -> Result<Summary> {
    let mut builder = summary::Builder::new(file.display().to_string());
    read_file(file, &mut |item| builder.add(item))?;
    builder.finish(width).context(format_args!("{} is not a trace", file.display()))
}

/// Reads what the sender of a trace did over time, for a picture.
///
/// # Errors
///
/// When the file cannot be read or has nothing to draw.
pub(crate) fn read_sender(file: &Path, name: String) -> Result<Sender> {
    let mut builder = sender::Builder::default();
    read_file(file, &mut |item| builder.add(item))?;
    builder.finish(name).context(format_args!("{} cannot be drawn", file.display()))
}

fn read_file(file: &Path, sink: &mut dyn FnMut(read::Item)) -> Result<()> {
    let name = file.display();
    if file.is_dir() {
        return Err(Failure::failed(format!("{name} is a directory; name the traces in it, such as {name}/*.sqlog")));
    }
    let opened = std::fs::File::open(file).context(format_args!("cannot open {name}"))?;
    let opened = std::io::BufReader::with_capacity(1 << 18, opened);
    read::read(opened, sink).context(format_args!("cannot read {name}"))
}
