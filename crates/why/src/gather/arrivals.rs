//! What a receiver's log shows of a transfer: how fast data came, when they did not, what came twice, and whether the
//! sender said that it waited for credit.

use std::collections::BTreeMap;

use super::frames::Frames;

/// Over so long the best rate is taken, milliseconds.
const STEP: f64 = 100.0;
/// Shorter times without data are none, milliseconds.
const SHORTEST: f64 = 50.0;

/// Packets whose times are kept: the first.
const KEPT: usize = 1 << 14;

/// When packets with application data left, or came, by their numbers: milliseconds, and their bytes.
pub(crate) type Times = BTreeMap<u64, (f64, u64)>;

/// Keeps the time of a packet; the first, if it came twice.
pub(super) fn keep(times: &mut Times, number: u64, now: f64, size: u64) {
    if times.len() < KEPT {
        times.entry(number).or_insert((now, size));
    }
}

/// Data that arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<f64>,
    /// The longest time without data: begin and end, milliseconds.
    pub(crate) longest: Option<(f64, f64)>,
    /// Bytes in the step under way, and when it began.
    step: (u64, f64),
    /// The most bytes of a step.
    best: u64,
    /// Bytes of pieces of streams, those that came again included.
    pub(crate) bytes: u64,
    /// Frames with which the sender said that it waited for credit.
    pub(crate) blocked: u64,
    /// When packets came.
    pub(crate) times: Times,
}

impl Arrivals {
    pub(super) fn add(&mut self, now: f64, frames: &Frames) {
        self.blocked += u64::from(frames.is_blocked);
        let bytes: u64 = frames.pieces.iter().map(|piece| piece.length).sum();
        if bytes == 0 {
            return;
        }
        self.bytes += bytes;
        if let Some(last) = self.last.replace(now) {
            let is_longer = self.longest.is_none_or(|(from, to)| now - last > to - from);
            if now - last > SHORTEST && is_longer {
                self.longest = Some((last, now));
            }
        }
        if now - self.step.1 >= STEP {
            self.step = (0, now);
        }
        self.step.0 += bytes;
        self.best = self.best.max(self.step.0);
    }

    /// The best rate, bytes per millisecond.
    pub(crate) fn best_rate(&self) -> f64 {
        self.best as f64 / STEP
    }
}

/// What the receiver's log adds to the sender's.
#[derive(Clone, Debug)]
pub(crate) struct OtherEnd {
    /// What the receiver saw, in words.
    pub(crate) seen: String,
    /// Packets with application data that came, if its log is whole.
    pub(crate) came: Option<u64>,
    /// The rate at which packets came that had left closer together, bytes of UDP payload per millisecond: that of the
    /// bottleneck.
    pub(crate) rate: Option<f64>,
}
