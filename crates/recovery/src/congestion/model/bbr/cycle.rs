//! The phases of ProbeBW, and when one follows another (section 5.3.3 of the draft).

use thalweg_units::{Duration, DurationExt, Instant};

use super::phase::Phase;
use super::{Bbr, Sample, UNBOUNDED};
use crate::congestion::AckEvent;

/// The shortest time from one probe to the next; up to a second is added by chance.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// Rounds after which a flow that shares with Reno or CUBIC probes at the latest: what Reno needs to regain a window of
/// 62 datagrams.
const RENO_ROUNDS: u64 = 63;
/// The growth of the long-term bound doubles no further than to so many datagrams per round.
const MOST_UP_ROUNDS: u32 = 30;

/// What the acknowledgments that come in say about the probe.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum AckPhase {
    /// Nothing.
    Init,
    Refilling,
    /// It has begun; what is acknowledged was sent before.
    Starting,
    /// What is acknowledged was sent by the probe.
    Feedback,
    /// The probe is over; what is acknowledged was still sent by it.
    Stopping,
}

/// Where the cycle is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// Samples are from a probe that has not been answered yet.
    pub(super) is_probe_sample: bool,
    /// When the cycle began, and how long after that the next probe is due at the latest.
    begun: Instant,
    wait: Duration,
    pub(super) rounds_since_up: u64,
    /// The bandwidth has been probed since the maximum last aged.
    has_probed: bool,
    /// Bytes acknowledged since the long-term bound last grew, and how many make it grow by a datagram.
    up_acked: u64,
    up_acked_per_datagram: u64,
    /// Rounds in which it has grown.
    up_rounds: u32,
    /// The last probe caused too much loss.
    was_too_high: bool,
    /// The last probe stopped where the one before had caused too much.
    was_precautionary: bool,
}

impl Cycle {
    pub(super) fn new(now: Instant) -> Cycle {
        Cycle {
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            begun: now,
            wait: Duration::ZERO,
            rounds_since_up: 0,
            has_probed: false,
            up_acked: 0,
            up_acked_per_datagram: UNBOUNDED,
            up_rounds: 0,
            was_too_high: false,
            was_precautionary: false,
        }
    }

    /// The probe has been answered.
    pub(super) fn on_too_high(&mut self) {
        self.was_too_high = true;
        self.is_probe_sample = false;
    }

    /// As if no probe had ever caused too much loss.
    #[cfg(test)]
    pub(super) fn forget_too_high(&mut self) {
        self.was_too_high = false;
    }

    /// A probe for the round-trip time ends it.
    pub(super) fn on_probe_stopped(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Bbr {
    /// StartProbeBW_DOWN.
    pub(super) fn start_down(&mut self, now: Instant) {
        self.path.signals.reset();
        self.cycle.up_acked_per_datagram = UNBOUNDED;
        self.cycle.rounds_since_up = self.chance.bit();
        self.cycle.wait = PROBE_WAIT + self.chance.part_of_second();
        self.cycle.begun = now;
        self.cycle.ack_phase = AckPhase::Stopping;
        self.begin_round();
        self.go_to(Phase::Down);
    }

    /// StartProbeBW_REFILL.
    pub(super) fn start_refill(&mut self) {
        self.path.short_term.reset();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0);
        self.cycle.was_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.begin_round();
        self.go_to(Phase::Refill);
    }

    /// StartProbeBW_UP.
    fn start_up(&mut self, sample: Option<Sample>) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.cycle.has_probed = true;
        self.begin_round();
        self.reset_full_pipe(sample);
        self.go_to(Phase::Up);
        self.raise_slope();
    }

    fn reset_full_pipe(&mut self, sample: Option<Sample>) {
        self.startup.full_pipe.reset(sample.map(|sample| sample.rate).unwrap_or_default());
    }

    /// UpdateProbeBWCyclePhase.
    pub(super) fn update_cycle(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) {
        if !self.startup.full_pipe.reached || self.adapt_long_term(event, sample) {
            return;
        }
        match self.phase {
            Phase::Down => self.leave_down_if_due(event.now),
            Phase::Cruise => {
                self.refill_if_due(event.now);
            }
            Phase::Refill if self.rounds.started => {
                self.cycle.is_probe_sample = true;
                self.start_up(sample);
            }
            Phase::Up => self.go_down_if_due(event, sample),
            _ => {}
        }
    }

    fn leave_down_if_due(&mut self, now: Instant) {
        if self.refill_if_due(now) {
            self.stats.downs_ended_by_time += 1;
        } else if self.is_time_to_cruise() {
            self.go_to(Phase::Cruise);
        }
    }

