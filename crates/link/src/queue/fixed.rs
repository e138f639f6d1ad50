//! Probabilities and averages of disciplines as integers, so that every machine decides alike.

use crate::Dice;

/// The bits after the point.
pub(crate) const BITS: u32 = 60;

/// One: probabilities are from zero to this.
pub(crate) const ONE: u64 = 1 << BITS;

/// `number / of` as a fraction, at most one.
pub(crate) const fn ratio(number: u64, of: u64) -> u64 {
    if number >= of { ONE } else { (((number as u128) << BITS) / of as u128) as u64 }
}

/// A share from a description, between zero and one.
pub(crate) fn from_share(share: f64) -> u64 {
    // A power of two: exact until the cast, which cuts off and saturates.
    ((share * ONE as f64) as u64).min(ONE)
}

/// For records.
pub(crate) fn to_share(fraction: u64) -> f64 {
    fraction as f64 / ONE as f64
}

/// The product of a number and a fraction, rounded down; a fraction if both are.
pub(crate) const fn times(number: u64, fraction: u64) -> u64 {
    ((number as u128 * fraction as u128) >> BITS) as u64
}

/// A fraction to a whole power, by squaring.
pub(crate) const fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = ONE;
    while exponent > 0 && result > 0 {
        if exponent & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    result
}

/// `exp(-numerator / denominator)`: its series after the argument has been halved to below one, and squared again.
pub(crate) const fn exp_minus(numerator: u64, denominator: u64) -> u64 {
    // exp(-42) is below the last bit.
    let whole = match numerator.checked_div(denominator) {
        Some(whole) if whole < 42 => whole,
        _ => return 0,
    };
    let halvings = 64 - whole.leading_zeros();
    let argument = ((((numerator as u128) << BITS) / denominator as u128) >> halvings) as u64;
    let (mut sum, mut term, mut n) = (ONE as i128, ONE, 1u64);
    while term > 0 {
        term = times(term, argument) / n;
        sum += if n % 2 == 1 { -(term as i128) } else { term as i128 };
        n += 1;
    }
    power(sum as u64, 1 << halvings)
}

/// Whether something of this probability happens. Draws a number.
pub(crate) fn happens(dice: &mut Dice, probability: u64) -> bool {
    dice.bits() >> (64 - BITS) < probability
}

#[cfg(test)]
mod tests {
    use thalweg_units::math;

    use super::*;
    use crate::Streams;

    #[test]
    fn powers_and_exponentials_are_close_to_those_of_floats() {
        for (numerator, denominator) in [(0, 1), (1, 1000), (1, 3), (1, 1), (3, 2), (5, 1), (20, 1), (41, 1)] {
            let exact = math::exp(-(numerator as f64) / denominator as f64);
            let found = to_share(exp_minus(numerator, denominator));
            assert!((found - exact).abs() < 1e-15 + exact * 1e-12, "{numerator}/{denominator}: {found} {exact}");
        }
        assert_eq!((exp_minus(1, 0), exp_minus(u64::MAX, 1)), (0, 0));
        let found = to_share(power(from_share(0.998), 100));
        assert!((found - math::pow(0.998, 100.0)).abs() < 1e-15);
        assert_eq!(power(ONE, u64::MAX), ONE);
    }

    #[test]
    fn things_happen_as_often_as_they_are_probable() {
        let mut dice = Streams::new(5).dice("p");
        let mut count = |probability| (0..100_000).filter(|_| happens(&mut dice, probability)).count();
        assert_eq!((count(0), count(ONE)), (0, 100_000));
        // Five deviations on either side: √(100,000 × 0.03 × 0.97) = 54.
        assert!((2_730..3_270).contains(&count(ratio(3, 100))));
        assert_eq!(ratio(7, 7), ONE);
    }
}
