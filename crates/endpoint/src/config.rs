//! Configurations with as few decisions as possible; everything can be set.

use std::{sync::Arc, time::Duration};

use rustls_pki_types::{CertificateDer, PrivateKeyDer};
pub use thalweg_proto::config::{RetryPolicy, SavedPathStore, TokenStore, TransportConfig};

pub use crate::stores::{MemorySavedPathStore, MemoryTokenStore};
use thalweg_proto::{
    config as proto,
    crypto::{
        ClientCrypto, ServerCrypto,
        rustls::{RustlsClient, RustlsServer, TlsOptions},
    },
    token::TokenKey,
    version::Version,
};

use crate::error::ConfigError;

/// Connections that may wait for the application to accept them, unless set otherwise.
pub(crate) const DEFAULT_BACKLOG: usize = 1024;
/// Wait for a server's first answer, unless set otherwise. The probes of this time survive an outage of some seconds,
/// and a person who waits sees an error before they give up by themselves.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client needs to open connections.
///
/// One configuration remembers TLS sessions and address tokens of the servers it met: keep and clone it, and later
/// connections are faster.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    inner: proto::ClientConfig,
}

impl ClientConfig {
    /// Trusts servers whose certificates one of `roots` has signed (a self-signed certificate signs itself).
    ///
    /// `alpn` names the application protocols, preferred first; client and server must have one in common.
    ///
    /// # Errors
    ///
    /// If a certificate cannot be read, or `alpn` names no protocol ([`ConfigError::NoAlpn`]).
    pub fn with_root_certificates(
        roots: impl IntoIterator<Item = CertificateDer<'static>>,
        alpn: &[&[u8]],
    ) -> Result<Self, ConfigError> {
        let mut store = rustls::RootCertStore::empty();
        for root in roots {
            store.add(root)?;
        }
        Self::with_rustls(TlsOptions::new(alpn).client(store)?)
    }

    /// Trusts the certificate authorities of the platform; [`native_roots`](crate::native_roots) states which.
    ///
    /// `alpn` names the application protocols, preferred first; client and server must have one in common. Reads files,
    /// which takes milliseconds: make one configuration and keep it.
    ///
    /// # Errors
    ///
    /// If the platform has none, or `alpn` names no protocol ([`ConfigError::NoAlpn`]).
    #[cfg(feature = "native-roots")]
    pub fn with_native_roots(alpn: &[&[u8]]) -> Result<Self, ConfigError> {
        check_alpn(alpn)?;
        Self::with_rustls(TlsOptions::new(alpn).client(crate::roots::native_roots()?)?)
    }

    /// Trusts **any** server, so that anyone on the path can read and change everything. For tests only.
    ///
    /// # Errors
    ///
    /// If `alpn` names no protocol ([`ConfigError::NoAlpn`]).
    pub fn dangerous_without_verification(alpn: &[&[u8]]) -> Result<Self, ConfigError> {
        Self::with_rustls(TlsOptions::new(alpn).client_insecure()?)
    }

    /// Uses a rustls configuration; it must offer TLS 1.3. [`TlsOptions`] makes suitable ones.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NoAlpn`] if `alpn_protocols` is empty: a server that wants a protocol would refuse the
    /// connection.
    pub fn with_rustls(config: impl Into<Arc<rustls::ClientConfig>>) -> Result<Self, ConfigError> {
        let config = config.into();
        check_alpn(&config.alpn_protocols)?;
        Ok(Self::with_crypto(Arc::new(RustlsClient::new(config))))
    }

    /// Uses any implementation of the handshake. With
    /// [`RustlsClient`](thalweg_proto::crypto::rustls::RustlsClient) this also takes a rustls configuration without
    /// ALPN, for ends that agree on the application protocol by other means (RFC 9001 section 8.1).
    pub fn with_crypto(crypto: Arc<dyn ClientCrypto>) -> Self {
        let mut inner = proto::ClientConfig::new(crypto);
        inner.tokens = Some(Arc::new(MemoryTokenStore::default()));
        inner.connect_timeout = Some(CONNECT_TIMEOUT);
        Self { inner }
    }

    /// Sets how connections behave.
    pub fn transport(mut self, transport: impl Into<Arc<TransportConfig>>) -> Self {
        self.inner.transport = transport.into();
        self
    }

    /// Sets how long to wait for the server's first answer of any kind. Default 10 s.
    ///
    /// Once the server has answered, [`TransportConfig::max_idle_timeout`] governs, as it does from the beginning with
    /// `None`. A handshake then survives longer outages: 24 s with the default of 30 s.
    pub fn connect_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.inner.connect_timeout = timeout;
        self
    }

    /// Sets the QUIC version of the first flight; the server may switch to another. Default version 1.
    pub fn version(mut self, version: Version) -> Self {
        self.inner.version = version;
        self
    }

    /// Sets the QUIC versions that the client would rather use, best first: a server that can moves the connection
    /// there without another round trip (RFC 9368 section 3). Default: none, the version of the first flight is the
    /// best.
    pub fn preferred_versions(mut self, versions: impl Into<Vec<Version>>) -> Self {
        self.inner.preferred_versions = versions.into();
        self
    }

    /// Sets where what connections save of paths is kept, for controllers that begin where an earlier connection
    /// has been; `None`, the default, forgets it. [`MemorySavedPathStore`] keeps it in memory,
    /// [`SavedPaths`](crate::SavedPaths) in a file. The policy `resume` decides what is made of it.
    pub fn saved_path_store(mut self, store: Option<Arc<dyn SavedPathStore>>) -> Self {
        self.inner.saved_paths = store;
        self
    }

    /// Sets where address tokens are kept; `None` forgets them. Default: in memory, shared by clones.
    pub fn token_store(mut self, store: Option<Arc<dyn TokenStore>>) -> Self {
        self.inner.tokens = store;
        self
    }

    pub(crate) fn inner(&self) -> &proto::ClientConfig {
        &self.inner
    }
}

