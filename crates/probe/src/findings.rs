//! Everything that a measurement, or a part of one, tells about a path.

use thalweg_units::DurationExt;

use crate::clock::Clock;
use crate::loaded::Loaded;
use crate::loss::{Fate, fate};
use crate::passage::{Passage, passages, round_trips};
use crate::pause::{End, Pause, explained_by, pauses};
use crate::queue::{StandingQueue, standing_queues};
use crate::suspension::{Event, Suspension, events, suspensions};
use crate::trace::{Trace, Way};

/// What happened on one way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WayFindings {
    /// Datagrams in the order of sending. One-way delays are as exact as the offset of the clocks.
    pub passages: Vec<Passage>,
    /// Loss, reordering, duplicates.
    pub fate: Fate,
    /// Standing queues.
    pub queues: Vec<StandingQueue>,
}

/// After a load its queue drains for as long, in nanoseconds: until then nothing counts.
const DRAIN: i64 = 1_500_000_000;

/// What a trace tells about a path. Times are nanoseconds of the client's clock since the measurement began. Everything
/// belongs to the time that the trace [owns](Trace::own), and nothing but [`loaded`](Findings::loaded) to the time of a
/// [load](Trace::loads).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Findings {
    /// Time between datagrams of a stream.
    pub interval: i64,
    /// The server's clock.
    pub clock: Clock,
    /// When each round trip began, and how long it took.
    pub round_trips: Vec<(i64, i64)>,
    /// The way up.
    pub up: WayFindings,
    /// The way down.
    pub down: WayFindings,
    /// Suspensions, those of both ways together.
    pub events: Vec<Event>,
    /// Pauses of either end.
    pub pauses: Vec<Pause>,
    /// Datagrams of the client's stream of which it is not known whether they arrived.
    pub unknown: u64,
    /// What was measured while a load filled the way up, and the way down.
    pub(crate) loaded: [Loaded; 2],
}

impl Findings {
    /// Analyses a trace; `None` unless datagrams have arrived both ways.
    pub fn of(trace: &Trace) -> Option<Findings> {
        let clock = Clock::of(trace)?;
        let interval = i64::try_from(trace.interval.nanos()).unwrap_or(i64::MAX);
        let [mut up, mut down] = Way::BOTH.map(|way| passages(trace, &clock, way));
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
        let mut round_trips = round_trips(&up, &down);
        let mut events = events(&held_up, &held_down);
        let mut queues = [(Way::Up, &up, &held_up), (Way::Down, &down, &held_down)]
            .map(|(way, passages, held)| standing_queues(way, passages, held));

        let since = |at: u64| i64::try_from(i128::from(at) - i128::from(trace.started)).unwrap_or(i64::MAX);
        let (from, until) = (since(trace.own.0), since(trace.own.1));
        let loads = trace.loads.map(|load| load.map(|(from, until)| (since(from), since(until))));
        let is_quiet = |at: i64| {
            let mut loads = loads.iter().flatten();
            !loads.any(|(from, until)| (*from..until.saturating_add(DRAIN)).contains(&at))
        };
        let loaded = [(0, &up), (1, &down)].map(|(way, passages)| {
            let span: Option<(i64, i64)> = loads[way];
            span.map(|span| Loaded::of(passages, &round_trips, span)).unwrap_or_default()
        });
        let is_own = |at: i64| (from..until).contains(&at) && is_quiet(at);
        up.retain(|passage| is_own(passage.sent));
        down.retain(|passage| is_own(passage.sent));
        round_trips.retain(|(at, _)| is_own(*at));
        events.retain(|event| is_own(event.start));
        pauses_of_both.retain(|pause| is_own(pause.start));
        queues.iter_mut().for_each(|queues| queues.retain(|queue| is_own(queue.start)));
        let [queues_up, queues_down] = queues;
        let unknown = trace.up.iter().filter(|datagram| !datagram.known && is_own(since(datagram.sent))).count();
        Some(Findings {
            interval,
            clock,
            round_trips,
            events,
            pauses: pauses_of_both,
            up: WayFindings { fate: fate(&up), queues: queues_up, passages: up },
            down: WayFindings { fate: fate(&down), queues: queues_down, passages: down },
            unknown: unknown as u64,
            loaded,
        })
    }

    /// What was measured while this way was loaded.
    pub fn loaded(&self, way: Way) -> &Loaded {
        &self.loaded[way as usize]
    }

    /// One way.
    pub fn way(&self, way: Way) -> &WayFindings {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}
