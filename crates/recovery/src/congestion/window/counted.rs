//! CUBIC as Linux counts it (`tcp_cubic.c`, `tcp_cong_avoid_ai`): in whole datagrams, and in ticks of its clock.
//!
//! ```text
//! W(t)     = W_max ± ⌊410 |t − K|³ / 2⁴⁰⌋          t, K in 1/1024 s; t runs in ticks of 4 ms
//! target   = W(t + smallest RTT)
//! count    = window / (target − window), or 100 window where the target is no larger; 2 at least
//!            20 at most while W_max is not known
//!            window / (W_est − window) at most where W_est is larger
//! W_est   += 1      once more than 15 window / 8 are acknowledged
//! window  += 1      once `count` are acknowledged
//! ```
//!
//! It is the function of RFC 9438 ([`Cubic`](super::cubic::Cubic)), but over a few datagrams its roundings decide: at a
//! window of 6, Reno's window has to be ahead by a datagram before this one follows within a round trip, and a count is
//! up to 28 ms old.
//!
//! What is different here: K is exact, where Linux takes a cubic root from a table; the smallest round trip may be the
//! handshake's, and is never forgotten; time does not run while the application is the limit, where Linux leaves out
//! only what is silent; and a timeout that is taken back counts as a reduction, after which Linux would not know W_max.

use thalweg_units::math::icbrt;
use thalweg_units::{Duration, Instant};

use super::cubic::{micros, two_teeth};
use super::growth::{Growth, Signal};
use crate::congestion::view::View;

/// A tick of Linux's clock (`1 / CONFIG_HZ`), in microseconds: 250 per second, as most distributions have it.
const TICK_MICROS: u64 = 4_000;
const TICKS_PER_SECOND: u64 = 250;
/// Ticks for which a count is kept while the window stays the same (`HZ / 32`).
const COUNT_TICKS: u64 = TICKS_PER_SECOND / 32;
/// Units of the cubic function's time per second (`BICTCP_HZ` is its logarithm).
const UNITS_PER_SECOND: u64 = 1_024;
/// The aggressiveness C of 410/1024 datagrams per second cubed (`cube_rtt_scale`), where times are in 1/1024 s.
const C: u128 = 410;
const C_BITS: u32 = 40;
/// What a loss or a mark leaves, in 1/1024 (`beta`); and with `mark=abe` a mark (RFC 8511 section 3.1).
const BETA: u64 = 717;
const BETA_ABE: u64 = 870;
const BETA_SCALE: u64 = 1_024;
/// Acknowledged eighths of the window per datagram of Reno's window (`beta_scale`).
const RENO_EIGHTHS: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// The most acknowledged datagrams per one that the window grows by, while W_max is not known.
const MOST_WITHOUT_W_MAX: u64 = 20;
/// Where the target is not larger than the window, it grows by a datagram in so many windows.
const WINDOWS_AT_REST: u64 = 100;
/// The window grows by half per round trip, at most.
const LEAST_COUNT: u64 = 2;

/// One run of the function, from the first growth after a reduction to the next congestion. Windows are datagrams.
#[derive(Copy, Clone, Debug)]
struct Epoch {
    /// The tick at which it began.
    began: u64,
    plateau: u64,
    /// K in 1/1024 s.
    k: u64,
}

