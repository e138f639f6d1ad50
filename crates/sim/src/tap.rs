//! Watching the datagrams of a run at its hosts, as a packet capture does.

use std::net::SocketAddr;

use thalweg_units::{Duration, Ecn};

/// Sees every datagram that a host gives to the network or gets from it, in the order of time. It cannot influence the
/// run.
pub trait Tap {
    /// A datagram passes.
    fn datagram(&mut self, seen: &Seen<'_>);
}

/// A datagram at a host.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct Seen<'a> {
    /// When, since the run began.
    pub at: Duration,
    /// Number of the flow in [`Plan::flows`](crate::Plan::flows).
    pub flow: usize,
    /// Whether the host is the flow's client.
    pub at_client: bool,
    /// Whether the host sends it.
    pub is_sent: bool,
    /// Source and destination as the host sees them.
    pub addresses: [SocketAddr; 2],
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Bytes of headers that the network adds: those of IPv4 and UDP ([`IP_UDP_HEADERS`](crate::IP_UDP_HEADERS)),
    /// unless the stack runs on something else.
    pub overhead: u32,
    /// What it carries.
    pub payload: &'a [u8],
}
