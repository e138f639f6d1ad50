//! The [`h3`] crate's transport traits over [`thalweg`], and nothing more.
//!
//! Give [`Connection::new`] a connected [`thalweg::Connection`] and pass the result to [`h3::client::new`] or
//! [`h3::server::Connection::new`]. Any buffer type works; [`bytes::Bytes`] is the one to use. The crate is exported as
//! [`thalweg_h3::h3`](h3), so that an application uses the version that these traits are of.
//!
//! `examples/client.rs` is a client, `examples/axum_server.rs` a server that answers by an axum `Router`.
//!
//! Streams that are dropped early say so in HTTP/3's words (RFC 9114 section 8.1): a sending side that was not finished
//! is reset, and a receiving side that was not read to its end is stopped, both with `H3_REQUEST_CANCELLED`.
//!
//! `h3` closes the connection at once when it is dropped. So that a server can wait with that until its answers are
//! through, finishing a stream that the *peer* opened is ready when everything on it is acknowledged, not before.
//!
//! `h3` collects frames other than DATA in memory, whatever their length. A peer that announces one of more than 256
//! KiB, or that leaves more than 1 MiB of them unfinished, has its connection closed with `H3_EXCESSIVE_LOAD`.
//!
//! `h3` does not notice every malformed request or response (RFC 9114 section 4.1.2). Before it sees a HEADERS frame,
//! pseudo-header fields, connection-specific fields and names are checked, and `Content-Length` of a request is
//! compared with its body. A stream with a malformed message is reset and stopped with `H3_MESSAGE_ERROR`; reading it
//! fails with [`h3::error::StreamError::Undefined`], whose text states what is wrong. The connection remains usable.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod describe;
mod error;
mod guard;
mod huffman;
mod message;
mod qpack;
mod static_table;
mod stream;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};

pub use describe::{describe, describe_connection};
pub use h3;
pub use stream::{BidiStream, RecvStream, SendStream};

/// A QUIC connection as `h3` wants to see it.
#[derive(Debug, Clone)]
pub struct Connection {
    connection: thalweg::Connection,
    held: guard::Held,
}

impl Connection {
    /// Wraps a connection whose ALPN is `h3`.
    #[must_use]
    pub fn new(connection: thalweg::Connection) -> Self {
        Self { connection, held: guard::Held::default() }
    }

    /// Counts what is collected of frames that are not whole in `budget` too. To be called before anything arrives.
    #[must_use]
    pub fn counted_in(mut self, budget: Arc<thalweg::Budget>) -> Self {
        self.held = self.held.counted_in(budget);
        self
    }

    /// Bytes collected of frames other than DATA that are not whole, on all streams.
    pub fn bytes_collected(&self) -> u64 {
        self.held.bytes()
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        self.connection
            .poll_accept_uni(cx)
            .map_ok(|stream| RecvStream::uni(stream, &self.connection, &self.held))
            .map_err(error::connection)
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        self.connection
            .poll_accept_bi(cx)
            .map_ok(|both| BidiStream::accepted(both, &self.connection, &self.held))
            .map_err(error::connection)
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.connection
            .poll_open_bi(cx)
            .map_ok(|both| BidiStream::opened(both, &self.connection, &self.held))
            .map_err(error::stream)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.connection.poll_open_uni(cx).map_ok(SendStream::opened).map_err(error::stream)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(code.value(), reason);
    }
}
