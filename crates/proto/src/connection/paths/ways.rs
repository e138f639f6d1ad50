//! Return paths of acknowledgments.

use thalweg_recovery::{DataSpace, PathId, WayBack};
use thalweg_units::{Duration, Instant};

use crate::config::RttSamples;

/// A minimum lasts for one to two of these periods, as long as samples come.
const PERIOD: Duration = Duration::from_secs(60);

/// A path and its address pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub space: DataSpace,
    pub address: PathId,
}

/// The smallest round trips of a path at its address, by the path that the acknowledgments returned by. At most one for
/// each path that is known, and none unless a rule asks for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaysBack {
    own: Option<Way>,
    seen: Vec<Seen>,
}

/// What returned by one path.
#[derive(Clone, Debug)]
struct Seen {
    by: Way,
    /// The smallest sample of this period and of the one before.
    least: [Duration; 2],
    /// When this period began.
    since: Instant,
}

impl Seen {
    fn min(&self) -> Duration {
        self.least[0].min(self.least[1])
    }
}

impl WaysBack {
    /// How a sample of the path `own` counts that returned `by` a path.
    pub fn of(&self, rule: RttSamples, own: Way, by: Way) -> WayBack {
        let counts = |counts| if counts { WayBack::Own } else { WayBack::Ignored };
        // What was measured from another address says nothing.
        let seen = if self.own == Some(own) { self.seen.as_slice() } else { &[] };
        let min = |of| seen.iter().find(|seen| seen.by == of).map(Seen::min);
        match rule {
            RttSamples::Any => WayBack::Own,
            RttSamples::Same | RttSamples::Adjusted if by == own && min(own).is_none() && !seen.is_empty() => {
                WayBack::OwnAtLast
            }
            RttSamples::Same => counts(by == own || min(own).is_none()),
            RttSamples::Minimum => {
                let shortest = seen.iter().min_by_key(|seen| seen.min());
                counts(shortest.is_none_or(|seen| seen.by == by))
            }
            RttSamples::Adjusted if by == own => WayBack::Own,
            RttSamples::Adjusted => match (min(own), min(by)) {
                (Some(own_min), Some(min)) => WayBack::Other { own_min, min },
                // The first by this path says nothing of how it differs.
                (Some(_), None) => WayBack::Ignored,
                (None, _) => WayBack::Own,
            },
        }
    }

    /// A sample of the path `own` returned `by` a path.
    pub fn note(&mut self, now: Instant, own: Way, by: Way, sample: Duration) {
        if self.own != Some(own) {
            *self = WaysBack { own: Some(own), ..WaysBack::default() };
        }
        let fresh = Seen { by, least: [sample; 2], since: now };
        match self.seen.iter_mut().find(|seen| seen.by.space == by.space) {
            Some(seen) if seen.by != by => *seen = fresh,
            Some(seen) if now.saturating_since(seen.since) < PERIOD => seen.least[0] = sample.min(seen.least[0]),
            Some(seen) => (seen.least, seen.since) = ([sample, seen.least[0]], now),
            None => self.seen.push(fresh),
        }
    }

