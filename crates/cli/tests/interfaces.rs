//! `thalweg get --multipath` on a host like a laptop: two network namespaces joined by two cables of 20 Mbps, two
//! default routes of different metric at the client, and no rules about which of them to take. Where the system allows
//! no namespaces, these tests are skipped by name.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Place, Server, finish, json_lines, run, text, until, wait};
use serde_json::Value;

/// Bytes of a download: 4.4 s at 36 Mbps.
const BYTES: u64 = 20_000_000;
/// Of one that only shows which way it takes: 1.7 s at 20 Mbps.
const FEW: u64 = 4_000_000;
/// Where the server listens: an address of none of its two interfaces.
const SERVER: &str = "10.9.0.1";

/// Makes both ends. Each cable carries 20 Mbps each way, and its queue is full after 50 ms.
const NETWORK: &str = r#"
set -e
far=$1
for end in near far; do
  run=; [ $end = near ] || run="nsenter --target $far --net --"
  $run ip link set lo up
  # Wherever a packet comes from, it is taken: the answers to what leaves by the second route come by it, too.
  $run sh -c 'echo 2 >/proc/sys/net/ipv4/conf/all/rp_filter' || true
done
nsenter --target $far --net -- ip address add 10.9.0.1/32 dev lo
i=0
for name in wlan0 wwan0; do
  ip link add name $name type veth peer name far$i netns $far
  ip address add 10.$((i + 1)).0.2/24 dev $name
  nsenter --target $far --net -- ip address add 10.$((i + 1)).0.1/24 dev far$i
  for end in near far; do
    run=; device=$name; [ $end = near ] || { run="nsenter --target $far --net --"; device=far$i; }
    $run ip link set $device up
    $run tc qdisc add dev $device root tbf rate 20mbit burst 16kb latency 50ms
  done
  ip route add default via 10.$((i + 1)).0.1 dev $name metric $((100 * (i + 1)))
  i=$((i + 1))
done
"#;

/// Two namespaces with two cables between them; they end with this.
struct Network {
    near: Child,
    far: Child,
}

impl Network {
    /// `None` where the system allows none, which is said past the harness's capture.
    fn make(test: &str) -> Option<Network> {
        Network::try_make().map_err(|why| writeln!(std::io::stderr(), "\nskipped: {test}: {why}")).ok()
    }

