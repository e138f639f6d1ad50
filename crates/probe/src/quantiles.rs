//! Quantiles of lists of times.

/// The `num / den` quantile of sorted values, by the nearest rank; `None` of none.
pub(crate) fn of_sorted(sorted: &[i64], num: usize, den: usize) -> Option<i64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (sorted.len() * num).div_ceil(den.max(1)).saturating_sub(1);
    sorted.get(rank.min(last)).copied()
}

/// The `num / den` quantile of values, which are put into another order.
pub(crate) fn of(values: &mut [i64], num: usize, den: usize) -> Option<i64> {
    let last = values.len().checked_sub(1)?;
    let rank = (values.len() * num).div_ceil(den.max(1)).saturating_sub(1).min(last);
    Some(*values.select_nth_unstable(rank).1)
}

/// Quantiles of times, in nanoseconds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Quantiles {
    /// How many values.
    pub count: usize,
    /// The least.
    pub min: i64,
    /// The median.
    pub p50: i64,
    /// Nine of ten are at most this.
    pub p90: i64,
    /// 95 %.
    pub p95: i64,
    /// 99 %.
    pub p99: i64,
    /// The greatest.
    pub max: i64,
}

impl Quantiles {
    /// The quantiles of these; `None` of none.
    pub fn of(mut values: Vec<i64>) -> Option<Quantiles> {
        values.sort_unstable();
        let at = |num| of_sorted(&values, num, 100);
        Some(Quantiles {
            count: values.len(),
            min: at(0)?,
            p50: at(50)?,
            p90: at(90)?,
            p95: at(95)?,
            p99: at(99)?,
            max: at(100)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let all = Quantiles::of((1..=100).rev().collect()).unwrap();
        assert_eq!((all.count, all.min, all.p50, all.p95, all.p99, all.max), (100, 1, 50, 95, 99, 100));
        assert_eq!(of(&mut [3, 1, 2], 1, 2), Some(2));
        assert_eq!((of(&mut [], 1, 2), Quantiles::of(Vec::new())), (None, None));
    }
}
