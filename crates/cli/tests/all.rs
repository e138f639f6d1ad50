//! The integration tests of the program, linked as one: what they share is built once. Those that measure real time are
//! programs of their own, so that nothing runs beside them.
#![allow(clippy::unwrap_used)]

mod advice;
mod common;
mod failures;
mod lab;
mod measuring;
mod outputs;
mod surviving;
mod traces;
mod transfers;
mod why;
