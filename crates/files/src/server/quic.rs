//! HTTP/3 over QUIC.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use h3::error::{Code, ConnectionError, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::{HeaderMap, Method, Response, StatusCode};
use thalweg::{Endpoint, Incoming};
use thalweg_h3::{BidiStream, Connection};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::early;
use super::memory::{Member, REQUEST};
use super::patience::PATIENCE;
use super::respond::{Context, head_size, respond};
use super::stopped;
use crate::account::{Account, Request, Why};
use crate::body::ReadBody;
use crate::content::Reader;
use crate::log::Entry;
use crate::release::released;

/// Largest header section of a request, bytes (RFC 9114 section 4.2.2): what most servers accept.
const MAX_HEADERS: u64 = 64 * 1024;

/// Longest a client may take to send the head of a request once its stream is open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How long peers may take to receive the close of the connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// Accepts until `stop` is true, then lets running answers arrive for at most `grace`.
pub(super) async fn serve(endpoint: Endpoint, context: Context, mut stop: watch::Receiver<bool>, grace: Duration) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            incoming = async {
                context.memory.room().await;
                endpoint.accept().await
            } => match incoming {
                Some(incoming) => {
                    // A client that fails the handshake or breaks HTTP/3 is its own affair; requests are in the access
                    // log.
                    let (context, stop) = (context.clone(), stop.clone());
                    connections.spawn(async move {
                        let _ = connection(incoming, context, stop).await;
                    });
                }
                None => break,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    endpoint.set_server_config(None);
    let _ = tokio::time::timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
    endpoint.close(Code::H3_NO_ERROR.value(), b"the server stops");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

async fn connection(incoming: Incoming, context: Context, stop: watch::Receiver<bool>) -> Result<(), ConnectionError> {
    let member = context.memory.join();
    let accepted = tokio::select! {
        accepted = early::accept(incoming, context.early_data) => accepted,
        _ = member.dropped() => None,
    };
    let Some(quic) = accepted else {
        return Ok(());
    };
    let http = member.over_quic(&quic);
    let mut requests = JoinSet::new();
    let dropped = async {
        let why = member.dropped().await;
        // Before the other end of `select!` drops `http`, which would close the connection without a reason.
        quic.close(code(why).value(), why.to_string().as_bytes());
    };
    tokio::select! {
        result = converse(http, &quic, &member, context, stop, &mut requests) => result,
        () = dropped => {
            // Not one by one, as each finds out: their memory is needed.
            requests.shutdown().await;
            Ok(())
        }
    }
}

/// Answers the requests of a connection until the client leaves, or the server stops and what was asked is answered.
async fn converse(
    http: Connection,
    quic: &thalweg::Connection,
    member: &Member,
    context: Context,
    mut stop: watch::Receiver<bool>,
    requests: &mut JoinSet<()>,
) -> Result<(), ConnectionError> {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MAX_HEADERS);
    let mut http: h3::server::Connection<Connection, Bytes> = tokio::select! {
        // Needs three streams of the client's credit, and a few bytes on them (RFC 9114 section 6.2).
        built = tokio::time::timeout(HEAD_TIMEOUT, builder.build(http)) => match built {
            Ok(built) => built?,
            Err(_) => {
                quic.close(Code::H3_GENERAL_PROTOCOL_ERROR.value(), b"no credit for the first streams of HTTP/3");
                return Ok(());
            }
        },
        () = stopped(&mut stop) => {
            quic.close(Code::H3_NO_ERROR.value(), b"the server stops");
            return Ok(());
        }
    };
    let mut stopping = false;
    let result = loop {
        tokio::select! {
            accepted = async {
                context.memory.room().await;
                http.accept().await
            } => match accepted {
                Ok(Some(resolver)) => {
                    let counted = member.account().request(REQUEST);
                    requests.spawn(request(resolver, quic.clone(), context.clone(), counted));
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            },
            () = stopped(&mut stop), if !stopping => {
                stopping = true;
                // GOAWAY: what was asked is still answered, what comes later is for the next server.
                http.shutdown(0).await?;
                if requests.is_empty() {
                    break Ok(());
                }
            }
            Some(_) = requests.join_next() => {
                if stopping && requests.is_empty() {
                    break Ok(());
                }
            }
        }
    };
    // Dropping `http` closes the connection at once. A request is over when its answer is acknowledged to the last byte
    // (see thalweg-h3), so nothing is cut that was promised; if the connection is lost, the requests find out by
    // themselves.
    while requests.join_next().await.is_some() {}
    result
}

/// The error with which a connection is dropped (RFC 9114 section 8.1).
fn code(why: Why) -> Code {
    match why {
        Why::Memory => Code::H3_EXCESSIVE_LOAD,
        Why::Idle(_) => Code::H3_REQUEST_CANCELLED,
    }
}

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

async fn request(
    resolver: RequestResolver<Connection, Bytes>,
    quic: thalweg::Connection,
    context: Context,
    counted: Request,
) {
    let account = counted.account();
    let peer = quic.remote_address();
    let resolved = tokio::time::timeout(HEAD_TIMEOUT, resolver.resolve_request()).await;
    let Ok(Ok((request, mut stream))) = resolved else {
        return; // h3 has answered what can be answered
    };
    let (parts, ()) = request.into_parts();
    let _head = account.charge(head_size(&parts));
    let Ok(early) = early::admit(&quic, &parts).await else { return };
    let mut entry = context.entry(peer, "HTTP/3", &parts, account);
    entry.early_data(early);
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        // The answer waits for the body, and acknowledgments and credit must not wait for the answer.
        quic.release();
    }
    let busy = account.busy();
    let answer = respond(&context, parts, &mut H3Body(&mut stream), &mut entry).await;
    drop(busy);
    match answer {
        Ok(answer) => {
            let reader = Reader::new(answer.content, Arc::clone(&context.pool)).counted(Arc::clone(account));
            let head = (answer.status, answer.headers);
            if send(&mut stream, &quic, head, reader, account, &mut entry).await.unwrap_or(false) {
                entry.complete();
            }
        }
        // The upload broke off: there is nobody to answer.
        Err(_) => stream.stop_stream(Code::H3_REQUEST_INCOMPLETE),
    }
}

