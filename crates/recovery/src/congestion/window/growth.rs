//! The growth of a window after its start: the interface of growths.

use core::fmt::Debug;

use thalweg_units::Instant;

use crate::congestion::view::View;
use crate::congestion::{AckEvent, Sibling};

/// A signal of congestion, and how it is to be answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A loss.
    Loss,
    /// A mark that is answered as a loss is.
    Mark,
    /// A mark that is answered by less than a loss: a queue that marks is short (Alternative Backoff with ECN, RFC
    /// 8511).
    AbeMark,
}

/// How the window grows after slow start, and how far congestion reduces it.
pub(crate) trait Growth: Debug + Send {
    /// `acked` more bytes were delivered in full use of the window. Returns the window to have now; a smaller one is
    /// ignored.
    fn grow(&mut self, view: View, acked: u64) -> u64;

    /// An ACK or a loss timeout, before the window follows from it; `recovering`: within a recovery period, in which
    /// nothing grows.
    fn observe(&mut self, view: View, event: &AckEvent<'_>, recovering: bool) {
        let _ = (view, event, recovering);
    }

    /// The other paths of the connection that carry data, before each ACK.
    fn on_siblings(&mut self, siblings: &[Sibling]) {
        let _ = siblings;
    }

    /// Congestion, by this signal: returns the window to come down to.
    fn reduce(&mut self, view: View, signal: Signal) -> u64;

    /// How many round trips two of its sawteeth last.
    fn cycle(&self, view: View) -> u32;

    /// Slow start ended without congestion.
    fn on_start_exit(&mut self, view: View);

    /// Congestion ended slow start at this window, after the calls above.
    fn on_congested_start(&mut self, window: u64) {
        let _ = window;
    }

    /// Whether persistent congestion takes the window down to its minimum (RFC 9002 section 7.6.2).
    fn collapses(&self) -> bool {
        true
    }

    /// Persistent congestion: nothing known about the path holds any more.
    fn on_persistent_congestion(&mut self);

    /// The application began or ceased to leave the window unused.
    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        let _ = (now, limited);
    }

    /// The datagram size changed.
    fn on_datagram_size(&mut self) {}

    /// A reduction was taken back, and this is the copy from before it: it knows nothing of what arrived or was lost
    /// since, and losses of packets sent by `now` may still be reported.
    fn on_return(&mut self, now: Instant) {
        let _ = now;
    }

    /// A copy, to return to if a reduction is taken back.
    fn snapshot(&self) -> Box<dyn Growth>;
}
