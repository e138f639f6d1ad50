//! What an end did on each of several paths that it used at once.

use std::net::IpAddr;

use thalweg_proto::{Connection, PathReport};

use crate::result::WayResult;

/// The paths of a flow by the client's address on each, and what those did that were given up since the last
/// connection ended.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    clients: Vec<IpAddr>,
    results: Vec<WayResult>,
}

impl Ways {
    /// By the client's addresses, that on the path of the handshake first; none where there is one path.
    pub(super) fn new(clients: Vec<IpAddr>) -> Ways {
        Ways { results: vec![WayResult::default(); clients.len()], clients }
    }

    /// Adds what a path did.
    pub(super) fn add(&mut self, path: &PathReport) {
        // A NAT changes ports only, so the client's address stands for the path at either end.
        let at = self.clients.iter().position(|client| *client == path.remote.ip() || Some(*client) == path.local);
        let Some(way) = at.and_then(|at| self.results.get_mut(at)) else { return };
        way.stats += path.stats;
        if path.stats.rtt_samples > 0 {
            (way.rtt, way.min_rtt) = (Some(path.rtt), Some(path.min_rtt));
        }
    }

    /// What all paths of a connection did that ends.
    pub(super) fn take(&mut self, connection: &Connection) -> Vec<WayResult> {
        if !self.clients.is_empty() {
            connection.paths().filter(|path| path.is_open).for_each(|path| self.add(&path));
        }
        let empty = vec![WayResult::default(); self.clients.len()];
        std::mem::replace(&mut self.results, empty)
    }
}
