//! Streams (RFC 9000 sections 2, 3, 4): what the application writes and reads, and the frames that carry it.
//!
//! [`Streams`] is driven from three sides: the application (`open`, `accept`, `write`, `read`, …), arriving frames
//! (`on_…`), and packets to be filled (`write_control`, `write_data`, then `on_acked` or `on_lost` with the packet's
//! record). A stream's state is dropped as soon as both directions are done, so a connection can carry any number of
//! streams one after the other; frames that come late for a dropped stream are ignored.

mod application;
mod buffer;
mod control;
mod flow;
mod id;
mod input;
mod limits;
mod output;
mod pins;
mod recv;
mod scheduler;
mod send;
mod send_buffer;
mod types;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;
use thalweg_units::Instant;

pub use flow::{Budget, CONNECTION_STATE, CREDIT_FLOOR, RECEIVE_STATE, SEND_STATE};
pub use id::{Dir, StreamId};
pub use types::{
    ClosedStream, ReadError, SentChunk, SentControl, SentStreams, StreamEvent, StreamLimits, StreamsConfig, WriteError,
};

use crate::Side;
use buffer::BlockPool;
use control::Control;
use flow::{Clock, RECEIVE_STEP, Share, Window};
use output::Outgoing;
use recv::{Arrival, Recv};
use send::Send;
use send_buffer::SparePool;

/// The streams of one direction that this end opens.
#[derive(Debug, Default)]
struct Local {
    /// How many were opened.
    next: u64,
    /// How many the peer allows.
    max: u64,
    /// `open` was refused since the limit last rose.
    refused: bool,
    /// The limit of the last report to the peer that we are blocked.
    blocked_at: Option<u64>,
}

/// The streams of one direction that the peer opens.
#[derive(Debug)]
struct Remote {
    /// How many the peer opened, by using them or a later one.
    opened: u64,
    /// How many of them the application took.
    accepted: u64,
    /// How many the peer may open, as sent, or about to be sent, to it.
    limit: u64,
    /// How many are done in both directions and forgotten.
    closed: u64,
    /// How many may be open at a time.
    concurrent: u64,
    /// The application was not yet notified of streams it can accept.
    announced: bool,
}

impl Remote {
    fn new(concurrent: u64) -> Remote {
        let concurrent = concurrent.min(StreamId::MAX_STREAMS);
        Remote { opened: 0, accepted: 0, limit: concurrent, closed: 0, concurrent, announced: false }
    }

    /// Raises the limit for streams that closed. Returns whether to send it to the peer: in steps of an eighth, and
    /// at once when the peer is about to run out or (`asked`) has run out.
    fn renew(&mut self, asked: bool) -> bool {
        let limit = (self.closed + self.concurrent).min(StreamId::MAX_STREAMS);
        let step = self.concurrent / 8;
        let due = limit > self.limit && (asked || limit - self.limit >= step || self.limit - self.opened <= step);
        if due {
            self.limit = limit;
        }
        due
    }
}

/// What the receiving parts of all streams share.
#[derive(Debug)]
struct Incoming {
    window: Window,
    /// The sum of the highest offsets of all streams, forgotten ones included.
    received: u64,
    /// Received and not consumed, holes included: what the memory in use cannot exceed by much.
    share: Share,
    pool: BlockPool,
    clock: Clock,
}

/// All streams of a connection.
#[derive(Debug)]
pub struct Streams {
    side: Side,
    config: StreamsConfig,
    /// The limits the peer set for streams yet to be opened.
    peer: StreamLimits,
    /// Whether `set_peer_limits` was called.
    peer_known: bool,
    local: [Local; 2],
    remote: [Remote; 2],
    send: FxHashMap<StreamId, Send>,
    recv: FxHashMap<StreamId, Recv>,
    outgoing: Outgoing,
    incoming: Incoming,
    control: Control,
    events: VecDeque<StreamEvent>,
}

