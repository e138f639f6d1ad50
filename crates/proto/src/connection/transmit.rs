//! Outgoing datagrams: batches on a path, challenges, probes of its size, the close (RFC 9000 sections 8 to 14).

use bytes::Bytes;
use smallvec::SmallVec;
use thalweg_recovery::{Budget, DataSpace, Ecn, PathId, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    lifecycle::{CloseFrame, Phase},
    multipath::ControlWriter,
    open_packet::{Content, OpenPacket},
    paths::{Order, Path, PathKey, PathSet, Stage, Waiting, challenge_data},
    repeat::{Underway, Worth},
    sizes::{MIN_INITIAL, MIN_PACKET},
};
use crate::{Side, crypto::TAG_LEN, error::TransportErrorCode, frame::Frame, observe::Limit, udp::Transmit};

/// The most bytes of HANDSHAKE_DONE and connection IDs in a packet of their own: of a dozen paths.
const MOST_CONFIRMATION: usize = 600;
/// The most bytes of reason phrase sent with a close.
const MAX_REASON: usize = 256;

impl Connection {
    /// Writes the next datagram, or a batch of up to `max_segments` equal datagrams, into `buf` (which is cleared).
    ///
    /// `None`: nothing may be sent now. Ask again after every other call, and after [`Self::poll_timeout`]'s time.
    pub fn poll_transmit(&mut self, now: Instant, max_segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        let transmit = match self.lifecycle.phase {
            Phase::Open => {
                self.paths.iter_mut().for_each(|path| path.paced_until = None);
                let (path, most) = (self.paths.active().key(), max_segments.max(1));
                match self.paths.has_choice() {
                    true => self.transmit_probing(now, buf).or_else(|| {
                        let batch = self.transmit_on_any(now, most, buf);
                        self.end_turn();
                        batch
                    }),
                    false if self.paths.is_held() => None,
                    false => self
                        .transmit_probing(now, buf)
                        .or_else(|| self.transmit_confirmation(now, path, buf))
                        .or_else(|| self.transmit_mtu_probe(now, path, false, buf))
                        .or_else(|| self.transmit_batch(now, path, most, true, buf))
                        .or_else(|| self.transmit_mtu_probe(now, path, true, buf))
                        .or_else(|| self.transmit_again(now, path, most, buf)),
                }
            }
            Phase::Closing { .. } => self.transmit_close(now, buf),
            Phase::Draining { .. } | Phase::Closed => None,
        };
        if let Some(transmit) = &transmit {
            self.reports.stats.udp_sent.datagrams +=
                transmit.segment.map_or(1, |segment| transmit.size.div_ceil(segment)) as u64;
            self.reports.stats.udp_sent.bytes += transmit.size as u64;
        }
        self.reports.drain_trace(&mut self.recovery);
        transmit
    }

    /// The next batch where there are several paths: on the first in the scheduler's order that lets something out;
    /// the others carry acknowledgments and probes.
    fn transmit_on_any(&mut self, now: Instant, max_segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let candidates = self.candidates(now);
        let in_flight: u64 = candidates.iter().map(|path| path.bytes_in_flight).sum();
        // A copy that leaves now has the peer extend its credit a round trip later.
        let window: u64 = candidates.iter().map(|path| path.window).sum();
        let is_short = self.streams.credit_left() <= window.saturating_add(window / 2);
        self.streams.set_congestion_window(window);
        let waiting = Waiting {
            bytes: self.streams.bytes_unacked().saturating_sub(in_flight),
            is_all: self.streams.has_all_ends() && !self.datagrams.can_send(),
        };
        let mut turns = self.paths.order(now, waiting, &candidates);
        let with_data = turns.len();
        let common = turns.clone();
        let is_redundant = self.paths.several().is_some_and(|several| several.scheduler.is_redundant());
        let has_own = is_redundant || self.streams.has_pins() || self.datagrams.has_pins();
        let live = if has_own { self.live() } else { SmallVec::new() };
        let open = self.paths.sets().filter(|set| set.is_open()).map(PathSet::id);
        let others: Order = open.filter(|id| !turns.contains(id)).collect();
        turns.extend(others);
        for (turn, id) in turns.into_iter().enumerate() {
            let set = self.paths.set(id).filter(|set| !set.is_held());
            let Some(key) = set.map(|set| set.active().key()) else { continue };
            if !self.cids.remote_of(id).has_active() {
                continue;
            }
            let is_common = turn < with_data;
            let carries_data = is_common || live.contains(&id) && self.has_pinned(id);
            if has_own {
                self.begin_turn(id, is_common, &live, if is_redundant { &common } else { &[] });
            }
            let mut is_data = is_common;
            let mut sent = None;
            if is_common && (is_redundant || is_short && self.handshake.complete) {
                let worth = if is_redundant { Worth::All } else { Worth::BlockingSoon };
                sent = self.transmit_across(now, key, worth, max_segments, buf);
                is_data &= sent.is_none();
            }
            if sent.is_none() && carries_data {
                sent = self.transmit_mtu_probe(now, key, false, buf);
                is_data &= sent.is_none();
            }
            let mut sent = sent.or_else(|| self.transmit_batch(now, key, max_segments, carries_data, buf));
            if sent.is_none() && carries_data {
                sent = self.transmit_mtu_probe(now, key, true, buf);
                is_data &= sent.is_none();
            }
            let Some(batch) = sent else { continue };
            if let Some(set) = self.paths.set_mut(id) {
                set.on_spoken(now);
            }
            if let Some(several) = self.paths.several_mut().filter(|_| is_data) {
                several.scheduler.on_sent(id, batch.size as u64);
            }
            return Some(batch);
        }
        common.into_iter().find_map(|id| {
            let key = self.paths.set(id).filter(|set| !set.is_held())?.active().key();
            if has_own {
                self.begin_turn(id, true, &live, &[]);
            }
            self.transmit_sooner(now, key, max_segments, buf)
                .or_else(|| self.transmit_again(now, key, max_segments, buf))
        })
    }

