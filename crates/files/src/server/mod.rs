//! The server: one site, one certificate, one port number; HTTP/3 over UDP, HTTP/2 and HTTP/1.1 over TCP.

mod respond;
mod tcp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::certificate::CertificateStore;
use crate::content::Pool;
use crate::log::AccessLog;
use crate::site::Site;
use respond::Context;

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} ({transport}): {source}; is another server running there, or is the port below 1024?"
    )]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// TLS refused the settings.
    #[error("TLS refused the settings: {0}")]
    Tls(#[from] rustls::Error),
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
    /// Whether to write TLS secrets to the file that the environment variable `SSLKEYLOGFILE` names. Default: no.
    pub key_log: bool,
}

impl ServerOptions {
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
            key_log: false,
        }
    }
}

/// A bound server; [`run`](Server::run) serves.
pub struct Server {
    listener: Option<TcpListener>,
    tls: TlsAcceptor,
    address: SocketAddr,
    context: Context,
    grace: Duration,
}

impl Server {
    /// Binds the sockets.
    ///
    /// # Errors
    /// When an address is taken or may not be used.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let tls = tls_config(&options, &[b"h2", b"http/1.1"])?;
        let listener = bind_tcp(options.listen)?;
        let address = listener.local_addr().unwrap_or(options.listen);
        Ok(Self {
            listener: Some(listener),
            tls: TlsAcceptor::from(Arc::new(tls)),
            address,
            context: Context {
                site: Arc::new(options.site),
                pool: Arc::new(Pool::default()),
                log: options.access_log,
            },
            grace: options.grace,
        })
    }

    /// Where the server listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, then lets running answers finish.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let alt_svc =
            HeaderValue::from_str(&format!("h3=\":{}\"; ma=86400", self.address.port())).ok();
        let tcp = async {
            if let Some(listener) = self.listener {
                tcp::serve(
                    listener,
                    self.tls,
                    self.context,
                    alt_svc,
                    stopped,
                    self.grace,
                )
                .await;
            }
        };
        tokio::join!(tcp, async {
            stop.await;
            stopping.send_replace(true);
        });
    }
}

fn tls_config(
    options: &ServerOptions,
    protocols: &[&[u8]],
) -> Result<rustls::ServerConfig, rustls::Error> {
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
    let failed = |source| ServerError::Listen {
        address,
        transport: "TCP",
        source,
    };
    let bound = || {
        let socket = if address.is_ipv4() {
            tokio::net::TcpSocket::new_v4()?
        } else {
            tokio::net::TcpSocket::new_v6()?
        };
        // A restarted server must not wait for the old one's connections to be forgotten.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    bound().map_err(failed)
}
