//! The probe timeout, and persistent congestion (RFC 9002 sections 6.2 and 7.6).

use smallvec::SmallVec;
use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Instant};

use crate::policies::{CappedParameters, ProbePolicy};
use crate::rtt::Rtt;

/// How many probe timeouts without any delivery amount to persistent congestion (kPersistentCongestionThreshold, RFC
/// 9002 section 7.6.1).
///
/// Less mistakes a short outage for it, more keeps sending into a dead path for longer.
const PERSISTENT_CONGESTION_THRESHOLD: u32 = 3;

/// Doublings beyond which the probe timeout no longer grows; 2^20 times the shortest is weeks.
const MAX_DOUBLINGS: u32 = 20;

/// The longest a ladder waits between probes, as a divisor of the idle timeout.
///
/// A silence that ends is noticed half of this late on average, and what was lost arrives one and a half round trips
/// after that. 32 makes both together about half a second of the usual 30 s of idle timeout; doubling it halves the
/// lateness and doubles the probes into a dead path.
const LADDER_CAP: u32 = 32;

/// Where a thirty-second of the idle timeout is too short to back off at all, a ladder waits up to so many times the
/// timeout without backoff, …
const LADDER_BACKOFF: u32 = 4;

/// … but no longer than this share of the idle timeout.
const LADDER_LONGEST: u32 = 8;

/// A ladder doubles until it waits this share of the idle timeout: so far a congested path cannot be told from a dead
/// one.
const LADDER_DOUBLES: u32 = 60;

/// Where the timeout without backoff is less than this share of the idle timeout, a ladder grows eightfold from the
/// third wait on: on a path of a few milliseconds, doubling alone would spend a dozen probes before it reaches half a
/// second.
const LADDER_SHORT: u32 = 1_000;

/// From there on a ladder waits a quarter of the silence so far: what a probe finds out late stays in proportion to
/// what was lost anyway.
const LADDER_SHARE: u32 = 4;

/// Probes of a ladder that are sent twice, as RFC 9002 section 6.2.4 allows, against the loss of one of them; a dead
/// path swallows both.
const LADDER_TWINS: u32 = 2;

/// How long before the idle timeout a ladder's last useful probe leaves, in timeouts without backoff: late enough to
/// find a path that comes back at the last moment, early enough for the answer and one repeat of it.
const LADDER_LAST_CALL: u32 = 3;

/// The longest wait on a crowded path, as a divisor of the idle timeout.
///
/// Two hundred flows on 1 Mbps that each probe every second with one datagram offer twice what the link carries,
/// whatever their windows say. A tenth leaves a dozen probes within the idle timeout, so that two of three may be lost.
/// An eighth gains 1.5 % of goodput and loses three times as many connections, a twelfth the reverse
/// (`scenarios/outage/crowd.toml`).
const CROWD_CAP: u32 = 10;

/// How far the longest wait on a crowded path is drawn apart, in millionths of it: flows that probe in step lose in
/// step.
const CROWD_SPREAD: core::ops::RangeInclusive<u64> = 750_000..=1_250_000;

/// What the waits of a silence depend on.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Silence {
    /// The timeout without backoff. In the space of application data it includes the peer's maximum ACK delay as far as
    /// the timer allows for it; in the others packets are acknowledged at once.
    pub(crate) base: Duration,
    /// What the endpoints agreed on, or our own until they have. Without one there is nothing to take a share of, and
    /// every policy doubles.
    pub(crate) idle_timeout: Option<Duration>,
    /// The path was losing much before it fell silent; then this is what waits are drawn from.
    pub(crate) crowd: Option<u64>,
}

