//! A start that losses have interrupted: whether the path was full, or the start goes on.
//!
//! ```text
//! judged    what was sent from the first lost packet on until its loss was known, once something later has arrived
//! burst     what leaves back to back at the rate of the start
//! accident  no mark came, and
//!           no sample of two round trips or since exceeds the smallest by more than a quarter of it and 2 ms,
//!           and either at most an eighth of it was lost,
//!           or at most half, in one run and another for every eight packets and every four bursts,
//!           or any share, the first time, of a window of at most eight initial windows
//! growth    what has arrived since the loss was known, in full use of the window, if a sixteenth or less was lost
//! ```
//!
//! Slow start that meets the end of a path sends twice what the path carries until the first loss is known. A round
//! trip of that loses nearly every second packet, a run from every burst, unless there is a queue, and then the queue
//! shows in the round trip. Losses that are fewer, or that follow each other, are those of chance, or of a burst that
//! was longer than a short queue: both say nothing of what the path carries. A start that they end can be at a
//! fortieth of it, and what follows it takes hundreds of round trips to find that out.
//!
//! A queue that is shorter than the first bursts cuts more than half of each, and what is lost of a small window looks
//! like that of a full path. Packets that leave evenly tell: a start that has opened little gets one more try.
//!
//! The window is reduced as for any loss (RFC 9002 section 7.3.2), for the round trip that it takes to judge. A start
//! that goes on sends evenly, since a burst may have been the cause. It goes on sixteen times at most.
//!
//! Where packets are lost by chance, each round trip of a large window brings the next loss. So slow start makes up for
//! the round trip that judging took (RFC 9002 section 7.3.1), unless losses are those of a queue that was too short for
//! several starts at once.
//!
//! What it cannot know: a window that exceeds what a path without a queue carries by less than an eighth loses as few
//! packets as chance takes. Then the start goes on for one more round trip, and loses as much as a start does that has
//! met the end of the path. A small path without a queue is overrun twice by such a start.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | few | 1/8 | less ends starts on paths that lose several per cent; more goes on past the end of a path |
//! | half | 1/2 | less ends starts whose first burst a queue of a few packets cut short; more takes every loss for a burst |
//! | early | 8 initial windows | less ends starts behind a queue of a few packets at a fraction of the path; more overruns policers twice |
//! | little | 1/16 | less leaves paths that lose several per cent to small steps; more fills short queues of several starts |
//! | packets and bursts per run | 8 and 4 | fewer go on behind a policer; more end starts whose bursts meet a short queue |
//! | wait | 1/4 and 2 ms | more goes on into a queue; less takes bursts of its own for one |
//! | accidents | 16 | fewer end starts of long paths that lose several per cent; more only bounds what a peer can ask for |

use thalweg_units::{Duration, Instant};

use super::Snapshot;
use crate::congestion::queue_signs::QueueSigns;
use crate::congestion::{AckEvent, LossRuns};

/// A full path loses more than one byte in so many …
const FEW_DIVISOR: u64 = 8;
/// … and if a burst was cut short, less than one in so many …
const HALF_DIVISOR: u64 = 2;
/// … in one run of packets, and one more for so many packets …
const PACKETS_PER_RUN: u64 = 8;
/// … and so many bursts. Or its queue shows ([`QueueSigns`]).
const BURSTS_PER_RUN: u64 = 4;
/// A window of at most so many initial windows has opened little.
pub(super) const EARLY_WINDOWS: u64 = 8;
/// What has arrived opens the window if one byte in so many was lost, or less.
const LITTLE_DIVISOR: u64 = 16;
/// How often a start goes on.
pub(super) const MOST_ACCIDENTS: u8 = 16;

/// The longest samples of this round trip and of the one before.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Longest {
    now: Duration,
    before: Duration,
}

impl Longest {
    /// An ACK arrived while the start was under way.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>) {
        if event.round.started {
            *self = Longest { now: Duration::ZERO, before: self.now };
        }
        // The first sample has the time in it that the peer took for its part of the handshake.
        if event.has_rtt_sample && event.round.count > 1 {
            self.now = self.now.max(event.rtt.adjusted);
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Interruption {
    /// What the loss has changed.
    pub(super) before: Snapshot,
    /// When the loss was known: what was sent by then is judged.
    until: Instant,
    /// Bytes that were to be delivered before anything of that was.
    preceding: u64,
    lost: u64,
    /// Bytes that have arrived in full use of the window since the loss was known.
    arrived: u64,
    /// Losses that did not follow each other.
    runs: u64,
    loss_runs: LossRuns,
    signs: QueueSigns,
    departures: Departures,
}

/// How packets left before the loss.
#[derive(Copy, Clone, Debug)]
pub(super) struct Departures {
    /// Bytes of a datagram, and of a burst.
    pub(super) datagram: u64,
    pub(super) burst: u64,
    /// Whether the loss is the first one, of a window of at most [`EARLY_WINDOWS`].
    pub(super) is_early: bool,
}

impl Interruption {
    /// By the losses of `event`.
    pub(super) fn new(before: Snapshot, longest: Longest, event: &AckEvent<'_>, departures: Departures) -> Self {
        let first = event.losses.first();
        let mut interruption = Interruption {
            before,
            until: event.now,
            preceding: first.map_or(event.delivered, |loss| {
                loss.delivered.saturating_add(loss.in_flight.saturating_sub(loss.bytes))
            }),
            lost: 0,
            arrived: 0,
            runs: 0,
            loss_runs: LossRuns::default(),
            signs: QueueSigns::with_longest(longest.now.max(longest.before)),
            departures,
        };
        interruption.count(event);
        interruption
    }

    /// Counts what `event` reports.
    pub(super) fn count(&mut self, event: &AckEvent<'_>) {
        for loss in event.losses.iter().filter(|loss| loss.sent <= self.until) {
            self.lost += loss.bytes;
            self.runs += u64::from(self.loss_runs.begins(loss));
        }
        if !event.application_limited {
            self.arrived = self.arrived.saturating_add(event.acked);
        }
        self.signs.take_in(event);
    }

    /// Whether something was acknowledged that was sent later, or nothing is left. Losses among the last packets may
    /// not be known yet, but those among later ones are about to be, and call for a reduction of their own.
    pub(super) fn is_over(&self, event: &AckEvent<'_>) -> bool {
        event.newest_sent().is_some_and(|sent| sent > self.until || event.bytes_in_flight == 0)
    }

    /// Whether the path was not full.
    pub(super) fn is_accident(&self, event: &AckEvent<'_>) -> bool {
        let arrived = event.delivered.saturating_sub(self.preceding);
        let all = arrived.saturating_add(self.lost);
        let Departures { datagram, burst, is_early } = self.departures;
        let per_run = (PACKETS_PER_RUN * datagram).max(BURSTS_PER_RUN * burst).max(1);
        let is_burst = self.lost <= all / HALF_DIVISOR && self.runs <= 1 + all / per_run;
        !self.signs.show_queue(event.rtt.min) && (self.lost <= all / FEW_DIVISOR || is_burst || is_early)
    }

    /// By how many bytes slow start opens the window meanwhile. At most doubles it.
    pub(super) fn growth(&self) -> u64 {
        if self.lost <= self.arrived / LITTLE_DIVISOR { self.arrived.min(self.before.window) } else { 0 }
    }
}

#[cfg(test)]
mod tests;
