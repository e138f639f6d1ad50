//! The integration tests of this crate, linked as one program: what they share is built once.
#![allow(clippy::unwrap_used)]

mod adjust;
mod common;
mod configurations;
mod connections;
mod hold;
mod paths;
mod streams;
