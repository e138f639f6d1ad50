//! Bounds of expectations: one for all points that are meant, or one for each label of an axis.

use std::collections::{BTreeMap, BTreeSet};

use super::axis::Axis;
use super::labels::{Labels, hint};
use super::read::{Field, Reader};
use super::tree::Value;
use crate::metric::{self, Unit};

/// The keys of bounds.
const BOUNDS: [&str; 4] = ["at_least", "at_most", "equals", "within"];

/// How bounds by label are written.
const EXAMPLE: &str = "{ LABEL = BOUND }";

/// Labels of a table that are complained about; a table can have very many, and an axis too.
const MOST_UNKNOWN: usize = 20;

/// What is expected of all points that are meant, or of those with one label.
pub(super) struct Bounded {
    /// The line of the label; none without one.
    pub(super) line: Option<usize>,
    /// The axis and its label.
    pub(super) point: Option<(String, String)>,
    /// Lower bound.
    pub(super) at_least: Option<f64>,
    /// Upper bound.
    pub(super) at_most: Option<f64>,
    /// Where the numbers come from.
    pub(super) because: Option<String>,
}

/// What stands in the file for one label, or without labels.
struct Written<'a> {
    /// The label and the first bound that is written for it.
    label: Option<(&'a str, Field<'a>)>,
    /// The bounds by their keys.
    bounds: Vec<(&'static str, Field<'a>)>,
    because: Option<Field<'a>>,
}

/// What is written for each label, and the reasons of labels without a bound.
type ByLabel<'a> = (Vec<Written<'a>>, Vec<(&'a str, Field<'a>)>);

/// Reads the bounds of an expectation that speaks of the points `selected`, their reasons, and the axis of their
/// labels. `unit` is that of the bounds, and whether they can be negative; without one they are not read.
pub(super) fn read(
    reader: &Reader<'_>,
    selected: &[(String, String)],
    labels: Labels<'_>,
    unit: Option<(Unit, bool)>,
) -> Vec<Bounded> {
    let given = BOUNDS.into_iter().filter_map(|key| Some((key, reader.get(key)?)));
    let given: Vec<(&'static str, Field<'_>)> = given.collect();
    let (because, named) = (reader.get("because"), reader.get("axis"));
    let keys: Vec<&str> = given.iter().map(|(key, _)| *key).collect();
    match keys.as_slice() {
        [] => reader.complain("expects nothing; write at_most, at_least, equals or within"),
        [_] | ["at_least", "at_most"] => {}
        _ => reader
            .complain(format!("{} do not go together; write one of them, or at_least and at_most", keys.join(", "))),
    }
    let Some(table) = given.iter().map(|(_, field)| field).find(|field| field.is_table()) else {
        if let Some(field) = named {
            field
                .complain("says which axis has the labels of a table of bounds, but no bound is a table; leave it out");
        }
        let written = Written { label: None, bounds: given, because };
        return vec![written.read(reader, None, unit)];
    };
    let (written, reasons) = by_label(&given, because.as_ref());
    let axis = axis(&written, table, named.as_ref(), labels);
    if let Some(axis) = axis {
        if let Some((_, label)) = selected.iter().find(|(name, _)| *name == axis.label) {
            table.complain(format!(
                "is by the values of {0}, but where says {0} = \"{label}\"; leave {0} out of where",
                axis.label
            ));
        }
        for (label, field) in written.iter().filter_map(|it| it.label.as_ref()) {
            let points: Vec<(String, String)> =
                selected.iter().cloned().chain([(axis.label.clone(), (*label).to_owned())]).collect();
            if let Some(why) = labels.conflict(&points) {
                field.complain(why);
            }
        }
    }
    without_bound(&reasons, &written, axis, labels);
    written.iter().map(|it| it.read(reader, axis, unit)).collect()
}

