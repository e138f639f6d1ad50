//! Effects of ACKs and timers on a path.

use thalweg_units::{Duration, Instant};

use super::Path;
use super::recent_losses::MAX_COUNTED;
use crate::congestion::{Arrival, Decrease};
use crate::loss::{PACKET_THRESHOLD, Thresholds};
use crate::rtt::Sample;
use crate::sent::Transmission;
use crate::trace::CongestionCause;
use crate::types::Ecn;
use crate::undo::NO_EPISODE;

impl Path {
    /// A packet that was outstanding is so no longer, whatever became of it.
    pub(crate) fn on_settled(&mut self, now: Instant, sent: &Transmission) {
        self.flight.on_settled(now, sent);
    }

    pub(super) fn touch(&mut self) {
        if !self.tally.touched {
            self.tally.touched = true;
            self.tally.prior_in_flight = self.flight.bytes;
            self.episode.on_ack_begins();
        }
    }

    /// An outstanding packet was acknowledged, `behind` places after the newest that earlier ACKs acknowledged.
    pub(crate) fn on_acked(&mut self, now: Instant, sent: &Transmission, behind: u64) {
        self.touch();
        if behind >= PACKET_THRESHOLD {
            self.reordering.learned.on_reordering();
        }
        self.on_settled(now, sent);
        if sent.in_flight {
            self.recent_losses.on_acked();
        }
        if self.episode.on_acked(sent, &mut self.tally) && self.usage.was_full(sent.order) {
            self.tally.growth += u64::from(sent.size);
        }
        self.on_delivered(now, sent);
    }

    /// The receiver says when packets arrived that the ACK being processed acknowledges; of this one, perhaps.
    pub(crate) fn on_arrival(&mut self, now: Instant, sent: &Transmission, received: Option<Duration>) {
        let is_believed = received.is_none_or(|received| self.receiver_clock.believes(now, sent.time, received));
        if sent.in_flight && is_believed {
            let (is_told, received) = (received.is_some(), received.unwrap_or(Duration::MAX));
            self.tally.arrivals.push(Arrival {
                sent: sent.time,
                order: sent.order,
                begins_burst: sent.begins_burst,
                bytes: u64::from(sent.size),
                received,
                is_told,
            });
        }
    }

    /// A packet of `episode` that had been declared lost was acknowledged: delivered, but it was not in flight and
    /// opens no window.
    pub(crate) fn on_late_ack(&mut self, now: Instant, sent: &Transmission, episode: u32) {
        self.touch();
        self.on_delivered(now, sent);
        self.recent_losses.on_late_ack();
        self.note_spurious(now, sent, episode);
    }

    /// A packet that had been declared lost was so many places behind the newest when it was acknowledged.
    #[cfg(feature = "study")]
    pub(crate) fn on_behind(&mut self, behind: u64) {
        self.reordering.learned.on_behind(behind);
    }

    pub(super) fn note_spurious(&mut self, now: Instant, sent: &Transmission, episode: u32) {
        self.reordering.learned.on_spurious(now, sent.time, &self.rtt);
        self.stats.packets_spurious += 1;
        self.stats.bytes_spurious += u64::from(sent.size);
        self.episode.on_late_ack(episode);
    }

    fn on_delivered(&mut self, now: Instant, sent: &Transmission) {
        let size = u64::from(sent.size);
        self.stats.packets_acked += 1;
        self.stats.bytes_acked += size;
        self.tally.on_delivered(sent);
        if sent.in_flight {
            self.tally.acked += size;
            self.delivery.on_acked(now, sent.delivery, sent.time, size);
        }
    }

    /// An outstanding packet was declared lost. Returns the reduction that its loss belongs to, beginning one if it is
    /// due.
    pub(crate) fn on_lost(&mut self, now: Instant, sent: &Transmission) -> u32 {
        self.touch();
        self.on_settled(now, sent);
        if sent.ecn != Ecn::NotEct {
            self.marking.validation.on_lost();
        }
        if sent.mtu_probe {
            // Not a sign of congestion (RFC 9000 section 14.4).
            self.stats.mtu_probes_lost += 1;
            return NO_EPISODE;
        }
        if !sent.in_flight {
            return NO_EPISODE;
        }
        let size = u64::from(sent.size);
        if self.tally.counted_losses < MAX_COUNTED {
            self.tally.counted_losses += 1;
            self.recent_losses.on_lost();
        }
        self.stats.packets_lost += 1;
        self.stats.bytes_lost += size;
        self.tally.lost += size;
        self.tally.losses.push(sent.delivery.loss(sent, size));
        self.delivery.on_lost(size);
        if !self.episode.answers(sent.order) {
            self.begin_recovery(CongestionCause::Loss, Decrease::AsLoss);
        }
        self.episode.on_lost();
        self.episode.number()
    }

    /// A lost packet will never be proven otherwise.
    pub(crate) fn on_lost_for_good(&mut self, episode: u32) {
        self.episode.justify(episode);
    }

    /// Persistent congestion was established by what is being processed.
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.touch();
        self.tally.persistent_congestion = true;
    }

    /// The next RTT sample is the smallest, whatever was measured before.
    pub(crate) fn restart_min_rtt(&mut self) {
        self.rtt.restart_min_with_next_sample();
    }

    /// An ACK gave an RTT sample.
    pub(crate) fn on_rtt_sample(&mut self, sample: Sample) {
        self.touch();
        self.tally.has_rtt_sample = true;
        self.stats.rtt_samples += 1;
        self.rtt.on_sample(sample);
    }

    /// It came by the path itself and was held back for so long, as the peer says.
    pub(crate) fn on_held_back(&mut self, held: Duration) {
        self.tally.held_back = Some(held);
    }

    pub(super) fn begin_recovery(&mut self, cause: CongestionCause, decrease: Decrease) {
        self.touch();
        self.usage.on_reduction(self.flight.bytes);
        self.tally.congestion = Some(self.episode.begin(cause, decrease, self.stats.packets_sent));
        #[cfg(feature = "study")]
        if self.ssthresh().is_none_or(|threshold| self.window() < threshold) {
            // It ends slow start.
            self.episode.few.keep();
        }
        self.reordering.learned.on_reduction();
        self.stats.congestion_events += 1;
        self.stats.ecn_events += u64::from(cause == CongestionCause::Ecn);
    }

    /// When the newest packet was sent that what is being processed acknowledged.
    pub(crate) fn newest_acked(&self) -> Option<Instant> {
        self.tally.newest_sent()
    }

    /// What makes a packet of this path lost when its packets from the oldest open one to the next to be sent are
    /// `span`.
    pub(crate) fn thresholds(&self, span: u64) -> Thresholds {
        self.episode.limit(self.reordering.thresholds(&self.rtt, span))
    }
}
