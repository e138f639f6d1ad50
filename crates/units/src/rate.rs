//! Data rates in bits per second.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::math::{mul_div, mul_div_ceil};
use crate::text::{ParseError, Unit, parse_scaled, write_scaled};
use crate::time::DurationExt;

/// Bits per byte times nanoseconds per second: what separates bytes per nanosecond from bits per second.
const BIT_NANOS_PER_BYTE_SECOND: u64 = 8_000_000_000;

pub(crate) const UNITS: &[Unit] = &[
    Unit { name: "Tbps", scale: 1_000_000_000_000 },
    Unit { name: "Gbps", scale: 1_000_000_000 },
    Unit { name: "Mbps", scale: 1_000_000 },
    Unit { name: "kbps", scale: 1_000 },
    Unit { name: "bps", scale: 1 },
];

/// What is read, beside what is printed: bytes per second, as programs that move files state rates.
const ALL_UNITS: &[Unit] = &[
    Unit { name: "Tbps", scale: 1_000_000_000_000 },
    Unit { name: "Gbps", scale: 1_000_000_000 },
    Unit { name: "Mbps", scale: 1_000_000 },
    Unit { name: "kbps", scale: 1_000 },
    Unit { name: "TB/s", scale: 8_000_000_000_000 },
    Unit { name: "GB/s", scale: 8_000_000_000 },
    Unit { name: "MB/s", scale: 8_000_000 },
    Unit { name: "kB/s", scale: 8_000 },
    Unit { name: "TiB/s", scale: 8 << 40 },
    Unit { name: "GiB/s", scale: 8 << 30 },
    Unit { name: "MiB/s", scale: 8 << 20 },
    Unit { name: "KiB/s", scale: 8 << 10 },
    Unit { name: "B/s", scale: 8 },
    Unit { name: "bps", scale: 1 },
];

/// A data rate in bits per second.
///
/// Written and read as "250 Mbps", "14.7 Mbps", "500 kbps" (decimal units; a bit is a bit). Read also in bytes per
/// second, as "4 MB/s", "500 kB/s" or "1 MiB/s", and with the names of tc(8), as "10mbit" or "10 Mbit/s".
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Nothing ever moves.
    pub const ZERO: Rate = Rate(0);
    /// The largest rate that can be expressed, 18 exabits per second.
    pub const MAX: Rate = Rate(u64::MAX);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The rate at which `bytes` pass in `span`, rounded down. A span of zero gives [`Rate::MAX`].
    pub fn from_bytes_over(bytes: u64, span: Duration) -> Rate {
        Rate(mul_div(bytes, BIT_NANOS_PER_BYTE_SECOND, span.nanos()))
    }

    /// Whole bytes that pass in `span`, rounded down.
    pub fn bytes_in(self, span: Duration) -> u64 {
        mul_div(self.0, span.nanos(), BIT_NANOS_PER_BYTE_SECOND)
    }

    /// How long `bytes` take to pass, rounded up to a nanosecond. At rate zero this is the longest span, 584 years.
    pub fn time_for(self, bytes: u64) -> Duration {
        Duration::from_nanos(mul_div_ceil(bytes, BIT_NANOS_PER_BYTE_SECOND, self.0))
    }

    /// The rate times `num / den`, rounded down; saturating, also when `den` is zero.
    pub fn mul_ratio(self, num: u64, den: u64) -> Rate {
        Rate(mul_div(self.0, num, den))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, UNITS)
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let plain = without_alias(text);
        parse_scaled(
            plain.as_deref().unwrap_or(text),
            ALL_UNITS,
            "a rate such as \"250 Mbps\" (bits) or \"4 MB/s\" (bytes)",
        )
        .map(Rate)
    }
}

