//! The choice of a picture for a metric: a line over a number that varies, a map of two numbers, or points by place and
//! choice.

use std::collections::BTreeMap;

use super::source::Source;
use crate::choices::{Grid, LOOKS, Numbers, numbers};
use crate::file_name::file_name;
use crate::matrix::{Entry, Matrix};
use crate::metric::{self, Better, Scope, Unit};
use crate::report::csv;
use crate::report::limited::{Limited, first_of};
use crate::report::picture::{self, Curve, Dots, Heat, Legend, Lines, Mark, Picture, Reading, Row, legend};
use crate::report::words::{capital, join};
use crate::scenario::{Axis, Scenario};
use crate::stats::{Interval, Statistic};

/// The most rows of points; beyond, places and choices become a map.
const MOST_ROWS: usize = 26;

/// The most rows of points where there is nothing to compare.
const MOST_ALONE: usize = 60;

/// The most curves of a panel: as many as can be told apart.
const MOST_CURVES: usize = LOOKS;

/// Pictures of metrics beside the one that answers the question.
const MOST_PICTURES: usize = 10;

/// Pictures of each matrix, as far as a page has room. What is left out is counted as metrics, which need not be drawn
/// for that.
pub(super) fn pictures(source: &Source<'_>) -> Limited<Picture> {
    let Source { scenario, grid, .. } = source;
    let (mut shown, mut more) = (Vec::new(), 0);
    for matrix in source.matrices {
        if shown.len() > MOST_PICTURES {
            more += 1;
        } else if source.runs.is_some() {
            shown.extend(of(scenario, grid, matrix));
        } else {
            shown.extend(between(scenario, grid, matrix));
        }
    }
    Limited { shown, more }
}

/// Whether there is one flow.
fn is_single(scenario: &Scenario) -> bool {
    scenario.points.first().is_none_or(|point| point.world.flows.len() <= 1)
}

/// The picture of a matrix whose choices are two sets of results.
fn between(scenario: &Scenario, grid: &Grid, matrix: &Matrix) -> Option<Picture> {
    let (title, caption, svg) = by_name(scenario, grid, matrix)?;
    let name = file_name(&[matrix.metric.name, &matrix.subject]);
    Some(Picture { name, title, caption, svg, csv: table(&[], grid, matrix) })
}

/// How runs are summed up, for an axis: "median", "share of runs" of what is yes or no, "p99 of each run" where runs
/// have many values.
fn statistic(matrix: &Matrix) -> String {
    match (matrix.statistic, matrix.unit()) {
        (Statistic::Mean, _) if matrix.metric.is_yes_or_no() => "share of runs".to_owned(),
        (statistic, _) if matrix.is_repeated => format!("{statistic} of each run"),
        (statistic, _) => statistic.to_string(),
    }
}

/// How runs are summed up, for a caption: "Median over seeds", or "Median over seeds of the p99 of each run".
fn over_seeds(matrix: &Matrix) -> String {
    match matrix.statistic {
        Statistic::Min | Statistic::Max if matrix.is_repeated => {
            format!("{} over all values of all runs", capital(&matrix.statistic.to_string()))
        }
        Statistic::Mean if matrix.metric.is_yes_or_no() => "Share of runs".to_owned(),
        _ if matrix.is_repeated => format!("Median over seeds of the {}", statistic(matrix)),
        _ => format!("{} over seeds", capital(&statistic(matrix))),
    }
}

/// What is compared on the same seeds: "Ratio to shipped, in the same place on the same seeds: median", or of what is
/// summed up otherwise "Ratio of the p90 over seeds to that with shipped, …".
fn ratio_of(matrix: &Matrix, reference: &str, place: &str) -> String {
    let on = format!("{place} on the same seeds");
    match (matrix.is_repeated, matrix.statistic) {
        (true, Statistic::Min | Statistic::Max) => {
            format!("Ratio of the {} of all runs to that with {reference}{on}", matrix.statistic)
        }
        (true, _) => format!("Ratio of the {} to that with {reference}{on}: median", statistic(matrix)),
        (false, Statistic::MEDIAN) => format!("Ratio to {reference}{on}: median"),
        (false, _) => format!("Ratio of the {} to that with {reference}{on}", statistic(matrix)),
    }
}

fn better(matrix: &Matrix) -> &'static str {
    match matrix.metric.better {
        Better::Less => "less is better",
        Better::More => "more is better",
        Better::Neither => "",
    }
}

fn ends(interval: Option<Interval>) -> Option<(f64, f64)> {
    interval.map(|interval| (interval.low, interval.high))
}

