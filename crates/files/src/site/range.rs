//! Byte ranges: the `Range` header of a request, applied to a length (RFC 9110 section 14).
//!
//! What we answer: one range, or several that touch each other, with 206 and `Content-Range`; several separate ones
//! with `multipart/byteranges` in ascending order; more than [`MAX_RANGES`] with the whole file, because a client that
//! asks so is broken or attacking (section 14.2 lets a server ignore `Range`). Anything malformed is ignored, as
//! section 14.2 asks.

use std::ops::Range;

/// Most ranges looked at in one request.
pub const MAX_RANGES: usize = 32;

/// What of a file a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All of it: the header was malformed, in another unit, or asks for too many ranges.
    Whole,
    /// These byte ranges: at least one, none empty, ascending, neither overlapping nor touching.
    Ranges(Vec<Range<u64>>),
    /// None of the ranges lies within the file (status 416).
    Unsatisfiable,
}

/// Applies the value of a `Range` header to a file of `length` bytes.
#[must_use]
pub fn select(header: &[u8], length: u64) -> Selection {
    let Some(specs) = std::str::from_utf8(header).ok().and_then(parse) else {
        return Selection::Whole;
    };
    if length == 0 {
        // No Content-Range can describe an empty part; a positive suffix of nothing is all of it.
        let suffix = specs.iter().any(|spec| matches!(spec, Spec::Suffix(n) if *n > 0));
        return if suffix { Selection::Whole } else { Selection::Unsatisfiable };
    }
    let mut ranges: Vec<Range<u64>> = specs.iter().filter_map(|spec| spec.resolve(length)).collect();
    if ranges.is_empty() {
        return Selection::Unsatisfiable;
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Selection::Ranges(merged)
}

enum Spec {
    /// First and last position, both inclusive; no last means to the end.
    From(u64, Option<u64>),
    Suffix(u64),
}

impl Spec {
    fn resolve(&self, length: u64) -> Option<Range<u64>> {
        match *self {
            Spec::From(first, _) if first >= length => None,
            Spec::From(first, last) => {
                let end = last.map_or(length, |last| last.saturating_add(1).min(length));
                Some(first..end)
            }
            Spec::Suffix(0) => None,
            Spec::Suffix(n) => Some(length.saturating_sub(n)..length),
        }
    }
}

fn parse(header: &str) -> Option<Vec<Spec>> {
    let (unit, set) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specs = Vec::new();
    for item in set.split(',') {
        let item = item.trim_matches([' ', '\t']);
        if item.is_empty() {
            continue; // RFC 9110 section 5.6.1.2: empty list elements are to be ignored
        }
        if specs.len() == MAX_RANGES {
            return None;
        }
        let (first, last) = item.split_once('-')?;
        let spec = match (first.is_empty(), last.is_empty()) {
            (true, true) => return None,
            (true, false) => Spec::Suffix(number(last)?),
            (false, true) => Spec::From(number(first)?, None),
            (false, false) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                Spec::From(first, Some(last))
            }
        };
        specs.push(spec);
    }
    (!specs.is_empty()).then_some(specs)
}

