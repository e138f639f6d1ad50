//! Wi-Fi as measured: short suspensions of one side or of both, now and then in series.
//!
//! The numbers come from ten minutes of UDP echoes every 20 ms between two machines on a home network: a median round
//! trip of 4 ms with 8 ms at 95 %, 0.12 % of packets lost, 18 events of more than 100 ms, and once fourteen suspensions
//! within three seconds. During an event packets wait and leave back to back at its end; in half of them the first is
//! lost.

use serde::Serialize;
use thalweg_units::Duration;

use crate::{
    ConfigError, Dice, DirectionConfig, Jitter, LossModel, Probability, QueueLimit, Spread, Streams, Window, Windows,
};

/// A Wi-Fi hop: jitter, a little loss, and suspensions in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WifiProfile {
    /// One-way delay without events, in place of a fixed delay; packets keep their order.
    pub jitter: Spread,
    /// Share of packets lost at any time.
    pub loss: Probability,
    /// Mean time from one single event to the next.
    pub every: Duration,
    /// Shares of events that suspend only "up" (the station's own sending), only "down", and both, out of their sum.
    pub directions: [u32; 3],
    /// Length of the longer single events, and of every event's length the share that they have.
    pub long: (Spread, Probability),
    /// Length of the other single events.
    pub short: Spread,
    /// Mean time from one series to the next; `None` for none.
    pub series_every: Option<Duration>,
    /// Suspensions in a series.
    pub series_events: u32,
    /// How long a series takes.
    pub series_length: Duration,
    /// Length of a suspension in a series.
    pub series_event: Spread,
    /// Share of suspensions that lose their first packet.
    pub lose_first: Probability,
    /// Limit of the queue, in time.
    pub queue: Duration,
}

impl Default for WifiProfile {
    fn default() -> Self {
        let ms = Duration::from_millis;
        WifiProfile {
            // The sum of two such draws has a median of 4.04 ms and 8 ms at 95 %.
            jitter: Spread::LogNormal { median: Duration::from_micros(1875), sigma: 0.568 },
            loss: Probability::ratio(12, 10_000),
            every: Duration::from_secs(600) / 18,
            directions: [11, 3, 4],
            long: (Spread::Uniform(ms(200), ms(280)), Probability::ratio(12, 18)),
            short: Spread::Uniform(ms(100), ms(200)),
            series_every: Some(Duration::from_secs(600)),
            series_events: 14,
            series_length: Duration::from_secs(3),
            series_event: Spread::Uniform(ms(50), ms(280)),
            lose_first: Probability::ratio(1, 2),
            queue: ms(270),
        }
    }
}

impl WifiProfile {
    /// Suspensions of one run of length `horizon`: up and down, each in order of time.
    pub fn windows(&self, streams: &Streams, horizon: Duration) -> [Vec<Window>; 2] {
        let mut windows = [Vec::new(), Vec::new()];
        let mut dice = streams.dice("wifi/single");
        let mut at = Duration::ZERO;
        loop {
            at += Spread::Exponential(self.every).draw(&mut dice);
            let length = if dice.chance(self.long.1) { self.long.0 } else { self.short }.draw(&mut dice);
            if at >= horizon || self.every == Duration::ZERO {
                break;
            }
            self.add(&mut windows, at, length, &mut dice);
            // The next single event begins after this one.
            at += length;
        }
        if let Some(every) = self.series_every.filter(|every| *every > Duration::ZERO) {
            let mut dice = streams.dice("wifi/series");
            let mut at = Duration::ZERO;
            loop {
                at += Spread::Exponential(every).draw(&mut dice);
                if at >= horizon {
                    break;
                }
                at = self.add_series(&mut windows, at, &mut dice);
            }
        }
        for list in &mut windows {
            list.sort_by_key(|window| window.start);
        }
        windows
    }

    /// Makes two directions a Wi-Fi hop: adds jitter, loss and suspensions, and limits their queues.
    ///
    /// # Errors
    /// When the result cannot work.
    pub fn apply(
        &self,
        up: &mut DirectionConfig,
        down: &mut DirectionConfig,
        streams: &Streams,
        horizon: Duration,
    ) -> Result<(), ConfigError> {
        let windows = self.windows(streams, horizon);
        for (config, windows) in [up, down].into_iter().zip(windows) {
            config.jitter = Some(Jitter { spread: self.jitter, reorder: false });
            config.loss.push(LossModel::Random(self.loss));
            config.suspend_before.push(Windows::List(windows));
            config.queue = QueueLimit::Time(self.queue);
            config.check()?;
        }
        Ok(())
    }

