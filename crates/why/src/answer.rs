//! The answer: what made a transfer slow, by what taking it away would save.

mod untold;

use std::io::BufRead;

use thalweg_units::{Duration, DurationExt, Rate, math};

use crate::Cause;
use crate::fit::rules::variants;
use crate::fit::{Reading, fit, unseen_policers};
use crate::gather::{Facts, Limit};
use crate::read::{Reader, read_in_place};
use crate::runs::Runs;
use crate::world::{EVERY, Span, World};

/// How near the run in virtual time has to come to the log.
const NEAR: f64 = 0.10;
/// Times at which data leave, and their mean difference between a run and the log, as a share of the time: a run is not
/// like the log if its difference exceeds the smallest of all runs by this.
const APART: f64 = 0.005;
/// It is like the log if the difference is smaller than this.
const ALIKE: f64 = 0.01;
/// The same for stacks whose rules are assumed, which are only near to what they ship.
const NEAR_OF_OTHERS: f64 = 0.20;
/// Nearer than this nothing else is tried: a ratio.
const ENOUGH: f64 = 1.08;
/// Another meaning is taken if it comes out nearer by this, a ratio.
const NEARER: f64 = 0.04;
/// Below this share of the time there is nothing to gain.
pub(crate) const NOTHING: f64 = 0.05;
/// From this share on a cause is named; below it, only if it saves something at the low end of its range, too.
const CLEAR: f64 = 0.10;
/// That end may be below zero by this part of the margin, which is more than most runs differ by.
const NEARLY: f64 = 0.25;
/// Transfers of more packets are run without variations, so that the answer does not take minutes.
const MANY: u64 = 1_000_000;
/// Transfers of no more packets are run with variations for every cause.
const SOME: u64 = 10_000;
/// What the runs differ by beyond what was varied, as a share of the time.
pub(crate) const MARGIN: f64 = 0.08;

/// What the range of a named cause is wider by: a path behind late acknowledgments shows less of itself.
const SHOWN: f64 = 0.02;
const HIDDEN: f64 = 0.08;

/// The same for one cause. How long a handshake takes stands in the log, whatever the path is.
const fn margin(cause: Cause) -> f64 {
    if matches!(cause, Cause::Handshake) { MARGIN / 4.0 } else { MARGIN }
}

/// Rates between which a path's may be are far apart from this ratio on.
const WIDE: u64 = 8;

/// What is on its way each way in a handshake takes as long as a packet of this size, bytes.
const FULL: u64 = 1500;

/// How long a handshake may take in which nothing is lost. A host that reads late answers late, but waits for no timer.
fn longest_handshake(world: &World) -> Duration {
    let (path, host) = (&world.path, world.sender.host);
    path.round_trip + path.rate.time_for(FULL) + path.back.time_for(FULL) + host.reads
}

/// So many runs are tried where chance decides much.
const SEEDS: u64 = 4;

/// A smaller share of the time is not worth a run.
const RULED_OUT: f64 = 0.01;

/// A log that is being read.
#[derive(Debug, Default)]
pub struct Log {
    reader: Reader,
    pub(crate) facts: Facts,
    is_finished: bool,
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
    /// What each cause costs, largest first; those of which the log has a trace. What is sure goes before what is
    /// hardly larger and may be nothing.
    pub savings: Vec<Saving>,
    /// The path that was read, and what was sent over it.
    pub world: World,
    pub(crate) reading: Reading,
    pub(crate) facts: Facts,
    /// What the log may mean, the likeliest first, and how long each takes.
    worlds: Vec<(World, Option<Duration>)>,
}

impl Saving {
    /// What a cause costs that costs no more than this: by what runs saved more, they differed by chance.
    fn no_more_than(self, most: f64) -> Saving {
        let over = (self.share - most).max(0.0);
        Saving { share: self.share - over, from: self.from - over, to: self.to - over, ..self }
    }

