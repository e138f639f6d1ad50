//! Ratios of a statistic of one choice to that of another, both measured on the same seeds.
//!
//! The ratio of the means is not the mean of the ratios. Of two ways that draw from one and the same distribution the
//! mean of the ratios is above 1 (Jensen's inequality), and their 90th percentile far above 1, whichever of the two is
//! the base. So the statistic is taken of each side, and then the ratio. Only for the median is the median of the
//! ratios as good: of two equal ways it is 1.

use thalweg_units::math;

use super::interval::{self, Interval, Missing, interval};
use super::{Statistic, ratio};

/// What the second of two ways comes to over the first.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioOf {
    /// The ratio of the statistics; over several places the geometric mean of these.
    pub value: f64,
    /// The interval of it, or why there is none.
    pub interval: Result<Interval, Missing>,
    /// Whether the two differ beyond chance: the interval leaves out 1. Where there is a ratio to nothing, and so no
    /// interval, that the difference leaves out 0.
    pub differs: bool,
}

/// The ratio of a statistic over seeds. `places` has the values `(first, second)` of each seed in each place, for every
/// place the same number of seeds in the same order, all finite or infinite. None where a ratio to nothing, or of
/// nothing, makes a mean over several places meaningless, and where nothing is known.
///
/// Means have the interval of the logarithm of their ratio, linear in the values of each seed (the delta method), by
/// the method of a mean. Quantiles have the ratios at which the quantile of both sides together parts the values of
/// either side alike, by the sign test on the seeds on which it does not (for the median of one place, McNemar's test).
pub fn ratio_of(places: &[Vec<(f64, f64)>], statistic: Statistic) -> Option<RatioOf> {
    let of = |side: fn(&(f64, f64)) -> f64, pairs: &[(f64, f64)]| {
        statistic.of(&pairs.iter().map(side).collect::<Vec<f64>>())
    };
    let sides: Vec<(f64, f64)> =
        places.iter().map(|pairs| (of(|pair| pair.0, pairs), of(|pair| pair.1, pairs))).collect();
    let ratios: Vec<f64> = sides.iter().map(|(first, second)| ratio(*first, *second)).collect();
    if ratios.is_empty() || ratios.iter().any(|ratio| ratio.is_nan()) {
        return None;
    }
    if ratios.iter().all(|ratio| *ratio > 0.0 && ratio.is_finite()) {
        let value = match ratios.as_slice() {
            [only] => *only,
            many => math::exp(many.iter().map(|ratio| math::ln(*ratio)).sum::<f64>() / many.len() as f64),
        };
        let interval = match statistic {
            Statistic::Mean => of_means(places, &sides, value),
            Statistic::Quantile(share) if share > 0.0 && share < 1.0 => of_quantiles(places, &ratios, share, value),
            _ => Err(Missing::Descriptive),
        };
        let differs = interval.is_ok_and(|interval| !interval.contains(1.0));
        return Some(RatioOf { value, interval, differs });
    }
    let [pairs] = places else {
        // What never ends is endlessly worse; nothing else makes a ratio endless or nothing.
        let endless = sides.iter().any(|(_, second)| second.is_infinite()) && ratios.iter().all(|ratio| *ratio > 0.0);
        let value = f64::INFINITY;
        return endless.then_some(RatioOf { value, interval: Err(Missing::Few(0)), differs: false });
    };
    let (differs, interval) = match statistic {
        Statistic::Mean => {
            let mut differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
            differences.sort_unstable_by(f64::total_cmp);
            let interval = interval(&differences, Statistic::Mean);
            // A mean that one endless value decides differs by that value.
            (interval.is_ok_and(|it| it.low.is_finite() && it.high.is_finite() && !it.contains(0.0)), interval)
        }
        Statistic::Quantile(share) => (parts_differ(places, &[1.0], share), Err(Missing::Few(pairs.len()))),
        _ => (false, Err(Missing::Descriptive)),
    };
    let missing = interval.err().unwrap_or(Missing::Few(pairs.len()));
    Some(RatioOf { value: ratios[0], interval: Err(missing), differs })
}

