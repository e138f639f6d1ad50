//! The HTML page of a report: its template and the values that fill it.

use std::collections::BTreeMap;

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::compared::{self, Compared};
use super::limited::Limited;
use super::picture::Picture;
use super::{MOST_RECORDINGS, ReportError, Results, delivery, figures, overlay, waits};
use crate::answer;
use crate::choices::Grid;
use crate::judgment::{Failures, Judgment};
use crate::matrix::{self, Matrix, Side};
use crate::metric::{self, Better, METRICS, Metric, Scope, Unit};
use crate::scenario::{Answer, Axis, Point};
use crate::starved::Starved;
use crate::stats::{Interval, Missing};
use crate::store::{Manifest, ManifestRun};
use crate::summary::{self, Cell, Outcome, Row, Tally, Verdict};

const TEMPLATE: &str = include_str!("../../assets/report.html");
pub(super) const PARTS: &str = include_str!("../../assets/parts.html");
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

/// How many failures and hashes are listed.
const MOST_LINES: usize = 200;

/// Notes on flows that are listed.
const MOST_NOTES: usize = 1_000;

/// Rows of the tables of flows, of links and of runs, of each set; what is left out the table says.
const MOST_FIGURES: usize = 200;

/// Verdicts of a list; what is left out the page says.
const MOST_VERDICTS: usize = 1_000;

/// Pictures of metrics beside the one that answers the question.
const MOST_PICTURES: usize = 10;

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

/// What a page shows of one set of results, or of two beside each other.
pub(super) struct Shown {
    pub(super) sentences: Vec<String>,
    /// The picture that answers the question.
    pub(super) main: Option<Picture>,
    /// Pictures of what else the scenario asks about.
    pub(super) others: Limited<Picture>,
    pub(super) distributions: Vec<Picture>,
    /// How many links have no picture of how long packets wait there.
    more_links: usize,
    /// How the bytes of each flow arrived.
    pub(super) delivery: Limited<Picture>,
    pub(super) compared: Vec<Compared>,
    /// The metrics that differ and have no table in `compared`, in words.
    pub(super) uncompared: String,
    pub(super) matrices: Vec<Matrix>,
    pub(super) grid: Grid,
}

impl Shown {
    /// What is shown of one set.
    pub(super) fn of(set: &Results) -> Shown {
        let (scenario, grid) = (&set.scenario, Grid::of(&set.scenario));
        let (matrices, measured) = matrix::matrices(scenario, &set.runs, &grid);
        let asked = matrix::asked(scenario).len();
        let (main, others) = drawn(&matrices, |matrix| figures::of(scenario, &grid, matrix));
        let distributions = matrices.iter().take(asked.max(1));
        let distributions = distributions.filter_map(|matrix| figures::distribution(set, &grid, matrix));
        // How long packets wait comes first: where it is asked for it is what the report is about.
        let Limited { shown: waits, more: more_links } = waits::pictures(set, &grid);
        let distributions = waits.into_iter().chain(distributions).collect();
        Shown {
            sentences: answer::sentences(scenario, &grid, &matrices, measured),
            main,
            others,
            distributions,
            more_links,
            delivery: delivery::pictures(set, &grid),
            compared: compared::tables(scenario, &grid, &matrices),
            uncompared: compared::untabled(scenario, &grid, &matrices),
            matrices,
            grid,
        }
    }

    /// What is shown of two sets: B against A at every point that both have.
    fn between(a: &Results, b: &Results) -> Shown {
        let name = |set: &Results, point: usize| set.scenario.points[point].name(&set.scenario.axes);
        let theirs: BTreeMap<String, usize> =
            (0..b.scenario.points.len()).map(|point| (name(b, point), point)).collect();
        let both: Vec<(usize, usize, String)> = (0..a.scenario.points.len())
            .filter_map(|point| Some((point, *theirs.get(&name(a, point))?, name(a, point))))
            .collect();
        let points: Vec<&Point> = both.iter().map(|(point, ..)| &a.scenario.points[*point]).collect();
        let grid = Grid::of_sets(&brief(&a.scenario.axes, &points));
        let side = |place: usize, choice: usize| {
            let (first, second, _) = both.get(place)?;
            Some(match choice {
                0 => Side { scenario: &a.scenario, runs: &a.runs, point: *first },
                _ => Side { scenario: &b.scenario, runs: &b.runs, point: *second },
            })
        };
        let mut all = matrix::asked(&a.scenario);
        for (metric, of) in matrix::judging(&a.scenario) {
            if !all.iter().any(|(it, known)| it.metric == metric && *known == of) {
                all.push((Answer { metric, statistic: summary::statistic(metric) }, of));
            }
        }
        let matrices = all.into_iter().filter_map(|(answer, of)| Matrix::of_sides((both.len(), 2), &side, answer, &of));
        let matrices: Vec<Matrix> = matrices.collect();
        let measured = matrices.len();
        // What is the same in both is not shown but for the metric that answers the question.
        let told = matrices.into_iter().enumerate().filter(|(at, it)| *at == 0 || it.tells_choices_apart());
        let matrices: Vec<Matrix> = told.map(|(_, it)| it.with_best(&side)).collect();
        let (main, others) =
            drawn(&matrices, |matrix| figures::between(&a.scenario, &grid, matrix).into_iter().collect());
        Shown {
            sentences: answer::sentences(&a.scenario, &grid, &matrices, measured),
            main,
            others,
            distributions: Vec::new(),
            more_links: 0,
            delivery: Limited::new([], 0),
            compared: compared::tables(&a.scenario, &grid, &matrices),
            uncompared: compared::untabled(&a.scenario, &grid, &matrices),
            matrices,
            grid,
        }
    }
}

