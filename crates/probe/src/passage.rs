//! Passages of datagrams over the path, by one clock: one-way delays and round trips.

use thalweg_units::Ecn;

use crate::clock::Clock;
use crate::trace::{Trace, Way};

/// A datagram's passage, by the client's clock, in nanoseconds since the measurement began.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it was sent.
    pub sent: i64,
    /// When it arrived; `None` if it was lost.
    pub received: Option<i64>,
    /// How late it was sent.
    pub late: i64,
    /// How often it arrived.
    pub copies: u8,
    /// The ECN field on arrival of one that was sent with ECT(0).
    pub ecn: Option<Ecn>,
}

impl Passage {
    /// How long it was on the way.
    pub fn delay(&self) -> Option<i64> {
        self.received.map(|received| received - self.sent)
    }
}

/// The passages of a stream whose fate is known, in the order of sending. Those that waited for a train of the
/// measurement are left out.
///
/// One-way delays are as exact as the offset of the clocks: each may be too long by as much as those of the other way
/// are too short. See [`Clock::bound`].
pub fn passages(trace: &Trace, clock: &Clock, way: Way) -> Vec<Passage> {
    let start = i64::try_from(trace.started).unwrap_or(i64::MAX);
    let client = |at: u64| i64::try_from(at).unwrap_or(i64::MAX).saturating_sub(start);
    let server = |at: u64| clock.to_client(at).saturating_sub(start);
    let known = trace.stream(way).iter().filter(|datagram| datagram.known && !datagram.disturbed);
    known
        .map(|datagram| {
            let (sent, received) = match way {
                Way::Up => (client(datagram.sent), datagram.received.map(server)),
                Way::Down => (server(datagram.sent), datagram.received.map(client)),
            };
            let ecn = received.filter(|_| datagram.marked).map(|_| datagram.ecn);
            Passage { sent, received, late: i64::from(datagram.late) * 1_000, copies: datagram.copies, ecn }
        })
        .collect()
}

/// Round trips: when each began, and how long it took, in nanoseconds. A datagram of the way up is continued by the
/// first of the way down that the server sent when it had arrived, as an echo would be; the time that it waited at
/// the server does not count. No clock but the client's is in this.
pub fn round_trips(up: &[Passage], down: &[Passage]) -> Vec<(i64, i64)> {
    let mut arrivals: Vec<(i64, i64, i64)> =
        up.iter().filter_map(|each| Some((each.received?, each.sent, each.delay()?))).collect();
    arrivals.sort_unstable();
    let mut next = 0;
    let mut trips = Vec::with_capacity(arrivals.len());
    for (arrived, sent, delay) in arrivals {
        while down.get(next).is_some_and(|each| each.sent < arrived || each.received.is_none()) {
            next += 1;
        }
        if let Some(back) = down.get(next).and_then(Passage::delay) {
            trips.push((sent, delay + back));
        }
    }
    trips.sort_unstable();
    trips
}
