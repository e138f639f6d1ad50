//! The output of `thalweg lab compare`: whether two sets of results are equal, and what differs beyond chance.

use thalweg_lab::metric::{self, Better, Unit};
use thalweg_lab::results::Common;
use thalweg_lab::stats::{FEWEST_FOR_MEDIAN, Interval, Missing, Paired};
use thalweg_lab::summary::{self, Difference};

use super::words::counted;
use crate::columns::{Cell, Column, sentence, table};
use crate::paint::{Paint, Tone};

/// The most differences that are printed.
const MOST_ROWS: usize = 40;

/// In words for people: "identical", or a table of what differs beyond chance, the largest ratio first.
pub(super) fn compared(common: Common, differences: &[Difference], paint: Paint) -> String {
    if common.is_identical() {
        return format!("identical: {}\n", counted(common.runs as u64, "run"));
    }
    let (mut beyond, rest): (Vec<&Difference>, Vec<&Difference>) =
        differences.iter().partition(|difference| is_beyond_chance(&difference.paired));
    let (within, open): (Vec<&Difference>, Vec<&Difference>) = rest.into_iter().partition(|it| is_told(&it.paired));
    beyond.sort_by(|one, other| size(&other.paired).total_cmp(&size(&one.paired)));
    let mut out = String::new();
    let (runs, same) = (common.runs, common.same);
    if runs > 0 {
        out += &format!("{} in common, {same} of them identical\n", counted(runs as u64, "run"));
    }
    if !beyond.is_empty() {
        out += "median differences on the same seeds [95 % interval], the largest first\n";
        let laid = table(&columns(&beyond[..beyond.len().min(MOST_ROWS)]), 2, paint);
        out += &laid.text;
        if !laid.left_out.is_empty() {
            out += &sentence(&format!("  not shown: {}; the page shows all", laid.left_out.join("; ")), 4);
        }
        if let Some(more) = beyond.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            out += &format!("  … and {more} more on the page\n");
        }
    }
    let tested = differences.iter().filter(|difference| difference.paired.ratio_interval.is_some()).count();
    if let Some(many) = summary::many_intervals(tested).filter(|_| !beyond.is_empty()) {
        out += &sentence(&format!("  mind that {many}"), 4);
    }
    if !within.is_empty() {
        let other = if beyond.is_empty() { "" } else { "other " };
        let rest = match within.len() {
            1 => format!("1 {other}figure does not differ"),
            many => format!("{many} {other}figures do not differ"),
        };
        out += &sentence(&format!("  {rest} beyond chance; the page shows all"), 4);
    }
    if !open.is_empty() {
        let figures = counted(open.len() as u64, "figure");
        let seeds = format!("run both with at least {FEWEST_FOR_MEDIAN} seeds");
        out += &sentence(&format!("  {figures} cannot be told apart from chance with so few seeds: {seeds}"), 4);
    }
    out
}

/// Whether the seeds show if there is a difference.
fn is_told(paired: &Paired) -> bool {
    paired.difference_interval.is_some() || paired.ratio_interval.is_some() || is_alike(paired)
}

/// Whether every seed gave the same, and they are enough for that to say something.
fn is_alike(paired: &Paired) -> bool {
    matches!(paired.missing, Some(Missing::Alike(seeds)) if seeds >= FEWEST_FOR_MEDIAN)
}

/// Whether the interval of the difference is on one side of nothing. Where every seed gave the same difference, there
/// is no interval, and that difference is no chance.
fn is_beyond_chance(paired: &Paired) -> bool {
    let apart = |interval: Interval, from: f64| interval.low > from || interval.high < from;
    match (paired.difference_interval, paired.ratio_interval) {
        (Some(difference), _) => apart(difference, 0.0),
        (None, Some(ratio)) => apart(ratio, 1.0),
        (None, None) => is_alike(paired) && paired.difference != 0.0,
    }
}

/// How large a difference is: the logarithm of its ratio, either way.
fn size(paired: &Paired) -> f64 {
    let ratio = paired.ratio.max(0.0);
    if ratio.is_nan() { 0.0 } else { ratio.max(1.0 / ratio) }
}

