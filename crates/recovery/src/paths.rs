//! The paths of a connection, by name.

use smallvec::SmallVec;
use thalweg_units::Instant;

use crate::config::Config;
use crate::congestion::Sibling;
use crate::path::Path;
use crate::sent::Record;
use crate::types::{DataSpace, NewPath, PathId, SpaceId};
use crate::undo::LostPacket;

/// The paths of a connection: few, so that looking one up is a short walk.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    /// That of the first space of application data, and of the handshake.
    active: PathId,
    /// Those of further spaces.
    further: Vec<(DataSpace, PathId)>,
    next: PathId,
}

impl Paths {
    pub(crate) fn new() -> Paths {
        Paths { list: Vec::with_capacity(2), active: PathId(0), further: Vec::new(), next: PathId(0) }
    }

    pub(crate) fn add(&mut self, config: &Config, now: Instant, new: NewPath) -> PathId {
        let id = self.next;
        self.next = PathId(id.0.wrapping_add(1));
        if self.list.is_empty() {
            self.active = id;
        }
        self.list.push(Path::new(config, id, now, new));
        id
    }

    pub(crate) fn active(&self) -> PathId {
        self.active
    }

    /// The path that the packets of a space take now.
    #[inline]
    pub(crate) fn of_space(&self, space: SpaceId) -> PathId {
        match space {
            SpaceId::Data(name) if name != DataSpace::FIRST => {
                self.further.iter().find(|(known, _)| *known == name).map_or(self.active, |(_, path)| *path)
            }
            _ => self.active,
        }
    }

    /// Makes a path the one that the packets of a space take.
    pub(crate) fn set_of_space(&mut self, space: DataSpace, path: PathId) {
        if space == DataSpace::FIRST {
            self.active = path;
        } else if let Some((_, known)) = self.further.iter_mut().find(|(known, _)| *known == space) {
            *known = path;
        } else {
            self.further.push((space, path));
        }
    }

    /// A space is no more.
    pub(crate) fn forget_space(&mut self, space: SpaceId) {
        self.further.retain(|(known, _)| SpaceId::Data(*known) != space);
    }

    /// The path of this name; `None` if it was never added, or is no longer kept.
    #[inline]
    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.list.get(self.position(id))
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        let position = self.position(id);
        self.list.get_mut(position)
    }

    /// Where a path is in the list; its length if it is not there. Nearly always there is one path.
    #[inline]
    fn position(&self, id: PathId) -> usize {
        match self.list.first() {
            Some(first) if first.id() == id => 0,
            _ => self.further(id),
        }
    }

    #[cold]
    fn further(&self, id: PathId) -> usize {
        self.list.iter().position(|path| path.id() == id).unwrap_or(self.list.len())
    }

    /// The path whose round-trip time the probe timer uses, if there is one.
    #[inline]
    pub(crate) fn active_path(&self) -> Option<&Path> {
        self.get(self.active)
    }

    /// The paths that carry data, where there are several: those in use that answer and have something in flight.
    pub(crate) fn carrying(&self) -> SmallVec<[(PathId, Sibling); 4]> {
        if self.list.len() < 2 {
            return SmallVec::new();
        }
        let carries = |path: &&Path| {
            !path.is_retired && path.pto_count() == 0 && path.rtt().has_sample && path.bytes_in_flight() > 0
        };
        let sibling = |path: &Path| Sibling { window: path.window(), smoothed_rtt: path.rtt().smoothed };
        self.list.iter().filter(carries).map(|path| (path.id(), sibling(path))).collect()
    }

    /// A packet that was outstanding is so no longer, whatever became of it.
    pub(crate) fn on_settled<T>(&mut self, now: Instant, record: &Record<T>) {
        if let Some(path) = self.get_mut(record.path) {
            path.on_settled(now, &record.sent);
        }
    }

    /// A packet declared lost will never be proven to have arrived.
    pub(crate) fn on_lost_for_good<T>(&mut self, packet: &LostPacket<T>) {
        if let Some(path) = self.get_mut(packet.record.path) {
            path.on_lost_for_good(packet.episode);
        }
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
        if !self.list.iter().any(|path| path.is_retired) {
            return false;
        }
        let before = self.list.len();
        self.list.retain(|path| !(path.is_retired && path.is_settled()));
        if self.get(self.active).is_none()
            && let Some(last) = self.list.last()
        {
            self.active = last.id();
        }
        self.list.len() != before
    }
}
