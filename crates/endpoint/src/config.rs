//! Configurations with as few decisions as possible; everything can be set.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use rustc_hash::FxHashMap;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
pub use thalweg_proto::config::{RetryPolicy, TokenStore, TransportConfig};
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
    /// If a certificate cannot be read.
    pub fn with_root_certificates(
        roots: impl IntoIterator<Item = CertificateDer<'static>>,
        alpn: &[&[u8]],
    ) -> Result<Self, ConfigError> {
        let mut store = rustls::RootCertStore::empty();
        for root in roots {
            store.add(root)?;
        }
        Ok(Self::with_rustls(Arc::new(TlsOptions::new(alpn).client(store)?)))
    }

    /// Trusts the certificate authorities of the platform; [`native_roots`](crate::native_roots) tells which.
    ///
    /// `alpn` names the application protocols, preferred first; client and server must have one in common. Reads files,
    /// which takes milliseconds: make one configuration and keep it.
    ///
    /// # Errors
    ///
    /// If the platform has none.
    #[cfg(feature = "native-roots")]
    pub fn with_native_roots(alpn: &[&[u8]]) -> Result<Self, ConfigError> {
        Ok(Self::with_rustls(Arc::new(TlsOptions::new(alpn).client(crate::roots::native_roots()?)?)))
    }

    /// Trusts **any** server, so that anyone on the path can read and change everything. For tests only.
    ///
    /// # Errors
    ///
    /// None with the built-in cryptography.
    pub fn dangerous_without_verification(alpn: &[&[u8]]) -> Result<Self, ConfigError> {
        Ok(Self::with_rustls(Arc::new(TlsOptions::new(alpn).client_insecure()?)))
    }

    /// Uses a rustls configuration; it must offer TLS 1.3. [`TlsOptions`] makes suitable ones.
    pub fn with_rustls(config: Arc<rustls::ClientConfig>) -> Self {
        Self::with_crypto(Arc::new(RustlsClient::new(config)))
    }

    /// Uses any implementation of the handshake.
    pub fn with_crypto(crypto: Arc<dyn ClientCrypto>) -> Self {
        let mut inner = proto::ClientConfig::new(crypto);
        inner.tokens = Some(Arc::new(MemoryTokenStore::default()));
        Self { inner }
    }

    /// Sets how connections behave.
    pub fn transport(mut self, transport: impl Into<Arc<TransportConfig>>) -> Self {
        self.inner.transport = transport.into();
        self
    }

    /// Sets the QUIC version of the first flight; the server may switch to another. Default version 1.
    pub fn version(mut self, version: Version) -> Self {
        self.inner.version = version;
        self
    }

    /// Sets the QUIC versions that the client would rather use, best first: a server that can moves the connection there
    /// without another round trip (RFC 9368 section 3). Default: none, the version of the first flight is the best.
    pub fn preferred_versions(mut self, versions: impl Into<Vec<Version>>) -> Self {
        self.inner.preferred_versions = versions.into();
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
    /// If key and certificate do not belong together or cannot be read, or the system gives no random numbers.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        alpn: &[&[u8]],
    ) -> Result<Self, ConfigError> {
        Self::with_rustls(Arc::new(TlsOptions::new(alpn).server(chain, key)?))
    }

    /// Uses a rustls configuration; it must offer TLS 1.3. [`TlsOptions`] makes suitable ones.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers for the key that seals address tokens.
    pub fn with_rustls(config: Arc<rustls::ServerConfig>) -> Result<Self, ConfigError> {
        Self::with_crypto(Arc::new(RustlsServer::new(config)))
    }

    /// Uses any implementation of the handshake.
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

/// Servers whose tokens a [`MemoryTokenStore`] keeps.
const TOKEN_SERVERS: usize = 256;
/// Tokens kept per server.
const TOKENS_PER_SERVER: usize = 2;

/// Keeps address tokens (NEW_TOKEN, RFC 9000 section 8.1.3) in memory: the newest two of each of the last 256 servers.
#[derive(Default)]
pub struct MemoryTokenStore {
    inner: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    by_server: FxHashMap<String, VecDeque<Vec<u8>>>,
    /// Oldest first.
    order: VecDeque<String>,
}

impl fmt::Debug for MemoryTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTokenStore").finish_non_exhaustive()
    }
}

impl TokenStore for MemoryTokenStore {
    fn insert(&self, server_name: &str, token: Vec<u8>) {
        let mut tokens = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = &mut *tokens;
        let kept = match tokens.by_server.get_mut(server_name) {
            Some(kept) => kept,
            None => {
                if tokens.order.len() >= TOKEN_SERVERS
                    && let Some(oldest) = tokens.order.pop_front()
                {
                    tokens.by_server.remove(&oldest);
                }
                tokens.order.push_back(server_name.to_owned());
                tokens.by_server.entry(server_name.to_owned()).or_default()
            }
        };
        kept.push_back(token);
        if kept.len() > TOKENS_PER_SERVER {
            kept.pop_front();
        }
    }

    fn take(&self, server_name: &str) -> Option<Vec<u8>> {
        let mut tokens = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest: it is good for the longest time.
        tokens.by_server.get_mut(server_name)?.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_once_and_memory_is_bounded() {
        let store = MemoryTokenStore::default();
        for number in 0..10u8 {
            store.insert("a", vec![number]);
        }
        assert_eq!(store.take("a"), Some(vec![9]));
        assert_eq!(store.take("a"), Some(vec![8]));
        assert_eq!(store.take("a"), None);
        for server in 0..1000 {
            store.insert(&server.to_string(), vec![0]);
        }
        let tokens = store.inner.lock().unwrap();
        assert_eq!(tokens.by_server.len(), TOKEN_SERVERS);
        assert_eq!(tokens.order.len(), TOKEN_SERVERS);
    }
}
