//! Real-time priority, memory that stays, timers without slack.

use std::io;

/// Whether real-time priority was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    Yes,
    /// Why not.
    No(String),
}

/// Gives the calling thread, and what it starts, this real-time priority (SCHED_FIFO), 1 being the lowest.
pub(crate) fn raise(priority: u8) -> Raised {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    match super::check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) }) {
        Ok(_) => Raised::Yes,
        Err(error) => Raised::No(error.to_string()),
    }
}

/// Keeps the process in memory.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: takes no pointer.
    super::check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(|_| ())
}

/// Timers of the calling thread fire when they are due: by default the kernel may be 50 µs late, to wake less often.
pub(crate) fn fine_timers() {
    // SAFETY: takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}
