//! How long a packet waited on the forward path, by the receiver's clock: what a round-trip sample has from the return
//! path, such as the wait of an acknowledgment in a queue there, does not count.
//!
//! ```text
//! delay = receive time - send time, of the newest packet that an ACK reports
//! back  = round-trip time - delay
//! base  = what delay is without a queue:
//!         1. the largest of delay - (RTT - smallest RTT) in the last 10 to 20 s, of samples that showed no queue
//!         2. in 10 s without such a sample: the least delay, if that exceeds the base by 1 ms at most, and by 8 ms at
//!            most since the last such sample
//!         3. without a base: the least delay of these 10 s, if back has varied by more than what the smallest sample
//!            of these 10 s exceeds the smallest ever by
//! wait  = delay - base
//! ```
//!
//! A packet waits no longer than its round trip exceeds the smallest: that bounds the base from below, and each delay
//! bounds it from above. Clocks drift, so that a bound which nothing confirms is soon worth nothing. Where somebody
//! else keeps a queue on the return path, no sample confirms it. A base that has hardly changed is then the old one and
//! what clocks drift.
//!
//! Where the round trip was at its smallest in the handshake, which reports no times, there is no base, and something
//! makes the round trip longer on one path or the other. If the return path varies by as much, it is there: a queue on
//! the forward path would leave the return path as it is.
//!
//! Otherwise, and where the receiver does not report times (draft-ietf-quic-receive-ts), the wait is not known, and the
//! round-trip time decides.
//!
//! What it cannot know: a queue on the forward path that is never empty, beside one on the return path that varies by
//! more. Packets that find this queue at its shortest seem to have found it empty. A receiver that reports delays as
//! short as the least hides a queue, as it can from [`waits`](super::waits).
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | period | 10 s | longer lets clocks that drift by 100 ppm hide more than 2 ms; shorter knows less where the return path is seldom empty |
//! | drift | 1 ms in a period, 8 ms in all | 100 ppm; less loses the base to worse clocks, and more follows a queue that grows slowly |

use thalweg_units::{Duration, DurationExt, Instant};

use crate::congestion::{AckEvent, Arrival};

/// A base lasts for one to two of these.
const PERIOD: Duration = Duration::from_secs(10);
/// By how much clocks may drift in one, and until a sample confirms the base again, in nanoseconds.
const DRIFT: i128 = 1_000_000;
const MOST_DRIFT: i128 = 8_000_000;
/// A part of each wait makes up the usual one: as for the smoothed round-trip time (RFC 9002 section 5.3).
const SMOOTHING: i128 = 8;

/// Of the samples of a period.
#[derive(Copy, Clone, Debug)]
struct Seen {
    least_delay: i128,
    /// The shortest and the longest return path, by the clocks of both ends.
    back: (i128, i128),
    least_rtt: Duration,
}

/// See the [module](self). Delays are in nanoseconds, and contain by how much the receiver's clock is ahead.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Outward {
    /// The delay without a queue, by this period and by the one before.
    base: [Option<i128>; 2],
    /// By how much the base has risen without a sample that confirms it.
    risen: i128,
    /// What this period has shown, with a queue or without.
    seen: Option<Seen>,
    /// When this period began.
    since: Option<Instant>,
    /// The delay of the newest packet that the latest ACK reported.
    latest: Option<i128>,
    /// The usual wait.
    usual: i128,
}

