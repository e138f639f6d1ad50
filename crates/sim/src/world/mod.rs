//! The event loop of a run: links, machines and changes of addresses, each in the order of their next event.

mod finish;
mod machine;
mod route;

use std::collections::VecDeque;

use thalweg_link::{
    Agenda, Carried, Direction, DirectionConfig, DropCause, Packet, Pipe, QueueLimit, Streams, Watcher, Way,
};
use thalweg_proto::observe::EventHash;
use thalweg_units::{Duration, Instant};

use crate::datagram::{Datagram, Pool};
use crate::hash::Hash;
use crate::host::Outgoing;
use crate::plan::{Plan, PlanError};
use crate::registry::Registry;
use crate::result::{RunResult, Signal};
use crate::stack::StackFactory;
use crate::tap::Tap;
use finish::Snapshot;
use machine::Machine;
use route::Routes;

/// When every run starts. Not zero, so that nobody's arithmetic meets the origin of time.
const ORIGIN: Instant = Instant::from_nanos(1_000_000_000);
/// So many events at one instant mean that time stands still.
const STUCK: u32 = 5_000_000;

/// Runs a plan with the stacks that come with the crate.
///
/// # Errors
/// When the plan cannot be run at all. A run that goes wrong is a result with [`RunResult::failed`].
pub fn run(plan: &Plan) -> Result<RunResult, PlanError> {
    run_with(plan, &Registry::default())
}

/// Runs a plan with these stacks.
///
/// # Errors
/// As [`run`].
pub fn run_with(plan: &Plan, registry: &Registry) -> Result<RunResult, PlanError> {
    run_world(plan, registry, None)
}

/// As [`run_with`], and `tap` sees every datagram at the hosts.
///
/// # Errors
/// As [`run`].
pub fn run_tapped(plan: &Plan, registry: &Registry, tap: &mut dyn Tap) -> Result<RunResult, PlanError> {
    run_world(plan, registry, Some(tap))
}

fn run_world<'a>(plan: &'a Plan, registry: &'a Registry, tap: Option<&'a mut dyn Tap>) -> Result<RunResult, PlanError> {
    let mut world = World::new(plan, registry)?;
    world.tap = tap;
    let failed = world.run();
    Ok(world.finish(failed))
}

/// Something that has a next event beside the links: a machine, and behind the last the changes of addresses.
type Entity = usize;

struct World<'a> {
    plan: &'a Plan,
    now: Instant,
    end: Instant,
    /// Directions of paths, and network cards.
    pipe: Pipe<Box<Datagram>>,
    /// What is recorded of each link of the pipe.
    links: Vec<Link>,
    /// The client and the server of the first flow, of the second, and so on.
    machines: Vec<Machine>,
    /// By flow.
    routes: Vec<Routes>,
    /// Changes of addresses that are yet to come: when, of which flow, and which of its moves.
    changes: VecDeque<(Instant, usize, usize)>,
    /// The next event of each entity. Between two events it holds for all of them; that of the links the pipe knows.
    agenda: Agenda,
    /// Packets that have come to the end of their way.
    arrivals: VecDeque<Packet<Box<Datagram>>>,
    pool: Pool,
    /// Datagrams of the host at work.
    out: VecDeque<Outgoing>,
    /// Machines that something happened to in the current event.
    touched: Vec<usize>,
    account: Account,
    /// By flow.
    stacks: Vec<&'a dyn StackFactory>,
    progress: Progress,
    /// When a server and when a client last gave a packet to the network, or to what delays it.
    handed_over: [Instant; 2],
    window: MeasuringWindow,
    tap: Option<&'a mut dyn Tap>,
}

/// What tells a run from another.
struct Account {
    hash: Hash,
    /// Of the endpoints that keep one.
    log: Option<EventHash>,
    /// Datagrams that hosts sent.
    datagrams: u64,
}

/// How far the flows are.
struct Progress {
    /// Flows that have an end and have not reached it.
    unfinished: usize,
    over: Vec<bool>,
}

/// The part of a run that rates are measured in.
struct MeasuringWindow {
    /// Begin and end that are yet to come, the later one first.
    marks: Vec<Instant>,
    /// What had been counted at those that have come.
    counted: Vec<Snapshot>,
}

/// What is recorded of a direction of a path, or of the network card of a host.
struct Link {
    name: String,
    limit: QueueLimit,
    is_path: bool,
    series: Vec<(Duration, u64, Duration)>,
    signals: Vec<Signal>,
    next_point: Instant,
    /// The first packet that has left since then: when, and how long it waited.
    departed: Option<(Instant, Duration)>,
}

