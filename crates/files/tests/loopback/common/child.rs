//! A server in a process of its own, so that its memory can be measured without its clients'.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::server::{Server, ServerOptions};
use thalweg_files::site::{Site, SiteOptions};

/// The variable for the child process: the directory to serve.
const SITE: &str = "THALWEG_TEST_SITE";
/// The variable for the child process: the memory it may take, bytes.
const MEMORY: &str = "THALWEG_TEST_MEMORY";
/// Names a program to run as the server instead, with its `serve` command.
const PROGRAM: &str = "THALWEG_TEST_PROGRAM";
/// What the child process says before its address.
const READY: &str = "server process listens on ";

/// The name of the ignored test that is the child process.
const ENTRY: &str = "server_process";

/// A running server. Dropping it ends the process.
pub struct ServerProcess {
    pub address: SocketAddr,
    child: Child,
    /// Kept open: the test harness of the child process writes to it after a minute, and gives up if it cannot.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Serves `site` with the options of the `serve` command.
    pub fn start(site: &Path) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()).env(SITE, site))
    }

    /// The same, within so many bytes of memory.
    pub fn start_within(site: &Path, memory: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::run(command.env(SITE, site).env(MEMORY, memory.to_string()))
    }

    /// Serves `site` by the program that the environment names, by default as [`start`](Self::start).
    pub fn start_shipped(site: &Path) -> Self {
        let Some(program) = std::env::var_os(PROGRAM) else { return Self::start(site) };
        let mut command = Command::new(program);
        command.arg("serve").arg(site).args(["--listen", "127.0.0.1:0", "--json", "--quiet"]);
        Self::spawn(&mut command, |line| {
            let (_, rest) = line.split_once("\"address\":\"")?;
            rest.split('"').next()?.parse().ok()
        })
    }

    fn run(command: &mut Command) -> Self {
        Self::spawn(command.args(["--exact", ENTRY, "--ignored", "--nocapture"]), |line| {
            line.split_once(READY)?.1.trim().parse().ok()
        })
    }

    /// Starts a process that says its address in a line of its own.
    fn spawn(command: &mut Command, address: impl Fn(&str) -> Option<SocketAddr>) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the server process ended before it listened");
            if let Some(address) = address(&line) {
                break address;
            }
        };
        Self { address, child, _output: lines }
    }

    /// Resident memory, bytes.
    pub fn memory(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    /// The most resident memory since it began, bytes.
    pub fn high_water(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Open files, sockets included.
    pub fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The most memory seen over `time`.
    pub async fn peak(&self, time: Duration) -> u64 {
        let end = Instant::now() + time;
        let mut peak = self.memory();
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
            peak = peak.max(self.memory());
        }
        peak
    }

    /// How much memory it has more than `before`, bytes.
    pub fn growth(&self, before: u64) -> u64 {
        self.memory().saturating_sub(before)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child process: serves until its standard input ends, so that it never outlives its parent. Does nothing unless
/// [`ServerProcess::start`] started it.
pub fn serve_until_stdin_ends() {
    let Some(directory) = std::env::var_os(SITE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let site = Site::new(directory, SiteOptions::default()).unwrap();
        let store = CertificateStore::new(&Identity::self_signed::<&str>(&[]).unwrap()).unwrap();
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap(), site, store);
        if let Ok(memory) = std::env::var(MEMORY) {
            options.memory = memory.parse().unwrap();
        }
        let server = Server::bind(options).await.unwrap();
        println!("{READY}{}", server.local_addr());
        let (gone, parent_gone) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            drop(gone);
        });
        server
            .run(async {
                let _ = parent_gone.await;
            })
            .await;
    });
}
