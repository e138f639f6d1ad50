//! The recent losses of a path: whether its latest packets show it to be lossy.

/// How many of the losses that one ACK or timeout shows count for whether a path is lossy. A crowded path loses a few
/// packets of every small flight; an outage loses a whole flight at once, and says nothing about what follows.
pub(super) const MAX_COUNTED: u32 = 4;

/// What became of the last 32 packets in flight, the newest in the lowest bit: 1 for a packet that was declared lost.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct RecentLosses(u32);

impl RecentLosses {
    /// A packet in flight was acknowledged.
    pub(super) fn on_acked(&mut self) {
        self.0 <<= 1;
    }

    /// A packet in flight was declared lost.
    pub(super) fn on_lost(&mut self) {
        self.0 = self.0 << 1 | 1;
    }

    /// A packet declared lost was acknowledged: one loss less, whichever it was.
    pub(super) fn on_late_ack(&mut self) {
        self.0 &= self.0.saturating_sub(1);
    }

    /// A third of them was lost.
    pub(super) fn is_lossy(self) -> bool {
        3 * self.0.count_ones() >= u32::BITS
    }
}
