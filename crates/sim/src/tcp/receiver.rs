//! The receiving half of a connection: what has arrived, when to acknowledge it, and what to say then.
//!
//! Every second full segment is acknowledged, a single one after the delay (RFC 9293 section 3.8.6.3); out of order,
//! filling a hole, or twice: at once (RFC 5681 section 4.2). SACK blocks name the most recent first (RFC 2018 section
//! 4), a duplicate before all others (D-SACK, RFC 2883). A mark is echoed until the sender says that it has slowed down
//! (RFC 3168 section 6.1.3).
//!
//! As Linux does it (`tcp_input.c`):
//!
//! ```text
//! in order      each of 16 at first and after something that came twice, of those that open the window that is
//!               offered, which do not count among the 16, and of those that end a burst (PSH); then as soon as more
//!               than one segment's worth is unanswered, or after the delay
//! window        grows from 64 kB by two segments with each that comes, up to a limit that begins at 80 kB and is
//!               raised once per round trip to twice what came in it and twice that growth (tcp_grow_window,
//!               tcp_rcvbuf_grow)
//! delay         40 ms, longer where segments come less often, at most 200 ms and an eighth of the round trip, but 40
//!               ms
//! out of order  the first three at once, then together: after 1 ms or a twentieth of the round trip, or the 44th, or
//!               what belongs to neither of the two blocks that grew last, so that none is left out of an ACK
//! offload       segments that come less than 25 us apart are merged for 50 us or 64 kB, and answered together
//! ```

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, Ecn, Instant};

use super::settings::{TcpAcks, TcpConfig};
#[cfg(test)]
use super::wire::MAX_SACKS;
use super::wire::{CWR, PSH};

/// Segments that one ACK covers.
const SEGMENTS_PER_ACK: u32 = 2;

/// Segments that are acknowledged one by one at first, and after something unusual (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// The longest delay of an ACK (`TCP_DELACK_MAX`).
const LONGEST_DELAY: Duration = Duration::from_millis(200);
/// Duplicate ACKs that leave at once, enough for a fast retransmit (`TCP_FASTRETRANS_THRESH`).
const PROMPT_DUPLICATES: u32 = 3;
/// Segments out of order that one ACK stands for at most (`tcp_comp_sack_nr`).
const MOST_COMPRESSED: u32 = 44;
/// How long it waits for them at most (`tcp_comp_sack_delay_ns`), and in parts of a round trip.
const COMPRESSION: Duration = Duration::from_millis(1);
const COMPRESSION_SHARE: u32 = 20;
/// Blocks that any ACK has room for beside a new one (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED_BLOCKS: usize = 2;
/// The window that is offered at first (half of `tcp_rmem`).
const FIRST_WINDOW: u64 = 65_536;
/// What that window grows to as segments come, before any round trip is measured: `tcp_rmem` less what buffers cost. A
/// segment of 1,448 bytes occupies 2,304 of them, and Linux keeps that share in 256ths.
const FIRST_LIMIT: u64 = 131_072 / 256 * (1_448 * 256 / 2_304);
/// Segments that are expected in the first round trip (`TCP_INIT_CWND`).
const FIRST_SEGMENTS: u64 = 10;
/// Segments closer together than this are still in the ring of the network interface when it is looked at.
const TOGETHER: Duration = Duration::from_micros(25);
/// For how long, and how many bytes, an interface merges (interrupt moderation; `GRO_LEGACY_MAX_SIZE`).
const MERGED_FOR: Duration = Duration::from_micros(50);
const MERGED_BYTES: u64 = 65_536;

/// A run of bytes beyond a hole.
#[derive(Copy, Clone, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// When it last grew: the most recent come first in an ACK.
    stamp: u64,
}

/// What an ACK is owed for, and when.
#[derive(Debug)]
struct Owed {
    /// Segments in order that no ACK covers yet.
    waiting: u32,
    /// ACKs that are still to leave at once.
    quick: u32,
    /// The delay as it follows how often segments come (ato).
    pace: Duration,
    /// Duplicate ACKs since RCV.NXT advanced, and segments out of order that none was sent for.
    duplicates: u32,
    compressed: u32,
    at: Option<Instant>,
    is_due: bool,
    /// The newest block that the ACK which is due tells; `None`: the newest of all.
    newest: Option<u64>,
}

