//! Shares of flows of a link in common.

use super::*;

#[test]
fn a_flow_that_starves_is_not_fair() {
    let starving = "stack = \"tcp\"\ntcp = { receive_window = \"1 B\" }";
    let fairness = fairness_with(&format!("{starving}\ntransfer = {{ download = \"500 kB\" }}"), "");
    assert!((0.5..0.501).contains(&fairness[0]), "{fairness:?}");
    // Its share of what it was to fetch, or whether it ever ends, has nothing to do with it.
    let fairness = fairness_with(&format!("{starving}\ntransfer = {{ download = \"endless\" }}"), "");
    assert!((0.5..0.501).contains(&fairness[0]), "{fairness:?}");
}

/// Fairness between a transfer "f" of 2 MB and another flow on the same path, with keys at the top.
fn fairness_with(other: &str, keys: &str) -> Vec<f64> {
    beside(other, keys).get(Scope::Run, "", "fairness").to_vec()
}

/// A run of a transfer "f" of 2 MB and another flow "g" on the same path, with keys at the top.
fn beside(other: &str, keys: &str) -> RunRecord {
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"5 s\"\n{keys}\n[path.p]\n{HOME}\n[path.q]\n{HOME}\n\
         [[flow]]\nname = \"f\"\npath = \"p\"\ntransfer = {{ download = \"2 MB\" }}\n[[flow]]\nname = \"g\"\npath = \"p\"\n{other}\n"
    );
    let text =
        if other.contains("path = ") { text.replace("name = \"g\"\npath = \"p\"", "name = \"g\"") } else { text };
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
    let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
    SimEngine::default().run(&world, 1, false).record
}

#[test]
fn shares_are_of_what_competitors_received_while_they_competed() {
    let share = |record: &RunRecord, flow: &str| record.get(Scope::Flow, flow, "competing_share").to_vec();
    let even = beside("transfer = { download = \"1 MB\" }", "");
    let (one, other) = (share(&even, "f")[0], share(&even, "g")[0]);
    assert!((one + other - 1.0).abs() < 1e-9 && (0.2..0.8).contains(&one), "{one} {other}");
    // Jain's index of two shares x and 1 - x is 1 / (2 (x² + (1 - x)²)).
    let index = even.get(Scope::Run, "", "fairness")[0];
    assert!((index - 0.5 / (one * one + other * other)).abs() < 1e-9, "{index} {one}");
    let starving =
        beside("stack = \"tcp\"\ntcp = { receive_window = \"1 B\" }\ntransfer = { download = \"endless\" }", "");
    assert!(share(&starving, "g")[0] < 0.01, "{starving:?}");
    let alone = beside("start = \"3 s\"\ntransfer = { download = \"200 kB\" }", "");
    assert!(share(&alone, "f").is_empty() && share(&alone, "g").is_empty());
}

/// A flow alone on its access competes on the trunk with 8, which share their own access, too: each of the 8 has an
/// eighth of the one and a ninth of the other, which is fair. The smallest share of the one is not measured by the
/// number of the other.
#[test]
fn a_share_is_measured_by_the_flows_of_its_own_link() {
    let flows: String = (0..9)
        .map(|flow| {
            let access = if flow == 0 { "p" } else { "q" };
            format!(
                "[[flow]]\nname = \"{flow}\"\nstack = \"tcp\"\npath = \"over-{access}\"\ntransfer = {{ download = \"endless\" }}\n"
            )
        })
        .collect();
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"40 s\"\n[path.p]\n{HOME}\n[path.q]\n{HOME}\n[path.t]\n{HOME}\n\
         [path.over-p]\nhops = [\"p\", \"t\"]\n[path.over-q]\nhops = [\"q\", \"t\"]\n{flows}"
    );
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
    let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
    let record = SimEngine::default().run(&world, 1, false).record;
    let get = |flow: usize, metric: &str| record.get(Scope::Flow, &flow.to_string(), metric).to_vec();
    let shares: Vec<f64> = (0..9).map(|flow| get(flow, "competing_share")[0]).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "the trunk's are the least: {shares:?}");
    for flow in 0..9 {
        let (share, fair) = (shares[flow], get(flow, "competing_share_over_fair")[0]);
        let others: f64 = shares[1..].iter().sum();
        let least = if flow == 0 { 9.0 * share } else { (9.0 * share).min(8.0 * share / others) };
        assert!((fair - least).abs() < 1e-9, "{flow}: {fair} {least}");
    }
    // For 30 round trips, and not for 20.
    let fair = |measured: &str| {
        let record = beside("transfer = { download = \"2 MB\" }", &format!("measure = {measured}"));
        record.get(Scope::Flow, "g", "competing_share_over_fair").len()
    };
    let windows = ["{ from = \"100 ms\", to = \"1 s\" }", "{ from = \"100 ms\", to = \"500 ms\" }"];
    assert_eq!(windows.map(fair), [1, 0], "a round trip takes 20 ms and more");
}