impl Epoch {
    /// W after so many ticks.
    fn at(self, ticks: u64) -> u64 {
        let t = ticks.saturating_mul(UNITS_PER_SECOND) / TICKS_PER_SECOND;
        let distance = u128::from(t.abs_diff(self.k));
        let off = distance.saturating_mul(distance).saturating_mul(distance).saturating_mul(C) >> C_BITS;
        let off = u64::try_from(off).unwrap_or(u64::MAX);
        if t < self.k { self.plateau.saturating_sub(off) } else { self.plateau.saturating_add(off) }
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct CountedCubic {
    /// The window before the last reduction, lowered by fast convergence; none until the first, and after a timeout.
    w_max: Option<u64>,
    epoch: Option<Epoch>,
    /// Acknowledged since Reno's window grew, and that window.
    reno_acked: u64,
    reno: u64,
    /// How many have to be acknowledged for one more; of which window and at which tick this was said.
    count: u64,
    of_window: u64,
    at_tick: u64,
    /// Acknowledged towards the next datagram of the window.
    acked: u64,
    /// Whether a reduction was just taken back.
    has_returned: bool,
    /// The tick since which the application has been the limit.
    limited_since: Option<u64>,
}

fn tick(now: Instant) -> u64 {
    micros(now.saturating_since(Instant::ZERO)) / TICK_MICROS
}

/// Ticks, the last of them whole.
fn ticks(span: Duration) -> u64 {
    micros(span).div_ceil(TICK_MICROS)
}

/// The window in datagrams.
fn datagrams(view: View) -> u64 {
    (view.window / view.datagram.max(1)).max(1)
}

impl CountedCubic {
    fn begin_epoch(&mut self, window: u64, tick: u64, acked: u64) -> Epoch {
        let plateau = self.w_max.unwrap_or(0).max(window);
        let k = icbrt((u128::from(plateau - window) << C_BITS) / C);
        let epoch = Epoch { began: tick, plateau, k };
        self.epoch = Some(epoch);
        self.reno_acked = acked;
        self.reno = window;
        epoch
    }

    /// Before the first window after a reduction was taken back is used: it is where the plateau is.
    fn take_return(&mut self, window: u64) {
        if core::mem::take(&mut self.has_returned) {
            self.w_max = Some(window);
        }
    }

    /// `bictcp_update`: how many have to be acknowledged for the window to grow by one.
    fn update(&mut self, view: View, window: u64, acked: u64) {
        self.reno_acked += acked;
        let now = tick(view.now);
        if self.of_window == window && now.saturating_sub(self.at_tick) <= COUNT_TICKS {
            return;
        }
        if self.epoch.is_none() || now != self.at_tick {
            (self.of_window, self.at_tick) = (window, now);
            let epoch = match self.epoch {
                Some(epoch) => epoch,
                None => self.begin_epoch(window, now, acked),
            };
            let target = epoch.at(now.saturating_sub(epoch.began).saturating_add(ticks(view.min_rtt)));
            self.count = match target.checked_sub(window) {
                Some(missing @ 1..) => window / missing,
                _ => window.saturating_mul(WINDOWS_AT_REST),
            };
            if self.w_max.is_none() {
                self.count = self.count.min(MOST_WITHOUT_W_MAX);
            }
        }
        let per_datagram = window * RENO_EIGHTHS / 8;
        while self.reno_acked > per_datagram {
            self.reno_acked -= per_datagram;
            self.reno += 1;
        }
        if self.reno > window {
            self.count = self.count.min(window / (self.reno - window));
        }
        self.count = self.count.max(LEAST_COUNT);
    }
}

impl Growth for CountedCubic {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let (window, acked) = (datagrams(view), acked.div_ceil(view.datagram.max(1)));
        self.take_return(window);
        self.update(view, window, acked);
        // What was counted towards a larger count is worth one datagram, at most.
        let mut grown = u64::from(self.acked >= self.count);
        if grown > 0 {
            self.acked = 0;
        }
        self.acked += acked;
        grown += self.acked / self.count;
        self.acked %= self.count;
        view.window.saturating_add(grown.saturating_mul(view.datagram))
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        let window = datagrams(view);
        self.take_return(window);
        self.w_max = Some(match self.w_max {
            Some(before) if window < before => window * (BETA_SCALE + BETA) / (2 * BETA_SCALE),
            _ => window,
        });
        self.epoch = None;
        self.acked = 0;
        let beta = if signal == Signal::AbeMark { BETA_ABE } else { BETA };
        window * beta / BETA_SCALE * view.datagram
    }

    fn cycle(&self, view: View) -> u32 {
        two_teeth(self.epoch.map_or(0, |epoch| epoch.k.saturating_mul(1_000_000) / UNITS_PER_SECOND), view)
    }

    fn on_start_exit(&mut self, _view: View) {
        self.w_max = None;
        self.epoch = None;
    }

    /// A timeout (`bictcp_reset`).
    fn on_persistent_congestion(&mut self) {
        *self = CountedCubic { limited_since: self.limited_since, ..CountedCubic::default() };
    }

    /// The function's time does not run meanwhile (`cubictcp_cwnd_event`, of silences).
    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        let now = tick(now);
        match (self.limited_since, limited) {
            (None, true) => self.limited_since = Some(now),
            (Some(since), false) => {
                self.limited_since = None;
                if let Some(epoch) = &mut self.epoch {
                    epoch.began = (epoch.began + now.saturating_sub(since)).min(now);
                }
            }
            _ => {}
        }
    }

