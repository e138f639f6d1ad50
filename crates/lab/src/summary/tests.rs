use std::path::Path;

use super::*;
use crate::record::Part;
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
    Scenario::parse("t.toml", &format!("{HEAD}{expectations}"), Path::new(""), &["thalweg".to_owned()]).unwrap()
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
            runs.insert((point, seed as u64), record(metric, value.as_ref().map(std::slice::from_ref)));
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
    assert!(found.found.ends_with("n = 4 pairs"), "{}", found.found);
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
    assert!(found.found.contains("n = 3 of 4 pairs") && found.found.contains("on 1 seeds"), "{}", found.found);
    // Two pairs are too few.
    assert_eq!(verdict(&bound, &runs("completion", &good[..2])).outcome, Outcome::Unknown);
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
        many.insert((0, seed), record("response", Some(&[1.0, 2.0, 10.0])));
        many.insert((1, seed), record("response", Some(&[1.0, 2.0, 20.0])));
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
fn silence_that_never_ends_is_no_short_silence() {
    let bound = "[[expect]]\nwhere = { pacing = \"on\" }\nmetric = \"silence_after_repair.p50\"\nat_most = \"1 s\"\n";
    let mut runs = runs("silence_after_repair", &[(Some(0.5), Some(0.5)); 5]);
    assert_eq!(verdict(bound, &runs).outcome, Outcome::Holds);
    for seed in 0..3 {
        let mut dead = record("silence_after_repair", None);
        dead.flows[0].never("silence_after_repair");
        runs.insert((1, seed), dead);
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
    runs.insert((1, 4), RunRecord::failure("panic".to_owned()));
    let silence = metric::find("silence_after_repair").unwrap();
    assert_eq!(values(&runs, 1, "f", silence)[4].1, [f64::INFINITY]);
}

#[test]
fn only_the_failures_that_are_spoken_of_are_excused() {
    let runs = runs("completion", &[(None, None), (None, Some(1.0)), (Some(1.0), Some(1.0))]);
    let success = |place: &str| format!("[[expect]]\n{place}metric = \"success\"\nat_least = 0.1\n");
    let off = success("where = { pacing = \"off\" }\n");
    assert_eq!(unexpected_failures(&scenario(""), &runs), (3, 0));
    assert_eq!(unexpected_failures(&scenario(&off), &runs), (1, 0));
    assert_eq!(unexpected_failures(&scenario(&success("")), &runs), (0, 0));
    assert_eq!(unexpected_failures(&scenario(&off.replace("success", "completed")), &runs), (1, 0));
}
