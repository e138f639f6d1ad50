//! Listens to the connections of one side of a flow: what held the sender back, and series on request.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_link::Quantiles;
use thalweg_proto::observe::{
    Limit, ObservedConnection, Observer, ObserverEvent, ObserverFactory, PacketInfo, PacketKind,
};
use thalweg_recovery::SpaceId;
use thalweg_recovery::trace::Event;
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
}

#[derive(Debug, Default)]
struct Collected {
    limited_by: [Duration; Limit::ALL.len()],
    series: Series,
    connections: Vec<Holding>,
    retransmitted: u64,
    rtt: Quantiles,
}

/// What holds a connection back, and since when.
#[derive(Copy, Clone, Debug)]
struct Holding {
    limit: Option<Limit>,
    since: Instant,
}

impl Collector {
    pub(crate) fn new(origin: Instant, record: Record) -> Self {
        Collector { shared: Arc::default(), origin, record }
    }

    /// Writes what was collected up to `now`.
    pub(crate) fn finish(&self, now: Instant, result: &mut SideResult) {
        let mut collected = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..collected.connections.len() {
            collected.hold(index, now, None);
        }
        result.limited_by = collected.limited_by;
        result.retransmitted = collected.retransmitted;
        result.rtt = std::mem::take(&mut collected.rtt);
        result.series = std::mem::take(&mut collected.series);
    }
}

impl Collected {
    /// Something else (or nothing) holds a connection back from now on.
    fn hold(&mut self, index: usize, now: Instant, limit: Option<Limit>) {
        let Some(holding) = self.connections.get_mut(index) else { return };
        if let Some(before) = holding.limit {
            self.limited_by[before.index()] += now.saturating_since(holding.since);
        }
        *holding = Holding { limit, since: now };
    }
}

impl ObserverFactory for Collector {
    fn build(&self, _: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let mut collected = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        collected.connections.push(Holding { limit: None, since: self.origin });
        let index = collected.connections.len() - 1;
        Some(Box::new(Listener { collector: self.clone(), index, ledger: Ledger::default() }))
    }
}

/// Listens to one connection.
#[derive(Debug)]
struct Listener {
    collector: Collector,
    index: usize,
    ledger: Ledger,
}

impl Observer for Listener {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        let Record { metrics, packets, .. } = self.collector.record;
        let at = now.saturating_since(self.collector.origin);
        let point = |number, what, size| PacketPoint { at, number, what, size };
        self.account(at, event);
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
            ObserverEvent::LimitedBy { limit, .. } => collected.hold(self.index, now, Some(limit)),
            ObserverEvent::ConnectionClosed { .. } => collected.hold(self.index, now, None),
            ObserverEvent::PacketSent(PacketInfo { kind: PacketKind::OneRtt, number: Some(number), size, .. }) => {
                series.packets.push(point(number, PacketFate::Sent, size));
            }
            ObserverEvent::Recovery { event, .. } => match *event {
                Event::Metrics(numbers) => series.metrics.push((at, numbers)),
                Event::PacketLost { space: SpaceId::Data, number, size, .. } => {
                    series.packets.push(point(number, PacketFate::Lost, size));
                }
                Event::SpuriousLoss { space: SpaceId::Data, number, size, .. } => {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Collected> {
        self.collector.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
