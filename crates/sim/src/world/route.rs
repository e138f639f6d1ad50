//! Addresses and routes: which way a datagram takes from one address to another, and how a client's address changes.
//!
//! The routing table has an entry per pair of addresses. A server has one address. A client has one on every route that
//! it takes, and what the server sees of it is that address with the port that a NAT on the way has chosen: an entry
//! therefore holds the client's address twice, as the client knows it (`local`) and as the server sees it (`public`).
//! Its addresses and links never change. A NAT that forgets the client, or a client that takes another route, adds one,
//! and of several entries that fit a datagram the newest counts. A datagram keeps the entry that it was sent by, so it
//! arrives with the address, and at the end, that were right then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thalweg_link::{DirectionConfig, LossModel, Packet, Pipe, QueueLimit, RateModel, Streams, Way};
use thalweg_units::{Duration, DurationExt, Ecn, Instant};

use super::machine::Machine;
use super::{Link, ORIGIN, World};
use crate::datagram::Datagram;
use crate::departures::{self, Delay, Departures};
use crate::host::{Envelope, Outgoing};
use crate::plan::{AddressChange, FlowPlan, Plan, PlanError, SavedState};
use crate::registry::Registry;
use crate::stack::StackContext;
use crate::traffic::Needs;

/// The client's port as long as no NAT has forgotten it.
const CLIENT_PORT: u16 = 50_000;
const SERVER_PORT: u16 = 443;

/// The routing table of a flow.
pub(super) struct Routes {
    server: SocketAddr,
    entries: Vec<Entry>,
    /// Numbers of the routes that the flow's moves lead to, for the client's addresses on them; a NAT's have none.
    numbers: Vec<usize>,
    /// How often a NAT has forgotten the client.
    rebinds: u16,
    /// Datagrams that came to an entry whose NAT had forgotten it.
    pub(super) astray: u64,
}

/// What a pair of addresses stands for.
#[derive(Clone, Debug)]
struct Entry {
    local: SocketAddr,
    public: SocketAddr,
    /// From the client to the server, and back.
    up: Way,
    down: Way,
    /// A NAT has forgotten it: nothing gets through to the client any more.
    is_forgotten: bool,
}

impl Routes {
    /// The entry that a datagram of the client (`is_up`) or the server goes by; `None` if nobody has these addresses.
    fn find(&self, envelope: &Envelope, is_up: bool) -> Option<u32> {
        let fits = |entry: &Entry| match is_up {
            true => envelope.source == entry.local && envelope.destination == self.server,
            false => envelope.source == self.server && envelope.destination == entry.public,
        };
        self.entries.iter().rposition(fits).map(|at| at as u32)
    }

    fn entry(&self, datagram: &Datagram) -> Option<&Entry> {
        self.entries.get(datagram.entry as usize)
    }

    /// The way of a datagram across the links.
    fn way(&self, datagram: &Datagram) -> Option<Way> {
        let entry = self.entry(datagram)?;
        Some(if datagram.is_up { entry.up } else { entry.down })
    }

    /// Source and destination of a datagram as its client or its server sees them.
    pub(super) fn addresses(&self, datagram: &Datagram, at_client: bool) -> [SocketAddr; 2] {
        let client =
            self.entry(datagram).map_or(self.server, |entry| if at_client { entry.local } else { entry.public });
        if datagram.is_up { [client, self.server] } else { [self.server, client] }
    }

    /// The addresses of a datagram at its end; `None` if that is no longer there.
    pub(super) fn envelope(&mut self, datagram: &Datagram, ecn: Ecn) -> Option<Envelope> {
        let entry = self.entry(datagram)?;
        if datagram.is_up {
            return Some(Envelope { source: entry.public, destination: self.server, ecn });
        }
        if entry.is_forgotten {
            self.astray += 1;
            return None;
        }
        Some(Envelope { source: self.server, destination: entry.local, ecn })
    }
}

/// Numbers that tell the routes of a flow from each other, of the first one and of those that its moves lead to: that
/// of the first path, or, where another route of the flow begins there too, one above those of all `paths`.
fn numbers(flow: &FlowPlan, paths: usize) -> (usize, Vec<usize>, Vec<usize>) {
    let mut known: BTreeMap<&[usize], usize> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut number = |route| {
        let above = paths + known.len();
        *known.entry(route).or_insert_with(|| {
            let first = route.first().copied().unwrap_or(0);
            if taken.insert(first) { first } else { above }
        })
    };
    let first = number(flow.route.as_slice());
    let moves = flow.moves.iter().map(|change| match &change.what {
        AddressChange::Rebind => 0,
        AddressChange::Move { route, .. } => number(route.as_slice()),
    });
    let moves = moves.collect();
    (first, moves, flow.beside.iter().map(|route| number(route.as_slice())).collect())
}

