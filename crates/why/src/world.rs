//! A transfer over one path, as it can be run in virtual time, and the same with a cause taken away.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use thalweg_link::{
    DirectionConfig, Jitter, LossModel, Policer, Probability, QueueLimit, RateModel, Reorder, Schedule, Spread, Window,
    Windows,
};
use thalweg_proto::MtuRules;
use thalweg_proto::observe::ObserverFactory;
use thalweg_recovery::{InitialWindow, Policies, SavedPath};
use thalweg_sim::traffic::Requests;
use thalweg_sim::{Crypto, FlowPlan, HostModel, PathPlan, Plan, PlanError, Record, SavedState, Size, Traffic};
use thalweg_units::{Duration, DurationExt, Rate};

use crate::cause::Cause;

/// Bytes of the headers of IPv4 and UDP.
pub const HEADERS: u64 = 28;

/// Begin and end, since the client's first packet.
pub type Span = (Duration, Duration);

/// The path from the sender of the data to their receiver, and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// On the wire, IP headers included.
    pub rate: Rate,
    /// Of the way back.
    pub back: Rate,
    /// Packets that an acknowledgment stands for. A run has one for two packets: where it is more, the way back of the
    /// run is as much faster, for all that is on it.
    pub per_ack: f64,
    /// Without any queue.
    pub round_trip: Duration,
    /// What may wait before the bottleneck, bytes.
    pub queue: u64,
    /// Share of the packets that are lost by chance.
    pub loss: f64,
    /// Packets that are lost, counted on the way from 0; these are lost beside the others.
    pub lost: Vec<u64>,
    /// Share of the packets that are delayed while others pass, and by how much.
    pub reorder: Option<(f64, Duration)>,
    /// Which packets these are, counted on the way from 0, and by how much each is delayed; if none, chance decides.
    pub late: Vec<(u64, Duration)>,
    /// When both directions lose everything.
    pub outages: Vec<Span>,
    /// When both directions hold everything back.
    pub suspensions: Vec<Span>,
    /// What drops data that come faster than agreed, in front of the bottleneck.
    pub policer: Option<Policer>,
    /// From when on packets with data that are larger than this are dropped; bytes on the wire.
    pub mtu: Option<(Duration, u32)>,
}

impl Path {
    /// Without anything that goes wrong, as fast back as there.
    pub fn clean(rate: Rate, round_trip: Duration, queue: u64) -> Path {
        Path {
            rate,
            back: rate,
            per_ack: EVERY,
            round_trip,
            queue,
            loss: 0.0,
            lost: Vec::new(),
            reorder: None,
            late: Vec::new(),
            outages: Vec::new(),
            suspensions: Vec::new(),
            policer: None,
            mtu: None,
        }
    }
}

/// A run acknowledges every second packet.
pub const EVERY: f64 = 2.0;

/// How late the sender's host is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its timers fire at multiples of this; zero: when they are due.
    pub timers: Duration,
    /// From the arrival of a packet until it is read, with all that has arrived by then.
    pub reads: Duration,
}

/// Credit that the receiver gives, bytes: at first, and what it may grow to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// At first.
    pub initial: u64,
    /// Largest.
    pub most: u64,
}

/// The sender's rules, and what was set.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// Its recovery policies.
    pub policies: Policies,
    /// The first window, bytes.
    pub initial_window: u64,
    /// Round trip assumed at first.
    pub initial_rtt: Duration,
    /// The most that may leave.
    pub max_rate: Option<Rate>,
    /// The largest UDP payload.
    pub max_datagram: u16,
    /// How it is found.
    pub mtu_rules: MtuRules,
    /// Whether it begins with what an earlier connection has learned of the path.
    pub knows_path: bool,
    /// Whether its stack can remember a path. What comes nearest to it in one that cannot is a first window as large as
    /// the path; where it does not pace, no larger than the queue.
    pub remembers: bool,
    /// Whether data leave with the client's first packets (0-RTT).
    pub early_data: bool,
    /// Its machine.
    pub host: Host,
}

impl Default for Sender {
    fn default() -> Self {
        Sender {
            policies: Policies::default(),
            initial_window: 12_000,
            initial_rtt: Duration::from_millis(333),
            max_rate: None,
            max_datagram: 1452,
            mtu_rules: MtuRules::default(),
            knows_path: false,
            remembers: true,
            early_data: false,
            host: Host::default(),
        }
    }
}

