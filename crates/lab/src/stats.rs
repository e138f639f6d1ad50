//! Statistics over seeds: quantiles, intervals, paired differences.
//!
//! A run can give one value (its completion time) or many (its responses). Values of one run are not independent of
//! each other, so intervals are of one number per run: what the statistic comes to within each run.

mod interval;
mod ratio;

use serde::Serialize;
use thalweg_units::math;

use crate::metric::Unit;

pub use interval::{FEWEST_FOR_MEAN, FEWEST_FOR_MEDIAN, Interval, Missing, distinct, fewest_for_quantile};
pub use ratio::{RatioOf, ratio_of};

/// Which number sums up many.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Statistic {
    /// The value below which this share of all lies, between neighbours linearly (type 7 of Hyndman and Fan 1996).
    Quantile(f64),
    /// The arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Standard deviation of a sample (divided by n − 1).
    Deviation,
    /// From the 5 % quantile to the 95 % quantile, over the median.
    Spread,
}

impl Statistic {
    /// The median.
    pub const MEDIAN: Statistic = Statistic::Quantile(0.5);

    /// The unit of what is found of values in this one.
    pub fn unit(self, of_values: Unit) -> Unit {
        if self == Statistic::Spread { Unit::Share } else { of_values }
    }

    /// What can be written.
    pub const ACCEPTED: &'static str = "p50 (or any pNN, p99.9), median, mean, min, max, deviation, spread (p5 to p95 over the median), rate (of shares)";

    /// What can be written where an interval is needed.
    pub const WITH_INTERVAL: &'static str =
        "p50 (or any pNN between p0 and p100, p99.9), median, mean, spread, rate (of shares)";

    /// Reads "p50", "median", "mean", "rate" and so on.
    pub fn parse(text: &str) -> Option<Statistic> {
        match text {
            "median" => Some(Statistic::MEDIAN),
            "mean" | "rate" | "share" => Some(Statistic::Mean),
            "min" => Some(Statistic::Min),
            "max" => Some(Statistic::Max),
            "deviation" | "stddev" => Some(Statistic::Deviation),
            "spread" => Some(Statistic::Spread),
            _ => {
                let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
                // Through millionths of a per cent, so that p99.9 is exactly 0.999.
                (0.0..=100.0).contains(&percent).then(|| Statistic::Quantile((percent * 1e6).round() / 1e8))
            }
        }
    }

    /// Whether there is an interval of it, given enough runs. The others describe the runs that were made.
    pub fn has_interval(self) -> bool {
        match self {
            Statistic::Quantile(share) => share > 0.0 && share < 1.0,
            Statistic::Mean | Statistic::Spread => true,
            Statistic::Min | Statistic::Max | Statistic::Deviation => false,
        }
    }

    /// Of values in any order; not a number if there are none.
    pub fn of(self, values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        self.of_sorted(&sorted)
    }

    /// Of values in ascending order; not a number if there are none.
    pub fn of_sorted(self, sorted: &[f64]) -> f64 {
        let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return f64::NAN };
        match self {
            Statistic::Quantile(share) => quantile(sorted, share),
            Statistic::Mean => mean(sorted),
            Statistic::Min => *first,
            Statistic::Max => *last,
            Statistic::Deviation => deviation(sorted),
            Statistic::Spread => (quantile(sorted, 0.95) - quantile(sorted, 0.05)) / quantile(sorted, 0.5),
        }
    }
}

impl core::fmt::Display for Statistic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Statistic::Quantile(share) if *share == 0.5 => f.write_str("median"),
            Statistic::Quantile(share) => write!(f, "p{}", (share * 1e8).round() / 1e6),
            Statistic::Mean => f.write_str("mean"),
            Statistic::Min => f.write_str("min"),
            Statistic::Max => f.write_str("max"),
            Statistic::Deviation => f.write_str("deviation"),
            Statistic::Spread => f.write_str("spread"),
        }
    }
}

