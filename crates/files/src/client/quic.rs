//! HTTP/3 over QUIC, as the dialer and the sessions see it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use http::{Request, Response};
use rustls::client::Resumption;
use thalweg::recovery::SavedPath;
use thalweg::{
    AwaitedPeer, ClientConfig, ConfigError, ConnectionError, Endpoint, EndpointBuilder, MemorySavedPathStore,
    MemoryTokenStore, MultipathConfig, SavedPathStore, SavedPaths, TokenStore, TransportConfig,
};
use thalweg_h3::{Connection, describe, describe_connection};
use thiserror::Error;
use tokio::net::UdpSocket;

use super::broken::Broken;
use super::exchange;
use super::head::MAX_SECTION;
use super::liveness::Life;
use super::paths::{Known, Multipath, Paths};
use super::race::race;
use super::report::EventSinkRef;
use super::session::{Body, HttpConnection, SendBody, Session};

/// How long a handshake may be silent before we ask the host whether the port is open at all. Longer than most round
/// trips, so that the question is rarely asked; shorter than [`super::race::STAGGER`].
const ASK_AFTER: Duration = Duration::from_millis(150);

/// How often a handshake under way is asked whether anything came back; it is answered long before, as a rule.
const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// How long an interface has to answer before the next one is tried besides: until then a client repeats its first
/// packet once (the probe timeout of a path of which nothing is known, RFC 9002 section 6.2.2). A satellite answers
/// sooner.
const NEXT_INTERFACE: Duration = Duration::from_secs(1);

/// How long a client may take, after its handshake, to make a request that shares datagrams with the end of it.
const FIRST_REQUEST: Duration = Duration::from_millis(1);

/// How long a server may take to receive our close.
const FAREWELL: Duration = Duration::from_millis(500);

/// Credit given at once, bytes, so that flow control is never what limits a download: the window of
/// 250 Mbit/s over 2 s.
const WINDOW: u64 = 64 << 20;

/// Least window under a rate limit, bytes.
const LEAST_WINDOW: u64 = 128 << 10;

/// The transport settings of a client that gives none: the default, with [`WINDOW`] of credit from the start.
pub(super) fn bulk_transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.streams.stream_receive_window = WINDOW;
    transport.streams.receive_window = WINDOW;
    // A disk that stalls looks like a long path to the tuning of windows; do not let it take a quarter of a gigabyte.
    transport.streams.max_stream_receive_window = 2 * WINDOW;
    transport.streams.max_receive_window = 2 * WINDOW;
    transport
}

/// Receive window under a rate limit, bytes: what arrives in a second. More would let the sender run ahead of the
/// limit, less would not carry the rate over a path of a second.
pub(super) fn window_for(limit: u64) -> u64 {
    limit.clamp(LEAST_WINDOW, WINDOW)
}

/// What h3 does on a connection.
///
/// No frames of reserved types ("grease", RFC 9114 section 7.2.8): h3 would append one to every request that a fresh
/// clone of its sender sends. HAProxy 3.0 keeps a request's stream when bytes follow the head, and grants no stream
/// after the hundredth.
fn settings() -> h3::client::Builder {
    let mut builder = h3::client::builder();
    builder.send_grease(false).max_field_section_size(MAX_SECTION.into());
    builder
}

/// Why QUIC did not come to a connection at one address.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// ICMP says that nobody listens.
    #[error("the host refuses UDP on this port")]
    Refused,
    /// Nothing came back.
    #[error("{}", ConnectionError::TimedOut)]
    Silent,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(String),
}

/// Servers whose sessions and address tokens are remembered.
const SERVERS: usize = 256;

/// Sessions remembered of each; a server usually gives two.
const SESSIONS: usize = 8;

/// The part of a store that one server's connections use: what one server gave is shown to no other on its host.
#[derive(Debug)]
struct Scoped {
    store: Arc<SavedPaths>,
    /// Host and port.
    server: String,
}

