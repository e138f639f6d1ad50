//! Writing frames into the caller's buffer, and how long they get.

use std::ops::Range;

use thalweg_recovery::EcnCounts;

use super::{Ack, Frame, PathFrame, Timestamp, ack_ty, stream_ty, timestamps, ty};
use crate::cid::NewConnectionId;
use crate::streams::StreamId;
use crate::varint;

/// Something that takes the bytes of a frame: a buffer, or a count of them.
trait Sink {
    fn varint(&mut self, value: u64);
    fn bytes(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn varint(&mut self, value: u64) {
        varint::encode(value, self);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Count(usize);

impl Sink for Count {
    #[inline]
    fn varint(&mut self, value: u64) {
        self.0 += varint::len(value);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

impl Frame<'_> {
    /// Appends the frame. STREAM and DATAGRAM are always written with their length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Frame::Padding(n) = self {
            out.resize(out.len() + n, 0);
        } else {
            self.put(out);
        }
    }

    /// The number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        if let Frame::Padding(n) = self {
            return *n;
        }
        let mut count = Count(0);
        self.put(&mut count);
        count.0
    }

    #[inline]
    fn put(&self, out: &mut impl Sink) {
        fn varint_bytes(out: &mut impl Sink, bytes: &[u8]) {
            out.varint(bytes.len() as u64);
            out.bytes(bytes);
        }
        out.varint(self.ty());
        match self {
            Frame::Padding(_) | Frame::Ping | Frame::HandshakeDone | Frame::ImmediateAck => {}
            Frame::Ack(ack) => put_ack(out, ack),
            Frame::PathAck { path, ack } => {
                out.varint(*path);
                put_ack(out, ack);
            }
            Frame::Path(frame) => put_path_frame(out, frame),
            Frame::ResetStream { id, error_code, final_size } => {
                varints(out, &[id.as_u64(), *error_code, *final_size]);
            }
            Frame::StopSending { id, error_code } => varints(out, &[id.as_u64(), *error_code]),
            Frame::Crypto { offset, data } => {
                out.varint(*offset);
                varint_bytes(out, data);
            }
            Frame::NewToken(token) => varint_bytes(out, token),
            Frame::Stream { id, offset, data, .. } => {
                out.varint(id.as_u64());
                if *offset > 0 {
                    out.varint(*offset);
                }
                varint_bytes(out, data);
            }
            Frame::MaxData(n) | Frame::DataBlocked(n) | Frame::RetireConnectionId(n) => out.varint(*n),
            Frame::MaxStreamData { id, max: n } | Frame::StreamDataBlocked { id, limit: n } => {
                varints(out, &[id.as_u64(), *n]);
            }
            Frame::MaxStreams { max: n, .. } | Frame::StreamsBlocked { limit: n, .. } => out.varint(*n),
            Frame::NewConnectionId(new) => put_new_connection_id(out, new),
            Frame::PathChallenge(data) | Frame::PathResponse(data) => out.bytes(data),
            Frame::ConnectionClose { error_code, frame_type, reason } => {
                varints(out, &[*error_code, *frame_type]);
                varint_bytes(out, reason);
            }
            Frame::ApplicationClose { error_code, reason } => {
                out.varint(*error_code);
                varint_bytes(out, reason);
            }
            Frame::Datagram(data) => varint_bytes(out, data),
            Frame::AckFrequency(f) => {
                varints(out, &[f.sequence, f.threshold, f.max_ack_delay, f.reordering_threshold]);
            }
        }
    }
}

fn varints(out: &mut impl Sink, values: &[u64]) {
    values.iter().for_each(|value| out.varint(*value));
}

fn put_ack(out: &mut impl Sink, ack: &Ack<'_>) {
    varints(out, &[ack.largest, ack.raw_delay, ack.further]);
    out.bytes(ack.fields);
    if let Some(ecn) = ack.ecn {
        varints(out, &[ecn.ect0, ecn.ect1, ecn.ce]);
    }
    if let Some(times) = ack.times {
        out.bytes(times.fields());
    }
}

