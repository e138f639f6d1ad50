//! One QUIC connection, sans IO: datagrams and the time go in; datagrams, a deadline and events come out.
//!
//! [`Connection`] is the facade over its parts, which know nothing of it: `handshake` (TLS session, keys, versions,
//! tokens, Retry, 0-RTT), `spaces` (packet numbers, acknowledgments, CRYPTO), `paths` (address pairs, validation,
//! migration, the scheduler), `repeat` (what may leave twice), `ack_frequency` (how often to be acknowledged),
//! `lifecycle` and `idle`, `reports` (its events). A part takes what it needs of the others as arguments.
//!
//! The ways through it are methods, a file each: `begin`, `receive` (datagram to frames), `frames` (what each frame
//! does), `tls`, `acknowledged` (what acknowledgment and loss do), `transmit` (which datagrams leave), `write` (what is
//! in them), `timers`, `close`, `adjust`, `multipath` (several paths at once), `path_choice` (which of them
//! is taken). Recovery, streams and acknowledgment tracking are modules of their own.

mod ack_frequency;
mod acknowledged;
mod adjust;
mod begin;
mod cids;
mod close;
mod event;
mod frame_info;
mod frames;
mod handshake;
mod idle;
mod lifecycle;
mod multipath;
mod open_packet;
mod path_choice;
mod paths;
mod receive;
mod repeat;
mod reports;
mod sent;
mod sizes;
mod spaces;
mod stats;
mod timers;
mod tls;
mod transmit;
mod write;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use thalweg_recovery::{Recovery, RepairStats, SpaceId};
use thalweg_units::Instant;

use self::{
    ack_frequency::AckRequests,
    cids::Cids,
    handshake::{Handshake, KeyStore},
    lifecycle::{CloseFrame, Lifecycle, Phase},
    paths::{Migration, PathKey, Paths},
    repeat::{Repeat, Underway},
    reports::Reports,
    sent::SentFrames,
    spaces::Spaces,
};
pub(crate) use self::{
    event::EndpointEvent,
    handshake::{Accept, ClientHello, open_copy},
};
pub use self::{
    event::{Event, PathEvent},
    multipath::{ClosePathError, OpenPathError, PathReport},
    path_choice::PinError,
    paths::{Candidate, Order, PathScheduler, SchedulerFactory, SchedulerPolicy, Waiting},
    stats::{ConnectionStats, Limits, UdpStats},
};
use crate::{
    Side,
    cid::ConnectionId,
    config::TransportConfig,
    crypto::{Session, TAG_LEN},
    datagrams::Datagrams,
    error::ConnectionError,
    observe::{KeyTrigger, ObserverEvent, Owner, PacketKind},
    packet,
    streams::Streams,
    transport_parameters::TransportParameters,
    version::Version,
};

/// A QUIC connection. See the [module](self) for its parts and the crate for how to drive it.
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    rng: ChaCha8Rng,
    handshake: Handshake,
    keys: KeyStore,
    spaces: Spaces,
    recovery: Recovery<Box<SentFrames>>,
    paths: Paths,
    cids: Cids,
    streams: Streams,
    datagrams: Datagrams,
    ack_requests: AckRequests,
    repeat: Repeat,
    lifecycle: Lifecycle,
    reports: Reports,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("version", &self.handshake.version)
            .field("remote", &self.remote_address())
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

impl Connection {
    // What the application does.

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The version in use.
    pub fn version(&self) -> Version {
        self.handshake.version
    }

    /// The streams, to open, read and write them.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// The unreliable datagrams (RFC 9221).
    pub fn datagrams(&mut self) -> &mut Datagrams {
        &mut self.datagrams
    }

    /// The largest DATAGRAM payload that fits into one packet now; `None` if the peer takes none.
    pub fn max_datagram_payload(&self) -> Option<usize> {
        self.datagrams.max_payload(self.datagram_room())
    }

    /// Room for frames in a 1-RTT packet of the current size, whatever its number.
    pub(super) fn datagram_room(&self) -> usize {
        // With several paths: what fits one of them, and waits for that.
        let open = self.paths.sets().filter(|set| set.is_open()).filter_map(|set| self.recovery.path(set.active().id));
        let mtu = open.map(thalweg_recovery::Path::datagram_size).max().unwrap_or_else(|| self.path_mtu());
        self.room_for_frames(mtu)
    }

    /// Room for frames in a 1-RTT packet of this size, whatever its number.
    fn room_for_frames(&self, mtu: u16) -> usize {
        let header = packet::short_header_len(self.cids.remote.active().len(), 4);
        usize::from(mtu).saturating_sub(header + TAG_LEN)
    }

    /// TLS: application protocol, certificates, exporter.
    pub fn session(&self) -> &dyn Session {
        &*self.handshake.session
    }

