//! The result of a run: flows, their two sides, links, and counts over time.

mod sum;

use thalweg_link::{DirectionStats, Quantiles};
use thalweg_proto::connection::ConnectionStats;
use thalweg_proto::observe::Limit;
use thalweg_recovery::trace::Metrics;
use thalweg_recovery::{PathStats, RepairStats};
use thalweg_units::{Duration, DurationExt};

use crate::floor::Floor;
use crate::frames::{Frames, TrackResult};
use crate::meter::Transfer;

/// A run's outcome. All times count from the start of the run unless they say otherwise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// In the order of the plan.
    pub flows: Vec<FlowResult>,
    /// Both directions of each path, in the order of the plan: up, down, up, down, ….
    pub links: Vec<LinkResult>,
    /// One number that two runs share only if the same packets crossed the same links at the same times.
    pub wire_hash: u128,
    /// One number that two runs share only if their endpoints decided the same at the same times; 0 if that was not
    /// recorded.
    pub decisions_hash: u128,
    /// Link events: packets offered, services ended, deliveries.
    pub events: u64,
    /// Datagrams that hosts sent.
    pub datagrams: u64,
    /// When it ended.
    pub virtual_time: Duration,
    /// What was counted in the measuring window, if there was one and the run reached it.
    pub window: Option<WindowResult>,
    /// Why it does not count, if so.
    pub failed: Option<String>,
}

/// What was counted between two moments of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WindowResult {
    /// When it began.
    pub from: Duration,
    /// When it ended: with the run, if that was earlier.
    pub to: Duration,
    /// Of each flow, in the order of the plan.
    pub flows: Vec<FlowWindow>,
    /// Of both directions of each path, as in [`RunResult::links`].
    pub links: Vec<LinkWindow>,
}

/// What a flow did in the measuring window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowWindow {
    /// Bytes of the application that arrived.
    pub bytes: u64,
    /// Packets that client and server sent and those that they declared lost, if the stack can report them while it
    /// runs.
    pub packets: [Option<PacketCounts>; 2],
}

/// Packets of one end of a flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Sent.
    pub sent: u64,
    /// Declared lost.
    pub lost: u64,
}

/// What a direction of a path did in the measuring window.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkWindow {
    /// Bytes serialised.
    pub served_bytes: u64,
    /// How long packets waited before they were serialised.
    pub sojourn: Quantiles,
}

/// What became of a flow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Its stack.
    pub stack: String,
    /// What the stack says of its settings.
    pub settings: String,
    /// The same by subject.
    pub notes: Vec<(&'static str, String)>,
    /// Whether its stack begins with a handshake.
    pub has_handshake: bool,
    /// The fastest that its transfer could have been; `None` for other traffic, and for a flow that changes its path.
    pub floor: Option<Floor>,
    /// Datagrams to an address of the client that a NAT had given away by the time they came there.
    pub astray: u64,
    /// When its client sent the first datagram: the zero of its own times.
    pub start: Duration,
    /// From then to the completed handshake.
    pub handshake: Option<Duration>,
    /// From then to the last byte (or frame); `None` if it did not finish.
    pub completion: Option<Duration>,
    /// Bytes of the application that arrived.
    pub bytes: u64,
    /// From the start to the mean byte: what the delivery curve's area comes down to.
    pub mean_byte: Option<Duration>,
    /// The longest time between two arrivals of bytes at an application.
    pub longest_gap: Duration,
    /// Requests and their responses, as the client saw them; those that never ended are missing.
    pub transfers: Vec<Transfer>,
    /// How many there were to be; zero if that has no end.
    pub due: u64,
    /// Bytes that had arrived by a time, counted from the start of the run; a point per
    /// [`Record::step`](crate::Record::step) at most.
    pub delivered: Vec<(Duration, u64)>,
    /// The same with points by bytes rather than by time, 1,025 at most, each at the arrival that it reports: enough to
    /// say when each 500th of them had arrived. Empty without [`Record::step`](crate::Record::step).
    pub shares: Vec<(Duration, u64)>,
    /// Media: what became of the frames. Of a call, of all tracks together; it has no deadline and no stalls.
    pub frames: Frames,
    /// A call: what became of the frames of each track, audio first.
    pub tracks: Vec<TrackResult>,
    /// The client's side.
    pub client: SideResult,
    /// The server's side.
    pub server: SideResult,
    /// What went wrong, if anything.
    pub failed: Option<String>,
}

