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
mod ways;

use std::{
    net::IpAddr,
    ops::{Index, IndexMut},
};

use smallvec::SmallVec;
use thalweg_recovery::{DataSpace, PathId, Recovery};
use thalweg_units::Instant;

pub use self::scheduler::{Candidate, Order, PathScheduler, SchedulerFactory, SchedulerPolicy, Waiting};
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
    /// The one with the lowest path identifier: nearly always the only one, which every packet asks for.
    first: PathSet,
    /// The others, by ascending path identifier.
    further: Vec<PathSet>,
    /// The position, among all, of the one that stands for the connection: the first that nobody has given up.
    main: usize,
    /// What there is besides where both ends have agreed to use several at once.
    several: Option<Box<Several>>,
}

impl Paths {
    /// Of a connection that begins with one path.
    pub fn new(now: Instant, first: Path) -> Paths {
        let first = PathSet::new(now, DataSpace::FIRST, first, Stage::Open);
        Paths { first, further: Vec::new(), main: 0, several: None }
    }

    /// The one at a position among all.
    #[inline]
    fn at(&self, position: usize) -> &PathSet {
        match position.checked_sub(1) {
            None => &self.first,
            Some(further) => &self.further[further],
        }
    }

    /// The one at a position among all.
    #[inline]
    fn at_mut(&mut self, position: usize) -> &mut PathSet {
        match position.checked_sub(1) {
            None => &mut self.first,
            Some(further) => &mut self.further[further],
        }
    }

    /// The address pairs of the path that stands for the connection.
    #[inline]
    fn main(&self) -> &PathSet {
        self.at(self.main)
    }

    /// The address pair in use on the path that stands for the connection.
    #[inline]
    pub fn active(&self) -> &Path {
        self.main().active()
    }

    /// The address pair in use on the path that stands for the connection.
    #[inline]
    pub fn active_mut(&mut self) -> &mut Path {
        self.at_mut(self.main).active_mut()
    }

    /// The paths, by ascending identifier.
    #[inline]
    pub fn sets(&self) -> impl Iterator<Item = &PathSet> {
        std::iter::once(&self.first).chain(&self.further)
    }

    /// The paths, by ascending identifier.
    #[inline]
    fn sets_mut(&mut self) -> impl Iterator<Item = &mut PathSet> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    /// The path with this identifier.
    #[inline]
    pub fn set(&self, space: DataSpace) -> Option<&PathSet> {
        if self.first.space == space { Some(&self.first) } else { self.further.iter().find(|set| set.space == space) }
    }

    /// The path with this identifier.
    #[inline]
    pub fn set_mut(&mut self, space: DataSpace) -> Option<&mut PathSet> {
        if self.first.space == space {
            Some(&mut self.first)
        } else {
            self.further.iter_mut().find(|set| set.space == space)
        }
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
        !self.further.is_empty()
    }

    /// Whether an acknowledgment may leave on the path that stands for the connection, or on another that is open.
    #[inline]
    pub fn may_speak(&self) -> bool {
        self.main().may_speak() || self.further_may_speak()
    }

    fn further_may_speak(&self) -> bool {
        self.has_choice() && self.sets().any(|set| set.is_open() && set.may_speak())
    }

