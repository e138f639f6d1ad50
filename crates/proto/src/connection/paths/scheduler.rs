//! Which path sends next: the seat of a scheduler.

use super::{choice::Choice, path::PathKey, single::Single};

/// The schedulers there are.
#[derive(Debug)]
pub(super) enum Scheduler {
    /// One path at a time.
    Single(Single),
}

impl Default for Scheduler {
    fn default() -> Self {
        Scheduler::Single(Single)
    }
}

impl Scheduler {
    /// The path that the next datagrams go by.
    pub(super) fn next(&mut self, choice: &Choice<'_>) -> PathKey {
        match self {
            Scheduler::Single(single) => single.next(choice),
        }
    }
}
