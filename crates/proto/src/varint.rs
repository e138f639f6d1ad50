//! Variable-length integers (RFC 9000 section 16) and the reader that every decoder of this crate walks on.

use bytes::BufMut;

/// The largest value a variable-length integer can carry: 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The most bytes of an encoding.
pub const MAX_LEN: usize = 8;

/// The number of bytes of the shortest encoding of `value`: 1, 2, 4 or 8. Values above [`MAX`] count 8.
#[inline]
pub const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of `value`.
///
/// A value above [`MAX`] cannot be expressed; it is written as [`MAX`], and is a bug of the caller that debug builds
/// report.
#[inline]
pub fn encode(value: u64, out: &mut impl BufMut) {
    debug_assert!(value <= MAX, "{value} does not fit a variable-length integer");
    match value {
        0..=0x3f => out.put_u8(value as u8),
        0x40..=0x3fff => out.put_u16(0x4000 | value as u16),
        0x4000..=0x3fff_ffff => out.put_u32(0x8000_0000 | value as u32),
        _ => out.put_u64(0xc000_0000_0000_0000 | value.min(MAX)),
    }
}

/// Takes one integer off the front of `input`. `None`, and `input` unchanged, if it ends too early.
#[inline]
pub fn decode(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let (value, rest) = match first >> 6 {
        0 => (u64::from(first), &input[1..]),
        1 => {
            let (bytes, rest) = input.split_first_chunk::<2>()?;
            (u64::from(u16::from_be_bytes(*bytes) & 0x3fff), rest)
        }
        2 => {
            let (bytes, rest) = input.split_first_chunk::<4>()?;
            (u64::from(u32::from_be_bytes(*bytes) & 0x3fff_ffff), rest)
        }
        _ => {
            let (bytes, rest) = input.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*bytes) & MAX, rest)
        }
    };
    *input = rest;
    Some(value)
}

/// Walks over bytes from front to back. Every method returns `None`, and consumes nothing, when the bytes run out.
#[derive(Copy, Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The number of bytes not yet read.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Whether everything is read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is not yet read, without reading it.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Everything that is left.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A 16-bit integer in network byte order.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A 32-bit integer in network byte order.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A 64-bit integer in network byte order.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A variable-length integer.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        decode(&mut self.0)
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// A variable-length integer and as many bytes as it says.
    #[inline]
    pub fn varint_bytes(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let n = usize::try_from(ahead.varint()?).ok()?;
        let bytes = ahead.bytes(n)?;
        *self = ahead;
        Some(bytes)
    }

    /// One byte of length and as many bytes as it says: the form of connection IDs.
    #[inline]
    pub fn u8_bytes(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let n = usize::from(ahead.u8()?);
        let bytes = ahead.bytes(n)?;
        *self = ahead;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, &mut out);
        out
    }

    #[test]
    fn the_samples_of_rfc_9000_appendix_a_1_decode() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d][..], 494_878_333),
            (&[0x7b, 0xbd][..], 15_293),
            (&[0x25][..], 37),
            (&[0x40, 0x25][..], 37),
        ] {
            let mut input = bytes;
            assert_eq!(decode(&mut input), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn the_shortest_encoding_is_used_at_every_boundary() {
        for (value, length) in
            [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), ((1 << 30) - 1, 4), (1 << 30, 8), (MAX, 8)]
        {
            assert_eq!(len(value), length);
            assert_eq!(encoded(value).len(), length);
        }
    }

    #[test]
    fn a_truncated_integer_consumes_nothing() {
        for value in [64, 16_384, 1 << 30] {
            let whole = encoded(value);
            for cut in 0..whole.len() {
                let mut input = &whole[..cut];
                assert_eq!(decode(&mut input), None);
                assert_eq!(input.len(), cut);
            }
        }
        let mut reader = Reader::new(&[5, 1, 2]);
        assert_eq!(reader.varint_bytes(), None);
        assert_eq!(reader.u8_bytes(), None);
        assert_eq!(reader.remaining(), 3);
    }

    proptest! {
        #[test]
        fn integers_survive_the_round_trip(value in 0..=MAX, shift in 0u32..62) {
            let value = value >> shift;
            let bytes = encoded(value);
            prop_assert_eq!(bytes.len(), len(value));
            let mut input = &bytes[..];
            prop_assert_eq!(decode(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn readers_never_run_past_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while reader.varint_bytes().is_some() {}
            while reader.u64().is_some() {}
            while reader.u32().is_some() {}
            while reader.u16().is_some() {}
            while reader.u8().is_some() {}
            prop_assert!(reader.is_empty());
        }
    }
}
