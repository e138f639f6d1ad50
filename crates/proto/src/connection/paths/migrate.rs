//! Moves from one path to another: NAT rebinding, migration of either end (RFC 9000 section 9).

use std::{net::IpAddr, time::Duration};

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use thalweg_recovery::{DataSpace, NewPath, Recovery, SpaceId};
use thalweg_units::Instant;

use super::{
    credit::PathCredit,
    path::{Path, PathKey, mtu_discovery},
    set::{PathSet, Stage},
    spin::Spin,
};
use crate::{
    Side,
    config::TransportConfig,
    connection::{
        cids::Cids,
        event::{EndpointEvent, PathEvent},
        handshake::KeyStore,
        reports::Reports,
        sent::SentFrames,
    },
    observe::{ObserverEvent, PathState},
    udp::DatagramMeta,
};

/// Address pairs remembered at once: the active one, the last good one, and two candidates.
const MAX_PATHS: usize = 4;

/// What a migration touches besides the paths.
pub(crate) struct Migration<'a> {
    pub config: &'a TransportConfig,
    /// The peer's `max_udp_payload_size`.
    pub peer_max: u64,
    pub keys: &'a KeyStore,
    pub recovery: &'a mut Recovery<Box<SentFrames>>,
    pub cids: &'a mut Cids,
    pub reports: &'a mut Reports,
    pub rng: &'a mut ChaCha8Rng,
}

impl Migration<'_> {
    /// The spin bit of a path that is new, or has a new connection ID.
    pub(super) fn new_spin(&mut self) -> Spin {
        Spin::new(self.config.spin_bit, self.rng)
    }

    /// How long a challenge waits for its answer: the PTO of the path, which is that of an unknown path if it is new
    /// (RFC 9000 section 8.2.4).
    pub(super) fn validation_pto(&self, space: DataSpace) -> Duration {
        self.recovery.pto(SpaceId::Data(space)).max(self.config.initial_rtt)
    }
}

impl PathSet {
    /// A packet from a new address was authentic: remember the address. `None` if the peer has come from too many.
    pub fn add(&mut self, now: Instant, meta: &DatagramMeta, with: &mut Migration<'_>) -> Option<PathKey> {
        if !self.credit.take(now) {
            return None;
        }
        if self.known.len() >= MAX_PATHS {
            let active = self.active().key;
            let others = || self.known.iter().filter(|path| path.key != active);
            let victim = others().find(|path| !path.validated).or_else(|| others().next()).map(Path::key);
            if let Some(victim) = victim {
                self.forget(victim, with);
            }
        }
        let active = self.active();
        let rebinding = active.remote.ip() == meta.remote.ip() && active.local == meta.local_ip;
        let (id, mtu) = if rebinding {
            // Only the port differs: most likely a NAT forgot us. The path is the same, and so is what we know of it
            // (RFC 9000 section 9.4).
            (active.id, active.mtu.clone())
        } else {
            let new = NewPath::new(with.config.initial_mtu).to(meta.remote);
            (with.recovery.add_path(now, new), mtu_discovery(now, with.config, with.peer_max))
        };
        let mut path = Path::new(id, meta.remote, meta.local_ip, false, mtu);
        path.spin = with.new_spin();
        if !rebinding {
            path.cid = with.cids.remote_of_mut(self.space).take_fresh().map(|fresh| fresh.sequence);
        }
        let event = ObserverEvent::PathUpdated { path: id, state: PathState::Probing, remote: meta.remote };
        with.reports.observe(now, &event);
        Some(self.push(path))
    }

    /// Forgets a path that is not the active one.
    fn forget(&mut self, key: PathKey, with: &mut Migration<'_>) {
        let Some(gone) = self.remove(key) else { return };
        if let Some(sequence) = gone.cid {
            with.cids.remote_of_mut(self.space).retire(sequence);
        }
        if self.known.iter().all(|path| path.id != gone.id) {
            with.recovery.remove_path(gone.id);
        }
    }

    /// The peer sent a non-probing packet, its newest, by path `key`: it has moved there.
    pub fn follow_peer(&mut self, now: Instant, key: PathKey, with: &mut Migration<'_>) {
        let before = self.active().key;
        self.set_active(key);
        let Path { id, remote, validated, .. } = *self.active();
        with.recovery.set_space_path(self.space, id);
        if self[before].id != id {
            self.switch_cid(before, key, with);
        }
        if !validated {
            let pto = with.validation_pto(self.space);
            self[key].validation.start(now, pto);
            // Section 9.3.3: ask the old address too, so that an attacker who merely copies packets loses.
            self[before].validation.start(now, pto);
        }
        self.announce_reset_token(with.cids, with.reports);
        self.update_amplification_limit(now, with.keys, with.recovery);
        with.reports.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        with.reports.tell_path(PathEvent::Changed { remote });
    }

    /// Paths do not share a connection ID, so that nobody can link them (RFC 9000 section 9.5), unless there is no
    /// spare one. The path left behind keeps its own until it is forgotten.
    fn switch_cid(&mut self, from: PathKey, to: PathKey, with: &mut Migration<'_>) {
        let cids = with.cids.remote_of_mut(self.space);
        let old = cids.active_sequence();
        let known = self[to].cid.take().filter(|sequence| cids.set_active(*sequence));
        let fresh = match known {
            Some(sequence) => Some(sequence),
            None => cids.take_fresh().map(|fresh| fresh.sequence),
        };
        if let Some(sequence) = fresh {
            cids.set_active(sequence);
            self[from].cid = Some(old);
        }
    }

