//! Tables of every figure of flows, links and runs.

use serde::Serialize;

use super::words::{count, interval_or_why, prefix, print_or_never, row_label};
use crate::metric::{self, Better, METRICS, Metric, Scope, Unit};
use crate::results::Results;
use crate::stats::Missing;
use crate::summary::{self, Cell, Row};

/// Rows of the tables of flows, of links and of runs, of each set; the table names those left out.
const MOST_FIGURES: usize = 200;

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

pub(super) fn tables(sets: &[&Results]) -> Vec<Table> {
    [Scope::Flow, Scope::Link, Scope::Run].into_iter().filter_map(|scope| table(sets, scope)).collect()
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
        // All of flows would not fit; results.json has them.
        .filter(|metric| scope != Scope::Flow || metric.rank.is_tabled())
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
