//! Keys as the connection uses them: encryption levels, packet protection and header protection (RFC 9001 sections 4
//! and 5).

use super::error::{CryptoError, DecryptError};

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

    /// How many packets may fail to open, over all generations of keys, before the connection must end with
    /// AEAD_LIMIT_REACHED (RFC 9001 section 6.6).
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
