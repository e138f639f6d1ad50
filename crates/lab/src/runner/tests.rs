use super::*;
use crate::metric::Scope;
use crate::summary::{self, Outcome};
use crate::testing::Toy;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

const TEXT: &str = r#"
title = "A file over a satellite"
question = "Which start is quicker?"
seeds = 20

[path.sat]
preset = "satellite"

[[flow]]
transfer = { download = "10 MB" }

[vary]
"flow.0.policies.start" = ["standard", "peak-bandwidth"]

[[expect]]
where = { start = "peak-bandwidth" }
metric = "completion_over_floor.p50"
at_most = 1.3

[[expect]]
where = { start = "peak-bandwidth" }
metric = "completion.p50"
relative_to = { start = "standard" }
at_most = 0.95

[[expect]]
where = { start = "peak-bandwidth" }
metric = "completion.max"
versus = { start = "standard" }
at_most = 0

[[expect]]
metric = "success"
equals = 1
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("sat.toml", text, Path::new(""), &Toy::default().stacks()).unwrap()
}

fn options<'a>(stop: &'a AtomicBool, progress: &'a (dyn Fn(Progress) + Sync)) -> RunOptions<'a> {
    RunOptions { threads: 2, ..RunOptions::new(stop, progress) }
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn every_point_runs_with_every_seed_and_nothing_runs_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let told = AtomicUsize::new(0);
    let progress = |_| {
        told.fetch_add(1, Ordering::Relaxed);
    };
    let scenario = scenario(TEXT);
    let first = run(&scenario, &Toy::default(), &store, &options(&NEVER, &progress)).unwrap();
    assert_eq!((first.runs.len(), first.executed, first.reused, first.interrupted), (40, 40, 0, false));
    assert_eq!(told.load(Ordering::Relaxed), 41, "once at the start and once per run");
    assert!(first.manifest.complete);
    let again = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    assert_eq!((again.executed, again.reused), (0, 40));
    assert_eq!(again.runs, first.runs);
    assert_eq!(again.manifest, first.manifest);
    assert_eq!(crate::results::load(&store, &first.manifest, &scenario), first.runs);
    // One lost file is one run.
    std::fs::remove_dir_all(directory.path().join("runs").join(first.manifest.points[0].key.short())).unwrap();
    let repaired = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    assert_eq!((repaired.executed, repaired.reused), (20, 20));
    assert_eq!(repaired.runs, first.runs);
}

#[test]
fn results_do_not_depend_on_threads() {
    let one = |threads| {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(directory.path()).unwrap();
        let options = RunOptions { threads, ..options(&NEVER, &|_| {}) };
        run(&scenario(TEXT), &Toy::default(), &store, &options).unwrap().manifest
    };
    assert_eq!(one(1), one(4));
}

#[test]
fn shards_share_the_work_and_merge_into_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Store::create(&directory.path().join("whole")).unwrap();
    let scenario = scenario(TEXT);
    let all = run(&scenario, &Toy::default(), &whole, &options(&NEVER, &|_| {})).unwrap();
    let mut parts = Vec::new();
    let mut sizes = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let store = Store::create(&directory.path().join(shard.replace('/', "-"))).unwrap();
        let options = RunOptions { shard: Some(shard.parse().unwrap()), ..options(&NEVER, &|_| {}) };
        let part = run(&scenario, &Toy::default(), &store, &options).unwrap();
        assert!(part.manifest.complete && part.manifest.shard.as_deref() == Some(shard));
        sizes.push(part.runs.len());
        parts.push(store);
    }
    assert_eq!(sizes.iter().sum::<usize>(), 40);
    assert!(sizes.iter().all(|size| *size >= 5), "{sizes:?}");
    let merged = Store::create(&directory.path().join("merged")).unwrap();
    let manifest = merged.merge(&parts).unwrap();
    assert_eq!(manifest, all.manifest);
    assert_eq!(crate::results::load(&merged, &manifest, &scenario), all.runs);
    for wrong in ["0/3", "4/3", "3", "a/b", "1/0", ""] {
        assert!(wrong.parse::<Shard>().unwrap_err().contains("such as 1/4"), "{wrong}");
    }
}

