//! TLS 1.3 through rustls: sessions, packet keys, and ready-made configurations for QUIC (RFC 9001).

use std::sync::Arc;

use ::rustls::pki_types::{CertificateDer, ServerName};
use ::rustls::{AlertDescription, ClientConfig, Error, HandshakeKind, ServerConfig, quic};

pub use super::config::{
    CertificateSlot, Ciphers, ConfigError, TlsOptions, client_config, client_config_insecure, server_config,
};
use super::derive::TrafficSecrets;
use super::hooks::{self, Bond, Captured};
use super::tls_keys::{TlsPacketKey, tls_version};
use super::tls_words::tls_error_words;
use super::{ClientCrypto, DirectionKeys, ExportError, KeyChange, PacketKeys, ServerCrypto, Session, StartError};
use crate::Side;
use crate::error::TransportError;
use crate::transport_parameters::TransportParameters;
use crate::version::Version;

struct TlsSession {
    tls: quic::Connection,
    version: Version,
    /// From which the next generation of 1-RTT keys is derived.
    secrets: Option<quic::Secrets>,
    /// Present if the version is not the one rustls was started with.
    switched: Option<Switched>,
    /// Whether a server has accepted 0-RTT.
    early_accepted: bool,
    /// The name a client asked for; a server learns it from the ClientHello.
    asked_name: Option<Box<str>>,
    /// See [`Bond::limits`].
    limits: u64,
}

/// What takes the place of rustls's keys.
#[derive(Default)]
struct Switched {
    captured: Captured,
    one_rtt: Option<TrafficSecrets>,
}

impl TlsSession {
    fn new(tls: quic::Connection, version: Version, asked_name: Option<&str>) -> Self {
        Self {
            tls,
            version,
            secrets: None,
            switched: None,
            early_accepted: false,
            asked_name: asked_name.map(Box::from),
            limits: 0,
        }
    }

    /// What a client derives for its own version from the secrets it has captured.
    fn switched_secrets(&self, one_rtt: bool) -> Option<TrafficSecrets> {
        let captured = self.switched.as_ref()?.captured;
        let [client, server] = match one_rtt {
            true => captured.one_rtt,
            false => captured.handshake,
        };
        let suite = self.tls.negotiated_cipher_suite()?.suite();
        TrafficSecrets::new(suite, self.version, client?, server?)
    }
}

impl Session for TlsSession {
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError> {
        let captured = self.switched.as_mut().map(|switched| &mut switched.captured);
        let bond = Bond { version: self.version, limits: self.limits };
        let read = hooks::run(bond, captured, || self.tls.read_hs(data));
        read.map_err(|error| {
            let alert = self.tls.alert().unwrap_or_else(|| alert_for(&error));
            TransportError::crypto(u8::from(alert), tls_error_words(&error))
        })?;
        if let quic::Connection::Server(server) = &self.tls
            && server.is_handshaking()
            && !self.early_accepted
        {
            // A server that rejects 0-RTT forgets the secret at once.
            self.early_accepted = server.zero_rtt_keys().is_some();
        }
        Ok(())
    }

    fn switch_version(&mut self, version: Version) -> bool {
        let begun = self.tls.negotiated_cipher_suite().is_some() || !self.tls.is_handshaking();
        if !matches!(self.tls, quic::Connection::Client(_)) || begun || !version.is_supported() {
            return false;
        }
        if version != self.version {
            self.version = version;
            self.switched = Some(Switched::default());
        }
        true
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        match self.tls.write_hs(out)? {
            quic::KeyChange::Handshake { keys } => {
                let switched = self.switched_secrets(false).map(|secrets| secrets.keys());
                Some(KeyChange::Handshake(switched.unwrap_or_else(|| keys.into())))
            }
            quic::KeyChange::OneRtt { keys, next } => {
                if let Some(secrets) = self.switched_secrets(true) {
                    let keys = secrets.keys();
                    self.switched.get_or_insert_default().one_rtt = Some(secrets);
                    return Some(KeyChange::OneRtt(keys));
                }
                self.secrets = Some(next);
                Some(KeyChange::OneRtt(keys.into()))
            }
        }
    }

