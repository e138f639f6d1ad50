//! What goes where: data as JSON lines on stdout, words for people on stderr.

use std::io::Write as _;

use serde::Serialize;
use thalweg::Endpoint;

/// One JSON object on a line of its own on stdout.
pub fn json(value: &impl Serialize) {
    let Ok(mut line) = serde_json::to_string(value) else { return };
    line.push('\n');
    let mut out = std::io::stdout().lock();
    // Whoever closes our output early has seen enough.
    let _ = out.write_all(line.as_bytes());
    let _ = out.flush();
}

/// Tells what does not work as well as it could on this machine.
pub fn warnings(endpoint: &Endpoint) {
    for warning in endpoint.warnings() {
        eprintln!("thalweg: {warning}");
    }
}

/// A line of data on stdout.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
}
