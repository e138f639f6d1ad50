mod paths;

use thalweg_link::{LossModel, Probability, QueueLimit, RateModel, Reorder};
use thalweg_recovery::{Flight, InitialWindow};
use thalweg_sim::{MinRto, Registry, TcpAcks, TcpConfig, TcpProfile};
use thalweg_units::{Duration, Rate};

use super::world::*;
use super::*;
use crate::stats::Statistic;

pub(super) const SATELLITE: &str = r#"
title = "100 MB over a geostationary satellite"
question = "How close to the link's floor does each start-up rule get?"
seeds = 30
time_limit = "60 s"

[path.sat]
down = { rate = "250 Mbps", delay = "300 ms", queue = "1 BDP", aqm = "tail-drop" }
up   = { rate = "3 Mbps",   delay = "300 ms", queue = "600 ms", loss = { random = 0.001 }, reorder = { share = 0.01, by = "5 ms" } }

[[flow]]
stack = "thalweg"
path = "sat"
transfer = { download = "100 MB" }
policies = { controller = "cubic", start = "standard" }

[vary]
"flow.0.policies.start" = ["standard", "hystart++"]
path.sat.down.queue = ["1 BDP", "0.5 BDP", "60 packets"]

[[expect]]
where = { start = "hystart++" }
metric = "completion_over_floor.p50"
at_most = 1.25
"#;

pub(super) fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("q.toml", text, Path::new("/nonexistent"), &["thalweg", "quinn"].map(StackInfo::new))
}

/// A sound scenario with `line` put at the end of the part that `place` names.
pub(super) fn with(place: &str, line: &str) -> String {
    let at = SATELLITE.find(place).unwrap();
    let end = SATELLITE[at..].find('\n').unwrap() + at + 1;
    format!("{}{line}\n{}", &SATELLITE[..end], &SATELLITE[end..])
}

/// The only complaint about a text.
#[track_caller]
pub(super) fn complaint(text: &str) -> Diagnostic {
    let error = parse(text).unwrap_err();
    assert_eq!(error.diagnostics.len(), 1, "{error}");
    error.diagnostics[0].clone()
}

#[track_caller]
pub(super) fn complains(text: &str, line_holds: &str, key: &str, parts: &[&str]) {
    let found = complaint(text);
    assert!(found.excerpt.contains(line_holds), "{found}");
    assert_eq!(found.key, key, "{found}");
    for part in parts {
        assert!(found.message.contains(part), "{part:?} is missing: {found}");
    }
}

pub(super) fn share(share: f64) -> Probability {
    Probability::new(share).unwrap()
}

#[test]
fn the_scenario_of_the_design_is_read() {
    let scenario = parse(SATELLITE).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seeds, scenario.points.len()), ("q", 30, 6));
    let world = &scenario.points[0].world;
    let down = &world.paths[0].down;
    assert_eq!(down.rate, RateModel::Constant(Rate::from_bps(250_000_000)));
    assert_eq!(down.delay, Duration::from_millis(300).into());
    assert_eq!(down.queue, QueueLimit::Bdp(1000));
    let up = &world.paths[0].up;
    assert_eq!(up.queue, QueueLimit::Time(Duration::from_millis(600)));
    assert_eq!(up.loss, [LossModel::Random(share(0.001))]);
    assert_eq!(up.reorder, [Reorder { share: share(0.01), by: Duration::from_millis(5) }]);
    assert_eq!(world.flows[0].traffic, Traffic::download(Some(100_000_000)));
    assert_eq!(world.flows[0].policies().to_string().split(", ").nth(1), Some("start=standard"));
    let expect = &scenario.expectations[0];
    assert_eq!(expect.points, [("start".to_owned(), "hystart++".to_owned())]);
    assert_eq!((expect.metric.name, expect.statistic), ("completion_over_floor", Statistic::MEDIAN));
    assert!(expect.holds(1.25) && !expect.holds(1.26) && !expect.holds(f64::NAN));
}

#[test]
fn lists_multiply_and_the_last_runs_fastest() {
    let scenario = parse(SATELLITE).unwrap();
    let labels: Vec<String> = scenario.points.iter().map(|point| point.name(&scenario.axes)).collect();
    assert_eq!(labels[0], "start = standard, queue = 1 BDP");
    assert_eq!(labels[1], "start = standard, queue = 0.5 BDP");
    assert_eq!(labels[3], "start = hystart++, queue = 1 BDP");
    assert_eq!(scenario.points[2].world.paths[0].down.queue, QueueLimit::Packets(60));
    let mut digests: Vec<_> = scenario.points.iter().map(|point| point.digest.clone()).collect();
    digests.dedup();
    assert_eq!(digests.len(), 6);
    assert_eq!(parse(SATELLITE).unwrap().points[5].digest, scenario.points[5].digest);
}

