//! Drawn worlds: paths that nobody chose, drawn by number from a committed distribution, so that defaults are judged
//! on more than the paths they were tuned on.
//!
//! A world is a scenario ([`Drawn::text`]) that runs the judged policies and a reference. On a single path the
//! reference is `start=hystart++` in place of the shipped start; on a shared path our flow runs `controller=cubic`
//! instead. A pair of paths has no other reference than each of them alone. [`run`] makes the runs, in parallel, and
//! [`Results`] sums them up; [`gate`] compares with committed figures.

mod distribution;
pub mod gate;
mod judge;
mod pair;
mod report;
mod scenario;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thalweg_recovery::Policies;

pub use distribution::DISTRIBUTION;
pub use judge::{Judged, OfKind, OfShared, OfSingle, WITHIN};
pub use pair::{OfPair, OfPairs, SHORT_WITHIN};
pub use thalweg_proto::SchedulerPolicy;

use crate::engine::Engine;
use crate::panics::{self, lock};
use crate::record::RunRecord;
use crate::runner::Progress;
use crate::scenario::{Scenario, ScenarioError};
use distribution::{Shared, Single};
use judge::Ran;
use pair::Pair;
use scenario::Choices;

/// The most worlds of a class that one command draws.
pub const MOST: u64 = 100_000;

/// Whether our flow has a path for itself, or two.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It has.
    Single,
    /// It shares it with one to eight rivals.
    Shared,
    /// It has two of them, and uses both.
    Pair,
}

impl Class {
    /// "single", "shared" or "pair".
    pub fn name(self) -> &'static str {
        match self {
            Class::Single => "single",
            Class::Shared => "shared",
            Class::Pair => "pair",
        }
    }
}

/// Which worlds to draw, and what to judge on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// How many single paths.
    pub single: u64,
    /// How many shared paths.
    pub shared: u64,
    /// How many pairs of paths.
    pub pairs: u64,
    /// The scheduler of the pairs; the shipped one if none is named.
    pub scheduler: Option<SchedulerPolicy>,
    /// The number of the first of each.
    pub from: u64,
    /// The policies that are judged.
    pub policies: Policies,
}

/// A world of the distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its class.
    pub class: Class,
    /// Its number.
    pub number: u64,
    /// Its kind, such as "wifi".
    pub kind: &'static str,
    /// What it is, in a line.
    pub title: String,
    /// The scenario: two points, the judged policies first; one if the reference is the same.
    pub text: String,
    /// Whether there is a shortest possible time to compare with.
    has_floor: bool,
}

impl Drawn {
    /// World `number` of a class, with the policies that are judged there.
    pub fn new(class: Class, number: u64, request: &Request) -> Drawn {
        let policies = &request.policies;
        match class {
            Class::Pair => Pair::drawn(number, request),
            Class::Single => {
                let world = Single::draw(number);
                let text = world.text(&Choices::new(policies, "start", "hystart++"));
                let (kind, title, has_floor) = (world.kind.name(), world.title(), world.has_floor());
                Drawn { class, number, kind, title, text, has_floor }
            }
            Class::Shared => {
                let world = Shared::draw(number);
                let text = world.text(&Choices::new(policies, "controller", "cubic"));
                Drawn { class, number, kind: world.kind.name(), title: world.title(), text, has_floor: false }
            }
        }
    }

    /// "single-00037-wifi.toml".
    pub fn file_name(&self) -> String {
        format!("{}-{:05}-{}.toml", self.class.name(), self.number, self.kind)
    }

    /// The scenario, read.
    ///
    /// # Errors
    /// What is wrong with it: nothing, unless the policies cannot be written in a file.
    pub fn scenario(&self, engine: &dyn Engine) -> Result<Scenario, ScenarioError> {
        Scenario::parse(&self.file_name(), &self.text, Path::new(""), &engine.stacks())
    }
}

impl Request {
    /// The worlds: the single ones, then the shared ones, then the pairs.
    pub fn worlds(&self) -> Vec<Drawn> {
        let of = |class, count: u64| {
            let numbers = (0..count).map(move |offset| self.from.saturating_add(offset));
            numbers.map(move |number| Drawn::new(class, number, self))
        };
        let single_and_shared = of(Class::Single, self.single).chain(of(Class::Shared, self.shared));
        single_and_shared.chain(of(Class::Pair, self.pairs)).collect()
    }

    /// The command that runs one of its worlds again.
    pub fn replay(&self, class: Class, number: u64) -> String {
        let count = |of: Class| u64::from(of == class);
        let (single, shared) = (count(Class::Single), count(Class::Shared));
        let scheduler = self.scheduler.as_ref().map_or_else(String::new, |name| format!(" --scheduler {name}"));
        let pairs = if class == Class::Pair { format!(" --pairs 1{scheduler}") } else { String::new() };
        let policies = scenario::policies_text(&self.policies);
        let policies = if policies.is_empty() { String::new() } else { format!(" --policies {policies}") };
        format!("thalweg lab draw --single {single} --shared {shared}{pairs} --from {number}{policies}")
    }
}

