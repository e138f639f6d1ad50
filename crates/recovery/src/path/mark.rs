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
//!
//! # In proportion
//!
//! With `mark=scalable` packets are ECT(1), and the window follows the share of packets that arrive marked (RFC 8257
//! section 3.3):
//!
//! ```text
//! once per round trip:                    alpha = alpha × 15/16 + (marked / acknowledged) / 16
//! a mark, at most once per round trip:    window = window × (1 - alpha / 2)
//! after the first of these reductions:    alpha = 1/5
//! ```
//!
//! Until the first mark alpha is 1 and stays there, so that the mark that ends slow start nearly halves the window: a
//! path without such a queue says nothing about what the share will be. RFC 8257 lets alpha fall from the first round
//! trip on. The half takes back what the doubling has added. From there on packets leave at 5/4 of a window per round
//! trip. When that first exceeds the link, one packet in five is too much; at 1 alpha would take sixteen round trips
//! to fall to a third, and each mark in them take up to half of the window. The window grows by a quarter per round
//! trip until the second mark, and then as configured.
//!
//! Packets leave evenly ([`Allowance::even`](crate::Allowance::even)), also in the first flight if the handshake has
//! measured the round trip: a queue that marks from 0.8 ms on marks what leaves in a burst, however small the load is.
//!
//! A loss is answered as without marks (section 3.5). Of what RFC 9331 section 4.3 asks of a scalable sender,
//! a response that does not depend on the round trip and the detection of queues that mark ECT(1) like ECT(0) are not
//! built: do not use the policy on the Internet.

use thalweg_units::{Duration, DurationExt, Instant, math};

use super::Path;
use crate::congestion::MARKED_ALL;
use crate::ecn::{Newly, Report};
use crate::policies::MarkPolicy;
use crate::trace::CongestionCause;
use crate::types::Ecn;

/// How long marks are ignored after one has ended slow start, in smoothed round-trip times. Reconstructed, as is the
/// queue that goes with it: one round trip for what was in flight, half of one for what the stretched round trip adds.
/// A shorter span reduces the window for the same transient; a longer one lets a real queue stand.
const QUIET: (u64, u64) = (3, 2);

/// A new share of marked packets weighs `2^-4` (g = 1/16, RFC 8257 section 3.3): less weight follows a changing load
/// more slowly, more weight makes the window follow single marks.
const GAIN_SHIFT: u32 = 4;

/// What the share starts over from when it has ended the first start, in parts of [`MARKED_ALL`]: what 5/4 of a window
/// per round trip is too much by, of 5/4.
const AFTER_START: u32 = MARKED_ALL / 5;

/// The smoothed share of packets that arrive marked.
#[derive(Copy, Clone, Debug)]
struct Share {
    /// In units of 1 / [`MARKED_ALL`].
    alpha: u64,
    /// Packets acknowledged and marked in the round trip under way.
    acked: u64,
    marked: u64,
    /// A mark has arrived: alpha is kept.
    is_kept: bool,
    /// The newest packet that was sent when the round trip began, by place.
    round_ends: u64,
    /// The newest packet that was sent at the latest reduction, by place.
    answered: u64,
}

impl Share {
    const NEW: Share =
        Share { alpha: MARKED_ALL as u64, acked: 0, marked: 0, is_kept: false, round_ends: 0, answered: 0 };

    /// An ACK delivered `acked` packets, of which `marked` were marked; the newest had the place `order` among those
    /// `sent` so far. Answers the share by which the window is to be reduced, if it is.
    fn on_ack(&mut self, order: u64, sent: u64, acked: u64, marked: u64) -> Option<u32> {
        self.acked += acked;
        self.marked += marked;
        self.is_kept |= marked > 0;
        if order > self.round_ends {
            self.end_round(sent);
        }
        if marked == 0 || order <= self.answered {
            return None;
        }
        let is_first = self.answered == 0;
        self.answered = sent;
        let share = u32::try_from(self.alpha).ok();
        if is_first {
            self.alpha = AFTER_START.into();
        }
        share
    }

    fn end_round(&mut self, sent: u64) {
        if self.is_kept && self.acked > 0 {
            let now = math::mul_div(self.marked.min(self.acked), MARKED_ALL.into(), self.acked);
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (now >> GAIN_SHIFT);
        }
        (self.acked, self.marked, self.round_ends) = (0, 0, sent);
    }
}

/// The response of one path to marks.
#[derive(Copy, Clone, Debug)]
pub(super) struct Marks {
    policy: MarkPolicy,
    share: Share,
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
    /// Under a controller that marks packets so.
    pub(super) fn new(policy: MarkPolicy, mark: Ecn) -> Marks {
        let mut marks = Marks { policy, share: Share::NEW, ended: None };
        marks.set_policy(policy, mark);
        marks
    }

    /// Goes on by another rule. A controller that does not mark packets ECT(1) does not answer in proportion.
    pub(super) fn set_policy(&mut self, policy: MarkPolicy, mark: Ecn) {
        let can = policy != MarkPolicy::Scalable || mark == Ecn::Ect1;
        let policy = if can { policy } else { MarkPolicy::Reduce };
        if policy != self.policy {
            self.share = Share::NEW;
        }
        self.policy = policy;
    }

