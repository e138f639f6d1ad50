//! Paths in scenarios: presets, every key of a direction, chains.

use thalweg_link::queue::{Discipline, HeadDrop};
use thalweg_link::trace::Trace;
use thalweg_link::{
    DIRECTION_KEYS, DirectionConfig, EcnTreatment, LossModel, PATH_KEYS, Probability, QueueLimit, RateModel, Schedule,
    Spread, Windows,
};
use thalweg_units::{Duration, Rate};

use super::super::presets;
use super::{SATELLITE, parse, share};
use crate::scenario::{Scenario, StackInfo};

#[test]
fn presets_are_what_they_say_and_can_be_overridden() {
    let head = "title = \"t\"\nquestion = \"q\"\n";
    let flow = "[[flow]]\ntransfer = { download = \"1 MB\" }\n";
    for preset in presets::PRESETS {
        let whole = parse(&format!("{head}[path.p]\npreset = \"{}\"\n{flow}", preset.name));
        let scenario = whole.unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        let one = &scenario.points[0].world.paths[0];
        assert!(one.wifi.is_some() == (preset.name == "wifi"));
        let text = format!(
            "{head}[path.p]\nup = {{ preset = \"{0}\" }}\ndown = {{ preset = \"{0}\", queue = \"77 packets\" }}\n{flow}",
            preset.name
        );
        let two = &parse(&text).unwrap().points[0].world.paths[0];
        assert_eq!(one.up, two.up);
        assert_eq!(two.down.queue, QueueLimit::Packets(77));
        assert_eq!(DirectionConfig { queue: one.down.queue, ..two.down.clone() }, one.down);
    }
    let text = format!("{head}[path.p]\npreset = \"sattelite\"\n{flow}");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("did you mean \"satellite\"?"), "{error}");
}

#[test]
fn every_impairment_is_read() {
    for (keys, check) in [
        ("loss = \"0.5 %\"", (|d| d.loss == [LossModel::Random(share(0.005))]) as fn(&DirectionConfig) -> bool),
        ("loss = [{ every = 100 }, { packets = [8, 7, 8] }]", |d| {
            let every = LossModel::Periodic { every: 100, first: 99, burst: 1 };
            d.loss == [every, LossModel::List(vec![6, 7])]
        }),
        ("loss = { burst = { enter = 0.001, leave = \"20 %\" } }", |d| {
            let (to_bad, to_good) = (share(0.001), share(0.2));
            let (loss_good, loss_bad) = (Probability::NEVER, Probability::ALWAYS);
            d.loss == [LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad }]
        }),
        ("loss = { burst = { mean_good = \"10 s\", mean_bad = \"200 ms\", bad = 0.5 } }", |d| {
            let (good, bad) = (Duration::from_secs(10), Duration::from_millis(200));
            let (loss_good, loss_bad) = (Probability::NEVER, share(0.5));
            d.loss == [LossModel::Bursts { good, bad, loss_good, loss_bad }]
        }),
        ("jitter = \"2 ms\"", |d| d.jitter.is_some_and(|jitter| !jitter.reorder)),
        ("jitter = { shape = \"exponential\", mean = \"2 ms\", reorders = true }", |d| {
            let spread = Spread::Exponential(Duration::from_millis(2));
            d.jitter.is_some_and(|jitter| jitter.spread == spread && jitter.reorder)
        }),
        ("jitter = { shape = \"contention\", mean = \"7 ms\" }", |d| {
            let spread = Spread::Contention(Duration::from_millis(7));
            d.jitter.is_some_and(|jitter| jitter.spread == spread && !jitter.reorder) && d.jitter_changes.is_none()
        }),
        ("changes = [{ at = \"1 s\", jitter = \"4 ms\" }]", |d| {
            let at =
                |seconds| d.jitter_changes.as_ref().map(|changes| changes.at(Duration::from_secs(seconds)).0.spread);
            let later = Spread::Uniform(Duration::ZERO, Duration::from_millis(8));
            at(0) == Some(Spread::Fixed(Duration::ZERO)) && at(1) == Some(later)
        }),
        ("outage = { at = \"2 s\", for = \"1 s..24 s\" }", |d| {
            let Windows::Drawn(outage) = &d.outages[0] else { return false };
            outage.lasts == (Duration::from_secs(1), Duration::from_secs(24)) && outage.every.is_none()
        }),
        (
            "suspend = [{ every = \"2 s\", for = \"200 ms\", held = \"before\" }, { at = \"9 s\", for = \"1 s\" }]",
            |d| d.suspend_before.len() == 1 && d.suspend_after.len() == 1,
        ),
        ("changes = [{ at = \"1 s\", mtu = \"1394 B\" }, { at = \"2 s\", rate = \"5 Mbps\" }]", |d| {
            let at = |schedule: &Schedule<u32>| schedule.at(Duration::from_millis(1500)).0;
            let rate =
                matches!(&d.rate, RateModel::Schedule(rate) if rate.values().last() == Some(Rate::from_bps(5_000_000)));
            d.mtu.as_ref().map(at) == Some(1394) && rate
        }),
        ("policer = { rate = \"10 Mbps\", burst = \"100 kB\" }", |d| d.policer.is_some()),
        ("ecn = \"bleach\"", |d| d.ecn == Some(Schedule::constant(EcnTreatment::Bleach))),
        ("aqm = \"head-drop\"", |d| d.discipline == HeadDrop.into()),
        ("aqm = { name = \"head-drop\" }", |d| d.discipline == HeadDrop.into()),
        ("duplicate = 0.01", |d| d.duplicate == share(0.01)),
        ("corrupt = \"1 %\"", |d| d.corrupt == share(0.01)),
    ] {
        let text = SATELLITE.replace("queue = \"1 BDP\", aqm = \"tail-drop\"", &format!("queue = \"1 BDP\", {keys}"));
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{keys}: {error}"));
        assert!(check(&scenario.points[0].world.paths[0].down), "{keys}");
    }
}

