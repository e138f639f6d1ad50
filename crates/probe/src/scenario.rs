//! A measured path as paths of the lab: a replay of what was measured, and a model that was fitted to it.

use core::fmt::Write as _;

use thalweg_link::trace::{CsvTrace, TracePoint};
use thalweg_link::{Probability, Quantiles};
use thalweg_units::{Duration, DurationExt, Rate, exact_duration, math};

use crate::findings::Findings;
use crate::load::PROBE;
use crate::passage::Passage;
use crate::summary::{Summary, WaySummary};
use crate::suspension::{Event, Suspension};
use crate::trace::Way;

/// Most points of a replay, each way: hours at 20 ms.
const MOST_POINTS: usize = 1_000_000;
/// From step to step while a way is held, in nanoseconds: so exactly does everything arrive at once.
const STEP: i64 = 1_000_000;
/// Without load the rate is not known: as good as none for what was measured.
const RATE: u64 = 1_000_000_000;

fn span(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0) as u64)
}

/// What was measured, to be repeated: delay and loss of each way by time.
///
/// A delay holds for half an interval around each datagram, and so does a loss. While a way was held, the delay falls
/// by a millisecond each millisecond, so that everything arrives at its end.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    ways: [Vec<TracePoint>; 2],
    length: i64,
}

impl Replay {
    /// Adds the next part of a measurement. What is beyond some hours is left out.
    pub fn add(&mut self, findings: &Findings) {
        let half = findings.interval / 2;
        for (way, points) in Way::BOTH.into_iter().zip(&mut self.ways) {
            let of_way = |event: &Event| if way == Way::Up { event.up } else { event.down };
            let held: Vec<Suspension> = findings.events.iter().filter_map(of_way).collect();
            let passages = &findings.way(way).passages;
            add_way(points, passages, &held, half);
            self.length = self.length.max(passages.last().map_or(0, |last| last.sent + half));
        }
    }

    /// One way as the text of a trace of the lab. It repeats after its end.
    pub fn text(&self, way: Way) -> String {
        let mut points = self.ways[way as usize].clone();
        if points.is_empty() {
            points.push(point(0, Duration::ZERO, false));
        }
        let last = points.last().map_or(Duration::ZERO, |last| last.at);
        CsvTrace { points, period: Some(span(self.length).max(last + Duration::from_millis(1))) }.to_text()
    }
}

fn point(at: i64, delay: Duration, is_lost: bool) -> TracePoint {
    let loss = if is_lost { Probability::ALWAYS } else { Probability::NEVER };
    TracePoint { at: span(at), rate: Rate::from_bps(RATE), delay: Some(delay), loss }
}

/// Adds a point unless it is not after the last one; the first is at zero.
fn push(points: &mut Vec<TracePoint>, at: i64, delay: Duration, is_lost: bool) {
    let at = if points.is_empty() { 0 } else { at };
    if points.len() < MOST_POINTS && points.last().is_none_or(|last| last.at < span(at)) {
        points.push(point(at, delay, is_lost));
    }
}

fn add_way(points: &mut Vec<TracePoint>, passages: &[Passage], held: &[Suspension], half: i64) {
    let mut held = held.iter().peekable();
    let mut level = points.last().and_then(|last| last.delay).unwrap_or_default();
    if points.is_empty() {
        level = span(passages.iter().find_map(Passage::delay).unwrap_or(0));
    }
    for (index, passage) in passages.iter().enumerate() {
        while let Some(each) = held.next_if(|each| each.end <= passage.sent) {
            add_held(points, &passages[..index], each, level, half);
        }
        if held.peek().is_some_and(|each| passage.sent >= each.start) {
            continue;
        }
        level = passage.delay().map_or(level, span);
        push(points, passage.sent - half, level, passage.received.is_none());
    }
    for each in held {
        add_held(points, passages, each, level, half);
    }
}

