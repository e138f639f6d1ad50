//! Advice for a path: which of the policies that are for use serve it better than the shipped ones, and what they cost.
//!
//! A download, a page and a call are run over the path with the shipped policies and with every choice of one slot, all
//! on the same seeds. It goes in three rounds, so that few runs are spent on choices that are no candidates, and so
//! that the best of many is not believed for its luck:
//!
//! 1. Every choice on a few seeds. What gives the same packets as the shipped policies there is left out, and the best
//!    few stay.
//! 2. These on more seeds. The best of them is the candidate.
//! 3. The candidate on seeds that chose nothing: only these say whether it is better, and by how much.
//!
//! The *score* of a choice is the geometric mean, over the three uses, of the time it takes over that of the shipped
//! policies. A candidate whose score is below 1 beyond chance, by a hundredth at least, is advised.

mod run;
mod uses;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use thalweg_link::PathConfig;
use thalweg_recovery::Policies;

use crate::engine::Engine;
use crate::runner::Progress;
use crate::scenario::ScenarioError;
use crate::stats::{Interval, Statistic, ratio_of};
use run::{Bench, Taken};
pub use uses::Use;
use uses::Worlds;

/// How many seeds each round takes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Of every choice in the first round; at least 2.
    pub screen: u64,
    /// How many choices reach the second round.
    pub kept: usize,
    /// More seeds of each of them.
    pub compare: u64,
    /// Seeds of the third round.
    pub confirm: u64,
}

impl Default for Effort {
    /// 4 seeds of all, 8 more of the best 5, and 24 of the candidate: within a minute on two cores.
    fn default() -> Self {
        Effort { screen: 4, kept: 5, compare: 8, confirm: 24 }
    }
}

/// The least gain that is advised: whoever changes something wants to notice it.
const LEAST_GAIN: f64 = 0.01;

/// The path to advise on.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its hops, from client to server.
    pub hops: Vec<PathConfig>,
    /// How much to run.
    pub effort: Effort,
}

/// How to run, and the receiver of progress.
pub struct Options<'a> {
    /// Number of threads; 0 for one per processor.
    pub threads: usize,
    /// Set to true to stop: runs under way are finished.
    pub stop: &'a AtomicBool,
    /// Called after every run, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// A policy of one slot that is not the shipped one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Choice {
    /// The slot.
    pub field: &'static str,
    /// The policy.
    pub name: &'static str,
}

impl core::fmt::Display for Choice {
    /// As `--policies` takes it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}={}", self.field, self.name)
    }
}

impl Choice {
    /// All that are for use, as `thalweg policies` lists them.
    pub fn all() -> Vec<Choice> {
        let shipped = Policies::default().fields();
        let mut all = Vec::new();
        for field in Policies::catalogue() {
            for choice in field.choices.iter().filter(|choice| choice.built && !choice.is_study) {
                let is_shipped = shipped.iter().any(|(name, value)| *name == field.name && value == choice.name);
                if !is_shipped {
                    all.push(Choice { field: field.name, name: choice.name });
                }
            }
        }
        all
    }
}

/// A ratio to the shipped policies.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Its value; 1 is as shipped, less is better.
    pub value: f64,
    /// Where it is with 95 % confidence; none if that cannot be said.
    pub interval: Option<Interval>,
    /// Whether it is not 1, beyond chance.
    pub differs: bool,
}

impl Ratio {
    fn of(places: &[Vec<(f64, f64)>]) -> Option<Ratio> {
        let it = ratio_of(places, Statistic::Mean)?;
        Some(Ratio { value: it.value, interval: it.interval.ok(), differs: it.differs })
    }

    /// Whether it is less, or more, beyond chance.
    fn is_less(&self) -> bool {
        self.differs && self.value < 1.0
    }
}

/// How a choice does in one use of the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The use.
    pub name: &'static str,
    /// What is measured, in words.
    pub measures: &'static str,
    /// Its mean with the shipped policies, seconds.
    pub shipped: f64,
    /// Its mean with the choice, seconds.
    pub with: f64,
    /// The second over the first.
    pub ratio: Ratio,
    /// Bytes that both ends sent, over those of the shipped policies.
    pub bytes: Option<Ratio>,
    /// Runs that did not come to their end, with the shipped policies and with the choice.
    pub failed: [u64; 2],
}

