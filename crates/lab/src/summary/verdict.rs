//! Verdicts of expectations, with their estimates and intervals.

use serde::Serialize;

use super::difference::pairs_by_seed;
use super::sample::{Comparison, compared};
use super::settle;
use super::{Runs, Sample, is_unfinished, subjects};
use crate::metric::{self, Better, Metric, Scope, Unit};
use crate::record::way;
use crate::scenario::{Expectation, STACK, Scenario};
use crate::stats::{self, Estimate, Interval, Missing};

/// What became of an expectation.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds, and so does every value in the interval. Where seeds change nothing, or the statistic only describes
    /// the runs that were made, there is no interval to look at.
    Holds,
    /// It holds, but is within its own interval of the bound: more seeds may change that.
    HoldsBarely,
    /// It holds, but an interval cannot be estimated from these runs.
    HoldsSoFar,
    /// It does not hold, but the interval reaches the bound, or cannot be estimated: more seeds may change that.
    CannotTell,
    /// It does not hold, nor does any value in the interval.
    Fails,
    /// There is nothing to judge: the runs have not been made, or have nothing to be compared with.
    Unknown,
    /// Known to fall short, and it still does.
    FallsShort,
    /// Known to fall short, but it does not any more.
    Beaten,
    /// As beaten, but the interval reaches beyond the bound, or cannot be estimated.
    BeatenBarely,
}

impl Outcome {
    /// Whether this is no reason to fail a build.
    pub fn is_good(self) -> bool {
        !matches!(self, Outcome::CannotTell | Outcome::Fails | Outcome::Unknown)
    }

    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::HoldsBarely => "holds, barely",
            Outcome::HoldsSoFar => "holds so far",
            Outcome::CannotTell => "cannot tell",
            Outcome::Fails => "fails",
            Outcome::Unknown => "unknown",
            Outcome::FallsShort => "known: falls short",
            Outcome::Beaten => "beaten",
            Outcome::BeatenBarely => "beaten, barely",
        }
    }

    /// What becomes of something that is known to fall short.
    fn of_known(self) -> Outcome {
        match self {
            Outcome::Holds => Outcome::Beaten,
            Outcome::HoldsBarely | Outcome::HoldsSoFar => Outcome::BeatenBarely,
            Outcome::CannotTell | Outcome::Fails => Outcome::FallsShort,
            other => other,
        }
    }
}

/// Verdicts counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What is expected.
    pub expected: usize,
    /// How much of that holds.
    pub good: usize,
    /// What is known to fall short and does.
    pub falls_short: usize,
    /// What is known to fall short and does not any more.
    pub beaten: usize,
    /// How many of all have an interval.
    pub intervals: usize,
    /// How much of what is expected holds barely.
    pub barely: usize,
    /// How many seeds would settle all of that, and what cannot be told, as far as any number of seeds would.
    pub settled_by: u64,
    /// How much of what is expected holds so far.
    pub so_far: usize,
    /// How many seeds all of that needs for an interval.
    pub interval_from: u64,
}

impl Tally {
    /// Counts them.
    pub fn of(verdicts: &[Verdict]) -> Tally {
        let count = |is: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
        let seeds = |is: &dyn Fn(&Verdict) -> bool| {
            verdicts.iter().filter(|verdict| is(verdict)).filter_map(|verdict| verdict.settled_by).max().unwrap_or(0)
        };
        let is_known =
            |it: &Verdict| matches!(it.outcome, Outcome::FallsShort | Outcome::Beaten | Outcome::BeatenBarely);
        Tally {
            expected: count(&|it| !is_known(it)),
            good: count(&|it| !is_known(it) && it.outcome.is_good()),
            falls_short: count(&|it| it.outcome == Outcome::FallsShort),
            beaten: count(&|it| is_known(it) && it.outcome != Outcome::FallsShort),
            intervals: count(&|it| it.interval.is_some()),
            barely: count(&|it| it.outcome == Outcome::HoldsBarely),
            settled_by: seeds(&|it| matches!(it.outcome, Outcome::HoldsBarely | Outcome::CannotTell)),
            so_far: count(&|it| it.outcome == Outcome::HoldsSoFar),
            interval_from: seeds(&|it| it.outcome == Outcome::HoldsSoFar),
        }
    }

