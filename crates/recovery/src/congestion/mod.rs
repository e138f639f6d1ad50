//! Congestion control: the choice of an algorithm for a path, and its construction.
//!
//! ```text
//! Window  a start opens the window, a growth takes over, a reduction carries out what congestion asks for
//! Model   one algorithm decides on window, rate and response from a model of the path
//! Custom  a controller of the program's own
//! ```
//!
//! [`build`] makes the [`Controller`] of a new path from a choice and a [`PathContext`]; a window that changes its
//! parts in use makes them from the same tables. What congestion marks call for ([`MarkPolicy`]) is decided beside the
//! controller, and reaches it in the event of an ACK. A new algorithm is one file, and beside those of its kind its
//! `mod` line and its entry in the table: the name, what it does, when to use it, how it is made.

use core::fmt;
use std::sync::Arc;

use crate::choice::{self, Choice, Field, PolicyError};

mod allowance;
mod context;
pub mod controller;
mod event;
mod floor;
pub(crate) mod marks;
pub(crate) mod model;
mod parts;
mod queue_signs;
pub(crate) mod reduction;
mod saved_path;
pub(crate) mod start;
mod table;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod window;

pub use allowance::{Allowance, Change};
pub use context::PathContext;
pub use controller::{Controller, ControllerFactory};
pub(crate) use event::LossRuns;
pub(crate) use event::MARKED_ALL;
pub use event::{AckEvent, Arrival, CongestionEvent, Decrease, LossSample, Marks, RecoveryPeriod, SentSpan, Sibling};

pub use marks::{EndStartParameters, LaterMarks, MarkPolicy};
pub use model::{BbrParameters, BbrStart, ModelPolicy, ModelStats};
pub use parts::{ControllerPolicies, WindowParts};
pub use reduction::ReductionPolicy;
pub use saved_path::SavedPath;
#[cfg(feature = "study")]
pub use start::PublishedParameters;
pub use start::{InitialWindowScale, OpeningGrowth, PeakBandwidthParameters, StartPolicy};
pub use view::PathView;
pub use window::GrowthPolicy;

use window::Window;

/// Congestion control of a connection's paths.
///
/// A sum of families, so that what a family does not have cannot be asked of it: a model has no start of its own to
/// choose.
///
/// In text, the fields of the family stand beside those of all policies: `controller=cubic, start=standard,
/// reduction=prr`, or the `controller=` of a model alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Congestion {
    /// A congestion window made of three parts (RFC 9002 section 7).
    Window {
        /// How it grows once the start is over, and how far congestion reduces it.
        growth: GrowthPolicy,
        /// How the window opens at first.
        start: StartPolicy,
        /// How the window gets from its old size to the reduced one.
        reduction: ReductionPolicy,
    },
    /// An algorithm that works from a model of the path and owns its start and its response.
    Model(ModelPolicy),
    /// A controller of the program's own. It has no text form.
    Custom(Arc<dyn ControllerFactory>),
}

/// The field `controller`: growths of a window and models.
pub(crate) const CONTROLLER: Field = Field {
    name: "controller",
    doc: "How the congestion window grows after the start, and how far congestion reduces it; or a model that decides both.",
    choices: &CONTROLLERS,
    study: &STUDY,
};
/// The field `start`, of a window.
pub(crate) const START: Field = StartPolicy::FIELD;
/// The field `reduction`, of a window.
pub(crate) const REDUCTION: Field = ReductionPolicy::FIELD;

const CONTROLLERS: [Choice; GrowthPolicy::FIELD.choices.len() + ModelPolicy::FIELD.choices.len()] =
    ordered(join(Choice::reserved("", ""), GrowthPolicy::FIELD.choices, ModelPolicy::FIELD.choices));

const STUDY: [&str; GrowthPolicy::FIELD.study.len() + ModelPolicy::FIELD.study.len()] =
    join("", GrowthPolicy::FIELD.study, ModelPolicy::FIELD.study);

