//! Sets of `u64` kept as sorted, disjoint, non-adjacent half-open ranges: packet numbers to acknowledge, bytes to
//! retransmit, bytes received.
//!
//! A ring of ranges: adding at the upper end (the in-order case) and taking from the lower end are O(1); anything
//! else is a binary search plus a move of the shorter side of the ring. An empty set owns no memory.

use std::collections::VecDeque;
use std::ops::Range;

/// A set of `u64`. Empty ranges passed in are ignored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Sorted by start; each non-empty; a gap of at least one value between neighbours.
    ranges: VecDeque<Range<u64>>,
    /// The number of values in all ranges.
    total: u64,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> RangeSet {
        RangeSet { ranges: VecDeque::new(), total: 0 }
    }

    /// Adds the values of `range`. Returns how many of them were not in the set before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let added = match self.ranges.back_mut() {
            // At or above the last range: the normal case of data and packets that arrive in order.
            Some(last) if range.start >= last.start && range.start <= last.end => {
                let before = last.end;
                last.end = last.end.max(range.end);
                last.end - before
            }
            Some(last) if range.start < last.start => self.insert_within(range),
            _ => {
                let added = range.end - range.start;
                self.ranges.push_back(range);
                added
            }
        };
        self.total += added;
        added
    }

    /// The general case of `insert`, when the range starts below the start of the last one.
    fn insert_within(&mut self, range: Range<u64>) -> u64 {
        // Ranges in first..last touch or overlap the new one and melt into it.
        let first = self.ranges.partition_point(|r| r.end < range.start);
        let mut last = first;
        let mut merged = range.clone();
        let mut present = 0;
        while let Some(r) = self.ranges.get(last).filter(|r| r.start <= range.end) {
            merged.start = merged.start.min(r.start);
            merged.end = merged.end.max(r.end);
            present += r.end - r.start;
            last += 1;
        }
        let added = (merged.end - merged.start) - present;
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.remove_indices(first + 1, last);
        }
        added
    }

    /// Adds one value. Returns whether it is new.
    #[inline]
    pub fn insert_one(&mut self, value: u64) -> bool {
        self.insert(value..value.saturating_add(1)) > 0
    }

    /// Removes the values of `range`. Returns how many of them were in the set.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let first = self.ranges.partition_point(|r| r.end <= range.start);
        let Some(r) = self.ranges.get_mut(first).filter(|r| r.start < range.end) else {
            return 0;
        };
        if r.start < range.start && range.end < r.end {
            let upper = range.end..r.end;
            r.end = range.start;
            self.ranges.insert(first + 1, upper);
            let removed = range.end - range.start;
            self.total -= removed;
            return removed;
        }
        let mut removed = 0;
        let mut from = first;
        if r.start < range.start {
            removed += r.end - range.start;
            r.end = range.start;
            from += 1;
        }
        let mut to = from;
        while let Some(r) = self.ranges.get_mut(to).filter(|r| r.start < range.end) {
            if r.end > range.end {
                removed += range.end - r.start;
                r.start = range.end;
                break;
            }
            removed += r.end - r.start;
            to += 1;
        }
        self.remove_indices(from, to);
        self.total -= removed;
        removed
    }

    fn remove_indices(&mut self, from: usize, to: usize) {
        match to.saturating_sub(from) {
            0 => {}
            1 => {
                self.ranges.remove(from);
            }
            _ => {
                self.ranges.drain(from..to);
            }
        }
    }

    /// Removes every value below `bound`. Returns how many there were.
    #[cfg(test)]
    pub fn remove_below(&mut self, bound: u64) -> u64 {
        let mut removed = 0;
        while let Some(first) = self.ranges.front_mut().filter(|r| r.start < bound) {
            if first.end > bound {
                removed += bound - first.start;
                first.start = bound;
                break;
            }
            removed += first.end - first.start;
            self.ranges.pop_front();
        }
        self.total -= removed;
        removed
    }

    /// Forgets the lowest ranges until at most `max` ranges are left.
    /// Returns the end of the highest range forgotten, `None` if all fitted.
    pub fn keep_highest(&mut self, max: usize) -> Option<u64> {
        let mut end = None;
        while self.ranges.len() > max {
            end = self.pop_min().map(|r| r.end);
        }
        end
    }

    /// Whether `value` is in the set.
    #[inline]
    pub fn contains(&self, value: u64) -> bool {
        // New packet numbers are nearly always above everything seen.
        if self.ranges.back().is_none_or(|last| value >= last.end) {
            return false;
        }
        self.range_at(value).is_some()
    }

    /// Whether all values of `range` are in the set; true for an empty range.
    pub fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.range_at(range.start).is_some_and(|r| range.end <= r.end)
    }

    /// The range that `value` lies in.
    pub fn range_at(&self, value: u64) -> Option<Range<u64>> {
        let index = self.ranges.partition_point(|r| r.end <= value);
        self.ranges.get(index).filter(|r| r.start <= value).cloned()
    }

    /// The parts of `within` that are not in the set, ascending.
    pub fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.partition_point(|r| r.end <= within.start);
        let mut at = within.start;
        let end = within.end;
        let mut ranges = self.ranges.range(first..);
        std::iter::from_fn(move || {
            while at < end {
                let gap = match ranges.next() {
                    Some(r) => {
                        let gap = at..r.start.min(end);
                        at = r.end;
                        gap
                    }
                    None => {
                        let gap = at..end;
                        at = end;
                        gap
                    }
                };
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// Takes out the lowest range.
    pub fn pop_min(&mut self) -> Option<Range<u64>> {
        let range = self.ranges.pop_front()?;
        self.total -= range.end - range.start;
        Some(range)
    }

    /// Takes out at most `max_len` values from the lowest range. `None` if the set is empty or `max_len` is 0.
    pub fn pop_min_chunk(&mut self, max_len: u64) -> Option<Range<u64>> {
        if max_len == 0 {
            return None;
        }
        let first = self.ranges.front_mut()?;
        if first.end - first.start <= max_len {
            return self.pop_min();
        }
        let chunk = first.start..first.start + max_len;
        first.start = chunk.end;
        self.total -= max_len;
        Some(chunk)
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// The smallest value.
    #[inline]
    pub fn min(&self) -> Option<u64> {
        self.ranges.front().map(|r| r.start)
    }

    /// The largest value.
    #[inline]
    #[cfg(test)]
    pub fn max(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.end - 1)
    }

    /// The ranges, ascending; `.rev()` for descending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + Clone + '_ {
        self.ranges.iter().cloned()
    }

    /// The ranges, from the highest down.
    pub fn iter_descending(&self) -> impl ExactSizeIterator<Item = Range<u64>> + Clone + '_ {
        self.iter().rev()
    }

    /// The number of ranges.
    #[inline]
    pub fn len_ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the set has no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of values in the set.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Removes everything, keeping the memory for reuse.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.total = 0;
    }
}

