//! Errors of the API, each with the remedy.

use std::io;

use thalweg_proto::crypto::{StartError, tls_words::tls_error_words};
pub use thalweg_proto::{config::ConnectError, error::ConnectionError};
use thiserror::Error;

/// Why a configuration could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// rustls refused the certificate, the key or the settings.
    #[error("TLS refused the configuration: {}; check that certificate and key belong together", tls_error_words(.0))]
    Tls(#[from] rustls::Error),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Unusable(#[from] thalweg_proto::crypto::rustls::ConfigError),
    /// No application protocol is named.
    #[error(
        "no application protocol (ALPN) is named; name at least one that the other end knows, such as \"h3\", in the argument alpn or in rustls's alpn_protocols"
    )]
    NoAlpn,
    /// The name of an application protocol has this length, in bytes.
    #[error("the name of an application protocol (ALPN) has {0} bytes; 1 to 255 are possible")]
    AlpnLength(usize),
    /// rustls cannot serve QUIC with this configuration.
    #[error(transparent)]
    NoQuic(#[from] StartError),
    /// The platform has no certificate authorities.
    #[error(
        "{0}; install ca-certificates or point SSL_CERT_FILE at them, or call ClientConfig::with_root_certificates"
    )]
    NoRoots(#[from] crate::roots::NoNativeRoots),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed: {0}; pass EndpointBuilder::seed if this is a test")]
    Random(getrandom::Error),
}

/// Why [`Endpoint::next_incoming`](crate::Endpoint::next_incoming) gives no connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// The endpoint accepts no connections.
    #[error("no server configuration: make the endpoint with Endpoint::server, or call Endpoint::set_server_config")]
    NoServerConfig,
}

/// Why writing to a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer does not want more data and said why (STOP_SENDING, RFC 9000 section 3.5).
    #[error("the peer stopped reading the stream with code {0}; reset it or let it go")]
    Stopped(u64),
    /// The connection is gone.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// `finish` or `reset` was called before.
    #[error("the stream was already finished or reset; open a new one to send more")]
    ClosedStream,
}

/// Why reading from a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer abandoned the stream (RESET_STREAM, RFC 9000 section 3.5).
    #[error("the peer reset the stream with code {0}; what was read so far is incomplete")]
    Reset(u64),
    /// The connection is gone.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// `stop` was called before, or the end was already reported as an error.
    #[error("the stream was already stopped or reset; nothing more will arrive on it")]
    ClosedStream,
    /// The stream was read out of order before: there is no next byte any more.
    #[error("the stream was read out of order before; go on with RecvStream::read_unordered")]
    Unordered,
}

/// Why [`RecvStream::read_exact`](crate::RecvStream::read_exact) failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended first, after this many bytes.
    #[error("the stream ended after {0} bytes, before the buffer was full")]
    FinishedEarly(usize),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// More data arrived than allowed.
    #[error("the stream holds more than the {0} bytes allowed; raise the limit or read it in pieces")]
    TooLong(usize),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The stream was finished or reset before.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("the stream was already finished, stopped or reset")]
pub struct ClosedStream;

/// Why a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams (RFC 9221 section 3).
    #[error("the peer does not accept datagrams; use a stream")]
    UnsupportedByPeer,
    /// It does not fit into one packet on the present path.
    #[error("the datagram is larger than the {0} bytes that fit now; ask Connection::max_datagram_size first")]
    TooLarge(usize),
    /// The send queue is full; only from [`Connection::send_datagram`](crate::Connection::send_datagram).
    #[error("the datagram queue is full; wait with Connection::send_datagram_wait or drop the datagram")]
    Blocked,
    /// The connection is gone.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why [`Connection::export_keying_material`](crate::Connection::export_keying_material) failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("no keying material: the handshake is not complete, or more was asked for than TLS can give (8160 bytes)")]
pub struct ExportError;

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::ConnectionLost(lost) => kind_of(lost),
            WriteError::ClosedStream => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(lost) => kind_of(lost),
            ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::Unordered => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<ClosedStream> for io::Error {
    fn from(error: ClosedStream) -> Self {
        Self::new(io::ErrorKind::NotConnected, error)
    }
}

/// The nearest thing `std` has to say about a lost connection.
fn kind_of(error: &ConnectionError) -> io::ErrorKind {
    match error {
        ConnectionError::TimedOut | ConnectionError::ConnectTimedOut { .. } => io::ErrorKind::TimedOut,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::LocallyClosed => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::ConnectionAborted,
    }
}