#[test]
fn every_run_is_in_exactly_one_shard_whatever_their_number() {
    let scenario = scenario(TEXT);
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let engine = Toy::default();
    let of =
        |shard: Option<Shard>| missing(&scenario, &engine, &store, &RunOptions { shard, ..options(&NEVER, &|_| {}) });
    let whole: BTreeSet<(usize, u64)> = of(None).into_iter().collect();
    for count in [1, 2, 3, 7, 64] {
        let parts = (1..=count).map(|index| of(Some(format!("{index}/{count}").parse().unwrap())));
        let runs: Vec<(usize, u64)> = parts.flatten().collect();
        assert_eq!(runs.len(), whole.len(), "none twice in {count} parts");
        assert_eq!(runs.into_iter().collect::<BTreeSet<_>>(), whole, "none left out of {count} parts");
    }
}

#[test]
fn runs_that_are_made_ahead_are_found_done() {
    let scenario = scenario(TEXT);
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let engine = Toy::default();
    let options = options(&NEVER, &|_| {});
    let before = missing(&scenario, &engine, &store, &options);
    ahead(&scenario, &engine, &store, &options, &before[3..8]).unwrap();
    assert_eq!(missing(&scenario, &engine, &store, &options).len(), before.len() - 5);
    let done = run(&scenario, &engine, &store, &options).unwrap();
    assert_eq!((done.reused, done.executed), (5, before.len() - 5));
    assert!(missing(&scenario, &engine, &store, &options).is_empty());
}

#[test]
fn a_panic_fails_one_run_and_says_how_to_see_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let engine = Toy { superstitious: true, ..Toy::default() };
    let scenario = scenario(TEXT);
    let done = run(&scenario, &engine, &store, &options(&NEVER, &|_| {})).unwrap();
    assert_eq!(done.runs.len(), 40);
    let failed: Vec<&str> = done.runs.values().filter_map(|record| record.failed()).collect();
    assert_eq!(
        failed,
        [0, 1].map(|point| format!(
            "seed 13: the program panicked: seed 13 is unlucky; replay with: thalweg lab run sat.toml --point {point} --seed 13"
        ))
    );
    let verdicts = summary::verdicts(&scenario, &done.runs);
    // What is compared with a run that failed is not known.
    let outcomes: Vec<Outcome> = verdicts.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes[..3], [Outcome::Holds, Outcome::Unknown, Outcome::Unknown]);
    assert!(outcomes.len() == 5 && outcomes[3..].iter().all(|outcome| !outcome.is_good()), "{outcomes:?}");
    // A better program has only those to run.
    let better = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    assert_eq!((better.executed, better.reused), (2, 38));
    let only = RunOptions { only_seed: Some(13), only_point: Some(1), ..options(&NEVER, &|_| {}) };
    let again = run(&scenario, &engine, &Store::create(&directory.path().join("x")).unwrap(), &only).unwrap();
    assert_eq!(again.runs.keys().collect::<Vec<_>>(), [&(1, 13)]);
}

#[test]
fn an_interrupt_keeps_what_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| {
        if progress.done == 7 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let scenario = scenario(TEXT);
    let some = run(&scenario, &Toy::default(), &store, &options(&stop, &progress)).unwrap();
    assert!(some.interrupted && !some.manifest.complete);
    assert!((7..=9).contains(&some.runs.len()), "{}", some.runs.len());
    let rest = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    assert_eq!((rest.reused, rest.reused + rest.executed), (some.runs.len(), 40));
}