/// The address of a flow's client on the route with this number: 10.0.0.1 for the first flow on the first path.
fn client_address(flow: usize, route: usize, rebinds: u16) -> SocketAddr {
    // Of 24 bits the flow has 14 and the route 10; tables are kept by flow, so more flows do no harm.
    let host = ((route as u32) << 14).wrapping_add(flow as u32 + 1) & 0x00ff_ffff;
    address(10 << 24 | host, CLIENT_PORT.wrapping_add(rebinds))
}

/// The address of a flow's server: 198.18.0.1 for the first, from the block for tests of networks (RFC 2544).
fn server_address(flow: usize) -> SocketAddr {
    address(198 << 24 | 18 << 16 | (flow as u32 + 1) & 0x1_ffff, SERVER_PORT)
}

fn address(bits: u32, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), port)
}

/// The links of a route, up and down.
fn links(route: &[usize]) -> [Vec<usize>; 2] {
    [route.iter().map(|path| 2 * path).collect(), route.iter().rev().map(|path| 2 * path + 1).collect()]
}

/// A way across other links behind the same network card.
fn way_like(pipe: &mut Pipe<Box<Datagram>>, known: &[Link], like: Way, links: Vec<usize>) -> Way {
    let card = pipe.way(like).first().copied().filter(|link| !known[*link].is_path);
    pipe.add_way(card.into_iter().chain(links).collect())
}

impl<'a> World<'a> {
    pub(super) fn add_flow(
        &mut self,
        index: usize,
        registry: &'a Registry,
        streams: [&Streams; 2],
    ) -> Result<(), PlanError> {
        let plan: &'a Plan = self.plan;
        let flow = &plan.flows[index];
        let (Some(stack), Some(info)) = (registry.get(&flow.stack), registry.info(&flow.stack)) else {
            let known = registry.names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
            return Err(PlanError::Stack { flow: flow.name.clone(), stack: flow.stack.clone(), known });
        };
        let is_told = |change: &AddressChange| matches!(change, AddressChange::Move { notice: true, .. });
        if !info.hears_of_moves && flow.moves.iter().any(|change| is_told(&change.what)) {
            return Err(PlanError::Setup {
                flow: flow.name.clone(),
                reason: format!(
                    "the stack \"{}\" cannot be notified that its address has changed; move it without notice",
                    flow.stack
                ),
            });
        }
        if !info.uses_several_paths && !flow.beside.is_empty() {
            return Err(PlanError::Setup {
                flow: flow.name.clone(),
                reason: format!("the stack \"{}\" uses one path at a time; give it one", flow.stack),
            });
        }
        if !info.has_stream_priorities && flow.traffic.needs() == Needs::RankedStreams {
            let reason = format!(
                "is a call, and the stack \"{}\" offers no streams with priorities that their receiver can cancel",
                flow.stack
            );
            return Err(PlanError::Traffic { flow: flow.name.clone(), reason });
        }
        if !info.resumes && flow.saved != SavedState::default() {
            return Err(PlanError::Setup {
                flow: flow.name.clone(),
                reason: format!(
                    "the stack \"{}\" has nothing saved from an earlier connection; leave that out",
                    flow.stack
                ),
            });
        }
        let [streams, endpoints] = streams.map(|streams| streams.scope(&format!("flow/{}", flow.name)));
        let mut start = ORIGIN + flow.start;
        if plan.perturb_start {
            start += Duration::from_nanos(streams.dice("start").below(plan.round_trip(&flow.route).nanos()));
        }
        let ends = [("client", true), ("server", false)];
        let departures = ends.map(|(name, is_up)| self.departures(flow, &streams, name, is_up));
        let turns = ends.map(|(name, _)| streams.scope("turns").dice(name));
        let (first, numbers, beside) = numbers(flow, plan.paths.len());
        let beside: Vec<_> = beside.into_iter().map(|number| client_address(index, number, 0)).collect();
        let (client, server) = (client_address(index, first, 0), server_address(index));
        let context = StackContext {
            plan,
            flow,
            client,
            beside: beside.clone(),
            server,
            streams,
            endpoints,
            origin: ORIGIN,
            start,
            crypto: plan.crypto,
            record: plan.record,
            tails: plan.paths.iter().any(|path| {
                [&path.up, &path.down].into_iter().any(|direction| direction.loss.contains(&LossModel::Tail))
            }),
            hash: self.account.log.clone(),
        };
        let hosts = stack.hosts(&context)?;
        self.stacks.push(stack);
        let mut ways = links(&flow.route);
        let ends = [(hosts.0, flow.client_host), (hosts.1, flow.server_host)];
        for (n, (((host, model), departures), turns)) in ends.into_iter().zip(departures).zip(turns).enumerate() {
            if let Some(rate) = model.nic {
                let rate = RateModel::Constant(rate);
                let config = DirectionConfig { rate, queue: QueueLimit::Infinite, ..DirectionConfig::default() };
                let name = format!("nic/{}/{}", flow.name, ["up", "down"][n]);
                ways[n].insert(0, self.add_link(name, false, &config, &Streams::new(plan.seed))?);
            }
            self.machines.push(Machine::new(host, model, index, n == 0, departures, turns));
        }
        let [up, down] = ways.map(|links| self.pipe.add_way(links));
        let mut entries = Vec::new();
        for (route, address) in flow.beside.iter().zip(beside) {
            let [up_links, down_links] = links(route);
            let up = way_like(&mut self.pipe, &self.links, up, up_links);
            let down = way_like(&mut self.pipe, &self.links, down, down_links);
            entries.push(Entry { local: address, public: address, up, down, is_forgotten: false });
        }
        // The last entry is the one that changes of the address are about.
        entries.push(Entry { local: client, public: client, up, down, is_forgotten: false });
        self.routes.push(Routes { server, entries, numbers, rebinds: 0, astray: 0 });
        self.changes.extend(flow.moves.iter().enumerate().map(|(number, change)| (ORIGIN + change.at, index, number)));
        Ok(())
    }

