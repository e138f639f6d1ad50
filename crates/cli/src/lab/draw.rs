//! `thalweg lab draw`: judges policies on paths that are drawn at random.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_lab::draw::gate::{Committed, Draw};
use thalweg_lab::draw::{self, Options, Request, Results, SchedulerPolicy};
use thalweg_lab::engine::Engine;
use thalweg_lab::store::write_whole;
use thalweg_recovery::Policies;

use super::progress::Bar;
use super::stop_on_interrupt;
use super::words::counted;
use crate::failure::{Context, Failure, Result};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg lab draw --single 200 --shared 100
  thalweg lab draw --single 1 --shared 0 --from 37         # world 37 alone: the same world, the same result
  thalweg lab draw --single 30 --shared 30 --check scenarios/drawn.json
  thalweg lab draw --single 0 --shared 0 --pairs 200       # two paths at once
  thalweg lab draw --single 20 --shared 0 --write drawn    # as files, for thalweg lab run and lab trace")]
pub(super) struct DrawArgs {
    /// How many paths that our flow has for itself
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u64).range(..=draw::MOST))]
    single: u64,
    /// How many paths that our flow shares with one to eight rivals
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=draw::MOST))]
    shared: u64,
    /// How many pairs of paths that our flow uses at once
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=draw::MOST))]
    pairs: u64,
    /// Which of a pair's paths carries what, such as "earliest" [default: the shipped scheduler]
    #[arg(long, value_name = "NAME", requires = "pairs")]
    scheduler: Option<SchedulerPolicy>,
    /// The number of the first world of each class; what a world is depends on its number only
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    from: u64,
    /// The policies to judge, such as "controller=bbr"; `thalweg policies` lists them [default: the shipped ones]
    #[arg(long, value_name = "FIELD=NAME,...", default_value_t, hide_default_value = true)]
    policies: Policies,
    /// Write the worlds as scenario files into DIR, and run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "check", "commit"])]
    write: Option<PathBuf>,
    /// Write every figure and every world as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail if a connection dies, a run never completes, or the share or the mean is worse than in FILE by more than
    /// its interval
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policies", "commit", "pairs"])]
    check: Option<PathBuf>,
    /// Write the figures into FILE, in place of those of the same worlds, for `--check`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policies", "pairs"])]
    commit: Option<PathBuf>,
    /// Threads; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print only what went wrong
    #[arg(long, short)]
    quiet: bool,
}

impl DrawArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let Self { single, shared, pairs, from, .. } = self;
        if single + shared + pairs == 0 {
            return Err(Failure::usage("there is nothing to draw: ask for paths with --single, --shared or --pairs"));
        }
        let (policies, scheduler) = (self.policies.clone(), self.scheduler.clone());
        let request = Request { single, shared, pairs, scheduler, from, policies };
        if let Some(directory) = &self.write {
            return write(&request, directory);
        }
        // Before the runs: a file that cannot be used shows at once.
        let known = match &self.check {
            Some(file) => Some((file, committed(file)?)),
            None => None,
        };
        let results = self.results(&request, engine)?;
        if !self.quiet {
            output::line(&results.to_string());
        }
        if let Some(file) = &self.json {
            let text = serde_json::to_vec_pretty(&results).context("JSON")?;
            write_whole(file, &text).map_err(Failure::failed)?;
        }
        if let Some(file) = &self.commit {
            let mut all = match fs::metadata(file) {
                Err(error) if error.kind() == ErrorKind::NotFound => Committed::default(),
                // Of another distribution nothing is worth keeping, and the user asked for it to be written again.
                _ => committed(file).unwrap_or_default(),
            };
            all.put(Draw::of(&results));
            write_whole(file, all.text().as_bytes()).map_err(Failure::failed)?;
        }
        match known {
            Some((file, committed)) => check(&results, &committed, file),
            None => Ok(()),
        }
    }

    fn results(&self, request: &Request, engine: &dyn Engine) -> Result<Results> {
        let stop = stop_on_interrupt();
        let bar = Bar::of_scenario("drawn worlds", None, self.quiet);
        let options = Options { threads: self.threads, stop, progress: &|progress| bar.show(progress) };
        let results = draw::run(request, engine, &options).map_err(Failure::usage)?;
        bar.end();
        results.ok_or_else(|| Failure::failed("interrupted: figures need all of the worlds that were asked for"))
    }
}

/// Writes worlds as scenario files, and names the folder.
fn write(request: &Request, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).context(format!("cannot make {}", directory.display()))?;
    let worlds = request.worlds();
    for world in &worlds {
        write_whole(&directory.join(world.file_name()), world.text.as_bytes()).map_err(Failure::failed)?;
    }
    let (files, directory) = (counted(worlds.len() as u64, "scenario"), directory.display());
    eprintln!("thalweg: wrote {files}; now run: thalweg lab run {directory}");
    output::line(&directory.to_string());
    Ok(())
}

fn committed(file: &Path) -> Result<Committed> {
    let text =
        fs::read_to_string(file).map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Committed::parse(&text).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

fn check(results: &Results, committed: &Committed, file: &Path) -> Result<()> {
    let found = committed.compare(results).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    for remark in &found.remarks {
        eprintln!("thalweg: {remark}");
    }
    if found.worse.is_empty() {
        eprintln!("thalweg: no worse than {}", file.display());
        return Ok(());
    }
    for worse in &found.worse {
        eprintln!("thalweg: {worse}");
    }
    Err(Failure::failed(format!("drawn worlds are worse than {} says", file.display())))
}