/// The quantile of ascending values; not a number if there are none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = position - below as f64;
    // Between equal values there is nothing to round.
    if part == 0.0 || sorted[below] == sorted[above] {
        return sorted[below];
    }
    sorted[below] * (1.0 - part) + sorted[above] * part
}

/// The arithmetic mean; not a number if there are no values.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    math::sqrt(squares / (values.len() - 1) as f64)
}

/// A statistic of the values of many runs, and how sure it is.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// What it comes to; not a number if there are no values.
    pub value: f64,
    /// Where the true value is with 95 % confidence; none if that cannot be said.
    pub interval: Option<Interval>,
    /// Why there is no interval, if so.
    pub missing: Option<Missing>,
    /// How many runs have a value.
    pub runs: usize,
    /// How many different results these runs gave.
    pub distinct: usize,
}

impl Estimate {
    /// Of one value per run. Values closer than `tolerance`, in the unit of the values, are one result; if all runs
    /// gave the same there is no interval, as nothing tells them from one run made many times.
    pub fn of(values: &[f64], statistic: Statistic, tolerance: f64) -> Estimate {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let distinct = distinct(&sorted, tolerance);
        Estimate::of_sorted(&sorted, statistic, distinct)
    }

    /// Of values in ascending order, of runs that gave so many distinct results.
    fn of_sorted(sorted: &[f64], statistic: Statistic, distinct: usize) -> Estimate {
        let (value, runs) = (statistic.of_sorted(sorted), sorted.len());
        let interval = match distinct {
            1 if runs > 1 => Err(Missing::Alike(runs)),
            _ => interval::interval(sorted, statistic),
        };
        // An estimate between two values can lie beyond an order statistic; a wider interval covers no less.
        let interval = interval.map(|Interval { low, high }| Interval { low: low.min(value), high: high.max(value) });
        Estimate { value, interval: interval.ok(), missing: interval.err(), runs, distinct }
    }

    /// The share of successes among so many runs with Wilson's interval. `distinct` of the runs differ in anything:
    /// that all succeed is what the interval is about, but one run made many times has none.
    pub fn of_share(successes: u64, trials: u64, distinct: usize) -> Estimate {
        let (value, interval) = wilson(successes, trials).unzip();
        let runs = trials as usize;
        let missing = match (distinct, runs) {
            (_, 0) => Some(Missing::Few(0)),
            (1, 2..) => Some(Missing::Alike(runs)),
            _ => None,
        };
        let interval = interval.filter(|_| missing.is_none());
        Estimate { value: value.unwrap_or(f64::NAN), interval, missing, runs, distinct }
    }

    /// Whether more seeds are not worth their time: the interval is narrow, or as many seeds as make an interval of a
    /// median change nothing.
    pub fn is_narrow(&self, width: f64) -> bool {
        match self.missing {
            Some(Missing::Alike(seeds)) => seeds >= FEWEST_FOR_MEDIAN,
            _ => is_narrow(self.value, self.interval, width),
        }
    }

    /// "n = 30", and how many of these are distinct, if fewer than half.
    pub fn on(&self) -> String {
        format!("n = {}{}", self.runs, self.repeats())
    }

    /// ", 1 distinct result", if the runs gave so few.
    pub fn repeats(&self) -> String {
        match self.distinct {
            distinct if self.runs < 2 || distinct * 2 > self.runs => String::new(),
            1 => ", 1 distinct result".to_owned(),
            distinct => format!(", {distinct} distinct results"),
        }
    }
}

/// The 97.5th percentile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The share of successes and Wilson's score interval, 95 % (Wilson 1927); none without trials.
pub fn wilson(successes: u64, trials: u64) -> Option<(f64, Interval)> {
    if trials == 0 {
        return None;
    }
    let (n, p) = (trials as f64, successes as f64 / trials as f64);
    let centre = p + Z * Z / (2.0 * n);
    let spread = Z * math::sqrt(p * (1.0 - p) / n + Z * Z / (4.0 * n * n));
    let scale = 1.0 + Z * Z / n;
    // At the ends the formula gives exactly 0 and 1, up to rounding.
    let low = if successes == 0 { 0.0 } else { (centre - spread) / scale };
    let high = if successes == trials { 1.0 } else { (centre + spread) / scale };
    Some((p, Interval { low, high }))
}

