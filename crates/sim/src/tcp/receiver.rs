//! The receiving half of a connection: what has arrived, when to acknowledge it, and what to say then.
//!
//! Every second full segment is acknowledged, a single one after the delay (RFC 9293 section 3.8.6.3); out of order, filling a hole, or twice:
//! at once (RFC 5681 section 4.2). SACK blocks name the most recent first (RFC 2018 section 4), a duplicate before all others (D-SACK, RFC
//! 2883). A mark is echoed until the sender says that it has slowed down (RFC 3168 section 6.1.3).

use thalweg_units::{Duration, Ecn, Instant};

use super::wire::MAX_SACKS;

/// Segments that one ACK covers.
const SEGMENTS_PER_ACK: u32 = 2;

/// A run of bytes beyond a hole.
#[derive(Copy, Clone, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// When it last grew: the most recent come first in an ACK.
    stamp: u64,
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT: everything below has arrived.
    next: u64,
    /// What lies beyond it, ascending and disjoint.
    ranges: Vec<Range>,
    stamp: u64,
    /// Bytes that arrived twice.
    duplicate: Option<(u64, u64)>,
    /// Segments in order that no ACK covers yet.
    waiting: u32,
    delay: Duration,
    ack_at: Option<Instant>,
    ack_now: bool,
    echoes: bool,
    /// Segments that arrived marked, and whether the latest did.
    marked: u64,
    latest_is_marked: bool,
    segment_size: u64,
}

impl Receiver {
    pub(super) fn new(delay: Duration, segment_size: u16) -> Receiver {
        Receiver {
            next: 0,
            ranges: Vec::new(),
            stamp: 0,
            duplicate: None,
            waiting: 0,
            delay,
            ack_at: None,
            ack_now: false,
            echoes: false,
            marked: 0,
            latest_is_marked: false,
            segment_size: u64::from(segment_size),
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether ACKs carry ECE.
    pub(super) fn echoes(&self) -> bool {
        self.echoes
    }

    /// How many segments arrived marked.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    /// A segment arrived with this mark, and every mark is counted: a change is told at once (RFC 9768 section
    /// 3.2.2.5.1).
    pub(super) fn count_mark(&mut self, ecn: Ecn) {
        let is_marked = ecn == Ecn::Ce;
        self.marked += u64::from(is_marked);
        self.ack_now |= is_marked != self.latest_is_marked;
        self.latest_is_marked = is_marked;
    }

    /// A segment arrived with the bytes from `start` to `end`.
    pub(super) fn on_segment(&mut self, now: Instant, start: u64, end: u64, ecn: Ecn, has_slowed: bool) {
        if has_slowed {
            self.echoes = false;
        }
        if ecn == Ecn::Ce && !self.echoes {
            self.echoes = true;
            // Not part of RFC 3168, but what keeps the echo from waiting for the delay.
            self.ack_now = true;
        }
        if end <= self.next {
            self.duplicate = Some((start, end));
            self.ack_now = true;
        } else if start <= self.next {
            self.in_order(now, end);
        } else {
            self.out_of_order(start, end);
            self.ack_now = true;
        }
    }

    fn in_order(&mut self, now: Instant, end: u64) {
        let is_full = end - self.next >= self.segment_size;
        self.next = end;
        self.ack_now |= !self.ranges.is_empty();
        while let Some(first) = self.ranges.first().copied().filter(|first| first.start <= self.next) {
            self.next = self.next.max(first.end);
            self.ranges.remove(0);
        }
        self.waiting += u32::from(is_full);
        if self.waiting >= SEGMENTS_PER_ACK || self.delay.is_zero() {
            self.ack_now = true;
        } else {
            self.ack_at.get_or_insert(now + self.delay);
        }
    }

    fn out_of_order(&mut self, start: u64, end: u64) {
        self.stamp += 1;
        let index = self.ranges.partition_point(|range| range.end < start);
        let mut merged = Range { start, end, stamp: self.stamp };
        let mut last = index;
        while let Some(range) = self.ranges.get(last).filter(|range| range.start <= end) {
            if range.start <= start && end <= range.end {
                self.duplicate = Some((start, end));
            }
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            last += 1;
        }
        match last - index {
            0 => self.ranges.insert(index, merged),
            _ => {
                self.ranges[index] = merged;
                self.ranges.drain(index + 1..last);
            }
        }
    }

    /// Something else than data asks for an ACK.
    pub(super) fn acknowledge(&mut self) {
        self.ack_now = true;
    }

    /// Whether an ACK is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.ack_now || self.ack_at.is_some_and(|at| at <= now)
    }

    /// When an ACK will be due.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.ack_at
    }

