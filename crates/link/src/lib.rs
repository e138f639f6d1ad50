//! Links that packets cross in the lab: rate, delay, queue and impairments of each direction, and the words that
//! describe them.
//!
//! A [`Direction`] of a link is `queue → serialization at a rate → propagation → impairments`, exact to the nanosecond
//! and the byte, clocked by its caller, random only by the [`Streams`] it is given. It knows nothing of what its
//! packets carry. The same object serves a simulator in virtual time and an emulator in real time.
//!
//! | what | where |
//! |---|---|
//! | a direction, a path of two, a chain of paths | [`Direction`], [`DirectionConfig`], [`PathConfig`], [`Chain`] |
//! | running chains of links that packets cross one after the other | [`Pipe`], [`Watcher`] |
//! | reading `[path.NAME]` from TOML, presets | [`Paths`], [`presets`], [`document`] |
//! | reading descriptions from any other tree | [`read`] |
//! | queues and queue disciplines | [`queue`] |
//! | rates: constant, scheduled, recorded | [`RateModel`], [`Schedule`], [`trace`] |
//! | loss, jitter, reordering, policing, damage | [`LossModel`], [`Jitter`], [`Reorder`], [`Policer`] |
//! | outages and suspensions | [`Windows`], [`Interruption`] |
//! | Wi-Fi as measured | [`WifiProfile`] |
//! | chance | [`Streams`], [`Dice`], [`Spread`] |
//!
//! ```
//! use thalweg_link::{Direction, DirectionConfig, Packet, RateModel, Streams};
//! use thalweg_units::{Duration, Ecn, Instant};
//!
//! let config = DirectionConfig {
//!     rate: RateModel::Constant("12 Mbps".parse()?),
//!     delay: Duration::from_millis(10).into(),
//!     queue: "2 packets".parse()?,
//!     ..DirectionConfig::default()
//! };
//! let start = Instant::ZERO;
//! let mut link: Direction<u64> = Direction::new(&config, start, &Streams::new(1))?;
//! let mut arrived = Vec::new();
//! for payload in 0..4 {
//!     let packet =
//!         Packet { payload, size: 1500, flow: 0, connection: 0, ecn: Ecn::NotEct, sent: start, tail: false };
//!     link.send(start, packet, &mut arrived);
//! }
//! while let Some(at) = link.next_event() {
//!     link.advance(at, &mut arrived);
//! }
//! // One in service and two in the queue; the fourth was dropped. 1500 bytes take a millisecond.
//! let times: Vec<u64> = arrived.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
//! assert_eq!(times, [11, 12, 13]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod agenda;
mod config;
mod context;
mod dice;
mod direction;
pub mod document;
mod error;
mod gate;
mod impair;
mod interruption;
mod packet;
mod path;
mod paths;
mod pipe;
mod policer;
pub mod presets;
pub mod queue;
mod rate;
pub mod read;
mod schedule;
mod stats;
pub mod trace;
mod wifi;

pub use agenda::Agenda;
pub use config::{DIRECTION_KEYS, DelayModel, DirectionConfig, EcnTreatment, Jitter, Key, Reorder};
pub use context::Context;
pub use dice::{Dice, Probability, Spread, Streams};
pub use direction::Direction;
pub use error::ConfigError;
pub use gate::{Window, Windows};
pub use impair::LossModel;
pub use interruption::{HeldWhere, Interruption};
pub use packet::{DropCause, Packet, Payload, Sink};
pub use path::{Chain, PATH_KEYS, PathConfig};
pub use paths::{Paths, route};
pub use pipe::{Carried, Pipe, Watcher, Way};
pub use policer::Policer;
pub use queue::{Discipline, QueueLimit};
pub use rate::RateModel;
pub use schedule::Schedule;
pub use stats::{DirectionStats, FlowStats, Quantiles};
pub use wifi::WifiProfile;