    /// "3 barely (about 40 seeds would settle it), 2 without an interval (10 seeds give one)", if there are such.
    pub fn doubts(&self) -> Option<String> {
        let barely = match (self.barely, self.settled_by) {
            (0, _) => None,
            (barely, 0) => Some(format!("{barely} barely")),
            (barely, seeds) => Some(format!("{barely} barely (about {seeds} seeds would settle it)")),
        };
        let so_far = match (self.so_far, self.interval_from) {
            (0, _) => None,
            (so_far, 0) => Some(format!("{so_far} without an interval")),
            (so_far, seeds) => Some(format!("{so_far} without an interval ({seeds} seeds give one)")),
        };
        let parts: Vec<String> = barely.into_iter().chain(so_far).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// "1 known to fall short, 2 beaten", if there are such.
    pub fn known(&self) -> Option<String> {
        let parts: Vec<String> = [(self.falls_short, "known to fall short"), (self.beaten, "beaten")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.expected += other.expected;
        self.good += other.good;
        self.falls_short += other.falls_short;
        self.beaten += other.beaten;
        self.intervals += other.intervals;
        self.barely += other.barely;
        self.settled_by = self.settled_by.max(other.settled_by);
        self.so_far += other.so_far;
        self.interval_from = self.interval_from.max(other.interval_from);
    }
}

/// What many 95 % intervals at once are worth, if they are so many that some miss.
pub fn many_intervals(count: usize) -> Option<String> {
    /// One miss in so many is what 95 % promises.
    const ONE_MISS: usize = 20;
    (count >= ONE_MISS).then(|| {
        format!(
            "of {count} intervals of 95 % up to {} are expected to miss the true value by chance",
            count.div_ceil(ONE_MISS)
        )
    })
}

/// An expectation at one point, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The line of the scenario that expects it.
    pub line: usize,
    /// Number of the point.
    pub point: usize,
    /// The point in words.
    pub point_name: String,
    /// The flow or link; empty for the run.
    pub subject: String,
    /// What is measured, as written: "completion.p50".
    pub measured: String,
    /// What is expected, in words.
    pub expected: String,
    /// What was found; none if nothing was.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// How many runs, or pairs of runs, it rests on.
    pub runs: usize,
    /// How many different results these gave.
    pub distinct: usize,
    /// Why there is no interval, if so.
    pub missing: Option<Missing>,
    /// About how many seeds would settle it, where more seeds may change it; none also where no number would.
    pub settled_by: Option<u64>,
    /// What was found, in words.
    pub found: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it is what is known to fall short, `[[known]]`, instead of what has to hold.
    pub known: bool,
    /// Where the numbers come from.
    pub because: Option<String>,
}

/// Judges every expectation at every point it speaks of, but none against itself; then what is known to fall short.
pub fn verdicts(scenario: &Scenario, runs: &Runs) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    // What is said in relation to a rival that is not there cannot be judged.
    let judged = |expectation: &&Expectation| {
        let mut base = expectation.base().into_iter().flatten();
        base.all(|(axis, value)| axis != STACK || !scenario.absent.contains(value))
    };
    for expectation in scenario.expectations.iter().chain(&scenario.known).filter(judged) {
        for (point, _) in scenario.points.iter().enumerate() {
            if !speaks_of(scenario, expectation, point) {
                continue;
            }
            let base = expectation.base().map(|base| sibling(scenario, point, base));
            if base == Some(Some(point)) {
                continue;
            }
            for subject in subjects(scenario, point, expectation.metric.scope) {
                let chosen = match expectation.metric.scope {
                    Scope::Flow => &expectation.flow,
                    Scope::Link => &expectation.link,
                    Scope::Run => &None,
                };
                if chosen.as_ref().is_some_and(|chosen| *chosen != subject) {
                    continue;
                }
                let subject = match &expectation.path {
                    Some(path) if uses_beside_others(scenario, point, &subject, path) => way(&subject, path),
                    // A flow that does not use it among others has no figures of it.
                    Some(_) => continue,
                    None => subject,
                };
                verdicts.push(judge(scenario, runs, expectation, (point, base), subject));
            }
        }
    }
    verdicts
}

