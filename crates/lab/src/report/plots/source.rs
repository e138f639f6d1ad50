//! The source of plots: a scenario, its runs, places and choices.

use crate::choices::Grid;
use crate::matrix::Matrix;
use crate::scenario::Scenario;
use crate::summary::Runs;

/// What plots are drawn from.
pub struct Source<'a> {
    /// What was asked.
    pub scenario: &'a Scenario,
    /// What came out; none where two sets of results are compared.
    pub runs: Option<&'a Runs>,
    /// Places and choices.
    pub grid: &'a Grid,
    /// What was asked for and what differs. The first answers the question.
    pub matrices: &'a [Matrix],
}
