//! Redacts logs: what is left are times, sizes, numbers and frames, so that a log can be shown to others.
//!
//! Nothing is taken out of a log here; known keys with numbers, and words of a fixed list, are put into a new one. A
//! name, an address, a token or a connection ID has no way into it, under whatever key it stood.

use std::io::{self, BufRead, Write};

use serde_json::{Map, Value, json};
use thalweg_recovery::Policies;

use crate::read::{Event, Header, Item, read};

/// Keys whose numbers, booleans, known words, objects and lists are kept.
const KEYS: &[&str] = &[
    "ack_delay",
    "ack_delay_exponent",
    "ack_eliciting_threshold",
    "acked_ranges",
    "active_connection_id_limit",
    "bytes_in_flight",
    "cause",
    "ce",
    "congestion_window",
    "delta",
    "done",
    "ecn",
    "ect0",
    "ect1",
    "episode",
    "event_type",
    "fin",
    "final_size",
    "frame_type",
    "frames",
    "header",
    "initial_max_data",
    "initial_max_stream_data_bidi_local",
    "initial_max_stream_data_bidi_remote",
    "initial_max_stream_data_uni",
    "initial_max_streams_bidi",
    "initial_max_streams_uni",
    "initiator",
    "is_mtu_probe_packet",
    "late_by",
    "latest_rtt",
    "length",
    "limit",
    "limited",
    "max_ack_delay",
    "max_idle_timeout",
    "max_udp_payload_size",
    "maximum",
    "min_rtt",
    "new",
    "offset",
    "old",
    "owner",
    "packet_number",
    "packet_number_space",
    "packet_size",
    "packet_type",
    "packets_in_flight",
    "pacing_rate",
    "path_id",
    "payload_length",
    "pto_count",
    "range_count",
    "raw",
    "reason",
    "reordering_threshold",
    "request_max_ack_delay",
    "rtt_variance",
    "sequence_number",
    "smoothed_rtt",
    "ssthresh",
    "state",
    "stream_id",
    "stream_type",
    "timer_type",
    "timestamp_count",
    "trigger",
];

/// Names of events, and texts of data, that are kept.
const WORDS: &[&str] = &[
    "0RTT",
    "1RTT",
    "ECT(0)",
    "ECT(1)",
    "CE",
    "ack",
    "ack_frequency",
    "ack_train",
    "amplification_protection",
    "application",
    "application_data",
    "application_limited",
    "attempted",
    "bandwidth",
    "bidirectional",
    "blocked",
    "cancelled",
    "capable",
    "closed",
    "closing",
    "congestion",
    "congestion_avoidance",
    "congestion_control",
    "congestion_event",
    "congestion_state_updated",
    "congestion_undone",
    "connection_close",
    "connection_closed",
    "connection_data_blocked_updated",
    "connection_flow_control",
    "connection_started",
    "connection_state_updated",
    "conservative_slow_start",
    "crypto",
    "data_blocked",
    "datagram",
    "delay",
    "delivery",
    "drain",
    "draining",
    "early_write",
    "ecn",
    "ecn_state_updated",
    "error",
    "expired",
    "failed",
    "handshake",
    "handshake_complete",
    "handshake_completed",
    "handshake_confirmed",
    "handshake_done",
    "idle_timeout",
    "immediate_ack",
    "initial",
    "local",
    "loss",
    "loss_timeout",
    "loss_timer_updated",
    "mark",
    "max_data",
    "max_path_id",
    "max_stream_data",
    "max_streams",
    "metrics_updated",
    "migration_complete",
    "migration_state_updated",
    "mtu_updated",
    "new_connection_id",
    "new_token",
    "pacing",
    "packet_buffered",
    "packet_dropped",
    "packet_lost",
    "packet_received",
    "packet_sent",
    "padding",
    "parameters_restored",
    "parameters_set",
    "path_abandon",
    "path_ack",
    "path_challenge",
    "path_cids_blocked",
    "path_new_connection_id",
    "path_response",
    "path_retire_connection_id",
    "path_status_available",
    "path_status_backup",
    "paths_blocked",
    "peer_validated",
    "persistent_congestion",
    "ping",
    "plateau",
    "probe_bw_cruise",
    "probe_bw_down",
    "probe_bw_refill",
    "probe_bw_up",
    "probe_rtt",
    "probing_abandoned",
    "probing_started",
    "probing_successful",
    "pto",
    "pto_expired",
    "recovery",
    "recovery_metrics_updated",
    "remote",
    "reordering_threshold",
    "reset_stream",
    "retire_connection_id",
    "retry",
    "set",
    "slow_start",
    "spurious_loss",
    "spurious_loss_detected",
    "start_exited",
    "startup",
    "stateless_reset",
    "stop_sending",
    "stream",
    "stream_data_blocked",
    "stream_flow_control",
    "streams_blocked",
    "testing",
    "threshold",
    "time_threshold",
    "timer_updated",
    "unblocked",
    "unidirectional",
    "unknown",
    "version_mismatch",
    "version_negotiation",
    "withdrawn",
];