/// The interval of a ratio of means.
fn of_means(places: &[Vec<(f64, f64)>], means: &[(f64, f64)], value: f64) -> Result<Interval, Missing> {
    let seeds = places.iter().map(Vec::len).min().unwrap_or(0);
    let count = places.len() as f64;
    let of_seed = |seed: usize| {
        let parts = places.iter().zip(means).map(|(pairs, (first, second))| {
            let (one, other) = pairs[seed];
            other / second - one / first
        });
        math::ln(value) + parts.sum::<f64>() / count
    };
    let mut values: Vec<f64> = (0..seeds).map(of_seed).collect();
    values.sort_unstable_by(f64::total_cmp);
    let of_logarithm = interval(&values, Statistic::Mean)?;
    Ok(Interval { low: math::exp(of_logarithm.low), high: math::exp(of_logarithm.high) })
}

/// The interval of a ratio of quantiles: how far the second side can be scaled until the two part too unevenly.
fn of_quantiles(places: &[Vec<(f64, f64)>], ratios: &[f64], share: f64, value: f64) -> Result<Interval, Missing> {
    /// How often an end is halved: to a millionth.
    const HALVES: usize = 20;
    /// Beyond this power of two nothing is looked for.
    const FARTHEST: f64 = 20.0;
    let at = |shift: f64| math::exp(shift * core::f64::consts::LN_2);
    let rejected = |shift: f64| {
        let scaled: Vec<f64> = ratios.iter().map(|ratio| ratio * at(shift)).collect();
        parts_differ(places, &scaled, share)
    };
    let end = |sign: f64| {
        let (mut near, mut far) = (0.0, 1.0 / 64.0);
        while !rejected(sign * far) {
            (near, far) = (far, far * 2.0);
            if far > FARTHEST {
                return None;
            }
        }
        for _ in 0..HALVES {
            let middle = (near + far) / 2.0;
            *(if rejected(sign * middle) { &mut far } else { &mut near }) = middle;
        }
        Some(value * at(sign * far))
    };
    match (end(-1.0), end(1.0)) {
        (None, None) => Err(Missing::Few(places.iter().map(Vec::len).min().unwrap_or(0))),
        (low, high) => Ok(Interval { low: low.unwrap_or(f64::NEG_INFINITY), high: high.unwrap_or(f64::INFINITY) }),
    }
}

