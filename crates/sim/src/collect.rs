//! Listens to the connections of one side of a flow: what held the sender back, and series on request.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_link::Quantiles;
use thalweg_proto::observe::{
    FrameInfo, Limit, ObservedConnection, Observer, ObserverEvent, ObserverFactory, PacketInfo, PacketKind,
};
use thalweg_recovery::trace::Event;
use thalweg_recovery::{PathId, SpaceId};
use thalweg_units::{Duration, Instant};

use crate::ledger::Ledger;
use crate::plan::Record;
use crate::result::{PacketFate, PacketPoint, Series, SideResult};

/// What was collected. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    shared: Arc<Mutex<Collected>>,
    origin: Instant,
    record: Record,
    /// Whether to look for the last packets of messages.
    tails: bool,
    /// Whether the flow uses several paths at once.
    is_several: bool,
}

#[derive(Debug, Default)]
struct Collected {
    /// For each packet with application data sent since the last question, whether it is the last of a message.
    tails: Vec<bool>,
    early_probes: u64,
    unanswered_initials: u64,
    limited_by: [Duration; Limit::ALL.len()],
    series: Series,
    connections: Vec<Holding>,
    retransmitted: u64,
    rtt: Quantiles,
}

/// What holds a connection back, and since when: on each path, where it uses several at once.
#[derive(Clone, Debug, Default)]
struct Holding(Vec<(Option<PathId>, Limit, Instant)>);

impl Collector {
    pub(crate) fn new(origin: Instant, record: Record, tails: bool, is_several: bool) -> Self {
        Collector { shared: Arc::default(), origin, record, tails, is_several }
    }

    /// For each packet with application data sent since this was last asked, whether it is the last of a message, sent
    /// for the first time. Empty if nobody wants to know.
    pub(crate) fn tails(&self) -> Vec<bool> {
        if !self.tails {
            return Vec::new();
        }
        std::mem::take(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner).tails)
    }

    /// Writes what was collected up to `now`.
    pub(crate) fn finish(&self, now: Instant, result: &mut SideResult) {
        let mut collected = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..collected.connections.len() {
            collected.release(index, now);
        }
        result.limited_by = collected.limited_by;
        result.retransmitted = collected.retransmitted;
        result.rtt = std::mem::take(&mut collected.rtt);
        result.early_probes = collected.early_probes;
        result.unanswered_initials = collected.unanswered_initials;
        result.series = std::mem::take(&mut collected.series);
    }
}

impl Collected {
    /// Something else holds a connection back from now on, on this path if it uses several at once.
    fn hold(&mut self, index: usize, now: Instant, path: Option<PathId>, limit: Limit) {
        let Some(Holding(held)) = self.connections.get_mut(index) else { return };
        match held.iter_mut().find(|(of, ..)| *of == path) {
            Some((_, before, since)) => {
                self.limited_by[before.index()] += now.saturating_since(*since);
                (*before, *since) = (limit, now);
            }
            None => held.push((path, limit, now)),
        }
    }

    /// Nothing holds a connection back any more.
    fn release(&mut self, index: usize, now: Instant) {
        let Some(Holding(held)) = self.connections.get_mut(index) else { return };
        for (_, before, since) in held.drain(..) {
            self.limited_by[before.index()] += now.saturating_since(since);
        }
    }
}

impl ObserverFactory for Collector {
    fn build(&self, _: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let mut collected = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        collected.connections.push(Holding::default());
        let index = collected.connections.len() - 1;
        Some(Box::new(Listener {
            collector: self.clone(),
            index,
            ledger: Ledger::default(),
            next_number: 0,
            expired: Vec::new(),
            finished: BTreeSet::new(),
            has_heard: false,
        }))
    }
}

/// Listens to one connection.
#[derive(Debug)]
struct Listener {
    collector: Collector,
    index: usize,
    ledger: Ledger,
    /// The number of the next packet with application data.
    next_number: u64,
    /// Expiries of the probe timer that no acknowledgment has followed yet: the number that was next then.
    expired: Vec<u64>,
    /// Streams whose last packet was sent.
    finished: BTreeSet<u64>,
    /// A packet of the peer was processed.
    has_heard: bool,
}

