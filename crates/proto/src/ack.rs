//! The tracker of received packets, which decides when to acknowledge and what (RFC 9000 section 13.2,
//! draft-ietf-quic-ack-frequency): one per packet-number space.
//!
//! The tracker knows every packet number received, tells duplicates from new packets, decides when an ACK is due and
//! writes it. The connection asks once per batch of received datagrams, so that a batch brings at most one immediate
//! ACK.
//!
//! **Thinning.** An ACK for every second packet takes 5.3 Mbps of uplink for 250 Mbps of downlink. After the first
//! packets of a connection, in which the peer's start-up wants dense feedback, ACKs thin out to a share of the packets
//! that arrive in a round trip ([`AckPolicy`]); reordering and CE marks still bring one at once. What one ACK frees,
//! many senders send at once, and a queue of a few packets has no room for it: ACKs are dense again when packets are
//! missing. A peer that has asked for acknowledgments (ACK_FREQUENCY) gets what it asked for instead.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use thalweg_recovery::{Ecn, EcnCounts};
use thalweg_units::Instant;

use self::arrivals::Arrivals;
use self::density::Density;
use crate::error::TransportError;
use crate::frame::{self, AckFrequency};
use crate::range_set::RangeSet;

mod arrivals;
mod density;

/// An ACK may be held back this long on any path: less than the timer granularity of common hosts saves nothing.
const SHORTEST_HOLD: Duration = Duration::from_millis(1);
/// How many ranges are remembered for telling duplicates; what is below them counts as duplicate.
const MAX_KEPT_RANGES: usize = 256;
/// How many late arrivals are remembered one by one; more are lumped together.
const MAX_LATE: usize = 64;
/// How many separate spans of reported numbers are remembered. Beyond it the oldest gap between two counts as reported:
/// there have been that many ACKs with too many ranges, and none since with room for what they left out.
const MAX_REPORTED_SPANS: usize = 64;
/// How many ACKs with several ranges go out without one being acknowledged before we ask for it.
const ACKS_BEFORE_ELICITING: u32 = 32;
/// The value an ACK_FREQUENCY frame must stay below, in microseconds (RFC 9000 section 18.2: 2^14 ms).
const MAX_ACK_DELAY_LIMIT: u64 = (1 << 14) * 1000;

/// How densely to acknowledge as long as the peer has not said so in an ACK_FREQUENCY frame: what is done about peers
/// that cannot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckPolicy {
    /// Every second ack-eliciting packet (RFC 9000 section 13.2.2).
    EverySecond,
    /// As `thinned` as long as packets do not go missing, else every second one. Two missing packets among 4,096,
    /// numbers left aside that senders skip on purpose, are a loss and bring 32,768 packets of dense ACKs; four times
    /// as many each time that thinning is soon followed by another loss.
    #[default]
    UntilLoss,
    /// After a hundred packets a quarter of what arrives in a round trip, between every second and every tenth packet:
    /// enough for a sender to grow and to pace by. A sender that does not spread what an ACK frees loses much of it in
    /// a queue of fewer packets.
    Thinned,
    /// After a hundred packets half of what arrives in a round trip, between every second and every 64th packet: for
    /// uplinks that carry hardly anything else. A sender that does not pace sends larger bursts.
    Sparse,
}

impl AckPolicy {
    /// Every policy.
    pub const ALL: [AckPolicy; 4] =
        [AckPolicy::EverySecond, AckPolicy::UntilLoss, AckPolicy::Thinned, AckPolicy::Sparse];

    /// The name, as written in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            AckPolicy::EverySecond => "every-second",
            AckPolicy::UntilLoss => "until-loss",
            AckPolicy::Thinned => "thinned",
            AckPolicy::Sparse => "sparse",
        }
    }

    /// ACKs per round trip.
    const fn per_round_trip(self) -> u32 {
        match self {
            AckPolicy::EverySecond | AckPolicy::UntilLoss | AckPolicy::Thinned => 4,
            AckPolicy::Sparse => 2,
        }
    }

    /// The most packets per ACK.
    const fn most_packets(self) -> u64 {
        match self {
            AckPolicy::EverySecond => 2,
            AckPolicy::UntilLoss | AckPolicy::Thinned => 10,
            AckPolicy::Sparse => 64,
        }
    }
}