/// The pictures of a matrix: values, and of times over a number also what they are against the reference.
fn of(scenario: &Scenario, grid: &Grid, matrix: &Matrix) -> Vec<Picture> {
    let mut numeric = grid.numeric(&scenario.axes);
    numeric.sort_by_key(|(_, numbers)| core::cmp::Reverse(numbers.values.len()));
    let mut ratios = None;
    let values = match numeric.as_slice() {
        [] => match choice_axis(scenario, grid) {
            Some(axis) => over_a_number(scenario, grid, matrix, &axis, Shows::Values),
            None => by_name(scenario, grid, matrix),
        },
        [axis] => {
            // Of several flows one by one there would be too many.
            let is_of_all = matrix.metric.scope != Scope::Flow || is_single(scenario);
            if grid.choices.len() > 1 && matrix.unit() == Unit::Seconds && is_of_all {
                ratios = over_a_number(scenario, grid, matrix, axis, Shows::Ratios);
            }
            over_a_number(scenario, grid, matrix, axis, Shows::Values)
        }
        [one, other, ..] => map(scenario, grid, matrix, one, other),
    };
    let labels: Vec<&[String]> = scenario.points.iter().map(|point| point.labels.as_slice()).collect();
    let mut csv = table(&labels, grid, matrix);
    if let Some((head, rows)) = csv.split_once('\n') {
        // The axes one by one, for whoever draws it again.
        let axes: Vec<&str> = scenario.axes.iter().map(|axis| axis.label.as_str()).collect();
        csv = format!("{}{rows}", csv::row(head.split(',').chain(axes)));
    }
    let picture = |(suffix, drawn): (&str, Option<(String, String, String)>)| {
        let (title, caption, svg) = drawn?;
        let name = file_name(&[matrix.metric.name, &matrix.subject, suffix]);
        Some(Picture { name, title, caption, svg, csv: csv.clone() })
    };
    [("", values), ("ratio", ratios)].into_iter().filter_map(picture).collect()
}

/// What lines over a number show.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Shows {
    /// The metric.
    Values,
    /// Each choice as a multiple of the reference in the same place.
    Ratios,
}

/// The only axis of choices, if its values are numbers.
fn choice_axis(scenario: &Scenario, grid: &Grid) -> Option<(usize, Numbers)> {
    let spoken = Axis::spoken(&scenario.axes);
    let mut chosen = scenario.axes.iter().enumerate().filter(|(at, axis)| spoken[*at] && axis.is_choice);
    let (at, axis) = chosen.next()?;
    let alone = chosen.next().is_none() && grid.choices.len() == axis.values.len();
    numbers(&axis.values).filter(|_| alone).map(|numbers| (at, numbers))
}

fn by_name(scenario: &Scenario, grid: &Grid, matrix: &Matrix) -> Option<(String, String, String)> {
    let what = matrix.words(scenario);
    let compares = grid.choices.len() > 1 && grid.places.len() > 1;
    if !compares {
        return plain(grid, matrix, &matrix.name(scenario));
    }
    let rows: Vec<Row> = grid
        .places
        .iter()
        .zip(&matrix.entries)
        .filter_map(|(place, entries)| {
            let base = entries[0].as_ref();
            let marks: Vec<Mark> = entries
                .iter()
                .enumerate()
                .skip(1)
                .filter_map(|(choice, entry)| {
                    let entry = entry.as_ref()?;
                    let ratio = entry.ratio?;
                    let values = [Some(entry), base].map(|entry| {
                        entry.map_or_else(|| "–".to_owned(), |entry| metric::format(entry.found.value, matrix.unit()))
                    });
                    Some(Mark {
                        color: grid.choices[choice].color,
                        value: ratio.value,
                        interval: ends(ratio.interval),
                        title: format!(
                            "{}, {}: {} × {} ({} against {})",
                            place.name,
                            grid.choices[choice].name,
                            metric::format(ratio.value, Unit::Ratio),
                            grid.choices[0].name,
                            values[0],
                            values[1]
                        ),
                    })
                })
                .collect();
            // The reference, which is 1, stands above what is compared with it.
            let own = base.map(|entry| Mark {
                color: grid.choices[0].color,
                value: 1.0,
                interval: None,
                title: format!(
                    "{}, {}: {}",
                    place.name,
                    grid.choices[0].name,
                    metric::format(entry.found.value, matrix.unit())
                ),
            });
            let marks: Vec<Mark> = own.filter(|_| !marks.is_empty()).into_iter().chain(marks).collect();
            let figure = base.map_or_else(String::new, |entry| metric::format(entry.found.value, matrix.unit()));
            (!marks.is_empty()).then(|| Row { label: place.name.clone(), marks, figure })
        })
        .collect();
    let reference = &grid.choices[0].name;
    if rows.len() > MOST_ROWS {
        return by_color(grid, matrix, &what);
    }
    let dots = Dots {
        name: what.clone(),
        axis: format!("{what}, as a multiple of {reference} ({})", better(matrix)),
        reading: Reading::Times,
        rows,
        legend: legend(grid),
        reference: Some(1.0),
        figures: Some(format!("{what}, {reference}")),
    };
    let caption = format!(
        "{}, and its 95 % interval. The line at 1 is {reference}, and the figures \
         at the right are what it comes to: {what}, {}. An interval that does not reach the line is a difference beyond \
         chance.",
        ratio_of(matrix, reference, " in the same place"),
        statistic(matrix)
    );
    Some((format!("{}, against {reference}", capital(&what)), caption, dots.svg()?))
}

