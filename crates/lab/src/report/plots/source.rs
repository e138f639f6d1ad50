//! What plots are drawn from.

use crate::choices::Grid;
use crate::matrix::Matrix;
use crate::scenario::Scenario;
use crate::summary::Runs;

/// What plots are drawn from.
pub(in crate::report) struct Source<'a> {
    /// What was asked.
    pub(in crate::report) scenario: &'a Scenario,
    /// What came out; none where two sets of results are compared.
    pub(in crate::report) runs: Option<&'a Runs>,
    /// Places and choices.
    pub(in crate::report) grid: &'a Grid,
    /// What was asked for and what differs. The first answers the question.
    pub(in crate::report) matrices: &'a [Matrix],
}
