//! From a received datagram to frames: coalesced packets, keys, duplicates, paths.

use thalweg_recovery::{DataSpace, Ecn, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    frames::{Effects, Received},
    handshake::{Opened, Waiting},
    lifecycle::Phase,
    paths::PathKey,
    sizes::MIN_INITIAL,
};
use crate::{
    Side,
    cid::{ConnectionId, ResetToken},
    error::TransportError,
    observe::{ConnectionState, DropReason, KeyTrigger, ObserverEvent, Owner, PacketInfo, PacketKind},
    packet::{self, Header, Partial},
    udp::DatagramMeta,
    version::Version,
};

/// Packets kept because their keys may still come: the peer's second flight overtaking its first, mostly.
const MAX_UNDECRYPTABLE: usize = 16;

/// A datagram on its way in.
pub(super) struct Arrival {
    pub(super) meta: DatagramMeta,
    /// When it arrived: earlier than it is processed if it waited for keys.
    pub(super) at: Instant,
    /// The path that it is addressed to.
    pub(super) space: DataSpace,
    /// Its address pair, once known.
    pub(super) path: Option<PathKey>,
    /// Bytes of the whole datagram.
    size: usize,
    /// The destination of its first packet; coalesced packets must agree (RFC 9000 section 12.2).
    dcid: Option<ConnectionId>,
}

/// A packet that was opened.
struct OpenedPacket<'a> {
    space: SpaceId,
    kind: PacketKind,
    number: u64,
    /// Bytes of the whole packet.
    size: usize,
    partial: &'a Partial,
    /// Its frames.
    payload: &'a [u8],
}

/// The keys there are, to notice new ones.
type Stage = (bool, bool, bool, bool);

impl Connection {
    /// Takes a datagram that the endpoint has found to be this connection's. It is decrypted in place.
    ///
    /// Call it for each datagram of a batch and only then ask for transmissions: the whole batch gets one
    /// acknowledgement.
    pub fn handle_datagram(&mut self, now: Instant, meta: &DatagramMeta, datagram: &mut [u8]) {
        match self.lifecycle.phase {
            Phase::Open => {}
            Phase::Closing { .. } => return self.lifecycle.on_datagram_while_closing(),
            Phase::Draining { .. } | Phase::Closed => return,
        }
        self.handshake.beginning = None;
        let size = datagram.len();
        self.forget_retired_cids(now);
        self.reports.stats.udp_received.datagrams += 1;
        self.reports.stats.udp_received.bytes += size as u64;
        let space = self.space_of(datagram);
        let path = self.paths.find(space, meta, self.side);
        match path {
            Some(path) => self.on_bytes_received(now, path, size),
            None if self.may_come_from_new_path() => {}
            // Its connection ID is of nobody, so it looks like one of the first path, which may be gone.
            None if self.paths.iter().any(|path| path.remote == meta.remote)
                && packet::possible_reset_token(datagram).is_some_and(|token| self.is_stateless_reset(&token)) =>
            {
                return self.on_stateless_reset(now);
            }
            None => return self.reports.drop_packet(now, None, size, DropReason::UnknownPath),
        }
        let mut arrival = Arrival { meta: *meta, at: now, space, path, size, dcid: None };
        let (rtt, min_rtt) = self.rtts(path);
        self.streams.set_clock(now, rtt);
        self.spaces[SpaceId::Data(space)].acks.set_rtt(min_rtt);
        let before = self.stage();
        self.handle_coalesced(now, &mut arrival, datagram);
        if !self.handshake.waiting.is_empty() && self.stage() != before {
            self.retry_undecryptable(now);
        }
        self.reports.drain_trace(&mut self.recovery);
    }

    /// The path that a datagram is addressed to by its destination connection ID.
    #[inline]
    fn space_of(&self, datagram: &[u8]) -> DataSpace {
        if self.paths.several().is_none() || packet::is_long(datagram) {
            return DataSpace::FIRST;
        }
        datagram.get(1..1 + self.cids.own.len()).map_or(DataSpace::FIRST, |dcid| self.cids.space_of(dcid))
    }

    fn stage(&self) -> Stage {
        (
            self.keys.has(SpaceId::Handshake),
            self.keys.has(SpaceId::DATA),
            self.keys.has_early(),
            self.handshake.complete,
        )
    }

    #[inline]
    fn on_bytes_received(&mut self, now: Instant, path: PathKey, size: usize) {
        let path = &mut self.paths[path];
        path.received += size as u64;
        if !path.validated {
            self.update_amplification_limit(now);
        }
    }

