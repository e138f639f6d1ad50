//! Loss episodes: the reduction of the window that a loss belongs to, the end of its recovery period, and its undoing.
//!
//! What an acknowledgment reports about that differs between QUIC and a transport that numbers bytes (see
//! [`Profile`](crate::Profile)). Where that matters to a path, the profile is asked here.

#[cfg(feature = "study")]
mod few;

use smallvec::SmallVec;
use thalweg_units::Duration;

use super::stats::RepairStats;
use super::tally::Tally;
use crate::congestion::{CongestionEvent, Decrease};
use crate::loss::Thresholds;
use crate::policies::UndoPolicy;
use crate::profile::{EpisodeEnd, Flight, Profile, SafeAck, TimeoutMeaning};
use crate::sent::Transmission;
use crate::trace::CongestionCause;
use crate::undo::{self, Episodes, NO_EPISODE, Period};

/// The reductions of one path and their recovery periods.
#[derive(Debug)]
pub(super) struct Episode {
    profile: Profile,
    sequence: Sequence,
    /// The number of the latest reduction.
    number: u32,
    /// The current or last recovery period.
    period: Period,
    /// No packet sent since the period began has been acknowledged yet.
    pub(super) in_recovery: bool,
    /// One packet may leave above the window, to repair the loss that began the recovery period (RFC 9002 section
    /// 7.3.2).
    pub(super) repair_packet: bool,
    /// A loss is being repaired, and how that ends has not been counted yet.
    pub(super) is_repairing: bool,
    /// How repairs began and ended so far.
    pub(super) repairs: RepairStats,
    /// What can still be taken back; `None` when nothing ever is.
    undo: Option<Episodes>,
    /// The latest reduction, where few losses take it back.
    #[cfg(feature = "study")]
    pub(super) few: few::Few,
}

/// Where a transport that numbers bytes is in its sequence space.
#[derive(Clone, Debug, Default)]
struct Sequence {
    /// SND.UNA: the first byte that is not acknowledged cumulatively.
    una: u64,
    /// SND.NXT: the byte after the last that was ever sent.
    next: u64,
    /// What SND.UNA has to reach for the episode under way to end.
    recovery_point: Option<u64>,
    /// What SND.UNA has to exceed for that: a mark began the episode, and the first byte beyond the point carries the
    /// answer to it (CWR). Until the peer has that it repeats the mark.
    is_marked: bool,
    /// What the latest reductions began from, oldest first.
    before: SmallVec<[Before; undo::DEPTH]>,
    /// The ACK being processed advances SND.UNA, and no fast recovery was under way when it arrived; where the profile
    /// reduces once, none is now.
    opens_window: bool,
    /// SND.NXT - SND.UNA before the ACK being processed.
    prior_flight: u64,
}

/// What a reduction began from, to return to if it is taken back.
#[derive(Copy, Clone, Debug)]
struct Before {
    episode: u32,
    recovery_point: Option<u64>,
    in_recovery: bool,
}

impl Episode {
    pub(super) fn new(profile: Profile, policy: UndoPolicy) -> Episode {
        Episode {
            profile,
            sequence: Sequence::default(),
            number: NO_EPISODE,
            period: Period::default(),
            in_recovery: false,
            repair_packet: false,
            is_repairing: false,
            repairs: RepairStats::default(),
            undo: (policy == UndoPolicy::Episode).then(Episodes::default),
            #[cfg(feature = "study")]
            few: few::Few::new(policy),
        }
    }

    pub(super) fn profile(&self) -> Profile {
        self.profile
    }

    /// Whether reductions are taken back from now on.
    pub(super) fn set_undo(&mut self, policy: UndoPolicy) {
        let previous = self.undo.take();
        self.undo = (policy == UndoPolicy::Episode).then(|| previous.unwrap_or_default());
        #[cfg(feature = "study")]
        self.few.set(policy);
    }

    /// The reduction that losses belong to now.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// An ACK is about to be processed.
    pub(super) fn on_ack_begins(&mut self) {
        self.sequence.opens_window = false;
        self.sequence.prior_flight = self.sequence.next - self.sequence.una;
    }

