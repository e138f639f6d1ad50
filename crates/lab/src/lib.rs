//! The lab: a question as a scenario file, answered as distributions over seeds with confidence intervals and a
//! verdict.
//!
//! A [`Scenario`](scenario::Scenario) spans points (what is varied) and seeds (what is left to chance). [`runner`] runs
//! every point with every seed on an [`Engine`](engine::Engine); results are kept in a [`store`] so that anyone can
//! reproduce them bit for bit; [`summary`] sums them up with [`stats`] and judges each expectation; [`judgment`] says
//! whether all of it passes. [`advise`] says which policies serve a path. [`trace`] writes qlog files and packets of
//! one run. [`distinct`] finds policies that are the same under two names.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advise;
pub mod answer;
pub mod choices;
pub mod distinct;
pub mod draw;
pub mod engine;
mod file_name;
pub mod hash;
pub mod judgment;
pub mod matrix;
pub mod metric;
mod panics;
pub mod record;
pub mod report;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod starved;
pub mod stats;
pub mod store;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod trace;