fn put_new_connection_id(out: &mut impl Sink, new: &NewConnectionId) {
    varints(out, &[new.sequence, new.retire_prior_to]);
    out.bytes(&[new.cid.len() as u8]);
    out.bytes(&new.cid);
    out.bytes(&new.reset_token.0);
}

fn put_path_frame(out: &mut impl Sink, frame: &PathFrame) {
    out.varint(frame.path());
    match frame {
        PathFrame::Abandon { error_code: value, .. }
        | PathFrame::Status { sequence: value, .. }
        | PathFrame::RetireConnectionId { sequence: value, .. }
        | PathFrame::CidsBlocked { next_sequence: value, .. } => out.varint(*value),
        PathFrame::NewConnectionId { new, .. } => put_new_connection_id(out, new),
        PathFrame::MaxPathId(_) | PathFrame::PathsBlocked(_) => {}
    }
}

/// The length in bytes of what [`encode_stream_header`] writes for `len` bytes of data.
#[inline]
pub fn stream_header_len(id: StreamId, offset: u64, len: usize) -> usize {
    stream_fixed_len(id, offset) + varint::len(len as u64)
}

/// A STREAM frame's length without its length field and its data.
#[inline]
fn stream_fixed_len(id: StreamId, offset: u64) -> usize {
    1 + varint::len(id.as_u64()) + if offset > 0 { varint::len(offset) } else { 0 }
}

/// Appends a STREAM frame up to its data, of which the caller then appends `len` bytes.
#[inline]
pub fn encode_stream_header(out: &mut Vec<u8>, id: StreamId, offset: u64, fin: bool, len: usize) {
    out.push(stream_ty(offset, fin) as u8);
    varint::encode(id.as_u64(), out);
    if offset > 0 {
        varint::encode(offset, out);
    }
    varint::encode(len as u64, out);
}

/// How many of `available` bytes of stream data fit into a STREAM frame of at most `space` bytes. `None` if not even an
/// empty frame fits.
#[inline]
pub fn stream_fit(space: usize, id: StreamId, offset: u64, available: usize) -> Option<usize> {
    fit(space.checked_sub(stream_fixed_len(id, offset))?, available)
}

/// Appends a CRYPTO frame up to its data, of which the caller then appends `len` bytes.
#[inline]
pub fn encode_crypto_header(out: &mut Vec<u8>, offset: u64, len: usize) {
    out.push(ty::CRYPTO as u8);
    varint::encode(offset, out);
    varint::encode(len as u64, out);
}

/// How many of `available` bytes of handshake data fit into a CRYPTO frame of at most `space` bytes.
#[inline]
pub fn crypto_fit(space: usize, offset: u64, available: usize) -> Option<usize> {
    fit(space.checked_sub(1 + varint::len(offset))?, available)
}

/// Appends a DATAGRAM frame with its length.
#[inline]
pub fn encode_datagram(out: &mut Vec<u8>, data: &[u8]) {
    Frame::Datagram(data).encode(out);
}

/// The length in bytes of a DATAGRAM frame with `len` bytes of data.
#[inline]
pub const fn datagram_len(len: usize) -> usize {
    1 + varint::len(len as u64) + len
}

/// The most data, up to `available`, that fits into `space` together with a field for its length.
fn fit(space: usize, available: usize) -> Option<usize> {
    let room = |field: usize| space.checked_sub(field);
    let most = match space {
        0 => return None,
        // Where a longer field would just cost what a longer payload brings, the shorter one is kept.
        1..=65 => room(1)?.min(0x3f),
        66..=0x4001 => room(2)?,
        0x4002..=0x4003 => 0x3fff,
        _ => room(4)?,
    };
    Some(most.min(available))
}

/// Appends an ACK frame, or ACK_ECN if there are `ecn` counts, of at most `max_len` bytes. Of `ranges` (half-open,
/// descending, disjoint, not adjacent) the highest that fit are written.
///
/// `raw_delay` is the delay in microseconds shifted right by our ack_delay_exponent. Returns the number of ranges
/// written; `None`, and nothing written, if there are no ranges or not even one fits.
pub fn encode_ack(
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
) -> Option<usize> {
    encode_ack_of(None, false, out, max_len, raw_delay, ranges, ecn)
}

