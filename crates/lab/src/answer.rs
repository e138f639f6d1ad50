//! The answer to a scenario's question in two or three sentences: what is best, by how much, what it costs.

use crate::choices::Grid;
use crate::matrix::{Entry, Matrix, Ratio};
use crate::metric::{self, Better, Unit};
use crate::stats::{Interval, Statistic};
use crate::summary;

/// What a better choice may pay with, if the scenario does not ask about it.
const COSTS: [&str; 8] = [
    "packets_lost",
    "packets_spurious",
    "bytes_retransmitted",
    "early_probes",
    "rtt_p95",
    "deadline_misses",
    "silence_after_repair",
    "reverse_bytes",
];

/// What the traffic of a flow beside it may be about.
const MAIN: [&str; 5] = ["completion", "goodput", "flow_completion", "response", "deadline_misses"];

/// The sentences. The first matrix answers the question, the others may tell what the best choice costs.
pub fn sentences(grid: &Grid, matrices: &[Matrix]) -> Vec<String> {
    let Some(matrix) = matrices.first() else { return Vec::new() };
    let what = matrix.metric.name.replace('_', " ");
    if matrix.statistic == Statistic::Spread {
        let what = format!("spread of {what}");
        return (0..grid.choices.len()).map(|choice| range(grid, matrix, &what, choice)).collect();
    }
    if grid.choices.len() < 2 {
        return vec![range(grid, matrix, &what, 0)];
    }
    let mut said = Vec::new();
    let winner = winner(matrix);
    said.push(verdict(grid, matrix, &what, winner));
    // What the winner is compared with: what is shipped, or what comes next.
    let other = if winner == 0 { next(matrix) } else { Some(winner) };
    let ratios =
        |choice: usize| matrix.entries.iter().filter(|row| row[choice].is_some_and(|it| it.ratio.is_some())).count();
    if let Some(other) = other.filter(|other| ratios(*other) > 1) {
        said.push(extremes(grid, matrix, other));
    }
    if let Some(other) = other {
        said.extend(costs(grid, matrices, winner, other));
    }
    said
}

/// "1.3 × [1.2 ×, 1.4 ×]".
fn times(ratio: &Ratio) -> String {
    let say = |value: f64| format!("{} ×", metric::format(value, Unit::Ratio));
    match ratio.interval.filter(|interval| interval.width() > 0.0) {
        Some(Interval { low, high }) => {
            let end = |value: f64| if value.is_finite() { say(value) } else { "open".to_owned() };
            format!("{} [{}, {}]", say(ratio.value), end(low), end(high))
        }
        None => say(ratio.value),
    }
}

/// A choice against the reference: over all places, or in the only one.
fn against(matrix: &Matrix, choice: usize) -> Option<Ratio> {
    match matrix.entries.as_slice() {
        [only] => only.get(choice)?.as_ref()?.ratio,
        _ => *matrix.overall.get(choice)?,
    }
}

/// The best choice: one that is better than the reference beyond chance, or else the reference.
fn winner(matrix: &Matrix) -> usize {
    let choices = matrix.entries.first().map_or(0, Vec::len);
    let surely = (1..choices).filter_map(|choice| Some((choice, against(matrix, choice)?)));
    let surely = surely.filter(|(_, ratio)| ratio.better == Some(true));
    let best =
        surely.reduce(|one, other| if matrix.metric.is_better(other.1.value, one.1.value) { other } else { one });
    best.map_or(0, |(choice, _)| choice)
}

/// The best of those that are not the reference.
fn next(matrix: &Matrix) -> Option<usize> {
    let choices = matrix.entries.first().map_or(0, Vec::len);
    let all = (1..choices).filter_map(|choice| Some((choice, against(matrix, choice)?)));
    let best = all.reduce(|one, other| if matrix.metric.is_better(other.1.value, one.1.value) { other } else { one });
    best.map(|(choice, _)| choice)
}

fn verdict(grid: &Grid, matrix: &Matrix, what: &str, winner: usize) -> String {
    let reference = &grid.choices[0].name;
    let name = |choice: usize| &grid.choices[choice].name;
    let Some(shown) = Some(winner).filter(|winner| *winner > 0).or_else(|| next(matrix)) else {
        return format!("No choice can be compared with {reference} in {what}.");
    };
    let ratio_at = |row: &&Vec<Option<Entry>>| row.get(shown).is_some_and(|it| it.is_some_and(|it| it.ratio.is_some()));
    let (together, mean) = match matrix.entries.iter().filter(ratio_at).count() {
        1 => (String::new(), ""),
        count => (format!(" over {count} {}s together", grid.kind), " (geometric mean)"),
    };
    if winner > 0 {
        let ratio = against(matrix, winner).map_or_else(String::new, |ratio| times(&ratio));
        return format!("Best{together}: {}, with {ratio} the {what} of {reference}{mean}.", name(winner));
    }
    let Some(ratio) = against(matrix, shown) else { return String::new() };
    match ratio.better {
        Some(false) => format!(
            "Best{together}: {reference}. The next best, {}, has {} its {what}{mean}.",
            name(shown),
            times(&ratio)
        ),
        _ => format!(
            "No choice is better than {reference} in {what} beyond chance{together}; the nearest, {}, has {} its {what}{mean}.",
            name(shown),
            times(&ratio)
        ),
    }
}