/// Complains of reasons whose label has no bound: no value of the axis, or one that is left out.
fn without_bound(reasons: &[(&str, Field<'_>)], written: &[Written<'_>], axis: Option<&Axis>, labels: Labels<'_>) {
    for (label, reason) in reasons.iter().take(MOST_UNKNOWN) {
        let bounded = written.iter().filter_map(|it| Some(it.label.as_ref()?.0));
        match axis {
            Some(axis) if !labels.of(axis).any(|known| known == *label) => reason.complain(labels.unknown(axis, label)),
            _ => {
                let hint = hint(label, bounded);
                reason.complain(format!("\"{label}\" has no bound; {hint}give it one, or leave its reason out"));
            }
        }
    }
}

/// What is written for each label, in the order of the file, and the reasons of labels without a bound. What is no
/// table holds for every label.
fn by_label<'a>(given: &[(&'static str, Field<'a>)], because: Option<&Field<'a>>) -> ByLabel<'a> {
    let mut written: Vec<Written<'a>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let (tables, others): (Vec<_>, Vec<_>) = given.iter().partition(|(_, field)| field.is_table());
    for (key, field) in tables {
        let entries = field.table(EXAMPLE).map(|table| table.all()).unwrap_or_default();
        if entries.is_empty() {
            field.complain(format!("names no label; write one bound, or {EXAMPLE}"));
        }
        for (label, _, bound) in entries {
            let at = *places.entry(label).or_insert(written.len());
            if at == written.len() {
                let label = Some((label, bound.clone()));
                written.push(Written { label, bounds: others.iter().copied().cloned().collect(), because: None });
            }
            written[at].bounds.push((key, bound));
        }
    }
    let Some(because) = because else { return (written, Vec::new()) };
    if !because.is_table() {
        written.iter_mut().for_each(|it| it.because = Some(because.clone()));
        return (written, Vec::new());
    }
    let reasons = because.table("{ LABEL = REASON }").map(|table| table.all()).unwrap_or_default();
    if reasons.is_empty() {
        because.complain("names no label; write one reason, or { LABEL = REASON }");
    }
    let mut alone = Vec::new();
    for (label, _, reason) in reasons {
        match places.get(label) {
            Some(at) => written[*at].because = Some(reason),
            None => alone.push((label, reason)),
        }
    }
    (written, alone)
}

/// The axis of the labels: the one that `named` is, or else the only one that has all of them. Complains if there is
/// no such axis, in `table` where that is not about one label.
fn axis<'l>(
    written: &[Written<'_>],
    table: &Field<'_>,
    named: Option<&Field<'_>>,
    labels: Labels<'l>,
) -> Option<&'l Axis> {
    let wanted: Vec<(&str, &Field<'_>)> =
        written.iter().filter_map(|it| it.label.as_ref()).map(|(label, field)| (*label, field)).collect();
    let (first, field) = wanted.first()?;
    let names: BTreeSet<&str> = wanted.iter().map(|(label, _)| *label).collect();
    let known = |axis: &'l Axis| -> BTreeSet<&str> { labels.of(axis).filter(|label| names.contains(label)).collect() };
    let axis = match named {
        Some(field) => {
            let name = field.text("an axis of [vary] in quotes")?;
            labels.axis(name).map_err(|why| field.complain(format!("\"{name}\" {why}"))).ok()?
        }
        None => {
            let fitting: Vec<&Axis> = labels.axes.iter().filter(|axis| known(axis).len() == names.len()).collect();
            match fitting.as_slice() {
                [axis] => axis,
                // The axis that was probably meant.
                [] => {
                    let most = labels.axes.iter().rev().max_by_key(|axis| known(axis).len());
                    let has_near = |axis: &&Axis| !hint(first, labels.of(axis)).is_empty();
                    let meant = most.filter(|axis| !known(axis).is_empty() || labels.axes.len() == 1);
                    match meant.or_else(|| labels.axes.iter().find(has_near)) {
                        Some(axis) => axis,
                        None => {
                            field.complain(format!("\"{first}\" {}", of_no_axis(labels)));
                            return None;
                        }
                    }
                }
                several => {
                    let names: Vec<&str> = several.iter().map(|axis| axis.label.as_str()).collect();
                    let keys: Vec<String> = names.iter().map(|name| format!("axis = \"{name}\"")).collect();
                    table.complain(format!(
                        "has labels that are values of {}; write {}",
                        names.join(" and of "),
                        keys.join(" or ")
                    ));
                    return None;
                }
            }
        }
    };
    let known = known(axis);
    for (label, field) in wanted.iter().filter(|(label, _)| !known.contains(label)).take(MOST_UNKNOWN) {
        field.complain(labels.unknown(axis, label));
    }
    Some(axis)
}

