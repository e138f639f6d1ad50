//! Events of acknowledgments and losses for controllers.

use thalweg_units::{Duration, DurationExt, Instant};

use crate::delivery::{RateSample, Round};
use crate::rtt::Rtt;
use crate::trace::CongestionCause;

/// What [`Decrease::Share`] is when every packet arrives marked.
pub(crate) const MARKED_ALL: u32 = 1 << 20;

/// How far a congestion event asks the window to come down.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decrease {
    /// As far as a loss does.
    AsLoss,
    /// By less than a loss, for the queue that marks is short (Alternative Backoff with ECN, RFC 8511): in congestion
    /// avoidance, and where nothing is lost besides.
    Abe,
    /// By half of this smoothed share of packets that arrive marked, in 2^-20 (RFC 8257 section 3.3). It begins no
    /// recovery period. Only controllers that mark packets ECT(1) are asked that.
    Share(u32),
}

/// A reduction of the window that is called for now; at most one per recovery period (RFC 9002 section 7.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// What called for it.
    pub cause: CongestionCause,
    /// Numbers the reductions of a path from 1; [`Controller::undo`](crate::Controller::undo) refers to it.
    pub episode: u32,
    /// How far. Anything else than [`Decrease::AsLoss`] is the answer of the policy `mark` to congestion marks.
    pub decrease: Decrease,
}

/// A packet that was declared lost, and what the path looked like when it was sent: what a model needs to judge how
/// much of a flight was lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LossSample {
    /// Bytes of the packet.
    pub bytes: u64,
    /// When it was sent.
    pub sent: Instant,
    /// Its place among all packets sent on the path, counted from 1: neighbors that are lost make one gap.
    pub order: u64,
    /// Bytes delivered on the path by then.
    pub delivered: u64,
    /// Bytes declared lost on the path by then.
    pub lost: u64,
    /// Bytes in flight just after, the packet included.
    pub in_flight: u64,
    /// Whether the application left the window unused at that time.
    pub application_limited: bool,
}

/// Tells losses of packets that were sent one after the other from those of others.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct LossRuns {
    /// The place of the latest one among the packets sent; 0: there was none.
    last: u64,
}

impl LossRuns {
    /// Whether this loss begins a run: the packet sent just before it is not the one lost before.
    pub(crate) fn begins(&mut self, loss: &LossSample) -> bool {
        let last = core::mem::replace(&mut self.last, loss.order);
        last == 0 || loss.order != last.wrapping_add(1)
    }
}

/// When a packet arrived by the receiver's clock (draft-ietf-quic-receive-ts).
///
/// What contradicts other reports is left out. A receiver that lies can still be wrong by nearly a round trip: bound
/// what follows from arrivals by what was acknowledged, and when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// When the packet was sent.
    pub sent: Instant,
    /// Its place among all packets sent on the path, counted from 1: of two that left together, the first has the
    /// lower.
    pub order: u64,
    /// Whether no other that counts in flight left at the same time before it: it does not wait for one of its burst.
    pub begins_burst: bool,
    /// Bytes of the packet.
    pub bytes: u64,
    /// When it arrived, on the receiver's clock. Only differences between arrivals have a meaning here.
    pub received: Duration,
    /// Whether the peer said so. Otherwise the packet had arrived by then.
    pub is_told: bool,
}

impl Arrival {
    /// How long the packet took, in nanoseconds, and by how much the receiver's clock is ahead.
    pub(crate) fn delay(&self) -> i128 {
        i128::from(self.received.nanos()) - i128::from(self.sent.as_nanos())
    }
}

/// The congestion marks that an acknowledgment reports.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Marks {
    /// Packets that the peer newly counted as marked CE; in TCP, ACKs that echo a mark.
    pub ce: u64,
    /// A mark ends slow start where it stands, without a reduction: the policy `mark=end-start`, under a controller
    /// that says it can ([`Controller::can_end_start`](crate::Controller::can_end_start)). What else the event tells
    /// comes after that.
    pub ends_start: bool,
}

/// Between which times newly acknowledged packets were sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentSpan {
    /// When the oldest of them was sent; if there are any that count in flight, the oldest of these.
    pub oldest: Instant,
    /// When the newest was.
    pub newest: Instant,
}

/// How the recovery period of a path stands (RFC 9002 section 7.3.2).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryPeriod {
    /// Whether the path is still in one: nothing sent since the congestion has been acknowledged.
    pub in_recovery: bool,
    /// Whether something in flight was acknowledged that was sent since the current or last one began.
    pub is_fresh: bool,
}

/// Another path of the same connection that carries data at the same time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sibling {
    /// Its congestion window in bytes.
    pub window: u64,
    /// Its smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

/// Everything that one acknowledgment, or one loss timeout, taught about one path.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct AckEvent<'a> {
    /// When it arrived.
    pub now: Instant,
    /// The round-trip estimate, this ACK's sample included.
    pub rtt: &'a Rtt,
    /// Whether this ACK gave a sample: then `rtt.latest` and `rtt.adjusted` are new.
    pub has_rtt_sample: bool,
    /// Bytes newly acknowledged, those of packets once declared lost included: what was delivered.
    pub acked: u64,
    /// Of these, the bytes that may open the window: they were in flight, were not sent before the current recovery
    /// period began, and the application made use of the window.
    pub growth: u64,
    /// When the newly acknowledged packets were sent; `None` after a loss timeout.
    pub sent: Option<SentSpan>,
    /// When newly acknowledged packets arrived, in the order of arrival; empty where the peer does not say, or is not
    /// believed. Those of which it does not say come last, at the time of the latest.
    pub arrivals: &'a [Arrival],
    /// Bytes newly declared lost, except MTU probes.
    pub lost: u64,
    /// The same, packet by packet, in the order of sending.
    pub losses: &'a [LossSample],
    /// The congestion marks that the peer reports.
    pub marks: Marks,
    /// Bytes delivered on the path in all.
    pub delivered: u64,
    /// Bytes in flight before this ACK was processed.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub bytes_in_flight: u64,
    /// Which packet-timed round trip this is.
    pub round: Round,
    /// How fast the newest of the acknowledged packets was delivered. After a loss timeout, the sample of the latest
    /// acknowledgment with the losses since: [`RateSample::is_new`] tells them apart.
    pub delivery: Option<RateSample>,
    /// The application left the window unused, so that nothing may be concluded from how much was delivered.
    pub application_limited: bool,
    /// How the recovery period of the path stands.
    pub period: RecoveryPeriod,
    /// The window has to be reduced.
    pub congestion: Option<CongestionEvent>,
    /// Persistent congestion: the window has to fall to its minimum.
    pub persistent_congestion: bool,
}

impl AckEvent<'_> {
    /// When the newest of the newly acknowledged packets was sent; `None` after a loss timeout.
    pub fn newest_sent(&self) -> Option<Instant> {
        self.sent.map(|span| span.newest)
    }
}