#[test]
fn every_key_of_a_path_is_accepted_as_its_documentation_writes_it() {
    let text = |path: &str| {
        format!(
            "title = \"t\"\nquestion = \"q\"\n{path}\n[[flow]]\npath = \"p\"\ntransfer = {{ download = \"1 MB\" }}\n"
        )
    };
    let other = "up = { rate = \"3 Mbps\", delay = \"5 ms\" }";
    for key in DIRECTION_KEYS {
        let rate = if ["rate", "trace"].contains(&key.name) { "" } else { "rate = \"5 Mbps\", " };
        let delay = if key.name == "delay" { "" } else { "delay = \"10 ms\", " };
        let path = format!("[path.p]\n{other}\ndown = {{ {rate}{delay}{} = {} }}", key.name, key.example);
        parse(&text(&path)).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}", key.name);
    }
    for (name, example, _) in Discipline::ALL {
        let path = format!("[path.p]\n{other}\ndown = {{ rate = \"5 Mbps\", delay = \"10 ms\", aqm = {example} }}");
        parse(&text(&path)).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Parameters have defaults.
        let bare = path.replace(example, &format!("\"{name}\""));
        assert!(parse(&text(&bare)).is_ok() && example.contains(&format!("\"{name}\"")), "{name}");
    }
    for (key, example, _) in PATH_KEYS {
        let directions =
            ["up", "down"].map(|name| if name == *key { String::new() } else { other.replace("up", name) });
        let path = match *key {
            "hops" => {
                format!("[path.home]\npreset = \"wifi\"\n[path.access]\npreset = \"lte\"\n[path.p]\nhops = {example}")
            }
            _ => format!("[path.p]\n{}\n{}\n{key} = {example}", directions[0], directions[1]),
        };
        parse(&text(&path)).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}

