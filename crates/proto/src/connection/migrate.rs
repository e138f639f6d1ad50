//! The paths of a connection: NAT rebinding, migration of either end, validation (RFC 9000 sections 8.2 and 9).

use std::net::IpAddr;

use rand_core::Rng;
use thalweg_recovery::{NewPath, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection, EndpointEvent, Event, PathEvent,
    net_path::NetPath,
    spin::Spin,
    transmit::{MIN_INITIAL, MIN_PACKET},
};
use crate::{
    Side,
    error::{ConnectionError, TransportError},
    mtu::MtuDiscovery,
    observe::{ObserverEvent, PathState},
    udp::DatagramMeta,
};

/// Address pairs remembered at once: the active one, the last good one, and two candidates.
const MAX_PATHS: usize = 4;
/// New addresses accepted in a row without one being validated. Each costs us packets that nobody may ever acknowledge,
/// so a peer that hops from address to address must not go on for ever. One more is granted per second.
const MAX_UNPROVEN: u8 = 32;

/// How many more new addresses the peer may come from.
#[derive(Debug)]
pub(super) struct PathCredit {
    left: u8,
    granted: Instant,
}

impl PathCredit {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: MAX_UNPROVEN, granted: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_since(self.granted).as_secs();
        if seconds > 0 {
            self.granted = now;
            self.left = self.left.saturating_add(seconds.min(u64::from(MAX_UNPROVEN)) as u8).min(MAX_UNPROVEN);
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

impl Connection {
    /// The path a datagram came by; `None` if it is not known yet.
    ///
    /// A client that has moved still takes what the server sent to its old address: only the server's counts.
    pub(super) fn find_path(&self, meta: &DatagramMeta) -> Option<usize> {
        let local = meta.local_ip.filter(|_| self.side == Side::Server);
        let active = &self.paths[self.active];
        if active.matches(meta.remote, local) {
            return Some(self.active);
        }
        self.paths.iter().position(|path| path.matches(meta.remote, local))
    }

    /// Whether a datagram from an unknown address may be looked at: only a server's, only after the handshake, and
    /// only if migration is permitted (RFC 9000 section 9).
    pub(super) fn may_come_from_new_path(&self) -> bool {
        self.side == Side::Server && self.handshake.confirmed && self.handshake.migration_allowed
    }

    /// A packet from a new address was authentic: remember the address. `None` if the peer has come from too many.
    pub(super) fn add_net_path(&mut self, now: Instant, meta: &DatagramMeta) -> Option<usize> {
        if !self.path_credit.take(now) {
            return None;
        }
        if self.paths.len() >= MAX_PATHS {
            let victim = (0..self.paths.len()).find(|&i| i != self.active && !self.paths[i].validated);
            let victim = victim.or_else(|| (0..self.paths.len()).find(|&i| i != self.active));
            if let Some(victim) = victim {
                self.forget_path(victim);
            }
        }
        let active = &self.paths[self.active];
        let rebinding = active.remote.ip() == meta.remote.ip() && active.local == meta.local_ip;
        let (id, mtu) = if rebinding {
            // Only the port differs: most likely a NAT forgot us. The path is the same, and so is what we know of it
            // (RFC 9000 section 9.4).
            (active.id, active.mtu.clone())
        } else {
            let new = NewPath::new(self.config.initial_mtu).to(meta.remote);
            (self.recovery.add_path(now, new), self.new_mtu_discovery(now))
        };
        let spin = self.new_spin();
        let mut path = NetPath::new(id, meta.remote, meta.local_ip, false, mtu);
        path.spin = spin;
        if !rebinding {
            path.cid = self.remote_cids.take_fresh().map(|fresh| fresh.sequence);
        }
        self.paths.push(path);
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Probing, remote: meta.remote });
        Some(self.paths.len() - 1)
    }

