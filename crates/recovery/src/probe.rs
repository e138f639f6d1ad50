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

/// The longest a ladder waits between probes, as a divisor of the idle timeout.
///
/// A silence that ends is noticed half of this late on average, and what was lost arrives one and a half round trips after that. 32 makes both
/// together about half a second of the usual 30 s of idle timeout; doubling it halves the lateness and doubles the probes into a dead path.
const LADDER_CAP: u32 = 32;

/// A ladder doubles until it waits this share of the idle timeout: so far a congested path cannot be told from a dead one.
const LADDER_DOUBLES: u32 = 60;

/// From there on a ladder waits a quarter of the silence so far: what a probe finds out late stays in proportion to what was lost anyway.
const LADDER_SHARE: u32 = 4;

/// Probes of a ladder that are sent twice, as RFC 9002 section 6.2.4 allows, against the loss of one of them; a dead path swallows both.
const LADDER_TWINS: u32 = 3;

/// How long after the last ack-eliciting packet, or the last probe, to probe, after `count` probe timeouts in a row.
///
/// `base` is the timeout without backoff. It includes the peer's maximum ACK delay in the space of application data; in the others
/// packets are acknowledged at once. `idle_timeout` is what the endpoints agreed on; without one there is nothing to take a share of, and
/// every policy doubles.
///
/// | `probe=` | waits |
/// |---|---|
/// | `rfc` | `base × 2^count` (RFC 9002 section 6.2.1: MUST double) |
/// | `capped/n` | the same, but no more than `max(idle / n, base)` |
/// | `ladder` | `min(base × 2^count, max(silence / 4, idle / 60))`, but no more than `idle / 32` and no less than `base` |
///
/// Doubling is for a path that may be congested. Once silence has lasted many round trips that is not the question any more; it is when
/// the path comes back, and the idle timeout says how long the application is prepared to wait for it. The floor matters: a cap below
/// `base` would probe before an answer can have come.
pub(crate) fn timeout(policy: ProbePolicy, base: Duration, idle_timeout: Option<Duration>, count: u32) -> Duration {
    let doubled = base.saturating_mul(1 << count.min(MAX_DOUBLINGS));
    let Some(idle) = idle_timeout else {
        return doubled;
    };
    match policy {
        ProbePolicy::Rfc => doubled,
        ProbePolicy::Capped8 => doubled.min((idle / 8).max(base)),
        ProbePolicy::Capped16 => doubled.min((idle / 16).max(base)),
        ProbePolicy::Capped32 => doubled.min((idle / 32).max(base)),
        ProbePolicy::Ladder => ladder(base, idle, count),
    }
}

/// The step of the ladder after `count` others. Every step is at least a share of the silence, so that the walk ends at the cap after a few
/// dozen, whatever `count` is.
fn ladder(base: Duration, idle: Duration, count: u32) -> Duration {
    let cap = (idle / LADDER_CAP).max(base);
    let mut silence = Duration::ZERO;
    let mut step = base;
    for steps in 1..=count {
        if step == cap {
            break;
        }
        silence += step;
        let doubled = base.saturating_mul(1 << steps.min(MAX_DOUBLINGS));
        step = doubled.min((silence / LADDER_SHARE).max(idle / LADDER_DOUBLES)).clamp(base, cap);
    }
    step
}

/// How many datagrams to send at the `count`-th expiry in a row (RFC 9002 section 6.2.4: at least one, at most two).
pub(crate) fn datagrams(policy: ProbePolicy, count: u32) -> u8 {
    match policy {
        ProbePolicy::Ladder if count > LADDER_TWINS => 1,
        _ => 2,
    }
}

