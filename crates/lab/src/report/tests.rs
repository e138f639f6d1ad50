use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::engine::Engine;
use crate::runner::{RunOptions, run};
use crate::scenario::Scenario;
use crate::store::Manifest;
use crate::summary::Runs;
use crate::testing::Toy;

const TEXT: &str = r#"
title = "A file over a satellite </script> & \"more\""
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
at_most = 1.2
because = "a stand-in says so"

[[expect]]
where = { start = "standard" }
metric = "completion.p50"
at_most = "1 s"
"#;

fn results(directory: &Path, engine: &Toy) -> Results {
    results_of(TEXT, directory, engine)
}

/// What the stand-in makes of a scenario.
pub(super) fn results_of(text: &str, directory: &Path, engine: &Toy) -> Results {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let scenario = Scenario::parse("sat.toml", text, Path::new(""), &engine.stacks()).unwrap();
    let store = Store::create(directory).unwrap();
    let options = RunOptions { threads: 2, ..RunOptions::new(&NEVER, &|_| {}) };
    let done = run(&scenario, engine, &store, &options).unwrap();
    Results { scenario, runs: done.runs, manifest: done.manifest, store }
}

#[test]
fn a_page_that_needs_nothing_but_itself() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(directory.path(), &Toy::default());
    let path = results.write().unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.contains("1 of 2 expectations do not hold"));
    assert!(page.contains("A file over a satellite &lt;") && !page.contains("A file over a satellite <"));
    assert!(page.contains("uPlot") && page.contains("<svg class=\"plot\""));
    // What is fetched would be named by one of these; links and namespaces are not fetched.
    for fetched in ["src=\"http", "src='http", "url(http", "@import", "<link rel=\"stylesheet"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    // The same results make the same page.
    let again = Results::load(directory.path(), &Toy::default().stacks()).unwrap();
    let first = std::fs::read(directory.path().join("report.html")).unwrap();
    assert_eq!(std::fs::read(again.write().unwrap()).unwrap(), first);
    // For looking at it: THALWEG_KEEP_REPORT=FILE.
    if let Some(keep) = std::env::var_os("THALWEG_KEEP_REPORT") {
        std::fs::write(keep, first).unwrap();
    }
}

#[test]
fn tables_for_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    let results = results(directory.path(), &Toy::default());
    results.write().unwrap();
    let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".csv") && name != "series"));
    let folder = directory.path().join("csv");
    let files = results.export(&folder).unwrap();
    assert_eq!(files, 2 + std::fs::read_dir(folder.join("series")).unwrap().count());
    let csv = std::fs::read_to_string(folder.join("runs.csv")).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(&header[..5], ["point", "start", "seed", "flow", "completed"]);
    assert_eq!(lines.clone().count(), 40);
    assert!(lines.all(|line| line.split(',').count() == header.len()));
    // A value per row: the toy has six metrics of its flow and one of the run.
    let values = std::fs::read_to_string(folder.join("values.csv")).unwrap();
    let mut lines = values.lines();
    assert_eq!(lines.next(), Some("point,start,seed,of,name,metric,unit,value"));
    assert_eq!(lines.clone().count(), 40 * 7);
    assert_eq!(lines.next(), Some("0,standard,1,flow,flow 0,completed,share,1"));
    assert!(lines.all(|line| line.split(',').count() == 8 && line.ends_with(|last: char| last.is_ascii_digit())));
    let text = std::fs::read(directory.path().join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["verdicts"][1]["outcome"], "fails");
    assert_eq!(json["flows"].as_array().unwrap().len(), 2);
    let window = folder.join("series/start-peak-bandwidth-seed-1-flow-0-window.csv");
    let window = std::fs::read_to_string(window).unwrap();
    assert!(window.starts_with("t_s,window_B,state\n0,14000,slow start\n"), "{}", &window[..80]);
    assert!(folder.join("series/start-standard-seed-1-flow-0-packets.csv").is_file());
}

