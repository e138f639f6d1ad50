use std::path::Path;

use super::verdict::judge;
use super::*;
use crate::metric;
use crate::record::{Part, RunRecord};
use crate::scenario::Scenario;

const HEAD: &str = r#"
title = "t"
question = "q?"
[path.p]
down = { rate = "10 Mbps", delay = "10 ms" }
up = { rate = "10 Mbps", delay = "10 ms" }
[[flow]]
name = "f"
transfer = { download = "1 MB" }
[vary]
"flow.f.policies.pacing" = ["off", "on"]
"#;

fn scenario(expectations: &str) -> Scenario {
    Scenario::parse(
        "t.toml",
        &format!("{HEAD}{expectations}"),
        Path::new(""),
        &[crate::scenario::StackInfo::new("thalweg")],
    )
    .unwrap()
}

/// A run with these values of the flow; none is a flow that never completed.
fn record(metric: &str, values: Option<&[f64]>) -> RunRecord {
    let mut flow = Part { name: "f".to_owned(), ..Part::default() };
    flow.set("completed", f64::from(u8::from(values.is_some())));
    for value in values.unwrap_or(&[]) {
        flow.set(metric, *value);
    }
    let failed = values.is_none().then(|| "did not finish".to_owned());
    RunRecord { failed, flows: vec![flow], ..RunRecord::default() }
}

/// A run per seed of both points: pacing off, pacing on.
fn runs(metric: &str, pairs: &[(Option<f64>, Option<f64>)]) -> Runs {
    let mut runs = Runs::new();
    for (seed, (off, on)) in pairs.iter().enumerate() {
        for (point, value) in [(0, off), (1, on)] {
            runs.insert((point, seed as u64), &record(metric, value.as_ref().map(std::slice::from_ref)));
        }
    }
    runs
}

fn relative(statistic: &str, bound: &str) -> String {
    format!(
        "[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"{statistic}\"\nrelative_to = {{ pacing = \"off\" }}\n{bound}\n"
    )
}

fn verdict(expectations: &str, runs: &Runs) -> Verdict {
    let mut verdicts = verdicts(&scenario(expectations), runs);
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    verdicts.remove(0)
}

#[test]
fn a_ratio_counts_the_runs_that_never_ended() {
    let bound = relative("completion.p50", "at_most = 1.5");
    let good = [(Some(1.0), Some(1.1)); 4];
    let found = verdict(&bound, &runs("completion", &good));
    assert_eq!(found.outcome, Outcome::Holds);
    assert!(found.found.ends_with("n = 4 pairs, 1 distinct result"), "{}", found.found);
    // Three of four of ours die: the median of the ratios is endless.
    let mut dying = good;
    dying.iter_mut().take(3).for_each(|pair| pair.1 = None);
    let found = verdict(&bound, &runs("completion", &dying));
    assert!(!found.outcome.is_good() && found.value == Some(f64::INFINITY), "{found:?}");
    // What it is compared with dies once: nothing can be said, and it is said why.
    let mut lost = good;
    lost[0].0 = None;
    let found = verdict(&bound, &runs("completion", &lost));
    assert_eq!(found.outcome, Outcome::Unknown);
    assert!(found.found.contains("n = 4 pairs") && found.found.ends_with("on 1 seed"), "{}", found.found);
    // Two pairs are too few, and more would tell.
    assert_eq!(verdict(&bound, &runs("completion", &good[..2])).outcome, Outcome::CannotTell);
    // Differences have no holes either.
    let versus = bound.replace("relative_to", "versus").replace("1.5", "\"1 s\"");
    assert_eq!(verdict(&versus, &runs("completion", &good)).outcome, Outcome::Holds);
    assert!(!verdict(&versus, &runs("completion", &dying)).outcome.is_good());
    assert_eq!(verdict(&versus, &runs("completion", &lost)).outcome, Outcome::Unknown);
}

