//! The Huffman code of header strings (RFC 7541 section 5.2 and appendix B), which QPACK shares.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols. The lengths
//! therefore say everything, and decoding needs the first code and the number of codes of each length only.

use crate::qpack::Undecodable;

/// Length of each symbol's code in bits; the last symbol is the end of the string (RFC 7541 appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// 256 octets and the end of the string.
const SYMBOLS: usize = 257;

/// The symbol that must not be decoded, only hinted at by padding.
const END: u16 = 256;

/// Longest code, bits.
const LONGEST: usize = 30;

/// Codes of one length.
#[derive(Clone, Copy)]
struct Group {
    /// The first code.
    code: u32,
    /// How many there are.
    count: u32,
    /// Where their symbols begin in [`Table::symbols`].
    offset: u32,
}

struct Table {
    groups: [Group; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
}

static TABLE: Table = table();

const fn table() -> Table {
    let mut table = Table { groups: [Group { code: 0, count: 0, offset: 0 }; LONGEST + 1], symbols: [0; SYMBOLS] };
    let mut code = 0;
    let mut filled = 0;
    let mut length = 1;
    while length <= LONGEST {
        code <<= 1;
        table.groups[length] = Group { code, count: 0, offset: filled };
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                table.symbols[filled as usize] = symbol as u16;
                filled += 1;
                code += 1;
                table.groups[length].count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    table
}

/// Appends the decoded `data` to `out`: at most 8/5 of its length, because the shortest code has five bits.
///
/// # Errors
/// When the end of the string is spelled out, or the padding is not the beginning of that symbol or longer than 7 bits.
pub(crate) fn decode(data: &[u8], out: &mut Vec<u8>) -> Result<(), Undecodable> {
    let (mut code, mut length) = (0u32, 0);
    for byte in data {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            length += 1;
            // No code is longer than the end of the string, so this holds at the latest there.
            let group = TABLE.groups[length];
            let index = code.wrapping_sub(group.code);
            if index < group.count {
                match TABLE.symbols[(group.offset + index) as usize] {
                    END => return Err(Undecodable("a Huffman string spells out its end")),
                    symbol => out.push(symbol as u8),
                }
                (code, length) = (0, 0);
            }
        }
    }
    // The end of the string is all ones.
    if length > 7 || code != (1 << length) - 1 {
        return Err(Undecodable("the padding of a Huffman string is wrong"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes from the lengths alone, in another way than the decoder reads them.
    pub(crate) fn encode(data: &[u8]) -> Vec<u8> {
        let mut order: Vec<usize> = (0..SYMBOLS).collect();
        order.sort_by_key(|symbol| (LENGTHS[*symbol], *symbol));
        let mut codes = vec![(0u32, 0u8); SYMBOLS];
        let (mut code, mut last) = (0u32, LENGTHS[order[0]]);
        for symbol in order {
            code <<= LENGTHS[symbol] - last;
            last = LENGTHS[symbol];
            codes[symbol] = (code, last);
            code += 1;
        }
        let mut bits: Vec<bool> = Vec::new();
        for byte in data {
            let (code, length) = codes[usize::from(*byte)];
            bits.extend((0..length).rev().map(|shift| code >> shift & 1 == 1));
        }
        bits.chunks(8)
            .map(|chunk| (0..8).fold(0, |byte, index| byte << 1 | u8::from(chunk.get(index).copied().unwrap_or(true))))
            .collect()
    }

    fn decoded(data: &[u8]) -> Result<Vec<u8>, Undecodable> {
        let mut out = Vec::new();
        decode(data, &mut out).map(|()| out)
    }

    /// RFC 7541 appendices C.4 and C.6.
    #[test]
    fn the_examples_of_the_specification_are_decoded() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        for (code, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ] {
            assert_eq!(decoded(&hex(code)).unwrap(), text.as_bytes());
            assert_eq!(encode(text.as_bytes()), hex(code));
        }
    }

    #[test]
    fn wrong_endings_are_refused() {
        assert!(decoded(&[0xff; 4]).is_err(), "the end spelled out");
        assert!(decoded(&[0xff]).is_err(), "eight bits of padding");
        assert!(decoded(&[0x00]).is_err(), "padding of zeros");
        assert!(decoded(&[]).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn every_string_survives(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&encode(&data)).unwrap(), data);
        }

        #[test]
        fn what_decodes_is_not_long_and_has_one_spelling(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(text) = decoded(&data) {
                prop_assert!(text.len() * 5 <= data.len() * 8);
                prop_assert_eq!(encode(&text), data);
            }
        }
    }
}
