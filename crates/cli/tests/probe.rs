//! `thalweg probe` between two programs.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use common::{Place, finish, json_lines, run, signal, text, thalweg, wait};
use serde_json::Value;
use thalweg_probe::wire::{FromClient, FromServer, Refusal, ServerKind};

/// A probe server that was started; dropping it kills it.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(listen: &str) -> Server {
        Server::start_with(listen, &[])
    }

    fn start_with(listen: &str, more: &[&str]) -> Server {
        let args = ["probe", "server", "--json", "--listen", listen];
        let mut child =
            thalweg(&[&args[..], more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap();
        Server { child, address: hello["address"].as_str().unwrap().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A measurement that goes on.
fn measure(address: SocketAddr, length: &str) -> Child {
    let args = ["probe", &address.to_string(), "--for", length, "--json"];
    thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn result(output: &Output) -> Value {
    json_lines(&output.stdout).pop().unwrap_or_else(|| panic!("{}", text(&output.stderr)))
}

fn pause(length: u64) {
    std::thread::sleep(Duration::from_millis(length));
}

#[test]
fn loopback_is_measured_over_both_families() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let server = Server::start(listen);
        let output = run(&["probe", &server.address.to_string(), "--for", "3s", "--every", "5ms", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result = result(&output);
        let measured = &result["measured"];
        assert_eq!(result["arrivals_by"], if cfg!(target_os = "linux") { "kernel" } else { "program" });
        assert_eq!(result["complete"], true);
        assert_eq!(result["answer"]["cause"], "unknown", "three seconds are too short");
        for way in ["up", "down"] {
            assert!(measured[way]["sent"].as_u64().unwrap() > 300, "{measured}");
            assert_eq!(measured[way]["lost"], 0, "{measured}");
        }
        assert!(measured["round_trip"]["p50"].as_f64().unwrap() < 5.0, "{measured}");
        assert!(measured["clock"][0]["offset_bound"].as_f64().unwrap() < 5.0, "{measured}");
    }
}

#[test]
fn a_server_of_both_families_answers_from_where_it_was_asked() {
    let server = Server::start("[::]:0");
    for host in ["127.0.0.1", "127.0.0.2", "[::1]"] {
        let host = format!("{host}:{}", server.address.port());
        let output = run(&["probe", &host, "--for", "1s", "--json"]);
        assert!(output.status.success(), "{host}: {}", text(&output.stderr));
        assert_eq!(result(&output)["measured"]["down"]["lost"], 0, "{host}");
    }
}

#[test]
fn suspensions_of_a_relay_are_found() {
    let server = Server::start("127.0.0.1:0");
    let ends = format!("127.0.0.1:0={}", server.address);
    let args = ["relay", &ends, "--preset", "suspended", "--json"];
    let mut relay = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(relay.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let hello: Value = serde_json::from_str(&line).unwrap();
    let place = Place::new();
    let (page, table, paths) = (place.arg("path.html"), place.arg("path.csv"), place.arg("path.toml"));
    let address = hello["address"].as_str().unwrap();
    let files = ["--report", &page, "--csv", &table, "--scenario", &paths];
    let output = run(&[&["probe", address, "--for", "12s", "--json"], &files[..]].concat());
    signal(&relay, "INT");
    assert!(wait(&mut relay).success());
    let result = result(&output);
    assert_eq!(result["answer"]["cause"], "suspensions", "{result}");
    // 200 ms of both ways every 2 s.
    let found = result["measured"]["suspensions"].as_array().unwrap().clone();
    let is_right = |event: &&Value| {
        let length = event["length"].as_f64().unwrap();
        event["way"] == "both" && (180.0..230.0).contains(&length)
    };
    assert!((5..=7).contains(&found.len()) && found.iter().filter(is_right).count() >= 5, "{found:?}");
    let starts: Vec<f64> = found.iter().filter(is_right).map(|event| event["at"].as_f64().unwrap()).collect();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("data-name=\"delays\"") && page.contains("data-name=\"event-1\""));
    assert!(page.matches("<td>suspension</td>").count() == found.len() && !page.contains("NaN"));
    let table = std::fs::read_to_string(table).unwrap();
    let sent = |way: &str| table.lines().filter(|line| line.starts_with(way)).count() as u64;
    let counted = |way: &str| result["measured"][way]["sent"].as_u64().unwrap();
    assert_eq!((sent("up,"), sent("down,")), (counted("up"), counted("down")));
    // The paths that it wrote are paths of the relay.
    for path in ["model", "replay"] {
        let args = ["relay", "0=127.0.0.1:9", &paths, "--path", path, "--for", "50 ms"];
        assert!(run(&args).status.success(), "{path}: {}", std::fs::read_to_string(&paths).unwrap());
    }
    assert!(starts.windows(2).all(|two| (1950.0..2050.0).contains(&(two[1] - two[0]))), "{starts:?}");
}

#[test]
fn an_end_that_was_stopped_is_named() {
    for end in ["client", "server"] {
        let server = Server::start("127.0.0.1:0");
        let client = measure(server.address, "5s");
        pause(2500);
        let stopped = if end == "client" { &client } else { &server.child };
        signal(stopped, "STOP");
        pause(300);
        signal(stopped, "CONT");
        let result = result(&finish(client));
        let pauses = result["measured"]["pauses"].as_array().unwrap();
        let is_it = |pause: &&Value| pause["end"] == end && pause["length"].as_f64().unwrap() > 250.0;
        assert_eq!(pauses.iter().filter(is_it).count(), 1, "{end}: {result}");
        assert_eq!(result["measured"]["suspensions"].as_array().unwrap().len(), 0, "{end}: {result}");
    }
}

#[test]
fn ctrl_c_ends_either_end_and_says_what_there_is() {
    let mut server = Server::start("127.0.0.1:0");
    let args = ["probe", &server.address.to_string()];
    let client = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    pause(2500);
    signal(&client, "INT");
    let output = finish(client);
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(said.starts_with("Cannot tell, because ") && said.contains("\n  round trip      median "), "{said}");
    assert!(text(&output.stderr).contains("a datagram every 20ms each way; Ctrl-C ends it"));
    signal(&server.child, "INT");
    let mut line = String::new();
    BufReader::new(server.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ended: Value = serde_json::from_str(&line).unwrap();
    assert!(wait(&mut server.child).success());
    let count = |name: &str| ended["counts"][name].as_u64().unwrap();
    assert!(count("sessions") == 1 && count("sent_bytes") < count("received_bytes"), "{ended}");
}

#[test]
fn a_server_that_was_killed_and_started_again_is_named_and_used() {
    let server = Server::start("127.0.0.1:0");
    let address = server.address;
    let client = measure(address, "6s");
    pause(2000);
    drop(server);
    pause(500);
    let _server = Server::start(&address.to_string());
    let output = finish(client);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = result(&output);
    let gaps = result["without_session"].as_array().unwrap();
    assert!(gaps.len() == 1 && gaps[0]["cause"] == "unreachable" && gaps[0]["until"].is_f64(), "{gaps:?}");
    assert!(result["measured"]["length"].as_f64().unwrap() > 5500.0, "{result}");
}

#[test]
fn a_server_that_stops_for_good_is_named() {
    let server = Server::start("127.0.0.1:0");
    let client = measure(server.address, "1m");
    pause(2000);
    signal(&server.child, "TERM");
    let output = finish(client);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("ended before its time: the server was stopped, "),
        "{}",
        text(&output.stderr)
    );
    let result = result(&output);
    assert_eq!((&result["complete"], &result["without_session"][0]["cause"]), (&false.into(), &"stopped".into()));
    assert!(result["measured"]["round_trip"]["count"].as_u64().unwrap() > 50);
}

/// A socket that answers every datagram so, or not at all.
fn fake(answer: Option<ServerKind>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut buffer, mut out) = ([0; 2000], Vec::new());
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let Some(hello) = FromClient::decode(&buffer[..len]) else { continue };
            if let Some(kind) = answer.clone() {
                FromServer { nonce: hello.nonce, kind }.encode(&mut out);
                socket.send_to(&out, from).unwrap();
            }
        }
    });
    address
}

#[test]
fn without_a_server_of_its_kind_it_says_so() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = [
        (closed, "the port is closed: no probe server runs there"),
        (fake(None), "no answer: no probe server runs there"),
        (fake(Some(ServerKind::Refused(Refusal::Version(1)))), "this program version 1; use the same version"),
        (fake(Some(ServerKind::Refused(Refusal::Full))), "has as many clients as it may"),
        (fake(Some(ServerKind::Refused(Refusal::Interval(Duration::from_millis(100))))), "with a longer --every"),
        (fake(Some(ServerKind::Refused(Refusal::Unknown(9)))), "for reason 9"),
    ];
    for (address, expected) in cases {
        let output = run(&["probe", &address.to_string(), "--for", "2s"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(expected), "{expected}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

/// A server that carries loads, which needs a second port beside its own.
fn carrying(rate: &str) -> Server {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let is_free = |port: u16| UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if address.port().checked_add(1).is_some_and(is_free) {
            return Server::start_with(&address.to_string(), &["--load", rate]);
        }
    }
}

#[test]
fn a_load_shows_the_rate_that_the_server_allows() {
    let server = carrying("20Mbps");
    let place = Place::new();
    let paths = place.arg("path.toml");
    let args = ["--load", "down", "--for", "6s", "--json", "--scenario", &paths];
    let output = run(&[&["probe", &server.address.to_string()], &args[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = result(&output);
    assert!(result["no_load"].is_null(), "{result}");
    let [load] = &result["measured"]["loads"].as_array().unwrap()[..] else { panic!("{result}") };
    let rate = load["rate_bps"].as_f64().unwrap();
    assert!(load["way"] == "down" && (10e6..24e6).contains(&rate), "{load}");
    assert!(load["rpm"].as_u64().unwrap() > 0 && load["largest_datagram"].as_u64().unwrap() >= 1200, "{load}");
    let downloads = &result["answer"]["meaning"][2];
    assert!(downloads.as_str().unwrap().starts_with("downloads: "), "{downloads}");
    let paths = std::fs::read_to_string(paths).unwrap();
    assert_eq!(paths.matches("rate = \"1 Gbps\"").count(), 1, "{paths}");
    // What each timer would have done.
    let timers = result["timers"].as_array().unwrap();
    assert!(
        timers.len() >= 3 && timers[0]["rule"] == "rtt=classic" && timers[0]["set"].as_u64() > Some(50),
        "{result}"
    );
}

/// A relay of the lab before this address, and where it listens.
fn relay(target: SocketAddr, listen: u16, file: &str) -> Option<(Child, SocketAddr)> {
    let ends = format!("127.0.0.1:{listen}={target}");
    let args = ["relay", &ends, file, "--json"];
    let mut child = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    match serde_json::from_str::<Value>(&line) {
        Ok(hello) => Some((child, hello["address"].as_str().unwrap().parse().unwrap())),
        Err(_) => {
            child.wait().unwrap();
            None
        }
    }
}

/// From datagrams over a path to the advice for it: what is measured is fitted, and the lab runs what was fitted.
#[test]
fn advice_is_for_the_path_that_was_measured() {
    let server = carrying("10Mbps");
    let place = Place::new();
    let file = place.arg("true.toml");
    let way = "{ rate = \"1 Mbps\", delay = \"15 ms\", queue = \"300 ms\", mtu = \"1500 B\" }";
    std::fs::write(&file, format!("[path.true]\nup = {way}\ndown = {way}\n")).unwrap();
    let load = SocketAddr::new(server.address.ip(), server.address.port() + 1);
    // The load has the port after that of the measurement, at the relays too; somebody else may have that.
    let (mut first, mut second, address) = loop {
        let (mut first, address) = relay(server.address, 0, &file).unwrap();
        match address.port().checked_add(1).and_then(|next| relay(load, next, &file)) {
            Some((second, _)) => break (first, second, address),
            None => signal(&first, "INT"),
        }
        wait(&mut first);
    };
    let paths = place.arg("path.toml");
    let args = ["--advise", "--for", "20s", "--json", "--quiet", "--scenario", &paths];
    let output = run(&[&["probe", &address.to_string()], &args[..]].concat());
    for relay in [&mut first, &mut second] {
        signal(relay, "INT");
        assert!(wait(relay).success());
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = result(&output);
    assert!(result["no_load"].is_null(), "{result}");
    let loads = result["measured"]["loads"].as_array().unwrap();
    // Relays of a busy machine catch up, and look faster meanwhile.
    let near = |load: &Value| (0.5e6..2.5e6).contains(&load["rate_bps"].as_f64().unwrap());
    assert!(loads.len() == 2 && loads.iter().all(near), "{loads:?}");
    let advice = &result["advice"];
    let sentence = advice["sentence"].as_str().unwrap();
    match advice["advised"].is_null() {
        true => assert!(sentence.starts_with("Nothing to gain"), "{advice}"),
        false => assert!(sentence.contains(" serves this path better than the shipped rules"), "{advice}"),
    }
    assert!(advice["runs"].as_u64() > Some(200) && advice["screened"].as_array().unwrap().len() > 3, "{advice}");
    let paths = std::fs::read_to_string(paths).unwrap();
    assert!(!paths.contains("rate = \"1 Gbps\""), "{paths}");
    // The download takes four seconds at the rate of the model that was written.
    let down = paths.split("[path.model.down]\nrate = \"").nth(1).unwrap();
    let kbps: u64 = down.split(" kbps").next().unwrap().parse().unwrap();
    assert_eq!(advice["download"], (kbps * 500).max(300_000), "{paths}");
}

#[test]
fn an_upload_is_held_to_the_rate_that_the_server_allows() {
    let server = carrying("8Mbps");
    let args = ["--load", "up", "--for", "6s", "--json"];
    let output = run(&[&["probe", &server.address.to_string()], &args[..]].concat());
    let result = result(&output);
    let [load] = &result["measured"]["loads"].as_array().unwrap()[..] else { panic!("{result}") };
    let rate = load["rate_bps"].as_f64().unwrap();
    assert!(load["way"] == "up" && (4e6..10e6).contains(&rate), "{load}");
}

#[test]
fn without_a_server_of_loads_the_rest_is_measured() {
    let server = Server::start("127.0.0.1:0");
    let output = run(&["probe", &server.address.to_string(), "--load", "up", "--for", "9s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("no load: cannot reach") && said.contains("with --load RATE"), "{said}");
    assert!(said.contains("not measured without load") && said.contains("\n  round trip      median "), "{said}");
}

#[test]
fn any_http_server_gives_round_trips() {
    let place = Place::new();
    place.add("a.bin", 1000);
    let (cert, key) = (place.path("cert.pem"), place.path("key.pem"));
    let made = thalweg_files::certificate::Identity::self_signed(&["localhost"]).unwrap();
    std::fs::write(&cert, made.certificate_pem()).unwrap();
    std::fs::write(&key, made.key_pem()).unwrap();
    let args = ["--cert", &place.arg("cert.pem"), "--key", &place.arg("key.pem")];
    let server = common::Server::start(&place.path("site"), &args);
    let url = format!("https://localhost:{}/a.bin", server.address.port());
    let probe = |url: &str| {
        let mut command = thalweg(&["probe", url, "--for", "2s", "--json"]);
        let child = command.env("SSL_CERT_FILE", &cert).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        finish(child.unwrap())
    };
    let output = probe(&url);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = result(&output);
    assert!(result["status"].as_str().unwrap().starts_with("200"), "{result}");
    let time = |name: &str| result[name].as_f64().unwrap();
    assert!(time("answered") > 0.0 && time("answered") <= time("handshake") && time("first_byte") > 0.0, "{result}");
    let trips = &result["round_trip"];
    assert!(trips["count"].as_u64() > Some(50) && trips["p50"].as_f64() < Some(10.0), "{result}");
    // One that is not trusted is named as such.
    let other = common::Server::start(&place.path("site"), &[]);
    let output = probe(&other.url("a.bin"));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(text(&output.stderr).contains("certificate"), "{}", text(&output.stderr));
}

#[test]
fn what_cannot_work_is_said() {
    for (args, code, said) in [
        (&["probe"][..], 2, "HOST"),
        (&["probe", "127.0.0.1", "--every", "0"], 2, "no unit"),
        (&["probe", "127.0.0.1", "--every", "0ms"], 2, "from 1 ms to 1 s"),
        (&["probe", "127.0.0.1", "--every", "10us"], 2, "from 1 ms to 1 s"),
        (&["probe", "127.0.0.1", "--for", "3"], 2, "no unit"),
        (&["probe", "127.0.0.1", "--load", "both", "--for", "9s"], 2, "of 10 s or more"),
        (&["probe", "127.0.0.1", "--load", "sideways"], 2, "sideways"),
        (&["probe", "server", "--load", "7"], 2, "a rate"),
        (&["probe", "server", "--load", "7kbps"], 2, "100 kbps or more"),
        (&["probe", "https://localhost", "--load", "up"], 2, "--load needs a probe server"),
        (&["probe", "127.0.0.1", "--advise", "--for", "9s"], 2, "--advise needs a measurement of 10 s or more"),
        (&["probe", "HTTPS://localhost", "--csv", "a.csv"], 2, "--csv needs a probe server"),
        (&["probe", "http://localhost"], 2, "or https://HOST"),
        (&["probe", ""], 2, "HOST is empty"),
        (&["probe", "https://"], 2, "https://"),
        (&["probe", "127.0.0.1:0"], 2, "port 0 receives nothing"),
        (&["probe", "127.0.0.1", "--report", "/nowhere/at/all.html"], 1, "cannot write /nowhere/at/all.html"),
        (&["probe", "127.0.0.1", "--csv", "/"], 1, "cannot write /"),
        (&["probe", "server", "--listen", "192.0.2.1:9"], 1, "cannot listen on 192.0.2.1:9"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_no_success() {
    let server = Server::start("127.0.0.1:0");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let args = ["probe", &server.address.to_string(), "--for", "1s", "--json"];
    let output = thalweg(&args).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to standard output"), "{}", text(&output.stderr));
}

/// Joins the two ends of an emulated path by a tunnel, so that other networks lie behind either: `$1` is the own
/// address on the path, `$2` the other, `$3` the own address in the tunnel.
#[cfg(target_os = "linux")]
const TUNNEL: &str = "ip link add tunnel0 type vxlan id 7 local $1 remote $2 dstport 4789 dev path0
ip addr add $3/24 dev tunnel0; ip link set tunnel0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
";

/// Makes a namespace that is reached through this one, which is its router: `$4` is the network of both.
#[cfg(target_os = "linux")]
const NEIGHBOR: &str = "unshare -n sleep 100 & neighbor=$!
sleep 0.3
ip link add near0 type veth peer name far0 netns $neighbor
ip addr add $4.1/24 dev near0; ip link set near0 up
nsenter -t $neighbor -n sh -c \"ip addr add $4.2/24 dev far0; ip link set lo up; ip link set far0 up
    ip route add default via $4.1\"
inside() { nsenter -t $neighbor -n \"$@\"; }
";

/// Three namespaces in a row, of which the emulated path joins the first two, or the last two.
#[cfg(target_os = "linux")]
#[test]
fn the_first_hop_is_told_from_what_lies_beyond() {
    use std::io::Write as _;

    let program = env!("CARGO_BIN_EXE_thalweg");
    let able = format!("{TUNNEL}ip link show tunnel0 >/dev/null && unshare -n true && command -v nsenter >/dev/null");
    let place = Place::new();
    let script = |name: &str, body: &str| {
        std::fs::write(place.path(name), body).unwrap();
        place.arg(name)
    };
    let able = script("able.sh", &able);
    let emulate = |server: &str, command: &[&str]| {
        let server = format!("sh {server}");
        let fixed = ["emulate", "--preset", "suspended", "--quiet", "--server", &server, "--"];
        run(&[&fixed[..], command].concat())
    };
    let tried = emulate("-c 'sleep 30'", &["sh", &able, "10.11.0.1", "10.12.0.1", "10.20.0.1"]);
    if !tried.status.success() {
        let name = "the_first_hop_is_told_from_what_lies_beyond";
        let _ = write!(std::io::stderr(), "\nskipped: {name}: {}\n", text(&tried.stderr));
        return;
    }
    let serve = format!("{program} probe server --listen 0.0.0.0:4435");
    let probe = |host: &str| format!("{program} probe {host} --for 14s --json --quiet");
    let router = script("router.sh", &format!("{TUNNEL}{NEIGHBOR}inside {serve}"));
    let plain = script("plain.sh", &format!("{TUNNEL}ip route add 10.10.0.0/24 via 10.20.0.1\nexec {serve}"));
    let first = format!("{TUNNEL}ip route add 10.13.0.0/24 via 10.20.0.2\nsleep 1; exec {}", probe("10.13.0.2"));
    let beyond = format!("{TUNNEL}{NEIGHBOR}sleep 1; inside {}", probe("10.20.0.2"));
    let (first, beyond) = (script("first.sh", &first), script("beyond.sh", &beyond));
    let there = ["10.12.0.1", "10.11.0.1", "10.20.0.2", "10.13.0"].join(" ");
    let here = ["10.11.0.1", "10.12.0.1", "10.20.0.1", "10.10.0"];
    for (server, command, cause, hop) in
        [(router, first, "first-hop", "10.20.0.2"), (plain, beyond, "beyond", "10.10.0.1")]
    {
        let output = emulate(&format!("{server} {there}"), &[&["sh", &command][..], &here].concat());
        let result = result(&output);
        assert_eq!(
            (&result["answer"]["cause"], &result["first_hop"]["address"]),
            (&cause.into(), &hop.into()),
            "{result}"
        );
    }
}