#[test]
fn what_a_failed_run_has_not_is_as_bad_as_can_be() {
    let mut pairs = [(Some(8e6), Some(8e6)); 5];
    pairs.iter_mut().take(3).for_each(|pair| pair.1 = None);
    let found = verdict(&relative("goodput.p50", "at_least = 0.9"), &runs("goodput", &pairs));
    assert!(!found.outcome.is_good() && found.value == Some(0.0), "{found:?}");
    let found = verdict(&relative("packets_lost.p50", "at_most = 2"), &runs("packets_lost", &pairs));
    assert_eq!(found.value, Some(f64::INFINITY));
    assert!(!found.outcome.is_good());
}

#[test]
fn something_over_nothing_is_endless_and_nothing_over_nothing_is_even() {
    let bound = relative("packets_lost.p50", "at_most = 2");
    let found = verdict(&bound, &runs("packets_lost", &[(Some(0.0), Some(0.0)); 4]));
    assert_eq!((found.outcome, found.value), (Outcome::Holds, Some(1.0)));
    let found = verdict(&bound, &runs("packets_lost", &[(Some(0.0), Some(5.0)); 4]));
    assert_eq!((found.outcome, found.value), (Outcome::Fails, Some(f64::INFINITY)));
    // Something where there was nothing is more, which is what a lower bound asks for.
    let least = relative("packets_lost.p50", "at_least = 2");
    assert_eq!(verdict(&least, &runs("packets_lost", &[(Some(0.0), Some(5.0)); 4])).outcome, Outcome::Holds);
}

#[test]
fn a_ratio_is_summed_up_as_its_name_says() {
    let pairs: Vec<_> = (1..=9).map(|seed| (Some(10.0), Some(10.0 * f64::from(seed)))).collect();
    for (statistic, value) in [("p50", 5.0), ("max", 9.0), ("min", 1.0), ("mean", 5.0), ("p75", 7.0)] {
        let bound = relative(&format!("completion.{statistic}"), "at_most = 100");
        assert_eq!(verdict(&bound, &runs("completion", &pairs)).value, Some(value), "{statistic}");
    }
    // Where a run has many values the statistic is that of each run, and the median that of the runs.
    let mut many = Runs::new();
    for seed in 0..3 {
        many.insert((0, seed), &record("response", Some(&[1.0, 2.0, 10.0])));
        many.insert((1, seed), &record("response", Some(&[1.0, 2.0, 20.0])));
    }
    assert_eq!(verdict(&relative("response.max", "at_most = 100"), &many).value, Some(2.0));
    assert_eq!(verdict(&relative("response.p50", "at_most = 100"), &many).value, Some(1.0));
}

#[test]
fn a_point_is_never_held_against_itself() {
    let everywhere = relative("completion.p50", "at_most = 1").replace("where = { pacing = \"on\" }\n", "");
    let verdicts = verdicts(&scenario(&everywhere), &runs("completion", &[(Some(1.0), Some(1.0)); 4]));
    assert_eq!(verdicts.iter().map(|verdict| verdict.point).collect::<Vec<_>>(), [1]);
    // Without a point to compare with there is nothing to judge.
    let scenario = scenario(&everywhere);
    let found = judge(&scenario, &Runs::new(), &scenario.expectations[0], (1, Some(None)), "f".to_owned());
    assert_eq!(found.outcome, Outcome::Unknown);
    assert!(found.found.contains("no point to compare with"), "{}", found.found);
}

#[test]
fn of_several_points_the_nearest_is_compared_with() {
    // With and without marks there is a point with pacing off; a point with marks is held against that with marks.
    let axes = r#"
[[vary.together]]
"flow.f.transport.ecn" = [false, true, true]
"flow.f.policies.pacing" = ["off", "off", "on"]
"#;
    let head = HEAD.split("[vary]").next().unwrap_or_default();
    let text = format!("{head}{axes}{}", relative("completion.p50", "at_least = 0"));
    let stacks = [crate::scenario::StackInfo::new("thalweg")];
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &stacks).unwrap();
    assert_eq!(verdict::sibling(&scenario, 2, &[("pacing".to_owned(), "off".to_owned())]), Some(1));
}

