//! Runs every point with every seed, in parallel. Runs that are done are not made again, a panic is one failed run, and
//! an interrupt keeps what is finished.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::engine::{Engine, Output};
use crate::hash::Digest;
use crate::panics::{self, lock};
use crate::record::RunRecord;
use crate::scenario::{RecordWhich, Scenario, Tier, Until};
use crate::store::{Manifest, ManifestRun, Store, StoreError, key};
use crate::summary::{Runs, subjects};

/// A part of a sweep, such as 1/4: the first of four.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl core::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("\"{text}\" is not a shard; write i/n with i from 1 to n, such as 1/4");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let (index, count) = (index.trim().parse().map_err(|_| wrong())?, count.trim().parse().map_err(|_| wrong())?);
        if index < 1 || index > count {
            return Err(wrong());
        }
        Ok(Shard { index, count })
    }
}

impl core::fmt::Display for Shard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Whether a run belongs to this part. Depends on nothing but the run, so that parts never overlap.
    fn holds(self, key: &Digest, seed: u64) -> bool {
        let digest = Digest::of(format!("{key}\n{seed}").as_bytes());
        let number = u64::from_str_radix(digest.short(), 16).unwrap_or(0);
        number % self.count == self.index - 1
    }
}

/// Progress of a sweep.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done, those of an earlier sweep included.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// Runs that failed.
    pub failed: usize,
}

/// The most runs of one sweep: points times seeds.
pub const MOST_RUNS: u64 = 10_000_000;

/// Which runs of a scenario to make, and the receiver of their progress.
pub struct RunOptions<'a> {
    /// Overrides the scenario's seed count.
    pub seeds: Option<u64>,
    /// The most seeds of each point, those that `until` adds included.
    pub max_seeds: Option<u64>,
    /// As with every change: at most as many seeds as the scenario's [tier](crate::scenario::Tier) says.
    pub at_gate: bool,
    /// Only this seed.
    pub only_seed: Option<u64>,
    /// Only this point, from 0.
    pub only_point: Option<usize>,
    /// Only this part.
    pub shard: Option<Shard>,
    /// Number of threads; 0 for one per processor.
    pub threads: usize,
    /// Set to true to stop the sweep: runs under way are finished.
    pub stop: &'a AtomicBool,
    /// Called after every run, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> RunOptions<'a> {
    /// All runs of the scenario, on all processors.
    pub fn new(stop: &'a AtomicBool, progress: &'a (dyn Fn(Progress) + Sync)) -> RunOptions<'a> {
        RunOptions {
            seeds: None,
            max_seeds: None,
            at_gate: false,
            only_seed: None,
            only_point: None,
            shard: None,
            threads: 0,
            stop,
            progress,
        }
    }

    /// How many seeds of every point are run, unless `until` adds some.
    pub fn seeds_of(&self, scenario: &Scenario) -> u64 {
        self.seeds.unwrap_or(scenario.seeds).min(self.most_seeds(scenario).unwrap_or(u64::MAX)).max(1)
    }

    /// The most seeds of every point, those that `until` adds included.
    pub fn most_seeds(&self, scenario: &Scenario) -> Option<u64> {
        match scenario.tier {
            Tier::Gate { seeds: Some(seeds) } if self.at_gate => Some(seeds.min(self.max_seeds.unwrap_or(seeds))),
            _ => self.max_seeds,
        }
    }
}

/// `until` under a cap on seeds.
fn capped(until: &Until, most: Option<u64>) -> Until {
    Until { max_seeds: until.max_seeds.min(most.unwrap_or(u64::MAX)), ..until.clone() }
}

/// The outcome of a sweep.
#[derive(Debug)]
pub struct Finished {
    /// Every run that is done, by point and seed.
    pub runs: Runs,
    /// The manifest that was stored.
    pub manifest: Manifest,
    /// How many runs were there already.
    pub reused: usize,
    /// How many runs were made now.
    pub executed: usize,
    /// Whether it was interrupted before everything was done.
    pub interrupted: bool,
}

/// The program that has the stacks: `thalweg-peers` has rivals.
pub(crate) fn program(rivals: bool) -> &'static str {
    if rivals { "thalweg-peers" } else { "thalweg" }
}

