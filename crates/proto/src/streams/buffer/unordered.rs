//! Reading bytes in whatever order they arrive.
//!
//! A block then keeps two lists: what was received, so that no byte is handed out twice, and what of it was not read
//! yet. It holds the unread bytes only, one range after the other. Its memory goes back as soon as nothing in it is
//! unread, and what comes to fill a hole later gets as much as it needs. Blocks at the front are forgotten once they
//! are complete.

use bytes::{Bytes, BytesMut};

use super::{Assembler, BLOCK, Block, BlockPool, mark};

impl Block {
    /// From now on reads come in any order: what is filled is unread, and the holes between take no memory.
    fn begin_unordered(&mut self) {
        let mut len = 0;
        for &(from, to) in &self.filled {
            let (from, to) = (usize::from(from) - self.start, usize::from(to) - self.start);
            self.data.copy_within(from..to, len);
            len += to - from;
        }
        self.data.truncate(len);
        self.start = 0;
        self.unread = Some(self.filled.clone());
    }

    /// Stores bytes of a stream that is read out of order. Returns how many are new.
    pub(super) fn write_unordered(&mut self, pool: &mut BlockPool, at: u16, bytes: &[u8]) -> u64 {
        let to = at + bytes.len() as u16;
        let Some(unread) = &mut self.unread else { return 0 };
        // What of `unread` lies before, and within, the bytes that arrive.
        let (before, within) = match unread.last() {
            Some(last) if last.1 > at => {
                let clip = |low: u16, high: u16| {
                    let first = unread.partition_point(|range| range.1 <= low);
                    let ranges = unread.iter().skip(first).take_while(move |range| range.0 < high);
                    ranges.map(move |range| usize::from(range.1.min(high) - range.0.max(low))).sum::<usize>()
                };
                (clip(0, at), clip(at, to))
            }
            _ => (self.data.len(), 0),
        };
        let mut from = at;
        let mut added = 0;
        let first = self.filled.partition_point(|known| known.1 <= at);
        for &(start, end) in self.filled.iter().skip(first).take_while(|known| known.0 < to) {
            if from < start {
                added += mark(unread, from, start);
            }
            from = from.max(end);
        }
        if from < to {
            added += mark(unread, from, to);
        }
        if added == 0 {
            return 0;
        }
        mark(&mut self.filled, at, to);
        let len = self.data.len();
        self.make_room(pool, len + usize::from(added));
        let now = within + usize::from(added);
        if before + within == len {
            self.data.truncate(before);
        } else {
            self.data.resize(len + usize::from(added), 0);
            self.data.copy_within(before + within..len, before + now);
        }
        // Of the bytes that arrive, those that are unread: not those that were read before.
        let unread = self.unread.as_deref().unwrap_or_default();
        let first = unread.partition_point(|range| range.1 <= at);
        let mut place = before;
        for range in unread.iter().skip(first).take_while(|range| range.0 < to) {
            let piece = &bytes[usize::from(range.0.max(at) - at)..usize::from(range.1.min(to) - at)];
            if place == self.data.len() {
                self.data.extend_from_slice(piece);
            } else {
                self.data[place..place + piece.len()].copy_from_slice(piece);
            }
            place += piece.len();
        }
        u64::from(added)
    }

    /// Makes room for `needed` unread bytes. A whole block always has it, since every position is stored once.
    fn make_room(&mut self, pool: &mut BlockPool, needed: usize) {
        if needed <= self.data.capacity() {
            return;
        }
        self.whole = needed > BLOCK / 2;
        let mut data = if self.whole { pool.take() } else { BytesMut::with_capacity(needed.max(2 * self.data.len())) };
        data.extend_from_slice(&self.data);
        self.data = data;
    }

    /// Takes the lowest unread bytes, at most `max`, with their position. `None`: there are none.
    fn take_unread(&mut self, max: usize) -> Option<(usize, Bytes)> {
        let unread = self.unread.as_mut()?;
        let first = unread.first_mut()?;
        let (from, n) = (usize::from(first.0), usize::from(first.1 - first.0).min(max));
        first.0 += n as u16;
        if first.0 == first.1 {
            unread.remove(0);
        }
        Some((from, self.data.split_to(n).freeze()))
    }

    fn has_unread(&self) -> bool {
        self.unread.as_ref().is_some_and(|unread| !unread.is_empty())
    }

    /// Gives the memory back: nothing in it is unread.
    fn release(&mut self, pool: &mut BlockPool) {
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.whole) {
            pool.give_memory(data);
        }
    }

    /// The lowest position, not below `start`, that was not received or not read.
    fn lowest_missing(&self, start: usize) -> usize {
        let received = match self.filled.first() {
            Some(&(from, to)) if usize::from(from) <= start => start.max(to.into()),
            _ => start,
        };
        let unread = self.unread.as_ref().and_then(|unread| unread.first());
        unread.map_or(received, |first| received.min(first.0.into()))
    }
}

