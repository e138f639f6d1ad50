//! One packet number space: which packets are out, which were acknowledged, which are lost.
//!
//! Packets of one space can leave on several paths. Each path has a [`Lane`] here: what separates two packets is
//! counted within a lane, so that reordering *between* paths is never taken for loss. A lane's cursor stands on its
//! oldest open packet; loss detection starts there and stops at the first packet that is not lost, because those behind
//! it were sent later still.

use core::ops::RangeInclusive;

use thalweg_units::{Duration, Instant};

use crate::ecn::{Newly, Report, Reported};
use crate::loss::{self, LossVerdict, PACKET_THRESHOLD};
use crate::paths::Paths;
use crate::probe::{self, LossRun};
use crate::sent::{Record, SentPackets, Transmission};
use crate::trace::{Event, Trace};
use crate::types::{
    AckOfUnsent, Acked, EcnCounts, LossTrigger, Lost, Outcome, PathId, PerPath, ReceiveTime, Sent, SpaceId,
};
use crate::undo::{LostPacket, LostPackets};

/// For how many probe timeouts a packet declared lost is remembered: long after any reordering, as long as RFC 9000
/// keeps closing connections.
const REMEMBER_TIMEOUTS: u32 = 3;

/// How many packets that only acknowledge are tracked. A pure receiver sends them without end, and the peer need not
/// acknowledge them.
const MAX_QUIET: u64 = 1_024;

/// What a space keeps of one path.
#[derive(Clone, Debug)]
struct Lane {
    path: PathId,
    /// How many packets this space has sent on the path.
    sent: u64,
    /// The newest of them to be acknowledged.
    newest_acked: Option<u64>,
    /// The same before the ACK being processed: what it newly acknowledges below this arrived out of order.
    newest_before: u64,
    /// No packet of the path below this number is open.
    cursor: u64,
    /// When the oldest open packet counts as lost.
    loss_time: Option<Instant>,
    run: LossRun,
}

impl Lane {
    /// A path on which nothing below `number` was sent.
    fn new(path: PathId, number: u64) -> Lane {
        Lane {
            path,
            sent: 0,
            newest_acked: None,
            newest_before: 0,
            cursor: number,
            loss_time: None,
            run: LossRun::default(),
        }
    }
}

/// What an ACK newly acknowledged, as far as all paths together are concerned.
#[derive(Copy, Clone, Debug)]
pub(crate) struct NewlyAcked {
    /// The newly acknowledged packet with the largest number.
    pub(crate) largest: NewestPacket,
    /// It is the largest that the ACK names, and some newly acknowledged packet was ack-eliciting: an RTT sample (RFC
    /// 9002 section 5.1).
    pub(crate) gives_rtt_sample: bool,
    /// The ACK raised the largest acknowledged number of the space.
    pub(crate) is_advance: bool,
    /// How many newly acknowledged packets carried marks.
    pub(crate) marked: Newly,
    /// How many of them were ack-eliciting.
    pub(crate) eliciting: u64,
}

/// The newest of a set of packets.
#[derive(Copy, Clone, Debug)]
pub(crate) struct NewestPacket {
    pub(crate) number: u64,
    pub(crate) sent: Instant,
    /// Its place among the packets sent on the path.
    pub(crate) order: u64,
    pub(crate) path: PathId,
}

/// Where the consequences of an ACK or a timeout go.
pub(crate) struct Consequences<'a, T> {
    pub(crate) now: Instant,
    pub(crate) paths: &'a mut Paths,
    pub(crate) out: &'a mut Outcome<T>,
    pub(crate) trace: &'a mut Trace,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Space<T> {
    id: SpaceId,
    sent: SentPackets<T>,
    lost: LostPackets<T>,
    lanes: PerPath<Lane>,
    /// The earliest loss time of the lanes.
    loss_time: Option<Instant>,
    largest_acked: Option<u64>,
    /// How many open packets are ack-eliciting, and how many of these are MTU probes.
    eliciting: u64,
    mtu_probes: u64,
    /// When the last ack-eliciting packet was sent.
    last_eliciting: Option<Instant>,
    /// How many open packets do not count in flight, and below which number there are none.
    quiet: u64,
    quiet_cursor: u64,
    ecn: Reported,
    /// The longest delay that the peer reported lately in an acknowledgment of two packets or more: so long it holds
    /// acknowledgments back although several packets have arrived.
    longest_hold: Duration,
}

