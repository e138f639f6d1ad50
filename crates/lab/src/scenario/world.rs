//! The world of one run as plain data: paths, flows, and the limits of the run.
//!
//! This is what a scenario file says at one point of its `[vary]`; its serialised form is what names a run's result in
//! the [store](crate::store).

use serde::Serialize;
use thalweg_link::{Chain, PathConfig};
pub use thalweg_sim::Traffic;
use thalweg_units::{Duration, Rate};

pub use super::flow::{FlowSpec, MoveSpec};

/// One point of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct World {
    /// Paths, in the order of the file.
    pub paths: Vec<PathConfig>,
    /// Chains of them, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// Flows, in the order of the file.
    pub flows: Vec<FlowSpec>,
    /// When a run is given up, in virtual time.
    pub time_limit: Duration,
    /// Whether packets are really encrypted.
    pub crypto: Crypto,
    /// What a seed changes.
    pub perturb: Perturb,
    /// Whether hosts delay what they send by chance.
    pub host_delay: bool,
    /// For how long at most, if the scenario says that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_delay_most: Option<Duration>,
    /// The part of the run that rates are measured in; all of it if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
}

impl World {
    /// The paths that packets to a path or chain of this name cross, from client to server; none if there is none.
    pub fn route(&self, name: &str) -> Option<Vec<usize>> {
        thalweg_link::route(name, &self.paths, &self.chains)
    }

    /// Whether a flow takes the path of this name, by itself or in a chain.
    pub fn takes(&self, path: &str) -> bool {
        let taken = self.flows.iter().flat_map(FlowSpec::paths).filter_map(|name| self.route(name));
        taken.flatten().any(|at| self.paths[at].name == path)
    }

    /// About how many bytes its flows carry until they end, or the run does: what the effort of a run goes by. At least
    /// one. A flow without end counts with the rate of its slowest link.
    pub fn bytes(&self) -> u64 {
        let of = |flow: &FlowSpec| {
            let up = flow.traffic.sends_up();
            let most = || {
                let hops = self.route(&flow.path).unwrap_or_default();
                let directions = hops.iter().map(|at| if up { &self.paths[*at].up } else { &self.paths[*at].down });
                let rate = directions.map(|direction| direction.rate.nominal()).min().unwrap_or(Rate::ZERO);
                rate.bytes_in(self.time_limit.saturating_sub(flow.start))
            };
            flow.traffic.bytes().unwrap_or_else(most)
        };
        self.flows.iter().map(of).fold(0, u64::saturating_add).max(1)
    }

    /// What can be run but hardly is what was meant, with the key: queues too short for their disciplines.
    pub fn warnings(&self) -> Vec<String> {
        let of = |path: &PathConfig| {
            let is_over = |chain: &&Chain| chain.hops.contains(&path.name);
            let chains = self.chains.iter().filter(|chain| self.flows.iter().any(|flow| flow.takes(&chain.name)));
            let routes = chains.filter(is_over).filter_map(|chain| chain.route(&self.paths));
            let longest = routes.map(|route| self.round_trip(&route)).max().unwrap_or_default();
            let found = path.queue_warnings(longest.max(path.round_trip()));
            let named = |(direction, why)| format!("path.{}.{direction}: {why}", path.name);
            found.into_iter().map(named).collect::<Vec<_>>()
        };
        self.paths.iter().flat_map(of).collect()
    }

    /// The sum of the fixed delays of both directions of a route.
    pub fn round_trip(&self, route: &[usize]) -> Duration {
        route.iter().filter_map(|path| self.paths.get(*path)).map(PathConfig::round_trip).sum()
    }
}

/// A part of a run, in virtual time from its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// Where it begins.
    pub from: Duration,
    /// Where it ends; after its beginning.
    pub to: Duration,
}

/// What a seed changes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Perturb {
    /// Everything that chance decides: start phase, endpoints, impairments, traffic.
    #[default]
    All,
    /// Next to nothing: the endpoints' random bytes, and one of the first 200 packets of one direction takes a
    /// microsecond longer.
    Microsecond,
    /// Next to nothing: the endpoints' random bytes, and one of the packets 11 to 200 of the direction against the
    /// data, an acknowledgment, is lost.
    Ack,
}

impl Perturb {
    /// Whether a seed leaves alone what chance decides in the world around the endpoints.
    pub fn is_single(self) -> bool {
        self != Perturb::All
    }
}

/// How packets are protected inside the simulator.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crypto {
    /// As on the wire.
    #[default]
    Real,
    /// Same sizes, a checksum instead of a cipher.
    Null,
}
