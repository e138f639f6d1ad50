//! Time, rates, byte counts and the few mathematical functions the rest of Thalweg may use.
//!
//! Nothing in this crate reads a clock: an [`Instant`] is a number of nanoseconds since an origin that the caller
//! chose. Every operation is an integer operation or a pure-Rust one ([`math`]), so that a decision taken from its
//! result is the same on every machine. All arithmetic saturates; nothing here panics, whatever the input.
//!
//! Quantities have a textual form, the same in scenario files, on the command line and in reports:
//!
//! ```
//! use core::time::Duration;
//! use thalweg_units::{Rate, parse_bytes, parse_duration};
//!
//! let rate: Rate = "250 Mbps".parse()?;
//! let rtt = parse_duration("600 ms")?;
//! assert_eq!(rate.bytes_in(rtt), parse_bytes("18.75 MB")?);
//! assert_eq!(rate.time_for(1_250), Duration::from_micros(40));
//! # Ok::<(), thalweg_units::ParseError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ecn;
pub mod math;
mod rate;
mod text;
mod time;

pub use ecn::Ecn;
pub use rate::Rate;
pub use text::{ByteCount, ParseError, exact_duration, human_bytes, human_duration, parse_bytes, parse_duration};
pub use time::{DurationExt, Instant};

pub use core::time::Duration;