    fn on_datagram_size(&mut self) {
        self.epoch = None;
        self.w_max = None;
    }

    /// The reduction began a new epoch, from the window that it was taken from.
    fn on_return(&mut self, _now: Instant) {
        self.epoch = None;
        self.acked = 0;
        self.has_returned = true;
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};
    use proptest::prelude::*;

    const DATAGRAM: u64 = 1_448;

    fn view(now: Instant, window: u64) -> View {
        View::new(now, window * DATAGRAM, DATAGRAM, ms(40))
    }

    /// Acknowledges datagrams one by one at a moment. Returns the window after each.
    fn acknowledged(cubic: &mut CountedCubic, now: Instant, mut window: u64, count: u64) -> Vec<u64> {
        (0..count)
            .map(|_| {
                window = cubic.grow(view(now, window), DATAGRAM) / DATAGRAM;
                window
            })
            .collect()
    }

    #[test]
    fn until_the_first_reduction_it_grows_by_one_per_twenty() {
        let mut cubic = CountedCubic::default();
        cubic.on_start_exit(view(at(0), 28));
        let windows = acknowledged(&mut cubic, at(10), 28, 41);
        assert_eq!((windows[18], windows[19], windows[38], windows[39]), (28, 29, 29, 30));
        let reduced = cubic.reduce(view(at(20), 30), Signal::Loss) / DATAGRAM;
        assert_eq!(reduced, 21, "30 × 717 / 1024");
        let windows = acknowledged(&mut cubic, at(30), 21, 21);
        assert_eq!((windows[19], windows[20]), (21, 22), "W(40 ms) is 21.3, which counts as the next");
    }

    /// RFC 9438 section 4.2: K = ∛((W_max − window) / C), here of C = 410/1024.
    #[test]
    fn the_plateau_is_reached_in_k() {
        let mut cubic = CountedCubic::default();
        assert_eq!(cubic.reduce(view(at(0), 1_000), Signal::Loss), 700 * DATAGRAM);
        cubic.grow(view(at(0), 700), DATAGRAM);
        let epoch = cubic.epoch.unwrap();
        assert_eq!(epoch.k, 9_300, "9.08 s");
        assert_eq!((epoch.at(0), epoch.at(2_271), epoch.at(4_542)), (701, 1_000, 1_300), "distances lose fractions");
        assert_eq!(cubic.cycle(view(at(0), 700)), 2 * 9_082 / 40);
    }

    /// A window of 6 is at its plateau of 6: Reno's is a datagram ahead once more than 11 are acknowledged, and the
    /// window follows when it has counted 6.
    #[test]
    fn a_small_window_follows_that_of_reno_within_a_round_trip() {
        let mut cubic = CountedCubic { w_max: Some(6), ..CountedCubic::default() };
        let windows = acknowledged(&mut cubic, at(0), 6, 12);
        assert_eq!(windows[11], 6);
        assert_eq!((cubic.reno, cubic.count), (6, 600), "the count is kept while the window stays the same");
        let windows = acknowledged(&mut cubic, at(40), 6, 1);
        assert_eq!((windows[0], cubic.reno, cubic.count), (7, 7, 6), "what was counted is worth one datagram");
        assert_eq!(cubic.acked, 1);
    }

