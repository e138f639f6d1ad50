//! Explicit congestion notification: finding out whether a path carries it, and counting marks (RFC 9000 section
//! 13.4.2).
//!
//! A path starts by marking its first packets, ECT(0) or whatever its controller asks for. Enough sent, or a probe
//! timeout expired, it stops and waits; an ACK that accounts for the marked packets makes it *capable*, one that does
//! not makes it *failed*, for good. So does the loss of all that were marked: a path that swallows marks costs one
//! probe timeout, since probes go without. The peer's counters belong to a space ([`Reported`]), the verdict to a path
//! ([`Validation`]).

use thalweg_units::{Duration, Instant};

use crate::trace::EcnState;
use crate::types::{Ecn, EcnCounts};

/// How many packets are marked to test a path (RFC 9000 appendix A.4).
const TEST_PACKETS: u32 = 10;

/// How many marked packets have to be lost before their loss alone fails the path: random loss takes one or two, a path
/// that swallows marks all.
const FEW_PACKETS: u32 = 3;

/// How many probe timeouts the test lasts at most (RFC 9000 appendix A.4).
const TEST_TIMEOUTS: u32 = 3;

/// What an ACK said about marks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The counters account for every marked packet; so many more were marked CE.
    Valid {
        /// Packets newly counted as CE.
        marked: u64,
    },
    /// They do not.
    Invalid,
}

/// How many packets carried each mark.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Newly {
    pub(crate) ect0: u64,
    pub(crate) ect1: u64,
}

impl Newly {
    pub(crate) fn count(&mut self, ecn: Ecn) {
        self.ect0 += u64::from(ecn == Ecn::Ect0);
        self.ect1 += u64::from(ecn == Ecn::Ect1);
    }

    fn any(self) -> bool {
        self.ect0 + self.ect1 > 0
    }
}

/// The peer's counters in one space.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Reported {
    counts: EcnCounts,
    /// Packets sent with marks in this space.
    sent: Newly,
}

impl Reported {
    /// A packet was sent.
    pub(crate) fn on_sent(&mut self, ecn: Ecn) {
        self.sent.count(ecn);
    }

    /// Judges the counters of an ACK that raised the largest acknowledged number and newly acknowledged `newly` marked
    /// packets.
    ///
    /// An ACK that does not raise it may be an old one and MUST NOT be judged (RFC 9000 section 13.4.2.1).
    pub(crate) fn judge(&mut self, counts: Option<EcnCounts>, newly: Newly) -> Report {
        let Some(counts) = counts else {
            return if newly.any() { Report::Invalid } else { Report::Valid { marked: 0 } };
        };
        let before = self.counts;
        let increase = |now: u64, before: u64| now.checked_sub(before);
        let increases = increase(counts.ect0, before.ect0).zip(increase(counts.ect1, before.ect1));
        let Some(((ect0, ect1), ce)) = increases.zip(increase(counts.ce, before.ce)) else {
            return Report::Invalid;
        };
        self.counts = counts;
        let accounts_for_all = ect0.saturating_add(ce) >= newly.ect0 && ect1.saturating_add(ce) >= newly.ect1;
        // More of a mark than was ever sent with it means that the path rewrites marks.
        let total = counts.ect0.saturating_add(counts.ect1).saturating_add(counts.ce);
        let sent = self.sent;
        let is_possible = counts.ect0 <= sent.ect0 && counts.ect1 <= sent.ect1 && total <= sent.ect0 + sent.ect1;
        if accounts_for_all && is_possible { Report::Valid { marked: ce } } else { Report::Invalid }
    }
}

/// What one path knows about ECN.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Validation {
    state: EcnState,
    /// How packets are marked on a path that carries marks: ECT(0) or ECT(1).
    mark: Ecn,
    /// Marked packets sent and lost during the test.
    tested: u32,
    lost: u32,
    /// When the test ends at the latest; set by its first packet.
    until: Option<Instant>,
    /// The test begins with the first ACK.
    is_postponed: bool,
    /// All of the few packets of a first test were lost.
    is_second_test: bool,
}

impl Validation {
    /// An untested path; failed from the start when ECN is off.
    pub(crate) fn new(enabled: bool, mark: Ecn) -> Validation {
        let state = if enabled { EcnState::Testing } else { EcnState::Failed };
        Validation { state, mark, tested: 0, lost: 0, until: None, is_postponed: false, is_second_test: false }
    }