impl std::fmt::Display for AckPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for AckPolicy {
    type Err = String;

    fn from_str(name: &str) -> Result<AckPolicy, String> {
        let known = AckPolicy::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| {
            let names = AckPolicy::ALL.map(AckPolicy::name).join(", ");
            format!("acknowledgments cannot be \"{name}\"; they can be {names}")
        })
    }
}

/// The configuration of an [`AckTracker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckConfig {
    /// The longest an acknowledgment is held back, as in our transport parameter.
    pub max_ack_delay: Duration,
    /// Our ack_delay_exponent transport parameter.
    pub exponent: u8,
    /// How densely to acknowledge.
    pub policy: AckPolicy,
    /// The most ranges in one ACK frame.
    pub max_ranges: usize,
    /// Our min_ack_delay transport parameter: the shortest delay the peer may ask for.
    pub min_ack_delay: Duration,
}

impl Default for AckConfig {
    fn default() -> AckConfig {
        AckConfig {
            max_ack_delay: Duration::from_millis(25),
            exponent: 3,
            policy: AckPolicy::default(),
            max_ranges: 64,
            min_ack_delay: Duration::from_millis(1),
        }
    }
}

/// What the recipient of one ACK frame has learned: the fate of all numbers from `from` up to `largest`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The lowest number that the frame acknowledges; 0 unless there were more ranges than the frame had room for.
    pub from: u64,
    /// The largest number acknowledged.
    pub largest: u64,
}

/// What an ACK is owed for.
#[derive(Copy, Clone, Debug, Default)]
struct Owed {
    /// Ack-eliciting packets since the last ACK.
    packets: u64,
    /// When the first of them arrived.
    since: Instant,
    /// An ACK must go out with the next transmission.
    is_due: bool,
    /// The caller, or the peer by IMMEDIATE_ACK, wants an ACK for the packet in hand.
    is_forced: bool,
}

/// How ACKs are sent: what the peer asked for, or as we do by ourselves.
#[derive(Copy, Clone, Debug)]
struct Asked {
    /// An ACK is due after this many ack-eliciting packets.
    packets_per_ack: u64,
    max_ack_delay: Duration,
    /// See draft-ietf-quic-ack-frequency section 6.2.
    reordering_threshold: u64,
    /// The sequence number of the latest ACK_FREQUENCY frame; `None` as long as the peer has not asked.
    frequency: Option<u64>,
}

impl Asked {
    fn of(config: &AckConfig) -> Asked {
        Asked { packets_per_ack: 2, max_ack_delay: config.max_ack_delay, reordering_threshold: 1, frequency: None }
    }
}

/// A packet that arrived late, after larger numbers.
#[derive(Copy, Clone, Debug)]
struct Late {
    /// Its number. The entry stands for all later numbers of its time too, up to `below`.
    number: u64,
    below: u64,
    /// The largest number at the time: an ACK with the same largest may not acknowledge it, one with a larger does.
    largest_then: u64,
}

/// Received packets of one space and the acknowledgment they are owed.
#[derive(Debug)]
pub struct AckTracker {
    config: AckConfig,
    /// Initial and Handshake: every ack-eliciting packet is acknowledged at once.
    immediate: bool,

    /// Packets received, apart from what lies below `floor`.
    received: RangeSet,
    /// Everything below counts as received.
    floor: u64,
    largest: Option<u64>,
    /// When `largest` arrived.
    largest_at: Instant,
    counts: EcnCounts,

    /// Numbers that the peer has seen acknowledged, or has seen to be missing; late arrivals excepted. One span from 0
    /// on, unless ACKs had more ranges to report than room.
    reported: RangeSet,
    /// Packets that arrived late. All columns ascend.
    late: VecDeque<Late>,
    /// ACKs written since the peer last acknowledged one.
    unconfirmed_acks: u32,

    owed: Owed,
    /// The previous packet was marked CE.
    last_was_ce: bool,
    largest_eliciting: Option<u64>,
    /// The largest number in an ACK we wrote.
    largest_acked: Option<u64>,

    asked: Asked,
    density: Density,
    arrivals: Arrivals,
    /// ACKs name this path identifier (PATH_ACK).
    path: Option<u32>,
}

