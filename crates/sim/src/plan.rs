//! The plan of a run: paths, flows, how long it lasts, what is kept of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use thalweg_link::ConfigError;
pub use thalweg_link::PathConfig as PathPlan;
use thalweg_proto::TransportConfig;
use thalweg_proto::observe::ObserverFactory;
use thalweg_proto::rustls::KeyLog;
use thalweg_recovery::{Policies, SavedPath};
use thalweg_units::{Duration, Rate};

use crate::departures;
use crate::logs::LogFiles;
use crate::stack::Settings;
use crate::traffic::Traffic;

/// A world to run once. Same plan, same result, on every machine.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What packets cross. What a seed is yet to draw of them is drawn when the plan is run; floors and host delays go
    /// by the rates and delays that stand here.
    pub paths: Vec<PathPlan>,
    /// Who sends what to whom.
    pub flows: Vec<FlowPlan>,
    /// From this follows all chance, each part of the world by a stream of its own.
    pub seed: u64,
    /// From this follows what the endpoints draw for themselves (connection IDs, keys, packet numbers skipped) if it is
    /// not to be `seed`: runs then differ in nothing else.
    pub endpoint_seed: Option<u64>,
    /// Virtual time after which the run is stopped; flows that have an end and have not reached it then have failed.
    pub time_limit: Duration,
    /// Real or null packet protection; the handshake is TLS in both cases, and so is every size.
    pub crypto: Crypto,
    /// Draws each flow's start within one round trip of its path, so that seeds differ in phase.
    pub perturb_start: bool,
    /// Delays every datagram of every host by chance before it reaches the network: uniformly from zero to two packet
    /// times of the slowest link in its direction, one millisecond at most, in order. Without it, senders that share a
    /// drop-tail queue fall into step with it (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched
    /// Gateways", 1992). A host with a [`HostModel::handover`] has its delays instead.
    pub host_delay: bool,
    /// The longest of these delays. Default one millisecond.
    pub host_delay_most: Duration,
    /// From when to when to count for [`RunResult::window`](crate::RunResult::window).
    pub measure: Option<(Duration, Duration)>,
    /// What to keep of the run.
    pub record: Record,
}

impl Default for Plan {
    /// No paths, no flows, a minute, hosts that send at once.
    fn default() -> Self {
        Plan {
            paths: Vec::new(),
            flows: Vec::new(),
            seed: 1,
            endpoint_seed: None,
            time_limit: Duration::from_secs(60),
            crypto: Crypto::Real,
            perturb_start: false,
            host_delay: false,
            host_delay_most: departures::MOST,
            measure: None,
            record: Record::default(),
        }
    }
}

