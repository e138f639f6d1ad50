//! `thalweg why LOG…`: what made a transfer slow, and what would have made it faster.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use thalweg_why::{Answer, Comparison, Log, Report, WhatIf};

use crate::failure::{Failure, Result};
use crate::output;

/// `thalweg why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg get --qlog traces https://example.org/big.bin    # the log of the receiver; that of the sender tells more:
  thalweg serve --qlog traces ~/Public
  thalweg why traces/*_server.sqlog
  thalweg why --json traces/*_server.sqlog | jq .cause
  thalweg why traces/5a…_server.sqlog traces/5a…_client.sqlog  # both ends of one transfer
  thalweg why yesterday.sqlog today.sqlog                   # what made the second slower
  thalweg why --what-if controller=bbr --what-if 'receive_window=16 MB' traces/5a…_server.sqlog
  thalweg why --report why.html traces/5a…_server.sqlog
  thalweg why --redact shown.sqlog traces/5a…_server.sqlog  # a log to attach: no address, name, token, connection ID")]
pub struct WhyArgs {
    /// Logs (qlog) of senders: of the server for downloads, of the client for uploads. Two logs of both ends of a
    /// transfer have one answer. Two senders' logs of a transfer that was done twice are compared
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print one JSON object per log instead.
    #[arg(long)]
    json: bool,
    /// Also say how long it would have taken with other settings, such as "controller=bbr" or
    /// "receive_window=16 MB"; may be given more than once
    #[arg(long, value_name = "SETTINGS", value_parser = WhatIf::from_str)]
    what_if: Vec<WhatIf>,
    /// Also write one page of HTML to FILE: the answer, and what the sender did over time with the causes as spans
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also write the log to FILE with nothing in it but times, sizes, numbers and frames, so that it can be shown to
    /// others; the answer is the same
    #[arg(long, value_name = "FILE")]
    redact: Option<PathBuf>,
}

/// A report and whose it is.
#[derive(Serialize)]
struct Named<'a> {
    file: String,
    #[serde(flatten)]
    report: &'a Report,
}

/// Two logs beside each other.
#[derive(Serialize)]
struct Compared<'a> {
    a: &'a Path,
    b: &'a Path,
    comparison: &'a Comparison,
}

impl WhyArgs {
    /// Reads every log and prints its answer on stdout.
    ///
    /// # Errors
    ///
    /// When a log cannot be read or does not tell enough; the others are still answered.
    pub fn run(&self) -> Result<()> {
        if let Some(out) = &self.redact {
            self.redact(out)?;
        }
        if let Some(out) = &self.report {
            self.check_alone("--report", out)?;
        }
        let mut bad = None;
        let mut told = Vec::new();
        let mut logs: Vec<Result<Log>> = Vec::new();
        if let [first, second] = &self.logs[..] {
            logs.extend([Self::read(first), Self::read(second)]);
            match Self::both_ends(&mut logs) {
                None => {}
                Some(Ok(sender)) => {
                    let file = &self.logs[sender];
                    let (_, report) = self.answered(file, logs.swap_remove(sender)?)?;
                    self.print(0, file, &report);
                    return Ok(());
                }
                // Each is answered by itself.
                Some(Err(error)) => bad = Some(error),
            }
        }
        let mut read = logs.into_iter();
        for (index, file) in self.logs.iter().enumerate() {
            let log = read.next().unwrap_or_else(|| Self::read(file));
            match log.and_then(|log| self.answered(file, log)) {
                Ok((answer, report)) if self.logs.len() == 2 => told.push((file, answer, report)),
                Ok((_, report)) => {
                    if !self.print(index, file, &report) {
                        return Ok(());
                    }
                }
                // The last is reported by whoever called.
                Err(error) => {
                    if let Some(before) = bad.replace(error) {
                        eprintln!("thalweg: {before}");
                    }
                }
            }
        }
        if let [(_, a, _), (_, b, _)] = &told[..] {
            let comparison = a.compare(b).map_err(|error| Failure::usage(format!("cannot compare: {error}")))?;
            let is_written = if self.json {
                output::json(&Compared { a: &self.logs[0], b: &self.logs[1], comparison: &comparison });
                true
            } else {
                let [a, b] = [self.logs[0].display(), self.logs[1].display()];
                output::bytes(format!("{}\n  A  {a}\n  B  {b}\n\n", comparison.sentence).as_bytes())
            };
            if !is_written {
                return Ok(());
            }
        }
        for (index, (file, _, report)) in told.iter().enumerate() {
            if !self.print(index, file, report) {
                break;
            }
        }
        bad.map_or(Ok(()), Err)
    }

    /// Prints an answer; whether stdout takes more.
    fn print(&self, index: usize, file: &Path, report: &Report) -> bool {
        if self.json {
            output::json(&Named { file: file.display().to_string(), report });
            return true;
        }
        let gap = if index > 0 { "\n" } else { "" };
        let name = if self.logs.len() > 1 { format!("{}\n", file.display()) } else { String::new() };
        output::bytes(format!("{gap}{name}{}", report.text()).as_bytes())
    }

    /// If the two logs are those of a sender and of a receiver, puts them together and returns which is the sender's;
    /// or why they are not those of one transfer.
    fn both_ends(logs: &mut [Result<Log>]) -> Option<Result<usize>> {
        let [Ok(first), Ok(second)] = logs else { return None };
        // What is wrong with a log is said where it is answered.
        let (Ok(is_first), Ok(is_second)) = (first.is_of_receiver(), second.is_of_receiver()) else { return None };
        if is_first == is_second {
            return None;
        }
        let (sender, receiver) = if is_first { (second, first) } else { (first, second) };
        let together = sender.beside(receiver).map(|()| usize::from(is_first));
        Some(together.map_err(|error| Failure::usage(format!("cannot tell from both: {error}"))))
    }

    /// Reads a log. What is wrong with it is a wrong use: exit code 2.
    fn read(file: &Path) -> Result<Log> {
        Log::read(open(file)?).map_err(|error| cannot_read(file, error))
    }

    /// The answer to what was read from a file.
    fn answered(&self, file: &Path, log: Log) -> Result<(Answer, Report)> {
        let name = file.display();
        let cannot = |error| Failure::usage(format!("cannot tell from {name}: {error}"));
        let answer = log.answer().map_err(cannot)?;
        let next = if answer.is_reproduced() { answer.next().map_err(cannot)? } else { None };
        let mut report = answer.report(next);
        for what_if in &self.what_if {
            report.what_if.push(answer.what_if(what_if).map_err(cannot)?);
        }
        if let Some(out) = &self.report {
            self.draw(file, out, &answer, &report)?;
        }
        Ok((answer, report))
    }

    /// The only log, which `out` must not replace.
    fn check_alone(&self, option: &str, out: &Path) -> Result<&Path> {
        let [log] = &self.logs[..] else {
            return Err(Failure::usage(format!("{option} FILE is for one log; name one")));
        };
        let target = out.canonicalize().ok();
        if target.is_some() && target == log.canonicalize().ok() {
            return Err(Failure::usage(format!("{option} {} would replace the log; name another file", out.display())));
        }
        Ok(log)
    }

    fn draw(&self, file: &Path, out: &Path, answer: &Answer, report: &Report) -> Result<()> {
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut sender = crate::qlog::read_sender(file, name)?;
        let spans = answer.spans().into_iter();
        sender.causes = spans.map(|(cause, spans)| (cause.name().to_owned(), spans)).collect();
        let text = report.text();
        let below = text.split_once('\n').map_or("", |(_, below)| below.trim_matches('\n'));
        let page = thalweg_lab::report::explained(&report.sentence, below, &sender).map_err(Failure::failed)?;
        thalweg_output::write(out, page.as_bytes())
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", out.display())))
    }

    fn redact(&self, out: &Path) -> Result<()> {
        let log = self.check_alone("--redact", out)?;
        // What is no log is told before anything is written.
        drop(open(log)?);
        let again = || open(log).map_err(std::io::Error::other);
        let events = thalweg_why::redact(again, std::io::sink()).map_err(|error| cannot_read(log, error))?;
        if events == 0 {
            return Err(cannot_read(log, "no qlog event is in it"));
        }
        thalweg_output::write_with(out, |file| {
            thalweg_why::redact(again, BufWriter::with_capacity(1 << 16, file)).map(drop)
        })
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", out.display())))
    }
}

fn open(file: &Path) -> Result<BufReader<File>> {
    let name = file.display();
    if file.is_dir() {
        return Err(Failure::usage(format!("{name} is a directory; name the logs in it, such as {name}/*.sqlog")));
    }
    let opened = File::open(file).map_err(|error| Failure::usage(format!("cannot open {name}: {error}")))?;
    Ok(BufReader::with_capacity(1 << 18, opened))
}

fn cannot_read(file: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", file.display()))
}
