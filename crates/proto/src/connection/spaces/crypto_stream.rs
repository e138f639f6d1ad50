//! The CRYPTO stream of one packet-number space: handshake bytes in order, out of order and lost (RFC 9000 section
//! 7.5).

use std::ops::Range;

use crate::{error::TransportError, range_set::RangeSet};

/// How far beyond what TLS has read the peer may send. RFC 9000 section 7.5 demands at least 4096;
/// a certificate chain with post-quantum signatures needs tens of kilobytes.
pub(crate) const MAX_BUFFERED: u64 = 128 * 1024;
/// The same for a client's Initial packets, whose address nobody has proved yet: enough for a ClientHello with several
/// post-quantum key shares, too little to be worth a flood.
pub(crate) const MAX_UNPROVEN: u64 = 16 * 1024;

/// Both directions of one CRYPTO stream. Handshakes are small, so bytes stay in plain vectors until the keys go.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    incoming: Vec<u8>,
    arrived: RangeSet,
    read: u64,
    outgoing: Vec<u8>,
    sent: u64,
    acked: RangeSet,
    lost: RangeSet,
}

impl CryptoStream {
    /// Takes a CRYPTO frame's bytes, at most `ahead` beyond what was read. Duplicates and overlaps are harmless.
    ///
    /// # Errors
    /// `CRYPTO_BUFFER_EXCEEDED` if the bytes lie too far ahead.
    pub fn receive(&mut self, offset: u64, data: &[u8], ahead: u64) -> Result<(), TransportError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.read + ahead {
            return Err(TransportError::crypto_buffer_exceeded(
                "CRYPTO data too far ahead of what the handshake has read",
            ));
        }
        if end <= self.read || data.is_empty() {
            return Ok(());
        }
        let skip = self.read.saturating_sub(offset) as usize;
        let from = offset + skip as u64;
        let at = (from - self.read) as usize;
        let data = &data[skip..];
        if self.incoming.len() < at + data.len() {
            self.incoming.resize(at + data.len(), 0);
        }
        self.incoming[at..at + data.len()].copy_from_slice(data);
        self.arrived.insert(from..end);
        Ok(())
    }

    /// The bytes that are next in order, empty if there is a gap; call [`Self::consume`] afterwards.
    pub fn readable(&self) -> &[u8] {
        match self.arrived.iter().next() {
            Some(first) if first.start <= self.read => &self.incoming[..(first.end - self.read) as usize],
            _ => &[],
        }
    }

    /// Forgets `len` readable bytes.
    pub fn consume(&mut self, len: usize) {
        self.incoming.drain(..len);
        self.read += len as u64;
        self.arrived.remove(0..self.read);
    }

    /// Queues handshake bytes for sending.
    pub fn write(&mut self, data: &[u8]) {
        self.outgoing.extend_from_slice(data);
    }

    /// Whether a CRYPTO frame wants to be sent.
    pub fn can_send(&self) -> bool {
        !self.lost.is_empty() || self.sent < self.outgoing.len() as u64
    }

    /// The next at most `max` bytes to send, lost ones first.
    pub fn next_chunk(&mut self, max: usize) -> Option<Range<u64>> {
        if max == 0 {
            return None;
        }
        if let Some(lost) = self.lost.pop_min_chunk(max as u64) {
            return Some(lost);
        }
        let end = (self.outgoing.len() as u64).min(self.sent + max as u64);
        (end > self.sent).then(|| std::mem::replace(&mut self.sent, end)..end)
    }

    /// How many bytes are to be sent again.
    pub fn lost_len(&self) -> u64 {
        self.lost.total()
    }

    /// Whether the peer sends again what was read long ago.
    pub fn has_read(&self, end: u64) -> bool {
        end <= self.read
    }

    /// Where the next chunk will start.
    pub fn next_offset(&self) -> u64 {
        self.lost.iter().next().map_or(self.sent, |lost| lost.start)
    }

    /// The bytes of a range given by [`Self::next_chunk`].
    pub fn bytes(&self, range: &Range<u64>) -> &[u8] {
        &self.outgoing[range.start as usize..range.end as usize]
    }

    /// The peer has these bytes.
    pub fn on_acked(&mut self, range: &Range<u64>) {
        self.acked.insert(range.clone());
        self.lost.remove(range.clone());
    }

    /// These bytes must be sent again, unless another copy was acknowledged.
    pub fn on_lost(&mut self, range: &Range<u64>) {
        self.lost.insert(range.clone());
        for acked in self.acked.iter() {
            self.lost.remove(acked.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_order_whatever_the_arrival_order() {
        let mut s = CryptoStream::default();
        s.receive(3, b"def", MAX_BUFFERED).unwrap();
        assert!(s.readable().is_empty());
        s.receive(0, b"abcd", MAX_BUFFERED).unwrap();
        assert_eq!(s.readable(), b"abcdef");
        s.consume(6);
        s.receive(2, b"cdefgh", MAX_BUFFERED).unwrap();
        assert_eq!(s.readable(), b"gh");
    }

    #[test]
    fn far_ahead_is_crypto_buffer_exceeded() {
        let mut s = CryptoStream::default();
        assert!(s.receive(4096, b"x", MAX_BUFFERED).is_ok());
        assert!(s.receive(MAX_BUFFERED, b"x", MAX_BUFFERED).is_err());
        assert!(s.receive(u64::MAX, b"x", MAX_BUFFERED).is_err());
    }

    #[test]
    fn lost_bytes_are_sent_again_and_acked_ones_never() {
        let mut s = CryptoStream::default();
        s.write(b"0123456789");
        let first = s.next_chunk(6).unwrap();
        let second = s.next_chunk(6).unwrap();
        assert_eq!((first.clone(), second.clone()), (0..6, 6..10));
        s.on_lost(&first);
        s.on_acked(&(0..3));
        assert_eq!(s.next_chunk(100), Some(3..6));
        s.on_acked(&second);
        s.on_lost(&second);
        assert!(!s.can_send());
    }
}