/// How the window that a receiver of Linux offers grows. The lab's sender does not go by it; what counts is that each
/// segment that opens it is acknowledged at once.
#[derive(Debug)]
struct Offer {
    window: u64,
    limit: u64,
    /// When the round trip that is measured began, and RCV.NXT then.
    since: Instant,
    from: u64,
    /// What came in the largest round trip so far.
    most: u64,
    /// The round trip as the receiver knows it: from when an ACK left until what answers it comes, queues included.
    rtt: Duration,
    /// The timestamp that was echoed last.
    echo: u32,
}

impl Offer {
    /// A full segment came in order, up to `next`; returns whether it opens the window.
    fn on_segment(&mut self, now: Instant, next: u64, segment: u64) -> bool {
        let is_opened = self.window < self.limit;
        if is_opened {
            self.window = self.limit.min(self.window + 2 * segment);
        }
        if now.saturating_since(self.since) >= self.rtt && !self.rtt.is_zero() {
            let came = next - self.from;
            if came > self.most {
                // As much again, and what a sender adds that goes on growing as it did.
                self.limit = self.limit.max(2 * came + 2 * mul_div(2 * came, came - self.most, self.most));
                self.most = came;
            }
            (self.since, self.from) = (now, next);
        }
        is_opened
    }

    /// A full segment echoes a timestamp that is so old (`tcp_rcv_rtt_update`).
    fn on_echo(&mut self, echo: u32, age: Duration) {
        if std::mem::replace(&mut self.echo, echo) == echo {
            return;
        }
        self.rtt = if self.rtt.is_zero() { age } else { age.min(self.rtt - self.rtt / 8 + age / 8) };
    }
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
    delay: Duration,
    acks: TcpAcks,
    merges: bool,
    /// RCV.NXT as the latest ACK said.
    told: u64,
    owed: Owed,
    offer: Offer,
    /// When the latest segment with data came, and the first of those that are merged with it.
    latest: Option<Instant>,
    merged_since: Instant,
    /// The peer's timestamp to be echoed (TS.Recent).
    stamp_to_echo: u32,
    smoothed_rtt: Duration,
    echoes: bool,
    /// Segments that arrived marked, and whether the latest did.
    marked: u64,
    latest_is_marked: bool,
    segment_size: u64,
}

