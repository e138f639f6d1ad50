//! What made a QUIC transfer slow, judged from the qlog of its sender by what would have made it faster.
//!
//! A [`Log`] is read as a stream, in bounded memory. Its [`answer`](Log::answer) reads a path off it (rate, round trip,
//! queue, losses, reordering, interruptions) and what was sent over it, runs that in virtual time, looks whether the
//! log's completion comes out, and runs it again with each [`Cause`] taken away: what that saves is what the cause
//! costs.
//!
//! | what | where |
//! |---|---|
//! | reading logs of several stacks, record by record | [`read`] |
//! | the answer, its figures, its words | [`Log`], [`Answer`], [`Report`] |
//! | two transfers beside each other, and other settings | [`Comparison`], [`WhatIf`] |
//! | what can be taken away, and what to try | [`Cause`] |
//! | a transfer over a path, run in virtual time | [`world`] |
//! | a log that can be shown to others | [`redact()`] |
//!
//! ```no_run
//! use std::fs::File;
//! use std::io::BufReader;
//!
//! let answer = thalweg_why::Log::read(BufReader::new(File::open("trace.sqlog")?))?.answer()?;
//! let next = answer.next()?;
//! print!("{}", answer.report(next).text());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod bins;
mod both;
mod cause;
mod compare;
mod course;
mod fit;
mod gather;
pub mod read;
mod receiver;
mod redact;
mod runs;
mod spans;
mod what_if;
mod words;
pub mod world;

pub use answer::{Answer, Log, Saving, WhyError};
pub use cause::Cause;
pub use compare::{Comparison, Part, differences};
pub use redact::redact;
pub use what_if::{Changed, WhatIf};
pub use words::{CauseReport, Moment, PathReport, Report};
