//! CUBIC (RFC 9438), in integers.
//!
//! ```text
//! W(t)   = C (t - K)³ + W_max            K = ∛((W_max - window at the epoch's start) / C)
//! target = W(t + RTT), within [window, 3/2 window]
//! window += (target - window) / window                     per datagram acknowledged
//! W_est  += alpha / window                                 per datagram acknowledged: what Reno would have
//! window  = W_est                                          where W(t) < W_est: the Reno-friendly region
//! congestion: W_max = window, or (1 + beta) / 2 window if it had not come back to W_max (fast convergence)
//!             window = beta window
//! ```
//!
//! Windows are bytes, times microseconds. `t` does not run while the application leaves the window unused. An epoch
//! begins with the first growth after a reduction, that is when the recovery period is over (section 4.2).
//!
//! | constant | value | source |
//! |---|---|---|
//! | beta | 7/10 | section 4.6: higher gives less back after a loss, lower converges faster |
//! | beta of a mark, with `mark=abe` | 17/20 | RFC 8511 section 3.1: a queue that marks is short |
//! | C | 4/10 datagrams/s³ | section 4.1.2 |
//! | alpha | 3 (1 - beta) / (1 + beta) = 9/17, 9/37 | section 4.3: the additive increase that is fair to Reno |
//! | fast convergence | (1 + beta) / 2 = 17/20, 37/40 | section 4.7 |

use thalweg_units::math::{icbrt, mul_div};
use thalweg_units::{Duration, Instant};

use super::growth::{Growth, Signal};
use crate::congestion::view::View;

/// How far a signal reduces the window, as beta, and what follows from that.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    /// Beta: what is left of the window.
    pub(super) beta: (u64, u64),
}

impl Backoff {
    pub(super) const LOSS: Backoff = Backoff { beta: (7, 10) };
    pub(super) const MARK: Backoff = Backoff { beta: (17, 20) };

    pub(super) fn of(signal: Signal) -> Backoff {
        match signal {
            Signal::Loss | Signal::Mark => Backoff::LOSS,
            Signal::AbeMark => Backoff::MARK,
        }
    }

    /// Alpha: Reno's additive increase at this beta, in datagrams per window of acknowledgments.
    pub(super) const fn alpha(self) -> (u64, u64) {
        let (part, whole) = self.beta;
        (3 * (whole - part), whole + part)
    }

    /// What fast convergence leaves of the window as the next W_max.
    const fn convergence(self) -> (u64, u64) {
        let (part, whole) = self.beta;
        (whole + part, 2 * whole)
    }

    /// The window that a reduction leaves.
    pub(super) fn reduced(self, view: View) -> u64 {
        mul_div(view.window, self.beta.0, self.beta.1)
    }

    /// The next W_max, of a reduction from this window; `before` is the last one (RFC 9438 section 4.7).
    pub(super) fn w_max(self, view: View, before: Option<u64>) -> u64 {
        let (part, whole) = match before {
            Some(before) if view.window < before => self.convergence(),
            _ => (1, 1),
        };
        // At the minimum window fast convergence would lower W_max without end, below what the window can ever be.
        mul_div(view.window, part, whole).max(2 * view.datagram)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::LOSS
    }
}

/// The aggressiveness of the cubic function, in datagrams per second cubed.
const C: (u128, u128) = (4, 10);
/// The window may aim no further than this beyond itself: 3/2, per round trip.
const MAX_TARGET: (u64, u64) = (3, 2);

/// Microseconds per second, cubed.
const MICROS_CUBED: u128 = 1_000_000_000_000_000_000;
/// Times are cut off at a day from the inflection point: cubed they have to fit in 128 bits, and the target is limited
/// long before.
const MAX_MICROS: u128 = 86_400_000_000;
/// Fractions of a byte are kept in 2⁻¹⁶ so that many small steps add up like few large ones.
const FRACTION_BITS: u32 = 16;

/// One run of the cubic function, from the end of a recovery period to the next congestion.
#[derive(Copy, Clone, Debug)]
struct Epoch {
    /// When it began, moved later by the time that the application was the limit.
    start: Instant,
    /// W_max: where the plateau is, in bytes.
    plateau: u64,
    /// K: when the plateau is reached, in microseconds after `start`.
    k_micros: u64,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// The window before the last reduction, lowered by fast convergence. `None`: nothing is known about where the
    /// plateau is.
    w_max: Option<u64>,
    /// cwnd_prior: the window before the last reduction.
    prior: u64,
    /// What the last reduction was.
    backoff: Backoff,
    epoch: Option<Epoch>,
    /// W_est in 2⁻¹⁶ bytes.
    reno: u64,
    /// The part of the window's growth that is less than a byte, in 2⁻¹⁶ bytes.
    fraction: u64,
    /// Since when the application has been the limit.
    limited_since: Option<Instant>,
    /// Whether a reduction that is taken back leaves Reno's window reduced, and whether one just was.
    #[cfg(feature = "study")]
    forgets_reno: bool,
    #[cfg(feature = "study")]
    has_returned: bool,
}

/// K in microseconds: how long the function takes from `window` to a plateau at `w_max`, both in bytes. Exact to a
/// microsecond.
pub(super) fn k_micros(w_max: u64, window: u64, datagram: u64) -> u64 {
    let distance = u128::from(w_max.saturating_sub(window));
    icbrt((distance * C.1).saturating_mul(MICROS_CUBED) / (C.0 * u128::from(datagram.max(1))))
}

