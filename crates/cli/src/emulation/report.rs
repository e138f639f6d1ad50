//! What is said at the end of an emulation: in words, as JSON, and whether it can be believed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use thalweg_emulate::{Fault, Limits, PathReport, Report, Series, Step, Totals, Toward};
use thalweg_lab::report::{self, Emulated, EmulatedDirection};
use thalweg_link::DropCause;
use thalweg_units::{human_bytes, human_duration};

use crate::failure::{Context as _, Result};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Course>,
}

/// A direction over time, in steps of equal length.
#[derive(Debug, Serialize)]
struct Course {
    step_ms: u64,
    bytes: Vec<u64>,
    /// None where no packet left a queue.
    sojourn_mean_us: Vec<Option<f64>>,
    sojourn_max_us: Vec<Option<f64>>,
    dropped: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct PathJson {
    path: String,
    flows: u64,
    up: Way,
    down: Way,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub struct Json {
    event: &'static str,
    seed: u64,
    seconds: f64,
    valid: bool,
    invalid_because: Vec<String>,
    paths: Vec<PathJson>,
    wake_ups: Late,
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

fn course(series: &Series) -> Course {
    let steps = || series.steps().iter();
    let left = |step: &Step| (step.departed > 0).then(|| micros(step.sojourn_max));
    Course {
        step_ms: u64::try_from(series.length().as_millis()).unwrap_or(u64::MAX),
        bytes: steps().map(|step| step.bytes).collect(),
        sojourn_mean_us: steps().map(|step| step.sojourn_mean().map(micros)).collect(),
        sojourn_max_us: steps().map(left).collect(),
        dropped: steps().map(|step| step.dropped).collect(),
    }
}

fn way(totals: &Totals, series: Option<&Series>) -> Way {
    Way {
        series: series.map(course),
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

/// What is wrong with a run over these paths by these limits, in words.
pub fn faults(report: &Report, paths: &[&str], limits: &Limits) -> Vec<String> {
    let words = |fault: &Fault| match fault.path().and_then(|path| paths.get(path)) {
        Some(path) if paths.len() > 1 => format!("{path} {fault}"),
        _ => fault.to_string(),
    };
    report.faults(limits).iter().map(words).collect()
}

/// The report of a run over these paths as JSON, with what happened over time or without.
pub fn json(report: &Report, paths: &[&str], seed: u64, limits: &Limits, over_time: bool) -> Json {
    let invalid_because = faults(report, paths, limits);
    let path = |(name, path): (&&str, &PathReport)| {
        let [up, down] =
            Toward::BOTH.map(|toward| way(path.direction(toward), over_time.then(|| &path.series[toward.index()])));
        PathJson { path: (*name).to_owned(), flows: path.flows, up, down }
    };
    Json {
        event: "report",
        seed,
        seconds: report.elapsed.as_secs_f64(),
        valid: invalid_because.is_empty(),
        invalid_because,
        paths: paths.iter().zip(&report.paths).map(path).collect(),
        wake_ups: late(&report.wake_ups),
        ignored: report.ignored,
        device_dropped: report.device_dropped,
        suspended_ms: u64::try_from(report.suspended.as_millis()).unwrap_or(u64::MAX),
        processor_us_per_packet: report.processor_per_packet().map(micros),
        realtime: report.realtime.as_ref().map(|granted| granted.is_ok()),
        realtime_refused: report.realtime.as_ref().and_then(|granted| granted.as_ref().err().cloned()),
    }
}

/// What happened to packets beside being handed over, with how often.
fn counts(totals: &Totals) -> impl Iterator<Item = (&'static str, u64)> {
    let others = [
        ("no room", totals.refused),
        ("not taken", totals.stuck),
        ("duplicated", totals.duplicated),
        ("damaged", totals.damaged),
        ("reordered", totals.reordered),
        ("marked", totals.marked),
    ];
    dropped(totals).chain(others).filter(|(_, count)| *count > 0)
}

/// A direction in words, a line or two.
fn direction_words(text: &mut String, toward: Toward, totals: &Totals) {
    let _ = write!(text, "  {:<6}{}", toward.name(), count(totals.handed_over, "packet"));
    let (bytes, best) = (totals.handed_over_bytes, totals.best_second as f64 * 8.0);
    let (rate, best) = (bits_per_second(rate(totals) as f64), bits_per_second(best));
    let _ = write!(text, " ({}), {rate}, {best} in the best second", human_bytes(bytes));
    for (name, count) in counts(totals) {
        let _ = write!(text, ", {count} {name}");
    }
    let late = totals.lateness.summary();
    if late.count > 0 {
        let times = [late.p50, late.p99, late.max].map(human_duration);
        let _ = write!(text, "\n        late by {}, 99 % by less than {}, at most {}", times[0], times[1], times[2]);
    }
    text.push('\n');
}

/// The report in words, lines for each direction of each path, and the verdict.
pub fn words(report: &Report, paths: &[&str], limits: &Limits) -> String {
    let mut text = String::new();
    for (name, path) in paths.iter().zip(&report.paths) {
        let _ = writeln!(text, "{name}, {}, {}", human_duration(report.elapsed), count(path.flows, "flow"));
        for toward in Toward::BOTH {
            direction_words(&mut text, toward, path.direction(toward));
        }
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
    let faults = faults(report, paths, limits);
    if faults.is_empty() {
        text.push_str("VALID");
    } else {
        let _ = write!(text, "INVALID\n  {}", faults.join("\n  "));
    }
    text
}

/// The report as a page that opens from a file.
///
/// # Errors
/// When its template does not work.
pub fn page(report: &Report, paths: &[&str], seed: u64, limits: &Limits) -> Result<String> {
    let faults = faults(report, paths, limits);
    let verdict = if faults.is_empty() { "VALID" } else { "INVALID" };
    let mut page = Emulated {
        title: paths.join(", "),
        verdict: [verdict.to_owned()].into_iter().chain(faults).collect(),
        end: report.elapsed.as_secs_f64(),
        heads: ["way", "packets", "bytes", "rate", "best second", "drops and marks", "late (99 %)"]
            .map(str::to_owned)
            .into(),
        ..Emulated::default()
    };
    for (name, path) in paths.iter().zip(&report.paths) {
        for toward in Toward::BOTH {
            let (totals, series) = (path.direction(toward), &path.series[toward.index()]);
            let way = format!("{name} {}", toward.name());
            let counts: Vec<String> = counts(totals).map(|(name, count)| format!("{count} {name}")).collect();
            page.rows.push(vec![
                way.clone(),
                totals.handed_over.to_string(),
                human_bytes(totals.handed_over_bytes).to_string(),
                bits_per_second(rate(totals) as f64),
                bits_per_second(totals.best_second as f64 * 8.0),
                counts.join(", "),
                human_duration(totals.lateness.summary().p99).to_string(),
            ]);
            page.directions.push(direction_over_time(way, series));
        }
    }
    let woken = report.wake_ups;
    page.evidence = vec![
        ("seed".to_owned(), seed.to_string()),
        ("length".to_owned(), human_duration(report.elapsed).to_string()),
        ("programs were woken late by".to_owned(), {
            format!("{}, 99 % by less than {}", human_duration(woken.p50), human_duration(woken.p99))
        }),
        (
            "real-time priority".to_owned(),
            match &report.realtime {
                Some(Ok(())) => "yes".to_owned(),
                Some(Err(reason)) => format!("refused: {reason}"),
                None => "not asked for".to_owned(),
            },
        ),
    ];
    report::emulated(&page).context("cannot make the page")
}

fn direction_over_time(name: String, series: &Series) -> EmulatedDirection {
    let step = series.length().as_secs_f64();
    let steps = || series.steps().iter();
    let sojourn = |step: &Step| match step.sojourn_mean() {
        Some(mean) => (mean.as_secs_f64(), step.sojourn_max.as_secs_f64()),
        None => (f64::NAN, f64::NAN),
    };
    EmulatedDirection {
        name,
        step,
        rate: steps().map(|each| each.bytes as f64 * 8.0 / step).collect(),
        sojourn: steps().map(sojourn).collect(),
        dropped: steps().map(|each| each.dropped).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_run_is_said_in_words_json_and_a_page() {
        let (mut report, limits) = (Report::default(), Limits::default());
        report.paths = vec![PathReport::default(), PathReport::default()];
        let paths = ["p", "q"];
        let text = words(&report, &paths, &limits);
        assert!(text.contains("q, 0 ns, 0 flows\n  up    0 packets (0 B), 0.000 bps"), "{text}");
        assert!(text.ends_with("VALID"), "{text}");
        let json = serde_json::to_value(json(&report, &paths, 1, &limits, true)).unwrap();
        let up = &json["paths"][1]["up"];
        assert_eq!((&json["valid"], &up["handed_over"], &json["realtime"]), (&true.into(), &0.into(), &().into()));
        assert_eq!(up["series"]["step_ms"], 100);
        assert!(page(&report, &paths, 1, &limits).unwrap().contains("<td>q down</td>"));
    }
}
