//! HyStart++ (RFC 9406): slow start that notices a rising round-trip time, slows down to make sure, and then stops.
//!
//! ```text
//! slow start    window += min(acked, L datagrams)
//!               the round's minimum RTT has risen by clamp(last / 8, 4 ms, 16 ms)  ──► conservative
//! conservative  window += a quarter of that
//!               the RTT falls back below what it was on entry                      ──► slow start
//!               5 rounds have passed                                               ──► avoidance
//! ```
//!
//! A round ends when the first packet sent after its beginning is acknowledged. Each round compares its minimum over at
//! least 8 samples with the minimum of the round before. Samples are those that `exit-rtt=` names, by default as
//! measured with the peer's reported ACK delay taken off: that delay is not a queue. Only the first
//! slow start of a path works this way (section 4.3); later ones have a threshold to stop at.

use thalweg_units::Duration;

use super::{Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::trace::{StartExit, State};

/// The least rise that counts (MIN_RTT_THRESH): smaller ones are jitter.
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
/// The most that is asked for (MAX_RTT_THRESH): a path this long has filled a queue by then.
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
/// In between, the rise that counts is this fraction of the RTT (MIN_RTT_DIVISOR).
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples that a round needs before it is judged (N_RTT_SAMPLE): fewer, and one late ACK decides.
const SAMPLES: u32 = 8;
/// Conservative slow start opens the window by this fraction (CSS_GROWTH_DIVISOR): slow enough to be harmless if the
/// exit was due.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Rounds of it before the exit is believed (CSS_ROUNDS).
const CSS_ROUNDS: u32 = 5;
/// Datagrams that one ACK may open the window by when packets are not paced (L); with pacing there is no burst to
/// limit.
const UNPACED_LIMIT: u64 = 8;

#[derive(Copy, Clone, Debug)]
struct Conservative {
    /// The round minimum on entry; falling below it takes the entry back.
    baseline: Duration,
    /// Rounds completed, the one of the entry included.
    rounds: u32,
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct HyStartPlusPlus {
    /// Whether this is still the first slow start.
    active: bool,
    limit: Option<u64>,
    /// Minimum RTT of the last round and of this one so far; `None` without a sample.
    last_round: Option<Duration>,
    this_round: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
    /// Acknowledged bytes that conservative slow start has not turned into a whole byte of window.
    remainder: u64,
}

/// The rise of the round minimum that counts as a queue building up.
fn threshold(last_round: Duration) -> Duration {
    (last_round / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD)
}

impl HyStartPlusPlus {
    pub(crate) fn new(context: &PathContext) -> HyStartPlusPlus {
        HyStartPlusPlus {
            active: true,
            limit: (!context.is_paced).then_some(UNPACED_LIMIT),
            last_round: None,
            this_round: None,
            samples: 0,
            conservative: None,
            remainder: 0,
        }
    }

    fn begin_round(&mut self) {
        self.last_round = self.this_round.take();
        self.samples = 0;
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
        }
    }

    fn take_sample(&mut self, rtt: Duration) {
        let minimum = self.this_round.map_or(rtt, |minimum| minimum.min(rtt));
        self.this_round = Some(minimum);
        self.samples += 1;
        if self.samples < SAMPLES {
            return;
        }
        match self.conservative {
            Some(conservative) if minimum < conservative.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let has_risen = self.last_round.is_some_and(|last| minimum >= last.saturating_add(threshold(last)));
                self.conservative = has_risen.then_some(Conservative { baseline: minimum, rounds: 0 });
            }
        }
    }

    fn opening(&mut self, view: View, acked: u64) -> u64 {
        let acked = self.limit.map_or(acked, |limit| acked.min(limit * view.datagram));
        if self.conservative.is_none() {
            return acked;
        }
        self.remainder += acked;
        let opened = self.remainder / CSS_GROWTH_DIVISOR;
        self.remainder %= CSS_GROWTH_DIVISOR;
        opened
    }
}

