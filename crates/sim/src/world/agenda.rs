//! The order of events: when each entity of a world is to be called next, and whose turn is first.
//!
//! A world has few entities (links, machines) and very many events, so this is no heap of events but a tournament of
//! entities: a complete binary tree whose leaves are their times and whose inner nodes hold the winner of the two
//! below, with its time. An entity has one time, nothing goes stale, and nothing is allocated while a world runs.

use thalweg_units::Instant;

/// An entity and when it is to be called.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Turn {
    at: Instant,
    entity: u32,
}

impl Turn {
    const NEVER: Turn = Turn { at: Instant::FAR_FUTURE, entity: 0 };

    /// The winner of the two below a node: the earlier, of equal times the one with the lower number.
    fn first_of([one, other]: [Turn; 2]) -> Turn {
        if other.at < one.at { other } else { one }
    }
}

/// When each entity is to be called.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Node `n` is half `n % 2` of pair `n / 2`: the root is at 1, the nodes below `n` are the pair `n`, and nothing is
    /// at 0. The second half are the leaves: the entities in order, filled up to a power of two with times that never
    /// come.
    pairs: Vec<[Turn; 2]>,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda::new(0)
    }
}

impl Agenda {
    /// For so many entities, none of which is to be called.
    pub(super) fn new(entities: usize) -> Agenda {
        let leaves = entities.next_power_of_two().max(2);
        let mut agenda = Agenda { pairs: vec![[Turn::NEVER; 2]; leaves] };
        for node in (1..2 * leaves).rev() {
            let turn = match node.checked_sub(leaves) {
                Some(entity) => Turn { entity: entity as u32, ..Turn::NEVER },
                None => Turn::first_of(agenda.pairs[node]),
            };
            agenda.pairs[node / 2][node % 2] = turn;
        }
        agenda
    }

    fn leaf(&self, entity: usize) -> usize {
        self.pairs.len() + entity
    }

    /// When an entity is to be called; the far future if it is not.
    pub(super) fn at(&self, entity: usize) -> Instant {
        let leaf = self.leaf(entity);
        self.pairs[leaf / 2][leaf % 2].at
    }

    /// Whose turn is first, and when; of equal times the first entity. None if nobody is to be called.
    pub(super) fn first(&self) -> Option<(Instant, usize)> {
        let [_, first] = self.pairs[0];
        (first.at < Instant::FAR_FUTURE).then_some((first.at, first.entity as usize))
    }

    /// From now on an entity is to be called at this time.
    pub(super) fn set(&mut self, entity: usize, at: Instant) {
        let mut node = self.leaf(entity);
        let mut turn = Turn { at, entity: entity as u32 };
        while node > 0 {
            let pair = &mut self.pairs[node / 2];
            if pair[node % 2] == turn {
                // Above it nothing changes either.
                return;
            }
            pair[node % 2] = turn;
            turn = Turn::first_of(*pair);
            node /= 2;
        }
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