/// The text with the usual name of its unit, if it has one of those that tc(8) and others use: `10mbit`, `10 Mbit/s`.
fn without_alias(text: &str) -> Option<String> {
    const ALIASES: [(&str, &str); 5] =
        [("tbit", "Tbps"), ("gbit", "Gbps"), ("mbit", "Mbps"), ("kbit", "kbps"), ("bit", "bps")];
    let lower = text.trim().to_ascii_lowercase();
    let unit = lower.strip_suffix("/s").unwrap_or(&lower);
    let (number, name) = ALIASES.iter().find_map(|(alias, name)| Some((unit.strip_suffix(alias)?, name)))?;
    let number = number.trim_end();
    number.ends_with(|c: char| c.is_ascii_digit()).then(|| format!("{number} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_forms() {
        for (text, bps) in [
            ("250 Mbps", 250_000_000),
            ("14.7 Mbps", 14_700_000),
            ("1 Gbps", 1_000_000_000),
            ("500 kbps", 500_000),
            ("1.5 Tbps", 1_500_000_000_000),
            ("7 bps", 7),
            ("0 bps", 0),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap(), Rate::from_bps(bps), "{text}");
            assert_eq!(Rate::from_bps(bps).to_string(), text);
        }
        assert_eq!("250Mbps".parse::<Rate>().unwrap().bps(), 250_000_000);
        for (text, bps) in [
            ("4 MB/s", 32_000_000),
            ("4MB/s", 32_000_000),
            ("500 kB/s", 4_000_000),
            ("0.5 kB/s", 4_000),
            ("1 MiB/s", 8_388_608),
            ("1 KiB/s", 8_192),
            ("3 B/s", 24),
            ("0.125 B/s", 1),
            ("2 GB/s", 16_000_000_000),
            ("1 GiB/s", 8 << 30),
            ("1 TB/s", 8_000_000_000_000),
            ("1 TiB/s", 8 << 40),
            ("10mbit", 10_000_000),
            ("10 Mbit/s", 10_000_000),
            ("1.5Gbit", 1_500_000_000),
            ("64 kbit", 64_000),
            ("9 bit/s", 9),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap(), Rate::from_bps(bps), "{text}");
        }
        for text in ["4 MB", "4 mb/s", "4 MB/h", "4 Mb/s", "4 MB/", "4", "fast", "4M", "4 mbps", "4 xbit"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("\"250 Mbps\" (bits)") && error.contains("\"4 MB/s\" (bytes)"), "{error}");
        }
        assert!("3000000 TiB/s".parse::<Rate>().unwrap_err().to_string().contains("too large"));
        let error = "250 MB".parse::<Rate>().unwrap_err().to_string();
        assert!(error.contains("Mbps") && error.contains("\"MB\""), "{error}");
    }

    #[test]
    fn conversions() {
        let rate = Rate::from_bps(250_000_000);
        assert_eq!(rate.bytes_in(Duration::from_secs(1)), 31_250_000);
        assert_eq!(rate.time_for(1_500), Duration::from_micros(48));
        assert_eq!(Rate::from_bytes_over(31_250_000, Duration::from_secs(1)), rate);
        assert_eq!(Rate::from_bps(3).time_for(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(rate.mul_ratio(5, 4), Rate::from_bps(312_500_000));
        assert_eq!(Rate::from_bytes_over(1, Duration::ZERO), Rate::MAX);
        assert_eq!(Rate::ZERO.time_for(1).nanos(), u64::MAX);
        assert_eq!(Rate::MAX.mul_ratio(2, 1), Rate::MAX);
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bps: u64) {
            let rate = Rate::from_bps(bps);
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }

        #[test]
        fn time_for_is_the_first_nanosecond_at_which_the_bytes_have_passed(bps in 1u64..1 << 40, bytes in 1u64..1 << 32) {
            let rate = Rate::from_bps(bps);
            let span = rate.time_for(bytes);
            prop_assert!(rate.bytes_in(span) >= bytes);
            prop_assert!(rate.bytes_in(span - Duration::from_nanos(1)) < bytes);
        }
    }
}
