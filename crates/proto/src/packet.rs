//! Packet headers (RFC 9000 section 17, RFC 8999, RFC 9369): parsing without keys, packet numbers, and writing.
//!
//! Receiving is in three steps. [`Partial::parse`] reads what is not protected and finds where the packet ends, so that
//! coalesced packets can be walked. [`Partial::unprotect`] removes header protection. After the payload is opened,
//! [`check_reserved_bits`] may accuse the peer.
//!
//! Sending appends to a buffer: a header, which yields a [`HeaderMark`]; frames; space for the tag; then
//! [`HeaderMark::seal`] fills in length, encryption and header protection.

use std::ops::Range;

use rand_core::Rng;

use crate::cid::{ConnectionId, MAX_CID_LEN};
use crate::crypto::{CryptoError, HeaderKey, Level, PacketKey};
use crate::error::TransportError;
use crate::varint::{self, Reader};
pub use crate::version::LongType;
use crate::version::Version;

/// Header form: set in long headers (RFC 8999 section 5).
const LONG: u8 = 0x80;
/// The "QUIC bit": set unless the peer agreed to grease it (RFC 9287).
const FIXED_BIT: u8 = 0x40;
const LONG_RESERVED: u8 = 0x0c;
const SHORT_RESERVED: u8 = 0x18;
const SPIN: u8 = 0x20;
const KEY_PHASE: u8 = 0x04;
const NUMBER_LEN: u8 = 0x03;
/// The length of the integrity tag that ends a Retry packet, in bytes.
pub const RETRY_TAG_LEN: usize = 16;
/// The largest value of the Length field as we write it: two bytes.
const MAX_LENGTH_FIELD: usize = 0x3fff;

// ---- receiving ------------------------------------------------------------------------------------------------------

/// Why a packet's header cannot be processed. The packet is dropped, never answered with an error.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The bytes end within the header, or before the end that the header promises.
    #[error("packet is truncated")]
    Truncated,
    /// A connection ID is longer than 20 bytes in a version that limits it so.
    #[error("connection ID is longer than 20 bytes")]
    ConnectionIdTooLong,
    /// A version that we do not speak. [`Invariants`] can still be read, to answer with a Version Negotiation.
    #[error("version {0} is not supported")]
    UnsupportedVersion(Version),
    /// The packet is too short for a header protection sample.
    #[error("packet is too short for a header protection sample")]
    TooShort,
}

/// What every version of QUIC has in common in long headers (RFC 8999 section 5.1). Connection IDs may have up to 255
/// bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Invariants<'a> {
    /// The version; 0 marks a Version Negotiation packet.
    pub version: Version,
    /// Destination connection ID.
    pub dcid: &'a [u8],
    /// Source connection ID.
    pub scid: &'a [u8],
}

