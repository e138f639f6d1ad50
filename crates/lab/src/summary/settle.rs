//! The number of seeds that would settle a verdict: an estimate from how far the interval reaches beyond the bound.

use crate::scenario::Expectation;
use crate::stats::{Estimate, FEWEST_FOR_MEAN, Interval, Missing, Statistic, fewest_for_quantile};

/// More seeds than this settle nothing that anybody would wait for: the value is at its bound.
const MOST: f64 = 100_000.0;

/// About how many seeds would settle a verdict on what was found: so many that the interval ends at the bound, if the
/// value stays what it is and the interval shrinks with the root of their number. None where no number of seeds would,
/// because the value is at the bound, and where nothing is known about the spread.
pub(super) fn seeds(expectation: &Expectation, found: &Estimate) -> Option<u64> {
    let interval = match (found.interval, found.missing) {
        (Some(interval), _) => interval,
        (None, Some(Missing::Few(_))) => return fewest(expectation.statistic),
        (None, _) => return None,
    };
    let bounds = [expectation.at_least.map(|least| (least, false)), expectation.at_most.map(|most| (most, true))];
    let wanted = bounds.into_iter().flatten().filter_map(|(bound, is_most)| {
        let reach = beyond(interval, found.value, bound, is_most)?;
        if reach.is_infinite() {
            return fewest(expectation.statistic).map(|count| count as f64);
        }
        let gap = (found.value - bound).abs();
        Some(found.runs as f64 * (reach / gap) * (reach / gap))
    });
    let wanted = wanted.fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))))?;
    (wanted <= MOST).then(|| rounded_up(wanted.max(found.runs as f64 + 1.0)))
}

/// How far the interval reaches from the value across a bound; none if it does not.
fn beyond(Interval { low, high }: Interval, value: f64, bound: f64, is_most: bool) -> Option<f64> {
    let holds = if is_most { value <= bound } else { value >= bound };
    match (is_most, holds) {
        (true, true) => (high > bound).then_some(high - value),
        (true, false) => (low <= bound).then_some(value - low),
        (false, true) => (low < bound).then_some(value - low),
        (false, false) => (high >= bound).then_some(high - value),
    }
}

/// The fewest runs that bound a statistic from both sides; none where no number does.
fn fewest(statistic: Statistic) -> Option<u64> {
    match statistic {
        Statistic::Quantile(share) => fewest_for_quantile(share).map(|count| count as u64),
        _ => Some(FEWEST_FOR_MEAN as u64),
    }
}

/// To two digits: it is an estimate.
fn rounded_up(count: f64) -> u64 {
    let count = count.ceil() as u64;
    let mut step = 1;
    while count / step >= 100 {
        step *= 10;
    }
    count.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_of_a_quantile_are_those_that_bound_both_of_its_ends() {
        let of = |share| fewest(Statistic::Quantile(share));
        assert_eq!([0.5, 0.9, 0.95, 0.99, 0.05].map(of), [6, 29, 59, 299, 59].map(Some));
        assert_eq!((of(1.0), fewest(Statistic::Mean)), (None, Some(10)));
    }

    #[test]
    fn an_estimate_has_two_digits() {
        assert_eq!([7.2, 99.5, 123.0, 4_501.0].map(rounded_up), [8, 100, 130, 4_600]);
    }
}