impl AckTracker {
    /// A tracker for one space. `immediate`: the Initial and Handshake spaces, where nothing may be held back.
    pub fn new(config: AckConfig, immediate: bool) -> AckTracker {
        AckTracker {
            asked: Asked::of(&config),
            config,
            immediate,
            received: RangeSet::new(),
            floor: 0,
            largest: None,
            largest_at: Instant::ZERO,
            counts: EcnCounts::default(),
            reported: RangeSet::new(),
            late: VecDeque::new(),
            unconfirmed_acks: 0,
            owed: Owed::default(),
            last_was_ce: false,
            largest_eliciting: None,
            largest_acked: None,
            density: Density::default(),
            arrivals: Arrivals::default(),
            path: None,
        }
    }

    /// ACKs are PATH_ACK frames for this path identifier from now on (draft-ietf-quic-multipath-21 section 2.3).
    pub fn name_path(&mut self, path: u32) {
        self.path = Some(path);
    }

    /// The peer takes so many timestamps per ACK, in units of 2^`exponent` microseconds
    /// (draft-ietf-quic-receive-ts section 5).
    pub fn report_arrivals(&mut self, most: u64, exponent: u8) {
        self.arrivals.enable(most, exponent);
    }

    /// Whether a packet was received before, or is so old that we no longer know. It is to be dropped (RFC 9000 section
    /// 12.3).
    #[inline]
    pub fn is_duplicate(&self, number: u64) -> bool {
        number < self.floor || self.received.contains(number)
    }

