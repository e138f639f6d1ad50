//! A forecast of the runs of a sweep and of their time, printed before it starts.
//!
//! A few of the runs are made first and timed, more likely those that carry more bytes: with probabilities in
//! proportion to the bytes of a run, the mean of the time per byte is an unbiased estimate of that of all runs (Hansen
//! and Hurwitz 1943). What was made is stored like any other run, so nothing is lost by it.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_lab::engine::{Engine, Output, StackInfo};
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

/// Fewer have no interval ([`Statistic::Mean`]).
const FEWEST: usize = 10;

/// What is known of a sweep before it starts.
#[derive(Debug)]
pub(super) struct Forecast {
    /// How many runs there are to make, and about how long they take; none if they are few.
    pub(super) said: Option<String>,
    /// How many runs of each scenario were made to find out.
    pub(super) made: Vec<usize>,
}

/// An engine that notes how long each run took: seconds, and bytes that the run carries.
struct Timed<'a> {
    engine: &'a dyn Engine,
    took: Mutex<Vec<(f64, f64)>>,
}

impl Timed<'_> {
    fn took(&self) -> MutexGuard<'_, Vec<(f64, f64)>> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        self.took().push((began.elapsed().as_secs_f64(), world.bytes() as f64));
        output
    }
}

/// A run that is to be made: its scenario, point and seed.
type Job = (usize, (usize, u64));

/// Counts the runs that are to be made. If they are many, makes some of them and estimates how long all of them take.
///
/// # Errors
/// When results cannot be written.
pub(super) fn forecast(
    scenarios: &[Scenario],
    directories: &[PathBuf],
    engine: &dyn Engine,
    options: &RunOptions<'_>,
) -> Result<Forecast> {
    let mut made = vec![0; scenarios.len()];
    // Whether runs are there already is asked of folders that exist.
    let stores = directories.iter().map(|directory| Store::create(directory));
    let stores: Vec<Store> = stores.collect::<std::result::Result<_, _>>().map_err(Failure::failed)?;
    let mut jobs: Vec<Job> = Vec::new();
    for (number, (scenario, store)) in scenarios.iter().zip(&stores).enumerate() {
        jobs.extend(runner::missing(scenario, engine, store, options).into_iter().map(|job| (number, job)));
    }
    if jobs.len() < MANY {
        return Ok(Forecast { said: None, made });
    }
    let bytes: Vec<f64> =
        jobs.iter().map(|(number, (point, _))| scenarios[*number].points[*point].world.bytes() as f64).collect();
    let first = spread(&bytes, FIRST.min(jobs.len() / 20));
    let timed = Timed { engine, took: Mutex::new(Vec::new()) };
    // One after the other: what is left of the time is what it takes to store them.
    let alone = RunOptions { threads: 1, ..*options };
    let began = Instant::now();
    for (number, (scenario, store)) in scenarios.iter().zip(&stores).enumerate() {
        let mine = first.iter().map(|at| jobs[*at]).filter(|(of, _)| *of == number);
        let mine: Vec<(usize, u64)> = mine.map(|(_, job)| job).collect();
        let before = timed.took().len();
        if !mine.is_empty() {
            runner::ahead(scenario, &timed, store, &alone, &mine).map_err(Failure::failed)?;
        }
        made[number] = timed.took().len() - before;
    }
    let all = began.elapsed().as_secs_f64();
    let took = timed.took().clone();
    let storing = (all - took.iter().map(|(seconds, _)| seconds).sum::<f64>()).max(0.0) / took.len().max(1) as f64;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let work = Work { runs: jobs.len(), bytes: bytes.iter().sum(), storing, threads };
    Ok(Forecast { said: Some(said(work, &took)), made })
}

/// So many numbers of jobs, spread evenly over the sum of their sizes: each is chosen with a probability in proportion
/// to its size. A job as large as several steps is chosen once, which only
/// matters where single runs are a good part of all.
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

/// All that is to be done.
#[derive(Copy, Clone)]
struct Work {
    runs: usize,
    /// Bytes that all runs carry.
    bytes: f64,
    /// Seconds to store one run.
    storing: f64,
    threads: usize,
}

/// The number of runs and the time for them, with the interval that the sample allows for: of each run its seconds and
/// its bytes.
fn said(work: Work, sample: &[(f64, f64)]) -> String {
    let Work { runs, bytes, storing, threads } = work;
    let begin = format!("{} to make", counted(runs as u64, "run"));
    let threads_said = counted(threads as u64, "thread");
    let suggests = format!("as the first {} suggest", sample.len());
    if sample.len() < FEWEST {
        return format!("{begin} on {threads_said}; too few were made first to tell how long they take");
    }
    let per_byte: Vec<f64> = sample.iter().map(|(seconds, bytes)| seconds / bytes).collect();
    let time = |per_byte: f64| {
        let seconds = (per_byte * bytes + storing * runs as f64) / threads as f64;
        words(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
    };
    let mean = Estimate::of(&per_byte, Statistic::Mean, 0.0);
    // One run that took much longer than all others has no interval to be trusted; a wide one is better than none.
    let wide = || {
        let deviation = Estimate::of(&per_byte, Statistic::Deviation, 0.0).value;
        let reach = 2.0 * deviation / (per_byte.len() as f64).sqrt();
        (mean.value - reach, mean.value + reach)
    };
    let (low, high) = mean.interval.map_or_else(wide, |interval| (interval.low, interval.high));
    let (about, low, high) = (time(mean.value), time(low.max(0.0)), time(high));
    format!("{begin}, about {about} on {threads_said} ({low} to {high}), {suggests}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_runs_are_sampled_more_often_and_none_twice() {
        assert_eq!(spread(&[1.0; 8], 4), [1, 3, 5, 7]);
        // Four steps of 5: at 2.5, 7.5, 12.5 and 17.5, of which two each are in a large one.
        assert_eq!(spread(&[1.0, 1.0, 8.0, 1.0, 1.0, 8.0], 4), [2, 5]);
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
    fn the_time_is_that_of_all_bytes_and_of_storing_them_over_the_threads() {
        let even: Vec<(f64, f64)> = [(1e-3, 1e6), (6e-3, 2e6)].repeat(10);
        let work = Work { runs: 7_200, bytes: 4e12, storing: 0.1, threads: 2 };
        let text = said(work, &even);
        // 4 TB at 2 ns each are 8000 s, storing takes 720 s: on two threads 4360 s.
        assert!(text.starts_with("7200 runs to make, about 73 min on 2 threads ("), "{text}");
        assert!(text.ends_with("as the first 20 suggest"), "{text}");
        let few = said(work, &even[..FEWEST - 1]);
        assert!(few.contains("too few"), "{few}");
        // All but one take no time: the interval is wide and begins at what storing takes.
        let one: Vec<(f64, f64)> = (0..20).map(|at| (if at == 7 { 0.1 } else { 1e-9 }, 1e6)).collect();
        let text = said(work, &one);
        assert!(text.contains("(6 min to "), "{text}");
    }
}
