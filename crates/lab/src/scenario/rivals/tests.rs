use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::engine::{Engine, Output, StackInfo};
use crate::record::RunRecord;
use crate::results::Results;
use crate::runner::{self, RunOptions};
use crate::scenario::world::World;
use crate::scenario::{Scenario, ScenarioError};
use crate::store::Store;
use crate::summary;
use crate::testing::Toy;

const TEXT: &str = r#"
title = "A file over a satellite"
question = "Who is quicker?"
seeds = 5
rivals = ["quinn", "noq"]

[path.sat]
preset = "satellite"

[[flow]]
transfer = { download = "10 MB" }
policies = { controller = "new-reno" }

[vary]
"flow.0.policies.start" = ["standard", "hystart++"]
"path.sat.down.loss" = ["0 %", "1 %"]

[[expect]]
metric = "completion.p50"
at_most = "1 s"

[[expect]]
where = { stack = "quinn", loss = "1 %" }
metric = "completion.p50"
at_most = "1 s"

[[expect]]
where = { stack = "noq" }
metric = "completion.p50"
at_most = "1 s"

[[expect]]
where = { start = "standard", loss = "0 %" }
metric = "completion.p50"
relative_to = { stack = "quinn" }
at_most = 9

[[expect]]
metric = "completion.p50"
relative_to = { stack = "noq" }
at_most = 9
"#;

/// The stand-in, with these stacks; what quinn runs fails on seed 2.
struct With(&'static [&'static str]);

impl Engine for With {
    fn version(&self) -> String {
        "with".to_owned()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        self.0.iter().map(|stack| StackInfo::new(stack)).collect()
    }

    fn is_repeatable(&self, world: &World) -> bool {
        world.flows[0].stack != "noq"
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> Output {
        let stack = &world.flows[0].stack;
        if stack == "quinn" && seed == 2 {
            return Output { record: RunRecord::failure("too many gaps".to_owned()), recording: None };
        }
        let mut output = Toy::default().run(world, seed, recording);
        let flow = &mut output.record.flows[0];
        flow.notes.insert("stack".to_owned(), stack.clone());
        flow.notes.insert("settings".to_owned(), format!("{stack} 1.0, windows 64 MB, no ECN"));
        output
    }
}

const OURS: With = With(&["thalweg"]);
const SOME: With = With(&["thalweg", "quinn"]);
const ALL: With = With(&["thalweg", "quinn", "noq"]);

fn parse(text: &str, stacks: &With) -> Result<Scenario, ScenarioError> {
    Scenario::parse("q.toml", text, Path::new(""), &stacks.stacks())
}

fn names(scenario: &Scenario) -> Vec<String> {
    scenario.points.iter().map(|point| point.name(&scenario.axes)).collect()
}

static NEVER: AtomicBool = AtomicBool::new(false);

fn options() -> RunOptions<'static> {
    RunOptions { threads: 1, ..RunOptions::new(&NEVER, &|_| {}) }
}

fn run(directory: &Path, text: &str, engine: &With) -> Results {
    let scenario = parse(text, engine).unwrap();
    let store = Store::create(directory).unwrap();
    let done = runner::run(&scenario, engine, &store, &options()).unwrap();
    Results { scenario, runs: done.runs, manifest: done.manifest, store }
}

#[test]
fn rivals_take_every_axis_but_policies() {
    let scenario = parse(TEXT, &SOME).unwrap();
    assert_eq!(
        names(&scenario),
        [
            "start = standard, loss = 0 %, stack = thalweg",
            "start = standard, loss = 1 %, stack = thalweg",
            "start = hystart++, loss = 0 %, stack = thalweg",
            "start = hystart++, loss = 1 %, stack = thalweg",
            "loss = 0 %, stack = quinn",
            "loss = 1 %, stack = quinn",
        ]
    );
    let [.., ours, _, quinn] = scenario.points.as_slice() else { panic!() };
    assert_eq!((ours.world.flows[0].stack.as_str(), ours.rival.as_deref()), ("thalweg", None));
    assert_eq!((quinn.world.flows[0].stack.as_str(), quinn.rival.as_deref()), ("quinn", Some("quinn")));
    // What was chosen for ours is not asked of theirs, and the links are the same.
    assert_eq!(*quinn.world.flows[0].policies(), thalweg_recovery::Policies::default());
    assert_eq!(quinn.world.paths, ours.world.paths);
}