/// Both lists in one; `any` is what it is filled with at first.
const fn join<T: Copy, const N: usize>(any: T, first: &[T], second: &[T]) -> [T; N] {
    let mut all = [any; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    all
}

/// Growths and models in the order of listings: those for use, those to compare with, those that are reserved.
const fn ordered<const N: usize>(all: [Choice; N]) -> [Choice; N] {
    let mut ordered = all;
    let (mut at, mut group) = (0, 0);
    while group < 3 {
        let mut from = 0;
        while from < N {
            let choice = all[from];
            let of = if !choice.built {
                2
            } else if choice.is_study {
                1
            } else {
                0
            };
            if of == group {
                ordered[at] = choice;
                at += 1;
            }
            from += 1;
        }
        group += 1;
    }
    ordered
}

/// What the text form of a controller of the program's own begins with.
const CUSTOM: &str = "custom/";

/// Makes the controller of a new path.
pub(crate) fn build(choice: &Congestion, context: &PathContext) -> Box<dyn Controller> {
    match choice {
        Congestion::Window { growth, start, reduction } => {
            let parts = WindowParts { growth: *growth, start: *start, reduction: *reduction };
            Box::new(Window::new(parts, context))
        }
        Congestion::Model(model) => model.build(context),
        Congestion::Custom(factory) => factory.build(context),
    }
}

impl Congestion {
    /// Sets one of its fields by name; `None` if it has no field of that name.
    pub(crate) fn set(&mut self, field: &str, value: &str) -> Option<Result<(), PolicyError>> {
        if field == CONTROLLER.name {
            return Some(self.set_controller(value));
        }
        if field != START.name && field != REDUCTION.name {
            return None;
        }
        let Congestion::Window { start, reduction, .. } = self else {
            return Some(Err(self.excludes(field, value)));
        };
        Some(match field == START.name {
            true => value.parse().map(|parsed| *start = parsed),
            false => value.parse().map(|parsed| *reduction = parsed),
        })
    }

    fn set_controller(&mut self, value: &str) -> Result<(), PolicyError> {
        if value.starts_with(CUSTOM) {
            return Err(PolicyError::Custom { value: value.to_owned(), accepted: CONTROLLER.accepted() });
        }
        let (name, inside) = choice::split(CONTROLLER.name, value)?;
        if let Some(named) = GrowthPolicy::named(name, inside) {
            let named = named?;
            match self {
                Congestion::Window { growth, .. } => *growth = named,
                _ => *self = Congestion::window(named, StartPolicy::default(), ReductionPolicy::default()),
            }
        } else if let Some(model) = ModelPolicy::named(name, inside) {
            *self = Congestion::Model(model?);
        } else {
            return Err(CONTROLLER.refuse(name));
        }
        Ok(())
    }

    fn excludes(&self, field: &str, value: &str) -> PolicyError {
        PolicyError::Excluded {
            first: format!("{field}={value}"),
            second: self.to_string(),
            reason: "only a window has a start and a reduction of its own to choose; leave the field out",
        }
    }

    /// A window of these parts.
    pub const fn window(growth: GrowthPolicy, start: StartPolicy, reduction: ReductionPolicy) -> Congestion {
        Congestion::Window { growth, start, reduction }
    }

    /// Its fields and their values, in the order in which they are printed.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Congestion::Window { growth, start, reduction } => vec![
                (CONTROLLER.name, growth.to_string()),
                (START.name, start.to_string()),
                (REDUCTION.name, reduction.to_string()),
            ],
            Congestion::Model(model) => vec![(CONTROLLER.name, model.to_string())],
            Congestion::Custom(factory) => vec![(CONTROLLER.name, format!("{CUSTOM}{}", factory.name()))],
        }
    }

    /// Whether the controller works with the times at which packets arrived
    /// ([`AckEvent::arrivals`]). One of the program's own may.
    pub fn uses_arrivals(&self) -> bool {
        match self {
            Congestion::Window { start, .. } => start.uses_arrivals(),
            Congestion::Model(model) => model.uses_arrivals(),
            Congestion::Custom(_) => true,
        }
    }

    /// The name of the growth or of the model, or what the program's own factory calls itself.
    pub fn controller_name(&self) -> &str {
        match self {
            Congestion::Window { growth, .. } => growth.name(),
            Congestion::Model(model) => model.name(),
            Congestion::Custom(factory) => factory.name(),
        }
    }
}

impl Default for Congestion {
    /// The shipped window.
    fn default() -> Self {
        Congestion::window(GrowthPolicy::default(), StartPolicy::default(), ReductionPolicy::default())
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().into_iter().map(|(field, value)| format!("{field}={value}"));
        f.write_str(&fields.collect::<Vec<_>>().join(", "))
    }
}

/// Controllers of a program's own are equal if their factory is the same object.
impl PartialEq for Congestion {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Congestion::Window { growth, start, reduction },
                Congestion::Window { growth: other_growth, start: other_start, reduction: other_reduction },
            ) => (growth, start, reduction) == (other_growth, other_start, other_reduction),
            (Congestion::Model(model), Congestion::Model(other)) => model == other,
            (Congestion::Custom(factory), Congestion::Custom(other)) => Arc::ptr_eq(factory, other),
            _ => false,
        }
    }
}

impl Eq for Congestion {}
