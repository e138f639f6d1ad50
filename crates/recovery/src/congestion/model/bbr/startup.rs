//! The end of Startup, and Drain.

use thalweg_units::{Instant, Rate};

use super::opening::Opening;
use super::phase::Phase;
use super::{Bbr, Sample};
use crate::congestion::{LossRuns, LossSample};
use crate::trace::StartExit;

/// Growth that counts as growth: by a quarter.
const GROWTH: (u64, u64) = (5, 4);
/// Rounds without growth that make a full pipe.
const PLATEAU_ROUNDS: u32 = 3;
/// StartupFullLossCnt: gaps that make loss more than chance.
const LOSS_RANGES: u32 = 6;
/// Rounds after which Drain ends, whether the queue is gone or not.
const DRAIN_ROUNDS: u64 = 3;

/// Whether the delivery rate has ceased to grow although the rate grows (section 5.3.1.2 of the draft).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// The rate that growth is measured by.
    baseline: Rate,
    /// Rounds without growth.
    count: u32,
    /// The path is full, as far as is known since the last reset.
    pub(super) now: bool,
    /// It has been full at some time.
    pub(super) reached: bool,
}

impl FullPipe {
    /// Starts to look for a plateau at or above `baseline`.
    pub(super) fn reset(&mut self, baseline: Rate) {
        *self = FullPipe { baseline, count: 0, now: false, reached: self.reached };
    }

    /// A round ended with a sample that the application had not limited.
    fn on_round(&mut self, rate: Rate) {
        if rate >= self.baseline.mul_ratio(GROWTH.0, GROWTH.1) {
            self.reset(rate);
            return;
        }
        self.count += 1;
        self.now = self.count >= PLATEAU_ROUNDS;
        self.reached |= self.now;
    }
}

/// What was lost in the current round of Startup.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct StartLosses {
    /// Runs of neighbors that were lost.
    ranges: u32,
    runs: LossRuns,
    /// Packets were marked.
    is_marked: bool,
}

impl StartLosses {
    pub(super) fn on_loss(&mut self, loss: &LossSample) {
        self.ranges = self.ranges.saturating_add(u32::from(self.runs.begins(loss)));
    }

    pub(super) fn on_mark(&mut self) {
        self.is_marked = true;
    }

    /// Packets were marked in this round.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }
}

/// How far Startup and Drain have come.
#[derive(Debug)]
pub(super) struct Startup {
    /// The start that Startup begins with, while it lasts.
    pub(super) opening: Option<Opening>,
    pub(super) full_pipe: FullPipe,
    pub(super) losses: StartLosses,
    /// The round in which Drain began.
    drain_start: u64,
    pub(super) exit: Option<StartExit>,
}

impl Startup {
    pub(super) fn new(opening: Option<Opening>) -> Startup {
        let (full_pipe, losses) = (FullPipe::default(), StartLosses::default());
        Startup { opening, full_pipe, losses, drain_start: 0, exit: None }
    }
}

impl Bbr {
    /// CheckFullBWReached.
    pub(super) fn check_full_pipe(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample.filter(|sample| !sample.application_limited) else { return };
        if !self.startup.full_pipe.now && self.rounds.started {
            self.startup.full_pipe.on_round(sample.rate);
        }
    }

    /// CheckStartupDone. `loss_round` says that the acknowledgment ended a round that began with congestion.
    pub(super) fn check_startup_done(&mut self, sample: Option<Sample>, loss_round: bool) {
        if loss_round {
            let losses = core::mem::take(&mut self.startup.losses);
            self.check_startup_high_loss(sample, losses);
        }
        if self.phase == Phase::Startup && self.startup.full_pipe.reached {
            self.startup.exit.get_or_insert(StartExit::Plateau);
            self.enter_drain();
        }
    }

    /// CheckStartupHighLoss: a full round after the first loss, more than is put up with is lost in many places, or
    /// marks go on.
    fn check_startup_high_loss(&mut self, sample: Option<Sample>, losses: StartLosses) {
        if self.startup.full_pipe.reached || self.phase != Phase::Startup {
            return;
        }
        let is_high = losses.ranges >= LOSS_RANGES && sample.is_some_and(|sample| sample.is_too_high());
        if is_high || losses.is_marked {
            self.note_exit_by_loss(Phase::Startup);
            self.stats.startups_ended_by_loss += 1;
            self.startup.full_pipe.reached = true;
            self.path.inflight_long_term = self.bdp((1, 1)).max(self.path.signals.inflight);
            self.startup.exit.get_or_insert(StartExit::Congestion);
        }
    }

    pub(super) fn enter_startup(&mut self) {
        self.go_to(Phase::Startup);
        self.startup.exit = None;
    }

    pub(super) fn enter_drain(&mut self) {
        self.go_to(Phase::Drain);
        self.stats.start_bandwidth = self.path.max_bandwidth.value();
        self.startup.drain_start = self.rounds.count;
    }

    /// CheckDrainDone.
    pub(super) fn check_drain_done(&mut self, now: Instant) {
        let is_late = self.rounds.count > self.startup.drain_start + DRAIN_ROUNDS;
        let is_drained = self.connection.in_flight <= self.inflight((1, 1));
        if self.phase == Phase::Drain && (is_late || is_drained) {
            self.stats.drains_ended_by_time += u64::from(!is_drained);
            self.start_down(now);
        }
    }
}