#[test]
fn silence_that_never_ends_is_no_short_silence() {
    let bound = "[[expect]]\nwhere = { pacing = \"on\" }\nmetric = \"silence_after_repair.p50\"\nat_most = \"1 s\"\n";
    let mut runs = runs("silence_after_repair", &[(Some(0.5), Some(0.5)); 5]);
    assert_eq!(verdict(bound, &runs).outcome, Outcome::Holds);
    for seed in 0..3 {
        let mut dead = record("silence_after_repair", None);
        dead.flows[0].never("silence_after_repair");
        runs.insert((1, seed), &dead);
    }
    let found = verdict(bound, &runs);
    assert_eq!(found.value, Some(f64::INFINITY));
    assert!(!found.outcome.is_good() && found.found.starts_with("never"), "{found:?}");
    // A run that died without any interruption has no silence, long or short.
    assert!(
        values(
            &super::Runs::from([((1, 0), record("x", None))]),
            1,
            "f",
            metric::find("silence_after_repair").unwrap()
        )[0]
        .1
        .is_empty()
    );
    // One of which nothing is known is taken for one of the others.
    runs.insert((1, 4), &RunRecord::failure("panic".to_owned()));
    let silence = metric::find("silence_after_repair").unwrap();
    assert_eq!(values(&runs, 1, "f", silence)[4].1, [f64::INFINITY]);
}

fn many(seed: u64, point: usize, runs: &mut Runs, values: &[f64]) {
    runs.insert((point, seed), &record("frame_delay", Some(values)));
}

#[test]
fn a_difference_of_percentiles_within_runs_is_of_percentiles_within_runs() {
    // Without pacing one frame of ten is late by 100 ms; with it every frame is later by 10 ms.
    let mut runs = Runs::new();
    for seed in 0..12 {
        let by = seed as f64 * 1e-3;
        let of =
            |base: f64, late: f64| (0..100).map(|at| base + by + if at < 10 { late } else { 0.0 }).collect::<Vec<_>>();
        many(seed, 0, &mut runs, &of(0.050, 0.100));
        many(seed, 1, &mut runs, &of(0.060, 0.000));
    }
    let versus = relative("frame_delay.p99", "at_most = \"0 ms\"").replace("relative_to", "versus");
    let found = verdict(&versus, &runs);
    assert!((found.value.unwrap() + 0.090).abs() < 1e-9, "{found:?}");
    assert_eq!((found.outcome, found.runs), (Outcome::Holds, 12));
    assert_eq!(found.measured, "frame_delay.p99 less that of pacing = off, median of runs");
    // The ratio and the bound are of the same thing.
    let found = verdict(&relative("frame_delay.p99", "at_most = 1"), &runs);
    assert!((found.value.unwrap() - 0.0655 / 0.1555).abs() < 1e-2, "{found:?}");
    let bound = "[[expect]]\nwhere = { pacing = \"off\" }\nmetric = \"frame_delay.p99\"\nat_most = \"200 ms\"\n";
    let found = verdict(bound, &runs);
    assert!((found.value.unwrap() - 0.1555).abs() < 1e-9, "{found:?}");
    // Of twelve runs, not of 1,200 frames: from the third smallest to the third largest.
    let interval = found.interval.unwrap();
    assert!((interval.low - 0.152).abs() < 1e-9 && (interval.high - 0.159).abs() < 1e-9, "{interval:?}");
}

#[test]
fn one_late_run_moves_no_percentile_of_all_but_the_largest() {
    let mut runs = Runs::new();
    for seed in 0..30 {
        let late = if seed == 7 { 9.0 } else { 0.0 };
        let values: Vec<f64> = (0..50).map(|at| 0.1 + (at * (seed + 1)) as f64 * 1e-3 + late).collect();
        many(seed, 1, &mut runs, &values);
    }
    let bound = |statistic: &str, least: &str| {
        format!(
            "[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"frame_delay.{statistic}\"\nat_least = \"{least}\"\n"
        )
    };
    // Thrown together, one run of thirty is all of the highest percentile.
    assert!(verdict(&bound("p99", "1 s"), &runs).value.unwrap() < 1.0);
    assert!(verdict(&bound("max", "1 s"), &runs).value.unwrap() > 9.0);
}

