//! Observers of a connection: every packet, parameter, key, path and recovery decision as an event.
//!
//! An [`Observer`] sees the events of one connection in order, with the time that the connection was given. Nothing
//! here reads a clock or touches the network, and a connection without an observer pays one branch per event.
//! The names follow the qlog event schemas (draft-ietf-quic-qlog-quic-events), which [`crate::qlog`] writes.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_recovery::{DataSpace, Ecn, PathId, SpaceId, trace};
use thalweg_units::Instant;

use crate::Side;
use crate::config::TransportConfig;
pub use crate::event_hash::EventHash;

/// Listens to one connection.
///
/// Called from inside the connection's own methods, so it must be quick; it may keep what it likes of an event, but
/// cannot influence the connection.
pub trait Observer: Send {
    /// Something happened at `now`. Times never decrease within a connection.
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>);
}

/// Makes an [`Observer`] for each new connection of an endpoint.
pub trait ObserverFactory: Send + Sync + Debug {
    /// The observer for this connection, or `None` if none is wanted.
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>>;
}

/// What is known of a connection when its observer is made.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct ObservedConnection<'a> {
    /// Which end we are.
    pub side: Side,
    /// The Destination Connection ID of the client's first Initial (after a Retry still the very first one): the name
    /// under which both ends' traces can be found.
    pub original_destination_cid: &'a [u8],
    /// The other end's address at the start.
    pub remote: SocketAddr,
    /// When the connection began: the zero of the trace's relative times.
    pub start: Instant,
    /// Our configuration at that time.
    pub transport: &'a TransportConfig,
}

/// What kind of packet (RFC 9000 section 17).
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PacketKind {
    /// Long header, Initial keys.
    Initial,
    /// Long header, 0-RTT keys.
    ZeroRtt,
    /// Long header, Handshake keys.
    Handshake,
    /// Short header, 1-RTT keys.
    OneRtt,
    /// A server's Retry; no packet number.
    Retry,
    /// A server's Version Negotiation; no packet number.
    VersionNegotiation,
    /// A stateless reset; no packet number.
    StatelessReset,
}

impl PacketKind {
    /// The name that qlog uses.
    pub fn label(self) -> &'static str {
        match self {
            PacketKind::Initial => "initial",
            PacketKind::ZeroRtt => "0RTT",
            PacketKind::Handshake => "handshake",
            PacketKind::OneRtt => "1RTT",
            PacketKind::Retry => "retry",
            PacketKind::VersionNegotiation => "version_negotiation",
            PacketKind::StatelessReset => "stateless_reset",
        }
    }

    /// The packet-number space, if packets of this kind carry a number.
    pub fn space(self) -> Option<SpaceId> {
        match self {
            PacketKind::Initial => Some(SpaceId::Initial),
            PacketKind::Handshake => Some(SpaceId::Handshake),
            PacketKind::ZeroRtt | PacketKind::OneRtt => Some(SpaceId::DATA),
            PacketKind::Retry | PacketKind::VersionNegotiation | PacketKind::StatelessReset => None,
        }
    }
}

/// How many ranges of an ACK frame a [`FrameInfo`] keeps.
pub const ACK_RANGES_KEPT: usize = 8;

/// The first ranges of an ACK frame, as a [`FrameInfo`] keeps them.
pub(crate) fn kept_ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> [(u64, u64); ACK_RANGES_KEPT] {
    let mut kept = [(0, 0); ACK_RANGES_KEPT];
    for (slot, range) in kept.iter_mut().zip(ranges) {
        *slot = range;
    }
    kept
}