#[test]
fn what_is_known_is_told_from_what_is_expected() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = results(directory.path(), &Toy::default());
    let text =
        TEXT.replacen("[[expect]]\nwhere = { start = \"standard\" }", "[[known]]\nwhere = { start = \"standard\" }", 1);
    results.scenario = Scenario::parse("sat.toml", &text, Path::new(""), &Toy::default().stacks()).unwrap();
    results.write().unwrap();
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("<span class=\"banner good\">1 of 1 expectations hold; 1 known to fall short</span>"));
    assert!(page.contains("<b>known: falls short</b>"));
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("results.json")).unwrap()).unwrap();
    assert_eq!((&json["verdicts"][1]["known"], &json["verdicts"][1]["outcome"]), (&true.into(), &"falls-short".into()));
    // Twenty runs bound no 99th percentile from above: its end is open, which JSON has no number for.
    let completion = json["flows"][0]["cells"].as_array().unwrap().iter().find(|cell| cell["metric"] == "completion");
    let p99 = &completion.unwrap()["p99"]["interval"];
    assert!(p99["low"].is_f64() && p99["high"].is_null(), "{p99}");
    assert!(page.contains(", open]"));
    let whole = collection("All", &[results], directory.path()).unwrap();
    assert!(whole.contains("What is known to fall short") && whole.contains("1 of 1 hold</span>"));
}

#[test]
fn two_sets_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let a = results(&directory.path().join("a"), &Toy::default());
    let b = results(&directory.path().join("b"), &Toy { change: 1, ..Toy::default() });
    let (page, differences) = comparison(&a, &b).unwrap();
    // Each point is a place, A the reference and B what is compared with it.
    assert!(page.contains("<th class=\"n\">A</th><th class=\"n\">B</th>") && page.contains("A: start = standard"));
    assert!(differences.iter().any(|difference| difference.metric == "completion" && difference.paired.pairs == 20));
    if let Some(keep) = std::env::var_os("THALWEG_KEEP_REPORT") {
        std::fs::write(Path::new(&keep).with_extension("compare.html"), page).unwrap();
    }
}

#[test]
fn several_scenarios_are_one_page() {
    let directory = tempfile::tempdir().unwrap();
    let a = results(&directory.path().join("a"), &Toy::default());
    let b = results(&directory.path().join("b"), &Toy { change: 1, ..Toy::default() });
    let page = collection("Both", &[a, b], directory.path()).unwrap();
    assert!(page.contains("2 of 4 expectations do not hold"));
    assert!(page.contains("href=\"a&#x2f;report.html\"") && page.contains("href=\"b&#x2f;report.html\""));
    assert!(page.contains("id=\"scenario-1\"") && page.contains("What does not hold"));
    // The shipped start is the reference and the better of the stand-in's; the matrix shows how much worse the other
    // is.
    let heads = "<tr class=\"heads\"><th>completion over floor</th><th class=\"n\">peak-bandwidth</th><th class=\"n\">standard</th>";
    assert_eq!(page.matches(heads).count(), 2);
    assert_eq!(page.matches(" × ▼</td>").count(), 2, "a place in each of two scenarios");
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    assert_eq!(page.matches("<table").count(), page.matches("</table>").count());
    for fetched in ["src=\"http", "src='http", "url(http", "@import", "<link rel=\"stylesheet"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
}

#[test]
fn a_failed_run_is_said_at_the_top() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = results(directory.path(), &Toy::default());
    results.scenario.expectations.truncate(1);
    let page = page::single(&results, MOST_RECORDINGS).unwrap();
    assert!(page.contains("<span class=\"banner good\">1 of 1 expectations hold</span>"));
    results.runs.insert((0, 3), &crate::record::RunRecord::failure("lightning".to_owned()));
    let page = page::single(&results, MOST_RECORDINGS).unwrap();
    assert!(
        page.contains("<span class=\"banner bad\">1 of 1 expectations hold; 1 run failed, 1 of ours that should not")
    );
    let page = collection("All", &[results], directory.path()).unwrap();
    assert!(
        page.contains("<span class=\"banner bad\">1 of 1 expectations hold; 1 run failed, 1 of ours that should not")
    );
}