/// What the application does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Bytes in all.
    pub bytes: u64,
    /// From the client to the server.
    pub is_up: bool,
    /// In so many pieces, one after the other,
    pub pieces: u64,
    /// with such a pause between them.
    pub pause: Duration,
}

/// How a run came out: how long it took, if it ended, and how many packets its sender declared lost.
pub(crate) type Ran = (Option<Duration>, u64);

/// A transfer over a path.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The path.
    pub path: Path,
    /// The credit of the connection and of its stream; none: more than can be used.
    pub credit: Option<[Credit; 2]>,
    /// The sender.
    pub sender: Sender,
    /// The application.
    pub load: Load,
    /// From this follows all chance.
    pub seed: u64,
}

/// The probes of a sender that does not ask too late.
const PROBES: &str = "probe=ladder";

/// A way back that is slower than this part of the rate may be too thin: an acknowledgment of two packets has a
/// fortieth of their size.
pub(crate) const THIN: u64 = 20;

/// Longest virtual time of a run.
const LIMIT: Duration = Duration::from_secs(20_000);

impl World {
    /// The same with a cause taken away.
    #[must_use]
    pub fn without(&self, cause: Cause) -> World {
        let mut world = self.clone();
        match cause {
            Cause::ReceiveWindow => world.credit = None,
            Cause::Application => (world.load.pieces, world.load.pause) = (1, Duration::ZERO),
            Cause::RateLimit => world.sender.max_rate = None,
            Cause::Start => world.sender.knows_path = true,
            Cause::ChanceLoss => {
                world.path.loss = 0.0;
                world.path.lost.clear();
            }
            Cause::Reordering => {
                world.path.reorder = None;
                world.path.late.clear();
            }
            Cause::Interruption => {
                world.path.outages.clear();
                world.path.suspensions.clear();
            }
            Cause::Policer => world.path.policer = None,
            Cause::BlackHole => world.path.mtu = None,
            Cause::WayBack => (world.path.back, world.path.per_ack) = (world.path.rate, EVERY),
            Cause::BusyHost => world.sender.host = Host::default(),
            Cause::Handshake => world.sender.early_data = true,
            Cause::LateProbe => {
                if let Ok(policies) = world.sender.policies.clone().with(PROBES) {
                    world.sender.policies = policies;
                }
            }
        }
        world
    }

    /// Whether it can make a difference to take the cause away.
    pub fn has(&self, cause: Cause) -> bool {
        match cause {
            Cause::ReceiveWindow => {
                let is_less = |credit: &Credit| credit.initial < self.load.bytes;
                self.credit.is_some_and(|credit| credit.iter().any(is_less))
            }
            Cause::Application => self.load.pieces > 1,
            Cause::RateLimit => self.sender.max_rate.is_some(),
            Cause::Start => !self.sender.knows_path,
            Cause::ChanceLoss => self.path.loss > 0.0 || !self.path.lost.is_empty(),
            Cause::Reordering => self.path.reorder.is_some(),
            Cause::Interruption => self.is_interrupted(),
            Cause::Policer => self.path.policer.is_some(),
            Cause::BlackHole => self.path.mtu.is_some(),
            Cause::WayBack => self.path.back.bps() < self.path.rate.bps() / THIN,
            Cause::BusyHost => self.sender.host != Host::default(),
            Cause::Handshake => !self.sender.early_data,
            Cause::LateProbe => self.is_interrupted() && self.without(cause) != *self,
        }
    }

    fn is_interrupted(&self) -> bool {
        !self.path.outages.is_empty() || !self.path.suspensions.is_empty()
    }

    /// The fastest that the path can carry the data: one way to ask, the data at its rate, and one way to come; the
    /// handshake takes another round trip.
    pub fn floor(&self) -> Duration {
        let payload = f64::from(self.sender.max_datagram.max(100)) - 34.0;
        let share = payload / (f64::from(self.sender.max_datagram.max(100)) + HEADERS as f64);
        let seconds = self.load.bytes as f64 * 8.0 / (self.path.rate.bps().max(1) as f64 * share);
        2 * self.path.round_trip + Duration::from_secs_f64(seconds.min(1e9))
    }