/// How long after the last ack-eliciting packet, or the last probe, to probe, after `count` probe timeouts in a row.
///
/// | `probe=` | waits |
/// |---|---|
/// | `rfc` | `base × 2^count` (RFC 9002 section 6.2.1: MUST double) |
/// | `capped(divisor=n)` | the same, but no more than `max(idle / n, base)` |
/// | `ladder` | `base`, `2 base`, then `min(base × 2^count` (`8^count / 4` on short paths)`, max(silence / 4, idle / 60))`, but no more than `max(idle / 32, min(4 base, idle / 8))` and never less than the wait before |
/// | `ladder`, crowded | as `rfc`, but no more than `idle / 10`, drawn between 0.75 and 1.25 of it |
///
/// Doubling is for a path that may be congested. Once silence has lasted many round trips that is not the question any
/// more; it is when the path comes back, and the idle timeout says how long the application is prepared to wait for it.
/// The floor matters: a cap below `base` would probe before an answer can have come.
///
/// A ladder departs from RFC 9002 section 6.2.1, which doubles. Its waits are shorter once doubling would wait for more
/// than a sixtieth of the idle timeout. They are longer where the timeout without backoff is less than a thousandth of
/// it: there the factor is eight from the third wait on. One wait is cut short so that a probe leaves shortly before or
/// at `idle - 3 base`: the last one whose answer is certain to be in time.
pub(crate) fn timeout(policy: ProbePolicy, silence: Silence, count: u32) -> Duration {
    let Silence { base, idle_timeout, crowd } = silence;
    let Some(idle) = idle_timeout else {
        return doubled(base, count);
    };
    let capped = |cap: Duration| doubled(base, count).min(cap.max(base));
    match policy {
        ProbePolicy::Rfc => doubled(base, count),
        ProbePolicy::Capped(CappedParameters { divisor }) => capped(idle / u32::from(divisor.get())),
        ProbePolicy::Ladder => match crowd {
            Some(seed) => capped(crowd_cap(idle, seed, count)),
            None => ladder(base, idle, count),
        },
    }
}

fn doubled(base: Duration, count: u32) -> Duration {
    base.saturating_mul(1 << count.min(MAX_DOUBLINGS))
}

/// The longest wait on a crowded path at the `count`-th probe: every probe draws anew.
fn crowd_cap(idle: Duration, seed: u64, count: u32) -> Duration {
    let (low, high) = (*CROWD_SPREAD.start(), *CROWD_SPREAD.end());
    let share = low + scatter(seed.wrapping_add(u64::from(count))) % (high - low + 1);
    let nanos = mul_div((idle / CROWD_CAP).nanos(), share, 1_000_000);
    Duration::from_nanos(nanos)
}

/// Turns neighboring numbers into unrelated ones (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
pub(crate) fn scatter(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The wait of the ladder after `count` others. Every wait is at least a share of the silence, so that the walk is past
/// the idle timeout after a few dozen, whatever `count` is.
fn ladder(base: Duration, idle: Duration, count: u32) -> Duration {
    let cap = (idle / LADDER_CAP).max(base.saturating_mul(LADDER_BACKOFF).min(idle / LADDER_LONGEST));
    let last_call = idle.saturating_sub(base.saturating_mul(LADDER_LAST_CALL));
    let is_short = base < idle / LADDER_SHORT;
    let (mut silence, mut step, mut wait) = (Duration::ZERO, base, base);
    for steps in 1..=count {
        silence += wait;
        if silence > idle {
            break;
        }
        let share = (silence / LADDER_SHARE).max(idle / LADDER_DOUBLES);
        let fast = if is_short { doubled(base, (3 * steps).saturating_sub(2)) } else { doubled(base, steps) };
        let next = if steps == 1 { fast } else { fast.min(share).min(cap) };
        step = step.max(next);
        // Where the probe before is close to the last call anyway, nothing is gained.
        let is_cut = !is_short && silence + base.max(step / 2) <= last_call && last_call < silence + step;
        wait = if is_cut { last_call - silence } else { step };
    }
    if silence > idle { step } else { wait }
}

/// How many datagrams to send at the `count`-th expiry in a row (RFC 9002 section 6.2.4: at least one, at most two).
///
/// As long as the endpoints have not agreed on an idle timeout, every probe is one of few, and the handshake waits for
/// it. Into a crowded path a ladder never sends two: it is full because everybody sends.
pub(crate) fn datagrams(policy: ProbePolicy, count: u32, is_idle_timeout_agreed: bool, is_crowded: bool) -> u8 {
    match policy {
        ProbePolicy::Ladder if is_idle_timeout_agreed && (is_crowded || count > LADDER_TWINS) => 1,
        _ => 2,
    }
}

/// How far apart two lost packets with nothing delivered between them have to be sent to prove persistent congestion.
pub(crate) fn persistent_congestion_duration(rtt: &Rtt, max_ack_delay: Duration) -> Duration {
    rtt.persistence_base().saturating_add(max_ack_delay).saturating_mul(PERSISTENT_CONGESTION_THRESHOLD)
}

/// A run of lost packets with nothing delivered between them, in one space on one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossRun {
    /// When the first and the last ack-eliciting packet of the run were sent.
    span: Option<(Instant, Instant)>,
    /// When packets were sent that were delivered in another space, or late: no run spans them. Ascending; those that
    /// no later loss can have before it are left out.
    deliveries: SmallVec<[Instant; 4]>,
}

