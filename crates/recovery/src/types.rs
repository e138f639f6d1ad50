//! Types between the transport and its recovery: packets out, acknowledgments in, verdicts back.

use core::fmt;
use core::net::SocketAddr;
use core::ops::RangeInclusive;

use smallvec::SmallVec;
pub use thalweg_units::Ecn;
use thalweg_units::{Duration, Instant};

use crate::congestion::SavedPath;

/// A packet number space (RFC 9000 section 12.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceId {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets ("application data" in the RFCs). Where several paths are used at once, each has a space
    /// of its own; otherwise there is one, [`DATA`](Self::DATA), whatever paths its packets take.
    Data(DataSpace),
}

/// Names a packet number space of application data: the path identifier of draft-ietf-quic-multipath-21.
///
/// It stays the same when the addresses of its path change (section 5.1 of the draft). A [`PathId`] does not: it stands
/// for what is known of one pair of addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataSpace(pub u32);

impl DataSpace {
    /// That of the path on which a connection begins.
    pub const FIRST: DataSpace = DataSpace(0);
}

impl fmt::Display for DataSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SpaceId {
    /// The space of application data of a connection that uses one path at a time.
    pub const DATA: SpaceId = SpaceId::Data(DataSpace::FIRST);

    /// The three spaces of a connection that uses one path at a time, in the order in which they come into use.
    pub const ALL: [SpaceId; 3] = [SpaceId::Initial, SpaceId::Handshake, SpaceId::DATA];

    /// Position in [`ALL`](Self::ALL), for tables with one entry per encryption level: every space of application data
    /// has the last.
    pub const fn index(self) -> usize {
        match self {
            SpaceId::Initial => 0,
            SpaceId::Handshake => 1,
            SpaceId::Data(_) => 2,
        }
    }

    /// Whether it carries application data.
    pub const fn is_data(self) -> bool {
        matches!(self, SpaceId::Data(_))
    }

    /// The name that qlog uses: "initial", "handshake" or "application_data".
    pub const fn name(self) -> &'static str {
        match self {
            SpaceId::Initial => "initial",
            SpaceId::Handshake => "handshake",
            SpaceId::Data(_) => "application_data",
        }
    }
}

/// Names a path of one connection, a pair of addresses. Never reused within the connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u32);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a new path begins with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewPath {
    /// Bytes of a full datagram.
    pub datagram_size: u16,
    /// The round-trip time to assume until the first sample, such as the time a path validation took; `None` for that
    /// of the configuration.
    pub initial_rtt: Option<Duration>,
    /// The peer's address, for controllers that want to know it.
    pub remote: Option<SocketAddr>,
    /// What an earlier connection saved of the path.
    pub saved: Option<SavedPath>,
}

impl NewPath {
    /// A path about which nothing else is known.
    pub const fn new(datagram_size: u16) -> NewPath {
        NewPath { datagram_size, initial_rtt: None, remote: None, saved: None }
    }

    /// A path whose round trip is taken to last this long until the first sample.
    #[must_use]
    pub const fn assuming(mut self, initial_rtt: Duration) -> NewPath {
        self.initial_rtt = Some(initial_rtt);
        self
    }

    /// A path to this address.
    #[must_use]
    pub const fn to(mut self, remote: SocketAddr) -> NewPath {
        self.remote = Some(remote);
        self
    }

    /// A path of which an earlier connection saved this.
    #[must_use]
    pub const fn saved(mut self, saved: Option<SavedPath>) -> NewPath {
        self.saved = saved;
        self
    }
}

/// The return path of an acknowledgment, which need not be the path of the packets that it acknowledges
/// (draft-ietf-quic-multipath-21 section 5.5).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum WayBack {
    /// The packets' own path, or one that counts as such. The RTT sample is taken as measured.
    #[default]
    Own,
    /// The same, and so far samples by other paths have counted as such: their minimum says nothing of this one.
    OwnAtLast,
    /// Another path. The sample counts as the smallest by the own path, and what it exceeds the smallest by this one.
    Other {
        /// The smallest sample that returned by the own path.
        own_min: Duration,
        /// The smallest sample that returned by this path.
        min: Duration,
    },
    /// A path whose samples do not count.
    Ignored,
}

