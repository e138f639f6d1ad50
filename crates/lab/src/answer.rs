//! The answer to a scenario's question in two or three sentences: what is best, by how much, what it costs.

use crate::choices::Grid;
use crate::matrix::{Entry, Matrix, Ratio};
use crate::metric::{self, Better, Group, Scope, Unit};
use crate::scenario::Scenario;
use crate::stats::{Interval, Statistic};
use crate::summary;

/// Choices that are named one by one.
const MOST_NAMES: usize = 4;

/// Choices whose places are counted where no best can be named.
const MOST_UNRANKED: usize = 6;

/// From so many choices on the sentence says that each is tested by itself.
const FEWEST_TESTED: usize = 3;

/// A difference in a metric that nobody asked about is a cost from this share on.
const LEAST_COST: f64 = 0.01;

/// The sentences. The first matrix answers the question, the others may show what the best choice costs: they are of
/// all that differs, among `measured` metrics.
pub fn sentences(scenario: &Scenario, grid: &Grid, matrices: &[Matrix], measured: usize) -> Vec<String> {
    let is_answer = |(answer, of): &(crate::scenario::Measured, Option<String>)| {
        let found = matrices.first();
        found.is_some_and(|it| it.metric == answer.metric && of.as_ref().is_none_or(|of| *of == it.subject))
    };
    if let Some((answer, of)) = scenario.answer.as_ref().filter(|answer| !is_answer(answer)) {
        let of = of.as_ref().map_or_else(String::new, |of| format!(" of {of}"));
        let metric = answer.metric.name.replace('_', " ");
        return vec![format!("No run has a value of the {metric}{of}, which this scenario names as its answer.")];
    }
    let Some(matrix) = matrices.first() else { return Vec::new() };
    let what = matrix.name(scenario);
    if matrix.statistic == Statistic::Spread {
        let what = format!("spread of {what}");
        return (0..grid.choices.len()).map(|choice| range(grid, matrix, &what, choice)).collect();
    }
    let what = matrix.words(scenario);
    if grid.choices.len() < 2 {
        return [Some(range(grid, matrix, &what, 0)), how_to_compare(scenario)].into_iter().flatten().collect();
    }
    if !matrix.unranked().is_empty() {
        return vec![unranked(grid, matrix, &what)];
    }
    let mut said = vec![verdict(grid, matrix, &what)];
    // What the winner is compared with: what is shipped, or what comes next.
    let winner = winner(matrix);
    let other = if winner == 0 { next(matrix) } else { Some(winner) };
    let ratios =
        |choice: usize| matrix.entries.iter().filter(|row| row[choice].is_some_and(|it| it.ratio.is_some())).count();
    if let Some(other) = other.filter(|other| ratios(*other) > 1) {
        said.push(extremes(grid, matrix, other));
    }
    if let Some(other) = other {
        said.push(costs((scenario, grid), (matrices, measured), winner, other));
    }
    said
}

/// How the values of an axis become choices, where none is.
fn how_to_compare(scenario: &Scenario) -> Option<String> {
    let labels: Vec<&str> = scenario.axes.iter().map(|axis| axis.label.as_str()).collect();
    let example = labels.last()?;
    Some(format!(
        "What varies, {}, is taken for circumstances, which are not compared. compare = \"{example}\" in the scenario makes \
         the values of {example} choices, of which this page then names the best.",
        list(&labels)
    ))
}

/// "a, b and c".
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// "a, b, c, d and 3 more".
fn listed(names: &[&str]) -> String {
    match names.len().saturating_sub(MOST_NAMES) {
        0 => list(names),
        rest => format!("{} and {rest} more", names[..MOST_NAMES].join(", ")),
    }
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
    matrix.best_overall.first().copied().unwrap_or(0)
}

/// The best of those that are not the reference.
fn next(matrix: &Matrix) -> Option<usize> {
    let choices = matrix.entries.first().map_or(0, Vec::len);
    let all = (1..choices).filter_map(|choice| Some((choice, against(matrix, choice)?)));
    let best = all.reduce(|one, other| if matrix.metric.is_better(other.1.value, one.1.value) { other } else { one });
    best.map(|(choice, _)| choice)
}

