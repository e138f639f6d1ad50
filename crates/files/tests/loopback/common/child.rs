//! A server in a process of its own, so that its memory can be measured without its clients'.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::server::{Server, ServerOptions};
use thalweg_files::site::{Site, SiteOptions};

/// Tells the child process which directory to serve.
const SITE: &str = "THALWEG_TEST_SITE";
/// What the child process says before its address.
const READY: &str = "server process listens on ";

/// The name of the ignored test that is the child process.
const ENTRY: &str = "server_process";

/// A running server. Dropping it ends the process.
pub struct ServerProcess {
    pub address: SocketAddr,
    child: Child,
}

impl ServerProcess {
    /// Serves `site` with the options of the `serve` command.
    pub fn start(site: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--ignored", "--nocapture"])
            .env(SITE, site)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the server process ended before it listened");
            if let Some((_, address)) = line.split_once(READY) {
                break address.trim().parse().unwrap();
            }
        };
        Self { address, child }
    }

    /// Resident memory, bytes.
    pub fn memory(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
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
        let options = ServerOptions::new("127.0.0.1:0".parse().unwrap(), site, store);
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
