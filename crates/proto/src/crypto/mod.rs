//! The crypto seam: what the connection asks of TLS and of packet protection (RFC 9001), with rustls, null and seeded implementations.
//!
//! The connection owns packets, numbers and timing; behind these traits live secrets. Three implementations exist:
//! - [`rustls`]: what goes on the wire, and into the lab by default;
//! - [`null`]: the real handshake, but packets carry a checksum instead of being encrypted; sizes are identical (for large sweeps);
//! - [`deterministic`]: rustls with seeded chance and a fixed clock, so that the same seed gives the same bytes.

pub mod config;
mod derive;
pub mod deterministic;
pub(crate) mod hello;
mod hooks;
pub mod initial;
pub mod null;
pub mod rustls;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls_words;

use ::rustls::pki_types::CertificateDer;

use crate::Side;
use crate::error::TransportError;
use crate::version::Version;

/// The length of a packet's authentication tag in bytes: the same for every AEAD of RFC 9001 section 5.3.
pub const TAG_LEN: usize = 16;

/// An encryption level: which keys protect a packet (RFC 9001 section 4).
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Keys derived from the client's first destination connection ID.
    Initial,
    /// 0-RTT keys: client to server only.
    EarlyData,
    /// Handshake keys.
    Handshake,
    /// 1-RTT keys; the only ones that are ever updated.
    OneRtt,
}

/// Sealing failed: the packet is longer than the AEAD allows, or its tag space is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet cannot be sealed: too long for the AEAD, or shorter than its tag")]
pub struct CryptoError;

/// Opening failed: corrupted, forged, or protected with other keys. The datagram's bytes are unusable afterwards.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet does not authenticate under these keys")]
pub struct DecryptError;

/// Keying material cannot be exported (RFC 8446 section 7.5): the handshake is not complete, or more was asked than HKDF yields.
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

/// Seals and opens packets of one direction at one level and key generation (RFC 9001 section 5.3).
pub trait PacketKey: Send + Sync {
    /// Encrypts in place. The last [`tag_len`](Self::tag_len) bytes of `payload_and_tag` are overwritten with the tag.
    ///
    /// `path` is 0 unless multipath is in use; it enters the nonce, as the multipath draft says. `header` is the
    /// unprotected header, up to and including the packet number.
    fn seal(&self, path: u32, number: u64, header: &[u8], payload_and_tag: &mut [u8]) -> Result<(), CryptoError>;

    /// Decrypts in place and returns the length of the plaintext, which starts where `payload` starts.
    ///
    /// On failure `payload` holds no meaningful bytes.
    fn open(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<usize, DecryptError>;

    /// The length of the authentication tag in bytes.
    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    /// How many packets these keys may seal before a key update is due (RFC 9001 section 6.6).
    fn confidentiality_limit(&self) -> u64;

    /// How many packets may fail to open, over all generations of keys, before the connection must end with AEAD_LIMIT_REACHED (RFC 9001 section 6.6).
    fn integrity_limit(&self) -> u64;
}

/// Masks and unmasks header bits and the packet number (RFC 9001 section 5.4). Unchanged by key updates.
pub trait HeaderKey: Send + Sync {
    /// The length of the ciphertext sample in bytes, taken 4 bytes after the start of the packet number.
    fn sample_len(&self) -> usize;

    /// Masks `first` and `number`. `number` is the encoded packet number, 1 to 4 bytes as `first` says.
    ///
    /// `sample` must be [`sample_len`](Self::sample_len) bytes.
    fn protect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]);

    /// Unmasks `first`, and of the four bytes of `number` as many as `first` then says are packet number.
    ///
    /// `sample` must be [`sample_len`](Self::sample_len) bytes.
    fn unprotect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]);
}

/// The keys of one direction at one level.
pub struct DirectionKeys {
    /// Header protection.
    pub header: Box<dyn HeaderKey>,
    /// Packet protection.
    pub packet: Box<dyn PacketKey>,
}

/// The keys of both directions at one level.
pub struct Keys {
    /// What we send with.
    pub local: DirectionKeys,
    /// What the peer sends with.
    pub remote: DirectionKeys,
}

/// The next generation of 1-RTT packet keys; header keys stay (RFC 9001 section 6).
pub struct PacketKeys {
    /// What we send with.
    pub local: Box<dyn PacketKey>,
    /// What the peer sends with.
    pub remote: Box<dyn PacketKey>,
}