/// One end of a flow.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SideResult {
    /// The transport's own figures; counters are summed over its connections, the rest is of the latest.
    pub stats: ConnectionStats,
    /// How repairs of losses began and ended, summed over its connections.
    pub repairs: RepairStats,
    /// Connections.
    pub connections: u64,
    /// Connections that were lost: they ended with anything but what both applications wanted.
    pub connections_lost: u64,
    /// For how long what held the sender back, by [`Limit::index`], over its connections.
    pub limited_by: [Duration; Limit::ALL.len()],
    /// Bytes of streams that were sent more than once, each time after the first.
    pub retransmitted: u64,
    /// The newest round-trip sample at every acknowledgment.
    pub rtt: Quantiles,
    /// Expiries of the probe timer that were too early: the next acknowledgment was for nothing newer than what had
    /// been sent before.
    pub early_probes: u64,
    /// Initial datagrams that were sent before anything of the peer had arrived: of a client, those before the first
    /// reply.
    pub unanswered_initials: u64,
    /// On request.
    pub series: Series,
    /// What it did on each of several paths that it used at once, in the order of [`FlowPlan::beside`], after that of
    /// the handshake; empty where it used one.
    ///
    /// [`FlowPlan::beside`]: crate::FlowPlan::beside
    pub ways: Vec<WayResult>,
    /// What only TCP counts.
    pub tcp: Option<TcpStats>,
    /// Which of all this the stack measures; of the rest a zero means nothing.
    pub measured: &'static [Figure],
}

/// Something that a stack may or may not measure. What is not listed here, every stack has or shows by being there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figure {
    /// Datagrams sent and received, and their bytes.
    Datagrams,
    /// Packets sent, packets declared lost, and their bytes.
    Packets,
    /// The smoothed round-trip time.
    Rtt,
    /// The smallest round-trip time.
    MinRtt,
    /// The largest window.
    MaxWindow,
    /// The most bytes in flight.
    MaxInFlight,
    /// Reductions of the window.
    CongestionEvents,
    /// Reductions taken back.
    Undos,
    /// Times that persistent congestion was established.
    PersistentCongestions,
    /// Packets declared lost that arrived.
    SpuriousPackets,
    /// Bytes of these.
    SpuriousBytes,
    /// Bytes of streams sent again.
    Retransmitted,
    /// Expiries of the probe timer.
    Ptos,
    /// Probe datagrams.
    Probes,
    /// Expiries of the probe timer that were too early.
    EarlyProbes,
    /// Initial datagrams sent before the first reply.
    UnansweredInitials,
    /// Packets that arrived marked Congestion Experienced.
    CeMarks,
    /// Connections that were lost.
    ConnectionsLost,
    /// Of a model: the bandwidth that it goes by, when its start ended and since then.
    ModelBandwidth,
    /// Of a model: how often it entered each phase.
    ModelPhases,
    /// Of a model: what ended Startup, Drain, Down and Up.
    ModelExits,
    /// Of a model: probes that ended with care, and probes for the round-trip time that idleness has saved.
    ModelCare,
    /// Of a model: what was acknowledged ahead of its bandwidth.
    ModelExtra,
    /// Of a model: the bound that loss has taught.
    ModelBound,
}

impl Figure {
    /// What the QUIC of this project measures.
    pub const ALL: &'static [Figure] = &[
        Figure::Datagrams,
        Figure::Packets,
        Figure::Rtt,
        Figure::MinRtt,
        Figure::MaxWindow,
        Figure::MaxInFlight,
        Figure::CongestionEvents,
        Figure::Undos,
        Figure::PersistentCongestions,
        Figure::SpuriousPackets,
        Figure::SpuriousBytes,
        Figure::Retransmitted,
        Figure::Ptos,
        Figure::Probes,
        Figure::EarlyProbes,
        Figure::UnansweredInitials,
        Figure::CeMarks,
        Figure::ConnectionsLost,
        Figure::ModelBandwidth,
        Figure::ModelPhases,
        Figure::ModelExits,
        Figure::ModelCare,
        Figure::ModelExtra,
        Figure::ModelBound,
    ];

    /// What the TCP of this project measures: it has no persistent congestion, and nobody judges its tail loss probes.
    pub const TCP: &'static [Figure] = &[
        Figure::Datagrams,
        Figure::Packets,
        Figure::Rtt,
        Figure::MinRtt,
        Figure::MaxWindow,
        Figure::MaxInFlight,
        Figure::CongestionEvents,
        Figure::Undos,
        Figure::SpuriousPackets,
        Figure::SpuriousBytes,
        Figure::Retransmitted,
        Figure::Ptos,
        Figure::Probes,
        Figure::CeMarks,
        Figure::ModelBandwidth,
        Figure::ModelPhases,
        Figure::ModelExits,
        Figure::ModelCare,
        Figure::ModelExtra,
        Figure::ModelBound,
    ];

    /// Figures that about every transport reports.
    pub const BASIC: &'static [Figure] = &[Figure::Datagrams, Figure::Packets, Figure::Rtt, Figure::MaxWindow];
}

