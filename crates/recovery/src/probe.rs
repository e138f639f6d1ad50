//! When silence means something: the probe timeout, and persistent congestion (RFC 9002 sections 6.2 and 7.6).

use thalweg_units::{Duration, Instant};

use crate::config::ProbePolicy;
use crate::rtt::Rtt;

/// How many probe timeouts without any delivery amount to persistent congestion (kPersistentCongestionThreshold, RFC 9002 section
/// 7.6.1).
///
/// Less mistakes a short outage for it, more keeps sending into a dead path for longer.
const PERSISTENT_CONGESTION_THRESHOLD: u32 = 3;

/// Doublings beyond which the probe timeout no longer grows; 2^20 times the shortest is weeks.
const MAX_DOUBLINGS: u32 = 20;

/// How long after the last ack-eliciting packet to probe, after `count` probe timeouts in a row.
///
/// `ack_delay` is the peer's maximum in the space of application data, and zero in the others, whose packets are acknowledged at once.
pub(crate) fn timeout(policy: ProbePolicy, rtt: &Rtt, ack_delay: Duration, count: u32) -> Duration {
    match policy {
        // MUST double at each expiry (RFC 9002 section 6.2.1).
        ProbePolicy::Rfc => rtt.probe_base().saturating_add(ack_delay).saturating_mul(1 << count.min(MAX_DOUBLINGS)),
    }
}

/// How far apart two lost packets with nothing delivered between them have to be sent to prove persistent congestion.
pub(crate) fn persistent_congestion_duration(rtt: &Rtt, max_ack_delay: Duration) -> Duration {
    rtt.probe_base().saturating_add(max_ack_delay).saturating_mul(PERSISTENT_CONGESTION_THRESHOLD)
}

/// A run of lost packets with nothing delivered between them, in one space on one path.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct LossRun {
    /// When the first ack-eliciting packet of the run was sent.
    start: Option<Instant>,
    /// Something sent then, in another space, was delivered: a run cannot span it.
    delivered_elsewhere: Option<Instant>,
}

impl LossRun {
    /// The next packet in order was lost. Answers whether the run now proves persistent congestion.
    ///
    /// Only ack-eliciting packets count, and only those sent after the first RTT sample (RFC 9002 section 7.6.2).
    pub(crate) fn on_lost(&mut self, sent: Instant, first_sample: Option<Instant>, duration: Duration) -> bool {
        if first_sample.is_none_or(|first| sent <= first) {
            return false;
        }
        let is_cut = |start: Instant| self.delivered_elsewhere.is_some_and(|at| start <= at);
        let start = self.start.filter(|start| !is_cut(*start)).unwrap_or(sent);
        let established = sent.saturating_since(start) > duration;
        self.start = (!established).then_some(start);
        established
    }

    /// The next packet in order was acknowledged.
    pub(crate) fn on_delivered(&mut self) {
        self.start = None;
    }

