//! The order of events: when each of several entities is to be called next, and whose turn is first.
//!
//! A pipe, or a simulated world, has few entities (links, machines) and very many events, so this is no heap of events
//! but a tournament of entities: the first of every sixteen plays against the first of the next, and so on up to one.
//! An entity has one time, nothing goes stale, and nothing is allocated once it is made. Most have no more than sixteen
//! entities, and then a change looks through one group at most.

use thalweg_units::Instant;

/// How many play in a group: one loop of fixed length over so many costs less than the four rounds of pairs that it
/// replaces.
const GROUP: usize = 16;

/// An entity and when it is to be called.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Turn {
    at: Instant,
    entity: u32,
}

impl Turn {
    const NEVER: Turn = Turn { at: Instant::FAR_FUTURE, entity: 0 };

    /// Whether its turn comes before another's: it is earlier, or at the same time and has the lower number.
    #[inline]
    fn is_before(self, other: Turn) -> bool {
        self.at < other.at || (self.at == other.at && self.entity < other.entity)
    }

    /// The winner of a group, whose members stand in the order of their numbers.
    #[inline]
    fn first_of(group: &[Turn; GROUP]) -> Turn {
        group.iter().fold(group[0], |first, turn| if turn.at < first.at { *turn } else { first })
    }
}

/// When each entity is to be called.
#[derive(Debug)]
pub struct Agenda {
    /// The groups of each round: of the entities in order, of the winners of these groups in order, and so on to a
    /// round of one group. A last group is filled up with times that never come.
    rounds: Vec<Vec<[Turn; GROUP]>>,
    /// The winner of the last round.
    first: Turn,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda::new(0)
    }
}

impl Agenda {
    /// For so many entities, none of which is to be called.
    pub fn new(entities: usize) -> Agenda {
        let turn = |number: usize| Turn { entity: number as u32, ..Turn::NEVER };
        let mut members: Vec<Turn> = (0..entities.max(1)).map(turn).collect();
        let mut rounds = Vec::new();
        loop {
            let fill = members.last().copied().unwrap_or(Turn::NEVER);
            members.resize(members.len().next_multiple_of(GROUP), fill);
            let groups = members.as_chunks::<GROUP>().0.to_vec();
            members = groups.iter().map(Turn::first_of).collect();
            rounds.push(groups);
            if let [first] = *members {
                return Agenda { rounds, first };
            }
        }
    }

    /// When an entity is to be called; the far future if it is not.
    ///
    /// # Panics
    /// If there is no such entity.
    #[inline]
    pub fn at(&self, entity: usize) -> Instant {
        self.rounds[0][entity / GROUP][entity % GROUP].at
    }

    /// Whose turn is first, and when; of equal times the first entity. None if nobody is to be called.
    #[inline]
    pub fn first(&self) -> Option<(Instant, usize)> {
        (self.first.at < Instant::FAR_FUTURE).then_some((self.first.at, self.first.entity as usize))
    }

    /// From now on an entity is to be called at this time; never, if that is the far future.
    ///
    /// # Panics
    /// If there is no such entity.
    #[inline]
    pub fn set(&mut self, entity: usize, at: Instant) {
        let (mut turn, mut place) = (Turn { at, entity: entity as u32 }, entity);
        for round in 0..self.rounds.len() {
            let (group, member) = (place / GROUP, place % GROUP);
            let winner = self.rounds.get(round + 1).map_or(self.first, |above| above[group / GROUP][group % GROUP]);
            let members = &mut self.rounds[round][group];
            let before = std::mem::replace(&mut members[member], turn);
            if before.entity == winner.entity {
                turn = Turn::first_of(members);
            } else if !turn.is_before(winner) {
                // Who won still wins, and above nothing changes either.
                return;
            }
            place = group;
        }
        self.first = turn;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Streams;

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
        for entities in (1..40).chain([300]) {
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
