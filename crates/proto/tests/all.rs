//! The integration tests of this crate, linked as one program: what they share is built once.
#![allow(clippy::unwrap_used)]

mod ack_frequency;
mod adjust;
mod awaiting;
mod bottleneck;
mod broken;
mod connect_timeout;
mod copies;
mod determinism;
mod handshake;
mod harness;
mod hostile;
mod hostile_paths;
mod liars;
mod lifecycle;
mod many;
mod migration;
mod multipath;
mod pinned;
mod probes;
mod receive_timestamps;
mod reconfigure;
mod retired_cids;
mod saved_paths;
mod sharing;
mod soak;
mod steady_state_alloc;
mod tail;
mod transfer;
mod versions;
mod waiting;

#[global_allocator]
static ALLOCATOR: harness::alloc::Counting = harness::alloc::Counting;