    /// The first window, bytes.
    fn first_window(&self) -> u64 {
        let sender = &self.sender;
        if !sender.knows_path || sender.remembers {
            return sender.initial_window;
        }
        let holds = self.path.rate.bytes_in(self.path.round_trip);
        let is_paced = sender.policies.pacing.is_on();
        holds.min(if is_paced { u64::MAX } else { self.path.queue }).max(sender.initial_window)
    }

    fn direction(&self, rate: Rate, is_data: bool) -> DirectionConfig {
        let path = &self.path;
        let windows = |spans: &[Span]| {
            let list = spans.iter().map(|(start, end)| Window { start: *start, end: *end, lose_first: false });
            if spans.is_empty() { Vec::new() } else { vec![Windows::List(list.collect())] }
        };
        let mut config = DirectionConfig {
            rate: RateModel::Constant(rate),
            delay: (path.round_trip / 2).into(),
            queue: QueueLimit::Bytes(path.queue.max(3000)),
            outages: windows(&path.outages),
            suspend_after: windows(&path.suspensions),
            ..DirectionConfig::default()
        };
        if is_data {
            if path.loss > 0.0 {
                config.loss.push(LossModel::Random(Probability::new(path.loss.min(1.0)).unwrap_or_default()));
            }
            if !path.lost.is_empty() {
                config.loss.push(LossModel::List(path.lost.clone()));
            }
            let reorder = path
                .reorder
                .map(|(share, by)| Reorder { share: Probability::new(share.clamp(0.0, 1.0)).unwrap_or_default(), by });
            if path.late.is_empty() {
                config.reorder.extend(reorder);
            } else {
                // What is delayed by itself is overtaken only on a way that keeps no order.
                config.shifts = path.late.clone();
                config.jitter = Some(Jitter { spread: Spread::Fixed(Duration::ZERO), reorder: true });
            }
            config.policer = path.policer;
            config.mtu = path.mtu.and_then(|(at, size)| {
                let steps = if at.is_zero() { vec![(at, size)] } else { vec![(Duration::ZERO, u32::MAX), (at, size)] };
                Schedule::new(steps, None).ok()
            });
        }
        config
    }

    fn traffic(&self) -> Traffic {
        let load = &self.load;
        if load.pieces <= 1 {
            let bytes = Some(load.bytes.max(1));
            return if load.is_up { Traffic::upload(bytes) } else { Traffic::download(bytes) };
        }
        let (piece, head) = (Size::Fixed(load.bytes.div_ceil(load.pieces)), Size::Fixed(100));
        let (request, response) = if load.is_up { (piece, head) } else { (head, piece) };
        Traffic::Requests(Requests { count: load.pieces, request, response, think: Spread::Fixed(load.pause) })
    }

