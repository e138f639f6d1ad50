//! The estimator of ACK aggregation: bytes delivered at once beyond the bandwidth (extra_acked, section 5.5.9 of the
//! draft).
//!
//! A path that hands data over in batches, or acknowledges it in batches, is silent in between. Without room for what a
//! batch brings, the window would be used up during the silence.

use thalweg_units::{Instant, Rate};

use super::filter::WindowedMax;

/// ExtraAckedFilterLen: rounds that the maximum is taken over.
const FILTER_ROUNDS: u64 = 10;
/// The same in Startup, where the window grows anyway.
const STARTUP_FILTER_ROUNDS: u64 = 1;

/// The degree of aggregation of the path.
#[derive(Copy, Clone, Debug)]
pub(super) struct Aggregation {
    /// When the current episode began.
    begun: Instant,
    /// Bytes acknowledged since.
    delivered: u64,
    filter: WindowedMax,
}

/// What an acknowledgment is judged by.
#[derive(Copy, Clone, Debug)]
pub(super) struct Acked {
    pub(super) now: Instant,
    pub(super) bytes: u64,
    /// What the path is expected to deliver.
    pub(super) bandwidth: Rate,
    pub(super) window: u64,
    /// Which round trip it is.
    pub(super) round: u64,
    /// The start is over.
    pub(super) is_full: bool,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Aggregation {
        Aggregation { begun: now, delivered: 0, filter: WindowedMax::default() }
    }

    /// Bytes beyond the delay-bandwidth product that keep the path busy between two batches.
    pub(super) fn extra(&self) -> u64 {
        self.filter.value()
    }

    /// Silence that the application has made is no aggregation.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.begun, self.delivered) = (now, 0);
    }

    pub(super) fn on_ack(&mut self, acked: Acked) {
        let mut expected = acked.bandwidth.bytes_in(acked.now.saturating_since(self.begun));
        if self.delivered <= expected {
            // Acknowledgments are not ahead of the bandwidth: an episode has ended.
            (self.delivered, self.begun, expected) = (0, acked.now, 0);
        }
        self.delivered = self.delivered.saturating_add(acked.bytes);
        let extra = self.delivered.saturating_sub(expected).min(acked.window);
        let length = if acked.is_full { FILTER_ROUNDS } else { STARTUP_FILTER_ROUNDS };
        self.filter.update(extra, acked.round, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    /// 1 byte per microsecond.
    const BANDWIDTH: Rate = Rate::from_bps(8_000_000);

    fn acked(millis: u64, bytes: u64, round: u64) -> Acked {
        Acked { now: at(millis), bytes, bandwidth: BANDWIDTH, window: 100_000, round, is_full: true }
    }

    #[test]
    fn acknowledgments_at_the_bandwidth_show_only_themselves() {
        let mut aggregation = Aggregation::new(at(0));
        for ack in 1..=100 {
            aggregation.on_ack(acked(ack, 1_000, ack / 10));
            assert!(aggregation.extra() <= 1_000, "{}", aggregation.extra());
        }
    }

    #[test]
    fn a_batch_is_what_comes_ahead_of_the_bandwidth() {
        let mut aggregation = Aggregation::new(at(0));
        // 20 ms of silence, then all of it at once, in ten acknowledgments.
        for batch in 1..=5 {
            for _ in 0..10 {
                aggregation.on_ack(acked(20 * batch, 2_000, batch));
            }
        }
        assert_eq!(aggregation.extra(), 20_000);
    }

    #[test]
    fn the_extra_never_exceeds_the_window() {
        let mut aggregation = Aggregation::new(at(0));
        aggregation.on_ack(Acked { window: 30_000, ..acked(1, 200_000, 1) });
        assert_eq!(aggregation.extra(), 30_000);
    }

    #[test]
    fn a_batch_is_remembered_for_ten_rounds_and_in_the_start_for_one() {
        for (is_full, rounds) in [(true, 10), (false, 1)] {
            let mut aggregation = Aggregation::new(at(0));
            aggregation.on_ack(Acked { is_full, ..acked(20, 20_000, 1) });
            for round in 2..=rounds {
                aggregation.on_ack(Acked { is_full, ..acked(40 + round, 1_000, round) });
                assert_eq!(aggregation.extra(), 20_000, "round {round}");
            }
            aggregation.on_ack(Acked { is_full, ..acked(60 + rounds, 1_000, rounds + 1) });
            assert!(aggregation.extra() < 20_000, "after {rounds} rounds");
        }
    }

    #[test]
    fn silence_of_the_application_is_no_batch() {
        let mut aggregation = Aggregation::new(at(0));
        aggregation.on_ack(acked(1, 10_000, 1));
        aggregation.restart(at(5_000));
        aggregation.on_ack(acked(5_001, 1_000, 20));
        assert_eq!(aggregation.extra(), 1_000);
    }
}
