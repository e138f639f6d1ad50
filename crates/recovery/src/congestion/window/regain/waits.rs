//! How long packets wait on their way, by the receiver's clock, and whether the queue is in use.
//!
//! ```text
//! wait   receive time - send time, above the least of late
//! long   wait > longest wait of late / 2, and > 0.75 ms
//! busy   one of the latest 48 waits was long
//! near   the waits before and after a packet that was lost
//! usual  the waits before and after a packet that arrived
//! jitter of 12 near waits or more, at most 1/8 more were long than of usual ones, of which less than 9/16 were
//! ```
//!
//! Only packets that begin a burst count: the others of it wait for one another, and still do where the first was
//! lost. Where the receiver does not report times (draft-ietf-quic-receive-ts), the wait is what a round-trip sample
//! has above the smallest, without the delay of the acknowledgment that the peer reports.
//!
//! A tail-drop queue of a few milliseconds cannot be told from jitter by how long one packet waits. That many packets
//! wait about as long as any ever does tells it: a link with such a queue that several flows keep full is busy nearly
//! always, and one that loses packets by chance is not, for most of its packets do not wait.
//!
//! Where a host or the path delays packets at random, waits of half the longest come all the time without a queue. A
//! queue that loses packets is full when it does: the packets next to a lost one wait long more often than those next
//! to others. Next to a packet that was lost by chance, waits are as they are elsewhere. Each packet counts, so that
//! large bursts, after which the next one waits, count on both sides as often as they lose packets.
//!
//! What it cannot know: a queue below the noise of hosts that measure, or below jitter of the path. Until six packets
//! were lost, or where the receiver does not report times, jitter passes for a queue. A receiver that reports shorter
//! waits of long ones hides a queue: it gains what a sender would gain that does not look for one.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | full | 1/2 | a larger part leaves fewer losses beside a queue to CUBIC, and takes drops of a managed queue for chance |
//! | border | 1/2 | a higher one lets flows that fill a queue of few packets together lose more before they see it |
//! | least border | 0.75 ms | what hosts add by waking up late; queues below it are not seen |
//! | samples | 48 | fewer take a queue that others fill half of the time for empty; more make it seldom empty under jitter |
//! | memory | 1/64 per round trip, at either end | longer takes one packet that a host held up for the length of a queue |
//! | near | 12, 1/8 | more of them leave losses by chance to CUBIC for longer; a larger excess misses queues that bursts fill at times |
//! | usual | 9/16 | a higher part takes a queue that thirty flows fill for jitter: at 3/4 a CUBIC flow kept 0.78 |

use thalweg_units::{Duration, DurationExt};

use crate::congestion::AckEvent;

/// What is above this part of the longest wait is long …
const BORDER_DIVISOR: i128 = 2;
/// … unless hosts may have caused it.
const LEAST_BORDER: i128 = 750_000;
/// A queue that drops packets holds at least this part of what it held of late.
const FULL_DIVISOR: i128 = 2;
/// So many waits in a row are short where the queue is not in use.
const SAMPLES: u32 = 48;
/// The part of the range that each round trip forgets, at either end.
const MEMORY_DIVISOR: i128 = 64;
/// Of so many waits next to lost packets …
const LEAST_NEAR: u32 = 12;
/// … more than usual are long where a queue has lost them, by one in so many …
const NEAR_EXCESS: u64 = 8;
/// … unless so many of the usual ones are long that there is no difference to see.
const ALWAYS: (u64, u64) = (9, 16);
/// When so many have been counted next to lost packets, and next to others, half of them are forgotten. Of the others
/// there are two for each packet.
const MOST_NEAR: u32 = 64;
const MOST_USUAL: u32 = 4_096;
/// Gaps among the packets that arrived, of which it is not known yet whether they were lost.
const GAPS: usize = 16;

/// See the [module](self). Delays are in nanoseconds, and contain by how much the receiver's clock is ahead.
#[derive(Copy, Clone, Debug)]
pub(super) struct Waits {
    /// The least and the longest delay of late; `None` before the first.
    range: Option<(i128, i128)>,
    /// Whether the receiver has ever reported times.
    is_told: bool,
    /// Short waits in a row.
    short: u32,
    /// The place among those sent of the latest packet that arrived.
    latest_order: u64,
    gaps: [Gap; GAPS],
    /// How many gaps there have been.
    gaps_seen: usize,
    /// Waits next to lost packets.
    near: Tally,
    /// Waits next to packets that arrived.
    usual: Tally,
    /// Packets that arrived since the latest wait.
    since_wait: u32,
    /// The longest delays of this round trip and of the one before.
    longest_of_rounds: [i128; 2],
}

/// Waits of late, and how many of them were long.
#[derive(Copy, Clone, Debug, Default)]
struct Tally {
    long: u32,
    all: u32,
}

