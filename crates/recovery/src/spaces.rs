//! The packet number spaces of a connection, by name.

use thalweg_units::Instant;

use crate::paths::Paths;
use crate::space::Space;
use crate::types::SpaceId;

/// The packet number spaces of a connection, in the order of names, in which timers at the same moment expire.
#[derive(Clone, Debug)]
pub(crate) struct Spaces<T> {
    /// Those of a connection that uses one path at a time, each at its [`SpaceId::index`]. Nearly always there are no
    /// more, and every packet asks.
    levels: [Space<T>; 3],
    /// Those of further path identifiers, by ascending name.
    further: Vec<Space<T>>,
}

impl<T: Clone> Spaces<T> {
    pub(crate) fn new() -> Self {
        Spaces { levels: SpaceId::ALL.map(Space::new), further: Vec::new() }
    }

    /// The space of this name; `None` if nothing was ever sent on that path identifier.
    #[inline]
    pub(crate) fn get(&self, id: SpaceId) -> Option<&Space<T>> {
        match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => Some(&self.levels[id.index()]),
            SpaceId::Data(_) => self.further.iter().find(|space| space.id() == id),
        }
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: SpaceId) -> Option<&mut Space<T>> {
        match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => Some(&mut self.levels[id.index()]),
            SpaceId::Data(_) => self.further.iter_mut().find(|space| space.id() == id),
        }
    }

    /// Lets go of the space of a further path identifier.
    pub(crate) fn forget(&mut self, id: SpaceId) {
        self.further.retain(|space| space.id() != id);
    }

    /// The space that something is sent in; made if there is none yet.
    #[inline]
    pub(crate) fn entry(&mut self, id: SpaceId) -> &mut Space<T> {
        match id {
            SpaceId::Initial | SpaceId::Handshake | SpaceId::DATA => &mut self.levels[id.index()],
            SpaceId::Data(_) => self.further_entry(id),
        }
    }

    #[cold]
    fn further_entry(&mut self, id: SpaceId) -> &mut Space<T> {
        let index = self.further.partition_point(|space| space.id() < id);
        if self.further.get(index).is_none_or(|space| space.id() != id) {
            self.further.insert(index, Space::new(id));
        }
        &mut self.further[index]
    }

    /// The earliest of the deadlines that spaces have, and whose it is.
    #[inline]
    pub(crate) fn earliest(&self, deadline: impl Fn(&Space<T>) -> Option<Instant>) -> Option<(Instant, SpaceId)> {
        let mut first: Option<(Instant, SpaceId)> = None;
        let mut consider = |space: &Space<T>| {
            if let Some(at) = deadline(space)
                && first.is_none_or(|(first, _)| at < first)
            {
                first = Some((at, space.id()));
            }
        };
        self.levels.iter().for_each(&mut consider);
        self.further.iter().for_each(&mut consider);
        first
    }

    /// Whether more than one path has a space of its own.
    #[inline]
    pub(crate) fn has_further(&self) -> bool {
        !self.further.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Space<T>> {
        self.levels.iter().chain(&self.further)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Space<T>> {
        self.levels.iter_mut().chain(&mut self.further)
    }

    /// Lets go of what spaces keep of paths that no longer exist.
    pub(crate) fn purge(&mut self, paths: &Paths) {
        self.iter_mut().for_each(|space| space.purge(paths));
    }
}
