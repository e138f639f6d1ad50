//! Slow start as in RFC 9002 section 7.3.1: every acknowledged byte opens the window by a byte, until congestion ends it.

use super::{Proposal, Start};
use crate::controller::AckEvent;
use crate::window::View;

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Standard;

impl Start for Standard {
    fn on_ack(&mut self, _view: View, event: &AckEvent<'_>) -> Proposal {
        Proposal { open_by: event.growth, stop: false }
    }

    fn on_exit(&mut self) {}

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}
