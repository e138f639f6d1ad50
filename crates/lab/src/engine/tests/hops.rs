//! Flows over several paths: chains of hops, and moves from one path to another.

use super::*;
use crate::engine::plan::plan;

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
