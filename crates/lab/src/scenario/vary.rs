//! `[vary]`: lists of values for dotted keys. Every combination is a point; keys of a `[[vary.together]]` change
//! together.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use thalweg_link::document::Source;
use thalweg_link::read::nearest;
use thalweg_recovery::{Field as PolicyField, Policies};
use thalweg_sim::{StackInfo, Traffic};

use super::axis::{Axis, MOST_POINTS};
use super::read::{Field, Reader};
use super::tree::{Entry, Node, Value};

/// Whether a controller has a policy.
pub(crate) type HasPolicy<'a> = &'a dyn Fn(&str, &str) -> bool;

/// An axis and its values.
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

    /// Puts the value with number `at` where it belongs. A table is laid over the settings that are there.
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
        let lay = |node: &mut Node| {
            let base = std::mem::replace(node, Node { value: Value::Boolean(false), span: 0..0 });
            *node = self.values[at]
                .clone()
                .over_where(base, &mut self.steps.clone(), &|place, over, base| is_merged(place, over, base, stacks));
        };
        for steps in those_that_support(&steps, document, stacks) {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            if let Err(message) = document.change(&steps, &self.key_span, &lay) {
                self.complain(source, &message);
            }
        }
    }

    /// The flows that it names: all, one by number, or those of a name.
    fn flows<'a>(&'a self, document: &'a Node) -> impl Iterator<Item = &'a Node> {
        let list = match document.get("flow").map(|flows| &flows.node.value) {
            Some(Value::List(flows)) => flows.as_slice(),
            _ => &[],
        };
        let which = self.steps.get(1).map_or("", String::as_str);
        let is_named = move |(index, flow): &(usize, &Node)| {
            let name = flow.get("name").map(|entry| &entry.node.value);
            which == "*" || which == index.to_string() || matches!(name, Some(Value::Text(name)) if name == which)
        };
        list.iter().enumerate().filter(is_named).map(|(_, flow)| flow)
    }

    pub(crate) fn complain(&self, source: &Source<'_>, message: &str) {
        let table = if self.axis.together.is_some() { "vary.together" } else { "vary" };
        source.complain(&self.key_span, &format!("{table}.\"{}\"", self.axis.key), message);
    }
}

/// The axes whose values mean nothing at a combination, by key, each with the reason: they set a policy that the
/// controllers of all flows they name do not have.
pub(super) fn excluded(
    document: &Node,
    axes: &[Varied],
    combination: &[usize],
    stacks: &[StackInfo],
    source: &Source<'_>,
    has: HasPolicy<'_>,
) -> Vec<(String, String)> {
    let free = |axis: &&Varied| axis.axis.together.is_none();
    let suspects: Vec<(&Varied, &str)> =
        axes.iter().filter(free).filter_map(|axis| axis.axis.policy().map(|policy| (axis, policy))).collect();
    let lacks = |policy: &str| Policies::catalogue().iter().any(|field| lacks_any(field, policy, has));
    if !suspects.iter().any(|(_, policy)| lacks(policy)) {
        return Vec::new();
    }
    let mut here = document.clone();
    for (axis, at) in axes.iter().zip(combination) {
        axis.apply(*at, &mut here, stacks, source);
    }
    let found = suspects.into_iter().filter_map(|(axis, policy)| {
        let controllers: Vec<&str> = axis.flows(&here).map(controller).collect();
        let lacking = controllers.iter().find(|controller| !has(controller, policy))?;
        let all_lack = controllers.iter().all(|controller| !has(controller, policy));
        all_lack.then(|| (axis.axis.key.clone(), format!("controller={lacking} has no {policy}")))
    });
    found.collect()
}

/// Whether some controller does not have a policy.
fn lacks_any(field: &PolicyField, policy: &str, has: HasPolicy<'_>) -> bool {
    field.name == "controller" && field.choices.iter().any(|choice| choice.built && !has(choice.name, policy))
}

/// The controller that a flow names, or the shipped one's name if it names none.
fn controller(flow: &Node) -> &str {
    let named = flow.get("policies").and_then(|policies| policies.node.get("controller")).map(|entry| &entry.node);
    let named = named.map(|node| node.get("name").map_or(node, |entry| &entry.node));
    match named.map(|node| &node.value) {
        Some(Value::Text(name)) => name,
        _ => "",
    }
}

