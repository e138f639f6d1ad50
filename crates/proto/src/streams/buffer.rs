//! Reassembly of one stream: bytes arrive in any order and leave in order, in blocks that are used again.
//!
//! A stream is cut into blocks on a fixed grid of offsets. Arriving bytes are copied to their place; each block keeps
//! the list of its own filled ranges. However many holes a stream has, one frame touches only the blocks it covers,
//! so a hole costs nothing but the memory of what lies beyond it. Reading hands out parts of the blocks without
//! copying.

mod unordered;

use std::collections::{BTreeSet, VecDeque};

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

/// The size of a block, bytes. Larger means fewer, longer reads; smaller wastes less at the ends of a hole.
pub(super) const BLOCK: usize = 16 * 1024;

/// Up to this size the first block of a stream is made to measure, so that many small streams stay small: 2 KiB.
const SMALL: usize = 2 * 1024;

/// Used-up blocks kept for later: 256 KiB. In-order traffic needs two or three; the rest is for bursts of reordering.
const MAX_SPARE: usize = 16;

/// How many spare blocks are tried before a new one is allocated; the oldest were likeliest let go by their readers.
const TRIES: usize = 2;

/// Blocks that were read to their end. Their memory is used again once the application has dropped what it read.
#[derive(Debug, Default)]
pub(super) struct BlockPool {
    spare: VecDeque<BytesMut>,
}

impl BlockPool {
    /// An empty buffer with room for a block.
    fn take(&mut self) -> BytesMut {
        for _ in 0..TRIES {
            let Some(mut block) = self.spare.pop_front() else {
                break;
            };
            if block.try_reclaim(BLOCK) {
                return block;
            }
            self.spare.push_back(block);
        }
        BytesMut::with_capacity(BLOCK)
    }

    fn give(&mut self, block: Block) {
        if block.whole {
            self.give_memory(block.data);
        }
    }

    fn give_memory(&mut self, mut data: BytesMut) {
        if self.spare.len() < MAX_SPARE {
            data.clear();
            self.spare.push_back(data);
        }
    }
}

/// One block of the grid: what of it was not read yet.
#[derive(Debug)]
struct Block {
    /// Initialised up to the highest byte received; begins at position `start`. Of a stream that is read out of order:
    /// the bytes of `unread`, without the holes between.
    data: BytesMut,
    /// The position in the block of the first byte of `data`: what lies below was read.
    start: usize,
    /// Filled positions: sorted, disjoint, not touching. At most `BLOCK / 2`, whatever the peer does.
    filled: Ranges,
    /// Whether `data` has room for a whole block, so that it is worth keeping.
    whole: bool,
    /// Positions filled and not read yet, in the form of `filled`; only of a stream that is read out of order. Then
    /// `start` means nothing, and `filled` keeps what was read.
    unread: Option<Ranges>,
}

/// Sorted, disjoint ranges of positions in a block.
type Ranges = SmallVec<[(u16, u16); 3]>;

impl Block {
    /// A block for data from position `start` on, of which `needed` bytes are known.
    fn new(pool: &mut BlockPool, small: bool, start: usize, needed: usize) -> Block {
        let small = small && needed <= SMALL;
        Block {
            data: if small { BytesMut::with_capacity(needed) } else { pool.take() },
            start,
            filled: SmallVec::new(),
            whole: !small,
            unread: None,
        }
    }

    /// Copies bytes to position `at`, which is not below `start`. Returns how many are new.
    fn write(&mut self, pool: &mut BlockPool, at: usize, bytes: &[u8]) -> u64 {
        if self.unread.is_some() {
            return self.write_unordered(pool, at as u16, bytes);
        }
        let added = mark(&mut self.filled, at as u16, (at + bytes.len()) as u16);
        if added == 0 {
            return 0;
        }
        let at = at - self.start;
        let end = at + bytes.len();
        if !self.whole && end > self.data.capacity() {
            self.grow(pool, end);
        }
        let len = self.data.len();
        if at > len {
            self.data.resize(at, 0);
            self.data.extend_from_slice(bytes);
        } else {
            let (over, beyond) = bytes.split_at((len - at).min(bytes.len()));
            self.data[at..at + over.len()].copy_from_slice(over);
            self.data.extend_from_slice(beyond);
        }
        u64::from(added)
    }

