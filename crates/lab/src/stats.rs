//! From the values of many seeds to a number and how sure it is: quantiles, bootstrap and Wilson intervals, paired
//! differences.
//!
//! A run can give one value (its completion time) or many (its responses). Values of one run are not independent of each
//! other, so resampling draws whole runs: with one value per run this is the ordinary bootstrap.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use thalweg_units::math;

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

    /// What can be written.
    pub const ACCEPTED: &'static str = "p50 (or any pNN, p99.9), median, mean, min, max, deviation, spread (p5 to p95 over the median), rate (of shares)";

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
    if part == 0.0 { sorted[below] } else { sorted[below] * (1.0 - part) + sorted[above] * part }
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

/// A range that holds the true value with 95 % confidence.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// From end to end.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Whether a value lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How often the bootstrap draws. 2,000 is enough for 95 % percentile intervals (Efron and Tibshirani 1993, section 14).
pub const RESAMPLES: usize = 2_000;

/// Where the bootstrap's dice start: intervals, too, come out the same on every machine.
const BOOTSTRAP_SEED: u64 = 0x7468_616c_7765_6721;

/// The statistic over all values of all runs.
pub fn estimate(runs: &[&[f64]], statistic: Statistic) -> f64 {
    statistic.of(&runs.concat())
}

/// Percentile bootstrap over runs, 95 %; none with fewer than three runs that have values.
pub fn bootstrap(runs: &[&[f64]], statistic: Statistic) -> Option<Interval> {
    let filled = runs.iter().filter(|run| !run.is_empty());
    let count = filled.clone().count();
    // Sorted once: what is drawn is then in order as well, however many values a run has.
    let mut sorted: Vec<(f64, usize)> =
        filled.enumerate().flat_map(|(run, values)| values.iter().map(move |value| (*value, run))).collect();
    sorted.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let mut times = vec![0; count];
    resample(count, |drawn, pool: &mut Vec<f64>| {
        times.fill(0);
        for run in drawn {
            times[*run] += 1;
        }
        pool.clear();
        for (value, run) in &sorted {
            pool.extend(core::iter::repeat_n(*value, times[*run]));
        }
        statistic.of_sorted(pool)
    })
}

fn resample(count: usize, mut statistic: impl FnMut(&[usize], &mut Vec<f64>) -> f64) -> Option<Interval> {
    if count < 3 {
        return None;
    }
    let mut dice = Pcg64::seed_from_u64(BOOTSTRAP_SEED);
    let mut drawn = vec![0; count];
    let mut pool = Vec::new();
    let mut results: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for index in &mut drawn {
                *index = below(&mut dice, count as u64) as usize;
            }
            statistic(&drawn, &mut pool)
        })
        .collect();
    results.sort_unstable_by(f64::total_cmp);
    Some(Interval { low: quantile(&results, 0.025), high: quantile(&results, 0.975) })
}