    /// Whether there is something to gain by it, by all that the log may mean.
    pub(crate) fn is_clear(&self) -> bool {
        self.share >= CLEAR || (self.share >= NOTHING && self.from >= -NEARLY * margin(self.cause))
    }
}

impl Log {
    /// Takes the next bytes of the log.
    ///
    /// # Errors
    /// When it is no log.
    pub fn feed(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let facts = &mut self.facts;
        self.reader.feed_in_place(bytes, &mut |item| facts.add(item))
    }

    /// Reads a whole log.
    ///
    /// # Errors
    /// When it cannot be read, or is no log.
    pub fn read(input: impl BufRead) -> std::io::Result<Log> {
        let mut log = Log::default();
        let facts = &mut log.facts;
        read_in_place(input, &mut |item| facts.add(item))?;
        Ok(log)
    }

    /// There is nothing more of it.
    pub(crate) fn finish(&mut self) -> std::io::Result<()> {
        if !self.is_finished {
            let facts = &mut self.facts;
            self.reader.finish_in_place(&mut |item| facts.add(item))?;
            facts.finish();
            self.is_finished = true;
        }
        Ok(())
    }

    /// The answer. It runs what was read some ten times in virtual time.
    ///
    /// # Errors
    /// When the log does not tell enough.
    pub fn answer(mut self) -> Result<Answer, WhyError> {
        self.finish()?;
        let facts = &self.facts;
        if facts.condition.events == 0 {
            return Err(WhyError::Untold("no qlog event is in it".to_owned()));
        }
        let (sent, received) = (facts.waits.bytes(), facts.received.bytes());
        if received > sent {
            let end = if facts.header.vantage_point.as_deref() == Some("client") { "server" } else { "client" };
            let shown = crate::receiver::seen(facts);
            return Err(WhyError::Untold(format!(
                "it is the log of the receiver, which does not know what the sender waited for; log the sender too, which \
                 is the {end}. What this end saw: {shown}"
            )));
        }
        let untold = |reason: &str| WhyError::Untold(reason.to_owned());
        let reading = fit(facts);
        untold::limits(facts, reading.as_ref().ok()).map_err(untold)?;
        let reading = reading.map_err(untold)?;
        let mut runs = Runs::default();
        let worlds = readings(&reading, &mut runs)?;
        let (world, again) = worlds.first().cloned().unwrap_or((reading.world.clone(), None));
        let completion = reading.completion;
        let mut answer = Answer { completion, again, savings: Vec::new(), world, reading, facts: self.facts, worlds };
        answer.judge(&mut runs)?;
        untold::losses(&answer.facts, answer.primary()).map_err(untold)?;
        Ok(answer)
    }
}