impl Link {
    /// Takes note of what a packet that left `at` that time shows about the queue.
    fn note(&mut self, at: Instant, sojourn: Duration, direction: &Direction<Carried<Box<Datagram>>>) {
        let time = at.saturating_since(ORIGIN);
        self.series.push((time, direction.queue_bytes(), sojourn));
        let mut values: Vec<(&'static str, f64)> = Vec::new();
        direction.signals(&mut |name, value| values.push((name, value)));
        if values.is_empty() {
            return;
        }
        let stats = direction.stats();
        values.push(("early_dropped", stats.dropped_by(DropCause::Aqm) as f64));
        values.push(("marked", stats.marked as f64));
        for (name, value) in values {
            match self.signals.iter_mut().find(|signal| signal.name == name) {
                Some(signal) => signal.points.push((time, value)),
                None => self.signals.push(Signal { name, points: vec![(time, value)] }),
            }
        }
    }
}

/// Receives the events of the links.
struct Listener<'a> {
    links: &'a mut [Link],
    arrivals: &'a mut VecDeque<Packet<Box<Datagram>>>,
    pool: &'a mut Pool,
    hash: &'a mut Hash,
    /// Time between two points of the series of a link; zero for none.
    step: Duration,
}

impl Watcher<Box<Datagram>> for Listener<'_> {
    fn deliver(&mut self, _: Instant, packet: Packet<Box<Datagram>>) {
        self.arrivals.push_back(packet);
    }

    fn crossed(&mut self, at: Instant, link: usize, packet: &Packet<Carried<Box<Datagram>>>) {
        self.hash.packet(at, link, packet, None);
    }

    fn dropped(&mut self, at: Instant, link: usize, packet: Packet<Carried<Box<Datagram>>>, cause: DropCause) {
        self.hash.packet(at, link, &packet, Some(cause));
        self.pool.put(packet.payload.payload);
    }

    fn departed(&mut self, at: Instant, link: usize, _: &Packet<Carried<Box<Datagram>>>, queued: Instant) {
        let link = &mut self.links[link];
        if at >= link.next_point && link.departed.is_none() {
            link.departed = Some((at, at.saturating_since(queued)));
        }
    }

    fn worked(&mut self, link: usize, direction: &Direction<Carried<Box<Datagram>>>) {
        let link = &mut self.links[link];
        if let Some((at, sojourn)) = link.departed.take()
            && link.is_path
            && self.step > Duration::ZERO
        {
            link.note(at, sojourn, direction);
            link.next_point = at + self.step;
        }
    }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, registry: &'a Registry) -> Result<Self, PlanError> {
        plan.check()?;
        let streams = Streams::new(plan.seed);
        let endpoints = Streams::new(plan.endpoint_seed.unwrap_or(plan.seed));
        let mut world = World {
            plan,
            now: ORIGIN,
            end: ORIGIN + plan.time_limit,
            pipe: Pipe::default(),
            links: Vec::new(),
            machines: Vec::new(),
            routes: Vec::new(),
            changes: VecDeque::new(),
            agenda: Agenda::default(),
            arrivals: VecDeque::new(),
            pool: Pool::default(),
            out: VecDeque::new(),
            touched: Vec::new(),
            account: Account { hash: Hash::new(), log: plan.record.hash.then(EventHash::new), datagrams: 0 },
            stacks: Vec::new(),
            progress: Progress {
                unfinished: plan.flows.iter().filter(|flow| !flow.traffic.is_endless()).count(),
                over: vec![false; plan.flows.len()],
            },
            handed_over: [Instant::ZERO; 2],
            window: MeasuringWindow {
                marks: plan.measure.into_iter().flat_map(|(from, to)| [ORIGIN + to, ORIGIN + from]).collect(),
                counted: Vec::new(),
            },
            tap: None,
        };
        world.add_paths(&streams)?;
        for flow in 0..plan.flows.len() {
            world.add_flow(flow, registry, [&streams, &endpoints])?;
        }
        world.changes.make_contiguous().sort_by_key(|(at, ..)| *at);
        let entities = world.machines.len() + 1;
        world.agenda = Agenda::new(entities);
        for entity in 0..entities {
            world.schedule(entity);
        }
        Ok(world)
    }

    fn add_link(
        &mut self,
        name: String,
        is_path: bool,
        config: &DirectionConfig,
        streams: &Streams,
    ) -> Result<usize, PlanError> {
        let refuse = |error| {
            let (path, direction) = name.rsplit_once('/').unwrap_or((&name, ""));
            PlanError::Link { path: path.to_owned(), direction: if direction == "up" { "up" } else { "down" }, error }
        };
        let number = self.pipe.add_link(config, ORIGIN, &streams.scope("path").scope(&name)).map_err(refuse)?;
        self.links.push(Link {
            name,
            limit: config.queue_limit(),
            is_path,
            series: Vec::new(),
            signals: Vec::new(),
            next_point: ORIGIN,
            departed: None,
        });
        Ok(number)
    }

    fn add_paths(&mut self, streams: &Streams) -> Result<(), PlanError> {
        for (index, path) in self.plan.paths.iter().enumerate() {
            // The longest fixed round trip of the flows that take this path is that of its BDP.
            let round_trip = self.plan.longest_round_trip(index);
            let mut path = path.clone();
            for config in [&mut path.up, &mut path.down] {
                if config.round_trip.is_zero() {
                    config.round_trip = round_trip;
                }
            }
            let (own, limit) = (streams.scope("path").scope(&path.name), self.plan.time_limit);
            let drawn = path.resolve(&own, limit).map_err(|error| {
                let is_at_fault = |config: &DirectionConfig, direction| {
                    config.resolve(&own.scope(direction), limit).is_err_and(|found| found == error)
                };
                let direction = match () {
                    () if is_at_fault(&path.up, "up") => "up",
                    () if is_at_fault(&path.down, "down") => "down",
                    () => "both directions",
                };
                PlanError::Link { path: path.name.clone(), direction, error }
            })?;
            for (config, direction) in [(&drawn.up, "up"), (&drawn.down, "down")] {
                self.add_link(format!("{}/{direction}", path.name), true, config, streams)?;
            }
        }
        Ok(())
    }

    /// Runs to the end; returns what went wrong.
    fn run(&mut self) -> Option<String> {
        let endless = self.progress.unfinished == 0;
        let mut at_this_instant = 0u32;
        while endless || self.progress.unfinished > 0 {
            let Some((at, entity)) = self.first() else {
                if endless {
                    // Nothing happens any more, but there was time until then.
                    self.count_before(self.end);
                    self.now = self.end;
                    return None;
                }
                return Some(format!(
                    "deadlock: at {:?} nothing is left to happen, but {} not finished",
                    self.now.saturating_since(ORIGIN),
                    self.unfinished_names()
                ));
            };
            self.count_before(at.min(self.end));
            if at > self.end {
                self.now = self.end;
                if endless {
                    return None;
                }
                return Some(format!(
                    "the time limit of {} was reached, but {} not finished",
                    thalweg_units::exact_duration(self.plan.time_limit),
                    self.unfinished_names()
                ));
            }
            at_this_instant = if at > self.now { 0 } else { at_this_instant + 1 };
            if at_this_instant > STUCK {
                let at = self.now.saturating_since(ORIGIN);
                return Some(format!("time stands still at {at:?}: {STUCK} events at that instant"));
            }
            self.now = self.now.max(at);
            match entity {
                None => self.advance(),
                Some(machine) if machine < self.machines.len() => self.wake(machine),
                Some(_) => self.change_address(),
            }
            // A machine that something happened to is asked below, when it has sent what it has to send.
            if let Some(entity) = entity
                && !self.machines.get(entity).is_some_and(Machine::is_touched)
            {
                self.schedule(entity);
            }
            while let Some(machine) = self.touched.pop() {
                self.flush(machine);
                self.schedule(machine);
            }
        }
        None
    }

    /// What happens next, and when. At the same time the links come first; they are no entity.
    fn first(&self) -> Option<(Instant, Option<Entity>)> {
        let next = self.agenda.first();
        debug_assert!(next.is_none_or(|(at, entity)| at == self.next_event(entity)), "the agenda is out of date");
        match self.pipe.next_event() {
            Some(at) if next.is_none_or(|(next, _)| at <= next) => Some((at, None)),
            _ => next.map(|(at, entity)| (at, Some(entity))),
        }
    }

    /// When an entity has something to do.
    fn next_event(&self, entity: Entity) -> Instant {
        self.machines.get(entity).map_or_else(|| self.next_change(), Machine::next)
    }

    /// Has an entity called for its next event, which may have changed.
    fn schedule(&mut self, entity: Entity) {
        let next = self.next_event(entity);
        if next != self.agenda.at(entity) {
            self.agenda.set(entity, next);
        }
    }

    /// A link has something to do.
    fn advance(&mut self) {
        self.with_pipe(|pipe, listener| pipe.step(listener));
    }

    /// Gives a packet to the first link of its way.
    fn send(&mut self, way: Way, packet: Packet<Box<Datagram>>) {
        let now = self.now;
        self.with_pipe(|pipe, listener| pipe.send(now, way, packet, listener));
    }

    /// Calls the links, and hands over to the machines what has come to the end of its way.
    fn with_pipe(&mut self, call: impl FnOnce(&mut Pipe<Box<Datagram>>, &mut Listener<'_>)) {
        let mut listener = Listener {
            links: &mut self.links,
            arrivals: &mut self.arrivals,
            pool: &mut self.pool,
            hash: &mut self.account.hash,
            step: self.plan.record.step,
        };
        call(&mut self.pipe, &mut listener);
        while let Some(packet) = self.arrivals.pop_front() {
            let (flow, is_up) = (packet.flow as usize, packet.payload.is_up);
            self.arrive(2 * flow + usize::from(is_up), packet);
        }
    }
}
