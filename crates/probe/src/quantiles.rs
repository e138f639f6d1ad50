//! The quantile of a list of times.

/// The `num / den` quantile of values, by the nearest rank; the values are put into another order. `None` of none.
pub(crate) fn of(values: &mut [i64], num: usize, den: usize) -> Option<i64> {
    let last = values.len().checked_sub(1)?;
    let rank = (values.len() * num).div_ceil(den.max(1)).saturating_sub(1).min(last);
    Some(*values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        assert_eq!(
            (of(&mut [3, 1, 2], 1, 2), of(&mut [3, 1, 2], 95, 100), of(&mut [], 1, 2)),
            (Some(2), Some(3), None)
        );
    }
}