    /// The blocks of the ACK that leaves now; returns how many there are.
    pub(super) fn on_ack_sent(&mut self, blocks: &mut [(u64, u64); MAX_SACKS]) -> usize {
        self.waiting = 0;
        self.ack_at = None;
        self.ack_now = false;
        let mut count = 0;
        if let Some(duplicate) = self.duplicate.take() {
            blocks[0] = duplicate;
            count = 1;
        }
        let mut newest = u64::MAX;
        while count < MAX_SACKS {
            let next = self.ranges.iter().filter(|range| range.stamp < newest).max_by_key(|range| range.stamp);
            let Some(range) = next else { break };
            newest = range.stamp;
            blocks[count] = (range.start, range.end);
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn receiver() -> Receiver {
        Receiver::new(DELAY, 1_000)
    }

    /// Segment `number` of a thousand bytes arrives at `ms`; returns the ACK, if one is due.
    fn segment(receiver: &mut Receiver, ms: u64, number: u64) -> Option<(u64, Vec<(u64, u64)>)> {
        receiver.on_segment(at(ms), number * 1_000, (number + 1) * 1_000, Ecn::NotEct, false);
        receiver.is_due(at(ms)).then(|| {
            let mut blocks = [(0, 0); MAX_SACKS];
            let count = receiver.on_ack_sent(&mut blocks);
            (receiver.next() / 1_000, blocks[..count].iter().map(|(a, b)| (a / 1_000, b / 1_000)).collect())
        })
    }

    #[test]
    fn rfc9293_3_8_6_3_every_second_segment_or_after_the_delay() {
        let mut receiver = receiver();
        assert_eq!(segment(&mut receiver, 0, 0), None);
        assert_eq!(segment(&mut receiver, 5, 1), Some((2, vec![])));
        assert_eq!(segment(&mut receiver, 10, 2), None);
        assert_eq!(receiver.timer(), Some(at(50)));
        assert!(!receiver.is_due(at(49)) && receiver.is_due(at(50)));
    }

    #[test]
    fn rfc5681_4_2_out_of_order_and_hole_filling_segments_are_acknowledged_at_once() {
        let mut receiver = receiver();
        assert_eq!(segment(&mut receiver, 0, 1), Some((0, vec![(1, 2)])));
        assert_eq!(segment(&mut receiver, 0, 3), Some((0, vec![(3, 4), (1, 2)])));
        assert_eq!(segment(&mut receiver, 0, 0), Some((2, vec![(3, 4)])));
        assert_eq!(segment(&mut receiver, 0, 2), Some((4, vec![])));
    }

    #[test]
    fn rfc2018_4_the_most_recent_block_comes_first_and_four_fit() {
        let mut receiver = receiver();
        for number in [2, 4, 6, 8, 10] {
            segment(&mut receiver, 0, number);
        }
        assert_eq!(segment(&mut receiver, 0, 3), Some((0, vec![(2, 5), (10, 11), (8, 9), (6, 7)])));
    }

    #[test]
    fn rfc2883_4_a_duplicate_is_reported_first_and_once() {
        let mut receiver = receiver();
        segment(&mut receiver, 0, 0);
        segment(&mut receiver, 0, 1);
        segment(&mut receiver, 0, 5);
        assert_eq!(segment(&mut receiver, 0, 0), Some((2, vec![(0, 1), (5, 6)])));
        assert_eq!(segment(&mut receiver, 0, 5), Some((2, vec![(5, 6), (5, 6)])));
        assert_eq!(segment(&mut receiver, 0, 7), Some((2, vec![(7, 8), (5, 6)])));
    }

    #[test]
    fn rfc9768_3_2_2_5_1_every_change_between_marked_and_unmarked_is_acknowledged_at_once() {
        let mut receiver = receiver();
        let mut told = Vec::new();
        for (number, ecn) in [Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ect1, Ecn::Ect1].into_iter().enumerate() {
            receiver.count_mark(ecn);
            told.push(segment(&mut receiver, 0, number as u64).is_some());
        }
        assert_eq!(receiver.marked(), 2);
        // The second and the fourth change something, the fifth waits for another.
        assert_eq!(told, [false, true, false, true, false]);
    }

    #[test]
    fn rfc3168_6_1_3_a_mark_is_echoed_until_the_sender_has_slowed_down() {
        let mut receiver = receiver();
        receiver.on_segment(at(0), 0, 1_000, Ecn::Ce, false);
        assert!(receiver.is_due(at(0)) && receiver.echoes());
        receiver.on_segment(at(1), 1_000, 2_000, Ecn::Ect0, false);
        assert!(receiver.echoes());
        receiver.on_segment(at(2), 2_000, 3_000, Ecn::Ect0, true);
        assert!(!receiver.echoes());
        receiver.on_segment(at(3), 3_000, 4_000, Ecn::Ce, true);
        assert!(receiver.echoes(), "marked again");
    }
}
