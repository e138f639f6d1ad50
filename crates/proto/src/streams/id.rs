//! Stream identifiers (RFC 9000 section 2.1): who opened a stream, in which direction, and the how-manieth it is.

use std::fmt;

use crate::Side;

/// Whether data flows both ways or only away from the end that opened the stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Bidirectional.
    Bi,
    /// Unidirectional: only the end that opened the stream sends.
    Uni,
}

impl Dir {
    /// Both directions, in the order of [`Dir::index`].
    pub const ALL: [Dir; 2] = [Dir::Bi, Dir::Uni];

    /// 0 for bidirectional, 1 for unidirectional: for arrays with one element per direction.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A stream identifier: a 62-bit number whose two lowest bits encode the initiator and the direction.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The most streams of one kind a connection can ever have: 2^60 (RFC 9000 section 4.6).
    pub const MAX_STREAMS: u64 = 1 << 60;

    /// The `index`-th stream (from 0) of a direction opened by `initiator`.
    #[inline]
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> StreamId {
        StreamId(index << 2 | (dir as u64) << 1 | initiator as u64)
    }

    /// The identifier as it came off the wire.
    #[inline]
    pub const fn from_u64(id: u64) -> StreamId {
        StreamId(id)
    }

    /// The identifier as it goes on the wire.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The end that opened, or would open, the stream.
    #[inline]
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// The direction.
    #[inline]
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// How many streams of the same kind have lower numbers.
    #[inline]
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl From<StreamId> for u64 {
    fn from(id: StreamId) -> u64 {
        id.0
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let initiator = match self.initiator() {
            Side::Client => "client",
            Side::Server => "server",
        };
        let dir = match self.dir() {
            Dir::Bi => "bi",
            Dir::Uni => "uni",
        };
        write!(f, "{initiator} {dir} stream {}", self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_low_bits_tell_initiator_and_direction_as_in_table_1() {
        for (id, initiator, dir) in [
            (0, Side::Client, Dir::Bi),
            (1, Side::Server, Dir::Bi),
            (2, Side::Client, Dir::Uni),
            (3, Side::Server, Dir::Uni),
        ] {
            for index in [0, 1, 77, (1 << 60) - 1] {
                let stream = StreamId::new(initiator, dir, index);
                assert_eq!(stream.as_u64(), index * 4 + id);
                assert_eq!(StreamId::from_u64(index * 4 + id), stream);
                assert_eq!((stream.initiator(), stream.dir(), stream.index()), (initiator, dir, index));
            }
        }
    }
}
