//! Outages and suspensions of a link, as periods of time.

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant};

use crate::{ConfigError, Dice, Interruption, Spread, Streams};

/// A stretch of time: from `start` up to, not including, `end`, both counted from the start of the link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Begins here.
    pub start: Duration,
    /// Ends here.
    pub end: Duration,
    /// In a suspension *before* serialization: the first packet to leave afterwards is lost (it was on the air when it
    /// began).
    pub lose_first: bool,
}

/// Stretches of time, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Windows {
    /// These. Those that overlap count as one.
    List(Vec<Window>),
    /// One at `first`, then one `every` so often.
    Periodic {
        /// Start of the first.
        first: Duration,
        /// From start to start.
        every: Duration,
        /// Length of each.
        length: Duration,
    },
    /// At random.
    Random {
        /// From the end of one to the start of the next, exponential with this mean.
        gap: Duration,
        /// Length of each.
        length: Spread,
    },
    /// As described; to be drawn before the link is built.
    Drawn(Interruption),
}

impl Windows {
    /// One window.
    pub fn once(start: Duration, length: Duration) -> Self {
        Windows::List(vec![Window { start, end: start + length, lose_first: false }])
    }

    /// The same with everything drawn that a seed decides ahead.
    pub(crate) fn resolve(&self, streams: &Streams, horizon: Duration) -> Result<Windows, ConfigError> {
        match self {
            Windows::Drawn(interruption) => interruption.draw(streams, horizon).map(Windows::List),
            other => Ok(other.clone()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let ends = match self {
            Windows::Drawn(_) => return Err(ConfigError::Unresolved),
            Windows::List(windows) => windows.iter().all(|window| window.start < window.end),
            Windows::Periodic { every, length, .. } => *length > Duration::ZERO && length < every,
            Windows::Random { gap, .. } => *gap > Duration::ZERO,
        };
        if ends { Ok(()) } else { Err(ConfigError::Windows) }
    }
}

/// Windows read forward in time.
#[derive(Debug)]
pub(crate) struct Gate {
    windows: Windows,
    origin: Instant,
    dice: Dice,
    index: usize,
    current: Current,
}

#[derive(Copy, Clone, Debug)]
struct Current {
    start: Instant,
    end: Instant,
    lose_first: bool,
}

const NEVER: Current = Current { start: Instant::FAR_FUTURE, end: Instant::FAR_FUTURE, lose_first: false };

impl Gate {
    pub(crate) fn new(windows: &Windows, origin: Instant, dice: Dice) -> Self {
        let mut windows = windows.clone();
        if let Windows::List(list) = &mut windows {
            list.sort_by_key(|window| (window.start, window.end));
            list.dedup_by(|later, earlier| {
                let overlaps = later.start <= earlier.end;
                if overlaps {
                    earlier.end = earlier.end.max(later.end);
                    earlier.lose_first |= later.lose_first;
                }
                overlaps
            });
        }
        let mut gate = Gate { windows, origin, dice, index: 0, current: NEVER };
        gate.current = gate.next(origin);
        gate
    }

    /// The next window; `after` is the end of the one before.
    fn next(&mut self, after: Instant) -> Current {
        let n = self.index;
        self.index += 1;
        match &self.windows {
            Windows::List(list) => list.get(n).map_or(NEVER, |window| Current {
                start: self.origin + window.start,
                end: self.origin + window.end,
                lose_first: window.lose_first,
            }),
            Windows::Periodic { first, every, length } => {
                let offset = every.nanos().saturating_mul(n as u64);
                let start = self.origin + *first + Duration::from_nanos(offset);
                Current { start, end: start + *length, lose_first: false }
            }
            Windows::Random { gap, length } => {
                let start = after + Spread::Exponential(*gap).draw(&mut self.dice);
                Current { start, end: start + length.draw(&mut self.dice), lose_first: false }
            }
            // Refused by `check`.
            Windows::Drawn(_) => NEVER,
        }
    }

    /// Until when the window lasts in which `now` lies, if there is one, and whether it takes its first packet with it.
    /// Times do not go back.
    pub(crate) fn holds(&mut self, now: Instant) -> Option<(Instant, bool)> {
        while now >= self.current.end && self.current.end != Instant::FAR_FUTURE {
            self.current = self.next(self.current.end);
        }
        (now >= self.current.start).then_some((self.current.end, self.current.lose_first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Streams;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    fn gate(windows: Windows) -> Gate {
        Gate::new(&windows, Instant::ZERO, Streams::new(1).dice("gate"))
    }

    fn window(start: u64, end: u64) -> Window {
        Window { start: ms(start), end: ms(end), lose_first: false }
    }

    #[test]
    fn a_window_includes_its_start_and_not_its_end() {
        let mut gate = gate(Windows::List(vec![window(30, 40), window(5, 10), window(8, 12)]));
        let found: Vec<_> =
            [0, 4, 5, 9, 11, 12, 29, 30, 39, 40, 1000].map(|t| (t, gate.holds(at(t)).map(|(end, _)| end))).into();
        let expected: Vec<_> = [0, 4, 5, 9, 11, 12, 29, 30, 39, 40, 1000]
            .map(|t| (t, (5..12).contains(&t).then(|| at(12)).or((30..40).contains(&t).then(|| at(40)))))
            .into();
        assert_eq!(found, expected);
    }

    #[test]
    fn periodic_windows_go_on() {
        let mut gate = gate(Windows::Periodic { first: ms(100), every: ms(2000), length: ms(200) });
        for t in (0..20_000).step_by(10) {
            let expected = t >= 100 && (t - 100) % 2000 < 200;
            assert_eq!(gate.holds(at(t)).is_some(), expected, "{t}");
        }
    }

    #[test]
    fn random_windows_cover_their_share_of_time() {
        let length = Spread::Uniform(ms(50), ms(150));
        let mut gate = gate(Windows::Random { gap: ms(900), length });
        let inside = (0..10_000_000).filter(|t| gate.holds(at(*t)).is_some()).count();
        // 100 of 1000 ms on average, over 10,000 windows.
        assert!((970_000..1_030_000).contains(&inside), "{inside}");
    }
}