/// A client, a server, and what they do.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name.
    pub name: String,
    /// Which implementation: "thalweg", "tcp", "raw" (datagrams without any transport), or one from the registry.
    pub stack: String,
    /// The paths it takes at first, from the client on; usually one. Indices into [`Plan::paths`].
    pub route: Vec<usize>,
    /// Further routes that the client uses at the same time, each from an address of its own; its transport is told of
    /// all of them as soon as its connection can use them. Empty for most flows.
    pub beside: Vec<Vec<usize>>,
    /// When the client's address changes, and with it perhaps its route; in the order of time.
    pub moves: Vec<Move>,
    /// When it starts.
    pub start: Duration,
    /// What it does.
    pub traffic: Traffic,
    /// Configuration of the client's connections; observers in it are replaced.
    pub client: TransportConfig,
    /// Configuration of the server's connections; observers in it are replaced.
    pub server: TransportConfig,
    /// Bytes of the connection IDs that the client issues, at most 20. Without any it gets larger packets, and nothing
    /// but its address tells its connections apart.
    pub client_id_length: u8,
    /// What an earlier connection of the client has saved, if their stack [resumes](crate::StackInfo::resumes).
    pub saved: SavedState,
    /// Settings of both ends that only their stack has ([`StackInfo::schema`](crate::StackInfo::schema)).
    pub settings: Settings,
    /// The client's machine.
    pub client_host: HostModel,
    /// The server's machine.
    pub server_host: HostModel,
    /// Someone else who wants to see the client's and the server's events (a qlog writer).
    pub observers: [Option<Arc<dyn ObserverFactory>>; 2],
    /// Where a stack that has no observers puts the qlog that it writes itself.
    pub log_files: Option<Arc<dyn LogFiles>>,
    /// Gets the TLS secrets of the flow's connections, of both ends, if the stack has any. Without packet
    /// protection ([`Crypto::Null`]) they protect nothing but the handshake's messages.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl FlowPlan {
    /// A flow over path 0 between ideal hosts, as shipped.
    pub fn new(name: &str, traffic: Traffic) -> Self {
        FlowPlan {
            name: name.to_owned(),
            stack: "thalweg".to_owned(),
            route: vec![0],
            beside: Vec::new(),
            moves: Vec::new(),
            start: Duration::ZERO,
            traffic,
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            client_id_length: 8,
            saved: SavedState::default(),
            settings: Settings::default(),
            client_host: HostModel::IDEAL,
            server_host: HostModel::IDEAL,
            observers: [None, None],
            log_files: None,
            key_log: None,
        }
    }

    /// Every route that it takes, the first one first.
    pub fn routes(&self) -> impl Iterator<Item = &[usize]> {
        self.own_routes().chain(self.beside.iter().map(Vec::as_slice))
    }

    /// The route that it begins on, and those that it moves to.
    pub(crate) fn own_routes(&self) -> impl Iterator<Item = &[usize]> {
        let later = self.moves.iter().filter_map(|change| match &change.what {
            AddressChange::Move { route, .. } => Some(route.as_slice()),
            AddressChange::Rebind => None,
        });
        std::iter::once(self.route.as_slice()).chain(later)
    }

    /// Whether it takes a path at any time.
    pub fn takes(&self, path: usize) -> bool {
        self.routes().any(|route| route.contains(&path))
    }

    /// The same with these recovery policies at both ends.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.client.policies = policies.clone();
        self.server.policies = policies;
        self
    }
}

/// What an earlier connection has saved for those of a flow. By default nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedState {
    /// What both ends know of the path: the client has kept its own part, and brings the server's in a token, which
    /// also validates its address. The policy `resume` decides what is made of it.
    pub path: Option<SavedPath>,
    /// Requests leave with the first flight (0-RTT), in an earlier connection's TLS session.
    pub early_data: bool,
}

impl SavedState {
    /// A connection over a path of which this was saved.
    pub fn of_path(path: SavedPath) -> SavedState {
        SavedState { path: Some(path), ..SavedState::default() }
    }

    /// The same with 0-RTT.
    #[must_use]
    pub fn with_early_data(mut self, early_data: bool) -> SavedState {
        self.early_data = early_data;
        self
    }
}

/// The client's address changes, as its server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// When, counted from the start of the run.
    pub at: Duration,
    /// How.
    pub what: AddressChange,
}

/// How a client's address changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressChange {
    /// A NAT on the way forgets the client: its next datagram has another port, and what is sent to the old one, or is
    /// on its way there, is lost.
    Rebind,
    /// The client takes another route, with another address. What is sent to its old address takes the old route and
    /// arrives, as long as that route carries anything.
    Move {
        /// The paths from now on, as in [`FlowPlan::route`].
        route: Vec<usize>,
        /// Whether the client's transport is notified.
        notice: bool,
    },
}

/// Times in which a machine does not run, as those of a virtual one whose processor another one has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// Mean time from one to the next; drawn evenly from zero to twice this.
    pub apart: Duration,
    /// The longest; drawn evenly from zero to this.
    pub longest: Duration,
}

/// Delay of a packet between its host and the path, and between the path and the other host, together. A thread
/// forwards it, which has to wake up first. Where the plan has delays by chance, these take their place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The shortest and the longest; half of them are in the first eighth between these.
    pub awake: [Duration; 2],
    /// Nothing was sent in this direction for so long: what hands over sleeps deeper.
    pub rest: Duration,
    /// The shortest and the longest then, drawn evenly.
    pub asleep: [Duration; 2],
}

