//! `thalweg lab` as people run it: what is wrong with a scenario, runs that cannot end, interrupts, panics, parts of a
//! sweep.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::path::Path;
use std::process::{Output, Stdio};

use clap::Parser;
use common::{finish, run, signal, text, thalweg, until};
use serde_json::Value;
use thalweg_cli::lab::LabArgs;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::engine::{Engine, Output as RunOutput};
use thalweg_lab::scenario::world::World;

const SMALL: &str = r#"title = "A small download"
question = "Does it arrive?"
seeds = 4
time_limit = "20 s"

[path.p]
down = { rate = "10 Mbps", delay = "10 ms" }
up = { rate = "10 Mbps", delay = "10 ms" }

[[flow]]
transfer = { download = "200 kB" }

[vary]
"flow.0.policies.controller" = ["cubic", "new-reno"]

[[expect]]
metric = "success"
equals = 1
"#;

/// A directory with the scenario `q.toml`, run from within.
struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    fn new(scenario: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("q.toml"), scenario).unwrap();
        Lab { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// `thalweg lab run q.toml --out OUT MORE…`
    fn run(&self, out: &str, more: &[&str]) -> Output {
        let (file, out) = (self.arg("q.toml"), self.arg(out));
        run(&[&["lab", "run", &file, "--out", &out], more].concat())
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Text for people as one line: where its lines are broken is not what is tested.
fn unwrapped(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files of runs that are done.
fn done(out: &Path) -> usize {
    let Ok(keys) = std::fs::read_dir(out.join("runs")) else { return 0 };
    let files = keys.flatten().flat_map(|key| std::fs::read_dir(key.path()).into_iter().flatten().flatten());
    files.filter(|file| !file.file_name().to_string_lossy().starts_with('.')).count()
}

#[test]
fn what_is_wrong_is_told_with_file_line_key_and_what_would_do() {
    let cases: &[(&str, &str, usize, &[&str])] = &[
        // What is replaced, by what, the line that is named, and what the message says.
        ("seeds = 4", "sedes = 4", 3, &["sedes", "did you mean", "seeds"]),
        ("delay = \"10 ms\" }\nup", "delay = 10 }\nup", 7, &["path.p.down.delay", "\"10 ms\""]),
        (
            "rate = \"10 Mbps\", delay = \"10 ms\" }\nup",
            "rate = \"-1 Mbps\", delay = \"10 ms\" }\nup",
            7,
            &["path.p.down.rate"],
        ),
        (
            "rate = \"10 Mbps\", delay = \"10 ms\" }\nup",
            "rate = \"0 Mbps\", delay = \"10 ms\" }\nup",
            7,
            &["path.p.down.rate"],
        ),
        ("delay = \"10 ms\" }\nup", "delay = \"10 ms\", loss = \"150 %\" }\nup", 7, &["path.p.down.loss", "1 %"]),
        ("[\"cubic\", \"new-reno\"]", "[]", 14, &["vary.flow.0.policies.controller", "empty list"]),
        ("seeds = 4", "seeds = 0", 3, &["seeds", "from 1"]),
        ("metric = \"success\"", "metric = \"sucess\"", 17, &["sucess", "did you mean", "success"]),
        ("metric = \"success\"", "metric = \"speed\"", 17, &["speed", "completion", "goodput", "link_idle"]),
        (
            "rate = \"10 Mbps\", delay = \"10 ms\" }\nup",
            "trace = \"t.csv\", delay = \"10 ms\" }\nup",
            7,
            &["t.csv", "line 3"],
        ),
    ];
    for (old, new, line, parts) in cases {
        assert!(SMALL.contains(old), "{old}");
        let lab = Lab::new(&SMALL.replacen(old, new, 1));
        std::fs::write(lab.path("t.csv"), "t_ms,rate_bps\n0,1000000\n1000,fast\n").unwrap();
        let ended = lab.run("out", &[]);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{new}: {said}");
        assert!(said.contains(&format!("q.toml:{line}:")), "{new}: {said}");
        for part in *parts {
            assert!(said.contains(part), "{new}: \"{part}\" is not in: {said}");
        }
        assert!(!lab.path("out").exists(), "{new}");
    }
}

#[test]
fn a_key_under_its_former_name_is_read_and_told() {
    let with =
        |key: &str| SMALL.replace("[vary]", &format!("{key} = {{ window = \"100 kB\", rtt = \"20 ms\" }}\n\n[vary]"));
    for (key, is_told) in [("saved", false), ("memory", true)] {
        let lab = Lab::new(&with(key));
        let done = lab.run("out", &["--max-seeds", "1"]);
        let said = text(&done.stderr);
        assert!(done.status.success(), "{said}");
        let told = "q.toml:13: the key memory is now called saved;";
        assert_eq!(said.matches(told).count(), usize::from(is_told), "{said}");
        let quiet = lab.run("out", &["--max-seeds", "1", "--quiet"]);
        assert!(!text(&quiet.stderr).contains("is now called"), "{}", text(&quiet.stderr));
    }
}

#[test]
fn drawn_worlds_are_judged_committed_checked_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (figures, all, worlds) = (path("drawn.json"), path("all.json"), path("worlds"));
    let one = ["lab", "draw", "--single", "1", "--shared", "0", "--from", "7"];
    let draw = |more: &[&str]| run(&[&one[..], more].concat());
    let done = draw(&["--commit", &figures, "--json", &all]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("1 single path from world 7"), "{said}");
    assert!(said.contains("thalweg lab draw --single 1 --shared 0 --from 7"), "{said}");
    let check = draw(&["--check", &figures, "--quiet"]);
    assert!(check.status.success() && check.stdout.is_empty(), "{}", text(&check.stderr));
    // Figures that are committed better than what is drawn are a fall.
    let mut better: Value = serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
    let mean = better["draws"][0]["over_hystart"].as_f64().unwrap();
    better["draws"][0]["over_hystart"] = Value::from(mean / 10.0);
    std::fs::write(&figures, better.to_string()).unwrap();
    let check = draw(&["--check", &figures]);
    assert_eq!(check.status.code(), Some(1), "{}", text(&check.stderr));
    let other = run(&["lab", "draw", "--single", "2", "--shared", "0", "--check", &figures]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("--single 1 --shared 0 --from 7"), "{}", text(&other.stderr));

    // The file makes the same runs.
    assert!(draw(&["--write", &worlds]).status.success());
    let ran = run(&["lab", "run", &worlds, "--out", &path("results"), "--json"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let json = |file: &Path| -> Value { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() };
    let drawn = json(Path::new(&all))["worlds"][0]["wire_hashes"].clone();
    let inside = |folder: &Path| folder.join("manifest.json").exists().then(|| json(&folder.join("manifest.json")));
    let results = directory.path().join("results");
    let folders = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
    let manifest = inside(&results).or_else(|| folders.filter_map(|folder| inside(&folder)).next()).unwrap();
    let hashes: Vec<Value> = manifest["runs"].as_array().unwrap().iter().map(|run| run["wire_hash"].clone()).collect();
    assert_eq!(drawn, Value::from(hashes));
}

#[test]
fn ten_million_points_are_refused_at_once() {
    let list: Vec<String> = (1..=216).map(|n| format!("\"{n} ms\"")).collect();
    let list = list.join(", ");
    let vary = format!(
        "\"path.p.up.delay\" = [{list}]\n\"path.p.down.delay\" = [{list}]\n\"flow.0.start\" = [{list}]\n[[expect]]"
    );
    let ended = Lab::new(&SMALL.replace("[[expect]]", &vary)).run("out", &[]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("points or more; at most 100000 are accepted"), "{said}");
}

#[test]
fn a_hundred_million_runs_are_refused_at_once() {
    let list: Vec<String> = (1..=100).map(|n| format!("\"{n} ms\"")).collect();
    let lab = Lab::new(&SMALL.replace("[[expect]]", &format!("\"flow.0.start\" = [{}]\n[[expect]]", list.join(", "))));
    let ended = lab.run("out", &["--seeds", "1000000"]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("200 points with 1000000 seeds are 200000000 runs; at most 10000000"), "{said}");
    assert!(!lab.path("out").exists());
}

#[test]
fn what_cannot_finish_is_a_failed_run_with_its_reason() {
    for (old, new) in [
        ("delay = \"10 ms\" }\nup", "delay = \"10 ms\", loss = 1.0 }\nup"),
        ("delay = \"10 ms\" }\nup", "delay = \"10 ms\", outage = { at = \"0 s\", for = \"20 s\" } }\nup"),
        ("rate = \"10 Mbps\", delay = \"10 ms\" }\nup", "rate = \"1 bps\", delay = \"10 ms\" }\nup"),
    ] {
        let lab = Lab::new(&SMALL.replacen(old, new, 1));
        let ended = lab.run("out", &["--seeds", "1"]);
        let said = unwrapped(&text(&ended.stderr));
        assert_eq!(ended.status.code(), Some(1), "{new}: {said}");
        assert!(
            said.contains("flow \"flow 0\"")
                && said.contains("time limit of 20 s")
                && said.contains("--point 0 --seed 1"),
            "{new}: {said}"
        );
        let manifest = lab.json("out/manifest.json");
        assert!(manifest["runs"][0]["failed"].as_str().unwrap().contains("flow 0"), "{manifest}");
    }
}

#[test]
fn an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on() {
    let lab = Lab::new(&SMALL.replace("seeds = 4", "seeds = 400"));
    let (file, out) = (lab.arg("q.toml"), lab.arg("out"));
    let args = ["lab", "run", &file, "--out", &out, "--threads", "1"];
    let child = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("some runs", || done(&lab.path("out")) >= 3);
    signal(&child, "INT");
    let ended = finish(child);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted") && said.contains("run the same command again"), "{said}");
    let kept = done(&lab.path("out"));
    assert!((3..800).contains(&kept), "{kept}");
    let manifest = lab.json("out/manifest.json");
    assert_eq!((manifest["runs"].as_array().unwrap().len(), &manifest["complete"]), (kept, &Value::Bool(false)));
    assert!(lab.read("out/report.html").contains("not complete"));
    let rest = run(&["lab", "run", &file, "--out", &out]);
    let said = text(&rest.stderr);
    assert_eq!(rest.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("800 runs ({kept} done before)")), "{said}");
    assert_eq!(lab.json("out/manifest.json")["complete"], true);
}

/// The simulator, except that seed 3 panics.
struct Unlucky(SimEngine);

impl Engine for Unlucky {
    fn version(&self) -> String {
        self.0.version()
    }

    fn stacks(&self) -> Vec<thalweg_lab::scenario::StackInfo> {
        self.0.stacks()
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> RunOutput {
        assert_ne!(seed, 3, "on purpose");
        self.0.run(world, seed, recording)
    }
}

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    lab: LabArgs,
}

#[test]
fn a_panic_fails_its_run_and_the_sweep_goes_on() {
    let lab = Lab::new(SMALL);
    let (file, out) = (lab.arg("q.toml"), lab.arg("out"));
    let command = || Program::parse_from(["lab", "run", &file, "--out", &out, "--quiet"]);
    let failure = command().lab.run_with(&Unlucky(SimEngine::default())).unwrap_err().to_string();
    assert!(failure.contains("2 of 2 expectations do not hold"), "{failure}");
    let manifest = lab.json("out/manifest.json");
    let runs = manifest["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let failed = run["failed"].as_str();
        assert_eq!(failed.is_some(), run["seed"] == 3, "{run}");
        if let Some(reason) = failed {
            let replay = format!("replay with: thalweg lab run {file} --point {} --seed 3", run["point"]);
            assert!(reason.contains("panicked: ") && reason.contains("on purpose"), "{reason}");
            assert!(reason.ends_with(&replay), "{reason}");
        }
    }
    // What was lost to the panic is all that a better program has to run.
    command().lab.run_with(&SimEngine::default()).unwrap();
    assert!(lab.json("out/manifest.json")["runs"].as_array().unwrap().iter().all(|run| run["failed"].is_null()));
}

#[test]
fn parts_make_the_whole_and_verify_repeats_it() {
    let lab = Lab::new(SMALL);
    assert!(lab.run("whole", &[]).status.success());
    // So many parts that one has no run of one of the two points: it comes first.
    let mut runs = 0;
    let mut parts = Vec::new();
    for part in 1..=6 {
        let name = format!("part-{part}");
        assert!(lab.run(&name, &["--shard", &format!("{part}/6")]).status.success());
        let here = done(&lab.path(&name));
        runs += here;
        parts.push((here, lab.arg(&name)));
    }
    parts.sort();
    assert_eq!(runs, 8);
    let out = lab.arg("merged");
    let arguments: Vec<&str> =
        ["lab", "merge", "--out", &out].into_iter().chain(parts.iter().map(|(_, part)| part.as_str())).collect();
    let merged = run(&arguments);
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    for name in ["merged", "whole"] {
        let folder = lab.path(&format!("{name}/csv"));
        assert!(!folder.exists() && !lab.path(&format!("{name}/runs.csv")).exists(), "tables are for those who ask");
        let ended = run(&["lab", "export", &lab.arg(name)]);
        assert_eq!(text(&ended.stdout).trim(), folder.to_str().unwrap(), "{}", text(&ended.stderr));
    }
    for file in ["runs.csv", "values.csv"] {
        let whole = lab.read(&format!("whole/csv/{file}"));
        assert!(whole.lines().count() > 8, "{whole}");
        assert_eq!(lab.read(&format!("merged/csv/{file}")), whole);
    }
    let series = |name: &str| {
        let files = std::fs::read_dir(lab.path(&format!("{name}/csv/series"))).unwrap().flatten();
        files.map(|file| file.file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!series("whole").is_empty());
    assert_eq!(series("merged"), series("whole"));
    assert_eq!(lab.read("merged/manifest.json"), lab.read("whole/manifest.json"));
    assert_eq!(lab.read("merged/results.json"), lab.read("whole/results.json"));

    let same = run(&["lab", "verify", &lab.arg("merged")]);
    assert!(same.status.success() && text(&same.stderr).contains("all 8 runs came out the same"));
    // A run that claims to have been another is found.
    let manifest = lab.json("merged/manifest.json");
    let hash = manifest["runs"][5]["wire_hash"].as_str().unwrap();
    let text_of = lab.read("merged/manifest.json").replace(hash, &"0".repeat(32));
    std::fs::write(lab.path("merged/manifest.json"), text_of).unwrap();
    let other = run(&["lab", "verify", &lab.arg("merged")]);
    let said = text(&other.stderr);
    assert_eq!(other.status.code(), Some(1), "{said}");
    assert!(said.contains("1 of 8 runs came out differently") && said.contains("--point 1 --seed 2"), "{said}");
}

#[test]
fn seeds_are_added_until_the_interval_is_narrow() {
    let loss = SMALL.replace("delay = \"10 ms\" }\nup", "delay = \"10 ms\", loss = \"1 %\" }\nup");
    let until = "seeds = 4\nuntil = { metric = \"completion.p50\", width = \"10 %\", max_seeds = 300 }";
    let lab = Lab::new(&loss.replace("seeds = 4", until).replace("200 kB", "1 MB"));
    let ended = lab.run("out", &["--quiet"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let results = lab.json("out/results.json");
    for flow in results["flows"].as_array().unwrap() {
        let cells = flow["cells"].as_array().unwrap();
        let completion = cells.iter().find(|cell| cell["metric"] == "completion").unwrap();
        let count = completion["count"].as_u64().unwrap();
        let number = |key: &str| completion["interval"][key].as_f64().unwrap();
        let width = (number("high") - number("low")) / completion["estimate"].as_f64().unwrap();
        assert!((5..300).contains(&count) && width <= 0.1, "{completion}");
    }
    // A cap is kept, and said.
    let few = lab.run("few", &["--max-seeds", "2"]);
    assert!(text(&few.stderr).contains("judged on 2 seeds instead of 4"), "{}", text(&few.stderr));
    assert_eq!(done(&lab.path("few")), 4);
}

#[test]
fn a_folder_is_one_report() {
    let lab = Lab::new(SMALL);
    std::fs::create_dir(lab.path("s")).unwrap();
    std::fs::write(lab.path("s/good.toml"), SMALL).unwrap();
    std::fs::write(lab.path("s/bad.toml"), SMALL.replace("equals = 1", "equals = 0")).unwrap();
    let ended = run(&["lab", "run", &lab.arg("s"), "--out", &lab.arg("out")]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("failed: bad"), "{}", text(&ended.stderr));
    assert_eq!(text(&ended.stdout).lines().last(), Some(lab.arg("out/report.html").as_str()));
    let page = lab.read("out/report.html");
    assert!(page.contains("2 of 4 expectations do not hold") && page.contains("id=\"matrix\""));
    // It can be made again, and what it is made of can be checked.
    std::fs::remove_file(lab.path("out/report.html")).unwrap();
    assert!(run(&["lab", "report", &lab.arg("out")]).status.success());
    assert_eq!(lab.read("out/report.html"), page);
    assert!(run(&["lab", "verify", &lab.arg("out")]).status.success());
    // Parts of a folder are merged scenario by scenario.
    for part in ["1/2", "2/2"] {
        let ended = run(&["lab", "run", &lab.arg("s"), "--shard", part, "--out", &lab.arg(&part.replace('/', "-"))]);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
    }
    let merged = run(&["lab", "merge", &lab.arg("1-2"), &lab.arg("2-2"), "--out", &lab.arg("merged")]);
    assert_eq!(merged.status.code(), Some(1));
    let said = text(&merged.stderr);
    assert!(said.contains("2 of 2 expectations do not hold") && said.contains("failed: bad"), "{said}");
    // The tables of a collection have a folder for each scenario.
    for name in ["merged", "out"] {
        let ended = run(&["lab", "export", &lab.arg(name), "--out", &lab.arg(&format!("{name}-csv"))]);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
    }
    for name in ["good", "bad"] {
        assert_eq!(lab.read(&format!("merged-csv/{name}/runs.csv")), lab.read(&format!("out-csv/{name}/runs.csv")));
    }
    assert!(lab.read("merged/report.html").contains("2 of 4 expectations do not hold"));
}

#[test]
fn a_tier_is_listed_and_run_with_its_seeds() {
    let lab = Lab::new(SMALL);
    std::fs::create_dir_all(lab.path("s/below")).unwrap();
    for (name, tier) in [
        ("all.toml", "seeds = 4\ntier = \"gate\""),
        ("some.toml", "seeds = 4\ntier = \"gate\"\ngate_seeds = 2"),
        ("below/slow.toml", "seeds = 4\ntier = \"nightly\""),
        ("below/asked.toml", "seeds = 4"),
    ] {
        std::fs::write(lab.path(&format!("s/{name}")), SMALL.replace("seeds = 4", tier)).unwrap();
    }
    let named = |more: &[&str]| {
        let ended = run(&[&["lab", "list", &lab.arg("s")], more].concat());
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout).replace(&lab.arg("s"), "s")
    };
    assert_eq!(named(&["--tier", "gate"]), "s/all.toml\ns/some.toml\n");
    assert_eq!(named(&["--tier", "nightly"]), "s/below/slow.toml\ns/some.toml\n");
    assert_eq!(named(&["--tier", "study"]), "s/below/asked.toml\n");
    let all = unwrapped(&named(&[]));
    assert_eq!(all.matches("Does it arrive? (8 runs)").count(), 4, "{all}");
    // Two points with four seeds, and with two where the gate takes no more.
    for (tier, runs) in [("gate", [("all", 8), ("some", 4)]), ("nightly", [("slow", 8), ("some", 8)])] {
        let out = lab.arg(tier);
        let ended = run(&["lab", "run", &lab.arg("s"), "--tier", tier, "--out", &out]);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        for (name, count) in runs {
            assert_eq!(done(&lab.path(&format!("{tier}/{name}"))), count, "{tier} {name}");
        }
        let folders = std::fs::read_dir(&out).unwrap().flatten().filter(|entry| entry.path().is_dir());
        assert_eq!(folders.count(), runs.len(), "{tier}");
    }
    // A folder without any of that tier, and a tier that does not exist.
    for command in ["list", "run"] {
        let none = run(&["lab", command, &lab.arg("q.toml"), "--tier", "nightly"]);
        assert_eq!(none.status.code(), Some(2));
        let said = unwrapped(&text(&none.stderr));
        assert!(said.contains("has tier = \"nightly\", or tier = \"gate\" with gate_seeds"), "{said}");
        let wrong = run(&["lab", command, &lab.arg("s"), "--tier", "daily"]);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(text(&wrong.stderr).contains("gate, nightly, study"), "{}", text(&wrong.stderr));
    }
}

#[test]
fn a_replay_and_a_part_go_beside_the_results_and_never_over_them() {
    let lab = Lab::new(SMALL);
    assert!(lab.run("out", &[]).status.success());
    let files = ["manifest.json", "results.json", "report.html"];
    let whole = || files.map(|file| lab.read(&format!("out/{file}")));
    let before = whole();
    let parts: [(&[&str], &str); 3] = [
        (&["--point", "1", "--seed", "2"], "out-p1-s2"),
        (&["--point", "1"], "out-p1"),
        (&["--shard", "1/2"], "out-1of2"),
    ];
    for (part, beside) in parts {
        let ended = lab.run("out", part);
        let said = text(&ended.stderr);
        assert!(ended.status.success(), "{part:?}: {said}");
        assert!(said.contains("holds other results") && said.contains(beside), "{part:?}: {said}");
        assert_eq!(text(&ended.stdout).trim(), lab.arg(&format!("{beside}/report.html")));
        // Where it went it is found again.
        assert!(text(&lab.run("out", part).stderr).contains("all of them done before"), "{part:?}");
    }
    assert_eq!(lab.json("out-p1-s2/manifest.json")["runs"].as_array().unwrap().len(), 1);
    assert!(lab.read("out-p1-s2/report.html").contains("--point 1 --seed 2"));
    // Nor do other seeds.
    let ended = lab.run("out", &["--first-seed", "101", "--seeds", "2"]);
    assert!(ended.status.success() && text(&ended.stderr).contains("out-from101"), "{}", text(&ended.stderr));
    let manifest = lab.json("out-from101/manifest.json");
    let seeds: Vec<u64> =
        manifest["runs"].as_array().unwrap().iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert!(!seeds.is_empty() && seeds.iter().all(|seed| (101..103).contains(seed)), "{seeds:?}");
    assert!(lab.read("out-from101/report.html").contains("--first-seed 101 --seeds 2"));
    // Two parts do not share a folder either, and a part may have a folder to itself.
    assert!(lab.run("part", &["--shard", "1/2"]).status.success());
    assert!(lab.run("part", &["--shard", "2/2"]).status.success());
    assert_eq!(lab.json("part/manifest.json")["shard"], "1/2");
    assert_eq!(lab.json("part-2of2/manifest.json")["shard"], "2/2");
    assert!(whole() == before, "results were replaced");
    // Nor do parts of other seeds.
    assert!(lab.run("own", &["--point", "1", "--first-seed", "101"]).status.success());
    assert!(lab.run("own", &["--point", "1"]).status.success());
    let first_seed = |directory: &str| lab.json(&format!("{directory}/manifest.json"))["first_seed"].clone();
    assert_eq!((first_seed("own"), first_seed("own-p1")), (101.into(), 1.into()));
    // What else lies there is not replaced.
    std::fs::write(lab.path("out-p0-s1"), "").unwrap();
    assert!(!lab.run("out", &["--point", "0", "--seed", "1"]).status.success());
    assert_eq!(lab.read("out-p0-s1"), "");
}

#[test]
fn the_command_that_is_printed_works_as_printed() {
    let lab = Lab::new("");
    let name = "it's a test.toml";
    let dead = SMALL.replacen("delay = \"10 ms\" }\nup", "delay = \"10 ms\", loss = 1.0 }\nup", 1);
    std::fs::write(lab.path(name), dead).unwrap();
    let here = |command: &mut std::process::Command| {
        let programs = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().unwrap().to_owned();
        let path = std::env::join_paths([programs, "/usr/bin".into(), "/bin".into()]).unwrap();
        let command = command.current_dir(lab.directory.path()).env("PATH", path);
        finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let ended = here(&mut thalweg(&["lab", "run", name, "--seeds", "2"]));
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let failure = said.lines().find(|line| line.contains("replay with: ") && line.contains("seed 2")).unwrap();
    let (_, command) = failure.split_once("replay with: ").unwrap();
    let before = lab.read("results/it's a test/manifest.json");
    let again = here(std::process::Command::new("sh").args(["-c", command]));
    assert_eq!(again.status.code(), Some(1), "{command}: {}", text(&again.stderr));
    assert!(text(&again.stderr).lines().any(|line| line == failure), "{command}: {}", text(&again.stderr));
    assert_eq!(lab.read("results/it's a test/manifest.json"), before);
    // So does the one that the report gives.
    let manifest = lab.json("results/it's a test-p0-s2/manifest.json");
    assert_eq!((&manifest["only_point"], &manifest["only_seed"]), (&Value::from(0), &Value::from(2)));
}

#[test]
fn seeds_that_are_not_enough_are_told() {
    let until = "seeds = 4\nuntil = { metric = \"completion.p50\", width = \"0.0001 %\", max_seeds = 6 }";
    let lab = Lab::new(&SMALL.replace("seeds = 4", until));
    let ended = lab.run("out", &["--quiet"]);
    let said = unwrapped(&text(&ended.stderr));
    let sentence = "until is not met: after 6 seeds the interval of completion.median is wider than 0.0001 %";
    assert!(ended.status.success() && said.contains(sentence), "{said}");
    let until = &lab.json("out/results.json")["until"];
    assert_eq!((&until["met"], &until["asked"]["seeds"]), (&Value::Bool(false), &Value::from(6)), "{until}");
    assert!(lab.read("out/report.html").contains(sentence));
}

#[test]
fn equal_results_are_identical_and_others_are_told_apart() {
    let small = SMALL.replace("seeds = 4", "seeds = 8");
    let lab = Lab::new(&small);
    for out in ["a", "b"] {
        assert!(lab.run(out, &["--quiet"]).status.success());
    }
    let page = lab.arg("page.html");
    let compare = |other: &str| run(&["lab", "compare", &lab.arg("a"), &lab.arg(other), "--out", &page]);
    let same = compare("b");
    assert_eq!((text(&same.stderr).as_str(), text(&same.stdout).trim()), ("identical: 16 runs\n", page.as_str()));
    assert!(lab.read("page.html").contains("</html>"));
    std::fs::write(lab.path("q.toml"), small.replace("200 kB", "400 kB")).unwrap();
    assert!(lab.run("c", &["--quiet"]).status.success());
    let other = compare("c");
    let said = text(&other.stderr);
    assert!(other.status.success() && !said.contains("identical:"), "{said}");
    assert!(said.contains("16 runs in common, 0 of them identical") && said.contains("completion"), "{said}");
}

#[test]
fn color_is_for_terminals_and_those_who_force_it() {
    let lab = Lab::new(&SMALL.replace("equals = 1", "equals = 0"));
    let (file, out) = (lab.arg("q.toml"), lab.arg("out"));
    let said = |variables: &[(&str, &str)]| {
        let mut command = thalweg(&["lab", "run", &file, "--out", &out]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        let ended = finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(text(&ended.stdout).trim(), lab.arg("out/report.html"), "stdout is for programs");
        text(&ended.stderr)
    };
    let plain = said(&[]);
    assert!(plain.contains("FAILS") && !plain.contains('\u{1b}'), "{plain}");
    assert!(said(&[("CLICOLOR_FORCE", "1")]).contains("\u{1b}[31mFAILS\u{1b}[0m"));
    assert!(!said(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
}

#[test]
fn a_device_is_refused_at_once() {
    let trace = "rate = \"10 Mbps\", delay = \"10 ms\" }\nup";
    let lab = Lab::new(&SMALL.replacen(trace, "trace = \"/dev/zero\", delay = \"10 ms\" }\nup", 1));
    let ended = lab.run("out", &[]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("q.toml:7:") && said.contains("cannot read /dev/zero: it is a device"), "{said}");
    let ended = run(&["lab", "run", "/dev/zero"]);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
}

#[test]
fn what_is_known_to_fall_short_is_said_and_fails_nothing() {
    let known = "[[known]]\nmetric = \"completion.p50\"\nat_most = \"1 ms\"\nwhere = { controller = \"cubic\" }\n\n\
                 [[known]]\nmetric = \"completion.p50\"\nat_most = \"50 s\"\nwhere = { controller = \"cubic\" }\n";
    let lab = Lab::new(&format!("{SMALL}\n{known}"));
    let ended = lab.run("out", &[]);
    let said = text(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("known to fall short: completion.median (controller = cubic"), "{said}");
    assert!(said.contains("2 of 2 expectations hold") && said.contains("1 known to fall short, 1 beaten"), "{said}");
    let verbose = text(&lab.run("out", &["--verbose"]).stderr);
    assert!(verbose.contains("KNOWN: FALLS SHORT: completion.median (") && verbose.contains("BEATEN"), "{verbose}");
    assert!(verbose.contains("HOLDS") && verbose.contains("controller=new-reno"), "{verbose}");
    assert!(said.contains("1 known to fall short, and beaten: write [[expect]] in place of [[known]]"), "{said}");
    let page = lab.read("out/report.html");
    assert!(page.contains("2 of 2 expectations hold; 1 known to fall short, 1 beaten"));
    let outcomes: Vec<String> = lab.json("out/results.json")["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| verdict["known"] == true)
        .map(|verdict| verdict["outcome"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(outcomes[0], "falls-short");
    assert!(outcomes[1].starts_with("beaten"), "{outcomes:?}");
    // What is wrong with it is said as of an expectation.
    let wrong = Lab::new(&format!("{SMALL}\n{}", known.replace("completion.p50", "compleion.p50")));
    let ended = wrong.run("out", &[]);
    assert_eq!(ended.status.code(), Some(2));
    let said = text(&ended.stderr);
    assert!(said.contains("known.0.metric") && said.contains("did you mean \"completion\"?"), "{said}");
}

#[test]
fn one_run_is_made_again_with_its_traces() {
    let lab = Lab::new(SMALL);
    assert!(lab.run("out", &["--quiet"]).status.success());
    let ended = run(&["lab", "trace", &lab.arg("out"), "--point", "1", "--seed", "2", "--json"]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(
        said.contains("2 qlog files and a capture of seed 2; wire hash") && said.contains(", as recorded"),
        "{said}"
    );
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(told["directory"], lab.arg("out/traces/p1-s2"));
    let hash = &lab.json("out/manifest.json")["runs"][5]["wire_hash"];
    assert_eq!((&told["wire_hash"], told["files"].as_array().unwrap().len()), (hash, 3));
    let server = told["files"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|file| Some(file.as_str()?).filter(|file| file.ends_with("_server.sqlog")));
    assert!(run(&["qlog", server.unwrap()]).status.success());
    assert!(std::fs::metadata(lab.path("out/traces/p1-s2/packets.pcapng")).unwrap().len() > 200_000);
    // Traces are no results of their own.
    assert!(run(&["lab", "report", &lab.arg("out")]).status.success());

    // A record of another run is found out.
    let manifest = lab.read("out/manifest.json").replace(hash.as_str().unwrap(), &"0".repeat(32));
    std::fs::write(lab.path("out/manifest.json"), manifest).unwrap();
    let ended = run(&["lab", "trace", &lab.arg("out"), "--point", "1", "--seed", "2", "--out", &lab.arg("other")]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("came out differently") && said.contains(&"0".repeat(32)), "{said}");

    // A scenario file will do, without a record.
    let ended = run(&["lab", "trace", &lab.arg("q.toml"), "--out", &lab.arg("t")]);
    let said = text(&ended.stderr);
    assert!(ended.status.success() && said.contains("no record of it"), "{said}");
    assert_eq!(text(&ended.stdout).trim(), lab.arg("t"));
    for (what, arguments, parts) in [
        ("out", &["--seed", "9"][..], &["no run of point 0 with seed 9", "seeds from 1 to 4"][..]),
        ("out", &["--point", "2"], &["has 2 points", "from 0 to 1"]),
        ("t", &[], &["manifest.json"]),
        ("none.toml", &[], &["cannot read this file"]),
    ] {
        let ended = run(&[&["lab", "trace", &lab.arg(what)], arguments].concat());
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{what} {arguments:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{what} {arguments:?}: {said}");
    }
}

#[test]
fn long_work_is_announced_with_its_runs_and_its_time_and_short_work_is_not() {
    let lab = Lab::new(
        &SMALL.replace("200 kB", "2 kB").replace("seeds = 4", "seeds = 300\ncrypto = \"null\"\nrecord = \"none\""),
    );
    let said = text(&lab.run("out", &[]).stderr);
    let line = said.lines().next().unwrap_or_default();
    assert!(line.starts_with("thalweg: 600 runs to make, about "), "{said}");
    assert!(line.contains(" on ") && line.contains(" to ") && line.ends_with(" suggest"), "{said}");
    // What was made to find out is a result like any other: nothing is left to be made.
    assert!(lab.json("out/manifest.json")["runs"].as_array().is_some_and(|runs| runs.len() == 600));
    let again = text(&lab.run("out", &[]).stderr);
    assert!(!again.contains("to make") && again.contains("all of them done before"), "{again}");
    let few = text(&lab.run("few", &["--max-seeds", "200"]).stderr);
    assert!(!few.contains("to make"), "{few}");
    let part = text(&lab.run("part", &["--shard", "1/2"]).stderr);
    assert!(!part.contains("to make"), "a part has about 300 runs: {part}");
    for wrong in ["0/4", "5/4", "x"] {
        let refused = lab.run("wrong", &["--shard", wrong]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("such as 1/4"), "{}", text(&refused.stderr));
    }
}