impl Answer {
    /// What each cause costs: the mean over what the log may mean, or the median where the sender's rules are assumed.
    fn judge(&mut self, runs: &mut Runs) -> Result<(), WhyError> {
        let mut all: Vec<Vec<(Cause, f64)>> = Vec::new();
        for (world, again) in self.likely() {
            if let Some(again) = again {
                all.push(runs.savings(world, *again, |cause| self.can_matter(cause))?);
            }
        }
        // What a queue loses is chance: the mean over runs that differ a little is nearer than any of them.
        if self.reading.packets <= SOME {
            let varied = self.variations();
            for (world, again) in varied.iter().zip(runs.all(&varied)?) {
                if let Some(again) = again.filter(|again| far(&self.reading, Some(*again)) <= 1.0 + NEAR) {
                    all.push(runs.savings(world, again, |cause| self.can_matter(cause))?);
                }
            }
        }
        let of = |cause: Cause| {
            let shares: Vec<f64> =
                all.iter().flatten().filter(|(other, _)| *other == cause).map(|(_, share)| *share).collect();
            // Rules that are assumed make some runs come out far from the others.
            let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let share = if self.reading.is_assumed { median(&shares) } else { mean };
            let from = shares.iter().copied().fold(share, f64::min) - margin(cause);
            let to = (shares.iter().copied().fold(share, f64::max) + margin(cause)).min(1.0);
            (!shares.is_empty()).then_some(Saving { cause, share, from, to })
        };
        self.savings = Cause::ALL.into_iter().filter_map(of).collect();
        if self.reading.is_assumed {
            // How these stacks send with 0-RTT is not known: a handshake costs them a round trip.
            let share = self.world.path.round_trip.nanos() as f64 / self.completion.nanos().max(1) as f64;
            let margin = margin(Cause::Handshake);
            for saving in self.savings.iter_mut().filter(|saving| saving.cause == Cause::Handshake) {
                (saving.share, saving.from, saving.to) = (share, share - margin, (share + margin).min(1.0));
            }
        }
        if !self.world.has(Cause::Interruption) && self.facts.course.handshake_losses.is_empty() {
            let most = longest_handshake(&self.world).nanos() as f64 / self.completion.nanos().max(1) as f64;
            for saving in self.savings.iter_mut().filter(|saving| saving.cause == Cause::Handshake) {
                *saving = saving.no_more_than(most);
            }
        }
        self.savings.sort_by(|a, b| b.share.total_cmp(&a.share));
        let Some(first) = self.savings.first().copied().filter(|first| first.share >= NOTHING) else { return Ok(()) };
        // A stack whose rules are assumed is taken to need one round trip for the handshake: no run says anything else.
        if first.cause == Cause::Handshake && self.reading.is_assumed {
            return self.doubt(runs);
        }
        let mut others = self.variations();
        others.extend(self.worlds.iter().filter(|(world, _)| self.is_extreme(world)).map(|(world, _)| world.clone()));
        // A host that reads once a round trip may read sooner, on a longer path.
        others.extend(self.reading.shorter_reads.iter().map(|reads| self.reading.with_reads(&self.world, *reads)));
        let margin = margin(first.cause);
        let (mut from, mut to) = (first.from + margin, first.to - margin);
        let pairs: Vec<World> = others.into_iter().flat_map(|world| [world.without(first.cause), world]).collect();
        // What does not come out like the log, or further from it than what the answer rests on, is not what it means.
        let enough = far(&self.reading, self.again).max(1.0 + NEAR);
        for pair in runs.all(&pairs)?.chunks_exact(2) {
            if let [Some(without), Some(with)] = pair
                && far(&self.reading, Some(*with)) <= enough
            {
                let share = 1.0 - without.nanos() as f64 / with.nanos().max(1) as f64;
                (from, to) = (from.min(share), to.max(share));
            }
        }
        (self.savings[0].from, self.savings[0].to) = (from - margin, (to + margin).min(1.0));
        // What is sure to be worth naming goes before what is hardly larger and may be nothing.
        let first = self.savings[0];
        let is_sure = |saving: &Saving| saving.is_clear() && saving.from >= 0.0 && saving.share >= first.share - CLEAR;
        if let Some(sure) = self.savings.iter().position(is_sure).filter(|_| first.from < 0.0) {
            self.savings[..=sure].rotate_right(1);
        }
        self.doubt(runs)
    }

    /// Widens the range of a cause that is named for sure by what the log cannot show.
    fn doubt(&mut self, runs: &mut Runs) -> Result<(), WhyError> {
        let Some(first) = self.savings.first().copied().filter(|first| first.share >= CLEAR) else { return Ok(()) };
        let is_hidden = self.world.has(Cause::WayBack) || self.world.has(Cause::BusyHost);
        let off = far(&self.reading, self.again) - 1.0;
        let doubt = off.min(HIDDEN) + if is_hidden { HIDDEN } else { SHOWN };
        let (mut from, to) = (first.from - doubt, (first.to + doubt).min(1.0));
        if first.cause == Cause::Start && self.reading.packets <= MANY {
            // A policer that lets all of a slow start through may not let through a fast one.
            let policed = unseen_policers(&self.facts, &self.world.without(Cause::Start));
            let whole = self.again.unwrap_or(self.completion).nanos().max(1) as f64;
            for without in runs.all(&policed)? {
                // A run that does not end saves nothing.
                from = from.min(without.map_or(0.0, |without| 1.0 - without.nanos() as f64 / whole) - MARGIN);
            }
        }
        // More than twice the time says no more.
        (self.savings[0].from, self.savings[0].to) = (from.max(-1.0), to);
        Ok(())
    }

