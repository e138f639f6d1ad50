//! The connection IDs of both ends, those of the first path and of each further one that is in use at once.

use thalweg_recovery::DataSpace;

use crate::{
    cid::{ConnectionId, LocalCids, NewConnectionId, RemoteCids, ResetToken},
    error::TransportError,
};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Cids {
    /// What the peer addresses us by.
    pub local: LocalCids,
    /// What we address the peer by.
    pub remote: RemoteCids,
    /// The ID in our long headers; all of ours are as long.
    pub own: ConnectionId,
    /// Those of further paths that are in use or may be opened; few.
    pub further: Vec<PathCids>,
}

/// The connection IDs of one further path (draft-ietf-quic-multipath-21 section 3.2).
#[derive(Debug)]
pub(crate) struct PathCids {
    /// Of which path.
    pub space: DataSpace,
    pub local: LocalCids,
    pub remote: RemoteCids,
}

impl Cids {
    /// What datagrams are addressed to on a path that has this ID of the peer's for itself, or none (RFC 9000 section
    /// 9.5: paths do not share one if it can be avoided).
    #[inline]
    pub fn remote_on(&self, space: DataSpace, sequence: Option<u64>) -> &ConnectionId {
        let remote = self.remote_of(space);
        sequence.and_then(|sequence| remote.get(sequence)).map_or(remote.active(), |known| &known.cid)
    }

    fn path(&self, space: DataSpace) -> Option<&PathCids> {
        self.further.iter().find(|known| known.space == space)
    }

    fn path_mut(&mut self, space: DataSpace) -> Option<&mut PathCids> {
        self.further.iter_mut().find(|known| known.space == space)
    }

    /// The peer's IDs for a path; those of the first for a path that is not known.
    #[inline]
    pub fn remote_of(&self, space: DataSpace) -> &RemoteCids {
        if space == DataSpace::FIRST {
            return &self.remote;
        }
        self.path(space).map_or(&self.remote, |known| &known.remote)
    }

    /// The same, to change them.
    pub fn remote_of_mut(&mut self, space: DataSpace) -> &mut RemoteCids {
        match self.further.iter().position(|known| known.space == space) {
            Some(index) => &mut self.further[index].remote,
            None => &mut self.remote,
        }
    }

    /// Our IDs for a path; `None` if it is not known.
    pub fn local_of_mut(&mut self, space: DataSpace) -> Option<&mut LocalCids> {
        if space == DataSpace::FIRST {
            return Some(&mut self.local);
        }
        self.path_mut(space).map(|known| &mut known.local)
    }

    /// The path that a datagram to this ID of ours belongs to: the first, unless it is of a further one.
    pub fn space_of(&self, destination: &[u8]) -> DataSpace {
        let of_further = self.further.iter().find(|known| known.local.leads_here(destination));
        of_further.map_or(DataSpace::FIRST, |known| known.space)
    }

    /// A further path may be opened from now on: IDs for it can be issued and taken.
    pub fn add_path(&mut self, space: DataSpace, peer_limit: u64, own_limit: u64) {
        if space != DataSpace::FIRST && self.path(space).is_none() {
            let (local, remote) = (LocalCids::of_path(peer_limit), RemoteCids::of_path(own_limit));
            self.further.push(PathCids { space, local, remote });
        }
    }

    /// Forgets a further path.
    pub fn remove_path(&mut self, space: DataSpace) {
        self.further.retain(|known| known.space != space);
    }

    /// Whether both ends have an ID for a path that nobody uses yet.
    pub fn may_open(&self, space: DataSpace) -> bool {
        self.path(space).is_some_and(|known| known.local.has_issued() && known.remote.has_fresh())
    }

    /// Whether there is an ID to send to on a path; chooses one if there is none yet.
    pub fn can_address(&mut self, space: DataSpace) -> bool {
        space == DataSpace::FIRST || self.path_mut(space).is_some_and(|known| known.remote.choose())
    }

    /// Processes a PATH_NEW_CONNECTION_ID frame for a path that may be used. Those for paths that are not known any
    /// more are ignored (draft-ietf-quic-multipath-21 section 4).
    ///
    /// # Errors
    /// As [`RemoteCids::on_new`], and PROTOCOL_VIOLATION for an ID that another path has (section 3.2.1).
    pub fn on_new(&mut self, space: DataSpace, new: &NewConnectionId) -> Result<(), TransportError> {
        let others = self.further.iter().filter(|known| known.space != space).map(|known| &known.remote);
        let mut others = others.chain((space != DataSpace::FIRST).then_some(&self.remote));
        if others.any(|remote| remote.contains(&new.cid)) {
            return Err(TransportError::protocol_violation("a connection ID for two paths"));
        }
        match self.path_mut(space) {
            Some(known) => known.remote.on_new(new),
            None if space == DataSpace::FIRST => self.remote.on_new(new),
            None => Ok(()),
        }
    }

    /// Whether frames about IDs of further paths wait to be sent.
    pub fn further_have_frames(&self) -> bool {
        self.further.iter().any(|path| path.local.has_announcements() || path.remote.has_retirements())
    }

    /// Whether `token` ends a stateless reset by the peer, on one of the paths that are in use. Compares with all
    /// tokens, in constant time.
    pub fn is_reset(&self, token: &ResetToken, in_use: impl Fn(DataSpace) -> bool) -> bool {
        let first = self.remote.is_reset(token) & in_use(DataSpace::FIRST);
        self.further.iter().fold(first, |found, path| found | path.remote.is_reset(token) & in_use(path.space))
    }
}
