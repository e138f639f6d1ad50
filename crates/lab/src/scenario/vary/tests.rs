use std::path::Path;

use super::super::tests::{SATELLITE, complains, complaint, parse, with};
use super::super::world::*;
use super::super::{Scenario, StackInfo};
use thalweg_link::{DirectionConfig, LossModel, RateModel};
use thalweg_sim::{Accepts, Schema, Setting, SettingValue};
use thalweg_units::Duration;

#[test]
fn what_is_varied_has_to_make_sense() {
    let vary = "\"flow.0.policies.start\" = [\"standard\", \"hystart++\"]";
    let replaced = |line: &str| SATELLITE.replace(vary, line).replace("where = { start = \"hystart++\" }\n", "");
    complains(&replaced("\"flow.0.policies.start\" = []"), "= []", "vary.flow.0.policies.start", &["empty list"]);
    complains(
        &replaced("\"flow.0.policies.start\" = \"standard\""),
        "start",
        "vary.flow.0.policies.start",
        &["not a list"],
    );
    complains(
        &replaced("\"flow.1.policies.start\" = [\"standard\"]"),
        "flow.1",
        "vary.\"flow.1.policies.start\"",
        &["no \"1\""],
    );
    complains(&replaced("title = [\"a\", \"b\"]"), "title", "vary.title", &["cannot be varied"]);
    complains(
        &replaced("\"path.sta.up.queue\" = [\"1 BDP\"]"),
        "path.sta",
        "vary.\"path.sta.up.queue\"",
        &["no path \"sta\"", "did you mean \"sat\"?"],
    );
    complains(
        &replaced("\"flow.0.policies.start\" = [\"standard\", \"standard\"]"),
        "standard",
        "vary.flow.0.policies.start.1",
        &["twice"],
    );
    complains(
        &replaced("\"flow.0.policies.start\" = [\"standard\", \"histart++\"]"),
        "histart",
        "flow.0.policies.start",
        &["cannot be \"histart++\""],
    );
}

#[test]
fn two_points_that_are_the_same_world_are_refused() {
    let text = with("[vary]", "\"path.sat.up.delay\" = [\"300 ms\", \"0.3 s\"]");
    let found = parse(&text).unwrap_err();
    assert!(found.to_string().contains("describe the same world"), "{found}");
}

#[test]
fn ten_million_points_are_refused_before_they_are_made() {
    let list = format!("[{}]", (0..200).map(|ms| format!("\"{} ms\"", ms + 1)).collect::<Vec<_>>().join(", "));
    let lines: Vec<String> = ["path.sat.up.delay", "path.sat.down.delay", "flow.0.start"]
        .iter()
        .map(|key| format!("\"{key}\" = {list}"))
        .collect();
    let found = complaint(&with("[vary]", &lines.join("\n")));
    assert!(found.message.contains("at most 100000 are accepted"), "{found}");
}

/// The only way up and down of a scenario, at each point.
fn directions(scenario: &Scenario) -> Vec<(DirectionConfig, DirectionConfig)> {
    scenario.points.iter().map(|point| (point.world.paths[0].down.clone(), point.world.paths[0].up.clone())).collect()
}

fn names(scenario: &Scenario) -> Vec<String> {
    scenario.points.iter().map(|point| point.name(&scenario.axes)).collect()
}

const ONE: &str = r#"
title = "t"
question = "q?"
[path.p]
down = { rate = "10 Mbps", delay = "30 ms", queue = "1 BDP", loss = { random = 0.01 } }
up = { rate = "1 Mbps", delay = "30 ms" }
[[flow]]
name = "f"
transfer = { download = "1 MB" }
policies = { controller = "new-reno", start = "standard" }
transport = { max_ack_delay = "5 ms", ecn = false }
[vary]
"#;

fn one(vary: &str) -> Scenario {
    parse(&format!("{ONE}{vary}\n")).unwrap_or_else(|error| panic!("{vary}: {error}"))
}

