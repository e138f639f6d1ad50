//! The textual form of quantities: "300 ms", "100 MB", "250 Mbps"; what is printed reads back exactly.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::time::DurationExt;

/// Why a quantity could not be read. The message quotes the text and says what would have been accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// There is no number at the start of the text.
    #[error("\"{text}\" does not start with a number; write {expected}")]
    NoNumber {
        /// What was given.
        text: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// There is a number without a unit.
    #[error("\"{text}\" has no unit; write {expected}, with one of {units}")]
    NoUnit {
        /// What was given.
        text: String,
        /// What would be accepted.
        expected: &'static str,
        /// The accepted units.
        units: String,
    },
    /// The unit is not one of those accepted here.
    #[error("unit \"{unit}\" in \"{text}\" is not known here; write {expected}, with one of {units}")]
    UnknownUnit {
        /// What was given.
        text: String,
        /// The unit in it.
        unit: String,
        /// What would be accepted.
        expected: &'static str,
        /// The accepted units.
        units: String,
    },
    /// The number has more decimals than the smallest unit can hold.
    #[error("\"{text}\" is finer than the smallest unit, {smallest}")]
    TooFine {
        /// What was given.
        text: String,
        /// The smallest unit.
        smallest: &'static str,
    },
    /// The value does not fit.
    #[error("\"{text}\" is too large; the largest value is {largest} {smallest}")]
    TooLarge {
        /// What was given.
        text: String,
        /// The largest value in the smallest unit.
        largest: u64,
        /// The smallest unit.
        smallest: &'static str,
    },
}

/// A unit: its name and how many of the smallest unit it is worth.
#[derive(Copy, Clone)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) scale: u64,
}

/// Largest first: printing takes the first that fits.
const DECIMAL_BYTES: &[Unit] = &[
    Unit { name: "TB", scale: 1_000_000_000_000 },
    Unit { name: "GB", scale: 1_000_000_000 },
    Unit { name: "MB", scale: 1_000_000 },
    Unit { name: "kB", scale: 1_000 },
    Unit { name: "B", scale: 1 },
];

const ALL_BYTES: &[Unit] = &[
    Unit { name: "TB", scale: 1_000_000_000_000 },
    Unit { name: "GB", scale: 1_000_000_000 },
    Unit { name: "MB", scale: 1_000_000 },
    Unit { name: "kB", scale: 1_000 },
    Unit { name: "TiB", scale: 1 << 40 },
    Unit { name: "GiB", scale: 1 << 30 },
    Unit { name: "MiB", scale: 1 << 20 },
    Unit { name: "KiB", scale: 1 << 10 },
    Unit { name: "B", scale: 1 },
];

const PRINTED_TIMES: &[Unit] = &[
    Unit { name: "s", scale: 1_000_000_000 },
    Unit { name: "ms", scale: 1_000_000 },
    Unit { name: "us", scale: 1_000 },
    Unit { name: "ns", scale: 1 },
];

const ALL_TIMES: &[Unit] = &[
    Unit { name: "h", scale: 3_600_000_000_000 },
    Unit { name: "min", scale: 60_000_000_000 },
    Unit { name: "s", scale: 1_000_000_000 },
    Unit { name: "ms", scale: 1_000_000 },
    Unit { name: "us", scale: 1_000 },
    Unit { name: "ns", scale: 1 },
];

