//! `thalweg emulate`: programs in namespaces that an emulated path joins. Where the system allows no namespaces or
//! devices, these tests are skipped by name.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write as _;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Place, finish, run, signal, text, thalweg, until};
use serde_json::Value;

/// Whether emulation is possible here; says so, past the harness's capture, if it is not.
fn possible(test: &str) -> bool {
    let tried = run(&["emulate", "--preset", "broadband", "--quiet", "--", "true"]);
    let said = text(&tried.stderr);
    if tried.status.code() == Some(125) && (said.contains("cannot make namespaces") || said.contains("network device"))
    {
        let _ = write!(std::io::stderr(), "\nskipped: {test}: {said}\n");
        return false;
    }
    true
}

/// `thalweg emulate` with this path, the report in `report.json`.
fn emulate(place: &Place, path: &str, options: &[&str], command: &[&str]) -> Output {
    finish(start(place, path, options, command))
}

fn start(place: &Place, path: &str, options: &[&str], command: &[&str]) -> Child {
    fs::write(place.path("link.toml"), path).unwrap();
    let (link, json) = (place.arg("link.toml"), place.arg("report.json"));
    let mut args = vec!["emulate", &link, "--json", &json];
    args.extend(options);
    args.push("--");
    args.extend(command);
    thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn report(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("report.json")).unwrap()).unwrap()
}

/// 10 Mbps down, 5 Mbps up, 20 ms each way.
const LINK: &str = r#"
[path.p]
up = { rate = "5 Mbps", delay = "20 ms", queue = "100 ms" }
down = { rate = "10 Mbps", delay = "20 ms", queue = "100 ms" }
"#;

/// Nothing but a delay of 10 ms each way.
const DELAY: &str = r#"
[path.p]
up = { rate = "unlimited", delay = "10 ms" }
down = { rate = "unlimited", delay = "10 ms" }
"#;

