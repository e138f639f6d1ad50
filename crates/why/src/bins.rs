//! Distributions in logarithmic bins: bounded memory for any number of values.

use thalweg_units::math;

/// Bins per e-fold: one is 1 % wide.
const PER_E: f64 = 100.0;
/// So many bins above and below one.
const HALF: i64 = 3000;

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
