//! How long packets wait on their way, by the receiver's clock, and whether the queue is in use.
//!
//! ```text
//! wait   receive time - send time, above the least of late
//! long   wait > longest wait of late / 2, and > 0.75 ms
//! busy   one of the latest 48 waits was long
//! ```
//!
//! Only packets that begin a burst count: the others of it wait for one another. Where the receiver does not report
//! times (draft-ietf-quic-receive-ts), the wait is what a round-trip sample has above the smallest, without the delay
//! of the acknowledgment that the peer reports.
//!
//! A tail-drop queue of a few milliseconds cannot be told from jitter by how long one packet waits. That many packets
//! wait about as long as any ever does tells it: a link with such a queue that several flows keep full is busy nearly
//! always, and one that loses packets by chance is not, for most of its packets do not wait.
//!
//! What it cannot know: a queue below the noise of hosts that measure, or below jitter of the path. Where waits are
//! as often long as short without a queue, the path is busy always. A receiver that reports shorter waits of long
//! ones hides a queue: it gains what a sender would gain that does not look for one.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | border | 1/2 | a higher one lets flows that fill a queue of few packets together lose more before they see it |
//! | least border | 0.75 ms | what hosts add by waking up late; queues below it are not seen |
//! | samples | 48 | fewer take a queue that others fill half of the time for empty; more make it seldom empty under jitter |
//! | memory | 1/64 per round trip, at either end | longer takes one packet that a host held up for the length of a queue |

use thalweg_units::{Duration, DurationExt};

use crate::congestion::AckEvent;

/// What is above this part of the longest wait is long …
const BORDER_DIVISOR: i128 = 2;
/// … unless hosts may have caused it.
const LEAST_BORDER: i128 = 750_000;
/// So many waits in a row are short where the queue is not in use.
const SAMPLES: u32 = 48;
/// The part of the range that each round trip forgets, at either end.
const MEMORY_DIVISOR: i128 = 64;

/// See the [module](self). Delays are in nanoseconds, and contain by how much the receiver's clock is ahead.
#[derive(Copy, Clone, Debug)]
pub(super) struct Waits {
    /// The least and the longest delay of late; `None` before the first.
    range: Option<(i128, i128)>,
    /// When the latest packet of those reported was sent, in nanoseconds: what was sent later begins a burst.
    latest_sent: u64,
    /// Whether the receiver has ever reported times.
    is_told: bool,
    /// Short waits in a row.
    short: u32,
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits { range: None, latest_sent: 0, is_told: false, short: SAMPLES }
    }

    /// An ACK arrived.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>) {
        if event.round.started {
            self.forget();
        }
        for arrival in event.arrivals.iter().filter(|arrival| arrival.is_told) {
            let sent = arrival.sent.as_nanos();
            if sent > self.latest_sent {
                self.latest_sent = sent;
                self.sample(i128::from(arrival.received.nanos()) - i128::from(sent));
            }
            self.is_told = true;
        }
        if event.has_rtt_sample && !self.is_told {
            self.sample(event.rtt.adjusted.nanos().into());
        }
    }

    fn sample(&mut self, delay: i128) {
        let (least, longest) =
            self.range.map_or((delay, delay), |(least, longest)| (least.min(delay), longest.max(delay)));
        self.range = Some((least, longest));
        let wait = delay - least;
        let is_long = wait > LEAST_BORDER.max((longest - least) / BORDER_DIVISOR);
        self.short = if is_long { 0 } else { self.short.saturating_add(1) };
    }

    fn forget(&mut self) {
        if let Some((least, longest)) = &mut self.range {
            let step = (*longest - *least) / MEMORY_DIVISOR;
            *least += step;
            *longest -= step;
        }
    }

    /// Whether one of the latest packets had a long wait.
    pub(super) fn is_busy(&self) -> bool {
        self.short < SAMPLES
    }

    /// The longest wait of late.
    pub(super) fn longest(&self) -> Duration {
        let range = self.range.map_or(0, |(least, longest)| longest - least);
        Duration::from_nanos(u64::try_from(range).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Arrival;
    use crate::testing::{Scene, ms};
    use thalweg_units::Instant;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// A receiver whose clock is 7 s ahead, 20 ms away.
    struct Receiver {
        waits: Waits,
        now: u64,
    }

    impl Receiver {
        fn new() -> Receiver {
            Receiver { waits: Waits::new(), now: 1_000_000 }
        }

        /// An ACK of bursts of two packets: the first waits so many microseconds, the second one millisecond more.
        fn ack(&mut self, round_started: bool, waits: &[u64]) {
            let mut arrivals = Vec::new();
            for wait in waits {
                self.now += 5_000;
                for of_burst in [0, 1_000] {
                    let received = us(self.now + 7_000_000 + 20_000 + wait + of_burst);
                    arrivals.push(Arrival {
                        sent: Instant::from_nanos(self.now * 1_000),
                        order: self.now,
                        bytes: 1_200,
                        received,
                        is_told: true,
                    });
                }
            }
            let mut scene = Scene::new();
            let event = AckEvent { arrivals: &arrivals, ..scene.ack(2_400, Some(ms(100)), round_started) };
            self.waits.observe(&event);
        }
    }

    #[test]
    fn a_path_is_busy_from_a_wait_of_half_the_longest_until_48_short_ones_have_come() {
        let mut receiver = Receiver::new();
        receiver.ack(false, &[0; 10]);
        assert!(!receiver.waits.is_busy());
        receiver.ack(false, &[4_000]);
        assert!(receiver.waits.is_busy());
        receiver.ack(false, &[1_900; 47]);
        assert!(receiver.waits.is_busy());
        receiver.ack(false, &[1_900]);
        assert!(!receiver.waits.is_busy());
        receiver.ack(false, &[2_100]);
        assert!(receiver.waits.is_busy());
        assert_eq!(receiver.waits.longest(), ms(4));
    }

    #[test]
    fn what_hosts_add_makes_no_path_busy() {
        let mut receiver = Receiver::new();
        for wait in [0, 700, 350, 740] {
            receiver.ack(true, &[wait; 20]);
            assert!(!receiver.waits.is_busy());
        }
    }

    #[test]
    fn one_packet_that_was_held_up_is_forgotten_within_two_hundred_round_trips() {
        let mut receiver = Receiver::new();
        receiver.ack(true, &[0, 50_000]);
        for _ in 0..200 {
            receiver.ack(true, &[0, 100]);
        }
        receiver.ack(false, &[2_000]);
        assert!(receiver.waits.is_busy(), "2 ms of {:?}", receiver.waits.longest());
    }

    #[test]
    fn without_times_round_trips_are_judged_and_with_them_never_again() {
        let mut waits = Waits::new();
        let mut scene = Scene::new();
        for (sample, is_busy) in [(100, false), (104, true), (101, true)] {
            waits.observe(&scene.ack(1_200, Some(ms(sample)), false));
            assert_eq!(waits.is_busy(), is_busy);
        }
        waits.is_told = true;
        waits.observe(&scene.ack(1_200, Some(ms(900)), false));
        assert_eq!(waits.longest(), ms(4));
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut waits = Waits::new();
        let mut scene = Scene::new();
        for (index, received) in [Duration::MAX, Duration::ZERO, Duration::MAX, ms(1)].into_iter().enumerate() {
            let sent = Instant::from_nanos(1 + index as u64);
            let arrivals = [Arrival { sent, order: 0, bytes: 1, received, is_told: true }];
            waits.observe(&AckEvent { arrivals: &arrivals, ..scene.ack(1, None, true) });
        }
        assert!(waits.longest() > Duration::ZERO);
    }
}