/// Numbers of our configuration that are kept; its rules are kept if they are rules.
const OWN: &[&str] = &["initial_window", "initial_rtt", "send_window", "max_datagram", "max_rate"];
/// Objects in objects deeper than this are no qlog.
const DEEPEST: u32 = 12;
/// So many traces and connections of a file are told apart.
const TOLD_APART: usize = 64;

/// Writes a redacted log to `out`, as a JSON text sequence; returns how many events are in it. `open` opens the log,
/// which is read twice: documents may tell what they are behind their events.
///
/// # Errors
/// Errors of reading and writing, and `InvalidData` if it is no log.
pub fn redact<R: BufRead>(open: impl Fn() -> io::Result<R>, out: impl Write) -> io::Result<u64> {
    let mut headers: Vec<Header> = Vec::new();
    read(open()?, &mut |item| match item {
        Item::Header(header) if headers.len() < TOLD_APART => headers.push(header),
        Item::HeaderAgain(header) => {
            if let Some(last) = headers.last_mut() {
                *last = header;
            }
        }
        _ => {}
    })?;
    let mut writer = Redactor { out, headers, at: 0, connections: Vec::new(), events: 0, is_open: false, error: None };
    read(open()?, &mut |item| writer.item(item))?;
    writer.finish()
}

struct Redactor<W> {
    out: W,
    headers: Vec<Header>,
    /// Traces so far.
    at: usize,
    /// Names of connections, in the order of their appearance; a number stands for each.
    connections: Vec<String>,
    events: u64,
    /// Whether a record has not been ended yet.
    is_open: bool,
    error: Option<io::Error>,
}

impl<W: Write> Redactor<W> {
    fn item(&mut self, item: Item) {
        match item {
            Item::Header(_) => {
                let header = self.header(self.at);
                self.at += 1;
                self.record(&header.to_string());
            }
            Item::Event(event) => {
                self.events += 1;
                let event = self.event(&event);
                self.record(&event.to_string());
            }
            Item::Damaged => self.record("unreadable"),
            // The last record stays open.
            Item::Truncated => self.is_open = false,
            Item::HeaderAgain(_) => {}
        }
    }

    fn record(&mut self, text: &str) {
        let end = if core::mem::replace(&mut self.is_open, true) { "\n" } else { "" };
        if self.error.is_none() {
            self.error = write!(self.out, "{end}\u{1e}{text}").err();
        }
    }

    fn finish(mut self) -> io::Result<u64> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.is_open {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()?;
        Ok(self.events)
    }

    fn header(&self, at: usize) -> Value {
        let empty = Header::default();
        let header = self.headers.get(at).unwrap_or(&empty);
        // The same header once more is a record that was told twice.
        let number = self.headers.iter().position(|other| other == header).unwrap_or(at);
        let ends = ["client", "server", "network"];
        let point = ends.iter().find(|end| header.vantage_point.as_deref() == Some(end)).unwrap_or(&"unknown");
        let mut trace = json!({
            "vantage_point": { "type": point },
            "common_fields": { "group_id": number.to_string() },
        });
        if let Some(own) = header.own.as_ref().map(own) {
            trace["thalweg"] = own;
        }
        json!({ "file_schema": "urn:ietf:params:qlog:file:sequential", "title": "redacted", "trace": trace })
    }

    fn event(&mut self, event: &Event) -> Value {
        let name = if WORDS.contains(&event.name.as_str()) { &event.name } else { "other" };
        let mut record = json!({ "time": event.time, "name": name });
        let data = kept(&event.data, 0).unwrap_or_else(|| json!({}));
        record["data"] = data;
        if let Some(connection) = &event.connection {
            let known = self.connections.iter().position(|other| other == connection);
            let number = known.unwrap_or(self.connections.len());
            if known.is_none() && number < TOLD_APART {
                self.connections.push(connection.clone());
            }
            record["group_id"] = number.to_string().into();
        }
        record
    }
}

