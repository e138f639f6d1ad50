//! One QUIC connection, sans IO: datagrams and the time go in; datagrams, a deadline and events come out.
//!
//! The parts: `keys` (encryption levels, key update), `handshake` (TLS, transport parameters, 0-RTT, Retry), `receive`
//! (datagram to frames), `frames` (what each frame does), `transmit` (state to datagrams), `probes` (what is sent ahead
//! of or after a timeout), `copies` (second copies of the handshake's flights), `numbers` (packet numbers),
//! `acknowledged` (what acknowledgement and loss do), `ack_frequency` (how often to be acknowledged), `migrate`
//! (paths), `lifecycle` (closing, idle). Recovery, streams and acknowledgement tracking are modules of their own, with
//! no knowledge of this one.

mod ack_frequency;
mod acknowledged;
mod adjust;
mod cids;
mod event;
mod frame_info;
mod frames;
mod handshake;
mod keys;
mod known_path;
mod lifecycle;
mod open_packet;
mod paths;
mod receive;
mod reconfigure;
mod repeat;
mod reports;
mod sent;
mod sizes;
mod spaces;
mod stats;
mod transmit;
mod versions;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use thalweg_recovery::{Recovery, RepairStats, SpaceId, Timeout};
use thalweg_units::Instant;

pub(crate) use self::event::EndpointEvent;
use self::{
    ack_frequency::AckRequests,
    cids::Cids,
    handshake::Handshake,
    keys::KeyStore,
    lifecycle::{CloseFrame, IdleTimers, Lifecycle},
    paths::{Migration, PathSet},
    repeat::{Repeat, Underway},
    reports::Reports,
    sent::SentFrames,
    spaces::Spaces,
};
pub use self::{
    event::{Event, PathEvent},
    stats::{ConnectionStats, UdpStats},
};
pub(crate) use self::{
    handshake::Accept,
    versions::{choose_version, open_copy},
};
use crate::{
    Side,
    cid::ConnectionId,
    config::TransportConfig,
    crypto::{Session, TAG_LEN},
    datagrams::Datagrams,
    error::{ConnectionError, TransportError, TransportErrorCode},
    observe::{CloseTrigger, ConnectionState, KeyTrigger, ObserverEvent, Owner, PacketKind},
    packet,
    streams::Streams,
    transport_parameters::TransportParameters,
    version::Version,
};

/// Probe timeouts for which a connection ID that the peer has retired still leads to the connection. Datagrams that the
/// RETIRE_CONNECTION_ID frame has overtaken are as good as those before it; without its ID they would be answered with
/// a stateless reset, which is for endpoints without state (RFC 9000 section 10.3). RFC 9000 gives no time (section
/// 5.1.2); three probe timeouts are what it waits for late packets elsewhere (section 10.2).
const RETIRED_FOR_PTOS: u32 = 3;

