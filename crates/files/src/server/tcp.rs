//! HTTPS over TCP: HTTP/2 and HTTP/1.1 by ALPN, for clients that do not speak HTTP/3 or do not know yet that we do.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{ALT_SVC, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Version};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::memory::{REQUEST, TCP_CONNECTION};
use super::patience::Patient;
use super::respond::{Context, head_size, respond};
use super::stopped;
use crate::account::{Account, Busy, Request as Counted};
use crate::body::ReadBody;
use crate::content::Reader;
use crate::log::Entry;
use crate::site::Answer;

/// Connections served at once over TCP; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4096;

/// Longest a client may take for the TLS handshake, and for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Largest header section of a request, bytes: what most servers accept.
const MAX_HEADERS: u32 = 64 * 1024;

/// Requests that one HTTP/2 connection may have under way.
const MAX_STREAMS: u32 = 200;

/// Bytes that hyper may hold for one HTTP/1.1 connection, and for one HTTP/2 stream beyond the block it asks for last.
const MAX_BUFFER: usize = 128 * 1024;

/// Accepts until `stop` is true, then lets running answers finish for at most `grace`.
pub(super) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    context: Context,
    alt_svc: Option<HeaderValue>,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                context.memory.room().await;
                (listener.accept().await, permit)
            } => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            (Ok((stream, peer)), permit) => {
                let tls = tls.clone();
                let context = context.clone();
                let alt_svc = alt_svc.clone();
                let stop = stop.clone();
                connections.spawn(async move {
                    let _permit = permit;
                    // A client that fails the handshake or goes away is its own affair; requests are in the access log.
                    let _ = connection(stream, peer, tls, context, alt_svc, stop).await;
                });
            }
            // Out of descriptors or the like: waiting a little is all that helps.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: TlsAcceptor,
    context: Context,
    alt_svc: Option<HeaderValue>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let member = context.memory.join();
    let account = Arc::clone(member.account());
    let _counted = account.charge(TCP_CONNECTION);
    let patient = Patient::new(stream, Arc::clone(&context.memory));
    let stream = tokio::select! {
        accepted = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(patient)) => {
            accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
        }
        _ = member.dropped() => return Ok(()),
    };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let context = context.clone();
        let alt_svc = alt_svc.clone();
        // Before the next request is read.
        let (parts, body) = request.into_parts();
        let counted = account.request(REQUEST + head_size(&parts));
        async move { answer(context, peer, alt_svc, parts, body, counted).await }
    });
    let stream = TokioIo::new(stream);
    let mut stopping = std::pin::pin!(stopped(&mut stop));
    if http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .adaptive_window(true)
            .max_send_buf_size(MAX_BUFFER)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADERS)
            .keep_alive_interval(Some(Duration::from_secs(30)));
        let mut running = std::pin::pin!(builder.serve_connection(stream, service));
        tokio::select! {
            ended = running.as_mut() => return ended.map_err(io::Error::other),
            _ = member.dropped() => return Ok(()),
            () = stopping.as_mut() => running.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = running => ended.map_err(io::Error::other),
            _ = member.dropped() => Ok(()),
        }
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_BUFFER);
        let mut running = std::pin::pin!(builder.serve_connection(stream, service));
        tokio::select! {
            ended = running.as_mut() => return ended.map_err(io::Error::other),
            _ = member.dropped() => return Ok(()),
            () = stopping.as_mut() => running.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = running => ended.map_err(io::Error::other),
            _ = member.dropped() => Ok(()),
        }
    }
}

async fn answer(
    context: Context,
    peer: SocketAddr,
    alt_svc: Option<HeaderValue>,
    parts: Parts,
    body: Incoming,
    counted: Counted,
) -> io::Result<Response<AnswerBody>> {
    let protocol = match parts.version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    let account = Arc::clone(counted.account());
    let mut entry = context.entry(peer, protocol, &parts, &account);
    let busy = account.busy();
    // One read of the socket can bring hundreds of requests.
    context.memory.room().await;
    let Answer { status, headers, content } = respond(&context, parts, &mut HyperBody(body), &mut entry).await?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if let Some(value) = alt_svc {
        response.headers_mut().insert(ALT_SVC, value);
    }
    let remaining = content.len();
    if remaining == 0 {
        entry.complete();
    }
    drop(busy);
    let reader = Reader::new(content, Arc::clone(&context.pool)).counted(account);
    Ok(response.map(|()| AnswerBody { reader, remaining, entry, counted, busy: None }))
}

struct HyperBody(Incoming);

impl ReadBody for HyperBody {
    type Error = io::Error;

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// An answer's body on its way through hyper; writes the access record when it is done or dropped.
struct AnswerBody {
    reader: Reader,
    remaining: u64,
    entry: Entry,
    counted: Counted,
    /// While a block is read.
    busy: Option<Busy>,
}

/// Bytes of an answer's body, which count as taken by the client when they are written to its connection: not when
/// hyper has them, and not the frames around them, which a client can have without taking anything (PING, RFC 9113
/// section 6.7).
struct Taken {
    bytes: Bytes,
    account: Arc<Account>,
}

impl Buf for Taken {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.account.take(count);
    }
}

impl http_body::Body for AnswerBody {
    type Data = Taken;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Taken>, io::Error>>> {
        let this = self.get_mut();
        let next = this.reader.poll_next(cx);
        if next.is_ready() {
            this.busy = None;
        } else if this.busy.is_none() {
            this.busy = Some(this.counted.account().busy());
        }
        match ready!(next) {
            Ok(Some(bytes)) => {
                this.entry.add_bytes(bytes.len());
                this.remaining = this.remaining.saturating_sub(bytes.len() as u64);
                if this.remaining == 0 {
                    this.entry.complete();
                }
                let account = Arc::clone(this.counted.account());
                Poll::Ready(Some(Ok(Frame::data(Taken { bytes, account }))))
            }
            Ok(None) => Poll::Ready(None),
            Err(error) => {
                this.entry.fail(&error);
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
