//! The file of saved paths, which a client keeps from one run of a program to the next: address tokens of servers and
//! the saved parameters of the paths to them (RFC 9959).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_proto::config::{SavedPathStore, TokenStore};
use thalweg_proto::recovery::SavedPath;
use thalweg_units::Rate;

/// The first line: what the file is, and which version of it.
const HEADER: &str = "thalweg saved paths 1";
/// The first line of files that an earlier version wrote. They are read, too, and get the new one when they are
/// written.
const OLD_HEADER: &str = "thalweg known paths 1";
/// Servers that a file has; the one not used for the longest time makes room for another.
const SERVERS: usize = 256;
/// Tokens kept per server.
const TOKENS_PER_SERVER: usize = 2;
/// Longer tokens are not kept: ours have about 80 bytes.
const LONGEST_TOKEN: usize = 512;
/// Longer names are not kept: a host name has at most 253 characters.
const LONGEST_NAME: usize = 300;
/// Larger files are refused: 256 servers with all that they may have fill less.
const LARGEST_FILE: u64 = 1 << 20;
/// For how long what was learned about a path is kept, in seconds.
const PATH_LIFETIME: u64 = 3_600;
/// For how long a token is kept, in seconds: as long as our servers accept one.
const TOKEN_LIFETIME: u64 = 7 * 24 * 3_600;

/// Why a file of saved paths cannot be used. The file is left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedPathsError {
    /// It cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// "read" or "write".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is another kind of file.
    #[error("{} is not a file of saved paths, whose first line is \"{HEADER}\"; name another file", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A line of it cannot be understood.
    #[error("{}, line {line}: {reason}; correct the line, or delete the file: it is written anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is accepted.
        reason: &'static str,
    },
}

/// What is saved of one server. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
struct SavedServer {
    /// The server's address, what was learned about the path to it, and when.
    path: Option<(IpAddr, SavedPath, u64)>,
    /// Oldest first, with the time at which each came.
    tokens: VecDeque<(Vec<u8>, u64)>,
}

impl SavedServer {
    /// When it was last used.
    fn latest(&self) -> u64 {
        let path = self.path.map(|(_, _, learned)| learned);
        path.into_iter().chain(self.tokens.iter().map(|(_, received)| *received)).max().unwrap_or(0)
    }

    fn forget_what_expired(&mut self, now: u64) {
        // What comes from the future was written by a clock that was wrong, or is.
        let is_fresh = |since: u64, lifetime: u64| now.checked_sub(since).is_some_and(|age| age <= lifetime);
        self.path = self.path.filter(|(_, _, learned)| is_fresh(*learned, PATH_LIFETIME));
        self.tokens.retain(|(_, received)| is_fresh(*received, TOKEN_LIFETIME));
    }

    fn push_token(&mut self, token: Vec<u8>, received: u64) {
        self.tokens.push_back((token, received));
        if self.tokens.len() > TOKENS_PER_SERVER {
            self.tokens.pop_front();
        }
    }

    fn is_empty(&self) -> bool {
        self.path.is_none() && self.tokens.is_empty()
    }
}

type Servers = BTreeMap<String, SavedServer>;

/// Keeps address tokens and what was saved of paths in a file, of the 256 servers last used: tokens for a
/// week, paths for an hour.
///
/// It is read when opened and written by [`save`](Self::save), as a whole: a program that dies meanwhile leaves the old
/// file. Programs that share a file keep what the others have learned about other servers.
///
/// Whoever reads the file learns which servers were visited, when, from how fast a network, and can be taken for this
/// client by the servers that gave the tokens. Only its owner may read it. A server that sees a token links the
/// connection with the one that it was given on: delete the file to be unknown again. When the network changes, what
/// is saved of paths does not hold; the round-trip time of most other networks gives that away, and what is sent then
/// is bounded by the policy `resume`.
#[derive(Debug)]
pub struct SavedPaths {
    file: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    servers: Servers,
    /// About these something has changed since the file was read.
    changed: BTreeSet<String>,
}

impl SavedPaths {
    /// Reads a file; one that does not exist has saved nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is another kind of file or is damaged.
    pub fn open(file: impl Into<PathBuf>) -> Result<SavedPaths, SavedPathsError> {
        let file = file.into();
        let servers = read(&file, seconds())?;
        Ok(SavedPaths { file, inner: Mutex::new(Inner { servers, ..Inner::default() }) })
    }

    /// Writes what has changed to the file, which is replaced as a whole.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is not what it was any more; then it is left as it is.
    pub fn save(&self) -> Result<(), SavedPathsError> {
        let now = seconds();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.changed.is_empty() {
            return Ok(());
        }
        let mut servers = read(&self.file, now)?;
        for name in &inner.changed {
            match inner.servers.get(name) {
                Some(server) => servers.insert(name.clone(), server.clone()),
                None => servers.remove(name),
            };
        }
        prune(&mut servers, now);
        thalweg_output::write_private(&self.file, print(&servers).as_bytes())
            .map_err(|source| SavedPathsError::Io { what: "write", path: self.file.clone(), source })?;
        inner.changed.clear();
        Ok(())
    }

    /// Changes what is saved of a server, if its name can be written down.
    fn change<R: Default>(&self, server_name: &str, change: impl FnOnce(&mut SavedServer, u64) -> R) -> R {
        if !is_name(server_name) {
            return R::default();
        }
        let now = seconds();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let server = inner.servers.entry(server_name.to_owned()).or_default();
        server.forget_what_expired(now);
        let before = server.clone();
        let result = change(server, now);
        if *server != before {
            inner.changed.insert(server_name.to_owned());
        }
        prune(&mut inner.servers, now);
        while inner.changed.len() > SERVERS {
            inner.changed.pop_first();
        }
        result
    }
}

