//! `thalweg emulate`: a program and a server on the two sides of a path of the lab, in real time.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use thalweg_emulate::{Emulation, Outcome};

use crate::emulation::path::PathArgs;
use crate::emulation::report::{self, VerdictArgs};
use crate::failure::{Failure, Result};

/// `thalweg emulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
COMMAND runs in a network namespace of its own, and so does the server, if there is one. Only the path joins them: both
have no other network. COMMAND reaches the server by the name server, as 10.12.0.1 and fd00:12::1, which are in
THALWEG_SERVER and THALWEG_SERVER6; the server sees it as client, 10.11.0.1 and fd00:11::1. The network of this machine
is not touched. What COMMAND leaves running ends with it.

The exit status is COMMAND's; 125 if the emulation itself fails, or with --strict if the run is invalid; 126 if COMMAND
cannot be run, 127 if there is no such program.

Examples:
  thalweg emulate --preset satellite --server 'thalweg serve site --listen [::]:443' -- thalweg get https://server/file
  thalweg emulate --preset wifi --server 'iperf3 -s -1' -- sh -c 'iperf3 -c $THALWEG_SERVER -R'
  thalweg emulate path.toml -- ping -c 5 server")]
pub struct EmulateArgs {
    /// File with the path: a scenario, or only [path.NAME]
    #[arg(value_name = "LINK.toml")]
    file: Option<PathBuf>,
    /// What a shell runs at the server's end; COMMAND is started when it listens, and it ends when COMMAND has ended
    #[arg(long, value_name = "CMD")]
    server: Option<OsString>,
    /// What to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Join a port of the server's end, TCP and UDP, to that port of this machine's 127.0.0.1, for a server that runs
    /// outside; may be repeated
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    forward: Vec<u16>,
    /// Ask for real-time priority for the emulator, COMMAND and the server
    #[arg(long)]
    realtime: bool,
    /// Drop packets that exceed the path's MTU without telling their sender by ICMP, as the lab does
    #[arg(long)]
    no_icmp: bool,
    /// Write the report into FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write all packets at both ends into FILE (pcapng), with what the path dropped and marked as comments
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Do not report in words
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    verdict: VerdictArgs,
}

/// The exit status of an emulation that failed by itself.
pub const FAILED: u8 = 125;

impl EmulateArgs {
    /// Runs the command, and reports.
    ///
    /// # Errors
    ///
    /// The exit status of the command if that is not 0; 125, 126 or 127 with what was wrong.
    pub fn run(self) -> Result<()> {
        let failed = |message: String| Failure::Status(FAILED, message);
        let chosen = self.path.choose(self.file.as_ref()).map_err(|failure| failed(failure.to_string()))?;
        if !self.quiet {
            eprintln!("thalweg: over {}", chosen.words());
        }
        let emulation = Emulation {
            hops: chosen.hops.clone(),
            seed: self.path.seed,
            command: self.command,
            server: self.server,
            realtime: self.realtime,
            forward: self.forward,
            capture: self.pcapng,
            icmp: !self.no_icmp,
        };
        let ended = emulation.run();
        let Outcome { status, report, notes, .. } =
            ended.map_err(|error| Failure::Status(error.status, error.to_string()))?;
        let limits = self.verdict.limits();
        if !self.quiet {
            for note in &notes {
                eprintln!("thalweg: {note}");
            }
            eprintln!("{}", report::words(&report, &chosen.name, &limits));
        }
        if let Some(file) = &self.json {
            let json = report::json(&report, &chosen.name, self.path.seed, &limits);
            let text = serde_json::to_string_pretty(&json).map_err(|error| failed(error.to_string()))?;
            thalweg_output::write(file, format!("{text}\n").as_bytes())
                .map_err(|error| failed(format!("cannot write {}: {error}", file.display())))?;
        }
        let faults = report::faults(&report, &limits);
        if self.verdict.strict && !faults.is_empty() {
            return Err(failed(format!("the run is invalid: {}", faults.join("; "))));
        }
        if status == 0 { Ok(()) } else { Err(Failure::Status(status, String::new())) }
    }
}