impl<'a> Invariants<'a> {
    /// Reads a long header of any version. `None` for short headers and truncated ones.
    pub fn parse(datagram: &'a [u8]) -> Option<Invariants<'a>> {
        Invariants::read(&mut Reader::new(datagram))
    }

    fn read(reader: &mut Reader<'a>) -> Option<Invariants<'a>> {
        let first = reader.u8()?;
        if first & LONG == 0 {
            return None;
        }
        Some(Invariants { version: Version(reader.u32()?), dcid: reader.u8_bytes()?, scid: reader.u8_bytes()? })
    }
}

/// Whether a datagram starts with a long header.
#[inline]
pub fn is_long(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & LONG != 0)
}

/// The destination connection ID of the first packet of a datagram, whatever its version.
/// `local_cid_len` is the length of the IDs we issue, which a short header does not state.
#[inline]
pub fn destination_cid(datagram: &[u8], local_cid_len: usize) -> Option<&[u8]> {
    if is_long(datagram) {
        Invariants::parse(datagram).map(|header| header.dcid)
    } else {
        datagram.get(1..1 + local_cid_len)
    }
}

/// The destination connection ID of a datagram that begins with a short header (RFC 9000 section 17.3), where all IDs
/// that we issue have `LEN` bytes.
#[inline]
pub fn short_header_cid<const LEN: usize>(datagram: &[u8]) -> Option<[u8; LEN]> {
    let (first, rest) = datagram.split_first()?;
    if first & LONG == 0 { rest.first_chunk().copied() } else { None }
}

/// The destination connection ID of a datagram whose sender has it from us: it begins with a 1-RTT packet, where all
/// IDs that we issue have `local_cid_len` bytes, or with a Handshake packet. The ID of an Initial or 0-RTT packet may
/// be the client's invention (RFC 9000 section 7.2).
#[inline]
pub fn issued_cid(datagram: &[u8], local_cid_len: usize) -> Option<&[u8]> {
    let first = *datagram.first()?;
    if first & LONG == 0 {
        return datagram.get(1..1 + local_cid_len);
    }
    let header = Invariants::parse(datagram)?;
    let is_handshake =
        header.version != Version::NEGOTIATION && header.version.long_type((first >> 4) & 0b11) == LongType::Handshake;
    is_handshake.then_some(header.dcid)
}

/// The unprotected fields of a header. Ranges count from the start of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// Initial.
    Initial {
        /// Version.
        version: Version,
        /// Destination connection ID.
        dcid: ConnectionId,
        /// Source connection ID.
        scid: ConnectionId,
        /// Where the token stands; empty if there is none.
        token: Range<usize>,
    },
    /// 0-RTT.
    ZeroRtt {
        /// Version.
        version: Version,
        /// Destination connection ID.
        dcid: ConnectionId,
        /// Source connection ID.
        scid: ConnectionId,
    },
    /// Handshake.
    Handshake {
        /// Version.
        version: Version,
        /// Destination connection ID.
        dcid: ConnectionId,
        /// Source connection ID.
        scid: ConnectionId,
    },
    /// Retry. The integrity tag is the last 16 bytes of the packet.
    Retry {
        /// Version.
        version: Version,
        /// Destination connection ID.
        dcid: ConnectionId,
        /// Source connection ID.
        scid: ConnectionId,
        /// Where the token stands. May be empty, which a client must refuse.
        token: Range<usize>,
    },
    /// Version Negotiation with connection IDs of at most 20 bytes, as an answer to our own packets has.
    VersionNegotiation {
        /// Destination connection ID.
        dcid: ConnectionId,
        /// Source connection ID.
        scid: ConnectionId,
        /// Where the list of versions stands: see [`versions`].
        versions: Range<usize>,
    },
    /// 1-RTT.
    Short {
        /// Destination connection ID.
        dcid: ConnectionId,
        /// The latency spin bit (RFC 9000 section 17.4).
        spin: bool,
    },
}

impl Header {
    /// Destination connection ID.
    pub fn dcid(&self) -> &ConnectionId {
        match self {
            Header::Initial { dcid, .. }
            | Header::ZeroRtt { dcid, .. }
            | Header::Handshake { dcid, .. }
            | Header::Retry { dcid, .. }
            | Header::VersionNegotiation { dcid, .. }
            | Header::Short { dcid, .. } => dcid,
        }
    }

    /// Source connection ID; `None` in short headers.
    pub fn scid(&self) -> Option<&ConnectionId> {
        match self {
            Header::Initial { scid, .. }
            | Header::ZeroRtt { scid, .. }
            | Header::Handshake { scid, .. }
            | Header::Retry { scid, .. }
            | Header::VersionNegotiation { scid, .. } => Some(scid),
            Header::Short { .. } => None,
        }
    }

    /// The version; `None` in short headers and Version Negotiation.
    pub fn version(&self) -> Option<Version> {
        match self {
            Header::Initial { version, .. }
            | Header::ZeroRtt { version, .. }
            | Header::Handshake { version, .. }
            | Header::Retry { version, .. } => Some(*version),
            Header::VersionNegotiation { .. } | Header::Short { .. } => None,
        }
    }

    /// The encryption level; `None` for Retry and Version Negotiation, which are not encrypted.
    #[inline]
    pub fn level(&self) -> Option<Level> {
        match self {
            Header::Initial { .. } => Some(Level::Initial),
            Header::ZeroRtt { .. } => Some(Level::EarlyData),
            Header::Handshake { .. } => Some(Level::Handshake),
            Header::Short { .. } => Some(Level::OneRtt),
            Header::Retry { .. } | Header::VersionNegotiation { .. } => None,
        }
    }
}

