//! Runs worlds in parallel, and keeps of each run what advice goes by.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::{Options, Use};
use crate::engine::Engine;
use crate::metric::Scope;
use crate::panics::lock;
use crate::record::RunRecord;
use crate::runner::Progress;
use crate::scenario::world::World;

/// What a run took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    /// The metric of its use, seconds; the time limit if it did not come to its end.
    pub(super) time: f64,
    /// Bytes that both ends of our flow sent.
    pub(super) bytes: f64,
    pub(super) has_failed: bool,
    pub(super) wire_hash: String,
}

impl Taken {
    pub(super) fn time(&self) -> f64 {
        self.time
    }

    fn of(record: &RunRecord, of_use: Use, world: &World) -> Taken {
        let (ours, judged) = (record.flows.first(), record.flows.last());
        let is_done = |values: &crate::record::Values| values.get("completed").is_none_or(|done| done == &[1.0]);
        let value = judged.and_then(|flow| record.get(Scope::Flow, &flow.name, of_use.metric()).first().copied());
        let has_failed = record.failed.is_some() || !record.flows.iter().all(|flow| is_done(&flow.values));
        let limit = world.time_limit.as_secs_f64();
        let time = value.filter(|value| value.is_finite() && !has_failed).unwrap_or(limit);
        let of_ours = |metric| ours.and_then(|flow| record.get(Scope::Flow, &flow.name, metric).first().copied());
        let bytes = of_ours("bytes_sent").unwrap_or(0.0) + of_ours("reverse_bytes").unwrap_or(0.0);
        Taken { time: time.min(limit), bytes, has_failed, wire_hash: record.wire_hash.clone() }
    }
}

/// Runs jobs, and tells how far it is.
pub(super) struct Bench<'a> {
    engine: &'a dyn Engine,
    options: &'a Options<'a>,
    pool: Option<rayon::ThreadPool>,
    progress: Mutex<Progress>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(engine: &'a dyn Engine, options: &'a Options<'a>) -> Self {
        // Without threads of its own it uses those that there are.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().ok();
        Bench { engine, options, pool, progress: Mutex::new(Progress { done: 0, total: 0, failed: 0 }) }
    }

    /// How many runs there will be in all.
    pub(super) fn expect(&mut self, total: usize) {
        let mut progress = lock(&self.progress);
        progress.total = total;
        (self.options.progress)(*progress);
    }

    /// How many runs were made.
    pub(super) fn done(&self) -> usize {
        lock(&self.progress).done
    }

    /// What each of these took; none if it was stopped.
    pub(super) fn run(&self, jobs: &[(&World, Use, u64)]) -> Option<Vec<Taken>> {
        let one = |&(world, of_use, seed): &(&World, Use, u64)| {
            if self.options.stop.load(Ordering::Relaxed) {
                return None;
            }
            let ran = catch_unwind(AssertUnwindSafe(|| self.engine.run(world, seed, false).record));
            let record = ran.unwrap_or_else(|_| RunRecord::failure("the program panicked".to_owned()));
            let taken = Taken::of(&record, of_use, world);
            let mut progress = lock(&self.progress);
            progress.done += 1;
            progress.total = progress.total.max(progress.done);
            progress.failed += usize::from(taken.has_failed);
            (self.options.progress)(*progress);
            Some(taken)
        };
        match &self.pool {
            Some(pool) => pool.install(|| jobs.par_iter().with_max_len(1).map(one).collect()),
            None => jobs.iter().map(one).collect(),
        }
    }
}