/// A scenario with two access links, a bottleneck, and flows over both.
fn chained(long: &str) -> String {
    let link = |delay: &str| format!("{{ rate = \"20 Mbps\", delay = \"{delay}\" }}");
    let mut text = "title = \"t\"\nquestion = \"q\"\n".to_owned();
    for (name, delay) in [("near", "5 ms"), ("far", "50 ms"), ("shared", "10 ms")] {
        text += &format!("[path.{name}]\nup = {0}\ndown = {0}\n", link(delay));
    }
    text += &format!("[path.short]\nhops = [\"near\", \"shared\"]\n[path.long]\n{long}\n");
    for path in ["short", "long"] {
        text += &format!("[[flow]]\nname = \"{path}\"\npath = \"{path}\"\ntransfer = {{ download = \"1 MB\" }}\n");
    }
    text
}

#[test]
fn a_path_may_be_a_chain_of_others() {
    let world = parse(&chained("hops = [\"far\", \"shared\"]")).unwrap().points.remove(0).world;
    assert_eq!(world.paths.len(), 3);
    let routes = ["short", "long", "far", "nowhere"].map(|name| world.route(name));
    assert_eq!(routes, [Some(vec![0, 2]), Some(vec![1, 2]), Some(vec![1]), None]);
    assert_eq!(world.round_trip(&[0, 2]), Duration::from_millis(30));
    assert_eq!(world.round_trip(&[1, 2]), Duration::from_millis(120));
}

#[test]
fn a_hop_without_delay_has_a_queue_in_bdp_if_the_flows_over_it_have_a_round_trip() {
    let none = "path.near";
    let text = chained("hops = [\"far\", \"shared\"]").replace("5 ms\"", "0 ms\", queue = \"1 BDP\"");
    parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let refused = |text: &str| {
        let error = parse(text).expect_err(text);
        let found = error.diagnostics.iter().find(|found| found.key == none);
        let found = found.unwrap_or_else(|| panic!("nothing about {none}: {error}"));
        assert!(found.message.contains("a queue in BDP is empty"), "{found}");
    };
    // Nobody takes the chain that it is in; the others have no delay either; it is in no chain.
    refused(&text.replace("path = \"short\"", "path = \"long\""));
    refused(&text.replace("10 ms\"", "0 ms\", queue = \"64 kB\""));
    refused(&text.replace("hops = [\"near\", \"shared\"]", "hops = [\"shared\"]"));
}

#[test]
fn a_chain_that_cannot_be_is_refused() {
    for (long, key, parts) in [
        ("hops = [\"fra\", \"shared\"]", "path.long.hops.0", &["did you mean \"far\"?", "near, far, shared"][..]),
        ("hops = [\"short\", \"shared\"]", "path.long.hops.0", &["near, far, shared"]),
        ("hops = [\"far\", \"far\"]", "path.long.hops.1", &["twice"]),
        ("hops = []", "path.long.hops", &["has 0 hops", "1 to 32"]),
        ("hops = \"far\"", "path.long.hops", &["is a string", "a list of paths"]),
        ("hops = [\"far\"]\nwifi = true", "path.long.wifi", &["unknown key", "accepted here: hops"]),
    ] {
        let error = parse(&chained(long)).unwrap_err();
        let found = error.diagnostics.iter().find(|diagnostic| diagnostic.key == key);
        let found = found.unwrap_or_else(|| panic!("{long}: nothing about {key}: {error}"));
        for part in parts {
            assert!(found.message.contains(part), "{part:?} is missing: {found}");
        }
    }
}

#[test]
fn a_bad_line_of_a_trace_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let text = SATELLITE.replace("rate = \"250 Mbps\"", "trace = \"link.txt\"");
    let read = |trace: &str| {
        std::fs::write(directory.path().join("link.txt"), trace).unwrap();
        Scenario::parse("q.toml", &text, directory.path(), &[StackInfo::new("thalweg")])
    };
    let scenario = read("1\n1\n5\n").unwrap();
    let Some(Trace::Mahimahi(file)) = &scenario.points[0].world.paths[0].down.trace else { panic!("no trace") };
    assert_eq!(file.trace.to_text(), "1\n1\n5\n");
    // A changed file is a changed run, even if it means the same.
    assert_ne!(read("1\n1\n5\n\n").unwrap().points[0].digest, scenario.points[0].digest);
    for (trace, part) in
        [("1\nx\n", "line 2: \"x\""), ("7\n5\n", "line 2: time 5 ms"), ("\n", "no lines"), ("0\n", "no time")]
    {
        let error = read(trace).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("path.sat.down.trace"), "{trace:?}: {error}");
    }
}

