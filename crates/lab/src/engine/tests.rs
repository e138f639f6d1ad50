mod delivery;
mod hops;
mod plan;
mod sharing;

use std::path::Path;

use thalweg_units::Duration;

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
    world.crypto = crate::scenario::world::Crypto::Null;
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
    // Nothing to repair, nothing to report.
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
    // A round trip until it has reached the server, another to repair what was lost.
    assert!((0.06..0.2).contains(&silence), "{silence}");
    // The floor of one path says nothing of two.
    assert!(told.get(Scope::Flow, "f", "completion_over_floor").is_empty());
    assert!(told.get(Scope::Flow, "f", "completion_over_cold_floor").is_empty());
    // Without notice it goes on when a timer makes it send something.
    let untold = run("move = { at = \"1 s\", to = \"b\", notice = false }\ntransport = { keep_alive = \"250 ms\" }");
    assert!(value(&untold, "silence_after_move") > silence, "{untold:?}");
    let dead = run("stack = \"tcp\"\nrebind = \"800 ms\"");
    assert!(dead.failed.is_some() && dead.is_never("f", "silence_after_move"));
    for path in ["a.down", "b.down"] {
        assert!(told.get(Scope::Link, path, "link_use")[0] > 0.0, "{path}");
    }
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
