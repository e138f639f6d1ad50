//! Frames (RFC 9000 section 19, RFC 9221, draft-ietf-quic-ack-frequency, -receive-ts, -multipath): zero-copy parsing,
//! and writing into the caller's buffer.
//!
//! [`FrameIter`] walks the payload of a packet and yields borrowed [`Frame`]s, validated as far as a frame can be
//! without the state of the connection. [`Frame::encode`] and [`Frame::encoded_len`] are its inverse; frames that carry
//! bulk data have functions of their own which never need the data in one piece.

use std::ops::RangeInclusive;
use std::time::Duration;

use thalweg_recovery::EcnCounts;

use crate::Side;
use crate::cid::{ConnectionId, NewConnectionId, ResetToken};
use crate::crypto::Level;
use crate::error::TransportError;
use crate::streams::{Dir, StreamId};
use crate::varint::{self, Reader};

pub use encode::{
    crypto_fit, datagram_len, encode_ack, encode_ack_with_times, encode_crypto_header, encode_datagram,
    encode_path_ack, encode_path_ack_with_times, encode_stream_header, stream_fit, stream_header_len,
};

pub use path::PathFrame;
pub use timestamps::{Timestamp, Timestamps};

mod encode;
mod path;
mod timestamps;

/// Frame types by number (RFC 9000 section 12.4).
#[allow(missing_docs)] // the names are the documentation
pub mod ty {
    pub const PADDING: u64 = 0x00;
    pub const PING: u64 = 0x01;
    pub const ACK: u64 = 0x02;
    pub const ACK_ECN: u64 = 0x03;
    pub const RESET_STREAM: u64 = 0x04;
    pub const STOP_SENDING: u64 = 0x05;
    pub const CRYPTO: u64 = 0x06;
    pub const NEW_TOKEN: u64 = 0x07;
    /// The first of eight types; the lowest bits are FIN 1, LEN 2, OFF 4.
    pub const STREAM: u64 = 0x08;
    pub const MAX_DATA: u64 = 0x10;
    pub const MAX_STREAM_DATA: u64 = 0x11;
    pub const MAX_STREAMS_BIDI: u64 = 0x12;
    pub const MAX_STREAMS_UNI: u64 = 0x13;
    pub const DATA_BLOCKED: u64 = 0x14;
    pub const STREAM_DATA_BLOCKED: u64 = 0x15;
    pub const STREAMS_BLOCKED_BIDI: u64 = 0x16;
    pub const STREAMS_BLOCKED_UNI: u64 = 0x17;
    pub const NEW_CONNECTION_ID: u64 = 0x18;
    pub const RETIRE_CONNECTION_ID: u64 = 0x19;
    pub const PATH_CHALLENGE: u64 = 0x1a;
    pub const PATH_RESPONSE: u64 = 0x1b;
    pub const CONNECTION_CLOSE: u64 = 0x1c;
    pub const APPLICATION_CLOSE: u64 = 0x1d;
    pub const HANDSHAKE_DONE: u64 = 0x1e;
    pub const IMMEDIATE_ACK: u64 = 0x1f;
    pub const DATAGRAM: u64 = 0x30;
    /// DATAGRAM with a length field.
    pub const DATAGRAM_LEN: u64 = 0x31;
    pub const PATH_ACK: u64 = 0x3e;
    pub const PATH_ACK_ECN: u64 = 0x3f;
    pub const ACK_FREQUENCY: u64 = 0xaf;
    pub const PATH_ABANDON: u64 = 0x3e75;
    pub const PATH_STATUS_BACKUP: u64 = 0x3e76;
    pub const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
    pub const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
    pub const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
    pub const MAX_PATH_ID: u64 = 0x3e7a;
    pub const PATHS_BLOCKED: u64 = 0x3e7b;
    pub const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
    pub const ACK_RECEIVE_TIMESTAMPS: u64 = 0x0317_8307;
    pub const ACK_RECEIVE_TIMESTAMPS_ECN: u64 = 0x0317_8308;
    pub const PATH_ACK_RECEIVE_TIMESTAMPS: u64 = 0x0317_8309;
    pub const PATH_ACK_RECEIVE_TIMESTAMPS_ECN: u64 = 0x0317_830a;
}

const FIN: u64 = 1;
const LEN: u64 = 2;
const OFF: u64 = 4;

