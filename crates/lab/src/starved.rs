//! Starved flows, which got hardly anything of a link that they shared: medians over runs hide what happens to one in a
//! hundred of them.

use serde::Serialize;

use crate::metric::Scope;
use crate::runner::replay;
use crate::scenario::Scenario;
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
    /// Looks for them by `competing_share_over_fair`, which only flows have that share a link for long enough to have
    /// come to their shares. None if there are none.
    pub fn of(scenario: &Scenario, runs: &Runs) -> Option<Starved> {
        let (mut starving, mut sharing) = (0, 0);
        let mut least: Option<(f64, usize, u64, &str)> = None;
        for (number, point) in scenario.points.iter().enumerate() {
            for (seed, run) in runs.of_point(number) {
                let shares = point.world.flows.iter().filter_map(|flow| {
                    let share = run.get(Scope::Flow, &flow.name, "competing_share_over_fair").first()?;
                    Some((*share, number, seed, flow.name.as_str()))
                });
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

    /// A run in which b gets so much of its fair share.
    fn run(share: f64) -> RunRecord {
        let part = |name: &str, share: Option<f64>| {
            let mut part = Part { name: name.to_owned(), ..Part::default() };
            share.into_iter().for_each(|share| part.set("competing_share_over_fair", share));
            part
        };
        let rest = Some((3.0 - share) / 2.0);
        let flows = vec![part("a", rest), part("b", Some(share)), part("c", None), part("d", rest)];
        RunRecord { flows, ..RunRecord::default() }
    }

    #[test]
    fn the_flow_that_got_least_is_named_with_its_run() {
        let scenario = Scenario::parse("t.toml", TEXT, Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        let of = |shares: &[f64]| {
            let runs = (1..).zip(shares).map(|(seed, share)| ((1, seed), run(*share))).collect();
            Starved::of(&scenario, &runs)
        };
        assert_eq!(of(&[0.9, 1.2, 0.05]), None, "a twentieth is not less than that");
        assert_eq!(of(&[]), None);
        let starved = of(&[0.9, 0.03, 0.006, 0.9]).unwrap();
        assert_eq!((starved.runs, starved.of, starved.flow.as_str()), (2, 4, "b"));
        assert_eq!(
            starved.to_string(),
            "in 2 of 4 runs a flow got less than 5 % of its fair share of a link: b got least, 0.6 % at rate = 20 Mbps"
        );
        assert_eq!(starved.replay, "thalweg lab run t.toml --point 1 --seed 3");
    }
}
