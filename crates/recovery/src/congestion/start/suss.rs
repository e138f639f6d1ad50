//! SUSS (M. Arghavani and others, "SUSS: Improving TCP performance by speeding up slow-start", SIGCOMM 2024): HyStart
//! that quadruples the window while the next doubling is foreseeable.
//!
//! ```text
//! a round's blue part = what slow start alone would send in it, on ACKs:          initial window × 2^(round − 1)
//! T                   = how long the ACKs of the last round's blue part take
//! second round        T < smallest RTT / 4, and smallest RTT > 10 ms;              if not: never
//! later, up to the 4th:
//!   dispersion        D = T × 2^(round − 2);     D² / D of the round before ≤ smallest RTT
//!   delay             (k + 1) × RTT of the round ≤ (k + 1 + k/8) × smallest RTT,   k: rounds since the smallest
//! then the window is initial window × 4^(round − 1); what that is more than the blue part (the red one) leaves
//! over the rest of the round trip, smallest RTT × (1 − 2^(1 − round))
//! ```
//!
//! ACKs that come close together say that the link is far from full: the whole round's would take as many times as long
//! as the round has grown. As long as that stays within the path, the doubling of the round after the next will still
//! find room, and is done now. What is sent more is paced, so that no burst adds to the queue.
//!
//! Rules and constants are those of the authors' patch for Linux 6.8 (`suss_speedup`, `suss_measurements`), with
//! `suss_max` 3 and `suss_kmax` 1. What differs:
//!
//! - Senders of this project pace everything. A blue part that was spread over half a round trip would say nothing
//!   about the link, so it is paced at many windows per round trip, which leaves the timing to the ACKs.
//! - The patch waits half of what remains of the blue part's time before the red part; here that begins at once.
//! - The patch scales the limit of HyStart's ACK train with what it sent more. Here that limit is the one for paced
//!   packets, as the red part is.

use thalweg_units::{Duration, DurationExt, Instant};

