//! The server: one site, one certificate, one port number; HTTP/3 over UDP, HTTP/2 and HTTP/1.1 over TCP.

mod early;
mod idle_memory;
mod memory;
mod patience;
mod quic;
mod respond;
mod strict;
mod tcp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use thalweg::proto::crypto::tls_words::tls_error_words;
use thalweg::{Endpoint, EndpointBuilder, RetryPolicy, ServerConfig, TransportConfig};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::certificate::CertificateStore;
use crate::content::Pool;
use crate::log::AccessLog;
use crate::site::Site;
use memory::Memory;
use respond::Context;

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} ({transport}): {source}{}", hint(source))]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// TLS refused the settings.
    #[error("TLS refused the settings: {}", tls_error_words(.0))]
    Tls(#[from] rustls::Error),
    /// QUIC refused the settings.
    #[error(transparent)]
    Quic(#[from] thalweg::ConfigError),
    /// Both transports were turned off.
    #[error("nothing to serve on: leave QUIC or TCP on")]
    NoTransport,
}

/// What helps when an address cannot be listened on.
fn hint(source: &io::Error) -> &'static str {
    #[cfg(unix)]
    match source.raw_os_error() {
        Some(libc::EMFILE) => return "; allow this process more open files (ulimit -n)",
        Some(libc::ENFILE) => return "; allow this machine more open files (sysctl fs.file-max)",
        Some(libc::EAFNOSUPPORT) => {
            return "; this machine has no such addresses, as where IPv6 is off: name another one";
        }
        _ => {}
    }
    match source.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: stop it, or name another port",
        io::ErrorKind::PermissionDenied => "; ports below 1024 are for privileged users: name another port",
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has this address: name one that it has",
        _ => "",
    }
}

/// What a [`Server`] needs to know.
#[non_exhaustive]
pub struct ServerOptions {
    /// Where to listen; port 0 takes a free one, the same for UDP and TCP.
    pub listen: SocketAddr,
    /// What to serve.
    pub site: Site,
    /// The certificate to show.
    pub certificate: Arc<CertificateStore>,
    /// Where access records go.
    pub access_log: Option<AccessLog>,
    /// Whether to answer HTTPS over TCP too, with `Alt-Svc` pointing to HTTP/3. Default: yes.
    pub tcp: bool,
    /// Whether to answer HTTP/3 over QUIC. Default: yes.
    pub quic: bool,
    /// How long running answers may take once the server stops. Default: 30 s.
    pub grace: Duration,
    /// How QUIC connections behave (recovery policies, observers, windows). Default: [`ServerOptions::bulk_transport`].
    pub transport: Option<Arc<TransportConfig>>,
    /// What the process may take, bytes: the bound for all connections together, over QUIC and over TCP. At least
    /// [`LEAST_MEMORY`]; less counts as that. 32 MiB of it are for the program, and a quarter of the rest for what the
    /// allocator loses.
    /// When the rest is used up, connections are dropped, first those that hold most and take least: with
    /// H3_EXCESSIVE_LOAD over HTTP/3, by closing TCP. QUIC connections count in it unless `transport` names budgets of
    /// its own. Default: 256 MB.
    pub memory: u64,
    /// Sockets, workers, limits of the QUIC endpoint.
    pub endpoint: EndpointBuilder,
    /// When QUIC clients have to prove their address first. Default: when more than 200 handshakes are under way, so
    /// that a flood from invented addresses holds little memory.
    pub retry: RetryPolicy,
    /// Whether to answer GET, HEAD and OPTIONS that arrive in early data (0-RTT) before the handshake is complete. They
    /// may be replays: an attacker who recorded them can have a file sent to the client's address once more per server
    /// process. Default: no.
    pub early_data: bool,
    /// Whether to write TLS secrets to the file that the environment variable `SSLKEYLOGFILE` names. Default: no.
    pub key_log: bool,
}

/// The least that [`ServerOptions::memory`] may be, bytes.
pub const LEAST_MEMORY: u64 = memory::LEAST;

/// What the process may take unless something else is said, bytes.
const MEMORY: u64 = 256_000_000;

