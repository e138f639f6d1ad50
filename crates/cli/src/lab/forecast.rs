//! How many runs a sweep will make and how long it will take, said before it starts.
//!
//! A few of the runs are made first and timed, more likely those that carry more bytes: with probabilities in
//! proportion to the bytes of a run, the mean of the time per byte is an unbiased estimate of that of all runs (Hansen
//! and Hurwitz 1943). What was made is stored like any other run, so nothing is lost by it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_lab::record::{Engine, Output, StackInfo};
use thalweg_lab::runner::{self, RunOptions};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::scenario::world::World;
use thalweg_lab::stats::{Estimate, Statistic};
use thalweg_lab::store::Store;

use crate::failure::{Failure, Result};

use super::words::counted;

/// Fewer runs are under way before anybody has read how long they take.
const MANY: usize = 500;

/// Runs that are made first: enough for an interval of the mean, and at most a twentieth of all.
const FIRST: usize = 24;

/// An engine that notes how long each run took, in seconds per byte that the run carries.
struct Timed<'a> {
    engine: &'a dyn Engine,
    took: Mutex<Vec<f64>>,
}

impl Engine for Timed<'_> {
    fn version(&self) -> String {
        self.engine.version()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        self.engine.stacks()
    }

    fn is_repeatable(&self, world: &World) -> bool {
        self.engine.is_repeatable(world)
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> Output {
        let began = Instant::now();
        let output = self.engine.run(world, seed, recording);
        let per_byte = began.elapsed().as_secs_f64() / world.bytes() as f64;
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push(per_byte);
        output
    }
}

/// A run that is to be made: its scenario, point and seed.
type Job = (usize, (usize, u64));

/// Says how many runs there are to make and about how long they take; nothing if they are few. Makes some of them.
///
/// # Errors
/// When results cannot be written.
pub(super) fn forecast(
    scenarios: &[Scenario],
    directories: &[PathBuf],
    engine: &dyn Engine,
    options: &RunOptions<'_>,
) -> Result<Option<String>> {
    // Whether runs are there already is asked of folders that exist.
    let stores: Vec<Store> = directories
        .iter()
        .map(|directory| Store::create(directory))
        .collect::<std::result::Result<_, _>>()
        .map_err(Failure::failed)?;
    let mut jobs: Vec<Job> = Vec::new();
    for (number, (scenario, store)) in scenarios.iter().zip(&stores).enumerate() {
        jobs.extend(runner::missing(scenario, engine, store, options).into_iter().map(|job| (number, job)));
    }
    if jobs.len() < MANY {
        return Ok(None);
    }
    let bytes: Vec<f64> =
        jobs.iter().map(|(number, (point, _))| scenarios[*number].points[*point].world.bytes() as f64).collect();
    let first = spread(&bytes, FIRST.min(jobs.len() / 20));
    let timed = Timed { engine, took: Mutex::new(Vec::new()) };
    for (number, (scenario, store)) in scenarios.iter().zip(&stores).enumerate() {
        let mine: Vec<(usize, u64)> =
            first.iter().map(|at| jobs[*at]).filter(|(of, _)| *of == number).map(|(_, job)| job).collect();
        if !mine.is_empty() {
            runner::ahead(scenario, &timed, store, options, &mine).map_err(Failure::failed)?;
        }
    }
    let took = timed.took.into_inner().unwrap_or_else(PoisonError::into_inner);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    Ok(Some(said(jobs.len(), bytes.iter().sum(), &took, threads)))
}

/// So many numbers of jobs, spread evenly over the sum of their sizes: each is chosen with a probability in proportion
/// to its size. A job as large as several steps is chosen once.
fn spread(sizes: &[f64], count: usize) -> Vec<usize> {
    let step = sizes.iter().sum::<f64>() / count.max(1) as f64;
    let mut chosen = Vec::new();
    let (mut end, mut next) = (0.0, step / 2.0);
    for (at, size) in sizes.iter().enumerate() {
        end += size;
        if next < end {
            chosen.push(at);
            while next < end {
                next += step;
            }
        }
    }
    chosen
}

/// A time to two or three digits: more would say more than is known.
fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..100.0 => format!("{:.0} s", seconds.max(1.0)),
        ..6_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// The number of runs and the time for them, with the interval that the sample allows for.
fn said(runs: usize, bytes: f64, per_byte: &[f64], threads: usize) -> String {
    let runs = counted(runs as u64, "run");
    let threads_said = counted(threads as u64, "thread");
    let time = |per_byte: f64| Duration::from_secs_f64((per_byte * bytes / threads as f64).clamp(0.0, 1e9));
    let estimate = Estimate::of(per_byte, Statistic::Mean, 0.0);
    let sample = format!("as {} of them that were made first suggest", per_byte.len());
    match estimate.interval {
        Some(interval) if interval.high.is_finite() => {
            let (low, high) = (words(time(interval.low)), words(time(interval.high)));
            let about = words(time(estimate.value));
            format!("{runs} to make, about {about} on {threads_said} ({low} to {high}), {sample}")
        }
        _ => format!("{runs} to make, {threads_said}; how long they take cannot be told {sample}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_runs_are_sampled_more_often_and_none_twice() {
        assert_eq!(spread(&[1.0; 8], 4), [1, 3, 5, 7]);
        // Four steps of 5: at 2.5, 7.5, 12.5 and 17.5.
        assert_eq!(spread(&[1.0, 1.0, 8.0, 1.0, 1.0, 8.0], 4), [2, 4, 5]);
        assert_eq!(spread(&[100.0, 1.0], 10), [0]);
        assert!(spread(&[], 3).is_empty());
    }

    #[test]
    fn times_have_two_or_three_digits() {
        let said =
            [0.2, 99.4, 100.0, 4_000.0, 5_999.0, 40_000.0].map(|seconds| words(Duration::from_secs_f64(seconds)));
        assert_eq!(said, ["1 s", "99 s", "2 min", "67 min", "100 min", "11.1 h"]);
    }

    #[test]
    fn the_time_is_that_of_all_bytes_over_the_threads() {
        let even = [1e-9, 3e-9].repeat(10);
        let text = said(7_200, 4e12, &even, 2);
        // 4 TB at 2 ns each are 8000 s, on two threads 4000 s.
        assert!(text.starts_with("7200 runs to make, about 67 min on 2 threads ("), "{text}");
        assert!(text.ends_with("as 20 of them that were made first suggest"), "{text}");
        let few = said(600, 1e9, &[1e-9; 3], 2);
        assert!(few.contains("cannot be told"), "{few}");
    }
}
