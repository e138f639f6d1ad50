//! The interface of starts.

use core::fmt::Debug;

use thalweg_units::{Duration, Instant, Rate};

use crate::congestion::AckEvent;
use crate::congestion::view::View;
use crate::trace::{StartExit, State};

/// What a start proposes; it holds until the next proposal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The window to have now, in bytes. The frame keeps it at the minimum or above, and below the threshold.
    pub(crate) window: u64,
    /// How fast packets leave; `None`: two windows per round trip.
    pub(crate) rate: Option<Rate>,
    /// Bytes of credit that may be saved up for one burst (see [`Allowance::burst`](crate::Allowance::burst)).
    pub(crate) burst: u64,
    /// Bytes of credit to wait for (see [`Allowance::hold_until_credit`](crate::Allowance::hold_until_credit)).
    pub(crate) hold_until_credit: u64,
    /// The start is over, for this reason: growth takes over from `window`, the new threshold.
    pub(crate) exit: Option<StartExit>,
    /// With an exit: the window from which growth is to take it that congestion has reduced it to `window`; `None`:
    /// there was no congestion.
    pub(crate) held: Option<u64>,
}

impl Proposal {
    /// A window, and nothing else.
    pub(crate) fn window(window: u64) -> Proposal {
        Proposal { window, rate: None, burst: 0, hold_until_credit: 0, exit: None, held: None }
    }
}

/// A packet that has left.
#[derive(Copy, Clone, Debug)]
#[allow(dead_code, reason = "for starts that shape bursts; some of the built ones only count")]
pub(crate) struct Departure {
    /// When.
    pub(crate) now: Instant,
    /// Bytes of it.
    pub(crate) bytes: u64,
    /// Bytes in flight, itself included.
    pub(crate) bytes_in_flight: u64,
    /// The congestion window in bytes.
    pub(crate) window: u64,
    /// The window has no room for what leaves next: a datagram, or the train that the start waits for.
    pub(crate) is_full: bool,
}

/// How a start answers congestion by itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Congested {
    /// The window to have at once, in bytes.
    pub(crate) window: u64,
    /// The threshold, in bytes, if the start is over with that, no more than the window; `None`: it goes on, and
    /// proposes an exit later.
    pub(crate) threshold: Option<u64>,
}

/// A way to open the window. Asked only while the window is below the threshold and no reduction is under way.
pub(crate) trait Start: Debug + Send {
    /// An ACK arrived; called for every one of them, also when nothing may grow.
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal;

    /// A packet left. A proposal replaces the one in force.
    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        let _ = sent;
        None
    }

    /// The first packet after `idle` without anything in flight leaves. A proposal holds from the next one on.
    fn on_restart(&mut self, now: Instant, idle: Duration, window: u64) -> Option<Proposal> {
        let _ = (now, idle, window);
        None
    }

    /// Congestion (`event.congestion`). An answer of its own takes the place of the growth's reduction, which is what
    /// `None` leaves it to.
    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        let _ = (view, event);
        None
    }

    /// Whether a mark may end it without a reduction: not while the window is a guess that nothing has confirmed.
    fn may_end_where_it_stands(&self) -> bool {
        true
    }

    /// Whether it goes on after losses that turn out not to be those of a full path.
    fn outlives_accidents(&self) -> bool {
        false
    }

    /// It goes on after such losses. Packets leave evenly from now on, whatever it proposes.
    fn on_accident(&mut self) {}

    /// Slow start ended, whatever ended it.
    fn on_exit(&mut self) {}

    /// What it is doing.
    fn state(&self) -> State {
        State::SlowStart
    }

    /// A copy, to return to if the reduction that ended it is taken back.
    fn snapshot(&self) -> Box<dyn Start>;
}
