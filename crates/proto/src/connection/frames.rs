//! What each received frame does to the connection (RFC 9000 section 19).

use bytes::Bytes;
use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

use super::{Connection, Event, crypto_stream};
use crate::{
    Side,
    cid::ConnectionId,
    crypto::Level,
    error::{ConnectionError, TransportError, TransportErrorCode},
    frame::{Frame, FrameIter},
    observe::{CloseTrigger, FrameInfo, ObserverEvent, Owner, PacketKind},
    streams::Dir,
};

/// What a packet's frames amount to.
#[derive(Copy, Clone, Debug)]
pub(super) struct Effects {
    /// It has to be acknowledged.
    pub(super) ack_eliciting: bool,
    /// It holds nothing but probing frames (RFC 9000 section 9.1).
    pub(super) probing_only: bool,
}

impl Connection {
    /// Applies all frames of one packet, which came `at` a time that is now or in the past, in order.
    #[allow(clippy::too_many_arguments)] // what a packet is, apart from its frames
    pub(super) fn on_frames(
        &mut self,
        now: Instant,
        at: Instant,
        space: SpaceId,
        kind: PacketKind,
        path: usize,
        dcid: &ConnectionId,
        payload: &[u8],
    ) -> Result<Effects, TransportError> {
        let level = match kind {
            PacketKind::Initial => Level::Initial,
            PacketKind::Handshake => Level::Handshake,
            PacketKind::ZeroRtt => Level::EarlyData,
            _ => Level::OneRtt,
        };
        let mut effects = Effects { ack_eliciting: false, probing_only: true };
        for frame in FrameIter::new(payload) {
            let frame = frame?;
            frame.check_allowed(level, self.side)?;
            effects.ack_eliciting |= frame.is_ack_eliciting();
            effects.probing_only &= frame.is_probing();
            let ty = frame.ty();
            self.on_frame(now, at, space, path, dcid, frame).map_err(|error| error.in_frame(ty))?;
            if !self.lifecycle.is_open() {
                break;
            }
        }
        Ok(effects)
    }

    fn on_frame(
        &mut self,
        now: Instant,
        at: Instant,
        space: SpaceId,
        path: usize,
        dcid: &ConnectionId,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        match frame {
            Frame::Stream { id, offset, fin, data } => {
                if fin {
                    self.spaces[space.index()].acks.force_due();
                }
                self.streams.on_stream(id, offset, fin, data)
            }
            Frame::Ack(ack) => self.on_ack_frame(now, at, space, &ack),
            Frame::Padding(_) | Frame::Ping => Ok(()),
            Frame::Crypto { offset, data } => {
                let unproven = space == SpaceId::Initial && self.side == Side::Server;
                let crypto = &self.spaces[space.index()].crypto;
                let is_repeated =
                    unproven && !data.is_empty() && crypto.has_read(offset.saturating_add(data.len() as u64));
                let ahead = if unproven { crypto_stream::MAX_UNPROVEN } else { crypto_stream::MAX_BUFFERED };
                self.spaces[space.index()].crypto.receive(offset, data, ahead)?;
                if is_repeated {
                    // The client has not got our answer, or only parts it cannot read.
                    self.speed_up_handshake(now);
                }
                self.read_crypto(now, space)
            }
            Frame::ResetStream { id, error_code, final_size } => {
                self.streams.on_reset_stream(id, error_code, final_size)
            }
            Frame::StopSending { id, error_code } => self.streams.on_stop_sending(id, error_code),
            Frame::MaxData(max) => {
                self.streams.on_max_data(max);
                Ok(())
            }
            Frame::MaxStreamData { id, max } => self.streams.on_max_stream_data(id, max),
            Frame::MaxStreams { dir, max } => self.streams.on_max_streams(dir, max),
            Frame::DataBlocked(limit) => {
                self.streams.on_data_blocked(limit);
                Ok(())
            }
            Frame::StreamDataBlocked { id, limit } => self.streams.on_stream_data_blocked(id, limit),
            Frame::StreamsBlocked { dir, limit } => self.streams.on_streams_blocked(dir, limit),
            Frame::NewConnectionId(new) => {
                let before = self.remote_cids.active_sequence();
                self.remote_cids.on_new(&new)?;
                if self.remote_cids.active_sequence() != before {
                    self.paths[self.active].spin = self.new_spin();
                }
                self.announce_reset_token();
                Ok(())
            }
            Frame::RetireConnectionId(sequence) => {
                let until = now + self.recovery.pto(SpaceId::DATA) * super::RETIRED_FOR_PTOS;
                self.local_cids.on_retire(sequence, dcid, until)
            }
            Frame::PathChallenge(data) => {
                self.paths[path].on_challenge(data);
                Ok(())
            }
            Frame::PathResponse(data) => {
                self.on_path_response(now, data);
                Ok(())
            }
            Frame::NewToken(token) => self.on_new_token(token),
            Frame::HandshakeDone => {
                self.confirm(now);
                Ok(())
            }
            Frame::Datagram(data) => {
                let frame_size = Frame::Datagram(data).encoded_len();
                if self.datagrams.on_datagram(data, frame_size)? {
                    self.events.push_back(Event::DatagramReceived);
                }
                Ok(())
            }
            Frame::ConnectionClose { error_code, frame_type, reason } => {
                let code = TransportErrorCode(error_code);
                let reason = Bytes::copy_from_slice(reason);
                self.observe_peer_close(now, false, error_code, &reason);
                let frame = (frame_type != 0).then_some(frame_type);
                self.drain(now, ConnectionError::PeerTransport { code, frame, reason });
                Ok(())
            }
            Frame::ApplicationClose { error_code, reason } => {
                let reason = Bytes::copy_from_slice(reason);
                self.observe_peer_close(now, true, error_code, &reason);
                self.drain(now, ConnectionError::PeerApplication { code: error_code, reason });
                Ok(())
            }
            // To who has not sent min_ack_delay these are frames of an unknown type (RFC 9000 section 12.4).
            Frame::AckFrequency(_) | Frame::ImmediateAck if self.config.min_ack_delay.is_none() => {
                Err(TransportError::frame_encoding("frame of an extension that was not negotiated: min_ack_delay"))
            }
            Frame::AckFrequency(request) => {
                self.spaces[space.index()].acks.on_ack_frequency(&request)?;
                Ok(())
            }
            Frame::ImmediateAck => {
                self.spaces[space.index()].acks.on_immediate_ack();
                Ok(())
            }
        }
    }