impl TokenStore for Scoped {
    fn insert(&self, _: &str, token: Vec<u8>) {
        TokenStore::insert(&*self.store, &self.server, token);
    }

    fn take(&self, _: &str) -> Option<Vec<u8>> {
        TokenStore::take(&*self.store, &self.server)
    }
}

impl SavedPathStore for Scoped {
    fn insert(&self, _: &str, remote: SocketAddr, saved: SavedPath) {
        SavedPathStore::insert(&*self.store, &self.server, remote, saved);
    }

    fn take(&self, _: &str, remote: SocketAddr) -> Option<SavedPath> {
        SavedPathStore::take(&*self.store, &self.server, remote)
    }
}

/// Host, port, and the interface of the first path.
type ConfigKey = (String, u16, Option<String>);

/// Opens QUIC connections.
#[derive(Clone)]
pub(super) struct Quic {
    tls: Arc<rustls::ClientConfig>,
    transport: Arc<TransportConfig>,
    /// Whether sessions and address tokens are remembered.
    tickets: bool,
    /// Where tokens and paths are saved; `None`: in memory.
    saved_paths: Option<Arc<SavedPaths>>,
    /// Longest that early data may wait for an answer of any kind.
    patience: Duration,
    /// The interfaces that a connection uses at once.
    multipath: Option<Multipath>,
    /// By host, port and the interface of the first path, if one was chosen: what one server gave is shown to no other,
    /// and what was learned of a path is of no use by another interface.
    configs: Arc<Mutex<BTreeMap<ConfigKey, ClientConfig>>>,
}

impl Quic {
    /// `limit` is the rate limit in bytes per second.
    pub(super) fn new(
        tls: Arc<rustls::ClientConfig>,
        transport: Option<Arc<TransportConfig>>,
        limit: Option<u64>,
        tickets: bool,
        saved_paths: Option<Arc<SavedPaths>>,
        patience: Duration,
    ) -> Self {
        let mut transport = transport.unwrap_or_else(|| Arc::new(bulk_transport()));
        if let Some(limit) = limit {
            let window = window_for(limit);
            let streams = &mut Arc::make_mut(&mut transport).streams;
            for field in [
                &mut streams.stream_receive_window,
                &mut streams.receive_window,
                &mut streams.max_stream_receive_window,
                &mut streams.max_receive_window,
            ] {
                *field = window.min(*field);
            }
        }
        Self { tls, transport, tickets, saved_paths, patience, multipath: None, configs: Arc::default() }
    }

    /// The same with several paths at once.
    pub(super) fn several_paths(mut self, multipath: Option<Multipath>) -> Self {
        if let Some(multipath) = &multipath {
            let transport = Arc::make_mut(&mut self.transport);
            let paths = transport.multipath.get_or_insert_with(MultipathConfig::default);
            // One more, so that an interface can change its address.
            paths.max_paths = paths.max_paths.max(multipath.interfaces.len() as u32 + 1);
        }
        Self { multipath, ..self }
    }

    /// The same with nothing remembered, and nothing to remember.
    pub(super) fn without_tickets(&self) -> Self {
        Self { tickets: false, configs: Arc::default(), ..self.clone() }
    }