/// A frame. Borrowed parts point into the packet's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// This many PADDING frames in a row.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK, with or without ECN counts, or ACK_RECEIVE_TIMESTAMPS, which has timestamps besides.
    Ack(Ack<'a>),
    /// PATH_ACK (draft-ietf-quic-multipath-21 section 4.1), or PATH_ACK_RECEIVE_TIMESTAMPS.
    PathAck {
        /// The path identifier, which names the space of the packets.
        path: u64,
        /// The rest, as in ACK.
        ack: Ack<'a>,
    },
    /// A frame about a path (draft-ietf-quic-multipath-21 section 4).
    Path(PathFrame),
    /// RESET_STREAM.
    ResetStream {
        /// The stream that is abandoned by its sender.
        id: StreamId,
        /// The application's code.
        error_code: u64,
        /// How many bytes the stream has, sent or not.
        final_size: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// The stream that its receiver does not want.
        id: StreamId,
        /// The application's code.
        error_code: u64,
    },
    /// CRYPTO. `offset` plus length is at most 2^62 - 1.
    Crypto {
        /// Where the data belongs in the handshake of this level.
        offset: u64,
        /// Handshake bytes.
        data: &'a [u8],
    },
    /// NEW_TOKEN with a token that is not empty.
    NewToken(&'a [u8]),
    /// STREAM. `offset` plus length is at most 2^62 - 1.
    Stream {
        /// The stream.
        id: StreamId,
        /// Where the data belongs in the stream.
        offset: u64,
        /// Whether the stream ends behind this data.
        fin: bool,
        /// Stream bytes; may be empty.
        data: &'a [u8],
    },
    /// MAX_DATA: how many bytes all streams together may have.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// How many bytes it may have.
        max: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Of which direction.
        dir: Dir,
        /// How many streams may be opened over the whole connection, at most 2^60.
        max: u64,
    },
    /// DATA_BLOCKED: the connection's limit that keeps the peer from sending.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// The stream.
        id: StreamId,
        /// The limit that keeps the peer from sending.
        limit: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Of which direction.
        dir: Dir,
        /// The limit that keeps the peer from opening, at most 2^60.
        limit: u64,
    },
    /// NEW_CONNECTION_ID with `retire_prior_to` not above `sequence` and an ID of 1 to 20 bytes.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID: the sequence number of the ID.
    RetireConnectionId(u64),
    /// PATH_CHALLENGE.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE of type 0x1c.
    ConnectionClose {
        /// A transport error code.
        error_code: u64,
        /// The type of the frame that triggered the error, 0 if unknown.
        frame_type: u64,
        /// For humans; not necessarily UTF-8.
        reason: &'a [u8],
    },
    /// CONNECTION_CLOSE of type 0x1d.
    ApplicationClose {
        /// The application's code.
        error_code: u64,
        /// For humans; not necessarily UTF-8.
        reason: &'a [u8],
    },
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM (RFC 9221).
    Datagram(&'a [u8]),
    /// ACK_FREQUENCY (draft-ietf-quic-ack-frequency section 4).
    AckFrequency(AckFrequency),
    /// IMMEDIATE_ACK (draft-ietf-quic-ack-frequency section 5).
    ImmediateAck,
}

/// The content of an ACK_FREQUENCY frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Increases with every frame; a receiver ignores frames that do not raise it.
    pub sequence: u64,
    /// How many ack-eliciting packets may arrive without an ACK.
    pub threshold: u64,
    /// The max_ack_delay asked for, in microseconds.
    pub max_ack_delay: u64,
    /// The amount of reordering that triggers an immediate ACK; 0 for none.
    pub reordering_threshold: u64,
}

/// The content of an ACK frame. Its ranges have been validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// The ACK Delay field as it stands in the frame: see [`Ack::delay`].
    pub raw_delay: u64,
    /// ECN counts, if the frame has them.
    pub ecn: Option<EcnCounts>,
    /// When packets arrived, if the frame says so: see [`Ack::timestamps`].
    pub times: Option<Timestamps<'a>>,
    /// The number of gaps and ranges after the first range.
    further: u64,
    /// From the First ACK Range field to the last range.
    fields: &'a [u8],
}