/// Whether a table of `[vary]` is merged into what stands at `place`, so that it changes only the keys it names.
/// Settings are: paths, directions, flows, and the tables of settings in flows. What describes one thing, such as
/// `loss` or `transfer`, is replaced as a whole. A key takes the place of another that excludes it.
fn is_merged(place: &[String], over: &[Entry], base: &mut Vec<Entry>, stacks: &[StackInfo]) -> bool {
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    let is_of_stack = |table: &str| stacks.iter().any(|stack| stack.schema.is_some_and(|own| own.table == table));
    let excluding: Vec<&str> = match place.as_slice() {
        ["path", _] => {
            // The hops of a chain stand in place of all other keys.
            if !over.is_empty() {
                let is_chain = over.iter().any(|entry| entry.key == "hops");
                base.retain(|entry| (entry.key == "hops") == is_chain);
            }
            return true;
        }
        ["flow", _, "policies" | "transport"] => Vec::new(),
        ["flow", _, table] if is_of_stack(table) => Vec::new(),
        ["path", _, "up" | "down"] => vec!["rate", "trace"],
        ["flow", _] => Traffic::keys().map(|kind| kind.name).collect(),
        _ => return false,
    };
    if over.iter().any(|entry| excluding.contains(&entry.key.as_str())) {
        base.retain(|entry| !excluding.contains(&entry.key.as_str()));
    }
    true
}

/// The places that a value goes to: where its key says, but of all flows (`*`) only those whose stack has such a
/// policy.
fn those_that_support(steps: &[&str], document: &Node, stacks: &[StackInfo]) -> Vec<Vec<String>> {
    let own = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
    let flows = document.get("flow").map(|flows| &flows.node.value);
    let (["flow", "*", "policies", policy], Some(Value::List(flows))) = (steps, flows) else { return vec![own(steps)] };
    let supports = |flow: &Node| match flow.get("stack").map(|entry| &entry.node.value) {
        Some(Value::Text(name)) => {
            stacks.iter().find(|stack| stack.name == *name).is_none_or(|stack| stack.supports(policy))
        }
        _ => true,
    };
    if flows.iter().all(supports) {
        return vec![own(steps)];
    }
    let supporting = flows.iter().enumerate().filter(|(_, flow)| supports(flow));
    supporting.map(|(at, _)| own(&["flow", &at.to_string(), "policies", policy])).collect()
}

/// Keys that describe the world and can therefore be varied.
pub(crate) const ROOTS: [&str; 7] = ["path", "flow", "crypto", "time_limit", "perturb", "host_delay", "measure"];

/// The most keys that can be varied at once.
const MOST_AXES: usize = 64;

/// Characters of the label of a value: a long list is named by its beginning.
const LONGEST_LABEL: usize = 100;

/// The key below `[vary]` of what changes together.
const TOGETHER: &str = "together";

/// A line of `[vary]`.
struct Line<'a> {
    key: String,
    key_span: &'a Range<usize>,
    list: Field<'a>,
    /// Which `[[vary.together]]` it is in.
    together: Option<usize>,
}

pub(crate) fn read(field: &Field<'_>) -> Option<Vec<Varied>> {
    let table = field.table("[vary] with lines such as \"flow.0.policies.start\" = [\"standard\", \"hystart++\"]")?;
    let lines = lines(&table);
    if lines.len() > MOST_AXES {
        field.complain(format!(
            "varies {} keys; at most {MOST_AXES} are accepted, so set those with one value where they belong",
            lines.len()
        ));
        return None;
    }
    let mut varied: Vec<Varied> = Vec::new();
    for Line { key, key_span, list, together } in lines {
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
        if varied.iter().any(|axis| axis.steps == steps) {
            list.complain("is varied twice; write one list with all its values");
            continue;
        }
        let partner = varied.iter().find(|axis| together.is_some() && axis.axis.together == together);
        if let Some(partner) = partner.filter(|partner| partner.values.len() != items.len()) {
            list.complain(format!(
                "has {}, but \"{}\" has {}; keys that change together need a value each for every step",
                values_in_words(items.len()),
                partner.axis.key,
                values_in_words(partner.values.len())
            ));
            continue;
        }
        let mut axis = Axis { label: String::new(), key, values: Vec::new(), together, is_choice: false };
        axis.values = labels(&axis, &items);
        axis.is_choice = axis.sets("policies") || axis.sets("stack");
        varied.push(Varied {
            axis,
            steps,
            key_span: key_span.clone(),
            values: items.iter().map(|item| without_label(item.node)).collect(),
        });
        let points = points(&varied, |_| true);
        if points > MOST_POINTS {
            list.complain(format!(
                "makes {points} points or more; at most {MOST_POINTS} are accepted, so shorten the lists or split the scenario"
            ));
            return None;
        }
    }
    name(&mut varied);
    Some(varied)
}