impl Outward {
    /// An ACK with a round-trip sample arrived, of `rtt` without what the receiver kept it for; `min_rtt` is the
    /// smallest ever.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>, rtt: Duration, min_rtt: Duration, shows_no_queue: bool) {
        let age = event.now.saturating_since(*self.since.get_or_insert(event.now));
        if age >= PERIOD {
            // After a pause nothing is known of what clocks have drifted.
            self.base = if age < 2 * PERIOD { [self.base[1].or_else(|| self.drifted()), None] } else { [None; 2] };
            (self.seen, self.since) = (None, Some(event.now));
        }
        let reported = event.arrivals.iter().filter(|arrival| arrival.is_told);
        let newest = reported.max_by_key(|arrival| arrival.order);
        self.latest = newest.map(Arrival::delay);
        let Some(delay) = self.latest else { return };
        let back = i128::from(rtt.nanos()) - delay;
        let fresh = Seen { least_delay: delay, back: (back, back), least_rtt: rtt };
        if self.base().is_some_and(|base| delay + DRIFT < base) {
            // No delay is shorter than one without a queue. If it is by more than clocks drift, something has changed.
            (self.base, self.seen) = ([None; 2], Some(fresh));
        }
        self.base = self.base.map(|base| base.map(|base| base.min(delay)));
        let mut seen = self.seen.unwrap_or(fresh);
        seen.least_delay = seen.least_delay.min(delay);
        seen.back = (seen.back.0.min(back), seen.back.1.max(back));
        seen.least_rtt = seen.least_rtt.min(rtt);
        self.seen = Some(seen);
        let excess = |rtt: Duration| i128::from(rtt.saturating_sub(min_rtt).nanos());
        if shows_no_queue {
            self.base[1] = self.base[1].max(Some(delay - excess(rtt)));
            self.risen = 0;
        } else if self.base().is_none() && excess(seen.least_rtt) < seen.back.1 - seen.back.0 {
            self.base[1] = Some(seen.least_delay);
            self.risen = 0;
        }
        if let Some(wait) = self.latest_wait() {
            self.usual += (wait - self.usual) / SMOOTHING;
        }
    }

    fn base(&self) -> Option<i128> {
        self.base[0].max(self.base[1])
    }

    /// The least delay of this period, if drifting clocks explain by how much it exceeds the base.
    fn drifted(&mut self) -> Option<i128> {
        let (least, base) = (self.seen?.least_delay, self.base()?);
        self.risen += least - base;
        (least <= base + DRIFT && self.risen <= MOST_DRIFT).then_some(least)
    }

    fn latest_wait(&self) -> Option<i128> {
        Some((self.latest? - self.base()?).max(0))
    }

    /// How long that packet waited, if that is known.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.latest_wait().map(duration)
    }

    /// How long packets wait usually, if that is known.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.base().map(|_| duration(self.usual))
    }
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, at, ms};

    /// The round trip of the path, in milliseconds.
    const PATH: u64 = 100;

    /// An ACK at `now`, in milliseconds, after a round trip of `rtt`, of a packet that took `delay` by the receiver's
    /// clock.
    fn observe(outward: &mut Outward, now: u64, rtt: u64, delay: Option<u64>) {
        observe_as(outward, now, rtt, delay, rtt == PATH);
    }

    /// The same, and whether the round trip shows no queue.
    fn observe_as(outward: &mut Outward, now: u64, rtt: u64, delay: Option<u64>, shows_no_queue: bool) {
        let arrival = |delay| Arrival {
            sent: at(now - rtt),
            order: now,
            begins_burst: true,
            bytes: 1_200,
            received: ms(now - rtt + delay),
            is_told: true,
        };
        let arrivals: Vec<_> = delay.into_iter().map(arrival).collect();
        let mut scene = Scene::new();
        scene.now = at(now);
        let event = AckEvent { arrivals: &arrivals, ..scene.ack(1_200, Some(ms(rtt)), false) };
        outward.observe(&event, ms(rtt), ms(PATH), shows_no_queue);
    }

    #[test]
    fn a_wait_is_above_the_least_that_a_round_trip_without_a_queue_has_confirmed() {
        let mut outward = Outward::default();
        observe(&mut outward, 200, 110, Some(700_010));
        assert_eq!(outward.wait(), None, "nothing confirms it");
        observe(&mut outward, 300, PATH, Some(700_003));
        assert_eq!(outward.wait(), Some(ms(0)));
        observe(&mut outward, 400, PATH, Some(700_001));
        observe(&mut outward, 500, 150, Some(700_009));
        assert_eq!(outward.wait(), Some(ms(8)));
        observe(&mut outward, 600, 110, Some(700_000));
        assert_eq!(outward.wait(), Some(ms(0)), "as short as any");
        observe(&mut outward, 700, PATH, None);
        assert_eq!(outward.wait(), None, "no time was reported");
    }

    #[test]
    fn without_a_round_trip_that_confirms_it_a_least_delay_lasts_for_10_to_20_seconds() {
        let mut outward = Outward::default();
        for now in (200..=9_000).step_by(100) {
            observe(&mut outward, now, PATH, Some(50));
        }
        for now in (9_100..=30_000).step_by(100) {
            observe(&mut outward, now, PATH + 8, Some(58));
            assert_eq!(outward.wait(), (now < 20_200).then_some(ms(8)), "at {now} ms");
        }
    }

    #[test]
    fn a_base_that_hardly_changes_lasts_without_a_round_trip_that_confirms_it() {
        let mut outward = Outward::default();
        observe(&mut outward, 200, PATH, Some(50));
        for now in (300..=300_000u64).step_by(100) {
            // Every second the queue is empty once, and the clock drifts by 10 ppm.
            let queue = if now % 1_000 == 0 { 0 } else { 30 };
            observe(&mut outward, now, 150, Some(50 + now / 100_000 + queue));
            let wait = outward.wait().expect("the base is known");
            assert!((ms(queue)..=ms(queue + 1)).contains(&wait), "{wait:?} at {now} ms");
        }
    }

    #[test]
    fn a_queue_that_grows_as_slowly_as_clocks_drift_is_taken_for_none_up_to_8_ms_and_a_pause_ends_that() {
        let mut outward = Outward::default();
        observe(&mut outward, 200, PATH, Some(50));
        for now in (300..=300_000u64).step_by(100) {
            observe(&mut outward, now, 150, Some(50 + now / 10_000));
            let wait = outward.wait();
            assert!(now >= 80_000 || wait.is_some(), "at {now} ms");
            assert!(now < 120_000 || wait.is_none(), "{wait:?} at {now} ms");
            assert!(wait.is_none_or(|wait| wait <= ms(2)), "{wait:?} at {now} ms");
        }
        let mut outward = Outward::default();
        observe(&mut outward, 200, PATH, Some(50));
        observe(&mut outward, 60_000, 150, Some(50));
        assert_eq!(outward.wait(), None, "a minute later");
    }

    #[test]
    fn a_delay_far_below_the_base_is_another_path_or_clock() {
        let mut outward = Outward::default();
        observe(&mut outward, 200, PATH, Some(50));
        observe(&mut outward, 300, 150, Some(20));
        assert_eq!(outward.wait(), None);
    }

    #[test]
    fn a_sample_with_half_of_what_is_allowed_confirms_no_more_than_the_path() {
        let mut outward = Outward::default();
        for now in (200..=30_000).step_by(100) {
            // As if a sample of 104 ms showed no queue.
            let delay = [53, 54, 53][now as usize / 100 % 3];
            observe_as(&mut outward, now, 50 + delay, Some(delay), true);
            assert_eq!(outward.wait(), Some(ms(delay - 50)));
        }
    }

    #[test]
    fn without_a_round_trip_that_shows_no_queue_the_way_back_explains_what_it_varies_by() {
        // On the way out nothing waits; what the round trip exceeds the path by is on the way back and varies.
        let mut outward = Outward::default();
        for (now, rtt) in [(200, 170), (300, 160), (400, 150), (500, 140)] {
            observe(&mut outward, now, rtt, Some(50));
            assert_eq!(outward.wait(), None, "the way back may be as long as it was at least");
        }
        observe(&mut outward, 600, 130, Some(50));
        assert_eq!(outward.wait(), Some(ms(0)), "40 ms of the way back have gone, and 30 are left");
        // The same on the way out.
        let mut outward = Outward::default();
        for (now, rtt) in [(200, 170), (300, 160), (400, 150), (500, 140), (600, 120), (700, 110)] {
            observe(&mut outward, now, rtt, Some(rtt - 50));
            assert_eq!(outward.wait(), None);
        }
    }

    #[test]
    fn a_clock_that_drifts_is_followed_both_ways() {
        for sign in [1, -1] {
            let mut outward = Outward::default();
            // 1 ms in 5 s is twice what a quartz does.
            for now in (200..=600_000u64).step_by(100) {
                let delay = 5_000i64 + sign * i64::try_from(now / 5_000).unwrap();
                let rtt = if now % 1_000 == 0 { PATH } else { PATH + 20 };
                observe(&mut outward, now, rtt, Some(delay.try_into().unwrap()));
                assert!(
                    now < 1_000 || outward.wait().is_some_and(|wait| wait <= ms(4)),
                    "{:?} at {now} ms",
                    outward.wait()
                );
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut outward = Outward::default();
        let mut scene = Scene::new();
        for (order, received) in (1..).zip([Duration::MAX, Duration::ZERO, Duration::MAX, Duration::ZERO]) {
            let arrivals = [Arrival { sent: at(0), order, begins_burst: true, bytes: 1, received, is_told: true }];
            let event = AckEvent { arrivals: &arrivals, ..scene.ack(1, Some(ms(PATH)), false) };
            outward.observe(&event, ms(PATH), ms(PATH), order < 4);
            assert_eq!(outward.wait(), (order < 4).then_some(ms(0)), "packet {order}");
        }
    }
}