/// Whether every application protocol has a name that can be sent, and there is one.
fn check_alpn(protocols: &[impl AsRef<[u8]>]) -> Result<(), ConfigError> {
    if protocols.is_empty() {
        return Err(ConfigError::NoAlpn);
    }
    let lengths = protocols.iter().map(|protocol| protocol.as_ref().len());
    match lengths.into_iter().find(|len| !(1..=255).contains(len)) {
        Some(len) => Err(ConfigError::AlpnLength(len)),
        None => Ok(()),
    }
}

/// What a server needs to accept connections.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    inner: proto::ServerConfig,
    backlog: usize,
}

impl ServerConfig {
    /// Shows the certificate `chain`, its own first, with private key `key`.
    ///
    /// `alpn` names the application protocols, preferred first; client and server must have one in common.
    ///
    /// # Errors
    ///
    /// If key and certificate do not belong together or cannot be read, `alpn` names no protocol
    /// ([`ConfigError::NoAlpn`]), or the system gives no random numbers.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        alpn: &[&[u8]],
    ) -> Result<Self, ConfigError> {
        check_alpn(alpn)?;
        Self::with_rustls(TlsOptions::new(alpn).server(chain, key)?)
    }

    /// Uses a rustls configuration; it must offer TLS 1.3. [`TlsOptions`] makes suitable ones.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NoAlpn`] if `alpn_protocols` is empty, [`ConfigError::NoQuic`] if rustls cannot serve QUIC with
    /// it. Also if the system gives no random numbers for the key that seals address tokens.
    pub fn with_rustls(config: impl Into<Arc<rustls::ServerConfig>>) -> Result<Self, ConfigError> {
        let config = config.into();
        check_alpn(&config.alpn_protocols)?;
        let crypto = RustlsServer::new(config);
        // Otherwise every client would be left without an answer.
        crypto.start(Version::V1, &[])?;
        Self::with_crypto(Arc::new(crypto))
    }

    /// Uses any implementation of the handshake. With
    /// [`RustlsServer`](thalweg_proto::crypto::rustls::RustlsServer) this also takes a rustls configuration without
    /// ALPN, for ends that agree on the application protocol by other means (RFC 9001 section 8.1).
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers for the key that seals address tokens.
    pub fn with_crypto(crypto: Arc<dyn ServerCrypto>) -> Result<Self, ConfigError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(ConfigError::Random)?;
        let inner = proto::ServerConfig::new(crypto, Arc::new(TokenKey::new(&key)));
        Ok(Self { inner, backlog: DEFAULT_BACKLOG })
    }

    /// Sets how connections behave.
    pub fn transport(mut self, transport: impl Into<Arc<TransportConfig>>) -> Self {
        self.inner.transport = transport.into();
        self
    }

    /// Sets when clients have to prove their address before anything else. Default: never.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.inner.retry = policy;
        self
    }

    /// Sets the key that seals address tokens; share it between the servers of one service. Default: random.
    pub fn token_key(mut self, key: Arc<TokenKey>) -> Self {
        self.inner.token_key = key;
        self
    }

    /// Sets the QUIC versions that clients are moved to if they can follow (RFC 9368 section 2.3), best first. Default:
    /// none, every client keeps the version it came with.
    pub fn preferred_versions(mut self, versions: impl Into<Vec<Version>>) -> Self {
        self.inner.preferred_versions = versions.into();
        self
    }

    /// Sets whether clients may change their address. Default true.
    pub fn migration(mut self, allowed: bool) -> Self {
        self.inner.migration = allowed;
        self
    }

    /// Sets how many connections the endpoint holds at once; more are refused. Default 100,000.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.inner.max_connections = most;
        self
    }

    /// Sets how many connections may be in their handshake at once; more are refused. Default 10,000.
    pub fn max_handshakes(mut self, most: usize) -> Self {
        self.inner.max_handshakes = most;
        self
    }

    /// Sets how many connections may wait for [`Endpoint::accept`](crate::Endpoint::accept); more are refused. Default
    /// 1024.
    pub fn backlog(mut self, most: usize) -> Self {
        self.backlog = most;
        self
    }

    pub(crate) fn inner(&self) -> &proto::ServerConfig {
        &self.inner
    }

    pub(crate) fn limits(&self) -> crate::shared::Limits {
        crate::shared::Limits {
            connections: self.inner.max_connections,
            handshakes: self.inner.max_handshakes,
            backlog: self.backlog,
        }
    }
}
