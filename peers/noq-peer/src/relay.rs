//! A UDP relay on loopback, one for each path: it limits the rate, counts, and breaks on demand.
//!
//! Without a limit noq would carry nearly everything by its first path: it fills the lowest one first.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::UdpSocket,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Bits per second, each way. What comes faster waits in the socket, or is lost when that is full.
const RATE: u64 = 60_000_000;
/// How far ahead of the rate a burst may be: timers are not finer than this.
const AHEAD: Duration = Duration::from_millis(2);

/// What clients send to it goes on to a server, and back.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<io::Result<()>>>>,
}

struct Shared {
    front: UdpSocket,
    server: SocketAddr,
    client: Mutex<Option<SocketAddr>>,
    /// Towards the server; another one after a rebinding.
    upstream: Mutex<Arc<UdpSocket>>,
    is_cut: AtomicBool,
    up: AtomicU64,
    down: AtomicU64,
}

impl Relay {
    /// A relay to `server`.
    pub async fn start(server: SocketAddr) -> io::Result<Relay> {
        let front = loopback().await?;
        let address = front.local_addr()?;
        let upstream = Arc::new(loopback().await?);
        let shared = Arc::new(Shared {
            front,
            server,
            client: Mutex::default(),
            upstream: Mutex::new(upstream.clone()),
            is_cut: AtomicBool::new(false),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
        });
        let tasks = vec![tokio::spawn(shared.clone().go_up()), tokio::spawn(shared.clone().go_down(upstream))];
        Ok(Relay { address, shared, tasks: Mutex::new(tasks) })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes nothing on any more.
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::Relaxed);
    }

    /// Goes on with another port towards the server, as a NAT does that has forgotten the client. Returns its address.
    pub async fn rebind(&self) -> io::Result<SocketAddr> {
        let upstream = Arc::new(loopback().await?);
        *lock(&self.shared.upstream) = upstream.clone();
        let address = upstream.local_addr()?;
        let mut tasks = lock(&self.tasks);
        // What the server still sends to the old port is lost.
        if let Some(old) = tasks.pop() {
            old.abort();
        }
        tasks.push(tokio::spawn(self.shared.clone().go_down(upstream)));
        Ok(address)
    }

    /// Bytes that reached the client.
    pub fn down(&self) -> u64 {
        self.shared.down.load(Ordering::Relaxed)
    }

    /// Bytes that reached the server.
    pub fn up(&self) -> u64 {
        self.shared.up.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

impl Shared {
    async fn go_up(self: Arc<Self>) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        let mut pace = Pace::new();
        loop {
            let (len, client) = self.front.recv_from(&mut buffer).await?;
            *lock(&self.client) = Some(client);
            pace.wait(len).await;
            let upstream = lock(&self.upstream).clone();
            if !self.is_cut.load(Ordering::Relaxed) && upstream.send_to(&buffer[..len], self.server).await.is_ok() {
                self.up.fetch_add(len as u64, Ordering::Relaxed);
            }
        }
    }

    async fn go_down(self: Arc<Self>, upstream: Arc<UdpSocket>) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        let mut pace = Pace::new();
        loop {
            let (len, _) = upstream.recv_from(&mut buffer).await?;
            pace.wait(len).await;
            let Some(client) = *lock(&self.client) else { continue };
            if !self.is_cut.load(Ordering::Relaxed) && self.front.send_to(&buffer[..len], client).await.is_ok() {
                self.down.fetch_add(len as u64, Ordering::Relaxed);
            }
        }
    }
}

/// When the next datagram may leave.
struct Pace(Instant);

impl Pace {
    fn new() -> Pace {
        Pace(Instant::now())
    }

    async fn wait(&mut self, len: usize) {
        let now = Instant::now();
        self.0 = self.0.max(now) + Duration::from_nanos(len as u64 * 8 * 1_000_000_000 / RATE);
        if self.0 > now + AHEAD {
            sleep_until(self.0).await;
        }
    }
}

async fn loopback() -> io::Result<UdpSocket> {
    UdpSocket::bind("127.0.0.1:0").await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
