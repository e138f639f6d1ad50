//! The HTML page of a report: its template and the values that fill it.

use std::collections::BTreeMap;

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::svg::{self, Group};
use super::{ReportError, Results, overlay};
use crate::judgment::{Failures, Judgment};
use crate::metric::{self, Better, METRICS, Metric, Scope, Unit};
use crate::stats::{Interval, Missing, Statistic};
use crate::store::Manifest;
use crate::summary::{self, Cell, Difference, Outcome, Row, Sample, Tally, Verdict};

const TEMPLATE: &str = include_str!("../../assets/report.html");
pub(super) const CSS: &str = concat!(include_str!("../../assets/report.css"), include_str!("../../assets/plots.css"));
/// Saves plots, draws plots over time, and picks what they show: one script, a file for each subject.
pub(super) const JS: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../../assets/script/units.js"),
    include_str!("../../assets/script/colors.js"),
    include_str!("../../assets/script/save.js"),
    include_str!("../../assets/script/recordings.js"),
    include_str!("../../assets/script/marks.js"),
    include_str!("../../assets/script/plot.js"),
    include_str!("../../assets/script/picker.js"),
    include_str!("../../assets/script/time.js"),
    "})();\n"
);
pub(super) const UPLOT_JS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
pub(super) const UPLOT_CSS: &str = include_str!("../../assets/uplot/uPlot.min.css");

/// How many recordings are put into the page; the rest is in files beside it.
const MOST_RECORDINGS: usize = 12;

/// How many failures and hashes are listed.
const MOST_LINES: usize = 200;

/// Metrics of flows that are drawn, if they differ from run to run.
const DRAWN: [&str; 10] = [
    "completion",
    "completion_over_floor",
    "response",
    "flow_completion",
    "frame_delay",
    "deadline_misses",
    "silence_after_repair",
    "goodput",
    "packets_spurious",
    "loss_rate",
];

#[derive(Serialize)]
pub(super) struct Table {
    id: &'static str,
    title: &'static str,
    first: &'static str,
    note: String,
    columns: Vec<Column>,
    pub(super) rows: Vec<TableRow>,
}

#[derive(Serialize)]
pub(super) struct Column {
    name: String,
    doc: &'static str,
}

#[derive(Serialize)]
pub(super) struct TableRow {
    label: String,
    pub(super) cells: Vec<TableCell>,
}

#[derive(Serialize, Default)]
pub(super) struct TableCell {
    value: String,
    interval: Option<String>,
    /// Quantiles beside the median, a line each.
    tails: Vec<String>,
    pub(super) title: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Distribution {
    pub(super) metric: &'static str,
    title: String,
    doc: &'static str,
    box_plot: String,
    cdf: String,
}

pub(super) fn single(results: &Results) -> Result<String, ReportError> {
    let scenario = &results.scenario;
    let judgment = Judgment::of(results);
    let differences = summary::differences(scenario, &results.runs);
    let mut lines: Vec<String> = judgment.verdicts.iter().map(|verdict| verdict.line.to_string()).collect();
    lines.dedup();
    page(
        context! {
            title => scenario.title.clone(),
            question => scenario.question.clone(),
            verdicts => judgment.verdicts.iter().map(judged).collect::<Vec<_>>(),
            shipped => super::collection::shipped(results),
            banner => banner(core::slice::from_ref(&judgment)),
            lines => lines.join(", "),
            many => summary::many_intervals(judgment.tally.intervals),
        },
        &[results],
        &differences,
        if scenario.points.iter().any(|point| point.rival.is_some()) {
            "Differences to the first point, and of rivals to ours on the same links, on the same seeds"
        } else {
            "Differences to the first point, on the same seeds"
        },
    )
}

/// How results are colored that pass or not; rivals that failed are no reason not to pass, but are to be seen.
pub(super) fn class_of(passes: bool, failed: Failures) -> &'static str {
    match (passes, failed.unexpected_of_rivals) {
        (false, _) => "bad",
        (true, 0) => "good",
        (true, _) => "warn",
    }
}