    /// Whether the log leaves it open that a cause costs a hundredth of the time: what it rules out need not be run.
    fn can_matter(&self, cause: Cause) -> bool {
        let waits = &self.facts.waits;
        let round_trips = self.world.path.round_trip.as_secs_f64() / self.completion.as_secs_f64().max(1e-9);
        match cause {
            Cause::ReceiveWindow => !waits.has_limits || waits.time(Limit::Credit) > 0.0,
            Cause::Handshake => round_trips > RULED_OUT / 2.0,
            _ => true,
        }
    }

    /// The fastest that a path may be is no likely meaning, nor is it that a limit has no effect that was set.
    fn is_extreme(&self, world: &World) -> bool {
        let rate = world.path.rate;
        let is_at = |(low, high)| rate == high || (world.has(Cause::RateLimit) && rate == low);
        self.reading.unknown_rate.is_some_and(is_at)
    }

    /// What the log is likely to mean, and how long each takes.
    pub(crate) fn likely(&self) -> impl Iterator<Item = &(World, Option<Duration>)> {
        let are_all = self.worlds.iter().all(|(world, _)| self.is_extreme(world));
        self.worlds.iter().filter(move |(world, _)| are_all || !self.is_extreme(world))
    }

    /// What would cost most once the primary cause is gone, if that is worth naming and the transfer is not so large
    /// that it would take long to find out.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub fn next(&self) -> Result<Option<Cause>, WhyError> {
        let Some(first) = self.primary().filter(|_| self.reading.packets <= MANY) else { return Ok(None) };
        let without = self.world.without(first);
        let Some(rest) = without.run(None)? else { return Ok(None) };
        let next = without.savings(rest)?.first().copied();
        Ok(next.filter(|(_, share)| *share >= NOTHING).map(|(cause, _)| cause))
    }

    /// The same with other chance, and with a rate that is read a little wrongly.
    pub(crate) fn variations(&self) -> Vec<World> {
        if self.reading.packets > MANY {
            return Vec::new();
        }
        let rate = self.world.path.rate;
        let mut worlds = vec![World { seed: self.world.seed.wrapping_add(1), ..self.world.clone() }];
        if self.reading.unknown_rate.is_none() {
            worlds.extend(
                [rate.mul_ratio(19, 20), rate.mul_ratio(21, 20)].map(|rate| self.reading.with_rate(&self.world, rate)),
            );
        }
        // A transfer that is faster may be over before an interruption begins.
        worlds.extend(self.reading.begun_otherwise(&self.world));
        worlds
    }

    /// Whether the run in virtual time came out as the log says: without that there are no figures.
    pub fn is_reproduced(&self) -> bool {
        let log = self.completion.nanos() as f64;
        let near = if self.reading.is_assumed { NEAR_OF_OTHERS } else { NEAR };
        self.again.is_some_and(|again| (again.nanos() as f64 / log.max(1.0) - 1.0).abs() <= near)
    }

    /// The cause that costs most; none if there is nothing to gain.
    pub fn primary(&self) -> Option<Cause> {
        self.savings.first().filter(|saving| saving.is_clear()).map(|saving| saving.cause)
    }

    /// Of the rate that the path showed, the share that the transfer had.
    pub fn use_of_path(&self) -> f64 {
        (self.world.floor().as_secs_f64() / self.completion.as_secs_f64().max(1e-9)).min(1.0)
    }
}

