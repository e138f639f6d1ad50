//! The answer: what made a transfer slow, by what taking it away would save.

use std::io::BufRead;

use thalweg_units::{Duration, DurationExt};

use crate::Cause;
use crate::fit::{Reading, fit};
use crate::gather::Facts;
use crate::read::{Item, Reader};

/// How near the run in virtual time has to come to the log.
const NEAR: f64 = 0.10;

/// A log that is being read.
#[derive(Debug, Default)]
pub struct Log {
    reader: Reader,
    facts: Facts,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhyError {
    /// The file could not be read, or is no log.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// The log does not tell enough.
    #[error("{0}")]
    Untold(&'static str),
    /// The path that was read cannot be run.
    #[error("the path that it shows cannot be run: {0}")]
    Path(#[from] thalweg_sim::PlanError),
}

/// What a cause costs.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Saving {
    /// The cause.
    pub cause: Cause,
    /// The share of the time that taking it away saves.
    pub share: f64,
}

/// Why a transfer was slow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// How long it took, as the log says.
    pub completion: Duration,
    /// How long the run in virtual time took.
    pub again: Option<Duration>,
    /// What each cause costs, largest first.
    pub savings: Vec<Saving>,
    /// The path that was read, and what was sent.
    pub world: crate::world::World,
}

impl Log {
    /// Takes the next bytes of the log.
    ///
    /// # Errors
    /// When it is no log.
    pub fn feed(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let facts = &mut self.facts;
        self.reader.feed(bytes, &mut |item| facts.add(item))
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// When it cannot be read, or is no log.
    pub fn read(input: impl BufRead) -> std::io::Result<Log> {
        let mut log = Log::default();
        let facts = &mut log.facts;
        crate::read::read(input, &mut |item: Item| facts.add(item))?;
        Ok(log)
    }

    /// The answer.
    ///
    /// # Errors
    /// When the log does not tell enough.
    pub fn answer(mut self) -> Result<Answer, WhyError> {
        let facts = &mut self.facts;
        self.reader.finish(&mut |item| facts.add(item))?;
        facts.finish();
        let Reading { world, completion, .. } = fit(facts).map_err(WhyError::Untold)?;
        let again = world.run(None)?;
        let mut savings = Vec::new();
        if let Some(again) = again {
            savings = world.savings(again)?.into_iter().map(|(cause, share)| Saving { cause, share }).collect();
        }
        Ok(Answer { completion, again, savings, world })
    }
}

impl Answer {
    /// Whether the run in virtual time came out as the log says.
    pub fn is_reproduced(&self) -> bool {
        let log = self.completion.nanos() as f64;
        self.again.is_some_and(|again| (again.nanos() as f64 / log.max(1.0) - 1.0).abs() <= NEAR)
    }

    /// The cause that costs most; none if there is nothing to gain.
    pub fn primary(&self) -> Option<Cause> {
        self.savings.first().filter(|saving| saving.share >= 0.05).map(|saving| saving.cause)
    }
}
