//! A measurement of any length in bounded memory: findings of its parts, added up.

use thalweg_link::Quantiles;
use thalweg_units::Duration;

use crate::clock::ClockPiece;
use crate::findings::{Findings, WayFindings};
use crate::loaded::{LoadFindings, Loaded};
use crate::loss::{Burst, Fate};
use crate::passage::Passage;
use crate::pause::Pause;
use crate::queue::StandingQueue;
use crate::suspension::{Event, name_series};
use crate::trace::Way;
use crate::train::TrainFindings;

/// Most entries of each list: suspensions, pauses, queues, bursts of loss.
const MOST: usize = 20_000;
/// Time that a point of the courses stands for, in nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// Points of a course, at most: more than two days.
const MOST_POINTS: usize = 200_000;
/// Spikes that are kept with all of their datagrams, at most.
const MOST_SPIKES: usize = 6;
/// How much is kept before and after a spike, in nanoseconds.
const AROUND: i64 = 600_000_000;

/// Least, median and greatest delay of a second, in nanoseconds; the least is `i64::MAX` if there was none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The least.
    pub min: i64,
    /// The median.
    pub median: i64,
    /// The greatest.
    pub max: i64,
    /// Datagrams that were lost.
    pub lost: u32,
}

impl Point {
    const NONE: Point = Point { min: i64::MAX, median: 0, max: 0, lost: 0 };

    /// Whether there is anything.
    pub fn is_some(&self) -> bool {
        self.min != i64::MAX
    }
}

/// A suspension with all datagrams around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Spike {
    /// The suspension.
    pub event: Event,
    /// Datagrams of the way up from 0.6 s before to 0.6 s after.
    pub up: Vec<Passage>,
    /// Datagrams of the way down.
    pub down: Vec<Passage>,
}

/// What happened on one way.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WaySummary {
    /// One-way delays; as exact as the offset of the clocks.
    pub delays: Quantiles,
    /// Loss, reordering, duplicates.
    pub fate: Fate,
    /// Standing queues.
    pub queues: Vec<StandingQueue>,
    /// How late this way's sender was.
    pub lateness: Quantiles,
    /// Delays by second.
    pub course: Vec<Point>,
}

/// What a measurement tells about a path. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// From the first datagram to the last.
    pub length: i64,
    /// Time between datagrams of a stream.
    pub interval: i64,
    /// The server's clock, in pieces.
    pub clock: Vec<ClockPiece>,
    /// Round trips.
    pub round_trips: Quantiles,
    /// Round trips by second.
    pub course: Vec<Point>,
    /// The way up.
    pub up: WaySummary,
    /// The way down.
    pub down: WaySummary,
    /// Suspensions, those of both ways together.
    pub events: Vec<Event>,
    /// Pauses of either end.
    pub pauses: Vec<Pause>,
    /// The longest suspensions, with all datagrams around them, in the order of time.
    pub spikes: Vec<Spike>,
    /// Datagrams of the client's stream of which it is not known whether they arrived.
    pub unknown: u64,
    /// Entries of lists for which there was no room.
    pub omitted: u64,
    /// What was measured while a load filled the way up, and the way down.
    pub loaded: [Loaded; 2],
    /// The ways that were loaded: rate, queue, responsiveness. Whoever had the load puts them here.
    pub loads: Vec<LoadFindings>,
    /// The rates that trains showed. Whoever had them puts them here.
    pub trains: Vec<TrainFindings>,
}

/// Adds up to a limit.
fn append<T>(list: &mut Vec<T>, more: Vec<T>, omitted: &mut u64) {
    let room = MOST.saturating_sub(list.len());
    *omitted += more.len().saturating_sub(room) as u64;
    list.extend(more.into_iter().take(room));
}

fn nanos(value: i64) -> Duration {
    Duration::from_nanos(value.max(0) as u64)
}

/// Puts values, by the time that each has, into the points of their seconds.
fn course(points: &mut Vec<Point>, values: impl Iterator<Item = (i64, Option<i64>)>) {
    let mut of_second: Vec<i64> = Vec::new();
    let mut current: Option<usize> = None;
    let close = |points: &mut Vec<Point>, at: Option<usize>, values: &mut Vec<i64>| {
        values.sort_unstable();
        if let (Some(point), Some(min), Some(max)) =
            (at.and_then(|at| points.get_mut(at)), values.first(), values.last())
        {
            // Parts meet within a second: the more telling half is kept.
            if !point.is_some() || *max > point.max {
                *point = Point { min: *min, median: values[values.len() / 2], max: *max, lost: point.lost };
            }
        }
        values.clear();
    };
    for (at, value) in values {
        let Ok(second) = usize::try_from(at / SECOND) else { continue };
        if second >= MOST_POINTS {
            break;
        }
        if points.len() <= second {
            points.resize(second + 1, Point::NONE);
        }
        if current != Some(second) {
            close(points, current, &mut of_second);
            current = Some(second);
        }
        match value {
            Some(value) => of_second.push(value),
            None => points[second].lost += 1,
        }
    }
    close(points, current, &mut of_second);
}