fn verdict(grid: &Grid, matrix: &Matrix, what: &str) -> String {
    let (reference, winner) = (&grid.choices[0].name, winner(matrix));
    let name = |choice: usize| grid.choices[choice].name.as_str();
    let Some(shown) = Some(winner).filter(|winner| *winner > 0).or_else(|| next(matrix)) else {
        return format!("No choice can be compared with {reference} in {what}.");
    };
    let Some(ratio) = against(matrix, shown) else { return String::new() };
    let ratio_at = |row: &&Vec<Option<Entry>>| row.get(shown).is_some_and(|it| it.is_some_and(|it| it.ratio.is_some()));
    let (together, mean) = match matrix.entries.iter().filter(ratio_at).count() {
        1 => (String::new(), ""),
        count => (format!(" over {count} {}s together", grid.kind), " (geometric mean)"),
    };
    let values = match matrix.entries.as_slice() {
        [only] => [shown, 0].map(|choice| only[choice].map(|it| metric::format(it.found.value, matrix.unit()))),
        _ => [None, None],
    };
    let values = match values {
        [Some(shown), Some(base)] => format!(", {shown} against {base}"),
        _ => mean.to_owned(),
    };
    // With many choices some differ by chance.
    let tested = match grid.choices.len() - 1 {
        one if one < FEWEST_TESTED => String::new(),
        many => format!(" Each of {many} choices is tested against {reference} at 95 %."),
    };
    // The others that are as good, as far as these runs show.
    let tied: Vec<&str> = matrix.best_overall.iter().skip(1).map(|choice| name(*choice)).collect();
    let tied = listed(&tied);
    let times = times(&ratio);
    if winner > 0 {
        let winner = name(winner);
        return match tied.as_str() {
            "" => format!("Best{together}: {winner}. Its {what} is {times} that of {reference}{values}.{tested}"),
            tied => format!(
                "Best{together}: {winner}, which {tied} cannot be told from beyond chance. Its {what} is {times} that of \
                 {reference}{values}.{tested}"
            ),
        };
    }
    let next = name(shown);
    match ratio.better {
        Some(false) if tied.is_empty() => format!(
            "Best{together}: {reference}. The {what} of the next best, {next}, is {times} that of {reference}{values}.\
             {tested}"
        ),
        _ => {
            // Not all: these are better than what is worse.
            let tied =
                if tied.is_empty() { String::new() } else { format!(" As good as far as these runs tell: {tied}.") };
            format!(
                "No choice is better than {reference} in {what} beyond chance{together}: that of the nearest, {next}, is \
                 {times} that of {reference}{values}.{tied}{tested}"
            )
        }
    }
}

/// How choices do place by place, where there are some that cannot be compared over all places together.
fn unranked(grid: &Grid, matrix: &Matrix, what: &str) -> String {
    let name = |choice: usize| grid.choices[choice].name.as_str();
    let names: Vec<&str> = matrix.unranked().into_iter().map(name).collect();
    let mut counted: Vec<(usize, [usize; 3])> =
        (1..grid.choices.len()).map(|choice| (choice, matrix.places_against_reference(choice))).collect();
    counted.retain(|(_, places)| places.iter().any(|count| *count > 0));
    // The most places gained first, of equals in the order of the scenario.
    counted.sort_by_key(|(_, [better, worse, _])| *worse as i64 - *better as i64);
    let said = counted.iter().take(MOST_UNRANKED).map(|(choice, [better, worse, same])| {
        format!(
            "{} is better on {better} {}s, worse on {worse}, not to be told from it on {same}",
            name(*choice),
            grid.kind
        )
    });
    let mut said: Vec<String> = said.collect();
    if let Some(more) = counted.len().checked_sub(MOST_UNRANKED).filter(|more| *more > 0) {
        said.push(format!("{more} more choices are in the table"));
    }
    format!(
        "No choice can be named best in {what} over all {} {}s together: with {} a value is 0 or has no end somewhere, of \
         which no mean of ratios can be made. Against {}: {}.",
        grid.places.len(),
        grid.kind,
        listed(&names),
        grid.choices[0].name,
        said.join("; ")
    )
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

/// A metric in which a choice is worse than another.
struct Cost<'m> {
    matrix: &'m Matrix,
    /// Where.
    places: usize,
    /// Where most: the place, and the values of the choice and of the other.
    most: (usize, f64, f64),
    /// By how much there, as a share of the better value.
    share: f64,
}