    #[test]
    fn a_count_lasts_for_seven_ticks_of_the_same_window() {
        let counted = |after_ms: u64| {
            let mut cubic = CountedCubic { w_max: Some(100), ..CountedCubic::default() };
            cubic.grow(view(at(0), 100), DATAGRAM);
            cubic.reno = 110;
            cubic.grow(view(at(after_ms), 100), DATAGRAM);
            cubic.count
        };
        assert_eq!((counted(28), counted(32)), (10_000, 10));
        assert_eq!(counted(31), 10_000, "31 ms are seven whole ticks");
    }

    #[test]
    fn fast_convergence_lowers_what_was_not_regained() {
        let mut cubic = CountedCubic { w_max: Some(100), ..CountedCubic::default() };
        assert_eq!(cubic.reduce(view(at(0), 90), Signal::Mark), 63 * DATAGRAM);
        assert_eq!(cubic.w_max, Some(90 * 1_741 / 2_048));
        assert_eq!(cubic.reduce(view(at(0), 90), Signal::AbeMark), 76 * DATAGRAM);
        assert_eq!(cubic.w_max, Some(90));
    }

    #[test]
    fn a_reduction_taken_back_leaves_the_plateau_where_the_window_is() {
        let mut cubic = CountedCubic::default();
        cubic.on_return(at(0));
        cubic.grow(view(at(0), 50), DATAGRAM);
        let epoch = cubic.epoch.unwrap();
        assert_eq!((cubic.w_max, epoch.plateau, epoch.k), (Some(50), 50, 0));
        // The start went on: nothing has grown since.
        cubic.on_return(at(0));
        cubic.reduce(view(at(0), 100), Signal::Loss);
        cubic.grow(view(at(0), 70), DATAGRAM);
        assert_eq!(cubic.epoch.unwrap().plateau, 100);
    }

    #[test]
    fn a_timeout_forgets_all_but_the_application() {
        let mut cubic = CountedCubic { w_max: Some(100), limited_since: Some(7), ..CountedCubic::default() };
        cubic.grow(view(at(0), 70), DATAGRAM);
        cubic.on_persistent_congestion();
        assert!(cubic.w_max.is_none() && cubic.epoch.is_none() && cubic.limited_since == Some(7));
    }

    #[test]
    fn the_function_does_not_run_while_the_application_is_the_limit() {
        let mut cubic = CountedCubic { w_max: Some(100), ..CountedCubic::default() };
        cubic.grow(view(at(0), 70), DATAGRAM);
        cubic.on_application_limited(at(100), true);
        cubic.on_application_limited(at(5_100), false);
        assert_eq!(cubic.epoch.unwrap().began, 1_250);
    }

    proptest! {
        /// Whatever was before, a round trip adds half of the window at most, and nothing overflows.
        #[test]
        fn a_window_of_acknowledgments_adds_half_of_it_at_most(
            window in 1_u64..100_000,
            w_max in proptest::option::of(1_u64..200_000),
            micros in 0_u64..1 << 60,
            acked in 0_u64..100_000,
        ) {
            let mut cubic = CountedCubic { w_max, ..CountedCubic::default() };
            cubic.grow(view(at(0), window), DATAGRAM);
            let now = Instant::ZERO + Duration::from_micros(micros);
            let grown = cubic.grow(view(now, window), acked.min(window) * DATAGRAM);
            prop_assert!(grown >= window * DATAGRAM);
            prop_assert!(grown <= (window + window / 2 + 2) * DATAGRAM);
        }
    }
}
