//! Window and rate from the model (section 5.6 of the draft).

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, Rate};

use super::phase::{Gain, Phase, STARTUP_PACING_GAIN};
use super::{Bbr, HEADROOM, UNBOUNDED};
use crate::pacing;

/// PacingMarginPercent: packets leave so much slower than the bandwidth, so that queues get shorter.
const PACING_MARGIN: Gain = (99, 100);
/// The round-trip time that the first rate assumes, until one is measured.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// What Up adds to the flight, in datagrams: a gain alone adds nothing to the smallest.
const UP_DATAGRAMS: u64 = 2;

impl Bbr {
    /// InitPacingRate: an initial window per round trip, at the gain of Startup.
    pub(super) fn init_pacing_rate(&mut self) {
        let rtt = if self.connection.has_rtt {
            self.connection.smoothed_rtt.max(Duration::from_nanos(1))
        } else {
            NOMINAL_RTT
        };
        self.pacing_rate = pacing::window_rate(self.initial_window(), rtt, STARTUP_PACING_GAIN);
    }

    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with(self.phase.pacing_gain());
    }

    /// SetPacingRateWithGain. In Startup the rate only rises: what the application has limited says nothing against it.
    pub(super) fn set_pacing_rate_with(&mut self, gain: Gain) {
        let rate = self.path.bandwidth.mul_ratio(gain.0 * PACING_MARGIN.0, gain.1 * PACING_MARGIN.1);
        if rate > Rate::ZERO && (self.startup.full_pipe.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// BDPMultiple: what the path holds at the bandwidth to go by, times `gain`.
    pub(super) fn bdp(&self, gain: Gain) -> u64 {
        self.bdp_at(self.path.bandwidth, gain)
    }

    fn bdp_at(&self, bandwidth: Rate, gain: Gain) -> u64 {
        match self.path.min_rtt.value {
            Some(min_rtt) => mul_div(bandwidth.bytes_in(min_rtt), gain.0, gain.1),
            None => self.initial_window(),
        }
    }

    /// Inflight: the same with what sending in trains and acknowledging every other packet needs.
    pub(super) fn inflight(&self, gain: Gain) -> u64 {
        self.quantized(self.bdp(gain))
    }

    /// The same at the maximum of the bandwidth.
    pub(super) fn inflight_at_max(&self) -> u64 {
        self.quantized(self.bdp_at(self.path.max_bandwidth.value(), (1, 1)))
    }

    /// QuantizationBudget.
    fn quantized(&self, inflight: u64) -> u64 {
        let size = u16::try_from(self.datagram).unwrap_or(u16::MAX);
        let budget = pacing::quantum(self.pacing_rate, size);
        let least = inflight.max(budget).max(self.min_pipe());
        let more = if self.phase == Phase::Up { UP_DATAGRAMS * self.datagram } else { 0 };
        least.saturating_add(more)
    }

    /// TargetInflight.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp((1, 1)).min(self.window)
    }

    /// InflightWithHeadroom.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.path.inflight_long_term == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = mul_div(self.path.inflight_long_term, HEADROOM.0, HEADROOM.1).max(self.datagram);
        self.path.inflight_long_term.saturating_sub(headroom).max(self.min_pipe())
    }

    /// ProbeRTTCwnd.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(Phase::ProbeRtt.window_gain()).max(self.min_pipe())
    }

    /// SetCwnd. Above what the model asks for the window falls at once; below it rises by what is acknowledged.
    pub(super) fn set_window(&mut self, acked: u64) {
        let inflight = self.bdp(self.phase.window_gain()).saturating_add(self.path.aggregation.extra());
        let most = self.quantized(inflight);
        if self.startup.full_pipe.reached {
            self.window = self.window.saturating_add(acked).min(most);
        } else if self.window < most || self.connection.delivered < self.initial_window() {
            self.window = self.window.saturating_add(acked);
        }
        if acked > 0 || self.window > self.min_pipe() {
            self.window = self.window.max(self.min_pipe());
        }
        if self.phase == Phase::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.window = self.window.min(self.volume_cap());
    }

    /// BoundCwndForModel: the "Volume Cap" of the table of phases.
    fn volume_cap(&self) -> u64 {
        let long_term = match self.phase {
            Phase::Startup => UNBOUNDED,
            Phase::Drain | Phase::Down | Phase::Refill | Phase::Up => self.path.inflight_long_term,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(),
        };
        long_term.min(self.path.short_term.inflight).max(self.min_pipe())
    }
}