    fn handle_coalesced(&mut self, now: Instant, arrival: &mut Arrival, datagram: &mut [u8]) {
        let mut rest = datagram;
        while !rest.is_empty() && self.lifecycle.is_open() {
            let (partial, len) = match Partial::parse(rest, self.cids.own.len()) {
                Ok(parsed) => parsed,
                Err(_) => return self.reports.drop_packet(now, None, rest.len(), DropReason::Invalid),
            };
            let (packet, tail) = rest.split_at_mut(len);
            rest = tail;
            let dcid = *partial.header.dcid();
            if *arrival.dcid.get_or_insert(dcid) != dcid {
                self.reports.drop_packet(now, None, len, DropReason::Invalid);
                continue;
            }
            if let Err(error) = self.handle_packet(now, arrival, &partial, packet) {
                self.close_on_error(now, error);
            }
        }
    }

    /// Gives packets that came too early another chance, now that there are new keys.
    fn retry_undecryptable(&mut self, now: Instant) {
        for Waiting { meta, at, mut packet } in std::mem::take(&mut self.handshake.waiting) {
            let space = self.space_of(&packet);
            let path = self.paths.find(space, &meta, self.side);
            let mut arrival = Arrival { meta, at, space, path, size: packet.len(), dcid: None };
            self.handle_coalesced(now, &mut arrival, &mut packet);
        }
    }

    /// One packet. Errors end the connection; what merely cannot be read is dropped.
    fn handle_packet(
        &mut self,
        now: Instant,
        arrival: &mut Arrival,
        partial: &Partial,
        packet: &mut [u8],
    ) -> Result<(), TransportError> {
        let (space, kind) = match &partial.header {
            Header::Initial { .. } => (SpaceId::Initial, PacketKind::Initial),
            Header::ZeroRtt { .. } => (SpaceId::DATA, PacketKind::ZeroRtt),
            Header::Handshake { .. } => (SpaceId::Handshake, PacketKind::Handshake),
            Header::Short { .. } => (SpaceId::Data(arrival.space), PacketKind::OneRtt),
            Header::Retry { .. } | Header::VersionNegotiation { .. } => {
                self.handle_unnumbered(now, &partial.header, packet);
                return Ok(());
            }
        };
        let size = packet.len();
        let first_version = match self.check_header(now, arrival.size, kind, partial, packet) {
            Ok(first_version) => first_version,
            Err(reason) => {
                self.reports.drop_packet(now, Some(kind), size, reason);
                return Ok(());
            }
        };
        // RFC 9001 section 5.7: a server must not look at 1-RTT packets before the handshake is complete.
        let too_early = kind == PacketKind::OneRtt && !self.handshake.complete;
        let key = self.keys.remote_header(space, kind == PacketKind::ZeroRtt, first_version).filter(|_| !too_early);
        let Some(key) = key else {
            self.keep_undecryptable(now, arrival, kind, space, packet);
            return Ok(());
        };
        let largest = self.spaces.get(space).and_then(|state| state.acks.largest());
        let reset_token = if kind == PacketKind::OneRtt { packet.last_chunk().copied().map(ResetToken) } else { None };
        let Ok(open) = partial.unprotect(packet, key, largest) else {
            return self.on_undecryptable(now, kind, size, reset_token);
        };
        let (header, payload) = packet.split_at_mut(open.payload.start);
        let opened = match kind {
            PacketKind::OneRtt => self.keys.open_short(space, open.number, open.key_phase(), header, payload)?,
            _ => self.keys.open_long(space, open.number, header, payload, first_version).map(Opened::Known),
        };
        let len = match opened {
            None => return self.on_undecryptable(now, kind, size, reset_token),
            Some(Opened::Known(len)) => len,
            Some(Opened::Updated(len)) => {
                self.keys.commit_remote_update(space, open.number, &mut *self.handshake.session)?;
                let generation = self.keys.updates;
                let (owner, trigger) = (Owner::Remote, KeyTrigger::RemoteUpdate);
                self.reports.observe(now, &ObserverEvent::KeyUpdated { kind, owner, generation, trigger });
                len
            }
        };
        packet::check_reserved_bits(open.first)?;
        let payload = &payload[..len];
        self.on_opened(now, arrival, OpenedPacket { space, kind, number: open.number, size, partial, payload })
    }

    /// Retry and Version Negotiation: packets without a number.
    fn handle_unnumbered(&mut self, now: Instant, header: &Header, packet: &[u8]) {
        match header {
            Header::Retry { version, scid, token, .. } => {
                let taken = *version == self.handshake.version && {
                    let token = packet[token.clone()].to_vec();
                    self.on_retry(now, *scid, &token, packet)
                };
                if !taken {
                    self.reports.drop_packet(now, Some(PacketKind::Retry), packet.len(), DropReason::Unexpected);
                }
            }
            Header::VersionNegotiation { dcid, scid, versions } => {
                // Only an answer to our own packet carries both of its IDs.
                let ours = self.cids.local.sequence_of(dcid.as_slice()).is_some() && scid == self.cids.remote.active();
                if ours {
                    let offered: Vec<_> = packet::versions(&packet[versions.clone()]).collect();
                    self.on_version_negotiation(now, &offered);
                }
            }
            _ => {}
        }
    }

