//! 95 % intervals of statistics over runs, with one value per run: order statistics for quantiles, Student's t
//! corrected for skewness for means.
//!
//! Quantiles make no assumption about the distribution. The number of values below the true quantile q of share p is
//! binomial, so that q lies between the r-th and the s-th smallest value with the probability that a binomial variable
//! (n, p) is at least r and less than s (David and Nagaraja, *Order Statistics*, section 7.1). Values that are equal
//! make it more.
//!
//! The mean has Student's interval, widened where values are skewed by Hall's transformation (Hall 1992, *On the
//! removal of skewness by transformation*): both ends are the outer ones of the two. The mean of a heavy tail cannot be
//! had from few runs by any method; the tests beside this file say how often these intervals cover.

use serde::Serialize;
use thalweg_units::math;

use super::{Statistic, deviation, mean};

/// A range that holds the true value with 95 % confidence. An end that is infinite is open: so many runs do not bound
/// it.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end; open if infinite, which JSON writes as `null`.
    pub low: f64,
    /// Upper end; open if infinite, which JSON writes as `null`.
    pub high: f64,
}

impl Interval {
    /// From end to end; infinite if an end is open.
    pub fn width(&self) -> f64 {
        if self.low == self.high { 0.0 } else { self.high - self.low }
    }

    /// Whether a value lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Why a number has no interval.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// There is none for this statistic: it describes the runs that were made.
    Descriptive,
    /// So many runs are too few.
    Few(usize),
    /// One value carries most of the spread of so many runs: what others like it would add cannot be known.
    OneValue(usize),
    /// So many seeds gave one and the same result.
    Alike(usize),
}

impl core::fmt::Display for Missing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
        match self {
            Missing::Descriptive => f.write_str("the statistic describes the runs that were made and has no interval"),
            Missing::Few(count) => write!(f, "an interval cannot be estimated from {}", runs(*count)),
            Missing::OneValue(count) => {
                write!(f, "an interval cannot be estimated from {}: one value carries the spread", runs(*count))
            }
            Missing::Alike(count) => write!(f, "{count} seeds, 1 distinct result"),
        }
    }
}

/// How often a 95 % interval may miss.
pub(super) const MISSES: f64 = 0.05;

/// The fewest values that have an interval at all.
const FEWEST: usize = 3;

/// The fewest values of which the median has an interval: all lie on one side of it in less than 5 % of all cases.
pub const FEWEST_FOR_MEDIAN: usize = 6;

/// The fewest values of which the mean has an interval: below, the skewness cannot be told from chance.
pub const FEWEST_FOR_MEAN: usize = 10;

/// The share of the sum of squared deviations beyond which one value carries the spread.
///
/// Trades how often nothing is said against how often something false is: with 0.8 a set of ten values of an
/// exponential distribution is refused in 4 % of all cases, of a lognormal one with σ = 1 in 12 %.
const CARRIES: f64 = 0.8;

/// The interval of a statistic of the distribution that `sorted` is a sample of. Values ascend, one per run.
///
/// # Errors
/// Why there is none.
pub fn interval(sorted: &[f64], statistic: Statistic) -> Result<Interval, Missing> {
    match statistic {
        Statistic::Quantile(share) => quantile_interval(sorted, share),
        Statistic::Mean => mean_interval(sorted),
        Statistic::Spread => spread_interval(sorted),
        Statistic::Min | Statistic::Max | Statistic::Deviation => Err(Missing::Descriptive),
    }
}

