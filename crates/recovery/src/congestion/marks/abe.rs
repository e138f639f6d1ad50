//! Alternative Backoff with ECN (RFC 8511): a smaller reduction for a mark than for a loss, because a queue that marks
//! is short.
//!
//! How much less is the growth's: it regains what it gives up. Slow start overshoots by up to a window, so that only
//! congestion avoidance gets away with less (section 3.1); a start that ended by itself has given that back already.
//! And where packets are lost besides, the queue is not short. Both are known when the whole ACK is.

use super::{Mark, MarkAction, MarkResponse};
use crate::congestion::{AckEvent, Decrease};

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Abe;

impl MarkResponse for Abe {
    fn on_mark(&mut self, _mark: Mark) -> MarkAction {
        MarkAction::Reduce(Decrease::Abe)
    }
}

/// Whether less than the reduction of a loss will do for a mark in this ACK.
pub(crate) fn is_enough(event: &AckEvent<'_>, in_slow_start: bool) -> bool {
    event.lost == 0 && !in_slow_start
}
