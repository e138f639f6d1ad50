//! Configuration of a connection and of an endpoint, with the defaults.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use thalweg_recovery::{InitialWindow, Policies, SavedPath};
use thalweg_units::Rate;

use crate::{
    ack::{AckConfig, AckPolicy},
    connection::SchedulerPolicy,
    crypto::{ClientCrypto, ServerCrypto},
    datagrams::DatagramsConfig,
    mtu::MtuRules,
    observe::ObserverFactory,
    streams::StreamsConfig,
    token::TokenKey,
    version::Version,
};

pub use crate::error::ConnectError;

/// How a connection behaves, independent of its role.
///
/// Every field has a default that suits a bulk transfer over an unknown path; setters chain.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Which recovery rules run; see [`Policies`]. A congestion controller of the program's own goes here as
    /// [`Congestion::Custom`](thalweg_recovery::Congestion::Custom).
    pub policies: Policies,
    /// The most that may leave on all paths together, whatever the windows allow; see [`Recovery::set_max_rate`].
    /// Default none.
    ///
    /// [`Recovery::set_max_rate`]: thalweg_recovery::Recovery::set_max_rate
    pub max_rate: Option<Rate>,
    /// RTT assumed before the first sample, above zero. Default 333 ms (RFC 9002 section 6.2.2). The first probe leaves
    /// after three times as long, so a path with a round trip of minutes has to be configured here.
    pub initial_rtt: Duration,
    /// The congestion window of a path about which nothing is known. Default [`InitialWindow::Rfc9002`].
    pub initial_window: InitialWindow,
    /// Silence after which the connection is given up; `None` or zero disables (RFC 9000 section 10.1). Default 30 s.
    pub max_idle_timeout: Option<Duration>,
    /// Send a PING after this much silence so that neither end times out. Default off.
    pub keep_alive: Option<Duration>,
    /// Makes our first handshake message longer by so many bytes, with a transport parameter that peers ignore (RFC
    /// 9000 section 18.1): for experiments with flights of several datagrams, as large keys and certificate chains make
    /// them. At most 8000 bytes are added. Default 0.
    pub handshake_padding: u16,
    /// UDP payload of the first datagrams, bytes, 1200 to 65527. Default 1200.
    pub initial_mtu: u16,
    /// Largest UDP payload that path MTU discovery tries, bytes; below or at `initial_mtu` turns discovery off.
    /// Default 1452 (1500-byte Ethernet less the IPv6 and UDP headers). Probes leave only while larger packets would be
    /// of use: as much data waits as fills one, or the application sends datagrams.
    pub max_mtu: u16,
    /// How path MTU discovery searches, and when it falls back. Default [`MtuRules::CommonSizes`]; the
    /// others are for experiments, and their probes do not wait for the congestion window (RFC 9002 section 7).
    pub mtu_rules: MtuRules,
    /// Largest UDP payload we accept, sent to the peer (RFC 9000 section 18.2), bytes. Default 65527.
    pub max_udp_payload: u16,
    /// Stream counts, receive and send windows.
    pub streams: StreamsConfig,
    /// DATAGRAM frames: the largest we take, and how many bytes wait on either side (RFC 9221).
    pub datagrams: DatagramsConfig,
    /// Longest we sit on an acknowledgement (RFC 9000 section 13.2.1), sent to the peer. Default 25 ms.
    pub max_ack_delay: Duration,
    /// Lets the peer decide how densely we acknowledge (ACK_FREQUENCY, IMMEDIATE_ACK:
    /// draft-ietf-quic-ack-frequency-12), with no less delay than this, at most `max_ack_delay`. `None`: it is not told
    /// that it may. Default 1 ms.
    ///
    /// What we ask of the peer is a policy, `ack-rate`.
    pub min_ack_delay: Option<Duration>,
    /// How many timestamps of arrival the peer may put into an ACK (draft-ietf-quic-receive-ts-02): at most 128 are
    /// heeded. 0: none. Default 128. Only controllers that
    /// [use them](thalweg_recovery::Congestion::uses_arrivals) have the peer asked.
    ///
    /// Packets that we receive are reported to a peer that asks.
    pub receive_timestamps: u16,
    /// How densely we acknowledge where the peer has not asked for anything. Default [`AckPolicy::UntilLoss`].
    pub acks: AckPolicy,
    /// Leave a packet number out now and then, so that a peer that acknowledges what it has not received gives itself
    /// away (RFC 9000 section 21.4). Each costs one acknowledgment. Default on; off for experiments that count single
    /// packets.
    pub skip_packet_numbers: bool,
    /// Mark packets ECT(0) and react to CE (RFC 9000 section 13.4). Default on.
    pub ecn: bool,
    /// How many connection IDs we let the peer hold for us (RFC 9000 section 5.1.1). Default 4.
    pub active_connection_ids: u64,
    /// Several paths at once (draft-ietf-quic-multipath-21), if the peer wants them too; `None`: one at a time, and the
    /// peer is not told of the extension. Default none.
    pub multipath: Option<MultipathConfig>,
    /// Let observers between the endpoints measure the round-trip time by the spin bit (RFC 9000 section 17.4), except
    /// on one path of 16 drawn at random. Works if the peer does too. Default off: the bit is zero.
    pub spin_bit: bool,
    /// Receives every event of every connection made with this configuration.
    pub observer: Option<Arc<dyn ObserverFactory>>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            policies: Policies::default(),
            max_rate: None,
            initial_rtt: Duration::from_millis(333),
            initial_window: InitialWindow::Rfc9002,
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            handshake_padding: 0,
            initial_mtu: 1200,
            max_mtu: 1452,
            mtu_rules: MtuRules::CommonSizes,
            max_udp_payload: 65527,
            streams: StreamsConfig::default(),
            datagrams: DatagramsConfig::default(),
            max_ack_delay: Duration::from_millis(25),
            min_ack_delay: Some(Duration::from_millis(1)),
            receive_timestamps: 128,
            acks: AckPolicy::default(),
            skip_packet_numbers: true,
            ecn: true,
            active_connection_ids: 4,
            multipath: None,
            spin_bit: false,
            observer: None,
        }
    }
}

