//! What is said at the end of an emulation: in words, as JSON, and whether it can be believed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use thalweg_emulate::{Limits, Report, Totals, Toward};
use thalweg_link::DropCause;
use thalweg_units::{human_bytes, human_duration};

use crate::options::duration;
use crate::text::{bits_per_second, count};

/// What an emulation may fall short by.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Verdict")]
pub struct VerdictArgs {
    /// Fail if the run is invalid
    #[arg(long)]
    pub strict: bool,
    /// The latest that 99 % of the packets of a direction may be handed over [default: 0.5 ms, or 1 % of the round
    /// trip if that is more]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_lateness: Option<Duration>,
    /// The latest that programs may be woken 99 % of the time
    #[arg(long, value_name = "TIME", default_value = "1 ms", value_parser = duration)]
    max_wake_up: Duration,
}

impl VerdictArgs {
    /// The limits that these options set.
    pub fn limits(&self) -> Limits {
        Limits { lateness: self.max_lateness, wake_up: self.max_wake_up, ..Limits::default() }
    }
}

/// Times in microseconds.
#[derive(Debug, Serialize)]
struct Late {
    count: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    over_5_ms: u64,
}

#[derive(Debug, Serialize)]
struct Way {
    arrived: u64,
    arrived_bytes: u64,
    handed_over: u64,
    handed_over_bytes: u64,
    /// From the first to the last packet handed over.
    rate_bps: u64,
    best_second_bps: u64,
    /// By cause.
    dropped: BTreeMap<&'static str, u64>,
    no_room: u64,
    not_taken: u64,
    duplicated: u64,
    damaged: u64,
    reordered: u64,
    marked: u64,
    lateness: Late,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub struct Json {
    event: &'static str,
    path: String,
    seed: u64,
    seconds: f64,
    valid: bool,
    invalid_because: Vec<String>,
    up: Way,
    down: Way,
    wake_ups: Late,
    flows: u64,
    ignored: u64,
    device_dropped: u64,
    suspended_ms: u64,
    /// Time of a processor that the emulator used per packet.
    processor_us_per_packet: Option<f64>,
    /// None if real-time priority was not asked for.
    realtime: Option<bool>,
    realtime_refused: Option<String>,
}

fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1000.0
}

fn late(summary: &thalweg_emulate::LatenessSummary) -> Late {
    Late {
        count: summary.count,
        p50_us: micros(summary.p50),
        p99_us: micros(summary.p99),
        p999_us: micros(summary.p999),
        max_us: micros(summary.max),
        over_5_ms: summary.very_late,
    }
}

fn rate(totals: &Totals) -> u64 {
    let span = totals.between.map_or(Duration::ZERO, |(first, last)| last.saturating_since(first));
    let bits = u128::from(totals.handed_over_bytes) * 8;
    u64::try_from((bits * 1_000_000_000).checked_div(span.as_nanos()).unwrap_or(0)).unwrap_or(u64::MAX)
}

fn dropped(totals: &Totals) -> impl Iterator<Item = (&'static str, u64)> {
    DropCause::ALL
        .into_iter()
        .map(|cause| (cause.name(), totals.dropped[cause.index()]))
        .filter(|(_, count)| *count > 0)
}

fn way(totals: &Totals) -> Way {
    Way {
        arrived: totals.arrived,
        arrived_bytes: totals.arrived_bytes,
        handed_over: totals.handed_over,
        handed_over_bytes: totals.handed_over_bytes,
        rate_bps: rate(totals),
        best_second_bps: totals.best_second.saturating_mul(8),
        dropped: dropped(totals).collect(),
        no_room: totals.refused,
        not_taken: totals.stuck,
        duplicated: totals.duplicated,
        damaged: totals.damaged,
        reordered: totals.reordered,
        marked: totals.marked,
        lateness: late(&totals.lateness.summary()),
    }
}