#[test]
fn points_are_summed_up_alike_whether_or_not_their_runs_repeat() {
    // Only without pacing a run has more than one stall; the percentile is within runs at both points.
    let mut runs = Runs::new();
    for seed in 0..20 {
        let length = 1.0 + seed as f64;
        runs.insert((0, seed), &record("stall", Some(&[length, length])));
        runs.insert((1, seed), &record("stall", Some(&[length])));
    }
    let bound = "[[expect]]\nmetric = \"stall.p95\"\nat_most = \"1 s\"\n";
    let found = verdicts(&scenario(bound), &runs);
    assert_eq!(found.iter().map(|verdict| verdict.value).collect::<Vec<_>>(), [Some(10.5), Some(10.5)]);
}

#[test]
fn shares_of_runs_are_judged_with_their_interval() {
    let success = |failed: usize, all: usize, bound: &str| {
        let text = format!("[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"completed\"\n{bound}\n");
        let pairs: Vec<_> = (0..all).map(|seed| (None, (seed >= failed).then_some(1.0))).collect();
        verdict(&text, &runs("completion", &pairs))
    };
    for (failed, all, bound, outcome) in [
        // All of the runs that were made.
        (0, 30, "equals = 1", Outcome::Holds),
        // 30 of 30: at least 88.65 % with 95 % confidence.
        (0, 30, "at_least = 0.88", Outcome::Holds),
        (0, 30, "at_least = 0.9", Outcome::HoldsBarely),
        // 28 of 30: between 78.7 and 98.2 %.
        (2, 30, "at_least = 0.75", Outcome::Holds),
        (2, 30, "at_least = 0.9", Outcome::HoldsBarely),
        (2, 30, "at_least = 0.95", Outcome::CannotTell),
        (2, 30, "at_least = 0.99", Outcome::Fails),
        // That one run fails is enough to know that not all succeed.
        (1, 30, "equals = 1", Outcome::Fails),
        (1, 1_000, "equals = 1", Outcome::Fails),
    ] {
        let found = success(failed, all, bound);
        assert_eq!(found.outcome, outcome, "{failed} of {all}, {bound}: {found:?}");
        assert_eq!(found.outcome.is_good(), !matches!(outcome, Outcome::CannotTell | Outcome::Fails));
    }
    assert!(success(0, 30, "equals = 1").found.starts_with("100 % [88.65 %, 100 %], n = 30"));
}

#[test]
fn what_cannot_be_estimated_is_told_from_what_is_certain() {
    let mean = |values: &[f64], bound: &str| {
        let text = format!("[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"ptos.mean\"\n{bound}\n");
        let pairs: Vec<_> = values.iter().map(|value| (None, Some(*value))).collect();
        verdict(&text, &runs("ptos", &pairs))
    };
    let few = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let found = mean(&few, "at_most = 6");
    assert_eq!((found.outcome, found.settled_by), (Outcome::HoldsSoFar, Some(10)));
    let words = "n = 9; an interval cannot be estimated from 9 runs; 10 seeds give one";
    assert!(found.found.ends_with(words), "{}", found.found);
    assert_eq!(mean(&few, "at_most = 4").outcome, Outcome::CannotTell);
    // One run of thirty has all of it.
    let mut one = [0.0; 30];
    one[3] = 60.0;
    let found = mean(&one, "at_most = 3");
    assert_eq!((found.outcome, found.settled_by), (Outcome::HoldsSoFar, None));
    assert!(found.found.contains("one value carries the spread"), "{}", found.found);
    // No probe in thirty runs is one result.
    let found = mean(&[0.0; 30], "at_most = 0");
    assert_eq!(
        (found.outcome, found.distinct, found.found.as_str()),
        (Outcome::Holds, 1, "0, n = 30, 1 distinct result")
    );
    assert_eq!(mean(&[2.0; 30], "at_most = 1").outcome, Outcome::Fails);
}

