//! A lossy UDP relay on loopback: what stands in for a bad network in `thalweg demo` and in tests.
//!
//! It listens on a loopback port and passes datagrams to a loopback address and back, losing, delaying, slowing and
//! reordering some of them by a seeded choice. It is a stand-in, not a link model: real time, no queue discipline.
//! Everything it holds is bounded, and it refuses addresses outside this machine.

use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use thalweg_units::Rate;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Clients (by address) that a relay serves at most; more are ignored.
const MAX_FLOWS: usize = 256;
/// Bytes a relay holds per direction at most when it has a rate: a queue of 256 kB, about 100 ms at 20 Mbps.
const MAX_QUEUE: u64 = 256 * 1024;
/// Datagrams a relay holds in all; more are dropped.
const MAX_HELD: usize = 16 * 1024;
/// Kernel buffers wanted for each socket; the kernel may give less.
const SOCKET_BUFFER: usize = 4 << 20;

/// What a relay does to datagrams, the same in both directions.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Of a million datagrams, how many are lost.
    pub loss_per_million: u32,
    /// How long each is held, one way.
    pub delay: Duration,
    /// Of a million datagrams, how many are held for `reorder_by` longer, so that later ones overtake them.
    pub reorder_per_million: u32,
    /// See `reorder_per_million`.
    pub reorder_by: Duration,
    /// How fast datagrams may leave, each way; `None`: as they come.
    pub rate: Option<Rate>,
    /// Seeds every choice.
    pub seed: u64,
}

impl Default for RelayConfig {
    fn default() -> Self {
        RelayConfig {
            loss_per_million: 0,
            delay: Duration::ZERO,
            reorder_per_million: 0,
            reorder_by: Duration::ZERO,
            rate: None,
            seed: 1,
        }
    }
}

/// What a relay has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Datagrams passed on.
    pub forwarded: u64,
    /// Datagrams lost on purpose, because the relay was cut, or because its queue was full.
    pub dropped: u64,
    /// Datagrams held longer.
    pub reordered: u64,
}

#[derive(Debug, Default)]
struct Shared {
    cut: AtomicBool,
    forwarded: AtomicU64,
    dropped: AtomicU64,
    reordered: AtomicU64,
}

/// A running relay; dropping it ends it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Starts a relay to `target` on a free port of 127.0.0.1, or on `port` if it is not 0.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `target` is not a loopback address; else what the system says about the sockets.
    pub async fn start(target: SocketAddr, port: u16, config: RelayConfig) -> io::Result<Relay> {
        if !target.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{target} is not on this machine; a relay only joins loopback addresses"),
            ));
        }
        let front = Arc::new(socket(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))?);
        let address = front.local_addr()?;
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            front,
            target,
            shared: shared.clone(),
            random: SplitMix(config.seed),
            flows: BTreeMap::new(),
            held: BinaryHeap::new(),
            sequence: 0,
            free_at: [Instant::now(); 2],
            config,
        };
        Ok(Relay { address, shared, task: tokio::spawn(worker.run()) })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the network (`true`: everything is lost) or mends it.
    pub fn set_cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::Relaxed);
    }

    /// What it has done so far.
    pub fn counts(&self) -> RelayCounts {
        RelayCounts {
            forwarded: self.shared.forwarded.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            reordered: self.shared.reordered.load(Ordering::Relaxed),
        }
    }
}

fn socket(bind: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(bind), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    // Smaller buffers only mean more losses than asked for.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&bind.into())?;
    UdpSocket::from_std(socket.into())
}

/// The generator of Steele, Lea and Flood (2014); small, and the same everywhere.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, per_million: u32) -> bool {
        // One draw per question, asked or not, so that one rate does not shift the choices of another.
        self.next() % 1_000_000 < u64::from(per_million)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    /// Negated order: the heap gives the greatest first.
    due: std::cmp::Reverse<(Instant, u64)>,
    client: SocketAddr,
    up: bool,
    datagram: Vec<u8>,
}

#[derive(Debug)]
struct Flow {
    upstream: Arc<UdpSocket>,
    reader: JoinHandle<()>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[derive(Debug)]
struct Worker {
    front: Arc<UdpSocket>,
    target: SocketAddr,
    config: RelayConfig,
    shared: Arc<Shared>,
    random: SplitMix,
    flows: BTreeMap<SocketAddr, Flow>,
    held: BinaryHeap<Held>,
    sequence: u64,
    /// When the line is free again, up and down.
    free_at: [Instant; 2],
}

impl Worker {
    async fn run(mut self) {
        let (down, mut from_target) = mpsc::channel::<(SocketAddr, Vec<u8>)>(4096);
        let mut buffer = vec![0; 65_536];
        loop {
            let next = self.held.peek().map(|held| held.due.0.0);
            let wait = async {
                match next {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = wait => {}
                received = self.front.recv_from(&mut buffer) => {
                    // An ICMP error of an earlier datagram is no reason to stop.
                    if let Ok((len, client)) = received && self.admit(client, &down) {
                        self.hold(client, true, buffer[..len].to_vec());
                    }
                }
                Some((client, datagram)) = from_target.recv() => self.hold(client, false, datagram),
            }
            self.release().await;
        }
    }

    /// Whether `client` has a flow, or can get one.
    fn admit(&mut self, client: SocketAddr, down: &mpsc::Sender<(SocketAddr, Vec<u8>)>) -> bool {
        if self.flows.contains_key(&client) {
            return true;
        }
        if !client.ip().is_loopback() || self.flows.len() >= MAX_FLOWS {
            return false;
        }
        let any = if self.target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let Some(upstream) = any.parse().ok().and_then(|any| socket(any).ok()) else {
            return false;
        };
        let upstream = Arc::new(upstream);
        let (socket, down, target) = (upstream.clone(), down.clone(), self.target);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            loop {
                if let Ok((len, from)) = socket.recv_from(&mut buffer).await
                    && from == target
                    && down.send((client, buffer[..len].to_vec())).await.is_err()
                {
                    return;
                }
            }
        });
        self.flows.insert(client, Flow { upstream, reader });
        true
    }

