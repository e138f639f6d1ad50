//! The integration tests of this crate, linked as one program: what they share is built once.
#![allow(clippy::unwrap_used)]

mod answers;
mod calls;
mod never;
mod scenarios;
