//! Measures how late a thread of ordinary programs' priority is woken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use thalweg_units::Duration;

use crate::lateness::{Lateness, LatenessSummary};
use crate::system;

/// Time between two looks.
const STEP: Duration = Duration::from_millis(5);

/// A thread that sleeps again and again, until it is stopped.
pub(crate) struct WakeUps {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Lateness>,
}

impl WakeUps {
    /// Starts it, at this real-time priority or at the caller's.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(crate) fn start(priority: Option<u8>) -> io::Result<WakeUps> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("wake-ups".into()).spawn(move || {
            system::fine_timers();
            if let Some(priority) = priority {
                let _ = system::raise(priority);
            }
            let (mut lateness, mut poll) = (Lateness::default(), system::Poll::default());
            while !stopped.load(Ordering::Relaxed) {
                let due = system::now() + STEP;
                if poll.wait(Some(STEP)).is_err() {
                    break;
                }
                lateness.record(system::now().saturating_since(due));
            }
            lateness
        })?;
        Ok(WakeUps { stop, thread })
    }

    /// Ends it and returns what it has found.
    pub(crate) fn stop(self) -> LatenessSummary {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_or_else(|_| LatenessSummary::default(), |lateness| lateness.summary())
    }
}