impl SideResult {
    /// Whether the stack measures this.
    pub fn measures(&self, figure: Figure) -> bool {
        self.measured.contains(&figure)
    }
}

/// What one end of a flow did on one of several paths.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WayResult {
    /// The counters of the path.
    pub stats: PathStats,
    /// Its smoothed round-trip time at the end; none if it was never opened.
    pub rtt: Option<Duration>,
    /// Its smallest round-trip time.
    pub min_rtt: Option<Duration>,
}

/// What a TCP sender counts beside what every transport does.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpStats {
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Bytes of these.
    pub retransmitted_bytes: u64,
    /// Of these, found lost again without a timeout.
    pub lost_retransmissions: u64,
    /// Of these, reported by the peer to have been needless (D-SACK).
    pub needless_retransmissions: u64,
    /// SYN and SYN/ACK segments that were sent again.
    pub handshake_retransmissions: u64,
}

/// What a side did over time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Series {
    /// The path's numbers, as they changed.
    pub metrics: Vec<(Duration, Metrics)>,
    /// Packets with data, probes and the fate of packets.
    pub packets: Vec<PacketPoint>,
}

/// Whether the round-trip times among a path's numbers are measured. Before the first sample they are assumed (RFC 9002
/// section 6.2.2), which nobody wants to see in a plot.
pub fn is_measured(numbers: &Metrics) -> bool {
    let assumed = thalweg_recovery::Config::default().initial_rtt;
    let assumption = (assumed, assumed, assumed / 2, assumed);
    (numbers.latest_rtt, numbers.smoothed_rtt, numbers.rtt_variation, numbers.min_rtt) != assumption
}

/// Something that happened to a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketPoint {
    /// When.
    pub at: Duration,
    /// Which: number in the space of application data; TCP: place of the segment's first byte, in full segments.
    pub number: u64,
    /// What.
    pub what: PacketFate,
    /// Bytes; zero where only the number is known.
    pub size: u32,
}

/// What happened to a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketFate {
    /// It was sent.
    Sent,
    /// An acknowledgment covered it for the first time; TCP: everything before it was acknowledged.
    Acked,
    /// It was declared lost.
    Lost,
    /// It had been declared lost, and arrived.
    Spurious,
}

/// What a direction of a path did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkResult {
    /// Path and direction, such as "sat/down".
    pub name: String,
    /// Its counts.
    pub stats: DirectionStats,
    /// Time with something to send.
    pub busy: Duration,
    /// Points `(time, bytes waiting, how long the packet that left had been there, serialisation included)`, one per
    /// [`Record::step`](crate::Record::step) at most.
    pub queue: Vec<(Duration, u64, Duration)>,
    /// What its queue reported about itself at the same times, if it is managed: its state by name
    /// ([`Queue::signals`](thalweg_link::queue::Queue::signals)), and the counts `early_dropped` and `marked`.
    pub signals: Vec<Signal>,
}

/// A number that a queue reported about itself over time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Signal {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Times since the start of the run, and values.
    pub points: Vec<(Duration, f64)>,
}

impl FlowResult {
    /// Bytes per second of completion time, times eight; `None` if it did not finish.
    pub fn goodput_bps(&self) -> Option<u64> {
        let nanos = self.completion?.nanos();
        (nanos > 0).then(|| thalweg_units::math::mul_div(self.bytes, 8_000_000_000, nanos))
    }
}