/// Whether a flow uses a path and others at the same time.
fn uses_beside_others(scenario: &Scenario, point: usize, flow: &str, path: &str) -> bool {
    let flows = scenario.points.get(point).map(|point| point.world.flows.as_slice()).unwrap_or_default();
    flows.iter().any(|spec| {
        let is_used = spec.path == path || spec.beside.iter().any(|beside| beside == path);
        spec.name == flow && !spec.beside.is_empty() && is_used
    })
}

/// Whether an expectation is about a point.
pub fn speaks_of(scenario: &Scenario, expectation: &Expectation, point: usize) -> bool {
    matches_point(scenario, point, &expectation.points)
}

/// Rivals are meant only by name.
fn matches_point(scenario: &Scenario, point: usize, wanted: &[(String, String)]) -> bool {
    let Some(point) = scenario.points.get(point) else { return false };
    let named = || wanted.iter().any(|(axis, _)| axis == STACK);
    (point.rival.is_none() || named())
        && wanted.iter().all(|(axis, value)| {
            scenario.axes.iter().position(|known| known.label == *axis).is_some_and(|at| point.labels[at] == *value)
        })
}

/// The point that differs from `point` only in what `wanted` says, and in what changes together with it: of several the
/// one that differs in the fewest axes. What does not concern a rival need not agree.
pub(super) fn sibling(scenario: &Scenario, point: usize, wanted: &[(String, String)]) -> Option<usize> {
    let mut labels = scenario.points[point].labels.clone();
    for (axis, _) in wanted {
        let together = scenario.axes.iter().find(|known| known.label == *axis)?.together;
        let partners = scenario.axes.iter().zip(&mut labels).filter(|(axis, _)| axis.together == together);
        partners.filter(|_| together.is_some()).for_each(|(_, label)| label.clear());
    }
    for (axis, value) in wanted {
        let at = scenario.axes.iter().position(|known| known.label == *axis)?;
        labels[at].clone_from(value);
    }
    let agree = |other: &[String]| {
        other.iter().zip(&labels).all(|(one, other)| one == other || one.is_empty() || other.is_empty())
    };
    let own = &scenario.points[point].labels;
    let shared = |at: usize| scenario.points[at].labels.iter().zip(own).filter(|(one, other)| one == other).count();
    let agreeing = (0..scenario.points.len()).filter(|at| agree(&scenario.points[*at].labels));
    // The first of the nearest.
    agreeing.min_by_key(|at| std::cmp::Reverse(shared(*at)))
}

/// What an expectation is held against.
struct Measured {
    found: Estimate,
    /// What it rests on, in words.
    on: String,
    /// Why nothing can be said, if so, and the outcome that this is.
    doubt: Option<(Outcome, String)>,
    /// Whether it is the median over runs of the statistic within each.
    is_repeated: bool,
}

/// Fewer pairs say nothing about a difference.
const FEWEST_PAIRS: usize = 3;

