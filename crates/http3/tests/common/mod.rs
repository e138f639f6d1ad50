//! A client and a server on loopback.
#![allow(dead_code, clippy::unwrap_used)]

use bytes::Bytes;
use thalweg::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use thalweg_h3::Connection;

pub type Server = h3::server::Connection<Connection, Bytes>;

/// A raw client connection, the server's connection, and the endpoints that keep them alive.
pub async fn quic(window: u64) -> (thalweg::Connection, thalweg::Connection, [Endpoint; 2]) {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = issued.cert.der().clone();
    let key = thalweg::pki_types::PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into(), &[b"h3"]).unwrap();
    let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut transport = TransportConfig::default();
    transport.streams.stream_receive_window = window;
    transport.streams.max_stream_receive_window = window;
    let config = ClientConfig::with_root_certificates([certificate], &[b"h3"]).unwrap().transport(transport);
    let connecting = client.connect_with(&config, server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    (connected.unwrap(), accepted, [client, server])
}