/// How two ways of doing something differ on the same seeds.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// How many seeds can be compared: both have a value, and not both are endless.
    pub pairs: usize,
    /// How many different results the one of both gave that gave more.
    pub distinct: usize,
    /// On how many of these seeds the first never came to an end: the difference is endlessly negative, the ratio 0.
    pub first_never: usize,
    /// The statistic of the second minus that of the first, seed by seed: the median of these differences.
    pub difference: f64,
    /// The interval of that median, by order statistics.
    pub difference_interval: Option<Interval>,
    /// The median of second over first, seed by seed.
    pub ratio: f64,
    /// The interval of that median, by order statistics.
    pub ratio_interval: Option<Interval>,
    /// Why there are no intervals, if so.
    pub missing: Option<Missing>,
    /// On how many seeds the second is smaller.
    pub smaller: usize,
    /// On how many seeds the second is larger; endless is larger than anything.
    pub larger: usize,
}

/// Whether two values, `(first, second)`, can be told apart: both are known, and not both endless.
pub(crate) fn can_compare(&(first, second): &(f64, f64)) -> bool {
    !first.is_nan() && !second.is_nan() && (first.is_finite() || second.is_finite())
}

/// Second over first. Of two zeros neither is larger; what is endless, or something where there was nothing, is
/// endlessly more.
pub fn ratio(first: f64, second: f64) -> f64 {
    if first == second { 1.0 } else { second / first }
}

/// Compares two values per seed, `(first, second)`; none if no seed shows anything. Values of one side closer than
/// `tolerance` are one result.
pub fn paired(pairs: &[(f64, f64)], tolerance: f64) -> Option<Paired> {
    let known: Vec<(f64, f64)> = pairs.iter().copied().filter(can_compare).collect();
    if known.is_empty() {
        return None;
    }
    let compared = |compare: fn(f64, f64) -> f64| {
        let values: Vec<f64> = known.iter().map(|(first, second)| compare(*first, *second)).collect();
        over_pairs(&known, &values, Statistic::MEDIAN, tolerance)
    };
    let (difference, ratio) = (compared(|first, second| second - first), compared(ratio));
    Some(Paired {
        pairs: known.len(),
        distinct: difference.distinct,
        first_never: known.iter().filter(|(first, _)| first.is_infinite()).count(),
        difference: difference.value,
        difference_interval: difference.interval,
        ratio: ratio.value,
        ratio_interval: ratio.interval,
        missing: difference.missing,
        smaller: known.iter().filter(|(first, second)| second < first).count(),
        larger: known.iter().filter(|(first, second)| second > first).count(),
    })
}

/// A statistic of `compared`, which has one value for each of `pairs`. The pairs are as many results as one of their
/// sides has: equal differences of different runs are so many observations, and those of equal runs are one.
pub fn over_pairs(pairs: &[(f64, f64)], compared: &[f64], statistic: Statistic, tolerance: f64) -> Estimate {
    let results = |side: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(side).collect();
        values.sort_unstable_by(f64::total_cmp);
        distinct(&values, tolerance)
    };
    let mut sorted = compared.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Estimate::of_sorted(&sorted, statistic, results(|pair| pair.0).max(results(|pair| pair.1)))
}

/// Whether an interval is narrow enough: its width at most this share of the estimate.
pub fn is_narrow(estimate: f64, interval: Option<Interval>, width: f64) -> bool {
    interval.is_some_and(|interval| interval.width() <= width * estimate.abs())
}

