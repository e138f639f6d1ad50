//! The paths of a connection: NAT rebinding, migration of either end, validation (RFC 9000 sections 8.2 and 9).

use std::net::IpAddr;

use rand_core::Rng;
use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

use super::{Connection, EndpointEvent, Event, PathEvent, net_path::NetPath};
use crate::{
    Side,
    error::{ConnectionError, TransportError},
    mtu::MtuDiscovery,
    observe::{ObserverEvent, PathState},
    udp::DatagramMeta,
};

/// Address pairs remembered at once: the active one, the last good one, and two candidates.
const MAX_PATHS: usize = 4;

impl Connection {
    /// The path a datagram came by; `None` if it is not known yet.
    pub(super) fn find_path(&self, meta: &DatagramMeta) -> Option<usize> {
        let active = &self.paths[self.active];
        if active.matches(meta.remote, meta.local_ip) {
            return Some(self.active);
        }
        self.paths.iter().position(|path| path.matches(meta.remote, meta.local_ip))
    }

    /// Whether a datagram from an unknown address may be looked at: only a server's, only after the handshake, and
    /// only if migration is permitted (RFC 9000 section 9).
    pub(super) fn may_come_from_new_path(&self) -> bool {
        self.side == Side::Server && self.handshake.confirmed && self.handshake.migration_allowed
    }

    /// A packet from a new address was authentic: remember the address.
    pub(super) fn add_net_path(&mut self, now: Instant, meta: &DatagramMeta) -> usize {
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
            let size = self.config.initial_mtu;
            (self.recovery.add_path(now, size, None), self.new_mtu_discovery(now))
        };
        self.paths.push(NetPath::new(id, meta.remote, meta.local_ip, false, mtu));
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Probing, remote: meta.remote });
        self.paths.len() - 1
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
        if !validated {
            self.paths[index].start_validation();
            // Section 9.3.3: ask the old address too, so that an attacker who merely copies packets loses.
            self.paths[before].start_validation();
        }
        if self.paths[before].id != id {
            // A new path to the peer gets a connection ID not used elsewhere, so that the two cannot be linked.
            self.use_fresh_cid();
        }
        self.update_amplification_limit(now);
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        self.events.push_back(Event::Path(PathEvent::Changed { remote }));
    }

    fn use_fresh_cid(&mut self) {
        if self.remote_cids.rotate() {
            self.announce_reset_token();
        }
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
        let id = self.recovery.add_path(now, self.config.initial_mtu, None);
        self.recovery.set_active_path(id);
        self.recovery.remove_path(old);
        let mtu = self.new_mtu_discovery(now);
        let path = &mut self.paths[index];
        path.id = id;
        path.local = local;
        path.mtu = mtu;
        path.start_validation();
        let remote = path.remote;
        self.use_fresh_cid();
        self.ping();
        self.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        self.events.push_back(Event::Path(PathEvent::Changed { remote }));
    }

    /// A PATH_RESPONSE arrived.
    pub(super) fn on_path_response(&mut self, now: Instant, data: [u8; 8]) {
        let Some(index) = (0..self.paths.len()).find(|&i| self.paths[i].on_response(data)) else {
            return;
        };
        let (path, remote) = (self.paths[index].id, self.paths[index].remote);
        self.update_amplification_limit(now);
        self.observe(now, &ObserverEvent::PathUpdated { path, state: PathState::Validated, remote });
        self.events.push_back(Event::Path(PathEvent::Validated { remote }));
        if index == self.active {
            // The move is final: the places we came from need not be remembered.
            while let Some(other) =
                (0..self.paths.len()).find(|&i| i != self.active && !self.paths[i].has_probing_frames())
            {
                self.forget_path(other);
            }
        }
    }

    pub(super) fn on_path_timeouts(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.paths.len() {
            if self.paths[index].on_timeout(now) {
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
            self.forget_path(index);
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
        let limited = self.paths[self.active].amplification_budget() < u64::from(super::transmit::MIN_INITIAL);
        self.recovery.set_amplification_limited(now, limited);
    }

    /// Content for a PATH_CHALLENGE (RFC 9000 section 8.2.1: unpredictable).
    pub(super) fn challenge_data(&mut self) -> [u8; 8] {
        self.rng.next_u64().to_be_bytes()
    }

    /// How long a validation attempt waits: three times the larger of both paths' PTO (RFC 9000 section 8.2.4), spread
    /// over its repetitions.
    pub(super) fn validation_pto(&self) -> std::time::Duration {
        self.recovery.pto(SpaceId::Data).max(self.config.initial_rtt)
    }
}
