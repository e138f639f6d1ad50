//! Logarithms and a geometric ladder in integers, so that every CPU forecasts the same.

/// Fractional bits of a logarithm.
pub(super) const LOG_BITS: u32 = 16;

/// 1 as a logarithm.
pub(super) const LOG_ONE: i32 = 1 << LOG_BITS;

/// Steps of the table between two powers of two. Interpolation between them is off by less than 2⁻¹⁴.
const STEPS: usize = 64;

/// log2(1 + n / STEPS) with [`LOG_BITS`], one bit after the other by squaring.
const TABLE: [u32; STEPS + 1] = {
    let mut table = [0; STEPS + 1];
    let mut n = 0;
    while n < STEPS {
        // 1 to 2, with 62 bits below the point.
        let mut x: u128 = ((STEPS + n) as u128) << (62 - STEPS.trailing_zeros());
        let (mut log, mut bit) = (0, 1 << LOG_BITS);
        while bit > 1 {
            bit >>= 1;
            x = (x * x) >> 62;
            if x >= 2 << 62 {
                x >>= 1;
                log |= bit;
            }
        }
        table[n] = log;
        n += 1;
    }
    table[STEPS] = 1 << LOG_BITS;
    table
};

/// log2 of a number above zero, with [`LOG_BITS`]; zero counts as one.
pub(super) fn log2(n: u64) -> i32 {
    let n = n.max(1);
    let whole = n.ilog2();
    // 31 bits below the leading one.
    let mantissa = ((n << (63 - whole)) >> 32) as u32 & 0x7fff_ffff;
    let (step, rest) = ((mantissa >> 25) as usize, mantissa & 0x1ff_ffff);
    let (low, high) = (TABLE[step], TABLE[step + 1]);
    let fraction = low + ((u64::from(high - low) * u64::from(rest)) >> 25) as u32;
    (whole << LOG_BITS) as i32 + fraction as i32
}

/// How far log2(a / b) is from one doubling, at most `most`; `most` if either is zero.
pub(super) fn off_doubling(a: u64, b: u64, most: i32) -> i32 {
    if a == 0 || b == 0 { most } else { (log2(a) - log2(b) - LOG_ONE).abs().min(most) }
}

/// `base` × 2^(`step` / `per_octave`), for powers of two as `per_octave`.
pub(super) fn geometric(base: u64, step: u32, per_octave: u32) -> u64 {
    // 2^(1/per_octave) by repeated square roots, with 60 bits below the point.
    let mut root: u128 = 2 << 60;
    let mut parts = 1;
    while parts < per_octave {
        root = (root << 60).isqrt();
        parts *= 2;
    }
    let mut factor: u128 = 1 << 60;
    for _ in 0..step % per_octave.max(1) {
        factor = (factor * root) >> 60;
    }
    let octaves = (step / per_octave.max(1)).min(32);
    u64::try_from(((u128::from(base) << octaves) * factor) >> 60).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use thalweg_units::math;

    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_close_between() {
        for bit in 0..64 {
            assert_eq!(log2(1 << bit), bit << LOG_BITS);
        }
        let mut n = 1_u64;
        while n < u64::MAX / 3 {
            let exact = math::ln(n as f64) / core::f64::consts::LN_2;
            let ours = f64::from(log2(n)) / f64::from(LOG_ONE);
            assert!((ours - exact).abs() < 1e-4, "{n}: {ours} instead of {exact}");
            n += n / 37 + 1;
        }
        assert_eq!(off_doubling(2_000, 1_000, 100_000), 0);
        assert_eq!(off_doubling(1_000, 1_000, 100_000), LOG_ONE);
        assert_eq!(off_doubling(0, 1_000, 5), 5);
    }

    #[test]
    fn candidates_double_every_octave() {
        let ladder: Vec<u64> = (0..9).map(|step| geometric(10_000_000, step, 4)).collect();
        assert_eq!((ladder[0], ladder[4], ladder[8]), (10_000_000, 20_000_000, 40_000_000));
        assert_eq!(ladder[1], 11_892_071);
        assert_eq!(geometric(10, 3, 1), 80);
    }
}
