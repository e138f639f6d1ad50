//! Standing queues: times in which even the luckiest datagram waited.

use crate::passage::Passage;
use crate::suspension::{Noise, Suspension};
use crate::trace::Way;

/// The time in which the least delay is taken, in nanoseconds: a queue that is empty once in it does not stand. As long
/// as that of CoDel (RFC 8289 section 4.3), and then as long again for delays that differ.
const WINDOW: i64 = 200_000_000;
/// The least delay above the least of all that makes a standing queue, in nanoseconds.
const LEAST: i64 = 15_000_000;

/// A time in which a queue stood. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StandingQueue {
    /// Which way.
    pub way: Way,
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The most that the luckiest datagram of 200 ms waited.
    pub most: i64,
}

/// Finds standing queues: windows of 200 ms whose least delay exceeds the least of the whole stream by 15 ms and by
/// what delays differ by otherwise. Datagrams that a suspension held do not count. Windows in a row are one.
pub fn standing_queues(way: Way, passages: &[Passage], suspensions: &[Suspension]) -> Vec<StandingQueue> {
    let Some(base) = passages.iter().filter_map(Passage::delay).min() else { return Vec::new() };
    let noise = Noise::of(passages);
    // Spread that comes from a queue must not hide the queue.
    let least = LEAST.max(noise.spread.min(noise.median - base));
    let mut queues: Vec<StandingQueue> = Vec::new();
    let (mut from, mut held) = (0, 0);
    while from < passages.len() {
        let start = passages[from].sent;
        let until = from + passages[from..].partition_point(|passage| passage.sent < start + WINDOW);
        let mut excess: Option<i64> = None;
        for passage in &passages[from..until] {
            while suspensions.get(held).is_some_and(|each| each.end <= passage.sent) {
                held += 1;
            }
            let is_held = suspensions.get(held).is_some_and(|each| passage.sent >= each.start - each.start_error);
            if let Some(delay) = passage.delay().filter(|_| !is_held) {
                excess = Some(excess.map_or(delay - base, |least| least.min(delay - base)));
            }
        }
        let end = passages.get(until).map_or(start + WINDOW, |passage| passage.sent);
        if let Some(excess) = excess.filter(|excess| *excess >= least) {
            match queues.last_mut().filter(|last| last.end >= start) {
                Some(last) => (last.end, last.most) = (end, last.most.max(excess)),
                None => queues.push(StandingQueue { way, start, end, most: excess }),
            }
        }
        from = until.max(from + 1);
    }
    queues
}
