//! Advice from a measured path against the true one, small: the example `advice` has the whole check.

#[path = "../../probe/tests/all/bulk.rs"]
mod bulk;
#[path = "../../probe/tests/all/world.rs"]
#[allow(dead_code)]
mod world;

use std::sync::atomic::AtomicBool;

use thalweg_lab::advise::{Choice, Options, scores};
use thalweg_lab::engine::SimEngine;
use thalweg_link::trace::Synthetic;
use thalweg_link::{PathConfig, Paths};
use thalweg_probe::model;

use world::World;

/// Paths of a few Mbps, each with something that makes another choice the best one, or none.
const PATHS: [(&str, &str); 6] = [
    ("plain", "rate = \"3 Mbps\", delay = \"40 ms\", queue = \"1 BDP\""),
    ("short queue", "rate = \"6 Mbps\", delay = \"50 ms\", queue = \"4 packets\""),
    (
        "policer",
        "rate = \"6 Mbps\", delay = \"40 ms\", queue = \"1 BDP\", policer = { rate = \"3 Mbps\", burst = \"20 kB\" }",
    ),
    (
        "reordering",
        "rate = \"5 Mbps\", delay = \"50 ms\", queue = \"1 BDP\", reorder = { share = \"3 %\", by = \"25 ms\" }",
    ),
    ("loss", "rate = \"5 Mbps\", delay = \"40 ms\", queue = \"1 BDP\", loss = \"2 %\""),
    (
        "bursts",
        "rate = \"4 Mbps\", delay = \"60 ms\", queue = \"1 BDP\", \
         loss = { burst = { mean_good = \"1.5 s\", mean_bad = \"60 ms\", bad = \"80 %\" } }",
    ),
];

/// The choices that are compared: those that are the best ones of most paths of the whole check.
const CHOICES: [&str; 5] = ["controller=bbr", "start=rapid-start", "mark=scalable", "pacing=off", "handshake=twice"];

/// What "as good as the best" means.
const WITHIN: f64 = 1.03;
/// The least gain that is advised.
const LEAST_GAIN: f64 = 0.01;

static STOP: AtomicBool = AtomicBool::new(false);

fn of_choices(hops: &[PathConfig], seeds: u64) -> Vec<f64> {
    let all = Choice::all();
    let named = |name: &&str| all.iter().find(|choice| choice.to_string() == **name).cloned();
    let choices: Vec<Option<Choice>> = CHOICES.iter().map(named).collect();
    assert!(choices.iter().all(Option::is_some), "a choice is no longer offered: {CHOICES:?}");
    let options = Options { threads: 0, stop: &STOP, progress: &|_| {} };
    scores(hops, &SimEngine::default(), &options, &choices, 1..1 + seeds).unwrap().unwrap()
}

/// The best choice, or none if there is nothing to gain.
fn best(scores: &[f64]) -> Option<usize> {
    let best = (0..scores.len()).min_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    best.filter(|best| scores[*best] < 1.0 - LEAST_GAIN)
}

fn measured(hops: &[PathConfig]) -> String {
    model(&World::advised(hops, 5).measured().unwrap())
}

#[test]
fn the_measured_path_has_the_best_choice_of_the_true_one() {
    let parsed = |text: &str, name: &str| Paths::parse("advice", text, &Synthetic).unwrap().hops(name).unwrap();
    let mut gains = 0;
    for (name, down) in PATHS {
        let up = down.split(", queue").next().unwrap();
        let truth = parsed(&format!("[path.true]\nup = {{ {up}, queue = \"100 ms\" }}\ndown = {{ {down} }}"), "true");
        let text = measured(&truth);
        let (of_truth, of_model) = (of_choices(&truth, 2), of_choices(&parsed(&text, "model"), 2));
        let value = |choice: Option<usize>| choice.map_or(1.0, |choice| of_truth[choice]);
        let (right, told) = (best(&of_truth), best(&of_model));
        gains += usize::from(value(right) < 0.97);
        let say = |choice: Option<usize>| choice.map_or("shipped", |choice| CHOICES[choice]);
        println!("{name}: best {} {:.3}, told {} {:.3}", say(right), value(right), say(told), value(told));
        assert!(
            value(told) <= WITHIN * value(right),
            "{name}: {} is the best, not {}: {of_truth:?} {of_model:?}\n{text}",
            say(right),
            say(told)
        );
    }
    // Where nothing is to be gained anywhere, any advice would be right.
    assert!(gains >= 3, "only {gains} paths have a choice that is better than shipped");
}
