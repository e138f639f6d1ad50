//! The integration tests of this crate, linked as one program: what they share is built once.

mod agreement;
mod common;
mod emulate;
mod failures;
mod lab;
mod measuring;
mod outputs;
mod relay;
mod surviving;
mod transfers;
