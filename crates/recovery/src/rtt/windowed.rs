//! Estimators over windows: the largest sample of recent round trips, and the smallest of the last few samples.
//!
//! **Long**: a probe timer wants to know how long an answer may take. Averages answer by assuming a distribution; but
//! most variation of the round-trip time is our own doing (the queue that the window fills, the controller's cycle) and
//! follows none. [`Maxima`] remembers the largest sample of each of the last round trips, as many as a cycle of the
//! controller lasts, so that the peak of the last cycle is known while the next one climbs. Slow start is no part of
//! any cycle: its peak is forgotten when it ends (a maximum that keeps it was the worst timer in the source's
//! experiment).
//!
//! **Short**: what asks whether a queue builds up wants the jitter out and the shift in. [`Recent`] gives the smallest
//! of the last eight samples. Samples less than a millisecond apart count as one, the smallest: ACKs that arrive
//! bunched saw the same queue.

use thalweg_units::{Duration, Instant};

/// Round trips remembered at most; a longer cycle is remembered in part. Bounds the memory and the work per round trip.
const MAX_MEMORY: usize = 64;

/// Round trips remembered at least, whatever the controller says: with fewer, one quiet round trip forgets all there
/// was.
const MIN_MEMORY: usize = 4;

/// Samples that the short-term minimum is taken over. More takes out longer spells of jitter, and sees a shift that
/// much later.
const RECENT: usize = 8;

/// How far apart samples have to be to count as two.
const SPACING: Duration = Duration::from_millis(1);

/// The largest sample of each of the last round trips.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Maxima {
    ring: [Duration; MAX_MEMORY],
    /// How many entries of the ring are in use, and where the next goes.
    used: usize,
    next: usize,
    memory: usize,
    /// Of the round trip under way.
    running: Duration,
    /// Of those remembered.
    largest: Duration,
}

impl Default for Maxima {
    fn default() -> Self {
        Maxima {
            ring: [Duration::ZERO; MAX_MEMORY],
            used: 0,
            next: 0,
            memory: MIN_MEMORY,
            running: Duration::ZERO,
            largest: Duration::ZERO,
        }
    }
}

impl Maxima {
    pub(super) fn on_sample(&mut self, sample: Duration) {
        self.running = self.running.max(sample);
    }

    /// The round trip is over.
    pub(super) fn end_round(&mut self) {
        self.ring[self.next] = self.running;
        self.next = (self.next + 1) % MAX_MEMORY;
        self.used = (self.used + 1).min(MAX_MEMORY);
        self.running = Duration::ZERO;
        self.recount();
    }

    /// Remembers so many round trips from now on, within limits.
    pub(super) fn set_memory(&mut self, rounds: u32) {
        let memory = (rounds as usize).clamp(MIN_MEMORY, MAX_MEMORY);
        if memory != self.memory {
            self.memory = memory;
            self.recount();
        }
    }

    fn recount(&mut self) {
        let newest_first = (1..=self.used.min(self.memory)).map(|age| (self.next + MAX_MEMORY - age) % MAX_MEMORY);
        self.largest = newest_first.map(|index| self.ring[index]).max().unwrap_or(Duration::ZERO);
    }

    /// Forgets everything, the round trip under way included.
    pub(super) fn clear(&mut self) {
        *self = Maxima { memory: self.memory, ..Maxima::default() };
    }

    /// The largest sample of the round trips remembered and of the one under way; `None` before one is complete.
    pub(super) fn largest(&self) -> Option<Duration> {
        (self.used > 0).then(|| self.largest.max(self.running))
    }
}

/// The smallest of the last few samples.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent {
    ring: [Duration; RECENT],
    used: usize,
    next: usize,
    /// When the newest entry was made.
    at: Option<Instant>,
}

