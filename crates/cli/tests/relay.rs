//! `thalweg relay` between a server and a client.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use common::{Place, Server, run, signal, text, thalweg, wait};
use serde_json::Value;

/// A relay that was started, its output, and what it said when it listened.
fn start(args: &[&str]) -> (Child, BufReader<ChildStdout>, Value) {
    let mut child = thalweg(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let hello = serde_json::from_str(&line).unwrap();
    (child, out, hello)
}

#[test]
fn a_download_crosses_it_and_it_reports() {
    for (listen, host) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        let place = Place::new();
        let sum = place.add("file", 500_000);
        let server = Server::start_at(host, &place.path("site"), &[]);
        let ends = format!("{listen}={}", server.address);
        let (mut relay, mut out, hello) = start(&["relay", &ends, "--preset", "broadband", "--seed", "7", "--json"]);
        assert_eq!(
            (&hello["event"], &hello["path"], &hello["seed"]),
            (&"listening".into(), &"broadband".into(), &7.into())
        );
        let url = Server::url_at(hello["address"].as_str().unwrap().parse().unwrap(), "file");
        let fetched = run(&["get", "--quic-only", "--pin", &server.pin, "-o", &place.arg("file"), &url]);
        assert!(fetched.status.success(), "{}", text(&fetched.stderr));
        assert_eq!(place.sha256("file"), sum);
        signal(&relay, "INT");
        assert!(wait(&mut relay).success());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let report: Value = serde_json::from_str(&line).unwrap();
        let down = &report["paths"][0]["down"];
        assert!(down["handed_over_bytes"].as_u64().unwrap() > 500_000, "{report}");
        assert_eq!(down["lateness"]["count"], down["handed_over"]);
        assert_eq!(report["valid"].as_bool().unwrap(), report["invalid_because"].as_array().unwrap().is_empty());
    }
}

#[test]
fn it_ends_in_time_and_says_in_words_how_it_went() {
    let done = run(&["relay", "0=127.0.0.1:9", "--preset", "satellite", "--for", "100 ms", "--max-wake-up", "1 h"]);
    assert!(done.status.success());
    let said = text(&done.stderr);
    assert!(said.contains("over satellite (up 3 Mbps, 300 ms; down 250 Mbps, 300 ms)"), "{said}");
    assert!(said.contains("  up    0 packets") && said.trim_end().ends_with("VALID"), "{said}");
    let args = ["relay", "0=127.0.0.1:9", "--preset", "wifi", "--for", "50 ms", "--max-wake-up", "1 ns", "--strict"];
    let done = run(&args);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("the run is invalid: programs on this machine are woken late"));
}

#[test]
fn what_cannot_work_is_said() {
    for (args, said) in [
        (&["relay", "0=127.0.0.1:9"][..], "--preset with one of broadband"),
        (&["relay", "0=127.0.0.1:9", "--preset", "lt"], "did you mean \"lte\"?"),
        (&["relay", "4500", "--preset", "lte"], "write LISTEN=TARGET"),
        (&["relay", "192.0.2.1:5=127.0.0.1:9", "--preset", "lte"], "cannot relay 192.0.2.1:5 to 127.0.0.1:9"),
    ] {
        let mut child = thalweg(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(!wait(&mut child).success());
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert!(error.contains(said), "{error}");
    }
}
