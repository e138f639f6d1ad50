//! The case `http3` for any transport that has the `h3` crate's traits.

use std::future::poll_fn;
use std::io::Write;

use bytes::{Buf, Bytes};
use h3::quic;
use http::{Request as HttpRequest, Response, StatusCode};
use tokio::task::JoinSet;

use crate::evidence::Counter;
use crate::{Failure, Request, read_for_path};

/// Bytes of a file that are written at once.
const PIECE: usize = 1 << 16;

/// Answers requests until the connection ends.
pub async fn serve<C>(connection: C, requests: Counter) -> Result<(), Failure>
where
    C: quic::Connection<Bytes, OpenStreams: Send> + Send + 'static,
    C::BidiStream: quic::BidiStream<Bytes> + Send + 'static,
    <C::BidiStream as quic::BidiStream<Bytes>>::RecvStream: Send,
    <C::BidiStream as quic::BidiStream<Bytes>>::SendStream: Send,
{
    let mut h3 = h3::server::Connection::new(connection).await?;
    loop {
        let resolver = match h3.accept().await {
            Ok(Some(resolver)) => resolver,
            Ok(None) => return Ok(()),
            Err(error) => {
                return if error.is_h3_no_error() { Ok(()) } else { Err(error.into()) };
            }
        };
        requests.add();
        tokio::spawn(async move {
            if let Err(error) = answer(resolver).await {
                eprintln!("request failed: {error}");
            }
        });
    }
}

async fn answer<C>(resolver: h3::server::RequestResolver<C, Bytes>) -> Result<(), Failure>
where
    C: quic::Connection<Bytes>,
    C::BidiStream: quic::BidiStream<Bytes>,
{
    let (request, mut stream) = resolver.resolve_request().await?;
    match read_for_path(request.uri().path()) {
        Ok(body) => {
            stream.send_response(Response::builder().header("content-length", body.len()).body(())?).await?;
            // As programs that read a file do. quinn counts a piece as buffered until all of it is acknowledged: where
            // one piece fills its send buffer, the connection is silent for a round trip at the end of each.
            let mut body = Bytes::from(body);
            while !body.is_empty() {
                stream.send_data(body.split_to(body.len().min(PIECE))).await?;
            }
        }
        Err(error) => {
            eprintln!("{}: {error}", request.uri());
            stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        }
    }
    stream.finish().await?;
    Ok(())
}

/// Fetches all files at once.
pub async fn fetch<C>(connection: C, requests: &[Request], count: &Counter) -> Result<(), Failure>
where
    C: quic::Connection<Bytes> + Send + 'static,
    C::OpenStreams: quic::OpenStreams<Bytes, BidiStream = C::BidiStream> + Clone + Send + 'static,
    C::BidiStream: quic::BidiStream<Bytes> + Send,
    C::RecvStream: Send,
    C::SendStream: Send,
{
    let (mut driver, sender) = h3::client::new(connection).await?;
    let driver = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let mut running = JoinSet::new();
    for request in requests {
        count.add();
        let request = request.clone();
        let mut sender = sender.clone();
        running.spawn(async move {
            let mut stream = sender.send_request(HttpRequest::get(&request.url).body(())?).await?;
            stream.finish().await?;
            let response = stream.recv_response().await?;
            if response.status() != StatusCode::OK {
                return Err(Failure::from(format!("{}: {}", request.url, response.status())));
            }
            let mut file = std::fs::File::create(request.target()?)?;
            while let Some(mut data) = stream.recv_data().await? {
                while data.has_remaining() {
                    let length = data.chunk().len();
                    file.write_all(data.chunk())?;
                    data.advance(length);
                }
            }
            Ok(())
        });
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    drop(sender);
    driver.abort();
    Ok(())
}