    fn observe_peer_close(&mut self, now: Instant, application: bool, code: u64, reason: &[u8]) {
        let trigger = if application { CloseTrigger::Application } else { CloseTrigger::Error };
        self.observe(
            now,
            &ObserverEvent::ConnectionClosed {
                by: Owner::Remote,
                trigger,
                application,
                code,
                reason: &String::from_utf8_lossy(reason),
            },
        );
    }
}

/// The frames of a payload in brief, for an observer.
pub(super) fn summarise(payload: &[u8], out: &mut Vec<FrameInfo>) {
    out.clear();
    out.extend(FrameIter::new(payload).filter_map(Result::ok).map(|frame| FrameInfo::from(&frame)));
}

impl From<&Frame<'_>> for FrameInfo {
    fn from(frame: &Frame<'_>) -> FrameInfo {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        match frame {
            Frame::Padding(len) => FrameInfo::Padding { len: count(*len) },
            Frame::Ping => FrameInfo::Ping,
            Frame::Ack(ack) => {
                let mut ranges = [(0, 0); crate::observe::ACK_RANGES_KEPT];
                for (slot, range) in ranges.iter_mut().zip(ack.ranges()) {
                    *slot = (*range.start(), *range.end());
                }
                FrameInfo::Ack {
                    delay_us: u64::try_from(ack.delay(3).as_micros()).unwrap_or(u64::MAX),
                    range_count: u32::try_from(ack.range_count()).unwrap_or(u32::MAX),
                    ranges,
                    ecn: ack.ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]),
                    timestamps: ack.times.map_or(0, |times| u32::try_from(times.count()).unwrap_or(u32::MAX)),
                }
            }
            Frame::ResetStream { id, error_code, final_size } => {
                FrameInfo::ResetStream { id: id.as_u64(), code: *error_code, final_size: *final_size }
            }
            Frame::StopSending { id, error_code } => FrameInfo::StopSending { id: id.as_u64(), code: *error_code },
            Frame::Crypto { offset, data } => FrameInfo::Crypto { offset: *offset, len: count(data.len()) },
            Frame::NewToken(token) => FrameInfo::NewToken { len: count(token.len()) },
            Frame::Stream { id, offset, fin, data } => {
                FrameInfo::Stream { id: id.as_u64(), offset: *offset, len: count(data.len()), fin: *fin }
            }
            Frame::MaxData(max) => FrameInfo::MaxData { max: *max },
            Frame::MaxStreamData { id, max } => FrameInfo::MaxStreamData { id: id.as_u64(), max: *max },
            Frame::MaxStreams { dir, max } => FrameInfo::MaxStreams { bidi: *dir == Dir::Bi, max: *max },
            Frame::DataBlocked(limit) => FrameInfo::DataBlocked { limit: *limit },
            Frame::StreamDataBlocked { id, limit } => FrameInfo::StreamDataBlocked { id: id.as_u64(), limit: *limit },
            Frame::StreamsBlocked { dir, limit } => FrameInfo::StreamsBlocked { bidi: *dir == Dir::Bi, limit: *limit },
            Frame::NewConnectionId(new) => {
                FrameInfo::NewConnectionId { sequence: new.sequence, retire_prior_to: new.retire_prior_to }
            }
            Frame::RetireConnectionId(sequence) => FrameInfo::RetireConnectionId { sequence: *sequence },
            Frame::PathChallenge(_) => FrameInfo::PathChallenge,
            Frame::PathResponse(_) => FrameInfo::PathResponse,
            Frame::ConnectionClose { error_code, .. } => {
                FrameInfo::ConnectionClose { application: false, code: *error_code }
            }
            Frame::ApplicationClose { error_code, .. } => {
                FrameInfo::ConnectionClose { application: true, code: *error_code }
            }
            Frame::HandshakeDone => FrameInfo::HandshakeDone,
            Frame::Datagram(data) => FrameInfo::Datagram { len: count(data.len()) },
            Frame::AckFrequency(f) => FrameInfo::AckFrequency {
                sequence: f.sequence,
                threshold: f.threshold,
                max_ack_delay_us: f.max_ack_delay,
                reordering: f.reordering_threshold,
            },
            Frame::ImmediateAck => FrameInfo::ImmediateAck,
        }
    }
}