#[test]
fn words_and_remarks_do_not_change_what_is_stored() {
    let renamed = SATELLITE.replace("100 MB over", "A file over").replace("1 BDP\", aqm", "1000 BDP\", aqm");
    let (one, two) = (parse(SATELLITE).unwrap(), parse(&renamed).unwrap());
    assert_ne!(one.digest, two.digest);
    assert_eq!(one.points[0].digest, two.points[0].digest, "the varied queue replaces what stood there");
}

#[test]
fn axes_get_the_shortest_names_that_tell_them_apart() {
    let text = with("[vary]", "\"path.sat.up.queue\" = [\"1 BDP\"]");
    let labels: Vec<String> = parse(&text).unwrap().axes.into_iter().map(|axis| axis.label).collect();
    assert_eq!(labels, ["up.queue", "start", "down.queue"]);
}

#[test]
fn a_star_and_a_name_reach_flows() {
    let second = "\n[[flow]]\nname = \"second\"\npath = \"sat\"\nstart = \"1 s\"\ntransfer = { upload = \"1 MB\" }\n";
    let text = SATELLITE.replace("\"flow.0.policies.start\"", "\"flow.*.policies.start\"");
    let text = text.replace("[vary]", &format!("{second}\n[vary]\nflow.second.start = [\"2 s\", \"3 s\"]"));
    let text = text.replace("where = { start = \"hystart++\" }\n", "");
    let scenario = parse(&text).unwrap();
    let last = &scenario.points[scenario.points.len() - 1].world;
    assert_eq!(last.flows[1].start, Duration::from_secs(3));
    assert!(last.flows.iter().all(|flow| flow.policies().to_string().contains("start=hystart++")));
}

