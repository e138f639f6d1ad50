//! `thalweg emulate`: a program and a server on the two sides of a path of the lab, in real time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_emulate::{EmulatedPath, Emulation, Outcome, Progress, Toward};

use crate::emulation::path::PathsArgs;
use crate::emulation::report::{self, VerdictArgs};
use crate::failure::{Failure, Result};
use crate::text::bits_per_second;

/// `thalweg emulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
COMMAND runs in a network namespace of its own, and so does the server, if there is one. Only the path joins them: both
have no other network. COMMAND reaches the server by the name server, as 10.12.0.1 and fd00:12::1, which are in
THALWEG_SERVER and THALWEG_SERVER6; the server sees it as client, 10.11.0.1 and fd00:11::1. The network of this machine
is not touched. What COMMAND leaves running ends with it.

With several paths COMMAND has an interface for each, of the path's name: 10.11.0.1, 10.11.1.1 and so on. All lead to
the server, and the system prefers the first.

The exit status is COMMAND's; 125 if the emulation itself fails, or with --strict if the run is invalid; 126 if COMMAND
cannot be run, 127 if there is no such program.

Examples:
  thalweg emulate --preset satellite --server 'thalweg serve site --listen [::]:443' -- thalweg get https://server/file
  thalweg emulate --preset wifi --server 'iperf3 -s -1' -- sh -c 'iperf3 -c $THALWEG_SERVER -R'
  thalweg emulate --preset wifi --preset lte --server 'thalweg serve site --multipath --listen [::]:443' -- \
      thalweg get --multipath https://server/file
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
    /// Write a page with the verdict, and with rate, queue and drops over time
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Say every second on stderr what crosses the path
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Do not report in words
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    path: PathsArgs,
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
        let names: Vec<&str> = chosen.iter().map(|path| path.name.as_str()).collect();
        for path in chosen.iter().filter(|_| !self.quiet) {
            eprintln!("thalweg: over {}", path.words());
        }
        let emulation = Emulation {
            paths: chosen
                .iter()
                .map(|path| EmulatedPath { name: path.name.clone(), hops: path.hops.clone() })
                .collect(),
            seed: self.path.seed,
            command: self.command,
            server: self.server,
            realtime: self.realtime,
            forward: self.forward,
            capture: self.pcapng,
            icmp: !self.no_icmp,
        };
        let mut live = Live { names: &names, before: Progress::default() };
        let ended = emulation.run_watched(self.live.then_some(Duration::from_secs(1)), |progress| live.say(progress));
        let Outcome { status, report, notes, .. } =
            ended.map_err(|error| Failure::Status(error.status, error.to_string()))?;
        let limits = self.verdict.limits();
        if !self.quiet {
            for note in &notes {
                eprintln!("thalweg: {note}");
            }
            eprintln!("{}", report::words(&report, &names, &limits));
        }
        let write = |file: &PathBuf, text: String| {
            thalweg_output::write(file, text.as_bytes())
                .map_err(|error| failed(format!("cannot write {}: {error}", file.display())))
        };
        if let Some(file) = &self.json {
            let json = report::json(&report, &names, self.path.seed, &limits, true);
            let text = serde_json::to_string_pretty(&json).map_err(|error| failed(error.to_string()))?;
            write(file, format!("{text}\n"))?;
        }
        if let Some(file) = &self.report {
            let page = report::page(&report, &names, self.path.seed, &limits);
            write(file, page.map_err(|failure| failed(failure.to_string()))?)?;
        }
        let faults = report::faults(&report, &names, &limits);
        if self.verdict.strict && !faults.is_empty() {
            return Err(failed(format!("the run is invalid: {}", faults.join("; "))));
        }
        if status == 0 { Ok(()) } else { Err(Failure::Status(status, String::new())) }
    }
}

/// Says what crosses the paths, while it does.
struct Live<'a> {
    names: &'a [&'a str],
    before: Progress,
}

impl Live<'_> {
    fn say(&mut self, progress: &Progress) {
        eprintln!("thalweg: {}", self.line(progress));
        self.before = progress.clone();
    }

    /// `12 s  up 1.20 Mbps  down 34.5 Mbps, 3 dropped`, each path by its name where there are several.
    fn line(&self, now: &Progress) -> String {
        let seconds = now.elapsed.saturating_sub(self.before.elapsed).as_secs_f64().max(1e-3);
        let mut line = format!("{:.0} s", now.elapsed.as_secs_f64());
        for (path, (bytes, dropped)) in now.bytes.iter().zip(&now.dropped).enumerate() {
            if let (true, Some(name)) = (self.names.len() > 1, self.names.get(path)) {
                line += &format!("  {name}:");
            }
            let since = |before: &[[u64; 2]], now: u64, at: usize| now - before.get(path).map_or(0, |pair| pair[at]);
            for toward in Toward::BOTH {
                let at = toward.index();
                let rate = since(&self.before.bytes, bytes[at], at) as f64 * 8.0 / seconds;
                line += &format!("  {} {}", toward.name(), bits_per_second(rate));
                match since(&self.before.dropped, dropped[at], at) {
                    0 => {}
                    dropped => line += &format!(", {dropped} dropped"),
                }
            }
        }
        line
    }
}
