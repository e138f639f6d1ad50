//! QUIC loss recovery, round-trip estimation, congestion control and pacing, as pure state machines.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
pub mod controller;
mod delivery;
pub mod pacing;
mod path;
pub mod qlog;
mod rtt;
pub mod trace;
mod types;

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use thalweg_units::{Duration, Instant};

pub use config::{
    Choice, Config, ControllerPolicy, Field, PacingPolicy, Policies, PolicyError, ProbePolicy,
    ReductionPolicy, ReorderingPolicy, RttPolicy, StartPolicy, UndoPolicy,
};
pub use controller::{AckEvent, Congestion, Controller, ControllerFactory};
pub use delivery::{RateSample, Round};
pub use path::{Path, PathStats};
pub use rtt::{GRANULARITY, INITIAL_RTT, Rtt};
pub use types::{
    AckOfUnsent, Acked, Budget, Ecn, EcnCounts, LossTrigger, Lost, Outcome, PathId, Sent, SpaceId,
    Timeout,
};

/// Loss recovery and congestion control of one connection. (Bodies still minimal; signatures are final.)
#[derive(Debug)]
pub struct Recovery<T> {
    config: Config,
    paths: Vec<Path>,
    active: PathId,
    sent: [BTreeMap<u64, T>; 3],
    trace: trace::Trace,
}

#[allow(unused_variables, missing_docs)]
impl<T: Clone> Recovery<T> {
    pub fn new(config: Config, side_is_client: bool) -> Self {
        let trace = trace::Trace::new(config.trace);
        let rtt = Rtt::new(config.policies.rtt, config.initial_rtt);
        Recovery {
            config,
            paths: vec![Path::new(rtt, 1200)],
            active: PathId(0),
            sent: Default::default(),
            trace,
        }
    }
    pub fn add_path(
        &mut self,
        now: Instant,
        datagram_size: u16,
        initial_rtt: Option<Duration>,
    ) -> PathId {
        PathId(0)
    }
    pub fn remove_path(&mut self, path: PathId) {}
    pub fn set_active_path(&mut self, path: PathId) {}
    pub fn active_path(&self) -> PathId {
        self.active
    }
    pub fn path(&self, path: PathId) -> &Path {
        &self.paths[0]
    }
    pub fn path_mut(&mut self, path: PathId) -> &mut Path {
        &mut self.paths[0]
    }
    pub fn set_handshake_confirmed(&mut self, now: Instant) {}
    pub fn set_has_handshake_keys(&mut self) {}
    pub fn set_peer_validated(&mut self) {}
    pub fn set_amplification_limited(&mut self, now: Instant, limited: bool) {}
    pub fn set_max_ack_delay(&mut self, delay: Duration) {}
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {}
    pub fn on_sent(&mut self, space: SpaceId, packet: Sent<T>, app_has_more: bool) {
        self.sent[space.index()].insert(packet.number, packet.data);
    }
    pub fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        ack_delay: Duration,
        ecn: Option<EcnCounts>,
        out: &mut Outcome<T>,
    ) -> Result<(), AckOfUnsent> {
        Ok(())
    }
    pub fn timer(&self) -> Option<Instant> {
        None
    }
    pub fn on_timeout(&mut self, now: Instant, out: &mut Outcome<T>) -> Timeout {
        Timeout::None
    }
    pub fn pto_count(&self) -> u32 {
        0
    }
    pub fn pto(&self, space: SpaceId) -> Duration {
        self.config.initial_rtt * 3
    }
    pub fn discard(&mut self, now: Instant, space: SpaceId) {
        self.sent[space.index()].clear();
    }
    pub fn withdraw(&mut self, now: Instant, space: SpaceId, out: &mut Outcome<T>) {}
    pub fn budget(&mut self, now: Instant, path: PathId) -> Budget {
        Budget::Now(24_000)
    }
    pub fn on_app_limited(&mut self, path: PathId) {}
    pub fn oldest_unacked(&self, space: SpaceId) -> Option<u64> {
        None
    }
    pub fn largest_acked(&self, space: SpaceId) -> Option<u64> {
        None
    }
    pub fn in_flight(&self, space: SpaceId) -> bool {
        false
    }
    pub fn bytes_in_flight(&self, path: PathId) -> u64 {
        0
    }
    pub fn outstanding_data(&self, space: SpaceId) -> impl Iterator<Item = (u64, &T)> {
        self.sent[space.index()]
            .iter()
            .map(|(number, data)| (*number, data))
    }
    pub fn drain_trace(&mut self, f: impl FnMut(Instant, PathId, &trace::Event)) {
        self.trace.drain(f);
    }
}
