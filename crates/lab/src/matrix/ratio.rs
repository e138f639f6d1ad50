//! One choice against another on the same seeds: in one place, and over all places together.
//!
//! What is compared is the statistic that the matrix shows. The median over seeds is compared seed by seed: the ratio
//! is the median of their ratios. Of any other statistic over seeds it is the ratio of both sides' statistics, as
//! [`stats::ratio_of`] says.

use serde::Serialize;
use thalweg_units::math;

use super::Side;
use crate::metric::{Better, Metric};
use crate::stats::{self, Estimate, Interval, Missing, Statistic};
use crate::summary;

/// A ratio to the reference on the same seeds.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the ratios of each seed, or the ratio of another statistic over seeds.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// Whether the choice differs beyond what chance explains, and if so whether it is better.
    pub better: Option<bool>,
    /// On how many seeds both were run.
    pub pairs: usize,
}

impl Ratio {
    fn new(metric: &Metric, value: f64, interval: Option<Interval>, differs: bool, pairs: usize) -> Ratio {
        let judges = metric.better != Better::Neither && value != 1.0;
        let better = (differs && judges).then(|| metric.is_better(value, 1.0));
        Ratio { value, interval, better, pairs }
    }
}

/// Two sides in one place.
struct Both {
    /// The metric of each run, on the seeds that both have.
    pairs: Vec<(f64, f64)>,
    /// How close two values are one result.
    tolerance: f64,
    /// The statistic over seeds.
    over: Statistic,
}

impl Both {
    fn new<'a>(base: Side<'a>, other: Side<'a>, subject: &'a str, (metric, statistic): (&Metric, Statistic)) -> Both {
        let of = |side: Side<'a>| (side.scenario, (side.runs, side.point, subject));
        let (pairs, tolerance, over) = summary::on_same_seeds(of(base), of(other), metric, statistic);
        Both { pairs, tolerance, over }
    }

    /// From which share of the base on results differ.
    fn least(&self) -> f64 {
        let sizes = self.pairs.iter().map(|(first, _)| first.abs()).filter(|size| size.is_finite());
        let largest = sizes.fold(0.0, f64::max);
        if largest > 0.0 { self.tolerance / largest } else { 0.0 }
    }

    /// Whether every seed gave one and the same result, on either side.
    fn is_steady(&self) -> bool {
        let is_one = |side: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = self.pairs.iter().map(side).collect();
            values.sort_unstable_by(f64::total_cmp);
            stats::distinct(&values, self.tolerance) == 1
        };
        self.pairs.len() >= stats::FEWEST_FOR_MEDIAN && is_one(|pair| pair.0) && is_one(|pair| pair.1)
    }
}

/// A side against its base.
pub(super) fn ratio(base: Side<'_>, other: Side<'_>, subject: &str, measured: (&Metric, Statistic)) -> Option<Ratio> {
    let both = Both::new(base, other, subject, measured);
    let metric = measured.0;
    if both.over != Statistic::MEDIAN {
        return of_statistics(metric, vec![both]);
    }
    let Both { pairs, tolerance, .. } = both;
    let paired = stats::paired(&pairs, tolerance)?;
    // Where one side never came to an end, that the other did is beyond doubt.
    let rescued = pairs.iter().filter(|(first, second)| first.is_infinite() && second.is_finite()).count();
    let lost = pairs.iter().filter(|(first, second)| first.is_finite() && second.is_infinite()).count();
    // Seeds that change nothing leave nothing to chance: what differs, differs.
    let steady = paired.missing == Some(Missing::Alike(paired.pairs)) && paired.difference.abs() > tolerance;
    let differs = paired.ratio_interval.is_some_and(|interval| !interval.contains(1.0))
        || steady && paired.pairs >= stats::FEWEST_FOR_MEDIAN
        || paired.pairs >= 3 && (paired.pairs == rescued || paired.pairs == lost);
    Some(Ratio::new(metric, paired.ratio, paired.ratio_interval, differs, paired.pairs))
}

