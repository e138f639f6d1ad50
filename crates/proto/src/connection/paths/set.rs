//! The address pairs of one path: a set with keys that never shift, and which of them is in use.
//!
//! A path is what has a packet-number space of its own, and a path identifier where several are in use at once
//! (draft-ietf-quic-multipath-21). A NAT rebinding or a migration gives it another address pair.

use std::{
    net::{IpAddr, SocketAddr},
    ops::{Index, IndexMut},
};

use thalweg_recovery::{DataSpace, PathId, Recovery, SpaceId};
use thalweg_units::Instant;

use super::{
    credit::PathCredit,
    path::{Path, PathKey},
    ways::{Way, WaysBack},
};
use crate::{
    Side,
    connection::{
        event::PathEvent,
        handshake::KeyStore,
        reports::Reports,
        sent::SentFrames,
        sizes::{MIN_INITIAL, MIN_PACKET},
    },
    mtu::MtuDiscovery,
    observe::ObserverEvent,
    udp::DatagramMeta,
};

/// The address pairs of one path, at least one. The active one is what peer and we have agreed to use.
#[derive(Debug)]
pub(crate) struct PathSet {
    /// The space of its packets.
    pub(super) space: DataSpace,
    /// In the order in which they became known.
    pub(super) known: Vec<Path>,
    /// The position of the active one among them.
    active: usize,
    /// The latest name given.
    latest: PathKey,
    pub(super) credit: PathCredit,
    /// The active path was validated: the others can be forgotten.
    pub(super) is_settled: bool,
    /// How far it is with being opened, or given up, beside others.
    pub(super) stage: Stage,
    /// Packets below this number have left again on other paths, because this one was silent.
    pub(super) reinjected: u64,
    /// A probe timeout went unanswered, or the peer says that nothing comes by it: packets from this number on left
    /// after that, and show that the path answers.
    silent_from: Option<u64>,
    /// The peer has said so.
    is_told_silent: bool,
    /// When a packet came by it last.
    pub(super) heard: Instant,
    /// Its acknowledgments have left once more by another path since then.
    has_repeated_acks: bool,
    /// When we sent something by it last, where there are others.
    spoke: Instant,
    /// When we last asked whether the peer still reaches us by it, and how often since the peer has used it.
    asked: (Instant, u32),
    /// The return paths of its acknowledgments.
    pub(super) ways: WaysBack,
    /// Nothing is sent on it for now: the socket that it leaves by has no room.
    pub(super) is_held: bool,
    /// UDP payload received on address pairs that were forgotten.
    received_before: u64,
}

impl PathSet {
    /// Of a path that begins with one address pair.
    pub fn new(now: Instant, space: DataSpace, first: Path, stage: Stage) -> PathSet {
        let latest = PathKey::first(space);
        PathSet {
            space,
            known: vec![Path { key: latest, ..first }],
            active: 0,
            latest,
            credit: PathCredit::new(now),
            is_settled: false,
            stage,
            reinjected: 0,
            silent_from: None,
            is_told_silent: false,
            has_repeated_acks: false,
            heard: now,
            spoke: now,
            asked: (now, 0),
            ways: WaysBack::default(),
            is_held: false,
            received_before: 0,
        }
    }

    /// The path in use.
    #[inline]
    pub fn active(&self) -> &Path {
        &self.known[self.active]
    }

    /// The path in use.
    #[inline]
    pub fn active_mut(&mut self) -> &mut Path {
        &mut self.known[self.active]
    }

    /// Whether `key` names the path in use.
    #[inline]
    pub fn is_active(&self, key: PathKey) -> bool {
        self.active().key == key
    }

    /// The sequence number of the peer's connection ID that the path has for itself; `None`: the active path's.
    #[inline]
    pub fn cid_of(&self, key: PathKey) -> Option<u64> {
        self[key].cid.filter(|_| !self.is_active(key))
    }