impl Summary {
    /// The summary of a whole measurement.
    pub fn of(findings: Findings) -> Summary {
        let mut summary = Summary::default();
        summary.add(findings);
        summary
    }

    /// Adds the next part of a measurement.
    pub fn add(&mut self, findings: Findings) {
        let Findings { interval, clock, round_trips, up, down, events, pauses, unknown, loaded } = findings;
        self.interval = interval;
        self.length = up.passages.last().map_or(self.length, |last| self.length.max(last.sent));
        self.unknown += unknown;
        for (all, part) in self.loaded.iter_mut().zip(loaded) {
            all.add(&part);
        }
        append(&mut self.clock, clock.pieces, &mut self.omitted);
        round_trips.iter().for_each(|(_, trip)| self.round_trips.record(nanos(*trip)));
        course(&mut self.course, round_trips.iter().map(|(at, trip)| (*at, Some(*trip))));
        self.keep_spikes(&events, &up.passages, &down.passages);
        append(&mut self.events, events, &mut self.omitted);
        self.events.iter_mut().for_each(|event| event.series = None);
        name_series(&mut self.events);
        append(&mut self.pauses, pauses, &mut self.omitted);
        self.up.add(up, &mut self.omitted);
        self.down.add(down, &mut self.omitted);
    }

    fn keep_spikes(&mut self, events: &[Event], up: &[Passage], down: &[Passage]) {
        let around = |event: &Event, passages: &[Passage]| -> Vec<Passage> {
            let from = passages.partition_point(|passage| passage.sent < event.start - AROUND);
            let until = passages.partition_point(|passage| passage.sent < event.end + AROUND);
            passages.get(from..until).unwrap_or(&[]).to_vec()
        };
        for event in events {
            let is_longer = |spike: &Spike| spike.event.length() >= event.length();
            if self.spikes.iter().filter(|spike| is_longer(spike)).count() >= MOST_SPIKES {
                continue;
            }
            let (up, down) = (around(event, up), around(event, down));
            self.spikes.push(Spike { event: event.clone(), up, down });
            self.spikes.sort_by_key(|spike| -spike.event.length());
            self.spikes.truncate(MOST_SPIKES);
        }
        self.spikes.sort_by_key(|spike| spike.event.start);
    }

    /// One way.
    pub fn way(&self, way: Way) -> &WaySummary {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// What a load of this way showed, if there was one.
    pub fn load(&self, way: Way) -> Option<&LoadFindings> {
        self.loads.iter().find(|load| load.way == way)
    }

    /// The greatest error that a one-way delay has by the offset of the clocks, in nanoseconds.
    pub fn clock_bound(&self) -> i64 {
        self.clock.iter().map(|piece| piece.bound).max().unwrap_or(0)
    }
}

impl WaySummary {
    fn add(&mut self, findings: WayFindings, omitted: &mut u64) {
        let WayFindings { passages, fate, queues } = findings;
        for passage in &passages {
            if let Some(delay) = passage.delay() {
                self.delays.record(nanos(delay));
                self.lateness.record(nanos(passage.late));
            }
        }
        course(&mut self.course, passages.iter().map(|passage| (passage.sent, passage.delay())));
        let Fate { sent, lost, bursts, begun, lost_second, reordered, most_overtaken, overtaken_by, duplicates, ecn } =
            fate;
        self.fate.sent += sent;
        self.fate.lost += lost;
        self.fate.begun += begun;
        self.fate.lost_second += lost_second;
        self.fate.overtaken_by += overtaken_by;
        self.fate.reordered += reordered;
        self.fate.most_overtaken = self.fate.most_overtaken.max(most_overtaken);
        self.fate.duplicates += duplicates;
        self.fate.ecn.kept += ecn.kept;
        self.fate.ecn.congested += ecn.congested;
        self.fate.ecn.cleared += ecn.cleared;
        append::<Burst>(&mut self.fate.bursts, bursts, omitted);
        append(&mut self.queues, queues, omitted);
    }
}