/// The middle of shares; zero without any.
fn median(shares: &[f64]) -> f64 {
    let mut shares = shares.to_vec();
    shares.sort_by(f64::total_cmp);
    let at = |at: usize| shares.get(at).copied().unwrap_or(0.0);
    (at(shares.len().saturating_sub(1) / 2) + at(shares.len() / 2)) / 2.0
}

/// How far a run is from the log: a ratio of one or more.
fn far(reading: &Reading, again: Option<Duration>) -> f64 {
    let log = reading.completion.nanos().max(1) as f64;
    let ratio = again.map_or(1e9, |again| again.nanos().max(1) as f64 / log);
    if ratio < 1.0 { 1.0 / ratio } else { ratio }
}

/// What the log may mean and comes out like it, the likeliest first; otherwise what comes nearest.
fn readings(reading: &Reading, runs: &mut Runs) -> Result<Vec<(World, Option<Duration>)>, WhyError> {
    let mut worlds = vec![reading.world.clone()];
    if let Some((low, high)) = reading.unknown_rate {
        let middle = reading.world.path.rate;
        worlds.extend(
            [low.mul_ratio(2, 1), low]
                .into_iter()
                .filter(|rate| *rate < middle)
                .map(|rate| reading.with_rate(&reading.world, rate)),
        );
        // Others pace a start so evenly that a path may be far faster than anything that they sent and not show it.
        if reading.is_assumed && high > low.mul_ratio(WIDE, 1) && middle < high {
            let between = math::sqrt(middle.bps() as f64 * high.bps() as f64);
            worlds.push(reading.with_rate(&reading.world, Rate::from_bps(between as u64)));
        }
        worlds.push(reading.with_rate(&reading.world, high));
        if reading.world.has(Cause::WayBack) || reading.world.has(Cause::BusyHost) {
            // What came back says nothing of the rate.
            let rates = (2..6).map(|doublings| low.mul_ratio(1 << doublings, 1)).filter(|rate| *rate < high);
            worlds.extend(rates.map(|rate| reading.with_rate(&reading.world, rate)));
        }
    }
    let mut ran = alike(reading, worlds, runs)?;
    // Losses that a policer or a queue explains are not by chance.
    let is_sure = reading.is_surely_policed();
    for explain in if is_sure { [policed, plain] } else { [plain, policed] } {
        let explained = explain(reading, &ran, runs)?;
        if !explained.is_empty() {
            return Ok(explained);
        }
    }
    let enough = if reading.is_assumed { 1.0 + NEAR_OF_OTHERS } else { ENOUGH };
    let near = |(_, again): &(World, Option<Duration>)| far(reading, *again) <= enough;
    if ran.iter().any(near) {
        ran.retain(near);
        return Ok(ran);
    }
    let order =
        |a: &(World, Option<Duration>), b: &(World, Option<Duration>)| far(reading, a.1).total_cmp(&far(reading, b.1));
    ran.sort_by(order);
    let bases: Vec<World> = ran.iter().take(2).map(|(world, _)| world.clone()).collect();
    let mut best = ran.remove(0);
    if far(reading, best.1) > 1.0 {
        let mut others: Vec<World> = bases.iter().flat_map(|base| others(reading, base)).collect();
        if best.1.is_some_and(|again| again < reading.completion * 2 / 3) {
            others.extend(bases.iter().flat_map(|base| stopped(base, &reading.unclear[1])));
        }
        let again = runs.all(&others)?;
        for (world, again) in others.into_iter().zip(again) {
            if far(reading, again) < far(reading, best.1) - NEARER {
                best = (world, again);
            }
        }
    }
    Ok(vec![best])
}

/// Meanings and how long each takes.
type Ran = Vec<(World, Option<Duration>)>;