/// Reads "12.5 unit" as a whole number of the smallest unit, exactly: a value that would need rounding is an error.
pub(crate) fn parse_scaled(text: &str, units: &[Unit], expected: &'static str) -> Result<u64, ParseError> {
    let given = || text.to_owned();
    let names = || units.iter().map(|u| u.name).collect::<Vec<_>>().join(", ");
    let smallest = units.last().map_or("", |unit| unit.name);
    let trimmed = text.trim();
    let number_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    let is_number = whole.starts_with(|c: char| c.is_ascii_digit())
        && is_digits(whole)
        && is_digits(fraction)
        && (!number.contains('.') || fraction.ends_with(|c: char| c.is_ascii_digit()));
    if !is_number {
        return Err(ParseError::NoNumber { text: given(), expected });
    }
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(ParseError::NoUnit { text: given(), expected, units: names() });
    }
    let Some(unit) = units.iter().find(|known| known.name == unit) else {
        return Err(ParseError::UnknownUnit { text: given(), unit: unit.to_owned(), expected, units: names() });
    };
    let too_large = || ParseError::TooLarge { text: given(), largest: u64::MAX, smallest };
    let digits = |part: &str| part.chars().filter_map(|c| c.to_digit(10)).map(u128::from).collect::<Vec<_>>();
    let mut value: u128 = 0;
    for digit in digits(whole) {
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or_else(too_large)?;
    }
    value = value.checked_mul(u128::from(unit.scale)).ok_or_else(too_large)?;
    let mut remainder: u128 = 0;
    let mut places: u128 = 1;
    for digit in digits(fraction) {
        // Eighteen decimals are finer than any unit here can hold; beyond them only zeros are exact.
        if places == 1_000_000_000_000_000_000 {
            if digit != 0 {
                return Err(ParseError::TooFine { text: given(), smallest });
            }
            continue;
        }
        places *= 10;
        remainder = remainder * 10 + digit;
    }
    let scaled = remainder * u128::from(unit.scale);
    if !scaled.is_multiple_of(places) {
        return Err(ParseError::TooFine { text: given(), smallest });
    }
    value = value.checked_add(scaled / places).ok_or_else(too_large)?;
    u64::try_from(value).map_err(|_| too_large())
}

/// Writes `value` in the largest unit that it reaches, with as many decimals as it takes to be exact.
pub(crate) fn write_scaled(f: &mut impl fmt::Write, value: u64, units: &[Unit]) -> fmt::Result {
    let fallback = Unit { name: "", scale: 1 };
    let smallest = units.last().copied().unwrap_or(fallback);
    let unit = units.iter().copied().find(|unit| value >= unit.scale).unwrap_or(smallest);
    write!(f, "{}", value / unit.scale)?;
    let mut rest = value % unit.scale;
    if rest != 0 {
        f.write_char('.')?;
        // All printed scales are powers of ten, so this ends.
        let mut place = unit.scale / 10;
        while rest != 0 && place != 0 {
            write!(f, "{}", rest / place)?;
            rest %= place;
            place /= 10;
        }
    }
    write!(f, " {}", unit.name)
}

/// A number of bytes, for what is read from and written to text; plain `u64` everywhere else.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, DECIMAL_BYTES)
    }
}

impl FromStr for ByteCount {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<ByteCount, ParseError> {
        parse_bytes(text).map(ByteCount)
    }
}

/// Reads a number of bytes: "100 MB" (decimal), "64 KiB" (binary), "1500 B".
///
/// # Errors
/// When there is no number, no unit, a unit other than those, or a value that is not a whole number of bytes.
pub fn parse_bytes(text: &str) -> Result<u64, ParseError> {
    parse_scaled(text, ALL_BYTES, "a size such as \"100 MB\", \"64 KiB\" or \"1500 B\"")
}

/// Reads a span of time: "300 ms", "1.5 s", "20 us", "10 min".
///
/// # Errors
/// When there is no number, no unit, a unit other than those, or a value finer than a nanosecond.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    // "µ" comes as two different characters, depending on the keyboard; both mean micro.
    let plain = text.replace(['µ', 'μ'], "u");
    parse_scaled(&plain, ALL_TIMES, "a duration such as \"300 ms\", \"1.5 s\" or \"20 us\"").map(Duration::from_nanos)
}

/// A size as people read it, to three significant digits: "18.8 MB". For reports; [`ByteCount`] prints exactly.
pub fn human_bytes(bytes: u64) -> String {
    three_digits(bytes, DECIMAL_BYTES)
}

