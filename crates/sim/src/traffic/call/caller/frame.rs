//! Frames of a call as bytes: their heads, and how they are read from a stream.

use bytes::BufMut;
use thalweg_units::Instant;

use super::super::plan::FRAME_HEAD;

/// The head of a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) track: usize,
    pub(super) number: u64,
    /// Bytes, the head included.
    pub(super) size: u64,
    pub(super) captured: Instant,
}

impl Head {
    /// Appends it to `to`.
    pub(super) fn write(self, to: &mut impl BufMut) {
        // Plans are checked: eight tracks, an hour of 1,000 frames per second, 16 MiB.
        to.put_u8(self.track as u8);
        to.put_u32(self.number as u32);
        to.put_u32(self.size as u32);
        to.put_u64(self.captured.as_nanos());
    }

    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(head: &[u8; FRAME_HEAD]) -> Head {
        let number =
            |range: core::ops::Range<usize>| head[range].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Head {
            track: usize::from(head[0]),
            number: number(1..5),
            size: number(5..9),
            captured: Instant::from_nanos(number(9..17)),
        }
    }
}

/// A stream that is read.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) id: u64,
    head: [u8; FRAME_HEAD],
    /// Bytes of the head that are there.
    have: usize,
    /// Bytes of the frame that are missing, once the head is there.
    missing: u64,
}

impl Incoming {
    /// A stream of which nothing was read.
    pub(super) fn new(id: u64) -> Incoming {
        Incoming { id, head: [0; FRAME_HEAD], have: 0, missing: 0 }
    }

    /// Takes the next bytes, and adds the heads of the frames that they complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], complete: &mut Vec<Head>) {
        while !bytes.is_empty() {
            if self.have < FRAME_HEAD {
                let some = bytes.len().min(FRAME_HEAD - self.have);
                self.head[self.have..self.have + some].copy_from_slice(&bytes[..some]);
                (self.have, bytes) = (self.have + some, &bytes[some..]);
                if self.have < FRAME_HEAD {
                    return;
                }
                self.missing = Head::read(&self.head).size.saturating_sub(FRAME_HEAD as u64);
            }
            let some = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
            (self.missing, bytes) = (self.missing - some as u64, &bytes[some..]);
            if self.missing == 0 {
                complete.push(Head::read(&self.head));
                self.have = 0;
            }
        }
    }
}
