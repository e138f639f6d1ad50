//! A sans-IO QUIC v1 and v2 implementation: time and chance come in as arguments.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ack;
pub mod cid;
pub mod config;
pub mod connection;
pub mod crypto;
pub mod datagrams;
pub mod endpoint;
pub mod error;
pub mod event_hash;
#[doc(hidden)] // the wire format, for tests that forge packets; no promise of stability
pub mod frame;
mod mtu;
pub mod observe;
#[doc(hidden)] // the wire format, for tests that forge packets; no promise of stability
pub mod packet;
pub mod qlog;
mod range_set;
pub mod streams;
pub mod token;
pub mod transport_parameters;
mod turn;
pub mod udp;
#[doc(hidden)] // the wire format, for tests that forge packets; no promise of stability
pub mod varint;
pub mod version;

// Their types stand in signatures of this crate.
pub use {bytes, rand_core, rustls, thalweg_recovery as recovery, thalweg_units as units};

pub use ack::AckPolicy;
pub use config::{
    AckPath, ClientConfig, ConnectError, MultipathConfig, RetryPolicy, RttSamples, SavedPathStore, ServerConfig,
    TokenStore, TransportConfig,
};
pub use connection::{
    Candidate, ClosePathError, Connection, ConnectionStats, Event, Limits, OpenPathError, Order, PathEvent, PathReport,
    PathScheduler, PinError, SchedulerFactory, SchedulerPolicy, Waiting,
};
pub use endpoint::{ConnectionHandle, Endpoint, EndpointConfig, Route};
pub use error::{ConnectionError, TransportError, TransportErrorCode};
pub use mtu::MtuRules;
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
