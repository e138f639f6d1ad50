//! Slow start as in RFC 9002 section 7.3.1: every acknowledged byte opens the window by a byte, until congestion ends
//! it.

use super::{Proposal, Start};
use crate::congestion::AckEvent;
use crate::congestion::view::View;

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Standard;

impl Start for Standard {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        Proposal::window(view.window + event.growth)
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}
