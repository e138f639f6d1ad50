//! Trust of the client in servers, and the reasons of refusals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError as Refused, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use thalweg::proto::crypto::tls_words::{certificate_error_words, presented_names, tls_error_words};

use super::error::{Error, Untrusted};
use crate::certificate::{CertificateError, base64, certificates, sha256};

/// Whom to trust.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Trust {
    /// The system's certificate authorities.
    #[default]
    Native,
    /// These certificates and what they sign; a self-signed server certificate can stand here itself.
    Certificates(Vec<CertificateDer<'static>>),
    /// Servers whose public key has one of these SHA-256 hashes, whatever else their certificates say.
    Keys(Vec<[u8; 32]>),
    /// Anybody. The connection is encrypted, but nobody knows with whom.
    Insecure,
}

impl Trust {
    /// Trusts the certificates of a PEM file.
    ///
    /// # Errors
    /// [`Error::Roots`] when the file cannot be read or holds no certificate.
    pub fn pem_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let roots = |error| Error::Roots(Arc::new(error));
        let text =
            std::fs::read(path).map_err(|source| roots(CertificateError::Read { path: path.to_owned(), source }))?;
        let list = certificates(&text, &path.display().to_string()).map_err(roots)?;
        Ok(Self::Certificates(list))
    }

    /// Trusts the key with this SHA-256 hash in base64, as the server prints it; a leading `sha256/` is allowed.
    ///
    /// # Errors
    /// [`Error::Settings`] when it is not such a hash.
    pub fn key(text: &str) -> Result<Self, Error> {
        let digits = text.trim();
        let digits = digits.strip_prefix("sha256/").unwrap_or(digits);
        match unbase64(digits) {
            Some(hash) => Ok(Self::Keys(vec![hash])),
            None => Err(Error::Settings(format!(
                "'{text}' is not the SHA-256 of a key; expected 44 characters of base64 as the server prints them"
            ))),
        }
    }
}

/// 32 bytes from base64; found by encoding back, so that only the canonical form is accepted.
fn unbase64(text: &str) -> Option<[u8; 32]> {
    let mut out = Vec::with_capacity(33);
    let (mut bits, mut have) = (0u32, 0u32);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
            bits &= (1 << have) - 1;
        }
        if out.len() > 32 {
            return None;
        }
    }
    let hash: [u8; 32] = out.try_into().ok()?;
    (base64(&hash).trim_end_matches('=') == text.trim_end_matches('=')).then_some(hash)
}

/// The refusals of a client's verifier by server name: TLS alone would only say "bad certificate".
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<String, Untrusted>>);

impl Refusals {
    /// Takes out why the certificate shown under `host` was refused.
    pub(super) fn take(&self, host: &ServerName<'_>, authority: &str) -> Option<Untrusted> {
        let mut refusals = self.0.lock().ok()?;
        let mut untrusted = refusals.get(&*host.to_str())?.clone();
        untrusted.authority = authority.to_owned();
        refusals.remove(&*host.to_str());
        Some(untrusted)
    }
}

/// TLS settings for QUIC and for TCP, and the place where refusals are noted.
pub(super) struct ClientTls {
    pub quic: Arc<ClientConfig>,
    pub tcp: Arc<ClientConfig>,
    pub refusals: Arc<Refusals>,
}

impl ClientTls {
    pub(super) fn new(trust: &Trust, key_log: bool) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refusals = Arc::new(Refusals::default());
        let mode = match trust {
            Trust::Insecure => Mode::Anybody,
            Trust::Keys(keys) => Mode::Keys(keys.clone()),
            Trust::Native => Mode::Roots { verifier: native_roots(&provider)?, own: Vec::new() },
            Trust::Certificates(list) => Mode::Roots { verifier: roots(list, &provider)?, own: list.clone() },
        };
        let verifier = Arc::new(Verifier { mode, provider: Arc::clone(&provider), refusals: Arc::clone(&refusals) });
        let build = |protocols: &[&[u8]], early: bool| {
            let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .map_err(|error| Error::Settings(tls_error_words(&error)))?
                .dangerous()
                .with_custom_certificate_verifier(verifier.clone())
                .with_no_client_auth();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            config.enable_early_data = early;
            if key_log {
                config.key_log = Arc::new(rustls::KeyLogFile::new());
            }
            Ok::<_, Error>(Arc::new(config))
        };
        Ok(Self { quic: build(&[b"h3"], false)?, tcp: build(&[b"h2", b"http/1.1"], false)?, refusals })
    }
}

