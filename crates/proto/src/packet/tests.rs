//! Packet headers: what is written reads back, and what a peer can get wrong.

use super::*;
use crate::Side;
use crate::cid::ResetToken;
use crate::crypto::{Keys, initial};
use proptest::collection::vec;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn keys(version: Version, side: Side) -> Keys {
    initial::keys(version, &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08], side)
}

fn hex(s: &str) -> Vec<u8> {
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
}

fn ids() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=20).prop_map(|bytes| cid(&bytes))
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V1), Just(Version::V2)]
}

// ---- packet numbers ----

#[test]
fn the_samples_of_rfc_9000_appendices_a_2_and_a_3_hold() {
    assert_eq!(number_len(0xac5c02, Some(0xabe8b3)), 2);
    assert_eq!(number_len(0xace8fe, Some(0xabe8b3)), 3);
    assert_eq!(expand_number(Some(0xa82f30ea), 0x9b32, 2), 0xa82f9b32);
}

#[test]
fn the_first_packet_number_is_short_and_expands_to_itself() {
    assert_eq!(number_len(0, None), 1);
    assert_eq!(expand_number(None, 0, 1), 0);
    assert_eq!(expand_number(Some(0), 1, 1), 1);
}

#[test]
fn a_packet_number_has_room_for_more_than_twice_the_unacknowledged_range() {
    for unacked in [1u64, 127, 128, 129, 32_767, 32_768, 8_388_607, 8_388_608, 1 << 30] {
        let len = number_len(1 << 40, Some((1 << 40) - unacked));
        assert!(len == 4 || 2 * unacked < 1 << (8 * len), "{unacked}");
    }
}

proptest! {
    #[test]
    fn truncated_numbers_expand_to_the_full_number(acked in 0u64..1 << 61, ahead in 1u64..1 << 31, seen in 0f64..2.0, shift in 0u32..31) {
        let ahead = (ahead >> shift).max(1);
        let number = acked + ahead;
        let len = number_len(number, Some(acked));
        let truncated = number & ((1 << (8 * len)) - 1);
        // The receiver has received at least what it acknowledged, and at most as much ahead as is in flight.
        let largest = acked + (ahead as f64 * seen) as u64;
        prop_assert_eq!(expand_number(Some(largest), truncated, len), number);
    }

    #[test]
    fn expanding_never_leaves_the_number_space(largest in proptest::option::of(0..1u64 << 62), truncated: u32, len in 1usize..=4) {
        let truncated = u64::from(truncated) & ((1 << (8 * len)) - 1);
        let number = expand_number(largest, truncated, len);
        prop_assert!(number < 1 << 62);
        prop_assert_eq!(number & ((1 << (8 * len)) - 1), truncated);
    }
}

// ---- round trips ----

fn open(packet: &mut [u8], partial: &Partial, keys: &Keys, largest: Option<u64>) -> (Unprotected, Vec<u8>) {
    let open = partial.unprotect(packet, &*keys.remote.header, largest).unwrap();
    let (header, payload) = packet[..partial.len].split_at_mut(open.payload.start);
    let len = keys.remote.packet.open(0, open.number, header, payload).unwrap();
    (open, payload[..len].to_vec())
}

