//! Repeated packets: probes after a silence, copies of the handshake's flights, copies of a transfer's tail, copies on
//! another path.
//!
//! One rule for all of them. Contents that are under way become due once more, the oldest first except in the tail, and
//! leave in packets of their own (RFC 9000 section 13.3). Probes ignore the window; copies wait until nothing else is
//! left to send, and fit into the window, those of the tail into the pacer too. What is new goes before a copy, and a
//! copy is not copied. A probe timeout settles the copies that are owed.

mod across;
mod copies;
mod owed;
mod policy;
mod probes;
mod tail;

use smallvec::SmallVec;
use thalweg_recovery::{Budget, DataSpace, HandshakePolicy, Policies, Recovery, SpaceId, TailPolicy, TwiceFrom};
use thalweg_units::Instant;

pub(crate) use self::across::Worth;
use self::{across::Across, copies::Copies, owed::Owed, policy::RepeatPolicy, probes::Probing, tail::Tail};
use super::{
    handshake::KeyStore,
    paths::Path,
    sent::SentFrames,
    sizes::MIN_INITIAL,
    spaces::{BySpace, Spaces},
};
use crate::{Side, streams::Streams};

/// What is under way, and can be sent: what may be repeated.
#[derive(Copy, Clone)]
pub(crate) struct Underway<'a> {
    pub keys: &'a KeyStore,
    pub spaces: &'a Spaces,
    pub recovery: &'a Recovery<Box<SentFrames>>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    policy: RepeatPolicy,
    owed: BySpace<Owed>,
    probing: Probing,
    copies: Copies,
    /// The tails under way, by the space of their packets.
    tails: SmallVec<[(DataSpace, Tail); 1]>,
    across: Across,
    /// What leaves now is copies.
    is_copying: bool,
}

impl Repeat {
    pub fn new(policies: &Policies) -> Repeat {
        Repeat { policy: RepeatPolicy::of(policies), ..Repeat::default() }
    }

    /// Goes on by other policies.
    pub fn set_policies(&mut self, policies: &Policies) {
        self.policy = RepeatPolicy::of(policies);
    }

    /// Whether the next packet of `space` is owed: a probe or a copy.
    pub fn is_owed(&self, space: SpaceId) -> bool {
        self.owed[space].packets > 0
    }

    /// An ack-eliciting packet of `space` has left.
    pub fn on_packet(&mut self, space: SpaceId) {
        let owed = &mut self.owed[space];
        owed.packets = owed.packets.saturating_sub(1);
    }

    /// The peer has acknowledged something of `space`: no probe is needed any more.
    pub fn on_progress(&mut self, space: SpaceId) {
        self.owed[space].packets = 0;
    }

    /// A further path has a space.
    pub fn open(&mut self, space: DataSpace) {
        self.owed.insert(space, Owed::default());
    }

    /// It has none any more.
    pub fn forget(&mut self, space: DataSpace) {
        self.owed.remove(space);
        self.across.forget(space);
        self.tails.retain(|(of, _)| *of != space);
    }

    /// The space is no more.
    pub fn discard(&mut self, space: SpaceId) {
        self.owed[space] = Owed::default();
    }

    /// The contents that a packet owed in `space` repeats next: the oldest that no packet owed since has repeated.
    pub fn next(&mut self, space: SpaceId, recovery: &Recovery<Box<SentFrames>>) -> Option<Box<SentFrames>> {
        let numbers = &mut self.owed[space].numbers;
        let (number, sent) = recovery
            .outstanding_data_from(space, numbers.start)
            .take_while(|(number, _)| *number < numbers.end)
            .find(|(_, sent)| sent.is_worth_repeating())?;
        numbers.start = number + 1;
        Some(sent.clone())
    }

    /// Has [`next`](Self::next) begin with the oldest once again. Returns whether it does: copies are one of each
    /// packet.
    pub fn begin_again(&mut self, space: SpaceId) -> bool {
        if self.owes_copies() {
            return false;
        }
        self.owed[space].numbers.start = 0;
        true
    }

    /// Probes are due: they carry new data if there are any, and as much of what is unacknowledged as fits, the oldest
    /// first; else a PING (RFC 9002 section 6.2.4). Other spaces with something in flight share the datagrams.
    pub fn on_probe_timeout(&mut self, space: SpaceId, datagrams: u8, underway: &Underway<'_>) {
        let is_further = !SpaceId::ALL.contains(&space);
        if is_further {
            self.owed[space] = Owed::probes(datagrams, underway.spaces[space].numbers.next());
        }
        for other in SpaceId::ALL.into_iter().filter(|_| !is_further) {
            if other == space || underway.keys.local(other).is_some() && underway.recovery.in_flight(other) {
                self.owed[other] = Owed::probes(datagrams, underway.spaces[other].numbers.next());
            }
        }
        self.probing.datagrams = datagrams;
        self.copies.is_owed = false;
    }

