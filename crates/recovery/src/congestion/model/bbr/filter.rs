//! Windowed maxima, round trips and chance: what BBR measures with.

use thalweg_units::{Duration, Rate};

use crate::probe::scatter;

/// The maximum of a series over a window of time, from three samples: the best, and the best of what came later than
/// it, twice (after Kathleen Nichols).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct WindowedMax {
    /// Best first, latest last.
    best: [Entry; 3],
}

#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    value: u64,
    time: u64,
}

impl WindowedMax {
    /// The largest value of the window that ended with the latest update.
    pub(super) fn value(&self) -> u64 {
        self.best[0].value
    }

    /// Takes a sample in. What is `length` old or older no longer counts; `time` never goes back.
    pub(super) fn update(&mut self, value: u64, time: u64, length: u64) {
        let new = Entry { value, time };
        let is_old = |entry: Entry| time.saturating_sub(entry.time) >= length;
        if value >= self.best[0].value || is_old(self.best[2]) {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].value {
            (self.best[1], self.best[2]) = (new, new);
        } else if value >= self.best[2].value {
            self.best[2] = new;
        }
        while is_old(self.best[0]) {
            self.best = [self.best[1], self.best[2], new];
        }
        // A later part of the window has to be represented, or its best would be lost with the whole.
        let age = time.saturating_sub(self.best[0].time);
        if self.best[1].time == self.best[0].time && age > length / 4 {
            (self.best[1], self.best[2]) = (new, new);
        } else if self.best[2].time == self.best[1].time && age > length / 2 {
            self.best[2] = new;
        }
    }
}

/// The largest delivery rate of this probing cycle and the one before (MaxBwFilterLen = 2).
#[derive(Copy, Clone, Debug)]
pub(super) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
}

impl MaxBandwidth {
    pub(super) fn new() -> MaxBandwidth {
        MaxBandwidth { previous: Rate::ZERO, current: Rate::ZERO }
    }

    /// Zero before the first sample.
    pub(super) fn value(&self) -> Rate {
        self.previous.max(self.current)
    }

    /// What the application has limited says nothing about the path, unless the path was faster than it was known to
    /// be.
    pub(super) fn update(&mut self, rate: Rate, application_limited: bool) {
        if rate > Rate::ZERO && (rate >= self.value() || !application_limited) {
            self.current = self.current.max(rate);
        }
    }

    /// A cycle has ended. One without a sample counts as none: what is known would be forgotten for nothing.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            self.previous = self.current;
            self.current = Rate::ZERO;
        }
    }
}

/// Packet-timed round trips (section 5.5.1 of the draft). BBR begins a new one whenever it changes what it does.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Rounds {
    /// How many have ended.
    pub(super) count: u64,
    /// The acknowledgment at hand ended one.
    pub(super) started: bool,
    /// A round ends with the acknowledgment of a packet sent when so much had been delivered.
    end: u64,
}

impl Rounds {
    /// The newest packet that was acknowledged was sent when `prior_delivered` bytes had been delivered; now it is
    /// `delivered`.
    pub(super) fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.started = prior_delivered >= self.end;
        if self.started {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// A round begins now.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.end = delivered;
    }
}

/// The random choices of one controller: the same seed gives the same choices.
#[derive(Copy, Clone, Debug)]
pub(super) struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance { seed, drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        scatter(self.seed ^ scatter(self.drawn))
    }

    /// Zero or one.
    pub(super) fn bit(&mut self) -> u64 {
        self.draw() >> 63
    }

    /// A span shorter than a second, uniformly.
    pub(super) fn part_of_second(&mut self) -> Duration {
        Duration::from_nanos(self.draw() % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windowed_maximum_forgets_what_is_as_old_as_the_window() {
        let mut filter = WindowedMax::default();
        filter.update(100, 0, 10);
        for time in 1..10 {
            filter.update(10 + time, time, 10);
            assert_eq!(filter.value(), 100, "at {time}");
        }
        filter.update(5, 10, 10);
        assert!(filter.value() < 100, "ten rounds later it is forgotten");
    }

    #[test]
    fn a_windowed_maximum_never_exceeds_nor_misses_what_the_window_holds() {
        // Against the definition: at most the true maximum, and at least the newest sample.
        for seed in 0..20 {
            let mut chance = Chance::new(seed);
            let mut filter = WindowedMax::default();
            let mut samples = Vec::new();
            for time in 0..200 {
                let value = chance.draw() % 1_000;
                samples.push((time, value));
                filter.update(value, time, 10);
                let within = samples.iter().filter(|(at, _)| time - at < 10).map(|(_, value)| *value).max().unwrap();
                assert!(filter.value() <= within, "{} at {time}, {within} is the most", filter.value());
                assert!(filter.value() >= value);
            }
        }
    }

    #[test]
    fn a_windowed_maximum_of_one_round_holds_the_newest_round() {
        let mut filter = WindowedMax::default();
        filter.update(50, 3, 1);
        filter.update(70, 3, 1);
        filter.update(60, 3, 1);
        assert_eq!(filter.value(), 70);
        filter.update(20, 4, 1);
        assert_eq!(filter.value(), 20);
    }

    #[test]
    fn the_maximum_bandwidth_lasts_for_two_cycles() {
        let rate = Rate::from_bps;
        let mut filter = MaxBandwidth::new();
        filter.update(rate(100), false);
        filter.advance();
        filter.update(rate(40), false);
        assert_eq!(filter.value(), rate(100), "the previous cycle counts");
        filter.advance();
        assert_eq!(filter.value(), rate(40), "two cycles later it does not");
        filter.advance();
        assert_eq!(filter.value(), rate(40), "a cycle without a sample forgets nothing");
    }

    #[test]
    fn samples_that_the_application_limits_count_only_if_they_are_higher() {
        let rate = Rate::from_bps;
        let mut filter = MaxBandwidth::new();
        filter.update(rate(100), false);
        filter.advance();
        filter.update(rate(90), true);
        filter.advance();
        assert_eq!(filter.value(), rate(100), "it left no trace in its cycle");
        filter.update(rate(110), true);
        assert_eq!(filter.value(), rate(110));
        filter.update(Rate::ZERO, false);
        filter.advance();
        filter.update(rate(1), false);
        assert_eq!(filter.value(), rate(110));
    }

    #[test]
    fn a_round_ends_with_a_packet_sent_after_it_began() {
        let mut rounds = Rounds::default();
        rounds.update(0, 1_000);
        assert_eq!((rounds.started, rounds.count), (true, 1));
        rounds.update(0, 2_000);
        assert_eq!((rounds.started, rounds.count), (false, 1), "sent before");
        rounds.update(1_000, 3_000);
        assert_eq!((rounds.started, rounds.count), (true, 2));
        rounds.begin(3_500);
        rounds.update(3_000, 4_000);
        assert_eq!((rounds.started, rounds.count), (false, 2), "another round began meanwhile");
        rounds.update(3_500, 4_500);
        assert_eq!((rounds.started, rounds.count), (true, 3));
    }

    #[test]
    fn chance_is_that_of_the_seed_and_covers_its_range() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..200).map(|_| (chance.bit(), chance.part_of_second())).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = draw(7);
        let ones = drawn.iter().filter(|(bit, _)| *bit == 1).count();
        assert!((70..130).contains(&ones), "{ones} of 200");
        let least = drawn.iter().map(|(_, span)| *span).min().unwrap();
        let most = drawn.iter().map(|(_, span)| *span).max().unwrap();
        assert!(
            least < Duration::from_millis(50) && most > Duration::from_millis(950) && most < Duration::from_secs(1)
        );
    }
}
