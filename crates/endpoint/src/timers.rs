//! The deadlines of all connections of one worker, ordered by time.

use std::collections::BTreeSet;

use thalweg_units::Instant;

/// Deadlines keyed by connection.
///
/// A deadline that moves *later* (every acknowledgement moves the probe timer) costs nothing: the entry stays where it
/// is, and when it comes up its owner is asked for the deadline it has by then. Only one that moves *earlier* touches
/// the tree, so work per wake-up is proportional to what is due, never to the number of connections.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    entries: BTreeSet<(Instant, usize)>,
    /// Per connection: where its entry is in the tree.
    armed: Vec<Option<Instant>>,
}

impl Timers {
    /// Makes sure connection `key` comes up no later than `deadline`.
    pub(crate) fn set(&mut self, key: usize, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if key >= self.armed.len() {
            self.armed.resize(key + 1, None);
        }
        match self.armed[key] {
            Some(armed) if armed <= deadline => return,
            Some(armed) => {
                self.entries.remove(&(armed, key));
            }
            None => {}
        }
        self.armed[key] = Some(deadline);
        self.entries.insert((deadline, key));
    }

    /// Forgets connection `key`.
    pub(crate) fn remove(&mut self, key: usize) {
        if let Some(armed) = self.armed.get_mut(key).and_then(Option::take) {
            self.entries.remove(&(armed, key));
        }
    }

    /// Takes out one connection whose entry is at or before `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<usize> {
        let &(at, key) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        self.armed[key] = None;
        Some(key)
    }

    /// When the first entry comes up.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.entries.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn earlier_deadlines_replace_and_later_ones_wait() {
        let mut timers = Timers::default();
        timers.set(3, Some(at(100)));
        timers.set(3, Some(at(200)));
        assert_eq!(timers.next(), Some(at(100)));
        timers.set(3, Some(at(50)));
        assert_eq!(timers.next(), Some(at(50)));
        assert_eq!(timers.entries.len(), 1);
        assert_eq!(timers.pop(at(49)), None);
        assert_eq!(timers.pop(at(50)), Some(3));
        assert_eq!(timers.pop(at(1000)), None);
    }

    #[test]
    fn connections_come_up_in_order_of_time() {
        let mut timers = Timers::default();
        for key in 0..10 {
            timers.set(key, Some(at(100 - key as u64)));
        }
        timers.remove(5);
        timers.set(7, None);
        let order: Vec<_> = std::iter::from_fn(|| timers.pop(at(1000))).collect();
        assert_eq!(order, [9, 8, 7, 6, 4, 3, 2, 1, 0]);
    }
}
