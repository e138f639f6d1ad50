//! The discrete-event world of the lab: links, hosts that run the transport itself, and the traffic between them.
//!
//! One thread, events in the order of time, integer time. A [`Plan`] goes in, a [`RunResult`] comes out, the same on
//! every machine: nothing here reads a clock, and all chance follows from the plan's seed, each part of the world by a
//! stream of its own name.
//!
//! | what | where |
//! |---|---|
//! | what is to be simulated, and what came out | [`Plan`], [`RunResult`] |
//! | the loop | [`run`], [`run_with`] |
//! | watching datagrams | [`run_tapped`], [`Tap`] |
//! | logs that stacks write themselves | [`LogFiles`] |
//! | what a host must be able to do | [`Host`] |
//! | stacks: what a transport must be able to do, the host that every one of them has, stacks by name | [`Stack`], [`Node`], [`StackFactory`], [`Registry`] |
//! | addresses of clients that change | [`Move`] |
//! | traffic: its kinds, and what runs at both ends | [`Traffic`], [`traffic`], [`app`] |
//! | TCP, packet by packet | [`TcpConfig`], the stack "tcp" |
//! | how fast it could be | [`Floor`] |
//!
//! ```
//! use thalweg_link::{DirectionConfig, RateModel};
//! use thalweg_sim::{FlowPlan, PathPlan, Plan, Traffic, run};
//! use thalweg_units::Duration;
//!
//! let link = DirectionConfig {
//!     rate: RateModel::Constant("50 Mbps".parse()?),
//!     delay: Duration::from_millis(25).into(),
//!     queue: "1 BDP".parse()?,
//!     ..DirectionConfig::default()
//! };
//! let plan = Plan {
//!     paths: vec![PathPlan::new("home", link.clone(), link)],
//!     flows: vec![FlowPlan::new("download", Traffic::download(Some(1_000_000)))],
//!     ..Plan::default()
//! };
//! let result = run(&plan)?;
//! assert_eq!(result.failed, None);
//! let floor = result.flows[0].floor.ok_or("a download has a floor")?;
//! let completion = result.flows[0].completion.ok_or("it finished")?;
//! assert!(completion >= floor.total + floor.round_trip && completion < 4 * floor.total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod app;
mod collect;
mod datagram;
mod departures;
mod floor;
mod frames;
mod hash;
mod host;
mod ledger;
mod logs;
mod meter;
mod plan;
mod quic;
mod raw;
mod registry;
mod result;
mod stack;
mod tap;
mod tcp;
pub mod traffic;
mod world;

pub use floor::{Floor, Framing};
pub use frames::{FrameLog, Frames, TrackResult};
pub use host::{Envelope, Host, IP_UDP_HEADERS, Outbox, Status};
pub use logs::{LogFile, LogFiles};
pub use meter::{Meter, Transfer};
pub use plan::{
    AddressChange, Crypto, FlowPlan, Handover, HostModel, Move, PathPlan, Pauses, Plan, PlanError, Record, SavedState,
};
pub use registry::Registry;
pub use result::{
    Figure, FlowResult, FlowWindow, LinkResult, LinkWindow, PacketCounts, PacketFate, PacketPoint, RunResult, Series,
    SideResult, Signal, TcpStats, WayResult, WindowResult, is_measured,
};
pub use stack::{
    Accepts, Carries, ConnectionEvents, Hosts, Node, PACKET_OVERHEAD, Replies, Route, Schema, Setting, SettingValue,
    Settings, Stack, StackContext, StackFactory, StackInfo, SupportedPolicies,
};
pub use tap::{Seen, Tap};
pub use tcp::{MinRto, TcpAcks, TcpConfig, TcpProfile};
pub use traffic::{Audio, Call, PageObject, Size, Traffic, Video};
pub use world::{run, run_tapped, run_with};