    /// The configuration for one server by one interface, with what is remembered of both. Sessions are the server's,
    /// whatever the interface. Without a connect timeout: the race and the retries bound every wait, and know when
    /// something arrived from the server.
    fn config(&self, name: &str, port: u16, interface: Option<&str>) -> Result<ClientConfig, ConfigError> {
        let make = || -> Result<ClientConfig, ConfigError> {
            if let Some(interface) = interface {
                let config = self.config(name, port, None)?;
                return Ok(match (self.tickets, &self.saved_paths) {
                    (false, _) => config,
                    (true, Some(saved)) => {
                        let server = format!("{name}:{port}%{interface}");
                        let scoped = Arc::new(Scoped { store: Arc::clone(saved), server });
                        config.token_store(Some(scoped.clone())).saved_path_store(Some(scoped))
                    }
                    (true, None) => config
                        .token_store(Some(Arc::new(MemoryTokenStore::default())))
                        .saved_path_store(Some(Arc::new(MemorySavedPathStore::default()))),
                });
            }
            let mut tls = (*self.tls).clone();
            tls.resumption = match self.tickets {
                true => Resumption::in_memory_sessions(SESSIONS),
                false => Resumption::disabled(),
            };
            tls.enable_early_data = self.tickets;
            let config = ClientConfig::with_rustls(tls)?.transport(Arc::clone(&self.transport)).connect_timeout(None);
            if !self.tickets {
                return Ok(config.token_store(None));
            }
            let Some(saved) = &self.saved_paths else {
                return Ok(config.saved_path_store(Some(Arc::new(MemorySavedPathStore::default()))));
            };
            let scoped = Arc::new(Scoped { store: Arc::clone(saved), server: format!("{name}:{port}") });
            Ok(config.token_store(Some(scoped.clone())).saved_path_store(Some(scoped)))
        };
        let key = (name.to_owned(), port, interface.map(str::to_owned));
        if let Some(config) = self.configs.lock().ok().and_then(|configs| configs.get(&key).cloned()) {
            return Ok(config);
        }
        let config = make()?;
        if let Ok(mut configs) = self.configs.lock() {
            if configs.len() >= SERVERS {
                configs.pop_first();
            }
            // Another connection may have made one meanwhile, and remembers by it.
            return Ok(configs.entry(key).or_insert(config).clone());
        }
        Ok(config)
    }

    /// Connects to `address`; `heard` becomes true when a datagram comes back. Of several interfaces the first is tried
    /// first; the next one is tried besides while it does not answer, and by which the connection begins is the first
    /// path. With `early`, and if a session of this server is remembered that allows it, the connection is there at
    /// once: requests travel with the first packets (0-RTT), and whether the server is there shows later.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
        heard: &Arc<AtomicBool>,
        early: bool,
        sink: &EventSinkRef,
    ) -> Result<Session, Failure> {
        let ways = self.multipath.as_ref().map_or(1, |multipath| multipath.ways(address));
        if ways == 1 {
            return self.connect_by(0, address, name, heard, early, sink).await;
        }
        let numbers: Vec<usize> = (0..ways).collect();
        let won = race(&numbers, NEXT_INTERFACE, |number| {
            let (this, name, heard, sink) = (self.clone(), name.to_owned(), Arc::clone(heard), sink.clone());
            async move { this.connect_by(number, address, &name, &heard, early, &sink).await }
        })
        .await;
        // An interface by which nobody answers says less than any other.
        let telling = |failures: Vec<(usize, Failure)>| {
            let is_silent = |(_, failure): &(usize, Failure)| matches!(failure, Failure::Silent);
            let told = failures.iter().position(|failure| !is_silent(failure)).unwrap_or(0);
            failures.into_iter().nth(told).map_or(Failure::Silent, |(_, failure)| failure)
        };
        won.map(|(_, session)| session).map_err(telling)
    }

    /// The same by the interface of this number, where there are several.
    async fn connect_by(
        &self,
        number: usize,
        address: SocketAddr,
        name: &str,
        heard: &AtomicBool,
        early: bool,
        sink: &EventSinkRef,
    ) -> Result<Session, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::Handshake(error.to_string());
        let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let made = match &self.multipath {
            Some(multipath) => {
                multipath.endpoint(address, any, number).map(|(endpoint, known)| (endpoint, Some(known)))
            }
            // Of its own, so that a NAT may change the address as often as it likes: many servers never retire our IDs.
            None => EndpointBuilder::new().one_connection().bind(any).map(|endpoint| (endpoint, None)),
        };
        let (endpoint, known) = made.map_err(|error| failed(&error))?;
        let interface = known.as_ref().and_then(Known::interface);
        let config = self.config(name, address.port(), interface).map_err(|error| failed(&error))?;
        let connecting = endpoint.connect_with(&config, address, name).map_err(|error| failed(&error))?;
        let connecting = connecting.hold(FIRST_REQUEST);
        let early = if early { connecting.into_0rtt() } else { Err(connecting) };
        let connection = match early {
            Ok((connection, _)) => {
                tokio::spawn(doubt_early(connection.clone(), address, self.patience));
                connection
            }
            Err(connecting) => tokio::select! {
            result = connecting => result.map_err(|error| match error {
                ConnectionError::TimedOut => Failure::Silent,
                error => failed(&error),
            })?,
            () = refused(address) => return Err(Failure::Refused),
            () = listen(&endpoint, heard) => return Err(Failure::Refused), // never ready
            },
        };
        let (mut driver, send) = settings()
            .build(Connection::new(connection.clone()))
            .await
            .map_err(|error| Failure::Handshake(describe_connection(&error)))?;
        // Ends when the connection does.
        tokio::spawn(async move { driver.wait_idle().await });
        let paths = self.multipath.clone().zip(known).map(|(multipath, known)| {
            Paths::keep(multipath, connection.clone(), endpoint.clone(), known, sink.clone())
        });
        Ok(Session {
            remote: connection.remote_address(),
            resolve: Duration::ZERO,
            handshake: Duration::ZERO,
            kind: HttpConnection::Http3(Http3 {
                send,
                connection,
                endpoint,
                paths,
                life: Life::default(),
                awaited: Arc::default(),
                unrepeatable: Arc::default(),
                closing: AtomicBool::new(false),
            }),
        })
    }
}

