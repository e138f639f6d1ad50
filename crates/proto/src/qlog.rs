//! Writes a connection's events as a sequential qlog file, one JSON record per event, as they happen.
//!
//! Follows draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events (set 14), serialised as JSON text
//! sequences (RFC 7464): a record separator before, a line feed after each record, so that a trace that ends in the
//! middle of a transfer can be read to its last whole line. The header has an object `thalweg` beside the fields of
//! the drafts: the policies and limits that this end was configured with. What the drafts have no event for is written
//! under the `thalweg:` names of `thalweg_recovery::qlog`.
//!
//! Steady state allocates nothing: every record is built in a string that is used again. A write error ends the trace
//! and is kept for [`QlogWriter::error`]; it never reaches the connection.

mod data;
mod frames;
mod json;

use std::io;

use thalweg_recovery::{PathId, SpaceId};
use thalweg_units::Instant;

use self::data::{
    blocked_reason, chosen_alpn, closed, configuration, endpoint, key_type, key_updated, packet, parameters,
    side_label, started, state_updated, unread,
};
use self::json::{hex, put, string};
use crate::Side;
use crate::observe::{
    ConnectionState, Limit, ObservedConnection, Observer, ObserverEvent, Owner, PacketKind, PathState,
};

/// RFC 7464: what stands before each record.
pub const RECORD_SEPARATOR: char = '\u{1e}';

/// The event schema that the names here follow; with the draft's number until there is an RFC.
pub const EVENT_SCHEMA: &str = "urn:ietf:params:qlog:events:quic-14";

/// Our own events, beside the drafts' ones.
pub const OWN_SCHEMA: &str = "urn:thalweg:qlog:events:recovery-1";

/// The file name that other stacks use too: `<ODCID>_<client|server>.sqlog`.
pub fn file_name(connection: &ObservedConnection<'_>) -> String {
    let mut name = String::with_capacity(64);
    hex(&mut name, connection.original_destination_cid);
    name.push('_');
    name.push_str(side_label(connection.side));
    name.push_str(".sqlog");
    name
}

/// An [`Observer`] that writes each event to `W` at once. Give it a buffered writer; it is flushed when the connection
/// closes and when the observer is dropped.
#[derive(Debug)]
pub struct QlogWriter<W: io::Write + Send> {
    out: W,
    side: Side,
    start: Instant,
    state: Option<ConnectionState>,
    limit: Option<Limit>,
    record: String,
    data: String,
    error: Option<io::Error>,
}

