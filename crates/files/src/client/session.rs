//! A connection to one authority and the requests on it, whatever the protocol.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use thalweg::ConnectionError;
use thalweg::proto::crypto::tls_words::tls_error_words;

use super::broken::{Broken, why_tcp};
use super::head::{MAX_FIELDS, MAX_SECTION};
use super::liveness;
use super::pace::Paced;
use super::quic::{Http3, Http3Body};
use super::report::{ConnectionReport, Protocol};
use crate::body::{self, ReadBody};

/// Most bytes read of the body of an answer that is of no use: error pages are shorter.
const USELESS_BODY: u64 = 16 * 1024;

/// Longest time spent on that. What is short comes with the head.
const USELESS_WAIT: Duration = Duration::from_millis(250);

/// A request's body: nothing, or a file.
pub(super) struct SendBody {
    reader: Option<Paced>,
    remaining: u64,
    sent: Option<Box<dyn FnMut(usize) + Send + Sync>>,
}

impl SendBody {
    pub(super) fn empty() -> Self {
        Self { reader: None, remaining: 0, sent: None }
    }

    /// `sent` is called with the size of each piece when it is handed to the transport.
    pub(super) fn file(reader: Paced, length: u64, sent: Box<dyn FnMut(usize) + Send + Sync>) -> Self {
        Self { reader: Some(reader), remaining: length, sent: Some(sent) }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let Some(reader) = &mut self.reader else {
            return Poll::Ready(Ok(None));
        };
        let next = ready!(reader.poll_next(cx))?;
        if let Some(bytes) = &next {
            self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
            if let Some(sent) = &mut self.sent {
                sent(bytes.len());
            }
        }
        Poll::Ready(Ok(next))
    }
}