    fn go_down_if_due(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) {
        if self.is_time_to_go_down(event, sample) {
            self.cycle.was_too_high = false;
            *match self.cycle.was_precautionary {
                true => &mut self.stats.ups_ended_by_care,
                false => &mut self.stats.ups_ended_by_plateau,
            } += 1;
            self.start_down(event.now);
        }
    }

    /// AdaptLongTermModel. Returns whether the phase has changed.
    fn adapt_long_term(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) -> bool {
        if self.cycle.ack_phase == AckPhase::Starting && self.rounds.started {
            self.cycle.ack_phase = AckPhase::Feedback;
        }
        if self.cycle.ack_phase == AckPhase::Stopping && self.rounds.started {
            self.cycle.is_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            self.end_cycle(sample);
            if self.phase.is_in_cycle() && self.cycle.was_precautionary && !self.cycle.was_too_high {
                self.start_refill();
                return true;
            }
        }
        if let Some(sample) = sample.filter(|sample| !sample.is_too_high())
            && self.path.inflight_long_term != UNBOUNDED
        {
            self.path.inflight_long_term = self.path.inflight_long_term.max(sample.in_flight);
            if self.phase == Phase::Up {
                self.probe_upward(event.acked);
            }
        }
        false
    }

    /// The last samples of a probe are in: they begin to age. ProbeRTT may have come in between.
    fn end_cycle(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        let is_cycle = self.phase.is_in_cycle() && !sample.application_limited;
        let is_interrupted = self.phase == Phase::ProbeRtt && self.cycle.has_probed && !sample.by_application;
        if is_cycle || is_interrupted {
            self.path.max_bandwidth.advance();
            self.cycle.has_probed = false;
        }
    }

    /// IsTimeToProbeBW.
    fn refill_if_due(&mut self, now: Instant) -> bool {
        let is_due = now > self.cycle.begun + self.cycle.wait || self.is_time_for_reno();
        if is_due {
            self.start_refill();
        }
        is_due
    }

    /// IsRenoCoexistenceProbeTime.
    fn is_time_for_reno(&self) -> bool {
        let datagrams = self.target_inflight() / self.datagram.max(1);
        self.cycle.rounds_since_up >= datagrams.min(RENO_ROUNDS)
    }

    /// IsTimeToCruise.
    fn is_time_to_cruise(&self) -> bool {
        self.connection.in_flight <= self.inflight_with_headroom()
            && self.connection.in_flight <= self.inflight_at_max()
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) -> bool {
        // A window that is no multiple of a datagram is never filled to the byte.
        let reached = event.prior_in_flight.saturating_add(self.datagram);
        if self.cycle.was_too_high && reached > self.path.inflight_long_term {
            self.cycle.was_precautionary = true;
            return true;
        }
        if self.is_window_limited() && self.window >= self.path.inflight_long_term {
            // It is the bound that limits the rate, not the path.
            self.reset_full_pipe(sample);
            return false;
        }
        self.startup.full_pipe.now
    }

    /// RaiseInflightLongtermSlope.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MOST_UP_ROUNDS);
        self.cycle.up_acked_per_datagram = (self.window / growth).max(self.datagram).max(1);
    }

    /// ProbeInflightLongtermUpward.
    fn probe_upward(&mut self, acked: u64) {
        if !self.is_window_limited() || self.window < self.path.inflight_long_term {
            return;
        }
        self.cycle.up_acked = self.cycle.up_acked.saturating_add(acked);
        let datagrams = self.cycle.up_acked / self.cycle.up_acked_per_datagram;
        self.cycle.up_acked -= datagrams * self.cycle.up_acked_per_datagram;
        self.path.inflight_long_term =
            self.path.inflight_long_term.saturating_add(datagrams.saturating_mul(self.datagram));
        if self.rounds.started {
            self.raise_slope();
        }
    }

    /// The next probe is to stop where the last one caused too much loss.
    #[cfg(test)]
    pub(super) fn cycle_is_wary(&self) -> bool {
        self.cycle.was_too_high
    }

    /// How many round trips pass from one probe to the next but one.
    pub(super) fn cycle_rounds(&self, rtt: Duration) -> u32 {
        let longest = (PROBE_WAIT + Duration::from_secs(1)).nanos() / rtt.nanos().max(1);
        let datagrams = self.target_inflight() / self.datagram.max(1);
        let rounds = longest.min(datagrams).min(RENO_ROUNDS);
        // Refill, Up and Down come on top of the wait.
        u32::try_from(2 * (rounds + 3)).unwrap_or(u32::MAX)
    }
}
