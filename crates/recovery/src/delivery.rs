//! The delivery rate of a path: samples and packet-timed round trips.
//!
//! Per acknowledged packet (draft-cheng-iccrg-delivery-rate-estimation, as BBR uses it):
//!
//! ```text
//! rate = (delivered now - delivered when it was sent) / max(send interval, ack interval)
//! ```
//!
//! where both intervals span the flight that the packet closed. The longer one counts, because packets that left
//! bunched and ACKs that arrive bunched both make delivery look faster than it was. A round trip ends when a packet
//! sent after its beginning is acknowledged.
//!
//! The estimate that statistics show averages the same samples with the ACK interval alone. The send interval of a
//! sample spans the pause after a reduction, in which the bottleneck goes on delivering from its queue. As in Linux's
//! `tcpi_delivery_rate`, a sample that the application has limited counts only if it is higher. No decision depends on
//! it.

use thalweg_units::{Duration, Instant, Rate};

use crate::congestion::LossSample;
use crate::sent::Transmission;

/// A new sample's weight in the estimate is one in so many, as a new sample's is in the smoothed RTT (RFC 9002 section
/// 5.3). More follows a change of the path later; less shows every bunch of ACKs.
const SMOOTHING: u64 = 8;

/// Which packet-timed round trip a path is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Round {
    /// Round trips begun so far.
    pub count: u64,
    /// Whether the acknowledgment at hand began this one.
    pub started: bool,
}

/// One delivery-rate sample.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// The delivery rate.
    pub rate: Rate,
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The span that they were delivered in.
    pub interval: Duration,
    /// The application left the window unused meanwhile: the path may be faster than this.
    pub application_limited: bool,
    /// Bytes in flight just after the sampled packet was sent.
    pub sent_in_flight: u64,
    /// Bytes declared lost since it was sent.
    pub lost: u64,
    /// The acknowledgment at hand gave the sample. Otherwise it is the latest one, and what is new is `lost`.
    pub is_new: bool,
}

/// What a packet remembers of the moment it was sent.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Bytes delivered by then.
    delivered: u64,
    /// When the last of them was acknowledged.
    delivered_at: Instant,
    /// When the first packet of the flight was sent that this one belongs to.
    first_sent: Instant,
    /// Bytes in flight, itself included.
    in_flight: u64,
    /// Bytes declared lost by then.
    lost: u64,
    application_limited: bool,
}

impl Snapshot {
    /// The packet `sent` with `bytes` was lost: what the path looked like when it left.
    pub(crate) fn loss(&self, sent: &Transmission, bytes: u64) -> LossSample {
        LossSample {
            bytes,
            sent: sent.time,
            order: sent.order,
            delivered: self.delivered,
            lost: self.lost,
            in_flight: self.in_flight,
            application_limited: self.application_limited,
        }
    }
}

/// The counters of one path.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    lost: u64,
    /// Samples are marked application-limited until this much has been delivered.
    limited_until: Option<u64>,
    /// The round trip ends with a packet sent when at least this much had been delivered.
    round_end: u64,
    rounds: u64,
    /// What had been delivered when the round trip began, and the most that one delivered.
    round_begin: u64,
    most_in_round: u64,
    /// The latest sample, and what had been lost when its packet was sent.
    latest: Option<(RateSample, u64)>,
    /// The newest packet of the ACK being processed, and when it was sent.
    newest: Option<(Snapshot, Instant)>,
    /// The average of the samples that count, in bits per second.
    estimate: Option<u64>,
}

impl Delivery {
    pub(crate) fn new(now: Instant) -> Delivery {
        Delivery {
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            lost: 0,
            limited_until: None,
            round_end: 0,
            rounds: 0,
            round_begin: 0,
            most_in_round: 0,
            latest: None,
            newest: None,
            estimate: None,
        }
    }

    /// A packet leaves; `in_flight` counts it already, `size` is its share.
    pub(crate) fn on_sent(&mut self, now: Instant, in_flight: u64, size: u64) -> Snapshot {
        if in_flight == size {
            // Nothing was in flight: silence must not count as slow delivery.
            self.first_sent = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            in_flight,
            lost: self.lost,
            application_limited: self.limited_until.is_some(),
        }
    }

    /// A packet was acknowledged.
    pub(crate) fn on_acked(&mut self, now: Instant, snapshot: Snapshot, time_sent: Instant, size: u64) {
        self.delivered += size;
        self.delivered_at = now;
        let is_newer =
            |(newest, sent): (Snapshot, Instant)| (snapshot.delivered, time_sent) >= (newest.delivered, sent);
        if self.newest.is_none_or(is_newer) {
            self.newest = Some((snapshot, time_sent));
        }
    }

