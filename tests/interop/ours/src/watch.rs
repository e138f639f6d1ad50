//! Counts of what happened on each connection, taken from the events that thalweg gives to an observer.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use contract::evidence::Evidence;
use thalweg::proto::observe::{FrameInfo, ObservedConnection, Observer, ObserverEvent, ObserverFactory, PacketKind};
use thalweg::proto::qlog::{QlogWriter, file_name};
use thalweg::recovery::Ecn;
use thalweg::{Connection, Instant};

/// What one connection's observer counted.
#[derive(Debug, Default)]
pub struct Seen {
    ecn_sent: AtomicU64,
    ecn_received: AtomicU64,
    ecn_acked: AtomicU64,
    early_packets: AtomicU64,
    retry: AtomicBool,
}

/// Makes the observers; connections are taken in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    connections: Arc<Mutex<Vec<Arc<Seen>>>>,
}

impl Watch {
    /// The counts of the connection that began last.
    pub fn latest(&self) -> Arc<Seen> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).last().cloned().unwrap_or_default()
    }
}

impl ObserverFactory for Watch {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let seen = Arc::new(Seen::default());
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        Some(Box::new(Counting { seen, qlog: qlog(connection) }))
    }
}

/// A trace in `QLOGDIR`, if set.
fn qlog(connection: &ObservedConnection<'_>) -> Option<QlogWriter<BufWriter<File>>> {
    let folder = std::env::var_os("QLOGDIR")?;
    let file = File::create(Path::new(&folder).join(file_name(connection))).ok()?;
    QlogWriter::new(BufWriter::new(file), connection, None).ok()
}

struct Counting {
    seen: Arc<Seen>,
    qlog: Option<QlogWriter<BufWriter<File>>>,
}

impl Observer for Counting {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        if let Some(qlog) = &mut self.qlog {
            qlog.on_event(now, event);
        }
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match event {
            ObserverEvent::PacketSent(packet) if packet.ecn != Ecn::NotEct => {
                add(&self.seen.ecn_sent);
            }
            ObserverEvent::PacketReceived(packet) => {
                if packet.ecn != Ecn::NotEct {
                    add(&self.seen.ecn_received);
                }
                match packet.kind {
                    PacketKind::Retry => self.seen.retry.store(true, Ordering::Relaxed),
                    PacketKind::ZeroRtt => {
                        add(&self.seen.early_packets);
                    }
                    PacketKind::OneRtt => {
                        for frame in packet.frames {
                            if let FrameInfo::Ack { ecn: Some(counts), .. } = frame {
                                self.seen.ecn_acked.fetch_max(counts.iter().sum(), Ordering::Relaxed);
                            }
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl Seen {
    /// Whether a Retry packet was seen; that none was seen proves nothing.
    pub fn retry(&self) -> Option<bool> {
        self.retry.load(Ordering::Relaxed).then_some(true)
    }

    /// Whether 0-RTT packets were decrypted.
    pub fn early_packets(&self) -> bool {
        self.early_packets.load(Ordering::Relaxed) > 0
    }

    /// What is known of a connection, but for retry, early data and streams, which client and server learn differently.
    pub fn evidence(&self, connection: &Connection) -> Evidence {
        Evidence {
            version: Some(connection.version().0),
            cipher: connection.cipher_suite().and_then(cipher_code),
            alpn: connection.alpn().map(|alpn| String::from_utf8_lossy(&alpn).into_owned()),
            resumed: Some(connection.resumed()),
            key_updates: Some(connection.stats().key_updates),
            ecn_sent: Some(self.ecn_sent.load(Ordering::Relaxed)),
            ecn_received: Some(self.ecn_received.load(Ordering::Relaxed)),
            ecn_acked: Some(self.ecn_acked.load(Ordering::Relaxed)),
            ..Evidence::default()
        }
    }
}

fn cipher_code(name: &str) -> Option<u16> {
    match name {
        "TLS13_AES_128_GCM_SHA256" => Some(0x1301),
        "TLS13_AES_256_GCM_SHA384" => Some(0x1302),
        "TLS13_CHACHA20_POLY1305_SHA256" => Some(0x1303),
        _ => None,
    }
}