impl Recent {
    pub(super) fn on_sample(&mut self, now: Instant, sample: Duration) {
        let newest = (self.next + RECENT - 1) % RECENT;
        if self.at.is_some_and(|at| now.saturating_since(at) < SPACING) {
            self.ring[newest] = self.ring[newest].min(sample);
            return;
        }
        self.at = Some(now);
        self.ring[self.next] = sample;
        self.next = (self.next + 1) % RECENT;
        self.used = (self.used + 1).min(RECENT);
    }

    /// Zero before the first sample.
    pub(super) fn min(&self) -> Duration {
        self.ring[..self.used].iter().copied().min().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    fn round(maxima: &mut Maxima, samples: &[u64]) {
        samples.iter().for_each(|sample| maxima.on_sample(ms(*sample)));
        maxima.end_round();
    }

    #[test]
    fn a_peak_is_remembered_for_as_many_round_trips_as_a_cycle_lasts() {
        let mut maxima = Maxima::default();
        assert_eq!(maxima.largest(), None);
        maxima.set_memory(10);
        round(&mut maxima, &[100, 300, 200]);
        for _ in 0..9 {
            round(&mut maxima, &[100, 150]);
            assert_eq!(maxima.largest(), Some(ms(300)));
        }
        round(&mut maxima, &[100, 150]);
        assert_eq!(maxima.largest(), Some(ms(150)));
    }

    #[test]
    fn the_round_trip_under_way_counts_at_once() {
        let mut maxima = Maxima::default();
        round(&mut maxima, &[100]);
        maxima.on_sample(ms(400));
        assert_eq!(maxima.largest(), Some(ms(400)));
    }

    #[test]
    fn a_shorter_cycle_forgets_and_a_longer_one_remembers_within_limits() {
        let mut maxima = Maxima::default();
        maxima.set_memory(u32::MAX);
        round(&mut maxima, &[900]);
        for _ in 0..63 {
            round(&mut maxima, &[100]);
        }
        assert_eq!(maxima.largest(), Some(ms(900)));
        maxima.set_memory(20);
        assert_eq!(maxima.largest(), Some(ms(100)));
        maxima.set_memory(64);
        assert_eq!(maxima.largest(), Some(ms(900)));
        round(&mut maxima, &[100]);
        assert_eq!(maxima.largest(), Some(ms(100)), "sixty-four are all there are");
        maxima.set_memory(0);
        round(&mut maxima, &[200]);
        for _ in 0..3 {
            round(&mut maxima, &[100]);
        }
        assert_eq!(maxima.largest(), Some(ms(200)), "and four the least");
    }

    #[test]
    fn clearing_forgets_the_round_trip_under_way_too() {
        let mut maxima = Maxima::default();
        round(&mut maxima, &[500]);
        maxima.on_sample(ms(600));
        maxima.clear();
        assert_eq!(maxima.largest(), None);
        round(&mut maxima, &[100]);
        assert_eq!(maxima.largest(), Some(ms(100)));
    }

    #[test]
    fn the_smallest_of_the_last_eight_samples() {
        let mut recent = Recent::default();
        for (index, sample) in [50, 90, 80, 70, 95, 90, 90, 90].into_iter().enumerate() {
            recent.on_sample(at(index as u64), ms(sample));
            assert_eq!(recent.min(), ms(50));
        }
        recent.on_sample(at(8), ms(90));
        assert_eq!(recent.min(), ms(70), "the first has left the window");
    }

    #[test]
    fn samples_within_a_millisecond_count_as_the_smallest_of_them() {
        let mut recent = Recent::default();
        recent.on_sample(at(0), ms(60));
        for micros in 1..=100 {
            recent.on_sample(at(1) + Duration::from_micros(micros), ms(100 - micros / 10));
        }
        assert_eq!(recent.min(), ms(60), "a bunch does not push the others out");
        for late in 2..9 {
            recent.on_sample(at(late * 10), ms(200));
        }
        assert_eq!(recent.min(), ms(90));
    }
}