    /// What can be said of a packet before it is opened: why it is dropped, or whether it is in the version of the
    /// client's first flight. `size` is that of the whole datagram.
    fn check_header(
        &mut self,
        now: Instant,
        size: usize,
        kind: PacketKind,
        partial: &Partial,
        packet: &[u8],
    ) -> Result<bool, DropReason> {
        let mut first_version = false;
        if let Some(version) = partial.header.version().filter(|version| *version != self.handshake.version) {
            first_version = self.handshake.is_of_first_flight(version, kind);
            let may_follow = !first_version && kind == PacketKind::Initial;
            if !(first_version || may_follow && self.follow_version(now, version, partial, packet)) {
                return Err(DropReason::UnexpectedVersion);
            }
        }
        // RFC 9000 section 17.2.2: only a client's Initial carries a token.
        let has_token = matches!(&partial.header, Header::Initial { token, .. } if !token.is_empty());
        // RFC 9000 section 14.1: no datagram with a client's Initial is this small.
        let too_small = kind == PacketKind::Initial && size < usize::from(MIN_INITIAL);
        let is_invalid = match self.side {
            Side::Client => has_token || kind == PacketKind::ZeroRtt,
            Side::Server => too_small,
        };
        if is_invalid || !partial.fixed_bit { Err(DropReason::Invalid) } else { Ok(first_version) }
    }

    /// Client: whether a packet shows that the server has chosen another version.
    fn follow_version(&mut self, now: Instant, version: Version, partial: &Partial, packet: &[u8]) -> bool {
        let (original, dcid) = (self.handshake.version, *self.cids.remote.active());
        let follows = self.handshake.follow_version(version, &dcid, partial, packet, &mut self.keys);
        if follows {
            let (chosen, original) = (version.0, original.0);
            self.reports.observe(now, &ObserverEvent::VersionNegotiated { chosen, original });
        }
        follows
    }

    /// A packet that has authenticated.
    fn on_opened(
        &mut self,
        now: Instant,
        arrival: &mut Arrival,
        packet: OpenedPacket<'_>,
    ) -> Result<(), TransportError> {
        let OpenedPacket { space, kind, number, size, partial, payload } = packet;
        if self.spaces.get(space).is_some_and(|state| state.acks.is_duplicate(number)) {
            self.reports.drop_packet(now, Some(kind), size, DropReason::Duplicate);
            return Ok(());
        }
        if let Some(scid) = partial.header.scid()
            && !self.accept_source(scid)
        {
            self.reports.drop_packet(now, Some(kind), size, DropReason::Invalid);
            return Ok(());
        }
        let Some(path) = arrival.path.or_else(|| self.add_path(now, arrival)) else {
            self.reports.drop_packet(now, Some(kind), size, DropReason::UnknownPath);
            return Ok(());
        };
        arrival.path = Some(path);
        self.reports.stats.packets_received += 1;
        if !self.handshake.heard && self.side == Side::Server && arrival.meta.ecn == Ecn::NotEct {
            // The client may have tried with marks before, and got no answer.
            if let Some(path) = self.recovery.path_mut(self.paths[path].id) {
                path.postpone_ecn();
            }
        }
        self.handshake.heard = true;
        if let Some(set) = self.paths.set_mut(arrival.space) {
            set.on_heard(now);
        }
        self.lifecycle.idle.on_received(now);
        if kind == PacketKind::Handshake && self.side == Side::Server {
            self.on_handshake_packet_at_server(now, path);
        }
        let info = PacketInfo {
            kind,
            number: Some(number),
            size: size as u32,
            ecn: arrival.meta.ecn,
            path: self.paths[path].id,
            space: arrival.space,
            frames: &[],
        };
        self.reports.observe_received(now, info, payload);
        let received = Received { at: arrival.at, space, kind, path, dcid: partial.header.dcid() };
        let effects = self.on_frames(now, received, payload)?;
        if self.paths.is_settled() {
            let (paths, mut with) = self.migration();
            paths.forget_settled(&mut with);
        }
        if effects.ack_eliciting {
            self.lifecycle.idle.on_eliciting_received();
        }
        if effects.has_data
            && let Some(set) = self.paths.set_mut(arrival.space)
        {
            set.on_data();
        }
        if !self.lifecycle.is_open() || !self.keys.has(space) && kind != PacketKind::ZeroRtt {
            return Ok(());
        }
        let state = &mut self.spaces[space];
        state.acks.on_packet(arrival.at, number, arrival.meta.ecn, effects.ack_eliciting);
        if space.is_data() && state.on_number(number) {
            self.on_newest(now, arrival, &partial.header, effects);
        }
        Ok(())
    }

