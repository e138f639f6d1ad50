//! Malformed messages on the wire: refused with H3_MESSAGE_ERROR, and the connection goes on.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use common::{Server, quic};
use h3::error::{Code, StreamError};
use http::{HeaderName, HeaderValue, Request, Response};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use thalweg::{ConnectionError, ReadError};
use thalweg_h3::Connection;
use tokio::time::timeout;

/// Longest that one exchange may take.
const PATIENCE: Duration = Duration::from_secs(30);

type Fields<'a> = &'a [(&'a str, &'a str)];

const GET: Fields<'static> = &[(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];
const PUT: Fields<'static> = &[(":method", "PUT"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

/// Type and length below 16384, then the payload.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0x40 | (payload.len() >> 8) as u8, payload.len() as u8][..], payload].concat()
}

/// A HEADERS frame with every field spelled out.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        for (text, bits, flags) in [(name, 3, 0x20), (value, 7, 0)] {
            let full = (1 << bits) - 1;
            if text.len() < full {
                section.push(flags | text.len() as u8);
            } else {
                assert!(text.len() < full + 128);
                section.extend([flags | full as u8, (text.len() - full) as u8]);
            }
            section.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, &section)
}

fn with(base: Fields, more: Fields) -> Vec<u8> {
    headers(&[base, more].concat())
}

/// Answers every request with 200 once its body is here.
async fn serve(mut server: Server) {
    while let Ok(Some(resolver)) = server.accept().await {
        tokio::spawn(async move {
            let (_, mut stream) = resolver.resolve_request().await?;
            while stream.recv_data().await?.is_some() {}
            stream.recv_trailers().await?;
            stream.send_response(Response::new(())).await?;
            stream.finish().await
        });
    }
}

/// Writes a request and reads what comes back: bytes, or the code of a reset.
async fn exchange(client: &thalweg::Connection, request: &[u8]) -> Result<Vec<u8>, u64> {
    let (mut send, mut recv) = client.open_bi().await.unwrap();
    // The server may have refused before all is written.
    let _ = send.write_all(request).await;
    let _ = send.finish();
    let mut out = Vec::new();
    loop {
        match timeout(PATIENCE, recv.read_chunk(1 << 16)).await.unwrap() {
            Ok(Some(data)) => out.extend_from_slice(&data),
            Ok(None) => return Ok(out),
            Err(ReadError::Reset(code)) => return Err(code),
            Err(other) => panic!("{other}"),
        }
    }
}

