//! Cuback (draft-kazuho-ccwg-cuback): CUBIC driven by what is acknowledged instead of by the clock, in integers.
//!
//! ```text
//! D(w)       = max(2, A(w + 1) - A(w))                    datagrams to be acknowledged before w grows by one
//! A(w)       = min(A_cubic(w), A_reno(w))                 … before the window is w, since the epoch began
//! A_cubic(w) = bandwidth × (K + ∛((w - W_max) / C))       bandwidth = prior / smoothed RTT, at the congestion
//! A_reno(w)  = (w - epoch) (w + epoch - 1) / (2 alpha)    up to prior; from there with alpha = 1
//! congestion: W_max = window, or (1 + beta) / 2 window if it had not come back to W_max
//!             prior = window;  window = beta window
//! ```
//!
//! `A` turns around the two curves of CUBIC: not how large the window is at a time, but how much has to be delivered
//! until it is that large. It depends on nothing but the window and on what was known when the epoch began. So there is
//! no clock to stop while the application is the limit, and no second window that runs along.
//!
//! What differs from CUBIC follows from that. A flow that gains share is acknowledged faster than when it recorded its
//! bandwidth, and runs through the curve faster than the clock; one that loses share, more slowly. The least of two
//! datagrams is CUBIC's most of half a window per round trip.
//!
//! Constants are those of [`cubic`](super::cubic). Windows are bytes, times microseconds.

use thalweg_units::Instant;
use thalweg_units::math::mul_div;

use super::cubic::{Backoff, k_micros, micros};
use super::growth::{Growth, Signal};
use crate::congestion::view::View;

/// The fewest datagrams that have to be acknowledged before the window grows by one.
const LEAST: u64 = 2;

/// What the curves are made of, from the end of a recovery period to the next congestion.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Epoch {
    /// cwnd_epoch: the window at its beginning, in bytes.
    window: u64,
    /// W_max: where the plateau is, in bytes; never below `window`.
    plateau: u64,
    /// cwnd_prior: from where on Reno grows by a datagram per window.
    prior: u64,
    /// The bandwidth: `prior` bytes in so many microseconds.
    rtt_micros: u64,
    /// Reno's additive increase until then, in datagrams per window of acknowledgments.
    alpha: (u64, u64),
    /// Bytes of a datagram.
    datagram: u64,
}

impl Epoch {
    /// Bytes acknowledged before the cubic curve is at `window`.
    fn cubic(&self, window: u64) -> u64 {
        let k = k_micros(self.plateau, self.window, self.datagram);
        let elapsed = if window < self.plateau {
            k.saturating_sub(k_micros(self.plateau, window, self.datagram))
        } else {
            k.saturating_add(k_micros(window, self.plateau, self.datagram))
        };
        mul_div(elapsed, self.prior, self.rtt_micros.max(1))
    }

    /// Bytes acknowledged before Reno's window is `window`.
    fn reno(&self, window: u64) -> u64 {
        let sum = |from: u64, to: u64| {
            let (length, ends) = (to.saturating_sub(from), to.saturating_add(from).saturating_sub(self.datagram));
            mul_div(length, ends, 2 * self.datagram.max(1))
        };
        // Where fast convergence or a start has put it, the window may begin beyond the one it was reduced from.
        let turn = self.prior.max(self.window);
        let friendly = mul_div(sum(self.window, window.min(turn)), self.alpha.1, self.alpha.0);
        friendly.saturating_add(sum(turn, window.max(turn)))
    }

    /// A: bytes acknowledged before the window is `window`.
    fn until(&self, window: u64) -> u64 {
        self.cubic(window).min(self.reno(window))
    }

    /// D: bytes to be acknowledged before `window` grows by a datagram.
    fn step(&self, window: u64) -> u64 {
        let step = self.until(window.saturating_add(self.datagram)).saturating_sub(self.until(window));
        step.max(LEAST * self.datagram).max(1)
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuback {
    /// The window before the last reduction, lowered by fast convergence. `None`: nothing is known about where the
    /// plateau is.
    w_max: Option<u64>,
    /// The window before the last reduction, and the smoothed round-trip time then.
    prior: Option<(u64, u64)>,
    /// What the last reduction was.
    backoff: Backoff,
    epoch: Option<Epoch>,
    /// Bytes acknowledged since the window last grew.
    pending: u64,
    /// How many there have to be, for the window that it was computed for.
    step: Option<(u64, u64)>,
}

impl Cuback {
    fn begin_epoch(&mut self, view: View) -> Epoch {
        let (prior, rtt_micros) = self.prior.unwrap_or((view.window, micros(view.smoothed_rtt)));
        let plateau = self.w_max.unwrap_or(0).max(view.window);
        let alpha = self.backoff.alpha();
        let epoch = Epoch { window: view.window, plateau, prior, rtt_micros, alpha, datagram: view.datagram };
        self.epoch = Some(epoch);
        self.pending = 0;
        self.step = None;
        epoch
    }

    /// D for this window, which changes only with the window.
    fn step(&mut self, epoch: Epoch, window: u64) -> u64 {
        match self.step {
            Some((at, step)) if at == window => step,
            _ => {
                let step = epoch.step(window);
                self.step = Some((window, step));
                step
            }
        }
    }

    fn forget(&mut self) {
        *self = Cuback::default();
    }
}

impl Growth for Cuback {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(view),
        };
        let mut window = view.window;
        self.pending = self.pending.saturating_add(acked);
        loop {
            let step = self.step(epoch, window);
            if self.pending < step {
                return window;
            }
            self.pending -= step;
            window = window.saturating_add(view.datagram);
        }
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        self.backoff = Backoff::of(signal);
        self.w_max = Some(self.backoff.w_max(view, self.w_max));
        self.prior = Some((view.window, micros(view.smoothed_rtt)));
        self.epoch = None;
        self.backoff.reduced(view)
    }

    /// A tooth takes as many round trips as windows are acknowledged until the plateau is reached.
    fn cycle(&self, view: View) -> u32 {
        let windows = self.epoch.map_or(0, |epoch| 2 * (epoch.until(epoch.plateau) / view.window.max(1)));
        u32::try_from(windows).unwrap_or(u32::MAX)
    }

    /// The window is not reduced: it stands on its plateau, and K is zero.
    fn on_start_exit(&mut self, _view: View) {
        self.forget();
    }

    /// As after leaving slow start without a loss.
    fn on_persistent_congestion(&mut self) {
        self.forget();
    }

    /// There is no clock to be stopped: what is not sent is not acknowledged.
    fn on_application_limited(&mut self, _now: Instant, _limited: bool) {}

    /// The same curves in larger or smaller datagrams: a new epoch from where the window stands.
    fn on_datagram_size(&mut self) {
        self.epoch = None;
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
