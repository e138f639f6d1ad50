//! The server's certificate: read from PEM, or made on the spot; replaced while running; named in the words a client
//! needs.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thalweg::proto::crypto::tls_words::tls_error_words;
use thiserror::Error;

use crate::calendar::Civil;

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no certificate in the PEM text.
    #[error(
        "{place}: no certificate found; expected PEM text with '-----BEGIN CERTIFICATE-----', the server's own first"
    )]
    NoCertificate {
        /// Where it was looked for.
        place: String,
    },
    /// There is no private key in the PEM text.
    #[error(
        "{place}: no private key found; expected PEM text with '-----BEGIN PRIVATE KEY-----' (PKCS#8), \
         '-----BEGIN EC PRIVATE KEY-----' or '-----BEGIN RSA PRIVATE KEY-----', not encrypted"
    )]
    NoKey {
        /// Where it was looked for.
        place: String,
    },
    /// The PEM text is damaged.
    #[error("{place}: not readable as PEM: {why}")]
    Pem {
        /// Where.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// TLS cannot use the two together.
    #[error(
        "certificate and key cannot be used: {}; check that the key belongs to the first certificate of the file",
        tls_error_words(.0)
    )]
    Unusable(#[from] rustls::Error),
    /// No certificate could be made for these names.
    #[error("cannot make a certificate: {0}; names must be host names or IP addresses")]
    Generate(#[from] rcgen::Error),
}

/// A certificate chain and its private key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl Identity {
    /// A secret from which whoever has the private key can compute those for stateless resets.
    fn reset_secret(&self) -> ring::hmac::Key {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.key.secret_der());
        let tag = ring::hmac::sign(&key, b"thalweg stateless reset");
        ring::hmac::Key::new(ring::hmac::HMAC_SHA256, tag.as_ref())
    }

    /// Makes a self-signed ECDSA P-256 certificate for `localhost`, `127.0.0.1`, `::1` and `names`, valid from a day
    /// ago for a year.
    ///
    /// # Errors
    /// [`CertificateError::Generate`] when a name is neither a host name nor an IP address.
    pub fn self_signed<S: AsRef<str>>(names: &[S]) -> Result<Self, CertificateError> {
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).into();
        for name in names {
            let name = name.as_ref().trim_matches(['[', ']']);
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        let common_name = names.first().map_or("localhost", |name| name.as_ref());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = rcgen::CertificateParams::new(all)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let day = std::time::Duration::from_secs(86_400);
        let date = |time| {
            let Civil { year, month, day, .. } = Civil::from_system(time);
            rcgen::date_time_ymd(year as i32, month as u8, day as u8)
        };
        let now = SystemTime::now();
        params.not_before = date(now - day);
        params.not_after = date(now + 365 * day);
        let certificate = params.self_signed(&key)?;
        Ok(Self { chain: vec![certificate.der().clone()], key: PrivatePkcs8KeyDer::from(key.serialize_der()).into() })
    }

    /// Reads a certificate chain and a private key from two PEM files (which may be the same file).
    ///
    /// # Errors
    /// What is missing, and in which file.
    pub fn from_pem_files(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, CertificateError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source });
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        Self::parse(&read(certificate)?, &certificate.display().to_string(), &read(key)?, &key.display().to_string())
    }

    /// Takes a certificate chain and a private key from PEM text.
    ///
    /// # Errors
    /// What is missing.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        Self::parse(certificate, "certificate", key, "key")
    }

    fn parse(
        certificate: &[u8],
        certificate_place: &str,
        key: &[u8],
        key_place: &str,
    ) -> Result<Self, CertificateError> {
        let chain = certificates(certificate, certificate_place)?;
        let key = match PrivateKeyDer::from_pem_slice(key) {
            Ok(key) => key,
            Err(pem::Error::NoItemsFound) => {
                return Err(CertificateError::NoKey { place: key_place.into() });
            }
            Err(error) => {
                return Err(CertificateError::Pem { place: key_place.into(), why: pem_words(&error) });
            }
        };
        Ok(Self { chain, key })
    }

    /// The chain, the server's own certificate first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The private key.
    #[must_use]
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The chain as PEM text: what `--ca` of a client wants when the certificate is self-signed.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.chain.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect()
    }

    /// The private key as PEM text. Secret.
    #[must_use]
    pub fn key_pem(&self) -> String {
        let label = match &self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        pem(label, self.key.secret_der())
    }

    /// How a client can recognise the server's own certificate.
    ///
    /// # Errors
    /// When it is not a certificate.
    pub fn fingerprints(&self) -> Result<Fingerprints, CertificateError> {
        let Some(certificate) = self.chain.first() else {
            return Err(CertificateError::NoCertificate { place: "certificate chain".into() });
        };
        Ok(Fingerprints::of(certificate)?)
    }

    fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        let provider = rustls::crypto::ring::default_provider();
        Ok(CertifiedKey::from_der(self.chain.clone(), self.key.clone_key(), &provider)?)
    }
}

