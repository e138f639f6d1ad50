//! Files that arrive: over HTTP/3, over TCP when UDP is blocked, uploads, trust, traces.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::net::{TcpListener, TcpStream, UdpSocket};

use common::{Place, Server, json_lines, run, text};
#[cfg(target_os = "linux")]
use common::{thalweg, until};

#[test]
fn files_of_all_sizes_arrive_whole_over_http3() {
    let place = Place::new();
    let sizes = [("empty", 0), ("one", 1), ("page", 10_000), ("big.bin", 5_000_000)];
    let sums: Vec<_> = sizes.iter().map(|(name, size)| place.add(name, *size)).collect();
    let server = Server::start(&place.path("site"), &[]);
    let urls: Vec<_> = sizes.iter().map(|(name, _)| server.url(name)).collect();
    let out = place.arg("");
    let mut args = vec!["get", "--quic-only", "--json", "--pin", &server.pin, "--dir", &out];
    args.extend(urls.iter().map(String::as_str));
    let done = run(&args);
    assert!(done.status.success(), "{}", text(&done.stderr));
    for ((name, size), sum) in sizes.iter().zip(sums) {
        assert_eq!(place.sha256(name), sum, "{name}");
        assert_eq!(place.size(name), Some(*size));
        assert_eq!(place.size(&format!("{name}.part")), None);
    }
    let reports = json_lines(&done.stdout);
    assert_eq!(reports.len(), sizes.len());
    for report in &reports {
        assert_eq!(report["ok"], true);
        assert_eq!(report["protocol"], "h3");
        assert!(report["handshake_ms"].as_f64().unwrap() > 0.0);
        assert!(report["connection"]["mtu"].as_u64().unwrap() >= 1200);
        assert!(report["connection"]["max_window"].as_u64().unwrap() > 0);
        assert!(report["connection"]["packets_spuriously_lost"].is_u64());
    }
}