/// That a label is a value of no axis, and which there are.
fn of_no_axis(labels: Labels<'_>) -> String {
    if labels.axes.is_empty() {
        return "is a label, but there is no [vary]; write one bound".to_owned();
    }
    let axes = labels.axes.iter().map(|axis| format!("{} ({})", axis.label, axis.values.join(", ")));
    format!("is a value of no axis; write values of one of {}", axes.collect::<Vec<_>>().join(", "))
}

impl Written<'_> {
    /// The bounds in numbers, and the reason.
    fn read(&self, reader: &Reader<'_>, axis: Option<&Axis>, unit: Option<(Unit, bool)>) -> Bounded {
        let number = |field: &Field<'_>| unit.and_then(|(unit, signed)| value(field, unit, signed));
        let (mut at_least, mut at_most) = (None, None);
        for (key, field) in &self.bounds {
            match *key {
                "at_least" => at_least = number(field),
                "at_most" => at_most = number(field),
                "equals" => {
                    let equals = number(field);
                    (at_least, at_most) = (equals, equals);
                }
                _ => match field.items().as_slice() {
                    [low, high] if field.is_list() => (at_least, at_most) = (number(low), number(high)),
                    _ => field.complain("is no pair; write [smallest, largest]"),
                },
            }
        }
        if let (Some(least), Some(most)) = (at_least, at_most)
            && least > most
        {
            const NEVER: &str = "can never hold: its lower bound is above its upper bound";
            match &self.label {
                Some((_, field)) => field.complain(NEVER),
                None => reader.complain(NEVER),
            }
        }
        let because = self.because.as_ref().and_then(|field| field.text("a reason in quotes")).map(str::to_owned);
        let line = self.label.as_ref().map(|(_, field)| field.line());
        let point = axis.zip(self.label.as_ref()).map(|(axis, (label, _))| (axis.label.clone(), (*label).to_owned()));
        Bounded { line, point, at_least, at_most, because }
    }
}