#[test]
fn the_exit_status_is_that_of_the_command_or_a_shells() {
    if !possible("the_exit_status_is_that_of_the_command_or_a_shells") {
        return;
    }
    let place = Place::new();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["true"], 0, "VALID"),
        (&["sh", "-c", "exit 37"], 37, ""),
        (&["sh", "-c", "kill -9 $$"], 137, ""),
        (&["no-such-program-anywhere"], 127, "cannot run no-such-program-anywhere"),
        (&["/etc/hosts"], 126, "cannot run /etc/hosts"),
        // What is left running ends too, and its output with it.
        (&["sh", "-c", "sleep 1000 & exit 3"], 3, ""),
        (&["sh", "-c", "grep -c server /etc/hosts; echo $THALWEG_SERVER $THALWEG_SERVER6; cat"], 0, ""),
    ];
    for (command, status, said) in cases {
        let done = emulate(&place, DELAY, &[], command);
        let stderr = text(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{command:?}: {stderr}");
        assert!(stderr.contains(said), "{command:?}: {stderr}");
        if command.len() == 3 && command[2].contains("THALWEG") {
            assert_eq!(text(&done.stdout), "2\n10.12.0.1 fd00:12::1\n");
        }
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let place = Place::new();
    let cases: [(&str, &[&str], &str); 4] = [
        ("[path.p]\nup = { rate = \"5 Mps\", delay = \"1 ms\" }", &[], "path.p.up.rate"),
        ("title = \"none\"", &[], "needs path"),
        (LINK, &["--path", "q"], "has no path \"q\"; it has p"),
        (LINK, &["--nonsense"], "--nonsense"),
    ];
    for (path, options, said) in cases {
        let done = emulate(&place, path, options, &["true"]);
        assert_eq!(done.status.code(), Some(125));
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
    let done = run(&["emulate", &place.arg("absent.toml"), "--", "true"]);
    assert_eq!(done.status.code(), Some(125));
    assert!(text(&done.stderr).contains("cannot read this file"), "{}", text(&done.stderr));
}

/// The command lines of all processes in which this text stands, the emulator's among them.
fn processes_with(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(mark)).collect()
}

#[test]
fn a_killed_emulator_leaves_nothing_behind() {
    if !possible("a_killed_emulator_leaves_nothing_behind") {
        return;
    }
    let place = Place::new();
    for round in 0..6u32 {
        // Nobody else sleeps for just so long.
        let mark = format!("7{}.{round}", std::process::id());
        let server = format!("sleep {mark} & setsid sleep {mark} & sleep {mark}");
        let script = format!("sleep {mark} & setsid sleep {mark} & echo > {}; sleep {mark}", place.arg("begun"));
        let _ = fs::remove_file(place.path("begun"));
        let mut emulator = start(&place, DELAY, &["--quiet", "--server", &server], &["sh", "-c", &script]);
        // The last rounds kill it while it is at it.
        if round < 2 {
            until("COMMAND", || place.path("begun").exists());
            let sleeps = |line: &&String| line.trim_end() == format!("sleep {mark}");
            until("all of them", || processes_with(&mark).iter().filter(sleeps).count() == 6);
        } else {
            std::thread::sleep(Duration::from_millis(12 * u64::from(round - 2)));
        }
        emulator.kill().unwrap();
        emulator.wait().unwrap();
        until("the end of everything", || processes_with(&mark).is_empty());
    }
}

#[test]
fn signals_are_passed_on_and_the_second_one_kills() {
    if !possible("signals_are_passed_on_and_the_second_one_kills") {
        return;
    }
    let place = Place::new();
    let begun = place.arg("begun");
    let obedient = format!("trap 'exit 5' TERM; echo > {begun}; while :; do sleep 0.05; done");
    let stubborn = format!("trap '' TERM INT; echo > {begun}; while :; do sleep 0.05; done");
    for (script, signals, status) in [(&obedient, &["TERM"][..], 5), (&stubborn, &["INT", "TERM"], 137)] {
        let _ = fs::remove_file(place.path("begun"));
        let child = start(&place, DELAY, &["--quiet"], &["sh", "-c", script]);
        until("COMMAND", || place.path("begun").exists());
        for name in signals {
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(finish(child).status.code(), Some(status), "{signals:?}");
    }
}

/// Fetches a file of 1 MB from `thalweg serve`; the time that took, and the report.
fn transfer(place: &Place, path: &str, host: &str, options: &[&str]) -> (Duration, Value) {
    let sum = place.add("file", 1_000_000);
    let (server, get) = server_and_client(place, env!("CARGO_BIN_EXE_thalweg"), host, options);
    let begun = Instant::now();
    let done = emulate(place, path, &["--server", &server], &["sh", "-c", &get]);
    assert!(done.status.success(), "{host} {options:?}: {}", text(&done.stderr));
    assert_eq!(place.sha256("file"), sum);
    (begun.elapsed(), report(place))
}

/// What a shell runs at the two ends to fetch that file with this program.
fn server_and_client(place: &Place, program: &str, host: &str, options: &[&str]) -> (String, String) {
    let (site, hello, out) = (place.arg("site"), place.arg("hello"), place.arg("file"));
    let server = format!("'{program}' serve '{site}' --listen '[::]:4433' --json > '{hello}'");
    let get = format!(
        "pin=$(sed -n 's/.*\"spki_sha256\":\"\\([^\"]*\\)\".*/\\1/p' '{hello}'); \
         exec '{program}' get --quiet {} --pin \"$pin\" -o '{out}' 'https://{host}:4433/file'",
        options.join(" ")
    );
    (server, get)
}

#[test]
fn files_cross_it_over_quic_and_tcp_and_both_versions_of_ip() {
    if !possible("files_cross_it_over_quic_and_tcp_and_both_versions_of_ip") {
        return;
    }
    for (host, options) in [
        ("10.12.0.1", &["--quic-only"][..]),
        ("[fd00:12::1]", &["--quic-only"]),
        ("server", &["--tcp-only"]),
        ("[fd00:12::1]", &["--tcp-only"]),
    ] {
        let place = Place::new();
        let (took, report) = transfer(&place, LINK, host, options);
        // 1 MB at 10 Mbps, and the handshake.
        assert!(took > Duration::from_millis(880), "{took:?}");
        let down = &report["paths"][0]["down"];
        let (bytes, rate) = (down["handed_over_bytes"].as_u64().unwrap(), down["rate_bps"].as_f64().unwrap());
        assert!(bytes > 1_000_000 && rate < 10_200_000.0, "{report}");
        assert_eq!(report["paths"][0]["flows"], 1, "{report}");
    }
}

/// The same through devices that need no TUN: an ordinary user may not open `/dev/net/tun` on most machines.
#[test]
fn an_ordinary_user_can_emulate() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    let test = "an_ordinary_user_can_emulate";
    let place = Place::new();
    if fs::metadata(place.path("site")).unwrap().uid() != 0 || !possible(test) {
        // Who is no root has tried that in all other tests.
        return;
    }
    let everyone = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    everyone(place.directory.path(), 0o777);
    // The build's folder may be nobody else's business.
    let program = place.path("thalweg");
    fs::copy(env!("CARGO_BIN_EXE_thalweg"), &program).unwrap();
    everyone(&program, 0o755);
    fs::write(place.path("link.toml"), LINK).unwrap();
    let sum = place.add("file", 1_000_000);
    let (server, get) = server_and_client(&place, program.to_str().unwrap(), "server", &["--tcp-only"]);
    let script = format!("id -u; {get}");
    let mut command = std::process::Command::new(&program);
    command.args(["emulate", &place.arg("link.toml"), "--json", &place.arg("report.json"), "--server", &server]);
    command.args(["--", "sh", "-c", &script]);
    command.uid(65_534).gid(65_534).current_dir("/").stdin(Stdio::null());
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let said = text(&done.stderr);
    if done.status.code() == Some(125) && said.contains("user namespaces") {
        let _ = write!(std::io::stderr(), "\nskipped: {test}: {said}\n");
        return;
    }
    assert!(done.status.success(), "{said} {}", text(&done.stdout));
    assert!(text(&done.stdout).starts_with("65534\n"), "{}", text(&done.stdout));
    assert_eq!(place.sha256("file"), sum);
    assert!(report(&place)["paths"][0]["down"]["handed_over_bytes"].as_u64().unwrap() > 1_000_000, "{said}");
}

#[test]
fn a_port_of_the_server_is_one_of_this_machine() {
    if !possible("a_port_of_the_server_is_one_of_this_machine") {
        return;
    }
    let place = Place::new();
    let sum = place.add("file", 300_000);
    let server = common::Server::start(&place.path("site"), &[]);
    let port = server.address.port().to_string();
    for (host, option) in [("10.12.0.1", "--quic-only"), ("[fd00:12::1]", "--tcp-only")] {
        let (out, url) = (place.arg("file"), format!("https://{host}:{port}/file"));
        let get = ["get", "--quiet", option, "--pin", &server.pin, "-o", &out, &url];
        let command: Vec<&str> = [env!("CARGO_BIN_EXE_thalweg")].into_iter().chain(get).collect();
        let done = emulate(&place, LINK, &["--forward", &port], &command);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(place.sha256("file"), sum);
        assert!(report(&place)["paths"][0]["down"]["handed_over_bytes"].as_u64().unwrap() > 300_000);
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn two_emulators_do_not_know_of_each_other() {
    if !possible("two_emulators_do_not_know_of_each_other") {
        return;
    }
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| transfer(&Place::new(), DELAY, "server", &["--quic-only"])));
        for one in both {
            assert!(one.join().unwrap().1["paths"][0]["down"]["handed_over_bytes"].as_u64().unwrap() > 1_000_000);
        }
    });
}

