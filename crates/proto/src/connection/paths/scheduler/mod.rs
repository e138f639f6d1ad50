//! The scheduler of paths, which chooses the path that sends next.

mod choice;
mod single;

pub(crate) use self::choice::Choice;
use self::single::Single;
use super::path::PathKey;

/// The schedulers there are. Each is a file beside `single`, which has the least to decide.
#[derive(Debug)]
pub(crate) enum Scheduler {
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
    pub fn next(&mut self, choice: &Choice<'_>) -> PathKey {
        match self {
            Scheduler::Single(single) => single.next(choice),
        }
    }
}
