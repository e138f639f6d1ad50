//! What a path does about congestion marks: reduce the window, end slow start, or nothing.
//!
//! A queue that forecasts the load marks while slow start has not filled the path yet. Such a mark asks the sender to
//! stop doubling, not to send less. With `mark=end-start` the first mark ends slow start where it stands:
//!
//! ```text
//! slow start ── mark: threshold = window ──► quiet span ── everything is older than 3/2 round trips ──► as configured
//! ```
//!
//! In the quiet span marks are counted and ignored: packets that left before the response carry the same message, and
//! the packets of the following half round trip queue behind them. Predict (see `docs/queues-predict.md`) marks for two
//! of its own estimates of the round trip.

use thalweg_units::{Duration, DurationExt, Instant, math};

use super::Path;
use crate::ecn::{Newly, Report};
use crate::policies::MarkPolicy;
use crate::trace::CongestionCause;

/// How long marks are ignored after one has ended slow start, in smoothed round-trip times. Reconstructed, as is the
/// queue that goes with it: one round trip for what was in flight, half of one for what the stretched round trip adds.
/// A shorter span reduces the window for the same transient; a longer one lets a real queue stand.
const QUIET: (u64, u64) = (3, 2);

/// The response of one path to marks.
#[derive(Copy, Clone, Debug)]
pub(super) struct Marks {
    policy: MarkPolicy,
    /// When a mark last ended a start, and until when marks are ignored at least.
    ended: Option<(Instant, Instant)>,
}

/// What to do about a mark.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing: it is the same message as the one that ended the start.
    Ignore,
    /// End the start, if it is still under way; otherwise this.
    EndStart { otherwise_reduce: bool },
    /// Reduce the window.
    Reduce,
}

impl Marks {
    pub(super) fn new(policy: MarkPolicy) -> Marks {
        Marks { policy, ended: None }
    }

    /// Goes on by another rule.
    pub(super) fn set_policy(&mut self, policy: MarkPolicy) {
        self.policy = policy;
    }

    /// A mark was reported by an ACK; the newest packet that it newly acknowledged left at `newest_sent`.
    fn judge(&self, now: Instant, newest_sent: Option<Instant>) -> Answer {
        let is_same = self.ended.is_some_and(|(at, until)| now < until || newest_sent.is_none_or(|sent| sent <= at));
        match self.policy {
            MarkPolicy::Reduce => Answer::Reduce,
            MarkPolicy::EndStart | MarkPolicy::EndStartOnly if is_same => Answer::Ignore,
            MarkPolicy::EndStart => Answer::EndStart { otherwise_reduce: true },
            MarkPolicy::EndStartOnly => Answer::EndStart { otherwise_reduce: false },
        }
    }

    /// A mark has ended the start.
    fn on_start_ended(&mut self, now: Instant, smoothed_rtt: Duration) {
        let quiet = Duration::from_nanos(math::mul_div(smoothed_rtt.nanos(), QUIET.0, QUIET.1));
        self.ended = Some((now, now + quiet));
    }
}

impl Path {
    /// An ACK reported ECN counts; `order` is the place of the largest packet it acknowledges, `newly` how many marked
    /// ones it newly did.
    pub(crate) fn on_ecn_report(&mut self, now: Instant, report: Report, order: u64, newly: Newly) {
        self.touch();
        let marked = self.ecn.on_report(report, newly);
        self.stats.ce_marks += marked;
        self.tally.ce += marked;
        if marked > 0 {
            if self.episode.answers(order) {
                // The path confirms what the losses said.
                self.episode.justify_all();
            } else {
                self.on_mark(now);
            }
        }
    }

    /// A mark arrived that no reduction has answered yet.
    pub(super) fn on_mark(&mut self, now: Instant) {
        let is_new = match self.marks.judge(now, self.tally.newest_acked) {
            Answer::Ignore => false,
            Answer::Reduce => true,
            Answer::EndStart { .. } if self.controller.end_start(now, &self.rtt) => {
                self.marks.on_start_ended(now, self.rtt.smoothed);
                false
            }
            Answer::EndStart { otherwise_reduce } => otherwise_reduce,
        };
        if is_new {
            self.begin_recovery(CongestionCause::Ecn);
        } else {
            // Whatever is done about it: the path confirms what losses said before.
            self.episode.justify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    #[test]
    fn marks_of_one_and_a_half_round_trips_after_the_end_of_a_start_are_ignored() {
        for (policy, later) in [(MarkPolicy::EndStart, true), (MarkPolicy::EndStartOnly, false)] {
            let mut marks = Marks::new(policy);
            let open = Answer::EndStart { otherwise_reduce: later };
            assert_eq!(marks.judge(at(100), Some(at(0))), open);
            marks.on_start_ended(at(100), ms(100));
            assert_eq!(marks.judge(at(249), Some(at(149))), Answer::Ignore);
            assert_eq!(marks.judge(at(250), Some(at(150))), open);
            // The round trip has become longer than the estimate: what was sent before is still the same message.
            assert_eq!(marks.judge(at(400), Some(at(100))), Answer::Ignore);
            assert_eq!(marks.judge(at(400), None), Answer::Ignore);
            assert_eq!(marks.judge(at(400), Some(at(101))), open);
        }
    }

    #[test]
    fn rfc9002_7_1_a_mark_reduces_by_default() {
        let mut marks = Marks::new(MarkPolicy::default());
        assert_eq!(marks.judge(at(100), Some(at(0))), Answer::Reduce);
        marks.on_start_ended(at(100), ms(100));
        assert_eq!(marks.judge(at(100), Some(at(0))), Answer::Reduce);
    }
}
