//! Regain: CUBIC that comes back within a few round trips from losses that no queue has caused.
//!
//! ```text
//! empty       = RTT ≤ smallest RTT + allowance
//! by chance   = a loss, not a mark, where the queue was empty at least once in each of the last two round trips,
//!               and of the latest packets no more than 2 % were lost
//! allowance   = clamp(smallest RTT / 16, 1 ms, 4 ms)
//! after one, while the queue is empty:
//!   gain      = 3/8 below the largest window that was reduced since a loss with a queue, 1/8 above it
//!   window   += gain × acknowledged, or CUBIC's if that is more
//! congestion: CUBIC's reduction, whatever caused it
//! ```
//!
//! CUBIC takes K, seconds, to come back to a window, so that one loss per some round trips holds it far below what the
//! path carries. A loss while the queue is empty says little about the path. It is answered all the same: the window
//! falls to 0.7. What it says not is how long that has to last. As long as there is no queue, nobody waits for what is
//! sent more.
//!
//! Four things keep that from being taken from others:
//!
//! - **It ends where a queue begins.** Beside a flow that keeps a queue, as CUBIC does where one fits, losses come with
//!   a queue, and this is CUBIC. A path whose round-trip time has grown for good looks like one with a queue.
//! - **It knows a managed queue.** CoDel drops where the shortest wait of 100 ms was above 5 ms, PIE above 15 ms. So a
//!   queue that was empty once per round trip has not been dropped from by either.
//! - **It yields under sustained congestion.** What a round trip adds is less than what a reduction takes:
//!   (1 + 3/8) × 0.7 = 0.96. If every round trip brings a loss, the window falls to its minimum.
//! - **It ends where much is lost.** BBRv3 takes more than 2 % for congestion, and so does this. A queue shorter than
//!   the allowance cannot be told from none; many flows in such a one lose more than that, and go on as CUBIC does.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | gain | 3/8 | less than 1/beta - 1 = 3/7, or the window would not yield; less settles at a smaller window |
//! | gain beyond | 1/8 | more finds new room sooner, and overshoots by so much of the path before that shows |
//! | allowance | 1/16, 1 to 4 ms | more puts up with more jitter, and takes drops of a managed queue for chance |
//! | share of losses | 2 % | `LossThresh` of BBRv3 |
//! | memory of losses | 7/8 per reduction | enough packets for a share of 2 % at a window of fifty |

use thalweg_units::{Duration, Instant};

use super::{Growth, View};
use crate::congestion::AckEvent;
use crate::trace::CongestionCause;

/// What a window of acknowledgments adds, as a share of the window, below the window that was reduced …
const GAIN: (u64, u64) = (3, 8);
/// … and above it.
const GAIN_BEYOND: (u64, u64) = (1, 8);
/// How far above the smallest round-trip time there is no queue: a fraction of it …
const ALLOWANCE_DIVISOR: u32 = 16;
/// … but no less, which is jitter, and no more, which is the queue that CoDel leaves alone.
const LEAST_ALLOWANCE: Duration = Duration::from_millis(1);
const MOST_ALLOWANCE: Duration = Duration::from_millis(4);
/// One in so many bytes may be lost by chance.
const LOSS_DIVISOR: u64 = 50;
/// What a reduction leaves of the memory of losses.
const MEMORY: (u64, u64) = (7, 8);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Regain {
    /// What grows the window otherwise, and reduces it.
    base: Box<dyn Growth>,
    /// The largest window before a reduction since one that was not by chance; `None` if that was the last.
    prior: Option<u64>,
    /// Bytes lost, and bytes that were lost or arrived, of late and since the first start.
    lost: u64,
    judged: u64,
    /// The smallest samples of the round trip before this one and of this one.
    lowest: [Duration; 2],
    /// Whether the first start is over, in which losses are those of a window that opened too far.
    has_started: bool,
    /// Acknowledged bytes times gain that have not made up a byte yet, in eighths.
    remainder: u64,
}

/// Whether this sample shows no queue.
fn is_empty(view: View, sample: Duration) -> bool {
    let allowance = (view.min_rtt / ALLOWANCE_DIVISOR).clamp(LEAST_ALLOWANCE, MOST_ALLOWANCE);
    sample <= view.min_rtt.saturating_add(allowance)
}

impl Regain {
    pub(crate) fn new(base: Box<dyn Growth>) -> Regain {
        Regain { base, prior: None, lost: 0, judged: 0, lowest: [Duration::MAX; 2], has_started: false, remainder: 0 }
    }

    /// Whether the queue was empty in each of the last two round trips.
    fn was_empty(&self, view: View) -> bool {
        self.lowest.iter().all(|&lowest| is_empty(view, lowest))
    }

    fn loses_little(&self) -> bool {
        self.lost.saturating_mul(LOSS_DIVISOR) <= self.judged
    }
}

impl Growth for Regain {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let ordinary = self.base.grow(view, acked);
        let Some(prior) = self.prior.filter(|_| is_empty(view, view.latest_rtt)) else {
            self.remainder = 0;
            return ordinary;
        };
        let (num, den) = if view.window < prior { GAIN } else { GAIN_BEYOND };
        let eighths = self.remainder.saturating_add(acked.saturating_mul(num));
        let regained = view.window.saturating_add(eighths / den);
        self.remainder = if regained >= ordinary { eighths % den } else { 0 };
        regained.max(ordinary)
    }

    fn reduce(&mut self, view: View, cause: CongestionCause) -> u64 {
        let is_chance =
            cause == CongestionCause::Loss && self.has_started && self.was_empty(view) && self.loses_little();
        self.prior = is_chance.then(|| self.prior.map_or(view.window, |largest| largest.max(view.window)));
        self.remainder = 0;
        if self.has_started {
            self.lost = self.lost / MEMORY.1 * MEMORY.0;
            self.judged = self.judged / MEMORY.1 * MEMORY.0;
        }
        self.has_started = true;
        self.base.reduce(view, cause)
    }

    fn observe(&mut self, view: View, event: &AckEvent<'_>, recovering: bool) {
        if event.has_rtt_sample {
            if event.round.started {
                self.lowest = [self.lowest[1], view.latest_rtt];
            }
            self.lowest[1] = self.lowest[1].min(view.latest_rtt);
        }
        if self.has_started {
            self.lost = self.lost.saturating_add(event.lost);
            self.judged = self.judged.saturating_add(event.lost).saturating_add(event.acked);
        }
        self.base.observe(view, event, recovering);
    }

    fn cycle(&self, view: View) -> u32 {
        self.base.cycle(view)
    }

    fn on_start_exit(&mut self, view: View) {
        self.has_started = true;
        self.prior = None;
        self.base.on_start_exit(view);
    }

    fn on_persistent_congestion(&mut self) {
        self.prior = None;
        self.base.on_persistent_congestion();
    }

    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        self.base.on_application_limited(now, limited);
    }

    fn on_datagram_size(&mut self) {
        self.base.on_datagram_size();
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(Regain { base: self.base.snapshot(), ..*self })
    }
}

#[cfg(test)]
mod tests;
