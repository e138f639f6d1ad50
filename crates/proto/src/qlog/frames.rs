//! The qlog form of frames and of the error codes inside them.

use super::json::put;
use crate::observe::{ACK_RANGES_KEPT, FrameInfo};

/// The drafts' names of RFC 9000 section 20.1's codes.
fn transport_error_label(code: u64) -> Option<&'static str> {
    Some(match code {
        0x00 => "no_error",
        0x01 => "internal_error",
        0x02 => "connection_refused",
        0x03 => "flow_control_error",
        0x04 => "stream_limit_error",
        0x05 => "stream_state_error",
        0x06 => "final_size_error",
        0x07 => "frame_encoding_error",
        0x08 => "transport_parameter_error",
        0x09 => "connection_id_limit_error",
        0x0a => "protocol_violation",
        0x0b => "invalid_token",
        0x0c => "application_error",
        0x0d => "crypto_buffer_exceeded",
        0x0e => "key_update_error",
        0x0f => "aead_limit_reached",
        0x10 => "no_viable_path",
        0x3e => "application_abandon_path",
        0x3e75 => "path_resource_limit_reached",
        0x3e76 => "path_unstable_or_poor",
        0x3e77 => "no_cid_available_for_path",
        _ => return None,
    })
}

/// Writes the value of an `error` key, with an `error_code` behind it when the code has no name.
pub(super) fn transport_error(out: &mut String, code: u64) {
    match transport_error_label(code) {
        Some(label) => put(out, format_args!("\"{label}\"")),
        None if (0x100..0x200).contains(&code) => {
            put(out, format_args!("\"crypto_error_0x{code:x}\""));
        }
        None => put(out, format_args!(r#""unknown","error_code":{code}"#)),
    }
}

fn stream_type(bidi: bool) -> &'static str {
    if bidi { "bidirectional" } else { "unidirectional" }
}

/// The delay and the ranges of an ACK frame, as many as are kept; `range_count` is how many it has.
fn ack_ranges(out: &mut String, delay_us: u64, ranges: &[(u64, u64); ACK_RANGES_KEPT], range_count: u32) {
    put(out, format_args!(r#"ack","ack_delay":{}.{:03},"acked_ranges":["#, delay_us / 1000, delay_us % 1000));
    let kept = (range_count as usize).min(ACK_RANGES_KEPT);
    for (index, (first, last)) in ranges.iter().take(kept).enumerate() {
        if index > 0 {
            out.push(',');
        }
        if first == last {
            put(out, format_args!("[{first}]"));
        } else {
            put(out, format_args!("[{first},{last}]"));
        }
    }
    out.push(']');
    if range_count as usize > kept {
        put(out, format_args!(r#","range_count":{range_count}"#));
    }
}

/// Writes one frame object.
pub(super) fn frame(out: &mut String, info: &FrameInfo) {
    out.push_str(r#"{"frame_type":""#);
    match *info {
        FrameInfo::Padding { len } => {
            put(out, format_args!(r#"padding","raw":{{"length":{len}}}"#));
        }
        FrameInfo::Ping => out.push_str("ping\""),
        FrameInfo::Ack { delay_us, range_count, ranges, ecn, timestamps, path } => {
            if path.is_some() {
                out.push_str("path_");
            }
            ack_ranges(out, delay_us, &ranges, range_count);
            if let Some([ect0, ect1, ce]) = ecn {
                put(out, format_args!(r#","ect1":{ect1},"ect0":{ect0},"ce":{ce}"#));
            }
            if timestamps > 0 {
                put(out, format_args!(r#","timestamp_count":{timestamps}"#));
            }
            if let Some(path) = path {
                put(out, format_args!(r#","path_id":{path}"#));
            }
        }
        FrameInfo::ResetStream { id, code, final_size } => put(
            out,
            format_args!(
                r#"reset_stream","stream_id":{id},"error":"unknown","error_code":{code},"final_size":{final_size}"#
            ),
        ),
        FrameInfo::StopSending { id, code } => {
            put(out, format_args!(r#"stop_sending","stream_id":{id},"error":"unknown","error_code":{code}"#))
        }
        FrameInfo::Crypto { offset, len } => {
            put(out, format_args!(r#"crypto","offset":{offset},"raw":{{"payload_length":{len}}}"#))
        }
        FrameInfo::NewToken { len } => {
            put(out, format_args!(r#"new_token","token":{{"type":"resumption","raw":{{"length":{len}}}}}"#))
        }
        FrameInfo::Stream { id, offset, len, fin } => {
            put(out, format_args!(r#"stream","stream_id":{id},"offset":{offset}"#));
            if fin {
                out.push_str(r#","fin":true"#);
            }
            put(out, format_args!(r#","raw":{{"payload_length":{len}}}"#));
        }
        FrameInfo::MaxData { max } => put(out, format_args!(r#"max_data","maximum":{max}"#)),
        FrameInfo::MaxStreamData { id, max } => {
            put(out, format_args!(r#"max_stream_data","stream_id":{id},"maximum":{max}"#));
        }
        FrameInfo::MaxStreams { bidi, max } => {
            put(out, format_args!(r#"max_streams","stream_type":"{}","maximum":{max}"#, stream_type(bidi)))
        }
        FrameInfo::DataBlocked { limit } => {
            put(out, format_args!(r#"data_blocked","limit":{limit}"#));
        }
        FrameInfo::StreamDataBlocked { id, limit } => {
            put(out, format_args!(r#"stream_data_blocked","stream_id":{id},"limit":{limit}"#));
        }
        FrameInfo::StreamsBlocked { bidi, limit } => {
            put(out, format_args!(r#"streams_blocked","stream_type":"{}","limit":{limit}"#, stream_type(bidi)))
        }
        // The drafts want the ID; an observer never sees it.
        FrameInfo::NewConnectionId { sequence, retire_prior_to } => put(
            out,
            format_args!(
                r#"new_connection_id","sequence_number":{sequence},"retire_prior_to":{retire_prior_to},"connection_id":"""#
            ),
        ),
        FrameInfo::RetireConnectionId { sequence } => {
            put(out, format_args!(r#"retire_connection_id","sequence_number":{sequence}"#));
        }
        FrameInfo::PathChallenge => out.push_str("path_challenge\""),
        FrameInfo::PathResponse => out.push_str("path_response\""),
        FrameInfo::ConnectionClose { application: true, code } => put(
            out,
            format_args!(r#"connection_close","error_space":"application","error":"unknown","error_code":{code}"#),
        ),
        FrameInfo::ConnectionClose { application: false, code } => {
            out.push_str(r#"connection_close","error_space":"transport","error":"#);
            transport_error(out, code);
        }
        FrameInfo::HandshakeDone => out.push_str("handshake_done\""),
        FrameInfo::Datagram { len } => {
            put(out, format_args!(r#"datagram","raw":{{"payload_length":{len}}}"#));
        }
        FrameInfo::AckFrequency { sequence, threshold, max_ack_delay_us, reordering } => put(
            out,
            format_args!(
                concat!(
                    r#"ack_frequency","frame_type_bytes":175,"sequence_number":{},"#,
                    r#""ack_eliciting_threshold":{},"request_max_ack_delay":{},"reordering_threshold":{}"#
                ),
                sequence, threshold, max_ack_delay_us, reordering
            ),
        ),
        FrameInfo::ImmediateAck => out.push_str(r#"immediate_ack","frame_type_bytes":31"#),
        _ => about_path(out, info),
    }
    out.push('}');
}

/// Writes a frame about a path without the braces (draft-ietf-quic-multipath section 4).
fn about_path(out: &mut String, info: &FrameInfo) {
    match *info {
        FrameInfo::PathAbandon { path, code } => {
            put(out, format_args!(r#"path_abandon","path_id":{path},"error":"#));
            transport_error(out, code);
        }
        FrameInfo::PathStatus { path, sequence, backup } => {
            let status = if backup { "backup" } else { "available" };
            put(
                out,
                format_args!(r#"path_status_{status}","path_id":{path},"path_status_sequence_number":{sequence}"#),
            );
        }
        FrameInfo::PathNewConnectionId { path, sequence, retire_prior_to } => put(
            out,
            format_args!(
                concat!(
                    r#"path_new_connection_id","path_id":{},"sequence_number":{},"#,
                    r#""retire_prior_to":{},"connection_id":"""#
                ),
                path, sequence, retire_prior_to
            ),
        ),
        FrameInfo::PathRetireConnectionId { path, sequence } => {
            put(out, format_args!(r#"path_retire_connection_id","path_id":{path},"sequence_number":{sequence}"#));
        }
        FrameInfo::MaxPathId { max } => put(out, format_args!(r#"max_path_id","maximum_path_id":{max}"#)),
        FrameInfo::PathsBlocked { max } => put(out, format_args!(r#"paths_blocked","maximum_path_id":{max}"#)),
        FrameInfo::PathCidsBlocked { path, next_sequence } => {
            put(out, format_args!(r#"path_cids_blocked","path_id":{path},"next_sequence_number":{next_sequence}"#));
        }
        _ => out.push_str("unknown\""),
    }
}