/// A frame in brief: its type and the fields that explain what it did, never its payload, keys, tokens or ids.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the fields are those of RFC 9000 section 19, by their names
#[non_exhaustive]
pub enum FrameInfo {
    /// `len` PADDING frames in a row.
    Padding {
        len: u32,
    },
    Ping,
    /// `delay_us`: the acknowledgment delay in microseconds, scaled by the exponent.
    /// `ranges`: the highest ranges as (smallest, largest), both inclusive, descending; only the first
    /// `min(range_count, ACK_RANGES_KEPT)` are set. `ce`: the CE count if ECN counts were in the frame.
    Ack {
        delay_us: u64,
        range_count: u32,
        ranges: [(u64, u64); ACK_RANGES_KEPT],
        ecn: Option<[u64; 3]>,
        /// How many timestamps of arrival it has.
        timestamps: u32,
        /// PATH_ACK: the path identifier.
        path: Option<u64>,
    },
    ResetStream {
        id: u64,
        code: u64,
        final_size: u64,
    },
    StopSending {
        id: u64,
        code: u64,
    },
    Crypto {
        offset: u64,
        len: u32,
    },
    NewToken {
        len: u32,
    },
    Stream {
        id: u64,
        offset: u64,
        len: u32,
        fin: bool,
    },
    MaxData {
        max: u64,
    },
    MaxStreamData {
        id: u64,
        max: u64,
    },
    MaxStreams {
        bidi: bool,
        max: u64,
    },
    DataBlocked {
        limit: u64,
    },
    StreamDataBlocked {
        id: u64,
        limit: u64,
    },
    StreamsBlocked {
        bidi: bool,
        limit: u64,
    },
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
    },
    RetireConnectionId {
        sequence: u64,
    },
    PathChallenge,
    PathResponse,
    /// `application`: frame type 0x1d rather than 0x1c.
    ConnectionClose {
        application: bool,
        code: u64,
    },
    HandshakeDone,
    Datagram {
        len: u32,
    },
    /// draft-ietf-quic-ack-frequency; `max_ack_delay_us` in microseconds.
    AckFrequency {
        sequence: u64,
        threshold: u64,
        max_ack_delay_us: u64,
        reordering: u64,
    },
    ImmediateAck,
    /// draft-ietf-quic-multipath section 4; `path` is a path identifier.
    PathAbandon {
        path: u64,
        code: u64,
    },
    /// PATH_STATUS_BACKUP, or PATH_STATUS_AVAILABLE.
    PathStatus {
        path: u64,
        sequence: u64,
        backup: bool,
    },
    PathNewConnectionId {
        path: u64,
        sequence: u64,
        retire_prior_to: u64,
    },
    PathRetireConnectionId {
        path: u64,
        sequence: u64,
    },
    MaxPathId {
        max: u64,
    },
    PathsBlocked {
        max: u64,
    },
    PathCidsBlocked {
        path: u64,
        next_sequence: u64,
    },
}

/// Whose transport parameters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Ours, as sent to the peer.
    Local,
    /// The peer's: what binds us.
    Remote,
}

/// The transport parameters worth telling (RFC 9000 section 18.2 and extensions).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in the RFC; times in the unit their name ends with
#[non_exhaustive]
pub struct ParameterValues {
    /// 0: none.
    pub max_idle_timeout_ms: u64,
    pub max_udp_payload_size: u64,
    pub initial_max_data: u64,
    pub initial_max_stream_data_bidi_local: u64,
    pub initial_max_stream_data_bidi_remote: u64,
    pub initial_max_stream_data_uni: u64,
    pub initial_max_streams_bidi: u64,
    pub initial_max_streams_uni: u64,
    pub ack_delay_exponent: u64,
    pub max_ack_delay_ms: u64,
    pub disable_active_migration: bool,
    pub active_connection_id_limit: u64,
    pub max_datagram_frame_size: Option<u64>,
    pub min_ack_delay_us: Option<u64>,
    pub max_receive_timestamps_per_ack: Option<u64>,
    pub initial_max_path_id: Option<u64>,
}

/// How far a connection is (qlog's `connection_state_updated`).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first Initial was sent (client) or accepted (server).
    Attempted,
    /// The peer's address is validated.
    PeerValidated,
    /// Server: 1-RTT data can be sent although the handshake is not complete.
    EarlyWrite,
    /// TLS is done on our side (RFC 9001 section 4.1.1).
    HandshakeComplete,
    /// RFC 9001 section 4.1.2.
    HandshakeConfirmed,
    /// We sent CONNECTION_CLOSE and wait three PTOs.
    Closing,
    /// The peer closed or reset; nothing is sent any more.
    Draining,
    /// Gone.
    Closed,
}

impl ConnectionState {
    /// The name that qlog uses.
    pub fn label(self) -> &'static str {
        match self {
            ConnectionState::Attempted => "attempted",
            ConnectionState::PeerValidated => "peer_validated",
            ConnectionState::EarlyWrite => "early_write",
            ConnectionState::HandshakeComplete => "handshake_complete",
            ConnectionState::HandshakeConfirmed => "handshake_confirmed",
            ConnectionState::Closing => "closing",
            ConnectionState::Draining => "draining",
            ConnectionState::Closed => "closed",
        }
    }
}

