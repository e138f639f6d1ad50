//! What was measured, and how it ended.

use std::net::SocketAddr;

use thalweg_lab::advise::Advice;
use thalweg_probe::{Answer, Break, FirstHop, Hop, Summary, TimerFindings};

use crate::failure::Result;

/// What was measured, and how it ended.
pub(super) struct Measured {
    pub(super) server: SocketAddr,
    pub(super) summary: Option<Summary>,
    pub(super) answer: Answer,
    /// What the first router answered.
    pub(super) first_hop: Option<FirstHop>,
    /// Routers on the way that answered.
    pub(super) hops: Vec<Hop>,
    pub(super) breaks: Vec<Break>,
    /// When the client's stream began, by its clock.
    pub(super) started: u64,
    /// Whether times of arrival are the kernel's.
    pub(super) stamped: bool,
    /// What each rule for the probe timer would have done.
    pub(super) timers: Vec<(&'static str, TimerFindings)>,
    /// Why a load that was asked for was not carried.
    pub(super) no_load: Option<String>,
    /// What the lab advises for the path, if that was asked for.
    pub(super) advice: Option<Result<Advice>>,
}

impl Measured {
    /// Why the server was lost, if it was to the end.
    pub(super) fn lost(&self) -> Option<&Break> {
        self.breaks.last().filter(|last| last.until.is_none())
    }
}
