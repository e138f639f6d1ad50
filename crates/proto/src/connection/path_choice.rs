//! Where there are several paths, which of them data and acknowledgments take, and what a silent one owes.

use bytes::Bytes;
use smallvec::SmallVec;
use thalweg_recovery::{Acked, DataSpace, Outcome, SpaceId, WayBack};
use thalweg_units::{Duration, Instant};

use super::{
    Connection,
    paths::{Candidate, PathSet},
    sent::SentFrames,
};
use crate::{
    ack::AckTracker,
    config::{AckPath, RttSamples},
    datagrams::SendDatagramError,
    streams::StreamId,
    turn::Turn,
};

/// Acknowledgments leave their own path only for one whose round trip is below this share of its own: a path that
/// breaks takes acknowledgments of another with it, and a round trip that is measured by two ways back looks like a
/// queue.
const SHORTER_BY: (u32, u32) = (1, 4);
/// A path by which less than one in so many bytes has come of what has come by the own path is too slow to carry its
/// acknowledgments: at least one in 25 bytes of a full path is acknowledgment.
const SLOWER_BY: u64 = 16;
/// A path by which nothing has come for so many of its round trips carries no acknowledgments of others.
const HEARD_WITHIN_RTTS: u32 = 2;
/// Probe timeouts without a packet by one path in one direction, while others carry some, after which we ask by it: as
/// a connection does whose peer owes something.
const ASK_AFTER_PTOS: u32 = 3;
/// The same in time, at least and at most: a path of microseconds proves nothing, and an inflated estimate must not
/// make us deaf.
const ASK_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];
/// The time doubles with each question until the peer uses the path, up to this: NATs remember a binding for 30 s or
/// more, and a path to spare must not cost more than that takes.
const ASK_AGAIN_MOST: Duration = Duration::from_secs(15);

/// Why nothing was pinned to a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The path is not open: it was never opened, has not been answered yet, or was given up.
    #[error("there is no open path of this identifier")]
    NoSuchPath,
    /// Nothing of the stream is left to be sent.
    #[error("the stream is closed")]
    ClosedStream,
    /// The datagram was not queued.
    #[error(transparent)]
    Datagram(SendDatagramError),
}

impl Connection {
    /// Whether a probe timeout on a path has gone unanswered, or the peer has said that nothing comes by it any more.
    ///
    /// An acknowledgment of what left before that, of what arrived a while ago, and by another path is no answer: it
    /// says that the path worked then.
    pub(super) fn is_silent(&self, set: &PathSet) -> bool {
        self.recovery.path(set.active().id).is_some_and(|known| known.pto_count() > 0)
            || set.silent_from().is_some() && self.recovery.in_flight(SpaceId::Data(set.id()))
    }

    /// Packets of a path have been acknowledged, `by` a path, so long after the newest of them had arrived.
    ///
    /// If that was a round trip, what left since has not arrived, and it comes by another path, then this one may be
    /// broken: no data leave on it until it answers.
    pub(super) fn on_path_acked(
        &mut self,
        path: DataSpace,
        by: DataSpace,
        delay: std::time::Duration,
        acked: &[Acked<Box<SentFrames>>],
    ) {
        let next = self.spaces[SpaceId::Data(path)].numbers.next();
        let Some(set) = self.paths.set_mut(path) else { return };
        if by == path {
            if set.answer() {
                self.reinject_silent(path);
            }
            return;
        }
        let min_rtt = self.recovery.path(set.active().id).map_or(Duration::MAX, |path| path.rtt().min);
        let is_news = acked.iter().any(|packet| packet.ack_eliciting);
        // Something has just arrived by it.
        let is_prompt = is_news && delay < min_rtt / 2;
        let is_late = || {
            let is_owing = is_news && self.recovery.in_flight(SpaceId::Data(path));
            is_owing && delay >= min_rtt && delay > self.handshake.peer_params.max_ack_delay
        };
        let is_answer = |from| is_prompt || acked.iter().any(|packet| packet.number >= from);
        if set.silent_from().is_some_and(is_answer) {
            set.answer();
            self.reinject_silent(path);
        } else if is_late() {
            set.fall_silent(next, true);
        }
    }

