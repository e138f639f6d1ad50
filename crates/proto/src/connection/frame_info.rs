//! The frames of a packet in brief, for an observer.

use crate::{
    frame::{Ack, Frame, PathFrame},
    observe::{FrameInfo, kept_ranges},
    streams::Dir,
};

impl From<&Frame<'_>> for FrameInfo {
    fn from(frame: &Frame<'_>) -> FrameInfo {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        match frame {
            Frame::Padding(len) => FrameInfo::Padding { len: count(*len) },
            Frame::Ping => FrameInfo::Ping,
            Frame::Ack(ack) => ack_info(None, ack),
            Frame::PathAck { path, ack } => ack_info(Some(*path), ack),
            Frame::Path(frame) => path_info(frame),
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

fn ack_info(path: Option<u64>, ack: &Ack<'_>) -> FrameInfo {
    FrameInfo::Ack {
        delay_us: u64::try_from(ack.delay(3).as_micros()).unwrap_or(u64::MAX),
        range_count: u32::try_from(ack.range_count()).unwrap_or(u32::MAX),
        ranges: kept_ranges(ack.ranges().map(|range| (*range.start(), *range.end()))),
        ecn: ack.ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]),
        timestamps: ack.times.map_or(0, |times| u32::try_from(times.count()).unwrap_or(u32::MAX)),
        path,
    }
}

fn path_info(frame: &PathFrame) -> FrameInfo {
    match *frame {
        PathFrame::Abandon { path, error_code: code } => FrameInfo::PathAbandon { path, code },
        PathFrame::Status { path, sequence, is_backup: backup } => FrameInfo::PathStatus { path, sequence, backup },
        PathFrame::NewConnectionId { path, new } => {
            let (sequence, retire_prior_to) = (new.sequence, new.retire_prior_to);
            FrameInfo::PathNewConnectionId { path, sequence, retire_prior_to }
        }
        PathFrame::RetireConnectionId { path, sequence } => FrameInfo::PathRetireConnectionId { path, sequence },
        PathFrame::MaxPathId(max) => FrameInfo::MaxPathId { max },
        PathFrame::PathsBlocked(max) => FrameInfo::PathsBlocked { max },
        PathFrame::CidsBlocked { path, next_sequence } => FrameInfo::PathCidsBlocked { path, next_sequence },
    }
}