impl TokenStore for SavedPaths {
    fn insert(&self, server_name: &str, token: Vec<u8>) {
        if (1..=LONGEST_TOKEN).contains(&token.len()) {
            self.change(server_name, |server, now| server.push_token(token, now));
        }
    }

    fn take(&self, server_name: &str) -> Option<Vec<u8>> {
        self.change(server_name, |server, _| server.tokens.pop_back().map(|(token, _)| token))
    }
}

impl SavedPathStore for SavedPaths {
    fn insert(&self, server_name: &str, remote: SocketAddr, saved: SavedPath) {
        self.change(server_name, |server, now| {
            let learned = now.saturating_sub(saved.age.as_secs());
            server.path = Some((remote.ip(), SavedPath { age: Duration::ZERO, ..saved }, learned));
        });
    }

    fn take(&self, server_name: &str, remote: SocketAddr) -> Option<SavedPath> {
        self.change(server_name, |server, now| {
            let (ip, saved, learned) = server.path?;
            if ip != remote.ip() {
                return None;
            }
            server.path = None;
            Some(SavedPath { age: Duration::from_secs(now.saturating_sub(learned)), ..saved })
        })
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Drops what has expired, and the servers not used for the longest time if there are too many.
fn prune(servers: &mut Servers, now: u64) {
    servers.retain(|_, server| {
        server.forget_what_expired(now);
        !server.is_empty()
    });
    while servers.len() > SERVERS {
        let oldest = servers.iter().min_by_key(|(_, server)| server.latest()).map(|(name, _)| name.clone());
        if let Some(name) = oldest {
            servers.remove(&name);
        }
    }
}

fn read(path: &Path, now: u64) -> Result<Servers, SavedPathsError> {
    let failed = |source| SavedPathsError::Io { what: "read", path: path.to_owned(), source };
    // A device or a pipe would never end, and a pipe not even open.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(SavedPathsError::Foreign { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Servers::new()),
        Err(error) => return Err(failed(error)),
    }
    let file = fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    match parse(&bytes) {
        Ok(Some(mut servers)) => {
            prune(&mut servers, now);
            Ok(servers)
        }
        Ok(None) => Err(SavedPathsError::Foreign { path: path.to_owned() }),
        Err((line, reason)) => Err(SavedPathsError::Damaged { path: path.to_owned(), line, reason }),
    }
}

/// One line per item, fields separated by spaces.
fn print(servers: &Servers) -> String {
    let mut out = format!("{HEADER}\n");
    for (name, server) in servers {
        if let Some((ip, saved, learned)) = &server.path {
            let rtt = u64::try_from(saved.min_rtt.as_nanos()).unwrap_or(u64::MAX);
            let rate = saved.rate.map_or(0, Rate::bps);
            let _ = writeln!(out, "path {name} {ip} {} {rtt} {rate} {learned}", saved.window);
        }
        for (token, received) in &server.tokens {
            let _ = write!(out, "token {name} {received} ");
            for byte in token {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('\n');
        }
    }
    out
}

/// The servers of a file; `None` if it is another kind of file, else the first line that cannot be understood and why.
fn parse(bytes: &[u8]) -> Result<Option<Servers>, (usize, &'static str)> {
    let below = |header: &str| bytes.strip_prefix(header.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
    let Some(rest) = below(HEADER).or_else(|| below(OLD_HEADER)) else { return Ok(None) };
    let mut servers = Servers::new();
    if bytes.len() as u64 > LARGEST_FILE {
        return Err((1, "the file has more than 1 MiB"));
    }
    for (index, line) in rest.split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() {
            parse_line(line, &mut servers).map_err(|reason| (index + 2, reason))?;
        }
    }
    Ok(Some(servers))
}

fn parse_line(line: &[u8], servers: &mut Servers) -> Result<(), &'static str> {
    const NUMBER: &str = "a number is missing, or too large";
    let line = str::from_utf8(line).map_err(|_| "the line is not text")?;
    let mut fields = line.split(' ');
    let mut next = || fields.next().ok_or("the line ends too early");
    let number = |text: &str| text.parse::<u64>().map_err(|_| NUMBER);
    let kind = next()?;
    let name = next()?;
    if !is_name(name) {
        return Err("the server has no name of 1 to 300 printable characters");
    }
    match kind {
        "path" => {
            let ip: IpAddr = next()?.parse().map_err(|_| "the third field is no IP address")?;
            let (window, rtt, rate) = (number(next()?)?, number(next()?)?, number(next()?)?);
            let learned = number(next()?)?;
            let (min_rtt, rate) = (Duration::from_nanos(rtt), (rate > 0).then(|| Rate::from_bps(rate)));
            let saved = SavedPath { window, min_rtt, rate, age: Duration::ZERO };
            servers.entry(name.to_owned()).or_default().path = Some((ip, saved, learned));
        }
        "token" => {
            let received = number(next()?)?;
            let token = unhex(next()?).ok_or("the token is not 1 to 512 bytes in hexadecimal")?;
            servers.entry(name.to_owned()).or_default().push_token(token, received);
        }
        _ => return Err("the line begins neither with \"path\" nor with \"token\""),
    }
    match fields.next() {
        None => Ok(()),
        Some(_) => Err("the line has more fields than it should"),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0 && (2..=2 * LONGEST_TOKEN).contains(&digits.len()))?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests;
