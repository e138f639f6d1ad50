//! When a packet counts as lost: a pure function of a few numbers (RFC 9002 section 6.1), and the policies that set its thresholds.
//!
//! A packet is lost once a packet sent after it is acknowledged and either *enough* packets sent after it are, or *enough time* has
//! passed since it was sent. Only packets of its own path count towards the number, and it is its own path's round trip that counts
//! as time: two paths of different length never make each other's packets look lost.
//!
//! `reordering=half-in-flight`, `time-only` and `adaptive` are reserved; each is a different [`Thresholds`] and nothing else.

use thalweg_units::{Duration, Instant};

use crate::config::ReorderingPolicy;
use crate::rtt::Rtt;
use crate::types::LossTrigger;

/// How many later packets make a packet lost (kPacketThreshold, RFC 9002 section 6.1.1: SHOULD NOT be below 3).
///
/// Lower finds losses sooner and takes more reordering for loss.
pub(crate) const PACKET_THRESHOLD: u64 = 3;

/// What it takes to be lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// So many places behind the newest acknowledged packet of the path; `None` for never.
    pub(crate) packets: Option<u64>,
    /// So long after it was sent.
    pub(crate) time: Duration,
}

impl Thresholds {
    /// The thresholds that a policy sets on a path.
    pub(crate) fn of(policy: ReorderingPolicy, rtt: &Rtt) -> Thresholds {
        match policy {
            ReorderingPolicy::Fixed => Thresholds { packets: Some(PACKET_THRESHOLD), time: rtt.loss_delay() },
        }
    }
}

/// What is to be said of a packet that is older than an acknowledged one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is lost.
    Lost(LossTrigger),
    /// It will be at this time, unless it is acknowledged before.
    NotBefore(Instant),
}

/// Judges a packet sent at `sent` and `behind` places before the newest acknowledged packet of its path (0 if none is newer).
///
/// The caller makes sure that some later packet of the space has been acknowledged.
pub(crate) fn judge(now: Instant, sent: Instant, behind: u64, thresholds: Thresholds) -> Verdict {
    if thresholds.packets.is_some_and(|enough| behind >= enough) {
        return Verdict::Lost(LossTrigger::PacketThreshold);
    }
    let deadline = sent + thresholds.time;
    if deadline <= now { Verdict::Lost(LossTrigger::TimeThreshold) } else { Verdict::NotBefore(deadline) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RttPolicy;

    const FIXED: Thresholds = Thresholds { packets: Some(3), time: Duration::from_millis(90) };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn rfc9002_6_1_1_a_packet_three_behind_is_lost() {
        assert_eq!(judge(at(1), at(0), 3, FIXED), Verdict::Lost(LossTrigger::PacketThreshold));
        assert_eq!(judge(at(1), at(0), 4, FIXED), Verdict::Lost(LossTrigger::PacketThreshold));
    }

    #[test]
    fn rfc9002_6_1_1_a_packet_two_behind_is_not() {
        assert_eq!(judge(at(1), at(0), 2, FIXED), Verdict::NotBefore(at(90)));
    }

    #[test]
    fn rfc9002_6_1_2_a_packet_sent_at_least_the_loss_delay_ago_is_lost() {
        assert_eq!(judge(at(89), at(0), 0, FIXED), Verdict::NotBefore(at(90)));
        assert_eq!(judge(at(90), at(0), 0, FIXED), Verdict::Lost(LossTrigger::TimeThreshold));
        assert_eq!(judge(at(91), at(0), 0, FIXED), Verdict::Lost(LossTrigger::TimeThreshold));
    }

    #[test]
    fn the_packet_count_is_tried_first() {
        assert_eq!(judge(at(1_000), at(0), 3, FIXED), Verdict::Lost(LossTrigger::PacketThreshold));
    }

    #[test]
    fn without_a_packet_threshold_only_time_counts() {
        let time_only = Thresholds { packets: None, ..FIXED };
        assert_eq!(judge(at(1), at(0), 1_000, time_only), Verdict::NotBefore(at(90)));
    }

    #[test]
    fn rfc9002_6_1_fixed_thresholds_are_three_packets_and_nine_eighths() {
        let rtt = Rtt::new(RttPolicy::Classic, Duration::from_millis(80));
        assert_eq!(Thresholds::of(ReorderingPolicy::Fixed, &rtt), FIXED);
    }

    #[test]
    fn the_origin_of_the_clock_does_not_matter() {
        for origin in [0, (1 << 32) - 100, 1 << 63] {
            let sent = Instant::from_nanos(origin);
            let now = sent + Duration::from_millis(90);
            assert_eq!(judge(now, sent, 0, FIXED), Verdict::Lost(LossTrigger::TimeThreshold));
        }
    }
}
