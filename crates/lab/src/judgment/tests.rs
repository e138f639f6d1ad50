use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::engine::{Engine, StackInfo};
use crate::record::{Part, RunRecord, put};
use crate::runner::{RunOptions, run};
use crate::store::{Manifest, Store};
use crate::testing::Toy;

const HEAD: &str = r#"
title = "t"
question = "q?"
seeds = 10
[path.p]
down = { rate = "10 Mbps", delay = "10 ms" }
up = { rate = "10 Mbps", delay = "10 ms" }
[[flow]]
name = "f"
transfer = { download = "1 MB" }
[vary]
"flow.f.policies.pacing" = ["off", "on"]
"#;

/// Results of both points (pacing off, pacing on) with these completions in seconds, a seed each; none is a run that
/// failed. The folder is gone, as nothing is read from it.
fn results(expectations: &str, completions: &[[Option<f64>; 2]]) -> Results {
    let stacks = [StackInfo::new("thalweg")];
    let scenario = Scenario::parse("t.toml", &format!("{HEAD}{expectations}"), Path::new(""), &stacks).unwrap();
    let mut runs = Runs::new();
    for (seed, both) in (1..).zip(completions) {
        for (point, completion) in both.iter().enumerate() {
            let mut flow = Part { name: "f".to_owned(), ..Part::default() };
            flow.set("completed", f64::from(u8::from(completion.is_some())));
            completion.iter().for_each(|value| flow.set("completion", *value));
            let failed = completion.is_none().then(|| "did not finish".to_owned());
            let mut record = RunRecord { failed, flows: vec![flow], ..RunRecord::default() };
            // Runs with equal event logs are one run.
            record.wire_hash = format!("{point} {seed}");
            put(&mut record.values, "success", f64::from(u8::from(completion.is_some())));
            runs.insert((point, seed), &record);
        }
    }
    let manifest = Manifest { complete: true, ..Manifest::new(&scenario, "none") };
    let store = Store::create(tempfile::tempdir().unwrap().path()).unwrap();
    Results { scenario, runs, manifest, store }
}

/// As many pairs of completions around 1 s, no two alike.
fn about_a_second(count: u32) -> Vec<[Option<f64>; 2]> {
    (0..count).map(|n| [0.9, 0.91].map(|least| Some(least + 0.02 * f64::from(n)))).collect()
}

fn reasons(results: &Results) -> Vec<String> {
    let judgment = Judgment::of(results);
    assert_eq!(judgment.passes(), judgment.reasons.is_empty());
    judgment.reasons.iter().map(Reason::to_string).collect()
}

fn completion(bound: &str) -> String {
    format!("[[expect]]\nmetric = \"completion.p50\"\nat_most = \"{bound}\"\n")
}

#[test]
fn results_pass_if_everything_expected_holds() {
    let judgment = Judgment::of(&results(&completion("2 s"), &about_a_second(10)));
    assert!(judgment.passes() && judgment.few_seeds.is_none() && judgment.until.is_none());
    assert_eq!((judgment.verdicts.len(), judgment.tally.good), (2, 2));
    assert_eq!(reasons(&results(&completion("0.5 s"), &about_a_second(10))), ["2 of 2 expectations do not hold"]);
}

#[test]
fn fewer_seeds_than_asked_excuse_what_cannot_be_told_and_nothing_else() {
    let of = |bound: &str, seeds: u64, asked: u64| {
        let mut results = results(&completion(bound), &about_a_second(10));
        (results.manifest.seeds, results.scenario.seeds) = (seeds, asked);
        results
    };
    // The medians are 0.99 s and 1 s; their intervals begin at 0.92 s and 0.93 s.
    let (narrow, far) = ("980 ms", "500 ms");
    let outcomes = |results: &Results| Judgment::of(results).verdicts.iter().map(|it| it.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes(&of(narrow, 10, 10)), [Outcome::CannotTell; 2]);
    assert_eq!(reasons(&of(narrow, 10, 10)), ["2 of 2 expectations do not hold"]);
    assert_eq!(reasons(&of(narrow, 10, 30)), [""; 0]);
    let count = |results: &Results| (Judgment::of(results).broken, Judgment::of(results).excused);
    assert_eq!((count(&of(narrow, 10, 10)), count(&of(narrow, 10, 30))), ((2, 0), (0, 2)));
    // The report says the same.
    let page = crate::report::collection("t", &[of(narrow, 10, 30)], Path::new("")).unwrap();
    let banner = "<span class=\"banner good\">0 of 2 expectations hold; 2 cannot be told on so few runs</span>";
    assert!(page.contains(banner), "{}", &page[..page.len().min(2000)]);
    assert_eq!(Judgment::of(&of(narrow, 10, 30)).few_seeds, Some((10, 30)));
    // More seeds than the scenario asks for are not few.
    assert_eq!(reasons(&of(narrow, 10, 5)), ["2 of 2 expectations do not hold"]);
    assert_eq!(outcomes(&of(far, 10, 30)), [Outcome::Fails; 2]);
    assert_eq!(reasons(&of(far, 10, 30)), ["2 of 2 expectations do not hold"]);
    // Nothing to judge is no matter of seeds.
    let mut nothing = of(narrow, 10, 30);
    nothing.runs = Runs::new();
    assert_eq!(outcomes(&nothing), [Outcome::Unknown; 2]);
    assert_eq!(reasons(&nothing), ["2 of 2 expectations do not hold"]);
}