/// Why a packet was thrown away.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// No keys for it (yet, or any more).
    KeyUnavailable,
    /// The tag did not match: damaged, forged, or of another connection.
    DecryptionFailure,
    /// Seen before.
    Duplicate,
    /// The header cannot be right.
    Invalid,
    /// Another version than the connection's.
    UnexpectedVersion,
    /// A packet that is not expected in this state (a second Retry, a closed connection, ...).
    Unexpected,
    /// From an address that may not be used now.
    UnknownPath,
    /// A limit of ours was reached.
    Limit,
}

impl DropReason {
    /// The trigger that qlog uses (quic-events, `packet_dropped`).
    pub fn label(self) -> &'static str {
        match self {
            DropReason::KeyUnavailable => "key_unavailable",
            DropReason::DecryptionFailure => "decryption_failure",
            DropReason::Duplicate => "duplicate",
            DropReason::Invalid => "invalid",
            DropReason::UnexpectedVersion => "unsupported",
            DropReason::Unexpected => "rejected",
            DropReason::UnknownPath => "connection_unknown",
            DropReason::Limit => "general",
        }
    }
}

/// Why a connection ended, in brief.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseTrigger {
    /// The application, or an orderly end.
    Application,
    /// A transport error (RFC 9000 section 20.1).
    Error,
    /// Nothing arrived for the idle timeout.
    IdleTimeout,
    /// No common version.
    VersionMismatch,
    /// A stateless reset arrived.
    StatelessReset,
}

impl CloseTrigger {
    /// The trigger that qlog uses.
    pub fn label(self) -> &'static str {
        match self {
            CloseTrigger::Application => "application",
            CloseTrigger::Error => "error",
            CloseTrigger::IdleTimeout => "idle_timeout",
            CloseTrigger::VersionMismatch => "version_mismatch",
            CloseTrigger::StatelessReset => "stateless_reset",
        }
    }
}

/// What made a key change.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyTrigger {
    /// The handshake.
    Tls,
    /// A key update that we began (RFC 9001 section 6).
    LocalUpdate,
    /// A key update that the peer began.
    RemoteUpdate,
}

impl KeyTrigger {
    /// The trigger that qlog uses.
    pub fn label(self) -> &'static str {
        match self {
            KeyTrigger::Tls => "tls",
            KeyTrigger::LocalUpdate => "local_update",
            KeyTrigger::RemoteUpdate => "remote_update",
        }
    }
}

/// What a path is worth at the moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathState {
    /// A new address pair; validation has begun (RFC 9000 section 8.2).
    Probing,
    /// The challenge was answered.
    Validated,
    /// The connection's data goes this way now.
    Active,
    /// The challenge was not answered in time, or the path was given up.
    Abandoned,
}

impl PathState {
    /// The name that qlog uses (`migration_state_updated`).
    pub fn label(self) -> &'static str {
        match self {
            PathState::Probing => "probing_started",
            PathState::Validated => "probing_successful",
            PathState::Active => "migration_complete",
            PathState::Abandoned => "probing_abandoned",
        }
    }
}

/// What keeps the sender from sending more right now.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The application has nothing more to send.
    Application,
    /// The congestion window is full.
    Window,
    /// The pacer lets the next packet out later.
    Pacing,
    /// The peer's flow-control credit is used up.
    FlowControl,
    /// The peer's address is not validated: at most three times what it sent (RFC 9000 section 8.1).
    Amplification,
}

impl Limit {
    /// Every limit, in the order of [`Limit::index`].
    pub const ALL: [Limit; 5] =
        [Limit::Application, Limit::Window, Limit::Pacing, Limit::FlowControl, Limit::Amplification];

    /// A small number for tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in traces.
    pub fn label(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::Window => "congestion_window",
            Limit::Pacing => "pacing",
            Limit::FlowControl => "flow_control",
            Limit::Amplification => "amplification",
        }
    }
}

/// A packet in brief, sent or received.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct PacketInfo<'a> {
    /// What kind.
    pub kind: PacketKind,
    /// Its full number; `None` for kinds without one.
    pub number: Option<u64>,
    /// Bytes of the whole QUIC packet with header and tag, without UDP and IP headers.
    pub size: u32,
    /// Its mark in the IP header.
    pub ecn: Ecn,
    /// The path it took.
    pub path: PathId,
    /// Where several paths are in use at once, the path identifier: each has numbers of its own.
    pub space: DataSpace,
    /// What is in it, in order.
    pub frames: &'a [FrameInfo],
}

