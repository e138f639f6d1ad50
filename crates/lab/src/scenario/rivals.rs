//! `rivals`: other stacks on the same links, each a point more for every combination of what is varied, policies aside.

use thalweg_link::read::nearest;
use thalweg_sim::StackInfo;

use super::axis::{Axis, MOST_POINTS};
use super::read::Field;
use super::vary::{Varied, points};
use super::world::World;

/// The stack of flows that name none.
pub const OURS: &str = "thalweg";

/// The label of the axis that tells rivals apart.
pub const STACK: &str = "stack";

/// What `thalweg-peers` may have, for slips of the pen; other programs may have others.
const KNOWN: [&str; 9] =
    ["quinn", "quinn-shipped", "quinn-bbr", "noq", "noq-shipped", "noq-bbr", "quiche", "quiche-shipped", "quiche-bbr"];

/// The rivals of a scenario, in its order.
pub(crate) struct Rivals {
    /// Those that this program has.
    pub(crate) present: Vec<String>,
    /// Those that it does not have.
    pub(crate) absent: Vec<String>,
}

impl Rivals {
    /// Ours and those that this program has, as an axis.
    pub(crate) fn axis(&self) -> Axis {
        let values = core::iter::once(OURS.to_owned()).chain(self.present.iter().cloned()).collect();
        Axis { label: STACK.to_owned(), key: "rivals".to_owned(), values, together: None, is_choice: true }
    }
}

/// Reads the list. A rival that this program does not have is noted, not refused.
pub(crate) fn read(field: &Field<'_>, axes: &[Varied], stacks: &[StackInfo]) -> Option<Rivals> {
    const EXAMPLE: &str = "a list of stacks such as [\"quinn\", \"noq\", \"quiche\"]";
    if !field.is_list() || field.items().is_empty() {
        field.complain(format!("names no rivals; write {EXAMPLE}, or leave it out"));
        return None;
    }
    if axes.iter().any(|axis| axis.axis.label == STACK) {
        field.complain("does not go with a stack that is varied under [vary]; name the stacks here or there");
        return None;
    }
    let mut rivals = Rivals { present: Vec::new(), absent: Vec::new() };
    for item in field.items() {
        let name = item.text(EXAMPLE)?;
        if name == OURS {
            item.complain(format!("\"{OURS}\" is no rival of itself; it is run anyway, so leave it out"));
        } else if rivals.present.iter().chain(&rivals.absent).any(|known| known == name) {
            item.complain(format!("\"{name}\" is in the list twice; leave one out"));
        } else if stacks.iter().any(|stack| stack.name == name) {
            rivals.present.push(name.to_owned());
        } else if !KNOWN.contains(&name)
            && let Some(near) = nearest(name, KNOWN.into_iter().chain(stacks.iter().map(|stack| stack.name.as_str())))
        {
            item.complain(format!("there is no stack \"{name}\"; did you mean \"{near}\"?"));
        } else {
            rivals.absent.push(name.to_owned());
        }
    }
    let (ours, each) = (points(axes, |_| true), points(axes, |axis| !axis.sets_policies()));
    if each.saturating_mul(rivals.present.len() as u64).saturating_add(ours) > MOST_POINTS {
        field.complain(format!("with these, there are more than {MOST_POINTS} points; split the scenario"));
        return None;
    }
    Some(rivals)
}

/// Puts a rival in the place of ours. Its recovery is its own, so what was chosen for ours does not apply, and a rival
/// that cannot be notified of a new address moves without notice. Gives the number of flows that are now the rival's.
pub(crate) fn replace(world: &mut World, rival: &str, stacks: &[StackInfo]) -> usize {
    let stack = stacks.iter().find(|stack| stack.name == rival);
    let hears = stack.is_some_and(|stack| stack.hears_of_moves);
    let mut replaced = 0;
    for flow in world.flows.iter_mut().filter(|flow| flow.stack == OURS) {
        rival.clone_into(&mut flow.stack);
        let own = stack.and_then(|stack| (stack.policies)(&flow.settings, "").ok());
        flow.set_policies(own.unwrap_or_default());
        for change in &mut flow.moves {
            change.notice &= hears;
        }
        replaced += 1;
    }
    replaced
}

#[cfg(test)]
mod tests;