/// Meanings in which a policer drops what was lost.
fn policed(reading: &Reading, ran: &Ran, runs: &mut Runs) -> Result<Ran, WhyError> {
    let explained = policed_and(reading, ran, runs, false)?;
    if !ran.iter().any(|(world, _)| world.has(Cause::Interruption)) {
        return Ok(explained);
    }
    // A sender that was silent may also have waited for the path.
    let stopped = policed_and(reading, ran, runs, true)?;
    let nearest = |ran: &Ran| ran.iter().map(|(_, again)| far(reading, *again)).fold(f64::INFINITY, f64::min);
    Ok(if nearest(&stopped) < nearest(&explained) - NEARER { stopped } else { explained })
}

/// The same. If the path `is_stopped`, interruptions around what the policer dropped are kept.
fn policed_and(reading: &Reading, ran: &Ran, runs: &mut Runs, is_stopped: bool) -> Result<Ran, WhyError> {
    let (is_sure, is_dense) = (reading.is_surely_policed(), reading.is_densely_policed());
    // Rules that are assumed send a little otherwise, and what a policer drops grows with it.
    let nearly = if reading.is_assumed { 1.0 + NEAR_OF_OTHERS } else { ENOUGH * ENOUGH };
    let mut explained = Vec::new();
    for (world, _) in ran {
        for (at, world) in reading.policed(world, is_stopped).into_iter().enumerate() {
            let others = world.path.lost.len() as u64;
            // What a policer drops decides what it drops next: a small difference may become a large one. So one of
            // several runs may be like the log, where chance cannot be what dropped so much.
            for seed in world.seed..world.seed + if is_dense && at == 0 { SEEDS } else { 1 } {
                let world = World { seed, ..world.clone() };
                let (again, lost) = runs.one(&world)?;
                let (is_alike, enough) = if is_sure {
                    (lost * 3 >= reading.declared_lost, nearly)
                } else {
                    let is_alike =
                        lost * 5 >= reading.declared_lost * 3 && lost * 3 <= reading.declared_lost * 5 + others;
                    (is_alike, if is_dense { ENOUGH * ENOUGH } else { ENOUGH })
                };
                if is_alike && far(reading, again) <= enough {
                    explained.push((world, again));
                    break;
                }
            }
        }
    }
    Ok(explained)
}

/// Those in which a full queue drops what was lost.
fn plain(reading: &Reading, ran: &Ran, runs: &mut Runs) -> Result<Ran, WhyError> {
    let mut explained = Vec::new();
    for (world, _) in ran.iter().filter(|(world, _)| world.has(Cause::ChanceLoss)) {
        let world = world.without(Cause::ChanceLoss);
        let (again, lost) = runs.one(&world)?;
        if far(reading, again) <= ENOUGH && lost * 5 >= reading.declared_lost * 3 {
            explained.push((world, again));
        }
    }
    Ok(explained)
}

/// Runs meanings, and leaves out those in which the data left at other times than in the log, if in some they did not.
fn alike(reading: &Reading, worlds: Vec<World>, runs: &mut Runs) -> Result<Ran, WhyError> {
    if let [world] = &worlds[..] {
        return Ok(vec![(world.clone(), runs.one(world)?.0)]);
    }
    let length = reading.completion.as_secs_f64();
    let mut ran = Vec::new();
    for (world, (again, course)) in worlds.iter().zip(runs.watched(&worlds)?) {
        ran.push((world.clone(), again, course.apart(&reading.course, length)));
    }
    let is_near = |again: Option<Duration>| far(reading, again) <= ENOUGH;
    let near = ran.iter().filter(|(_, again, _)| is_near(*again));
    let least = near.map(|(_, _, apart)| *apart).fold(f64::INFINITY, f64::min);
    // Where none is like the log, it says nothing which of them is less so.
    ran.retain(|(_, _, apart)| least > ALIKE || *apart <= 2.0 * least + APART);
    Ok(ran.into_iter().map(|(world, again, _)| (world, again)).collect())
}

