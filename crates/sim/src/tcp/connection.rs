//! One end of a connection: the handshake, the two halves, and the application's view of them.

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_link::Quantiles;
use thalweg_proto::connection::ConnectionStats;
use thalweg_proto::observe::{EventHash, Limit, Observer, ObserverEvent};
use thalweg_recovery::trace::Event;
use thalweg_recovery::{Config, PathId, SegmentOutcome};
use thalweg_units::{Duration, DurationExt, Ecn, Instant};

use super::content::Contents;
use super::exchange::{Ack, Blocked, Echo, Happening, Transmit};
use super::receiver::Receiver;
use super::sender::{Sender, earliest};
use super::settings::TcpConfig;
use super::wire::{
    ACK, AE, CWR, ECE, FIN, HEADERS, Header, IP_HEADER, MAX_SACKS, PSH, RST, STAMPED_SACKS, SYN, ace, unwrap,
};
use crate::app::Transport;
use crate::host::{Envelope, Outbox};
use crate::plan::Record;
use crate::result::{PacketCounts, PacketFate, PacketPoint, Series, SideResult};

/// How long to wait for the answer to a SYN at first (RFC 6298 section 2.1); doubles.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// Repeats of a SYN before the connection is given up (Linux: tcp_syn_retries).
const SYN_REPEATS: u32 = 6;
/// What an application may write ahead of what was sent.
const SEND_BUFFER: u64 = 1 << 20;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    SynSent,
    SynReceived,
    Established,
}

/// What the connections of a host share.
pub(super) struct Shared<'a> {
    pub(super) recovery: &'a Config,
    pub(super) config: TcpConfig,
    pub(super) contents: &'a Contents,
    pub(super) origin: Instant,
    pub(super) record: Record,
}

/// A stream of the application with what can be read of it.
#[derive(Debug)]
struct Stream {
    id: u64,
    data: VecDeque<Bytes>,
    is_ended: bool,
    is_accepted: bool,
}

/// One end of a connection.
pub(super) struct Connection {
    id: u32,
    is_client: bool,
    /// From here to the peer, unmarked.
    addresses: Envelope,
    state: State,
    config: TcpConfig,
    contents: Contents,
    sender: Sender,
    receiver: Receiver,
    agreed: Agreed,
    opening: Opening,
    /// The application is done with it.
    pub(super) is_closed: bool,
    failed: Option<&'static str>,
    streams: Streams,
    pace_at: Option<Instant>,
    limited: Limited,
    stats: ConnectionStats,
    recording: Recording,
}

/// What both ends agreed on in the handshake.
#[derive(Copy, Clone, Debug)]
struct Agreed {
    /// The shift of our window field, and of the peer's.
    scale: u8,
    peer_scale: u8,
    ecn: bool,
    /// The peer counts marks one by one (RFC 9768), and so do we.
    is_accurate: bool,
}

/// The handshake, and how long it took.
#[derive(Copy, Clone, Debug)]
struct Opening {
    /// When to send the SYN again.
    at: Option<Instant>,
    sent: Instant,
    syns: u32,
    started: Instant,
    took: Option<Duration>,
}

/// The streams of the application.
#[derive(Debug, Default)]
struct Streams {
    /// Those with something to be read.
    incoming: Vec<Stream>,
    /// Those that we have written to, while they are open.
    open: Vec<(u64, bool)>,
    opened: u64,
    /// Bytes written to all of them.
    written: u64,
}

/// What has held the sender back, and for how long.
#[derive(Debug)]
struct Limited {
    by: Option<Limit>,
    since: Instant,
    times: [Duration; Limit::ALL.len()],
}

/// What is kept of the connection for plots and hashes.
struct Recording {
    origin: Instant,
    wanted: Record,
    log: Option<EventHash>,
    points: Vec<PacketPoint>,
    metrics: Vec<(Duration, thalweg_recovery::trace::Metrics)>,
}

