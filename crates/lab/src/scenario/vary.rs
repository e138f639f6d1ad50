//! `[vary]`: lists of values for dotted keys; every combination is a point.

use core::ops::Range;
use std::collections::BTreeSet;

use super::diagnostic::{Source, nearest};
use super::read::Field;
use super::tree::{Node, Value};
use super::{Axis, MOST_POINTS, StackInfo};

/// An axis with the values themselves.
pub(crate) struct Varied {
    pub(crate) axis: Axis,
    steps: Vec<String>,
    key_span: Range<usize>,
    values: Vec<Node>,
}

impl Varied {
    /// How many values the values of the axis consist of, all together.
    pub(crate) fn count(&self) -> u64 {
        self.values.iter().map(Node::count).sum()
    }

    /// Puts the value with number `at` where it belongs.
    pub(crate) fn apply(&self, at: usize, document: &mut Node, stacks: &[StackInfo], source: &Source<'_>) {
        let steps: Vec<&str> = self.steps.iter().map(String::as_str).collect();
        // Tables on the way are made as needed, but a path has to exist.
        if let ["path", name, ..] = steps.as_slice()
            && let Some(paths) = document.get("path")
            && paths.node.get(name).is_none()
        {
            let names: Vec<&str> =
                paths.node.entries().unwrap_or_default().iter().map(|path| path.key.as_str()).collect();
            let hint =
                nearest(name, names.iter().copied()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
            self.complain(source, &format!("there is no path \"{name}\"; {hint}there are {}", names.join(", ")));
            return;
        }
        for steps in those_that_listen(&steps, document, stacks) {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            if let Err(message) = document.set(&steps, &self.values[at], &self.key_span) {
                source.complain(&self.key_span, &format!("vary.\"{}\"", self.axis.key), message);
            }
        }
    }

    pub(crate) fn complain(&self, source: &Source<'_>, message: &str) {
        source.complain(&self.key_span, &format!("vary.\"{}\"", self.axis.key), message);
    }
}

/// Where a value goes: where its key says, but of all flows (`*`) only those whose stack has such a policy.
fn those_that_listen(steps: &[&str], document: &Node, stacks: &[StackInfo]) -> Vec<Vec<String>> {
    let own = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
    let flows = document.get("flow").map(|flows| &flows.node.value);
    let (["flow", "*", "policies", policy], Some(Value::List(flows))) = (steps, flows) else { return vec![own(steps)] };
    let heeds = |flow: &Node| match flow.get("stack").map(|entry| &entry.node.value) {
        Some(Value::Text(name)) => {
            stacks.iter().find(|stack| stack.name == *name).is_none_or(|stack| stack.heeds(policy))
        }
        _ => true,
    };
    if flows.iter().all(heeds) {
        return vec![own(steps)];
    }
    let listen = flows.iter().enumerate().filter(|(_, flow)| heeds(flow));
    listen.map(|(at, _)| own(&["flow", &at.to_string(), "policies", policy])).collect()
}

/// Keys that describe the world and can therefore be varied.
pub(crate) const ROOTS: [&str; 7] = ["path", "flow", "crypto", "time_limit", "perturb", "host_delay", "measure"];

/// The most keys that can be varied at once.
const MOST_AXES: usize = 64;

/// Characters of the label of a value: a long list is named by its beginning.
const LONGEST_LABEL: usize = 100;

pub(crate) fn read(field: &Field<'_>) -> Option<Vec<Varied>> {
    let table = field.table("[vary] with lines such as \"flow.0.policies.start\" = [\"standard\", \"hystart++\"]")?;
    let mut varied: Vec<Varied> = Vec::new();
    let mut points: u64 = 1;
    let mut flat = Vec::new();
    flatten(&table.all(), "", &mut flat);
    if flat.len() > MOST_AXES {
        field.complain(format!(
            "varies {} keys; at most {MOST_AXES} are accepted, so set those with one value where they belong",
            flat.len()
        ));
        return None;
    }
    for (key, key_span, list) in flat {
        if !list.is_list() {
            list.complain(format!(
                "is not a list; write the values that {key} shall take in brackets, or set it where it belongs"
            ));
            continue;
        }
        let items = list.items();
        if items.is_empty() {
            list.complain("is an empty list, so there would be nothing to run; write at least one value");
            continue;
        }
        let steps: Vec<String> = key.split('.').map(|step| step.trim().to_owned()).collect();
        if !ROOTS.contains(&steps[0].as_str()) {
            list.complain(format!(
                "\"{}\" cannot be varied; keys begin with one of {}, such as \"path.NAME.down.rate\"",
                steps[0],
                ROOTS.join(", ")
            ));
            continue;
        }
        points = points.saturating_mul(items.len() as u64);
        if points > MOST_POINTS {
            list.complain(format!(
                "makes {points} points or more; at most {MOST_POINTS} are accepted, so shorten the lists or split the scenario"
            ));
            return None;
        }
        let values = labels(&items);
        let nodes = items.iter().map(|item| without_label(item.node)).collect();
        varied.push(Varied {
            axis: Axis { label: String::new(), key, values },
            steps,
            key_span: key_span.clone(),
            values: nodes,
        });
    }
    name(&mut varied);
    Some(varied)
}

/// What the values of an axis are called: no two alike.
fn labels(items: &[Field<'_>]) -> Vec<String> {
    let mut whole = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let mut labels = Vec::new();
    for (number, item) in (1..).zip(items) {
        let mut label = item.node.label();
        let is_new = whole.insert(label.clone());
        if !is_new && !item.is_table() {
            item.complain(format!("\"{label}\" is in the list twice; leave one out"));
        }
        if let Some((end, _)) = label.char_indices().nth(LONGEST_LABEL) {
            label.truncate(end);
            label.push('…');
        }
        if taken.contains(&label) && (item.is_table() || label.ends_with('…')) {
            label = format!("{label} ({number})");
        }
        taken.insert(label.clone());
        labels.push(label);
    }
    labels
}

/// `label` in a table value names it in reports and is no key of the thing itself.
fn without_label(node: &Node) -> Node {
    let mut node = node.clone();
    if let Value::Table(entries) = &mut node.value {
        entries.retain(|entry| entry.key != "label");
    }
    node
}

/// TOML makes tables of unquoted dotted keys; both spellings mean the same.
fn flatten<'a>(
    entries: &[(&'a str, &'a Range<usize>, Field<'a>)],
    prefix: &str,
    flat: &mut Vec<(String, &'a Range<usize>, Field<'a>)>,
) {
    for (key, span, field) in entries {
        let key = if prefix.is_empty() { (*key).to_owned() } else { format!("{prefix}.{key}") };
        match &field.node.value {
            Value::Table(_) => {
                if let Some(inside) = field.table("a list") {
                    flatten(&inside.all(), &key, flat);
                }
            }
            _ => flat.push((key, span, field.clone())),
        }
    }
}

/// Gives each axis the shortest tail of its key that no other axis shares.
fn name(varied: &mut [Varied]) {
    let all: Vec<Vec<String>> = varied.iter().map(|axis| axis.steps.clone()).collect();
    for (index, axis) in varied.iter_mut().enumerate() {
        let steps = &all[index];
        axis.axis.label = (1..=steps.len())
            .map(|count| &steps[steps.len() - count..])
            .find(|tail| all.iter().enumerate().all(|(other, steps)| other == index || !steps.ends_with(tail)))
            .unwrap_or(steps)
            .join(".");
    }
}

/// Every combination of value numbers, the last axis running fastest; those that `concerns` leaves out stay at the first.
pub(crate) fn combinations<'a>(
    axes: &'a [Varied],
    concerns: impl Fn(&Axis) -> bool + 'a,
) -> impl Iterator<Item = Vec<usize>> + 'a {
    let counts: Vec<usize> =
        axes.iter().map(|axis| if concerns(&axis.axis) { axis.axis.values.len() } else { 1 }).collect();
    let total: usize = counts.iter().product();
    (0..total).map(move |mut number| {
        let mut combination = vec![0; counts.len()];
        for (slot, count) in combination.iter_mut().zip(&counts).rev() {
            *slot = number % count;
            number /= count;
        }
        combination
    })
}