/// Other meanings of losses and silences.
fn others(reading: &Reading, world: &World) -> Vec<World> {
    let mut others = Vec::new();
    others.extend(reading.policed(world, false).into_iter().filter(|_| reading.is_surely_policed()));
    if world.has(Cause::ChanceLoss) {
        others.push(world.without(Cause::ChanceLoss));
        // Not these packets, but as many.
        let mut other = world.without(Cause::ChanceLoss);
        other.path.loss = world.path.lost.len() as f64 / reading.packets.max(1) as f64;
        others.extend(with_seeds(&other));
    }
    // Not these packets are late, but as many.
    if world.has(Cause::Reordering) && !world.path.late.is_empty() {
        let mut other = world.clone();
        other.path.late.clear();
        others.extend(with_seeds(&other));
    }
    if world.has(Cause::Interruption) {
        others.push(world.without(Cause::Interruption));
    }
    // Acknowledgments may have been rarer only while nothing waited on the way back.
    if world.path.per_ack > EVERY {
        let mut other = world.clone();
        other.path.per_ack = EVERY;
        others.push(other);
    }
    if !reading.knows_rules {
        others.extend(variants(&world.sender.policies).into_iter().map(|policies| {
            let mut other = world.clone();
            other.sender.policies = policies;
            other
        }));
    }
    others.extend(stopped(world, &reading.unclear[0]));
    others
}

/// The same with other chances.
fn with_seeds(world: &World) -> impl Iterator<Item = World> {
    (0..3).map(|more| World { seed: world.seed + more, ..world.clone() })
}

/// The same with suspensions, and with outages, if there are any.
fn stopped(world: &World, spans: &[Span]) -> Vec<World> {
    if spans.is_empty() {
        return Vec::new();
    }
    let (mut held, mut lost) = (world.clone(), world.clone());
    held.path.suspensions.extend(spans);
    lost.path.outages.extend(spans);
    vec![held, lost]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_little_is_named_if_it_does_so_in_nearly_all_that_the_log_may_mean() {
        let is_clear = |cause, share, from| Saving { cause, share, from, to: 0.2 }.is_clear();
        assert!(is_clear(Cause::ChanceLoss, 0.10, -0.3) && is_clear(Cause::ChanceLoss, 0.07, 0.0));
        assert!(is_clear(Cause::ChanceLoss, 0.07, -0.015) && !is_clear(Cause::ChanceLoss, 0.07, -0.03));
        // How long a handshake takes is known better.
        assert!(!is_clear(Cause::Handshake, 0.07, -0.015) && is_clear(Cause::Handshake, 0.07, -0.004));
        assert!(!is_clear(Cause::ChanceLoss, 0.04, 0.01));
    }

    #[test]
    fn a_handshake_costs_no_more_than_it_takes() {
        use crate::world::{Load, Path, Sender};
        let path = Path::clean(Rate::from_bps(12_000_000), Duration::from_millis(20), 50_000);
        let load = Load { bytes: 50_000, is_up: false, pieces: 1, pause: Duration::ZERO };
        let world = World { path, credit: None, sender: Sender::default(), load, seed: 1 };
        assert_eq!(longest_handshake(&world), Duration::from_millis(22), "a round trip and a packet each way");
        let saving = Saving { cause: Cause::Handshake, share: 0.08, from: 0.05, to: 0.1 };
        assert_eq!(saving.no_more_than(0.09), saving);
        let less = saving.no_more_than(0.06);
        assert!([less.share - 0.06, less.from - 0.03, less.to - 0.08].iter().all(|off| off.abs() < 1e-9), "{less:?}");
    }

    #[test]
    fn the_median_is_the_middle_of_an_odd_number_and_between_the_middle_two_of_an_even_one() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[0.9, 0.1, 0.2]), 0.2);
        assert_eq!(median(&[0.9, 0.25, 0.1, 0.75]), 0.5);
    }
}
