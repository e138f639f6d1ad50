//! Several scenarios as one page: a summary, then a section for each with what is shipped beside what would be best.

use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::page::{self, Table, judged};
use super::{ReportError, Results, overlay};
use crate::judgment::Judgment;
use crate::metric::{self, Unit};
use crate::shipped::{self, Found};
use crate::summary;

const TEMPLATE: &str = include_str!("../../assets/collection.html");
pub(super) const SHIPPED: &str = include_str!("../../assets/shipped.html");

/// Recordings in the page, shared out evenly among the scenarios.
const MOST_RECORDINGS: usize = 24;

/// Failures listed per scenario.
const MOST_FAILURES: usize = 20;

#[derive(Serialize)]
struct ShippedCell {
    value: String,
    interval: Option<String>,
    choice: String,
}

#[derive(Serialize)]
struct ShippedRow {
    place: String,
    metric: String,
    doc: &'static str,
    shipped: Option<ShippedCell>,
    best: Option<ShippedCell>,
    same: bool,
    rivals: Vec<Option<ShippedCell>>,
}

/// The table of what is shipped, what would be best, and rivals, for the template.
pub(super) fn shipped(results: &Results) -> Value {
    let rows = shipped::rows(&results.scenario, &results.runs);
    let mut stacks: Vec<&str> = rows.iter().flat_map(|row| row.rivals.keys().map(String::as_str)).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let several = results.scenario.points.first().is_some_and(|point| point.world.flows.len() > 1);
    let rows: Vec<ShippedRow> = rows
        .iter()
        .map(|row| {
            let known = metric::find(row.metric);
            let unit = known.map_or(Unit::Ratio, |metric| metric.unit);
            let cell = |found: &Found| ShippedCell {
                value: page::print_or_never(found.estimate, unit),
                interval: found.interval.and_then(|interval| page::print_interval(interval, unit)),
                choice: found.choice.clone(),
            };
            // What was chosen to be as shipped is said below the table.
            let plain = |found: &Found| ShippedCell { choice: String::new(), ..cell(found) };
            ShippedRow {
                place: page::join(&row.place, if several || row.place.is_empty() { &row.flow } else { "" }),
                metric: row.metric.replace('_', " "),
                doc: known.map_or("", |metric| metric.doc),
                same: row.shipped.is_some() && row.shipped == row.best,
                shipped: row.shipped.as_ref().map(plain),
                best: row.best.as_ref().map(cell),
                rivals: stacks.iter().map(|stack| row.rivals.get(*stack).map(plain)).collect(),
            }
        })
        .collect();
    context! {
        policies => thalweg_recovery::Policies::default().to_string(),
        stacks => page::serde(&stacks),
        rows => page::serde(&rows),
    }
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
        let failures: Vec<&str> = set.runs.values().filter_map(|record| record.failed.as_deref()).collect();
        // That a rival fails is a result.
        let rivals = judgment.failures.all - judgment.failures.ours;
        failed += failures.len();
        failed_rivals += rivals;
        let points = &set.scenario.points;
        // Of what the scenario asks; the rest is in its own page.
        let asked: Vec<&str> = shipped::rows(&set.scenario, &set.runs).iter().map(|row| row.metric).collect();
        let mut distributions = page::distributions(&[set]);
        distributions.retain(|distribution| asked.contains(&distribution.metric));
        sections.push(context! {
            id => format!("scenario-{at}"),
            name => name.clone(),
            link => link.clone(),
            title => set.scenario.title.clone(),
            question => set.scenario.question.clone(),
            facts => page::facts(&[set]),
            absent => summary::absent(&set.scenario),
            settings => page::serde(&summary::settings(&set.scenario, &set.runs)),
            runs => set.runs.len(),
            failed => failures.len(),
            failed_rivals => rivals,
            has_rivals => points.iter().any(|point| point.rival.is_some()),
            failures => page::serde(&failures[..failures.len().min(MOST_FAILURES)]),
            good => tally.good,
            expected => tally.expected,
            known => tally.known(),
            class => page::class_of(judgment.passes(), judgment.failures),
            verdicts => verdicts.iter().map(judged).collect::<Vec<_>>(),
            shipped => shipped(set),
            tables => page::serde(&tables(set)),
            distributions => page::serde(&distributions),
            manifest => page::manifest(set, ""),
        });
    }
    let recordings = overlay::of_scenarios(sets, MOST_RECORDINGS);
    let banner = page::banner(&judgments);
    let of_rivals = if failed_rivals > 0 { format!(", {failed_rivals} of these are of rivals") } else { String::new() };
    let facts = format!("{} scenarios, {runs} runs, {failed} of them failed{of_rivals}", sets.len());
    let mut environment = Environment::new();
    environment.add_template("collection.html", TEMPLATE)?;
    environment.add_template("shipped.html", SHIPPED)?;
    let body = context! {
        title => title,
        banner => banner,
        facts => facts,
        broken => broken,
        known => known,
        many => summary::many_intervals(intervals),
        sections => sections,
        recordings => recordings.len(),
        recordings_json => overlay::json(&recordings)?,
        css => page::CSS,
        js => page::JS,
        uplot_css => page::UPLOT_CSS,
        uplot_js => page::UPLOT_JS,
    };
    Ok(environment.get_template("collection.html")?.render(body)?)
}

fn tables(set: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = page::tables(&[set]);
    for table in &mut tables {
        // The range of a number is in the scenario's own page; here it would double the size.
        for cell in table.rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.title = None;
        }
    }
    tables
}
