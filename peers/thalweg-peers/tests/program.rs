//! The program as a user runs it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
title = "A megabyte"
question = "Who is quicker?"
seeds = 2
rivals = ["quinn", "noq"]

[path.link]
down = { rate = "20 Mbps", delay = "10 ms", queue = "1 BDP" }
up = { rate = "20 Mbps", delay = "10 ms", queue = "1 BDP" }

[[flow]]
transfer = { download = "1 MB" }

[vary]
"flow.0.policies.controller" = ["cubic", "new-reno"]

[[expect]]
metric = "success"
equals = 1

[[expect]]
where = { stack = "quinn" }
metric = "completion_over_floor.p50"
within = [1, 3]
"#;

fn run(directory: &Path, args: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg-peers")).args(args).current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn rivals_run_beside_ours_and_can_be_verified() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("q.toml"), SCENARIO).unwrap();
    let (output, said) = run(directory.path(), &["lab", "run", "q.toml", "--out", "r"]);
    assert!(output.status.success(), "{said}");
    // Each choice has a line with numbers of its own, the rivals' beside ours.
    for choice in ["cubic", "new-reno", "quinn", "noq"] {
        let line = said.lines().find(|line| line.trim_start().starts_with(&format!("{choice} ")));
        let figures =
            line.map(|line| line.split_whitespace().skip(1).filter(|cell| cell.parse::<f64>().is_ok()).count());
        assert!(figures.is_some_and(|figures| figures >= 3), "{choice} has no figures: {said}");
    }
    assert!(said.contains("3 of 3 expectations hold"), "{said}");
    assert!(!said.contains("not in this program"), "{said}");
    let (output, said) = run(directory.path(), &["lab", "export", "r"]);
    assert!(output.status.success(), "{said}");
    let rows = std::fs::read_to_string(directory.path().join("r/csv/runs.csv")).unwrap();
    assert_eq!(rows.lines().filter(|row| row.contains("quinn-proto 0.11.")).count(), 2, "{rows}");
    let (output, said) = run(directory.path(), &["lab", "verify", "r"]);
    assert!(output.status.success() && said.contains("all 8 runs came out the same"), "{said}");
}

const TRANSFER: &str = r#"
title = "A megabyte"
question = "Why?"

[path.link]
down = { rate = "20 Mbps", delay = "10 ms", queue = "1 BDP" }
up = { rate = "20 Mbps", delay = "10 ms", queue = "1 BDP" }

[[flow]]
stack = "noq"
transfer = { download = "1 MB" }
"#;

#[test]
fn a_rival_s_log_is_traced_and_answered() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("t.toml"), TRANSFER).unwrap();
    let (output, said) = run(directory.path(), &["lab", "trace", "t.toml", "--out", "traces"]);
    assert!(output.status.success(), "{said}");
    let names = std::fs::read_dir(directory.path().join("traces")).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "sqlog")).collect();
    logs.sort();
    assert_eq!(logs.len(), 2, "{logs:?}");
    let server = logs.iter().find(|path| path.to_string_lossy().ends_with("_server.sqlog")).unwrap();
    let (output, said) = run(directory.path(), &["why", &server.to_string_lossy()]);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && answer.contains("path as read"), "{answer} {said}");
}
