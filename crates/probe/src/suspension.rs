//! Suspensions: times in which nothing left one end of the path, and after which all that had waited arrived at once.
//!
//! A Wi-Fi card that scans or sleeps holds datagrams back and then sends all of them. A queue is different: it grows by
//! and by, and drains at the rate of its line, so that what waited in it arrives spread over time. Two streams tell
//! which way was held; an echo cannot, since it is held if either way is.
//!
//! The method looks at what each datagram waited for *at the head of the line*: after it was there itself, and after
//! its predecessor had left. `wait = (received − level) − max(sent, received of the predecessor − level)`, where
//! `level` is the delay of datagrams shortly before that were not held. Of all datagrams that a suspension holds,
//! only the first has a wait: those behind it leave right after it. In a standing queue none has.

use std::collections::VecDeque;

use crate::passage::Passage;
use crate::quantiles;
use crate::trace::Way;

/// Delays that make the level: at 20 ms, those of the last 180 ms.
pub(crate) const LEVEL: usize = 9;
/// The least wait of a suspension, in nanoseconds. Jitter of a radio link is seldom more.
const LEAST_WAIT: i64 = 25_000_000;
/// A wait that makes a suspension also where what was held arrives spread over time, in nanoseconds: beside the
/// traffic of others that was held with it, or on a slow line.
const LONG_WAIT: i64 = 45_000_000;
/// The least suspension whose first datagram was lost, from when that was sent.
const LEAST_WITH_LOSS: i64 = 30_000_000;
/// Datagrams that are lost before a held one belong to the suspension if they were sent this much before, at most.
const MOST_LOST: usize = 3;
/// Suspensions with no more than this between them belong to a series.
const SERIES_GAP: i64 = 1_000_000_000;
/// Suspensions that make a series, at least.
const SERIES_LEAST: usize = 3;

/// How much delays differ when nothing is held.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// The median delay, in nanoseconds.
    pub median: i64,
    /// By how much the delays of a datagram and of the next differ: nine of ten by less than this, in nanoseconds. A
    /// queue that fills and drains changes delays by little from one datagram to the next.
    pub spread: i64,
}

impl Noise {
    /// The noise of these passages, all of which count.
    pub fn of<'a>(passages: impl IntoIterator<Item = &'a Passage>) -> Noise {
        let (median, mut differences) = Noise::differences(passages);
        Noise { median, spread: quantiles::of(&mut differences, 9, 10).unwrap_or(0) }
    }

    /// The noise as the middle of the passages has it: also where one in five was held. Nine of ten differ by less than
    /// three times the median where delays are log-normal as on Wi-Fi, and by 2.4 times where they are normal.
    fn of_middle(passages: &[Passage]) -> Noise {
        let (median, mut differences) = Noise::differences(passages);
        Noise { median, spread: 3 * quantiles::of(&mut differences, 1, 2).unwrap_or(0) }
    }

    fn differences<'a>(passages: impl IntoIterator<Item = &'a Passage>) -> (i64, Vec<i64>) {
        let mut delays: Vec<i64> = passages.into_iter().filter_map(Passage::delay).collect();
        let differences = delays.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
        (quantiles::of(&mut delays, 1, 2).unwrap_or(0), differences)
    }
}

/// A suspension of one way. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Suspension {
    /// Which way was held.
    pub way: Way,
    /// When it began: between the last datagram that left before and the first that was held.
    pub start: i64,
    /// How far `start` may be from the truth, either way, as far as sending at intervals says.
    pub start_error: i64,
    /// When it ended.
    pub end: i64,
    /// Datagrams that were held and arrived.
    pub held: u32,
    /// Datagrams of that time that were lost.
    pub lost: u32,
}

impl Suspension {
    /// How long it took, in nanoseconds.
    pub fn length(&self) -> i64 {
        self.end - self.start
    }
}

/// How long this datagram and its predecessor tell that the way was held.
struct Wait {
    /// When the line was free for the datagram, or for the first that was lost before it.
    ready: i64,
    /// The predecessor's departure.
    before: i64,
    released: i64,
    lost: u32,
}

