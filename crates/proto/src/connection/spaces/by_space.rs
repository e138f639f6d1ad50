//! A table with one entry for each packet-number space, found by the space's name.

use std::ops::{Index, IndexMut};

use thalweg_recovery::{DataSpace, SpaceId};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct BySpace<T> {
    /// Those of a connection that uses one path at a time.
    levels: [T; 3],
    /// Those of further paths that are in use at once; few.
    further: Vec<(DataSpace, T)>,
}

impl<T> BySpace<T> {
    /// What `make` makes of each space that every connection has.
    pub fn new(make: impl FnMut(SpaceId) -> T) -> Self {
        BySpace { levels: SpaceId::ALL.map(make), further: Vec::new() }
    }

    /// In the order in which the spaces come into use.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().chain(self.further.iter().map(|(_, entry)| entry))
    }

    /// In the order in which the spaces come into use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.levels.iter_mut().chain(self.further.iter_mut().map(|(_, entry)| entry))
    }

    /// The entries of application data, each with the name of its space.
    pub fn data(&self) -> impl Iterator<Item = (DataSpace, &T)> {
        let [_, _, first] = &self.levels;
        std::iter::once((DataSpace::FIRST, first)).chain(self.further.iter().map(|(space, entry)| (*space, entry)))
    }

    /// The same, to change them.
    pub fn data_mut(&mut self) -> impl Iterator<Item = (DataSpace, &mut T)> {
        let [_, _, first] = &mut self.levels;
        let further = self.further.iter_mut().map(|(space, entry)| (*space, entry));
        std::iter::once((DataSpace::FIRST, first)).chain(further)
    }

    /// The entry of a space; `None` if there is no such space.
    #[inline]
    pub fn get(&self, space: SpaceId) -> Option<&T> {
        match space {
            SpaceId::Data(name) if name != DataSpace::FIRST => {
                self.further.iter().find(|(known, _)| *known == name).map(|(_, entry)| entry)
            }
            _ => Some(self.level(space)),
        }
    }

    /// The entry of a space, or the first of application data for each of those.
    #[inline]
    pub fn level(&self, space: SpaceId) -> &T {
        &self.levels[space.index()]
    }

    /// The same, to change it.
    #[inline]
    pub fn level_mut(&mut self, space: SpaceId) -> &mut T {
        &mut self.levels[space.index()]
    }

    #[cold]
    fn one_of_several(&self, space: SpaceId) -> &T {
        self.get(space).unwrap_or(self.level(space))
    }

    #[cold]
    fn one_of_several_mut(&mut self, space: SpaceId) -> &mut T {
        let further = self.further.iter_mut().find(|(known, _)| SpaceId::Data(*known) == space);
        further.map_or(&mut self.levels[space.index()], |(_, entry)| entry)
    }

    /// Sets the entry of a further space.
    pub fn insert(&mut self, space: DataSpace, entry: T) {
        self.remove(space);
        self.further.push((space, entry));
    }

    /// Forgets the entry of a further space.
    pub fn remove(&mut self, space: DataSpace) {
        self.further.retain(|(known, _)| *known != space);
    }
}

/// The entry of that space, or the first of application data if there is no such space.
impl<T> Index<SpaceId> for BySpace<T> {
    type Output = T;

    #[inline]
    fn index(&self, space: SpaceId) -> &T {
        if self.further.is_empty() { self.level(space) } else { self.one_of_several(space) }
    }
}

impl<T> IndexMut<SpaceId> for BySpace<T> {
    #[inline]
    fn index_mut(&mut self, space: SpaceId) -> &mut T {
        if self.further.is_empty() { self.level_mut(space) } else { self.one_of_several_mut(space) }
    }
}