    /// Whether marks are answered in proportion to their share.
    pub(super) fn is_scalable(&self) -> bool {
        self.policy == MarkPolicy::Scalable
    }

    /// A mark was reported by an ACK; the newest packet that it newly acknowledged left at `newest_sent`.
    fn judge(&self, now: Instant, newest_sent: Option<Instant>) -> Answer {
        let is_same = self.ended.is_some_and(|(at, until)| now < until || newest_sent.is_none_or(|sent| sent <= at));
        match self.policy {
            MarkPolicy::Reduce | MarkPolicy::Abe | MarkPolicy::Scalable => Answer::Reduce,
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
        if self.marks.is_scalable() {
            self.on_marked_share(order, newly.ect0 + newly.ect1, marked);
        } else if marked > 0 {
            if self.episode.answers(order) {
                // The path confirms what the losses said.
                self.episode.justify_all();
            } else {
                self.on_mark(now);
            }
        }
    }

    /// Of `acked` packets that an ACK delivered, the newest at the place `order`, `marked` were marked: the window
    /// follows their share.
    pub(super) fn on_marked_share(&mut self, order: u64, acked: u64, marked: u64) {
        let share = self.marks.share.on_ack(order, self.stats.packets_sent, acked, marked);
        if marked > 0 {
            self.episode.justify_all();
        }
        // What a loss calls for in the same ACK is more.
        if let Some(share) = share.filter(|_| self.tally.congestion.is_none()) {
            self.usage.on_reduction(self.bytes_in_flight);
            self.tally.congestion = Some(self.episode.begin_in_proportion(share));
            self.stats.congestion_events += 1;
            self.stats.ecn_events += 1;
        }
    }

    /// How the controller wants packets to be marked.
    pub(crate) fn controller_codepoint(&self) -> Ecn {
        self.controller.ecn_codepoint()
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
            let mut marks = Marks::new(policy, Ecn::Ect0);
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
        let mut marks = Marks::new(MarkPolicy::default(), Ecn::Ect0);
        assert_eq!(marks.judge(at(100), Some(at(0))), Answer::Reduce);
        marks.on_start_ended(at(100), ms(100));
        assert_eq!(marks.judge(at(100), Some(at(0))), Answer::Reduce);
    }

    /// The share in thousandths.
    fn thousandths(share: &Share) -> u64 {
        (share.alpha * 1_000 + u64::from(MARKED_ALL / 2)) / u64::from(MARKED_ALL)
    }

    #[test]
    fn rfc8257_3_3_the_share_is_smoothed_by_a_sixteenth_once_per_round_trip() {
        let mut share = Share::NEW;
        // Ten packets per round trip, acknowledged one by one: nine others are on the way when an ACK arrives.
        let round = |share: &mut Share, number: u64, marked: u64| {
            let mut cuts = 0;
            for packet in 1..=10 {
                let order = number * 10 + packet;
                cuts += u32::from(share.on_ack(order, order + 9, 1, u64::from(packet <= marked)).is_some());
            }
            cuts
        };
        // Nothing is known before the first mark.
        for number in 0..5 {
            assert_eq!((round(&mut share, number, 0), thousandths(&share)), (0, 1_000));
        }
        // Each round trip with marks reduces once. After the first reduction the share starts over: the next round trip
        // has five marks among ten, 1/5 × 15/16 + 1/32.
        assert_eq!(round(&mut share, 5, 5), 1);
        assert_eq!(thousandths(&share), 200);
        assert_eq!(round(&mut share, 6, 5), 1);
        assert_eq!(thousandths(&share), 219);
        for number in 7..200 {
            assert_eq!(round(&mut share, number, 5), 1, "round trip {number}");
        }
        assert_eq!(thousandths(&share), 500);
        // Without marks it dies away, and nothing is reduced.
        for number in 200..216 {
            assert_eq!(round(&mut share, number, 0), 0);
        }
        assert!((170..200).contains(&thousandths(&share)), "0.5 × (15/16)^16 is 0.178: {}", thousandths(&share));
    }

    #[test]
    fn more_marks_than_acknowledgments_are_all_of_them() {
        let mut share = Share::NEW;
        assert_eq!(share.on_ack(1, 10, 1, 40), Some(MARKED_ALL));
        assert_eq!(share.on_ack(5, 20, 2, 40), None, "once per round trip");
        share.on_ack(11, 30, 0, 0);
        assert_eq!(thousandths(&share), 250, "1/5 × 15/16 + 1/16");
    }

    #[test]
    fn a_controller_that_does_not_mark_ect1_answers_as_to_a_loss() {
        assert!(!Marks::new(MarkPolicy::Scalable, Ecn::Ect0).is_scalable());
        let mut marks = Marks::new(MarkPolicy::Scalable, Ecn::Ect1);
        assert!(marks.is_scalable());
        marks.set_policy(MarkPolicy::Reduce, Ecn::Ect0);
        assert_eq!(marks.judge(at(0), None), Answer::Reduce);
    }
}
