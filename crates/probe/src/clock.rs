//! The server's clock against the client's: offset and drift, with bounds that the truth cannot leave.
//!
//! A datagram that takes the time `d` up shows the offset plus `d`; one that takes `d` down shows the offset less `d`.
//! So the offset, as a line over time, runs below all points of the way up and above all points of the way down: the
//! corridor between two convex hulls (S. Moon, P. Skelly, D. Towsley, "Estimation and removal of clock skew from
//! network delay measurements", INFOCOM 1999; L. Zhang, Z. Liu, C. Xia, "Clock synchronization algorithms for network
//! measurements", INFOCOM 2002). Of the lines that fit, the estimate is the middle of the widest straight corridor:
//! half the least round trip from either side, as NTP has it (RFC 5905 section 10). What lies between the outermost
//! lines that fit is the bound. Nothing that is measured at the two ends can tell more: a path whose ways differ in
//! delay looks like clocks that differ.
//!
//! Where no line fits, one of the clocks was adjusted: the time is halved, and each half gets a line of its own.

use crate::trace::{Trace, Way};

/// Drift of more than this is no drift of a clock, in parts per million: operating systems adjust clocks by up to 500.
const MOST_DRIFT: f64 = 1_000e-6;
/// The shortest time that gets a line of its own, in nanoseconds.
const SHORTEST: i64 = 10_000_000_000;

/// The offset of the server's clock from the client's over a time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ClockPiece {
    /// From when, in nanoseconds of the client's clock.
    pub from: i64,
    /// Until when.
    pub until: i64,
    /// The server's clock less the client's in the middle of that time, in nanoseconds.
    pub offset: i64,
    /// By how much the offset grows, in nanoseconds per nanosecond of the client's clock.
    pub drift: f64,
    /// How far the estimated offset may be from the truth at any time of the piece, in nanoseconds.
    pub bound: i64,
    /// The bound in the middle of that time: at most about half the least round trip.
    pub middle_bound: i64,
    /// Least and greatest drift that fit.
    pub drifts: (f64, f64),
}

impl ClockPiece {
    /// The estimated offset at this time of the client's clock, in nanoseconds.
    pub fn offset_at(&self, at: i64) -> i64 {
        let middle = self.from + (self.until - self.from) / 2;
        self.offset.saturating_add(((at.saturating_sub(middle)) as f64 * self.drift) as i64)
    }
}

/// The server's clock as the client's tells it: one piece, or several if a clock was adjusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// In the order of time.
    pub pieces: Vec<ClockPiece>,
}

/// A limit of the offset: when, and how much, in nanoseconds.
type Point = (i64, i64);

impl Clock {
    /// Estimates the clock from a trace; `None` unless datagrams have arrived both ways.
    pub fn of(trace: &Trace) -> Option<Clock> {
        let difference = |a: u64, b: u64| i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(0);
        let mut above: Vec<Point> = Vec::new();
        let mut below: Vec<Point> = Vec::new();
        for datagram in trace.stream(Way::Up) {
            if let Some(received) = datagram.received {
                above.push((datagram.sent as i64, difference(received, datagram.sent)));
            }
        }
        for datagram in trace.stream(Way::Down) {
            if let Some(received) = datagram.received {
                below.push((received as i64, difference(datagram.sent, received)));
            }
        }
        below.sort_unstable();
        let from = above.first()?.0.min(below.first()?.0);
        let until = above.last()?.0.max(below.last()?.0) + 1;
        let mut pieces = Vec::new();
        fit_pieces(&above, &below, from, until, &mut pieces);
        Some(Clock { pieces })
    }

    /// The offset at this time of the client's clock, in nanoseconds: the server's clock less the client's.
    pub fn offset_at(&self, at: i64) -> i64 {
        let after = self.pieces.iter().find(|piece| at < piece.until).or(self.pieces.last());
        after.map_or(0, |piece| piece.offset_at(at))
    }

    /// The greatest bound of any piece, in nanoseconds.
    pub fn bound(&self) -> i64 {
        self.pieces.iter().map(|piece| piece.bound).max().unwrap_or(0)
    }

    /// This time of the server's clock by the client's clock, in nanoseconds.
    pub fn to_client(&self, at: u64) -> i64 {
        // The offset changes by less than a microsecond for a millisecond of error, so that two steps are exact enough.
        let guess = self.pieces.first().map_or(0, |piece| piece.offset);
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let near = at.saturating_sub(self.offset_at(at.saturating_sub(guess)));
        at.saturating_sub(self.offset_at(near))
    }
}

/// The part of points that are ordered by time which is in this time.
fn within(points: &[Point], from: i64, until: i64) -> &[Point] {
    let start = points.partition_point(|point| point.0 < from);
    let end = points.partition_point(|point| point.0 < until);
    points.get(start..end).unwrap_or(&[])
}

