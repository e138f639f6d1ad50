//! Names flows that got hardly anything of a link that they shared: medians over runs hide what happens to one in a
//! hundred of them.

use serde::Serialize;
use thalweg_units::Duration;

use crate::metric::Scope;
use crate::runner::replay;
use crate::scenario::Scenario;
use crate::scenario::world::{Traffic, World};
use crate::summary::{Run, Runs};

/// A flow that gets less than this part of its fair share is named. Flows that are merely slow to gain theirs, or are
/// suppressed by others of another kind, get more.
pub const STARVED: f64 = 0.05;

/// Flows that share a link for fewer round trips are still opening their windows.
const SETTLED: u32 = 30;

/// Flows that got hardly anything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Starved {
    /// In how many runs there is one.
    pub runs: usize,
    /// In how many runs flows share a link.
    pub of: usize,
    /// The flow that got least.
    pub flow: String,
    /// What it got over its fair share: one in n where n transfers share the direction of a path.
    pub share: f64,
    /// The point at which that was, in words; empty if nothing varies.
    pub point: String,
    /// The command that makes this run again.
    pub replay: String,
}

impl Starved {
    /// Looks for them by `competing_share`. None if there are none.
    pub fn of(scenario: &Scenario, runs: &Runs) -> Option<Starved> {
        let (mut starving, mut sharing) = (0, 0);
        let mut least: Option<(f64, usize, u64, &str)> = None;
        for (number, point) in scenario.points.iter().enumerate() {
            let (world, flows) = (&point.world, &point.world.flows);
            let groups: Vec<Vec<usize>> = (0..flows.len()).map(|flow| competitors(world, flow)).collect();
            for (seed, run) in runs.of_point(number) {
                let share = |flow: usize| {
                    let group = groups[flow].as_slice();
                    let share = run.get(Scope::Flow, &flows[flow].name, "competing_share").first()?;
                    (group.len() > 1 && is_settled(world, run, group)).then(|| share * group.len() as f64)
                };
                let shares =
                    (0..flows.len()).filter_map(|at| Some((share(at)?, number, seed, flows[at].name.as_str())));
                let Some(smallest) = shares.min_by(|one, other| one.0.total_cmp(&other.0)) else { continue };
                sharing += 1;
                starving += usize::from(smallest.0 < STARVED);
                if least.is_none_or(|least| smallest.0 < least.0) {
                    least = Some(smallest);
                }
            }
        }
        let (share, point, seed, flow) = least.filter(|least| least.0 < STARVED)?;
        Some(Starved {
            runs: starving,
            of: sharing,
            flow: flow.to_owned(),
            share,
            point: scenario.points[point].name(&scenario.axes),
            replay: replay(scenario, point, seed),
        })
    }
}

/// In words, without the command.
impl core::fmt::Display for Starved {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Starved { runs, of, flow, share, point, .. } = self;
        let (runs_of, at) = (if *of == 1 { "run" } else { "runs" }, if point.is_empty() { "" } else { " at " });
        let percent = |share: f64| share * 100.0;
        write!(
            f,
            "in {runs} of {of} {runs_of} a flow got less than {:.0} % of its fair share of a link: {flow} got least, {:.1} %{at}{point}",
            percent(STARVED),
            percent(*share)
        )
    }
}

/// Whether these flows shared their link for long enough to have come to their shares.
fn is_settled(world: &World, run: &Run, group: &[usize]) -> bool {
    let first = |scope: Scope, subject: &str, metric: &str| run.get(scope, subject, metric).first().copied();
    let Some(end) = first(Scope::Run, "", "virtual_time") else { return false };
    let (mut from, mut to) = (0.0, end);
    if let Some(measure) = world.measure {
        (from, to) = (measure.from.as_secs_f64(), end.min(measure.to.as_secs_f64()));
    }
    let mut round_trip = Duration::ZERO;
    for flow in group.iter().map(|flow| &world.flows[*flow]) {
        let start = flow.start.as_secs_f64();
        let completion = first(Scope::Flow, &flow.name, "completion").filter(|_| !run.is_endless(&flow.name));
        (from, to) = (from.max(start), to.min(completion.map_or(end, |completion| start + completion)));
        let routes = flow.paths().filter_map(|path| world.route(path));
        round_trip = routes.map(|route| world.round_trip(&route)).fold(round_trip, Duration::max);
    }
    to - from >= f64::from(SETTLED) * round_trip.as_secs_f64()
}

