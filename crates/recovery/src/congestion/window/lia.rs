//! Linked increases (LIA): NewReno whose paths together grow as one flow on the best of them would (RFC 6356 section
//! 3).
//!
//! ```text
//! alpha      = cwnd_total × max(cwnd_i / rtt_i²) / (sum(cwnd_i / rtt_i))²
//! per ACK    cwnd_i += min(alpha × acked × datagram / cwnd_total, acked × datagram / cwnd_i)
//! congestion cwnd_i / 2, as NewReno: only the increase is linked
//! ```
//!
//! `cwnd_total / alpha` is a window too, and does not need a scaled alpha (section 4) to be a whole number. With `b`
//! the path whose `cwnd / rtt²` is largest,
//!
//! ```text
//! linked     = cwnd_total / alpha = (sum(cwnd_i × rtt_b / rtt_i))² / cwnd_b
//! per ACK    cwnd_i += acked × datagram / max(linked, cwnd_i)
//! ```
//!
//! so this is NewReno which waits until `max(linked, cwnd_i)` bytes are acknowledged instead of `cwnd_i`. A path that
//! is alone is NewReno to the byte. The paths that count are those with something in flight that answer
//! ([`Controller::on_siblings`]): who carries nothing takes nothing of a bottleneck.
//!
//! The start of each path is its own, as in the RFC: linked is congestion avoidance only.

use smallvec::SmallVec;
use thalweg_units::{Duration, Instant};

use super::growth::{Growth, Signal};
use super::new_reno::NewReno;
use crate::congestion::Sibling;
use crate::congestion::view::View;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Lia {
    reno: NewReno,
    /// The other paths that carry data.
    others: SmallVec<[Flight; 4]>,
}

/// A window in bytes, and a round-trip time in microseconds: at least one, and at most what fits 32 bits, so that its
/// square fits 64.
type Flight = (u64, u64);

fn flight(window: u64, rtt: Duration) -> Flight {
    let micros = rtt.as_micros().clamp(1, u128::from(u32::MAX));
    (window, u64::try_from(micros).unwrap_or(u64::MAX))
}

/// `cwnd_total / alpha` of these paths, in bytes.
fn linked(paths: &[Flight]) -> u64 {
    // a.0 / a.1² against b.0 / b.1², crosswise.
    let key = |of: &Flight, other: &Flight| u128::from(of.0) * u128::from(other.1 * other.1);
    let best = paths.iter().max_by(|one, other| key(one, other).cmp(&key(other, one)));
    let Some(&(window, rtt)) = best else { return 0 };
    // None of these exceeds the largest window, by the choice of the best.
    let scaled = |path: &Flight| u128::from(path.0) * u128::from(rtt) / u128::from(path.1);
    let sum: u128 = paths.iter().map(scaled).sum::<u128>().min(u128::from(u64::MAX));
    u64::try_from(sum * sum / u128::from(window.max(1))).unwrap_or(u64::MAX)
}

impl Lia {
    /// So many bytes are acknowledged until the window grows by a datagram.
    fn step(&self, view: View) -> u64 {
        if self.others.is_empty() {
            return view.window;
        }
        let own = flight(view.window, view.smoothed_rtt);
        let all: SmallVec<[Flight; 4]> = self.others.iter().copied().chain([own]).collect();
        linked(&all).max(view.window)
    }
}