    /// Whether a path is silent because of no more than one probe timeout, and something arrived by it within a round
    /// trip.
    ///
    /// One answer that got lost says less than all that arrives: without the acknowledgments of it the peer would not
    /// send it. If they do get lost, it ceases a round trip later.
    fn is_heard_in_doubt(&self, now: Instant, set: &PathSet) -> bool {
        let Some(known) = self.recovery.path(set.active().id) else { return false };
        let is_heard = || now.saturating_since(set.heard()) <= known.rtt().smoothed;
        !set.is_told_silent() && known.pto_count() <= 1 && is_heard()
    }

    /// Whether all paths that are open are silent.
    pub(super) fn all_are_silent(&self) -> bool {
        let mut open = self.paths.sets().filter(|set| set.is_open());
        open.all(|set| self.recovery.path(set.active().id).is_some_and(|known| known.pto_count() >= 2))
    }

    /// Whether datagrams can be sent on a path: it is open, and there is an ID to address them to.
    fn can_carry(&self, set: &PathSet) -> bool {
        set.is_open() && self.cids.remote_of(set.id()).has_active()
    }

    /// Whether a path other than this one answers, so that this one need not carry data while it is silent.
    fn others_answer(&self, space: DataSpace) -> bool {
        self.paths.sets().any(|set| set.id() != space && self.can_carry(set) && !self.is_silent(set))
    }

    /// Whether a probe on the path of a space carries nothing but a PING: what the path owes leaves on others.
    #[inline]
    pub(super) fn is_probed_by_ping(&self, space: SpaceId) -> bool {
        self.paths.has_choice() && matches!(space, SpaceId::Data(name) if self.leaves_data_to_others(name))
    }

    fn leaves_data_to_others(&self, name: DataSpace) -> bool {
        self.paths.set(name).is_some_and(|set| self.is_silent(set)) && self.others_answer(name)
    }

    /// The paths that may carry data: those that answer and that the peer does not want as a backup; if there are none,
    /// those that answer; if there are none, all that are open.
    pub(super) fn candidates(&mut self, now: Instant) -> SmallVec<[Candidate; 4]> {
        let is_backup = |space: DataSpace| {
            self.paths.several().is_some_and(|several| {
                let status = several.status(space);
                status.peer_backup.or(status.local_backup) == Some(true)
            })
        };
        let open: SmallVec<[_; 4]> = self
            .paths
            .sets()
            .filter(|set| self.can_carry(set))
            .map(|set| (set.id(), set.active().id, self.is_silent(set), is_backup(set.id())))
            .collect();
        let best = open.iter().map(|(_, _, is_silent, is_backup)| (*is_silent, *is_backup)).min();
        let mut candidates = SmallVec::new();
        for (space, id, is_silent, is_backup) in open {
            if Some((is_silent, is_backup)) != best {
                continue;
            }
            let is_held = self.paths.set(space).is_some_and(PathSet::is_held);
            let can_send = !is_held && matches!(self.recovery.budget(now, id), thalweg_recovery::Budget::Now(_));
            let Some(known) = self.recovery.path(id) else { continue };
            candidates.push(Candidate {
                id: space,
                rtt: known.rtt().smoothed,
                rtt_variation: known.rtt().variation,
                window: known.window(),
                bytes_in_flight: known.bytes_in_flight(),
                datagram_size: known.datagram_size(),
                delivery_rate: known.delivery_rate(),
                can_send,
            });
        }
        candidates
    }

    /// The paths that carry data if they are asked to: those that answer, or, if there are none, all that are open.
    pub(super) fn live(&self) -> SmallVec<[DataSpace; 4]> {
        let open = || self.paths.sets().filter(|set| self.can_carry(set));
        let answering: SmallVec<_> = open().filter(|set| !self.is_silent(set)).map(PathSet::id).collect();
        if answering.is_empty() { open().map(PathSet::id).collect() } else { answering }
    }

    /// Whether something waits that is pinned to a path.
    pub(super) fn has_pinned(&self, path: DataSpace) -> bool {
        self.streams.can_send_pinned(path) || self.datagrams.can_send_pinned(path)
    }