impl Receiver {
    pub(super) fn new(config: TcpConfig, segment_size: u16) -> Receiver {
        let delay = config.delayed_ack;
        Receiver {
            next: 0,
            ranges: Vec::new(),
            stamp: 0,
            duplicate: None,
            delay,
            acks: config.acks,
            merges: config.offload,
            told: 0,
            owed: Owed {
                waiting: 0,
                quick: 0,
                pace: delay,
                duplicates: 0,
                compressed: 0,
                at: None,
                is_due: false,
                newest: None,
            },
            offer: Offer {
                window: FIRST_WINDOW,
                limit: FIRST_LIMIT,
                since: Instant::ZERO,
                from: 0,
                most: FIRST_SEGMENTS * u64::from(segment_size),
                rtt: Duration::ZERO,
                echo: 0,
            },
            latest: None,
            merged_since: Instant::ZERO,
            stamp_to_echo: 0,
            smoothed_rtt: Duration::ZERO,
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

    /// A segment arrived with this mark, and every mark is counted: a change is reported at once (RFC 9768 section
    /// 3.2.2.5.1).
    pub(super) fn count_mark(&mut self, ecn: Ecn) {
        let is_marked = ecn == Ecn::Ce;
        self.marked += u64::from(is_marked);
        self.owed.is_due |= is_marked != self.latest_is_marked;
        self.latest_is_marked = is_marked;
    }

    /// A segment that begins at `start` carries this timestamp (RFC 7323 section 4.3).
    pub(super) fn on_stamp(&mut self, start: u64, stamp: u32) {
        if start <= self.told {
            self.stamp_to_echo = stamp;
        }
    }

    /// It has `data` bytes, and echoes a timestamp that is so old.
    pub(super) fn on_echo(&mut self, data: u64, echo: u32, age: Duration) {
        if data >= self.segment_size {
            self.offer.on_echo(echo, age);
        }
    }

    /// TSecr of the next segment.
    pub(super) fn stamp_to_echo(&self) -> u32 {
        self.stamp_to_echo
    }

    /// The round trip is so long.
    pub(super) fn set_rtt(&mut self, smoothed: Duration) {
        self.smoothed_rtt = smoothed;
    }

    /// A segment arrived with the bytes from `start` to `end`. Of its flags CWR and PSH count.
    pub(super) fn on_segment(&mut self, now: Instant, start: u64, end: u64, ecn: Ecn, flags: u16) {
        if flags & CWR != 0 {
            self.echoes = false;
        }
        if ecn == Ecn::Ce && !self.echoes {
            self.echoes = true;
            // Not part of RFC 3168, but what keeps the echo from waiting for the delay.
            self.owed.is_due = true;
        }
        let before = self.latest.replace(now);
        if before.is_none() {
            self.owed.quick = QUICK_ACKS;
        }
        if end <= self.next {
            self.duplicate = Some((start, end));
            self.owed.is_due = true;
            self.owed.quick = QUICK_ACKS;
        } else if start <= self.next {
            self.in_order(now, before, end, flags & PSH != 0);
        } else {
            let (is_crowded, blocks, newest) = (self.is_crowded(start, end), self.ranges.len(), self.stamp);
            self.out_of_order(start, end);
            if is_crowded {
                // What waits is told without a new block. Linux then forgets that its segment calls for an ACK, too.
                self.owed.newest = (self.ranges.len() > blocks).then_some(newest);
                self.owed.is_due = true;
            } else {
                self.answer_hole(now);
            }
        }
    }

    /// The blocks that these bytes overlap or adjoin.
    fn touched(&self, start: u64, end: u64) -> core::ops::Range<usize> {
        let first = self.ranges.partition_point(|range| range.end < start);
        let count = self.ranges[first..].partition_point(|range| range.start <= end);
        first..first + count
    }

    /// Whether an ACK that waits may have to leave out a block once these bytes have come: other blocks than theirs
    /// grew last.
    fn is_crowded(&self, start: u64, end: u64) -> bool {
        if self.acks != TcpAcks::Linux || self.owed.compressed == 0 {
            return false;
        }
        let own = self.ranges[self.touched(start, end)].iter().map(|range| range.stamp).max();
        let newer = self.ranges.iter().filter(|range| own.is_none_or(|own| range.stamp > own));
        newer.take(EXPECTED_BLOCKS).count() == EXPECTED_BLOCKS
    }

    /// Something came beyond a hole.
    fn answer_hole(&mut self, now: Instant) {
        let is_prompt = self.acks == TcpAcks::EverySecond || self.duplicate.is_some();
        if is_prompt || self.owed.duplicates < PROMPT_DUPLICATES || self.owed.compressed >= MOST_COMPRESSED {
            self.owed.duplicates += 1;
            self.owed.is_due = true;
            return;
        }
        self.owed.compressed += 1;
        let wait = now + COMPRESSION.min(self.smoothed_rtt / COMPRESSION_SHARE);
        self.owed.at = Some(self.owed.at.map_or(wait, |at| at.min(wait)));
    }

    /// The delay follows how often segments come (`tcp_event_data_recv`).
    fn keep_pace(&mut self, gap: Duration) {
        if gap <= self.delay / 2 {
            self.owed.pace = self.owed.pace / 2 + self.delay / 2;
        } else if gap < self.owed.pace {
            self.owed.pace = self.owed.pace / 2 + gap;
        }
    }

    /// How long the ACK of a single segment waits.
    fn wait(&self) -> Duration {
        match self.acks {
            TcpAcks::EverySecond => self.delay,
            TcpAcks::Linux => {
                self.owed.pace.min((self.smoothed_rtt / 8).clamp(self.delay, LONGEST_DELAY.max(self.delay)))
            }
        }
    }

    /// Until when an ACK that is due waits for segments that come together with this one.
    fn merged_until(&mut self, now: Instant, before: Option<Instant>) -> Option<Instant> {
        if before.is_none_or(|before| now.saturating_since(before) > TOGETHER) {
            self.merged_since = now;
        }
        let until = self.merged_since + MERGED_FOR;
        if until <= now {
            self.merged_since = now;
        }
        let is_merged = self.merges && self.merged_since < now && self.next - self.told < MERGED_BYTES;
        is_merged.then_some(until)
    }

    fn in_order(&mut self, now: Instant, before: Option<Instant>, end: u64, is_pushed: bool) {
        let is_full = end - self.next >= self.segment_size;
        self.next = end;
        self.owed.is_due |= !self.ranges.is_empty();
        self.owed.duplicates = 0;
        while let Some(first) = self.ranges.first().copied().filter(|first| first.start <= self.next) {
            self.next = self.next.max(first.end);
            self.ranges.remove(0);
        }
        self.owed.waiting += u32::from(is_full);
        if let Some(before) = before {
            self.keep_pace(now.saturating_since(before));
        }
        let is_due = match self.acks {
            TcpAcks::EverySecond => self.owed.waiting >= SEGMENTS_PER_ACK,
            TcpAcks::Linux => {
                if is_full && self.offer.on_segment(now, self.next, self.segment_size) {
                    // An even number becomes odd: what is left of the quick ACKs lasts as long as the window opens.
                    self.owed.quick |= 1;
                }
                self.owed.quick > 0 || self.next - self.told > self.segment_size || is_full && is_pushed
            }
        };
        let merged = self.merged_until(now, before);
        if !is_due && !self.delay.is_zero() {
            self.owed.at.get_or_insert(now + self.wait());
        } else if let Some(until) = merged {
            self.owed.at = Some(self.owed.at.map_or(until, |at| at.min(until)));
        } else {
            self.owed.is_due = true;
        }
    }

    fn out_of_order(&mut self, start: u64, end: u64) {
        self.stamp += 1;
        let touched = self.touched(start, end);
        let mut merged = Range { start, end, stamp: self.stamp };
        for range in &self.ranges[touched.clone()] {
            if range.start <= start && end <= range.end {
                self.duplicate = Some((start, end));
            }
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
        }
        self.ranges.splice(touched, [merged]);
    }

    /// Something else than data asks for an ACK.
    pub(super) fn acknowledge(&mut self) {
        self.owed.is_due = true;
    }

    /// Whether an ACK is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.owed.is_due || self.owed.at.is_some_and(|at| at <= now)
    }

    /// When an ACK will be due.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.owed.at
    }