    /// All of them, the oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.known.iter()
    }

    /// All of them, the oldest first.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.known.iter_mut()
    }

    /// The path a datagram came by; `None` if it is not known yet.
    ///
    /// A client that has moved still takes what the server sent to its old address: only the server's counts.
    #[inline]
    pub fn find(&self, meta: &DatagramMeta, side: Side) -> Option<PathKey> {
        let local = meta.local_ip.filter(|_| side == Side::Server);
        let active = self.active();
        if active.matches(meta.remote, local) { Some(active.key) } else { self.find_other(meta.remote, local) }
    }

    #[cold]
    fn find_other(&self, remote: SocketAddr, local: Option<IpAddr>) -> Option<PathKey> {
        self.known.iter().find(|path| path.matches(remote, local)).map(Path::key)
    }

    /// Its identifier, which names the space of its packets.
    pub fn id(&self) -> DataSpace {
        self.space
    }

    /// How far it is with being opened, or given up.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// It is opened, or given up.
    pub fn set_stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// A packet came by it.
    #[inline]
    pub fn on_heard(&mut self, now: Instant) {
        self.heard = now;
        self.has_repeated_acks = false;
    }

    /// The peer has sent data of the application by it: not only questions of its own, which would answer ours.
    #[inline]
    pub fn on_data(&mut self) {
        self.asked.1 = 0;
    }

    /// We ask whether the peer still reaches us by it.
    pub fn on_asked(&mut self, now: Instant) {
        self.asked = (now, self.asked.1.saturating_add(1));
    }

    /// We send something by it, and there are others.
    pub fn on_spoken(&mut self, now: Instant) {
        self.spoke = now;
    }

    /// Since when nothing has come or left by it and we have not asked, and how often we have asked before.
    pub fn silence(&self) -> (Instant, u32) {
        let (asked_at, asked) = self.asked;
        (self.heard.min(self.spoke).max(asked_at), asked)
    }

    /// When a packet came by it last.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Packets from this number on left after the path had fallen silent; `None` if it has not.
    #[inline]
    pub fn silent_from(&self) -> Option<u64> {
        self.silent_from
    }

    /// The path has fallen silent before a packet of this number, unless it had already; `is_told`: the peer says so.
    pub fn fall_silent(&mut self, next: u64, is_told: bool) {
        self.silent_from.get_or_insert(next);
        self.is_told_silent |= is_told;
    }

    /// The path answers. Returns whether it had been silent.
    pub fn answer(&mut self) -> bool {
        self.is_told_silent = false;
        self.silent_from.take().is_some()
    }

    /// Whether the peer has said that nothing comes by it.
    pub fn is_told_silent(&self) -> bool {
        self.is_told_silent
    }

    /// Whether its acknowledgments have left by another path since a packet came by it last.
    #[inline]
    pub fn has_repeated_acks(&self) -> bool {
        self.has_repeated_acks
    }

    /// Its acknowledgments leave by another path.
    pub fn on_acks_repeated(&mut self) {
        self.has_repeated_acks = true;
    }

    /// Whether nothing is sent on it for now.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// UDP payload received on all its address pairs, bytes.
    pub fn received(&self) -> u64 {
        self.received_before + self.known.iter().map(|path| path.received).sum::<u64>()
    }

    /// This path at the address in use.
    pub fn way(&self) -> Way {
        Way { space: self.space, address: self.active().id }
    }

    /// The return paths of its acknowledgments.
    pub fn ways(&self) -> &WaysBack {
        &self.ways
    }

    /// The return paths of its acknowledgments.
    pub fn ways_mut(&mut self) -> &mut WaysBack {
        &mut self.ways
    }

    /// Packets below this number have left again on other paths.
    pub fn reinjected(&self) -> u64 {
        self.reinjected
    }

    /// Packets below this number have left again on other paths.
    pub fn set_reinjected(&mut self, number: u64) {
        self.reinjected = number;
    }

    /// Whether data may be sent on it as far as the path itself is concerned: its addresses are validated, and neither
    /// end has given it up.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether it was given up.
    pub fn is_abandoned(&self) -> bool {
        matches!(self.stage, Stage::Abandoned { .. })
    }

    /// Whether even an acknowledgment may leave to its address, which may not be validated.
    pub fn may_speak(&self) -> bool {
        self.active().amplification_budget() >= MIN_PACKET as u64
    }

    /// Recovery must not set timers that the amplification limit would keep from sending (RFC 9002 section 6.2.2.1).
    pub fn update_amplification_limit(&self, now: Instant, keys: &KeyStore, recovery: &mut Recovery<Box<SentFrames>>) {
        // A probe of the Initial space needs a full datagram; later ones make do with a small packet.
        let needed = match keys.has(SpaceId::Initial) {
            true => usize::from(MIN_INITIAL),
            false => MIN_PACKET,
        };
        let limited = self.active().amplification_budget() < needed as u64;
        match self.space {
            DataSpace::FIRST => recovery.set_amplification_limited(now, limited),
            _ => recovery.set_path_amplification_limited(now, self.active().id, limited),
        }
    }

    /// Reports to the searches for the size of datagrams what became of a packet; an answer is the new size.
    ///
    /// Several addresses can share a path: a NAT that gave the peer another port changed nothing else.
    #[inline]
    pub fn tell_mtu_discovery(
        &mut self,
        now: Instant,
        id: PathId,
        recovery: &mut Recovery<Box<SentFrames>>,
        reports: &mut Reports,
        tell: &impl Fn(&mut MtuDiscovery) -> Option<u16>,
    ) {
        for path in self.known.iter_mut().filter(|path| path.id == id) {
            let Some(size) = tell(&mut path.mtu) else { continue };
            let Some(known) = recovery.path_mut(id) else { continue };
            let old = known.datagram_size();
            if old == size {
                continue;
            }
            known.set_datagram_size(now, size);
            let done = path.mtu.next_probe_time().is_none_or(|at| at > now);
            reports.observe(now, &ObserverEvent::MtuUpdated { path: id, old, new: size, done });
            reports.tell_path(PathEvent::Mtu { size });
        }
    }

    /// Adds a path and names it.
    pub(super) fn push(&mut self, path: Path) -> PathKey {
        self.latest = self.latest.next();
        self.known.push(Path { key: self.latest, ..path });
        self.latest
    }

    pub(super) fn set_active(&mut self, key: PathKey) {
        self.active = self.position(key);
    }

    /// Takes out a path that is not the active one.
    pub(super) fn remove(&mut self, key: PathKey) -> Option<Path> {
        let position = self.known.iter().position(|path| path.key == key)?;
        if position == self.active {
            return None;
        }
        let gone = self.known.remove(position);
        if self.active > position {
            self.active -= 1;
        }
        self.received_before += gone.received;
        Some(gone)
    }

    /// Where the path is; the active one's place for a name that is no path's any more.
    #[inline]
    fn position(&self, key: PathKey) -> usize {
        match self.known.get(self.active) {
            Some(path) if path.key == key => self.active,
            _ => self.position_of_other(key),
        }
    }

    #[cold]
    fn position_of_other(&self, key: PathKey) -> usize {
        self.known.iter().position(|path| path.key == key).unwrap_or(self.active)
    }
}

