//! Odd responses to the client, from a scripted HTTP/1.1 server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::common::{Downloads, Recorder, get_one};
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{Category, Error, FetchOptions, Fetcher, Job, Notice, Preference, Protocol, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Gives the next answer of its list to each request; an answer that ends in `CLOSE` ends the connection.
struct Scripted {
    address: SocketAddr,
    identity: Identity,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    async fn new(answers: &[&str]) -> Self {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(CertificateStore::new(&identity).unwrap());
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut answers: Vec<String> = answers.iter().map(|text| (*text).to_owned()).collect();
        answers.reverse();
        let answers = Arc::new(Mutex::new(answers));
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let connections: Arc<Mutex<usize>> = Arc::default();
        let (seen, counted) = (Arc::clone(&requests), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let (tls, answers, seen) = (tls.clone(), Arc::clone(&answers), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut stream = tls.accept(stream).await?;
                    loop {
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            head.push(stream.read_u8().await?);
                        }
                        seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                        let Some(answer) = answers.lock().unwrap().pop() else { break };
                        let (text, close) = match answer.strip_suffix("CLOSE") {
                            Some(text) => (text, true),
                            None => (answer.as_str(), false),
                        };
                        stream.write_all(text.as_bytes()).await?;
                        stream.flush().await?;
                        if close {
                            stream.shutdown().await?;
                            break;
                        }
                    }
                    Ok::<_, std::io::Error>(())
                });
            }
        });
        Self { address, identity, requests, connections, task }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.address.port())
    }

    fn options(&self) -> FetchOptions {
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(self.identity.chain().to_vec());
        options.preference = Preference::Tcp;
        options.addresses.insert("localhost".into(), vec![[127, 0, 0, 1].into()]);
        options
    }

    fn resuming(&self) -> Fetcher {
        let mut options = self.options();
        options.resume = true;
        Fetcher::new(options).unwrap()
    }

    fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.options()).unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"v1\"\r\n\r\n0123456789";

#[tokio::test]
async fn http_1_1_connections_are_used_again() {
    let server = Scripted::new(&[WHOLE, WHOLE]).await;
    let downloads = Downloads::new();
    let fetcher = server.fetcher();
    for name in ["a", "b"] {
        let report = get_one(&fetcher, server.url("x?y"), &downloads.path(name), None).await.unwrap();
        assert_eq!(report.protocol, Protocol::Http1);
        assert_eq!(std::fs::read(downloads.path(name)).unwrap(), b"0123456789");
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let first = &server.requests()[0];
    assert!(first.starts_with("GET /x?y HTTP/1.1\r\n"), "{first}");
    assert!(first.contains(&format!("host: localhost:{}\r\n", server.address.port())), "{first}");
}

#[tokio::test]
async fn http_1_1_carries_several_files_on_several_connections() {
    let server = Scripted::new(&[WHOLE; 10]).await;
    let downloads = Downloads::new();
    let jobs = (0..10).map(|i| Job::to_file(server.url("x"), downloads.path(&i.to_string()))).collect();
    let results = server.fetcher().get(jobs, None).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(downloads.names().len(), 10);
}

#[tokio::test]
async fn a_body_that_is_cut_is_never_shown_as_complete() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"v1\"\r\n\r\n01234CLOSE",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\netag: \"v1\"\r\n\r\n5\r\n01234\r\nCLOSE",
    ] {
        let server = Scripted::new(&[answer]).await;
        let downloads = Downloads::new();
        let mut options = server.options();
        options.retries = 1; // it never gets any further
        let error =
            get_one(&Fetcher::new(options).unwrap(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert_eq!(error.category(), Category::Network, "{error}");
        let kept = error.kept().unwrap();
        assert!(kept.resumable && kept.bytes == 5, "{kept:?}");
        assert_eq!(downloads.names(), ["f.part", "f.part.meta"]);
    }
}

#[tokio::test]
async fn a_chunked_body_of_unknown_length_is_complete_at_its_end() {
    let server = Scripted::new(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n\r\n"]).await;
    let downloads = Downloads::new();
    get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap();
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"01234");
}

fn leave_part(server: &Scripted, downloads: &Downloads) {
    std::fs::write(downloads.path("f.part"), "0123").unwrap();
    let meta = format!("thalweg-part 1\nurl {}\netag \"v1\"\nlength 10\n", server.url("x"));
    std::fs::write(downloads.path("f.part.meta"), meta).unwrap();
}

#[tokio::test]
async fn a_matching_rest_is_appended() {
    let rest = "HTTP/1.1 206 Partial Content\r\ncontent-length: 6\r\ncontent-range: bytes 4-9/10\r\netag: \"v1\"\r\n\r\n456789";
    let server = Scripted::new(&[rest]).await;
    let downloads = Downloads::new();
    leave_part(&server, &downloads);
    let report = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap();
    assert_eq!((report.resumed_from, report.bytes), (4, 6));
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"0123456789");
    let request = &server.requests()[0];
    assert!(request.contains("range: bytes=4-\r\n") && request.contains("if-range: \"v1\"\r\n"), "{request}");
}