/// Closes a connection used before its handshake if that does not come to an end: whoever uses it then dials in the
/// ordinary way, which finds out what is wrong and what else there is.
async fn doubt_early(connection: thalweg::Connection, address: SocketAddr, patience: Duration) {
    let stands = tokio::select! {
        result = connection.handshake_complete() => result.is_ok(),
        () = refused(address) => false,
        () = tokio::time::sleep(patience) => false,
    };
    if !stands {
        connection.close(Code::H3_NO_ERROR.value(), b"");
    }
}

/// Notes when the first datagram comes back. Never ready.
async fn listen(endpoint: &Endpoint, heard: &AtomicBool) {
    while endpoint.stats().datagrams_received == 0 {
        tokio::time::sleep(LISTEN_EVERY).await;
    }
    heard.store(true, Ordering::Relaxed);
    std::future::pending().await
}

/// Ready when the host at `address` says by ICMP that nobody listens on the UDP port; never otherwise.
///
/// An unconnected socket, as QUIC uses, gets no ICMP errors. A connected one does, so it sends one byte that no QUIC
/// server takes for a packet (its fixed bit is 0, RFC 9000 section 17.2) and listens for the refusal.
async fn refused(address: SocketAddr) {
    tokio::time::sleep(ASK_AFTER).await;
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let ask = async {
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        socket.send(&[0]).await?;
        socket.recv(&mut [0; 16]).await
    };
    match ask.await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
        _ => std::future::pending().await,
    }
}

/// An HTTP/3 connection.
pub(super) struct Http3 {
    send: SendRequest<Connection, Bytes>,
    pub connection: thalweg::Connection,
    endpoint: Endpoint,
    /// Its paths, where there are several.
    pub paths: Option<Arc<Paths>>,
    /// Whether the server still knows the connection.
    pub life: Life,
    /// Lives in every answer that is not here yet.
    awaited: Arc<()>,
    /// Lives in every one of them whose request may have changed something on the server.
    unrepeatable: Arc<()>,
    /// The server takes no more requests here: it said so (GOAWAY), or it refused one unseen.
    pub closing: AtomicBool,
}

/// Lives while an answer is awaited, so that the connection is not silent meanwhile.
struct Awaited {
    _peer: AwaitedPeer,
    _count: Arc<()>,
    _unrepeatable: Option<Arc<()>>,
}

