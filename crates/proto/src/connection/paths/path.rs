//! One address pair of a connection: its connection ID, amplification budget, datagram size and spin bit (RFC 9000
//! sections 8, 9, 14).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use thalweg_recovery::{DataSpace, PathId, SpaceId};
use thalweg_units::Instant;

use super::{spin::Spin, validate::Validation};
use crate::{
    config::TransportConfig,
    mtu::{MtuConfig, MtuDiscovery},
};

/// Names an address pair of one connection: never shifts and is never reused, unlike a position. The upper half is the
/// identifier of its path, the lower one counts: keys are compared several times for each packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathKey(u64);

impl PathKey {
    /// The first of a path.
    pub(super) const fn first(space: DataSpace) -> PathKey {
        PathKey((space.0 as u64) << u32::BITS)
    }

    /// Another than all before.
    pub(super) fn next(self) -> PathKey {
        PathKey(PathKey::first(self.space()).0 | u64::from((self.0 as u32).wrapping_add(1)))
    }

    /// Whose address pair it is: the identifier of its path.
    #[inline]
    pub fn space(self) -> DataSpace {
        DataSpace((self.0 >> u32::BITS) as u32)
    }
}

/// The state of one address pair. What recovery knows of it lives in `thalweg_recovery` under [`Path::id`].
#[derive(Debug)]
pub(crate) struct Path {
    pub(super) key: PathKey,
    /// Recovery's name for the path. Several address pairs share one if they differ only by what a NAT changed.
    pub id: PathId,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    /// Whether the peer is known to receive at this address.
    pub validated: bool,
    /// UDP payload received from and sent to a not yet validated address; sent also since the last move of our own.
    pub received: u64,
    pub sent: u64,
    pub mtu: MtuDiscovery,
    /// The connection ID for this path while it is not the active one; `None`: the active path's.
    pub(super) cid: Option<u64>,
    pub spin: Spin,
    pub validation: Validation,
    /// Until when the pacer holds what the path is to carry.
    pub paced_until: Option<Instant>,
}

impl Path {
    /// An address pair that the connection's [`PathSet`](super::PathSet) is to name.
    pub fn new(id: PathId, remote: SocketAddr, local: Option<IpAddr>, validated: bool, mtu: MtuDiscovery) -> Self {
        Self {
            key: PathKey::first(DataSpace::FIRST),
            id,
            remote,
            local,
            validated,
            received: 0,
            sent: 0,
            mtu,
            cid: None,
            spin: Spin::default(),
            validation: Validation::default(),
            paced_until: None,
        }
    }

    /// Its name.
    pub fn key(&self) -> PathKey {
        self.key
    }

    /// The packet-number space of the application data that this path carries.
    pub fn space(&self) -> SpaceId {
        SpaceId::Data(self.key.space())
    }

    /// The spaces whose packets this path carries, in the order in which they come into use.
    pub fn spaces(&self) -> [SpaceId; 3] {
        [SpaceId::Initial, SpaceId::Handshake, self.space()]
    }

    /// Bytes that may still be sent before the peer's address is validated (RFC 9000 section 8.1: three times what
    /// came).
    pub fn amplification_budget(&self) -> u64 {
        if self.validated { u64::MAX } else { (self.received * 3).saturating_sub(self.sent) }
    }

    /// Whether this is the path of a datagram from `remote` to `local`. An unknown local address matches any.
    pub(super) fn matches(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && (self.local == local || self.local.is_none() || local.is_none())
    }

    /// A PATH_RESPONSE arrived, on any path. `None`: it answers no challenge of this path; else whether the address was
    /// not validated before.
    pub(super) fn on_response(&mut self, now: Instant, data: [u8; 8], pto: Duration) -> Option<bool> {
        let is_answer = self.validation.on_response(now, data, pto);
        is_answer.then(|| !std::mem::replace(&mut self.validated, true))
    }
}

/// A search for the size of a path's datagrams; `peer_max` is the peer's `max_udp_payload_size`.
pub(crate) fn mtu_discovery(now: Instant, config: &TransportConfig, peer_max: u64) -> MtuDiscovery {
    let sizes = MtuConfig {
        initial: config.initial_mtu,
        max: config.max_mtu.max(config.initial_mtu),
        rules: config.mtu_rules,
        ..MtuConfig::default()
    };
    MtuDiscovery::new(now, sizes, u16::try_from(peer_max).unwrap_or(u16::MAX))
}
