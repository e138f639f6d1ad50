//! The send buffer of one stream: bytes kept until acknowledged, those lost, those never sent.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use crate::range_set::RangeSet;

/// The capacity of a block that collects written bytes, bytes.
const BLOCK: usize = 16 * 1024;

/// Streams shorter than this collect their bytes in blocks made to measure: 4 KiB.
const SMALL: u64 = 4 * 1024;

/// Chunks shorter than this are copied and collected: keeping track of one costs as much. Bytes.
const MIN_SHARED: usize = 512;

/// Empty blocks kept for later: 256 KiB.
const MAX_SPARE: usize = 16;

/// Blocks whose bytes are all acknowledged, for the next writes of any stream of the connection.
#[derive(Debug, Default)]
pub(super) struct SparePool(Vec<Vec<u8>>);

impl SparePool {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }

    fn give(&mut self, mut block: Vec<u8>) {
        if block.capacity() >= BLOCK && self.0.len() < MAX_SPARE {
            block.clear();
            self.0.push(block);
        }
    }
}

#[derive(Debug)]
enum Chunk {
    /// Handed over by the application, never copied.
    Shared(Bytes),
    /// Copied from the application; the last one grows within its capacity.
    Owned(Vec<u8>),
}

impl Chunk {
    fn as_slice(&self) -> &[u8] {
        match self {
            Chunk::Shared(bytes) => bytes,
            Chunk::Owned(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
struct Entry {
    /// The stream offset of the first byte.
    start: u64,
    chunk: Chunk,
}

/// The bytes of a stream from the first that is not acknowledged on.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    entries: VecDeque<Entry>,
    /// How many entries were dropped from the front: makes `cursor` survive that.
    dropped: usize,
    /// The entry, counted from the first ever, where the last copy ended: sequential sending needs no search.
    cursor: usize,
    /// The number of bytes written by the application so far.
    end: u64,
    /// The first byte that was never sent.
    sent: u64,
    /// Everything below is acknowledged.
    acked_prefix: u64,
    /// What is acknowledged above `acked_prefix`.
    acked: RangeSet,
    /// What was sent, lost, and not sent again.
    lost: RangeSet,
}

impl SendBuffer {
    /// The number of bytes written so far: the offset the next one gets.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The offset of the first byte never sent.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes written and never sent.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.sent
    }

    /// Bytes that must be kept.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.end - self.acked_prefix
    }

    /// The first range that was lost and not sent again.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// Appends bytes by copying them.
    pub(super) fn write(&mut self, pool: &mut SparePool, mut data: &[u8]) {
        while !data.is_empty() {
            if let Some(Entry { chunk: Chunk::Owned(tail), .. }) = self.entries.back_mut() {
                let (now, later) = data.split_at(data.len().min(tail.capacity() - tail.len()));
                tail.extend_from_slice(now);
                self.end += now.len() as u64;
                data = later;
            }
            if !data.is_empty() {
                let block = if self.end + data.len() as u64 <= SMALL {
                    Vec::with_capacity(data.len().next_power_of_two().max(64))
                } else {
                    pool.take()
                };
                self.entries.push_back(Entry { start: self.end, chunk: Chunk::Owned(block) });
            }
        }
    }

    /// Appends bytes, without copying unless they are few.
    pub(super) fn write_chunk(&mut self, pool: &mut SparePool, data: Bytes) {
        if data.len() < MIN_SHARED {
            return self.write(pool, &data);
        }
        let start = self.end;
        self.end += data.len() as u64;
        self.entries.push_back(Entry { start, chunk: Chunk::Shared(data) });
    }

    /// Takes the first `len` bytes of the first lost range for sending.
    pub(super) fn take_lost(&mut self, len: u64) {
        self.lost.pop_min_chunk(len);
    }

    /// Takes the next `len` bytes never sent for sending.
    pub(super) fn take_fresh(&mut self, len: u64) {
        self.sent = (self.sent + len).min(self.end);
    }

    /// Copies a range of kept bytes to the end of `buf`.
    pub(super) fn copy(&mut self, range: Range<u64>, buf: &mut Vec<u8>) {
        let mut index = self.find(range.start);
        let mut at = range.start;
        while at < range.end {
            let Some(entry) = self.entries.get(index) else {
                debug_assert!(false, "{range:?} is not kept");
                // Keep the frame's length true; cannot happen, and must not panic.
                buf.resize(buf.len() + (range.end - at) as usize, 0);
                return;
            };
            let bytes = &entry.chunk.as_slice()[(at - entry.start) as usize..];
            let n = bytes.len().min((range.end - at) as usize);
            buf.extend_from_slice(&bytes[..n]);
            at += n as u64;
            if n == bytes.len() && at < range.end {
                index += 1;
            }
        }
        self.cursor = self.dropped + index;
    }

    /// The index of the entry that holds the byte at `offset`.
    fn find(&self, offset: u64) -> usize {
        let hint = self.cursor.saturating_sub(self.dropped);
        // Where the last copy ended, or right behind.
        for index in [hint, hint + 1] {
            if let Some(entry) = self.entries.get(index) {
                let len = entry.chunk.as_slice().len() as u64;
                if offset >= entry.start && offset - entry.start < len {
                    return index;
                }
            }
        }
        self.entries.partition_point(|e| e.start <= offset).saturating_sub(1)
    }

    /// A range arrived at the peer. Returns how many bytes need not be kept any more.
    pub(super) fn on_acked(&mut self, pool: &mut SparePool, range: Range<u64>) -> u64 {
        let range = range.start..range.end.min(self.sent);
        if range.end <= self.acked_prefix {
            return 0;
        }
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > self.acked_prefix {
            self.acked.insert(range);
            return 0;
        }
        let before = self.acked_prefix;
        self.acked_prefix = range.end;
        while let Some(next) = self.acked.first() {
            if next.start > self.acked_prefix {
                break;
            }
            self.acked_prefix = self.acked_prefix.max(next.end);
            self.acked.pop_min();
        }
        while let Some(first) = self.entries.front() {
            let len = first.chunk.as_slice().len() as u64;
            if first.start + len > self.acked_prefix {
                break;
            }
            if let Some(Entry { chunk: Chunk::Owned(block), .. }) = self.entries.pop_front() {
                pool.give(block);
            }
            self.dropped += 1;
        }
        self.acked_prefix - before
    }

    /// A range may not have arrived: what of it is not acknowledged has to be sent again.
    pub(super) fn on_lost(&mut self, range: Range<u64>) {
        let range = range.start.max(self.acked_prefix)..range.end.min(self.sent);
        if range.start >= range.end {
            return;
        }
        if self.acked.is_empty() {
            self.lost.insert(range);
            return;
        }
        for gap in self.acked.gaps(range) {
            self.lost.insert(gap);
        }
    }

    /// Forgets that anything was sent: the peer threw all of it away.
    pub(super) fn unsend(&mut self) {
        self.sent = self.acked_prefix;
        self.lost.clear();
        self.acked.clear();
    }

    /// Drops all bytes. Returns how many were kept.
    pub(super) fn clear(&mut self, pool: &mut SparePool) -> u64 {
        let held = self.held();
        self.dropped += self.entries.len();
        for entry in std::mem::take(&mut self.entries) {
            if let Chunk::Owned(block) = entry.chunk {
                pool.give(block);
            }
        }
        self.lost = RangeSet::new();
        self.acked = RangeSet::new();
        self.end = self.sent;
        self.acked_prefix = self.sent;
        held
    }
}
