//! Clients that begin much and finish nothing: handshakes, requests, and header sections without end.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::common::child::ServerProcess;
use bytes::Bytes;
use thalweg::proto::{ClientConfig as ProtoConfig, Endpoint as Machine, EndpointConfig, crypto::rustls::RustlsClient};
use thalweg::{ClientConfig, Connection, ConnectionError, Endpoint, Instant, TlsOptions};
use thalweg_files::client::{FetchOptions, Fetcher, Job, Preference, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The memory of a server by default, bytes.
const SHIPPED: u64 = 256_000_000;

struct Scene {
    server: ServerProcess,
    before: u64,
    _site: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let site = tempfile::tempdir().unwrap();
        std::fs::write(site.path().join("file"), "content").unwrap();
        let server = ServerProcess::start(site.path());
        let scene = Self { before: 0, server, _site: site };
        scene.others_are_served().await;
        Self { before: scene.server.memory(), ..scene }
    }

    async fn others_are_served(&self) {
        for preference in [Preference::Quic, Preference::Tcp] {
            let mut options = FetchOptions::default();
            options.trust = Trust::Insecure;
            options.preference = preference;
            options.connect_timeout = Duration::from_secs(20);
            options.addresses.insert("localhost".into(), vec![self.server.address.ip()]);
            let target = tempfile::tempdir().unwrap();
            let path = target.path().join("file");
            let job = Job::to_file(format!("https://localhost:{}/file", self.server.address.port()), &path);
            Fetcher::new(options).unwrap().get(vec![job], None).await.pop().unwrap().unwrap();
            assert_eq!(std::fs::read(path).unwrap(), b"content");
        }
    }

    async fn assert_bounded(&self, what: &str) {
        self.others_are_served().await;
        let growth = self.server.peak(Duration::from_millis(500)).await.saturating_sub(self.before);
        let peak = self.server.high_water();
        println!("{what}: {} MB more, at most {} MB", growth >> 20, peak / 1_000_000);
        assert!(peak <= SHIPPED, "{what}: {peak} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_handshakes_that_never_go_on_are_bounded() {
    let scene = Scene::new().await;
    let server = scene.server.address;
    let tls = TlsOptions::new(&[b"h3"]).client_insecure().unwrap();
    tokio::task::spawn_blocking(move || {
        let config = ProtoConfig::new(Arc::new(RustlsClient::new(Arc::new(tls))));
        let mut machine = Machine::new(EndpointConfig::new([7; 32]), None);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut datagrams = Vec::new();
        let mut sent = 0;
        for n in 0..10_000 {
            let now = Instant::ZERO;
            let (handle, mut connection) = machine.connect(now, config.clone(), server, "localhost").unwrap();
            let transmit = connection.poll_transmit(now, 1, &mut datagrams).unwrap();
            sent += usize::from(socket.send_to(&datagrams[..transmit.size], server).is_ok());
            machine.abandon(handle);
            if n % 50 == 0 {
                // The flood is to reach the server, not to be lost in its socket's buffer.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(sent > 9_900, "{sent} Initials were sent");
    })
    .await
    .unwrap();
    scene.assert_bounded("10,000 handshakes").await;
}

async fn quic(server: SocketAddr) -> (Endpoint, Connection) {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::dangerous_without_verification(&[b"h3"]).unwrap();
    let connection = endpoint.connect_with(&config, server, "localhost").unwrap().await.unwrap();
    // A control stream with empty SETTINGS (RFC 9114 section 6.2.1).
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(&[0, 4, 0]).await.unwrap();
    std::mem::forget(control);
    (endpoint, connection)
}

/// The head of a HEADERS frame (RFC 9114 section 7.2.2) that announces `length` bytes, below 2^30.
fn headers_frame(length: u32) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend_from_slice(&(length | 0x8000_0000).to_be_bytes());
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_http3_that_never_end_are_bounded() {
    let scene = Scene::new().await;
    let mut kept = Vec::new();
    for _ in 0..20 {
        let (endpoint, connection) = quic(scene.server.address).await;
        for _ in 0..100 {
            let Ok((mut send, recv)) = connection.open_bi().await else { break };
            // All but its last byte. Fails once the server has had enough.
            let _ = send.write_all(&headers_frame(200_000)).await;
            let _ = send.write_all(&vec![0; 199_999]).await;
            kept.push((send, recv, connection.clone(), endpoint.clone()));
        }
    }
    scene.assert_bounded("2,000 unfinished requests").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_headers_over_http3_close_the_connection() {
    let scene = Scene::new().await;
    let mut closed = Vec::new();
    for _ in 0..10 {
        let (endpoint, connection) = quic(scene.server.address).await;
        closed.push(tokio::spawn(async move {
            let (mut send, _recv) = connection.open_bi().await.unwrap();
            let _ = send.write_all(&headers_frame(100 << 20)).await;
            // Fails once the server has had enough.
            let _ = send.write_all(&vec![0; 20 << 20]).await;
            drop(endpoint);
            connection.closed().await
        }));
    }
    for closed in closed {
        let reason = tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap().unwrap();
        // H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
        assert!(matches!(reason, ConnectionError::PeerApplication { code: 0x107, .. }), "{reason:?}");
    }
    scene.assert_bounded("header sections of 100 MB over HTTP/3").await;
}

async fn tcp(server: SocketAddr, protocol: &[u8]) -> TlsStream<TcpStream> {
    let tls = tokio_rustls::TlsConnector::from(Arc::new(TlsOptions::new(&[protocol]).client_insecure().unwrap()));
    let stream = TcpStream::connect(server).await.unwrap();
    tls.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

/// Writes `begin`, then `again` until the server stops it, `most` bytes at the longest. Returns how many bytes that
/// took, and what the server answered.
async fn pour(mut stream: TlsStream<TcpStream>, begin: Bytes, again: Bytes, most: usize) -> (usize, Vec<u8>) {
    let mut poured = 0;
    let _ = stream.write_all(&begin).await;
    while poured < most && stream.write_all(&again).await.is_ok() {
        poured += again.len();
    }
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await;
    (poured, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_sections_without_end_over_http2_close_the_connection() {
    let scene = Scene::new().await;
    let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Empty SETTINGS; HEADERS on stream 1 without END_HEADERS; then CONTINUATION for ever (RFC 9113 section 6).
    begin.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    begin.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 1]);
    let mut again = vec![0, 0x3f, 0x00, 9, 0, 0, 0, 0, 1];
    // Literal header fields without indexing, 100 bytes each.
    while again.len() + 103 <= 9 + 0x3f00 {
        again.extend_from_slice(&[0, 1, b'x', 99]);
        again.resize(again.len() + 99, b'y');
    }
    let payload = again.len() - 9;
    again[1..3].copy_from_slice(&(payload as u16).to_be_bytes());
    let mut clients = Vec::new();
    for _ in 0..20 {
        let stream = tcp(scene.server.address, b"h2").await;
        clients.push(tokio::spawn(pour(stream, begin.clone().into(), again.clone().into(), 64 << 20)));
    }
    for client in clients {
        let (poured, _) = client.await.unwrap();
        assert!(poured < 64 << 20, "the server took {poured} bytes of header fields");
    }
    scene.assert_bounded("header sections without end over HTTP/2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_sections_without_end_over_http1_are_refused() {
    let scene = Scene::new().await;
    let mut clients = Vec::new();
    for n in 0..20 {
        let stream = tcp(scene.server.address, b"http/1.1").await;
        // Many fields, and one that does not end.
        let again = if n % 2 == 0 { "x: y\r\n".repeat(1000) } else { "y".repeat(6000) };
        let begin = Bytes::from("GET /file HTTP/1.1\r\nhost: localhost\r\nx: ");
        clients.push(tokio::spawn(pour(stream, begin, again.into(), 64 << 20)));
    }
    for client in clients {
        let (poured, answer) = client.await.unwrap();
        assert!(poured < 64 << 20, "the server took {poured} bytes of header fields");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    scene.assert_bounded("header sections without end over HTTP/1.1").await;
}
