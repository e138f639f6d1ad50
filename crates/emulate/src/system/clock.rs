//! The clocks of the system. The only place of the crate that reads one.

use thalweg_units::{Duration, Instant};

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// The monotonic clock, on which everything here is timed.
pub(crate) fn now() -> Instant {
    Instant::ZERO + read(libc::CLOCK_MONOTONIC)
}

/// How long the calling thread has had a processor.
pub(crate) fn thread_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How long the machine has been suspended since it was started: the monotonic clock does not count that.
pub(crate) fn suspended() -> Duration {
    read(libc::CLOCK_BOOTTIME).saturating_sub(read(libc::CLOCK_MONOTONIC))
}

/// The time of day of the monotonic clock's origin: what to take from the kernel's timestamps of packets.
pub(crate) fn realtime_offset() -> Duration {
    read(libc::CLOCK_REALTIME).saturating_sub(read(libc::CLOCK_MONOTONIC))
}
