//! Sessions: one TLS handshake and what comes out of it, and who starts them (RFC 9001 sections 4 and 8).

use ::rustls::pki_types::CertificateDer;

use super::error::{ExportError, StartError};
use super::initial;
use super::keys::{DirectionKeys, Keys, PacketKeys, TAG_LEN};
use crate::Side;
use crate::error::TransportError;
use crate::version::Version;

/// New keys have come out of the handshake.
pub enum KeyChange {
    /// Handshake keys: what [`Session::write_handshake`] yields next belongs into Handshake packets.
    Handshake(Keys),
    /// The first 1-RTT keys: what [`Session::write_handshake`] yields next (session tickets) belongs into 1-RTT
    /// packets.
    OneRtt(Keys),
}

/// One TLS handshake and what came out of it.
pub trait Session: Send {
    /// Takes CRYPTO bytes in order; bytes of different levels in separate calls.
    ///
    /// # Errors
    /// CRYPTO_ERROR with the TLS alert (RFC 9001 section 4.8) and a reason that people understand.
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError>;

    /// The keys from now on are those of `version`: a server has answered our first flight in a version compatible
    /// with ours, but another (RFC 9368 section 2.3). 0-RTT keys stay those of the first flight (RFC 9369 section 4.1).
    ///
    /// Only on a client, and before the first CRYPTO bytes of the server are read; otherwise, or if there are no keys
    /// for the version, nothing changes and the answer is `false`. A server starts in the version it has chosen (see
    /// `hello`).
    fn switch_version(&mut self, version: Version) -> bool {
        let _ = version;
        false
    }

    /// Appends the bytes to send at the current level to `out`.
    ///
    /// A returned [`KeyChange`] means that following bytes belong to the next level: call again until nothing is
    /// appended and `None` is returned.
    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// The 0-RTT keys: local keys on a client (present from the start when a stored session allows 0-RTT), remote keys
    /// on a server (present once it has read a ClientHello whose 0-RTT it accepts).
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
