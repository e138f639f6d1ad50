//! A device of an end, as the emulator reads and writes it: IP packets, whatever is around them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use crate::system::cable::{self, DEVICE_ADDRESS, WIRE_ADDRESS};

/// Bytes of an Ethernet header.
const FRAME: usize = 14;

/// A device of an end.
pub(crate) struct Device {
    file: File,
    /// Whether packets are in Ethernet frames.
    is_framed: bool,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Device {
    pub(crate) fn new(file: File, is_framed: bool) -> Self {
        Device { file, is_framed }
    }

    /// Reads a packet; returns its length.
    pub(crate) fn read(&mut self, packet: &mut [u8]) -> io::Result<usize> {
        if !self.is_framed {
            return self.file.read(packet);
        }
        let mut frame = [0; FRAME];
        let length = self.file.read_vectored(&mut [IoSliceMut::new(&mut frame), IoSliceMut::new(packet)])?;
        Ok(length.saturating_sub(FRAME))
    }

    /// Writes a packet.
    pub(crate) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        if !self.is_framed {
            return self.file.write(packet).map(|_| ());
        }
        let mut frame = [0; FRAME];
        frame[..6].copy_from_slice(&DEVICE_ADDRESS);
        frame[6..12].copy_from_slice(&WIRE_ADDRESS);
        let is_ipv4 = packet.first().is_some_and(|first| first >> 4 == 4);
        frame[12..].copy_from_slice(if is_ipv4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
        self.file.write_vectored(&[IoSlice::new(&frame), IoSlice::new(packet)]).map(|_| ())
    }

    /// Packets that were dropped because they were not read in time, where the emulator's side knows.
    pub(crate) fn dropped(&self) -> u64 {
        if self.is_framed { cable::dropped_by(&self.file) } else { 0 }
    }
}