/// How to run, and the receiver of progress.
pub struct Options<'a> {
    /// Number of threads; 0 for one per processor.
    pub threads: usize,
    /// Set to true to stop: runs under way are finished.
    pub stop: &'a AtomicBool,
    /// Called after every run, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// Results of drawn worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// Version of the distribution.
    pub distribution: u32,
    /// Number of the first world of each class.
    pub from: u64,
    /// The judged policies where they differ from the shipped ones; empty for those.
    pub policies: String,
    /// Of the single paths, if there are any.
    pub single: Option<OfSingle>,
    /// Of the shared paths, if there are any.
    pub shared: Option<OfShared>,
    /// Of the pairs of paths, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<OfPairs>,
    /// How many runs were made.
    pub runs: usize,
    /// Single paths, in the order of their numbers, shared ones, and pairs.
    pub worlds: Vec<Judged>,
    #[serde(skip)]
    request: Request,
}

impl Results {
    /// The worlds of a class.
    pub fn of_class(&self, class: Class) -> Vec<Judged> {
        self.worlds.iter().filter(|world| world.class == class).cloned().collect()
    }

    /// Worlds in which a connection died or a run never completed.
    pub fn dead(&self) -> impl Iterator<Item = &Judged> {
        self.worlds.iter().filter(|world| !world.dead.is_empty())
    }
}

/// Draws worlds and runs them. None if it was stopped before all were done.
///
/// # Errors
/// When a drawn scenario cannot be read, see [`Drawn::scenario`].
pub fn run(request: &Request, engine: &dyn Engine, options: &Options<'_>) -> Result<Option<Results>, ScenarioError> {
    let mut worlds = Vec::new();
    for drawn in request.worlds() {
        let scenario = drawn.scenario(engine)?;
        worlds.push((drawn, scenario));
    }
    let seeds = |scenario: &Scenario| scenario.first_seed..scenario.first_seed + scenario.seeds;
    let mut jobs: Vec<(usize, usize, u64)> = Vec::new();
    for (world, (_, scenario)) in worlds.iter().enumerate() {
        let points = 0..scenario.points.len();
        jobs.extend(points.flat_map(|point| seeds(scenario).map(move |seed| (world, point, seed))));
    }
    let progress = Mutex::new(Progress { done: 0, total: jobs.len(), failed: 0 });
    (options.progress)(*lock(&progress));
    let one = |&(world, point, seed): &(usize, usize, u64)| -> Option<RunRecord> {
        if options.stop.load(Ordering::Relaxed) {
            return None;
        }
        let record = one(engine, &worlds[world].1, point, seed);
        let mut progress = lock(&progress);
        progress.done += 1;
        progress.failed += usize::from(record.failed.is_some());
        (options.progress)(*progress);
        Some(record)
    };
    let records: Vec<Option<RunRecord>> = match rayon::ThreadPoolBuilder::new().num_threads(options.threads).build() {
        Ok(pool) => pool.install(|| jobs.par_iter().with_max_len(1).map(one).collect()),
        // Without threads there is still this one.
        Err(_) => jobs.iter().map(one).collect(),
    };
    let runs = records.len();
    let mut records = records.into_iter();
    let mut judged = Vec::new();
    for (drawn, scenario) in &worlds {
        let mut choices = Vec::new();
        for point in &scenario.points {
            let label = point.labels.first().cloned().unwrap_or_default();
            let runs = seeds(scenario).map(|seed| Some((seed, records.next()??))).collect::<Option<Vec<_>>>();
            let Some(runs) = runs else { return Ok(None) };
            choices.push((label, runs));
        }
        let time_limit = scenario.points.first().map_or(0.0, |point| point.world.time_limit.as_secs_f64());
        judged.push(judge::judged(drawn, time_limit, &Ran { choices }));
    }
    Ok(Some(Results {
        distribution: DISTRIBUTION,
        from: request.from,
        policies: scenario::policies_text(&request.policies),
        single: OfSingle::of(&judged),
        shared: OfShared::of(&judged),
        pairs: OfPairs::of(&judged),
        runs,
        worlds: judged,
        request: request.clone(),
    }))
}

/// One run, kept to what is judged: hundreds of worlds with delivery curves and notes would fill memory.
fn one(engine: &dyn Engine, scenario: &Scenario, point: usize, seed: u64) -> RunRecord {
    let world = &scenario.points[point].world;
    let ran = catch_unwind(AssertUnwindSafe(|| engine.run(world, seed, false)));
    let mut record = ran.map_or_else(
        |panic| RunRecord::failure(format!("the program panicked: {}", panics::message(&*panic))),
        |output| output.record,
    );
    record.links.clear();
    for flow in &mut record.flows {
        flow.delivery = None;
        flow.notes.retain(|subject, _| subject == "failed");
    }
    record
}

#[cfg(test)]
mod tests;