/// New keys have come out of the handshake.
pub enum KeyChange {
    /// Handshake keys: what [`Session::write_handshake`] yields next belongs into Handshake packets.
    Handshake(Keys),
    /// The first 1-RTT keys: what [`Session::write_handshake`] yields next (session tickets) belongs into 1-RTT packets.
    OneRtt(Keys),
}

/// One TLS handshake and what came out of it.
pub trait Session: Send {
    /// Takes CRYPTO bytes in order; bytes of different levels in separate calls.
    ///
    /// # Errors
    /// CRYPTO_ERROR with the TLS alert (RFC 9001 section 4.8) and a reason that people understand.
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError>;

    /// The keys from now on are those of `version`: a server has answered our first flight in a version compatible with ours, but
    /// another (RFC 9368 section 2.3). 0-RTT keys stay those of the first flight (RFC 9369 section 4.1).
    ///
    /// Only on a client, and before the first CRYPTO bytes of the server are read; otherwise, or if there are no keys for the
    /// version, nothing changes and the answer is `false`. A server starts in the version it has chosen (see [`hello`]).
    fn switch_version(&mut self, version: Version) -> bool {
        let _ = version;
        false
    }

    /// Appends the bytes to send at the current level to `out`.
    ///
    /// A returned [`KeyChange`] means that following bytes belong to the next level: call again until nothing is appended and `None` is returned.
    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// The 0-RTT keys: local keys on a client (present from the start when a stored session allows 0-RTT), remote keys on a
    /// server (present once it has read a ClientHello whose 0-RTT it accepts).
    fn early_keys(&mut self) -> Option<DirectionKeys>;

    /// Whether 0-RTT data were accepted; `None` while that is undecided.
    fn early_data_accepted(&self) -> Option<bool>;

    /// The peer's encoded transport parameters (RFC 9001 section 8.2).
    ///
    /// On a client that resumes a session these are the remembered ones until the server's EncryptedExtensions arrive.
    fn transport_parameters(&self) -> Option<&[u8]>;

    /// Whether the TLS handshake is not yet complete (RFC 9001 section 4.1.1).
    fn is_handshaking(&self) -> bool;

    /// Whether an earlier session was resumed.
    fn resumed(&self) -> bool;

    /// The next generation of 1-RTT keys, each call one generation further; `None` before 1-RTT keys exist.
    ///
    /// Ask ahead of time, so that how long a peer's update takes tells nobody anything (RFC 9001 section 9.5).
    fn next_one_rtt(&mut self) -> Option<PacketKeys>;

    /// The application protocol agreed upon.
    fn alpn(&self) -> Option<&[u8]>;

    /// The name the client asked for.
    fn server_name(&self) -> Option<&str>;

    /// The peer's certificate chain, end entity first.
    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>>;

    /// Fills `out` with keying material bound to this connection (RFC 8446 section 7.5).
    ///
    /// # Errors
    /// If the handshake is not complete, or `out` is longer than 255 hash lengths.
    fn export(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError>;

    /// The cipher suite's registered name, for example `TLS13_AES_128_GCM_SHA256`.
    fn cipher_suite(&self) -> Option<&'static str>;
}

/// Starts client sessions.
pub trait ClientCrypto: Send + Sync {
    /// Starts a handshake with `server_name`, announcing the encoded transport parameters `params`.
    ///
    /// # Errors
    /// If the name or the version cannot be used.
    fn start(&self, version: Version, server_name: &str, params: &[u8]) -> Result<Box<dyn Session>, StartError>;

    /// The Initial keys, from the client's first destination connection ID (RFC 9001 section 5.2). `side` is ours.
    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        initial::keys(version, dcid, side)
    }

    /// The integrity tag of a Retry packet (RFC 9001 section 5.8).
    fn retry_tag(&self, version: Version, odcid: &[u8], retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
        initial::retry_tag(version, odcid, retry_without_tag)
    }
}

/// Starts server sessions.
pub trait ServerCrypto: Send + Sync {
    /// Starts a handshake that will answer with the encoded transport parameters `params`.
    ///
    /// # Errors
    /// If the version cannot be used.
    fn start(&self, version: Version, params: &[u8]) -> Result<Box<dyn Session>, StartError>;

    /// The Initial keys, from the client's first destination connection ID (RFC 9001 section 5.2). `side` is ours.
    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        initial::keys(version, dcid, side)
    }

    /// The integrity tag of a Retry packet (RFC 9001 section 5.8).
    fn retry_tag(&self, version: Version, odcid: &[u8], retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
        initial::retry_tag(version, odcid, retry_without_tag)
    }
}
