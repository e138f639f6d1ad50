//! `thalweg why`: what it says of logs, and of what is none.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::fs;

use common::{Place, Server, run, text};

/// 20 Mbps and 60 ms, 0.3 % of the packets lost, and a receive window of 120 kB.
const SCENARIO: &str = r#"
title = "a"
question = "What limits this?"
seeds = 1
crypto = "null"
time_limit = "60 s"
[path.p]
down = { rate = "20 Mbps", delay = "30 ms", queue = "1 BDP", loss = 0.003 }
up = { rate = "20 Mbps", delay = "30 ms", queue = "1 BDP" }
[[flow]]
transfer = { download = "4 MB" }
transport = { receive_window = "120 kB" }
"#;

/// The logs of the client and of the server.
fn logs(place: &Place) -> [String; 2] {
    logs_of(place, SCENARIO)
}

/// The same of another scenario.
fn logs_of(place: &Place, scenario: &str) -> [String; 2] {
    fs::write(place.path("a.toml"), scenario).unwrap();
    let folder = place.arg("traces");
    let done = run(&["lab", "trace", &place.arg("a.toml"), "--out", &folder]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    ["client", "server"].map(|end| {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path().display().to_string());
        files.into_iter().find(|file| file.ends_with(&format!("_{end}.sqlog"))).unwrap()
    })
}

