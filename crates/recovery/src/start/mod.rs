//! How the window is first opened: what a start is asked, and the starts there are.
//!
//! A start proposes by how much to open the window on each ACK and when to stop; the frame ([`window`](crate::window)) applies it. After
//! persistent congestion the window opens again, up to the threshold; only the first time is there anything to find out.

mod hystart_plus_plus;
mod standard;

use core::fmt::Debug;

use crate::controller::AckEvent;
use crate::trace::State;
use crate::window::View;

pub(crate) use hystart_plus_plus::HyStartPlusPlus;
pub(crate) use standard::Standard;

/// What a start proposes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Open the window by so many bytes.
    pub(crate) open_by: u64,
    /// And stop there: growth takes over.
    pub(crate) stop: bool,
}

/// A way to open the window.
pub(crate) trait Start: Debug + Send {
    /// An ACK arrived while the window was below the threshold; called for every one of them, also when nothing may grow.
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal;

    /// Slow start ended, whatever ended it.
    fn on_exit(&mut self);

    /// What it is doing.
    fn state(&self) -> State {
        State::SlowStart
    }

    /// A copy, to return to if the reduction that ended it is taken back.
    fn snapshot(&self) -> Box<dyn Start>;
}
