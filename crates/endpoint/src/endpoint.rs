//! The endpoint: sockets, workers, and where connections begin.

use std::{
    fmt,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use thalweg_proto::{
    cid::{CidGenerator, RandomCid, WorkerCid},
    endpoint::{Endpoint as Machine, EndpointConfig},
    streams::Budget,
    token::ResetKey,
};
use tokio::sync::Notify;

use crate::{
    cell::{Cell, ConnectionRef, wake_all},
    clock::Clock,
    config::{ClientConfig, DEFAULT_BACKLOG, ServerConfig},
    connection::Connecting,
    driver::Driver,
    error::{AcceptError, ConnectError},
    incoming::Incoming,
    shared::{Limits, Shared},
    socket::{CAN_SHARE_PORT, Socket, Warning, bind, join, to_family},
    worker::{Counters, Worker},
};

/// Socket buffer to ask for: what arrives at 10 Gbit/s in 3 ms, which a busy driver may need to come back.
const SOCKET_BUFFER: usize = 4 << 20;
/// Bytes that all connections may hold for their peers together, unless set otherwise. One connection gets half of it
/// at most, which is what a path of 10 Gbit/s and 200 ms holds.
const SEND_BUDGET: u64 = 512 << 20;
/// More workers than this serve nobody, and a connection ID has a byte for them.
const WORKERS_MOST: usize = 128;

/// Builds an [`Endpoint`] where [`Endpoint::client`] and [`Endpoint::server`] leave too little choice.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let endpoint = thalweg::EndpointBuilder::new().workers(2).socket_buffer(8 << 20).bind("[::]:0".parse().unwrap())?;
/// for warning in endpoint.warnings() {
///     eprintln!("warning: {warning}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndpointBuilder {
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    workers: Option<usize>,
    socket_buffer: Option<usize>,
    seed: Option<[u8; 32]>,
    reset_key: Option<[u8; 32]>,
    memory_budget: Option<u64>,
    send_budget: Option<u64>,
    one_connection: bool,
}

impl EndpointBuilder {
    /// An endpoint that neither connects nor accepts until configured to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts connections with this configuration.
    pub fn server(mut self, config: ServerConfig) -> Self {
        self.server = Some(config);
        self
    }

    /// Connects with this configuration by default.
    pub fn client(mut self, config: ClientConfig) -> Self {
        self.client = Some(config);
        self
    }

