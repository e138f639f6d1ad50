//! HyStart as in Linux: slow start that stops at once when a train of ACKs lasts as long as the path, or when the
//! round-trip time has risen.
//!
//! ```text
//! in a round, with a window of at least 16 datagrams:
//!   ACK train   ACKs come at most 2 ms apart since the round began,
//!               and now − beginning > (smallest RTT + allowance), half of that if packets are not paced  ──► avoidance
//!   delay       more than 8 samples, and
//!               their minimum > smallest RTT + clamp(smallest RTT / 8, 4 ms, 16 ms)                      ──► avoidance
//! allowance   = min(1 ms, 256 KiB over the pacing rate)
//! ```
//!
//! HyStart is of S. Ha and I. Rhee, "Taming the elephants: new TCP slow start" (Computer Networks 55, 2011). The rules
//! and constants here are those of `tcp_cubic.c` in Linux 5.6 and later; each constant names its source there. What is
//! different here:
//!
//! - Only the first slow start of a path works this way. Linux begins anew after a timeout.
//! - A round begins with the first ACK for something sent after the beginning of the round before, as in RFC 9406.
//!   Linux goes by the cumulative acknowledgment, which is the same without loss.
//! - Samples are those that `exit-rtt=` names, by default with the peer's reported ACK delay taken off. TCP reports
//!   none.
//! - The pacing rate is that of slow start, two windows per smoothed round trip. Linux holds the same
//!   (`tcp_pacing_ss_ratio` of 200 %).
//!
//! The delay test compares with the smallest sample ever, where HyStart++ compares with the round before; and there is
//! no second look. So it stops earlier, and a few late samples in one round, as on Wi-Fi, stop it for nothing.

use thalweg_units::{Duration, Instant};