    fn early_keys(&mut self) -> Option<DirectionKeys> {
        self.tls.zero_rtt_keys().map(DirectionKeys::from)
    }

    fn early_data_accepted(&self) -> Option<bool> {
        let accepted = match &self.tls {
            quic::Connection::Client(client) => client.is_early_data_accepted(),
            quic::Connection::Server(_) => self.early_accepted,
        };
        (accepted || !self.tls.is_handshaking()).then_some(accepted)
    }

    fn transport_parameters(&self) -> Option<&[u8]> {
        self.tls.quic_transport_parameters()
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    fn next_one_rtt(&mut self) -> Option<PacketKeys> {
        if let Some(secrets) = self.switched.as_mut().and_then(|it| it.one_rtt.as_mut()) {
            return Some(secrets.update());
        }
        let keys = self.secrets.as_mut()?.next_packet_keys();
        Some(PacketKeys { local: Box::new(TlsPacketKey(keys.local)), remote: Box::new(TlsPacketKey(keys.remote)) })
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    fn server_name(&self) -> Option<&str> {
        match &self.tls {
            quic::Connection::Client(_) => self.asked_name.as_deref(),
            quic::Connection::Server(server) => server.server_name(),
        }
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.tls.peer_certificates().map(<[_]>::to_vec)
    }

    fn export(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError> {
        self.tls.export_keying_material(out, label, Some(context)).map(drop).map_err(|_| ExportError)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str())
    }
}

/// The alert of an error for which rustls has raised none.
fn alert_for(error: &Error) -> AlertDescription {
    match error {
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        Error::PeerMisbehaved(_) => AlertDescription::IllegalParameter,
        Error::PeerIncompatible(_) => AlertDescription::HandshakeFailure,
        Error::InvalidCertificate(_) => AlertDescription::BadCertificate,
        Error::NoApplicationProtocol => AlertDescription::NoApplicationProtocol,
        _ => AlertDescription::InternalError,
    }
}

/// Starts client sessions with one rustls configuration, whose session store they share.
#[derive(Clone, Debug)]
pub struct RustlsClient {
    config: Arc<ClientConfig>,
    /// The same with a tapped key log.
    tapped: Arc<ClientConfig>,
}

impl RustlsClient {
    /// Uses `config`, which must allow TLS 1.3. See [`client_config`].
    ///
    /// A session of one QUIC version must not be resumed in another (RFC 9369 section 5): the session store of
    /// [`TlsOptions`] sees to that. With a store of another make, speak one version only.
    pub fn new(config: Arc<ClientConfig>) -> Self {
        let mut tapped = (*config).clone();
        tapped.key_log = Arc::new(hooks::Tap(tapped.key_log));
        Self { config, tapped: Arc::new(tapped) }
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }
}

impl ClientCrypto for RustlsClient {
    fn start(&self, version: Version, server_name: &str, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let tls_version = tls_version(version).ok_or(StartError::UnsupportedVersion(version))?;
        // A URL writes an IPv6 address in brackets; a certificate does not.
        let bare = server_name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(server_name);
        let name =
            ServerName::try_from(bare.to_owned()).map_err(|_| StartError::InvalidServerName(server_name.to_owned()))?;
        let tls = hooks::run(Bond { version, limits: 0 }, None, || {
            quic::ClientConnection::new(self.tapped.clone(), tls_version, name, params.to_vec())
        });
        let tls = tls.map_err(|error| StartError::Config(error.to_string()))?;
        let session = TlsSession::new(tls.into(), version, Some(server_name));
        Ok(Box::new(session))
    }
}

/// Starts server sessions with one rustls configuration, whose session store they share.
///
/// To change certificates while connections come in, either build the configuration on a [`CertificateSlot`] (sessions
/// stay resumable) or hand the endpoint a new `RustlsServer` (earlier sessions are forgotten).
#[derive(Clone, Debug)]
pub struct RustlsServer {
    config: Arc<ServerConfig>,
    /// The same, remembering sessions apart by version.
    apart: Arc<ServerConfig>,
}

impl RustlsServer {
    /// Uses `config`, which must allow TLS 1.3 and has a `max_early_data_size` of 0 or `u32::MAX` (RFC 9001 section
    /// 4.6.1). See [`server_config`].
    pub fn new(config: Arc<ServerConfig>) -> Self {
        let mut apart = (*config).clone();
        apart.session_storage = Arc::new(hooks::ServerSessions(apart.session_storage));
        apart.ticketer = Arc::new(hooks::Tickets(apart.ticketer));
        Self { config, apart: Arc::new(apart) }
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

impl ServerCrypto for RustlsServer {
    fn start(&self, version: Version, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let tls_version = tls_version(version).ok_or(StartError::UnsupportedVersion(version))?;
        let tls = quic::ServerConnection::new(self.apart.clone(), tls_version, params.to_vec())
            .map_err(|error| StartError::Config(error.to_string()))?;
        let limits = limits_fingerprint(params);
        Ok(Box::new(TlsSession { limits, ..TlsSession::new(tls.into(), version, None) }))
    }
}

/// Tells servers' transport parameters apart by what a client remembers of them for 0-RTT (RFC 9000 section 7.4.1).
fn limits_fingerprint(params: &[u8]) -> u64 {
    let Ok(params) = TransportParameters::decode(params, Side::Server) else {
        return 0;
    };
    // FNV-1a, 64 bits: nobody gains by a collision but the operator who changes limits.
    let limits = params.remembered_limits();
    limits
        .iter()
        .flat_map(|limit| limit.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::super::deterministic::{test_certificate, test_key, test_roots};
    use super::super::testing::{Pair, date, fits, handshake};
    use super::super::{CryptoError, DecryptError, TAG_LEN};
    use super::*;
    use crate::error::TransportErrorCode;
    use ::rustls::RootCertStore;
    use ::rustls::crypto::ring as ring_provider;
    use ::rustls::pki_types::{PrivateKeyDer, UnixTime};
    use ::rustls::server::{ClientHello, ResolvesServerCert};
    use ::rustls::sign::CertifiedKey;
    use ::rustls::time_provider::TimeProvider;

    #[derive(Debug)]
    struct At(u64);

    impl TimeProvider for At {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0)))
        }
    }

    fn options() -> TlsOptions {
        TlsOptions::new(&[b"h3"])
    }

    fn client_of(options: &TlsOptions) -> RustlsClient {
        RustlsClient::new(Arc::new(options.client(test_roots()).unwrap()))
    }

    fn server_of(options: &TlsOptions) -> RustlsServer {
        RustlsServer::new(Arc::new(options.server(vec![test_certificate()], test_key()).unwrap()))
    }

    /// The error of a handshake that must fail, and whether the client raised it.
    fn failure(client: &RustlsClient, server: &RustlsServer, name: &str) -> (bool, TransportError) {
        Pair::start(client, server, Version::V1, name).run().unwrap_err()
    }

    #[test]
    fn a_handshake_yields_matching_keys_at_every_level_in_both_versions() {
        for version in [Version::V1, Version::V2] {
            let mut pair = handshake(&client_of(&options()), &server_of(&options()), version);
            let (client, server) = (&pair.client, &pair.server);
            let (c, s) = (client.handshake.as_ref().unwrap(), server.handshake.as_ref().unwrap());
            let (c1, s1) = (client.one_rtt.as_ref().unwrap(), server.one_rtt.as_ref().unwrap());
            assert!(fits(&*c.local.packet, &*s.remote.packet) && fits(&*s.local.packet, &*c.remote.packet));
            assert!(fits(&*c1.local.packet, &*s1.remote.packet) && fits(&*s1.local.packet, &*c1.remote.packet));
            assert!(!fits(&*c.local.packet, &*s1.remote.packet) && !fits(&*c1.local.packet, &*c1.remote.packet));

            assert_eq!(client.session.transport_parameters(), Some(&b"server parameters"[..]));
            assert_eq!(server.session.transport_parameters(), Some(&b"client parameters"[..]));
            for end in [client, server] {
                assert_eq!(end.session.alpn(), Some(&b"h3"[..]));
                assert_eq!(end.session.server_name(), Some("localhost"));
                assert_eq!(end.session.cipher_suite(), Some("TLS13_AES_128_GCM_SHA256"));
                assert_eq!(end.session.early_data_accepted(), Some(false));
                assert!(!end.session.resumed());
            }
            assert_eq!(client.session.peer_certificates().unwrap(), [test_certificate()]);

            let mut exported = [[0; 40]; 2];
            client.session.export(&mut exported[0], b"EXPORTER-test", b"context").unwrap();
            server.session.export(&mut exported[1], b"EXPORTER-test", b"context").unwrap();
            assert_eq!(exported[0], exported[1]);

            // Key updates: generation by generation, and no generation opens another's packets.
            let mut earlier = (pair.client.one_rtt.take().unwrap().local.packet, 0);
            for generation in 1..4 {
                let client = pair.client.session.next_one_rtt().unwrap();
                let server = pair.server.session.next_one_rtt().unwrap();
                assert!(fits(&*client.local, &*server.remote) && fits(&*server.local, &*client.remote));
                assert!(!fits(&*earlier.0, &*server.remote), "generation {} at {generation}", earlier.1);
                earlier = (client.local, generation);
            }
        }
    }

    #[test]
    fn versions_do_not_share_keys() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        let mut pair = Pair::start_in(&client, &server, Version::V1, Version::V2, "localhost");
        pair.run().unwrap();
        let (client, server) = (pair.client.one_rtt.unwrap(), pair.server.one_rtt.unwrap());
        assert!(!fits(&*client.local.packet, &*server.remote.packet));
    }

