//! The first mark ends slow start without a reduction.
//!
//! A queue that forecasts the load marks while slow start has not filled the path yet. Such a mark asks the sender to
//! stop doubling, not to send less. The first mark ends slow start where it stands:
//!
//! ```text
//! slow start ── mark: threshold = window ──► quiet span ── older than 3/2 round trips ──► a reduction, or nothing
//! ```
//!
//! In the quiet span marks are counted and ignored: packets that left before the response carry the same message, and
//! the packets of the following half round trip queue behind them. Predict (see `docs/queues.md`) marks for two
//! of its own estimates of the round trip.

use thalweg_units::{Duration, DurationExt, Instant, math};

use super::{Mark, MarkAction, MarkResponse};
use crate::congestion::Decrease;

/// How long marks are ignored after one has ended slow start, in smoothed round-trip times. Reconstructed, as is the
/// queue that goes with it: one round trip for what was in flight, half of one for what the stretched round trip adds.
/// A shorter span reduces the window for the same transient; a longer one lets a real queue stand.
const QUIET: (u64, u64) = (3, 2);

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct EndStart {
    /// What a mark calls for afterwards; `None`: nothing.
    later: Option<Decrease>,
    /// When a mark last ended a start, and until when marks are ignored at least.
    ended: Option<(Instant, Instant)>,
}

impl EndStart {
    pub(crate) fn new(later: Option<Decrease>) -> EndStart {
        EndStart { later, ended: None }
    }
}

impl MarkResponse for EndStart {
    fn on_mark(&mut self, mark: Mark) -> MarkAction {
        let Mark { now, smoothed_rtt, newest_sent, can_end_start } = mark;
        let is_same = |(at, until)| now < until || newest_sent.is_none_or(|sent| sent <= at);
        if self.ended.is_some_and(is_same) {
            // The same message as the one that ended the start.
            return MarkAction::Ignore;
        }
        if can_end_start {
            let quiet = Duration::from_nanos(math::mul_div(smoothed_rtt.nanos(), QUIET.0, QUIET.1));
            self.ended = Some((now, now + quiet));
            return MarkAction::EndStart;
        }
        self.later.map_or(MarkAction::Ignore, MarkAction::Reduce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    fn answer(response: &mut EndStart, now: u64, sent: Option<u64>, can_end_start: bool) -> MarkAction {
        response.on_mark(Mark { now: at(now), smoothed_rtt: ms(100), newest_sent: sent.map(at), can_end_start })
    }

    #[test]
    fn marks_of_one_and_a_half_round_trips_after_the_end_of_a_start_are_ignored() {
        for later in [Some(Decrease::AsLoss), None] {
            let mut response = EndStart::new(later);
            let open = later.map_or(MarkAction::Ignore, MarkAction::Reduce);
            assert_eq!(answer(&mut response, 50, Some(0), false), open);
            assert_eq!(answer(&mut response, 100, Some(0), true), MarkAction::EndStart);
            for can_end_start in [true, false] {
                assert_eq!(answer(&mut response, 249, Some(149), can_end_start), MarkAction::Ignore);
            }
            assert_eq!(answer(&mut response, 250, Some(150), false), open);
            // The round trip has become longer than the estimate: what was sent before is still the same message.
            assert_eq!(answer(&mut response, 400, Some(100), false), MarkAction::Ignore);
            assert_eq!(answer(&mut response, 400, None, false), MarkAction::Ignore);
            assert_eq!(answer(&mut response, 400, Some(101), false), open);
        }
    }
}
