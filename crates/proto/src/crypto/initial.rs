//! Protection before TLS has any secret: Initial packets (RFC 9001 section 5.2) and Retry packets (section 5.8), for
//! versions 1 and 2 (RFC 9369 section 3.3).

use ::ring::aead;
use ::rustls::quic;
use smallvec::SmallVec;

use super::keys::{Keys, TAG_LEN};
use super::tls_keys::tls_version;
use crate::Side;
use crate::version::Version;

/// The suite of Initial packets: AEAD_AES_128_GCM with SHA-256, whatever the handshake chooses later (RFC 9001 section
/// 5.2).
fn suite() -> quic::Suite {
    ::rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(|suite| suite.quic_suite())
        .expect("ring's TLS13_AES_128_GCM_SHA256 supports QUIC")
}

/// The Initial keys, from the client's first destination connection ID. `side` is ours.
///
/// A version without keys of its own gets version 1's: whoever speaks neither 1 nor 2 is answered with Version
/// Negotiation, before keys matter.
pub fn keys(version: Version, dcid: &[u8], side: Side) -> Keys {
    let side = match side {
        Side::Client => ::rustls::Side::Client,
        Side::Server => ::rustls::Side::Server,
    };
    suite().keys(dcid, side, tls_version(version).unwrap_or(quic::Version::V1)).into()
}

/// The integrity tag of a Retry packet that answers `odcid`; `retry_without_tag` is everything from the first byte to
/// the end of the token.
pub fn retry_tag(version: Version, odcid: &[u8], retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
    // The Retry pseudo-packet: the original destination connection ID with its length, then the packet.
    let mut pseudo: SmallVec<[u8; 256]> = SmallVec::new();
    pseudo.push(odcid.len() as u8);
    pseudo.extend_from_slice(odcid);
    pseudo.extend_from_slice(retry_without_tag);
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, version.retry_key()).expect("an AES-128 key has 16 bytes");
    let tag = aead::LessSafeKey::new(key)
        .seal_in_place_separate_tag(
            aead::Nonce::assume_unique_for_key(*version.retry_nonce()),
            aead::Aad::from(pseudo.as_slice()),
            &mut [],
        )
        .expect("an empty plaintext can always be sealed");
    let mut out = [0; TAG_LEN];
    out.copy_from_slice(tag.as_ref());
    out
}

/// The samples of RFC 9001 appendix A and RFC 9369 appendix A, and packets made like them.
#[cfg(test)]
pub(super) mod samples {
    use super::super::DirectionKeys;
    use super::*;

    const SAMPLES: &str = include_str!("../../testdata/packet-protection.txt");

    /// One of the values of the RFCs' appendices.
    pub fn sample(version: Version, name: &str) -> Vec<u8> {
        let prefix = match version {
            Version::V2 => "v2",
            _ => "v1",
        };
        let line = SAMPLES.lines().find_map(|line| line.strip_prefix(&format!("{prefix}.{name} ")));
        let hex = line.unwrap();
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    /// Protects a packet whose number is the last bytes of its header, as the connection does.
    pub fn protect(keys: &DirectionKeys, number: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
        let number_len = usize::from(header[0] & 3) + 1;
        let mut packet = [header, payload, &[0; TAG_LEN]].concat();
        let (head, body) = packet.split_at_mut(header.len());
        keys.packet.seal(0, number, head, body).unwrap();
        let number_at = header.len() - number_len;
        let (head, sample) = packet.split_at_mut(number_at + 4);
        let (first, rest) = head.split_at_mut(1);
        let number = &mut rest[number_at - 1..][..number_len];
        keys.header.protect(&sample[..keys.header.sample_len()], &mut first[0], number);
        packet
    }
}

#[cfg(test)]
mod tests {
    use ::rustls::crypto::cipher::{AeadKey, Iv};

    use super::super::DirectionKeys;
    use super::super::tls_keys::{TlsHeaderKey, TlsPacketKey};
    use super::samples::{protect, sample};
    use super::*;

