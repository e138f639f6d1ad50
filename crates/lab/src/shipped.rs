//! What the transport does as shipped, and what the best choice of policies would do: one row for each question that a scenario
//! puts to a flow, with the rivals on the same links beside it.

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_recovery::Policies;

use crate::hash::Digest;
use crate::metric::{self, Better, Metric, Scope};
use crate::scenario::world::{FlowSpec, Traffic};
use crate::scenario::{Axis, OURS, STACK, Scenario};
use crate::stats::{self, Interval, Missing};
use crate::summary::{self, Runs, Sample, statistic};

/// A number with its interval, and at which point it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Number of the point.
    pub point: usize,
    /// What was chosen there, such as "start = standard"; empty if nothing was to be chosen.
    pub choice: String,
    /// The median, of shares the mean.
    pub estimate: f64,
    /// Where the true value is with 95 % confidence.
    pub interval: Option<Interval>,
}

/// One question: a flow on a kind of path, and a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What is varied besides policies and stacks, in words.
    pub place: String,
    /// The flow.
    pub flow: String,
    /// The metric.
    pub metric: &'static str,
    /// With the policies that are the default; none if the scenario does not run them there.
    pub shipped: Option<Found>,
    /// With the policies that came out best, where that is beyond doubt; as shipped, if others are no better. None if the scenario
    /// runs no others there, if the metric does not judge, or if nothing is shipped and no choice stands out.
    pub best: Option<Found>,
    /// Other stacks by name; what was chosen is part of the name, where one stack is run with several choices.
    pub rivals: BTreeMap<String, Found>,
}

/// The rows of a scenario, in the order of its points.
pub fn rows(scenario: &Scenario, runs: &Runs) -> Vec<Row> {
    let mut rows = Vec::new();
    // Points that differ in nothing but policies and stacks belong together.
    let mut groups: Vec<(Digest, Vec<usize>)> = Vec::new();
    for (number, point) in scenario.points.iter().enumerate() {
        let mut world = point.world.clone();
        for flow in &mut world.flows {
            flow.policies = Policies::default();
            OURS.clone_into(&mut flow.stack);
        }
        let digest = Digest::of_json(&world);
        match groups.iter_mut().find(|(known, _)| *known == digest) {
            Some((_, group)) => group.push(number),
            None => groups.push((digest, vec![number])),
        }
    }
    for (_, group) in &groups {
        let Some(first) = group.first().and_then(|point| scenario.points.get(*point)) else { continue };
        for (index, flow) in first.world.flows.iter().enumerate() {
            for metric in metrics(scenario, flow) {
                rows.extend(row(scenario, runs, group, index, metric));
            }
        }
    }
    rows
}

/// What is asked of a flow: what the scenario expects of it, and whatever its traffic is about.
fn metrics(scenario: &Scenario, flow: &FlowSpec) -> Vec<&'static Metric> {
    let main = match flow.traffic {
        Traffic::Download(Some(_)) | Traffic::Upload(Some(_)) => "completion",
        Traffic::Download(None) | Traffic::Upload(None) => "goodput",
        Traffic::Flows { .. } => "flow_completion",
        Traffic::Media { .. } => "deadline_misses",
        // Requests, and pages of them.
        _ => "response",
    };
    let mut metrics: Vec<&'static Metric> = metric::find(main).into_iter().collect();
    for expectation in scenario.expectations.iter().chain(&scenario.known) {
        let wanted = expectation.metric;
        let mine = expectation.flow.as_ref().is_none_or(|name| *name == flow.name);
        if wanted.scope == Scope::Flow && mine && wanted.name != "completed" && !metrics.contains(&wanted) {
            metrics.push(wanted);
        }
    }
    metrics
}

fn row(scenario: &Scenario, runs: &Runs, group: &[usize], index: usize, metric: &'static Metric) -> Option<Row> {
    let flow_at = |point: usize| scenario.points.get(point).and_then(|point| point.world.flows.get(index));
    let name = flow_at(*group.first()?)?.name.clone();
    let (place, choices) = words(scenario, group);
    let mut row = Row { place, flow: name, metric: metric.name, shipped: None, best: None, rivals: BTreeMap::new() };
    let mut ours: Vec<Found> = Vec::new();
    for (point, choice) in group.iter().zip(choices) {
        let Some(flow) = flow_at(*point) else { continue };
        let Some(found) = find(scenario, runs, *point, &row.flow, metric, choice) else { continue };
        if flow.stack != OURS {
            let alone =
                group.iter().filter(|other| flow_at(**other).is_some_and(|it| it.stack == flow.stack)).count() == 1;
            let name = if alone || found.choice.is_empty() {
                flow.stack.clone()
            } else {
                format!("{}, {}", flow.stack, found.choice)
            };
            row.rivals.entry(name).or_insert(found);
            continue;
        }
        if flow.policies == Policies::default() && row.shipped.is_none() {
            row.shipped = Some(found.clone());
        }
        ours.push(found);
    }
    if ours.len() > 1 || row.shipped.is_none() {
        row.best = best(scenario, runs, &ours, row.shipped.as_ref(), &row.flow, metric);
    }
    (!ours.is_empty() || !row.rivals.is_empty()).then_some(row)
}