impl Epoch {
    /// W at `micros` after the epoch began, in bytes.
    fn at(&self, micros: u64, datagram: u64) -> u64 {
        let distance = u128::from(micros.abs_diff(self.k_micros)).min(MAX_MICROS);
        // At most (8.64e10)³ × 4 × 65535 = 1.7e38, which is below 2^127.
        let cubic = distance * distance * distance * C.0 * u128::from(datagram) / (C.1 * MICROS_CUBED);
        let cubic = u64::try_from(cubic).unwrap_or(u64::MAX);
        if micros < self.k_micros { self.plateau.saturating_sub(cubic) } else { self.plateau.saturating_add(cubic) }
    }
}

impl Cubic {
    /// As quiche has it: a reduction that is taken back leaves what Reno would have reduced.
    #[cfg(feature = "study")]
    pub(crate) fn forgetful() -> Cubic {
        Cubic { forgets_reno: true, ..Cubic::default() }
    }

    fn begin_epoch(&mut self, view: View) -> Epoch {
        // At the minimum window the plateau can lie below the window; then the epoch starts on it (as Linux does).
        let plateau = self.w_max.unwrap_or(0).max(view.window);
        let epoch = Epoch { start: view.now, plateau, k_micros: k_micros(plateau, view.window, view.datagram) };
        self.epoch = Some(epoch);
        self.reno = view.window << FRACTION_BITS;
        self.fraction = 0;
        // Were the application the limit already, its time would be taken off twice.
        self.limited_since = self.limited_since.map(|_| view.now);
        epoch
    }

    /// Microseconds of the epoch that count.
    fn elapsed_micros(&self, epoch: Epoch, now: Instant) -> u64 {
        let until = self.limited_since.unwrap_or(now);
        micros(until.saturating_since(epoch.start))
    }

    /// What Reno would have by now, in bytes.
    fn advance_reno(&mut self, view: View, acked: u64) -> u64 {
        // Once past the window it was reduced from, Reno's increase is the ordinary one (section 4.3).
        let is_past = self.reno >> FRACTION_BITS >= self.prior;
        let (num, den) = if is_past { (1, 1) } else { self.backoff.alpha() };
        let per_window = (view.datagram << FRACTION_BITS) * num / den;
        self.reno = self.reno.saturating_add(mul_div(per_window, acked, view.window.max(1)));
        self.reno >> FRACTION_BITS
    }
}

impl Growth for Cubic {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(view),
        };
        #[cfg(feature = "study")]
        if core::mem::take(&mut self.has_returned) {
            self.reno = self.backoff.reduced(view) << FRACTION_BITS;
        }
        let elapsed = self.elapsed_micros(epoch, view.now);
        let reno = self.advance_reno(view, acked);
        if epoch.at(elapsed, view.datagram) < reno {
            return reno;
        }
        let target = epoch.at(elapsed.saturating_add(micros(view.smoothed_rtt)), view.datagram);
        let target = target.clamp(view.window, mul_div(view.window, MAX_TARGET.0, MAX_TARGET.1));
        let step = mul_div((target - view.window) << FRACTION_BITS, acked, view.window.max(1));
        let fraction = self.fraction.saturating_add(step);
        let grown = fraction >> FRACTION_BITS;
        self.fraction = fraction - (grown << FRACTION_BITS);
        view.window.saturating_add(grown).min(target)
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        self.backoff = Backoff::of(signal);
        self.w_max = Some(self.backoff.w_max(view, self.w_max));
        self.prior = view.window;
        self.epoch = None;
        #[cfg(feature = "study")]
        {
            self.has_returned = false;
        }
        self.backoff.reduced(view)
    }

    fn cycle(&self, view: View) -> u32 {
        two_teeth(self.epoch.map_or(0, |epoch| epoch.k_micros), view)
    }

    /// Section 4.10: W_max is not known; the function starts on its plateau.
    fn on_start_exit(&mut self, view: View) {
        self.w_max = None;
        self.prior = view.window;
        self.epoch = None;
    }

    /// Section 4.8: as after leaving slow start without a loss, K = 0 and W_max is the window at the start of
    /// avoidance.
    fn on_persistent_congestion(&mut self) {
        self.w_max = None;
        self.prior = 0;
        self.epoch = None;
    }

    /// Section 5.8: `t` excludes such periods. Only the epoch moves, never the recovery period, and never past `now`.
    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        match (self.limited_since, limited) {
            (None, true) => self.limited_since = Some(now),
            (Some(since), false) => {
                self.limited_since = None;
                if let Some(epoch) = &mut self.epoch {
                    epoch.start = (epoch.start + now.saturating_since(since)).min(now);
                }
            }
            _ => {}
        }
    }

    /// The same function in larger or smaller datagrams: a new epoch from where the window stands.
    fn on_datagram_size(&mut self) {
        self.epoch = None;
    }

    #[cfg(feature = "study")]
    fn on_return(&mut self, _now: Instant) {
        self.has_returned = self.forgets_reno;
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(self.clone())
    }
}

/// How many round trips two teeth last: each climbs back to its plateau in K.
pub(super) fn two_teeth(k_micros: u64, view: View) -> u32 {
    u32::try_from(k_micros.saturating_mul(2) / micros(view.smoothed_rtt).max(1)).unwrap_or(u32::MAX)
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