/// A packet whose header is read as far as it goes without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The unprotected fields.
    pub header: Header,
    /// Whether the "QUIC bit" is set. A packet without it MUST be discarded (RFC 9000 sections 17.2, 17.3), unless it
    /// is Version Negotiation or we advertised grease_quic_bit (RFC 9287).
    pub fixed_bit: bool,
    /// Where the packet number starts, from the start of the packet. Equals `len` in packets without one.
    pub number_offset: usize,
    /// The length of the packet in bytes.
    pub len: usize,
}

impl Partial {
    /// Reads the packet at the start of `datagram`. Returns it and the offset of the next coalesced packet, which is
    /// the datagram's length if there is none.
    ///
    /// # Errors
    /// The rest of the datagram is to be dropped: without this packet's length nothing after it can be found.
    pub fn parse(datagram: &[u8], local_cid_len: usize) -> Result<(Partial, usize), HeaderError> {
        let first = *datagram.first().ok_or(HeaderError::Truncated)?;
        if first & LONG != 0 {
            return Partial::parse_long(datagram, first);
        }
        let dcid = datagram.get(1..1 + local_cid_len).ok_or(HeaderError::Truncated)?;
        let dcid = ConnectionId::new(dcid).ok_or(HeaderError::ConnectionIdTooLong)?;
        let partial = Partial {
            header: Header::Short { dcid, spin: first & SPIN != 0 },
            fixed_bit: first & FIXED_BIT != 0,
            number_offset: 1 + local_cid_len,
            len: datagram.len(),
        };
        Ok((partial, datagram.len()))
    }

    fn parse_long(datagram: &[u8], first: u8) -> Result<(Partial, usize), HeaderError> {
        let mut reader = Reader::new(datagram);
        let Invariants { version, dcid, scid } = Invariants::read(&mut reader).ok_or(HeaderError::Truncated)?;
        if version != Version::NEGOTIATION && !version.is_supported() {
            return Err(HeaderError::UnsupportedVersion(version));
        }
        let cid = |bytes| ConnectionId::new(bytes).ok_or(HeaderError::ConnectionIdTooLong);
        let (dcid, scid) = (cid(dcid)?, cid(scid)?);
        let offset = |reader: &Reader<'_>| datagram.len() - reader.remaining();
        let unnumbered = |header| {
            let partial = Partial {
                header,
                fixed_bit: first & FIXED_BIT != 0,
                number_offset: datagram.len(),
                len: datagram.len(),
            };
            Ok((partial, datagram.len()))
        };

        if version == Version::NEGOTIATION {
            let versions = offset(&reader)..datagram.len();
            return unnumbered(Header::VersionNegotiation { dcid, scid, versions });
        }
        let header = match version.long_type(first >> 4) {
            LongType::Retry => {
                let start = offset(&reader);
                let end = datagram.len().checked_sub(RETRY_TAG_LEN).filter(|end| *end >= start);
                let token = start..end.ok_or(HeaderError::Truncated)?;
                return unnumbered(Header::Retry { version, dcid, scid, token });
            }
            LongType::Initial => {
                let token = reader.varint_bytes().ok_or(HeaderError::Truncated)?;
                let end = offset(&reader);
                Header::Initial { version, dcid, scid, token: end - token.len()..end }
            }
            LongType::ZeroRtt => Header::ZeroRtt { version, dcid, scid },
            LongType::Handshake => Header::Handshake { version, dcid, scid },
        };
        let length = reader.varint().ok_or(HeaderError::Truncated)?;
        let number_offset = offset(&reader);
        if length > reader.remaining() as u64 {
            return Err(HeaderError::Truncated);
        }
        let len = number_offset + length as usize;
        Ok((Partial { header, fixed_bit: first & FIXED_BIT != 0, number_offset, len }, len))
    }

