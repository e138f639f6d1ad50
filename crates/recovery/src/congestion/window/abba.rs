//! ABBA (draft-kazuho-ccwg-abba): CUBIC that grows faster while the round-trip time is shorter than the window would
//! have made it, in integers.
//!
//! ```text
//! high = (window before the reduction, smallest RTT from the loss to the end of recovery; before a mark)
//! low  = (window, RTT) where the RTT was smallest since recovery, at first (window, high RTT)
//! line through both, at 2/3 of its slope around low, and of no more slope than the line from the origin
//!      flat, which says nothing, while the two RTTs are less than 5 ms apart
//!      from the origin through what it says now, once window > (2 - beta) × high window
//! where RTT < line(window):   gain   = 3/5 × (window - w(RTT)) / window      w: the window for which the line says RTT
//!                             gain   ≤ beta^(-2/3) - 1 while window < high window / beta
//!                             window += min(gain × acknowledged, window / 2)
//! window = the larger of that and CUBIC's;    congestion: CUBIC's reduction, and nothing of the line is left
//! ```
//!
//! A loss by chance leaves a window that is too small for the path. Then the round-trip time does not rise with the
//! window as the line says, and the window follows the path within a few round trips instead of along the cubic curve.
//! No reduction is left out or made smaller.
//!
//! **Yielding under sustained congestion.** If every round trip brings congestion, the window has to fall whatever the
//! samples say: (1 + gain) × beta < 1. The draft bounds the gain by 2/9, which holds at a beta of 0.7 (0.856) and fails
//! at 0.85 (1.039). The cap of the author's later implementation, which is used here, is `beta^(-2/3) - 1`: what is
//! left is `beta^(1/3)` per round trip, for every beta.
//!
//! | constant | value | source |
//! |---|---|---|
//! | span of the two RTTs | 5 ms | the draft: less is jitter |
//! | share of the slope | 2/3 | the draft: a path faster by less than half is still the same |
//! | share of the room per round trip | 3/5 | the implementation; the draft has 2/3 |
//! | step of the low point | 1 ms | the implementation: less would move it for nothing |
//!
//! Where a queue never spans 5 ms, as on short paths and under losses in every round trip, nothing is known and the
//! window is CUBIC's.

use thalweg_units::{Duration, DurationExt, Instant};

use super::cubic::Backoff;
use super::growth::{Growth, Signal};
use crate::congestion::AckEvent;
use crate::congestion::floor::Floor;
use crate::congestion::view::View;

/// How far apart the two round-trip times have to be (RTT_SPAN_THRESH).
const SPAN: Duration = Duration::from_millis(5);
/// The least by which a smallest round-trip time has to fall to be a new low point.
const LOW_STEP: Duration = Duration::from_millis(1);
/// The share of the slope that is kept (MAX_SLOPE_RATIO).
const SLOPE_SHARE: (u128, u128) = (2, 3);
/// The share of the room that is taken per round trip.
const ROOM_SHARE: (u128, u128) = (3, 5);
/// Fractions of a byte are kept in 2⁻¹⁶.
const FRACTION_BITS: u32 = 16;

/// A factor by which congestion reduces the window, with what follows from it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Beta {
    ratio: (u64, u64),
    /// `beta^(-2/3) - 1`, rounded down, in ten-thousandths.
    most_gain: u128,
}

/// That of CUBIC for a loss.
const LOSS: Beta = Beta { ratio: Backoff::LOSS.beta, most_gain: 2_684 };
/// That of CUBIC for a mark, with `mark=abe`.
const MARK: Beta = Beta { ratio: Backoff::MARK.beta, most_gain: 1_144 };

/// A window in bytes, and a round-trip time in nanoseconds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Point {
    window: u64,
    rtt: u64,
}

/// What the round-trip time should be for each window: a line of `slope` nanoseconds per bytes through `point`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Line {
    point: Point,
    slope: (u128, u128),
    /// Whether it goes through the origin since the window has left the range of the points.
    is_beyond: bool,
}

impl Line {
    /// Through both points, as flat as the draft wants it; `None` if it would be flat.
    fn fit(high: Point, low: Point) -> Option<Line> {
        let span = high.rtt.saturating_sub(low.rtt);
        if u128::from(span) < SPAN.as_nanos() {
            return None;
        }
        let through = (u128::from(span), u128::from(high.window.saturating_sub(low.window).max(1)));
        let origin = (u128::from(low.rtt), u128::from(low.window.max(1)));
        let steepest = if through.0 * origin.1 <= origin.0 * through.1 { through } else { origin };
        let slope = (steepest.0 * SLOPE_SHARE.0, steepest.1 * SLOPE_SHARE.1);
        Some(Line { point: low, slope, is_beyond: false })
    }

    /// From the origin through this point.
    fn from_origin(point: Point) -> Line {
        Line { point, slope: (u128::from(point.rtt), u128::from(point.window.max(1))), is_beyond: true }
    }

    /// The round-trip time that it says for `window`.
    fn rtt(&self, window: u64) -> u64 {
        let Point { window: at, rtt } = self.point;
        let rise = u128::from(window.abs_diff(at)).saturating_mul(self.slope.0) / self.slope.1.max(1);
        let rise = u64::try_from(rise).unwrap_or(u64::MAX);
        if window < at { rtt.saturating_sub(rise) } else { rtt.saturating_add(rise) }
    }

