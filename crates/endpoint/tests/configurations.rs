//! Configurations: refused values, settings per client, application protocols, the connect timeout.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::{sync::Arc, time::Duration};

use common::{ALPN, Identity, Pair, within};
use thalweg::{
    ClientConfig, ConfigError, ConnectionError, Endpoint, ServerConfig, TlsOptions, TransportConfig,
    proto::crypto::rustls::{RustlsClient, RustlsServer},
};

const LOOPBACK: &str = "127.0.0.1:0";

/// How long a client waits for a socket that never answers, and what it says then. In paused time.
async fn wait_for_nobody(configure: impl FnOnce(ClientConfig) -> ClientConfig) -> (Duration, ConnectionError) {
    let client = Endpoint::client(LOOPBACK.parse().unwrap()).unwrap();
    let nobody = std::net::UdpSocket::bind(LOOPBACK).unwrap();
    let config = configure(Identity::new().client());
    let begin = tokio::time::Instant::now();
    let connecting = client.connect_with(&config, nobody.local_addr().unwrap(), "localhost").unwrap();
    let error = connecting.await.unwrap_err();
    let took = begin.elapsed();
    client.wait_idle().await;
    (took, error)
}

#[tokio::test(start_paused = true)]
async fn connecting_to_nobody_ends_after_ten_seconds_unless_set_otherwise() {
    let second = Duration::from_secs(1);
    let (took, error) = wait_for_nobody(|config| config).await;
    assert_eq!(error, ConnectionError::ConnectTimedOut { after: 10 * second });
    assert!(took >= 10 * second && took < 11 * second, "{took:?}");
    assert_eq!(std::io::Error::from(error.clone()).kind(), std::io::ErrorKind::TimedOut);
    assert!(error.to_string().contains("within the connect timeout of 10 s"), "{error}");
    let (took, error) = wait_for_nobody(|config| config.connect_timeout(Some(2 * second))).await;
    assert_eq!(error, ConnectionError::ConnectTimedOut { after: 2 * second });
    assert!(took >= 2 * second && took < 3 * second, "{took:?}");
    let (took, error) = wait_for_nobody(|config| config.connect_timeout(None)).await;
    assert_eq!(error, ConnectionError::TimedOut);
    assert!(took >= 30 * second, "{took:?}");
}

#[tokio::test]
async fn a_server_chooses_a_configuration_for_each_client() {
    within(async {
        let pair = Pair::new();
        let guests = Identity::new();
        let transport = TransportConfig { max_udp_payload: 1_300, ..TransportConfig::default() };
        let config = Arc::new(guests.server().transport(transport));
        let connecting = pair.client.connect_with(&guests.client(), pair.address, "localhost").unwrap();
        let accepting = async { pair.server.accept().await.unwrap().accept_with(config.clone()).unwrap().await };
        let (client, server) = tokio::join!(connecting, accepting);
        let (client, server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.peer_certificates().unwrap(), vec![guests.certificate]);
        // The connection works in both directions.
        let echoing = tokio::spawn(common::echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"down the valley").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"down the valley");
        client.close(0, b"");
        echoing.await.unwrap();
        // Others still meet the endpoint's.
        pair.connect().await;
        assert_eq!(pair.server.stats().accepted, 2);
        assert_eq!(pair.server.stats().refused, 0);
    })
    .await;
}