/// A QUIC connection. See the [module](self) for its parts and the crate for how to drive it.
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    version: Version,
    rng: ChaCha8Rng,
    session: Box<dyn Session>,
    handshake: Handshake,
    keys: KeyStore,
    spaces: Spaces,
    recovery: Recovery<SentFrames>,
    paths: PathSet,
    cids: Cids,
    peer_params: TransportParameters,
    streams: Streams,
    datagrams: Datagrams,
    lifecycle: Lifecycle,
    idle: IdleTimers,
    /// Close with this once every stream is delivered.
    close_when_done: Option<CloseFrame>,
    error: Option<ConnectionError>,
    reports: Reports,
    undecryptable: Vec<receive::Waiting>,
    repeat: Repeat,
    ack_requests: AckRequests,
    /// Since when nothing is heard, if a suspension was reported.
    suspended: Option<Instant>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("version", &self.version)
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
        self.version
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
        let header = packet::short_header_len(self.cids.remote.active().len(), 4);
        usize::from(self.path_mtu()).saturating_sub(header + TAG_LEN)
    }

    /// TLS: application protocol, certificates, exporter.
    pub fn session(&self) -> &dyn Session {
        &*self.session
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

    /// What the peer told about itself.
    pub fn peer_transport_parameters(&self) -> &TransportParameters {
        &self.peer_params
    }

    /// The destination of the client's very first Initial (RFC 9000 section 7.2): names the connection at both ends and in
    /// qlog.
    pub fn original_destination_cid(&self) -> ConnectionId {
        self.handshake.original_dcid
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
        self.handshake.early_accepted
    }

    /// Whether the connection can no longer be used.
    pub fn is_closed(&self) -> bool {
        !self.lifecycle.is_open()
    }

    /// Whether nothing is left to do, not even for late packets.
    pub fn is_drained(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closed)
    }

    /// Why the connection ended.
    pub fn error(&self) -> Option<&ConnectionError> {
        self.error.as_ref()
    }

    /// Closes at once; data in flight are abandoned. `code` and `reason` go to the peer's application.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        self.close_with(now, CloseFrame::Application { code, reason }, ConnectionError::LocallyClosed);
    }

    /// Closes once everything written and finished has been acknowledged; streams still finishing are never cut.
    pub fn close_when_done(&mut self, now: Instant, code: u64, reason: Bytes) {
        if self.lifecycle.is_open() {
            self.close_when_done = Some(CloseFrame::Application { code, reason });
            self.finish_close_when_done(now);
        }
    }

    /// Sends a PING.
    pub fn ping(&mut self) {
        self.spaces[SpaceId::DATA].ping = true;
    }

    /// Changes the keep-alive interval; `None` stops it.
    pub fn set_keep_alive(&mut self, now: Instant, interval: Option<Duration>) {
        self.idle.set_keep_alive(now, interval);
    }

    /// Says whether the application waits for something of the peer, such as the answer to a request. While it does, a
    /// silence of three probe timeouts (100 ms to 3 s) is answered with a PING, and with more at doubling intervals up
    /// to a second. The PING shows the peer our address if a NAT has changed it (RFC 9000 section 9.3), and earns a
    /// stateless reset if the peer has lost its state (section 10.3); a receiver that is merely silent would learn
    /// neither. Nothing is sent while nothing is awaited. Default: it does not wait.
    pub fn set_awaiting(&mut self, now: Instant, awaiting: bool) {
        self.idle.set_awaiting(now, awaiting);
    }

    /// How long no packet of the peer was received.
    pub fn silence(&self, now: Instant) -> Duration {
        now.saturating_since(self.idle.last_received)
    }

    /// When a silent peer is asked whether it is still there. Until the handshake is complete its own timers do that.
    fn ask_at(&self) -> Option<Instant> {
        self.idle.ask_at(self.recovery.pto(SpaceId::DATA)).filter(|_| self.handshake.complete)
    }

    /// Starts a key update as soon as RFC 9001 section 6.1 permits. Returns whether that was now.
    pub fn force_key_update(&mut self, now: Instant) -> bool {
        let may = self.handshake.confirmed && self.keys.may_update();
        if may {
            self.keys.update(&mut *self.session);
            self.ping();
            let (kind, owner, trigger) = (PacketKind::OneRtt, Owner::Local, KeyTrigger::LocalUpdate);
            let generation = self.keys.updates;
            self.reports.observe(now, &ObserverEvent::KeyUpdated { kind, owner, generation, trigger });
        }
        may
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
        stats.key_updates = self.keys.updates;
        let ecn = self.spaces[SpaceId::DATA].acks.counts();
        stats.ecn_received = [ecn.ect0, ecn.ect1, ecn.ce];
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

    /// The smallest round trip seen on the active path, or the assumed one.
    ///
    /// Acknowledgments are timed by it: who mostly receives has few samples, and one that a suspension has inflated
    /// would thin them out long after.
    fn min_rtt(&self) -> Duration {
        self.active_path().map_or(self.config.initial_rtt, |path| path.rtt().min)
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
    fn forget_retired_cids(&mut self, now: Instant) {
        while let Some(cid) = self.cids.local.poll_forgotten(now) {
            self.reports.tell_endpoint(EndpointEvent::CidForgotten(cid));
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next. Ask again after every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.lifecycle.is_open() {
            return self.lifecycle.timer();
        }
        let active = self.paths.active();
        // At the amplification limit not even an acknowledgement can leave: only the peer's next datagram changes that.
        let may_speak = active.amplification_budget() >= sizes::MIN_PACKET as u64;
        let acks = self.spaces.iter().filter_map(|space| space.acks.timer()).filter(|_| may_speak);
        let paths = self.paths.iter().filter_map(|path| path.validation.timer());
        let mtu = active.mtu.next_probe_time().filter(|_| self.handshake.confirmed);
        acks.chain(paths)
            .chain(self.recovery.timer())
            .chain(self.keys.timer())
            .chain(self.idle.deadline(self.recovery.pto(SpaceId::DATA)))
            .chain(self.idle.connect_deadline())
            .chain(self.idle.keep_alive_at())
            .chain(self.ask_at())
            .chain(self.paths.iter().filter_map(|path| path.paced_until))
            .chain(mtu)
            .min()
    }

    /// Does what time has made due. Follow with [`Self::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.lifecycle {
            Lifecycle::Open => {}
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => {
                if until <= now {
                    self.lifecycle = Lifecycle::Closed;
                    self.reports.tell_endpoint(EndpointEvent::Drained);
                    self.reports.observe_state(now, ConnectionState::Closed);
                }
                return;
            }
            Lifecycle::Closed => return,
        }
        if self.idle.deadline(self.recovery.pto(SpaceId::DATA)).is_some_and(|t| t <= now) {
            self.on_silence(now, "idle timeout", ConnectionError::TimedOut);
            return;
        }
        if let Some(after) = self.idle.connect_timed_out(now) {
            self.on_silence(now, "connect timeout", ConnectionError::ConnectTimedOut { after });
            return;
        }
        if self.idle.keep_alive_at().is_some_and(|t| t <= now) {
            self.idle.on_keep_alive();
            self.ping();
        }
        if self.ask_at().is_some_and(|t| t <= now) {
            self.idle.on_asked(now);
            self.ping();
        }
        for path in self.paths.iter_mut() {
            path.paced_until = path.paced_until.filter(|until| *until > now);
        }
        self.keys.on_timeout(now);
        self.forget_retired_cids(now);
        self.on_path_timeouts(now);
        // Begins a new search if it is time; its probe leaves when the window permits.
        let _ = self.paths.active_mut().mtu.poll_probe(now);
        if self.recovery.timer().is_some_and(|t| t <= now) {
            self.on_recovery_timeout(now);
        }
        self.reports.drain_trace(&mut self.recovery);
    }

    fn on_recovery_timeout(&mut self, now: Instant) {
        let mut outcome = std::mem::take(&mut self.spaces.outcome);
        outcome.clear();
        match self.recovery.on_timeout(now, &mut outcome) {
            Timeout::None => {}
            Timeout::Lost => self.on_outcome(now, &mut outcome),
            Timeout::Probe { space, datagrams } => self.on_probe_timeout(now, space, datagrams),
        }
        self.spaces.outcome = outcome;
    }

    fn on_probe_timeout(&mut self, now: Instant, space: SpaceId, datagrams: u8) {
        let underway = Underway { keys: &self.keys, spaces: &self.spaces, recovery: &self.recovery };
        self.repeat.on_probe_timeout(space, datagrams, &underway);
        if self.recovery.pto_count() >= 2 && self.suspended.is_none() && self.handshake.complete {
            self.suspended = Some(self.idle.last_received);
            let silence = now.saturating_since(self.idle.last_received);
            self.reports.tell_path(PathEvent::Suspended { silence });
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

    /// Ends the connection without a word: the peer was silent for too long.
    fn on_silence(&mut self, now: Instant, reason: &str, error: ConnectionError) {
        self.reports.observe_close(now, Owner::Local, CloseTrigger::IdleTimeout, false, 0, reason.as_bytes());
        self.end(now, error);
        self.lifecycle = Lifecycle::Closed;
        self.reports.tell_endpoint(EndpointEvent::Drained);
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
    fn migration(&mut self) -> (&mut PathSet, Migration<'_>) {
        let with = Migration {
            config: &self.config,
            peer_max: self.peer_params.max_udp_payload_size,
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

    fn on_path_timeouts(&mut self, now: Instant) {
        let (paths, mut with) = self.migration();
        if paths.on_timeouts(now, &mut with) {
            let error = TransportError::no_viable_path("no address of the peer could be validated");
            self.drain(now, ConnectionError::Transport(error));
        }
    }

    // Closing.

    /// Ends the connection because the peer broke a rule.
    fn close_on_error(&mut self, now: Instant, error: TransportError) {
        let frame = CloseFrame::Transport {
            code: error.code,
            frame: error.frame.unwrap_or(0),
            reason: Bytes::copy_from_slice(error.reason.as_bytes()),
        };
        self.close_with(now, frame, ConnectionError::Transport(error));
    }

    fn close_with(&mut self, now: Instant, frame: CloseFrame, error: ConnectionError) {
        if !self.lifecycle.is_open() {
            return;
        }
        let trigger = match &frame {
            CloseFrame::Transport { .. } => CloseTrigger::Error,
            CloseFrame::Application { .. } => CloseTrigger::Application,
        };
        let (application, code, reason) = match &frame {
            CloseFrame::Transport { code, reason, .. } => (false, code.0, reason.clone()),
            CloseFrame::Application { code, reason } => (true, *code, reason.clone()),
        };
        self.reports.observe_close(now, Owner::Local, trigger, application, code, &reason);
        let until = now + self.recovery.pto(SpaceId::DATA) * 3;
        self.lifecycle = Lifecycle::Closing { until, frame, send: true, received: 0, reply_at: 1 };
        self.end(now, error);
        self.reports.observe_state(now, ConnectionState::Closing);
    }

    /// The peer closed.
    fn drain(&mut self, now: Instant, error: ConnectionError) {
        if matches!(self.lifecycle, Lifecycle::Draining { .. } | Lifecycle::Closed) {
            return;
        }
        self.end(now, error);
        self.lifecycle = Lifecycle::Draining { until: now + self.recovery.pto(SpaceId::DATA) * 3 };
        self.reports.observe_state(now, ConnectionState::Draining);
    }

    /// Tells the application, once.
    fn end(&mut self, now: Instant, error: ConnectionError) {
        if self.error.is_none() {
            self.error = Some(error.clone());
            // Three probe timeouts are to come in which nothing of it can be sent.
            self.streams.drop_unsent();
            self.datagrams.drop_unsent();
            self.remember_path(now);
            self.reports.tell_endpoint(EndpointEvent::HandshakeOver);
            self.reports.tell(Event::ConnectionLost(error));
        }
    }

    fn finish_close_when_done(&mut self, now: Instant) {
        if self.close_when_done.is_some()
            && self.streams.unfinished_sends() == 0
            && let Some(frame) = self.close_when_done.take()
        {
            self.close_with(now, frame, ConnectionError::LocallyClosed);
        }
    }
}

/// The reason phrase of a transport error as the peer's close frame carries it.
fn application_error_in_handshake() -> CloseFrame {
    CloseFrame::Transport { code: TransportErrorCode::APPLICATION_ERROR, frame: 0, reason: Bytes::new() }
}
