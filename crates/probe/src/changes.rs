//! Changes of a path: from when on it is another one, faster or slower, longer or shorter.

use crate::quantiles;

/// More changes than this are none: the path varies.
const MOST: usize = 8;
/// So many values in a row make a change.
const LASTS: usize = 3;

/// Times at which a value changes and what it is from there on, the first included; of a value that does not change, or
/// does all the time, that one only. `apart` says how far from a value another has to be, for it to be a change. A
/// level is the median of its values.
pub(crate) fn steps(values: &[(i64, i64)], apart: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    let median = |from: usize, until: usize| {
        let mut of: Vec<i64> = values[from..until].iter().map(|(_, value)| *value).collect();
        quantiles::of(&mut of, 1, 2).unwrap_or(0)
    };
    let mut starts = vec![0];
    let mut at = 1;
    while at + LASTS <= values.len() {
        let from = starts.last().copied().unwrap_or(0);
        // The last minute of it: a level may drift.
        let level = median(from.max(at.saturating_sub(60)), at);
        let (next, limit) = (&values[at..at + LASTS], apart(level));
        let is_other = next.iter().all(|(_, value)| (value - level).abs() > limit);
        let is_steady = next.iter().all(|(_, value)| (value - next[LASTS - 1].1).abs() <= limit / 2);
        if is_other && is_steady {
            starts.push(at);
            at += LASTS;
        } else {
            at += 1;
        }
    }
    if starts.len() > MOST {
        starts.truncate(1);
    }
    let ends = starts.iter().skip(1).copied().chain([values.len()]);
    let level = |(from, until): (&usize, usize)| Some((values.get(*from)?.0, median(*from, until)));
    starts.iter().zip(ends).filter_map(level).collect()
}

/// Whether four of five values of every level are within the `limit` of it.
pub(crate) fn is_steady(values: &[(i64, i64)], steps: &[(i64, i64)], limit: impl Fn(i64) -> i64) -> bool {
    let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([i64::MAX]);
    steps.iter().zip(ends).all(|((from, level), until)| {
        let of = || values.iter().filter(|(at, _)| (*from..until).contains(at));
        let near = of().filter(|(_, value)| (value - level).abs() <= limit(*level)).count();
        near * 5 >= of().count() * 4
    })
}

/// The level at a time.
pub(crate) fn level(steps: &[(i64, i64)], at: i64) -> Option<i64> {
    let before = steps.partition_point(|(from, _)| *from <= at);
    steps.get(before.saturating_sub(1)).map(|(_, level)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(levels: &[(usize, i64)]) -> Vec<(i64, i64)> {
        let values = levels.iter().flat_map(|(count, level)| vec![*level; *count]);
        (0..).zip(values).collect()
    }

    #[test]
    fn a_level_that_lasts_is_a_change_and_an_outlier_is_none() {
        let found = |levels: &[(usize, i64)]| steps(&made(levels), |level| level / 10);
        assert_eq!(found(&[(20, 100)]), [(0, 100)]);
        assert_eq!(found(&[(20, 100), (10, 150), (30, 80)]), [(0, 100), (20, 150), (30, 80)]);
        assert_eq!(found(&[(20, 100), (2, 150), (30, 100)]), [(0, 100)]);
        assert_eq!(found(&[(20, 100), (10, 105)]), [(0, 100)]);
        assert_eq!(found(&[]), []);
        assert_eq!(level(&found(&[(20, 100), (10, 150)]), 25), Some(150));
        assert_eq!(level(&found(&[(20, 100), (10, 150)]), -5), Some(100));
    }

    #[test]
    fn a_level_with_noise_is_not_steady() {
        let even = made(&[(20, 100), (20, 150)]);
        let rough: Vec<(i64, i64)> = (0..40).map(|n| (n, 100 + n % 7 * 10)).collect();
        let found = |values: &[(i64, i64)]| is_steady(values, &steps(values, |level| level / 4), |level| level / 8);
        assert!(found(&even) && !found(&rough));
    }

    #[test]
    fn what_varies_all_the_time_does_not_change() {
        let levels: Vec<(usize, i64)> = (0..40).map(|n| (4, if n % 2 == 0 { 100 } else { 200 })).collect();
        assert_eq!(steps(&made(&levels), |level| level / 10).len(), 1);
    }
}
