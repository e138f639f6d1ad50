//! The loop: who is next, what happens to them, and whom that concerns.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_link::{
    Direction, DirectionConfig, DirectionStats, DropCause, LossModel, Packet, QueueLimit, RateModel, Sink, Streams,
};
use thalweg_proto::observe::EventHash;
use thalweg_units::{Duration, DurationExt, Instant};

use crate::departures::{self, Departures};
use crate::hash::Hash;
use crate::host::{Host, Outbox, Outgoing, Registry, StackContext, Status};
use crate::meter::Due;
use crate::plan::{HostModel, Plan, PlanError, Traffic};
use crate::result::{FlowResult, FlowWindow, Frames, LinkResult, LinkWindow, PacketCounts, RunResult, WindowResult};
use crate::tap::{Seen, Tap};

/// When every run starts. Not zero, so that nobody's arithmetic meets the origin of time.
const ORIGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Round trips within which a connection that works has delivered something: two for the handshake and the request, and
/// one to spare.
const FIRST_ROUND_TRIPS: u32 = 3;
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

fn run_world<'a>(plan: &'a Plan, registry: &Registry, tap: Option<&'a mut dyn Tap>) -> Result<RunResult, PlanError> {
    let mut world = World::new(plan, registry)?;
    world.tap = tap;
    let failed = world.run();
    Ok(world.finish(failed))
}

/// Where a packet goes from the end of a link.
#[derive(Copy, Clone, Debug)]
enum Hop {
    Link(usize),
    Node(usize),
}

/// Something that has a next event: links first, then nodes.
type Entity = usize;

struct World<'a> {
    plan: &'a Plan,
    now: Instant,
    end: Instant,
    links: Vec<Link>,
    nodes: Vec<Node>,
    /// Where packets of a flow go from a link: by link, then by flow.
    hops: Vec<Vec<Option<Hop>>>,
    heap: BinaryHeap<Reverse<(Instant, Entity)>>,
    /// When an entity is in the heap for; other entries are stale.
    scheduled: Vec<Instant>,
    arrivals: Vec<Packet<Vec<u8>>>,
    pool: Vec<Vec<u8>>,
    out: Vec<Outgoing>,
    /// Nodes that something happened to in the current event.
    touched: Vec<usize>,
    hash: Hash,
    log: Option<EventHash>,
    datagrams: u64,
    /// What the stacks say of their settings, by flow.
    settings: Vec<String>,
    /// Flows that have an end and have not reached it.
    unfinished: usize,
    over: Vec<bool>,
    /// Begin and end of the measuring window that are yet to come, the later one first.
    marks: Vec<Instant>,
    /// What had been counted at those that have come.
    counted: Vec<Snapshot>,
    tap: Option<&'a mut dyn Tap>,
}

/// What has been counted at a moment.
struct Snapshot {
    at: Instant,
    flows: Vec<FlowWindow>,
    links: Vec<DirectionStats>,
}

/// A direction of a path, or the network card of a host.
struct Link {
    name: String,
    direction: Direction<Vec<u8>>,
    limit: QueueLimit,
    is_path: bool,
    series: Vec<(Duration, u64, Duration)>,
    next_point: Instant,
}

struct Node {
    host: Box<dyn Host>,
    model: HostModel,
    flow: usize,
    is_client: bool,
    first_link: usize,
    /// Sent, but not on the network yet; without chance delay datagrams leave at once.
    departures: Option<Departures>,
    /// Arrived, but not seen yet.
    inbox: Vec<Packet<Vec<u8>>>,
    inbox_at: Instant,
    first_sent: Option<Instant>,
    touched: bool,
}

impl Node {
    /// When something happens here next.
    fn next(&self) -> Instant {
        let departure = self.departures.as_ref().map_or(Instant::FAR_FUTURE, Departures::next);
        self.wakes().min(departure)
    }

    /// When the program runs next.
    fn wakes(&self) -> Instant {
        let timer = self.host.next_timer().map_or(Instant::FAR_FUTURE, |at| self.model.wakes_at(at));
        timer.min(self.inbox_at)
    }
}

impl HostModel {
    /// When the program runs whose timer is due at `at`.
    fn wakes_at(&self, at: Instant) -> Instant {
        let granularity = self.timer_granularity.nanos();
        let fires = match granularity {
            0 => at,
            _ => Instant::from_nanos(at.as_nanos().div_ceil(granularity).saturating_mul(granularity)),
        };
        fires + self.wake_delay
    }
}

