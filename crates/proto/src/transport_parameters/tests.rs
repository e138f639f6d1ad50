//! Tests of the coding of transport parameters and their rules.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::error::TransportErrorCode;

fn encoded(p: &TransportParameters) -> Vec<u8> {
    let mut out = Vec::new();
    p.encode(&mut out, None);
    out
}

/// One parameter with these bytes as its value.
fn raw(id: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::encode(id, &mut out);
    varint::encode(value.len() as u64, &mut out);
    out.extend_from_slice(value);
    out
}

fn integer(id: u64, n: u64) -> Vec<u8> {
    let mut value = Vec::new();
    varint::encode(n, &mut value);
    raw(id, &value)
}

#[track_caller]
fn refused(bytes: &[u8], sender: Side) {
    let error = TransportParameters::decode(bytes, sender).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
}

#[track_caller]
fn accepted(bytes: &[u8], sender: Side) -> TransportParameters {
    TransportParameters::decode(bytes, sender).unwrap()
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

// ---- round trips ----------------------------------------------------------------------------------------------------

fn any_cid(at_least: usize) -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), at_least..=20).prop_map(|bytes| cid(&bytes))
}

fn any_versions() -> impl Strategy<Value = VersionInformation> {
    (1..=u32::MAX, vec(1..=u32::MAX, 0..6)).prop_map(|(chosen, others)| {
        let chosen = Version(chosen);
        let available = others.into_iter().map(Version).chain([chosen]).collect();
        VersionInformation { chosen, available }
    })
}

fn any_preferred() -> impl Strategy<Value = PreferredAddress> {
    let v4 = option::of((any::<[u8; 4]>(), 1..=u16::MAX));
    let v6 = option::of((any::<[u8; 16]>(), 1..=u16::MAX));
    (v4, v6, any_cid(1), any::<[u8; 16]>()).prop_map(|(v4, v6, cid, token)| PreferredAddress {
        v4: v4.map(|(ip, port)| SocketAddrV4::new(ip.into(), port)),
        v6: v6.map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0)),
        cid,
        reset_token: ResetToken(token),
    })
}

fn any_parameters() -> impl Strategy<Value = (TransportParameters, Side)> {
    let n = || 0..=varint::MAX;
    let limits = (n(), n(), n(), n(), 0u64..=1 << 60, 0u64..=1 << 60, 1200..=varint::MAX, 2..=varint::MAX);
    let timing = (option::of(1u64..1 << 40), 0u8..=20, 0u64..1 << 14, option::of(0f64..=1.0));
    let ids = (option::of(any_cid(0)), option::of(any_cid(1)), option::of(any_cid(0)), option::of(any::<[u8; 16]>()));
    let rest =
        (any::<bool>(), any::<bool>(), n(), option::of(any_versions()), option::of(any_preferred()), any::<bool>());
    (limits, timing, (n(), 0u8..=20, option::of(any::<u32>())), ids, rest).prop_map(
        |(limits, timing, times, ids, rest)| {
            let side = if rest.5 { Side::Server } else { Side::Client };
            let server = side == Side::Server;
            let max_ack_delay = Duration::from_millis(timing.2);
            let p = TransportParameters {
                initial_max_data: limits.0,
                initial_max_stream_data_bidi_local: limits.1,
                initial_max_stream_data_bidi_remote: limits.2,
                initial_max_stream_data_uni: limits.3,
                initial_max_streams_bidi: limits.4,
                initial_max_streams_uni: limits.5,
                max_udp_payload_size: limits.6,
                active_connection_id_limit: limits.7,
                max_idle_timeout: timing.0.map(Duration::from_millis),
                ack_delay_exponent: timing.1,
                max_ack_delay,
                max_receive_timestamps_per_ack: times.0,
                receive_timestamps_exponent: times.1,
                initial_max_path_id: times.2,
                min_ack_delay: timing
                    .3
                    .map(|part| Duration::from_micros((max_ack_delay.as_micros() as f64 * part) as u64)),
                original_destination_connection_id: ids.0.filter(|_| server),
                initial_source_connection_id: ids.1,
                retry_source_connection_id: ids.2.filter(|_| server),
                stateless_reset_token: ids.3.filter(|_| server).map(ResetToken),
                disable_active_migration: rest.0,
                grease_quic_bit: rest.1,
                max_datagram_frame_size: rest.2,
                version_information: rest.3,
                preferred_address: rest.4.filter(|_| server),
            };
            (p, side)
        },
    )
}