    /// Removes header protection from `packet`, which starts where the packet does (RFC 9001 section 5.4).
    ///
    /// `largest` is the largest packet number successfully opened in this space, from which the full number follows.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`] if there is no room for a sample; the packet is to be dropped.
    pub fn unprotect(
        &self,
        packet: &mut [u8],
        key: &dyn HeaderKey,
        largest: Option<u64>,
    ) -> Result<Unprotected, HeaderError> {
        let packet = packet.get_mut(..self.len).ok_or(HeaderError::Truncated)?;
        let (head, tail) = packet.split_at_mut_checked(self.number_offset).ok_or(HeaderError::TooShort)?;
        let (number, rest) = tail.split_at_mut_checked(4).ok_or(HeaderError::TooShort)?;
        let sample = rest.get(..key.sample_len()).ok_or(HeaderError::TooShort)?;
        let first = head.first_mut().ok_or(HeaderError::TooShort)?;
        key.unprotect(sample, first, number);
        let number_len = usize::from(*first & NUMBER_LEN) + 1;
        let truncated = number[..number_len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Ok(Unprotected {
            first: *first,
            number: expand_number(largest, truncated, number_len),
            payload: self.number_offset + number_len..self.len,
        })
    }
}

/// What header protection hid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The first byte of the header without protection.
    pub first: u8,
    /// The full packet number.
    pub number: u64,
    /// The encrypted payload with its tag, from the start of the packet; everything before it is the header.
    pub payload: Range<usize>,
}

impl Unprotected {
    /// The key phase bit of a short header (RFC 9001 section 6).
    #[inline]
    pub fn key_phase(&self) -> bool {
        self.first & KEY_PHASE != 0
    }
}

/// Checks the reserved bits of a header. To be called after the payload has been opened, so that a forger cannot end
/// the connection.
///
/// # Errors
/// PROTOCOL_VIOLATION if one is set (RFC 9000 sections 17.2 and 17.3.1).
#[inline]
pub fn check_reserved_bits(unprotected_first: u8) -> Result<(), TransportError> {
    let reserved = if unprotected_first & LONG != 0 { LONG_RESERVED } else { SHORT_RESERVED };
    if unprotected_first & reserved == 0 {
        Ok(())
    } else {
        Err(TransportError::protocol_violation("reserved bits of the header are set"))
    }
}

/// The versions listed in a Version Negotiation packet. A last piece of fewer than four bytes is ignored.
pub fn versions(list: &[u8]) -> impl Iterator<Item = Version> + '_ {
    list.chunks_exact(4).filter_map(|v| Some(Version(u32::from_be_bytes(v.try_into().ok()?))))
}

/// Whether the integrity tag of a Retry packet is the expected one. `tag` computes it from the packet without the tag
/// (RFC 9001 section 5.8).
pub fn verify_retry(packet: &[u8], tag: impl FnOnce(&[u8]) -> [u8; RETRY_TAG_LEN]) -> bool {
    packet.split_last_chunk::<RETRY_TAG_LEN>().is_some_and(|(body, received)| tag(body) == *received)
}

// ---- packet numbers -------------------------------------------------------------------------------------------------

/// How many bytes of `number` to send so that the peer can recover it (RFC 9000 section 17.1 and appendix A.2): enough
/// for more than twice the distance to the largest number the peer acknowledged.
#[inline]
pub fn number_len(number: u64, largest_acked: Option<u64>) -> usize {
    let unacked = match largest_acked {
        Some(acked) => number.saturating_sub(acked),
        None => number.saturating_add(1),
    };
    match unacked {
        0..=0x7f => 1,
        0x80..=0x7fff => 2,
        0x8000..=0x7f_ffff => 3,
        _ => 4,
    }
}

/// The full packet number whose lowest `len` bytes are `truncated`: the closest to the next expected one (RFC 9000
/// appendix A.3).
#[inline]
pub fn expand_number(largest: Option<u64>, truncated: u64, len: usize) -> u64 {
    let expected = largest.map_or(0, |n| n + 1);
    let window = 1u64 << (8 * len);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[inline]
fn put_number(out: &mut Vec<u8>, number: u64, len: usize) {
    out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
}

// ---- sending --------------------------------------------------------------------------------------------------------

/// Where a written header stands in the buffer, to finish the packet with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeaderMark {
    /// Where the packet starts.
    pub start: usize,
    /// Where the packet number starts.
    pub number_pos: usize,
    /// The length of the packet number in bytes.
    pub number_len: usize,
    /// The full packet number.
    pub number: u64,
    is_long: bool,
}

impl HeaderMark {
    /// Where the payload starts.
    #[inline]
    pub fn payload_pos(&self) -> usize {
        self.number_pos + self.number_len
    }

    /// The fewest payload bytes, without tag, that leave room for the header protection sample (RFC 9001 section
    /// 5.4.2).
    #[inline]
    pub fn min_payload(&self) -> usize {
        4 - self.number_len
    }

