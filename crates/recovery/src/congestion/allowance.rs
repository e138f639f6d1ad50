//! The allowance of a controller: bytes in flight, and the pacing of packets.

use thalweg_units::Rate;

use super::PathView;
use crate::pacing;

/// What a controller allows to leave on its path.
///
/// The path asks for it after every call that answers [`Change::Allowance`] and after every RTT sample, and keeps it
/// until then: what is sent within an allowance costs no question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowance {
    /// How many bytes may be in flight: the congestion window.
    pub window: u64,
    /// How fast packets may leave; `None` as fast as the window allows.
    pub rate: Option<Rate>,
    /// How many bytes leave back to back once there is credit for them. Never more than an initial window before the
    /// first RTT sample.
    pub quantum: u64,
    /// How many bytes of credit a pause may save up, to leave back to back afterwards. Never less than an initial
    /// window or two quanta unless packets leave evenly, and never more than an initial window before the first RTT
    /// sample.
    pub burst: u64,
    /// Nothing leaves before the pacer has credit for so many bytes and the window has room for them; then all of them
    /// leave as one train. More than the window means the window, before the first RTT sample an initial window. Zero:
    /// a quantum, or what there is room for. Without a rate there is no credit, and this and `burst` mean nothing; nor
    /// do they where the application limits the rate.
    pub hold_until_credit: u64,
    /// Packets leave evenly. From the first RTT sample on a pause saves up a quantum or `hold_until_credit`, whichever
    /// is more, and neither `burst` nor an initial window: what was acknowledged together does not leave together.
    pub is_even: bool,
}

impl Allowance {
    /// A window whose packets leave at `rate`, in trains of [`pacing::quantum`].
    pub fn new(window: u64, rate: Option<Rate>, datagram_size: u16) -> Allowance {
        let quantum = rate.map_or(u64::MAX, |rate| pacing::quantum(rate, datagram_size));
        Allowance { window, rate, quantum, burst: 0, hold_until_credit: 0, is_even: false }
    }

    /// The same for a path whose queue marks packets after a millisecond (L4S): evenly, in trains of
    /// [`pacing::EVEN_TIME`].
    pub fn even(window: u64, rate: Rate, datagram_size: u16) -> Allowance {
        let quantum = rate.bytes_in(pacing::EVEN_TIME).min(pacing::MAX_QUANTUM).max(datagram_size.into());
        Allowance { quantum, is_even: true, ..Allowance::new(window, Some(rate), datagram_size) }
    }

    /// The same once the start is over: evenly, in trains of [`pacing::steady_quantum`]. A queue of a few packets then
    /// loses none of them, and where ACKs are sparse, what one of them frees does not leave at once.
    ///
    /// A window of at most [`pacing::FEW_DATAGRAMS`] leaves as it opens: it is no more than such a queue holds, and
    /// where losses keep the window that small, each packet that waits puts off the ACK that would show the next loss.
    pub fn steady(window: u64, rate: Rate, datagram_size: u16) -> Allowance {
        let is_even = window > pacing::FEW_DATAGRAMS * u64::from(datagram_size);
        let quantum = pacing::steady_quantum(rate, datagram_size);
        match is_even {
            true => Allowance { quantum, is_even, ..Allowance::new(window, Some(rate), datagram_size) },
            false => Allowance::new(window, Some(rate), datagram_size),
        }
    }

    /// A window that is spread over a little less than a round trip: 5/4 windows per RTT (RFC 9002 section 7.7).
    pub fn spread(window: u64, path: &PathView<'_>, datagram_size: u16) -> Allowance {
        let rate = pacing::window_rate(window, path.rtt.paced, pacing::AVOIDANCE_GAIN);
        Allowance::new(window, Some(rate), datagram_size)
    }
}

/// Whether a call may have changed what a controller allows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// The allowance is what it was.
    None,
    /// The path has to ask for the allowance again. After an RTT sample it does so anyway.
    Allowance,
}
