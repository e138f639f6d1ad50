//! Runs the built program against itself on loopback.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_cli::content::{sha256_file, write_file};

/// Longest that anything here may take before the test fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments, without the caller's settings.
pub fn thalweg(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(args).env_remove("QLOGDIR").env_remove("SSLKEYLOGFILE").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Output {
    finish(thalweg(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Waits for a child with piped output; kills it when it takes too long.
pub fn finish(mut child: Child) -> Output {
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let status = wait(&mut child);
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Waits for the end; kills and fails when it takes too long.
pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("still running after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `ready` says so.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sends a signal by name to a process that this test started.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}

/// The JSON lines of an output.
pub fn json_lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A directory with a site and room for downloads.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("site")).unwrap();
        Place { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `path`, as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Adds a file to the site; returns its SHA-256.
    pub fn add(&self, name: &str, size: u64) -> String {
        write_file(&self.path("site").join(name), size, size + 1).unwrap()
    }

    pub fn sha256(&self, name: &str) -> String {
        sha256_file(&self.path(name)).unwrap()
    }

    pub fn size(&self, name: &str) -> Option<u64> {
        std::fs::metadata(self.path(name)).ok().map(|meta| meta.len())
    }
}

/// A running `thalweg serve`; dropping it kills it.
pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    /// For `--pin`.
    pub pin: String,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub fn start(directory: &Path, more: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", directory, more)
    }

    pub fn start_at(listen: &str, directory: &Path, more: &[&str]) -> Self {
        let mut args = vec!["serve", directory.to_str().unwrap(), "--listen", listen, "--json"];
        args.extend(more);
        let mut child = thalweg(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(hello["event"], "listening");
        Server {
            address: hello["address"].as_str().unwrap().parse().unwrap(),
            pin: hello["spki_sha256"].as_str().unwrap().to_owned(),
            child,
            stdout,
        }
    }

    pub fn url(&self, name: &str) -> String {
        format!("https://{}/{name}", self.address)
    }

    pub fn url_at(address: SocketAddr, name: &str) -> String {
        format!("https://{address}/{name}")
    }

    /// The next line of the access log.
    pub fn logged(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