impl Connection {
    pub(super) fn new(
        id: u32,
        is_client: bool,
        addresses: Envelope,
        now: Instant,
        shared: &Shared<'_>,
        log: Option<EventHash>,
    ) -> Connection {
        let config = shared.config;
        let size = config.segment_size();
        let scale = (0..14).find(|shift| config.receive_window >> shift <= u64::from(u16::MAX)).unwrap_or(14);
        shared.contents.open(id);
        Connection {
            id,
            is_client,
            addresses,
            state: if is_client { State::SynSent } else { State::SynReceived },
            config,
            contents: shared.contents.clone(),
            sender: Sender::new(shared.recovery, config, now, size, shared.record.packets),
            receiver: Receiver::new(config, size),
            agreed: Agreed { scale, peer_scale: 0, ecn: false, is_accurate: false },
            opening: Opening { at: Some(now), sent: now, syns: 0, started: now, took: None },
            is_closed: false,
            failed: None,
            streams: Streams::default(),
            pace_at: None,
            limited: Limited { by: None, since: now, times: [Duration::ZERO; Limit::ALL.len()] },
            stats: ConnectionStats::default(),
            recording: Recording {
                origin: shared.origin,
                wanted: shared.record,
                log,
                points: Vec::new(),
                metrics: Vec::new(),
            },
        }
    }

