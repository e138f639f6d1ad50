//! SEARCH (draft-chung-ccwg-search-09): slow start that stops when what is acknowledged falls behind what was sent a
//! round trip before.
//!
//! ```text
//! time is cut into bins of 0.35 × first RTT; over the latest 10 of them, at the end of each:
//!   delivered = bytes acknowledged
//!   sent      = bytes sent in as long a time that ended one round trip earlier
//! (sent − delivered) / sent ≥ 0.26  ──► avoidance, at the window of that moment
//! ```
//!
//! As long as the path has room, everything sent is acknowledged a round trip later and the difference is nil. Once the
//! link is full, the sender goes on doubling and the acknowledgments do not. No single sample decides, and jitter only
//! moves bytes from one bin to the next. The price is time: there is nothing to compare before three and a half round
//! trips and one more have gone by, and the share takes three round trips of a full link to build up. A queue of less
//! than three times the path overflows before that, and the start ends as standard slow start does.
//!
//! The constants are those of the draft, in which 3.5 and 0.26 come from measurements over Wi-Fi, LTE and satellites.
//! Two things follow the implementation in neqo, whose authors report them to those of the draft: bytes sent are
//! interpolated backwards where a round trip ends within a bin (the draft's text says forwards), and after a pause of
//! more than a whole window of bins everything begins anew (the draft leaves that open). As there, the window stays
//! where the start leaves it: the draft would let it drain to what was delivered in the last round trip.
//!
//! The round trip is the newest sample as measured, whatever `exit-rtt=` says: the peer's ACK delay is part of the time
//! from sending to acknowledgment. Only the first slow start of a path works this way.

use thalweg_units::{Duration, DurationExt, Instant};

use super::{Departure, Proposal, Start};
use crate::congestion::AckEvent;
use crate::congestion::view::View;
use crate::trace::StartExit;

/// Bins of the time over which bytes are compared (W): finer costs memory, coarser decides less often.
const WINDOW: u64 = 10;
/// That time over the first RTT, in hundredths (WINDOW_SIZE_FACTOR): longer smooths more, and decides later.
const WINDOW_FACTOR: u32 = 350;
/// How many bins a round trip may reach back (EXTRA_BINS), 5.25 times the first one: beyond, nothing is concluded.
const EXTRA: u64 = 15;
/// The share of what was sent that is missing when the start ends, in hundredths (THRESH): less stops for jitter, more
/// fills a longer queue.
const THRESHOLD: u64 = 26;

const ACKED_BINS: usize = WINDOW as usize + 1;
const SENT_BINS: usize = (WINDOW + 1 + EXTRA) as usize;

/// Bytes by the end of each of the latest bins, in a ring.
#[derive(Copy, Clone, Debug)]
struct Totals<const N: usize>([u64; N]);

impl<const N: usize> Totals<N> {
    fn at(&self, bin: u64) -> u64 {
        self.0.get((bin % N as u64) as usize).copied().unwrap_or_default()
    }

    fn set(&mut self, bin: u64, bytes: u64) {
        if let Some(place) = self.0.get_mut((bin % N as u64) as usize) {
            *place = bytes;
        }
    }

    /// Bytes of the ten bins up to this one.
    fn window(&self, bin: u64) -> u64 {
        self.at(bin).saturating_sub(self.at(bin.saturating_sub(WINDOW)))
    }
}

/// The bins, from the first RTT sample on.
#[derive(Copy, Clone, Debug)]
struct Bins {
    length: Duration,
    /// The number of the latest bin that is complete, and when the one after it will be.
    latest: u64,
    next: Instant,
    acked: Totals<ACKED_BINS>,
    sent: Totals<SENT_BINS>,
}

