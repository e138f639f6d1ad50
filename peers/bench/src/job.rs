//! The job of a child process, and its report.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Any error; it is only ever printed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Flow-control credit per stream and connection, and bytes buffered for sending: the same for every stack, and more
/// than loopback needs, so that neither is what limits.
pub const WINDOW: u32 = 8 << 20;

/// The largest datagram (UDP payload) any stack may reach: an Ethernet path over IPv6.
pub const MAX_DATAGRAM: u16 = 1452;

/// What one write hands to a stack.
pub const CHUNK: usize = 1 << 20;

/// Name of the server in its certificate.
pub const SERVER_NAME: &str = "localhost";

const ALPN: &[u8] = b"bench";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Direction {
    /// From server to client.
    Download,
    /// From client to server.
    Upload,
}

impl Direction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
        }
    }
}

/// One transfer or series of transfers. A client opens one bidirectional stream per connection and writes its request;
/// the side that sends then writes `size` bytes, and the transfer is over when the client knows that all have arrived.
#[derive(Args, Clone, Debug)]
pub struct Job {
    #[arg(long)]
    pub direction: Direction,
    /// Bytes per connection.
    #[arg(long)]
    pub size: u64,
    #[arg(long)]
    pub connections: u64,
    /// Socket buffers in bytes.
    #[arg(long)]
    pub buffer: usize,
    /// Folder of `cert.pem` and `key.pem`.
    #[arg(long)]
    pub certificates: PathBuf,
    /// For the client: where the server is.
    #[arg(long)]
    pub server: Option<SocketAddr>,
}

/// What a child says at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The datagram size reached, bytes of UDP payload.
    pub datagram: u64,
    /// Packets sent and those found lost, where the stack reports them.
    pub sent: u64,
    pub lost: u64,
}

/// Length of the request a client begins its stream with.
pub const REQUEST: usize = 9;

impl Job {
    /// Direction and size, so that the server needs no other word.
    pub fn request(&self) -> [u8; REQUEST] {
        let mut request = [0; REQUEST];
        request[0] = u8::from(self.direction == Direction::Upload);
        request[1..].copy_from_slice(&self.size.to_be_bytes());
        request
    }

    /// A socket on loopback with the buffers fixed.
    pub fn socket(&self) -> Result<UdpSocket, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let reference = socket2::SockRef::from(&socket);
        reference.set_recv_buffer_size(self.buffer)?;
        reference.set_send_buffer_size(self.buffer)?;
        Ok(socket)
    }

    pub fn server(&self) -> Result<SocketAddr, Failure> {
        self.server.ok_or_else(|| "the client needs --server".into())
    }

    /// TLS of the client: AES-128-GCM alone, no resumption.
    pub fn client_tls(&self) -> Result<rustls::ClientConfig, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.certificates.join("cert.pem"))?)?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    /// TLS of the server: AES-128-GCM alone, no tickets.
    pub fn server_tls(&self) -> Result<rustls::ServerConfig, Failure> {
        let certificate = CertificateDer::from_pem_file(self.certificates.join("cert.pem"))?;
        let key = PrivateKeyDer::from_pem_file(self.certificates.join("key.pem"))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// The runtime of a child: one thread.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Fails unless all bytes came.
pub fn expect(got: u64, wanted: u64) -> Result<(), Failure> {
    if got == wanted { Ok(()) } else { Err(format!("got {got} bytes, expected {wanted}").into()) }
}
