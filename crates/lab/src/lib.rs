//! The lab: a question as a scenario file, answered as distributions over seeds with confidence intervals and a verdict.
//!
//! A [`Scenario`](scenario::Scenario) spans points (what is varied) and seeds (what is left to chance). Every point runs with
//! every seed; what comes out is summed up by [`stats`], judged by the scenario's expectations, stored so that anyone can
//! reproduce it bit for bit, and shown as one page.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod hash;
pub mod metric;
pub mod scenario;
pub mod stats;
