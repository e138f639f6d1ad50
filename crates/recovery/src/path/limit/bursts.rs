//! The pacers of quinn and noq: a token bucket that is filled at 5/4 of a window per round trip, in slow start as well,
//! and empties in one burst.

use thalweg_units::{Duration, Rate};

use crate::congestion::Allowance;
use crate::pacing::{AVOIDANCE_GAIN, window_rate};
use crate::policies::PacingPolicy;

/// What a burst takes at the rate of a window per round trip, and the most that it does with noq.
const BURST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(10);
/// Datagrams of a burst.
const LEAST: u64 = 10;
const MOST: u64 = 256;

/// The allowance by the pacer of a stack, with datagrams of `size` and windows that are spread over `rtt`; as it is for
/// other pacers, and without a rate.
pub(super) fn of(pacing: PacingPolicy, allowance: Allowance, rtt: Duration, size: u16) -> Allowance {
    let is_short = match pacing {
        PacingPolicy::Bursts => false,
        PacingPolicy::ShortBursts => true,
        PacingPolicy::On | PacingPolicy::Off => return allowance,
    };
    if allowance.rate.is_none() {
        return allowance;
    }
    let rate = window_rate(allowance.window, rtt, AVOIDANCE_GAIN);
    let quantum = burst(window_rate(allowance.window, rtt, (1, 1)), size.into(), is_short);
    Allowance { quantum, is_even: true, ..Allowance::new(allowance.window, Some(rate), size) }
}

/// Bytes that leave together at a rate in datagrams of a size.
fn burst(rate: Rate, datagram: u64, is_short: bool) -> u64 {
    let bytes = rate.bytes_in(BURST).clamp(LEAST * datagram, MOST * datagram);
    if is_short { bytes.min(rate.bytes_in(LONGEST).max(datagram)) } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_those_of_the_stacks() {
        let slow = Rate::from_bps(1_000_000);
        assert_eq!((burst(slow, 1200, false), burst(slow, 1200, true)), (12_000, 1250));
        assert_eq!(burst(Rate::from_bps(100_000), 1200, true), 1200, "a datagram at least");
        assert_eq!(burst(Rate::from_bps(80_000_000), 1200, true), 20_000);
    }

    #[test]
    fn slow_start_is_no_faster() {
        let rtt = Duration::from_millis(100);
        let allowance = Allowance::new(12_500, Some(Rate::from_bps(2_000_000)), 1200);
        let paced = of(PacingPolicy::Bursts, allowance, rtt, 1200);
        assert_eq!((paced.rate, paced.quantum, paced.is_even), (Some(Rate::from_bps(1_250_000)), 12_000, true));
        assert_eq!(of(PacingPolicy::On, allowance, rtt, 1200), allowance);
    }
}
