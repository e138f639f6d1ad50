use ::qlog::events::EventType;
use ::qlog::events::quic::QuicEventType;
use ::qlog::reader::{Event, QlogSeqReader};

use super::*;
use crate::engine::SimEngine;
use crate::metric::Scope;
use crate::testing::Toy;

const TEXT: &str = r#"
title = "t"
question = "q?"
time_limit = "20 s"
[path.p]
down = { rate = "10 Mbps", delay = "10 ms", loss = "2 %" }
up = { rate = "10 Mbps", delay = "10 ms" }
[[flow]]
transfer = { download = "200 kB" }
[vary]
"flow.0.policies.start" = ["standard", "peak-bandwidth"]
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("t.toml", text, Path::new(""), &SimEngine::default().stacks()).unwrap()
}

fn recorded(scenario: &Scenario, point: usize, seed: u64) -> (RunRecord, ManifestRun) {
    let record = SimEngine::default().run(&scenario.points[point].world, seed, true).record;
    let (wire_hash, decisions_hash) = (record.wire_hash.clone(), record.decisions_hash.clone());
    (record, ManifestRun { point, seed, wire_hash, decisions_hash, failed: None })
}

/// A datagram of a capture.
#[derive(Debug)]
struct Captured {
    interface: usize,
    at: u64,
    is_sent: bool,
    packet: Vec<u8>,
}