    /// HANDSHAKE_DONE and a connection ID for each further path, in a packet of their own ahead of what else waits:
    /// with both, a client opens another path. On a slow first path, each byte that goes before keeps the others unused
    /// for the time that it takes. So it does if it is lost, until there is another path.
    fn transmit_confirmation(&mut self, now: Instant, path: PathKey, buf: &mut Vec<u8>) -> Option<Transmit> {
        let is_wanted = self.handshake.done_pending && self.paths.several().is_some() && self.paths[path].validated;
        if !is_wanted || !matches!(self.recovery.budget(now, self.paths[path].id), Budget::Now(_)) {
            return None;
        }
        let mut packet = self.begin_packet(buf, self.paths[path].space(), path, Ecn::NotEct);
        packet.ack_eliciting = true;
        let limit = packet.mark.payload_pos() + MOST_CONFIRMATION;
        self.write_handshake_done(buf, limit, &mut packet);
        self.write_first_path_cids(ControlWriter { buf, limit, record: &mut packet.frames.control });
        let flight = (packet.space, packet.mark.number);
        self.finish_packet(now, buf, packet, None);
        self.repeat.on_flight(&[flight], buf.len());
        self.paths[path].sent += buf.len() as u64;
        self.datagram_batch(buf, path, Ecn::NotEct, usize::MAX)
    }

    /// What other paths have under way and this one has not sent, as far as it lets it out.
    fn transmit_across(
        &mut self,
        now: Instant,
        path: PathKey,
        worth: Worth,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let others: SmallVec<[DataSpace; 4]> = self.paths.sets().map(PathSet::id).collect();
        let (recovery, streams) = (&mut self.recovery, &mut self.streams);
        if !self.repeat.owe_across(now, &self.paths[path], (worth, max_segments), &others, recovery, streams) {
            return None;
        }
        let batch = self.transmit_batch(now, path, max_segments, true, buf);
        self.repeat.on_copied();
        batch
    }

    /// The same where nothing else is left to send: what this path delivers sooner.
    fn transmit_sooner(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.handshake.complete || self.wants_data(path) {
            return None;
        }
        if self.streams.is_flow_blocked() {
            return self.transmit_across(now, path, Worth::Blocking, max_segments, buf);
        }
        self.transmit_across(now, path, Worth::Sooner, max_segments, buf)
            .or_else(|| self.transmit_across(now, path, Worth::Doubtful, max_segments, buf))
    }

