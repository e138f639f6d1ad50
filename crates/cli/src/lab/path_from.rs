//! `thalweg lab path-from`: a path of the lab from the log of a transfer.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path as FilePath, PathBuf};

use clap::Args;
use thalweg_units::{Duration, DurationExt as _, exact_duration};
use thalweg_why::world::{EVERY, Path, Span};
use thalweg_why::{Answer, Log};

use crate::failure::{Context, Failure, Result};
use crate::output;

/// Packets that are listed as lost, at most: a scenario file stays readable.
const MOST_LOST: usize = 5_000;

#[derive(Debug, Args)]
#[command(after_help = "\
The path is read off the log as `thalweg why` reads it: rate, round trip, queue, losses, reordering, interruptions.

Examples:
  thalweg get --qlog traces https://example.org/big.bin
  thalweg lab path-from traces/0123_client.sqlog > path.toml
  thalweg lab advise path.toml --path model")]
pub(super) struct PathFromArgs {
    /// The log (qlog) of the sender of a transfer, of any stack that writes the usual events
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Write into FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PathFromArgs {
    pub(super) fn run(self) -> Result<()> {
        let text = scenario(&read(&self.log)?, &self.log);
        match &self.out {
            Some(file) => {
                thalweg_output::write(file, text.as_bytes()).context(format!("cannot write {}", file.display()))
            }
            None => {
                output::bytes(text.as_bytes());
                Ok(())
            }
        }
    }
}

fn read(file: &FilePath) -> Result<Answer> {
    let name = file.display();
    if file.is_dir() {
        return Err(Failure::usage(format!("{name} is a directory; name a log in it, such as {name}/*_server.sqlog")));
    }
    let opened = File::open(file).map_err(|error| Failure::usage(format!("cannot open {name}: {error}")))?;
    let log = Log::read(BufReader::with_capacity(1 << 18, opened));
    let log = log.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    log.answer().map_err(|error| Failure::usage(format!("cannot read a path off {name}: {error}")))
}

fn micros(time: Duration) -> String {
    let time = Duration::from_micros(time.nanos() / 1_000);
    if time.is_zero() { "0 s".to_owned() } else { exact_duration(time) }
}

/// The two paths: what the transfer met, at its times, and a model of it.
fn scenario(answer: &Answer, log: &FilePath) -> String {
    let Answer { world, .. } = answer;
    let report = answer.report(None).path;
    let (path, is_up) = (&world.path, world.load.is_up);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let name: String = log.display().to_string().chars().filter(|c| !c.is_control()).collect();
    let _ = writeln!(out, "# The path that {name} shows.");
    if let Some((low, high)) = report.rate_range_bps {
        let mbps = |bps: u64| bps as f64 / 1e6;
        let _ = writeln!(
            out,
            "# Its rate never showed: it is anything between {:.1} and {:.1} Mbps. Write it where it is known.",
            mbps(low),
            mbps(high)
        );
    }
    if path.per_ack > EVERY {
        let _ = writeln!(
            out,
            "# An acknowledgment stood for {:.1} packets. A receiver of the lab sends more, and needs more of the way back.",
            path.per_ack
        );
    }
    if !answer.is_reproduced() {
        let _ = writeln!(
            out,
            "# The transfer takes another time over this path than over the true one: something is missing."
        );
    }
    let _ = writeln!(out, "\n# Fitted: losses and interruptions at random.\n[path.model]");
    let length = answer.completion;
    out += &at_random("outage", &path.outages, length);
    out += &at_random("suspend", &path.suspensions, length);
    let packets = world.load.bytes / u64::from(world.sender.max_datagram.max(1)) + 1;
    let each = length / u32::try_from(packets).unwrap_or(u32::MAX);
    let loss = match Bursts::of(&path.lost, packets) {
        Some(bursts) => bursts.text(each),
        None if report.chance_loss > 0.0 => format!(", loss = {:.6}", report.chance_loss.min(1.0)),
        None => String::new(),
    };
    directions(&mut out, path, is_up, &loss);
    let _ = writeln!(out, "\n# What the transfer met, when it met it.\n[path.replay]");
    out += &at_times("outage", &path.outages);
    out += &at_times("suspend", &path.suspensions);
    let lost: Vec<String> = path.lost.iter().take(MOST_LOST).map(|index| (index + 1).to_string()).collect();
    let mut loss = Vec::new();
    if path.loss > 0.0 {
        loss.push(format!("{{ random = {:.6} }}", path.loss.min(1.0)));
    }
    if !lost.is_empty() {
        loss.push(format!("{{ packets = [{}] }}", lost.join(", ")));
    }
    let loss = if loss.is_empty() { String::new() } else { format!(", loss = [{}]", loss.join(", ")) };
    directions(&mut out, path, is_up, &loss);
    out
}

/// Losses in bursts. They are of time: in a fast transfer, an outage or fading takes many packets in a row.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Bursts {
    /// Packets from the begin of a burst to its end, and from there to the begin of the next, in the mean.
    bad: f64,
    good: f64,
    /// The share of packets that a burst takes.
    share: f64,
}

