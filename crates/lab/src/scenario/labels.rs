//! Points by the labels of axes, as expectations name them: `{ AXIS = VALUE }`.

use std::collections::BTreeSet;

use thalweg_link::read::nearest;

use super::axis::Axis;
use super::read::Field;
use super::rivals::{OURS, STACK};

/// The axes that an expectation can name, and their labels.
#[derive(Copy, Clone)]
pub(crate) struct Labels<'a> {
    /// What is varied.
    pub(crate) axes: &'a [Axis],
    /// Rivals that this program does not have.
    pub(crate) absent: &'a [String],
}

impl<'a> Labels<'a> {
    /// The labels of an axis, with those of rivals that this program does not have. They can repeat.
    pub(super) fn of(self, axis: &'a Axis) -> impl Iterator<Item = &'a str> {
        let absent = if axis.label == STACK { self.absent } else { &[] };
        axis.values.iter().chain(absent).map(String::as_str)
    }

    /// The axis of this name or key.
    ///
    /// # Errors
    /// What is wrong with the name, and what would be accepted.
    pub(super) fn axis(self, name: &str) -> Result<&'a Axis, String> {
        if let Some(axis) = self.axes.iter().find(|axis| axis.label == name || axis.key == name) {
            return Ok(axis);
        }
        let names: Vec<&str> = self.axes.iter().map(|axis| axis.label.as_str()).collect();
        let accepted = if names.is_empty() { "nothing, as there is no [vary]".to_owned() } else { names.join(", ") };
        Err(format!("is not varied; {}accepted here: {accepted}", hint(name, names.iter().copied())))
    }

    /// What is wrong with a label that an axis does not have, and which it has.
    pub(super) fn unknown(self, axis: &'a Axis, label: &str) -> String {
        let mut seen = BTreeSet::new();
        let labels: Vec<&str> = self.of(axis).filter(|label| seen.insert(*label)).collect();
        let (hint, name) = (hint(label, self.of(axis)), &axis.label);
        format!("\"{label}\" is not among the values of {name}; {hint}write one of {}", labels.join(", "))
    }

    /// `{ AXIS = VALUE }`: which points are meant.
    pub(super) fn points(self, field: &Field<'_>) -> Option<Vec<(String, String)>> {
        let reader = field.table("{ AXIS = VALUE }")?;
        let mut points = Vec::new();
        for (key, _, value) in reader.all() {
            let axis = match self.axis(key) {
                Ok(axis) => axis,
                Err(why) => {
                    value.complain(why);
                    continue;
                }
            };
            let label = axis.label_of(value.node);
            if self.of(axis).any(|known| known == label) {
                points.push((axis.label.clone(), label));
            } else {
                value.complain(self.unknown(axis, &label));
            }
        }
        if let Some(why) = self.conflict(&points) {
            field.complain(why);
        }
        Some(points)
    }

    /// Why there are no such points, if they name a rival and a policy of ours.
    pub(super) fn conflict(self, points: &[(String, String)]) -> Option<String> {
        let listed = self.axes.iter().any(|axis| axis.key == "rivals");
        let (_, rival) = points.iter().find(|(axis, label)| listed && axis == STACK && label != OURS)?;
        let is_named = |axis: &Axis| points.iter().any(|(label, _)| *label == axis.label);
        let policy = self.axes.iter().find(|axis| axis.sets_policies() && is_named(axis))?;
        Some(format!("{rival} is not run with our policies, so leave {} out", policy.label))
    }
}

/// "did you mean …? " if some label is near.
pub(super) fn hint<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(word, known).map_or(String::new(), |near| format!("did you mean \"{near}\"? "))
}
