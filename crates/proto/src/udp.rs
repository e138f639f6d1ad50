//! Datagrams at the border of this crate: received ones with their addresses, and outgoing ones.

use std::net::{IpAddr, SocketAddr};

use thalweg_recovery::Ecn;

/// What the socket knows about a received datagram.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DatagramMeta {
    /// Who sent it.
    pub remote: SocketAddr,
    /// The local address it was sent to, if the platform reports it.
    pub local_ip: Option<IpAddr>,
    /// The mark in its IP header.
    pub ecn: Ecn,
}

/// Where and how the bytes in the transmit buffer are to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit {
    /// To whom.
    pub remote: SocketAddr,
    /// From which local address, if that matters.
    pub local_ip: Option<IpAddr>,
    /// The mark to set in the IP header.
    pub ecn: Ecn,
    /// Bytes in the buffer.
    pub size: usize,
    /// The buffer holds several datagrams of this size (the last may be shorter); `None`: one datagram.
    pub segment: Option<usize>,
}
