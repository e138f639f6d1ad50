//! Results for other programs: a row per flow and run, a row per value, JSON of everything that was summed up, time
//! series.

use core::fmt::Write;
use std::io;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::Results;
use crate::hash::Digest;
use crate::judgment::Judgment;
use crate::metric::{METRICS, Scope, Unit};
use crate::record::{PacketPlot, Series};
use crate::scenario::Scenario;
use crate::stats::Statistic;
use crate::summary::{self, Difference, Row, Runs, Verdict};

/// `runs.csv`: point, what is varied, seed, flow, then every metric of flows (the median where a run has many values),
/// in seconds, bytes, bits per second and shares.
///
/// # Errors
/// When it cannot be written.
pub fn runs(scenario: &Scenario, runs: &Runs, out: &mut dyn io::Write) -> io::Result<()> {
    let metrics: Vec<_> = METRICS.iter().filter(|metric| metric.scope == Scope::Flow).collect();
    write!(out, "point")?;
    for axis in &scenario.axes {
        write!(out, ",{}", cell(&axis.label))?;
    }
    write!(out, ",seed,flow")?;
    for metric in &metrics {
        write!(out, ",{}", metric.name)?;
    }
    writeln!(out, ",wire_hash,decisions_hash,failed,settings")?;
    for ((point, seed), record) in runs {
        let Some(at) = scenario.points.get(*point) else { continue };
        for flow in summary::subjects(scenario, *point, Scope::Flow) {
            write!(out, "{point}")?;
            for label in &at.labels {
                write!(out, ",{}", cell(label))?;
            }
            write!(out, ",{seed},{}", cell(&flow))?;
            for metric in &metrics {
                let values = record.get(Scope::Flow, &flow, metric.name);
                match values {
                    [] => write!(out, ",")?,
                    [value] => write!(out, ",{value}")?,
                    many => write!(out, ",{}", Statistic::MEDIAN.of(many))?,
                }
            }
            let (failed, settings) = (record.failed().unwrap_or(""), record.settings(&flow).unwrap_or(""));
            let hashes = [record.wire_hash(), record.decisions_hash()];
            writeln!(out, ",{},{},{},{}", hashes[0], hashes[1], cell(failed), cell(settings))?;
        }
    }
    Ok(())
}

