//! Transport parameters (RFC 9000 sections 7.3, 7.4 and 18; RFC 9221, 9287, 9368; draft-ietf-quic-ack-frequency,
//! -receive-ts, -multipath): coding and every validity rule.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use rand_core::Rng;
use smallvec::SmallVec;

use crate::Side;
use crate::cid::{ConnectionId, ResetToken};
use crate::error::TransportError;
use crate::varint::{self, Reader};
use crate::version::Version;

mod id {
    pub const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub const INITIAL_MAX_DATA: u64 = 0x04;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    pub const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub const PREFERRED_ADDRESS: u64 = 0x0d;
    pub const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    pub const VERSION_INFORMATION: u64 = 0x11;
    pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub const INITIAL_MAX_PATH_ID: u64 = 0x3e;
    pub const GREASE_QUIC_BIT: u64 = 0x2ab2;
    pub const MIN_ACK_DELAY: u64 = 0xff04_de1b;
    pub const MAX_RECEIVE_TIMESTAMPS_PER_ACK: u64 = 0x4_ac07;
    pub const RECEIVE_TIMESTAMPS_EXPONENT: u64 = 0x4_ac26;
}

/// The most bytes of padding: a ClientHello stays below the limit for what clients may send unproven.
const MAX_PADDING: u16 = 8000;
/// The parameter that carries padding: reserved, of the form 31 * N + 27, with an N that fits no random one.
const PADDING: u64 = 31 * (1 << 32) + 27;

/// The most versions of a version_information parameter that are kept; a peer that lists more has the rest ignored.
const MAX_VERSIONS_KEPT: usize = 64;

/// The parameters that one end sends to the other in the handshake. Absent parameters have the defaults of RFC 9000
/// section 18.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportParameters {
    /// The destination ID of the client's very first Initial. Servers only; required of them.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// After how much silence the connection is closed; `None` or zero for never. Sent in whole milliseconds.
    pub max_idle_timeout: Option<Duration>,
    /// The token of the first ID. Servers only.
    pub stateless_reset_token: Option<ResetToken>,
    /// The largest UDP payload the sender of the parameters wants to receive, in bytes; at least 1200.
    pub max_udp_payload_size: u64,
    /// Bytes that may be sent over all streams.
    pub initial_max_data: u64,
    /// Bytes on each bidirectional stream opened by the sender of the parameters.
    pub initial_max_stream_data_bidi_local: u64,
    /// Bytes on each bidirectional stream opened by the receiver of the parameters.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Bytes on each unidirectional stream opened by the receiver of the parameters.
    pub initial_max_stream_data_uni: u64,
    /// Bidirectional streams that the receiver of the parameters may open.
    pub initial_max_streams_bidi: u64,
    /// Unidirectional streams that the receiver of the parameters may open.
    pub initial_max_streams_uni: u64,
    /// By how many bits the ACK Delay field is shifted; at most 20.
    pub ack_delay_exponent: u8,
    /// By how much acknowledgments may be delayed; below 2^14 ms. Sent in whole milliseconds.
    pub max_ack_delay: Duration,
    /// Whether migration during the connection is refused (other than to the preferred address).
    pub disable_active_migration: bool,
    /// Another address of the server. Servers only.
    pub preferred_address: Option<PreferredAddress>,
    /// How many of the peer's IDs are kept; at least 2.
    pub active_connection_id_limit: u64,
    /// The source ID of the sender's first Initial. Required.
    pub initial_source_connection_id: Option<ConnectionId>,
    /// The source ID of the server's Retry. Servers only; required of them after a Retry.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// The largest DATAGRAM frame, type and length included, that is accepted, in bytes; 0 for none (RFC 9221 section
    /// 3).
    pub max_datagram_frame_size: u64,
    /// Versions in use and available (RFC 9368 section 3).
    pub version_information: Option<VersionInformation>,
    /// The least max_ack_delay that may be asked for in an ACK_FREQUENCY frame; `None` if these frames are not
    /// understood. Sent in whole microseconds.
    pub min_ack_delay: Option<Duration>,
    /// How many timestamps an ACK may carry; 0 for none (draft-ietf-quic-receive-ts).
    pub max_receive_timestamps_per_ack: u64,
    /// In which units these timestamps are to come: 2 to the power of this, in microseconds; at most 20.
    pub receive_timestamps_exponent: u8,
    /// The largest path identifier that the peer may use at first, at most 2^32 - 1; `None` for a connection without
    /// several paths at once (draft-ietf-quic-multipath-21 section 2.1).
    pub initial_max_path_id: Option<u32>,
    /// Whether packets with a cleared "QUIC bit" are accepted (RFC 9287 section 3).
    pub grease_quic_bit: bool,
}

