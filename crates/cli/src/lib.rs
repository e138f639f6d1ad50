//! The `thalweg` program as a library: serve, get, put, perf, probe, qlog, why, policies, lab, relay, emulate, demo.
//!
//! [`main`] takes the command line and gives the exit code: 0 done, 1 a transfer or check failed or stdout did not take
//! the data, 2 wrong usage; that of `emulate` is the exit code of the program that it runs. A `get` or `put` that
//! Ctrl-C interrupts ends by that signal. Messages for people go to stderr, data goes to stdout.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod columns;
pub mod content;
pub mod demo;
pub mod emulate;
mod emulation;
pub mod failure;
pub mod fetch;
pub mod figures;
pub mod get;
mod interrupt;
pub mod lab;
pub mod live;
pub mod options;
mod output;
mod paint;
pub mod perf;
pub mod policies;
pub mod probe;
mod progress;
pub mod put;
pub mod qlog;
pub mod qlog_dir;
pub mod relay;
mod renamed;
pub mod serve;
pub mod shell;
mod text;
pub mod why;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use thalweg_lab::engine::SimEngine;

use crate::failure::{Context, Failure, Result};

/// Serves and fetches files over QUIC and HTTP/3, measures paths, and explains what happened on them.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a directory over HTTP/3, and over HTTPS on TCP beside it
    Serve(serve::ServeArgs),
    /// Fetch files over HTTP/3, or over TCP when UDP is blocked
    Get(get::GetArgs),
    /// Store a file on a server that allows it
    Put(put::PutArgs),
    /// Measure raw QUIC from memory to memory, in either direction
    Perf(perf::PerfArgs),
    /// Measure what a path does, each way by itself, and say in a sentence what is the matter with it
    Probe(probe::ProbeArgs),
    /// Explain a trace: phases, round-trip times, losses, what limited the transfer when
    Qlog(qlog::QlogArgs),
    /// Say what made a transfer slow, and what would have made it faster, by the log of its sender
    Why(why::WhyArgs),
    /// List the recovery rules that can be named in --policies
    Policies(policies::PoliciesArgs),
    /// Ask the network lab: scenarios in virtual time, answered with intervals and verdicts
    Lab(lab::LabArgs),
    /// Relay UDP datagrams over a path of the lab, in real time
    Relay(relay::RelayArgs),
    /// Run a program behind a path of the lab, in real time, in a network namespace of its own
    Emulate(emulate::EmulateArgs),
    /// See it work: serve, fetch through a lossy relay, compare, print the figures
    Demo(demo::DemoArgs),
    /// Print a script with which a shell completes the commands and options
    Completions(shell::CompletionsArgs),
    /// Print the manual page of the program, or of one of its commands
    Man(shell::ManArgs),
}

/// Runs the program with these arguments, the first being its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    main_as("thalweg", args, SimEngine::default)
}

/// The same under another name, its lab running on `engine`, which may know more stacks.
pub fn main_as(
    name: &'static str,
    args: impl IntoIterator<Item = OsString>,
    engine: impl FnOnce() -> SimEngine,
) -> ExitCode {
    let program = Cli::command().name(name).bin_name(name);
    let (args, renamed) = renamed::options(args);
    // As with other programs that run programs, everything that goes wrong before COMMAND is the same status.
    let wrong_usage = if args.get(1).is_some_and(|command| command == "emulate") { emulate::FAILED } else { 2 };
    let parsed = program.clone().try_get_matches_from(args).and_then(|matches| {
        let is_quiet = |of: &ArgMatches| of.try_get_one::<bool>("quiet").is_ok_and(|quiet| quiet == Some(&true));
        if !matches.subcommand().is_some_and(|(_, of)| is_quiet(of)) {
            for (former, now) in &renamed {
                eprintln!("{name}: {former} is now called {now}; the next version does not take the former name");
            }
        }
        Cli::from_arg_matches(&matches)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // The error may name an option by the name that it has now.
            for (former, now) in renamed.into_iter().filter(|_| error.use_stderr()) {
                eprintln!("{name}: {former} is now called {now}");
            }
            // Help and version go to stdout with 0, everything else to stderr with 2.
            if let Err(error) = error.print() {
                output::note(&error);
                return ExitCode::FAILURE;
            }
            return ExitCode::from(if error.use_stderr() { wrong_usage } else { 0 });
        }
    };
    match run(cli.command, program, engine) {
        Ok(()) if output::is_lost() => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Status(status, message)) if message.is_empty() => ExitCode::from(status),
        Err(failure) => {
            eprintln!("{name}: {failure}");
            match failure {
                Failure::Interrupted(_) => ExitCode::from(interrupt::end()),
                failure => failure.exit_code(),
            }
        }
    }
}

fn run(command: Command, program: clap::Command, engine: impl FnOnce() -> SimEngine) -> Result<()> {
    match command {
        Command::Serve(args) => block_on(args.run()),
        Command::Get(args) => block_on(args.run()),
        Command::Put(args) => block_on(args.run()),
        Command::Perf(args) => block_on(args.run()),
        Command::Probe(args) => block_on_one_thread(args.run()),
        Command::Qlog(args) => args.run(),
        Command::Why(args) => args.run(),
        Command::Policies(args) => args.run(),
        Command::Lab(args) => args.run(engine()),
        Command::Relay(args) => block_on(args.run()),
        Command::Emulate(args) => args.run(),
        Command::Demo(args) => block_on(args.run()),
        Command::Completions(args) => {
            args.run(program);
            Ok(())
        }
        Command::Man(args) => args.run(program),
    }
}

/// For what waits most of the time, and then should not have to wake another thread.
fn block_on_one_thread(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(command)
}

fn block_on(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let result = runtime.block_on(command);
    // Readers of files may still be blocked in the system; nothing is lost by not waiting for them.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    result
}
