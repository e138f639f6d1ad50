//! Spans and events for the `tracing` crate: a span per connection, events for its beginning and end, path changes,
//! stream resets. Without the feature nothing of this exists.

use thalweg_proto::{Side, connection::PathEvent, error::ConnectionError, streams::StreamId};

use crate::socket::canonical;

/// The log of one connection.
#[derive(Debug)]
pub(crate) struct Log {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

/// Says something in the connection's span.
macro_rules! tell {
    ($log:expr, $level:ident, $($what:tt)+) => {{
        #[cfg(feature = "tracing")]
        tracing::event!(parent: &$log.span, tracing::Level::$level, $($what)+);
    }};
}

#[cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::unused_self))]
impl Log {
    /// A connection begins; at a server the application has not decided about it yet.
    pub(crate) fn new(side: Side, remote: std::net::SocketAddr) -> Self {
        let remote = canonical(remote);
        let log = Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                parent: None,
                "connection",
                side = if side.is_client() { "client" } else { "server" },
                %remote
            ),
        };
        tell!(log, DEBUG, "connecting");
        log
    }

    pub(crate) fn connected(&self) {
        tell!(self, DEBUG, "connected");
    }

    pub(crate) fn closed(&self, reason: &ConnectionError) {
        tell!(self, DEBUG, %reason, "closed");
    }

    pub(crate) fn path(&self, event: &PathEvent) {
        match event {
            PathEvent::Changed { remote } => tell!(self, DEBUG, %remote, "path changed"),
            PathEvent::Validated { remote } => tell!(self, DEBUG, %remote, "path validated"),
            PathEvent::Mtu { size } => tell!(self, DEBUG, size, "path MTU changed"),
            PathEvent::Suspended { silence } => tell!(self, DEBUG, ?silence, "path suspended"),
            PathEvent::Resumed { silence } => tell!(self, DEBUG, ?silence, "path resumed"),
            other => tell!(self, DEBUG, event = ?other, "path event"),
        }
    }

    /// Either end abandons the sending part of a stream.
    pub(crate) fn reset(&self, stream: StreamId, code: u64, is_ours: bool) {
        let by = if is_ours { "us" } else { "the peer" };
        tell!(self, DEBUG, stream = stream.as_u64(), code, by, "stream reset");
    }

    /// Either end wants no more of what the other sends on a stream.
    pub(crate) fn stopped(&self, stream: StreamId, code: u64, is_ours: bool) {
        let by = if is_ours { "us" } else { "the peer" };
        tell!(self, DEBUG, stream = stream.as_u64(), code, by, "stream stopped");
    }
}