/// What the machine adds between the wire and the transport.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// Timers fire at multiples of this; zero: when they are due.
    pub timer_granularity: Duration,
    /// From the moment a timer fires to the moment the program runs.
    pub wake_delay: Duration,
    /// From the arrival of a datagram to the moment the program sees it, with all that arrived in between.
    pub receive_delay: Duration,
    /// Drawn evenly for each turn of the program, from zero to this, on top of the two delays above.
    pub spread: Duration,
    /// On top of them, from the arrival of a datagram of QUIC's handshake (a long header, RFC 9000 section 17.2) to the
    /// moment the program sees it, which checks signatures and agrees on keys meanwhile. What arrives before that
    /// brings it forward: both are seen together.
    pub handshake: Duration,
    /// The machine stands still now and then; `None`: never.
    pub pauses: Option<Pauses>,
    /// How late what it sends comes to the network, if hosts delay at all; `None`: as the plan says.
    pub handover: Option<Handover>,
    /// Rate of the network card; `None`: no limit.
    pub nic: Option<Rate>,
    /// Datagrams per batch handed to the kernel.
    pub batch: usize,
}

impl HostModel {
    /// No delay of its own.
    pub const IDEAL: HostModel = HostModel {
        timer_granularity: Duration::ZERO,
        wake_delay: Duration::ZERO,
        receive_delay: Duration::ZERO,
        spread: Duration::ZERO,
        handshake: Duration::ZERO,
        pauses: None,
        handover: None,
        nic: None,
        batch: 10,
    };

    /// A virtual machine under Linux: up to 100 µs to wake up or to see a datagram, 0.4 ms for a datagram of a
    /// handshake, pauses of up to 12 ms every six seconds, 10 Gbps, batches of 64 (what GSO takes at most).
    ///
    /// Measured in 145 runs of ten seconds behind `thalweg emulate`, whose watcher was woken 30 µs late at the median,
    /// 100 µs at the 99th percentile, and 2 to 14 ms once or twice in a run. To answer in a handshake took `thalweg
    /// serve` 0.2 ms and `thalweg get` 0.5 ms.
    pub const LINUX: HostModel = HostModel {
        timer_granularity: Duration::ZERO,
        wake_delay: Duration::ZERO,
        receive_delay: Duration::ZERO,
        spread: Duration::from_micros(100),
        handshake: Duration::from_micros(400),
        pauses: Some(Pauses { apart: Duration::from_secs(6), longest: Duration::from_millis(12) }),
        handover: None,
        nic: Some(Rate::from_bps(10_000_000_000)),
        batch: 64,
    };

    /// The same with the timers of an asynchronous runtime, which ring at whole milliseconds (tokio's wheel).
    pub const LINUX_COARSE: HostModel = HostModel { timer_granularity: Duration::from_millis(1), ..HostModel::LINUX };

    /// A transport in the kernel of the same machine, and a path that is handed its packets in software: 34 to 98 µs
    /// for each, 70 to 180 µs after 5 ms of silence, and pauses of up to 2 ms every nine seconds.
    ///
    /// Measured in captures of both ends of `thalweg emulate`. Packets left 30 to 100 µs later than they should have,
    /// 45 µs at the median; after a silence 60 to 170 µs, 115 µs at the median. The kernel answered within 3 to 10 µs,
    /// which is in the model as well.
    /// In 128 runs of ten seconds the latest packet was 1.3 ms late at the median, and 1.9 ms at the 90th percentile.
    pub const KERNEL: HostModel = HostModel {
        handover: Some(Handover {
            awake: [Duration::from_micros(34), Duration::from_micros(98)],
            rest: Duration::from_millis(5),
            asleep: [Duration::from_micros(70), Duration::from_micros(180)],
        }),
        pauses: Some(Pauses { apart: Duration::from_secs(9), longest: Duration::from_millis(2) }),
        ..HostModel::IDEAL
    };
}

impl Default for HostModel {
    fn default() -> Self {
        HostModel::IDEAL
    }
}

/// Packet protection.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Crypto {
    /// As on the wire.
    #[default]
    Real,
    /// A checksum instead of encryption: same sizes, same decisions, less time.
    Null,
}

/// What to keep of a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Hash all that the connections do; without it the wire hash covers what the links do, and decisions are not
    /// hashed.
    pub hash: bool,
    /// Time between points of the delivery curves and the queues' series; zero for none.
    pub step: Duration,
    /// Keep the paths' numbers (window, bytes in flight, RTT), as they change.
    pub metrics: bool,
    /// Keep packets sent, lost and wrongly declared lost.
    pub packets: bool,
}