/// Several paths at once (draft-ietf-quic-multipath-21).
#[derive(Clone, Debug, PartialEq)]
pub struct MultipathConfig {
    /// How many paths may be open at once, 1 to 64; more count as 64. What is kept for each bounds the memory. Default
    /// 4.
    pub max_paths: u32,
    /// Which path carries what. Default [`SchedulerPolicy::LowestRtt`].
    pub scheduler: SchedulerPolicy,
    /// Which path our acknowledgments take. Default [`AckPath::Shortest`].
    pub acks: AckPath,
    /// Which RTT samples of a path count, where the peer's acknowledgments come by several. Default
    /// [`RttSamples::Adjusted`].
    pub samples: RttSamples,
}

/// Which path the acknowledgments of a path's packets take (draft-ietf-quic-multipath-21 section 5.5).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckPath {
    /// The one that the packets came by, or another while that is silent.
    Same,
    /// The one with the lowest smoothed round-trip time among those by which packets have come lately, if that is below
    /// a quarter of their own path's, and if the path is not much slower: at least a sixteenth of the bytes of the own
    /// path have come by it.
    #[default]
    Shortest,
}

impl AckPath {
    /// Every choice.
    pub const ALL: [AckPath; 2] = [AckPath::Same, AckPath::Shortest];

    /// The name, as written in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            AckPath::Same => "same",
            AckPath::Shortest => "shortest",
        }
    }
}

/// Which RTT samples update the estimate of a path (draft-ietf-quic-multipath-21 section 5.5).
///
/// An acknowledgment may return by another path. Its sample then has the return delay of that path. If that path
/// breaks, acknowledgments return by the own one. A probe timeout from the shorter round trip expires before they can
/// arrive.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RttSamples {
    /// Every sample, as measured.
    Any,
    /// Samples that returned by the path itself. Every sample until there is one. The estimate stays as it is while
    /// acknowledgments return by other paths.
    Same,
    /// Samples that returned by the path with the smallest sample. The estimate stays as it is while acknowledgments
    /// return by other paths.
    Minimum,
    /// Every sample. One that returned by another path counts as the smallest by the own path, plus what it exceeds the
    /// smallest by that other path. The first by another path does not count; as long as none has returned by the own
    /// path, all count as measured.
    #[default]
    Adjusted,
}

impl RttSamples {
    /// Every choice.
    pub const ALL: [RttSamples; 4] = [RttSamples::Any, RttSamples::Same, RttSamples::Minimum, RttSamples::Adjusted];

    /// The name, as written in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            RttSamples::Any => "any",
            RttSamples::Same => "same",
            RttSamples::Minimum => "minimum",
            RttSamples::Adjusted => "adjusted",
        }
    }
}

impl Default for MultipathConfig {
    fn default() -> Self {
        MultipathConfig {
            max_paths: 4,
            scheduler: SchedulerPolicy::default(),
            acks: AckPath::default(),
            samples: RttSamples::default(),
        }
    }
}

impl MultipathConfig {
    /// The transport parameter: the largest path identifier that the peer may use at first.
    pub(crate) fn initial_max_path_id(&self) -> u32 {
        self.max_paths.clamp(1, 64) - 1
    }
}

impl TransportConfig {
    /// Our min_ack_delay as it is sent, in whole microseconds: no larger than what is sent as max_ack_delay, which is
    /// in whole milliseconds (draft-ietf-quic-ack-frequency section 3).
    pub(crate) fn told_min_ack_delay(&self) -> Option<Duration> {
        let millis = u64::try_from(self.max_ack_delay.as_millis()).unwrap_or(u64::MAX);
        self.min_ack_delay.map(|least| {
            let micros = u64::try_from(least.min(Duration::from_millis(millis)).as_micros()).unwrap_or(u64::MAX);
            Duration::from_micros(micros)
        })
    }

    /// How application data are acknowledged.
    pub(crate) fn ack_config(&self) -> AckConfig {
        AckConfig {
            max_ack_delay: self.max_ack_delay,
            min_ack_delay: self.told_min_ack_delay().unwrap_or_default(),
            policy: self.acks,
            ..AckConfig::default()
        }
    }