/// Something that happened in a connection.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub enum ObserverEvent<'a> {
    /// The first event: who talks to whom. `local_cid` is ours, `remote_cid` the one we send to first.
    ConnectionStarted {
        /// Our address, if known.
        local: Option<SocketAddr>,
        /// The peer's.
        remote: SocketAddr,
        /// The connection ID that the peer uses towards us.
        local_cid: &'a [u8],
        /// The connection ID that we use first.
        remote_cid: &'a [u8],
        /// The QUIC version of the first packet.
        version: u32,
    },
    /// A step of the connection's life.
    StateUpdated(ConnectionState),
    /// The connection ended.
    ConnectionClosed {
        /// Who ended it.
        by: Owner,
        /// Why, in brief.
        trigger: CloseTrigger,
        /// The code is the application's own.
        application: bool,
        /// The error code, 0 if none.
        code: u64,
        /// The reason phrase, maybe empty.
        reason: &'a str,
    },
    /// A version was chosen.
    VersionNegotiated {
        /// The one in use from now on.
        chosen: u32,
        /// What the client asked for first.
        original: u32,
    },
    /// The application protocol was agreed.
    AlpnSet {
        /// As on the wire.
        alpn: &'a [u8],
    },
    /// Transport parameters are known.
    ParametersSet {
        /// Whose.
        owner: Owner,
        /// Their values.
        values: &'a ParameterValues,
        /// Whether they are those remembered for 0-RTT.
        restored: bool,
    },
    /// A packet left.
    PacketSent(PacketInfo<'a>),
    /// A packet arrived and was accepted.
    PacketReceived(PacketInfo<'a>),
    /// A packet arrived and was thrown away.
    PacketDropped {
        /// What it seemed to be.
        kind: Option<PacketKind>,
        /// Its number, if it could be read.
        number: Option<u64>,
        /// Its bytes.
        size: u32,
        /// Why.
        reason: DropReason,
    },
    /// A packet arrived before its keys and waits.
    PacketBuffered {
        /// What kind.
        kind: PacketKind,
        /// Its bytes.
        size: u32,
    },
    /// Keys came into use.
    KeyUpdated {
        /// Which keys, named by the packets they protect.
        kind: PacketKind,
        /// Whose sending direction.
        owner: Owner,
        /// 0 for the handshake's, then one more with each key update.
        generation: u64,
        /// Why.
        trigger: KeyTrigger,
    },
    /// Keys were thrown away.
    KeyDiscarded {
        /// Which keys, named by the packets they protect.
        kind: PacketKind,
    },
    /// The largest datagram a path takes has changed (RFC 8899).
    MtuUpdated {
        /// Which path.
        path: PathId,
        /// Bytes of UDP payload before.
        old: u16,
        /// Bytes of UDP payload now.
        new: u16,
        /// Whether the search is over for now.
        done: bool,
    },
    /// A path came, changed or went.
    PathUpdated {
        /// Which path.
        path: PathId,
        /// What it is worth now.
        state: PathState,
        /// The peer's address on it.
        remote: SocketAddr,
    },
    /// A decision of loss recovery or congestion control.
    Recovery {
        /// On which path.
        path: PathId,
        /// What.
        event: &'a trace::Event,
    },
    /// What holds the sender back has changed. Reported for changes only, not for every packet.
    LimitedBy {
        /// On which path.
        path: PathId,
        /// What holds it back from now on.
        limit: Limit,
    },
}

/// Two observers, one after the other.
#[derive(Debug)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: Observer, B: Observer> Observer for Tee<A, B> {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        self.0.on_event(now, event);
        self.1.on_event(now, event);
    }
}

impl<O: Observer + ?Sized> Observer for Box<O> {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        (**self).on_event(now, event);
    }
}

/// Two factories, each of which may be interested.
#[derive(Debug, Clone)]
pub struct TeeFactory(pub Arc<dyn ObserverFactory>, pub Arc<dyn ObserverFactory>);

impl ObserverFactory for TeeFactory {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        match (self.0.build(connection), self.1.build(connection)) {
            (Some(a), Some(b)) => Some(Box::new(Tee(a, b))),
            (a, b) => a.or(b),
        }
    }
}
