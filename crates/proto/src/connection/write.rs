//! The content of a datagram: the order of spaces and frames, coalescing, padding (RFC 9000 sections 12 to 14).

use smallvec::SmallVec;
use thalweg_recovery::{DataSpace, Ecn, Sent, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    ack_frequency::may_ask_at_once,
    event::Event,
    handshake::nonce_path,
    open_packet::{Content, OpenPacket},
    paths::{Path, PathKey},
    sent::Control,
    sizes::{MIN_INITIAL, MIN_PACKET},
};
use crate::{
    Side,
    crypto::TAG_LEN,
    error::TransportError,
    frame::{self, Frame, PathFrame},
    observe::{PacketInfo, PacketKind},
    packet::{self, LongType},
};

/// A packet owed with less room than this is full, in bytes.
const MIN_REPEAT: usize = 32;

impl Connection {
    /// One datagram of at most `room` bytes: a packet of each space that has something to say.
    pub(super) fn write_datagram(
        &mut self,
        now: Instant,
        path: PathKey,
        buf: &mut Vec<u8>,
        room: usize,
        content: Content,
        ecn: Ecn,
    ) {
        let start = buf.len();
        let mut open: Option<OpenPacket> = None;
        let mut pad = false;
        let mut probe = false;
        let mut flight: SmallVec<[(SpaceId, u64); 3]> = SmallVec::new();
        let (spaces, gone) = self.spaces_with_keys(path);
        for &space in &spaces[gone..] {
            let Some(wanted) = self.wanted(now, space, content) else { continue };
            if space == SpaceId::Initial && self.is_initial_over(now, content) {
                continue;
            }
            let tag = if open.is_some() { TAG_LEN } else { 0 };
            let used = buf.len() + tag - start;
            if room < used + MIN_PACKET
                || (space == SpaceId::Initial && room < usize::from(MIN_INITIAL) && wanted == Content::All)
            {
                continue;
            }
            if let Some(previous) = open.take() {
                self.finish_packet(now, buf, previous, None);
            }
            let mut packet = self.begin_packet(buf, space, path, ecn);
            self.fill_packet(now, buf, start + room - TAG_LEN, &mut packet, wanted);
            // A packet that turns out empty is dropped, unless the one before it counts on its padding.
            if buf.len() == packet.mark.payload_pos() && !pad {
                buf.truncate(packet.mark.start);
                self.spaces.spare.give_back(packet.frames);
                continue;
            }
            pad |= space == SpaceId::Initial && (self.side == Side::Client || packet.ack_eliciting);
            probe |= packet.probe;
            if !packet.probe && packet.frames.is_worth_repeating() {
                flight.push((space, packet.mark.number));
            }
            open = Some(packet);
        }
        if probe {
            self.repeat.on_owed_datagram();
        }
        if let Some(last) = open {
            let is_padded = pad || self.is_first_after_move(path);
            let pad_to = is_padded.then_some(start + usize::from(MIN_INITIAL).min(room));
            self.finish_packet(now, buf, last, pad_to);
        }
        self.repeat.on_flight(&flight, buf.len() - start);
    }

    /// Whether the client has moved to this path, and its datagram is the first that is no probe: the one that the
    /// server follows. It may answer with three times what came from the new address until that is validated (RFC 9000
    /// sections 8.1 and 9.3), and a client that only receives has nothing but acknowledgments to send.
    fn is_first_after_move(&self, path: PathKey) -> bool {
        let is_first = |path: &Path| path.validation.timer().is_some() && path.sent <= u64::from(MIN_INITIAL);
        self.side == Side::Client && is_first(&self.paths[path])
    }

    /// Whether an Initial packet would say nothing that a Handshake packet of ours does not say. The server has
    /// discarded its Initial keys by the time it could acknowledge one (RFC 9001 section 4.9.1), and that the client
    /// has Handshake keys acknowledges the server's Initial packets. Nor need the datagram have 1200 bytes then: a
    /// Handshake packet validates the address (RFC 9000 section 8.1). A thin way up takes long for what is padded.
    fn is_initial_over(&self, now: Instant, content: Content) -> bool {
        self.side == Side::Client && self.wanted(now, SpaceId::Handshake, content).is_some()
    }

