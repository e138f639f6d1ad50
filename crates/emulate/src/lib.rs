//! The links of the lab in real time: what crosses them are packets of programs that know nothing of it.
//!
//! [`Engine`] carries packets over the hops of a path, and reads no clock: its caller tells it the time, so that the
//! same arrivals give the same departures as in the lab, to the nanosecond. [`Relay`] is a UDP relay on it, and an
//! [`Emulation`] runs programs in network namespaces that only such a path joins. A [`Report`]
//! says how late everything was, and [`Report::faults`] whether that was good enough.
//!
//! Only `system` reads a clock or asks the system for anything.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod emulation;
mod engine;
#[cfg(target_os = "linux")]
mod forward;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod ip;
mod lateness;
#[cfg(target_os = "linux")]
mod pump;
#[cfg(target_os = "linux")]
mod relay;
mod series;
#[cfg(target_os = "linux")]
mod system;
mod verdict;
#[cfg(target_os = "linux")]
mod watcher;

#[cfg(target_os = "linux")]
pub use emulation::{EmulatedPath, Emulation, EmulationError, MOST_PATHS, Outcome, Progress};
pub use engine::{Arrival, Counts, Departure, Drop, Engine, Port, Room, Totals, Toward};
#[cfg(target_os = "linux")]
pub use init::{CLIENT, End, SERVER, client};
pub use lateness::{Lateness, LatenessSummary, VERY_LATE};
#[cfg(target_os = "linux")]
pub use relay::{Relay, RelayConfig, RelayCounts};
pub use series::{Series, Step};
pub use verdict::{Fault, Limits, PathReport, Report};