    /// Moves what a made-to-measure block holds to a larger one.
    fn grow(&mut self, pool: &mut BlockPool, needed: usize) {
        self.whole = self.start + needed > SMALL;
        let mut data = if self.whole { pool.take() } else { BytesMut::with_capacity(SMALL) };
        data.extend_from_slice(&self.data);
        self.data = data;
    }

    /// How many bytes can be read now.
    #[inline]
    fn readable(&self) -> usize {
        match self.filled.first() {
            Some(&(from, to)) if usize::from(from) == self.start => usize::from(to - from),
            _ => 0,
        }
    }

    /// Accounts for `n` bytes that were taken off the front of `data`.
    fn advance(&mut self, n: usize) {
        self.start += n;
        if let Some(first) = self.filled.first_mut() {
            first.0 += n as u16;
            if first.0 == first.1 {
                self.filled.remove(0);
            }
        }
    }
}

/// Adds `from..to` to a sorted list of disjoint ranges. Returns how many positions are new.
fn mark(filled: &mut Ranges, from: u16, to: u16) -> u16 {
    match filled.last_mut() {
        // In order, or overlapping the end: by far the most common.
        Some(last) if from >= last.0 && from <= last.1 => {
            let added = to.saturating_sub(last.1);
            last.1 += added;
            return added;
        }
        Some(last) if from < last.0 => {}
        _ => {
            filled.push((from, to));
            return to - from;
        }
    }
    let first = filled.partition_point(|r| r.1 < from);
    let mut last = first;
    let (mut low, mut high, mut present) = (from, to, 0);
    while let Some(r) = filled.get(last).filter(|r| r.0 <= to) {
        low = low.min(r.0);
        high = high.max(r.1);
        present += r.1 - r.0;
        last += 1;
    }
    if first == last {
        filled.insert(first, (low, high));
    } else {
        filled[first] = (low, high);
        filled.drain(first + 1..last);
    }
    high - low - present
}

/// The bytes of one stream that were received and not read yet.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// Blocks from the one that holds `read` on. `None`: nothing of it arrived.
    blocks: VecDeque<Option<Block>>,
    /// The offset of the next byte to read.
    read: u64,
    /// The number of different bytes received, read or not.
    received: u64,
    /// The number of bytes read, in order or not.
    taken: u64,
    /// The numbers of the blocks that hold unread bytes; only of a stream that is read out of order.
    unread: BTreeSet<u64>,
    /// Whether the stream is read out of order: then `read` is where the oldest block kept begins, or was begun to be
    /// read.
    is_unordered: bool,
}

impl Assembler {
    /// How many bytes were read; in order, the offset of the next.
    #[inline]
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether bytes were read out of order: then there is no next byte any more.
    pub(super) fn is_unordered(&self) -> bool {
        self.is_unordered
    }

    /// How many different bytes were received in total.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether a byte can be read.
    pub(super) fn is_readable(&self) -> bool {
        if self.is_unordered {
            return self.received > self.taken;
        }
        matches!(self.blocks.front(), Some(Some(block)) if block.readable() > 0)
    }