    /// Whether nothing is sent for now on the path that stands for the connection.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.main().is_held
    }

    /// The address pairs in use on the paths that are open.
    pub fn open_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.sets_mut().filter(|set| set.is_open()).map(PathSet::active_mut)
    }

    /// The paths that may carry data now, in the order in which they are to be tried.
    pub fn order(&mut self, now: Instant, waiting: Waiting, candidates: &[Candidate]) -> Order {
        match &mut self.several {
            Some(several) => several.scheduler.order(now, waiting, candidates),
            None => candidates.iter().map(|path| path.id).collect(),
        }
    }

    /// Holds the paths of whose local address `is_held` says so, and no others.
    pub fn hold(&mut self, is_held: impl Fn(Option<IpAddr>) -> bool) {
        self.sets_mut().for_each(|set| set.is_held = is_held(set.active().local));
    }

    /// The path of an address pair, or the one that stands for the connection if it was forgotten.
    fn of(&self, key: PathKey) -> &PathSet {
        self.set(key.space()).unwrap_or(self.main())
    }

    /// The path of an address pair, or the one that stands for the connection if it was forgotten.
    fn of_mut(&mut self, key: PathKey) -> &mut PathSet {
        let known = self.sets().position(|set| set.space == key.space());
        self.at_mut(known.unwrap_or(self.main))
    }

    #[cold]
    fn other(&self, key: PathKey) -> &Path {
        &self.of(key)[key]
    }

    #[cold]
    fn other_mut(&mut self, key: PathKey) -> &mut Path {
        &mut self.of_mut(key)[key]
    }

    #[cold]
    fn is_active_on_its_path(&self, key: PathKey) -> bool {
        self.of(key).is_active(key)
    }

    #[cold]
    fn cid_of_other(&self, key: PathKey) -> Option<u64> {
        self.of(key).cid_of(key)
    }

    /// Adds a path.
    pub fn insert(&mut self, set: PathSet) -> PathKey {
        let key = set.active().key();
        if set.space < self.first.space {
            self.further.insert(0, std::mem::replace(&mut self.first, set));
        } else {
            let at = self.further.partition_point(|known| known.space < set.space);
            self.further.insert(at, set);
        }
        self.choose_main();
        key
    }

    /// Forgets a path, unless it is the only one.
    pub fn forget(&mut self, space: DataSpace) -> Option<PathSet> {
        let at = self.sets().position(|set| set.space == space).filter(|_| self.has_choice())?;
        let gone = match at.checked_sub(1) {
            None => {
                let second = self.further.remove(0);
                std::mem::replace(&mut self.first, second)
            }
            Some(further) => self.further.remove(further),
        };
        self.sets_mut().for_each(|set| set.ways.forget(space));
        self.main = 0;
        self.choose_main();
        Some(gone)
    }

    /// The main path is the first that is open; while none is, it stays what it is.
    pub fn choose_main(&mut self) {
        let open = self.sets().position(PathSet::is_open);
        self.main = open.unwrap_or(self.main.min(self.further.len()));
    }

    /// Whether `key` names the address pair that its path uses.
    #[inline]
    pub fn is_active(&self, key: PathKey) -> bool {
        self.first.is_active(key) || self.is_active_on_its_path(key)
    }

    /// The sequence number of the peer's connection ID that the address pair has for itself; `None`: that of its path.
    #[inline]
    pub fn cid_of(&self, key: PathKey) -> Option<u64> {
        if self.first.is_active(key) { None } else { self.cid_of_other(key) }
    }

    /// All address pairs, path by path, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.sets().flat_map(PathSet::iter)
    }

    /// All address pairs, path by path, the oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.sets_mut().flat_map(PathSet::iter_mut)
    }

    /// The address pair a datagram of the path came by; `None` if it is not known yet.
    #[inline]
    pub fn find(&self, space: DataSpace, meta: &DatagramMeta, side: Side) -> Option<PathKey> {
        self.set(space)?.find(meta, side)
    }

    /// See [`PathSet::update_amplification_limit`].
    pub fn update_amplification_limit(&self, now: Instant, keys: &KeyStore, recovery: &mut Recovery<Box<SentFrames>>) {
        self.sets().for_each(|set| set.update_amplification_limit(now, keys, recovery));
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
        self.sets_mut().for_each(|set| set.tell_mtu_discovery(now, id, recovery, reports, &tell));
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
        self.of_mut(key).follow_peer(now, key, with);
    }

    /// Whether there is a path with this identifier that was not given up.
    pub fn is_in_use(&self, space: DataSpace) -> bool {
        self.set(space).is_some_and(|set| !set.is_abandoned())
    }

    /// See [`PathSet::announce_reset_token`]: of the path with this identifier, if there is one.
    pub fn announce_reset_token(&self, space: DataSpace, cids: &Cids, reports: &mut Reports) {
        if let Some(set) = self.set(space) {
            set.announce_reset_token(cids, reports);
        }
    }

    /// See [`PathSet::renew_active`]: of the path that stands for the connection.
    pub fn renew_active(&mut self, now: Instant, local: Option<IpAddr>, with: &mut Migration<'_>) {
        self.at_mut(self.main).renew_active(now, local, with);
    }

    /// A PATH_RESPONSE arrived. Returns the path that it opens, if it does.
    pub fn on_response(
        &mut self,
        now: Instant,
        data: [u8; 8],
        side: Side,
        with: &mut Migration<'_>,
    ) -> Option<DataSpace> {
        let set = self.sets_mut().find_map(|set| set.on_response(now, data, side, with).then_some(set))?;
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
        self.sets_mut().for_each(|set| set.forget_settled(with));
    }

    /// See [`PathSet::is_settled`].
    pub fn is_settled(&self) -> bool {
        self.sets().any(PathSet::is_settled)
    }

    /// Handles the timers of validations. Returns the paths of which no address could be validated.
    pub fn on_timeouts(&mut self, now: Instant, with: &mut Migration<'_>) -> SmallVec<[DataSpace; 1]> {
        let live = self.sets_mut().filter(|set| !set.is_abandoned());
        live.filter_map(|set| set.on_timeouts(now, with).then_some(set.space)).collect()
    }
}

/// The address pair of that name, or that in use on its path if it was forgotten.
impl Index<PathKey> for Paths {
    type Output = Path;

    #[inline]
    fn index(&self, key: PathKey) -> &Path {
        let first = self.first.active();
        if first.key == key { first } else { self.other(key) }
    }
}

impl IndexMut<PathKey> for Paths {
    #[inline]
    fn index_mut(&mut self, key: PathKey) -> &mut Path {
        if self.first.is_active(key) { self.first.active_mut() } else { self.other_mut(key) }
    }
}
