//! The only mathematics the deterministic crates may use: exact integers, and pure-Rust transcendental functions.
//!
//! The platform's maths library gives different last bits on different machines; the functions here do not. Whatever
//! decides when a packet leaves uses the integer ones; the floating-point ones are for distributions in the simulator
//! and for reports.

/// `a * b / c` in 128 bits, rounded down; `u64::MAX` when the result does not fit or `c` is zero.
pub const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    // The processor divides 64 bits by itself; 128 take a hundred instructions.
    if let Some(product) = a.checked_mul(b) {
        return product / c;
    }
    let quotient = a as u128 * b as u128 / c as u128;
    if quotient > u64::MAX as u128 { u64::MAX } else { quotient as u64 }
}

/// `a * b / c` in 128 bits, rounded up; `u64::MAX` when the result does not fit or `c` is zero.
pub const fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    if let Some(product) = a.checked_mul(b) {
        return product.div_ceil(c);
    }
    let quotient = (a as u128 * b as u128).div_ceil(c as u128);
    if quotient > u64::MAX as u128 { u64::MAX } else { quotient as u64 }
}

/// The exact integer cube root: the largest `r` with `r³ <= n`.
///
/// One bit of the root per step (43 steps at most), comparing by multiplication only, so there is no rounding to argue
/// about.
pub const fn icbrt(n: u128) -> u64 {
    if n == 0 {
        return 0;
    }
    let top = (127 - n.leading_zeros()) / 3;
    let mut root: u128 = 0;
    let mut bit: u128 = 1 << top;
    while bit != 0 {
        let trial = root | bit;
        // trial < 2^43, so its cube stays below 2^129: check the product before it could overflow.
        let square = trial * trial;
        if square <= n / trial {
            root = trial;
        }
        bit >>= 1;
    }
    root as u64
}

/// The exact integer square root: the largest `r` with `r² <= n`.
pub const fn isqrt(n: u128) -> u64 {
    n.isqrt() as u64
}

/// The natural logarithm, from `libm` (pure Rust, same bits everywhere).
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The exponential function, from `libm`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `base` to the power `exponent`, from `libm`.
pub fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// The square root, correctly rounded by IEEE 754 and therefore the same everywhere.
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// The cube root, from `libm`. What decides about packets uses [`icbrt`].
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// The sine, from `libm`.
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// The cosine, from `libm`.
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cube_root_of_small_numbers_exhaustively() {
        let mut root = 0u64;
        for n in 0..200_000u128 {
            while u128::from(root + 1).pow(3) <= n {
                root += 1;
            }
            assert_eq!(icbrt(n), root, "cube root of {n}");
        }
    }

    #[test]
    fn cube_root_at_the_edges_of_every_cube() {
        // The largest cube that fits in 128 bits.
        const LARGEST: u64 = 6_981_463_658_331;
        for root in (1..=43).map(|bit| (1u64 << bit).min(LARGEST)).chain([3, 10, 999_999, LARGEST - 1, LARGEST]) {
            let cube = u128::from(root).pow(3);
            assert_eq!(icbrt(cube), root);
            assert_eq!(icbrt(cube - 1), root - 1);
            if cube < u128::MAX {
                assert_eq!(icbrt(cube + 1), root);
            }
        }
        assert_eq!(icbrt(u128::MAX), LARGEST);
    }

    #[test]
    fn square_root_at_the_edges() {
        assert_eq!(isqrt(0), 0);
        assert_eq!(isqrt(15), 3);
        assert_eq!(isqrt(16), 4);
        assert_eq!(isqrt(u128::MAX), u64::MAX);
    }

    #[test]
    fn products_are_taken_in_128_bits() {
        assert_eq!(mul_div(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(mul_div(7, 3, 2), 10);
        assert_eq!(mul_div_ceil(7, 3, 2), 11);
        assert_eq!(mul_div_ceil(6, 3, 2), 9);
        assert_eq!(mul_div(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(mul_div(1, 1, 0), u64::MAX);
        assert_eq!(mul_div_ceil(1, 1, 0), u64::MAX);
    }

    #[test]
    fn transcendental_functions_have_these_very_bits() {
        assert_eq!(ln(10.0).to_bits(), 0x4002_6bb1_bbb5_5516);
        assert_eq!(exp(1.0).to_bits(), 0x4005_bf0a_8b14_576a);
        assert_eq!(sqrt(2.0).to_bits(), 0x3ff6_a09e_667f_3bcd);
        assert_eq!(cbrt(27.0), 3.0);
        assert_eq!(pow(2.0, 10.0), 1024.0);
        assert_eq!(sin(0.0), 0.0);
        assert_eq!(cos(0.0), 1.0);
    }

    proptest! {
        #[test]
        fn cube_root_is_exact(n: u128) {
            let root = u128::from(icbrt(n));
            prop_assert!(root.pow(3) <= n);
            prop_assert!((root + 1).checked_pow(3).is_none_or(|above| above > n));
        }
    }
}
