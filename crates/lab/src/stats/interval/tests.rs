use core::f64::consts::PI;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// Numbers above 0 and below 1.
fn chance(dice: &mut Pcg64) -> f64 {
    ((dice.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(dice: &mut Pcg64) -> f64 {
    math::sqrt(-2.0 * math::ln(chance(dice))) * math::cos(2.0 * PI * chance(dice))
}

/// The distribution function of the normal distribution: Simpson's rule on its density.
fn below(x: f64) -> f64 {
    let density = |t: f64| math::exp(-t * t / 2.0) / math::sqrt(2.0 * PI);
    let steps = 400;
    let step = x / f64::from(steps);
    let inner = |at: i32| f64::from(2 + 2 * (at % 2)) * density(f64::from(at) * step);
    0.5 + step / 3.0 * (density(0.0) + density(x) + (1..steps).map(inner).sum::<f64>())
}

/// Where an increasing function is `wanted`.
fn solve(wanted: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (-20.0, 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        *(if function(middle) < wanted { &mut low } else { &mut high }) = middle;
    }
    low
}

/// A distribution: how to draw from it, its mean and its quantiles.
struct Distribution {
    name: &'static str,
    draw: fn(&mut Pcg64) -> f64,
    mean: f64,
    quantile: fn(f64) -> f64,
    /// The share of intervals of the mean that have to cover it.
    mean_covered: f64,
}

fn bell(share: f64) -> f64 {
    solve(share, below)
}

/// Nine of ten values around 10, one of ten around 15.
fn two_kinds(share: f64) -> f64 {
    10.0 + solve(share, |x| 0.9 * below(x) + 0.1 * below(x - 5.0))
}

const DISTRIBUTIONS: [Distribution; 6] = [
    Distribution {
        name: "normal",
        draw: |dice| 10.0 + normal(dice),
        mean: 10.0,
        quantile: |share| 10.0 + bell(share),
        mean_covered: 0.93,
    },
    Distribution { name: "uniform", draw: chance, mean: 0.5, quantile: |share| share, mean_covered: 0.93 },
    Distribution {
        name: "exponential",
        draw: |dice| -math::ln(chance(dice)),
        mean: 1.0,
        quantile: |share| -math::ln(1.0 - share),
        mean_covered: 0.93,
    },
    Distribution {
        name: "lognormal, sigma 0.5",
        draw: |dice| math::exp(0.5 * normal(dice)),
        mean: 1.133_148_453_066_826,
        quantile: |share| math::exp(0.5 * bell(share)),
        mean_covered: 0.93,
    },
    Distribution {
        name: "lognormal, sigma 1",
        draw: |dice| math::exp(normal(dice)),
        mean: 1.648_721_270_700_128,
        quantile: |share| math::exp(bell(share)),
        mean_covered: 0.88,
    },
    Distribution {
        name: "mixture of nine in ten and one in ten",
        draw: |dice| 10.0 + normal(dice) + if chance(dice) < 0.1 { 5.0 } else { 0.0 },
        mean: 10.5,
        quantile: two_kinds,
        mean_covered: 0.88,
    },
];

#[test]
fn intervals_that_are_printed_cover_what_they_are_about() {
    const TRIALS: usize = 2_000;
    let quantiles = [0.5, 0.9, 0.95, 0.99].map(Statistic::Quantile);
    let mut dice = Pcg64::seed_from_u64(1);
    let mut printed_at_all = 0;
    for Distribution { name, draw, mean, quantile, mean_covered } in DISTRIBUTIONS {
        let spread = (quantile(0.95) - quantile(0.05)) / quantile(0.5);
        let truths: Vec<(Statistic, f64, f64)> = quantiles
            .into_iter()
            .zip([0.5, 0.9, 0.95, 0.99].map(quantile))
            .map(|(statistic, truth)| (statistic, truth, 0.93))
            .chain([(Statistic::Mean, mean, mean_covered), (Statistic::Spread, spread, 0.93)])
            .collect();
        for count in [6, 10, 20, 30] {
            let mut tally = vec![(0, 0); truths.len()];
            for _ in 0..TRIALS {
                let mut values: Vec<f64> = (0..count).map(|_| draw(&mut dice)).collect();
                values.sort_unstable_by(f64::total_cmp);
                for ((statistic, truth, _), (printed, covered)) in truths.iter().zip(&mut tally) {
                    if let Ok(interval) = interval(&values, *statistic) {
                        *printed += 1;
                        *covered += usize::from(interval.contains(*truth));
                    }
                }
            }
            for ((statistic, _, least), (printed, covered)) in truths.iter().zip(tally) {
                let share = covered as f64 / f64::from(printed.max(1));
                println!("{name}, n = {count}, {statistic}: {printed} printed, {share:.3} cover");
                assert!(printed == 0 || share >= *least, "{name}, n = {count}, {statistic}: {share}");
                // Where there is an interval, there nearly always is one.
                let refuses = *statistic == Statistic::Mean && count < FEWEST_FOR_MEAN;
                assert!(refuses == (printed == 0) && (refuses || printed > TRIALS as i32 * 4 / 5), "{printed}");
                printed_at_all += usize::from(printed > 0);
            }
        }
    }
    assert_eq!(printed_at_all, 6 * (4 * 6 - 1));
}

#[test]
fn both_ends_exist_from_the_fewest_runs_that_have_them() {
    for (share, fewest) in [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299)] {
        let values = |count: usize| (0..count).map(|at| at as f64).collect::<Vec<_>>();
        let both = |count: usize| {
            quantile_interval(&values(count), share).is_ok_and(|it| it.low.is_finite() && it.high.is_finite())
        };
        assert!(both(fewest) && both(fewest + 1) && !both(fewest - 1), "p{}", share * 100.0);
    }
    // A median has both ends or none, a high quantile has a lower end before it has an upper one.
    assert_eq!(quantile_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.5), Err(Missing::Few(5)));
    let open = quantile_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9).unwrap();
    assert_eq!((open.low, open.high), (3.0, f64::INFINITY));
    let open = quantile_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.1).unwrap();
    assert_eq!((open.low, open.high), (f64::NEG_INFINITY, 3.0));
    for count in 0..3 {
        assert_eq!(quantile_interval(&[1.0, 2.0][..count], 0.9), Err(Missing::Few(count)));
    }
}

