//! Plausibility of the receive times that a peer reports (draft-ietf-quic-receive-ts: the receiver may lie).
//!
//! A packet arrives after it was sent and before the ACK that reports it arrives here. Each report thus bounds how far
//! the peer's clock is ahead of ours, and all bounds must agree, apart from what the clocks drift. A peer whose reports
//! contradict each other is not believed; after a few contradictions, nothing that it reports is used any more: a clock
//! may be set or suspended once in a while, but not again and again.
//!
//! What passes can still be wrong by as much as a round trip lasts longer than the shortest one way: who measures by
//! arrivals has to bound what it makes of them by what was acknowledged, and when.

use thalweg_units::{Duration, Instant};

use super::ack_queue::AckQueue;

/// Contradictions after which a peer's clock is ignored.
const MAX_CONTRADICTIONS: u8 = 3;

/// By which share of the time two clocks may drift apart: 244 parts per million, more than any working oscillator.
const DRIFT_SHIFT: u32 = 12;

/// Clocks are read in steps of up to this.
const TOLERANCE: Duration = Duration::from_millis(1);

/// What is known of the clock at the other end of a path.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ReceiverClock {
    bounds: Option<Bounds>,
    contradictions: u8,
    /// What it says of the return path.
    pub(super) acks: AckQueue,
}

/// Between how many nanoseconds the peer's clock is ahead of ours.
#[derive(Copy, Clone, Debug)]
struct Bounds {
    low: i128,
    high: i128,
    updated: Instant,
}

impl Bounds {
    /// A packet sent at `sent` was reported at `now` to have arrived at `received`.
    fn of(now: Instant, sent: Instant, received: Duration) -> Bounds {
        let nanos = |at: Instant| i128::from(at.as_nanos());
        let received = i128::try_from(received.as_nanos()).unwrap_or(i128::MAX);
        Bounds { low: received.saturating_sub(nanos(now)), high: received.saturating_sub(nanos(sent)), updated: now }
    }

    /// Both together, after the clocks have drifted apart since the last report.
    fn and(self, other: Bounds) -> Bounds {
        let drift = i128::from(other.updated.as_nanos().saturating_sub(self.updated.as_nanos()) >> DRIFT_SHIFT);
        Bounds {
            low: self.low.saturating_sub(drift).max(other.low),
            high: self.high.saturating_add(drift).min(other.high),
            updated: self.updated.max(other.updated),
        }
    }

    fn can_be(&self) -> bool {
        self.low <= self.high.saturating_add(TOLERANCE.as_nanos() as i128)
    }
}

impl ReceiverClock {
    /// Whether a packet sent at `sent` may have arrived at `received` by the peer's clock, as an ACK says that arrived
    /// `now`.
    pub(super) fn believes(&mut self, now: Instant, sent: Instant, received: Duration) -> bool {
        if self.contradictions >= MAX_CONTRADICTIONS {
            return false;
        }
        let new = Bounds::of(now, sent, received);
        let all = self.bounds.map_or(new, |known| known.and(new));
        let is_consistent = all.can_be();
        if is_consistent {
            self.bounds = Some(all);
        } else {
            self.contradictions += 1;
            (self.bounds, self.acks) = (None, AckQueue::default());
        }
        is_consistent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos((1 << 40) + ms * 1_000_000)
    }

    /// A peer 20 ms away whose clock runs at a rate of so many parts per million, and what it reports of a packet sent
    /// at a time.
    fn honest(sent: u64, ppm: u64) -> Duration {
        let true_time = Duration::from_millis(7_000 + sent + 20);
        true_time + true_time / 1_000_000 * u32::try_from(ppm).unwrap()
    }

    #[test]
    fn an_honest_clock_is_believed_for_days_although_it_drifts() {
        let mut clock = ReceiverClock::default();
        for second in 0..200_000 {
            let sent = second * 1_000;
            assert!(clock.believes(at(sent + 40), at(sent), honest(sent, 100)), "after {second} s");
        }
    }

    #[test]
    fn a_packet_cannot_arrive_before_it_is_sent_nor_after_its_acknowledgment() {
        for shift in [-60i64, 60] {
            let mut clock = ReceiverClock::default();
            for sent in 0..100 {
                assert!(clock.believes(at(sent + 40), at(sent), honest(sent, 0)));
            }
            let lie = Duration::from_millis((7_000 + 100 + 20 + shift).try_into().unwrap());
            assert!(!clock.believes(at(140), at(100), lie), "{shift} ms");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_believed_again_but_not_one_that_is_set_again_and_again() {
        let mut clock = ReceiverClock::default();
        let mut refused = 0;
        for step in 0..10 {
            for sent in step * 1_000..step * 1_000 + 100 {
                refused += u64::from(!clock.believes(at(sent + 40), at(sent), honest(sent, 0) + ms(step * 500)));
            }
            if step == 1 {
                assert_eq!(refused, 1, "one contradiction, then a new beginning");
            }
        }
        assert!(refused > 600, "{refused} of 1,000");
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut clock = ReceiverClock::default();
        for received in [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::ZERO, ms(1), Duration::MAX] {
            clock.believes(Instant::from_nanos(u64::MAX), Instant::ZERO, received);
        }
        assert!(!clock.believes(at(1), at(0), ms(1)));
    }
}