    /// Bytes were declared lost.
    pub(crate) fn on_lost(&mut self, size: u64) {
        self.lost += size;
    }

    /// The application leaves the window unused: what is in flight now, and what follows it, says little about the
    /// path.
    pub(crate) fn on_application_limited(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered + in_flight);
    }

    /// Sums up the ACK whose packets have all been reported. `min_rtt` is the path's minimum round-trip time.
    pub(crate) fn finish(&mut self, min_rtt: Duration) -> (Round, Option<RateSample>) {
        let Some((snapshot, time_sent)) = self.newest.take() else {
            return (Round { count: self.rounds, started: false }, self.after_losses());
        };
        let started = snapshot.delivered >= self.round_end;
        if started {
            self.most_in_round = self.most_in_round.max(self.delivered - self.round_begin);
            self.round_begin = self.delivered;
            self.round_end = self.delivered;
            self.rounds += 1;
        }
        if self.limited_until.is_some_and(|until| self.delivered > until) {
            self.limited_until = None;
        }
        let sending = time_sent.saturating_since(snapshot.first_sent);
        let acking = self.delivered_at.saturating_since(snapshot.delivered_at);
        self.first_sent = time_sent;
        let interval = sending.max(acking);
        // Shorter than a round trip: the packet cannot have closed a flight, and the quotient would mean nothing.
        let is_valid = interval >= min_rtt && !interval.is_zero();
        let sample = is_valid.then(|| {
            let delivered = self.delivered - snapshot.delivered;
            RateSample {
                rate: Rate::from_bytes_over(delivered, interval),
                delivered,
                interval,
                application_limited: snapshot.application_limited,
                sent_in_flight: snapshot.in_flight,
                lost: self.lost - snapshot.lost,
                is_new: true,
            }
        });
        if let Some(sample) = sample {
            self.latest = Some((sample, snapshot.lost));
        }
        // An ACK interval begins before its packet was sent, so it is never shorter than a round trip.
        if let Some(sample) = sample.filter(|_| !acking.is_zero()) {
            self.average(Rate::from_bytes_over(sample.delivered, acking), sample.application_limited);
        }
        (Round { count: self.rounds, started }, sample)
    }

    /// Nothing was acknowledged: the latest sample, with what has been lost since its packet was sent.
    fn after_losses(&self) -> Option<RateSample> {
        self.latest.map(|(sample, lost)| RateSample { lost: self.lost - lost, is_new: false, ..sample })
    }

    /// Bytes delivered in all.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The largest number of bytes that were acknowledged within a round trip.
    pub(crate) fn most_in_round(&self) -> u64 {
        self.most_in_round
    }

    /// The average rate of the samples; `None` before the first.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.estimate.map(Rate::from_bps)
    }

    fn average(&mut self, rate: Rate, application_limited: bool) {
        let rate = rate.bps();
        self.estimate = match self.estimate {
            Some(old) if rate <= old && application_limited => Some(old),
            Some(old) => Some(old - old / SMOOTHING + rate / SMOOTHING),
            None => Some(rate),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1_200;
    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Packets leave every millisecond and come back 100 ms later at the same pace: 1200 bytes per millisecond.
    fn steady(delivery: &mut Delivery, count: u64) -> Vec<(Round, Option<RateSample>)> {
        let mut snapshots: Vec<(Snapshot, Instant)> = Vec::new();
        let mut results = Vec::new();
        for ms in 0..count + 100 {
            if ms >= 100 {
                let (snapshot, sent) = snapshots[ms as usize - 100];
                delivery.on_acked(at(ms), snapshot, sent, SIZE);
                results.push(delivery.finish(RTT));
            }
            if ms < count {
                let in_flight = (ms + 1).min(100) * SIZE;
                snapshots.push((delivery.on_sent(at(ms), in_flight, SIZE), at(ms)));
            }
        }
        results
    }

    #[test]
    fn a_steady_stream_is_measured_exactly() {
        let mut delivery = Delivery::new(at(0));
        let results = steady(&mut delivery, 400);
        let last = results.last().unwrap().1.unwrap();
        assert_eq!(last.rate, Rate::from_bps(SIZE * 8 * 1_000));
        assert!(!last.application_limited);
        assert_eq!(last.sent_in_flight, 100 * SIZE);
    }

    #[test]
    fn a_round_lasts_one_round_trip() {
        let mut delivery = Delivery::new(at(0));
        let results = steady(&mut delivery, 400);
        let starts: Vec<usize> =
            results.iter().enumerate().filter(|(_, (round, _))| round.started).map(|(index, _)| index).collect();
        // The first ACK begins round 1; each further one begins when a packet sent after that beginning is
        // acknowledged.
        assert_eq!(starts, vec![0, 100, 200, 300]);
        assert_eq!(results.last().unwrap().0.count, 4);
    }

    #[test]
    fn bunched_acks_do_not_look_fast() {
        let mut delivery = Delivery::new(at(0));
        let sent: Vec<_> = (0..10).map(|i| (delivery.on_sent(at(i * 10), (i + 1) * SIZE, SIZE), at(i * 10))).collect();
        for (snapshot, time) in sent {
            delivery.on_acked(at(190), snapshot, time, SIZE);
        }
        let (_, sample) = delivery.finish(RTT);
        let sample = sample.unwrap();
        assert_eq!(sample.interval, Duration::from_millis(190));
        assert_eq!(sample.delivered, 10 * SIZE);
    }

    #[test]
    fn the_estimate_of_a_steady_stream_is_its_rate() {
        let mut delivery = Delivery::new(at(0));
        assert_eq!(delivery.rate(), None);
        steady(&mut delivery, 400);
        let (rate, exact) = (delivery.rate().unwrap().bps(), SIZE * 8 * 1_000);
        // Every step rounds two quotients down.
        assert!(rate <= exact && exact - rate <= 2 * SMOOTHING, "{rate} against {exact}");
    }

    #[test]
    fn a_limited_application_never_lowers_the_estimate() {
        let mut delivery = Delivery::new(at(0));
        steady(&mut delivery, 400);
        let before = delivery.rate();
        // One packet per round trip.
        for round in 0..50 {
            let sent = at(1_000 + 100 * round);
            delivery.on_application_limited(0);
            let snapshot = delivery.on_sent(sent, SIZE, SIZE);
            delivery.on_acked(sent + RTT, snapshot, sent, SIZE);
            assert!(delivery.finish(RTT).1.unwrap().application_limited);
        }
        assert_eq!(delivery.rate(), before);
        // A path that got slower shows once the application is not the limit.
        for round in 0..50 {
            let sent = at(10_000 + 100 * round);
            let snapshot = delivery.on_sent(sent, SIZE, SIZE);
            delivery.on_acked(sent + RTT, snapshot, sent, SIZE);
            delivery.finish(RTT);
        }
        assert!(delivery.rate().unwrap() < Rate::from_bytes_over(2 * SIZE, RTT), "{:?}", delivery.rate());
    }

    #[test]
    fn silence_does_not_count() {
        let mut delivery = Delivery::new(at(0));
        let first = delivery.on_sent(at(0), SIZE, SIZE);
        delivery.on_acked(at(100), first, at(0), SIZE);
        delivery.finish(RTT);
        let second = delivery.on_sent(at(10_000), SIZE, SIZE);
        delivery.on_acked(at(10_100), second, at(10_000), SIZE);
        let (_, sample) = delivery.finish(RTT);
        assert_eq!(sample.unwrap().interval, RTT);
    }

    #[test]
    fn an_interval_below_the_minimum_round_trip_gives_no_sample() {
        let mut delivery = Delivery::new(at(0));
        let snapshot = delivery.on_sent(at(0), SIZE, SIZE);
        delivery.on_acked(at(50), snapshot, at(0), SIZE);
        assert_eq!(delivery.finish(RTT).1, None);
    }

    #[test]
    fn samples_are_marked_until_the_application_limited_flight_is_delivered() {
        let mut delivery = Delivery::new(at(0));
        let before = delivery.on_sent(at(0), SIZE, SIZE);
        delivery.on_application_limited(SIZE);
        let during = delivery.on_sent(at(1), 2 * SIZE, SIZE);
        delivery.on_acked(at(100), before, at(0), SIZE);
        assert!(!delivery.finish(RTT).1.unwrap().application_limited);
        delivery.on_acked(at(101), during, at(1), SIZE);
        assert!(delivery.finish(RTT).1.unwrap().application_limited);
        let after = delivery.on_sent(at(102), SIZE, SIZE);
        delivery.on_acked(at(202), after, at(102), SIZE);
        assert!(!delivery.finish(RTT).1.unwrap().application_limited);
    }

    #[test]
    fn losses_since_the_packet_was_sent_are_counted() {
        let mut delivery = Delivery::new(at(0));
        delivery.on_lost(SIZE);
        let snapshot = delivery.on_sent(at(0), SIZE, SIZE);
        delivery.on_lost(3 * SIZE);
        delivery.on_acked(at(100), snapshot, at(0), SIZE);
        assert_eq!(delivery.finish(RTT).1.unwrap().lost, 3 * SIZE);
    }
}