/// How far apart two lost packets with nothing delivered between them have to be sent to prove persistent congestion.
pub(crate) fn persistent_congestion_duration(rtt: &Rtt, max_ack_delay: Duration) -> Duration {
    rtt.persistence_base().saturating_add(max_ack_delay).saturating_mul(PERSISTENT_CONGESTION_THRESHOLD)
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
    use proptest::prelude::*;

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

    const POLICIES: [ProbePolicy; 5] =
        [ProbePolicy::Rfc, ProbePolicy::Capped8, ProbePolicy::Capped16, ProbePolicy::Capped32, ProbePolicy::Ladder];

    #[test]
    fn rfc9002_6_2_1_pto_is_smoothed_plus_four_variations() {
        assert_eq!(sampled().probe_base(), ms(300));
        for policy in POLICIES {
            assert_eq!(timeout(policy, ms(325), Some(Duration::from_secs(30)), 0), ms(325));
        }
    }

    #[test]
    fn rfc9002_6_2_2_before_a_sample_the_timeout_is_999_ms() {
        assert_eq!(Rtt::new(RttPolicy::Classic, ms(333)).probe_base(), ms(999));
    }

    #[test]
    fn rfc9002_6_2_1_the_timeout_doubles_at_each_expiry() {
        for policy in POLICIES {
            for (count, expected) in [(1, 650), (2, 1_300), (3, 2_600), (4, 5_200)] {
                assert_eq!(timeout(policy, ms(325), None, count), ms(expected), "{policy}: without an idle timeout");
            }
            assert!(timeout(policy, ms(325), None, u32::MAX) < Duration::from_secs(4_000_000));
        }
        assert_eq!(timeout(ProbePolicy::Rfc, ms(325), Some(Duration::from_secs(1)), 4), ms(5_200));
    }

    /// When the probes of a silence from 0 on are sent, in milliseconds, up to the first at or after `until`.
    fn probes(policy: ProbePolicy, base: u64, idle: u64, until: u64) -> Vec<u64> {
        let mut now = Duration::ZERO;
        let mut times = Vec::new();
        while now < ms(until) {
            now += timeout(policy, ms(base), Some(ms(idle)), times.len() as u32);
            times.push(now.as_millis() as u64);
        }
        times
    }

    /// recovery.md 1.6: base 1 s, silence from 0 to 10 s.
    #[test]
    fn rfc9002_6_2_1_each_doubling_counts_from_the_last_probe() {
        assert_eq!(probes(ProbePolicy::Rfc, 1_000, 30_000, 10_000), [1_000, 3_000, 7_000, 15_000]);
    }

    /// The same silence, with the cap of a sixteenth: idle timeouts of 30, 60 and 16 s.
    #[test]
    fn a_cap_of_a_sixteenth_probes_a_cut_within_a_sixteenth_of_the_idle_timeout() {
        let capped = |idle| probes(ProbePolicy::Capped16, 1_000, idle, 10_000);
        assert_eq!(capped(30_000), [1_000, 2_875, 4_750, 6_625, 8_500, 10_375]);
        assert_eq!(capped(60_000), [1_000, 3_000, 6_750, 10_500]);
        assert_eq!(capped(16_000), [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000]);
    }

    #[test]
    fn the_share_of_the_cap_is_in_the_name() {
        for (policy, cap) in
            [(ProbePolicy::Capped8, 3_750_000), (ProbePolicy::Capped16, 1_875_000), (ProbePolicy::Capped32, 937_500)]
        {
            let idle = Some(Duration::from_secs(30));
            assert_eq!(timeout(policy, ms(100), idle, 20), Duration::from_micros(cap), "{policy}");
        }
    }

    #[test]
    fn a_cap_below_the_timeout_itself_leaves_the_timeout() {
        // An idle timeout of 2 s would make the cap 125 ms.
        for policy in [ProbePolicy::Capped16, ProbePolicy::Capped32, ProbePolicy::Ladder] {
            for count in [0, 1, 5, 100] {
                assert_eq!(timeout(policy, ms(400), Some(ms(2_000)), count), ms(400), "{policy}");
            }
        }
    }

    #[test]
    fn a_ladder_doubles_then_grows_by_a_quarter_of_the_silence_and_stops_at_a_thirty_second_of_the_idle_timeout() {
        let expected =
            [100, 300, 700, 1_200, 1_700, 2_200, 2_750, 3_437, 4_296, 5_234, 6_171, 7_109, 8_046, 8_984, 9_921, 10_859];
        assert_eq!(probes(ProbePolicy::Ladder, 100, 30_000, 10_000), expected);
    }

    #[test]
    fn thirty_seconds_of_darkness_cost_a_ladder_about_forty_datagrams() {
        for base in [30, 75, 100, 175, 325, 1_000] {
            let probes = probes(ProbePolicy::Ladder, base, 30_000, 30_000);
            let sent = probes.iter().filter(|time| **time <= 30_000).count();
            let datagrams: u32 = (1..=sent as u32).map(|count| u32::from(datagrams(ProbePolicy::Ladder, count))).sum();
            assert!(datagrams <= 40, "{datagrams} datagrams at a timeout of {base} ms: {probes:?}");
        }
    }

    #[test]
    fn rfc9002_6_2_4_a_ladder_sends_two_datagrams_three_times_and_then_one() {
        let sent = |policy| (1..=5).map(|count| datagrams(policy, count)).collect::<Vec<_>>();
        assert_eq!(sent(ProbePolicy::Ladder), [2, 2, 2, 1, 1]);
        assert_eq!(sent(ProbePolicy::Rfc), [2; 5]);
        assert_eq!(sent(ProbePolicy::Capped16), [2; 5]);
    }

    proptest! {
        #[test]
        fn the_gap_is_never_above_the_cap_nor_below_the_timeout_without_backoff(
            policy in prop::sample::select(POLICIES.to_vec()),
            base in 1u64..10_000_000,
            idle in 1u64..600_000_000,
            count in 0u32..200,
        ) {
            let (base, idle) = (Duration::from_micros(base), Duration::from_micros(idle));
            let gap = timeout(policy, base, Some(idle), count);
            let cap = match policy {
                ProbePolicy::Rfc => Duration::MAX,
                ProbePolicy::Capped8 => idle / 8,
                ProbePolicy::Capped16 => idle / 16,
                ProbePolicy::Capped32 => idle / 32,
                ProbePolicy::Ladder => idle / 32,
            };
            prop_assert!(gap >= base);
            prop_assert!(gap <= cap.max(base));
            prop_assert!(gap <= timeout(policy, base, Some(idle), count + 1), "and never shrinks");
            prop_assert!(gap <= timeout(ProbePolicy::Rfc, base, Some(idle), count), "nor exceeds that of the RFC");
        }
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