impl Http3 {
    pub(super) async fn request(&self, request: Request<SendBody>) -> Result<(Response<()>, Body), String> {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, ());
        let awaited = Awaited {
            _peer: self.connection.await_peer(),
            _count: Arc::clone(&self.awaited),
            _unrepeatable: (!request.method().is_safe()).then(|| Arc::clone(&self.unrepeatable)),
        };
        let stream = self.send.clone().send_request(request).await.map_err(|error| match error {
            StreamError::HeaderTooBig { actual_size, max_size, .. } => {
                format!("the request's headers take {actual_size} bytes; the server accepts {max_size}")
            }
            error => self.why(error),
        })?;
        let (head, stream) = exchange::run(stream, body, &self.connection).await.map_err(|failure| match failure {
            exchange::Failure::Stream(error) => self.why(error),
            exchange::Failure::Other(text) => text,
        })?;
        Ok((head, Body::Http3(Box::new(Http3Body { stream, connection: self.connection.clone(), _awaited: awaited }))))
    }

    /// Whether the connection was used before its handshake and lost before its end.
    pub(super) fn never_stood(&self) -> bool {
        self.connection.is_handshaking() && self.connection.close_reason().is_some()
    }

    /// Why a request failed; notes whether the server takes no more of them.
    fn why(&self, error: StreamError) -> String {
        let refused = matches!(&error, StreamError::RemoteTerminate { code, .. } if *code == Code::H3_REQUEST_REJECTED);
        if refused || matches!(&error, StreamError::RemoteClosing { .. }) {
            self.closing.store(true, Ordering::Relaxed);
        }
        why(&self.connection, error)
    }

    /// Whether any answer is awaited.
    pub(super) fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.awaited) > 1
    }

    /// Whether one of them is an upload, which nobody repeats.
    pub(super) fn carries_upload(&self) -> bool {
        Arc::strong_count(&self.unrepeatable) > 1
    }

    /// Closes a connection that the server knows nothing of any more.
    pub(super) fn give_up(&self) {
        self.connection.close(Code::H3_NO_ERROR.value(), b"");
    }

    pub(super) async fn close(&self) {
        self.connection.close(Code::H3_NO_ERROR.value(), b"");
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// The body of an answer.
pub(super) struct Http3Body {
    stream: exchange::ResponseStream,
    connection: thalweg::Connection,
    _awaited: Awaited,
}

impl Http3Body {
    /// The next bytes; `None` at a regular end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        match self.stream.recv_data().await {
            Ok(Some(mut data)) => Ok(Some(data.copy_to_bytes(data.remaining()))),
            Ok(None) => Ok(None),
            Err(error) => {
                let stands = self.connection.close_reason().is_none();
                let cancelled = stands && matches!(&error, StreamError::RemoteTerminate { .. });
                Err(Broken { why: why(&self.connection, error), cancelled })
            }
        }
    }
}

/// Why an exchange failed, for a person: the transport knows more than `h3` passes on, unless it was closed for `h3`.
fn why(connection: &thalweg::Connection, error: StreamError) -> String {
    match connection.close_reason() {
        Some(ConnectionError::PeerApplication { code, .. }) if code == Code::H3_NO_ERROR.value() => {
            "the server closed the connection".into()
        }
        Some(ConnectionError::PeerApplication { code, reason }) => {
            let said = ConnectionError::PeerApplication { code, reason }.to_string();
            format!("{said} ({})", Code::from(code))
        }
        Some(ConnectionError::Reset) => "the server has lost the connection, as after a restart".into(),
        Some(ConnectionError::TimedOut) => "nothing was received from the server for the idle timeout".into(),
        None | Some(ConnectionError::LocallyClosed) => match error {
            StreamError::HeaderTooBig { actual_size, max_size, .. } => {
                format!("the server sent a header section of {actual_size} bytes; at most {max_size} are accepted")
            }
            StreamError::RemoteTerminate { code, .. } => format!("the server cancelled the request ({code})"),
            error => describe(&error),
        },
        Some(reason) => reason.to_string(),
    }
}