/// The command that runs one run again. Its results go to a folder of their own.
pub fn replay(scenario: &Scenario, point: usize, seed: u64) -> String {
    let program = program(scenario.points.get(point).is_some_and(|point| point.rival.is_some()));
    let point = if scenario.points.len() > 1 { format!(" --point {point}") } else { String::new() };
    format!("{program} lab run {}{point} --seed {seed}", quoted(&scenario.file))
}

/// The command that makes the runs of a manifest again.
pub(crate) fn again(scenario: &Scenario, manifest: &Manifest) -> String {
    let mut command = format!(
        "{} lab run {}",
        program(scenario.points.iter().any(|point| point.rival.is_some())),
        quoted(&manifest.scenario.file)
    );
    // The file may no longer be what it was: what counts is what this program read.
    let has_other_seeds = manifest.only_seed.is_none() && manifest.first_seed != scenario.own_first_seed;
    let part = [
        ("shard", manifest.shard.clone()),
        ("point", manifest.only_point.map(|point| point.to_string())),
        ("seed", manifest.only_seed.map(|seed| seed.to_string())),
        ("first-seed", has_other_seeds.then(|| manifest.first_seed.to_string())),
        // Of one seed, there is no number; a cap is one for the seeds, too.
        match manifest.max_seeds {
            Some(most) => ("max-seeds", manifest.only_seed.is_none().then(|| most.to_string())),
            None => ("seeds", manifest.only_seed.is_none().then(|| manifest.seeds.to_string())),
        },
    ];
    for (name, value) in part {
        if let Some(value) = value {
            command += &format!(" --{name} {value}");
        }
    }
    command
}

/// A file name as a shell takes it: in quotes if it holds what a shell would read otherwise.
pub(crate) fn quoted(file: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    // What begins with a dash would be taken for an option.
    let dash = if file.starts_with('-') { "./" } else { "" };
    if !file.is_empty() && file.chars().all(plain) {
        format!("{dash}{file}")
    } else {
        format!("'{dash}{}'", file.replace('\'', "'\\''"))
    }
}

/// Whether the seeds were enough for the interval that `until` asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Enough {
    /// The metric and its statistic.
    pub measured: String,
    /// The width of its interval over its estimate that was asked for.
    pub width: f64,
    /// How many seeds at most.
    pub max_seeds: u64,
    /// Points with a wider interval, or none at all, by name; empty if the seeds were enough.
    pub wide: Vec<String>,
    /// The most seeds that were run of one of them.
    pub seeds: u64,
}

impl Enough {
    /// Whether the seeds were enough.
    pub fn is_met(&self) -> bool {
        self.wide.is_empty()
    }
}

/// What is missing, in a sentence.
impl core::fmt::Display for Enough {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        /// Points that are named.
        const NAMED: usize = 3;
        let Enough { measured, width, seeds, wide, .. } = self;
        let width = crate::metric::format(*width, crate::metric::Unit::Share);
        write!(f, "until is not met: after {seeds} seeds the interval of {measured} is wider than {width}")?;
        let named: Vec<&str> = wide.iter().take(NAMED).filter(|name| !name.is_empty()).map(String::as_str).collect();
        if !named.is_empty() {
            write!(f, " at {}", named.join("; "))?;
        }
        if wide.len() > NAMED {
            write!(f, " and {} more points", wide.len() - NAMED)?;
        }
        Ok(())
    }
}

/// Judges `until` on the runs of a manifest. None if the scenario does not ask for it, or only one seed was to be run.
pub fn enough(scenario: &Scenario, runs: &Runs, manifest: &Manifest) -> Option<Enough> {
    let until = scenario.until.as_ref().filter(|_| manifest.only_seed.is_none())?;
    // One more seed, for whichever point it would be wanted.
    let one_more = Until { max_seeds: u64::MAX, ..until.clone() };
    let open: BTreeSet<usize> =
        wider(scenario, runs, &one_more, 1, manifest.only_point).into_iter().map(|(point, _)| point).collect();
    let name = |point: &usize| scenario.points[*point].name(&scenario.axes);
    let seeds = |point: &usize| runs.range((*point, 0)..=(*point, u64::MAX)).count() as u64;
    Some(Enough {
        measured: format!("{}.{}", until.metric.name, until.statistic),
        width: until.width,
        max_seeds: capped(until, manifest.max_seeds).max_seeds,
        wide: open.iter().map(name).collect(),
        seeds: open.iter().map(seeds).max().unwrap_or(0),
    })
}