    /// A packet from an address that is not known yet.
    fn add_path(&mut self, now: Instant, arrival: &Arrival) -> Option<PathKey> {
        let DatagramMeta { remote, local_ip, .. } = arrival.meta;
        let path = if self.paths.set(arrival.space).is_none() {
            self.accept_path(now, arrival.space, remote, local_ip)?
        } else {
            let (paths, mut with) = self.migration();
            paths.add(now, arrival.space, &arrival.meta, &mut with)?
        };
        self.on_bytes_received(now, path, arrival.size);
        Some(path)
    }

    /// The newest packet by number of application data: it shows the peer's spin bit, and where the peer is.
    fn on_newest(&mut self, now: Instant, arrival: &mut Arrival, header: &Header, effects: Effects) {
        let in_use = arrival.path.filter(|path| self.paths.is_active(*path));
        if in_use.is_none() {
            // Its frames may have made us forget the path.
            arrival.path = self.paths.find(arrival.space, &arrival.meta, self.side);
        }
        let Some(path) = arrival.path else { return };
        if let Header::Short { spin, .. } = header {
            self.paths[path].spin.on_newest(self.side, *spin);
        }
        if in_use.is_none() && !self.paths.is_active(path) && !effects.probing_only && self.may_come_from_new_path() {
            let (paths, mut with) = self.migration();
            paths.follow_peer(now, path, &mut with);
        }
    }

    /// The first packet of the peer names the ID it wants to be addressed by; later long headers must agree
    /// (RFC 9000 section 7.2).
    fn accept_source(&mut self, scid: &ConnectionId) -> bool {
        match self.handshake.ids.peer_scid {
            Some(known) => known == *scid,
            None => {
                self.handshake.ids.peer_scid = Some(*scid);
                self.cids.remote.set_initial(*scid);
                true
            }
        }
    }

    /// A Handshake packet proves the client's address, and that Initial keys are needed no more
    /// (RFC 9000 section 8.1, RFC 9001 section 4.9.1).
    fn on_handshake_packet_at_server(&mut self, now: Instant, path: PathKey) {
        if !self.paths[path].validated {
            self.paths[path].validated = true;
            self.update_amplification_limit(now);
            self.reports.observe_state(now, ConnectionState::PeerValidated);
        }
        self.discard_space(now, SpaceId::Initial);
    }

    /// A packet that does not open: damage, forgery, or the peer has lost its state (RFC 9000 section 10.3).
    fn on_undecryptable(
        &mut self,
        now: Instant,
        kind: PacketKind,
        size: usize,
        reset_token: Option<ResetToken>,
    ) -> Result<(), TransportError> {
        if reset_token.is_some_and(|token| self.is_stateless_reset(&token)) {
            self.on_stateless_reset(now);
            return Ok(());
        }
        self.keys.failed += 1;
        self.reports.drop_packet(now, Some(kind), size, DropReason::DecryptionFailure);
        if self.keys.exhausted() {
            return Err(TransportError::aead_limit("too many packets failed authentication"));
        }
        Ok(())
    }

    /// The tokens of a path that was given up count no more: the peer may forget the path first, and answers a late
    /// packet of it by a reset (draft-ietf-quic-multipath-21 section 3.4.1).
    fn is_stateless_reset(&self, token: &ResetToken) -> bool {
        self.handshake.complete && self.cids.is_reset(token, |space| self.paths.is_in_use(space))
    }

    /// Keeps a packet whose keys are still to come, if it is worth it.
    fn keep_undecryptable(&mut self, now: Instant, arrival: &Arrival, kind: PacketKind, space: SpaceId, packet: &[u8]) {
        let coming = match space {
            SpaceId::Initial => false,
            SpaceId::Handshake => !self.handshake.complete && !self.handshake.confirmed,
            SpaceId::Data(_) => !self.handshake.complete,
        };
        if self.side.is_client() && !self.keys.has(SpaceId::Handshake) && space != SpaceId::Initial {
            // The server has answered, and what brings its keys is lost.
            self.speed_up_handshake(now);
        }
        if coming && self.handshake.waiting.len() < MAX_UNDECRYPTABLE {
            self.reports.observe(now, &ObserverEvent::PacketBuffered { kind, size: packet.len() as u32 });
            self.handshake.waiting.push(Waiting { meta: arrival.meta, at: arrival.at, packet: packet.to_vec() });
        } else {
            self.reports.drop_packet(now, Some(kind), packet.len(), DropReason::KeyUnavailable);
        }
    }
}
