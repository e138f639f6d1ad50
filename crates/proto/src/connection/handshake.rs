//! Getting started: TLS over CRYPTO frames, transport parameters, 0-RTT, Retry, version negotiation, confirmation.

use std::{net::IpAddr, net::SocketAddr, sync::Arc, time::Duration};

use rand_chacha::ChaCha8Rng;
use rand_core::Rng as _;
use thalweg_recovery::{Config as RecoveryConfig, NewPath, PathMemory, Profile, Recovery, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection, EndpointEvent, Event,
    cids::Cids,
    keys::KeyStore,
    known_path::KnownPath,
    lifecycle::{IdleTimers, Lifecycle},
    paths::{Path, PathSet, Spin, mtu_discovery},
    reconfigure::Beginning,
    repeat::Repeat,
    reports::Reports,
    spaces::Spaces,
};
use crate::{
    Side,
    ack::AckConfig,
    cid::{ConnectionId, LocalCids, RemoteCids, ResetToken},
    config::{ClientConfig, ConnectError, PathStore, ServerConfig, TokenStore, TransportConfig},
    crypto::{ClientCrypto, KeyChange, Keys, Session},
    datagrams::Datagrams,
    error::{ConnectionError, TransportError},
    observe::{ConnectionState, KeyTrigger, ObservedConnection, ObserverEvent, Owner, PacketKind, ParameterValues},
    streams::{StreamLimits, Streams},
    transport_parameters::{self, ExpectedIds, TransportParameters, VersionInformation, check_version_information},
    version::Version,
};

/// What is only needed until the handshake is over, and its outcome.
pub(super) struct Handshake {
    /// TLS is complete (RFC 9001 section 4.1.1).
    pub(super) complete: bool,
    /// RFC 9001 section 4.1.2.
    pub(super) confirmed: bool,
    pub(super) migration_allowed: bool,
    /// Client: 0-RTT keys existed. Their verdict is in `early_accepted`.
    early_offered: bool,
    pub(super) early_accepted: Option<bool>,
    /// Client: the server's parameters that bound our 0-RTT data.
    remembered: Option<TransportParameters>,
    /// The token for our Initial packets, from Retry or NEW_TOKEN.
    pub(super) token: Vec<u8>,
    /// Server: a HANDSHAKE_DONE frame is to be sent.
    pub(super) done_pending: bool,
    /// Server: the NEW_TOKEN frame to send, kept for repetition, and whether it is to be sent now.
    pub(super) new_token: Option<Vec<u8>>,
    pub(super) new_token_pending: bool,
    /// Server: what tokens tell about the path.
    pub(super) known_path: Option<KnownPath>,
    /// The destination of the client's very first Initial.
    pub(super) original_dcid: ConnectionId,
    /// The source of the Retry, if there was one.
    pub(super) retry_scid: Option<ConnectionId>,
    /// The source of the peer's first Initial.
    pub(super) peer_scid: Option<ConnectionId>,
    /// Client: a packet of the server was processed, so Retry and Version Negotiation come too late.
    pub(super) heard: bool,
    /// The space that bytes from TLS now belong to.
    write_level: SpaceId,
    params_applied: bool,
    pub(super) started: Instant,
    /// The version of the client's first flight.
    pub(super) original_version: Version,
    pub(super) client: Option<ClientSide>,
    /// Server, until the first datagram was handled: what the connection can begin anew with.
    pub(super) beginning: Option<Box<Beginning>>,
}

pub(super) struct ClientSide {
    crypto: Arc<dyn ClientCrypto>,
    tokens: Option<Arc<dyn TokenStore>>,
    pub(super) paths: Option<Arc<dyn PathStore>>,
    pub(super) server_name: String,
    /// What was taken from `paths`.
    pub(super) taken: Option<PathMemory>,
}

impl Handshake {
    /// Client: the Initial keys for a version and the destination our Initial packets carry.
    pub(super) fn initial_keys(&self, version: Version, dcid: &ConnectionId) -> Option<Keys> {
        let client = self.client.as_ref()?;
        Some(client.crypto.initial_keys(version, dcid.as_slice(), Side::Client))
    }
}