use super::{Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::pacing;
use crate::trace::StartExit;

/// The smallest window, in datagrams, that is judged (`hystart_low_window`): a smaller one is far from any queue that
/// matters, and gives too few samples.
const LOW_WINDOW: u64 = 16;
/// ACKs further apart than this end a train (`hystart_ack_delta_us`): longer, and ACKs of an idle path look like one.
const ACK_SPACING: Duration = Duration::from_millis(2);
/// The most that a train may last beyond the smallest RTT (`hystart_ack_delay`, which holds it at a millisecond).
const MOST_ALLOWANCE: Duration = Duration::from_millis(1);
/// Four of the largest bursts of a sender with segmentation offload (`hystart_ack_delay`, with a `GSO_MAX_SIZE` of
/// 64 KiB). A burst is acknowledged at once, so that the train of a very fast path is longer than the path by that.
const ALLOWED_BURSTS: u64 = 4 * 65_536;
/// Samples that a round needs before one more is judged (`HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// The rise that counts is this fraction of the smallest RTT (`delay_min >> 3`) …
const RISE_DIVISOR: u32 = 8;
/// … but no less, which is jitter (`HYSTART_DELAY_MIN`) …
const LEAST_RISE: Duration = Duration::from_millis(4);
/// … and no more, by which a queue has been filled (`HYSTART_DELAY_MAX`).
const MOST_RISE: Duration = Duration::from_millis(16);

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct HyStart {
    /// Whether this is still the first slow start.
    active: bool,
    is_paced: bool,
    /// The smallest sample of all; `None` before the first.
    smallest: Option<Duration>,
    /// When the round began.
    round_began: Instant,
    /// The latest ACK of the train that began with the round; it stays where the train ended.
    train: Instant,
    /// The smallest of the round's samples, those taken when the window was too small excluded.
    round_smallest: Option<Duration>,
    samples: u32,
}

/// The rise over the smallest RTT above which a queue is building up.
fn rise(smallest: Duration) -> Duration {
    (smallest / RISE_DIVISOR).clamp(LEAST_RISE, MOST_RISE)
}

/// How much longer than the path a train may be at the rate of this window.
fn allowance(view: View) -> Duration {
    pacing::window_rate(view.window, view.smoothed_rtt, pacing::SLOW_START_GAIN)
        .time_for(ALLOWED_BURSTS)
        .min(MOST_ALLOWANCE)
}

impl HyStart {
    pub(crate) fn new(context: &PathContext) -> HyStart {
        HyStart {
            active: true,
            is_paced: context.is_paced,
            smallest: None,
            round_began: context.now,
            train: context.now,
            round_smallest: None,
            samples: 0,
        }
    }

    fn begin_round(&mut self, now: Instant) {
        self.round_began = now;
        self.train = now;
        self.round_smallest = None;
        self.samples = 0;
    }

    /// Whether ACKs have come one after the other, since the round began, for longer than the path is.
    fn has_long_train(&mut self, view: View, smallest: Duration) -> bool {
        if view.now.saturating_since(self.train) > ACK_SPACING {
            return false;
        }
        self.train = view.now;
        let limit = smallest.saturating_add(allowance(view));
        // Paced packets of slow start leave over half a round trip.
        let limit = if self.is_paced { limit } else { limit / 2 };
        view.now.saturating_since(self.round_began) > limit
    }

    /// Whether all samples of the round are well above the smallest of all.
    fn has_risen(&mut self, sample: Duration, smallest: Duration) -> bool {
        let lowest = self.round_smallest.map_or(sample, |lowest| lowest.min(sample));
        self.round_smallest = Some(lowest);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        lowest > smallest.saturating_add(rise(smallest))
    }

    /// Both tests, of an ACK that gave a sample.
    fn judge(&mut self, view: View, sample: Duration) -> Option<StartExit> {
        let smallest = self.smallest.map_or(sample, |smallest| smallest.min(sample));
        self.smallest = Some(smallest);
        if view.window < LOW_WINDOW * view.datagram {
            return None;
        }
        // Each test keeps its own account, whatever the other says.
        let (train, risen) = (self.has_long_train(view, smallest), self.has_risen(sample, smallest));
        if train { Some(StartExit::AckTrain) } else { risen.then_some(StartExit::Delay) }
    }
}

impl Start for HyStart {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        let opened = Proposal::window(view.window + event.growth);
        if !self.active {
            return opened;
        }
        if event.round.started {
            self.begin_round(event.now);
        }
        // What TCP's handshake took is the sample of an ACK for no data. Linux tells its controllers of those for data.
        if !event.has_rtt_sample || event.acked == 0 {
            return opened;
        }
        match self.judge(view, event.rtt.exit) {
            // The threshold is the window that was judged; what this ACK acknowledged is for avoidance.
            Some(reason) => Proposal { exit: Some(reason), ..Proposal::window(view.window) },
            None => opened,
        }
    }

    fn on_exit(&mut self) {
        self.active = false;
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

    const DATAGRAM: u64 = 1_200;
    /// The smallest window that is judged.
    const LOW: u64 = 16 * DATAGRAM;

    struct Run {
        start: HyStart,
        scene: Scene,
        window: u64,
        exit: Option<StartExit>,
    }

    impl Run {
        fn new(is_paced: bool, window: u64) -> Run {
            let context = PathContext { is_paced, ..PathContext::new(Instant::ZERO, DATAGRAM as u16) };
            Run { start: HyStart::new(&context), scene: Scene::new(), window, exit: None }
        }

        /// An ACK of a datagram, so long after the one before.
        fn ack(&mut self, after: Duration, round_started: bool, sample: Option<u64>) {
            self.scene.now += after;
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(DATAGRAM, sample.map(ms), round_started);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            self.exit = self.exit.or(proposal.exit);
        }

        /// A round of ACKs that are too far apart for a train, with these samples.
        fn round(&mut self, samples: &[u64]) -> Option<StartExit> {
            for (index, sample) in samples.iter().enumerate() {
                self.ack(ms(3), index == 0, Some(*sample));
            }
            self.exit
        }

        /// A round of ACKs so many microseconds apart, all after `path` milliseconds: how long it lasts until the exit.
        fn train(&mut self, spacing: u64, path: u64) -> Option<Duration> {
            self.ack(ms(path), true, Some(path));
            let began = self.scene.now;
            for _ in 0..1_000 {
                self.ack(Duration::from_micros(spacing), false, Some(path));
                if self.exit.is_some() {
                    return Some(self.scene.now.saturating_since(began));
                }
            }
            None
        }
    }

    #[test]
    fn the_rise_is_an_eighth_between_4_and_16_ms() {
        assert_eq!(rise(ms(10)), ms(4));
        assert_eq!(rise(ms(100)), Duration::from_micros(12_500));
        assert_eq!(rise(ms(400)), ms(16));
    }

    #[test]
    fn the_start_ends_above_the_rise_and_not_at_it() {
        for (smallest, at, above) in [(10, 14, 15), (40, 45, 46), (100, 112, 113), (400, 416, 417)] {
            let mut run = Run::new(true, LOW);
            run.round(&[smallest; 9]);
            assert_eq!(run.round(&[at; 20]), None, "{smallest} to {at} ms");
            assert_eq!(run.round(&[above; 9]), Some(StartExit::Delay), "{smallest} to {above} ms");
        }
    }

    #[test]
    fn eight_samples_are_gathered_before_the_ninth_is_judged() {
        let mut run = Run::new(true, LOW);
        run.round(&[100; 9]);
        assert_eq!(run.round(&[200; 8]), None);
        assert_eq!(run.round(&[200; 8]), None, "each round begins anew");
        run.ack(ms(3), false, Some(200));
        assert_eq!(run.exit, Some(StartExit::Delay));
    }

    #[test]
    fn one_early_sample_of_a_round_keeps_the_start_going() {
        let mut run = Run::new(true, LOW);
        run.round(&[100; 9]);
        assert_eq!(run.round(&[200, 200, 110, 200, 200, 200, 200, 200, 200, 200]), None);
    }

    /// HyStart++ compares with the round before and would go on.
    #[test]
    fn a_slow_rise_over_several_rounds_counts() {
        let mut run = Run::new(true, LOW);
        for rtt in [100, 104, 108, 112] {
            assert_eq!(run.round(&[rtt; 9]), None);
        }
        assert_eq!(run.round(&[116; 9]), Some(StartExit::Delay));
    }

    #[test]
    fn a_window_below_16_datagrams_is_not_judged() {
        let mut run = Run::new(true, DATAGRAM);
        run.round(&[100; 3]);
        run.round(&[300; 11]);
        assert_eq!((run.window, run.exit), (15 * DATAGRAM, None));
        // The samples of before do not count.
        assert_eq!(run.round(&[300; 8]), None);
        assert_eq!(run.round(&[300; 9]), Some(StartExit::Delay));
    }

    #[test]
    fn a_train_longer_than_the_path_ends_the_start() {
        // Two windows of 16 datagrams in 100 ms: the allowance is at its millisecond.
        let took = Run::new(true, LOW).train(500, 40);
        assert_eq!(took, Some(Duration::from_micros(41_500)), "the first ACK past 41 ms");
        let took = Run::new(false, LOW).train(500, 40);
        assert_eq!(took, Some(ms(21)), "unpaced, the first past 20.5 ms");
    }

    #[test]
    fn a_train_is_told_from_a_rise() {
        let mut run = Run::new(true, LOW);
        run.train(500, 40);
        assert_eq!(run.exit, Some(StartExit::AckTrain));
    }

    #[test]
    fn a_gap_of_more_than_2_ms_ends_the_train_until_the_next_round() {
        assert!(Run::new(true, LOW).train(2_000, 40).is_some());
        assert_eq!(Run::new(true, LOW).train(2_001, 40), None);
        let mut run = Run::new(true, LOW);
        run.ack(ms(40), true, Some(40));
        run.ack(Duration::from_micros(2_001), false, Some(40));
        for _ in 0..100 {
            run.ack(ms(1), false, Some(40));
        }
        assert_eq!(run.exit, None, "the rest of this round is no train");
        assert!(run.train(1_000, 40).is_some());
    }

    #[test]
    fn the_allowance_shrinks_where_the_largest_bursts_take_less_than_a_millisecond() {
        let of = |window| allowance(View::new(Instant::ZERO, window, DATAGRAM, ms(10)));
        assert_eq!(of(LOW), ms(1));
        assert_eq!(of(1_310_720), ms(1), "two windows in 10 ms: 262,144 bytes in one");
        assert_eq!(of(13_107_200), Duration::from_micros(100));
    }

    #[test]
    fn acks_without_a_sample_open_the_window_and_say_nothing_else() {
        let mut run = Run::new(true, LOW);
        run.round(&[100; 9]);
        let before = run.window;
        for index in 0..200 {
            run.ack(ms(1), index == 0, None);
        }
        assert_eq!((run.exit, run.window), (None, before + 200 * DATAGRAM));
    }

    #[test]
    fn what_a_handshake_of_tcp_took_is_not_the_path() {
        let mut run = Run::new(true, LOW);
        let event = run.scene.ack(0, Some(ms(50)), true);
        run.start.on_ack(View::new(event.now, LOW, DATAGRAM, ms(50)), &event);
        run.round(&[60; 9]);
        assert_eq!(run.round(&[60; 20]), None, "10 ms more than the handshake");
    }

    #[test]
    fn later_slow_starts_are_standard() {
        let mut run = Run::new(true, LOW);
        run.start.on_exit();
        run.round(&[100; 9]);
        assert_eq!(run.round(&[300; 20]), None);
        assert_eq!(run.train(500, 40), None);
    }

    #[test]
    fn a_reported_ack_delay_is_not_a_queue() {
        let mut run = Run::new(true, LOW);
        run.round(&[100; 9]);
        for index in 0..20 {
            run.scene.now += ms(3);
            let view = View::new(run.scene.now, LOW, DATAGRAM, ms(100));
            let event = run.scene.ack_with_delay(DATAGRAM, ms(130), ms(25), index == 0);
            assert_eq!(run.start.on_ack(view, &event).exit, None);
        }
    }

    proptest! {
        /// Whatever happens, the window is that of standard slow start until it stops where it is.
        #[test]
        fn it_opens_like_slow_start_until_it_stops(
            is_paced: bool,
            acks in proptest::collection::vec((0u64..5_000, any::<bool>(), proptest::option::of(20u64..80)), 1..300),
        ) {
            let mut run = Run::new(is_paced, 12_000);
            let mut expected = 12_000;
            for (after, round_started, sample) in acks {
                run.ack(Duration::from_micros(after), round_started, sample);
                if run.exit.is_some() {
                    prop_assert!(expected >= LOW && sample.is_some());
                    break;
                }
                expected += DATAGRAM;
                prop_assert_eq!(run.window, expected);
            }
            prop_assert_eq!(run.window, expected);
        }

        /// Neither test fires on a path whose round-trip times stay within the least rise, and whose trains are short.
        #[test]
        fn a_path_without_a_queue_does_not_stop_it(
            smallest in 20u64..500,
            rounds in proptest::collection::vec(proptest::collection::vec(0u64..=4, 1..40), 1..40),
        ) {
            let mut run = Run::new(true, LOW);
            for round in rounds {
                let samples: Vec<u64> = round.iter().map(|jitter| smallest + jitter).collect();
                prop_assert_eq!(run.round(&samples), None);
            }
        }
    }
}
