//! Reductions of the window after congestion: at once, by rate halving, in proportion (PRR).
//!
//! The growth has decided on a target. A reduction decides how fast to come down to it, and so what may leave while the
//! recovery period lasts (RFC 9002 section 7.3.2: from the congestion until something sent after it is acknowledged).
//! It answers each ACK with a window; the frame ([`window`](super::window)) applies it. The target is the slow start
//! threshold from the beginning.
//!
//! | `reduction=` | window while it lasts | window in the end | source |
//! |---|---|---|---|
//! | `immediate` | target | target | RFC 6675, RFC 9002 |
//! | `rate-halving` | one datagram less per two delivered, never above in flight + 1 | what the halving came to | Linux before 3.2 |
//! | `prr-ub`, `prr-crb`, `prr-ssrb` | in flight + what is due in proportion | target | RFC 6937 |
//! | `prr` | the same, with SafeACK | target | RFC 9937 |

mod immediate;
mod prr;
#[cfg(feature = "study")]
mod rate_halving;
#[cfg(all(test, feature = "study"))]
mod tests;

use core::fmt::Debug;

use crate::congestion::table::algorithms;
use immediate::Immediate;
use prr::{Bound, Prr};

algorithms! {
    #[doc = "How the congestion window gets from its old size to the reduced one."]
    ReductionPolicy: Reduction, "reduction" {
        Immediate "immediate",
            "at once; nothing leaves until bytes in flight have fallen below the window (RFC 6675, RFC 9002 section 7.3.2)",
            "where a pause of half a round trip does no harm; simplest to reason about",
            |context| Box::new(Immediate::new(context.profile.moderates_end));
        PrrCrb "prr-crb",
            "in proportion to delivered data; below the target by packet conservation (RFC 6937)",
            "where bursts after heavy loss must be avoided at any cost",
            |_| Box::new(Prr::new(Bound::Conservative));
        Prr "prr",
            "in proportion to delivered data; below the target as in slow start only while retransmissions get through (RFC 9937)",
            "short responses and bursts of loss: keeps sending while it reduces the window",
            |_| Box::new(Prr::new(Bound::Safe));
    } default Immediate
    study {
        RateHalving "rate-halving",
            "one datagram less per two delivered, at most one above bytes in flight (Linux before 3.2)",
            "to compare with Linux before 3.2",
            |_| Box::new(rate_halving::RateHalving::default());
        PrrUb "prr-ub",
            "in proportion to delivered data; below the target without a bound (RFC 6937)",
            "to reproduce RFC 6937's comparison; not for networks",
            |_| Box::new(Prr::new(Bound::Unlimited));
        PrrSsrb "prr-ssrb",
            "in proportion to delivered data; below the target as in slow start (RFC 6937)",
            "to compare with RFC 6937 as most stacks implement it",
            |_| Box::new(Prr::new(Bound::SlowStart));
    }
}

/// What happened since a reduction last answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes delivered by this ACK.
    pub(crate) delivered: u64,
    /// Bytes that it showed to be lost.
    pub(crate) lost: u64,
    /// Bytes in flight before it.
    pub(crate) prior_in_flight: u64,
    /// Bytes in flight now.
    pub(crate) in_flight: u64,
    /// Bytes of a full datagram.
    pub(crate) datagram: u64,
    /// It acknowledged something sent since the reduction began: repairs get through.
    pub(crate) is_fresh: bool,
    /// The recovery period is over.
    pub(crate) is_over: bool,
    /// The application has nothing more to send.
    pub(crate) application_limited: bool,
}

/// What a reduction answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The window to have now.
    pub(crate) window: u64,
    /// The reduction is complete.
    pub(crate) done: bool,
}

/// A way to carry out a reduction that the growth has decided on.
pub(crate) trait Reduction: Debug + Send {
    /// A recovery period begins: the window is `window` bytes and has to come down to `target`.
    fn enter(&mut self, window: u64, target: u64, progress: Progress) -> Step;

    /// An ACK arrived, or a loss was declared, while the reduction was under way.
    fn on_ack(&mut self, window: u64, progress: Progress) -> Step;

    /// `bytes` left while it was under way, whether the window had room for them or not.
    fn on_sent(&mut self, bytes: u64) {
        let _ = bytes;
    }
}
