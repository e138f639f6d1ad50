//! The `data` of events in the drafts' schema: endpoints, closing, keys, transport parameters and packets.

use std::net::SocketAddr;

use thalweg_recovery::Ecn;

use super::frames::{frame, transport_error};
use super::json::{hex, put, string};
use crate::Side;
use crate::config::TransportConfig;
use crate::observe::{
    CloseTrigger, ConnectionState, KeyTrigger, Limit, Owner, PacketInfo, PacketKind, ParameterValues,
};

pub(super) fn side_label(side: Side) -> &'static str {
    if side.is_client() { "client" } else { "server" }
}

pub(super) fn endpoint(out: &mut String, address: Option<SocketAddr>, cid: Option<&[u8]>) {
    out.push('{');
    match address {
        Some(SocketAddr::V4(v4)) => {
            put(out, format_args!(r#""ip_v4":"{}","port_v4":{}"#, v4.ip(), v4.port()));
        }
        Some(SocketAddr::V6(v6)) => {
            put(out, format_args!(r#""ip_v6":"{}","port_v6":{}"#, v6.ip(), v6.port()));
        }
        None => {}
    }
    if let Some(cid) = cid {
        if address.is_some() {
            out.push(',');
        }
        out.push_str(r#""connection_ids":[""#);
        hex(out, cid);
        out.push_str("\"]");
    }
    out.push('}');
}

fn owner_label(owner: Owner) -> &'static str {
    match owner {
        Owner::Local => "local",
        Owner::Remote => "remote",
    }
}

pub(super) fn blocked_reason(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "application",
        Limit::Window => "congestion_control",
        Limit::Pacing => "pacing",
        Limit::FlowControl => "connection_flow_control",
        Limit::Amplification => "amplification_protection",
    }
}

/// What this end was configured with, as far as it decides what is sent when.
pub(super) fn configuration(out: &mut String, config: &TransportConfig) {
    out.push_str(r#"{"policies":"#);
    string(out, &config.policies.to_string());
    let initial_rtt = config.initial_rtt.as_nanos();
    put(
        out,
        format_args!(
            r#","initial_window":{},"initial_rtt":{}.{:06},"send_window":{},"max_datagram":{}"#,
            config.initial_window.bytes(config.initial_mtu),
            initial_rtt / 1_000_000,
            initial_rtt % 1_000_000,
            config.streams.send_window,
            config.max_mtu.max(config.initial_mtu),
        ),
    );
    if let Some(rate) = config.max_rate {
        put(out, format_args!(r#","max_rate":{}"#, rate.bps()));
    }
    out.push('}');
}

pub(super) fn started(
    out: &mut String,
    (local, local_cid): (Option<SocketAddr>, &[u8]),
    (remote, remote_cid): (SocketAddr, &[u8]),
    version: u32,
) {
    out.push_str(r#"{"local":"#);
    endpoint(out, local, Some(local_cid));
    out.push_str(r#","remote":"#);
    endpoint(out, Some(remote), Some(remote_cid));
    put(out, format_args!(r#","version":"{version:08x}"}}"#));
}

pub(super) fn state_updated(out: &mut String, old: Option<ConnectionState>, new: ConnectionState) {
    out.push('{');
    if let Some(old) = old {
        put(out, format_args!(r#""old":"{}","#, old.label()));
    }
    put(out, format_args!(r#""new":"{}"}}"#, new.label()));
}

pub(super) fn chosen_alpn(out: &mut String, alpn: &[u8]) {
    out.push_str(r#"{"chosen_alpn":{"byte_value":""#);
    hex(out, alpn);
    out.push('"');
    if let Ok(text) = std::str::from_utf8(alpn) {
        out.push_str(r#","string_value":"#);
        string(out, text);
    }
    out.push_str("}}");
}

pub(super) fn closed(out: &mut String, by: Owner, trigger: CloseTrigger, application: bool, code: u64, reason: &str) {
    put(out, format_args!(r#"{{"initiator":"{}""#, owner_label(by)));
    if application {
        put(out, format_args!(r#","application_error":"unknown","error_code":{code}"#));
    } else if matches!(trigger, CloseTrigger::Error | CloseTrigger::Application) {
        out.push_str(r#","connection_error":"#);
        transport_error(out, code);
    }
    if !reason.is_empty() {
        out.push_str(r#","reason":"#);
        string(out, reason);
    }
    put(out, format_args!(r#","trigger":"{}"}}"#, trigger.label()));
}

pub(super) fn key_type(out: &mut String, side: Side, kind: PacketKind) {
    let level = match kind {
        PacketKind::Handshake => "handshake",
        PacketKind::ZeroRtt => "0rtt",
        PacketKind::OneRtt => "1rtt",
        _ => "initial",
    };
    put(out, format_args!(r#""key_type":"{}_{level}_secret""#, side_label(side)));
}

pub(super) fn key_updated(out: &mut String, side: Side, kind: PacketKind, generation: u64, trigger: KeyTrigger) {
    out.push('{');
    key_type(out, side, kind);
    if kind == PacketKind::OneRtt {
        put(out, format_args!(r#","key_phase":{generation}"#));
    }
    put(out, format_args!(r#","trigger":"{}"}}"#, trigger.label()));
}

pub(super) fn parameters(out: &mut String, owner: Owner, values: &ParameterValues) {
    put(
        out,
        format_args!(
            concat!(
                r#"{{"initiator":"{}","disable_active_migration":{},"max_idle_timeout":{},"#,
                r#""max_udp_payload_size":{},"ack_delay_exponent":{},"max_ack_delay":{},"#,
                r#""active_connection_id_limit":{},"initial_max_data":{},"#,
                r#""initial_max_stream_data_bidi_local":{},"initial_max_stream_data_bidi_remote":{},"#,
                r#""initial_max_stream_data_uni":{},"initial_max_streams_bidi":{},"initial_max_streams_uni":{}"#,
            ),
            owner_label(owner),
            values.disable_active_migration,
            values.max_idle_timeout_ms,
            values.max_udp_payload_size,
            values.ack_delay_exponent,
            values.max_ack_delay_ms,
            values.active_connection_id_limit,
            values.initial_max_data,
            values.initial_max_stream_data_bidi_local,
            values.initial_max_stream_data_bidi_remote,
            values.initial_max_stream_data_uni,
            values.initial_max_streams_bidi,
            values.initial_max_streams_uni,
        ),
    );
    if let Some(size) = values.max_datagram_frame_size {
        put(out, format_args!(r#","max_datagram_frame_size":{size}"#));
    }
    out.push_str(r#","unknown_parameters":["#);
    let mut comma = "";
    if let Some(delay) = values.min_ack_delay_us {
        // draft-ietf-quic-ack-frequency; the drafts' schema has no name for it. The value in a four-byte varint's form.
        put(out, format_args!(r#"{{"id":{},"value":"{:08x}"}}"#, 0xff04_de1b_u64, delay | 0x8000_0000));
        comma = ",";
    }
    // draft-ietf-quic-receive-ts and draft-ietf-quic-multipath, in an eight-byte varint's form.
    let others = [(0x4_ac07, values.max_receive_timestamps_per_ack), (0x3e, values.initial_max_path_id)];
    for (id, value) in others.into_iter().filter_map(|(id, value)| Some((id, value?))) {
        let value = value | 0xc000_0000_0000_0000;
        put(out, format_args!(r#"{comma}{{"id":{id},"value":"{value:016x}"}}"#));
        comma = ",";
    }
    out.push_str("]}");
}

fn header(out: &mut String, kind: &str, number: Option<u64>) {
    put(out, format_args!(r#"{{"packet_type":"{kind}""#));
    if let Some(number) = number {
        put(out, format_args!(r#","packet_number":{number}"#));
    }
    out.push('}');
}

/// A packet whose frames were not read, and why.
pub(super) fn unread(out: &mut String, kind: &str, number: Option<u64>, size: u32, trigger: &str) {
    out.push_str(r#"{"header":"#);
    header(out, kind, number);
    put(out, format_args!(r#","raw":{{"length":{size}}},"trigger":"{trigger}"}}"#));
}

pub(super) fn packet(out: &mut String, info: &PacketInfo<'_>) {
    out.push_str(r#"{"header":"#);
    header(out, info.kind.label(), info.number);
    put(out, format_args!(r#","raw":{{"length":{}}}"#, info.size));
    let ecn = match info.ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some("ECT(0)"),
        Ecn::Ect1 => Some("ECT(1)"),
        Ecn::Ce => Some("CE"),
    };
    if let Some(ecn) = ecn {
        put(out, format_args!(r#","ecn":"{ecn}""#));
    }
    out.push_str(r#","frames":["#);
    for (index, info) in info.frames.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        frame(out, info);
    }
    out.push_str("]}");
}
