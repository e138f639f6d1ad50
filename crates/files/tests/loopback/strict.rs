//! Requests that break the rules, over all three versions of HTTP: refused, and the connection goes on where it can.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Host;
use bytes::{Buf as _, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use http::{Request, StatusCode};
use thalweg::{ClientConfig, Endpoint, TransportConfig};
use thalweg_h3::{BidiStream, Connection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// Longest that one exchange may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of `h3`'s own, and its connection.
struct Http3 {
    send: SendRequest<Connection, Bytes>,
    connection: thalweg::Connection,
    _endpoint: Endpoint,
}

impl Http3 {
    async fn new(host: &Host, window: u64) -> Self {
        let mut transport = TransportConfig::default();
        transport.streams.stream_receive_window = window;
        transport.streams.max_stream_receive_window = window;
        let chain = host.identity.chain().to_vec();
        let config = ClientConfig::with_root_certificates(chain, &[b"h3"]).unwrap().transport(transport);
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let connection = endpoint.connect_with(&config, host.address, "localhost").unwrap().await.unwrap();
        let (mut driver, send) = h3::client::builder().build(Connection::new(connection.clone())).await.unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        Self { send, connection, _endpoint: endpoint }
    }

    async fn ask(&mut self, request: Request<()>) -> RequestStream<BidiStream<Bytes>, Bytes> {
        self.send.send_request(request).await.unwrap()
    }

    async fn exchange(&mut self, request: Request<()>, body: &'static [u8]) -> Result<StatusCode, StreamError> {
        let mut stream = self.ask(request).await;
        let exchange = async {
            if !body.is_empty() {
                // A server may refuse before all is sent.
                let _ = stream.send_data(Bytes::from_static(body)).await;
            }
            let _ = stream.finish().await;
            let status = stream.recv_response().await?.status();
            while let Some(data) = stream.recv_data().await? {
                assert!(data.has_remaining());
            }
            Ok(status)
        };
        timeout(PATIENCE, exchange).await.unwrap()
    }
}

fn get(uri: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_3_contradictions_are_refused_and_useless_bodies_are_not() {
    let host = Host::new().await;
    host.file("a", b"0123456789");
    let mut client = Http3::new(&host, 1 << 20).await;
    let url = host.url("a");
    let with_user = url.replace("//", "//user:secret@");
    type Case = (&'static str, Request<()>, &'static [u8], Result<u16, Code>);
    let cases: [Case; 7] = [
        ("no body", get(&url, &[("content-length", "5")]), b"", Err(Code::H3_MESSAGE_ERROR)),
        ("another body", get(&url, &[("content-length", "4")]), b"12345", Err(Code::H3_MESSAGE_ERROR)),
        (
            "two lengths",
            get(&url, &[("content-length", "4"), ("content-length", "5")]),
            b"12345",
            Err(Code::H3_MESSAGE_ERROR),
        ),
        ("upgrade", get(&url, &[("upgrade", "h2c")]), b"", Err(Code::H3_MESSAGE_ERROR)),
        ("user information", get(&with_user, &[]), b"", Ok(400)),
        ("a body of no use", get(&url, &[("content-length", "5")]), b"12345", Ok(200)),
        ("a body of no use and no length", get(&url, &[]), &[b'x'; 200_000], Ok(200)),
    ];
    for (what, request, body, expected) in cases {
        match (client.exchange(request, body).await, expected) {
            (Ok(status), Ok(expected)) => assert_eq!(status, expected, "{what}"),
            (Err(StreamError::RemoteTerminate { code, .. }), Err(expected)) => assert_eq!(code, expected, "{what}"),
            (result, _) => panic!("{what}: {result:?}"),
        }
        assert_eq!(client.exchange(get(&url, &[]), b"").await.unwrap(), 200, "after {what}");
    }
}

/// A TLS connection with this protocol.
async fn tls(host: &Host, protocol: &[u8]) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(host.identity.chain()[0].clone()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = tokio::net::TcpStream::connect(host.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

/// Sends bytes and returns the status of the first answer.
async fn http_1(host: &Host, request: &str) -> u16 {
    let mut stream = tls(host, b"http/1.1").await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_1_needs_exactly_one_host() {
    let host = Host::new().await;
    host.file("a", b"0123456789");
    for (request, expected) in [
        ("GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        ("GET https://localhost/a HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        ("GET /a HTTP/1.0\r\n\r\n", 200),
        ("GET /a HTTP/1.1\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nhost: localhost\r\nhost: other\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nhost: user@localhost\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nhost: \r\n\r\n", 400),
        ("GET https://user@localhost/a HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\n12345", 400),
        ("GET /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n12345", 200),
    ] {
        assert_eq!(http_1(&host, request).await, expected, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_1_bodies_of_no_use_do_not_become_requests() {
    let host = Host::new().await;
    host.file("a", b"0123456789");
    let mut stream = tls(&host, b"http/1.1").await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let one = format!("GET /a HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{smuggled}", smuggled.len());
    let two = "GET /b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{one}{two}").as_bytes()).await.unwrap();
    let mut out = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut out)).await.unwrap();
    let lines = host.log_lines(2).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("GET /a ") && lines[1].contains("GET /b "), "{lines:?}");
}

/// An HTTP/2 connection, frame by frame (RFC 9113 section 4.1).
struct Http2 {
    stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
    next: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// The first byte of an answer's header block, which for these is `:status` by its index (RFC 7541 appendix A).
    Status(u16),
    Reset(u32),
    GoAway(u32),
}

impl Http2 {
    async fn new(host: &Host) -> Self {
        let mut stream = tls(host, b"h2").await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut this = Self { stream, next: 1 };
        this.frame(4, 0, 0, &[]).await;
        this
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        out.extend([kind, flags]);
        out.extend(stream.to_be_bytes());
        out.extend(payload);
        // The server may have said goodbye.
        let _ = self.stream.write_all(&out).await;
    }

    /// Sends fields and a body, and waits for what comes back.
    async fn exchange(&mut self, fields: &[(&str, &str)], body: Option<&[u8]>) -> Heard {
        let id = self.next;
        self.next += 2;
        self.frame(1, 0x4 | u8::from(body.is_none()), id, &literal(fields)).await;
        if let Some(body) = body {
            self.frame(0, 0x1, id, body).await;
        }
        timeout(PATIENCE, self.answer(id)).await.unwrap()
    }

    async fn answer(&mut self, id: u32) -> Heard {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.unwrap();
            let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; size];
            self.stream.read_exact(&mut payload).await.unwrap();
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match head[3] {
                1 if stream == id => {
                    return Heard::Status(match payload[0] {
                        0x88 => 200,
                        0x8c => 400,
                        0x8d => 404,
                        other => panic!("header block begins with {other:#x}"),
                    });
                }
                3 if stream == id => return Heard::Reset(code(0)),
                4 if head[4] & 1 == 0 => self.frame(4, 1, 0, &[]).await,
                7 => return Heard::GoAway(code(4)),
                _ => {}
            }
        }
    }
}

/// A header block with every field spelled out (RFC 7541 section 6.2.2).
fn literal(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(text.len() as u8);
            out.extend(text.as_bytes());
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_2_gets_the_same_checks() {
    let host = Host::new().await;
    host.file("a", b"0123456789");
    type Fields = [(&'static str, &'static str)];
    const GET: &Fields = &[(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/a")];
    let get = |more: &Fields| [GET, more].concat();
    let good: [(&str, Vec<_>, Option<&[u8]>); 5] = [
        ("plain", get(&[]), None),
        ("split cookies", get(&[("cookie", "a=1"), ("cookie", "b=2")]), None),
        ("host equal", get(&[("host", "localhost")]), None),
        ("TE: trailers", get(&[("te", "trailers")]), None),
        ("a body of no use", get(&[("content-length", "5")]), Some(b"12345")),
    ];
    for (what, fields, body) in good {
        assert_eq!(Http2::new(&host).await.exchange(&fields, body).await, Heard::Status(200), "{what}");
    }
    let bad: Vec<(&str, Vec<_>, Option<&[u8]>)> = vec![
        (":path twice", get(&[(":path", "/b")]), None),
        (":path late", [&GET[..3], &[("accept", "*/*"), (":path", "/a")]].concat(), None),
        ("unknown pseudo-header field", get(&[(":unknown", "x")]), None),
        (":status in a request", get(&[(":status", "200")]), None),
        ("no :path", GET[..3].to_vec(), None),
        ("empty :path", [&GET[..3], &[(":path", "")]].concat(), None),
        ("no authority at all", [&GET[..2], &[(":path", "/a")]].concat(), None),
        (":authority and host differ", get(&[("host", "other")]), None),
        ("host twice", get(&[("host", "localhost"), ("host", "localhost")]), None),
        ("user information", [&GET[..2], &[(":path", "/a"), (":authority", "u@localhost")]].concat(), None),
        ("Connection", get(&[("connection", "close")]), None),
        ("Keep-Alive", get(&[("keep-alive", "timeout=5")]), None),
        ("Proxy-Connection", get(&[("proxy-connection", "close")]), None),
        ("Transfer-Encoding", get(&[("transfer-encoding", "chunked")]), None),
        ("Upgrade", get(&[("upgrade", "x")]), None),
        ("TE: gzip", get(&[("te", "gzip")]), None),
        ("uppercase", get(&[("Accept", "*/*")]), None),
        ("Content-Length without a body", get(&[("content-length", "5")]), None),
        ("Content-Length and another body", get(&[("content-length", "4")]), Some(b"12345")),
        ("Content-Length that differs", get(&[("content-length", "4"), ("content-length", "5")]), Some(b"12345")),
    ];
    let mut wrong = Vec::new();
    for (what, fields, body) in bad {
        let mut client = Http2::new(&host).await;
        let heard = client.exchange(&fields, body).await;
        if matches!(heard, Heard::Status(200 | 404)) {
            wrong.push(format!("{what}: {heard:?}"));
        } else if !matches!(heard, Heard::GoAway(_)) {
            assert_eq!(client.exchange(GET, None).await, Heard::Status(200), "after {what}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The log says "complete" when the client leaves without complaint once everything was sent, and only then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_content_is_logged_as_complete() {
    enum Leave {
        Close(u64),
        Stop(Code),
    }
    let host = Host::new().await;
    host.file("a", &crate::common::sample(18_000));
    let mut lines = 0;
    for (leave, complete) in [
        (Leave::Close(0), true),
        (Leave::Close(Code::H3_NO_ERROR.value()), true),
        (Leave::Close(Code::H3_INTERNAL_ERROR.value()), false),
        (Leave::Stop(Code::H3_NO_ERROR), true),
        (Leave::Stop(Code::H3_REQUEST_CANCELLED), false),
    ] {
        // Less credit than the answer needs: it is sent, but not acknowledged.
        let mut client = Http3::new(&host, 16_000).await;
        let mut stream = client.ask(get(&host.url("a"), &[])).await;
        // The server stops reading the request when it has sent everything.
        let stopped = async {
            while stream.send_data(Bytes::from_static(b"x")).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, stopped).await.unwrap();
        let what = match leave {
            Leave::Close(code) => {
                client.connection.close(code, b"");
                format!("close with {code:#x}")
            }
            Leave::Stop(code) => {
                stream.stop_sending(code);
                format!("stop with {code}")
            }
        };
        lines += 1;
        let log = host.log_lines(lines).await;
        assert_eq!(log.len(), lines, "{what}");
        assert_eq!(!log[lines - 1].ends_with("aborted"), complete, "{what}: {}", log[lines - 1]);
    }
}

/// A file that changes while it is sent is never shown as complete.
mod changing {
    use super::*;
    use http_body_util::BodyExt as _;

    const SIZE: u64 = 64 << 20;

    fn big(host: &Host) -> std::fs::File {
        let file = std::fs::File::create(host.dir.path().join("big")).unwrap();
        file.set_len(SIZE).unwrap();
        file
    }

    async fn logged(host: &Host) {
        let lines = host.log_lines(1).await;
        assert!(lines[0].ends_with("aborted (the file changed while it was being sent)"), "{lines:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn over_http_3_the_stream_is_reset() {
        let host = Host::new().await;
        let file = big(&host);
        let mut client = Http3::new(&host, 256 << 10).await;
        let mut stream = client.ask(get(&host.url("big"), &[])).await;
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let reading = async {
            loop {
                match stream.recv_data().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it looks complete"),
                    Err(error) => return error,
                }
            }
        };
        let error = timeout(PATIENCE, reading).await.unwrap();
        assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_INTERNAL_ERROR, .. }), "{error}");
        logged(&host).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn over_http_2_the_stream_is_reset() {
        let host = Host::new().await;
        let file = big(&host);
        let stream = hyper_util::rt::TokioIo::new(tls(&host, b"h2").await);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut send, connection) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(connection);
        let request = get(&host.url("big"), &[]).map(|()| http_body_util::Empty::<Bytes>::new());
        let mut body = send.send_request(request).await.unwrap().into_body();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let reading = async {
            loop {
                match body.frame().await {
                    Some(Ok(_)) => {}
                    None => panic!("it looks complete"),
                    Some(Err(error)) => return error,
                }
            }
        };
        let error = timeout(PATIENCE, reading).await.unwrap();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("stream error received"), "{error}: {cause}");
        logged(&host).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn over_http_1_1_the_connection_ends_before_the_body() {
        let host = Host::new().await;
        let file = big(&host);
        let mut stream = tls(&host, b"http/1.1").await;
        stream.write_all(b"GET /big HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut first = vec![0; 1000];
        stream.read_exact(&mut first).await.unwrap();
        // Longer, with the beginning as it was: the size says it.
        file.set_len(SIZE + 1).unwrap();
        let reading = async {
            let mut total = first.len() as u64;
            let mut buffer = vec![0; 1 << 16];
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return total,
                    Ok(size) => total += size as u64,
                }
            }
        };
        let total = timeout(PATIENCE, reading).await.unwrap();
        assert!(total < SIZE, "{total} bytes");
        logged(&host).await;
    }
}