impl<T: Clone> Space<T> {
    pub(crate) fn new(id: SpaceId) -> Self {
        Space {
            id,
            sent: SentPackets::new(),
            lost: LostPackets::new(),
            lanes: PerPath::new(),
            loss_time: None,
            largest_acked: None,
            eliciting: 0,
            mtu_probes: 0,
            last_eliciting: None,
            quiet: 0,
            quiet_cursor: 0,
            ecn: Reported::default(),
            longest_hold: Duration::ZERO,
        }
    }

    pub(crate) fn id(&self) -> SpaceId {
        self.id
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// The open packets, oldest first.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (u64, &Record<T>)> {
        self.sent.iter()
    }

    /// The open packets from `number` on, oldest first.
    pub(crate) fn outstanding_from(&self, number: u64) -> impl Iterator<Item = (u64, &Record<T>)> {
        self.sent.iter_from(number)
    }

    /// For how many open packets there is room.
    pub(crate) fn capacity(&self) -> usize {
        self.sent.capacity()
    }

    /// Whether anything was ever sent.
    pub(crate) fn has_sent(&self) -> bool {
        self.sent.next_number() > 0
    }

    /// Whether ack-eliciting packets are in flight.
    pub(crate) fn has_eliciting(&self) -> bool {
        self.eliciting > 0
    }

    /// How many ack-eliciting packets are in flight, MTU probes left out: many a path swallows those.
    pub(crate) fn eliciting(&self) -> u64 {
        self.eliciting - self.mtu_probes
    }

    /// When the last ack-eliciting packet was sent, if any is in flight.
    #[inline]
    pub(crate) fn last_eliciting(&self) -> Option<Instant> {
        self.last_eliciting.filter(|_| self.eliciting > 0)
    }

    /// When the next packet counts as lost.
    #[inline]
    pub(crate) fn loss_time(&self) -> Option<Instant> {
        self.loss_time
    }

    /// The longest delay that the peer reported lately in an acknowledgment of two packets or more.
    pub(crate) fn longest_hold(&self) -> Duration {
        self.longest_hold
    }

    /// The peer reported this delay in an acknowledgment of two packets or more.
    pub(crate) fn on_hold(&mut self, delay: Duration) {
        // Fades by an eighth per sample: a peer that was busy once does not slow the timer down for ever.
        self.longest_hold = (self.longest_hold - self.longest_hold / 8).max(delay);
    }

    /// Brings the loss time up to date with those of the lanes.
    fn set_loss_time(&mut self) {
        self.loss_time = self.lanes.iter().filter_map(|lane| lane.loss_time).min();
    }

    /// A packet has been sent.
    pub(crate) fn on_sent(&mut self, packet: Sent<T>, paths: &mut Paths) {
        // What elicits an acknowledgment counts in flight (RFC 9002 section 2).
        let in_flight = packet.in_flight || packet.ack_eliciting;
        let mut sent = Transmission::new(packet.time, packet.size, in_flight);
        (sent.mtu_probe, sent.ecn) = (packet.mtu_probe, packet.ecn);
        if let Some(path) = paths.get_mut(packet.path) {
            path.on_sent(&mut sent);
        }
        self.ecn.on_sent(packet.ecn);
        if packet.ack_eliciting {
            self.eliciting += 1;
            self.mtu_probes += u64::from(packet.mtu_probe);
            self.last_eliciting = Some(packet.time);
        }
        let ordinal = self.next_ordinal(packet.path, packet.number);
        let record =
            Record { sent, ordinal, path: packet.path, ack_eliciting: packet.ack_eliciting, data: packet.data };
        self.sent.push(packet.number, record);
        if !in_flight {
            self.quiet += 1;
            if self.quiet > MAX_QUIET {
                self.forget_oldest_quiet(packet.time, paths);
            }
        }
    }