    /// It is a path's turn to send what is pinned to it and, if `is_common`, what is pinned to none. A DATAGRAM leaves
    /// on the paths of `copies` too. `live` are the paths that carry data.
    pub(super) fn begin_turn(&mut self, path: DataSpace, is_common: bool, live: &[DataSpace], copies: &[DataSpace]) {
        let copies = copies.iter().copied().filter(|other| *other != path).collect();
        let turn = Turn { path, is_common, live: SmallVec::from_slice(live), copies };
        self.datagrams.set_turn(Some(turn.clone()));
        self.streams.set_turn(Some(turn));
    }

    /// Everything may be sent again, on whatever path.
    pub(super) fn end_turn(&mut self) {
        self.datagrams.set_turn(None);
        self.streams.set_turn(None);
    }

    /// Has a stream leave on one path from now on, or on any again (`None`).
    ///
    /// While that path does not answer and another one does, and once it is gone, the stream leaves on the others: it
    /// is delivered whatever becomes of the path. What has left already stays where it is. Of streams that are ready to
    /// be sent on a path, those pinned to it go first; priorities count among these and among the others.
    ///
    /// # Errors
    /// When there is no such path, or nothing of the stream is left to be sent.
    pub fn pin_stream(&mut self, id: StreamId, path: Option<DataSpace>) -> Result<(), PinError> {
        if let Some(path) = path {
            self.is_pinnable(path)?;
        }
        self.streams.pin(id, path).map_err(|_| PinError::ClosedStream)
    }

    /// Queues a DATAGRAM for one path, as [`Datagrams::send`](crate::datagrams::Datagrams::send) does for any. It must
    /// fit a packet of that path. If the path falls silent or goes before it has left, it leaves on another.
    ///
    /// # Errors
    /// When there is no such path, or it was not queued.
    pub fn send_datagram_on(&mut self, path: DataSpace, data: Bytes) -> Result<(), PinError> {
        let mtu = self.is_pinnable(path)?;
        let room = self.room_for_frames(mtu);
        self.datagrams.send_on(path, data, room).map_err(PinError::Datagram)
    }

    /// Whether something can be pinned to a path. Returns the size of its datagrams.
    fn is_pinnable(&self, path: DataSpace) -> Result<u16, PinError> {
        let open = self.paths.set(path).filter(|set| set.is_open());
        let known = open.and_then(|set| self.recovery.path(set.active().id));
        known.map(thalweg_recovery::Path::datagram_size).ok_or(PinError::NoSuchPath)
    }

    /// The path by which the acknowledgments of a space leave: its own or the shortest, as configured, or, if that is
    /// not open, is silent, or has not earned an answer, the first that answers.
    pub(super) fn ack_path(&self, now: Instant, space: DataSpace) -> DataSpace {
        let answers = |set: &PathSet| !self.is_silent(set) || set.id() == space && self.is_heard_in_doubt(now, set);
        let works = |set: &&PathSet| self.can_carry(set) && set.may_speak() && answers(set);
        if self.config.multipath.as_ref().is_some_and(|config| config.acks == AckPath::Shortest) {
            // Who sends nothing but acknowledgments never notices that they get lost: only a path by which packets
            // come carries those of others.
            let rtt =
                |set: &PathSet| self.recovery.path(set.active().id).map_or(Duration::MAX, |path| path.rtt().smoothed);
            let is_alive = |set: &&PathSet| {
                set.id() == space || now.saturating_since(set.heard()) <= rtt(set).saturating_mul(HEARD_WITHIN_RTTS)
            };
            let shortest = self.paths.sets().filter(works).filter(is_alive).min_by_key(|set| rtt(set));
            let own = self.paths.set(space).filter(works).map(rtt);
            let (numerator, denominator) = SHORTER_BY;
            let arrived = |set: &PathSet| set.iter().map(|path| path.received).sum::<u64>();
            let arrived_on_own = self.paths.set(space).map_or(0, arrived);
            let is_worth_it = |set: &&PathSet| {
                own.is_none_or(|own| rtt(set) * denominator < own * numerator)
                    && arrived(set).saturating_mul(SLOWER_BY) >= arrived_on_own
            };
            if let Some(shortest) = shortest.filter(is_worth_it) {
                return shortest.id();
            }
        }
        let own = self.paths.set(space).filter(works);
        let any = || self.paths.sets().find(works);
        // A silent one rather than one to whose address nothing may be sent yet.
        let at_least = || self.paths.sets().find(|set| self.can_carry(set) && set.may_speak());
        own.or_else(any).or_else(at_least).map_or(self.paths.active().key().space(), PathSet::id)
    }