fn add_held(points: &mut Vec<TracePoint>, until: &[Passage], held: &Suspension, level: Duration, half: i64) {
    let from = until.partition_point(|passage| passage.sent < held.start - half);
    let near = until.get(from..).unwrap_or(&[]);
    let is_lost = |at: i64| {
        let mut around = near.iter().filter(|passage| (passage.sent - at).abs() < half);
        around.next().is_some_and(|passage| passage.received.is_none())
    };
    let mut at = held.start;
    while at < held.end {
        push(points, at, span(held.end - at) + level, is_lost(at));
        at += STEP;
    }
    push(points, held.end, level, false);
}

/// A log-normal delay on top of a fixed one.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Fitted {
    /// The fixed part, in nanoseconds.
    base: f64,
    median: f64,
    sigma: f64,
}

/// The standard normal distribution reaches these quantiles at so many deviations.
const AT_QUANTILE: [(u64, f64); 5] = [(10, -1.281_55), (25, -0.674_49), (75, 0.674_49), (90, 1.281_55), (95, 1.644_85)];

impl Fitted {
    /// The fit to delays: for each of twenty fixed parts the log-normal that has the median and the 90th percentile; of
    /// these, the one that is nearest to five other quantiles. Suspensions are in the tail beyond them.
    fn of(delays: &Quantiles) -> Option<Fitted> {
        let at = |percent: u64| delays.quantile(percent, 100).nanos() as f64;
        let (min, p50, p90) = (delays.min().nanos() as f64, at(50), at(90));
        if delays.count() == 0 || p50 <= min {
            return None;
        }
        let candidates = (0..20).map(|step| {
            let base = min * f64::from(step) / 20.0;
            let median = p50 - base;
            Fitted { base, median, sigma: math::ln((p90 - base).max(median) / median) / 1.281_55 }
        });
        let error = |fit: &Fitted| -> f64 {
            let of = |(percent, z): (u64, f64)| (fit.base + fit.median * math::exp(fit.sigma * z) - at(percent)).abs();
            AT_QUANTILE.into_iter().map(of).sum()
        };
        candidates.min_by(|a, b| error(a).total_cmp(&error(b)))
    }

    /// Mean and deviation of the log-normal part.
    fn moments(self) -> (f64, f64) {
        let square = self.sigma * self.sigma;
        let mean = self.median * math::exp(square / 2.0);
        (mean, mean * math::sqrt(math::exp(square) - 1.0))
    }
}

fn micros(nanos: f64) -> String {
    exact_duration(Duration::from_micros((nanos / 1e3).round().max(0.0) as u64))
}

/// A share with six digits behind the point.
fn share(value: f64) -> String {
    format!("{value:.6}")
}

/// Suspensions as a random process: their mean distance, and their lengths from the least to the greatest, as far as
/// one in twenty of either end is not counted.
fn process(events: &[&Event], length: i64, indent: &str) -> String {
    let mut lengths: Vec<i64> = events.iter().map(|event| event.length()).collect();
    lengths.sort_unstable();
    let (Some(least), Some(most)) = (lengths.get(lengths.len() / 20), lengths.iter().rev().nth(lengths.len() / 20))
    else {
        return String::new();
    };
    let total: i64 = lengths.iter().sum();
    // From the end of one to the begin of the next.
    let every = micros(((length - total).max(0) as f64) / lengths.len() as f64);
    let lasts = match least == most {
        true => micros(*least as f64),
        false => format!("{}..{}", micros(*least as f64), micros(*most as f64)),
    };
    format!("{indent}suspend = {{ every = \"{every}\", for = \"{lasts}\", random = true, held = \"before\" }}\n")
}

/// The shortest queue that a model gets: what a load did not lengthen is a few packets long.
const LEAST_QUEUE: u64 = 4 * 1_500;

