//! `thalweg lab advise`: which recovery rules serve a path.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;
use thalweg_lab::advise::{self, Advice, Candidate, Effort, Options, Ratio, Request};
use thalweg_lab::engine::Engine;
use thalweg_link::PathConfig;

use super::progress::Bar;
use crate::emulation::path::PathArgs;
use crate::failure::{Failure, Result};
use crate::output;
use crate::text::count;

/// Choices of the first round that are listed.
const MOST_SCREENED: usize = 5;

#[derive(Debug, Args)]
#[command(after_help = "\
A download, a page and a call are run over the path with every choice that `thalweg policies` offers for use, on the
same seeds. The answer may be that there is nothing to gain.

Examples:
  thalweg probe example.org --for 5m --scenario path.toml
  thalweg lab advise path.toml --path model
  thalweg lab advise --preset wifi --json")]
pub(crate) struct AdviseArgs {
    /// A file with [path.NAME], such as one of `thalweg probe --scenario`, or a scenario
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    path: PathArgs,
    /// Print JSON on stdout instead of words
    #[arg(long)]
    json: bool,
    /// Threads; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl AdviseArgs {
    /// Advises on the path that is asked for. `stop` becomes true when it is to be given up.
    pub(super) fn run(self, engine: &dyn Engine, stop: &AtomicBool) -> Result<()> {
        let chosen = self.path.choose(self.file.as_ref())?;
        let advice = advice(chosen.hops, engine, stop, self.threads, self.quiet)?;
        if self.json {
            output::json(&advice);
        } else {
            output::bytes(words(&advice).as_bytes());
        }
        Ok(())
    }
}

/// Advice for a path, with a bar on a terminal.
///
/// # Errors
/// When it was interrupted, or the path cannot be run.
pub(crate) fn advice(
    hops: Vec<PathConfig>,
    engine: &dyn Engine,
    stop: &AtomicBool,
    threads: usize,
    quiet: bool,
) -> Result<Advice> {
    let bar = Bar::of_scenario("advice", None, quiet);
    let options = Options { threads, stop, progress: &|progress| bar.show(progress) };
    let advice =
        advise::advise(&Request { hops, effort: Effort::default() }, engine, &options).map_err(Failure::usage)?;
    bar.end();
    advice.ok_or_else(|| Failure::failed("interrupted: advice needs all of its runs"))
}

/// The advice, and what it rests on.
pub(crate) fn words(advice: &Advice) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_words(&mut out, advice);
    out
}

fn seconds(value: f64) -> String {
    thalweg_units::human_duration(std::time::Duration::from_secs_f64(value.clamp(0.0, 1e9)))
}

/// "0.88, 0.84 to 0.92".
fn ratio(ratio: &Ratio) -> String {
    match ratio.interval {
        Some(interval) => format!("{:.3} ({:.3} to {:.3})", ratio.value, interval.low, interval.high),
        None => format!("{:.3}", ratio.value),
    }
}

fn write_words(out: &mut String, advice: &Advice) -> std::fmt::Result {
    writeln!(out, "{}", advice.sentence)?;
    if let Some(candidate) = &advice.candidate {
        write_candidate(out, candidate, advice.advised.is_some())?;
    }
    if !advice.screened.is_empty() {
        writeln!(out, "\n  choices at first sight, in all uses together, times the shipped rules:")?;
        for one in advice.screened.iter().take(MOST_SCREENED) {
            writeln!(out, "  {:<28}{:.3}", one.choice.to_string(), one.score)?;
        }
        let more = advice.screened.len().saturating_sub(MOST_SCREENED);
        if more > 0 {
            writeln!(out, "  and {more} more; --json lists all")?;
        }
    }
    if !advice.same.is_empty() {
        writeln!(out, "  {} nothing here", changes(advice.same.len()))?;
    }
    let size = thalweg_units::human_bytes(advice.download);
    writeln!(out, "  {} of a download of {size}, a page of 870 kB and a call", count(advice.runs as u64, "run"))
}

fn changes(choices: usize) -> String {
    match choices {
        1 => "1 choice changes".to_owned(),
        many => format!("{many} choices change"),
    }
}

fn write_candidate(out: &mut String, candidate: &Candidate, is_advised: bool) -> std::fmt::Result {
    let name = candidate.choice.to_string();
    if !is_advised {
        writeln!(out, "\n  the best of them, {name}, on fresh seeds:")?;
    }
    writeln!(out, "\n  {:<26}{:>10}  {:>10}  times shipped, 95 %", "", "shipped", "with")?;
    for effect in &candidate.effects {
        let (shipped, with) = (seconds(effect.shipped), seconds(effect.with));
        let failed = match effect.failed {
            [0, 0] => String::new(),
            [shipped, with] => format!("; failed {shipped} and {with} times"),
        };
        writeln!(out, "  {:<26}{shipped:>10}  {with:>10}  {}{failed}", effect.measures, ratio(&effect.ratio))?;
    }
    writeln!(out, "  {:<26}{:>10}  {:>10}  {}", "all three", "", "", ratio(&candidate.score))?;
    for effect in &candidate.effects {
        if let Some(bytes) = effect.bytes.filter(|bytes| bytes.differs) {
            writeln!(out, "  {:<26}{:>10}  {:>10}  {}", format!("bytes, {}", effect.name), "", "", ratio(&bytes))?;
        }
    }
    match &candidate.beside {
        Some(beside) => {
            writeln!(out, "  {:<26}{:>10}  {:>10}  {}", "a CUBIC download beside it", "", "", ratio(beside))
        }
        None => Ok(()),
    }
}