/// Whether the quantile of both sides together, the second divided by a ratio for each place, lies beyond chance
/// elsewhere in one side than in the other.
fn parts_differ(places: &[Vec<(f64, f64)>], ratios: &[f64], share: f64) -> bool {
    let seeds = places.iter().map(Vec::len).min().unwrap_or(0);
    let mut more = vec![0i64; seeds];
    for (pairs, ratio) in places.iter().zip(ratios) {
        let both = pairs.iter().flat_map(|(first, second)| [*first, second / ratio]);
        let parted = Statistic::Quantile(share).of(&both.collect::<Vec<f64>>());
        for (more, (first, second)) in more.iter_mut().zip(pairs) {
            *more += i64::from(second / ratio > parted) - i64::from(*first > parted);
        }
    }
    let (above, below) = (more.iter().filter(|more| **more > 0).count(), more.iter().filter(|more| **more < 0).count());
    above.min(below) < interval::rank(above + below, 0.5, interval::MISSES / 2.0)
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn chance(dice: &mut Pcg64) -> f64 {
        ((dice.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Lognormal with median 1.
    fn spread(dice: &mut Pcg64, sigma: f64) -> f64 {
        let normal = math::sqrt(-2.0 * math::ln(chance(dice))) * math::cos(2.0 * core::f64::consts::PI * chance(dice));
        math::exp(sigma * normal)
    }

    /// So many places and seeds, in which the second side is this many times the first but for chance of its own, which
    /// is as large as the chance that both sides share.
    fn drawn(dice: &mut Pcg64, places: usize, seeds: usize, ratio: f64) -> Vec<Vec<(f64, f64)>> {
        let mut pair = |scale: f64| {
            let shared = spread(dice, 0.3);
            (scale * shared * spread(dice, 0.3), scale * ratio * shared * spread(dice, 0.3))
        };
        (1..=places).map(|place| (0..seeds).map(|_| pair(place as f64)).collect()).collect()
    }

    #[test]
    fn intervals_of_ratios_cover_them() {
        const TRIALS: usize = 1_000;
        let mut dice = Pcg64::seed_from_u64(1);
        for (statistic, seeds) in [
            (Statistic::Mean, 10),
            (Statistic::Mean, 30),
            (Statistic::Quantile(0.9), 30),
            (Statistic::Quantile(0.95), 60),
        ] {
            for (places, ratio) in [(1, 1.0), (1, 0.5), (4, 1.0), (4, 3.0)] {
                let (mut covered, mut printed, mut width) = (0, 0, 0.0);
                for _ in 0..TRIALS {
                    let it = ratio_of(&drawn(&mut dice, places, seeds, ratio), statistic).unwrap();
                    let Ok(interval) = it.interval else { continue };
                    assert!(interval.contains(it.value), "{it:?}");
                    printed += 1;
                    covered += usize::from(interval.contains(ratio));
                    width += interval.width().min(9.0) / ratio;
                }
                let share = f64::from(covered as u32) / f64::from(printed as u32);
                println!("{statistic} n = {seeds}, {places} places, × {ratio}: {share:.3}, width {:.2}", width / 1e3);
                assert!(printed > TRIALS / 2 && share >= 0.92, "{statistic} {seeds} {places} {ratio}: {share}");
            }
        }
    }

    #[test]
    fn two_ways_that_are_alike_are_not_told_apart_whichever_is_the_base() {
        let mut dice = Pcg64::seed_from_u64(2);
        let p90 = Statistic::Quantile(0.9);
        let (mut differ, mut of_ratios) = (0, 0);
        for _ in 0..400 {
            let places = drawn(&mut dice, 1, 30, 1.0);
            differ += usize::from(ratio_of(&places, p90).unwrap().differs);
            let mut ratios: Vec<f64> = places[0].iter().map(|(first, second)| second / first).collect();
            ratios.sort_unstable_by(f64::total_cmp);
            of_ratios += usize::from(!interval(&ratios, p90).unwrap().contains(1.0));
        }
        assert!(differ <= 28, "{differ} of 400");
        assert!(of_ratios > 300, "the p90 of the ratios tells apart what is alike: {of_ratios} of 400");
    }

    #[test]
    fn the_ratio_is_that_of_the_statistics() {
        // On most seeds the second is a tenth quicker, on the worst three times as slow.
        let pairs: Vec<(f64, f64)> = (0..40u32)
            .map(|seed| {
                let first = 1.0 + f64::from(seed % 7) / 100.0;
                (first, first * if seed % 5 == 0 { 3.0 } else { 0.9 })
            })
            .collect();
        let places = [pairs];
        let of = |statistic| ratio_of(&places, statistic).unwrap();
        assert!((of(Statistic::Mean).value - 1.32).abs() < 0.02, "{:?}", of(Statistic::Mean));
        let p90 = of(Statistic::Quantile(0.9));
        assert!(p90.value > 2.8 && p90.differs, "{p90:?}");
        let max = of(Statistic::Max);
        assert!(max.value > 2.8 && !max.differs && max.interval == Err(Missing::Descriptive), "{max:?}");
    }

    #[test]
    fn a_ratio_to_nothing_has_no_mean_over_places() {
        let none = vec![(0.0, 0.0); 12];
        let gone = vec![(1.0, 0.0); 12];
        let same = vec![(2.0, 2.0); 12];
        assert_eq!(ratio_of(std::slice::from_ref(&none), Statistic::Mean).unwrap().value, 1.0);
        let saved = ratio_of(std::slice::from_ref(&gone), Statistic::Mean).unwrap();
        assert_eq!((saved.value, saved.differs), (0.0, true));
        assert_eq!(ratio_of(&[gone, same.clone()], Statistic::Mean), None);
        assert_eq!(ratio_of(&[none, same], Statistic::Mean).unwrap().value, 1.0);
        assert_eq!(ratio_of(&[], Statistic::Mean), None);
        // One endless value of many proves nothing about a mean.
        let mut once = vec![(1.0, 1.0); 12];
        once[3].1 = f64::INFINITY;
        let once = ratio_of(&[once], Statistic::Mean).unwrap();
        assert_eq!((once.value, once.differs), (f64::INFINITY, false));
    }
}