    /// A datagram with packets that were owed was written. After the last, what no longer found room in it is not owed
    /// any more.
    pub fn on_owed_datagram(&mut self) {
        if self.probing.on_datagram() {
            self.settle();
        }
    }

    /// Handshake messages of ours must have been lost: the peer repeats its own that we have read, or sends what we
    /// cannot read without more of them. Repeats those that are unacknowledged without waiting for the probe timer, a
    /// few times per connection and not twice for the same loss (RFC 9002 section 6.2.3). Returns whether it does.
    ///
    /// Two hellos that arrive together are the probes of a client whose first was lost: the answer goes out twice too.
    pub fn speed_up_handshake(&mut self, now: Instant, started: Instant, side: Side, underway: &Underway<'_>) -> bool {
        let Underway { keys, spaces, recovery } = *underway;
        let is_waiting = |space: SpaceId| spaces[space].crypto.can_send();
        let unanswered = [SpaceId::Initial, SpaceId::Handshake]
            .map(|space| keys.local(space).is_some() && (recovery.in_flight(space) || is_waiting(space)));
        let unanswered = SpaceId::ALL.into_iter().zip(unanswered).filter(|(_, is)| *is).map(|(space, _)| space);
        // What has not left yet leaves twice anyway.
        if self.wants_copies(spaces) && unanswered.clone().any(is_waiting) {
            return false;
        }
        if !self.probing.may_speed_up(now) || unanswered.clone().next().is_none() {
            return false;
        }
        let datagrams = self.probing.speed_up(now, started, side);
        unanswered.for_each(|space| self.owed[space] = Owed::probes(datagrams, spaces[space].numbers.next()));
        self.copies.is_owed = false;
        true
    }

    /// A datagram of `bytes` was written with these packets, which are no probes.
    pub fn on_flight(&mut self, packets: &[(SpaceId, u64)], bytes: usize) {
        self.copies.on_datagram(packets, bytes);
    }

    /// Something was lost on the way to the peer, and what it carried in `space` waits to be sent again if it still
    /// matters.
    pub fn on_loss(&mut self, space: SpaceId, spaces: &Spaces) {
        self.copies.loss_seen = true;
        self.copies.is_repair |= spaces.crypto(space).lost_len() > 0;
    }

    /// A space is about to forget what it has received.
    pub fn note_missed_packets(&mut self, spaces: &Spaces) {
        self.copies.loss_seen |= spaces.is_missing_handshake();
    }

    /// No further flight is copied.
    pub fn end_copies(&mut self) {
        self.copies.end();
    }

    /// Whether what the spaces owe is a second copy rather than a probe.
    pub fn owes_copies(&self) -> bool {
        self.copies.is_owed
    }

    /// Whether a flight that ends now leaves twice.
    fn wants_copies(&self, spaces: &Spaces) -> bool {
        let is_wanted = match self.policy.handshake {
            HandshakePolicy::Twice(parameters) => {
                parameters.from == TwiceFrom::Start || self.copies.loss_seen || spaces.is_missing_handshake()
            }
            _ => false,
        };
        is_wanted && !self.copies.is_over
    }

    /// Whether there is a flight that may leave twice, once it has ended.
    pub fn has_flight(&self) -> bool {
        self.copies.has_flight()
    }

    /// The flight that leaves by `path` has ended if nothing waits to be sent: makes copies of it due. Returns whether
    /// any are, and may leave.
    pub fn owe_copies(&mut self, now: Instant, path: &Path, is_waiting: bool, underway: &Underway<'_>) -> bool {
        if self.copies.is_owed {
            return !is_blocked(path);
        }
        if is_waiting {
            // There is none, or window, pacer or amplification limit interrupt it.
            return false;
        }
        let Underway { keys, spaces, recovery } = *underway;
        let is_wanted = self.wants_copies(spaces);
        let flight = self.copies.end_flight();
        let (window, rtt) =
            recovery.path(path.id).map_or((0, None), |known| (known.window(), Some(known.rtt().smoothed)));
        let fits = recovery.bytes_in_flight(path.id).saturating_add(flight.bytes) <= window;
        let is_probing = self.owed.iter().any(|owed| owed.packets > 0);
        if !is_wanted || !fits || !flight.may_be_copied || is_probing {
            return false;
        }
        for space in SpaceId::ALL {
            let numbers = || flight.packets.iter().filter(|(of, _)| *of == space).map(|(_, number)| *number);
            if let Some((first, last)) = numbers().min().zip(numbers().max())
                && keys.local(space).is_some()
            {
                let packets = u8::try_from(numbers().count()).unwrap_or(u8::MAX);
                self.owed[space] = Owed { packets, numbers: first..last + 1 };
            }
        }
        self.copies.owe(flight.datagrams);
        // A peer that sends its flight twice as well has not asked for ours again.
        self.probing.owe_copies(flight.datagrams, now + rtt.unwrap_or_default());
        !is_blocked(path)
    }

