//! Labels of drawn runs: what it saves to take each cause away, with the same seed.

use std::fmt::Write as _;

use thalweg_units::{Duration, DurationExt};
use thalweg_why::Cause;
use thalweg_why::world::World;

/// What is true of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Its number.
    pub number: u64,
    /// How long it took.
    pub completion: Duration,
    /// The share of that which each cause costs, largest first.
    pub savings: Vec<(Cause, f64)>,
}

/// Below this share there is nothing to gain.
pub const NOTHING: f64 = 0.05;
/// Causes whose shares are as close as this are both right.
pub const CLOSE: f64 = 0.10;

impl Truth {
    /// Runs a world, and again without each cause; none if it does not come to an end.
    pub fn of(number: u64, world: &World) -> Option<Truth> {
        let completion = world.run(None).unwrap()?;
        Some(Truth { number, completion, savings: world.savings(completion).unwrap() })
    }

    /// The cause that costs most; none if there is nothing to gain.
    pub fn primary(&self) -> Option<Cause> {
        self.savings.first().filter(|(_, share)| *share >= NOTHING).map(|(cause, _)| *cause)
    }

    /// Whether an answer is right.
    pub fn is_right(&self, answer: Option<Cause>) -> bool {
        let most = self.savings.first().map_or(0.0, |(_, share)| *share);
        match answer {
            None => most < NOTHING,
            Some(cause) => most >= NOTHING && self.share(cause) >= (most - CLOSE).max(0.0) && self.share(cause) > 0.0,
        }
    }

    /// The share of the time that a cause costs.
    pub fn share(&self, cause: Cause) -> f64 {
        self.savings.iter().find(|(other, _)| *other == cause).map_or(0.0, |(_, share)| *share)
    }

    /// As a line of a table.
    pub fn line(&self) -> String {
        let mut line = format!("{},{}", self.number, self.completion.nanos());
        for (cause, share) in &self.savings {
            let _ = write!(line, ",{cause:?}={share:.4}");
        }
        line
    }

    /// From a line of a table.
    pub fn parse(line: &str) -> Option<Truth> {
        let mut parts = line.split(',');
        let number = parts.next()?.parse().ok()?;
        let completion = Duration::from_nanos(parts.next()?.parse().ok()?);
        let saving = |part: &str| {
            let (name, share) = part.split_once('=')?;
            let cause = Cause::ALL.into_iter().find(|cause| format!("{cause:?}") == name)?;
            Some((cause, share.parse().ok()?))
        };
        Some(Truth { number, completion, savings: parts.map(saving).collect::<Option<_>>()? })
    }
}
