//! Helpers of the tests: certificates, endpoints on loopback, a limit on how long a test may hang.
#![allow(dead_code)] // each test file uses its part

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use thalweg::{
    ClientConfig, Connection, Endpoint, EndpointBuilder, ServerConfig, TransportConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

pub const ALPN: &[&[u8]] = &[b"test"];

/// A certificate for "localhost".
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    key: Vec<u8>,
    pem: String,
}

impl Identity {
    pub fn new() -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = issued.signing_key.serialize_der();
        Self { certificate: issued.cert.der().clone(), key, pem: issued.cert.pem() }
    }

    /// The certificate as a file has it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.clone()).unwrap()
    }

    pub fn server(&self) -> ServerConfig {
        ServerConfig::with_single_cert(vec![self.certificate.clone()], self.key(), ALPN).unwrap()
    }

    pub fn client(&self) -> ClientConfig {
        ClientConfig::with_root_certificates([self.certificate.clone()], ALPN).unwrap()
    }
}

/// A server and a client that trusts it.
pub struct Pair {
    pub server: Endpoint,
    pub client: Endpoint,
    pub address: SocketAddr,
}

impl Pair {
    pub fn new() -> Self {
        Self::with(|server| server, |client| client)
    }

    pub fn with(
        server: impl FnOnce(ServerConfig) -> ServerConfig,
        client: impl FnOnce(ClientConfig) -> ClientConfig,
    ) -> Self {
        Self::on("127.0.0.1:0", 1, server, client)
    }

    pub fn transport(transport: TransportConfig) -> Self {
        let transport = Arc::new(transport);
        let other = transport.clone();
        Self::with(|server| server.transport(transport), |client| client.transport(other))
    }

    pub fn on(
        bind: &str,
        workers: usize,
        server: impl FnOnce(ServerConfig) -> ServerConfig,
        client: impl FnOnce(ClientConfig) -> ClientConfig,
    ) -> Self {
        let identity = Identity::new();
        let bind: SocketAddr = bind.parse().unwrap();
        let server = EndpointBuilder::new().server(server(identity.server())).workers(workers).bind(bind).unwrap();
        let client =
            EndpointBuilder::new().client(client(identity.client())).bind(SocketAddr::new(bind.ip(), 0)).unwrap();
        let address = server.local_addr().unwrap();
        Self { server, client, address }
    }

    /// A connection, as the client and as the server have it.
    pub async fn connect(&self) -> (Connection, Connection) {
        self.connect_to(self.address).await
    }

    /// The same by another of the server's addresses.
    pub async fn connect_to(&self, address: SocketAddr) -> (Connection, Connection) {
        let connecting = self.client.connect(address, "localhost").unwrap();
        let (client, server) = tokio::join!(connecting, async { self.server.accept().await.unwrap().await });
        (client.unwrap(), server.unwrap())
    }
}

/// Fails a test that hangs, long after any machine would have finished it.
pub async fn within<F: Future>(future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(120), future).await {
        Ok(output) => output,
        Err(_) => panic!("the test hangs"),
    }
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub fn digest(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec()
}

/// Sends back whatever arrives on bidirectional streams, until the connection ends.
pub async fn echo(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = recv.read_chunk(1 << 20).await {
                if send.write_all_chunks(&mut [chunk]).await.is_err() {
                    return;
                }
            }
            let _ = send.finish();
            let _ = send.stopped().await;
        });
    }
}
