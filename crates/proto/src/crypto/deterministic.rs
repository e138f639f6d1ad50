//! Real TLS, reproducible to the byte: rustls with seeded chance and a fixed date, for the lab. Never on the wire.
//!
//! Four things make a TLS handshake differ from run to run; each is replaced here:
//! - randoms, ticket IDs, extension order: rustls draws them from its provider's `SecureRandom`;
//! - the key exchange: ring draws its own randomness, so X25519 is done by x25519-dalek with a seeded private key;
//! - the date (certificates, tickets): a fixed one;
//! - the signature: Ed25519, which is deterministic and of constant length (ECDSA is neither).
//!
//! Every session has a generator of its own, named after the seed, the side and the session's ordinal, so that how
//! sessions interleave changes nothing. rustls asks for a `'static` source of randomness, which a session is not: the
//! source is a thread-local place into which a session puts its generator while it runs. Outside a session there is no
//! randomness to be had, and asking for it fails.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::ring::digest;
use ::rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use ::rustls::pki_types::pem::PemObject;
use ::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use ::rustls::time_provider::TimeProvider;
use ::rustls::{Error, KeyLog, NamedGroup, NoKeyLog, PeerMisbehaved, RootCertStore};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use x25519_dalek::{PublicKey, StaticSecret};

use super::rustls::{Ciphers, ConfigError, RustlsClient, RustlsServer, TlsOptions};
use super::{ClientCrypto, DirectionKeys, ExportError, KeyChange, PacketKeys, ServerCrypto, Session, StartError};
use crate::error::TransportError;
use crate::version::Version;

/// The certificate of the lab's servers, for localhost, 127.0.0.1 and ::1, valid from 2020 to 2119. Its key is public:
/// trust it nowhere else.
pub const TEST_CERTIFICATE_PEM: &[u8] = include_bytes!("../../testdata/test-cert.pem");

/// The Ed25519 private key of [`TEST_CERTIFICATE_PEM`].
pub const TEST_KEY_PEM: &[u8] = include_bytes!("../../testdata/test-key.pem");

/// [`TEST_CERTIFICATE_PEM`] as rustls takes it.
pub fn test_certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(TEST_CERTIFICATE_PEM).expect("the committed certificate parses")
}

/// [`TEST_KEY_PEM`] as rustls takes it.
pub fn test_key() -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(TEST_KEY_PEM).expect("the committed key parses")
}

/// Trust in [`test_certificate`] alone.
pub fn test_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(test_certificate()).expect("the committed certificate is a fit trust anchor");
    roots
}

/// A generator for one named purpose: the same `seed`, `name` and `index` give the same stream, any others an
/// independent one.
pub fn named_generator(seed: &[u8; 32], name: &str, index: u64) -> ChaCha20Rng {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(seed);
    context.update(&index.to_le_bytes());
    context.update(name.as_bytes());
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    ChaCha20Rng::from_seed(key)
}

thread_local! {
    /// The generator of the session that is running on this thread.
    static RUNNING: RefCell<Option<Box<ChaCha20Rng>>> = const { RefCell::new(None) };
}

/// Draws from the running session's generator; fails outside a session.
fn draw(out: &mut [u8]) -> Result<(), GetRandomFailed> {
    RUNNING.with_borrow_mut(|running| match running {
        Some(generator) => {
            generator.fill_bytes(out);
            Ok(())
        }
        None => Err(GetRandomFailed),
    })
}

/// Makes `generator` the thread's while `f` runs. Nests: the one before comes back afterwards.
fn lend<R>(generator: &mut Option<Box<ChaCha20Rng>>, f: impl FnOnce() -> R) -> R {
    struct Return<'a>(&'a mut Option<Box<ChaCha20Rng>>);
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            RUNNING.with_borrow_mut(|running| std::mem::swap(running, self.0));
        }
    }
    RUNNING.with_borrow_mut(|running| std::mem::swap(running, generator));
    let _return = Return(generator);
    f()
}

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, buf: &mut [u8]) -> Result<(), GetRandomFailed> {
        draw(buf)
    }
}