    const DCID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    /// Undoes [`protect`]; gives back header and payload.
    fn unprotect(keys: &DirectionKeys, number: u64, number_at: usize, mut packet: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let (head, sample) = packet.split_at_mut(number_at + 4);
        let (first, rest) = head.split_at_mut(1);
        keys.header.unprotect(&sample[..keys.header.sample_len()], &mut first[0], &mut rest[number_at - 1..]);
        let header_len = number_at + usize::from(packet[0] & 3) + 1;
        let (header, body) = packet.split_at_mut(header_len);
        let len = keys.packet.open(0, number, header, body).unwrap();
        (header.to_vec(), body[..len].to_vec())
    }

    #[test]
    fn client_and_server_initials_are_those_of_the_rfcs_appendix_a() {
        for version in [Version::V1, Version::V2] {
            let client = keys(version, &DCID, Side::Client);
            let server = keys(version, &DCID, Side::Server);

            let mut payload = sample(version, "client_payload");
            payload.resize(1162, 0);
            let header = sample(version, "client_header");
            let packet = protect(&client.local, 2, &header, &payload);
            assert_eq!(packet, sample(version, "client_packet"));
            assert_eq!(unprotect(&server.remote, 2, header.len() - 4, packet), (header, payload));

            let payload = sample(version, "server_payload");
            let header = sample(version, "server_header");
            let packet = protect(&server.local, 1, &header, &payload);
            assert_eq!(packet, sample(version, "server_packet"));
            assert_eq!(unprotect(&client.remote, 1, header.len() - 2, packet), (header, payload));
        }
    }

    #[test]
    fn retry_tags_are_those_of_the_rfcs_appendix_a() {
        for version in [Version::V1, Version::V2] {
            let packet = sample(version, "retry");
            let (packet, tag) = packet.split_at(packet.len() - TAG_LEN);
            assert_eq!(retry_tag(version, &DCID, packet), tag);
            assert_ne!(retry_tag(version, &DCID[1..], packet), tag);
        }
    }

    #[test]
    fn the_chacha20_short_header_packet_is_that_of_the_rfcs_appendix_a() {
        let suite = ::rustls::crypto::ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
        let algorithm = suite.tls13().unwrap().quic.unwrap();
        for version in [Version::V1, Version::V2] {
            let key = |name| AeadKey::from(<[u8; 32]>::try_from(sample(version, name)).unwrap());
            let iv = Iv::from(<[u8; 12]>::try_from(sample(version, "chacha20_iv")).unwrap());
            let keys = DirectionKeys {
                header: Box::new(TlsHeaderKey(algorithm.header_protection_key(key("chacha20_hp")))),
                packet: Box::new(TlsPacketKey(algorithm.packet_key(key("chacha20_key"), iv))),
            };
            let packet = protect(&keys, 654_360_564, &[0x42, 0x00, 0xbf, 0xf4], &[0x01]);
            assert_eq!(packet, sample(version, "chacha20_packet"));
            let (header, payload) = unprotect(&keys, 654_360_564, 1, packet);
            assert_eq!((header.as_slice(), payload.as_slice()), (&[0x42, 0x00, 0xbf, 0xf4][..], &[0x01][..]));
        }
    }

    #[test]
    fn initial_keys_differ_between_versions_connection_ids_and_directions() {
        let mut packet = [0; 40];
        keys(Version::V1, &DCID, Side::Client).local.packet.seal(0, 1, b"h", &mut packet).unwrap();
        let open = |keys: DirectionKeys| keys.packet.open(0, 1, b"h", &mut packet.clone());
        assert_eq!(open(keys(Version::V1, &DCID, Side::Server).remote), Ok(24));
        assert!(open(keys(Version::V1, &DCID, Side::Server).local).is_err());
        assert!(open(keys(Version::V2, &DCID, Side::Server).remote).is_err());
        assert!(open(keys(Version::V1, &DCID[1..], Side::Server).remote).is_err());
    }
}