/// What the paths dropped and why, for the reason of a run that failed: "; path "p" down dropped 31 of 40 packets:
/// queue full (limit 3 kB) 31". Empty if they dropped nothing.
fn drops(links: &[Link]) -> String {
    /// Directions that are named one by one.
    const NAMED: usize = 4;
    let mut text = String::new();
    let dropping = || links.iter().filter(|link| link.is_path && link.direction.stats().dropped_total() > 0);
    for link in dropping().take(NAMED) {
        let stats = link.direction.stats();
        let (path, direction) = link.name.rsplit_once('/').unwrap_or((&link.name, ""));
        let causes = DropCause::ALL.into_iter().filter(|cause| stats.dropped_by(*cause) > 0).map(|cause| {
            let limit = match cause {
                DropCause::QueueFull => format!(" (limit {})", link.limit),
                _ => String::new(),
            };
            format!("{}{limit} {}", cause.name().replace('-', " "), stats.dropped_by(cause))
        });
        let causes = causes.collect::<Vec<_>>().join(", ");
        let (dropped, offered) = (stats.dropped_total(), stats.offered);
        text += &format!("; path \"{path}\" {direction} dropped {dropped} of {offered} packets: {causes}");
    }
    let more = dropping().count().saturating_sub(NAMED);
    if more > 0 {
        text += &format!("; {more} more directions dropped packets");
    }
    text
}

/// Hears what a link does.
struct Listener<'a> {
    link: usize,
    arrivals: &'a mut Vec<Packet<Vec<u8>>>,
    pool: &'a mut Vec<Vec<u8>>,
    hash: &'a mut Hash,
    /// Time of the next point of the series, and the last packet that left since.
    departed: Option<(Instant, Duration)>,
    next_point: Instant,
}