    /// How many timestamps the peer is asked for in an ACK.
    pub(crate) fn timestamps_asked_for(&self) -> u64 {
        if self.policies.congestion.uses_arrivals() { self.receive_timestamps.into() } else { 0 }
    }
}

/// A store for the tokens servers hand out with NEW_TOKEN (RFC 9000 section 8.1.3), keyed by server name.
pub trait TokenStore: Send + Sync + fmt::Debug {
    /// Keeps `token` for a later connection to `server_name`.
    fn insert(&self, server_name: &str, token: Vec<u8>);
    /// Takes one token for `server_name`, each token at most once.
    fn take(&self, server_name: &str) -> Option<Vec<u8>>;
}

/// A store for what connections save of the paths to servers, keyed by server name, for controllers that begin where an
/// earlier connection has been (RFC 9959).
///
/// A client learns about the direction that it sends in. When a connection that was established ends, it saves what its
/// last path has shown.
///
/// What is stored tells whoever reads it which servers were visited and from how fast a network, and a server that sees
/// how a connection begins can link it with earlier ones. Keep it as one keeps tokens, and empty it when the network
/// changes.
pub trait SavedPathStore: Send + Sync + fmt::Debug {
    /// Keeps what a connection to `server_name` at `remote` learned, [`age`](SavedPath::age) ago.
    fn insert(&self, server_name: &str, remote: SocketAddr, saved: SavedPath);
    /// Takes what is saved of the path to `server_name` at this address, with its [`age`](SavedPath::age); `None` if
    /// nothing is, or no longer. A connection that learns nothing and meets no congestion puts it back; until then
    /// nothing is saved, so that two connections at a time do not fill the same path (RFC 9959 section 4.2).
    fn take(&self, server_name: &str, remote: SocketAddr) -> Option<SavedPath>;
}

/// What a client needs to open connections.
#[derive(Clone)]
pub struct ClientConfig {
    /// The TLS side.
    pub crypto: Arc<dyn ClientCrypto>,
    /// Everything else.
    pub transport: Arc<TransportConfig>,
    /// The version of the first flight. Default v1.
    pub version: Version,
    /// Versions the client would rather use, best first: a server that can moves the connection there (RFC 9368 section
    /// 3). Default: none, the version of the first flight is the best.
    pub preferred_versions: Vec<Version>,
    /// Where NEW_TOKEN tokens are kept; `None` forgets them.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Where what is saved of paths is kept; `None`, the default, forgets it.
    pub saved_paths: Option<Arc<dyn SavedPathStore>>,
    /// How long to wait for the server's first valid packet, a Retry included. From then on
    /// [`max_idle_timeout`](TransportConfig::max_idle_timeout) governs, which also ends a silence that is longer from
    /// the beginning. `None`, the default, or zero: only the idle timeout.
    pub connect_timeout: Option<Duration>,
}

impl ClientConfig {
    /// A configuration with default transport, QUIC v1.
    pub fn new(crypto: Arc<dyn ClientCrypto>) -> Self {
        Self {
            crypto,
            transport: Arc::default(),
            version: Version::V1,
            preferred_versions: Vec::new(),
            tokens: None,
            saved_paths: None,
            connect_timeout: None,
        }
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("transport", &self.transport)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// When a server asks a client to prove its address with a Retry packet (RFC 9000 section 8.1.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// Never: the 3x amplification limit is protection enough.
    Never,
    /// For every connection that brings no valid token.
    Always,
    /// Once this many handshakes are under way.
    WhenHandshakesExceed(usize),
}

/// What a server needs to accept connections.
#[derive(Clone)]
pub struct ServerConfig {
    /// The TLS side.
    pub crypto: Arc<dyn ServerCrypto>,
    /// Everything else.
    pub transport: Arc<TransportConfig>,
    /// Address validation by Retry.
    pub retry: RetryPolicy,
    /// Seals Retry and NEW_TOKEN tokens; share it between the workers of one server.
    pub token_key: Arc<TokenKey>,
    /// Hand out a NEW_TOKEN token per connection, so that the next one needs no Retry. Default true.
    pub new_tokens: bool,
    /// Versions to move clients to when they are able to follow (RFC 9368 section 2.3), best first. Default: none,
    /// every client keeps the version it came with.
    pub preferred_versions: Vec<Version>,
    /// Whether clients may change address (NAT rebinding included). Default true.
    pub migration: bool,
    /// Most connections held at once; more are refused. Default 100,000.
    pub max_connections: usize,
    /// Most connections in their handshake at once; more are refused. Default 10,000.
    pub max_handshakes: usize,
}

impl ServerConfig {
    /// A configuration with default transport and limits.
    pub fn new(crypto: Arc<dyn ServerCrypto>, token_key: Arc<TokenKey>) -> Self {
        Self {
            crypto,
            transport: Arc::default(),
            retry: RetryPolicy::Never,
            token_key,
            new_tokens: true,
            preferred_versions: Vec::new(),
            migration: true,
            max_connections: 100_000,
            max_handshakes: 10_000,
        }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("transport", &self.transport)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
