//! Second copies of a transfer's tail (`tail=repeat`).
//!
//! What is lost of the last round trip is known a round trip later, and what is lost of its repair another one later.
//! Nothing else is left to send by then. So once the application has written the end of its streams and all of that has
//! left, window and pacer still let out second copies of what is not acknowledged.
//!
//! - The newest goes first: a copy then saves most of a round trip, while the repair of what is oldest would leave as
//!   soon as the copy. The copies end where they meet the acknowledgments, at half a round trip's worth.
//! - Repairs that leave meanwhile, or later, are copied too: there are few of them, and everything waits for them.
//! - Copies are not copied.
//!
//! All of it is at most what the path holds: the rate at which it delivers, over its smallest round-trip time. Nothing
//! is copied before the connection has lost a packet.

use std::ops::Range;

use thalweg_recovery::{Budget, SpaceId, TailPolicy};
use thalweg_units::Instant;

use super::{Connection, paths::PathKey};
use crate::udp::Transmit;

/// The tail that is under way.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Bytes that had been sent for the first time when it began, all streams: once there are more, it is another tail.
    data_sent: u64,
    /// Numbers of the packets that have had their turn.
    seen: Range<u64>,
    /// Bytes of copies.
    spent: u64,
    /// What leaves now is copies.
    pub(super) is_copying: bool,
}

impl Connection {
    /// Copies of what is not acknowledged, where nothing else is left to send.
    pub(super) fn transmit_tail(
        &mut self,
        now: Instant,
        path: PathKey,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.recovery.policies().tail == TailPolicy::Once || !self.handshake.complete {
            return None;
        }
        // What waits for the peer's credit is still to come.
        if self.wants_data() || self.streams.is_flow_blocked() {
            return None;
        }
        let id = self.paths[path].id;
        let known = self.recovery.path(id)?;
        if known.stats().packets_lost == 0 {
            return None;
        }
        let most = known.delivery_rate()?.bytes_in(known.rtt().min);
        let size = u64::from(known.datagram_size());
        let Budget::Now(room) = self.recovery.budget(now, id) else { return None };
        let data_sent = self.streams.data_sent();
        if self.tail.data_sent != data_sent {
            let next = self.spaces[SpaceId::DATA.index()].numbers.next();
            self.tail = Tail { data_sent, seen: next..next, ..Tail::default() };
        }
        let count = (room.min(most.saturating_sub(self.tail.spent)) / size.max(1)).min(max_segments as u64);
        if count == 0 || !self.mark_copies(count as usize) {
            return None;
        }
        self.tail.is_copying = true;
        let transmit = self.transmit_batch(now, path, max_segments, buf);
        self.tail.is_copying = false;
        let bytes = transmit.as_ref().map_or(0, |transmit| transmit.size as u64);
        self.tail.spent = self.tail.spent.saturating_add(bytes);
        transmit
    }

    /// Makes the contents of about `count` packets due once more, never of more than twice as many. Returns whether
    /// there were any.
    ///
    /// Each number is looked at once per tail, however often this is called.
    fn mark_copies(&mut self, count: usize) -> bool {
        let mut found = 0;
        let next = self.spaces[SpaceId::DATA.index()].numbers.next();
        // Repairs that have left since, among copies.
        while found < count && self.tail.seen.end < next {
            let part = self.tail.seen.end..next.min(self.tail.seen.end + count as u64);
            self.tail.seen.end = part.end;
            found += self.mark_part(part);
        }
        let oldest = self.recovery.outstanding_data(SpaceId::DATA).next().map_or(next, |(number, _)| number);
        while found < count && self.tail.seen.start > oldest {
            let part = self.tail.seen.start.saturating_sub(count as u64)..self.tail.seen.start;
            self.tail.seen.start = part.start;
            found += self.mark_part(part);
        }
        found > 0
    }

    /// The same for the packets with these numbers that are outstanding, no copies themselves, and carry the tail of
    /// streams. Returns how many those are.
    fn mark_part(&mut self, numbers: Range<u64>) -> usize {
        let outstanding = self.recovery.outstanding_data_from(SpaceId::DATA, numbers.start);
        let mut found = 0;
        for (_, sent) in outstanding.take_while(|(number, _)| *number < numbers.end) {
            if !sent.is_copy && self.streams.is_of_finished(&sent.streams) {
                self.streams.on_lost(&sent.streams);
                found += 1;
            }
        }
        found
    }
}