#[test]
fn a_table_changes_only_the_keys_it_names() {
    let scenario = one(r#""path.p.down" = [{ rate = "20 Mbps" }, { rate = "100 Mbps", queue = "2 BDP" }]"#);
    let base = one("").points[0].world.paths[0].clone();
    let expected = [("20 Mbps", "1 BDP"), ("100 Mbps", "2 BDP")].map(|(rate, queue)| DirectionConfig {
        rate: RateModel::Constant(rate.parse().unwrap()),
        queue: queue.parse().unwrap(),
        ..base.down.clone()
    });
    assert_eq!(directions(&scenario), expected.map(|down| (down, base.up.clone())));
    assert_eq!(names(&scenario), ["down = rate 20 Mbps", "down = rate 100 Mbps, queue 2 BDP"]);

    // So does one inside a table, and one that is laid over every flow.
    let inside = one(r#""path.p" = [{ label = "far", up = { delay = "300 ms" } }]"#);
    let far = DirectionConfig { delay: Duration::from_millis(300).into(), ..base.up.clone() };
    assert_eq!(directions(&inside), [(base.down.clone(), far)]);
    let flows = one(r#""flow.*" = [{ transport = { ecn = true } }, { policies = { start = "hystart++" } }]"#);
    let [first, second] = [0, 1].map(|at| flows.points[at].world.flows[0].clone());
    assert_eq!((first.client.ecn, first.client.max_ack_delay), (true, Duration::from_millis(5)));
    let base = one("").points[0].world.flows[0].clone();
    assert_eq!((first.policies(), &first.traffic), (base.policies(), &base.traffic));
    assert!(second.policies().to_string().contains("controller=new-reno"), "{}", second.policies());
    assert!(second.policies().to_string().contains("start=hystart++"), "{}", second.policies());
    assert_eq!((second.client.ecn, second.client.max_ack_delay), (base.client.ecn, base.client.max_ack_delay));

    // An empty table is the scenario as it is.
    let policies = one(r#""flow.f.policies" = [{ label = "as it is" }, { pacing = "off" }]"#);
    assert_eq!(policies.points[0].world.flows[0], base);
    assert_eq!(names(&policies), ["policies = as it is", "policies = pacing off"]);
}

#[test]
fn what_describes_one_thing_is_replaced_as_a_whole() {
    let loss =
        one(r#""path.p.down.loss" = [{ random = 0.02 }, { burst = { enter = 0.01, leave = 0.4, bad = 0.9 } }, "3 %"]"#);
    let kinds: Vec<usize> = loss.points.iter().map(|point| point.world.paths[0].down.loss.len()).collect();
    assert_eq!(kinds, [1, 1, 1]);
    assert!(matches!(loss.points[1].world.paths[0].down.loss[0], LossModel::GilbertElliott { .. }));
    let down = one(r#""path.p.down" = [{ loss = { every = 100 } }]"#);
    assert_eq!(down.points[0].world.paths[0].down.loss, [LossModel::Periodic { every: 100, first: 99, burst: 1 }]);
    // A key takes the place of one that it excludes: a flow has one kind of traffic, a direction a rate or a trace.
    let traffic =
        one(r#""flow.f" = [{ transfer = { upload = "1 MB" } }, { requests = { response = "20 kB", count = 5 } }]"#);
    let traffic: Vec<&Traffic> = traffic.points.iter().map(|point| &point.world.flows[0].traffic).collect();
    assert_eq!(*traffic[0], Traffic::upload(Some(1_000_000)));
    assert!(matches!(traffic[..], [_, Traffic::Requests(_)]), "{traffic:?}");
    let trace = one(r#""path.p.down" = [{ trace = "lte", queue = "200 ms" }, { rate = "5 Mbps" }]"#);
    let rates: Vec<_> =
        directions(&trace).into_iter().map(|(down, _)| (down.rate.nominal(), down.trace.is_some())).collect();
    assert!(rates[0].1 && rates[1] == ("5 Mbps".parse().unwrap(), false), "{rates:?}");
}

#[test]
fn the_hops_of_a_chain_and_the_other_keys_of_a_path_exclude_each_other() {
    let link = "{ rate = \"1 Mbps\", delay = \"30 ms\" }";
    let text = ONE.replace("[[flow]]", &format!("[path.q]\nup = {link}\ndown = {link}\n[[flow]]\npath = \"p\""));
    let vary = "\"path.p\" = [{ hops = [\"q\"] }, { up = { delay = \"5 ms\" } }]\n";
    let scenario = parse(&format!("{text}{vary}")).unwrap_or_else(|error| panic!("{error}"));
    let names = |at: usize| scenario.points[at].world.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>();
    assert_eq!([names(0), names(1)], [vec!["q"], vec!["p", "q"]]);
    assert_eq!(scenario.points[0].world.route("p"), Some(vec![0]));
    let chain =
        text.replace("[[flow]]", "[path.r]\nhops = [\"p\", \"q\"]\n[[flow]]").replace("path = \"p\"", "path = \"r\"");
    let vary =
        format!("\"path.r\" = [{{ hops = [\"q\"] }}, {{ up = {link}, down = {link} }}, {{ label = \"as it is\" }}]\n");
    let scenario = parse(&format!("{chain}{vary}")).unwrap_or_else(|error| panic!("{error}"));
    let routes: Vec<_> = scenario.points.iter().map(|point| point.world.route("r")).collect();
    assert_eq!(routes, [Some(vec![1]), Some(vec![2]), Some(vec![0, 1])]);
}

#[test]
fn the_settings_of_any_stack_are_merged() {
    const SETTINGS: &[Setting] = &[
        Setting { name: "pace", accepts: &[Accepts::Boolean] },
        Setting { name: "burst", accepts: &[Accepts::Count(1..=9)] },
    ];
    static SCHEMA: Schema = Schema { table: "own", example: "{ pace = true }", settings: SETTINGS };
    let stacks = [StackInfo::new("thalweg"), StackInfo { schema: Some(&SCHEMA), ..StackInfo::new("other") }];
    let flow = "stack = \"other\"\nown = { pace = true, burst = 2 }\n[vary]\n\"flow.f\" = [{ own = { burst = 3 } }]";
    let lines = ONE.lines().filter(|line| !line.starts_with("policies") && *line != "[vary]");
    let text = format!("{}\n{flow}\n", lines.collect::<Vec<_>>().join("\n"));
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &stacks).unwrap_or_else(|error| panic!("{error}"));
    let settings = &scenario.points[0].world.flows[0].settings;
    assert_eq!((settings.boolean("pace"), settings.get("burst")), (Some(true), Some(SettingValue::Number(3))));
}

#[test]
fn a_key_that_a_table_adds_is_named_where_it_stands() {
    let text = format!("{ONE}\"path.p.down\" = [{{ rat = \"20 Mbps\" }}]\n");
    complains(&text, "rat = ", "path.p.down.rat", &["unknown key", "did you mean \"rate\"?"]);
}

const TOGETHER: &str = r#"
[[vary.together]]
"path.p.down.rate" = ["10 Mbps", "100 Mbps", "1 Gbps"]
path.p.up.rate = ["1 Mbps", "10 Mbps", "10 Mbps"]
"#;

#[test]
fn keys_that_go_together_change_together() {
    let scenario = one(TOGETHER);
    let rates = |scenario: &Scenario| -> Vec<_> {
        directions(scenario).iter().map(|(down, up)| (down.rate.nominal().bps(), up.rate.nominal().bps())).collect()
    };
    let expected = [(10_000_000, 1_000_000), (100_000_000, 10_000_000), (1_000_000_000, 10_000_000)];
    assert_eq!(rates(&scenario), expected);
    // The rate down tells the points apart by itself; where no key does, all are named.
    assert_eq!(names(&scenario), ["down.rate = 10 Mbps", "down.rate = 100 Mbps", "down.rate = 1 Gbps"]);
    let crossed = one(&TOGETHER.replace("\"1 Gbps\"", "\"10 Mbps\""));
    let last = "down.rate = 10 Mbps, up.rate = 10 Mbps";
    assert_eq!(names(&crossed)[1..], ["down.rate = 100 Mbps, up.rate = 10 Mbps", last]);
    // With every other axis and every other group they multiply; the last runs fastest.
    let more = one(&format!(
        "\"path.p.up.delay\" = [\"1 ms\", \"2 ms\"]\n{TOGETHER}[[vary.together]]\n\"flow.f.start\" = [\"0 s\", \"1 s\"]\n\
         \"flow.f.policies.pacing\" = [\"on\", \"off\"]\n"
    ));
    assert_eq!(more.points.len(), 2 * 3 * 2);
    assert_eq!(rates(&more)[..6], [expected[0], expected[0], expected[1], expected[1], expected[2], expected[2]]);
    assert_eq!(names(&more)[1], "delay = 1 ms, down.rate = 10 Mbps, start = 1 s, pacing = off");
    // One table of two brackets, or of one.
    assert_eq!(rates(&one(&TOGETHER.replace("[[vary.together]]", "[vary.together]"))), expected);
}

#[test]
fn an_expectation_names_one_of_the_keys_that_go_together() {
    let expect = "[[expect]]\nwhere = { \"up.rate\" = \"10 Mbps\" }\nmetric = \"completion.p50\"\nat_most = \"9 s\"\n";
    let scenario = one(&format!("{TOGETHER}{expect}"));
    let spoken: Vec<usize> =
        (0..3).filter(|point| crate::summary::speaks_of(&scenario, &scenario.expectations[0], *point)).collect();
    assert_eq!(spoken, [1, 2]);
    let text = format!("{ONE}{TOGETHER}{}", expect.replace("\"10 Mbps\" }", "\"20 Mbps\" }"));
    complains(&text, "20 Mbps", "expect.0.where.up.rate", &["write one of 1 Mbps, 10 Mbps"]);
    assert!(complaint(&text).message.ends_with("10 Mbps"), "each value is named once");
}

#[test]
fn the_base_of_a_comparison_is_found_by_one_of_the_keys_that_go_together() {
    let expect =
        "[[expect]]\nmetric = \"completion.p50\"\nrelative_to = { \"down.rate\" = \"10 Mbps\" }\nat_most = 1\n";
    let scenario = one(&format!("{TOGETHER}\n[vary.path.p.up]\ndelay = [\"1 ms\", \"2 ms\"]\n{expect}"));
    assert_eq!(scenario.points.len(), 6);
    let mut runs = crate::summary::Runs::new();
    for (point, seed) in (0..6).flat_map(|point| (1..=4).map(move |seed| (point, seed))) {
        let mut flow = crate::record::Part { name: "f".to_owned(), ..Default::default() };
        // A base with the other delay would give another ratio.
        flow.set("completion", [8.0, 16.0, 4.0, 8.0, 2.0, 4.0][point]);
        runs.insert((point, seed), &crate::record::RunRecord { flows: vec![flow], ..Default::default() });
    }
    let verdicts = crate::summary::verdicts(&scenario, &runs);
    let found: Vec<_> = verdicts.iter().map(|verdict| (verdict.point, verdict.value)).collect();
    assert_eq!(found, [(2, Some(0.5)), (3, Some(0.5)), (4, Some(0.25)), (5, Some(0.25))]);
}

#[test]
fn what_goes_together_has_to_make_sense() {
    let text = |together: &str| {
        format!("{ONE}[[vary.together]]\n\"path.p.down.rate\" = [\"10 Mbps\", \"1 Gbps\"]\n{together}\n")
    };
    complains(
        &text("\"path.p.up.rate\" = [\"1 Mbps\"]"),
        "up.rate",
        "vary.together.0.path.p.up.rate",
        &["has 1 value, but \"path.p.down.rate\" has 2 values", "a value each"],
    );
    complains(
        &text("\"title\" = [\"a\", \"b\"]"),
        "title",
        "vary.together.0.title",
        &["cannot be varied", "path.NAME"],
    );
    complains(
        &text("\"path.q.up.rate\" = [\"1 Mbps\", \"2 Mbps\"]"),
        "path.q",
        "vary.together.\"path.q.up.rate\"",
        &["no path \"q\"", "there are p"],
    );
    complains(
        &text("\"path.p.up.rat\" = [\"1 Mbps\", \"2 Mbps\"]"),
        "up.rat",
        "path.p.up.rat",
        &["unknown key", "rate"],
    );
    complains(&text("\"path.p.up.rate\" = \"1 Mbps\""), "up.rate", "vary.together.0.path.p.up.rate", &["not a list"]);
    complains(
        &text("[[vary.together]]\npath.p.down.rate = [\"1 Mbps\"]"),
        "path.p.down.rate",
        "vary.together.1.path.p.down.rate",
        &["varied twice"],
    );
    complains(
        &format!("{ONE}[[vary.together]]\n"),
        "together",
        "vary.together.0",
        &["is empty", "path.NAME.down.rate"],
    );
    complains(
        &format!("{ONE}together = [\"path.p.up.rate\"]\n"),
        "together",
        "vary.together.0",
        &["is a string", "[[vary.together]]"],
    );
    // A row that is there twice is the same world twice.
    let twice = text("\"path.p.up.rate\" = [\"1 Mbps\", \"1 Mbps\"]").replace("1 Gbps", "10 Mbps");
    assert!(complaint(&twice).message.contains("describe the same world"), "{}", complaint(&twice));
    // Points are counted by steps.
    let list = |unit: &str| (1..=400).map(|n| format!("\"{n} {unit}\"")).collect::<Vec<_>>().join(", ");
    let (rates, delays) = (list("Mbps"), list("ms"));
    let many = format!("{ONE}[[vary.together]]\npath.p.down.rate = [{rates}]\npath.p.up.rate = [{rates}]\n");
    assert_eq!(parse(&many).unwrap().points.len(), 400);
    let most = many.replace("[[vary", &format!("\"path.p.up.delay\" = [{delays}]\n[[vary"));
    assert!(complaint(&most).message.contains("makes 160000 points or more"), "{}", complaint(&most));
}

#[test]
fn a_rival_is_run_once_where_only_policies_differ() {
    let vary = "[[vary.together]]\n\"path.p.up.rate\" = [\"1 Mbps\", \"1 Mbps\", \"2 Mbps\"]\n\
                \"flow.f.policies.start\" = [\"standard\", \"hystart++\", \"hystart++\"]\n";
    let text = format!("{ONE}{vary}").replace("[path.p]", "rivals = [\"quinn\"]\n[path.p]");
    let scenario = parse(&text).unwrap();
    let labels: Vec<Vec<&str>> =
        scenario.points.iter().map(|point| point.labels.iter().map(String::as_str).collect()).collect();
    assert_eq!(
        labels,
        [
            ["1 Mbps", "standard", "thalweg"],
            ["1 Mbps", "hystart++", "thalweg"],
            ["2 Mbps", "hystart++", "thalweg"],
            ["1 Mbps", "", "quinn"],
            ["2 Mbps", "", "quinn"]
        ]
    );
}

/// A program in which NewReno has no start of its own to choose, as a model has none.
fn without_start(vary: &str) -> Scenario {
    let text = format!("{ONE}{vary}\n").replace("policies = { controller = \"new-reno\", start = \"standard\" }\n", "");
    let has = |controller: &str, policy: &str| controller != "new-reno" || policy != "start";
    Scenario::parse_with("q.toml", &text, Path::new(""), &[StackInfo::new("thalweg")], &has)
        .unwrap_or_else(|error| panic!("{vary}: {error}"))
}

#[test]
fn a_policy_that_the_controller_does_not_have_is_left_out_once_and_dropped_otherwise() {
    let vary = "\"flow.f.policies.controller\" = [\"cubic\", \"new-reno\"]\n\
                \"flow.f.policies.start\" = [\"standard\", \"hystart++\"]";
    let scenario = without_start(vary);
    assert_eq!(
        names(&scenario),
        ["controller = cubic, start = standard", "controller = cubic, start = hystart++", "controller = new-reno"]
    );
    assert_eq!(scenario.remarks.left_out, ["new-reno, hystart++: controller=new-reno has no start"]);
    let shipped = scenario.points[2].world.flows[0].policies().to_string();
    assert!(shipped.contains("controller=new-reno, start=peak-bandwidth"), "the value is not applied: {shipped}");
    // With every policy in its place nothing is dropped.
    assert!(one("").remarks.left_out.is_empty());
    assert_eq!(without_start("\"flow.*.policies.pacing\" = [\"on\", \"off\"]").points.len(), 2);
}