    /// Which RTT samples count, if several paths may be in use.
    fn rtt_samples(&self) -> RttSamples {
        self.config.multipath.as_ref().map_or(RttSamples::Any, |config| config.samples)
    }

    /// How the RTT sample of an acknowledgment counts that returned `by` a path.
    pub(super) fn way_back(&self, space: SpaceId, by: DataSpace) -> WayBack {
        let rule = self.rtt_samples();
        if let SpaceId::Data(name) = space
            && rule != RttSamples::Any
            && let Some((own, by)) = self.paths.set(name).zip(self.paths.set(by))
        {
            return own.ways().of(rule, own.way(), by.way());
        }
        WayBack::Own
    }

    /// Records the RTT sample of an acknowledgment that returned `by` a path, whether or not it counted.
    pub(super) fn note_way_back(
        &mut self,
        now: Instant,
        space: SpaceId,
        by: DataSpace,
        outcome: &Outcome<Box<SentFrames>>,
    ) {
        // Packets of the handshake are acknowledged by their own path.
        let name = if let SpaceId::Data(name) = space { name } else { by };
        if self.rtt_samples() != RttSamples::Any
            && let Some(sample) = outcome.rtt_sample
            && let Some(by) = self.paths.set(by).map(PathSet::way)
            && let Some(set) = self.paths.set_mut(name)
            // A packet from before a migration says nothing of the address in use.
            && outcome.rtt_path == Some(set.way().address)
        {
            let own = set.way();
            set.ways_mut().note(now, own, by, sample);
        }
    }

    /// Whether the acknowledgments of a space leave by another path than its own.
    #[inline]
    pub(super) fn acks_go_elsewhere(&self, now: Instant, space: SpaceId) -> bool {
        self.paths.has_choice() && matches!(space, SpaceId::Data(name) if self.ack_path(now, name) != name)
    }

    /// Whether acknowledgments of other spaces that leave by the path of `space` are due.
    #[inline]
    pub(super) fn owes_acks_of_others(&self, now: Instant, space: SpaceId) -> bool {
        self.paths.has_choice() && matches!(space, SpaceId::Data(name) if self.owes_acks_of_paths_but(now, name))
    }

    fn owes_acks_of_paths_but(&self, now: Instant, name: DataSpace) -> bool {
        let is_owed = |other, acks: &AckTracker| other != name && acks.due(now) && self.ack_path(now, other) == name;
        self.spaces.data().any(|(other, state)| is_owed(other, &state.acks))
    }

    /// Appends the acknowledgments of other spaces that leave by the path of a packet.
    pub(super) fn write_acks_of_others(&mut self, now: Instant, buf: &mut Vec<u8>, limit: usize, space: SpaceId) {
        let SpaceId::Data(name) = space else { return };
        let others: SmallVec<[DataSpace; 4]> = self
            .spaces
            .data()
            .filter(|(other, state)| *other != name && self.is_acked_by(now, *other, name, &state.acks))
            .map(|(other, _)| other)
            .collect();
        for other in others {
            // What it reports is not remembered: ranges are reported until the space's own path says that they arrived.
            let is_written = self.spaces[SpaceId::Data(other)].acks.write(now, buf, limit).is_some();
            if let Some(set) = self.paths.set_mut(other).filter(|_| is_written) {
                set.on_acks_repeated();
            }
        }
    }