    /// How packets are marked from now on, if the path carries marks.
    pub(crate) fn set_mark(&mut self, mark: Ecn) {
        self.mark = mark;
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// How to mark the next packet.
    pub(crate) fn codepoint(&self) -> Ecn {
        match self.state {
            EcnState::Testing if self.is_postponed => Ecn::NotEct,
            EcnState::Testing | EcnState::Capable => self.mark,
            EcnState::Unknown | EcnState::Failed => Ecn::NotEct,
        }
    }

    /// Nothing is to be marked before the first ACK: what the peer sent came without a mark, perhaps because marks do
    /// not get through.
    pub(crate) fn postpone(&mut self) {
        self.is_postponed |= self.tested == 0;
    }

    /// A probe timeout expired, or the peer has shown in another way that what was sent did not arrive. If marks were
    /// the cause, probes with marks would meet the same fate: the test waits for what becomes of the packets marked so
    /// far.
    pub(crate) fn on_silence(&mut self) {
        if self.state == EcnState::Testing && self.tested > 0 {
            self.state = EcnState::Unknown;
        }
    }

    /// Whether [`on_sent`](Self::on_sent) has to be called for packets.
    #[inline]
    pub(crate) fn is_testing(&self) -> bool {
        self.state == EcnState::Testing && !self.is_postponed
    }

    /// A packet was sent; `pto` is the path's probe timeout.
    pub(crate) fn on_sent(&mut self, now: Instant, ecn: Ecn, pto: Duration) {
        if !self.is_testing() {
            return;
        }
        self.tested += u32::from(ecn != Ecn::NotEct);
        let until = *self.until.get_or_insert(now + pto.saturating_mul(TEST_TIMEOUTS));
        if self.tested >= TEST_PACKETS || now >= until {
            self.state = EcnState::Unknown;
        }
    }

    /// A marked packet was declared lost. A path that swallows every marked packet fails.
    pub(crate) fn on_lost(&mut self) {
        if matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            self.lost += 1;
            if self.state == EcnState::Unknown && self.lost >= self.tested {
                self.judge_losses();
            }
        }
    }

    /// Every marked packet so far was lost. Of few that may be chance: they get a second test, now that the path is
    /// known to carry others.
    fn judge_losses(&mut self) {
        if self.tested < FEW_PACKETS && !self.is_second_test {
            (self.state, self.tested, self.lost, self.until) = (EcnState::Testing, 0, 0, None);
            self.is_second_test = true;
        } else {
            self.state = EcnState::Failed;
        }
    }