proptest! {
    #[test]
    fn parameters_survive_the_round_trip((p, side) in any_parameters(), seed: u64) {
        prop_assert_eq!(&TransportParameters::decode(&encoded(&p), side).unwrap(), &p);
        let mut greased = Vec::new();
        p.encode(&mut greased, Some(&mut ChaCha8Rng::seed_from_u64(seed)));
        prop_assert!(greased.len() > encoded(&p).len());
        prop_assert_eq!(&TransportParameters::decode(&greased, side).unwrap(), &p);
        let before = greased.len();
        pad(&mut greased, (seed % 1500) as u16);
        prop_assert!(greased.len() >= before + (seed % 1500) as usize);
        prop_assert_eq!(&TransportParameters::decode(&greased, side).unwrap(), &p);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), (p, side) in any_parameters(), at: prop::sample::Index, byte: u8) {
        let _ = TransportParameters::decode(&bytes, side);
        let mut near = encoded(&p);
        if !near.is_empty() {
            let at = at.index(near.len());
            near[at] = byte;
            let _ = TransportParameters::decode(&near, Side::Client);
            let _ = TransportParameters::decode(&near[..at], Side::Server);
        }
    }
}

#[test]
fn nothing_means_the_defaults_of_rfc_9000_section_18_2() {
    let p = accepted(&[], Side::Client);
    assert_eq!(p, TransportParameters::default());
    assert_eq!(p.max_udp_payload_size, 65_527);
    assert_eq!(p.ack_delay_exponent, 3);
    assert_eq!(p.max_ack_delay, Duration::from_millis(25));
    assert_eq!(p.active_connection_id_limit, 2);
    assert!(encoded(&p).is_empty());
}

// ---- validity -------------------------------------------------------------------------------------------------------

#[test]
fn a_parameter_that_appears_twice_is_refused() {
    for parameter in [
        integer(id::INITIAL_MAX_DATA, 7),
        raw(id::GREASE_QUIC_BIT, &[]),
        integer(id::MIN_ACK_DELAY, 1),
        integer(id::MAX_RECEIVE_TIMESTAMPS_PER_ACK, 1),
        integer(id::RECEIVE_TIMESTAMPS_EXPONENT, 1),
        integer(id::INITIAL_MAX_PATH_ID, 1),
    ] {
        accepted(&parameter, Side::Client);
        refused(&[parameter.clone(), parameter].concat(), Side::Client);
    }
}

#[test]
fn unknown_parameters_must_be_ignored() {
    let bytes = [raw(27, b"grease"), raw(31 * 1000 + 27, &[]), integer(id::INITIAL_MAX_DATA, 7)].concat();
    assert_eq!(accepted(&bytes, Side::Client).initial_max_data, 7);
}

#[test]
fn values_out_of_range_are_refused() {
    for (id, good, bad) in [
        (id::MAX_UDP_PAYLOAD_SIZE, 1200, 1199),
        (id::ACK_DELAY_EXPONENT, 20, 21),
        (id::MAX_ACK_DELAY, (1 << 14) - 1, 1 << 14),
        (id::RECEIVE_TIMESTAMPS_EXPONENT, 20, 21),
        (id::ACTIVE_CONNECTION_ID_LIMIT, 2, 1),
        (id::INITIAL_MAX_STREAMS_BIDI, 1 << 60, (1 << 60) + 1),
        (id::INITIAL_MAX_STREAMS_UNI, 1 << 60, (1 << 60) + 1),
        // draft-ietf-quic-multipath-21 section 2.1.
        (id::INITIAL_MAX_PATH_ID, (1 << 32) - 1, 1 << 32),
    ] {
        accepted(&integer(id, good), Side::Server);
        refused(&integer(id, bad), Side::Server);
    }
}

#[test]
fn malformed_values_are_refused() {
    refused(&[0x04], Side::Server);
    refused(&[0x04, 2, 1], Side::Server);
    refused(&raw(id::INITIAL_MAX_DATA, &[]), Side::Server);
    refused(&raw(id::INITIAL_MAX_DATA, &[1, 2]), Side::Server);
    refused(&raw(id::INITIAL_MAX_DATA, &[0x40]), Side::Server);
    refused(&raw(id::DISABLE_ACTIVE_MIGRATION, &[0]), Side::Server);
    refused(&raw(id::GREASE_QUIC_BIT, &[1]), Side::Server);
    refused(&raw(id::STATELESS_RESET_TOKEN, &[0; 15]), Side::Server);
    refused(&raw(id::STATELESS_RESET_TOKEN, &[0; 17]), Side::Server);
    refused(&raw(id::INITIAL_SOURCE_CONNECTION_ID, &[0; 21]), Side::Server);
    refused(&raw(id::PREFERRED_ADDRESS, &[0; 40]), Side::Server);
}