#[test]
fn an_open_end_reaches_beyond_every_bound() {
    let p95 = |bound: &str| {
        let text = format!("[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"completion.p95\"\n{bound}\n");
        let pairs: Vec<_> = (1..=30).map(|seed| (None, Some(f64::from(seed)))).collect();
        verdict(&text, &runs("completion", &pairs))
    };
    let found = p95("at_most = \"40 s\"");
    assert_eq!((found.outcome, found.settled_by), (Outcome::HoldsBarely, Some(59)));
    assert!(found.found.contains("28.55 s [26 s, open], n = 30"), "{}", found.found);
    assert_eq!(p95("at_least = \"20 s\"").outcome, Outcome::Holds);
    assert_eq!(p95("at_most = \"28 s\"").outcome, Outcome::CannotTell);
    assert_eq!(p95("at_most = \"25 s\"").outcome, Outcome::Fails);
}

#[test]
fn seeds_that_change_less_than_hosts_do_are_one_observation() {
    // 10 Mbps: two packet times are 2.4 ms, so that a host adds at most a millisecond.
    let bound = "[[expect]]\nwhere = { pacing = \"on\" }\nmetric = \"completion.p50\"\nat_most = \"5 s\"\n";
    let within = |step: f64| {
        let pairs: Vec<_> = (0..30).map(|seed| (None, Some(4.8 + step * f64::from(seed)))).collect();
        verdict(bound, &runs("completion", &pairs))
    };
    let alike = within(30e-6);
    assert_eq!((alike.distinct, alike.interval, alike.outcome), (1, None, Outcome::Holds));
    assert!(alike.found.ends_with("n = 30, 1 distinct result"), "{}", alike.found);
    let apart = within(2e-3);
    assert!(apart.distinct == 30 && apart.interval.is_some() && apart.found.ends_with("n = 30"), "{apart:?}");
    // At 1 Gbps a host adds 24 µs at most.
    let fast = scenario("").text.replace("10 Mbps", "1 Gbps");
    let fast = Scenario::parse("t.toml", &fast, Path::new(""), &[crate::scenario::StackInfo::new("thalweg")]).unwrap();
    assert!((resolution(&fast.points[0].world) - 24e-6).abs() < 1e-12);
    // What is made of a time is as close as the time.
    let mut goodputs = Runs::new();
    for seed in 0..30 {
        let completion = 4.8 + 30e-6 * seed as f64;
        let mut one = record("completion", Some(&[completion]));
        one.flows[0].set("goodput", 8e6 / completion);
        goodputs.insert((1, seed), &one);
    }
    let rows = rows(&scenario(""), &goodputs, Scope::Flow);
    let cell = |name: &str| rows[0].cells.iter().find(|cell| cell.metric == name).unwrap();
    assert_eq!((cell("completion").distinct, cell("goodput").distinct), (1, 1));
}

#[test]
fn what_is_known_to_fall_short_fails_nothing_and_excuses_nothing() {
    let known = |bound: &str| {
        let text = format!("[[known]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"completion.p50\"\n{bound}\n");
        let pairs: Vec<_> = (1..=9).map(|seed| (Some(1.0), Some(f64::from(seed)))).collect();
        verdict(&text, &runs("completion", &pairs))
    };
    for (bound, outcome, word) in [
        ("at_most = \"1 s\"", Outcome::FallsShort, "known: falls short"),
        ("at_most = \"4 s\"", Outcome::FallsShort, "known: falls short"),
        ("at_most = \"6 s\"", Outcome::BeatenBarely, "beaten, barely"),
        ("at_most = \"9 s\"", Outcome::Beaten, "beaten"),
    ] {
        let found = known(bound);
        assert_eq!((found.outcome, found.outcome.word(), found.known), (outcome, word, true), "{bound}");
        assert!(found.outcome.is_good());
        let tally = Tally::of(&[found]);
        assert_eq!((tally.expected, tally.falls_short + tally.beaten), (0, 1));
    }
}

#[test]
fn many_intervals_are_not_all_right() {
    assert_eq!(many_intervals(19), None);
    let said = many_intervals(200).unwrap();
    assert!(said.contains("200 intervals") && said.contains("up to 10 "), "{said}");
}

