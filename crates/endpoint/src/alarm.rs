//! One timer per driver, set as rarely as possible, and exact where pacing needs it.
//!
//! tokio's timers ring at the next millisecond. A pacer that lets a train of 64 kB leave every 500 microseconds (1
//! Gbit/s) would be late for most of them. So a deadline that is near gets a timer of the kernel's own where there is
//! one (Linux: timerfd, exact to some ten microseconds), and tokio's stays behind it as a safety net, which also lets
//! tests that pause tokio's clock pass time at will.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use thalweg_units::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;

/// Deadlines nearer than this get an exact timer; for those farther away a millisecond more makes no difference.
const NEAR: Duration = Duration::from_millis(4);
/// Deadlines nearer than this are not worth going to sleep for: setting a timer and waking up takes longer.
const IMMINENT: Duration = Duration::from_micros(15);

/// How often in a row that holds: a clock that stands still (tests pause it) must not be waited for in a loop.
const SPINS_MOST: u32 = 200;

/// Wakes the driver at a deadline.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    coarse: Pin<Box<Sleep>>,
    /// What `coarse` is set to; `None` once it has rung.
    armed: Option<Instant>,
    exact: Option<ExactTimer>,
    /// How often in a row the deadline was imminent.
    spins: u32,
}

impl Alarm {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            coarse: Box::pin(tokio::time::sleep_until(clock.to_tokio(clock.now()))),
            armed: None,
            exact: ExactTimer::new(),
            spins: 0,
        }
    }

    /// Ready if `deadline` has come, or will before anything else could be done. Else the task of `cx` is woken at
    /// `deadline` or, when a timer for an earlier moment is still running, at that one: moving a timer costs more than
    /// one wake-up too many.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        let wait = deadline.saturating_since(self.clock.now());
        if wait < IMMINENT && self.spins < SPINS_MOST {
            self.spins += 1;
            return Poll::Ready(());
        }
        self.spins = 0;
        if wait < NEAR
            && let Some(exact) = &mut self.exact
            && exact.poll(cx, deadline, wait).is_ready()
        {
            return Poll::Ready(());
        }
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.coarse.as_mut().reset(self.clock.to_tokio(deadline));
            self.armed = Some(deadline);
        }
        let rung = self.coarse.as_mut().poll(cx);
        if rung.is_ready() {
            self.armed = None;
        }
        rung
    }
}

#[cfg(target_os = "linux")]
use linux::ExactTimer;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        os::fd::OwnedFd,
        task::{Context, Poll, ready},
        time::Duration,
    };

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use thalweg_units::Instant;
    use tokio::io::unix::AsyncFd;

    /// A timer of the kernel's.
    #[derive(Debug)]
    pub(super) struct ExactTimer {
        timer: AsyncFd<OwnedFd>,
        /// What it is set to; `None` once it has rung.
        armed: Option<Instant>,
    }

    impl ExactTimer {
        /// `None` if the system has none to give.
        pub(super) fn new() -> Option<Self> {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
            // Deprecated for types that do not keep their descriptor open; this one does. Its successor is `unsafe` and
            // newer than the tokio we ask for.
            #[allow(deprecated)]
            let timer = AsyncFd::with_interest(timer, tokio::io::Interest::READABLE).ok()?;
            Some(Self { timer, armed: None })
        }

        /// Wakes the task at `deadline`, which is `wait` from now.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant, wait: Duration) -> Poll<()> {
            if self.armed != Some(deadline) {
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                // Shorter than a second, see `NEAR`.
                let value = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
                let setting = Itimerspec { it_interval: zero, it_value: value };
                if timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting).is_err() {
                    return Poll::Pending;
                }
                self.armed = Some(deadline);
            }
            // Readiness is edge-triggered, so nothing needs to be read; one that is left over from an earlier deadline
            // only means looking at the clock once more.
            if let Ok(mut rung) = ready!(self.timer.poll_read_ready(cx)) {
                rung.clear_ready();
            }
            self.armed = None;
            Poll::Ready(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct ExactTimer;

#[cfg(not(target_os = "linux"))]
impl ExactTimer {
    fn new() -> Option<Self> {
        None
    }

    fn poll(&mut self, _: &mut Context<'_>, _: Instant, _: Duration) -> Poll<()> {
        Poll::Pending
    }
}
