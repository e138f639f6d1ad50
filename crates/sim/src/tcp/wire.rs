//! The TCP header (RFC 9293 section 3.1) with the options that matter here: maximum segment size, window scale, SACK
//! and timestamps.
//!
//! Data are zeros: what they mean travels beside the link (`content.rs`). Everything else is as on the wire, checksum
//! included, so that damage is noticed.

/// Bytes of a header without options.
pub(super) const HEADER: usize = 20;
/// Bytes of an IPv4 header: what the network adds to a segment.
pub(super) const IP_HEADER: u32 = 20;
/// Bytes of IPv4 and TCP headers without options.
pub(super) const HEADERS: u16 = IP_HEADER as u16 + HEADER as u16;
/// Bytes of the longest header: fifteen words.
const MOST_HEADER: usize = 60;
/// Bytes of its options.
const MOST_OPTIONS: usize = MOST_HEADER - HEADER;
/// SACK blocks that fit into the options (RFC 2018 section 3).
pub(super) const MAX_SACKS: usize = 4;
/// The same beside timestamps (RFC 2018 section 3).
pub(super) const STAMPED_SACKS: usize = 3;
/// Bytes of the timestamps option with its padding (RFC 7323 appendix A).
pub(super) const STAMPS: u16 = 12;

pub(super) const FIN: u16 = 0x01;
pub(super) const SYN: u16 = 0x02;
pub(super) const RST: u16 = 0x04;
pub(super) const PSH: u16 = 0x08;
pub(super) const ACK: u16 = 0x10;
pub(super) const ECE: u16 = 0x40;
pub(super) const CWR: u16 = 0x80;
pub(super) const AE: u16 = 0x100;

/// What a count of marked packets begins with in the ACE field (RFC 9768 section 3.2.1).
const FIRST_ACE: u64 = 5;
/// Values of the ACE field.
const ACES: u64 = 8;

/// The flags that carry a count of marked packets modulo 8, the ACE field (RFC 9768 section 3.2).
pub(super) fn ace(marked: u64) -> u16 {
    let count = (FIRST_ACE + marked) % ACES;
    let flag = |bit: u64, flag: u16| if count & bit != 0 { flag } else { 0 };
    flag(4, AE) | flag(2, CWR) | flag(1, ECE)
}

/// How many of `acked` newly delivered packets arrived marked, as far as the ACE field shows beyond a count of `marked`
/// before. Where more were delivered than the field can count, the most that it allows for (appendix A.2.1). None if it
/// shows more than were delivered: it is older than what is known.
pub(super) fn newly_marked(flags: u16, marked: u64, acked: u64) -> Option<u64> {
    let bit = |flag: u16, bit: u64| if flags & flag != 0 { bit } else { 0 };
    let field = bit(AE, 4) | bit(CWR, 2) | bit(ECE, 1);
    let least = (field + ACES - (FIRST_ACE + marked) % ACES) % ACES;
    (least <= acked).then(|| acked - (acked - least) % ACES)
}

/// Client ports begin here, and there are so many of them before the server's port has to differ.
const FIRST_PORT: u16 = 1_024;
const PORTS: u32 = 64_000;
const SERVER_PORT: u16 = 443;

/// A segment without its data.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Which connection of the flow: the pair of ports.
    pub(super) connection: u32,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) window: u16,
    /// On SYN: the shift of the window field.
    pub(super) scale: u8,
    /// On SYN: maximum segment size.
    pub(super) segment_size: u16,
    pub(super) sacks: [(u32, u32); MAX_SACKS],
    pub(super) sack_count: usize,
    /// TSval and TSecr (RFC 7323 section 3.2).
    pub(super) stamps: Option<(u32, u32)>,
}

impl Header {
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn sacks(&self) -> &[(u32, u32)] {
        self.sacks.get(..self.sack_count).unwrap_or(&[])
    }

    /// A header of the same connection with nothing in it.
    pub(super) fn bare(&self) -> Header {
        Header { connection: self.connection, ..Header::default() }
    }

