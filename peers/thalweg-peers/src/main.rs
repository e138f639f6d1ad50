//! The `thalweg` program with rival stacks in its lab: `thalweg-peers lab run scenarios/recovery/reordering.toml`.

use std::process::ExitCode;

use thalweg_lab::engine::SimEngine;

fn main() -> ExitCode {
    // What the rivals are is part of what the results are of.
    let engine = || SimEngine::new(nodes::registry(), &format!("thalweg-peers ({})", nodes::versions()));
    thalweg_cli::main_as("thalweg-peers", std::env::args_os(), engine)
}