impl Bins {
    /// `None` if the round trip is too short to be divided.
    fn new(now: Instant, rtt: Duration, acked: u64, sent: u64) -> Option<Bins> {
        let length = rtt.saturating_mul(WINDOW_FACTOR) / 100 / WINDOW as u32;
        let mut bins = Bins {
            length,
            latest: 0,
            next: now + length,
            acked: Totals([0; ACKED_BINS]),
            sent: Totals([0; SENT_BINS]),
        };
        bins.acked.set(0, acked);
        bins.sent.set(0, sent);
        (!length.is_zero()).then_some(bins)
    }

    /// How many bins have been completed by now; zero within one.
    fn completed(&self, now: Instant) -> u64 {
        if now < self.next {
            return 0;
        }
        now.saturating_since(self.next).nanos() / self.length.nanos().max(1) + 1
    }

    /// Goes so many bins on, at the end of which these are the totals. Nothing arrived in all but the last.
    fn advance(&mut self, bins: u64, acked: u64, sent: u64) {
        let (old_acked, old_sent) = (self.acked.at(self.latest), self.sent.at(self.latest));
        for bin in self.latest + 1..self.latest + bins {
            self.acked.set(bin, old_acked);
            self.sent.set(bin, old_sent);
        }
        self.latest += bins;
        self.next += Duration::from_nanos(self.length.nanos().saturating_mul(bins));
        self.acked.set(self.latest, acked);
        self.sent.set(self.latest, sent);
    }

    /// How much of what was sent a round trip ago is missing in what was delivered now, in hundredths; `None` if that
    /// cannot be told.
    fn missing(&self, rtt: Duration) -> Option<u64> {
        let length = self.length.nanos().max(1);
        let (back, rest) = (rtt.nanos() / length, rtt.nanos() % length);
        let before = self.latest.checked_sub(back).filter(|before| *before > WINDOW && back < EXTRA)?;
        // Between two ends of bins, what was sent is taken to have left evenly.
        let part = u64::try_from(u128::from(rest) * 100 / u128::from(length)).unwrap_or(0);
        let earlier = self.sent.window(before - 1).saturating_mul(part);
        let later = self.sent.window(before).saturating_mul(100 - part);
        let sent = earlier.saturating_add(later) / 100;
        let delivered = self.acked.window(self.latest);
        sent.saturating_sub(delivered).saturating_mul(100).checked_div(sent)
    }
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Search {
    /// Whether this is still the first slow start.
    active: bool,
    /// Bytes acknowledged and bytes sent so far.
    acked: u64,
    sent: u64,
    bins: Option<Bins>,
}

impl Search {
    pub(crate) fn new() -> Search {
        Search { active: true, acked: 0, sent: 0, bins: None }
    }