#[test]
fn server_only_parameters_from_a_client_are_refused() {
    let mut preferred = vec![0; 24];
    preferred.push(4);
    preferred.resize(24 + 1 + 4 + 16, 1);
    for parameter in [
        raw(id::ORIGINAL_DESTINATION_CONNECTION_ID, &[1; 8]),
        raw(id::STATELESS_RESET_TOKEN, &[1; 16]),
        raw(id::PREFERRED_ADDRESS, &preferred),
        raw(id::RETRY_SOURCE_CONNECTION_ID, &[1; 8]),
    ] {
        accepted(&parameter, Side::Server);
        refused(&parameter, Side::Client);
    }
}

#[test]
fn a_preferred_address_with_zero_length_connection_ids_is_refused() {
    let mut empty = vec![0; 24];
    empty.push(0);
    empty.resize(24 + 1 + 16, 1);
    refused(&raw(id::PREFERRED_ADDRESS, &empty), Side::Server);

    let mut preferred = vec![0; 24];
    preferred.push(4);
    preferred.resize(24 + 1 + 4 + 16, 1);
    let source = raw(id::INITIAL_SOURCE_CONNECTION_ID, &[]);
    refused(&[raw(id::PREFERRED_ADDRESS, &preferred), source].concat(), Side::Server);
}

#[test]
fn min_ack_delay_above_max_ack_delay_is_refused() {
    accepted(&integer(id::MIN_ACK_DELAY, 25_000), Side::Client);
    refused(&integer(id::MIN_ACK_DELAY, 25_001), Side::Client);
    let both = [integer(id::MIN_ACK_DELAY, 25_001), integer(id::MAX_ACK_DELAY, 26)].concat();
    accepted(&both, Side::Client);
}

#[test]
fn an_idle_timeout_of_zero_means_none() {
    assert_eq!(accepted(&integer(id::MAX_IDLE_TIMEOUT, 0), Side::Client).max_idle_timeout, None);
    let zero = TransportParameters { max_idle_timeout: Some(Duration::ZERO), ..Default::default() };
    assert_eq!(accepted(&encoded(&zero), Side::Client).max_idle_timeout, None);
    let tiny = TransportParameters { max_idle_timeout: Some(Duration::from_micros(1)), ..Default::default() };
    assert_eq!(accepted(&encoded(&tiny), Side::Client).max_idle_timeout, Some(Duration::from_millis(1)));
}

// ---- connection IDs -------------------------------------------------------------------------------------------------

#[test]
fn connection_ids_that_are_missing_needless_or_different_are_refused() {
    let expected = ExpectedIds {
        initial_source: cid(&[1; 8]),
        original_destination: Some(cid(&[2; 8])),
        retry_source: Some(cid(&[3; 8])),
    };
    let good = TransportParameters {
        initial_source_connection_id: Some(cid(&[1; 8])),
        original_destination_connection_id: Some(cid(&[2; 8])),
        retry_source_connection_id: Some(cid(&[3; 8])),
        ..Default::default()
    };
    good.check_ids(&expected).unwrap();
    for bad in [
        TransportParameters { initial_source_connection_id: None, ..good.clone() },
        TransportParameters { initial_source_connection_id: Some(cid(&[1; 7])), ..good.clone() },
        TransportParameters { original_destination_connection_id: None, ..good.clone() },
        TransportParameters { original_destination_connection_id: Some(cid(&[9; 8])), ..good.clone() },
        TransportParameters { retry_source_connection_id: None, ..good.clone() },
        TransportParameters { retry_source_connection_id: Some(ConnectionId::EMPTY), ..good.clone() },
    ] {
        let error = bad.check_ids(&expected).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    }
    let without_retry = ExpectedIds { retry_source: None, ..expected };
    assert!(good.check_ids(&without_retry).is_err(), "retry_source_connection_id without a Retry");
}

// ---- versions -------------------------------------------------------------------------------------------------------

fn versions(list: &[Version]) -> Vec<u8> {
    raw(id::VERSION_INFORMATION, &list.iter().flat_map(|v| v.0.to_be_bytes()).collect::<Vec<_>>())
}

#[test]
fn malformed_version_information_is_refused() {
    accepted(&versions(&[Version::V1]), Side::Server);
    accepted(&versions(&[Version::V1, Version::V1]), Side::Client);
    refused(&raw(id::VERSION_INFORMATION, &[]), Side::Server);
    refused(&raw(id::VERSION_INFORMATION, &[0, 0, 0, 1, 0]), Side::Server);
    refused(&versions(&[Version(0), Version::V1]), Side::Server);
    refused(&versions(&[Version::V1, Version(0)]), Side::Server);
}