/// The best of what was found, if the interval of its ratio to the next, seed by seed, excludes that they are equal. The next is
/// what is shipped, which is the best until another proves better, or else the runner-up.
fn best(
    scenario: &Scenario,
    runs: &Runs,
    ours: &[Found],
    shipped: Option<&Found>,
    flow: &str,
    metric: &Metric,
) -> Option<Found> {
    let first_of = |except: Option<usize>| {
        let others = ours.iter().filter(|found| Some(found.point) != except && !found.estimate.is_nan());
        others.reduce(|best, found| if metric.is_better(found.estimate, best.estimate) { found } else { best })
    };
    if metric.better == Better::Neither {
        return None;
    }
    let first = first_of(None)?;
    let next = match shipped {
        Some(shipped) => shipped,
        None => match first_of(Some(first.point)) {
            Some(next) => next,
            // The only one there is.
            None => return Some(first.clone()),
        },
    };
    let at = |point: usize| (scenario, (runs, point, flow));
    let (pairs, tolerance) = summary::on_same_seeds(at(next.point), at(first.point), metric, statistic(metric));
    // Where the next never came to an end, to have come to one is better without doubt.
    let paired = stats::paired(&pairs, tolerance);
    let differs = paired.is_some_and(|paired| {
        let saved = pairs.iter().filter(|(next, first)| next.is_infinite() && first.is_finite()).count();
        // Seeds that change nothing leave nothing to chance: what differs, differs.
        let steady = paired.missing == Some(Missing::Alike(paired.pairs)) && paired.difference.abs() > tolerance;
        paired.ratio_interval.is_some_and(|interval| !interval.contains(1.0))
            || (steady && paired.pairs >= stats::FEWEST_FOR_MEDIAN)
            || (paired.pairs == saved && saved >= 3)
    });
    match differs && metric.is_better(first.estimate, next.estimate) {
        true => Some(first.clone()),
        false => shipped.cloned(),
    }
}

fn find(scenario: &Scenario, runs: &Runs, point: usize, flow: &str, metric: &Metric, choice: String) -> Option<Found> {
    let estimate = Sample::new(scenario, runs, point, flow, metric).estimate(statistic(metric));
    (estimate.runs > 0).then_some(Found { point, choice, estimate: estimate.value, interval: estimate.interval })
}

/// What is common to a group of points, and what each of them chose, in words.
fn words(scenario: &Scenario, group: &[usize]) -> (String, Vec<String>) {
    let label = |point: usize, axis: usize| scenario.points.get(point).and_then(|point| point.labels.get(axis));
    let constant = |axis: usize| group.iter().all(|point| label(*point, axis) == label(group[0], axis));
    let say = |point: usize, wanted: &dyn Fn(usize, &Axis) -> bool| {
        let axes = scenario.axes.iter().enumerate().filter(|(at, axis)| wanted(*at, axis));
        let parts: Vec<String> =
            axes.filter_map(|(at, axis)| Some(format!("{} = {}", axis.label, label(point, at)?))).collect();
        parts.join(", ")
    };
    let place = say(group[0], &|at, axis| constant(at) && axis.values.len() > 1);
    let choices = group.iter().map(|point| say(*point, &|at, axis| !constant(at) && axis.label != STACK)).collect();
    (place, choices)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::{Part, RunRecord};

    const TEXT: &str = r#"
title = "t"
question = "q?"
[path.p]
down = { rate = "10 Mbps", delay = "10 ms" }
up = { rate = "10 Mbps", delay = "10 ms" }
[[flow]]
name = "f"
transfer = { download = "1 MB" }
[vary]
"path.p.down.rate" = ["10 Mbps", "20 Mbps"]
"flow.f.stack" = ["thalweg", "quinn"]
"flow.f.policies.pacing" = ["off", "on"]
[[expect]]
metric = "ptos.max"
at_most = 9
"#;

    #[test]
    fn the_shipped_the_best_and_the_rivals_of_each_place() {
        let stacks = ["thalweg", "quinn"].map(crate::scenario::StackInfo::new);
        let scenario = Scenario::parse("t.toml", TEXT, Path::new(""), &stacks).unwrap();
        let mut runs = Runs::new();
        for (point, at) in scenario.points.iter().enumerate() {
            for seed in 0..8 {
                let mut flow = Part { name: "f".to_owned(), ..Part::default() };
                let ours = at.labels[1] == "thalweg";
                flow.set("completion", if ours { point as f64 + 1.0 } else { 100.0 });
                // Lower by chance on most seeds.
                flow.set("ptos", if at.labels[2] == "off" && seed % 2 == 0 { 2.0 } else { 3.0 });
                runs.insert((point, seed), RunRecord { flows: vec![flow], ..RunRecord::default() });
            }
        }
        let rows = rows(&scenario, &runs);
        assert_eq!(rows.len(), 4, "{rows:#?}");
        let row = &rows[0];
        assert_eq!((row.place.as_str(), row.metric), ("rate = 10 Mbps", "completion"));
        let (shipped, best) = (row.shipped.as_ref().unwrap(), row.best.as_ref().unwrap());
        assert_eq!((shipped.estimate, best.estimate), (2.0, 1.0));
        assert!(best.choice.contains("pacing = off"), "{}", best.choice);
        assert_eq!(row.rivals["quinn, pacing = off"].estimate, 100.0);
        assert_eq!(row.rivals.len(), 2, "each choice of another stack stands for itself");
        // A lower median is no reason to choose, as long as the interval of the ratio reaches 1.
        let timeouts = &rows[1];
        assert_eq!((timeouts.metric, timeouts.best.as_ref()), ("ptos", timeouts.shipped.as_ref()));
    }
}