/// Rate and queue of a way, and how long a datagram of the measurement took on the wire, in nanoseconds.
fn bottleneck(way: Way, summary: &Summary) -> (String, f64) {
    match summary.load(way) {
        Some(load) => {
            let queue = load.rate.bytes_in(load.queue).max(LEAST_QUEUE);
            let wire = PROBE[way as usize] * 8e9 / load.rate.bps().max(1) as f64;
            (format!("rate = \"{} kbps\"\nqueue = \"{queue} B\"\n", (load.rate.bps() / 1_000).max(1)), wire)
        }
        None => match summary.trains.iter().find(|trains| trains.way == way) {
            Some(trains) => {
                let wire = PROBE[way as usize] * 8e9 / trains.rate.bps().max(1) as f64;
                (format!("rate = \"{} kbps\"\nqueue = \"1 s\"\n", (trains.rate.bps() / 1_000).max(1)), wire)
            }
            None => ("rate = \"1 Gbps\"\nqueue = \"1 s\"\n".to_owned(), 0.0),
        },
    }
}

fn direction(way: Way, summary: &Summary, of_way: &WaySummary) -> String {
    let (bottleneck, wire) = bottleneck(way, summary);
    let mut text = format!("[path.model.{}]\n{bottleneck}", way.name());
    match Fitted::of(&of_way.delays) {
        Some(fit) => {
            let fit = Fitted { base: (fit.base - wire).max(0.0), ..fit };
            let (mean, deviation) = fit.moments();
            let (mean, deviation) = (micros(mean), micros(deviation));
            let _ = writeln!(text, "delay = \"{}\"", micros(fit.base));
            let _ =
                writeln!(text, "jitter = {{ shape = \"lognormal\", mean = \"{mean}\", deviation = \"{deviation}\" }}");
        }
        None => {
            let least = of_way.delays.min().nanos() as f64;
            let _ = writeln!(text, "delay = \"{}\"", micros((least - wire).max(0.0)));
        }
    }
    if let Some(gilbert) = of_way.fate.gilbert() {
        let (enter, leave) = (share(gilbert.begins), share(gilbert.ends.max(0.000_001)));
        let _ = writeln!(text, "loss = {{ burst = {{ enter = {enter}, leave = {leave} }} }}");
    }
    let alone: Vec<&Event> = summary.events.iter().filter(|event| event.way() == way.name()).collect();
    text + &process(&alone, summary.length, "")
}

/// The fitted path in TOML: `[path.model]`.
///
/// It has for each way a fixed and a log-normal delay, losses as Gilbert has them, and suspensions at random times of
/// random length, each way by itself and both together; that they come in series is not in it. A way that was loaded
/// has the rate and the queue that this showed. Otherwise it has the rate that trains showed, or 1 Gbps, and a queue of
/// 1 s: how long it is, nothing but a load shows.
pub fn model(summary: &Summary) -> String {
    let both: Vec<&Event> = summary.events.iter().filter(|event| event.way() == "both").collect();
    let mut text = String::from("# Fitted: delays, losses, and suspensions at random times.\n[path.model]\n");
    text += &process(&both, summary.length, "");
    for way in Way::BOTH {
        text += "\n";
        text += &direction(way, summary, summary.way(way));
    }
    text
}

/// The measured path in TOML, as a scenario has it: `[path.model]`, see [`model`], and `[path.replay]`, which reads the
/// two files of a [`Replay`] by these names, up and down.
pub fn scenario(summary: &Summary, traces: [&str; 2]) -> String {
    let is_known = |way: &Way| summary.load(*way).is_some() || summary.trains.iter().any(|trains| trains.way == *way);
    let known = Way::BOTH.into_iter().filter(is_known).count();
    let mut text = String::from(match known {
        0 => {
            "# A path as it was measured. The rate was not: write the rate of the path where it is known, and its queue.\n\n"
        }
        1 => "# A path as it was measured. The rate of one way was not: it has 1 Gbps.\n\n",
        _ => "# A path as it was measured.\n\n",
    });
    text += &model(summary);
    text += "\n# What was measured, as it was.\n";
    for (way, trace) in Way::BOTH.into_iter().zip(traces) {
        let least = micros(summary.way(way).delays.min().nanos() as f64);
        let trace = trace.escape_default();
        let way = way.name();
        let _ = write!(text, "[path.replay.{way}]\ntrace = \"{trace}\"\ndelay = \"{least}\"\nqueue = \"1 s\"\n\n");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}
