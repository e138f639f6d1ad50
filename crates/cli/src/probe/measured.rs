//! What was measured, and how it ended.

use std::net::SocketAddr;

use thalweg_probe::{Answer, Break, FirstHop, Summary};

/// What was measured, and how it ended.
pub(super) struct Measured {
    pub(super) server: SocketAddr,
    pub(super) summary: Option<Summary>,
    pub(super) answer: Answer,
    /// What the first router answered.
    pub(super) first_hop: Option<FirstHop>,
    pub(super) breaks: Vec<Break>,
    /// When the client's stream began, by its clock.
    pub(super) started: u64,
    /// Whether times of arrival are the kernel's.
    pub(super) stamped: bool,
}

impl Measured {
    /// Why the server was lost, if it was to the end.
    pub(super) fn lost(&self) -> Option<&Break> {
        self.breaks.last().filter(|last| last.until.is_none())
    }
}
