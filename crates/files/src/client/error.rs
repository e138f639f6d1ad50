//! Errors of the client, each with the remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::report::Protocol;
use crate::certificate::CertificateError;

/// Why a file was not fetched or stored. Messages state the remedy.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used.
    #[error("{url}: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong and what would be accepted.
        why: &'static str,
    },
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The certificates to trust cannot be read.
    #[error(transparent)]
    Roots(Arc<CertificateError>),
    /// The name has no address.
    #[error("cannot find the address of {host}: {why}; check the spelling and the name server")]
    Resolve {
        /// Host name.
        host: String,
        /// What the system said.
        why: String,
    },
    /// Nobody could be reached.
    #[error(
        "cannot connect to {authority}: {}; check that the server is running and that the port is right",
        list(attempts)
    )]
    Connect {
        /// Host and port.
        authority: String,
        /// What happened at each address.
        attempts: Vec<Attempt>,
    },
    /// The server's certificate is not trusted.
    #[error("{0}")]
    Certificate(Box<Untrusted>),
    /// TLS failed for another reason than the certificate.
    #[error("TLS with {authority} failed: {why}")]
    Tls {
        /// Host and port.
        authority: String,
        /// What TLS said.
        why: String,
    },
    /// The server or the network broke the exchange off.
    #[error("{url}: {protocol} exchange failed: {why}{}", kept_hint(kept))]
    Exchange {
        /// Which URL.
        url: String,
        /// Over which protocol.
        protocol: Protocol,
        /// What happened.
        why: String,
        /// What was kept on disk.
        kept: Option<Kept>,
        /// Whether the connection is gone, so that a new one may do better.
        lost: bool,
    },
    /// Nothing arrived for too long.
    #[error("{url}: nothing arrived for {}{}", seconds(silence), kept_hint(kept))]
    Stalled {
        /// Which URL.
        url: String,
        /// How long.
        silence: Duration,
        /// What was kept on disk.
        kept: Option<Kept>,
        /// Whether nothing at all was received from the server, so that a new connection may do better.
        lost: bool,
    },
    /// Nothing arrived for too long, and further attempts did not help.
    #[error("{url}: {why}{}", kept_hint(kept))]
    Abandoned {
        /// Which URL.
        url: String,
        /// What happened, and how often it was tried again.
        why: String,
        /// What was kept on disk.
        kept: Option<Kept>,
    },
    /// The body ended before its promised length.
    #[error("{url}: the body ended after {got} of {expected} bytes{}", kept_hint(kept))]
    Incomplete {
        /// Which URL.
        url: String,
        /// Bytes received, earlier parts included.
        got: u64,
        /// Bytes promised.
        expected: u64,
        /// What was kept on disk.
        kept: Option<Kept>,
    },
    /// The body was longer than its promised length.
    #[error("{url}: the server sent more than the {expected} bytes it promised; the file was not stored")]
    TooLong {
        /// Which URL.
        url: String,
        /// Bytes promised.
        expected: u64,
    },
    /// The server answered with an error.
    #[error("{url}: the server answered {status}{}", reason(*status))]
    Status {
        /// Which URL.
        url: String,
        /// Status code.
        status: u16,
    },
    /// The server answered something that HTTP does not allow here.
    #[error("{url}: {why}")]
    Answer {
        /// Which URL.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The server keeps sending us elsewhere.
    #[error("{url}: more than {limit} redirects; the server sends the client in circles")]
    Redirects {
        /// Where it began.
        url: String,
        /// How many were followed.
        limit: usize,
    },
    /// A local file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A local file cannot be written.
    #[error("cannot write {path}: {source}{}{}", advice(source), kept_hint(kept))]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
        /// What was kept on disk.
        kept: Option<Kept>,
    },
    /// The task was stopped from outside.
    #[error("{url}: stopped{}", kept_hint(kept))]
    Stopped {
        /// Which URL.
        url: String,
        /// What was kept on disk.
        kept: Option<Kept>,
    },
}

/// The kind of an [enum@Error], stable for exit codes and scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The request itself is wrong: URL, settings, roots file.
    Usage,
    /// The name has no address.
    Name,
    /// The server cannot be reached or the network failed.
    Network,
    /// The server's certificate is not trusted.
    Trust,
    /// The peer breaks the protocol.
    Protocol,
    /// The server answered with an error status.
    Http,
    /// The local file system failed.
    Local,
    /// Stopped from outside.
    Stopped,
}

impl Category {
    /// A stable lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Category::Usage => "usage",
            Category::Name => "name",
            Category::Network => "network",
            Category::Trust => "trust",
            Category::Protocol => "protocol",
            Category::Http => "http",
            Category::Local => "local",
            Category::Stopped => "stopped",
        }
    }
}

