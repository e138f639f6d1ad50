//! Answers of a page: the flow, ties, and the costs of the best choice.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use thalweg_lab::answer;
use thalweg_lab::choices::Grid;
use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::judgment::{Judgment, Reason};
use thalweg_lab::matrix;
use thalweg_lab::results::Results;
use thalweg_lab::runner::{RunOptions, run};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::Store;

/// Datagrams beside an upload that fills the queue.
const GAME: &str = r#"
title = "A game behind an uplink"
question = "Which queue keeps datagrams quick beside an upload?"
seeds = 9
time_limit = "30 s"
record = "none"
answer = "frame_delay.p99"
[path.home]
up = { rate = "5 Mbps", delay = "15 ms", queue = "300 ms" }
down = { rate = "50 Mbps", delay = "15 ms" }
[[flow]]
name = "bulk"
transfer = { upload = "2500 kB" }
[[flow]]
name = "game"
start = "500 ms"
datagrams = { rate = "200 kbps", size = "200 B", duration = "3 s", direction = "up" }
[vary]
"path.home.up.aqm" = ["tail-drop", "codel", "fq-codel"]
"#;

/// A page over a satellite, with and without 0-RTT.
const LEO: &str = r#"
title = "0-RTT on LEO"
question = "Does 0-RTT help a page over a low-orbit satellite?"
seeds = 30
time_limit = "60 s"
record = "none"
answer = "completion.p50"
[path.leo]
preset = "leo"
[[flow]]
name = "page"
page = { objects = [{ size = "20 kB" }, { size = "30 kB", after = [0], times = 6 }] }
[vary]
"flow.page.early_data" = [false, true]
"#;

fn results(text: &str, directory: &Path) -> Results {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let engine = SimEngine::default();
    let scenario = Scenario::parse("q.toml", text, Path::new(""), &engine.stacks()).unwrap();
    let store = Store::create(directory).unwrap();
    let done = run(&scenario, &engine, &store, &RunOptions::new(&NEVER, &|_| {})).unwrap();
    Results { scenario, runs: done.runs, manifest: done.manifest, store }
}

fn sentences(results: &Results) -> Vec<String> {
    let grid = Grid::of(&results.scenario);
    let (matrices, measured) = matrix::matrices(&results.scenario, &results.runs, &grid);
    answer::sentences(&results.scenario, &grid, &matrices, measured)
}

#[test]
fn the_answer_is_of_the_flow_that_has_the_metric_and_of_its_statistic() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(GAME, directory.path());
    let said = sentences(&results);
    // Without `compare`: a discipline is something to choose.
    assert!(said[0].starts_with("Best: fq-codel. Its p99 frame delay of game is 0."), "{said:?}");
    assert!(said[0].contains("that of tail-drop"), "{said:?}");
    let grid = Grid::of(&results.scenario);
    let (matrices, _) = matrix::matrices(&results.scenario, &results.runs, &grid);
    let [tail_drop, codel, fq_codel] = [0, 1, 2].map(|choice| matrices[0].entries[0][choice].unwrap());
    let [slow, middle, quick] = [tail_drop, codel, fq_codel].map(|entry| entry.found.value);
    assert!(slow > 0.1 && middle < 0.5 * slow && quick < middle, "{slow} {middle} {quick}");
    // The ratio is of what was asked for, not of the median delay.
    let ratio = fq_codel.ratio.unwrap().value;
    assert!((ratio / (quick / slow) - 1.0).abs() < 0.2, "{ratio} {quick} {slow}");
    // Datagrams without a deadline miss none.
    assert!(matrices.iter().all(|it| it.metric.name != "deadline_misses" || it.subject != "game"));
    let page = std::fs::read_to_string(results.write().unwrap()).unwrap();
    assert!(page.contains("Median over seeds of the p99 of each run with its 95 % interval"));
    assert!(!page.contains("P99 over seeds"));
}

#[test]
fn what_the_best_choice_costs_is_looked_for_in_all_that_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let said = sentences(&results(LEO, directory.path()));
    assert!(said[0].starts_with("Best: early_data = true. Its completion is 0.9"), "{said:?}");
    let costs = said.last().unwrap();
    assert!(costs.starts_with("What early_data = true costs against early_data = false: response: 1"), "{said:?}");
    assert!(costs.contains("other metrics were looked at"), "{said:?}");
}

#[test]
fn circumstances_alone_are_not_compared_and_the_page_says_how_they_would_be() {
    let directory = tempfile::tempdir().unwrap();
    let vary = "\"path.home.up.rate\" = [\"5 Mbps\", \"6 Mbps\"]";
    let text = GAME.replace("\"path.home.up.aqm\" = [\"tail-drop\", \"codel\", \"fq-codel\"]", vary);
    let said = sentences(&results(&text.replace("seeds = 9", "seeds = 1"), directory.path()));
    assert!(said[0].starts_with("The p99 frame delay of game goes from "), "{said:?}");
    assert!(said[1].contains("compare = \"rate\" in the scenario"), "{said:?}");
}

#[test]
fn an_answer_without_a_value_does_not_pass() {
    let directory = tempfile::tempdir().unwrap();
    // Nothing interrupts the path, which no kind of traffic could notice.
    let text = GAME.replace("frame_delay.p99", "silence_after_repair.p50").replace("seeds = 9", "seeds = 1");
    let results = results(&text, directory.path());
    let judgment = Judgment::of(&results);
    assert_eq!(judgment.reasons, [Reason::Unanswered { metric: "silence_after_repair" }]);
    let said = sentences(&results);
    let expected = "No run has a value of the silence after repair of bulk, which this scenario names as its answer.";
    assert_eq!(said, [expected]);
    assert!(std::fs::read_to_string(results.write().unwrap()).unwrap().contains(expected));
}
