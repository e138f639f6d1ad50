//! What one run needs to know about the world, as plain data: paths, flows, and the limits of the run.
//!
//! This is what a scenario file says at one point of its `[vary]`; its serialised form is what names a run's result in
//! the [store](crate::store).

use serde::{Serialize, Serializer};
use thalweg_link::{Chain, PathConfig};
use thalweg_recovery::Policies;
use thalweg_units::Duration;

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
    /// The part of the run that rates are measured in; all of it if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
}

impl World {
    /// The paths that packets to a path or chain of this name cross, from client to server; none if there is none.
    pub fn route(&self, name: &str) -> Option<Vec<usize>> {
        match self.paths.iter().position(|path| path.name == name) {
            Some(path) => Some(vec![path]),
            None => self.chains.iter().find(|chain| chain.name == name)?.route(&self.paths),
        }
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

/// One flow, or one group of flows from one generator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSpec {
    /// The name in the file, or its number.
    pub name: String,
    /// Which transport.
    pub stack: String,
    /// The path it takes, by name.
    pub path: String,
    /// When it starts.
    pub start: Duration,
    /// Whether the start moves within one round trip from seed to seed.
    pub phase: bool,
    /// What it carries.
    pub traffic: Traffic,
    /// The rules of its transport.
    #[serde(serialize_with = "as_text")]
    pub policies: Policies,
    /// Settings of its transport.
    pub transport: TransportSpec,
    /// Settings of its transport if that is TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSpec>,
    /// How its hosts behave.
    pub host: HostModel,
}

fn as_text<S: Serializer>(policies: &Policies, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(policies)
}

/// How a host behaves.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostModel {
    /// Reacts at once.
    #[default]
    Ideal,
    /// With the wake-up delay, merged interrupts, network card and batches of a Linux host.
    Linux,
    /// The same with timers at whole milliseconds, as asynchronous runtimes have them.
    LinuxCoarse,
    /// As described.
    Custom {
        /// Timers fire at multiples of this.
        timer: Duration,
        /// From a timer to the program.
        wake: Duration,
        /// From the wire to the program, with all that arrives in between.
        receive: Duration,
        /// Bits per second of the network card, if it limits.
        nic: Option<u64>,
        /// Datagrams per batch.
        batch: u64,
    },
}

/// How the times between starts are distributed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Exponentially: as if nobody knew of the others.
    #[default]
    Poisson,
    /// Between zero and twice the mean.
    Uniform,
    /// All alike.
    Regular,
}

/// Settings of a transport that are not policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransportSpec {
    /// Idle timeout.
    pub idle_timeout: Option<Duration>,
    /// How long ACKs may be delayed.
    pub max_ack_delay: Option<Duration>,
    /// An ACK for every second packet, always.
    pub ack_every_second: bool,
    /// Largest UDP payload that is tried, bytes.
    pub max_datagram: Option<u64>,
    /// UDP payload to begin with, bytes.
    pub initial_datagram: Option<u64>,
    /// Whether larger datagrams are looked for.
    pub mtu_discovery: Option<bool>,
    /// Whether packets are marked ECT.
    pub ecn: Option<bool>,
    /// Receive window of a connection, bytes.
    pub receive_window: Option<u64>,
}

/// Settings of TCP; what is left out is as the stack has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TcpSpec {
    /// The first window.
    pub initial_window: Option<InitialWindow>,
    /// For how long the ACK of a single segment may wait; zero: every segment is acknowledged.
    pub delayed_ack: Option<Duration>,
    /// The shortest retransmission timeout.
    pub min_rto: Option<MinRto>,
    /// Whether segments are marked ECT and marks responded to.
    pub ecn: Option<bool>,
    /// Whether silence is probed before the timeout.
    pub tail_loss_probe: Option<bool>,
    /// Whether segments are lost by time, too.
    pub time_threshold: Option<bool>,
    /// Bytes of a full packet, headers included.
    pub mtu: Option<u64>,
    /// Bytes beyond the last one acknowledged that may be sent.
    pub receive_window: Option<u64>,
    /// Whether a reduction is a share of FlightSize (RFC 6937) rather than of the window (RFC 9937).
    pub reduces_flight_size: Option<bool>,
}

/// The first window of a TCP.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitialWindow {
    /// Ten segments.
    Rfc6928,
    /// Three, of Ethernet's size.
    Rfc3390,
    /// So many.
    Segments(u16),
}

/// The shortest retransmission timeout of a TCP.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinRto {
    /// 200 ms beyond the smoothed round trip.
    Linux,
    /// A second.
    Rfc6298,
    /// This.
    At(Duration),
}

/// What a flow carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Bytes in bulk, from server to client; without end if none.
    Download(Option<u64>),
    /// Bytes in bulk, from client to server; without end if none.
    Upload(Option<u64>),
    /// One request after the other.
    Requests {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
        /// How many.
        count: u64,
        /// Pause after a response.
        think: Duration,
    },
    /// Bursts and pauses, downwards.
    OnOff {
        /// Bytes of a burst.
        burst: u64,
        /// Pause between bursts, on average.
        pause: Duration,
        /// How that is distributed.
        pauses: Arrivals,
        /// How many bursts.
        count: u64,
    },
    /// Many short downloads, each a connection of its own.
    ShortFlows {
        /// Mean distance of their starts.
        every: Duration,
        /// How that is distributed.
        arrivals: Arrivals,
        /// How many.
        count: u64,
        /// Median size, bytes; `u64::MAX` for downloads without end.
        size: u64,
        /// Lognormal sizes with this ratio of 84th percentile to median; 1 for sizes that are all alike.
        spread: f64,
        /// Pareto sizes instead, with this tail exponent.
        pareto: Option<f64>,
        /// As streams of one connection rather than each on its own.
        one_connection: bool,
    },
    /// A web page: objects that wait for others.
    Page {
        /// The objects.
        objects: Vec<PageObject>,
    },
    /// Real-time frames, each with a deadline.
    Media {
        /// Bits per second.
        rate: u64,
        /// Time between frames.
        frame: Duration,
        /// How late a frame may be.
        deadline: Duration,
        /// How long.
        duration: Duration,
        /// From client to server instead of downwards.
        up: bool,
    },
    /// Unreliable datagrams at a constant rate.
    Datagrams {
        /// Bits per second of content.
        rate: u64,
        /// Bytes of content in a datagram; with the stack "raw" it is 44 bytes more on the wire.
        size: u64,
        /// How long.
        duration: Duration,
        /// From client to server instead of downwards.
        up: bool,
    },
}

/// An object of a web page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageObject {
    /// Bytes.
    pub size: u64,
    /// Which earlier objects have to be complete before it is asked for, by index.
    pub after: Vec<u64>,
    /// How long after that: parsing and running what came.
    pub delay: Duration,
}
