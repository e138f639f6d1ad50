//! Totals of the ACK or timeout being processed, for one path.

use thalweg_units::{Duration, Instant};

use crate::congestion::{Arrival, CongestionEvent, LossSample, Marks, SentSpan};
use crate::sent::Transmission;

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
    /// For how long the peer says to have held it back, if it gave a sample and came by the path itself.
    pub(super) held_back: Option<Duration>,
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
        self.arrivals.sort_unstable_by_key(|arrival| (arrival.received, !arrival.is_told, arrival.sent, arrival.order));
    }

    /// When the newest of the acknowledged packets was sent.
    pub(super) fn newest_sent(&self) -> Option<Instant> {
        self.sent.map(|span| span.newest)
    }

    /// A packet was acknowledged.
    #[inline]
    pub(super) fn on_delivered(&mut self, packet: &Transmission) {
        let sent = packet.time;
        let span = self.sent.unwrap_or(SentSpan { oldest: sent, newest: sent });
        // An ACK that left on its own before the data belongs to no train of them.
        let oldest = match packet.in_flight {
            true if self.acked == 0 => sent,
            true => span.oldest.min(sent),
            false => span.oldest,
        };
        self.sent = Some(SentSpan { oldest, newest: span.newest.max(sent) });
        self.newest_order = self.newest_order.max(packet.order);
    }

    /// Empties it for the next ACK.
    pub(super) fn clear(&mut self) {
        let (mut losses, mut arrivals) = (core::mem::take(&mut self.losses), core::mem::take(&mut self.arrivals));
        losses.clear();
        arrivals.clear();
        *self = Tally { losses, arrivals, ..Tally::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    /// When the oldest packet of these was sent: at a time in milliseconds, and whether in flight.
    fn oldest(acked: &[(u64, bool)]) -> Option<Instant> {
        let mut tally = Tally::default();
        for &(sent, in_flight) in acked {
            tally.on_delivered(&Transmission::new(at(sent), 1_200, in_flight));
            tally.acked += if in_flight { 1_200 } else { 0 };
        }
        tally.sent.map(|span| span.oldest)
    }

    #[test]
    fn an_ack_that_left_before_a_train_does_not_begin_it() {
        let train = [(100, true), (100, true), (101, true)];
        for alone in 0..=3 {
            let mut acked = train.to_vec();
            acked.insert(alone, (80, false));
            assert_eq!(oldest(&acked), Some(at(100)), "{acked:?}");
        }
        assert_eq!(oldest(&[(80, false), (90, false)]), Some(at(80)));
        assert_eq!(oldest(&[]), None);
    }
}
