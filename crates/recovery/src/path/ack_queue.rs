//! How long an acknowledgment takes on a return path that carries fewer than are sent (RFC 3449 section 2).
//!
//! An uplink of a hundredth of the downlink's rate is full of ACKs long before the downlink is full of data: at two
//! packets per ACK, 12 Mbps need 280 kbps the other way. The ACKs then tell of packets late, and a start doubles once
//! per round trip and queue. Only the receiver's clock tells this queue from one of the data: ACKs come further apart
//! than their newest packets arrived, as far as one of them takes on the return path.

use thalweg_units::{Duration, Instant};

/// So many ACKs in a row have to come further behind the one before than it was sent: single ones do so by chance, and
/// those that a time slot held back come closer together.
const IN_A_ROW: u32 = 4;

/// Each by at least one part in so many of the time between them.
const SHARE: u32 = 4;

/// All of them together by more than this: clocks are read in steps of up to a millisecond.
const LEAST_LATE: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct AckQueue {
    last: Option<AckTimes>,
    /// The first of the ACKs in a row, and how many followed.
    row: Option<(AckTimes, u32)>,
    spacing: Option<Duration>,
}

/// When an ACK was sent, on the receiver's clock, and came.
#[derive(Copy, Clone, Debug)]
struct AckTimes {
    sent: Duration,
    came: Instant,
}

impl AckQueue {
    /// An ACK came `now` whose newest packet had arrived at `received` on the peer's clock; the peer held it back for
    /// `held`. Longer pauses than `round_trip` say nothing.
    pub(super) fn on_ack(&mut self, now: Instant, received: Duration, held: Duration, round_trip: Duration) {
        let this = AckTimes { sent: received.saturating_add(held), came: now };
        let Some(last) = self.last.replace(this) else { return };
        let (apart, sent_apart) = (now.saturating_since(last.came), this.sent.saturating_sub(last.sent));
        let is_late = apart > Duration::ZERO && apart.saturating_sub(sent_apart) >= apart / SHARE;
        if !is_late || apart > round_trip || this.sent < last.sent {
            self.row = None;
            return;
        }
        let (first, followed) = self.row.get_or_insert((last, 0));
        *followed += 1;
        let (took, sent_in) = (now.saturating_since(first.came), this.sent.saturating_sub(first.sent));
        if *followed >= IN_A_ROW && took.saturating_sub(sent_in) > LEAST_LATE {
            self.spacing = Some(took / *followed);
        }
    }

    /// The time that the return path takes for an ACK, if they wait for each other there.
    pub(super) fn spacing(&self) -> Option<Duration> {
        self.spacing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// What is found of ACKs that are sent and come at these times, in microseconds.
    fn spacing(acks: impl IntoIterator<Item = (u64, u64)>) -> Option<Duration> {
        let mut queue = AckQueue::default();
        for (sent, came) in acks {
            queue.on_ack(Instant::ZERO + us(came), us(sent), Duration::ZERO, ROUND_TRIP);
        }
        queue.spacing()
    }

    #[test]
    fn acks_that_wait_for_each_other_come_as_far_apart_as_one_of_them_takes() {
        // Two per packet time of 1 ms, over an uplink that takes 12 ms for each.
        assert_eq!(spacing((0..4).map(|n| (n * 2_000, 50_000 + n * 12_000))), None);
        assert_eq!(spacing((0..5).map(|n| (n * 2_000, 50_000 + n * 12_000))), Some(us(12_000)));
    }

    #[test]
    fn acks_that_come_as_they_are_sent_show_no_queue() {
        assert_eq!(spacing((0..1_000).map(|n| (n * 2_000, 50_000 + n * 2_000))), None);
        // A clock that is slow by 500 parts per million.
        assert_eq!(spacing((0..1_000).map(|n| (n * 2_000, 50_000 + n * 2_001))), None);
    }

    #[test]
    fn acks_that_a_time_slot_lets_go_together_show_no_queue() {
        let slot = |at: u64| (at + 50_000).next_multiple_of(7_000);
        assert_eq!(spacing((0..1_000).map(|n| (n * 2_000, slot(n * 2_000) + n * 2_000 % 7_000 / 100))), None);
    }

    #[test]
    fn pauses_are_no_queue() {
        // One ACK after each pause of the way back.
        assert_eq!(spacing((0..100).map(|n| (n * 2_000, 50_000 + n * 150_000))), None);
    }

    #[test]
    fn a_clock_that_is_read_in_steps_shows_no_queue() {
        let step = |at: u64| at / 1_000 * 1_000;
        assert_eq!(spacing((0..1_000).map(|n| (step(n * 100), 5_000 + n * 100))), None);
    }

    #[test]
    fn what_the_receiver_held_back_is_no_queue() {
        let mut queue = AckQueue::default();
        for n in 0..100 {
            queue.on_ack(Instant::ZERO + us(50_000 + n * 12_000), us(n * 2_000), us(n * 10_000), ROUND_TRIP);
        }
        assert_eq!(queue.spacing(), None);
    }

    #[test]
    fn a_clock_that_jumps_or_ends_is_no_trouble() {
        let times = [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::ZERO, us(1), Duration::MAX];
        for held in [Duration::ZERO, Duration::MAX] {
            let mut queue = AckQueue::default();
            for (n, received) in (0..).zip(times) {
                queue.on_ack(Instant::ZERO + us(n), received, held, Duration::MAX);
            }
            assert_eq!(queue.spacing(), None);
        }
    }
}