/// Values where there is one place, or nothing to compare.
fn plain(grid: &Grid, matrix: &Matrix, what: &str) -> Option<(String, String, String)> {
    let unit = matrix.unit();
    let mark = |entry: &Entry, color: usize, label: &str| Mark {
        color,
        value: entry.found.value,
        interval: ends(entry.found.interval),
        title: format!("{label}: {}", metric::format(entry.found.value, unit)),
    };
    let all = grid.places.iter().zip(&matrix.entries).flat_map(|(place, entries)| {
        grid.choices.iter().zip(entries).filter_map(move |(choice, entry)| Some((place, choice, entry.as_ref()?)))
    });
    let rows: Vec<Row> = all
        .take(MOST_ALONE)
        .map(|(place, choice, entry)| {
            let label = if grid.choices.len() > 1 { &choice.name } else { &place.name };
            let label = if label.is_empty() { matrix.subject.clone() } else { label.clone() };
            Row { marks: vec![mark(entry, choice.color, &label)], label, figure: String::new() }
        })
        .collect();
    let shown = rows.len();
    let count = matrix.entries.iter().flatten().flatten().count();
    let dots = Dots {
        name: what.to_owned(),
        axis: format!("{what}, {} ({})", statistic(matrix), better(matrix)),
        reading: Reading::Unit(unit),
        rows,
        legend: Legend::new(),
        reference: (unit == Unit::Ratio).then_some(1.0),
        figures: None,
    };
    let left_out = if count > shown { format!(" The first {shown} of {count} are shown.") } else { String::new() };
    let caption = format!("{} with its 95 % interval.{left_out}", over_seeds(matrix));
    Some((capital(what), caption, dots.svg()?))
}

/// Many places by their names: a map of ratios.
fn by_color(grid: &Grid, matrix: &Matrix, what: &str) -> Option<(String, String, String)> {
    /// Rows of a map whose labels can be read.
    const MOST: usize = 200;
    let places = grid.places.len().min(MOST);
    let ratio = |place: usize, choice: usize| {
        let entry = matrix.entries[place][choice].as_ref()?;
        if choice == 0 { Some(1.0) } else { entry.ratio.map(|ratio| ratio.value) }
    };
    // The first place at the top.
    let values = (0..places).rev().map(|place| (0..grid.choices.len()).map(|choice| ratio(place, choice)).collect());
    let heat = Heat {
        name: format!("{what}, × {}", grid.choices[0].name),
        across: (String::new(), grid.choices.iter().map(|choice| choice.name.clone()).collect()),
        up: (String::new(), grid.places[..places].iter().rev().map(|place| place.name.clone()).collect()),
        panels: vec![(String::new(), values.collect())],
        reading: Reading::Times,
        is_ratio: true,
    };
    let more = first_of(MOST, grid.places.len(), "place");
    let reference = &grid.choices[0].name;
    let caption = format!("{}; {}.{more}", ratio_of(matrix, reference, " in the same place"), better(matrix));
    Some((format!("{}, against {reference}", capital(what)), caption, heat.svg()?))
}

/// What is left of a point's labels without some axes, in words.
fn rest(scenario: &Scenario, labels: &[String], without: &[usize], choices: bool) -> String {
    let (axes, spoken) = (scenario.axes.iter().enumerate(), Axis::spoken(&scenario.axes));
    let goes_with =
        |axis: &Axis| axis.together.is_some_and(|it| without.iter().any(|at| scenario.axes[*at].together == Some(it)));
    let parts: Vec<String> = axes
        .filter(|(at, _)| spoken[*at])
        .filter(|(at, axis)| axis.is_choice == choices && !without.contains(at) && !labels[*at].is_empty())
        .filter(|(_, axis)| !goes_with(axis))
        .map(|(at, axis)| axis.in_words(&labels[at]))
        .collect();
    parts.join(", ")
}

