//! Transport parameters: ours from the configuration, and the peer's checked against the handshake.

use std::time::Duration;

use super::Handshake;
use crate::{
    Side,
    cid::ConnectionId,
    config::TransportConfig,
    error::TransportError,
    observe::ParameterValues,
    streams::StreamLimits,
    transport_parameters::{ExpectedIds, TransportParameters, VersionInformation, check_version_information},
    version::Version,
};

impl Handshake {
    /// The peer's transport parameters, validated (RFC 9000 section 7.4).
    ///
    /// # Errors
    /// If there are none, or if they contradict what the peer did or said before.
    pub fn take_peer_parameters(&mut self, side: Side) -> Result<TransportParameters, TransportError> {
        let Some(encoded) = self.session.transport_parameters() else {
            return Err(TransportError::crypto(109, "the peer sent no QUIC transport parameters"));
        };
        let params = TransportParameters::decode(encoded, side.peer())?;
        let client = side.is_client();
        params.check_ids(&ExpectedIds {
            initial_source: self.ids.peer_scid.unwrap_or_default(),
            original_destination: client.then_some(self.ids.original_dcid),
            retry_source: self.ids.retry_scid.filter(|_| client),
        })?;
        check_version_information(
            params.version_information.as_ref(),
            side,
            // A client speaks of its first flight, a server of what it has chosen.
            if client { self.version } else { self.original_version },
            // We never act upon a Version Negotiation packet, only upon a compatible answer.
            false,
            Version::SUPPORTED,
        )?;
        if let Some(remembered) = self.early.remembered.take()
            && self.early.accepted == Some(true)
        {
            params.check_not_below(&remembered)?;
        }
        Ok(params)
    }
}

/// The parameters for an observer.
pub(crate) fn parameter_values(params: &TransportParameters) -> ParameterValues {
    ParameterValues {
        max_idle_timeout_ms: params.max_idle_timeout.map_or(0, millis),
        max_udp_payload_size: params.max_udp_payload_size,
        initial_max_data: params.initial_max_data,
        initial_max_stream_data_bidi_local: params.initial_max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: params.initial_max_stream_data_bidi_remote,
        initial_max_stream_data_uni: params.initial_max_stream_data_uni,
        initial_max_streams_bidi: params.initial_max_streams_bidi,
        initial_max_streams_uni: params.initial_max_streams_uni,
        ack_delay_exponent: u64::from(params.ack_delay_exponent),
        max_ack_delay_ms: millis(params.max_ack_delay),
        disable_active_migration: params.disable_active_migration,
        active_connection_id_limit: params.active_connection_id_limit,
        max_datagram_frame_size: (params.max_datagram_frame_size > 0).then_some(params.max_datagram_frame_size),
        min_ack_delay_us: params.min_ack_delay.map(|delay| delay.as_micros() as u64),
        max_receive_timestamps_per_ack: (params.max_receive_timestamps_per_ack > 0)
            .then_some(params.max_receive_timestamps_per_ack),
        initial_max_path_id: params.initial_max_path_id.map(u64::from),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Our transport parameters.
pub(crate) fn local_parameters(
    config: &TransportConfig,
    limits: &StreamLimits,
    scid: ConnectionId,
    version: Version,
) -> TransportParameters {
    TransportParameters {
        max_idle_timeout: config.max_idle_timeout.filter(|timeout| !timeout.is_zero()),
        max_udp_payload_size: u64::from(config.max_udp_payload),
        initial_max_data: limits.max_data,
        initial_max_stream_data_bidi_local: limits.stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: limits.stream_data_bidi_remote,
        initial_max_stream_data_uni: limits.stream_data_uni,
        initial_max_streams_bidi: limits.streams_bidi,
        initial_max_streams_uni: limits.streams_uni,
        max_ack_delay: config.max_ack_delay,
        min_ack_delay: config.told_min_ack_delay(),
        max_receive_timestamps_per_ack: config.timestamps_asked_for(),
        active_connection_id_limit: config.active_connection_ids,
        initial_source_connection_id: Some(scid),
        max_datagram_frame_size: config.datagrams.max_frame_size,
        version_information: Some(version_information(version)),
        ..TransportParameters::default()
    }
}

/// We deploy every version we support, and prefer the one in use.
fn version_information(chosen: Version) -> VersionInformation {
    let others = Version::SUPPORTED.iter().copied().filter(|version| *version != chosen);
    VersionInformation { chosen, available: std::iter::once(chosen).chain(others).collect() }
}

/// The peer's stream limits as the streams understand them.
pub(crate) fn stream_limits(params: &TransportParameters) -> StreamLimits {
    StreamLimits {
        max_data: params.initial_max_data,
        stream_data_bidi_local: params.initial_max_stream_data_bidi_local,
        stream_data_bidi_remote: params.initial_max_stream_data_bidi_remote,
        stream_data_uni: params.initial_max_stream_data_uni,
        streams_bidi: params.initial_max_streams_bidi,
        streams_uni: params.initial_max_streams_uni,
    }
}