    /// The blocks of the ACK that leaves now; returns how many there are.
    pub(super) fn on_ack_sent(&mut self, blocks: &mut [(u64, u64)]) -> usize {
        if self.next > self.told || self.owed.is_due {
            self.owed.quick = self.owed.quick.saturating_sub(1);
        }
        self.told = self.next;
        self.owed.compressed = 0;
        self.owed.waiting = 0;
        self.owed.at = None;
        self.owed.is_due = false;
        let mut count = 0;
        if let Some(duplicate) = self.duplicate.take()
            && let Some(first) = blocks.first_mut()
        {
            *first = duplicate;
            count = 1;
        }
        let mut newest = self.owed.newest.take().map_or(u64::MAX, |told| told + 1);
        while let Some(block) = blocks.get_mut(count) {
            let next = self.ranges.iter().filter(|range| range.stamp < newest).max_by_key(|range| range.stamp);
            let Some(range) = next else { break };
            newest = range.stamp;
            *block = (range.start, range.end);
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::TcpProfile;
    use super::*;

    const DELAY: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn receiver() -> Receiver {
        Receiver::new(TcpConfig { delayed_ack: DELAY, ..TcpConfig::new(TcpProfile::Shipped) }, 1_000)
    }

    /// Segment `number` of a thousand bytes arrives at `ms`; returns the ACK, if one is due.
    fn segment(receiver: &mut Receiver, ms: u64, number: u64) -> Option<(u64, Vec<(u64, u64)>)> {
        receiver.on_segment(at(ms), number * 1_000, (number + 1) * 1_000, Ecn::NotEct, 0);
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

    fn linux(offload: bool) -> Receiver {
        let mut receiver = Receiver::new(TcpConfig { offload, ..TcpConfig::new(TcpProfile::Linux) }, 1_000);
        receiver.set_rtt(Duration::from_millis(100));
        receiver
    }

    impl Receiver {
        /// No quick ACKs are left, and the window is as large as it gets.
        fn settle(&mut self) {
            self.latest = Some(Instant::ZERO);
            self.owed.quick = 0;
            self.offer.window = self.offer.limit;
        }
    }

    #[test]
    fn linux_acknowledges_each_of_the_first_22_and_then_every_second() {
        // As Linux 6.18 does: 16, and six that open the window from 65,536 to 81,920 bytes.
        let mut receiver = Receiver::new(TcpConfig { offload: false, ..TcpConfig::new(TcpProfile::Linux) }, 1_448);
        let told: Vec<bool> = (0..26)
            .map(|number: u64| {
                receiver.on_segment(at(number), number * 1_448, (number + 1) * 1_448, Ecn::NotEct, 0);
                let is_due = receiver.is_due(at(number));
                if is_due {
                    receiver.on_ack_sent(&mut [(0, 0); MAX_SACKS]);
                }
                is_due
            })
            .collect();
        assert_eq!(told[..22], [true; 22]);
        assert_eq!(told[22..], [false, true, false, true]);
    }

    #[test]
    fn linux_acknowledges_each_again_after_a_duplicate() {
        let mut receiver = linux(false);
        receiver.settle();
        for number in 0..20 {
            segment(&mut receiver, number, number);
        }
        // What lies beyond a hole changes nothing, what comes twice begins anew.
        segment(&mut receiver, 20, 21);
        assert!(segment(&mut receiver, 20, 20).is_some() && segment(&mut receiver, 20, 22).is_none());
        segment(&mut receiver, 21, 22);
        assert!(segment(&mut receiver, 21, 23).is_some() && segment(&mut receiver, 21, 24).is_some());
    }

    #[test]
    fn linux_acknowledges_the_end_of_a_burst_at_once() {
        let mut receiver = linux(false);
        receiver.settle();
        assert!(segment(&mut receiver, 0, 0).is_none());
        receiver.on_ack_sent(&mut [(0, 0); MAX_SACKS]);
        receiver.on_segment(at(1), 1_000, 2_000, Ecn::NotEct, PSH);
        assert!(receiver.is_due(at(1)));
    }

    #[test]
    fn linux_acknowledges_each_segment_while_the_window_that_it_offers_opens() {
        let mut receiver = linux(false);
        receiver.settle();
        receiver.on_echo(1_000, 1, Duration::from_millis(100));
        // 40 segments in a round trip where 10 were expected: the limit rises, and each opens the window by two.
        for number in 0..40 {
            segment(&mut receiver, number, number);
        }
        assert!(segment(&mut receiver, 101, 40).is_none());
        let told: Vec<bool> = (41..60).map(|number| segment(&mut receiver, 101, number).is_some()).collect();
        assert_eq!(told, [true; 19]);
    }

    #[test]
    fn linux_delays_by_40_ms_and_by_more_where_segments_come_seldom() {
        let mut receiver = linux(false);
        receiver.settle();
        segment(&mut receiver, 0, 0);
        assert_eq!(receiver.timer(), Some(at(40)));
        receiver.set_rtt(Duration::from_secs(2));
        receiver.on_ack_sent(&mut [(0, 0); MAX_SACKS]);
        segment(&mut receiver, 38, 1);
        assert_eq!(receiver.timer(), Some(at(38 + 58)), "half of 40 ms and 38 ms");
    }

    #[test]
    fn linux_answers_three_segments_beyond_a_hole_at_once_and_the_others_each_millisecond() {
        let mut receiver = linux(false);
        let told: Vec<bool> = (1..6).map(|number| segment(&mut receiver, 10, number).is_some()).collect();
        assert_eq!(told, [true, true, true, false, false]);
        assert_eq!(receiver.timer(), Some(at(11)));
        assert_eq!(segment(&mut receiver, 11, 6), Some((0, vec![(1, 7)])));
        receiver.set_rtt(Duration::from_millis(10));
        assert_eq!(segment(&mut receiver, 12, 7), None);
        assert_eq!(receiver.timer(), Some(at(12) + Duration::from_micros(500)), "a twentieth of the round trip");
        assert!(segment(&mut receiver, 12, 0).is_some(), "the hole is filled");
    }

    /// An ACK has room for three blocks beside timestamps: the third would leave with the next one.
    #[test]
    fn linux_does_not_wait_when_a_third_block_begins() {
        let mut receiver = linux(false);
        for number in [1, 2, 3] {
            assert!(segment(&mut receiver, 10, number).is_some());
        }
        assert_eq!(segment(&mut receiver, 10, 5), None, "the second block");
        assert_eq!(segment(&mut receiver, 10, 7), Some((0, vec![(5, 6), (1, 4)])), "as it was before");
        assert_eq!(segment(&mut receiver, 10, 8), None, "the newest block grows");
        assert_eq!(receiver.timer(), Some(at(11)));
        assert_eq!(segment(&mut receiver, 10, 6), None, "it joins both that grew last");
        assert_eq!(segment(&mut receiver, 10, 10), Some((0, vec![(5, 9), (1, 4)])), "a third begins again");
        assert_eq!(segment(&mut receiver, 10, 11), None);
        assert_eq!(segment(&mut receiver, 11, 12), Some((0, vec![(10, 13), (5, 9), (1, 4)])), "a millisecond is over");
    }

    #[test]
    fn linux_does_not_wait_when_the_third_block_grows() {
        let mut receiver = linux(false);
        for number in [2, 3, 4] {
            assert!(segment(&mut receiver, 10, number).is_some());
        }
        assert_eq!(segment(&mut receiver, 10, 6), None);
        assert_eq!(segment(&mut receiver, 10, 9), Some((0, vec![(6, 7), (2, 5)])));
        assert_eq!(segment(&mut receiver, 10, 10), None);
        assert_eq!(segment(&mut receiver, 10, 1), Some((0, vec![(1, 5), (9, 11), (6, 7)])), "as it is now");
    }

    #[test]
    fn what_the_interface_merges_is_answered_once() {
        let mut receiver = linux(true);
        receiver.settle();
        let mut acks = 0;
        for number in 0..1_000u64 {
            let now = at(1) + Duration::from_micros(12 * number);
            while receiver.timer().is_some_and(|due| due <= now) || receiver.owed.is_due {
                acks += 1;
                receiver.on_ack_sent(&mut [(0, 0); MAX_SACKS]);
            }
            receiver.on_segment(now, number * 1_000, (number + 1) * 1_000, Ecn::NotEct, 0);
        }
        assert!((180..260).contains(&acks), "12 ms in batches of 50 us: {acks}");
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
        receiver.on_segment(at(0), 0, 1_000, Ecn::Ce, 0);
        assert!(receiver.is_due(at(0)) && receiver.echoes());
        receiver.on_segment(at(1), 1_000, 2_000, Ecn::Ect0, 0);
        assert!(receiver.echoes());
        receiver.on_segment(at(2), 2_000, 3_000, Ecn::Ect0, CWR);
        assert!(!receiver.echoes());
        receiver.on_segment(at(3), 3_000, 4_000, Ecn::Ce, CWR);
        assert!(receiver.echoes(), "marked again");
    }
}