    /// Whether a packet on the path `name` carries the acknowledgments of another: those that are due and leave by it,
    /// and once those of a path by which nothing has come for a round trip. If that one is broken, its last ones were
    /// lost with it, and what they acknowledge would be sent again.
    fn is_acked_by(&self, now: Instant, other: DataSpace, name: DataSpace, acks: &AckTracker) -> bool {
        if acks.pending() {
            return self.ack_path(now, other) == name;
        }
        self.paths.set(other).is_some_and(|set| {
            let smoothed = || self.recovery.path(set.active().id).map(|path| path.rtt().smoothed);
            let is_quiet = || smoothed().is_some_and(|rtt| now.saturating_since(set.heard()) >= rtt);
            // One that may be broken as well would take the only repetition with it.
            let is_alive = |carrier: &PathSet| carrier.heard() > set.heard() && !self.is_silent(carrier);
            set.is_open()
                && !set.has_repeated_acks()
                && acks.has_any()
                && is_quiet()
                && self.paths.set(name).is_some_and(is_alive)
        })
    }

    /// What a path that has fallen silent owes leaves again on the others: its packets are outstanding still, but the
    /// peer may never get them.
    pub(super) fn reinject(&mut self, space: DataSpace) {
        let Some(set) = self.paths.set_mut(space) else { return };
        let id = SpaceId::Data(space);
        let (from, next) = (set.reinjected(), self.spaces[id].numbers.next());
        set.set_reinjected(next);
        let owed: Vec<_> = self
            .recovery
            .outstanding_data_from(id, from)
            .filter(|(_, sent)| sent.is_worth_repeating())
            .map(|(_, sent)| sent.clone())
            .collect();
        for sent in owed {
            self.send_again(&sent);
            self.spaces.spare.give_back(sent);
        }
    }

    /// A path that was silent answers: what the others owe that are silent still leaves on it.
    #[cold]
    fn reinject_silent(&mut self, answering: DataSpace) {
        let is_owing = |set: &&PathSet| set.is_open() && self.is_silent(set) && self.others_answer(set.id());
        let silent = self.paths.sets().filter(|set| set.id() != answering).filter(is_owing);
        let silent: SmallVec<[_; 4]> = silent.map(PathSet::id).collect();
        silent.into_iter().for_each(|space| self.reinject(space));
    }

    /// When to ask whether the peer still reaches us by a path on which nothing comes or leaves while something does on
    /// others, and which one that is. A NAT that has given the path another port is noticed by nobody while we have
    /// nothing to send there, and a peer may give up a path by which nothing comes: acknowledgments take another.
    pub(super) fn next_question(&self) -> Option<(Instant, DataSpace)> {
        if !self.paths.has_choice() {
            return None;
        }
        let last = self.lifecycle.idle.last_received;
        let open = self.paths.sets().filter(|set| self.can_carry(set));
        let silent = open.filter(|set| last > set.silence().0);
        let at = |set: &PathSet| {
            let (since, asked) = set.silence();
            let pto = self.recovery.pto(SpaceId::Data(set.id()));
            let first = (pto * ASK_AFTER_PTOS).clamp(ASK_AFTER[0], ASK_AFTER[1]);
            (since + first.saturating_mul(1 << asked.min(16)).min(ASK_AGAIN_MOST.max(first)), set.id())
        };
        silent.map(at).min_by_key(|(at, _)| *at)
    }

    /// Asks by every silent path whose time has come.
    pub(super) fn ask_by_silent_paths(&mut self, now: Instant) {
        while let Some((_, space)) = self.next_question().filter(|(at, _)| *at <= now) {
            self.spaces[SpaceId::Data(space)].ping = true;
            match self.paths.set_mut(space) {
                Some(set) => set.on_asked(now),
                None => return,
            }
        }
    }

    /// The probe timer of a path expired: what it owes leaves on other paths if one answers. Returns whether the path
    /// itself is to be probed.
    pub(super) fn on_path_silent(&mut self, space: SpaceId) -> bool {
        let SpaceId::Data(name) = space else { return true };
        if !self.paths.has_choice() {
            return true;
        }
        if self.others_answer(name) {
            self.reinject(name);
        }
        let next = self.spaces[space].numbers.next();
        let Some(set) = self.paths.set_mut(name) else { return false };
        set.fall_silent(next, false);
        set.is_open()
    }
}