    /// Sets the number of workers, each with a socket and a task of its own, 1 to 128.
    ///
    /// Default: one per core for servers, one for clients. More than one needs a multi-threaded runtime to be of use.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers.clamp(1, WORKERS_MOST));
        self
    }

    /// Sets the size of each socket's receive and send buffer to ask the system for, bytes. Default 4 MiB.
    ///
    /// If the system grants less, [`Endpoint::warnings`] reports it and the remedy.
    pub fn socket_buffer(mut self, bytes: usize) -> Self {
        self.socket_buffer = Some(bytes);
        self
    }

    /// Limits what all connections together hold of received data that their applications have not read, bytes.
    ///
    /// Beyond it, peers get no new flow control credit until something is read; no connection is closed for it.
    /// Default: no limit but those of [`StreamsConfig`](crate::StreamsConfig) for each connection. A configuration with
    /// a budget of its own keeps that.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Limits what all connections together hold of written data that their peers have not acknowledged, bytes.
    /// Default 512 MiB.
    ///
    /// A connection holds at most as much as is left for all others: it is never shut out by those that came before it,
    /// and gets at most half. When nothing is left, writers wait; no connection is closed for it. Streams that the peer
    /// gives no credit hold 8 KiB at most in any case. A configuration with a budget of its own
    /// ([`StreamsConfig::send_budget`](crate::StreamsConfig::send_budget)) keeps that.
    pub fn send_budget(mut self, bytes: u64) -> Self {
        self.send_budget = Some(bytes);
        self
    }

    /// Makes an endpoint for one connection at a time, as client: its socket alone determines whose a datagram is, so
    /// its connection IDs have no length (RFC 9000 section 5.1).
    ///
    /// A received datagram is 8 bytes shorter. A server can follow the client to any number of addresses, while one
    /// that does not retire the IDs of former addresses runs out of those of other clients. A further connection while
    /// there is one is refused with [`ConnectError::TooManyConnections`]. Without effect on an endpoint that accepts
    /// connections or has several workers. Default: no, IDs of 8 bytes.
    pub fn one_connection(mut self) -> Self {
        self.one_connection = true;
        self
    }

    /// Sets the key that stateless resets are made with (RFC 9000 section 10.3.2).
    ///
    /// With the same secret key before and after, a server that was restarted can report to clients that it has lost
    /// their connections; without, they wait for their idle timeout. Servers that run at the same time must not share a
    /// key: each would end the other's connections for whoever asks it to (section 21.11). Default: random.
    pub fn reset_key(mut self, key: [u8; 32]) -> Self {
        self.reset_key = Some(key);
        self
    }

    /// Replaces the system's randomness by a generator started with `seed`: for tests only, everything becomes
    /// guessable.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Binds the sockets and starts the workers. Must be called inside a tokio runtime with I/O and time enabled.
    ///
    /// A client's additional workers bind ports of their own.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound, or the system gives no random numbers.
    pub fn bind(self, address: SocketAddr) -> io::Result<Endpoint> {
        let mut warnings = Vec::new();
        let mut count = self.worker_count();
        let serves = self.server.is_some();
        if serves && count > 1 && !CAN_SHARE_PORT {
            warnings.push(Warning::NoPortSharing);
            count = 1;
        }
        let first = bind(address, serves && count > 1)?;
        let local = first.local_addr()?;
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(if serves { join(local)? } else { bind(SocketAddr::new(address.ip(), 0), false)? });
        }
        self.start(sockets, warnings)
    }

    /// Starts one worker on a socket bound elsewhere. Must be called inside a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used, or the system gives no random numbers.
    pub fn with_socket(self, socket: std::net::UdpSocket) -> io::Result<Endpoint> {
        self.start(vec![socket], Vec::new())
    }

    fn worker_count(&self) -> usize {
        match (self.workers, &self.server) {
            (Some(workers), _) => workers,
            (None, Some(_)) => std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MOST),
            (None, None) => 1,
        }
    }

    fn start(self, sockets: Vec<std::net::UdpSocket>, mut warnings: Vec<Warning>) -> io::Result<Endpoint> {
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => random()?,
        };
        let buffer = self.socket_buffer.unwrap_or(SOCKET_BUFFER);
        let sockets = sockets
            .into_iter()
            .map(|socket| Socket::new(socket, buffer, &mut warnings).map(Arc::new))
            .collect::<io::Result<Vec<_>>>()?;
        let Some(local) = sockets.first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let clock = Clock::new();
        let limits = self.server.as_ref().map_or(
            Limits { connections: usize::MAX, handshakes: usize::MAX, backlog: DEFAULT_BACKLOG },
            ServerConfig::limits,
        );
        let budget = self.memory_budget.map(Budget::new);
        let send_budget = Budget::new(self.send_budget.unwrap_or(SEND_BUDGET));
        let cid_key = derive(&seed, 0);
        let shared = Arc::new(Shared {
            clock,
            workers: OnceLock::new(),
            cid_key: u64::from_be_bytes(*cid_key.first_chunk().unwrap_or(&[0; 8])),
            limits: Mutex::new(limits),
            budget,
            send_budget,
            socket_buffer: buffer,
            local_addr: Mutex::new(local.local_addr()?),
            warnings: Mutex::new(warnings),
            accept: Mutex::default(),
            serves: AtomicBool::new(self.server.is_some()),
            closed: AtomicBool::new(false),
            handles: AtomicUsize::new(1),
            connections: AtomicUsize::new(0),
            handshakes: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            idle: Notify::new(),
        });
        let count = sockets.len();
        let reset_key = self.reset_key.unwrap_or_else(|| derive(&seed, 1));
        let workers: Vec<Arc<Worker>> = (0..count)
            .map(|index| {
                let index = index as u8; // at most WORKERS_MOST
                let cids: Box<dyn CidGenerator> = match self.one_connection && self.server.is_none() && count == 1 {
                    true => Box::new(RandomCid { len: 0 }),
                    false => Box::new(WorkerCid::new(index, count as u8, shared.cid_key)),
                };
                let config = EndpointConfig {
                    seed: derive(&seed, 2 + u64::from(index)),
                    cids,
                    reset_key: ResetKey::new(&reset_key),
                };
                let server = self.server.as_ref().map(|config| shared.server_config(config, count));
                Arc::new(Worker::new(index, Machine::new(config, server)))
            })
            .collect();
        // The cell is new: setting it cannot fail.
        let _ = shared.workers.set(workers.clone());
        for (worker, socket) in workers.into_iter().zip(sockets) {
            runtime.spawn(Driver::new(shared.clone(), worker, socket));
        }
        Ok(Endpoint {
            shared,
            runtime,
            client: Arc::new(Mutex::new(self.client)),
            next_worker: Arc::new(AtomicUsize::new(0)),
        })
    }
}

