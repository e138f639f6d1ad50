//! The integration tests of this crate, linked as one program: what they share is built once.

mod agreement;
mod common;
mod failures;
mod lab;
mod measuring;
mod outputs;
mod surviving;
mod transfers;