impl Observer for Listener {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        let Record { metrics, packets, .. } = self.collector.record;
        let at = now.saturating_since(self.collector.origin);
        let point = |number, what, size| PacketPoint { at, number, what, size };
        self.account(at, event);
        self.judge_probes(event);
        self.count_initials(event);
        if self.collector.tails {
            self.find_tails(event);
        }
        let mut collected = match event {
            // The lock only for what is kept.
            ObserverEvent::LimitedBy { .. } | ObserverEvent::ConnectionClosed { .. } => self.lock(),
            ObserverEvent::Recovery { event: Event::Metrics(_), .. } if metrics => self.lock(),
            ObserverEvent::Recovery { event: Event::PacketLost { .. } | Event::SpuriousLoss { .. }, .. } if packets => {
                self.lock()
            }
            ObserverEvent::PacketSent(_) if packets => self.lock(),
            _ => return,
        };
        let series = &mut collected.series;
        match *event {
            ObserverEvent::LimitedBy { path, limit } => {
                collected.hold(self.index, now, self.collector.is_several.then_some(path), limit);
            }
            ObserverEvent::ConnectionClosed { .. } => collected.release(self.index, now),
            ObserverEvent::PacketSent(PacketInfo { kind: PacketKind::OneRtt, number: Some(number), size, .. }) => {
                series.packets.push(point(number, PacketFate::Sent, size));
            }
            ObserverEvent::Recovery { event, .. } => match *event {
                Event::Metrics(numbers) => series.metrics.push((at, numbers)),
                Event::PacketLost { space: SpaceId::DATA, number, size, .. } => {
                    series.packets.push(point(number, PacketFate::Lost, size));
                }
                Event::SpuriousLoss { space: SpaceId::DATA, number, size, .. } => {
                    series.packets.push(point(number, PacketFate::Spurious, size));
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Listener {
    /// Keeps the account of what is sent twice, of round-trip times, and of what is acknowledged.
    fn account(&mut self, at: Duration, event: &ObserverEvent<'_>) {
        let again = self.ledger.sent_again(event);
        if again > 0 {
            self.lock().retransmitted += again;
        }
        if let Some(sample) = Ledger::round_trip(event) {
            self.lock().rtt.record(sample);
        }
        if self.collector.record.packets {
            let Listener { ledger, collector, .. } = self;
            ledger.acknowledged(event, |number| {
                let point = PacketPoint { at, number, what: PacketFate::Acked, size: 0 };
                collector.shared.lock().unwrap_or_else(PoisonError::into_inner).series.packets.push(point);
            });
        }
    }

    /// An expiry of the probe timer was too early if the next acknowledgment is for nothing newer than what had been
    /// sent before it: the path was slow, not silent.
    fn judge_probes(&mut self, event: &ObserverEvent<'_>) {
        match event {
            ObserverEvent::PacketSent(PacketInfo { kind: PacketKind::OneRtt, number: Some(number), .. }) => {
                self.next_number = number + 1;
            }
            ObserverEvent::Recovery { event: Event::PtoExpired { space: SpaceId::DATA, .. }, .. } => {
                self.expired.push(self.next_number);
            }
            ObserverEvent::PacketReceived(PacketInfo { kind: PacketKind::OneRtt, frames, .. })
                if !self.expired.is_empty() =>
            {
                let largest = frames.iter().find_map(|frame| match frame {
                    FrameInfo::Ack { range_count: 1.., ranges, .. } => Some(ranges[0].1),
                    _ => None,
                });
                if let Some(largest) = largest {
                    let early = self.expired.drain(..).filter(|next| largest < *next).count();
                    self.lock().early_probes += early as u64;
                }
            }
            _ => {}
        }
    }

    /// Counts Initial packets that leave before anything has arrived. A client's datagram carries one of them.
    fn count_initials(&mut self, event: &ObserverEvent<'_>) {
        match event {
            ObserverEvent::PacketReceived(_) => self.has_heard = true,
            ObserverEvent::PacketSent(PacketInfo { kind: PacketKind::Initial, .. }) if !self.has_heard => {
                self.lock().unanswered_initials += 1;
            }
            _ => {}
        }
    }

    /// Takes note of packets that carry the end of a stream for the first time.
    fn find_tails(&mut self, event: &ObserverEvent<'_>) {
        if let ObserverEvent::PacketSent(PacketInfo { kind: PacketKind::OneRtt, frames, .. }) = event {
            let mut tail = false;
            for frame in *frames {
                if let FrameInfo::Stream { id, fin: true, .. } = frame {
                    tail |= self.finished.insert(*id);
                }
            }
            self.lock().tails.push(tail);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Collected> {
        self.collector.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
