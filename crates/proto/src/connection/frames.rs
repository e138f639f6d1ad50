//! Processing of received frames (RFC 9000 section 19).

use bytes::Bytes;
use thalweg_recovery::{DataSpace, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    event::{Event, PathEvent},
    paths::{PathKey, Spin},
    spaces::{MAX_BUFFERED, MAX_UNPROVEN},
};
use crate::{
    Side,
    cid::{ConnectionId, NewConnectionId},
    crypto::Level,
    error::{ConnectionError, TransportError, TransportErrorCode},
    frame::{Frame, FrameIter},
    observe::{CloseTrigger, Owner, PacketKind},
};

/// Probe timeouts for which a connection ID that the peer has retired still leads to the connection. Datagrams that the
/// RETIRE_CONNECTION_ID frame has overtaken are as good as those before it; without its ID they would be answered with
/// a stateless reset, which is for endpoints without state (RFC 9000 section 10.3). RFC 9000 gives no time (section
/// 5.1.2); three probe timeouts are what it waits for late packets elsewhere (section 10.2).
const RETIRED_FOR_PTOS: u32 = 3;

/// The packet whose frames are at hand.
#[derive(Copy, Clone)]
pub(super) struct Received<'a> {
    /// When it came: now, or earlier if it waited for keys.
    pub(super) at: Instant,
    pub(super) space: SpaceId,
    pub(super) kind: PacketKind,
    pub(super) path: PathKey,
    pub(super) dcid: &'a ConnectionId,
}

/// What a packet's frames amount to.
#[derive(Copy, Clone, Debug)]
pub(super) struct Effects {
    /// It has to be acknowledged.
    pub(super) ack_eliciting: bool,
    /// It holds nothing but probing frames (RFC 9000 section 9.1).
    pub(super) probing_only: bool,
    /// It holds data of the application.
    pub(super) has_data: bool,
}

impl Connection {
    /// Applies all frames of one packet in order.
    pub(super) fn on_frames(
        &mut self,
        now: Instant,
        packet: Received<'_>,
        payload: &[u8],
    ) -> Result<Effects, TransportError> {
        let level = match packet.kind {
            PacketKind::Initial => Level::Initial,
            PacketKind::Handshake => Level::Handshake,
            PacketKind::ZeroRtt => Level::EarlyData,
            _ => Level::OneRtt,
        };
        let mut effects = Effects { ack_eliciting: false, probing_only: true, has_data: false };
        for frame in FrameIter::new(payload) {
            // By reference: a frame is large, and there is one in every packet.
            let frame = match &frame {
                Ok(frame) => frame,
                Err(error) => return Err(error.clone()),
            };
            frame.check_allowed(level, self.side)?;
            effects.ack_eliciting |= frame.is_ack_eliciting();
            effects.probing_only &= frame.is_probing();
            effects.has_data |= matches!(frame, Frame::Stream { .. } | Frame::Datagram(_));
            self.on_frame(now, &packet, frame).map_err(|error| error.in_frame(frame.ty()))?;
            if !self.lifecycle.is_open() {
                break;
            }
        }
        Ok(effects)
    }

