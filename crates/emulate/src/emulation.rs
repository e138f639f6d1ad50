//! Runs a program, and a server if there is one, in network namespaces that an emulated path joins.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use thalweg_link::PathConfig;
use thalweg_units::{Duration, Instant, Rate, exact_duration};

use crate::device::Device;
use crate::engine::Engine;
use crate::forward;
use crate::init::{self, CLIENT, DEVICE, End, Plan, Program, SERVER, Told, ask};
use crate::pump::{PROGRAM_PRIORITY, Pump, PumpPath, Said, address};
use crate::system::process::{self, Pid};
use crate::system::{self, Parted, Poll};
use crate::verdict::{PathReport, Report};

/// How long a server may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);
/// The signals that are passed on to the program.
const PASSED_ON: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// An emulation to be run.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// The paths, at most [`MOST_PATHS`]. COMMAND has an interface for each, the server one for all. With one path it
    /// is called path0, else each has the name of its path.
    pub paths: Vec<EmulatedPath>,
    /// Seeds every choice.
    pub seed: u64,
    /// The program at the client's end, with its arguments.
    pub command: Vec<OsString>,
    /// What a shell is to run at the server's end.
    pub server: Option<OsString>,
    /// Whether to ask for real-time priority, for the emulator and for the programs.
    pub realtime: bool,
    /// Ports of the server's end that are joined to those of this machine's loopback address.
    pub forward: Vec<u16>,
    /// The file that all packets are written into, as pcapng.
    pub capture: Option<PathBuf>,
    /// Whether senders are told by ICMP of packets that exceed the path's MTU.
    pub icmp: bool,
}

/// A path between the two ends.
#[derive(Clone, Debug)]
pub struct EmulatedPath {
    /// What it is called.
    pub name: String,
    /// Its hops, from client to server.
    pub hops: Vec<PathConfig>,
}

impl EmulatedPath {
    /// Its rate in the faster direction, and the highest of rates that change; of a trace, the mean. A chain carries
    /// what its slowest hop does.
    fn most(&self) -> Rate {
        let of = |hop: &PathConfig| {
            let rates = [&hop.up, &hop.down].map(|direction| direction.rate.values());
            rates.into_iter().flatten().max().unwrap_or(Rate::ZERO)
        };
        self.hops.iter().map(of).min().unwrap_or(Rate::ZERO)
    }

    /// Whether a network interface may have its name.
    fn has_plain_name(&self) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        (1..=LONGEST_NAME).contains(&self.name.len())
            && self.name.chars().all(plain)
            && ![".", "..", "lo", "all", "default"].contains(&self.name.as_str())
    }
}

/// Paths of one emulation.
pub const MOST_PATHS: usize = 8;
/// If all paths together carry this much, the thread that carries packets is kept on one processor, and the others take
/// in what it hands over. Measured with the kernel's TCP on two cores: at 200 Mbps, 99 % of the packets are less than
/// 0.11 ms late, and 0.14 ms where the kernel places both; at 1 Gbps 0.28 ms and 10 ms. On idle processors it makes
/// receivers 0.04 ms later, as another one has to wake for each packet.
const FAST: Rate = Rate::from_bps(200_000_000);
/// Bytes of an interface's name (IFNAMSIZ, less the zero at its end).
const LONGEST_NAME: usize = 15;

/// How far an emulation is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Since its start.
    pub elapsed: Duration,
    /// Bytes that were handed over on each path, toward the server and toward the client.
    pub bytes: Vec<[u64; 2]>,
    /// Packets that each path has dropped.
    pub dropped: Vec<[u64; 2]>,
}

/// How an emulation went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How the program ended, as a shell says it.
    pub status: u8,
    /// What was done, and how well.
    pub report: Report,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Why an emulation could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulationError {
    /// The exit status that says so: 127 if there is no such program, 126 if it cannot be run, else 125.
    pub status: u8,
    /// What was wrong.
    pub message: String,
}

impl fmt::Display for EmulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EmulationError {}

/// Puts what was being done in front of a system's error.
fn cannot(what: &str) -> impl FnOnce(io::Error) -> EmulationError {
    move |error| EmulationError { status: 125, message: format!("cannot {what}: {error}") }
}

impl Emulation {
    /// Runs it to its end: that of the program. Signals that ask this process to end are passed on to the program from
    /// then on; the second one kills it.
    ///
    /// The caller has to be the only thread of its process.
    ///
    /// # Errors
    /// When the path cannot work as described, the system does not allow namespaces or devices, or a program cannot be
    /// run.
    pub fn run(self) -> Result<Outcome, EmulationError> {
        self.run_watched(None, |_| ())
    }

