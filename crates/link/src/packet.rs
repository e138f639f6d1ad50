//! Packets that cross a link.

use core::fmt;

use thalweg_units::{Ecn, Instant};

/// What a link may do to the content of a packet. Duplication needs `Clone`.
pub trait Payload: Clone + fmt::Debug + Send {
    /// Damages the content, in a way that `dice` (64 random bits) decides.
    fn corrupt(&mut self, dice: u64);
}

impl Payload for () {
    fn corrupt(&mut self, _: u64) {}
}

impl Payload for u64 {
    fn corrupt(&mut self, dice: u64) {
        *self ^= 1 << (dice % 64);
    }
}

/// One bit flips, as behind a checksum that is too weak to notice.
impl Payload for Vec<u8> {
    fn corrupt(&mut self, dice: u64) {
        let bits = self.len() as u64 * 8;
        if bits > 0 {
            let bit = dice % bits;
            if let Some(byte) = self.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}

/// A packet on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<P> {
    /// What it carries. The link looks at it only to damage or to duplicate it.
    pub payload: P,
    /// Bytes on the wire: the IP packet, its IP and UDP headers included.
    pub size: u32,
    /// Whose packet it is: what is counted and drawn by flow goes by this number.
    pub flow: u32,
    /// Which connection of the flow it belongs to. Queues that keep flows apart keep these apart too: see
    /// [`tuple`](Self::tuple).
    pub connection: u32,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// When it was given to the network.
    pub sent: Instant,
    /// Whether it is the last of a message, sent for the first time: its sender has nothing more to say for the moment.
    /// Only [`LossModel::Tail`](crate::LossModel::Tail) looks at it.
    pub tail: bool,
}

impl<P> Packet<P> {
    /// What stands for its addresses, ports and protocol where queues keep flows apart: its flow and its connection.
    pub const fn tuple(&self) -> u64 {
        (self.connection as u64) << 32 | self.flow as u64
    }

    /// Marks it Congestion Experienced instead of dropping it (RFC 3168 section 5). False if its transport does not
    /// support ECN, so that it has to be dropped. One that was marked before counts as marked.
    pub fn try_mark(&mut self) -> bool {
        match self.ecn {
            Ecn::NotEct => return false,
            Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce => self.ecn = Ecn::Ce,
        }
        true
    }
}

/// Why a link did not deliver a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// The queue's management dropped it.
    Aqm,
    /// The policer had no tokens for it.
    Policed,
    /// It was larger than the path's MTU.
    TooBig,
    /// A loss model said so.
    Loss,
    /// It left the queue while the link was down.
    Outage,
    /// It was on the air when a suspension began.
    Suspension,
}

impl DropCause {
    /// All causes, in the order of [`index`](Self::index).
    pub const ALL: [DropCause; 7] = [
        DropCause::QueueFull,
        DropCause::Aqm,
        DropCause::Policed,
        DropCause::TooBig,
        DropCause::Loss,
        DropCause::Outage,
        DropCause::Suspension,
    ];

    /// Position in [`ALL`](Self::ALL), for tables with one entry per cause.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in tables and traces.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::QueueFull => "queue-full",
            DropCause::Aqm => "aqm",
            DropCause::Policed => "policed",
            DropCause::TooBig => "too-big",
            DropCause::Loss => "loss",
            DropCause::Outage => "outage",
            DropCause::Suspension => "suspension",
        }
    }
}

/// The receiver of a link's events. Times are those at which things happened on the link.
///
/// A link works out what happened between two calls when it is called, so reports of drops and departures may come
/// later than the time they carry; deliveries always come on time.
pub trait Sink<P> {
    /// `packet` arrives at the far end.
    fn deliver(&mut self, at: Instant, packet: Packet<P>);

    /// `packet` will not arrive.
    fn dropped(&mut self, at: Instant, packet: Packet<P>, cause: DropCause) {
        let _ = (at, packet, cause);
    }

    /// The last bit of `packet` left the queue's server; it had come to the queue at `queued`.
    fn departed(&mut self, at: Instant, packet: &Packet<P>, queued: Instant) {
        let _ = (at, packet, queued);
    }
}

/// Collects what is delivered.
impl<P> Sink<P> for Vec<(Instant, Packet<P>)> {
    fn deliver(&mut self, at: Instant, packet: Packet<P>) {
        self.push((at, packet));
    }
}

/// Forgets everything.
impl<P> Sink<P> for () {
    fn deliver(&mut self, _: Instant, _: Packet<P>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_supports_ecn_is_marked() {
        for (ecn, marked) in [
            (Ecn::NotEct, (false, Ecn::NotEct)),
            (Ecn::Ect0, (true, Ecn::Ce)),
            (Ecn::Ect1, (true, Ecn::Ce)),
            (Ecn::Ce, (true, Ecn::Ce)),
        ] {
            let mut packet =
                Packet { payload: (), size: 1500, flow: 0, connection: 0, ecn, sent: Instant::ZERO, tail: false };
            assert_eq!((packet.try_mark(), packet.ecn), marked);
        }
    }
}
