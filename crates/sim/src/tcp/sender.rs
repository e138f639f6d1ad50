//! The sending half of a connection: the scoreboard of what is out, and when to send it again.
//!
//! ```text
//! segments   by sequence, from SND.UNA on:  in flight │ SACKed │ lost, waiting to be sent again
//! order      the same by time: every transmission, so that a repair can be found lost too (RFC 8985 section 6)
//! ```
//!
//! A transmission is lost when enough transmissions after it were delivered, or enough time has passed since, as the
//! reordering policy says; `fixed` without its time threshold is RFC 6675 section 4. Limited transmit (RFC 3042) needs
//! no rule of its own: a SACKed segment leaves the flight, and what the window then has room for may leave. Of RFC
//! 6675's NextSeg, rules 1 and 2 apply (what is lost, then new data); a tail loss probe stands in for the rescue.
//!
//! RFC 6675 reduces the window once per episode, and finds no retransmission lost but by timeout. Here a retransmission
//! is judged like any transmission, and its loss reduces the window again, as does that of new data sent since the
//! latest reduction (RFC 5681 section 4.3). The recovery point then moves to SND.NXT.

use std::collections::VecDeque;

use thalweg_recovery::{Budget, Config, Judgement, LossTrigger, SegmentOutcome, SegmentPath, SegmentRecord};
use thalweg_units::{Duration, Instant};

use super::bursts::PathView;
use super::exchange::{Ack, Blocked, Echo, Happening, Transmit};
use super::order::{Answered, Order, Slot};
use super::settings::{MinRto, TcpAcks, TcpConfig, TcpProfile};
use super::wire::{MAX_SACKS, newly_marked};
use crate::result::TcpStats;

/// Before the first sample (RFC 6298 section 2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The longest timeout (RFC 6298 section 2.5 allows 60 s and more; Linux has 120 s).
const MAX_RTO: Duration = Duration::from_secs(120);
/// What Linux adds to the smoothed round trip at least.
const LINUX_VARIATION: Duration = Duration::from_millis(200);
/// The longest that a receiver may delay the ACK of a single segment (RFC 8985 section 7.2).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);
/// Repeats that are remembered after their acknowledgment, for a report that they were needless.
const REMEMBERED: usize = 1_024;
/// Duplicate ACKs that tell a loss (`TCP_FASTRETRANS_THRESH`).
const DUPLICATES: u64 = 3;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Delivered,
    /// Declared lost, not sent again yet.
    Lost,
}

/// New segments that leave together.
#[derive(Copy, Clone, Debug, Default)]
struct Burst {
    /// Those that have still to leave, and all of them.
    left: u64,
    segments: u64,
}

impl Burst {
    /// One leaves; returns whether it is the last of several.
    fn leave(&mut self) -> bool {
        let is_last = self.left == 1 && self.segments > 1;
        self.left = self.left.saturating_sub(1);
        is_last
    }
}