#[test]
fn what_cannot_be_written_is_not_reported_as_done() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    std::fs::write(directory.path().join("runs"), b"a file where a directory should be").unwrap();
    let most = AtomicUsize::new(0);
    let progress = |progress: Progress| {
        most.fetch_max(progress.done, Ordering::Relaxed);
    };
    let error = run(&scenario(TEXT), &Toy::default(), &store, &options(&NEVER, &progress)).unwrap_err();
    assert!(error.to_string().starts_with("cannot make "), "{error}");
    assert_eq!(most.load(Ordering::Relaxed), 0);
}

#[test]
fn expectations_are_judged_with_their_intervals() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let scenario = scenario(TEXT);
    let done = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    let verdicts = summary::verdicts(&scenario, &done.runs);
    assert_eq!(verdicts.len(), 5);
    assert!(verdicts.iter().all(|verdict| verdict.outcome == Outcome::Holds), "{verdicts:#?}");
    assert_eq!(verdicts[1].measured, "completion.median over that of start = standard");
    // The largest difference of one seed, not the difference of the largest.
    let completion = |point: usize, seed: u64| done.runs[&(point, seed)].get(Scope::Flow, "flow 0", "completion")[0];
    let largest = (1..=20).map(|seed| completion(1, seed) - completion(0, seed)).fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(verdicts[2].measured, "completion.max less that of start = standard");
    assert!((verdicts[2].value.unwrap() - largest).abs() < 1e-12 && largest < 0.0, "{largest} {verdicts:#?}");
    let tight = self::scenario(&TEXT.replace("at_most = 1.3", "at_most = 1.1"));
    assert_eq!(summary::verdicts(&tight, &done.runs)[0].outcome, Outcome::Fails);
    let none = summary::verdicts(&scenario, &Runs::new());
    assert!(none.iter().all(|verdict| verdict.outcome == Outcome::Unknown), "{none:#?}");
    let differences = summary::differences(&scenario, &done.runs);
    // What is shipped is the base, wherever it stands in the list.
    let completion = &differences[0];
    assert_eq!((completion.base.as_str(), completion.other.as_str()), ("peak-bandwidth", "standard"));
    assert_eq!((completion.metric, completion.paired.larger, completion.paired.pairs), ("completion", 20, 20));
}

#[test]
fn a_run_that_does_not_end_counts_as_endless() {
    let mut runs = Runs::new();
    for seed in 1..=4 {
        let mut flow = crate::record::Part { name: "flow 0".to_owned(), ..Default::default() };
        flow.set("completed", f64::from(u8::from(seed < 3)));
        if seed < 3 {
            flow.set("completion", 1.0);
        }
        runs.insert((0, seed), &RunRecord { flows: vec![flow], ..RunRecord::default() });
    }
    let metric = crate::metric::find("completion").unwrap();
    let scenario = scenario(TEXT);
    let sample = summary::Sample::new(&scenario, &runs, 0, "flow 0", metric);
    assert_eq!(sample.estimate(crate::stats::Statistic::Quantile(0.75)).value, f64::INFINITY);
    assert_eq!(sample.estimate(crate::stats::Statistic::Min).value, 1.0);
}

#[test]
fn seeds_are_added_until_the_interval_is_narrow() {
    let directory = tempfile::tempdir().unwrap();
    let until = "until = { metric = \"completion.p50\", width = \"1 %\", max_seeds = 500 }\nseeds = 5";
    let scenario = scenario(&TEXT.replace("seeds = 20", until));
    let store = Store::create(directory.path()).unwrap();
    let done = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    assert!(done.runs.len() > 20 && done.runs.len() < 1000 && !done.interrupted, "{}", done.runs.len());
    let hopeless = self::scenario(&TEXT.replace("seeds = 20", &until.replace("1 %", "0.0001 %").replace("500", "30")));
    let store = Store::create(&directory.path().join("2")).unwrap();
    assert_eq!(run(&hopeless, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap().runs.len(), 60);
}

#[test]
fn what_is_reproduced_is_told_from_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    let scenario = scenario(TEXT);
    let done = run(&scenario, &Toy::default(), &store, &options(&NEVER, &|_| {})).unwrap();
    let read = done.manifest.scenario(&Toy::default().stacks()).unwrap();
    let same = verify(&read, &Toy::default(), &done.manifest, &options(&NEVER, &|_| {}));
    assert_eq!(same, Verification { checked: 40, ..Verification::default() });
    let changed = Toy { change: 1, ..Toy::default() };
    let mismatches = verify(&read, &changed, &done.manifest, &options(&NEVER, &|_| {})).mismatches;
    assert_eq!(mismatches.len(), 40);
    assert!(mismatches[0].seed == 1 && mismatches[0].expected != mismatches[0].found);
}