/// Where a choice differs most from the reference, and where not at all.
fn extremes(grid: &Grid, matrix: &Matrix, choice: usize) -> String {
    let name = &grid.choices[choice].name;
    let reference = &grid.choices[0].name;
    let all = matrix.entries.iter().enumerate().filter_map(|(place, row)| {
        let entry = row[choice].as_ref()?;
        Some((place, entry, row[0].as_ref()?, entry.ratio?))
    });
    let all: Vec<_> = all.collect();
    let count = |is: Option<bool>| all.iter().filter(|(.., ratio)| ratio.better == is).count();
    let (better, worse, same) = (count(Some(true)), count(Some(false)), count(None));
    let far = |ratio: &Ratio| if ratio.value > 0.0 { ratio.value.max(1.0 / ratio.value) } else { f64::INFINITY };
    let most = all.iter().filter(|(.., ratio)| ratio.better.is_some());
    let most = most.max_by(|one, other| far(&one.3).total_cmp(&far(&other.3)));
    let counted = format!(
        "Against {reference}, {name} is better on {better} of {} {}s, worse on {worse}, and cannot be told from it on \
         {same}",
        all.len(),
        grid.kind
    );
    match most {
        None => format!("{counted}."),
        Some((place, entry, base, ratio)) => {
            let unit = matrix.unit();
            format!(
                "{counted}; the largest difference is on {}: {} against {}, {}.",
                grid.places[*place].name,
                metric::format(entry.found.value, unit),
                metric::format(base.found.value, unit),
                times(ratio)
            )
        }
    }
}

/// In what the winner is worse: than the reference, or where that wins, than what comes next.
fn costs(grid: &Grid, matrices: &[Matrix], winner: usize, other: usize) -> Option<String> {
    /// Metrics that are named.
    const MOST: usize = 2;
    // Ratios are to the reference: where that wins, it pays where the other is better.
    let pays = |ratio: &Ratio| ratio.better == Some(winner == 0);
    let mut paid: Vec<(usize, String)> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    let first = &matrices[0];
    let is_main = |matrix: &Matrix| MAIN.contains(&matrix.metric.name);
    for matrix in &matrices[1..] {
        let is_own = matrix.subject == first.subject;
        // Of other flows what they are about, of the same flow what the answer does not say already.
        let is_other = is_main(matrix) && !is_own && !told.contains(&matrix.subject.as_str());
        let is_cost = COSTS.contains(&matrix.metric.name) && is_own || is_other;
        let rows = matrix.entries.iter().enumerate().filter(|_| is_cost).filter_map(|(place, row)| {
            let entry = row[other].as_ref()?;
            let ratio = entry.ratio.filter(pays)?;
            Some((place, entry.found.value, row[0].as_ref()?.found.value, ratio))
        });
        let rows: Vec<_> = rows.collect();
        let gap = |row: &(usize, f64, f64, Ratio)| (row.1 - row.2).abs();
        let Some(most) = rows.iter().max_by(|one, other| gap(one).total_cmp(&gap(other))) else { continue };
        if is_other {
            told.push(&matrix.subject);
        }
        let (mine, theirs) = if winner == 0 { (most.2, most.1) } else { (most.1, most.2) };
        let say = |value: f64| metric::format(value, matrix.unit());
        let at = match grid.places.len() {
            1 => String::new(),
            count => format!(" on {} of {count} {}s (most on {})", rows.len(), grid.kind, grid.places[most.0].name),
        };
        let of = if is_own { String::new() } else { format!(" of {}", matrix.subject) };
        let metric = format!("{}{of}", matrix.metric.name.replace('_', " "));
        paid.push((rows.len(), format!("{metric}{at}: {} against {}", say(mine), say(theirs))));
    }
    paid.sort_by_key(|(count, _)| core::cmp::Reverse(*count));
    let (winner, other) = (&grid.choices[winner].name, &grid.choices[if winner == 0 { other } else { 0 }].name);
    let paid: Vec<String> = paid.into_iter().take(MOST).map(|(_, text)| text).collect();
    Some(match paid.is_empty() {
        true => format!("Nothing else that was measured got worse with {winner} than with {other} beyond chance."),
        false => format!("What {winner} costs against {other}: {}.", paid.join("; ")),
    })
}

/// From the best to the worst place under one choice.
fn range(grid: &Grid, matrix: &Matrix, what: &str, choice: usize) -> String {
    let unit = matrix.unit();
    let all = matrix.entries.iter().enumerate().filter_map(|(place, row)| Some((place, row[choice].as_ref()?)));
    let mut all: Vec<_> = all.collect();
    all.sort_by(|one, other| one.1.found.value.total_cmp(&other.1.found.value));
    if matrix.metric.better == Better::More {
        all.reverse();
    }
    let say = |(place, entry): &(usize, &Entry)| {
        let place = &grid.places[*place].name;
        let value = summary::with_interval(entry.found.value, entry.found.interval, unit);
        if place.is_empty() { value } else { format!("{value} on {place}") }
    };
    let with = if grid.choices.len() > 1 { format!(" with {}", grid.choices[choice].name) } else { String::new() };
    match all.as_slice() {
        [] => format!("No run has a value of {what}{with}."),
        [only] => format!("The {what}{with} is {}.", say(only)),
        [first, .., last] => format!(
            "The {what}{with} goes from {} to {}; half of the {} {}s have at most {}.",
            say(first),
            say(last),
            all.len(),
            grid.kind,
            metric::format(all[(all.len() - 1) / 2].1.found.value, unit)
        )
        .replace("at most", if matrix.metric.better == Better::More { "at least" } else { "at most" }),
    }
}