/// Lost packets with more between them are of two bursts.
const BETWEEN: u64 = 4;
/// So many bursts, with so many lost packets each, in the mean, are no accident.
const LEAST_BURSTS: usize = 4;
const LEAST_LOST: f64 = 2.0;

impl Bursts {
    /// Those of lost packets, by their places, of so many packets; none if they come one by one.
    fn of(lost: &[u64], packets: u64) -> Option<Bursts> {
        let mut sorted = lost.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let spans: Vec<u64> = sorted
            .chunk_by(|one, next| next - one <= BETWEEN)
            .filter_map(|burst| Some(burst.last()? - burst.first()? + 1))
            .collect();
        let (count, all, lost) = (spans.len() as f64, spans.iter().sum::<u64>() as f64, sorted.len() as f64);
        if spans.len() < LEAST_BURSTS || lost < LEAST_LOST * count {
            return None;
        }
        let good = (packets as f64 - all).max(count) / count;
        Some(Bursts { bad: all / count, good, share: lost / all })
    }

    /// As the lab takes them, where a packet took so long.
    fn text(self, each: Duration) -> String {
        let mean = |packets: f64| micros(each.mul_f64(packets).max(Duration::from_millis(1)));
        let (good, bad, share) = (mean(self.good), mean(self.bad), self.share);
        format!(", loss = {{ burst = {{ mean_good = \"{good}\", mean_bad = \"{bad}\", bad = {share:.6} }} }}")
    }
}

/// Both directions; what is lost or overtaken is so on the way of the data.
fn directions(out: &mut String, path: &Path, is_up: bool, loss: &str) {
    let delay = micros(path.round_trip / 2);
    let reorder = path.reorder.map_or(String::new(), |(share, by)| {
        format!(", reorder = {{ share = {share:.6}, by = \"{}\" }}", micros(by.max(Duration::from_micros(1))))
    });
    let kbps = |rate: thalweg_units::Rate| (rate.bps() / 1_000).max(1);
    let policer = path.policer.map_or(String::new(), |policer| {
        format!(", policer = {{ rate = \"{} kbps\", burst = \"{} B\" }}", kbps(policer.rate), policer.burst.max(1_500))
    });
    let mtu = path.mtu.map_or(String::new(), |(at, size)| {
        let at = micros(at.max(Duration::from_micros(1)));
        format!(", changes = [{{ at = \"{at}\", mtu = \"{size} B\" }}]")
    });
    let data = format!(
        "{{ rate = \"{} kbps\", delay = \"{delay}\", queue = \"{} B\"{loss}{reorder}{policer}{mtu} }}",
        kbps(path.rate),
        path.queue
    );
    let back = format!("{{ rate = \"{} kbps\", delay = \"{delay}\", queue = \"1 s\" }}", kbps(path.back));
    let (up, down) = if is_up { (data, back) } else { (back, data) };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "up = {up}\ndown = {down}");
}

/// Interruptions at their times.
fn at_times(key: &str, spans: &[Span]) -> String {
    let one = |(from, until): &Span| {
        format!("{{ at = \"{}\", for = \"{}\" }}", micros(*from), micros(until.saturating_sub(*from)))
    };
    match spans {
        [] => String::new(),
        spans => format!("{key} = [{}]\n", spans.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// Interruptions as a Poisson process of as many in as long a time.
fn at_random(key: &str, spans: &[Span], length: Duration) -> String {
    let mut lengths: Vec<Duration> = spans.iter().map(|(from, until)| until.saturating_sub(*from)).collect();
    lengths.sort_unstable();
    let (Some(least), Some(most)) = (lengths.first(), lengths.last()) else { return String::new() };
    let out: Duration = lengths.iter().sum();
    let every = micros(length.saturating_sub(out).max(Duration::from_millis(1)) / lengths.len() as u32);
    let lasts = if least == most { micros(*least) } else { format!("{}..{}", micros(*least), micros(*most)) };
    format!("{key} = {{ every = \"{every}\", for = \"{lasts}\", random = true }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_in_a_row_are_bursts_and_single_ones_are_none() {
        let single: Vec<u64> = (0..50).map(|n| n * 97).collect();
        assert_eq!(Bursts::of(&single, 5_000), None);
        assert_eq!(Bursts::of(&[], 5_000), None);
        assert_eq!(Bursts::of(&[4, 5, 6, 7], 5_000), None, "one burst is an accident");
        // Ten times eight of ten packets, every five hundred.
        let lost: Vec<u64> = (0..10).flat_map(|n| [0, 1, 2, 4, 5, 6, 8, 9].map(|at| n * 500 + at)).collect();
        let bursts = Bursts::of(&lost, 5_000).unwrap();
        assert_eq!(bursts, Bursts { bad: 10.0, good: 490.0, share: 0.8 });
        let text = bursts.text(Duration::from_millis(1));
        assert_eq!(text, ", loss = { burst = { mean_good = \"490 ms\", mean_bad = \"10 ms\", bad = 0.800000 } }");
    }
}
