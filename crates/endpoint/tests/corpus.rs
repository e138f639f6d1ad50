//! Replay of the fuzz targets' corpora: inputs named `ok-…` are accepted, those named `bad-…` are refused.
//!
//! The fuzzer itself needs a nightly compiler (see CONTRIBUTING.md). A crash that it finds is added to
//! `fuzz/corpus/TARGET` under such a name, and is replayed here from then on.

#![allow(clippy::unwrap_used)]

use std::path::Path;

#[path = "../../../fuzz/targets/frames.rs"]
mod frames;
#[path = "../../../fuzz/targets/parameters.rs"]
mod parameters;
#[path = "../../../fuzz/targets/saved_paths.rs"]
mod saved_paths;

/// Runs a target on every file of its corpus.
fn replay(target: &str, run: impl Fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let (mut accepted, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_accepted = run(&std::fs::read(&path).unwrap());
        if name.starts_with("ok-") {
            assert!(is_accepted, "{target}/{name} is refused");
            accepted += 1;
        } else if name.starts_with("bad-") {
            assert!(!is_accepted, "{target}/{name} is accepted");
            refused += 1;
        }
    }
    assert!(accepted >= 5 && refused >= 5, "{accepted} and {refused} files in {}", folder.display());
}

#[test]
fn frames_of_the_corpus() {
    replay("frames", frames::run);
}

#[test]
fn transport_parameters_of_the_corpus() {
    replay("parameters", parameters::run);
}

#[test]
fn files_of_saved_paths_of_the_corpus() {
    replay("saved_paths", saved_paths::run);
}
