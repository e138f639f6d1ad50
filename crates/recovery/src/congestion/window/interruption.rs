//! A start that losses have interrupted: whether the path was full, or the start goes on.
//!
//! ```text
//! judged    what was in flight at the loss, once it is acknowledged or lost
//! accident  more than half of it arrived, and
//!           losses followed each other: at most one run, and another for every eight packets, and
//!           no sample was longer than the smallest round trip by more than a quarter of it and 2 ms
//! ```
//!
//! Slow start that meets the end of a path sends twice what the path carries until the first loss is known. A round trip
//! of that loses nearly every second packet, in many short runs, unless there is a queue, and then the queue shows in
//! the round trip. Losses that are fewer, or that follow each other, are those of chance, or of a burst that was longer
//! than a short queue: both say nothing of what the path carries. A start that they end can be at a fortieth of it, and
//! what follows it takes hundreds of round trips to find that out.
//!
//! The window is reduced as for any loss (RFC 9002 section 7.3.2), for the one round trip that it takes to judge.
//!
//! What it cannot know: a window that is larger than what a path without a queue carries by less than an eighth loses
//! as few packets as chance takes. Then the start goes on for one more round trip, and loses as much as a start does
//! that has met the end of the path.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | share lost | 1/2 | less ends starts whose first burst a queue of a few packets cut short |
//! | packets per run | 8 | fewer go on behind a policer; more end the start on paths that lose one packet in ten |
//! | wait | 1/4 and 2 ms | more goes on into a queue; less takes bursts of its own for one |

use thalweg_units::{Duration, Instant};

use super::Snapshot;
use crate::congestion::AckEvent;

/// A full path loses more than one byte in so many.
const LOST_DIVISOR: u64 = 2;
/// And one run of packets in so many packets, besides the first.
const PACKETS_PER_RUN: u64 = 8;
/// Or its queue shows: a sample exceeds the smallest round trip by this part of it …
const WAIT_DIVISOR: u32 = 4;
/// … and by this besides, which is jitter.
const JITTER: Duration = Duration::from_millis(2);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Interruption {
    /// What the loss has changed.
    pub(super) before: Snapshot,
    /// Packets sent by then were in flight.
    until: Instant,
    acked: u64,
    lost: u64,
    /// Losses that did not follow each other.
    runs: u64,
    /// Which packet was lost last, by order of sending.
    last_lost: Option<u64>,
    /// The longest sample since.
    longest: Duration,
    /// The peer has reported a mark since.
    is_marked: bool,
}

impl Interruption {
    /// By the losses of `event`.
    pub(super) fn new(before: Snapshot, event: &AckEvent<'_>) -> Interruption {
        let mut interruption = Interruption {
            before,
            until: event.now,
            acked: 0,
            lost: 0,
            runs: 0,
            last_lost: None,
            longest: Duration::ZERO,
            is_marked: false,
        };
        interruption.count(event);
        interruption
    }

    /// Counts what `event` reports.
    pub(super) fn count(&mut self, event: &AckEvent<'_>) {
        self.acked += event.acked;
        self.lost += event.lost;
        for loss in event.losses {
            self.runs += u64::from(self.last_lost.is_none_or(|last| loss.order != last + 1));
            self.last_lost = Some(loss.order);
        }
        if event.has_rtt_sample {
            self.longest = self.longest.max(event.rtt.adjusted);
        }
        self.is_marked |= event.marks.ce > 0;
    }

    /// Whether something was acknowledged that was sent later: then all is known of what was in flight.
    pub(super) fn is_over(&self, event: &AckEvent<'_>) -> bool {
        event.newest_sent().is_some_and(|sent| sent > self.until)
    }

    /// Whether the path was not full.
    pub(super) fn is_accident(&self, event: &AckEvent<'_>, datagram: u64) -> bool {
        let all = self.acked + self.lost;
        let packets = all / datagram.max(1);
        let shortest = event.rtt.min;
        let most = shortest.saturating_add(shortest / WAIT_DIVISOR).saturating_add(JITTER);
        !self.is_marked
            && self.lost <= all / LOST_DIVISOR
            && self.runs <= 1 + packets / PACKETS_PER_RUN
            && self.longest <= most
    }
}

#[cfg(test)]
mod tests;
