//! What the engine's surroundings ask of the system: the clock, waiting, sockets, priorities. Linux only.
//!
//! All unsafe code of the crate is here, in small functions that can be called safely.
#![allow(unsafe_code)]

pub(crate) mod cable;
mod clock;
mod netlink;
mod poll;
mod priority;
pub(crate) mod process;
mod processors;
mod socket;
pub(crate) mod tun;

pub(crate) use clock::{now, realtime_offset, suspended, thread_time};
pub(crate) use netlink::Netlink;
pub(crate) use poll::Poll;
pub(crate) use priority::{fine_timers, lock_memory, raise};
pub(crate) use processors::{Parted, stay_on};
pub(crate) use socket::{Received, dropped_by, receive, send, udp_socket};

use std::io;

/// What a call returned that reports failure by -1.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same, for calls that return a length.
fn check_length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