/// One choice against another over all places in which both are run: the geometric mean of the ratios of each seed,
/// then the median over seeds; of another statistic than the median, the geometric mean of its ratios. None where a
/// ratio to nothing makes such a mean meaningless.
pub(super) fn between<'a>(
    places: usize,
    side: &dyn Fn(usize, usize) -> Option<Side<'a>>,
    (one, other): (usize, usize),
    subject: &str,
    measured: (&Metric, Statistic),
) -> Option<Ratio> {
    let metric = measured.0;
    let both = (0..places).filter_map(|place| Some((side(place, one)?, side(place, other)?)));
    let both = both.map(|(base, other)| Both::new(base, other, subject, measured));
    // Where neither ever came to an end there is nothing to compare.
    let by_place: Vec<Both> = both.filter(|both| both.pairs.iter().any(stats::can_compare)).collect();
    if by_place.iter().any(|both| both.over != Statistic::MEDIAN) {
        return of_statistics(metric, by_place);
    }
    let seeds = by_place.iter().map(|both| both.pairs.len()).min().filter(|seeds| *seeds > 0)?;
    let of_seed = |seed: usize| {
        let logs = by_place.iter().map(|both| {
            let (first, second) = both.pairs[seed];
            let ratio = stats::ratio(first, second);
            // What never ends is endlessly worse; nothing else makes a ratio endless or nothing.
            let means = ratio > 0.0 && (ratio.is_finite() || second.is_infinite());
            if means { math::ln(ratio) } else { f64::NAN }
        });
        math::exp(logs.sum::<f64>() / by_place.len() as f64)
    };
    let ratios: Vec<f64> = (0..seeds).map(of_seed).collect();
    if ratios.iter().any(|ratio| ratio.is_nan()) {
        return None;
    }
    let estimate = Estimate::of(&ratios, Statistic::MEDIAN, 0.0);
    // Seeds that change nothing leave nothing to chance: what differs, differs.
    let steady = estimate.missing == Some(Missing::Alike(seeds)) && (estimate.value - 1.0).abs() > least(&by_place);
    let differs = estimate.interval.is_some_and(|interval| !interval.contains(1.0))
        || steady && seeds >= stats::FEWEST_FOR_MEDIAN;
    Some(Ratio::new(metric, estimate.value, estimate.interval, differs, seeds))
}

/// From which share on the results of several places differ together.
fn least(by_place: &[Both]) -> f64 {
    by_place.iter().map(Both::least).sum::<f64>() / by_place.len() as f64
}

/// The ratio of a statistic over seeds, over all of these places together.
fn of_statistics(metric: &Metric, by_place: Vec<Both>) -> Option<Ratio> {
    let over = by_place.first()?.over;
    let seeds = by_place.iter().map(|both| both.pairs.len()).min()?;
    // A seed without a value in one place says nothing about all of them.
    let known: Vec<usize> =
        (0..seeds).filter(|seed| by_place.iter().all(|both| stats::can_compare(&both.pairs[*seed]))).collect();
    if known.is_empty() {
        return None;
    }
    let places: Vec<Vec<(f64, f64)>> =
        by_place.iter().map(|both| known.iter().map(|seed| both.pairs[*seed]).collect()).collect();
    let found = stats::ratio_of(&places, over)?;
    // Seeds that change nothing leave nothing to chance: what differs, differs.
    let is_steady = by_place.iter().all(Both::is_steady);
    let steady = is_steady && (found.value - 1.0).abs() > least(&by_place);
    let interval = found.interval.ok().filter(|_| !is_steady);
    // Where every seed of one side never came to an end, and of the other all did.
    let all = |is: fn(&(f64, f64)) -> bool| known.len() >= 3 && places.iter().flatten().all(is);
    let beyond_doubt = all(|(first, second)| first.is_infinite() && second.is_finite())
        || all(|(first, second)| first.is_finite() && second.is_infinite());
    let differs = if is_steady { steady } else { found.differs || beyond_doubt };
    Some(Ratio::new(metric, found.value, interval, differs, known.len()))
}
