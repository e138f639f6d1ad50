//! Errors of the crypto interface, whoever implements it.

use crate::version::Version;

/// Sealing failed: the packet is longer than the AEAD allows, or its tag space is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet cannot be sealed: too long for the AEAD, or shorter than its tag")]
pub struct CryptoError;

/// Opening failed: corrupted, forged, or protected with other keys. The datagram's bytes are unusable afterwards.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet does not authenticate under these keys")]
pub struct DecryptError;

/// Keying material cannot be exported (RFC 8446 section 7.5): the handshake is not complete, or more was asked than
/// HKDF yields.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keying material cannot be exported before the handshake is complete, nor more than 255 hash lengths of it")]
pub struct ExportError;

/// A session could not be started. The peer has no part in this: the cause is local.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The name is neither a DNS name nor an IP address.
    #[error("\"{0}\" is not a server name: give a DNS name such as \"example.org\" or an IP address without port")]
    InvalidServerName(String),
    /// There are no keys for this version.
    #[error("no keys for QUIC version {0:?}: versions 1 and 2 are supported")]
    UnsupportedVersion(Version),
    /// The TLS configuration cannot be used for QUIC.
    #[error("TLS configuration unusable for QUIC: {0}")]
    Config(String),
}
