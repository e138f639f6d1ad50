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

use thalweg_link::trace::{Leo, Lte, TraceError};
use thalweg_link::{
    ConfigError, DelayModel, DirectionConfig, Discipline, EcnTreatment, Jitter, LossModel, Policer, Probability,
    QueueLimit, RateModel, Reorder, Schedule, Spread, Streams, WifiProfile, Window, Windows,
};
use thalweg_sim::{PathPlan, Plan, Record, Registry};
use thalweg_units::{Duration, DurationExt, Rate, math};

use crate::hash::Digest;
use crate::record::{Engine, Output, RunRecord, StackInfo};
use crate::scenario::world::{
    self, Aqm, DirectionSpec, EcnSpec, HeldWhere, Interruption, JitterShape, LossSpec, PathSpec, Perturb, QueueSpec,
    TraceSpec, World,
};

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
    /// Begin and end of the outages and suspensions of each path, in the order of their ends.
    pub(crate) spans: Vec<Vec<(Duration, Duration)>>,
}

impl SimEngine {
    /// With these stacks. `name` tells results apart from those of an engine with other versions of them.
    pub fn new(registry: Registry, name: &str) -> SimEngine {
        SimEngine { registry, name: format!("{name} {}", env!("CARGO_PKG_VERSION")) }
    }

    /// Ties results to one build of the program: those of another are made again rather than reused, as nobody can know what
    /// has changed between them.
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

    fn stacks(&self) -> Vec<StackInfo> {
        self.registry.stacks().cloned().collect()
    }