    /// As [`run`](Self::run), and says how far it is, this often.
    ///
    /// # Errors
    /// As there.
    pub fn run_watched(self, every: Option<Duration>, watch: impl FnMut(&Progress)) -> Result<Outcome, EmulationError> {
        let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            let message = format!("cannot start processes from a program with {threads} threads");
            return Err(EmulationError { status: 125, message });
        }
        // What is wrong with the paths is said before anything is made.
        self.check().map_err(|message| EmulationError { status: 125, message })?;
        let pump_paths = |start| -> Result<Vec<PumpPath>, EmulationError> {
            let pump_path = |path: &EmulatedPath| {
                let engine = Engine::new(&path.hops, self.seed, start)
                    .map_err(|error| EmulationError { status: 125, message: error.to_string() })?;
                Ok(PumpPath::new(engine, path.name.clone(), PathReport::round_trip_of(&path.hops)))
            };
            self.paths.iter().map(pump_path).collect()
        };
        pump_paths(system::now())?;
        let capture = self.capture.as_ref().map(File::create).transpose().map_err(cannot("write the capture"))?;
        let signals = process::catch_signals(&PASSED_ON).map_err(cannot("catch signals"))?;
        let priority = self.realtime.then_some(PROGRAM_PRIORITY);
        let most = self.paths.iter().fold(0u64, |sum, path| sum.saturating_add(path.most().bps()));
        let parted = if self.realtime && most >= FAST.bps() { Parted::new() } else { None };
        let receive_on = parted.as_ref().map(|parted| parted.others.clone());
        let clients: Vec<(String, End)> = match &self.paths[..] {
            [_] => vec![(DEVICE.to_owned(), CLIENT)],
            several => several.iter().enumerate().map(|(at, path)| (path.name.clone(), address(at))).collect(),
        };
        let at_server = self.server.clone().map_or(Program::None, Program::Shell);
        let mut server = Remote::start(&Plan {
            devices: vec![(DEVICE.to_owned(), SERVER)],
            others: clients.iter().map(|(_, end)| *end).collect(),
            program: at_server,
            priority,
            receive_on: receive_on.clone(),
        })?;
        let program = Program::Command(self.command.clone());
        let mut client =
            Remote::start(&Plan { devices: clients, others: vec![SERVER], program, priority, receive_on })?;
        let mut devices: Vec<Device> = self.paths.iter().map(|_| client.network()).collect::<Result<_, _>>()?;
        devices.push(server.network()?);
        let mut notes = Vec::new();
        if !client.has_ipv6 || !server.has_ipv6 {
            notes.push("this system has no IPv6".to_owned());
        }
        let start = system::now();
        let pump_paths = pump_paths(start)?;
        let horizon = pump_paths.iter().map(|path| path.engine.horizon()).min().unwrap_or(Duration::MAX);
        let pump = Pump::new(pump_paths, devices, self.icmp, capture, start);
        let mut watched = Watched { said: pump.said(), start, every, watch };
        let running = Running::start(pump, self.realtime, parted.map(|parted| parted.carrier))?;
        for port in &self.forward {
            let (tcp, udp) = (server.socket(ask::TCP, *port)?, server.socket(ask::UDP, *port)?);
            forward::start(tcp, udp, *port).map_err(cannot("forward a port"))?;
        }
        server.begin()?;
        if self.server.is_some() && !server.listens()? {
            notes.push("the server had not begun to listen when COMMAND was started".to_owned());
        }
        client.begin()?;
        let status = attend(&signals, &mut client, &mut server, &mut notes, &mut watched)?;
        server.end();
        let dropped = client.drops() + server.drops();
        let (mut report, failed) = running.stop();
        if let Some(error) = failed {
            notes.push(format!("the capture is not whole: {error}"));
        }
        report.device_dropped += dropped;
        if report.elapsed > horizon {
            let horizon = exact_duration(horizon);
            notes
                .push(format!("outages and suspensions by chance are drawn for {horizon}; there were none afterwards"));
        }
        Ok(Outcome { status, report, notes })
    }

    /// Whether there can be an emulation of these paths.
    fn check(&self) -> Result<(), String> {
        let paths = &self.paths;
        if paths.is_empty() || paths.len() > MOST_PATHS {
            return Err(format!("{} paths; there can be 1 to {MOST_PATHS}", paths.len()));
        }
        let is_again = |(at, path): (usize, &EmulatedPath)| paths[..at].iter().any(|other| other.name == path.name);
        if let Some(twice) = paths.iter().enumerate().position(is_again) {
            return Err(format!("path \"{}\" is named twice", paths[twice].name));
        }
        match paths.iter().find(|path| paths.len() > 1 && !path.has_plain_name()) {
            Some(path) => Err(format!(
                "no network interface can be called \"{}\": where there are several paths, a name has at most \
                 {LONGEST_NAME} letters, digits, - _ or .",
                path.name
            )),
            None => Ok(()),
        }
    }
}

