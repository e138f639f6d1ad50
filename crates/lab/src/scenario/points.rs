//! The points of a scenario: a world for every combination of what is varied, and again for every rival.

use std::collections::BTreeMap;

use thalweg_link::document::Source;
use thalweg_sim::StackInfo;

use super::axis::{Axis, Point};
use super::files::Traces;
use super::read::Field;
use super::rivals::{self, Rivals};
use super::tree::{Node, Value};
use super::vary::{self, HasPolicy, Varied};
use super::worlds::varied;
use crate::hash::Digest;

/// The most values of which all points together may consist: a bound for the memory and time that reading takes.
const MOST_VALUES: u64 = 50_000_000;

/// What points are made of.
pub(super) struct Spanned<'a> {
    /// What describes the world, before anything is varied.
    base: Node,
    /// What is varied.
    axes: &'a [Varied],
    traces: &'a Traces<'a>,
    stacks: &'a [StackInfo],
    source: &'a Source<'a>,
}

impl<'a> Spanned<'a> {
    /// Of a document. None if its points would consist of too many values.
    pub(super) fn new(
        document: &Node,
        axes: &'a [Varied],
        traces: &'a Traces<'a>,
        stacks: &'a [StackInfo],
        source: &'a Source<'a>,
    ) -> Option<Spanned<'a>> {
        let base = described(document);
        let values = values(&base, axes);
        if values > MOST_VALUES {
            axes.first()?.complain(
                source,
                &format!(
                    "makes points of {values} values all together; at most {MOST_VALUES} are accepted, so shorten the lists or \
                     split the scenario"
                ),
            );
            return None;
        }
        Some(Spanned { base, axes, traces, stacks, source })
    }

    /// Every combination; with them those that are no points, each with the reason. `has_rivals` adds a label.
    pub(super) fn ours(&self, has_rivals: bool, has: HasPolicy<'_>) -> (Vec<Point>, Vec<String>) {
        let Spanned { base, axes, traces, stacks, source } = self;
        let mut points: Vec<Point> = Vec::new();
        let mut known: BTreeMap<Digest, usize> = BTreeMap::new();
        let mut left_out = Vec::new();
        for combination in vary::combinations(axes, |_| true) {
            let excluded = vary::excluded(base, axes, &combination, stacks, source, has);
            let is_left_out = |axis: &Axis| excluded.iter().any(|(key, _)| *key == axis.key);
            let mut labels: Vec<String> =
                axes.iter().zip(&combination).map(|(axis, at)| axis.axis.values[*at].clone()).collect();
            // What would be the same world again stands for the others once, without the values that mean nothing
            // there.
            if axes.iter().zip(&combination).any(|(axis, at)| is_left_out(&axis.axis) && *at > 0) {
                let why: Vec<&str> = excluded.iter().map(|(_, why)| why.as_str()).collect();
                left_out.push(format!("{}: {}", labels.join(", "), why.join("; ")));
                continue;
            }
            for (label, _) in labels.iter_mut().zip(*axes).filter(|(_, axis)| is_left_out(&axis.axis)) {
                label.clear();
            }
            if let Some(world) = varied(base, axes, &combination, |axis| !is_left_out(axis), traces, stacks, source)
                && source.is_clean()
            {
                let digest = Digest::of_json(&world);
                if let Some(twin) = known.insert(digest.clone(), points.len()).and_then(|at| points.get(at)) {
                    let (one, other) = (twin.labels[..axes.len()].join(", "), labels.join(", "));
                    if let Some(axis) = axes.first() {
                        axis.complain(
                            source,
                            &format!("\"{one}\" and \"{other}\" describe the same world; leave one out"),
                        );
                    }
                }
                labels.extend(has_rivals.then(|| rivals::OURS.to_owned()));
                points.push(Point { labels, rival: None, world, digest });
            }
            if source.is_full() {
                break;
            }
        }
        (points, left_out)
    }

    /// Every combination that concerns rivals, for each of them in our place; `listed` is where they are named.
    pub(super) fn of_rivals(&self, rivals: &Rivals, listed: &Field<'_>) -> Option<Vec<Point>> {
        let Spanned { base, axes, traces, stacks, source } = self;
        let mut points = Vec::new();
        for rival in rivals.present.iter().filter(|_| source.is_clean()) {
            let concerns = |axis: &Axis| !axis.sets_policies();
            for combination in vary::combinations(axes, concerns) {
                let mut world = varied(base, axes, &combination, concerns, traces, stacks, source)?;
                if rivals::replace(&mut world, rival, stacks) == 0 {
                    listed.complain("has nothing to replace: every flow names a stack of its own");
                    break;
                }
                let labels = axes.iter().zip(&combination).map(|(axis, at)| match concerns(&axis.axis) {
                    true => axis.axis.values[*at].clone(),
                    false => String::new(),
                });
                let labels = labels.chain([rival.clone()]).collect();
                let digest = Digest::of_json(&world);
                points.push(Point { labels, rival: Some(rival.clone()), world, digest });
            }
        }
        Some(points)
    }
}

/// What describes the world: the part of the document that is read again at every point.
fn described(document: &Node) -> Node {
    let entries = document.entries().unwrap_or_default().iter();
    let entries = entries.filter(|entry| vary::ROOTS.contains(&entry.key.as_str())).cloned().collect();
    Node { value: Value::Table(entries), span: document.span.clone() }
}

/// How many values all points together consist of.
fn values(base: &Node, axes: &[Varied]) -> u64 {
    let points = vary::points(axes, |_| true);
    let varied = axes.iter().map(|axis| axis.count().saturating_mul(points / (axis.axis.values.len() as u64).max(1)));
    varied.fold(base.count().saturating_mul(points), u64::saturating_add)
}
