//! The discrete-event world of the lab: links, hosts that run the transport itself, and the traffic between them.
//!
//! One thread, one heap of events, integer time. A [`Plan`] goes in, a [`RunResult`] comes out, the same on every machine:
//! nothing here reads a clock, and all chance follows from the plan's seed, each part of the world by a stream of its own name.
//!
//! | what | where |
//! |---|---|
//! | what is to be simulated, and what came out | [`Plan`], [`RunResult`] |
//! | the loop | [`run`], [`run_with`] |
//! | watching datagrams | [`run_tapped`], [`Tap`] |
//! | what a host must be able to do | [`Host`] |
//! | stacks: what a transport must be able to do, the host that every one of them has, stacks by name | [`Stack`], [`Node`], [`StackFactory`], [`Registry`] |
//! | addresses of clients that change | [`Move`] |
//! | traffic | [`Traffic`], [`Call`], [`app`] |
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
//!     flows: vec![FlowPlan::new("download", Traffic::Download(Some(1_000_000)))],
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
mod call;
mod collect;
mod datagram;
mod departures;
mod floor;
mod hash;
mod host;
mod ledger;
mod meter;
mod plan;
mod quic;
mod raw;
mod result;
mod stack;
mod tap;
mod tcp;
mod world;

pub use call::{Audio, Call, FrameLog, TrackResult, Video};
pub use floor::Floor;
pub use host::{Envelope, Host, IP_UDP_HEADERS, Outbox, Status};
pub use meter::{Meter, Transfer};
pub use plan::{
    AddressChange, Crypto, FlowPlan, HostModel, Move, PageObject, PathPlan, Plan, PlanError, Record, Resumed, Size,
    Traffic,
};
pub use result::{
    Figure, FlowResult, FlowWindow, Frames, LinkResult, LinkWindow, PacketCounts, PacketFate, PacketPoint, RunResult,
    Series, SideResult, Signal, TcpStats, WindowResult, is_measured,
};
pub use stack::{
    Accepts, Carries, Framing, Heeds, Hosts, News, Node, PACKET_OVERHEAD, Registry, Replies, Route, Schema, Setting,
    SettingValue, Settings, Stack, StackContext, StackFactory, StackInfo,
};
pub use tap::{Seen, Tap};
pub use tcp::{MinRto, TcpAcks, TcpConfig, TcpProfile};
pub use world::{run, run_tapped, run_with};

/// The stacks that come with the crate. Flows that name none run the first.
fn stacks() -> Vec<Box<dyn StackFactory>> {
    vec![Box::new(quic::Thalweg), Box::new(tcp::Tcp), Box::new(raw::Raw)]
}