/// A HEADERS frame with `:status: 200` from the static table.
fn is_ok(answer: &[u8]) -> bool {
    answer.starts_with(&[1]) && answer[2..].starts_with(&[0, 0, 0xc0 | 25])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_reset_and_the_next_one_is_answered() {
    let (client, server, _endpoints) = quic(1 << 20).await;
    tokio::spawn(serve(Server::new(Connection::new(server)).await.unwrap()));
    let head = with(PUT, &[]);
    let body = frame(0, b"12345");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (":method twice", with(GET, &[(":method", "GET")])),
        (":path twice", with(GET, &[(":path", "/b")])),
        (":authority twice", with(GET, &[(":authority", "a.example")])),
        (":scheme twice", with(GET, &[(":scheme", "http")])),
        (":path late", with(&GET[..3], &[("accept", "*/*"), (":path", "/")])),
        ("unknown pseudo-header field", with(GET, &[(":unknown", "x")])),
        (":status in a request", with(GET, &[(":status", "200")])),
        (":protocol without CONNECT", with(GET, &[(":protocol", "websocket")])),
        ("no :method", with(&GET[1..], &[])),
        ("no :scheme", with(&GET[2..], &[(":method", "GET")])),
        ("no :path", with(&GET[..3], &[])),
        ("no :authority and no host", with(&GET[..2], &[(":path", "/")])),
        ("empty :path", with(&GET[..3], &[(":path", "")])),
        ("empty :authority", with(&GET[..2], &[(":path", "/"), (":authority", "")])),
        (":authority and host differ", with(GET, &[("host", "b.example")])),
        ("host twice", with(GET, &[("host", "a.example"), ("host", "a.example")])),
        ("Connection", with(GET, &[("connection", "close")])),
        ("Keep-Alive", with(GET, &[("keep-alive", "timeout=5")])),
        ("Proxy-Connection", with(GET, &[("proxy-connection", "keep-alive")])),
        ("Transfer-Encoding", with(GET, &[("transfer-encoding", "chunked")])),
        ("Upgrade", with(GET, &[("upgrade", "h2c")])),
        ("TE: gzip", with(GET, &[("te", "gzip")])),
        ("uppercase", with(GET, &[("Accept", "*/*")])),
        ("a line break in a value", with(GET, &[("accept", "a\r\nb: c")])),
        ("Content-Length without a body", with(GET, &[("content-length", "5")])),
        ("Content-Length that differs from itself", with(PUT, &[("content-length", "5"), ("content-length", "6")])),
        ("Content-Length that is no number", with(GET, &[("content-length", "+5")])),
        ("body longer", [with(PUT, &[("content-length", "4")]), body.clone()].concat()),
        ("body shorter", [with(PUT, &[("content-length", "6")]), body.clone()].concat()),
        ("body of none", [with(PUT, &[("content-length", "0")]), body.clone()].concat()),
        ("trailers with :path", [head.clone(), body.clone(), headers(&[(":path", "/")])].concat()),
        ("trailers with Upgrade", [head.clone(), body.clone(), headers(&[("upgrade", "x")])].concat()),
        ("CONNECT with :path", headers(&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")])),
        ("CONNECT without a port", headers(&[(":method", "CONNECT"), (":authority", "a")])),
        ("CONNECT without :authority", headers(&[(":method", "CONNECT")])),
    ];
    let mut wrong = Vec::new();
    for (what, request) in &cases {
        let answer = exchange(&client, request).await;
        if answer != Err(Code::H3_MESSAGE_ERROR.value()) {
            wrong.push(format!("{what}: {answer:x?}"));
        }
        let next = exchange(&client, &with(GET, &[])).await;
        assert!(is_ok(&next.clone().unwrap()), "after {what}: {next:x?}");
    }
    assert!(wrong.is_empty(), "{} of {} are not refused as they should be: {wrong:#?}", wrong.len(), cases.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusual_requests_that_are_well_formed_are_answered() {
    let (client, server, _endpoints) = quic(1 << 20).await;
    tokio::spawn(serve(Server::new(Connection::new(server)).await.unwrap()));
    let body = frame(0, b"12345");
    let trailers = headers(&[("checksum", "x")]);
    for (what, request) in [
        ("split cookies", with(GET, &[("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")])),
        ("host equal to :authority", with(GET, &[("host", "a.example")])),
        ("host only", with(&GET[..2], &[(":path", "/"), ("host", "a.example")])),
        ("TE: trailers", with(GET, &[("te", "trailers")])),
        ("Content-Length: 0 without a body", with(GET, &[("content-length", "0")])),
        (
            "Content-Length twice the same",
            [with(PUT, &[("content-length", "5"), ("content-length", "5")]), body.clone()].concat(),
        ),
        ("a body and trailers", [with(PUT, &[("content-length", "5")]), body.clone(), trailers.clone()].concat()),
        (
            "frames nobody knows",
            [frame(0x21, b"x"), with(PUT, &[]), frame(0x21, b""), body, frame(0x21, b"y")].concat(),
        ),
        ("CONNECT", headers(&[(":method", "CONNECT"), (":authority", "a.example:443")])),
    ] {
        let answer = exchange(&client, &request).await;
        assert!(answer.as_ref().is_ok_and(|answer| is_ok(answer)), "{what}: {answer:x?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_section_that_needs_a_dynamic_table_closes_the_connection() {
    for section in [&[0, 0, 0x80][..], &[1, 0], &[0, 0, 0xff, 200], &[]] {
        let (client, server, _endpoints) = quic(1 << 20).await;
        tokio::spawn(serve(Server::new(Connection::new(server)).await.unwrap()));
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(&frame(1, section)).await.unwrap();
        let error = timeout(PATIENCE, client.closed()).await.unwrap();
        let expected = Code::QPACK_DECOMPRESSION_FAILED.value();
        assert!(matches!(&error, ConnectionError::PeerApplication { code, .. } if *code == expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_answer_is_named_and_the_connection_goes_on() {
    let ok = (":status", "200");
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("twice", headers(&[ok, (":status", "404")]), "the response is malformed: it repeats :status"),
        ("late", headers(&[("server", "x"), ok]), "pseudo-header field after another field"),
        ("connection", headers(&[ok, ("connection", "close")]), "the field connection"),
        ("lengths", headers(&[ok, ("content-length", "1"), ("content-length", "2")]), "fields that differ"),
        ("101", headers(&[(":status", "101")]), "an invalid :status"),
    ];
    let (client, server, _endpoints) = quic(1 << 20).await;
    let answers: Vec<Vec<u8>> = cases.iter().map(|case| case.1.clone()).collect();
    let serving = tokio::spawn(async move {
        for answer in answers.into_iter().chain([headers(&[ok])]) {
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            send.write_all(&answer).await.unwrap();
            send.finish().unwrap();
            let _ = recv.read_to_end(1 << 16).await;
            let _ = send.stopped().await;
        }
        server
    });
    let (mut driver, mut send) = h3::client::builder().build::<_, _, Bytes>(Connection::new(client)).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    for (what, _, expected) in cases {
        let mut stream = send.send_request(Request::get("https://a.example/").body(()).unwrap()).await.unwrap();
        stream.finish().await.unwrap();
        let result = async {
            stream.recv_response().await?;
            while stream.recv_data().await?.is_some() {}
            Ok::<_, StreamError>(())
        };
        let error = timeout(PATIENCE, result).await.unwrap().unwrap_err();
        assert!(matches!(error, StreamError::Undefined { .. }), "{what}: {error}");
        assert!(error.to_string().contains(expected), "{what}: {error}");
    }
    let mut stream = send.send_request(Request::get("https://a.example/").body(()).unwrap()).await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    drop(stream);
    serving.await.unwrap();
}

/// Whatever `h3`'s own client can be asked to send is well-formed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_h3_sends_passes() {
    let (client, server, _endpoints) = quic(1 << 20).await;
    tokio::spawn(serve(Server::new(Connection::new(server)).await.unwrap()));
    let (mut driver, mut send) = h3::client::builder().build::<_, _, Bytes>(Connection::new(client)).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let field = ("x-[a-z0-9!#$%&'*+.^_`|~-]{0,40}", "[ -~\u{80}-\u{ff}]{0,60}");
    let requests = (
        prop_oneof![Just("GET"), Just("HEAD"), Just("PUT"), Just("POST"), Just("OPTIONS"), Just("PURGE")],
        "[a-z0-9.-]{1,30}(:[1-9][0-9]{0,3})?",
        "(/[a-zA-Z0-9%25._~!$&'()*+,;=:@-]{0,20}){0,4}(\\?[a-z=&]{0,20})?",
        proptest::collection::vec(field, 0..8),
        proptest::collection::vec(any::<u8>(), 0..50),
    );
    let mut config = Config::with_cases(200);
    config.failure_persistence = None;
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    for _ in 0..200 {
        let (method, authority, path, fields, body) = requests.new_tree(&mut runner).unwrap().current();
        let Ok(mut request) = Request::builder().method(method).uri(format!("https://{authority}{path}")).body(())
        else {
            continue;
        };
        for (name, value) in fields {
            let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) else {
                continue;
            };
            request.headers_mut().append(name, value);
        }
        request.headers_mut().insert(http::header::CONTENT_LENGTH, body.len().into());
        let shown = format!("{request:?}");
        let exchange = async {
            let mut stream = send.send_request(request).await?;
            stream.send_data(body.into()).await?;
            stream.finish().await?;
            let response = stream.recv_response().await?;
            while let Some(data) = stream.recv_data().await? {
                assert!(data.has_remaining());
            }
            Ok::<_, StreamError>(response.status())
        };
        match timeout(PATIENCE, exchange).await.unwrap() {
            Ok(status) => assert_eq!(status, 200, "{shown}"),
            Err(error) => panic!("{shown}: {error}"),
        }
    }
}
