//! How long a packet waited on its way out, by the receiver's clock: what a round-trip sample has from the way back,
//! such as the wait of an acknowledgment in a queue there, does not count.
//!
//! ```text
//! delay = receive time - send time, of the newest packet that an ACK reports
//! back  = round-trip time - delay
//! base  = the least delay of the last 10 to 20 s among those whose round-trip sample showed no queue
//!         in 10 s without such a sample: the least delay of all, if it exceeds the base by 2 ms at most
//!         without a base: the least delay of all, if back has varied by what the smallest round-trip sample of these
//!         10 s exceeds the smallest ever by
//! wait  = delay - base
//! ```
//!
//! Clocks drift: a least delay that nothing confirms is soon worth nothing. A round-trip sample without a queue
//! confirms it, for it has none in either direction. Where somebody else keeps a queue on the way back, there is no
//! such sample. A base that has hardly changed is then the old one with what clocks drift; a queue that is never empty
//! grows by more.
//!
//! Where the round trip was at its smallest in the handshake, which reports no times, there is no base, and something
//! makes the round trip longer, on the way out or back. If the way back varies by as much, it is there: a queue on the
//! way out would leave the way back as it is.
//!
//! Otherwise, and where the receiver does not report times (draft-ietf-quic-receive-ts), the wait is not known, and the
//! round-trip time decides.
//!
//! What it cannot know: a queue that is never empty on the way out, beside one on the way back that varies by more. It
//! passes for none at its shortest, but not when it is full and packets are lost. A receiver that reports delays as
//! short as the least hides a queue, as it can by [`waits`](super::waits).
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | period | 10 s | longer lets clocks that drift by 100 ppm hide more than 2 ms; shorter knows less where the way back is seldom empty |
//! | drift | 2 ms | 200 ppm; less loses the base to worse clocks, and more follows a queue that grows slowly |

use thalweg_units::{Duration, DurationExt, Instant};

use crate::congestion::AckEvent;

/// A least delay lasts for one to two of these.
const PERIOD: Duration = Duration::from_secs(10);
/// By how much clocks may drift in one, in nanoseconds.
const DRIFT: i128 = 2_000_000;

/// Of the samples of a period.
#[derive(Copy, Clone, Debug)]
struct Seen {
    least_delay: i128,
    /// The shortest and the longest way back, by the clocks of both ends.
    back: (i128, i128),
    least_rtt: Duration,
}

/// See the [module](self). Delays are in nanoseconds, and contain by how much the receiver's clock is ahead.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Outward {
    /// The least delays without a queue of this period and of the one before.
    least: [Option<i128>; 2],
    /// What this period has shown, with a queue or without.
    seen: Option<Seen>,
    /// When this period began.
    since: Option<Instant>,
    /// The delay of the newest packet that the latest ACK reported.
    latest: Option<i128>,
}

impl Outward {
    /// An ACK with a round-trip sample arrived, of `rtt` without what the receiver kept it for; `min_rtt` is the
    /// smallest ever.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>, rtt: Duration, min_rtt: Duration, shows_no_queue: bool) {
        let since = *self.since.get_or_insert(event.now);
        if event.now.saturating_since(since) >= PERIOD {
            self.least = [self.least[1].or_else(|| self.drifted()), None];
            (self.seen, self.since) = (None, Some(event.now));
        }
        let told = event.arrivals.iter().filter(|arrival| arrival.is_told);
        let newest = told.max_by_key(|arrival| arrival.order);
        self.latest = newest.map(|it| i128::from(it.received.nanos()) - i128::from(it.sent.as_nanos()));
        let Some(delay) = self.latest else { return };
        let back = i128::from(rtt.nanos()) - delay;
        let fresh = Seen { least_delay: delay, back: (back, back), least_rtt: rtt };
        let seen = self.seen.get_or_insert(fresh);
        seen.least_delay = seen.least_delay.min(delay);
        seen.back = (seen.back.0.min(back), seen.back.1.max(back));
        seen.least_rtt = seen.least_rtt.min(rtt);
        let seen = *seen;
        let is_explained = || i128::from(seen.least_rtt.saturating_sub(min_rtt).nanos()) <= seen.back.1 - seen.back.0;
        match self.base() {
            Some(base) if shows_no_queue || delay < base => self.lower(delay),
            None if shows_no_queue => self.lower(delay),
            None if is_explained() => self.lower(seen.least_delay),
            _ => {}
        }
    }

    fn lower(&mut self, delay: i128) {
        let least = &mut self.least[1];
        *least = Some(least.map_or(delay, |least| least.min(delay)));
    }

    fn base(&self) -> Option<i128> {
        self.least.into_iter().flatten().min()
    }

    /// The least delay of this period, if drifting clocks explain by how much it exceeds the base.
    fn drifted(&self) -> Option<i128> {
        let (least, base) = (self.seen?.least_delay, self.base()?);
        (least <= base + DRIFT).then_some(least)
    }

    /// How long that packet waited, if that is known.
    pub(super) fn wait(&self) -> Option<Duration> {
        let wait = (self.latest? - self.base()?).max(0);
        Some(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Arrival;
    use crate::testing::{Scene, at, ms};

    /// The round trip of the path, in milliseconds.
    const PATH: u64 = 100;

    /// An ACK at `now`, in milliseconds, after a round trip of `rtt`, of a packet that took `delay` by the receiver's
    /// clock.
    fn observe(outward: &mut Outward, now: u64, rtt: u64, delay: Option<u64>) {
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
        outward.observe(&event, ms(rtt), ms(PATH), rtt == PATH);
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
            // Every second the queue is empty once, and the clock drifts by 100 ppm.
            let queue = if now % 1_000 == 0 { 0 } else { 30 };
            observe(&mut outward, now, 150, Some(50 + now / 10_000 + queue));
            let wait = outward.wait().expect("the base is known");
            assert!((ms(queue)..=ms(queue + 2)).contains(&wait), "{wait:?} at {now} ms");
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
                assert!(outward.wait().is_none_or(|wait| wait <= ms(4)), "{:?} at {now} ms", outward.wait());
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut outward = Outward::default();
        for delay in [u64::MAX / 2_000_000, 0, u64::MAX / 2_000_000] {
            observe(&mut outward, 200, PATH, Some(delay));
        }
        assert!(outward.wait().is_some());
    }
}
