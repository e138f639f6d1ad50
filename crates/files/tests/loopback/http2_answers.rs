//! Unusual responses to the client over HTTP/2, written down frame by frame (RFC 9113).

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{Downloads, get_one};
use crate::script::prefixed;
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{FetchOptions, Fetcher, Preference, Protocol, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Frame types (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Largest payload without another agreement.
const FRAME_SIZE: usize = 16_384;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A header section in as many frames as it takes, every field a literal that is not remembered.
fn headers(fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        prefixed(0, 7, name.len(), &mut block);
        block.extend_from_slice(name.as_bytes());
        prefixed(0, 7, value.len(), &mut block);
        block.extend_from_slice(value.as_bytes());
    }
    let pieces: Vec<&[u8]> = block.chunks(FRAME_SIZE).collect();
    let mut out = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let end = if index + 1 == pieces.len() { END_HEADERS } else { 0 };
        let flags = if index == 0 { flags | end } else { end };
        out.extend(frame(kind, flags, 1, piece));
    }
    out
}

fn data(body: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, 1, body)
}

/// Gives the same answer to the first request of every connection.
struct Scripted {
    address: SocketAddr,
    identity: Identity,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    async fn new(answer: Vec<u8>) -> Self {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(CertificateStore::new(&identity).unwrap());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, answer) = (tls.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut stream = tls.accept(stream).await?;
                    stream.read_exact(&mut [0; 24]).await?; // the preface
                    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
                    loop {
                        let mut head = [0; 9];
                        stream.read_exact(&mut head).await?;
                        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                        stream.read_exact(&mut vec![0; length]).await?;
                        match (head[3], head[4]) {
                            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?,
                            // A request without body, or the end of one.
                            (HEADERS | DATA, flags) if flags & END_STREAM != 0 => stream.write_all(&answer).await?,
                            _ => {}
                        }
                        stream.flush().await?;
                    }
                    #[allow(unreachable_code)]
                    Ok::<_, std::io::Error>(())
                });
            }
        });
        Self { address, identity, task }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }

    fn fetcher(&self) -> Fetcher {
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(self.identity.chain().to_vec());
        options.preference = Preference::Tcp;
        Fetcher::new(options).unwrap()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn interim_responses_are_skipped_for_downloads_and_uploads() {
    let interim = [
        headers(&[(":status", "100")], 0),
        headers(&[(":status", "103"), ("link", "</style.css>; rel=preload")], 0),
        headers(&[(":status", "103")], 0),
        headers(&[(":status", "199")], 0),
    ];
    for count in 0..=interim.len() {
        let before = interim[..count].concat();
        let whole = [headers(&[(":status", "200"), ("content-length", "5")], 0), data(b"01234")].concat();
        let server = Scripted::new([before.clone(), whole].concat()).await;
        let downloads = Downloads::new();
        let report = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap();
        assert_eq!((report.protocol, report.status, report.bytes), (Protocol::Http2, 200, 5), "after {count}");
        let server = Scripted::new([before, headers(&[(":status", "201")], END_STREAM)].concat()).await;
        let put = server.fetcher().put(downloads.path("f"), server.url("y"), None).await.unwrap();
        assert_eq!(put.status, 201, "after {count} interim responses");
    }
}

#[tokio::test]
async fn differing_lengths_are_refused_and_equal_ones_are_one() {
    for (lengths, good) in [(["5", "5"], true), (["5", "6"], false), (["6", "5"], false)] {
        let fields = [(":status", "200"), ("content-length", lengths[0]), ("content-length", lengths[1])];
        let server = Scripted::new([headers(&fields, 0), data(b"01234")].concat()).await;
        let downloads = Downloads::new();
        match get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await {
            Ok(report) => assert!(good && report.bytes == 5, "{lengths:?}"),
            Err(error) => {
                assert!(!good && error.to_string().contains("malformed"), "{lengths:?}: {error}");
                crate::common::assert_plain(&error.to_string());
                assert!(downloads.names().is_empty());
            }
        }
    }
}

#[tokio::test]
async fn an_oversized_header_section_is_named_as_such() {
    let long = "x".repeat(300_000);
    let longer = "x".repeat(3_000_000);
    let many: Vec<_> = std::iter::repeat_n(("x", "y"), 9_000).collect();
    for more in [&[("x", long.as_str())][..], &[("x", longer.as_str())], &many] {
        let fields = [&[(":status", "200")][..], more].concat();
        let server = Scripted::new([headers(&fields, 0), data(b"01234")].concat()).await;
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert!(error.to_string().contains("header section of more than 262144 bytes"), "{error}");
        crate::common::assert_plain(&error.to_string());
        assert!(downloads.names().is_empty());
    }
    let large = "x".repeat(200_000);
    let server = Scripted::new([headers(&[(":status", "200"), ("x", &large)], 0), data(b"01234")].concat()).await;
    get_one(&server.fetcher(), server.url("x"), &Downloads::new().path("f"), None).await.unwrap();
}