/// What a choice does on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The choice.
    pub choice: Choice,
    /// Its score.
    pub score: Ratio,
    /// In each use.
    pub effects: Vec<Effect>,
    /// How long a download of another takes beside it (with CUBIC), over how long it takes beside the shipped policies.
    pub beside: Option<Ratio>,
}

/// A choice and its score on the seeds of the first round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Screened {
    /// The choice.
    pub choice: Choice,
    /// Its score, without an interval: of so few seeds it is a reason to look closer and nothing else.
    pub score: f64,
}

/// What the lab advises for a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The choice to make; none if there is nothing to gain.
    pub advised: Option<Choice>,
    /// That in a sentence.
    pub sentence: String,
    /// The candidate of the third round; none if no choice did better than the shipped policies before.
    pub candidate: Option<Candidate>,
    /// Every choice that changed anything, the best first.
    pub screened: Vec<Screened>,
    /// Choices that change nothing on this path.
    pub same: Vec<Choice>,
    /// Bytes of the download.
    pub download: u64,
    /// Runs that were made.
    pub runs: usize,
}

/// Runs the path, and says what serves it. None if it was stopped before.
///
/// # Errors
/// When the path cannot be run.
pub fn advise(request: &Request, engine: &dyn Engine, options: &Options<'_>) -> Result<Option<Advice>, ScenarioError> {
    let worlds = Worlds::of(&request.hops, engine)?;
    let effort = Effort { screen: request.effort.screen.max(2), ..request.effort };
    Ok(Rounds { worlds: &worlds, effort, bench: Bench::new(engine, options) }.advice())
}

/// The scores of choices on these seeds; 1 is as shipped, and what no choice stands for. None if it was stopped.
///
/// # Errors
/// As [`advise`].
pub fn scores(
    hops: &[PathConfig],
    engine: &dyn Engine,
    options: &Options<'_>,
    choices: &[Option<Choice>],
    seeds: core::ops::Range<u64>,
) -> Result<Option<Vec<f64>>, ScenarioError> {
    let worlds = Worlds::of(hops, engine)?;
    let mut rounds = Rounds { worlds: &worlds, effort: Effort::default(), bench: Bench::new(engine, options) };
    let all: Vec<Option<&Choice>> = [None].into_iter().chain(choices.iter().map(Option::as_ref)).collect();
    let Some(taken) = rounds.round(&all, seeds) else { return Ok(None) };
    Ok(Some(taken[1..].iter().map(|with| score(&taken[0], with)).collect()))
}

struct Rounds<'a> {
    worlds: &'a Worlds,
    effort: Effort,
    bench: Bench<'a>,
}

/// What each use took with a choice, or with the shipped policies, by seed.
type OfUses = [BTreeMap<u64, Taken>; 3];

