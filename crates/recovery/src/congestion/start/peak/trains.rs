//! What trains of packets tell about the rate of a path, by two clocks.
//!
//! The receiver's clock is the better one where it can be had ([`AckEvent::arrivals`]): it knows of every packet, and
//! nothing on the way back makes it late. But a receiver may lie about it. So what it says counts up to what ACKs
//! allow by our own clock. These come late by chance, and a few packets at a time; as trains grow, both matter less.
//!
//! What an ACK says of its own delay is not measured by: a receiver that counts off its queue as a delay of its own
//! would make the path look faster than it is.

use thalweg_units::{DurationExt, Rate};

use super::bound::{Bound, Point};
use crate::congestion::AckEvent;

/// What the receiver says may exceed what ACKs allow so many times. ACKs that share a thin way back with others read
/// half of the rate while trains are short. With a bound of 5/4 a long fat path took a tenth of a round trip more, and
/// one run of a dozen three times as long. A receiver that lies gets no more from twice as much than an honest one
/// whose ACKs come densely.
const SLACK: u64 = 2;

/// A window may be so many times as large as what was seen to fill the path. An initial window says what a path of a
/// quarter of a gigabit and 600 ms fills, 250 times as much; of more, nothing can be known from so little.
const MOST_TIMES: u64 = 512;

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

    /// The most that ACKs allow.
    fn most(&self) -> Option<Rate> {
        self.heard.ceiling().map(|rate| rate.mul_ratio(SLACK, 1))
    }

    /// The highest rate that the path is known to carry.
    pub(super) fn peak(&self) -> Option<Rate> {
        let highest = self.heard.peak().max(self.told.peak())?;
        Some(highest.min(self.most()?))
    }

    /// Whether a train at least twice as long as another gave no higher rate.
    pub(super) fn is_confirmed(&self) -> bool {
        let by_receiver = self.told.peak().is_some_and(|told| Some(told) <= self.most());
        if by_receiver { self.told.is_confirmed() } else { self.heard.is_confirmed() }
    }

    /// The most bytes that a bound was measured over.
    pub(super) fn measured(&self) -> u64 {
        self.told.measured().max(self.heard.measured())
    }

    /// The most that a window may be because of what was measured.
    pub(super) fn most_window(&self) -> u64 {
        MOST_TIMES * self.heard.widest()
    }

    /// Takes in what an ACK tells.
    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>) {
        let newest = event.arrivals.iter().rfind(|arrival| Some(arrival.sent) == event.newest_sent);
        if let Some(newest) = newest.filter(|_| event.has_rtt_sample) {
            let delay = i128::from(newest.received.nanos()) - i128::from(newest.sent.as_nanos());
            self.told.on_round_trip(delay, event.rtt.adjusted);
        }
        for arrival in event.arrivals {
            let received = i128::from(arrival.received.nanos());
            let (sent, bytes) = (arrival.sent, arrival.bytes);
            let point = Point { first: sent, sent, bytes, before: 0, received, is_exact: true };
            self.told.on_arrival(point, event.rtt.min);
        }
        // An ACK without an RTT sample may be late by anything.
        if let Some(sent) = event.newest_sent.filter(|_| event.has_rtt_sample) {
            let delay = event.rtt.latest.saturating_sub(event.rtt.adjusted);
            let point = Point {
                first: event.oldest_sent.unwrap_or(sent),
                sent,
                bytes: event.acked,
                before: event.acked.saturating_sub(self.datagram),
                received: i128::from((event.now - delay).as_nanos()),
                is_exact: delay <= event.rtt.min / PROMPT,
            };
            self.heard.on_arrival(point, event.rtt.min);
        }
    }
}