#[test]
fn every_kind_of_traffic_is_read() {
    for traffic in [
        "requests = { response = \"20 kB\", count = 50, think = \"10 ms\" }",
        "on_off = { burst = \"1 MB\", pause = \"500 ms\", count = 10 }",
        "short_flows = { every = \"100 ms\", count = 100, size = \"30 kB\", spread = 4 }",
        "page = { objects = [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }] }",
        "media = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"30 s\" }",
        "datagrams = { rate = \"1 Mbps\", duration = \"30 s\", direction = \"up\" }",
    ] {
        let text = SATELLITE.replace("transfer = { download = \"100 MB\" }", traffic);
        parse(&text).unwrap_or_else(|error| panic!("{traffic}: {error}"));
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
    let found = complaint(&with("time_limit", "sedes = 3"));
    assert_eq!((found.file.as_str(), found.line, found.column), ("q.toml", 6, 1));
    assert_eq!(found.key, "sedes");
    assert!(found.message.starts_with("unknown key; did you mean \"seeds\"? accepted here: "), "{found}");
    complains(
        &SATELLITE.replace("delay = \"300 ms\", queue = \"1 BDP\"", "dealy = \"5 ms\", delay = \"1 ms\""),
        "dealy",
        "path.sat.down.dealy",
        &["did you mean \"delay\"?", "suspend"],
    );
    complains(&with("stack =", "colour = 1"), "colour", "flow.0.colour", &["unknown key; accepted here: "]);
}

#[test]
fn a_missing_unit_is_asked_for() {
    complains(&SATELLITE.replace("\"250 Mbps\"", "250"), "rate = 250", "path.sat.down.rate", &["no unit", "250 Mbps"]);
    complains(&SATELLITE.replace("\"60 s\"", "\"60\""), "time_limit", "time_limit", &["no unit"]);
    complains(&SATELLITE.replace("\"600 ms\"", "\"600\""), "600", "path.sat.up.queue", &["no unit", "60 packets"]);
    let seconds = SATELLITE.replace("completion_over_floor.p50", "completion.p50");
    complains(&seconds, "at_most", "expect.0.at_most", &["1.25 has no unit", "duration"]);
}

#[test]
fn impossible_values_are_refused() {
    for (from, to, key, parts) in [
        ("seeds = 30", "seeds = 0", "seeds", &["0 is out of range", "from 1"][..]),
        ("\"250 Mbps\"", "\"0 Mbps\"", "path.sat.down.rate", &["never delivers", "outages"]),
        ("random = 0.001", "random = 1.5", "path.sat.up.loss.random", &["out of range", "1 %"]),
        ("random = 0.001", "random = 3", "path.sat.up.loss.random", &["did you mean \"3 %\"?"]),
        ("\"60 s\"", "\"0 s\"", "time_limit", &["longer than zero"]),
        ("\"100 MB\"", "\"0 B\"", "flow.0.transfer.download", &["out of range"]),
        ("aqm = \"tail-drop\"", "mtu = \"900 B\"", "path.sat.down.mtu", &["out of range", "1228"]),
        ("aqm = \"tail-drop\"", "aqm = \"taildrop\"", "path.sat.down.aqm", &["did you mean \"tail-drop\"?"]),
        (
            "aqm = \"tail-drop\"",
            "aqm = { name = \"fifo\" }",
            "path.sat.down.aqm.name",
            &["one of tail-drop, head-drop"],
        ),
        ("aqm = \"tail-drop\"", "aqm = { limit = 1 }", "path.sat.down.aqm", &["needs name"]),
        (
            "aqm = \"tail-drop\"",
            "aqm = { name = \"tail-drop\", target = \"5 ms\" }",
            "path.sat.down.aqm.target",
            &["unknown key", "accepted here: name"],
        ),
        (
            "aqm = \"tail-drop\"",
            "loss = { burst = { enter = 0.1, mean_bad = \"1 s\" } }",
            "path.sat.down.loss.burst",
            &["by packets", "by time"],
        ),
        (
            "aqm = \"tail-drop\"",
            "loss = { burst = { mean_good = \"10 s\", mean_bad = \"2 us\" } }",
            "path.sat.down.loss.burst.mean_bad",
            &["out of range", "1 ms"],
        ),
        ("aqm = \"tail-drop\"", "loss = {}", "path.sat.down.loss", &["exactly one kind of loss"]),
        (
            "aqm = \"tail-drop\"",
            "outage = { every = \"1 s\", for = \"2 s\" }",
            "path.sat.down.outage",
            &["nothing would ever pass"],
        ),
        ("aqm = \"tail-drop\"", "outage = { for = \"2 s\" }", "path.sat.down.outage", &["needs at"]),
        (
            "aqm = \"tail-drop\"",
            "outage = { at = \"1 s\", for = \"5 s..2 s\" }",
            "path.sat.down.outage.for",
            &["smaller"],
        ),
        ("path = \"sat\"", "path = \"sta\"", "flow.0.path", &["did you mean \"sat\"?"]),
        ("\"thalweg\"", "\"qinn\"", "flow.0.stack", &["did you mean \"quinn\"?"]),
        ("controller = \"cubic\"", "controler = \"cubic\"", "flow.0.policies.controler", &["no policy field"]),
        ("controller = \"cubic\"", "controller = \"vegas\"", "flow.0.policies.controller", &["new-reno"]),
        ("transfer =", "trasfer =", "flow.0", &["exactly one kind of traffic"]),
    ] {
        let text = SATELLITE.replacen(from, to, 1);
        assert_ne!(text, SATELLITE, "{from}");
        let error = parse(&text).unwrap_err();
        let found = error.diagnostics.iter().find(|diagnostic| diagnostic.key == key);
        let found = found.unwrap_or_else(|| panic!("{to}: nothing about {key}: {error}"));
        for part in parts {
            assert!(found.message.contains(part), "{part:?} is missing: {found}");
        }
    }
}

#[test]
fn expectations_have_to_be_about_something() {
    for (from, to, key, parts) in [
        (
            "completion_over_floor.p50",
            "completion_over_flor.p50",
            "expect.0.metric",
            &["did you mean \"completion_over_floor\"?"][..],
        ),
        (
            "completion_over_floor.p50",
            "completion_over_floor.avg",
            "expect.0.metric",
            &["no statistic \"avg\"", "mean"],
        ),
        ("completion_over_floor.p50", "completion_over_floor", "expect.0.metric", &["how to sum up"]),
        ("at_most = 1.25", "", "expect.0", &["expects nothing"]),
        ("at_most = 1.25", "at_most = 1\nwithin = [1, 2]", "expect.0", &["do not go together"]),
        ("at_most = 1.25", "at_most = 1\nat_least = 2", "expect.0", &["can never hold"]),
        ("at_most = 1.25", "within = 3", "expect.0.within", &["no pair"]),
        ("start = \"hystart++\" }", "start = \"hystart\" }", "expect.0.where.start", &["did you mean \"hystart++\"?"]),
        ("where = { start", "where = { strat", "expect.0.where.strat", &["did you mean \"start\"?"]),
        (
            "at_most = 1.25",
            "at_most = 1.25\nrelative_to = { start = \"standard\" }\nversus = { start = \"standard\" }",
            "expect.0",
            &["compares twice"],
        ),
        ("at_most = 1.25", "at_most = 1.25\nlink = \"sat.down\"", "expect.0", &["not measured per link"]),
        ("at_most = 1.25", "at_most = 1.25\nflow = \"two\"", "expect.0.flow", &["flow 0"]),
    ] {
        let text = SATELLITE.replacen(from, to, 1);
        assert_ne!(text, SATELLITE, "{from}");
        let error = parse(&text).unwrap_err();
        let found = error.diagnostics.iter().find(|diagnostic| diagnostic.key == key);
        let found = found.unwrap_or_else(|| panic!("{to}: nothing about {key}: {error}"));
        for part in parts {
            assert!(found.message.contains(part), "{part:?} is missing: {found}");
        }
    }
}

#[test]
fn what_is_known_is_read_as_what_is_expected() {
    let known = SATELLITE.replace("[[expect]]", "[[known]]");
    let scenario = parse(&known).unwrap();
    assert_eq!((scenario.expectations.len(), scenario.known.len()), (0, 1));
    assert!(scenario.known[0].known && scenario.known[0].at_most == Some(1.25));
    for (from, to, key, part) in [
        ("at_most = 1.25", "", "known.0", "expects nothing"),
        ("at_most = 1.25", "at_most = \"1 s\"", "known.0.at_most", "bare number"),
        ("[[known]]", "[known]", "known", "[[known]] with two brackets"),
    ] {
        let found = parse(&known.replace(from, to)).unwrap_err().diagnostics.remove(0);
        assert_eq!(found.key, key, "{found}");
        assert!(found.message.contains(part), "{found}");
    }
}

#[test]
fn expectations_know_their_units() {
    let with_expect = |lines: &str| {
        parse(&SATELLITE.replace("metric = \"completion_over_floor.p50\"\nat_most = 1.25", lines))
            .unwrap_or_else(|error| panic!("{lines}: {error}"))
            .expectations[0]
            .clone()
    };
    let expect = with_expect("metric = \"completion.p90\"\nwithin = [\"4 s\", \"5500 ms\"]");
    assert_eq!((expect.at_least, expect.at_most), (Some(4.0), Some(5.5)));
    assert_eq!(expect.bounds(), "from 4 s to 5.5 s");
    let expect = with_expect("metric = \"success\"\nequals = \"100 %\"");
    assert_eq!((expect.statistic, expect.at_least, expect.at_most), (Statistic::Mean, Some(1.0), Some(1.0)));
    let expect = with_expect("metric = \"completion.p50\"\nrelative_to = { start = \"standard\" }\nat_most = 0.9");
    assert_eq!(expect.bounds(), "at most 0.9");
    let below = with_expect(
        "metric = \"completion.p95\"\nversus = { start = \"standard\" }\nwithin = [\"-1.5 s\", \"-20 ms\"]",
    );
    assert_eq!((below.at_least, below.at_most), (Some(-1.5), Some(-0.02)));
    assert_eq!(below.bounds(), "from −1.5 s to −20 ms");
    let expect = with_expect("metric = \"completion.p95\"\nversus = { start = \"standard\" }\nat_most = \"750 ms\"");
    assert_eq!((expect.bounds().as_str(), expect.versus.as_deref().map(<[_]>::len)), ("at most 750 ms", Some(1)));
    let expect = with_expect("metric = \"packets_lost.max\"\nequals = 0\nbecause = \"nothing is lost here\"");
    assert_eq!(expect.at_most, Some(0.0));
}

#[test]
fn several_mistakes_are_told_at_once_in_the_order_of_lines() {
    let text =
        SATELLITE.replace("seeds = 30", "seeds = 0").replace("\"3 Mbps\"", "\"3\"").replace("\"sat\"", "\"sst\"");
    let error = parse(&text).unwrap_err();
    let lines: Vec<usize> = error.diagnostics.iter().map(|diagnostic| diagnostic.line).collect();
    assert_eq!(lines, [4, 9, 13], "{error}");
}

#[test]
fn broken_toml_and_missing_files_are_told() {
    let found = complaint("title = \"x\n");
    assert!(found.line == 1 && found.message.starts_with("not TOML: "), "{found}");
    let error = Scenario::load(Path::new("/nonexistent/x.toml"), &[]).unwrap_err();
    assert!(error.to_string().contains("cannot read this file"), "{error}");
    let error = parse("").unwrap_err().to_string();
    for key in ["title", "question", "path", "flow"] {
        assert!(error.contains(&format!("needs {key}")), "{error}");
    }
    complains(
        &SATELLITE.replace("rate = \"250 Mbps\"", "trace = \"none.txt\""),
        "none.txt",
        "path.sat.down.trace",
        &["cannot read"],
    );
}

#[test]
fn until_is_read() {
    let text = with("time_limit", "until = { metric = \"completion.p50\", width = \"5 %\", max_seeds = 200 }");
    let until = parse(&text).unwrap().until.unwrap();
    assert_eq!((until.metric.name, until.width, until.max_seeds), ("completion", 0.05, 200));
}

#[test]
fn until_needs_a_statistic_with_an_interval() {
    for statistic in ["min", "max", "deviation", "p0", "p100"] {
        let text = with(
            "time_limit",
            &format!("until = {{ metric = \"completion.{statistic}\", width = \"5 %\", max_seeds = 9 }}"),
        );
        let found = complaint(&text);
        assert_eq!(
            (found.key.as_str(), found.line),
            ("until.metric", text.lines().position(|line| line.starts_with("until")).unwrap() + 1)
        );
        assert!(found.message.contains("no interval") && found.message.contains("spread"), "{}", found.message);
    }
}

#[test]
fn raw_flows_are_datagrams_without_policies() {
    let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
    let parse = |text: &str| Scenario::parse("q.toml", text, Path::new(""), &stacks);
    let raw = SATELLITE
        .replace("stack = \"thalweg\"", "stack = \"raw\"")
        .replace("[vary]\n\"flow.0.policies.start\" = [\"standard\", \"hystart++\"]", "[vary]")
        .replace("where = { start = \"hystart++\" }\n", "");
    let line = |part: &str| raw.lines().position(|line| line.starts_with(part)).unwrap() + 1;
    let error = parse(&raw).unwrap_err();
    let of =
        |key: &str| error.diagnostics.iter().find(|found| found.key == key).unwrap_or_else(|| panic!("{key}: {error}"));
    let transfer = of("flow.0.transfer");
    assert!(transfer.line == line("transfer") && transfer.message.contains("datagrams"), "{error}");
    assert!(of("flow.0.policies").line == line("policies"), "{error}");
    let media = raw.replace("policies = { controller = \"cubic\", start = \"standard\" }\n", "").replace(
        "transfer = { download = \"100 MB\" }",
        "media = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"9 s\" }",
    );
    parse(&media).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn parameters_of_policies_are_read_from_strings_and_tables() {
    let table = "policies = { controller = \"cubic\", start = \"standard\" }";
    let vary = "\"flow.0.policies.start\" = [\"standard\", \"hystart++\"]";
    let fixed = SATELLITE.replace(vary, "").replace("where = { start = \"hystart++\" }\n", "");
    let of = |policies: &str| {
        let scenario = parse(&fixed.replace(table, policies)).unwrap();
        scenario.points[0].world.flows[0].policies().to_string()
    };
    for policies in [
        "policies = \"start=peak-bandwidth(share=0.5, trains=off), tail=repeat\"",
        "policies = { start = \"peak-bandwidth(trains=off, share=0.50)\", tail = \"repeat\" }",
        "policies = { start = { name = \"peak-bandwidth\", trains = \"off\", share = 0.5 }, tail = \"repeat\" }",
    ] {
        let read = of(policies);
        assert!(
            read.contains("start=peak-bandwidth(share=0.5, trains=off), ") && read.contains("tail=repeat"),
            "{read}"
        );
    }
    let varied = "\"flow.0.policies.start\" = [\"standard\", { name = \"peak-bandwidth\", share = 0.75 }]";
    let text = SATELLITE.replace(vary, varied);
    let text = text.replace("where = { start = \"hystart++\" }", "where = { start = \"peak-bandwidth(share=0.75)\" }");
    let scenario = parse(&text).unwrap();
    assert!(scenario.axes.iter().any(|axis| axis.values == ["standard", "peak-bandwidth(share=0.75)"]));
    for (start, says) in [
        ("{ name = \"peak-bandwidth\", share = 2 }", "share accepts 0.1 to 1"),
        ("{ name = \"peak-bandwidth\", part = 0.5 }", "has no parameter \"part\""),
        ("{ name = \"peak-bandwidth\", trains = true }", "as its trains; write a number, or a word in quotes"),
        ("{ share = 0.5 }", "has no name in quotes"),
        ("0.5", "write a name in quotes"),
        ("\"peak-bandwidth/half\"", "is now \"peak-bandwidth(share=0.5)\""),
    ] {
        let error = parse(&fixed.replace("start = \"standard\" }", &format!("start = {start} }}"))).unwrap_err();
        let found = error.diagnostics.iter().find(|found| found.key == "flow.0.policies.start");
        assert!(found.is_some_and(|found| found.message.contains(says)), "{start}: {error}");
    }
}

#[test]
fn a_policy_that_tcp_does_not_have_is_refused_where_tcp_is_named() {
    let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
    let parse = |text: &str| Scenario::parse("q.toml", text, Path::new(""), &stacks);
    let tcp = SATELLITE.replace("stack = \"thalweg\"", "stack = \"tcp\"");
    let table = "policies = { controller = \"cubic\", start = \"standard\" }";
    let refused = [
        (tcp.replace(table, "policies = { probe = \"rfc\" }"), "flow.0.policies.probe"),
        (tcp.replace(table, "policies = \"start=standard, probe = rfc\""), "flow.0.policies"),
        (
            tcp.replace(
                "flow.0.policies.start\" = [\"standard\", \"hystart++\"]",
                "flow.0.policies.probe\" = [\"rfc\", \"ladder\"]",
            ),
            "flow.0.policies.probe",
        ),
    ];
    for (text, key) in refused {
        let error = parse(&text).unwrap_err();
        let found = error.diagnostics.iter().find(|found| found.key == key);
        let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
        assert!(found.message.contains("does not have") && found.message.contains("exit-rtt"), "{found}");
    }
    assert!(parse(&tcp.replace(table, "policies = { \"exit-rtt\" = \"short\" }")).is_ok());
    // Of all flows, those of ours have it, and nobody is refused.
    let mixed = SATELLITE
        .replace(
            "flow.0.policies.start\" = [\"standard\", \"hystart++\"]",
            "flow.*.policies.probe\" = [\"rfc\", \"ladder\"]",
        )
        .replace(
            "[vary]",
            "[[flow]]\nname = \"other\"\nstack = \"tcp\"\npath = \"sat\"\ntransfer = { download = \"1 MB\" }\n[vary]",
        );
    let (text, _) = mixed.split_once("[[expect]]").unwrap();
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let probes =
        |at: usize| scenario.points[at].world.flows.iter().map(|flow| flow.policies().probe.name()).collect::<Vec<_>>();
    assert_eq!((probes(0), probes(scenario.points.len() - 1)), (vec!["rfc", "ladder"], vec!["ladder", "ladder"]));
}

#[test]
fn a_measuring_window_lies_within_the_run() {
    let with = |window: &str| SATELLITE.replace("seeds = 30", &format!("seeds = 30\nmeasure = {window}"));
    let scenario = parse(&with("{ from = \"5 s\", to = \"55 s\" }")).unwrap();
    let measure = scenario.points[0].world.measure.unwrap();
    assert_eq!((measure.from, measure.to), (Duration::from_secs(5), Duration::from_secs(55)));
    assert_ne!(scenario.points[0].digest, parse(SATELLITE).unwrap().points[0].digest);
    complains(&with("{ from = \"5 s\", to = \"5 s\" }"), "measure", "measure", &["ends where it begins", "later `to`"]);
    complains(&with("{ from = \"5 s\", to = \"61 s\" }"), "measure", "measure", &["after the run", "60 s"]);
    complains(&with("{ from = \"5 s\" }"), "measure", "measure", &["needs to"]);
    complains(&with("\"5 s..55 s\""), "measure", "measure", &["{ from = \"5 s\", to = \"55 s\" }"]);
}

#[test]
fn tcp_is_linux_s_unless_the_flow_says_otherwise() {
    let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
    let of = |flow: &str| {
        let text = SATELLITE.replace("policies = { controller = \"cubic\", start = \"standard\" }\n", "");
        let text = text.replace("stack = \"thalweg\"", flow);
        let (text, _) = text.split_once("[vary]").unwrap();
        let scenario =
            Scenario::parse("q.toml", text, Path::new(""), &stacks).unwrap_or_else(|error| panic!("{error}"));
        let flow = &scenario.points[0].world.flows[0];
        (flow.policies().to_string(), TcpConfig::from(&flow.settings))
    };
    let (linux, config) = of("stack = \"tcp\"");
    assert!(
        linux.starts_with("controller=cubic, start=hystart, reduction=prr") && linux.contains("pacing=off"),
        "{linux}"
    );
    assert_eq!(config, TcpConfig::new(TcpProfile::Linux));
    let (regain, _) = of("stack = \"tcp\"\npolicies = \"controller=regain\"");
    assert_eq!(regain, linux.replace("=cubic", "=regain"), "what is named, and nothing else");
    let (shipped, config) = of("stack = \"tcp\"\ntcp = { profile = \"shipped\" }");
    assert_eq!((shipped, config), (Policies::default().to_string(), TcpConfig::new(TcpProfile::Shipped)));
    let (paced, _) = of("stack = \"tcp\"\ntcp = { profile = \"paced\" }\npolicies = { start = \"standard\" }");
    assert_eq!(paced, "controller=cubic, start=standard".parse::<Policies>().unwrap().to_string());
    let (_, config) = of("stack = \"tcp\"\ntcp = { offload = false, ack = \"every-second\" }");
    assert_eq!((config.offload, config.acks, config.timestamps), (false, TcpAcks::EverySecond, true));
}

#[test]
fn settings_of_tcp_are_read_where_tcp_runs() {
    let tcp = "tcp = { initial_window = \"rfc3390\", delayed_ack = \"0 ms\", min_rto = \"300 ms\", time_threshold = false, reduce = \"flight-size\" }";
    let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
    let text = SATELLITE.replace("stack = \"thalweg\"", &format!("stack = \"tcp\"\n{tcp}"));
    let scenario = Scenario::parse("q.toml", &text, Path::new(""), &stacks).unwrap();
    let config = TcpConfig::from(&scenario.points[0].world.flows[0].settings);
    assert_eq!(
        (config.initial_window, config.min_rto),
        (InitialWindow::Rfc3390, MinRto::At(Duration::from_millis(300)))
    );
    assert_eq!((config.delayed_ack, config.flight), (Duration::ZERO, Flight::Outstanding));
    assert_eq!((config.time_threshold, config.ecn), (false, TcpConfig::default().ecn));
    let wrong = SATELLITE.replace("stack = \"thalweg\"", &format!("stack = \"thalweg\"\n{tcp}"));
    let error = Scenario::parse("q.toml", &wrong, Path::new(""), &stacks).unwrap_err().to_string();
    assert!(error.contains("flow.0.tcp") && error.contains("which this flow does not run"), "{error}");
    let wrong = text.replace("rfc3390", "rfc6582");
    let error = Scenario::parse("q.toml", &wrong, Path::new(""), &stacks).unwrap_err().to_string();
    assert!(error.contains("flow.0.tcp.initial_window") && error.contains("rfc6928, rfc3390"), "{error}");
}

#[test]
fn hosts_delay_by_chance_unless_the_scenario_says_otherwise() {
    let delays = |text: &str| parse(text).unwrap().points[0].world.host_delay;
    assert!(delays(SATELLITE));
    assert!(!delays(&with("time_limit", "host_delay = false")));
    assert!(!delays(&with("time_limit", "perturb = \"microsecond\"")));
    complains(
        &with("time_limit", "perturb = \"microsecond\"\nhost_delay = true"),
        "host_delay",
        "host_delay",
        &["does not go together"],
    );
    let limited = parse(&with("time_limit", "host_delay = \"200 us\"")).unwrap();
    let world = &limited.points[0].world;
    assert_eq!((world.host_delay, world.host_delay_most), (true, Some(Duration::from_micros(200))));
    complains(&with("time_limit", "host_delay = \"2 ms\""), "host_delay", "host_delay", &["write 1 ns to 1 ms"]);
    complains(&with("time_limit", "host_delay = 3"), "host_delay", "host_delay", &["the longest delay in quotes"]);
    let varied = parse(&with("[vary]", "host_delay = [true, false]")).unwrap();
    assert_eq!(varied.points.iter().filter(|point| point.world.host_delay).count(), varied.points.len() / 2);
}

/// A second is long: before reading was linear, each of these took ten and more.
fn is_quick(what: &str, read: impl FnOnce() -> Result<Scenario, ScenarioError>) -> Result<Scenario, ScenarioError> {
    let cpu = || -> u64 {
        // The time of this thread, in nanoseconds: other tests run beside it.
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        stat.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let before = cpu();
    let result = read();
    let took = Duration::from_nanos(cpu() - before);
    assert!(took < Duration::from_secs(4), "{what} took {took:?}");
    result
}

const HEAD: &str = "title = \"t\"\nquestion = \"q\"\n";
const PATH: &str =
    "[path.p]\nup = { rate = \"9 Mbps\", delay = \"9 ms\" }\ndown = { rate = \"9 Mbps\", delay = \"9 ms\" }\n";
const FLOW: &str = "[[flow]]\ntransfer = { download = \"1 MB\" }\n";

#[test]
fn eight_thousand_values_are_read_in_linear_time() {
    let values: Vec<String> = (1..=8_000).map(|n| format!("\"{n} us\"")).collect();
    let text = format!("{HEAD}{PATH}{FLOW}[vary]\n\"path.p.up.delay\" = [{}]\n", values.join(", "));
    let scenario = is_quick("the list", || parse(&text)).unwrap();
    assert_eq!(scenario.points.len(), 8_000);
    assert_eq!(scenario.points[7_999].world.paths[0].up.delay, Duration::from_millis(8).into());
    // Twins are found wherever they are.
    let text = text.replace("\"8000 us\"", "\"7.999 ms\"");
    let error = is_quick("twins", || parse(&text)).unwrap_err();
    assert!(error.to_string().contains("\"7999 us\" and \"7.999 ms\" describe the same world"), "{error}");
}

#[test]
fn megabytes_of_mistakes_make_a_short_error_in_linear_time() {
    let lines = |count: usize| (0..count).map(|n| format!("unknown_key_{n} = 1\n")).collect::<String>();
    let inline: String = (0..100_000).map(|n| format!("unknown_key_{n} = 1, ")).collect();
    let inline = format!("x = {{ {inline} }}\n");
    let mut texts = vec![
        ("unknown keys", format!("{}{HEAD}{PATH}{FLOW}", lines(400_000))),
        ("unknown keys beside a preset", format!("{HEAD}[path.p]\npreset = \"broadband\"\n{}{FLOW}", lines(100_000))),
        ("a long line", format!("{inline}{HEAD}{PATH}{FLOW}")),
        ("a long key", format!("{} = 1\n{HEAD}{PATH}{FLOW}", "k".repeat(3_000_000))),
        ("deep keys", format!("{} = 1\n{HEAD}{PATH}{FLOW}", vec!["a"; 100_000].join("."))),
        ("a long value", format!("crypto = \"{}\"\n{HEAD}{PATH}{FLOW}", "v".repeat(3_000_000))),
    ];
    let expect = "[[expect]]\nmetric = \"success\"\nequals = 2\nflow = \"x\"\n".repeat(20_000);
    texts.push(("expectations", format!("{HEAD}{PATH}{FLOW}{expect}")));
    for (what, text) in texts {
        let error = is_quick(what, || parse(&text)).unwrap_err();
        assert!((1..=20).contains(&error.diagnostics.len()), "{what}");
        let said = error.to_string();
        assert!(said.len() < 10_000, "{what}: {} bytes", said.len());
        assert_eq!(error.more > 0, said.contains(&format!("… and {} more", error.more)), "{what}");
        assert!(what != "unknown keys" || error.more == 400_000 - 20, "{}", error.more);
    }
}

#[test]
fn what_is_absurdly_much_is_refused() {
    let refused = |text: &str, parts: &[&str]| {
        let error = is_quick(parts[0], || parse(text)).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    let axes: String = (0..1_000).map(|n| format!("\"flow.0.x{n}\" = [1]\n")).collect();
    refused(&format!("{HEAD}{PATH}{FLOW}[vary]\n{axes}"), &["varies 1000 keys", "at most 64"]);
    refused(&format!("{HEAD}{PATH}{}", FLOW.repeat(10_001)), &["10001 flows", "at most 10000", "short_flows"]);
    let paths: String = (0..1_001).map(|n| PATH.replace("path.p", &format!("path.p{n}"))).collect();
    refused(&format!("{HEAD}{paths}{FLOW}"), &["1001 paths", "at most 1000"]);
    // Few points of a large world are as much as many of a small one.
    let packets: Vec<String> = (1..=100_000).map(|n| n.to_string()).collect();
    let large =
        PATH.replace("\"9 ms\" }\nd", &format!("\"9 ms\", loss = {{ packets = [{}] }} }}\nd", packets.join(",")));
    let starts: Vec<String> = (1..=600).map(|n| format!("\"{n} ms\"")).collect();
    let vary = format!("[vary]\n\"flow.0.start\" = [{}]\n", starts.join(", "));
    refused(&format!("{HEAD}{large}{FLOW}{vary}"), &["values all together", "at most 50000000"]);
    refused(&" ".repeat(16_000_001), &["it is 17 MB long", "at most 16 MB"]);
}

#[cfg(unix)]
#[test]
fn a_device_is_neither_a_scenario_nor_a_trace() {
    let error = Scenario::load(Path::new("/dev/zero"), &[]).unwrap_err().to_string();
    assert!(error.contains("cannot read this file: it is a device"), "{error}");
    complains(
        &SATELLITE.replace("rate = \"250 Mbps\"", "trace = \"/dev/zero\""),
        "/dev/zero",
        "path.sat.down.trace",
        &["cannot read /dev/zero: it is a device or a pipe", "lte, leo"],
    );
}

#[test]
fn long_values_have_short_labels_of_their_own() {
    let list = |last: u64| format!("{{ packets = [{}, {last}] }}", vec!["1"; 1_000].join(", "));
    let text = format!("{HEAD}{PATH}{FLOW}[vary]\n\"path.p.up.loss\" = [{}, {}]\n", list(7), list(8));
    let scenario = parse(&text).unwrap();
    let [one, other] = scenario.axes[0].values.as_slice() else { panic!("{:?}", scenario.axes) };
    assert!(one != other && one.chars().count() <= 101 && other.chars().count() < 110, "{one}; {other}");
}

#[test]
fn a_scenario_says_when_it_is_judged() {
    let tier = |line: &str| parse(&SATELLITE.replace("seeds = 30", line)).map(|scenario| scenario.tier);
    assert_eq!(tier("seeds = 30").unwrap(), Tier::Study);
    assert_eq!(tier("tier = \"gate\"").unwrap(), Tier::Gate { seeds: None });
    let gate = tier("seeds = 30\ntier = \"gate\"\ngate_seeds = 6").unwrap();
    assert_eq!(gate, Tier::Gate { seeds: Some(6) });
    assert!(gate.is_gate() && gate.is_nightly(), "the rest of its seeds is judged at night");
    assert!(!tier("tier = \"gate\"").unwrap().is_nightly());
    let error = tier("tier = \"nightly\"\ngate_seeds = 6").unwrap_err().to_string();
    assert!(error.contains("is for tier = \"gate\" only"), "{error}");
    for seeds in [30, 31] {
        let error = tier(&format!("seeds = 30\ntier = \"gate\"\ngate_seeds = {seeds}")).unwrap_err().to_string();
        assert!(error.contains("leaves none of the 30 seeds out; write fewer, or leave gate_seeds out"), "{error}");
    }
    let until = "until = { metric = \"completion.p50\", width = \"5 %\", max_seeds = 50 }";
    assert!(tier(&format!("seeds = 30\n{until}\ntier = \"gate\"\ngate_seeds = 30")).is_ok(), "20 seeds can be added");
    assert!(tier("tier = \"daily\"").unwrap_err().to_string().contains("nightly"));
}