impl std::fmt::Debug for RangeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.ranges.iter()).finish()
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, iter: I) {
        for range in iter {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(iter: I) -> RangeSet {
        let mut set = RangeSet::new();
        set.extend(iter);
        set
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // one range is what is meant
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        ranges.iter().cloned().collect()
    }

    #[test]
    fn neighbours_melt_and_gaps_stay() {
        assert_eq!(set(&[0..5, 5..8]).iter().collect::<Vec<_>>(), [0..8]);
        assert_eq!(set(&[5..8, 0..5]).iter().collect::<Vec<_>>(), [0..8]);
        assert_eq!(set(&[0..5, 6..8]).len_ranges(), 2);
        assert_eq!(set(&[0..1, 2..3, 4..5, 0..5]).iter().collect::<Vec<_>>(), [0..5]);
    }

    #[test]
    fn insert_counts_only_what_is_new() {
        let mut s = set(&[10..20, 30..40]);
        assert_eq!(s.insert(15..35), 10);
        assert_eq!(s.insert(15..35), 0);
        assert_eq!(s.insert(7..7), 0);
        assert_eq!(s.total(), 30);
    }

    #[test]
    fn chunks_come_from_the_low_end() {
        let mut s = set(&[10..20, 30..32]);
        assert_eq!(s.pop_min_chunk(0), None);
        assert_eq!(s.pop_min_chunk(4), Some(10..14));
        assert_eq!(s.pop_min_chunk(100), Some(14..20));
        assert_eq!(s.pop_min_chunk(2), Some(30..32));
        assert_eq!(s.pop_min_chunk(2), None);
        assert_eq!(s.total(), 0);
    }

    #[test]
    fn keeping_the_highest_ranges_tells_what_was_forgotten() {
        let mut s = set(&[0..1, 2..3, 4..5, 6..7]);
        assert_eq!(s.keep_highest(4), None);
        assert_eq!(s.keep_highest(2), Some(3));
        assert_eq!(s.iter_descending().collect::<Vec<_>>(), [6..7, 4..5]);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u64),
        Remove(u64, u64),
        RemoveBelow(u64),
        PopChunk(u64),
        KeepHighest(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u64..120, 0u64..20).prop_map(|(s, l)| Op::Insert(s, s + l)),
            4 => (0u64..120, 0u64..20).prop_map(|(s, l)| Op::Remove(s, s + l)),
            1 => (0u64..120).prop_map(Op::RemoveBelow),
            1 => (0u64..10).prop_map(Op::PopChunk),
            1 => (4usize..12).prop_map(Op::KeepHighest),
        ]
    }

    fn ranges_of(model: &BTreeSet<u64>) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &v in model {
            match ranges.last_mut() {
                Some(r) if r.end == v => r.end += 1,
                _ => ranges.push(v..v + 1),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(ops in proptest::collection::vec(op(), 1..80), probe in 0u64..150, len in 0u64..60) {
            let mut s = RangeSet::new();
            let mut model = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Insert(a, b) => {
                        let new = (a..b).filter(|v| model.insert(*v)).count() as u64;
                        prop_assert_eq!(s.insert(a..b), new);
                    }
                    Op::Remove(a, b) => {
                        let gone = (a..b).filter(|v| model.remove(v)).count() as u64;
                        prop_assert_eq!(s.remove(a..b), gone);
                    }
                    Op::RemoveBelow(n) => {
                        let before = model.len();
                        model.retain(|v| *v >= n);
                        prop_assert_eq!(s.remove_below(n), (before - model.len()) as u64);
                    }
                    Op::PopChunk(n) => {
                        let expect = ranges_of(&model).first().cloned().filter(|_| n > 0).map(|r| r.start..r.end.min(r.start + n));
                        if let Some(r) = &expect {
                            model.retain(|v| !r.contains(v));
                        }
                        prop_assert_eq!(s.pop_min_chunk(n), expect);
                    }
                    Op::KeepHighest(n) => {
                        let all = ranges_of(&model);
                        let cut = all.len().saturating_sub(n);
                        let floor = all[..cut].last().map(|r| r.end);
                        if let Some(floor) = floor {
                            model.retain(|v| *v >= floor);
                        }
                        prop_assert_eq!(s.keep_highest(n), floor);
                    }
                }
                let expect = ranges_of(&model);
                prop_assert_eq!(s.iter().collect::<Vec<_>>(), expect.clone());
                prop_assert_eq!(s.iter_descending().collect::<Vec<_>>(), expect.into_iter().rev().collect::<Vec<_>>());
                prop_assert_eq!(s.total(), model.len() as u64);
                prop_assert_eq!(s.min(), model.first().copied());
                prop_assert_eq!(s.max(), model.last().copied());
                prop_assert_eq!(s.is_empty(), model.is_empty());
                prop_assert_eq!(s.contains(probe), model.contains(&probe));
                prop_assert_eq!(s.covers(probe..probe + len), (probe..probe + len).all(|v| model.contains(&v)));
                let missing: BTreeSet<u64> = (probe..probe + len).filter(|v| !model.contains(v)).collect();
                prop_assert_eq!(s.gaps(probe..probe + len).collect::<Vec<_>>(), ranges_of(&missing));
            }
        }
    }
}