    /// The peer's address on the active path.
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.active().remote
    }

    /// Whether the peer has proven that it receives at its address (RFC 9000 section 8.1).
    pub fn is_address_validated(&self) -> bool {
        self.paths.active().validated
    }

    /// The local address on the active path, if known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.paths.active().local
    }

    /// The peer's transport parameters.
    pub fn peer_transport_parameters(&self) -> &TransportParameters {
        &self.handshake.peer_params
    }

    /// The destination of the client's very first Initial (RFC 9000 section 7.2): names the connection at both ends and
    /// in qlog.
    pub fn original_destination_cid(&self) -> ConnectionId {
        self.handshake.ids.original_dcid
    }

    /// Whether TLS is not complete yet.
    pub fn is_handshaking(&self) -> bool {
        !self.handshake.complete
    }

    /// Whether the peer has confirmed the handshake.
    pub fn is_confirmed(&self) -> bool {
        self.handshake.confirmed
    }

    /// Client: whether data written now travel as 0-RTT.
    pub fn is_early(&self) -> bool {
        self.keys.has_early() && !self.keys.has(SpaceId::DATA)
    }

    /// Whether 0-RTT data were accepted; `None` while open or if there were none.
    pub fn early_data_accepted(&self) -> Option<bool> {
        self.handshake.early.accepted
    }

    /// Whether the connection can no longer be used.
    pub fn is_closed(&self) -> bool {
        !self.lifecycle.is_open()
    }

    /// Whether nothing is left to do, not even for late packets.
    pub fn is_drained(&self) -> bool {
        matches!(self.lifecycle.phase, Phase::Closed)
    }

    /// Why the connection ended.
    pub fn error(&self) -> Option<&ConnectionError> {
        self.lifecycle.error.as_ref()
    }

    /// Closes at once; data in flight are abandoned. `code` and `reason` go to the peer's application.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        self.close_with(now, CloseFrame::Application { code, reason }, ConnectionError::LocallyClosed);
    }

    /// Closes once everything written and finished has been acknowledged; streams still finishing are never cut.
    pub fn close_when_done(&mut self, now: Instant, code: u64, reason: Bytes) {
        if self.lifecycle.is_open() {
            self.lifecycle.close_when_done = Some(CloseFrame::Application { code, reason });
            self.finish_close_when_done(now);
        }
    }

    /// Sends a PING.
    pub fn ping(&mut self) {
        let space = self.paths.active().space();
        self.spaces[space].ping = true;
    }

    /// Changes the keep-alive interval; `None` stops it.
    pub fn set_keep_alive(&mut self, now: Instant, interval: Option<Duration>) {
        self.lifecycle.idle.set_keep_alive(now, interval);
    }

    /// Says whether the application waits for something of the peer, such as the answer to a request. While it does, a
    /// silence of three probe timeouts (100 ms to 3 s) is answered with a PING, and with more at doubling intervals up
    /// to a second. The PING shows the peer our address if a NAT has changed it (RFC 9000 section 9.3), and earns a
    /// stateless reset if the peer has lost its state (section 10.3); a receiver that is merely silent would learn
    /// neither. Nothing is sent while nothing is awaited. Default: it does not wait.
    pub fn set_awaiting(&mut self, now: Instant, awaiting: bool) {
        self.lifecycle.idle.set_awaiting(now, awaiting);
    }

    /// How long no packet of the peer was received.
    pub fn silence(&self, now: Instant) -> Duration {
        now.saturating_since(self.lifecycle.idle.last_received)
    }

    /// Starts a key update as soon as RFC 9001 section 6.1 permits. Returns whether that was now.
    pub fn force_key_update(&mut self, now: Instant) -> bool {
        let may = self.handshake.confirmed && self.keys.may_update();
        if may {
            self.keys.update(&mut *self.handshake.session);
            self.ping();
            let (kind, owner, trigger) = (PacketKind::OneRtt, Owner::Local, KeyTrigger::LocalUpdate);
            let generation = self.keys.updates;
            self.reports.observe(now, &ObserverEvent::KeyUpdated { kind, owner, generation, trigger });
        }
        may
    }

    /// How long each limit has kept the sender from sending more, up to `now`.
    pub fn limits(&self, now: Instant) -> Limits {
        self.reports.limits(now)
    }

    /// Figures so far.
    pub fn stats(&self) -> ConnectionStats {
        let mut stats = self.reports.stats.clone();
        if let Some(path) = self.active_path() {
            stats.path = path.stats();
            stats.rtt = path.rtt().smoothed;
            stats.min_rtt = path.rtt().min;
            stats.latest_rtt = path.rtt().latest;
            stats.rtt_variation = path.rtt().variation;
            stats.window = path.window();
            stats.ssthresh = path.ssthresh();
            stats.congestion_state = path.state();
            stats.bytes_in_flight = path.bytes_in_flight();
            stats.mtu = path.datagram_size();
            stats.pacing_rate = path.pacing_rate();
            stats.delivery_rate = path.delivery_rate();
        }
        if self.paths.several().is_some() {
            stats.path = self.path_stats_in_all();
        }
        stats.key_updates = self.keys.updates;
        for (_, space) in self.spaces.data() {
            let ecn = space.acks.counts();
            for (total, count) in stats.ecn_received.iter_mut().zip([ecn.ect0, ecn.ect1, ecn.ce]) {
                *total += count;
            }
        }
        stats.bytes_counted = self.streams.bytes_counted();
        stats.stream_bytes_acked = self.streams.bytes_acked();
        stats
    }

    /// How repairs of losses began and ended on the active path: for comparisons of recovery policies.
    pub fn repair_stats(&self) -> RepairStats {
        self.active_path().map(thalweg_recovery::Path::repair_stats).unwrap_or_default()
    }

    /// What recovery knows of the active path.
    fn active_path(&self) -> Option<&thalweg_recovery::Path> {
        self.recovery.path(self.paths.active().id)
    }

    /// The smoothed RTT of the active path.
    pub fn rtt(&self) -> Duration {
        self.active_path().map_or(self.config.initial_rtt, |path| path.rtt().smoothed)
    }

    /// The smoothed round-trip time of the active path, and the smallest of the one by which something came if there
    /// are several, or the assumed one.
    ///
    /// Acknowledgments are timed by the smallest: who mostly receives has few samples, and one that a suspension has
    /// inflated would thin them out long after.
    #[inline]
    fn rtts(&self, arrived: Option<PathKey>) -> (Duration, Duration) {
        let active = self.active_path();
        let of_arrival = match arrived {
            Some(path) if self.paths.has_choice() => self.recovery.path(self.paths[path].id),
            _ => active,
        };
        let initial = self.config.initial_rtt;
        (active.map_or(initial, |path| path.rtt().smoothed), of_arrival.map_or(initial, |path| path.rtt().min))
    }

    /// UDP payload per datagram on the active path.
    pub fn path_mtu(&self) -> u16 {
        self.active_path().map_or(self.config.initial_mtu, thalweg_recovery::Path::datagram_size)
    }

    // What drives the connection.

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.reports.poll() {
            return Some(event);
        }
        self.streams.poll_event().map(Event::Stream)
    }

    /// The next thing the endpoint has to know.
    pub(crate) fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.reports.poll_endpoint()
    }

    /// Has the endpoint forget the connection IDs that were retired long enough ago. No timer of its own: until
    /// something else happens they do no harm.
    #[inline]
    fn forget_retired_cids(&mut self, now: Instant) {
        while let Some(cid) = self.cids.local.poll_forgotten(now) {
            self.reports.tell_endpoint(EndpointEvent::CidForgotten(cid));
        }
        for path in &mut self.cids.further {
            while let Some(cid) = path.local.poll_forgotten(now) {
                self.reports.tell_endpoint(EndpointEvent::CidForgotten(cid));
            }
        }
    }

    /// Handshake messages of ours must have been lost: repeats them.
    fn speed_up_handshake(&mut self, now: Instant) {
        let underway = Underway { keys: &self.keys, spaces: &self.spaces, recovery: &self.recovery };
        let is_repeated = self.repeat.speed_up_handshake(now, self.handshake.started, self.side, &underway);
        if is_repeated && !self.side.is_client() {
            // All that is known is that the client's packets get through.
            if let Some(path) = self.recovery.path_mut(self.paths.active().id) {
                path.suspend_ecn();
            }
        }
    }

    // Paths.

    /// Client: our own address may have changed (the socket was bound anew, the network switched). The path is new,
    /// nothing is known of it, and the server has to see us there.
    pub fn local_address_changed(&mut self, now: Instant, local: Option<IpAddr>) {
        if !self.lifecycle.is_open() || !self.handshake.confirmed {
            return;
        }
        let (paths, mut with) = self.migration();
        paths.renew_active(now, local, &mut with);
        self.ping();
    }

    /// Whether a datagram from an unknown address may be looked at: only a server's, only after the handshake, and
    /// only if migration is permitted (RFC 9000 section 9).
    fn may_come_from_new_path(&self) -> bool {
        self.side == Side::Server && self.handshake.confirmed && self.handshake.migration_allowed
    }

    /// The paths, and what a change of them touches.
    fn migration(&mut self) -> (&mut Paths, Migration<'_>) {
        let with = Migration {
            config: &self.config,
            peer_max: self.handshake.peer_params.max_udp_payload_size,
            keys: &self.keys,
            recovery: &mut self.recovery,
            cids: &mut self.cids,
            reports: &mut self.reports,
            rng: &mut self.rng,
        };
        (&mut self.paths, with)
    }

    fn update_amplification_limit(&mut self, now: Instant) {
        self.paths.update_amplification_limit(now, &self.keys, &mut self.recovery);
    }
}