impl Default for Record {
    fn default() -> Self {
        Record { hash: true, step: Duration::from_millis(10), metrics: false, packets: false }
    }
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing to do.
    #[error("there is no flow: give at least one")]
    NoFlows,
    /// It would end before it begins.
    #[error("the time limit is zero: give one above, such as \"60 s\"")]
    TimeLimit,
    /// Two of a name: their chance would be the same.
    #[error(
        "there are two {kind} called \"{name}\": names must differ, because each part's chance follows from its name"
    )]
    Name {
        /// "flows" or "paths".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A path that does not exist.
    #[error(
        "flow \"{flow}\" takes path number {path}, but there are {paths}, counted from 0; a route names each at most once"
    )]
    Route {
        /// The flow.
        flow: String,
        /// What it asks for.
        path: usize,
        /// How many there are.
        paths: usize,
    },
    /// A link that cannot be.
    #[error("path \"{path}\", {direction}: {error}")]
    Link {
        /// The path.
        path: String,
        /// "up", "down" or "both directions".
        direction: &'static str,
        /// What is wrong.
        error: ConfigError,
    },
    /// An implementation that is not there.
    #[error("flow \"{flow}\": stack \"{stack}\" is not known; there are {known}")]
    Stack {
        /// The flow.
        flow: String,
        /// What it asks for.
        stack: String,
        /// Those there are.
        known: String,
    },
    /// Traffic that cannot be.
    #[error("flow \"{flow}\": its traffic {reason}")]
    Traffic {
        /// The flow.
        flow: String,
        /// What is wrong.
        reason: String,
    },
    /// The stack refused.
    #[error("flow \"{flow}\": {reason}")]
    Setup {
        /// The flow.
        flow: String,
        /// What it said.
        reason: String,
    },
}

impl Plan {
    /// Says what cannot work, without running it. Stacks are looked up when it is run.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.flows.is_empty() {
            return Err(PlanError::NoFlows);
        }
        if self.time_limit == Duration::ZERO {
            return Err(PlanError::TimeLimit);
        }
        unique("paths", self.paths.iter().map(|path| &path.name))?;
        unique("flows", self.flows.iter().map(|flow| &flow.name))?;
        for flow in &self.flows {
            let name = || flow.name.clone();
            let paths = self.paths.len();
            for route in flow.routes() {
                for (n, path) in route.iter().enumerate() {
                    if *path >= paths || route[..n].contains(path) {
                        return Err(PlanError::Route { flow: name(), path: *path, paths });
                    }
                }
                if route.is_empty() {
                    return Err(PlanError::Route { flow: name(), path: 0, paths });
                }
            }
            if !flow.moves.is_sorted_by_key(|change| change.at) {
                let reason = "its moves are out of order; give the earlier one first".to_owned();
                return Err(PlanError::Setup { flow: name(), reason });
            }
            let mut route = &flow.route;
            for change in &flow.moves {
                let AddressChange::Move { route: to, .. } = &change.what else { continue };
                if to == route {
                    let at = thalweg_units::exact_duration(change.at);
                    let reason = format!("its move at {at} leads to where it is already; name other paths");
                    return Err(PlanError::Setup { flow: name(), reason });
                }
                route = to;
            }
            flow.traffic.check().map_err(|reason| PlanError::Traffic { flow: name(), reason: reason.to_owned() })?;
        }
        Ok(())
    }

    /// The sum of the fixed delays of both directions of a route.
    pub fn round_trip(&self, route: &[usize]) -> Duration {
        let paths = route.iter().filter_map(|path| self.paths.get(*path));
        paths.map(PathPlan::round_trip).sum()
    }

    /// The longest of these among the routes over a path.
    pub(crate) fn longest_round_trip(&self, path: usize) -> Duration {
        let routes = self.flows.iter().flat_map(FlowPlan::routes).filter(|route| route.contains(&path));
        routes.map(|route| self.round_trip(route)).max().unwrap_or_default()
    }
}

fn unique<'a>(kind: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(PlanError::Name { kind, name: name.clone() });
        }
    }
    Ok(())
}

impl fmt::Display for Crypto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Crypto::Real => "real",
            Crypto::Null => "null",
        })
    }
}
