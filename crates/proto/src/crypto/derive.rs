//! Packet and header keys straight from a traffic secret (RFC 9001 section 5.1), for the version a session was switched
//! to.
//!
//! rustls derives keys itself, but only for the version it was started with; a client whose server chooses another,
//! compatible version (RFC 9368 section 2.3) needs them for that one.

use ::ring::{aead, hkdf};
use ::rustls::CipherSuite;

use super::{CryptoError, DecryptError, DirectionKeys, HeaderKey, Keys, PacketKey, PacketKeys, TAG_LEN};
use crate::version::Version;

/// A traffic secret: as long as the cipher suite's hash.
#[derive(Copy, Clone)]
pub(super) struct Secret {
    bytes: [u8; 48],
    len: usize,
}

impl Secret {
    /// `None` if `bytes` is longer than any hash of TLS 1.3.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let mut secret = Self { bytes: [0; 48], len: bytes.len() };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What a cipher suite is made of.
#[derive(Copy, Clone)]
struct Suite {
    aead: &'static aead::Algorithm,
    header: &'static aead::quic::Algorithm,
    hash: hkdf::Algorithm,
    /// RFC 9001 section 6.6.
    confidentiality_limit: u64,
    /// RFC 9001 section 6.6.
    integrity_limit: u64,
}

impl Suite {
    fn of(suite: CipherSuite) -> Option<Self> {
        let (aead, header, hash) = match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => (&aead::AES_128_GCM, &aead::quic::AES_128, hkdf::HKDF_SHA256),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => (&aead::AES_256_GCM, &aead::quic::AES_256, hkdf::HKDF_SHA384),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
                (&aead::CHACHA20_POLY1305, &aead::quic::CHACHA20, hkdf::HKDF_SHA256)
            }
            _ => return None,
        };
        let (confidentiality_limit, integrity_limit) = match suite {
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (u64::MAX, 1 << 36),
            _ => (1 << 23, 1 << 52),
        };
        Some(Self { aead, header, hash, confidentiality_limit, integrity_limit })
    }
}

/// The traffic secrets of one level, or of one generation of 1-RTT keys.
pub(super) struct TrafficSecrets {
    suite: Suite,
    version: Version,
    local: Secret,
    remote: Secret,
}

impl TrafficSecrets {
    /// `None` for a cipher suite that QUIC does not know.
    pub(super) fn new(suite: CipherSuite, version: Version, local: Secret, remote: Secret) -> Option<Self> {
        Some(Self { suite: Suite::of(suite)?, version, local, remote })
    }

    /// The keys of both directions.
    pub(super) fn keys(&self) -> Keys {
        let direction = |secret| DirectionKeys {
            header: Box::new(self.header_key(secret)),
            packet: Box::new(self.packet_key(secret)),
        };
        Keys { local: direction(&self.local), remote: direction(&self.remote) }
    }

    /// Goes one key update further (RFC 9001 section 6.1).
    pub(super) fn update(&mut self) -> PacketKeys {
        let ku = self.version.labels().ku;
        for secret in [&mut self.local, &mut self.remote] {
            let (before, len) = (*secret, secret.len);
            expand(&self.suite, &before, ku, &mut secret.bytes[..len]);
        }
        PacketKeys { local: Box::new(self.packet_key(&self.local)), remote: Box::new(self.packet_key(&self.remote)) }
    }

    fn packet_key(&self, secret: &Secret) -> RingPacketKey {
        let labels = self.version.labels();
        let mut key = [0; 32];
        let key = &mut key[..self.suite.aead.key_len()];
        expand(&self.suite, secret, labels.key, key);
        let mut iv = [0; aead::NONCE_LEN];
        expand(&self.suite, secret, labels.iv, &mut iv);
        let key = aead::UnboundKey::new(self.suite.aead, key).expect("the key is as long as the algorithm asks");
        RingPacketKey { key: aead::LessSafeKey::new(key), iv, suite: self.suite }
    }