    fn next_ordinal(&mut self, path: PathId, number: u64) -> u64 {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.path == path) {
            lane.sent += 1;
            return lane.sent;
        }
        self.lanes.push(Lane { sent: 1, ..Lane::new(path, number) });
        1
    }

    fn forget_oldest_quiet(&mut self, now: Instant, paths: &mut Paths) {
        while self.quiet_cursor < self.sent.next_number() {
            let number = self.sent.next_unsettled(self.quiet_cursor);
            self.quiet_cursor = number + 1;
            if self.sent.get(number).is_some_and(|record| !record.sent.in_flight) {
                if let Some(record) = self.sent.take(number) {
                    self.quiet -= 1;
                    paths.on_settled(now, &record);
                }
                break;
            }
        }
        self.sent.trim();
    }

    /// Settles what an ACK newly acknowledges and notes it on the paths concerned. `None` if there is nothing new.
    ///
    /// # Errors
    /// When the ACK names a packet that was never sent.
    pub(crate) fn take_acked(
        &mut self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        arrivals: &[ReceiveTime],
        consequences: &mut Consequences<'_, T>,
    ) -> Result<Option<NewlyAcked>, AckOfUnsent> {
        let Consequences { now, paths, out, trace } = consequences;
        let now = *now;
        let Space { id, sent, lost, lanes, eliciting, mtu_probes, quiet, .. } = self;
        for lane in lanes.iter_mut() {
            lane.newest_before = lane.newest_acked.unwrap_or(0);
        }
        let mut largest_named: Option<u64> = None;
        let mut largest: Option<NewestPacket> = None;
        let mut newly_eliciting = 0;
        let mut marked = Newly::default();
        let mut note = |number: u64, record: &Record<T>| {
            newly_eliciting += u64::from(record.ack_eliciting);
            marked.count(record.sent.ecn);
            if largest.is_none_or(|largest| largest.number < number) {
                largest =
                    Some(NewestPacket { number, sent: record.sent.time, order: record.sent.order, path: record.path });
            }
        };
        for range in ranges {
            largest_named = largest_named.max(Some(*range.end()));
            let taken = sent.take_range(range.clone(), |number, record| {
                note(number, &record);
                *eliciting -= u64::from(record.ack_eliciting);
                *mtu_probes -= u64::from(record.ack_eliciting && record.sent.mtu_probe);
                *quiet -= u64::from(!record.sent.in_flight);
                let mut behind = 0;
                if let Some(lane) = lanes.iter_mut().find(|lane| lane.path == record.path) {
                    lane.newest_acked = lane.newest_acked.max(Some(record.ordinal));
                    behind = lane.newest_before.saturating_sub(record.ordinal);
                }
                if let Some(path) = paths.get_mut(record.path) {
                    path.on_acked(now, &record.sent, behind);
                    if !arrivals.is_empty() {
                        path.on_arrival(now, &record.sent, ReceiveTime::of(arrivals, number));
                    }
                }
                out.acked.push(acked(number, record, false));
            });
            taken.map_err(|number| AckOfUnsent { space: *id, number })?;
            lost.take_range(&range, |packet| {
                note(packet.number, &packet.record);
                let (number, record) = (packet.number, &packet.record);
                #[cfg(feature = "study")]
                let mut behind = 0;
                if let Some(lane) = lanes.iter_mut().find(|lane| lane.path == record.path) {
                    lane.newest_acked = lane.newest_acked.max(Some(record.ordinal));
                    #[cfg(feature = "study")]
                    {
                        behind = lane.newest_acked.unwrap_or(0).saturating_sub(record.ordinal);
                    }
                    lane.run.on_delivered_elsewhere(record.sent.time);
                }
                let late_by = now.saturating_since(packet.declared);
                trace.push(
                    now,
                    record.path,
                    Event::SpuriousLoss { space: *id, number, size: record.sent.size, late_by },
                );
                if let Some(path) = paths.get_mut(record.path) {
                    #[cfg(feature = "study")]
                    path.on_behind(behind);
                    path.on_late_ack(now, &record.sent, packet.episode);
                    if !arrivals.is_empty() {
                        path.on_arrival(now, &record.sent, ReceiveTime::of(arrivals, number));
                    }
                }
                out.spurious += 1;
                out.acked.push(acked(number, packet.record, true));
            });
        }
        let is_advance = largest_named > self.largest_acked;
        self.largest_acked = self.largest_acked.max(largest_named);
        Ok(largest.map(|largest| NewlyAcked {
            largest,
            gives_rtt_sample: newly_eliciting > 0 && Some(largest.number) == largest_named,
            is_advance,
            marked,
            eliciting: newly_eliciting,
        }))
    }

    /// Judges the ECN counts of an ACK that raised the largest acknowledged number.
    pub(crate) fn judge_ecn(&mut self, counts: Option<EcnCounts>, newly: Newly) -> Report {
        self.ecn.judge(counts, newly)
    }

    /// Something sent at `sent` on `path` was delivered in another space.
    pub(crate) fn on_delivered_elsewhere(&mut self, path: PathId, sent: Instant) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.path == path) {
            lane.run.on_delivered_elsewhere(sent);
        }
    }

    /// Declares lost what is lost by now, and sets the loss times of what will be (RFC 9002 appendix A.10).
    pub(crate) fn detect_lost(&mut self, max_ack_delay: Duration, consequences: &mut Consequences<'_, T>) {
        let Some(largest_acked) = self.largest_acked else {
            return;
        };
        for index in 0..self.lanes.len() {
            // Moved out and back: what a run remembers is not copied at every ACK.
            let path = self.lanes[index].path;
            let lane = core::mem::replace(&mut self.lanes[index], Lane::new(path, 0));
            self.lanes[index] = self.detect_lost_in(lane, largest_acked, max_ack_delay, consequences);
        }
        self.set_loss_time();
        let Consequences { now, paths, .. } = consequences;
        self.lost.forget(*now, |packet| paths.on_lost_for_good(packet));
        self.sent.trim();
    }

    /// The same for the packets of one path; returns what its lane becomes.
    fn detect_lost_in(
        &mut self,
        mut lane: Lane,
        largest_acked: u64,
        max_ack_delay: Duration,
        consequences: &mut Consequences<'_, T>,
    ) -> Lane {
        lane.loss_time = None;
        let mut thresholds = None;
        let mut number = lane.cursor;
        // Past a packet that stays open the cursor stays too; the walk goes on only to find when to look again.
        let mut all_settled = true;
        while number <= largest_acked {
            let next = self.sent.next_unsettled(number);
            if next > number {
                // Acknowledged, or settled on another path: either way no run of losses spans it.
                lane.run.on_delivered();
                number = next;
            } else {
                if let Some(record) = self.sent.get(number).filter(|record| record.path == lane.path) {
                    let behind = lane.newest_acked.unwrap_or(0).saturating_sub(record.ordinal);
                    let thresholds = *thresholds.get_or_insert_with(|| {
                        // The first one to be looked at is the oldest.
                        let span = lane.sent + 1 - record.ordinal;
                        consequences.paths.get(lane.path).map(|path| path.thresholds(span))
                    });
                    // A path lives as long as packets of it are open.
                    let Some(mut thresholds) = thresholds else { break };
                    if record.sent.mtu_probe {
                        // A mistake about it costs a probe and no window: the search need not wait.
                        thresholds.packets = Some(PACKET_THRESHOLD);
                    }
                    match loss::judge(consequences.now, record.sent.time, behind, thresholds) {
                        LossVerdict::Lost(trigger) => {
                            self.declare_lost(number, trigger, &mut lane, max_ack_delay, consequences)
                        }
                        LossVerdict::NotBefore(deadline) if record.sent.in_flight => {
                            // Those behind it were sent later still.
                            lane.loss_time = Some(deadline);
                            break;
                        }
                        // Nobody waits for a packet that is not in flight.
                        LossVerdict::NotBefore(_) => all_settled = false,
                    }
                }
                number += 1;
            }
            if all_settled {
                lane.cursor = number;
            }
        }
        lane
    }

    fn declare_lost(
        &mut self,
        number: u64,
        trigger: LossTrigger,
        lane: &mut Lane,
        max_ack_delay: Duration,
        consequences: &mut Consequences<'_, T>,
    ) {
        let Some(record) = self.sent.take(number) else {
            return;
        };
        let Consequences { now, paths, out, trace } = consequences;
        let now = *now;
        self.eliciting -= u64::from(record.ack_eliciting);
        self.mtu_probes -= u64::from(record.ack_eliciting && record.sent.mtu_probe);
        self.quiet -= u64::from(!record.sent.in_flight);
        let Some(path) = paths.get_mut(lane.path) else {
            return;
        };
        let episode = path.on_lost(now, &record.sent);
        if record.ack_eliciting && !record.sent.mtu_probe {
            let span = probe::persistent_congestion_duration(path.rtt(), max_ack_delay);
            if lane.run.on_lost(record.sent.time, path.rtt().first_sample, span) {
                path.on_persistent_congestion();
            }
        }
        if record.sent.in_flight {
            trace.push(now, lane.path, Event::PacketLost { space: self.id, number, size: record.sent.size, trigger });
        }
        out.lost.push(lost(number, &record, trigger));
        let timeout = path.rtt().probe_base().saturating_add(max_ack_delay);
        let forget = now + timeout.saturating_mul(REMEMBER_TIMEOUTS);
        self.lost.push(LostPacket { number, declared: now, forget, episode, record });
    }

    /// The keys are gone: forgets every packet (RFC 9002 section 6.4).
    pub(crate) fn discard(&mut self, now: Instant, paths: &mut Paths) {
        self.settle_all(now, paths, |_, _| {});
        // Nothing more is sent here, so that nothing delivered elsewhere concerns it.
        self.lanes.clear();
    }

    /// Hands every open packet back, without any conclusion about the path.
    pub(crate) fn withdraw(&mut self, now: Instant, paths: &mut Paths, out: &mut Outcome<T>) {
        self.settle_all(now, paths, |number, record| out.lost.push(lost(number, record, LossTrigger::Withdrawn)));
    }

    fn settle_all(&mut self, now: Instant, paths: &mut Paths, mut each: impl FnMut(u64, &Record<T>)) {
        for number in self.sent.base()..self.sent.next_number() {
            if let Some(record) = self.sent.take(number) {
                paths.on_settled(now, &record);
                each(number, &record);
            }
        }
        self.sent.trim();
        self.lost.clear(|packet| paths.on_lost_for_good(packet));
        self.lanes.iter_mut().for_each(|lane| {
            lane.loss_time = None;
            lane.run = LossRun::default();
        });
        self.loss_time = None;
        (self.eliciting, self.mtu_probes) = (0, 0);
        self.last_eliciting = None;
        self.quiet = 0;
    }

    /// Lets go of the lanes of paths that no longer exist.
    pub(crate) fn purge(&mut self, paths: &Paths) {
        self.lanes.retain(|lane| paths.contains(lane.path));
        self.set_loss_time();
    }
}

fn acked<T>(number: u64, record: Record<T>, declared_lost: bool) -> Acked<T> {
    Acked {
        number,
        size: record.sent.size,
        time_sent: record.sent.time,
        ack_eliciting: record.ack_eliciting,
        mtu_probe: record.sent.mtu_probe,
        path: record.path,
        declared_lost,
        data: record.data,
    }
}

fn lost<T: Clone>(number: u64, record: &Record<T>, trigger: LossTrigger) -> Lost<T> {
    Lost {
        number,
        size: record.sent.size,
        time_sent: record.sent.time,
        ack_eliciting: record.ack_eliciting,
        mtu_probe: record.sent.mtu_probe,
        path: record.path,
        trigger,
        data: record.data.clone(),
    }
}
