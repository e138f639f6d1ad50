//! rustls configurations ready for QUIC: protocols, ciphers, certificates, resumption, key log.

use std::fmt;
use std::sync::{Arc, RwLock};

use ::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use ::rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as ring_provider};
use ::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use ::rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use ::rustls::sign::CertifiedKey;
use ::rustls::time_provider::TimeProvider;
use ::rustls::{ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore, ServerConfig, SignatureScheme};

use super::hooks::ClientSessions;
use super::tls_words::tls_error_words;

/// How many sessions a server remembers for resumption. Each takes a few hundred bytes; a client that comes back to a
/// server that has forgotten it pays one full handshake, no more.
const SERVER_SESSIONS: usize = 4096;

/// How many servers a client remembers in each version (rustls keeps up to 8 tickets for each).
const CLIENT_SESSIONS: usize = 256;

/// Which cipher suites are offered or accepted, in order of preference.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ciphers {
    /// AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305: the cheapest first on processors with AES instructions.
    #[default]
    All,
    /// ChaCha20-Poly1305 first: the cheapest on processors without AES instructions.
    PreferChaCha20,
    /// Only AES-128-GCM.
    Aes128,
    /// Only AES-256-GCM.
    Aes256,
    /// Only ChaCha20-Poly1305 (the interoperability test of that name).
    ChaCha20,
}

impl Ciphers {
    /// ring's provider reduced to these suites.
    pub fn provider(self) -> CryptoProvider {
        use ring_provider::cipher_suite::{
            TLS13_AES_128_GCM_SHA256 as AES_128, TLS13_AES_256_GCM_SHA384 as AES_256,
            TLS13_CHACHA20_POLY1305_SHA256 as CHACHA20,
        };
        let cipher_suites = match self {
            Ciphers::All => vec![AES_128, AES_256, CHACHA20],
            Ciphers::PreferChaCha20 => vec![CHACHA20, AES_128, AES_256],
            Ciphers::Aes128 => vec![AES_128],
            Ciphers::Aes256 => vec![AES_256],
            Ciphers::ChaCha20 => vec![CHACHA20],
        };
        CryptoProvider { cipher_suites, ..ring_provider::default_provider() }
    }
}

/// A TLS configuration that could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The private key is of a kind that cannot sign, or does not belong to the certificate.
    #[error("certificate and private key unusable: {}", tls_error_words(.0))]
    Certificate(Error),
    /// Anything else rustls objects to.
    #[error("TLS configuration: {}", tls_error_words(.0))]
    Tls(Error),
}

/// Builds rustls configurations fit for QUIC: TLS 1.3 only, resumption and 0-RTT on.
///
/// 0-RTT data can be replayed by an attacker (RFC 9001 section 9.2). A server accepts each remembered session once, so
/// a replay within one server process is refused; the application decides what it does early all the same.
#[derive(Clone)]
pub struct TlsOptions {
    alpn: Vec<Vec<u8>>,
    provider: Arc<CryptoProvider>,
    time: Option<Arc<dyn TimeProvider>>,
    key_log: bool,
    early_data: bool,
    resumption: bool,
}

impl TlsOptions {
    /// Offers or accepts the application protocols `alpn`, in order of preference.
    pub fn new(alpn: &[&[u8]]) -> Self {
        Self {
            alpn: alpn.iter().map(|protocol| protocol.to_vec()).collect(),
            provider: Arc::new(Ciphers::default().provider()),
            time: None,
            key_log: false,
            early_data: true,
            resumption: true,
        }
    }

    /// Restricts or reorders the cipher suites.
    pub fn ciphers(self, ciphers: Ciphers) -> Self {
        self.provider(Arc::new(ciphers.provider()))
    }