#[test]
fn a_failed_run_counts_unless_an_expectation_speaks_of_its_point() {
    let completions = [[None, None], [None, Some(1.0)], [Some(1.0), Some(1.0)]];
    let success = |place: &str| format!("[[expect]]\n{place}metric = \"success\"\nat_least = 0.1\n");
    let off = success("where = { pacing = \"off\" }\n");
    let failures = |text: &str| Judgment::of(&results(text, &completions)).failures;
    let unexpected = |text: &str| failures(text).unexpected;
    assert_eq!(failures(""), Failures { all: 3, ours: 3, unexpected: 3, unexpected_of_rivals: 0 });
    assert_eq!(unexpected(&off), 1);
    assert_eq!(unexpected(&success("")), 0);
    assert_eq!(unexpected(&off.replace("success", "completed")), 1);
    // That something is known to fall short excuses no failed run.
    let known = success("").replace("expect", "known");
    assert_eq!(unexpected(&known), 3);
    assert_eq!(reasons(&results(&known, &completions)), ["3 runs failed unexpectedly"]);
    assert_eq!(reasons(&results(&off, &completions)), ["1 run failed unexpectedly"]);
    assert_eq!(reasons(&results(&success(""), &completions)), [""; 0]);
    let both = reasons(&results(&completion("0.5 s"), &completions));
    assert_eq!(both, ["2 of 2 expectations do not hold", "3 runs failed unexpectedly"]);
}

#[test]
fn failed_runs_of_rivals_do_not_count() {
    let mut results = results("", &[[Some(1.0), None]]);
    results.scenario.points[1].rival = Some("other".to_owned());
    let judgment = Judgment::of(&results);
    assert!(judgment.passes());
    assert_eq!(judgment.failures, Failures { all: 1, ours: 0, unexpected: 0, unexpected_of_rivals: 1 });
}

#[test]
fn a_part_answers_for_its_failed_runs_only() {
    let success = "[[expect]]\nmetric = \"success\"\nequals = 0\n";
    let parts: [fn(&mut Manifest); 3] = [
        |manifest| manifest.shard = Some("1/2".to_owned()),
        |manifest| manifest.only_point = Some(0),
        |manifest| manifest.only_seed = Some(1),
    ];
    for part in parts {
        let mut good = results(success, &about_a_second(3));
        assert_eq!(reasons(&good), ["2 of 2 expectations do not hold"]);
        part(&mut good.manifest);
        assert_eq!(reasons(&good), [""; 0]);
        // The expectation says how many of all runs may fail; a part does not know how many fail in all.
        let mut bad = results(success, &[[None, Some(1.0)]]);
        part(&mut bad.manifest);
        assert_eq!(reasons(&bad), ["1 run failed unexpectedly"]);
    }
}

#[test]
fn what_was_interrupted_does_not_pass() {
    let mut results = results(&completion("2 s"), &about_a_second(10));
    results.manifest.complete = false;
    assert_eq!(reasons(&results), ["not every run is done"]);
}

#[test]
fn a_folder_is_judged_as_the_run_that_wrote_it() {
    let directory = tempfile::tempdir().unwrap();
    let toy = Toy::default();
    let until = "until = { metric = \"completion.p50\", width = \"0.0001 %\", max_seeds = 40 }\nseeds = 10";
    let text = format!("{}{}", HEAD.replace("seeds = 10", until), completion("1 s"));
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &toy.stacks()).unwrap();
    let store = Store::create(directory.path()).unwrap();
    let stop = AtomicBool::new(false);
    let options = RunOptions { max_seeds: Some(8), threads: 1, ..RunOptions::new(&stop, &|_| {}) };
    let done = run(&scenario, &toy, &store, &options).unwrap();
    assert_eq!(done.runs.len(), 16, "the cap holds for `seeds` and for `until`");
    let fresh = Results { scenario, runs: done.runs, manifest: done.manifest, store };
    let judgment = Judgment::of(&fresh);
    assert_eq!(judgment.few_seeds, Some((8, 10)));
    let until = judgment.until.clone().unwrap();
    assert!(!until.is_met() && until.max_seeds == 8, "{until}");
    assert_eq!(judgment, Judgment::of(&Results::load(directory.path(), &toy.stacks()).unwrap()));
}