    /// Stores bytes at their offset. Returns how many were new.
    ///
    /// Takes time in proportion to the length of `data`, plus once per block for every block the stream grows by.
    pub(super) fn insert(&mut self, pool: &mut BlockPool, mut offset: u64, mut data: &[u8]) -> u64 {
        if offset < self.read {
            let old = (self.read - offset).min(data.len() as u64);
            data = &data[old as usize..];
            offset += old;
        }
        let mut added = 0;
        while !data.is_empty() {
            let at = (offset % BLOCK as u64) as usize;
            let (now, later) = data.split_at(data.len().min(BLOCK - at));
            let index = (offset / BLOCK as u64 - self.read / BLOCK as u64) as usize;
            if index >= self.blocks.len() {
                self.blocks.resize_with(index + 1, || None);
            }
            let start = if index == 0 { (self.read % BLOCK as u64) as usize } else { 0 };
            let is_unordered = self.is_unordered;
            let block = self.blocks[index].get_or_insert_with(|| {
                let small = offset < BLOCK as u64;
                let mut block = Block::new(pool, small, start, at + now.len() - start);
                block.unread = is_unordered.then(Ranges::new);
                block
            });
            let new = block.write(pool, at, now);
            if is_unordered && new > 0 {
                self.unread.insert(offset / BLOCK as u64);
            }
            added += new;
            offset += now.len() as u64;
            data = later;
        }
        self.received += added;
        added
    }

    /// Takes the next bytes, at most `max` and at most to the end of a block, without copying. `None` if the next
    /// byte has not arrived.
    pub(super) fn read(&mut self, pool: &mut BlockPool, max: usize) -> Option<Bytes> {
        debug_assert!(!self.is_unordered);
        let Some(Some(block)) = self.blocks.front_mut() else {
            return None;
        };
        let n = block.readable().min(max);
        if n == 0 {
            return None;
        }
        let bytes = block.data.split_to(n).freeze();
        block.advance(n);
        self.advance(pool, n);
        Some(bytes)
    }

    /// Copies the next bytes into `out`. Returns how many.
    pub(super) fn read_into(&mut self, pool: &mut BlockPool, out: &mut [u8]) -> usize {
        let mut copied = 0;
        while let Some(Some(block)) = self.blocks.front_mut() {
            let n = block.readable().min(out.len() - copied);
            if n == 0 {
                break;
            }
            out[copied..copied + n].copy_from_slice(&block.data[..n]);
            block.data.advance(n);
            block.advance(n);
            self.advance(pool, n);
            copied += n;
        }
        copied
    }

    fn advance(&mut self, pool: &mut BlockPool, n: usize) {
        self.taken += n as u64;
        self.read += n as u64;
        if self.read.is_multiple_of(BLOCK as u64)
            && let Some(Some(block)) = self.blocks.pop_front()
        {
            pool.give(block);
        }
    }

    /// Throws away what was not read.
    pub(super) fn discard(&mut self, pool: &mut BlockPool) {
        self.unread.clear();
        for block in std::mem::take(&mut self.blocks).into_iter().flatten() {
            pool.give(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The byte that test streams have at an offset.
    fn byte(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    fn bytes(offset: u64, len: usize) -> Vec<u8> {
        (offset..offset + len as u64).map(byte).collect()
    }

    fn drain(a: &mut Assembler, pool: &mut BlockPool, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(b) = a.read(pool, max) {
            assert!(b.len() <= max);
            out.extend_from_slice(&b);
        }
        out
    }

    #[test]
    fn in_order_bytes_come_back_in_long_pieces() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        for n in 0..100 {
            assert_eq!(a.insert(&mut pool, n * 1000, &bytes(n * 1000, 1000)), 1000);
        }
        let first = a.read(&mut pool, usize::MAX).unwrap();
        assert_eq!(first.len(), BLOCK);
        let rest = drain(&mut a, &mut pool, usize::MAX);
        assert_eq!([&first[..], &rest[..]].concat(), bytes(0, 100_000));
    }

    #[test]
    fn memory_is_used_again_once_readers_let_go() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        let data = bytes(0, 1200);
        let mut places = std::collections::BTreeSet::new();
        for n in 0..1000u64 {
            a.insert(&mut pool, n * 1200, &data);
            while let Some(b) = a.read(&mut pool, usize::MAX) {
                places.insert(b.as_ptr() as usize / BLOCK);
            }
        }
        assert!(places.len() < 12, "{} places", places.len());
    }

    #[test]
    fn twenty_thousand_holes_are_cheap_and_harmless() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        for n in (0..20_000u64).rev() {
            assert_eq!(a.insert(&mut pool, 2 * n + 1, &[byte(2 * n + 1)]), 1);
        }
        assert!(!a.is_readable());
        assert_eq!(a.received(), 20_000);
        for n in 0..20_000u64 {
            assert_eq!(a.insert(&mut pool, 2 * n, &[byte(2 * n)]), 1);
        }
        assert_eq!(drain(&mut a, &mut pool, usize::MAX), bytes(0, 40_000));
        assert_eq!(a.taken(), 40_000);
    }

    #[test]
    fn a_million_holes_over_a_wide_window_take_no_quadratic_time() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        // Every other 60-byte piece of 120 MB, in an order that jumps about.
        let pieces = 1_000_000u64;
        for n in 0..pieces {
            let n = n * 7_919 % pieces;
            a.insert(&mut pool, n * 120 + 60, &[1; 60]);
        }
        assert_eq!(a.received(), pieces * 60);
        assert!(!a.is_readable());
    }