    /// Takes the verdict on an ACK that newly acknowledged `newly` marked packets of this path. Answers how many CE
    /// marks are to be heeded.
    pub(crate) fn on_report(&mut self, report: Report, newly: Newly) -> u64 {
        self.is_postponed = false;
        match (self.state, report) {
            (EcnState::Failed, _) => 0,
            (_, Report::Invalid) => {
                self.state = EcnState::Failed;
                0
            }
            (_, Report::Valid { marked }) => {
                if newly.any() {
                    self.state = EcnState::Capable;
                }
                marked
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);

    fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1, ce })
    }

    fn ect0(ect0: u64) -> Newly {
        Newly { ect0, ect1: 0 }
    }

    fn sent(packets: u64) -> Reported {
        let mut reported = Reported::default();
        for _ in 0..packets {
            reported.on_sent(Ecn::Ect0);
        }
        reported
    }

    fn tested(packets: u32) -> Validation {
        let mut validation = Validation::new(true, Ecn::Ect0);
        for _ in 0..packets {
            let ecn = validation.codepoint();
            validation.on_sent(Instant::ZERO, ecn, PTO);
        }
        validation
    }

    #[test]
    fn rfc9000_a4_the_test_marks_ten_packets_and_then_waits() {
        assert_eq!(tested(9).state(), EcnState::Testing);
        assert_eq!(tested(9).codepoint(), Ecn::Ect0);
        assert_eq!(tested(10).state(), EcnState::Unknown);
        assert_eq!(tested(10).codepoint(), Ecn::NotEct);
    }

    #[test]
    fn rfc9000_a4_the_test_lasts_three_probe_timeouts_at_most() {
        let mut validation = tested(1);
        validation.on_sent(Instant::ZERO + PTO * 3 - Duration::from_nanos(1), Ecn::Ect0, PTO);
        assert_eq!(validation.state(), EcnState::Testing);
        validation.on_sent(Instant::ZERO + PTO * 3, Ecn::Ect0, PTO);
        assert_eq!(validation.state(), EcnState::Unknown);
    }

    #[test]
    fn rfc9000_a4_a_path_that_loses_every_marked_packet_fails() {
        let mut validation = tested(10);
        (0..9).for_each(|_| validation.on_lost());
        assert_eq!(validation.state(), EcnState::Unknown);
        validation.on_lost();
        assert_eq!(validation.state(), EcnState::Failed);
    }

    #[test]
    fn rfc9000_13_4_2_probes_go_without_marks_and_the_loss_of_all_marked_packets_fails_the_path() {
        let mut validation = tested(2);
        validation.on_silence();
        assert_eq!(validation.codepoint(), Ecn::NotEct);
        assert_eq!(validation.state(), EcnState::Unknown);
        // The probe is acknowledged, what it repeated is declared lost.
        validation.on_report(Report::Valid { marked: 0 }, ect0(0));
        validation.on_lost();
        assert_eq!(validation.state(), EcnState::Unknown);
        validation.on_lost();
        assert_eq!(validation.state(), EcnState::Testing, "two may be chance");
        validation.on_sent(Instant::ZERO, Ecn::Ect0, PTO);
        validation.on_silence();
        validation.on_lost();
        assert_eq!(validation.state(), EcnState::Failed, "but not twice");
    }

    #[test]
    fn rfc9000_13_4_2_a_lost_first_flight_leaves_the_path_its_test() {
        let mut validation = tested(1);
        validation.on_silence();
        validation.on_lost();
        assert_eq!(validation.codepoint(), Ecn::Ect0);
        (0..10).for_each(|_| validation.on_sent(Instant::ZERO, Ecn::Ect0, PTO));
        assert_eq!(validation.on_report(Report::Valid { marked: 0 }, ect0(5)), 0);
        assert_eq!(validation.state(), EcnState::Capable);
    }

    #[test]
    fn rfc9000_13_4_2_the_loss_of_three_marked_packets_fails_the_path_at_once() {
        let mut validation = tested(3);
        validation.on_silence();
        (0..3).for_each(|_| validation.on_lost());
        assert_eq!(validation.state(), EcnState::Failed);
    }

    #[test]
    fn a_silence_for_another_reason_ends_with_the_verdict_on_the_packets_marked_before() {
        let mut validation = tested(2);
        validation.on_silence();
        validation.on_lost();
        assert_eq!(validation.on_report(Report::Valid { marked: 0 }, ect0(1)), 0);
        assert_eq!(validation.state(), EcnState::Capable);
        validation.on_silence();
        assert_eq!(validation.codepoint(), Ecn::Ect0, "a path known to carry marks keeps them");
    }

    #[test]
    fn a_silence_before_anything_was_marked_leaves_the_test_for_later() {
        let mut validation = Validation::new(true, Ecn::Ect0);
        validation.on_silence();
        assert_eq!(validation.state(), EcnState::Testing);
    }

    #[test]
    fn a_postponed_test_begins_with_the_first_ack() {
        let mut validation = Validation::new(true, Ecn::Ect0);
        validation.postpone();
        for _ in 0..20 {
            assert_eq!(validation.codepoint(), Ecn::NotEct);
            validation.on_sent(Instant::ZERO, Ecn::NotEct, PTO);
        }
        validation.on_report(Report::Valid { marked: 0 }, ect0(0));
        assert_eq!((validation.state(), validation.codepoint()), (EcnState::Testing, Ecn::Ect0));
    }

    #[test]
    fn rfc9000_13_4_2_1_counts_that_account_for_all_make_a_path_capable() {
        let mut validation = tested(10);
        let report = sent(10).judge(counts(10, 0, 0), ect0(10));
        assert_eq!(validation.on_report(report, ect0(10)), 0);
        assert_eq!(validation.state(), EcnState::Capable);
        assert_eq!(validation.codepoint(), Ecn::Ect0);
    }

    #[test]
    fn rfc9000_13_4_2_1_missing_counts_fail_only_if_marked_packets_are_newly_acknowledged() {
        assert_eq!(sent(10).judge(None, ect0(3)), Report::Invalid);
        assert_eq!(sent(10).judge(None, ect0(0)), Report::Valid { marked: 0 });
    }

    #[test]
    fn rfc9000_13_4_2_1_an_increase_smaller_than_what_is_newly_acknowledged_fails() {
        assert_eq!(sent(10).judge(counts(4, 0, 0), ect0(5)), Report::Invalid);
        assert_eq!(sent(10).judge(counts(4, 0, 1), ect0(5)), Report::Valid { marked: 1 });
        let mut reported = sent(10);
        assert_eq!(reported.judge(counts(5, 0, 0), ect0(5)), Report::Valid { marked: 0 });
        assert_eq!(reported.judge(counts(6, 0, 0), ect0(2)), Report::Invalid);
    }

    #[test]
    fn rfc9000_13_4_2_1_an_increase_larger_than_what_is_newly_acknowledged_is_fine() {
        // ACKs get lost; the counts are cumulative.
        assert_eq!(sent(10).judge(counts(8, 0, 0), ect0(2)), Report::Valid { marked: 0 });
    }

    #[test]
    fn rfc9000_13_4_2_1_counts_beyond_what_was_sent_fail() {
        assert_eq!(sent(10).judge(counts(11, 0, 0), ect0(10)), Report::Invalid);
        assert_eq!(sent(10).judge(counts(10, 0, 1), ect0(10)), Report::Invalid);
        assert_eq!(sent(10).judge(counts(9, 1, 0), ect0(9)), Report::Invalid, "ECT(1) was never sent");
        assert_eq!(sent(10).judge(counts(u64::MAX, 0, u64::MAX), ect0(9)), Report::Invalid);
    }

    #[test]
    fn rfc9000_13_4_2_1_counts_that_shrink_fail() {
        let mut reported = sent(10);
        reported.judge(counts(5, 0, 2), ect0(7));
        assert_eq!(reported.judge(counts(6, 0, 1), ect0(0)), Report::Invalid);
    }

    #[test]
    fn rfc9000_13_4_2_2_a_failed_path_stops_marking_for_good_and_ignores_counts() {
        let mut validation = tested(10);
        validation.on_report(Report::Invalid, ect0(1));
        assert_eq!(validation.codepoint(), Ecn::NotEct);
        assert_eq!(validation.on_report(Report::Valid { marked: 5 }, ect0(10)), 0);
        assert_eq!(validation.state(), EcnState::Failed);
    }

    #[test]
    fn marks_are_counted_once() {
        let mut reported = sent(10);
        assert_eq!(reported.judge(counts(3, 0, 2), ect0(5)), Report::Valid { marked: 2 });
        assert_eq!(reported.judge(counts(5, 0, 2), ect0(2)), Report::Valid { marked: 0 });
        assert_eq!(reported.judge(counts(5, 0, 3), ect0(1)), Report::Valid { marked: 1 });
    }

    #[test]
    fn without_ecn_nothing_is_marked() {
        assert_eq!(Validation::new(false, Ecn::Ect0).codepoint(), Ecn::NotEct);
    }

    #[test]
    fn rfc9000_13_4_2_1_ect1_is_validated_like_ect0() {
        let sent = || {
            let mut reported = Reported::default();
            (0..10).for_each(|_| reported.on_sent(Ecn::Ect1));
            reported
        };
        let ect1 = |ect1| Newly { ect0: 0, ect1 };
        assert_eq!(sent().judge(counts(0, 8, 2), ect1(10)), Report::Valid { marked: 2 });
        assert_eq!(sent().judge(counts(0, 7, 2), ect1(10)), Report::Invalid, "one is missing");
        assert_eq!(sent().judge(counts(10, 0, 0), ect1(10)), Report::Invalid, "rewritten to ECT(0)");
        assert_eq!(sent().judge(None, ect1(1)), Report::Invalid, "not reported");
        let mut validation = Validation::new(true, Ecn::Ect1);
        assert_eq!(validation.codepoint(), Ecn::Ect1);
        assert_eq!(validation.on_report(Report::Valid { marked: 0 }, ect1(1)), 0);
        assert_eq!((validation.state(), validation.codepoint()), (EcnState::Capable, Ecn::Ect1));
    }
}
