//! The integration tests of this crate, linked as one program: what they share is built once.
#![allow(clippy::unwrap_used)]

mod calls;
mod connections;
mod counted;
mod moves;
mod padding;
mod quic_tables;
mod runs;
mod saved;
mod tcp;
mod tcp_invariants;
mod tcp_policies;
mod tcp_tables;
mod worlds;