    /// The copies that were owed found nothing to repeat: it was acknowledged, or its keys are gone.
    pub fn forgo_copies(&mut self, path: &Path) {
        if !is_blocked(path) {
            self.settle();
        }
    }

    /// Whether the last data of a transfer leave twice.
    pub fn copies_tails(&self) -> bool {
        self.policy.tail != TailPolicy::Once
    }

    /// Makes up to `most` datagrams' worth of the tail due once more, where nothing else is left to send on `path`;
    /// `next` is the number of the next packet. Returns whether there is something to copy: [`Self::on_tail`] is to
    /// follow once it has left.
    pub fn owe_tail(
        &mut self,
        now: Instant,
        path: &Path,
        most: usize,
        next: u64,
        recovery: &mut Recovery<Box<SentFrames>>,
        streams: &mut Streams,
    ) -> bool {
        let Some(known) = recovery.path(path.id).filter(|known| known.stats().packets_lost > 0) else { return false };
        let Some(rate) = known.delivery_rate() else { return false };
        let holds = rate.bytes_in(known.rtt().min);
        let size = u64::from(known.datagram_size());
        let Budget::Now(room) = recovery.budget(now, path.id) else { return false };
        let space = path.space();
        let at = self.tails.iter().position(|(of, _)| SpaceId::Data(*of) == space);
        let at = at.unwrap_or_else(|| {
            self.tails.push((path.key().space(), Tail::default()));
            self.tails.len() - 1
        });
        let (_, tail) = &mut self.tails[at];
        tail.begin(streams.data_sent(), next);
        let count = (room.min(holds.saturating_sub(tail.spent)) / size.max(1)).min(most as u64);
        self.is_copying = count > 0 && tail.mark(count as usize, space, next, recovery, streams);
        self.is_copying
    }

    /// Makes up to `most` datagrams' worth of what the paths `others` have under way due once more, for `path` to
    /// carry. Returns whether there is something to copy: [`Self::on_copied`] is to follow once it has left.
    pub fn owe_across(
        &mut self,
        now: Instant,
        path: &Path,
        (worth, most): (Worth, usize),
        others: &[DataSpace],
        recovery: &mut Recovery<Box<SentFrames>>,
        streams: &mut Streams,
    ) -> bool {
        let Budget::Now(room) = recovery.budget(now, path.id) else { return false };
        let size = recovery.path(path.id).map_or(1, |known| u64::from(known.datagram_size().max(1)));
        let count = usize::try_from(room / size).unwrap_or(usize::MAX).clamp(1, most.max(1));
        self.is_copying = self.across.mark(now, (path.key().space(), worth, count), others, recovery, streams);
        self.is_copying
    }

    /// What was made due has left as copies.
    pub fn on_copied(&mut self) {
        self.is_copying = false;
    }

    /// So many bytes of the tail on `path` have left as copies.
    pub fn on_tail(&mut self, path: &Path, bytes: usize) {
        self.is_copying = false;
        if let Some((_, tail)) = self.tails.iter_mut().find(|(of, _)| *of == path.key().space()) {
            tail.spent = tail.spent.saturating_add(bytes as u64);
        }
    }

    /// Whether everything in the packets that leave now is in another packet that may still arrive.
    pub fn is_copying(&self) -> bool {
        self.is_copying
    }

    /// Nothing is owed any more.
    fn settle(&mut self) {
        self.owed.iter_mut().for_each(|owed| owed.packets = 0);
        self.copies.is_owed = false;
    }
}

/// The peer's next datagram is waited for: nothing may leave.
fn is_blocked(path: &Path) -> bool {
    path.amplification_budget() < u64::from(MIN_INITIAL)
}