impl Growth for Lia {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let step = self.step(view);
        // NewReno's window grows by a datagram whenever so much is acknowledged, and is the next step then.
        let grown = self.reno.grow(View { window: step, ..view }, acked);
        view.window + (grown - step)
    }

    fn on_siblings(&mut self, siblings: &[Sibling]) {
        self.others = siblings.iter().map(|sibling| flight(sibling.window, sibling.smoothed_rtt)).collect();
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        self.reno.reduce(view, signal)
    }

    /// A tooth climbs half a window, by a datagram for each linked window that is acknowledged.
    fn cycle(&self, view: View) -> u32 {
        self.reno.cycle(View { window: self.step(view), ..view })
    }

    fn on_start_exit(&mut self, view: View) {
        self.reno.on_start_exit(view);
    }

    fn on_persistent_congestion(&mut self) {
        self.reno.on_persistent_congestion();
    }

    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        self.reno.on_application_limited(now, limited);
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATAGRAM: u64 = 1_200;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn view(window: u64, rtt: Duration) -> View {
        View::new(Instant::ZERO, window, DATAGRAM, rtt)
    }

    /// The increase of a path for acknowledged bytes beside others, each a window and a round-trip time.
    fn grown(own: (u64, u64), others: &[(u64, u64)], acked: u64) -> u64 {
        let siblings: Vec<Sibling> =
            others.iter().map(|(window, rtt)| Sibling { window: *window, smoothed_rtt: ms(*rtt) }).collect();
        let mut lia = Lia::default();
        lia.on_siblings(&siblings);
        lia.grow(view(own.0, ms(own.1)), acked) - own.0
    }

    /// The formulas of RFC 6356 section 3 as they stand there: bytes that `acked` bytes add to the first path.
    fn rfc6356(paths: &[(u64, u64)], acked: u64) -> f64 {
        let of = |f: fn(f64, f64) -> f64| paths.iter().map(move |(window, rtt)| f(*window as f64, *rtt as f64));
        let total: f64 = of(|window, _| window).sum();
        let best = of(|window, rtt| window / (rtt * rtt)).fold(0.0, f64::max);
        let sum: f64 = of(|window, rtt| window / rtt).sum();
        let alpha = total * best / (sum * sum);
        let (acked, datagram, own) = (acked as f64, DATAGRAM as f64, paths[0].0 as f64);
        (alpha * acked * datagram / total).min(acked * datagram / own)
    }

    #[test]
    fn rfc6356_3_two_equal_paths_take_a_quarter_of_a_datagram_per_round_trip_each() {
        // alpha = 2w × (w / r²) / (2w / r)² = 1/2, and a window acknowledged adds alpha × w × datagram / 2w.
        let window = 40 * DATAGRAM;
        assert_eq!(grown((window, 50), &[(window, 50)], window), 0);
        assert_eq!(grown((window, 50), &[(window, 50)], 4 * window), DATAGRAM);
    }

    #[test]
    fn rfc6356_3_a_path_never_grows_faster_than_alone() {
        // The best path by far beside one with a large window and a long round trip: alpha > 1, and the minimum holds.
        let (own, other) = ((10 * DATAGRAM, 10), (400 * DATAGRAM, 4_000));
        assert!(rfc6356(&[own, other], own.0) <= DATAGRAM as f64);
        for acked in [own.0, 5 * own.0, 50 * own.0] {
            assert!(grown(own, &[other], acked) <= grown(own, &[], acked));
        }
    }

    #[test]
    fn a_path_alone_is_new_reno_to_the_byte() {
        let (mut lia, mut reno) = (Lia::default(), NewReno::default());
        let mut windows = (12_000, 12_000);
        for acked in (1..2_000u64).map(|n| n * 7_919 % 30_000) {
            lia.on_siblings(&[]);
            windows = (lia.grow(view(windows.0, ms(50)), acked), reno.grow(view(windows.1, ms(50)), acked));
            assert_eq!(windows.0, windows.1);
            if acked % 11 == 0 {
                let signal = if acked % 2 == 0 { Signal::Loss } else { Signal::AbeMark };
                windows = (lia.reduce(view(windows.0, ms(50)), signal), reno.reduce(view(windows.1, ms(50)), signal));
                windows = (windows.0.max(2_400), windows.1.max(2_400));
            }
            assert_eq!(lia.cycle(view(windows.0, ms(50))), reno.cycle(view(windows.1, ms(50))));
        }
    }

    #[test]
    fn a_sibling_that_is_gone_is_forgotten() {
        let siblings = [Sibling { window: 24_000, smoothed_rtt: ms(50) }];
        let mut lia = Lia::default();
        lia.on_siblings(&siblings);
        assert_eq!(lia.grow(view(24_000, ms(50)), 24_000), 24_000);
        lia.on_siblings(&[]);
        assert_eq!(lia.grow(view(24_000, ms(50)), 0), 24_000 + DATAGRAM);
    }

    #[test]
    fn what_cannot_be_measured_stays_within_bounds() {
        assert_eq!(linked(&[]), 0);
        for extreme in [(u64::MAX, 1), (1, u64::from(u32::MAX)), (0, 1), (u64::MAX, u64::from(u32::MAX))] {
            for other in [(u64::MAX, 1), (1, u64::from(u32::MAX)), (0, 1), (u64::MAX, u64::from(u32::MAX))] {
                let _ = linked(&[extreme, other]);
            }
        }
        assert_eq!(flight(9, Duration::ZERO), (9, 1));
        assert_eq!(flight(9, Duration::MAX), (9, u64::from(u32::MAX)));
    }

    proptest! {
        #[test]
        fn rfc6356_3_the_increase_is_that_of_the_formulas(
            paths in prop::collection::vec((2u64..5_000, 1u64..2_000), 2..5),
            rounds in 1u64..50,
        ) {
            let paths: Vec<(u64, u64)> = paths.into_iter().map(|(datagrams, rtt)| (datagrams * DATAGRAM, rtt)).collect();
            let acked = paths[0].0 * rounds;
            let (ours, theirs) = (grown(paths[0], &paths[1..], acked), rfc6356(&paths, acked));
            // Whole datagrams: what is not one yet is remembered. A window that grows meanwhile needs more for the
            // next.
            let most = (theirs * 1.001) as u64 + 1;
            prop_assert!(ours <= most, "{} {}", ours, theirs);
            let step = acked as f64 * DATAGRAM as f64 / theirs;
            let last = step + ours as f64;
            let least = acked as f64 * DATAGRAM as f64 / last * 0.999 - DATAGRAM as f64;
            prop_assert!(ours as f64 >= least, "{} {}", ours, theirs);
        }
    }
}