/// Between order statistics, each end missing with at most 2.5 %. Where no value lies beyond an end so surely, but
/// beyond the largest (or smallest) with less than 5 % in all, that one is the end and the other end has what is left.
/// With still fewer values the end is open and the other has the 5 %.
///
/// Both ends exist from 6 values for the median, 29 for p90, 59 for p95 and 299 for p99.
fn quantile_interval(sorted: &[f64], share: f64) -> Result<Interval, Missing> {
    let count = sorted.len();
    if count < FEWEST {
        return Err(Missing::Few(count));
    }
    if share <= 0.0 || share >= 1.0 {
        return Err(Missing::Descriptive);
    }
    let (below, above) = ends(count, share);
    if below == 0 && above == 0 {
        return Err(Missing::Few(count));
    }
    let low = below.checked_sub(1).map_or(f64::NEG_INFINITY, |at| sorted[at]);
    let high = if above == 0 { f64::INFINITY } else { sorted[count - above] };
    Ok(Interval { low, high })
}

/// The fewest values that bound a quantile from both sides; none for a share of 0 or 1, which no number bounds, and
/// for one so near to them that more than a million would be needed.
pub fn fewest_for_quantile(share: f64) -> Option<usize> {
    let is_bounded = |count: &usize| {
        let (below, above) = ends(*count, share);
        below > 0 && above > 0
    };
    // The more values, the more ends are closed.
    let mut most = FEWEST;
    while !is_bounded(&most) {
        most = Some(2 * most).filter(|&next| next <= 1_000_000 && share > 0.0 && share < 1.0)?;
    }
    (most / 2..=most).find(is_bounded)
}

/// Ranks of the ends, the lower one counted from the smallest, the upper one from the largest value; 0 is an open end.
fn ends(count: usize, share: f64) -> (usize, usize) {
    let (below, above) = (rank(count, share, MISSES / 2.0), rank(count, 1.0 - share, MISSES / 2.0));
    if below > 0 && above > 0 {
        return (below, above);
    }
    // That all values lie below, or above, the quantile.
    let (all_below, all_above) = (power(share, count), power(1.0 - share, count));
    match (below, above) {
        // Neither end is nearer to hand than the other.
        _ if share == 0.5 => (0, 0),
        (_, 0) if all_below < MISSES && rank(count, share, MISSES - all_below) > 0 => {
            (rank(count, share, MISSES - all_below), 1)
        }
        (0, _) if all_above < MISSES && rank(count, 1.0 - share, MISSES - all_above) > 0 => {
            (1, rank(count, 1.0 - share, MISSES - all_above))
        }
        (_, 0) if share > 0.5 => (rank(count, share, MISSES), 0),
        _ => (0, rank(count, 1.0 - share, MISSES)),
    }
}

/// The largest r for which fewer than r of `count` values lie below the quantile with a probability of at most
/// `misses`; 0 if there is none.
pub(super) fn rank(count: usize, share: f64, misses: f64) -> usize {
    // Terms of the binomial distribution through their logarithms: the first of many is too small for a number.
    let odds = math::ln(share) - math::ln(1.0 - share);
    let mut term = count as f64 * math::ln(1.0 - share);
    let mut sum = 0.0;
    for below in 0..count {
        sum += math::exp(term);
        if sum > misses {
            return below;
        }
        term += math::ln((count - below) as f64 / (below + 1) as f64) + odds;
    }
    count
}

fn power(base: f64, exponent: usize) -> f64 {
    math::exp(exponent as f64 * math::ln(base))
}

/// Student's interval and Hall's: the outer ends of both.
fn mean_interval(values: &[f64]) -> Result<Interval, Missing> {
    let count = values.len();
    let mean = mean(values);
    if mean.is_infinite() && count >= FEWEST {
        // What never ended in one run has no finite mean over all.
        return Ok(Interval { low: mean, high: mean });
    }
    if count < FEWEST_FOR_MEAN {
        return Err(Missing::Few(count));
    }
    let n = count as f64;
    let deviations = || values.iter().map(|value| value - mean);
    let squares: f64 = deviations().map(|by| by * by).sum();
    if squares == 0.0 || squares.is_nan() {
        return Ok(Interval { low: mean, high: mean });
    }
    if deviations().any(|by| by * by > CARRIES * squares) {
        return Err(Missing::OneValue(count));
    }
    let second = squares / n;
    let third = deviations().map(|by| by * by * by).sum::<f64>() / n;
    // Adjusted for the size of the sample (Fisher and Pearson).
    let skewness = third / (second * math::sqrt(second)) * math::sqrt(n * (n - 1.0)) / (n - 2.0);
    let error = deviation(values) / math::sqrt(n);
    let t = student(count - 1);
    let (below, above) = (hall(t, skewness, n).max(t), hall(-t, skewness, n).min(-t));
    Ok(Interval { low: mean - below * error, high: mean - above * error })
}

