//! A UDP relay on loopback: the links of the lab (`thalweg_link`) on real sockets and a real clock.
//!
//! `thalweg demo` and tests put it between a client and a server. It listens on a loopback port and passes datagrams to
//! a loopback address and back, each way over one [`Direction`] that all clients share. Everything it holds is bounded,
//! and it refuses addresses outside this machine. The clock is that of tokio, so datagrams leave up to a millisecond
//! late.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use socket2::{Domain, Socket, Type};
use thalweg_link::{Direction, DirectionConfig, Packet, RateModel, Streams};
use thalweg_units::{Ecn, Instant, Rate};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Clients (by address) that a relay serves at most; more are ignored.
const MAX_FLOWS: usize = 256;
/// Datagrams on the way in each direction at most; more are dropped.
const MAX_HELD: u64 = 8 * 1024;
/// Kernel buffers wanted for each socket; the kernel may give less.
const SOCKET_BUFFER: usize = 4 << 20;
/// Bytes of the headers of IPv4 and UDP, which take their time on a link.
const HEADERS: usize = 28;

/// The links of a relay.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// From clients to the target.
    pub up: DirectionConfig,
    /// From the target to clients.
    pub down: DirectionConfig,
    /// Seeds every choice.
    pub seed: u64,
}

impl RelayConfig {
    /// The same in both directions.
    pub fn both_ways(direction: DirectionConfig) -> RelayConfig {
        RelayConfig { up: direction.clone(), down: direction, seed: 1 }
    }
}

impl Default for RelayConfig {
    /// Datagrams pass as they come.
    fn default() -> Self {
        RelayConfig::both_ways(DirectionConfig { rate: RateModel::Constant(Rate::MAX), ..DirectionConfig::default() })
    }
}

/// Datagrams of a relay so far, both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Passed on.
    pub forwarded: u64,
    /// Lost on purpose, because the relay was cut, or because there was no room.
    pub dropped: u64,
    /// Passed on after one that had come later.
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
    /// `InvalidInput` if `target` is not a loopback address, or if the link cannot work (a rate of zero); else what the
    /// system says about the sockets.
    pub async fn start(target: SocketAddr, port: u16, config: RelayConfig) -> io::Result<Relay> {
        let refuse = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        if !target.ip().is_loopback() {
            return Err(refuse(format!("{target} is not on this machine; a relay only joins loopback addresses")));
        }
        let streams = Streams::new(config.seed).scope("relay");
        let direction = |name: &str, config: &DirectionConfig| {
            Direction::new(config, Instant::ZERO, &streams.scope(name)).map_err(|error| refuse(error.to_string()))
        };
        let front = Arc::new(socket(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))?);
        let address = front.local_addr()?;
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            target,
            shared: shared.clone(),
            start: tokio::time::Instant::now(),
            up: Way { link: direction("up", &config.up)?, arrived: Vec::new() },
            down: Way { link: direction("down", &config.down)?, arrived: Vec::new() },
            numbers: BTreeMap::new(),
            flows: Vec::new(),
            refused: 0,
            front,
        };
        Ok(Relay { address, shared, task: tokio::spawn(worker.run()) })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the network (`true`: everything that comes is lost) or mends it.
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

/// A client and the socket that speaks for it to the target.
#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    upstream: Arc<UdpSocket>,
    reader: JoinHandle<()>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// One direction: the link, and what has arrived at its far end.
#[derive(Debug)]
struct Way {
    link: Direction<Vec<u8>>,
    arrived: Vec<(Instant, Packet<Vec<u8>>)>,
}

impl Way {
    /// Puts a datagram on the link, unless there is no room.
    fn send(&mut self, now: Instant, flow: u32, payload: Vec<u8>) -> bool {
        let stats = self.link.stats();
        if stats.offered.saturating_sub(stats.dropped_total()).saturating_sub(stats.delivered) >= MAX_HELD {
            return false;
        }
        let size = u32::try_from(payload.len() + HEADERS).unwrap_or(u32::MAX);
        let packet = Packet { payload, size, flow, connection: 0, ecn: Ecn::NotEct, sent: now, tail: false };
        self.link.send(now, packet, &mut self.arrived);
        true
    }
}

#[derive(Debug)]
struct Worker {
    front: Arc<UdpSocket>,
    target: SocketAddr,
    shared: Arc<Shared>,
    /// The origin of the links' time.
    start: tokio::time::Instant,
    up: Way,
    down: Way,
    /// The number of each client's flow: its place in `flows`.
    numbers: BTreeMap<SocketAddr, u32>,
    flows: Vec<Flow>,
    /// Datagrams that came while the network was cut, found no room, or could not be sent on.
    refused: u64,
}

