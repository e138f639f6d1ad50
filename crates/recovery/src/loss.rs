//! Loss detection: a pure function of a few numbers (RFC 9002 section 6.1), and the policies that set its thresholds.
//!
//! A packet is lost once a packet sent after it is acknowledged and either *enough* packets sent after it are, or
//! *enough time* has passed since it was sent. Only packets of its own path count towards the number, and it is its own
//! path's round trip that counts as time: two paths of different length never make each other's packets look lost.
//!
//! | `reordering=` | packets | time since sent | source |
//! |---|---|---|---|
//! | `fixed` | 3 | `9/8 rtt` | RFC 9002 section 6.1 |
//! | `half-in-flight` | `max(3, span / 2)` | `9/8 rtt` | nginx, commit aa49a416b |
//! | `counting` | 3 until reordering is proven, then as many as a late packet was late by, at most 20 | `9/8 rtt`, then `5/4 rtt` | quiche 0.30 |
//! | `time-only` | – | `9/8 rtt` | the discussion of nginx pull request 443 |
//! | `adaptive` | 3 until reordering is proven, then – | `rtt + max(rtt / 8, min(steps × min_rtt / 4, srtt))` | RACK, RFC 8985 section 6.2, step 4 |
//! | `rack` | – | the same; reordering that was waited out counts as a first step | the same |
//!
//! where `rtt = max(smoothed, latest)` and `span` counts the path's packets from the oldest open one to the next to be
//! sent.
//!
//! What they trade: a smaller threshold repairs a loss sooner, a larger one takes less reordering for loss.
//! `half-in-flight` still acts on counts, so large displacement in a small flight fools it. `time-only` costs a loss an
//! eighth of a round trip (more while a queue drains, because `rtt` is then larger than the packet's own). `adaptive`
//! pays the price of waiting only on paths that have been seen to reorder, and pays it with a reduction that has to be
//! taken back. `rack` waits an eighth of a round trip everywhere, so that most reordering is only ever observed; it
//! learns from the observation what `adaptive` learns from mistakes. [`Adaptation`] says how both learn and forget.

use thalweg_units::{Duration, Instant};

use crate::policies::ReorderingPolicy;
use crate::rtt::{GRANULARITY, Rtt};
use crate::types::LossTrigger;

/// How many later packets make a packet lost (kPacketThreshold, RFC 9002 section 6.1.1: SHOULD NOT be below 3).
///
/// Lower finds losses sooner and takes more reordering for loss.
pub(crate) const PACKET_THRESHOLD: u64 = 3;

/// quiche waits for no more later packets than this (MAX_PACKET_THRESHOLD).
#[cfg(feature = "study")]
const MOST_COUNTED: u64 = 20;

/// RACK's reordering window grows in steps of this fraction of the minimum round-trip time (RFC 8985 section 6.2, step
/// 4).
///
/// Larger steps need fewer mistakes to reach the true extent of reordering, and overshoot it by more.
const STEP_DIVISOR: u32 = 4;

/// After so many reductions without reordering the adaptation starts over (RACK.reo_wnd_persist, RFC 8985 section 6.2).
///
/// Fewer forgets a path that reorders rarely; more keeps losses waiting on one that has ceased to.
const PERSIST: u32 = 16;

/// More steps than this make no difference: the window ends at a whole smoothed round-trip time, which is at least the
/// minimum.
const MAX_STEPS: u32 = 1_024;

/// What a path has learnt about its reordering.
///
/// QUIC need not guess from duplicate SACKs as RACK does: a packet declared lost that is acknowledged is proof, and its
/// age says how wide the window should have been. Each proof widens the window that far, and by at least a step, the
/// latter at most once per round trip (packets sent before the last step were judged by what was known before). Deep
/// reordering that was waited out proves that the window is still needed. When [`PERSIST`] reductions in a row have
/// come without either, the path starts over with the fixed thresholds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adaptation {
    /// How many steps wide the window is; 0 while no declaration has proven wrong.
    steps: u32,
    /// Packets have been acknowledged long after later ones.
    has_reordered: bool,
    /// When the last step was taken.
    grown: Option<Instant>,
    /// Reductions since reordering was last seen.
    reductions: u32,
    /// How many places behind the newest a packet wrongly declared lost was at most, plus one.
    #[cfg(feature = "study")]
    behind: u64,
}