    /// Writes the segment into `out`. Its data are zeros and follow unwritten.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let client = FIRST_PORT + (self.connection % PORTS) as u16;
        let server = SERVER_PORT.wrapping_add((self.connection / PORTS) as u16);
        let ports = u32::from(client) << 16 | u32::from(server);
        // Most segments have no options: what is done for all of them has a fixed length.
        let mut words = [0u32; MOST_OPTIONS / 4];
        let has_options = self.has(SYN) || self.sack_count > 0 || self.stamps.is_some();
        let options = if has_options { self.options(&mut words) } else { &[] };
        let length = (HEADER / 4 + options.len()) as u32;
        let mut fixed =
            [ports, self.seq, self.ack, (length << 12 | u32::from(self.flags)) << 16 | u32::from(self.window), 0];
        // The data are zeros and add nothing to the sum.
        fixed[4] = u32::from(!fold(total(&fixed) + total(options))) << 16;
        out.clear();
        // A buffer that is used again is not to grow again.
        out.reserve(MOST_HEADER);
        out.extend_from_slice(fixed.map(u32::to_be_bytes).as_flattened());
        if has_options {
            let mut bytes = [[0; 4]; MOST_OPTIONS / 4];
            for (bytes, word) in bytes.iter_mut().zip(options) {
                *bytes = word.to_be_bytes();
            }
            out.extend_from_slice(bytes[..options.len()].as_flattened());
        }
    }

    /// The options, as words in `place`.
    fn options<'a>(&self, place: &'a mut [u32; MOST_OPTIONS / 4]) -> &'a [u32] {
        let mut length = 0;
        let mut put = |word: u32| {
            if let Some(free) = place.get_mut(length) {
                *free = word;
                length += 1;
            }
        };
        if self.has(SYN) {
            put(0x0204_0000 | u32::from(self.segment_size));
        }
        match (self.has(SYN), self.stamps) {
            // SACK permitted with timestamps in the place of padding, no-operation, window scale.
            (true, Some((value, echo))) => {
                [0x0402_080a, value, echo, 0x0103_0300 | u32::from(self.scale)].into_iter().for_each(&mut put);
            }
            // SACK permitted, no-operation, window scale.
            (true, None) => [0x0402_0103, 0x0300_0101 | u32::from(self.scale) << 16].into_iter().for_each(&mut put),
            (false, Some((value, echo))) => [0x0101_080a, value, echo].into_iter().for_each(&mut put),
            (false, None) => {}
        }
        if self.sack_count > 0 {
            put(0x0101_0500 | (2 + 8 * self.sack_count) as u32);
            for (start, end) in self.sacks() {
                put(*start);
                put(*end);
            }
        }
        &place[..length]
    }

    /// Reads a segment; returns how many bytes of data it has. `None` if it is damaged. Zeros at its end may have been
    /// left out.
    pub(super) fn read(bytes: &[u8]) -> Option<(Header, usize)> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER>()?;
        let mut words = [0u32; HEADER / 4];
        for (word, bytes) in words.iter_mut().zip(fixed.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        // Most segments are nothing but this.
        let sum = if rest.is_empty() { !fold(total(&words)) } else { checksum(bytes) };
        if sum != 0 {
            return None;
        }
        let [ports, seq, ack, fourth, _] = words;
        let head = (fourth >> 28) as usize * 4;
        let client = (ports >> 16).checked_sub(u32::from(FIRST_PORT))?;
        let server = u32::from((ports as u16).wrapping_sub(SERVER_PORT));
        let (flags, window) = ((fourth >> 16) as u16 & 0x0fff, fourth as u16);
        let mut header = Header { connection: server * PORTS + client, seq, ack, flags, window, ..Header::default() };
        let mut options = bytes.get(HEADER..head)?;
        while let [kind, rest @ ..] = options {
            if *kind <= 1 {
                options = rest;
                continue;
            }
            let length = usize::from(*rest.first()?);
            let value = options.get(2..length)?;
            match (kind, value) {
                (2, [high, low]) => header.segment_size = u16::from_be_bytes([*high, *low]),
                (3, [scale]) => header.scale = (*scale).min(14),
                (5, blocks) => {
                    for block in blocks.chunks_exact(8).take(MAX_SACKS) {
                        let [a, b, c, d, e, f, g, h] = *block else { continue };
                        let edges = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                        header.sacks[header.sack_count] = edges;
                        header.sack_count += 1;
                    }
                }
                (8, [a, b, c, d, e, f, g, h]) => {
                    header.stamps = Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
                }
                _ => {}
            }
            options = options.get(length..)?;
        }
        Some((header, bytes.len() - head))
    }
}

