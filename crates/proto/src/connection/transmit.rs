//! From state to datagrams: which spaces speak, what goes first, coalescing, padding, batches (RFC 9000 sections 12-14).

use bytes::Bytes;
use smallvec::SmallVec;
use thalweg_recovery::{Budget, Ecn, PathId, Sent, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection, Event,
    lifecycle::{CloseFrame, Lifecycle},
    open_packet::OpenPacket,
    paths::{Path, PathKey, challenge_data},
    repeat::Underway,
    sent::{Control, SentFrames},
    sizes::{MIN_INITIAL, MIN_PACKET},
};
use crate::{
    Side,
    crypto::TAG_LEN,
    error::TransportError,
    frame::{self, Frame},
    observe::{Limit, PacketInfo, PacketKind},
    packet::{self, LongType},
    udp::Transmit,
};

/// A packet owed with less room than this is full, in bytes.
const MIN_REPEAT: usize = 32;
/// The most bytes of reason phrase sent with a close.
const MAX_REASON: usize = 256;

/// What a packet may hold.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Content {
    /// Acknowledgements only: the window is full.
    Acks,
    /// Those, PING, and control frames: the window has room, but the application's rate limit holds back what is large.
    /// Without them a paused connection would die of idleness, and starve its peer of credit.
    Control,
    /// Anything there is.
    All,
}

impl Connection {
    /// Writes the next datagram, or a batch of up to `max_segments` equal datagrams, into `buf` (which is cleared).
    ///
    /// `None`: nothing may be sent now. Ask again after every other call, and after [`Self::poll_timeout`]'s time.
    pub fn poll_transmit(&mut self, now: Instant, max_segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        let transmit = match self.lifecycle {
            Lifecycle::Open => {
                self.paths.iter_mut().for_each(|path| path.paced_until = None);
                let path = self.paths.next_to_send(&self.recovery);
                self.transmit_probing(now, buf)
                    .or_else(|| self.transmit_mtu_probe(now, path, buf))
                    .or_else(|| self.transmit_batch(now, path, max_segments.max(1), buf))
                    .or_else(|| self.transmit_again(now, path, max_segments.max(1), buf))
            }
            Lifecycle::Closing { .. } => self.transmit_close(now, buf),
            Lifecycle::Draining { .. } | Lifecycle::Closed => None,
        };
        if let Some(transmit) = &transmit {
            self.reports.stats.udp_sent.datagrams +=
                transmit.segment.map_or(1, |segment| transmit.size.div_ceil(segment)) as u64;
            self.reports.stats.udp_sent.bytes += transmit.size as u64;
        }
        self.reports.drain_trace(&mut self.recovery);
        transmit
    }

    /// The bulk of all traffic: as many full datagrams on `path` as window, pacer and content allow.
    pub(super) fn transmit_batch(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let id = self.paths[path].id;
        let known = self.recovery.path(id)?;
        let (size, ecn) = (known.datagram_size(), known.ecn_codepoint());
        self.streams.set_congestion_window(known.window());
        // After several unanswered probe timeouts the size itself may be what the path does not carry.
        let small = self.paths[path].mtu.pto_size(self.recovery.pto_count());
        let mtu = usize::from(size.min(small));
        let (mut allowance, held_back) = self.allowance(now, path);
        let had_allowance = allowance > 0;
        let mut segments = 0;
        while segments < max_segments {
            let start = buf.len();
            let amplification = self.paths[path].amplification_budget();
            let room = mtu.min(usize::try_from(amplification).unwrap_or(usize::MAX));
            if room < mtu.min(usize::from(MIN_INITIAL)) && (segments > 0 || room < MIN_PACKET) {
                if self.wants_data() {
                    self.reports.set_limit(now, id, Limit::Amplification);
                }
                break;
            }
            let content = if allowance > 0 { Content::All } else { held_back };
            self.write_datagram(now, path, buf, room, content, ecn);
            let len = buf.len() - start;
            if len == 0 {
                break;
            }
            segments += 1;
            self.paths[path].sent += len as u64;
            allowance = allowance.saturating_sub(len as u64);
            // Only full datagrams can be followed by another in the same batch.
            if len < mtu || allowance == 0 {
                break;
            }
        }
        if !self.paths[path].validated {
            self.update_amplification_limit(now);
        }
        if had_allowance && allowance > 0 && segments < max_segments {
            self.on_nothing_more(now, id);
        }
        self.datagram_batch(buf, path, ecn, mtu)
    }

