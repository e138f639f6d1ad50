//! Judgment of drawn worlds: the outcome of each, and the means over all of them.

use serde::Serialize;
use thalweg_units::math;

use super::pair::{self, OfPair};
use super::{Class, Drawn};
use crate::metric::Scope;
use crate::record::RunRecord;
use crate::stats::{Estimate, Statistic, quantile};

/// A path is filled well if a download takes at most so many times the cold floor.
pub const WITHIN: f64 = 1.5;

/// How often a 95 % interval may miss.
const MISSES: f64 = 0.05;

/// What became of one world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its class.
    pub class: Class,
    /// Its number.
    pub number: u64,
    /// Its kind, such as "wifi".
    pub kind: &'static str,
    /// What it is, in a line.
    pub title: String,
    /// Completion over the cold floor; infinite if the download never completed. None where there is no floor, and of
    /// shared worlds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_floor: Option<f64>,
    /// Of a single path, completion over that of the reference. What never completed counts as long as its time limit,
    /// and where the reference never completed the ratio is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Of a shared path, what the rivals get over what they get beside the reference; 0 if a connection died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<f64>,
    /// Of a pair of paths, what the second one brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<OfPair>,
    /// Connections that died and runs that never completed, with the policies, the seed and the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<String>,
    /// The wire hash of every run, those of the judged policies first: which worlds a change of the program touches.
    pub wire_hashes: Vec<String>,
}

/// The records of a world: the judged policies first, then the reference, each by seed.
pub(super) struct Ran {
    /// Label of the choice, and one record per seed with that seed.
    pub(super) choices: Vec<(String, Vec<(u64, RunRecord)>)>,
}

/// Judges a world by its runs.
pub(super) fn judged(drawn: &Drawn, time_limit: f64, ran: &Ran) -> Judged {
    let dead: Vec<String> = ran
        .choices
        .iter()
        .flat_map(|(label, runs)| runs.iter().map(move |(seed, record)| (label, seed, record)))
        .filter_map(|(label, seed, record)| Some(format!("{label}, seed {seed}: {}", died(record)?)))
        .collect();
    let side = |at: usize| ran.choices.get(at).or(ran.choices.first()).map_or(&[][..], |(_, runs)| runs);
    let (ours, reference) = (side(0), side(1));
    let hashes = ran.choices.iter().flat_map(|(_, runs)| runs);
    let mut judged = Judged {
        class: drawn.class,
        number: drawn.number,
        kind: drawn.kind,
        title: drawn.title.clone(),
        over_floor: None,
        ratio: None,
        kept: None,
        pair: None,
        dead,
        wire_hashes: hashes.map(|(_, record)| record.wire_hash.clone()).collect(),
    };
    match drawn.class {
        Class::Single => {
            let ours_took = mean(ours, took).min(time_limit);
            // That the reference died is no merit of ours: then both count as equal.
            let reference_took = Some(mean(reference, took)).filter(|took| took.is_finite()).unwrap_or(ours_took);
            judged.ratio = Some(crate::stats::ratio(reference_took, ours_took));
            judged.over_floor = drawn.has_floor.then(|| mean(ours, over_floor));
        }
        Class::Shared => {
            let died = ours.iter().any(|(_, record)| died(record).is_some());
            let kept = crate::stats::ratio(mean(reference, of_rivals), mean(ours, of_rivals));
            // Beside a reference that left them nothing they cannot lose anything.
            judged.kept = Some(if died { 0.0 } else { kept.min(f64::MAX) });
        }
        Class::Pair => pair::judged(&mut judged, time_limit, ran),
    }
    judged
}

/// The mean of a value over runs.
pub(super) fn mean(runs: &[(u64, RunRecord)], value: fn(&RunRecord) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(|(_, record)| value(record)).collect();
    crate::stats::mean(&values)
}

/// Why a run is one of a connection that died or of a transfer that never completed.
fn died(record: &RunRecord) -> Option<String> {
    if let Some(reason) = &record.failed {
        return Some(reason.clone());
    }
    let failed = |part: &&crate::record::Part| part.values.get("completed").is_none_or(|values| values != &[1.0]);
    let part = record.flows.iter().find(failed)?;
    let reason = part.notes.get("failed").map_or("it never completed", String::as_str);
    Some(format!("{}: {reason}", part.name))
}

/// How long a run took: of several downloads and responses the mean; without an end if one of them has none.
pub(super) fn took(record: &RunRecord) -> f64 {
    if died(record).is_some() {
        return f64::INFINITY;
    }
    if let [flow] = record.flows.as_slice() {
        let responses = record.get(Scope::Flow, &flow.name, "response");
        if !responses.is_empty() {
            return crate::stats::mean(responses);
        }
    }
    record.get(Scope::Run, "", "completion_mean").first().copied().unwrap_or(f64::INFINITY)
}

fn over_floor(record: &RunRecord) -> f64 {
    let floor = record.flows.first().and_then(|flow| flow.values.get("completion_over_cold_floor")?.first().copied());
    floor.filter(|_| died(record).is_none()).unwrap_or(f64::INFINITY)
}

