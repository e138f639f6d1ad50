//! The packets of one space whose fate is open: a ring indexed by packet number.
//!
//! An ACK names the same old ranges over and over, so walking what it names would cost the size of the window at every
//! ACK. Here a settled slot says how far one may jump over settled neighbours, and every walk shortens the jumps it
//! took (path halving, as in union-find): an ACK costs the packets it newly acknowledges, plus almost nothing for each
//! range it repeats.
//!
//! | operation | cost |
//! |---|---|
//! | push | O(1), plus one slot per skipped number |
//! | take one, look up | O(1) |
//! | take a range | O(newly acknowledged), amortised |
//! | trim | O(1) amortised |

use std::collections::VecDeque;

use core::ops::RangeInclusive;

use thalweg_units::Instant;

use crate::delivery::Snapshot;
use crate::types::{Ecn, PathId};

/// What a path has to know of a packet, or of the transmission of a segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Transmission {
    /// When it was sent.
    pub(crate) time: Instant,
    /// Its place among all packets sent on its path, in whatever space, counted from 1. What belongs to a recovery
    /// period is decided by it: a clock may stand still between two packets.
    pub(crate) order: u64,
    /// What delivery looked like then.
    pub(crate) delivery: Snapshot,
    /// Bytes.
    pub(crate) size: u32,
    pub(crate) in_flight: bool,
    /// Whether no other one that counts in flight was sent on its path at the same time before it.
    pub(crate) begins_burst: bool,
    pub(crate) mtu_probe: bool,
    /// How it is marked.
    pub(crate) ecn: Ecn,
}

impl Transmission {
    /// One that leaves now; its path fills in place and delivery.
    pub(crate) fn new(time: Instant, size: u32, in_flight: bool) -> Transmission {
        let delivery = Snapshot::default();
        Transmission {
            time,
            order: 0,
            delivery,
            size,
            in_flight,
            begins_burst: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
        }
    }
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(crate) struct Record<T> {
    /// What its path has to know of it.
    pub(crate) sent: Transmission,
    /// Its place among the packets sent in this space on this path. What separates two packets is counted in these, so
    /// that neither numbers skipped on purpose nor packets on another path look like reordering.
    pub(crate) ordinal: u64,
    /// The path it was sent on.
    pub(crate) path: PathId,
    pub(crate) ack_eliciting: bool,
    /// What the transport wants back.
    pub(crate) data: T,
}

#[derive(Clone, Debug)]
enum Slot<T> {
    /// Neither acknowledged nor declared lost.
    Outstanding(Record<T>),
    /// Acknowledged, declared lost or taken back; so are the next `jump - 1` numbers.
    Settled { jump: u64 },
    /// Deliberately never sent; an ACK for it proves that the peer acknowledges blindly (RFC 9000 section 21.4).
    Skipped,
}

/// Slots above which a ring is made smaller when it has become emptier, and those that it keeps: a window at the start
/// of a connection and some to spare. A slot takes some hundred bytes.
const LARGE: usize = 512;
const KEPT: usize = 64;

/// Once a ring has been made smaller, so many times its slots have to pass through it before it is again. A ring that
/// fills and empties in every round trip would be moved each time; one that has filled once and stands still is made
/// smaller at once.
const PASSED: u64 = 4;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct SentPackets<T> {
    ring: VecDeque<Slot<T>>,
    /// Number of the first slot; everything below is settled and forgotten.
    base: u64,
    /// The first number ever used.
    first: Option<u64>,
    /// The latest number skipped: remembered after its slot is forgotten, so that it stays an error to acknowledge it.
    skipped: Option<u64>,
    /// The base when the ring was last made smaller.
    shrunk_at: Option<u64>,
    /// The most slots in use since the ring was last empty.
    peak: usize,
}

impl<T> SentPackets<T> {
    pub(crate) fn new() -> Self {
        SentPackets { ring: VecDeque::new(), base: 0, first: None, skipped: None, shrunk_at: None, peak: 0 }
    }

    /// The number after the largest sent.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// For how many packets there is room.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// The lowest number that may still be outstanding.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Adds a packet. `number` has to be at least [`next_number`](Self::next_number); the numbers between count as
    /// skipped.
    pub(crate) fn push(&mut self, number: u64, record: Record<T>) {
        if self.first.is_none() {
            self.first = Some(number);
            self.base = number;
        }
        debug_assert!(number >= self.next_number(), "packet numbers increase");
        for skipped in self.next_number()..number {
            self.ring.push_back(Slot::Skipped);
            self.skipped = Some(skipped);
        }
        self.ring.push_back(Slot::Outstanding(record));
        self.peak = self.peak.max(self.ring.len());
    }

    /// The packet with this number, if its fate is open.
    pub(crate) fn get(&self, number: u64) -> Option<&Record<T>> {
        match self.ring.get(self.index(number)?) {
            Some(Slot::Outstanding(record)) => Some(record),
            _ => None,
        }
    }