/// What the endpoint has worked out about a client's first datagram.
#[derive(Clone)]
pub(crate) struct Accept {
    /// The version the connection will use.
    pub(crate) version: Version,
    /// The version of the client's first flight.
    pub(crate) first_version: Version,
    /// Destination of the packet at hand, from which Initial keys derive.
    pub(crate) dcid: ConnectionId,
    /// Destination of the client's very first Initial: differs from `dcid` after a Retry.
    pub(crate) original_dcid: ConnectionId,
    pub(crate) retry_scid: Option<ConnectionId>,
    pub(crate) peer_scid: ConnectionId,
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    /// A valid token proved the address.
    pub(crate) address_validated: bool,
    /// What a NEW_TOKEN frame is to carry, if one is to be sent.
    pub(crate) new_token: Option<Vec<u8>>,
    /// What an earlier connection learned about the path, by a valid token.
    pub(crate) memory: Option<PathMemory>,
    /// Seconds since 1970.
    pub(crate) unix_time: u64,
    pub(crate) reset_token: ResetToken,
}

/// The parts both sides share at birth.
struct Birth {
    side: Side,
    now: Instant,
    rng: ChaCha8Rng,
    config: Arc<TransportConfig>,
    version: Version,
    local_cid: ConnectionId,
    remote_cid: ConnectionId,
    original_dcid: ConnectionId,
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    validated: bool,
    /// What an earlier connection learned about the path.
    memory: Option<PathMemory>,
}