impl http_body::Body for SendBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.get_mut().poll_next(cx)).map(|next| next.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// HTTP/2 receive window, bytes. TCP has a window of its own; this one only must not be the smaller.
const HTTP2_WINDOW: u32 = 32 << 20;

/// Silence over HTTP/2 after which a server that owes an answer is asked whether it is still there, at most; a quarter
/// of the idle timeout if that is less. TCP itself would not notice that the host is gone.
const HTTP2_ASK: Duration = Duration::from_secs(5);

/// How long it may take to answer, at most; half of the idle timeout if that is less. A connection that fails this is
/// closed before the idle timeout, which then shows a server that is there but sends nothing.
const HTTP2_ANSWER: Duration = Duration::from_secs(15);

/// A connection that requests can be made on.
pub(super) struct Session {
    pub remote: SocketAddr,
    /// Name resolution.
    pub resolve: Duration,
    /// From the first packet of the winning attempt's race to the end of the handshake.
    pub handshake: Duration,
    pub kind: HttpConnection,
}

/// The connection of a session, by version of HTTP.
pub(super) enum HttpConnection {
    Http3(Http3),
    Http2(http2::SendRequest<SendBody>),
    Http1(Arc<Http1>),
}

/// HTTP/1.1 carries one request at a time: idle connections are kept, others opened as needed.
pub(super) struct Http1 {
    remote: SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    idle: Mutex<Vec<http1::SendRequest<SendBody>>>,
    /// The server once answered what is not HTTP; a new connection would bring the same.
    nonsense: AtomicBool,
}

impl Session {
    pub(super) fn protocol(&self) -> Protocol {
        match &self.kind {
            HttpConnection::Http3(_) => Protocol::Http3,
            HttpConnection::Http2(_) => Protocol::Http2,
            HttpConnection::Http1(_) => Protocol::Http1,
        }
    }

    /// Whether new requests have no chance.
    pub(super) fn is_closed(&self) -> bool {
        match &self.kind {
            HttpConnection::Http3(http) => {
                http.connection.close_reason().is_some() || http.closing.load(Ordering::Relaxed)
            }
            HttpConnection::Http2(send) => send.is_closed(),
            HttpConnection::Http1(_) => false,
        }
    }

    /// Waits until the handshake is complete: what is sent from then on is not early data. Returns at once if the
    /// connection fails, which the next request reports.
    pub(super) async fn stands(&self) {
        if let HttpConnection::Http3(http) = &self.kind {
            let _ = http.connection.handshake_complete().await;
        }
    }

    /// Whether requests made now travel as early data.
    pub(super) fn is_early(&self) -> bool {
        matches!(&self.kind, HttpConnection::Http3(http) if http.connection.is_handshaking())
    }

    /// Whether the connection was used before its handshake and lost before its end.
    pub(super) fn never_stood(&self) -> bool {
        matches!(&self.kind, HttpConnection::Http3(http) if http.never_stood())
    }

    /// Whether an earlier session was resumed.
    pub(super) fn resumed(&self) -> bool {
        matches!(&self.kind, HttpConnection::Http3(http) if http.connection.resumed())
    }

    /// Whether early data were accepted.
    pub(super) fn early_data_accepted(&self) -> bool {
        matches!(&self.kind, HttpConnection::Http3(http) if http.connection.early_data_accepted() == Some(true))
    }

    /// After a failed exchange: whether the connection is gone, so that a new one may do better.
    pub(super) async fn is_lost(&self) -> bool {
        match &self.kind {
            HttpConnection::Http3(http) => match http.connection.close_reason() {
                // We close when the server breaks the rules, which it would do again; or when it answers no more.
                Some(ConnectionError::LocallyClosed) => http.life.verdict().is_some(),
                Some(ConnectionError::Transport(_)) => false,
                Some(_) => true,
                None => http.closing.load(Ordering::Relaxed),
            },
            // The end of the connection reaches the response a moment before the connection itself.
            HttpConnection::Http2(send) => {
                let mut send = send.clone();
                !matches!(tokio::time::timeout(Duration::from_millis(50), send.ready()).await, Ok(Ok(())))
            }
            // Requests do not share connections.
            HttpConnection::Http1(pool) => !pool.nonsense.load(Ordering::Relaxed),
        }
    }

    /// After a time without data of the answer: whether anything arrived from the server meanwhile.
    pub(super) fn is_answering(&self, silence: Duration) -> bool {
        match &self.kind {
            HttpConnection::Http3(http) => http.connection.silence() < silence / 2,
            // It would have been closed: see `HTTP2_ASK`.
            HttpConnection::Http2(_) => true,
            HttpConnection::Http1(_) => false,
        }
    }

    /// Why the connection was given up, if it was.
    pub(super) fn verdict(&self) -> Option<String> {
        match &self.kind {
            HttpConnection::Http3(http) => http.life.verdict().map(str::to_owned),
            _ => None,
        }
    }

    /// The connection that takes the place of this one, if there is one already; given once.
    pub(super) fn successor(&self) -> Option<Arc<Session>> {
        match &self.kind {
            HttpConnection::Http3(http) => http.life.successor(),
            _ => None,
        }
    }

    /// Ready when this connection is silent and another can be used before its handshake is complete.
    pub(super) async fn early_successor(&self) -> Arc<Session> {
        match &self.kind {
            HttpConnection::Http3(http) => liveness::early_successor(http).await,
            _ => std::future::pending().await,
        }
    }

    /// What the QUIC connection is like, if it is one.
    pub(super) fn report(&self) -> Option<ConnectionReport> {
        match &self.kind {
            HttpConnection::Http3(http) => Some(ConnectionReport {
                stats: http.connection.stats(),
                paths: http.paths.as_ref().map_or_else(Vec::new, |paths| paths.figures()),
            }),
            _ => None,
        }
    }

    /// Closes the connection and gives the peer time to receive the close.
    pub(super) async fn close(&self) {
        if let HttpConnection::Http3(http) = &self.kind {
            http.close().await;
        }
    }

    /// Connects over TCP and TLS; `window` is the receive window in bytes if it must be small.
    pub(super) async fn tcp(
        remote: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
        window: Option<u64>,
        idle: Duration,
    ) -> io::Result<Self> {
        let window = window.and_then(|window| u32::try_from(window).ok()).unwrap_or(HTTP2_WINDOW);
        let kind = match tls_stream(remote, name.clone(), Arc::clone(&tls)).await? {
            (stream, true) => {
                let (send, connection) = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(window)
                    .initial_connection_window_size(window)
                    .max_header_list_size(MAX_SECTION)
                    .keep_alive_interval(Some((idle / 4).min(HTTP2_ASK)))
                    .keep_alive_timeout((idle / 2).min(HTTP2_ANSWER))
                    .handshake(stream)
                    .await
                    .map_err(|error| io::Error::other(why_tcp(error)))?;
                tokio::spawn(connection);
                HttpConnection::Http2(send)
            }
            (stream, false) => HttpConnection::Http1(Arc::new(Http1 {
                remote,
                name,
                tls,
                idle: Mutex::new(vec![http1_handshake(stream).await?]),
                nonsense: AtomicBool::new(false),
            })),
        };
        Ok(Self { remote, resolve: Duration::ZERO, handshake: Duration::ZERO, kind })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn request(&self, request: Request<SendBody>) -> Result<(Response<()>, Body), String> {
        match &self.kind {
            HttpConnection::Http3(http) => http.request(request).await,
            HttpConnection::Http2(send) => {
                let response = send.clone().send_request(request).await.map_err(why_tcp)?;
                let (head, body) = split(response);
                Ok((head, Body::Hyper { body, back: None }))
            }
            HttpConnection::Http1(pool) => {
                let mut send = pool.take().await.map_err(chain)?;
                let response = send.send_request(origin_form(request)).await.map_err(|error| {
                    pool.nonsense.fetch_or(error.is_parse(), Ordering::Relaxed);
                    why_tcp(error)
                })?;
                let (head, body) = split(response);
                let back = Some((Arc::clone(pool), send));
                Ok((head, Body::Hyper { body, back }))
            }
        }
    }
}

fn split(response: Response<Incoming>) -> (Response<()>, Incoming) {
    let (head, body) = response.into_parts();
    (Response::from_parts(head, ()), body)
}

/// HTTP/1.1 wants only the path in the request line, and the authority in `Host`.
fn origin_form(mut request: Request<SendBody>) -> Request<SendBody> {
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = http::HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().entry(http::header::HOST).or_insert(host);
    }
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = path.into();
    }
    request
}