/// What Hall's transformation makes `t`: the solution T of `T + a·T² + a²·T³/3 + γ/(6·√n) = t` with `a = γ/(3·√n)`.
fn hall(t: f64, skewness: f64, n: f64) -> f64 {
    let a = skewness / (3.0 * math::sqrt(n));
    let y = t - a / 2.0;
    if a.abs() < 1e-9 { y } else { (math::cbrt(1.0 + 3.0 * a * y) - 1.0) / a }
}

/// The 97.5th percentile of Student's t distribution (Abramowitz and Stegun 26.7.5), right to four decimals from 9
/// degrees of freedom.
fn student(freedom: usize) -> f64 {
    const Z: f64 = super::Z;
    const Z2: f64 = Z * Z;
    let n = freedom as f64;
    let first = Z * (Z2 + 1.0) / 4.0;
    let second = Z * ((5.0 * Z2 + 16.0) * Z2 + 3.0) / 96.0;
    let third = Z * (((3.0 * Z2 + 19.0) * Z2 + 17.0) * Z2 - 15.0) / 384.0;
    let fourth = Z * ((((79.0 * Z2 + 776.0) * Z2 + 1482.0) * Z2 - 1920.0) * Z2 - 945.0) / 92_160.0;
    Z + (first + (second + (third + fourth / n) / n) / n) / n
}

/// Of (p95 − p5) / p50, from one-sided bounds of the three quantiles that hold together (Bonferroni). The upper end is
/// open below 94 values, and unless the median is surely positive.
fn spread_interval(sorted: &[f64]) -> Result<Interval, Missing> {
    let count = sorted.len();
    // With a bound from below and from above there are six to hold, otherwise three.
    let bounds = |misses: f64| {
        let least = |share: f64| rank(count, share, misses).checked_sub(1).map(|at| sorted[at]);
        let most = |share: f64| match rank(count, 1.0 - share, misses) {
            0 => None,
            above => Some(sorted[count - above]),
        };
        let low = match (least(0.95), most(0.05), most(0.5)) {
            (Some(high), Some(low), Some(median)) if median > 0.0 => Some(((high - low) / median).max(0.0)),
            _ => None,
        };
        let high = match (most(0.95), least(0.05), least(0.5)) {
            (Some(high), Some(low), Some(median)) if median > 0.0 => Some((high - low) / median),
            _ => None,
        };
        (low, high)
    };
    if count < FEWEST {
        return Err(Missing::Few(count));
    }
    match (bounds(MISSES / 6.0), bounds(MISSES / 3.0).0) {
        ((Some(low), Some(high)), _) if low.is_finite() => Ok(Interval { low, high }),
        (_, Some(low)) if low.is_finite() => Ok(Interval { low, high: f64::INFINITY }),
        _ => Err(Missing::Few(count)),
    }
}

/// How many results can be told apart: a value is a new one if it lies more than `tolerance` above the smallest of
/// those it would be counted with. What differs by a billionth never counts as two.
pub fn distinct(sorted: &[f64], tolerance: f64) -> usize {
    let mut count = 0;
    let mut first = f64::NAN;
    for value in sorted {
        let alike = *value == first || value - first <= tolerance.max(1e-9 * first.abs());
        if count == 0 || !alike {
            count += 1;
            first = *value;
        }
    }
    count
}

#[cfg(test)]
mod tests;