impl Assembler {
    /// Takes the lowest bytes that have arrived and were not read, at most `max` and at most to the end of a block,
    /// with their offset. `None` if there are none.
    ///
    /// From the first call on, [`read`](Self::read) and [`read_into`](Self::read_into) find nothing.
    pub(in crate::streams) fn read_unordered(&mut self, pool: &mut BlockPool, max: usize) -> Option<(u64, Bytes)> {
        let lowest = self.read / BLOCK as u64;
        if !std::mem::replace(&mut self.is_unordered, true) {
            for (number, block) in (lowest..).zip(&mut self.blocks) {
                if let Some(block) = block {
                    block.begin_unordered();
                    if block.has_unread() {
                        self.unread.insert(number);
                    }
                }
            }
        }
        let number = *self.unread.first()?;
        let block = self.blocks.get_mut((number - lowest) as usize)?.as_mut()?;
        let (at, bytes) = block.take_unread(max)?;
        if !block.has_unread() {
            block.release(pool);
            self.unread.pop_first();
        }
        self.taken += bytes.len() as u64;
        while let Some(Some(block)) = self.blocks.front()
            && block.lowest_missing((self.read % BLOCK as u64) as usize) == BLOCK
        {
            self.blocks.pop_front();
            self.read = (self.read / BLOCK as u64 + 1) * BLOCK as u64;
        }
        Some((number * BLOCK as u64 + at as u64, bytes))
    }

    /// How many blocks are remembered.
    #[cfg(test)]
    pub(in crate::streams) fn remembered(&self) -> usize {
        self.blocks.len()
    }

    /// The lowest offset that was not received or not read.
    pub(in crate::streams) fn lowest_missing(&self) -> u64 {
        match self.blocks.front() {
            Some(Some(block)) if self.is_unordered => {
                let start = self.read % BLOCK as u64;
                self.read - start + block.lowest_missing(start as usize) as u64
            }
            _ => self.read,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::range_set::RangeSet;

    fn byte(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    fn bytes(offset: u64, len: u64) -> Vec<u8> {
        (offset..offset + len).map(byte).collect()
    }

    /// Bytes of memory that blocks hold, and how many blocks are remembered.
    fn held(a: &Assembler) -> (usize, usize) {
        (a.blocks.iter().flatten().map(|block| block.data.capacity()).sum(), a.blocks.len())
    }

    #[test]
    fn what_was_read_behind_a_hole_holds_no_memory() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        // The first byte is missing for ever; ten megabytes arrive behind it.
        for n in 0..10_000 {
            a.insert(&mut pool, 1 + n * 1_000, &bytes(1 + n * 1_000, 1_000));
            while a.read_unordered(&mut pool, 65_536).is_some() {}
        }
        let (memory, blocks) = held(&a);
        assert!(memory <= 2 * BLOCK, "{memory} bytes in {blocks} blocks");
        a.insert(&mut pool, 0, &bytes(0, 1));
        assert_eq!(a.read_unordered(&mut pool, 10), Some((0, Bytes::from(bytes(0, 1)))));
        assert_eq!(a.taken(), 10_000_001);
        assert!(held(&a).1 <= 1);
    }

    #[test]
    fn bytes_that_come_again_are_not_handed_out_again() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        a.insert(&mut pool, 100, &bytes(100, 100));
        assert_eq!(a.read_unordered(&mut pool, 1_000), Some((100, Bytes::from(bytes(100, 100)))));
        assert_eq!(a.insert(&mut pool, 50, &bytes(50, 300)), 200);
        assert_eq!(a.read_unordered(&mut pool, 1_000), Some((50, Bytes::from(bytes(50, 50)))));
        assert_eq!(a.read_unordered(&mut pool, 1_000), Some((200, Bytes::from(bytes(200, 150)))));
        assert_eq!(a.read_unordered(&mut pool, 1_000), None);
        assert!(!a.is_readable());
    }

    #[test]
    fn a_stream_begun_in_order_goes_on_out_of_order() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        a.insert(&mut pool, 0, &bytes(0, 40_000));
        assert_eq!(a.read(&mut pool, 20_000).map(|read| read.len()), Some(BLOCK));
        assert_eq!(a.read(&mut pool, 1_000).map(|read| read.len()), Some(1_000));
        a.insert(&mut pool, 50_000, &bytes(50_000, 10));
        let mut offsets = Vec::new();
        while let Some((offset, read)) = a.read_unordered(&mut pool, 1 << 20) {
            assert_eq!(read, bytes(offset, read.len() as u64));
            offsets.push((offset, read.len()));
        }
        assert_eq!(offsets, [(17_384, 15_384), (32_768, 7_232), (50_000, 10)]);
    }

