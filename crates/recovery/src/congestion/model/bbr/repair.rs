//! Recovery periods, persistent congestion, and taking back what was answered as loss and was none.

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

impl Bbr {
    /// OnEnterFastRecovery.
    pub(super) fn enter_recovery(&mut self, event: &AckEvent<'_>) {
        if let Some(congestion) = event.congestion {
            self.save_window();
            self.in_recovery = true;
            if self.saved.len() == undo::DEPTH {
                self.saved.remove(0);
            }
            self.saved.push(Saved {
                episode: congestion.episode,
                window: self.prior_window,
                ended: None,
                short_term: self.short_term,
                inflight_long_term: self.inflight_long_term,
            });
        }
    }

    /// The window of before returns with the end of recovery; what the model says of it comes afterwards.
    pub(super) fn leave_recovery(&mut self, event: &AckEvent<'_>) {
        if self.in_recovery && !event.period.in_recovery {
            self.in_recovery = false;
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
        let is_reduced = self.in_recovery || self.phase == Phase::ProbeRtt;
        self.prior_window = if is_reduced { self.prior_window.max(self.window) } else { self.window };
    }

    /// RestoreCwnd.
    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// Loss has ended a phase: to be returned to if there was none.
    pub(super) fn note_exit_by_loss(&mut self, phase: Phase) {
        if let Some(saved) = self.saved.last_mut() {
            saved.ended = Some(phase);
        }
    }

    /// HandleSpuriousLossDetection.
    pub(super) fn take_back(&mut self, episode: u32) -> bool {
        let Some(index) = self.saved.iter().position(|saved| saved.episode == episode) else {
            return false;
        };
        let Some(saved) = self.saved.drain(index..).next() else {
            return false;
        };
        self.window = self.window.max(saved.window);
        self.signals.is_loss_in_round = false;
        self.start_losses = Default::default();
        self.full_pipe.reset(Rate::ZERO);
        self.short_term.bandwidth = self.short_term.bandwidth.max(saved.short_term.bandwidth);
        self.short_term.inflight = self.short_term.inflight.max(saved.short_term.inflight);
        self.inflight_long_term = self.inflight_long_term.max(saved.inflight_long_term);
        self.bandwidth = self.max_bandwidth.value().min(self.short_term.bandwidth);
        match saved.ended {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full_pipe.reached = false;
                self.start_exit = None;
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