/// Runs a scenario.
///
/// # Errors
/// When results cannot be written; what has been reported as done is on disk.
pub fn run(
    scenario: &Scenario,
    engine: &dyn Engine,
    store: &Store,
    options: &RunOptions<'_>,
) -> Result<Finished, StoreError> {
    let version = engine.version();
    let keys = keys(scenario, &version);
    let seeds = options.seeds_of(scenario);
    let until = scenario.until.as_ref().map(|until| capped(until, options.most_seeds(scenario)));
    let mut work = Work::new(scenario, engine, store, options, &keys);
    let mut jobs = asked(scenario, &keys, options);
    let mut asked = jobs.len();
    let mut most_seeds = seeds;
    loop {
        work.all(&jobs)?;
        if work.options.stop.load(Ordering::Relaxed) {
            break;
        }
        jobs = match &until {
            Some(until) if options.only_seed.is_none() && options.shard.is_none() => {
                wider(scenario, &work.runs, until, most_seeds, options.only_point)
            }
            _ => Vec::new(),
        };
        if jobs.is_empty() {
            break;
        }
        asked += jobs.len();
        let last = jobs.iter().map(|(_, seed)| *seed).max().unwrap_or(0);
        most_seeds = (last - scenario.first_seed + 1).max(most_seeds);
    }
    let interrupted = work.runs.len() < asked;
    let mut manifest = Manifest::new(scenario, &version);
    manifest.seeds = seeds;
    manifest.shard = options.shard.map(|shard| shard.to_string());
    manifest.max_seeds = options.most_seeds(scenario);
    manifest.only_seed = options.only_seed;
    manifest.only_point = options.only_point;
    manifest.complete = !interrupted;
    manifest.runs = work
        .runs
        .iter()
        .map(|((point, seed), record)| ManifestRun {
            point: *point,
            seed: *seed,
            wire_hash: record.wire_hash().to_owned(),
            decisions_hash: record.decisions_hash().to_owned(),
            failed: record.failed().map(str::to_owned),
        })
        .collect();
    for ((point, _), record) in &work.runs {
        let Some(point) = manifest.points.get_mut(*point).filter(|point| point.settings.is_empty()) else { continue };
        point.settings = record.all_settings().map(|(flow, said)| (flow.to_owned(), said.to_owned())).collect();
    }
    store.save_manifest(&manifest)?;
    Ok(Finished { runs: work.runs, manifest, reused: work.reused, executed: work.executed, interrupted })
}

/// What the results of each point are stored under.
fn keys(scenario: &Scenario, version: &str) -> Vec<Digest> {
    scenario.points.iter().map(|point| key(version, point)).collect()
}

/// The runs that are asked for, without those that `until` adds. Seed by seed, so that an interrupted sweep has as much
/// of every point.
fn asked(scenario: &Scenario, keys: &[Digest], options: &RunOptions<'_>) -> Vec<(usize, u64)> {
    let seeds: Vec<u64> = match options.only_seed {
        Some(seed) => vec![seed],
        None => (0..options.seeds_of(scenario)).map(|offset| scenario.first_seed.saturating_add(offset)).collect(),
    };
    seeds
        .iter()
        .flat_map(|seed| (0..keys.len()).map(move |point| (point, *seed)))
        .filter(|(point, _)| options.only_point.is_none_or(|only| only == *point))
        .filter(|(point, seed)| options.shard.is_none_or(|shard| shard.holds(&keys[*point], *seed)))
        .collect()
}

/// The runs that [`run`] would make, by point and seed: those that are asked for and not stored. More may follow that
/// `until` adds, and those whose stored file cannot be read.
pub fn missing(scenario: &Scenario, engine: &dyn Engine, store: &Store, options: &RunOptions<'_>) -> Vec<(usize, u64)> {
    let keys = keys(scenario, &engine.version());
    let mut jobs = asked(scenario, &keys, options);
    jobs.retain(|(point, seed)| !store.has_run(&keys[*point], *seed));
    jobs
}