#[test]
fn the_cause_is_what_costs_most_and_not_where_the_sender_waits() {
    let place = Place::new();
    let [client, server] = logs(&place);
    let done = run(&["why", &server]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.starts_with("Slow because of the receive window: "), "{said}");
    assert!(said.contains(" s; without this limit about "), "{said}");
    for part in ["saved without it", "random loss", "where the sender waited\n  ", "path as read\n  "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let done = run(&["why", "--json", &server]);
    let json: serde_json::Value = serde_json::from_str(&text(&done.stdout)).unwrap();
    assert_eq!((&json["cause"], &json["has_figures"]), (&"receive-window".into(), &true.into()));
    assert!((json["path"]["rate_bps"].as_f64().unwrap() / 20e6 - 1.0).abs() < 0.1, "{json}");
    // Both ends have one answer, in whatever order.
    for logs in [[&client, &server], [&server, &client]] {
        let done = run(&["why", logs[0], logs[1]]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let said = text(&done.stdout);
        assert!(said.contains("Slow because of the receive window"), "{said}");
        assert!(
            said.contains("what the receiver saw\n  ") && said.contains(" MB in ") && said.matches("Slow").count() == 1,
            "{said}"
        );
    }
    // The receiver does not know; it says who does.
    let done = run(&["why", &client]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()));
    assert!(text(&done.stderr).contains("log of the receiver"), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("which is the server"), "{}", text(&done.stderr));
}

#[test]
fn the_path_of_a_log_is_a_path_of_the_lab() {
    let place = Place::new();
    let [client, server] = logs(&place);
    let file = place.arg("path.toml");
    let done = run(&["lab", "path-from", &server, "--out", &file]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let written = fs::read_to_string(&file).unwrap();
    for path in ["model", "replay"] {
        let args = ["relay", "0=127.0.0.1:9", &file, "--path", path, "--for", "50 ms"];
        assert!(run(&args).status.success(), "{path}: {written}");
    }
    let down = written.lines().find(|line| line.starts_with("down = ")).unwrap();
    let kbps: f64 = down.split("rate = \"").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((kbps / 20_000.0 - 1.0).abs() < 0.05, "{down}");
    assert!(down.contains("loss = 0.00") && written.contains("packets = ["), "{written}");
    // A receiver does not know.
    let done = run(&["lab", "path-from", &client]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0));
    assert!(text(&done.stderr).contains("log of the receiver"), "{}", text(&done.stderr));
}

#[test]
fn what_is_no_log_is_said_and_nothing_is_printed() {
    let place = Place::new();
    let cases: [(&str, &[u8], &str); 5] = [
        ("empty.sqlog", b"", "no qlog event is in it"),
        ("picture.png", b"\x89PNG\r\n\x1a\n", "a picture"),
        ("packed.sqlog.gz", b"\x1f\x8b\x08\x00", "gzip, but damaged"),
        ("packed.sqlog.zst", b"\x28\xb5\x2f\xfd\x00", "unzstd"),
        ("zeros.sqlog", &[0; 4096], "not JSON"),
    ];
    for (name, content, expected) in cases {
        fs::write(place.path(name), content).unwrap();
        let done = run(&["why", &place.arg(name)]);
        assert_eq!(done.status.code(), Some(2), "{name}");
        assert!(done.stdout.is_empty(), "{name}");
        let said = text(&done.stderr);
        assert!(said.contains(expected) && said.contains(name), "{said}");
        let done = run(&["why", &place.arg(name), "--redact", &place.arg("out.sqlog")]);
        assert_eq!(done.status.code(), Some(2), "{name}");
        assert!(!place.path("out.sqlog").exists(), "{name}");
    }
    for wrong in [place.arg("nowhere.sqlog"), place.arg("")] {
        let done = run(&["why", &wrong]);
        assert_eq!(done.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn a_log_to_show_to_others_has_the_same_answer() {
    let place = Place::new();
    let [_, server] = logs(&place);
    let shown = place.arg("shown.sqlog");
    let first = run(&["why", &server, "--redact", &shown]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let again = run(&["why", &shown]);
    assert_eq!(text(&again.stdout), text(&first.stdout));
    // Not over the log itself, and not of two.
    for wrong in [vec!["why", &server, "--redact", &server], vec!["why", &server, &shown, "--redact", &shown]] {
        assert_eq!(run(&wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_page_has_the_answer_and_the_causes_as_spans() {
    let place = Place::new();
    let [_, server] = logs(&place);
    let page = place.arg("why.html");
    let what_if = ["--what-if", "receive_window=unlimited", "--what-if", "controller=cubic"];
    let done = run(&[&["why", &server, "--report", &page][..], &what_if].concat());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("what if\n  receive_window=unlimited: about ") && said.contains(" % less; "), "{said}");
    let page = fs::read_to_string(page).unwrap();
    for part in ["<h1>Slow because of the receive window", ">the receive window<", "class=\"strip ", "saved without it"]
    {
        assert!(page.contains(part), "{part}");
    }
    for (option, value) in [("--what-if", "controller=nobody"), ("--what-if", "x"), ("--report", &*server)] {
        assert_eq!(run(&["why", &server, option, value]).status.code(), Some(2), "{option} {value}");
    }
}

#[test]
fn two_logs_are_compared() {
    let place = Place::new();
    let [receiver, slow] = logs(&place);
    let other = Place::new();
    let faster = SCENARIO.replace("transport = { receive_window = \"120 kB\" }", "");
    let [_, fast] = logs_of(&other, &faster);
    let done = run(&["why", &fast, &slow]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.starts_with("B took ") && said.contains("% of the difference is the receive window"), "{said}");
    let json = text(&run(&["why", "--json", &fast, &slow]).stdout);
    assert_eq!(json.lines().count(), 3, "{json}");
    // The sender's of one transfer and the receiver's of another are no two ends of anything.
    let small = Place::new();
    let [_, sender] = logs_of(&small, &SCENARIO.replace("4 MB", "1 MB"));
    let done = run(&["why", &sender, &receiver]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stdout).contains("Slow because of the receive window"), "the sender's has an answer");
    assert!(text(&done.stderr).contains("the logs are of two connections: "), "{}", text(&done.stderr));
}

#[test]
fn uploads_and_downloads_say_why_without_a_log() {
    let place = Place::new();
    place.add("big", 4_000_000);
    let server = Server::start(&place.path("site"), &["--allow-upload"]);
    let common = ["--pin", &server.pin, "--quic-only", "--quiet", "--why"];
    let (file, url, got) = (place.arg("site/big"), server.url("big"), place.arg("got"));
    let again = server.url("again");
    let up = [&["put", &file, &again, "--limit-rate", "20 Mbps"][..], &common].concat();
    let done = run(&up);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    // Loopback is another path each time: there is an answer, or a word why there is none.
    let said = text(&done.stderr);
    assert!(said.contains("path as read\n") || said.contains("cannot tell why"), "{said}");
    // A download is sent by the other end.
    let down = [&["get", &url, "-o", &got][..], &common].concat();
    let done = run(&down);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stderr);
    assert!(said.contains("which is the server. What this end saw: 4 MB in "), "{said}");
}

#[test]
fn the_lab_says_why_the_slowest_run_of_each_point_was_slow() {
    let place = Place::new();
    let plain = SCENARIO.replace("transport = { receive_window = \"120 kB\" }", "");
    let varied = format!("{plain}[vary]\n\"flow.0.transport.receive_window\" = [\"120 kB\", \"8 MB\"]\n");
    fs::write(place.path("a.toml"), varied).unwrap();
    let done = run(&["lab", "run", &place.arg("a.toml"), "--why", "--out", &place.arg("results")]);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("why the slowest run")).collect();
    assert!(lines[1].contains("120 kB, seed 1: Slow because of the receive window: "), "{said}");
    assert!(lines[3].contains("8 MB, seed 1: ") && !lines[3].contains("the receive window: "), "{said}");
    // Each names its log.
    let log = lines[2].trim().strip_prefix("thalweg why ").unwrap();
    assert!(text(&run(&["why", log]).stdout).starts_with("Slow because of the receive window: "), "{said}");
    let done = run(&["lab", "run", &place.arg("a.toml"), "--why", "--json", "--out", &place.arg("results")]);
    let json: serde_json::Value = serde_json::from_str(&text(&done.stdout)).unwrap();
    assert_eq!(json["why"][0]["why"]["cause"], "receive-window", "{json}");
}
