//! Counts what an application receives.

use thalweg_units::{Duration, DurationExt, Instant};

use crate::frames::{FrameLog, Frames};

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

/// Moments of media.
#[derive(Clone, Debug, Default)]
pub(crate) struct Media {
    /// When the first frame left.
    pub(crate) began: Option<Instant>,
    /// When the first and the last frame came in time.
    pub(crate) first_in_time: Option<Instant>,
    pub(crate) last_in_time: Option<Instant>,
    /// The highest number among frames that are complete.
    pub(crate) newest: Option<u32>,
}

/// The most points of a curve by bytes.
const MOST_SHARES: usize = 1_024;

/// What one end of a flow has received, over all its connections.
#[derive(Clone, Debug)]
pub struct Meter {
    origin: Instant,
    step: Duration,
    bytes: u64,
    /// Bytes times nanoseconds since the origin.
    byte_time: u128,
    last: Option<Instant>,
    /// The longest time between two arrivals.
    longest_gap: Duration,
    curve: Vec<(Duration, u64)>,
    next_point: Instant,
    /// The same with a point every so many bytes, however long they take.
    shares: Vec<(Duration, u64)>,
    /// How many.
    grain: u64,
    pub(crate) media: Media,
    /// Media.
    pub frames: Frames,
    /// A call: its frames at this end.
    pub call: FrameLog,
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
            longest_gap: Duration::ZERO,
            curve: Vec::new(),
            next_point: origin,
            shares: Vec::new(),
            grain: 1,
            media: Media::default(),
            frames: Frames::default(),
            call: FrameLog::default(),
            transfers: Vec::new(),
        }
    }

    /// Bytes of the application arrived.
    pub fn received(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        self.byte_time += u128::from(now.saturating_since(self.origin).nanos()) * u128::from(bytes);
        if let Some(last) = self.last.replace(now) {
            self.longest_gap = self.longest_gap.max(now.saturating_since(last));
        }
        if self.step > Duration::ZERO && now >= self.next_point {
            self.curve.push((now.saturating_since(self.origin), self.bytes));
            self.next_point = now + self.step;
        }
        if self.step > Duration::ZERO && self.bytes >= self.shares.last().map_or(0, |last| last.1) + self.grain {
            self.shares.push((now.saturating_since(self.origin), self.bytes));
            if self.shares.len() == MOST_SHARES {
                // Half as fine for twice as much.
                self.grain = (self.bytes / (MOST_SHARES as u64 / 2)).max(self.grain + 1);
                let (grain, mut last) = (self.grain, 0);
                self.shares.retain(|(_, bytes)| {
                    let keeps = *bytes >= last + grain;
                    if keeps {
                        last = *bytes;
                    }
                    keeps
                });
            }
        }
    }

    /// A response is complete.
    pub fn transferred(&mut self, now: Instant, start: Instant, bytes: u64) {
        // The end of an empty response counts as an arrival too.
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        let (start, took) = (start.saturating_since(self.origin), now.saturating_since(start));
        self.transfers.push(Transfer { start, took, bytes });
    }

    /// A frame of media leaves.
    pub fn frame_sent(&mut self, at: Instant) {
        self.frames.sent += 1;
        self.media.began.get_or_insert(at);
    }

    /// The frame with this number is complete, `delay` after it left.
    pub fn frame_arrived(&mut self, now: Instant, number: u32, delay: Duration, deadline: Option<Duration>) {
        self.frames.received += 1;
        self.frames.delay.record(delay);
        self.media.newest = self.media.newest.max(Some(number));
        let is_over = |span: Duration| deadline.is_some_and(|deadline| span > deadline);
        if is_over(delay) {
            self.frames.late += 1;
            return;
        }
        let stall = self.media.last_in_time.map_or(Duration::ZERO, |before| now.saturating_since(before));
        if is_over(stall) {
            self.frames.stalls.push(stall);
        }
        self.media.first_in_time.get_or_insert(now);
        self.media.last_in_time = Some(now);
    }

    /// The longest time between two arrivals of bytes.
    pub const fn longest_gap(&self) -> Duration {
        self.longest_gap
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
        self.to_the_end(&self.curve)
    }

    /// The curve with points by bytes rather than by time: each share of a transfer that is as large as one packet
    /// and a 500th of all that arrived has a point of its own, at the time of its arrival.
    pub fn shares(&self) -> Vec<(Duration, u64)> {
        self.to_the_end(&self.shares)
    }

    fn to_the_end(&self, curve: &[(Duration, u64)]) -> Vec<(Duration, u64)> {
        let mut curve = curve.to_vec();
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

    #[test]
    fn every_share_of_a_transfer_has_its_time_however_quick_or_long_it_is() {
        let origin = Instant::ZERO + Duration::from_secs(1);
        for (packets, size) in [(1, 1_000), (30, 1_418), (1_023, 1_418), (1_024, 1_418), (50_001, 1_418), (80_000, 1)] {
            let mut meter = Meter::new(origin, Duration::from_millis(10));
            for packet in 0..packets {
                meter.received(origin + Duration::from_micros(packet), size);
            }
            let shares = meter.shares();
            assert!(shares.len() <= MOST_SHARES + 1, "{}", shares.len());
            assert!(shares.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            assert_eq!(shares.last(), Some(&(Duration::from_micros(packets - 1), packets * size)));
            // Every point is an arrival, and no two are far apart.
            assert!(shares.iter().all(|(at, bytes)| *bytes == (at.as_micros() as u64 + 1) * size));
            let whole = packets * size;
            let apart = shares.iter().scan(0, |before, (_, bytes)| Some(bytes - std::mem::replace(before, *bytes)));
            assert!(apart.max() <= Some(size + whole / 500), "{packets} packets of {size}");
        }
    }
}