    /// What delays the datagrams of a host, by entry: those of the paths beside, and the one that moves.
    fn departures(&self, flow: &FlowPlan, streams: &Streams, name: &str, is_up: bool) -> Vec<Departures> {
        let longest = |route: &[usize]| {
            let paths = route.iter().filter_map(|path| self.plan.paths.get(*path));
            departures::longest(
                paths.map(|path| if is_up { &path.up.rate } else { &path.down.rate }),
                self.plan.host_delay_most,
            )
        };
        let mut all: Vec<_> = flow.beside.iter().map(|route| longest(route)).collect();
        all.push(longest(&flow.own_routes().flatten().copied().collect::<Vec<_>>()));
        let dice = |n: usize| match n == flow.beside.len() {
            true => streams.scope("host").dice(name),
            false => streams.scope("host").dice(&format!("{name}/{n}")),
        };
        let model = if is_up { flow.client_host } else { flow.server_host };
        let delay = |longest| model.handover.map_or(Delay::Chance(longest), Delay::Measured);
        if !self.plan.host_delay || model.handover.is_none() && all.iter().all(Duration::is_zero) {
            return Vec::new();
        }
        all.into_iter().enumerate().map(|(n, longest)| Departures::new(delay(longest), dice(n))).collect()
    }

    /// The next change of a client's address has come.
    pub(super) fn change_address(&mut self) {
        let Some((_, flow, number)) = self.changes.pop_front() else { return };
        let routes = &mut self.routes[flow];
        let Some(mut entry) = routes.entries.last().cloned() else { return };
        match &self.plan.flows[flow].moves[number].what {
            AddressChange::Rebind => {
                routes.rebinds = routes.rebinds.wrapping_add(1);
                entry.public.set_port(CLIENT_PORT.wrapping_add(routes.rebinds));
                if let Some(old) = routes.entries.last_mut() {
                    old.is_forgotten = true;
                }
                routes.entries.push(entry);
            }
            AddressChange::Move { route, notice } => {
                entry.public = client_address(flow, routes.numbers[number], routes.rebinds);
                if *notice {
                    entry.local = entry.public;
                }
                for (way, links) in [&mut entry.up, &mut entry.down].into_iter().zip(links(route)) {
                    *way = way_like(&mut self.pipe, &self.links, *way, links);
                }
                let local = entry.local;
                routes.entries.push(entry);
                if *notice {
                    self.machines[2 * flow].host.address_changed(self.now, local);
                    self.touch(2 * flow);
                }
            }
        }
    }

    /// When the next change of a client's address comes.
    pub(super) fn next_change(&self) -> Instant {
        self.changes.front().map_or(Instant::FAR_FUTURE, |(at, ..)| *at)
    }

    /// A host sends a datagram; `None` if nobody has its addresses.
    pub(super) fn address(&mut self, machine: usize, outgoing: Outgoing) -> Option<Box<Datagram>> {
        let Outgoing { envelope, mut datagram, .. } = outgoing;
        let is_up = machine.is_multiple_of(2);
        let Some(entry) = self.routes[machine / 2].find(&envelope, is_up) else {
            self.routes[machine / 2].astray += 1;
            self.pool.put(datagram);
            return None;
        };
        (datagram.entry, datagram.is_up) = (entry, is_up);
        Some(datagram)
    }

    /// Sends a packet on the way that its datagram goes by.
    pub(super) fn forward(&mut self, packet: Packet<Box<Datagram>>) {
        if let Some(way) = self.routes[packet.flow as usize].way(&packet.payload) {
            self.send(way, packet);
        }
    }
}