#[test]
fn tables_have_high_percentiles_beside_the_median() {
    let pairs: Vec<_> = (1..=100).map(|seed| (Some(f64::from(seed)), None)).collect();
    let rows = rows(&scenario(""), &runs("completion", &pairs), Scope::Flow);
    let cell = rows[0].cells.iter().find(|cell| cell.metric == "completion").unwrap();
    let (p95, p99) = (cell.p95.unwrap(), cell.p99.unwrap());
    assert!((cell.estimate - 50.5).abs() < 1e-9 && (p95.estimate - 95.05).abs() < 1e-9, "{cell:?}");
    assert!((p99.estimate - 99.01).abs() < 1e-9 && p95.interval.unwrap().high == 100.0, "{cell:?}");
    assert_eq!(p99.interval.unwrap().high, f64::INFINITY);
    let completed = rows[0].cells.iter().find(|cell| cell.metric == "completed").unwrap();
    assert_eq!(completed.p95, None);
}

/// A run whose flow failed and has these values all the same.
fn failed_with(metric: &str, value: f64) -> RunRecord {
    let mut record = record(metric, None);
    record.flows[0].set(metric, value);
    record
}

#[test]
fn a_failed_base_is_no_measure() {
    // Three of five runs of the base fail, so that their goodput is 0.
    let mut pairs = [(Some(8e6), Some(8e6)); 5];
    pairs.iter_mut().take(3).for_each(|pair| pair.0 = None);
    let bound = relative("goodput.p50", "at_least = 0.95");
    let found = verdict(&bound, &runs("goodput", &pairs));
    assert_eq!(found.outcome, Outcome::Unknown, "{found:?}");
    assert!(found.found.contains("failed on 3 seeds"), "{}", found.found);
    let versus = bound.replace("relative_to", "versus").replace("0.95", "\"1 Mbps\"");
    assert_eq!(verdict(&versus, &runs("goodput", &pairs)).outcome, Outcome::Unknown);
    // A measured zero is no measure either, though nothing failed.
    let found = verdict(&bound, &runs("goodput", &[(Some(0.0), Some(8e6)); 5]));
    assert_eq!(found.outcome, Outcome::Unknown, "{found:?}");
    assert!(found.found.contains("is 0 on 5 seeds"), "{}", found.found);
    // What a failed run measured is what it is: goodput within a window, and counts.
    for (metric, bound) in [("goodput", "at_least = 0.95"), ("connections_lost", "at_most = 1")] {
        let mut measured = runs(metric, &[(Some(4.0), Some(4.0)); 5]);
        (0..3).for_each(|seed| measured.insert((0, seed), &failed_with(metric, 4.0)));
        let found = verdict(&relative(&format!("{metric}.p50"), bound), &measured);
        assert_eq!((found.outcome, found.value), (Outcome::Holds, Some(1.0)), "{metric}: {found:?}");
    }
}

#[test]
fn success_that_seeds_cannot_change_is_one_result() {
    let text = "[[expect]]\nwhere = { pacing = \"on\" }\nmetric = \"completed\"\nequals = 1\n";
    let judged = |hash: &dyn Fn(u64) -> String| {
        let one = |seed| RunRecord { wire_hash: hash(seed), ..record("completion", Some(&[1.0])) };
        let runs = (0..30).map(|seed| ((1, seed), one(seed))).collect();
        verdict(text, &runs)
    };
    let alike = judged(&|_| "same".to_owned());
    assert_eq!((alike.outcome, alike.interval, alike.distinct), (Outcome::Holds, None, 1));
    assert!(alike.found.ends_with("n = 30, 1 distinct result"), "{}", alike.found);
    let apart = judged(&|seed| format!("{seed}"));
    assert_eq!((apart.outcome, apart.distinct), (Outcome::Holds, 30));
}