    /// Clears the "QUIC bit", which a peer that sent grease_quic_bit tolerates (RFC 9287). Before [`seal`](Self::seal).
    pub fn clear_fixed_bit(&self, buf: &mut [u8]) {
        if let Some(first) = buf.get_mut(self.start) {
            *first &= !FIXED_BIT;
        }
    }

    /// Writes the Length field of a long header for a packet that ends at `end`, tag included. No effect on a short
    /// header.
    pub fn patch_length(&self, buf: &mut [u8], end: usize) {
        if !self.is_long {
            return;
        }
        let length = end - self.number_pos;
        debug_assert!(length <= MAX_LENGTH_FIELD, "packet too long for its length field");
        if let Some(field) = buf.get_mut(self.number_pos - 2..self.number_pos) {
            field.copy_from_slice(&(0x4000 | length.min(MAX_LENGTH_FIELD) as u16).to_be_bytes());
        }
    }

    /// Finishes the packet: pads it with PADDING frames to what a sample needs, adds the tag, writes the length,
    /// encrypts and protects the header. The packet then ends where `buf` ends.
    ///
    /// `path` is the multipath path identifier, 0 otherwise.
    ///
    /// # Errors
    /// [`CryptoError`] if the packet is too long for the AEAD; what is in `buf` from `start` on is then unusable.
    pub fn seal(
        &self,
        buf: &mut Vec<u8>,
        path: u32,
        packet_key: &dyn PacketKey,
        header_key: &dyn HeaderKey,
    ) -> Result<(), CryptoError> {
        let end = buf.len().max(self.payload_pos() + self.min_payload()) + packet_key.tag_len();
        buf.resize(end, 0);
        self.patch_length(buf, end);
        let (header, payload) = buf[self.start..].split_at_mut(self.payload_pos() - self.start);
        packet_key.seal(path, self.number, header, payload)?;

        let (header, rest) = buf[self.start..].split_at_mut(self.payload_pos() - self.start);
        let (head, number) = header.split_at_mut(self.number_pos - self.start);
        let sample_start = 4 - self.number_len;
        let sample = rest.get(sample_start..sample_start + header_key.sample_len()).ok_or(CryptoError)?;
        header_key.protect(sample, &mut head[0], number);
        Ok(())
    }
}

/// The length in bytes of the long header that [`write_long_header`] writes, packet number included.
#[inline]
pub const fn long_header_len(ty: LongType, dcid: usize, scid: usize, token: usize, number_len: usize) -> usize {
    let token = if matches!(ty, LongType::Initial) { varint::len(token as u64) + token } else { 0 };
    1 + 4 + 1 + dcid + 1 + scid + token + 2 + number_len
}

/// The length in bytes of the short header that [`write_short_header`] writes, packet number included.
#[inline]
pub const fn short_header_len(dcid: usize, number_len: usize) -> usize {
    1 + dcid + number_len
}

/// Appends the header of an Initial, 0-RTT or Handshake packet, with two bytes of length yet to be written.
///
/// `token` is written in Initial packets only. `number_len` is 1 to 4, as [`number_len`] says.
#[allow(clippy::too_many_arguments)] // the fields of the header, in their order
pub fn write_long_header(
    buf: &mut Vec<u8>,
    ty: LongType,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    number: u64,
    number_len: usize,
) -> HeaderMark {
    debug_assert!(ty != LongType::Retry, "a Retry has no packet number: see write_retry");
    let start = buf.len();
    buf.push(LONG | FIXED_BIT | version.long_type_bits(ty) << 4 | (number_len as u8 - 1));
    put_ids(buf, version, dcid, scid);
    if ty == LongType::Initial {
        varint::encode(token.len() as u64, buf);
        buf.extend_from_slice(token);
    }
    buf.extend_from_slice(&[0x40, 0]);
    let number_pos = buf.len();
    put_number(buf, number, number_len);
    HeaderMark { start, number_pos, number_len, number, is_long: true }
}

