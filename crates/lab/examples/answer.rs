//! Answers a scenario without the program: `cargo run -p thalweg-lab --example answer -- FILE DIR [SEEDS]`.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use thalweg_lab::engine::SimEngine;
use thalweg_lab::record::Engine;
use thalweg_lab::report::Results;
use thalweg_lab::runner::{RunOptions, run};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, directory, seeds @ ..] = args.as_slice() else { return Err("usage: answer FILE DIR [SEEDS]".into()) };
    let engine = SimEngine::default();
    let scenario = Scenario::load(Path::new(file), &engine.stacks())?;
    let store = Store::create(Path::new(directory))?;
    let options = RunOptions {
        seeds: seeds.first().map(|seeds| seeds.parse()).transpose()?,
        max_seeds: None,
        only_seed: None,
        only_point: None,
        shard: None,
        threads: 0,
        stop: &AtomicBool::new(false),
        progress: &|progress| eprint!("\r{} of {} runs, {} failed", progress.done, progress.total, progress.failed),
    };
    let done = run(&scenario, &engine, &store, &options)?;
    eprintln!();
    let results = Results { scenario, runs: done.runs, manifest: done.manifest, store };
    for failed in results.runs.values().filter_map(|record| record.failed.as_ref()) {
        println!("failed: {failed}");
    }
    for verdict in results.verdicts() {
        let (word, place) = (verdict.outcome.word(), [&*verdict.point_name, &*verdict.subject].join(" "));
        println!("{word}: {} ({}) {}, found {}", verdict.measured, place.trim(), verdict.expected, verdict.found);
    }
    println!("{}", results.write()?.display());
    Ok(())
}
