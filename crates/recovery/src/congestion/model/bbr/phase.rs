//! The phases of BBR, and their gains.

use super::Bbr;
use crate::trace::State;

/// A phase of the state machine (draft-ietf-ccwg-bbr section 5.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// A factor: numerator and denominator.
pub(super) type Gain = (u64, u64);

/// StartupPacingGain, 4 ln 2: the rate doubles in every round.
pub(super) const STARTUP_PACING_GAIN: Gain = (277, 100);
/// DrainPacingGain: the queue of a start is as long as the path, and goes within a round.
const DRAIN_PACING_GAIN: Gain = (1, 2);
const DOWN_PACING_GAIN: Gain = (90, 100);
const UP_PACING_GAIN: Gain = (5, 4);
/// DefaultCwndGain: the window lets the rate double in every round.
const DEFAULT_WINDOW_GAIN: Gain = (2, 1);
const UP_WINDOW_GAIN: Gain = (9, 4);
/// ProbeRTTCwndGain.
const PROBE_RTT_WINDOW_GAIN: Gain = (1, 2);

impl Bbr {
    /// Changes the phase, and counts it.
    pub(super) fn go_to(&mut self, phase: Phase) {
        self.phase = phase;
        let stats = &mut self.stats;
        *match phase {
            Phase::Startup => &mut stats.startups,
            Phase::Drain => &mut stats.drains,
            Phase::Down => &mut stats.downs,
            Phase::Cruise => &mut stats.cruises,
            Phase::Refill => &mut stats.refills,
            Phase::Up => &mut stats.ups,
            Phase::ProbeRtt => &mut stats.rtt_probes,
        } += 1;
    }
}

impl Phase {
    /// How much faster than the estimated bandwidth packets leave.
    pub(super) fn pacing_gain(self) -> Gain {
        match self {
            Phase::Startup => STARTUP_PACING_GAIN,
            Phase::Drain => DRAIN_PACING_GAIN,
            Phase::Down => DOWN_PACING_GAIN,
            Phase::Up => UP_PACING_GAIN,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => (1, 1),
        }
    }

    /// How many times what the path holds may be in flight.
    pub(super) fn window_gain(self) -> Gain {
        match self {
            Phase::Up => UP_WINDOW_GAIN,
            Phase::ProbeRtt => PROBE_RTT_WINDOW_GAIN,
            _ => DEFAULT_WINDOW_GAIN,
        }
    }

    /// One of the four phases of a probing cycle.
    pub(super) fn is_in_cycle(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    /// It accelerates: loss may be of its own making, and does not say that the path has changed.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }

    /// For the trace.
    pub(super) fn state(self) -> State {
        match self {
            Phase::Startup => State::Startup,
            Phase::Drain => State::Drain,
            Phase::Down => State::ProbeBandwidthDown,
            Phase::Cruise => State::ProbeBandwidthCruise,
            Phase::Refill => State::ProbeBandwidthRefill,
            Phase::Up => State::ProbeBandwidthUp,
            Phase::ProbeRtt => State::ProbeRoundTrip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of draft-ietf-ccwg-bbr section 5.6.1.
    #[test]
    fn gains_are_those_of_the_table() {
        for (phase, pacing, window) in [
            (Phase::Startup, 2_770, 2_000),
            (Phase::Drain, 500, 2_000),
            (Phase::Down, 900, 2_000),
            (Phase::Cruise, 1_000, 2_000),
            (Phase::Refill, 1_000, 2_000),
            (Phase::Up, 1_250, 2_250),
            (Phase::ProbeRtt, 1_000, 500),
        ] {
            let thousandths = |(numerator, denominator): Gain| numerator * 1_000 / denominator;
            assert_eq!(
                (thousandths(phase.pacing_gain()), thousandths(phase.window_gain())),
                (pacing, window),
                "{phase:?}"
            );
        }
    }
}
