//! Totals of the ACK or timeout being processed, for one path.

use thalweg_units::Instant;

use crate::congestion::{Arrival, CongestionEvent, LossSample, Marks, SentSpan};

/// What the ACK or timeout being processed has shown about one path so far. Its lists keep their memory from one to the
/// next.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) touched: bool,
    pub(super) prior_in_flight: u64,
    pub(super) acked: u64,
    /// Of these, in flight until now, sent after the current recovery period began, and in full use of the window.
    pub(super) growth: u64,
    pub(super) lost: u64,
    pub(super) losses: Vec<LossSample>,
    pub(super) arrivals: Vec<Arrival>,
    /// What was said of congestion marks.
    pub(super) marks: Marks,
    pub(super) has_rtt_sample: bool,
    pub(super) congestion: Option<CongestionEvent>,
    pub(super) persistent_congestion: bool,
    /// It shows that repairs get through (SafeACK).
    pub(super) is_fresh: bool,
    /// When the acknowledged packets were sent.
    pub(super) sent: Option<SentSpan>,
    /// The place of the newest of them among all packets of the path; 0 if there is none.
    pub(super) newest_order: u64,
    /// How many of the losses count for whether the path is lossy.
    pub(super) counted_losses: u32,
}

impl Tally {
    /// Puts arrivals into the order of time; the ranges of an ACK descend. The time of some is not reported: the ACK
    /// may have had no room for it, or an ACK that reported it was lost. They arrived before the ACK left, and count as
    /// the last.
    pub(super) fn order_arrivals(&mut self) {
        let told = self.arrivals.iter().filter(|arrival| arrival.is_told).map(|arrival| arrival.received);
        let Some(latest) = told.max() else {
            self.arrivals.clear();
            return;
        };
        for arrival in &mut self.arrivals {
            arrival.received = arrival.received.min(latest);
        }
        self.arrivals.sort_unstable_by_key(|arrival| (arrival.received, !arrival.is_told, arrival.sent));
    }

    /// When the newest of the acknowledged packets was sent.
    pub(super) fn newest_sent(&self) -> Option<Instant> {
        self.sent.map(|span| span.newest)
    }

    /// A packet was acknowledged, sent at this time and at this place among those of the path.
    #[inline]
    pub(super) fn on_delivered(&mut self, sent: Instant, order: u64) {
        let span = self.sent.unwrap_or(SentSpan { oldest: sent, newest: sent });
        self.sent = Some(SentSpan { oldest: span.oldest.min(sent), newest: span.newest.max(sent) });
        self.newest_order = self.newest_order.max(order);
    }

    /// Empties it for the next ACK.
    pub(super) fn clear(&mut self) {
        let (mut losses, mut arrivals) = (core::mem::take(&mut self.losses), core::mem::take(&mut self.arrivals));
        losses.clear();
        arrivals.clear();
        *self = Tally { losses, arrivals, ..Tally::default() };
    }
}
