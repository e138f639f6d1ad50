//! The estimator of RFC 9002 section 5.3, updated at every sample, in the order of appendix A.7.
//!
//! ```text
//! first:     smoothed = sample;  variation = sample / 2
//! variation = 3/4 variation + 1/4 |smoothed - sample|      with the old smoothed
//! smoothed  = 7/8 smoothed + 1/8 sample
//! ```
//!
//! where a sample has the peer's reported ACK delay taken off. Section 5.3 prints the last two lines the other way
//! round, which measures the deviation from the new average and comes out 1/8 short; appendix A.7 has the order that
//! TCP has always had (RFC 6298).
//!
//! The weights are per sample, so that with a hundred ACKs per round trip the average spans less than a tenth of one:
//! samples so close together are correlated, the variation collapses, and a rise of the round-trip time fires the probe
//! timer. That is what `per_round.rs` answers.

use thalweg_units::Duration;

use super::weighted;

/// See the [module](self).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Classic {
    pub(super) smoothed: Duration,
    pub(super) variation: Duration,
    has_sample: bool,
}

impl Classic {
    pub(super) fn on_sample(&mut self, sample: Duration) {
        if !self.has_sample {
            *self = Classic { smoothed: sample, variation: sample / 2, has_sample: true };
            return;
        }
        self.variation = weighted(self.variation, 3, self.smoothed.abs_diff(sample), 4);
        self.smoothed = weighted(self.smoothed, 7, sample, 8);
    }
}