/// Sends an answer; false when its body had to be cut off: the file could not be read to its end, or the client takes
/// nothing.
async fn send(
    stream: &mut Stream,
    quic: &thalweg::Connection,
    (status, headers): (StatusCode, HeaderMap),
    mut reader: Reader,
    account: &Arc<Account>,
    entry: &mut Entry,
) -> Result<bool, StreamError> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let mut response = Some(response);
    let id = thalweg::StreamId::from_u64(stream.id().into_inner());
    loop {
        // Nothing is read before it can leave: clients that take nothing hold no memory here.
        let capacity = match tokio::time::timeout(PATIENCE, quic.stream_capacity(id, reader.wanted())).await {
            Ok(Ok(capacity)) => capacity,
            // Sending finds the same error, and says so in HTTP/3's words.
            Ok(Err(_)) => 0,
            Err(_) => {
                stream.stop_stream(Code::H3_REQUEST_CANCELLED);
                return Ok(false);
            }
        };
        let busy = account.busy();
        let next = reader.next(capacity).await;
        drop(busy);
        match next {
            Ok(Some(bytes)) => {
                let is_first = response.is_some();
                // Not before, so that it shares datagrams with the first block.
                if let Some(response) = response.take() {
                    stream.send_response(response).await?;
                }
                entry.add_bytes(bytes.len());
                let sending = tokio::time::timeout(PATIENCE, stream.send_data(bytes));
                // The end of the stream follows the last block at once, and has it leave.
                let sent = match is_first && reader.wanted() > 0 {
                    true => released(quic, sending).await,
                    false => sending.await,
                };
                match sent {
                    Ok(sent) => sent?,
                    Err(_) => {
                        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
                        return Ok(false);
                    }
                }
            }
            Ok(None) => break,
            Err(error) => {
                // A body that cannot be completed must not look complete.
                entry.fail(error);
                stream.stop_stream(Code::H3_INTERNAL_ERROR);
                return Ok(false);
            }
        }
    }
    if let Some(response) = response {
        stream.send_response(response).await?;
    }
    // What the client still sends is of no interest; that is no error (RFC 9114 section 4.1). Nothing is said if all is
    // here.
    stream.stop_sending(Code::H3_NO_ERROR);
    let finished = tokio::time::timeout(PATIENCE, stream.finish());
    match released(quic, finished).await {
        // The client left because it had everything; its last acknowledgment does not always arrive.
        Ok(Err(error)) if is_content(quic, &error) => Ok(true),
        Ok(finished) => finished.map(|()| true),
        Err(_) => {
            stream.stop_stream(Code::H3_REQUEST_CANCELLED);
            Ok(false)
        }
    }
}

/// Whether the client ended the exchange without complaint once everything was sent: it closed the connection with
/// H3_NO_ERROR, or with 0 as clients do that know no codes of HTTP/3 at that point, or stopped the stream with
/// H3_NO_ERROR.
fn is_content(quic: &thalweg::Connection, error: &StreamError) -> bool {
    let no_error = Code::H3_NO_ERROR.value();
    match error {
        StreamError::RemoteTerminate { code, .. } => code.value() == no_error,
        _ => matches!(
            quic.close_reason(),
            Some(thalweg::ConnectionError::PeerApplication { code, .. }) if code == 0 || code == no_error
        ),
    }
}

struct H3Body<'a>(&'a mut Stream);

impl ReadBody for H3Body<'_> {
    type Error = io::Error;

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self.0.recv_data().await {
            Ok(Some(mut data)) => Ok(Some(data.copy_to_bytes(data.remaining()))),
            Ok(None) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