/// Finds the suspensions of a stream, which was sent every `interval` nanoseconds.
///
/// A suspension is found if its first datagram waited for 25 ms, a quarter more than the interval, and six times what
/// delays differ by otherwise ([`Noise::spread`]); if datagrams before that were lost, half of that noise is enough,
/// and 30 ms from the first of them. Its error is half an interval at the start, and at the end what one datagram's
/// delay differs from the level. The noise is that of datagrams that are not held, so that the method is used twice.
pub fn suspensions(way: Way, passages: &[Passage], interval: i64) -> Vec<Suspension> {
    let first = with_noise(way, passages, interval, Noise::of_middle(passages));
    let mut held = first.iter().peekable();
    let is_free = |passage: &&Passage| {
        while held.next_if(|each| each.end <= passage.sent).is_some() {}
        held.peek().is_none_or(|each| passage.sent < each.start - each.start_error)
    };
    let free: Vec<&Passage> = passages.iter().filter(is_free).collect();
    with_noise(way, passages, interval, Noise::of(free))
}

/// Finds the suspensions of a stream whose noise is known.
fn with_noise(way: Way, passages: &[Passage], interval: i64, noise: Noise) -> Vec<Suspension> {
    let least = LEAST_WAIT.max(interval + interval / 4).max(6 * noise.spread);
    let least_alone = least.min(3 * noise.spread).max(2_000_000);
    let least_with_loss = least + LEAST_WITH_LOSS - LEAST_WAIT;
    let earliest_after = earliest_after(passages);
    let mut found: Vec<Suspension> = Vec::new();
    let mut waited: Vec<i64> = Vec::new();
    let mut recent: VecDeque<i64> = VecDeque::new();
    let mut before: Option<(usize, &Passage, i64)> = None;
    for (index, passage) in passages.iter().enumerate() {
        let Some(received) = passage.received else { continue };
        let level = level(&recent, noise.median);
        let is_overtaken = earliest_after.get(index + 1).is_some_and(|after| *after < received - 2_000_000);
        let wait = before.map(|(at, _, left)| wait(passages, (at, left), (index, received - level)));
        let is_held = |end: i64| passage.sent < end;
        let suspension = wait.filter(|wait| {
            let alone = wait.released - passage.sent.max(wait.before);
            let with_lost = wait.released - wait.ready;
            alone >= least || (wait.lost > 0 && alone >= least_alone && with_lost >= least_with_loss)
        });
        if let Some(wait) = suspension.filter(|_| !is_overtaken) {
            waited.push(wait.released - passage.sent.max(wait.before));
            // What was there before the line was free is held from the very start.
            let (start, error) = match before {
                Some((_, last, _)) if wait.before < wait.ready => {
                    let left = if wait.before - last.sent > 3 * noise.spread { wait.before } else { last.sent };
                    (left + (wait.ready - left) / 2, (wait.ready - left) / 2)
                }
                _ => (wait.ready, interval / 2),
            };
            let (end, held) = (wait.released, 1);
            found.push(Suspension { way, start, start_error: error, end, held, lost: wait.lost });
        } else if let Some(last) = found.last_mut().filter(|last| is_held(last.end)) {
            last.held += 1;
        } else if !is_overtaken {
            recent.push_back(received - passage.sent);
            if recent.len() > LEVEL {
                recent.pop_front();
            }
        }
        // The line was free again when this one left; never before one that left earlier.
        let left = (received - level).max(before.map_or(i64::MIN, |(_, _, left)| left));
        let left = if is_overtaken { before.map_or(left, |(_, _, left)| left) } else { left };
        before = Some((index, passage, left));
    }
    // No queue grows by so much from one datagram to the next, unless a burst comes at several times the line's rate.
    let is_long = |wait: i64| wait >= LONG_WAIT.max(2 * interval + interval / 2);
    let kept = found.into_iter().zip(waited);
    let kept = kept.filter(|(each, wait)| is_long(*wait) || arrives_at_once(each, passages, noise));
    kept.map(|(suspension, _)| suspension).collect()
}

/// The earliest arrival of this datagram and of all that were sent after it.
fn earliest_after(passages: &[Passage]) -> Vec<i64> {
    let mut earliest = vec![i64::MAX; passages.len() + 1];
    for (index, passage) in passages.iter().enumerate().rev() {
        earliest[index] = earliest[index + 1].min(passage.received.unwrap_or(i64::MAX));
    }
    earliest
}

fn level(recent: &VecDeque<i64>, median: i64) -> i64 {
    // Until there are enough, the median of all.
    if recent.len() < LEVEL {
        return median;
    }
    let mut delays: Vec<i64> = recent.iter().copied().collect();
    quantiles::of(&mut delays, 1, 2).unwrap_or(median)
}

