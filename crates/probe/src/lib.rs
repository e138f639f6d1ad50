//! What a network path does: two independent streams of datagrams, and what their times tell.
//!
//! A client sends a datagram every 20 ms, and so does the server, each by its own clock. The server's datagrams also
//! say when those of the client arrived. So the client knows of every datagram of either way when it was sent and
//! when it arrived, and an analysis tells the ways apart, where an echo sees only their sum.
//!
//! | what | where |
//! |---|---|
//! | datagrams | [`wire`] |
//! | the two ends, without sockets and clocks | [`Client`], [`Server`] |
//! | what was measured | [`Trace`], [`Datagram`] |
//! | offset and drift of the server's clock | [`Clock`] |
//! | one-way delays and round trips | [`passages`], [`round_trips`] |
//! | suspensions of one way or both | [`suspensions`], [`events`] |
//! | standing queues | [`standing_queues`] |
//! | pauses of either end | [`pauses`] |
//! | loss, reordering, duplicates | [`fate`] |
//! | all of it | [`Findings`], and for long measurements [`Summary`] |
//! | the first hop, and those after it | [`FirstHop`], [`hops`] |
//! | rate, queue and responsiveness under load | [`LoadFindings`] |
//! | which loads a server carries | [`Loads`] |
//! | rate of the bottleneck from trains | [`train_rates`] |
//! | what timers would have done | [`Followed`] |
//! | one sentence | [`answer()`] |
//! | the path for the lab | [`scenario()`], [`model`], [`Replay`] |
//!
//! Nothing here reads a clock or draws a number: the same code measures over the network and over the links of the lab,
//! where the truth is known.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod changes;
mod client;
mod clock;
mod findings;
mod hop;
mod load;
mod loaded;
mod loads;
mod loss;
mod passage;
mod pause;
mod quantiles;
mod queue;
mod scenario;
mod server;
mod slot;
mod summary;
mod suspension;
mod timers;
mod trace;
mod train;
pub mod wire;

pub use answer::{Answer, Cause, Vantage, answer};
pub use client::{Client, ClientConfig, ClientError};
pub use clock::{Clock, ClockPiece};
pub use findings::{Findings, WayFindings};
pub use hop::{FirstHop, FurtherHops, Hop, HopSample, HopSchedule, hops};
pub use load::{Load, burst, rate, responsiveness};
pub use loaded::{LoadFindings, Loaded};
pub use loads::{LoadLimits, Loads, NoLoad};
pub use loss::{Burst, EcnFate, Fate, Gilbert, fate};
pub use passage::{Passage, passages, round_trips};
pub use pause::{End, Pause, explained_by, pauses};
pub use queue::{StandingQueue, standing_queues};
pub use scenario::{Replay, model, scenario};
pub use server::{LEAD, Peer, SESSION_END, Server, ServerConfig, ServerCounts};
pub use summary::{Point, Spike, Summary, WaySummary};
pub use suspension::{Event, Noise, Suspension, events, suspensions};
pub use timers::{Followed, Timer, TimerFindings};
pub use trace::{Break, BreakCause, Datagram, Trace, Way};
pub use train::{Train, TrainFindings, train_rates};
