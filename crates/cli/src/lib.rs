//! The `thalweg` program as a library: serve, get, put, perf, qlog, policies, demo.
//!
//! [`main`] takes the command line and gives the exit code: 0 done, 1 a transfer or check failed, 2 wrong usage. People
//! are told on stderr, data goes to stdout.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod failure;
pub mod qlog;
pub mod relay;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Result;

/// Serves and fetches files over QUIC and HTTP/3, measures paths, and explains what happened on them.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explain a trace: phases, round-trip times, losses, what limited the transfer when.
    Qlog(qlog::QlogArgs),
}

/// Runs the program with these arguments, the first being its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with 0, everything else to stderr with 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("thalweg: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Qlog(args) => args.run(),
    }
}
