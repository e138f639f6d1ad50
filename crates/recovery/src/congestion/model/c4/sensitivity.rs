//! Sensitivity to delay, loss and marks: a fast flow takes them for congestion sooner than a slow one, so that they
//! come to share a bottleneck evenly.

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Rate};

/// What fractions are counted in.
pub(super) const ONE: u64 = 1024;

/// Below this rate (50 kB/s) the sensitivity is 0.
const SLOW: u64 = 400_000;
/// At this rate (1 MB/s) it is [`AT_MIDDLE`].
const MIDDLE: u64 = 8_000_000;
/// From this rate on (10 MB/s) it is 1.
const FAST: u64 = 80_000_000;
/// 0.92.
const AT_MIDDLE: u64 = 942;
/// The longest delay threshold: a queue of which real-time traffic would notice.
const MAX_DELAY: Duration = Duration::from_millis(25);

/// From 0 to [`ONE`]: rises in two straight lines with the rate.
pub(super) fn sensitivity(rate: Rate) -> u64 {
    match rate.bps() {
        bps if bps <= SLOW => 0,
        bps if bps < MIDDLE => mul_div(AT_MIDDLE, bps - SLOW, MIDDLE - SLOW),
        bps if bps < FAST => AT_MIDDLE + mul_div(ONE - AT_MIDDLE, bps - MIDDLE, FAST - MIDDLE),
        _ => ONE,
    }
}

/// How much longer than the longest round trip without a queue a sample may be: a sixteenth of it at full sensitivity,
/// a quarter at none, and 25 ms at most.
pub(super) fn delay_threshold(rate: Rate, max_rtt: Duration) -> Duration {
    let share = ONE / 16 + mul_div(ONE - sensitivity(rate), 3, 16);
    Duration::from_nanos(mul_div(max_rtt.nanos(), share, ONE)).min(MAX_DELAY)
}

/// The smoothed share of losses that is congestion: 2 % at full sensitivity, 52 % at none. In [`ONE`].
pub(super) fn loss_threshold(rate: Rate) -> u64 {
    mul_div(ONE, 2, 100) + (ONE - sensitivity(rate)) / 2
}

/// The smoothed share of marks that is congestion: 3/32 at full sensitivity, twice that at none. In [`ONE`].
pub(super) fn mark_threshold(rate: Rate) -> u64 {
    mul_div(2 * ONE - sensitivity(rate), 3, 32)
}

/// An average that a new value enters with a sixteenth, in 2⁻²⁰ so that small shares do not round to nothing.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Average(u64);

impl Average {
    const UNIT: u64 = 1 << 20;

    /// In [`ONE`].
    pub(super) fn value(self) -> u64 {
        self.0 >> 10
    }

    /// `share` of [`ONE`].
    pub(super) fn add(&mut self, share: u64) {
        self.0 = (15 * self.0 + (share << 10)) / 16;
    }

    /// So many values of zero, and a value of one.
    pub(super) fn add_after(&mut self, zeros: u64) {
        // What is left after so many is nothing anyway.
        (0..zeros.min(512)).for_each(|_| self.add(0));
        self.0 = (15 * self.0 + Average::UNIT) / 16;
    }

    /// As large as this at once, if it is larger.
    pub(super) fn raise(&mut self, share: u64) {
        self.0 = self.0.max(share << 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn bytes_per_second(bytes: u64) -> Rate {
        Rate::from_bps(8 * bytes)
    }

    #[test]
    fn sensitivity_has_the_corners_of_the_draft() {
        for (bytes, expected) in [
            (0, 0),
            (50_000, 0),
            (525_000, AT_MIDDLE / 2),
            (1_000_000, AT_MIDDLE),
            (5_500_000, AT_MIDDLE + (ONE - AT_MIDDLE) / 2),
            (10_000_000, ONE),
            (1_000_000_000, ONE),
        ] {
            assert_eq!(sensitivity(bytes_per_second(bytes)), expected, "{bytes}");
        }
    }

    #[test]
    fn the_faster_a_flow_the_lower_its_thresholds() {
        let slow = bytes_per_second(10_000);
        let fast = bytes_per_second(20_000_000);
        assert_eq!(delay_threshold(slow, ms(80)), ms(20), "a quarter");
        assert_eq!(delay_threshold(fast, ms(80)), ms(5), "a sixteenth");
        assert_eq!(delay_threshold(slow, ms(600)), ms(25), "at most");
        assert_eq!((loss_threshold(slow), loss_threshold(fast)), (20 + 512, 20));
        assert_eq!((mark_threshold(slow), mark_threshold(fast)), (192, 96));
    }

    #[test]
    fn the_average_follows_with_a_sixteenth() {
        let mut average = Average::default();
        average.add(ONE);
        assert_eq!(average.value(), ONE / 16);
        average.add_after(0);
        assert_eq!(average.value(), ONE / 16 + (ONE - ONE / 16) / 16);
        let before = average.value();
        average.add_after(100);
        assert!(average.value() < before && average.value() >= ONE / 16, "{}", average.value());
        average.raise(ONE / 2);
        assert_eq!(average.value(), ONE / 2);
    }
}