impl Connection {
    /// A client's connection, ready to send its first flight.
    ///
    /// # Errors
    /// If TLS or the version cannot be used.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn client(
        now: Instant,
        mut rng: ChaCha8Rng,
        config: ClientConfig,
        server_name: &str,
        remote: SocketAddr,
        local_cid: ConnectionId,
    ) -> Result<Connection, ConnectError> {
        // RFC 9000 section 7.2: at least eight unpredictable bytes.
        let dcid = ConnectionId::random(&mut rng, 8);
        let token = config.tokens.as_ref().and_then(|tokens| tokens.take(server_name)).unwrap_or_default();
        let streams = Streams::new(Side::Client, config.transport.streams.clone());
        let mut params = local_parameters(&config.transport, &streams.initial_limits(), local_cid, config.version);
        if let Some(versions) = &mut params.version_information {
            // Best first (RFC 9368 section 3); a stable sort leaves the rest as it is.
            let rank = |version: &Version| config.preferred_versions.iter().position(|preferred| preferred == version);
            versions.available.sort_by_key(|version| rank(version).unwrap_or(usize::MAX));
        }
        let mut encoded = Vec::new();
        params.encode(&mut encoded, Some(&mut rng));
        transport_parameters::pad(&mut encoded, config.transport.handshake_padding);
        let session = config.crypto.start(config.version, server_name, &encoded)?;
        let taken = config.paths.as_ref().and_then(|paths| paths.take(server_name, remote));
        let birth = Birth {
            side: Side::Client,
            now,
            rng,
            config: config.transport.clone(),
            version: config.version,
            local_cid,
            remote_cid: dcid,
            original_dcid: dcid,
            remote,
            local_ip: None,
            validated: true,
            memory: taken,
        };
        let mut this = Self::born(birth, session, streams);
        this.handshake.token = token;
        this.idle.set_connect_timeout(now, config.connect_timeout);
        this.keys.install_initial(config.crypto.initial_keys(config.version, dcid.as_slice(), Side::Client));
        this.handshake.client = Some(ClientSide {
            crypto: config.crypto,
            tokens: config.tokens,
            paths: config.paths,
            server_name: server_name.to_owned(),
            taken,
        });
        this.observe_parameters(now, Owner::Local, &params, false);
        this.drive_tls(now).map_err(ConnectError::Tls)?;
        if let Some(keys) = this.session.early_keys() {
            let remembered = this.session.transport_parameters().map(|p| TransportParameters::decode(p, Side::Server));
            if let Some(Ok(remembered)) = remembered {
                this.keys.install_early(keys);
                this.handshake.early_offered = true;
                this.streams.set_peer_limits(&stream_limits(&remembered));
                this.datagrams.set_peer_max_frame_size(Some(remembered.max_datagram_frame_size));
                this.observe_parameters(now, Owner::Remote, &remembered, true);
                this.handshake.remembered = Some(remembered);
            }
        }
        Ok(this)
    }

    /// A server's connection for a client's first Initial, which is to be given to [`Connection::handle_datagram`] next.
    ///
    /// # Errors
    /// If TLS cannot be used.
    pub(crate) fn server(
        now: Instant,
        mut rng: ChaCha8Rng,
        config: &ServerConfig,
        accept: Accept,
        local_cid: ConnectionId,
    ) -> Result<Connection, ConnectError> {
        let streams = Streams::new(Side::Server, config.transport.streams.clone());
        let mut params = local_parameters(&config.transport, &streams.initial_limits(), local_cid, accept.version);
        params.original_destination_connection_id = Some(accept.original_dcid);
        params.retry_source_connection_id = accept.retry_scid;
        params.stateless_reset_token = Some(accept.reset_token);
        params.disable_active_migration = !config.migration;
        let mut encoded = Vec::new();
        params.encode(&mut encoded, Some(&mut rng));
        transport_parameters::pad(&mut encoded, config.transport.handshake_padding);
        let session = config.crypto.start(accept.version, &encoded)?;
        let beginning = Beginning::new(config, &accept);
        let birth = Birth {
            side: Side::Server,
            now,
            rng,
            config: config.transport.clone(),
            version: accept.version,
            local_cid,
            remote_cid: accept.peer_scid,
            original_dcid: accept.original_dcid,
            remote: accept.remote,
            local_ip: accept.local_ip,
            validated: accept.address_validated,
            memory: accept.memory,
        };
        let mut this = Self::born(birth, session, streams);
        this.handshake.known_path = KnownPath::new(config, accept.unix_time, now);
        this.handshake.retry_scid = accept.retry_scid;
        this.handshake.peer_scid = Some(accept.peer_scid);
        this.handshake.new_token = accept.new_token;
        this.handshake.migration_allowed = config.migration;
        this.handshake.beginning = Some(Box::new(beginning));
        if accept.first_version != accept.version {
            this.handshake.original_version = accept.first_version;
            let first = config.crypto.initial_keys(accept.first_version, accept.dcid.as_slice(), Side::Server);
            this.keys.install_first_version(first.remote);
            let (chosen, original) = (accept.version.0, accept.first_version.0);
            this.reports.observe(now, &ObserverEvent::VersionNegotiated { chosen, original });
        }
        this.keys.install_initial(config.crypto.initial_keys(accept.version, accept.dcid.as_slice(), Side::Server));
        this.observe_parameters(now, Owner::Local, &params, false);
        this.update_amplification_limit(now);
        Ok(this)
    }

    fn born(birth: Birth, session: Box<dyn Session>, streams: Streams) -> Connection {
        let Birth { side, now, config, version, remote, mut rng, .. } = birth;
        let observer = config.observer.as_ref().and_then(|factory| {
            factory.build(&ObservedConnection {
                side,
                original_destination_cid: birth.original_dcid.as_slice(),
                remote,
                start: now,
            })
        });
        let mut recovery = Recovery::new(
            RecoveryConfig {
                policies: config.policies.clone(),
                max_rate: config.max_rate,
                initial_rtt: config.initial_rtt,
                profile: Profile { initial_window: config.initial_window, ..Profile::QUIC },
                ecn: config.ecn,
                trace: observer.is_some(),
                idle_timeout: config.max_idle_timeout,
                seed: rng.next_u64(),
                ..RecoveryConfig::default()
            },
            side.is_client(),
        );
        let id = recovery.add_path(now, NewPath::new(config.initial_mtu).to(remote).remembered(birth.memory));
        let ack = AckConfig {
            max_ack_delay: config.max_ack_delay,
            min_ack_delay: min_ack_delay(&config).unwrap_or_default(),
            policy: config.acks,
            ..AckConfig::default()
        };
        let mtu = mtu_discovery(now, &config, u64::MAX);
        let path = Path::new(id, remote, birth.local_ip, birth.validated, mtu);
        let mut this = Connection {
            side,
            version,
            rng,
            session,
            handshake: Handshake {
                complete: false,
                confirmed: false,
                migration_allowed: true,
                early_offered: false,
                early_accepted: None,
                remembered: None,
                token: Vec::new(),
                done_pending: false,
                new_token: None,
                new_token_pending: false,
                known_path: None,
                original_dcid: birth.original_dcid,
                retry_scid: None,
                peer_scid: None,
                heard: false,
                write_level: SpaceId::Initial,
                params_applied: false,
                started: now,
                original_version: version,
                client: None,
                beginning: None,
            },
            keys: KeyStore::default(),
            spaces: Spaces::new(&ack),
            recovery,
            paths: PathSet::new(now, path),
            cids: Cids {
                local: LocalCids::new(birth.local_cid),
                remote: RemoteCids::new(birth.remote_cid, config.active_connection_ids),
                own: birth.local_cid,
            },
            peer_params: TransportParameters::default(),
            streams,
            datagrams: Datagrams::new(config.datagrams.clone()),
            lifecycle: Lifecycle::Open,
            idle: IdleTimers::new(now, config.max_idle_timeout, None),
            close_when_done: None,
            error: None,
            undecryptable: Vec::new(),
            repeat: Repeat::new(&config.policies),
            ack_requests: Default::default(),
            suspended: None,
            reports: Reports::new(observer),
            config,
        };
        this.paths.active_mut().spin = Spin::new(this.config.spin_bit, &mut this.rng);
        // Handshakes are short, and a gap in theirs would look like a loss: only application data are worth the trap.
        if this.config.skip_packet_numbers {
            this.spaces[SpaceId::DATA].numbers.start_skipping(&mut this.rng);
        }
        this.reports.observe(
            now,
            &ObserverEvent::ConnectionStarted {
                local: None,
                remote,
                local_cid: birth.local_cid.as_slice(),
                remote_cid: birth.remote_cid.as_slice(),
                version: version.0,
            },
        );
        this.reports.observe_state(now, ConnectionState::Attempted);
        this
    }

    /// Feeds TLS what is readable in `space`, and takes what it says.
    pub(super) fn read_crypto(&mut self, now: Instant, space: SpaceId) -> Result<(), TransportError> {
        loop {
            let crypto = &mut self.spaces[space].crypto;
            let len = crypto.readable().len();
            if len == 0 {
                return Ok(());
            }
            self.session.read_handshake(crypto.readable())?;
            crypto.consume(len);
            self.drive_tls(now)?;
        }
    }

    /// Takes bytes and keys from TLS until it has no more.
    pub(super) fn drive_tls(&mut self, now: Instant) -> Result<(), TransportError> {
        let server = self.side == Side::Server;
        if server && !self.handshake.params_applied && self.session.transport_parameters().is_some() {
            self.apply_peer_parameters(now)?;
            self.reports.tell(Event::HandshakeDataReady);
        }
        if server
            && !self.handshake.complete
            && !self.keys.has_early()
            && let Some(keys) = self.session.early_keys()
        {
            self.keys.install_early(keys);
            self.handshake.early_offered = true;
            self.observe_key(now, PacketKind::ZeroRtt, Owner::Remote);
        }
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let change = self.session.write_handshake(&mut bytes);
            self.spaces[self.handshake.write_level].crypto.write(&bytes);
            match change {
                Some(KeyChange::Handshake(keys)) => {
                    self.keys.install_handshake(keys);
                    self.recovery.set_has_handshake_keys();
                    self.handshake.write_level = SpaceId::Handshake;
                    self.observe_key(now, PacketKind::Handshake, Owner::Local);
                }
                Some(KeyChange::OneRtt(keys)) => {
                    self.keys.install_one_rtt(keys, &mut *self.session);
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
        if !self.handshake.complete && !self.session.is_handshaking() {
            self.on_complete(now)?;
        }
        Ok(())
    }

    /// TLS is complete.
    fn on_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        self.handshake.early_accepted = self.session.early_data_accepted().filter(|_| self.handshake.early_offered);
        if self.handshake.early_accepted == Some(false) {
            self.send_early_data_again(now);
        }
        if !self.handshake.params_applied {
            self.apply_peer_parameters(now)?;
            self.reports.tell(Event::HandshakeDataReady);
        }
        self.handshake.complete = true;
        self.reports.stats.handshake_time = Some(now.saturating_since(self.handshake.started));
        self.reports.stats.resumed = self.session.resumed();
        self.reports.observe_state(now, ConnectionState::HandshakeComplete);
        if let Some(alpn) = self.session.alpn().map(<[u8]>::to_vec) {
            self.reports.observe(now, &ObserverEvent::AlpnSet { alpn: &alpn });
        }
        self.idle.set_keep_alive(now, self.config.keep_alive);
        self.reports.tell(Event::Connected);
        match self.side {
            Side::Client => {
                if let Some(accepted) = self.handshake.early_accepted {
                    self.reports.tell(Event::EarlyData { accepted });
                }
                self.paths.announce_reset_token(&self.cids, &mut self.reports);
            }
            Side::Server => {
                // RFC 9001 section 4.1.2: complete is confirmed at the server.
                self.handshake.done_pending = true;
                self.handshake.new_token_pending = self.handshake.new_token.is_some();
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
    fn withdraw(&mut self, now: Instant, space: SpaceId) {
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

    /// Validates the peer's transport parameters and lets them bind us (RFC 9000 section 7.4).
    fn apply_peer_parameters(&mut self, now: Instant) -> Result<(), TransportError> {
        let Some(encoded) = self.session.transport_parameters() else {
            return Err(TransportError::crypto(109, "the peer sent no QUIC transport parameters"));
        };
        let params = TransportParameters::decode(encoded, self.side.peer())?;
        let client = self.side.is_client();
        params.check_ids(&ExpectedIds {
            initial_source: self.handshake.peer_scid.unwrap_or_default(),
            original_destination: client.then_some(self.handshake.original_dcid),
            retry_source: self.handshake.retry_scid.filter(|_| client),
        })?;
        check_version_information(
            params.version_information.as_ref(),
            self.side,
            // A client speaks of its first flight, a server of what it has chosen.
            if client { self.version } else { self.handshake.original_version },
            // We never act upon a Version Negotiation packet, only upon a compatible answer.
            false,
            Version::SUPPORTED,
        )?;
        if let Some(remembered) = self.handshake.remembered.take()
            && self.handshake.early_accepted == Some(true)
        {
            params.check_not_below(&remembered)?;
        }
        self.handshake.params_applied = true;

        self.streams.set_peer_limits(&stream_limits(&params));
        self.datagrams.set_peer_max_frame_size(Some(params.max_datagram_frame_size));
        self.recovery.set_max_ack_delay(params.max_ack_delay);
        let acks = &mut self.spaces[SpaceId::DATA].acks;
        acks.report_arrivals(params.max_receive_timestamps_per_ack, params.receive_timestamps_exponent);
        self.idle.set_peer(self.config.max_idle_timeout, params.max_idle_timeout);
        self.recovery.set_idle_timeout(self.idle.timeout);
        self.cids.local.set_peer_limit(params.active_connection_id_limit);
        if let Some(token) = params.stateless_reset_token {
            self.cids.remote.set_initial_reset_token(token);
        }
        if self.side.is_client() {
            self.handshake.migration_allowed = !params.disable_active_migration;
        }
        self.peer_params = params;
        for path in self.paths.iter_mut() {
            path.mtu = mtu_discovery(now, &self.config, self.peer_params.max_udp_payload_size);
        }
        let params = self.peer_params.clone();
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
    }

    /// Client: a Retry packet arrived (RFC 9000 section 17.2.5.2). Returns whether it was taken.
    pub(super) fn on_retry(&mut self, now: Instant, scid: ConnectionId, token: &[u8], packet: &[u8]) -> bool {
        let Some(client) = self.handshake.client.as_ref() else {
            return false;
        };
        if self.handshake.heard || self.handshake.retry_scid.is_some() || token.is_empty() {
            return false;
        }
        let original = self.handshake.original_dcid;
        let tag = |body: &[u8]| client.crypto.retry_tag(self.version, original.as_slice(), body);
        if scid == original || !crate::packet::verify_retry(packet, tag) {
            return false;
        }
        let keys = client.crypto.initial_keys(self.version, scid.as_slice(), Side::Client);
        self.keys.install_initial(keys);
        self.handshake.token = token.to_vec();
        self.handshake.retry_scid = Some(scid);
        self.idle.on_answer();
        self.cids.remote.set_initial(scid);
        self.withdraw(now, SpaceId::Initial);
        self.withdraw(now, SpaceId::DATA);
        true
    }

    /// Client: a Version Negotiation packet arrived (RFC 9000 section 6.2). We offer one version per attempt, so all
    /// that can be done is to end with a clear error, unless the packet is nonsense.
    pub(super) fn on_version_negotiation(&mut self, now: Instant, offered: &[Version]) {
        if self.handshake.heard || !self.side.is_client() || offered.contains(&self.version) {
            return;
        }
        self.drain(now, ConnectionError::VersionMismatch);
        self.lifecycle = Lifecycle::Closed;
        self.reports.tell_endpoint(EndpointEvent::Drained);
    }

    /// Client: the server handed out a token for next time.
    pub(super) fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        let Some(client) = self.handshake.client.as_ref() else {
            return Err(TransportError::protocol_violation("NEW_TOKEN from a client"));
        };
        if token.is_empty() {
            return Err(TransportError::frame_encoding("NEW_TOKEN with an empty token"));
        }
        if let Some(tokens) = &client.tokens {
            tokens.insert(&client.server_name, token.to_vec());
        }
        Ok(())
    }

    fn observe_key(&mut self, now: Instant, kind: PacketKind, owner: Owner) {
        let generation = self.keys.updates;
        self.reports.observe(now, &ObserverEvent::KeyUpdated { kind, owner, generation, trigger: KeyTrigger::Tls });
    }

    fn observe_parameters(&mut self, now: Instant, owner: Owner, params: &TransportParameters, restored: bool) {
        if !self.reports.is_observed() {
            return;
        }
        let values = ParameterValues {
            max_idle_timeout_ms: params.max_idle_timeout.map_or(0, millis),
            max_udp_payload_size: params.max_udp_payload_size,
            initial_max_data: params.initial_max_data,
            initial_max_stream_data_bidi_local: params.initial_max_stream_data_bidi_local,
            initial_max_stream_data_bidi_remote: params.initial_max_stream_data_bidi_remote,
            initial_max_stream_data_uni: params.initial_max_stream_data_uni,
            initial_max_streams_bidi: params.initial_max_streams_bidi,
            initial_max_streams_uni: params.initial_max_streams_uni,
            ack_delay_exponent: u64::from(params.ack_delay_exponent),
            max_ack_delay_ms: millis(params.max_ack_delay),
            disable_active_migration: params.disable_active_migration,
            active_connection_id_limit: params.active_connection_id_limit,
            max_datagram_frame_size: (params.max_datagram_frame_size > 0).then_some(params.max_datagram_frame_size),
            min_ack_delay_us: params.min_ack_delay.map(|delay| delay.as_micros() as u64),
            max_receive_timestamps_per_ack: (params.max_receive_timestamps_per_ack > 0)
                .then_some(params.max_receive_timestamps_per_ack),
        };
        self.reports.observe(now, &ObserverEvent::ParametersSet { owner, values: &values, restored });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Our min_ack_delay as it is sent, in whole microseconds: no larger than what is sent as max_ack_delay, which is in
/// whole milliseconds (draft-ietf-quic-ack-frequency section 3).
pub(super) fn min_ack_delay(config: &TransportConfig) -> Option<Duration> {
    let most = Duration::from_millis(millis(config.max_ack_delay));
    config.min_ack_delay.map(|least| {
        let micros = u64::try_from(least.min(most).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros)
    })
}

/// What we tell the peer.
fn local_parameters(
    config: &TransportConfig,
    limits: &StreamLimits,
    scid: ConnectionId,
    version: Version,
) -> TransportParameters {
    TransportParameters {
        max_idle_timeout: config.max_idle_timeout.filter(|timeout| !timeout.is_zero()),
        max_udp_payload_size: u64::from(config.max_udp_payload),
        initial_max_data: limits.max_data,
        initial_max_stream_data_bidi_local: limits.stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: limits.stream_data_bidi_remote,
        initial_max_stream_data_uni: limits.stream_data_uni,
        initial_max_streams_bidi: limits.streams_bidi,
        initial_max_streams_uni: limits.streams_uni,
        max_ack_delay: config.max_ack_delay,
        min_ack_delay: min_ack_delay(config),
        max_receive_timestamps_per_ack: config.timestamps_asked_for(),
        active_connection_id_limit: config.active_connection_ids,
        initial_source_connection_id: Some(scid),
        max_datagram_frame_size: config.datagrams.max_frame_size,
        version_information: Some(version_information(version)),
        ..TransportParameters::default()
    }
}

/// We deploy every version we support, and prefer the one in use.
fn version_information(chosen: Version) -> VersionInformation {
    let others = Version::SUPPORTED.iter().copied().filter(|version| *version != chosen);
    VersionInformation { chosen, available: std::iter::once(chosen).chain(others).collect() }
}

/// The peer's stream limits as the streams understand them.
fn stream_limits(params: &TransportParameters) -> StreamLimits {
    StreamLimits {
        max_data: params.initial_max_data,
        stream_data_bidi_local: params.initial_max_stream_data_bidi_local,
        stream_data_bidi_remote: params.initial_max_stream_data_bidi_remote,
        stream_data_uni: params.initial_max_stream_data_uni,
        streams_bidi: params.initial_max_streams_bidi,
        streams_uni: params.initial_max_streams_uni,
    }
}
