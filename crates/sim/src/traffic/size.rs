//! Random numbers of bytes.

use thalweg_link::{Dice, Spread};
use thalweg_units::{Duration, DurationExt};

/// A random number of bytes.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Size {
    /// Always this.
    Fixed(u64),
    /// Uniform between the two, both included.
    Uniform(u64, u64),
    /// `median × exp(sigma × N(0, 1))`.
    LogNormal {
        /// Half of the draws are below.
        median: u64,
        /// Deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto from zero (Lomax).
    Pareto {
        /// Scale.
        scale: u64,
        /// Tail exponent.
        shape: f64,
    },
}

impl Size {
    /// Draws a size.
    pub fn draw(&self, dice: &mut Dice) -> u64 {
        // The distributions are those of times, in nanoseconds for bytes.
        let span = Duration::from_nanos;
        let spread = match *self {
            Size::Fixed(size) => return size,
            Size::Uniform(low, high) => Spread::Uniform(span(low), span(high)),
            Size::LogNormal { median, sigma } => Spread::LogNormal { median: span(median), sigma },
            Size::Pareto { scale, shape } => Spread::Pareto { scale: span(scale), shape },
        };
        spread.draw(dice).nanos()
    }

    /// A size that stands for all that are drawn: the only one, or one near the median.
    pub fn typical(&self) -> u64 {
        match *self {
            Size::Fixed(size) => size,
            Size::Uniform(low, high) => low.midpoint(high),
            Size::LogNormal { median, .. } => median,
            Size::Pareto { scale, .. } => scale,
        }
    }
}
