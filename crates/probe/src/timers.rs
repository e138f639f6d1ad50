//! What a retransmission timer would have done on the recorded round trips.
//!
//! Each datagram of the way up stands for the last of a flight: a sender sets its timer when it leaves, and stops it
//! when the answer comes. Where the timer would have fired before the answer came, its probe would have been needless
//! (spurious). Where no answer came because the datagram was lost, the probe would have been needed, and how long the
//! timer waited beyond a usual round trip is how late it would have been. No probe is sent in this, and none can be
//! answered: what follows the first, such as the backoff, is not judged.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_link::Quantiles;
use thalweg_units::{Duration, Instant};

use crate::findings::Findings;

/// A rule for a timer: learns round trips, and says how long to wait.
pub trait Timer {
    /// A round trip that ended now.
    fn learn(&mut self, now: Instant, round_trip: Duration);
    /// How long to wait after what is sent now.
    fn wait(&self) -> Duration;
}

/// What a timer would have done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TimerFindings {
    /// Datagrams of which it is known whether they were answered or lost.
    pub set: u64,
    /// Needless probes: the answer came after the timer.
    pub spurious: u64,
    /// Needed probes: the datagram was lost.
    pub needed: u64,
    /// How long the timer waited for these beyond the median of the round trips before.
    pub late: Quantiles,
}

/// A timer that follows a measurement.
pub struct Followed<T> {
    timer: T,
    /// Answers that are still on the way: when each arrives, and its round trip, in nanoseconds.
    coming: BinaryHeap<Reverse<(i64, i64)>>,
    trips: Quantiles,
    findings: TimerFindings,
}

/// The timer is set from the so many first round trips on: before that it goes by what was assumed.
const FIRST: u64 = 10;

impl<T: Timer> Followed<T> {
    /// A timer that has learned nothing yet.
    pub fn new(timer: T) -> Self {
        Followed { timer, coming: BinaryHeap::new(), trips: Quantiles::default(), findings: TimerFindings::default() }
    }

    /// Adds the next part of a measurement.
    pub fn add(&mut self, findings: &Findings) {
        let mut trips = findings.round_trips.iter().peekable();
        for passage in &findings.up.passages {
            while trips.next_if(|(sent, _)| *sent < passage.sent).is_some() {}
            let trip = trips.next_if(|(sent, _)| *sent == passage.sent).map(|(_, trip)| *trip);
            // What arrived, and of which no answer is known, says nothing.
            if trip.is_some() || passage.received.is_none() {
                self.step(passage.sent, trip);
            }
        }
    }

    fn step(&mut self, sent: i64, trip: Option<i64>) {
        while let Some(Reverse((at, trip))) = self.coming.peek().copied().filter(|Reverse((at, _))| *at <= sent) {
            self.coming.pop();
            self.timer.learn(instant(at), span(trip));
            self.trips.record(span(trip));
        }
        if self.trips.count() >= FIRST {
            let wait = self.timer.wait();
            self.findings.set += 1;
            match trip {
                Some(trip) => self.findings.spurious += u64::from(span(trip) > wait),
                None => {
                    self.findings.needed += 1;
                    self.findings.late.record(wait.saturating_sub(self.trips.quantile(1, 2)));
                }
            }
        }
        if let Some(trip) = trip {
            self.coming.push(Reverse((sent + trip, trip)));
        }
    }

    /// What it would have done so far.
    pub fn findings(&self) -> &TimerFindings {
        &self.findings
    }
}

fn span(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0) as u64)
}

fn instant(nanos: i64) -> Instant {
    // Clocks start somewhere: no time of a measurement is before it.
    Instant::from_nanos(nanos.max(0) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Waits twice the last round trip.
    struct Twice(Duration);

    impl Timer for Twice {
        fn learn(&mut self, _: Instant, round_trip: Duration) {
            self.0 = round_trip;
        }

        fn wait(&self) -> Duration {
            self.0 * 2
        }
    }

    #[test]
    fn what_comes_after_the_timer_was_needless_and_what_is_lost_was_waited_for() {
        let mut timer = Followed::new(Twice(Duration::from_secs(1)));
        for n in 0..100i64 {
            let trip = match n {
                50 => Some(130 * MS),
                // The timer has learned the long one by now.
                57 => Some(70 * MS),
                70 | 71 => None,
                _ => Some(30 * MS),
            };
            timer.step(n * 20 * MS, trip);
        }
        let findings = timer.findings();
        assert_eq!((findings.set, findings.spurious, findings.needed), (89, 1, 2), "{findings:?}");
        // Twice 30 ms, where 30 ms are usual.
        assert_eq!(findings.late.max(), Duration::from_millis(30));
    }
}
