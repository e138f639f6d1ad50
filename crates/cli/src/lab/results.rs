//! Commands on results that are there: compare, report, verify, merge.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::json;
use thalweg_lab::engine::Engine;
use thalweg_lab::judgment::Judgment;
use thalweg_lab::report;
use thalweg_lab::results::{self, Results};
use thalweg_lab::runner::{self, RunOptions};
use thalweg_lab::store::{Store, write_whole};

use super::outcome::{Detail, outcome, question};
use super::progress::Bar;
use super::run::verdict;
use super::{collection, differences, load, stop_on_interrupt, words};
use crate::failure::{Failure, Result};
use crate::output;
use crate::paint::Paint;

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Results to compare with
    a: PathBuf,
    /// Results to be compared
    b: PathBuf,
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = "comparison.html")]
    out: PathBuf,
    /// Print differences as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Results
    directory: PathBuf,
    /// How many recorded runs to put into the page of a scenario
    #[arg(long, value_name = "N", default_value_t = report::MOST_RECORDINGS)]
    recordings: usize,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Results
    directory: PathBuf,
    /// Threads; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// Results of parts
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// Where the whole goes
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print only what went wrong
    #[arg(long, short)]
    quiet: bool,
    /// Print every figure, setting and verdict
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

impl CompareArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let (a, b) = (load(&self.a, engine)?, load(&self.b, engine)?);
        let (page, differences) = report::comparison(&a, &b).map_err(Failure::failed)?;
        write_whole(&self.out, page.as_bytes()).map_err(Failure::failed)?;
        if differences.is_empty() {
            return Err(Failure::usage(format!(
                "{} and {} have no point, flow and seed in common",
                self.a.display(),
                self.b.display()
            )));
        }
        let common = results::common(&a, &b);
        eprint!("{}", differences::compared(common, &differences, Paint::of_stderr()));
        if self.json {
            output::json(
                &json!({ "report": self.out, "identical": common.is_identical(), "differences": differences }),
            );
        } else {
            output::line(&self.out.display().to_string());
        }
        Ok(())
    }
}

impl ReportArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let mut sets = Vec::new();
        for directory in collection::inside(&self.directory) {
            let results = load(&directory, engine)?;
            let page = results.write_with(self.recordings).map_err(Failure::failed)?;
            output::line(&page.display().to_string());
            sets.push(results);
        }
        if sets.len() > 1 || sets.first().is_some_and(|results| results.store.directory() != self.directory) {
            output::line(&collection::write(&self.directory, &sets)?.display().to_string());
        }
        Ok(())
    }
}

/// The most runs that are named if they came out differently.
const MOST_MISMATCHES: usize = 20;

/// What to call the hash of a run that may have panicked.
fn hash_or_panic(hash: &str) -> &str {
    if hash.is_empty() { "of a panic" } else { hash }
}

impl VerifyArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let stop = stop_on_interrupt();
        let mut wrong = Vec::new();
        let directories = collection::inside(&self.directory);
        let count = directories.len();
        for (number, directory) in directories.iter().enumerate() {
            let of = (count > 1).then_some((number + 1, count));
            if let Err(failure) = self.one(directory, engine, of, stop) {
                match failure {
                    Failure::Failed(reason) if !stop.load(Ordering::Relaxed) => wrong.push(reason),
                    other => return Err(other),
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Failure::failed(wrong.join("; "))) }
    }

    fn one(&self, directory: &Path, engine: &dyn Engine, of: Option<(usize, usize)>, stop: &AtomicBool) -> Result<()> {
        let results = load(directory, engine)?;
        let version = engine.version();
        if results.manifest.engine != version {
            eprintln!("thalweg: the results are of {}, this is {version}", results.manifest.engine);
        }
        let bar = Bar::of_scenario(&results.scenario.name, of, false);
        let progress = |progress| bar.show(progress);
        let options = RunOptions { threads: self.threads, ..RunOptions::new(stop, &progress) };
        let verification = runner::verify(&results.scenario, engine, &results.manifest, &options);
        bar.end();
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("interrupted before everything was checked"));
        }
        let mismatches = &verification.mismatches;
        // Not wrapped: each ends in a command that is to be copied.
        for mismatch in mismatches.iter().take(MOST_MISMATCHES) {
            eprintln!(
                "thalweg: point {}, seed {}: {} hash {} instead of {}; see it with: {}",
                mismatch.point,
                mismatch.seed,
                mismatch.what,
                hash_or_panic(&mismatch.found),
                hash_or_panic(&mismatch.expected),
                runner::replay(&results.scenario, mismatch.point, mismatch.seed)
            );
        }
        if let Some(more) = mismatches.len().checked_sub(MOST_MISMATCHES).filter(|more| *more > 0) {
            eprintln!("thalweg: … and {more} more");
        }
        let total = verification.checked;
        for (runs, what) in [
            (verification.absent, "are of stacks that are not in this program; thalweg-peers lab verify has them"),
            (verification.unrepeatable, "are of stacks that do not promise the same run twice"),
        ] {
            if runs > 0 {
                eprintln!("thalweg: not checked: {runs} runs {what}");
            }
        }
        if total == 0 {
            Err(Failure::failed(format!("{}: there was no run to check", results.scenario.name)))
        } else if mismatches.is_empty() {
            eprintln!("thalweg: {}: all {total} runs came out the same", results.scenario.name);
            Ok(())
        } else {
            let (name, wrong) = (&results.scenario.name, mismatches.len());
            Err(Failure::failed(format!(
                "{name}: {wrong} of {total} runs came out differently; if this is the program that made them, one of two \
                 machines errs: verify on a third"
            )))
        }
    }
}

impl MergeArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let groups = collection::parts(&self.directories);
        let several = groups.len() > 1 || groups.keys().any(|name| !name.as_os_str().is_empty());
        let (mut sets, paint) = (Vec::new(), Paint::of_stderr());
        let (mut failed, mut ended) = (Vec::new(), Ok(()));
        for (name, directories) in groups {
            let parts: std::result::Result<Vec<Store>, _> =
                directories.iter().map(|directory| Store::open(directory).map(|(store, _)| store)).collect();
            let parts = parts.map_err(Failure::usage)?;
            let out = self.out.join(name);
            let count = parts.len() as u64;
            let store = Store::create(&out).map_err(Failure::failed)?;
            let results = Results::merge(store, &parts, &engine.stacks()).map_err(Failure::usage)?;
            let manifest = &results.manifest;
            let asked = manifest.seeds * manifest.points.len() as u64;
            if !self.quiet {
                let runs = format!("{} of {asked} runs from {}", manifest.runs.len(), words::counted(count, "part"));
                eprintln!("{}  {runs}", question(&results.scenario, paint));
            }
            let page = results.write().map_err(Failure::failed)?;
            let judgment = Judgment::of(&results);
            let detail = Detail::of(self.quiet, self.verbose);
            eprint!("{}", outcome(&results, &judgment, detail, paint));
            output::line(&page.display().to_string());
            match verdict(&judgment, &page) {
                Err(Failure::Failed(reason)) if several => {
                    eprintln!("thalweg: {reason}");
                    failed.push(results.scenario.name.clone());
                }
                other => ended = other,
            }
            sets.push(results);
        }
        if several {
            output::line(&collection::write(&self.out, &sets)?.display().to_string());
        }
        ended?;
        if failed.is_empty() { Ok(()) } else { Err(Failure::failed(format!("failed: {}", failed.join(", ")))) }
    }
}