impl Default for TransportParameters {
    fn default() -> TransportParameters {
        TransportParameters {
            original_destination_connection_id: None,
            max_idle_timeout: None,
            stateless_reset_token: None,
            max_udp_payload_size: 65_527,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay: Duration::from_millis(25),
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: 2,
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            max_datagram_frame_size: 0,
            version_information: None,
            min_ack_delay: None,
            max_receive_timestamps_per_ack: 0,
            receive_timestamps_exponent: 0,
            initial_max_path_id: None,
            grease_quic_bit: false,
        }
    }
}

/// The preferred_address parameter (RFC 9000 section 18.2). The ID has sequence number 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// The IPv4 address, if there is one.
    pub v4: Option<SocketAddrV4>,
    /// The IPv6 address, if there is one.
    pub v6: Option<SocketAddrV6>,
    /// The ID to use towards that address; 1 to 20 bytes.
    pub cid: ConnectionId,
    /// The ID's stateless reset token.
    pub reset_token: ResetToken,
}

/// The version_information parameter (RFC 9368 section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInformation {
    /// The version the sender of the parameter uses for the connection.
    pub chosen: Version,
    /// A client's list: what its first flight can be converted to. A server's list: all it has deployed. In order of
    /// preference.
    pub available: SmallVec<[Version; 4]>,
}

impl VersionInformation {
    /// As server: the version to continue with, given the client's information, the version of its first flight and our
    /// own order of preference (RFC 9368 section 2.3). Without a better choice the first flight's.
    pub fn select(&self, first_flight: Version, preference: &[Version]) -> Version {
        let usable = |v: &&Version| self.available.contains(v) && first_flight.is_compatible_with(**v);
        preference.iter().find(usable).copied().unwrap_or(first_flight)
    }
}

/// Checks the peer's version information against the version in use (RFC 9368 section 4).
///
/// `after_negotiation`: as client, whether a Version Negotiation packet made us choose the version. `supported`: our
/// versions in order of preference.
///
/// # Errors
/// VERSION_NEGOTIATION_ERROR: somebody meddled with the negotiation.
pub fn check_version_information(
    info: Option<&VersionInformation>,
    receiver: Side,
    in_use: Version,
    after_negotiation: bool,
    supported: &[Version],
) -> Result<(), TransportError> {
    let Some(info) = info else {
        // A peer that does not know the parameter cannot have changed versions; but after Version Negotiation it is
        // the only protection against a downgrade. Version 1 was the choice before RFC 9368 existed.
        if after_negotiation && receiver == Side::Client && in_use != Version::V1 {
            return Err(TransportError::version_negotiation("no version information after Version Negotiation"));
        }
        return Ok(());
    };
    if info.chosen != in_use {
        return Err(TransportError::version_negotiation("the peer believes that another version is in use"));
    }
    if after_negotiation && receiver == Side::Client {
        // Given the server's authentic list, would we have chosen the same version?
        let choice = supported.iter().find(|v| info.available.contains(v));
        if !choice.is_some_and(|choice| choice.is_compatible_with(in_use)) {
            return Err(TransportError::version_negotiation("Version Negotiation was a downgrade"));
        }
    }
    Ok(())
}

/// The connection IDs that the peer's parameters must repeat (RFC 9000 section 7.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ExpectedIds {
    /// The source ID of the peer's first Initial.
    pub initial_source: ConnectionId,
    /// As client: the destination ID of our first Initial. As server: `None`.
    pub original_destination: Option<ConnectionId>,
    /// As client after a Retry: its source ID. Otherwise `None`.
    pub retry_source: Option<ConnectionId>,
}