#[test]
fn a_clients_chosen_version_must_be_available() {
    refused(&versions(&[Version::V1, Version::V2]), Side::Client);
    accepted(&versions(&[Version::V1, Version::V2]), Side::Server);
}

fn info(chosen: Version, available: &[Version]) -> VersionInformation {
    VersionInformation { chosen, available: available.iter().copied().collect() }
}

#[test]
fn a_server_upgrades_to_the_version_it_prefers_if_the_client_has_it() {
    const V2_FIRST: [Version; 2] = [Version::V2, Version::V1];
    let both = info(Version::V1, &[Version::V1, Version::V2]);
    assert_eq!(both.select(Version::V1, &V2_FIRST), Version::V2);
    assert_eq!(both.select(Version::V1, Version::SUPPORTED), Version::V1);
    let old = info(Version::V1, &[Version::V1]);
    assert_eq!(old.select(Version::V1, &V2_FIRST), Version::V1);
}

#[test]
fn a_chosen_version_other_than_the_one_in_use_is_a_version_negotiation_error() {
    for receiver in [Side::Client, Side::Server] {
        let info = info(Version::V1, &[Version::V1]);
        let error =
            check_version_information(Some(&info), receiver, Version::V2, false, Version::SUPPORTED).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::VERSION_NEGOTIATION_ERROR);
        check_version_information(Some(&info), receiver, Version::V1, false, Version::SUPPORTED).unwrap();
    }
}

#[test]
fn a_forged_version_negotiation_is_found_out() {
    let check = |info: Option<&VersionInformation>, in_use| {
        check_version_information(info, Side::Client, in_use, true, Version::SUPPORTED)
    };
    // The server has none of what would have made us choose this version.
    assert!(check(Some(&info(Version::V1, &[Version(99)])), Version::V1).is_err());
    assert!(check(Some(&info(Version::V1, &[Version::V1])), Version::V1).is_ok());
    // Without version information only version 1 is believed (RFC 9368 section 8).
    assert!(check(None, Version::V1).is_ok());
    assert!(check(None, Version::V2).is_err());
}

// ---- 0-RTT ----------------------------------------------------------------------------------------------------------

#[test]
fn a_server_that_lowers_a_remembered_limit_is_a_protocol_violation() {
    let before = TransportParameters {
        initial_max_data: 10,
        initial_max_stream_data_bidi_local: 10,
        initial_max_stream_data_bidi_remote: 10,
        initial_max_stream_data_uni: 10,
        initial_max_streams_bidi: 10,
        initial_max_streams_uni: 10,
        active_connection_id_limit: 10,
        max_datagram_frame_size: 10,
        ..Default::default()
    };
    before.check_not_below(&before.remembered()).unwrap();
    for lowered in [
        TransportParameters { initial_max_data: 9, ..before.clone() },
        TransportParameters { initial_max_stream_data_bidi_local: 9, ..before.clone() },
        TransportParameters { initial_max_stream_data_bidi_remote: 9, ..before.clone() },
        TransportParameters { initial_max_stream_data_uni: 9, ..before.clone() },
        TransportParameters { initial_max_streams_bidi: 9, ..before.clone() },
        TransportParameters { initial_max_streams_uni: 9, ..before.clone() },
        TransportParameters { active_connection_id_limit: 9, ..before.clone() },
        TransportParameters { max_datagram_frame_size: 9, ..before.clone() },
    ] {
        let error = lowered.check_not_below(&before).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn what_must_not_be_remembered_is_forgotten() {
    let p = TransportParameters {
        ack_delay_exponent: 9,
        max_ack_delay: Duration::from_millis(99),
        min_ack_delay: Some(Duration::from_millis(1)),
        max_receive_timestamps_per_ack: 9,
        receive_timestamps_exponent: 3,
        // draft-ietf-quic-multipath-21 section 2.1.
        initial_max_path_id: Some(3),
        initial_source_connection_id: Some(cid(&[1; 8])),
        original_destination_connection_id: Some(cid(&[1; 8])),
        retry_source_connection_id: Some(cid(&[1; 8])),
        stateless_reset_token: Some(ResetToken([1; 16])),
        initial_max_data: 5,
        ..Default::default()
    };
    assert_eq!(p.remembered(), TransportParameters { initial_max_data: 5, ..Default::default() });
}
