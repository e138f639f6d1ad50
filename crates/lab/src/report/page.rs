//! The HTML page of a report: its template and the values that fill it.

use std::collections::BTreeMap;

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::assets::{CSS, JS, PARTS, UPLOT_CSS, UPLOT_JS};
use super::error::ReportError;
use super::limited::Limited;
use super::overlay::{self, MOST_RECORDINGS};
use super::picture::Picture;
use super::shown::Shown;
use super::tables::tables;
use super::words::{capital, count, join, prefix, row_label};
use crate::judgment::{Failures, Judgment};
use crate::metric::Scope;
use crate::results::Results;
use crate::starved::Starved;
use crate::store::{Manifest, ManifestRun};
use crate::summary::{self, Outcome, Tally, Verdict};

const TEMPLATE: &str = include_str!("../../assets/report.html");

/// How many failures and hashes are listed.
const MOST_LINES: usize = 200;

/// Notes on flows that are listed.
const MOST_NOTES: usize = 1_000;

/// Verdicts of a list; the page names those left out.
const MOST_VERDICTS: usize = 1_000;

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
        Some((if at == 0 { capital(&text) } else { text }, starved.replay))
    });
    let starved: Vec<(String, String)> = starved.collect();
    let mut nav = vec![("failures", "Failed runs", !failures.shown.is_empty())];
    nav.extend(shown.sections.iter().map(|section| (section.id, section.link, !section.pictures.is_empty())));
    nav.extend([
        ("time", "Time plots", !recordings.is_empty()),
        ("compared", "Tables", !shown.compared.is_empty()),
        ("verdicts", "Verdicts", !head.get_attr("verdicts")?.is_undefined()),
        ("settings", "Settings", !settings.is_empty()),
        ("manifest", "Reproduce", true),
    ]);
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
        sections => serde(&shown.sections),
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
        Outcome::Holds | Outcome::HoldsSoFar | Outcome::Beaten => "good",
        Outcome::HoldsBarely | Outcome::BeatenBarely | Outcome::FallsShort => "warn",
        Outcome::CannotTell | Outcome::Unknown => "warn",
        Outcome::Fails => "bad",
    }
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