fn columns(differences: &[&Difference]) -> Vec<Column> {
    let unit = |difference: &Difference| metric::find(difference.metric).map_or(Unit::Ratio, |metric| metric.unit);
    let column = |of: &dyn Fn(&Difference) -> Cell| differences.iter().map(|difference| of(difference)).collect();
    let mut columns = vec![Column::left("metric", column(&|it| it.metric.replace('_', " ").into()))];
    let point = |it: &Difference| it.other.strip_prefix("B: ").filter(|name| *name != "B").unwrap_or("").to_owned();
    if differences.iter().any(|it| !point(it).is_empty()) {
        columns.push(Column::left("point", column(&|it| point(it).into())));
    }
    if differences.iter().any(|it| it.subject != differences[0].subject) {
        columns.push(Column::left("flow", column(&|it| it.subject.clone().into())));
    }
    columns.push(Column::right(
        "B over A",
        column(&|it| {
            let ratio = summary::with_interval(it.paired.ratio, it.paired.ratio_interval, Unit::Ratio);
            Cell::toned(ratio, tone(it))
        }),
    ));
    columns.push(Column::right("B less A", column(&|it| metric::format(it.paired.difference, unit(it)).into())));
    let more = |it: &Difference| format!("{} of {}", it.paired.larger, it.paired.pairs);
    columns.push(Column::right("B is larger", column(&|it| more(it).into())));
    columns
}

/// Whether B is better.
fn tone(difference: &Difference) -> Tone {
    let better = metric::find(difference.metric).map_or(Better::Neither, |metric| metric.better);
    match (better, difference.paired.ratio > 1.0) {
        (Better::Neither, _) => Tone::Plain,
        (Better::Less, false) | (Better::More, true) => Tone::Good,
        _ => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{WIDTH, width};

    fn difference(metric: &'static str, ratio: f64, interval: Option<(f64, f64)>) -> Difference {
        let interval = interval.map(|(low, high)| Interval { low, high });
        let paired = Paired {
            pairs: 20,
            distinct: 20,
            first_never: 0,
            difference: ratio - 1.0,
            difference_interval: interval.map(|Interval { low, high }| Interval { low: low - 1.0, high: high - 1.0 }),
            ratio,
            ratio_interval: interval,
            missing: None,
            smaller: if ratio < 1.0 { 20 } else { 0 },
            larger: if ratio > 1.0 { 20 } else { 0 },
        };
        let place = "link = a-path-with-a-long-name, start = a-start-with-a-long-name, stack = thalweg";
        Difference { base: "A".into(), other: format!("B: {place}"), subject: "flow 0".into(), metric, paired }
    }

    #[test]
    fn equal_results_are_identical_and_nothing_else() {
        let common = Common { runs: 30, same: 30 };
        assert_eq!(compared(common, &[difference("completion", 1.0, None)], Paint::NONE), "identical: 30 runs\n");
        assert_eq!(compared(Common { runs: 1, same: 1 }, &[], Paint::NONE), "identical: 1 run\n");
        assert!(!Common::default().is_identical());
    }

    #[test]
    fn what_differs_most_comes_first_and_the_rest_is_counted() {
        let differences = [
            difference("completion", 1.1, Some((1.05, 1.2))),
            difference("goodput", 0.5, Some((0.4, 0.6))),
            difference("packets_lost", 1.2, Some((0.9, 1.5))),
        ];
        let text = compared(Common { runs: 20, same: 0 }, &differences, Paint::NONE);
        let at = |word: &str| text.find(word).unwrap();
        assert!(at("goodput") < at("completion"), "{text}");
        assert!(!text.contains("packets lost"), "{text}");
        assert!(text.contains("1 other figure does not differ beyond chance"), "{text}");
        assert!(text.contains("20 runs in common, 0 of them identical"), "{text}");
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        let colored = compared(Common { runs: 20, same: 0 }, &differences, Paint::ALWAYS);
        // Both are worse: it takes longer, and less goes through.
        assert_eq!(colored.matches("\u{1b}[31m").count(), 2, "{colored}");
    }

    #[test]
    fn where_every_seed_differs_alike_that_is_no_chance() {
        let mut alike = difference("completion", 1.3, None);
        alike.paired.missing = Some(Missing::Alike(20));
        let text = compared(Common { runs: 20, same: 0 }, &[alike.clone()], Paint::NONE);
        assert!(text.contains("1.3"), "{text}");
        alike.paired.missing = Some(Missing::Few(2));
        let text = compared(Common { runs: 20, same: 0 }, &[alike], Paint::NONE);
        assert!(text.contains("1 figure cannot be told apart from chance with so few seeds"), "{text}");
        assert!(!text.contains("not differ"), "{text}");
    }
}
