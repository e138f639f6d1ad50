//! Merges parts of one sweep: the manifests first, then run by run, so that no more than a few runs are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;

use super::{AT_ONCE, Manifest, ManifestRun, Store, StoreError, io_error, write_whole};
use crate::hash::Digest;
use crate::panics::lock;
use crate::record::RunRecord;

/// What to merge.
pub(crate) struct Plan<'a> {
    /// That of all, as it will be stored.
    pub(crate) manifest: Manifest,
    /// Which of the parts each run of the manifest is taken from.
    from: Vec<&'a Store>,
}

impl Store {
    /// Takes over the runs of `others`, which have to be parts of the same work, and writes the manifest of all.
    ///
    /// # Errors
    /// When they are not of the same scenario and version, when two of them say different things about the same run, or
    /// when a file cannot be read or written.
    pub fn merge(&self, others: &[Store]) -> Result<Manifest, StoreError> {
        let plan = Plan::of(others)?;
        self.take_over(&plan, |_, _, _| {})?;
        Ok(plan.manifest)
    }

    /// Carries a plan out. `seen` receives every run that has a record: number of the point, seed and record.
    pub(crate) fn take_over(
        &self,
        plan: &Plan<'_>,
        mut seen: impl FnMut(usize, u64, &RunRecord),
    ) -> Result<(), StoreError> {
        let manifest = &plan.manifest;
        let there = Mutex::new(BTreeSet::new());
        let take = |(run, other): (&ManifestRun, &&Store)| {
            let Some(point) = manifest.points.get(run.point) else { return Ok(None) };
            let record = self.take_run(other, (&point.key, run.seed), &there)?;
            if record.is_none() && run.failed.is_none() {
                return Err(StoreError::Content {
                    path: other.run_path("runs", &point.key, run.seed),
                    message: "the manifest says it is done, but it cannot be read; run that part again".to_owned(),
                });
            }
            let [from, to] = [*other, self].map(|store| store.run_path("recordings", &point.key, run.seed));
            if from.is_file() {
                put(&from, &to, || fs::read(&from).map_err(|error| io_error("read", &from, error)))?;
            }
            Ok(record)
        };
        let all: Vec<(&ManifestRun, &&Store)> = manifest.runs.iter().zip(&plan.from).collect();
        for some in all.chunks(AT_ONCE) {
            let records: Vec<Result<Option<RunRecord>, StoreError>> = some.par_iter().copied().map(take).collect();
            for ((run, _), record) in some.iter().zip(records) {
                if let Some(record) = record? {
                    seen(run.point, run.seed, &record);
                }
            }
        }
        self.save_manifest(manifest)
    }

    /// Takes over the file of a run and the notes that it names, which are noted in `there`. None if it cannot be read.
    fn take_run(
        &self,
        other: &Store,
        (key, seed): (&Digest, u64),
        there: &Mutex<BTreeSet<String>>,
    ) -> Result<Option<RunRecord>, StoreError> {
        let Some(run) = other.run_in_file(key, seed) else { return Ok(None) };
        // The notes first: no run is to name some that are not there.
        if let Some(name) = run.notes {
            let mut there = lock(there);
            if !there.contains(&name) {
                let [from, to] = [other, self].map(|store| store.notes_path(&name));
                put(&from, &to, || fs::read(&from).map_err(|error| io_error("read", &from, error)))?;
                there.insert(name);
            }
        }
        let [from, to] = [other, self].map(|store| store.run_path("runs", key, seed));
        put(&from, &to, || Ok(run.text))?;
        Ok(Some(run.record))
    }
}

impl<'a> Plan<'a> {
    /// A plan for these parts.
    ///
    /// # Errors
    /// When they are not of the same scenario and version, when two of them say different things about the same run, or
    /// when a manifest cannot be read.
    pub(crate) fn of(others: &'a [Store]) -> Result<Plan<'a>, StoreError> {
        let mut merged: Option<Manifest> = None;
        let mut known: BTreeMap<(usize, u64), (ManifestRun, &Store)> = BTreeMap::new();
        for other in others {
            let part = other.manifest()?;
            let manifest = merged.get_or_insert_with(|| Manifest {
                runs: Vec::new(),
                shard: None,
                only_seed: None,
                only_point: None,
                ..part.clone()
            });
            if let Some((what, one, two)) = difference(manifest, &part) {
                let (first, second) = (others[0].directory.display(), other.directory.display());
                return Err(StoreError::Conflict(format!(
                    "{first} and {second} are not parts of the same work: {what} is \"{one}\" in one and \"{two}\" in the other"
                )));
            }
            // A part knows the settings only of points of which it has runs.
            for (point, known) in manifest.points.iter_mut().zip(&part.points) {
                if point.settings.is_empty() {
                    point.settings.clone_from(&known.settings);
                }
            }
            for run in part.runs {
                let Some(point) = manifest.points.get(run.point) else { continue };
                match known.get(&(run.point, run.seed)) {
                    None => drop(known.insert((run.point, run.seed), (run, other))),
                    Some((other, _)) => {
                        let Some((what, here, there)) = run.differs(other) else { continue };
                        return Err(StoreError::Conflict(format!(
                            "point {} (\"{}\"), seed {}: {what} hashes {there} and {here} differ; one of the machines did \
                             not reproduce the run, see thalweg lab verify",
                            run.point, point.name, run.seed
                        )));
                    }
                }
            }
        }
        let Some(mut manifest) = merged else {
            return Err(StoreError::Conflict("there is nothing to merge; name at least one directory".to_owned()));
        };
        let from;
        (manifest.runs, from) = known.into_values().unzip();
        manifest.complete = manifest.runs.len() as u64 >= manifest.seeds.saturating_mul(manifest.points.len() as u64);
        Ok(Plan { manifest, from })
    }
}

/// In what two parts are of different work: what it is, and both sides of it.
fn difference(one: &Manifest, two: &Manifest) -> Option<(&'static str, String, String)> {
    if one.scenario.sha256 != two.scenario.sha256 {
        let [one, two] = [one, two].map(|part| part.scenario.sha256.short().to_owned());
        return Some(("the scenario", one, two));
    }
    if one.engine != two.engine {
        return Some(("the engine", one.engine.clone(), two.engine.clone()));
    }
    let numbers = [("the number of seeds", one.seeds, two.seeds), ("the first seed", one.first_seed, two.first_seed)];
    let differing = numbers.into_iter().find(|(_, one, two)| one != two);
    differing.map(|(what, one, two)| (what, one.to_string(), two.to_string()))
}

/// Puts a file with the same content elsewhere, whole or not at all: as a second name of the file where the file
/// system has such, as nothing writes into a file that is stored; otherwise as a copy.
fn put(from: &Path, to: &Path, content: impl FnOnce() -> Result<Vec<u8>, StoreError>) -> Result<(), StoreError> {
    let linked = || match fs::symlink_metadata(from)?.is_file() {
        true => fs::hard_link(from, to),
        // A second name of a symbolic link may lead elsewhere.
        false => Err(io::ErrorKind::Unsupported.into()),
    };
    let linked = linked().or_else(|error| match (error.kind(), to.parent()) {
        (io::ErrorKind::NotFound, Some(directory)) => fs::create_dir_all(directory).and_then(|()| linked()),
        _ => Err(error),
    });
    match linked {
        Ok(()) => Ok(()),
        Err(_) => {
            let content = content()?;
            // What is the same already may be the same file.
            if fs::read(to).is_ok_and(|there| there == content) { Ok(()) } else { write_whole(to, &content) }
        }
    }
}
