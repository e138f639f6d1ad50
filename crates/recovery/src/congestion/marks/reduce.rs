//! The response to a mark as to a loss, in slow start and afterwards (RFC 9002 section 7.1, RFC 3168 section 6.1.2).

use super::{Mark, MarkAction, MarkResponse};
use crate::congestion::Decrease;

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reduce;

impl MarkResponse for Reduce {
    fn on_mark(&mut self, _mark: Mark) -> MarkAction {
        MarkAction::Reduce(Decrease::AsLoss)
    }
}