impl Worker {
    async fn run(mut self) {
        let (down, mut from_target) = mpsc::channel::<(u32, Vec<u8>)>(4096);
        let mut buffer = vec![0; 65_536];
        loop {
            let next = [&self.up, &self.down].into_iter().filter_map(|way| way.link.next_event()).min();
            let next = next.map(|at| self.start + at.saturating_since(Instant::ZERO));
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
                    if let Ok((len, client)) = received && let Some(flow) = self.admit(client, &down) {
                        self.offer(flow, true, buffer[..len].to_vec());
                    }
                }
                Some((flow, datagram)) = from_target.recv() => self.offer(flow, false, datagram),
            }
            self.pass_on().await;
        }
    }

    /// The time on the links.
    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// The number of the client's flow, a new one if there is room.
    fn admit(&mut self, client: SocketAddr, down: &mpsc::Sender<(u32, Vec<u8>)>) -> Option<u32> {
        if let Some(number) = self.numbers.get(&client) {
            return Some(*number);
        }
        if !client.ip().is_loopback() || self.flows.len() >= MAX_FLOWS {
            return None;
        }
        let any = if self.target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let upstream = Arc::new(any.parse().ok().and_then(|any| socket(any).ok())?);
        let number = u32::try_from(self.flows.len()).ok()?;
        let (socket, down, target) = (upstream.clone(), down.clone(), self.target);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            loop {
                if let Ok((len, from)) = socket.recv_from(&mut buffer).await
                    && from == target
                    && down.send((number, buffer[..len].to_vec())).await.is_err()
                {
                    return;
                }
            }
        });
        self.numbers.insert(client, number);
        self.flows.push(Flow { client, upstream, reader });
        Some(number)
    }

    /// Offers a datagram to a link.
    fn offer(&mut self, flow: u32, up: bool, datagram: Vec<u8>) {
        let now = self.now();
        let way = if up { &mut self.up } else { &mut self.down };
        if self.shared.cut.load(Ordering::Relaxed) || !way.send(now, flow, datagram) {
            self.refused += 1;
        }
    }

    /// Passes on what has arrived at the far ends of the links, and publishes what they count.
    async fn pass_on(&mut self) {
        let now = self.now();
        let (mut dropped, mut reordered) = (self.refused, 0);
        for way in [&mut self.up, &mut self.down] {
            way.link.advance(now, &mut way.arrived);
            dropped += way.link.stats().dropped_total();
            reordered += way.link.stats().reordered;
        }
        self.shared.dropped.store(dropped, Ordering::Relaxed);
        self.shared.reordered.store(reordered, Ordering::Relaxed);
        let up = self.up.arrived.drain(..).map(|arrived| (true, arrived));
        for (up, (_, packet)) in up.chain(self.down.arrived.drain(..).map(|arrived| (false, arrived))) {
            let Some(flow) = self.flows.get(packet.flow as usize) else { continue };
            let sent = match up {
                true => flow.upstream.send_to(&packet.payload, self.target).await,
                false => self.front.send_to(&packet.payload, flow.client).await,
            };
            match sent {
                Ok(_) => _ = self.shared.forwarded.fetch_add(1, Ordering::Relaxed),
                Err(_) => self.refused += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thalweg_link::{LossModel, Probability, QueueLimit, Reorder};
    use tokio::time::Instant as Clock;

    use super::*;

    /// A link without a limit to its rate.
    fn unlimited() -> DirectionConfig {
        RelayConfig::default().up
    }

    /// 9.6 kbps: 30 bytes take 25 ms.
    fn slow() -> DirectionConfig {
        DirectionConfig { rate: RateModel::Constant(Rate::from_bps(9_600)), ..DirectionConfig::default() }
    }

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
        let loss = vec![LossModel::Random(Probability::ratio(1, 5))];
        let config = RelayConfig::both_ways(DirectionConfig { loss, ..unlimited() });
        let relay = Relay::start(target, 0, config).await.unwrap();
        let back = exchange(&relay, 400).await.len();
        assert!((200..320).contains(&back), "0.8 × 0.8 × 400 = 256, got {back}");
    }

    #[tokio::test]
    async fn reorders_and_delays() {
        let (target, _echo) = echo().await;
        let config = RelayConfig::both_ways(DirectionConfig {
            delay: Duration::from_millis(20).into(),
            reorder: vec![Reorder { share: Probability::ratio(1, 5), by: Duration::from_millis(30) }],
            ..unlimited()
        });
        let relay = Relay::start(target, 0, config).await.unwrap();
        let start = Clock::now();
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
    async fn a_rate_spaces_datagrams() {
        let (target, _echo) = echo().await;
        let relay = Relay::start(target, 0, RelayConfig::both_ways(slow())).await.unwrap();
        let start = Clock::now();
        assert_eq!(exchange(&relay, 3).await, [0, 1, 2]);
        // Three up, and the last of them down.
        assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    }

    fn way(config: &DirectionConfig) -> Way {
        let link = Direction::new(config, Instant::ZERO, &Streams::new(1)).unwrap();
        Way { link, arrived: Vec::new() }
    }

    #[test]
    fn what_waits_is_bounded() {
        let queue = QueueLimit::Bytes(256 * 1024);
        let mut slow = way(&DirectionConfig { queue, ..slow() });
        let fit = 256 * 1024 / 60_000;
        // One is being sent, and the queue holds as many as fit.
        assert!((0..fit + 3).all(|_| slow.send(Instant::ZERO, 0, vec![0; 60_000])));
        assert_eq!(slow.link.stats().dropped_total(), 2);
        let delay = Duration::from_secs(1);
        let mut long = way(&DirectionConfig { delay: delay.into(), ..unlimited() });
        let taken = (0..MAX_HELD + 3).filter(|_| long.send(Instant::ZERO, 0, vec![0; 2])).count();
        assert_eq!(taken as u64, MAX_HELD);
        // What has arrived makes room. Without a limit to the rate a datagram takes a nanosecond.
        let later = Instant::ZERO + delay + Duration::from_millis(1);
        long.link.advance(later, &mut long.arrived);
        assert_eq!(long.arrived.len() as u64, MAX_HELD);
        assert!(long.send(later, 0, vec![0; 2]));
    }

    #[tokio::test]
    async fn a_rate_of_zero_is_refused() {
        let (target, _echo) = echo().await;
        let rate = RateModel::Constant(Rate::ZERO);
        let config = RelayConfig::both_ways(DirectionConfig { rate, ..DirectionConfig::default() });
        let error = Relay::start(target, 0, config).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("rate"), "{error}");
    }

    #[tokio::test]
    async fn refuses_to_leave_the_machine() {
        let target = SocketAddr::from(([192, 0, 2, 1], 4433));
        let error = Relay::start(target, 0, RelayConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
