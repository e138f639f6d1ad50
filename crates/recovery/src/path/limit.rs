//! The send limit of a path: the controller's allowance, spread out by the pacer, and less where the application limits
//! the rate.

#[cfg(feature = "study")]
mod bursts;

use thalweg_units::{Duration, Instant, Rate};

use crate::congestion::Allowance;
use crate::pacing::{Credit, Pacer};
use crate::policies::PacingPolicy;
use crate::types::Budget;

/// How much may leave on one path.
#[derive(Clone, Debug)]
pub(super) struct SendLimit {
    /// What the controller allowed when it was last asked; to be [put in force](Self::enforce).
    pub(super) allowance: Allowance,
    /// The hold of the allowance in force: there is none without a pacer, and none below a rate limit.
    hold: u64,
    pacer: Pacer,
    pub(super) pacing: PacingPolicy,
    /// The most that may leave, whatever the controller allows.
    max_rate: Option<Rate>,
    /// That is less than the controller's rate: the window is more than can be made use of.
    pub(super) is_capped: bool,
    /// Nothing can be sent before the peer has sent more: the limit of what an unvalidated address is sent.
    pub(super) is_amplification_limited: bool,
}

impl SendLimit {
    pub(super) fn new(
        now: Instant,
        allowance: Allowance,
        initial_window: u64,
        pacing: PacingPolicy,
        max_rate: Option<Rate>,
    ) -> SendLimit {
        let pacer = Pacer::new(now, initial_window);
        SendLimit { allowance, hold: 0, pacer, pacing, max_rate, is_capped: false, is_amplification_limited: false }
    }

    /// The controller allows so much from now on; `rtt` is what a window is spread over.
    pub(super) fn allow(&mut self, allowance: Allowance, rtt: Duration, size: u16) {
        #[cfg(feature = "study")]
        let allowance = bursts::of(self.pacing, allowance, rtt, size);
        #[cfg(not(feature = "study"))]
        let _ = (rtt, size);
        self.allowance = allowance;
    }

    pub(super) fn window(&self) -> u64 {
        self.allowance.window
    }

    pub(super) fn pacing_rate(&self) -> Option<Rate> {
        self.pacer.rate()
    }

    /// Limits the rate from now on.
    pub(super) fn set_max_rate(&mut self, most: Option<Rate>) {
        self.max_rate = most;
    }

    /// What the pacer has saved up is gone.
    pub(super) fn start_over(&mut self) {
        self.pacer.start_over();
    }

    /// The sender is held back by something else than the pacer.
    pub(super) fn on_held(&mut self) {
        self.pacer.on_held();
    }

    /// So many bytes left.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.pacer.on_sent(now, bytes);
    }

    /// How much may leave in datagrams of `size` with so many bytes in flight; `repairs`: a datagram may exceed the
    /// window.
    pub(super) fn budget(&mut self, now: Instant, size: u16, bytes_in_flight: u64, repairs: bool) -> Budget {
        let datagram = u64::from(size);
        let room = self.window().saturating_sub(bytes_in_flight);
        let room = match repairs {
            true => room.max(datagram),
            false if room < datagram => {
                self.pacer.on_held();
                return Budget::WindowFull;
            }
            false => room,
        };
        let hold = self.hold.min(self.window());
        if room < hold && !repairs && !self.pacer.is_in_train(size) {
            self.pacer.on_held();
            return Budget::WindowFull;
        }
        match self.pacer.credit(now, size, room, hold) {
            Credit::Bytes(bytes) => Budget::Now(bytes.min(room)),
            Credit::NotBefore(next) => Budget::Paced(next),
        }
    }

    /// The window has no room for what leaves next: a datagram of `size`, or a train where the controller waits for
    /// one.
    #[inline]
    pub(super) fn is_full(&self, size: u16, bytes_in_flight: u64) -> bool {
        let hold = if self.pacer.is_in_train(size) { 0 } else { self.hold.min(self.window()) };
        bytes_in_flight.saturating_add(hold.max(u64::from(size))) > self.window()
    }

    /// Goes by the allowance from now on; `is_known`: the path has an RTT sample.
    pub(super) fn enforce(&mut self, now: Instant, size: u16, initial_window: u64, is_known: bool) {
        let allowed = match self.pacing.is_on() {
            true => self.allowance,
            false => Allowance { rate: None, quantum: u64::MAX, ..self.allowance },
        };
        let cap = self.max_rate.filter(|&most| allowed.rate.is_none_or(|rate| rate > most));
        self.is_capped = cap.is_some();
        let shaped = match cap {
            Some(cap) => {
                let capped = match allowed.is_even {
                    true => Allowance::steady(allowed.window, cap, size),
                    false => Allowance::new(allowed.window, Some(cap), size),
                };
                Allowance { quantum: capped.quantum.min(allowed.quantum), ..capped }
            }
            None => allowed,
        };
        self.hold = shaped.rate.map_or(0, |_| shaped.hold_until_credit);
        self.pacer.set(now, &shaped, initial_window, is_known);
    }
}