    fn try_make() -> Result<Network, String> {
        let hold = |command: &mut Command| -> Result<Child, String> {
            let mut child = command
                .args(["sh", "-c", "echo there; exec sleep 600"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| format!("cannot run unshare or nsenter: {error}"))?;
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line.trim() == "there" {
                return Ok(child);
            }
            let _ = child.wait();
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            Err(format!("cannot make namespaces: {}", why.trim()))
        };
        let near = hold(Command::new("unshare").args(["--user", "--map-root-user", "--net"]))?;
        let far = hold(Command::new("nsenter").args(inside(&near, &["unshare", "--net"])));
        let network = match far {
            Ok(far) => Network { near, far },
            Err(why) => {
                end(near);
                return Err(why);
            }
        };
        let far = network.far.id().to_string();
        let made = network.client(&["sh", "-c", NETWORK, "sh", &far]).output().map_err(|error| error.to_string())?;
        match made.status.success() {
            true => Ok(network),
            false => Err(format!("cannot make two cables: {}", text(&made.stderr).trim())),
        }
    }

    /// A command at the client's end.
    fn client(&self, command: &[&str]) -> Command {
        let mut run = Command::new("nsenter");
        run.args(inside(&self.near, command)).env_remove("QLOGDIR").env_remove("SSLKEYLOGFILE").stdin(Stdio::null());
        run
    }

    /// A command at the server's end.
    fn server(&self, command: &[&str]) -> Command {
        let mut run = Command::new("nsenter");
        run.args(inside(&self.far, command)).env_remove("QLOGDIR").env_remove("SSLKEYLOGFILE").stdin(Stdio::null());
        run
    }

    /// Changes something at the client's end.
    fn change(&self, command: &str) {
        let done = self.client(&["sh", "-ec", command]).output().unwrap();
        assert!(done.status.success(), "{command}: {}", text(&done.stderr));
    }

    /// Changes something at the server's end.
    fn change_far(&self, command: &str) {
        let done = self.server(&["sh", "-ec", command]).output().unwrap();
        assert!(done.status.success(), "{command}: {}", text(&done.stderr));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for child in [&mut self.far, &mut self.near] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The arguments of nsenter that run `command` in the namespaces of `child`.
fn inside(child: &Child, command: &[&str]) -> Vec<String> {
    let target = child.id().to_string();
    let options = ["--target", &target, "--user", "--net", "--preserve-credentials", "--"];
    options.iter().chain(command).map(|part| (*part).to_owned()).collect()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_thalweg");

/// `thalweg serve` at the server's end, with a file.
struct Serving {
    child: Child,
    url: String,
    pin: String,
    place: Place,
    sha256: String,
}

impl Serving {
    fn start(network: &Network, bytes: u64) -> Serving {
        let place = Place::new();
        let sha256 = place.add("file", bytes);
        let (listen, site) = (format!("{SERVER}:4433"), place.arg("site"));
        let command = [PROGRAM, "serve", &site, "--listen", &listen, "--json", "--name", SERVER, "--multipath"];
        let mut child = network.server(&command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap();
        let pin = hello["spki_sha256"].as_str().unwrap().to_owned();
        Serving { child, url: format!("https://{SERVER}:4433/file"), pin, place, sha256 }
    }

    /// The arguments of a download to `file`.
    fn get<'a>(&'a self, file: &'a str, options: &[&'a str]) -> Vec<&'a str> {
        let common = [PROGRAM, "get", "--json", "--quic-only", "--pin", &self.pin, "-o", file];
        [&common, options, &[&self.url]].concat()
    }

    /// A download to its end, and its report.
    fn download(&self, network: &Network, options: &[&str]) -> (Value, Output) {
        let file = self.place.arg("got");
        let mut command = network.client(&self.get(&file, options));
        let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(self.place.sha256("got"), self.sha256);
        (json_lines(&done.stdout).remove(0), done)
    }

    /// A download during which something happens, once a quarter of it is there. Returns the longest time without new
    /// bytes from then on.
    fn interrupted(&self, network: &Network, event: impl FnOnce()) -> Duration {
        let command = [PROGRAM, "get", "--quic-only", "--pin", &self.pin, "--multipath", "-o", "-", &self.url];
        let mut child = network.client(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (count, mut out) = (Arc::new(AtomicU64::new(0)), child.stdout.take().unwrap());
        let counted = count.clone();
        let reading = std::thread::spawn(move || {
            let (mut bytes, mut arrivals) = (Vec::new(), vec![Instant::now()]);
            let mut buffer = vec![0; 1 << 16];
            while let Some(len) = out.read(&mut buffer).ok().filter(|len| *len > 0) {
                bytes.extend_from_slice(&buffer[..len]);
                arrivals.push(Instant::now());
                counted.fetch_add(len as u64, Ordering::Relaxed);
            }
            (bytes, arrivals)
        });
        until("a quarter of the file", || count.load(Ordering::Relaxed) >= BYTES / 4 || reading.is_finished());
        let began = Instant::now();
        event();
        let status = wait(&mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{said}");
        let (bytes, arrivals) = reading.join().unwrap();
        fs::write(self.place.path("piped"), bytes).unwrap();
        assert_eq!(self.place.sha256("piped"), self.sha256);
        let pairs = arrivals.iter().zip(&arrivals[1..]).filter(|(_, next)| **next >= began);
        pairs.map(|(last, next)| *next - *last).max().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a figure past the harness's capture.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a gap, which is far shorter than the interruption: the other path goes on.
fn assert_short(what: &str, gap: Duration) {
    say(&format!("{what}: {gap:.3?} without new bytes"));
    assert!(gap < Duration::from_secs(1), "{what}: {gap:?}");
}

fn paths(report: &Value) -> Vec<(&str, u64)> {
    let paths = report["paths"].as_array().unwrap().iter();
    paths.map(|path| (path["interface"].as_str().unwrap(), path["udp_bytes_received"].as_u64().unwrap())).collect()
}

#[test]
fn both_interfaces_carry_36_of_40_mbps() {
    let Some(network) = Network::make("both_interfaces_carry_36_of_40_mbps") else { return };
    let serving = Serving::start(&network, BYTES);
    for round in 0..3 {
        let options: &[&str] = if round == 0 { &["--multipath=wlan0,wwan0"] } else { &["--multipath"] };
        let (report, _) = serving.download(&network, options);
        let mbps = report["goodput_bps"].as_f64().unwrap() / 1e6;
        let paths = paths(&report);
        say(&format!("20 MB over two interfaces of 20 Mbps: {mbps:.1} Mbps, {paths:?}"));
        assert_eq!([paths[0].0, paths[1].0], ["wlan0", "wwan0"], "as named, and as the routes' metrics have it");
        assert!(mbps >= 36.0, "{mbps:.1} Mbps, {paths:?}");
    }
}

#[test]
fn interfaces_that_break_lose_no_byte() {
    let Some(network) = Network::make("interfaces_that_break_lose_no_byte") else { return };
    let serving = Serving::start(&network, BYTES);
    let gap = serving.interrupted(&network, || {
        network.change("ip link set wlan0 down; sleep 1; ip link set wlan0 up");
        network.change("ip route add default via 10.1.0.1 dev wlan0 metric 100");
    });
    assert_short("the first interface down for 1 s", gap);
    let gap = serving.interrupted(&network, || network.change("ip address del 10.2.0.2/24 dev wwan0"));
    assert_short("the address of the second interface removed", gap);
    network.change("ip address add 10.2.0.2/24 dev wwan0; ip route add default via 10.2.0.1 dev wwan0 metric 200");
    let gap = serving.interrupted(&network, || network.change_far("ip link set far0 down"));
    assert_short("the first cable pulled at the far end", gap);
}

#[test]
fn a_backup_stays_idle_and_a_missing_interface_is_no_error() {
    let Some(network) = Network::make("a_backup_stays_idle_and_a_missing_interface_is_no_error") else { return };
    let serving = Serving::start(&network, FEW);
    let (report, _) = serving.download(&network, &["--multipath", "--backup", "wwan0"]);
    let both = paths(&report);
    assert!(both[0] == ("wlan0", both[0].1) && both[0].1 > FEW && both[1].1 < FEW / 40, "{both:?}");
    network.change("ip link set wwan0 down");
    let (report, done) = serving.download(&network, &["--multipath"]);
    let said = text(&done.stderr);
    assert!(said.contains("only wlan0 leads to 10.9.0.1; going on with one path"), "{said}");
    assert_eq!(report["paths"].as_array().unwrap().len(), 1);
    let (_, done) = serving.download(&network, &["--multipath=wlan0,wwan0"]);
    let said = text(&done.stderr);
    assert!(said.contains("wwan0 does not lead to 10.9.0.1"), "{said}");
}

#[test]
fn a_dead_first_interface_does_not_keep_a_connection_from_beginning() {
    let Some(network) = Network::make("a_dead_first_interface_does_not_keep_a_connection_from_beginning") else {
        return;
    };
    let serving = Serving::start(&network, FEW);
    let saved = serving.place.arg("saved");
    let options = ["--multipath", "--saved-paths", &saved];
    serving.download(&network, &options);
    let saved_of = |name: &str| fs::read_to_string(&saved).unwrap().contains(&format!("{SERVER}:4433%{name}"));
    assert!(saved_of("wlan0") && !saved_of("wwan0"), "{}", fs::read_to_string(&saved).unwrap());
    // The cable is whole, and nothing comes back by it.
    network.change_far("ip route add blackhole 10.1.0.2/32");
    let begun = Instant::now();
    let (report, _) = serving.download(&network, &options);
    let taken = begun.elapsed();
    say(&format!("4 MB while nothing comes back by the first interface: {taken:.3?}"));
    assert_eq!(paths(&report)[0].0, "wwan0");
    // What was known of the first was used up in vain.
    assert!(saved_of("wwan0"), "{}", fs::read_to_string(&saved).unwrap());
    // 1.7 s of data, and a second until the other interface is tried.
    assert!(taken < Duration::from_secs(4), "{taken:?}");
}

#[test]
fn an_interface_that_is_not_there_is_wrong_usage_and_nothing_is_written() {
    let place = Place::new();
    let (directory, traces) = (place.arg("downloads"), place.arg("traces"));
    let cases: [(&[&str], &str); 6] = [
        (&["--multipath=nosuch0"], "there is no network interface nosuch0; there are "),
        (&["--multipath", "--backup", "nosuch0"], "there is no network interface nosuch0"),
        (&["--multipath=a,,b"], "a name is missing"),
        (&["--multipath=a,b,a"], "a is there twice"),
        (&["--backup", "wlan0"], "--multipath"),
        (&["--multipath", "--tcp-only"], "cannot be used with"),
    ];
    for (options, said) in cases {
        let more = ["--dir", &directory, "--qlog", &traces, "https://127.0.0.1:1/x"];
        let done = run(&[&["get"], options, &more].concat());
        let stderr = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(said), "{options:?}: {stderr}");
        assert!(!place.path("downloads").exists() && !place.path("traces").exists(), "{options:?}");
    }
}

#[test]
fn one_path_is_enough_and_is_told() {
    let place = Place::new();
    let sum = place.add("file", 300_000);
    let get = |server: &Server| {
        let (file, url) = (place.arg("got"), server.url("file"));
        let done = run(&["get", "--json", "--quic-only", "--multipath", "--pin", &server.pin, "-o", &file, &url]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(place.sha256("got"), sum);
        (json_lines(&done.stdout).remove(0), text(&done.stderr))
    };
    // Nothing but the loopback interface leads there.
    let (report, said) = get(&Server::start(&place.path("site"), &["--multipath"]));
    assert!(said.contains("the network interface to 127.0.0.1 cannot be chosen; going on with one path"), "{said}");
    assert_eq!(report["paths"].as_array().unwrap().len(), 1, "{report}");
    assert!(report["paths"][0]["udp_bytes_received"].as_u64().unwrap() > 300_000, "{report}");
    let (_, said) = get(&Server::start(&place.path("site"), &[]));
    assert!(said.contains("the server uses one path at a time; going on with one path"), "{said}");
}