impl Streams {
    /// No streams yet, and nothing allowed by the peer.
    pub fn new(side: Side, config: StreamsConfig) -> Streams {
        Streams {
            side,
            peer: StreamLimits::default(),
            peer_known: false,
            local: Default::default(),
            remote: [Remote::new(config.max_concurrent_bidi), Remote::new(config.max_concurrent_uni)],
            send: FxHashMap::default(),
            recv: FxHashMap::default(),
            outgoing: Outgoing::new(&config),
            incoming: Incoming {
                window: Window::new(config.receive_window, config.max_receive_window),
                received: 0,
                share: Share::new(config.budget.clone(), RECEIVE_STEP),
                pool: BlockPool::default(),
                clock: Clock { now: Instant::ZERO, rtt: Duration::from_millis(100) },
            },
            control: Control::default(),
            events: VecDeque::new(),
            config,
        }
    }

    /// What to put into our transport parameters.
    pub fn initial_limits(&self) -> StreamLimits {
        let window = self.stream_window().granted();
        StreamLimits {
            max_data: Window::new(self.config.receive_window, self.config.max_receive_window).granted(),
            stream_data_bidi_local: window,
            stream_data_bidi_remote: window,
            stream_data_uni: window,
            streams_bidi: Remote::new(self.config.max_concurrent_bidi).limit,
            streams_uni: Remote::new(self.config.max_concurrent_uni).limit,
        }
    }

    /// The peer's transport parameters: the remembered ones for 0-RTT, later the real ones. Limits only rise; if 0-RTT
    /// was rejected, call [`Streams::zero_rtt_rejected`] first.
    pub fn set_peer_limits(&mut self, limits: &StreamLimits) {
        self.peer_known = true;
        let known = &mut self.peer;
        for (known, new) in [
            (&mut known.max_data, limits.max_data),
            (&mut known.stream_data_bidi_local, limits.stream_data_bidi_local),
            (&mut known.stream_data_bidi_remote, limits.stream_data_bidi_remote),
            (&mut known.stream_data_uni, limits.stream_data_uni),
        ] {
            *known = new.max(*known);
        }
        self.raise_stream_limit(Dir::Bi, limits.streams_bidi);
        self.raise_stream_limit(Dir::Uni, limits.streams_uni);
        self.on_max_data(limits.max_data);
        // At most twice per connection, and before it had the time to open many streams.
        for (id, stream) in &mut self.send {
            stream.max_data = stream.max_data.max(initial_credit(self.side, &self.peer, *id));
        }
        self.refresh_all();
    }

    /// The server rejected 0-RTT: forgets that anything was sent and what the peer allowed. First call
    /// [`Streams::on_lost`] for the packets withdrawn (or never), then this, then [`Streams::set_peer_limits`].
    pub fn zero_rtt_rejected(&mut self) {
        self.peer = StreamLimits::default();
        self.outgoing.forget_sent();
        for local in &mut self.local {
            local.max = 0;
            local.blocked_at = None;
        }
        for (id, stream) in &mut self.send {
            stream.unsend();
            stream.allowed = id.initiator() != self.side;
            if stream.reset.is_some() {
                self.control.queue_reset(*id, stream);
            }
        }
        self.control.data_blocked_at = None;
        self.refresh_all();
    }

    /// The time and the smoothed round-trip time, for the tuning of windows. To be called whenever datagrams arrive.
    pub fn set_clock(&mut self, now: Instant, rtt: Duration) {
        self.incoming.clock = Clock { now, rtt };
    }

    /// The window a stream starts with.
    fn stream_window(&self) -> Window {
        Window::new(self.config.stream_receive_window, self.config.max_stream_receive_window)
    }

    /// Adds the sending part of a stream.
    fn insert_send(&mut self, id: StreamId) {
        let stream = Send::new(initial_credit(self.side, &self.peer, id));
        self.outgoing.inserted(&stream);
        self.send.insert(id, stream);
    }

    /// Adds the receiving part of a stream; `accepted`: the application knows of it.
    fn insert_recv(&mut self, id: StreamId, accepted: bool) {
        let stream = Recv::new(self.stream_window(), accepted);
        self.outgoing.add_state(RECEIVE_STATE);
        self.recv.insert(id, stream);
    }