#[test]
fn only_transfers_that_share_a_direction_at_a_time_compete() {
    let transfer = "transfer = { download = \"2 MB\" }";
    assert!(fairness_with(transfer, "")[0] > 0.7);
    for other in [
        "path = \"q\"\ntransfer = { download = \"2 MB\" }",
        "transfer = { upload = \"200 kB\" }",
        "requests = { response = \"20 kB\", count = 10 }",
        "media = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"2 s\" }",
        "start = \"3 s\"\ntransfer = { download = \"200 kB\" }",
    ] {
        assert!(fairness_with(other, "").is_empty(), "{other}");
    }
    // A smaller one that is done sooner is as fair as it was while both were there.
    assert!(fairness_with("transfer = { download = \"1 MB\" }", "")[0] > 0.7);
    // The first second is the one in which the second flow has to catch up.
    let late = "start = \"300 ms\"\ntransfer = { download = \"endless\" }";
    let (all, window) =
        (fairness_with(late, ""), fairness_with(late, "measure = { from = \"100 ms\", to = \"450 ms\" }"));
    assert!(window[0] < all[0], "{window:?} {all:?}");
}

#[test]
fn a_measuring_window_is_all_that_rates_are_taken_from() {
    let text = |keys: &str| {
        format!(
            "title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\n{keys}\n[path.p]\n{HOME}\noutage = {{ at = \"5 s\", for = \"5 s\" }}\n\
             [[flow]]\nname = \"f\"\ntransfer = {{ download = \"endless\" }}\n"
        )
    };
    let run = |keys: &str| {
        let scenario = Scenario::parse("t.toml", &text(keys), Path::new(""), &SimEngine::default().stacks());
        let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
        SimEngine::default().run(&world, 1, false).record
    };
    let figures = |record: &RunRecord| {
        let link = |metric| record.get(Scope::Link, "p.down", metric).to_vec();
        (value(record, "goodput") / 1e6, link("link_use")[0], link("sojourn_max"), value(record, "packets_sent"))
    };
    let (whole, before, dark) = (
        figures(&run("")),
        figures(&run("measure = { from = \"2 s\", to = \"5 s\" }")),
        run("measure = { from = \"5100 ms\", to = \"9900 ms\" }"),
    );
    assert!(before.0 > 18.0 && before.1 > 0.95, "{before:?}");
    assert!(whole.0 < 15.5 && whole.1 < 0.8, "{whole:?}");
    assert_eq!((value(&dark, "goodput"), figures(&dark).3), (0.0, whole.3));
    assert!(dark.get(Scope::Link, "p.down", "link_use")[0] < 0.01);
    // Counts are of the whole run, and so is the event log.
    assert_eq!(run("").wire_hash, dark.wire_hash);
}

#[test]
fn the_use_of_a_link_is_of_the_time_in_which_its_flows_run() {
    let late = run(HOME, "start = \"20 s\"\ntransfer = { download = \"10 MB\" }");
    let used = late.get(Scope::Link, "p.down", "link_use")[0];
    assert!((0.8..=1.0).contains(&used), "{used}");
}

#[test]
fn the_use_of_a_link_counts_every_step_of_its_rate() {
    let path = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\ndown = { rate = \"20 Mbps\", delay = \"10 ms\", changes = [{ at = \"0 s\", rate = \"2 Mbps\" }, { at = \"1 s\", rate = \"20 Mbps\" }] }";
    let record = run(path, "transfer = { download = \"10 MB\" }");
    let used = record.get(Scope::Link, "p.down", "link_use")[0];
    // Of the first rate alone it would be more than the whole, several times.
    assert!((0.2..=1.0).contains(&used), "{used}");
}