/// Jain's fairness index: 1 when all are equal, 1/n when one has everything; 1 for nothing at all.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-4
    }

    #[test]
    fn quantiles_as_r_and_numpy_compute_them() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&values, 0.5), 2.5);
        assert_eq!(quantile(&values, 0.25), 1.75);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert!(close(quantile(&values, 0.9), 3.7));
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(Statistic::MEDIAN.of(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn mean_and_deviation() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(Statistic::Mean.of(&values), 5.0);
        assert!(close(Statistic::Deviation.of(&values), 2.1381));
        assert_eq!(Statistic::Deviation.of(&[1.0]), 0.0);
    }

    #[test]
    fn the_spread_is_from_5_to_95_per_cent_over_the_median() {
        assert_eq!(Statistic::Spread.of(&[4.803_125_7; 10]).to_string(), "0", "equal values have no spread");
        let values: Vec<f64> = (0..=100).map(|n| 100.0 + f64::from(n) / 10.0).collect();
        assert!(close(Statistic::Spread.of(&values), 9.0 / 105.0));
        assert_eq!(Statistic::Spread.of(&[3.0]), 0.0);
        assert_eq!(Statistic::Spread.unit(Unit::Seconds), Unit::Share, "a share of the median");
        assert_eq!(Statistic::Deviation.unit(Unit::Seconds), Unit::Seconds);
    }

    #[test]
    fn statistics_have_names() {
        for (text, statistic) in [
            ("median", Statistic::MEDIAN),
            ("p50", Statistic::MEDIAN),
            ("p99.9", Statistic::Quantile(0.999)),
            ("rate", Statistic::Mean),
            ("max", Statistic::Max),
            ("spread", Statistic::Spread),
        ] {
            assert_eq!(Statistic::parse(text), Some(statistic), "{text}");
        }
        for text in ["", "p", "p101", "p-1", "average", "50"] {
            assert_eq!(Statistic::parse(text), None, "{text}");
        }
        assert_eq!(Statistic::Quantile(0.999).to_string(), "p99.9");
    }

    #[test]
    fn wilson_intervals_of_the_literature() {
        // Newcombe 1998, table I, method 3.
        let (share, interval) = wilson(81, 263).unwrap();
        assert!(close(share, 0.3080) && close(interval.low, 0.2553) && close(interval.high, 0.3662), "{interval:?}");
        let (_, interval) = wilson(15, 148).unwrap();
        assert!(close(interval.low, 0.0624) && close(interval.high, 0.1605), "{interval:?}");
        let (_, interval) = wilson(0, 20).unwrap();
        assert!(interval.low == 0.0 && close(interval.high, 0.1611), "{interval:?}");
        let (_, interval) = wilson(1, 29).unwrap();
        assert!(close(interval.low, 0.0061) && close(interval.high, 0.1718), "{interval:?}");
        let (share, interval) = wilson(30, 30).unwrap();
        assert!(share == 1.0 && interval.high == 1.0 && close(interval.low, 0.8865), "{interval:?}");
        assert_eq!(wilson(0, 0), None);
    }

    #[test]
    fn two_runs_have_no_interval() {
        for statistic in [Statistic::MEDIAN, Statistic::Quantile(0.99), Statistic::Mean, Statistic::Spread] {
            let estimate = Estimate::of(&[1.0, 2.0], statistic, 0.0);
            assert_eq!((estimate.interval, estimate.missing), (None, Some(Missing::Few(2))), "{statistic}");
        }
        assert!(Estimate::of(&[], Statistic::MEDIAN, 0.0).value.is_nan());
    }

    #[test]
    fn an_interval_holds_its_estimate() {
        // The 99th percentile of four values lies between the last two; its lower bound is the last.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0], Statistic::Quantile(0.99), 0.0);
        let interval = estimate.interval.unwrap();
        assert!(estimate.value < 4.0 && interval.contains(estimate.value), "{estimate:?}");
    }

    #[test]
    fn seeds_that_change_nothing_are_one_observation() {
        let values: Vec<f64> = (0..30).map(|seed| 4.8 + f64::from(seed % 7) * 1e-4).collect();
        let alike = Estimate::of(&values, Statistic::MEDIAN, 1e-3);
        assert_eq!((alike.interval, alike.missing), (None, Some(Missing::Alike(30))));
        assert_eq!(alike.on(), "n = 30, 1 distinct result");
        assert_eq!(alike.missing.unwrap().to_string(), "30 seeds, 1 distinct result");
        let apart = Estimate::of(&values, Statistic::MEDIAN, 1e-5);
        assert_eq!((apart.distinct, apart.on().as_str()), (7, "n = 30, 7 distinct results"));
        assert!(apart.interval.is_some());
        // Both sides of a comparison are one run each, made thirty times.
        let pairs: Vec<(f64, f64)> = values.iter().map(|value| (*value, 2.0 * value)).collect();
        let compared = paired(&pairs, 2e-3).unwrap();
        assert_eq!((compared.difference_interval, compared.ratio_interval, compared.distinct), (None, None, 1));
        assert!(paired(&pairs, 1e-3).unwrap().ratio_interval.is_some());
    }

    #[test]
    fn pairs_see_what_the_spread_over_seeds_hides() {
        // Seeds differ by hundreds, the second way is better by 1 on every seed.
        let pairs: Vec<(f64, f64)> =
            (1..=20).map(|seed| (f64::from(seed) * 100.0, f64::from(seed) * 100.0 - 1.0)).collect();
        let paired = paired(&pairs, 0.0).unwrap();
        assert_eq!((paired.difference, paired.smaller, paired.larger), (-1.0, 20, 0));
        assert_eq!(paired.difference_interval, Some(Interval { low: -1.0, high: -1.0 }));
        assert!(paired.ratio < 1.0);
        assert_eq!(super::paired(&[], 0.0), None);
    }

    #[test]
    fn what_never_ends_is_counted_and_not_left_out() {
        let endless = f64::INFINITY;
        let paired = paired(&[(1.0, 2.0), (1.0, endless), (2.0, endless), (endless, 1.0), (f64::NAN, 1.0)], 0.0);
        let paired = paired.unwrap();
        // An end where there was none is endlessly less.
        assert_eq!((paired.pairs, paired.first_never, paired.larger, paired.smaller), (4, 1, 3, 1));
        assert_eq!((paired.ratio, paired.difference), (endless, endless));
        // Nothing over nothing is even; something over nothing is not.
        assert_eq!((ratio(0.0, 0.0), ratio(0.0, 3.0), ratio(2.0, 3.0)), (1.0, endless, 1.5));
        let even = super::paired(&[(0.0, 0.0), (0.0, 0.0), (0.0, 3.0)], 0.0).unwrap();
        assert_eq!((even.pairs, even.ratio), (3, 1.0));
        let saved = super::paired(&[(endless, 1.0), (endless, 2.0)], 0.0).unwrap();
        assert_eq!((saved.difference, saved.ratio), (-endless, 0.0));
        assert_eq!((saved.pairs, saved.first_never, saved.smaller), (2, 2, 2));
        // Four of seven saved by the second: the median says so. Where neither ends nothing is known.
        let mut seven = [(1.0, 1.0); 8];
        seven[..4].fill((endless, 2.0));
        seven[4] = (endless, endless);
        let most = super::paired(&seven, 0.0).unwrap();
        assert_eq!((most.pairs, most.difference, most.ratio), (7, -endless, 0.0));
        assert_eq!(super::paired(&[(endless, endless)], 0.0), None);
    }

    #[test]
    fn fairness() {
        assert_eq!(jain(&[1.0, 1.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 1.0);
    }

    #[test]
    fn narrow_enough() {
        assert!(is_narrow(10.0, Some(Interval { low: 9.8, high: 10.2 }), 0.05));
        assert!(!is_narrow(10.0, Some(Interval { low: 9.0, high: 11.0 }), 0.05));
        assert!(!is_narrow(10.0, None, 0.5));
        // Where seeds change nothing more of them do not either.
        assert!(Estimate::of(&[4.8; 6], Statistic::MEDIAN, 0.0).is_narrow(0.05));
        assert!(!Estimate::of(&[4.8; 5], Statistic::MEDIAN, 0.0).is_narrow(0.05));
        assert!(!Estimate::of(&[4.7, 4.8, 4.9, 5.0, 5.1], Statistic::MEDIAN, 0.0).is_narrow(0.05));
    }
}
