//! Counts what an application receives.

use thalweg_units::{Duration, DurationExt, Instant, exact_duration};

use crate::call::FrameLog;
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

/// Moments of media.
#[derive(Clone, Debug, Default)]
struct Media {
    /// When the first frame left.
    began: Option<Instant>,
    /// When the first and the last frame came in time.
    first_in_time: Option<Instant>,
    last_in_time: Option<Instant>,
    /// The highest number among frames that are complete.
    newest: Option<u32>,
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
    curve: Vec<(Duration, u64)>,
    next_point: Instant,
    /// The same with a point every so many bytes, however long they take.
    shares: Vec<(Duration, u64)>,
    /// How many.
    grain: u64,
    media: Media,
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
        self.last = Some(now);
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

/// The media of a flow as they were meant to be.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Due {
    /// Time between frames.
    pub(crate) interval: Duration,
    /// How late a frame may be, if that is limited.
    pub(crate) deadline: Option<Duration>,
    /// How many there were to be, if that was limited.
    pub(crate) frames: Option<u64>,
    /// When the client sent its first datagram.
    pub(crate) start: Instant,
    /// When the run ended.
    pub(crate) now: Instant,
    /// When it would have ended at the latest.
    pub(crate) limit: Instant,
}

/// The end of media counts as reached when one of so many of the last frames is there, if they take a second or more.
const LAST_FRAMES: u64 = 10;

impl Due {
    /// What became of the frames: those that were never sent have not arrived either, and a stall that did not end
    /// lasts until the last frame was due.
    pub(crate) fn frames(&self, sender: &Meter, receiver: &Meter) -> Frames {
        let mut frames = receiver.frames.clone();
        frames.sent = sender.frames.sent;
        frames.due = self.frames.unwrap_or(frames.sent);
        let began = sender.media.began.unwrap_or(self.start);
        let end = match self.frames {
            Some(count) => (began + nanos_times(self.interval, count)).min(self.limit),
            None => self.now,
        };
        let first = receiver.media.first_in_time.unwrap_or(end).saturating_since(began);
        let is_over = |span: Duration| self.deadline.is_some_and(|deadline| span > deadline);
        if is_over(first) {
            frames.stalls.insert(0, first);
        }
        let last = receiver.media.last_in_time.map_or(Duration::ZERO, |last| end.saturating_since(last));
        if is_over(last) {
            frames.stalls.push(last);
        }
        frames
    }

    /// Why media that ran to their end do not count as complete, if so: nothing arrived of what was sent last.
    pub(crate) fn cut_off(&self, receiver: &Meter) -> Option<String> {
        let count = self.frames?;
        let second = Duration::from_secs(1).nanos().div_ceil(self.interval.nanos().max(1));
        let last = second.max(LAST_FRAMES).min(count);
        let arrived = receiver.media.newest.is_some_and(|newest| u64::from(newest) + last >= count);
        (!arrived).then(|| {
            let span = exact_duration(nanos_times(self.interval, last));
            format!("none of its last {last} frames, the last {span}, arrived")
        })
    }
}

fn nanos_times(span: Duration, count: u64) -> Duration {
    Duration::from_nanos(span.nanos().saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_that_does_not_end_lasts_until_the_last_frame_was_due() {
        let ms = Duration::from_millis;
        let origin = Instant::ZERO + ms(1000);
        let due = Due {
            interval: ms(20),
            deadline: Some(ms(100)),
            frames: Some(200),
            start: origin,
            now: origin + ms(5000),
            limit: origin + ms(60_000),
        };
        let (mut sender, mut receiver) = (Meter::new(origin, ms(0)), Meter::new(origin, ms(0)));
        // Nothing at all arrives: the whole call is one stall.
        sender.frame_sent(origin + ms(50));
        assert_eq!(due.frames(&sender, &receiver).stalls, [ms(4000)]);
        assert_eq!(due.frames(&sender, &receiver).missed(), 200);
        // The first frames are lost, those of a second arrive, the rest is lost.
        for number in 15..65 {
            let at = origin + ms(50 + 20 * number);
            sender.frame_sent(at);
            receiver.frame_arrived(at + ms(10), number as u32, ms(10), Some(ms(100)));
        }
        let frames = due.frames(&sender, &receiver);
        assert_eq!(frames.stalls, [ms(310), ms(4000 - 64 * 20 - 10)]);
        assert_eq!((frames.due, frames.sent, frames.received, frames.missed()), (200, 51, 50, 150));
        assert!(due.cut_off(&receiver).unwrap().contains("last 50 frames"));
        // One of the last second is enough for the end to be reached, late or not.
        receiver.frame_arrived(origin + ms(4500), 150, ms(500), Some(ms(100)));
        assert_eq!(due.cut_off(&receiver), None);
        // Frames are due until the run is stopped, not beyond.
        let short = Due { limit: origin + ms(2050), ..due };
        assert_eq!(short.frames(&sender, &receiver).stalls[1], ms(2000 - 64 * 20 - 10));
    }

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
