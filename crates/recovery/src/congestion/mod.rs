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

use crate::choice::{Choice, Field, PolicyError};

mod allowance;
mod context;
pub mod controller;
mod event;
mod floor;
pub(crate) mod marks;
pub(crate) mod model;
mod parts;
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
pub(crate) use event::MARKED_ALL;
pub use event::{AckEvent, Arrival, CongestionEvent, Decrease, LossSample, Marks, RecoveryPeriod, SentSpan};

pub use marks::MarkPolicy;
pub use model::{ModelPolicy, ModelStats};
pub use parts::{ControllerPolicies, WindowParts};
pub use reduction::ReductionPolicy;
pub use saved_path::SavedPath;
pub use start::StartPolicy;
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
};
/// The field `start`, of a window.
pub(crate) const START: Field = StartPolicy::FIELD;
/// The field `reduction`, of a window.
pub(crate) const REDUCTION: Field = ReductionPolicy::FIELD;

const CONTROLLERS: [Choice; GrowthPolicy::FIELD.choices.len() + ModelPolicy::FIELD.choices.len()] =
    join(GrowthPolicy::FIELD.choices, ModelPolicy::FIELD.choices);

const fn join<const N: usize>(first: &[Choice], second: &[Choice]) -> [Choice; N] {
    let mut all = [Choice::reserved("", ""); N];
    let mut index = 0;
    while index < N {
        all[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    all
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
        if let Some(named) = GrowthPolicy::named(value) {
            match self {
                Congestion::Window { growth, .. } => *growth = named,
                _ => *self = Congestion::window(named, StartPolicy::default(), ReductionPolicy::default()),
            }
        } else if let Some(model) = ModelPolicy::named(value) {
            *self = Congestion::Model(model);
        } else if value.starts_with(CUSTOM) {
            return Err(PolicyError::Custom { value: value.to_owned(), accepted: CONTROLLER.accepted() });
        } else {
            return Err(CONTROLLER.refuse(value));
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
        match self {
            Congestion::Window { growth, start, reduction } => {
                write!(f, "controller={growth}, start={start}, reduction={reduction}")
            }
            Congestion::Model(model) => write!(f, "controller={model}"),
            Congestion::Custom(factory) => write!(f, "controller={CUSTOM}{}", factory.name()),
        }
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