/// Appends the header of a 1-RTT packet.
#[inline]
pub fn write_short_header(
    buf: &mut Vec<u8>,
    dcid: &ConnectionId,
    spin: bool,
    key_phase: bool,
    number: u64,
    number_len: usize,
) -> HeaderMark {
    // Put together where all sizes are known, and copied at once: there is one for each packet.
    let mut header = [0; 1 + MAX_CID_LEN + 4];
    let spin = if spin { SPIN } else { 0 };
    let key_phase = if key_phase { KEY_PHASE } else { 0 };
    header[0] = FIXED_BIT | spin | key_phase | (number_len as u8 - 1);
    header[1..=MAX_CID_LEN].copy_from_slice(dcid.padded());
    let number_at = (1 + dcid.len()).min(1 + MAX_CID_LEN);
    let bytes = (number << (64 - 8 * number_len)).to_be_bytes();
    header[number_at..number_at + 4].copy_from_slice(&bytes[..4]);
    let start = buf.len();
    buf.extend_from_slice(&header[..number_at + number_len]);
    let number_pos = start + number_at;
    HeaderMark { start, number_pos, number_len, number, is_long: false }
}

fn put_ids(buf: &mut Vec<u8>, version: Version, dcid: &[u8], scid: &[u8]) {
    buf.extend_from_slice(&version.0.to_be_bytes());
    for cid in [dcid, scid] {
        buf.push(cid.len() as u8);
        buf.extend_from_slice(cid);
    }
}

/// Appends a Retry packet (RFC 9000 section 17.2.5). `tag` computes the integrity tag from the packet without it.
pub fn write_retry(
    buf: &mut Vec<u8>,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    tag: impl FnOnce(&[u8]) -> [u8; RETRY_TAG_LEN],
) {
    let start = buf.len();
    buf.push(LONG | FIXED_BIT | version.long_type_bits(LongType::Retry) << 4);
    put_ids(buf, version, dcid, scid);
    buf.extend_from_slice(token);
    let tag = tag(&buf[start..]);
    buf.extend_from_slice(&tag);
}

/// Appends a Version Negotiation packet in answer to a packet with these connection IDs (RFC 9000 section 17.2.1): its
/// source becomes our destination. A reserved version is added, to keep clients tolerant (section 6.3).
pub fn write_version_negotiation(
    buf: &mut Vec<u8>,
    received: &Invariants<'_>,
    supported: &[Version],
    rng: &mut (impl Rng + ?Sized),
) {
    // The seven lower bits are arbitrary; the QUIC bit is set so that QUIC can share a port (section 17.2.1).
    buf.push(LONG | FIXED_BIT | (rng.next_u32() as u8 & 0x3f));
    put_ids(buf, Version::NEGOTIATION, clip(received.scid), clip(received.dcid));
    buf.extend_from_slice(&Version::grease(rng, received.version).0.to_be_bytes());
    for version in supported {
        buf.extend_from_slice(&version.0.to_be_bytes());
    }
}

/// The at most 255 bytes that an ID length byte can count; IDs that were parsed never have more.
fn clip(cid: &[u8]) -> &[u8] {
    &cid[..cid.len().min(255)]
}

/// Appends a stateless reset of `len` bytes (at least 21): it looks like a short header packet and ends with the token
/// (RFC 9000 section 10.3).
pub fn write_stateless_reset(
    buf: &mut Vec<u8>,
    token: &crate::cid::ResetToken,
    len: usize,
    rng: &mut (impl Rng + ?Sized),
) {
    let start = buf.len();
    let len = len.max(MIN_STATELESS_RESET);
    buf.resize(start + len - token.0.len(), 0);
    rng.fill_bytes(&mut buf[start..]);
    buf[start] = FIXED_BIT | (buf[start] & 0x3f);
    buf.extend_from_slice(&token.0);
}

/// The length of the smallest stateless reset, in bytes (RFC 9000 section 10.3).
pub const MIN_STATELESS_RESET: usize = 21;

/// The token at the end of a datagram that may be a stateless reset. `None` if it is too short, or starts with a long
/// header.
pub fn possible_reset_token(datagram: &[u8]) -> Option<crate::cid::ResetToken> {
    if datagram.len() < MIN_STATELESS_RESET || is_long(datagram) {
        return None;
    }
    datagram.last_chunk().map(|token| crate::cid::ResetToken(*token))
}

const _: () = assert!(MAX_CID_LEN <= u8::MAX as usize);

#[cfg(test)]
mod tests;