/// X25519 with a seeded private key.
#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut private = [0; 32];
        draw(&mut private)?;
        let private = StaticSecret::from(private);
        let public = PublicKey::from(&private);
        Ok(Box::new(SeededExchange { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct SeededExchange {
    private: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for SeededExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.private.diffie_hellman(&PublicKey::from(peer));
        // A point of small order makes the secret known to everyone (RFC 7748 section 6.1).
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(&shared.as_bytes()[..]))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// A date that stands still.
#[derive(Copy, Clone, Debug)]
pub struct FixedTime(pub UnixTime);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// A provider whose chance comes from the session that is running, with one suite so that sizes never differ:
/// TLS13_AES_128_GCM_SHA256.
///
/// Only for sessions of [`DeterministicClient`] and [`DeterministicServer`]; elsewhere every handshake fails for want
/// of randomness.
pub fn provider() -> CryptoProvider {
    CryptoProvider { kx_groups: vec![&SeededX25519], secure_random: &SeededRandom, ..Ciphers::Aes128.provider() }
}

fn options(alpn: &[&[u8]], date: UnixTime) -> TlsOptions {
    TlsOptions::new(alpn).provider(Arc::new(provider())).time(Arc::new(FixedTime(date)))
}

/// Starts client sessions that depend on the seed and their ordinal alone. Trusts the test certificate.
pub struct DeterministicClient {
    inner: RustlsClient,
    seed: [u8; 32],
    started: AtomicU64,
}

impl DeterministicClient {
    /// A client offering the application protocols `alpn`; `date` is what it takes for the present.
    ///
    /// # Errors
    /// None expected: the provider and the certificate are known to fit.
    pub fn new(seed: [u8; 32], alpn: &[&[u8]], date: UnixTime) -> Result<Self, ConfigError> {
        Self::with_key_log(seed, alpn, date, Arc::new(NoKeyLog {}))
    }

    /// The same, and every session passes its secrets to `log`, so that a capture of its packets can be decrypted.
    ///
    /// # Errors
    /// None expected, as for [`new`](Self::new).
    pub fn with_key_log(
        seed: [u8; 32],
        alpn: &[&[u8]],
        date: UnixTime,
        log: Arc<dyn KeyLog>,
    ) -> Result<Self, ConfigError> {
        let mut config = options(alpn, date).client(test_roots())?;
        config.key_log = log;
        Ok(Self { inner: RustlsClient::new(Arc::new(config)), seed, started: AtomicU64::new(0) })
    }
}

impl ClientCrypto for DeterministicClient {
    fn start(&self, version: Version, server_name: &str, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let index = self.started.fetch_add(1, Ordering::Relaxed);
        SeededSession::start(named_generator(&self.seed, "tls client", index), || {
            self.inner.start(version, server_name, params)
        })
    }
}

/// Starts server sessions that depend on the seed and their ordinal alone. Shows the test certificate.
pub struct DeterministicServer {
    inner: RustlsServer,
    seed: [u8; 32],
    started: AtomicU64,
}

impl DeterministicServer {
    /// A server accepting the application protocols `alpn`; `date` is what it takes for the present.
    ///
    /// # Errors
    /// None expected: the provider and the certificate are known to fit.
    pub fn new(seed: [u8; 32], alpn: &[&[u8]], date: UnixTime) -> Result<Self, ConfigError> {
        Self::with_key_log(seed, alpn, date, Arc::new(NoKeyLog {}))
    }

    /// The same, and every session passes its secrets to `log`, so that a capture of its packets can be decrypted.
    ///
    /// # Errors
    /// None expected, as for [`new`](Self::new).
    pub fn with_key_log(
        seed: [u8; 32],
        alpn: &[&[u8]],
        date: UnixTime,
        log: Arc<dyn KeyLog>,
    ) -> Result<Self, ConfigError> {
        let mut config = options(alpn, date).server(vec![test_certificate()], test_key())?;
        config.key_log = log;
        Ok(Self { inner: RustlsServer::new(Arc::new(config)), seed, started: AtomicU64::new(0) })
    }
}

impl ServerCrypto for DeterministicServer {
    fn start(&self, version: Version, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let index = self.started.fetch_add(1, Ordering::Relaxed);
        SeededSession::start(named_generator(&self.seed, "tls server", index), || self.inner.start(version, params))
    }
}

/// A session that runs on its own generator.
struct SeededSession {
    inner: Box<dyn Session>,
    generator: Option<Box<ChaCha20Rng>>,
}

impl SeededSession {
    fn start(
        generator: ChaCha20Rng,
        f: impl FnOnce() -> Result<Box<dyn Session>, StartError>,
    ) -> Result<Box<dyn Session>, StartError> {
        let mut generator = Some(Box::new(generator));
        let inner = lend(&mut generator, f)?;
        Ok(Box::new(SeededSession { inner, generator }))
    }
}

impl Session for SeededSession {
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError> {
        lend(&mut self.generator, || self.inner.read_handshake(data))
    }

    fn switch_version(&mut self, version: Version) -> bool {
        self.inner.switch_version(version)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        lend(&mut self.generator, || self.inner.write_handshake(out))
    }

    fn early_keys(&mut self) -> Option<DirectionKeys> {
        self.inner.early_keys()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn transport_parameters(&self) -> Option<&[u8]> {
        self.inner.transport_parameters()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn resumed(&self) -> bool {
        self.inner.resumed()
    }

    fn next_one_rtt(&mut self) -> Option<PacketKeys> {
        self.inner.next_one_rtt()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.inner.alpn()
    }

    fn server_name(&self) -> Option<&str> {
        self.inner.server_name()
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.inner.peer_certificates()
    }

    fn export(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError> {
        self.inner.export(out, label, context)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.inner.cipher_suite()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Pair, date, handshake};
    use super::*;

    fn ends(seed: u8) -> (DeterministicClient, DeterministicServer) {
        let client = DeterministicClient::new([seed; 32], &[b"h3"], date()).unwrap();
        (client, DeterministicServer::new([seed; 32], &[b"h3"], date()).unwrap())
    }

    /// A full handshake with its tickets and a resumed one with 0-RTT, and a packet sealed by each.
    fn transcript(seed: u8) -> Vec<u8> {
        let (client, server) = ends(seed);
        let mut all = Vec::new();
        for resumed in [false, true] {
            let pair = handshake(&client, &server, Version::V1);
            assert_eq!(pair.client.session.resumed(), resumed);
            assert_eq!(pair.client.early.is_some(), resumed);
            let mut packet = [0; 100];
            pair.client.one_rtt.unwrap().local.packet.seal(0, 1, b"header", &mut packet).unwrap();
            all.extend(pair.transcript);
            all.extend(packet);
        }
        all
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        let first = transcript(1);
        for _ in 1..20 {
            assert!(transcript(1) == first);
        }
        let other = transcript(2);
        assert_eq!(other.len(), first.len(), "sizes must not depend on the seed");
        assert!(other != first);
    }

    #[test]
    fn how_sessions_interleave_changes_nothing() {
        let (client, server) = ends(1);
        let one_by_one: Vec<_> = (0..2)
            .map(|_| {
                let mut pair = Pair::start(&client, &server, Version::V1, "localhost");
                pair.run().unwrap();
                pair.transcript
            })
            .collect();
        // The second session is started before the first has run, with nothing yet to resume: compare the first only.
        let (client, server) = ends(1);
        let mut first = Pair::start(&client, &server, Version::V1, "localhost");
        let mut second = Pair::start(&client, &server, Version::V1, "localhost");
        second.run().unwrap();
        first.run().unwrap();
        assert!(first.transcript == one_by_one[0]);
        assert!(second.transcript != one_by_one[0]);
    }

    #[test]
    fn two_sessions_of_one_seed_differ() {
        let (client, server) = ends(1);
        let one = handshake(&client, &server, Version::V1).transcript;
        assert!(handshake(&client, &server, Version::V1).transcript != one);
    }

    #[test]
    fn outside_a_session_there_is_no_randomness() {
        assert!(SeededRandom.fill(&mut [0; 4]).is_err());
        assert!(SeededX25519.start().is_err());
        let config = options(&[b"h3"], date()).client(test_roots()).unwrap();
        let bare = RustlsClient::new(Arc::new(config));
        assert!(matches!(bare.start(Version::V1, "localhost", b""), Err(StartError::Config(_))));
    }

    #[test]
    fn a_generator_is_given_back_even_by_a_panic() {
        let mut generator = Some(Box::new(named_generator(&[0; 32], "test", 0)));
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lend(&mut generator, || panic!("on purpose"))));
        assert!(result.is_err() && generator.is_some());
        assert!(draw(&mut [0]).is_err());
    }

    #[test]
    fn named_generators_differ_by_seed_name_and_index() {
        let first = |seed: u8, name, index| named_generator(&[seed; 32], name, index).next_u64();
        let all = [first(0, "a", 0), first(1, "a", 0), first(0, "b", 0), first(0, "a", 1)];
        assert_eq!(first(0, "a", 0), all[0]);
        for i in 0..all.len() {
            assert!(!all[i + 1..].contains(&all[i]));
        }
        // What the generator yields is part of every recorded result: a change of algorithm must not go unnoticed.
        assert_eq!(first(0, "pinned", 0), PINNED);
    }

    const PINNED: u64 = 9_993_562_475_143_402_363;

    #[test]
    fn a_key_share_of_small_order_is_refused() {
        let mut generator = Some(Box::new(named_generator(&[0; 32], "test", 0)));
        lend(&mut generator, || {
            assert!(SeededX25519.start().unwrap().complete(&[0; 32]).is_err());
            assert!(SeededX25519.start().unwrap().complete(&[9; 31]).is_err());
            assert!(SeededX25519.start().unwrap().complete(&[9; 32]).is_ok());
        });
    }
}
