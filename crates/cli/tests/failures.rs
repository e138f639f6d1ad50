//! Failures in the middle of a command: exit code, message, and what is left on disk.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{Place, Server, finish, json_lines, run, signal, text, thalweg, until};
use thalweg_emulate::{Relay, RelayConfig};
use thalweg_link::{DirectionConfig, PathConfig, RateModel};
use thalweg_units::Rate;

const SIZE: u64 = 20_000_000;

/// A slow `get` of the file "big" at `url`, well under way.
fn slow_get(place: &Place, pin: &str, url: &str) -> Child {
    let out = place.arg("big");
    let child = thalweg(&[
        "get",
        "--quic-only",
        "--idle-timeout",
        "2 s",
        "--connect-timeout",
        "1 s",
        "--retries",
        "1",
        "--limit-rate",
        "16 Mbps",
        "--pin",
        pin,
        "-o",
        &out,
        url,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    until("the first megabyte", || place.size("big.part").is_some_and(|size| size > 1_000_000));
    child
}

/// Nothing under the file's own name, something under the partial one.
fn assert_partial(place: &Place) {
    assert_eq!(place.size("big"), None, "a partial file never has the file's name");
    let kept = place.size("big.part").unwrap();
    assert!((1_000_000..SIZE).contains(&kept), "{kept}");
}

fn assert_resumes(place: &Place, pin: &str, url: &str, sum: &str) {
    let out = place.arg("big");
    let done = run(&["get", "--quic-only", "--resume", "--json", "--pin", pin, "-o", &out, url]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = &json_lines(&done.stdout)[0];
    assert!(report["resumed_from"].as_u64().unwrap() >= 1_000_000, "{report}");
    assert_eq!(report["resumed_from"].as_u64().unwrap() + report["bytes"].as_u64().unwrap(), SIZE);
    assert_eq!(place.sha256("big"), sum);
    assert_eq!(place.size("big.part"), None);
}

#[test]
fn a_killed_client_can_resume() {
    let place = Place::new();
    let sum = place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &[]);
    let url = server.url("big");
    let mut client = slow_get(&place, &server.pin, &url);
    client.kill().unwrap();
    client.wait().unwrap();
    assert_partial(&place);
    assert_resumes(&place, &server.pin, &url, &sum);
}

#[test]
fn an_interrupted_client_says_how_to_resume() {
    let place = Place::new();
    let sum = place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &[]);
    let url = server.url("big");
    let client = slow_get(&place, &server.pin, &url);
    signal(&client, "INT");
    let ended = finish(client);
    // By the signal: a shell shows 130, and a script stops.
    assert_eq!(ended.status.signal(), Some(2), "{:?}", ended.status);
    assert!(text(&ended.stderr).contains("--resume"), "{}", text(&ended.stderr));
    assert_partial(&place);
    assert_resumes(&place, &server.pin, &url, &sum);
}

#[test]
fn a_killed_server_ends_the_client_with_a_message() {
    let place = Place::new();
    place.add("big", SIZE);
    let mut server = Server::start(&place.path("site"), &[]);
    let client = slow_get(&place, &server.pin, &server.url("big"));
    server.child.kill().unwrap();
    let ended = finish(client);
    assert_eq!(ended.status.code(), Some(1));
    let message = text(&ended.stderr);
    assert!(message.contains("--resume"), "{message}");
    assert_partial(&place);
}

/// Passes datagrams as they come.
fn relay(target: SocketAddr) -> Relay {
    let direction = DirectionConfig { rate: RateModel::Constant(Rate::MAX), ..DirectionConfig::default() };
    let hops = vec![PathConfig::new("p", direction.clone(), direction)];
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Relay::start(RelayConfig { listen, target, hops, seed: 1, realtime: false }).unwrap()
}

#[test]
fn a_network_cut_for_longer_than_the_idle_timeout_ends_the_client_with_a_message() {
    let place = Place::new();
    let sum = place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &["--idle-timeout", "2 s"]);
    let relay = relay(server.address);
    let url = Server::url_at(relay.address(), "big");
    let client = slow_get(&place, &server.pin, &url);
    relay.set_cut(true);
    let ended = finish(client);
    assert_eq!(ended.status.code(), Some(1));
    let message = text(&ended.stderr);
    assert!(message.contains("--resume"), "{message}");
    assert_partial(&place);
    // The server has not suffered: what was kept is continued as soon as the network is back.
    relay.set_cut(false);
    assert_resumes(&place, &server.pin, &url, &sum);
}

