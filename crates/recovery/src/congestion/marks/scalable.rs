//! The scalable response: the window follows the share of packets that arrive marked (RFC 8257, RFC 9331 section 4).
//!
//! Packets are ECT(1), and the window falls by half of the smoothed share of marked packets (RFC 8257 section 3.3):
//!
//! ```text
//! once per round trip:                    alpha = alpha × 15/16 + (marked / acknowledged) / 16
//! a mark, at most once per round trip:    window = window × (1 - alpha / 2)
//! after the first of these reductions:    alpha = 1/5
//! ```
//!
//! Until the first mark alpha is 1 and stays there, so that the mark that ends slow start nearly halves the window: a
//! path without such a queue says nothing about what the share will be. RFC 8257 lets alpha fall from the first round
//! trip on. The half takes back what the doubling has added. From there on packets leave at 5/4 of a window per round
//! trip. When that first exceeds the link, one packet in five is too much; at 1 alpha would take sixteen round trips
//! to fall to a third, and each mark in them take up to half of the window. The window grows by a quarter per round
//! trip until the second mark, and then as configured.
//!
//! Packets leave evenly ([`Allowance::even`](crate::Allowance::even)), also in the first flight if the handshake has
//! measured the round trip: a queue that marks from 0.8 ms on marks what leaves in a burst, however small the load is.
//!
//! A loss is answered as without marks (section 3.5). Of what RFC 9331 section 4.3 asks of a scalable sender,
//! a response that does not depend on the round trip and the detection of queues that mark ECT(1) like ECT(0) are not
//! built: do not use the policy on the Internet.

use thalweg_units::math;

use super::{Mark, MarkAction, MarkCounts, MarkResponse};
use crate::congestion::{Decrease, MARKED_ALL};

/// A new share of marked packets weighs `2^-4` (g = 1/16, RFC 8257 section 3.3): less weight follows a changing load
/// more slowly, more weight makes the window follow single marks.
const GAIN_SHIFT: u32 = 4;

/// What the share starts over from when it has ended the first start, in parts of [`MARKED_ALL`]: what 5/4 of a window
/// per round trip is too much by, of 5/4.
const AFTER_START: u32 = MARKED_ALL / 5;

/// The smoothed share of packets that arrive marked.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Scalable {
    /// In units of 1 / [`MARKED_ALL`].
    alpha: u64,
    /// Packets acknowledged and marked in the round trip under way.
    acked: u64,
    marked: u64,
    /// A mark has arrived: alpha is kept.
    is_kept: bool,
    /// The newest packet that was sent when the round trip began, by place.
    round_ends: u64,
    /// The newest packet that was sent at the latest reduction, by place.
    answered: u64,
}

impl Default for Scalable {
    fn default() -> Scalable {
        Scalable { alpha: MARKED_ALL.into(), acked: 0, marked: 0, is_kept: false, round_ends: 0, answered: 0 }
    }
}

impl Scalable {
    /// An ACK delivered `acked` packets, of which `marked` were marked; the newest had the place `order` among those
    /// `sent` so far. Answers the share by which the window is to be reduced, if it is.
    fn on_ack(&mut self, order: u64, sent: u64, acked: u64, marked: u64) -> Option<u32> {
        self.acked += acked;
        self.marked += marked;
        self.is_kept |= marked > 0;
        if order > self.round_ends {
            self.end_round(sent);
        }
        if marked == 0 || order <= self.answered {
            return None;
        }
        let is_first = self.answered == 0;
        self.answered = sent;
        let share = u32::try_from(self.alpha).ok();
        if is_first {
            self.alpha = AFTER_START.into();
        }
        share
    }

    fn end_round(&mut self, sent: u64) {
        if self.is_kept && self.acked > 0 {
            let now = math::mul_div(self.marked.min(self.acked), MARKED_ALL.into(), self.acked);
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (now >> GAIN_SHIFT);
        }
        (self.acked, self.marked, self.round_ends) = (0, 0, sent);
    }
}

impl MarkResponse for Scalable {
    /// Without counts there is no share: an echo is answered as a loss.
    fn on_mark(&mut self, _mark: Mark) -> MarkAction {
        MarkAction::Reduce(Decrease::AsLoss)
    }

    fn goes_by_share(&self) -> bool {
        true
    }

    fn on_counts(&mut self, counts: MarkCounts) -> MarkAction {
        let share = self.on_ack(counts.order, counts.sent, counts.acked, counts.marked);
        share.map_or(MarkAction::Ignore, |share| MarkAction::Reduce(Decrease::Share(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share in thousandths.
    fn thousandths(share: &Scalable) -> u64 {
        (share.alpha * 1_000 + u64::from(MARKED_ALL / 2)) / u64::from(MARKED_ALL)
    }

    #[test]
    fn rfc8257_3_3_the_share_is_smoothed_by_a_sixteenth_once_per_round_trip() {
        let mut share = Scalable::default();
        // Ten packets per round trip, acknowledged one by one: nine others are on the way when an ACK arrives.
        let round = |share: &mut Scalable, number: u64, marked: u64| {
            let mut cuts = 0;
            for packet in 1..=10 {
                let order = number * 10 + packet;
                cuts += u32::from(share.on_ack(order, order + 9, 1, u64::from(packet <= marked)).is_some());
            }
            cuts
        };
        // Nothing is known before the first mark.
        for number in 0..5 {
            assert_eq!((round(&mut share, number, 0), thousandths(&share)), (0, 1_000));
        }
        // Each round trip with marks reduces once. After the first reduction the share starts over: the next round trip
        // has five marks among ten, 1/5 × 15/16 + 1/32.
        assert_eq!(round(&mut share, 5, 5), 1);
        assert_eq!(thousandths(&share), 200);
        assert_eq!(round(&mut share, 6, 5), 1);
        assert_eq!(thousandths(&share), 219);
        for number in 7..200 {
            assert_eq!(round(&mut share, number, 5), 1, "round trip {number}");
        }
        assert_eq!(thousandths(&share), 500);
        // Without marks it dies away, and nothing is reduced.
        for number in 200..216 {
            assert_eq!(round(&mut share, number, 0), 0);
        }
        assert!((170..200).contains(&thousandths(&share)), "0.5 × (15/16)^16 is 0.178: {}", thousandths(&share));
    }

    #[test]
    fn more_marks_than_acknowledgments_are_all_of_them() {
        let mut share = Scalable::default();
        assert_eq!(share.on_ack(1, 10, 1, 40), Some(MARKED_ALL));
        assert_eq!(share.on_ack(5, 20, 2, 40), None, "once per round trip");
        share.on_ack(11, 30, 0, 0);
        assert_eq!(thousandths(&share), 250, "1/5 × 15/16 + 1/16");
    }
}