    /// Settles one packet and returns it, if its fate was open.
    pub(crate) fn take(&mut self, number: u64) -> Option<Record<T>> {
        let index = self.index(number)?;
        let slot = self.ring.get_mut(index)?;
        if !matches!(slot, Slot::Outstanding(_)) {
            return None;
        }
        match core::mem::replace(slot, Slot::Settled { jump: 1 }) {
            Slot::Outstanding(record) => Some(record),
            _ => None,
        }
    }

    /// Settles every open packet of an acknowledged range, in ascending order.
    ///
    /// # Errors
    /// The first number of the range that was never sent. Packets below it have been taken then.
    pub(crate) fn take_range(
        &mut self,
        range: RangeInclusive<u64>,
        mut newly: impl FnMut(u64, Record<T>),
    ) -> Result<(), u64> {
        let (start, end) = range.into_inner();
        if end >= self.next_number() {
            return Err(end);
        }
        if start < self.first.unwrap_or(0) {
            return Err(start);
        }
        if let Some(skipped) = self.skipped.filter(|skipped| (start..=end).contains(skipped)) {
            return Err(skipped);
        }
        let from = start.max(self.base);
        let mut number = from;
        while number <= end {
            match self.take(number) {
                Some(record) => {
                    newly(number, record);
                    number += 1;
                }
                None => {
                    let next = self.next_unsettled(number);
                    if next == number {
                        return Err(number);
                    }
                    number = next;
                }
            }
        }
        // All of it is settled now: the next ACK that repeats this range crosses it in one step.
        if let Some(Slot::Settled { jump }) = self.index(from).and_then(|index| self.ring.get_mut(index)) {
            *jump = (*jump).max((end + 1).saturating_sub(from));
        }
        Ok(())
    }

    /// The first number from `number` on that is not settled: open, skipped or not yet sent.
    pub(crate) fn next_unsettled(&mut self, number: u64) -> u64 {
        let mut number = number.max(self.base);
        while let Some(jump) = self.jump(number) {
            let landing = number + jump;
            let Some(further) = self.jump(landing) else {
                return landing;
            };
            if let Some(Slot::Settled { jump }) = self.ring.get_mut((number - self.base) as usize) {
                *jump += further;
            }
            number = landing + further;
        }
        number
    }

    fn jump(&self, number: u64) -> Option<u64> {
        match self.ring.get(self.index(number)?) {
            Some(Slot::Settled { jump }) => Some(*jump),
            _ => None,
        }
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    /// Gives back the memory of everything below the oldest open packet.
    pub(crate) fn trim(&mut self) {
        while let Some(Slot::Settled { .. } | Slot::Skipped) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        // What one burst has needed would stay for as long as the connection does.
        let slots = self.ring.capacity();
        if slots > LARGE && self.ring.len() < slots / 8 {
            let is_due = |at: u64| self.base - at >= PASSED * slots as u64;
            // Empty without having needed an eighth since it was empty before: the burst is over.
            let is_over = self.ring.is_empty() && self.peak < slots / 8;
            if is_over || self.shrunk_at.is_none_or(is_due) {
                self.ring.shrink_to(KEPT);
                self.shrunk_at = Some(self.base);
            }
        }
        if self.ring.is_empty() {
            self.peak = 0;
        }
    }

    /// The open packets, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Record<T>)> {
        self.iter_from(self.base)
    }