#[tokio::test]
async fn a_rest_that_does_not_match_starts_again() {
    for answer in [
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 7\r\ncontent-range: bytes 3-9/10\r\n\r\n3456789",
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 6\r\ncontent-range: bytes 4-9/10\r\netag: \"v2\"\r\n\r\n456789",
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 6\r\ncontent-range: bytes 4-9/20\r\n\r\n456789",
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 6\r\n\r\n456789",
        "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\ncontent-range: bytes */3\r\n\r\n",
    ] {
        let server = Scripted::new(&[answer, WHOLE]).await;
        let downloads = Downloads::new();
        leave_part(&server, &downloads);
        let recorder = Recorder::default();
        let report =
            get_one(&server.resuming(), server.url("x"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
        assert_eq!((report.status, report.resumed_from), (200, 0), "{answer}");
        assert!(matches!(&recorder.notices()[..], [Notice::Restarted { .. }]));
        assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"0123456789");
        assert!(!server.requests()[1].contains("range:"));
    }
}

#[tokio::test]
async fn a_weak_tag_is_nothing_to_resume_by() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: W/\"v1\"\r\n\r\n01234CLOSE";
    let server = Scripted::new(&[cut, WHOLE]).await;
    let downloads = Downloads::new();
    let mut options = server.options();
    options.retries = 0;
    let error =
        get_one(&Fetcher::new(options).unwrap(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
    assert!(!error.kept().unwrap().resumable);
    assert!(error.to_string().contains("nothing to resume by"), "{error}");
    let report = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap();
    assert_eq!(report.resumed_from, 0);
    assert!(!server.requests()[1].contains("range:"));
}

/// An empty part is what a connection leaves that broke before the first byte: there is nothing to start over.
#[tokio::test]
async fn an_empty_part_is_not_worth_a_notice() {
    for (part, notices) in [("", 0), ("0123", 1)] {
        let server = Scripted::new(&[WHOLE]).await;
        let downloads = Downloads::new();
        std::fs::write(downloads.path("f.part"), part).unwrap();
        let meta = format!("thalweg-part 1\nurl {}\nlength 10\n", server.url("x"));
        std::fs::write(downloads.path("f.part.meta"), meta).unwrap();
        let recorder = Recorder::default();
        get_one(&server.resuming(), server.url("x"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
        let told = recorder.notices();
        assert_eq!(told.len(), notices, "{told:?}");
        assert!(told.iter().all(|notice| notice.to_string().contains("no entity tag or date")), "{told:?}");
    }
}

#[tokio::test]
async fn answers_nobody_asked_for_are_errors_and_store_nothing() {
    for (answer, category) in [
        (
            "HTTP/1.1 206 Partial Content\r\ncontent-length: 1\r\ncontent-range: bytes 0-0/10\r\n\r\n0",
            Category::Protocol,
        ),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", Category::Protocol),
        ("HTTP/1.1 204 No Content\r\n\r\n", Category::Http),
        ("HTTP/1.1 301 Moved\r\ncontent-length: 0\r\n\r\n", Category::Protocol),
        ("HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: http://localhost/\r\n\r\n", Category::Protocol),
        ("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", Category::Http),
        ("garbage\r\n\r\nCLOSE", Category::Network),
    ] {
        let server = Scripted::new(&[answer]).await;
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert_eq!(error.category(), category, "{answer}: {error}");
        assert_eq!(downloads.names().len(), 0);
    }
}

/// The fault is the server's, so it is a failure and not wrong usage.
#[tokio::test]
async fn a_redirect_that_cannot_be_followed_says_where_it_leads() {
    for (target, words) in [
        ("http://localhost/there", "http://localhost/there, which is not encrypted"),
        ("HTTP://localhost/there", "HTTP://localhost/there, which is not encrypted"),
        ("ftp://localhost/there", "ftp://localhost/there, which cannot be used"),
        ("https://user@localhost/", "https://user@localhost/, which cannot be used"),
    ] {
        let answer = format!("HTTP/1.1 301 Moved\r\ncontent-length: 0\r\nlocation: {target}\r\n\r\n");
        let server = Scripted::new(&[&answer]).await;
        let error = get_one(&server.fetcher(), server.url("x"), &Downloads::new().path("f"), None).await.unwrap_err();
        assert_eq!(error.category(), Category::Protocol, "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("only https://"), "{text}");
        assert!(text.starts_with(&server.url("x")), "{text}");
    }
}

const GZIP: &str = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\netag: \"v1\"\r\n\r\n0123456789";

#[tokio::test]
async fn a_coding_is_named_and_the_bytes_are_kept_as_they_came() {
    let server = Scripted::new(&[GZIP, WHOLE]).await;
    let (downloads, recorder) = (Downloads::new(), Recorder::default());
    let fetcher = server.fetcher();
    let report = get_one(&fetcher, server.url("x"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
    assert_eq!(report.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"0123456789");
    let notices = recorder.notices();
    assert!(matches!(&notices[..], [Notice::Encoded { coding, .. }] if coding == "gzip"), "{notices:?}");
    assert!(notices[0].to_string().contains("saved as gzip"), "{}", notices[0]);
    assert!(server.requests()[0].contains("accept-encoding: identity\r\n"));
    let plain = get_one(&fetcher, server.url("x"), &downloads.path("g"), None).await.unwrap();
    assert_eq!(plain.content_encoding, None);
}

/// The rest of the plain file does not fit behind the beginning of a compressed one, whatever its tag says.
#[tokio::test]
async fn a_partial_file_is_continued_only_in_the_coding_it_has() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\netag: \"v1\"\r\n\r\n0123CLOSE";
    let rest = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 4-9/10\r\netag: \"v1\"\r\ncontent-length: 6\r\n";
    let body = "\r\n456789";
    // RFC 9110 section 15.3.7: an answer to If-Range need not repeat what the first one said.
    for (coding, continued) in [
        ("content-encoding: gzip\r\n", true),
        ("", true),
        ("content-encoding: br\r\n", false),
        ("content-encoding: identity\r\n", false),
    ] {
        let server = Scripted::new(&[cut, &format!("{rest}{coding}{body}"), WHOLE]).await;
        let downloads = Downloads::new();
        let mut once = server.options();
        once.retries = 0;
        let once = Fetcher::new(once).unwrap();
        let error = get_one(&once, server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert!(error.kept().unwrap().resumable, "{error}");
        let report = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap();
        assert_eq!(report.resumed_from, if continued { 4 } else { 0 }, "{coding}");
        assert_eq!(report.content_encoding.as_deref(), continued.then_some("gzip"));
        assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"0123456789");
    }
    // What began without a coding does not go on in one.
    let plain = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"v1\"\r\n\r\n0123CLOSE";
    let server = Scripted::new(&[plain, &format!("{rest}content-encoding: gzip\r\n{body}"), WHOLE]).await;
    let downloads = Downloads::new();
    let mut options = server.options();
    options.retries = 0;
    get_one(&Fetcher::new(options).unwrap(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
    let report = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap();
    assert_eq!((report.resumed_from, report.content_encoding), (0, None));
    // All of it is here: 304 does not name the coding, the partial file does.
    let server = Scripted::new(&["HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n"]).await;
    let downloads = Downloads::new();
    std::fs::write(downloads.path("f.part"), "0123456789").unwrap();
    let meta = format!("thalweg-part 1\nurl {}\netag \"v1\"\nlength 10\ncoding gzip\n", server.url("x"));
    std::fs::write(downloads.path("f.part.meta"), meta).unwrap();
    let report = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap();
    assert_eq!(report.content_encoding.as_deref(), Some("gzip"));
}

#[tokio::test]
async fn a_rest_of_another_length_than_its_range_is_refused() {
    let rest =
        "HTTP/1.1 206 Partial Content\r\ncontent-length: 5\r\ncontent-range: bytes 4-9/10\r\netag: \"v1\"\r\n\r\n45678";
    let server = Scripted::new(&[rest]).await;
    let downloads = Downloads::new();
    leave_part(&server, &downloads);
    let error = get_one(&server.resuming(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
    assert!(error.category() == Category::Protocol && error.to_string().contains("Content-Range"), "{error}");
    assert_eq!(std::fs::read(downloads.path("f.part")).unwrap(), b"0123", "what was here stays");
}

#[tokio::test]
async fn over_http_1_1_interim_responses_are_skipped_for_downloads_and_uploads() {
    let interim = [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "HTTP/1.1 199 Something\r\n\r\n",
    ];
    for count in 0..=interim.len() {
        let before = interim[..count].concat();
        let server = Scripted::new(&[
            &format!("{before}{WHOLE}"),
            &format!("{before}HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\nCLOSE"),
        ])
        .await;
        let downloads = Downloads::new();
        let fetcher = server.fetcher();
        let report = get_one(&fetcher, server.url("x"), &downloads.path("f"), None).await.unwrap();
        assert_eq!((report.status, report.bytes), (200, 10), "after {count} interim responses");
        let put = fetcher.put(downloads.path("f"), server.url("y"), None).await.unwrap();
        assert_eq!(put.status, 201, "after {count} interim responses");
    }
}

#[tokio::test]
async fn over_http_1_1_differing_lengths_are_refused_and_equal_ones_are_one() {
    for (lengths, good) in [
        ("content-length: 10\r\ncontent-length: 10\r\n", true),
        ("content-length: 10\r\ncontent-length: 9\r\n", false),
        ("content-length: 9\r\ncontent-length: 10\r\n", false),
        ("content-length: 10, 9\r\n", false),
        ("content-length: +10\r\n", false),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lengths}\r\n0123456789");
        let server = Scripted::new(&[&answer]).await;
        let downloads = Downloads::new();
        match get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await {
            Ok(report) => assert!(good && report.bytes == 10, "{lengths}"),
            Err(error) => {
                assert!(!good, "{lengths}: {error}");
                assert!(error.to_string().to_lowercase().contains("content-length"), "{error}");
                crate::common::assert_plain(&error.to_string());
                assert!(downloads.names().is_empty(), "{lengths}");
            }
        }
    }
}

#[tokio::test]
async fn over_http_1_1_an_oversized_header_section_is_named_as_such() {
    // The library reads ahead, so what is a little larger may still pass.
    let long = format!("x: {}\r\n", "y".repeat(1_000_000));
    let many = "x: y\r\n".repeat(1_100);
    for fields in [long, many] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 10\r\n\r\n0123456789");
        let server = Scripted::new(&[&answer]).await;
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert!(error.to_string().contains("header section of more than 262144 bytes"), "{error}");
        assert!(downloads.names().is_empty());
    }
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\nok", "y".repeat(200_000));
    let server = Scripted::new(&[&large]).await;
    get_one(&server.fetcher(), server.url("x"), &Downloads::new().path("f"), None).await.unwrap();
}

#[tokio::test]
async fn circles_of_redirects_end() {
    let round = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nlocation: /x\r\n\r\n";
    let server = Scripted::new(&[round; 10]).await;
    let downloads = Downloads::new();
    let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
    assert!(matches!(error, Error::Redirects { limit: 5, .. }), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_another_host() {
    let other = Scripted::new(&[WHOLE]).await;
    let away = format!("HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: {}\r\n\r\n", other.url("there"));
    let here = "HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: here\r\n\r\n";
    let server = Scripted::new(&[here, &away]).await;
    let downloads = Downloads::new();
    let mut options = server.options();
    options.trust = Trust::Insecure;
    options.headers.insert("authorization", "secret".parse().unwrap());
    options.headers.insert("user-agent", "mine".parse().unwrap());
    let fetcher = Fetcher::new(options).unwrap();
    get_one(&fetcher, server.url("a/x"), &downloads.path("f"), None).await.unwrap();
    for request in server.requests() {
        assert!(request.contains("authorization: secret\r\n") && request.contains("user-agent: mine\r\n"), "{request}");
    }
    assert!(server.requests()[1].starts_with("GET /a/here "));
    let there = &other.requests()[0];
    assert!(!there.contains("secret") && there.contains("user-agent: thalweg/"), "{there}");
}

/// An HTTP/3 server that promises `promised` bytes and sends `body`.
async fn http3(promised: u64, body: &'static [u8]) -> (Identity, thalweg::Endpoint, SocketAddr) {
    let identity = Identity::self_signed::<&str>(&[]).unwrap();
    let key = identity.key().clone_key();
    let config = thalweg::ServerConfig::with_single_cert(identity.chain().to_vec(), key, &[b"h3"]).unwrap();
    let endpoint = thalweg::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            let connection = thalweg_h3::Connection::new(incoming.await.unwrap());
            let mut http = h3::server::Connection::new(connection).await.unwrap();
            while let Ok(Some(resolver)) = http.accept().await {
                let (_, mut stream) = resolver.resolve_request().await.unwrap();
                let head = http::Response::builder().header("content-length", promised).header("etag", "\"v1\"");
                stream.send_response(head.body(()).unwrap()).await.unwrap();
                let _ = stream.send_data(bytes::Bytes::from_static(body)).await;
                let _ = stream.finish().await;
            }
        }
    });
    (identity, endpoint, address)
}

/// `h3` does not compare, so the client must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_3_the_length_is_compared_with_what_was_promised() {
    for (promised, body, names) in
        [(10, &b"01234"[..], &["f.part", "f.part.meta"][..]), (3, b"01234", &[]), (5, b"01234", &["f"])]
    {
        let (identity, _endpoint, address) = http3(promised, body).await;
        let downloads = Downloads::new();
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(identity.chain().to_vec());
        options.preference = Preference::Quic;
        let fetcher = Fetcher::new(options).unwrap();
        let url = format!("https://{address}/f");
        match get_one(&fetcher, url, &downloads.path("f"), None).await {
            Err(Error::Incomplete { got: 5, expected: 10, kept: Some(kept), .. }) => assert!(kept.resumable),
            Err(Error::TooLong { expected: 3, .. }) => {}
            Ok(report) => assert_eq!((report.bytes, promised), (5, 5)),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(downloads.names(), names);
    }
}