    /// What a space has to say, if it may: `None` if nothing.
    fn wanted(&self, now: Instant, space: SpaceId, content: Content) -> Option<Content> {
        self.keys.local(space)?;
        let state = &self.spaces[space];
        // Handshake bytes that wait behind a window full of other data, with nothing of their own in flight, have no
        // timer to free them: 1-RTT packets arm none before the handshake is confirmed (RFC 9002 section 6.2.1).
        let stuck = !space.is_data() && state.crypto.can_send() && !self.recovery.in_flight(space);
        let is_owed = self.repeat.is_owed(space);
        let probing = is_owed || stuck;
        if is_owed && self.is_probed_by_ping(space) {
            return Some(Content::Probe);
        }
        if (content == Content::All || probing) && (probing || self.has_new_data(space) || state.ping) {
            return Some(Content::All);
        }
        // A question by a path that carries no data of ours: it waits for no window, since nothing is in flight there.
        if state.ping && space.is_data() && self.paths.has_choice() && !self.recovery.in_flight(space) {
            return Some(Content::Probe);
        }
        let is_small = state.ping || self.has_control() || self.streams.can_send_control();
        if content == Content::Control && space.is_data() && self.keys.has(space) && is_small {
            return Some(Content::Control);
        }
        let can_ack = !space.is_data() || self.keys.has(space);
        let owes_own = || state.acks.due(now) && !self.acks_go_elsewhere(now, space);
        (can_ack && (owes_own() || self.owes_acks_of_others(now, space))).then_some(Content::Acks)
    }

    /// Whether anything waits for the window of the path.
    pub(super) fn wants_data(&self, path: PathKey) -> bool {
        let (spaces, gone) = self.spaces_with_keys(path);
        spaces[gone..].iter().any(|space| self.keys.local(*space).is_some() && self.has_new_data(*space))
    }

    /// The spaces whose packets a path carries, and how many at the front have no keys any more: those of the handshake
    /// once it is confirmed.
    #[inline]
    fn spaces_with_keys(&self, path: PathKey) -> ([SpaceId; 3], usize) {
        let is_late = !self.keys.has(SpaceId::Initial) && !self.keys.has(SpaceId::Handshake);
        (self.paths[path].spaces(), if is_late { 2 } else { 0 })
    }

    /// Whether `space` has frames to send other than acknowledgements.
    fn has_new_data(&self, space: SpaceId) -> bool {
        let crypto = || self.spaces.crypto(space).can_send();
        match space {
            SpaceId::Initial | SpaceId::Handshake => crypto(),
            SpaceId::Data(_) if !self.keys.has(space) => {
                self.keys.has_early() && (self.streams.can_send() || self.datagrams.can_send())
            }
            // Every packet asks: what is most often the case comes first.
            SpaceId::Data(_) => self.streams.can_send() || self.datagrams.can_send() || crypto() || self.has_control(),
        }
    }

    fn has_control(&self) -> bool {
        self.handshake.has_frames()
            || self.cids.local.has_announcements()
            || self.cids.remote.has_retirements()
            || self.paths.several().is_some_and(|several| several.has_frames() || self.cids.further_have_frames())
    }

    pub(super) fn begin_packet(&mut self, buf: &mut Vec<u8>, space: SpaceId, path: PathKey, ecn: Ecn) -> OpenPacket {
        let dcid = self.cids.remote_on(path.space(), self.paths.cid_of(path));
        let number = self.spaces[space].numbers.next();
        let number_len = packet::number_len(number, self.recovery.largest_acked(space));
        let scid = self.cids.own;
        let mut long = |ty, token: &[u8]| {
            packet::write_long_header(buf, ty, self.handshake.version, dcid, &scid, token, number, number_len)
        };
        let (kind, mark) = match space {
            SpaceId::Initial => (PacketKind::Initial, long(LongType::Initial, &self.handshake.tokens.initial)),
            SpaceId::Handshake => (PacketKind::Handshake, long(LongType::Handshake, &[])),
            SpaceId::Data(_) if !self.keys.has(space) => (PacketKind::ZeroRtt, long(LongType::ZeroRtt, &[])),
            SpaceId::Data(_) => {
                let phase = self.keys.phase();
                let spin = self.paths[path].spin.value();
                let mark = packet::write_short_header(buf, dcid, spin, phase, number, number_len);
                (PacketKind::OneRtt, mark)
            }
        };
        let mut frames = self.spaces.spare.take(space);
        frames.is_copy = self.repeat.is_copying();
        OpenPacket { space, path, ecn, kind, mark, frames, ack_eliciting: false, probe: false, mtu_probe: false }
    }

