//! Local pauses: times in which an end of the measurement did not run, by its own report of how late it sent.

use crate::passage::Passage;

/// Lateness that counts as a pause, in nanoseconds, at least: an operating system that is not busy wakes programs
/// within a millisecond.
const LEAST: i64 = 20_000_000;

/// The two ends of a measurement.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// This computer.
    Client,
    /// The server's.
    Server,
}

impl End {
    /// "client" or "server".
    pub const fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
        }
    }
}

/// A time in which an end did not run. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Pause {
    /// Which end.
    pub end_of_path: End,
    /// When it should have sent at the latest.
    pub start: i64,
    /// When it did.
    pub end: i64,
}

/// The pauses of an end: whenever it sent later than it should by 20 ms or more. A pause between two datagrams that is
/// shorter than their interval shows only in part or not at all.
pub fn pauses(end_of_path: End, sent: &[Passage]) -> Vec<Pause> {
    let late = sent.iter().filter(|passage| passage.late >= LEAST);
    late.map(|passage| Pause { end_of_path, start: passage.sent - passage.late, end: passage.sent }).collect()
}

/// The pause that explains what looks like a suspension from `start` to `end`: one that covers half of it.
pub fn explained_by(pauses: &[Pause], start: i64, end: i64) -> Option<Pause> {
    let covers = |pause: &&Pause| 2 * (pause.end.min(end) - pause.start.max(start)) >= end - start;
    pauses.iter().find(covers).copied()
}