/// 32 bytes from the system.
fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// One of several independent keys from a seed.
fn derive(seed: &[u8; 32], number: u64) -> [u8; 32] {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut generator = rand_chacha::ChaCha20Rng::from_seed(*seed);
    generator.set_stream(number);
    let mut key = [0; 32];
    generator.fill_bytes(&mut key);
    key
}

/// One or several UDP sockets and the QUIC connections over them, as client, server or both.
///
/// Cheap to clone; clones are the same endpoint. When all clones are gone, connections live on as long as their own
/// handles do, and no new ones are accepted.
pub struct Endpoint {
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    /// What [`connect`](Self::connect) uses.
    client: Arc<Mutex<Option<ClientConfig>>>,
    next_worker: Arc<AtomicUsize>,
}

impl Endpoint {
    /// A client bound to `bind`: `[::]:0` for any address of either family, `0.0.0.0:0` for IPv4 only.
    ///
    /// It connects once it has a configuration, which names the application protocol (ALPN). Must be called inside a
    /// tokio runtime.
    ///
    /// ```no_run
    /// # #[cfg(feature = "native-roots")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let endpoint = thalweg::Endpoint::client("[::]:0".parse()?)?;
    /// endpoint.set_default_client_config(thalweg::ClientConfig::with_native_roots(&[b"h3"])?);
    /// let connection = endpoint.connect("192.0.2.7:4433".parse()?, "example.org")?.await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub fn client(bind: SocketAddr) -> io::Result<Self> {
        EndpointBuilder::new().bind(bind)
    }

    /// A server bound to `bind` with one worker per core.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub fn server(config: ServerConfig, bind: SocketAddr) -> io::Result<Self> {
        EndpointBuilder::new().server(config).bind(bind)
    }

    /// Sets the configuration that [`connect`](Self::connect) uses, of all clones.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    /// The configuration that [`connect`](Self::connect) uses, if one was set.
    pub fn default_client_config(&self) -> Option<ClientConfig> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to connect to `remote` with the default configuration; see [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// As for `connect_with`; [`ConnectError::NoClientConfig`] if none was set.
    pub fn connect(&self, remote: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.default_client_config().ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(&config, remote, server_name)
    }

    /// `remote` as the socket's family writes it.
    fn reachable(&self, remote: SocketAddr) -> Result<SocketAddr, ConnectError> {
        if self.shared.is_closed() {
            return Err(ConnectError::EndpointClosed);
        }
        let local = *self.shared.local_addr.lock().unwrap_or_else(PoisonError::into_inner);
        to_family(local, remote).ok_or(ConnectError::AddressFamily(remote))
    }

    /// Starts to connect to `remote`, whose certificate must be for `server_name`.
    ///
    /// # Errors
    ///
    /// If the endpoint is closed, the name is no DNS name or IP address, or the address is of a family that the socket
    /// cannot reach.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let remote = self.reachable(remote)?;
        let workers = self.shared.workers();
        let turn = self.next_worker.fetch_add(1, Ordering::Relaxed) % workers.len().max(1);
        let worker = workers.get(turn).ok_or(ConnectError::EndpointClosed)?;
        let now = self.shared.clock.now();
        let mut core = worker.core();
        let (handle, machine) = core.machine.connect(now, self.shared.client_config(config), remote, server_name)?;
        self.shared.connections.fetch_add(1, Ordering::AcqRel);
        let cell = Cell::new(machine, handle.0, worker.clone(), self.shared.clone(), None);
        core.insert(cell.clone());
        drop(core);
        let connection = ConnectionRef::new(cell);
        connection.unlock_and_drive(connection.lock());
        Ok(Connecting::new(Some(connection)))
    }

    /// Waits for a client that asks for a connection; `None` once the endpoint is closed. Cancel-safe.
    ///
    /// Without a server configuration it waits until one is set; [`next_incoming`](Self::next_incoming) says that it is
    /// missing.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// [`accept`](Self::accept) that says why there is none. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the endpoint is closed, or has no server configuration.
    pub async fn next_incoming(&self) -> Result<Incoming, AcceptError> {
        poll_fn(|cx| match self.poll_accept(cx) {
            Poll::Ready(incoming) => Poll::Ready(incoming.ok_or(AcceptError::EndpointClosed)),
            Poll::Pending if !self.shared.serves.load(Ordering::Acquire) => {
                Poll::Ready(Err(AcceptError::NoServerConfig))
            }
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// [`accept`](Self::accept) for hand-written futures.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let mut queue = self.shared.accept_queue();
        if let Some(incoming) = queue.incoming.pop_front() {
            return Poll::Ready(Some(incoming));
        }
        if self.shared.is_closed() {
            return Poll::Ready(None);
        }
        queue.waiting.register(cx.waker());
        Poll::Pending
    }

    /// Uses `config` for connections that begin from now on (a new certificate, other limits); `None` accepts no more.
    ///
    /// An endpoint made [for one connection](EndpointBuilder::one_connection) accepts none:
    /// [`warnings`](Self::warnings) reports it.
    pub fn set_server_config(&self, config: Option<&ServerConfig>) {
        if config.is_some() && self.shared.workers().iter().any(|worker| worker.core().machine.cid_len() == 0) {
            let mut warnings = self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            return crate::socket::warn(&mut warnings, Warning::CannotServe);
        }
        if let Some(config) = config {
            *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = config.limits();
        }
        self.shared.serves.store(config.is_some(), Ordering::Release);
        let workers = self.shared.workers();
        for worker in workers {
            worker
                .core()
                .machine
                .set_server_config(config.map(|config| self.shared.server_config(config, workers.len())));
        }
        if config.is_none() {
            // Whoever waits for a connection has to learn that none is accepted any more.
            let mut wakes = Vec::new();
            self.shared.accept_queue().waiting.take(&mut wakes);
            wake_all(&mut wakes);
        }
    }

    /// Goes on with another socket, for example after the network changed; every connection notifies its peer.
    ///
    /// With several workers all of them share the new socket.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used; the old one then stays.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        let _inside = self.runtime.enter();
        let workers = self.shared.workers();
        let mut sockets = Vec::with_capacity(workers.len());
        let mut warnings = Vec::new();
        for _ in 1..workers.len() {
            sockets.push(Arc::new(Socket::new(socket.try_clone()?, self.shared.socket_buffer, &mut warnings)?));
        }
        sockets.push(Arc::new(Socket::new(socket, self.shared.socket_buffer, &mut warnings)?));
        if let Some(socket) = sockets.first() {
            let address = socket.local_addr()?;
            *self.shared.local_addr.lock().unwrap_or_else(PoisonError::into_inner) = address;
        }
        *self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
        for (worker, socket) in workers.iter().zip(sockets) {
            worker.replace_socket(socket);
        }
        Ok(())
    }

    /// Adds a socket, bound to an address of another interface than the endpoint's own socket. Paths from that address
    /// ([`Connection::open_path`](crate::Connection::open_path)) leave by it. Returns the address.
    ///
    /// Several interfaces need a socket each: a bound address alone does not choose the interface that datagrams leave
    /// by, and the system may send all of them by one default route. [`Interface::bind`](crate::Interface::bind) binds
    /// to both. A socket for an address that has one takes its place.
    ///
    /// With several workers all of them share the socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the socket is bound to no particular address, or to one of another family than the endpoint's;
    /// or whatever keeps it from being used.
    pub fn add_socket(&self, socket: std::net::UdpSocket) -> io::Result<IpAddr> {
        let _inside = self.runtime.enter();
        let address = socket.local_addr()?;
        let own = *self.shared.local_addr.lock().unwrap_or_else(PoisonError::into_inner);
        if address.ip().is_unspecified() || address.is_ipv4() != own.is_ipv4() {
            let why =
                format!("a further socket needs an address of its own, and of the family of {own}; it has {address}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let local = address.ip();
        for worker in self.shared.workers() {
            let mut warnings = self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            let socket = Socket::new(socket.try_clone()?, self.shared.socket_buffer, &mut warnings)?;
            worker.add_socket(local, Arc::new(socket));
        }
        Ok(local)
    }

    /// Closes every connection at once with `code` and `reason`, and takes no new ones.
    ///
    /// Follow with [`wait_idle`](Self::wait_idle) so that peers have time to receive the close.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.shared.stop_accepting();
        let reason = Bytes::copy_from_slice(reason);
        for worker in self.shared.workers() {
            let cells: Vec<_> = worker.core().cells().cloned().collect();
            for cell in cells {
                cell.close(code, reason.clone());
            }
        }
    }

    /// Waits until every connection has ended and its peer had time to receive the close (three probe timeouts, RFC
    /// 9000 section 10.2). Cancel-safe.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.shared.idle.notified();
            let mut idle = std::pin::pin!(idle);
            idle.as_mut().enable();
            if self.shared.connections.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Where the endpoint is bound; with several client workers, where the first is.
    ///
    /// # Errors
    ///
    /// None at present.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(*self.shared.local_addr.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What could be better on this machine. Print each: it states the remedy.
    pub fn warnings(&self) -> Vec<Warning> {
        self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Figures so far, over all workers.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats {
            connections: self.shared.connections.load(Ordering::Relaxed),
            handshakes: self.shared.handshakes.load(Ordering::Relaxed),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            workers: self.shared.workers().len(),
            ..EndpointStats::default()
        };
        for worker in self.shared.workers() {
            stats.add(&worker.counters);
        }
        stats
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Ordering::AcqRel);
        Self {
            shared: self.shared.clone(),
            runtime: self.runtime.clone(),
            client: self.client.clone(),
            next_worker: self.next_worker.clone(),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.stop_accepting();
            self.shared.wake_drivers();
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("local_addr", &self.local_addr().ok())
            .field("workers", &self.shared.workers().len())
            .finish_non_exhaustive()
    }
}

/// Figures of an endpoint. Counts only grow, except `connections` and `handshakes`, which are of this moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Connections held, including those that linger after their end.
    pub connections: usize,
    /// Of those accepted, in their handshake.
    pub handshakes: usize,
    /// Workers.
    pub workers: usize,
    /// Connections whose handshake the application began.
    pub accepted: u64,
    /// Connections refused, by the application or for lack of room.
    pub refused: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// Their payload, bytes.
    pub bytes_received: u64,
    /// System calls that brought them.
    pub receive_calls: u64,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// Their payload, bytes.
    pub bytes_sent: u64,
    /// System calls that took them.
    pub send_calls: u64,
    /// Times that the socket had no room.
    pub send_blocked: u64,
    /// Sends that failed for another reason, MTU probes among them.
    pub send_errors: u64,
    /// Datagrams handed from one worker to another.
    pub forwarded: u64,
    /// Datagrams lost because the other worker's inbox was full.
    pub forward_dropped: u64,
    /// Times that a driver ran.
    pub wakeups: u64,
}

impl EndpointStats {
    fn add(&mut self, counters: &Counters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.datagrams_received += read(&counters.datagrams_received);
        self.bytes_received += read(&counters.bytes_received);
        self.receive_calls += read(&counters.receive_calls);
        self.datagrams_sent += read(&counters.datagrams_sent);
        self.bytes_sent += read(&counters.bytes_sent);
        self.send_calls += read(&counters.send_calls);
        self.send_blocked += read(&counters.send_blocked);
        self.send_errors += read(&counters.send_errors);
        self.forwarded += read(&counters.forwarded);
        self.forward_dropped += read(&counters.forward_dropped);
        self.wakeups += read(&counters.wakeups);
    }
}