    /// Appends frames until `limit` (an offset in `buf`) or until there is nothing left to say.
    fn fill_packet(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
        limit: usize,
        packet: &mut OpenPacket,
        content: Content,
    ) {
        let early = packet.kind == PacketKind::ZeroRtt;
        let space = packet.space;
        let may_write_own = !early && !self.acks_go_elsewhere(now, space);
        let state = &mut self.spaces[space];
        if may_write_own && (state.acks.pending() || state.acks.due(now)) {
            packet.frames.acked = state.acks.write(now, buf, limit);
        }
        if self.paths.has_choice() {
            self.write_acks_of_others(now, buf, limit, space);
        }
        let acks_end = buf.len();
        if content == Content::Acks {
            // Now and then the peer has to acknowledge our acknowledgements, so that we can forget old ranges
            // (RFC 9000 section 13.2.4).
            if packet.frames.acked.is_some() && self.spaces[space].acks.should_elicit() && buf.len() < limit {
                Frame::Ping.encode(buf);
            }
            packet.ack_eliciting = buf.len() > acks_end;
            return;
        }
        if content == Content::Probe {
            if buf.len() < limit {
                Frame::Ping.encode(buf);
            }
            packet.ack_eliciting = buf.len() > acks_end;
            packet.probe = packet.ack_eliciting && self.repeat.is_owed(space);
            self.spaces[space].ping &= !packet.ack_eliciting;
            if packet.probe {
                self.repeat.on_packet(space);
            }
            return;
        }
        if content == Content::Control {
            self.write_connection_control(buf, limit, packet);
            self.streams.write_control(buf, limit, &mut packet.frames.streams);
            let state = &mut self.spaces[space];
            if buf.len() == acks_end && state.ping && buf.len() < limit {
                Frame::Ping.encode(buf);
            }
            packet.ack_eliciting = buf.len() > acks_end;
            state.ping &= !packet.ack_eliciting;
            return;
        }
        packet.probe = self.repeat.is_owed(space);
        let asks = space.is_data() && self.asks_at_once(now, packet);
        let (end, limit) = (limit, limit - usize::from(asks));
        let is_copy = packet.probe && self.repeat.owes_copies();
        if packet.probe && !space.is_data() {
            // What follows cannot be read without it.
            self.write_repeats(buf, acks_end, limit, packet);
        }
        self.write_frames(buf, limit, packet);
        if packet.probe && space.is_data() {
            self.write_repeats(buf, acks_end, limit, packet);
        }
        if asks && buf.len() < end && (packet.probe || buf.len() > acks_end) {
            // An answer that waits for more packets, or for a delay, would prolong the silence, or what the controller
            // waits for. What the controller wants to know goes along with data.
            Frame::ImmediateAck.encode(buf);
        }
        let state = &mut self.spaces[space];
        if buf.len() == acks_end && (self.repeat.is_owed(space) && !is_copy || state.ping) && buf.len() < limit {
            Frame::Ping.encode(buf);
        }
        packet.ack_eliciting = buf.len() > acks_end;
        packet.probe &= packet.ack_eliciting;
        if packet.ack_eliciting {
            state.ping = false;
            self.repeat.on_packet(space);
        }
    }

    /// Whether the packet asks to be acknowledged at once: if it is a probe, or if the controller wants that.
    fn asks_at_once(&self, now: Instant, packet: &OpenPacket) -> bool {
        let path = || self.recovery.path(self.paths[packet.path].id);
        (packet.probe || path().is_some_and(|path| path.wants_prompt_ack(now)))
            && self.keys.has(packet.space)
            && may_ask_at_once(self.recovery.policies().ack_rate, &self.handshake)
    }