fn fit_pieces(above: &[Point], below: &[Point], from: i64, until: i64, pieces: &mut Vec<ClockPiece>) {
    let (a, b) = (within(above, from, until), within(below, from, until));
    let Some(corridor) = Corridor::new(a, b, from, until) else { return };
    let middle = from + (until - from) / 2;
    let can_split = until - from >= 2 * SHORTEST && {
        let has_both = |from, until| !within(a, from, until).is_empty() && !within(b, from, until).is_empty();
        has_both(from, middle) && has_both(middle, until)
    };
    let (drift, width) = corridor.widest();
    if width < 0.0 && can_split {
        fit_pieces(above, below, from, middle, pieces);
        fit_pieces(above, below, middle, until, pieces);
        return;
    }
    pieces.push(corridor.piece(drift, width));
}

/// What limits the lines that fit, relative to a point in the middle, so that numbers stay small.
struct Corridor {
    from: i64,
    until: i64,
    origin: i64,
    /// Lower hull of the points above, and upper hull of those below.
    above: Vec<(f64, f64)>,
    below: Vec<(f64, f64)>,
}

/// The lower convex hull of points in the order of time (A. Andrew, "Another efficient algorithm for convex hulls in
/// two dimensions", 1979).
fn lower_hull(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (point.1 - a.1) <= (b.1 - a.1) * (point.0 - a.0)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// The place between `low` and `high` where a function with one peak is greatest.
fn peak(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if f(a) < f(b) { low = a } else { high = b }
    }
    low + (high - low) / 2.0
}

/// The place between `no` and `yes` where a condition that holds at `yes` begins to hold; `no` if it holds there.
fn border(no: f64, yes: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(no) {
        return no;
    }
    let (mut no, mut yes) = (no, yes);
    for _ in 0..100 {
        let middle = no + (yes - no) / 2.0;
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

impl Corridor {
    fn new(above: &[Point], below: &[Point], from: i64, until: i64) -> Option<Corridor> {
        let origin = above.first()?.1;
        let middle = from + (until - from) / 2;
        let near = |point: &Point| ((point.0 - middle) as f64, point.1.saturating_sub(origin) as f64);
        let flip = |(x, y): (f64, f64)| (x, -y);
        let upper = lower_hull(below.iter().map(|point| flip(near(point)))).into_iter().map(flip).collect();
        let corridor = Corridor { from, until, origin, above: lower_hull(above.iter().map(near)), below: upper };
        (!below.is_empty()).then_some(corridor)
    }

    /// The highest offset at `at` of a line with this drift, and the lowest.
    fn limits(&self, at: f64, drift: f64) -> (f64, f64) {
        let moved = |(x, y): &(f64, f64)| y - drift * (x - at);
        let high = self.above.iter().map(moved).fold(f64::INFINITY, f64::min);
        let low = self.below.iter().map(moved).fold(f64::NEG_INFINITY, f64::max);
        (high, low)
    }

    fn width(&self, drift: f64) -> f64 {
        let (high, low) = self.limits(0.0, drift);
        high - low
    }

    /// The drift of the widest straight corridor, and its width; below zero if no line fits.
    fn widest(&self) -> (f64, f64) {
        let drift = peak(-MOST_DRIFT, MOST_DRIFT, |drift| self.width(drift));
        (drift, self.width(drift))
    }

    fn piece(&self, drift: f64, width: f64) -> ClockPiece {
        let fits = |drift: f64| self.width(drift) >= 0.0;
        let (least, most) = match width >= 0.0 {
            true => (border(-MOST_DRIFT, drift, fits), border(MOST_DRIFT, drift, fits)),
            false => (drift, drift),
        };
        let (high, low) = self.limits(0.0, drift);
        let offset = low + (high - low) / 2.0;
        // How far a line that fits can be from the estimate at a time. A datagram shows the offset when it arrives, and
        // is counted when it was sent: for the least delays that is a matter of nanoseconds.
        let margin = 1_000.0 + MOST_DRIFT * width.max(0.0);
        let bound_at = |at: f64| {
            let highest = peak(least, most, |drift| self.limits(at, drift).0);
            let lowest = peak(least, most, |drift| -self.limits(at, drift).1);
            let (highest, lowest) = (self.limits(at, highest).0, self.limits(at, lowest).1);
            let here = offset + drift * at;
            (highest - here).max(here - lowest) + margin
        };
        let half = (self.until - self.from) as f64 / 2.0;
        ClockPiece {
            from: self.from,
            until: self.until,
            offset: self.origin.saturating_add(offset as i64),
            drift,
            // The outermost lines that fit bend away from the estimate: they are farthest at an end.
            bound: bound_at(-half).max(bound_at(half)) as i64,
            middle_bound: bound_at(0.0) as i64,
            drifts: (least, most),
        }
    }
}
