//! Queues: where packets wait for the link. One interface, clocked by an argument.

mod fifo;

use core::fmt::{self, Debug};
use core::str::FromStr;

pub use fifo::Fifo;
use thalweg_units::{ByteCount, Duration, DurationExt, Rate, exact_duration, math, parse_bytes, parse_duration};
use thalweg_units::{Instant, ParseError};

use crate::{ConfigError, DropCause, Packet};

/// A packet that waits, and since when.
#[derive(Clone, Debug)]
pub struct Queued<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When it came to the queue.
    pub at: Instant,
}

/// What a queue discarded.
#[derive(Clone, Debug)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
}

/// A queue discipline. The packet that is being serialized has left the queue and takes no place in it.
///
/// Nothing here reads a clock: the same object serves a simulation and a real-time emulator. Calls come with times that do
/// not go back. A queue that marks instead of dropping sets [`Packet::ecn`] to CE.
pub trait Queue<P>: Debug + Send {
    /// Takes in `packet`, or discards it or others into `dropped`.
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>);

    /// Takes in `packet` while the link is idle and nothing waits: it is next to be serialized, so it needs no place
    /// and the limit does not apply to it. A queue that does not say otherwise treats it like any other.
    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.enqueue(now, packet, dropped);
    }

    /// Hands out the next packet to serialise. Packets discarded on the way go into `dropped`.
    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>>;

    /// The link now serves at this rate (limits given in time depend on it).
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// Bytes that wait.
    fn len_bytes(&self) -> u64;

    /// Packets that wait.
    fn len_packets(&self) -> usize;
}

/// How much may wait in a queue.
///
/// A limit that follows from the link ([`Time`](Self::Time) and [`Bdp`](Self::Bdp)) is never below
/// [`LEAST`](Self::LEAST): on a slow or short path it would otherwise be smaller than a packet, which no device has. A
/// limit given in bytes or packets is taken as it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueLimit {
    /// No limit.
    Infinite,
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u64),
    /// As many bytes as the link serves in this time, at the rate of the moment (the last one above zero; the mean rate of a
    /// mahimahi trace).
    Time(Duration),
    /// Thousandths of the bandwidth-delay product: rate × the sum of the fixed delays of both directions. The rate is that
    /// of the start of a schedule, or the mean of a trace.
    Bdp(u64),
}

impl QueueLimit {
    /// The least that a limit in time or in BDP allows to wait: two packets of 1,500 bytes.
    pub const LEAST: u64 = 2 * 1500;

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

/// "1 BDP", "0.5 BDP", "600 ms", "100 packets", "64 KiB", "infinite".
impl FromStr for QueueLimit {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refuse = || ConfigError::QueueLimit(text.to_owned());
        let text = text.trim();
        if text == "infinite" {
            return Ok(QueueLimit::Infinite);
        }
        if let Some(number) = text.strip_suffix("BDP") {
            // Seconds and thousandths of them have the form that is wanted here: a decimal with at most three places.
            let span = parse_duration(&format!("{} s", number.trim())).map_err(|_| refuse())?;
            let nanos = span.nanos();
            if nanos == 0 || !nanos.is_multiple_of(1_000_000) {
                return Err(refuse());
            }
            return Ok(QueueLimit::Bdp(nanos / 1_000_000));
        }
        if let Some(number) = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet")) {
            return number.trim().parse().map(QueueLimit::Packets).map_err(|_| refuse());
        }
        match (parse_duration(text), parse_bytes(text)) {
            (Ok(span), _) => Ok(QueueLimit::Time(span)),
            (_, Ok(bytes)) => Ok(QueueLimit::Bytes(bytes)),
            (Err(ParseError::TooLarge { .. } | ParseError::TooFine { .. }), _) | (_, Err(_)) => Err(refuse()),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueLimit::Infinite => f.write_str("infinite"),
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

/// Which queue stands before the link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out; what finds the queue full is dropped.
    #[default]
    TailDrop,
    /// First in, first out; what finds the queue full pushes out the oldest.
    HeadDrop,
}

impl Discipline {
    /// A queue of this discipline. `limit` may not be in BDP any more.
    pub(crate) fn build<P: Debug + Send + 'static>(self, limit: QueueLimit, rate: Rate) -> Box<dyn Queue<P>> {
        let mut queue = Fifo::new(limit, self == Discipline::HeadDrop);
        queue.set_limit_rate(rate);
        Box::new(queue)
    }
}

/// "tail-drop" or "head-drop".
impl FromStr for Discipline {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "tail-drop" => Ok(Discipline::TailDrop),
            "head-drop" => Ok(Discipline::HeadDrop),
            _ => Err(ConfigError::Discipline(text.to_owned())),
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
            ("infinite", QueueLimit::Infinite),
        ] {
            assert_eq!(text.parse::<QueueLimit>().unwrap(), limit, "{text}");
            assert_eq!(limit.to_string().parse::<QueueLimit>().unwrap(), limit, "{limit}");
        }
        for bad in ["", "1", "BDP", "0 BDP", "-1 BDP", "1.00001 BDP", "1.5 packets", "250 Mbps", "many"] {
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