/// The transfers that share a direction of a path with this flow, itself included: of several directions the fewest.
fn competitors(world: &World, flow: usize) -> Vec<usize> {
    let is_up = |flow: usize| match world.flows[flow].traffic {
        Traffic::Upload(_) => Some(true),
        Traffic::Download(_) => Some(false),
        _ => None,
    };
    let hops = |flow: usize| -> Vec<usize> {
        world.flows[flow].paths().filter_map(|path| world.route(path)).flatten().collect()
    };
    let takes = |hop: usize| (0..world.flows.len()).filter(move |flow| hops(*flow).contains(&hop));
    let same_way = |hop: usize| takes(hop).filter(|other| is_up(*other) == is_up(flow)).collect::<Vec<_>>();
    hops(flow).into_iter().map(same_way).filter(|group| group.len() > 1).min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::{Part, RunRecord, put};
    use crate::scenario::StackInfo;

    const TEXT: &str = r#"
title = "t"
question = "q?"
[path.p]
preset = "broadband"
[[flow]]
name = "a"
transfer = { download = "endless" }
[[flow]]
name = "b"
transfer = { download = "endless" }
[[flow]]
name = "c"
transfer = { upload = "endless" }
[[flow]]
name = "d"
transfer = { download = "endless" }
[vary]
"path.p.down.rate" = ["10 Mbps", "20 Mbps"]
"#;

    /// A run of so many seconds in which b gets this share of what a, b and d get.
    fn lasting(seconds: f64, share: f64) -> RunRecord {
        let part = |name: &str, share: f64| {
            let mut part = Part { name: name.to_owned(), ..Part::default() };
            part.set("competing_share", share);
            part
        };
        let alone = Part { name: "c".to_owned(), ..Part::default() };
        let rest = (1.0 - share) / 2.0;
        let flows = vec![part("a", rest), part("b", share), alone, part("d", rest)];
        let mut record = RunRecord { flows, ..RunRecord::default() };
        put(&mut record.values, "virtual_time", seconds);
        record
    }

    fn run(share: f64) -> RunRecord {
        lasting(60.0, share)
    }

    #[test]
    fn flows_that_have_just_begun_are_not_judged() {
        let scenario = Scenario::parse("t.toml", TEXT, Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        let round_trip = scenario.points[0].world.round_trip(&[0]).as_secs_f64();
        let named = |record: RunRecord| Starved::of(&scenario, &Runs::from([((0, 1), record)])).is_some();
        assert!(named(lasting(31.0 * round_trip, 0.001)) && !named(lasting(29.0 * round_trip, 0.001)));
        // The shortest of them decides.
        let mut short = run(0.001);
        short.flows[3].set("completion", 29.0 * round_trip);
        assert!(!named(short));
    }

    #[test]
    fn the_flow_that_got_least_is_named_with_its_run() {
        let scenario = Scenario::parse("t.toml", TEXT, Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        let of = |shares: &[f64]| {
            let runs = (1..).zip(shares).map(|(seed, share)| ((1, seed), run(*share))).collect();
            Starved::of(&scenario, &runs)
        };
        assert_eq!(of(&[0.3, 0.4, 0.05 / 3.0]), None, "a twentieth of a third is not less than that");
        assert_eq!(of(&[]), None);
        let starved = of(&[0.3, 0.01, 0.002, 0.3]).unwrap();
        assert_eq!((starved.runs, starved.of, starved.flow.as_str()), (2, 4, "b"));
        assert_eq!(
            starved.to_string(),
            "in 2 of 4 runs a flow got less than 5 % of its fair share of a link: b got least, 0.6 % at rate = 20 Mbps"
        );
        assert_eq!(starved.replay, "thalweg lab run t.toml --point 1 --seed 3");
    }
}