/// A capture that has been read back.
#[derive(Debug, Default)]
struct Capture {
    interfaces: Vec<String>,
    secrets: String,
    datagrams: Vec<Captured>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

/// The options of a block, by their codes.
fn options(mut bytes: &[u8]) -> BTreeMap<usize, Vec<u8>> {
    let mut options = BTreeMap::new();
    while half(bytes, 0) != 0 {
        let length = half(bytes, 2);
        options.insert(half(bytes, 0), bytes[4..4 + length].to_vec());
        bytes = &bytes[4 + length.next_multiple_of(4)..];
    }
    assert_eq!(bytes, [0; 4], "nothing follows the end of the options");
    options
}

/// Reads a capture, and checks each block by the rules of draft-ietf-opsawg-pcapng.
fn read(path: &Path) -> Capture {
    let bytes = fs::read(path).unwrap();
    let mut capture = Capture::default();
    let mut rest = &bytes[..];
    let mut newest = 0;
    for number in 0.. {
        if rest.is_empty() {
            break;
        }
        let (kind, length) = (word(rest, 0), word(rest, 4) as usize);
        assert!(length % 4 == 0 && length >= 12 && word(rest, length - 4) as usize == length);
        let body = &rest[8..length - 4];
        assert_eq!(kind == 0x0A0D_0D0A, number == 0, "a section begins the file");
        match kind {
            0x0A0D_0D0A => assert_eq!((word(body, 0), word(body, 4), body.len()), (0x1A2B_3C4D, 1, 16)),
            1 => {
                assert_eq!((half(body, 0), word(body, 4)), (101, 0));
                let options = options(&body[8..]);
                assert_eq!(options[&9], [9]);
                capture.interfaces.push(String::from_utf8(options[&2].clone()).unwrap());
            }
            10 => {
                assert_eq!(word(body, 0), 0x544C_534B);
                assert!(body.len() - 8 - (word(body, 4) as usize) < 4);
                capture.secrets += core::str::from_utf8(&body[8..8 + word(body, 4) as usize]).unwrap();
            }
            6 => {
                let (interface, length) = (word(body, 0) as usize, word(body, 12) as usize);
                assert!(interface < capture.interfaces.len() && word(body, 16) as usize == length);
                let at = u64::from(word(body, 4)) << 32 | u64::from(word(body, 8));
                assert!(at >= newest);
                newest = at;
                let options = options(&body[20 + length.next_multiple_of(4)..]);
                let is_sent = match options[&2][..] {
                    [2, 0, 0, 0] => true,
                    [1, 0, 0, 0] => false,
                    ref flags => panic!("{flags:?}"),
                };
                capture.datagrams.push(Captured { interface, at, is_sent, packet: body[20..20 + length].to_vec() });
            }
            other => panic!("block type {other}"),
        }
        rest = &rest[length..];
    }
    capture
}

/// The records of a qlog file, counted by name.
fn events(path: &Path) -> BTreeMap<String, usize> {
    let reader = QlogSeqReader::new(Box::new(std::io::Cursor::new(fs::read(path).unwrap()))).unwrap();
    let mut events = BTreeMap::new();
    for event in reader {
        let name = match event {
            Event::Qlog(event) => match EventType::from(&event.data) {
                EventType::QuicEventType(QuicEventType::PacketSent) => "sent".to_owned(),
                EventType::QuicEventType(QuicEventType::PacketReceived) => "received".to_owned(),
                other => format!("{other:?}"),
            },
            Event::Json(event) => {
                // The crate knows neither every event of the drafts nor every frame, such as ACK_FREQUENCY.
                assert!(event.name.starts_with("thalweg:") || event.name.starts_with("quic:"), "{}", event.name);
                match event.name.as_str() {
                    "quic:packet_sent" => "sent".to_owned(),
                    "quic:packet_received" => "received".to_owned(),
                    _ => event.name,
                }
            }
        };
        *events.entry(name).or_default() += 1;
    }
    events
}

#[test]
fn a_run_is_made_again_with_its_traces() {
    let scenario = scenario(TEXT);
    let (record, run) = recorded(&scenario, 1, 7);
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("a/b");
    let traced = trace(&scenario, &SimEngine::default(), (1, 7), Some(&run), &folder).unwrap();
    assert_eq!(traced.record, record, "whoever watches changes nothing");
    assert!(traced.not_captured.is_empty());
    let [capture, client, server] = &traced.files[..] else { panic!("{:?}", traced.files) };
    assert_eq!(*capture, folder.join("packets.pcapng"));
    for (path, side) in [(client, "_client.sqlog"), (server, "_server.sqlog")] {
        assert!(path.starts_with(&folder) && path.to_string_lossy().ends_with(side), "{path:?}");
    }

    let capture = read(capture);
    assert_eq!(capture.interfaces, ["flow 0 client", "flow 0 server"]);
    let count = |interface, is_sent| {
        capture.datagrams.iter().filter(|it| (it.interface, it.is_sent) == (interface, is_sent)).count() as f64
    };
    let link = |name: &str, metric: &str| record.get(Scope::Link, name, metric)[0];
    // What arrives is what the links deliver; what is sent and does not arrive is lost, or on its way at the end.
    assert_eq!(count(1, false), link("p.up", "link_packets"));
    assert_eq!(count(0, false), link("p.down", "link_packets"));
    assert!(link("p.down", "link_dropped") > 0.0, "the scenario loses nothing");
    assert!(count(1, true) >= link("p.down", "link_packets") + link("p.down", "link_dropped"));
    assert!(count(0, true) >= link("p.up", "link_packets"));

    // Packets share datagrams, and every datagram has one.
    let (client, server) = (events(client), events(server));
    for (events, interface) in [(&client, 0), (&server, 1)] {
        let (sent, left) = (events["sent"] as f64, count(interface, true));
        assert!(sent >= left && sent <= left + 9.0, "{sent} in {left} on {interface}: {events:?}");
        let (received, arrived) = (events["received"] as f64, count(interface, false));
        assert!(received >= arrived - 1.0, "{received} of {arrived} on {interface}: {events:?}");
    }
    assert_eq!(server["sent"] as f64, record.get(Scope::Flow, "flow 0", "packets_sent")[0]);
}

#[test]
fn packets_have_headers_and_secrets_come_before_what_they_protect() {
    let scenario = scenario(TEXT);
    let directory = tempfile::tempdir().unwrap();
    let traced = trace(&scenario, &SimEngine::default(), (0, 1), None, directory.path()).unwrap();
    let capture = read(&traced.files[0]);
    let (client, server) = ([10, 0, 0, 1, 0xc3, 0x50], [198, 18, 0, 1, 0x01, 0xbb]);
    for Captured { interface, is_sent, packet, .. } in &capture.datagrams {
        let big = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        assert_eq!((packet[0], packet[9], big(2), big(24)), (0x45, 17, packet.len(), packet.len() - 20));
        let sum: u32 = (0..20).step_by(2).map(|at| big(at) as u32).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header's checksum");
        let (from, to) = if (*interface == 0) == *is_sent { (client, server) } else { (server, client) };
        assert_eq!([&packet[12..16], &packet[20..22]].concat(), from);
        assert_eq!([&packet[16..20], &packet[22..24]].concat(), to);
    }
    // The client begins, and half a round trip later, with its host's delay, the server sees it.
    assert!(capture.datagrams[0].interface == 0 && capture.datagrams[0].is_sent);
    let seen = capture.datagrams.iter().find(|it| it.interface == 1).unwrap();
    assert!(!seen.is_sent && (10_000_000..13_000_000).contains(&(seen.at - capture.datagrams[0].at)), "{}", seen.at);
    let mut labels: Vec<&str> = Vec::new();
    for line in capture.secrets.lines() {
        let [label, random, secret] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(random.len() == 64 && secret.len() == 64, "AES-128-GCM with SHA-256: {line}");
        labels.push(label);
    }
    labels.sort_unstable();
    let expected = [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
    ];
    assert_eq!(labels, expected, "each once");
    // The secrets of the handshake come before the server's first answer.
    let bytes = fs::read(&traced.files[0]).unwrap();
    let find = |what: &[u8]| bytes.windows(what.len()).position(|window| window == what).unwrap();
    let answer = capture.datagrams.iter().find(|it| it.interface == 1 && it.is_sent).unwrap();
    assert!(find(b"SERVER_HANDSHAKE_TRAFFIC_SECRET") < find(&answer.packet));
}

#[test]
fn another_run_than_the_recorded_is_an_error() {
    let scenario = scenario(TEXT);
    let (_, mut run) = recorded(&scenario, 0, 1);
    let right = core::mem::replace(&mut run.wire_hash, "0123".to_owned());
    let directory = tempfile::tempdir().unwrap();
    let error = trace(&scenario, &SimEngine::default(), (0, 1), Some(&run), directory.path()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(&format!("wire hash is {right}, the recorded one is 0123")), "{said}");
    assert!(said.contains("came out differently") && said.contains("are of the new run"), "{said}");
    // What was decided may have other names by now; the packets are the same.
    (run.wire_hash, run.decisions_hash) = (right, "4567".to_owned());
    trace(&scenario, &SimEngine::default(), (0, 1), Some(&run), directory.path()).unwrap();
}

#[test]
fn flows_are_kept_apart_and_tcp_is_left_out() {
    let more = "[[flow]]\nname = \"a/b\"\nstart = \"1 s\"\ntransfer = { upload = \"20 kB\" }\n[[flow]]\nname = \"t\"\nstack = \"tcp\"\n\
                transfer = { download = \"20 kB\" }\n[vary]";
    let scenario = scenario(&TEXT.replace("[vary]", more));
    let directory = tempfile::tempdir().unwrap();
    let traced = trace(&scenario, &SimEngine::default(), (0, 1), None, directory.path()).unwrap();
    assert_eq!(traced.not_captured, ["t"]);
    let folders: BTreeSet<_> = traced.files[1..]
        .iter()
        .map(|file| file.parent().unwrap().strip_prefix(directory.path()).unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(folders.into_iter().collect::<Vec<_>>(), ["0-flow-0", "1-a-b"]);
    assert_eq!(traced.files.len(), 1 + 2 * 2);
    let capture = read(&traced.files[0]);
    assert_eq!(capture.interfaces, ["flow 0 client", "flow 0 server", "a/b client", "a/b server"]);
    let of_second = capture.datagrams.iter().filter(|it| it.interface > 1);
    let addresses = of_second.clone().map(|it| [&it.packet[12..16], &it.packet[16..20]]);
    let (client, server) = ([10, 0, 0, 2], [198, 18, 0, 2]);
    assert!(of_second.count() > 10);
    addresses.for_each(|pair| assert!(pair == [client, server] || pair == [server, client], "{pair:?}"));
}

#[test]
fn what_cannot_be_traced_says_why() {
    let scenario = scenario(TEXT);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = trace(&scenario, &SimEngine::default(), (0, 1), None, &file).unwrap_err().to_string();
    assert!(error.contains("cannot make") && error.contains("file"), "{error}");
    fs::create_dir_all(directory.path().join("taken").join(CAPTURE)).unwrap();
    let error = trace(&scenario, &SimEngine::default(), (0, 1), None, &directory.path().join("taken")).unwrap_err();
    assert!(error.to_string().contains("cannot write") && error.to_string().contains(CAPTURE), "{error}");
    let error = trace(&scenario, &SimEngine::default(), (2, 1), None, &file).unwrap_err().to_string();
    assert!(error.contains("no point 2"), "{error}");
    let error = trace(&scenario, &Toy::default(), (0, 1), None, &file).unwrap_err();
    assert!(matches!(error, TraceError::Unsupported));
}
