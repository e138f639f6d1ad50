//! Rapid Start (draft-kazuho-ccwg-rapid-start-02): slow start that triples the window until a queue shows, and comes to
//! what was delivered of the flight that met congestion.
//!
//! ```text
//! first flight   twice the initial window, paced over a whole round trip
//! on ACK         window += 2 × acknowledged   while floor ≤ min(smallest RTT + 4 ms, 1.10 × smallest RTT)
//!                window +=     acknowledged   otherwise;      floor: the smallest RTT of the last round trip
//! first congestion, until recovery ends:
//!   window = silence × old window − ack factor × acknowledged − loss factor × lost
//!            not below beta / 3 × old window, nor below beta × initial window
//!   silence = loss factor = beta + K (1 − beta),   ack factor = K (1 − beta),   K = 2/3
//! then           avoidance, with window / beta as what the path holds
//! ```
//!
//! If losses are those of a full queue, what is acknowledged of the flight is what path and queue hold, and the window
//! ends at beta times that, however large the share that was lost. If they are not, it ends no lower than at beta / 3.
//!
//! Two things differ here. The draft spreads all of the first flight over the round trip; here one initial window of it
//! leaves at once, as with every start (RFC 9002 section 7.7). And beta is CUBIC's whatever `controller=` grows the
//! window afterwards, for losses and for marks.
//!
//! The round trip is the sample that `exit-rtt=` names. Only the first slow start of a path works this way.

use thalweg_units::DurationExt;
use thalweg_units::math::mul_div;

