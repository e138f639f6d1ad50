//! Distributions in logarithmic bins: bounded memory for any number of values.

use thalweg_units::math;

/// Bins per e-fold: one is 1 % wide.
const PER_E: f64 = 100.0;
/// So many bins above and below one.
const HALF: i64 = 3000;

/// So many bytes at one rate tell it.
pub(crate) const ENOUGH_BYTES: f64 = 20_000.0;
/// Values within this ratio of one are near it.
const NEAR: core::ops::Range<f64> = 0.85..1.15;

/// How often values fell into bins that are 1 % wide; by weight. From 1e-13 to 1e13.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    weights: Vec<f64>,
}

impl Bins {
    pub(crate) fn add(&mut self, value: f64, weight: f64) {
        if value > 0.0 && value.is_finite() {
            if self.weights.is_empty() {
                self.weights = vec![0.0; 2 * HALF as usize + 1];
            }
            let bin = (math::ln(value) * PER_E).round() as i64;
            self.weights[(bin.clamp(-HALF, HALF) + HALF) as usize] += weight;
        }
    }

    fn value(bin: usize) -> f64 {
        math::exp((bin as i64 - HALF) as f64 / PER_E)
    }

    pub(crate) fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The value that this share of the weight does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        let mut sum = 0.0;
        self.iter().find_map(|(value, weight)| {
            sum += weight;
            (sum >= total * share).then_some(value)
        })
    }

    /// The same, if more than half of the weight is near it, and more than `least` in all.
    pub(crate) fn steady(&self, share: f64, least: f64) -> Option<f64> {
        let middle = self.quantile(share)?;
        let (near, total) = (self.weight_of(|value| NEAR.contains(&(value / middle))), self.total());
        (near > 0.5 * total && total > least).then_some(middle)
    }

    /// The weight of the values that are counted.
    pub(crate) fn weight_of(&self, is_counted: impl Fn(f64) -> bool) -> f64 {
        self.iter().filter(|(value, _)| is_counted(*value)).map(|(_, weight)| weight).sum()
    }

    /// Values and their weights, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let weights = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        weights.map(|(bin, weight)| (Self::value(bin), *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_values_are_near_is_steady() {
        let mut bins = Bins::default();
        for (value, weight) in [(10.0, 30.0), (11.0, 30.0), (50.0, 40.0)] {
            bins.add(value, weight);
        }
        assert!(bins.steady(0.5, 99.0).is_some_and(|value| (value / 11.0 - 1.0).abs() < 0.02));
        assert_eq!((bins.steady(0.5, 100.0), bins.steady(0.9, 0.0)), (None, None), "too little, and most is elsewhere");
        assert_eq!(bins.weight_of(|value| value < 20.0), 60.0);
    }

    #[test]
    fn a_quantile_is_right_to_a_percent() {
        let mut bins = Bins::default();
        assert_eq!(bins.quantile(0.5), None);
        for value in 1..=1000 {
            bins.add(f64::from(value), 1.0);
        }
        bins.add(f64::NAN, 1.0);
        bins.add(0.0, 1.0);
        let median = bins.quantile(0.5).unwrap();
        assert!((median / 500.0 - 1.0).abs() < 0.02, "{median}");
        assert_eq!(bins.total(), 1000.0);
    }
}