    fn add(&self, windows: &mut [Vec<Window>; 2], start: Duration, length: Duration, dice: &mut Dice) {
        let [up, down, both] = self.directions.map(u64::from);
        let draw = dice.below(up + down + both);
        let lose_first = dice.chance(self.lose_first);
        let window = Window { start, end: start + length.max(Duration::from_nanos(1)), lose_first };
        if draw < up || draw >= up + down {
            windows[0].push(window);
        }
        if draw >= up {
            windows[1].push(window);
        }
    }

    /// Suspensions with what is left of the series' length spread evenly between them; returns the end.
    fn add_series(&self, windows: &mut [Vec<Window>; 2], start: Duration, dice: &mut Dice) -> Duration {
        let events = self.series_events.max(1);
        let lengths: Vec<Duration> = (0..events).map(|_| self.series_event.draw(dice)).collect();
        let held: Duration = lengths.iter().sum();
        // At least a millisecond in between, so that they stay separate events.
        let gap = (self.series_length.saturating_sub(held) / events).max(Duration::from_millis(1));
        let mut at = start;
        for length in lengths {
            self.add(windows, at, length, dice);
            at += length + gap;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn round_trips_have_the_measured_quantiles() {
        let profile = WifiProfile::default();
        let mut dice = Streams::new(5).dice("rtt");
        let mut rtt: Vec<Duration> =
            (0..200_000).map(|_| profile.jitter.draw(&mut dice) + profile.jitter.draw(&mut dice)).collect();
        rtt.sort_unstable();
        let near = |measured: Duration, ms: f64| (measured.as_secs_f64() * 1000.0 / ms - 1.0).abs() < 0.015;
        assert!(near(rtt[100_000], 4.04), "median {:?}", rtt[100_000]);
        assert!(near(rtt[190_000], 8.0), "95 % {:?}", rtt[190_000]);
    }

    #[test]
    fn single_events_come_as_often_and_last_as_long_as_measured() {
        let profile = WifiProfile { series_every: None, ..WifiProfile::default() };
        let [up, down] = profile.windows(&Streams::new(1), HOUR * 100);
        let both = up.iter().filter(|window| down.contains(window)).count();
        let total = (up.len() + down.len() - both) as f64;
        // 18 in 600 s, less the time that the events themselves take: 0.5 %.
        assert!((total / (18.0 * 600.0) - 1.0).abs() < 0.05, "{total}");
        for (count, share) in [(up.len() - both, 11.0), (down.len() - both, 3.0), (both, 4.0)] {
            let expected = total * share / 18.0;
            assert!((count as f64 - expected).abs() < 4.0 * expected.sqrt(), "{count}, expected {expected}");
        }
        let long = up.iter().filter(|window| window.end - window.start > Duration::from_millis(200)).count();
        assert!((long as f64 / up.len() as f64 - 12.0 / 18.0).abs() < 0.03);
        let lost = up.iter().filter(|window| window.lose_first).count();
        assert!((lost as f64 / up.len() as f64 - 0.5).abs() < 0.03);
    }

    #[test]
    fn a_series_is_fourteen_suspensions_in_three_seconds() {
        let profile = WifiProfile { every: Duration::ZERO, ..WifiProfile::default() };
        let [up, down] = profile.windows(&Streams::new(2), HOUR * 10);
        let mut all: Vec<Window> = up.iter().chain(&down).copied().collect();
        all.sort_by_key(|window| window.start);
        all.dedup();
        assert_eq!(all.len() % 14, 0);
        assert!((40..=80).contains(&(all.len() / 14)), "{} series in ten hours", all.len() / 14);
        let spans: Vec<Duration> = all.chunks(14).map(|series| series[13].end - series[0].start).collect();
        let mean = spans.iter().sum::<Duration>() / spans.len() as u32;
        assert!(mean > Duration::from_millis(2700) && mean < Duration::from_millis(3100), "{mean:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_events_however_long_the_run() {
        let profile = WifiProfile::default();
        let [short, _] = profile.windows(&Streams::new(1), HOUR);
        let [long, _] = profile.windows(&Streams::new(1), HOUR * 2);
        let end = short.iter().filter(|window| window.start < HOUR).count();
        assert_eq!(short[..end], long[..end]);
    }

    #[test]
    fn a_hop_is_complete() {
        let (mut up, mut down) = (DirectionConfig::default(), DirectionConfig::default());
        WifiProfile::default().apply(&mut up, &mut down, &Streams::new(1), HOUR).unwrap();
        for config in [up, down] {
            assert_eq!(config.queue, QueueLimit::Time(Duration::from_millis(270)));
            assert!(config.jitter.is_some_and(|jitter| !jitter.reorder));
            assert!(matches!(&config.suspend_before[..], [Windows::List(list)] if !list.is_empty()));
        }
    }
}
