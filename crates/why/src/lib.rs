//! What made a QUIC transfer slow, judged from its qlog.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod bins;
mod cause;
mod fit;
mod gather;
pub mod read;
pub mod world;

pub use answer::{Answer, Log, Saving, WhyError};
pub use cause::Cause;