/// Who wants to know how far it is.
struct Watched<W> {
    said: Arc<Vec<Said>>,
    start: Instant,
    every: Option<Duration>,
    watch: W,
}

impl<W: FnMut(&Progress)> Watched<W> {
    fn tell(&mut self) {
        let read = |of: fn(&Said) -> &[AtomicU64; 2]| -> Vec<[u64; 2]> {
            self.said.iter().map(|said| of(said).each_ref().map(|count| count.load(Ordering::Relaxed))).collect()
        };
        let (bytes, dropped) = (read(|said| &said.bytes), read(|said| &said.dropped));
        (self.watch)(&Progress { elapsed: system::now().saturating_since(self.start), bytes, dropped });
    }
}

/// Waits for the end of the program at the client, and passes signals on.
fn attend(
    signals: &File,
    client: &mut Remote,
    server: &mut Remote,
    notes: &mut Vec<String>,
    watched: &mut Watched<impl FnMut(&Progress)>,
) -> Result<u8, EmulationError> {
    let mut asked = 0;
    let mut poll = Poll::default();
    let mut next = watched.every.map(|every| watched.start + every);
    loop {
        let now = system::now();
        if let (Some(at), Some(every)) = (next, watched.every)
            && now >= at
        {
            watched.tell();
            next = Some(now + every);
        }
        poll.clear();
        poll.push(client.channel.as_fd());
        poll.push(signals.as_fd());
        if !server.is_gone {
            poll.push(server.channel.as_fd());
        }
        let timeout = next.map(|at| at.saturating_since(system::now()));
        poll.wait(timeout).map_err(cannot("wait for COMMAND"))?;
        if poll.is_ready(1) {
            while let Some(signal) = process::next_signal(signals) {
                // COMMAND has heard from the terminal itself.
                if signal.from_terminal {
                    continue;
                }
                asked += u32::from([libc::SIGINT, libc::SIGTERM].contains(&signal.number));
                client.signal(if asked > 1 { libc::SIGKILL } else { signal.number });
            }
        }
        if poll.is_ready(0) {
            match client.hear()? {
                Told::Ended(status) => return Ok(status),
                Told::Gone => {
                    let message =
                        "the namespace of COMMAND has ended: something has killed its first process".to_owned();
                    return Err(EmulationError { status: 125, message });
                }
                _ => {}
            }
        }
        if !server.is_gone && poll.is_ready(2) {
            match server.hear()? {
                Told::Ended(status) => notes.push(format!("the server ended before COMMAND, with status {status}")),
                Told::Gone => notes.push("the namespace of the server ended before COMMAND".to_owned()),
                _ => {}
            }
        }
    }
}

/// An end, seen from the emulator. Dropping it ends all that runs there.
struct Remote {
    pid: Pid,
    channel: OwnedFd,
    has_ipv6: bool,
    /// Whether its program has ended, or there is none.
    has_ended: bool,
    is_gone: bool,
}

impl Drop for Remote {
    fn drop(&mut self) {
        process::kill(self.pid, libc::SIGKILL);
        process::wait_for(self.pid);
    }
}

