//! Invented links: the shape of a mobile network and of a low-orbit satellite, without claiming to be a recording.

use thalweg_units::{Duration, Rate, math};

use super::{CsvTrace, Mahimahi, TraceError, TracePoint};
use crate::{Dice, Probability, Windows};

/// A mobile (LTE-like) link: delivery opportunities come at random at a rate that wanders.
///
/// The logarithm of the rate is a random walk that is pulled back to its mean, so that the rate stays positive, doubles
/// and halves within seconds, and fades now and then; within a millisecond opportunities are Poisson. That is the model
/// by which Sprout (Winstein, NSDI 2013) describes measured cellular links, with a mean added.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Lte {
    /// The rate about which it wanders.
    pub rate: Rate,
    /// Deviation of the logarithm in the long run. 0.5: two thirds of the time between 0.6 and 1.65 of the rate.
    pub spread: f64,
    /// How long the rate remembers where it was.
    pub memory: Duration,
    /// Fades: how many per minute on average, and how long; during one nothing is delivered.
    pub fades_per_minute: f64,
    /// Length of a fade.
    pub fade: Duration,
    /// Length of the trace.
    pub length: Duration,
}

impl Default for Lte {
    fn default() -> Self {
        Lte {
            rate: Rate::from_bps(12_000_000),
            spread: 0.5,
            memory: Duration::from_secs(2),
            fades_per_minute: 2.0,
            fade: Duration::from_millis(400),
            length: Duration::from_secs(120),
        }
    }
}

impl Lte {
    /// A trace of this link.
    ///
    /// # Errors
    /// When no opportunity falls into its length.
    pub fn trace(&self, dice: &mut Dice) -> Result<Mahimahi, TraceError> {
        let steps = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX).min(24 * 3_600_000);
        // Per millisecond: an Ornstein-Uhlenbeck process in the logarithm.
        let pull = 1.0 / (self.memory.as_millis().max(1) as f64);
        let kick = self.spread * math::sqrt(2.0 * pull);
        let per_ms = self.rate.bps() as f64 / 8.0 / 1000.0 / f64::from(Mahimahi::OPPORTUNITY);
        // exp(N(0, s²)) has the mean exp(s²/2), which is taken out again.
        let level = per_ms * math::exp(-self.spread * self.spread / 2.0);
        let fade_chance = Probability::new((self.fades_per_minute / 60_000.0).clamp(0.0, 1.0)).unwrap_or_default();
        let fade_ms = u64::try_from(self.fade.as_millis()).unwrap_or(0);
        let (mut log, mut faded_until) = (self.spread * dice.normal(), 0);
        let mut times = Vec::new();
        for ms in 1..=steps {
            log += kick * dice.normal() - pull * log;
            if dice.chance(fade_chance) {
                faded_until = ms + fade_ms;
            }
            // Poisson by exponential gaps; at these rates a handful per millisecond.
            let expected = level * math::exp(log);
            let mut passed = dice.exponential();
            while passed < expected {
                if ms >= faded_until {
                    times.push(ms);
                }
                passed += dice.exponential();
            }
        }
        Mahimahi::from_millis(times)
    }
}

/// A low-orbit satellite link whose terminal is given another satellite at fixed times.
///
/// Between two handovers rate and delay are constant; at each they jump, and for a moment nothing passes. Fifteen
/// seconds is Starlink's reconfiguration interval; the ranges are of the order that public measurements report.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Leo {
    /// Time between handovers.
    pub interval: Duration,
    /// Lowest and highest rate of an interval.
    pub rate: (Rate, Rate),
    /// Lowest and highest one-way delay of an interval.
    pub delay: (Duration, Duration),
    /// How long nothing passes at a handover; the packets sent into it are lost.
    pub gap: Duration,
    /// Share of packets lost in between.
    pub loss: Probability,
    /// How many intervals.
    pub intervals: u32,
}

impl Default for Leo {
    fn default() -> Self {
        Leo {
            interval: Duration::from_secs(15),
            rate: (Rate::from_bps(50_000_000), Rate::from_bps(250_000_000)),
            delay: (Duration::from_millis(15), Duration::from_millis(35)),
            gap: Duration::from_millis(60),
            loss: Probability::ratio(1, 1000),
            intervals: 8,
        }
    }
}

impl Leo {
    /// A repeating trace of this link.
    pub fn trace(&self, dice: &mut Dice) -> CsvTrace {
        let intervals = self.intervals.max(1);
        let points = (0..intervals)
            .map(|n| {
                let rate = self.rate.0.bps() + dice.below(self.rate.1.bps().saturating_sub(self.rate.0.bps()) + 1);
                let span = self.delay.1.saturating_sub(self.delay.0);
                let share = dice.below(1001) as u32;
                TracePoint {
                    at: self.interval * n,
                    rate: Rate::from_bps(rate),
                    // In whole microseconds, so that the trace's text form is exact.
                    delay: Some(self.delay.0 + Duration::from_micros((span * share / 1000).as_micros() as u64)),
                    loss: self.loss,
                }
            })
            .collect();
        CsvTrace { points, period: Some(self.interval * intervals) }
    }

    /// The handovers' gaps, for both directions' outages.
    pub fn gaps(&self) -> Windows {
        Windows::Periodic { first: self.interval, every: self.interval, length: self.gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Streams;

    #[test]
    fn a_mobile_link_has_its_mean_rate_and_varies() {
        let lte = Lte { length: Duration::from_secs(1200), fades_per_minute: 0.0, ..Lte::default() };
        let trace = lte.trace(&mut Streams::new(1).dice("lte")).unwrap();
        let mean = trace.mean_rate().bps() as f64 / lte.rate.bps() as f64;
        assert!((0.9..1.1).contains(&mean), "{mean}");
        // Opportunities per second vary by more than chance alone would: Poisson at 1000 a second deviates by 3 %.
        let mut per_second = vec![0f64; 1201];
        for line in trace.to_text().lines() {
            per_second[line.parse::<usize>().unwrap() / 1000] += 1.0;
        }
        let mean = per_second[..1200].iter().sum::<f64>() / 1200.0;
        let deviation = (per_second[..1200].iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 1200.0).sqrt();
        assert!((0.3..0.8).contains(&(deviation / mean)), "{deviation} {mean}");
    }

    #[test]
    fn fades_are_silent() {
        let lte = Lte { fades_per_minute: 6.0, length: Duration::from_secs(600), ..Lte::default() };
        let trace = lte.trace(&mut Streams::new(2).dice("lte")).unwrap();
        let times: Vec<u64> = trace.to_text().lines().map(|line| line.parse().unwrap()).collect();
        let fades = times.windows(2).filter(|pair| pair[1] - pair[0] >= 395).count();
        assert!((35..90).contains(&fades), "{fades} of about 60");
    }

    #[test]
    fn a_satellite_hands_over_every_fifteen_seconds() {
        let leo = Leo::default();
        let trace = leo.trace(&mut Streams::new(1).dice("leo"));
        assert_eq!((trace.points.len(), trace.period), (8, Some(Duration::from_secs(120))));
        for (n, point) in (0u32..).zip(&trace.points) {
            assert_eq!(point.at, Duration::from_secs(15) * n);
            assert!(point.rate >= leo.rate.0 && point.rate <= leo.rate.1);
            assert!(point.delay >= Some(leo.delay.0) && point.delay <= Some(leo.delay.1));
        }
        assert!(trace.points.windows(2).any(|pair| pair[0].delay > pair[1].delay));
        assert_eq!(CsvTrace::parse(&trace.to_text(), true).unwrap(), trace);
    }
}
