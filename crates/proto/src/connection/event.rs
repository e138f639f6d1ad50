//! Events of a connection, for the application and for the endpoint that routes its datagrams.

use std::{net::SocketAddr, time::Duration};

use thalweg_recovery::DataSpace;

use crate::{
    cid::{ConnectionId, ResetToken},
    error::ConnectionError,
    streams::StreamEvent,
};

/// Something the application wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer's transport parameters and the application protocol are known.
    HandshakeDataReady,
    /// The handshake is complete: the connection can be used in both directions.
    Connected,
    /// The peer has the handshake too (RFC 9001 section 4.1.2).
    HandshakeConfirmed,
    /// Client: the server's verdict on the 0-RTT data; rejected data are sent again by themselves.
    EarlyData {
        /// Whether the server took them.
        accepted: bool,
    },
    /// The connection is over; the last event.
    ConnectionLost(ConnectionError),
    /// Something happened to a stream.
    Stream(StreamEvent),
    /// A DATAGRAM frame can be read.
    DatagramReceived,
    /// DATAGRAM frames can be queued again.
    DatagramsUnblocked,
    /// Something happened to the way the connection takes.
    Path(PathEvent),
}

/// What happened to a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer has moved to this address, or we have.
    Changed {
        /// The peer's address now.
        remote: SocketAddr,
    },
    /// The peer proved that it receives at this address.
    Validated {
        /// The address.
        remote: SocketAddr,
    },
    /// A path beside others is open: data may take it (draft-ietf-quic-multipath-21).
    Opened {
        /// Its identifier.
        id: DataSpace,
        /// The peer's address.
        remote: SocketAddr,
    },
    /// A path beside others was given up, by us or by the peer.
    Abandoned {
        /// Its identifier.
        id: DataSpace,
        /// Why: a transport error code.
        code: u64,
    },
    /// The peer wants us to send on a path only while no other can be used, or no longer so.
    StatusOfPeer {
        /// Its identifier.
        id: DataSpace,
        /// Whether it is only a backup.
        is_backup: bool,
    },
    /// Datagrams carry at most this many bytes of UDP payload now.
    Mtu {
        /// Bytes.
        size: u16,
    },
    /// Two probe timeouts went unanswered: the path holds or loses everything.
    Suspended {
        /// Silence so far.
        silence: Duration,
    },
    /// Packets of the peer arrived again after a suspension.
    Resumed {
        /// How long the silence lasted.
        silence: Duration,
    },
}

/// Something the [`Endpoint`](crate::endpoint::Endpoint) has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointEvent {
    /// Datagrams to this connection ID belong to the connection.
    CidIssued(ConnectionId),
    /// They no longer do: the peer retired it, and what was under way then has arrived or never will.
    CidForgotten(ConnectionId),
    /// A datagram from `remote` that ends with `token` is a stateless reset of the connection. A path has one token at
    /// a time, that of the connection ID which it sends to.
    ResetToken {
        /// Of which path.
        path: DataSpace,
        /// From where.
        remote: SocketAddr,
        /// The last 16 bytes.
        token: ResetToken,
    },
    /// The tokens of this path end no reset any more.
    PathAbandoned(DataSpace),
    /// The handshake is over, well or not: the connection no longer counts among those in their handshake.
    HandshakeOver,
    /// The connection can be forgotten.
    Drained,
}
