//! Repeats owed by a packet-number space: their number, and the packets under way that they repeat.

use std::ops::Range;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Ack-eliciting packets still owed. Those owed to a probe timeout ignore the congestion window.
    pub(super) packets: u8,
    /// What they may repeat next: the outstanding packets with these numbers.
    pub(super) numbers: Range<u64>,
}

impl Owed {
    /// So many packets, which begin with what is oldest; `next` is the number of the next packet.
    pub(super) fn probes(packets: u8, next: u64) -> Owed {
        // Where nothing was sent yet, the second probe repeats the first.
        Owed { packets, numbers: 0..next.max(1) }
    }
}
