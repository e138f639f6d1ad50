//! Second copies of what the first reply waits for: the flights of the handshake, the request and a short reply.
//!
//! What is lost of them is made good by a probe timeout, three round trips late or more; where several packets of a
//! hundred are lost, that is the tail of every first reply. With `handshake=twice`, and with `handshake=twice-on-loss`
//! once a loss was seen, each datagram of a short flight leaves a second time right behind the flight. The copies are
//! packets of their own (RFC 9000 section 13.3), count in flight, and respect window and amplification limit. Probes
//! have none.
//!
//! A client's flights are copied until its handshake is confirmed, a server's until a packet that it sent after the end
//! of its handshake is acknowledged.

use smallvec::SmallVec;
use thalweg_recovery::{HandshakePolicy, SpaceId};
use thalweg_units::Instant;

use super::{Connection, paths::PathKey};
use crate::{Side, udp::Transmit};

/// The most datagrams of a flight that leaves twice: two copies fit into an initial window (RFC 9002 section 7.2).
/// What is longer is no first reply but the beginning of a transfer, whose losses are repaired while it goes on.
const MAX_FLIGHT: u8 = 5;
/// The most copies of a connection: four flights. An application that writes byte by byte makes many short ones.
const MAX_COPIES: u8 = 4 * MAX_FLIGHT;

/// The flight that is under way, and what there is to copy of it.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Packets of the flight that are worth a copy.
    flight: SmallVec<[(SpaceId, u64); 16]>,
    /// Datagrams and bytes of the flight.
    datagrams: u8,
    bytes: u64,
    /// Something of the flight was sent before: it is a repair, and not copied.
    is_repair: bool,
    /// Copies that have left.
    sent: u8,
    /// A loss was seen.
    loss_seen: bool,
    /// Copies are owed: what spaces owe as probes are those.
    is_owed: bool,
    /// What follows is not copied any more.
    is_over: bool,
}

impl Copies {
    /// A datagram of `bytes` left with these packets.
    fn on_datagram(&mut self, packets: &[(SpaceId, u64)], bytes: usize) {
        if packets.is_empty() || self.is_over {
            return;
        }
        self.datagrams = self.datagrams.saturating_add(1);
        self.bytes += bytes as u64;
        if self.datagrams <= MAX_FLIGHT {
            self.flight.extend_from_slice(packets);
        }
    }

    /// The flight is over.
    fn start_flight(&mut self) {
        self.flight.clear();
        (self.datagrams, self.bytes, self.is_repair) = (0, 0, false);
    }
}

impl Connection {
    /// A datagram was written with these packets, which are no probes.
    pub(super) fn note_flight(&mut self, packets: &[(SpaceId, u64)], bytes: usize) {
        self.copies.on_datagram(packets, bytes);
    }

    /// Something was lost on the way to the peer, and what it carried in `space` waits to be sent again if it still
    /// matters.
    pub(super) fn note_loss(&mut self, space: SpaceId) {
        self.copies.loss_seen = true;
        self.copies.is_repair |= self.spaces[space.index()].crypto.lost_len() > 0;
    }

    /// No further flight is copied.
    pub(super) fn end_copies(&mut self) {
        self.copies = Copies { is_over: true, ..Copies::default() };
    }

    /// Whether what the spaces owe is a second copy rather than a probe.
    pub(super) fn owes_copies(&self) -> bool {
        self.copies.is_owed
    }

    /// The copies that were owed have left, are not needed any more, or give way to a probe timeout.
    pub(super) fn settle_copies(&mut self) {
        self.copies.is_owed = false;
    }

    /// The copies of the flight that has just ended.
    pub(super) fn transmit_copies(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.copies.is_over || !self.owe_copies(now, path) {
            return None;
        }
        let transmit = self.transmit_batch(now, path, max_segments, buf);
        if transmit.is_none() && !self.is_blocked(path) {
            // What was to be copied has been acknowledged, or its keys are gone.
            self.spaces.iter_mut().for_each(|space| space.probes = 0);
            self.settle_copies();
        }
        transmit
    }

    /// Whether a flight that ends now leaves twice.
    pub(super) fn wants_copies(&self) -> bool {
        let is_wanted = match self.recovery.policies().handshake {
            HandshakePolicy::Twice => true,
            HandshakePolicy::TwiceOnLoss => self.copies.loss_seen || self.has_missed_packets(),
            _ => false,
        };
        is_wanted && !self.copies.is_over
    }

    /// The peer's next datagram is waited for: nothing may leave.
    fn is_blocked(&self, path: PathKey) -> bool {
        self.paths[path].amplification_budget() < u64::from(super::sizes::MIN_INITIAL)
    }

    /// Makes copies of the flight that has just ended due. Returns whether any are.
    fn owe_copies(&mut self, now: Instant, path: PathKey) -> bool {
        if self.copies.is_owed {
            return !self.is_blocked(path);
        }
        if self.copies.flight.is_empty() && !self.copies.is_repair || self.wants_data() {
            // There is none, or window, pacer or amplification limit interrupt it.
            return false;
        }
        let is_wanted = self.wants_copies();
        let Copies { datagrams, bytes, sent, is_repair, .. } = self.copies;
        let flight = std::mem::take(&mut self.copies.flight);
        self.copies.start_flight();
        let id = self.paths[path].id;
        let window = self.recovery.path(id).map_or(0, thalweg_recovery::Path::window);
        let fits = self.recovery.bytes_in_flight(id).saturating_add(bytes) <= window;
        let is_short = (1..=MAX_FLIGHT).contains(&datagrams) && sent.saturating_add(datagrams) <= MAX_COPIES;
        let is_probing = self.spaces.iter().any(|space| space.probes > 0);
        if !is_wanted || !fits || !is_short || is_repair || is_probing {
            return false;
        }
        for space in SpaceId::ALL {
            let numbers = || flight.iter().filter(|(of, _)| *of == space).map(|(_, number)| *number);
            if let Some((first, last)) = numbers().min().zip(numbers().max())
                && self.keys.local(space).is_some()
            {
                let count = u8::try_from(numbers().count()).unwrap_or(u8::MAX);
                let state = &mut self.spaces[space.index()];
                (state.probes, state.repeats) = (count, first..last + 1);
            }
        }
        self.copies.sent += datagrams;
        self.copies.is_owed = true;
        // A peer that sends its flight twice as well has not asked for ours again.
        self.owe_datagrams(datagrams, now + self.rtt());
        !self.is_blocked(path)
    }

    /// The peer's packets begin with number 0 in every space (RFC 9000 section 12.3): one that is missing was lost on
    /// its way, or is late.
    fn has_missed_packets(&self) -> bool {
        [SpaceId::Initial, SpaceId::Handshake].iter().any(|space| self.spaces[space.index()].acks.is_missing_any())
    }

    /// A space is about to forget what it has received.
    pub(super) fn note_missed_packets(&mut self) {
        self.copies.loss_seen |= self.has_missed_packets();
    }

    /// A packet in the space of application data was acknowledged.
    pub(super) fn on_data_acked(&mut self) {
        if self.side == Side::Server && self.handshake.complete {
            self.end_copies();
        }
    }
}
