//! A path under a transport that numbers bytes: what its cumulative ACKs, timeouts and reports mean (see [`Profile`](crate::Profile)).

use smallvec::SmallVec;
use thalweg_units::Instant;

use super::Path;
use crate::profile::SafeAck;
use crate::trace::CongestionCause;
use crate::undo;

/// Where a transport that numbers bytes is in its sequence space.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// SND.UNA: the first byte that is not acknowledged cumulatively.
    pub(super) una: u64,
    /// SND.NXT: the byte after the last that was ever sent.
    pub(super) next: u64,
    /// What SND.UNA has to reach for the episode under way to end.
    pub(super) recovery_point: Option<u64>,
    /// What the latest reductions began from, oldest first.
    before: SmallVec<[Before; undo::DEPTH]>,
    /// The ACK being processed advances SND.UNA, and no fast recovery was under way when it arrived.
    pub(super) opens_window: bool,
    /// SND.NXT - SND.UNA before the ACK being processed.
    pub(super) prior_flight: u64,
}

/// What a reduction began from, to return to if it is taken back.
#[derive(Copy, Clone, Debug)]
struct Before {
    episode: u32,
    recovery_point: Option<u64>,
    in_recovery: bool,
}

impl Path {
    /// The reduction `episode` begins.
    pub(super) fn begin_episode(&mut self, episode: u32) {
        let in_recovery = self.in_recovery;
        let sequence = &mut self.sequence;
        if sequence.before.len() == undo::DEPTH {
            sequence.before.remove(0);
        }
        sequence.before.push(Before { episode, recovery_point: sequence.recovery_point, in_recovery });
        sequence.recovery_point = Some(sequence.next);
    }

    /// The reduction `episode` is taken back. Returns whether one before it, whose losses are still being repaired, is
    /// under way again.
    pub(super) fn take_back_episode(&mut self, episode: u32) -> bool {
        let sequence = &mut self.sequence;
        let before = sequence.before.iter().position(|before| before.episode == episode);
        let before = before.and_then(|index| sequence.before.drain(index..).next());
        sequence.recovery_point = before.and_then(|before| before.recovery_point).filter(|point| sequence.una < *point);
        sequence.recovery_point.is_some() && before.is_some_and(|before| before.in_recovery)
    }

    /// Whether the response to a congestion is under way, in a transport that numbers bytes.
    pub(crate) fn is_in_episode(&self) -> bool {
        self.sequence.recovery_point.is_some()
    }

    /// Everything below `una` is acknowledged cumulatively. To be told before what that acknowledges.
    pub(crate) fn on_cumulative_ack(&mut self, una: u64) {
        self.touch();
        let sequence = &mut self.sequence;
        if una > sequence.una {
            sequence.una = una.min(sequence.next);
            sequence.opens_window = !self.in_recovery;
            self.tally.is_fresh |= self.profile.safe_ack == SafeAck::CumulativeAdvance;
            if sequence.recovery_point.is_some_and(|point| una >= point) {
                sequence.recovery_point = None;
                self.in_recovery = false;
                self.repair_packet = false;
            }
        }
    }

    /// Everything up to `next` has been sent.
    pub(crate) fn on_sequence(&mut self, next: u64) {
        self.sequence.next = self.sequence.next.max(next);
    }

    /// Nothing has been heard for so long that everything outstanding is lost; to be told before the losses (RFC 5681 section 3.1).
    ///
    /// Within an episode the threshold falls again only if something is lost that was sent since the latest reduction:
    /// a retransmission, say. Where `is_repeated`, no delivery has come since the timeout before, and the threshold
    /// stays where it is.
    pub(crate) fn on_timeout(&mut self, is_repeated: bool) {
        self.touch();
        if self.sequence.recovery_point.is_none() {
            self.begin_recovery(CongestionCause::Loss);
        }
        if is_repeated {
            self.period.answered = self.stats.packets_sent;
        }
        self.sequence.recovery_point = Some(self.sequence.next);
        self.tally.persistent_congestion = true;
    }

    /// The peer reports a congestion mark. One response per episode.
    pub(crate) fn on_ecn_echo(&mut self) {
        self.touch();
        if self.sequence.recovery_point.is_none() {
            self.begin_recovery(CongestionCause::Ecn);
        } else if let Some(episodes) = &mut self.episodes {
            episodes.justify_all();
        }
    }

    /// A loss showed only through its repair: a tail loss probe delivered what was missing (RFC 8985 section 7.4.2).
    pub(crate) fn on_repaired_loss(&mut self) {
        self.touch();
        if self.sequence.recovery_point.is_none() {
            self.begin_recovery(CongestionCause::Loss);
            // There is no packet left whose late arrival could prove it wrong.
            if let Some(episodes) = &mut self.episodes {
                episodes.justify_all();
            }
        }
    }

    /// Something of `episode` that was sent again had arrived the first time; it was first sent at `sent`.
    pub(crate) fn on_needless_repeat(&mut self, now: Instant, sent: Instant, size: u32, episode: u32) {
        self.touch();
        self.reordering.on_spurious(now, sent, &self.rtt);
        self.stats.packets_spurious += 1;
        self.stats.bytes_spurious += u64::from(size);
        if let Some(episodes) = &mut self.episodes {
            episodes.on_late_ack(episode);
        }
    }
}