/// What is wrong with a PEM text. The library prints the text itself as a list of numbers.
fn pem_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end ('-----END …-----')".into(),
        pem::Error::IllegalSectionStart { .. } => "a section begins wrongly ('-----BEGIN …-----')".into(),
        pem::Error::Base64Decode(_) => "it is not Base64".into(),
        other => other.to_string(),
    }
}

/// The certificates of a PEM text; at least one.
pub(crate) fn certificates(pem: &[u8], place: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        chain.push(certificate.map_err(|error| CertificateError::Pem { place: place.into(), why: pem_words(&error) })?);
    }
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate { place: place.into() });
    }
    Ok(chain)
}

/// Two names of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fingerprints {
    /// SHA-256 of the public key (SubjectPublicKeyInfo), base64: what Chromium's
    /// `--ignore-certificate-errors-spki-list` and our client's pin take. It stays the same when a certificate is
    /// renewed with the same key.
    pub spki_sha256: String,
    /// SHA-256 of the certificate, hexadecimal with colons: what `openssl x509 -fingerprint -sha256` prints.
    pub certificate_sha256: String,
}

impl Fingerprints {
    /// Names a certificate.
    ///
    /// # Errors
    /// When it is not a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let spki = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        let mut certificate_sha256 = String::with_capacity(95);
        for (index, byte) in sha256(certificate).iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            let _ = write!(certificate_sha256, "{colon}{byte:02X}");
        }
        Ok(Self { spki_sha256: base64(&sha256(&spki)), certificate_sha256 })
    }
}

/// The certificate a server shows; [`replace`](Self::replace) changes it for every handshake from then on.
#[derive(Debug)]
pub struct CertificateStore {
    current: RwLock<Arc<CertifiedKey>>,
    reset_secret: ring::hmac::Key,
}

impl CertificateStore {
    /// Shows `identity`.
    ///
    /// # Errors
    /// When certificate and key do not belong together.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, CertificateError> {
        Ok(Arc::new(Self {
            current: RwLock::new(Arc::new(identity.certified_key()?)),
            reset_secret: identity.reset_secret(),
        }))
    }

    /// The key for stateless resets of the server at `address` on the machine `host`: one that starts again there with
    /// the same private key has the same. Servers that run at the same time must not share one (RFC 9000 section
    /// 21.11): each would end the other's connections for whoever asks it to.
    pub(crate) fn reset_key(&self, host: &[u8], address: SocketAddr) -> [u8; 32] {
        let mut context = ring::hmac::Context::with_key(&self.reset_secret);
        context.update(address.to_string().as_bytes());
        context.update(b" ");
        context.update(host);
        let mut out = [0; 32];
        out.copy_from_slice(context.sign().as_ref()); // the tag of HMAC-SHA-256 has 32 bytes
        out
    }

    /// Shows `identity` from now on. Connections that stand are not touched.
    ///
    /// # Errors
    /// When certificate and key do not belong together; the old one stays.
    pub fn replace(&self, identity: &Identity) -> Result<(), CertificateError> {
        let fresh = Arc::new(identity.certified_key()?);
        match self.current.write() {
            Ok(mut current) => *current = fresh,
            Err(poisoned) => *poisoned.into_inner() = fresh,
        }
        Ok(())
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = match self.current.read() {
            Ok(current) => current,
            Err(poisoned) => poisoned.into_inner(),
        };
        Some(Arc::clone(&current))
    }
}