    /// Passes the peer's stateless reset token to the endpoint. A path that was given up has none.
    pub fn announce_reset_token(&self, cids: &Cids, reports: &mut Reports) {
        let remote = cids.remote_of(self.space);
        let active = remote.get(remote.active_sequence());
        if let Some(token) = active.and_then(|cid| cid.reset_token).filter(|_| !self.is_abandoned()) {
            let (path, remote) = (self.space, self.active().remote);
            reports.tell_endpoint(EndpointEvent::ResetToken { path, remote, token });
        }
    }

    /// Our own address may have changed: the active path is new, nothing is known of it.
    pub fn renew_active(&mut self, now: Instant, local: Option<IpAddr>, with: &mut Migration<'_>) {
        let Path { id: old, remote, .. } = *self.active();
        let id = with.recovery.add_path(now, NewPath::new(with.config.initial_mtu).to(remote));
        with.recovery.set_space_path(self.space, id);
        with.recovery.remove_path(old);
        let (mtu, pto) = (mtu_discovery(now, with.config, with.peer_max), with.validation_pto(self.space));
        let path = self.active_mut();
        path.id = id;
        path.local = local;
        path.mtu = mtu;
        path.sent = 0;
        path.validation.start(now, pto);
        if with.cids.remote_of_mut(self.space).rotate() {
            self.announce_reset_token(with.cids, with.reports);
        }
        self.active_mut().spin = with.new_spin();
        with.reports.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Active, remote });
        with.reports.tell_path(PathEvent::Changed { remote });
    }

    /// A PATH_RESPONSE arrived. Returns whether it answers a challenge of this path.
    pub fn on_response(&mut self, now: Instant, data: [u8; 8], side: Side, with: &mut Migration<'_>) -> bool {
        let pto = with.validation_pto(self.space);
        let mut answers = self.known.iter_mut().map(|path| (path.key, path.on_response(now, data, pto)));
        let Some((key, is_news)) = answers.find_map(|(key, news)| Some((key, news?))) else { return false };
        self.credit = PathCredit::new(now);
        if is_news || side.is_client() {
            let Path { id: path, remote, .. } = self[key];
            self.update_amplification_limit(now, with.keys, with.recovery);
            with.reports.observe(now, &ObserverEvent::PathUpdated { path, state: PathState::Validated, remote });
            with.reports.tell_path(PathEvent::Validated { remote });
        }
        // The move is final: the places we came from need not be remembered. They are forgotten when the packet is done
        // with, since it may have come by one of them.
        self.is_settled |= self.is_active(key);
        true
    }

    /// Forgets the paths that a packet's PATH_RESPONSE has made superfluous.
    pub fn forget_settled(&mut self, with: &mut Migration<'_>) {
        if std::mem::take(&mut self.is_settled) {
            let active = self.active().key;
            while let Some(other) =
                self.known.iter().find(|path| path.key != active && !path.validation.has_frames()).map(Path::key)
            {
                self.forget(other, with);
            }
        }
    }

    /// Whether a packet's PATH_RESPONSE has made paths superfluous.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Handles the timers of validations. Returns whether the peer has no address left that could be validated.
    pub fn on_timeouts(&mut self, now: Instant, with: &mut Migration<'_>) -> bool {
        let pto = with.validation_pto(self.space);
        let mut is_lost = false;
        let mut index = 0;
        while let Some(path) = self.known.get_mut(index) {
            if path.validation.on_timeout(now, pto) {
                let key = path.key;
                is_lost |= !self.on_validation_failed(now, key, with);
            } else {
                index += 1;
            }
        }
        is_lost
    }

    /// Returns whether there is an address to go on with.
    fn on_validation_failed(&mut self, now: Instant, key: PathKey, with: &mut Migration<'_>) -> bool {
        let Path { id: path, remote, validated, .. } = self[key];
        with.reports.observe(now, &ObserverEvent::PathUpdated { path, state: PathState::Abandoned, remote });
        if self.stage == Stage::Opening {
            return false;
        }
        if !self.is_active(key) {
            // As long as the active address is in doubt, one that once was not is worth keeping.
            if !validated || self.active().validated {
                self.forget(key, with);
            }
            return true;
        }
        if validated {
            // Our own new address, or an old path that was asked again: keep trying; the idle timer decides.
            return true;
        }
        let Some(good) = self.known.iter().find(|path| path.validated).map(Path::key) else { return false };
        self.set_active(good);
        let Path { id, remote, .. } = *self.active();
        with.recovery.set_space_path(self.space, id);
        if path != id {
            self.switch_cid(key, good, with);
        }
        self.announce_reset_token(with.cids, with.reports);
        self.forget(key, with);
        self.update_amplification_limit(now, with.keys, with.recovery);
        with.reports.tell_path(PathEvent::Changed { remote });
        true
    }
}

/// Content for a PATH_CHALLENGE (RFC 9000 section 8.2.1: unpredictable).
pub(crate) fn challenge_data(rng: &mut impl Rng) -> [u8; 8] {
    rng.next_u64().to_be_bytes()
}
