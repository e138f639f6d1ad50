//! The packet number spaces of a connection, by name.

use smallvec::SmallVec;
use thalweg_units::Instant;

use crate::paths::Paths;
use crate::space::Space;
use crate::types::SpaceId;

/// The packet number spaces of a connection, in the order of names, in which timers at the same moment expire.
///
/// Those of a connection that uses one path at a time are there from the beginning, each at its [`SpaceId::index`].
/// Spaces of further path identifiers follow.
#[derive(Clone, Debug)]
pub(crate) struct Spaces<T> {
    list: SmallVec<[Space<T>; 3]>,
}

impl<T: Clone> Spaces<T> {
    pub(crate) fn new() -> Self {
        Spaces { list: SpaceId::ALL.map(Space::new).into() }
    }

    /// The space of this name; `None` if nothing was ever sent on that path identifier.
    pub(crate) fn get(&self, id: SpaceId) -> Option<&Space<T>> {
        match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => self.list.get(id.index()),
            SpaceId::Data(_) => self.list.iter().find(|space| space.id() == id),
        }
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: SpaceId) -> Option<&mut Space<T>> {
        match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => self.list.get_mut(id.index()),
            SpaceId::Data(_) => self.list.iter_mut().find(|space| space.id() == id),
        }
    }

    /// Lets go of the space of a further path identifier.
    pub(crate) fn forget(&mut self, id: SpaceId) {
        self.list.retain(|space| space.id() != id || SpaceId::ALL.contains(&id));
    }

    /// The space that something is sent in; made if there is none yet.
    #[inline]
    pub(crate) fn entry(&mut self, id: SpaceId) -> &mut Space<T> {
        let index = match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => id.index(),
            SpaceId::Data(_) => self.position(id),
        };
        &mut self.list[index]
    }

    #[cold]
    fn position(&mut self, id: SpaceId) -> usize {
        let index = self.list.partition_point(|space| space.id() < id);
        if self.list.get(index).is_none_or(|space| space.id() != id) {
            self.list.insert(index, Space::new(id));
        }
        index
    }

    /// The earliest of the deadlines that spaces have, and whose it is.
    #[inline]
    pub(crate) fn earliest(&self, deadline: impl Fn(&Space<T>) -> Option<Instant>) -> Option<(Instant, SpaceId)> {
        let mut first: Option<(Instant, SpaceId)> = None;
        for space in &self.list {
            if let Some(at) = deadline(space)
                && first.is_none_or(|(first, _)| at < first)
            {
                first = Some((at, space.id()));
            }
        }
        first
    }

    /// Whether more than one path has a space of its own.
    #[inline]
    pub(crate) fn has_further(&self) -> bool {
        self.list.len() > SpaceId::ALL.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Space<T>> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Space<T>> {
        self.list.iter_mut()
    }

    /// Lets go of what spaces keep of paths that no longer exist.
    pub(crate) fn purge(&mut self, paths: &Paths) {
        self.list.iter_mut().for_each(|space| space.purge(paths));
    }
}
