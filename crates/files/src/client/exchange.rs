//! One request and its answer on an HTTP/3 stream (RFC 9114 section 4.1): both directions at once, interim responses
//! skipped.

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use h3::client::RequestStream;
use h3::error::{Code, StreamError};
use http::Response;
use thalweg_h3::{BidiStream, RecvStream, SendStream};

use super::session::SendBody;
use crate::release::released;

/// Interim responses accepted before the final one. Real servers send a handful; without a bound, a server could keep a
/// client busy for ever.
const MAX_INTERIM: usize = 64;

/// H3_NO_ERROR (RFC 9114 section 8.1).
const NO_ERROR: u64 = Code::H3_NO_ERROR.value();

/// The side of a request stream that the answer arrives on.
pub(super) type ResponseStream = RequestStream<RecvStream, Bytes>;

/// Why there is no answer.
pub(super) enum Failure {
    /// The stream or the connection failed.
    Stream(StreamError),
    /// Something else, in words for a person.
    Other(String),
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        Failure::Stream(error)
    }
}

/// Sends `body` on a stream whose head is sent, and returns the final answer's head with the stream to read its body
/// from.
///
/// A server that needs no more of the body says so with STOP_SENDING and H3_NO_ERROR and answers all the same (RFC 9114
/// section 4.1); some say 0. Stopped otherwise, the request was broken off, and no 2xx makes it a stored one. An error
/// status counts however the sending fares, and ends it at once, since the server may never read the rest.
pub(super) async fn run(
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
    body: SendBody,
    connection: &thalweg::Connection,
) -> Result<(Response<()>, ResponseStream), Failure> {
    let (send, mut answer) = stream.split();
    let sending = send_body(send, body, connection);
    let head = {
        let mut sending = pin!(sending);
        let mut heading = pin!(final_head(&mut answer));
        tokio::select! {
            biased;
            sent = &mut sending => match sent {
                Ok(()) => heading.await?,
                Err(Sending::Stream(stopped)) => match heading.await {
                    Ok(head) if head.status().is_success() && !is_content(&stopped) => return Err(stopped.into()),
                    Ok(head) => head,
                    Err(error) => return Err(better(stopped, error)),
                },
                Err(Sending::File(error)) => return Err(unreadable(&error)),
            },
            head = &mut heading => {
                let head = head?;
                if head.status().is_success() {
                    match sending.await {
                        Err(Sending::File(error)) => return Err(unreadable(&error)),
                        Err(Sending::Stream(stopped)) if !is_content(&stopped) => return Err(stopped.into()),
                        Ok(()) | Err(Sending::Stream(_)) => {}
                    }
                }
                head
            }
        }
    };
    Ok((head, answer))
}

/// Whether the server has stopped the body because it needs no more of it.
fn is_content(stopped: &StreamError) -> bool {
    matches!(stopped, StreamError::RemoteTerminate { code, .. } if matches!(code.value(), 0 | NO_ERROR))
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::Other(format!("cannot read the file to send: {error}"))
}

/// Why the body was not sent to its end.
enum Sending {
    File(std::io::Error),
    Stream(StreamError),
}

/// Dropped before its end, it resets the stream.
async fn send_body(
    mut send: RequestStream<SendStream<Bytes>, Bytes>,
    mut body: SendBody,
    connection: &thalweg::Connection,
) -> Result<(), Sending> {
    let mut empty = true;
    while let Some(bytes) = poll_fn(|cx| body.poll_next(cx)).await.map_err(Sending::File)? {
        let sending = send.send_data(bytes);
        match std::mem::take(&mut empty) {
            true => released(connection, sending).await,
            false => sending.await,
        }
        .map_err(Sending::Stream)?;
    }
    match released(connection, send.finish()).await {
        // Of nothing, nothing can be missing.
        Err(StreamError::RemoteTerminate { .. }) if empty => Ok(()),
        result => result.map_err(Sending::Stream),
    }
}

/// The first response that is not an interim one (RFC 9110 section 15.2). `thalweg_h3` has refused 101, which HTTP/3
/// does not have (RFC 9114 section 4.5).
async fn final_head(answer: &mut ResponseStream) -> Result<Response<()>, Failure> {
    for _ in 0..=MAX_INTERIM {
        let head = answer.recv_response().await?;
        if !head.status().is_informational() {
            return Ok(head);
        }
    }
    Err(Failure::Other(format!("the server sent more than {MAX_INTERIM} interim responses and no final one")))
}

/// When the request was stopped and no answer came, whichever says more.
fn better(stopped: StreamError, answer: Failure) -> Failure {
    match (&stopped, &answer) {
        (StreamError::RemoteTerminate { .. }, Failure::Stream(StreamError::RemoteTerminate { .. })) => answer,
        (StreamError::RemoteTerminate { .. }, Failure::Stream(StreamError::ConnectionError { .. })) => answer,
        (StreamError::RemoteTerminate { .. }, _) => stopped.into(),
        _ => answer,
    }
}
