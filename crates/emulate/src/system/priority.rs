//! Real-time priority, memory that stays, timers without slack.

use std::io;

/// Gives the calling thread, and what it starts, this real-time priority (SCHED_FIFO), 1 being the lowest.
///
/// # Errors
/// Why it was not granted.
pub(crate) fn raise(priority: u8) -> Result<(), String> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the parameter lives through the call; 0 is the calling thread.
    let result = super::check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) });
    result.map(|_| ()).map_err(|error| error.to_string())
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
