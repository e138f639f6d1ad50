//! Writes what crosses a path into a capture (pcapng, draft-ietf-opsawg-pcapng): an interface for each end, and what
//! the path did to packets as comments.

use std::io::{self, Write};

use thalweg_units::Duration;

/// Whole IP packets without a header of a link.
const LINKTYPE_RAW: u16 = 101;
/// Kinds of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Options.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;

/// A capture that is being written. The first error ends it, and is told at the end.
pub(crate) struct Capture<W> {
    out: W,
    /// The block that is being written; kept for its memory.
    block: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// A capture of interfaces of these names.
    pub(crate) fn new(out: W, interfaces: &[impl AsRef<str>]) -> Self {
        let mut capture = Capture { out, block: Vec::new(), failed: None };
        capture.block(SECTION, |block| {
            block.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
            block.extend_from_slice(&[1, 0, 0, 0]);
            // Of a length that is not known.
            block.extend_from_slice(&u64::MAX.to_le_bytes());
        });
        for name in interfaces {
            capture.block(INTERFACE, |block| {
                block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
                // Packets are never cut.
                block.extend_from_slice(&[0; 6]);
                option(block, NAME, name.as_ref().as_bytes());
                // Nanoseconds.
                option(block, RESOLUTION, &[9]);
                option(block, 0, &[]);
            });
        }
        capture
    }

    fn block(&mut self, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
        if self.failed.is_some() {
            return;
        }
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
        write(&mut self.block);
        let length = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX).to_le_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend_from_slice(&length);
        self.failed = self.out.write_all(&self.block).err();
    }

    /// Adds a packet that was at an interface at this time of day.
    pub(crate) fn packet(&mut self, interface: u32, at: Duration, packet: &[u8], comment: Option<&str>) {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        self.block(PACKET, |block| {
            for number in [interface, (nanos >> 32) as u32, nanos as u32, length, length] {
                block.extend_from_slice(&number.to_le_bytes());
            }
            block.extend_from_slice(packet);
            pad(block);
            if let Some(comment) = comment {
                option(block, COMMENT, comment.as_bytes());
                option(block, 0, &[]);
            }
        });
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first error that there was.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

fn option(block: &mut Vec<u8>, kind: u16, value: &[u8]) {
    block.extend_from_slice(&kind.to_le_bytes());
    block.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    block.extend_from_slice(value);
    pad(block);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_long_as_they_say_at_both_ends() {
        let mut bytes = Vec::new();
        let mut capture = Capture::new(&mut bytes, &["client", "server"]);
        capture.packet(1, Duration::new(1_700_000_000, 7), b"hello", Some("dropped: loss"));
        capture.packet(0, Duration::new(1_700_000_001, 0), b"four", None);
        capture.finish().unwrap();
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let length = number(at + 4);
            assert_eq!((length % 4, number(at + length as usize - 4)), (0, length));
            kinds.push((number(at), at));
            at += length as usize;
        }
        let packet = kinds[3].1;
        assert_eq!(kinds.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION, 1, 1, 6, 6]);
        let nanos = u64::from(number(packet + 12)) << 32 | u64::from(number(packet + 16));
        assert_eq!((number(packet + 8), nanos, number(packet + 20)), (1, 1_700_000_000_000_000_007, 5));
        assert_eq!(bytes[packet + 28..packet + 36], *b"hello\0\0\0");
        assert_eq!(bytes[packet + 36..packet + 40], [1, 0, 13, 0]);
    }

    #[test]
    fn the_first_error_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut capture = Capture::new(Full, &["client"]);
        capture.packet(0, Duration::ZERO, b"x", None);
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
