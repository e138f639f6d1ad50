//! Probes after a silence, and what may be repeated before it has lasted (RFC 9002 sections 6.2.3 and 6.2.4).

use std::time::Duration;

use smallvec::SmallVec;
use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

use super::{Connection, PathEvent, open_packet::OpenPacket};

/// How often a connection repeats handshake messages ahead of its probe timer. Once makes good a single loss; each
/// further time costs a server that does not know its client's address two datagrams.
const MAX_SPEED_UPS: u8 = 3;
/// How many datagrams a server repeats then: enough for a large ServerHello and the messages behind it.
const SPEED_UP_DATAGRAMS: u8 = 2;
/// A probe with less room than this is full, in bytes.
const MIN_REPEAT: usize = 32;

/// Probes that are owed, and how often the handshake was sped up.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// Datagrams owed to the probe timeout; the packets of all spaces share them.
    datagrams: u8,
    speed_ups: u8,
    /// The next speed-up comes no earlier.
    not_before: Option<Instant>,
}

impl Connection {
    /// Probes are due: they carry new data if there are any, and as much of what is unacknowledged as fits, the oldest
    /// first; else a PING (RFC 9002 section 6.2.4). Other spaces with something in flight share the datagrams.
    pub(super) fn on_probe_timeout(&mut self, now: Instant, space: SpaceId, datagrams: u8) {
        for other in SpaceId::ALL {
            if other == space || self.keys.local(other).is_some() && self.recovery.in_flight(other) {
                self.spaces[other.index()].probe(datagrams);
            }
        }
        self.probing.datagrams = datagrams;
        self.settle_copies();
        if self.recovery.pto_count() >= 2 && self.suspended.is_none() && self.handshake.complete {
            self.suspended = Some(self.idle.last_received);
            let silence = now.saturating_since(self.idle.last_received);
            self.reports.tell_path(PathEvent::Suspended { silence });
        }
    }

    /// A datagram with probes was written. After the last, what no longer found room in it is not owed any more.
    pub(super) fn on_probe_datagram(&mut self) {
        self.probing.datagrams = self.probing.datagrams.saturating_sub(1);
        if self.probing.datagrams == 0 {
            self.spaces.iter_mut().for_each(|space| space.probes = 0);
            self.settle_copies();
        }
    }

    /// So many datagrams are owed as second copies. The handshake is not sped up before `not_before`: what the peer
    /// asks for until then is on its way.
    pub(super) fn owe_datagrams(&mut self, datagrams: u8, not_before: Instant) {
        self.probing.datagrams = datagrams;
        self.probing.not_before = self.probing.not_before.max(Some(not_before));
    }

    /// Appends what is outstanding, the oldest first, as far as it fits: what no probe of this timeout has repeated yet
    /// or, if there is no more of that and the packet has nothing beyond `acks_end` yet, the oldest once again (RFC
    /// 9002 section 6.2.4).
    pub(super) fn write_repeats(&mut self, buf: &mut Vec<u8>, acks_end: usize, limit: usize, packet: &mut OpenPacket) {
        let space = packet.space;
        let is_data = space == SpaceId::DATA;
        let mut repeats = self.spaces[space.index()].repeats.clone();
        // A copy is one of each packet, a probe at least something.
        let mut is_second_round = self.owes_copies();
        loop {
            let room = limit.saturating_sub(buf.len());
            // Handshake bytes are gathered first, so that none that were never sent come between them.
            let waiting = if is_data { 0 } else { self.spaces[space.index()].crypto.lost_len() };
            if room < MIN_REPEAT || waiting >= room as u64 {
                break;
            }
            let next = self
                .recovery
                .outstanding_data_from(space, repeats.start)
                .take_while(|(number, _)| *number < repeats.end)
                .find(|(_, sent)| sent.is_worth_repeating())
                .map(|(number, sent)| (number, sent.clone()));
            match next {
                Some((number, sent)) => {
                    repeats.start = number + 1;
                    self.send_again(&sent);
                    if is_data {
                        self.write_frames(buf, limit, packet);
                    }
                }
                None if buf.len() == acks_end && !is_second_round && (is_data || !self.has_new_data(space)) => {
                    is_second_round = true;
                    repeats.start = 0;
                }
                None => break,
            }
        }
        self.spaces[space.index()].repeats = repeats;
    }

    /// Handshake messages of ours must have been lost: the peer repeats its own that we have read, or sends what we
    /// cannot read without more of them. Repeats those that are unacknowledged without waiting for the probe timer, a
    /// few times per connection and not twice for the same loss (RFC 9002 section 6.2.3).
    ///
    /// Two hellos that arrive together are the probes of a client whose first was lost: the answer goes out twice too.
    pub(super) fn speed_up_handshake(&mut self, now: Instant) {
        let is_unanswered = |space: &SpaceId| {
            let is_outstanding = self.recovery.in_flight(*space) || self.spaces[space.index()].crypto.can_send();
            self.keys.local(*space).is_some() && is_outstanding
        };
        let mut spaces: SmallVec<[SpaceId; 2]> = SmallVec::from_buf([SpaceId::Initial, SpaceId::Handshake]);
        spaces.retain(|space| is_unanswered(space));
        // What has not left yet leaves twice anyway.
        if self.wants_copies() && spaces.iter().any(|space| self.spaces[space.index()].crypto.can_send()) {
            return;
        }
        let is_too_early = self.probing.not_before.is_some_and(|at| now < at);
        if self.probing.speed_ups >= MAX_SPEED_UPS || is_too_early || spaces.is_empty() {
            return;
        }
        self.probing.speed_ups += 1;
        // The answer takes a round trip, which is no longer than the handshake took so far.
        let round_trip = now.saturating_since(self.handshake.started).max(Duration::from_millis(1));
        self.probing.not_before = Some(now + round_trip);
        let datagrams = if self.side.is_client() { 1 } else { SPEED_UP_DATAGRAMS };
        for space in spaces {
            self.spaces[space.index()].probe(datagrams);
        }
        self.probing.datagrams = datagrams;
        self.settle_copies();
        if !self.side.is_client() {
            // All that is known is that the client's packets get through.
            if let Some(path) = self.recovery.path_mut(self.paths.active().id) {
                path.suspend_ecn();
            }
        }
    }
}
