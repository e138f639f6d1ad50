//! Bounds of the model by losses and marks (section 5.5.10 of the draft).
//!
//! While BBR probes, loss says how much is too much: the long-term bound of the flight. At other times it says that the
//! path may have changed: the short-term bounds follow what is delivered, by no more than 0.7 per round, until the next
//! probe.

use thalweg_units::math::mul_div;
use thalweg_units::{Instant, Rate};

use super::phase::Phase;
use super::{BETA, Bbr, LOSS_THRESHOLD, Sample, UNBOUNDED, is_too_much_lost};
use crate::congestion::{AckEvent, LossSample};

/// What was delivered in the latest round, and whether something was lost in it.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct LatestSignals {
    /// The largest delivery rate, and the largest flight that was delivered.
    bandwidth: Rate,
    pub(super) inflight: u64,
    pub(super) is_loss_in_round: bool,
    /// The round ends with a packet sent when so much had been delivered.
    loss_round_end: u64,
    /// The acknowledgment at hand ended one.
    loss_round_started: bool,
}

impl LatestSignals {
    /// UpdateLatestDeliverySignals.
    fn update(&mut self, sample: Option<Sample>, delivered: u64) {
        self.loss_round_started = false;
        let Some(sample) = sample else { return };
        self.bandwidth = self.bandwidth.max(sample.rate);
        self.inflight = self.inflight.max(sample.delivered);
        if sample.prior_delivered >= self.loss_round_end {
            (self.loss_round_end, self.loss_round_started) = (delivered, true);
        }
    }

    /// AdvanceLatestDeliverySignals.
    pub(super) fn advance(&mut self, sample: Option<Sample>) {
        if let Some(sample) = sample.filter(|_| self.loss_round_started) {
            (self.bandwidth, self.inflight) = (sample.rate, sample.delivered);
        }
    }

    /// ResetCongestionSignals.
    pub(super) fn reset(&mut self) {
        self.is_loss_in_round = false;
        (self.bandwidth, self.inflight) = (Rate::ZERO, 0);
    }
}

/// What seems safe until the next probe.
#[derive(Copy, Clone, Debug)]
pub(super) struct ShortTerm {
    pub(super) bandwidth: Rate,
    pub(super) inflight: u64,
}

impl ShortTerm {
    pub(super) const UNBOUNDED: ShortTerm = ShortTerm { bandwidth: Rate::MAX, inflight: UNBOUNDED };

    /// ResetShortTermModel.
    pub(super) fn reset(&mut self) {
        *self = ShortTerm::UNBOUNDED;
    }

    /// InitLowerBounds and LossLowerBounds.
    fn on_loss_round(&mut self, latest: &LatestSignals, max_bandwidth: Rate, window: u64) {
        if self.bandwidth == Rate::MAX {
            self.bandwidth = max_bandwidth;
        }
        if self.inflight == UNBOUNDED {
            self.inflight = window;
        }
        self.bandwidth = latest.bandwidth.max(self.bandwidth.mul_ratio(BETA.0, BETA.1));
        self.inflight = latest.inflight.max(mul_div(self.inflight, BETA.0, BETA.1));
    }
}

/// InflightAtLoss: how much of the flight of `loss` had been sent when losses crossed the threshold. `lost` is what was
/// lost of it so far, the packet included.
fn inflight_at_loss(loss: &LossSample, lost: u64) -> u64 {
    let before = loss.in_flight.saturating_sub(loss.bytes);
    let lost_before = lost.saturating_sub(loss.bytes);
    let (share, of) = LOSS_THRESHOLD;
    let (budget, spent) = (u128::from(before) * u128::from(share), u128::from(lost_before) * u128::from(of));
    let prefix = budget.saturating_sub(spent) / u128::from(of - share);
    before.saturating_add(u64::try_from(prefix).unwrap_or(u64::MAX))
}

impl Bbr {
    pub(super) fn update_latest_signals(&mut self, sample: Option<Sample>) {
        self.path.signals.update(sample, self.connection.delivered);
    }

    /// UpdateCongestionSignals. Returns whether a round has ended that began with congestion.
    pub(super) fn update_congestion_signals(&mut self, sample: Option<Sample>) -> bool {
        self.update_max_bandwidth(sample);
        if !self.path.signals.loss_round_started {
            return false;
        }
        let is_loss_round = core::mem::take(&mut self.path.signals.is_loss_in_round);
        if is_loss_round && !self.phase.is_probing() && !self.puts_up_with_round(sample) {
            self.path.short_term.on_loss_round(&self.path.signals, self.path.max_bandwidth.value(), self.window);
        }
        is_loss_round
    }

    /// The round that ends with this sample has lost no more than a probe may (`bbr(threshold=on)`).
    fn puts_up_with_round(&self, sample: Option<Sample>) -> bool {
        let is_low = sample.is_some_and(|sample| !sample.is_too_high());
        self.settings.puts_up_with_loss && is_low && !self.startup.losses.is_marked()
    }

