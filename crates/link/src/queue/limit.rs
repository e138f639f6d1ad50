//! The limit of a queue.

use core::fmt;
use core::str::FromStr;

use serde::Serialize;
use thalweg_units::{ByteCount, Duration, DurationExt, Rate, exact_duration, math, parse_bytes, parse_duration};

use crate::ConfigError;
use crate::read::Field;

/// How much may wait in a queue.
///
/// A limit that follows from the link ([`Time`](Self::Time) and [`Bdp`](Self::Bdp)) is never below
/// [`LEAST`](Self::LEAST): on a slow or short path it would otherwise be smaller than a packet, which no device has. A
/// limit given in bytes or packets is taken as it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QueueLimit {
    /// No limit.
    Infinite,
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u64),
    /// As many bytes as the link serves in this time, at the rate of the moment (the last one above zero; the mean rate
    /// of a mahimahi trace).
    Time(Duration),
    /// Thousandths of the bandwidth-delay product: rate × the sum of the fixed delays of both directions. The rate is
    /// that of the start of a schedule, or the mean of a trace.
    Bdp(u64),
}

impl QueueLimit {
    /// The least that a limit in time or in BDP allows to wait: two packets of 1,500 bytes.
    pub const LEAST: u64 = 2 * 1500;

    pub(crate) fn read(field: &dyn Field) -> Option<QueueLimit> {
        const EXPECTED: &str = "a size such as \"1 BDP\", \"600 ms\", \"125 kB\", \"60 packets\" or \"unlimited\"";
        let text = field.text(EXPECTED)?.trim();
        let limit = text.parse().ok();
        if limit.is_none() {
            let bdp = text.strip_suffix("BDP").and_then(|number| number.trim().parse::<f64>().ok());
            let why = match bdp {
                Some(bdp) if bdp > 0.0 => "has more than three decimals, or is too large",
                None if !text.contains(|c: char| c.is_ascii_alphabetic()) => "has no unit",
                _ => "is not a queue size above zero",
            };
            field.complain(&format_args!("\"{text}\" {why}; write {EXPECTED}"));
        }
        limit
    }

    /// The bytes that it comes to, packets counted as of 1,500 bytes; none if there is no limit.
    pub(crate) fn bytes(self, rate: Rate, round_trip: Duration) -> Option<u64> {
        match self.resolve(rate, round_trip) {
            QueueLimit::Infinite | QueueLimit::Bdp(_) => None,
            QueueLimit::Bytes(bytes) => Some(bytes),
            QueueLimit::Packets(packets) => Some(packets.saturating_mul(1500)),
            QueueLimit::Time(span) => Some(rate.bytes_in(span).max(QueueLimit::LEAST)),
        }
    }

    /// Puts bytes in the place of a BDP.
    pub(crate) fn resolve(self, rate: Rate, round_trip: Duration) -> QueueLimit {
        match self {
            QueueLimit::Bdp(thousandths) => {
                let bytes = math::mul_div(rate.bytes_in(round_trip), thousandths, 1000);
                QueueLimit::Bytes(bytes.max(QueueLimit::LEAST))
            }
            other => other,
        }
    }
}

/// "1 BDP", "0.5 BDP", "600 ms", "100 packets", "64 KiB", "unlimited"; nothing that leaves no room.
impl FromStr for QueueLimit {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refuse = || ConfigError::QueueLimit(text.to_owned());
        let text = text.trim();
        if text == "unlimited" || text == "infinite" {
            return Ok(QueueLimit::Infinite);
        }
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = (text[..split].trim(), text[split..].trim());
        match unit.to_ascii_lowercase().as_str() {
            "bdp" => {
                // Seconds and thousandths of them have the form that is wanted here: a decimal with at most three
                // places.
                let span = parse_duration(&format!("{number} s")).map_err(|_| refuse())?;
                let nanos = span.nanos();
                if nanos == 0 || !nanos.is_multiple_of(1_000_000) {
                    return Err(refuse());
                }
                Ok(QueueLimit::Bdp(nanos / 1_000_000))
            }
            "packet" | "packets" | "pkt" | "pkts" => match number.parse() {
                Ok(packets) if packets > 0 => Ok(QueueLimit::Packets(packets)),
                _ => Err(refuse()),
            },
            _ => match (parse_duration(text), parse_bytes(text)) {
                (Ok(span), _) if !span.is_zero() => Ok(QueueLimit::Time(span)),
                (_, Ok(bytes)) if bytes > 0 => Ok(QueueLimit::Bytes(bytes)),
                _ => Err(refuse()),
            },
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueLimit::Infinite => f.write_str("unlimited"),
            QueueLimit::Bytes(bytes) => write!(f, "{}", ByteCount(bytes)),
            QueueLimit::Packets(packets) => write!(f, "{packets} packets"),
            QueueLimit::Time(span) => f.write_str(&exact_duration(span)),
            QueueLimit::Bdp(thousandths) => {
                // The same trick as in reading: "1.5 s" without its unit.
                let text = exact_duration(Duration::from_millis(thousandths));
                match text.strip_suffix(" s") {
                    Some(number) => write!(f, "{number} BDP"),
                    None => write!(f, "{}.{:03} BDP", thousandths / 1000, thousandths % 1000),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_every_unit_and_printed_back() {
        for (text, limit) in [
            ("1 BDP", QueueLimit::Bdp(1000)),
            ("0.5 BDP", QueueLimit::Bdp(500)),
            ("0.025 BDP", QueueLimit::Bdp(25)),
            ("600 ms", QueueLimit::Time(Duration::from_millis(600))),
            ("100 packets", QueueLimit::Packets(100)),
            ("1.5 MB", QueueLimit::Bytes(1_500_000)),
            ("unlimited", QueueLimit::Infinite),
        ] {
            assert_eq!(text.parse::<QueueLimit>().unwrap(), limit, "{text}");
            assert_eq!(limit.to_string().parse::<QueueLimit>().unwrap(), limit, "{limit}");
        }
        for bad in [
            "",
            "1",
            "BDP",
            "0 BDP",
            "-1 BDP",
            "1.00001 BDP",
            "1.5 packets",
            "250 Mbps",
            "many",
            "0 packets",
            "0 ms",
            "0 B",
        ] {
            let message = bad.parse::<QueueLimit>().unwrap_err().to_string();
            assert!(message.contains("BDP") && message.contains("packets"), "{bad}: {message}");
        }
    }

    #[test]
    fn a_bdp_is_rate_times_round_trip() {
        let (rate, round_trip) = (Rate::from_bps(250_000_000), Duration::from_millis(600));
        assert_eq!(QueueLimit::Bdp(1000).resolve(rate, round_trip), QueueLimit::Bytes(18_750_000));
        assert_eq!(QueueLimit::Bdp(500).resolve(rate, round_trip), QueueLimit::Bytes(9_375_000));
        assert_eq!(QueueLimit::Packets(3).resolve(rate, round_trip), QueueLimit::Packets(3));
    }

    #[test]
    fn a_bdp_smaller_than_two_packets_is_two_packets() {
        let (rate, round_trip) = (Rate::from_bps(256_000), Duration::from_millis(20));
        assert_eq!(rate.bytes_in(round_trip), 640);
        assert_eq!(QueueLimit::Bdp(1000).resolve(rate, round_trip), QueueLimit::Bytes(3000));
        assert_eq!(QueueLimit::Bytes(640).resolve(rate, round_trip), QueueLimit::Bytes(640));
    }
}
