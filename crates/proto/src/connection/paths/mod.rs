//! The paths of a connection: one, or several at once, each a set of address pairs.
//!
//! `path` is one address pair, `set` those of one path and which of them is in use, `validate` its challenges, `credit`
//! how many new ones a peer may make up, `migrate` how either end moves from one to another, `several` what there is
//! besides where several paths are in use at once, `scheduler` which of them sends next.

mod credit;
mod migrate;
mod path;
mod scheduler;
mod set;
mod several;
mod spin;
mod validate;

use std::{
    net::IpAddr,
    ops::{Index, IndexMut},
};

use smallvec::{SmallVec, smallvec};
use thalweg_recovery::{DataSpace, PathId, Recovery};
use thalweg_units::Instant;

pub use self::scheduler::{Candidate, Order, PathScheduler, SchedulerFactory, SchedulerPolicy};
pub(crate) use self::{
    migrate::{Migration, challenge_data},
    path::{Path, PathKey, mtu_discovery},
    set::{PathSet, Stage},
    several::{PathControl, Several},
    spin::Spin,
};
use super::{cids::Cids, handshake::KeyStore, reports::Reports, sent::SentFrames};
use crate::{Side, mtu::MtuDiscovery, udp::DatagramMeta};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Paths {
    /// At least one, by ascending path identifier.
    sets: SmallVec<[PathSet; 1]>,
    /// The position of the one that stands for the connection: the first that nobody has given up.
    main: usize,
    /// What there is besides where both ends have agreed to use several at once.
    several: Option<Box<Several>>,
}

impl Paths {
    /// Of a connection that begins with one path.
    pub fn new(now: Instant, first: Path) -> Paths {
        Paths { sets: smallvec![PathSet::new(now, DataSpace::FIRST, first, Stage::Open)], main: 0, several: None }
    }

    /// The address pairs of the path that stands for the connection.
    fn main(&self) -> &PathSet {
        &self.sets[self.main]
    }

    /// The address pair in use on the path that stands for the connection.
    pub fn active(&self) -> &Path {
        self.main().active()
    }

    /// The address pair in use on the path that stands for the connection.
    pub fn active_mut(&mut self) -> &mut Path {
        self.sets[self.main].active_mut()
    }

    /// The paths, by ascending identifier.
    pub fn sets(&self) -> impl Iterator<Item = &PathSet> {
        self.sets.iter()
    }

    /// The path with this identifier.
    pub fn set(&self, space: DataSpace) -> Option<&PathSet> {
        self.sets.iter().find(|set| set.space == space)
    }

    /// The path with this identifier.
    pub fn set_mut(&mut self, space: DataSpace) -> Option<&mut PathSet> {
        self.sets.iter_mut().find(|set| set.space == space)
    }

    /// What there is besides where both ends have agreed to use several at once.
    pub fn several(&self) -> Option<&Several> {
        self.several.as_deref()
    }

    /// The same, to change it.
    pub fn several_mut(&mut self) -> Option<&mut Several> {
        self.several.as_deref_mut()
    }

    /// Both ends have agreed to use several at once.
    pub fn set_several(&mut self, several: Several) {
        self.several = Some(Box::new(several));
    }

    /// Whether there is more than one path now, not counting those that may be opened.
    #[inline]
    pub fn has_choice(&self) -> bool {
        self.sets.len() > 1
    }