fn roots(list: &[CertificateDer<'static>], provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut store = RootCertStore::empty();
    for certificate in list {
        store.add(certificate.clone()).map_err(|error| {
            let why = tls_error_words(&error);
            Error::Settings(format!("a certificate to trust cannot be used: {why}; expected X.509 in PEM"))
        })?;
    }
    verifier(store, provider)
}

fn native_roots(provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let store = thalweg::native_roots()
        .map_err(|error| Error::Settings(format!("{error}; install ca-certificates, or pass --ca FILE")))?;
    verifier(store, provider)
}

fn verifier(store: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
        .build()
        .map_err(|error| Error::Settings(format!("the certificates to trust cannot be used: {error}")))
}

#[derive(Debug)]
enum Mode {
    Roots {
        verifier: Arc<WebPkiServerVerifier>,
        /// What is trusted also as a server's own certificate.
        own: Vec<CertificateDer<'static>>,
    },
    Keys(Vec<[u8; 32]>),
    Anybody,
}

#[derive(Debug)]
struct Verifier {
    mode: Mode,
    provider: Arc<CryptoProvider>,
    refusals: Arc<Refusals>,
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
        let key_hash = || {
            let parsed = ParsedCertificate::try_from(end_entity).ok()?;
            Some(sha256(&parsed.subject_public_key_info()))
        };
        let result = match &self.mode {
            Mode::Anybody => Ok(ServerCertVerified::assertion()),
            Mode::Keys(keys) => match key_hash() {
                Some(hash) if keys.iter().any(|key| key.as_slice() == hash) => Ok(ServerCertVerified::assertion()),
                _ => Err(rustls::Error::InvalidCertificate(Refused::ApplicationVerificationFailure)),
            },
            Mode::Roots { verifier, own } => {
                match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                    Err(error) if is_authority(&error) && own.iter().any(|own| own == end_entity) => {
                        ParsedCertificate::try_from(end_entity)
                            .and_then(|parsed| verify_server_name(&parsed, server_name))
                            .map(|()| ServerCertVerified::assertion())
                    }
                    result => result,
                }
            }
        };
        if let Err(error) = &result
            && let Ok(mut refusals) = self.refusals.0.lock()
        {
            let (why, advice) = explain(error);
            refusals.insert(
                server_name.to_str().into_owned(),
                Untrusted {
                    authority: server_name.to_str().into_owned(),
                    why,
                    advice,
                    spki_sha256: key_hash().map(|hash| base64(&hash)),
                },
            );
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether the only thing wrong so far is that a server shows the certificate of an authority as its own. That is what
/// `openssl req -x509` makes. The dates have been checked before (RFC 5280 section 6.1.3), the name has not.
fn is_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(Refused::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Why a certificate was refused and what can be done, for a person.
fn explain(error: &rustls::Error) -> (String, String) {
    let rustls::Error::InvalidCertificate(refused) = error else {
        return (tls_error_words(error), "pass the right certificate with --ca".into());
    };
    let (why, advice): (String, &str) = match refused {
        // A bad signature is what another self-signed certificate with the name of a trusted one looks like.
        Refused::UnknownIssuer | Refused::BadSignature => (
            "nobody trusted here signed it".into(),
            "if it is the server's own, pass it with --ca FILE or its key with --pin, or do not check at all with --insecure",
        ),
        Refused::Expired | Refused::ExpiredContext { .. } => {
            ("it has expired".into(), "the server needs a new one (is this machine's clock right?)")
        }
        Refused::NotValidYet | Refused::NotValidYetContext { .. } => {
            ("it is not valid yet".into(), "check this machine's clock and the server's")
        }
        Refused::NotValidForName => ("it is for another name".into(), "use a name that stands in the certificate"),
        Refused::NotValidForNameContext { presented, .. } => (
            format!("it is for other names ({})", presented_names(presented).join(", ")),
            "use one of those names in the URL",
        ),
        _ if is_authority(error) => (
            "it is that of an authority, which the server shows as its own".into(),
            "if it is the right one, pass this very certificate with --ca FILE or its key with --pin",
        ),
        Refused::ApplicationVerificationFailure => (
            "its key is not the one expected".into(),
            "compare with what the server prints; somebody may be in between",
        ),
        other => (certificate_error_words(other), "the server needs another certificate, or pass it with --ca FILE"),
    };
    (why, advice.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Identity;

    #[test]
    fn a_key_hash_is_read_as_the_server_prints_it() {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let printed = identity.fingerprints().unwrap().spki_sha256;
        for text in [printed.clone(), format!("sha256/{printed}"), format!(" {printed} ")] {
            let Trust::Keys(keys) = Trust::key(&text).unwrap() else { panic!("not a key") };
            assert_eq!(base64(&keys[0]), printed);
        }
        for text in ["", "abc", "sha256/", &"A".repeat(42), &"A".repeat(45), &"*".repeat(43), &"B".repeat(43)] {
            assert!(Trust::key(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pem_file_without_certificate_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let error = Trust::pem_file(&path).unwrap_err();
        assert!(error.to_string().contains("ca.pem"));
        assert!(Trust::pem_file(dir.path().join("none")).is_err());
    }
}
