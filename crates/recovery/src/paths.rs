//! The paths of a connection, by name.

use thalweg_units::{Duration, Instant};

use crate::config::Config;
use crate::path::Path;
use crate::types::PathId;

/// The paths of a connection: few, so that looking one up is a short walk.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    /// What an unknown name refers to: a path on which nothing happens.
    retired: Path,
    active: PathId,
    next: PathId,
}

impl Paths {
    pub(crate) fn new(config: &Config) -> Paths {
        let retired = Path::new(config, PathId(u32::MAX), Instant::ZERO, 1_200, config.initial_rtt);
        Paths { list: Vec::with_capacity(2), retired, active: PathId(0), next: PathId(0) }
    }

    pub(crate) fn add(&mut self, config: &Config, now: Instant, datagram_size: u16, initial_rtt: Duration) -> PathId {
        let id = self.next;
        self.next = PathId(id.0.wrapping_add(1));
        if self.list.is_empty() {
            self.active = id;
        }
        self.list.push(Path::new(config, id, now, datagram_size, initial_rtt));
        id
    }

    pub(crate) fn active(&self) -> PathId {
        self.active
    }

    pub(crate) fn set_active(&mut self, id: PathId) {
        self.active = id;
    }

    pub(crate) fn get(&self, id: PathId) -> &Path {
        self.list.iter().find(|path| path.id() == id).unwrap_or(&self.retired)
    }

    pub(crate) fn get_mut(&mut self, id: PathId) -> &mut Path {
        self.list.iter_mut().find(|path| path.id() == id).unwrap_or(&mut self.retired)
    }

    pub(crate) fn contains(&self, id: PathId) -> bool {
        self.list.iter().any(|path| path.id() == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.list.iter_mut()
    }

    /// Lets go of the paths that were given up and have nothing outstanding. Returns whether there were any.
    pub(crate) fn purge(&mut self) -> bool {
        let before = self.list.len();
        self.list.retain(|path| !(path.is_retired && path.is_settled()));
        self.list.len() != before
    }
}
