//! Slow start that stops when the smallest of the latest round-trip samples stays a quarter above what it was: the exit
//! of picoquic.
//!
//! ```text
//! of the latest 7 samples, at least 1 ms apart:
//!   baseline  = the lowest that their maximum has ever been
//!   excess   += 1 if their minimum > baseline + max(baseline / 4, time of a packet)
//!             = 0 if their minimum ≤ baseline
//! excess = 7  ──► avoidance, at the window of that moment
//! ```
//!
//! The rule is that of `picoquic_hystart_test` and `picoquic_filter_rtt_min_max` in picoquic's `cc_common.c`, in which
//! it goes by the name of HyStart; it has none of that rule's tests. It does not count rounds. The maximum makes the
//! baseline: what all of seven samples stay below is no chance. The minimum is compared with it: what all of seven
//! exceed is no jitter. Seven excesses on top mean that the exit takes 13 late samples and thus 13 ms at least, so a
//! path whose round trip is not much longer overshoots.
//!
//! What differs from picoquic: samples are those that `exit-rtt=` names, where picoquic can use one-way delays; the
//! packet time is that of a full datagram at two windows per round trip, where picoquic paces slow start at 5/4; and
//! picoquic's CUBIC reduces the window at this exit, which is not part of the test. Only the first slow start of a
//! path works this way.

use thalweg_units::{Duration, Instant};

use super::{Proposal, Start};
use crate::congestion::AckEvent;
use crate::congestion::view::View;
use crate::pacing;
use crate::trace::StartExit;

/// Samples that are looked at together (`PICOQUIC_MIN_MAX_RTT_SCOPE`), and the excesses in a row that end the start:
/// more are surer and later.
const SCOPE: usize = 7;
/// Samples closer together than this are one, the first (1,000 µs in `picoquic_hystart_test`): ACKs of one burst say
/// the same.
const SPACING: Duration = Duration::from_millis(1);
/// The excess that counts is this fraction of the baseline: less is jitter, more is a longer queue before the exit.
const EXCESS_DIVISOR: u32 = 4;

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct DelayMin {
    /// Whether this is still the first slow start.
    active: bool,
    /// The latest samples, in a ring.
    samples: [Duration; SCOPE],
    /// How many have been taken.
    taken: usize,
    /// When the latest was.
    latest: Option<Instant>,
    /// The lowest that the maximum of the ring has been; `None` before it is full.
    baseline: Option<Duration>,
    /// Excesses since the minimum of the ring was at the baseline.
    excesses: usize,
}

impl DelayMin {
    pub(crate) fn new() -> DelayMin {
        DelayMin { active: true, samples: [Duration::ZERO; SCOPE], taken: 0, latest: None, baseline: None, excesses: 0 }
    }

    /// Takes a sample; returns the smallest and the largest of the latest seven, once there are so many.
    fn take(&mut self, now: Instant, sample: Duration) -> Option<(Duration, Duration)> {
        if self.latest.is_some_and(|latest| now.saturating_since(latest) <= SPACING) {
            return None;
        }
        self.latest = Some(now);
        if let Some(place) = self.samples.get_mut(self.taken % SCOPE) {
            *place = sample;
        }
        self.taken += 1;
        let extremes = self.samples.iter().copied().min().zip(self.samples.iter().copied().max());
        extremes.filter(|_| self.taken >= SCOPE)
    }

    /// Whether the round-trip time has stayed above the baseline for long enough.
    fn has_risen(&mut self, view: View, sample: Duration) -> bool {
        let Some((smallest, largest)) = self.take(view.now, sample) else { return false };
        let baseline = self.baseline.map_or(largest, |baseline| baseline.min(largest));
        self.baseline = Some(baseline);
        let packet =
            pacing::window_rate(view.window, view.smoothed_rtt, pacing::SLOW_START_GAIN).time_for(view.datagram);
        if smallest > baseline.saturating_add((baseline / EXCESS_DIVISOR).max(packet)) {
            self.excesses += 1;
        } else if smallest <= baseline {
            self.excesses = 0;
        }
        self.excesses >= SCOPE
    }
}

impl Start for DelayMin {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if self.active && event.has_rtt_sample && self.has_risen(view, event.rtt.exit) {
            return Proposal { exit: Some(StartExit::Delay), ..Proposal::window(view.window) };
        }
        Proposal::window(view.window + event.growth)
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

    struct Run {
        start: DelayMin,
        scene: Scene,
        window: u64,
        exited: bool,
    }

    impl Run {
        fn new() -> Run {
            Run { start: DelayMin::new(), scene: Scene::new(), window: 120_000, exited: false }
        }

