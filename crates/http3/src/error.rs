//! Errors of the transport as errors of `h3`.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use thalweg::{ConnectionError, ReadError, WriteError};

pub(crate) fn connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::PeerApplication { code, .. } => ConnectionErrorIncoming::ApplicationClose { error_code: code },
        ConnectionError::TimedOut | ConnectionError::ConnectTimedOut { .. } => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

pub(crate) fn stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection(error) }
}

pub(crate) fn write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(error_code) => StreamErrorIncoming::StreamTerminated { error_code },
        WriteError::ConnectionLost(lost) => stream(lost),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

pub(crate) fn read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(error_code) => StreamErrorIncoming::StreamTerminated { error_code },
        ReadError::ConnectionLost(lost) => stream(lost),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
