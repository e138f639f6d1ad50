//! Recovery periods, persistent congestion, and taking back what was answered as loss and was none.

use smallvec::SmallVec;
use thalweg_units::Rate;

use super::Bbr;
use super::bounds::ShortTerm;
use super::phase::Phase;
use crate::congestion::AckEvent;
use crate::undo;

/// What a recovery period began with.
#[derive(Copy, Clone, Debug)]
pub(super) struct Saved {
    episode: u32,
    window: u64,
    /// The phase that its losses have ended since.
    ended: Option<Phase>,
    short_term: ShortTerm,
    inflight_long_term: u64,
}

/// The recovery period, and those that can still be taken back.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// The last window that neither recovery nor ProbeRTT had reduced.
    pub(super) prior_window: u64,
    pub(super) in_recovery: bool,
    pub(super) saved: SmallVec<[Saved; undo::DEPTH]>,
}

impl Bbr {
    /// OnEnterFastRecovery.
    pub(super) fn enter_recovery(&mut self, event: &AckEvent<'_>) {
        if let Some(congestion) = event.congestion {
            self.save_window();
            self.repair.in_recovery = true;
            if self.repair.saved.len() == undo::DEPTH {
                self.repair.saved.remove(0);
            }
            self.repair.saved.push(Saved {
                episode: congestion.episode,
                window: self.repair.prior_window,
                ended: None,
                short_term: self.path.short_term,
                inflight_long_term: self.path.inflight_long_term,
            });
        }
    }

    /// The window of before returns with the end of recovery; what the model says of it comes afterwards.
    pub(super) fn leave_recovery(&mut self, event: &AckEvent<'_>) {
        if self.repair.in_recovery && !event.period.in_recovery {
            self.repair.in_recovery = false;
            if !event.persistent_congestion {
                self.restore_window();
            }
        }
    }

    /// Persistent congestion: the minimum of the transport (OnEnterRTO).
    pub(super) fn collapse(&mut self) {
        self.window = self.window.min(u64::from(self.profile.minimum_window) * self.datagram);
    }

    /// SaveCwnd.
    pub(super) fn save_window(&mut self) {
        let is_reduced = self.repair.in_recovery || self.phase == Phase::ProbeRtt;
        self.repair.prior_window = if is_reduced { self.repair.prior_window.max(self.window) } else { self.window };
    }

    /// RestoreCwnd.
    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.repair.prior_window);
    }

    /// Loss has ended a phase: to be returned to if there was none.
    pub(super) fn note_exit_by_loss(&mut self, phase: Phase) {
        if let Some(saved) = self.repair.saved.last_mut() {
            saved.ended = Some(phase);
        }
    }

    /// HandleSpuriousLossDetection.
    pub(super) fn take_back(&mut self, episode: u32) -> bool {
        let Some(index) = self.repair.saved.iter().position(|saved| saved.episode == episode) else {
            return false;
        };
        let Some(saved) = self.repair.saved.drain(index..).next() else {
            return false;
        };
        self.window = self.window.max(saved.window);
        self.path.signals.is_loss_in_round = false;
        self.startup.losses = Default::default();
        self.startup.full_pipe.reset(Rate::ZERO);
        self.path.short_term.bandwidth = self.path.short_term.bandwidth.max(saved.short_term.bandwidth);
        self.path.short_term.inflight = self.path.short_term.inflight.max(saved.short_term.inflight);
        self.path.inflight_long_term = self.path.inflight_long_term.max(saved.inflight_long_term);
        self.path.bandwidth = self.path.max_bandwidth.value().min(self.path.short_term.bandwidth);
        match saved.ended {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.startup.full_pipe.reached = false;
                self.startup.exit = None;
                if self.phase != Phase::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(Phase::Up) if !matches!(self.phase, Phase::Up | Phase::ProbeRtt) => self.start_refill(),
            _ => {}
        }
        true
    }
}
