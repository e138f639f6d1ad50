//! The streams of a command: data as JSON lines on stdout, messages for people on stderr.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use thalweg::Endpoint;

/// Whether data for stdout were lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether stdout did not take all that was written to it. The program has not done what it was asked then.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// One JSON object on a line of its own on stdout.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => note(&io::Error::other(error)),
    }
}

/// Warns of what does not work as well as it could on this machine.
pub fn warnings(endpoint: &Endpoint) {
    for warning in endpoint.warnings() {
        eprintln!("thalweg: {warning}");
    }
}

/// A line of data on stdout.
pub fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Data on stdout as they are. Returns whether anybody reads on.
pub fn bytes(data: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(data).and_then(|()| out.flush());
    drop(out);
    match written {
        Ok(()) => true,
        Err(error) => {
            note(&error);
            false
        }
    }
}

/// Reports data that were lost, once.
pub fn note(error: &io::Error) {
    // Whoever closes our output early has seen enough.
    if error.kind() != io::ErrorKind::BrokenPipe && !LOST.swap(true, Ordering::Relaxed) {
        let advice = if error.kind() == io::ErrorKind::StorageFull { "; make room" } else { "" };
        eprintln!("thalweg: cannot write to standard output: {error}{advice}");
    }
}