#[tokio::test]
async fn a_configuration_chosen_after_the_end_of_the_endpoint_changes_nothing() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        let incoming = pair.server.accept().await.unwrap();
        pair.server.close(0, b"");
        assert!(incoming.accept_with(Identity::new().server()).unwrap().await.is_err());
        let error = connecting.await.unwrap_err();
        assert!(matches!(&error, ConnectionError::PeerTransport { code, .. } if code.0 == 2), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn incoming_connections_are_told_apart_by_the_clients_first_destination() {
    within(async {
        let pair = Pair::with(|server| server.retry(thalweg::RetryPolicy::Always), |client| client);
        let connecting = [(); 2].map(|()| pair.client.connect(pair.address, "localhost").unwrap());
        let first = pair.server.accept().await.unwrap();
        let second = pair.server.accept().await.unwrap();
        assert!(first.orig_dst_cid().len() >= 8);
        assert_ne!(first.orig_dst_cid(), second.orig_dst_cid());
        assert!(first.remote_address_validated(), "it came back with the ID of the Retry, not its first");
        drop(connecting);
    })
    .await;
}

#[test]
fn a_configuration_without_a_protocol_is_refused_at_once() {
    let identity = Identity::new();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let chain = || vec![identity.certificate.clone()];
    let options = TlsOptions::new(&[]);
    let refused = [
        ClientConfig::with_root_certificates(chain(), &[]).err(),
        ClientConfig::dangerous_without_verification(&[]).err(),
        ClientConfig::with_rustls(options.client(roots).unwrap()).err(),
        ServerConfig::with_single_cert(chain(), identity.key(), &[]).err(),
        ServerConfig::with_rustls(Arc::new(options.server(chain(), identity.key()).unwrap())).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert!(matches!(error, ConfigError::NoAlpn), "{error:?}");
        assert!(error.to_string().starts_with("no application protocol (ALPN) is named"), "{error}");
    }
    let lengths: [(&[u8], _); 2] = [(b"", 0), (&[b'a'; 256], 256)];
    for (name, len) in lengths {
        let error = ClientConfig::with_root_certificates(chain(), &[b"h3", name]).unwrap_err();
        assert!(matches!(error, ConfigError::AlpnLength(found) if found == len), "{error:?}");
    }
    assert!(ClientConfig::with_root_certificates(chain(), &[&[b'a'; 255]]).is_ok());
}

#[test]
fn a_server_configuration_that_rustls_cannot_use_for_quic_is_refused_at_once() {
    let identity = Identity::new();
    let mut tls = TlsOptions::new(ALPN).server(vec![identity.certificate.clone()], identity.key()).unwrap();
    // RFC 9001 section 4.6.1.
    tls.max_early_data_size = 1_000;
    let error = ServerConfig::with_rustls(tls).unwrap_err();
    assert!(matches!(error, ConfigError::NoQuic(_)), "{error:?}");
    assert!(error.to_string().contains("unusable for QUIC"), "{error}");
}

/// How the handshake of these two ends at the client, who does not trust the server's certificate either.
async fn distrust(client: ClientConfig, server: ServerConfig) -> ConnectionError {
    let server = Endpoint::server(server, LOOPBACK.parse().unwrap()).unwrap();
    let endpoint = Endpoint::client(LOOPBACK.parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(&client, server.local_addr().unwrap(), "localhost").unwrap();
    let serving = tokio::spawn(async move { server.accept().await.unwrap().await.err() });
    let error = connecting.await.unwrap_err();
    assert!(serving.await.unwrap().is_some());
    error
}

#[tokio::test]
async fn a_missing_protocol_is_said_before_an_untrusted_certificate() {
    within(async {
        let (identity, stranger) = (Identity::new(), Identity::new());
        let tls = |alpn: &[&[u8]]| {
            let chain = vec![identity.certificate.clone()];
            ServerConfig::with_crypto(Arc::new(RustlsServer::new(Arc::new(
                TlsOptions::new(alpn).server(chain, identity.key()).unwrap(),
            ))))
            .unwrap()
        };
        let client = |alpn: &[&[u8]]| {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(stranger.certificate.clone()).unwrap();
            ClientConfig::with_crypto(Arc::new(RustlsClient::new(Arc::new(
                TlsOptions::new(alpn).client(roots).unwrap(),
            ))))
        };
        const OTHER: &[&[u8]] = &[b"other"];
        for (asked, served) in [(OTHER, ALPN), (&[], ALPN), (ALPN, &[])] {
            let error = distrust(client(asked), tls(served)).await;
            let code = match &error {
                ConnectionError::PeerTransport { code, .. } => *code,
                ConnectionError::Transport(error) => error.code,
                _ => panic!("{error:?}"),
            };
            // no_application_protocol, RFC 7301.
            assert_eq!(code.tls_alert(), Some(120), "{error}");
            assert!(error.to_string().contains("ALPN"), "{error}");
        }
        // With a protocol in common it is the certificate.
        let error = distrust(client(ALPN), tls(ALPN)).await;
        assert!(!error.to_string().contains("ALPN"), "{error}");
    })
    .await;
}