/// A number below `bound`, every one equally often to within 2⁻⁶⁴ (multiply-shift, Lemire 2019 without the rejection).
fn below(dice: &mut Pcg64, bound: u64) -> u64 {
    ((u128::from(dice.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// The share of successes and Wilson's score interval, 95 % (Wilson 1927); none without trials.
pub fn wilson(successes: u64, trials: u64) -> Option<(f64, Interval)> {
    if trials == 0 {
        return None;
    }
    /// The 97.5th percentile of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
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
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// How many seeds can be compared: both have a value, and that of the first is finite.
    pub pairs: usize,
    /// On how many seeds more the first never came to an end, so that there is nothing to compare with.
    pub first_never: usize,
    /// The statistic of the second minus that of the first, seed by seed: the median of these differences.
    pub difference: f64,
    /// Its bootstrap interval.
    pub difference_interval: Option<Interval>,
    /// The median of second over first, seed by seed.
    pub ratio: f64,
    /// Its bootstrap interval.
    pub ratio_interval: Option<Interval>,
    /// On how many seeds the second is smaller.
    pub smaller: usize,
    /// On how many seeds the second is larger; endless is larger than anything.
    pub larger: usize,
}

/// Second over first. Of two zeros neither is larger; what is endless, or something where there was nothing, is endlessly more.
pub fn ratio(first: f64, second: f64) -> f64 {
    if first == second { 1.0 } else { second / first }
}

/// Compares two values per seed, `(first, second)`; none if no seed tells anything.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Paired> {
    let known = pairs.iter().filter(|(first, second)| !first.is_nan() && !second.is_nan());
    let (finite, endless): (Vec<_>, Vec<_>) = known.partition(|(first, _)| first.is_finite());
    if finite.is_empty() && endless.iter().all(|(_, second)| second.is_infinite()) {
        return None;
    }
    let differences: Vec<f64> = finite.iter().map(|(first, second)| second - first).collect();
    let ratios: Vec<f64> = finite.iter().map(|(first, second)| ratio(*first, *second)).collect();
    let interval = |values: &[f64]| {
        let runs: Vec<&[f64]> = values.chunks(1).collect();
        bootstrap(&runs, Statistic::MEDIAN)
    };
    Some(Paired {
        pairs: finite.len(),
        first_never: endless.len(),
        difference: Statistic::MEDIAN.of(&differences),
        difference_interval: interval(&differences),
        ratio: Statistic::MEDIAN.of(&ratios),
        ratio_interval: interval(&ratios),
        smaller: differences.iter().filter(|difference| **difference < 0.0).count(),
        larger: differences.iter().filter(|difference| **difference > 0.0).count(),
    })
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
        let values: Vec<f64> = (0..=100).map(|n| 100.0 + f64::from(n) / 10.0).collect();
        assert!(close(Statistic::Spread.of(&values), 9.0 / 105.0));
        assert_eq!(Statistic::Spread.of(&[3.0]), 0.0);
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
    fn the_bootstrap_draws_whole_runs() {
        let runs: [&[f64]; 4] = [&[5.0, 1.0, 3.0], &[2.0], &[9.0, 4.0], &[7.0, 7.0, 0.5, 6.0]];
        for statistic in [Statistic::MEDIAN, Statistic::Quantile(0.9), Statistic::Min, Statistic::Deviation] {
            let plainly = resample(runs.len(), |drawn, _| {
                let values: Vec<f64> = drawn.iter().flat_map(|run| runs[*run]).copied().collect();
                statistic.of(&values)
            });
            assert_eq!(bootstrap(&runs, statistic), plainly, "{statistic}");
        }
    }

    #[test]
    fn the_bootstrap_of_a_mean_agrees_with_the_normal_interval() {
        let mut dice = Pcg64::seed_from_u64(1);
        let values: Vec<f64> =
            (0..400).map(|_| (0..12).map(|_| below(&mut dice, 1_000) as f64 / 1_000.0).sum::<f64>()).collect();
        let runs: Vec<&[f64]> = values.chunks(1).collect();
        let interval = bootstrap(&runs, Statistic::Mean).unwrap();
        let half = 1.96 * deviation(&values) / 20.0;
        let mean = mean(&values);
        assert!((interval.low - (mean - half)).abs() < 0.15 * half, "{interval:?} {mean} {half}");
        assert!((interval.high - (mean + half)).abs() < 0.15 * half, "{interval:?} {mean} {half}");
        assert_eq!(bootstrap(&runs, Statistic::Mean), Some(interval), "same values, same interval");
    }

    #[test]
    fn the_bootstrap_covers_the_truth_about_as_often_as_it_says() {
        let mut dice = Pcg64::seed_from_u64(2);
        let mut covered = 0;
        for _ in 0..200 {
            let values: Vec<f64> = (0..30).map(|_| below(&mut dice, 1 << 20) as f64 / (1 << 20) as f64).collect();
            let runs: Vec<&[f64]> = values.chunks(1).collect();
            covered += usize::from(bootstrap(&runs, Statistic::Mean).unwrap().contains(0.5));
        }
        assert!((178..=198).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn values_of_one_run_move_together() {
        // Two kinds of run, 50 equal values each: what is uncertain is how many runs of each kind there are, not 500 values.
        let (low, high) = ([1.0; 50], [2.0; 50]);
        let runs: Vec<&[f64]> = (0..10).map(|at| if at % 2 == 0 { &low[..] } else { &high[..] }).collect();
        let clustered = bootstrap(&runs, Statistic::Mean).unwrap();
        let flat = runs.concat();
        let single: Vec<&[f64]> = flat.chunks(1).collect();
        assert!(clustered.width() > 4.0 * bootstrap(&single, Statistic::Mean).unwrap().width());
    }

    #[test]
    fn two_runs_have_no_interval() {
        assert_eq!(bootstrap(&[&[1.0], &[2.0]], Statistic::MEDIAN), None);
        assert_eq!(bootstrap(&[&[1.0], &[2.0], &[]], Statistic::MEDIAN), None);
    }

    #[test]
    fn pairs_see_what_the_spread_over_seeds_hides() {
        // Seeds differ by hundreds, the second way is better by 1 on every seed.
        let pairs: Vec<(f64, f64)> =
            (1..=20).map(|seed| (f64::from(seed) * 100.0, f64::from(seed) * 100.0 - 1.0)).collect();
        let paired = paired(&pairs).unwrap();
        assert_eq!((paired.difference, paired.smaller, paired.larger), (-1.0, 20, 0));
        assert_eq!(paired.difference_interval, Some(Interval { low: -1.0, high: -1.0 }));
        assert!(paired.ratio < 1.0);
        assert_eq!(super::paired(&[]), None);
    }

    #[test]
    fn what_never_ends_is_counted_and_not_left_out() {
        let endless = f64::INFINITY;
        let paired = paired(&[(1.0, 2.0), (1.0, endless), (2.0, endless), (endless, 1.0), (f64::NAN, 1.0)]).unwrap();
        assert_eq!((paired.pairs, paired.first_never, paired.larger, paired.smaller), (3, 1, 3, 0));
        assert_eq!((paired.ratio, paired.difference), (endless, endless));
        // Nothing over nothing is even; something over nothing is not.
        assert_eq!((ratio(0.0, 0.0), ratio(0.0, 3.0), ratio(2.0, 3.0)), (1.0, endless, 1.5));
        let even = super::paired(&[(0.0, 0.0), (0.0, 0.0), (0.0, 3.0)]).unwrap();
        assert_eq!((even.pairs, even.ratio), (3, 1.0));
        // The first never ends, the second does: there is no ratio, but it is said.
        let saved = super::paired(&[(endless, 1.0), (endless, 2.0)]).unwrap();
        assert!(saved.ratio.is_nan() && (saved.pairs, saved.first_never) == (0, 2));
        assert_eq!(super::paired(&[(endless, endless)]), None);
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
    }
}