    /// Decides what becomes of a datagram.
    fn hold(&mut self, client: SocketAddr, up: bool, datagram: Vec<u8>) {
        let lost = self.random.chance(self.config.loss_per_million);
        let late = self.random.chance(self.config.reorder_per_million);
        if lost || self.shared.cut.load(Ordering::Relaxed) || self.held.len() >= MAX_HELD {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let now = Instant::now();
        let mut due = now;
        if let Some(rate) = self.config.rate {
            let free_at = &mut self.free_at[usize::from(up)];
            let start = (*free_at).max(now);
            if rate.bytes_in(start - now) > MAX_QUEUE {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            *free_at = start + rate.time_for(datagram.len() as u64);
            due = *free_at;
        }
        due += self.config.delay;
        if late {
            due += self.config.reorder_by;
            self.shared.reordered.fetch_add(1, Ordering::Relaxed);
        }
        self.sequence += 1;
        let due = std::cmp::Reverse((due, self.sequence));
        self.held.push(Held { due, client, up, datagram });
    }

    /// Passes on what is due.
    async fn release(&mut self) {
        let now = Instant::now();
        while self.held.peek().is_some_and(|held| held.due.0.0 <= now) {
            let Some(held) = self.held.pop() else { return };
            let sent = if held.up {
                match self.flows.get(&held.client) {
                    Some(flow) => flow.upstream.send_to(&held.datagram, self.target).await,
                    None => continue,
                }
            } else {
                self.front.send_to(&held.datagram, held.client).await
            };
            let counter = if sent.is_ok() { &self.shared.forwarded } else { &self.shared.dropped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> (SocketAddr, JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.send_to(&buffer[..len], from).await;
            }
        });
        (address, task)
    }

    /// Sends `count` numbered datagrams and returns the numbers that come back within 300 ms.
    async fn exchange(relay: &Relay, count: u16) -> Vec<u16> {
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for number in 0..count {
            client.send_to(&number.to_be_bytes(), relay.address()).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut back = Vec::new();
        let mut buffer = [0; 16];
        while back.len() < usize::from(count) {
            match tokio::time::timeout(Duration::from_millis(300), client.recv(&mut buffer)).await {
                Ok(Ok(2)) => back.push(u16::from_be_bytes([buffer[0], buffer[1]])),
                _ => break,
            }
        }
        back
    }

    #[tokio::test]
    async fn passes_both_ways_in_order() {
        let (target, _echo) = echo().await;
        let relay = Relay::start(target, 0, RelayConfig::default()).await.unwrap();
        assert_eq!(exchange(&relay, 50).await, (0..50).collect::<Vec<_>>());
        assert_eq!(relay.counts().forwarded, 100);
    }

    #[tokio::test]
    async fn loses_about_what_it_is_told() {
        let (target, _echo) = echo().await;
        let config = RelayConfig { loss_per_million: 200_000, ..RelayConfig::default() };
        let relay = Relay::start(target, 0, config).await.unwrap();
        let back = exchange(&relay, 400).await.len();
        assert!((200..320).contains(&back), "0.8 × 0.8 × 400 = 256, got {back}");
    }

    #[tokio::test]
    async fn reorders_and_delays() {
        let (target, _echo) = echo().await;
        let config = RelayConfig {
            delay: Duration::from_millis(20),
            reorder_per_million: 200_000,
            reorder_by: Duration::from_millis(30),
            ..RelayConfig::default()
        };
        let relay = Relay::start(target, 0, config).await.unwrap();
        let start = Instant::now();
        let back = exchange(&relay, 50).await;
        assert!(start.elapsed() >= Duration::from_millis(40));
        assert_eq!(back.len(), 50);
        assert!(!back.is_sorted());
    }

    #[tokio::test]
    async fn a_cut_line_loses_everything_until_it_is_mended() {
        let (target, _echo) = echo().await;
        let relay = Relay::start(target, 0, RelayConfig::default()).await.unwrap();
        relay.set_cut(true);
        assert!(exchange(&relay, 5).await.is_empty());
        relay.set_cut(false);
        assert_eq!(exchange(&relay, 5).await.len(), 5);
    }

    #[tokio::test]
    async fn refuses_to_leave_the_machine() {
        let target = SocketAddr::from(([192, 0, 2, 1], 4433));
        let error = Relay::start(target, 0, RelayConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
