//! Field sections as QPACK writes them without a dynamic table (RFC 9204 section 4.5).
//!
//! `h3` announces a dynamic table of capacity 0 (the default of SETTINGS_QPACK_MAX_TABLE_CAPACITY), so a field line is
//! an entry of the static table or spelled out. Whatever refers to the dynamic table cannot be decoded.

use thiserror::Error;

use crate::huffman;
use crate::static_table::ENTRIES;

/// A field section that is not QPACK, or uses what was not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the header section cannot be decoded: {0}")]
pub(crate) struct Undecodable(pub(crate) &'static str);

const CUT: Undecodable = Undecodable("it ends within a field");
const DYNAMIC: Undecodable = Undecodable("it refers to the dynamic table, which has no entries");

/// A field section, field line by field line. Holds one decoded line at a time.
pub(crate) struct Section<'a> {
    rest: &'a [u8],
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Name and value of a field line.
pub(crate) type Line<'l> = (&'l [u8], &'l [u8]);

/// What a name or value is made of.
enum Text {
    Static(&'static str),
    /// In [`Section`]'s own buffer.
    Decoded,
}

impl<'a> Section<'a> {
    /// Takes the prefix off (section 4.5.1).
    pub(crate) fn new(data: &'a [u8]) -> Result<Self, Undecodable> {
        let mut section = Self { rest: data, name: Vec::new(), value: Vec::new() };
        if section.integer(8)? != 0 {
            return Err(DYNAMIC);
        }
        section.integer(7)?; // the base, of no meaning without a dynamic table
        Ok(section)
    }

    /// Name and value of the next field line; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Undecodable> {
        let Some(first) = self.rest.first().copied() else {
            return Ok(None);
        };
        let (name, value) = if first & 0x80 != 0 {
            let entry = self.entry(first & 0x40 != 0, 6)?;
            (Text::Static(entry.0), Text::Static(entry.1))
        } else if first & 0x40 != 0 {
            let entry = self.entry(first & 0x10 != 0, 4)?;
            self.value = self.string(7)?;
            (Text::Static(entry.0), Text::Decoded)
        } else if first & 0x20 != 0 {
            self.name = self.string(3)?;
            self.value = self.string(7)?;
            (Text::Decoded, Text::Decoded)
        } else {
            return Err(DYNAMIC);
        };
        let name = match name {
            Text::Static(text) => text.as_bytes(),
            Text::Decoded => &self.name,
        };
        let value = match value {
            Text::Static(text) => text.as_bytes(),
            Text::Decoded => &self.value,
        };
        Ok(Some((name, value)))
    }

    fn entry(&mut self, is_static: bool, bits: u32) -> Result<(&'static str, &'static str), Undecodable> {
        let index = self.integer(bits)?;
        if !is_static {
            return Err(DYNAMIC);
        }
        let entry = usize::try_from(index).ok().and_then(|index| ENTRIES.get(index));
        entry.copied().ok_or(Undecodable("it names an entry that the static table does not have"))
    }

    /// A string whose length has `bits` bits in the first byte, below the bit that states whether it is Huffman code.
    fn string(&mut self, bits: u32) -> Result<Vec<u8>, Undecodable> {
        let first = *self.rest.first().ok_or(CUT)?;
        let length = usize::try_from(self.integer(bits)?).map_err(|_| CUT)?;
        let (data, rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
        self.rest = rest;
        if first >> bits & 1 == 0 {
            return Ok(data.to_vec());
        }
        let mut text = Vec::with_capacity(length + length / 2);
        huffman::decode(data, &mut text)?;
        Ok(text)
    }

    /// An integer that begins with the low `bits` bits of the next byte (RFC 7541 section 5.1), at most 62 bits long.
    fn integer(&mut self, bits: u32) -> Result<u64, Undecodable> {
        let full = (1u64 << bits) - 1;
        let mut value = u64::from(self.byte()?) & full;
        if value < full {
            return Ok(value);
        }
        for shift in (0..=56).step_by(7) {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Undecodable("it contains a number beyond 62 bits"))
    }

    fn byte(&mut self) -> Result<u8, Undecodable> {
        let (byte, rest) = self.rest.split_first().ok_or(CUT)?;
        self.rest = rest;
        Ok(*byte)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How a test writes its fields.
    #[derive(Debug, Clone, Copy)]
    pub(crate) enum Way {
        Plain,
        Huffman,
        /// With the static table wherever it has the name or the field, and Huffman code otherwise.
        Table,
    }

    fn integer(value: u64, bits: u32, flags: u8, out: &mut Vec<u8>) {
        let full = (1u64 << bits) - 1;
        if value < full {
            out.push(flags | value as u8);
            return;
        }
        out.push(flags | full as u8);
        let mut rest = value - full;
        while rest >= 0x80 {
            out.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn string(text: &[u8], bits: u32, flags: u8, plain: bool, out: &mut Vec<u8>) {
        let coded = if plain { text.to_vec() } else { huffman::tests::encode(text) };
        integer(coded.len() as u64, bits, flags | u8::from(!plain) << bits, out);
        out.extend_from_slice(&coded);
    }

    pub(crate) fn encode(fields: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)], way: Way) -> Vec<u8> {
        let mut out = vec![0, 0];
        let plain = matches!(way, Way::Plain);
        for (name, value) in fields {
            let (name, value) = (name.as_ref(), value.as_ref());
            let table = matches!(way, Way::Table);
            let whole = ENTRIES.iter().position(|entry| (entry.0.as_bytes(), entry.1.as_bytes()) == (name, value));
            let named = ENTRIES.iter().position(|entry| entry.0.as_bytes() == name);
            if let (true, Some(index)) = (table, whole) {
                integer(index as u64, 6, 0xc0, &mut out);
            } else if let (true, Some(index)) = (table, named) {
                integer(index as u64, 4, 0x50, &mut out);
                string(value, 7, 0, plain, &mut out);
            } else {
                string(name, 3, 0x20, plain, &mut out);
                string(value, 7, 0, plain, &mut out);
            }
        }
        out
    }

    type Owned = (Vec<u8>, Vec<u8>);

    fn decode(data: &[u8]) -> Result<Vec<Owned>, Undecodable> {
        let mut section = Section::new(data)?;
        let mut fields = Vec::new();
        while let Some((name, value)) = section.next()? {
            fields.push((name.to_vec(), value.to_vec()));
        }
        Ok(fields)
    }

    /// RFC 9204 appendix B.1.
    #[test]
    fn the_example_of_the_specification_is_decoded() {
        let data = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(decode(data).unwrap(), [(b":path".to_vec(), b"/index.html".to_vec())]);
    }

    #[test]
    fn what_needs_a_dynamic_table_is_refused() {
        for data in [&[1, 0][..], &[0, 0, 0x80], &[0, 0, 0x10], &[0, 0, 0x40, 0], &[0, 0, 0, 0]] {
            assert_eq!(decode(data).unwrap_err(), DYNAMIC, "{data:x?}");
        }
        assert!(decode(&[0, 0, 0xff, 99 - 63]).is_err(), "beyond the static table");
        assert!(decode(&[0, 0, 0xff, 98 - 63]).is_ok());
        assert!(decode(&[]).is_err());
    }

    fn field() -> impl Strategy<Value = Owned> {
        let text = || proptest::collection::vec(any::<u8>(), 0..200);
        prop_oneof![
            (text(), text()),
            (0..ENTRIES.len()).prop_map(|at| (ENTRIES[at].0.into(), ENTRIES[at].1.into())),
            ((0..ENTRIES.len()), text()).prop_map(|(at, value)| (ENTRIES[at].0.into(), value)),
        ]
    }

    proptest! {
        #[test]
        fn fields_come_back_however_they_are_written(fields in proptest::collection::vec(field(), 0..12)) {
            for way in [Way::Plain, Way::Huffman, Way::Table] {
                prop_assert_eq!(&decode(&encode(&fields, way)).unwrap(), &fields);
            }
        }

        #[test]
        fn no_bytes_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&data);
            let _ = decode(&[&[0, 0][..], &data].concat());
        }

        #[test]
        fn a_section_that_is_cut_is_refused_or_a_shorter_one(
            fields in proptest::collection::vec(field(), 1..5), cut in any::<proptest::sample::Index>()
        ) {
            let whole = encode(&fields, Way::Table);
            let at = cut.index(whole.len());
            if let Ok(got) = decode(&whole[..at]) {
                prop_assert!(got.len() < fields.len());
                prop_assert_eq!(&got[..], &fields[..got.len()]);
            }
        }
    }
}