        fn ack(&mut self, after: Duration, sample: Option<u64>) {
            self.scene.now += after;
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(DATAGRAM, sample.map(ms), false);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            self.exited |= proposal.exit.is_some();
        }

        /// Samples two milliseconds apart: at which of them the start ends, counted from 1.
        fn ends_at(&mut self, samples: &[u64]) -> Option<usize> {
            for (index, sample) in samples.iter().enumerate() {
                self.ack(ms(2), Some(*sample));
                if self.exited {
                    return Some(index + 1);
                }
            }
            None
        }
    }

    #[test]
    fn thirteen_samples_above_a_quarter_end_the_start() {
        let mut run = Run::new();
        assert_eq!(run.ends_at(&[100; 20]), None);
        // Seven until the old ones have left the ring: the first excess. Six more.
        assert_eq!(run.ends_at(&[126; 40]), Some(13));
    }

    #[test]
    fn a_quarter_itself_does_not() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        assert_eq!(run.ends_at(&[125; 100]), None);
    }

    #[test]
    fn the_baseline_is_the_lowest_maximum() {
        // Jitter of 100 to 140 ms: the maximum is 140, and a quarter above that 175.
        let jitter = [100, 140, 120, 130, 110, 139, 101];
        let mut run = Run::new();
        run.ends_at(&jitter.repeat(3));
        assert_eq!(run.ends_at(&[175; 40]), None);
        assert_eq!(run.ends_at(&[176; 40]), Some(13));
    }

    #[test]
    fn one_sample_at_the_baseline_begins_the_count_anew() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        assert_eq!(run.ends_at(&[200; 12]), None);
        assert_eq!(run.ends_at(&[100]), None);
        assert_eq!(run.ends_at(&[200; 12]), None);
        assert_eq!(run.ends_at(&[200]), Some(1));
    }

    #[test]
    fn samples_between_the_baseline_and_the_excess_keep_the_count() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        run.ends_at(&[200; 12]);
        // Seven windows have this sample as their smallest: six excesses are remembered, none is added.
        assert_eq!(run.ends_at(&[110, 200, 200, 200, 200, 200, 200]), None);
        assert_eq!(run.ends_at(&[200]), Some(1));
    }

    #[test]
    fn samples_within_a_millisecond_are_one() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        for _ in 0..13 {
            run.ack(Duration::from_micros(500), Some(200));
            run.ack(Duration::from_micros(500), Some(200));
        }
        assert!(!run.exited, "nine at most were taken");
    }

    #[test]
    fn a_packet_time_is_the_least_excess() {
        // A window of a datagram and a half at a round trip of 100 ms: a packet takes a third of that.
        let ends = |window, rtt| {
            let mut run = Run::new();
            for index in 0..60 {
                run.scene.now += ms(2);
                let view = View::new(run.scene.now, window, DATAGRAM, ms(100));
                let event = run.scene.ack(0, Some(ms(if index < 20 { 100 } else { rtt })), false);
                run.exited |= run.start.on_ack(view, &event).exit.is_some();
            }
            run.exited
        };
        assert!(ends(12_000, 126));
        assert!(!ends(1_800, 126) && !ends(1_800, 133));
        assert!(ends(1_800, 134));
    }

    #[test]
    fn acks_without_a_sample_open_the_window_and_say_nothing_else() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        let before = run.window;
        for _ in 0..20 {
            run.ack(ms(2), None);
        }
        assert_eq!(run.window, before + 20 * DATAGRAM);
        assert_eq!(run.ends_at(&[200; 40]), Some(13));
    }

    #[test]
    fn later_slow_starts_are_standard() {
        let mut run = Run::new();
        run.ends_at(&[100; 20]);
        run.start.on_exit();
        assert_eq!(run.ends_at(&[300; 40]), None);
    }

    proptest! {
        /// Whatever happens, the window is that of standard slow start until it stops where it is.
        #[test]
        fn it_opens_like_slow_start_until_it_stops(
            acks in proptest::collection::vec((0u64..5_000, proptest::option::of(20u64..80)), 1..300),
        ) {
            let mut run = Run::new();
            let mut expected = run.window;
            for (index, (after, sample)) in acks.into_iter().enumerate() {
                run.ack(Duration::from_micros(after), sample);
                if run.exited {
                    prop_assert!(index >= 2 * SCOPE - 2 && sample.is_some());
                    break;
                }
                expected += DATAGRAM;
            }
            prop_assert_eq!(run.window, expected);
        }

        /// Jitter of a quarter does not stop it, however it falls.
        #[test]
        fn a_path_without_a_queue_does_not_stop_it(
            samples in proptest::collection::vec(100u64..=125, 1..400),
        ) {
            prop_assert_eq!(Run::new().ends_at(&samples), None);
        }
    }
}
