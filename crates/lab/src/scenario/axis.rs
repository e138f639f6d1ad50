//! Axes of what is varied, and points: one combination of their values.

use std::collections::BTreeSet;

use super::policy_choice::choice_label;
use super::tree::Node;
use super::world::World;
use crate::hash::Digest;

/// The most points that `[vary]` may span.
pub const MOST_POINTS: u64 = 100_000;

/// Something that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its short name: as many of the last parts of the key as tell it from the others.
    pub label: String,
    /// The key as written.
    pub key: String,
    /// Its values. Only where axes change together does one repeat.
    pub values: Vec<String>,
    /// Axes of the same number change together; none changes with every other axis.
    pub together: Option<usize>,
    /// Whether its values are choices to be compared, such as policies and stacks, and not circumstances, such as
    /// paths.
    pub is_choice: bool,
}

impl Axis {
    /// Which axes names speak of. Of axes that change together, the first whose values all differ speaks for the
    /// others; choices and circumstances apart.
    pub(crate) fn spoken(axes: &[Axis]) -> Vec<bool> {
        let differ = |axis: &Axis| axis.values.iter().collect::<BTreeSet<_>>().len() == axis.values.len();
        let speaks_for = |axis: &Axis| {
            let is_with = |other: &&Axis| other.together == axis.together && other.is_choice == axis.is_choice;
            axes.iter().filter(is_with).find(|other| differ(other))
        };
        let is_spoken = |axis: &Axis| {
            axis.together.is_none() || speaks_for(axis).is_none_or(|speaker| core::ptr::eq(speaker, axis))
        };
        axes.iter().map(is_spoken).collect()
    }

    /// Whether it is about our recovery, which rivals do not have.
    pub fn sets_policies(&self) -> bool {
        self.sets("policies")
    }

    /// The policy that it sets, if it sets a single one.
    pub(crate) fn policy(&self) -> Option<&str> {
        match self.key.split('.').map(str::trim).collect::<Vec<_>>()[..] {
            ["flow", _, "policies", policy] => Some(policy),
            _ => None,
        }
    }

    /// What a value of it is called.
    pub(crate) fn label_of(&self, value: &Node) -> String {
        self.policy().map_or_else(|| value.label(), |policy| choice_label(policy, value))
    }

    /// Whether it is about a setting of flows.
    pub(crate) fn sets(&self, setting: &str) -> bool {
        let mut steps = self.key.split('.').map(str::trim);
        steps.next() == Some("flow") && steps.nth(1) == Some(setting)
    }
}

/// One combination of what is varied.
#[derive(Clone, Debug)]
pub struct Point {
    /// Value labels, in the order of the axes; empty for axes that do not concern a rival, and for policies that the
    /// controller does not have.
    pub labels: Vec<String>,
    /// The rival in our place, if this point is not ours.
    pub rival: Option<String>,
    /// The world there.
    pub world: World,
    /// What its results are stored under: a digest of `world`.
    pub digest: Digest,
}

impl Point {
    /// The labels as one line; "the only point" is empty.
    pub fn name(&self, axes: &[Axis]) -> String {
        let parts = axes.iter().zip(&self.labels).zip(Axis::spoken(axes));
        let parts = parts.filter(|((_, label), is_spoken)| *is_spoken && !label.is_empty());
        let parts: Vec<String> = parts.map(|((axis, label), _)| format!("{} = {label}", axis.label)).collect();
        parts.join(", ")
    }
}
