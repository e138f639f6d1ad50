//! The handshake: TLS, keys, versions, tokens, Retry, 0-RTT, and its outcome.

mod accept;
mod client;
mod early;
mod keys;
mod parameters;
mod retry;
mod saved_path_tokens;
mod tokens;
mod versions;
mod waiting;

use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

pub(crate) use self::{
    accept::{Accept, Beginning},
    client::ClientSide,
    early::Early,
    keys::{KeyStore, Opened, nonce_path},
    parameters::{local_parameters, parameter_values, stream_limits},
    saved_path_tokens::SavedPathTokens,
    tokens::Tokens,
    versions::{ClientHello, open_copy},
    waiting::Waiting,
};
use crate::{
    cid::ConnectionId, crypto::Session, observe::PacketKind, transport_parameters::TransportParameters,
    version::Version,
};

/// What is only needed until the handshake is over, and its outcome.
pub(crate) struct Handshake {
    pub session: Box<dyn Session>,
    /// The version in use.
    pub version: Version,
    /// The version of the client's first flight.
    pub original_version: Version,
    pub started: Instant,
    /// TLS is complete (RFC 9001 section 4.1.1).
    pub complete: bool,
    /// RFC 9001 section 4.1.2.
    pub confirmed: bool,
    /// Client: a packet of the server was processed, so Retry and Version Negotiation come too late.
    pub heard: bool,
    pub ids: HandshakeIds,
    /// The peer's transport parameters.
    pub peer_params: TransportParameters,
    /// It has.
    pub params_applied: bool,
    pub migration_allowed: bool,
    /// We have sent initial_max_path_id.
    pub offers_paths: bool,
    pub early: Early,
    pub tokens: Tokens,
    /// Server: a HANDSHAKE_DONE frame is to be sent.
    pub done_pending: bool,
    /// The space that bytes from TLS now belong to.
    pub write_level: SpaceId,
    /// Packets whose keys are still to come.
    pub waiting: Vec<Waiting>,
    pub client: Option<ClientSide>,
    /// Server, until the first datagram was handled: what the connection can begin anew with.
    pub beginning: Option<Box<Beginning>>,
}

/// Connection IDs that the handshake authenticates (RFC 9000 section 7.3).
pub(crate) struct HandshakeIds {
    /// The destination of the client's very first Initial.
    pub original_dcid: ConnectionId,
    /// The source of the Retry, if there was one.
    pub retry_scid: Option<ConnectionId>,
    /// The source of the peer's first Initial.
    pub peer_scid: Option<ConnectionId>,
}

impl Handshake {
    /// Of a connection that begins now.
    pub fn new(now: Instant, session: Box<dyn Session>, version: Version, original_dcid: ConnectionId) -> Handshake {
        Handshake {
            session,
            version,
            original_version: version,
            started: now,
            complete: false,
            confirmed: false,
            heard: false,
            ids: HandshakeIds { original_dcid, retry_scid: None, peer_scid: None },
            peer_params: TransportParameters::default(),
            params_applied: false,
            migration_allowed: true,
            offers_paths: false,
            early: Early::default(),
            tokens: Tokens::default(),
            done_pending: false,
            write_level: SpaceId::Initial,
            waiting: Vec::new(),
            client: None,
            beginning: None,
        }
    }

    /// Whether frames of the handshake's end wait to be sent: HANDSHAKE_DONE or NEW_TOKEN.
    pub fn has_frames(&self) -> bool {
        self.done_pending || self.tokens.is_pending
    }

    /// Server: whether a packet is of the version the client began with, before it learnt of our choice.
    pub fn is_of_first_flight(&self, version: Version, kind: PacketKind) -> bool {
        self.client.is_none() && version == self.original_version && kind == PacketKind::Initial
    }
}