/// The same as PATH_ACK for the space of a path identifier.
pub fn encode_path_ack(
    path: u32,
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
) -> Option<usize> {
    encode_ack_of(Some(path), false, out, max_len, raw_delay, ranges, ecn)
}

/// The same as ACK_RECEIVE_TIMESTAMPS, with the first of `times` that fit behind the ranges, at most `most`: newest
/// first, none above the largest acknowledged number, `units` not rising. Returns the number of ranges written.
pub fn encode_ack_with_times(
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
    times: impl Iterator<Item = Timestamp> + Clone,
    most: usize,
) -> Option<usize> {
    encode_with_times(None, out, max_len, raw_delay, ranges, ecn, times, most)
}

/// The same as PATH_ACK_RECEIVE_TIMESTAMPS for the space of a path identifier.
#[allow(clippy::too_many_arguments)]
pub fn encode_path_ack_with_times(
    path: u32,
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
    times: impl Iterator<Item = Timestamp> + Clone,
    most: usize,
) -> Option<usize> {
    encode_with_times(Some(path), out, max_len, raw_delay, ranges, ecn, times, most)
}

#[allow(clippy::too_many_arguments)]
fn encode_with_times(
    path: Option<u32>,
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
    times: impl Iterator<Item = Timestamp> + Clone,
    most: usize,
) -> Option<usize> {
    let largest = ranges.clone().next()?.end - 1;
    let before = out.len();
    // Room for their count at least.
    let written = encode_ack_of(path, true, out, max_len.checked_sub(1)?, raw_delay, ranges, ecn)?;
    let room = max_len.saturating_sub(out.len() - before);
    timestamps::encode(out, room, largest, times, most);
    Some(written)
}

fn encode_ack_of(
    path: Option<u32>,
    has_times: bool,
    out: &mut Vec<u8>,
    max_len: usize,
    raw_delay: u64,
    ranges: impl Iterator<Item = Range<u64>> + Clone,
    ecn: Option<EcnCounts>,
) -> Option<usize> {
    let first = ranges.clone().next()?;
    let ty = ack_ty(path.is_some(), ecn.is_some(), has_times);
    let largest = first.end - 1;
    let raw_delay = raw_delay.min(varint::MAX);
    let ecn_len = ecn.map_or(0, |ecn| varint::len(ecn.ect0) + varint::len(ecn.ect1) + varint::len(ecn.ce));
    let first_len = varint::len(largest - first.start);
    let path_len = path.map_or(0, |path| varint::len(path.into()));
    let fixed = varint::len(ty) + path_len + varint::len(largest) + varint::len(raw_delay) + first_len + ecn_len;

    // First count what fits: the number of ranges stands before them.
    let mut used = fixed;
    let mut further = 0;
    let mut smallest = first.start;
    for range in ranges.clone().skip(1) {
        let len = varint::len(smallest - range.end - 1) + varint::len(range.end - 1 - range.start);
        if used + len + varint::len(further + 1) > max_len {
            break;
        }
        used += len;
        further += 1;
        smallest = range.start;
    }
    if used + varint::len(further) > max_len {
        return None;
    }

    varint::encode(ty, out);
    if let Some(path) = path {
        varint::encode(path.into(), out);
    }
    for value in [largest, raw_delay, further, largest - first.start] {
        varint::encode(value, out);
    }
    let mut smallest = first.start;
    for range in ranges.skip(1).take(further as usize) {
        varint::encode(smallest - range.end - 1, out);
        varint::encode(range.end - 1 - range.start, out);
        smallest = range.start;
    }
    if let Some(ecn) = ecn {
        for value in [ecn.ect0, ecn.ect1, ecn.ce] {
            varint::encode(value, out);
        }
    }
    Some(further as usize + 1)
}
