//! Compares advice for measured paths with advice for the true ones, on drawn paths.
//!
//! usage: cargo run --release -p thalweg-cli --example advice -- [COUNT [FROM [quick | models]]]
//!
//! Path N is that of world N of `thalweg lab draw --single`. It is measured in the lab for two minutes, with trains and
//! a load of ten seconds each way, as `thalweg probe --advise` does, and a model is fitted. `thalweg lab advise` is
//! asked about the model, and, with more seeds, about the true path. Both choices and the shipped rules then run over
//! the true path, on seeds of their own. With `quick` all of this takes fewer seeds: a minute for a path rather than
//! three. With `models` nothing runs, and the models are shown beside the paths.
//!
//! If the environment names a folder in KEEP, what was found of the true paths is kept there, and used by the next run
//! of the same kind.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../probe/tests/all/bulk.rs"]
mod bulk;
#[path = "../../probe/tests/all/world.rs"]
#[allow(dead_code)]
mod world;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use thalweg_lab::advise::{Advice, Choice, Effort, Options, Request, advise, scores};
use thalweg_lab::draw::{Class, Drawn, Request as Draw};
use thalweg_lab::engine::SimEngine;
use thalweg_link::trace::Synthetic;
use thalweg_link::{PathConfig, Paths};
use thalweg_probe::model;
use thalweg_recovery::Policies;

use world::World;

/// What "as good as the best" means.
const WITHIN: f64 = 1.03;

static STOP: AtomicBool = AtomicBool::new(false);

fn options() -> Options<'static> {
    Options { threads: 0, stop: &STOP, progress: &|_| {} }
}

fn advice(hops: &[PathConfig], effort: Effort) -> Advice {
    let request = Request { hops: hops.to_vec(), effort };
    advise(&request, &SimEngine::default(), &options()).unwrap().unwrap()
}

/// The model that a measurement of this path gives.
fn measured(hops: &[PathConfig], seed: u64) -> Option<String> {
    World::advised(hops, seed).measured().map(|summary| model(&summary))
}

fn named(choice: Option<&Choice>) -> String {
    choice.map_or_else(|| "shipped".to_owned(), Choice::to_string)
}

/// What `thalweg lab advise` says of the true path; kept, as it takes most of the time.
fn of_truth(hops: &[PathConfig], effort: Effort, number: u64) -> Option<Choice> {
    let Some(folder) = std::env::var_os("KEEP") else { return advice(hops, effort).advised };
    let file = PathBuf::from(folder).join(format!("{number}-{}", effort.screen));
    if let Ok(kept) = std::fs::read_to_string(&file) {
        return Choice::all().into_iter().find(|choice| choice.to_string() == kept);
    }
    let found = advice(hops, effort).advised;
    std::fs::write(file, named(found.as_ref())).unwrap();
    found
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: u64 = args.next().map_or(30, |count| count.parse().unwrap());
    let from: u64 = args.next().map_or(0, |from| from.parse().unwrap());
    let word = args.next().unwrap_or_default();
    let quick = Effort { screen: 2, kept: 3, compare: 3, confirm: 12 };
    let careful = Effort { screen: 8, kept: 6, compare: 16, confirm: 24 };
    let (true_effort, model_effort, seeds) = match word.as_str() {
        "quick" => (quick, quick, 12),
        _ => (careful, Effort::default(), 24),
    };
    let (mut right, mut same) = (0, 0);
    let request = Draw { single: count, shared: 0, pairs: 0, scheduler: None, from, policies: Policies::default() };
    for number in from..from + count {
        let drawn = Drawn::new(Class::Single, number, &request);
        let paths = Paths::parse("drawn", &drawn.text, &Synthetic).unwrap();
        let hops = paths.hops(&paths.paths[0].name).unwrap();
        let text = measured(&hops, number + 1);
        if word == "models" {
            let path = drawn.text.split("\n\n").find(|part| part.starts_with("[path.p]")).unwrap_or_default();
            println!("{number} {}\n{path}\n{}", drawn.title, text.unwrap_or_default());
            continue;
        }
        let truth = of_truth(&hops, true_effort, number);
        let told = text.as_ref().and_then(|text| {
            let paths = Paths::parse("model", text, &Synthetic).unwrap();
            advice(&paths.hops("model").unwrap(), model_effort).advised
        });
        let both = [truth.clone(), told.clone()];
        let found = scores(&hops, &SimEngine::default(), &options(), &both, 1_000..1_000 + seeds).unwrap().unwrap();
        let over = found[1] / found[0].min(1.0);
        let is_right = truth == told || over <= WITHIN;
        right += u64::from(is_right);
        same += u64::from(truth == told);
        println!(
            "{number:>4} {:<10} best {:<26} {:.3}  advised {:<26} {:.3}  {}{}",
            drawn.kind,
            named(truth.as_ref()),
            found[0],
            named(told.as_ref()),
            found[1],
            if is_right { "right" } else { "wrong" },
            if text.is_none() { ", not measured" } else { "" }
        );
    }
    if word != "models" {
        println!("{right} of {count} right: {same} the same choice, the others within 3 %");
    }
}
