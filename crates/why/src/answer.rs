//! The answer: what made a transfer slow, by what taking it away would save.

use std::io::BufRead;

use thalweg_units::{Duration, DurationExt, Rate};

use crate::Cause;
use crate::fit::{Reading, fit};
use crate::gather::Facts;
use crate::read::{Item, Reader};
use crate::world::World;

/// How near the run in virtual time has to come to the log.
const NEAR: f64 = 0.10;
/// Nearer than this nothing else is tried: a ratio.
const ENOUGH: f64 = 1.08;
/// Below this share of the time there is nothing to gain.
pub(crate) const NOTHING: f64 = 0.05;
/// What the runs differ by beyond what was varied, as a share of the time.
const MARGIN: f64 = 0.03;

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
    Untold(String),
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
    /// The share of the time that taking it away saves; below zero if that makes it slower.
    pub share: f64,
    /// The least that this may be.
    pub from: f64,
    /// The most that this may be.
    pub to: f64,
}

/// Why a transfer was slow.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// How long it took, as the log says.
    pub completion: Duration,
    /// How long the run in virtual time took; none if it did not end.
    pub again: Option<Duration>,
    /// What each cause costs, largest first; those of which the log has a trace.
    pub savings: Vec<Saving>,
    /// The path that was read, and what was sent over it.
    pub world: World,
    pub(crate) reading: Reading,
    pub(crate) facts: Facts,
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

    /// Reads a whole log.
    ///
    /// # Errors
    /// When it cannot be read, or is no log.
    pub fn read(input: impl BufRead) -> std::io::Result<Log> {
        let mut log = Log::default();
        let facts = &mut log.facts;
        crate::read::read(input, &mut |item: Item| facts.add(item))?;
        Ok(log)
    }

    /// The answer. It runs what was read some ten times in virtual time.
    ///
    /// # Errors
    /// When the log does not tell enough.
    pub fn answer(mut self) -> Result<Answer, WhyError> {
        let facts = &mut self.facts;
        self.reader.finish(&mut |item| facts.add(item))?;
        facts.finish();
        if facts.condition.events == 0 {
            return Err(WhyError::Untold("no qlog event is in it".to_owned()));
        }
        let (sent, received) = (facts.waits.bytes(), facts.received.bytes());
        if received > sent {
            let end = if facts.header.vantage_point.as_deref() == Some("client") { "server" } else { "client" };
            return Err(WhyError::Untold(format!(
                "it is the log of the receiver, which does not know what the sender waited for; log the sender too, which \
                 is the {end}"
            )));
        }
        let reading = fit(facts).map_err(|reason| WhyError::Untold(reason.to_owned()))?;
        let (world, again) = nearest(&reading)?;
        let mut answer =
            Answer { completion: reading.completion, again, savings: Vec::new(), world, reading, facts: self.facts };
        if let Some(again) = again {
            answer.judge(again)?;
        }
        Ok(answer)
    }
}

impl Answer {
    fn judge(&mut self, again: Duration) -> Result<(), WhyError> {
        let shares = self.world.savings(again)?;
        let saving = |(cause, share)| Saving { cause, share, from: share - MARGIN, to: share + MARGIN };
        self.savings = shares.into_iter().map(saving).collect();
        let Some(first) = self.savings.first().copied().filter(|first| first.share >= NOTHING) else { return Ok(()) };
        let (mut from, mut to) = (first.share, first.share);
        for world in self.variations() {
            if let (Some(with), Some(without)) = (world.run(None)?, world.without(first.cause).run(None)?) {
                let share = 1.0 - without.nanos() as f64 / with.nanos().max(1) as f64;
                (from, to) = (from.min(share), to.max(share));
            }
        }
        (self.savings[0].from, self.savings[0].to) = (from - MARGIN, (to + MARGIN).min(1.0));
        Ok(())
    }

    /// What would cost most once the primary cause is gone, if that is worth naming.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub fn next(&self) -> Result<Option<Cause>, WhyError> {
        let Some(first) = self.primary() else { return Ok(None) };
        let without = self.world.without(first);
        let Some(rest) = without.run(None)? else { return Ok(None) };
        let next = without.savings(rest)?.first().copied();
        Ok(next.filter(|(_, share)| *share >= NOTHING).map(|(cause, _)| cause))
    }

    /// What the log may mean as well: other chance, another rate.
    fn variations(&self) -> Vec<World> {
        let with_rate = |rate| with_rate(&self.world, rate);
        let mut worlds = vec![World { seed: 2, ..self.world.clone() }];
        let rate = self.world.path.rate;
        match self.reading.unknown_rate.filter(|(low, _)| rate > *low) {
            Some((low, high)) => worlds.extend([with_rate(low), with_rate(high)]),
            None => {
                worlds.extend([with_rate(rate.mul_ratio(19, 20)), with_rate(rate.mul_ratio(21, 20))]);
            }
        }
        worlds
    }

    /// Whether the run in virtual time came out as the log says: without that there are no figures.
    pub fn is_reproduced(&self) -> bool {
        let log = self.completion.nanos() as f64;
        self.again.is_some_and(|again| (again.nanos() as f64 / log.max(1.0) - 1.0).abs() <= NEAR)
    }

    /// The cause that costs most; none if there is nothing to gain.
    pub fn primary(&self) -> Option<Cause> {
        self.savings.first().filter(|saving| saving.share >= NOTHING).map(|saving| saving.cause)
    }

    /// Of the rate that the path showed, the share that the transfer had.
    pub fn use_of_path(&self) -> f64 {
        (self.world.floor().as_secs_f64() / self.completion.as_secs_f64().max(1e-9)).min(1.0)
    }
}

fn with_rate(world: &World, rate: Rate) -> World {
    let mut world = world.clone();
    let queue = world.path.queue as f64 * rate.bps() as f64 / world.path.rate.bps().max(1) as f64;
    (world.path.queue, world.path.rate) = (queue as u64, rate);
    world.path.back = world.path.back.max(rate);
    world
}

/// Of what the log may mean, what comes out most like it.
fn nearest(reading: &Reading) -> Result<(World, Option<Duration>), WhyError> {
    let log = reading.completion.nanos().max(1) as f64;
    let far = |again: Option<Duration>| {
        let ratio = again.map_or(1e9, |again| again.nanos().max(1) as f64 / log);
        if ratio < 1.0 { 1.0 / ratio } else { ratio }
    };
    let first = reading.world.run(None)?;
    let mut best = (reading.world.clone(), first);
    if far(first) <= ENOUGH {
        return Ok(best);
    }
    let mut others = Vec::new();
    if let Some((low, _)) = reading.unknown_rate {
        others.push(with_rate(&reading.world, low));
    }
    if reading.world.has(Cause::ChanceLoss) {
        let plain: Vec<World> = others.iter().map(|world| world.without(Cause::ChanceLoss)).collect();
        others.extend(plain);
        others.push(reading.world.without(Cause::ChanceLoss));
    }
    let lost = reading.world.path.lost.len() as f64;
    if lost > 2.0 {
        // Not these packets, but as many.
        let mut world = reading.world.without(Cause::ChanceLoss);
        world.path.loss = lost / reading.packets.max(1) as f64;
        others.push(world);
    }
    if reading.world.has(Cause::Interruption) {
        others.push(reading.world.without(Cause::Interruption));
    }
    for world in others {
        let again = world.run(None)?;
        if far(again) < far(best.1) - 0.04 {
            best = (world, again);
        }
    }
    Ok(best)
}
