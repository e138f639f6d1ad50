//! The simulator as the lab's engine: worlds become plans, results become values.
//!
//! What seeds change, each by a stream of its own name, so that adding a flow does not shift another's dice: the start
//! of every flow within one round trip of its path (`phase = false` keeps a flow's start where the file says), the
//! delays of hosts (`host_delay = false` lets them send at once), the endpoints' own randomness (connection IDs, keys,
//! skipped packet numbers), every impairment of every direction, drawn times of outages and suspensions, synthetic
//! traces, and the sizes and times of traffic. With `perturb = "microsecond"` a seed changes the endpoints' own
//! randomness except skipped packet numbers, and one packet takes a microsecond longer; nothing else.

mod collect;
mod shares;

use std::path::Path;

use thalweg_link::{ConfigError, Spread, Streams};
use thalweg_proto::TransportConfig;
use thalweg_recovery::{Flight, InitialWindow};
use thalweg_sim::{FlowPlan, HostModel, MinRto, PathPlan, Plan, Record, Registry, Size, TcpConfig, Traffic};
use thalweg_units::{Duration, DurationExt, Rate, math};

use crate::hash::Digest;
use crate::record::{Engine, Output, RunRecord};
use crate::scenario::world::{self, Arrivals, FlowSpec, Perturb, TcpSpec, TransportSpec, World};
use crate::trace::{self, Files, Traced};

/// Time between points of delivery curves and queues.
const STEP: Duration = Duration::from_millis(10);

/// Runs worlds in the simulator.
pub struct SimEngine {
    registry: Registry,
    name: String,
}

impl Default for SimEngine {
    /// With the stacks that come with the simulator.
    fn default() -> Self {
        SimEngine::new(Registry::default(), "thalweg-sim")
    }
}

/// When a run's links are down or held, for [`collect`].
pub(crate) struct Interruptions {
    /// Begin and end of the outages and suspensions on each flow's way, in the order of their ends.
    pub(crate) spans: Vec<Vec<(Duration, Duration)>>,
}

impl SimEngine {
    /// With these stacks. `name` tells results apart from those of an engine with other versions of them.
    pub fn new(registry: Registry, name: &str) -> SimEngine {
        SimEngine { registry, name: format!("{name} {}", env!("CARGO_PKG_VERSION")) }
    }

    /// Ties results to one build of the program: those of another are made again rather than reused, as nobody can know
    /// what has changed between them.
    #[must_use]
    pub fn with_build(mut self, program: &Digest) -> SimEngine {
        self.name = format!("{}, build {}", self.name, program.short());
        self
    }
}

impl Engine for SimEngine {
    fn version(&self) -> String {
        self.name.clone()
    }

    fn stacks(&self) -> Vec<String> {
        self.registry.names().map(str::to_owned).collect()
    }

    fn is_repeatable(&self, world: &World) -> bool {
        world.flows.iter().all(|flow| self.registry.is_repeatable(&flow.stack))
    }