    /// The bulk of all traffic: as many full datagrams on `path` as window, pacer and content allow. `carries_data`:
    /// more than acknowledgments and probes may take this path.
    fn transmit_batch(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        carries_data: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let id = self.paths[path].id;
        let known = self.recovery.path(id)?;
        let (size, ecn) = (known.datagram_size(), known.ecn_codepoint());
        let (window, pto_count) = (known.window(), known.pto_count());
        if !self.paths.has_choice() {
            self.streams.set_congestion_window(window);
        }
        // After several unanswered probe timeouts the size itself may be what the path does not carry.
        let small = self.paths[path].mtu.pto_size(pto_count);
        let mtu = usize::from(size.min(small));
        let (mut allowance, held_back) = if carries_data { self.allowance(now, path) } else { (0, Content::Acks) };
        let had_allowance = allowance > 0;
        let mut segments = 0;
        while segments < max_segments {
            let start = buf.len();
            let amplification = self.paths[path].amplification_budget();
            let room = mtu.min(usize::try_from(amplification).unwrap_or(usize::MAX));
            if room < mtu.min(usize::from(MIN_INITIAL)) && (segments > 0 || room < MIN_PACKET) {
                if self.wants_data(path) {
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
        if self.wants_data(path) {
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
            let copies = self.transmit_batch(now, path, max_segments, true, buf);
            if copies.is_some() {
                return copies;
            }
            self.repeat.forgo_copies(&self.paths[path]);
        }
        if !self.repeat.copies_tails() || !self.handshake.complete {
            return None;
        }
        // What waits for the peer's credit is still to come.
        if self.wants_data(path) || self.streams.is_flow_blocked() {
            return None;
        }
        let path_state = &self.paths[path];
        let next = self.spaces[path_state.space()].numbers.next();
        let (recovery, streams) = (&mut self.recovery, &mut self.streams);
        if !self.repeat.owe_tail(now, path_state, max_segments, next, recovery, streams) {
            return None;
        }
        let tail = self.transmit_batch(now, path, max_segments, true, buf);
        self.repeat.on_tail(&self.paths[path], tail.as_ref().map_or(0, |tail| tail.size));
        tail
    }

    fn owe_copies(&mut self, now: Instant, path: PathKey) -> bool {
        let is_waiting = self.wants_data(path);
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

    /// Whether it is the application's limit that paces the path.
    fn is_capped(&self, path: PathId) -> bool {
        let most = self.recovery.max_rate();
        most.is_some() && self.recovery.path(path).and_then(thalweg_recovery::Path::pacing_rate) == most
    }

    /// PATH_RESPONSE and PATH_CHALLENGE, in a datagram of their own on the path they are about. They do not wait for
    /// the window: until the path is known to work, nothing else can free it.
    fn transmit_probing(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.keys.has(SpaceId::DATA) {
            return None;
        }
        // RFC 9000 sections 8.2.1 and 8.2.2: full size, unless the address is not validated and has not earned so much.
        let room = |path: &Path| path.amplification_budget().min(u64::from(MIN_INITIAL)) as usize;
        let may_send = |path: &&Path| path.validation.has_frames() && room(path) >= MIN_PACKET;
        let is_live =
            |id: DataSpace, stage| !matches!(stage, Stage::Abandoned { .. }) && self.cids.remote_of(id).has_active();
        let (key, space, room) = self.paths.sets().filter(|set| !set.is_held()).find_map(|set| {
            let path = set.iter().find(may_send)?;
            is_live(set.id(), set.stage()).then(|| (path.key(), path.space(), room(path)))
        })?;
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
    /// everything else, so that RFC 9002 section 7 holds, and until larger datagrams would be of use: who only receives
    /// sends nothing but acknowledgments, and those of 80 ms wait behind a probe at 150 kbps.
    ///
    /// `is_last`: nothing else may leave. By other rules a probe leaves then, whatever the window and what waits.
    fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        path: PathKey,
        is_last: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.handshake.confirmed {
            return None;
        }
        // Hardly ever: what costs more is looked at after it.
        let probed = &mut self.paths[path];
        if probed.mtu.probes_last() != is_last {
            return None;
        }
        let (id, is_valid) = (probed.id, probed.validated);
        let size = probed.mtu.poll_probe(now).filter(|_| is_valid)?;
        let full = self.recovery.path(id)?.datagram_size();
        let is_of_use = self.streams.unsent() >= u64::from(full) || self.datagrams.is_used();
        let may_leave = is_last || is_of_use && matches!(self.recovery.budget(now, id), Budget::Now(_));
        if !may_leave {
            return None;
        }
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
        let Phase::Closing { frame, send, .. } = &mut self.lifecycle.phase else {
            return None;
        };
        if self.paths.is_held() {
            return None;
        }
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
        for space in self.paths[path].spaces() {
            // Once the handshake is confirmed only 1-RTT is left; before, the peer may lack the later keys.
            let usable =
                self.keys.has(space) && (!space.is_data() || self.handshake.complete || self.side == Side::Server);
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
            if !space.is_data() && matches!(close, CloseFrame::Application { .. }) {
                // The application's code must not leak into packets that anyone can read.
                encode_close(&application_error_in_handshake(), buf, limit);
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

/// The reason phrase of a transport error as the peer's close frame carries it.
fn application_error_in_handshake() -> CloseFrame {
    CloseFrame::Transport { code: TransportErrorCode::APPLICATION_ERROR, frame: 0, reason: Bytes::new() }
}