    /// Takes note of a packet that was opened, processed and is no duplicate.
    pub fn on_packet(&mut self, now: Instant, number: u64, ecn: Ecn, ack_eliciting: bool) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.counts.ect0 += 1,
            Ecn::Ect1 => self.counts.ect1 += 1,
            Ecn::Ce => self.counts.ce += 1,
        }
        let is_ce = ecn == Ecn::Ce;
        let ce_edge = is_ce && !self.last_was_ce;
        self.last_was_ce = is_ce;

        let largest_before = self.largest;
        match largest_before {
            Some(largest) if number < largest => self.note_late(number, largest),
            _ => {
                self.largest = Some(number);
                self.largest_at = now;
            }
        }
        self.received.insert_one(number);
        if let Some(end) = self.received.keep_highest(MAX_KEPT_RANGES) {
            self.floor = self.floor.max(end);
        }

        // RFC 9000 section 13.2.1: a packet that is not ack-eliciting MUST NOT bring about an ACK, whatever it reveals.
        if !ack_eliciting {
            if self.asked.frequency.is_none() {
                self.density.see(self.config.policy, number, largest_before);
            }
            return;
        }
        self.arrivals.on_packet(now, number);
        if self.owed.packets == 0 {
            self.owed.since = now;
        }
        self.owed.packets += 1;
        if self.asked.frequency.is_none() {
            self.asked.packets_per_ack =
                self.density.on_packet(now, self.config.policy, number, largest_before, &self.received);
        }
        // RFC 9000 section 13.2.1 wants an ACK for every CE mark; a peer that asked for fewer ACKs wants the edge only.
        let ce_due = if self.asked.frequency.is_some() && self.asked.packets_per_ack > 2 { ce_edge } else { is_ce };
        self.owed.is_due |=
            self.immediate || ce_due || self.owed.packets >= self.asked.packets_per_ack || self.is_reordered(number);
        self.largest_eliciting = self.largest_eliciting.max(Some(number));
    }

    /// Whether this ack-eliciting packet shows reordering that the peer wants to know of at once (RFC 9000 section
    /// 13.2.1, draft-ietf-quic-ack-frequency section 6.2).
    fn is_reordered(&self, number: u64) -> bool {
        let threshold = self.asked.reordering_threshold;
        let largest = self.largest_eliciting.map_or(number, |largest| largest.max(number));
        if threshold == 0 {
            return false;
        }
        if threshold == 1 && number < largest {
            return true;
        }
        let reported_missing = self.largest_acked.and_then(|acked| acked.checked_sub(threshold));
        if reported_missing.is_some_and(|reported| number <= reported) {
            return true;
        }
        let from = reported_missing.map_or(0, |reported| reported + 1).max(self.floor);
        self.received.gaps(from..largest).next().is_some_and(|missing| largest - missing.start >= threshold)
    }

    fn note_late(&mut self, number: u64, largest: u64) {
        // What is larger and came earlier is remembered by this entry.
        while self.late.back().is_some_and(|other| other.number >= number) {
            self.late.pop_back();
        }
        let full = self.late.len() >= MAX_LATE;
        match self.late.back_mut() {
            Some(last) if full => *last = Late { number: last.number, below: u64::MAX, largest_then: largest },
            _ => self.late.push_back(Late { number, below: u64::MAX, largest_then: largest }),
        }
    }

    /// Wants an ACK for the ack-eliciting packet in hand, or for those not acknowledged yet: at the end of a stream,
    /// for instance.
    pub fn force_due(&mut self) {
        self.owed.is_forced = true;
    }

    /// The peer sent IMMEDIATE_ACK.
    pub fn on_immediate_ack(&mut self) {
        self.owed.is_forced = true;
    }

    /// The peer sent ACK_FREQUENCY. Returns whether it is news: frames that do not raise the sequence number are
    /// ignored.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if it asks for less than our min_ack_delay, or for 2^14 ms or more (section 4 of the draft).
    pub fn on_ack_frequency(&mut self, request: &AckFrequency) -> Result<bool, TransportError> {
        let delay = Duration::from_micros(request.max_ack_delay);
        if delay < self.config.min_ack_delay || request.max_ack_delay >= MAX_ACK_DELAY_LIMIT {
            return Err(TransportError::protocol_violation("ACK_FREQUENCY asks for an impossible delay")
                .in_frame(frame::ty::ACK_FREQUENCY));
        }
        if self.asked.frequency.is_some_and(|latest| request.sequence <= latest) {
            return Ok(false);
        }
        self.asked.frequency = Some(request.sequence);
        self.asked.max_ack_delay = delay;
        self.asked.packets_per_ack = request.threshold.saturating_add(1);
        self.asked.reordering_threshold = request.reordering_threshold;
        self.owed.is_due |= self.owed.packets >= self.asked.packets_per_ack;
        Ok(true)
    }

    /// Sets the shortest round-trip time of the path, by which ACKs are thinned and held back.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.density.set_rtt(rtt);
    }

    /// Whether an ACK must be sent now, even in a packet of its own.
    #[inline]
    pub fn due(&self, now: Instant) -> bool {
        self.owed.packets > 0 && (self.owed.is_due || self.owed.is_forced || self.deadline() <= now)
    }

    /// Whether there are ack-eliciting packets not acknowledged yet: an ACK should ride in any packet that is sent
    /// anyway.
    #[inline]
    pub fn pending(&self) -> bool {
        self.owed.packets > 0
    }

    /// Whether there is anything to acknowledge, be it for the second time.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.largest.is_some()
    }

    /// When the ACK that is held back becomes due; `None` if there is nothing to acknowledge. In the past when it is
    /// due.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        self.pending().then(|| if self.owed.is_due || self.owed.is_forced { self.owed.since } else { self.deadline() })
    }

    fn deadline(&self) -> Instant {
        self.owed.since + self.hold()
    }

    /// How long an acknowledgment may be held back. No longer than the transport parameter says, and no longer than its
    /// share of the round trip, which keeps feedback as dense in time as in packets: on a short path 25 ms would be
    /// many round trips, for which a sender with a small window has nothing else to go by. A peer that asked for a
    /// delay (ACK_FREQUENCY) gets that.
    fn hold(&self) -> Duration {
        match self.asked.frequency {
            Some(_) => self.asked.max_ack_delay,
            None if self.density.rtt().is_zero() => self.asked.max_ack_delay,
            None => {
                let share = self.density.rtt() / self.config.policy.per_round_trip();
                self.asked.max_ack_delay.min(share.max(SHORTEST_HOLD))
            }
        }
    }

    /// Appends an ACK frame that ends at `limit` (a length of `buf`) or before: the highest ranges that fit, of those
    /// that the peer may not know. Returns what it reports; `None`, and nothing written, if there is nothing to report
    /// or no room.
    pub fn write(&mut self, now: Instant, buf: &mut Vec<u8>, limit: usize) -> Option<Reported> {
        let ranges = self.unreported().take(self.config.max_ranges);
        // ack_delay_exponent does not hold in Initial and Handshake packets (RFC 9000 section 18.2).
        let exponent = if self.immediate { 3 } else { self.config.exponent.min(20) };
        let delay = now.saturating_since(self.largest_at).as_micros().min(u128::from(u64::MAX)) as u64;
        let ecn = (self.counts != EcnCounts::default()).then_some(self.counts);
        let (room, delay) = (limit.checked_sub(buf.len())?, delay >> exponent);
        let times = || self.arrivals.newest_first();
        let most = self.arrivals.most();
        let written = match (self.path, self.arrivals.is_empty()) {
            (None, true) => frame::encode_ack(buf, room, delay, ranges, ecn)?,
            (None, false) => frame::encode_ack_with_times(buf, room, delay, ranges, ecn, times(), most)?,
            (Some(path), true) => frame::encode_path_ack(path, buf, room, delay, ranges, ecn)?,
            (Some(path), false) => {
                frame::encode_path_ack_with_times(path, buf, room, delay, ranges, ecn, times(), most)?
            }
        };
        let mut rest = self.unreported().skip(written.saturating_sub(1));
        let lowest = rest.next().map_or(0, |range| range.start);
        let from = if rest.next().is_some() { lowest } else { 0 };
        drop(rest);

        self.arrivals.clear();
        self.owed = Owed { since: self.owed.since, ..Owed::default() };
        self.unconfirmed_acks = self.unconfirmed_acks.saturating_add(1);
        self.largest_acked = self.largest;
        self.largest.map(|largest| Reported { from, largest })
    }

    /// What was received and the peer may not know of, from the highest range down. The range with the largest number
    /// comes first in any case (RFC 9000 section 13.2.3).
    fn unreported(&self) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        let reported_below = self.reported.first().filter(|span| span.start == 0).map_or(0, |span| span.end);
        let from = self.late.front().map_or(reported_below, |late| late.number.min(reported_below));
        let ranges = self.received.iter_descending().take_while(move |range| range.end > from);
        ranges.enumerate().filter_map(move |(index, range)| {
            let range = range.start.max(from)..range.end;
            let is_late = || self.late.iter().any(|late| late.number < range.end && range.start < late.below);
            (index == 0 || !self.reported.covers(range.clone()) || is_late()).then_some(range)
        })
    }

    /// The peer received an ACK frame of ours: what it reported need not be reported again (RFC 9000 section 13.2.4).
    /// Numbers are still remembered to tell duplicates.
    pub fn on_ack_acked(&mut self, ack: Reported) {
        let Reported { from, largest } = ack;
        self.reported.insert(from..largest.saturating_add(1));
        while self.reported.len_ranges() > MAX_REPORTED_SPANS {
            let lowest = self.reported.pop_min().map_or(0, |span| span.start);
            let next = self.reported.min().unwrap_or(lowest);
            self.reported.insert(lowest..next);
        }
        for late in self.late.iter_mut().filter(|late| late.largest_then < largest) {
            late.below = late.below.min(from);
        }
        self.late.retain(|late| late.number < late.below);
        self.unconfirmed_acks = 0;
    }

    /// Whether to put a PING beside the next ACK: ACKs carry many ranges, and none was acknowledged for a while, so the
    /// peer sends no packets that would let us forget ranges (RFC 9000 section 13.2.4). Says so once in a while.
    pub fn should_elicit(&mut self) -> bool {
        let ask = self.unconfirmed_acks >= ACKS_BEFORE_ELICITING && self.unreported().nth(1).is_some();
        if ask {
            self.unconfirmed_acks = 0;
        }
        ask
    }

    /// The ECN counts of the packets received so far.
    pub fn counts(&self) -> EcnCounts {
        self.counts
    }

    /// Whether a packet with a smaller number than one that arrived has not.
    pub fn is_missing_any(&self) -> bool {
        self.largest.is_some_and(|largest| self.received.gaps(self.floor..largest).next().is_some())
    }

    /// The largest packet number received.
    #[inline]
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }
}

#[cfg(test)]
mod tests;
