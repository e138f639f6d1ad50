//! A model for tests: paces by the fastest delivery it has seen, and refuses every reduction.

use thalweg_units::{Duration, Instant, Rate};

use crate::congestion::{AckEvent, Allowance, Change, Controller, PathContext, PathView};
use crate::trace::{StartExit, State};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct RatePacer {
    datagram_size: u16,
    initial_window: u64,
    /// The highest delivery rate so far.
    rate: Option<Rate>,
    min_rtt: Duration,
    /// Nothing has been acknowledged since it began to send again.
    after_idle: bool,
    /// Probe timeouts in a row.
    timeouts: u32,
}

impl RatePacer {
    pub(crate) fn new(context: &PathContext) -> RatePacer {
        RatePacer {
            datagram_size: context.datagram_size,
            initial_window: context.profile.initial_window.bytes(context.datagram_size),
            rate: context.saved.and_then(|saved| saved.rate),
            min_rtt: context.saved.map_or(Duration::ZERO, |saved| saved.min_rtt),
            after_idle: false,
            timeouts: 0,
        }
    }

    /// Twice what the path holds at its rate.
    fn window(&self) -> u64 {
        let held = self.rate.map_or(0, |rate| rate.bytes_in(self.min_rtt));
        (2 * held).max(self.initial_window)
    }
}

impl Controller for RatePacer {
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        self.min_rtt = event.rtt.min;
        (self.after_idle, self.timeouts) = (false, 0);
        let new = event.delivery.filter(|sample| sample.is_new);
        self.rate = self.rate.max(new.map(|sample| sample.rate));
        Change::Allowance
    }

    fn on_probe_timeout(&mut self, _now: Instant, count: u32) -> Change {
        self.timeouts = count;
        Change::Allowance
    }

    fn on_restart(&mut self, _now: Instant, _idle: Duration) -> Change {
        self.after_idle = true;
        Change::Allowance
    }

    fn on_datagram_size(&mut self, size: u16) {
        self.datagram_size = size;
    }

    /// A quarter faster than it has seen, to find out whether there is more. After a pause twice as fast: the
    /// bottleneck is idle. In silence half as fast.
    fn allowance(&self, _path: &PathView<'_>) -> Allowance {
        let gain = match (self.timeouts, self.after_idle) {
            (1.., _) => (1, 2),
            (0, true) => (2, 1),
            (0, false) => (5, 4),
        };
        let rate = self.rate.map(|rate| rate.mul_ratio(gain.0, gain.1));
        Allowance::new(self.window(), rate, self.datagram_size)
    }

    fn state(&self) -> State {
        State::Custom("test_rate_pacer")
    }

    fn start_exit(&self) -> Option<StartExit> {
        self.rate.map(|_| StartExit::Delay)
    }
}
