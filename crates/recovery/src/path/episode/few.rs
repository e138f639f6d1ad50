//! Reductions for few losses, which are taken back whether or not the packets were lost (quiche's CUBIC).
//!
//! quiche takes none back while the application limits the sender, and takes back for a late packet before it looks for
//! losses by the same ACK; here that comes after them.

use crate::policies::UndoPolicy;
use crate::undo::Period;

/// So many losses, or this part of the reduced window if that is more, are not few.
const LEAST: u64 = 2;
const PART: u64 = 5;

/// The latest reduction, if it can be taken back.
#[derive(Clone, Copy, Debug)]
struct Latest {
    number: u32,
    /// The recovery period that was in force before.
    previous: Period,
    /// Packets lost since before it.
    lost: u64,
    /// A packet sent since was acknowledged.
    is_over: bool,
    /// A packet that had been declared lost was acknowledged.
    is_wrong: bool,
}

/// Watches reductions, if the policy is to take them back.
#[derive(Debug)]
pub(in crate::path) struct Few {
    is_on: bool,
    latest: Option<Latest>,
}

impl Few {
    pub(super) fn new(policy: UndoPolicy) -> Few {
        Few { is_on: policy == UndoPolicy::Few, latest: None }
    }

    pub(super) fn set(&mut self, policy: UndoPolicy) {
        self.is_on = policy == UndoPolicy::Few;
        self.latest = self.latest.filter(|_| self.is_on);
    }

    /// A reduction begins, which can be taken back or not.
    pub(super) fn begin(&mut self, can_be: bool, number: u32, previous: Period) {
        let latest = Latest { number, previous, lost: 0, is_over: false, is_wrong: false };
        self.latest = (self.is_on && can_be).then_some(latest);
    }

    /// The latest reduction stays.
    pub(in crate::path) fn keep(&mut self) {
        self.latest = None;
    }

    pub(super) fn on_lost(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.lost += 1;
        }
    }

    /// A packet was acknowledged, sent since the reduction or before.
    pub(super) fn on_acked(&mut self, is_since: bool) {
        if let Some(latest) = &mut self.latest {
            latest.is_over |= is_since;
        }
    }

    /// A packet was acknowledged that had been declared lost.
    pub(super) fn on_late_ack(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.is_wrong = true;
        }
    }

    /// The reduction that is taken back, and the period before it; the window holds so many packets.
    pub(super) fn take(&mut self, window: u64) -> Option<(u32, Period)> {
        let is_few = |latest: &Latest| latest.is_over && latest.lost < (window / PART).max(LEAST);
        let taken = self.latest.filter(|latest| latest.is_wrong || is_few(latest))?;
        self.latest = None;
        Some((taken.number, taken.previous))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken back of a window of 20 packets after so many losses.
    fn taken(can_be: bool, lost: u64, then: impl Fn(&mut Few)) -> bool {
        let mut few = Few::new(UndoPolicy::Few);
        few.begin(can_be, 7, Period::after(5));
        (0..lost).for_each(|_| few.on_lost());
        then(&mut few);
        let taken = few.take(20);
        assert!(taken.is_none_or(|taken| taken == (7, Period::after(5))));
        assert_eq!(few.take(20).filter(|_| taken.is_some()), None, "once");
        taken.is_some()
    }

    #[test]
    fn few_losses_reduce_the_window_for_a_round_trip() {
        assert!(!taken(true, 1, |few| few.on_acked(false)), "not before something sent since is acknowledged");
        assert!(taken(true, 3, |few| few.on_acked(true)));
        assert!(!taken(true, 4, |few| few.on_acked(true)), "a fifth of the window");
        assert!(taken(true, 9, Few::on_late_ack), "one of them was not lost");
        assert!(!taken(false, 1, |few| few.on_acked(true)), "slow start has ended");
    }

    #[test]
    fn of_a_small_window_one_loss_is_few() {
        let mut few = Few::new(UndoPolicy::Few);
        few.begin(true, 1, Period::default());
        few.on_lost();
        few.on_acked(true);
        assert!(few.take(2).is_some());
        few.set(UndoPolicy::Off);
        few.begin(true, 2, Period::default());
        few.on_late_ack();
        assert_eq!(few.take(20), None);
    }
}