    /// Why it cannot go on, if so.
    pub(super) fn failed(&self) -> Option<&'static str> {
        self.failed
    }

    /// A segment arrived; `size` is that of the datagram.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        ecn: Ecn,
        header: &Header,
        data: u64,
        size: u64,
        rtt: &mut Quantiles,
    ) {
        self.log_segment(now, 2, ecn, header, data);
        self.stats.packets_received += 1;
        self.stats.udp_received.datagrams += 1;
        self.stats.udp_received.bytes += size;
        if let Some(count) = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(0),
            Ecn::Ect1 => Some(1),
            Ecn::Ce => Some(2),
        } {
            self.stats.ecn_received[count] += 1;
        }
        if header.has(RST) {
            self.failed = Some("the peer does not know it (RST)");
            return;
        }
        if header.has(SYN) {
            self.on_syn(now, header);
        } else if self.state == State::SynReceived && header.has(ACK) {
            self.establish(now, self.opening.sent, self.opening.syns > 1);
        }
        if self.state != State::Established {
            return;
        }
        if let Some((stamp, echo)) = header.stamps {
            // The SYN took the first number.
            let start = if header.has(SYN) { 0 } else { unwrap(header.seq.wrapping_sub(1), self.receiver.next()) };
            self.receiver.on_stamp(start, stamp);
            self.receiver.on_echo(data, echo, age(now, echo));
        }
        if header.has(ACK) && !header.has(SYN) {
            let outcome = self.on_ack(now, header, data > 0);
            if let Some(latest) = outcome.rtt_sample {
                rtt.record(latest);
                self.receiver.set_rtt(self.sender.path().path().rtt().smoothed);
            }
        }
        if data > 0 {
            let flags = header.flags;
            // The SYN took the first number.
            let start = unwrap(header.seq.wrapping_sub(1), self.receiver.next());
            if self.agreed.is_accurate {
                self.receiver.count_mark(ecn);
                self.receiver.on_segment(now, start, start + data, Ecn::NotEct, flags);
            } else {
                self.receiver.on_segment(now, start, start + data, ecn, flags);
            }
            self.take_delivered();
        }
    }

    fn on_syn(&mut self, now: Instant, header: &Header) {
        self.agreed.peer_scale = header.scale;
        self.sender.set_window(u64::from(header.window));
        match self.state {
            State::SynSent if header.has(ACK) => {
                // RFC 9768 section 3.1.2; ECE alone is the answer of RFC 3168.
                self.agreed.is_accurate = self.config.counts_marks && header.has(CWR) && !header.has(ECE);
                self.agreed.ecn = self.config.ecn && (header.has(ECE) || self.agreed.is_accurate);
                self.establish(now, self.opening.sent, self.opening.syns > 1);
                self.receiver.acknowledge();
            }
            // Our SYN/ACK was lost, or is on its way.
            State::SynReceived => {
                self.agreed.ecn = self.config.ecn && header.has(ECE) && header.has(CWR);
                self.agreed.is_accurate = self.config.counts_marks && self.agreed.ecn && header.has(AE);
                self.opening.at = Some(now);
            }
            _ => self.receiver.acknowledge(),
        }
    }

    fn establish(&mut self, now: Instant, sent: Instant, is_repeated: bool) {
        self.state = State::Established;
        self.opening.at = None;
        self.sender.stats.handshake_retransmissions += u64::from(self.opening.syns.saturating_sub(1));
        // Nothing larger can be said in a SYN; the first ACK says more.
        self.sender.set_window(self.config.receive_window.min(u64::from(u16::MAX)).max(1));
        self.sender.on_handshake(now, sent, is_repeated);
        if self.is_client {
            self.opening.took = Some(now.saturating_since(self.opening.started));
        }
        self.receiver.set_rtt(self.sender.path().path().rtt().smoothed);
        self.sender.set_window(self.config.receive_window);
    }

    fn on_ack(&mut self, now: Instant, header: &Header, has_data: bool) -> SegmentOutcome {
        let una = unwrap(header.ack.wrapping_sub(1), self.sender.una());
        self.sender.set_window(u64::from(header.window) << self.agreed.peer_scale);
        let (mut blocks, sacks) = ([(0, 0); MAX_SACKS], header.sacks());
        for (block, (start, end)) in blocks.iter_mut().zip(sacks) {
            *block = (unwrap(start.wrapping_sub(1), una), unwrap(end.wrapping_sub(1), una));
        }
        let blocks = &blocks[..sacks.len()];
        let advances = una > self.sender.una();
        let echo = match (self.agreed.ecn, self.agreed.is_accurate) {
            (false, _) => Echo::None,
            (true, true) => Echo::Count(header.flags),
            (true, false) if header.has(ECE) => Echo::Mark,
            (true, false) => Echo::None,
        };
        let stamped = header.stamps.map(|(_, echo)| now - age(now, echo));
        let outcome = self.sender.on_ack(now, Ack { una, blocks, echo, has_data, stamped });
        if advances && self.recording.wanted.packets {
            self.point(now, self.sender.una(), PacketFate::Acked, 0);
        }
        outcome
    }

    /// Hands what TCP has delivered to the streams.
    fn take_delivered(&mut self) {
        let Connection { contents, streams, receiver, id, is_client, .. } = self;
        let streams = &mut streams.incoming;
        contents.read(*id, !*is_client, receiver.next(), |piece| {
            let at = match streams.iter().position(|stream| stream.id == piece.id) {
                Some(at) => at,
                None => {
                    let (data, is_accepted) = (VecDeque::new(), *is_client);
                    streams.push(Stream { id: piece.id, data, is_ended: false, is_accepted });
                    streams.len() - 1
                }
            };
            if let Some(stream) = streams.get_mut(at) {
                if !piece.data.is_empty() {
                    stream.data.push_back(piece.data);
                }
                stream.is_ended |= piece.is_end;
            }
        });
    }

    /// When [`on_timer`](Self::on_timer) is to be called.
    pub(super) fn timer(&self) -> Option<Instant> {
        if self.is_closed {
            return None;
        }
        match self.state {
            State::Established => earliest([self.sender.timer(), self.receiver.timer(), self.pace_at, self.opening.at]),
            State::SynSent | State::SynReceived => self.opening.at,
        }
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        if self.state == State::Established {
            self.sender.on_timer(now);
        }
    }

    /// Sends what may leave now. Returns whether that was anything.
    pub(super) fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>) -> bool {
        if self.state != State::Established {
            return self.send_syn(now, out);
        }
        let mut has_sent = false;
        self.pace_at = None;
        let blocked = loop {
            match self.sender.poll(now) {
                Ok(transmit) => self.send_data(now, transmit, out),
                Err(blocked) => break blocked,
            }
            has_sent = true;
        };
        let limit = match blocked {
            Blocked::NoData => Limit::Application,
            Blocked::Window => Limit::Window,
            Blocked::FlowControl => Limit::FlowControl,
            Blocked::Pacing(at) => {
                self.pace_at = Some(at);
                Limit::Pacing
            }
        };
        self.hold(now, Some(limit));
        if self.receiver.is_due(now) {
            let header = self.header(now);
            self.send(now, &header, Ecn::NotEct, 0, out);
            has_sent = true;
        }
        self.tell(now);
        has_sent
    }

    /// Whether only the application has held the sender back.
    pub(super) fn wants_data(&self) -> bool {
        matches!(self.limited.by, None | Some(Limit::Application))
    }

    fn send_syn(&mut self, now: Instant, out: &mut Outbox<'_>) -> bool {
        if self.opening.at.is_none_or(|at| at > now) {
            return false;
        }
        if self.opening.syns > SYN_REPEATS {
            self.failed = Some("the peer does not answer");
            self.opening.at = None;
            return false;
        }
        let ecn = match (self.is_client, self.config.ecn, self.agreed.ecn) {
            (true, true, _) if self.config.counts_marks => AE | ECE | CWR,
            (true, true, _) => ECE | CWR,
            (false, _, true) if self.agreed.is_accurate => CWR,
            (false, _, true) => ECE,
            _ => 0,
        };
        let header = Header {
            connection: self.id,
            ack: u32::from(!self.is_client),
            flags: SYN | ecn | if self.is_client { 0 } else { ACK },
            window: u16::try_from(self.config.receive_window).unwrap_or(u16::MAX),
            scale: self.agreed.scale,
            segment_size: self.config.mtu.saturating_sub(HEADERS).max(1),
            stamps: self.stamps(now),
            ..Header::default()
        };
        self.send(now, &header, Ecn::NotEct, 0, out);
        self.opening.sent = now;
        self.opening.at = Some(now + SYN_TIMEOUT * (1 << self.opening.syns.min(SYN_REPEATS)));
        self.opening.syns += 1;
        true
    }

    /// The timestamps of a segment that leaves now: milliseconds, as of Linux.
    fn stamps(&self, now: Instant) -> Option<(u32, u32)> {
        self.config.timestamps.then(|| (millis(now), self.receiver.stamp_to_echo()))
    }

    /// A header that acknowledges all there is.
    fn header(&mut self, now: Instant) -> Header {
        let mut blocks = [(0, 0); MAX_SACKS];
        let most = if self.config.timestamps { STAMPED_SACKS } else { MAX_SACKS };
        let stamps = self.stamps(now);
        let sack_count = self.receiver.on_ack_sent(&mut blocks[..most]);
        // The SYN took the first number.
        let number = |offset: u64| (offset as u32).wrapping_add(1);
        let window = self.config.receive_window >> self.agreed.scale;
        let mut flags = ACK;
        if self.agreed.is_accurate {
            flags |= ace(self.receiver.marked());
        } else if self.receiver.echoes() && self.agreed.ecn {
            flags |= ECE;
        }
        if self.is_closed {
            flags |= FIN;
        }
        Header {
            connection: self.id,
            seq: number(self.sender.next()),
            ack: number(self.receiver.next()),
            flags,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            sacks: blocks.map(|(start, end)| (number(start), number(end))),
            sack_count,
            stamps,
            ..Header::default()
        }
    }

    fn send_data(&mut self, now: Instant, transmit: Transmit, out: &mut Outbox<'_>) {
        let mut header = self.header(now);
        header.seq = (transmit.start as u32).wrapping_add(1);
        // A repair must not be marked (RFC 3168 section 6.1.5).
        let ecn = match self.agreed.ecn && transmit.is_new {
            true if self.agreed.is_accurate => self.sender.path().ecn_codepoint(),
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        };
        if transmit.has_slowed && self.agreed.ecn && !self.agreed.is_accurate {
            header.flags |= CWR;
        }
        if transmit.ends_burst {
            header.flags |= PSH;
        }
        self.send(now, &header, ecn, transmit.length as usize, out);
        if transmit.is_new && self.sender.unsent() == 0 {
            // The application has nothing more to say for the moment.
            out.mark_tail();
        }
        if self.recording.wanted.packets {
            self.point(now, transmit.start, PacketFate::Sent, transmit.length);
        }
    }

    fn send(&mut self, now: Instant, header: &Header, ecn: Ecn, data: usize, out: &mut Outbox<'_>) {
        self.log_segment(now, 1, ecn, header, data as u64);
        let sent = &mut self.stats.udp_sent;
        sent.datagrams += 1;
        // The data are zeros, whatever they mean.
        out.push_written(Envelope { ecn, ..self.addresses }, data, |bytes| {
            header.write(bytes);
            sent.bytes += (bytes.len() + data) as u64;
        });
    }

    /// Adds a segment that was sent (1) or received (2) to the event log.
    fn log_segment(&self, now: Instant, way: u64, ecn: Ecn, header: &Header, data: u64) {
        if let Some(log) = &self.recording.log {
            let [flags, window] = [header.flags, header.window].map(u64::from);
            let [seq, ack] = [header.seq, header.ack].map(u64::from);
            let fixed = [way, u64::from(ecn.bits()), flags, seq, data, ack, window];
            if header.sack_count == 0 {
                return log.packet(now, &fixed);
            }
            let sacks = header.sacks();
            let mut numbers = [0; 7 + MAX_SACKS];
            numbers[..7].copy_from_slice(&fixed);
            for (number, (start, end)) in numbers[7..].iter_mut().zip(sacks) {
                *number = u64::from(*start) << 32 | u64::from(*end);
            }
            log.packet(now, &numbers[..7 + sacks.len()]);
        }
    }

    /// The application is done; says so to the peer.
    pub(super) fn close(&mut self, now: Instant, out: &mut Outbox<'_>) {
        self.is_closed = true;
        self.hold(now, None);
        self.tell(now);
        let header = self.header(now);
        self.send(now, &header, Ecn::NotEct, 0, out);
    }

    /// The answer to whatever still comes after the end.
    pub(super) fn farewell(&self) -> Header {
        let number = |offset: u64| (offset as u32).wrapping_add(1);
        Header {
            connection: self.id,
            seq: number(self.sender.next()),
            ack: number(self.receiver.next()),
            flags: ACK | FIN,
            ..Header::default()
        }
    }

    /// Something else holds the sender back from now on.
    fn hold(&mut self, now: Instant, limit: Option<Limit>) {
        if limit != self.limited.by {
            if let Some(before) = self.limited.by {
                self.limited.times[before.index()] += now.saturating_since(self.limited.since);
            }
            self.limited.by = limit;
            self.limited.since = now;
        }
    }

    fn point(&mut self, now: Instant, start: u64, what: PacketFate, size: u32) {
        let number = start / u64::from(self.config.segment_size());
        self.recording.points.push(PacketPoint { at: now.saturating_since(self.recording.origin), number, what, size });
    }

    /// Passes on what recovery has decided.
    fn tell(&mut self, now: Instant) {
        let Connection { sender, recording: Recording { log, metrics, wanted, origin, .. }, .. } = self;
        sender.path_mut().drain_trace(|at, event| {
            if let Some(log) = log {
                log.on_event(at, &ObserverEvent::Recovery { path: PathId(0), event });
            }
            if let Event::Metrics(numbers) = event
                && wanted.metrics
            {
                metrics.push((at.saturating_since(*origin), *numbers));
            }
        });
        if let Some(mut happenings) = self.sender.happenings.take() {
            for happening in happenings.drain(..) {
                match happening {
                    Happening::Lost(start, size) => self.point(now, start, PacketFate::Lost, size),
                    Happening::Spurious(start, size) => self.point(now, start, PacketFate::Spurious, size),
                }
            }
            self.sender.happenings = Some(happenings);
        }
    }

    /// Segments sent and declared lost so far.
    pub(super) fn packets(&self) -> PacketCounts {
        let stats = self.sender.path().path().stats();
        PacketCounts { sent: stats.packets_sent, lost: stats.packets_lost }
    }

    /// Its figures.
    pub(super) fn report(&mut self, now: Instant) -> SideResult {
        self.hold(now, None);
        let path = self.sender.path().path();
        let mut stats = self.stats.clone();
        stats.handshake_time = self.opening.took;
        (stats.rtt, stats.min_rtt) = (path.rtt().smoothed, path.rtt().min);
        (stats.latest_rtt, stats.rtt_variation) = (path.rtt().latest, path.rtt().variation);
        (stats.window, stats.bytes_in_flight) = (path.window(), path.bytes_in_flight());
        (stats.ssthresh, stats.congestion_state) = (path.ssthresh(), path.state());
        (stats.pacing_rate, stats.delivery_rate) = (path.pacing_rate(), path.delivery_rate());
        stats.path = path.stats();
        stats.mtu = self.config.segment_size() + self.config.headers() - IP_HEADER as u16;
        SideResult {
            stats,
            repairs: path.repair_stats(),
            limited_by: self.limited.times,
            retransmitted: self.sender.stats.retransmitted_bytes,
            series: Series {
                packets: std::mem::take(&mut self.recording.points),
                metrics: std::mem::take(&mut self.recording.metrics),
            },
            tcp: Some(self.sender.stats),
            ..SideResult::default()
        }
    }

    /// Nobody will read what this connection carries any more.
    pub(super) fn contents_closed(&self) {
        self.contents.close(self.id);
    }
}