#[test]
fn flows_of_another_stack_stay_as_they_are() {
    let text = TEXT
        .replace("[vary]", "[[flow]]\nname = \"cross\"\nstack = \"noq\"\ntransfer = { upload = \"1 MB\" }\n\n[vary]");
    let scenario = parse(&text, &ALL).unwrap();
    let stacks: Vec<&str> = scenario.points[4].world.flows.iter().map(|flow| flow.stack.as_str()).collect();
    assert_eq!(stacks, ["quinn", "noq"]);
    let text = TEXT
        .replace("[[flow]]\n", "[[flow]]\nstack = \"noq\"\n")
        .replace("policies = { controller = \"new-reno\" }", "");
    let error = parse(&text, &ALL).unwrap_err().to_string();
    assert!(error.contains("rivals: has nothing to replace"), "{error}");
}

#[test]
fn a_rival_that_is_not_there_is_said_and_not_refused() {
    for (engine, points, absent) in [(&OURS, 4, "quinn, noq"), (&SOME, 6, "noq")] {
        let directory = tempfile::tempdir().unwrap();
        let results = run(directory.path(), TEXT, engine);
        assert_eq!(results.scenario.points.len(), points);
        let said = format!("not in this program: {absent}; `thalweg-peers lab run` has them");
        assert_eq!(summary::absent(&results.scenario).unwrap(), said);
        let page = std::fs::read_to_string(results.write().unwrap()).unwrap();
        assert!(page.contains(&said), "{said}");
        assert!(results.manifest.complete);
    }
    assert_eq!(summary::absent(&parse(TEXT, &ALL).unwrap()), None);
}

#[test]
fn mistakes_are_told_with_line_and_key() {
    for (line, key, message) in [
        ("rivals = [\"qiunn\"]", "rivals.0", "did you mean \"quinn\"?"),
        ("rivals = [\"thalweg\"]", "rivals.0", "no rival of itself"),
        ("rivals = [\"quinn\", \"quinn\"]", "rivals.1", "is in the list twice"),
        ("rivals = []", "rivals", "names no rivals; write a list of stacks such as"),
        ("rivals = \"quinn\"", "rivals", "names no rivals"),
        ("rivals = [1]", "rivals.0", "is a bare number"),
    ] {
        let error = parse(&TEXT.replace("rivals = [\"quinn\", \"noq\"]", line), &ALL).unwrap_err();
        let found = error.diagnostics.iter().find(|found| found.key == key);
        assert!(found.is_some_and(|found| found.line == 5 && found.message.contains(message)), "{line}: {error}");
    }
    // In a flow, a stack that does not exist stays a mistake.
    let error = parse(&TEXT.replace("[[flow]]\n", "[[flow]]\nstack = \"noq\"\n"), &SOME).unwrap_err().to_string();
    assert!(error.contains("q.toml:11:9: flow.0.stack") && error.contains("one of thalweg, quinn"), "{error}");
    let error = parse(&TEXT.replace("[vary]\n", "[vary]\n\"flow.0.stack\" = [\"thalweg\", \"quinn\"]\n"), &SOME);
    assert!(error.unwrap_err().to_string().contains("name the stacks here or there"));
    let text = TEXT.replace("stack = \"quinn\", loss = \"1 %\"", "stack = \"quinn\", start = \"standard\"");
    let error = parse(&text, &SOME).unwrap_err().to_string();
    assert!(error.contains("quinn is not run with our policies, so leave start out"), "{error}");
    let error = parse(&TEXT.replace("stack = \"noq\" }\nmetric", "stack = \"nop\" }\nmetric"), &SOME).unwrap_err();
    assert!(error.to_string().contains("write one of thalweg, quinn, noq"), "{error}");
}