    /// A packet sent at `sent` was acknowledged: one of the run after all, or one in another space.
    pub(crate) fn on_delivered_elsewhere(&mut self, sent: Instant) {
        self.delivered_elsewhere = self.delivered_elsewhere.max(Some(sent));
        if self.start.is_some_and(|start| start <= sent) {
            self.start = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RttPolicy;
    use crate::rtt::Sample;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Smoothed 100 ms, variation 50 ms: a probe base of 300 ms.
    fn sampled() -> Rtt {
        let mut rtt = Rtt::new(RttPolicy::Classic, ms(333));
        rtt.on_sample(Sample { now: at(0), latest: ms(100), ack_delay: ms(0) });
        rtt
    }

    #[test]
    fn rfc9002_6_2_1_pto_is_smoothed_plus_four_variations_plus_ack_delay() {
        assert_eq!(timeout(ProbePolicy::Rfc, &sampled(), ms(25), 0), ms(325));
        assert_eq!(timeout(ProbePolicy::Rfc, &sampled(), ms(0), 0), ms(300));
    }

    #[test]
    fn rfc9002_6_2_2_before_a_sample_the_timeout_is_999_ms() {
        assert_eq!(timeout(ProbePolicy::Rfc, &Rtt::new(RttPolicy::Classic, ms(333)), ms(0), 0), ms(999));
    }

    #[test]
    fn rfc9002_6_2_1_the_timeout_doubles_at_each_expiry() {
        for (count, expected) in [(1, 650), (2, 1_300), (3, 2_600), (4, 5_200)] {
            assert_eq!(timeout(ProbePolicy::Rfc, &sampled(), ms(25), count), ms(expected));
        }
        assert!(timeout(ProbePolicy::Rfc, &sampled(), ms(25), u32::MAX) < Duration::from_secs(4_000_000));
    }

    /// recovery.md 1.6: base 1 s, silence from 0 to 10 s: probes at 1, 3, 7 and 15 s.
    #[test]
    fn rfc9002_6_2_1_each_doubling_counts_from_the_last_probe() {
        let mut rtt = Rtt::new(RttPolicy::Classic, ms(333));
        rtt.smoothed = ms(1_000);
        rtt.variation = ms(0);
        let base = timeout(ProbePolicy::Rfc, &rtt, ms(0), 0);
        assert_eq!(base, ms(1_001), "the granularity is in it");
        let mut now = Duration::ZERO;
        let probes: Vec<u64> = (0..4)
            .map(|count| {
                now += timeout(ProbePolicy::Rfc, &rtt, ms(0), count);
                now.as_secs()
            })
            .collect();
        assert_eq!(probes, [1, 3, 7, 15]);
    }

    #[test]
    fn rfc9002_7_6_1_the_duration_includes_the_ack_delay_in_every_space() {
        assert_eq!(persistent_congestion_duration(&sampled(), ms(25)), ms(975));
    }

    fn run(packets: &[(u64, bool)], duration: u64) -> bool {
        let mut run = LossRun::default();
        packets.iter().any(|(sent, lost)| match lost {
            true => run.on_lost(at(*sent), Some(at(0)), ms(duration)),
            false => {
                run.on_delivered();
                false
            }
        })
    }

    #[test]
    fn rfc9002_7_6_2_the_span_has_to_exceed_the_duration() {
        assert!(!run(&[(1, true), (7, true)], 6));
        assert!(run(&[(1, true), (8, true)], 6));
    }

    /// The example of section 7.6.3: sends at 0 … 6 s, probes at 8 and 12 s; #1 and #9 acknowledged, the rest lost.
    #[test]
    fn rfc9002_7_6_3_example() {
        let mut lost: Vec<(u64, bool)> = (1..=6).map(|second| (second, true)).collect();
        lost.push((8, true));
        assert!(run(&lost, 6), "8 - 1 = 7 > 6");
        assert!(!run(&lost, 7));
    }

    #[test]
    fn rfc9002_7_6_2_nothing_between_may_have_been_acknowledged() {
        assert!(!run(&[(1, true), (4, false), (8, true)], 6));
        assert!(run(&[(1, true), (4, false), (5, true), (12, true)], 6));
    }

    #[test]
    fn rfc9002_7_6_2_packets_sent_before_the_first_sample_do_not_count() {
        let mut run = LossRun::default();
        assert!(!run.on_lost(at(5), None, ms(1)));
        assert!(!run.on_lost(at(9), None, ms(1)));
        assert!(!run.on_lost(at(10), Some(at(10)), ms(1)));
        assert!(!run.on_lost(at(11), Some(at(10)), ms(1)));
        assert!(run.on_lost(at(13), Some(at(10)), ms(1)));
    }

    #[test]
    fn rfc9002_7_6_2_a_delivery_in_another_space_interrupts_too() {
        let mut run = LossRun::default();
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        run.on_delivered_elsewhere(at(4));
        assert!(!run.on_lost(at(8), Some(at(0)), ms(6)));
        // Also when it became known before the first loss did.
        let mut run = LossRun::default();
        run.on_delivered_elsewhere(at(4));
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        assert!(!run.on_lost(at(8), Some(at(0)), ms(6)));
        assert!(run.on_lost(at(15), Some(at(0)), ms(6)));
    }

    #[test]
    fn one_run_is_reported_once() {
        let mut run = LossRun::default();
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        assert!(run.on_lost(at(8), Some(at(0)), ms(6)));
        assert!(!run.on_lost(at(9), Some(at(0)), ms(6)));
    }
}