impl Http1 {
    async fn take(&self) -> io::Result<http1::SendRequest<SendBody>> {
        loop {
            let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
            let Some(mut send) = idle else { break };
            if send.ready().await.is_ok() {
                return Ok(send);
            }
        }
        let (stream, _) = tls_stream(self.remote, self.name.clone(), Arc::clone(&self.tls)).await?;
        http1_handshake(stream).await
    }
}

type Stream = TokioIo<tokio_rustls::client::TlsStream<TcpStream>>;

async fn http1_handshake(stream: Stream) -> io::Result<http1::SendRequest<SendBody>> {
    let (send, connection) = http1::Builder::new()
        .max_buf_size(MAX_SECTION as usize)
        .max_headers(MAX_FIELDS)
        .handshake(stream)
        .await
        .map_err(|error| io::Error::other(why_tcp(error)))?;
    tokio::spawn(connection);
    Ok(send)
}

/// A TLS connection, and whether it speaks HTTP/2.
async fn tls_stream(
    remote: SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
) -> io::Result<(Stream, bool)> {
    let stream = TcpStream::connect(remote).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((TokioIo::new(stream), http2))
}

/// The body of an answer.
pub(super) enum Body {
    Http3(Box<Http3Body>),
    Hyper { body: Incoming, back: Option<(Arc<Http1>, http1::SendRequest<SendBody>)> },
}

impl ReadBody for Body {
    type Error = Broken;

    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        match self {
            Body::Http3(body) => body.next().await,
            Body::Hyper { body, back } => loop {
                let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
                match frame {
                    None => {
                        if let Some((pool, send)) = back.take()
                            && let Ok(mut idle) = pool.idle.lock()
                        {
                            idle.push(send);
                        }
                        return Ok(None);
                    }
                    Some(Err(error)) => return Err(Broken::tcp(error)),
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            },
        }
    }
}

impl Body {
    /// Reads the body of an answer that is of no use, if it is short and comes at once. Breaking it off would look to
    /// the server like a client that left, and costs HTTP/1.1 the connection.
    pub(super) async fn discard(&mut self) {
        let _ = body::discard(self, USELESS_BODY, USELESS_WAIT).await;
    }
}

/// An error with its causes in one line.
pub(super) fn chain(error: impl std::error::Error + 'static) -> String {
    let mut text = words(&error);
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = words(cause);
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The same for one that is borrowed.
pub(super) fn chain_io(error: &io::Error) -> String {
    words(error)
}

/// An error in words; errors of TLS, which come wrapped in an I/O error, not in the names of Rust's types.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let tls = inner.and_then(|inner| inner.downcast_ref()).or_else(|| error.downcast_ref());
    tls.map_or_else(|| error.to_string(), tls_error_words)
}
