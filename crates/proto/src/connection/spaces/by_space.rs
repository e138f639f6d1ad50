//! A table with one entry for each packet-number space, found by the space's name.

use std::ops::{Index, IndexMut};

use thalweg_recovery::SpaceId;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct BySpace<T>([T; 3]);

impl<T> BySpace<T> {
    /// What `make` makes of each space.
    pub fn new(make: impl FnMut(SpaceId) -> T) -> Self {
        BySpace(SpaceId::ALL.map(make))
    }

    /// In the order in which the spaces come into use.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// In the order in which the spaces come into use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<SpaceId> for BySpace<T> {
    type Output = T;

    fn index(&self, space: SpaceId) -> &T {
        &self.0[space.index()]
    }
}

impl<T> IndexMut<SpaceId> for BySpace<T> {
    fn index_mut(&mut self, space: SpaceId) -> &mut T {
        &mut self.0[space.index()]
    }
}
