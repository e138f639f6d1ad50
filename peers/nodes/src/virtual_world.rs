//! The simulator's time and chance for a stack that asks the system for both.
//!
//! The linker leads every call of `clock_gettime` and of BoringSSL's `RAND_bytes` here (`build.rs`). A thread that is
//! [`within`] a host's call sees the host's time and the host's dice; every other thread, and this one afterwards, sees
//! the system's. So runs in parallel have each their own, and whatever else the program does has the real ones.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;

use thalweg_link::Dice;
use thalweg_units::Instant;

use crate::tls::DATE;

/// The time of no host.
const REAL: u64 = u64::MAX;
/// Seconds on the clock at the start of every run: no stack is to see times near zero.
const START: u64 = 1_000_000;

thread_local! {
    // Constants without destructors: these can be asked for at any time in a thread's life, as clocks are.
    static NOW: Cell<u64> = const { Cell::new(REAL) };
    static DICE: Cell<*mut Dice> = const { Cell::new(ptr::null_mut()) };
}

/// Gives the system's time and chance back, also when what was called panics.
struct Within;

impl Drop for Within {
    fn drop(&mut self) {
        NOW.set(REAL);
        DICE.set(ptr::null_mut());
    }
}

/// Runs `call` at a host's time and with its dice. Not to be nested.
pub(crate) fn within<R>(now: Instant, dice: &mut Dice, call: impl FnOnce() -> R) -> R {
    NOW.set(now.as_nanos().min(REAL - 1));
    DICE.set(ptr::from_mut(dice));
    let _within = Within;
    call()
}

unsafe extern "C" {
    fn __real_clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int;
    fn __real_RAND_bytes(buf: *mut u8, len: usize) -> c_int;
}

/// `clock_gettime(2)`.
///
/// # Safety
/// As its own: `time` is null or can be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let now = NOW.get();
    let start = match clock {
        libc::CLOCK_MONOTONIC => START,
        // Only the header of a log has it, which is to be the same each time.
        libc::CLOCK_REALTIME => DATE.as_secs(),
        _ => REAL,
    };
    if now == REAL || start == REAL || time.is_null() {
        // SAFETY: the caller's own call.
        return unsafe { __real_clock_gettime(clock, time) };
    }
    let seconds = start + now / 1_000_000_000;
    let value = libc::timespec {
        tv_sec: libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX),
        tv_nsec: (now % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: not null, and the caller grants that it can be written to.
    unsafe { time.write(value) };
    0
}

/// BoringSSL's `RAND_bytes`.
///
/// # Safety
/// As its own: `len` bytes at `buf` can be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_RAND_bytes(buf: *mut u8, len: usize) -> c_int {
    let dice = DICE.get();
    if dice.is_null() || buf.is_null() {
        // SAFETY: the caller's own call.
        return unsafe { __real_RAND_bytes(buf, len) };
    }
    // SAFETY: set by `within` for as long as it holds the dice exclusively, and nothing in here calls back; the caller
    // grants that the buffer can be written to.
    let (dice, bytes) = unsafe { (&mut *dice, std::slice::from_raw_parts_mut(buf, len)) };
    fill(dice, bytes);
    1
}

/// Random bytes.
pub(crate) fn fill(dice: &mut Dice, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&dice.bits().to_le_bytes()[..chunk.len()]);
    }
}
