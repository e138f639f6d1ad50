//! The estimate of the rate of a path from trains of packets, by two clocks.
//!
//! The receiver's clock is the better one where it can be had ([`AckEvent::arrivals`]): it knows of every packet, and
//! nothing on the way back makes it late. But a receiver may lie about it. So what it says counts up to what ACKs
//! allow by our own clock. These come late by chance, and a few packets at a time; as trains grow, both matter less.
//!
//! What an ACK says of its own delay is not measured by: a receiver that counts off its queue as a delay of its own
//! would make the path look faster than it is.

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Rate};

use super::bound::{Bound, Point};
use crate::congestion::AckEvent;

/// What the receiver says may exceed what ACKs allow by one in so many.
const SAME: u64 = 20;

/// The last ACK of a train may be late by the time for so many packets more and by a slot, but by no more than the
/// train is long. ACKs that share a thin way back with others read half of the rate while trains are short; the longer
/// the train, the less it matters.
const LATE: u64 = 64;

/// Packets of a train of which ACKs say more than the receiver, if they differ.
const SURE: u64 = 512;

/// A window may be so many times as large as what was seen to fill the path. An initial window says what a path of a
/// quarter of a gigabit and 600 ms fills, 250 times as much; of more, nothing can be known from so little.
const MOST_TIMES: u64 = 512;

/// On paths beyond the Earth it may be more: as many times as the round trip is longer than this, the shortest time
/// that a train is taken to last.
const LEAST_SPAN: Duration = Duration::from_micros(1_200);

/// How many times as large, and how many packets at most, while nothing but the times of ACKs says so. A way back that
/// lets ACKs go in slots of some milliseconds has a train look as fast as it can send ACKs. The next train is then as
/// much longer, and spans slots.
const MOST_HEARD: (u64, u64) = (8, 512);

/// An ACK that was held back by less than one in so many of the round trip came when its newest packet did.
const PROMPT: u32 = 512;

/// Bounds on the rate of a path, from the arrivals of its packets.
#[derive(Copy, Clone, Debug)]
pub(super) struct Trains {
    /// By the receiver's clock.
    told: Bound,
    /// By our own, from when ACKs came.
    heard: Bound,
    /// Bytes of a full packet.
    datagram: u64,
}

impl Trains {
    pub(super) fn new(datagram: u64) -> Trains {
        Trains { told: Bound::new(datagram, true), heard: Bound::new(datagram, false), datagram }
    }

    /// The highest rate that the path is known to carry.
    pub(super) fn peak(&self) -> Option<Rate> {
        let Some(told) = self.told.peak() else { return self.heard.peak() };
        Some(told.min(self.most()?))
    }

    /// Whether the receiver's clock has measured a rate.
    pub(super) fn is_told(&self) -> bool {
        self.told.peak().is_some()
    }

    /// The most by which packets of trains came after the one before, once aside; zero without a receiver's clock.
    pub(super) fn jitter(&self) -> Duration {
        self.told.jitter()
    }

    /// The most that ACKs allow.
    fn most(&self) -> Option<Rate> {
        let (bytes, ceiling) = self.heard.ceiling()?;
        let late = mul_div(bytes, 1, SAME) + LATE * self.datagram + ceiling.bytes_in(self.heard.slot());
        Some(ceiling.mul_ratio(bytes + late.min(bytes), bytes))
    }

    /// Whether a train at least twice as long as another gave no higher rate.
    pub(super) fn is_confirmed(&self) -> bool {
        let by_both = self.told.is_confirmed() || self.heard.is_confirmed();
        match (self.told.peak(), self.heard.ceiling()) {
            (Some(told), _) if Some(told) <= self.most() => self.told.is_confirmed(),
            // What the receiver says is more than ACKs allow. These are wrong if they come late, the less so the longer
            // the train.
            (Some(_), Some((bytes, _))) => by_both && bytes >= SURE * self.datagram,
            _ => self.heard.is_confirmed(),
        }
    }

    /// The most bytes that a bound was measured over.
    pub(super) fn measured(&self) -> u64 {
        self.told.measured().max(self.heard.measured())
    }

    /// The most that a window may be because of what was measured.
    pub(super) fn most_window(&self, min_rtt: Duration) -> u64 {
        let is_sure = self.is_told() || self.heard.is_confirmed();
        let widest = self.heard.widest();
        let (times, packets) = MOST_HEARD;
        let most_times = MOST_TIMES.max(min_rtt.nanos() / LEAST_SPAN.nanos());
        if is_sure { widest.saturating_mul(most_times) } else { (times * widest).min(packets * self.datagram) }
    }

    /// Takes in an ACK.
    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>) {
        let newest = event.arrivals.iter().rfind(|arrival| Some(arrival.sent) == event.newest_sent());
        if let Some(newest) = newest.filter(|_| event.has_rtt_sample) {
            self.told.on_round_trip(newest.delay(), event.rtt.adjusted);
        }
        for arrival in event.arrivals {
            let received = i128::from(arrival.received.nanos());
            let (sent, order, bytes) = (arrival.sent, arrival.order, arrival.bytes);
            let point = Point { first: sent, sent, order, bytes, before: 0, received, is_exact: true };
            self.told.on_arrival(point, event.rtt.min);
        }
        // An ACK without an RTT sample may be late by anything.
        if let Some(sent) = event.newest_sent().filter(|_| event.has_rtt_sample) {
            let delay = event.rtt.latest.saturating_sub(event.rtt.adjusted);
            let point = Point {
                first: event.sent.map_or(sent, |span| span.oldest),
                sent,
                order: 0,
                bytes: event.acked,
                before: event.acked.saturating_sub(self.datagram),
                received: i128::from((event.now - delay).as_nanos()),
                is_exact: event.rtt.ack_delay <= event.rtt.min / PROMPT,
            };
            self.heard.on_arrival(point, event.rtt.min);
        }
    }
}
