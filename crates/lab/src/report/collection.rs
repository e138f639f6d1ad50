//! Several scenarios as one page: a matrix of places and choices, then a section for each.

use minijinja::{Environment, context};
use serde::Serialize;

use super::error::ReportError;
use super::limited::Limited;
use super::page::{self, judged};
use super::picture::Picture;
use super::shown::Shown;
use super::tables::Table;
use super::words::capital;
use super::{assets, overlay, tables};
use crate::judgment::Judgment;
use crate::metric::{self, Unit};
use crate::results::Results;
use crate::starved::Starved;
use crate::summary;

const TEMPLATE: &str = include_str!("../../assets/collection.html");

/// Recordings in the page, shared out evenly among the scenarios.
const MOST_RECORDINGS: usize = 24;

/// Failures listed per scenario.
const MOST_FAILURES: usize = 20;

/// Places of a scenario in the matrix; the others are in its section.
const MOST_PLACES: usize = 16;

/// Choices of a scenario in the matrix.
const MOST_CHOICES: usize = 8;

/// A scenario in the matrix: how each choice does in each place.
#[derive(Serialize)]
struct Block {
    metric: String,
    choices: Vec<String>,
    places: Vec<BlockRow>,
    more: String,
}

#[derive(Serialize)]
struct BlockRow {
    place: String,
    cells: Vec<Option<BlockCell>>,
}

#[derive(Serialize)]
struct BlockCell {
    text: String,
    title: String,
    /// From −1, far better than the reference, to 1, far worse; none of the reference, and of what cannot be told from
    /// it.
    shade: Option<f64>,
}

fn block(set: &Results, shown: &Shown) -> Option<Block> {
    let (matrix, grid) = (shown.matrices.first()?, &shown.grid);
    let unit = matrix.unit();
    let cell = |place: usize, choice: usize| {
        let entry = matrix.entries[place][choice].as_ref()?;
        let value = metric::format(entry.found.value, unit);
        let ratio = entry.ratio;
        let text = match ratio {
            Some(ratio) if ratio.value.is_finite() => format!("{} ×", metric::format(ratio.value, Unit::Ratio)),
            _ => value.clone(),
        };
        let shade = ratio.and_then(|ratio| {
            let better = ratio.better?;
            let far = if ratio.value > 0.0 { ratio.value.max(1.0 / ratio.value) } else { f64::INFINITY };
            // Half as good again is a full color.
            let depth = ((far - 1.0) / 0.5).clamp(0.15, 1.0);
            Some(if better { -depth } else { depth })
        });
        let title = summary::with_interval(entry.found.value, entry.found.interval, unit);
        Some(BlockCell { text, title, shade })
    };
    let choices = grid.choices.len().min(MOST_CHOICES);
    let places = grid.places.len().min(MOST_PLACES);
    let left_out = [(grid.places.len() - places, "place"), (grid.choices.len() - choices, "choice")];
    let left_out = left_out.into_iter().filter(|(count, _)| *count > 0);
    let more: Vec<String> = left_out.map(|(count, what)| format!("{count} more {what}s in its section")).collect();
    Some(Block {
        metric: matrix.words(&set.scenario),
        choices: grid.choices[..choices].iter().map(|choice| choice.name.clone()).collect(),
        places: (0..places)
            .map(|place| BlockRow {
                place: grid.places[place].name.clone(),
                cells: (0..choices).map(|choice| cell(place, choice)).collect(),
            })
            .collect(),
        more: more.join(", "),
    })
}

/// The page. `links` are the pages of the scenarios themselves, relative to this one.
pub(super) fn page(title: &str, sets: &[Results], links: &[String]) -> Result<String, ReportError> {
    let (mut sections, mut broken, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let mut runs = 0;
    let (mut failed, mut failed_rivals, mut intervals) = (0, 0, 0);
    let judgments: Vec<Judgment> = sets.iter().map(Judgment::of).collect();
    for (at, ((set, link), judgment)) in sets.iter().zip(links).zip(&judgments).enumerate() {
        let Judgment { verdicts, tally, .. } = judgment;
        intervals += tally.intervals;
        runs += set.runs.len();
        let name = &set.scenario.name;
        for verdict in verdicts {
            let list = match verdict.outcome {
                outcome if !outcome.is_good() => &mut broken,
                _ if verdict.known => &mut known,
                _ => continue,
            };
            list.push(context! { scenario => name.clone(), ..judged(verdict) });
        }
        let failures: Vec<&str> = set.runs.values().filter_map(|record| record.failed()).collect();
        let listed = Limited::new(failures.iter().copied(), MOST_FAILURES);
        // That a rival fails is a result.
        let rivals = judgment.failures.all - judgment.failures.ours;
        failed += failures.len();
        failed_rivals += rivals;
        let shown = Shown::of(set);
        let starved = Starved::of(&set.scenario, &set.runs);
        sections.push(context! {
            id => format!("scenario-{at}"),
            name => name.clone(),
            link => link.clone(),
            title => set.scenario.title.clone(),
            question => set.scenario.question.clone(),
            facts => page::facts(&[set]),
            absent => summary::absent(&set.scenario),
            warnings => summary::warnings(&set.scenario),
            starved => page::serde(&starved.map(|it| (capital(&it.to_string()), it.replay))),
            settings => page::serde(&summary::settings(&set.scenario, &set.runs)),
            runs => set.runs.len(),
            failed => failures.len(),
            failed_rivals => rivals,
            failures => page::serde(&listed.shown),
            more_failures => listed.more,
            good => tally.good,
            expected => tally.expected,
            known => tally.known(),
            class => page::class_of(judgment.passes(), judgment.failures),
            verdicts => verdicts.iter().map(judged).collect::<Vec<_>>(),
            block => block(set, &shown).map(|block| page::serde(&block)),
            sentences => page::serde(&shown.sentences),
            picture => shown.main.as_ref().map(Picture::html),
            compared => page::serde(&shown.compared),
            uncompared => shown.uncompared.clone(),
            reference => shown.grid.choices.first().filter(|_| shown.grid.choices.len() > 1).map(|it| it.name.clone()),
            tables => page::serde(&tables(set)),
            manifest => page::manifest(set, ""),
        });
    }
    let (recordings, recorded) = overlay::of_scenarios(sets, MOST_RECORDINGS);
    let banner = page::banner(&judgments);
    let of_rivals = if failed_rivals > 0 { format!(", {failed_rivals} of these are of rivals") } else { String::new() };
    let facts = format!("{} scenarios, {runs} runs, {failed} of them failed{of_rivals}", sets.len());
    let mut environment = Environment::new();
    environment.add_template("collection.html", TEMPLATE)?;
    environment.add_template("parts.html", assets::PARTS)?;
    let body = context! {
        title => title,
        banner => banner,
        facts => facts,
        broken => broken,
        known => known,
        many => summary::many_intervals(intervals),
        policies => thalweg_recovery::Policies::default().to_string(),
        sections => sections,
        recordings => recordings.len(),
        recorded => recorded,
        recordings_json => overlay::json(&recordings)?,
        css => assets::CSS,
        js => assets::JS,
        uplot_css => assets::UPLOT_CSS,
        uplot_js => assets::UPLOT_JS,
    };
    Ok(environment.get_template("collection.html")?.render(body)?)
}

fn tables(set: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = tables::tables(&[set]);
    for table in &mut tables {
        // The range of a number is in the scenario's own page; here it would double the size.
        for cell in table.rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.title = None;
        }
    }
    tables
}