impl<W: io::Write + Send> QlogWriter<W> {
    /// Writes the header. `wall_clock` is when the connection started, in the form of RFC 3339, for people to find it
    /// by; the trace's own times are relative to `connection.start`.
    ///
    /// # Errors
    ///
    /// Whatever writing to `out` gives.
    pub fn new(mut out: W, connection: &ObservedConnection<'_>, wall_clock: Option<&str>) -> io::Result<Self> {
        let mut record = String::with_capacity(1024);
        record.push(RECORD_SEPARATOR);
        record.push_str(concat!(
            r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","#,
            r#""serialization_format":"application/qlog+json-seq","#,
            r#""title":"thalweg qlog","code_version":""#,
            env!("CARGO_PKG_VERSION"),
            r#"","trace":{"event_schemas":[""#,
        ));
        record.push_str(EVENT_SCHEMA);
        record.push_str("\",\"");
        record.push_str(OWN_SCHEMA);
        record.push_str(r#""],"vantage_point":{"name":"thalweg","type":""#);
        record.push_str(side_label(connection.side));
        record.push_str(r#""},"thalweg":"#);
        configuration(&mut record, connection.transport);
        record.push_str(r#","common_fields":{"group_id":""#);
        hex(&mut record, connection.original_destination_cid);
        record.push_str(r#"","ODCID":""#);
        hex(&mut record, connection.original_destination_cid);
        record.push_str(
            r#"","time_format":"relative_to_epoch","reference_time":{"clock_type":"monotonic","epoch":"unknown""#,
        );
        if let Some(wall_clock) = wall_clock {
            record.push_str(r#","wall_clock_time":"#);
            string(&mut record, wall_clock);
        }
        // Not in the drafts any more, but viewers for older files look for the last two.
        record.push_str("}}},\"qlog_format\":\"JSON-SEQ\",\"qlog_version\":\"0.3\"}\n");
        out.write_all(record.as_bytes())?;
        Ok(QlogWriter {
            out,
            side: connection.side,
            start: connection.start,
            state: None,
            limit: None,
            record,
            data: String::with_capacity(1024),
            error: None,
        })
    }

    /// What stopped the trace, if anything did.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes one record with `self.data` as its data.
    fn emit(&mut self, now: Instant, path: Option<PathId>, name: &str) {
        if self.error.is_some() {
            return;
        }
        let nanos = now.as_nanos().saturating_sub(self.start.as_nanos());
        let record = &mut self.record;
        record.clear();
        record.push(RECORD_SEPARATOR);
        put(record, format_args!(r#"{{"time":{}.{:06}"#, nanos / 1_000_000, nanos % 1_000_000));
        if let Some(PathId(path @ 1..)) = path {
            put(record, format_args!(r#","tuple":"{path}""#));
        }
        put(record, format_args!(r#","name":"{name}","data":"#));
        record.push_str(&self.data);
        record.push_str("}\n");
        if let Err(error) = self.out.write_all(record.as_bytes()) {
            self.error = Some(error);
        }
    }

    /// Both directions' keys of a kind have gone at once; the drafts want a record for each key.
    fn keys_discarded(&mut self, now: Instant, kind: PacketKind) {
        for side in [Side::Client, Side::Server] {
            self.data.clear();
            self.data.push('{');
            key_type(&mut self.data, side, kind);
            self.data.push('}');
            self.emit(now, None, "quic:key_discarded");
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            self.error.get_or_insert(error);
        }
    }
}

impl<W: io::Write + Send> Drop for QlogWriter<W> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl<W: io::Write + Send> Observer for QlogWriter<W> {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        self.data.clear();
        let data = &mut self.data;
        let mut path = None;
        let name = match *event {
            ObserverEvent::ConnectionStarted { local, remote, local_cid, remote_cid, version } => {
                started(data, (local, local_cid), (remote, remote_cid), version);
                "quic:connection_started"
            }
            ObserverEvent::StateUpdated(new) => {
                state_updated(data, self.state.replace(new), new);
                "quic:connection_state_updated"
            }
            ObserverEvent::ConnectionClosed { by, trigger, application, code, reason } => {
                closed(data, by, trigger, application, code, reason);
                "quic:connection_closed"
            }
            ObserverEvent::VersionNegotiated { chosen, original } => {
                put(data, format_args!(r#"{{"client_versions":["{original:08x}"],"chosen_version":"{chosen:08x}"}}"#));
                "quic:version_information"
            }
            ObserverEvent::AlpnSet { alpn } => {
                chosen_alpn(data, alpn);
                "quic:alpn_information"
            }
            ObserverEvent::ParametersSet { owner, values, restored } => {
                parameters(data, owner, values);
                if restored { "quic:parameters_restored" } else { "quic:parameters_set" }
            }
            ObserverEvent::PacketSent(ref info) => {
                packet(data, info);
                path = Some(info.path);
                "quic:packet_sent"
            }
            ObserverEvent::PacketReceived(ref info) => {
                packet(data, info);
                path = Some(info.path);
                "quic:packet_received"
            }
            ObserverEvent::PacketDropped { kind, number, size, reason } => {
                unread(data, kind.map_or("unknown", PacketKind::label), number, size, reason.label());
                "quic:packet_dropped"
            }
            ObserverEvent::PacketBuffered { kind, size } => {
                unread(data, kind.label(), None, size, "keys_unavailable");
                "quic:packet_buffered"
            }
            ObserverEvent::KeyUpdated { kind, owner, generation, trigger } => {
                let side = if owner == Owner::Local { self.side } else { self.side.peer() };
                key_updated(data, side, kind, generation, trigger);
                "quic:key_updated"
            }
            ObserverEvent::KeyDiscarded { kind } => {
                return self.keys_discarded(now, kind);
            }
            ObserverEvent::MtuUpdated { path: on, old, new, done } => {
                path = Some(on);
                put(data, format_args!(r#"{{"old":{old},"new":{new},"done":{done}}}"#));
                "quic:mtu_updated"
            }
            ObserverEvent::PathUpdated { path: on, state, remote } => {
                path = Some(on);
                if state == PathState::Probing {
                    put(data, format_args!(r#"{{"tuple_id":"{}","tuple_remote":"#, on.0));
                    endpoint(data, Some(remote), None);
                    data.push('}');
                    self.emit(now, path, "quic:tuple_assigned");
                    self.data.clear();
                }
                let data = &mut self.data;
                put(data, format_args!(r#"{{"new":"{}","tuple_id":"{}","tuple_remote":"#, state.label(), on.0));
                endpoint(data, Some(remote), None);
                data.push('}');
                "quic:migration_state_updated"
            }
            ObserverEvent::Recovery { path: on, event } => {
                path = Some(on);
                match thalweg_recovery::qlog::write(event, data) {
                    Some(name) => name,
                    None => return,
                }
            }
            ObserverEvent::LimitedBy { path: on, limit } => {
                path = Some(on);
                let old = self.limit.replace(limit);
                data.push('{');
                if old.is_some() {
                    data.push_str(r#""old":"blocked","#);
                }
                put(data, format_args!(r#""new":"blocked","reason":"{}"}}"#, blocked_reason(limit)));
                "quic:connection_data_blocked_updated"
            }
        };
        self.emit(now, path, name);
        if matches!(event, ObserverEvent::ConnectionClosed { .. }) {
            self.flush();
        }
    }
}

/// The name of a packet-number space in the drafts; for whoever writes recovery events.
pub fn space_label(space: SpaceId) -> &'static str {
    match space {
        SpaceId::Initial => "initial",
        SpaceId::Handshake => "handshake",
        SpaceId::Data(_) => "application_data",
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::OnceLock;

    use qlog::events::EventData;
    use qlog::events::quic as schema;
    use qlog::reader::{Event, QlogSeqReader};
    use thalweg_recovery::{Ecn, Policies};

    use super::*;
    use crate::config::TransportConfig;
    use crate::observe::{CloseTrigger, DropReason, FrameInfo, KeyTrigger, PacketInfo, ParameterValues, kept_ranges};

    static TRANSPORT: OnceLock<TransportConfig> = OnceLock::new();
    const ODCID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    fn connection() -> ObservedConnection<'static> {
        ObservedConnection {
            side: Side::Client,
            original_destination_cid: &ODCID,
            remote: SocketAddr::from(([127, 0, 0, 1], 4433)),
            start: Instant::from_nanos(5_000_000_000),
            transport: TRANSPORT.get_or_init(TransportConfig::default),
        }
    }

    fn written(events: &[ObserverEvent<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = QlogWriter::new(&mut out, &connection(), Some("2026-11-20T19:00:00Z")).unwrap();
        for (index, event) in events.iter().enumerate() {
            writer.on_event(Instant::from_nanos(5_000_000_000 + 1_500_000 * index as u64), event);
        }
        assert!(writer.error().is_none());
        drop(writer);
        out
    }

    /// Every record as the `qlog` crate understands it; records that its types do not know come back as plain JSON.
    fn read_back(bytes: &[u8]) -> (qlog::QlogSeq, Vec<Event>) {
        let reader = QlogSeqReader::new(Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
        let header = reader.qlog.clone();
        (header, reader.collect())
    }

    fn data_of(events: &[ObserverEvent<'_>]) -> Vec<EventData> {
        let (_, read) = read_back(&written(events));
        read.into_iter()
            .map(|event| match event {
                Event::Qlog(event) => event.data,
                Event::Json(event) => panic!("the qlog crate does not know {event:?}"),
            })
            .collect()
    }

    fn one_rtt<'a>(number: u64, frames: &'a [FrameInfo]) -> PacketInfo<'a> {
        PacketInfo {
            kind: PacketKind::OneRtt,
            number: Some(number),
            size: 1452,
            ecn: Ecn::Ect0,
            path: PathId(0),
            space: thalweg_recovery::DataSpace::FIRST,
            frames,
        }
    }

    #[test]
    fn the_header_says_what_the_draft_wants() {
        let bytes = written(&[]);
        let (header, _) = read_back(&[&bytes[..], "\u{1e}".as_bytes()].concat());
        assert_eq!(header.file_schema, "urn:ietf:params:qlog:file:sequential");
        assert_eq!(header.serialization_format, "application/qlog+json-seq");
        assert_eq!(header.trace.event_schemas[0], EVENT_SCHEMA);
        let common = header.trace.common_fields.unwrap();
        assert_eq!(common.group_id.as_deref(), Some("8394c8f03e515708"));
        assert_eq!(common.reference_time.clock_type, "monotonic");
        assert_eq!(common.reference_time.epoch, "unknown");
        assert_eq!(common.reference_time.wall_clock_time.as_deref(), Some("2026-11-20T19:00:00Z"));
        assert_eq!(header.trace.vantage_point.unwrap().ty, qlog::VantagePointType::Client);
        assert_eq!(file_name(&connection()), "8394c8f03e515708_client.sqlog");
    }

    #[test]
    fn the_header_says_by_which_rules_we_send() {
        let bytes = written(&[]);
        let text = std::str::from_utf8(&bytes).unwrap().trim_start_matches(RECORD_SEPARATOR);
        let header: serde_json::Value = serde_json::from_str(text).unwrap();
        let own = &header["trace"]["thalweg"];
        let policies: Policies = own["policies"].as_str().unwrap().parse().unwrap();
        assert_eq!(policies, Policies::default());
        assert_eq!(own["initial_window"], 12_000);
        assert_eq!(own["initial_rtt"], 333.0);
        assert_eq!(own["send_window"], 256 << 20);
        assert!(own.get("max_rate").is_none(), "none is set");
    }

    #[test]
    fn each_record_is_one_line_between_separator_and_line_feed() {
        let bytes = written(&[
            ObserverEvent::StateUpdated(ConnectionState::Attempted),
            ObserverEvent::ConnectionClosed {
                by: Owner::Remote,
                trigger: CloseTrigger::Error,
                application: false,
                code: 0x0a,
                reason: "line one\nline \"two\" \u{1e}\\",
            },
        ]);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let json = line.strip_prefix(RECORD_SEPARATOR).unwrap();
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert!(value.is_object());
            assert!(!json.contains(RECORD_SEPARATOR), "what a peer says cannot end a record");
        }
        assert!(text.ends_with('\n'));
        assert!(text.contains(r#""time":1.500000"#), "relative to the start, in milliseconds: {text}");
    }

    #[test]
    fn packets_and_every_frame_are_read_back() {
        let frames = [
            FrameInfo::Padding { len: 7 },
            FrameInfo::Ping,
            FrameInfo::Ack {
                delay_us: 1025,
                range_count: 2,
                ranges: kept_ranges([(8, 9), (5, 5)]),
                ecn: Some([10, 0, 1]),
                timestamps: 7,
                path: None,
            },
            FrameInfo::ResetStream { id: 4, code: 7, final_size: 100 },
            FrameInfo::StopSending { id: 4, code: 7 },
            FrameInfo::Crypto { offset: 0, len: 300 },
            FrameInfo::NewToken { len: 60 },
            FrameInfo::Stream { id: 0, offset: 1200, len: 1000, fin: true },
            FrameInfo::MaxData { max: 1 << 26 },
            FrameInfo::MaxStreamData { id: 0, max: 1 << 24 },
            FrameInfo::MaxStreams { bidi: true, max: 100 },
            FrameInfo::DataBlocked { limit: 5 },
            FrameInfo::StreamDataBlocked { id: 0, limit: 5 },
            FrameInfo::StreamsBlocked { bidi: false, limit: 5 },
            FrameInfo::NewConnectionId { sequence: 1, retire_prior_to: 0 },
            FrameInfo::RetireConnectionId { sequence: 0 },
            FrameInfo::PathChallenge,
            FrameInfo::PathResponse,
            FrameInfo::ConnectionClose { application: false, code: 0x0a },
            FrameInfo::ConnectionClose { application: true, code: 0x100 },
            FrameInfo::HandshakeDone,
            FrameInfo::Datagram { len: 100 },
        ];
        let data = data_of(&[
            ObserverEvent::PacketSent(one_rtt(7, &frames)),
            ObserverEvent::PacketReceived(one_rtt(8, &frames)),
        ]);
        let EventData::QuicPacketSent(sent) = &data[0] else { panic!("{data:?}") };
        assert_eq!(sent.header.packet_type, schema::PacketType::OneRtt);
        assert_eq!(sent.header.packet_number, Some(7));
        assert_eq!(sent.raw.as_ref().unwrap().length, Some(1452));
        let read = sent.frames.as_ref().unwrap();
        assert_eq!(read.len(), frames.len());
        let schema::QuicFrame::Ack { ack_delay, acked_ranges, ce, .. } = &read[2] else { panic!("{read:?}") };
        assert_eq!(*ack_delay, Some(1.025));
        assert_eq!(*acked_ranges, Some(vec![schema::AckRange::new(8, 9), schema::AckRange::new(5, 5)]));
        assert_eq!(*ce, Some(1));
        let schema::QuicFrame::Stream { stream_id: 0, offset: Some(1200), fin: Some(true), raw } = &read[7] else {
            panic!("{read:?}")
        };
        assert_eq!(raw.as_ref().unwrap().payload_length, Some(1000));
        assert!(matches!(&data[1], EventData::QuicPacketReceived(_)));
    }

    #[test]
    fn the_life_of_a_connection_is_read_back() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4433));
        let values = ParameterValues {
            max_idle_timeout_ms: 30_000,
            initial_max_data: 1 << 26,
            max_datagram_frame_size: Some(65_535),
            min_ack_delay_us: Some(1000),
            max_receive_timestamps_per_ack: Some(64),
            ..ParameterValues::default()
        };
        let data = data_of(&[
            ObserverEvent::ConnectionStarted {
                local: None,
                remote: address,
                local_cid: &[1, 2, 3],
                remote_cid: &ODCID,
                version: 1,
            },
            ObserverEvent::StateUpdated(ConnectionState::Attempted),
            ObserverEvent::StateUpdated(ConnectionState::HandshakeConfirmed),
            ObserverEvent::VersionNegotiated { chosen: 0x6b33_43cf, original: 1 },
            ObserverEvent::AlpnSet { alpn: b"h3" },
            ObserverEvent::ParametersSet { owner: Owner::Remote, values: &values, restored: false },
            ObserverEvent::PacketBuffered { kind: PacketKind::Handshake, size: 800 },
            ObserverEvent::KeyUpdated {
                kind: PacketKind::OneRtt,
                owner: Owner::Remote,
                generation: 1,
                trigger: KeyTrigger::RemoteUpdate,
            },
            ObserverEvent::MtuUpdated { path: PathId(0), old: 1200, new: 1452, done: true },
            ObserverEvent::PathUpdated { path: PathId(1), state: PathState::Probing, remote: address },
            ObserverEvent::PathUpdated { path: PathId(1), state: PathState::Active, remote: address },
            ObserverEvent::LimitedBy { path: PathId(0), limit: Limit::Window },
            ObserverEvent::LimitedBy { path: PathId(0), limit: Limit::Application },
            ObserverEvent::ConnectionClosed {
                by: Owner::Local,
                trigger: CloseTrigger::Application,
                application: true,
                code: 0x100,
                reason: "",
            },
        ]);
        assert_eq!(data.len(), 15, "two for a new path");
        let EventData::QuicParametersSet(set) = &data[5] else { panic!("{:?}", data[5]) };
        assert_eq!(set.initial_max_data, Some(1 << 26));
        assert_eq!(set.unknown_parameters[0].id, 0xff04_de1b);
        let EventData::QuicKeyUpdated(key) = &data[7] else { panic!("{:?}", data[7]) };
        assert_eq!(key.key_type, schema::KeyType::Server1RttSecret);
        assert_eq!(key.key_phase, Some(1));
        let EventData::QuicConnectionClosed(closed) = &data[14] else { panic!("{:?}", data[14]) };
        assert_eq!(closed.error_code, Some(0x100));
        assert_eq!(closed.trigger, Some(schema::ConnectionClosedTrigger::Application));
    }

    #[test]
    fn a_dropped_packet_keeps_its_reason() {
        let bytes = written(&[
            ObserverEvent::PacketDropped {
                kind: Some(PacketKind::OneRtt),
                number: None,
                size: 50,
                reason: DropReason::DecryptionFailure,
            },
            // In the current draft, but not among the crate's triggers.
            ObserverEvent::PacketDropped { kind: None, number: None, size: 50, reason: DropReason::Duplicate },
        ]);
        let (_, read) = read_back(&bytes);
        assert_eq!(read.len(), 2);
        assert!(matches!(&read[0], Event::Qlog(event)
            if matches!(event.data, EventData::QuicPacketDropped(_))));
    }

    /// Names of the current draft that the crate spells as an older one did: read back as plain JSON.
    #[test]
    fn what_the_crate_has_under_older_names_is_still_well_formed() {
        let frames = [FrameInfo::ConnectionClose { application: false, code: 0x128 }];
        let (_, read) = read_back(&written(&[
            ObserverEvent::KeyDiscarded { kind: PacketKind::Initial },
            ObserverEvent::PacketSent(one_rtt(1, &frames)),
            ObserverEvent::StateUpdated(ConnectionState::HandshakeComplete),
        ]));
        let names: Vec<_> = read
            .iter()
            .map(|event| match event {
                Event::Json(event) => (event.name.as_str(), event.data.to_string()),
                Event::Qlog(event) => panic!("{event:?}"),
            })
            .collect();
        assert_eq!(names[0].1, r#"{"key_type":"client_initial_secret"}"#);
        assert_eq!(names[1].1, r#"{"key_type":"server_initial_secret"}"#);
        assert!(names[2].1.contains("crypto_error_0x128"));
        assert!(names[3].1.contains("handshake_complete"));
    }

    #[test]
    fn decisions_of_recovery_are_read_back() {
        use thalweg_recovery::LossTrigger;
        use thalweg_recovery::trace::{Event as Decision, State};
        let lost =
            Decision::PacketLost { space: SpaceId::DATA, number: 9, size: 1452, trigger: LossTrigger::PacketThreshold };
        let state = Decision::CongestionState { old: State::SlowStart, new: State::CongestionAvoidance };
        let path = PathId(0);
        let data =
            data_of(&[ObserverEvent::Recovery { path, event: &lost }, ObserverEvent::Recovery { path, event: &state }]);
        let EventData::QuicPacketLost(read) = &data[0] else { panic!("{data:?}") };
        assert_eq!(read.trigger, Some(schema::PacketLostTrigger::ReorderingThreshold));
        assert_eq!(read.header.as_ref().unwrap().packet_number, Some(9));
        let EventData::QuicCongestionStateUpdated(read) = &data[1] else { panic!("{data:?}") };
        assert_eq!(read.new, "congestion_avoidance");
    }

    #[test]
    fn a_write_error_ends_the_trace_and_not_the_connection() {
        #[derive(Debug)]
        struct Full(usize);
        impl io::Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 > 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = QlogWriter::new(Full(0), &connection(), None).unwrap();
        for _ in 0..3 {
            writer.on_event(Instant::from_nanos(6_000_000_000), &ObserverEvent::StateUpdated(ConnectionState::Closed));
        }
        assert_eq!(writer.error().unwrap().kind(), io::ErrorKind::StorageFull);
        assert_eq!(writer.out.0, 2, "nothing is tried after the error");
    }
}