impl Rounds<'_> {
    fn advice(mut self) -> Option<Advice> {
        let Effort { screen, kept, compare, confirm } = self.effort;
        let all = self.worlds.choices();
        let two = 1..3;
        let shipped = [None];
        let to_come = |choices: usize, seeds: u64| choices * 3 * seeds as usize;
        let rest = to_come(kept + 1, compare) + to_come(2, confirm) + 2 * confirm as usize;
        self.bench.expect(to_come(all.len() + 1, screen) + rest);
        let everyone: Vec<Option<&Choice>> = shipped.into_iter().chain(all.iter().map(Some)).collect();
        let mut first = self.round(&everyone, two)?;
        let base = first.remove(0);
        let (mut same, mut open) = (Vec::new(), Vec::new());
        for (choice, taken) in all.iter().zip(first) {
            match is_same(&base, &taken) {
                true => same.push(choice.clone()),
                false => open.push((choice, taken)),
            }
        }
        self.bench.expect(to_come(all.len() + 1, 2) + to_come(open.len() + 1, screen - 2) + rest);
        let (mut base, mut open) = self.more(base, open, 3..screen + 1)?;
        open.sort_by(|a, b| score(&base, &a.1).total_cmp(&score(&base, &b.1)));
        let screened: Vec<Screened> = open
            .iter()
            .map(|(choice, taken)| Screened { choice: (*choice).clone(), score: score(&base, taken) })
            .collect();
        open.truncate(kept);
        (base, open) = self.more(base, open, screen + 1..screen + compare + 1)?;
        let best = open.iter().min_by(|a, b| score(&base, &a.1).total_cmp(&score(&base, &b.1)));
        let best = best.filter(|(_, taken)| score(&base, taken) < 1.0).map(|(choice, _)| (*choice).clone());
        let candidate = match best {
            Some(choice) => Some(self.confirmed(choice, screen + compare + 1, confirm)?),
            None => None,
        };
        let is_advised = |candidate: &Candidate| candidate.score.is_less() && candidate.score.value < 1.0 - LEAST_GAIN;
        let advised = candidate.as_ref().filter(|it| is_advised(it)).map(|it| it.choice.clone());
        let sentence = sentence(candidate.as_ref().filter(|_| advised.is_some()), all.len());
        let (download, runs) = (self.worlds.download, self.bench.done());
        Some(Advice { advised, sentence, candidate, screened, same, download, runs })
    }

    /// Every choice in every use on these seeds.
    fn round(&mut self, choices: &[Option<&Choice>], seeds: core::ops::Range<u64>) -> Option<Vec<OfUses>> {
        let mut jobs = Vec::new();
        for choice in choices {
            for of_use in Use::ALL {
                let world = self.worlds.world(of_use, *choice)?;
                jobs.extend(seeds.clone().map(|seed| (world, of_use, seed)));
            }
        }
        let mut taken = self.bench.run(&jobs)?.into_iter();
        let mut of_seeds = || seeds.clone().zip(taken.by_ref()).collect::<BTreeMap<u64, Taken>>();
        Some(choices.iter().map(|_| [of_seeds(), of_seeds(), of_seeds()]).collect())
    }

    /// The shipped policies and these choices on more seeds.
    fn more<'c>(
        &mut self,
        base: OfUses,
        open: Vec<(&'c Choice, OfUses)>,
        seeds: core::ops::Range<u64>,
    ) -> Option<(OfUses, Vec<(&'c Choice, OfUses)>)> {
        if seeds.is_empty() || open.is_empty() {
            return Some((base, open));
        }
        let choices: Vec<Option<&Choice>> = [None].into_iter().chain(open.iter().map(|(one, _)| Some(*one))).collect();
        let mut more = self.round(&choices, seeds)?.into_iter();
        let mut add = |mut taken: OfUses| {
            let new = more.next().unwrap_or_default();
            taken.iter_mut().zip(new).for_each(|(of_use, new)| of_use.extend(new));
            taken
        };
        let base = add(base);
        Some((base, open.into_iter().map(|(choice, taken)| (choice, add(taken))).collect()))
    }

    /// What a choice does on seeds that did not choose it.
    fn confirmed(&mut self, choice: Choice, first: u64, count: u64) -> Option<Candidate> {
        let seeds = first..first + count;
        let mut both = self.round(&[None, Some(&choice)], seeds.clone())?;
        let (with, shipped) = (both.pop()?, both.pop()?);
        let pairs: Vec<Vec<(f64, f64)>> =
            (0..Use::ALL.len()).map(|at| pairs(&shipped[at], &with[at], Taken::time)).collect();
        let score = Ratio::of(&pairs).unwrap_or(Ratio { value: 1.0, interval: None, differs: false });
        let mut effects = Vec::new();
        for (at, of_use) in Use::ALL.into_iter().enumerate() {
            let mean = |of: &BTreeMap<u64, Taken>| of.values().map(|it| it.time).sum::<f64>() / of.len().max(1) as f64;
            let failed = |of: &BTreeMap<u64, Taken>| of.values().filter(|it| it.has_failed).count() as u64;
            effects.push(Effect {
                name: of_use.name(),
                measures: of_use.measures(),
                shipped: mean(&shipped[at]),
                with: mean(&with[at]),
                ratio: Ratio::of(&pairs[at..=at]).unwrap_or(Ratio { value: 1.0, interval: None, differs: false }),
                bytes: Ratio::of(&[self::pairs(&shipped[at], &with[at], |taken| taken.bytes)]),
                failed: [failed(&shipped[at]), failed(&with[at])],
            });
        }
        let mut jobs = Vec::new();
        for one in [None, Some(&choice)] {
            let world = self.worlds.world(Use::Beside, one)?;
            jobs.extend(seeds.clone().map(|seed| (world, Use::Beside, seed)));
        }
        let beside: Vec<f64> = self.bench.run(&jobs)?.iter().map(|taken| taken.time).collect();
        let (shipped, with) = beside.split_at(beside.len() / 2);
        let beside = Ratio::of(&[shipped.iter().copied().zip(with.iter().copied()).collect()]);
        Some(Candidate { choice, score, effects, beside })
    }
}