    /// A path is gone, and nothing returns by it any more.
    pub fn forget(&mut self, gone: DataSpace) {
        self.seen.retain(|seen| seen.by.space != gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Way = Way { space: DataSpace(0), address: PathId(0) };
    const OTHER: Way = Way { space: DataSpace(1), address: PathId(1) };
    const THIRD: Way = Way { space: DataSpace(2), address: PathId(2) };

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// After samples of OWN, in this order.
    fn after(samples: &[(Way, u64)]) -> WaysBack {
        let mut ways = WaysBack::default();
        samples.iter().for_each(|(by, sample)| ways.note(Instant::ZERO, OWN, *by, ms(*sample)));
        ways
    }

    fn counting(ways: &WaysBack, rule: RttSamples) -> [bool; 3] {
        [OWN, OTHER, THIRD].map(|by| matches!(ways.of(rule, OWN, by), WayBack::Own | WayBack::OwnAtLast))
    }

    fn adjusted(ways: &WaysBack, by: Way) -> WayBack {
        ways.of(RttSamples::Adjusted, OWN, by)
    }

    #[test]
    fn those_of_the_own_way_count_alone_once_there_is_one() {
        assert_eq!(counting(&after(&[]), RttSamples::Same), [true; 3]);
        assert_eq!(counting(&after(&[(OTHER, 10)]), RttSamples::Same), [true; 3]);
        assert_eq!(counting(&after(&[(OTHER, 10), (OWN, 600)]), RttSamples::Same), [true, false, false]);
    }

    #[test]
    fn those_of_the_way_with_the_smallest_count_until_it_is_gone() {
        assert_eq!(counting(&after(&[]), RttSamples::Minimum), [true; 3]);
        assert_eq!(counting(&after(&[(OWN, 600)]), RttSamples::Minimum), [true, false, false]);
        // The other way is measured though its samples do not count, and is the shorter one from then on.
        let mut ways = after(&[(OWN, 600), (OTHER, 310), (OTHER, 900)]);
        assert_eq!(counting(&ways, RttSamples::Minimum), [false, true, false]);
        ways.forget(OTHER.space);
        assert_eq!(counting(&ways, RttSamples::Minimum), [true, false, false]);
    }

    #[test]
    fn samples_by_another_way_are_adjusted_once_both_ways_are_known() {
        assert_eq!(adjusted(&after(&[(OTHER, 400)]), OTHER), WayBack::Own, "nothing to adjust to");
        let ways = after(&[(OTHER, 400), (OWN, 620), (OTHER, 320)]);
        assert_eq!(adjusted(&ways, OTHER), WayBack::Other { own_min: ms(620), min: ms(320) });
        assert_eq!(adjusted(&ways, OWN), WayBack::Own);
        assert_eq!(adjusted(&ways, THIRD), WayBack::Ignored);
    }

    #[test]
    fn the_first_that_returns_by_the_own_way_after_others_begins_the_minimum_anew() {
        for rule in [RttSamples::Same, RttSamples::Adjusted] {
            assert_eq!(after(&[]).of(rule, OWN, OWN), WayBack::Own);
            assert_eq!(after(&[(OTHER, 177)]).of(rule, OWN, OWN), WayBack::OwnAtLast);
            assert_eq!(after(&[(OTHER, 177), (OWN, 330)]).of(rule, OWN, OWN), WayBack::Own);
        }
    }

    #[test]
    fn what_was_measured_from_another_address_says_nothing() {
        let mut ways = after(&[(OWN, 620), (OTHER, 320)]);
        let moved = |way: Way| Way { address: PathId(9), ..way };
        assert_eq!(adjusted(&ways, moved(OTHER)), WayBack::Ignored);
        assert_eq!(ways.of(RttSamples::Adjusted, moved(OWN), OTHER), WayBack::Own);
        ways.note(Instant::ZERO, OWN, moved(OTHER), ms(700));
        assert_eq!(adjusted(&ways, moved(OTHER)), WayBack::Other { own_min: ms(620), min: ms(700) });
        assert_eq!(adjusted(&ways, OTHER), WayBack::Ignored);
        ways.note(Instant::ZERO, moved(OWN), OTHER, ms(100));
        assert_eq!(ways.of(RttSamples::Adjusted, moved(OWN), OTHER), WayBack::Own);
    }

    #[test]
    fn a_minimum_is_replaced_after_two_periods_with_samples() {
        let mut ways = after(&[(OWN, 620), (OTHER, 320)]);
        let second = Instant::ZERO + PERIOD;
        ways.note(second, OWN, OTHER, ms(500));
        assert_eq!(adjusted(&ways, OTHER), WayBack::Other { own_min: ms(620), min: ms(320) });
        ways.note(second + PERIOD, OWN, OTHER, ms(510));
        // No sample has come by the own path since, so that its minimum stands.
        assert_eq!(adjusted(&ways, OTHER), WayBack::Other { own_min: ms(620), min: ms(500) });
    }
}
