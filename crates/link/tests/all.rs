//! The integration tests of this crate, linked as one program: what they share is built once.
#![allow(clippy::unwrap_used)]

mod direction;
mod disciplines;
mod random;