impl Error {
    /// The kind of this error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Error::Url { .. } | Error::Settings(_) | Error::Roots(_) => Category::Usage,
            Error::Resolve { .. } => Category::Name,
            Error::Connect { .. }
            | Error::Exchange { .. }
            | Error::Stalled { .. }
            | Error::Abandoned { .. }
            | Error::Incomplete { .. } => Category::Network,
            Error::Certificate(_) => Category::Trust,
            Error::Tls { .. } | Error::TooLong { .. } | Error::Answer { .. } | Error::Redirects { .. } => {
                Category::Protocol
            }
            Error::Status { .. } => Category::Http,
            Error::Read { .. } | Error::Write { .. } => Category::Local,
            Error::Stopped { .. } => Category::Stopped,
        }
    }

    /// What of the file is on disk and can be resumed from.
    #[must_use]
    pub fn kept(&self) -> Option<&Kept> {
        match self {
            Error::Exchange { kept, .. }
            | Error::Stalled { kept, .. }
            | Error::Abandoned { kept, .. }
            | Error::Incomplete { kept, .. }
            | Error::Write { kept, .. }
            | Error::Stopped { kept, .. } => kept.as_ref(),
            _ => None,
        }
    }

    /// This error, after `count` further attempts that ended with `last`.
    pub(super) fn after_attempts(self, count: u32, last: &Error) -> Self {
        let tried = |why: &dyn std::fmt::Display| {
            let attempts = if count == 1 { "1 further attempt" } else { &format!("{count} further attempts") };
            let last = last.cause();
            format!("{why}; {attempts} did not help, the last one: {last}")
        };
        match self {
            Error::Exchange { url, protocol, why, kept, lost } => {
                Error::Exchange { url, protocol, why: tried(&why), kept, lost }
            }
            Error::Stalled { url, silence, .. } => Error::Abandoned {
                url,
                why: tried(&format_args!("nothing arrived for {}", seconds(&silence))),
                kept: None,
            },
            other => other,
        }
    }

    /// What happened, without the URL and what was kept.
    pub(super) fn cause(&self) -> String {
        match self {
            Error::Exchange { why, .. } | Error::Abandoned { why, .. } => why.clone(),
            Error::Stalled { silence, .. } => format!("nothing arrived for {}", seconds(silence)),
            other => other.to_string(),
        }
    }

    pub(super) fn with_kept(mut self, new: Option<Kept>) -> Self {
        match &mut self {
            Error::Exchange { kept, .. }
            | Error::Stalled { kept, .. }
            | Error::Abandoned { kept, .. }
            | Error::Incomplete { kept, .. }
            | Error::Write { kept, .. }
            | Error::Stopped { kept, .. } => *kept = new,
            _ => {}
        }
        self
    }
}

/// A partial file on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its name.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether `resume` can continue it (the server gave a strong entity tag, or a modification date old enough).
    pub resumable: bool,
}

/// What happened at one address.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The address.
    pub address: SocketAddr,
    /// QUIC or TCP.
    pub transport: &'static str,
    /// What went wrong.
    pub why: String,
}

/// A certificate that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untrusted {
    /// Host and port.
    pub authority: String,
    /// Why it was refused.
    pub why: String,
    /// What can be done.
    pub advice: String,
    /// SHA-256 of its public key, base64, if it could be read.
    pub spki_sha256: Option<String>,
}

impl std::fmt::Display for Untrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the certificate of {} is not trusted: {}; {}", self.authority, self.why, self.advice)?;
        if let Some(spki) = &self.spki_sha256 {
            write!(f, " (its key is sha256/{spki})")?;
        }
        Ok(())
    }
}

fn list(attempts: &[Attempt]) -> String {
    let texts: Vec<String> =
        attempts.iter().map(|Attempt { address, transport, why }| format!("{transport} to {address}: {why}")).collect();
    if texts.is_empty() { "no address answered".into() } else { texts.join("; ") }
}

fn seconds(duration: &Duration) -> String {
    format!("{:.0} s", duration.as_secs_f64())
}

fn reason(status: u16) -> String {
    let text = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .map_or(String::new(), |reason| format!(" {reason}"));
    let advice = match status {
        401 | 407 => "; pass the credentials it wants as a header",
        403 => "; it does not let you read or write this",
        404 | 410 => "; check the path",
        405 => "; it does not do this here (an upload needs a server that allows it)",
        409 => "; the directory must exist and nothing else may have that name",
        412 => "; the file on the server is not in the version you asked for",
        413 => "; the file is larger than it accepts",
        429 | 503 => "; it is busy, try again later",
        500..=599 => "; it has a problem of its own, try again later",
        _ => "",
    };
    text + advice
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; choose a directory you may write to",
        io::ErrorKind::NotFound => "; create the directory first",
        io::ErrorKind::IsADirectory => "; give the name of a file in it",
        io::ErrorKind::BrokenPipe => "; whoever was to read it has gone",
        io::ErrorKind::FileTooLarge => "; this file system cannot hold a file that large",
        _ => "",
    }
}

fn kept_hint(kept: &Option<Kept>) -> String {
    match kept {
        Some(Kept { path, bytes, resumable: true }) => format!(
            "; {} of it are kept in {}: run the same again with --resume",
            crate::site::human_size(*bytes),
            path.display()
        ),
        Some(Kept { path, bytes, resumable: false }) => format!(
            "; {} of it are in {}, but the server gave nothing to resume by: fetch it again",
            crate::site::human_size(*bytes),
            path.display()
        ),
        None => String::new(),
    }
}
