//! Points in time and spans between them, in whole nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since an arbitrary origin.
///
/// The origin is whatever the caller made it (the start of a simulation, the creation of an endpoint); only differences
/// mean anything. The range is 584 years. Arithmetic saturates at both ends.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that will happen; an addition that overflows ends here.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`, or zero if `earlier` is in fact later.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved later by `span`, or `None` if that is past [`FAR_FUTURE`](Self::FAR_FUTURE).
    pub fn checked_add(self, span: Duration) -> Option<Instant> {
        let nanos = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Instant)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::FAR_FUTURE {
            return f.write_str("far future");
        }
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.nanos()))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span.nanos()))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    /// The time since `earlier`; zero if `earlier` is in fact later.
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

/// What this project needs of [`Duration`] beyond the standard library.
pub trait DurationExt {
    /// Whole nanoseconds, saturating at `u64::MAX` (584 years).
    fn nanos(self) -> u64;

    /// The span times `num / den`, rounded down; saturating at `u64::MAX` nanoseconds, also when `den` is zero.
    fn mul_ratio(self, num: u64, den: u64) -> Duration;
}

impl DurationExt for Duration {
    fn nanos(self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }

    fn mul_ratio(self, num: u64, den: u64) -> Duration {
        Duration::from_nanos(crate::math::mul_div(self.nanos(), num, den))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn differences_do_not_depend_on_the_origin() {
        for origin in [0, 1, (1 << 32) - 100, u64::MAX - 2_000_000] {
            let start = Instant::from_nanos(origin);
            assert_eq!((start + MS) - start, MS);
            assert_eq!((start + MS) - MS, start);
            assert_eq!((start + MS).saturating_since(start), MS);
        }
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::FAR_FUTURE + MS, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - MS, Instant::ZERO);
        assert_eq!(Instant::ZERO - Instant::FAR_FUTURE, Duration::ZERO);
        assert_eq!(Instant::FAR_FUTURE.checked_add(MS), None);
        assert_eq!(Instant::ZERO.checked_add(Duration::MAX), None);
        assert_eq!(Instant::ZERO.checked_add(MS), Some(Instant::from_nanos(1_000_000)));
        let mut at = Instant::FAR_FUTURE;
        at += MS;
        assert_eq!(at, Instant::FAR_FUTURE);
    }

    #[test]
    fn ratios_round_down_and_saturate() {
        assert_eq!(Duration::from_nanos(8).mul_ratio(9, 8), Duration::from_nanos(9));
        assert_eq!(Duration::from_nanos(7).mul_ratio(9, 8), Duration::from_nanos(7));
        assert_eq!(Duration::MAX.mul_ratio(2, 1).nanos(), u64::MAX);
        assert_eq!(MS.mul_ratio(1, 0).nanos(), u64::MAX);
        assert_eq!(Duration::MAX.nanos(), u64::MAX);
    }

    #[test]
    fn debug_form_shows_seconds() {
        assert_eq!(format!("{:?}", Instant::from_nanos(1_500_000_000)), "1.500000000s");
        assert_eq!(format!("{:?}", Instant::FAR_FUTURE), "far future");
    }
}