    /// The plan of its run. `observer` sees the sender of the data.
    pub fn plan(&self, observer: Option<Arc<dyn ObserverFactory>>) -> Plan {
        let back = self.path.back.bps() as f64 * self.path.per_ack / EVERY;
        let (data, back) = (self.direction(self.path.rate, true), self.direction(Rate::from_bps(back as u64), false));
        let (up, down) = if self.load.is_up { (data, back) } else { (back, data) };
        let mut flow = FlowPlan::new("transfer", self.traffic());
        let resumes = self.sender.knows_path && self.sender.remembers;
        let policies = if resumes {
            let known = self.sender.policies.clone().with("resume=handshake(share=1)");
            known.unwrap_or_else(|_| self.sender.policies.clone())
        } else {
            self.sender.policies.clone()
        };
        flow = flow.policies(policies);
        let window = match self.first_window() {
            12_000 => InitialWindow::Rfc9002,
            bytes => InitialWindow::Datagrams(u16::try_from(bytes / 1200).unwrap_or(u16::MAX)),
        };
        for end in [&mut flow.client, &mut flow.server] {
            (end.initial_window, end.initial_rtt) = (window, self.sender.initial_rtt);
            end.max_mtu = self.sender.max_datagram.max(1200);
            end.max_idle_timeout = None;
            end.max_rate = self.sender.max_rate;
            let unlimited = Credit { initial: 1 << 36, most: 1 << 36 };
            let [connection, stream] = self.credit.unwrap_or([unlimited; 2]);
            let streams = &mut end.streams;
            (streams.receive_window, streams.max_receive_window) = (connection.initial, connection.most);
            (streams.stream_receive_window, streams.max_stream_receive_window) = (stream.initial, stream.most);
            (streams.send_window, streams.send_backlog) = (1 << 36, 1 << 36);
        }
        if resumes || self.sender.early_data {
            let window = self.path.rate.bytes_in(self.path.round_trip).max(12_000);
            let (min_rtt, rate) = (self.path.round_trip, Some(self.path.rate));
            // What is saved also tells the server that the client is who it says. The policy decides what else it is
            // for.
            flow.saved = SavedState::of_path(SavedPath { window, min_rtt, rate, age: Duration::ZERO })
                .with_early_data(self.sender.early_data);
        }
        (if self.load.is_up { &mut flow.client } else { &mut flow.server }).mtu_rules = self.sender.mtu_rules;
        let Host { timers, reads } = self.sender.host;
        let host = HostModel { timer_granularity: timers, receive_delay: reads, ..HostModel::IDEAL };
        *(if self.load.is_up { &mut flow.client_host } else { &mut flow.server_host }) = host;
        flow.observers = if self.load.is_up { [observer, None] } else { [None, observer] };
        Plan {
            paths: vec![PathPlan::new("path", up, down)],
            flows: vec![flow],
            seed: self.seed,
            time_limit: LIMIT,
            crypto: Crypto::Null,
            host_delay: true,
            record: Record { hash: false, step: Duration::ZERO, metrics: false, packets: false },
            ..Plan::default()
        }
    }

    /// From the client's first packet to the last byte, as the client sees it; none if it never came.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub fn run(&self, observer: Option<Arc<dyn ObserverFactory>>) -> Result<Option<Duration>, PlanError> {
        Ok(self.run_counting(observer)?.0)
    }

    /// The same, and how many packets the sender declared lost.
    pub(crate) fn run_counting(&self, observer: Option<Arc<dyn ObserverFactory>>) -> Result<Ran, PlanError> {
        let result = thalweg_sim::run(&self.plan(observer))?;
        let Some(flow) = result.flows.first().filter(|flow| flow.failed.is_none()) else { return Ok((None, 0)) };
        let sender = if self.load.is_up { &flow.client } else { &flow.server };
        Ok((flow.completion, sender.stats.path.packets_lost))
    }

    /// The share of the time that it saves to take each cause away, largest first; those that are there.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub fn savings(&self, whole: Duration) -> Result<Vec<(Cause, f64)>, PlanError> {
        let causes = self.causes(|_| true);
        let ran = run_each(&causes, |(_, without)| without.run(None))?;
        Ok(shares(&causes, ran, whole))
    }

    /// The causes that are there and asked for, and the same without each.
    pub(crate) fn causes(&self, is_asked: impl Fn(Cause) -> bool) -> Vec<(Cause, World)> {
        let causes = Cause::ALL.into_iter().filter(|cause| self.has(*cause) && is_asked(*cause));
        causes.map(|cause| (cause, self.without(cause))).collect()
    }
}

/// The share of a time that each cause costs, by how long it takes without it, largest first. Runs that did not end are
/// left out.
pub(crate) fn shares(causes: &[(Cause, World)], ran: Vec<Option<Duration>>, whole: Duration) -> Vec<(Cause, f64)> {
    let share = |without: Duration| 1.0 - without.nanos() as f64 / whole.nanos().max(1) as f64;
    let pairs = causes.iter().zip(ran);
    let mut shares: Vec<_> = pairs.filter_map(|((cause, _), ran)| Some((*cause, share(ran?)))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// Runs each on all processors: a run is one thread's work, and which ends first changes nothing.
pub(crate) fn run_each<W: Sync, T: Send>(
    worlds: &[W],
    run: impl Fn(&W) -> Result<T, PlanError> + Sync,
) -> Result<Vec<T>, PlanError> {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<_> {
        std::iter::from_fn(|| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            worlds.get(at).map(|world| (at, run(world)))
        })
        .collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(worlds.len());
    let mut done: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, ran)| ran).collect()
}