/// Handshakes under way up to which QUIC clients need not prove their address. One costs some 40 kB.
const CALM_HANDSHAKES: usize = 200;

/// Handshakes under way over QUIC at most, however large the memory is; more are refused.
const MAX_HANDSHAKES: usize = 4096;

/// Bytes of credit that a client has from the start, for one stream and for its connection. The windows double as long
/// as uploads use them up within two round trips. What is granted cannot be taken back, so it is little.
const FIRST_WINDOWS: (u64, u64) = (1 << 20, 2 << 20);

/// QUIC sessions remembered for resumption, a few hundred bytes each. A client whose session was forgotten pays one
/// full handshake.
const SESSIONS: usize = 4096;

impl ServerOptions {
    /// The QUIC settings used when none are given, to change from: the transport's defaults, with small receive windows
    /// at the start.
    #[must_use]
    pub fn bulk_transport() -> TransportConfig {
        let mut transport = TransportConfig::default();
        (transport.streams.stream_receive_window, transport.streams.receive_window) = FIRST_WINDOWS;
        transport
    }

    /// Serves `site` at `listen` with `certificate`.
    #[must_use]
    pub fn new(listen: SocketAddr, site: Site, certificate: Arc<CertificateStore>) -> Self {
        Self {
            listen,
            site,
            certificate,
            access_log: None,
            tcp: true,
            quic: true,
            grace: Duration::from_secs(30),
            transport: None,
            memory: MEMORY,
            endpoint: EndpointBuilder::new(),
            retry: RetryPolicy::WhenHandshakesExceed(CALM_HANDSHAKES),
            early_data: false,
            key_log: false,
        }
    }
}

/// A bound server; [`run`](Server::run) serves.
pub struct Server {
    endpoint: Option<Endpoint>,
    listener: Option<(TcpListener, TlsAcceptor)>,
    address: SocketAddr,
    context: Context,
    grace: Duration,
}

/// With port 0, a port that is free for TCP may be taken for UDP: how many to try.
const PORT_TRIES: usize = 16;

impl Server {
    /// Binds the sockets. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When an address is taken or may not be used.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        if !options.quic && !options.tcp {
            return Err(ServerError::NoTransport);
        }
        let transport = options.transport.clone().unwrap_or_else(|| Arc::new(ServerOptions::bulk_transport()));
        let memory = Memory::new(options.memory, transport.max_idle_timeout.unwrap_or(patience::PATIENCE));
        let mut tries = if options.listen.port() == 0 { PORT_TRIES } else { 1 };
        let (endpoint, listener) = loop {
            tries -= 1;
            match bind_both(&options, &transport, &memory) {
                Err(ServerError::Listen { .. }) if tries > 0 => {}
                result => break result?,
            }
        };
        let address = match (&endpoint, &listener) {
            (_, Some((listener, _))) => listener.local_addr(),
            (Some(endpoint), None) => endpoint.local_addr(),
            (None, None) => return Err(ServerError::NoTransport),
        };
        Ok(Self {
            endpoint,
            listener,
            address: address.unwrap_or(options.listen),
            context: Context {
                site: Arc::new(options.site),
                pool: Arc::new(Pool::default()),
                log: options.access_log,
                memory,
                early_data: options.early_data,
            },
            grace: options.grace,
        })
    }

    /// Where the server listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The QUIC endpoint, for its figures and warnings.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Serves until `stop` is ready, then lets running answers arrive.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        if self.context.site.options().upload.is_some() {
            // In the background: a large tree takes a while, and what is removed is neither served nor listed.
            let site = Arc::clone(&self.context.site);
            tokio::task::spawn_blocking(move || site.remove_abandoned_uploads());
        }
        let (stopping, stopped) = watch::channel(false);
        let alt_svc = self.endpoint.as_ref().and_then(|_| {
            let text = format!("h3=\":{}\"; ma=86400", self.address.port());
            HeaderValue::from_str(&text).ok()
        });
        let quic = async {
            if let Some(endpoint) = self.endpoint {
                quic::serve(endpoint, self.context.clone(), stopped.clone(), self.grace).await;
            }
        };
        let tcp = async {
            if let Some((listener, tls)) = self.listener {
                let context = self.context.clone();
                tcp::serve(listener, tls, context, alt_svc, stopped.clone(), self.grace).await;
            }
        };
        let watch = Arc::clone(&self.context.memory).watch();
        let serve = async {
            tokio::join!(quic, tcp, async {
                stop.await;
                stopping.send_replace(true);
            });
        };
        tokio::select! {
            () = serve => {}
            () = idle_memory::watch() => {}
            () = watch => {}
        }
    }
}

