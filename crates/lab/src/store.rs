//! Results on disk: one file per run, named after what was run, so that work is resumed, shared out and merged by file
//! names alone.
//!
//! ```text
//! DIR/manifest.json               what was run: scenario, versions, points, seeds, hashes of the event logs
//! DIR/runs/KEY/SEED.json          a run's values; KEY is a digest of engine version and world
//! DIR/notes/DIGEST.json           what many runs say in words of their flows and links, such as settings
//! DIR/recordings/KEY/SEED.json    what happened when, of the runs for which that was asked
//! DIR/report.html, results.json   made from the above
//! ```
//!
//! The text of a run is nearly always that of the other runs of its point. The first run of a point has its
//! notes in a file that is named after their digest; the others name that file and keep what differs. Whoever writes
//! the same notes writes the same file, so that programs that share a directory need not agree on anything.
//!
//! A file is written beside its place, flushed to disk and renamed: it is there whole or not at all, and a run counts
//! as done only once it is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::panics::lock;
use crate::record::{Recording, RunRecord};
use crate::scenario::{Point, Scenario};

mod merge;

pub(crate) use merge::Plan;

/// The form of the files; results in another form are not read.
pub const SCHEMA: u32 = 4;

/// So many records are held at a time while results are read.
pub(crate) const AT_ONCE: usize = 256;

/// A directory with results.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    notes: Arc<Mutex<KnownNotes>>,
}

/// What is said in words of each flow, then of each link of a run.
type Notes = Vec<BTreeMap<String, String>>;

/// Notes that were read or written.
#[derive(Debug, Default)]
struct KnownNotes {
    /// By their digest.
    files: BTreeMap<String, Arc<Notes>>,
    /// The digest of those that the runs of a point are stored with, by the point's key.
    of_points: BTreeMap<Digest, String>,
}

/// Why results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system said no.
    #[error("cannot {verb} {}: {error}", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which file.
        path: PathBuf,
        /// What came of it.
        error: io::Error,
    },
    /// There is something else in the file.
    #[error("{} is not what it should be: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Two results that exclude each other.
    #[error("{0}")]
    Conflict(String),
}

/// What a file of any form says about its form.
#[derive(Deserialize)]
struct Form {
    schema: u32,
}

/// A run on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Engine version and world.
    pub key: Digest,
    /// The seed.
    pub seed: u64,
    /// The file with the notes that the record leaves out, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What was measured; with `notes`, without what these say.
    pub record: RunRecord,
}

/// A run as it was read from its file.
struct RunInFile {
    record: RunRecord,
    notes: Option<String>,
    text: Vec<u8>,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of this crate.
    pub thalweg: String,
    /// The engine and its version.
    pub engine: String,
    /// How this program was built.
    pub build: String,
    /// The scenario.
    pub scenario: ManifestScenario,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds of every point were asked for.
    pub seeds: u64,
    /// The cap on seeds, those of `until` included, that was asked for, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seeds: Option<u64>,
    /// Which part of the work this is, as "i/n".
    pub shard: Option<String>,
    /// The only seed that was asked for, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_seed: Option<u64>,
    /// The only point that was asked for, if so, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_point: Option<usize>,
    /// Every point, in the order of the scenario.
    pub points: Vec<ManifestPoint>,
    /// Every run that is done, by point and seed.
    pub runs: Vec<ManifestRun>,
    /// Whether everything that was asked for is done.
    pub complete: bool,
}

/// The scenario of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestScenario {
    /// Its short name.
    pub name: String,
    /// The file as it was named.
    pub file: String,
    /// SHA-256 of its text.
    pub sha256: Digest,
    /// Its text: enough to run it again.
    pub text: String,
}