    #[test]
    fn every_other_byte_takes_no_quadratic_time() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        for n in 0..500_000 {
            a.insert(&mut pool, 2 * n + 1, &[byte(2 * n + 1)]);
        }
        for n in 0..500_000 {
            assert_eq!(a.read_unordered(&mut pool, 100).map(|(offset, _)| offset), Some(2 * n + 1));
        }
        assert_eq!(held(&a).0, 0);
    }

    #[test]
    fn blocks_far_behind_a_hole_take_no_quadratic_time() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        let block = BLOCK as u64;
        // The lowest block and the highest are filled by turns; none is ever complete.
        for n in 1..500_000 {
            for offset in [1 + n % (block / 2), n * block + 1] {
                a.insert(&mut pool, offset, &[byte(offset)]);
            }
            while a.read_unordered(&mut pool, 100).is_some() {}
        }
        assert_eq!(held(&a).0, 0);
    }

    #[test]
    fn filled_holes_hold_memory_in_proportion_to_their_bytes() {
        let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
        let (block, count) = (BLOCK as u64, 1_000);
        let holes = [0, 5_000, block - 1];
        for n in 0..count {
            for (from, to) in [(1, 5_000), (5_001, block - 1)] {
                a.insert(&mut pool, n * block + from, &bytes(n * block + from, to - from));
            }
            while a.read_unordered(&mut pool, 65_536).is_some() {}
        }
        assert_eq!(held(&a), (0, count as usize));
        // From the highest down, so that each comes before what is there.
        for offset in (0..count).flat_map(|n| holes.map(|hole| n * block + hole)).rev() {
            assert_eq!(a.insert(&mut pool, offset, &[byte(offset)]), 1);
        }
        let unread = holes.len() * count as usize;
        let (memory, _) = held(&a);
        assert!(memory <= 16 * unread, "{memory} bytes of memory hold {unread}");
        let mut read = Vec::new();
        while let Some((offset, got)) = a.read_unordered(&mut pool, 100) {
            assert_eq!(got, bytes(offset, got.len() as u64));
            read.extend(offset..offset + got.len() as u64);
        }
        assert!(read.into_iter().eq((0..count).flat_map(|n| holes.map(|hole| n * block + hole))));
        assert_eq!(held(&a), (0, 0));
    }

    proptest! {
        #[test]
        fn every_byte_comes_once_whatever_arrives_in_whatever_order(
            pieces in proptest::collection::vec((0u64..100_000, 0u64..20_000, 0usize..30_000, 0u8..3), 1..60),
            in_order in 0usize..40_000,
        ) {
            let (mut a, mut pool) = (Assembler::default(), BlockPool::default());
            let (mut arrived, mut read) = (RangeSet::new(), RangeSet::new());
            let mut end = 0;
            let mut is_first = true;
            for (offset, len, max, reads) in pieces {
                end = end.max(offset + len);
                let new = arrived.insert(offset..offset + len);
                prop_assert_eq!(a.insert(&mut pool, offset, &bytes(offset, len)), new);
                if std::mem::take(&mut is_first) {
                    while read.total() < in_order as u64 && let Some(bytes) = a.read(&mut pool, in_order) {
                        let at = read.total();
                        read.insert(at..at + bytes.len() as u64);
                    }
                }
                for _ in 0..reads {
                    if let Some((offset, read_now)) = a.read_unordered(&mut pool, max.max(1)) {
                        let len = read_now.len() as u64;
                        prop_assert!(len > 0 && len <= max.max(1) as u64);
                        prop_assert_eq!(&read_now, &bytes(offset, len));
                        prop_assert_eq!(read.insert(offset..offset + len), len, "twice");
                    }
                }
                prop_assert_eq!(a.taken(), read.total());
                let missing = read.gaps(0..end + 1).next().map(|gap| gap.start);
                prop_assert_eq!(Some(a.lowest_missing()), missing);
                for block in a.blocks.iter().flatten().filter(|_| a.is_unordered) {
                    let unread: usize = block.unread.iter().flatten().map(|range| usize::from(range.1 - range.0)).sum();
                    prop_assert_eq!(block.data.len(), unread);
                }
            }
            let holes: Vec<_> = arrived.gaps(0..end).collect();
            for hole in holes {
                a.insert(&mut pool, hole.start, &bytes(hole.start, hole.end - hole.start));
            }
            while let Some((offset, read_now)) = a.read_unordered(&mut pool, 50_000) {
                prop_assert_eq!(&read_now, &bytes(offset, read_now.len() as u64));
                prop_assert_eq!(read.insert(offset..offset + read_now.len() as u64), read_now.len() as u64);
            }
            prop_assert_eq!(a.taken(), end);
            prop_assert!(held(&a).1 <= 1);
        }
    }
}
