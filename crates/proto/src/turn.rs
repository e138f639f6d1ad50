//! Whose turn it is where there are several paths, and what is pinned to one of them.

use smallvec::SmallVec;
use thalweg_recovery::DataSpace;

/// The path that sends next, and what it may carry of streams and datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The path.
    pub path: DataSpace,
    /// Whether it carries what is pinned to no path, and what is pinned to one that carries nothing now.
    pub is_common: bool,
    /// The paths that carry data now.
    pub live: SmallVec<[DataSpace; 4]>,
    /// The other paths on which a copy of each DATAGRAM is to leave too.
    pub copies: SmallVec<[DataSpace; 4]>,
}

impl Turn {
    /// Whether what is pinned to `path` may leave now.
    pub fn admits(&self, path: DataSpace) -> bool {
        path == self.path || self.is_common && !self.live.contains(&path)
    }
}