/// A point of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestPoint {
    /// What is varied here.
    pub name: String,
    /// What its results are stored under.
    pub key: Digest,
    /// How each flow was set up, in its stack's own words, by the flow's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A run of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestRun {
    /// Number of the point, from 0.
    pub point: usize,
    /// The seed.
    pub seed: u64,
    /// What tells it apart on the wire; empty if it panicked.
    pub wire_hash: String,
    /// What tells apart how its endpoints decided.
    pub decisions_hash: String,
    /// Why it failed, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl ManifestRun {
    /// What differs first between this run and another of the same point and seed: "wire" or "decisions", its own hash
    /// and the other's.
    pub fn differs<'a>(&'a self, other: &'a ManifestRun) -> Option<(&'static str, &'a str, &'a str)> {
        [("wire", &self.wire_hash, &other.wire_hash), ("decisions", &self.decisions_hash, &other.decisions_hash)]
            .into_iter()
            .find(|(_, own, others)| own != others)
            .map(|(what, own, others)| (what, own.as_str(), others.as_str()))
    }
}

/// What the results of a point are stored under.
pub fn key(engine: &str, point: &Point) -> Digest {
    Digest::of(format!("{SCHEMA}\n{engine}\n{}", point.digest).as_bytes())
}

/// How this program was built, as far as it can know.
pub fn build() -> String {
    let checks = if cfg!(debug_assertions) { "debug assertions" } else { "release" };
    format!("{}-{}, {checks}", std::env::consts::ARCH, std::env::consts::OS)
}

impl Manifest {
    /// A manifest of a scenario with nothing done yet.
    pub fn new(scenario: &Scenario, engine: &str) -> Manifest {
        Manifest {
            schema: SCHEMA,
            thalweg: env!("CARGO_PKG_VERSION").to_owned(),
            engine: engine.to_owned(),
            build: build(),
            scenario: ManifestScenario {
                name: scenario.name.clone(),
                file: scenario.file.clone(),
                sha256: scenario.digest.clone(),
                text: scenario.text.clone(),
            },
            first_seed: scenario.first_seed,
            seeds: scenario.seeds,
            max_seeds: None,
            shard: None,
            only_seed: None,
            only_point: None,
            points: scenario
                .points
                .iter()
                .map(|point| ManifestPoint {
                    name: point.name(&scenario.axes),
                    key: key(engine, point),
                    settings: BTreeMap::new(),
                })
                .collect(),
            runs: Vec::new(),
            complete: false,
        }
    }

    /// Whether only a part of the scenario's runs was asked for: a shard, one point or one seed.
    pub fn is_part(&self) -> bool {
        self.shard.is_some() || self.only_point.is_some() || self.only_seed.is_some()
    }

    /// Where each point of this manifest is in `scenario`, as [`place`](Self::place) states.
    pub(crate) fn places(&self, scenario: &Scenario) -> Vec<Option<usize>> {
        (0..self.points.len()).map(|point| self.place(scenario, point)).collect()
    }

    /// Where a point of this manifest is in `scenario`, as read by a program that may have fewer stacks; none if it has
    /// not.
    pub fn place(&self, scenario: &Scenario, point: usize) -> Option<usize> {
        let name = &self.points.get(point)?.name;
        let is_it = |point: &Point| point.name(&scenario.axes) == *name;
        // Nearly always it is where it was; a search for each of thousands of runs would take minutes.
        if scenario.points.get(point).is_some_and(is_it) {
            return Some(point);
        }
        scenario.points.iter().position(is_it)
    }

    /// The scenario, read again from the text that was kept; files it names are looked for where they were.
    ///
    /// # Errors
    /// When a file it names is no longer there, or its rules have changed.
    pub fn scenario(&self, stacks: &[crate::scenario::StackInfo]) -> Result<Scenario, crate::scenario::ScenarioError> {
        let directory = Path::new(&self.scenario.file).parent().unwrap_or(Path::new(""));
        Scenario::parse(&self.scenario.file, &self.scenario.text, directory, stacks)
    }
}

