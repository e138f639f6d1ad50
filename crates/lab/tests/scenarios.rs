//! The scenarios that come with Thalweg are sound: they can be read, and each asks something and expects something.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use thalweg_lab::engine::SimEngine;
use thalweg_lab::record::Engine;
use thalweg_lab::scenario::Scenario;

#[test]
fn every_scenario_can_be_read_and_expects_something() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = Scenario::load(&file, &SimEngine::default().stacks()).unwrap_or_else(|error| panic!("{error}"));
        assert!(scenario.question.ends_with('?'), "{}", file.display());
        assert!(!scenario.expectations.is_empty(), "{}", file.display());
        count += 1;
    }
    assert!(count >= 14, "{count}");
}
