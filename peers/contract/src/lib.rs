//! The interop contract of `tests/interop/README.md`, for peers written in Rust: environment, exit codes, files.

pub mod evidence;
pub mod http3;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Any error; the peers only ever print it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Application protocol of every case but `http3`: a `GET /path` line per bidirectional stream, the bare file as
/// answer.
pub const ALPN_HQ: &[u8] = b"hq-interop";

/// Error code with which a request for a missing file is reset.
pub const NOT_FOUND: u32 = 0x404;

/// The exit code that says "this stack lacks the case".
const UNSUPPORTED: u8 = 127;

/// Which side the program plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Client,
    Server,
}

/// What the runner asks for.
#[derive(Clone, Debug)]
pub struct Task {
    pub role: Role,
    /// Name of the case, `TESTCASE`.
    pub case: String,
}

impl Task {
    /// Reads the role from the arguments and the case from the environment.
    ///
    /// # Errors
    /// The exit code to end with: 127 if the case is not among `supported`, 2 if the call is wrong.
    pub fn from_env(supported: &[&str]) -> Result<Self, ExitCode> {
        let role = match std::env::args().nth(1).as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            _ => {
                eprintln!("usage: TESTCASE=... PROGRAM client|server (see tests/interop/README.md)");
                return Err(ExitCode::from(2));
            }
        };
        let case = std::env::var("TESTCASE").unwrap_or_default();
        if !supported.contains(&case.as_str()) {
            eprintln!("no such case here: {case:?}");
            return Err(ExitCode::from(UNSUPPORTED));
        }
        Ok(Self { role, case })
    }

    /// Whether this is the case `name`.
    pub fn is(&self, name: &str) -> bool {
        self.case == name
    }

    /// The application protocol of the case.
    pub fn alpn(&self) -> &'static [u8] {
        if self.is("http3") { b"h3" } else { ALPN_HQ }
    }

    /// The URLs of the client, one group per connection: two groups where a session is to be resumed.
    pub fn requests(&self) -> Result<Vec<Vec<Request>>, Failure> {
        let urls = variable("REQUESTS")?;
        let all: Vec<Request> = urls.split_whitespace().map(Request::parse).collect::<Result<_, _>>()?;
        Ok(match all.split_first() {
            Some((first, rest)) if self.is("resumption") || self.is("zerortt") => {
                vec![vec![first.clone()], rest.to_vec()]
            }
            _ => vec![all],
        })
    }
}

/// Turns the outcome of `main` into an exit code.
pub fn finish(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A required variable of the environment.
pub fn variable(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

/// A socket address from the environment.
pub fn address(name: &str) -> Result<SocketAddr, Failure> {
    let text = variable(name)?;
    text.parse().map_err(|_| format!("{name}={text}: not an IP address and port").into())
}

/// Says to the runner that the server is ready.
pub fn announce(address: SocketAddr) {
    println!("INTEROP listening={address}");
}

/// Waits for the signal with which the runner ends a server.
pub async fn terminated() -> io::Result<()> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?.recv().await;
    Ok(())
}

/// One file to fetch.
#[derive(Clone, Debug)]
pub struct Request {
    pub url: String,
    /// Starts with a slash.
    pub path: String,
}

impl Request {
    fn parse(url: &str) -> Result<Self, Failure> {
        let rest = url.strip_prefix("https://").ok_or_else(|| format!("{url}: not an https URL"))?;
        let path = &rest[rest.find('/').ok_or_else(|| format!("{url}: no path"))?..];
        Ok(Self { url: url.to_owned(), path: path.to_owned() })
    }

    /// The request line of HTTP/0.9.
    pub fn line(&self) -> String {
        format!("GET {}\r\n", self.path)
    }

    /// Where the file goes: under `DOWNLOADS`, by its last name.
    pub fn target(&self) -> Result<PathBuf, Failure> {
        let name = Path::new(&self.path).file_name().ok_or_else(|| format!("{}: no file name", self.url))?;
        Ok(Path::new(&variable("DOWNLOADS")?).join(name))
    }
}

/// Reads the file that an HTTP/0.9 request line names.
pub fn read_for_line(line: &[u8]) -> Result<Vec<u8>, Failure> {
    let line = str::from_utf8(line)?.trim();
    let path = line.strip_prefix("GET ").ok_or_else(|| format!("not a GET line: {line:?}"))?;
    read_for_path(path)
}

/// Reads a file of `WWW`.
pub fn read_for_path(path: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(path.trim_start_matches('/'));
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(format!("{}: not a plain path", path.display()).into());
    }
    Ok(std::fs::read(Path::new(&variable("WWW")?).join(path))?)
}