/// What all rivals of a run get together, bit/s.
fn of_rivals(record: &RunRecord) -> f64 {
    let rivals = record.flows.iter().filter(|flow| flow.name.starts_with(super::scenario::RIVALS));
    rivals.filter_map(|flow| flow.values.get("goodput")?.first().copied()).fold(0.0, |sum, goodput| sum + goodput)
}

/// The single paths together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfSingle {
    /// The share of downloads within [`WITHIN`] times the cold floor, with Wilson's interval.
    pub within: Estimate,
    /// The geometric mean of completion over that of the reference, with the interval of the mean of logarithms.
    pub over_reference: Estimate,
}

/// The shared paths together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfShared {
    /// The least share that rivals keep on any of them.
    pub least: f64,
    /// On no larger share of all such paths do rivals keep less, with 95 % confidence.
    pub less_at_most: f64,
    /// The tenth percentile of these shares over paths.
    pub tenth: Estimate,
    /// Their median over paths.
    pub median: Estimate,
}

impl OfSingle {
    pub(super) fn of(judged: &[Judged]) -> Option<OfSingle> {
        let floors: Vec<f64> = judged.iter().filter_map(|world| world.over_floor).collect();
        let within = floors.iter().filter(|over| **over <= WITHIN).count();
        let ratios: Vec<f64> = judged.iter().filter_map(|world| world.ratio).collect();
        // Each path is another one, however alike the outcomes.
        let within = Estimate::of_share(within as u64, floors.len() as u64, floors.len());
        (!ratios.is_empty()).then(|| OfSingle { within, over_reference: geometric_mean(&ratios) })
    }
}

impl OfShared {
    pub(super) fn of(judged: &[Judged]) -> Option<OfShared> {
        let kept: Vec<f64> = judged.iter().filter_map(|world| world.kept).collect();
        let least = kept.iter().copied().min_by(f64::total_cmp)?;
        let of = |share: f64| Estimate::of(&kept, Statistic::Quantile(share), 0.0);
        Some(OfShared { least, less_at_most: less_at_most(kept.len()), tenth: of(0.1), median: of(0.5) })
    }
}

/// The geometric mean of ratios.
pub(super) fn geometric_mean(ratios: &[f64]) -> Estimate {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| math::ln(ratio.max(f64::MIN_POSITIVE))).collect();
    let mut estimate = Estimate::of(&logarithms, Statistic::Mean, 0.0);
    estimate.value = math::exp(estimate.value);
    if let Some(interval) = &mut estimate.interval {
        (interval.low, interval.high) = (math::exp(interval.low), math::exp(interval.high));
    }
    estimate
}

/// The share p of a distribution below the least of `count` values, at most, with 95 % confidence: were it larger, a
/// sample without any of that share, which has a probability of (1 − p)ⁿ, would be rarer than one in twenty.
pub(super) fn less_at_most(count: usize) -> f64 {
    if count == 0 { 1.0 } else { 1.0 - math::exp(math::ln(MISSES) / count as f64) }
}

/// The worlds of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfKind {
    /// The kind.
    pub kind: &'static str,
    /// How many worlds.
    pub worlds: usize,
    /// Of these, how many with a floor.
    pub floors: usize,
    /// Of these, how many within [`WITHIN`] times the floor.
    pub within: usize,
    /// Of single paths, the geometric mean over the reference; of shared ones, the median share that rivals keep; of
    /// pairs, the median of what they gain.
    pub middle: f64,
    /// The worst of these.
    pub worst: f64,
}

/// Worlds by kind, in the order of the kinds' first worlds.
pub(super) fn by_kind(judged: &[Judged]) -> Vec<OfKind> {
    let mut kinds: Vec<&'static str> = Vec::new();
    for world in judged {
        if !kinds.contains(&world.kind) {
            kinds.push(world.kind);
        }
    }
    kinds.sort_unstable();
    let row = |kind: &'static str| {
        let worlds: Vec<&Judged> = judged.iter().filter(|world| world.kind == kind).collect();
        let floors: Vec<f64> = worlds.iter().filter_map(|world| world.over_floor).collect();
        let ratios: Vec<f64> = worlds.iter().filter_map(|world| world.ratio).collect();
        let mut kept: Vec<f64> = worlds.iter().filter_map(|world| world.kept).collect();
        // Of pairs, what they gain.
        kept.extend(worlds.iter().filter_map(|world| Some(world.pair?.gain)));
        kept.sort_unstable_by(f64::total_cmp);
        let (middle, worst) = match kept.first() {
            Some(least) => (quantile(&kept, 0.5), *least),
            None => (geometric_mean(&ratios).value, ratios.iter().copied().fold(0.0, f64::max)),
        };
        let within = floors.iter().filter(|over| **over <= WITHIN).count();
        OfKind { kind, worlds: worlds.len(), floors: floors.len(), within, middle, worst }
    };
    kinds.into_iter().map(row).collect()
}
