//! Packets in flight on a path, and since when there are none.

use thalweg_units::{Duration, DurationExt, Instant};

use crate::policies::RestartPolicy;
use crate::sent::Transmission;

/// What is on its way on one path.
#[derive(Copy, Clone, Debug)]
pub(super) struct InFlight {
    /// Bytes that count in flight.
    pub(super) bytes: u64,
    /// Packets neither acknowledged nor declared lost, whether they count in flight or not.
    pub(super) packets: u64,
    /// Since when nothing has been in flight.
    pub(super) idle_since: Instant,
    /// When the latest packet left that counts in flight.
    latest_sent: Option<Instant>,
    /// What becomes of the window while nothing is.
    pub(super) restart: RestartPolicy,
}

impl InFlight {
    pub(super) fn new(now: Instant, restart: RestartPolicy) -> InFlight {
        InFlight { bytes: 0, packets: 0, idle_since: now, latest_sent: None, restart }
    }

    /// A packet leaves that counts in flight; whether it begins a burst: no other such one has left at the same time.
    #[inline]
    pub(super) fn begins_burst(&mut self, now: Instant) -> bool {
        self.latest_sent.replace(now) != Some(now)
    }

    /// A packet that was outstanding is so no longer, whatever became of it.
    #[inline]
    pub(super) fn on_settled(&mut self, now: Instant, sent: &Transmission) {
        self.packets = self.packets.saturating_sub(1);
        if sent.in_flight {
            self.bytes = self.bytes.saturating_sub(u64::from(sent.size));
            self.idle_since = now;
        }
    }

    /// The window after nothing was in flight for a while, if the policy no longer trusts `window`: never less than
    /// `initial`. The probe timeout without backoff, `timeout`, stands for TCP's retransmission timeout.
    pub(super) fn validated(&self, now: Instant, timeout: Duration, window: u64, initial: u64) -> Option<u64> {
        let timeouts = now.saturating_since(self.idle_since).nanos() / timeout.nanos().max(1);
        if timeouts == 0 || self.restart == RestartPolicy::Keep {
            return None;
        }
        let halved = window >> timeouts.min(63);
        let validated = if self.restart == RestartPolicy::Initial { initial } else { halved.max(initial) };
        Some(validated).filter(|validated| *validated < window)
    }
}
