//! A world as a plan of the simulator, with everything drawn that a seed decides.
//!
//! What seeds change, each by a stream of its own name, so that adding a flow does not shift another's dice: the start
//! of every flow within one round trip of its path (`phase = false` keeps a flow's start where the file says), the
//! delays of hosts (`host_delay = false` lets them send at once), the endpoints' own randomness (connection IDs, keys,
//! skipped packet numbers), every impairment of every direction, drawn times of outages and suspensions, synthetic
//! traces, and the sizes and times of traffic. With `perturb = "microsecond"` a seed changes the endpoints' own
//! randomness except skipped packet numbers, and one packet takes a microsecond longer; nothing else.

use thalweg_link::{ConfigError, LossModel, Streams};
use thalweg_sim::{AddressChange, FlowPlan, PathPlan, Plan, Record};
use thalweg_units::{Duration, DurationExt};

use crate::scenario::world::{self, Perturb, World};

/// Time between points of delivery curves and queues.
const STEP: Duration = Duration::from_millis(10);

/// Begin and end of an interruption.
type Span = (Duration, Duration);

/// When a run's links are down or held, for [`collect`](super::collect).
pub(super) struct Interruptions {
    /// Begin and end of the outages and suspensions on each flow's way at the time, in the order of their ends.
    pub(super) spans: Vec<Vec<Span>>,
}

/// A world as the simulator wants it, with everything drawn that a seed decides.
pub(super) fn plan(world: &World, seed: u64, recording: bool) -> Result<(Plan, Interruptions), String> {
    let shared = match world.perturb {
        Perturb::All => seed,
        Perturb::Microsecond | Perturb::Ack => UNPERTURBED,
    };
    let streams = Streams::new(shared).scope("lab");
    // The routes that flows begin on, and all that they take.
    let (mut routes, mut ways) = (Vec::new(), Vec::new());
    for flow in &world.flows {
        let route = |name: &str| {
            world.route(name).ok_or_else(|| format!("flow \"{}\": there is no path \"{name}\"", flow.name))
        };
        ways.extend(flow.paths().map(route).collect::<Result<Vec<_>, _>>()?);
        routes.push(route(&flow.path)?);
    }
    let mut paths = Vec::new();
    for (index, path) in world.paths.iter().enumerate() {
        let drawn = path_plan(world, path, index, &ways, &streams);
        paths.push(drawn.map_err(|reason| format!("path \"{}\": {reason}", path.name))?);
    }
    let (mut paths, stops): (Vec<PathPlan>, Vec<_>) = paths.into_iter().unzip();
    let mut flows = Vec::new();
    for (flow, route) in world.flows.iter().zip(routes) {
        let round_trip = world.round_trip(&route).nanos();
        let missing = |name: &str| format!("flow \"{}\": there is no path \"{name}\"", flow.name);
        let mut plan = flow.plan(|name| world.route(name).ok_or_else(|| missing(name)))?;
        if world.perturb.is_single() {
            // Each number left out costs an acknowledgment: more than a microsecond.
            (plan.client.skip_packet_numbers, plan.server.skip_packet_numbers) = (false, false);
        }
        if flow.phase {
            // Not the plan's own perturbation, so that one flow can be kept where it is.
            let phase = streams.scope(&flow.name).dice("phase").below(round_trip.max(1));
            plan.start += Duration::from_nanos(phase);
        }
        flows.push(plan);
    }
    if world.perturb == Perturb::Microsecond && !paths.is_empty() {
        let mut dice = Streams::new(seed).dice("microsecond");
        let direction = dice.below(2 * paths.len() as u64) as usize;
        let path = &mut paths[direction / 2];
        let config = if direction.is_multiple_of(2) { &mut path.up } else { &mut path.down };
        config.shifts.push((dice.below(SHIFTED_AMONG), Duration::from_micros(1)));
    }
    if world.perturb == Perturb::Ack
        && let Some((flow, path)) = flows.first().and_then(|flow| Some((flow, *flow.route.first()?)))
    {
        let lost = FIRST_LOST + Streams::new(seed).dice("ack").below(SHIFTED_AMONG - FIRST_LOST);
        let config = if flow.traffic.sends_up() { &mut paths[path].down } else { &mut paths[path].up };
        config.loss.push(LossModel::List(vec![lost]));
    }
    let crypto = match world.crypto {
        world::Crypto::Real => thalweg_sim::Crypto::Real,
        world::Crypto::Null => thalweg_sim::Crypto::Null,
    };
    let record = Record { hash: true, step: STEP, metrics: recording, packets: recording };
    let plan = Plan {
        paths,
        flows,
        seed: shared,
        endpoint_seed: Some(seed),
        time_limit: world.time_limit,
        crypto,
        perturb_start: false,
        host_delay: world.host_delay,
        host_delay_most: world.host_delay_most.unwrap_or(Plan::default().host_delay_most),
        measure: world.measure.map(|measure| (measure.from, measure.to)),
        record,
    };
    let spans = plan.flows.iter().map(|flow| spans(flow, &stops)).collect();
    Ok((plan, Interruptions { spans }))
}

/// Begin and end of what interrupts a flow, in the order of their ends: of the interruptions of each path, `stops`,
/// what falls into the time in which the flow's route leads over it.
fn spans(flow: &FlowPlan, stops: &[Vec<Span>]) -> Vec<Span> {
    let moves = flow.moves.iter().filter(|change| matches!(change.what, AddressChange::Move { .. }));
    let begins: Vec<Duration> = std::iter::once(Duration::ZERO).chain(moves.map(|change| change.at)).collect();
    let mut spans = Vec::new();
    for (n, route) in flow.routes().take(begins.len()).enumerate() {
        let (from, until) = (begins[n], begins.get(n + 1).copied().unwrap_or(Duration::MAX));
        let here = route.iter().flat_map(|path| &stops[*path]).filter(|(start, end)| *start < until && *end > from);
        spans.extend(here.map(|(start, end)| ((*start).max(from), (*end).min(until))));
    }
    spans.sort_unstable_by_key(|(start, end)| (*end, *start));
    spans
}

/// The seed of everything that `perturb = "microsecond"` and `"ack"` leave alone.
const UNPERTURBED: u64 = 1;
/// One of so many packets is shifted: few enough that even a short transfer has them.
const SHIFTED_AMONG: u64 = 200;
/// The first packet that can be the lost acknowledgment, counted from 0: behind the handshake.
const FIRST_LOST: u64 = 10;

/// A path with everything drawn but Wi-Fi, which the simulator draws, and when it is out or held.
fn path_plan(
    world: &World,
    path: &PathPlan,
    index: usize,
    routes: &[Vec<usize>],
    streams: &Streams,
) -> Result<(PathPlan, Vec<Span>), ConfigError> {
    let mut path = path.clone();
    let wifi = path.wifi.take();
    // A BDP is that of the longest way over the path.
    let ways = routes.iter().filter(|route| route.contains(&index)).map(|route| world.round_trip(route));
    let round_trip = ways.max().unwrap_or_else(|| path.round_trip());
    (path.up.round_trip, path.down.round_trip) = (round_trip, round_trip);
    let mut drawn = path.resolve(&streams.scope(&path.name), world.time_limit)?;
    let stops = drawn.interruptions();
    drawn.wifi = wifi;
    Ok((drawn, stops))
}