    pub(super) fn new_mtu_discovery(&self, now: Instant) -> MtuDiscovery {
        let config = crate::mtu::MtuConfig {
            initial: self.config.initial_mtu,
            max: self.config.max_mtu.max(self.config.initial_mtu),
            ..crate::mtu::MtuConfig::default()
        };
        let peer_max = u16::try_from(self.peer_params.max_udp_payload_size).unwrap_or(u16::MAX);
        MtuDiscovery::new(now, config, peer_max)
    }

    fn forget_path(&mut self, index: usize) {
        let gone = self.paths.remove(index);
        if let Some(sequence) = gone.cid {
            self.remote_cids.retire(sequence);
        }
        if self.active > index {
            self.active -= 1;
        }
        if self.path_index(gone.id).is_none() {
            self.recovery.remove_path(gone.id);
        }
    }

    /// The peer sent a non-probing packet, its newest, by path `index`: it has moved there.
    pub(super) fn follow_peer(&mut self, now: Instant, index: usize) {
        let before = self.active;
        self.active = index;
        let (id, remote, validated) = {
            let path = &self.paths[index];
            (path.id, path.remote, path.validated)
        };
        self.recovery.set_active_path(id);
        if self.paths[before].id != id {
            self.switch_cid(before, index);
        }
        if !validated {
            let pto = self.validation_pto();
            self.paths[index].start_validation(now, pto);
            // Section 9.3.3: ask the old address too, so that an attacker who merely copies packets loses.
            self.paths[before].start_validation(now, pto);
        }
        self.update_amplification_limit(now);
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        self.events.push_back(Event::Path(PathEvent::Changed { remote }));
    }

    /// Paths do not share a connection ID, so that nobody can link them (RFC 9000 section 9.5), unless there is no spare
    /// one. The path left behind keeps its own until it is forgotten.
    fn switch_cid(&mut self, from: usize, to: usize) {
        let old = self.remote_cids.active_sequence();
        let known = self.paths[to].cid.take().filter(|sequence| self.remote_cids.set_active(*sequence));
        let fresh = match known {
            Some(sequence) => Some(sequence),
            None => self.remote_cids.take_fresh().map(|fresh| fresh.sequence),
        };
        if let Some(sequence) = fresh {
            self.remote_cids.set_active(sequence);
            self.paths[from].cid = Some(old);
            self.announce_reset_token();
        }
    }

    fn use_fresh_cid(&mut self) {
        if self.remote_cids.rotate() {
            self.announce_reset_token();
        }
        self.paths[self.active].spin = self.new_spin();
    }

    /// The spin bit of a path that is new, or has a new connection ID.
    pub(super) fn new_spin(&mut self) -> Spin {
        Spin::new(self.config.spin_bit, &mut self.rng)
    }

    /// Tells the endpoint how a stateless reset of the peer would look.
    pub(super) fn announce_reset_token(&mut self) {
        let active = self.remote_cids.get(self.remote_cids.active_sequence());
        if let Some(token) = active.and_then(|cid| cid.reset_token) {
            let remote = self.remote_address();
            self.endpoint_events.push_back(EndpointEvent::ResetToken { remote, token });
        }
    }

    /// Client: our own address may have changed (the socket was bound anew, the network switched). The path is new,
    /// nothing is known of it, and the server has to see us there.
    pub fn local_address_changed(&mut self, now: Instant, local: Option<IpAddr>) {
        if !self.lifecycle.is_open() || !self.handshake.confirmed {
            return;
        }
        let index = self.active;
        let old = self.paths[index].id;
        let new = NewPath::new(self.config.initial_mtu).to(self.paths[index].remote);
        let id = self.recovery.add_path(now, new);
        self.recovery.set_active_path(id);
        self.recovery.remove_path(old);
        let (mtu, pto) = (self.new_mtu_discovery(now), self.validation_pto());
        let path = &mut self.paths[index];
        path.id = id;
        path.local = local;
        path.mtu = mtu;
        path.start_validation(now, pto);
        let remote = path.remote;
        self.use_fresh_cid();
        self.ping();
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        self.events.push_back(Event::Path(PathEvent::Changed { remote }));
    }

