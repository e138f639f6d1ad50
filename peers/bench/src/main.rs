//! Loopback benchmarks of QUIC stacks: CPU seconds per gigabyte for each side, against rivals and a roofline measured
//! in the same run.

mod job;
mod measure;
mod quinn;
mod report;
mod roofline;
mod stack;
mod thalweg;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::job::{Direction, Job, Side};

#[derive(Parser)]
#[command(name = "bench", about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One large stream, from server to client and from client to server.
    Bulk(Bulk),
    /// Many short connections, one after the other.
    Handshakes(Handshakes),
    /// One side of one transfer, in a process of its own.
    #[command(hide = true)]
    Child(Child),
}

#[derive(Args)]
struct Common {
    /// Interleaved repetitions.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Stacks to run; by default all but thalweg-paced, which takes a minute for each gigabyte of a round.
    #[arg(long, value_delimiter = ',')]
    stacks: Vec<String>,
    /// Socket buffers in bytes, both directions, for every stack.
    #[arg(long, default_value_t = 4 << 20)]
    buffer: usize,
    /// Write every run as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table into a Markdown file, in place of its section there.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

#[derive(Args)]
struct Bulk {
    /// Bytes of one transfer.
    #[arg(long, default_value_t = 1_000_000_000)]
    size: u64,
    /// Which way the bytes go; both by default.
    #[arg(long, value_delimiter = ',')]
    directions: Vec<Direction>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Handshakes {
    /// Connections of one run.
    #[arg(long, default_value_t = 1_000)]
    connections: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Child {
    stack: String,
    side: Side,
    #[command(flatten)]
    job: Job,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bulk(bulk) => {
            let directions =
                if bulk.directions.is_empty() { vec![Direction::Download, Direction::Upload] } else { bulk.directions };
            let jobs = directions.into_iter().map(|direction| (direction, bulk.size, 1)).collect();
            measure::run("bulk", jobs, bulk.common.into())
        }
        Command::Handshakes(handshakes) => measure::run(
            "handshakes",
            vec![(Direction::Download, 100, handshakes.connections)],
            handshakes.common.into(),
        ),
        Command::Child(child) => stack::child(&child.stack, child.side, &child.job),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl From<Common> for measure::Options {
    fn from(common: Common) -> Self {
        Self {
            rounds: common.rounds.max(1),
            stacks: common.stacks,
            buffer: common.buffer,
            json: common.json,
            write: common.write,
        }
    }
}