/// What the expectation is about, at a point and, if it compares, at another.
fn measure(
    scenario: &Scenario,
    runs: &Runs,
    expectation: &Expectation,
    (point, base): (usize, Option<Option<usize>>),
    subject: &str,
) -> Measured {
    let (metric, statistic) = (expectation.metric, expectation.statistic);
    let Some(base) = base else {
        let sample = Sample::new(scenario, runs, point, subject, metric);
        let found = sample.estimate(statistic);
        return Measured { found, on: found.on(), doubt: None, is_repeated: sample.is_repeated() };
    };
    let Some(base) = base else {
        let doubt = Some((Outcome::Unknown, "there is no point to compare with".to_owned()));
        let found = Estimate::of(&[], statistic, 0.0);
        return Measured { found, on: "no pairs".to_owned(), doubt, is_repeated: false };
    };
    let (first, second) = ((runs, base, subject), (runs, point, subject));
    let Comparison { ways: (within, over), tolerance, is_repeated } =
        Comparison::new((scenario, first), (scenario, second), metric, statistic);
    let by_seed = pairs_by_seed(first, second, metric, within);
    let pairs: Vec<(f64, f64)> = by_seed.iter().map(|(_, pair)| *pair).collect();
    let found = match expectation.relative_to {
        Some(_) => compared(&pairs, over, tolerance, |first, second| match first == 0.0 && second != 0.0 {
            // Nothing where more is better is no measure of anything.
            true if metric.better == Better::More => f64::NAN,
            _ => stats::ratio(first, second),
        }),
        None => compared(&pairs, over, tolerance, |first, second| second - first),
    };
    let on = match found.runs == pairs.len() {
        true => format!("n = {} pairs{}", pairs.len(), found.repeats()),
        false => format!("n = {} of {} pairs{}", found.runs, pairs.len(), found.repeats()),
    };
    let is_zero = |(first, second): &&(f64, f64)| *first == 0.0 && *second != 0.0;
    let zeros = match expectation.relative_to {
        Some(_) if metric.better == Better::More => pairs.iter().filter(is_zero).count(),
        _ => 0,
    };
    let unknown = doubt_of_base(runs, (base, subject), metric, &by_seed).or_else(|| match found.runs {
        n if n < pairs.len() && zeros > 0 => Some(format!("what it is compared with is 0 on {}", seeds(zeros))),
        n if n < pairs.len() => Some(format!("{} runs have no value", pairs.len() - n)),
        _ => None,
    });
    let doubt = match unknown {
        Some(why) => Some((Outcome::Unknown, why)),
        // Where there is one pair, more seeds would tell.
        None if found.runs < FEWEST_PAIRS => {
            let outcome = if found.value.is_nan() { Outcome::Unknown } else { Outcome::CannotTell };
            Some((outcome, format!("{FEWEST_PAIRS} pairs are the fewest that say anything")))
        }
        None => None,
    };
    Measured { found, on, doubt, is_repeated }
}

/// Why a base is no measure, if so: on some seeds it never came to an end, or failed and has the worst value for want
/// of one. What a failed run did measure is a value like any other.
fn doubt_of_base(
    runs: &Runs,
    (base, subject): (usize, &str),
    metric: &Metric,
    pairs: &[(u64, (f64, f64))],
) -> Option<String> {
    let never = pairs.iter().filter(|(_, (first, _))| first.is_infinite()).count();
    if never > 0 {
        return Some(format!("what it is compared with never came to it on {}", seeds(never)));
    }
    // That it failed is what these say; nothing stands for it.
    let worst = metric.worst().filter(|_| !metric.is_yes_or_no())?;
    let has_failed = |seed: u64| runs.get(&(base, seed)).is_some_and(|record| is_unfinished(record, subject));
    let failed = pairs.iter().filter(|(seed, (first, _))| *first == worst && has_failed(*seed)).count();
    (failed > 0).then(|| format!("what it is compared with failed on {}", seeds(failed)))
}

/// "1 seed", "3 seeds".
fn seeds(count: usize) -> String {
    if count == 1 { "1 seed".to_owned() } else { format!("{count} seeds") }
}

/// What becomes of an expectation of which this was found, if nothing else is in doubt.
fn outcome(expectation: &Expectation, found: &Estimate) -> Outcome {
    let (least, most) = (expectation.at_least, expectation.at_most);
    // Whether all that may be true is as expected, and whether some of it is.
    let (all, some) = match (found.interval, found.missing) {
        (Some(Interval { low, high }), _) => (
            least.is_none_or(|least| low >= least) && most.is_none_or(|most| high <= most),
            least.is_none_or(|least| high >= least) && most.is_none_or(|most| low <= most),
        ),
        (None, Some(Missing::Few(_) | Missing::OneValue(_))) => (false, true),
        (None, _) => (true, false),
    };
    // "All of them" is about the runs that were made: no number of these bounds the share of all that might be made.
    let is_all = expectation.metric.is_yes_or_no() && least == most && least == Some(found.value);
    match (expectation.holds(found.value), all || is_all, some) {
        (true, true, _) => Outcome::Holds,
        (true, false, _) if found.interval.is_none() => Outcome::HoldsSoFar,
        (true, false, _) => Outcome::HoldsBarely,
        (false, _, true) => Outcome::CannotTell,
        (false, _, false) => Outcome::Fails,
    }
}

