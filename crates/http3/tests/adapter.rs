//! Additions of the adapter to `h3`: the codes of abandoned streams, the thorough finish, the frame guard.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::time::Duration;

use bytes::{Buf, Bytes};
use common::{Server, quic};
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use http::{Request, Response};
use thalweg::{ConnectionError, Endpoint};
use thalweg_h3::{BidiStream, Connection};
use tokio::time::timeout;

type ServerStream = h3::server::RequestStream<BidiStream<Bytes>, Bytes>;

async fn pair(window: u64) -> (SendRequest<Connection, Bytes>, Server, [Endpoint; 2]) {
    let (client, server, endpoints) = quic(window).await;
    let (mut driver, send) = h3::client::builder().build(Connection::new(client)).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    let server = h3::server::Connection::new(Connection::new(server)).await.unwrap();
    (send, server, endpoints)
}

async fn accept(server: &mut Server) -> ServerStream {
    let resolver = server.accept().await.unwrap().unwrap();
    resolver.resolve_request().await.unwrap().1
}

fn request() -> Request<()> {
    Request::get("https://localhost/").body(()).unwrap()
}

fn sample(size: usize) -> Bytes {
    (0..size).map(|i| (i * 7 % 251) as u8).collect::<Vec<u8>>().into()
}

macro_rules! read_all {
    ($stream:expr) => {{
        let mut out = Vec::new();
        while let Some(mut data) = $stream.recv_data().await.unwrap() {
            out.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        out
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_travel_both_ways() {
    let (mut send, mut server, _endpoints) = pair(1 << 20).await;
    let body = sample(3_000_000);
    let serving = async {
        let mut stream = accept(&mut server).await;
        let got = read_all!(stream);
        stream.send_response(Response::new(())).await.unwrap();
        stream.send_data(got.into()).await.unwrap();
        stream.finish().await.unwrap();
    };
    let asking = async {
        let mut stream = send.send_request(request()).await.unwrap();
        stream.send_data(body.clone()).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        assert_eq!(read_all!(stream), body);
    };
    tokio::join!(serving, asking);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_finished_when_everything_is_acknowledged_not_before() {
    let (mut send, mut server, _endpoints) = pair(100_000).await;
    let mut asking = send.send_request(request()).await.unwrap();
    asking.finish().await.unwrap();
    let mut answering = accept(&mut server).await;
    answering.send_response(Response::new(())).await.unwrap();
    answering.send_data(sample(104_000)).await.unwrap();
    // Flow control lets 100 000 bytes through, and nobody reads. A little more is taken and waits.
    {
        let mut finishing = std::pin::pin!(answering.finish());
        assert!(timeout(Duration::from_millis(200), finishing.as_mut()).await.is_err());
        asking.recv_response().await.unwrap();
        let (got, finished) = tokio::join!(async { read_all!(asking) }, finishing);
        assert_eq!(got, sample(104_000));
        finished.unwrap();
    }
    // Now the server may close without cutting anything.
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_dropped_is_cancelled_in_both_directions() {
    let (mut send, mut server, _endpoints) = pair(100_000).await;
    let asking = send.send_request(request()).await.unwrap();
    let mut answering = accept(&mut server).await;
    drop(asking);
    let error = answering.recv_data().await.map(|_| ()).unwrap_err();
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED, .. }), "{error}");
    let error = loop {
        if let Err(error) = answering.send_data(sample(50_000)).await {
            break error;
        }
    };
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_codes_of_resets_and_closes_arrive() {
    let (client, server, _endpoints) = quic(100_000).await;
    let raw = client.clone();
    let (mut driver, mut send) = h3::client::builder().build::<_, _, Bytes>(Connection::new(client)).await.unwrap();
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let mut server = h3::server::Connection::new(Connection::new(server)).await.unwrap();
    let mut asking = send.send_request(request()).await.unwrap();
    let mut answering = accept(&mut server).await;
    answering.stop_stream(Code::H3_INTERNAL_ERROR);
    let error = asking.recv_response().await.unwrap_err();
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_INTERNAL_ERROR, .. }), "{error}");
    drop(server);
    let closed = raw.closed().await;
    assert!(
        matches!(&closed, ConnectionError::PeerApplication { code, .. } if *code == Code::H3_NO_ERROR.value()),
        "{closed}"
    );
    // h3 itself sees it as a regular end.
    assert!(driver.await.unwrap().is_h3_no_error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_too_long_to_collect_closes_the_connection() {
    let (client, server, _endpoints) = quic(1 << 20).await;
    let mut server: Server = h3::server::Connection::new(Connection::new(server)).await.unwrap();
    let serving = tokio::spawn(async move {
        match server.accept().await {
            Ok(Some(resolver)) => {
                assert!(resolver.resolve_request().await.is_err());
                server.accept().await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    });
    let (mut send, _recv) = client.open_bi().await.unwrap();
    // HEADERS of 2^30 - 1 bytes.
    send.write_all(&[0x01, 0xbf, 0xff, 0xff, 0xff, 0, 0]).await.unwrap();
    let error = timeout(Duration::from_secs(5), client.closed()).await.unwrap();
    assert!(
        matches!(&error, ConnectionError::PeerApplication { code, .. } if *code == Code::H3_EXCESSIVE_LOAD.value()),
        "{error}"
    );
    assert!(serving.await.unwrap().is_err());
}