/// A bound; of a difference also below zero: "-5 ms".
fn value(field: &Field<'_>, unit: Unit, signed: bool) -> Option<f64> {
    match &field.node.value {
        Value::Text(text) if signed && text.trim_start().starts_with(['-', '−']) => {
            let size = text.trim_start().trim_start_matches(['-', '−']);
            metric::parse(size.trim_start(), unit).map(|size| -size).map_err(|message| field.complain(message)).ok()
        }
        Value::Text(text) => metric::parse(text, unit).map_err(|message| field.complain(message)).ok(),
        Value::Integer(0) => Some(0.0),
        Value::Integer(_) | Value::Float(_) if matches!(unit, Unit::Ratio | Unit::Count | Unit::Share) => {
            field.number("a number")
        }
        Value::Integer(_) | Value::Float(_) => {
            field.complain(format!("{} has no unit; write {}", field.node.label(), metric::example(unit)));
            None
        }
        _ => {
            field.complain(format!("is {}; write {}", field.node.kind(), metric::example(unit)));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::tests::parse;
    use crate::scenario::{Expectation, Scenario, ScenarioError};

    /// Axes start, rate, down.delay and up.delay; the last two share values.
    fn read(expectations: &str) -> Result<Scenario, ScenarioError> {
        parse(&format!(
            "title = \"t\"\nquestion = \"q?\"\n[path.p]\ndown = {{ rate = \"20 Mbps\", delay = \"30 ms\" }}\n\
             up = {{ rate = \"2 Mbps\", delay = \"20 ms\" }}\n[[flow]]\nname = \"f\"\ntransfer = {{ download = \"1 MB\" }}\n\
             [vary]\n\"flow.f.policies.start\" = [\"standard\", \"hystart++\"]\n\
             \"path.p.down.rate\" = [\"10 Mbps\", \"20 Mbps\", \"40 Mbps\"]\n\
             \"path.p.down.delay\" = [\"5 ms\", \"25 ms\"]\n\"path.p.up.delay\" = [\"5 ms\", \"25 ms\", \"50 ms\"]\n\
             {expectations}"
        ))
    }

    /// What is expected and what is known, wherever it stands.
    fn all(expectations: &str) -> Vec<Expectation> {
        let scenario = read(expectations).unwrap_or_else(|error| panic!("{error}"));
        let all = scenario.expectations.into_iter().chain(scenario.known);
        let without_place = |mut it: Expectation| {
            it.line = 0;
            it.points.sort();
            it
        };
        all.map(without_place).collect()
    }

    #[test]
    fn a_table_of_bounds_means_an_expectation_for_each_label() {
        // What is written by label, then each label on its own: its value in where, and its lines.
        for (list, table, rest, each) in [
            (
                "expect",
                "at_most = { \"10 Mbps\" = 1.5, \"40 Mbps\" = 1.2 }\nbecause = \"of both\"",
                "metric = \"completion_over_floor.p50\"",
                &[
                    ("rate = \"10 Mbps\"", "at_most = 1.5\nbecause = \"of both\""),
                    ("rate = \"40 Mbps\"", "at_most = 1.2\nbecause = \"of both\""),
                ][..],
            ),
            (
                "known",
                "within = { \"hystart++\" = [\"-5 ms\", \"5 ms\"], standard = [0, 0] }\nbecause = { standard = \"itself\" }",
                "flow = \"f\"\nmetric = \"completion.p50\"\nversus = { start = \"standard\" }",
                &[
                    ("start = \"hystart++\"", "within = [\"-5 ms\", \"5 ms\"]"),
                    ("start = \"standard\"", "within = [0, 0]\nbecause = \"itself\""),
                ],
            ),
            (
                "expect",
                "axis = \"down.delay\"\nequals.\"5 ms\" = 0\nequals.\"25 ms\" = 3",
                "link = \"p.down\"\nmetric = \"link_queue_dropped.max\"",
                &[("\"down.delay\" = \"5 ms\"", "equals = 0"), ("\"down.delay\" = \"25 ms\"", "equals = 3")],
            ),
            (
                // What is no table holds for each label; a label can have one of two bounds.
                "expect",
                "at_least = 0.5\n[expect.at_most]\n\"10 Mbps\" = 1.5\n\"20 Mbps\" = 1.4",
                "metric = \"completion.p50\"\nrelative_to = { start = \"standard\" }",
                &[
                    ("rate = \"10 Mbps\"", "at_least = 0.5\nat_most = 1.5"),
                    ("rate = \"20 Mbps\"", "at_least = 0.5\nat_most = 1.4"),
                ],
            ),
            (
                "expect",
                "at_least = { \"10 Mbps\" = 0.5 }\nat_most = { \"20 Mbps\" = 1.4, \"10 Mbps\" = 1.5 }",
                "metric = \"completion.p50\"\nrelative_to = { rate = \"40 Mbps\" }",
                &[("rate = \"10 Mbps\"", "at_least = 0.5\nat_most = 1.5"), ("rate = \"20 Mbps\"", "at_most = 1.4")],
            ),
        ] {
            for more in ["", "\"up.delay\" = \"50 ms\""] {
                let fixed = if more.is_empty() { String::new() } else { format!("where = {{ {more} }}\n") };
                let short = format!("[[{list}]]\n{fixed}{rest}\n{table}\n");
                let comma = if more.is_empty() { "" } else { ", " };
                let one = |(point, bound): &(&str, &str)| {
                    format!("[[{list}]]\nwhere = {{ {more}{comma}{point} }}\n{rest}\n{bound}\n")
                };
                let long: String = each.iter().map(one).collect();
                assert_eq!(all(&short), all(&long), "{short}");
            }
        }
    }

    #[test]
    fn an_expectation_has_the_line_of_its_label() {
        let lines = |text: &str| {
            let scenario = read(text).unwrap_or_else(|error| panic!("{error}"));
            let first = scenario.text.lines().position(|line| line == "[[expect]]").unwrap_or(0);
            scenario.expectations.iter().map(|it| it.line - first).collect::<Vec<_>>()
        };
        let metric = "[[expect]]\nmetric = \"completion_over_floor.p50\"\n";
        assert_eq!(lines(&format!("{metric}at_most = {{ \"10 Mbps\" = 1.5, \"20 Mbps\" = 2 }}\n")), [3, 3]);
        assert_eq!(lines(&format!("{metric}[expect.at_most]\n\"10 Mbps\" = 1.5\n\"20 Mbps\" = 2\n")), [4, 5]);
        assert_eq!(lines(&format!("{metric}at_most = 2\n")), [1]);
    }

    #[test]
    fn what_is_wrong_with_labels_and_axes_is_said_where_it_stands() {
        for (lines, key, message) in [
            (
                "at_most = { \"10 Mbps\" = 1.5, \"41 Mbps\" = 2 }",
                "expect.0.at_most.41 Mbps",
                "\"41 Mbps\" is not among the values of rate; did you mean \"40 Mbps\"? \
                 write one of 10 Mbps, 20 Mbps, 40 Mbps",
            ),
            (
                "at_most = { hystart = 1.5 }",
                "expect.0.at_most.hystart",
                "\"hystart\" is not among the values of start; did you mean \"hystart++\"? write one of standard, hystart++",
            ),
            (
                "at_most = { nothing = 1.5 }",
                "expect.0.at_most.nothing",
                "\"nothing\" is a value of no axis; write values of one of start (standard, hystart++), rate (",
            ),
            (
                "at_most = { \"5 ms\" = 1.5, \"25 ms\" = 1.4 }",
                "expect.0.at_most",
                "has labels that are values of down.delay and of up.delay; \
                 write axis = \"down.delay\" or axis = \"up.delay\"",
            ),
            (
                "axis = \"down.delay\"\nat_most = { \"5 ms\" = 1.5, \"50 ms\" = 1.4 }",
                "expect.0.at_most.50 ms",
                "\"50 ms\" is not among the values of down.delay; ",
            ),
            (
                "axis = \"downdelay\"\nat_most = { \"5 ms\" = 1.5 }",
                "expect.0.axis",
                "\"downdelay\" is not varied; did you mean \"down.delay\"? accepted here: start, rate, down.delay, up.delay",
            ),
            ("axis = \"start\"\nat_most = 1.5", "expect.0.axis", "no bound is a table; leave it out"),
            (
                "where = { rate = \"10 Mbps\" }\nat_most = { \"20 Mbps\" = 1.5 }",
                "expect.0.at_most",
                "is by the values of rate, but where says rate = \"10 Mbps\"; leave rate out of where",
            ),
            ("at_most = {}", "expect.0.at_most", "names no label; write one bound, or { LABEL = BOUND }"),
            (
                "at_most = { standard = 1.5 }\nbecause = { \"hystart++\" = \"r\" }",
                "expect.0.because.hystart++",
                "\"hystart++\" has no bound; give it one, or leave its reason out",
            ),
            (
                "at_most = { \"40 Mbps\" = 1.5 }\nbecause = { \"41 Mbps\" = \"r\" }",
                "expect.0.because.41 Mbps",
                "\"41 Mbps\" is not among the values of rate; did you mean \"40 Mbps\"? \
                 write one of 10 Mbps, 20 Mbps, 40 Mbps",
            ),
            (
                "at_most = { \"10 Mbps\" = 1.5, \"40 Mbps\" = 1.5 }\nbecause = { \"20 Mbps\" = \"r\" }",
                "expect.0.because.20 Mbps",
                "\"20 Mbps\" has no bound; did you mean ",
            ),
            (
                "at_most = 1.5\nbecause = { standard = \"r\" }",
                "expect.0.because",
                "is a table; write a reason in quotes",
            ),
            ("at_most = { standard = \"1 s\" }", "expect.0.at_most.standard", "bare number"),
            ("at_most = { standard = { x = 1 } }", "expect.0.at_most.standard", "is a table; write "),
            ("within = { standard = 1.5 }", "expect.0.within.standard", "is no pair; write [smallest, largest]"),
            (
                "at_least = 2\nat_most = { standard = 1.5, \"hystart++\" = 2.5 }",
                "expect.0.at_most.standard",
                "can never hold",
            ),
            ("at_most = { standard = 1 }\nequals = 1", "expect.0", "at_most, equals do not go together"),
        ] {
            let text = format!("[[expect]]\nmetric = \"completion_over_floor.p50\"\n{lines}\n");
            let error = read(&text).expect_err(lines);
            let found = error.diagnostics.iter().find(|found| found.key == key);
            let found = found.unwrap_or_else(|| panic!("{lines}: nothing about {key}: {error}"));
            assert!(found.message.contains(message), "{message:?} is missing: {found}");
        }
        let error = parse(
            "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"broadband\"\n[[flow]]\ntransfer = { download = \"1 MB\" }\n\
             [[expect]]\nmetric = \"success\"\nequals = { standard = 1 }\n",
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("q.toml:9:23: expect.0.equals.standard: \"standard\" is a label, but there is no [vary]"),
            "{error}"
        );
    }
}
