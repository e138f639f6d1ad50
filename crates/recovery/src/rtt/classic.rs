//! The estimator of RFC 9002 section 5.3, updated at every sample, in the order of appendix A.7.
//!
//! ```text
//! adjusted  = latest - ack_delay   if that is not below min, else latest
//! variation = 3/4 variation + 1/4 |smoothed - adjusted|      with the old smoothed
//! smoothed  = 7/8 smoothed + 1/8 adjusted
//! ```
//!
//! Section 5.3 prints the last two lines the other way round, which measures the deviation from the new average and comes out
//! 1/8 short; appendix A.7 has the order that TCP has always had (RFC 6298).

use thalweg_units::Duration;

use super::{Rtt, Sample};

pub(crate) fn on_sample(rtt: &mut Rtt, sample: Sample) {
    rtt.latest = sample.latest;
    if !rtt.has_sample {
        rtt.has_sample = true;
        rtt.first_sample = Some(sample.now);
        rtt.min = sample.latest;
        rtt.adjusted = sample.latest;
        rtt.smoothed = sample.latest;
        rtt.variation = sample.latest / 2;
        return;
    }
    rtt.min = rtt.min.min(sample.latest);
    // MUST NOT take the sample below the minimum: a peer that overstates its delay cannot make the path look faster than it ever was.
    let has_room = sample.latest >= rtt.min.saturating_add(sample.ack_delay);
    rtt.adjusted = if has_room { sample.latest - sample.ack_delay } else { sample.latest };
    let deviation = rtt.smoothed.abs_diff(rtt.adjusted);
    rtt.variation = weighted(rtt.variation, 3, deviation, 4);
    rtt.smoothed = weighted(rtt.smoothed, 7, rtt.adjusted, 8);
}

/// `(old * weight + new) / parts`, where `new` weighs one part.
fn weighted(old: Duration, weight: u32, new: Duration, parts: u32) -> Duration {
    old.saturating_mul(weight).saturating_add(new) / parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RttPolicy;
    use crate::rtt::INITIAL_RTT;
    use proptest::prelude::*;
    use thalweg_units::Instant;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn feed(rtt: &mut Rtt, latest: Duration, ack_delay: Duration) {
        rtt.on_sample(Sample { now: Instant::from_nanos(7), latest, ack_delay });
    }

    fn after(first: Duration) -> Rtt {
        let mut rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
        feed(&mut rtt, first, Duration::ZERO);
        rtt
    }

    #[test]
    fn rfc9002_5_3_before_a_sample_the_initial_rtt_and_half_of_it_are_assumed() {
        let rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
        assert_eq!((rtt.smoothed, rtt.variation), (ms(333), Duration::from_micros(166_500)));
        assert!(!rtt.has_sample);
        assert_eq!(rtt.probe_base(), ms(999));
    }

    #[test]
    fn rfc9002_5_3_the_first_sample_replaces_every_assumption() {
        let rtt = after(ms(100));
        assert_eq!((rtt.smoothed, rtt.variation, rtt.min, rtt.latest), (ms(100), ms(50), ms(100), ms(100)));
        assert_eq!(rtt.first_sample, Some(Instant::from_nanos(7)));
    }

    #[test]
    fn rfc9002_a7_the_deviation_is_taken_from_the_old_average() {
        let mut rtt = after(ms(100));
        feed(&mut rtt, ms(200), Duration::ZERO);
        assert_eq!((rtt.smoothed, rtt.variation), (Duration::from_micros(112_500), Duration::from_micros(62_500)));
    }

    #[test]
    fn rfc9002_a7_four_samples() {
        let mut rtt = after(ms(100));
        for sample in [120, 140, 130, 110] {
            feed(&mut rtt, ms(sample), Duration::ZERO);
        }
        // 110.0341796875 ms and 27.490234375 ms, rounded down to a nanosecond at each step.
        assert_eq!(rtt.smoothed.as_nanos(), 110_034_179);
        assert_eq!(rtt.variation.as_nanos(), 27_490_234);
    }

    #[test]
    fn rfc9002_5_2_the_minimum_ignores_the_reported_delay() {
        let mut rtt = after(ms(100));
        feed(&mut rtt, ms(120), ms(20));
        assert_eq!(rtt.min, ms(100));
        feed(&mut rtt, ms(90), ms(20));
        assert_eq!(rtt.min, ms(90));
    }

    #[test]
    fn rfc9002_5_3_the_reported_delay_is_subtracted_unless_that_goes_below_the_minimum() {
        let mut rtt = after(ms(100));
        feed(&mut rtt, ms(120), ms(20));
        assert_eq!(rtt.adjusted, ms(100));
        assert_eq!(rtt.smoothed, ms(100));
        feed(&mut rtt, ms(119), ms(20));
        assert_eq!(rtt.adjusted, ms(119), "99 ms would be below the minimum of 100 ms");
    }

    #[test]
    fn rfc9002_5_2_the_minimum_can_be_restarted_from_the_newest_sample() {
        let mut rtt = after(ms(100));
        feed(&mut rtt, ms(180), Duration::ZERO);
        rtt.restart_min();
        assert_eq!(rtt.min, ms(180));
    }

    #[test]
    fn rfc9002_6_1_2_loss_delay_is_nine_eighths_of_the_larger_estimate_and_at_least_the_granularity() {
        let mut rtt = after(ms(80));
        assert_eq!(rtt.loss_delay(), ms(90));
        feed(&mut rtt, ms(160), Duration::ZERO);
        assert_eq!(rtt.loss_delay(), ms(180), "the newest sample is larger than the average");
        assert_eq!(after(Duration::from_micros(10)).loss_delay(), ms(1));
    }

    #[test]
    fn rfc9002_6_2_1_the_variation_term_is_at_least_the_granularity() {
        let mut rtt = after(ms(10));
        for _ in 0..200 {
            feed(&mut rtt, ms(10), Duration::ZERO);
        }
        assert_eq!(rtt.probe_base(), ms(11));
    }

    proptest! {
        #[test]
        fn the_average_stays_between_the_extremes(samples in proptest::collection::vec((1u64..5_000_000_000, 0u64..100_000_000), 1..50)) {
            let mut rtt = Rtt::new(RttPolicy::Classic, INITIAL_RTT);
            let (mut low, mut high) = (Duration::MAX, Duration::ZERO);
            for (latest, delay) in samples {
                let latest = Duration::from_nanos(latest);
                feed(&mut rtt, latest, Duration::from_nanos(delay));
                low = low.min(latest);
                high = high.max(latest);
                prop_assert_eq!(rtt.min, low);
                // Rounding down may lose a nanosecond per step.
                prop_assert!(rtt.smoothed + Duration::from_nanos(8) >= low && rtt.smoothed <= high);
                prop_assert!(rtt.adjusted >= rtt.min);
            }
        }

        #[test]
        fn no_sample_overflows(latest: u64, delay: u64) {
            let mut rtt = after(Duration::from_nanos(latest));
            feed(&mut rtt, Duration::MAX, Duration::from_nanos(delay));
            feed(&mut rtt, Duration::from_nanos(latest), Duration::MAX);
            let _ = (rtt.probe_base(), rtt.loss_delay());
        }
    }
}