#[test]
fn expectations_speak_of_ours_unless_they_name_a_rival() {
    let directory = tempfile::tempdir().unwrap();
    let verdicts = |engine| {
        let results = run(&directory.path().join(format!("{}", engine as *const With as usize)), TEXT, engine);
        let verdicts = results.verdicts();
        verdicts.into_iter().map(|verdict| (verdict.point_name, verdict.value.is_some(), verdict.measured)).collect()
    };
    let plain: Vec<(String, bool, String)> = verdicts(&OURS);
    let names = |verdicts: &[(String, bool, String)]| -> Vec<String> {
        verdicts.iter().map(|(name, ..)| name.clone()).collect()
    };
    let ours: Vec<String> = names(&plain[..4]);
    assert!(plain.len() == 4 && ours.iter().all(|name| name.ends_with("stack = thalweg")), "{plain:?}");
    let some = verdicts(&SOME);
    assert_eq!(names(&some)[..4], ours);
    assert_eq!(names(&some)[4..], ["loss = 1 %, stack = quinn", "start = standard, loss = 0 %, stack = thalweg"]);
    assert!(some.iter().all(|(_, measured, _)| *measured), "{some:?}");
    assert_eq!(some[5].2, "completion.median over that of stack = quinn");
    // With all of them there, two of noq and four of ours over noq's.
    assert_eq!(verdicts(&ALL).len(), 4 + 1 + 2 + 1 + 4);
}

#[test]
fn settings_are_in_every_form_of_the_results() {
    let directory = tempfile::tempdir().unwrap();
    let results = run(directory.path(), TEXT, &ALL);
    let page = std::fs::read_to_string(results.write().unwrap()).unwrap();
    let said = "quinn 1.0, windows 64 MB, no ECN";
    assert!(page.contains(&format!("<th>quinn</th><td>{said}</td>")), "the page");
    results.export(&directory.path().join("csv")).unwrap();
    for file in ["csv/runs.csv", "results.json", "manifest.json"] {
        assert!(std::fs::read_to_string(directory.path().join(file)).unwrap().contains(said), "{file}");
    }
    let said: Vec<String> =
        summary::settings(&results.scenario, &results.runs).into_iter().map(|said| said.0).collect();
    assert_eq!(said, ["thalweg", "quinn", "noq"]);
}

#[test]
fn rivals_are_compared_with_ours_on_the_same_links() {
    let directory = tempfile::tempdir().unwrap();
    let results = run(directory.path(), TEXT, &SOME);
    let differences = summary::differences(&results.scenario, &results.runs);
    let lossy = differences.iter().find(|one| one.metric == "completion" && one.other == "quinn, loss = 1 %");
    // The first, as a flow of this scenario never has the shipped policies.
    assert_eq!(lossy.unwrap().base, "standard");
    // On the seed on which it fails, it takes for ever.
    let paired = lossy.unwrap().paired;
    assert!(paired.pairs == 5 && paired.larger >= 1, "{paired:?}");
}

#[test]
fn a_program_without_a_rival_reads_the_results_of_one_that_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let all = run(directory.path(), TEXT, &ALL);
    let failed = all.runs.get(&(5, 2)).unwrap().failed().unwrap().to_owned();
    assert!(
        failed.ends_with("too many gaps; replay with: thalweg-peers lab run q.toml --point 5 --seed 2"),
        "{failed}"
    );
    let without = With(&["thalweg", "noq"]);
    let read = Results::load(directory.path(), &without.stacks()).unwrap();
    assert_eq!(read.scenario.absent, ["quinn"]);
    // The points of noq have moved up; their runs have moved with them.
    let (noq, there) = (read.scenario.points.len() - 1, all.scenario.points.len() - 1);
    assert_eq!(read.runs.get(&(noq, 1)), all.runs.get(&(there, 1)));
    let verification = runner::verify(&read.scenario, &without, &read.manifest, &options());
    let counts = (verification.checked, verification.absent, verification.unrepeatable);
    assert_eq!(counts, (20, 10, 10));
    assert_eq!(verification.mismatches, []);
}
