//! `thalweg why LOG…`: what made a transfer slow, and what would have made it faster.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use thalweg_why::{Log, Report};

use crate::failure::{Failure, Result};
use crate::output;

/// `thalweg why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg get --qlog traces https://example.org/big.bin    # the log of the receiver; that of the sender tells more:
  thalweg serve --qlog traces ~/Public
  thalweg why traces/*_server.sqlog
  thalweg why --json traces/*_server.sqlog | jq .cause")]
pub struct WhyArgs {
    /// Logs (qlog) of senders: of the server for downloads, of the client for uploads.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print one JSON object per log instead.
    #[arg(long)]
    json: bool,
}

/// A report and whose it is.
#[derive(Serialize)]
struct Named<'a> {
    file: String,
    #[serde(flatten)]
    report: &'a Report,
}

impl WhyArgs {
    /// Reads every log and prints its answer on stdout.
    ///
    /// # Errors
    ///
    /// When a log cannot be read or does not tell enough; the others are still answered.
    pub fn run(&self) -> Result<()> {
        let mut bad = None;
        for (index, file) in self.logs.iter().enumerate() {
            let report = match answer(file) {
                Ok(report) => report,
                Err(error) => {
                    // The last is reported by whoever called.
                    if let Some(before) = bad.replace(error) {
                        eprintln!("thalweg: {before}");
                    }
                    continue;
                }
            };
            if self.json {
                output::json(&Named { file: file.display().to_string(), report: &report });
                continue;
            }
            let gap = if index > 0 { "\n" } else { "" };
            let name = if self.logs.len() > 1 { format!("{}\n", file.display()) } else { String::new() };
            if !output::bytes(format!("{gap}{name}{}", report.text()).as_bytes()) {
                return Ok(());
            }
        }
        bad.map_or(Ok(()), Err)
    }
}

/// The answer to one log. What is wrong with a log is a wrong use: exit code 2.
fn answer(file: &Path) -> Result<Report> {
    let name = file.display();
    if file.is_dir() {
        return Err(Failure::usage(format!("{name} is a directory; name the logs in it, such as {name}/*.sqlog")));
    }
    let opened = File::open(file).map_err(|error| Failure::usage(format!("cannot open {name}: {error}")))?;
    let log = Log::read(BufReader::with_capacity(1 << 18, opened));
    let log = log.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    let cannot = |error| Failure::usage(format!("cannot tell from {name}: {error}"));
    let answer = log.answer().map_err(cannot)?;
    let next = if answer.is_reproduced() { answer.next().map_err(cannot)? } else { None };
    Ok(answer.report(next))
}