#[test]
fn a_verdict_at_its_bound_says_how_many_seeds_would_settle_it() {
    let median = |bound: &str| {
        let text = format!("[[expect]]\nwhere = {{ pacing = \"on\" }}\nmetric = \"completion.p50\"\n{bound}\n");
        let pairs: Vec<_> = (1..=30).map(|seed| (None, Some(f64::from(seed)))).collect();
        verdict(&text, &runs("completion", &pairs))
    };
    // 15.5 s [10 s, 21 s]: twice as near to the bound takes four times as many.
    for (bound, outcome, seeds) in [
        ("at_most = \"22 s\"", Outcome::Holds, None),
        ("at_most = \"20 s\"", Outcome::HoldsBarely, Some(45)),
        ("at_most = \"17 s\"", Outcome::HoldsBarely, Some(410)),
        ("at_most = \"15.5 s\"", Outcome::HoldsBarely, None),
        ("at_most = \"13 s\"", Outcome::CannotTell, Some(150)),
        ("at_most = \"9 s\"", Outcome::Fails, None),
    ] {
        let found = median(bound);
        assert_eq!((found.outcome, found.settled_by), (outcome, seeds), "{bound}: {}", found.found);
        let tally = Tally::of(std::slice::from_ref(&found));
        match outcome {
            Outcome::HoldsBarely => assert!(tally.doubts().unwrap().starts_with("1 barely"), "{tally:?}"),
            _ => assert_eq!(tally.doubts(), None),
        }
        assert_eq!(found.found.contains("seeds would settle it"), seeds.is_some(), "{}", found.found);
    }
    assert!(median("at_most = \"15.5 s\"").found.ends_with("; at the bound, which no number of seeds settles"));
}

#[test]
fn results_are_as_close_with_host_delays_as_without() {
    let parse = |text: &str| {
        Scenario::parse("t.toml", text, Path::new(""), &[crate::scenario::StackInfo::new("thalweg")]).unwrap()
    };
    let still = parse(&scenario("").text.replace("[path.p]", "host_delay = false\n[path.p]"));
    assert_eq!(resolution(&still.points[0].world), 1e-3);
    // A path that no flow takes says nothing about those that are taken.
    let fast = scenario("").text.replace("10 Mbps", "1 Gbps").replace("[[flow]]", "[[flow]]\npath = \"p\"");
    let slow =
        "[path.slow]\ndown = { rate = \"1 Mbps\", delay = \"10 ms\" }\nup = { rate = \"1 Mbps\", delay = \"10 ms\" }\n";
    let both = parse(&fast.replace("[path.p]", &format!("{slow}[path.p]")));
    assert!((resolution(&both.points[0].world) - 24e-6).abs() < 1e-12);
}

#[test]
fn shares_of_time_are_as_close_as_times() {
    let mut runs = Runs::new();
    for seed in 0..30 {
        let completion = 4.8 + 30e-6 * seed as f64;
        let mut one = record("completion", Some(&[completion]));
        one.flows[0].set("auc_delivered", 4.0 / completion);
        one.flows[0].set("limited_by_window", (completion - 4.0) / completion);
        one.flows[0].set("loss_rate", seed as f64 * 1e-6);
        let mut link = Part { name: "p.down".to_owned(), ..Part::default() };
        link.set("link_use", 4.0 / completion);
        one.links.push(link);
        one.values.insert("virtual_time".to_owned(), vec![completion]);
        runs.insert((1, seed), &one);
    }
    let distinct = |scope: Scope, name: &str| {
        let rows = rows(&scenario(""), &runs, scope);
        rows.iter().flat_map(|row| &row.cells).find(|cell| cell.metric == name).unwrap().distinct
    };
    assert_eq!(distinct(Scope::Flow, "auc_delivered"), 1);
    assert_eq!(distinct(Scope::Flow, "limited_by_window"), 1);
    assert_eq!(distinct(Scope::Link, "link_use"), 1);
    assert_eq!(distinct(Scope::Flow, "loss_rate"), 30);
}

#[test]
fn runs_that_come_later_are_looked_at_too() {
    let mut runs = Runs::new();
    let stall = metric::find("stall").unwrap();
    runs.insert((0, 0), &record("stall", Some(&[1.0])));
    assert!(!runs.is_repeated("f", stall));
    runs.insert((1, 0), &record("stall", Some(&[1.0, 2.0])));
    assert!(runs.is_repeated("f", stall) && !runs.is_repeated("g", stall));
}
