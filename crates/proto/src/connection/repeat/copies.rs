//! Second copies of what the first reply waits for: the flights of the handshake, the request and a short reply.
//!
//! What is lost of them is made good by a probe timeout, three round trips late or more; where several packets of a
//! hundred are lost, that is the tail of every first reply. With `handshake=twice`, and with
//! `handshake=twice(from=loss)` once a loss was seen, each datagram of a short flight leaves a second time right behind
//! the flight. The copies are packets of their own (RFC 9000 section 13.3), count in flight, and respect window and
//! amplification limit. Probes have none.
//!
//! A client's flights are copied until its handshake is confirmed, a server's until a packet that it sent after the end
//! of its handshake is acknowledged.

use smallvec::SmallVec;
use thalweg_recovery::SpaceId;

/// The most datagrams of a flight that leaves twice: two copies fit into an initial window (RFC 9002 section 7.2).
/// What is longer is no first reply but the beginning of a transfer, whose losses are repaired while it goes on.
const MAX_FLIGHT: u8 = 5;
/// The most copies of a connection: four flights. An application that writes byte by byte makes many short ones.
const MAX_COPIES: u8 = 4 * MAX_FLIGHT;

/// Numbers of packets, each with its space.
pub(super) type Packets = SmallVec<[(SpaceId, u64); 16]>;

/// The flight that is under way, and what there is to copy of it.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Packets of the flight that are worth a copy.
    flight: Packets,
    /// Datagrams and bytes of the flight.
    datagrams: u8,
    bytes: u64,
    /// Something of the flight was sent before: it is a repair, and not copied.
    pub(super) is_repair: bool,
    /// Copies that have left.
    sent: u8,
    /// A loss was seen.
    pub(super) loss_seen: bool,
    /// Copies are owed: what spaces owe as probes are those.
    pub(super) is_owed: bool,
    /// What follows is not copied any more.
    pub(super) is_over: bool,
}

/// A flight that has ended.
pub(super) struct Flight {
    pub(super) packets: Packets,
    pub(super) datagrams: u8,
    pub(super) bytes: u64,
    /// It is short enough, and no repair.
    pub(super) may_be_copied: bool,
}

impl Copies {
    /// No further flight is copied.
    pub(super) fn end(&mut self) {
        *self = Copies { is_over: true, ..Copies::default() };
    }

    /// A datagram of `bytes` left with these packets, which are no probes.
    pub(super) fn on_datagram(&mut self, packets: &[(SpaceId, u64)], bytes: usize) {
        if packets.is_empty() || self.is_over {
            return;
        }
        self.datagrams = self.datagrams.saturating_add(1);
        self.bytes += bytes as u64;
        if self.datagrams <= MAX_FLIGHT {
            self.flight.extend_from_slice(packets);
        }
    }

    /// Whether there is something to copy, or to end.
    pub(super) fn has_flight(&self) -> bool {
        !self.is_over && (self.is_owed || self.is_repair || !self.flight.is_empty())
    }

    /// The flight is over.
    pub(super) fn end_flight(&mut self) -> Flight {
        let Copies { datagrams, bytes, sent, is_repair, .. } = *self;
        let is_short = (1..=MAX_FLIGHT).contains(&datagrams) && sent.saturating_add(datagrams) <= MAX_COPIES;
        let packets = std::mem::take(&mut self.flight);
        (self.datagrams, self.bytes, self.is_repair) = (0, 0, false);
        Flight { packets, datagrams, bytes, may_be_copied: is_short && !is_repair }
    }

    /// So many datagrams are to leave as copies.
    pub(super) fn owe(&mut self, datagrams: u8) {
        self.sent += datagrams;
        self.is_owed = true;
    }
}
