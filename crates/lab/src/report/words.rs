//! Words of pages: labels of rows, numbers and intervals.

use crate::metric::{self, Scope, Unit};
use crate::results::Results;
use crate::stats::{Interval, Missing};
use crate::summary;

pub(super) fn prefix(sets: &[&Results], at: usize) -> String {
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

/// A label for a row: what is varied, and the flow where there are several.
pub(super) fn row_label(set: &Results, point: usize, subject: &str, scope: Scope) -> String {
    let alone = summary::subjects(&set.scenario, point, scope).len() == 1;
    let point = set.scenario.points.get(point).map(|point| point.name(&set.scenario.axes)).unwrap_or_default();
    let subject = if alone && !point.is_empty() { "" } else { subject };
    let label = join(&point, subject);
    if label.is_empty() { "this run".to_owned() } else { label }
}

pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
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