    /// What makes a packet lost: `thresholds`, as far as the transport goes by them.
    pub(super) fn limit(&self, mut thresholds: Thresholds) -> Thresholds {
        if !self.profile.has_time_threshold && thresholds.packets.is_some() {
            thresholds.time = Duration::MAX;
        }
        thresholds
    }

    /// A packet in flight or out of it was acknowledged. Answers whether its delivery may open the window.
    pub(super) fn on_acked(&mut self, sent: &Transmission, tally: &mut Tally) -> bool {
        match self.profile.episode_end {
            EpisodeEnd::FirstDelivery => {
                let is_since = sent.order > self.period.closed;
                #[cfg(feature = "study")]
                self.few.on_acked(is_since && sent.in_flight);
                self.in_recovery &= !is_since;
                tally.is_fresh |= is_since && sent.in_flight && self.profile.safe_ack == SafeAck::SentSince;
                is_since && sent.in_flight
            }
            EpisodeEnd::RecoveryPoint => self.sequence.opens_window,
        }
    }

    /// Whether what happened to the packet at this place has been responded to already: it was sent before the latest
    /// reduction (RFC 9002 section 7.3.2). What was sent since then was sent into the reduced window; its loss says
    /// that the reduction did not suffice (RFC 5681 section 4.3), but where the profile reduces once per episode.
    pub(super) fn answers(&self, order: u64) -> bool {
        order <= self.period.answered || self.profile.reduces_once && self.in_recovery && self.is_open()
    }

    /// A reduction begins after `sent` packets.
    pub(super) fn begin(&mut self, cause: CongestionCause, decrease: Decrease, sent: u64) -> CongestionEvent {
        self.number += 1;
        #[cfg(feature = "study")]
        self.few.begin(cause == CongestionCause::Loss, self.number, self.period);
        if let Some(undo) = &mut self.undo {
            match cause {
                CongestionCause::Loss => undo.begin(self.number, self.period),
                CongestionCause::Ecn => undo.justify_all(),
            }
        }
        self.period = Period::after(sent);
        self.sequence.begin(self.number, self.in_recovery, cause == CongestionCause::Ecn);
        self.in_recovery = true;
        self.repair_packet = cause == CongestionCause::Loss;
        CongestionEvent { cause, episode: self.number, decrease }
    }

    /// A reduction in proportion to marks begins. It is no recovery period: it answers no loss, nothing waits for its
    /// end, and it cannot be taken back.
    pub(super) fn begin_in_proportion(&mut self, share: u32) -> CongestionEvent {
        self.number += 1;
        self.justify_all();
        CongestionEvent { cause: CongestionCause::Ecn, episode: self.number, decrease: Decrease::Share(share) }
    }

    /// A loss belongs to the latest reduction.
    pub(super) fn on_lost(&mut self) {
        // What a mark began goes on as the repair of a loss, and ends at the same point (Linux: `high_seq`). What left
        // after the mark and is lost too reduces the window once more, then.
        self.sequence.is_marked &= !(self.profile.reduces_once && self.is_open());
        if let Some(undo) = &mut self.undo {
            undo.on_lost(self.number);
        }
        #[cfg(feature = "study")]
        self.few.on_lost();
    }

    /// A packet whose loss belongs to a reduction was acknowledged after all.
    pub(super) fn on_late_ack(&mut self, episode: u32) {
        if let Some(undo) = &mut self.undo {
            undo.on_late_ack(episode);
        }
        #[cfg(feature = "study")]
        self.few.on_late_ack();
    }

    /// A packet whose loss belongs to a reduction will never be proven to have arrived.
    pub(super) fn justify(&mut self, episode: u32) {
        if let Some(undo) = &mut self.undo {
            undo.justify(episode);
        }
    }

