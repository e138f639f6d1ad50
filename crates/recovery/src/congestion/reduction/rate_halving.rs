//! Rate halving as Linux did it before version 3.2 (`tcp_cwnd_down`).
//!
//! ```text
//! each ACK:  for every two datagrams delivered, while window > target:  window -= datagram
//!            window = min(window, in_flight + datagram)
//! ```
//!
//! One packet leaves for every two that arrive, which halves the rate over a round trip without a silence. It never
//! lets the window rise while it lasts, so that losses beyond the reduction, or an application that pauses, leave the
//! window small in the end: the published comparison with PRR has 5 % more timeouts and lower final windows (IETF 84).
//! It halves whatever the controller's own factor is; the target only stops it.
//!
//! Bytes delivered are counted instead of ACKs, so that an ACK of ten packets counts like ten of one.

use super::{Progress, Reduction, Step};

/// Datagrams delivered for each that the window gives up (rate *halving*).
const DELIVERED_PER_STEP: u64 = 2;

/// See the [module](self).
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RateHalving {
    target: u64,
    /// Bytes delivered that have not led to a step yet.
    delivered: u64,
}

impl Reduction for RateHalving {
    fn enter(&mut self, window: u64, target: u64, progress: Progress) -> Step {
        *self = RateHalving { target, delivered: 0 };
        self.on_ack(window, Progress { is_over: false, ..progress })
    }

    fn on_ack(&mut self, window: u64, progress: Progress) -> Step {
        if progress.is_over {
            return Step { window: window.min(self.target), done: true };
        }
        self.delivered += progress.delivered;
        let span = (DELIVERED_PER_STEP * progress.datagram).max(1);
        let steps = self.delivered / span;
        self.delivered %= span;
        let lowered = window.saturating_sub(steps * progress.datagram).max(window.min(self.target));
        Step { window: lowered.min(progress.in_flight.saturating_add(progress.datagram)), done: false }
    }
}
