//! The scheduler "weighted": paths share in proportion to the rates at which they deliver, or, before that is known, to
//! their windows over their round-trip times.

use smallvec::SmallVec;
use thalweg_recovery::DataSpace;
use thalweg_units::Instant;

use super::interface::{Candidate, Order, PathScheduler, Waiting};

/// Once a path has sent so many bytes all counts are halved, so that what was long ago fades.
const FADE: u64 = 1 << 20;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Weighted {
    /// What each path has sent lately, bytes.
    sent: SmallVec<[(DataSpace, u64); 4]>,
}

impl PathScheduler for Weighted {
    fn order(&mut self, _: Instant, _: Waiting, candidates: &[Candidate], order: &mut Order) {
        self.sent.retain(|(id, _)| candidates.iter().any(|path| path.id == *id));
        let sent = |id| self.sent.iter().find(|(known, _)| *known == id).map_or(0, |(_, bytes)| *bytes);
        order.extend(candidates.iter().map(|path| path.id));
        // The path that is furthest behind its share: bytes over weight, compared crosswise in whole numbers.
        let place = |id: &DataSpace| {
            let weight = candidates.iter().find(|path| path.id == *id).map_or(1, weight);
            (u128::from(sent(*id)) << 40) / u128::from(weight)
        };
        order.sort_by_key(place);
    }

    fn on_sent(&mut self, path: DataSpace, bytes: u64) {
        match self.sent.iter_mut().find(|(known, _)| *known == path) {
            Some((_, sent)) => *sent += bytes,
            None => self.sent.push((path, bytes)),
        }
        if self.sent.iter().any(|(_, sent)| *sent > FADE) {
            self.sent.iter_mut().for_each(|(_, sent)| *sent /= 2);
        }
    }
}

/// Bytes per second, at least 1.
fn weight(path: &Candidate) -> u64 {
    let assumed = || {
        let per_second = u128::from(path.window) * 1_000_000_000 / path.rtt.as_nanos().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    };
    path.delivery_rate.map_or_else(assumed, |rate| rate.bps() / 8).max(1)
}

#[cfg(test)]
mod tests {
    use thalweg_recovery::DataSpace;
    use thalweg_units::Rate;

    use super::super::{Candidate, SchedulerPolicy, testing::*};

    #[test]
    fn paths_share_by_their_rates() {
        let mut scheduler = SchedulerPolicy::Weighted.build();
        let rate = |mbps: u64| Some(Rate::from_bps(mbps * 1_000_000));
        let paths = [
            Candidate { delivery_rate: rate(30), ..candidate(0, 10, 9) },
            Candidate { delivery_rate: rate(10), ..candidate(1, 10, 9) },
        ];
        let mut sent = [0u32; 2];
        for _ in 0..4_000 {
            let first = ids(&mut scheduler, 0, &paths)[0];
            sent[first as usize] += 1;
            scheduler.on_sent(DataSpace(first), 1_200);
        }
        assert!(sent[0].abs_diff(3_000) < 20, "{sent:?}");
    }
}