impl<'a> Ack<'a> {
    /// The acknowledged packet numbers, from the largest down. Ranges are disjoint and not adjacent.
    pub fn ranges(&self) -> AckRanges<'a> {
        AckRanges { fields: Reader::new(self.fields), next_largest: Some(self.largest), further: self.further }
    }

    /// When packets arrived by the peer's clock, newest first. Packets that the frame does not acknowledge may be among
    /// them, and the same one twice.
    pub fn timestamps(&self) -> impl Iterator<Item = Timestamp> + use<'a> {
        let largest = self.largest;
        self.times.into_iter().flat_map(move |times| times.iter(largest))
    }

    /// The number of ranges, at least one.
    pub fn range_count(&self) -> u64 {
        self.further + 1
    }

    /// The time the peer says it held back the acknowledgment of `largest`, given its ack_delay_exponent. Saturates.
    pub fn delay(&self, exponent: u8) -> Duration {
        let microseconds = u128::from(self.raw_delay) << exponent.min(20);
        Duration::from_micros(u64::try_from(microseconds).unwrap_or(u64::MAX))
    }
}

/// The ranges of an ACK frame, from the largest down.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    fields: Reader<'a>,
    /// The largest number of the next range; `None` at the end.
    next_largest: Option<u64>,
    further: u64,
}

impl AckRanges<'_> {
    /// The next range; `Err(())` if the fields are truncated or go below zero.
    fn step(&mut self) -> Result<Option<RangeInclusive<u64>>, ()> {
        let Some(largest) = self.next_largest.take() else {
            return Ok(None);
        };
        let smallest = largest.checked_sub(self.fields.varint().ok_or(())?).ok_or(())?;
        if let Some(further) = self.further.checked_sub(1) {
            self.further = further;
            // A Gap of n means n + 1 numbers missing (RFC 9000 section 19.3.1).
            let gap = self.fields.varint().ok_or(())?;
            self.next_largest = Some(smallest.checked_sub(gap + 2).ok_or(())?);
        }
        Ok(Some(smallest..=largest))
    }
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        self.step().ok().flatten()
    }
}

// ---- parsing --------------------------------------------------------------------------------------------------------

/// The frames of a packet's payload. Ends after the first error.
#[derive(Clone, Debug)]
pub struct FrameIter<'a> {
    reader: Reader<'a>,
    /// Nothing was yielded yet: an empty payload is still to be reported.
    fresh: bool,
}

impl<'a> FrameIter<'a> {
    /// The frames of a decrypted payload.
    pub fn new(payload: &'a [u8]) -> FrameIter<'a> {
        FrameIter { reader: Reader::new(payload), fresh: true }
    }

    fn parse(&mut self) -> Result<Frame<'a>, TransportError> {
        let before = self.reader.remaining();
        let ty = self.reader.varint().ok_or_else(|| TransportError::frame_encoding("frame type is truncated"))?;
        if before - self.reader.remaining() != varint::len(ty) {
            return Err(
                TransportError::protocol_violation("frame type is not encoded in its shortest form").in_frame(ty)
            );
        }
        match self.parse_body(ty) {
            Ok(frame) => Ok(frame),
            Err(reason) => Err(TransportError::frame_encoding(reason).in_frame(ty)),
        }
    }