/// The notes of every part of a run.
fn parts(record: &mut RunRecord) -> impl Iterator<Item = &mut BTreeMap<String, String>> {
    record.flows.iter_mut().chain(&mut record.links).map(|part| &mut part.notes)
}

impl Store {
    fn at(directory: &Path) -> Store {
        Store { directory: directory.to_owned(), notes: Arc::default() }
    }

    /// Results in `directory`, which is made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(directory: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(directory).map_err(|error| io_error("make", directory, error))?;
        Ok(Store::at(directory))
    }

    /// Results that are in `directory` already.
    ///
    /// # Errors
    /// When there is no manifest.
    pub fn open(directory: &Path) -> Result<(Store, Manifest), StoreError> {
        let store = Store::at(directory);
        let manifest = store.manifest()?;
        Ok((store, manifest))
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn run_path(&self, kind: &str, key: &Digest, seed: u64) -> PathBuf {
        self.directory.join(kind).join(key.short()).join(format!("{seed}.json"))
    }

    /// A run that is done; none if it is not there, damaged, or of another form.
    pub fn run(&self, key: &Digest, seed: u64) -> Option<RunRecord> {
        Some(self.run_in_file(key, seed)?.record)
    }

    /// The run, with the text of its file and the name of the notes that this leaves out.
    fn run_in_file(&self, key: &Digest, seed: u64) -> Option<RunInFile> {
        let text = fs::read(self.run_path("runs", key, seed)).ok()?;
        let mut run: StoredRun = serde_json::from_slice(&text).ok()?;
        if run.schema != SCHEMA || run.key != *key || run.seed != seed {
            return None;
        }
        if let Some(name) = &run.notes {
            let shared = self.notes(name)?;
            for (own, shared) in parts(&mut run.record).zip(shared.iter()) {
                for (what, text) in shared {
                    own.entry(what.clone()).or_insert_with(|| text.clone());
                }
                own.retain(|_, text| !text.is_empty());
            }
        }
        Some(RunInFile { record: run.record, notes: run.notes, text })
    }

    /// Whether there is a file for a run. Whether that can be read is another question: [`run`](Self::run).
    pub fn has_run(&self, key: &Digest, seed: u64) -> bool {
        self.run_path("runs", key, seed).exists()
    }

    fn notes_path(&self, name: &str) -> PathBuf {
        self.directory.join("notes").join(format!("{name}.json"))
    }

    /// The notes in a file; none if it is not there or damaged.
    fn notes(&self, name: &str) -> Option<Arc<Notes>> {
        if let Some(known) = lock(&self.notes).files.get(name) {
            return Some(Arc::clone(known));
        }
        let text = fs::read(self.notes_path(name)).ok().filter(|text| Digest::of(text).short() == name)?;
        let notes: Arc<Notes> = Arc::new(serde_json::from_slice(&text).ok()?);
        lock(&self.notes).files.insert(name.to_owned(), Arc::clone(&notes));
        Some(notes)
    }

    /// The file with the notes for the runs of a point: those of `record` if it is the first.
    fn shared_notes(&self, key: &Digest, record: &mut RunRecord) -> Result<(String, Arc<Notes>), StoreError> {
        // Held while the file is written: no run is to name one that is not there.
        let mut known = lock(&self.notes);
        if let Some(name) = known.of_points.get(key)
            && let Some(notes) = known.files.get(name)
        {
            return Ok((name.clone(), Arc::clone(notes)));
        }
        let notes: Notes = parts(record).map(|notes| notes.clone()).collect();
        let text = serde_json::to_vec(&notes)
            .map_err(|error| StoreError::Content { path: self.notes_path(""), message: error.to_string() })?;
        let name = Digest::of(&text).short().to_owned();
        let path = self.notes_path(&name);
        // One that is damaged is written again.
        if !fs::read(&path).is_ok_and(|there| there == text) {
            write_whole(&path, &text)?;
        }
        let notes = Arc::new(notes);
        known.files.insert(name.clone(), Arc::clone(&notes));
        known.of_points.insert(key.clone(), name.clone());
        Ok((name, notes))
    }

    /// Stores a run; once this returns, it is done.
    ///
    /// # Errors
    /// When it could not be written, in full and for good.
    pub fn save_run(&self, key: &Digest, seed: u64, record: &RunRecord) -> Result<(), StoreError> {
        let mut run = StoredRun { schema: SCHEMA, key: key.clone(), seed, notes: None, record: record.clone() };
        // An empty text stands for what this run does not say and others do.
        let can_share = parts(&mut run.record).all(|notes| notes.values().all(|text| !text.is_empty()));
        if can_share && parts(&mut run.record).any(|notes| !notes.is_empty()) {
            let (name, shared) = self.shared_notes(key, &mut run.record)?;
            if parts(&mut run.record).count() == shared.len() {
                for (own, shared) in parts(&mut run.record).zip(shared.iter()) {
                    let absent: Vec<String> = shared.keys().filter(|what| !own.contains_key(*what)).cloned().collect();
                    own.retain(|what, text| shared.get(what) != Some(text));
                    own.extend(absent.into_iter().map(|what| (what, String::new())));
                }
                run.notes = Some(name);
            }
        }
        self.write_json(&self.run_path("runs", key, seed), &run)
    }

    /// What happened when in a run, if that was kept.
    pub fn recording(&self, key: &Digest, seed: u64) -> Option<Recording> {
        read_json(&self.run_path("recordings", key, seed)).ok()
    }

    /// Whether there is a recording, without reading it.
    pub fn has_recording(&self, key: &Digest, seed: u64) -> bool {
        self.run_path("recordings", key, seed).is_file()
    }

    /// Stores what happened when.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn save_recording(&self, key: &Digest, seed: u64, recording: &Recording) -> Result<(), StoreError> {
        self.write_json(&self.run_path("recordings", key, seed), recording)
    }

    /// The manifest.
    ///
    /// # Errors
    /// When it is not there or of another form.
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        let path = self.directory.join("manifest.json");
        let text = fs::read(&path).map_err(|error| io_error("read", &path, error))?;
        // The form first: a manifest of another form need not have the fields of this one.
        let Form { schema } = from_json(&path, &text)?;
        if schema != SCHEMA {
            let message = format!("it has form {schema}, this program reads {SCHEMA}; run the scenario again");
            return Err(StoreError::Content { path, message });
        }
        from_json(&path, &text)
    }

    /// Stores the manifest.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn save_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.write_with("manifest.json", |out| Ok(serde_json::to_writer(out, manifest)?))?;
        Ok(())
    }

    /// Writes a file below the directory, whole or not at all.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(name);
        write_whole(&path, content)?;
        Ok(path)
    }

    /// As [`write`](Self::write), of what is too large to be held at once.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write_with(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(name);
        write_whole_with(&path, |file| {
            let mut buffered = io::BufWriter::new(file);
            content(&mut buffered)?;
            io::Write::flush(&mut buffered)
        })?;
        Ok(path)
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_vec(value)
            .map_err(|error| StoreError::Content { path: path.to_owned(), message: error.to_string() })?;
        write_whole(path, &text)
    }
}

/// An error of the file system.
pub(crate) fn io_error(verb: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Io { verb, path: path.to_owned(), error }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    from_json(path, &fs::read(path).map_err(|error| io_error("read", path, error))?)
}

fn from_json<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text)
        .map_err(|error| StoreError::Content { path: path.to_owned(), message: error.to_string() })
}

/// Writes a file whole or not at all, a pipe or a device in place, and makes the directory that it is in.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    write_whole_with(path, |file| file.write_all(content))
}

/// As [`write_whole`], of what is too large to be held at once.
fn write_whole_with(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), StoreError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(|error| io_error("make", directory, error))?;
    thalweg_output::write_with(path, content).map_err(|error| io_error("write", path, error))
}

#[cfg(test)]
mod tests;
