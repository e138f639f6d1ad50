//! Ctrl-C while files move: the first ends the transfers, the second the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_files::client::Fetcher;
use tokio::task::JoinHandle;

#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, Result};

/// Exit code of a program that Ctrl-C has ended, as shells have it, where there are no signals to end by.
const INTERRUPTED: u8 = 130;

/// Stops the transfers of a fetcher at Ctrl-C, until it is dropped.
#[derive(Debug)]
pub struct Interrupt {
    came: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Interrupt {
    /// From now on: also one that comes before this runtime does anything else. A second one is noticed however soon it
    /// comes.
    pub fn stops(fetcher: &Fetcher) -> Self {
        let came = Arc::new(AtomicBool::new(false));
        let (fetcher, noted) = (fetcher.clone(), came.clone());
        #[cfg(unix)]
        let signals = signal(SignalKind::interrupt());
        #[cfg(windows)]
        let signals = tokio::signal::windows::ctrl_c();
        let task = tokio::spawn(async move {
            let Ok(mut signals) = signals else { return };
            if signals.recv().await.is_some() {
                noted.store(true, Ordering::Relaxed);
                fetcher.stop();
            }
            // Whatever the first one waits for is not worth waiting for.
            if signals.recv().await.is_some() {
                std::process::exit(i32::from(end()));
            }
        });
        Interrupt { came, task }
    }

    /// What a command ends with that came to `result`: an interrupted one by the signal.
    pub fn mark(&self, result: Result<()>) -> Result<()> {
        let interrupted = self.came.load(Ordering::Relaxed);
        result.map_err(|failure| if interrupted { Failure::Interrupted(failure.to_string()) } else { failure })
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends the program by SIGINT, so that a shell, or the script it runs, sees that it was interrupted and stops too.
/// Returns the exit code to end with where there are no signals.
pub fn end() -> u8 {
    #[cfg(unix)]
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGINT);
    INTERRUPTED
}