    /// The bytes that window and pacer let out on `path`, and what may leave without any.
    fn allowance(&mut self, now: Instant, path: PathKey) -> (u64, Content) {
        let id = self.paths[path].id;
        let limit = match self.recovery.budget(now, id) {
            Budget::Now(bytes) => return (bytes, Content::Acks),
            Budget::Paced(until) => {
                self.paths[path].paced_until = Some(until);
                Limit::Pacing
            }
            Budget::WindowFull => Limit::Window,
        };
        if self.wants_data() {
            self.reports.set_limit(now, id, limit);
        }
        let is_capped = limit == Limit::Pacing && self.is_capped(id);
        (0, if is_capped { Content::Control } else { Content::Acks })
    }

    /// What leaves a second time, once nothing else is left to send.
    fn transmit_again(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.repeat.has_flight() && self.owe_copies(now, path) {
            let copies = self.transmit_batch(now, path, max_segments, buf);
            if copies.is_some() {
                return copies;
            }
            self.repeat.forgo_copies(&self.paths[path]);
        }
        if !self.repeat.copies_tails() || !self.handshake.complete {
            return None;
        }
        // What waits for the peer's credit is still to come.
        if self.wants_data() || self.streams.is_flow_blocked() {
            return None;
        }
        let path_state = &self.paths[path];
        let next = self.spaces[path_state.space()].numbers.next();
        let (recovery, streams) = (&mut self.recovery, &mut self.streams);
        if !self.repeat.owe_tail(now, path_state, max_segments, next, recovery, streams) {
            return None;
        }
        let tail = self.transmit_batch(now, path, max_segments, buf);
        self.repeat.on_tail(tail.as_ref().map_or(0, |tail| tail.size));
        tail
    }

    fn owe_copies(&mut self, now: Instant, path: PathKey) -> bool {
        let is_waiting = self.wants_data();
        let underway = Underway { keys: &self.keys, spaces: &self.spaces, recovery: &self.recovery };
        self.repeat.owe_copies(now, &self.paths[path], is_waiting, &underway)
    }

    /// Window and pacer would let more out, but there is nothing.
    fn on_nothing_more(&mut self, now: Instant, path: PathId) {
        let flow_blocked = self.streams.is_flow_blocked();
        self.recovery.on_app_limited(path);
        self.reports.set_limit(now, path, if flow_blocked { Limit::FlowControl } else { Limit::Application });
    }

    fn datagram_batch(&self, buf: &[u8], path: PathKey, ecn: Ecn, mtu: usize) -> Option<Transmit> {
        let path = &self.paths[path];
        (!buf.is_empty()).then(|| Transmit {
            remote: path.remote,
            local_ip: path.local,
            ecn,
            size: buf.len(),
            segment: (buf.len() > mtu).then_some(mtu),
        })
    }