    /// The path itself confirms every reduction so far.
    pub(super) fn justify_all(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.justify_all();
        }
    }

    /// Persistent congestion was established after `sent` packets.
    ///
    /// RFC 9002 appendix B.8 forgets the period, so that all deliveries open the window again. But the window of two
    /// answers whatever was sent before: a straggler among that would lower the threshold to the minimum.
    pub(super) fn collapse(&mut self, sent: u64) -> TimeoutMeaning {
        self.period = Period { answered: sent, closed: 0 };
        self.in_recovery = false;
        self.repair_packet = false;
        self.profile.timeout
    }

    /// The newest reduction that has proven a mistake, if there is one; what it began from is in force again.
    pub(super) fn take_spurious(&mut self) -> Option<u32> {
        let (episode, previous) = self.undo.as_mut().and_then(Episodes::take_spurious)?;
        Some(self.take_back(episode, previous))
    }

    /// The latest reduction, if few losses began it; the window holds so many packets.
    #[cfg(feature = "study")]
    pub(super) fn take_few(&mut self, window_packets: u64) -> Option<u32> {
        let (episode, previous) = self.few.take(window_packets)?;
        Some(self.take_back(episode, previous))
    }

    fn take_back(&mut self, episode: u32, previous: Period) -> u32 {
        self.period = previous;
        self.in_recovery = self.sequence.take_back(episode);
        self.repair_packet = false;
        self.is_repairing = self.in_recovery;
        episode
    }

    /// The flight before the ACK being processed, as a reduction counts it; `in_flight` is the bytes of packets in
    /// flight.
    pub(super) fn prior_flight(&self, in_flight: u64, starts_recovery: bool) -> u64 {
        match self.profile.flight {
            Flight::Outstanding if starts_recovery => self.sequence.prior_flight,
            _ => in_flight,
        }
    }

    /// Whether the response to a congestion is under way, in a transport that numbers bytes.
    pub(super) fn is_open(&self) -> bool {
        self.sequence.recovery_point.is_some()
    }

    /// Everything below `una` is acknowledged cumulatively. To be called before what that acknowledges.
    pub(super) fn on_cumulative_ack(&mut self, una: u64, tally: &mut Tally) {
        let sequence = &mut self.sequence;
        if una > sequence.una {
            sequence.una = una.min(sequence.next);
            sequence.opens_window = !self.in_recovery;
            tally.is_fresh |= self.profile.safe_ack == SafeAck::CumulativeAdvance;
            if sequence.recovery_point.is_some_and(|point| una > point || una == point && !sequence.is_marked) {
                sequence.recovery_point = None;
                self.in_recovery = false;
                self.repair_packet = false;
                // In Linux the ACK that ends an episode opens the window already (`tcp_cong_control`).
                sequence.opens_window |= self.profile.reduces_once;
            }
        }
    }

    /// Everything up to `next` has been sent.
    pub(super) fn on_sequence(&mut self, next: u64) {
        self.sequence.next = self.sequence.next.max(next);
    }

    /// Everything outstanding is lost by a timeout, after `sent` packets. Where that repeats a timeout without any
    /// delivery in between, the threshold stays where it is.
    pub(super) fn on_timeout(&mut self, is_repeated: bool, sent: u64) {
        if is_repeated {
            self.period.answered = sent;
        }
        self.sequence.recovery_point = Some(self.sequence.next);
        self.sequence.is_marked = false;
    }
}

impl Sequence {
    /// The reduction `episode` begins.
    fn begin(&mut self, episode: u32, in_recovery: bool, is_marked: bool) {
        if self.before.len() == undo::DEPTH {
            self.before.remove(0);
        }
        self.before.push(Before { episode, recovery_point: self.recovery_point, in_recovery });
        self.recovery_point = Some(self.next);
        self.is_marked = is_marked;
    }

    /// The reduction `episode` is taken back. Returns whether one before it, whose losses are still being repaired, is
    /// under way again.
    fn take_back(&mut self, episode: u32) -> bool {
        let before = self.before.iter().position(|before| before.episode == episode);
        let before = before.and_then(|index| self.before.drain(index..).next());
        self.recovery_point = before.and_then(|before| before.recovery_point).filter(|point| self.una < *point);
        self.recovery_point.is_some() && before.is_some_and(|before| before.in_recovery)
    }
}