    /// By how many bytes `window` is larger than the one for which it says `rtt`; none if it is not.
    fn room(&self, window: u64, rtt: u64) -> u128 {
        if self.slope.0 == 0 {
            return 0;
        }
        let below = u128::from(self.point.rtt.abs_diff(rtt)).saturating_mul(self.slope.1) / self.slope.0;
        let at = u128::from(self.point.window);
        let window = u128::from(window);
        if rtt < self.point.rtt {
            window.saturating_add(below).saturating_sub(at)
        } else {
            window.saturating_sub(at.saturating_add(below))
        }
    }
}

/// What has been seen since the last congestion.
#[derive(Copy, Clone, Debug)]
struct Period {
    high: Point,
    /// Whether samples of the recovery period may still lower the high point: not those after a mark.
    follows_recovery: bool,
    beta: Beta,
    low: Option<Point>,
    line: Option<Line>,
}

impl Period {
    /// A sample, taken at this window.
    fn on_sample(&mut self, point: Point, recovering: bool, floor: u64) {
        if recovering {
            if self.follows_recovery {
                self.high.rtt = self.high.rtt.min(point.rtt);
            }
            return;
        }
        let low = *self.low.get_or_insert(Point { window: point.window, rtt: self.high.rtt });
        if u128::from(low.rtt) >= u128::from(point.rtt) + LOW_STEP.as_nanos() {
            self.low = Some(point);
            // Beyond the high point, a line through both would absorb what it is there to find.
            if point.window < self.high.window {
                self.line = Line::fit(self.high, point);
            }
        }
        let is_beyond = self.line.is_some_and(|line| line.is_beyond);
        if !is_beyond && point.window > self.far() {
            let flat = self.low.map_or(point.rtt, |low| low.rtt);
            let said = self.line.map_or(flat, |line| line.rtt(point.window));
            self.line = Some(Line::from_origin(Point { window: point.window, rtt: floor.max(said) }));
        }
    }

    /// The window beyond which the line goes through the origin.
    fn far(&self) -> u64 {
        let (num, den) = self.beta.ratio;
        thalweg_units::math::mul_div(self.high.window, 2 * den - num, den)
    }

    /// How much more window so many acknowledged bytes are worth, in 2⁻¹⁶ bytes.
    fn acceleration(&self, window: u64, rtt: u64, acked: u64) -> u64 {
        let Some(line) = self.line.filter(|line| rtt < line.rtt(window)) else { return 0 };
        let acked = u128::from(acked) << FRACTION_BITS;
        let room = line.room(window, rtt).saturating_mul(ROOM_SHARE.0);
        let mut more = acked.saturating_mul(room) / (ROOM_SHARE.1 * u128::from(window.max(1)));
        let (num, den) = self.beta.ratio;
        if u128::from(window) * u128::from(num) < u128::from(self.high.window) * u128::from(den) {
            more = more.min(acked.saturating_mul(self.beta.most_gain) / 10_000);
        }
        u64::try_from(more).unwrap_or(u64::MAX).min((window / 2) << FRACTION_BITS)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Abba {
    /// What grows the window otherwise, and reduces it.
    base: Box<dyn Growth>,
    floor: Floor,
    /// `None` before the first congestion.
    period: Option<Period>,
    /// The part of the growth that is less than a byte, in 2⁻¹⁶.
    fraction: u64,
}

impl Abba {
    pub(crate) fn new(base: Box<dyn Growth>) -> Abba {
        Abba { base, floor: Floor::default(), period: None, fraction: 0 }
    }

    fn observe_sample(&mut self, view: View, recovering: bool) {
        let sample = view.latest_rtt.nanos();
        self.floor.on_sample(view.now, view.smoothed_rtt, view.latest_rtt);
        let floor = self.floor.smallest().map_or(sample, DurationExt::nanos);
        if let Some(period) = &mut self.period {
            period.on_sample(Point { window: view.window, rtt: sample }, recovering, floor);
        }
    }
}

impl Growth for Abba {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let ordinary = self.base.grow(view, acked);
        let rtt = view.latest_rtt.nanos();
        let more = self.period.map_or(0, |period| period.acceleration(view.window, rtt, acked));
        let more = more.saturating_add(self.fraction);
        let accelerated = view.window.saturating_add(more >> FRACTION_BITS);
        if more == self.fraction || accelerated < ordinary {
            self.fraction = 0;
            return ordinary;
        }
        self.fraction = more & ((1 << FRACTION_BITS) - 1);
        accelerated
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        let latest = view.latest_rtt.nanos();
        let is_mark = signal != Signal::Loss;
        // A mark shows a queue that has stood for a while, a loss of one that is full now.
        let rtt = if is_mark { self.floor.smallest().map_or(latest, DurationExt::nanos) } else { latest };
        self.period = Some(Period {
            high: Point { window: view.window, rtt },
            follows_recovery: !is_mark,
            beta: if signal == Signal::AbeMark { MARK } else { LOSS },
            low: None,
            line: None,
        });
        self.fraction = 0;
        self.base.reduce(view, signal)
    }

    fn observe(&mut self, view: View, event: &AckEvent<'_>, recovering: bool) {
        if event.has_rtt_sample && event.congestion.is_none() {
            self.observe_sample(view, recovering);
        }
    }

    fn cycle(&self, view: View) -> u32 {
        self.base.cycle(view)
    }

    fn on_start_exit(&mut self, view: View) {
        self.period = None;
        self.base.on_start_exit(view);
    }

    fn on_persistent_congestion(&mut self) {
        self.period = None;
        self.base.on_persistent_congestion();
    }

    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        self.base.on_application_limited(now, limited);
    }

    fn on_datagram_size(&mut self) {
        self.base.on_datagram_size();
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(Abba { base: self.base.snapshot(), ..*self })
    }
}

#[cfg(test)]
mod tests;