/// A span of time as people read it, to three significant digits: "612 ms". For reports.
pub fn human_duration(span: Duration) -> String {
    three_digits(span.nanos(), PRINTED_TIMES)
}

fn three_digits(value: u64, units: &[Unit]) -> String {
    let mut keep = value;
    let mut power: u64 = 1;
    while keep >= 1_000 {
        // Round once, at the last digit that is dropped, not at each of them.
        keep /= 10;
        power *= 10;
    }
    let rounded = (u128::from(value) + u128::from(power) / 2) / u128::from(power) * u128::from(power);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_scaled(&mut text, u64::try_from(rounded).unwrap_or(u64::MAX), units);
    text
}

/// A span of time printed exactly, in a form that [`parse_duration`] reads: "1.5 s".
pub fn exact_duration(span: Duration) -> String {
    let mut text = String::new();
    let _ = write_scaled(&mut text, span.nanos(), PRINTED_TIMES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("100 MB", 100_000_000),
            ("64 KiB", 65_536),
            ("1500 B", 1_500),
            ("1.5 kB", 1_500),
            ("0.5 KiB", 512),
            ("2 GiB", 2 << 30),
            ("1_000 B", 1_000),
            ("18446744073709551615 B", u64::MAX),
            (" 3 B ", 3),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("300 ms", 300_000_000),
            ("1.5 s", 1_500_000_000),
            ("20 us", 20_000),
            ("20 µs", 20_000),
            ("10 min", 600_000_000_000),
            ("1 h", 3_600_000_000_000),
            ("0.000000001 s", 1),
            ("1.0000000000 ns", 1),
            ("7ns", 7),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn errors_say_what_would_be_accepted() {
        for (text, needles) in [
            ("", vec!["does not start with a number", "300 ms"]),
            ("ms", vec!["does not start with a number"]),
            ("-3 ms", vec!["does not start with a number"]),
            (". ms", vec!["does not start with a number"]),
            ("1. ms", vec!["does not start with a number"]),
            ("1.2.3 ms", vec!["does not start with a number"]),
            ("300", vec!["no unit", "ms", "min"]),
            ("300 sec", vec!["\"sec\"", "ms", "h, min, s, ms, us, ns"]),
            ("0.5 ns", vec!["finer", "ns"]),
            ("0.0000000000000000000000001 s", vec!["finer"]),
            ("99999999999999999999 h", vec!["too large"]),
            ("99999999999999999999999999999999999999999999 h", vec!["too large"]),
        ] {
            let message = parse_duration(text).unwrap_err().to_string();
            for needle in needles {
                assert!(message.contains(needle), "{text:?}: {message}");
            }
        }
    }

    #[test]
    fn forms_for_people_have_three_digits() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes(18_750_000), "18.8 MB");
        assert_eq!(human_bytes(999_999), "1 MB");
        assert_eq!(human_bytes(u64::MAX), "18446744 TB".replace("18446744", "18400000"));
        assert_eq!(human_duration(Duration::from_nanos(612_345_678)), "612 ms");
        assert_eq!(human_duration(Duration::from_secs(90)), "90 s");
        assert_eq!(human_duration(Duration::from_micros(48)), "48 us");
    }

    #[test]
    fn byte_counts_print_exactly() {
        assert_eq!(ByteCount(100_000_000).to_string(), "100 MB");
        assert_eq!(ByteCount(1_460).to_string(), "1.46 kB");
        assert_eq!("64 KiB".parse::<ByteCount>().unwrap(), ByteCount(65_536));
    }

    proptest! {
        #[test]
        fn printed_sizes_read_back(bytes: u64) {
            prop_assert_eq!(parse_bytes(&ByteCount(bytes).to_string()), Ok(bytes));
        }

        #[test]
        fn printed_durations_read_back(nanos: u64) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&exact_duration(span)), Ok(span));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = parse_duration(&text);
            let _ = parse_bytes(&text);
            let _ = text.parse::<crate::Rate>();
        }
    }
}
