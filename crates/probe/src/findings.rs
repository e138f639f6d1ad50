//! Everything that a measurement tells about a path.

use thalweg_units::DurationExt;

use crate::clock::Clock;
use crate::loss::{Fate, fate};
use crate::passage::{Passage, passages, round_trips};
use crate::pause::{End, Pause, explained_by, pauses};
use crate::quantiles::Quantiles;
use crate::queue::{StandingQueue, standing_queues};
use crate::suspension::{Event, Suspension, events, suspensions};
use crate::trace::{Trace, Way};

/// What happened on one way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WayFindings {
    /// Datagrams in the order of sending.
    pub passages: Vec<Passage>,
    /// One-way delays, as exact as the offset of the clocks; `None` if nothing arrived.
    pub delays: Option<Quantiles>,
    /// Loss, reordering, duplicates.
    pub fate: Fate,
    /// Standing queues.
    pub queues: Vec<StandingQueue>,
}

/// What a measurement tells about a path. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Findings {
    /// From the first datagram to the last.
    pub length: i64,
    /// Time between datagrams of a stream.
    pub interval: i64,
    /// The server's clock.
    pub clock: Clock,
    /// When each round trip began, and how long it took.
    pub round_trips: Vec<(i64, i64)>,
    /// Round trips; `None` without any.
    pub round_trip: Option<Quantiles>,
    /// The way up.
    pub up: WayFindings,
    /// The way down.
    pub down: WayFindings,
    /// Suspensions, those of both ways together.
    pub events: Vec<Event>,
    /// Pauses of either end.
    pub pauses: Vec<Pause>,
}

impl Findings {
    /// Analyses a trace; `None` unless datagrams have arrived both ways.
    pub fn of(trace: &Trace) -> Option<Findings> {
        let clock = Clock::of(trace)?;
        let interval = i64::try_from(trace.interval.nanos()).unwrap_or(i64::MAX);
        let [up, down] = Way::BOTH.map(|way| passages(trace, &clock, way));
        let mut pauses_of_both = pauses(End::Client, &up);
        pauses_of_both.extend(pauses(End::Server, &down));
        pauses_of_both.sort_by_key(|pause| (pause.start, pause.end));
        let found = |way, passages: &[Passage]| -> Vec<Suspension> {
            let mut found = suspensions(way, passages, interval);
            // Whoever did not run has held what it should have sent or stamped.
            found.retain(|each| explained_by(&pauses_of_both, each.start, each.end).is_none());
            found
        };
        let (held_up, held_down) = (found(Way::Up, &up), found(Way::Down, &down));
        let trips = round_trips(&up, &down);
        let first_and_last = (up.first()?.sent, up.last()?.sent);
        Some(Findings {
            length: first_and_last.1 - first_and_last.0,
            interval,
            clock,
            round_trip: Quantiles::of(trips.iter().map(|(_, trip)| *trip).collect()),
            round_trips: trips,
            events: events(&held_up, &held_down),
            pauses: pauses_of_both,
            up: WayFindings::of(trace, Way::Up, up, &held_up),
            down: WayFindings::of(trace, Way::Down, down, &held_down),
        })
    }

    /// One way.
    pub fn way(&self, way: Way) -> &WayFindings {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

impl WayFindings {
    fn of(trace: &Trace, way: Way, passages: Vec<Passage>, held: &[Suspension]) -> WayFindings {
        WayFindings {
            delays: Quantiles::of(passages.iter().filter_map(Passage::delay).collect()),
            fate: fate(&passages, trace.stream(way)),
            queues: standing_queues(way, &passages, held),
            passages,
        }
    }
}
