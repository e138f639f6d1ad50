//! What each received frame does to the connection (RFC 9000 section 19).

use bytes::Bytes;
use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

use super::{
    Connection, Event,
    paths::{PathKey, Spin},
    spaces::{MAX_BUFFERED, MAX_UNPROVEN},
};
use crate::{
    Side,
    cid::ConnectionId,
    crypto::Level,
    error::{ConnectionError, TransportError, TransportErrorCode},
    frame::{Frame, FrameIter},
    observe::{CloseTrigger, Owner, PacketKind},
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
        path: PathKey,
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
        path: PathKey,
        dcid: &ConnectionId,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        match frame {
            Frame::Stream { id, offset, fin, data } => {
                if fin {
                    self.spaces[space].acks.force_due();
                }
                self.streams.on_stream(id, offset, fin, data)
            }
            Frame::Ack(ack) => self.on_ack_frame(now, at, space, &ack),
            Frame::Padding(_) | Frame::Ping => Ok(()),
            Frame::Crypto { offset, data } => {
                let unproven = space == SpaceId::Initial && self.side == Side::Server;
                let crypto = &self.spaces[space].crypto;
                let is_repeated =
                    unproven && !data.is_empty() && crypto.has_read(offset.saturating_add(data.len() as u64));
                let ahead = if unproven { MAX_UNPROVEN } else { MAX_BUFFERED };
                self.spaces[space].crypto.receive(offset, data, ahead)?;
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
                let before = self.cids.remote.active_sequence();
                self.cids.remote.on_new(&new)?;
                if self.cids.remote.active_sequence() != before {
                    self.paths.active_mut().spin = Spin::new(self.config.spin_bit, &mut self.rng);
                }
                self.paths.announce_reset_token(&self.cids, &mut self.reports);
                Ok(())
            }
            Frame::RetireConnectionId(sequence) => {
                let until = now + self.recovery.pto(SpaceId::DATA) * super::RETIRED_FOR_PTOS;
                self.cids.local.on_retire(sequence, dcid, until)
            }
            Frame::PathChallenge(data) => {
                self.paths[path].validation.on_challenge(data);
                Ok(())
            }
            Frame::PathResponse(data) => {
                let side = self.side;
                let (paths, mut with) = self.migration();
                paths.on_response(now, data, side, &mut with);
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
                    self.reports.tell(Event::DatagramReceived);
                }
                Ok(())
            }
            Frame::ConnectionClose { error_code, frame_type, reason } => {
                let code = TransportErrorCode(error_code);
                let reason = Bytes::copy_from_slice(reason);
                let trigger = CloseTrigger::Error;
                self.reports.observe_close(now, Owner::Remote, trigger, false, error_code, &reason);
                let frame = (frame_type != 0).then_some(frame_type);
                self.drain(now, ConnectionError::PeerTransport { code, frame, reason });
                Ok(())
            }
            Frame::ApplicationClose { error_code, reason } => {
                let reason = Bytes::copy_from_slice(reason);
                let trigger = CloseTrigger::Application;
                self.reports.observe_close(now, Owner::Remote, trigger, true, error_code, &reason);
                self.drain(now, ConnectionError::PeerApplication { code: error_code, reason });
                Ok(())
            }
            // To who has not sent min_ack_delay these are frames of an unknown type (RFC 9000 section 12.4).
            Frame::AckFrequency(_) | Frame::ImmediateAck if self.config.min_ack_delay.is_none() => {
                Err(TransportError::frame_encoding("frame of an extension that was not negotiated: min_ack_delay"))
            }
            Frame::AckFrequency(request) => {
                self.spaces[space].acks.on_ack_frequency(&request)?;
                Ok(())
            }
            Frame::ImmediateAck => {
                self.spaces[space].acks.on_immediate_ack();
                Ok(())
            }
        }
    }
}