/// How many deliveries in other spaces a run remembers, the newest ones: spaces other than that of application data
/// live as long as a handshake does.
const MAX_DELIVERIES: usize = 64;

impl LossRun {
    /// The next packet in order was lost. Answers whether the run now proves persistent congestion.
    ///
    /// Only ack-eliciting packets count, and only those sent after the first RTT sample (RFC 9002 section 7.6.2).
    pub(crate) fn on_lost(&mut self, sent: Instant, first_sample: Option<Instant>, duration: Duration) -> bool {
        if first_sample.is_none_or(|first| sent <= first) {
            return false;
        }
        let start = match self.span {
            Some((start, _)) if !self.deliveries.iter().any(|at| (start..=sent).contains(at)) => start,
            _ => sent,
        };
        self.deliveries.retain(|at| *at >= sent);
        let established = sent.saturating_since(start) > duration;
        self.span = (!established).then_some((start, sent));
        established
    }

    /// The next packet in order was acknowledged.
    pub(crate) fn on_delivered(&mut self) {
        self.span = None;
    }

    /// A packet sent at `sent` was acknowledged: one of the run after all, or one in another space. What was sent after
    /// the last packet of the run does not interrupt it, but keeps later losses from joining it.
    pub(crate) fn on_delivered_elsewhere(&mut self, sent: Instant) {
        if let Some((start, _)) = self.span.filter(|(_, end)| sent <= *end) {
            if start <= sent {
                self.span = None;
            }
            return;
        }
        let at = self.deliveries.partition_point(|known| *known < sent);
        if self.deliveries.get(at) != Some(&sent) {
            self.deliveries.insert(at, sent);
            if self.deliveries.len() > MAX_DELIVERIES {
                self.deliveries.remove(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Number;
    use crate::policies::RttPolicy;
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
        rtt.on_sample(Sample::prompt(at(0), ms(100)));
        rtt
    }

    fn idle(base: u64, idle: u64) -> Silence {
        Silence { base: ms(base), idle_timeout: Some(ms(idle)), crowd: None }
    }

    fn without_idle(base: u64) -> Silence {
        Silence { base: ms(base), idle_timeout: None, crowd: None }
    }

    const POLICIES: [ProbePolicy; 5] = [ProbePolicy::Rfc, capped(8), capped(16), capped(32), ProbePolicy::Ladder];

    const fn capped(divisor: u8) -> ProbePolicy {
        ProbePolicy::Capped(CappedParameters { divisor: Number::clamped(divisor) })
    }

    #[test]
    fn rfc9002_6_2_1_pto_is_smoothed_plus_four_variations() {
        assert_eq!(sampled().probe_base(), ms(300));
        for policy in POLICIES {
            assert_eq!(timeout(policy, idle(325, 30_000), 0), ms(325));
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
                assert_eq!(
                    timeout(policy, without_idle(325), count),
                    ms(expected),
                    "{policy}: without an idle timeout"
                );
            }
            assert!(timeout(policy, without_idle(325), u32::MAX) < Duration::from_secs(4_000_000));
        }
        assert_eq!(timeout(ProbePolicy::Rfc, idle(325, 1_000), 4), ms(5_200));
    }

    /// When the probes of a silence from 0 on are sent, in milliseconds, up to the first at or after `until`.
    fn probes(policy: ProbePolicy, base: u64, idle: u64, until: u64) -> Vec<u64> {
        let mut now = Duration::ZERO;
        let mut times = Vec::new();
        while now < ms(until) {
            now += timeout(policy, self::idle(base, idle), times.len() as u32);
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
        let capped = |idle| probes(capped(16), 1_000, idle, 10_000);
        assert_eq!(capped(30_000), [1_000, 2_875, 4_750, 6_625, 8_500, 10_375]);
        assert_eq!(capped(60_000), [1_000, 3_000, 6_750, 10_500]);
        assert_eq!(capped(16_000), [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000]);
    }

    #[test]
    fn the_share_of_the_cap_is_in_the_name() {
        for (policy, cap) in [(capped(8), 3_750_000), (capped(16), 1_875_000), (capped(32), 937_500)] {
            assert_eq!(timeout(policy, idle(100, 30_000), 20), Duration::from_micros(cap), "{policy}");
        }
    }

    #[test]
    fn a_cap_below_the_timeout_itself_leaves_the_timeout() {
        // An idle timeout of 2 s would make the cap 125 ms.
        for count in [0, 1, 5, 100] {
            assert_eq!(timeout(capped(16), idle(400, 2_000), count), ms(400));
        }
    }

    #[test]
    fn a_ladder_doubles_then_grows_by_a_quarter_of_the_silence_and_stops_at_a_thirty_second_of_the_idle_timeout() {
        let expected =
            [100, 300, 700, 1_200, 1_700, 2_200, 2_750, 3_437, 4_296, 5_234, 6_171, 7_109, 8_046, 8_984, 9_921, 10_859];
        assert_eq!(probes(ProbePolicy::Ladder, 100, 30_000, 10_000), expected);
    }

    #[test]
    fn on_a_short_path_a_ladder_grows_eightfold_from_the_third_wait_on() {
        assert_eq!(probes(ProbePolicy::Ladder, 3, 30_000, 1_000), [3, 9, 57, 441, 941, 1_441]);
    }

    /// 10 s at a round trip of 100 ms: a thirty-second of the idle timeout is less than the timeout without backoff.
    #[test]
    fn a_ladder_backs_off_where_its_cap_is_below_the_timeout_itself() {
        let expected = [325, 975, 1_625, 2_275, 2_925, 3_656, 4_570, 5_712, 6_962, 8_212, 9_025];
        assert_eq!(probes(ProbePolicy::Ladder, 325, 10_000, 9_000), expected, "the last at 10 s - 3 x 325 ms");
    }

    /// Nothing is known but our own idle timeout of 30 s; no wait is longer than 3.75 s.
    #[test]
    fn a_ladder_of_a_handshake_probes_often_enough_to_survive_an_outage_of_twenty_four_seconds() {
        let probes = probes(ProbePolicy::Ladder, 1_000, 30_000, 27_000);
        assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= 3_750), "{probes:?}");
        assert!(probes.iter().any(|time| (24_000..=27_000).contains(time)), "{probes:?}");
    }

    const BASES: [u64; 14] = [3, 30, 75, 100, 175, 325, 500, 900, 1_000, 2_000, 3_000, 5_000, 6_000, 7_500];

    #[test]
    fn thirty_seconds_of_outage_cost_a_ladder_at_most_forty_datagrams() {
        for base in (1..100).chain(BASES) {
            let probes = probes(ProbePolicy::Ladder, base, 30_000, 30_000);
            let sent = probes.iter().filter(|time| **time <= 30_000).count() as u32;
            let datagrams: u32 =
                (1..=sent).map(|count| u32::from(datagrams(ProbePolicy::Ladder, count, true, false))).sum();
            assert!(datagrams <= 40, "{datagrams} datagrams at a timeout of {base} ms: {probes:?}");
        }
    }

    #[test]
    fn a_ladder_probes_once_more_when_an_answer_can_still_be_in_time() {
        for base in BASES.into_iter().filter(|base| *base >= 30) {
            let probes = probes(ProbePolicy::Ladder, base, 30_000, 30_000);
            let last_call = 30_000 - 3 * base;
            let last = probes.iter().filter(|time| **time <= last_call).max().unwrap();
            let next = probes.iter().find(|time| **time > last_call).unwrap();
            assert!(
                last_call - last <= (next - last) / 2,
                "timeout {base} ms: none shortly before {last_call} ms: {probes:?}"
            );
        }
    }

    #[test]
    fn rfc9002_6_2_4_a_ladder_sends_two_datagrams_twice_and_then_one() {
        let sent = |policy, agreed| (1..=5).map(|count| datagrams(policy, count, agreed, false)).collect::<Vec<_>>();
        assert_eq!(sent(ProbePolicy::Ladder, true), [2, 2, 1, 1, 1]);
        assert_eq!(sent(ProbePolicy::Ladder, false), [2; 5], "no idle timeout has been agreed on");
        assert_eq!(sent(ProbePolicy::Rfc, true), [2; 5]);
        assert_eq!((1..=5).map(|count| datagrams(ProbePolicy::Ladder, count, true, true)).max(), Some(1), "crowded");
        assert_eq!(sent(capped(16), true), [2; 5]);
    }

    #[test]
    fn on_a_crowded_path_a_ladder_doubles_to_a_tenth_of_the_idle_timeout_drawn_apart() {
        let waits = |seed| {
            let silence = Silence { crowd: Some(seed), ..idle(100, 30_000) };
            (0..20).map(|count| timeout(ProbePolicy::Ladder, silence, count)).collect::<Vec<_>>()
        };
        for seed in 0..50 {
            let waits = waits(seed);
            assert_eq!(waits[..5], [100, 200, 400, 800, 1_600].map(ms));
            let capped = Duration::from_micros(2_250_000)..=Duration::from_micros(3_750_000);
            assert!(waits[6..].iter().all(|wait| capped.contains(wait)), "{waits:?}");
        }
        assert_ne!(waits(1)[6..], waits(2)[6..], "two flows do not probe in step");
        assert_ne!(waits(1)[8], waits(1)[9]);
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
            let silence = Silence { base, idle_timeout: Some(idle), crowd: None };
            let gap = timeout(policy, silence, count);
            let cap = match policy {
                ProbePolicy::Rfc => Duration::MAX,
                ProbePolicy::Capped(CappedParameters { divisor }) => (idle / u32::from(divisor.get())).max(base),
                ProbePolicy::Ladder => (idle / 32).max((4 * base).min(idle / 8)).max(2 * base),
            };
            prop_assert!(gap >= base);
            prop_assert!(gap <= cap);
            // A ladder grows faster on short paths, so as not to spend its probes before it reaches a tenth of a
            // second.
            let is_quick = policy == ProbePolicy::Ladder && base < idle / LADDER_SHORT;
            prop_assert!(is_quick || gap <= timeout(ProbePolicy::Rfc, silence, count), "nor exceeds that of the RFC");
            let next = timeout(policy, silence, count + 1);
            if policy != ProbePolicy::Ladder {
                prop_assert!(gap <= next, "and never shrinks");
            }
        }

        #[test]
        fn of_the_waits_of_a_ladder_only_the_one_that_ends_at_the_last_call_is_shorter_than_the_one_before(
            base in 1u64..10_000_000,
            idle in 1u64..600_000_000,
        ) {
            let (base, idle) = (Duration::from_micros(base), Duration::from_micros(idle));
            let silence = Silence { base, idle_timeout: Some(idle), crowd: None };
            let (mut passed, mut longest) = (Duration::ZERO, Duration::ZERO);
            for count in 0..200 {
                let wait = timeout(ProbePolicy::Ladder, silence, count);
                passed += wait;
                prop_assert!(wait >= longest || passed == idle - 3 * base, "{wait:?} after {longest:?}");
                longest = longest.max(wait);
            }
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
    fn rfc9002_7_6_2_a_delivery_of_what_was_sent_after_the_run_does_not_interrupt_it() {
        let mut run = LossRun::default();
        run.on_delivered_elsewhere(at(9));
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        assert!(run.on_lost(at(8), Some(at(0)), ms(6)));
        let mut run = LossRun::default();
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        run.on_delivered_elsewhere(at(9));
        assert!(run.on_lost(at(8), Some(at(0)), ms(6)), "known between the two losses");
        let mut run = LossRun::default();
        run.on_delivered_elsewhere(at(4));
        run.on_delivered_elsewhere(at(20));
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        assert!(!run.on_lost(at(8), Some(at(0)), ms(6)), "a later delivery does not hide an earlier one");
    }

    #[test]
    fn one_run_is_reported_once() {
        let mut run = LossRun::default();
        assert!(!run.on_lost(at(1), Some(at(0)), ms(6)));
        assert!(run.on_lost(at(8), Some(at(0)), ms(6)));
        assert!(!run.on_lost(at(9), Some(at(0)), ms(6)));
    }
}