    /// Replaces the cryptography altogether.
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = provider;
        self
    }

    /// Takes the date, for certificates and tickets, from `time` instead of the system.
    pub fn time(mut self, time: Arc<dyn TimeProvider>) -> Self {
        self.time = Some(time);
        self
    }

    /// Appends the secrets of every connection to the file that the environment variable `SSLKEYLOGFILE` names, for
    /// Wireshark and the like.
    pub fn key_log(mut self, on: bool) -> Self {
        self.key_log = on;
        self
    }

    /// Whether 0-RTT is offered or accepted on resumed sessions.
    pub fn early_data(mut self, on: bool) -> Self {
        self.early_data = on;
        self
    }

    /// Whether sessions are resumed at all.
    pub fn resumption(mut self, on: bool) -> Self {
        self.resumption = on;
        self
    }

    /// A client that trusts the authorities in `roots`.
    ///
    /// # Errors
    /// If the provider has no TLS 1.3 cipher suite.
    pub fn client(&self, roots: RootCertStore) -> Result<ClientConfig, ConfigError> {
        let builder = self.client_builder()?.with_root_certificates(roots);
        Ok(self.finish_client(builder.with_no_client_auth()))
    }

    /// A client that takes ANY certificate, so that anyone on the path can pretend to be the server. For tests only.
    ///
    /// Signatures are still checked: the peer holds the key of the certificate it shows.
    ///
    /// # Errors
    /// If the provider has no TLS 1.3 cipher suite.
    pub fn client_insecure(&self) -> Result<ClientConfig, ConfigError> {
        let verifier = AnyCertificate { algorithms: self.provider.signature_verification_algorithms };
        let builder = self.client_builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(self.finish_client(builder.with_no_client_auth()))
    }

    /// A server that shows the certificate `chain` (end entity first) and signs with `key`.
    ///
    /// # Errors
    /// If the key cannot sign, does not belong to the certificate, or the chain is empty.
    pub fn server(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ServerConfig, ConfigError> {
        let builder = self.server_builder()?;
        let config = builder.with_single_cert(chain, key).map_err(ConfigError::Certificate)?;
        Ok(self.finish_server(config))
    }

    /// A server whose certificate `resolver` chooses: by name, or one that can be replaced ([`CertificateSlot`]).
    ///
    /// # Errors
    /// If the provider has no TLS 1.3 cipher suite.
    pub fn server_with_resolver(&self, resolver: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, ConfigError> {
        Ok(self.finish_server(self.server_builder()?.with_cert_resolver(resolver)))
    }

    fn client_builder(&self) -> Result<::rustls::ConfigBuilder<ClientConfig, ::rustls::WantsVerifier>, ConfigError> {
        let builder = match &self.time {
            Some(time) => ClientConfig::builder_with_details(self.provider.clone(), time.clone()),
            None => ClientConfig::builder_with_provider(self.provider.clone()),
        };
        builder.with_protocol_versions(&[&::rustls::version::TLS13]).map_err(ConfigError::Tls)
    }

    fn finish_client(&self, mut config: ClientConfig) -> ClientConfig {
        config.alpn_protocols = self.alpn.clone();
        config.enable_early_data = self.early_data && self.resumption;
        config.resumption = match self.resumption {
            true => ::rustls::client::Resumption::store(Arc::new(ClientSessions::new(CLIENT_SESSIONS))),
            false => ::rustls::client::Resumption::disabled(),
        };
        if self.key_log {
            config.key_log = Arc::new(KeyLogFile::new());
        }
        config
    }

    fn server_builder(
        &self,
    ) -> Result<::rustls::ConfigBuilder<ServerConfig, ::rustls::server::WantsServerCert>, ConfigError> {
        let builder = match &self.time {
            Some(time) => ServerConfig::builder_with_details(self.provider.clone(), time.clone()),
            None => ServerConfig::builder_with_provider(self.provider.clone()),
        };
        let builder = builder.with_protocol_versions(&[&::rustls::version::TLS13]).map_err(ConfigError::Tls)?;
        Ok(builder.with_no_client_auth())
    }

    fn finish_server(&self, mut config: ServerConfig) -> ServerConfig {
        config.alpn_protocols = self.alpn.clone();
        // Sessions are remembered here rather than sealed into tickets: only so can each be used once, which is
        // rustls's condition for 0-RTT.
        if self.resumption {
            config.session_storage = ServerSessionMemoryCache::new(SERVER_SESSIONS);
            config.max_early_data_size = if self.early_data { u32::MAX } else { 0 };
        } else {
            config.session_storage = Arc::new(::rustls::server::NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        if self.key_log {
            config.key_log = Arc::new(KeyLogFile::new());
        }
        config
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("alpn", &self.alpn.iter().map(|protocol| protocol.escape_ascii().to_string()).collect::<Vec<_>>())
            .field("key_log", &self.key_log)
            .field("early_data", &self.early_data)
            .field("resumption", &self.resumption)
            .finish_non_exhaustive()
    }
}

/// A server configuration with the usual options. See [`TlsOptions::server`].
///
/// # Errors
/// If the key cannot sign, does not belong to the certificate, or the chain is empty.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    alpn: &[&[u8]],
) -> Result<ServerConfig, ConfigError> {
    TlsOptions::new(alpn).server(chain, key)
}

/// A client configuration with the usual options. See [`TlsOptions::client`].
///
/// # Errors
/// None with the default provider.
pub fn client_config(roots: RootCertStore, alpn: &[&[u8]]) -> Result<ClientConfig, ConfigError> {
    TlsOptions::new(alpn).client(roots)
}

/// A client configuration that takes ANY certificate; for tests only. See [`TlsOptions::client_insecure`].
///
/// # Errors
/// None with the default provider.
pub fn client_config_insecure(alpn: &[&[u8]]) -> Result<ClientConfig, ConfigError> {
    TlsOptions::new(alpn).client_insecure()
}

/// A certificate that can be replaced while the server runs: new handshakes show the new one, sessions stay resumable.
#[derive(Debug)]
pub struct CertificateSlot {
    current: RwLock<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
}

impl CertificateSlot {
    /// Starts with the certificate `chain` (end entity first) and its `key`.
    ///
    /// # Errors
    /// If the key cannot sign, does not belong to the certificate, or the chain is empty.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, ConfigError> {
        let provider = Arc::new(Ciphers::default().provider());
        let first = CertifiedKey::from_der(chain, key, &provider).map_err(ConfigError::Certificate)?;
        Ok(Self { current: RwLock::new(Arc::new(first)), provider })
    }

    /// Shows this certificate from now on. On error the earlier one stays.
    ///
    /// # Errors
    /// If the key cannot sign, does not belong to the certificate, or the chain is empty.
    pub fn replace(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<(), ConfigError> {
        let next = CertifiedKey::from_der(chain, key, &self.provider).map_err(ConfigError::Certificate)?;
        *self.current.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(next);
        Ok(())
    }
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone())
    }
}

/// Takes any certificate, but insists that the peer holds its key.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ::rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ::rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