    /// The address pairs in use on the paths that are open.
    pub fn open_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.sets.iter_mut().filter(|set| set.is_open()).map(PathSet::active_mut)
    }

    /// Whether frames about paths wait to be sent.
    pub fn has_frames(&self) -> bool {
        self.several.as_ref().is_some_and(|several| several.has_frames())
    }

    /// The paths that may carry data now, in the order in which they are to be tried.
    pub fn order(&mut self, now: Instant, waiting: u64, candidates: &[Candidate]) -> Order {
        match &mut self.several {
            Some(several) => several.scheduler.order(now, waiting, candidates),
            None => candidates.iter().map(|path| path.id).collect(),
        }
    }

    /// The path of an address pair, or the one that stands for the connection if it was forgotten.
    #[inline]
    fn position(&self, key: PathKey) -> usize {
        // Nearly always: every packet asks.
        match self.sets.first() {
            Some(set) if set.space == key.space() => 0,
            _ => self.position_of_further(key),
        }
    }

    #[cold]
    fn position_of_further(&self, key: PathKey) -> usize {
        let is_main = self.main().space == key.space();
        if is_main { self.main } else { self.sets.iter().position(|set| set.space == key.space()).unwrap_or(self.main) }
    }

    /// Adds a path.
    pub fn insert(&mut self, set: PathSet) -> PathKey {
        let key = set.active().key();
        let at = self.sets.partition_point(|known| known.space < set.space);
        self.sets.insert(at, set);
        self.choose_main();
        key
    }

    /// Forgets a path, unless it is the only one.
    pub fn forget(&mut self, space: DataSpace) -> Option<PathSet> {
        let at = self.sets.iter().position(|set| set.space == space).filter(|_| self.sets.len() > 1)?;
        let gone = self.sets.remove(at);
        self.main = 0;
        self.choose_main();
        Some(gone)
    }

    /// The main path is the first that is open; while none is, it stays what it is.
    pub fn choose_main(&mut self) {
        let open = self.sets.iter().position(PathSet::is_open);
        self.main = open.unwrap_or(self.main.min(self.sets.len() - 1));
    }

    /// Whether `key` names the address pair that its path uses.
    pub fn is_active(&self, key: PathKey) -> bool {
        self.sets[self.position(key)].is_active(key)
    }

    /// The sequence number of the peer's connection ID that the address pair has for itself; `None`: that of its path.
    pub fn cid_of(&self, key: PathKey) -> Option<u64> {
        self.sets[self.position(key)].cid_of(key)
    }

    /// All address pairs, path by path, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.sets.iter().flat_map(PathSet::iter)
    }

    /// All address pairs, path by path, the oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.sets.iter_mut().flat_map(PathSet::iter_mut)
    }

    /// The address pair a datagram of the path came by; `None` if it is not known yet.
    pub fn find(&self, space: DataSpace, meta: &DatagramMeta, side: Side) -> Option<PathKey> {
        self.set(space)?.find(meta, side)
    }

    /// See [`PathSet::update_amplification_limit`].
    pub fn update_amplification_limit(&self, now: Instant, keys: &KeyStore, recovery: &mut Recovery<Box<SentFrames>>) {
        self.sets.iter().for_each(|set| set.update_amplification_limit(now, keys, recovery));
    }

    /// See [`PathSet::tell_mtu_discovery`].
    pub fn tell_mtu_discovery(
        &mut self,
        now: Instant,
        id: PathId,
        recovery: &mut Recovery<Box<SentFrames>>,
        reports: &mut Reports,
        tell: impl Fn(&mut MtuDiscovery) -> Option<u16>,
    ) {
        self.sets.iter_mut().for_each(|set| set.tell_mtu_discovery(now, id, recovery, reports, &tell));
    }

    // Migration of one path.

    /// See [`PathSet::add`].
    pub fn add(
        &mut self,
        now: Instant,
        space: DataSpace,
        meta: &DatagramMeta,
        with: &mut Migration<'_>,
    ) -> Option<PathKey> {
        self.set_mut(space)?.add(now, meta, with)
    }

    /// See [`PathSet::follow_peer`].
    pub fn follow_peer(&mut self, now: Instant, key: PathKey, with: &mut Migration<'_>) {
        let at = self.position(key);
        self.sets[at].follow_peer(now, key, with);
    }

    /// Passes the peer's stateless reset token to the endpoint.
    pub fn announce_reset_token(&self, cids: &Cids, reports: &mut Reports) {
        self.main().announce_reset_token(cids, reports);
    }

    /// See [`PathSet::renew_active`]: of the path that stands for the connection.
    pub fn renew_active(&mut self, now: Instant, local: Option<IpAddr>, with: &mut Migration<'_>) {
        self.sets[self.main].renew_active(now, local, with);
    }

    /// A PATH_RESPONSE arrived. Returns the path that it opens, if it does.
    pub fn on_response(
        &mut self,
        now: Instant,
        data: [u8; 8],
        side: Side,
        with: &mut Migration<'_>,
    ) -> Option<DataSpace> {
        let at = (0..self.sets.len()).find(|at| self.sets[*at].on_response(now, data, side, with))?;
        let set = &mut self.sets[at];
        let is_opened = set.stage == Stage::Opening;
        if is_opened {
            set.stage = Stage::Open;
        }
        let space = set.space;
        self.choose_main();
        is_opened.then_some(space)
    }

    /// See [`PathSet::forget_settled`].
    pub fn forget_settled(&mut self, with: &mut Migration<'_>) {
        self.sets.iter_mut().for_each(|set| set.forget_settled(with));
    }

    /// See [`PathSet::is_settled`].
    pub fn is_settled(&self) -> bool {
        self.sets.iter().any(PathSet::is_settled)
    }

    /// Handles the timers of validations. Returns the paths of which no address could be validated.
    pub fn on_timeouts(&mut self, now: Instant, with: &mut Migration<'_>) -> SmallVec<[DataSpace; 1]> {
        let live = self.sets.iter_mut().filter(|set| !matches!(set.stage, Stage::Abandoned { .. }));
        live.filter_map(|set| set.on_timeouts(now, with).then_some(set.space)).collect()
    }
}

/// The address pair of that name, or that in use on its path if it was forgotten.
impl Index<PathKey> for Paths {
    type Output = Path;

    #[inline]
    fn index(&self, key: PathKey) -> &Path {
        &self.sets[self.position(key)][key]
    }
}

impl IndexMut<PathKey> for Paths {
    #[inline]
    fn index_mut(&mut self, key: PathKey) -> &mut Path {
        let at = self.position(key);
        &mut self.sets[at][key]
    }
}