    /// A pair whose client starts in `first` and whose server in `chosen`, the client being notified in time.
    fn switched_pair(client: &RustlsClient, server: &RustlsServer, first: Version, chosen: Version) -> Pair {
        let mut pair = Pair::start_in(client, server, first, chosen, "localhost");
        assert!(pair.client.session.switch_version(chosen));
        pair.run().unwrap();
        pair
    }

    #[test]
    fn a_client_follows_the_server_into_a_compatible_version() {
        for ciphers in [Ciphers::Aes128, Ciphers::Aes256, Ciphers::ChaCha20] {
            for (first, chosen) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
                let (client, server) = (client_of(&options().ciphers(ciphers)), server_of(&options()));
                let mut pair = switched_pair(&client, &server, first, chosen);
                let (c, s) = (pair.client.handshake.unwrap(), pair.server.handshake.unwrap());
                assert!(fits(&*c.local.packet, &*s.remote.packet) && fits(&*s.local.packet, &*c.remote.packet));
                let (c, s) = (pair.client.one_rtt.unwrap(), pair.server.one_rtt.unwrap());
                assert!(fits(&*c.local.packet, &*s.remote.packet) && fits(&*s.local.packet, &*c.remote.packet));
                assert_eq!(c.local.packet.confidentiality_limit(), s.remote.packet.confidentiality_limit());
                assert_eq!(c.local.packet.integrity_limit(), s.remote.packet.integrity_limit());
                assert_eq!(c.local.header.sample_len(), s.remote.header.sample_len());
                for original in [0x43, 0xc3, 0x40] {
                    let (mut first, mut number) = (original, [1, 2, 3, 4]);
                    c.local.header.protect(&[7; 16], &mut first, &mut number);
                    // A mask of one byte is zero for one key in 256; that of four bytes hardly ever.
                    assert!(original & 3 == 0 || number != [1, 2, 3, 4]);
                    s.remote.header.unprotect(&[7; 16], &mut first, &mut number);
                    assert_eq!((first, number), (original, [1, 2, 3, 4]));
                    s.local.header.protect(&[7; 16], &mut first, &mut number);
                    c.remote.header.unprotect(&[7; 16], &mut first, &mut number);
                    assert_eq!((first, number), (original, [1, 2, 3, 4]));
                }
                for _ in 0..3 {
                    let client = pair.client.session.next_one_rtt().unwrap();
                    let server = pair.server.session.next_one_rtt().unwrap();
                    assert!(fits(&*client.local, &*server.remote) && fits(&*server.local, &*client.remote));
                }
            }
        }
    }

    #[test]
    fn a_version_can_be_switched_only_by_a_client_and_in_time() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        let mut pair = Pair::start(&client, &server, Version::V1, "localhost");
        assert!(!pair.server.session.switch_version(Version::V2));
        assert!(!pair.client.session.switch_version(Version(7)));
        assert!(pair.client.session.switch_version(Version::V1));
        pair.run().unwrap();
        assert!(!pair.client.session.switch_version(Version::V2));
    }

    #[test]
    fn a_session_of_one_version_must_not_be_resumed_in_another() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        handshake(&client, &server, Version::V1);
        assert!(!handshake(&client, &server, Version::V2).client.session.resumed());
        assert!(handshake(&client, &server, Version::V1).client.session.resumed());
        assert!(handshake(&client, &server, Version::V2).client.session.resumed());

        // The server does not take the client's word for it: here rustls's own store, which knows no versions.
        let mut config = (**client.config()).clone();
        config.resumption = ::rustls::client::Resumption::in_memory_sessions(8);
        let careless = RustlsClient::new(Arc::new(config));
        handshake(&careless, &server, Version::V1);
        assert!(!handshake(&careless, &server, Version::V2).client.session.resumed());
    }

    #[test]
    fn a_session_counts_as_one_of_the_version_negotiated() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        switched_pair(&client, &server, Version::V1, Version::V2);
        assert!(!handshake(&client, &server, Version::V1).client.session.resumed());
        assert!(handshake(&client, &server, Version::V2).client.session.resumed());
    }

    #[test]
    fn tickets_too_are_bound_to_their_version() {
        #[derive(Debug)]
        struct Plain;
        impl ::rustls::server::ProducesTickets for Plain {
            fn enabled(&self) -> bool {
                true
            }
            fn lifetime(&self) -> u32 {
                60
            }
            fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
                Some(plain.to_vec())
            }
            fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
                Some(cipher.to_vec())
            }
        }
        let mut config = (**server_of(&options()).config()).clone();
        config.ticketer = Arc::new(Plain);
        let server = RustlsServer::new(Arc::new(config));
        let mut config = (**client_of(&options()).config()).clone();
        config.resumption = ::rustls::client::Resumption::in_memory_sessions(8);
        let client = RustlsClient::new(Arc::new(config));
        handshake(&client, &server, Version::V1);
        assert!(handshake(&client, &server, Version::V1).client.session.resumed());
        assert!(!handshake(&client, &server, Version::V2).client.session.resumed());
    }

    #[test]
    fn export_before_the_handshake_is_complete_is_an_error() {
        let session = client_of(&options()).start(Version::V1, "localhost", b"").unwrap();
        assert_eq!(session.export(&mut [0; 8], b"label", b""), Err(ExportError));
        assert_eq!(session.early_data_accepted(), None);
    }

    #[test]
    fn a_resumed_session_has_early_keys_and_each_ticket_is_good_once() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        let first = handshake(&client, &server, Version::V1);
        assert!(first.client.early.is_none() && first.server.early.is_none());

        let second = Pair::start(&client, &server, Version::V1, "localhost");
        assert_eq!(second.client.session.transport_parameters(), Some(&b"server parameters"[..]), "remembered");
        let mut second = second;
        second.run().unwrap();
        assert!(second.client.session.resumed() && second.server.session.resumed());
        assert_eq!(second.client.session.early_data_accepted(), Some(true));
        assert_eq!(second.server.session.early_data_accepted(), Some(true));
        let (local, remote) = (second.client.early.unwrap(), second.server.early.unwrap());
        assert!(fits(&*local.packet, &*remote.packet));

        // The same first flight again: a replay. It must not reach 0-RTT.
        let mut hello = Vec::new();
        let mut again = client.start(Version::V1, "localhost", b"").unwrap();
        assert!(again.early_keys().is_some());
        again.write_handshake(&mut hello);
        let mut original = server.start(Version::V1, b"server parameters").unwrap();
        original.read_handshake(&hello).unwrap();
        assert!(original.early_keys().is_some());
        let mut replayed = server.start(Version::V1, b"server parameters").unwrap();
        replayed.read_handshake(&hello).unwrap();
        assert!(replayed.early_keys().is_none());
    }

    #[test]
    fn a_server_that_refuses_0rtt_still_resumes() {
        let client = client_of(&options());
        let accepting = server_of(&options());
        handshake(&client, &accepting, Version::V1);
        let mut config = (**accepting.config()).clone();
        config.max_early_data_size = 0;
        let refusing = RustlsServer::new(Arc::new(config));
        let pair = handshake(&client, &refusing, Version::V1);
        assert!(pair.client.session.resumed() && pair.client.early.is_some());
        assert_eq!(pair.client.session.early_data_accepted(), Some(false));
        assert_eq!(pair.server.session.early_data_accepted(), Some(false));
    }

    #[test]
    fn without_resumption_nothing_is_remembered() {
        let (client, server) = (client_of(&options().resumption(false)), server_of(&options().resumption(false)));
        handshake(&client, &server, Version::V1);
        assert!(!handshake(&client, &server, Version::V1).client.session.resumed());
    }

    #[test]
    fn ciphers_are_offered_in_the_order_preferred() {
        let server = server_of(&options());
        for (ciphers, expected) in [
            (Ciphers::All, "TLS13_AES_128_GCM_SHA256"),
            (Ciphers::Aes256, "TLS13_AES_256_GCM_SHA384"),
            (Ciphers::PreferChaCha20, "TLS13_CHACHA20_POLY1305_SHA256"),
            (Ciphers::ChaCha20, "TLS13_CHACHA20_POLY1305_SHA256"),
        ] {
            let pair = handshake(&client_of(&options().ciphers(ciphers)), &server, Version::V1);
            assert_eq!(pair.server.session.cipher_suite(), Some(expected));
            let (c, s) = (pair.client.one_rtt.unwrap(), pair.server.one_rtt.unwrap());
            assert!(fits(&*c.local.packet, &*s.remote.packet));
        }
        let (by_client, error) = failure(
            &client_of(&options().ciphers(Ciphers::Aes128)),
            &server_of(&options().ciphers(Ciphers::ChaCha20)),
            "localhost",
        );
        assert!(!by_client);
        assert_eq!(error.code, TransportErrorCode::crypto(40), "handshake_failure: {error}");
    }

    #[test]
    fn certificate_errors_carry_their_alert_and_say_what_is_wrong() {
        let server = server_of(&options());
        let stranger = RustlsClient::new(Arc::new(client_config(RootCertStore::empty(), &[b"h3"]).unwrap()));
        for (client, name, alert, words) in [
            (stranger, "localhost", 48, "not signed by a trusted authority"),
            (client_of(&options()), "example.org", 42, "not valid for"),
            (client_of(&options().time(Arc::new(At(0)))), "localhost", 45, "not valid yet"),
            (client_of(&options().time(Arc::new(At(5_000_000_000)))), "localhost", 45, "expired"),
        ] {
            let (by_client, error) = failure(&client, &server, name);
            assert!(by_client);
            assert_eq!(error.code, TransportErrorCode::crypto(alert), "{error}");
            assert!(error.reason.contains(words), "{error}");
        }
    }

    #[test]
    fn no_application_protocol_in_common_is_alert_120() {
        let (by_client, error) =
            failure(&client_of(&TlsOptions::new(&[b"hq-interop"])), &server_of(&options()), "localhost");
        assert!(!by_client);
        assert_eq!(error.code, TransportErrorCode::crypto(120));
        assert!(error.reason.contains("application protocol"), "{error}");
    }

    #[test]
    fn a_damaged_handshake_message_is_an_error_and_not_a_panic() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        let mut hello = Vec::new();
        client.start(Version::V1, "localhost", b"params").unwrap().write_handshake(&mut hello);
        for at in 0..hello.len() {
            let mut damaged = hello.clone();
            damaged[at] ^= 0x55;
            let mut session = server.start(Version::V1, b"params").unwrap();
            if let Err(error) = session.read_handshake(&damaged) {
                assert!(error.code.tls_alert().is_some(), "{error}");
            }
            session.write_handshake(&mut Vec::new());
        }
        let mut session = server.start(Version::V1, b"params").unwrap();
        // A message type that does not exist, with no body.
        assert!(session.read_handshake(&[0x63, 0, 0, 0]).is_err());
    }

    #[test]
    fn names_may_be_addresses_and_bad_names_are_told() {
        let (client, server) = (client_of(&options()), server_of(&options()));
        for name in ["127.0.0.1", "::1", "[::1]", "LOCALHOST"] {
            Pair::start(&client, &server, Version::V1, name).run().unwrap();
        }
        for name in ["", "no spaces", "localhost:4433", "[::1"] {
            assert_eq!(client.start(Version::V1, name, b"").err(), Some(StartError::InvalidServerName(name.into())));
        }
        assert_eq!(client.start(Version(7), "localhost", b"").err(), Some(StartError::UnsupportedVersion(Version(7))));
        assert_eq!(server.start(Version(7), b"").err(), Some(StartError::UnsupportedVersion(Version(7))));
    }

    #[test]
    fn the_insecure_client_takes_any_certificate_whose_key_the_server_holds() {
        let insecure = RustlsClient::new(Arc::new(client_config_insecure(&[b"h3"]).unwrap()));
        handshake(&insecure, &server_of(&options()), Version::V1);
        Pair::start(&insecure, &server_of(&options()), Version::V1, "example.org").run().unwrap();

        // A server that shows the test certificate but signs with another key.
        let (_, other_key) = other_certificate();
        let signing = ring_provider::sign::any_supported_type(&other_key).unwrap();
        #[derive(Debug)]
        struct Impostor(Arc<CertifiedKey>);
        impl ResolvesServerCert for Impostor {
            fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
                Some(self.0.clone())
            }
        }
        let shown = Arc::new(CertifiedKey::new(vec![test_certificate()], signing));
        let impostor = RustlsServer::new(Arc::new(options().server_with_resolver(Arc::new(Impostor(shown))).unwrap()));
        let (by_client, error) = failure(&insecure, &impostor, "localhost");
        assert!(by_client);
        assert_eq!(error.code, TransportErrorCode::crypto(51), "decrypt_error: {error}");
    }

    fn other_certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.der().clone(), PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()))
    }

    #[test]
    fn a_certificate_can_be_replaced_while_the_server_runs() {
        let slot = Arc::new(CertificateSlot::new(vec![test_certificate()], test_key()).unwrap());
        let server = RustlsServer::new(Arc::new(options().server_with_resolver(slot.clone()).unwrap()));
        let insecure = RustlsClient::new(Arc::new(options().resumption(false).client_insecure().unwrap()));
        let shown = || handshake(&insecure, &server, Version::V1).client.session.peer_certificates().unwrap();
        assert_eq!(shown(), [test_certificate()]);
        let (certificate, key) = other_certificate();
        slot.replace(vec![certificate.clone()], key).unwrap();
        assert_eq!(shown()[0], certificate);
        // A key that belongs to another certificate is refused, and the earlier certificate stays.
        assert!(slot.replace(vec![test_certificate()], other_certificate().1).is_err());
        assert!(slot.replace(Vec::new(), test_key()).is_err());
        assert_eq!(shown(), [certificate]);
    }

    #[test]
    fn packets_too_short_for_a_tag_are_refused() {
        let keys = super::super::initial::keys(Version::V1, b"12345678", crate::Side::Client);
        for len in 0..TAG_LEN {
            let mut short = vec![0; len];
            assert_eq!(keys.local.packet.seal(0, 0, b"", &mut short), Err(CryptoError));
            assert_eq!(keys.local.packet.open(0, 0, b"", &mut short), Err(DecryptError));
        }
    }

    #[test]
    fn the_date_of_the_tests_is_within_the_certificates_validity() {
        let at = Arc::new(At(date().as_secs()));
        handshake(&client_of(&options().time(at)), &server_of(&options()), Version::V1);
    }
}