/// How far a path is with being opened beside others, or with being given up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its addresses are not validated yet: no data are sent on it.
    Opening,
    /// It is in use, or can be.
    Open,
    /// One end has given it up: nothing is sent on it. What is known of it is kept until then, for what is still under
    /// way (draft-ietf-quic-multipath-21 section 3.4).
    Abandoned { until: Instant },
}

/// The address pair of that name, or the active one if it was forgotten.
impl Index<PathKey> for PathSet {
    type Output = Path;

    #[inline]
    fn index(&self, key: PathKey) -> &Path {
        &self.known[self.position(key)]
    }
}

impl IndexMut<PathKey> for PathSet {
    #[inline]
    fn index_mut(&mut self, key: PathKey) -> &mut Path {
        let position = self.position(key);
        &mut self.known[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::TransportConfig, connection::paths::mtu_discovery};

    fn path(port: u16) -> Path {
        let remote = ([192, 0, 2, 1], port).into();
        let mtu = mtu_discovery(Instant::ZERO, &TransportConfig::default(), u64::MAX);
        Path::new(PathId(u32::from(port)), remote, None, true, mtu)
    }

    #[test]
    fn keys_stay_when_other_paths_are_forgotten_and_are_never_given_twice() {
        let mut paths = PathSet::new(Instant::ZERO, DataSpace::FIRST, path(1), Stage::Open);
        let first = paths.active().key();
        let [second, third] = [2, 3].map(|port| paths.push(path(port)));
        paths.set_active(third);
        assert!(paths.remove(first).is_some());
        assert_eq!((paths[second].remote.port(), paths[third].remote.port()), (2, 3));
        assert!(paths.is_active(third));
        let fourth = paths.push(path(4));
        assert!(![first, second, third].contains(&fourth));
        assert_eq!(paths[first].key(), third, "a path that was forgotten is the active one");
    }

    #[test]
    fn the_active_path_is_never_forgotten() {
        let mut paths = PathSet::new(Instant::ZERO, DataSpace::FIRST, path(1), Stage::Open);
        let first = paths.active().key();
        let second = paths.push(path(2));
        assert!(paths.remove(first).is_none());
        paths.set_active(second);
        assert!(paths.remove(first).is_some());
        assert!(paths.remove(first).is_none(), "it is gone");
    }

    #[test]
    fn a_datagram_belongs_to_the_active_path_before_others_with_its_address() {
        let mut paths = PathSet::new(Instant::ZERO, DataSpace::FIRST, path(1), Stage::Open);
        let second = paths.push(Path { local: Some([192, 0, 2, 9].into()), ..path(1) });
        let meta = |port, last| DatagramMeta {
            remote: ([192, 0, 2, 1], port).into(),
            local_ip: Some([192, 0, 2, last].into()),
            ecn: thalweg_recovery::Ecn::NotEct,
        };
        assert_eq!(paths.find(&meta(1, 9), Side::Server), Some(paths.active().key()), "its local address is unknown");
        paths.set_active(second);
        assert_eq!(paths.find(&meta(1, 9), Side::Server), Some(second));
        assert_ne!(paths.find(&meta(1, 8), Side::Server), Some(second));
        assert_eq!(paths.find(&meta(1, 8), Side::Client), Some(second), "only the server's address counts");
        assert_eq!(paths.find(&meta(2, 9), Side::Server), None);
    }
}