    /// One datagram of at most `room` bytes: a packet of each space that has something to say.
    fn write_datagram(
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
        for space in SpaceId::ALL {
            let wanted = self.wanted(now, space, content);
            let Some(content) = wanted else { continue };
            let tag = if open.is_some() { TAG_LEN } else { 0 };
            let used = buf.len() + tag - start;
            if room < used + MIN_PACKET
                || (space == SpaceId::Initial && room < usize::from(MIN_INITIAL) && content == Content::All)
            {
                continue;
            }
            if let Some(previous) = open.take() {
                self.finish_packet(now, buf, previous, None);
            }
            let mut packet = self.begin_packet(buf, space, path, ecn);
            self.fill_packet(now, buf, start + room - TAG_LEN, &mut packet, content);
            // A packet that turns out empty is dropped, unless the one before it counts on its padding.
            if buf.len() == packet.mark.payload_pos() && !pad {
                buf.truncate(packet.mark.start);
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
            let pad_to = pad.then_some(start + usize::from(MIN_INITIAL).min(room));
            self.finish_packet(now, buf, last, pad_to);
        }
        self.repeat.on_flight(&flight, buf.len() - start);
    }

    /// What a space has to say, if it may: `None` if nothing.
    fn wanted(&self, now: Instant, space: SpaceId, content: Content) -> Option<Content> {
        self.keys.local(space)?;
        let state = &self.spaces[space];
        // Handshake bytes that wait behind a window full of other data, with nothing of their own in flight, have no
        // timer to free them: 1-RTT packets arm none before the handshake is confirmed (RFC 9002 section 6.2.1).
        let stuck = space != SpaceId::DATA && state.crypto.can_send() && !self.recovery.in_flight(space);
        let probing = self.repeat.is_owed(space) || stuck;
        if (content == Content::All || probing) && (probing || self.has_new_data(space) || state.ping) {
            return Some(Content::All);
        }
        let is_small = state.ping || self.has_control() || self.streams.can_send_control();
        if content == Content::Control && space == SpaceId::DATA && self.keys.has(space) && is_small {
            return Some(Content::Control);
        }
        let can_ack = space != SpaceId::DATA || self.keys.has(SpaceId::DATA);
        (can_ack && state.acks.due(now)).then_some(Content::Acks)
    }

    /// Whether it is the application's limit that paces the path.
    fn is_capped(&self, path: PathId) -> bool {
        let most = self.recovery.max_rate();
        most.is_some() && self.recovery.path(path).and_then(thalweg_recovery::Path::pacing_rate) == most
    }

    /// Whether any space has something that waits for the window.
    pub(super) fn wants_data(&self) -> bool {
        SpaceId::ALL.into_iter().any(|space| self.keys.local(space).is_some() && self.has_new_data(space))
    }

    /// Whether `space` has frames to send other than acknowledgements.
    pub(super) fn has_new_data(&self, space: SpaceId) -> bool {
        let crypto = self.spaces[space].crypto.can_send();
        match space {
            SpaceId::Initial | SpaceId::Handshake => crypto,
            SpaceId::DATA if !self.keys.has(SpaceId::DATA) => {
                self.keys.has_early() && (self.streams.can_send() || self.datagrams.can_send())
            }
            SpaceId::Data(_) => crypto || self.has_control() || self.streams.can_send() || self.datagrams.can_send(),
        }
    }

    fn has_control(&self) -> bool {
        self.handshake.done_pending
            || self.handshake.new_token_pending
            || self.cids.local.has_announcements()
            || self.cids.remote.has_retirements()
    }

    fn begin_packet(&mut self, buf: &mut Vec<u8>, space: SpaceId, path: PathKey, ecn: Ecn) -> OpenPacket {
        let dcid = &self.cids.remote_on(self.paths.cid_of(path));
        let number = self.spaces[space].numbers.next();
        let number_len = packet::number_len(number, self.recovery.largest_acked(space));
        let scid = self.cids.own;
        let mut long =
            |ty, token: &[u8]| packet::write_long_header(buf, ty, self.version, dcid, &scid, token, number, number_len);
        let (kind, mark) = match space {
            SpaceId::Initial => (PacketKind::Initial, long(LongType::Initial, &self.handshake.token)),
            SpaceId::Handshake => (PacketKind::Handshake, long(LongType::Handshake, &[])),
            SpaceId::DATA if !self.keys.has(SpaceId::DATA) => (PacketKind::ZeroRtt, long(LongType::ZeroRtt, &[])),
            SpaceId::Data(_) => {
                let phase = self.keys.phase();
                let spin = self.paths[path].spin.value();
                let mark = packet::write_short_header(buf, dcid, spin, phase, number, number_len);
                (PacketKind::OneRtt, mark)
            }
        };
        let frames = SentFrames { is_copy: self.repeat.is_copying_tail(), ..SentFrames::new(space) };
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
        let state = &mut self.spaces[space];
        if !early && (state.acks.pending() || state.acks.due(now)) {
            packet.frames.acked = state.acks.write(now, buf, limit);
        }
        let acks_end = buf.len();
        if content == Content::Acks {
            // Now and then the peer has to acknowledge our acknowledgements, so that we can forget old ranges
            // (RFC 9000 section 13.2.4).
            if packet.frames.acked.is_some() && state.acks.should_elicit() && buf.len() < limit {
                Frame::Ping.encode(buf);
            }
            packet.ack_eliciting = buf.len() > acks_end;
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
        let asks = packet.probe && self.probes_ask(space) || self.controller_asks(now, space);
        let (end, limit) = (limit, limit - usize::from(asks));
        let is_copy = packet.probe && self.repeat.owes_copies();
        if packet.probe && space != SpaceId::DATA {
            // What follows cannot be read without it.
            self.write_repeats(buf, acks_end, limit, packet);
        }
        self.write_frames(buf, limit, packet);
        if packet.probe && space == SpaceId::DATA {
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

    /// Appends what is outstanding, the oldest first, as far as it fits: what no probe of this timeout has repeated yet
    /// or, if there is no more of that and the packet has nothing beyond `acks_end` yet, the oldest once again (RFC
    /// 9002 section 6.2.4).
    fn write_repeats(&mut self, buf: &mut Vec<u8>, acks_end: usize, limit: usize, packet: &mut OpenPacket) {
        let space = packet.space;
        let mut is_first_round = true;
        loop {
            let room = limit.saturating_sub(buf.len());
            // Handshake bytes are gathered first, so that none that were never sent come between them.
            let waiting = if space.is_data() { 0 } else { self.spaces[space].crypto.lost_len() };
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
    pub(super) fn write_frames(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        let is_data = packet.space == SpaceId::DATA;
        if packet.kind != PacketKind::ZeroRtt {
            self.write_crypto(buf, limit, packet);
            if is_data {
                self.write_connection_control(buf, limit, packet);
            }
        }
        if is_data {
            // A request goes along with data: without any there is nothing to be acknowledged.
            let has_data = self.streams.can_send() || self.datagrams.can_send();
            self.consider_ack_request_after_jump();
            if self.ack_requests.is_wanted()
                && packet.kind == PacketKind::OneRtt
                && has_data
                && let Some(sequence) = self.write_ack_request(buf, limit)
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
        let crypto = &mut self.spaces[packet.space].crypto;
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

    /// Frames of the connection itself, most urgent first.
    fn write_connection_control(&mut self, buf: &mut Vec<u8>, limit: usize, packet: &mut OpenPacket) {
        let record = &mut packet.frames.control;
        let fits = |buf: &Vec<u8>, frame: &Frame<'_>| buf.len() + frame.encoded_len() <= limit;
        if self.handshake.done_pending && fits(buf, &Frame::HandshakeDone) {
            self.handshake.done_pending = false;
            Frame::HandshakeDone.encode(buf);
            record.push(Control::HandshakeDone);
        }
        while self.cids.remote.has_retirements() && buf.len() + 9 <= limit {
            let Some(sequence) = self.cids.remote.poll_retire() else {
                break;
            };
            Frame::RetireConnectionId(sequence).encode(buf);
            record.push(Control::RetireConnectionId(sequence));
        }
        // Type, two varints, length, ID, token.
        const NEW_CID_LEN: usize = 1 + 8 + 8 + 1 + 20 + 16;
        while self.cids.local.has_announcements() && buf.len() + NEW_CID_LEN <= limit {
            let Some(new) = self.cids.local.poll_announce() else {
                break;
            };
            Frame::NewConnectionId(new).encode(buf);
            record.push(Control::NewConnectionId(new.sequence));
        }
        if self.handshake.new_token_pending
            && let Some(token) = &self.handshake.new_token
        {
            let frame = Frame::NewToken(token);
            if fits(buf, &frame) {
                frame.encode(buf);
                record.push(Control::NewToken);
                self.handshake.new_token_pending = false;
            }
        }
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
    fn finish_packet(&mut self, now: Instant, buf: &mut Vec<u8>, packet: OpenPacket, pad_to: Option<usize>) {
        let OpenPacket { space, path, ecn, kind, mark, frames, ack_eliciting, mtu_probe, .. } = packet;
        let path = self.paths[path].id;
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
            frames: &[],
        };
        self.reports.observe_sent(now, info, &buf[mark.payload_pos()..]);
        let sealed = match self.keys.local(space) {
            Some((header, key)) => mark.seal(buf, 0, key, header).is_ok(),
            None => false,
        };
        self.spaces[space].numbers.on_used(&mut self.rng);
        if !sealed {
            // Cannot happen with the keys we checked for; the packet is as good as lost, its content is not.
            buf.truncate(mark.start);
            self.send_again(&frames);
            return;
        }
        if kind == PacketKind::OneRtt {
            self.on_one_rtt_sealed(now, mark.number);
        }
        if ack_eliciting {
            self.idle.on_eliciting_sent(now);
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

    fn on_one_rtt_sealed(&mut self, now: Instant, number: u64) {
        self.keys.on_sealed(number);
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

    /// PATH_RESPONSE and PATH_CHALLENGE, in a datagram of their own on the path they are about. They do not wait for the
    /// window: until the path is known to work, nothing else can free it.
    fn transmit_probing(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.keys.has(SpaceId::DATA) {
            return None;
        }
        // RFC 9000 sections 8.2.1 and 8.2.2: full size, unless the address is not validated and has not earned so much.
        let room = |path: &Path| path.amplification_budget().min(u64::from(MIN_INITIAL)) as usize;
        let may_send = |path: &&Path| path.validation.has_frames() && room(path) >= MIN_PACKET;
        let (key, space, room) = self.paths.iter().find(may_send).map(|path| (path.key(), path.space(), room(path)))?;
        let is_active = self.paths.is_active(key);
        let fresh = challenge_data(&mut self.rng);
        let mut packet = self.begin_packet(buf, space, key, Ecn::NotEct);
        packet.ack_eliciting = true;
        let validation = &mut self.paths[key].validation;
        if let Some(data) = validation.take_challenge(fresh, room >= usize::from(MIN_INITIAL)) {
            Frame::PathChallenge(data).encode(buf);
        }
        if is_active && validation.owes_response() {
            // RFC 9000 section 9.3.3: not just a probe, so that the peer returns here if a forger has led it away.
            Frame::Ping.encode(buf);
        }
        const RESPONSE_LEN: usize = 9;
        while buf.len() + RESPONSE_LEN + TAG_LEN <= room {
            let Some(data) = validation.take_response() else { break };
            Frame::PathResponse(data).encode(buf);
        }
        self.finish_packet(now, buf, packet, Some(room));
        self.paths[key].sent += buf.len() as u64;
        if is_active {
            self.update_amplification_limit(now);
        }
        self.datagram_batch(buf, key, Ecn::NotEct, usize::MAX)
    }

    /// A probe of path MTU discovery: a PING padded to the size in question (RFC 8899). It waits for the window like
    /// everything else, so that RFC 9002 section 7 holds.
    fn transmit_mtu_probe(&mut self, now: Instant, path: PathKey, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.handshake.confirmed || !self.paths[path].validated {
            return None;
        }
        if !matches!(self.recovery.budget(now, self.paths[path].id), Budget::Now(_)) {
            return None;
        }
        let size = self.paths[path].mtu.poll_probe(now)?;
        let mut packet = self.begin_packet(buf, self.paths[path].space(), path, Ecn::NotEct);
        Frame::Ping.encode(buf);
        (packet.ack_eliciting, packet.mtu_probe) = (true, true);
        let number = packet.mark.number;
        self.finish_packet(now, buf, packet, Some(usize::from(size)));
        let probed = &mut self.paths[path];
        probed.mtu.on_probe_sent(number, size);
        probed.sent += buf.len() as u64;
        self.datagram_batch(buf, path, Ecn::NotEct, usize::MAX)
    }

    /// CONNECTION_CLOSE in every space the peer may be able to read (RFC 9000 section 10.2.3).
    fn transmit_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Lifecycle::Closing { frame, send, .. } = &mut self.lifecycle else {
            return None;
        };
        if !std::mem::take(send) {
            return None;
        }
        let close = frame.clone();
        let path = self.paths.active().key();
        let budget = self.paths[path].amplification_budget();
        let room = usize::from(MIN_INITIAL).min(usize::try_from(budget).unwrap_or(usize::MAX));
        if room < MIN_PACKET {
            return None;
        }
        let mut open: Option<OpenPacket> = None;
        let mut pad = false;
        for space in SpaceId::ALL {
            // Once the handshake is confirmed only 1-RTT is left; before, the peer may lack the later keys.
            let usable = self.keys.has(space)
                && (space != SpaceId::DATA || self.handshake.complete || self.side == Side::Server);
            let used = buf.len() + if open.is_some() { TAG_LEN } else { 0 };
            if !usable || room < used + MIN_PACKET {
                continue;
            }
            if let Some(previous) = open.take() {
                self.finish_packet(now, buf, previous, None);
            }
            let packet = self.begin_packet(buf, space, path, Ecn::NotEct);
            let limit = room - TAG_LEN;
            // What arrived last is acknowledged along with the close, so that the peer does not take it for lost.
            let acks = &mut self.spaces[space].acks;
            if acks.pending() || acks.due(now) {
                acks.write(now, buf, limit.saturating_sub(MIN_PACKET));
            }
            if space != SpaceId::DATA && matches!(close, CloseFrame::Application { .. }) {
                // The application's code must not leak into packets that anyone can read.
                encode_close(&super::application_error_in_handshake(), buf, limit);
            } else {
                encode_close(&close, buf, limit);
            }
            pad |= space == SpaceId::Initial && self.side == Side::Client;
            open = Some(packet);
        }
        let last = open?;
        self.finish_packet(now, buf, last, pad.then_some(room));
        self.paths[path].sent += buf.len() as u64;
        self.datagram_batch(buf, path, Ecn::NotEct, usize::MAX)
    }
}

/// Appends a CONNECTION_CLOSE frame, its reason cut to what fits.
fn encode_close(close: &CloseFrame, buf: &mut Vec<u8>, limit: usize) {
    // Type, two varints of at most eight bytes, and the reason's length.
    let room = limit.saturating_sub(buf.len() + 1 + 8 + 8 + 2).min(MAX_REASON);
    let cut = |reason: &Bytes| reason.slice(..reason.len().min(room));
    match close {
        CloseFrame::Transport { code, frame, reason } => {
            let reason = cut(reason);
            Frame::ConnectionClose { error_code: code.0, frame_type: *frame, reason: &reason }.encode(buf);
        }
        CloseFrame::Application { code, reason } => {
            let reason = cut(reason);
            Frame::ApplicationClose { error_code: *code, reason: &reason }.encode(buf);
        }
    }
}
