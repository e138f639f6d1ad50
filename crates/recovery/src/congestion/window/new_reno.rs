//! NewReno (RFC 9002 section 7.3, RFC 5681): one datagram per round trip, half on congestion.
//!
//! ```text
//! growth:      acked += newly acknowledged;   whenever acked reaches window:  acked -= window, window += datagram
//! congestion:  window = window / 2,  or 4/5 window for a mark with `mark=abe` (RFC 8511)
//! ```
//!
//! Bytes are counted, not ACKs, so that it does not matter how many packets the peer acknowledges at a time.
//! quic-go leaves 7/10 of the window where RFC 9002 leaves half, and knows no persistent congestion.

use thalweg_units::{Instant, math};

use super::growth::{Growth, Signal};
use crate::congestion::view::View;

/// What congestion leaves of the window (kLossReductionFactor, RFC 9002 appendix B.1) …
const BETA: (u64, u64) = (1, 2);
/// … what quic-go does (`renoBeta`) …
#[cfg(feature = "study")]
const GENTLE_BETA: (u64, u64) = (7, 10);
/// … and what a mark does with `mark=abe` (RFC 8511 section 3.1).
const BETA_ECN: (u64, u64) = (4, 5);

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct NewReno {
    /// Bytes acknowledged since the window last grew.
    acked: u64,
    /// What congestion leaves of the window.
    beta: (u64, u64),
    /// Whether persistent congestion takes the window down to its minimum.
    collapses: bool,
}

impl Default for NewReno {
    fn default() -> NewReno {
        NewReno { acked: 0, beta: BETA, collapses: true }
    }
}

impl NewReno {
    /// As quic-go has it.
    #[cfg(feature = "study")]
    pub(crate) fn gentle() -> NewReno {
        NewReno { beta: GENTLE_BETA, collapses: false, ..NewReno::default() }
    }
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

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        self.acked = 0;
        let (part, whole) = match signal {
            Signal::Loss | Signal::Mark => self.beta,
            Signal::AbeMark => BETA_ECN,
        };
        math::mul_div(view.window, part, whole)
    }

    /// A tooth climbs what congestion took from the window, a datagram per round trip.
    fn cycle(&self, view: View) -> u32 {
        let (part, whole) = self.beta;
        let climb = math::mul_div(view.window, whole - part, part) / view.datagram.max(1);
        u32::try_from(climb).unwrap_or(u32::MAX)
    }

    fn on_start_exit(&mut self, _view: View) {
        self.acked = 0;
    }

    fn collapses(&self) -> bool {
        self.collapses
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
        assert_eq!(NewReno::default().reduce(view(24_000), Signal::Loss), 12_000);
    }

    #[test]
    #[cfg(feature = "study")]
    fn quic_go_keeps_seven_tenths_and_climbs_the_rest_sooner() {
        assert_eq!(NewReno::gentle().reduce(view(24_000), Signal::Loss), 16_800);
        assert_eq!(NewReno::gentle().reduce(view(24_000), Signal::AbeMark), 19_200);
        assert_eq!(NewReno::gentle().cycle(view(16_800)), 6);
        assert!(!NewReno::gentle().collapses() && NewReno::default().collapses());
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