use super::hystart::HyStart;
use super::{Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::pacing;

/// The round trip above which it is worth it (`delay_min > 10000`).
const SHORTEST: Duration = Duration::from_millis(10);
/// The last round that may quadruple (`suss_max + 2`, exclusive).
const LAST_ROUND: u32 = 4;
/// The share of the smallest RTT within which the first flight's ACKs have to come.
const FIRST_DIVISOR: u32 = 4;
/// By how much of it the round-trip time may have grown per round since it was smallest.
const GROWTH_DIVISOR: u64 = 8;
/// Windows per round trip that leave the timing to the ACKs.
const UNPACED: (u64, u64) = (64, 1);

/// What is known of a round: it began when something of the flight before was first acknowledged.
#[derive(Copy, Clone, Debug)]
struct Round {
    /// Counted from 1, the first flight.
    number: u32,
    began: Instant,
    /// Bytes acknowledged in it.
    acked: u64,
    /// The smallest sample in it.
    rtt: Option<Duration>,
    /// Whether the ACKs of the blue part are complete, and how the red part leaves then.
    is_judged: bool,
    rate: Option<thalweg_units::Rate>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Suss {
    hystart: HyStart,
    /// Whether this is still the first slow start, and all rounds have quadrupled.
    active: bool,
    initial_window: u64,
    round: Round,
    /// D of the round before.
    dispersion: Option<Duration>,
    /// The smallest sample, and the round that had it.
    smallest: Option<(Duration, u32)>,
}

/// Whether the round with these measurements may quadruple.
fn quadruples(
    number: u32,
    dispersion: Duration,
    before: Option<Duration>,
    rtt: Duration,
    smallest: (Duration, u32),
) -> bool {
    let (smallest, since) = smallest;
    if number == 2 {
        return smallest > SHORTEST && dispersion < smallest / FIRST_DIVISOR;
    }
    let Some(before) = before.filter(|_| (3..=LAST_ROUND).contains(&number)) else { return false };
    let next = u128::from(dispersion.nanos()) * u128::from(dispersion.nanos()) / u128::from(before.nanos().max(1));
    let k = u64::from(number.saturating_sub(since));
    let path = u128::from(smallest.nanos());
    let most = path * u128::from(k + 1) + path * u128::from(k) / u128::from(GROWTH_DIVISOR);
    next <= path && u128::from(rtt.nanos()) * u128::from(k + 1) <= most
}

impl Suss {
    pub(crate) fn new(context: &PathContext) -> Suss {
        Suss {
            hystart: HyStart::new(context),
            active: context.is_paced,
            initial_window: context.profile.initial_window.bytes(context.datagram_size),
            round: Round { number: 1, began: context.now, acked: 0, rtt: None, is_judged: true, rate: None },
            dispersion: None,
            smallest: None,
        }
    }

    /// Bytes of the blue part of this round. Rounds go on being counted where so little is in use that none is judged.
    fn blue(&self) -> u64 {
        self.initial_window.saturating_mul(1 << (self.round.number - 2).min(62))
    }

    /// The blue part's ACKs are complete: the window to have now, if it quadruples.
    fn judge(&mut self, now: Instant) -> Option<u64> {
        let number = self.round.number;
        self.round.is_judged = true;
        let smallest = self.smallest?;
        let taken = now.saturating_since(self.round.began);
        let dispersion = taken.saturating_mul(1 << (number - 2).min(30));
        let rtt = self.round.rtt.unwrap_or(smallest.0);
        if !quadruples(number, dispersion, self.dispersion, rtt, smallest) {
            self.active = false;
            return None;
        }
        self.dispersion = Some(dispersion);
        let blue = self.initial_window << (number - 1);
        let window = blue << (number - 1);
        let over = smallest.0.saturating_sub(smallest.0 / (1 << (number - 1)));
        self.round.rate = Some(pacing::window_rate(window - blue, over, (1, 1)));
        Some(window)
    }

    fn on_sample(&mut self, event: &AckEvent<'_>) {
        if event.has_rtt_sample {
            let sample = event.rtt.exit;
            if self.smallest.is_none_or(|(smallest, _)| sample < smallest) {
                self.smallest = Some((sample, self.round.number));
            }
            self.round.rtt = Some(self.round.rtt.map_or(sample, |smallest| smallest.min(sample)));
        }
    }
}

impl Start for Suss {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        let ordinary = self.hystart.on_ack(view, event);
        if !self.active || ordinary.exit.is_some() {
            self.active = false;
            return ordinary;
        }
        // Rounds count from the first flight that used its window.
        if event.growth > 0 && (event.round.started || self.round.number == 1) {
            let number = self.round.number + 1;
            if number == 2 && event.prior_in_flight > 0 {
                // What the handshake has taken of the initial window was no part of the first flight.
                self.initial_window = self.initial_window.min(event.prior_in_flight);
            }
            self.round = Round { number, began: event.now, acked: 0, rtt: None, is_judged: false, rate: None };
        }
        self.on_sample(event);
        if self.round.number == 1 {
            return ordinary;
        }
        self.round.acked += event.growth;
        let window = if let Some(rate) = self.round.rate {
            // What the red part's ACKs would add is in the window already.
            return Proposal { rate: Some(rate), ..Proposal::window(view.window) };
        } else if !self.round.is_judged && self.round.acked >= self.blue() {
            match self.judge(event.now) {
                Some(window) => return Proposal { rate: self.round.rate, ..Proposal::window(window.max(view.window)) },
                None => return ordinary,
            }
        } else {
            ordinary.window
        };
        let rate = Some(pacing::window_rate(window, view.smoothed_rtt, UNPACED));
        Proposal { rate, ..Proposal::window(window) }
    }

    fn on_exit(&mut self) {
        self.active = false;
        self.hystart.on_exit();
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(Suss { ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, ms};
    use crate::trace::StartExit;

    const DATAGRAM: u64 = 1_200;
    const INITIAL: u64 = 10 * DATAGRAM;

    struct Run {
        start: Suss,
        scene: Scene,
        window: u64,
        exit: Option<StartExit>,
    }

    impl Run {
        fn new(path: u64) -> Run {
            let mut run = Run {
                start: Suss::new(&PathContext::new(Instant::ZERO, DATAGRAM as u16)),
                scene: Scene::new(),
                window: INITIAL,
                exit: None,
            };
            // The handshake.
            run.ack(0, path, true);
            run
        }

        fn ack(&mut self, bytes: u64, sample: u64, started: bool) -> Proposal {
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(bytes, Some(ms(sample)), started);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            self.exit = self.exit.or(proposal.exit);
            proposal
        }

        /// A round in which a window is acknowledged, packet by packet, so many microseconds apart.
        fn round(&mut self, sample: u64, spacing: u64) -> u64 {
            self.scene.now += ms(sample);
            for packet in 0..self.window / DATAGRAM {
                self.ack(DATAGRAM, sample, packet == 0);
                self.scene.now += Duration::from_micros(spacing);
            }
            self.window / INITIAL
        }
    }

    #[test]
    fn on_a_fast_path_three_rounds_quadruple_and_the_next_ones_double() {
        let mut run = Run::new(100);
        let windows: Vec<u64> = (0..5).map(|_| run.round(100, 10)).collect();
        assert_eq!(windows, [4, 16, 64, 128, 256]);
    }

    #[test]
    fn what_is_sent_more_leaves_over_the_rest_of_the_round_trip() {
        let mut run = Run::new(100);
        run.scene.now += ms(100);
        for packet in 0..9 {
            let rate = run.ack(DATAGRAM, 100, packet == 0).rate;
            assert_eq!(rate, Some(pacing::window_rate(run.window, ms(100), UNPACED)), "the blue part is not spread");
        }
        let proposal = run.ack(DATAGRAM, 100, false);
        assert_eq!(proposal.window, 4 * INITIAL);
        assert_eq!(proposal.rate, Some(pacing::window_rate(2 * INITIAL, ms(50), (1, 1))));
    }

    #[test]
    fn a_first_flight_whose_acks_take_a_quarter_of_the_path_doubles_for_good() {
        // Ten packets: nine gaps.
        for (spacing, expected) in [(2_700, 4), (2_800, 2)] {
            assert_eq!(Run::new(100).round(100, spacing), expected, "{spacing}");
        }
        let mut run = Run::new(100);
        run.round(100, 2_800);
        assert_eq!(run.round(100, 10), 4);
    }

    #[test]
    fn paths_of_10_ms_double() {
        assert_eq!(Run::new(10).round(10, 10), 2);
        assert_eq!(Run::new(11).round(11, 10), 4);
    }

    #[test]
    fn vectors_of_the_growth_factor() {
        let smallest = (ms(100), 1);
        // Round, D and D before in milliseconds, RTT: D² / D before has to be within the path.
        for (round, dispersion, before, rtt, expected) in [
            (3, 30, 10, 100, true),
            (3, 32, 10, 100, false),
            (4, 60, 36, 100, true),
            (4, 61, 36, 100, false),
            (5, 1, 1, 100, false),
            // k = 2: 3 × 108 ≤ 300 + 25; k = 3: 4 × 109 ≤ 400 + 37.
            (3, 10, 10, 108, true),
            (3, 10, 10, 109, false),
            (4, 10, 10, 109, true),
            (4, 10, 10, 110, false),
        ] {
            let is = quadruples(round, ms(dispersion), Some(ms(before)), ms(rtt), smallest);
            assert_eq!(is, expected, "round {round}, {dispersion} after {before} ms, {rtt} ms");
        }
    }

    #[test]
    fn a_longer_round_trip_ends_it() {
        let mut run = Run::new(100);
        assert_eq!(run.round(100, 10), 4);
        assert_eq!(run.round(112, 10), 8);
    }

    #[test]
    fn it_ends_where_hystart_does() {
        let mut run = Run::new(100);
        run.round(100, 10);
        run.round(100, 10);
        run.round(150, 10);
        assert_eq!(run.exit, Some(StartExit::Delay));
    }

    #[test]
    fn later_slow_starts_double() {
        let mut run = Run::new(100);
        run.start.on_exit();
        assert_eq!(run.round(100, 10), 2);
    }
}