#[test]
fn a_path_with_a_smaller_mtu_says_so_to_tcp() {
    if !possible("a_path_with_a_smaller_mtu_says_so_to_tcp") {
        return;
    }
    let small = LINK.replace("queue", "mtu = \"1300 B\", queue");
    for host in ["10.12.0.1", "[fd00:12::1]"] {
        let place = Place::new();
        let (_, report) = transfer(&place, &small, host, &["--tcp-only"]);
        assert!(report["paths"][0]["down"]["dropped"]["too-big"].as_u64().unwrap() > 0, "{report}");
    }
}

/// Sends datagrams of 1000 bytes for two seconds, about twice as many as the path carries up, with ECT(0). The other
/// end writes down how many came, and how they were marked.
const SENDER: &str = r#"
import os, socket, sys, time
host, out, count = sys.argv[1], sys.argv[2], 2500
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
if ':' in host: s.setsockopt(socket.IPPROTO_IPV6, 67, 2)
else: s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
begun = time.monotonic()
for n in range(count):
    s.sendto(bytes(972 if ':' not in host else 952), (host, 7000))
    time.sleep(max(0, begun + n * 0.0008 - time.monotonic()))
while not os.path.exists(out) and time.monotonic() < begun + 30: time.sleep(0.05)
"#;
/// Counts datagrams by their ECN field, and those for which its buffer had no room while it did not run. Writes the
/// counts down once nothing has come for a second.
const RECEIVER: &str = r#"
import os, socket, sys
host, out = sys.argv[1:]
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
if ':' in host: s.setsockopt(socket.IPPROTO_IPV6, 66, 1)
else: s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
s.setsockopt(socket.SOL_SOCKET, 40, 1) # SO_RXQ_OVFL
s.bind((host, 7000))
marks, missed = [0] * 4, 0
s.settimeout(20)
try:
    while True:
        data, control, flags, address = s.recvmsg(2000, 200)
        field = 0
        for level, kind, value in control:
            if level == socket.SOL_SOCKET: missed = int.from_bytes(value[:4], sys.byteorder)
            else: field = value[0] & 3
        marks[field] += 1
        s.settimeout(1)
