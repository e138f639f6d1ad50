//! The stack "raw": datagrams at a constant rate without any transport, for cross traffic and for what a link does to
//! it.
//!
//! A datagram of `frame` bytes is 44 bytes more on the wire: 16 of its own head and 28 of IPv4 and UDP. What does not
//! fit into 1,500 bytes goes in several.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use thalweg_units::{Duration, Ecn, Instant};

use crate::app::Transport;
use crate::floor::Framing;
use crate::host::{Envelope, Host, IP_UDP_HEADERS, Outbox, Status};
use crate::meter::Meter;
use crate::plan::{FlowPlan, PlanError};
use crate::result::SideResult;
use crate::stack::{Carries, Hosts, StackContext, StackFactory, StackInfo, SupportedPolicies};
use crate::traffic::{Media, MediaSink, MediaSource, PIECE_HEAD as HEAD, Traffic, media_span};

/// Largest UDP payload in a packet of 1,500 bytes over IPv4.
const MAX_PAYLOAD: usize = 1472;
/// How often a client asks for media that do not come.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The stack "raw".
#[derive(Debug)]
pub struct Raw;

impl StackFactory for Raw {
    fn info(&self) -> StackInfo {
        StackInfo {
            carries: Carries::Datagrams,
            supported_policies: SupportedPolicies::Only { policies: &[] },
            hears_of_moves: true,
            ..StackInfo::new("raw")
        }
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let Traffic::Media(Media { up, interval, frame, deadline, frames }) = context.flow.traffic else {
            return Err(PlanError::Traffic {
                flow: context.flow.name.clone(),
                reason: "is not media, and the stack \"raw\" carries nothing else".to_owned(),
            });
        };
        let host = |sends: bool, is_client: bool| RawHost {
            is_client,
            local: if is_client { context.client } else { context.server },
            remote: if is_client { context.server } else { context.client },
            start: context.start,
            source: sends.then(|| MediaSource::new(interval, frame, frames)),
            sink: MediaSink::new(deadline),
            pipe: Pipe::default(),
            meter: Meter::new(context.origin, context.record.step),
            running: false,
            asks: is_client && !sends,
            ask_at: None,
            until: None,
            span: frames.map(|frames| media_span(interval, deadline, frames)),
            now: Instant::ZERO,
        };
        Ok((Box::new(host(up, true)), Box::new(host(!up, false))))
    }

    fn framing(&self, _: &FlowPlan, _: bool) -> Framing {
        let packet = MAX_PAYLOAD as u32 + IP_UDP_HEADERS;
        Framing { packet, overhead: IP_UDP_HEADERS + HEAD as u32, first: packet, handshake: 0 }
    }
}

/// Datagrams in and out.
#[derive(Debug, Default)]
struct Pipe {
    incoming: VecDeque<Bytes>,
    outgoing: VecDeque<Bytes>,
}

#[derive(Debug)]
struct RawHost {
    is_client: bool,
    local: SocketAddr,
    /// Where the newest datagram came from.
    remote: SocketAddr,
    start: Instant,
    source: Option<MediaSource>,
    sink: MediaSink,
    pipe: Pipe,
    meter: Meter,
    running: bool,
    asks: bool,
    ask_at: Option<Instant>,
    /// How long all frames take, and when that is over.
    span: Option<Duration>,
    until: Option<Instant>,
    now: Instant,
}

impl Host for RawHost {
    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8]) {
        self.now = now;
        self.remote = envelope.source;
        // A server begins when it is asked.
        self.running |= !self.is_client;
        self.asks = false;
        self.pipe.incoming.push_back(Bytes::copy_from_slice(bytes));
        self.sink.poll(now, &mut self.pipe, &mut self.meter);
    }

    fn next_timer(&self) -> Option<Instant> {
        if self.is_client && !self.running {
            return Some(self.start);
        }
        let frame = self.source.as_ref().filter(|_| self.running).and_then(MediaSource::next);
        let ask = self.ask_at.filter(|_| self.asks);
        let until = self.until.filter(|until| *until > self.now);
        [frame, ask, until].into_iter().flatten().min()
    }

    fn timer(&mut self, now: Instant) {
        self.now = now;
        if self.is_client && !self.running && now >= self.start {
            self.running = true;
            self.ask_at = Some(now);
            self.until = self.span.map(|span| now + span);
        }
        if self.asks && self.ask_at.is_some_and(|at| at <= now) {
            self.pipe.outgoing.push_back(Bytes::from_static(b"go"));
            self.ask_at = Some(now + ASK_AGAIN);
        }
    }

    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>) {
        if let Some(source) = self.source.as_mut().filter(|_| self.running) {
            source.poll(now, &mut self.pipe, &mut self.meter);
        }
        for datagram in self.pipe.outgoing.drain(..) {
            let envelope = Envelope { source: self.local, destination: self.remote, ecn: Ecn::NotEct };
            out.push(envelope, &datagram);
        }
    }

    fn address_changed(&mut self, _: Instant, local: SocketAddr) {
        self.local = local;
    }

    fn status(&self) -> Status {
        if self.until.is_some_and(|until| self.now >= until) { Status::Finished } else { Status::Running }
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn report(&mut self, _: Instant) -> SideResult {
        SideResult::default()
    }
}

impl Transport for Pipe {
    fn is_ready(&self) -> bool {
        true
    }

    fn open(&mut self) -> Option<u64> {
        None
    }

    fn accept(&mut self) -> Option<u64> {
        None
    }

    fn write(&mut self, _: u64, _: &mut Bytes) -> usize {
        0
    }

    fn finish(&mut self, _: u64) {}

    fn read(&mut self, _: u64, _: &mut dyn FnMut(&[u8])) -> bool {
        false
    }

    fn max_datagram(&self) -> Option<usize> {
        Some(MAX_PAYLOAD)
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.outgoing.push_back(data);
        true
    }

    fn recv_datagram(&mut self) -> Option<Bytes> {
        self.incoming.pop_front()
    }
}