    #[test]
    fn small_streams_take_little_memory() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        a.insert(&mut pool, 0, &bytes(0, 100));
        assert!(a.blocks[0].as_ref().unwrap().data.capacity() < 256);
        a.insert(&mut pool, 100, &bytes(100, 100));
        assert!(a.blocks[0].as_ref().unwrap().data.capacity() <= SMALL);
        assert_eq!(a.read(&mut pool, 150).unwrap(), bytes(0, 150));
        a.insert(&mut pool, 200, &bytes(200, 5000));
        assert_eq!(drain(&mut a, &mut pool, usize::MAX), bytes(150, 5050));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, usize),
        Read(usize),
        ReadInto(usize),
    }

    fn op(span: u64) -> impl Strategy<Value = Op> {
        let len = prop_oneof![0usize..40, 0usize..3000, 0usize..40_000];
        prop_oneof![
            6 => (0..span, len).prop_map(|(o, l)| Op::Insert(o, l)),
            1 => (0usize..30_000).prop_map(Op::Read),
            1 => (0usize..30_000).prop_map(Op::ReadInto),
        ]
    }

    proptest! {
        #[test]
        fn any_order_overlap_and_repetition_gives_the_exact_bytes(
            ops in (1u64..100_000).prop_flat_map(|span| proptest::collection::vec(op(span), 1..60)),
        ) {
            let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
            let mut model = crate::range_set::RangeSet::new();
            let mut read = Vec::new();
            let mut end = 0;
            for op in ops {
                match op {
                    Op::Insert(offset, len) => {
                        end = end.max(offset + len as u64);
                        let new = model.insert(offset..offset + len as u64);
                        prop_assert_eq!(a.insert(&mut pool, offset, &bytes(offset, len)), new);
                    }
                    Op::Read(max) => if let Some(b) = a.read(&mut pool, max) {
                        prop_assert!(b.len() <= max);
                        read.extend_from_slice(&b);
                    },
                    Op::ReadInto(max) => {
                        let mut out = vec![0; max];
                        let n = a.read_into(&mut pool, &mut out);
                        read.extend_from_slice(&out[..n]);
                    }
                }
                prop_assert_eq!(a.taken(), read.len() as u64);
                prop_assert_eq!(a.received(), model.total());
                prop_assert_eq!(a.is_readable(), model.contains(read.len() as u64));
            }
            let holes: Vec<_> = model.gaps(0..end).collect();
            for hole in holes {
                a.insert(&mut pool, hole.start, &bytes(hole.start, (hole.end - hole.start) as usize));
            }
            read.extend(drain(&mut a, &mut pool, usize::MAX));
            prop_assert_eq!(&read, &bytes(0, end as usize));
        }
    }
}