/// `before` is the place of the predecessor and when it left, `now` the datagram's place and when it left.
fn wait(passages: &[Passage], before: (usize, i64), now: (usize, i64)) -> Wait {
    let between = passages.get(before.0 + 1..now.0).unwrap_or(&[]);
    // Only the last ones: an outage that loses everything is none of this.
    let lost = if between.len() <= MOST_LOST { between } else { &[] };
    let first = lost.first().map_or(passages[now.0].sent, |passage| passage.sent);
    Wait { ready: first.max(before.1), before: before.1, released: now.1, lost: lost.len() as u32 }
}

/// Whether what was sent during a suspension arrived at its end, all at once, and not as from a queue that drains:
/// there, arrivals are at least half as far apart as the datagrams were when they were sent.
fn arrives_at_once(suspension: &Suspension, passages: &[Passage], noise: Noise) -> bool {
    let from = passages.partition_point(|passage| passage.sent < suspension.start);
    let until = passages.partition_point(|passage| passage.sent < suspension.end);
    let held = || passages.get(from..until).into_iter().flatten().filter(|passage| passage.received.is_some());
    let (Some(first), Some(last)) = (held().next(), held().next_back()) else { return true };
    let (Some(begin), Some(end)) = (first.received, last.received) else { return true };
    let (arrived, sent) = (end - begin, last.sent - first.sent);
    arrived <= (sent / 2).max(4 * noise.spread)
}

/// The suspensions of both ways as they happened: one that held both at a time is one event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Event {
    /// When it began, in nanoseconds since the measurement began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// The suspension of the way up.
    pub up: Option<Suspension>,
    /// The suspension of the way down.
    pub down: Option<Suspension>,
    /// The series that it belongs to, counted from 0.
    pub series: Option<usize>,
}

impl Event {
    /// "up", "down" or "both".
    pub fn way(&self) -> &'static str {
        match (&self.up, &self.down) {
            (Some(_), Some(_)) => "both",
            (None, _) => Way::Down.name(),
            (_, None) => Way::Up.name(),
        }
    }

    /// How long it took, in nanoseconds.
    pub fn length(&self) -> i64 {
        self.end - self.start
    }

    /// Datagrams that it held, and that were lost in it.
    pub fn datagrams(&self) -> (u32, u32) {
        let ways = [self.up, self.down].into_iter().flatten();
        ways.fold((0, 0), |(held, lost), each| (held + each.held, lost + each.lost))
    }
}

/// Joins the suspensions of both ways: two of which the longer is covered by half or more are one event. Names series:
/// three or more with at most a second between one and the next.
pub fn events(up: &[Suspension], down: &[Suspension]) -> Vec<Event> {
    let alone = |each: &Suspension| Event { start: each.start, end: each.end, up: None, down: None, series: None };
    let mut events: Vec<Event> = up.iter().map(|each| Event { up: Some(*each), ..alone(each) }).collect();
    for each in down {
        let overlap = |event: &Event| event.end.min(each.end) - event.start.max(each.start);
        let is_same = |event: &Event| {
            event.down.is_none() && 2 * overlap(event) >= event.length().max(each.length()) && overlap(event) > 0
        };
        // Events of the way up are in the order of time, and only those near in time can be the same.
        let from = events.partition_point(|event| event.end < each.start);
        let near = events[from..].iter().take_while(|event| event.start < each.end);
        let best = near.enumerate().filter(|(_, event)| is_same(event)).max_by_key(|(_, event)| overlap(event));
        if let Some((at, _)) = best {
            let event = &mut events[from + at];
            event.down = Some(*each);
        }
    }
    let joined = |each: &&Suspension| !events.iter().any(|event| event.down == Some(**each));
    let rest: Vec<Event> = down.iter().filter(joined).map(|each| Event { down: Some(*each), ..alone(each) }).collect();
    events.extend(rest);
    for event in &mut events {
        if let (Some(up), Some(down)) = (event.up, event.down) {
            (event.start, event.end) = (up.start.min(down.start), up.end.max(down.end));
        }
    }
    events.sort_by_key(|event| (event.start, event.end));
    name_series(&mut events);
    events
}

/// Names series of events that are in the order of time.
pub(crate) fn name_series(events: &mut [Event]) {
    let (mut from, mut series) = (0, 0);
    while from < events.len() {
        let (mut until, mut end) = (from + 1, events[from].end);
        while until < events.len() && events[until].start - end <= SERIES_GAP {
            end = end.max(events[until].end);
            until += 1;
        }
        if until - from >= SERIES_LEAST {
            events[from..until].iter_mut().for_each(|event| event.series = Some(series));
            series += 1;
        }
        from = until;
    }
}