#[test]
fn a_network_cut_for_less_than_the_idle_timeout_is_survived() {
    let place = Place::new();
    let sum = place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &[]);
    let relay = relay(server.address);
    let out = place.arg("big");
    let url = Server::url_at(relay.address(), "big");
    let client = thalweg(&["get", "--quic-only", "--limit-rate", "100 Mbps", "--pin", &server.pin, "-o", &out, &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the first bytes", || place.size("big.part").is_some_and(|size| size > 0));
    relay.set_cut(true);
    std::thread::sleep(Duration::from_millis(700));
    relay.set_cut(false);
    let ended = finish(client);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(place.sha256("big"), sum);
}

#[test]
fn a_changed_file_is_not_resumed_but_fetched_anew() {
    let place = Place::new();
    place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &[]);
    let url = server.url("big");
    let mut client = slow_get(&place, &server.pin, &url);
    client.kill().unwrap();
    client.wait().unwrap();
    // Another file under the same name; another length, so that its entity tag differs in any case.
    std::fs::remove_file(place.path("site/big")).unwrap();
    let sum = thalweg_cli::content::write_file(&place.path("site/big"), SIZE - 5, 99).unwrap();
    let out = place.arg("big");
    let done = run(&["get", "--quic-only", "--resume", "--json", "--pin", &server.pin, "-o", &out, &url]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(json_lines(&done.stdout)[0]["resumed_from"], 0);
    assert_eq!(place.sha256("big"), sum);
}

#[test]
fn a_server_told_to_stop_lets_running_answers_finish() {
    let place = Place::new();
    let sum = place.add("big", 4_000_000);
    let mut server = Server::start(&place.path("site"), &["--grace", "20 s"]);
    let out = place.arg("big");
    let url = server.url("big");
    let client = thalweg(&["get", "--quic-only", "--limit-rate", "16 Mbps", "--pin", &server.pin, "-o", &out, &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the first bytes", || place.size("big.part").is_some_and(|size| size > 0));
    signal(&server.child, "TERM");
    let ended = finish(client);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(place.sha256("big"), sum);
    assert_eq!(common::wait(&mut server.child).code(), Some(0));
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let place = Place::new();
    let nowhere = place.arg("nowhere");
    for args in [
        vec!["get"],
        vec!["nonsense"],
        vec!["get", "ftp://localhost/x", "-o", "x"],
        vec!["get", "ftp://localhost/x"],
        vec!["man", "nonsense"],
        vec!["completions", "nonsense"],
        vec!["get", "https://localhost/a", "https://localhost/b", "-o", "x"],
        vec!["get", "https://localhost/", "--policies", "controller=nonsense"],
        vec!["get", "https://localhost/a", "--ca", &nowhere],
        vec!["get", "https://localhost/a", "-H", "no colon"],
        vec!["get", "https://localhost/a", "--limit-rate", "fast"],
        vec!["serve", &nowhere],
        vec!["serve", ".", "--cert", "only.pem"],
        vec!["perf", "client"],
        vec!["perf", "client", "127.0.0.1:1", "--download", "1 MB", "--upload", "1 MB"],
        vec!["perf", "client", "127.0.0.1:1", "--streams", "0"],
        vec!["demo", "--loss", "much"],
        vec!["qlog"],
    ] {
        let ended = run(&args);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", text(&ended.stderr));
        assert!(!ended.stderr.is_empty(), "{args:?}");
        assert!(ended.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_cannot_be_had_is_exit_code_1() {
    let place = Place::new();
    let server = Server::start(&place.path("site"), &[]);
    let out = place.arg("x");
    let missing = run(&["get", "--pin", &server.pin, "-o", &out, &server.url("missing")]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("404"), "{}", text(&missing.stderr));
    assert_eq!(place.size("x"), None);
    let nobody = run(&["get", "--insecure", "-o", &out, "https://127.0.0.1:1/x"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("cannot connect"), "{}", text(&nobody.stderr));
    let no_trace = run(&["qlog", &place.arg("none.sqlog")]);
    assert_eq!(no_trace.status.code(), Some(1));
}