pub(super) fn judge(
    scenario: &Scenario,
    runs: &Runs,
    expectation: &Expectation,
    (point, base): (usize, Option<Option<usize>>),
    subject: String,
) -> Verdict {
    let metric = expectation.metric;
    let Measured { found, on, doubt, is_repeated } = measure(scenario, runs, expectation, (point, base), &subject);
    let Estimate { value, interval, missing, .. } = found;
    let unit = expectation.unit();
    let outcome = match &doubt {
        Some((outcome, _)) => *outcome,
        None if value.is_nan() => Outcome::Unknown,
        None if expectation.known => outcome(expectation, &found).of_known(),
        None => outcome(expectation, &found),
    };
    let is_open = matches!(outcome, Outcome::HoldsBarely | Outcome::HoldsSoFar | Outcome::CannotTell);
    let settled_by = is_open.then(|| settle::seeds(expectation, &found)).flatten();
    let doubt = match (doubt, missing) {
        (Some((_, doubt)), _) => format!(": {doubt}"),
        // How many are distinct is said already; a statistic without an interval is a matter of the documentation.
        (None, Some(missing @ (Missing::Few(_) | Missing::OneValue(_)))) if !value.is_nan() => format!("; {missing}"),
        _ => String::new(),
    };
    let words = |base: &[(String, String)]| {
        base.iter().map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ")
    };
    let relative = match (&expectation.relative_to, &expectation.versus) {
        (Some(base), _) => format!(" over that of {}", words(base)),
        (None, Some(base)) => format!(" less that of {}", words(base)),
        (None, None) => String::new(),
    };
    let settled = match settled_by {
        Some(seeds) if interval.is_some() => format!("; about {seeds} seeds would settle it"),
        Some(seeds) => format!("; {seeds} seeds give one"),
        None if is_open && interval.is_some() => "; at the bound, which no number of seeds settles".to_owned(),
        None => String::new(),
    };
    let of_runs = if is_repeated { ", median of runs" } else { "" };
    Verdict {
        line: expectation.line,
        point,
        point_name: scenario.points[point].name(&scenario.axes),
        subject,
        measured: format!("{}.{}{relative}{of_runs}", metric.name, expectation.statistic),
        expected: expectation.bounds(),
        value: (!value.is_nan()).then_some(value),
        interval,
        runs: found.runs,
        distinct: found.distinct,
        missing,
        settled_by,
        found: format!("{}, {on}{doubt}{settled}", with_interval(value, interval, unit)),
        outcome,
        known: expectation.known,
        because: expectation.because.clone(),
    }
}

/// "4.8 s [4.7 s, 4.9 s]"; an end that so many runs do not bound is "open".
pub fn with_interval(value: f64, interval: Option<Interval>, unit: Unit) -> String {
    let print = |value| metric::format(value, unit);
    match interval.and_then(|interval| ends(interval, unit)) {
        Some((low, high)) => format!("{} [{low}, {high}]", print(value)),
        None => print(value),
    }
}

/// Both ends of an interval as people read them; none if it is a single value.
pub fn ends(interval: Interval, unit: Unit) -> Option<(String, String)> {
    let low = if interval.low == f64::NEG_INFINITY { "open".to_owned() } else { metric::format(interval.low, unit) };
    let high = if interval.high == f64::INFINITY { "open".to_owned() } else { metric::format(interval.high, unit) };
    (interval.width() != 0.0).then_some((low, high))
}