    /// Appends what is outstanding, the oldest first, as far as it fits: what no probe of this timeout has repeated yet
    /// or, if there is no more of that and the packet has nothing beyond `acks_end` yet, the oldest once again (RFC
    /// 9002 section 6.2.4).
    fn write_repeats(&mut self, buf: &mut Vec<u8>, acks_end: usize, limit: usize, packet: &mut OpenPacket) {
        let space = packet.space;
        let mut is_first_round = true;
        loop {
            let room = limit.saturating_sub(buf.len());
            // Handshake bytes are gathered first, so that none that were never sent come between them.
            let waiting = if space.is_data() { 0 } else { self.spaces.crypto(space).lost_len() };
            if room < MIN_REPEAT || waiting >= room as u64 {
                return;
            }
            if let Some(sent) = self.repeat.next(space, &self.recovery) {
                self.send_again(&sent);
                if space.is_data() {
                    self.write_frames(buf, limit, packet);
                }
                continue;
            }
            // A probe has at least something.
            let is_empty = buf.len() == acks_end && (space.is_data() || !self.has_new_data(space));
            if !(is_empty && std::mem::take(&mut is_first_round) && self.repeat.begin_again(space)) {
                return;
            }
        }
    }

    /// Appends what waits to be sent.
    fn write_frames(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        let is_data = packet.space.is_data();
        if packet.kind != PacketKind::ZeroRtt {
            self.write_crypto(buf, limit, packet);
            if is_data {
                self.write_connection_control(buf, limit, packet);
            }
        }
        if is_data {
            // A request goes along with data: without any there is nothing to be acknowledged.
            let known = self.recovery.path(self.paths[packet.path].id);
            if !self.paths.has_choice() {
                self.ack_requests.consider_after_jump(self.recovery.policies().ack_rate, &self.handshake, known);
            }
            if self.ack_requests.is_wanted()
                && packet.kind == PacketKind::OneRtt
                && (self.streams.can_send() || self.datagrams.can_send())
                && let Some(sequence) =
                    self.ack_requests.write(buf, limit, &self.handshake.peer_params, &mut self.recovery)
            {
                packet.frames.control.push(Control::AckFrequency(sequence));
            }
            self.streams.write_control(buf, limit, &mut packet.frames.streams);
            if self.datagrams.can_send() {
                self.write_datagram_frames(buf, limit);
            }
            self.streams.write_data(buf, limit, &mut packet.frames.streams);
        }
    }

    fn write_crypto(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        let crypto = self.spaces.crypto_mut(packet.space);
        while crypto.can_send() {
            let offset = crypto.next_offset();
            let room = limit.saturating_sub(buf.len());
            let Some(len) = frame::crypto_fit(room, offset, usize::MAX).filter(|len| *len > 0) else {
                break;
            };
            let Some(range) = crypto.next_chunk(len) else { break };
            let bytes = crypto.bytes(&range);
            frame::encode_crypto_header(buf, range.start, bytes.len());
            buf.extend_from_slice(bytes);
            packet.frames.crypto.push(range);
        }
    }

    /// HANDSHAKE_DONE, if it is due and fits.
    pub(super) fn write_handshake_done(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        if self.handshake.done_pending && buf.len() + Frame::HandshakeDone.encoded_len() <= limit {
            self.handshake.done_pending = false;
            Frame::HandshakeDone.encode(buf);
            packet.frames.control.push(Control::HandshakeDone);
        }
    }