/// The points of each choice.
type CurveOfChoice = BTreeMap<usize, Vec<(f64, Entry)>>;

/// Lines over a number that varies.
fn over_a_number(
    scenario: &Scenario,
    grid: &Grid,
    matrix: &Matrix,
    (axis, numbers): &(usize, Numbers),
    shows: Shows,
) -> Option<(String, String, String)> {
    let what = matrix.name(scenario);
    let is_choice = scenario.axes[*axis].is_choice;
    let reference = &grid.choices.first()?.name;
    // By the words of a panel, in the order in which they come; of each the points of each curve.
    let mut panels: Vec<(String, CurveOfChoice)> = Vec::new();
    for (entry, (_, choice)) in entries(matrix) {
        if shows == Shows::Ratios && entry.ratio.is_none() {
            continue;
        }
        let labels = &scenario.points[entry.point].labels;
        let Some(at) = scenario.axes[*axis].values.iter().position(|value| *value == labels[*axis]) else { continue };
        let title = rest(scenario, labels, &[*axis], false);
        let panel = match panels.iter().position(|(known, _)| *known == title) {
            Some(panel) => panel,
            None => {
                panels.push((title, BTreeMap::new()));
                panels.len() - 1
            }
        };
        let curve = if is_choice { 0 } else { choice };
        panels[panel].1.entry(curve).or_default().push((numbers.values[at], *entry));
    }
    let (unit, count) = (matrix.unit(), panels.len());
    let reading = if shows == Shows::Ratios { Reading::Times } else { Reading::Unit(unit) };
    // The value and its interval.
    let shown = |entry: &Entry| match entry.ratio.filter(|_| shows == Shows::Ratios) {
        Some(ratio) => (ratio.value, ends(ratio.interval)),
        None => (entry.found.value, ends(entry.found.interval)),
    };
    let panels: Vec<(String, Vec<Curve>)> = panels
        .into_iter()
        .map(|(title, curves)| {
            let curves = curves.into_iter().take(MOST_CURVES).map(|(choice, mut points)| {
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                let name = if is_choice { "" } else { &grid.choices[choice].name };
                Curve {
                    color: if is_choice { 0 } else { grid.choices[choice].color },
                    titles: points
                        .iter()
                        .map(|(x, entry)| {
                            format!("{name} {}: {}", metric::format(*x, numbers.unit), reading.say(shown(entry).0))
                        })
                        .collect(),
                    points: points
                        .iter()
                        .map(|(x, entry)| {
                            let (y, interval) = shown(entry);
                            (*x, y, interval)
                        })
                        .collect(),
                    is_marked: true,
                    is_dashed: false,
                }
            });
            (title, curves.collect())
        })
        .collect();
    let across = &scenario.axes[*axis].label;
    let (mut legend, mut up) = (legend(grid), format!("{what}, {}", statistic(matrix)));
    if shows == Shows::Ratios {
        // The reference has no line: it is 1.
        legend.retain(|(name, _)| name != reference);
        up = format!("{}, × {reference}", matrix.words(scenario));
    }
    legend.truncate(MOST_CURVES);
    let lines = Lines {
        name: what.clone(),
        across: (across.clone(), Reading::Unit(numbers.unit)),
        up: (up, reading),
        panels,
        legend: if is_choice { Legend::new() } else { legend },
        from_zero: false,
        is_across: false,
    };
    let curves = if is_choice { String::new() } else { first_of(MOST_CURVES, grid.choices.len(), "choice") };
    let (over_seeds, better, left_out) = (over_seeds(matrix), better(matrix), picture::left_out(count));
    let beneath = lines.beneath();
    let (title, caption) = match shows {
        Shows::Values => (
            format!("{} over {across}", capital(&what)),
            format!("{over_seeds}; the band is its 95 % interval; {better}.{curves}{beneath}{left_out}"),
        ),
        Shows::Ratios => (
            format!("{} against {reference} over {across}", capital(&what)),
            format!(
                "{}; the band is its 95 % interval; {better}.{curves}{beneath}{left_out}",
                ratio_of(matrix, reference, "")
            ),
        ),
    };
    Some((title, caption, lines.svg()?))
}

