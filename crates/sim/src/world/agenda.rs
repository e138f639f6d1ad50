//! The order of events: when each entity of a world is to be called next, and whose turn is first.
//!
//! A world has few entities (links, machines) and very many events, so this is no heap of events but a tournament of
//! entities: a complete binary tree whose leaves are their times and whose inner nodes hold the winner of the two
//! below. An entity has one time, nothing goes stale, and nothing is allocated while a world runs.

use thalweg_units::Instant;

/// When each entity is to be called.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// By entity, filled up to a power of two with times that never come.
    times: Vec<Instant>,
    /// The winner below each inner node. The root is at 1, the nodes below `n` at `2 n` and `2 n + 1`; leaves have no
    /// entry.
    winners: Vec<u32>,
}

impl Agenda {
    /// For so many entities, none of which is to be called.
    pub(super) fn new(entities: usize) -> Agenda {
        let leaves = entities.next_power_of_two().max(2);
        let mut agenda = Agenda { times: vec![Instant::FAR_FUTURE; leaves], winners: vec![0; leaves] };
        for node in (1..leaves).rev() {
            agenda.winners[node] = agenda.better(node);
        }
        agenda
    }

    /// When an entity is to be called; the far future if it is not.
    pub(super) fn at(&self, entity: usize) -> Instant {
        self.times[entity]
    }

    /// Whose turn is first, and when; of equal times the first entity. None if nobody is to be called.
    pub(super) fn first(&self) -> Option<(Instant, usize)> {
        let first = self.winners[1] as usize;
        Some((self.times[first], first)).filter(|(at, _)| *at < Instant::FAR_FUTURE)
    }

    /// From now on an entity is to be called at this time.
    pub(super) fn set(&mut self, entity: usize, at: Instant) {
        if self.times[entity] == at {
            return;
        }
        self.times[entity] = at;
        let mut node = (entity + self.times.len()) / 2;
        while node > 0 {
            self.winners[node] = self.better(node);
            node /= 2;
        }
    }

    /// The winner of the two below a node: the earlier, of equal times the one with the lower number.
    fn better(&self, node: usize) -> u32 {
        let below = |node: usize| match node.checked_sub(self.times.len()) {
            Some(leaf) => leaf as u32,
            None => self.winners[node],
        };
        let (one, other) = (below(2 * node), below(2 * node + 1));
        if self.times[other as usize] < self.times[one as usize] { other } else { one }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::Streams;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn nobody_is_called_who_has_no_time() {
        for entities in 0..9 {
            assert_eq!(Agenda::new(entities).first(), None, "{entities}");
        }
        let mut agenda = Agenda::new(3);
        agenda.set(2, at(7));
        assert_eq!((agenda.first(), agenda.at(2)), (Some((at(7), 2)), at(7)));
        agenda.set(2, Instant::FAR_FUTURE);
        assert_eq!(agenda.first(), None);
    }

    #[test]
    fn the_first_is_the_earliest_with_the_lowest_number() {
        let mut dice = Streams::new(1).dice("agenda");
        for entities in 1..40 {
            let mut agenda = Agenda::new(entities);
            let mut plain = vec![Instant::FAR_FUTURE; entities];
            for _ in 0..300 {
                // Few times, so that many are equal; one of them never comes.
                let (entity, time) = (dice.below(entities as u64) as usize, dice.below(6));
                let time = if time == 5 { Instant::FAR_FUTURE } else { at(time) };
                agenda.set(entity, time);
                plain[entity] = time;
                let first = plain.iter().copied().enumerate().map(|(entity, at)| (at, entity)).min();
                assert_eq!(agenda.first(), first.filter(|(at, _)| *at < Instant::FAR_FUTURE), "{entities}");
                assert_eq!(agenda.at(entity), time);
            }
        }
    }
}
