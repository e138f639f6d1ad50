//! Packet and header keys that rustls has derived (RFC 9001 section 5).

use ::rustls::quic;

use super::error::{CryptoError, DecryptError};
use super::keys::{DirectionKeys, HeaderKey, Keys, PacketKey};
use crate::version::Version;

/// rustls's name of a version, if it has keys for it.
pub(super) fn tls_version(version: Version) -> Option<quic::Version> {
    match version {
        Version::V1 => Some(quic::Version::V1),
        Version::V2 => Some(quic::Version::V2),
        _ => None,
    }
}

pub(super) struct TlsPacketKey(pub(super) Box<dyn quic::PacketKey>);

impl PacketKey for TlsPacketKey {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload_and_tag: &mut [u8]) -> Result<(), CryptoError> {
        let plain_len = payload_and_tag.len().checked_sub(self.0.tag_len()).ok_or(CryptoError)?;
        let (payload, tag) = payload_and_tag.split_at_mut(plain_len);
        let sealed = match path {
            0 => self.0.encrypt_in_place(number, header, payload),
            path => self.0.encrypt_in_place_for_path(path, number, header, payload),
        };
        tag.copy_from_slice(sealed.map_err(|_| CryptoError)?.as_ref());
        Ok(())
    }

    fn open(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<usize, DecryptError> {
        if payload.len() < self.0.tag_len() {
            return Err(DecryptError);
        }
        let opened = match path {
            0 => self.0.decrypt_in_place(number, header, payload),
            path => self.0.decrypt_in_place_for_path(path, number, header, payload),
        };
        opened.map(<[u8]>::len).map_err(|_| DecryptError)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

pub(super) struct TlsHeaderKey(pub(super) Box<dyn quic::HeaderProtectionKey>);

impl HeaderKey for TlsHeaderKey {
    fn sample_len(&self) -> usize {
        self.0.sample_len()
    }

    fn protect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        let done = self.0.encrypt_in_place(sample, first, number);
        debug_assert!(done.is_ok(), "sample or packet number of wrong length");
    }

    fn unprotect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        // With a wrong length nothing is unmasked, and the packet fails to open.
        let done = self.0.decrypt_in_place(sample, first, number);
        debug_assert!(done.is_ok(), "sample or packet number of wrong length");
    }
}

impl From<quic::DirectionalKeys> for DirectionKeys {
    fn from(keys: quic::DirectionalKeys) -> Self {
        Self { header: Box::new(TlsHeaderKey(keys.header)), packet: Box::new(TlsPacketKey(keys.packet)) }
    }
}

impl From<quic::Keys> for Keys {
    fn from(keys: quic::Keys) -> Self {
        Self { local: keys.local.into(), remote: keys.remote.into() }
    }
}
