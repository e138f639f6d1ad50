//! ECN on a path: the marks of its packets, and its response to congestion marks that are reported.

use thalweg_units::Instant;

use super::Path;
use crate::config::Config;
use crate::congestion::marks::{Mark, MarkAction, MarkCounts, MarkPolicy, MarkResponse};
use crate::congestion::{Decrease, PathContext};
use crate::ecn::{Newly, Report, Validation};
use crate::trace::{CongestionCause, EcnState};
use crate::types::Ecn;

/// How the packets of one path are marked, and its response to congestion marks.
#[derive(Debug)]
pub(super) struct Marking {
    /// Whether the path carries marks.
    pub(super) validation: Validation,
    policy: MarkPolicy,
    response: Box<dyn MarkResponse>,
    goes_by_share: bool,
}

impl Marking {
    /// Under a controller that has packets marked `ecn`.
    pub(super) fn new(config: &Config, ecn: Ecn, context: &PathContext) -> Marking {
        let policy = config.policies.mark.under(ecn);
        let response = policy.build(context);
        let validation = Validation::new(config.ecn, ect(ecn));
        Marking { validation, policy, goes_by_share: response.goes_by_share(), response }
    }

    /// Goes on by another policy; by the same it keeps what it knows.
    pub(super) fn set_policy(&mut self, policy: MarkPolicy, ecn: Ecn, context: &PathContext) {
        self.validation.set_mark(ect(ecn));
        let policy = policy.under(ecn);
        if policy != self.policy {
            self.policy = policy;
            self.response = policy.build(context);
            self.goes_by_share = self.response.goes_by_share();
        }
    }

    /// How to mark the next packet.
    pub(super) fn codepoint(&self) -> Ecn {
        self.validation.codepoint()
    }

    /// Nothing is marked before the first ACK.
    pub(super) fn postpone(&mut self) {
        self.validation.postpone();
    }

    /// What was sent has not arrived, perhaps because it was marked.
    pub(super) fn on_silence(&mut self) {
        self.validation.on_silence();
    }

    /// Whether the path carries marks.
    pub(super) fn state(&self) -> EcnState {
        self.validation.state()
    }
}

/// The codepoint of a controller that asks for this one: ECT(1), or else ECT(0).
fn ect(ecn: Ecn) -> Ecn {
    if ecn == Ecn::Ect1 { Ecn::Ect1 } else { Ecn::Ect0 }
}

impl Path {
    /// An ACK reported ECN counts; `order` is the place of the largest packet it acknowledges, `newly` how many marked
    /// ones it newly did.
    pub(crate) fn on_ecn_report(&mut self, now: Instant, report: Report, order: u64, newly: Newly) {
        self.touch();
        let marked = self.marking.validation.on_report(report, newly);
        let is_answered = self.episode.answers(order);
        self.on_marks(now, order, newly.ect0 + newly.ect1, marked, is_answered);
    }

    /// Of `acked` packets that an ACK delivered, the newest at the place `order`, `marked` were marked; `is_answered`:
    /// a reduction since they were sent has answered that.
    #[inline]
    pub(super) fn on_marks(&mut self, now: Instant, order: u64, acked: u64, marked: u64, is_answered: bool) {
        if marked == 0 && !self.marking.goes_by_share {
            return;
        }
        self.stats.ce_marks += marked;
        self.tally.marks.ce += marked;
        if self.marking.goes_by_share {
            let counts = MarkCounts { acked, marked, order, sent: self.stats.packets_sent };
            let action = self.marking.response.on_counts(counts);
            if marked > 0 {
                self.respond(action);
            }
        } else {
            self.on_mark(now, is_answered);
        }
    }

    /// At least one mark arrived.
    pub(super) fn on_mark(&mut self, now: Instant, is_answered: bool) {
        if is_answered {
            self.respond(MarkAction::Ignore);
            return;
        }
        let can_end_start = !self.tally.marks.ends_start && self.controller.can_end_start();
        let newest_sent = self.tally.newest_sent();
        let mark = Mark { now, smoothed_rtt: self.rtt.smoothed, newest_sent, can_end_start };
        let action = self.marking.response.on_mark(mark);
        self.respond(action);
    }

    fn respond(&mut self, action: MarkAction) {
        // Whatever is done about it: the path confirms what losses said before.
        self.episode.justify_all();
        match action {
            MarkAction::Ignore => {}
            MarkAction::EndStart => self.tally.marks.ends_start = true,
            MarkAction::Reduce(Decrease::Share(share)) => self.reduce_in_proportion(share),
            MarkAction::Reduce(decrease) => self.begin_recovery(CongestionCause::Ecn, decrease),
        }
    }

    /// What a loss calls for in the same ACK is more.
    fn reduce_in_proportion(&mut self, share: u32) {
        if self.tally.congestion.is_none() {
            self.usage.on_reduction(self.flight.bytes);
            self.tally.congestion = Some(self.episode.begin_in_proportion(share));
            self.stats.congestion_events += 1;
            self.stats.ecn_events += 1;
        }
    }

    /// How the controller wants packets to be marked.
    pub(crate) fn controller_codepoint(&self) -> Ecn {
        self.controller.ecn_codepoint()
    }
}
