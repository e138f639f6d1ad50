//! The packet number spaces of a connection, by name.

use smallvec::SmallVec;

use crate::paths::Paths;
use crate::space::Space;
use crate::types::SpaceId;

/// The packet number spaces of a connection: few, so that looking one up is a short walk. A space exists once something
/// was sent in it.
#[derive(Clone, Debug)]
pub(crate) struct Spaces<T> {
    list: SmallVec<[Space<T>; 3]>,
}

impl<T: Clone> Spaces<T> {
    pub(crate) fn new() -> Self {
        Spaces { list: SmallVec::new() }
    }

    /// The space of this name; `None` if nothing was ever sent in it.
    pub(crate) fn get(&self, id: SpaceId) -> Option<&Space<T>> {
        self.list.iter().find(|space| space.id() == id)
    }

    /// The same, made if there is none yet. Kept in the order of names, in which timers at the same moment expire.
    pub(crate) fn entry(&mut self, id: SpaceId) -> &mut Space<T> {
        let index = self.list.partition_point(|space| space.id() < id);
        if self.list.get(index).is_none_or(|space| space.id() != id) {
            self.list.insert(index, Space::new(id));
        }
        &mut self.list[index]
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