    /// The fields of a frame of type `ty`. An error is the reason of a FRAME_ENCODING_ERROR.
    fn parse_body(&mut self, ty: u64) -> Result<Frame<'a>, &'static str> {
        let r = &mut self.reader;
        macro_rules! varint {
            () => {
                r.varint().ok_or("frame is truncated")?
            };
        }
        macro_rules! id {
            () => {
                StreamId::from_u64(varint!())
            };
        }
        macro_rules! rest_of {
            ($option:expr) => {
                $option.ok_or("frame is truncated")?
            };
        }
        Ok(match ty {
            ty::PADDING => {
                let rest = r.rest();
                let run = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
                r.bytes(run);
                Frame::Padding(1 + run)
            }
            ty::PING => Frame::Ping,
            ty::ACK | ty::ACK_ECN => Frame::Ack(parse_ack(r, ty == ty::ACK_ECN)?),
            ty::ACK_RECEIVE_TIMESTAMPS | ty::ACK_RECEIVE_TIMESTAMPS_ECN => {
                Frame::Ack(parse_ack_with_times(r, ty == ty::ACK_RECEIVE_TIMESTAMPS_ECN)?)
            }
            ty::PATH_ACK | ty::PATH_ACK_ECN => {
                Frame::PathAck { path: varint!(), ack: parse_ack(r, ty == ty::PATH_ACK_ECN)? }
            }
            ty::PATH_ACK_RECEIVE_TIMESTAMPS | ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN => {
                let with_ecn = ty == ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN;
                Frame::PathAck { path: varint!(), ack: parse_ack_with_times(r, with_ecn)? }
            }
            ty::RESET_STREAM => Frame::ResetStream { id: id!(), error_code: varint!(), final_size: varint!() },
            ty::STOP_SENDING => Frame::StopSending { id: id!(), error_code: varint!() },
            ty::CRYPTO => {
                let (offset, data) = (varint!(), rest_of!(r.varint_bytes()));
                check_end(offset, data)?;
                Frame::Crypto { offset, data }
            }
            ty::NEW_TOKEN => match rest_of!(r.varint_bytes()) {
                [] => return Err("NEW_TOKEN with an empty token"),
                token => Frame::NewToken(token),
            },
            ty::STREAM..0x10 => {
                let id = id!();
                let offset = if ty & OFF != 0 { varint!() } else { 0 };
                let data = if ty & LEN != 0 { rest_of!(r.varint_bytes()) } else { r.take_rest() };
                check_end(offset, data)?;
                Frame::Stream { id, offset, fin: ty & FIN != 0, data }
            }
            ty::MAX_DATA => Frame::MaxData(varint!()),
            ty::MAX_STREAM_DATA => Frame::MaxStreamData { id: id!(), max: varint!() },
            ty::MAX_STREAMS_BIDI => Frame::MaxStreams { dir: Dir::Bi, max: stream_count(varint!())? },
            ty::MAX_STREAMS_UNI => Frame::MaxStreams { dir: Dir::Uni, max: stream_count(varint!())? },
            ty::DATA_BLOCKED => Frame::DataBlocked(varint!()),
            ty::STREAM_DATA_BLOCKED => Frame::StreamDataBlocked { id: id!(), limit: varint!() },
            ty::STREAMS_BLOCKED_BIDI => Frame::StreamsBlocked { dir: Dir::Bi, limit: stream_count(varint!())? },
            ty::STREAMS_BLOCKED_UNI => Frame::StreamsBlocked { dir: Dir::Uni, limit: stream_count(varint!())? },
            ty::NEW_CONNECTION_ID => Frame::NewConnectionId(read_new_connection_id(r)?),
            ty::RETIRE_CONNECTION_ID => Frame::RetireConnectionId(varint!()),
            ty::PATH_CHALLENGE => Frame::PathChallenge(rest_of!(r.array())),
            ty::PATH_RESPONSE => Frame::PathResponse(rest_of!(r.array())),
            ty::CONNECTION_CLOSE => Frame::ConnectionClose {
                error_code: varint!(),
                frame_type: varint!(),
                reason: rest_of!(r.varint_bytes()),
            },
            ty::APPLICATION_CLOSE => {
                Frame::ApplicationClose { error_code: varint!(), reason: rest_of!(r.varint_bytes()) }
            }
            ty::HANDSHAKE_DONE => Frame::HandshakeDone,
            ty::IMMEDIATE_ACK => Frame::ImmediateAck,
            ty::DATAGRAM => Frame::Datagram(r.take_rest()),
            ty::DATAGRAM_LEN => Frame::Datagram(rest_of!(r.varint_bytes())),
            ty::ACK_FREQUENCY => Frame::AckFrequency(AckFrequency {
                sequence: varint!(),
                threshold: varint!(),
                max_ack_delay: varint!(),
                reordering_threshold: varint!(),
            }),
            _ => Frame::Path(PathFrame::parse(ty, r)?.ok_or("frame type is unknown")?),
        })
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = Result<Frame<'a>, TransportError>;

    fn next(&mut self) -> Option<Result<Frame<'a>, TransportError>> {
        if self.reader.is_empty() {
            // RFC 9000 section 12.4: a packet MUST contain at least one frame.
            return std::mem::take(&mut self.fresh)
                .then(|| Err(TransportError::protocol_violation("packet without frames")));
        }
        self.fresh = false;
        let result = self.parse();
        if result.is_err() {
            self.reader.take_rest();
        }
        Some(result)
    }
}