    /// Tells frames apart.
    fn on_frame(&mut self, now: Instant, packet: &Received<'_>, frame: &Frame<'_>) -> Result<(), TransportError> {
        let Received { at, space, path, dcid, .. } = *packet;
        match *frame {
            Frame::Stream { id, offset, fin, data } => {
                if fin {
                    self.spaces[space].acks.force_due();
                }
                self.streams.on_stream(id, offset, fin, data)?;
            }
            // With several paths too this is about the first (draft-ietf-quic-multipath-21 section 2.3).
            Frame::Ack(ref ack) => {
                self.on_ack_frame(now, at, SpaceId::ALL[space.index()], path.space(), ack)?;
            }
            Frame::Padding(_) | Frame::Ping => {}
            Frame::Crypto { offset, data } => self.on_crypto(now, space, offset, data)?,
            Frame::ResetStream { id, error_code, final_size } => {
                self.streams.on_reset_stream(id, error_code, final_size)?;
            }
            Frame::StopSending { id, error_code } => self.streams.on_stop_sending(id, error_code)?,
            Frame::MaxData(max) => self.streams.on_max_data(max),
            Frame::MaxStreamData { id, max } => self.streams.on_max_stream_data(id, max)?,
            Frame::MaxStreams { dir, max } => self.streams.on_max_streams(dir, max)?,
            Frame::DataBlocked(limit) => self.streams.on_data_blocked(limit),
            Frame::StreamDataBlocked { id, limit } => self.streams.on_stream_data_blocked(id, limit)?,
            Frame::StreamsBlocked { dir, limit } => self.streams.on_streams_blocked(dir, limit)?,
            Frame::NewConnectionId(ref new) => self.on_new_cid(new)?,
            Frame::RetireConnectionId(sequence) => {
                let until = now + self.recovery.pto(SpaceId::DATA) * RETIRED_FOR_PTOS;
                self.cids.local.on_retire(sequence, dcid, until)?;
            }
            Frame::PathChallenge(data) => self.paths[path].validation.on_challenge(data),
            Frame::PathResponse(data) => {
                let side = self.side;
                let (paths, mut with) = self.migration();
                if let Some(id) = paths.on_response(now, data, side, &mut with) {
                    let remote = self.paths[path].remote;
                    self.reports.tell_path(PathEvent::Opened { id, remote });
                }
            }
            Frame::NewToken(token) => match &self.handshake.client {
                Some(client) => client.on_new_token(token)?,
                None => return Err(TransportError::protocol_violation("NEW_TOKEN from a client")),
            },
            Frame::HandshakeDone => self.confirm(now),
            Frame::Datagram(data) => {
                let frame_size = Frame::Datagram(data).encoded_len();
                if self.datagrams.on_datagram(data, frame_size)? {
                    self.reports.tell(Event::DatagramReceived);
                }
            }
            Frame::ConnectionClose { error_code, frame_type, reason } => {
                self.reports.observe_close(now, Owner::Remote, CloseTrigger::Error, false, error_code, reason);
                let (code, reason) = (TransportErrorCode(error_code), Bytes::copy_from_slice(reason));
                let frame = (frame_type != 0).then_some(frame_type);
                self.drain(now, ConnectionError::PeerTransport { code, frame, reason });
            }
            Frame::ApplicationClose { error_code: code, reason } => {
                self.reports.observe_close(now, Owner::Remote, CloseTrigger::Application, true, code, reason);
                self.drain(now, ConnectionError::PeerApplication { code, reason: Bytes::copy_from_slice(reason) });
            }
            // To who has not sent min_ack_delay these are frames of an unknown type (RFC 9000 section 12.4).
            Frame::AckFrequency(_) | Frame::ImmediateAck if self.config.min_ack_delay.is_none() => {
                let reason = "frame of an extension that was not negotiated: min_ack_delay";
                return Err(TransportError::frame_encoding(reason));
            }
            Frame::PathAck { path: named, ref ack } => self.on_path_ack(now, at, path.space(), named, ack)?,
            Frame::Path(ref frame) => self.on_path_frame(now, packet, frame)?,
            Frame::AckFrequency(request) => {
                for (_, state) in self.spaces.data_mut() {
                    state.acks.on_ack_frequency(&request)?;
                }
                if let Some(several) = self.paths.several_mut() {
                    several.asked = Some(request);
                }
            }
            Frame::ImmediateAck => self.spaces[space].acks.on_immediate_ack(),
        }
        Ok(())
    }

    fn on_crypto(&mut self, now: Instant, space: SpaceId, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let unproven = space == SpaceId::Initial && self.side == Side::Server;
        let crypto = self.spaces.crypto_mut(space);
        let is_repeated = unproven && !data.is_empty() && crypto.has_read(offset.saturating_add(data.len() as u64));
        let ahead = if unproven { MAX_UNPROVEN } else { MAX_BUFFERED };
        crypto.receive(offset, data, ahead)?;
        if is_repeated {
            // The client has not got our answer, or only parts it cannot read.
            self.speed_up_handshake(now);
        }
        self.read_crypto(now, space)
    }

    fn on_new_cid(&mut self, new: &NewConnectionId) -> Result<(), TransportError> {
        let before = self.cids.remote.active_sequence();
        self.cids.on_new(DataSpace::FIRST, new)?;
        if self.cids.remote.active_sequence() != before {
            self.paths.active_mut().spin = Spin::new(self.config.spin_bit, &mut self.rng);
        }
        self.paths.announce_reset_token(DataSpace::FIRST, &self.cids, &mut self.reports);
        Ok(())
    }
}