impl WayBack {
    /// The sample by the own path, if it counts. Never below the smallest that was measured there.
    pub(crate) fn own(self, sample: Duration) -> Option<Duration> {
        match self {
            WayBack::Own | WayBack::OwnAtLast => Some(sample),
            WayBack::Other { own_min, min } => Some(own_min.saturating_add(sample.saturating_sub(min))),
            WayBack::Ignored => None,
        }
    }
}

/// An ACK frame as the transport has read it (RFC 9000 section 19.3).
#[derive(Clone, Debug)]
pub struct AckFrame<'a, R> {
    /// The acknowledged packet numbers, in descending order and disjoint.
    pub ranges: R,
    /// When it arrived: the same as the time it is processed, unless its keys were missing until now. Its RTT sample
    /// ends here (RFC 9002 section 5.3: the wait is no part of the path's delay).
    pub arrived: Instant,
    /// The ACK delay as decoded from the frame.
    pub delay: Duration,
    /// The peer's ECN counts, if the frame has them.
    pub ecn: Option<EcnCounts>,
    /// When acknowledged packets arrived, by descending packet number, where the peer says so; otherwise empty.
    pub arrivals: &'a [ReceiveTime],
    /// The path that it returned by.
    pub way_back: WayBack,
}

impl<R: Iterator<Item = RangeInclusive<u64>>> AckFrame<'static, R> {
    /// A frame that arrived at `arrived`, without ACK delay, ECN counts and receive times.
    pub const fn new(arrived: Instant, ranges: R) -> Self {
        AckFrame { ranges, arrived, delay: Duration::ZERO, ecn: None, arrivals: &[], way_back: WayBack::Own }
    }
}

/// When a packet arrived by the peer's clock (draft-ietf-quic-receive-ts).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReceiveTime {
    /// Packet number.
    pub number: u64,
    /// Time from the start of the peer's clock.
    pub at: Duration,
}

impl ReceiveTime {
    /// When packet `number` arrived, of a list by descending number. O(log n), and nothing where there are none.
    pub(crate) fn of(list: &[ReceiveTime], number: u64) -> Option<Duration> {
        let index = list.binary_search_by(|known| number.cmp(&known.number)).ok()?;
        list.get(index).map(|known| known.at)
    }
}

/// How many packets with each ECN codepoint the peer has counted in a space so far (RFC 9000 section 19.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// Packets that arrived marked ECT(0).
    pub ect0: u64,
    /// Packets that arrived marked ECT(1).
    pub ect1: u64,
    /// Packets that arrived marked CE.
    pub ce: u64,
}

/// A packet that has just been sent.
///
/// `T` is what the transport wants back when the packet's fate is known.
#[derive(Clone, Debug)]
pub struct Sent<T> {
    /// Packet number; strictly increasing within a space. Numbers left out count as deliberately skipped.
    pub number: u64,
    /// When it was sent.
    pub time: Instant,
    /// Bytes of the packet as they count in flight: its share of the UDP payload.
    pub size: u32,
    /// Whether the peer has to acknowledge it.
    pub ack_eliciting: bool,
    /// Whether it counts in flight (RFC 9002 section 2: ack-eliciting, or contains PADDING).
    pub in_flight: bool,
    /// Whether it probes for a larger path MTU: its loss says nothing about congestion (RFC 9000 section 14.4).
    pub mtu_probe: bool,
    /// The ECN codepoint that it carries.
    pub ecn: Ecn,
    /// The path it was sent on.
    pub path: PathId,
    /// What the transport wants back.
    pub data: T,
}

/// A packet that an ACK has newly acknowledged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acked<T> {
    /// Packet number.
    pub number: u64,
    /// Bytes, as given when it was sent.
    pub size: u32,
    /// When it was sent.
    pub time_sent: Instant,
    /// Whether it was ack-eliciting.
    pub ack_eliciting: bool,
    /// Whether it was an MTU probe.
    pub mtu_probe: bool,
    /// The path it was sent on.
    pub path: PathId,
    /// It had been declared lost before: the declaration was wrong, and `data` has been handed back once already.
    pub declared_lost: bool,
    /// What the transport gave.
    pub data: T,
}