    /// Whether a bin has ended and too little was delivered by then.
    fn is_over(&mut self, event: &AckEvent<'_>) -> bool {
        let rtt = event.rtt.latest;
        let completed = self.bins.as_ref().map(|bins| bins.completed(event.now));
        let Some(bins) = self.bins.as_mut().filter(|_| completed.is_some_and(|completed| completed <= WINDOW)) else {
            // Of the time before a long pause nothing is left to compare with.
            let begins = event.has_rtt_sample;
            self.bins = begins.then(|| Bins::new(event.now, rtt, self.acked, self.sent)).flatten();
            return false;
        };
        match completed {
            None | Some(0) => false,
            Some(completed) => {
                bins.advance(completed, self.acked, self.sent);
                bins.missing(rtt).is_some_and(|missing| missing >= THRESHOLD)
            }
        }
    }
}

impl Start for Search {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if self.active {
            self.acked = self.acked.saturating_add(event.acked);
            if self.is_over(event) {
                return Proposal { exit: Some(StartExit::Delivery), ..Proposal::window(view.window) };
            }
        }
        Proposal::window(view.window + event.growth)
    }

    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        self.sent = self.sent.saturating_add(sent.bytes);
        None
    }

    fn on_exit(&mut self) {
        self.active = false;
        self.bins = None;
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, ms};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const DATAGRAM: u64 = 1_200;

    /// Bins after `count` of them, in which `sent` and `acked` bytes each went and came.
    fn bins(count: u64, sent: u64, acked: u64) -> Bins {
        let mut bins = Bins::new(Instant::ZERO, ms(100), 0, 0).unwrap();
        for bin in 1..=count {
            bins.advance(1, bin * acked, bin * sent);
        }
        bins
    }

    #[test]
    fn a_window_of_ten_bins_is_three_and_a_half_first_round_trips() {
        let bins = Bins::new(Instant::ZERO, ms(100), 0, 0).unwrap();
        assert_eq!(bins.length, ms(35));
        assert_eq!((bins.completed(Instant::ZERO + ms(34)), bins.completed(Instant::ZERO + ms(35))), (0, 1));
        assert_eq!(bins.completed(Instant::ZERO + ms(350)), 10);
    }

    #[test]
    fn what_is_missing_is_a_share_of_what_was_sent() {
        assert_eq!(bins(30, 1_000, 1_000).missing(ms(100)), Some(0));
        assert_eq!(bins(30, 1_000, 750).missing(ms(100)), Some(25));
        assert_eq!(bins(30, 1_000, 740).missing(ms(100)), Some(26));
        assert_eq!(bins(30, 1_000, 1_500).missing(ms(100)), Some(0), "more came than was sent");
        assert_eq!(bins(30, 0, 0).missing(ms(100)), None, "nothing was sent");
    }

    #[test]
    fn nothing_is_missing_before_a_window_and_a_round_trip_have_passed() {
        // A round trip of 100 ms reaches back two bins of 35 ms and a part of a third.
        assert_eq!(bins(12, 1_000, 0).missing(ms(100)), None);
        assert_eq!(bins(13, 1_000, 0).missing(ms(100)), Some(100));
    }

    #[test]
    fn a_round_trip_of_fifteen_bins_says_nothing() {
        assert_eq!(bins(60, 1_000, 0).missing(ms(35 * 15 - 1)), Some(100));
        assert_eq!(bins(60, 1_000, 0).missing(ms(35 * 15)), None);
    }

    #[test]
    fn what_was_sent_is_interpolated_within_a_bin() {
        // 1,000 bytes in each bin up to the 20th, 2,000 from then on: 21 bins before the end the windows begin to mix.
        let mut bins = bins(20, 1_000, 1_000);
        let (acked, sent) = (bins.acked.at(20), bins.sent.at(20));
        for bin in 1..=5 {
            bins.advance(1, acked + bin * 1_000, sent + bin * 2_000);
        }
        // Two bins back the window holds three of 2,000: 13,000 bytes. Three back, two: 12,000.
        assert_eq!(bins.missing(ms(70)), Some((13_000 - 10_000) * 100 / 13_000));
        assert_eq!(bins.missing(ms(105)), Some((12_000 - 10_000) * 100 / 12_000));
        // Four fifths of the way from two to three.
        assert_eq!(bins.missing(ms(98)), Some((12_200 - 10_000) * 100 / 12_200));
    }

    #[test]
    fn bins_in_which_nothing_was_heard_hold_what_was_before() {
        let mut bins = bins(20, 1_000, 1_000);
        bins.advance(5, 25_000, 25_000);
        assert_eq!((bins.latest, bins.acked.at(24), bins.acked.at(25)), (25, 20_000, 25_000));
        assert_eq!(bins.next, Instant::ZERO + ms(35 * 26));
        assert_eq!(bins.acked.window(25), 10_000);
    }

    struct Run {
        start: Search,
        scene: Scene,
        window: u64,
        exit: Option<StartExit>,
    }

    impl Run {
        fn new() -> Run {
            Run { start: Search::new(), scene: Scene::new(), window: 10 * DATAGRAM, exit: None }
        }

        fn send(&mut self, bytes: u64) {
            let sent =
                Departure { now: self.scene.now, bytes, bytes_in_flight: bytes, window: self.window, is_full: false };
            assert_eq!(self.start.on_sent(sent), None);
        }

        fn ack(&mut self, bytes: u64, sample: Option<Duration>) {
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(bytes, sample, false);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            self.exit = self.exit.or(proposal.exit);
        }

        /// Slow start over a link of so many bytes per millisecond with an endless queue, for so long or until the
        /// start ends. Each round trip takes `late` more of 100 ms than the link itself.
        fn over(&mut self, rate: u64, millis: u64, mut late: impl FnMut(u64) -> u64) {
            let (mut queue, mut flying) = (VecDeque::new(), VecDeque::new());
            let mut in_flight = 0;
            for _ in 0..millis {
                while in_flight + DATAGRAM <= self.window {
                    self.send(DATAGRAM);
                    in_flight += DATAGRAM;
                    queue.push_back(self.scene.now);
                }
                let now = self.scene.now;
                let served = (rate / DATAGRAM).min(queue.len() as u64) as usize;
                for sent in queue.drain(..served) {
                    flying.push_back((now + ms(100 + late(now.as_nanos() / 1_000_000)), sent));
                }
                while let Some((_, sent)) = flying.front().copied().filter(|(arrives, _)| *arrives <= now) {
                    flying.pop_front();
                    in_flight -= DATAGRAM;
                    self.ack(DATAGRAM, Some(now.saturating_since(sent)));
                }
                if self.exit.is_some() {
                    return;
                }
                self.scene.now += ms(1);
            }
        }
    }

    #[test]
    fn a_path_with_room_does_not_stop_it() {
        let mut run = Run::new();
        run.over(u64::MAX / 2, 900, |_| 0);
        assert_eq!(run.exit, None);
        assert!(run.window > 1_000_000, "{}", run.window);
    }

    #[test]
    fn jitter_of_a_fifth_of_the_round_trip_does_not_stop_it() {
        let mut run = Run::new();
        run.over(u64::MAX / 2, 900, |now| now * 7 % 20);
        assert_eq!(run.exit, None);
    }

    #[test]
    fn a_full_link_stops_it() {
        for datagrams in [1, 4, 16, 64] {
            let mut run = Run::new();
            let rate = datagrams * DATAGRAM;
            run.over(rate, 5_000, |_| 0);
            assert_eq!(run.exit, Some(StartExit::Delivery), "{datagrams}");
            let over = run.window as f64 / (rate * 100) as f64;
            // Three round trips after it is full: only then has a quarter of the window of bins seen too little.
            assert!((2.0..7.0).contains(&over), "{datagrams}: {over} times the path");
        }
    }

    #[test]
    fn after_a_long_pause_it_begins_anew() {
        let mut run = Run::new();
        run.over(DATAGRAM, 400, |_| 0);
        let latest = |run: &Run| run.start.bins.unwrap().latest;
        assert!(latest(&run) >= 5, "{}", latest(&run));
        run.scene.now += ms(10 * 36);
        run.ack(DATAGRAM, Some(ms(100)));
        assert_eq!(latest(&run), 0);
        assert_eq!(run.exit, None);
    }

    #[test]
    fn later_slow_starts_are_standard() {
        let mut run = Run::new();
        run.start.on_exit();
        run.over(DATAGRAM, 2_000, |_| 0);
        assert_eq!(run.exit, None);
    }

    proptest! {
        /// Whatever happens, the window is that of standard slow start until it stops where it is.
        #[test]
        fn it_opens_like_slow_start_until_it_stops(
            acks in proptest::collection::vec(
                (0u64..50, 0u64..4, 0u64..4, proptest::option::of(0u64..300)), 1..300),
        ) {
            let mut run = Run::new();
            let mut expected = run.window;
            for (after, sent, acked, sample) in acks {
                run.scene.now += ms(after);
                run.send(sent * DATAGRAM);
                run.ack(acked * DATAGRAM, sample.map(ms));
                if run.exit.is_some() {
                    break;
                }
                expected += acked * DATAGRAM;
            }
            prop_assert_eq!(run.window, expected);
        }
    }
}
