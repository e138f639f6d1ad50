//! Evidence lines: what a stack reports about a connection that is over.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What happened on one connection. `None` means that the stack cannot tell; the runner then relies on the other side.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Counts from 1, in the order of the connections.
    pub number: usize,
    pub version: Option<u32>,
    pub cipher: Option<u16>,
    pub alpn: Option<String>,
    pub resumed: Option<bool>,
    /// Whether 0-RTT data was accepted.
    pub early_data: Option<bool>,
    pub retry: Option<bool>,
    pub key_updates: Option<u64>,
    /// Packets (or datagrams) sent with an ECT mark.
    pub ecn_sent: Option<u64>,
    /// Packets (or datagrams) received with a mark.
    pub ecn_received: Option<u64>,
    /// Marked packets that the peer's ACK frames reported.
    pub ecn_acked: Option<u64>,
    pub streams: usize,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INTEROP conn={}", self.number)?;
        if let Some(version) = self.version {
            write!(f, " version=0x{version:08x}")?;
        }
        if let Some(cipher) = self.cipher {
            write!(f, " cipher=0x{cipher:04x}")?;
        }
        if let Some(alpn) = &self.alpn {
            write!(f, " alpn={alpn}")?;
        }
        if let Some(resumed) = self.resumed {
            write!(f, " resumed={}", u8::from(resumed))?;
        }
        if let Some(accepted) = self.early_data {
            write!(f, " early_data={}", if accepted { "accepted" } else { "none" })?;
        }
        if let Some(retry) = self.retry {
            write!(f, " retry={}", u8::from(retry))?;
        }
        for (key, value) in [
            ("key_updates", self.key_updates),
            ("ecn_sent", self.ecn_sent),
            ("ecn_received", self.ecn_received),
            ("ecn_acked", self.ecn_acked),
        ] {
            if let Some(value) = value {
                write!(f, " {key}={value}")?;
            }
        }
        write!(f, " streams={}", self.streams)
    }
}

type Report = Box<dyn Fn() -> Evidence + Send + Sync>;

/// The connections of this process. Each is reported once: when it ends, or when the process is asked to end.
#[derive(Clone, Default)]
pub struct Ledger {
    entries: Arc<Mutex<Vec<Option<Report>>>>,
}

impl Ledger {
    /// Enters a connection; `report` is called once, at its end.
    pub fn open(&self, report: impl Fn() -> Evidence + Send + Sync + 'static) -> usize {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Some(Box::new(report)));
        entries.len()
    }

    /// Prints the line of a connection, unless that was done.
    pub fn close(&self, number: usize) {
        let report =
            self.entries.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number - 1).and_then(Option::take);
        if let Some(report) = report {
            println!("{}", Evidence { number, ..report() });
        }
    }

    /// Prints the lines of all connections that are still open.
    pub fn close_all(&self) {
        let count = self.entries.lock().unwrap_or_else(PoisonError::into_inner).len();
        for number in 1..=count {
            self.close(number);
        }
    }
}

/// Counts requests.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