/// A packet that has just been declared lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lost<T> {
    /// Packet number.
    pub number: u64,
    /// Bytes, as given when it was sent.
    pub size: u32,
    /// When it was sent.
    pub time_sent: Instant,
    /// Whether it was ack-eliciting.
    pub ack_eliciting: bool,
    /// Whether it was an MTU probe.
    pub mtu_probe: bool,
    /// The path it was sent on.
    pub path: PathId,
    /// Which rule declared it lost.
    pub trigger: LossTrigger,
    /// What the transport gave.
    pub data: T,
}

/// Why a packet was declared lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossTrigger {
    /// Enough packets sent later on the same path were acknowledged (RFC 9002 section 6.1.1).
    PacketThreshold,
    /// It was sent too long before a packet that was acknowledged (RFC 9002 section 6.1.2).
    TimeThreshold,
    /// The transport took it back ([`Recovery::withdraw`](crate::Recovery::withdraw)); nothing was lost.
    Withdrawn,
    /// The retransmission timer expired (TCP, RFC 6298 section 5).
    Timeout,
}

/// What an acknowledgment or a timeout revealed. Owned and reused by the caller; every call appends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// Newly acknowledged packets: in the order of the ACK's ranges, ascending within a range.
    pub acked: Vec<Acked<T>>,
    /// Packets newly declared lost, oldest first per path.
    pub lost: Vec<Lost<T>>,
    /// The RTT sample that the ACK gave, as measured (not reduced by the peer's ACK delay), whether or not it counted.
    pub rtt_sample: Option<Duration>,
    /// The path of the packet that gave it.
    pub rtt_path: Option<PathId>,
    /// How many of `acked` had been declared lost wrongly.
    pub spurious: u32,
    /// Persistent congestion was established (RFC 9002 section 7.6).
    pub persistent_congestion: bool,
}

impl<T> Outcome<T> {
    /// Empties it for the next use; the capacity stays.
    pub fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.rtt_sample = None;
        self.rtt_path = None;
        self.spurious = 0;
        self.persistent_congestion = false;
    }
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Outcome {
            acked: Vec::new(),
            lost: Vec::new(),
            rtt_sample: None,
            rtt_path: None,
            spurious: 0,
            persistent_congestion: false,
        }
    }
}

/// The peer acknowledged a packet that was never sent: a connection error of type PROTOCOL_VIOLATION (RFC 9000 section
/// 13.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer acknowledged packet {number} of the {} space, which was never sent", space.name())]
pub struct AckOfUnsent {
    /// The space.
    pub space: SpaceId,
    /// A number in the acknowledged range that was never sent: beyond the last packet, or skipped on purpose.
    pub number: u64,
}

/// What the transport has to do after [`Recovery::on_timeout`](crate::Recovery::on_timeout).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing: the timer was not due.
    None,
    /// Packets were declared lost; they are in the outcome.
    Lost,
    /// Send probes: ack-eliciting packets that ignore the congestion window (RFC 9002 section 6.2.4). Nothing is
    /// declared lost.
    Probe {
        /// The space to probe in.
        space: SpaceId,
        /// How many ack-eliciting datagrams to send: 2, or 1 where the probe policy says so and for a client that only
        /// keeps the handshake from a deadlock.
        datagrams: u8,
    },
}

/// How much may leave on a path at this moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This many bytes may leave at once; never less than one datagram.
    Now(u64),
    /// The window has room, but the pacer wants the next bytes to leave no earlier than this.
    Paced(Instant),
    /// The window is full: an acknowledgment or a declared loss has to come first.
    WindowFull,
}

/// A list with room for one entry per path before it allocates.
pub(crate) type PerPath<V> = SmallVec<[V; 2]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_codepoints_are_those_of_the_ip_header() {
        for (ecn, bits) in [(Ecn::NotEct, 0b00), (Ecn::Ect1, 0b01), (Ecn::Ect0, 0b10), (Ecn::Ce, 0b11)] {
            assert_eq!(ecn.bits(), bits);
            assert_eq!(Ecn::from_bits(bits | 0b1010_1000), ecn);
        }
    }

    #[test]
    fn spaces_index_their_own_list() {
        for (index, space) in SpaceId::ALL.into_iter().enumerate() {
            assert_eq!(space.index(), index);
        }
    }
}
