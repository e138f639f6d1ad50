//! Packets that wait for their keys.

use thalweg_units::Instant;

use crate::udp::DatagramMeta;

/// See the [module](self).
pub(crate) struct Waiting {
    pub meta: DatagramMeta,
    /// When it arrived. The wait is no part of the path's delay: what the packet acknowledges is sampled at its arrival
    /// (RFC 9002 section 5.3), and the delay that its acknowledgment reports includes it (RFC 9000 section 13.2.5).
    pub at: Instant,
    pub packet: Vec<u8>,
}