    /// A PATH_RESPONSE arrived.
    pub(super) fn on_path_response(&mut self, now: Instant, data: [u8; 8]) {
        let pto = self.validation_pto();
        let answered = self.paths.iter_mut().map(|path| path.on_response(now, data, pto)).enumerate();
        let Some((index, is_news)) = answered.filter_map(|(index, news)| Some((index, news?))).next() else {
            return;
        };
        self.path_credit = PathCredit::new(now);
        if is_news || self.side.is_client() {
            let (path, remote) = (self.paths[index].id, self.paths[index].remote);
            self.update_amplification_limit(now);
            self.observe(now, &ObserverEvent::PathUpdated { path, state: PathState::Validated, remote });
            self.events.push_back(Event::Path(PathEvent::Validated { remote }));
        }
        // The move is final: the places we came from need not be remembered. They are forgotten when the packet is done
        // with, since its frames still go by their indices.
        self.paths_settled |= index == self.active;
    }

    /// Forgets the paths that a packet's PATH_RESPONSE has made superfluous.
    pub(super) fn forget_settled_paths(&mut self) {
        if std::mem::take(&mut self.paths_settled) {
            while let Some(other) =
                (0..self.paths.len()).find(|&i| i != self.active && !self.paths[i].has_probing_frames())
            {
                self.forget_path(other);
            }
        }
    }

    pub(super) fn on_path_timeouts(&mut self, now: Instant) {
        let pto = self.validation_pto();
        let mut index = 0;
        while index < self.paths.len() {
            if self.paths[index].on_timeout(now, pto) {
                self.on_validation_failed(now, index);
            } else {
                index += 1;
            }
        }
    }

    fn on_validation_failed(&mut self, now: Instant, index: usize) {
        let (path, remote) = (self.paths[index].id, self.paths[index].remote);
        self.observe(now, &ObserverEvent::PathUpdated { path, state: PathState::Abandoned, remote });
        if index != self.active {
            // As long as the active address is in doubt, one that once was not is worth keeping.
            if !self.paths[index].validated || self.paths[self.active].validated {
                self.forget_path(index);
            }
            return;
        }
        if self.paths[index].validated {
            // Our own new address, or an old path that was asked again: keep trying; the idle timer decides.
            return;
        }
        match (0..self.paths.len()).find(|&i| self.paths[i].validated) {
            Some(good) => {
                self.active = good;
                let (id, remote) = (self.paths[good].id, self.paths[good].remote);
                self.recovery.set_active_path(id);
                if path != id {
                    self.switch_cid(index, good);
                }
                self.forget_path(index);
                self.update_amplification_limit(now);
                self.events.push_back(Event::Path(PathEvent::Changed { remote }));
            }
            None => self.drain(
                now,
                ConnectionError::Transport(TransportError::no_viable_path("no address of the peer could be validated")),
            ),
        }
    }

    /// Recovery must not set timers that the amplification limit would keep from sending (RFC 9002 section 6.2.2.1).
    pub(super) fn update_amplification_limit(&mut self, now: Instant) {
        // A probe of the Initial space needs a full datagram; later ones make do with a small packet.
        let needed = match self.keys.has(SpaceId::Initial) {
            true => usize::from(MIN_INITIAL),
            false => MIN_PACKET,
        };
        let limited = self.paths[self.active].amplification_budget() < needed as u64;
        self.recovery.set_amplification_limited(now, limited);
    }

    /// Content for a PATH_CHALLENGE (RFC 9000 section 8.2.1: unpredictable).
    pub(super) fn challenge_data(&mut self) -> [u8; 8] {
        self.rng.next_u64().to_be_bytes()
    }

    /// How long a challenge waits for its answer: the PTO of the path, which is that of an unknown path if it is new
    /// (RFC 9000 section 8.2.4).
    pub(super) fn validation_pto(&self) -> std::time::Duration {
        self.recovery.pto(SpaceId::DATA).max(self.config.initial_rtt)
    }
}
