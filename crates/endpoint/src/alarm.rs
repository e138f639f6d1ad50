//! One timer per driver, set as rarely as possible.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use thalweg_units::Instant;
use tokio::time::Sleep;

use crate::clock::Clock;

/// Wakes the driver at a deadline.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    sleep: Pin<Box<Sleep>>,
    /// What `sleep` is set to; `None` once it has rung.
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, sleep: Box::pin(tokio::time::sleep_until(clock.to_tokio(clock.now()))), armed: None }
    }

    /// Ready if `deadline` has come; else the task of `cx` is woken at `deadline` or, when a timer for an earlier moment
    /// is still running, at that one: moving a timer costs more than one wake-up too many.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.sleep.as_mut().reset(self.clock.to_tokio(deadline));
            self.armed = Some(deadline);
        }
        let rung = self.sleep.as_mut().poll(cx);
        if rung.is_ready() {
            self.armed = None;
        }
        rung
    }
}
