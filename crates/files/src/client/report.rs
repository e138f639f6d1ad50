//! Reports of a transfer: events while it runs, and a summary at its end.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg::ConnectionStats;

/// How a request travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/3 over QUIC.
    Http3,
    /// HTTP/2 over TLS over TCP.
    Http2,
    /// HTTP/1.1 over TLS over TCP.
    Http1,
}

impl Protocol {
    /// `h3`, `h2`, `http/1.1`: the ALPN name.
    #[must_use]
    pub fn alpn(self) -> &'static str {
        match self {
            Protocol::Http3 => "h3",
            Protocol::Http2 => "h2",
            Protocol::Http1 => "http/1.1",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Http3 => "HTTP/3",
            Protocol::Http2 => "HTTP/2",
            Protocol::Http1 => "HTTP/1.1",
        })
    }
}

/// A notice for people, though the transfer goes on. [`fmt::Display`] prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The host refused UDP on this port (ICMP): nobody listens for QUIC, or a firewall says no.
    UdpRefused {
        /// Host and port.
        authority: String,
    },
    /// No QUIC datagram came back in this time: UDP seems to be blocked on the way.
    UdpSilent {
        /// Host and port.
        authority: String,
        /// How long we waited.
        waited: Duration,
    },
    /// QUIC was answered but did not come to a connection.
    QuicFailed {
        /// Host and port.
        authority: String,
        /// What happened.
        why: String,
    },
    /// The file is fetched over TCP instead.
    FellBack {
        /// Host and port.
        authority: String,
        /// What is used now.
        protocol: Protocol,
    },
    /// The partial file cannot be continued and is fetched from the start.
    Restarted {
        /// Which URL.
        url: String,
        /// Why.
        why: &'static str,
    },
    /// The server sent the file in a coding, such as gzip. The bytes are kept as they came.
    Encoded {
        /// Which URL.
        url: String,
        /// The codings, in the order they were applied (RFC 9110 section 8.4).
        coding: String,
    },
    /// The connection was lost; the transfer is tried again over a new one.
    Retrying {
        /// Which URL.
        url: String,
        /// What happened.
        why: String,
        /// How many bytes of the file are here.
        here: u64,
        /// After this time.
        wait: Duration,
        /// Which attempt without progress this is, from 1.
        attempt: u32,
        /// How many there are at most.
        limit: u32,
    },
    /// The output is written in place, so that what an earlier run wrote there is not continued.
    InPlace {
        /// Its name.
        path: PathBuf,
        /// What it is: "a pipe".
        kind: String,
    },
    /// The connection uses fewer paths than it might.
    FewerPaths {
        /// Why.
        why: String,
        /// How many there are.
        paths: usize,
    },
    /// A network interface does not carry datagrams to the server and back. It is tried again.
    PathFailed {
        /// Which.
        interface: String,
        /// What happened.
        why: String,
    },
    /// The server sends us elsewhere.
    Redirected {
        /// From which URL.
        from: String,
        /// To which URL.
        to: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::UdpRefused { authority } => {
                write!(f, "{authority} refuses UDP on this port (no HTTP/3 there, or a firewall); trying TCP")
            }
            Notice::UdpSilent { authority, waited } => write!(
                f,
                "no answer over UDP from {authority} within {:.1} s: UDP seems to be blocked; trying TCP",
                waited.as_secs_f64()
            ),
            Notice::QuicFailed { authority, why } => {
                write!(f, "QUIC to {authority} failed ({why}); trying TCP")
            }
            Notice::FellBack { authority, protocol } => {
                write!(f, "connected to {authority} over TCP with {protocol}")
            }
            Notice::Restarted { url, why } => {
                write!(f, "{url}: starting again from the beginning: {why}")
            }
            Notice::Encoded { url, coding } => {
                write!(f, "{url}: the file is saved as {coding}, as the server sent it; decode it to get the original")
            }
            Notice::Retrying { url, why, here, wait, attempt, limit } => {
                write!(f, "{url}: {why}; trying again in {:.1} s (attempt {attempt} of {limit}", wait.as_secs_f64())?;
                match here {
                    0 => f.write_str(")"),
                    here => write!(f, ", {} are here)", crate::site::human_size(*here)),
                }
            }
            Notice::InPlace { path, kind } => {
                let path = path.display();
                write!(f, "{path} is {kind} and written from its beginning: only a partial file can be resumed")
            }
            Notice::FewerPaths { why, paths: 1 } => write!(f, "{why}; going on with one path"),
            Notice::FewerPaths { why, paths } => write!(f, "{why}; going on with {paths} paths"),
            Notice::PathFailed { interface, why } => {
                write!(f, "no path by {interface} for now ({why}); it is tried again")
            }
            Notice::Redirected { from, to } => write!(f, "{from}: redirected to {to}"),
        }
    }
}

/// What happens during transfers. `job` is the index in the list given to the fetcher.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// See [`Notice`].
    Notice(Notice),
    /// The job has a connection (perhaps shared with others).
    Connected {
        /// Which job.
        job: usize,
        /// Protocol in use.
        protocol: Protocol,
        /// The server's address.
        remote: SocketAddr,
        /// Time the connection took, name resolution excluded.
        handshake: Duration,
    },
    /// The head of the answer is here.
    Started {
        /// Which job.
        job: usize,
        /// Length of the whole file in bytes, if known.
        total: Option<u64>,
        /// Bytes that were on disk already.
        resumed_from: u64,
    },
    /// About ten times a second while bytes arrive, and once at the end.
    Progress {
        /// Which job.
        job: usize,
        /// Bytes of the file that are here, earlier parts included.
        bytes: u64,
        /// Length of the whole file in bytes, if known.
        total: Option<u64>,
        /// Present rate in bits per second, smoothed over about a second.
        rate_bps: u64,
    },
    /// About five times a second while a connection uses several paths.
    Paths {
        /// The server's address.
        remote: SocketAddr,
        /// Its paths, by identifier, those that are gone included.
        paths: Vec<PathFigures>,
    },
    /// The job is over; the result follows in the list.
    Finished {
        /// Which job.
        job: usize,
        /// Whether it succeeded.
        ok: bool,
    },
}