/// A segment from SND.UNA on.
#[derive(Debug)]
struct Segment {
    start: u64,
    length: u32,
    state: State,
    transmissions: u32,
    /// Its latest transmission, by place in the order.
    ordinal: u64,
    record: SegmentRecord,
    /// The transmission that was first declared lost. Few are, so that what all carry stays small.
    original: Option<Box<SegmentRecord>>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

/// A segment that was acknowledged after having been sent again.
#[derive(Debug)]
struct Repeated {
    start: u64,
    /// `None`: repeated as a probe, never declared lost.
    original: Option<Box<SegmentRecord>>,
}

/// When something is to be done without an ACK.
#[derive(Copy, Clone, Debug, Default)]
struct Timers {
    /// The retransmission timeout.
    rto: Option<Instant>,
    /// A transmission counts as lost.
    loss: Option<Instant>,
    /// The tail loss probe.
    probe: Option<Instant>,
}

/// The tail loss probe (RFC 8985 section 7).
#[derive(Copy, Clone, Debug, Default)]
struct Probe {
    /// SND.NXT when the one under way was sent, and whether it repeated something.
    under_way: Option<(u64, bool)>,
    /// One leaves whatever the window says.
    is_due: bool,
}

/// What there is to know of marks (RFC 3168, RFC 9768).
#[derive(Copy, Clone, Debug)]
struct Marks {
    ecn: bool,
    /// Marks that the peer has counted so far.
    counted: u64,
    /// A response to marks is to be reported to the peer (CWR).
    has_slowed: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    path: SegmentPath,
    config: TcpConfig,
    segments: VecDeque<Segment>,
    order: Order,
    /// SACKed ranges above SND.UNA, ascending and disjoint.
    sacked: Vec<(u64, u64)>,
    /// Starts of lost segments, ascending.
    lost: VecDeque<u64>,
    repeated: VecDeque<Repeated>,
    una: u64,
    next: u64,
    /// What the application has written.
    written: u64,
    /// The peer's window beyond SND.UNA.
    window: u64,
    timers: Timers,
    probe: Probe,
    burst: Burst,
    /// When something left last.
    latest: Option<Instant>,
    /// Nothing is out, nothing waits, and the path has been notified: it need not be notified again before the next
    /// transmission. Only where packets are not paced: a pacer saves up credit with every question.
    is_quiet: bool,
    marks: Marks,
    pub(super) stats: TcpStats,
    pub(super) happenings: Option<Vec<Happening>>,
}

impl Sender {
    pub(super) fn new(recovery: &Config, config: TcpConfig, now: Instant, segment_size: u16, plots: bool) -> Sender {
        Sender {
            path: SegmentPath::new(recovery, now, segment_size),
            config,
            segments: VecDeque::new(),
            order: Order::default(),
            sacked: Vec::new(),
            lost: VecDeque::new(),
            repeated: VecDeque::new(),
            una: 0,
            next: 0,
            written: 0,
            window: 0,
            timers: Timers::default(),
            probe: Probe::default(),
            burst: Burst::default(),
            latest: None,
            is_quiet: false,
            marks: Marks { ecn: config.ecn, counted: 0, has_slowed: false },
            stats: TcpStats::default(),
            happenings: plots.then(Vec::new),
        }
    }

    pub(super) fn path(&self) -> &SegmentPath {
        &self.path
    }

    pub(super) fn path_mut(&mut self) -> &mut SegmentPath {
        &mut self.path
    }

    pub(super) fn una(&self) -> u64 {
        self.una
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What was written and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.written - self.next
    }