    /// Forgets the sending part of a stream.
    fn remove_send(&mut self, id: StreamId) {
        if let Some(mut stream) = self.send.remove(&id) {
            self.outgoing.removed(&mut stream);
            self.part_closed(id);
        }
    }

    /// Forgets the receiving part of a stream.
    fn remove_recv(&mut self, id: StreamId) {
        if self.recv.remove(&id).is_some() {
            self.outgoing.sub_state(RECEIVE_STATE);
            self.part_closed(id);
        }
    }

    /// One part of a stream was forgotten: if it was the last, the peer may open another stream.
    fn part_closed(&mut self, id: StreamId) {
        if id.initiator() == self.side || self.send.contains_key(&id) || self.recv.contains_key(&id) {
            return;
        }
        let remote = &mut self.remote[id.dir().index()];
        remote.closed += 1;
        if remote.renew(false) {
            self.control.max_streams[id.dir().index()] = true;
        }
    }

    /// Takes over what a frame, or the application's loss of interest, changed in the receiving part of a stream.
    fn apply(&mut self, id: StreamId, arrival: Arrival) {
        let incoming = &mut self.incoming;
        if arrival.grown > 0 {
            incoming.received += arrival.grown;
            incoming.share.add(arrival.grown);
        }
        if arrival.consumed > 0 {
            self.consume(arrival.consumed);
        }
        if arrival.readable {
            self.events.push_back(StreamEvent::Readable { id });
        }
        if arrival.done {
            self.remove_recv(id);
        }
    }

    /// Credits bytes that were read or thrown away to the connection.
    fn consume(&mut self, bytes: u64) {
        let Incoming { window, received, clock, share, .. } = &mut self.incoming;
        share.sub(bytes);
        if window.consume(bytes, *received, *clock, share) {
            self.control.max_data = true;
        }
    }

    fn raise_stream_limit(&mut self, dir: Dir, limit: u64) {
        let local = &mut self.local[dir.index()];
        if limit <= local.max {
            return;
        }
        let rejected_before = local.next > local.max;
        local.max = limit;
        if std::mem::take(&mut local.refused) {
            self.events.push_back(StreamEvent::Available { dir });
        }
        // Only after a rejected 0-RTT can there be streams beyond the limit.
        if rejected_before {
            let side = self.side;
            self.control.release();
            for (id, stream) in &mut self.send {
                if id.initiator() == side && id.dir() == dir && id.index() < limit {
                    stream.allowed = true;
                }
            }
            self.refresh_all();
        }
    }

    /// The congestion window of the path in use, bytes: what a connection may hold of a
    /// [`send_budget`](StreamsConfig::send_budget) grows with it.
    pub fn set_congestion_window(&mut self, bytes: u64) {
        self.outgoing.congestion_window = bytes;
    }

    /// The connection is over: drops all bytes that wait to be sent or acknowledged. What arrived can still be read.
    pub(crate) fn drop_unsent(&mut self) {
        for stream in self.send.values_mut() {
            self.outgoing.drop_bytes(stream);
        }
        self.outgoing.pool = SparePool::default();
    }

    /// Looks at every stream again: after rare events that change the credit of all.
    fn refresh_all(&mut self) {
        // The order in which streams get their turns must not depend on the map's.
        let mut ids: Vec<StreamId> = self.send.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(stream) = self.send.get_mut(&id) {
                self.outgoing.refresh(&mut self.control, id, stream);
                self.outgoing.wake(id, stream, &mut self.events);
            }
        }
    }
}

/// The credit the peer's transport parameters give to the sending part of a stream.
fn initial_credit(side: Side, peer: &StreamLimits, id: StreamId) -> u64 {
    match (id.dir(), id.initiator() == side) {
        (Dir::Uni, true) => peer.stream_data_uni,
        (Dir::Uni, false) => 0,
        // The parameters are named from the point of view of the end that sends them.
        (Dir::Bi, true) => peer.stream_data_bidi_remote,
        (Dir::Bi, false) => peer.stream_data_bidi_local,
    }
}
