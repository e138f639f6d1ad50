//! A start for tests: one measured burst, a pause until it is acknowledged, and a jump to what it measured.

use thalweg_units::{Instant, Rate};

use super::{Congested, Departure, Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::trace::StartExit;

/// Bytes of the burst.
pub(crate) const BURST: u64 = 60_000;

#[derive(Copy, Clone, Debug)]
enum Phase {
    /// Before the first ACK.
    Waiting,
    /// So many bytes of the burst have left since it began.
    Sending { bytes: u64, begun: Instant },
    /// All of it has left; acknowledged so far, and when the first of that was.
    Holding { begun: Instant, acked: u64, first: Option<(Instant, u64)> },
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct OneBurst {
    phase: Phase,
    datagram: u64,
}

impl OneBurst {
    pub(crate) fn new(context: &PathContext) -> OneBurst {
        OneBurst { phase: Phase::Waiting, datagram: u64::from(context.datagram_size) }
    }
}

impl Start for OneBurst {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        match &mut self.phase {
            Phase::Waiting => {
                self.phase = Phase::Sending { bytes: 0, begun: event.now };
                let window = event.bytes_in_flight + BURST;
                let shape = Proposal { rate: Some(Rate::MAX), burst: BURST, ..Proposal::window(window) };
                Proposal { hold_until_credit: BURST, ..shape }
            }
            Phase::Sending { .. } => Proposal::window(view.window),
            Phase::Holding { begun, .. } if event.newest_sent() < Some(*begun) => Proposal::window(self.datagram),
            Phase::Holding { acked, first, .. } => {
                *acked += event.acked;
                let (since, before) = *first.get_or_insert((event.now, *acked));
                if *acked < BURST {
                    return Proposal::window(self.datagram);
                }
                let rate = Rate::from_bytes_over(*acked - before, event.now.saturating_since(since));
                Proposal { exit: Some(StartExit::Delay), ..Proposal::window(rate.bytes_in(event.rtt.min)) }
            }
        }
    }

    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        let Phase::Sending { bytes, begun } = &mut self.phase else { return None };
        *bytes += sent.bytes;
        if *bytes < BURST {
            return None;
        }
        self.phase = Phase::Holding { begun: *begun, acked: 0, first: None };
        Some(Proposal::window(self.datagram))
    }

    fn on_congestion(&mut self, view: View, _event: &AckEvent<'_>) -> Option<Congested> {
        match self.phase {
            // Nothing is known: the window is left to fall to its minimum, and the start goes on.
            Phase::Waiting => Some(Congested { window: 0, threshold: None }),
            _ => Some(Congested { window: view.window / 4, threshold: Some(view.window / 3) }),
        }
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}