/// Values of the same seeds, shipped first.
fn pairs(shipped: &BTreeMap<u64, Taken>, with: &BTreeMap<u64, Taken>, value: fn(&Taken) -> f64) -> Vec<(f64, f64)> {
    shipped.iter().filter_map(|(seed, one)| Some((value(one), value(with.get(seed)?)))).collect()
}

/// The geometric mean, over the uses, of mean times.
fn score(shipped: &OfUses, with: &OfUses) -> f64 {
    let places: Vec<Vec<(f64, f64)>> =
        (0..Use::ALL.len()).map(|at| pairs(&shipped[at], &with[at], Taken::time)).collect();
    ratio_of(&places, Statistic::Mean).map_or(1.0, |it| it.value)
}

/// Whether both sent the same packets at the same times, on every seed and in every use.
fn is_same(shipped: &OfUses, with: &OfUses) -> bool {
    shipped.iter().zip(with).all(|(shipped, with)| {
        shipped.iter().all(|(seed, one)| with.get(seed).is_some_and(|other| one.wire_hash == other.wire_hash))
    })
}

/// "12 % (8 to 16 %)".
fn gain(ratio: &Ratio) -> String {
    let percent = |value: f64| (1.0 - value) * 100.0;
    let digits = |value: f64| if value.abs() < 9.95 { 1 } else { 0 };
    let value = percent(ratio.value).abs();
    let text = format!("{value:.*} %", digits(value));
    let Some(interval) = ratio.interval else { return text };
    let (mut low, mut high) = (percent(interval.high), percent(interval.low));
    if ratio.value > 1.0 {
        (low, high) = (-high, -low);
    }
    format!("{text} ({low:.*} to {high:.*} %)", digits(low), digits(high))
}

fn sentence(advised: Option<&Candidate>, count: usize) -> String {
    let Some(Candidate { choice, score, effects, .. }) = advised else {
        return format!(
            "Nothing to gain: of {count} other choices none makes downloads, pages and calls over this path faster than \
             the shipped rules, beyond chance and by 1 %."
        );
    };
    let better = effects.iter().filter(|effect| effect.ratio.is_less());
    let better: Vec<String> = better.map(|effect| format!("{} by {}", effect.measures, gain(&effect.ratio))).collect();
    let worse = effects.iter().filter(|effect| effect.ratio.differs && effect.ratio.value > 1.0);
    let worse: Vec<String> = worse.map(|effect| format!("{} by {}", effect.measures, gain(&effect.ratio))).collect();
    let better = match better.as_slice() {
        [] => format!("downloads, pages and calls together by {}", gain(score)),
        some => some.join(", "),
    };
    let worse = if worse.is_empty() { String::new() } else { format!("; it lengthens {}", worse.join(", ")) };
    format!("{choice} serves this path better than the shipped rules: it shortens {better}{worse}.")
}

#[cfg(test)]
mod tests;