    fn header_key(&self, secret: &Secret) -> RingHeaderKey {
        let mut key = [0; 32];
        let key = &mut key[..self.suite.header.key_len()];
        expand(&self.suite, secret, self.version.labels().hp, key);
        let key = aead::quic::HeaderProtectionKey::new(self.suite.header, key)
            .expect("the key is as long as the algorithm asks");
        RingHeaderKey(key)
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
fn expand(suite: &Suite, secret: &Secret, label: &[u8], out: &mut [u8]) {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    const PREFIX: &[u8] = b"tls13 ";
    let out_len = (out.len() as u16).to_be_bytes();
    let label_len = [(PREFIX.len() + label.len()) as u8];
    let info: [&[u8]; 5] = [&out_len, &label_len, PREFIX, label, &[0]];
    hkdf::Prk::new_less_safe(suite.hash, secret.as_slice())
        .expand(&info, Len(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("a key is shorter than 255 hashes");
}

struct RingPacketKey {
    key: aead::LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    suite: Suite,
}

/// RFC 9001 section 5.3, with the path identifier in the upper bytes (draft-ietf-quic-multipath-21 section 2.4).
fn nonce(mut iv: [u8; aead::NONCE_LEN], path: u32, number: u64) -> [u8; aead::NONCE_LEN] {
    for (byte, part) in iv.iter_mut().zip(path.to_be_bytes().into_iter().chain(number.to_be_bytes())) {
        *byte ^= part;
    }
    iv
}

impl RingPacketKey {
    /// See [`nonce`].
    fn nonce(&self, path: u32, number: u64) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(nonce(self.iv, path, number))
    }
}

impl PacketKey for RingPacketKey {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload_and_tag: &mut [u8]) -> Result<(), CryptoError> {
        let plain_len = payload_and_tag.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        let (payload, tag) = payload_and_tag.split_at_mut(plain_len);
        let nonce = self.nonce(path, number);
        let sealed = self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(header), payload);
        tag.copy_from_slice(sealed.map_err(|_| CryptoError)?.as_ref());
        Ok(())
    }

    fn open(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<usize, DecryptError> {
        let nonce = self.nonce(path, number);
        let opened = self.key.open_in_place(nonce, aead::Aad::from(header), payload);
        opened.map(|plain| plain.len()).map_err(|_| DecryptError)
    }

    fn confidentiality_limit(&self) -> u64 {
        self.suite.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.suite.integrity_limit
    }
}

struct RingHeaderKey(aead::quic::HeaderProtectionKey);

impl RingHeaderKey {
    /// The mask of the first byte, and that of the packet number (RFC 9001 section 5.4.1).
    fn mask(&self, sample: &[u8], first: u8) -> (u8, [u8; 4]) {
        // A sample of another length masks nothing, and the packet fails to open.
        let mask = self.0.new_mask(sample);
        debug_assert!(mask.is_ok(), "sample of wrong length");
        let [bits, number @ ..] = mask.unwrap_or_default();
        let masked = if first & 0x80 != 0 { 0x0f } else { 0x1f };
        (bits & masked, number)
    }
}

fn mask_number(first_in_clear: u8, number: &mut [u8], mask: [u8; 4]) {
    let len = usize::from(first_in_clear & 0x03) + 1;
    for (byte, mask) in number.iter_mut().zip(mask).take(len) {
        *byte ^= mask;
    }
}

impl HeaderKey for RingHeaderKey {
    fn sample_len(&self) -> usize {
        self.0.algorithm().sample_len()
    }

    fn protect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        let (bits, mask) = self.mask(sample, *first);
        mask_number(*first, number, mask);
        *first ^= bits;
    }

    fn unprotect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        let (bits, mask) = self.mask(sample, *first);
        *first ^= bits;
        mask_number(*first, number, mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::initial::samples;

    #[test]
    fn draft_multipath_2_4_the_nonce_is_that_of_the_drafts_example() {
        let iv = [0x6b, 0x26, 0x11, 0x4b, 0x9c, 0xba, 0x2b, 0x63, 0xa9, 0xe8, 0xdd, 0x4f];
        let expected = [0x6b, 0x26, 0x11, 0x48, 0x9c, 0xba, 0x2b, 0x63, 0xa9, 0xe8, 0x09, 0x7e];
        assert_eq!(nonce(iv, 3, 54_321), expected);
    }

    #[test]
    fn keys_and_updates_are_those_of_the_rfcs_appendix_a() {
        for version in [Version::V1, Version::V2] {
            let secret = Secret::new(&samples::sample(version, "chacha20_secret")).unwrap();
            let suite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
            let mut secrets = TrafficSecrets::new(suite, version, secret, secret).unwrap();
            let packet = samples::protect(&secrets.keys().local, 654_360_564, &[0x42, 0x00, 0xbf, 0xf4], &[0x01]);
            assert_eq!(packet, samples::sample(version, "chacha20_packet"));
            secrets.update();
            assert_eq!(secrets.local.as_slice(), samples::sample(version, "chacha20_ku"));
        }
    }

    #[test]
    fn impossible_secrets_and_suites_are_refused() {
        assert!(Secret::new(&[0; 49]).is_none());
        let secret = Secret::new(&[0; 32]).unwrap();
        let suite = CipherSuite::TLS13_AES_128_CCM_8_SHA256;
        assert!(TrafficSecrets::new(suite, Version::V1, secret, secret).is_none());
    }
}
