//! The scenarios that come with Thalweg are sound: they can be read, and each asks something and expects something.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::scenario::{Scenario, presets};

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
        assert!(scenario.text.contains("\ntier = "), "{} does not say when it is judged", file.display());
    }
    assert!(files.len() >= 14, "{}", files.len());
}

/// The part of `scenarios/README.md` about one folder: a row for each scenario.
fn rows(root: &Path, folder: &str) -> String {
    let mut files: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut out = "| scenario | what it is about, and its question |\n|---|---|\n".to_owned();
    for file in files {
        let scenario = Scenario::load(&file, &SimEngine::default().stacks()).unwrap_or_else(|error| panic!("{error}"));
        let path = file.strip_prefix(root).unwrap().display().to_string();
        let _ = writeln!(out, "| [`{}`]({path}) | {}. {} |", scenario.name, scenario.title, scenario.question);
    }
    out
}

#[test]
fn the_page_of_the_scenarios_lists_all_with_their_questions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let page = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut folders: Vec<String> = files(&root)
        .iter()
        .map(|file| file.parent().unwrap().strip_prefix(&root).unwrap().display().to_string())
        .filter(|folder| !folder.is_empty())
        .collect();
    folders.sort();
    folders.dedup();
    let mut listed = 1; // the tour, which is in no folder
    for folder in &folders {
        let rows = rows(&root, folder);
        let section = format!("\n## {folder}\n");
        let (_, after) = page.split_once(&section).unwrap_or_else(|| panic!("scenarios/README.md has no ## {folder}"));
        let found = after.split_once("\n## ").map_or(after, |(section, _)| section);
        assert!(
            found.trim_end().ends_with(&format!("\n{}", rows.trim_end())),
            "scenarios/README.md is old; the part of {folder} ends with\n{rows}"
        );
        assert!(page.contains(&format!("\n| [`{folder}`](#{}) | ", folder.replace('/', ""))), "no row of {folder}");
        listed += rows.lines().count() - 2;
    }
    assert_eq!(listed, files(&root).len(), "a scenario is in no folder, and is not the tour");
}

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// What stands on a page of the book between `<!-- NAME: COMMAND -->` and `<!-- end of NAME -->`, and the command that
/// writes it.
fn generated(page: &str, name: &str) -> (String, String) {
    let (_, after) = page.split_once(&format!("<!-- {name}: ")).unwrap();
    let (command, after) = after.split_once(" -->\n").unwrap();
    let (written, _) = after.split_once(&format!("<!-- end of {name} -->")).unwrap();
    (command.to_owned(), written.trim().to_owned())
}

#[test]
fn generated_parts_of_the_book_are_what_the_code_says() {
    let block = |text: &str| format!("```text\n{}\n```", text.trim_end());
    let presets: Vec<String> =
        presets::PRESETS.iter().map(|preset| format!("{:<14} {}", preset.name, preset.doc)).collect();
    for (file, name, expected) in [
        ("lab-metrics.md", "metrics", thalweg_lab::metric::markdown().trim().to_owned()),
        ("lab-keys.md", "flow keys", block(&thalweg_lab::scenario::flow_keys())),
        ("lab-keys.md", "keys", block(&thalweg_lab::scenario::keys())),
        ("lab-keys.md", "presets", block(&presets.join("\n"))),
    ] {
        let (command, written) = generated(&page(file), name);
        assert!(written == expected, "docs/{file} is old; put the output of `{command}` between the marks of {name}");
    }
}

#[test]
fn the_book_describes_every_queue_discipline() {
    let page = page("queues.md");
    for (name, ..) in thalweg_link::Discipline::ALL {
        assert!(page.contains(&format!("\n| `{name}` |")), "docs/queues.md has no row for {name}");
    }
}

#[test]
fn the_scenario_of_the_guide_can_be_read() {
    let guide = page("lab.md");
    let (_, after) = guide.split_once("```toml\ntitle = ").unwrap();
    let (scenario, _) = after.split_once("```").unwrap();
    let text = format!("title = {scenario}");
    let scenario = Scenario::parse("lab.md", &text, Path::new(""), &SimEngine::default().stacks())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.points.len(), 4, "the guide says so");
    assert_eq!(scenario.expectations.len(), 2);
}
