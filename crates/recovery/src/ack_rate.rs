//! The rate of acknowledgments requested from the peer (ACK_FREQUENCY, draft-ietf-quic-ack-frequency-12).
//!
//! At two packets per ACK, 250 Mbps of data need 5.3 Mbps of ACKs the other way, more than many an uplink has. A few
//! ACKs per window keep loss detection and growth as quick as they need to be. What we send ourselves is the
//! transport's business.
//!
//! | `ack-rate=` | ACKs per window while the controller learns what the path carries | afterwards |
//! |---|---|---|
//! | `off` | not asked for | not asked for |
//! | `phased` | 16 | 8 |
//! | `phased(opening=n, later=m)` | n | m |
//!
//! **Thin return paths.** While the controller learns, and ACKs wait for each other on the return path by the clock of
//! a receiver that reports arrivals, as many are asked for as it carries in half of the shortest round trip. That is at
//! least two per window.
//!
//! The longest delay is the same share of the smoothed round-trip time, so that a window that shrinks, or a flow that
//! pauses, keeps its feedback before the next request arrives. No request asks for less than the RFC's rule gives:
//! every second packet stays the most, and the delay never exceeds what the peer has announced.
//!
//! **Reordering threshold.** A detector that counts packets asks for its own count. One that waits (`rack`,
//! `time-only`) can do nothing with a gap before its wait is over; it asks for as many packets as arrive during the
//! wait. The ACK that reveals the gap then arrives when the detector may act on it, and packets that are merely late
//! bring none. Where regular ACKs come more often than that, it asks for none because of gaps: when a queue overflows,
//! every packet would show a gap, and ACKs would flood the uplink while they matter most.

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt};

use crate::path::Path;
use crate::policies::{AckRatePolicy, PhasedParameters};

/// The most packets per ACK. More saves little, and makes a lost ACK cost more: at 1 Gbps there are 1,300 ACKs per
/// second.
const MAX_PACKETS: u64 = 64;

/// Where ACKs wait in a queue of the return path, as many are asked for as it carries in one part in so many of the
/// shortest round trip. With one, the queue would stay as it is; more would slow down the start.
const RETURN_SHARE: u64 = 2;

/// No fewer ACKs per window are asked for on that account.
const LEAST: u8 = 2;

/// The longest delay that is asked for. On longer paths 40 ACKs per second cost 20 kbps, so that more delay saves
/// nothing, and the probe timer would have to wait for it.
const MAX_DELAY: Duration = Duration::from_millis(25);

/// A gap of fewer packets is not worth an ACK to a detector that waits: RFC 9002 section 6.1.1 takes it for reordering.
const LEAST_REORDERING: u64 = 3;

/// What to put into an ACK_FREQUENCY frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// Ack-Eliciting Threshold: how many ack-eliciting packets may stay unacknowledged. 1 asks for every second one.
    pub ack_eliciting_threshold: u64,
    /// Requested Max Ack Delay: the longest that an acknowledgment may be held back. Whole microseconds count.
    pub max_ack_delay: Duration,
    /// Reordering Threshold: how far apart a missing and a received packet are that bring an ACK at once; 0 if none
    /// are.
    pub reordering_threshold: u64,
}

/// What the peer has said about its acknowledgments.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckLimits {
    /// Its min_ack_delay transport parameter: it refuses to be asked for less.
    pub min_ack_delay: Duration,
    /// Its max_ack_delay transport parameter: what it does without a request.
    pub max_ack_delay: Duration,
}

impl AckRequest {
    /// Whether this request differs so much from `other` that it is worth a frame: by more than a third in packets, or
    /// more than a quarter in time, or by half in the reordering threshold.
    pub fn differs_noticeably(&self, other: &AckRequest) -> bool {
        let apart = |a: u64, b: u64, share: u64| u128::from(a.abs_diff(b)) * u128::from(share) > u128::from(a.max(b));
        let micros = |request: &AckRequest| u64::try_from(request.max_ack_delay.as_micros()).unwrap_or(u64::MAX);
        let packets = |request: &AckRequest| request.ack_eliciting_threshold.saturating_add(1);
        apart(packets(self), packets(other), 3)
            || apart(micros(self), micros(other), 4)
            || apart(self.reordering_threshold, other.reordering_threshold, 2)
    }
}

/// What suits `path` as it is now; `None` if the policy asks for nothing, or nothing is known of the path yet. To be
/// sent when it [differs noticeably](AckRequest::differs_noticeably) from what was sent before.
pub fn request(policy: AckRatePolicy, path: &Path, peer: AckLimits) -> Option<AckRequest> {
    let (dense, sparse) = match policy {
        AckRatePolicy::Off => return None,
        AckRatePolicy::Phased(PhasedParameters { opening, later }) => (opening.get(), later.get()),
    };
    let rtt = path.rtt();
    if !rtt.has_sample {
        return None;
    }
    let per_window = match path.wants_dense_acks() {
        true => path.ack_spacing().map_or(dense, |spacing| within(dense, rtt.min, spacing)),
        false => sparse,
    };
    let window = path.window() / u64::from(path.datagram_size().max(1));
    let packets = (window / u64::from(per_window)).clamp(2, MAX_PACKETS);
    let longest = MAX_DELAY.min(peer.max_ack_delay).max(peer.min_ack_delay);
    let delay = (rtt.smoothed / u32::from(per_window)).clamp(peer.min_ack_delay, longest);
    Some(AckRequest {
        ack_eliciting_threshold: packets - 1,
        max_ack_delay: delay,
        reordering_threshold: reordering_threshold(path, window, packets),
    })
}