fn parse_ack<'a>(r: &mut Reader<'a>, with_ecn: bool) -> Result<Ack<'a>, &'static str> {
    const TRUNCATED: &str = "ACK is truncated";
    let largest = r.varint().ok_or(TRUNCATED)?;
    let raw_delay = r.varint().ok_or(TRUNCATED)?;
    let further = r.varint().ok_or(TRUNCATED)?;
    let fields = r.rest();
    let mut ranges = AckRanges { fields: *r, next_largest: Some(largest), further };
    while ranges.step().map_err(|()| "ACK ranges are truncated or go below zero")?.is_some() {}
    *r = ranges.fields;
    let fields = &fields[..fields.len() - r.remaining()];
    let ecn = match with_ecn {
        true => Some(EcnCounts {
            ect0: r.varint().ok_or(TRUNCATED)?,
            ect1: r.varint().ok_or(TRUNCATED)?,
            ce: r.varint().ok_or(TRUNCATED)?,
        }),
        false => None,
    };
    Ok(Ack { largest, raw_delay, ecn, times: None, further, fields })
}

fn parse_ack_with_times<'a>(r: &mut Reader<'a>, with_ecn: bool) -> Result<Ack<'a>, &'static str> {
    let ack = parse_ack(r, with_ecn)?;
    Ok(Ack { times: Some(Timestamps::parse(r, ack.largest)?), ..ack })
}

/// The fields of NEW_CONNECTION_ID.
fn read_new_connection_id(r: &mut Reader<'_>) -> Result<NewConnectionId, &'static str> {
    let (Some(sequence), Some(retire_prior_to), Some(cid), Some(token)) =
        (r.varint(), r.varint(), r.u8_bytes(), r.array())
    else {
        return Err("frame is truncated");
    };
    if retire_prior_to > sequence {
        return Err("NEW_CONNECTION_ID retires itself");
    }
    let cid = ConnectionId::new(cid)
        .filter(|cid| !cid.is_empty())
        .ok_or("NEW_CONNECTION_ID with an ID that has not 1 to 20 bytes")?;
    Ok(NewConnectionId { sequence, retire_prior_to, cid, reset_token: ResetToken(token) })
}

/// The largest offset of a stream or of the handshake is 2^62 - 1 (RFC 9000 sections 19.6 and 19.8).
fn check_end(offset: u64, data: &[u8]) -> Result<(), &'static str> {
    if offset + data.len() as u64 > varint::MAX { Err("data goes past offset 2^62 - 1") } else { Ok(()) }
}

/// There can be no more than 2^60 streams of a kind (RFC 9000 sections 19.11 and 19.14).
fn stream_count(count: u64) -> Result<u64, &'static str> {
    if count > 1 << 60 { Err("more than 2^60 streams") } else { Ok(count) }
}

/// The type of a STREAM frame that has its length, and its offset unless that is 0.
fn stream_ty(offset: u64, fin: bool) -> u64 {
    ty::STREAM | LEN | if offset > 0 { OFF } else { 0 } | if fin { FIN } else { 0 }
}

/// The type of an ACK frame, or a PATH_ACK frame if `names_path`, with ECN counts, with timestamps, or with neither.
fn ack_ty(names_path: bool, has_ecn: bool, has_times: bool) -> u64 {
    match (names_path, has_times) {
        (false, false) => ty::ACK + u64::from(has_ecn),
        (false, true) => ty::ACK_RECEIVE_TIMESTAMPS + u64::from(has_ecn),
        (true, false) => ty::PATH_ACK + u64::from(has_ecn),
        (true, true) => ty::PATH_ACK_RECEIVE_TIMESTAMPS + u64::from(has_ecn),
    }
}

// ---- rules ----------------------------------------------------------------------------------------------------------