#[test]
fn a_hundred_megabytes_arrive_whole() {
    let place = Place::new();
    let sum = place.add("large.bin", 100_000_000);
    let server = Server::start(&place.path("site"), &[]);
    let out = place.arg("large.bin");
    let done = run(&["get", "--quic-only", "-q", "--pin", &server.pin, "-o", &out, &server.url("large.bin")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(place.sha256("large.bin"), sum);
}

#[test]
fn a_server_that_asks_for_proof_of_address_is_given_it() {
    let place = Place::new();
    let sum = place.add("some", 100_000);
    let server = Server::start(&place.path("site"), &["--retry", "always", "--no-tcp"]);
    let out = place.arg("some");
    let done = run(&["get", "--pin", &server.pin, "-o", &out, &server.url("some")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(place.sha256("some"), sum);
}

#[test]
fn ipv6_and_names_work_too() {
    let place = Place::new();
    let sum = place.add("some", 100_000);
    let server = Server::start_at("[::]:0", &place.path("site"), &[]);
    let port = server.address.port();
    for host in ["[::1]", "127.0.0.1", "localhost"] {
        let out = place.arg(&format!("from-{}", host.len()));
        let url = format!("https://{host}:{port}/some");
        let done = run(&["get", "--quic-only", "--pin", &server.pin, "-o", &out, &url]);
        assert!(done.status.success(), "{host}: {}", text(&done.stderr));
        assert_eq!(thalweg_cli::content::sha256_file(std::path::Path::new(&out)).unwrap(), sum, "{host}");
    }
}

#[test]
fn every_built_policy_carries_a_file() {
    let place = Place::new();
    let sum = place.add("some", 1_000_000);
    for policies in ["controller=new-reno, start=standard", "pacing=off, undo=off", "controller=cubic, start=hystart++"]
    {
        let server = Server::start(&place.path("site"), &["--policies", policies]);
        let out = place.arg("some");
        let url = server.url("some");
        let done = run(&["get", "--quic-only", "--policies", policies, "--pin", &server.pin, "-o", &out, &url]);
        assert!(done.status.success(), "{policies}: {}", text(&done.stderr));
        assert_eq!(place.sha256("some"), sum);
    }
}

#[test]
fn saved_paths_are_kept_under_either_name_of_the_option_and_the_former_one_says_so() {
    let place = Place::new();
    place.add("some", 100_000);
    let server = Server::start(&place.path("site"), &["--policies", "resume=careful"]);
    let (out, file, url) = (place.arg("some"), place.arg("paths"), server.url("some"));
    let get = |more: &[&str]| {
        run(&[&["get", "--quic-only", "--pin", &server.pin, "-o", &out, &url, "--policies", "resume=careful"], more]
            .concat())
    };
    for (option, more, is_said) in
        [("--saved-paths", None, false), ("--known-paths", None, true), ("--known-paths", Some("--quiet"), false)]
    {
        let _ = std::fs::remove_file(&file);
        let options: Vec<&str> = [option, &file].into_iter().chain(more).collect();
        let done = get(&options);
        let said = text(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert_eq!(said.matches("--known-paths is now called --saved-paths").count(), usize::from(is_said), "{said}");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("thalweg saved paths 1\n"), "{option}");
    }
    let twice = get(&["--saved-paths", &file, "--known-paths", &file]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("--known-paths is now called --saved-paths"), "{}", text(&twice.stderr));
    for asked in [&["get", "--help"], &["man", "get"], &["completions", "bash"], &["completions", "zsh"]] {
        let told = run(asked).stdout;
        let told = text(&told).replace('\\', "");
        assert!(told.contains("--saved-paths") && !told.contains("--known-paths"), "{asked:?}: {told}");
    }
}

#[test]
fn a_file_goes_to_stdout() {
    let place = Place::new();
    place.add("some", 100_000);
    let server = Server::start(&place.path("site"), &[]);
    let done = run(&["get", "--quic-only", "--pin", &server.pin, "-o", "-", &server.url("some")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(done.stdout, std::fs::read(place.path("site/some")).unwrap());
}

#[test]
fn the_access_log_tells_protocol_and_bytes() {
    let place = Place::new();
    place.add("some", 1000);
    let mut server = Server::start(&place.path("site"), &[]);
    let out = place.arg("some");
    for (way, protocol) in [("--quic-only", "HTTP/3"), ("--tcp-only", "HTTP/2")] {
        let done = run(&["get", way, "--pin", &server.pin, "-o", &out, &server.url("some")]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let logged = server.logged();
        assert_eq!((&logged["protocol"], &logged["bytes"]), (&protocol.into(), &1000.into()));
    }
}

#[test]
fn an_untrusted_certificate_is_refused_and_the_message_says_what_to_do() {
    let place = Place::new();
    place.add("some", 1000);
    let cert = place.arg("cert.pem");
    let server = Server::start(&place.path("site"), &["--save-cert", &cert]);
    let out = place.arg("some");
    let url = server.url("some");
    let refused = run(&["get", "-o", &out, &url]);
    assert_eq!(refused.status.code(), Some(1));
    let message = text(&refused.stderr);
    assert!(message.contains("not trusted") && message.contains("--ca"), "{message}");
    assert!(message.contains(&server.pin), "{message}");
    assert_eq!(place.size("some"), None);
    for trust in [vec!["--insecure"], vec!["--ca", &cert], vec!["--pin", &server.pin]] {
        let mut args = vec!["get", "--quic-only", "-o", &out, &url];
        args.extend(&trust);
        let done = run(&args);
        assert!(done.status.success(), "{trust:?}: {}", text(&done.stderr));
    }
    let other = place.arg("other.pem");
    let _second = Server::start(&place.path("site"), &["--save-cert", &other]);
    let refused = run(&["get", "-o", &out, "--ca", &other, &url]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn uploads_are_refused_unless_allowed() {
    let place = Place::new();
    let sum = place.add("source", 300_000);
    let source = place.arg("site/source");
    let closed = Server::start(&place.path("site"), &[]);
    let refused = run(&["put", "--insecure", &source, &closed.url("stored")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("405"), "{}", text(&refused.stderr));
    assert_eq!(place.size("site/stored"), None);

    std::fs::create_dir(place.path("drop")).unwrap();
    let open = Server::start(&place.path("drop"), &["--allow-upload", "--max-upload", "1 MB"]);
    let done = run(&["put", "--insecure", "--quic-only", "--json", &source, &open.url("stored")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(json_lines(&done.stdout)[0]["protocol"], "h3");
    assert_eq!(place.sha256("drop/stored"), sum);

    place.add("too-large", 2_000_000);
    let refused = run(&["put", "--insecure", &place.arg("site/too-large"), &open.url("large")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("413"), "{}", text(&refused.stderr));
    assert_eq!(place.size("drop/large"), None);
}

/// Bytes in files below `directory` that a process has open, named or not.
#[cfg(target_os = "linux")]
fn open_bytes(process: &std::process::Child, directory: &std::path::Path) -> u64 {
    let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", process.id())) else {
        return 0;
    };
    let inside = |path: &std::path::PathBuf| std::fs::read_link(path).is_ok_and(|real| real.starts_with(directory));
    let size = |path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    open.flatten().map(|entry| entry.path()).filter(inside).map(size).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_killed_in_the_middle_of_an_upload_leaves_nothing() {
    let place = Place::new();
    let source = std::fs::File::create(place.path("source")).unwrap();
    source.set_len(4 << 30).unwrap();
    std::fs::create_dir_all(place.path("drop/below")).unwrap();
    let drop_dir = std::fs::canonicalize(place.path("drop")).unwrap();
    let names = || {
        let entries = std::fs::read_dir(drop_dir.join("below")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut server = Server::start(&drop_dir, &["--allow-upload"]);
    let url = server.url("below/stored");
    let source = place.arg("source");
    let mut client = thalweg(&["put", "--insecure", "--quic-only", &source, &url])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("the upload to be written", || open_bytes(&server.child, &drop_dir) > 1 << 20);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    // Where the file system has no files without a name, the next server cleans up.
    let abandoned = drop_dir.join("below/.thalweg-upload-0123456789abcdef01234567");
    std::fs::write(&abandoned, "from a server killed elsewhere").unwrap();
    let next = Server::start(&drop_dir, &["--allow-upload", "--hidden"]);
    until("abandoned uploads to be removed", || names().is_empty());
    let answer = run(&["get", "--insecure", "--dir", &place.arg(""), &next.url("below/stored")]);
    assert!(!answer.status.success());
}

/// Passes TCP connections on to `target`, for as long as the test runs.
fn forward_tcp(listener: TcpListener, target: std::net::SocketAddr) {
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(target).unwrap();
            for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
}

#[test]
fn a_network_without_udp_is_named_and_tcp_is_used() {
    let place = Place::new();
    let sum = place.add("some", 200_000);
    let server = Server::start(&place.path("site"), &[]);
    for silent in [true, false] {
        // TCP gets through; UDP to the same port is swallowed (silent) or refused.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _swallow = silent.then(|| UdpSocket::bind(address).unwrap());
        forward_tcp(listener, server.address);
        let url = Server::url_at(address, "some");
        let out = place.arg("some");
        let done = run(&["get", "--json", "--quic-patience", "300 ms", "--pin", &server.pin, "-o", &out, &url]);
        let message = text(&done.stderr);
        assert!(done.status.success(), "{message}");
        let reason = if silent { "UDP seems to be blocked" } else { "refuses UDP" };
        assert!(message.contains(reason) && message.contains("TCP"), "{message}");
        assert_eq!(json_lines(&done.stdout)[0]["protocol"], "h2");
        assert_eq!(place.sha256("some"), sum);
        std::fs::remove_file(&out).unwrap();

        let refused = run(&["get", "--quic-only", "--connect-timeout", "2 s", "--pin", &server.pin, "-o", &out, &url]);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
        assert_eq!(place.size("some"), None);
    }
}

#[test]
fn traces_of_both_ends_are_written_and_explained() {
    let place = Place::new();
    place.add("some", 3_000_000);
    let traces = place.arg("traces");
    let server = Server::start(&place.path("site"), &["--qlog", &traces]);
    let out = place.arg("some");
    let mut get = common::thalweg(&["get", "--quic-only", "--pin", &server.pin, "-o", &out, &server.url("some")]);
    // The client by the environment, the server by its option.
    let done = get.env("QLOGDIR", &traces).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let named = |ending: &str| {
        std::fs::read_dir(&traces)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_str().unwrap().ends_with(ending))
    };
    common::until("both traces", || named("_client.sqlog").is_some() && named("_server.sqlog").is_some());
    let (client, server_trace) = (named("_client.sqlog").unwrap(), named("_server.sqlog").unwrap());
    let name =
        |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().split('_').next().unwrap().to_owned();
    assert_eq!(name(&client), name(&server_trace), "both ends name the trace after the same connection ID");

    let page = run(&["qlog", client.to_str().unwrap()]);
    assert!(page.status.success(), "{}", text(&page.stderr));
    let page = text(&page.stdout);
    for part in ["client, ALPN h3", "handshake done after", "RTT", "lost", "MTU"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let mut stats = run(&["qlog", "--json", server_trace.to_str().unwrap()]);
    common::until("the end of the server's trace", || {
        stats = run(&["qlog", "--json", server_trace.to_str().unwrap()]);
        json_lines(&stats.stdout)[0]["sent"]["stream_bytes"].as_u64().unwrap() >= 3_000_000
    });
    let stats = &json_lines(&stats.stdout)[0];
    assert_eq!(stats["vantage_point"], "server");
    assert!(!stats["phases"].as_array().unwrap().is_empty());
    assert!(!stats["limits"].as_array().unwrap().is_empty());
    assert!(stats["rtt"]["min_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn tls_secrets_are_logged_when_asked() {
    let place = Place::new();
    place.add("some", 1000);
    let server = Server::start(&place.path("site"), &[]);
    let (out, keys) = (place.arg("some"), place.path("keys.log"));
    let mut get = common::thalweg(&["get", "--quic-only", "--pin", &server.pin, "-o", &out, &server.url("some")]);
    let done = get.env("SSLKEYLOGFILE", &keys).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let keys = std::fs::read_to_string(keys).unwrap();
    assert!(keys.contains("CLIENT_HANDSHAKE_TRAFFIC_SECRET") && keys.contains("SERVER_TRAFFIC_SECRET_0"));
}
