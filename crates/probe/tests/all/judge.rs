//! Findings beside the truth of the lab.

use thalweg_link::{PathConfig, Paths, Streams, Window, Windows, trace::Synthetic};
use thalweg_probe::{Clock, Event, Findings, Suspension, Way, events};
use thalweg_units::{Duration, Instant};

use crate::world::{World, nanos, true_offset};

/// The path of this description.
pub fn path(toml: &str) -> Vec<PathConfig> {
    let paths = Paths::parse("test", &format!("[path.test]\n{toml}"), &Synthetic).unwrap();
    paths.hops("test").unwrap()
}

/// How findings compare with the truth.
#[derive(Copy, Clone, Debug, Default)]
pub struct Tally {
    /// Suspensions of 50 ms and more, by way.
    pub true_ones: u32,
    /// Of these, found.
    pub found: u32,
    /// Of these found, whose length is right within 20 ms.
    pub length_right: u32,
    /// What was found in all, and what of it covers no suspension.
    pub reported: u32,
    pub false_ones: u32,
    /// Events of which something was found, and of these those whose way is right.
    pub events: u32,
    pub way_right: u32,
    /// Greatest error of the offset, and its bound, in nanoseconds.
    pub offset_error: i64,
    pub bound: i64,
    /// Whether the truth was always within the bound.
    pub outside: u32,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.true_ones += other.true_ones;
        self.found += other.found;
        self.length_right += other.length_right;
        self.reported += other.reported;
        self.false_ones += other.false_ones;
        self.events += other.events;
        self.way_right += other.way_right;
        self.offset_error = self.offset_error.max(other.offset_error);
        self.bound = self.bound.max(other.bound);
        self.outside += other.outside;
    }
}

/// The suspensions of a way that the path's first hop has, by the client's clock since the measurement began.
fn truth(world: &World, way: Way, start: i64) -> Vec<Suspension> {
    let path = &world.hops[0];
    let streams = Streams::new(world.seed).scope("path").scope(&path.name);
    let drawn = path.resolve(&streams, world.length + Duration::from_secs(60)).unwrap();
    let config = if way == Way::Up { &drawn.up } else { &drawn.down };
    let mut windows: Vec<Window> = Vec::new();
    for list in config.suspend_before.iter().chain(&config.suspend_after) {
        match list {
            Windows::List(list) => windows.extend(list),
            Windows::Periodic { first, every, length } => {
                let starts = (0..).map(|k| *first + *every * k).take_while(|at| *at < world.length);
                windows.extend(starts.map(|at| Window { start: at, end: at + *length, lose_first: false }));
            }
            _ => unimplemented!(),
        }
    }
    windows.sort_by_key(|window| window.start);
    // As the links have it: those that overlap count as one.
    windows.dedup_by(|later, earlier| {
        let overlaps = later.start <= earlier.end;
        earlier.end = if overlaps { earlier.end.max(later.end) } else { earlier.end };
        overlaps
    });
    let client = |at: Duration| world.client_clock.at(Instant::ZERO + at).as_nanos() as i64 - start;
    let suspension = |window: Window| {
        let (start, end) = (client(window.start), client(window.end));
        Suspension { way, start, start_error: 0, end, held: 0, lost: 0 }
    };
    let (second, end) = (Duration::from_secs(1), world.length - Duration::from_secs(1));
    windows.into_iter().filter(|each| each.start > second && each.end < end).map(suspension).collect()
}

fn overlap(a: (i64, i64), b: (i64, i64)) -> i64 {
    a.1.min(b.1) - a.0.max(b.0)
}

/// Whether half of the longer is covered by the other.
fn matches(a: (i64, i64), b: (i64, i64)) -> bool {
    2 * overlap(a, b) >= (a.1 - a.0).max(b.1 - b.0)
}

/// Measures, and compares.
pub fn judge(world: &World, show: bool) -> Tally {
    let (trace, _, _) = world.run();
    let findings = Findings::of(&trace).unwrap();
    let start = trace.up[0].sent as i64;
    let mut tally = Tally::default();
    let truths = Way::BOTH.map(|way| truth(world, way, start));
    let found = Way::BOTH.map(|way| {
        let of_way = |event: &Event| if way == Way::Up { event.up } else { event.down };
        findings.events.iter().filter_map(of_way).collect::<Vec<Suspension>>()
    });
    let span = |each: &Suspension| (each.start, each.end);
    for (truth, found) in truths.iter().zip(&found) {
        let (first, last) = (nanos(Duration::from_secs(1)), nanos(world.length - Duration::from_secs(1)));
        for each in truth.iter().filter(|each| each.length() >= 50_000_000) {
            tally.true_ones += 1;
            let hit = found.iter().find(|other| matches(span(each), span(other)));
            tally.found += u32::from(hit.is_some());
            let is_right = |hit: &&Suspension| (hit.length() - each.length()).abs() <= 20_000_000;
            tally.length_right += u32::from(hit.filter(is_right).is_some());
            if show && hit.is_none() {
                let near: Vec<_> =
                    found.iter().filter(|other| overlap(span(each), span(other)) > -100_000_000).collect();
                println!("missed {each:?}\n   near {near:?}");
            }
        }
        for each in found.iter().filter(|each| each.start > first && each.end < last) {
            tally.reported += 1;
            let is_false = !truth.iter().any(|other| matches(span(each), span(other)));
            tally.false_ones += u32::from(is_false);
            if show && is_false {
                let near: Vec<_> =
                    truth.iter().filter(|other| overlap(span(each), span(other)) > -100_000_000).collect();
                println!("false {each:?}\n   near {near:?}");
            }
        }
    }
    for event in events(&truths[0], &truths[1]) {
        let hit = findings.events.iter().filter(|found| matches((event.start, event.end), (found.start, found.end)));
        let hits: Vec<&Event> = hit.collect();
        if !hits.is_empty() {
            tally.events += 1;
            tally.way_right += u32::from(hits.iter().any(|hit| hit.way() == event.way()));
        }
    }
    judge_clock(world, &findings.clock, start, &mut tally);
    tally
}

fn judge_clock(world: &World, clock: &Clock, start: i64, tally: &mut Tally) {
    tally.bound = clock.bound();
    for step in 0..=20 {
        let at = start + nanos(world.length) / 20 * step;
        let error = (clock.offset_at(at) - true_offset(world, at)).abs();
        tally.offset_error = tally.offset_error.max(error);
        tally.outside += u32::from(error > clock.bound());
    }
}
