//! What one run needs to know about the world, as plain data: paths, flows, and the limits of the run.
//!
//! This is what a scenario file says at one point of its `[vary]`; its serialised form is what names a run's result in the
//! [store](crate::store).

use std::sync::Arc;

use serde::{Serialize, Serializer};
use thalweg_link::trace::{CsvTrace, Mahimahi};
pub use thalweg_sim::Traffic;
use thalweg_units::Duration;

pub use super::flow::{FlowSpec, MoveSpec, TransportSpec};
use crate::hash::Digest;

/// One point of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct World {
    /// Paths, in the order of the file.
    pub paths: Vec<PathSpec>,
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
    /// Next to nothing: the endpoints' random bytes, and one of the first 200 packets of one direction takes a microsecond
    /// longer.
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

/// A path: two directions, each with a queue of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathSpec {
    /// The name in the file.
    pub name: String,
    /// From client to server.
    pub up: DirectionSpec,
    /// From server to client.
    pub down: DirectionSpec,
    /// When both directions drop everything, at the same times.
    pub outages: Vec<Interruption>,
    /// When both directions are held, at the same times.
    pub suspensions: Vec<Suspension>,
    /// Whether this is a Wi-Fi hop: jitter in place of the delay, loss, suspensions as measured on one.
    pub wifi: bool,
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionSpec {
    /// Bits per second; without it, serialisation takes no time.
    pub rate: Option<u64>,
    /// A capacity trace instead of a rate.
    pub trace: Option<TraceSpec>,
    /// Propagation, one way.
    pub delay: Duration,
    /// How much may wait.
    pub queue: QueueSpec,
    /// What goes when it is full.
    pub aqm: Aqm,
    /// Random extra delay.
    pub jitter: Option<JitterSpec>,
    /// What gets lost; each acts by itself.
    pub loss: Vec<LossSpec>,
    /// Share of packets delivered twice.
    pub duplicate: f64,
    /// Share of packets with a flipped bit.
    pub corrupt: f64,
    /// Shares of packets held back for a while.
    pub reorder: Vec<ReorderSpec>,
    /// When everything is dropped.
    pub outages: Vec<Interruption>,
    /// When everything is held.
    pub suspensions: Vec<Suspension>,
    /// Changes of rate, delay or MTU in time.
    pub changes: Vec<Change>,
    /// After how long the changes start over.
    pub repeat: Option<Duration>,
    /// A token bucket that drops what exceeds it.
    pub policer: Option<PolicerSpec>,
    /// Largest IP packet, bytes.
    pub mtu: Option<u64>,
    /// What happens to ECN codepoints.
    pub ecn: EcnSpec,
}

/// A capacity trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceSpec {
    /// A synthetic mobile link, drawn anew for every seed.
    Lte,
    /// A synthetic low-orbit satellite with a handover every 15 s, drawn anew for every seed; brings delay and loss.
    Leo,
    /// A file in mahimahi's format.
    Mahimahi(TraceFile<Mahimahi>),
    /// A file of `t_ms,rate_bps,delay_ms,loss`.
    Csv(TraceFile<CsvTrace>),
}

/// A trace from a file. Its serialized form is a digest of the text, so that a changed file is a changed run.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile<T> {
    /// Of the file's text.
    pub digest: Digest,
    /// What the text says; the points of a scenario share it.
    pub trace: Arc<T>,
}

impl<T> Serialize for TraceFile<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digest.serialize(serializer)
    }
}

/// How much may wait in a queue.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueSpec {
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u64),
    /// As many bytes as the link carries in this time at its configured rate.
    Time(Duration),
    /// Thousandths of rate × round-trip propagation.
    MilliBdp(u64),
    /// Everything.
    Unlimited,
}

/// What a queue does when it is full.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aqm {
    /// The arriving packet goes.
    #[default]
    TailDrop,
    /// The oldest packet goes.
    HeadDrop,
}

/// The shape of a random delay.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JitterShape {
    /// Between zero and twice the mean.
    #[default]
    Uniform,
    /// Around the mean, cut at zero.
    Normal,
    /// Most are short, a few are long.
    Exponential,
    /// Heavy tail.
    Lognormal,
}

/// Random extra delay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JitterSpec {
    /// Its shape.
    pub shape: JitterShape,
    /// Its mean.
    pub mean: Duration,
    /// Its standard deviation, for the shapes that have one of their own.
    pub deviation: Duration,
    /// Whether packets may overtake each other.
    pub reorders: bool,
}

/// A way to lose packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossSpec {
    /// Each packet with this probability.
    Random(f64),
    /// Gilbert–Elliott: two states, each with its own loss.
    Burst {
        /// Probability, per packet, of going from good to bad.
        enter: f64,
        /// Probability, per packet, of going from bad to good.
        leave: f64,
        /// Loss while bad.
        bad: f64,
        /// Loss while good.
        good: f64,
    },
    /// Every so many packets, one.
    Every(u64),
    /// These packets, counted from 1 in this direction.
    Packets(Vec<u64>),
    /// The last packet of every message, when it is sent for the first time.
    Tail,
}

/// Some packets come late.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReorderSpec {
    /// Which share of them.
    pub share: f64,
    /// How late.
    pub by: Duration,
}

/// When an interruption begins and how long it lasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interruption {
    /// The first begin, drawn from this range.
    pub at: (Duration, Duration),
    /// How long, drawn from this range.
    pub lasts: (Duration, Duration),
    /// From begin to begin; once if absent.
    pub every: Option<Duration>,
    /// How often at most; 0 for no limit.
    pub times: u64,
    /// Begins are a Poisson process with mean distance `every`.
    pub random: bool,
}

/// Where packets wait while a direction is suspended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldWhere {
    /// Before serialisation: afterwards they leave at the rate of the line.
    Before,
    /// After propagation: afterwards they arrive all at once.
    After,
}

/// A time in which everything is held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suspension {
    /// When.
    pub when: Interruption,
    /// Where packets wait.
    pub held: HeldWhere,
}

/// A change of the link at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// New rate, bits per second.
    pub rate: Option<u64>,
    /// New delay.
    pub delay: Option<Duration>,
    /// New MTU, bytes of IP packet.
    pub mtu: Option<u64>,
}

/// A token bucket that drops what exceeds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicerSpec {
    /// Bits per second.
    pub rate: u64,
    /// Bytes.
    pub burst: u64,
}

/// What a path does to ECN codepoints.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnSpec {
    /// Carries them.
    #[default]
    Keep,
    /// Clears them.
    Bleach,
    /// Marks every packet that can be marked.
    MarkAll,
    /// Makes ECT(0) of ECT(1).
    Ect1ToEct0,
}
