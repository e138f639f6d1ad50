//! Names flows that got hardly anything of a link that they shared: medians over runs hide what happens to one in a
//! hundred of them.

use serde::Serialize;

use crate::metric::Scope;
use crate::runner::replay;
use crate::scenario::Scenario;
use crate::scenario::world::{Traffic, World};
use crate::summary::Runs;

/// A flow that gets less than this part of its fair share is named. Flows that are merely slow to gain theirs, or are
/// suppressed by others of another kind, get more.
pub const STARVED: f64 = 0.05;

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
            let groups: Vec<(&str, f64)> = point
                .world
                .flows
                .iter()
                .enumerate()
                .map(|(flow, spec)| (spec.name.as_str(), competitors(&point.world, flow) as f64))
                .collect();
            for (seed, run) in runs.of_point(number) {
                let share = |(flow, count): &(&'_ str, f64)| {
                    run.get(Scope::Flow, flow, "competing_share").first().map(|share| share * count)
                };
                let shares = groups.iter().filter_map(|group| Some((share(group)?, number, seed, group.0)));
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

/// How many transfers share a direction of a path with this flow, itself included: of several directions the fewest.
fn competitors(world: &World, flow: usize) -> usize {
    let is_up = |flow: usize| match world.flows[flow].traffic {
        Traffic::Upload(_) => Some(true),
        Traffic::Download(_) => Some(false),
        _ => None,
    };
    let hops = |flow: usize| -> Vec<usize> {
        world.flows[flow].paths().filter_map(|path| world.route(path)).flatten().collect()
    };
    let takes = |hop: usize| (0..world.flows.len()).filter(move |flow| hops(*flow).contains(&hop));
    let same_way = |hop: usize| takes(hop).filter(|other| is_up(*other) == is_up(flow)).count();
    hops(flow).into_iter().map(same_way).filter(|count| *count > 1).min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::{Part, RunRecord};
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

    /// A run in which b gets this share of what a, b and d get.
    fn run(share: f64) -> RunRecord {
        let part = |name: &str, share: f64| {
            let mut part = Part { name: name.to_owned(), ..Part::default() };
            part.set("competing_share", share);
            part
        };
        let alone = Part { name: "c".to_owned(), ..Part::default() };
        let rest = (1.0 - share) / 2.0;
        RunRecord { flows: vec![part("a", rest), part("b", share), alone, part("d", rest)], ..RunRecord::default() }
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