    fn trace(&self, world: &World, seed: u64, folder: &Path) -> Result<Traced, trace::TraceError> {
        let (mut plan, interruptions) = plan(world, seed, false).map_err(trace::TraceError::World)?;
        let mut files = Files::begin(folder, &mut plan)?;
        let result = thalweg_sim::run_tapped(&plan, &self.registry, &mut files);
        let result = result.map_err(|error| trace::TraceError::World(error.to_string()))?;
        files.end(collect::output(world, &plan, result, &interruptions, false).record)
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> Output {
        let (plan, interruptions) = match plan(world, seed, recording) {
            Ok(plan) => plan,
            Err(reason) => return Output { record: RunRecord::failure(reason), recording: None },
        };
        match thalweg_sim::run_with(&plan, &self.registry) {
            Ok(result) => collect::output(world, &plan, result, &interruptions, recording),
            Err(error) => Output { record: RunRecord::failure(error.to_string()), recording: None },
        }
    }
}

/// A world as the simulator wants it, with everything drawn that a seed decides.
fn plan(world: &World, seed: u64, recording: bool) -> Result<(Plan, Interruptions), String> {
    let shared = match world.perturb {
        Perturb::All => seed,
        Perturb::Microsecond => UNPERTURBED,
    };
    let streams = Streams::new(shared).scope("lab");
    let mut routes = Vec::new();
    for flow in &world.flows {
        let route = world.route(&flow.path);
        routes.push(route.ok_or_else(|| format!("flow \"{}\": there is no path \"{}\"", flow.name, flow.path))?);
    }
    let mut paths = Vec::new();
    for (index, path) in world.paths.iter().enumerate() {
        let drawn = path_plan(world, path, index, &routes, &streams);
        paths.push(drawn.map_err(|reason| format!("path \"{}\": {reason}", path.name))?);
    }
    let spans = routes.iter().map(|route| {
        let mut stops: Vec<_> = route.iter().flat_map(|path| paths[*path].1.iter().copied()).collect();
        stops.sort_unstable_by_key(|(start, end)| (*end, *start));
        stops
    });
    let spans = spans.collect();
    let mut paths: Vec<PathPlan> = paths.into_iter().map(|(path, _)| path).collect();
    let mut flows = Vec::new();
    for (flow, route) in world.flows.iter().zip(routes) {
        let round_trip = world.round_trip(&route).nanos();
        let mut plan = flow_plan(flow, route);
        if world.perturb == Perturb::Microsecond {
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
        measure: world.measure.map(|measure| (measure.from, measure.to)),
        record,
    };
    Ok((plan, Interruptions { spans }))
}

/// The seed of everything that `perturb = "microsecond"` leaves alone.
const UNPERTURBED: u64 = 1;
/// One of so many packets is shifted: few enough that even a short transfer has them.
const SHIFTED_AMONG: u64 = 200;

/// A path with everything drawn but Wi-Fi, which the simulator draws, and when it is out or held.
fn path_plan(
    world: &World,
    path: &PathPlan,
    index: usize,
    routes: &[Vec<usize>],
    streams: &Streams,
) -> Result<(PathPlan, Vec<(Duration, Duration)>), ConfigError> {
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

/// Times from one start to the next.
fn distances(mean: Duration, arrivals: Arrivals) -> Spread {
    match arrivals {
        Arrivals::Poisson => Spread::Exponential(mean),
        Arrivals::Uniform => Spread::Uniform(Duration::ZERO, mean * 2),
        Arrivals::Regular => Spread::Fixed(mean),
    }
}

fn flow_plan(flow: &FlowSpec, route: Vec<usize>) -> FlowPlan {
    let fixed = Spread::Fixed;
    let traffic = match &flow.traffic {
        world::Traffic::Download(bytes) => Traffic::Download(*bytes),
        world::Traffic::Upload(bytes) => Traffic::Upload(*bytes),
        world::Traffic::Requests { request, response, count, think } => Traffic::Requests {
            count: *count,
            request: Size::Fixed(*request),
            response: Size::Fixed(*response),
            think: fixed(*think),
        },
        world::Traffic::OnOff { burst, pause, pauses, count } => Traffic::Requests {
            count: *count,
            request: Size::Fixed(100),
            response: Size::Fixed(*burst),
            think: distances(*pause, *pauses),
        },
        world::Traffic::ShortFlows { every, arrivals, count, size, spread, pareto, one_connection } => Traffic::Flows {
            count: *count,
            arrivals: distances(*every, *arrivals),
            size: match pareto {
                // Half of the sizes are below scale × (2^(1/shape) - 1).
                Some(shape) => {
                    Size::Pareto { scale: (*size as f64 / (math::pow(2.0, 1.0 / shape) - 1.0)) as u64, shape: *shape }
                }
                // The 84th percentile lies one deviation of the logarithm above the median.
                None if *spread > 1.0 => Size::LogNormal { median: *size, sigma: math::ln(*spread) },
                None => Size::Fixed(*size),
            },
            new_connections: !one_connection,
        },
        world::Traffic::Page { objects } => Traffic::Page(
            objects
                .iter()
                .map(|object| thalweg_sim::PageObject {
                    size: object.size,
                    after: object.after.iter().map(|at| usize::try_from(*at).unwrap_or(usize::MAX)).collect(),
                    delay: object.delay,
                })
                .collect(),
        ),
        world::Traffic::Media { rate, frame, deadline, duration, up } => Traffic::Media {
            up: *up,
            interval: *frame,
            frame: Rate::from_bps(*rate).bytes_in(*frame).max(1),
            deadline: *deadline,
            frames: Some((duration.nanos() / frame.nanos().max(1)).max(1)),
        },
        world::Traffic::Datagrams { rate, size, duration, up } => {
            let interval = Rate::from_bps(*rate).time_for(*size).max(Duration::from_nanos(1));
            Traffic::Media {
                up: *up,
                interval,
                frame: *size,
                deadline: *duration,
                frames: Some((duration.nanos() / interval.nanos().max(1)).max(1)),
            }
        }
    };
    let host = match flow.host {
        world::HostModel::Ideal => HostModel::IDEAL,
        world::HostModel::Linux => HostModel::LINUX,
        world::HostModel::LinuxCoarse => HostModel::LINUX_COARSE,
        world::HostModel::Custom { timer, wake, receive, nic, batch } => HostModel {
            timer_granularity: timer,
            wake_delay: wake,
            receive_delay: receive,
            nic: nic.map(Rate::from_bps),
            batch: usize::try_from(batch).unwrap_or(usize::MAX),
        },
    };
    let mut plan = FlowPlan::new(&flow.name, traffic).policies(flow.policies.clone());
    transport(&flow.transport, &mut plan.client);
    transport(&flow.transport, &mut plan.server);
    tcp(flow.tcp.as_ref(), &mut plan.tcp);
    flow.stack.clone_into(&mut plan.stack);
    plan.route = route;
    plan.start = flow.start;
    (plan.client_host, plan.server_host) = (host, host);
    plan
}

fn tcp(spec: Option<&TcpSpec>, config: &mut TcpConfig) {
    let Some(spec) = spec else { return };
    if let Some(window) = spec.initial_window {
        config.initial_window = match window {
            world::InitialWindow::Rfc6928 => InitialWindow::Rfc6928,
            world::InitialWindow::Rfc3390 => InitialWindow::Rfc3390,
            world::InitialWindow::Segments(count) => InitialWindow::Datagrams(count),
        };
    }
    if let Some(least) = spec.min_rto {
        config.min_rto = match least {
            world::MinRto::Linux => MinRto::Linux,
            world::MinRto::Rfc6298 => MinRto::Rfc6298,
            world::MinRto::At(span) => MinRto::At(span),
        };
    }
    if spec.reduces_flight_size == Some(true) {
        config.flight = Flight::Outstanding;
    }
    config.delayed_ack = spec.delayed_ack.unwrap_or(config.delayed_ack);
    config.ecn = spec.ecn.unwrap_or(config.ecn);
    config.tail_loss_probe = spec.tail_loss_probe.unwrap_or(config.tail_loss_probe);
    config.time_threshold = spec.time_threshold.unwrap_or(config.time_threshold);
    config.mtu = spec.mtu.map_or(config.mtu, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
    config.receive_window = spec.receive_window.unwrap_or(config.receive_window);
}

fn transport(spec: &TransportSpec, config: &mut TransportConfig) {
    let bytes = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
    if let Some(timeout) = spec.idle_timeout {
        config.max_idle_timeout = Some(timeout);
    }
    if let Some(delay) = spec.max_ack_delay {
        config.max_ack_delay = delay;
    }
    config.ack_every_second |= spec.ack_every_second;
    if let Some(size) = spec.initial_datagram {
        config.initial_mtu = bytes(size);
        config.max_mtu = config.max_mtu.max(bytes(size));
    }
    if let Some(size) = spec.max_datagram {
        config.max_mtu = bytes(size);
        config.initial_mtu = config.initial_mtu.min(bytes(size));
    }
    if spec.mtu_discovery == Some(false) {
        config.max_mtu = config.initial_mtu;
    }
    if let Some(ecn) = spec.ecn {
        config.ecn = ecn;
    }
    if let Some(window) = spec.receive_window {
        let streams = &mut config.streams;
        (streams.receive_window, streams.max_receive_window) = (window, window);
        // One stream may use all of it.
        (streams.stream_receive_window, streams.max_stream_receive_window) = (window, window);
    }
}

#[cfg(test)]
mod tests;
