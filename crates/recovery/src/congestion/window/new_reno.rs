//! NewReno (RFC 9002 section 7.3, RFC 5681): one datagram per round trip, half on congestion.
//!
//! ```text
//! growth:      acked += newly acknowledged;   whenever acked reaches window:  acked -= window, window += datagram
//! congestion:  window = window / 2
//! ```
//!
//! Bytes are counted, not ACKs, so that it does not matter how many packets the peer acknowledges at a time.

use thalweg_units::Instant;

use super::{Growth, View};
use crate::trace::CongestionCause;

/// What congestion leaves of the window (kLossReductionFactor, RFC 9002 appendix B.1), as a divisor.
const REDUCTION_DIVISOR: u64 = 2;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct NewReno {
    /// Bytes acknowledged since the window last grew.
    acked: u64,
}

impl Growth for NewReno {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let mut window = view.window;
        self.acked += acked;
        while self.acked >= window {
            self.acked -= window;
            window += view.datagram;
        }
        window
    }

    fn reduce(&mut self, view: View, _cause: CongestionCause) -> u64 {
        self.acked = 0;
        view.window / REDUCTION_DIVISOR
    }

    /// A tooth climbs half a window, a datagram per round trip.
    fn cycle(&self, view: View) -> u32 {
        u32::try_from(view.window / view.datagram.max(1)).unwrap_or(u32::MAX)
    }

    fn on_start_exit(&mut self, _view: View) {
        self.acked = 0;
    }

    fn on_persistent_congestion(&mut self) {
        self.acked = 0;
    }

    fn on_application_limited(&mut self, _now: Instant, _limited: bool) {}

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_units::Duration;

    fn view(window: u64) -> View {
        View::new(Instant::ZERO, window, 1_200, Duration::from_millis(100))
    }

    #[test]
    fn rfc9002_7_3_3_a_window_of_acknowledgments_adds_one_datagram() {
        for per_ack in [1_200, 2_400, 12_000] {
            let mut reno = NewReno::default();
            let mut window = 12_000;
            for _ in 0..12_000 / per_ack {
                assert_eq!(window, 12_000);
                window = reno.grow(view(window), per_ack);
            }
            assert_eq!(window, 13_200, "{per_ack} bytes per ACK");
        }
    }

    #[test]
    fn rfc9002_7_3_2_congestion_halves_the_window() {
        assert_eq!(NewReno::default().reduce(view(24_000), CongestionCause::Loss), 12_000);
    }

    #[test]
    fn two_teeth_last_as_many_round_trips_as_the_window_has_datagrams() {
        assert_eq!(NewReno::default().cycle(view(24_000)), 20);
    }

    #[test]
    fn an_ack_of_several_windows_counts_for_all_of_them() {
        assert_eq!(NewReno::default().grow(view(2_400), 2_400 + 3_600), 4_800);
    }
}
