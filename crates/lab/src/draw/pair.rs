//! Pairs of paths that a connection uses at once: what they are, their scenario, and how they are judged.
//!
//! Ranges are those of a published design of experiments for several paths (Paasch, Khalili and Bonaventure, "On the
//! Benefits of Applying Experimental Design to Improve Multipath TCP", CoNEXT 2013, table 1), with its four classes of
//! short and long queues, with and without loss, in one.

use core::fmt::Write as _;

use serde::Serialize;
use thalweg_units::{Duration, Rate, exact_duration, human_duration};

use super::distribution::{Draws, Millionths, kbps};
use super::judge::{Judged, Ran, mean, took};
use super::scenario::{head, percent};
use super::{Class, Drawn, Request};
use crate::record::RunRecord;
use crate::stats::{Estimate, Statistic, ratio};

/// Slowest and fastest path, kbps; log-uniform.
pub(super) const RATE: (u64, u64) = (100, 100_000);
/// Shortest and longest round trip, microseconds; uniform.
pub(super) const ROUND_TRIP: (u64, u64) = (0, 400_000);
/// Shortest and longest queue as time at the rate, microseconds; uniform.
pub(super) const QUEUE: (u64, u64) = (0, 2_000_000);
/// A queue has room for so many full packets at least: with less no burst of a start would pass.
const LEAST_PACKETS: u64 = 2;
/// Least and largest loss, millionths; uniform.
pub(super) const LOSS: (u64, u64) = (0, 25_000);

/// Bytes of the long and of the short download.
const LONG: u64 = 20_000_000;
const SHORT: u64 = 256_000;

/// Runs of each point: chance decides more where packets are lost by it. Times are means over them.
const CLEAN_SEEDS: u64 = 9;
const LOSSY_SEEDS: u64 = 45;

/// The points of a scenario, in its order: the paths of the flow, with the long and then with the short download.
const POINTS: [(&str, &str); 4] = [
    ("a", r#"path = "a""#),
    ("b", r#"path = "b""#),
    ("a then b", r#"paths = ["a", "b"]"#),
    ("b then a", r#"paths = ["b", "a"]"#),
];

/// How short a short download is to be, at most, over the time that its first path takes alone.
pub const SHORT_WITHIN: f64 = 1.05;

/// One path of a pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) rate: Rate,
    pub(super) round_trip: Duration,
    /// As time at the rate.
    pub(super) queue: Duration,
    pub(super) loss: Option<Millionths>,
}

/// Two paths of one flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) number: u64,
    pub(super) members: [Member; 2],
}

impl Pair {
    /// World `number`. Every other one loses nothing but what its queues drop.
    pub(super) fn draw(number: u64) -> Pair {
        let draws = Draws::new("pair", number);
        let member = |name: &str| {
            let of = |what: &str| format!("{name}-{what}");
            let rate = kbps(draws.log_uniform(&of("rate"), RATE));
            let queue = Duration::from_micros(draws.uniform(&of("queue"), QUEUE));
            Member {
                rate,
                round_trip: Duration::from_micros(draws.uniform(&of("round-trip"), ROUND_TRIP)),
                queue: queue.max(rate.time_for(LEAST_PACKETS * 1_500)),
                loss: (number % 2 == 1).then(|| Millionths(draws.uniform(&of("loss"), LOSS))),
            }
        };
        Pair { number, members: [member("a"), member("b")] }
    }

    /// "clean" or "lossy".
    pub(super) fn kind(&self) -> &'static str {
        if self.members[0].loss.is_some() { "lossy" } else { "clean" }
    }

    /// What it is, in a line.
    pub(super) fn title(&self) -> String {
        let member = |path: &Member| {
            let loss = path.loss.map_or_else(String::new, |share| format!(", loss {}", percent(share)));
            let (round_trip, queue) = (human_duration(path.round_trip), human_duration(path.queue));
            format!("{} x {round_trip}, queue {queue}{loss}", path.rate)
        };
        format!("{}: {} | {}", self.kind(), member(&self.members[0]), member(&self.members[1]))
    }

    /// The scenario file.
    pub(super) fn text(&self, request: &Request) -> String {
        let title = format!("pair {}, {}", self.number, self.title());
        let question = "How much of both paths does a download get, and what does the second one cost a short one?";
        // Three hundred times what the slower path takes for it.
        let slowest = self.members.iter().map(|path| path.rate.time_for(LONG)).max().unwrap_or_default();
        // A day is the longest that a scenario may have.
        let time_limit = Duration::from_secs((60 + slowest.as_secs() * 300).min(86_400));
        let seeds = if self.kind() == "lossy" { LOSSY_SEEDS } else { CLEAN_SEEDS };
        let mut out = head(&title, question, time_limit, seeds, self.number);
        for (name, path) in ["a", "b"].iter().zip(&self.members) {
            let zero_or = |time: Duration| if time.is_zero() { "0 s".to_owned() } else { exact_duration(time) };
            let way = format!(
                "rate = \"{}\", delay = \"{}\", queue = \"{}\"",
                path.rate,
                zero_or(path.round_trip / 2),
                zero_or(path.queue)
            );
            let loss = path.loss.map_or_else(String::new, |share| format!(", loss = \"{}\"", percent(share)));
            let _ = write!(out, "\n[path.{name}]\ndown = {{ {way}{loss} }}\nup = {{ {way} }}\n");
        }
        let policies = super::scenario::policies_text(&request.policies);
        let policies = if policies.is_empty() { policies } else { format!("policies = \"{policies}\"\n") };
        let points: Vec<String> = POINTS
            .iter()
            .map(|(label, paths)| {
                let scheduler = request.scheduler.as_ref().filter(|_| paths.starts_with("paths"));
                let transport =
                    scheduler.map_or_else(String::new, |name| format!(", transport = {{ scheduler = \"{name}\" }}"));
                format!("  {{ label = \"{label}\", {paths}{transport} }},\n")
            })
            .collect();
        let _ = write!(
            out,
            "\n[[flow]]\nname = \"tested\"\n{policies}transfer = {{ download = \"{LONG} B\" }}\n\n[vary]\n\
             \"flow.tested.transfer.download\" = [\"{LONG} B\", \"{SHORT} B\"]\n\"flow.tested\" = [\n{}]\n",
            points.concat()
        );
        out
    }

    /// The drawn world.
    pub(super) fn drawn(number: u64, request: &Request) -> Drawn {
        let world = Pair::draw(number);
        Drawn {
            class: Class::Pair,
            number,
            kind: world.kind(),
            title: world.title(),
            text: world.text(request),
            has_floor: false,
        }
    }
}

/// What became of a pair.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct OfPair {
    /// What the long download gains over the better path alone, as a share of what the other one carries alone; below
    /// zero, what it loses as a share of what the better one carries. The better path is the first.
    pub gain: f64,
    /// Completion of the short download over that of its first path alone, for either order.
    pub short: [f64; 2],
}