/// Of our configuration, the rules and the numbers.
fn own(own: &Value) -> Value {
    let mut kept = Map::new();
    let policies = own.get("policies").and_then(Value::as_str).and_then(|text| text.parse::<Policies>().ok());
    if let Some(policies) = policies {
        kept.insert("policies".to_owned(), policies.to_string().into());
    }
    for key in OWN {
        if let Some(number) = own.get(*key).filter(|value| value.is_number()) {
            kept.insert((*key).to_owned(), number.clone());
        }
    }
    Value::Object(kept)
}

/// What may be kept of a value.
fn kept(value: &Value, depth: u32) -> Option<Value> {
    match value {
        _ if depth > DEEPEST => None,
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
        // Some stacks write numbers as text.
        Value::String(text) => match text.parse::<u64>() {
            Ok(number) => Some(number.into()),
            Err(_) => {
                let is_type = ["1rtt", "0rtt"].contains(&text.as_str());
                (is_type || WORDS.contains(&text.as_str())).then(|| value.clone())
            }
        },
        // What is left out keeps its place: an acknowledged range is a list of its ends.
        Value::Array(list) => Some(list.iter().filter_map(|value| kept(value, depth + 1)).collect()),
        Value::Object(object) => {
            let known = object.iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
            Some(Value::Object(known.filter_map(|(key, value)| Some((key.clone(), kept(value, depth + 1)?))).collect()))
        }
        Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut out = Vec::new();
        redact(|| Ok(text.as_bytes()), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_that_names_somebody_is_left_wherever_it_stands() {
        let secret = "5ecre7";
        let mut text = format!(
            "{{\"trace\":{{\"title\":\"{secret}\",\"vantage_point\":{{\"type\":\"{secret}\",\"name\":\"{secret}\"}},\
             \"thalweg\":{{\"policies\":\"{secret}\",\"max_rate\":\"{secret}\",\"initial_window\":12000,\
             \"{secret}\":1}},\"common_fields\":{{\"ODCID\":\"{secret}\",\"group_id\":\"{secret}\"}}}},\
             \"qlog_format\":\"NDJSON\",\"title\":\"{secret}\"}}\n"
        );
        for key in KEYS.iter().chain(&["data", "token", "dcid", "scid", "connection_id", "ip_v4", "server_name"]) {
            for value in [format!("\"{secret}\""), format!("[\"{secret}\"]"), format!("{{\"{secret}\":1}}")] {
                text.push_str(&format!(
                    "{{\"time\":1,\"name\":\"{secret}\",\"group_id\":\"{secret}\",\"data\":{{\"{key}\":{value}}}}}\n"
                ));
            }
        }
        let out = redacted(&text);
        assert!(!out.contains(secret), "{out}");
        assert_eq!(out.lines().count(), text.lines().count());
        assert!(out.contains("12000"));
    }

    #[test]
    fn events_of_several_connections_stay_apart() {
        let text = "{\"qlog_format\":\"NDJSON\",\"trace\":{}}\n\
                    {\"time\":1,\"name\":\"quic:packet_sent\",\"group_id\":\"aa\",\"data\":{}}\n\
                    {\"time\":2,\"name\":\"quic:packet_sent\",\"group_id\":\"bb\",\"data\":{\"packet_number\":\"7\"}}\n";
        let out = redacted(text);
        assert!(out.contains("\"group_id\":\"0\"") && out.contains("\"group_id\":\"1\""), "{out}");
        assert!(out.contains("\"packet_number\":7") && out.ends_with('\n'), "{out}");
    }

    #[test]
    fn damage_and_the_missing_end_stay_in_their_places() {
        let text = "\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":1,\"name\":\"packet_sent\",\"data\":{}}\n\u{1e}{\"ti\0\n\
                    \u{1e}{\"time\":2,\"name\":\"packet_sent\",\"data\":{}}\n\u{1e}{\"time\":3,\"na";
        let told = |text: &str| {
            let mut told = Vec::new();
            read(text.as_bytes(), &mut |item| told.push(core::mem::discriminant(&item))).unwrap();
            told
        };
        assert_eq!(told(&redacted(text)), told(text));
    }
}