/// The Internet checksum (RFC 1071), without the pseudo header. Data that are all zeros, as they are unless they are
/// damaged, add nothing to it and are only looked through.
fn checksum(bytes: &[u8]) -> u16 {
    let (head, data) = bytes.split_at(bytes.len().min(MOST_HEADER));
    let is_damaged = data.iter().fold(0, |all, byte| all | byte) != 0;
    sum(if is_damaged { bytes } else { head })
}

/// The plain sum of words.
fn total(words: &[u32]) -> u64 {
    words.iter().map(|word| u64::from(*word)).sum()
}

fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    !fold(sum + u64::from(u32::from_be_bytes(last)))
}

/// The sum of 32-bit words as that of 16-bit words, with the carries added (RFC 1071).
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// A 32-bit sequence number as the 64-bit one nearest to `near`.
pub(super) fn unwrap(number: u32, near: u64) -> u64 {
    let distance = number.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let mut sacks = [(0, 0); MAX_SACKS];
        sacks[0] = (4_000, 5_000);
        sacks[1] = (u32::MAX - 3, 7);
        Header {
            connection: 70_123,
            seq: 0xdead_beef,
            ack: 17,
            flags: ACK | ECE,
            window: 513,
            sacks,
            sack_count: 2,
            ..Header::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        header().write(&mut bytes);
        assert_eq!(Header::read(&bytes), Some((header(), 0)));
        bytes.resize(bytes.len() + 1_001, 0);
        assert_eq!(bytes.len(), 20 + 20 + 1_001);
        assert_eq!(Header::read(&bytes), Some((header(), 1_001)));
        let syn = Header { flags: SYN | ECE | CWR, scale: 7, segment_size: 1_460, ..Header::default() };
        syn.write(&mut bytes);
        assert_eq!(bytes.len(), 32);
        assert_eq!(Header::read(&bytes), Some((syn, 0)));
    }

    #[test]
    fn timestamps_take_twelve_bytes_and_eight_more_in_a_syn() {
        let mut bytes = Vec::new();
        let stamps = Some((0x0102_0304, u32::MAX));
        let plain = Header { stamps, flags: ACK, ..Header::default() };
        let sacked = Header { stamps, sack_count: STAMPED_SACKS, ..header() };
        let syn = Header { stamps, flags: SYN, scale: 7, segment_size: 1_460, ..Header::default() };
        for (header, length) in [(plain, 32), (sacked, 60), (syn, 40)] {
            header.write(&mut bytes);
            assert_eq!((bytes.len(), Header::read(&bytes)), (length, Some((header, 0))));
        }
    }

    #[test]
    fn every_single_bit_of_damage_is_noticed() {
        let mut bytes = Vec::new();
        header().write(&mut bytes);
        bytes.resize(bytes.len() + 13, 0);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Header::read(&bytes).is_some());
        assert_eq!(Header::read(&bytes[..19]), None);
    }

    #[test]
    fn rfc9768_3_2_the_ace_field_counts_marks_modulo_eight() {
        assert_eq!(ace(0), AE | ECE, "five");
        assert_eq!(ace(3), 0);
        for before in 0..20 {
            for acked in 0..8 {
                for marked in 0..=acked {
                    assert_eq!(newly_marked(ace(before + marked), before, acked), Some(marked));
                }
            }
            // An ACK that was overtaken.
            assert_eq!(newly_marked(ace(before), before + 1, 2), None);
        }
        // Of twenty at least 3 are marked; 11 and 19 look the same.
        assert_eq!(newly_marked(ace(3), 0, 20), Some(19));
    }

    #[test]
    fn sequence_numbers_wrap() {
        for near in [0u64, 5, 1 << 31, (1 << 32) - 2, 1 << 32, 7 << 32] {
            for offset in [0u64, 1, 1_000_000] {
                assert_eq!(unwrap((near + offset) as u32, near), near + offset);
                assert_eq!(unwrap(near as u32, near + offset), near);
            }
        }
    }
}