impl Remote {
    /// Starts the end in namespaces of its own.
    fn start(plan: &Plan) -> Result<Remote, EmulationError> {
        let (user, group) = process::user_and_group();
        let start = |with_user: bool| -> io::Result<(Pid, OwnedFd)> {
            let (channel, theirs) = process::channel()?;
            let pid = process::start_in_namespaces(with_user, || init::run(theirs, plan))?;
            Ok((pid, channel))
        };
        // Root of a container may not make namespaces without one for users.
        let (mut with_user, mut started) = (user != 0, start(user != 0));
        if user == 0 && started.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            (with_user, started) = (true, start(true));
        }
        let (pid, channel) = started.map_err(|error| EmulationError {
            status: 125,
            message: format!(
                "cannot make namespaces: {error}; run as root, or allow user namespaces (sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
            ),
        })?;
        let has_ended = matches!(plan.program, Program::None);
        let remote = Remote { pid, channel, has_ipv6: false, has_ended, is_gone: false };
        if with_user {
            let write = |file: &str, text: String| fs::write(format!("/proc/{}/{file}", pid.0), text);
            write("setgroups", "deny".into())
                .and_then(|()| write("uid_map", format!("{user} {user} 1")))
                .and_then(|()| write("gid_map", format!("{group} {group} 1")))
                .map_err(cannot("set up a user namespace"))?;
        }
        remote.ask(ask::NETWORK)?;
        Ok(remote)
    }

    fn ask(&self, what: &[u8]) -> Result<(), EmulationError> {
        process::send_message(self.channel.as_fd(), what, None).map_err(cannot("speak to a namespace"))
    }

    /// The next thing that the end tells.
    fn hear(&mut self) -> Result<Told, EmulationError> {
        self.hear_with().map(|(told, _)| told)
    }

    fn hear_with(&mut self) -> Result<(Told, Option<OwnedFd>), EmulationError> {
        let received = process::receive_message(self.channel.as_fd());
        let (text, with) = received.map_err(cannot("hear from a namespace"))?;
        let told = Told::read(&text);
        self.has_ended |= matches!(told, Told::Ended(_) | Told::Gone);
        self.is_gone |= told == Told::Gone;
        Ok((told, with))
    }

    /// Waits until the network is there; returns its device.
    fn network(&mut self) -> Result<Device, EmulationError> {
        match self.hear_with()? {
            (Told::Network { has_ipv6, is_framed }, Some(device)) => {
                self.has_ipv6 = has_ipv6;
                Ok(Device::new(File::from(device), is_framed))
            }
            (told, _) => Err(unexpected(told)),
        }
    }

    /// A socket that listens at the end.
    fn socket(&mut self, kind: &str, port: u16) -> Result<OwnedFd, EmulationError> {
        self.ask(format!("{kind}{port}").as_bytes())?;
        match self.hear_with()? {
            (Told::Socket, Some(socket)) => Ok(socket),
            (told, _) => Err(unexpected(told)),
        }
    }

    /// Starts the program.
    fn begin(&mut self) -> Result<(), EmulationError> {
        self.ask(ask::START)?;
        match self.hear()? {
            Told::Started => Ok(()),
            told => Err(unexpected(told)),
        }
    }

    /// Waits until the program listens, or for some time. It may end meanwhile.
    fn listens(&mut self) -> Result<bool, EmulationError> {
        self.ask(ask::LISTEN)?;
        let mut ended = None;
        loop {
            match self.hear()? {
                Told::Listens(does) => match ended {
                    Some(status) if !does => {
                        let message = format!("the server ended with status {status} before COMMAND was started");
                        return Err(EmulationError { status: 125, message });
                    }
                    _ => return Ok(does),
                },
                Told::Ended(status) => ended = Some(status),
                told => return Err(unexpected(told)),
            }
        }
    }

    fn signal(&self, number: i32) {
        // An end that is gone needs none.
        let _ = self.ask(format!("{}{number}", ask::SIGNAL).as_bytes());
    }

    /// Asks the program to end, and waits for that.
    fn end(&mut self) {
        self.signal(libc::SIGTERM);
        let by = system::now() + GRACE;
        let mut poll = Poll::default();
        poll.push(self.channel.as_fd());
        while !self.has_ended {
            let left = by.saturating_since(system::now());
            if left.is_zero() || poll.wait(Some(left)).is_err() {
                return;
            }
            if poll.is_ready(0) && self.hear().is_err() {
                return;
            }
        }
    }

    /// Packets that the device dropped.
    fn drops(&mut self) -> u64 {
        if self.is_gone || self.ask(ask::DROPS).is_err() {
            return 0;
        }
        loop {
            match self.hear() {
                Ok(Told::Drops(count)) => return count,
                Ok(Told::Gone) | Err(_) => return 0,
                Ok(_) => {}
            }
        }
    }
}

fn unexpected(told: Told) -> EmulationError {
    let (status, message) = match told {
        Told::Failed(status, reason) => (status, reason),
        _ => (125, "a namespace ended before it could be used".to_owned()),
    };
    EmulationError { status, message }
}

/// The thread that moves packets.
struct Running {
    stop: UnixStream,
    thread: JoinHandle<(Report, Option<io::Error>)>,
}

impl Running {
    fn start(pump: Pump, realtime: bool, processor: Option<usize>) -> Result<Running, EmulationError> {
        let (stop, stopped) = UnixStream::pair().map_err(cannot("start the emulator"))?;
        let run = move || pump.run(&stopped, realtime, processor);
        let thread = thread::Builder::new().name("emulator".into()).spawn(run);
        Ok(Running { stop, thread: thread.map_err(cannot("start the emulator"))? })
    }

    fn stop(mut self) -> (Report, Option<io::Error>) {
        // The thread may have ended by itself.
        let _ = self.stop.write_all(b"x");
        self.thread.join().unwrap_or_default()
    }
}
