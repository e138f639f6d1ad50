//! Drives TLS over CRYPTO frames, and takes its keys, the peer's transport parameters and confirmation.

use thalweg_recovery::{DataSpace, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    event::{EndpointEvent, Event},
    handshake::{parameter_values, stream_limits},
    lifecycle::Phase,
    paths::mtu_discovery,
};
use crate::{
    Side,
    ack::AckConfig,
    cid::{ConnectionId, ResetToken},
    crypto::KeyChange,
    error::{ConnectionError, TransportError},
    observe::{ConnectionState, KeyTrigger, ObserverEvent, Owner, PacketKind},
    transport_parameters::TransportParameters,
    version::Version,
};

impl Connection {
    /// Feeds TLS what is readable in `space`, and takes what it says.
    pub(super) fn read_crypto(&mut self, now: Instant, space: SpaceId) -> Result<(), TransportError> {
        loop {
            let crypto = self.spaces.crypto_mut(space);
            let len = crypto.readable().len();
            if len == 0 {
                return Ok(());
            }
            self.handshake.session.read_handshake(crypto.readable())?;
            crypto.consume(len);
            self.drive_tls(now)?;
        }
    }

    /// Takes bytes and keys from TLS until it has no more.
    pub(super) fn drive_tls(&mut self, now: Instant) -> Result<(), TransportError> {
        let server = self.side == Side::Server;
        if server && !self.handshake.params_applied && self.handshake.session.transport_parameters().is_some() {
            self.apply_peer_parameters(now)?;
            self.reports.tell(Event::HandshakeDataReady);
        }
        if server
            && !self.handshake.complete
            && !self.keys.has_early()
            && let Some(keys) = self.handshake.session.early_keys()
        {
            self.keys.install_early(keys);
            self.handshake.early.offered = true;
            self.observe_key(now, PacketKind::ZeroRtt, Owner::Remote);
        }
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let change = self.handshake.session.write_handshake(&mut bytes);
            self.spaces[self.handshake.write_level].crypto.write(&bytes);
            match change {
                Some(KeyChange::Handshake(keys)) => {
                    self.keys.install_handshake(keys);
                    self.recovery.set_has_handshake_keys();
                    self.handshake.write_level = SpaceId::Handshake;
                    self.observe_key(now, PacketKind::Handshake, Owner::Local);
                }
                Some(KeyChange::OneRtt(keys)) => {
                    self.keys.install_one_rtt(keys, &mut *self.handshake.session);
                    self.handshake.write_level = SpaceId::DATA;
                    self.observe_key(now, PacketKind::OneRtt, Owner::Local);
                    if server {
                        self.reports.observe_state(now, ConnectionState::EarlyWrite);
                    } else {
                        self.keys.discard_early();
                    }
                }
                None => break,
            }
        }
        if !self.handshake.complete && !self.handshake.session.is_handshaking() {
            self.on_complete(now)?;
        }
        Ok(())
    }

    /// TLS is complete.
    fn on_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        self.handshake.early.accepted =
            self.handshake.session.early_data_accepted().filter(|_| self.handshake.early.offered);
        if self.handshake.early.accepted == Some(false) {
            self.send_early_data_again(now);
        }
        if !self.handshake.params_applied {
            self.apply_peer_parameters(now)?;
            self.reports.tell(Event::HandshakeDataReady);
        }
        self.handshake.complete = true;
        self.begin_multipath();
        self.reports.stats.handshake_time = Some(now.saturating_since(self.handshake.started));
        self.reports.stats.resumed = self.handshake.session.resumed();
        self.reports.observe_state(now, ConnectionState::HandshakeComplete);
        if let Some(alpn) = self.handshake.session.alpn().map(<[u8]>::to_vec) {
            self.reports.observe(now, &ObserverEvent::AlpnSet { alpn: &alpn });
        }
        self.lifecycle.idle.set_keep_alive(now, self.config.keep_alive);
        self.reports.tell(Event::Connected);
        match self.side {
            Side::Client => {
                if let Some(accepted) = self.handshake.early.accepted {
                    self.reports.tell(Event::EarlyData { accepted });
                }
                self.paths.announce_reset_token(DataSpace::FIRST, &self.cids, &mut self.reports);
            }
            Side::Server => {
                // RFC 9001 section 4.1.2: complete is confirmed at the server.
                self.handshake.done_pending = true;
                self.handshake.tokens.is_pending = self.handshake.tokens.new.is_some();
                self.keys.discard_early_at(now + self.recovery.pto(SpaceId::DATA) * 3);
                self.paths.active_mut().validated = true;
                self.update_amplification_limit(now);
                self.confirm(now);
            }
        }
        Ok(())
    }

    /// The server has refused our 0-RTT data: everything goes out once more under 1-RTT keys (RFC 9001 section 4.6.2).
    fn send_early_data_again(&mut self, now: Instant) {
        self.withdraw(now, SpaceId::DATA);
        self.streams.zero_rtt_rejected();
    }

    /// Takes back all that is in flight in `space` without blaming the network, and queues its content again.
    pub(super) fn withdraw(&mut self, now: Instant, space: SpaceId) {
        let mut outcome = std::mem::take(&mut self.spaces.outcome);
        outcome.clear();
        self.recovery.withdraw(now, space, &mut outcome);
        self.on_outcome(now, &mut outcome);
        self.spaces.outcome = outcome;
    }

    /// The handshake is confirmed.
    pub(super) fn confirm(&mut self, now: Instant) {
        if self.handshake.confirmed {
            return;
        }
        self.handshake.confirmed = true;
        if self.side.is_client() {
            self.repeat.end_copies();
        }
        self.recovery.set_peer_validated();
        self.recovery.set_handshake_confirmed(now);
        self.discard_space(now, SpaceId::Handshake);
        self.reports.tell(Event::HandshakeConfirmed);
        self.reports.tell_endpoint(EndpointEvent::HandshakeOver);
        self.reports.observe_state(now, ConnectionState::HandshakeConfirmed);
    }

    /// Forgets the keys and packets of a space (RFC 9001 section 4.9).
    pub(super) fn discard_space(&mut self, now: Instant, space: SpaceId) {
        if !self.keys.has(space) {
            return;
        }
        self.repeat.note_missed_packets(&self.spaces);
        self.keys.discard(space);
        self.recovery.discard(now, space);
        let ack = AckConfig { max_ack_delay: self.config.max_ack_delay, ..AckConfig::default() };
        self.spaces.discard(space, ack);
        self.repeat.discard(space);
        let kind = if space == SpaceId::Initial { PacketKind::Initial } else { PacketKind::Handshake };
        self.reports.observe(now, &ObserverEvent::KeyDiscarded { kind });
    }

    /// Lets the peer's transport parameters bind us (RFC 9000 section 7.4).
    fn apply_peer_parameters(&mut self, now: Instant) -> Result<(), TransportError> {
        let params = self.handshake.take_peer_parameters(self.side)?;
        self.handshake.params_applied = true;
        self.streams.set_peer_limits(&stream_limits(&params));
        self.datagrams.set_peer_max_frame_size(Some(params.max_datagram_frame_size));
        self.recovery.set_max_ack_delay(params.max_ack_delay);
        let acks = &mut self.spaces[SpaceId::DATA].acks;
        acks.report_arrivals(params.max_receive_timestamps_per_ack, params.receive_timestamps_exponent);
        self.lifecycle.idle.set_peer(self.config.max_idle_timeout, params.max_idle_timeout);
        self.recovery.set_idle_timeout(self.lifecycle.idle.timeout);
        self.cids.local.set_peer_limit(params.active_connection_id_limit);
        if let Some(token) = params.stateless_reset_token {
            self.cids.remote.set_initial_reset_token(token);
        }
        if self.side.is_client() {
            self.handshake.migration_allowed = !params.disable_active_migration;
        }
        self.handshake.peer_params = params;
        self.negotiate_paths()?;
        for path in self.paths.iter_mut() {
            path.mtu = mtu_discovery(now, &self.config, self.handshake.peer_params.max_udp_payload_size);
        }
        let params = self.handshake.peer_params.clone();
        self.observe_parameters(now, Owner::Remote, &params, false);
        Ok(())
    }

    /// Issues connection IDs the peer has room for. `issue` makes one and its reset token, as long as there are any.
    pub(crate) fn issue_cids(&mut self, mut issue: impl FnMut() -> Option<(ConnectionId, ResetToken)>) {
        if !self.handshake.complete || !self.lifecycle.is_open() {
            return;
        }
        for _ in 0..self.cids.local.wanted() {
            let Some((cid, token)) = issue() else { return };
            self.cids.local.issue(cid, token);
            self.reports.tell_endpoint(EndpointEvent::CidIssued(cid));
        }
        self.issue_path_cids(&mut issue);
    }

    /// Client: a Retry packet arrived. Returns whether it was taken.
    pub(super) fn on_retry(&mut self, now: Instant, scid: ConnectionId, token: &[u8], packet: &[u8]) -> bool {
        if !self.handshake.on_retry(scid, token, packet, &mut self.keys) {
            return false;
        }
        self.lifecycle.idle.on_answer();
        self.cids.remote.set_initial(scid);
        self.withdraw(now, SpaceId::Initial);
        self.withdraw(now, SpaceId::DATA);
        true
    }

    /// Client: a Version Negotiation packet arrived (RFC 9000 section 6.2). We offer one version per attempt, so all
    /// that can be done is to end with a clear error, unless the packet is nonsense.
    pub(super) fn on_version_negotiation(&mut self, now: Instant, offered: &[Version]) {
        if self.handshake.heard || !self.side.is_client() || offered.contains(&self.handshake.version) {
            return;
        }
        self.drain(now, ConnectionError::VersionMismatch);
        self.lifecycle.phase = Phase::Closed;
        self.reports.tell_endpoint(EndpointEvent::Drained);
    }

    pub(super) fn observe_parameters(
        &mut self,
        now: Instant,
        owner: Owner,
        params: &TransportParameters,
        restored: bool,
    ) {
        if self.reports.is_observed() {
            let values = parameter_values(params);
            self.reports.observe(now, &ObserverEvent::ParametersSet { owner, values: &values, restored });
        }
    }

    fn observe_key(&mut self, now: Instant, kind: PacketKind, owner: Owner) {
        let generation = self.keys.updates;
        self.reports.observe(now, &ObserverEvent::KeyUpdated { kind, owner, generation, trigger: KeyTrigger::Tls });
    }
}