/// Makes some of the runs that [`missing`] names and stores them, so that [`run`] finds them done. Writes no manifest.
///
/// # Errors
/// When results cannot be written.
pub fn ahead(
    scenario: &Scenario,
    engine: &dyn Engine,
    store: &Store,
    options: &RunOptions<'_>,
    jobs: &[(usize, u64)],
) -> Result<(), StoreError> {
    let keys = keys(scenario, &engine.version());
    Work::new(scenario, engine, store, options, &keys).all(jobs)
}

/// The seeds still to run until the interval at every point is narrow enough: half as many again as there are.
fn wider(scenario: &Scenario, runs: &Runs, until: &Until, seeds: u64, only_point: Option<usize>) -> Vec<(usize, u64)> {
    let most = until.max_seeds.min(seeds + (seeds / 2).max(4));
    let mut jobs = Vec::new();
    for point in 0..scenario.points.len() {
        if only_point.is_some_and(|only| only != point) {
            continue;
        }
        let narrow = subjects(scenario, point, until.metric.scope).iter().all(|subject| {
            let sample = crate::summary::Sample::new(scenario, runs, point, subject, until.metric);
            sample.estimate(until.statistic).is_narrow(until.width)
        });
        if !narrow {
            jobs.extend((seeds..most).map(|offset| (point, scenario.first_seed.saturating_add(offset))));
        }
    }
    jobs
}

struct Work<'a> {
    scenario: &'a Scenario,
    engine: &'a dyn Engine,
    store: &'a Store,
    options: &'a RunOptions<'a>,
    keys: &'a [Digest],
    runs: Runs,
    reused: usize,
    executed: usize,
}

impl<'a> Work<'a> {
    fn new(
        scenario: &'a Scenario,
        engine: &'a dyn Engine,
        store: &'a Store,
        options: &'a RunOptions<'a>,
        keys: &'a [Digest],
    ) -> Work<'a> {
        Work { scenario, engine, store, options, keys, runs: Runs::new(), reused: 0, executed: 0 }
    }

    fn all(&mut self, jobs: &[(usize, u64)]) -> Result<(), StoreError> {
        let mut left = Vec::new();
        for (point, seed) in jobs {
            let recorded = !self.is_recorded(*seed) || self.store.has_recording(&self.keys[*point], *seed);
            match self.store.run(&self.keys[*point], *seed).filter(|_| recorded) {
                Some(record) => {
                    self.reused += 1;
                    self.runs.insert((*point, *seed), &record);
                }
                None => left.push((*point, *seed)),
            }
        }
        let total = self.runs.len() + left.len();
        let failed = self.runs.values().filter(|record| record.failed().is_some()).count();
        let progress = Mutex::new(Progress { done: self.runs.len(), total, failed });
        let before = self.runs.len();
        let runs = Mutex::new(std::mem::take(&mut self.runs));
        (self.options.progress)(Progress { done: before, total, failed });
        let halted = AtomicBool::new(false);
        let one = |(point, seed): &(usize, u64)| -> Result<(), StoreError> {
            if self.options.stop.load(Ordering::Relaxed) || halted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let record = self.one(*point, *seed).inspect_err(|_| halted.store(true, Ordering::Relaxed))?;
            let failed = record.failed.is_some();
            lock(&runs).insert((*point, *seed), &record);
            let mut progress = lock(&progress);
            progress.done += 1;
            progress.failed += usize::from(failed);
            (self.options.progress)(*progress);
            Ok(())
        };
        let result = match rayon::ThreadPoolBuilder::new().num_threads(self.options.threads).build() {
            Ok(pool) => pool.install(|| left.par_iter().with_max_len(1).try_for_each(one)),
            // Without threads there is still this one.
            Err(_) => left.iter().try_for_each(one),
        };
        self.runs = runs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.executed += self.runs.len() - before;
        result
    }

    fn is_recorded(&self, seed: u64) -> bool {
        match self.scenario.record {
            RecordWhich::None => false,
            RecordWhich::First => self.options.only_seed.unwrap_or(self.scenario.first_seed) == seed,
            RecordWhich::All => true,
        }
    }

    fn one(&self, point: usize, seed: u64) -> Result<RunRecord, StoreError> {
        let world = &self.scenario.points[point].world;
        let ran = catch_unwind(AssertUnwindSafe(|| self.engine.run(world, seed, self.is_recorded(seed))));
        let panicked = ran.is_err();
        let Output { mut record, recording } = ran.unwrap_or_else(|panic| {
            let reason = format!("the program panicked: {}", panics::message(&*panic));
            Output { record: RunRecord::failure(reason), recording: None }
        });
        if let Some(reason) = &mut record.failed {
            *reason = format!("seed {seed}: {reason}; replay with: {}", replay(self.scenario, point, seed));
        }
        // A panic is no result: the next attempt may have a better program.
        if panicked {
            return Ok(record);
        }
        if self.is_recorded(seed) {
            // Even if there is nothing to see, so that the run is not made again for it.
            self.store.save_recording(&self.keys[point], seed, &recording.unwrap_or_default())?;
        }
        self.store.save_run(&self.keys[point], seed, &record)?;
        Ok(record)
    }
}

