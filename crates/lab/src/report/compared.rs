//! Metrics as tables of places and choices.

use serde::Serialize;

use super::words::{capital, interval_or_why, print_interval, print_or_never};
use crate::choices::Grid;
use crate::matrix::{self, Matrix, Ratio};
use crate::metric::{self, Unit};
use crate::scenario::Scenario;

/// Tables of metrics that differ; those beyond are named.
const MOST_TABLES: usize = 40;

/// Cells of all these tables together: some megabytes of page.
const MOST_CELLS: usize = 15_000;

/// Rows of a table of places and choices; the table names those left out.
const MOST_ROWS: usize = 120;

/// Columns of a table that fit on a page.
const MOST_COLUMNS: usize = 8;

/// A metric in every place under every choice, as a table.
#[derive(Serialize)]
pub(super) struct Compared {
    title: String,
    doc: &'static str,
    /// What the first column is of: places, or choices where these are too many for columns.
    first: &'static str,
    columns: Vec<String>,
    rows: Vec<ComparedRow>,
    note: String,
}

#[derive(Serialize)]
struct ComparedRow {
    label: String,
    cells: Vec<Option<ComparedCell>>,
}

#[derive(Serialize)]
struct ComparedCell {
    value: String,
    interval: Option<String>,
    tails: Option<String>,
    ratio: Option<String>,
    ratio_interval: Option<String>,
    class: &'static str,
    is_best: bool,
}

/// Metrics as tables: those that were asked for, and of the others as many as a page holds.
pub(super) fn tables(scenario: &Scenario, grid: &Grid, matrices: &[Matrix]) -> Vec<Compared> {
    let shown = matrices.iter().take(fitting(scenario, grid, matrices.len()));
    shown.map(|matrix| compared(&matrix.words(scenario), grid, matrix)).collect()
}

/// The names of the others.
pub(super) fn untabled(scenario: &Scenario, grid: &Grid, matrices: &[Matrix]) -> String {
    let rest = matrices.iter().skip(fitting(scenario, grid, matrices.len()));
    rest.map(|matrix| matrix.name(scenario)).collect::<Vec<_>>().join(", ")
}

/// How many of so many metrics are shown as tables. Those that were asked for come first, and always are.
fn fitting(scenario: &Scenario, grid: &Grid, count: usize) -> usize {
    let Shape { rows, columns, .. } = Shape::of(grid);
    let asked = matrix::asked(scenario).len();
    (MOST_CELLS / (rows * columns).max(1)).min(MOST_TABLES).max(asked).min(count)
}

/// How a table lies, and how much of it is shown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// Choices below each other and places beside each other: where there are more choices than fit.
    turned: bool,
    /// Rows that are shown.
    rows: usize,
    /// Columns that are shown.
    columns: usize,
}

impl Shape {
    fn of(grid: &Grid) -> Shape {
        let (places, choices) = (grid.places.len(), grid.choices.len());
        let turned = choices > MOST_COLUMNS && places < choices;
        let (rows, columns) = if turned { (choices, places) } else { (places, choices) };
        Shape { turned, rows: rows.min(MOST_ROWS), columns: columns.min(2 * MOST_COLUMNS) }
    }
}

/// A matrix as a table.
fn compared(title: &str, grid: &Grid, matrix: &Matrix) -> Compared {
    let unit = matrix.unit();
    let named = |name: &str| if name.is_empty() { matrix.subject.clone() } else { name.to_owned() };
    let places: Vec<String> = grid.places.iter().map(|place| named(&place.name)).collect();
    let choices: Vec<String> = grid.choices.iter().map(|choice| named(&choice.name)).collect();
    let cell = |place: usize, choice: usize| {
        let entry = matrix.entries[place][choice].as_ref()?;
        let print = |ratio: &Ratio| format!("{} ×", metric::format(ratio.value, Unit::Ratio));
        let ratio = entry.ratio.filter(|ratio| ratio.value != 1.0 || ratio.better.is_some());
        Some(ComparedCell {
            value: print_or_never(entry.found.value, unit),
            interval: interval_or_why(entry.found.interval, entry.found.missing, unit),
            tails: entry
                .tails
                .map(|(p95, p99)| format!("p95 {}, p99 {}", print_or_never(p95, unit), print_or_never(p99, unit))),
            ratio: ratio.as_ref().map(print),
            ratio_interval: ratio.and_then(|ratio| print_interval(ratio.interval?, Unit::Ratio)),
            class: match ratio.and_then(|ratio| ratio.better) {
                None => "",
                Some(true) => "good",
                Some(false) => "bad",
            },
            is_best: matrix.best[place].contains(&choice),
        })
    };
    let shape = Shape::of(grid);
    let (rows, columns) = if shape.turned { (&choices, &places) } else { (&places, &choices) };
    let at = |row: usize, column: usize| if shape.turned { cell(column, row) } else { cell(row, column) };
    let shown = (shape.rows, shape.columns);
    let mut note = String::new();
    if shown.0 < rows.len() {
        note += &format!("The first {} of {} rows are shown. ", shown.0, rows.len());
    }
    if shown.1 < columns.len() {
        note += &format!("Not shown: {}. ", columns[shown.1..].join("; "));
    }
    if columns.len() > MOST_COLUMNS {
        note += "The table is wider than the page: it scrolls to the right. ";
    }
    Compared {
        title: capital(title),
        doc: matrix.metric.doc,
        first: if shape.turned { "choice" } else { "place" },
        columns: columns[..shown.1].to_vec(),
        rows: (0..shown.0)
            .map(|row| ComparedRow {
                label: rows[row].clone(),
                cells: (0..shown.1).map(|column| at(row, column)).collect(),
            })
            .collect(),
        note,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::StackInfo;

    /// So many lengths of a queue as choices, at so many rates.
    fn scenario(places: u32, choices: u32, asked: u32) -> Scenario {
        let list =
            |count: u32, unit: &str| (1..=count).map(|n| format!("\"{n} {unit}\"")).collect::<Vec<_>>().join(", ");
        let flows: String = (0..asked)
            .map(|flow| format!("[[flow]]\nname = \"f{flow}\"\ntransfer = {{ download = \"1 MB\" }}\n"))
            .collect();
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\ncompare = \"queue\"\n[path.p]\npreset = \"broadband\"\n{flows}[vary]\n\
             \"path.p.down.rate\" = [{}]\n\"path.p.down.queue\" = [{}]\n",
            list(places, "Mbps"),
            list(choices, "ms"),
        );
        Scenario::parse("t.toml", &text, Path::new(""), &[StackInfo::new("thalweg")]).unwrap()
    }

    #[test]
    fn a_table_is_counted_as_it_lies() {
        // 100 choices in 10 places are 100 rows and 10 columns: 1000 cells, not 10 rows of 16 columns.
        let wide = scenario(10, 100, 1);
        let grid = Grid::of(&wide);
        assert_eq!(Shape::of(&grid), Shape { turned: true, rows: 100, columns: 10 });
        assert_eq!(fitting(&wide, &grid, 99), 15);
        assert_eq!(Shape::of(&Grid::of(&scenario(100, 10, 1))), Shape { turned: false, rows: 100, columns: 10 });
    }

    #[test]
    fn what_was_asked_for_has_a_table_however_much_there_is() {
        let many = scenario(2, 2, 45);
        assert_eq!(fitting(&many, &Grid::of(&many), 99), 45);
        assert_eq!(fitting(&many, &Grid::of(&many), 45), 45);
        let few = scenario(2, 2, 1);
        assert_eq!(fitting(&few, &Grid::of(&few), 99), MOST_TABLES);
    }
}