impl Sink<Vec<u8>> for Listener<'_> {
    fn deliver(&mut self, at: Instant, packet: Packet<Vec<u8>>) {
        self.hash.packet(at, self.link, &packet, None);
        self.arrivals.push(packet);
    }

    fn dropped(&mut self, at: Instant, packet: Packet<Vec<u8>>, cause: DropCause) {
        self.hash.packet(at, self.link, &packet, Some(cause));
        self.pool.push(packet.payload);
    }

    fn departed(&mut self, at: Instant, _: &Packet<Vec<u8>>, queued: Instant) {
        if at >= self.next_point && self.departed.is_none() {
            self.departed = Some((at, at.saturating_since(queued)));
        }
    }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, registry: &Registry) -> Result<Self, PlanError> {
        plan.check()?;
        let streams = Streams::new(plan.seed);
        let endpoints = Streams::new(plan.endpoint_seed.unwrap_or(plan.seed));
        let mut world = World {
            plan,
            now: ORIGIN,
            end: ORIGIN + plan.time_limit,
            links: Vec::new(),
            nodes: Vec::new(),
            hops: Vec::new(),
            heap: BinaryHeap::new(),
            scheduled: Vec::new(),
            arrivals: Vec::new(),
            pool: Vec::new(),
            out: Vec::new(),
            touched: Vec::new(),
            hash: Hash::new(),
            log: plan.record.hash.then(EventHash::new),
            datagrams: 0,
            settings: Vec::new(),
            unfinished: plan.flows.iter().filter(|flow| !flow.traffic.is_endless()).count(),
            over: vec![false; plan.flows.len()],
            marks: plan.measure.into_iter().flat_map(|(from, to)| [ORIGIN + to, ORIGIN + from]).collect(),
            counted: Vec::new(),
            tap: None,
        };
        world.add_paths(&streams)?;
        for flow in 0..plan.flows.len() {
            world.add_flow(flow, registry, [&streams, &endpoints])?;
        }
        world.scheduled = vec![Instant::FAR_FUTURE; world.links.len() + world.nodes.len()];
        for node in 0..world.nodes.len() {
            world.schedule(world.links.len() + node);
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
        let direction = Direction::new(config, ORIGIN, &streams.scope("path").scope(&name)).map_err(refuse)?;
        let limit = config.queue_limit();
        self.links.push(Link { name, direction, limit, is_path, series: Vec::new(), next_point: ORIGIN });
        self.hops.push(vec![None; self.plan.flows.len()]);
        Ok(self.links.len() - 1)
    }

    fn add_paths(&mut self, streams: &Streams) -> Result<(), PlanError> {
        for (index, path) in self.plan.paths.iter().enumerate() {
            // The longest fixed round trip of the flows that take this path is that of its BDP.
            let flows = self.plan.flows.iter().filter(|flow| flow.route.contains(&index));
            let round_trip = flows.map(|flow| self.plan.round_trip(flow)).max().unwrap_or_default();
            let mut path = path.clone();
            for config in [&mut path.up, &mut path.down] {
                if config.round_trip.is_zero() {
                    config.round_trip = round_trip;
                }
            }
            let drawn = path
                .resolve(&streams.scope("path").scope(&path.name), self.plan.time_limit)
                .map_err(|error| PlanError::Link { path: path.name.clone(), direction: "up", error })?;
            for (config, direction) in [(&drawn.up, "up"), (&drawn.down, "down")] {
                self.add_link(format!("{}/{direction}", path.name), true, config, streams)?;
            }
        }
        Ok(())
    }

    fn add_flow(&mut self, index: usize, registry: &Registry, streams: [&Streams; 2]) -> Result<(), PlanError> {
        let flow = &self.plan.flows[index];
        let Some(stack) = registry.get(&flow.stack) else {
            let known = registry.names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            return Err(PlanError::Stack { flow: flow.name.clone(), stack: flow.stack.clone(), known });
        };
        let [streams, endpoints] = streams.map(|streams| streams.scope(&format!("flow/{}", flow.name)));
        let mut start = ORIGIN + flow.start;
        if self.plan.perturb_start {
            start += Duration::from_nanos(streams.dice("start").below(self.plan.round_trip(flow).nanos()));
        }
        let host_delay = |name: &str, way: &[usize]| {
            let rates = way.iter().filter_map(|link| {
                let path = self.plan.paths.get(link / 2)?;
                Some(if link.is_multiple_of(2) { &path.up.rate } else { &path.down.rate })
            });
            let longest = if self.plan.host_delay { departures::longest(rates) } else { Duration::ZERO };
            (longest > Duration::ZERO).then(|| Departures::new(longest, streams.scope("host").dice(name)))
        };
        let up: Vec<usize> = flow.route.iter().map(|path| 2 * path).collect();
        let down: Vec<usize> = flow.route.iter().rev().map(|path| 2 * path + 1).collect();
        let delays = [host_delay("client", &up), host_delay("server", &down)];
        let context = StackContext {
            plan: self.plan,
            flow,
            streams,
            endpoints,
            origin: ORIGIN,
            start,
            crypto: self.plan.crypto,
            record: self.plan.record,
            tails: self.plan.paths.iter().any(|path| {
                [&path.up, &path.down].into_iter().any(|direction| direction.loss.contains(&LossModel::Tail))
            }),
            hash: self.log.clone(),
        };
        let (client, server) = stack.hosts(&context)?;
        self.settings.push(stack.settings(flow));
        let (client_node, server_node) = (self.nodes.len(), self.nodes.len() + 1);
        let ends = [(client, flow.client_host, up, server_node), (server, flow.server_host, down, client_node)];
        for (n, ((host, model, mut way, peer), departures)) in ends.into_iter().zip(delays).enumerate() {
            if let Some(rate) = model.nic {
                let rate = RateModel::Constant(rate);
                let config = DirectionConfig { rate, queue: QueueLimit::Infinite, ..DirectionConfig::default() };
                let name = format!("nic/{}/{}", flow.name, ["up", "down"][n]);
                way.insert(0, self.add_link(name, false, &config, &Streams::new(self.plan.seed))?);
            }
            for (n, link) in way.iter().enumerate() {
                self.hops[*link][index] = Some(way.get(n + 1).map_or(Hop::Node(peer), |next| Hop::Link(*next)));
            }
            self.nodes.push(Node {
                host,
                model,
                flow: index,
                is_client: n == 0,
                first_link: way[0],
                departures,
                inbox: Vec::new(),
                inbox_at: Instant::FAR_FUTURE,
                first_sent: None,
                touched: false,
            });
        }
        Ok(())
    }

    /// Runs to the end; returns what went wrong.
    fn run(&mut self) -> Option<String> {
        let endless = self.unfinished == 0;
        let mut at_this_instant = 0u32;
        while endless || self.unfinished > 0 {
            let Some(Reverse((at, entity))) = self.heap.pop() else {
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
            if at != self.scheduled[entity] {
                continue;
            }
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
            self.scheduled[entity] = Instant::FAR_FUTURE;
            if self.next_event(entity) > at {
                // It was put off since.
                self.schedule(entity);
                continue;
            }
            self.now = self.now.max(at);
            match entity.checked_sub(self.links.len()) {
                None => self.advance(entity),
                Some(node) => self.wake(node),
            }
            self.schedule(entity);
            while let Some(node) = self.touched.pop() {
                self.flush(node);
                self.schedule(self.links.len() + node);
            }
        }
        None
    }

    /// Takes note of what has been counted when the measuring window begins and ends, before anything happens `at` that
    /// time or later.
    fn count_before(&mut self, at: Instant) {
        while self.marks.last().is_some_and(|mark| *mark <= at)
            && let Some(mark) = self.marks.pop()
        {
            let snapshot = self.snapshot(mark);
            self.counted.push(snapshot);
        }
    }

    fn snapshot(&self, at: Instant) -> Snapshot {
        let flows = self.nodes.chunks(2).map(|ends| FlowWindow {
            bytes: ends.iter().map(|node| node.host.meter().bytes()).sum(),
            packets: [0, 1].map(|end| ends.get(end).and_then(|node| node.host.packets())),
        });
        let links = self.links.iter().filter(|link| link.is_path).map(|link| link.direction.stats().clone());
        Snapshot { at, flows: flows.collect(), links: links.collect() }
    }

    /// What was counted in the measuring window; it ends with the run if that was earlier.
    fn window(&mut self) -> Option<WindowResult> {
        let mut counted = std::mem::take(&mut self.counted).into_iter();
        let before = counted.next()?;
        let after = counted.next().unwrap_or_else(|| self.snapshot(self.now));
        let flows = before.flows.iter().zip(&after.flows).map(|(before, after)| FlowWindow {
            bytes: after.bytes - before.bytes,
            packets: [0, 1].map(|end| {
                let (before, after) = (before.packets[end]?, after.packets[end]?);
                Some(PacketCounts {
                    sent: after.sent.saturating_sub(before.sent),
                    lost: after.lost.saturating_sub(before.lost),
                })
            }),
        });
        let links = before.links.iter().zip(&after.links).map(|(before, after)| LinkWindow {
            served_bytes: after.served_bytes - before.served_bytes,
            sojourn: after.sojourn.since(&before.sojourn),
        });
        let [from, to] = [before.at, after.at].map(|at| at.saturating_since(ORIGIN));
        (to > from).then(|| WindowResult { from, to, flows: flows.collect(), links: links.collect() })
    }

    fn unfinished_names(&self) -> String {
        let flows = self.plan.flows.iter().zip(&self.over);
        let names: Vec<String> = flows
            .filter(|(flow, over)| !**over && !flow.traffic.is_endless())
            .map(|(flow, _)| format!("\"{}\"", flow.name))
            .collect();
        format!(
            "{} {} {}",
            if names.len() == 1 { "flow" } else { "flows" },
            names.join(", "),
            if names.len() == 1 { "has" } else { "have" }
        )
    }

    /// When an entity has something to do.
    fn next_event(&self, entity: Entity) -> Instant {
        match entity.checked_sub(self.links.len()) {
            None => self.links[entity].direction.next_event().unwrap_or(Instant::FAR_FUTURE),
            Some(node) => self.nodes[node].next(),
        }
    }

    /// Puts an entity into the heap for its next event, unless it is there for that time or an earlier one.
    fn schedule(&mut self, entity: Entity) {
        let next = self.next_event(entity);
        if next < self.scheduled[entity] {
            self.scheduled[entity] = next;
            self.heap.push(Reverse((next, entity)));
        }
    }

    /// A link has something to do.
    fn advance(&mut self, index: usize) {
        self.with_link(index, |direction, now, listener| direction.advance(now, listener));
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for packet in arrivals.drain(..) {
            match self.hops[index].get(packet.flow as usize).copied().flatten() {
                Some(Hop::Link(next)) => self.send(next, packet),
                Some(Hop::Node(node)) => self.arrive(node, packet),
                None => self.pool.push(packet.payload),
            }
        }
        self.arrivals = arrivals;
    }

    /// Calls a link and takes note of what it says.
    fn with_link(&mut self, index: usize, call: impl FnOnce(&mut Direction<Vec<u8>>, Instant, &mut Listener<'_>)) {
        let link = &mut self.links[index];
        let mut listener = Listener {
            link: index,
            arrivals: &mut self.arrivals,
            pool: &mut self.pool,
            hash: &mut self.hash,
            departed: None,
            next_point: link.next_point,
        };
        call(&mut link.direction, self.now, &mut listener);
        if let Some((at, sojourn)) = listener.departed
            && link.is_path
            && self.plan.record.step > Duration::ZERO
        {
            link.series.push((at.saturating_since(ORIGIN), link.direction.queue_bytes(), sojourn));
            link.next_point = at + self.plan.record.step;
        }
    }

    fn send(&mut self, index: usize, packet: Packet<Vec<u8>>) {
        self.with_link(index, |direction, now, listener| direction.send(now, packet, listener));
        self.schedule(index);
    }

    /// A host gives a packet to the network.
    fn emit(&mut self, index: usize, packet: Packet<Vec<u8>>) {
        self.watch(index, &packet, true);
        self.send(self.nodes[index].first_link, packet);
    }

    /// Shows a packet at a host to whoever watches.
    fn watch(&mut self, index: usize, packet: &Packet<Vec<u8>>, is_sent: bool) {
        let Some(tap) = &mut self.tap else { return };
        let Node { flow, is_client: at_client, ref host, .. } = self.nodes[index];
        let at = self.now.saturating_since(ORIGIN);
        let (ecn, overhead) = (packet.ecn, host.overhead());
        tap.datagram(&Seen { at, flow, at_client, is_sent, ecn, overhead, payload: &packet.payload });
    }

    /// A packet has reached a host.
    fn arrive(&mut self, index: usize, mut packet: Packet<Vec<u8>>) {
        self.watch(index, &packet, false);
        let node = &mut self.nodes[index];
        if node.model.receive_delay == Duration::ZERO {
            node.host.datagram(self.now, packet.ecn, &mut packet.payload);
            self.pool.push(packet.payload);
            self.touch(index);
        } else {
            // Not seen yet, so nothing is sent in answer yet.
            node.inbox_at = node.inbox_at.min(self.now + node.model.receive_delay);
            node.inbox.push(packet);
            self.schedule(self.links.len() + index);
        }
    }

    fn touch(&mut self, index: usize) {
        if !self.nodes[index].touched {
            self.nodes[index].touched = true;
            self.touched.push(index);
        }
    }

    /// A host's time has come.
    fn wake(&mut self, index: usize) {
        self.depart(index);
        let node = &mut self.nodes[index];
        if node.wakes() > self.now {
            // Datagrams have left, of which the program knows nothing.
            return;
        }
        if node.inbox_at <= self.now {
            node.inbox_at = Instant::FAR_FUTURE;
            for mut packet in node.inbox.drain(..) {
                node.host.datagram(self.now, packet.ecn, &mut packet.payload);
                self.pool.push(packet.payload);
            }
        }
        if node.host.next_timer().is_some_and(|at| node.model.wakes_at(at) <= self.now) {
            node.host.timer(self.now);
        }
        self.touch(index);
    }

    /// Sends what a host has to send.
    fn flush(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.touched = false;
        node.host.poll_send(self.now, &mut Outbox { pool: &mut self.pool, out: &mut self.out });
        let (flow, overhead) = (node.flow, node.host.overhead());
        if !self.out.is_empty() {
            node.first_sent.get_or_insert(self.now);
        }
        if node.is_client && !self.over[flow] && node.host.status() != Status::Running && !node.host.is_busy() {
            self.over[flow] = true;
            self.unfinished -= usize::from(!self.plan.flows[flow].traffic.is_endless());
        }
        let mut out = std::mem::take(&mut self.out);
        for Outgoing { ecn, payload, tail } in out.drain(..) {
            self.datagrams += 1;
            let size = u32::try_from(payload.len()).unwrap_or(u32::MAX).saturating_add(overhead);
            let packet = Packet { payload, size, flow: flow as u32, ecn, sent: self.now, tail };
            match &mut self.nodes[index].departures {
                Some(departures) => departures.push(self.now, packet),
                None => self.emit(index, packet),
            }
        }
        self.out = out;
        self.depart(index);
    }

    /// Hands over to the network what was delayed until now.
    fn depart(&mut self, index: usize) {
        while let Some(packet) = self.nodes[index].departures.as_mut().and_then(|waiting| waiting.pop(self.now)) {
            self.emit(index, packet);
        }
    }

    fn finish(mut self, failed: Option<String>) -> RunResult {
        let now = self.now;
        let window = self.window();
        let since_origin = |at: Instant| at.saturating_since(ORIGIN);
        let mut flows = Vec::new();
        let mut failed = failed;
        let flows_and_ends = self.plan.flows.iter().zip(self.nodes.chunks_mut(2));
        for ((flow, ends), settings) in flows_and_ends.zip(std::mem::take(&mut self.settings)) {
            let [client, server] = ends else { continue };
            let status = client.host.status();
            let start = client.first_sent.unwrap_or(now);
            let meters = [client.host.meter(), server.host.meter()];
            let bytes: u64 = meters.iter().map(|meter| meter.bytes()).sum();
            let byte_time: u128 = meters.iter().map(|meter| meter.byte_time()).sum();
            let mean = byte_time.checked_div(u128::from(bytes)).and_then(|mean| u64::try_from(mean).ok());
            let mean = mean.map(|mean| (ORIGIN + Duration::from_nanos(mean)).saturating_since(start));
            // The receiver of the larger part tells when the last byte came: requests and acknowledgements do not count.
            let receiver = meters.iter().max_by_key(|meter| (meter.bytes(), meter.last()));
            let last = receiver.and_then(|meter| meter.last()).filter(|_| status == Status::Finished);
            let (mut frames, mut cut_off) = (Frames::default(), None);
            if let Traffic::Media { up, interval, deadline, frames: count, .. } = flow.traffic {
                let (sender, receiver) = if up { (meters[0], meters[1]) } else { (meters[1], meters[0]) };
                let due = Due { interval, deadline, frames: count, start, now, limit: self.end };
                frames = due.frames(sender, receiver);
                cut_off = due.cut_off(receiver);
            }
            let delivered = receiver.map(|meter| meter.curve()).unwrap_or_default();
            let transfers = meters[0].transfers.clone();
            let is_silent = || {
                let in_vain = now.saturating_since(start) > self.plan.round_trip(flow) * FIRST_ROUND_TRIPS;
                (bytes == 0 && client.first_sent.is_some() && in_vain)
                    .then(|| "nothing had arrived at the end".to_owned())
            };
            let reason = match &status {
                Status::Failed(reason) => Some(reason.clone()),
                Status::Finished => cut_off,
                // Who only receives may never learn that the other end has given up.
                Status::Running if flow.traffic.is_endless() => match server.host.status() {
                    Status::Failed(reason) => Some(format!("at the server, {reason}")),
                    Status::Running | Status::Finished => is_silent(),
                },
                Status::Running => Some(match server.host.status() {
                    Status::Failed(reason) => format!("it was not finished; at the server, {reason}"),
                    Status::Running | Status::Finished => "it was not finished".to_owned(),
                }),
            };
            if let Some(reason) = &reason {
                failed.get_or_insert_with(|| format!("flow \"{}\": {reason}", flow.name));
            }
            let (client_side, server_side) = (client.host.report(now), server.host.report(now));
            flows.push(FlowResult {
                name: flow.name.clone(),
                stack: flow.stack.clone(),
                settings,
                start: since_origin(start),
                handshake: client_side.stats.handshake_time,
                completion: last.filter(|_| reason.is_none()).map(|last| last.saturating_since(start)),
                bytes,
                mean_byte: mean.filter(|_| bytes > 0),
                transfers,
                due: flow.traffic.responses(),
                delivered,
                frames,
                client: client_side,
                server: server_side,
                failed: reason,
            });
        }
        if let Some(reason) = &mut failed {
            reason.push_str(&drops(&self.links));
        }
        let events = self.links.iter().map(|link| link.direction.stats().events()).sum();
        let links = self.links.into_iter().filter(|link| link.is_path).map(|link| LinkResult {
            busy: link.direction.busy_until(now),
            stats: link.direction.stats().clone(),
            name: link.name,
            queue: link.series,
        });
        RunResult {
            links: links.collect(),
            flows,
            wire_hash: self.hash.value(self.log.as_ref().map(EventHash::wire)),
            decisions_hash: self.log.as_ref().map_or(0, EventHash::decisions),
            events,
            datagrams: self.datagrams,
            virtual_time: since_origin(now),
            window,
            failed,
        }
    }
}