impl Tally {
    /// Counts waits; forgets half of the others once they are so many.
    fn count(&mut self, long: u32, all: u32, most: u32) {
        if self.all >= most {
            self.all /= 2;
            self.long /= 2;
        }
        self.all = self.all.saturating_add(all);
        self.long = self.long.saturating_add(long);
    }
}

/// Packets that have not arrived, though later ones have.
#[derive(Copy, Clone, Debug, Default)]
struct Gap {
    /// The place of the last packet before them and of the first one after them; both 0: nothing is missing any more.
    before: u64,
    after: u64,
    /// Whether the wait before them was long, and the one after them, as soon as there is one.
    long: (bool, Option<bool>),
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits {
            range: None,
            is_told: false,
            short: SAMPLES,
            latest_order: 0,
            gaps: [Gap::default(); GAPS],
            gaps_seen: 0,
            near: Tally::default(),
            usual: Tally::default(),
            since_wait: 0,
            longest_of_rounds: [i128::MIN; 2],
        }
    }

    /// An ACK arrived.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>) {
        if event.round.started {
            self.forget();
        }
        for arrival in event.arrivals.iter().filter(|arrival| arrival.is_told) {
            let is_newest = self.note_gap(arrival.order);
            self.usual.count(u32::from(self.was_long()), 1, MOST_USUAL);
            if is_newest && arrival.begins_burst {
                self.sample(arrival.delay());
            }
            self.since_wait = self.since_wait.saturating_add(1);
            self.is_told = true;
        }
        for loss in event.losses {
            self.note_loss(loss.order);
        }
        if event.has_rtt_sample && !self.is_told {
            self.sample(event.rtt.adjusted.nanos().into());
        }
    }

    fn sample(&mut self, delay: i128) {
        let (least, longest) =
            self.range.map_or((delay, delay), |(least, longest)| (least.min(delay), longest.max(delay)));
        self.range = Some((least, longest));
        self.longest_of_rounds[0] = self.longest_of_rounds[0].max(delay);
        let wait = delay - least;
        let is_long = wait > LEAST_BORDER.max((longest - least) / BORDER_DIVISOR);
        self.short = if is_long { 0 } else { self.short.saturating_add(1) };
        let before = std::mem::take(&mut self.since_wait);
        self.usual.count(if is_long { before } else { 0 }, before, MOST_USUAL);
        let newest = &mut self.gaps[self.gaps_seen.wrapping_sub(1) % GAPS];
        newest.long.1.get_or_insert(is_long);
    }

    /// A packet arrived that was sent in this place; whether none has that was sent later.
    fn note_gap(&mut self, order: u64) -> bool {
        let before = self.latest_order;
        if order <= before {
            return false;
        }
        self.latest_order = order;
        if before != 0 && order > before + 1 {
            self.gaps[self.gaps_seen % GAPS] = Gap { before, after: order, long: (self.was_long(), None) };
            self.gaps_seen = self.gaps_seen.wrapping_add(1);
        }
        true
    }

    /// The packet that was sent in this place was lost. Those lost in a row count once.
    fn note_loss(&mut self, order: u64) {
        let Some(gap) = self.gaps.iter_mut().find(|gap| gap.before < order && order < gap.after) else { return };
        let (before, after) = gap.long;
        *gap = Gap::default();
        let long = u32::from(before) + u32::from(after == Some(true));
        self.near.count(long, 1 + u32::from(after.is_some()), MOST_NEAR);
    }

    fn forget(&mut self) {
        self.longest_of_rounds = [i128::MIN, self.longest_of_rounds[0]];
        if let Some((least, longest)) = &mut self.range {
            let step = (*longest - *least) / MEMORY_DIVISOR;
            *least += step;
            *longest -= step;
        }
    }

    /// Whether the latest wait was long.
    fn was_long(&self) -> bool {
        self.short == 0
    }

    /// Whether one of the latest packets had a long wait.
    pub(super) fn is_busy(&self) -> bool {
        self.short < SAMPLES
    }

    /// Whether packets next to lost ones waited long no more often than others: then no queue has lost them.
    pub(super) fn is_jitter(&self) -> bool {
        let (near, near_long) = (u64::from(self.near.all), u64::from(self.near.long));
        let (usual, usual_long) = (u64::from(self.usual.all), u64::from(self.usual.long));
        self.near.all >= LEAST_NEAR
            && near_long * usual * NEAR_EXCESS <= near * (usual_long * NEAR_EXCESS + usual)
            && usual_long * ALWAYS.1 < usual * ALWAYS.0
    }

    /// Whether a full queue has lost nothing: no packet of this round trip and the one before waited half as long as
    /// one of late did.
    pub(super) fn is_far_from_full(&self) -> bool {
        let [now, before] = self.longest_of_rounds;
        self.range.is_some_and(|(least, longest)| {
            let waited = now.max(before).max(least) - least;
            before > i128::MIN && waited < (longest - least) / FULL_DIVISOR
        })
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
    use crate::congestion::{Arrival, LossSample};
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
                        order: self.now + of_burst,
                        begins_burst: of_burst == 0,
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
    fn a_queue_is_far_from_full_after_two_round_trips_with_less_than_half_of_the_longest_wait() {
        let mut receiver = Receiver::new();
        assert!(!receiver.waits.is_far_from_full());
        receiver.ack(true, &[0, 8_000]);
        receiver.ack(true, &[3_000]);
        assert!(!receiver.waits.is_far_from_full(), "two round trips");
        receiver.ack(true, &[3_000]);
        assert!(receiver.waits.is_far_from_full());
        receiver.ack(false, &[4_100, 0]);
        assert!(!receiver.waits.is_far_from_full());
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

    /// Loses the third of every five packets, 30 times; `wait` says how long each waits.
    fn lossy(wait: impl Fn(u64) -> u64) -> Waits {
        lossy_until(150, wait)
    }

    fn lossy_until(last: u64, wait: impl Fn(u64) -> u64) -> Waits {
        let mut waits = Waits::new();
        let mut scene = Scene::new();
        for order in 1..=last {
            let sent = Instant::from_nanos(order * 5_000_000);
            if order % 5 == 3 {
                continue;
            }
            let received = us(7_000_000 + order * 5_000 + wait(order));
            let arrivals = [Arrival { sent, order, begins_burst: true, bytes: 1_200, received, is_told: true }];
            let lost = LossSample {
                bytes: 1_200,
                sent,
                order: order.saturating_sub(2),
                delivered: 0,
                lost: 0,
                in_flight: 0,
                application_limited: false,
            };
            let losses = if order % 5 == 0 { core::slice::from_ref(&lost) } else { &[] };
            waits.observe(&AckEvent { arrivals: &arrivals, losses, ..scene.ack(1_200, None, false) });
        }
        waits
    }

    #[test]
    fn waits_that_are_as_long_elsewhere_as_next_to_lost_packets_are_jitter() {
        // Evenly spread over two milliseconds: half of them are long.
        assert!(lossy(|order| order * 1_237 % 2_000).is_jitter());
        // The queue is full where packets are lost, and empty elsewhere.
        assert!(!lossy(|order| if order % 5 == 2 || order % 5 == 4 { 1_900 } else { order % 7 }).is_jitter());
        // It is always full.
        assert!(!lossy(|order| if order % 20 == 0 { 0 } else { 1_900 + order % 7 }).is_jitter());
    }

    /// Bursts of two packets on a link that takes 400 us for each. Of every tenth burst, the first is lost by chance,
    /// and of some the second; hosts add up to 700 us.
    #[test]
    fn what_is_left_of_a_burst_waited_for_its_first_packet_and_is_no_queue() {
        let mut waits = Waits::new();
        let mut scene = Scene::new();
        for order in (1..=4_000).filter(|order| order % 20 != 7 && order % 60 != 14) {
            let (burst, of_burst) = ((order - 1) / 2, (order - 1) % 2);
            let sent = Instant::from_nanos(burst * 5_000_000);
            let received = us(7_000_000 + burst * 5_000 + burst * 237 % 700 + of_burst * 400);
            let arrivals =
                [Arrival { sent, order, begins_burst: of_burst == 0, bytes: 1_200, received, is_told: true }];
            waits.observe(&AckEvent { arrivals: &arrivals, ..scene.ack(1_200, None, false) });
            assert!(!waits.is_busy(), "{order}: {:?}", waits.longest());
        }
    }

    #[test]
    fn five_lost_packets_tell_nothing_and_six_mostly_tell_jitter() {
        let jitter = |lost: u64, step: u64| lossy_until(5 * lost, |order| order * step % 2_000);
        let steps = (601..1_601).step_by(20);
        assert!(steps.clone().all(|step| !jitter(5, step).is_jitter()));
        for (lost, least) in [(6, 33), (30, 40)] {
            let told = steps.clone().filter(|step| jitter(lost, *step).is_jitter()).count();
            assert!(told >= least, "{told} of 50 after {lost} lost packets");
        }
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
            let (order, sent) = (1 + index as u64, Instant::from_nanos(1 + index as u64));
            let arrivals = [Arrival { sent, order, begins_burst: true, bytes: 1, received, is_told: true }];
            waits.observe(&AckEvent { arrivals: &arrivals, ..scene.ack(1, None, true) });
        }
        assert!(waits.longest() > Duration::ZERO);
    }
}
