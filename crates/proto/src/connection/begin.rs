//! The beginning of a connection: a client's, a server's, and a server's begun anew with a configuration for one
//! client.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use thalweg_recovery::{Config as RecoveryConfig, NewPath, Profile, Recovery, SavedPath, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection,
    cids::Cids,
    handshake::{Accept, Beginning, ClientSide, Handshake, KeyStore, SavedPathTokens, local_parameters, stream_limits},
    idle::IdleTimers,
    lifecycle::Lifecycle,
    paths::{Path, Paths, Spin, mtu_discovery},
    repeat::Repeat,
    reports::Reports,
    spaces::Spaces,
};
use crate::{
    Side,
    cid::{ConnectionId, LocalCids, RemoteCids},
    config::{ClientConfig, ConnectError, MultipathConfig, ServerConfig, TransportConfig},
    crypto::Session,
    datagrams::Datagrams,
    observe::{ConnectionState, ObservedConnection, ObserverEvent, Owner},
    streams::Streams,
    transport_parameters::{self, TransportParameters},
    version::Version,
};

/// What a connection of either side is made from.
struct ConnectionContext {
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
    /// What an earlier connection saved of the path.
    saved: Option<SavedPath>,
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
        params.initial_max_path_id = offered_paths(&config.transport, local_cid);
        if let Some(versions) = &mut params.version_information {
            // Best first (RFC 9368 section 3); a stable sort leaves the rest as it is.
            let rank = |version: &Version| config.preferred_versions.iter().position(|preferred| preferred == version);
            versions.available.sort_by_key(|version| rank(version).unwrap_or(usize::MAX));
        }
        let mut encoded = Vec::new();
        params.encode(&mut encoded, Some(&mut rng));
        transport_parameters::pad(&mut encoded, config.transport.handshake_padding);
        let session = config.crypto.start(config.version, server_name, &encoded)?;
        let taken = config.saved_paths.as_ref().and_then(|paths| paths.take(server_name, remote));
        let context = ConnectionContext {
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
            saved: taken,
        };
        let mut this = Self::build(context, session, streams);
        this.handshake.tokens.initial = token;
        this.lifecycle.idle.set_connect_timeout(now, config.connect_timeout);
        this.keys.install_initial(config.crypto.initial_keys(config.version, dcid.as_slice(), Side::Client));
        this.handshake.client = Some(ClientSide {
            crypto: config.crypto,
            tokens: config.tokens,
            saved_paths: config.saved_paths,
            server_name: server_name.to_owned(),
            taken,
        });
        this.handshake.offers_paths = params.initial_max_path_id.is_some();
        this.observe_parameters(now, Owner::Local, &params, false);
        this.drive_tls(now).map_err(ConnectError::Tls)?;
        if let Some(keys) = this.handshake.session.early_keys() {
            let remembered =
                this.handshake.session.transport_parameters().map(|p| TransportParameters::decode(p, Side::Server));
            if let Some(Ok(remembered)) = remembered {
                this.keys.install_early(keys);
                this.handshake.early.offered = true;
                this.streams.set_peer_limits(&stream_limits(&remembered));
                this.datagrams.set_peer_max_frame_size(Some(remembered.max_datagram_frame_size));
                this.observe_parameters(now, Owner::Remote, &remembered, true);
                this.handshake.early.remembered = Some(remembered);
            }
        }
        Ok(this)
    }

    /// A server's connection for a client's first Initial, which is to be given to [`Connection::handle_datagram`]
    /// next.
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
        // Only to a client that has asked for it.
        params.initial_max_path_id = offered_paths(&config.transport, local_cid).filter(|_| accept.asks_for_paths);
        let mut encoded = Vec::new();
        params.encode(&mut encoded, Some(&mut rng));
        transport_parameters::pad(&mut encoded, config.transport.handshake_padding);
        let session = config.crypto.start(accept.version, &encoded)?;
        let beginning = Beginning::new(config, &accept);
        let context = ConnectionContext {
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
            saved: accept.saved,
        };
        let mut this = Self::build(context, session, streams);
        this.handshake.offers_paths = params.initial_max_path_id.is_some();
        this.handshake.tokens.saved_path_tokens = SavedPathTokens::new(config, accept.unix_time, now);
        this.handshake.ids.retry_scid = accept.retry_scid;
        this.handshake.ids.peer_scid = Some(accept.peer_scid);
        this.handshake.tokens.new = accept.new_token;
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

    fn build(context: ConnectionContext, session: Box<dyn Session>, streams: Streams) -> Connection {
        let ConnectionContext { side, now, config, version, remote, mut rng, .. } = context;
        let observer = config.observer.as_ref().and_then(|factory| {
            factory.build(&ObservedConnection {
                side,
                original_destination_cid: context.original_dcid.as_slice(),
                remote,
                start: now,
                transport: &config,
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
        let id = recovery.add_path(now, NewPath::new(config.initial_mtu).to(remote).saved(context.saved));
        let ack = config.ack_config();
        let mtu = mtu_discovery(now, &config, u64::MAX);
        let path = Path::new(id, remote, context.local_ip, context.validated, mtu);
        let mut this = Connection {
            side,
            rng,
            handshake: Handshake::new(now, session, version, context.original_dcid),
            keys: KeyStore::default(),
            spaces: Spaces::new(&ack),
            recovery,
            paths: Paths::new(now, path),
            cids: Cids {
                local: LocalCids::new(context.local_cid),
                remote: RemoteCids::new(context.remote_cid, config.active_connection_ids),
                own: context.local_cid,
                further: Vec::new(),
            },
            streams,
            datagrams: Datagrams::new(config.datagrams.clone()),
            lifecycle: Lifecycle::new(IdleTimers::new(now, config.max_idle_timeout, None)),
            repeat: Repeat::new(&config.policies),
            ack_requests: Default::default(),
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
                local_cid: context.local_cid.as_slice(),
                remote_cid: context.remote_cid.as_slice(),
                version: version.0,
            },
        );
        this.reports.observe_state(now, ConnectionState::Attempted);
        this
    }

    /// Server: begins anew with another configuration, for this client only. Possible until the first datagram is
    /// handled.
    ///
    /// TLS, the transport settings and whether the client may change its address are those of `config`. What the
    /// endpoint has decided already stays: the version, Retry, limits, and the tokens for later connections.
    ///
    /// # Errors
    /// [`ConnectError::AlreadyBegun`] if a datagram was handled or the connection is over. If TLS cannot be used: the
    /// connection is then to be [abandoned](crate::endpoint::Endpoint::abandon).
    pub fn reconfigure(&mut self, now: Instant, config: &ServerConfig) -> Result<(), ConnectError> {
        let beginning = self.handshake.beginning.take().filter(|_| self.lifecycle.is_open());
        let Some(Beginning { accept, token_key, new_tokens }) = beginning.map(|it| *it) else {
            return Err(ConnectError::AlreadyBegun);
        };
        let config = ServerConfig { token_key, new_tokens, ..config.clone() };
        // It may write to a file that the next observer of this connection opens again.
        self.reports.drop_observer();
        let rng = ChaCha8Rng::from_rng(&mut self.rng);
        *self = Self::server(now, rng, &config, accept, self.cids.own)?;
        Ok(())
    }
}

/// The transport parameter initial_max_path_id, if several paths are wanted and our connection IDs can tell them apart.
fn offered_paths(config: &TransportConfig, local_cid: ConnectionId) -> Option<u32> {
    let wanted = config.multipath.as_ref().filter(|_| !local_cid.is_empty());
    wanted.map(MultipathConfig::initial_max_path_id)
}