/// One path of 20 Mbps and 20 ms, whose way down has these keys.
fn with(keys: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\n[path.l]\nup = {{ rate = \"20 Mbps\", delay = \"10 ms\" }}\n\
         down = {{ rate = \"20 Mbps\", delay = \"10 ms\"{keys} }}\n[[flow]]\ntransfer = {{ download = \"1 MB\" }}\n"
    );
    parse(&text).unwrap_or_else(|error| panic!("{keys}: {error}"))
}

#[test]
fn a_queue_that_is_not_given_is_that_of_the_discipline() {
    for (keys, limit) in [
        ("", QueueLimit::Bdp(1000)),
        (", aqm = \"tail-drop\"", QueueLimit::Bdp(1000)),
        (", aqm = \"codel\"", QueueLimit::Packets(1000)),
        (", aqm = { name = \"fq-codel\", ecn = false }", QueueLimit::Packets(10_240)),
        (", aqm = \"dualpi2\"", QueueLimit::Time(Duration::from_millis(250))),
        (", aqm = \"predict\"", QueueLimit::Infinite),
        (", aqm = \"codel\", queue = \"1 BDP\"", QueueLimit::Bdp(1000)),
    ] {
        assert_eq!(with(keys).points[0].world.paths[0].down.queue, limit, "{keys}");
    }
    // A link without a rate has a queue without a limit, whatever serves it.
    let text = "title = \"t\"\nquestion = \"q\"\n[path.l]\nup = { rate = \"unlimited\", delay = \"10 ms\", \
                aqm = \"dualpi2\" }\ndown = { trace = \"lte\", delay = \"10 ms\", aqm = \"cobalt\" }\n\
                [[flow]]\ntransfer = { download = \"1 MB\" }\n";
    let path = &parse(text).unwrap().points[0].world.paths[0];
    assert_eq!((path.up.queue, path.down.queue), (QueueLimit::Infinite, QueueLimit::Bytes(4 << 20)));
}

#[test]
fn a_queue_too_short_for_its_discipline_is_warned_about() {
    let warnings = |keys: &str| with(keys).remarks.warnings;
    let pie = warnings(", aqm = \"pie\", queue = \"1 BDP\"");
    let [warning] = pie.as_slice() else { panic!("{pie:?}") };
    for part in [
        "path.l.down: queue = \"1 BDP\" holds 20 ms at 20 Mbps",
        "pie needs room for its target of 15 ms and a burst of 150 ms, 165 ms",
        "leave queue out for the default of pie, \"1000 packets\", or write \"165 ms\" or more",
    ] {
        assert!(warning.contains(part), "{warning}");
    }
    // Thirty packets of 1,500 bytes take 18 ms.
    assert!(warnings(", aqm = \"red\", queue = \"29 packets\"")[0].contains("write \"18 ms\""));
    for keys in [
        "",
        ", queue = \"3 packets\"",
        ", aqm = \"pie\"",
        ", aqm = \"pie\", queue = \"unlimited\"",
        ", aqm = \"pie\", queue = \"165 ms\"",
        ", aqm = \"red\", queue = \"30 packets\"",
        ", aqm = \"dualpi2\", queue = \"1 BDP\"",
        ", aqm = \"predict\", queue = \"1 BDP\"",
    ] {
        assert_eq!(warnings(keys), [""; 0], "{keys}");
    }
    // Each once, at however many points.
    let vary = "[vary]\n\"flow.0.policies.controller\" = [\"cubic\", \"new-reno\"]\n";
    let several = parse(&format!("{}{vary}", with(", aqm = \"codel\", queue = \"5 ms\"").text)).unwrap();
    assert_eq!((several.points.len(), several.remarks.warnings.len()), (2, 1));
}