/// The line at the top.
pub(super) fn banner(judgments: &[Judgment]) -> Value {
    let (mut tally, mut failed, mut broken, mut excused) = (Tally::default(), Failures::default(), 0, 0);
    for judgment in judgments {
        tally += judgment.tally;
        failed += judgment.failures;
        broken += judgment.broken;
        excused += judgment.excused;
    }
    let all = tally.expected;
    let verdicts = match broken {
        0 => format!("{} of {all} expectations hold", all - excused),
        broken => format!("{broken} of {all} expectations do not hold"),
    };
    let excused = match excused {
        0 => String::new(),
        excused => format!("; {excused} cannot be told on so few runs"),
    };
    let known = tally.known().map_or_else(String::new, |known| format!("; {known}"));
    let failures = match (failed.all, failed.unexpected, failed.unexpected_of_rivals) {
        (0, ..) => String::new(),
        (runs, 0, 0) => format!("; {} failed, as expected", count(runs as u64, "run")),
        (runs, 0, _) => format!("; {} failed, none of ours that should not", count(runs as u64, "run")),
        (runs, ours, _) => format!("; {} failed, {ours} of ours that should not", count(runs as u64, "run")),
    };
    let class = class_of(judgments.iter().all(Judgment::passes), failed);
    context! { class => class, text => format!("{verdicts}{excused}{known}{failures}") }
}

/// A verdict for the template.
pub(super) fn judged(verdict: &Verdict) -> Value {
    context! {
        measured => verdict.measured.clone(),
        because => verdict.because.clone(),
        where => join(&verdict.point_name, &verdict.subject),
        expected => verdict.expected.clone(),
        found => verdict.found.clone(),
        word => verdict.outcome.word(),
        class => class(verdict.outcome),
    }
}

pub(super) fn comparison(a: &Results, b: &Results, differences: &[Difference]) -> Result<String, ReportError> {
    let name = |results: &Results| results.store.directory().display().to_string();
    page(
        context! {
            title => format!("{} against {}", name(b), name(a)),
            question => format!("What changes from A ({}) to B ({})?", a.scenario.title, b.scenario.title),
        },
        &[a, b],
        differences,
        "B against A, on the same seeds",
    )
}

fn page(head: Value, sets: &[&Results], differences: &[Difference], title: &str) -> Result<String, ReportError> {
    let tables = tables(sets);
    let intervals = differences.iter().filter(|difference| difference.paired.ratio_interval.is_some()).count();
    let distributions = distributions(sets);
    let recordings = overlay::recordings(sets, MOST_RECORDINGS);
    let failures: Vec<&str> =
        sets.iter().flat_map(|set| set.runs.values().filter_map(|record| record.failed.as_deref())).collect();
    let settings: Vec<(String, String)> = sets
        .iter()
        .enumerate()
        .flat_map(|(at, set)| {
            let settings = summary::settings(&set.scenario, &set.runs);
            settings.into_iter().map(move |(stack, text)| (format!("{}{stack}", prefix(sets, at)), text))
        })
        .collect();
    let mut absent: Vec<String> = sets.iter().filter_map(|set| summary::absent(&set.scenario)).collect();
    absent.dedup();
    let mut nav: Vec<(&str, &str)> = Vec::new();
    if !head.get_attr("verdicts")?.is_undefined() && head.get_attr("verdicts")?.len().unwrap_or(0) > 0 {
        nav.push(("verdicts", "Verdicts"));
    }
    if !failures.is_empty() {
        nav.push(("failures", "Failed runs"));
    }
    if !head.get_attr("shipped")?.is_undefined() {
        nav.push(("shipped", "As shipped and best"));
    }
    nav.extend(tables.iter().map(|table| (table.id, table.title)));
    if !settings.is_empty() {
        nav.push(("settings", "Settings"));
    }
    if !differences.is_empty() {
        nav.push(("differences", "Differences"));
    }
    if !distributions.is_empty() {
        nav.push(("distributions", "Distributions"));
    }
    if !recordings.is_empty() {
        nav.push(("time", "Time plots"));
    }
    nav.push(("manifest", "Reproduce"));
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE)?;
    environment.add_template("shipped.html", super::collection::SHIPPED)?;
    let body = context! {
        absent => absent.join("; "),
        settings => serde(&settings),
        facts => facts(sets),
        nav => serde(&nav),
        failures => serde(&failures[..failures.len().min(MOST_LINES)]),
        more_failures => failures.len().saturating_sub(MOST_LINES),
        tables => serde(&tables),
        differences => differences.iter().map(difference).collect::<Vec<_>>(),
        many_differences => summary::many_intervals(intervals),
        differences_title => title,
        distributions => serde(&distributions),
        recordings => recordings.len(),
        recordings_json => overlay::json(&recordings)?,
        manifests => sets.iter().enumerate().map(|(at, set)| manifest(set, &prefix(sets, at))).collect::<Vec<_>>(),
        css => CSS,
        js => JS,
        uplot_css => UPLOT_CSS,
        uplot_js => UPLOT_JS,
    };
    Ok(environment.get_template("report.html")?.render(context! { ..head, ..body })?)
}