    /// Frames of the connection itself, most urgent first.
    fn write_connection_control(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        self.write_handshake_done(buf, limit, packet);
        let record = &mut packet.frames.control;
        let fits = |buf: &Vec<u8>, frame: &Frame<'_>| buf.len() + frame.encoded_len() <= limit;
        // With several paths the first one's frames name it too (draft-ietf-quic-multipath-21 section 3.2).
        let of_path = self.paths.several().map(|_| u64::from(DataSpace::FIRST.0));
        let retire_len = if of_path.is_some() { 4 + 1 } else { 1 } + 8;
        while self.cids.remote.has_retirements() && buf.len() + retire_len <= limit {
            let Some(sequence) = self.cids.remote.poll_retire() else {
                break;
            };
            match of_path {
                Some(path) => Frame::Path(PathFrame::RetireConnectionId { path, sequence }).encode(buf),
                None => Frame::RetireConnectionId(sequence).encode(buf),
            }
            record.push(Control::RetireConnectionId(sequence));
        }
        // Type, path, two varints, length, ID, token.
        let new_cid_len = if of_path.is_some() { 4 + 1 } else { 1 } + 8 + 8 + 1 + 20 + 16;
        while self.cids.local.has_announcements() && buf.len() + new_cid_len <= limit {
            let Some(new) = self.cids.local.poll_announce() else {
                break;
            };
            match of_path {
                Some(path) => Frame::Path(PathFrame::NewConnectionId { path, new }).encode(buf),
                None => Frame::NewConnectionId(new).encode(buf),
            }
            record.push(Control::NewConnectionId(new.sequence));
        }
        if self.handshake.tokens.is_pending
            && let Some(token) = &self.handshake.tokens.new
        {
            let frame = Frame::NewToken(token);
            if fits(buf, &frame) {
                frame.encode(buf);
                record.push(Control::NewToken);
                self.handshake.tokens.is_pending = false;
            }
        }
        self.write_path_control(buf, limit, &mut packet.frames.control);
    }

    fn write_datagram_frames(&mut self, buf: &mut Vec<u8>, limit: usize) {
        let full_room = self.datagram_room();
        while self.datagrams.can_send() {
            if self.datagrams.write(buf, limit, full_room) == 0 {
                break;
            }
        }
        if self.datagrams.poll_unblocked() {
            self.reports.tell(Event::DatagramsUnblocked);
        }
    }

    /// Pads, seals and records a packet. `pad_to` is the offset in `buf` the datagram has to reach.
    pub(super) fn finish_packet(&mut self, now: Instant, buf: &mut Vec<u8>, packet: OpenPacket, pad_to: Option<usize>) {
        let OpenPacket { space, path: key, ecn, kind, mark, frames, ack_eliciting, mtu_probe, .. } = packet;
        let path = self.paths[key].id;
        // Room for the header protection sample, then what the datagram demands (RFC 9001 section 5.4.2).
        let before = buf.len();
        let least = mark.payload_pos() + mark.min_payload();
        let target = pad_to.map_or(least, |end| least.max(end.saturating_sub(TAG_LEN)));
        if buf.len() < target {
            buf.resize(target, 0);
        }
        let padded = buf.len() > before;
        let info = PacketInfo {
            kind,
            number: Some(mark.number),
            size: (buf.len() + TAG_LEN - mark.start) as u32,
            ecn,
            path,
            space: key.space(),
            frames: &[],
        };
        self.reports.observe_sent(now, info, &buf[mark.payload_pos()..]);
        let sealed = match self.keys.local(space) {
            Some((header, key)) => mark.seal(buf, nonce_path(space), key, header).is_ok(),
            None => false,
        };
        self.spaces[space].numbers.on_used(&mut self.rng);
        if !sealed {
            // Cannot happen with the keys we checked for; the packet is as good as lost, its content is not.
            buf.truncate(mark.start);
            self.send_again(&frames);
            self.spaces.spare.give_back(frames);
            return;
        }
        if kind == PacketKind::OneRtt {
            self.on_one_rtt_sealed(now, space, mark.number);
        }
        if ack_eliciting {
            self.lifecycle.idle.on_eliciting_sent(now);
        }
        let more = self.has_new_data(space);
        self.recovery.on_sent(
            space,
            Sent {
                number: mark.number,
                time: now,
                size: (buf.len() - mark.start) as u32,
                ack_eliciting,
                in_flight: ack_eliciting || padded,
                mtu_probe,
                ecn,
                path,
                data: frames,
            },
            more,
        );
        if kind == PacketKind::Handshake && self.side == Side::Client {
            // RFC 9001 section 4.9.1: the first Handshake packet ends the use of Initial keys.
            self.discard_space(now, SpaceId::Initial);
        }
    }

    fn on_one_rtt_sealed(&mut self, now: Instant, space: SpaceId, number: u64) {
        self.keys.on_sealed(space, number);
        if self.keys.wants_update() && self.force_key_update(now) {
            return;
        }
        if self.keys.exhausted() {
            self.close_on_error(
                now,
                TransportError::aead_limit("the AEAD's limit is reached and no key update was possible"),
            );
        }
    }
}