/// Judges a pair by its runs, which are in the order of the points; what never completed has a goodput of 0, and takes
/// as long as its time limit.
pub(super) fn judged(judged: &mut Judged, time_limit: f64, ran: &Ran) {
    let time = |at: usize| {
        let runs: &[(u64, RunRecord)] = ran.choices.get(at).map_or(&[], |(_, runs)| runs);
        mean(runs, took)
    };
    let goodput = |at: usize| ratio(time(at), LONG as f64);
    let alone = [goodput(0), goodput(1)];
    let better = usize::from(alone[1] > alone[0]);
    let (best, other, both) = (alone[better], alone[1 - better], goodput(2 + better));
    let gain = if both >= best { ratio(other, both - best) } else { ratio(best, both - best) };
    let short = |first: usize| ratio(time(4 + first).min(time_limit), time(6 + first).min(time_limit));
    judged.pair = Some(OfPair { gain, short: [short(0), short(1)] });
}

/// The pairs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfPairs {
    /// The share of long downloads that gain from the second path, with Wilson's interval.
    pub gains: Estimate,
    /// The median of what they gain.
    pub gain: Estimate,
    /// The share of short downloads, in either order, that take at most [`SHORT_WITHIN`] times what their first path
    /// takes alone.
    pub short: Estimate,
}

impl OfPairs {
    pub(super) fn of(judged: &[Judged]) -> Option<OfPairs> {
        let pairs: Vec<OfPair> = judged.iter().filter_map(|world| world.pair).collect();
        let share = |count: usize, of: usize| Estimate::of_share(count as u64, of as u64, of);
        let gains: Vec<f64> = pairs.iter().map(|pair| pair.gain).collect();
        let short: Vec<f64> = pairs.iter().flat_map(|pair| pair.short).collect();
        (!pairs.is_empty()).then(|| OfPairs {
            gains: share(gains.iter().filter(|gain| **gain >= 0.0).count(), gains.len()),
            gain: Estimate::of(&gains, Statistic::Quantile(0.5), 0.0),
            short: share(short.iter().filter(|over| **over <= SHORT_WITHIN).count(), short.len()),
        })
    }
}