impl Start for HyStartPlusPlus {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if !self.active {
            return Proposal::window(view.window + event.growth);
        }
        if event.round.started {
            self.begin_round();
        }
        let open_by = self.opening(view, event.growth);
        if event.has_rtt_sample {
            self.take_sample(event.rtt.exit);
        }
        let is_over = self.conservative.is_some_and(|conservative| conservative.rounds >= CSS_ROUNDS);
        Proposal { exit: is_over.then_some(StartExit::Delay), ..Proposal::window(view.window + open_by) }
    }

    fn on_exit(&mut self) {
        self.active = false;
        self.conservative = None;
    }

    fn state(&self) -> State {
        if self.conservative.is_some() { State::ConservativeSlowStart } else { State::SlowStart }
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, ms};
    use thalweg_units::Instant;

    const DATAGRAM: u64 = 1_200;

    struct Run {
        start: HyStartPlusPlus,
        scene: Scene,
        window: u64,
    }

    impl Run {
        fn new(is_paced: bool) -> Run {
            let context = PathContext { is_paced, ..PathContext::new(Instant::ZERO, DATAGRAM as u16) };
            Run { start: HyStartPlusPlus::new(&context), scene: Scene::new(), window: 12_000 }
        }

        /// One round of ACKs, one datagram each, with these samples.
        fn round(&mut self, samples: &[u64]) -> bool {
            let mut stop = false;
            for (index, sample) in samples.iter().enumerate() {
                stop |= self.ack(index == 0, Some(*sample), DATAGRAM);
            }
            stop
        }

        fn ack(&mut self, round_started: bool, sample: Option<u64>, acked: u64) -> bool {
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(acked, sample.map(ms), round_started);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            proposal.exit.is_some()
        }

        fn is_conservative(&self) -> bool {
            self.start.state() == State::ConservativeSlowStart
        }
    }

    #[test]
    fn rfc9406_4_2_the_threshold_is_an_eighth_between_4_and_16_ms() {
        assert_eq!(threshold(ms(10)), ms(4));
        assert_eq!(threshold(ms(100)), Duration::from_micros(12_500));
        assert_eq!(threshold(ms(400)), ms(16));
    }

    #[test]
    fn rfc9406_4_2_slow_start_becomes_conservative_at_the_threshold_and_not_below() {
        for (last, below, at) in [(10, 13, 14), (10, 13, 15), (100, 112, 113), (400, 415, 416)] {
            let mut run = Run::new(true);
            run.round(&[last; 8]);
            run.round(&[below; 8]);
            assert!(!run.is_conservative(), "{last} to {below} ms");
            let mut run = Run::new(true);
            run.round(&[last; 8]);
            run.round(&[at; 8]);
            assert!(run.is_conservative(), "{last} to {at} ms");
        }
    }

    #[test]
    fn rfc9406_4_2_a_round_needs_eight_samples() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        run.round(&[200; 7]);
        assert!(!run.is_conservative());
        run.ack(false, Some(200), DATAGRAM);
        assert!(run.is_conservative());
    }

    #[test]
    fn rfc9406_4_2_the_minimum_of_the_round_counts() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        run.round(&[200, 200, 200, 200, 200, 200, 110, 200, 200]);
        assert!(!run.is_conservative());
    }

    #[test]
    fn rfc9406_4_2_the_first_round_has_nothing_to_compare_with() {
        let mut run = Run::new(true);
        run.round(&[100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
        assert!(!run.is_conservative());
    }

    #[test]
    fn rfc9406_4_2_without_samples_nothing_is_concluded() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        for index in 0..20 {
            run.ack(index == 0, None, DATAGRAM);
        }
        run.round(&[200; 8]);
        assert!(!run.is_conservative(), "the round before had no minimum");
    }

    #[test]
    fn rfc9406_4_2_paced_slow_start_opens_by_all_that_is_acknowledged() {
        let mut run = Run::new(true);
        run.ack(true, Some(100), 100 * DATAGRAM);
        assert_eq!(run.window, 12_000 + 100 * DATAGRAM);
    }

    #[test]
    fn rfc9406_4_2_unpaced_slow_start_opens_by_eight_datagrams_per_ack_at_most() {
        let mut run = Run::new(false);
        run.ack(true, Some(100), 100 * DATAGRAM);
        assert_eq!(run.window, 12_000 + 8 * DATAGRAM);
    }

    #[test]
    fn rfc9406_4_2_conservative_slow_start_opens_by_a_quarter_to_the_byte() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        run.round(&[200; 8]);
        let before = run.window;
        for _ in 0..7 {
            run.ack(false, Some(200), 1_201);
        }
        assert_eq!(run.window - before, 7 * 1_201 / 4);
    }

    #[test]
    fn rfc9406_4_2_falling_below_the_baseline_takes_the_entry_back() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        run.round(&[200; 8]);
        run.round(&[200; 8]);
        assert!(run.is_conservative(), "not below the baseline");
        run.round(&[199; 7]);
        assert!(run.is_conservative(), "seven samples");
        run.ack(false, Some(199), DATAGRAM);
        assert!(!run.is_conservative());
    }

    #[test]
    fn rfc9406_4_2_after_five_rounds_counting_the_partial_one_of_the_entry_it_stops() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        // Enters in the middle of this round, which counts as the first of five.
        assert!(!run.round(&[200; 10]));
        for _ in 0..4 {
            assert!(!run.round(&[200; 10]));
        }
        assert!(run.ack(true, Some(200), DATAGRAM), "the fifth round is complete");
    }

    #[test]
    fn rfc9406_4_3_later_slow_starts_are_standard() {
        let mut run = Run::new(true);
        run.start.on_exit();
        run.round(&[100; 8]);
        run.round(&[300; 8]);
        assert!(!run.is_conservative());
    }

    #[test]
    fn a_reported_ack_delay_is_not_a_queue() {
        let mut run = Run::new(true);
        run.round(&[100; 8]);
        for index in 0..8 {
            let view = View::new(run.scene.now, 12_000, DATAGRAM, ms(100));
            let event = run.scene.ack_with_delay(DATAGRAM, ms(120), ms(20), index == 0);
            run.start.on_ack(view, &event);
        }
        assert!(!run.is_conservative());
    }
}
