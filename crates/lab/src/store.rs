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
//! What a run says in words is nearly always what the other runs of its point say. The first run of a point has its notes
//! in a file that is named after their digest; the others name that file and keep what differs. Whoever writes the same
//! notes writes the same file, so that programs that share a directory need not agree on anything.
//!
//! A file is written beside its place, flushed to disk and renamed: it is there whole or not at all, and a run counts as
//! done only once it is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::record::{Recording, RunRecord};
use crate::runner::lock;
use crate::scenario::{Point, Scenario};

/// The form of the files; results in another form are not read.
pub const SCHEMA: u32 = 4;

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
    /// What differs first between this run and another of the same point and seed: "wire" or "decisions", its own hash and
    /// the other's.
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

    /// Where a point of this manifest is in `scenario`, as read by a program that may have fewer stacks; none if it has not.
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
        let mut run: StoredRun = read_json(&self.run_path("runs", key, seed)).ok()?;
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
        Some(run.record)
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
        // The form first: a manifest of another form need not have the fields of this one.
        let Form { schema } = read_json(&path)?;
        if schema != SCHEMA {
            let message = format!("it has form {schema}, this program reads {SCHEMA}; run the scenario again");
            return Err(StoreError::Content { path, message });
        }
        read_json(&path)
    }

    /// Stores the manifest.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn save_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.write_json(&self.directory.join("manifest.json"), manifest)
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

    /// Takes over the runs of `others`, which have to be parts of the same work, and writes the manifest of all.
    ///
    /// # Errors
    /// When they are not of the same scenario and version, when two of them say different things about the same run, or
    /// when a file cannot be read or written.
    pub fn merge(&self, others: &[Store]) -> Result<Manifest, StoreError> {
        let mut merged: Option<Manifest> = None;
        let mut known: BTreeMap<(usize, u64), ManifestRun> = BTreeMap::new();
        for other in others {
            let part = other.manifest()?;
            let manifest = merged.get_or_insert_with(|| Manifest {
                runs: Vec::new(),
                shard: None,
                only_seed: None,
                only_point: None,
                ..part.clone()
            });
            let differs = |what: &str, one: &str, two: &str| {
                let (first, second) = (others[0].directory.display(), other.directory.display());
                StoreError::Conflict(format!(
                    "{first} and {second} are not parts of the same work: {what} is \"{one}\" in one and \"{two}\" in the other"
                ))
            };
            if manifest.scenario.sha256 != part.scenario.sha256 {
                let (one, two) = (manifest.scenario.sha256.short(), part.scenario.sha256.short());
                return Err(differs("the scenario", one, two));
            }
            if manifest.engine != part.engine {
                return Err(differs("the engine", &manifest.engine, &part.engine));
            }
            if (manifest.seeds, manifest.first_seed) != (part.seeds, part.first_seed) {
                return Err(differs("the number of seeds", &manifest.seeds.to_string(), &part.seeds.to_string()));
            }
            // A part knows the settings only of points of which it has runs.
            for (point, known) in manifest.points.iter_mut().zip(&part.points) {
                if point.settings.is_empty() {
                    point.settings.clone_from(&known.settings);
                }
            }
            for run in part.runs {
                let Some(point) = manifest.points.get(run.point) else { continue };
                let record = other.run(&point.key, run.seed);
                if record.is_none() && run.failed.is_none() {
                    return Err(StoreError::Content {
                        path: other.run_path("runs", &point.key, run.seed),
                        message: "the manifest says it is done, but it cannot be read; run that part again".to_owned(),
                    });
                }
                if let Some(other) = known.get(&(run.point, run.seed)) {
                    if let Some((what, here, there)) = run.differs(other) {
                        return Err(StoreError::Conflict(format!(
                            "point {} (\"{}\"), seed {}: {what} hashes {there} and {here} differ; one of the machines did \
                             not reproduce the run, see thalweg lab verify",
                            run.point, point.name, run.seed
                        )));
                    }
                    continue;
                }
                if let Some(record) = record {
                    self.save_run(&point.key, run.seed, &record)?;
                }
                if let Some(recording) = other.recording(&point.key, run.seed) {
                    self.save_recording(&point.key, run.seed, &recording)?;
                }
                known.insert((run.point, run.seed), run.clone());
                manifest.runs.push(run);
            }
        }
        let Some(mut manifest) = merged else {
            return Err(StoreError::Conflict("there is nothing to merge; name at least one directory".to_owned()));
        };
        manifest.runs.sort_unstable_by_key(|run| (run.point, run.seed));
        manifest.complete = manifest.runs.len() as u64 >= manifest.seeds.saturating_mul(manifest.points.len() as u64);
        self.save_manifest(&manifest)?;
        Ok(manifest)
    }
}

