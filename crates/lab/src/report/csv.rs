//! Results as CSV for other programs: a row per flow and run, a row per value, time series.

use core::fmt::Write;
use std::io;

use crate::metric::{METRICS, Scope, Unit};
use crate::record::{PacketPlot, Series};
use crate::scenario::Scenario;
use crate::stats::Statistic;
use crate::summary::{self, Runs};

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

/// A cell that holds commas, quotes or line ends is quoted (RFC 4180).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// A number for a CSV file: seven significant digits are more than a picture shows.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.6e}");
    text.parse::<f64>().map_or(text, |rounded| rounded.to_string())
}

/// A row of a CSV file (RFC 4180).
pub(super) fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.into_iter().map(cell).collect();
    cells.join(",") + "\n"
}
