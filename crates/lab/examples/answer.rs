//! Answers a scenario without the program: `cargo run -p thalweg-lab --example answer -- FILE DIR [SEEDS]`.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::judgment::Judgment;
use thalweg_lab::results::Results;
use thalweg_lab::runner::{Progress, RunOptions, run};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, directory, seeds @ ..] = args.as_slice() else { return Err("usage: answer FILE DIR [SEEDS]".into()) };
    let engine = SimEngine::default();
    let scenario = Scenario::load(Path::new(file), &engine.stacks())?;
    let store = Store::create(Path::new(directory))?;
    let stop = AtomicBool::new(false);
    let progress =
        |progress: Progress| eprint!("\r{} of {} runs, {} failed", progress.done, progress.total, progress.failed);
    let seeds = seeds.first().map(|seeds| seeds.parse()).transpose()?;
    let options = RunOptions { seeds, ..RunOptions::new(&stop, &progress) };
    let done = run(&scenario, &engine, &store, &options)?;
    eprintln!();
    let results = Results { scenario, runs: done.runs, manifest: done.manifest, store };
    for failed in results.runs.values().filter_map(|run| run.failed()) {
        println!("failed: {failed}");
    }
    let judgment = Judgment::of(&results);
    for verdict in &judgment.verdicts {
        let (word, place) = (verdict.outcome.word(), [&*verdict.point_name, &*verdict.subject].join(" "));
        println!("{word}: {} ({}) {}, found {}", verdict.measured, place.trim(), verdict.expected, verdict.found);
    }
    for reason in &judgment.reasons {
        println!("does not pass: {reason}");
    }
    println!("{}", results.write()?.display());
    if judgment.passes() { Ok(()) } else { Err("the results do not pass".into()) }
}