/// `values.csv`: a row for each value of each metric, as they are summed up. Point, what is varied, seed, what it is of
/// (`flow`, `link` or `run`) and its name, metric, unit and value. What never came is `inf`, and so is what a failed
/// run should have had and of which less is better; of what more is better a failed run has 0.
///
/// # Errors
/// When it cannot be written.
pub fn values(scenario: &Scenario, runs: &Runs, out: &mut dyn io::Write) -> io::Result<()> {
    let axes: String = scenario.axes.iter().map(|axis| format!("{},", cell(&axis.label))).collect();
    writeln!(out, "point,{axes}seed,of,name,metric,unit,value")?;
    for (point, at) in scenario.points.iter().enumerate() {
        let labels: String = at.labels.iter().map(|label| format!("{},", cell(label))).collect();
        for (scope, of) in [(Scope::Flow, "flow"), (Scope::Link, "link"), (Scope::Run, "run")] {
            for name in summary::subjects(scenario, point, scope) {
                for metric in METRICS.iter().filter(|metric| metric.scope == scope) {
                    let unit = match metric.unit {
                        Unit::Seconds => "s",
                        Unit::Bytes => "B",
                        Unit::BitsPerSecond => "bit/s",
                        Unit::Share => "share",
                        Unit::Ratio => "ratio",
                        Unit::Count => "count",
                    };
                    let row_end = format!("{of},{},{},{unit}", cell(&name), metric.name);
                    for (seed, values) in summary::values(runs, point, &name, metric) {
                        for value in values {
                            writeln!(out, "{point},{labels}{seed},{row_end},{value}")?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// `results.json`: everything the report shows as tables.
#[derive(Debug, Serialize)]
pub struct Summed<'a> {
    complete: bool,
    differences: Each<Difference>,
    engine: &'a str,
    flows: Each<Row>,
    intervals_that_may_miss: Option<String>,
    links: Each<Row>,
    passes: bool,
    points: Vec<String>,
    question: &'a str,
    reasons: Vec<String>,
    rivals_not_in_this_program: &'a [String],
    runs: Each<Row>,
    scenario_sha256: &'a Digest,
    seeds: u64,
    settings: Vec<(String, String)>,
    title: &'a str,
    until: Option<Value>,
    verdicts: Each<Verdict>,
}

/// A list whose elements become JSON one at a time: as a tree of values, whose keys are in the order of the alphabet,
/// all of them together would take a kilobyte for each number.
#[derive(Debug)]
struct Each<T>(Vec<T>);

impl<T: Serialize> Serialize for Each<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Tree))
    }
}

/// An element of such a list.
struct Tree<'a, T>(&'a T);

impl<T: Serialize> Serialize for Tree<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// What `results.json` holds.
pub fn results(results: &Results) -> Summed<'_> {
    let Results { scenario, runs, manifest, .. } = results;
    let judgment = Judgment::of(results);
    Summed {
        complete: manifest.complete,
        differences: Each(summary::differences(scenario, runs)),
        engine: &manifest.engine,
        flows: Each(summary::rows(scenario, runs, Scope::Flow)),
        intervals_that_may_miss: summary::many_intervals(judgment.tally.intervals),
        links: Each(summary::rows(scenario, runs, Scope::Link)),
        passes: judgment.passes(),
        points: scenario.points.iter().map(|point| point.name(&scenario.axes)).collect(),
        question: &scenario.question,
        reasons: judgment.reasons.iter().map(ToString::to_string).collect(),
        rivals_not_in_this_program: &scenario.absent,
        runs: Each(summary::rows(scenario, runs, Scope::Run)),
        scenario_sha256: &scenario.digest,
        seeds: manifest.seeds,
        settings: summary::settings(scenario, runs),
        title: &scenario.title,
        until: judgment.until.as_ref().map(|until| json!({ "met": until.is_met(), "asked": until })),
        verdicts: Each(judgment.verdicts),
    }
}

/// A time series: seconds and values.
pub fn series(series: &Series) -> String {
    let unit = if series.unit.is_empty() { String::new() } else { format!("_{}", series.unit) };
    let mut out = format!("t_s,{}{unit}{}\n", series.name, if series.states.is_empty() { "" } else { ",state" });
    let mut states = series.states.iter().peekable();
    let mut state = "";
    for (t, v) in series.t.iter().zip(&series.v) {
        while let Some((_, name)) = states.next_if(|(since, _)| since <= t) {
            state = name;
        }
        if series.states.is_empty() {
            let _ = writeln!(out, "{t},{v}");
        } else {
            let _ = writeln!(out, "{t},{v},{}", cell(state));
        }
    }
    out
}

/// Packets: seconds, number and what happened.
pub fn packets(plot: &PacketPlot) -> String {
    let mut all: Vec<(f64, u64, &str)> = Vec::new();
    for (list, what) in
        [(&plot.sent, "sent"), (&plot.acked, "acked"), (&plot.lost, "lost"), (&plot.spurious, "spurious")]
    {
        all.extend(list.iter().map(|(t, number)| (*t, *number, what)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out = String::from("t_s,packet,what\n");
    for (t, number, what) in all {
        let _ = writeln!(out, "{t},{number},{what}");
    }
    out
}

/// A name for a file that says what is in it.
pub fn file_name(parts: &[&str]) -> String {
    let mut out = String::new();
    for c in parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ").chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '+' || c == '.' => out.push(c),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    if out.len() <= MOST_NAME {
        return out;
    }
    // What is cut off may be all that tells two names apart.
    let digest = Digest::of(parts.join("\n").as_bytes());
    out.truncate(MOST_NAME - digest.short().len() - 1);
    format!("{out}-{}", digest.short())
}

/// The longest name of a file without its extension: systems take 255 bytes.
const MOST_NAME: usize = 180;

/// A cell that holds commas, quotes or line ends is quoted (RFC 4180).
pub(super) fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
