//! What is protected before TLS has any secret: Initial packets (RFC 9001 section 5.2) and Retry packets (section 5.8), for versions 1 and 2 (RFC 9369 section 3.3).

use ::ring::aead;
use ::rustls::quic;
use smallvec::SmallVec;

use super::rustls::tls_version;
use super::{Keys, TAG_LEN};
use crate::Side;
use crate::version::Version;

/// The suite of Initial packets: AEAD_AES_128_GCM with SHA-256, whatever the handshake chooses later (RFC 9001 section 5.2).
fn suite() -> quic::Suite {
    ::rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(|suite| suite.quic_suite())
        .expect("ring's TLS13_AES_128_GCM_SHA256 supports QUIC")
}

/// The Initial keys, from the client's first destination connection ID. `side` is ours.
///
/// A version without keys of its own gets version 1's: whoever speaks neither 1 nor 2 is answered with Version Negotiation, before keys matter.
pub fn keys(version: Version, dcid: &[u8], side: Side) -> Keys {
    let side = match side {
        Side::Client => ::rustls::Side::Client,
        Side::Server => ::rustls::Side::Server,
    };
    suite()
        .keys(
            dcid,
            side,
            tls_version(version).unwrap_or(quic::Version::V1),
        )
        .into()
}

/// The integrity tag of a Retry packet that answers `odcid`; `retry_without_tag` is everything from the first byte to the end of the token.
pub fn retry_tag(version: Version, odcid: &[u8], retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
    // The Retry pseudo-packet: the original destination connection ID with its length, then the packet.
    let mut pseudo: SmallVec<[u8; 256]> = SmallVec::new();
    pseudo.push(odcid.len() as u8);
    pseudo.extend_from_slice(odcid);
    pseudo.extend_from_slice(retry_without_tag);
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, version.retry_key())
        .expect("an AES-128 key has 16 bytes");
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
