//! The integration tests of this crate, linked as one program: what they share is built once.

mod adapter;
mod common;
mod malformed;