/// A run that came out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The point, from 0.
    pub point: usize,
    /// The seed.
    pub seed: u64,
    /// Which hash differs: "wire" or, if the packets were the same, "decisions".
    pub what: &'static str,
    /// The hash on record; empty if the run panicked.
    pub expected: String,
    /// The hash now; empty if the run panicked.
    pub found: String,
}

/// The outcome of verifying results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// What came out differently.
    pub mismatches: Vec<Mismatch>,
    /// How many runs were made again.
    pub checked: usize,
    /// How many are of stacks that this program does not have.
    pub absent: usize,
    /// How many are of stacks that do not promise the same run twice.
    pub unrepeatable: usize,
}

/// Runs again what a manifest lists, and reports what came out differently.
pub fn verify(scenario: &Scenario, engine: &dyn Engine, manifest: &Manifest, options: &RunOptions<'_>) -> Verification {
    let mut verification = Verification::default();
    let mut runs: Vec<(usize, &ManifestRun)> = Vec::new();
    for run in &manifest.runs {
        match manifest.place(scenario, run.point) {
            None => verification.absent += 1,
            Some(place) if engine.is_repeatable(&scenario.points[place].world) => runs.push((place, run)),
            Some(_) => verification.unrepeatable += 1,
        }
    }
    verification.checked = runs.len();
    let done = Mutex::new(Progress { done: 0, total: runs.len(), failed: 0 });
    let check = |(place, run): &(usize, &ManifestRun)| -> Option<Mismatch> {
        if options.stop.load(Ordering::Relaxed) {
            return None;
        }
        let world = &scenario.points[*place].world;
        let ran = catch_unwind(AssertUnwindSafe(|| engine.run(world, run.seed, false)));
        // A run that panicked has no event log: it is the same if it panics again.
        let record = ran.map(|output| output.record).unwrap_or_default();
        let found = ManifestRun {
            point: run.point,
            seed: run.seed,
            wire_hash: record.wire_hash,
            decisions_hash: record.decisions_hash,
            failed: record.failed,
        };
        let mismatch = run.differs(&found).map(|(what, expected, found)| Mismatch {
            point: *place,
            seed: run.seed,
            what,
            expected: expected.to_owned(),
            found: found.to_owned(),
        });
        let mut progress = lock(&done);
        progress.done += 1;
        progress.failed += usize::from(mismatch.is_some());
        (options.progress)(*progress);
        mismatch
    };
    verification.mismatches = match rayon::ThreadPoolBuilder::new().num_threads(options.threads).build() {
        Ok(pool) => pool.install(|| runs.par_iter().with_max_len(1).filter_map(check).collect()),
        Err(_) => runs.iter().filter_map(check).collect(),
    };
    verification.mismatches.sort_unstable_by_key(|mismatch| (mismatch.point, mismatch.seed));
    verification
}

#[cfg(test)]
mod tests;