impl TransportParameters {
    // ---- writing ----

    /// Appends the parameters that differ from their default; with `grease`, also a random reserved one (RFC 9000
    /// section 18.1).
    pub fn encode(&self, out: &mut Vec<u8>, grease: Option<&mut dyn Rng>) {
        let default = TransportParameters::default();
        let mut integer = |id: u64, value: u64, default: u64| {
            if value != default {
                let value = value.min(varint::MAX);
                varint::encode(id, out);
                varint::encode(varint::len(value) as u64, out);
                varint::encode(value, out);
            }
        };
        let millis = |d: Duration| d.as_millis().min(u128::from(varint::MAX)) as u64;
        let idle = self.max_idle_timeout.filter(|timeout| !timeout.is_zero());
        integer(id::MAX_IDLE_TIMEOUT, idle.map_or(0, |t| millis(t).max(1)), 0);
        integer(id::MAX_UDP_PAYLOAD_SIZE, self.max_udp_payload_size, default.max_udp_payload_size);
        integer(id::INITIAL_MAX_DATA, self.initial_max_data, 0);
        integer(id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, self.initial_max_stream_data_bidi_local, 0);
        integer(id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, self.initial_max_stream_data_bidi_remote, 0);
        integer(id::INITIAL_MAX_STREAM_DATA_UNI, self.initial_max_stream_data_uni, 0);
        integer(id::INITIAL_MAX_STREAMS_BIDI, self.initial_max_streams_bidi, 0);
        integer(id::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni, 0);
        integer(id::ACK_DELAY_EXPONENT, self.ack_delay_exponent.into(), default.ack_delay_exponent.into());
        integer(id::MAX_ACK_DELAY, millis(self.max_ack_delay), millis(default.max_ack_delay));
        integer(id::ACTIVE_CONNECTION_ID_LIMIT, self.active_connection_id_limit, default.active_connection_id_limit);
        integer(id::MAX_DATAGRAM_FRAME_SIZE, self.max_datagram_frame_size, 0);
        if let Some(delay) = self.min_ack_delay {
            let micros = delay.as_micros().min(u128::from(varint::MAX)) as u64;
            integer(id::MIN_ACK_DELAY, micros, u64::MAX);
        }
        integer(id::MAX_RECEIVE_TIMESTAMPS_PER_ACK, self.max_receive_timestamps_per_ack, 0);
        integer(id::RECEIVE_TIMESTAMPS_EXPONENT, self.receive_timestamps_exponent.into(), 0);
        if let Some(max) = self.initial_max_path_id {
            integer(id::INITIAL_MAX_PATH_ID, max.into(), u64::MAX);
        }

        let mut bytes = |id: u64, value: &[u8]| {
            varint::encode(id, out);
            varint::encode(value.len() as u64, out);
            out.extend_from_slice(value);
        };
        if self.disable_active_migration {
            bytes(id::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if self.grease_quic_bit {
            bytes(id::GREASE_QUIC_BIT, &[]);
        }
        for (id, cid) in [
            (id::ORIGINAL_DESTINATION_CONNECTION_ID, &self.original_destination_connection_id),
            (id::INITIAL_SOURCE_CONNECTION_ID, &self.initial_source_connection_id),
            (id::RETRY_SOURCE_CONNECTION_ID, &self.retry_source_connection_id),
        ] {
            if let Some(cid) = cid {
                bytes(id, cid);
            }
        }
        if let Some(token) = &self.stateless_reset_token {
            bytes(id::STATELESS_RESET_TOKEN, &token.0);
        }
        if let Some(preferred) = &self.preferred_address {
            bytes(id::PREFERRED_ADDRESS, &preferred.encoded());
        }
        if let Some(info) = &self.version_information {
            let list: SmallVec<[u8; 32]> =
                [info.chosen].iter().chain(&info.available).flat_map(|v| v.0.to_be_bytes()).collect();
            bytes(id::VERSION_INFORMATION, &list);
        }
        if let Some(rng) = grease {
            // Identifiers of the form 31 * N + 27 are reserved.
            let reserved = 31 * u64::from(rng.next_u32()) + 27;
            let mut value = [0; 16];
            rng.fill_bytes(&mut value);
            bytes(reserved, &value[..usize::from(value[15] & 0xf)]);
        }
    }

    // ---- reading ----

    /// Reads the parameters that `sender` sent.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if they are badly formatted, appear twice, have values that RFC 9000 section 18.2 or
    /// an extension forbids, or are a server's and come from a client.
    pub fn decode(bytes: &[u8], sender: Side) -> Result<TransportParameters, TransportError> {
        let mut p = TransportParameters::default();
        let mut reader = Reader::new(bytes);
        let mut seen = 0u64;
        while !reader.is_empty() {
            let parameter = reader.varint().zip(reader.varint_bytes());
            let (id, value) = parameter.ok_or_else(|| error("transport parameters are truncated"))?;
            if let Some(bit) = p.set(id, value, sender).map_err(|what| error(format!("parameter {id:#x}: {what}")))? {
                if seen & (1 << bit) != 0 {
                    return Err(error(format!("parameter {id:#x} appears twice")));
                }
                seen |= 1 << bit;
            }
        }
        p.check_together()?;
        Ok(p)
    }

    /// Sets one parameter. Returns a number below 64 that identifies it, `None` for an unknown one, which is ignored.
    fn set(&mut self, id: u64, value: &[u8], sender: Side) -> Result<Option<u32>, &'static str> {
        let integer = || {
            let mut reader = Reader::new(value);
            reader.varint().filter(|_| reader.is_empty()).ok_or("not one integer")
        };
        let in_range = |range: std::ops::RangeInclusive<u64>, what: &'static str| {
            integer().and_then(|n| if range.contains(&n) { Ok(n) } else { Err(what) })
        };
        let streams = || in_range(0..=1 << 60, "more than 2^60 streams");
        let flag = || {
            if value.is_empty() { Ok(true) } else { Err("a flag with a value") }
        };
        let cid = || ConnectionId::new(value).ok_or("a connection ID of more than 20 bytes").map(Some);
        let server_only = || {
            if sender == Side::Server { Ok(()) } else { Err("not allowed from a client") }
        };

        match id {
            id::ORIGINAL_DESTINATION_CONNECTION_ID => {
                server_only()?;
                self.original_destination_connection_id = cid()?;
            }
            id::MAX_IDLE_TIMEOUT => {
                self.max_idle_timeout = Some(integer()?).filter(|ms| *ms > 0).map(Duration::from_millis);
            }
            id::STATELESS_RESET_TOKEN => {
                server_only()?;
                self.stateless_reset_token = Some(ResetToken(value.try_into().map_err(|_| "a token of not 16 bytes")?));
            }
            id::MAX_UDP_PAYLOAD_SIZE => self.max_udp_payload_size = in_range(1200..=varint::MAX, "below 1200 bytes")?,
            id::INITIAL_MAX_DATA => self.initial_max_data = integer()?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => self.initial_max_stream_data_bidi_local = integer()?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => self.initial_max_stream_data_bidi_remote = integer()?,
            id::INITIAL_MAX_STREAM_DATA_UNI => self.initial_max_stream_data_uni = integer()?,
            id::INITIAL_MAX_STREAMS_BIDI => self.initial_max_streams_bidi = streams()?,
            id::INITIAL_MAX_STREAMS_UNI => self.initial_max_streams_uni = streams()?,
            id::ACK_DELAY_EXPONENT => self.ack_delay_exponent = in_range(0..=20, "an exponent above 20")? as u8,
            id::MAX_ACK_DELAY => {
                let millis = in_range(0..=(1 << 14) - 1, "a delay of 2^14 ms or more")?;
                self.max_ack_delay = Duration::from_millis(millis);
            }
            id::DISABLE_ACTIVE_MIGRATION => self.disable_active_migration = flag()?,
            id::PREFERRED_ADDRESS => {
                server_only()?;
                self.preferred_address = Some(PreferredAddress::decode(value)?);
            }
            id::ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_connection_id_limit = in_range(2..=varint::MAX, "a limit below 2")?;
            }
            id::INITIAL_SOURCE_CONNECTION_ID => self.initial_source_connection_id = cid()?,
            id::RETRY_SOURCE_CONNECTION_ID => {
                server_only()?;
                self.retry_source_connection_id = cid()?;
            }
            id::MAX_DATAGRAM_FRAME_SIZE => self.max_datagram_frame_size = integer()?,
            id::VERSION_INFORMATION => self.version_information = Some(VersionInformation::decode(value, sender)?),
            id::GREASE_QUIC_BIT => self.grease_quic_bit = flag()?,
            id::MIN_ACK_DELAY => self.min_ack_delay = Some(Duration::from_micros(integer()?)),
            id::MAX_RECEIVE_TIMESTAMPS_PER_ACK => self.max_receive_timestamps_per_ack = integer()?,
            id::RECEIVE_TIMESTAMPS_EXPONENT => {
                self.receive_timestamps_exponent = in_range(0..=20, "an exponent above 20")? as u8;
            }
            id::INITIAL_MAX_PATH_ID => {
                let max = in_range(0..=u32::MAX.into(), "a path identifier above 2^32 - 1")?;
                self.initial_max_path_id = Some(max as u32);
            }
            _ => return Ok(None),
        }
        Ok(Some(match id {
            id::INITIAL_MAX_PATH_ID => 59,
            id::MAX_RECEIVE_TIMESTAMPS_PER_ACK => 60,
            id::RECEIVE_TIMESTAMPS_EXPONENT => 61,
            id::GREASE_QUIC_BIT => 62,
            id::MIN_ACK_DELAY => 63,
            low => low as u32,
        }))
    }

    /// The rules that involve two parameters.
    fn check_together(&self) -> Result<(), TransportError> {
        if self.min_ack_delay.is_some_and(|min| min > self.max_ack_delay) {
            return Err(error("min_ack_delay above max_ack_delay"));
        }
        if self.preferred_address.is_some() && self.initial_source_connection_id.is_some_and(|cid| cid.is_empty()) {
            return Err(error("a preferred address from a server with zero-length connection IDs"));
        }
        Ok(())
    }

    /// Checks that the peer saw the connection IDs that we saw, so that nobody changed them on the way (RFC 9000
    /// section 7.3).
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if one is missing, present without need, or different.
    pub fn check_ids(&self, expected: &ExpectedIds) -> Result<(), TransportError> {
        for (name, got, expected) in [
            ("initial_source_connection_id", self.initial_source_connection_id, Some(expected.initial_source)),
            (
                "original_destination_connection_id",
                self.original_destination_connection_id,
                expected.original_destination,
            ),
            ("retry_source_connection_id", self.retry_source_connection_id, expected.retry_source),
        ] {
            match (got, expected) {
                (None, Some(_)) => return Err(error(format!("{name} is missing"))),
                (Some(_), None) => {
                    return Err(error(format!("{name} is present without a reason")));
                }
                (got, expected) if got != expected => {
                    return Err(error(format!("{name} does not match")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    // ---- 0-RTT ----

    /// What a client remembers for 0-RTT with the same server; the rest is reset to its default (RFC 9000 section
    /// 7.4.1).
    pub fn remembered(&self) -> TransportParameters {
        TransportParameters {
            original_destination_connection_id: None,
            stateless_reset_token: None,
            ack_delay_exponent: 3,
            max_ack_delay: Duration::from_millis(25),
            preferred_address: None,
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            version_information: None,
            min_ack_delay: None,
            max_receive_timestamps_per_ack: 0,
            receive_timestamps_exponent: 0,
            initial_max_path_id: None,
            ..self.clone()
        }
    }

    /// The limits that a client remembers for its 0-RTT data (RFC 9000 section 7.4.1, RFC 9221 section 3).
    pub(crate) fn remembered_limits(&self) -> [u64; 8] {
        [
            self.active_connection_id_limit,
            self.initial_max_data,
            self.initial_max_stream_data_bidi_local,
            self.initial_max_stream_data_bidi_remote,
            self.initial_max_stream_data_uni,
            self.initial_max_streams_bidi,
            self.initial_max_streams_uni,
            self.max_datagram_frame_size,
        ]
    }

    /// As client whose 0-RTT was accepted: checks that the server's parameters allow what the remembered ones allowed.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if a limit was lowered (RFC 9000 section 7.4.1, RFC 9221 section 3).
    pub fn check_not_below(&self, remembered: &TransportParameters) -> Result<(), TransportError> {
        let mut limits = self.remembered_limits().into_iter().zip(remembered.remembered_limits());
        if limits.any(|(now, before)| now < before) {
            return Err(TransportError::protocol_violation("0-RTT was accepted, but a remembered limit was lowered"));
        }
        Ok(())
    }
}

/// Makes encoded parameters about `bytes` longer, at most 8000, by a reserved one, which peers ignore (RFC 9000 section
/// 18.1).
pub(crate) fn pad(encoded: &mut Vec<u8>, bytes: u16) {
    if bytes > 0 {
        let len = usize::from(bytes.min(MAX_PADDING));
        varint::encode(PADDING, encoded);
        varint::encode(len as u64, encoded);
        encoded.resize(encoded.len() + len, 0);
    }
}

fn error(reason: impl Into<std::borrow::Cow<'static, str>>) -> TransportError {
    TransportError::transport_parameter(reason)
}

impl PreferredAddress {
    fn decode(value: &[u8]) -> Result<PreferredAddress, &'static str> {
        let parse = || {
            let mut r = Reader::new(value);
            let v4 = SocketAddrV4::new(Ipv4Addr::from(r.array::<4>()?), r.u16()?);
            let v6 = SocketAddrV6::new(Ipv6Addr::from(r.array::<16>()?), r.u16()?, 0, 0);
            let cid = ConnectionId::new(r.u8_bytes()?)?;
            let reset_token = ResetToken(r.array()?);
            r.is_empty().then_some(PreferredAddress {
                // All zeros stand for an address that is not there.
                v4: Some(v4).filter(|a| !a.ip().is_unspecified() || a.port() != 0),
                v6: Some(v6).filter(|a| !a.ip().is_unspecified() || a.port() != 0),
                cid,
                reset_token,
            })
        };
        let preferred = parse().ok_or("badly formatted")?;
        if preferred.cid.is_empty() { Err("a zero-length connection ID") } else { Ok(preferred) }
    }

    fn encoded(&self) -> SmallVec<[u8; 64]> {
        let v4 = self.v4.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let v6 = self.v6.unwrap_or(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0));
        let mut out = SmallVec::new();
        out.extend_from_slice(&v4.ip().octets());
        out.extend_from_slice(&v4.port().to_be_bytes());
        out.extend_from_slice(&v6.ip().octets());
        out.extend_from_slice(&v6.port().to_be_bytes());
        out.push(self.cid.len() as u8);
        out.extend_from_slice(&self.cid);
        out.extend_from_slice(&self.reset_token.0);
        out
    }
}

impl VersionInformation {
    fn decode(value: &[u8], sender: Side) -> Result<VersionInformation, &'static str> {
        if value.len() < 4 || !value.len().is_multiple_of(4) {
            return Err("not a list of versions");
        }
        let versions = || crate::packet::versions(value);
        if versions().any(|v| v == Version::NEGOTIATION) {
            return Err("version 0 in the list");
        }
        let chosen = versions().next().ok_or("not a list of versions")?;
        // A client's first flight is of a version it supports; a server's list is of no such kind.
        if sender == Side::Client && !versions().skip(1).any(|v| v == chosen) {
            return Err("the chosen version is not among the available ones");
        }
        Ok(VersionInformation { chosen, available: versions().skip(1).take(MAX_VERSIONS_KEPT).collect() })
    }
}

#[cfg(test)]
mod tests;