/// What is wrong with a run by these limits, in words.
pub fn faults(report: &Report, limits: &Limits) -> Vec<String> {
    report.faults(limits).iter().map(ToString::to_string).collect()
}

/// The report of a run over this path as JSON.
pub fn json(report: &Report, path: &str, seed: u64, limits: &Limits) -> Json {
    let invalid_because = faults(report, limits);
    Json {
        event: "report",
        path: path.to_owned(),
        seed,
        seconds: report.elapsed.as_secs_f64(),
        valid: invalid_because.is_empty(),
        invalid_because,
        up: way(report.direction(Toward::Server)),
        down: way(report.direction(Toward::Client)),
        wake_ups: late(&report.wake_ups),
        flows: report.flows,
        ignored: report.ignored,
        device_dropped: report.device_dropped,
        suspended_ms: u64::try_from(report.suspended.as_millis()).unwrap_or(u64::MAX),
        processor_us_per_packet: report.processor_per_packet().map(micros),
        realtime: report.realtime.as_ref().map(Result::is_ok),
        realtime_refused: report.realtime.as_ref().and_then(|granted| granted.as_ref().err().cloned()),
    }
}

/// The report in words, a line for each direction, and the verdict.
pub fn words(report: &Report, path: &str, limits: &Limits) -> String {
    let mut text = format!("{path}, {}, {}\n", human_duration(report.elapsed), count(report.flows, "flow"));
    for toward in Toward::BOTH {
        let totals = report.direction(toward);
        let _ = write!(text, "  {:<6}{}", toward.name(), count(totals.handed_over, "packet"));
        let (bytes, best) = (totals.handed_over_bytes, totals.best_second as f64 * 8.0);
        let (rate, best) = (bits_per_second(rate(totals) as f64), bits_per_second(best));
        let _ = write!(text, " ({}), {rate}, {best} in the best second", human_bytes(bytes));
        let counts = dropped(totals).chain([
            ("no room", totals.refused),
            ("not taken", totals.stuck),
            ("duplicated", totals.duplicated),
            ("damaged", totals.damaged),
            ("reordered", totals.reordered),
            ("marked", totals.marked),
        ]);
        for (name, count) in counts.filter(|(_, count)| *count > 0) {
            let _ = write!(text, ", {count} {name}");
        }
        let late = totals.lateness.summary();
        if late.count > 0 {
            let times = [late.p50, late.p99, late.max].map(human_duration);
            let _ =
                write!(text, "\n        late by {}, 99 % by less than {}, at most {}", times[0], times[1], times[2]);
        }
        text.push('\n');
    }
    let woken = [report.wake_ups.p50, report.wake_ups.p99, report.wake_ups.max].map(human_duration);
    let _ = writeln!(text, "  programs are woken {} late, 99 % less than {}, at most {}", woken[0], woken[1], woken[2]);
    if let Some(time) = report.processor_per_packet() {
        let _ = writeln!(text, "  {} of a processor per packet", human_duration(time));
    }
    match &report.realtime {
        Some(Ok(())) => text.push_str("  at real-time priority\n"),
        Some(Err(reason)) => {
            let _ = writeln!(text, "  not at real-time priority: {reason}");
        }
        None => {}
    }
    let faults = faults(report, limits);
    if faults.is_empty() {
        text.push_str("VALID");
    } else {
        let _ = write!(text, "INVALID\n  {}", faults.join("\n  "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_run_is_said_in_words_and_json() {
        let (report, limits) = (Report::default(), Limits::default());
        let text = words(&report, "p", &limits);
        assert!(text.contains("  up    0 packets (0 B), 0.000 bps") && text.ends_with("VALID"), "{text}");
        let json = serde_json::to_value(json(&report, "p", 1, &limits)).unwrap();
        assert_eq!(
            (&json["valid"], &json["up"]["handed_over"], &json["realtime"]),
            (&true.into(), &0.into(), &().into())
        );
    }
}
