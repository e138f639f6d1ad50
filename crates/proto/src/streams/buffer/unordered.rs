//! Reading bytes in whatever order they arrive.
//!
//! A block then keeps two lists: what was received, so that no byte is handed out twice, and what of it was not read yet. Its memory
//! goes back as soon as nothing in it is unread; blocks at the front are forgotten once they are complete.

use bytes::Bytes;

use super::{Assembler, BLOCK, Block, BlockPool, mark};

impl Block {
    /// Positions `from..to` arrive: remembers those of them that are new as unread.
    pub(super) fn note_unread(&mut self, mut from: u16, to: u16) {
        let Some(unread) = &mut self.unread else { return };
        let first = self.filled.partition_point(|known| known.1 <= from);
        for &(start, end) in self.filled.iter().skip(first).take_while(|known| known.0 < to) {
            if from < start {
                mark(unread, from, start);
            }
            from = from.max(end);
        }
        if from < to {
            mark(unread, from, to);
        }
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
        let bytes = if from == self.start {
            self.start += n;
            self.data.split_to(n).freeze()
        } else {
            let at = from - self.start;
            Bytes::copy_from_slice(&self.data[at..at + n])
        };
        Some((from, bytes))
    }

    fn has_unread(&self) -> bool {
        self.unread.as_ref().is_some_and(|unread| !unread.is_empty())
    }

    /// Whether nothing in it is unread, so that it holds no memory.
    pub(super) fn is_released(&self) -> bool {
        self.unread.as_ref().is_some_and(|unread| unread.is_empty())
    }

    /// Gives the memory back: nothing in it is unread.
    fn release(&mut self, pool: &mut BlockPool) {
        let data = std::mem::take(&mut self.data);
        if self.whole {
            pool.give_memory(data);
        }
        // Everything below the lowest hole is done with; what fills a hole begins the block anew.
        let start = self.start as u16;
        self.start = self
            .filled
            .iter()
            .find(|known| known.0 <= start && known.1 > start)
            .map_or(self.start, |known| known.1.into());
    }

    /// Whether everything from position `start` to its end was received.
    fn is_complete(&self, start: usize) -> bool {
        matches!(&self.filled[..], [(from, to)] if usize::from(*from) <= start && usize::from(*to) == BLOCK)
    }
}

impl Assembler {
    /// Takes the lowest bytes that have arrived and were not read, at most `max` and at most to the end of a block, with their
    /// offset. `None` if there are none.
    ///
    /// From the first call on, [`read`](Self::read) and [`read_into`](Self::read_into) find nothing.
    pub(in crate::streams) fn read_unordered(&mut self, pool: &mut BlockPool, max: usize) -> Option<(u64, Bytes)> {
        if !std::mem::replace(&mut self.is_unordered, true) {
            for block in self.blocks.iter_mut().flatten() {
                block.unread = Some(block.filled.clone());
            }
        }
        if !self.is_readable() {
            return None;
        }
        let index = self.blocks.iter().position(|block| block.as_ref().is_some_and(Block::has_unread))?;
        let block = self.blocks.get_mut(index)?.as_mut()?;
        let (at, bytes) = block.take_unread(max)?;
        if !block.has_unread() {
            block.release(pool);
        }
        let first = self.read - self.read % BLOCK as u64;
        let offset = first + (index * BLOCK + at) as u64;
        self.taken += bytes.len() as u64;
        while let Some(Some(block)) = self.blocks.front()
            && block.is_released()
            && block.is_complete((self.read % BLOCK as u64) as usize)
        {
            self.blocks.pop_front();
            self.read = (self.read / BLOCK as u64 + 1) * BLOCK as u64;
        }
        Some((offset, bytes))
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