#[test]
fn a_page_says_how_many_recordings_it_leaves_out_and_how_to_see_them() {
    let directory = tempfile::tempdir().unwrap();
    let text = TEXT.replace("seeds = 20", "seeds = 20\nrecord = \"all\"");
    let results = results_of(&text, directory.path(), &Toy::default());
    let page = page::single(&results, MOST_RECORDINGS).unwrap();
    let named = |page: &str| page.matches("\"name\":\"start = ").count() + page.matches("\"name\":\"standard").count();
    assert!(page.contains("Of 40 recorded runs 12 are here"), "{}", named(&page));
    assert!(page.contains("--recordings 40</code> writes this page with all of them"));
    let page = page::single(&results, 40).unwrap();
    assert!(!page.contains("recorded runs"), "nothing is left out");
    // However many they are, and however long.
    let json = page.split("id=\"recordings\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert!(json.len() < 1_500_000, "{}", json.len());
}

#[test]
fn states_have_colors_that_no_choice_has() {
    let schemes: Vec<&str> = assets::CSS.split("--bg:").skip(1).collect();
    assert_eq!(schemes.len(), 2, "light and dark");
    for scheme in schemes {
        let scheme = scheme.split('}').next().unwrap();
        let colors = |letter: char| -> Vec<[i32; 3]> {
            (0..8)
                .map(|number| {
                    let hex = scheme.split(&format!("--{letter}{number}: #")).nth(1).unwrap();
                    [0, 2, 4].map(|at| i32::from_str_radix(&hex[at..at + 2], 16).unwrap())
                })
                .collect()
        };
        let (choices, states) = (colors('k'), colors('s'));
        for (at, state) in states.iter().enumerate() {
            for choice in &choices {
                let apart: i32 = (0..3).map(|part| (state[part] - choice[part]).abs()).sum();
                assert!(apart > 60, "state {at} {state:?} and choice {choice:?}");
            }
        }
    }
    let states = assets::JS.split("const STATES = {").nth(1).unwrap().split('}').next().unwrap();
    assert!(states.contains("\"s0\"") && !states.contains("\"k"), "{states}");
}

#[test]
fn a_page_of_thousands_of_points_stays_below_15_megabytes_and_says_what_is_left_out() {
    let values = |unit: &str, count: u64| (1..=count).map(|n| format!("\"{n} {unit}\"")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"satellite\"\n[[flow]]\ntransfer = {{ download = \"1 MB\" }}\n\
         [vary]\n\"path.p.down.rate\" = [{}]\n\"path.p.down.delay\" = [{}]\n\
         [[expect]]\nmetric = \"completion.p50\"\nat_most = \"1 s\"\n",
        values("Mbps", 60),
        values("ms", 50)
    );
    let directory = tempfile::tempdir().unwrap();
    let engine = Toy::default();
    let scenario = Scenario::parse("many.toml", &text, Path::new(""), &engine.stacks()).unwrap();
    let seeds = |point: usize| (1..=3).map(move |seed| (point, seed));
    let one =
        |(point, seed): (usize, u64)| ((point, seed), engine.run(&scenario.points[point].world, seed, false).record);
    let runs: Runs = (0..scenario.points.len()).flat_map(seeds).map(one).collect();
    assert_eq!(runs.len(), 9_000);
    let mut manifest = Manifest::new(&scenario, "toy 1");
    manifest.seeds = 3;
    let results = Results { scenario, runs, manifest, store: Store::create(directory.path()).unwrap() };
    let path = results.write().unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    for left_out in ["Not shown: 2800 more rows; results.json has them.", "and 2000 more in results.json"] {
        assert!(page.contains(left_out), "{left_out}");
    }
}