fn values_in_words(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

/// Every line of `[vary]` and of the tables in it, in the order of the file.
fn lines<'a>(table: &Reader<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for entry in table.all() {
        if entry.0 != TOGETHER {
            flatten(&[entry], "", None, &mut lines);
            continue;
        }
        for (number, group) in entry.2.items().iter().enumerate() {
            let expected = "[[vary.together]] with lines such as \"path.NAME.down.rate\" = [\"10 Mbps\", \"100 Mbps\"]";
            let Some(keys) = group.table(expected) else { continue };
            if keys.all().is_empty() {
                group.complain(format!("is empty; write {expected}"));
            }
            flatten(&keys.all(), "", Some(number), &mut lines);
        }
    }
    lines
}

/// What the values of an axis are called. No two values are called alike; where keys change together a value may
/// repeat.
fn labels(axis: &Axis, items: &[Field<'_>]) -> Vec<String> {
    let may_repeat = axis.together.is_some();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut labels = Vec::new();
    for (number, item) in (1..).zip(items) {
        let whole = axis.label_of(item.node);
        if let Some(label) = known.get(&whole).filter(|_| !item.is_table()) {
            if !may_repeat {
                item.complain(format!("\"{whole}\" is in the list twice; leave one out"));
            }
            labels.push(label.clone());
            continue;
        }
        let mut label = whole.clone();
        if let Some((end, _)) = label.char_indices().nth(LONGEST_LABEL) {
            label.truncate(end);
            label.push('…');
        }
        if taken.contains(&label) && (item.is_table() || label.ends_with('…')) {
            label = format!("{label} ({number})");
        }
        taken.insert(label.clone());
        known.insert(whole, label.clone());
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
    together: Option<usize>,
    lines: &mut Vec<Line<'a>>,
) {
    for (key, key_span, field) in entries {
        let key = if prefix.is_empty() { (*key).to_owned() } else { format!("{prefix}.{key}") };
        match &field.node.value {
            Value::Table(_) => {
                if let Some(inside) = field.table("a list") {
                    flatten(&inside.all(), &key, together, lines);
                }
            }
            _ => lines.push(Line { key, key_span, list: field.clone(), together }),
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

/// Axes that change together (or one that changes alone), and the numbers of the values they take.
struct Step {
    axes: Vec<usize>,
    rows: Vec<usize>,
}

/// What changes from point to point, in the order of the axes; axes that `concerns` leaves out stay at the first value.
fn steps(axes: &[Varied], concerns: impl Fn(&Axis) -> bool) -> Vec<Step> {
    let mut steps: Vec<(Option<usize>, Step)> = Vec::new();
    for (at, varied) in axes.iter().enumerate().filter(|(_, varied)| concerns(&varied.axis)) {
        let together = varied.axis.together;
        match steps.iter_mut().find(|(known, _)| together.is_some() && *known == together) {
            Some((_, step)) => step.axes.push(at),
            None => steps.push((together, Step { axes: vec![at], rows: (0..varied.values.len()).collect() })),
        }
    }
    for (together, step) in steps.iter_mut().filter(|(together, _)| together.is_some()) {
        let whole = axes.iter().filter(|varied| varied.axis.together == *together).count();
        // Rows that differ only in what is left out are one.
        let mut known = BTreeSet::new();
        let labels = |row: usize| step.axes.iter().map(|at| axes[*at].axis.values[row].clone()).collect::<Vec<_>>();
        step.rows.retain(|row| known.insert(labels(*row)) || step.axes.len() == whole);
    }
    steps.into_iter().map(|(_, step)| step).collect()
}

/// How many points the axes span, without those that `concerns` leaves out.
pub(crate) fn points(axes: &[Varied], concerns: impl Fn(&Axis) -> bool) -> u64 {
    steps(axes, concerns).iter().map(|step| step.rows.len() as u64).fold(1, u64::saturating_mul)
}

/// Every combination of value numbers, the last axis running fastest; those that `concerns` leaves out stay at the
/// first.
pub(crate) fn combinations(axes: &[Varied], concerns: impl Fn(&Axis) -> bool) -> impl Iterator<Item = Vec<usize>> {
    let (count, steps) = (axes.len(), steps(axes, concerns));
    let total: usize = steps.iter().map(|step| step.rows.len()).product();
    (0..total).map(move |mut number| {
        let mut combination = vec![0; count];
        for Step { axes, rows } in steps.iter().rev() {
            let row = rows[number % rows.len()];
            number /= rows.len();
            axes.iter().for_each(|at| combination[*at] = row);
        }
        combination
    })
}

#[cfg(test)]
mod tests;
