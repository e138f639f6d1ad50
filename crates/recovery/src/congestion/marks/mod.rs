//! Responses to congestion marks (ECN-CE).
//!
//! A path asks its response when marks arrive, before it looks for losses; the answer reaches the controller with
//! everything else that the ACK taught ([`AckEvent`](crate::AckEvent)).
//!
//! | `mark=` | a mark asks for | source |
//! |---|---|---|
//! | `reduce` | the reduction of a loss | RFC 9002, RFC 3168 |
//! | `abe` | a smaller one, in congestion avoidance | RFC 8511 |
//! | `end-start` | the end of slow start; after that, the reduction of a loss | what Predict expects |
//! | `scalable` | a reduction in proportion to the marks | RFC 8257, RFC 9331 |
//!
//! A loss is answered as without marks, by each of them.

pub(crate) mod abe;
mod end_start;
mod reduce;
mod scalable;

use core::fmt::Debug;

use thalweg_units::{Duration, Ecn, Instant};

use crate::choice::{parameters, words};
use crate::congestion::Decrease;
use crate::congestion::table::algorithms;

use abe::Abe;
use end_start::EndStart;
use reduce::Reduce;
use scalable::Scalable;

parameters! {
    #[doc = "The parameters of `mark=end-start`."]
    EndStartParameters {
        later "later": LaterMarks = LaterMarks::Reduce, "",
            "what later marks do; ignore measures a queue that forecasts without what it does to congestion avoidance, and is not for networks";
    }
}

words! {
    #[doc = "What marks do after slow start under `mark=end-start`."]
    LaterMarks {
        Reduce "reduce", "They reduce the window.";
        Ignore "ignore", "They are ignored.";
    }
}

algorithms! {
    #[doc = "How the window responds to a congestion mark (ECN-CE)."]
    MarkPolicy: MarkResponse, "mark" {
        Reduce "reduce",
            "reduces it, in slow start and afterwards (RFC 9002 section 7.1, RFC 3168 section 6.1.2)",
            "beside flows that answer marks as losses; to follow RFC 9002",
            |_| Box::new(Reduce);
        Abe "abe",
            "as reduce in slow start; afterwards by less than a loss, to 0.85 of the window with CUBIC and 0.8 with NewReno (Alternative Backoff with ECN, RFC 8511). Models answer as reduce",
            "behind queues that mark before they are long, such as codel, pie and dualpi2",
            |_| Box::new(Abe);
        EndStart(EndStartParameters) "end-start",
            "the first mark ends slow start without a reduction, those of the following 1.5 round trips are ignored, later ones reduce the window (what Predict expects of senders)",
            "behind queues that mark slow start before they fill, such as predict",
            |_, parameters| Box::new(EndStart::new((parameters.later == LaterMarks::Reduce).then_some(Decrease::AsLoss)));
        Scalable "scalable",
            "packets are ECT(1) and leave evenly, and the window falls once per round trip by half of the smoothed share of marked packets (RFC 8257, RFC 9331 section 4); the first mark ends slow start and nearly halves the window, which grows by a quarter per round trip until the second. Models answer as reduce",
            "behind queues that mark scalable senders early, such as dualpi2; elsewhere a queue may give ECT(1) no signal but loss",
            |_| Box::new(Scalable::default());
    } default Abe
}

impl MarkPolicy {
    /// How it has packets marked: ECT(1) where it responds as low latency, low loss and scalable throughput demand (RFC
    /// 9331 section 4).
    pub const fn ecn_codepoint(self) -> Ecn {
        match self {
            MarkPolicy::Scalable => Ecn::Ect1,
            _ => Ecn::Ect0,
        }
    }

    /// What answers marks on a path whose controller has packets marked `ecn`. Where that is not what the policy asks
    /// for, marks are answered as losses.
    pub(crate) fn under(self, ecn: Ecn) -> MarkPolicy {
        if self.ecn_codepoint() == Ecn::Ect1 && ecn != Ecn::Ect1 { MarkPolicy::Reduce } else { self }
    }
}

/// A mark that no reduction has answered yet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Mark {
    /// When the ACK arrived that reports it.
    pub(crate) now: Instant,
    /// The smoothed round-trip time.
    pub(crate) smoothed_rtt: Duration,
    /// When the newest packet was sent that this ACK newly acknowledges.
    pub(crate) newest_sent: Option<Instant>,
    /// Slow start is under way and can end where it stands.
    pub(crate) can_end_start: bool,
}

/// How many packets an ACK delivered, and how many of these arrived marked.
#[derive(Copy, Clone, Debug)]
pub(crate) struct MarkCounts {
    /// Packets delivered.
    pub(crate) acked: u64,
    /// Packets that were marked.
    pub(crate) marked: u64,
    /// The place of the newest of them among the packets of the path.
    pub(crate) order: u64,
    /// Packets sent on the path so far.
    pub(crate) sent: u64,
}

/// What is to be done about marks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkAction {
    /// Nothing: they are counted.
    Ignore,
    /// Slow start ends where it stands.
    EndStart,
    /// The window is reduced so far.
    Reduce(Decrease),
}

/// What a path does about congestion marks.
pub(crate) trait MarkResponse: Debug + Send {
    /// A mark arrived, and no reduction since it was sent has answered it.
    fn on_mark(&mut self, mark: Mark) -> MarkAction;

    /// Whether it goes by the share of packets that arrive marked: where they are counted it gets every ACK
    /// ([`on_counts`](Self::on_counts)), instead of single marks.
    fn goes_by_share(&self) -> bool {
        false
    }

    /// An ACK counts marked packets; of these there may be none, and then the answer does not matter.
    fn on_counts(&mut self, counts: MarkCounts) -> MarkAction {
        let _ = counts;
        MarkAction::Ignore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::PathContext;
    use crate::testing::{at, ms};

    fn answer(policy: MarkPolicy, can_end_start: bool) -> MarkAction {
        let mut response = policy.build(&PathContext::new(at(0), 1_200));
        response.on_mark(Mark { now: at(100), smoothed_rtt: ms(100), newest_sent: Some(at(0)), can_end_start })
    }

    #[test]
    fn only_a_response_that_is_made_for_it_ends_slow_start() {
        for policy in [MarkPolicy::Reduce, MarkPolicy::Abe, MarkPolicy::Scalable] {
            assert_eq!(answer(policy, true), answer(policy, false), "{policy}");
        }
        assert_eq!(answer(MarkPolicy::Reduce, true), MarkAction::Reduce(Decrease::AsLoss));
        let end_start = |later| MarkPolicy::EndStart(EndStartParameters { later });
        assert_eq!(answer(end_start(LaterMarks::Reduce), true), MarkAction::EndStart);
        assert_eq!(answer(end_start(LaterMarks::Reduce), false), MarkAction::Reduce(Decrease::AsLoss));
        assert_eq!(answer(end_start(LaterMarks::Ignore), false), MarkAction::Ignore);
    }

    #[test]
    fn a_controller_that_does_not_mark_ect1_answers_as_to_a_loss() {
        assert_eq!(MarkPolicy::Scalable.under(Ecn::Ect0), MarkPolicy::Reduce);
        assert_eq!(MarkPolicy::Scalable.under(Ecn::Ect1), MarkPolicy::Scalable);
        assert_eq!(MarkPolicy::Abe.under(Ecn::Ect1), MarkPolicy::Abe);
    }
}
