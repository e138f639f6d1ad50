use std::path::Path;

use thalweg_link::{RateModel, Spread};
use thalweg_sim::traffic::{Flows, Page, Requests};
use thalweg_sim::{HostModel, Traffic};
use thalweg_units::Rate;

use super::*;
use crate::metric::Scope;
use crate::record::{DELIVERY_SHARES, Delivery};
use crate::scenario::Scenario;

fn world(path: &str, flow: &str) -> World {
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"30 s\"\n[path.p]\n{path}\n[[flow]]\nname = \"f\"\n{flow}\n"
    );
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
    scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world
}

const HOME: &str = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\ndown = { rate = \"20 Mbps\", delay = \"10 ms\" }";

fn run(path: &str, flow: &str) -> RunRecord {
    SimEngine::default().run(&world(path, flow), 1, false).record
}

fn value(record: &RunRecord, metric: &str) -> f64 {
    let values = record.get(Scope::Flow, "f", metric);
    *values.first().unwrap_or_else(|| panic!("no {metric}: {record:?}"))
}

#[test]
fn a_download_gives_its_figures() {
    let record = run(HOME, "transfer = { download = \"2 MB\" }");
    assert_eq!(record.failed, None);
    assert_eq!(value(&record, "completed"), 1.0);
    let over = value(&record, "completion_over_floor");
    assert!((1.0..1.6).contains(&over), "{over}");
    // A handshake adds a round trip to the floor, and this transfer began with one.
    let cold = value(&record, "completion_over_cold_floor");
    assert!(cold >= 1.0 && cold < over, "{cold}, {over}");
    assert!(value(&record, "packets_sent") > 1_400.0 && value(&record, "handshake") > 0.02);
    assert!(value(&record, "auc_delivered") > 0.5 && value(&record, "auc_delivered") <= 1.0);
    let limits: f64 = ["application", "window", "pacing", "flow_control"]
        .iter()
        .map(|limit| value(&record, &format!("limited_by_{limit}")))
        .sum();
    assert!((0.9..=1.0001).contains(&limits), "{limits}");
    assert_eq!(record.get(Scope::Run, "", "success"), [1.0]);
    let carried = record.get(Scope::Link, "p.down", "link_bytes")[0];
    assert!(carried > 2e6 && carried < 2.3e6, "{carried}");
    assert!(record.flows[0].notes["floor"].contains("of propagation"));
    assert_eq!(record.wire_hash.len(), 32);
}

#[test]
fn same_seed_same_hash_and_recording_changes_nothing() {
    let world = world(HOME, "transfer = { download = \"500 kB\" }");
    let engine = SimEngine::default();
    let one = engine.run(&world, 7, false);
    let two = engine.run(&world, 7, true);
    assert_eq!(one.record, two.record);
    assert_ne!(one.record.wire_hash, engine.run(&world, 8, false).record.wire_hash);
    let recording = two.recording.unwrap();
    let names: Vec<&str> = recording.series.iter().map(|series| series.name.as_str()).collect();
    for name in ["window", "in_flight", "rtt", "delivered", "queue", "sojourn"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let window = &recording.series[0];
    assert_eq!(window.states[0].1, "slow start");
    assert!(window.t.is_sorted() && window.t.len() == window.v.len());
    assert!(recording.packets[0].sent.len() > 300);
    let sent = two.record.get(Scope::Flow, "f", "bytes_sent")[0];
    let packets = &recording.packets[0];
    assert_eq!(packets.bytes.len(), packets.sent.len());
    assert!(packets.bytes.is_sorted());
    // All of it but the handshake is in packets with application data.
    let counted = *packets.bytes.last().unwrap() as f64;
    assert!(counted > 500_000.0 && counted <= sent, "{counted} of {sent}");
}

#[test]
fn what_tcp_sends_again_is_where_it_was() {
    let flow = "stack = \"tcp\"\ntransfer = { download = \"2 MB\" }";
    let lossy = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\n\
        down = { rate = \"20 Mbps\", delay = \"10 ms\", loss = \"1 %\" }";
    let recording = SimEngine::default().run(&world(lossy, flow), 1, true).recording.unwrap();
    let packets = &recording.packets[0];
    let places: std::collections::BTreeMap<u64, u64> =
        packets.sent.iter().zip(&packets.bytes).map(|((_, number), bytes)| (*number, *bytes)).collect();
    assert!(places.len() < packets.sent.len(), "something is sent again");
    assert!(packets.sent.iter().zip(&packets.bytes).all(|((_, number), bytes)| places[number] == *bytes));
    assert!(places.values().is_sorted());
}

#[test]
fn real_and_null_protection_do_the_same() {
    let mut world = world(HOME, "transfer = { download = \"500 kB\" }");
    let real = SimEngine::default().run(&world, 7, false).record;
    world.crypto = world::Crypto::Null;
    assert_eq!(SimEngine::default().run(&world, 7, false).record, real);
}

#[test]
fn every_traffic_gives_its_own_metrics() {
    for (traffic, metric) in [
        ("transfer = { upload = \"500 kB\" }", "completion_over_floor"),
        ("stack = \"tcp\"\ntransfer = { upload = \"500 kB\" }", "completion_over_cold_floor"),
        ("requests = { response = \"20 kB\", count = 10 }", "response"),
        ("on_off = { burst = \"100 kB\", pause = \"200 ms\", count = 4 }", "response"),
        ("short_flows = { every = \"100 ms\", count = 10, size = \"30 kB\", spread = 4 }", "flow_completion"),
        ("page = { objects = [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }] }", "response"),
        ("media = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"2 s\" }", "deadline_misses"),
        ("datagrams = { rate = \"1 Mbps\", duration = \"2 s\", direction = \"up\" }", "frame_delay"),
        ("call = { duration = \"2 s\" }", "call_delay_mean"),
        ("call = { duration = \"2 s\", direction = \"up\" }", "frame_delay"),
        ("stack = \"raw\"\ndatagrams = { rate = \"1 Mbps\", duration = \"2 s\" }", "frame_delay"),
    ] {
        let record = run(HOME, traffic);
        assert_eq!(record.failed, None, "{traffic}");
        assert!(value(&record, metric).is_finite(), "{traffic}");
        assert_eq!(value(&record, "completed"), 1.0, "{traffic}");
    }
}

#[test]
fn every_preset_runs() {
    for preset in crate::scenario::presets::PRESETS {
        let record = run(&format!("preset = \"{}\"", preset.name), "transfer = { download = \"1 MB\" }");
        assert_eq!(record.failed, None, "{}", preset.name);
    }
}

#[test]
fn silence_is_counted_from_the_repair() {
    let outage = "outage = { at = \"500 ms\", for = \"1 s..3 s\" }\n";
    let record = run(&format!("{outage}{HOME}"), "transfer = { download = \"4 MB\" }");
    assert_eq!(record.failed, None);
    let silence = value(&record, "silence_after_repair");
    assert!(silence > 0.01 && silence < 4.0, "{silence}");
    assert!(value(&record, "ptos") >= 2.0);
    // Nothing to repair, nothing to tell.
    assert!(run(HOME, "transfer = { download = \"4 MB\" }").get(Scope::Flow, "f", "silence_after_repair").is_empty());
}

#[test]
fn the_time_of_interruptions_is_taken_off_once() {
    let ms = Duration::from_millis;
    // Two directions with the same outage, one that overlaps it, one before the flow and one after it.
    let stops = [(ms(0), ms(50)), (ms(500), ms(900)), (ms(500), ms(900)), (ms(800), ms(1_000)), (ms(1_900), ms(3_000))];
    assert_eq!(collect::interrupted(&stops, ms(40), ms(2_000)), ms(10 + 500 + 100));
    assert_eq!(collect::interrupted(&[], ms(40), ms(2_000)), Duration::ZERO);
    let held = "suspend = { at = \"500 ms\", for = \"250 ms\" }\n";
    let record = run(&format!("{held}{HOME}"), "transfer = { download = \"4 MB\" }");
    let (whole, less) = (value(&record, "completion"), value(&record, "completion_less_interruptions"));
    assert!((whole - less - 0.25).abs() < 1e-9, "{whole} {less}");
}

#[test]
fn drawn_times_differ_from_seed_to_seed_and_are_the_same_both_ways() {
    let outage = "outage = { at = \"500 ms\", for = \"1 s..24 s\" }\n";
    let world = world(&format!("{outage}{HOME}"), "transfer = { download = \"4 MB\" }");
    let draw = |seed| plan(&world, seed, false).unwrap();
    let (one, spans) = draw(1);
    assert_eq!(one.paths[0].up.outages, one.paths[0].down.outages);
    assert_eq!(spans.spans, draw(1).1.spans);
    assert_ne!(spans.spans, draw(2).1.spans);
    assert_ne!(one.flows[0].start, draw(2).0.flows[0].start);
    assert!(one.flows[0].start < Duration::from_millis(20));
}

#[test]
fn what_cannot_finish_ends_at_the_limit_and_says_so() {
    let dead =
        "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\ndown = { rate = \"20 Mbps\", delay = \"10 ms\", loss = 1.0 }";
    let record = run(dead, "transfer = { download = \"1 MB\" }");
    assert_eq!(record.get(Scope::Run, "", "success"), [0.0]);
    assert_eq!(value(&record, "completed"), 0.0);
    assert!(record.get(Scope::Flow, "f", "completion").is_empty());
    assert!(record.failed.is_some(), "{record:?}");
}

#[test]
fn changes_of_rate_and_mtu_reach_the_link() {
    let path = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\ndown = { rate = \"20 Mbps\", delay = \"10 ms\", mtu = \"1500 B\", changes = [{ at = \"0 s\", rate = \"10 Mbps\" }, { at = \"1 s\", rate = \"2 Mbps\", mtu = \"1300 B\" }] }";
    let (plan, _) = plan(&world(path, "transfer = { download = \"1 MB\" }"), 1, false).unwrap();
    let down = &plan.paths[0].down;
    let RateModel::Schedule(rate) = &down.rate else { panic!("{:?}", down.rate) };
    assert_eq!(rate.values().map(|rate| rate.bps()).collect::<Vec<_>>(), [10_000_000, 2_000_000]);
    assert_eq!(down.mtu.as_ref().unwrap().at(Duration::from_secs(2)).0, 1300);
    assert_eq!(plan.paths[0].up.mtu, None);
}

#[test]
fn a_microsecond_is_all_that_a_seed_changes_if_asked() {
    let rough = HOME.replace(
        "delay = \"10 ms\" }",
        "delay = \"10 ms\", loss = \"1 %\", outage = { at = \"200 ms\", for = \"1 ms..900 ms\" } }",
    );
    let mut world = world(&rough, "transfer = { download = \"2 MB\" }");
    let plans = |world: &World| [1, 2].map(|seed| plan(world, seed, false).unwrap().0);
    let [one, other] = plans(&world);
    assert!(one.seed != other.seed && one.paths[0].down.outages != other.paths[0].down.outages);
    world.perturb = Perturb::Microsecond;
    let [one, other] = plans(&world);
    assert_eq!(one.seed, other.seed);
    assert_ne!(one.endpoint_seed, other.endpoint_seed);
    assert_eq!((one.flows[0].start, &one.paths[0].down.outages), (other.flows[0].start, &other.paths[0].down.outages));
    for plan in [&one, &other] {
        let shifts: Vec<_> =
            plan.paths.iter().flat_map(|path| [&path.up, &path.down]).flat_map(|way| &way.shifts).collect();
        assert!(matches!(shifts[..], [(0..200, by)] if *by == Duration::from_micros(1)), "{shifts:?}");
    }
}

#[test]
fn an_acknowledgment_is_all_that_a_seed_loses_if_asked() {
    let rough = HOME.replace("delay = \"10 ms\" }", "delay = \"10 ms\", loss = \"1 %\" }");
    for (traffic, is_up) in [("transfer = { download = \"2 MB\" }", true), ("transfer = { upload = \"2 MB\" }", false)]
    {
        let mut world = world(&rough, traffic);
        let before = world.paths[0].up.loss.len() + world.paths[0].down.loss.len();
        world.perturb = Perturb::Ack;
        let mut seen = std::collections::BTreeSet::new();
        for seed in 1..20 {
            let plan = plan(&world, seed, false).unwrap().0;
            let path = &plan.paths[0];
            let (against, along) = if is_up { (&path.up, &path.down) } else { (&path.down, &path.up) };
            assert_eq!(against.loss.len() + along.loss.len(), before + 1);
            let Some(thalweg_link::LossModel::List(lost)) = against.loss.last() else { panic!("{against:?}") };
            assert!(matches!(lost[..], [10..200]), "{lost:?}");
            assert!(against.shifts.is_empty() && along.shifts.is_empty());
            seen.insert(lost.clone());
        }
        assert!(seen.len() > 10);
    }
}

#[test]
fn tcp_runs_as_it_is_told_and_gives_its_figures() {
    let path = HOME.replace("down = { rate", "down = { queue = \"20 BDP\", loss = { packets = [40] }, rate");
    let tcp = "stack = \"tcp\"\npolicies = \"start=standard\"\ntransfer = { download = \"200 kB\" }\ntcp = { initial_window = 20, time_threshold = false }";
    let record = run(&path, tcp);
    assert_eq!(record.failed, None);
    assert!(record.flows[0].notes["settings"].contains("initial window 28960 B"), "{record:?}");
    assert_eq!((value(&record, "retransmissions"), value(&record, "timeouts")), (1.0, 0.0));
    assert_eq!((value(&record, "lost_retransmissions"), value(&record, "congestion_events")), (0.0, 1.0));
    assert_eq!(value(&record, "recovery_entry_above"), 1.0);
    assert!(value(&record, "recovery_end_window") >= 2.0);
    assert!((1.0..2.5).contains(&value(&record, "completion_over_floor")));
    let recording = SimEngine::default().run(&world(&path, tcp), 1, true).recording.unwrap();
    let packets = &recording.packets[0];
    assert!(packets.sent.len() >= 138 && packets.acked.len() > 25 && packets.lost.len() == 1, "{packets:?}");
}

#[test]
fn a_paced_tcp_is_the_shipped_one_with_cubic() {
    let of = |tcp: &str| {
        let flow = format!("stack = \"tcp\"\ntransfer = {{ download = \"2 MB\" }}\n{tcp}");
        let record = run(HOME, &flow);
        (value(&record, "completion"), value(&record, "packets_sent"), record.wire_hash)
    };
    let paced = of("tcp = { profile = \"paced\" }");
    assert_eq!(paced, of("tcp = { profile = \"shipped\" }\npolicies = \"controller=cubic\""));
    assert_ne!(paced, of(""));
    assert_eq!(of(""), of("tcp = { profile = \"linux\" }\npolicies = \"controller=cubic, start=hystart\""));
}

#[test]
fn traffic_and_hosts_are_what_the_scenario_says() {
    let flow = |text: &str| world(HOME, text).flows[0].plan(|_| Ok(vec![0])).unwrap();
    let Traffic::Flows(Flows { arrivals, size, new_connections, .. }) =
        flow("short_flows = { every = \"10 ms\", arrivals = \"regular\", count = 5, size = \"30 kB\", pareto = 2, one_connection = true }").traffic
    else {
        panic!("not flows")
    };
    assert_eq!((arrivals, new_connections), (Spread::Fixed(Duration::from_millis(10)), false));
    let mut dice = Streams::new(1).dice("sizes");
    let below = (0..20_000).filter(|_| size.draw(&mut dice) < 30_000).count();
    assert!((9_700..10_300).contains(&below), "{below}: the size is to be the median");
    let endless = flow("short_flows = { every = \"10 ms\", count = 5, size = \"endless\" }").traffic;
    assert!(endless.is_endless());
    let Traffic::Requests(Requests { think, .. }) =
        flow("on_off = { burst = \"1 MB\", pause = \"50 ms\", pauses = \"uniform\", count = 3 }").traffic
    else {
        panic!("not bursts")
    };
    assert_eq!(think, Spread::Uniform(Duration::ZERO, Duration::from_millis(100)));
    let Traffic::Page(Page(objects)) = flow(
        "page = { objects = [{ size = \"9 kB\" }, { size = \"1 kB\", after = [0], delay = \"5 ms\", times = 3 }] }",
    )
    .traffic
    else {
        panic!("not a page")
    };
    let delays: Vec<_> = objects.iter().map(|object| object.delay.as_millis()).collect();
    assert_eq!(delays, [0, 5, 10, 15]);
    assert!(objects[1..].iter().all(|object| object.after == [0]));
    let host = flow("transfer = { download = \"1 MB\" }\nhost = { timer = \"1 ms\", wake = \"50 us\", nic = \"1 Gbps\", batch = 32 }").client_host;
    assert_eq!(
        (host.timer_granularity, host.wake_delay, host.batch),
        (Duration::from_millis(1), Duration::from_micros(50), 32)
    );
    assert_eq!((host.receive_delay, host.nic), (Duration::ZERO, Some(Rate::from_bps(1_000_000_000))));
    let coarse = flow("transfer = { download = \"1 MB\" }\nhost = \"linux-coarse\"").server_host;
    assert_eq!(coarse, HostModel::LINUX_COARSE);
}

#[test]
fn what_a_stack_does_not_count_has_no_value() {
    let none = |record: &RunRecord, metrics: &[&str]| {
        for metric in metrics {
            assert!(record.get(Scope::Flow, "f", metric).is_empty(), "{metric}");
        }
    };
    let raw = run(HOME, "stack = \"raw\"\ndatagrams = { rate = \"1 Mbps\", duration = \"1 s\" }");
    none(
        &raw,
        &["packets_spurious", "ptos", "bytes_sent", "packets_lost", "max_window", "rtt", "min_rtt", "loss_rate"],
    );
    let tcp = run(HOME, "stack = \"tcp\"\ntransfer = { download = \"200 kB\" }");
    none(&tcp, &["early_probes", "persistent_congestions"]);
    assert_eq!(value(&tcp, "packets_spurious"), 0.0);
    let ours = run(HOME, "transfer = { download = \"200 kB\" }");
    assert_eq!((value(&ours, "packets_spurious"), value(&ours, "early_probes")), (0.0, 0.0));
    assert!(value(&ours, "packets_sent") > 140.0);
}

#[test]
fn a_connection_that_dies_in_the_dark_is_silent_for_ever() {
    let outage = "outage = { at = \"500 ms\", for = \"4 s\" }\n";
    let flow =
        "transfer = { download = \"4 MB\" }\npolicies = { probe = \"rfc\" }\ntransport = { idle_timeout = \"4.2 s\" }";
    let record = run(&format!("{outage}{HOME}"), flow);
    assert!(record.failed.is_some() && value(&record, "completed") == 0.0, "{record:?}");
    assert!(record.get(Scope::Flow, "f", "silence_after_repair").is_empty());
    assert!(record.is_never("f", "silence_after_repair"));
}

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
fn a_run_knows_the_mean_and_the_last_of_its_completions() {
    let flow = |name: &str, size: &str| {
        format!("[[flow]]\nname = \"{name}\"\npath = \"p\"\ntransfer = {{ download = \"{size}\" }}\n")
    };
    let record = |sizes: [&str; 2], limit: &str| {
        let flows = flow("f", sizes[0]) + &flow("g", sizes[1]);
        let text = format!("title = \"t\"\nquestion = \"q\"\ntime_limit = \"{limit}\"\n[path.p]\n{HOME}\n{flows}");
        let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
        let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
        SimEngine::default().run(&world, 1, false).record
    };
    let done = record(["100 kB", "400 kB"], "20 s");
    let [first, last] = ["f", "g"].map(|name| done.get(Scope::Flow, name, "completion")[0]);
    assert!(first < last);
    assert_eq!(done.get(Scope::Run, "", "completion_last"), [last]);
    assert_eq!(done.get(Scope::Run, "", "completion_mean"), [(first + last) / 2.0]);
    let undone = record(["100 kB", "1 GB"], "1 s");
    assert!(undone.get(Scope::Run, "", "completion_last").is_empty());
    assert!(undone.get(Scope::Run, "", "completion_mean").is_empty());
}

/// Two downloads, over a near and a far access link, that share a bottleneck of 10 Mbps. `far` are more keys of the far
/// one.
fn two_round_trips(far: &str, transfer: &str) -> World {
    let path = |name: &str, rate: &str, delay: &str| {
        let way = format!("{{ rate = \"{rate}\", delay = \"{delay}\" }}");
        format!("[path.{name}]\nup = {way}\ndown = {way}\n")
    };
    let flow = |name: &str| {
        format!(
            "[path.{name}]\nhops = [\"to-{name}\", \"shared\"]\n\
             [[flow]]\nname = \"{name}\"\npath = \"{name}\"\nphase = false\n\
             transfer = {{ download = {transfer} }}\npolicies = {{ controller = \"new-reno\", start = \"standard\" }}\n"
        )
    };
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\nhost_delay = false\n{}{}{far}\n{}{}{}",
        path("to-near", "100 Mbps", "5 ms"),
        path("to-far", "100 Mbps", "50 ms"),
        path("shared", "10 Mbps", "10 ms"),
        flow("near"),
        flow("far")
    );
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
    scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world
}

#[test]
fn flows_of_different_round_trips_share_a_bottleneck() {
    let world = two_round_trips("", "\"endless\"");
    let (plan, _) = plan(&world, 1, false).unwrap();
    assert_eq!(plan.flows.iter().map(|flow| flow.route.clone()).collect::<Vec<_>>(), [[0, 2], [1, 2]]);
    let ms = Duration::from_millis;
    // A queue of one BDP is that of the longest round trip over the link.
    let round_trips = plan.paths.iter().map(|path| path.down.round_trip).collect::<Vec<_>>();
    assert_eq!(round_trips, [ms(30), ms(120), ms(120)]);
    let record = SimEngine::default().run(&world, 1, false).record;
    assert_eq!(record.failed, None);
    let of = |flow: &str, metric: &str| record.get(Scope::Flow, flow, metric)[0];
    for (flow, least) in [("near", 0.03), ("far", 0.12)] {
        let rtt = of(flow, "min_rtt");
        assert!((least..least + 0.02).contains(&rtt), "{flow}: {rtt}");
    }
    let used = record.get(Scope::Link, "shared.down", "link_use")[0];
    assert!((0.9..=1.0).contains(&used), "{used}");
    let access = ["to-near.down", "to-far.down"].map(|link| record.get(Scope::Link, link, "link_bytes")[0]);
    let carried = record.get(Scope::Link, "shared.down", "link_bytes")[0];
    assert!((access[0] + access[1]) / carried > 0.98 && access[0] + access[1] <= carried, "{access:?} of {carried}");
    let fairness = record.get(Scope::Run, "", "fairness")[0];
    let (near, far) = (of("near", "goodput"), of("far", "goodput"));
    assert!((0.5..0.999).contains(&fairness) && near > far, "{fairness}: {near} and {far}");
}

#[test]
fn the_floor_of_a_chain_is_that_of_all_its_hops() {
    let mut world = two_round_trips("", "\"1 MB\"");
    world.flows.truncate(1);
    let (plan, _) = plan(&world, 1, false).unwrap();
    let floor = thalweg_sim::run(&plan).unwrap().flows[0].floor.unwrap();
    // The request of 1,228 bytes and one packet of the data cross the access link at 100 Mbps, all else the bottleneck.
    let wire = 1_000_000 + floor.packets * 62;
    let last = wire - (floor.packets - 1) * 1480;
    let nanos = 1228 * 800 + 1228 * 80 + wire * 800 + last * 80;
    assert_eq!(floor.total, Duration::from_nanos(nanos) + Duration::from_millis(30));
    assert_eq!(floor.round_trip, Duration::from_millis(30));
    let record = SimEngine::default().run(&world, 1, false).record;
    let over = record.get(Scope::Flow, "near", "completion_over_floor")[0];
    assert!((1.0..1.5).contains(&over), "{over}");
}

#[test]
fn a_wifi_hop_may_stand_before_a_mobile_one() {
    let chain = "preset = \"wifi\"\n[path.access]\npreset = \"lte\"\n[path.both]\nhops = [\"p\", \"access\"]";
    let world = world(chain, "path = \"both\"\ntransfer = { download = \"1 MB\" }");
    let record = SimEngine::default().run(&world, 1, false).record;
    assert_eq!(record.failed, None);
    let carried = ["p.down", "access.down"].map(|link| record.get(Scope::Link, link, "link_bytes")[0]);
    // The Wi-Fi hop comes last on the way down, and gets what the mobile one delivers.
    assert!(carried[0] > 1e6 && carried[0] <= carried[1], "{carried:?}");
    // 50 ms of the mobile hop; the Wi-Fi hop adds some to each packet.
    let rtt = value(&record, "min_rtt");
    assert!((0.05..0.08).contains(&rtt), "{rtt}");
}

#[test]
fn an_outage_of_any_hop_interrupts_the_flows_that_cross_it() {
    let world = two_round_trips("outage = { at = \"1 s\", for = \"2 s\" }", "\"4 MB\"");
    let (_, stops) = plan(&world, 1, false).unwrap();
    let seconds = Duration::from_secs;
    assert_eq!(stops.spans, [vec![], vec![(seconds(1), seconds(3))]]);
}

#[test]
fn a_flow_that_moves_is_interrupted_by_the_path_that_it_is_on() {
    let outages = "{ at = \"500 ms\", for = \"1 s\" }, { at = \"3 s\", for = \"10 s\" }";
    let link = "{ rate = \"20 Mbps\", delay = \"10 ms\", queue = \"1 BDP\" }";
    let paths = format!(
        "{HOME}\noutage = [{outages}]\n[path.other]\nup = {link}\ndown = {link}\n\
         outage = [{{ at = \"0 s\", for = \"1 s\" }}, {{ at = \"1500 ms\", for = \"1 s\" }}, {{ at = \"4 s\", for = \"500 ms\" }}]"
    );
    let moved = "path = \"p\"\nmove = { at = \"2 s\", to = \"other\", notice = true }\nrebind = \"3 s\"\n\
                 phase = false\ntransfer = { download = \"40 MB\" }";
    let world = world(&paths, moved);
    let (_, stops) = plan(&world, 1, false).unwrap();
    let ms = Duration::from_millis;
    // Of the path that it leaves the first outage, of the other what is left of the second, and the third.
    assert_eq!(stops.spans, [[(ms(500), ms(1_500)), (ms(2_000), ms(2_500)), (ms(4_000), ms(4_500))]]);
    let record = SimEngine::default().run(&world, 1, false).record;
    assert_eq!(record.failed, None);
    let lost = value(&record, "completion") - value(&record, "completion_less_interruptions");
    assert!((lost - 2.0).abs() < 1e-9, "{lost}");
}

#[test]
fn a_managed_queue_is_measured_by_direction_and_by_flow() {
    let flow =
        |name: &str| format!("[[flow]]\nname = \"{name}\"\nstack = \"tcp\"\ntransfer = {{ download = \"4 MB\" }}\n");
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\n[path.p]\nup = {{ rate = \"20 Mbps\", delay = \"20 ms\" }}\n\
         down = {{ rate = \"20 Mbps\", delay = \"20 ms\", queue = \"unlimited\", aqm = {{ name = \"codel\", target = \"4 ms\" }} }}\n{}{}",
        flow("a"),
        flow("b")
    );
    let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
    let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
    let Output { record, recording } = SimEngine::default().run(&world, 1, true);
    let recording = recording.unwrap();
    let series = |subject: &str, name: &str| {
        recording.series.iter().find(|series| series.subject == subject && series.name == name).map(|series| &series.v)
    };
    let last = |name| *series("p.down", name).unwrap().last().unwrap();
    assert!(series("p.down", "dropping").unwrap().contains(&1.0) && last("count") >= 1.0);
    assert_eq!(last("early_dropped"), record.get(Scope::Link, "p.down", "link_early_dropped")[0]);
    assert!(series("p.up", "early_dropped").is_none(), "nobody manages that queue");
    let link = |metric| record.get(Scope::Link, "p.down", metric)[0];
    let of = |flow: &str, metric: &str| record.get(Scope::Flow, flow, metric)[0];
    assert!(link("link_early_dropped") > 0.0);
    assert_eq!(link("link_early_dropped"), link("link_queue_dropped"), "an unlimited queue drops nothing else");
    let longest = of("a", "flow_sojourn_max").max(of("b", "flow_sojourn_max"));
    assert_eq!(longest, link("sojourn_max"));
    let best = of("a", "flow_sojourn_max").min(of("b", "flow_sojourn_max"));
    assert_eq!(record.get(Scope::Run, "", "flow_sojourn_worst"), [longest]);
    assert_eq!(record.get(Scope::Run, "", "flow_sojourn_best"), [best]);
    let rest = of("a", "completion") - of("a", "handshake");
    assert!((of("a", "completion_after_handshake") - rest).abs() < 1e-9);
    assert!((0.04..0.06).contains(&of("a", "handshake")), "a round trip: {}", of("a", "handshake"));
    for flow in ["a", "b"] {
        let values = ["p50", "p95", "p99", "max"].map(|name| of(flow, &format!("flow_sojourn_{name}")));
        assert!(values.is_sorted() && values[3] > 0.005, "{values:?}");
    }
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
fn the_silence_after_a_move_ends_with_new_data_or_never() {
    let link = "{ rate = \"20 Mbps\", delay = \"30 ms\" }";
    let run = |lines: &str| {
        let text = format!(
            "title = \"t\"\nquestion = \"q\"\ntime_limit = \"60 s\"\n[path.a]\nup = {link}\ndown = {link}\n\
             outage = {{ at = \"900 ms\", for = \"59 s\" }}\n[path.b]\nup = {link}\ndown = {link}\n\
             [[flow]]\nname = \"f\"\npath = \"a\"\ntransfer = {{ download = \"5 MB\" }}\n{lines}\n"
        );
        let scenario = Scenario::parse("t.toml", &text, Path::new(""), &SimEngine::default().stacks());
        let world = scenario.unwrap_or_else(|error| panic!("{error}")).points.remove(0).world;
        SimEngine::default().run(&world, 1, false).record
    };
    let told = run("move = { at = \"1 s\", to = \"b\", notice = true }");
    assert_eq!(told.failed, None);
    let silence = value(&told, "silence_after_move");
    // A round trip until the server has heard of it, another to repair what was lost.
    assert!((0.06..0.2).contains(&silence), "{silence}");
    // The floor of one path says nothing of two.
    assert!(told.get(Scope::Flow, "f", "completion_over_floor").is_empty());
    assert!(told.get(Scope::Flow, "f", "completion_over_cold_floor").is_empty());
    // Who is not told goes on when a timer makes it send something.
    let untold = run("move = { at = \"1 s\", to = \"b\", notice = false }");
    assert!(value(&untold, "silence_after_move") > silence, "{untold:?}");
    let dead = run("stack = \"tcp\"\nrebind = \"800 ms\"");
    assert!(dead.failed.is_some() && dead.is_never("f", "silence_after_move"));
    for path in ["a.down", "b.down"] {
        assert!(told.get(Scope::Link, path, "link_use")[0] > 0.0, "{path}");
    }
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

#[test]
fn the_smallest_and_the_largest_of_many_are_kept() {
    let mut part = crate::record::Part::default();
    collect::set_many(&mut part, "response", (1..=5_000).rev().map(f64::from).collect(), 0);
    let values = &part.values["response"];
    assert_eq!((values.len(), values[0], values[999]), (1_000, 1.0, 5_000.0));
    // No bound from above gains by the thinning.
    assert!(values[989] >= 4_950.0 && values[499] >= 2_500.0, "{} {}", values[989], values[499]);
    assert!(part.never.is_empty());
    // Of 5,000 with an end and 5,000 without, half of the thousand have none; of few, all are kept.
    let mut part = crate::record::Part::default();
    collect::set_many(&mut part, "response", (1..=5_000).map(f64::from).collect(), 5_000);
    assert_eq!((part.values["response"].len(), part.never["response"]), (500, 500));
    collect::set_many(&mut part, "flow_completion", vec![2.0, 1.0], 1);
    assert_eq!((&part.values["flow_completion"][..], part.never["flow_completion"]), (&[2.0, 1.0][..], 1));
    let mut part = crate::record::Part::default();
    collect::set_many(&mut part, "response", Vec::new(), 10_000_000);
    assert_eq!((part.values.len(), part.never["response"]), (0, 1_000));
    let mut sketch = thalweg_link::Quantiles::default();
    (1..=3_000).for_each(|n| sketch.record(Duration::from_micros(7 * n)));
    let (values, never) = collect::percentiles(&sketch, 0);
    assert_eq!((values.len(), values[0], values[999], never), (1_000, 7e-6, 21e-3, 0));
    let (values_of_more, never) = collect::percentiles(&sketch, 1_000);
    assert_eq!((values_of_more.len(), values_of_more[749], never), (750, 21e-3, 250));
    assert!(values.is_sorted() && (values[500] - 10.5e-3).abs() < 0.4e-3, "{}", values[500]);
    // Few are kept as they are.
    let mut few = thalweg_link::Quantiles::default();
    [102_600, 51_300].into_iter().for_each(|micros| few.record(Duration::from_micros(micros)));
    assert_eq!(collect::percentiles(&few, 1), (vec![51.3e-3, 102.6e-3], 1));
    assert_eq!(collect::percentiles(&thalweg_link::Quantiles::default(), 0), (vec![], 0));
}

#[test]
fn every_seed_on_a_clean_link_is_a_run_of_its_own() {
    let distinct = |stack: &str, delays: bool| {
        let mut world = world(HOME, &format!("stack = \"{stack}\"\ntransfer = {{ download = \"500 kB\" }}"));
        world.host_delay = delays;
        let completion = |seed| value(&SimEngine::default().run(&world, seed, false).record, "completion");
        let mut all: Vec<u64> = (1..=10).map(|seed| (completion(seed) * 1e9).round() as u64).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    assert!(world(HOME, "transfer = { download = \"500 kB\" }").host_delay);
    assert_eq!([distinct("tcp", true), distinct("thalweg", true)], [10; 2]);
    // TCP draws nothing; QUIC leaves out packet numbers by chance, each of which costs an acknowledgment.
    assert_eq!(distinct("tcp", false), 1);
}

#[test]
fn a_default_queue_lets_packets_through_on_any_path() {
    // One BDP of the first is 640 bytes.
    for delay in ["10 ms", "25 ms", "30 ms", "40 ms"] {
        let path = format!(
            "up = {{ rate = \"256 kbps\", delay = \"10 ms\" }}\ndown = {{ rate = \"256 kbps\", delay = \"{delay}\" }}"
        );
        let record = run(&path, "transfer = { download = \"50 kB\" }");
        assert_eq!(record.failed, None, "{delay}");
        assert!(value(&record, "completion_over_floor") < 3.0, "{delay}: {record:?}");
    }
}

#[test]
fn a_failed_run_says_what_the_link_dropped() {
    let path = HOME.replace("down = { rate", "down = { queue = \"1300 B\", loss = { packets = [1, 2] }, rate");
    let text = "requests = { response = \"2 MB\", count = 900 }";
    let failed = run(&path, text).failed.unwrap();
    assert!(failed.contains("; path \"p\" down dropped ") && failed.contains("queue full (limit 1.3 kB) "), "{failed}");
    assert!(failed.contains(", loss 2"), "{failed}");
}

#[test]
fn the_note_on_acknowledgments_says_when_they_are_sent() {
    let world = world(HOME, "transfer = { download = \"20 kB\" }");
    let record = SimEngine::default().run(&world, 1, false).record;
    let said = &record.flows[0].notes["acknowledgments"];
    assert!(said.contains("held back for a quarter of the shortest round trip, at most 25 ms"), "{said}");
    assert!(said.ends_with("on request as asked for, with a delay of 1 ms or more"), "{said}");
}

fn shares(record: &RunRecord) -> (u64, Vec<f64>, Vec<f64>) {
    match record.flows[0].delivery.clone() {
        Some(Delivery::Shares { whole, times, floor }) => (whole, times, floor),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_delivery_curve_ends_with_its_transfer_and_stays_behind_the_floor() {
    for transfer in ["download = \"2 MB\"", "upload = \"300 kB\"", "download = \"10 B\""] {
        let record = run(HOME, &format!("transfer = {{ {transfer} }}"));
        let (whole, times, floor) = shares(&record);
        assert!(whole >= 10 && times.len() == DELIVERY_SHARES && times.is_sorted(), "{transfer}");
        let late = times[DELIVERY_SHARES - 1] - value(&record, "completion");
        assert!((0.0..2e-6).contains(&late), "{transfer}: {late}");
        // At constant rates the best curve is a line.
        let [first, last] = floor[..] else { panic!("{transfer}: {floor:?}") };
        assert!((last * value(&record, "completion_over_floor") - value(&record, "completion")).abs() < 1e-4);
        for (share, at) in (1..).zip(&times) {
            assert!(*at >= first + (last - first) * f64::from(share) / DELIVERY_SHARES as f64, "{transfer}: {share}");
        }
    }
}

#[test]
fn a_delivery_curve_tells_how_far_a_transfer_came() {
    let cut = format!("{HOME}\noutage = {{ at = \"1 s\", for = \"90 s\" }}");
    let record = run(&cut, "transfer = { download = \"4 MB\" }");
    assert_eq!(value(&record, "completed"), 0.0);
    let (whole, times, _) = shares(&record);
    assert_eq!(whole, 4_000_000);
    // A second of 20 Mbps is 2.5 MB at most; half of that is there at least.
    assert!((12..=25).contains(&times.len()) && times.iter().all(|at| *at < 1.1), "{times:?}");
}

#[test]
fn a_rate_that_changes_bends_the_best_curve() {
    let path = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\n\
        down = { rate = \"2 Mbps\", delay = \"10 ms\", changes = [{ at = \"1 s\", rate = \"20 Mbps\" }] }";
    let record = run(path, "phase = false\ntransfer = { download = \"2 MB\" }");
    let (_, times, floor) = shares(&record);
    assert!(floor.len() == DELIVERY_SHARES + 1 && floor.is_sorted(), "{floor:?}");
    assert!(times.iter().zip(&floor[1..]).all(|(at, best)| at >= best));
}

#[test]
fn an_endless_flow_is_cut_by_time() {
    let record = run(HOME, "transfer = { download = \"endless\" }");
    let Some(Delivery::Steps { lasted, bytes }) = record.flows[0].delivery.clone() else { panic!() };
    assert!(bytes.len() == DELIVERY_SHARES && bytes.is_sorted(), "{bytes:?}");
    let goodput = value(&record, "goodput");
    assert!((bytes[DELIVERY_SHARES - 1] as f64 * 8.0 / lasted / goodput - 1.0).abs() < 0.01, "{goodput}");
}

#[test]
fn requests_have_a_curve_too() {
    let record = run(HOME, "requests = { count = 5, response = \"100 kB\", think = \"100 ms\" }");
    let (whole, times, floor) = shares(&record);
    assert!((500_000..510_000).contains(&whole) && floor.is_empty(), "{whole}");
    assert!(times.len() == DELIVERY_SHARES && times.is_sorted());
}
