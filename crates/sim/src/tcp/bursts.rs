//! Bursts of a sender with segmentation offload: their size, and when they wait for more room (Linux's `tcp_output.c`).
//!
//! ```text
//! burst   = a 1024th of a second at the rate 2 or 1.2 windows per smoothed round trip + 64 KiB >> (min RTT / 512 us)
//!           at least two segments, at most 64 KiB                                              tcp_tso_autosize
//! room    < burst, < a third of the window, something was sent in the last millisecond, and the ACK of the oldest
//!           segment out is no further away than a millisecond or half a round trip: it will make more room, wait for
//!           it                                                                                 tcp_tso_should_defer
//! ```
//!
//! Linux keeps this pacing rate for every sender, paced or not. The room is whole segments.

use thalweg_units::{Duration, DurationExt, Instant};

/// The largest burst that an interface takes, in bytes (`GSO_LEGACY_MAX_SIZE`).
const LARGEST: u64 = 65_536;
/// The shortest burst, in segments (`tcp_min_tso_segs`).
const LEAST: u64 = 2;
/// A burst is the pacing rate over this (`sk_pacing_shift` of 10).
const PER_SECOND: u128 = 1 << 10;
/// Minimum round trips are counted in units of this (`tcp_tso_rtt_log` of 9): near peers get larger bursts.
const NEAR: u128 = 512_000;
/// Room for this share of the window is enough (`tcp_tso_win_divisor`).
const WINDOW_SHARE: u64 = 3;
/// A sender that was silent for longer does not wait.
const RECENT: Duration = Duration::from_millis(1);
/// Nor does one whose next ACK is further away (Linux since the end of 2025; half a round trip before).
const NEAR_ACK: Duration = Duration::from_millis(1);

/// What of a path decides how much leaves at once.
#[derive(Copy, Clone, Debug)]
pub(super) struct PathView {
    /// The window, in bytes.
    pub(super) window: u64,
    /// Whether the window is below half of the slow-start threshold.
    pub(super) is_doubling: bool,
    pub(super) smoothed_rtt: Duration,
    pub(super) min_rtt: Duration,
    /// Bytes of a segment.
    pub(super) size: u64,
}

impl PathView {
    /// The segments of a burst.
    pub(super) fn burst(&self) -> u64 {
        // Tenths of a window per round trip (tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
        let ratio: u128 = if self.is_doubling { 20 } else { 12 };
        let rtt = u128::from(self.smoothed_rtt.nanos().max(1));
        let paced = u128::from(self.window) * ratio * 100_000_000 / rtt / PER_SECOND;
        let near = u32::try_from(u128::from(self.min_rtt.nanos()) / NEAR).unwrap_or(u32::MAX);
        let bytes = u64::try_from(paced).unwrap_or(u64::MAX).saturating_add(LARGEST.checked_shr(near).unwrap_or(0));
        (bytes.min(LARGEST) / self.size.max(1)).max(LEAST)
    }

    /// Whether a sender with room for `room` segments waits for more. `oldest` is when the oldest segment out was sent.
    pub(super) fn defers(&self, now: Instant, room: u64, latest: Option<Instant>, oldest: Option<Instant>) -> bool {
        let (Some(latest), Some(oldest)) = (latest, oldest) else { return false };
        let enough = self.burst().min(self.window / self.size.max(1) / WINDOW_SHARE);
        let ack_in = (oldest + self.smoothed_rtt).saturating_since(now);
        room < enough && now.saturating_since(latest) <= RECENT && ack_in <= NEAR_ACK.min(self.smoothed_rtt / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1_448;

    fn view(segments: u64, rtt: u64) -> PathView {
        let rtt = Duration::from_millis(rtt);
        PathView { window: segments * SIZE, is_doubling: false, smoothed_rtt: rtt, min_rtt: rtt, size: SIZE }
    }

    fn at(ms: u64) -> Option<Instant> {
        Some(Instant::ZERO + Duration::from_millis(ms))
    }

    #[test]
    fn a_burst_is_a_millisecond_of_the_pacing_rate_and_two_segments_at_least() {
        for (segments, rtt, burst) in [(10, 100, 2), (200, 100, 2), (400, 100, 4), (500, 100, 5), (5_000, 100, 45)] {
            assert_eq!(view(segments, rtt).burst(), burst, "{segments} segments in {rtt} ms");
        }
        let start = PathView { is_doubling: true, ..view(400, 100) };
        assert_eq!(start.burst(), 7, "two windows per round trip");
    }

    #[test]
    fn near_peers_get_the_largest_bursts() {
        assert_eq!(view(10, 0).burst(), 45);
        // 65,536 >> 3, and 10 segments in 2 ms at 6/5.
        let near = PathView { min_rtt: Duration::from_micros(1_600), ..view(10, 2) };
        assert_eq!(near.burst(), (8_192 + 8_484) / SIZE);
    }

    #[test]
    fn room_for_one_segment_waits_until_there_is_room_for_a_burst_or_nothing_is_on_its_way() {
        let view = view(40, 100);
        let now = Instant::ZERO + Duration::from_millis(200);
        assert!(view.defers(now, 1, at(200), at(101)));
        assert!(!view.defers(now, 2, at(200), at(101)), "a burst");
        assert!(!view.defers(now, 1, at(198), at(101)), "silent for 2 ms");
        assert!(!view.defers(now, 1, at(200), at(102)), "the next ACK is far");
        assert!(!view.defers(now, 1, at(200), None), "nothing is out");
    }

    #[test]
    fn a_third_of_the_window_is_enough() {
        let view = PathView { min_rtt: Duration::ZERO, ..view(12, 10) };
        let now = Instant::ZERO + Duration::from_millis(200);
        assert!(view.defers(now, 3, at(200), at(191)));
        assert!(!view.defers(now, 4, at(200), at(191)));
    }
}
