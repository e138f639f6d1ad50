//! The narrator of a path: traces what has changed since its last event.

use thalweg_units::Instant;

use super::Path;
use crate::congestion::CongestionEvent;
use crate::trace::{EcnState, Event, Metrics, StartExit, State, Trace};

/// The last state of one path in the trace.
#[derive(Copy, Clone, Debug)]
pub(super) struct Narrator {
    state: State,
    start_exit: Option<StartExit>,
    ecn: EcnState,
    /// Something has changed outside of any event that the trace would have shown.
    untold_change: Option<Instant>,
}

impl Narrator {
    pub(super) fn new(state: State, start_exit: Option<StartExit>, ecn: EcnState) -> Narrator {
        Narrator { state, start_exit, ecn, untold_change: None }
    }
}

impl Path {
    /// Shows the trace what has changed.
    pub(super) fn tell(&mut self, now: Instant, trace: &mut Trace) {
        let window = self.window();
        if let Some(CongestionEvent { cause, episode, .. }) = self.tally.congestion {
            let ssthresh = self.ssthresh();
            trace.push(now, self.id, Event::CongestionEvent { cause, episode, window, ssthresh });
        }
        if self.tally.persistent_congestion {
            trace.push(now, self.id, Event::PersistentCongestion { window });
        }
        let start_exit = self.controller.start_exit();
        if let Some(reason) = start_exit.filter(|_| self.narrator.start_exit.is_none()) {
            trace.push(now, self.id, Event::StartExit { reason, window });
        }
        self.narrator.start_exit = start_exit;
        let ecn = self.marking.state();
        if ecn != self.narrator.ecn {
            trace.push(now, self.id, Event::EcnState { old: self.narrator.ecn, new: ecn });
            self.narrator.ecn = ecn;
        }
        self.tell_state(now, trace);
        self.tell_metrics(now, trace);
    }

    /// Shows the trace what congestion control is doing, if that is something else than before.
    pub(super) fn tell_state(&mut self, now: Instant, trace: &mut Trace) {
        let state = self.state();
        if state != self.narrator.state {
            trace.push(now, self.id, Event::CongestionState { old: self.narrator.state, new: state });
            self.narrator.state = state;
        }
    }

    fn tell_metrics(&mut self, now: Instant, trace: &mut Trace) {
        self.narrator.untold_change = None;
        let metrics = Metrics {
            window: self.window(),
            ssthresh: self.ssthresh(),
            bytes_in_flight: self.flight.bytes,
            state: self.state(),
            latest_rtt: self.rtt.latest,
            smoothed_rtt: self.rtt.smoothed,
            rtt_variation: self.rtt.variation,
            min_rtt: self.rtt.min,
            pacing_rate: self.pacing_rate(),
            pto_count: self.pto_count(),
        };
        trace.push(now, self.id, Event::Metrics(metrics));
    }

    /// Something has changed that no event will report.
    pub(crate) fn note_change(&mut self, now: Instant) {
        self.narrator.untold_change = Some(now);
    }

    /// Shows the trace a change that happened outside of any event.
    pub(crate) fn tell_untold(&mut self, trace: &mut Trace) {
        if let Some(now) = self.narrator.untold_change {
            self.tell_metrics(now, trace);
        }
    }
}