/// A value for the template.
pub(super) fn serde<T: Serialize + ?Sized>(value: &T) -> Value {
    Value::from(minijinja::value::Serde(value))
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds | Outcome::Beaten => "good",
        Outcome::HoldsBarely | Outcome::BeatenBarely | Outcome::FallsShort => "warn",
        Outcome::CannotTell | Outcome::Unknown => "warn",
        Outcome::Fails => "bad",
    }
}

fn prefix(sets: &[&Results], at: usize) -> String {
    match (sets.len(), at) {
        (1, _) => String::new(),
        (_, 0) => "A: ".to_owned(),
        _ => "B: ".to_owned(),
    }
}

pub(super) fn join(one: &str, two: &str) -> String {
    let parts: Vec<&str> = [one, two].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

pub(super) fn facts(sets: &[&Results]) -> String {
    let parts: Vec<String> = sets
        .iter()
        .enumerate()
        .map(|(at, set)| {
            let manifest = &set.manifest;
            let mut state = if manifest.complete { String::new() } else { ", not complete".to_owned() };
            let until = crate::runner::enough(&set.scenario, &set.runs, manifest);
            if let Some(until) = until.filter(|until| !until.is_met()) {
                state += &format!(", {until}");
            }
            format!(
                "{}{}, {}, {}{state}; {}",
                prefix(sets, at),
                count(manifest.points.len() as u64, "point"),
                count(manifest.seeds, "seed"),
                count(manifest.runs.len() as u64, "run"),
                manifest.engine
            )
        })
        .collect();
    parts.join(" · ")
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A label for a row: what is varied, and the flow where there are several.
fn row_label(set: &Results, point: usize, subject: &str, scope: Scope) -> String {
    let alone = summary::subjects(&set.scenario, point, scope).len() == 1;
    let point = set.scenario.points.get(point).map(|point| point.name(&set.scenario.axes)).unwrap_or_default();
    let subject = if alone && !point.is_empty() { "" } else { subject };
    let label = join(&point, subject);
    if label.is_empty() { "this run".to_owned() } else { label }
}

/// Metrics of flows that make it into the table; all are in the CSV.
const TABLED: [&str; 17] = [
    "completed",
    "completion",
    "completion_over_floor",
    "goodput",
    "response",
    "flow_completion",
    "frame_delay",
    "deadline_misses",
    "silence_after_repair",
    "handshake",
    "packets_sent",
    "packets_lost",
    "packets_spurious",
    "ptos",
    "max_window",
    "rtt",
    "reverse_packets",
];

pub(super) fn tables(sets: &[&Results]) -> Vec<Table> {
    [flow_table(sets), table(sets, Scope::Link), table(sets, Scope::Run)].into_iter().flatten().collect()
}

fn flow_table(sets: &[&Results]) -> Option<Table> {
    let mut table = table(sets, Scope::Flow)?;
    let kept: Vec<bool> =
        table.columns.iter().map(|column| TABLED.contains(&column.name.replace(' ', "_").as_str())).collect();
    let mut at = kept.iter();
    table.columns.retain(|_| *at.next().unwrap_or(&true));
    for row in &mut table.rows {
        let mut at = kept.iter();
        row.cells.retain(|_| *at.next().unwrap_or(&true));
    }
    Some(table)
}

fn table(sets: &[&Results], scope: Scope) -> Option<Table> {
    let rows: Vec<(String, Row)> = sets
        .iter()
        .enumerate()
        .flat_map(|(at, set)| {
            summary::rows(&set.scenario, &set.runs, scope).into_iter().map(move |row| {
                (format!("{}{}", prefix(sets, at), row_label(set, row.point, &row.subject, scope)), row)
            })
        })
        .collect();
    let metrics: Vec<&Metric> = METRICS
        .iter()
        .filter(|metric| metric.scope == scope)
        .filter(|metric| rows.iter().any(|(_, row)| row.cells.iter().any(|cell| cell.metric == metric.name)))
        .collect();
    if rows.is_empty() || metrics.is_empty() {
        return None;
    }
    let rows = rows
        .into_iter()
        .map(|(label, row)| TableRow {
            label,
            cells: metrics
                .iter()
                .map(|metric| {
                    let Some(cell) = row.cells.iter().find(|cell| cell.metric == metric.name) else {
                        return TableCell::default();
                    };
                    table_cell(metric, cell)
                })
                .collect(),
        })
        .collect();
    let (id, title, first) = match scope {
        Scope::Flow => ("flows", "Flows", "flow"),
        Scope::Link => ("links", "Links", "link"),
        Scope::Run => ("runs", "Runs", "point"),
    };
    let columns =
        metrics.iter().map(|metric| Column { name: metric.name.replace('_', " "), doc: metric.doc }).collect();
    let note =
        "Medians over seeds (of shares the mean; where a run has many values, of the runs' own medians and percentiles), with 95 % \
         intervals; an open end is one that so few runs do not bound. Point at a number for its range."
            .to_owned();
    Some(Table { id, title, first, note, columns, rows })
}

fn table_cell(metric: &Metric, cell: &Cell) -> TableCell {
    let print = |value| metric::format(value, metric.unit);
    let tails = [("p95", cell.p95), ("p99", cell.p99)].into_iter().filter(|_| shows_tails(metric, cell));
    let why = cell.missing.map_or_else(String::new, |missing| format!("; {missing}"));
    TableCell {
        value: print_or_never(cell.estimate, metric.unit),
        interval: interval_or_why(cell.interval, cell.missing, metric.unit),
        tails: tails
            .filter_map(|(name, tail)| {
                let tail = tail?;
                Some(format!("{name} {}", summary::with_interval(tail.estimate, tail.interval, metric.unit)))
            })
            .collect(),
        title: Some(format!(
            "{}; from {} to {}, {} values of {} runs{why}",
            metric.doc,
            print(cell.min),
            print(cell.max),
            cell.count,
            cell.runs
        )),
    }
}

/// Whether high percentiles say more than the median: of times and ratios of which less is better, if values differ.
fn shows_tails(metric: &Metric, cell: &Cell) -> bool {
    let is_time = matches!(metric.unit, Unit::Seconds | Unit::Ratio);
    is_time && metric.better == Better::Less && (cell.distinct > 1 || cell.count > cell.runs)
}

pub(super) fn print_or_never(value: f64, unit: Unit) -> String {
    if value == f64::INFINITY { "never".to_owned() } else { metric::format(value, unit) }
}

pub(super) fn print_interval(interval: Interval, unit: Unit) -> Option<String> {
    let (low, high) = summary::ends(interval, unit)?;
    (low != high).then(|| format!("{low} … {high}"))
}

/// An interval, or in a few words why there is none.
pub(super) fn interval_or_why(interval: Option<Interval>, missing: Option<Missing>, unit: Unit) -> Option<String> {
    match (interval, missing) {
        (Some(interval), _) => print_interval(interval, unit),
        (None, Some(Missing::Alike(_))) => Some("1 distinct result".to_owned()),
        (None, Some(Missing::Few(_) | Missing::OneValue(_))) => Some("no interval".to_owned()),
        (None, _) => None,
    }
}

fn difference(difference: &Difference) -> Value {
    let known = metric::find(difference.metric);
    let unit = known.map_or(Unit::Ratio, |metric| metric.unit);
    let paired = &difference.paired;
    let sure = paired.ratio_interval.is_some_and(|interval| !interval.contains(1.0));
    context! {
        metric => difference.metric.replace('_', " "),
        what => join(&difference.other, &difference.subject),
        difference => metric::format(paired.difference, unit),
        difference_interval => interval_or_why(paired.difference_interval, paired.missing, unit),
        ratio => metric::format(paired.ratio, Unit::Ratio),
        ratio_interval => interval_or_why(paired.ratio_interval, paired.missing, Unit::Ratio),
        class => match known.filter(|metric| sure && metric.better != Better::Neither) {
            None => "",
            Some(metric) if metric.is_better(paired.ratio, 1.0) => "good",
            Some(_) => "bad",
        },
        first_never => paired.first_never,
        smaller => paired.smaller,
        larger => paired.larger,
        pairs => paired.pairs,
    }
}

pub(super) fn distributions(sets: &[&Results]) -> Vec<Distribution> {
    let mut distributions = Vec::new();
    for metric in DRAWN.iter().filter_map(|name| metric::find(name)) {
        let mut groups = Vec::new();
        for (at, set) in sets.iter().enumerate() {
            for (point, subject, _) in summary::places(&set.scenario, &set.runs, Scope::Flow) {
                let sample = Sample::new(&set.scenario, &set.runs, point, &subject, metric);
                let flat = sample.all();
                if !flat.is_empty() {
                    // Of all values of all runs thrown together no interval can be told.
                    let interval = sample.estimate(Statistic::MEDIAN).interval.filter(|_| !sample.is_repeated());
                    let label = format!("{}{}", prefix(sets, at), row_label(set, point, &subject, Scope::Flow));
                    groups.push(Group { label, values: flat, interval });
                }
            }
        }
        // What differs by less than a thousandth is one number, which the table has.
        let finite = || groups.iter().flat_map(|group| &group.values).filter(|value| value.is_finite());
        let (low, high) =
            finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        let alike = high - low <= 1e-3 * high.abs() && finite().count() > 0 && !groups.iter().any(has_endless);
        if groups.is_empty() || alike {
            continue;
        }
        groups.truncate(40);
        let name = metric.name.replace('_', " ");
        if let (Some(box_plot), Some(cdf)) =
            (svg::box_plot(&name, metric.unit, &groups), svg::cdf(&name, metric.unit, &groups))
        {
            distributions.push(Distribution {
                metric: metric.name,
                title: capital(&name),
                doc: metric.doc,
                box_plot,
                cdf,
            });
        }
    }
    distributions
}

fn has_endless(group: &Group) -> bool {
    group.values.iter().any(|value| !value.is_finite())
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(super) fn manifest(set: &Results, prefix: &str) -> Value {
    let manifest: &Manifest = &set.manifest;
    let mut notes: Vec<(String, String, String)> = Vec::new();
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    for (point, subject, known) in summary::places(&set.scenario, &set.runs, Scope::Flow) {
        let label = row_label(set, point, &subject, Scope::Flow);
        for (name, value) in known {
            // What is the same everywhere is said once.
            if seen.insert((subject.clone(), name.clone()), value.clone()).as_ref() != Some(&value) {
                notes.push((label.clone(), name, value));
            }
        }
    }
    let directory = set.store.directory().display();
    let program = crate::runner::program(set.scenario.points.iter().any(|point| point.rival.is_some()));
    let lines = [
        (format!("{prefix}scenario"), format!("{} (sha256 {})", manifest.scenario.file, manifest.scenario.sha256)),
        ("thalweg".to_owned(), manifest.thalweg.clone()),
        ("engine".to_owned(), manifest.engine.clone()),
        ("build".to_owned(), manifest.build.clone()),
        ("seeds".to_owned(), format!("{} from {}", manifest.seeds, manifest.first_seed)),
        ("run it".to_owned(), crate::runner::again(&set.scenario, manifest)),
        ("check it".to_owned(), format!("{program} lab verify {}", crate::runner::quoted(&directory.to_string()))),
    ];
    let runs: Vec<(String, u64, String, String)> = manifest
        .runs
        .iter()
        .take(MOST_LINES)
        .map(|run| {
            let name = manifest.points.get(run.point).map(|point| point.name.clone()).unwrap_or_default();
            (name, run.seed, run.wire_hash.clone(), run.decisions_hash.clone())
        })
        .collect();
    context! {
        name => manifest.scenario.name.clone(),
        text => manifest.scenario.text.clone(),
        lines => serde(&lines),
        notes => serde(&notes),
        more_runs => manifest.runs.len().saturating_sub(MOST_LINES),
        runs => serde(&runs),
    }
}
