//! Scenarios that are named on the command line, by file or by folder.

use std::path::{Path, PathBuf};

use thalweg_lab::engine::Engine;
use thalweg_lab::scenario::Scenario;

use crate::failure::{Context as _, Failure, Result};

/// The scenario files that are named, and those in the folders that are named, sorted by name.
pub(super) fn scenario_files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    files(named, false)
}

/// The same, and those in all folders below those that are named.
pub(super) fn files_below(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    files(named, true)
}

fn files(named: &[PathBuf], and_below: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let inside = in_folder(path, and_below)?;
        if inside.is_empty() {
            return Err(Failure::usage(format!("{} has no scenarios; they end in .toml", path.display())));
        }
        files.extend(inside);
    }
    Ok(files)
}

/// The scenario files in a folder, sorted by name, and those below it if asked for. Links to folders are not followed:
/// they could lead back.
fn in_folder(folder: &Path, and_below: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).context(format!("cannot read {}", folder.display()))? {
        let Ok(entry) = entry else { continue };
        let path = entry.path();
        if and_below && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(in_folder(&path, true)?);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads scenarios, all of them before any is run: a mistake in the last one shows at once.
pub(super) fn load_scenarios(named: &[PathBuf], engine: &dyn Engine) -> Result<Vec<Scenario>> {
    let files = scenario_files(named)?;
    let stacks = engine.stacks();
    let mut scenarios = Vec::new();
    let mut wrong = Vec::new();
    for file in &files {
        match Scenario::load(file, &stacks) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(scenarios) } else { Err(Failure::usage(wrong.join("\n"))) }
}

/// Warns of keys under their former names.
pub(super) fn tell_renamed(scenario: &Scenario) {
    for renamed in &scenario.remarks.renamed {
        eprintln!("thalweg: {renamed}");
    }
}

/// Refuses a point that a scenario does not have.
pub(super) fn check_point(scenario: &Scenario, point: usize) -> Result<()> {
    let (file, count) = (&scenario.file, scenario.points.len());
    match count {
        count if point < count => Ok(()),
        1 => Err(Failure::usage(format!("{file} has 1 point, so --point can only be 0"))),
        count => Err(Failure::usage(format!(
            "{file} has {count} points, so --point goes from 0 to {}",
            count.saturating_sub(1)
        ))),
    }
}