use super::headroom::{Headroom, TRIPLING_GAIN};
use super::{Congested, Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::pacing;
use crate::trace::StartExit;

/// The first flight over the initial window: what slow start sends in its first round trip at two windows per round
/// trip.
const FIRST_FLIGHT: u64 = 2;
/// What congestion leaves of the window (RFC 9438 section 4.6).
const BETA: (u64, u64) = (7, 10);
/// `beta + K (1 − beta)`, for a beta of 7/10 and a K of 2/3: what is left at once, and what a lost byte takes.
const SILENCE: (u64, u64) = (9, 10);
/// `K (1 − beta)`: what an acknowledged byte takes.
const ACK_FACTOR: (u64, u64) = (1, 5);
/// The most that a flight can be beyond path and queue, as the window triples.
const MOST_GROWTH: u64 = 3;

/// The first recovery period.
#[derive(Copy, Clone, Debug)]
struct Recovery {
    /// The window before it.
    from: u64,
    acked: u64,
    lost: u64,
}

impl Recovery {
    fn window(&self, initial_window: u64) -> u64 {
        let part = |bytes, (num, den): (u64, u64)| mul_div(bytes, num, den);
        let window = part(self.from, SILENCE)
            .saturating_sub(part(self.acked, ACK_FACTOR))
            .saturating_sub(part(self.lost, SILENCE));
        window.max(part(self.from, BETA) / MOST_GROWTH).max(part(initial_window, BETA)).min(self.from)
    }
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct RapidStart {
    /// Whether this is still the first slow start.
    active: bool,
    initial_window: u64,
    /// Whether nothing of the first flight has been acknowledged yet.
    is_first_flight: bool,
    headroom: Headroom,
    recovery: Option<Recovery>,
}

impl RapidStart {
    pub(crate) fn new(context: &PathContext) -> RapidStart {
        RapidStart {
            active: true,
            initial_window: context.profile.initial_window.bytes(context.datagram_size),
            is_first_flight: true,
            headroom: Headroom::default(),
            recovery: None,
        }
    }

    fn recover(&mut self, event: &AckEvent<'_>, mut recovery: Recovery) -> Proposal {
        recovery.acked = recovery.acked.saturating_add(event.acked);
        recovery.lost = recovery.lost.saturating_add(event.lost);
        self.recovery = Some(recovery);
        let window = recovery.window(self.initial_window);
        if event.period.in_recovery {
            return Proposal::window(window);
        }
        let held = Some(mul_div(window, BETA.1, BETA.0));
        Proposal { exit: Some(StartExit::Congestion), held, ..Proposal::window(window) }
    }
}

impl Start for RapidStart {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if !self.active {
            return Proposal::window(view.window + event.growth);
        }
        if let Some(recovery) = self.recovery {
            return self.recover(event, recovery);
        }
        self.headroom.on_ack(event, event.rtt.exit);
        let triples = self.headroom.is_there();
        self.is_first_flight &= event.growth == 0;
        if self.is_first_flight {
            // Before anything is acknowledged, the handshake may show what a round trip is.
            let window = if triples { view.window.max(FIRST_FLIGHT * self.initial_window) } else { view.window };
            let rate = (view.smoothed_rtt.nanos() > 0).then(|| pacing::window_rate(window, view.smoothed_rtt, (1, 1)));
            return Proposal { rate, ..Proposal::window(window) };
        }
        let times = if triples { 2 } else { 1 };
        let window = view.window.saturating_add(event.growth.saturating_mul(times));
        let rate = triples.then(|| pacing::window_rate(window, view.smoothed_rtt, TRIPLING_GAIN));
        Proposal { rate, ..Proposal::window(window) }
    }

    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        if !self.active || self.recovery.is_some() {
            return None;
        }
        let recovery = Recovery { from: view.window, acked: event.acked, lost: event.lost };
        self.recovery = Some(recovery);
        Some(Congested { window: recovery.window(self.initial_window), threshold: None })
    }

    fn on_exit(&mut self) {
        self.active = false;
        self.recovery = None;
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::RecoveryPeriod;
    use crate::testing::{Scene, ms};
    use crate::trace::CongestionCause;
    use proptest::prelude::*;
    use thalweg_units::Instant;

    const DATAGRAM: u64 = 1_200;
    const INITIAL: u64 = 10 * DATAGRAM;

    struct Run {
        start: RapidStart,
        scene: Scene,
        window: u64,
    }

    impl Run {
        fn new() -> Run {
            let context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
            Run { start: RapidStart::new(&context), scene: Scene::new(), window: INITIAL }
        }

        fn ack(&mut self, bytes: u64, sample_ms: u64) -> Proposal {
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = self.scene.ack(bytes, Some(ms(sample_ms)), false);
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            proposal
        }

        /// Congestion on a window of so many bytes, with so many lost at once.
        fn congest(&mut self, window: u64, lost: u64) -> u64 {
            self.window = window;
            let view = View::new(self.scene.now, window, DATAGRAM, ms(100));
            let event = AckEvent { lost, ..self.scene.congestion(CongestionCause::Loss) };
            self.window = self.start.on_congestion(view, &event).unwrap().window;
            self.window
        }

        fn recover(&mut self, acked: u64, lost: u64, is_over: bool) -> Proposal {
            let view = View::new(self.scene.now, self.window, DATAGRAM, ms(100));
            let event = AckEvent {
                lost,
                period: RecoveryPeriod { in_recovery: !is_over, is_fresh: acked > 0 },
                ..self.scene.ack(acked, None, false)
            };
            let proposal = self.start.on_ack(view, &event);
            self.window = proposal.window;
            proposal
        }
    }

    #[test]
    fn factors_are_those_of_a_beta_of_seven_tenths() {
        let (beta, k) = (0.7, 2.0 / 3.0);
        let of = |(num, den): (u64, u64)| num as f64 / den as f64;
        assert!((of(SILENCE) - (beta + k * (1.0 - beta))).abs() < 1e-12);
        assert!((of(ACK_FACTOR) - k * (1.0 - beta)).abs() < 1e-12);
        assert!((of(SILENCE) - of(ACK_FACTOR) - beta).abs() < 1e-12, "or the window would not end at beta");
    }

    #[test]
    fn the_first_flight_is_two_initial_windows_over_a_round_trip() {
        let mut run = Run::new();
        let proposal = run.ack(0, 100);
        assert_eq!(proposal.window, 2 * INITIAL);
        assert_eq!(proposal.rate, Some(pacing::window_rate(2 * INITIAL, ms(100), (1, 1))));
        assert_eq!(run.ack(DATAGRAM, 100).window, 2 * INITIAL + 2 * DATAGRAM);
    }

    #[test]
    fn the_window_triples_until_a_tenth_or_4_ms_of_queue_show() {
        for (smallest, at, above) in [(10, 11, 12), (40, 44, 45), (100, 104, 105), (600, 604, 605)] {
            let mut run = Run::new();
            run.ack(DATAGRAM, smallest);
            run.scene.now += ms(2 * smallest);
            let before = run.window;
            run.ack(DATAGRAM, at);
            assert_eq!(run.window, before + 2 * DATAGRAM, "{smallest} to {at} ms");
            run.scene.now += ms(2 * smallest);
            run.ack(0, above);
            run.scene.now += ms(2 * smallest);
            let before = run.window;
            run.ack(DATAGRAM, above);
            assert_eq!(run.window, before + DATAGRAM, "{smallest} to {above} ms");
            run.ack(DATAGRAM, smallest);
            assert_eq!(run.window, before + 3 * DATAGRAM, "one short sample within the round trip");
        }
    }

    #[test]
    fn a_round_trip_of_acknowledgments_triples() {
        let mut run = Run::new();
        run.ack(0, 100);
        for expected in [6, 18, 54, 162] {
            run.scene.now += ms(100);
            for _ in 0..run.window / DATAGRAM {
                run.ack(DATAGRAM, 100);
            }
            assert_eq!(run.window, expected * INITIAL);
        }
    }

    #[test]
    fn congestion_leaves_nine_tenths_at_once() {
        assert_eq!(Run::new().congest(1_000_000, 0), 900_000);
    }

    #[test]
    fn whatever_share_is_lost_the_window_ends_at_beta_times_what_was_delivered() {
        for lost in [0, 1, 20, 50, 66] {
            let mut run = Run::new();
            let from = 10_000_000;
            run.congest(from, 0);
            for _ in 0..100 {
                run.recover(from / 10_000 * (100 - lost), from / 10_000 * lost, false);
            }
            let proposal = run.recover(0, 0, true);
            let delivered = from / 100 * (100 - lost);
            assert_eq!(proposal.exit, Some(StartExit::Congestion));
            assert_eq!(proposal.window, delivered / 10 * 7, "{lost} %");
            assert_eq!(proposal.held, Some(delivered), "{lost} %");
        }
    }

    #[test]
    fn the_window_ends_no_lower_than_a_third_of_beta_nor_beta_times_the_initial_one() {
        let mut run = Run::new();
        run.congest(3_000_000, 2_900_000);
        assert_eq!(run.recover(0, 0, true).window, 700_000);
        let mut run = Run::new();
        run.congest(2 * INITIAL, 2 * INITIAL);
        assert_eq!(run.recover(0, 0, true).window, INITIAL / 10 * 7);
    }

    #[test]
    fn a_second_congestion_is_the_growth_s() {
        let mut run = Run::new();
        run.congest(1_000_000, 0);
        let view = View::new(run.scene.now, run.window, DATAGRAM, ms(100));
        let event = run.scene.congestion(CongestionCause::Loss);
        assert_eq!(run.start.on_congestion(view, &event), None);
    }

    #[test]
    fn later_slow_starts_double() {
        let mut run = Run::new();
        run.ack(DATAGRAM, 100);
        run.start.on_exit();
        let before = run.window;
        assert_eq!(run.ack(DATAGRAM, 100).window, before + DATAGRAM);
    }

    proptest! {
        /// No more than slow start with a factor of three, never less than slow start, and in recovery only downwards.
        #[test]
        fn it_opens_between_once_and_twice_what_is_acknowledged(
            acks in proptest::collection::vec((0u64..50, 0u64..20, 50u64..300, any::<bool>()), 1..100),
        ) {
            let mut run = Run::new();
            for (after, datagrams, sample, is_congested) in acks {
                run.scene.now += ms(after);
                let before = run.window;
                if is_congested && run.start.recovery.is_none() && datagrams == 0 {
                    let after = run.congest(before, DATAGRAM);
                    prop_assert!(after <= before);
                } else if run.start.recovery.is_some() {
                    let proposal = run.recover(datagrams * DATAGRAM, 0, false);
                    prop_assert!(proposal.window <= before);
                } else {
                    let bytes = datagrams * DATAGRAM;
                    let window = run.ack(bytes, sample).window;
                    prop_assert!((before + bytes..=(before + 2 * bytes).max(2 * INITIAL)).contains(&window));
                }
            }
        }
    }
}