/// Every entry with its place and choice.
pub(super) fn entries(matrix: &Matrix) -> impl Iterator<Item = (&Entry, (usize, usize))> {
    let rows = matrix.entries.iter().enumerate();
    rows.flat_map(|(place, row)| {
        row.iter().enumerate().filter_map(move |(choice, entry)| Some((entry.as_ref()?, (place, choice))))
    })
}

/// A map over two numbers that vary, for each choice; of several the ratio to the reference.
fn map(
    scenario: &Scenario,
    grid: &Grid,
    matrix: &Matrix,
    (one, columns): &(usize, Numbers),
    (other, rows): &(usize, Numbers),
) -> Option<(String, String, String)> {
    let what = matrix.name(scenario);
    let is_ratio = grid.choices.len() > 1;
    let order = |numbers: &Numbers| {
        let mut order: Vec<usize> = (0..numbers.values.len()).collect();
        order.sort_by(|a, b| numbers.values[*a].total_cmp(&numbers.values[*b]));
        order
    };
    let (across, up) = (order(columns), order(rows));
    let position = |axis: usize, order: &[usize], labels: &[String]| {
        let at = scenario.axes[axis].values.iter().position(|value| *value == labels[axis])?;
        order.iter().position(|known| *known == at)
    };
    type Cells = Vec<Vec<Option<f64>>>;
    let mut panels: Vec<(String, Cells)> = Vec::new();
    for (entry, (_, choice)) in entries(matrix) {
        let labels = &scenario.points[entry.point].labels;
        let value = match (is_ratio, entry.ratio) {
            (false, _) => entry.found.value,
            (true, Some(ratio)) => ratio.value,
            // The reference is 1 everywhere.
            (true, None) => continue,
        };
        let (Some(column), Some(row)) = (position(*one, &across, labels), position(*other, &up, labels)) else {
            continue;
        };
        let title = [&grid.choices[choice].name, &rest(scenario, labels, &[*one, *other], false)];
        let title = join(title[0], title[1]);
        let panel = match panels.iter().position(|(known, _)| *known == title) {
            Some(panel) => panel,
            None => {
                panels.push((title, vec![vec![None; across.len()]; up.len()]));
                panels.len() - 1
            }
        };
        panels[panel].1[row][column] = Some(value);
    }
    let labels =
        |axis: usize, order: &[usize]| order.iter().map(|at| scenario.axes[axis].values[*at].clone()).collect();
    let count = panels.len();
    let against = if is_ratio { format!(", × {}", grid.choices[0].name) } else { String::new() };
    let heat = Heat {
        name: format!("{what}{against}"),
        across: (scenario.axes[*one].label.clone(), labels(*one, &across)),
        up: (scenario.axes[*other].label.clone(), labels(*other, &up)),
        panels,
        reading: if is_ratio { Reading::Times } else { Reading::Unit(matrix.unit()) },
        is_ratio,
    };
    let kind = match is_ratio {
        true => ratio_of(matrix, &grid.choices[0].name, ""),
        false => over_seeds(matrix),
    };
    let caption = format!("{kind}; {}.{}", better(matrix), picture::left_out(count));
    let title =
        format!("{}{against} over {} and {}", capital(&what), scenario.axes[*one].label, scenario.axes[*other].label);
    Some((title, caption, heat.svg()?))
}

/// The numbers of a matrix; after them the labels of each point.
fn table(labels: &[&[String]], grid: &Grid, matrix: &Matrix) -> String {
    const HEAD: [&str; 11] =
        ["place", "choice", "metric", "statistic", "value", "low", "high", "ratio", "ratio_low", "ratio_high", "runs"];
    let number = |value: Option<f64>| value.filter(|value| !value.is_nan()).map_or_else(String::new, csv::number);
    let mut out = csv::row(HEAD);
    for (entry, (place, choice)) in entries(matrix) {
        let (interval, ratio) = (entry.found.interval, entry.ratio);
        let of_ratio = ratio.and_then(|ratio| ratio.interval);
        let numbers = [
            number(Some(entry.found.value)),
            number(interval.map(|interval| interval.low)),
            number(interval.map(|interval| interval.high)),
            number(ratio.map(|ratio| ratio.value)),
            number(of_ratio.map(|interval| interval.low)),
            number(of_ratio.map(|interval| interval.high)),
            entry.found.runs.to_string(),
        ];
        let statistic = matrix.statistic.to_string();
        let what = [&grid.places[place].name, &grid.choices[choice].name, matrix.metric.name, &statistic];
        let labels = labels.get(entry.point).copied().unwrap_or_default();
        out += &csv::row(what.into_iter().chain(numbers.iter().chain(labels).map(String::as_str)));
    }
    out
}
