//! `thalweg get` when the server is killed and comes back, and when it does not.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Place, Server, finish, json_lines, text, thalweg, until};
use thalweg_files::certificate::Identity;

const SIZE: u64 = 12_000_000;

struct Kept {
    cert: String,
    key: String,
}

/// A certificate that outlives its server.
fn certificate(place: &Place) -> Kept {
    let identity = Identity::self_signed::<&str>(&[]).unwrap();
    let kept = Kept { cert: place.arg("cert.pem"), key: place.arg("key.pem") };
    std::fs::write(&kept.cert, identity.certificate_pem()).unwrap();
    std::fs::write(&kept.key, identity.key_pem()).unwrap();
    kept
}

fn start(listen: &str, place: &Place, kept: &Kept) -> Server {
    Server::start_at(listen, &place.path("site"), &["--cert", &kept.cert, "--key", &kept.key])
}

fn slow_get(place: &Place, url: &str, more: &[&str]) -> std::process::Child {
    let (out, cert) = (place.arg("big"), place.arg("cert.pem"));
    let mut args = vec!["get", "--json", "--limit-rate", "40 Mbps", "--ca", &cert, "-o", &out, url];
    args.extend(more);
    let child = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first megabyte", || place.size("big.part").is_some_and(|size| size > 1_000_000));
    child
}

#[test]
fn a_server_that_is_killed_and_started_again_costs_a_pause() {
    for way in ["--quic-only", "--tcp-only"] {
        let place = Place::new();
        let sum = place.add("big", SIZE);
        let kept = certificate(&place);
        let mut server = start("127.0.0.1:0", &place, &kept);
        let (address, url) = (server.address.to_string(), server.url("big"));
        let client = slow_get(&place, &url, &[way]);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let began = Instant::now();
        let _again = start(&address, &place, &kept);
        let ended = finish(client);
        let message = text(&ended.stderr);
        assert!(ended.status.success(), "{way}: {message}");
        assert_eq!(place.sha256("big"), sum, "{way}");
        assert!(message.contains("trying again in"), "{way}: {message}");
        let report = &json_lines(&ended.stdout)[0];
        assert_eq!((report["bytes"].as_u64(), report["resumed_from"].as_u64()), (Some(SIZE), Some(0)), "{report}");
        assert!(report["retries"].as_u64().unwrap() >= 1, "{report}");
        assert!(began.elapsed() < Duration::from_secs(25), "{way}: {:?}; the idle timeout is 30 s", began.elapsed());
    }
}

#[test]
fn a_server_that_stays_away_is_given_up_after_the_attempts_allowed() {
    let place = Place::new();
    place.add("big", SIZE);
    let kept = certificate(&place);
    let mut server = start("127.0.0.1:0", &place, &kept);
    let client = slow_get(&place, &server.url("big"), &["--quic-only", "--retries", "2"]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let began = Instant::now();
    let ended = finish(client);
    assert_eq!(ended.status.code(), Some(1));
    let message = text(&ended.stderr);
    assert!(message.contains("2 further attempts did not help"), "{message}");
    assert!(message.contains("refuses UDP") && message.contains("--resume"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}; the idle timeout is 30 s", began.elapsed());
}
