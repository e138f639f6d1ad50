//! The connection IDs of both ends.

use crate::cid::{ConnectionId, LocalCids, RemoteCids};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Cids {
    /// What the peer addresses us by.
    pub local: LocalCids,
    /// What we address the peer by.
    pub remote: RemoteCids,
    /// The ID in our long headers; all of ours are as long.
    pub own: ConnectionId,
}

impl Cids {
    /// What datagrams are addressed to on a path that has this ID of the peer's for itself, or none (RFC 9000 section
    /// 9.5: paths do not share one if it can be avoided).
    pub fn remote_on(&self, sequence: Option<u64>) -> ConnectionId {
        sequence.and_then(|sequence| self.remote.get(sequence)).map_or(*self.remote.active(), |known| known.cid)
    }
}
