//! The parts of a controller when policies change in use: those of a window, and those that all share.

use thalweg_units::Ecn;

use super::{GrowthPolicy, ReductionPolicy, StartPolicy};

/// The parts that a window is made of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WindowParts {
    /// How it grows once the start is over, and how far congestion reduces it.
    pub growth: GrowthPolicy,
    /// How the window opens at first.
    pub start: StartPolicy,
    /// How the window gets from its old size to the reduced one.
    pub reduction: ReductionPolicy,
}

/// What of the policies of a connection concerns the controller of a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerPolicies {
    /// The parts of a window; `None` where the controller is none.
    pub window: Option<WindowParts>,
    /// Whether packets are paced at the rate that the controller allows.
    pub is_paced: bool,
    /// How the policy `mark` has packets marked, as in [`PathContext`](crate::PathContext::ecn_codepoint).
    pub ecn_codepoint: Ecn,
}