/// An error of the file system.
pub(crate) fn io_error(verb: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::Io { verb, path: path.to_owned(), error }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = fs::read(path).map_err(|error| io_error("read", path, error))?;
    serde_json::from_slice(&text)
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
mod tests {
    use super::*;
    use crate::record::{Part, put};

    fn record(value: f64) -> RunRecord {
        let mut record = RunRecord { wire_hash: format!("{value}"), ..RunRecord::default() };
        let mut flow = Part { name: "flow 0".to_owned(), ..Part::default() };
        flow.set("completion", value);
        record.flows.push(flow);
        put(&mut record.values, "success", 1.0);
        record
    }

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn manifest(hash: &str, seeds: &[u64]) -> Manifest {
        Manifest {
            schema: SCHEMA,
            thalweg: "0".to_owned(),
            engine: "test".to_owned(),
            build: build(),
            scenario: ManifestScenario {
                name: "q".to_owned(),
                file: "q.toml".to_owned(),
                sha256: digest(hash),
                text: String::new(),
            },
            first_seed: 1,
            seeds: 2,
            max_seeds: None,
            shard: None,
            only_seed: None,
            only_point: None,
            points: vec![ManifestPoint { name: String::new(), key: digest("key"), settings: BTreeMap::new() }],
            runs: seeds
                .iter()
                .map(|seed| ManifestRun {
                    point: 0,
                    seed: *seed,
                    wire_hash: "0.1".to_owned(),
                    decisions_hash: "0.3".to_owned(),
                    failed: None,
                })
                .collect(),
            complete: false,
        }
    }

    #[test]
    fn what_is_stored_comes_back_to_the_last_bit() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("a/b")).unwrap();
        let run = record(0.1 + 0.2);
        store.save_run(&digest("key"), 7, &run).unwrap();
        assert_eq!(store.run(&digest("key"), 7), Some(run));
        assert_eq!(store.run(&digest("key"), 8), None);
        assert_eq!(store.run(&digest("other"), 7), None);
        assert!(!store.has_recording(&digest("key"), 7));
    }

    /// A run whose flow says these things.
    fn talkative(value: f64, notes: &[(&str, &str)]) -> RunRecord {
        let mut run = record(value);
        run.flows[0].notes = notes.iter().map(|(what, text)| ((*what).to_owned(), (*text).to_owned())).collect();
        run
    }

    #[test]
    fn what_many_runs_say_is_stored_once_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let settings = "controller=cubic, ".repeat(50);
        let said = ("settings", settings.as_str());
        let two_flows = {
            let mut run = talkative(5.0, &[said]);
            run.flows.push(run.flows[0].clone());
            run
        };
        let runs = [
            talkative(0.0, &[said, ("failed", "timed out")]),
            talkative(1.0, &[said]),
            talkative(2.0, &[said, ("floor", "3 s")]),
            talkative(3.0, &[("settings", "others")]),
            talkative(4.0, &[]),
            two_flows,
            talkative(6.0, &[("settings", "")]),
            RunRecord::failure("nothing was measured".to_owned()),
        ];
        let key = digest("key");
        let store = Store::create(directory.path()).unwrap();
        // The run that is first is the one that the others share with: each may be.
        for first in 0..runs.len() {
            let store = Store::create(&directory.path().join(first.to_string())).unwrap();
            for number in (first..runs.len()).chain(0..first) {
                store.save_run(&key, number as u64, &runs[number]).unwrap();
            }
            for reader in [store.clone(), Store::at(store.directory())] {
                for (number, run) in runs.iter().enumerate() {
                    assert_eq!(reader.run(&key, number as u64).as_ref(), Some(run), "{number} after {first}");
                }
            }
        }
        for seed in 0..100 {
            store.save_run(&key, seed, &talkative(seed as f64, &[said])).unwrap();
        }
        let sizes = (0..100).map(|seed| fs::metadata(store.run_path("runs", &key, seed)).unwrap().len());
        assert!(sizes.max().unwrap() < 500, "the settings alone have {} bytes", settings.len());
        assert_eq!(fs::read_dir(directory.path().join("notes")).unwrap().count(), 1);
        // A run whose notes are lost is not done; making it again mends all of them.
        let notes = fs::read_dir(directory.path().join("notes")).unwrap().next().unwrap().unwrap().path();
        fs::write(&notes, "[").unwrap();
        let other = Store::at(directory.path());
        assert_eq!(other.run(&key, 7), None);
        other.save_run(&key, 7, &talkative(7.0, &[said])).unwrap();
        assert_eq!(other.run(&key, 8), Some(talkative(8.0, &[said])));
    }

    #[test]
    fn half_a_file_is_no_result() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        store.save_run(&digest("key"), 7, &record(1.0)).unwrap();
        let path = store.run_path("runs", &digest("key"), 7);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(store.run(&digest("key"), 7), None);
        // Nor is the result of another key under the same name.
        let other = StoredRun { schema: SCHEMA, key: digest("other"), seed: 7, notes: None, record: record(1.0) };
        fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
        assert_eq!(store.run(&digest("key"), 7), None);
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        store.write("report.html", b"old").unwrap();
        // A directory in the place of the file cannot be replaced by a file.
        fs::create_dir_all(directory.path().join("runs.csv/x")).unwrap();
        let error = store.write("runs.csv", b"new").unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
        assert_eq!(fs::read(directory.path().join("report.html")).unwrap(), b"old");
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_and_not_a_result() {
        let Err(error) = write_full_device() else { return };
        assert!(error.kind() == io::ErrorKind::StorageFull, "{error}");
    }

    /// What a full disk says, where the system offers one for tests.
    #[cfg(target_os = "linux")]
    fn write_full_device() -> io::Result<()> {
        let mut file = File::options().write(true).open("/dev/full")?;
        file.write_all(b"x")?;
        file.sync_data()
    }

    #[test]
    fn parts_are_merged() {
        let directory = tempfile::tempdir().unwrap();
        let stores: Vec<Store> =
            ["a", "b"].iter().map(|name| Store::create(&directory.path().join(name)).unwrap()).collect();
        for (store, seed) in stores.iter().zip([1, 2]) {
            store.save_run(&digest("key"), seed, &record(0.1)).unwrap();
            store.save_manifest(&manifest("same", &[seed])).unwrap();
        }
        let all = Store::create(&directory.path().join("all")).unwrap();
        let merged = all.merge(&stores).unwrap();
        assert!(merged.complete && merged.shard.is_none());
        assert_eq!(merged.runs.len(), 2);
        assert_eq!(Store::open(all.directory()).unwrap().1, merged);
        assert!(all.run(&digest("key"), 2).is_some());
        // Merging what overlaps is fine as long as it agrees.
        let again = Store::create(&directory.path().join("again")).unwrap();
        assert_eq!(again.merge(&[all.clone(), stores[0].clone()]).unwrap().runs.len(), 2);
    }

    #[test]
    fn what_does_not_belong_together_is_not_merged() {
        let directory = tempfile::tempdir().unwrap();
        let store = |name: &str, manifest: &Manifest| {
            let store = Store::create(&directory.path().join(name)).unwrap();
            store.save_run(&digest("key"), 1, &record(0.1)).unwrap();
            store.save_manifest(manifest).unwrap();
            store
        };
        let one = store("one", &manifest("same", &[1]));
        let other = store("other", &manifest("different", &[1]));
        let mut disagreeing = manifest("same", &[1]);
        disagreeing.runs[0].wire_hash = "0.2".to_owned();
        let disagreeing = store("disagreeing", &disagreeing);
        let all = Store::create(&directory.path().join("all")).unwrap();
        let error = all.merge(&[one.clone(), other]).unwrap_err().to_string();
        assert!(error.contains("not parts of the same work"), "{error}");
        let error = all.merge(&[one, disagreeing]).unwrap_err().to_string();
        assert!(error.contains("hashes 0.1 and 0.2 differ"), "{error}");
        assert!(all.merge(&[]).is_err());
        let error = Store::open(&directory.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read "), "{error}");
    }
}