type Bound = (Option<Endpoint>, Option<(TcpListener, TlsAcceptor)>);

/// TCP first: it then names the port for UDP too.
fn bind_both(options: &ServerOptions, transport: &TransportConfig, memory: &Memory) -> Result<Bound, ServerError> {
    let mut address = options.listen;
    let mut listener = None;
    if options.tcp {
        let tls = tls_config(options, &[b"h2", b"http/1.1"])?;
        let bound = bind_tcp(address)?;
        address = bound.local_addr().unwrap_or(address);
        listener = Some((bound, TlsAcceptor::from(Arc::new(tls))));
    }
    let mut endpoint = None;
    if options.quic {
        let mut tls = tls_config(options, &[b"h3"])?;
        // Sessions are remembered here, not sealed into tickets: only so is each good for one connection.
        tls.session_storage = rustls::server::ServerSessionMemoryCache::new(SESSIONS);
        if options.early_data {
            tls.max_early_data_size = u32::MAX; // the only value in QUIC but 0 (RFC 9001 section 4.6.1)
        }
        let handshakes = memory.handshakes().min(MAX_HANDSHAKES);
        let config = ServerConfig::with_rustls(Arc::new(tls))?.retry(options.retry).max_handshakes(handshakes);
        let mut transport = transport.clone();
        for budget in [&mut transport.streams.budget, &mut transport.streams.send_budget] {
            budget.get_or_insert_with(|| Arc::clone(memory.budget()));
        }
        let config = config.transport(Arc::new(transport));
        let mut builder = options.endpoint.clone();
        // Without a port of its own, nothing that starts later is the same server.
        if let (Some(host), 1..) = (host(), address.port()) {
            builder = builder.reset_key(options.certificate.reset_key(&host, address));
        }
        let bound = builder.server(config).bind(address);
        endpoint = Some(bound.map_err(|source| ServerError::Listen { address, transport: "UDP", source })?);
    }
    Ok((endpoint, listener))
}

/// What tells this machine from others that have the same certificate: its ID (machine-id(5)), and its name, because
/// containers of one image may have one ID. None if the ID is not known.
fn host() -> Option<Vec<u8>> {
    #[cfg(unix)]
    {
        let mut host = std::fs::read("/etc/machine-id").ok().filter(|id| id.trim_ascii().len() >= 32)?;
        host.extend_from_slice(rustix::system::uname().nodename().to_bytes());
        Some(host)
    }
    #[cfg(not(unix))]
    None
}

fn tls_config(options: &ServerOptions, protocols: &[&[u8]]) -> Result<rustls::ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(options.certificate.clone());
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    if options.key_log {
        config.key_log = Arc::new(rustls::KeyLogFile::new());
    }
    Ok(config)
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let failed = |source| ServerError::Listen { address, transport: "TCP", source };
    let bound = || {
        let socket =
            if address.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
        // A restarted server must not wait for the old one's connections to be forgotten.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    bound().map_err(failed)
}

/// Ready once the server is to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server itself is gone, which is a stop too.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_about_what_is_wrong() {
        let listen = |code| ServerError::Listen {
            address: ([127, 0, 0, 1], 443).into(),
            transport: "UDP",
            source: io::Error::from_raw_os_error(code),
        };
        for (code, words) in [
            (libc::EADDRINUSE, "another program listens there"),
            (libc::EACCES, "below 1024"),
            (libc::EADDRNOTAVAIL, "no interface"),
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "this machine more open files"),
            (libc::EAFNOSUPPORT, "IPv6 is off"),
        ] {
            let text = listen(code).to_string();
            assert!(text.contains(words), "{text}");
            assert_eq!(text.matches(';').count(), 1, "{text}");
        }
    }
}
