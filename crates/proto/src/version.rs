//! The QUIC versions we speak and everything that differs between them: version 1 (RFC 9000, 9001) and version 2 (RFC
//! 9369).

use std::fmt;

use rand_core::Rng;

/// A version number as it stands in a long header.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// The four types of long-header packet that a version defines (RFC 9000 section 17.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum LongType {
    /// Carries the first CRYPTO frames in either direction, and a token.
    Initial,
    /// Early data of a resumed session.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server's demand to prove the client's address.
    Retry,
}

/// The HKDF labels of packet protection (RFC 9001 section 5.1, RFC 9369 section 3.3.2), without the "tls13 " prefix.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    /// AEAD key.
    pub key: &'static [u8],
    /// AEAD initialisation vector.
    pub iv: &'static [u8],
    /// Header protection key.
    pub hp: &'static [u8],
    /// Next secret at a key update.
    pub ku: &'static [u8],
}

impl Version {
    /// QUIC version 1 (RFC 9000).
    pub const V1: Version = Version(1);
    /// QUIC version 2 (RFC 9369).
    pub const V2: Version = Version(0x6b33_43cf);
    /// The value that marks a Version Negotiation packet; never a version.
    pub const NEGOTIATION: Version = Version(0);
    /// All versions we speak, most widely deployed first.
    pub const SUPPORTED: &'static [Version] = &[Version::V1, Version::V2];

    /// Whether we speak this version.
    #[inline]
    pub fn is_supported(self) -> bool {
        self == Version::V1 || self == Version::V2
    }

    /// Whether the version is of the form 0x?a?a?a?a, reserved to exercise version negotiation (RFC 9000 section 15).
    #[inline]
    pub fn is_reserved(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }

    /// A reserved version drawn from `rng`, never equal to `not`. Sent to keep peers tolerant of versions they do not
    /// know.
    pub fn grease(rng: &mut (impl Rng + ?Sized), not: Version) -> Version {
        let version = Version((rng.next_u32() & 0xf0f0_f0f0) | 0x0a0a_0a0a);
        if version == not { Version(version.0 ^ 0x1000_0000) } else { version }
    }

    /// Whether a first flight of `self` can be understood as one of `other` (RFC 9368 section 2.2). Versions 1 and 2
    /// are compatible.
    pub fn is_compatible_with(self, other: Version) -> bool {
        self == other || (self.is_supported() && other.is_supported())
    }

    /// The salt of the initial secrets (RFC 9001 section 5.2, RFC 9369 section 3.3.1).
    pub fn initial_salt(self) -> &'static [u8; 20] {
        match self {
            Version::V2 => &[
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
                0xbd, 0x2e, 0xd9,
            ],
            _ => &[
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
                0xbb, 0x7f, 0x0a,
            ],
        }
    }

    /// The HKDF labels of packet protection.
    pub(crate) fn labels(self) -> Labels {
        match self {
            Version::V2 => Labels { key: b"quicv2 key", iv: b"quicv2 iv", hp: b"quicv2 hp", ku: b"quicv2 ku" },
            _ => Labels { key: b"quic key", iv: b"quic iv", hp: b"quic hp", ku: b"quic ku" },
        }
    }

    /// The AES-128-GCM key of the Retry integrity tag (RFC 9001 section 5.8, RFC 9369 section 3.3.3).
    pub fn retry_key(self) -> &'static [u8; 16] {
        match self {
            Version::V2 => {
                &[0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92]
            }
            _ => &[0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e],
        }
    }

    /// The nonce of the Retry integrity tag.
    pub fn retry_nonce(self) -> &'static [u8; 12] {
        match self {
            Version::V2 => &[0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
            _ => &[0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
        }
    }

    /// The two type bits of a long header, as a value 0 to 3 (RFC 9000 section 17.2, RFC 9369 section 3.2).
    #[inline]
    pub fn long_type_bits(self, ty: LongType) -> u8 {
        let v1 = match ty {
            LongType::Initial => 0,
            LongType::ZeroRtt => 1,
            LongType::Handshake => 2,
            LongType::Retry => 3,
        };
        if self == Version::V2 { (v1 + 1) & 3 } else { v1 }
    }

    /// The type that the two bits (0 to 3, higher bits ignored) name in this version.
    #[inline]
    pub fn long_type(self, bits: u8) -> LongType {
        let v1 = if self == Version::V2 { bits.wrapping_sub(1) } else { bits };
        match v1 & 3 {
            0 => LongType::Initial,
            1 => LongType::ZeroRtt,
            2 => LongType::Handshake,
            _ => LongType::Retry,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Version::V1 => f.write_str("v1"),
            Version::V2 => f.write_str("v2"),
            Version(other) => write!(f, "{other:#010x}"),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;
    use ring::aead;

    #[test]
    fn long_type_bits_follow_rfc_9000_17_2_and_rfc_9369_3_2() {
        use LongType::{Handshake, Initial, Retry, ZeroRtt};
        for (ty, v1, v2) in [(Initial, 0, 1), (ZeroRtt, 1, 2), (Handshake, 2, 3), (Retry, 3, 0)] {
            assert_eq!(Version::V1.long_type_bits(ty), v1);
            assert_eq!(Version::V2.long_type_bits(ty), v2);
            assert_eq!(Version::V1.long_type(v1), ty);
            assert_eq!(Version::V2.long_type(v2), ty);
        }
    }

    #[test]
    fn greased_versions_are_reserved_unsupported_and_not_the_one_in_use() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut last = Version::V1;
        for _ in 0..1000 {
            let version = Version::grease(&mut rng, last);
            assert!(version.is_reserved() && !version.is_supported() && version != last);
            last = version;
        }
        assert!(!Version::V1.is_reserved() && !Version::V2.is_reserved());
    }

    /// RFC 9001 appendix A.4 and RFC 9369 appendix A.4: the integrity tag of the sample Retry packets.
    #[test]
    fn retry_keys_and_nonces_reproduce_the_sample_retry_packets() {
        let odcid = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let scid_and_token = b"\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token";
        for (version, first, tag) in [
            (
                Version::V1,
                0xff,
                [0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24, 0x96, 0xba],
            ),
            (
                Version::V2,
                0xcf,
                [0xc8, 0x64, 0x6c, 0xe8, 0xbf, 0xe3, 0x39, 0x52, 0xd9, 0x55, 0x54, 0x36, 0x65, 0xdc, 0xc7, 0xb6],
            ),
        ] {
            let mut pseudo = vec![odcid.len() as u8];
            pseudo.extend_from_slice(&odcid);
            pseudo.push(first);
            pseudo.extend_from_slice(&version.0.to_be_bytes());
            pseudo.extend_from_slice(scid_and_token);
            let key = aead::UnboundKey::new(&aead::AES_128_GCM, version.retry_key()).unwrap();
            let got = aead::LessSafeKey::new(key)
                .seal_in_place_separate_tag(
                    aead::Nonce::assume_unique_for_key(*version.retry_nonce()),
                    aead::Aad::from(&pseudo),
                    &mut [],
                )
                .unwrap();
            assert_eq!(got.as_ref(), tag, "{version}");
        }
    }

    #[test]
    fn versions_one_and_two_are_compatible() {
        assert!(Version::V1.is_compatible_with(Version::V2));
        assert!(Version::V2.is_compatible_with(Version::V1));
        assert!(!Version::V1.is_compatible_with(Version(0x0a0a_0a0a)));
    }
}