/// How long ago a timestamp left, to a millisecond, and that at least (RFC 7323 section 4.1).
fn age(now: Instant, stamp: u32) -> Duration {
    Duration::from_millis(u64::from(millis(now).wrapping_sub(stamp).max(1)))
}

/// A clock of timestamps.
fn millis(now: Instant) -> u32 {
    (now.saturating_since(Instant::ZERO).nanos() / 1_000_000) as u32
}

impl Transport for Connection {
    fn is_ready(&self) -> bool {
        self.state == State::Established && !self.is_closed
    }

    fn open(&mut self) -> Option<u64> {
        let id = self.streams.opened;
        self.streams.opened += 1;
        Some(id)
    }

    fn accept(&mut self) -> Option<u64> {
        let stream = self.streams.incoming.iter_mut().find(|stream| !stream.is_accepted)?;
        stream.is_accepted = true;
        Some(stream.id)
    }

    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        let room = SEND_BUFFER.saturating_sub(self.sender.unsent());
        let length = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if length == 0 {
            return 0;
        }
        match self.streams.open.iter_mut().find(|(open, _)| *open == id) {
            Some((_, is_empty)) => *is_empty = false,
            None => self.streams.open.push((id, false)),
        }
        self.streams.written = self.contents.write(self.id, self.is_client, id, data.split_to(length));
        self.sender.set_written(self.streams.written);
        length
    }

    fn finish(&mut self, id: u64) {
        let at = self.streams.open.iter().position(|(open, _)| *open == id);
        let is_empty = at.is_none_or(|at| self.streams.open.swap_remove(at).1);
        self.streams.written = self.contents.finish(self.id, self.is_client, id, is_empty);
        self.sender.set_written(self.streams.written);
    }

    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        let Some(at) = self.streams.incoming.iter().position(|stream| stream.id == id) else { return false };
        let stream = &mut self.streams.incoming[at];
        while let Some(bytes) = stream.data.pop_front() {
            take(&bytes);
        }
        let is_ended = stream.is_ended;
        if is_ended {
            self.streams.incoming.swap_remove(at);
        }
        is_ended
    }

    fn max_datagram(&self) -> Option<usize> {
        None
    }

    fn send_datagram(&mut self, _: Bytes) -> bool {
        false
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        None
    }
}