impl Frame<'_> {
    /// The type that [`encode`](Self::encode) writes.
    pub fn ty(&self) -> u64 {
        match self {
            Frame::Padding(_) => ty::PADDING,
            Frame::Ping => ty::PING,
            Frame::Ack(ack) => ack_ty(false, ack.ecn.is_some(), ack.times.is_some()),
            Frame::PathAck { ack, .. } => ack_ty(true, ack.ecn.is_some(), ack.times.is_some()),
            Frame::Path(frame) => frame.ty(),
            Frame::ResetStream { .. } => ty::RESET_STREAM,
            Frame::StopSending { .. } => ty::STOP_SENDING,
            Frame::Crypto { .. } => ty::CRYPTO,
            Frame::NewToken(_) => ty::NEW_TOKEN,
            Frame::Stream { offset, fin, .. } => stream_ty(*offset, *fin),
            Frame::MaxData(_) => ty::MAX_DATA,
            Frame::MaxStreamData { .. } => ty::MAX_STREAM_DATA,
            Frame::MaxStreams { dir, .. } => ty::MAX_STREAMS_BIDI + dir.index() as u64,
            Frame::DataBlocked(_) => ty::DATA_BLOCKED,
            Frame::StreamDataBlocked { .. } => ty::STREAM_DATA_BLOCKED,
            Frame::StreamsBlocked { dir, .. } => ty::STREAMS_BLOCKED_BIDI + dir.index() as u64,
            Frame::NewConnectionId(_) => ty::NEW_CONNECTION_ID,
            Frame::RetireConnectionId(_) => ty::RETIRE_CONNECTION_ID,
            Frame::PathChallenge(_) => ty::PATH_CHALLENGE,
            Frame::PathResponse(_) => ty::PATH_RESPONSE,
            Frame::ConnectionClose { .. } => ty::CONNECTION_CLOSE,
            Frame::ApplicationClose { .. } => ty::APPLICATION_CLOSE,
            Frame::HandshakeDone => ty::HANDSHAKE_DONE,
            Frame::Datagram(_) => ty::DATAGRAM_LEN,
            Frame::AckFrequency(_) => ty::ACK_FREQUENCY,
            Frame::ImmediateAck => ty::IMMEDIATE_ACK,
        }
    }

    /// Whether a packet with this frame must be acknowledged (RFC 9002 section 2): all but ACK, PATH_ACK, PADDING and
    /// CONNECTION_CLOSE.
    #[inline]
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Frame::Ack(_)
                | Frame::PathAck { .. }
                | Frame::Padding(_)
                | Frame::ConnectionClose { .. }
                | Frame::ApplicationClose { .. }
        )
    }

    /// Whether a packet with this frame counts towards bytes in flight: ack-eliciting, or PADDING (RFC 9002 section 2).
    #[inline]
    pub fn is_in_flight(&self) -> bool {
        self.is_ack_eliciting() || matches!(self, Frame::Padding(_))
    }

    /// Whether this is a probing frame; a packet with none but these does not make the peer migrate (RFC 9000 section
    /// 9.1).
    #[inline]
    pub fn is_probing(&self) -> bool {
        matches!(self, Frame::PathChallenge(_) | Frame::PathResponse(_) | Frame::NewConnectionId(_) | Frame::Padding(_))
    }

    /// Whether a packet of this level may carry the frame (RFC 9000 sections 12.4, 12.5 and 17.2; RFC 9221 section 4;
    /// draft-ietf-quic-multipath-21 section 4).
    #[inline]
    pub fn is_allowed_at(&self, level: Level) -> bool {
        match self {
            Frame::Padding(_) | Frame::Ping | Frame::ConnectionClose { .. } => true,
            Frame::Ack(ack) if ack.times.is_some() => level == Level::OneRtt,
            Frame::Ack(_) | Frame::Crypto { .. } => level != Level::EarlyData,
            Frame::NewToken(_)
            | Frame::PathResponse(_)
            | Frame::RetireConnectionId(_)
            | Frame::HandshakeDone
            | Frame::AckFrequency(_)
            | Frame::ImmediateAck
            | Frame::PathAck { .. }
            | Frame::Path(_) => level == Level::OneRtt,
            _ => matches!(level, Level::EarlyData | Level::OneRtt),
        }
    }

    /// Checks that this frame may come in a packet of `level`, received by `receiver`.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if not (RFC 9000 section 12.4), or if a client sent NEW_TOKEN or HANDSHAKE_DONE (sections
    /// 19.7 and 19.20).
    #[inline]
    pub fn check_allowed(&self, level: Level, receiver: Side) -> Result<(), TransportError> {
        if !self.is_allowed_at(level) {
            return Err(
                TransportError::protocol_violation("frame is not allowed in this type of packet").in_frame(self.ty())
            );
        }
        if receiver == Side::Server && matches!(self, Frame::NewToken(_) | Frame::HandshakeDone) {
            return Err(TransportError::protocol_violation("frame is not allowed from a client").in_frame(self.ty()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