    fn is_repeatable(&self, world: &World) -> bool {
        world.flows.iter().all(|flow| self.registry.info(&flow.stack).is_some_and(|stack| stack.is_repeatable))
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
    let mut paths = Vec::new();
    let mut spans = Vec::new();
    for path in &world.paths {
        let mut stops = Vec::new();
        let plan = path_plan(path, &streams, world.time_limit, &mut stops)
            .map_err(|reason| format!("path \"{}\": {reason}", path.name))?;
        paths.push(plan);
        stops.sort_unstable_by_key(|(start, end)| (*end, *start));
        spans.push(stops);
    }
    let mut flows = Vec::new();
    for flow in &world.flows {
        let path = |name: &str| {
            let at = world.paths.iter().position(|path| path.name == name);
            at.ok_or_else(|| format!("flow \"{}\": there is no path \"{name}\"", flow.name))
        };
        let at = path(&flow.path)?;
        let mut plan = flow.plan(|name| Ok(vec![path(name)?]))?;
        if world.perturb == Perturb::Microsecond {
            // Each number left out costs an acknowledgment: more than a microsecond.
            (plan.client.skip_packet_numbers, plan.server.skip_packet_numbers) = (false, false);
        }
        if flow.phase {
            // Not the plan's own perturbation, so that one flow can be kept where it is.
            let path = &world.paths[at];
            let round_trip = (path.up.delay + path.down.delay).nanos();
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

/// What goes wrong between a scenario and a plan, in words.
fn words(error: ConfigError) -> String {
    error.to_string()
}

fn path_plan(
    path: &PathSpec,
    streams: &Streams,
    horizon: Duration,
    spans: &mut Vec<(Duration, Duration)>,
) -> Result<PathPlan, String> {
    let streams = streams.scope(&path.name);
    let round_trip = path.up.delay + path.down.delay;
    let mut both = Vec::new();
    for (name, spec) in [("up", &path.up), ("down", &path.down)] {
        both.push(direction(spec, &streams.scope(name), round_trip, horizon, spans)?);
    }
    for (number, outage) in path.outages.iter().enumerate() {
        let windows = windows(outage, &streams, &format!("outage {number}"), horizon, spans)?;
        for config in &mut both {
            config.outages.push(windows.clone());
        }
    }
    for (number, suspension) in path.suspensions.iter().enumerate() {
        let windows = windows(&suspension.when, &streams, &format!("suspension {number}"), horizon, spans)?;
        for config in &mut both {
            hold(config, suspension.held, windows.clone());
        }
    }
    let (Some(down), Some(up)) = (both.pop(), both.pop()) else { return Err("has no directions".to_owned()) };
    let mut plan = PathPlan::new(&path.name, up, down);
    plan.wifi = path.wifi.then(WifiProfile::default);
    Ok(plan)
}

fn hold(config: &mut DirectionConfig, held: HeldWhere, windows: Windows) {
    match held {
        HeldWhere::Before => config.suspend_before.push(windows),
        HeldWhere::After => config.suspend_after.push(windows),
    }
}

fn direction(
    spec: &DirectionSpec,
    streams: &Streams,
    round_trip: Duration,
    horizon: Duration,
    spans: &mut Vec<(Duration, Duration)>,
) -> Result<DirectionConfig, String> {
    let probability = |share| Probability::new(share).map_err(words);
    let rate = spec.rate.map_or(Rate::MAX, Rate::from_bps);
    let mut config = DirectionConfig {
        rate: match schedule(rate, spec, |change| change.rate.map(Rate::from_bps))? {
            Some(schedule) => RateModel::Schedule(schedule),
            None => RateModel::Constant(rate),
        },
        delay: match schedule(spec.delay, spec, |change| change.delay)? {
            Some(schedule) => DelayModel::Schedule(schedule),
            None => DelayModel::Constant(spec.delay),
        },
        queue: match spec.queue {
            QueueSpec::Bytes(bytes) => QueueLimit::Bytes(bytes),
            QueueSpec::Packets(packets) => QueueLimit::Packets(packets),
            QueueSpec::Time(span) => QueueLimit::Time(span),
            QueueSpec::MilliBdp(thousandths) => QueueLimit::Bdp(thousandths),
            QueueSpec::Unlimited => QueueLimit::Infinite,
        },
        discipline: match spec.aqm {
            Aqm::TailDrop => Discipline::TailDrop,
            Aqm::HeadDrop => Discipline::HeadDrop,
        },
        jitter: spec.jitter.as_ref().map(|jitter| Jitter { spread: spread(jitter), reorder: jitter.reorders }),
        duplicate: probability(spec.duplicate)?,
        corrupt: probability(spec.corrupt)?,
        policer: spec
            .policer
            .as_ref()
            .map(|policer| Policer { rate: Rate::from_bps(policer.rate), burst: policer.burst }),
        mtu: mtu(spec)?,
        ecn: match spec.ecn {
            EcnSpec::Keep => None,
            EcnSpec::Bleach => Some(Schedule::constant(EcnTreatment::Bleach)),
            EcnSpec::MarkAll => Some(Schedule::constant(EcnTreatment::MarkAll)),
            EcnSpec::Ect1ToEct0 => Some(Schedule::constant(EcnTreatment::Ect1ToEct0)),
        },
        round_trip,
        ..DirectionConfig::default()
    };
    for loss in &spec.loss {
        config.loss.push(match loss {
            LossSpec::Random(share) => LossModel::Random(probability(*share)?),
            LossSpec::Burst { enter, leave, bad, good } => LossModel::GilbertElliott {
                to_bad: probability(*enter)?,
                to_good: probability(*leave)?,
                loss_good: probability(*good)?,
                loss_bad: probability(*bad)?,
            },
            // Scenarios count packets from 1, links from 0.
            LossSpec::Every(every) => LossModel::Periodic { every: *every, first: every.saturating_sub(1), burst: 1 },
            LossSpec::Tail => LossModel::Tail,
            LossSpec::Packets(packets) => {
                LossModel::List(packets.iter().map(|packet| packet.saturating_sub(1)).collect())
            }
        });
    }
    for reorder in &spec.reorder {
        config.reorder.push(Reorder { share: probability(reorder.share)?, by: reorder.by });
    }
    if let Some(trace) = &spec.trace {
        let text = |error: TraceError| error.to_string();
        match trace {
            TraceSpec::Lte => {
                let lte = Lte { length: horizon.max(Duration::from_secs(10)), ..Lte::default() };
                config.rate = RateModel::Mahimahi(lte.trace(&mut streams.dice("trace")).map_err(text)?);
            }
            TraceSpec::Leo => {
                let leo = Leo::default();
                leo.trace(&mut streams.dice("trace")).apply(&mut config).map_err(words)?;
                config.outages.push(leo.gaps());
            }
            TraceSpec::Mahimahi(file) => config.rate = RateModel::Mahimahi((*file.trace).clone()),
            TraceSpec::Csv(file) => file.trace.apply(&mut config).map_err(words)?,
        }
    }
    for (number, outage) in spec.outages.iter().enumerate() {
        config.outages.push(windows(outage, streams, &format!("outage {number}"), horizon, spans)?);
    }
    for (number, suspension) in spec.suspensions.iter().enumerate() {
        let windows = windows(&suspension.when, streams, &format!("suspension {number}"), horizon, spans)?;
        hold(&mut config, suspension.held, windows);
    }
    Ok(config)
}

/// The changes of one quantity as a schedule; none if it does not change.
fn schedule<T: Copy>(
    initial: T,
    spec: &DirectionSpec,
    pick: impl Fn(&world::Change) -> Option<T>,
) -> Result<Option<Schedule<T>>, String> {
    let mut steps = vec![(Duration::ZERO, initial)];
    for change in &spec.changes {
        if let Some(value) = pick(change) {
            if change.at.is_zero() {
                steps.clear();
            }
            steps.push((change.at, value));
        }
    }
    let changes = steps.len() > 1 || spec.changes.first().is_some_and(|change| change.at.is_zero());
    if !changes { Ok(None) } else { Schedule::new(steps, spec.repeat).map(Some).map_err(words) }
}

fn mtu(spec: &DirectionSpec) -> Result<Option<Schedule<u32>>, String> {
    let bytes = |mtu: u64| u32::try_from(mtu).unwrap_or(u32::MAX);
    let initial = spec.mtu.map(bytes);
    let changes = schedule(initial.unwrap_or(u32::MAX), spec, |change| change.mtu.map(bytes))?;
    Ok(changes.or(initial.map(Schedule::constant)))
}

fn spread(jitter: &world::JitterSpec) -> Spread {
    match jitter.shape {
        JitterShape::Uniform => Spread::Uniform(Duration::ZERO, jitter.mean * 2),
        JitterShape::Normal => Spread::Normal { mean: jitter.mean, deviation: jitter.deviation },
        JitterShape::Exponential => Spread::Exponential(jitter.mean),
        JitterShape::Lognormal => {
            // A lognormal with mean m and deviation d: sigma² = ln(1 + (d/m)²), median = m / exp(sigma²/2).
            let mean = jitter.mean.nanos().max(1) as f64;
            let ratio = jitter.deviation.nanos() as f64 / mean;
            let square = math::ln(1.0 + ratio * ratio);
            let median = mean / math::exp(square / 2.0);
            Spread::LogNormal { median: Duration::from_nanos(median as u64), sigma: math::sqrt(square) }
        }
    }
}

/// More interruptions than this are an error, for each is drawn ahead and kept.
const MOST_WINDOWS: u64 = 100_000;

/// Interruptions with everything drawn that can be drawn ahead; where they begin and end goes to `spans`.
fn windows(
    when: &Interruption,
    streams: &Streams,
    name: &str,
    horizon: Duration,
    spans: &mut Vec<(Duration, Duration)>,
) -> Result<Windows, String> {
    let mut dice = streams.dice(name);
    let mut draw = |(low, high): (Duration, Duration)| Spread::Uniform(low, high).draw(&mut dice);
    let first = draw(when.at);
    let mut list = Vec::new();
    let mut one = |start: Duration, length: Duration| {
        spans.push((start, start + length));
        list.push(Window { start, end: start + length, lose_first: false });
    };
    match when.every {
        None => one(first, draw(when.lasts)),
        Some(every) => {
            let most = if when.times == 0 { u64::MAX } else { when.times };
            let mut start = first;
            for number in 0..most {
                if when.random {
                    let gap = Spread::Exponential(every).draw(&mut streams.scope(name).dice(&number.to_string()));
                    start = start.saturating_add(gap);
                }
                if start >= horizon {
                    break;
                }
                if number == MOST_WINDOWS {
                    return Err(format!("`{name}`: more than {MOST_WINDOWS} interruptions; make `every` longer"));
                }
                let length = draw(when.lasts);
                one(start, length);
                start = if when.random { start + length } else { start + every };
            }
        }
    }
    Ok(Windows::List(list))
}

#[cfg(test)]
mod tests;
