//! Input of a path from TCP: cumulative ACKs, retransmission timeouts, ECE, D-SACK (see [`Profile`](crate::Profile)).

use thalweg_units::Instant;

use super::Path;
use crate::congestion::Decrease;
use crate::sent::Transmission;
use crate::trace::CongestionCause;

impl Path {
    /// Whether the response to a congestion is under way, in a transport that numbers bytes.
    pub(crate) fn is_in_episode(&self) -> bool {
        self.episode.is_open()
    }

    /// Everything below `una` is acknowledged cumulatively. To be called before what that acknowledges.
    pub(crate) fn on_cumulative_ack(&mut self, una: u64) {
        self.touch();
        self.episode.on_cumulative_ack(una, &mut self.tally);
    }

    /// Everything up to `next` has been sent.
    pub(crate) fn on_sequence(&mut self, next: u64) {
        self.episode.on_sequence(next);
    }

    /// Nothing has arrived for so long that everything outstanding is lost; to be called before the losses (RFC 5681
    /// section 3.1).
    ///
    /// Within an episode the threshold falls again only if something is lost that was sent since the latest reduction:
    /// a retransmission, say. Where no delivery has come since the timeout before, the threshold stays where it is.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.touch();
        let is_repeated = self.backoff.count > 0;
        self.backoff.on_timeout(now);
        if !self.episode.is_open() {
            self.begin_recovery(CongestionCause::Loss, Decrease::AsLoss);
        }
        self.episode.on_timeout(is_repeated, self.stats.packets_sent);
        self.tally.persistent_congestion = true;
    }

    /// The peer reports a congestion mark. One response per episode. To be called after what the ACK delivers.
    pub(crate) fn on_ecn_echo(&mut self, now: Instant) {
        self.touch();
        self.tally.marks.ce += 1;
        self.on_mark(now, self.episode.is_open());
    }

    /// The peer counts the packets that arrive marked (RFC 9768): of `acked` that the ACK being processed delivers,
    /// `marked` were. To be called after what the ACK delivers.
    pub(crate) fn on_ecn_counts(&mut self, now: Instant, acked: u64, marked: u64) {
        self.touch();
        self.on_marks(now, self.tally.newest_order, acked, marked, self.episode.is_open());
    }

    /// A loss showed only through its repair: a tail loss probe delivered what was missing (RFC 8985 section 7.4.2).
    pub(crate) fn on_repaired_loss(&mut self) {
        self.touch();
        if !self.episode.is_open() {
            self.begin_recovery(CongestionCause::Loss, Decrease::AsLoss);
            // There is no packet left whose late arrival could prove it wrong.
            self.episode.justify_all();
        }
    }

    /// Something of `episode` that was sent again had arrived the first time.
    pub(crate) fn on_needless_repeat(&mut self, now: Instant, sent: &Transmission, episode: u32) {
        self.touch();
        self.note_spurious(now, sent, episode);
    }
}