/// Where events go. Called from the transfer's task: it must not block for long.
pub type EventSink = Arc<dyn Fn(&Event) + Send + Sync>;

/// What a successful transfer was like.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The URL asked for.
    pub url: String,
    /// The URL that answered, after redirects.
    pub final_url: String,
    /// Status code.
    pub status: u16,
    /// Protocol used.
    pub protocol: Protocol,
    /// The server's address.
    pub remote: SocketAddr,
    /// Where the file is; `None` when it went to a writer or was sent.
    pub path: Option<PathBuf>,
    /// Bytes of body that travelled in this run.
    pub bytes: u64,
    /// Bytes that were on disk already.
    pub resumed_from: u64,
    /// Coding of the bytes, such as `gzip`, if the server applied one; they are kept as they came.
    pub content_encoding: Option<String>,
    /// Whether the connection resumed an earlier one's TLS session.
    pub resumed: bool,
    /// Whether the server took the request as early data (0-RTT); `None` if it was not sent so.
    pub early_data: Option<bool>,
    /// How often it was tried again after its connection was lost.
    pub retries: u32,
    /// Entity tag of the file, with its quotes.
    pub etag: Option<String>,
    /// Name resolution.
    pub resolve: Duration,
    /// Time the connection took (QUIC or TCP + TLS), name resolution excluded.
    pub handshake: Duration,
    /// From the request to the head of the answer.
    pub first_byte: Duration,
    /// From the request to the last byte.
    pub elapsed: Duration,
    /// Bytes of body over `elapsed`, in bits per second.
    pub goodput_bps: u64,
    /// The QUIC connection at that moment (shared by all jobs on it); `None` over TCP.
    pub connection: Option<ConnectionReport>,
}

/// What a QUIC connection was like.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionReport {
    /// Its counters, over all paths.
    pub stats: ConnectionStats,
    /// Its paths if it is to use several ([`FetchOptions::multipath`](super::FetchOptions::multipath)), by identifier,
    /// those that are gone included; empty otherwise.
    pub paths: Vec<PathFigures>,
}

/// A path of a connection that uses several.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PathFigures {
    /// Its identifier; 0 is the one that the connection began with.
    pub id: u32,
    /// By which network interface, if it was chosen.
    pub interface: Option<String>,
    /// From which address, if known.
    pub local: Option<IpAddr>,
    /// To which address.
    pub remote: SocketAddr,
    /// Whether data may take it.
    pub is_open: bool,
    /// Whether the server is to send by it only while no other works.
    pub is_backup: bool,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// UDP payload received, bytes.
    pub bytes_received: u64,
    /// UDP payload sent, bytes.
    pub bytes_sent: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Of these, declared lost.
    pub packets_lost: u64,
}

/// Bits per second of `bytes` over `elapsed`.
pub(super) fn rate_bps(bytes: u64, elapsed: Duration) -> u64 {
    let nanos = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 8_000_000_000 / nanos).unwrap_or(u64::MAX)
}

/// Counts bytes and decides when a progress event is due.
#[derive(Debug)]
pub(super) struct Meter {
    job: usize,
    sink: EventSinkRef,
    total: Option<u64>,
    bytes: u64,
    /// Bytes and moment of the last event.
    last: (u64, Instant),
    rate_bps: Option<u64>,
}

/// Time between progress events.
const INTERVAL: Duration = Duration::from_millis(100);

impl Meter {
    pub(super) fn new(job: usize, sink: EventSinkRef, total: Option<u64>, bytes: u64) -> Self {
        Self { job, sink, total, bytes, last: (bytes, Instant::now()), rate_bps: None }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let elapsed = self.last.1.elapsed();
        if elapsed >= INTERVAL {
            self.emit(elapsed);
        }
    }

    pub(super) fn finish(&mut self) {
        let elapsed = self.last.1.elapsed();
        self.emit(elapsed);
    }

    fn emit(&mut self, elapsed: Duration) {
        let now_bps = rate_bps(self.bytes - self.last.0, elapsed);
        // Weight of the newest interval: all of it after a second, a tenth after 100 ms.
        let rate = match self.rate_bps {
            None => now_bps,
            Some(old) => {
                let weight = elapsed.as_millis().min(1000);
                let mixed = u128::from(old) * (1000 - weight) + u128::from(now_bps) * weight;
                u64::try_from(mixed / 1000).unwrap_or(u64::MAX)
            }
        };
        self.rate_bps = Some(rate);
        self.last = (self.bytes, Instant::now());
        self.sink.emit(&Event::Progress { job: self.job, bytes: self.bytes, total: self.total, rate_bps: rate });
    }
}

/// A sink or nobody.
#[derive(Clone, Default)]
pub(super) struct EventSinkRef(pub Option<EventSink>);

impl EventSinkRef {
    pub(super) fn emit(&self, event: &Event) {
        if let Some(sink) = &self.0 {
            sink(event);
        }
    }

    pub(super) fn notice(&self, notice: Notice) {
        self.emit(&Event::Notice(notice));
    }
}

impl fmt::Debug for EventSinkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSink")
    }
}
