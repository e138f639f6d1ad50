//! `thalweg lab`: the commands of the lab, and what they share (interrupts, reading results).

pub(crate) mod advise;
mod collection;
mod differences;
mod draw;
mod export;
mod forecast;
mod named;
mod outcome;
mod path_from;
mod program;
mod progress;
mod results;
mod run;
mod scenarios;
mod tables;
mod tier;
mod trace;
mod why;
mod words;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::results::Results;

use crate::failure::{Failure, Result};
use advise::AdviseArgs;
use draw::DrawArgs;
use export::ExportArgs;
use path_from::PathFromArgs;
pub use program::this_program;
use results::{CompareArgs, MergeArgs, ReportArgs, VerifyArgs};
use run::RunArgs;
use scenarios::{ListArgs, NewArgs, PoliciesArgs};
use trace::TraceArgs;

/// `thalweg lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run scenarios, judge what they expect, write reports
    Run(RunArgs),
    /// Say which recovery rules serve a path better than the shipped ones, and what they cost
    Advise(AdviseArgs),
    /// Read a path off the log (qlog) of a transfer
    PathFrom(PathFromArgs),
    /// Judge policies on drawn paths: paths that nobody chose
    Draw(DrawArgs),
    /// Show how one set of results differs from another, seed by seed
    Compare(CompareArgs),
    /// List scenarios, or the presets and metrics they can name
    List(ListArgs),
    /// Write a scenario to begin with
    New(NewArgs),
    /// Write the report of results again
    Report(ReportArgs),
    /// Write results as tables for other programs (CSV)
    Export(ExportArgs),
    /// Run again what results say was run, and check that the same comes out
    Verify(VerifyArgs),
    /// Make one run again and write its qlog files and packets (pcapng)
    Trace(TraceArgs),
    /// Put the parts of a sharded sweep together
    Merge(MergeArgs),
    /// Check that every policy changes what happens in some scenario
    Policies(PoliciesArgs),
}

impl LabArgs {
    /// Runs the command on the simulator with the stacks that `engine` knows. Its results are those of this very build.
    ///
    /// # Errors
    ///
    /// When an expectation or a run failed (1), or the scenario or command line is wrong (2).
    pub fn run(self, engine: SimEngine) -> Result<()> {
        self.run_with(&engine.with_build(&this_program()))
    }

    /// Runs the command on any engine.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_with(self, engine: &dyn Engine) -> Result<()> {
        match self.command {
            LabCommand::Run(args) => args.run(engine),
            LabCommand::Advise(args) => args.run(engine, stop_on_interrupt()),
            LabCommand::PathFrom(args) => args.run(),
            LabCommand::Draw(args) => args.run(engine),
            LabCommand::Compare(args) => args.run(engine),
            LabCommand::List(args) => args.run(engine),
            LabCommand::New(args) => args.run(engine),
            LabCommand::Report(args) => args.run(engine),
            LabCommand::Export(args) => args.run(engine),
            LabCommand::Verify(args) => args.run(engine),
            LabCommand::Trace(args) => args.run(engine),
            LabCommand::Merge(args) => args.run(engine),
            LabCommand::Policies(args) => args.run(engine),
        }
    }
}

/// Becomes true at the first Ctrl-C; the second ends the program.
pub(crate) fn stop_on_interrupt() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if STOP.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                progress::say("thalweg: finishing the runs that are under way; press Ctrl-C again to stop at once");
            }
        });
    });
    &STOP
}

/// Reads the results in a directory.
fn load(directory: &Path, engine: &dyn Engine) -> Result<Results> {
    if !directory.join("manifest.json").exists() {
        return Err(Failure::usage(format!(
            "{} holds no results: it has no manifest.json; name a folder that thalweg lab run wrote",
            directory.display()
        )));
    }
    Results::load(directory, &engine.stacks()).map_err(Failure::usage)
}