/// The first picture of what is asked, and others as far as a page has room. What is left out is counted as metrics,
/// which need not be drawn for that.
fn drawn(matrices: &[Matrix], draw: impl Fn(&Matrix) -> Vec<Picture>) -> (Option<Picture>, Limited<Picture>) {
    let (mut pictures, mut more) = (Vec::new(), 0);
    for matrix in matrices {
        if pictures.len() > MOST_PICTURES {
            more += 1;
        } else {
            pictures.extend(draw(matrix));
        }
    }
    let mut pictures = pictures.into_iter();
    (pictures.next(), Limited { shown: pictures.collect(), more })
}

/// The names of points by what tells them apart.
fn brief(axes: &[Axis], points: &[&Point]) -> Vec<String> {
    let varies = |at: usize| points.iter().any(|point| point.labels[at] != points[0].labels[at]);
    let varied: Vec<usize> = (0..axes.len()).filter(|at| varies(*at)).collect();
    let words = |point: &&Point| {
        let words =
            varied.iter().filter(|at| !point.labels[**at].is_empty()).map(|at| axes[*at].in_words(&point.labels[*at]));
        words.collect::<Vec<_>>().join(", ")
    };
    points.iter().map(words).collect()
}

pub(super) fn single(results: &Results, recordings: usize) -> Result<String, ReportError> {
    let scenario = &results.scenario;
    let judgment = Judgment::of(results);
    let shown = Shown::of(results);
    let mut lines: Vec<String> = judgment.verdicts.iter().map(|verdict| verdict.line.to_string()).collect();
    lines.dedup();
    let fails = |verdict: &&Verdict| !verdict.outcome.is_good();
    let verdicts = Limited::new(judgment.verdicts.iter().map(judged), MOST_VERDICTS);
    let broken = Limited::new(judgment.verdicts.iter().filter(fails).map(judged), MOST_VERDICTS);
    page(
        context! {
            title => scenario.title.clone(),
            question => scenario.question.clone(),
            verdicts => verdicts.shown,
            more_verdicts => verdicts.more,
            broken => broken.shown,
            more_broken => broken.more,
            banner => banner(core::slice::from_ref(&judgment)),
            lines => lines.join(", "),
            many => summary::many_intervals(judgment.tally.intervals),
        },
        &[results],
        &shown,
        recordings,
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

pub(super) fn comparison(a: &Results, b: &Results) -> Result<String, ReportError> {
    let name = |results: &Results| results.store.directory().display().to_string();
    page(
        context! {
            title => format!("{} against {}", name(b), name(a)),
            question => format!("What changes from A ({}) to B ({})?", a.scenario.title, b.scenario.title),
        },
        &[a, b],
        &Shown::between(a, b),
        MOST_RECORDINGS,
    )
}

fn page(head: Value, sets: &[&Results], shown: &Shown, most_recordings: usize) -> Result<String, ReportError> {
    let tables = tables(sets);
    let (recordings, recorded) = overlay::recordings(sets, most_recordings);
    let failures = sets.iter().flat_map(|set| set.runs.values().filter_map(|record| record.failed()));
    let failures = Limited::new(failures, MOST_LINES);
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
    let mut warnings: Vec<String> = sets.iter().flat_map(|set| summary::warnings(&set.scenario)).collect();
    warnings.dedup();
    let starved = sets.iter().enumerate().filter_map(|(at, set)| {
        let starved = Starved::of(&set.scenario, &set.runs)?;
        let text = format!("{}{starved}", prefix(sets, at));
        Some((if at == 0 { figures::capital(&text) } else { text }, starved.replay))
    });
    let starved: Vec<(String, String)> = starved.collect();
    let html = |pictures: &[Picture]| pictures.iter().map(Picture::html).collect::<Vec<_>>();
    let nav = [
        ("failures", "Failed runs", !failures.shown.is_empty()),
        ("delivery", "Delivery over time", !shown.delivery.shown.is_empty()),
        ("more", "More pictures", !shown.others.shown.is_empty()),
        ("distributions", "Distributions", !shown.distributions.is_empty()),
        ("time", "Time plots", !recordings.is_empty()),
        ("compared", "Tables", !shown.compared.is_empty()),
        ("verdicts", "Verdicts", !head.get_attr("verdicts")?.is_undefined()),
        ("settings", "Settings", !settings.is_empty()),
        ("manifest", "Reproduce", true),
    ];
    let nav: Vec<(&str, &str)> = nav.into_iter().filter(|part| part.2).map(|part| (part.0, part.1)).collect();
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE)?;
    environment.add_template("parts.html", PARTS)?;
    let body = context! {
        absent => absent.join("; "),
        warnings => serde(&warnings),
        starved => serde(&starved),
        sentences => serde(&shown.sentences),
        picture => shown.main.as_ref().map(Picture::html),
        others => html(&shown.others.shown),
        more_others => shown.others.more,
        more_links => shown.more_links,
        more_delivery => shown.delivery.more,
        distributions => html(&shown.distributions),
        delivery => html(&shown.delivery.shown),
        compared => serde(&shown.compared),
        uncompared => shown.uncompared.clone(),
        policies => thalweg_recovery::Policies::default().to_string(),
        reference => shown.grid.choices.first().filter(|_| shown.grid.choices.len() > 1).map(|it| it.name.clone()),
        settings => serde(&settings),
        facts => facts(sets),
        nav => serde(&nav),
        failures => serde(&failures.shown),
        more_failures => failures.more,
        tables => serde(&tables),
        recordings => recordings.len(),
        recorded => recorded,
        more_recordings => (sets.len() == 1 && recorded > recordings.len()).then(|| more_recordings(sets[0], recorded)),
        recordings_json => overlay::json(&recordings)?,
        manifests => sets.iter().enumerate().map(|(at, set)| manifest(set, &prefix(sets, at))).collect::<Vec<_>>(),
        css => CSS,
        js => JS,
        uplot_css => UPLOT_CSS,
        uplot_js => UPLOT_JS,
    };
    Ok(environment.get_template("report.html")?.render(context! { ..head, ..body })?)
}

/// The command that puts so many recordings into the page.
fn more_recordings(set: &Results, recorded: usize) -> String {
    let directory = crate::runner::quoted(&set.store.directory().display().to_string());
    let program = crate::runner::program(set.scenario.points.iter().any(|point| point.rival.is_some()));
    format!("{program} lab report {directory} --recordings {recorded}")
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
    let mut more = 0;
    let mut rows: Vec<(String, Row)> = Vec::new();
    for (at, set) in sets.iter().enumerate() {
        let mut places = summary::places(&set.scenario, &set.runs, scope);
        more += places.len().saturating_sub(MOST_FIGURES);
        places.truncate(MOST_FIGURES);
        let label = |row: &Row| format!("{}{}", prefix(sets, at), row_label(set, row.point, &row.subject, scope));
        let of_set = summary::rows_of(&set.scenario, &set.runs, scope, places);
        rows.extend(of_set.into_iter().map(|row| (label(&row), row)));
    }
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
    let mut note =
        "Medians over seeds (of shares the mean; where a run has many values, of the runs' own medians and percentiles), with 95 % \
         intervals; an open end is one that so few runs do not bound. Point at a number for its range."
            .to_owned();
    if more > 0 {
        note += &format!(" Not shown: {}; results.json has them.", count(more as u64, "more row"));
    }
    Some(Table { id, title, first, note, columns, rows })
}

fn table_cell(metric: &Metric, cell: &Cell) -> TableCell {
    let print = |value| metric::format(value, metric.unit);
    let tails = [("p95", cell.p95), ("p99", cell.p99)].into_iter().filter(|_| shows_tails(metric, cell));
    // What the cell says itself is not said again.
    let why = cell.missing.filter(|it| !matches!(it, Missing::Alike(_)));
    let why = why.map_or_else(String::new, |missing| format!("; {missing}"));
    let range = match cell.min == cell.max {
        true => String::new(),
        false => format!("from {} to {}, ", print(cell.min), print(cell.max)),
    };
    let values = if cell.count == cell.runs { String::new() } else { format!("{} values of ", cell.count) };
    TableCell {
        value: print_or_never(cell.estimate, metric.unit),
        interval: interval_or_why(cell.interval, cell.missing, metric.unit),
        tails: tails
            .filter_map(|(name, tail)| {
                let tail = tail?;
                Some(format!("{name} {}", summary::with_interval(tail.estimate, tail.interval, metric.unit)))
            })
            .collect(),
        title: Some(format!("{range}{values}{} runs{why}", cell.runs)),
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
    let notes = Limited::new(notes, MOST_NOTES);
    let listed = |run: &ManifestRun| {
        let name = manifest.points.get(run.point).map(|point| point.name.clone()).unwrap_or_default();
        (name, run.seed, run.wire_hash.clone(), run.decisions_hash.clone())
    };
    let runs = Limited::new(manifest.runs.iter().map(listed), MOST_LINES);
    context! {
        name => manifest.scenario.name.clone(),
        text => manifest.scenario.text.clone(),
        lines => serde(&lines),
        notes => serde(&notes.shown),
        more_notes => notes.more,
        more_runs => runs.more,
        runs => serde(&runs.shown),
    }
}
