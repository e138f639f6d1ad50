//! The scenarios that come with Thalweg are sound: they can be read, and each asks something and expects something.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use thalweg_lab::engine::SimEngine;
use thalweg_lab::record::Engine;
use thalweg_lab::scenario::Scenario;

/// Every scenario of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

#[test]
fn every_scenario_can_be_read_and_expects_something() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"));
    for file in &files {
        let scenario = Scenario::load(file, &SimEngine::default().stacks()).unwrap_or_else(|error| panic!("{error}"));
        assert!(scenario.question.ends_with('?'), "{}", file.display());
        assert!(!scenario.expectations.is_empty(), "{}", file.display());
    }
    assert!(files.len() >= 14, "{}", files.len());
}

#[test]
fn every_metric_is_in_the_documentation() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, after) = docs.split_once("<!-- metrics: thalweg lab list --markdown -->\n").unwrap();
    let (written, _) = after.split_once("<!-- end of metrics -->").unwrap();
    assert!(
        written.trim() == thalweg_lab::metric::markdown().trim(),
        "docs/lab.md is old; put the output of `thalweg lab list --markdown` between its two marks"
    );
}