    /// NoteLoss.
    fn note_loss(&mut self) {
        if !self.path.signals.is_loss_in_round {
            self.path.signals.loss_round_end = self.connection.delivered;
        }
        self.path.signals.is_loss_in_round = true;
    }

    /// HandleLostPacket, for each.
    pub(super) fn on_losses(&mut self, event: &AckEvent<'_>) {
        for loss in event.losses {
            self.connection.lost = self.connection.lost.saturating_add(loss.bytes);
            self.note_loss();
            self.startup.losses.on_loss(loss);
            let lost = self.connection.lost.saturating_sub(loss.lost);
            if self.cycle.is_probe_sample && is_too_much_lost(lost, loss.in_flight) {
                let is_limited = loss.application_limited || self.is_limited_by_probe(loss.delivered);
                self.on_inflight_too_high(event.now, inflight_at_loss(loss, lost), is_limited);
            }
        }
    }

    /// Packets were marked CE: congestion, whatever their share (RFC 3168 section 5).
    pub(super) fn on_marks(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) {
        if event.marks.ce == 0 {
            return;
        }
        self.note_loss();
        self.startup.losses.on_mark();
        if let Some(sample) = sample.filter(|_| self.cycle.is_probe_sample) {
            self.on_inflight_too_high(event.now, sample.in_flight, sample.application_limited);
        }
    }

    /// HandleInflightTooHigh: once per probe.
    fn on_inflight_too_high(&mut self, now: Instant, inflight: u64, application_limited: bool) {
        self.cycle.on_too_high();
        if !application_limited {
            self.path.inflight_long_term = inflight.max(mul_div(self.target_inflight(), BETA.0, BETA.1));
        }
        if self.phase == Phase::Up {
            self.note_exit_by_loss(Phase::Up);
            self.stats.ups_ended_by_loss += 1;
            self.start_down(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn loss(bytes: u64, in_flight: u64) -> LossSample {
        LossSample { bytes, sent: at(0), order: 1, delivered: 0, lost: 0, in_flight, application_limited: false }
    }

    /// In a flight of 100 packets of 1000 bytes: two losses are the threshold, and the third crosses it.
    #[test]
    fn the_crossing_point_is_where_losses_reach_the_threshold() {
        // Nothing lost before: of 98000 bytes 2 % may be lost, so that the packet fits whole.
        assert_eq!(inflight_at_loss(&loss(1_000, 99_000), 1_000), 98_000 + 98_000 * 2 / 98);
        // 1000 lost of 98000 before: (1960 - 1000) / 0.98.
        assert_eq!(inflight_at_loss(&loss(1_000, 99_000), 2_000), 98_000 + 979);
        // The budget is spent: nothing of the packet fits.
        assert_eq!(inflight_at_loss(&loss(1_000, 99_000), 3_000), 98_000);
        // The first packet of a flight.
        assert_eq!(inflight_at_loss(&loss(1_000, 1_000), 1_000), 0);
    }

    /// At the crossing point, losses are the threshold of the flight, to a byte.
    #[test]
    fn at_the_crossing_point_the_share_of_losses_is_the_threshold() {
        for (size, lost_before) in [(10_000, 0), (64_000, 100), (30_000, 900)] {
            let before = 100_000;
            let at = inflight_at_loss(&loss(size, before + size), lost_before + size);
            let lost = lost_before + (at - before);
            assert!(lost.abs_diff(at * 2 / 100) <= 1, "{lost} of {at}");
        }
    }

    #[test]
    fn short_term_bounds_fall_by_at_most_three_tenths_a_round_and_not_below_what_is_delivered() {
        let mut bounds = ShortTerm::UNBOUNDED;
        let rate = Rate::from_bps;
        let mut latest = LatestSignals { bandwidth: rate(20_000), inflight: 5_000, ..LatestSignals::default() };
        bounds.on_loss_round(&latest, rate(100_000), 50_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (rate(70_000), 35_000));
        bounds.on_loss_round(&latest, rate(100_000), 50_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (rate(49_000), 24_500));
        latest.bandwidth = rate(60_000);
        latest.inflight = 40_000;
        bounds.on_loss_round(&latest, rate(100_000), 50_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (rate(60_000), 40_000));
        bounds.reset();
        assert_eq!((bounds.bandwidth, bounds.inflight), (Rate::MAX, UNBOUNDED));
    }

    #[test]
    fn more_than_two_in_a_hundred_is_too_much() {
        assert!(!is_too_much_lost(2_000, 100_000));
        assert!(is_too_much_lost(2_001, 100_000));
        assert!(is_too_much_lost(1, 0));
        assert!(!is_too_much_lost(0, 0));
        assert!(is_too_much_lost(u64::MAX, u64::MAX));
    }
}
