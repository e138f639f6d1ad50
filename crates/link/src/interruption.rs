//! Interruptions as a description says them: when a link is out or suspended, with values that a seed draws.

use serde::Serialize;
use thalweg_units::Duration;

use crate::read::{Field, Table};
use crate::{ConfigError, Spread, Streams, Window, Windows};

/// More windows of one interruption than this are an error, for each is drawn ahead and kept.
const MOST_WINDOWS: u64 = 100_000;

/// When an interruption begins and how long it lasts. [`draw`](Self::draw) makes windows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interruption {
    /// The name of its stream of chance: interruptions of one direction whose names differ are drawn independently.
    pub stream: String,
    /// The first begin, drawn from this range.
    pub at: (Duration, Duration),
    /// How long, drawn from this range.
    pub lasts: (Duration, Duration),
    /// From begin to begin; once if absent.
    pub every: Option<Duration>,
    /// How often at most; 0 for no limit.
    pub times: u64,
    /// Begins are a Poisson process with mean distance `every`.
    pub random: bool,
}

/// Where packets wait while a direction is suspended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeldWhere {
    /// Before serialization: afterwards they leave at the rate of the link.
    Before,
    /// After propagation: afterwards they arrive all at once.
    After,
}

impl Interruption {
    /// Windows with everything drawn from the seed, up to `horizon` after the start of the link.
    ///
    /// # Errors
    /// When there are more than 100,000.
    pub fn draw(&self, streams: &Streams, horizon: Duration) -> Result<Vec<Window>, ConfigError> {
        let mut dice = streams.dice(&self.stream);
        let mut draw = |(low, high): (Duration, Duration)| Spread::Uniform(low, high).draw(&mut dice);
        let mut start = draw(self.at);
        let window = |start, length| Window { start, end: start + length, lose_first: false };
        let Some(every) = self.every else { return Ok(vec![window(start, draw(self.lasts))]) };
        let mut list = Vec::new();
        let most = if self.times == 0 { u64::MAX } else { self.times };
        for number in 0..most {
            if self.random {
                let gap = Spread::Exponential(every).draw(&mut streams.scope(&self.stream).dice(&number.to_string()));
                start = start.saturating_add(gap);
            }
            if start >= horizon {
                break;
            }
            if number == MOST_WINDOWS {
                return Err(ConfigError::TooManyWindows { stream: self.stream.clone(), most: MOST_WINDOWS });
            }
            let length = draw(self.lasts);
            list.push(window(start, length));
            start = if self.random { start + length } else { start + every };
        }
        Ok(list)
    }

    /// An outage; `number` counts those of one direction or path.
    pub(crate) fn outage(field: &dyn Field, number: usize) -> Option<Windows> {
        let table = field.table("{ at = \"1 s\", for = \"2 s\" } or { every = \"10 s\", for = \"1 s..2 s\" }")?;
        let interruption = Interruption::read(&*table, format!("outage {number}"));
        table.finish();
        interruption.map(Windows::Drawn)
    }

    /// A suspension and where packets wait; `number` counts those of one direction or path.
    pub(crate) fn suspension(field: &dyn Field, number: usize) -> Option<(HeldWhere, Windows)> {
        let table = field.table("{ at = \"1 s\", for = \"250 ms\", held = \"before\" }")?;
        let interruption = Interruption::read(&*table, format!("suspension {number}"));
        let held = table.get("held").map_or(Some(HeldWhere::After), |field| {
            field.choice(&[("before", HeldWhere::Before), ("after", HeldWhere::After)])
        });
        table.finish();
        Some((held?, Windows::Drawn(interruption?)))
    }

    fn read(table: &dyn Table, stream: String) -> Option<Interruption> {
        let lasts = table.need("for", "\"2 s\", or \"1 s..24 s\" to draw it").and_then(|field| {
            let range = field.duration_range()?;
            if range.start().is_zero() {
                field.complain(&"an interruption must last longer than zero");
            }
            Some(range.into_inner())
        });
        let every = table.get("every").and_then(|field| field.span());
        let times = table.get("times").map_or(Some(0), |field| field.count(1..=1_000_000));
        let random = table.get("random").map_or(Some(false), |field| field.boolean());
        // Without a first begin, the first comes after one distance.
        let first = if random == Some(true) { Duration::ZERO } else { every.unwrap_or_default() };
        let at = table
            .get("at")
            .map_or(Some((first, first)), |field| field.duration_range().map(core::ops::RangeInclusive::into_inner));
        if !table.has("at") && !table.has("every") {
            table.complain(&"needs at (\"1 s\") or every (\"2 s\")");
        }
        if (table.has("times") || table.has("random")) && !table.has("every") {
            table.complain(&"times and random belong to every; write every = \"2 s\"");
        }
        if let (Some(every), Some((_, longest)), Some(false)) = (every, lasts, random)
            && longest >= every
        {
            table.complain(&"lasts as long as the distance to the next, so nothing would ever pass");
        }
        Some(Interruption { stream, at: at?, lasts: lasts?, every, times: times?, random: random? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn once() -> Interruption {
        Interruption {
            stream: "outage 0".to_owned(),
            at: (S, S),
            lasts: (S, 3 * S),
            every: None,
            times: 0,
            random: false,
        }
    }

    #[test]
    fn lengths_are_drawn_within_their_range_and_differ_by_seed_and_stream() {
        let draw = |seed, stream: &str| {
            let interruption = Interruption { stream: stream.to_owned(), ..once() };
            interruption.draw(&Streams::new(seed), 60 * S).unwrap()
        };
        let one = draw(1, "outage 0");
        assert_eq!(one, draw(1, "outage 0"));
        assert_ne!(one, draw(2, "outage 0"));
        assert_ne!(one, draw(1, "outage 1"));
        assert!((2 * S..=4 * S).contains(&one[0].end), "{one:?}");
    }

    #[test]
    fn repeated_ones_end_with_the_horizon_and_are_bounded() {
        let repeated = Interruption { lasts: (S / 2, S / 2), every: Some(2 * S), ..once() };
        let starts: Vec<_> =
            repeated.draw(&Streams::new(1), 8 * S).unwrap().iter().map(|w| w.start.as_secs()).collect();
        assert_eq!(starts, [1, 3, 5, 7]);
        let twice = Interruption { times: 2, ..repeated };
        assert_eq!(twice.draw(&Streams::new(1), 8 * S).unwrap().len(), 2);
        let tiny = Duration::from_nanos(1);
        let crowd = Interruption { lasts: (tiny, tiny), every: Some(2 * tiny), ..once() };
        let error = crowd.draw(&Streams::new(1), 8 * S).unwrap_err().to_string();
        assert!(error.contains("`outage 0`") && error.contains("make `every` longer"), "{error}");
    }
}
