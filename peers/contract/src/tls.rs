//! TLS configurations of the cases, with proof of resumption: a client that resumes verifies no certificate, a server
//! that resumes takes a session out of its store.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::evidence::Counter;
use crate::{Failure, Task, variable};

/// The suite of Initial packets, which every provider must hold.
pub const INITIAL_SUITE: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// The suite of the case `chacha20`.
pub const CHACHA20: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;

/// The provider of a case: in `chacha20` the only suite offered is that one.
pub fn provider(task: &Task) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if task.is("chacha20") {
        provider.cipher_suites.retain(|suite| suite.suite() == CHACHA20);
    }
    Arc::new(provider)
}

/// The client's configuration and the number of certificates it verified so far.
pub fn client(task: &Task) -> Result<(ClientConfig, Counter), Failure> {
    let verified = Counter::default();
    let provider = provider(task);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(variable("CA")?)?)?;
    let inner = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build()?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { inner, verified: verified.clone() }))
        .with_no_client_auth();
    config.alpn_protocols = vec![task.alpn().to_vec()];
    config.enable_early_data = task.is("zerortt");
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok((config, verified))
}

/// The server's configuration and the number of sessions resumed so far.
pub fn server(task: &Task) -> Result<(ServerConfig, Counter), Failure> {
    let resumed = Counter::default();
    let chain = CertificateDer::pem_file_iter(variable("CERT")?)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(variable("KEY")?)?;
    let mut config = ServerConfig::builder_with_provider(provider(task))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![task.alpn().to_vec()];
    config.session_storage = Arc::new(Sessions { inner: ServerSessionMemoryCache::new(256), taken: resumed.clone() });
    if task.is("zerortt") {
        config.max_early_data_size = u32::MAX;
    }
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok((config, resumed))
}

#[derive(Debug)]
struct Verifier {
    inner: Arc<rustls::client::WebPkiServerVerifier>,
    verified: Counter,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verified.add();
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

struct Sessions {
    inner: Arc<ServerSessionMemoryCache>,
    taken: Counter,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let value = self.inner.take(key);
        if value.is_some() {
            self.taken.add();
        }
        value
    }

    fn can_cache(&self) -> bool {
        true
    }
}