impl Adaptation {
    /// A packet was declared lost and acknowledged after all, so many places behind the newest.
    #[cfg(feature = "study")]
    pub(crate) fn on_behind(&mut self, behind: u64) {
        self.behind = self.behind.max(behind + 1);
    }

    /// A packet sent at `sent` and declared lost was acknowledged after all.
    pub(crate) fn on_spurious(&mut self, now: Instant, sent: Instant, rtt: &Rtt) {
        self.reductions = 0;
        let excess = now.saturating_since(sent).saturating_sub(rtt.smoothed.max(rtt.latest)).as_nanos();
        let needed = excess.div_ceil((rtt.min / STEP_DIVISOR).as_nanos().max(1));
        let mut steps = self.steps.max(u32::try_from(needed).unwrap_or(u32::MAX));
        if self.grown.is_none_or(|grown| sent > grown) {
            self.grown = Some(now);
            steps = steps.max(self.steps + 1);
        }
        self.steps = steps.min(MAX_STEPS);
    }

    /// A packet was acknowledged so long after later ones that the fixed thresholds would have declared it lost.
    pub(crate) fn on_reordering(&mut self) {
        self.has_reordered = true;
        self.reductions = 0;
    }

    /// The window was reduced.
    pub(crate) fn on_reduction(&mut self) {
        self.reductions += 1;
        if self.reductions > PERSIST {
            *self = Adaptation {
                #[cfg(feature = "study")]
                behind: self.behind,
                ..Adaptation::default()
            };
        }
    }

    /// How long to wait beyond the round-trip time.
    fn window(&self, rtt: &Rtt, steps: u32) -> Duration {
        (rtt.min / STEP_DIVISOR).saturating_mul(steps).min(rtt.smoothed)
    }

    /// How long after it was sent a packet counts as lost, with a window of so many steps but never less than RFC 9002
    /// waits.
    fn deadline(&self, rtt: &Rtt, steps: u32) -> Duration {
        let base = rtt.smoothed.max(rtt.latest);
        base.saturating_add(self.window(rtt, steps).max(base / 8)).max(GRANULARITY)
    }
}

/// How much reordering a path tolerates.
#[derive(Clone, Debug)]
pub(crate) struct Reordering {
    pub(crate) policy: ReorderingPolicy,
    /// What has been learned about the path.
    pub(crate) learned: Adaptation,
}

impl Reordering {
    pub(crate) fn new(policy: ReorderingPolicy) -> Reordering {
        Reordering { policy, learned: Adaptation::default() }
    }

    /// The thresholds on a path whose packets from the oldest open one to the next to be sent are `span`.
    pub(crate) fn thresholds(&self, rtt: &Rtt, span: u64) -> Thresholds {
        Thresholds::of(self.policy, rtt, &self.learned, span)
    }
}

/// What it takes to be lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// So many places behind the newest acknowledged packet of the path; `None` for never.
    pub(crate) packets: Option<u64>,
    /// So long after it was sent.
    pub(crate) time: Duration,
}

impl Thresholds {
    /// The thresholds that a policy sets on a path whose packets from the oldest open one to the next to be sent are
    /// `span`.
    pub(crate) fn of(
        policy: ReorderingPolicy,
        rtt: &Rtt,
        learnt: &Adaptation,
        #[cfg_attr(not(feature = "study"), expect(unused_variables))] span: u64,
    ) -> Thresholds {
        let fixed = Thresholds { packets: Some(PACKET_THRESHOLD), time: rtt.loss_delay() };
        match policy {
            ReorderingPolicy::Fixed => fixed,
            #[cfg(feature = "study")]
            ReorderingPolicy::HalfInFlight => Thresholds { packets: Some(PACKET_THRESHOLD.max(span / 2)), ..fixed },
            ReorderingPolicy::TimeOnly => Thresholds { packets: None, ..fixed },
            #[cfg(feature = "study")]
            ReorderingPolicy::Counting if learnt.behind > 0 => {
                let packets = Some(learnt.behind.clamp(PACKET_THRESHOLD, MOST_COUNTED));
                Thresholds { packets, time: (rtt.smoothed.max(rtt.latest) * 5 / 4).max(GRANULARITY) }
            }
            #[cfg(feature = "study")]
            ReorderingPolicy::Counting => fixed,
            ReorderingPolicy::Adaptive if learnt.steps == 0 => fixed,
            ReorderingPolicy::Adaptive => Thresholds { packets: None, time: learnt.deadline(rtt, learnt.steps) },
            ReorderingPolicy::Rack => {
                let steps = learnt.steps.max(u32::from(learnt.has_reordered));
                Thresholds { packets: None, time: learnt.deadline(rtt, steps) }
            }
        }
    }
}