/// Of `wanted` ACKs per window, those that the return path carries in its share of a round trip, if each takes
/// `spacing` there.
fn within(wanted: u8, min_rtt: Duration, spacing: Duration) -> u8 {
    let room = min_rtt.nanos() / spacing.nanos().saturating_mul(RETURN_SHARE).max(1);
    wanted.min(u8::try_from(room).unwrap_or(u8::MAX).max(LEAST))
}

/// The distance at which a gap is worth an ACK of its own, with `window` datagrams per round trip and an ACK for every
/// `packets`; 0 if none is.
fn reordering_threshold(path: &Path, window: u64, packets: u64) -> u64 {
    let thresholds = path.thresholds(window);
    thresholds.packets.unwrap_or_else(|| {
        let rtt = path.rtt();
        let round_trip = rtt.smoothed.max(rtt.latest);
        let wait = thresholds.time.saturating_sub(round_trip).nanos();
        let arriving = mul_div(window, wait, round_trip.nanos().max(1)).max(LEAST_REORDERING);
        if arriving < packets { arriving } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Number;
    use crate::config::Config;
    use crate::rtt::Sample;
    use crate::types::{NewPath, PathId};
    use crate::{Allowance, Change, Congestion, PathContext, PathView, Policies};
    use thalweg_units::Instant;

    const PEER: AckLimits =
        AckLimits { min_ack_delay: Duration::from_millis(1), max_ack_delay: Duration::from_millis(25) };

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A path whose round trip was measured, with a window of so many datagrams.
    fn path(policies: &str, window: u64, rtt: Duration, is_dense: bool) -> Path {
        let mut policies: Policies = policies.parse().unwrap();
        policies.congestion = Congestion::Custom(std::sync::Arc::new(Fixed { window, is_dense }));
        let mut path = Path::new(
            &Config { policies, ..Config::default() },
            PathId(0),
            Instant::ZERO,
            NewPath { initial_rtt: None, ..NewPath::new(1_200) },
        );
        path.on_rtt_sample(Sample::prompt(Instant::ZERO + rtt, rtt));
        path
    }

    fn phased(opening: u8, later: u8) -> AckRatePolicy {
        AckRatePolicy::Phased(PhasedParameters { opening: Number::clamped(opening), later: Number::clamped(later) })
    }

    fn asked(policy: AckRatePolicy, window: u64, rtt: Duration, is_dense: bool) -> AckRequest {
        request(policy, &path("", window, rtt, is_dense), PEER).unwrap()
    }

    #[test]
    fn while_it_learns_a_controller_gets_at_least_four_acks_per_window_and_no_fewer_than_afterwards() {
        for policy in [phased(4, 4), phased(16, 8), phased(4, 2)] {
            for window in [2, 10, 40, 100, 1_000, 100_000] {
                for rtt in [ms(1), ms(20), ms(600)] {
                    let dense = asked(policy, window, rtt, true);
                    let sparse = asked(policy, window, rtt, false);
                    let what = format!("{policy}, {window} datagrams, {rtt:?}: {dense:?}, {sparse:?}");
                    let packets = dense.ack_eliciting_threshold + 1;
                    assert!(packets * 4 <= window || packets == 2, "{what}");
                    assert!(dense.max_ack_delay * 4 <= rtt || dense.max_ack_delay == PEER.min_ack_delay, "{what}");
                    assert!(dense.ack_eliciting_threshold <= sparse.ack_eliciting_threshold, "{what}");
                    assert!(dense.max_ack_delay <= sparse.max_ack_delay, "{what}");
                }
            }
        }
    }

    #[test]
    fn a_small_window_is_acknowledged_no_later_than_without_a_request() {
        for policy in [phased(4, 4), phased(16, 8), phased(4, 2)] {
            for window in 2..=4 {
                for rtt in [Duration::ZERO, ms(1), ms(100), ms(10_000)] {
                    for peer in [PEER, AckLimits { max_ack_delay: ms(5), ..PEER }] {
                        let asked = request(policy, &path("", window, rtt, false), peer).unwrap();
                        assert_eq!(asked.ack_eliciting_threshold, 1, "every second packet");
                        assert!(asked.max_ack_delay <= peer.max_ack_delay);
                    }
                }
            }
        }
    }

    #[test]
    fn no_request_asks_for_less_delay_than_the_peer_accepts() {
        let min_ack_delay = ms(20);
        let asked = request(phased(16, 8), &path("", 100, ms(8), true), AckLimits { min_ack_delay, ..PEER }).unwrap();
        assert_eq!(asked.max_ack_delay, min_ack_delay);
    }

    #[test]
    fn no_more_acks_are_asked_for_than_a_thin_return_path_carries_in_half_a_round_trip() {
        assert_eq!(within(16, ms(150), ms(13)), 5);
        assert_eq!(within(16, ms(150), ms(1)), 16, "never more than the policy has");
        assert_eq!(within(4, ms(150), ms(13)), 4);
        assert_eq!(within(16, ms(20), ms(40)), LEAST);
        assert_eq!(within(16, Duration::MAX, Duration::ZERO), 16);
    }

    #[test]
    fn nothing_is_asked_for_without_a_policy_or_a_round_trip_time() {
        assert_eq!(request(AckRatePolicy::Off, &path("", 100, ms(8), true), PEER), None);
        let fresh = Path::new(&Config::default(), PathId(0), Instant::ZERO, NewPath::new(1_200));
        assert_eq!(request(phased(16, 8), &fresh, PEER), None);
    }

    #[test]
    fn three_megabits_of_uplink_carry_the_acks_of_a_quarter_of_a_gigabit() {
        // 250 Mbps and 600 ms; 80 bytes per ACK with all headers.
        let window = 250_000_000 / 8 / 1_480 * 600 / 1_000;
        for (policy, most) in [(phased(16, 8), 300_000), (phased(4, 2), 300_000)] {
            let asked = asked(policy, window, ms(600), true);
            let acks_per_second = 250_000_000 / 8 / 1_480 / (asked.ack_eliciting_threshold + 1);
            assert!(acks_per_second * 80 * 8 <= most, "{policy}: {acks_per_second} ACKs per second");
        }
    }

    #[test]
    fn the_reordering_threshold_is_that_of_a_detector_that_counts_packets() {
        for (policy, threshold) in [
            ("fixed", 3),
            ("adaptive", 3),
            #[cfg(feature = "study")]
            ("half-in-flight", 50),
        ] {
            let path = path(&format!("reordering={policy}"), 100, ms(40), false);
            for packets in [2, 1_000] {
                assert_eq!(reordering_threshold(&path, 100, packets), threshold, "{policy}");
            }
        }
    }

    #[test]
    fn the_reordering_threshold_of_a_detector_that_waits_is_what_arrives_during_the_wait() {
        for policy in ["time-only", "rack"] {
            for (window, rtt) in [(800, ms(40)), (80, ms(600)), (8_000, ms(10))] {
                let path = path(&format!("reordering={policy}"), window, rtt, false);
                let threshold = reordering_threshold(&path, window, u64::MAX);
                assert_eq!(reordering_threshold(&path, window, threshold + 1), threshold);
                assert_eq!(reordering_threshold(&path, window, threshold), 0, "regular ACKs are as frequent");
                // One more packet than the threshold arrives when the wait of an eighth of a round trip is over.
                let after = rtt * u32::try_from(threshold).unwrap() / u32::try_from(window).unwrap();
                let wait = path.thresholds(window).time - rtt;
                assert!(after <= wait && after + rtt / u32::try_from(window).unwrap() >= wait, "{policy}: {after:?}");
            }
            assert_eq!(reordering_threshold(&path(&format!("reordering={policy}"), 4, ms(40), false), 4, 9), 3);
        }
    }

    #[test]
    fn a_request_is_repeated_when_it_has_changed_noticeably() {
        let first = AckRequest { ack_eliciting_threshold: 9, max_ack_delay: ms(20), reordering_threshold: 8 };
        assert!(!first.differs_noticeably(&first));
        for (packets, delay, reordering, differs) in [
            (10, ms(20), 8, false),
            (13, ms(20), 8, false),
            (15, ms(20), 8, true),
            (5, ms(20), 8, true),
            (9, ms(25), 8, false),
            (9, ms(27), 8, true),
            (9, ms(14), 8, true),
            (9, ms(20), 5, false),
            (9, ms(20), 17, true),
            (9, ms(20), 0, true),
            (u64::MAX, ms(20), 8, true),
        ] {
            let other =
                AckRequest { ack_eliciting_threshold: packets, max_ack_delay: delay, reordering_threshold: reordering };
            assert_eq!(first.differs_noticeably(&other), differs, "{other:?}");
            assert_eq!(other.differs_noticeably(&first), differs, "{other:?}");
        }
    }

    #[derive(Debug)]
    struct Fixed {
        window: u64,
        is_dense: bool,
    }

    impl crate::Controller for Fixed {
        fn on_ack(&mut self, _event: &crate::AckEvent<'_>) -> Change {
            Change::None
        }

        fn on_datagram_size(&mut self, _size: u16) {}

        fn allowance(&self, _path: &PathView<'_>) -> Allowance {
            Allowance::new(self.window * 1_200, None, 1_200)
        }

        fn wants_dense_acks(&self) -> bool {
            self.is_dense
        }
    }

    impl crate::ControllerFactory for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn build(&self, _: &PathContext) -> Box<dyn crate::Controller> {
            Box::new(Fixed { ..*self })
        }
    }
}
