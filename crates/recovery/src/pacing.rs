//! When the next packets may leave.

use thalweg_units::{Duration, DurationExt, Rate};

/// Pacing gain outside slow start: 5/4 of window per round-trip time (the example of RFC 9002 section 7.7).
pub const AVOIDANCE_GAIN: (u64, u64) = (5, 4);

/// The rate that sends `window` bytes per round-trip time, times `gain` (numerator, denominator).
pub fn window_rate(window: u64, rtt: Duration, gain: (u64, u64)) -> Rate {
    Rate::from_bytes_over(window, Duration::from_nanos(rtt.nanos().max(1)))
        .mul_ratio(gain.0, gain.1)
}

/// How many bytes leave back to back: a millisecond's worth, at least two datagrams, at most 64 KB.
pub fn quantum(rate: Rate, datagram_size: u16) -> u64 {
    rate.bytes_in(Duration::from_millis(1)).clamp(
        2 * u64::from(datagram_size),
        64_000.max(2 * u64::from(datagram_size)),
    )
}