#[test]
fn what_ends_without_a_narrow_interval_says_so() {
    let text = |width: &str| {
        let until =
            format!("until = {{ metric = \"completion.p50\", width = \"{width}\", max_seeds = 30 }}\nseeds = 5");
        TEXT.replace("seeds = 20", &until)
    };
    let directory = tempfile::tempdir().unwrap();
    let judge = |text: &str, name: &str, options: &RunOptions<'_>| {
        let scenario = scenario(text);
        let store = Store::create(&directory.path().join(name)).unwrap();
        let done = run(&scenario, &Toy::default(), &store, options).unwrap();
        enough(&scenario, &done.runs, &done.manifest)
    };
    let all = options(&NEVER, &|_| {});
    let open = judge(&text("0.0001 %"), "open", &all).unwrap();
    assert!(!open.is_met() && open.seeds == 30 && open.wide.len() == 2, "{open:?}");
    assert_eq!(
        open.to_string(),
        "until is not met: after 30 seeds the interval of completion.median is wider than 0.0001 % at start = standard; \
         start = peak-bandwidth"
    );
    assert!(judge(&text("50 %"), "met", &all).unwrap().is_met());
    assert_eq!(judge(TEXT, "none", &all), None);
    let one = RunOptions { only_seed: Some(3), ..options(&NEVER, &|_| {}) };
    assert_eq!(judge(&text("0.0001 %"), "one", &one), None);
}

#[test]
fn commands_are_written_as_a_shell_takes_them() {
    for (file, written) in [
        ("a/b-c_1.toml", "a/b-c_1.toml"),
        ("my scenario.toml", "'my scenario.toml'"),
        ("it's $HOME.toml", "'it'\\''s $HOME.toml'"),
        ("-x.toml", "./-x.toml"),
        ("- x.toml", "'./- x.toml'"),
        ("", "''"),
    ] {
        assert_eq!(quoted(file), written);
    }
    let scenario = Scenario { file: "a b.toml".to_owned(), ..scenario(TEXT) };
    assert_eq!(replay(&scenario, 1, 7), "thalweg lab run 'a b.toml' --point 1 --seed 7");
    let mut manifest = Manifest::new(&scenario, "toy");
    assert_eq!(again(&scenario, &manifest), "thalweg lab run 'a b.toml' --seeds 20");
    manifest.first_seed = 101;
    assert_eq!(again(&scenario, &manifest), "thalweg lab run 'a b.toml' --first-seed 101 --seeds 20");
    let other = self::scenario(&format!("first_seed = 1_01 # as before\n{TEXT}"));
    let other = Scenario { file: scenario.file.clone(), first_seed: 7, ..other };
    assert_eq!(again(&other, &manifest), "thalweg lab run 'a b.toml' --seeds 20", "the file says so");
    manifest.first_seed = 1;
    manifest.only_point = Some(1);
    manifest.shard = Some("1/4".to_owned());
    assert_eq!(again(&scenario, &manifest), "thalweg lab run 'a b.toml' --shard 1/4 --point 1 --seeds 20");
    (manifest.only_seed, manifest.shard) = (Some(7), None);
    assert_eq!(again(&scenario, &manifest), "thalweg lab run 'a b.toml' --point 1 --seed 7");
    (manifest.only_seed, manifest.max_seeds) = (None, Some(9));
    assert_eq!(again(&scenario, &manifest), "thalweg lab run 'a b.toml' --point 1 --max-seeds 9");
}