pub(crate) fn sha256(data: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, data).as_ref().to_vec()
}

/// Base64 with padding (RFC 4648 section 4).
pub(crate) fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(data.len().div_ceil(3) * 4);
    for group in data.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..4 {
            if index <= group.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let body = base64(der);
    for start in (0..body.len()).step_by(64) {
        text.push_str(&body[start..body.len().min(start + 64)]);
        text.push('\n');
    }
    let _ = writeln!(text, "-----END {label}-----");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_again_can_make_stateless_resets_and_no_other() {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let again = Identity::from_pem(identity.certificate_pem().as_bytes(), identity.key_pem().as_bytes()).unwrap();
        let other = Identity::self_signed::<&str>(&[]).unwrap();
        let key = |identity, host: &str, port| {
            CertificateStore::new(identity).unwrap().reset_key(host.as_bytes(), SocketAddr::from(([0, 0, 0, 0], port)))
        };
        let own = key(&identity, "a", 4433);
        assert_eq!(own, key(&again, "a", 4433));
        for different in [key(&other, "a", 4433), key(&identity, "b", 4433), key(&identity, "a", 4434)] {
            assert_ne!(own, different);
        }
    }

    #[test]
    fn base64_as_in_rfc_4648_section_10() {
        for (data, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(data.as_bytes()), text);
        }
    }

    #[test]
    fn a_self_signed_certificate_survives_pem_and_names_itself() {
        let identity = Identity::self_signed(&["files.example", "[fd00::1]"]).unwrap();
        let again = Identity::from_pem(identity.certificate_pem().as_bytes(), identity.key_pem().as_bytes()).unwrap();
        assert_eq!(identity.chain(), again.chain());
        let names = identity.fingerprints().unwrap();
        assert_eq!(names, again.fingerprints().unwrap());
        assert_eq!(names.spki_sha256.len(), 44);
        assert_eq!(names.certificate_sha256.len(), 95);
        CertificateStore::new(&again).unwrap();
        assert!(Identity::self_signed(&["ü"]).is_err());
    }

    #[test]
    fn errors_say_what_is_missing_and_where() {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let (certificate, key) = (identity.certificate_pem(), identity.key_pem());
        let error = |c: &str, k: &str| Identity::from_pem(c.as_bytes(), k.as_bytes()).unwrap_err().to_string();
        assert!(error("", &key).starts_with("certificate: no certificate found"));
        assert!(error(&key, &key).starts_with("certificate: no certificate found"));
        assert!(error(&certificate, &certificate).starts_with("key: no private key found"));
        assert!(
            error(&certificate, "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----\n")
                .starts_with("key: not readable")
        );
        let missing = Identity::from_pem_files("/nonexistent/c.pem", "/nonexistent/k.pem");
        assert!(missing.unwrap_err().to_string().contains("/nonexistent/c.pem"));
    }

    #[test]
    fn a_key_that_belongs_to_another_certificate_is_refused_and_the_old_one_stays() {
        let one = Identity::self_signed::<&str>(&[]).unwrap();
        let two = Identity::self_signed::<&str>(&[]).unwrap();
        let mixed = Identity::from_pem(one.certificate_pem().as_bytes(), two.key_pem().as_bytes()).unwrap();
        let store = CertificateStore::new(&one).unwrap();
        assert!(matches!(store.replace(&mixed), Err(CertificateError::Unusable(_))));
        let shown = || store.current.read().unwrap().cert[0].clone();
        assert_eq!(shown(), one.chain()[0]);
        store.replace(&two).unwrap();
        assert_eq!(shown(), two.chain()[0]);
    }
}
