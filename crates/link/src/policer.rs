//! A token bucket that drops what comes faster than agreed (RFC 2697 with one color).

use serde::Serialize;
use thalweg_units::{DurationExt, Instant, Rate};

use crate::read::Field;

/// A policer: `burst` bytes at once, `rate` in the long run; nothing waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policer {
    /// Rate at which tokens come.
    #[serde(serialize_with = "crate::schedule::serialize_rate")]
    pub rate: Rate,
    /// Bytes the bucket holds; it starts full.
    pub burst: u64,
}

impl Policer {
    pub(crate) fn read(field: &dyn Field) -> Option<Policer> {
        let table = field.table("{ rate = \"10 Mbps\", burst = \"100 kB\" }")?;
        let rate = table.need("rate", "\"10 Mbps\"").and_then(|field| field.rate());
        let burst = table.need("burst", "\"100 kB\"").and_then(|field| field.bytes_in(1_500..=1 << 40));
        table.finish();
        Some(Policer { rate: rate?, burst: burst? })
    }
}

/// A byte, in bits per second times nanoseconds.
const BIT_NANOS: u128 = 8_000_000_000;

/// A policer at work. Tokens are kept exactly, in bits per second times nanoseconds.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: u128,
    full: u128,
    tokens: u128,
    updated: Instant,
}

impl Bucket {
    pub(crate) fn new(policer: Policer, start: Instant) -> Self {
        let full = u128::from(policer.burst) * BIT_NANOS;
        Bucket { rate: u128::from(policer.rate.bps()), full, tokens: full, updated: start }
    }

    /// Whether a packet of this size may pass now; takes its tokens if so.
    pub(crate) fn admits(&mut self, now: Instant, size: u32) -> bool {
        let elapsed = u128::from(now.saturating_since(self.updated).nanos());
        self.updated = self.updated.max(now);
        self.tokens = self.full.min(self.tokens + elapsed * self.rate);
        let price = u128::from(size) * BIT_NANOS;
        let pays = price <= self.tokens;
        if pays {
            self.tokens -= price;
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use thalweg_units::Duration;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let policer = Policer { rate: Rate::from_bps(12_000_000), burst: 15_000 };
        let mut bucket = Bucket::new(policer, Instant::ZERO);
        let passed = (0..20).filter(|_| bucket.admits(Instant::ZERO, 1500)).count();
        assert_eq!(passed, 10);
        // 1500 bytes of tokens take exactly a millisecond.
        let ms = Instant::ZERO + Duration::from_millis(1);
        assert!(!bucket.admits(ms - Duration::from_nanos(1), 1500));
        assert!(bucket.admits(ms, 1500));
        assert!(!bucket.admits(ms, 1500));
    }

    #[test]
    fn twice_the_rate_passes_at_the_rate_exactly() {
        let policer = Policer { rate: Rate::from_bps(7_000_001), burst: 3_000 };
        let mut bucket = Bucket::new(policer, Instant::ZERO);
        let gap = Rate::from_bps(14_000_002).time_for(1000);
        let packets = 200_000u32;
        let passed = (0..packets).filter(|n| bucket.admits(Instant::ZERO + gap * *n, 1000)).count() as u64;
        let expected = policer.rate.bytes_in(gap * packets) + policer.burst;
        assert!(passed * 1000 <= expected && passed * 1000 + 2000 >= expected, "{passed} of {expected} bytes");
    }
}
