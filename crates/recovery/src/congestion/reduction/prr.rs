//! Proportional rate reduction (RFC 9937, and RFC 6937 before it), mapped on QUIC.
//!
//! ```text
//! begin:     flight = in flight before the ACK;  delivered = sent = 0
//! each ACK:  delivered += newly delivered
//!            in_flight > target:   send = ⌈delivered × target / flight⌉ - sent
//!            otherwise:            send = min(target - in_flight, bound)
//!            sent == 0, send == 0: send = a datagram                            the first repair
//!            window = in_flight + send
//! end:       window = target
//! ```
//!
//! While more is in flight than the target, packets leave at `target / flight` of the rate at which they arrive: the
//! ACK clock keeps ticking, and the window arrives at its target when a flight's worth has been delivered. When losses
//! have taken more than the reduction asked for, the bound decides how fast to come *up* to the target:
//!
//! | bound | | source |
//! |---|---|---|
//! | UB | none: everything missing leaves in one burst, as with `immediate` | RFC 6937, as a comparison |
//! | CRB | `delivered - sent`: as much as arrives, packet conservation | RFC 6937 |
//! | SSRB | `max(delivered - sent, newly delivered) + datagram`: like slow start | RFC 6937 |
//! | Safe | `max(delivered - sent, newly delivered)`, and a datagram more if the ACK is safe | RFC 9937 |
//!
//! An ACK is *safe* when it acknowledges something sent since the reduction began and shows no further loss: repairs
//! get through. CRB is slow where nothing more is being lost, SSRB adds to the load where a policer is still dropping;
//! the safe bound tells them apart.
//!
//! What is not sent when it could be is not lost: `delivered - sent` is kept, and is sent later. What the transport
//! sends regardless (probes of the path's silence or of its MTU) counts as sent.
//!
//! | TCP | here |
//! |---|---|
//! | DeliveredData | bytes newly acknowledged, those of packets once declared lost included |
//! | inflight | bytes in flight once the ACK's losses are declared |
//! | RecoverFS | bytes in flight before the ACK that began it: there are no SACKed bytes to take off |
//! | SND.UNA advances | something sent since the reduction began was acknowledged |
//! | end of recovery | the same (RFC 9002 section 7.3.2), which can come long before a flight has been repaired |
//!
//! The last line needs care. After heavy loss the recovery period of QUIC ends when the first repair is acknowledged,
//! with little in flight; setting the window to the target then would release the whole difference at once. With the
//! safe bound the reduction goes on until in flight has come up to the target, the application has nothing to send, or
//! everything has arrived. The bounds of RFC 6937 end as that RFC says. What is declared lost by the timer alone
//! delivers nothing: the window then shrinks with what is in flight, and what has been saved up may be sent.
//!
//! Allowances are whole datagrams, as they are whole segments in the RFCs' tables: rounding down would send every
//! second packet late.

use thalweg_units::math::mul_div_ceil;

use super::{Progress, Reduction, Step};

/// How fast the window may come up to the target from below.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "study"), expect(dead_code, reason = "only a comparison needs all of them"))]
pub(crate) enum Bound {
    /// PRR-UB.
    Unlimited,
    /// PRR-CRB.
    Conservative,
    /// PRR-SSRB.
    SlowStart,
    /// RFC 9937.
    Safe,
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Prr {
    bound: Bound,
    /// ssthresh: where the window is to arrive.
    target: u64,
    /// RecoverFS: bytes in flight when it began.
    flight: u64,
    /// prr_delivered: bytes delivered since.
    delivered: u64,
    /// prr_out: bytes sent since.
    sent: u64,
}

impl Prr {
    pub(crate) fn new(bound: Bound) -> Prr {
        Prr { bound, target: 0, flight: 1, delivered: 0, sent: 0 }
    }

    /// How much may leave on this ACK.
    fn allowance(&mut self, progress: Progress) -> u64 {
        self.delivered = self.delivered.saturating_add(progress.delivered);
        let datagram = progress.datagram;
        let due = if progress.in_flight > self.target {
            let share = mul_div_ceil(self.delivered, self.target, self.flight);
            share.div_ceil(datagram.max(1)).saturating_mul(datagram).saturating_sub(self.sent)
        } else {
            (self.target - progress.in_flight).min(self.limit(progress))
        };
        if due == 0 && self.sent == 0 { datagram } else { due }
    }

    fn limit(&self, progress: Progress) -> u64 {
        let saved = self.delivered.saturating_sub(self.sent);
        let growing = saved.max(progress.delivered);
        let is_safe = progress.is_fresh && progress.lost == 0;
        match self.bound {
            Bound::Unlimited => u64::MAX,
            Bound::Conservative => saved,
            Bound::SlowStart => growing.saturating_add(progress.datagram),
            Bound::Safe if is_safe => growing.saturating_add(progress.datagram),
            Bound::Safe => growing,
        }
    }

    /// The window may be set to the target.
    fn may_end(&self, window: u64, progress: Progress) -> bool {
        let has_all_arrived = progress.in_flight == 0 && progress.lost == 0 && progress.delivered > 0;
        let is_there = self.bound != Bound::Safe || window >= self.target || progress.application_limited;
        has_all_arrived || (progress.is_over && is_there)
    }
}

impl Reduction for Prr {
    fn enter(&mut self, _window: u64, target: u64, progress: Progress) -> Step {
        *self = Prr { target, flight: progress.prior_in_flight.max(1), ..Prr::new(self.bound) };
        Step { window: progress.in_flight.saturating_add(self.allowance(progress)), done: false }
    }

    fn on_ack(&mut self, window: u64, progress: Progress) -> Step {
        if progress.delivered == 0 && progress.lost == 0 {
            return Step { window, done: false };
        }
        let window = progress.in_flight.saturating_add(self.allowance(progress));
        let done = self.may_end(window, progress);
        Step { window: if done { self.target } else { window }, done }
    }

    fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }
}