    /// The open packets from `number` on, oldest first.
    pub(crate) fn iter_from(&self, number: u64) -> impl Iterator<Item = (u64, &Record<T>)> {
        let from = number.clamp(self.base, self.next_number());
        let slots = self.ring.range((from - self.base) as usize..);
        (from..).zip(slots).filter_map(|(number, slot)| match slot {
            Slot::Outstanding(record) => Some((number, record)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn record(data: u64) -> Record<u64> {
        Record {
            sent: Transmission::new(Instant::ZERO, 1_200, true),
            ordinal: 0,
            path: PathId(0),
            ack_eliciting: true,
            data,
        }
    }

    fn filled(numbers: impl IntoIterator<Item = u64>) -> SentPackets<u64> {
        let mut sent = SentPackets::new();
        for number in numbers {
            sent.push(number, record(number));
        }
        sent
    }

    fn take(sent: &mut SentPackets<u64>, range: RangeInclusive<u64>) -> Result<Vec<u64>, u64> {
        let mut taken = Vec::new();
        sent.take_range(range, |number, record| {
            assert_eq!(number, record.data);
            taken.push(number);
        })?;
        Ok(taken)
    }

    #[test]
    fn a_range_is_taken_once() {
        let mut sent = filled(0..10);
        assert_eq!(take(&mut sent, 2..=4), Ok(vec![2, 3, 4]));
        assert_eq!(take(&mut sent, 0..=5), Ok(vec![0, 1, 5]));
        assert_eq!(take(&mut sent, 0..=9), Ok(vec![6, 7, 8, 9]));
        assert_eq!(take(&mut sent, 0..=9), Ok(vec![]));
        sent.trim();
        assert_eq!(sent.base(), 10);
        assert_eq!(take(&mut sent, 0..=9), Ok(vec![]));
        assert_eq!(sent.next_number(), 10);
    }

    #[test]
    fn rfc9000_13_1_numbers_never_sent_are_refused() {
        let mut sent = filled([3, 4, 6]);
        assert_eq!(take(&mut sent, 4..=7), Err(7), "beyond the last");
        assert_eq!(take(&mut sent, 2..=3), Err(2), "before the first");
        assert_eq!(take(&mut sent, 4..=6), Err(5), "skipped on purpose");
        assert_eq!(take(&mut sent, 3..=3), Ok(vec![3]));
    }

    #[test]
    fn rfc9000_21_4_the_latest_number_skipped_is_refused_even_when_all_around_it_is_settled() {
        let mut sent = filled([0, 1, 3, 4, 6, 7]);
        assert_eq!(take(&mut sent, 6..=7), Ok(vec![6, 7]));
        assert_eq!(take(&mut sent, 3..=4), Ok(vec![3, 4]));
        assert_eq!(take(&mut sent, 0..=1), Ok(vec![0, 1]));
        sent.trim();
        assert_eq!(sent.base(), 8);
        assert_eq!(take(&mut sent, 0..=7), Err(5));
        assert_eq!(take(&mut sent, 5..=5), Err(5));
        assert_eq!(take(&mut sent, 6..=7), Ok(vec![]));
    }

    #[test]
    fn a_repeated_range_is_crossed_in_few_steps() {
        const COUNT: u64 = 10_000;
        let mut sent = filled(0..COUNT);
        // A hole at 0 keeps the ring from being trimmed; acknowledge the rest one by one with a growing range.
        for end in 1..COUNT {
            assert_eq!(take(&mut sent, 1..=end).unwrap().len(), 1);
        }
        // The walk from 1 is one jump now.
        assert_eq!(sent.jump(1), Some(COUNT - 1));
        // A walk from the middle is long once, and then short.
        sent.next_unsettled(COUNT / 2);
        let mut steps = 0;
        let mut number = COUNT / 2;
        while let Some(jump) = sent.jump(number) {
            number += jump;
            steps += 1;
        }
        assert!(steps <= COUNT / 4 + 1, "halved: {steps}");
        for _ in 0..20 {
            sent.next_unsettled(COUNT / 2);
        }
        assert!(sent.jump(COUNT / 2).unwrap() >= COUNT / 2 - 1);
    }

    #[test]
    fn the_memory_of_a_second_burst_is_given_back_when_little_follows() {
        let mut sent = SentPackets::new();
        for burst in 0..2 {
            let first = burst * 5_001;
            for number in first..first + 5_000 {
                sent.push(number, record(number));
            }
            take(&mut sent, first..=first + 4_999).unwrap();
            sent.trim();
            sent.push(first + 5_000, record(first + 5_000));
            take(&mut sent, first + 5_000..=first + 5_000).unwrap();
            sent.trim();
            assert!(sent.ring.capacity() <= 2 * KEPT, "{} slots after burst {burst}", sent.ring.capacity());
        }
    }

    #[test]
    fn the_memory_of_a_burst_is_given_back() {
        let mut sent = filled(0..5000);
        take(&mut sent, 0..=4997).unwrap();
        sent.trim();
        assert_eq!(sent.iter().map(|(number, _)| number).collect::<Vec<_>>(), [4998, 4999]);
        assert!(sent.ring.capacity() <= 2 * KEPT, "{} slots", sent.ring.capacity());
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(
            gaps in proptest::collection::vec(0u64..3, 1..60),
            operations in proptest::collection::vec((0u64..200, 0u64..40, any::<bool>()), 0..60),
        ) {
            let mut numbers = Vec::new();
            let mut next = 5;
            for gap in gaps {
                next += gap;
                numbers.push(next);
                next += 1;
            }
            let mut sent = filled(numbers.iter().copied());
            let all: BTreeSet<u64> = numbers.iter().copied().collect();
            let mut open = all.clone();
            for (start, length, trim) in operations {
                let range = start..=start + length;
                let skipped = numbers.windows(2).filter(|pair| pair[0] + 1 < pair[1]).map(|pair| pair[1] - 1).next_back();
                let is_known = |number: u64| number >= sent.base() || Some(number) == skipped;
                let never_sent =
                    range.clone().any(|number| is_known(number) && !all.contains(&number)) || start < numbers[0];
                let expected: Vec<u64> = open.range(range.clone()).copied().collect();
                match take(&mut sent, range) {
                    Ok(taken) => {
                        prop_assert!(!never_sent);
                        prop_assert_eq!(&taken, &expected);
                    }
                    Err(number) => prop_assert!(never_sent && !all.contains(&number)),
                }
                open = sent.iter().map(|(number, _)| number).collect();
                if trim {
                    sent.trim();
                }
                for number in &numbers {
                    prop_assert_eq!(sent.get(*number).is_some(), open.contains(number));
                }
                prop_assert_eq!(sent.next_number(), next);
            }
        }
    }
}