/// What is to be said of a packet that is older than an acknowledged one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LossVerdict {
    /// It is lost.
    Lost(LossTrigger),
    /// It will be at this time, unless it is acknowledged before.
    NotBefore(Instant),
}

/// Judges a packet sent at `sent` and `behind` places before the newest acknowledged packet of its path (0 if none is
/// newer).
///
/// The caller makes sure that some later packet of the space has been acknowledged.
pub(crate) fn judge(now: Instant, sent: Instant, behind: u64, thresholds: Thresholds) -> LossVerdict {
    if thresholds.packets.is_some_and(|enough| behind >= enough) {
        return LossVerdict::Lost(LossTrigger::PacketThreshold);
    }
    let deadline = sent + thresholds.time;
    if deadline <= now { LossVerdict::Lost(LossTrigger::TimeThreshold) } else { LossVerdict::NotBefore(deadline) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::RttPolicy;
    use crate::rtt::Sample;

    const FIXED: Thresholds = Thresholds { packets: Some(3), time: Duration::from_millis(90) };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn rfc9002_6_1_1_a_packet_three_behind_is_lost() {
        assert_eq!(judge(at(1), at(0), 3, FIXED), LossVerdict::Lost(LossTrigger::PacketThreshold));
        assert_eq!(judge(at(1), at(0), 4, FIXED), LossVerdict::Lost(LossTrigger::PacketThreshold));
    }

    #[test]
    fn rfc9002_6_1_1_a_packet_two_behind_is_not() {
        assert_eq!(judge(at(1), at(0), 2, FIXED), LossVerdict::NotBefore(at(90)));
    }

    #[test]
    fn rfc9002_6_1_2_a_packet_sent_at_least_the_loss_delay_ago_is_lost() {
        assert_eq!(judge(at(89), at(0), 0, FIXED), LossVerdict::NotBefore(at(90)));
        assert_eq!(judge(at(90), at(0), 0, FIXED), LossVerdict::Lost(LossTrigger::TimeThreshold));
        assert_eq!(judge(at(91), at(0), 0, FIXED), LossVerdict::Lost(LossTrigger::TimeThreshold));
    }

    #[test]
    fn the_packet_count_is_tried_first() {
        assert_eq!(judge(at(1_000), at(0), 3, FIXED), LossVerdict::Lost(LossTrigger::PacketThreshold));
    }

    #[test]
    fn without_a_packet_threshold_only_time_counts() {
        let time_only = Thresholds { packets: None, ..FIXED };
        assert_eq!(judge(at(1), at(0), 1_000, time_only), LossVerdict::NotBefore(at(90)));
    }

    /// Smoothed and newest 80 ms, minimum 80 ms.
    fn eighty() -> Rtt {
        let mut rtt = Rtt::new(RttPolicy::Classic, Duration::from_millis(333));
        rtt.on_sample(Sample::prompt(at(0), Duration::from_millis(80)));
        rtt
    }

    fn thresholds(policy: ReorderingPolicy, learnt: &Adaptation, span: u64) -> (Option<u64>, u64) {
        let thresholds = Thresholds::of(policy, &eighty(), learnt, span);
        (thresholds.packets, thresholds.time.as_millis() as u64)
    }

    #[test]
    fn rfc9002_6_1_fixed_thresholds_are_three_packets_and_nine_eighths() {
        let rtt = Rtt::new(RttPolicy::Classic, Duration::from_millis(80));
        for span in [1, 1_000] {
            assert_eq!(Thresholds::of(ReorderingPolicy::Fixed, &rtt, &Adaptation::default(), span), FIXED);
        }
    }

    #[test]
    #[cfg(feature = "study")]
    fn nginx_half_of_the_span_but_at_least_three() {
        for (span, packets) in [(1, 3), (5, 3), (8, 4), (22, 11), (200, 100)] {
            let policy = ReorderingPolicy::HalfInFlight;
            assert_eq!(thresholds(policy, &Adaptation::default(), span), (Some(packets), 90), "{span}");
        }
    }

    #[test]
    #[cfg(feature = "study")]
    fn quiche_counts_how_far_behind_a_late_packet_was() {
        let mut learnt = Adaptation::default();
        assert_eq!(thresholds(ReorderingPolicy::Counting, &learnt, 200), (Some(3), 90));
        for (behind, packets) in [(1, 3), (7, 8), (5, 8), (40, 20)] {
            learnt.on_behind(behind);
            assert_eq!(thresholds(ReorderingPolicy::Counting, &learnt, 200), (Some(packets), 100), "{behind}");
        }
        (0..=PERSIST).for_each(|_| learnt.on_reduction());
        assert_eq!(thresholds(ReorderingPolicy::Counting, &learnt, 200), (Some(20), 100), "it does not forget");
    }

    #[test]
    fn time_only_knows_no_packets() {
        assert_eq!(thresholds(ReorderingPolicy::TimeOnly, &Adaptation::default(), 200), (None, 90));
    }

    #[test]
    fn rfc8985_6_2_the_window_grows_by_a_quarter_of_the_minimum_per_round_up_to_a_round_trip() {
        let mut learnt = Adaptation::default();
        assert_eq!(thresholds(ReorderingPolicy::Adaptive, &learnt, 9), (Some(3), 90), "nothing seen yet: as fixed");
        for (round, time) in [100, 120, 140, 160, 160].into_iter().enumerate() {
            // Three mistakes in every round count once.
            let start = 1_000 * (round as u64 + 1);
            for late in 0..3 {
                learnt.on_spurious(at(start + 81 + late), at(start + late), &eighty());
            }
            assert_eq!(thresholds(ReorderingPolicy::Adaptive, &learnt, 9), (None, time), "round {round}");
        }
    }

    #[test]
    fn a_mistake_tells_how_wide_the_window_should_have_been() {
        let mut learnt = Adaptation::default();
        // 41 ms later than the round trip: more than two steps of 20 ms.
        learnt.on_spurious(at(121), at(0), &eighty());
        assert_eq!(thresholds(ReorderingPolicy::Adaptive, &learnt, 9), (None, 140));
        learnt.on_spurious(at(121), at(0), &eighty());
        assert_eq!(thresholds(ReorderingPolicy::Adaptive, &learnt, 9), (None, 140), "sent before the last step");
    }

    #[test]
    fn the_adaptive_window_is_never_below_that_of_rfc9002() {
        let mut learnt = Adaptation::default();
        learnt.on_spurious(at(81), at(0), &eighty());
        let mut rtt = eighty();
        rtt.min = Duration::from_millis(4);
        assert_eq!(Thresholds::of(ReorderingPolicy::Adaptive, &rtt, &learnt, 9).time, Duration::from_millis(90));
    }

    #[test]
    fn rfc8985_6_2_sixteen_reductions_without_reordering_start_over() {
        let mut learnt = Adaptation::default();
        learnt.on_spurious(at(81), at(0), &eighty());
        for _ in 0..10 {
            learnt.on_reduction();
        }
        learnt.on_reordering();
        for _ in 0..16 {
            learnt.on_reduction();
            assert_eq!(thresholds(ReorderingPolicy::Adaptive, &learnt, 9), (None, 100));
        }
        learnt.on_reduction();
        assert_eq!(learnt, Adaptation::default());
    }

    #[test]
    fn rfc8985_6_2_rack_waits_a_quarter_of_the_minimum_once_reordering_was_seen_and_an_eighth_until_then() {
        let mut learnt = Adaptation::default();
        assert_eq!(thresholds(ReorderingPolicy::Rack, &learnt, 200), (None, 90));
        learnt.on_reordering();
        assert_eq!(thresholds(ReorderingPolicy::Rack, &learnt, 200), (None, 100));
        assert_eq!(
            thresholds(ReorderingPolicy::Adaptive, &learnt, 200),
            (Some(3), 90),
            "which learns from mistakes only"
        );
        // 41 ms beyond the round trip.
        learnt.on_spurious(at(121), at(0), &eighty());
        assert_eq!(thresholds(ReorderingPolicy::Rack, &learnt, 200), (None, 140));
        for _ in 0..17 {
            learnt.on_reduction();
        }
        assert_eq!(thresholds(ReorderingPolicy::Rack, &learnt, 200), (None, 90), "and forgets");
    }

    #[test]
    fn the_origin_of_the_clock_does_not_matter() {
        for origin in [0, (1 << 32) - 100, 1 << 63] {
            let sent = Instant::from_nanos(origin);
            let now = sent + Duration::from_millis(90);
            assert_eq!(judge(now, sent, 0, FIXED), LossVerdict::Lost(LossTrigger::TimeThreshold));
        }
    }
}