/// Digits only; more than fit count as "very far".
fn number(text: &str) -> Option<u64> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(header: &str, length: u64) -> Selection {
        select(header.as_bytes(), length)
    }

    fn one(range: Range<u64>) -> Selection {
        Selection::Ranges(vec![range])
    }

    #[test]
    fn the_examples_of_rfc_9110_section_14_1_2() {
        assert_eq!(ranges("bytes=0-499", 10_000), one(0..500));
        assert_eq!(ranges("bytes=500-999", 10_000), one(500..1000));
        assert_eq!(ranges("bytes=-500", 10_000), one(9500..10_000));
        assert_eq!(ranges("bytes=9500-", 10_000), one(9500..10_000));
        assert_eq!(ranges("bytes=0-0,-1", 10_000), Selection::Ranges(vec![0..1, 9999..10_000]));
        assert_eq!(
            ranges("bytes= 0-999, 4500-5499, -1000", 10_000),
            Selection::Ranges(vec![0..1000, 4500..5500, 9000..10_000])
        );
        assert_eq!(ranges("bytes=500-600,601-999", 10_000), one(500..1000));
        assert_eq!(ranges("bytes=500-700,601-999", 10_000), one(500..1000));
    }

    #[test]
    fn a_last_position_beyond_the_end_means_the_end() {
        assert_eq!(ranges("bytes=5-100", 10), one(5..10));
        assert_eq!(ranges("bytes=5-99999999999999999999999", 10), one(5..10));
        assert_eq!(ranges("bytes=-100", 10), one(0..10));
    }

    #[test]
    fn ranges_outside_the_file_are_unsatisfiable() {
        assert_eq!(ranges("bytes=10-", 10), Selection::Unsatisfiable);
        assert_eq!(ranges("bytes=10-20,30-", 10), Selection::Unsatisfiable);
        assert_eq!(ranges("bytes=-0", 10), Selection::Unsatisfiable);
        assert_eq!(ranges("bytes=99999999999999999999999-", 10), Selection::Unsatisfiable);
        assert_eq!(ranges("bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(ranges("bytes=-5", 0), Selection::Whole);
        // One good range is enough.
        assert_eq!(ranges("bytes=10-20,3-4", 10), one(3..5));
    }

    #[test]
    fn malformed_ranges_are_ignored() {
        for header in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-3",
            "bytes=1-2,x",
            "bytes=1 - 2",
            "bytes=+1-2",
            "items=0-5",
            "bytes=0-5-9",
            "bytes=--5",
            "",
        ] {
            assert_eq!(ranges(header, 10), Selection::Whole, "{header:?}");
        }
        assert_eq!(select(b"bytes=\xff-3", 10), Selection::Whole);
        assert_eq!(ranges("BYTES=1-2", 10), one(1..3));
    }

    #[test]
    fn too_many_ranges_get_the_whole_file() {
        let many = |n: u64| {
            let list: Vec<String> = (0..n).map(|i| format!("{0}-{0}", 2 * i)).collect();
            ranges(&format!("bytes={}", list.join(",")), 10_000)
        };
        assert!(matches!(many(MAX_RANGES as u64), Selection::Ranges(list) if list.len() == MAX_RANGES));
        assert_eq!(many(MAX_RANGES as u64 + 1), Selection::Whole);
    }

    proptest! {
        #[test]
        fn selected_ranges_are_ascending_apart_and_inside(header in "bytes=([0-9]{0,3}-[0-9]{0,3},? ?){1,6}", length in 0u64..600) {
            if let Selection::Ranges(list) = ranges(&header, length) {
                prop_assert!(!list.is_empty());
                prop_assert!(list.iter().all(|r| r.start < r.end && r.end <= length));
                prop_assert!(list.windows(2).all(|w| w[0].end < w[1].start));
            }
        }

        /// Byte for byte the same as asking each range of the list by itself.
        #[test]
        fn merging_neither_adds_nor_drops_a_byte(specs in proptest::collection::vec((0u64..40, 0u64..40), 1..6), length in 1u64..40) {
            let text: Vec<String> = specs.iter().map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect();
            let wanted: Vec<u64> = (0..length)
                .filter(|x| specs.iter().any(|(a, b)| (*a.min(b)..=*a.max(b)).contains(x)))
                .collect();
            let got: Vec<u64> = match ranges(&format!("bytes={}", text.join(", ")), length) {
                Selection::Ranges(list) => list.into_iter().flatten().collect(),
                Selection::Unsatisfiable => Vec::new(),
                Selection::Whole => (0..length).collect(),
            };
            prop_assert_eq!(got, wanted);
        }

        #[test]
        fn no_header_panics(header in proptest::collection::vec(any::<u8>(), 0..40), length: u64) {
            let _ = select(&header, length);
            let _ = select(&[b"bytes=".as_slice(), &header].concat(), length);
        }
    }
}
