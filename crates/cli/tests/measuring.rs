//! perf, demo, policies: figures that programs can read.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use common::{Place, json_lines, run, text, thalweg};
use serde_json::Value;

/// A perf server for one connection, and its address.
fn perf_server() -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = thalweg(&["perf", "server", "--listen", "127.0.0.1:0", "--connections", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let hello: Value = serde_json::from_str(&line).unwrap();
    (child, stdout, hello["address"].as_str().unwrap().to_owned())
}

#[test]
fn perf_moves_what_it_is_told_in_either_direction() {
    for (way, down, up) in [("--download", 20, 0), ("--upload", 20, 0), ("--bidi", 20, 20)] {
        let (mut server, mut stdout, address) = perf_server();
        let done = run(&["perf", "client", &address, way, "20 MB", "--streams", "3", "--interval", "0 s", "--json"]);
        assert!(done.status.success(), "{way}: {}", text(&done.stderr));
        let summary = &json_lines(&done.stdout)[0];
        assert_eq!(summary["event"], "summary");
        let (down, up) = if way == "--upload" { (up, down) } else { (down, up) };
        assert_eq!(summary["bytes_down"], down * 1_000_000, "{way}");
        assert_eq!(summary["bytes_up"], up * 1_000_000, "{way}");
        for key in ["handshake_ms", "rtt_ms", "max_window", "mtu", "packets_lost", "packets_spuriously_lost"] {
            assert!(summary["connection"][key].is_number(), "{key} in {summary}");
        }
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let seen: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(seen["bytes_sent"], down * 1_000_000);
        assert_eq!(seen["bytes_received"], up * 1_000_000);
        assert!(common::wait(&mut server).success());
    }
}

#[test]
fn perf_reports_intervals_and_keeps_to_its_time() {
    let (mut server, _stdout, address) = perf_server();
    let done = run(&["perf", "client", &address, "--time", "1 s", "--interval", "200 ms", "--json"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let lines = json_lines(&done.stdout);
    let intervals: Vec<_> = lines.iter().filter(|line| line["event"] == "interval").collect();
    assert!((3..=7).contains(&intervals.len()), "{}", intervals.len());
    assert!(intervals.iter().map(|line| line["bytes_down"].as_u64().unwrap()).sum::<u64>() > 0);
    assert_eq!(lines.last().unwrap()["event"], "summary");
    assert!(common::wait(&mut server).success());
}

#[test]
fn the_demo_checks_its_bytes_and_says_where_the_traces_are() {
    let place = Place::new();
    let traces = place.arg("traces");
    let done = run(&["demo", "--size", "1 MB", "--json", "--qlog", &traces]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let outcome = &json_lines(&done.stdout)[0];
    assert!(outcome["files"].as_array().unwrap().iter().all(|file| file["equal"] == true));
    assert!(outcome["relay_dropped"].as_u64().unwrap() > 0);
    assert!(outcome["server"]["loss"]["packets"].as_u64().unwrap() > 0);
    assert_eq!(std::fs::read_dir(&traces).unwrap().count(), 2, "one trace of each end");
}

#[test]
fn policies_are_listed_for_people_and_programs() {
    let page = text(&run(&["policies"]).stdout);
    assert!(page.contains("controller ") && page.contains("new-reno") && page.contains("cubic"), "{page}");
    assert!(!page.contains("prr-ssrb") && text(&run(&["policies", "--all"]).stdout).contains("prr-ssrb"), "{page}");
    let all: Value = serde_json::from_slice(&run(&["policies", "--json"]).stdout).unwrap();
    for field in all["fields"].as_array().unwrap() {
        for choice in field["choices"].as_array().unwrap().iter().filter(|choice| choice["built"] == true) {
            let named = format!("{}={}", field["field"].as_str().unwrap(), choice["name"].as_str().unwrap());
            let tried = run(&["perf", "client", "localhost:0", "--policies", &named, "--help"]);
            assert!(tried.status.success(), "{named}");
        }
    }
}

#[test]
fn help_goes_to_stdout_with_exit_code_0() {
    for command in ["serve", "get", "put", "perf", "qlog", "policies", "demo"] {
        let help = run(&[command, "--help"]);
        assert!(help.status.success(), "{command}");
        assert!(text(&help.stdout).contains("Usage: thalweg"), "{command}");
    }
}