except TimeoutError: pass
with open(out + '.part', 'w') as file: file.write(' '.join(map(str, marks + [missed])))
os.rename(out + '.part', out)
"#;

/// Whether there is a Python; says so if there is none.
fn has_python(test: &str) -> bool {
    let tried = std::process::Command::new("python3").arg("--version").output();
    let has = tried.is_ok_and(|tried| tried.status.success());
    if !has {
        let _ = write!(std::io::stderr(), "\nskipped: {test}: there is no python3\n");
    }
    has
}

/// Sends back a datagram of 2500 bytes that routers may fragment, and one that is sent there.
const ECHO: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 0)
s.settimeout(10)
if sys.argv[1] == 'server':
    s.bind(('10.12.0.1', 7000))
    data, address = s.recvfrom(9000)
    s.sendto(data, address)
    s.settimeout(None)
    s.recv(1)
else:
    sent = bytes(n % 251 for n in range(2500))
    s.sendto(sent, ('10.12.0.1', 7000))
    assert s.recv(9000) == sent
"#;

#[test]
fn what_may_be_fragmented_crosses_a_smaller_mtu() {
    let test = "what_may_be_fragmented_crosses_a_smaller_mtu";
    if !possible(test) || !has_python(test) {
        return;
    }
    let place = Place::new();
    fs::write(place.path("echo.py"), ECHO).unwrap();
    let link = LINK.replace("queue", "mtu = \"1300 B\", queue");
    let echo = place.arg("echo.py");
    let server = format!("exec python3 '{echo}' server");
    let done = emulate(&place, &link, &["--server", &server], &["python3", &echo, "client"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = report(&place);
    // Of the kernel's fragments of 1500 and 1048 bytes the first is cut in two.
    assert_eq!(
        (&report["paths"][0]["up"]["handed_over"], &report["paths"][0]["down"]["handed_over"]),
        (&3.into(), &3.into()),
        "{report}"
    );
}

#[test]
fn a_flood_gets_the_rate_of_the_path_and_its_marks() {
    let test = "a_flood_gets_the_rate_of_the_path_and_its_marks";
    if !possible(test) {
        return;
    }
    if !has_python(test) {
        return;
    }
    let place = Place::new();
    fs::write(place.path("send.py"), SENDER).unwrap();
    fs::write(place.path("receive.py"), RECEIVER).unwrap();
    for (host, ecn, bits) in [("10.12.0.1", "mark-all", 3), ("fd00:12::1", "keep", 2)] {
        let link = LINK.replace("up = {", &format!("up = {{ ecn = \"{ecn}\","));
        let server = format!("exec python3 '{}' {host} '{}'", place.arg("receive.py"), place.arg("marks"));
        let capture = place.arg("capture.pcapng");
        let options = ["--server", &server, "--pcapng", &capture];
        let _ = fs::remove_file(place.path("marks"));
        let done = emulate(&place, &link, &options, &["python3", &place.arg("send.py"), host, &place.arg("marks")]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let report = report(&place);
        let up = &report["paths"][0]["up"];
        // 5 Mbps, and the device dropped nothing that the sender had time to send.
        let rate = up["rate_bps"].as_f64().unwrap();
        assert!((4_850_000.0..5_150_000.0).contains(&rate), "{report}");
        let number = |name: &str| up[name].as_u64().unwrap();
        let dropped = up["dropped"]["queue-full"].as_u64().unwrap();
        assert_eq!(number("arrived") + report["device_dropped"].as_u64().unwrap(), 2500, "{report}");
        assert!(dropped > 500 && number("handed_over") + dropped <= number("arrived"), "{report}");
        let capture = fs::read(&capture).unwrap();
        let said = |text: &str| capture.windows(text.len()).filter(|window| *window == text.as_bytes()).count() as u64;
        assert_eq!(said("dropped on the path: queue-full"), dropped);
        assert_eq!(said("marked CE on the path"), if bits == 3 { number("handed_over") } else { 0 });
        let counts = fs::read_to_string(place.path("marks")).unwrap();
        let counts: Vec<u64> = counts.split(' ').map(|count| count.parse().unwrap()).collect();
        let (marks, missed) = (&counts[..4], counts[4]);
        assert_eq!(marks[bits], marks.iter().sum::<u64>(), "{marks:?}");
        // What is missed after the last datagram that is read is not counted.
        assert!(number("handed_over").abs_diff(marks[bits] + missed) <= 5, "{counts:?} {report}");
    }
}

#[test]
fn an_invalid_run_fails_if_that_is_asked_for() {
    if !possible("an_invalid_run_fails_if_that_is_asked_for") {
        return;
    }
    let place = Place::new();
    let done = emulate(&place, DELAY, &["--strict", "--max-wake-up", "1 ns"], &["sleep", "0.2"]);
    assert_eq!(done.status.code(), Some(125));
    let said = text(&done.stderr);
    assert!(said.contains("INVALID") && said.contains("the run is invalid: programs on this machine"), "{said}");
}

/// A download over two paths at once, by interfaces of their names; each path's figures are its own.
#[test]
fn several_paths_are_as_many_interfaces() {
    if !possible("several_paths_are_as_many_interfaces") {
        return;
    }
    let place = Place::new();
    let sum = place.add("file", 2_000_000);
    let two = format!("{LINK}{}", LINK.replace("path.p", "path.q"));
    let program = env!("CARGO_BIN_EXE_thalweg");
    let cert = place.arg("cert.pem");
    let site = place.arg("site");
    let server = format!("'{program}' serve '{site}' --multipath --name server --save-cert '{cert}' --listen [::]:443");
    let got = place.arg("file");
    let script =
        format!("ls /sys/class/net; '{program}' get --multipath=p,q --ca '{cert}' -o '{got}' https://server/file");
    let (page, options) = (place.arg("page.html"), ["--path", "p", "--path", "q", "--live", "--server", &server]);
    let options: Vec<&str> = options.into_iter().chain(["--report", &page]).collect();
    let done = emulate(&place, &two, &options, &["sh", "-c", &script]);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert_eq!(place.sha256("file"), sum);
    assert!(said.contains("over q (up 5 Mbps, 20 ms; down 10 Mbps, 20 ms)"), "{said}");
    let report = report(&place);
    for (at, name) in ["p", "q"].into_iter().enumerate() {
        let path = &report["paths"][at];
        assert_eq!((&path["path"], &path["flows"]), (&name.into(), &1.into()), "{report}");
        let (all, series) = (path["down"]["handed_over_bytes"].as_u64(), &path["down"]["series"]);
        let bytes: u64 = series["bytes"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert!(all > Some(500_000) && all == Some(bytes), "{path}");
        // Two paths of 10 Mbps take 0.9 s, which the queue of 100 ms covers in part.
        let longest = series["sojourn_max_us"].as_array().unwrap().iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        assert!((1_000.0..=110_000.0).contains(&longest), "{longest}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<td>q down</td>") && page.contains("data-name=\"paths\""), "{}", page.len());
}

/// What COMMAND finds in its own /sys about who takes in its packets, and where the emulator's threads may run.
#[test]
fn a_fast_path_in_real_time_has_a_processor_of_its_own() {
    let test = "a_fast_path_in_real_time_has_a_processor_of_its_own";
    let processors = |status: &str| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        (list.contains(['-', ',']), list)
    };
    let (are_several, all) = processors(&fs::read_to_string("/proc/self/status").unwrap());
    if !possible(test) {
        return;
    }
    if !are_several {
        let _ = write!(std::io::stderr(), "\nskipped: {test}: this machine has one processor\n");
        return;
    }
    let fast = LINK.replace("10 Mbps", "1 Gbps");
    for (path, option, is_apart) in
        [(&fast[..], "--realtime", true), (&fast, "--quiet", false), (LINK, "--realtime", false)]
    {
        let place = Place::new();
        let (begun, seen) = (place.arg("begun"), place.arg("seen"));
        let show = "mount -t sysfs sysfs /sys && cat /sys/class/net/path0/queues/rx-0/rps_cpus";
        // No more than a minute, should this test fail meanwhile.
        let wait = format!("i=0; until [ -e {seen} ] || [ $((i+=1)) -gt 3000 ]; do sleep 0.02; done");
        let script = format!("{show}; echo > {begun}; {wait}");
        let emulator = start(&place, path, &[option], &["sh", "-c", &script]);
        let threads = format!("/proc/{}/task", emulator.id());
        let own = || {
            let threads = fs::read_dir(&threads).ok()?.flatten();
            let mut statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
            statuses.find(|status| status.starts_with("Name:\temulator\n")).map(|status| processors(&status).1)
        };
        until("COMMAND", || place.path("begun").exists());
        let mut found = None;
        if is_apart {
            until("a processor of its own", || {
                found = own().filter(|own| *own != all && !own.contains(['-', ',']));
                found.is_some()
            });
        } else {
            assert_eq!(own().as_ref(), Some(&all), "{path} {option}");
        }
        fs::write(&seen, "").unwrap();
        let done = finish(emulator);
        let (mask, said) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{said}");
        if said.contains("mount") {
            let _ = write!(std::io::stderr(), "\nskipped in part: {test}: COMMAND may not mount /sys\n");
            continue;
        }
        let takes_in: Vec<usize> = mask
            .trim()
            .chars()
            .rev()
            .filter(|c| *c != ',')
            .zip(0..)
            .flat_map(|(digit, at)| {
                let bits = digit.to_digit(16).unwrap();
                (0..4).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 4 * at + bit)
            })
            .collect();
        assert_eq!(!takes_in.is_empty(), is_apart, "{path} {option}: {mask}");
        assert!(
            !takes_in.iter().any(|one| Some(one.to_string()) == found),
            "{found:?} both carries and takes in: {mask}"
        );
    }
}

#[test]
fn paths_that_cannot_be_interfaces_are_refused() {
    let place = Place::new();
    let named = |name: &str| LINK.replace("path.p", &format!("path.\"{name}\""));
    let cases = [
        (named("p") + &named("of the mobile network"), ["p", "of the mobile network"], "can be called"),
        (LINK.to_owned(), ["p", "p"], "named twice"),
    ];
    for (paths, [first, second], said) in cases {
        let done = emulate(&place, &paths, &["--path", first, "--path", second], &["true"]);
        assert_eq!(done.status.code(), Some(125));
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
}
