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

use thalweg_recovery::{Recovery, SpaceId};

use crate::{connection::sent::SentFrames, streams::Streams};

/// The tail that is under way.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Bytes that had been sent for the first time when it began, all streams: once there are more, it is another tail.
    data_sent: u64,
    /// Numbers of the packets that have had their turn.
    seen: Range<u64>,
    /// Bytes of copies.
    pub(super) spent: u64,
}

impl Tail {
    /// The application has sent so many bytes, and `next` is the number of the next packet: if those are more bytes
    /// than before, another tail begins.
    pub(super) fn begin(&mut self, data_sent: u64, next: u64) {
        if self.data_sent != data_sent {
            *self = Tail { data_sent, seen: next..next, ..Tail::default() };
        }
    }

    /// Makes the contents of about `count` packets of `space` due once more, never of more than twice as many. Returns
    /// whether there were any.
    ///
    /// Each number is looked at once per tail, however often this is called.
    pub(super) fn mark(
        &mut self,
        count: usize,
        space: SpaceId,
        next: u64,
        recovery: &Recovery<Box<SentFrames>>,
        streams: &mut Streams,
    ) -> bool {
        let mut found = 0;
        // Repairs that have left since, among copies.
        while found < count && self.seen.end < next {
            let part = self.seen.end..next.min(self.seen.end + count as u64);
            self.seen.end = part.end;
            found += mark_part(space, part, recovery, streams);
        }
        let oldest = recovery.outstanding_data(space).next().map_or(next, |(number, _)| number);
        while found < count && self.seen.start > oldest {
            let part = self.seen.start.saturating_sub(count as u64)..self.seen.start;
            self.seen.start = part.start;
            found += mark_part(space, part, recovery, streams);
        }
        found > 0
    }
}

/// The same for the packets with these numbers that are outstanding, no copies themselves, and carry the tail of
/// streams. Returns how many those are.
fn mark_part(
    space: SpaceId,
    numbers: Range<u64>,
    recovery: &Recovery<Box<SentFrames>>,
    streams: &mut Streams,
) -> usize {
    let outstanding = recovery.outstanding_data_from(space, numbers.start);
    let mut found = 0;
    for (_, sent) in outstanding.take_while(|(number, _)| *number < numbers.end) {
        if !sent.is_copy && streams.is_of_finished(&sent.streams) {
            streams.on_lost(&sent.streams);
            found += 1;
        }
    }
    found
}