#[test]
fn ranks_are_those_of_the_tables() {
    // Conover, Practical Nonparametric Statistics, table A3 (binomial), and NIST's example of a median of 12 values.
    for (count, ranks) in [(6, (1, 6)), (10, (2, 9)), (12, (3, 10)), (20, (6, 15)), (30, (10, 21)), (100, (40, 61))] {
        let (below, above) = ends(count, 0.5);
        assert_eq!((below, count + 1 - above), ranks, "n = {count}");
    }
    // However many there are, terms neither vanish nor overflow.
    let (below, above) = ends(100_000, 0.5);
    assert!(below == above && (49_680..=49_700).contains(&below), "{below}");
}

#[test]
fn a_median_that_most_runs_never_reach_has_no_upper_end() {
    let endless = f64::INFINITY;
    let found = quantile_interval(&[1.0, 2.0, 3.0, 4.0, endless, endless, endless, endless], 0.5).unwrap();
    assert_eq!((found.low, found.high, found.width()), (1.0, endless, endless));
    let never = quantile_interval(&[endless; 8], 0.5).unwrap();
    assert_eq!((never.low, never.width()), (endless, 0.0));
    assert_eq!(mean_interval(&[1.0, 2.0, endless]), Ok(Interval { low: endless, high: endless }));
}

#[test]
fn students_quantiles_are_those_of_the_tables() {
    for (freedom, t) in [(9, 2.262_157), (19, 2.093_024), (29, 2.045_230), (120, 1.979_930)] {
        assert!((student(freedom) - t).abs() < 5e-5, "{freedom}: {}", student(freedom));
    }
}

#[test]
fn means_of_values_without_skew_have_students_interval() {
    let values: Vec<f64> = (0..11).map(f64::from).collect();
    let found = mean_interval(&values).unwrap();
    // 5 ± 2.228139 · √11 / √11.
    assert!((found.low - 2.771_861).abs() < 1e-4 && (found.high - 7.228_139).abs() < 1e-4, "{found:?}");
    assert_eq!(mean_interval(&values[..9]), Err(Missing::Few(9)));
}

#[test]
fn one_value_that_carries_the_spread_is_no_sample_of_it() {
    let mut values = vec![0.0; 29];
    values.push(30.0);
    assert_eq!(interval(&values, Statistic::Mean), Err(Missing::OneValue(30)));
    values[28] = 30.0;
    assert!(interval(&values, Statistic::Mean).is_ok());
    let message = Missing::OneValue(30).to_string();
    assert_eq!(message, "an interval cannot be estimated from 30 runs: one value carries the spread");
}

#[test]
fn what_describes_the_runs_has_no_interval() {
    for statistic in [Statistic::Min, Statistic::Max, Statistic::Deviation, Statistic::Quantile(1.0)] {
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], statistic), Err(Missing::Descriptive));
    }
}

#[test]
fn results_within_the_tolerance_are_one() {
    assert_eq!(distinct(&[], 0.1), 0);
    assert_eq!(distinct(&[4.8, 4.8004, 4.8009], 1e-3), 1);
    assert_eq!(distinct(&[4.8, 4.8004, 4.8009], 1e-4), 3);
    // A chain of small steps is not one result.
    let chain: Vec<f64> = (0..31).map(|at| 4.0 + f64::from(at) * 1e-3).collect();
    assert_eq!(distinct(&chain, 9.5e-3), 4);
    assert_eq!(distinct(&[0.0, 0.0, 1.0, f64::INFINITY, f64::INFINITY], 0.0), 3);
    assert_eq!(distinct(&[1e9, 1e9 + 0.5], 0.0), 1);
}
