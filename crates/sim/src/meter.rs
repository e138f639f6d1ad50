//! Counts what an application receives.

use thalweg_units::{Duration, DurationExt, Instant};

use crate::result::Frames;

/// A request and its response.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When the request was made, counted from the start of the run.
    pub start: Duration,
    /// How long it took to the last byte of the response.
    pub took: Duration,
    /// Bytes of request and response.
    pub bytes: u64,
}

/// What one end of a flow has received, over all its connections.
#[derive(Clone, Debug)]
pub struct Meter {
    origin: Instant,
    step: Duration,
    bytes: u64,
    /// Bytes times nanoseconds since the origin.
    byte_time: u128,
    last: Option<Instant>,
    curve: Vec<(Duration, u64)>,
    next_point: Instant,
    /// Media.
    pub frames: Frames,
    /// Requests that were answered.
    pub transfers: Vec<Transfer>,
}

impl Meter {
    /// Counts from `origin`, with a point of the curve every `step` at most (none if zero).
    pub fn new(origin: Instant, step: Duration) -> Self {
        Meter {
            origin,
            step,
            bytes: 0,
            byte_time: 0,
            last: None,
            curve: Vec::new(),
            next_point: origin,
            frames: Frames::default(),
            transfers: Vec::new(),
        }
    }

    /// Bytes of the application arrived.
    pub fn received(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        self.byte_time += u128::from(now.saturating_since(self.origin).nanos()) * u128::from(bytes);
        self.last = Some(now);
        if self.step > Duration::ZERO && now >= self.next_point {
            self.curve.push((now.saturating_since(self.origin), self.bytes));
            self.next_point = now + self.step;
        }
    }

    /// A response is complete.
    pub fn transferred(&mut self, now: Instant, start: Instant, bytes: u64) {
        // The end of an empty response counts as an arrival too.
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        let (start, took) = (start.saturating_since(self.origin), now.saturating_since(start));
        self.transfers.push(Transfer { start, took, bytes });
    }

    /// Bytes so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the last of them came.
    pub const fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Bytes times nanoseconds since the origin, summed: the mean arrival is this over [`bytes`](Self::bytes).
    pub const fn byte_time(&self) -> u128 {
        self.byte_time
    }

    /// The curve, its last point included.
    pub fn curve(&self) -> Vec<(Duration, u64)> {
        let mut curve = self.curve.clone();
        if let Some(last) = self.last.filter(|_| self.step > Duration::ZERO) {
            let end = (last.saturating_since(self.origin), self.bytes);
            if curve.last() != Some(&end) {
                curve.push(end);
            }
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_byte_and_the_curve_are_those_of_the_arrivals() {
        let origin = Instant::ZERO + Duration::from_secs(1);
        let ms = Duration::from_millis;
        let mut meter = Meter::new(origin, ms(10));
        for (at, bytes) in [(0, 100), (5, 100), (10, 200), (12, 400)] {
            meter.received(origin + ms(at), bytes);
        }
        assert_eq!(meter.bytes(), 800);
        assert_eq!(meter.curve(), [(ms(0), 100), (ms(10), 400), (ms(12), 800)]);
        let mean = meter.byte_time() / u128::from(meter.bytes());
        assert_eq!(mean, (5 * 100 + 10 * 200 + 12 * 400) * 1_000_000 / 800);
    }
}
