//! A sans-IO QUIC v1 and v2 implementation: time and chance come in as arguments.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ack;
pub mod cid;
pub mod config;
pub mod connection;
pub mod crypto;
pub mod datagrams;
pub mod endpoint;
pub mod error;
pub mod event_hash;
pub mod frame;
pub mod mtu;
pub mod observe;
pub mod packet;
pub mod qlog;
pub mod range_set;
pub mod streams;
pub mod token;
pub mod transport_parameters;
pub mod udp;
pub mod varint;
pub mod version;

pub use config::{ClientConfig, ConnectError, RetryPolicy, ServerConfig, TokenStore, TransportConfig};
pub use connection::{Connection, ConnectionStats, Event, PathEvent};
pub use endpoint::{ConnectionHandle, Endpoint, EndpointConfig, Route};
pub use error::{ConnectionError, TransportError, TransportErrorCode};
pub use udp::{DatagramMeta, Transmit};

/// Which end of the connection this is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that sent the first datagram.
    Client,
    /// The end that answered it.
    Server,
}

impl Side {
    /// Whether this is the client.
    pub fn is_client(self) -> bool {
        self == Side::Client
    }

    /// The other end.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}