    pub(super) fn set_written(&mut self, written: u64) {
        self.written = self.written.max(written);
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// The handshake took so long.
    pub(super) fn on_handshake(&mut self, now: Instant, sent: Instant, is_repeated: bool) {
        self.path.on_rtt_sample(now, sent, is_repeated, Duration::ZERO);
        self.path.finish(now);
    }

    fn index_of(&self, start: u64) -> Option<usize> {
        let index = self.segments.partition_point(|segment| segment.start < start);
        (self.segments.get(index)?.start == start).then_some(index)
    }

    /// What leaves now, if anything may.
    pub(super) fn poll(&mut self, now: Instant) -> Result<Transmit, Blocked> {
        if std::mem::take(&mut self.probe.is_due)
            && let Some(transmit) = self.send_probe(now)
        {
            return Ok(transmit);
        }
        let size = self.path.path().datagram_size();
        let again = self.lost.front().copied();
        if again.is_none() {
            if self.unsent() == 0 {
                if !self.is_quiet && matches!(self.path.budget(now), Budget::Now(_)) {
                    self.path.on_app_limited(now);
                    self.is_quiet = self.una == self.next && self.path.path().pacing_rate().is_none();
                }
                return Err(Blocked::NoData);
            }
            if self.next + self.unsent().min(u64::from(size)) > self.una + self.window {
                return Err(Blocked::FlowControl);
            }
        }
        match self.path.budget(now) {
            Budget::Now(room) if again.is_none() && !self.begins_burst(now, room) => return Err(Blocked::Window),
            Budget::Now(_) => {}
            Budget::Paced(at) => return Err(Blocked::Pacing(at)),
            Budget::WindowFull => return Err(Blocked::Window),
        }
        match again.and_then(|start| self.index_of(start)) {
            Some(index) => {
                self.lost.pop_front();
                Ok(self.repeat(now, index))
            }
            None => Ok(self.send_new(now)),
        }
    }

    /// Whether new data may leave where the window has room for so many bytes: what segmentation offload hands over at
    /// once leaves together, or waits together.
    fn begins_burst(&mut self, now: Instant, room: u64) -> bool {
        if self.burst.left > 0 || !self.config.offload || self.path.path().pacing_rate().is_some() {
            return true;
        }
        let path = self.path.path();
        let (rtt, size) = (path.rtt(), u64::from(path.datagram_size()));
        let view = PathView {
            window: path.window(),
            is_doubling: path.ssthresh().is_none_or(|ssthresh| path.window() < ssthresh / 2),
            smoothed_rtt: rtt.smoothed,
            min_rtt: rtt.min,
            size,
        };
        let room = room.min((self.una + self.window).saturating_sub(self.next));
        let oldest = self.segments.front().map(|first| first.record.sent());
        let fits = self.unsent() <= room || self.path.is_in_episode();
        if !fits && view.defers(now, room / size, self.latest, oldest) {
            return false;
        }
        let segments = view.burst().min(room / size);
        self.burst = Burst { left: segments, segments };
        true
    }

    fn send_new(&mut self, now: Instant) -> Transmit {
        let ends_burst = self.burst.leave();
        self.latest = Some(now);
        let length = self.unsent().min(u64::from(self.path.path().datagram_size())) as u32;
        let start = self.next;
        self.next += u64::from(length);
        self.is_quiet = false;
        let record = self.path.on_sent(now, length, self.next, self.unsent() > 0);
        let ordinal = self.order.push(start);
        let state = State::InFlight;
        self.segments.push_back(Segment { start, length, state, transmissions: 1, ordinal, record, original: None });
        if self.timers.rto.is_none() {
            self.timers.rto = Some(now + self.rto());
        }
        self.arm_probe(now);
        let has_slowed = std::mem::take(&mut self.marks.has_slowed);
        Transmit { start, length, is_new: true, ends_burst, has_slowed }
    }

    fn repeat(&mut self, now: Instant, index: usize) -> Transmit {
        let (start, length) = (self.segments[index].start, self.segments[index].length);
        self.latest = Some(now);
        let has_more = !self.lost.is_empty() || self.unsent() > 0;
        let record = self.path.on_sent(now, length, self.next, has_more);
        let ordinal = self.order.push(start);
        let segment = &mut self.segments[index];
        segment.record = record;
        segment.ordinal = ordinal;
        segment.state = State::InFlight;
        segment.transmissions += 1;
        self.stats.retransmissions += 1;
        self.stats.retransmitted_bytes += u64::from(length);
        if index == 0 || self.timers.rto.is_none() {
            // The timer runs for the oldest; its repair starts it anew (RFC 6298 section 5.1).
            self.timers.rto = Some(now + self.rto());
        }
        Transmit { start, length, is_new: false, ends_burst: false, has_slowed: false }
    }

    /// New data if there are any, else the last segment again (RFC 8985 section 7.3).
    fn send_probe(&mut self, now: Instant) -> Option<Transmit> {
        let room = (self.una + self.window).saturating_sub(self.next);
        let is_new = self.unsent() > 0 && self.unsent().min(u64::from(self.path.path().datagram_size())) <= room;
        let transmit = if is_new {
            self.send_new(now)
        } else {
            let index = self.segments.len().checked_sub(1)?;
            let last = &self.segments[index];
            if last.state != State::InFlight {
                return None;
            }
            self.path.withdraw(now, &last.record);
            self.order.forget(last.ordinal);
            self.repeat(now, index)
        };
        self.stats.tail_probes += 1;
        self.path.on_tail_probe(now);
        self.probe.under_way = Some((self.next, !is_new));
        self.timers.probe = None;
        self.timers.rto = Some(now + self.rto());
        Some(transmit)
    }

    fn rto(&self) -> Duration {
        let rtt = self.path.path().rtt();
        let base = if !rtt.has_sample {
            INITIAL_RTO
        } else {
            match self.config.min_rto {
                MinRto::Linux => rtt.probe_base().max(rtt.smoothed + LINUX_VARIATION),
                MinRto::Rfc6298 => rtt.probe_base().max(INITIAL_RTO),
                MinRto::At(least) => rtt.probe_base().max(least),
            }
        };
        self.path.backed_off(base, MAX_RTO)
    }

    /// RFC 8985 section 7.2.
    fn arm_probe(&mut self, now: Instant) {
        self.timers.probe = None;
        let rtt = self.path.path().rtt();
        let is_calm = !self.path.is_in_episode() && self.sacked.is_empty() && self.lost.is_empty();
        let can = self.config.tail_loss_probe
            && self.probe.under_way.is_none()
            && rtt.has_sample
            && self.path.timeouts() == 0;
        if can && is_calm && self.una < self.next {
            let mut wait = rtt.smoothed * 2;
            if self.segments.len() == 1 {
                wait += WORST_ACK_DELAY;
            }
            let at = now + wait;
            // It takes the place of a timeout that would come first.
            self.timers.probe = Some(self.timers.rto.map_or(at, |rto| at.min(rto)));
        }
    }

    /// An ACK arrived. Answers what it did.
    pub(super) fn on_ack(&mut self, now: Instant, ack: Ack<'_>) -> SegmentOutcome {
        if ack.una > self.next || ack.una < self.una {
            return SegmentOutcome::default();
        }
        if self.una == self.next && ack.blocks.is_empty() && ack.echo != Echo::Mark && self.probe.under_way.is_none() {
            // Nothing is outstanding, so there is nothing to acknowledge: every segment of a peer that sends data to an
            // end that sends none. Linux leaves here, too (tcp_ack without packets out).
            return SegmentOutcome::default();
        }
        self.is_quiet = false;
        self.burst = Burst::default();
        let newest_before = self.order.newest().unwrap_or(0);
        let advances = ack.una > self.una;
        self.una = ack.una;
        self.path.on_cumulative_ack(ack.una);
        let mut answered = Answered::default();
        let mut is_news = advances;
        while self.segments.front().is_some_and(|first| first.end() <= ack.una) {
            self.deliver(now, 0, newest_before, &mut answered);
            if let Some(segment) = self.segments.pop_front()
                && segment.transmissions > 1
            {
                if self.repeated.len() == REMEMBERED {
                    self.repeated.pop_front();
                }
                self.repeated.push_back(Repeated { start: segment.start, original: segment.original });
            }
        }
        self.sacked.retain(|(_, end)| *end > ack.una);
        let mut reports_probe = false;
        for (place, block) in ack.blocks.iter().take(MAX_SACKS).enumerate() {
            let (start, end) = *block;
            let is_inside = ack.blocks.get(1).is_some_and(|(from, to)| *from <= start && end <= *to);
            if place == 0 && (end <= ack.una || (ack.blocks.len() > 1 && is_inside)) {
                reports_probe |= self.on_duplicate(now, start, ack.una);
            } else if end > start && end <= self.next {
                is_news |= self.on_block(now, start.max(ack.una), end, newest_before, &mut answered);
            }
        }
        if let Some((oldest, newest)) = answered.sample(self.config.acks, ack.stamped.filter(|_| advances)) {
            self.path.on_rtt_sample(now, newest, false, newest.saturating_since(oldest));
        }
        match ack.echo {
            Echo::Mark if self.marks.ecn => self.path.on_ecn_echo(now),
            Echo::Count(flags) if self.marks.ecn => {
                if let Some(marked) = newly_marked(flags, self.marks.counted, self.path.acked()) {
                    self.marks.counted += marked;
                    self.path.on_ecn_counts(now, marked);
                }
            }
            _ => {}
        }
        self.judge_probe(ack.una, reports_probe, is_news || ack.has_data);
        self.order.is_repairing &= self.path.is_in_episode();
        self.detect_lost(now);
        let outcome = self.path.finish(now);
        // A mark that was answered without a reduction has been answered: the peer is to cease repeating it.
        let is_answered = ack.echo == Echo::Mark && !self.path.is_in_episode();
        if outcome.congestion.is_some() || is_answered {
            self.marks.has_slowed = self.marks.ecn;
        }
        if self.path.is_in_episode() {
            self.probe.under_way = None;
        }
        if self.una == self.next {
            (self.timers.rto, self.timers.probe) = (None, None);
        } else {
            if advances || self.is_answer_of_before_repair(&answered) {
                self.timers.rto = Some(now + self.rto());
            }
            if is_news {
                self.arm_probe(now);
            }
        }
        outcome
    }

    /// Whether an ACK answers what left before the latest repair of the oldest segment. Linux starts the timer anew
    /// then (`tcp_clean_rtx_queue`), RFC 6298 only if it advances.
    fn is_answer_of_before_repair(&self, answered: &Answered) -> bool {
        let Some(oldest) = self.segments.front().filter(|_| self.config.acks == TcpAcks::Linux) else { return false };
        answered.oldest.is_some_and(|(_, sent)| sent < oldest.record.sent())
    }

    /// A segment has arrived at the peer.
    fn deliver(&mut self, now: Instant, index: usize, newest_before: u64, answered: &mut Answered) {
        let segment = &mut self.segments[index];
        let (state, ordinal, start) = (segment.state, segment.ordinal, segment.start);
        segment.state = State::Delivered;
        match state {
            State::Delivered => {}
            State::InFlight => {
                self.path.on_delivered(now, &segment.record, newest_before.saturating_sub(ordinal));
                let sent = segment.record.sent();
                let is_repeated = segment.transmissions > 1;
                // Too soon for the repeat to have been answered: it was the first transmission (RFC 8985 section 6.2,
                // step 2).
                let rtt = self.path.path().rtt();
                let is_first = is_repeated && rtt.has_sample && now.saturating_since(sent) < rtt.min;
                if !is_repeated {
                    answered.take_in(ordinal, sent);
                    self.order.is_mixed |= ordinal < newest_before;
                }
                if is_first {
                    self.order.forget(ordinal);
                } else {
                    self.order.deliver(ordinal, sent);
                }
            }
            State::Lost => {
                self.order.is_mixed = true;
                self.path.on_late(now, &segment.record);
                let length = segment.length;
                self.note(Happening::Spurious(start, length));
                if let Ok(at) = self.lost.binary_search(&start) {
                    self.lost.remove(at);
                }
            }
        }
    }

    /// A block of SACKed bytes. Only what is new in it is looked at. Returns whether anything was.
    fn on_block(&mut self, now: Instant, start: u64, end: u64, newest_before: u64, answered: &mut Answered) -> bool {
        let mut at = start;
        let mut is_news = false;
        while at < end {
            let known = self.sacked.partition_point(|(_, to)| *to <= at);
            let stop = match self.sacked.get(known) {
                Some((from, to)) if *from <= at => {
                    at = *to;
                    continue;
                }
                Some((from, _)) => end.min(*from),
                None => end,
            };
            let mut index = self.segments.partition_point(|segment| segment.start < at);
            while self.segments.get(index).is_some_and(|segment| segment.end() <= stop) {
                self.deliver(now, index, newest_before, answered);
                index += 1;
            }
            is_news = true;
            at = stop;
        }
        if is_news {
            self.merge_sacked(start, end);
        }
        is_news
    }

    fn merge_sacked(&mut self, start: u64, end: u64) {
        let from = self.sacked.partition_point(|(_, to)| *to < start);
        let mut merged = (start, end);
        let mut last = from;
        while let Some((known_start, known_end)) = self.sacked.get(last).filter(|(known, _)| *known <= end) {
            merged = (merged.0.min(*known_start), merged.1.max(*known_end));
            last += 1;
        }
        if last == from {
            self.sacked.insert(from, merged);
        } else {
            self.sacked[from] = merged;
            self.sacked.drain(from + 1..last);
        }
    }

    /// The peer has received something twice (RFC 2883). Returns whether it was a probe's.
    fn on_duplicate(&mut self, now: Instant, start: u64, una: u64) -> bool {
        self.stats.needless_retransmissions += 1;
        let mut was_probe = false;
        if start < una {
            let at = self.repeated.partition_point(|repeated| repeated.start < start);
            if self.repeated.get(at).is_some_and(|repeated| repeated.start == start)
                && let Some(repeated) = self.repeated.remove(at)
            {
                match repeated.original {
                    Some(original) => self.on_needless_repeat(now, start, &original),
                    None => was_probe = true,
                }
            }
        } else if let Some(index) = self.index_of(start)
            && let Some(original) = self.segments[index].original.take()
        {
            self.on_needless_repeat(now, start, &original);
        }
        was_probe
    }

    /// What was declared lost and repeated had arrived.
    fn on_needless_repeat(&mut self, now: Instant, start: u64, original: &SegmentRecord) {
        self.order.is_mixed = true;
        self.path.on_needless_repeat(now, original);
        self.note(Happening::Spurious(start, original.size()));
    }

    /// What the ACK says about a tail loss probe (RFC 8985 section 7.4.2).
    fn judge_probe(&mut self, una: u64, is_reported: bool, is_news: bool) {
        let Some((end, is_repeat)) = self.probe.under_way.filter(|(end, _)| una >= *end) else { return };
        // An ACK that says nothing new is the answer to the original.
        if !is_repeat || is_reported || !is_news {
            self.probe.under_way = None;
        } else if una > end {
            self.probe.under_way = None;
            self.path.on_repaired_loss();
        }
    }

    fn detect_lost(&mut self, now: Instant) {
        self.timers.loss = None;
        let Some(newest) = self.order.newest() else { return };
        let mut passed = 0;
        self.order.trim();
        let window = self.reordering_window();
        let mut ordinal = self.order.base;
        while let Some(slot) = self.order.get(ordinal) {
            match slot {
                Slot::Delivered => passed += 1,
                Slot::Gone => {}
                Slot::Open(_) if ordinal > newest => break,
                Slot::Open(start) => {
                    let Some(index) = self.index_of(start) else { break };
                    let (record, span) = (&self.segments[index].record, self.order.len());
                    let judgement = match self.order.is_outrun(record.sent(), window) {
                        true => Judgement::Lost(LossTrigger::TimeThreshold),
                        false => self.path.judge(now, record, self.order.delivered - passed, span),
                    };
                    match judgement {
                        Judgement::Lost(trigger) => {
                            self.order.forget(ordinal);
                            self.declare_lost(now, index, trigger);
                        }
                        Judgement::NotBefore(at) => {
                            self.timers.loss = at;
                            break;
                        }
                    }
                }
            }
            ordinal += 1;
        }
        self.order.trim();
    }

    /// How much earlier than something that was delivered a lost transmission left, in Linux as long as nothing came
    /// late (`tcp_rack_reo_wnd`). Its timer is left out: where fewer than three segments follow, the tail loss probe or
    /// the retransmission timer repairs instead.
    fn reordering_window(&self) -> Option<Duration> {
        let is_sure = self.order.is_repairing || self.order.delivered >= DUPLICATES;
        let window = if is_sure { Duration::ZERO } else { self.path.path().rtt().min / 4 };
        (self.config.profile == TcpProfile::Linux && self.config.acks == TcpAcks::Linux && !self.order.is_mixed)
            .then_some(window)
    }

    fn declare_lost(&mut self, now: Instant, index: usize, trigger: LossTrigger) {
        self.order.is_repairing = true;
        let segment = &mut self.segments[index];
        let (start, length) = (segment.start, segment.length);
        self.path.on_lost(now, &mut segment.record, start, trigger);
        segment.state = State::Lost;
        if segment.transmissions == 1 {
            segment.original = Some(Box::new(segment.record.clone()));
        } else if trigger != LossTrigger::Timeout {
            self.stats.lost_retransmissions += 1;
        }
        let at = self.lost.partition_point(|lost| *lost < start);
        self.lost.insert(at, start);
        self.note(Happening::Lost(start, length));
    }

    fn note(&mut self, happening: Happening) {
        if let Some(happenings) = &mut self.happenings {
            happenings.push(happening);
        }
    }

    /// When [`on_timer`](Self::on_timer) is to be called.
    pub(super) fn timer(&self) -> Option<Instant> {
        earliest([self.timers.rto, self.timers.loss, self.timers.probe])
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        self.is_quiet = false;
        if self.timers.loss.is_some_and(|at| at <= now) {
            self.detect_lost(now);
            self.path.finish(now);
        }
        if self.timers.probe.is_some_and(|at| at <= now) {
            self.timers.probe = None;
            self.probe.is_due = true;
        } else if self.timers.rto.is_some_and(|at| at <= now) {
            self.time_out(now);
        }
    }

    /// RFC 6298 section 5.4 and following: all that is not SACKed is lost, and the oldest goes first.
    fn time_out(&mut self, now: Instant) {
        self.stats.timeouts += 1;
        (self.probe.under_way, self.timers.probe, self.timers.loss) = (None, None, None);
        self.path.on_timeout(now);
        for index in 0..self.segments.len() {
            if self.segments[index].state == State::InFlight {
                self.order.forget(self.segments[index].ordinal);
                self.declare_lost(now, index, LossTrigger::Timeout);
            }
        }
        self.order.trim();
        self.path.finish(now);
        self.timers.rto = Some(now + self.rto());
    }
}

/// The first of these times.
pub(super) fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    let first = times.into_iter().fold(Instant::FAR_FUTURE, |first, at| first.min(at.unwrap_or(Instant::FAR_FUTURE)));
    (first < Instant::FAR_FUTURE).then_some(first)
}

#[cfg(test)]
mod tests;