impl<'m> Cost<'m> {
    /// What the winner pays in a metric against the other, if it is worse anywhere. One of the two is the reference.
    fn of(matrix: &'m Matrix, winner: usize, other: usize) -> Option<Cost<'m>> {
        // Ratios are to the reference: where that wins, it pays where the other is better.
        let pays = |ratio: &Ratio| {
            let far = if ratio.value > 0.0 { ratio.value.max(1.0 / ratio.value) } else { f64::INFINITY };
            ratio.better == Some(winner == 0) && far >= 1.0 + LEAST_COST
        };
        let rows = matrix.entries.iter().enumerate().filter_map(|(place, row)| {
            let entry = row[other]?;
            let ratio = entry.ratio.filter(pays)?;
            let values = (entry.found.value, row[0]?.found.value);
            let (mine, theirs) = if winner == 0 { (values.1, values.0) } else { values };
            Some(((place, mine, theirs), ratio.value.max(1.0 / ratio.value)))
        });
        let rows: Vec<((usize, f64, f64), f64)> = rows.collect();
        let gap = |row: &&((usize, f64, f64), f64)| (row.0.1 - row.0.2).abs();
        let (most, share) = *rows.iter().max_by(|one, other| gap(one).total_cmp(&gap(other)))?;
        Some(Cost { matrix, places: rows.len(), most, share })
    }
}

/// In what the winner is worse than the reference, or where that wins, than what comes next: of all that was measured.
fn costs(
    (scenario, grid): (&Scenario, &Grid),
    (matrices, measured): (&[Matrix], usize),
    winner: usize,
    other: usize,
) -> String {
    /// Metrics that are named with their values.
    const MOST: usize = 2;
    /// Metrics that are named.
    const NAMED: usize = 6;
    let mut paid: Vec<Cost<'_>> = matrices[1..].iter().filter_map(|matrix| Cost::of(matrix, winner, other)).collect();
    // What flows are about comes first, then what is so in most places, and by most.
    let rank = |it: &Cost<'_>| match (it.matrix.metric.scope, it.matrix.metric.rank.main) {
        (_, true) => 0,
        (Scope::Flow | Scope::Run, _) => 1,
        (Scope::Link, _) => 2,
    };
    paid.sort_by(|one, other| {
        let places = other.places.cmp(&one.places);
        rank(one).cmp(&rank(other)).then(places).then(other.share.total_cmp(&one.share))
    });
    // What is worse in several metrics of a group is said once, of the first that differs most.
    let mut told: Vec<(&str, Result<Group, &str>)> = Vec::new();
    paid.retain(|it| {
        let one = (it.matrix.subject.as_str(), it.matrix.metric.group.ok_or(it.matrix.metric.name));
        let is_new = !told.contains(&one);
        told.push(one);
        is_new
    });
    let (winner, other) = (&grid.choices[winner].name, &grid.choices[if winner == 0 { other } else { 0 }].name);
    let measured = measured.saturating_sub(1);
    if paid.is_empty() {
        return format!(
            "None of the {measured} other metrics of flows, links and the run in which less or more is better is worse with \
             {winner} than with {other} by 1 % or more beyond chance."
        );
    }
    let tell = |it: &Cost<'_>| {
        let say = |value: f64| metric::format(value, it.matrix.unit());
        let at = match grid.places.len() {
            1 => String::new(),
            count => format!(" on {} of {count} {}s (most on {})", it.places, grid.kind, grid.places[it.most.0].name),
        };
        format!("{}{at}: {} against {}", it.matrix.name(scenario), say(it.most.1), say(it.most.2))
    };
    let (with_values, others) = paid.split_at(paid.len().min(MOST));
    let mut said = with_values.iter().map(tell).collect::<Vec<_>>().join("; ");
    let names: Vec<String> = others.iter().take(NAMED).map(|it| it.matrix.name(scenario)).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let more = match others.len().checked_sub(NAMED).filter(|more| *more > 0) {
            Some(more) => format!("{} and {more} more", names.join(", ")),
            None => list(&names),
        };
        said += &format!("; also worse: {more}");
    }
    let compared = measured * grid.places.len();
    // 5 % is what is to be expected, and no bound.
    let chance = match compared {
        few if few < 20 => String::new(),
        many => format!(": of {many} comparisons about {} would differ by chance if nothing did", (many + 10) / 20),
    };
    format!("What {winner} costs against {other}: {said}. All {measured} other metrics were looked at{chance}.")
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::StackInfo;
    use crate::stats::Estimate;

    /// One place (or two) and the choices rfc, b and c after what is shipped, with these values and ratios.
    fn made(places: usize, values: [f64; 4], ratios: [Option<Ratio>; 4]) -> (Grid, Matrix) {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"broadband\"\n[[flow]]\ntransfer = {{ download = \"1 MB\" }}\n\
             [vary]\n{}\"flow.0.policies\" = [{{ label = \"shipped\" }}, {{ label = \"a\", pacing = \"off\" }}, \
             {{ label = \"b\", probe = \"rfc\" }}, {{ label = \"c\", reordering = \"fixed\" }}]\n",
            if places == 2 { "\"path.p.down.rate\" = [\"1 Mbps\", \"2 Mbps\"]\n" } else { "" }
        );
        let scenario = Scenario::parse("t.toml", &text, Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        let row: Vec<Option<Entry>> = values
            .into_iter()
            .zip(ratios)
            .map(|(value, ratio)| {
                Some(Entry { point: 0, found: Estimate::of(&[value], Statistic::MEDIAN, 0.0), tails: None, ratio })
            })
            .collect();
        let matrix = Matrix {
            metric: metric::find("completion").unwrap(),
            statistic: Statistic::MEDIAN,
            subject: "flow 0".to_owned(),
            is_repeated: false,
            entries: vec![row; places],
            overall: ratios.into(),
            best: vec![Vec::new(); places],
            best_overall: Vec::new(),
        };
        (Grid::of(&scenario), matrix)
    }

    fn ratio(value: f64, low: f64, high: f64, better: Option<bool>) -> Option<Ratio> {
        Some(Ratio { value, interval: Some(Interval { low, high }), better, pairs: 30 })
    }

    #[test]
    fn a_reference_that_others_tie_with_is_not_called_the_best() {
        let (a, b) = (ratio(1.10, 0.9, 1.3, None), ratio(1.05, 1.02, 1.08, Some(false)));
        let (grid, mut matrix) = made(1, [10.0, 11.0, 10.5, 12.0], [None, a, b, ratio(1.2, 1.1, 1.3, Some(false))]);
        matrix.best_overall = vec![0, 1];
        let said = verdict(&grid, &matrix, "completion");
        assert!(said.starts_with("No choice is better than shipped in completion beyond chance"), "{said}");
        assert!(said.contains("As good as far as these runs tell: a.") && !said.contains("Best"), "{said}");
        assert!(said.ends_with("Each of 3 choices is tested against shipped at 95 %."), "{said}");
        // Where all others are worse it is.
        matrix.entries[0][1].as_mut().unwrap().ratio = ratio(1.1, 1.05, 1.2, Some(false));
        matrix.best_overall = vec![0];
        let said = verdict(&grid, &matrix, "completion");
        assert!(said.starts_with("Best: shipped. The completion of the next best, b, is 1.05"), "{said}");
    }

    #[test]
    fn no_best_is_named_over_a_set_from_which_one_is_missing() {
        let zero = Some(Ratio { value: 0.0, interval: None, better: Some(true), pairs: 30 });
        let b = ratio(0.9, 0.8, 0.95, Some(true));
        let (grid, mut matrix) = made(2, [10.0, 0.0, 9.0, 10.0], [None, zero, b, ratio(1.0, 0.9, 1.1, None)]);
        matrix.overall[1] = None;
        let said = unranked(&grid, &matrix, "completion");
        assert_eq!(
            said,
            "No choice can be named best in completion over all 2 places together: with a a value is 0 or has no end \
             somewhere, of which no mean of ratios can be made. Against shipped: a is better on 2 places, worse on 0, not \
             to be told from it on 0; b is better on 2 places, worse on 0, not to be told from it on 0; c is better on 0 \
             places, worse on 0, not to be told from it on 2."
        );
    }
}