proptest! {
    #[test]
    fn long_headers_survive_the_round_trip(
        version in version(), ty in 0u8..3, dcid in ids(), scid in ids(), token in vec(any::<u8>(), 0..300),
        number in 0u64..1 << 62, ahead in 0u64..1000, payload in vec(any::<u8>(), 1..1300), before in 0usize..50, after in 0usize..50,
    ) {
        let ty = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake][usize::from(ty)];
        let mut buf = vec![0xee; before];
        let acked = number.checked_sub(ahead + 1);
        let len = number_len(number, acked);
        let mark = write_long_header(&mut buf, ty, version, &dcid, &scid, &token, number, len);
        prop_assert_eq!(buf.len() - before, long_header_len(ty, dcid.len(), scid.len(), token.len(), len));
        buf.extend_from_slice(&payload);
        let sender = keys(version, Side::Client);
        mark.seal(&mut buf, 0, &*sender.local.packet, &*sender.local.header).unwrap();
        let end = buf.len();
        buf.resize(end + after, 0xee);

        let packet = &mut buf[before..];
        let (partial, rest) = Partial::parse(packet, 8).unwrap();
        prop_assert_eq!(rest, end - before);
        prop_assert!(partial.fixed_bit);
        prop_assert_eq!((partial.header.dcid(), partial.header.scid()), (&dcid, Some(&scid)));
        prop_assert_eq!(partial.header.version(), Some(version));
        let expected_level = match ty {
            LongType::Initial => Level::Initial,
            LongType::ZeroRtt => Level::EarlyData,
            _ => Level::Handshake,
        };
        prop_assert_eq!(partial.header.level(), Some(expected_level));
        if let Header::Initial { token: at, .. } = &partial.header {
            prop_assert_eq!(&packet[at.clone()], &token[..]);
        }
        prop_assert_eq!(destination_cid(packet, 8), Some(dcid.as_slice()));
        prop_assert_eq!(issued_cid(packet, 8), (ty == LongType::Handshake).then_some(dcid.as_slice()));
        prop_assert_eq!(short_header_cid::<8>(packet), None);
        let (open, plain) = open(packet, &partial, &keys(version, Side::Server), acked);
        prop_assert_eq!(open.number, number);
        prop_assert!(check_reserved_bits(open.first).is_ok());
        prop_assert_eq!(&plain[..payload.len()], &payload[..]);
        prop_assert!(plain[payload.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn short_headers_survive_the_round_trip(
        dcid in ids(), spin: bool, key_phase: bool, number in 0u64..1 << 62, ahead in 0u64..1_000_000, payload in vec(any::<u8>(), 1..1300),
    ) {
        let mut buf = Vec::new();
        let acked = number.checked_sub(ahead + 1);
        let len = number_len(number, acked);
        let mark = write_short_header(&mut buf, &dcid, spin, key_phase, number, len);
        prop_assert_eq!(buf.len(), short_header_len(dcid.len(), len));
        buf.extend_from_slice(&payload);
        let sender = keys(Version::V1, Side::Client);
        mark.seal(&mut buf, 0, &*sender.local.packet, &*sender.local.header).unwrap();

        prop_assert_eq!(destination_cid(&buf, dcid.len()), Some(dcid.as_slice()));
        prop_assert_eq!(issued_cid(&buf, dcid.len()), Some(dcid.as_slice()));
        prop_assert_eq!(short_header_cid::<8>(&buf).map(|cid| cid.to_vec()), buf.get(1..9).map(<[u8]>::to_vec));
        let (partial, rest) = Partial::parse(&buf, dcid.len()).unwrap();
        prop_assert_eq!(rest, buf.len());
        prop_assert_eq!(&partial.header, &Header::Short { dcid, spin });
        let (open, plain) = open(&mut buf, &partial, &keys(Version::V1, Side::Server), acked);
        prop_assert_eq!((open.number, open.key_phase()), (number, key_phase));
        prop_assert_eq!(&plain[..payload.len()], &payload[..]);
    }

    #[test]
    fn retry_packets_survive_the_round_trip(version in version(), dcid in ids(), scid in ids(), token in vec(any::<u8>(), 0..200)) {
        let mut buf = Vec::new();
        write_retry(&mut buf, version, &dcid, &scid, &token, |body| [body.len() as u8; 16]);
        let (partial, rest) = Partial::parse(&buf, 8).unwrap();
        prop_assert_eq!(rest, buf.len());
        match partial.header {
            Header::Retry { version: v, dcid: d, scid: s, token: at } => {
                prop_assert_eq!((v, d, s), (version, dcid, scid));
                prop_assert_eq!(&buf[at], &token[..]);
            }
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert!(verify_retry(&buf, |body| [body.len() as u8; 16]));
        prop_assert!(!verify_retry(&buf, |body| [body.len() as u8 + 1; 16]));
    }

    #[test]
    fn version_negotiation_survives_the_round_trip(dcid in ids(), scid in ids(), seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let received = Invariants { version: Version(0x1a2a_3a4a), dcid: &dcid, scid: &scid };
        let mut buf = Vec::new();
        write_version_negotiation(&mut buf, &received, Version::SUPPORTED, &mut rng);
        let (partial, rest) = Partial::parse(&buf, 8).unwrap();
        prop_assert_eq!(rest, buf.len());
        match partial.header {
            Header::VersionNegotiation { dcid: d, scid: s, versions: at } => {
                // RFC 9000 section 17.2.1: the IDs are those received, exchanged.
                prop_assert_eq!((d, s), (scid, dcid));
                let list: Vec<Version> = versions(&buf[at]).collect();
                prop_assert!(list[0].is_reserved() && list[0] != received.version);
                prop_assert_eq!(&list[1..], Version::SUPPORTED);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..1500), local_cid_len in 0usize..=20, plausible: bool) {
        if plausible && bytes.len() > 7 {
            bytes[0] |= 0xc0;
            bytes[1..5].copy_from_slice(&Version::V1.0.to_be_bytes());
            bytes[5] %= 24;
        }
        let _ = Invariants::parse(&bytes);
        let _ = destination_cid(&bytes, local_cid_len);
        let _ = issued_cid(&bytes, local_cid_len);
        let _ = short_header_cid::<8>(&bytes);
        let _ = possible_reset_token(&bytes);
        let _ = verify_retry(&bytes, |_| [0; 16]);
        if let Ok((partial, rest)) = Partial::parse(&bytes, local_cid_len) {
            prop_assert!(partial.len <= rest && rest <= bytes.len());
            prop_assert!(partial.number_offset <= partial.len);
            let key = keys(Version::V1, Side::Server);
            if let Ok(open) = partial.unprotect(&mut bytes, &*key.remote.header, Some(7)) {
                prop_assert!(open.payload.end == partial.len && open.payload.start <= open.payload.end);
            }
        }
    }
}

// ---- rules ----

/// RFC 9001 appendix A.3: the sample server Initial.
#[test]
fn the_sample_server_initial_of_rfc_9001_is_written_and_read() {
    let payload = hex(concat!(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a12",
        "00130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a00",
        "2b00020304"
    ));
    let sample = hex(concat!(
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb",
        "38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb",
        "84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee"
    ));
    let scid = cid(&hex("f067a5502a4262b5"));
    let mut buf = Vec::new();
    let mark = write_long_header(&mut buf, LongType::Initial, Version::V1, &ConnectionId::EMPTY, &scid, &[], 1, 2);
    buf.extend_from_slice(&payload);
    let server = keys(Version::V1, Side::Server);
    mark.seal(&mut buf, 0, &*server.local.packet, &*server.local.header).unwrap();
    assert_eq!(buf, sample);

    let (partial, _) = Partial::parse(&buf, 0).unwrap();
    let (open, plain) = open(&mut buf, &partial, &keys(Version::V1, Side::Client), None);
    assert_eq!((open.number, plain), (1, payload));
}

#[test]
fn coalesced_packets_are_walked_one_by_one() {
    let mut buf = Vec::new();
    let client = keys(Version::V1, Side::Client);
    let dcid = cid(&[5; 8]);
    for ty in [LongType::Initial, LongType::ZeroRtt, LongType::Handshake] {
        let mark = write_long_header(&mut buf, ty, Version::V1, &dcid, &dcid, &[], 3, 1);
        buf.extend_from_slice(&[1; 40]);
        mark.seal(&mut buf, 0, &*client.local.packet, &*client.local.header).unwrap();
    }
    let mark = write_short_header(&mut buf, &dcid, true, false, 9, 2);
    buf.push(1);
    mark.seal(&mut buf, 0, &*client.local.packet, &*client.local.header).unwrap();

    let mut levels = Vec::new();
    let mut rest = &mut buf[..];
    while !rest.is_empty() {
        let (partial, next) = Partial::parse(rest, 8).unwrap();
        levels.push(partial.header.level().unwrap());
        open(rest, &partial, &keys(Version::V1, Side::Server), None);
        rest = &mut rest[next..];
    }
    assert_eq!(levels, [Level::Initial, Level::EarlyData, Level::Handshake, Level::OneRtt]);
}

#[test]
fn a_tiny_payload_is_padded_so_that_a_sample_exists() {
    let client = keys(Version::V1, Side::Client);
    for number_len in 1..=4 {
        let mut buf = Vec::new();
        let mark = write_short_header(&mut buf, &ConnectionId::EMPTY, false, false, 1, number_len);
        mark.seal(&mut buf, 0, &*client.local.packet, &*client.local.header).unwrap();
        assert_eq!(buf.len(), 1 + 4 + 16);
        let (partial, _) = Partial::parse(&buf, 0).unwrap();
        let (_, plain) = open(&mut buf, &partial, &keys(Version::V1, Side::Server), None);
        assert_eq!(plain.len(), mark.min_payload());
    }
}

#[test]
fn a_packet_too_short_for_a_sample_must_be_discarded() {
    let key = keys(Version::V1, Side::Server);
    for len in 1..21 {
        let mut packet = vec![0x40; len];
        let (partial, _) = Partial::parse(&packet, 0).unwrap();
        assert_eq!(partial.unprotect(&mut packet, &*key.remote.header, None), Err(HeaderError::TooShort));
    }
}

#[test]
fn a_length_field_beyond_the_datagram_is_truncation() {
    let mut buf = Vec::new();
    let id = cid(&[1; 8]);
    let mark = write_long_header(&mut buf, LongType::Handshake, Version::V1, &id, &id, &[], 0, 1);
    buf.resize(100, 0);
    mark.patch_length(&mut buf, 101);
    assert_eq!(Partial::parse(&buf, 8), Err(HeaderError::Truncated));
    mark.patch_length(&mut buf, 100);
    assert!(Partial::parse(&buf, 8).is_ok());
}

#[test]
fn reserved_bits_set_are_a_protocol_violation() {
    for (first, ok) in [(0xc3, true), (0xc4, false), (0xc8, false), (0x47, true), (0x48, false), (0x50, false)] {
        assert_eq!(check_reserved_bits(first).is_ok(), ok, "{first:#x}");
    }
    assert_eq!(check_reserved_bits(0x58).unwrap_err().code, crate::error::TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_cleared_quic_bit_is_reported() {
    let mut buf = Vec::new();
    let mark = write_short_header(&mut buf, &cid(&[1; 8]), false, false, 0, 1);
    mark.clear_fixed_bit(&mut buf);
    buf.resize(40, 0);
    assert!(!Partial::parse(&buf, 8).unwrap().0.fixed_bit);
}

#[test]
fn connection_ids_above_20_bytes_are_refused_in_known_versions_only() {
    let mut buf = vec![0xc0];
    buf.extend_from_slice(&Version::V1.0.to_be_bytes());
    buf.push(21);
    buf.extend_from_slice(&[7; 21]);
    buf.push(0);
    buf.resize(1200, 0);
    assert_eq!(Partial::parse(&buf, 8), Err(HeaderError::ConnectionIdTooLong));
    assert_eq!(Invariants::parse(&buf).map(|h| h.dcid.len()), Some(21));
    buf[4] = 99;
    assert_eq!(Partial::parse(&buf, 8), Err(HeaderError::UnsupportedVersion(Version(99))));
}

#[test]
fn version_negotiation_answers_connection_ids_of_255_bytes() {
    let mut buf = Vec::new();
    let long = [9; 255];
    let received = Invariants { version: Version(99), dcid: &long, scid: &long[..30] };
    write_version_negotiation(&mut buf, &received, Version::SUPPORTED, &mut ChaCha8Rng::seed_from_u64(1));
    let answer = Invariants::parse(&buf).unwrap();
    assert_eq!((answer.version, answer.dcid, answer.scid), (Version::NEGOTIATION, &long[..30], &long[..]));
}

#[test]
fn a_stateless_reset_looks_like_a_short_header_and_ends_with_the_token() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let token = ResetToken([0xab; 16]);
    for len in [0, 21, 22, 43, 1200] {
        let mut buf = Vec::new();
        write_stateless_reset(&mut buf, &token, len, &mut rng);
        assert_eq!(buf.len(), len.max(21));
        assert_eq!(buf[0] & 0xc0, 0x40);
        assert_eq!(possible_reset_token(&buf), Some(token));
    }
    assert_eq!(possible_reset_token(&[0x40; 20]), None);
    assert_eq!(possible_reset_token(&[0xc0; 40]), None);
}
