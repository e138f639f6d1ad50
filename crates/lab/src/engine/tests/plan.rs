//! The simulator's plan of a world: what seeds draw, and what they leave alone.

use thalweg_link::{RateModel, Spread, Streams};
use thalweg_sim::traffic::{Flows, Page, Requests};
use thalweg_sim::{HostModel, Traffic};
use thalweg_units::Rate;

use super::*;
use crate::engine::plan::plan;
use crate::scenario::world::Perturb;

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
    let kernel = flow("transfer = { download = \"1 MB\" }\nhost = \"kernel\"").server_host;
    assert_eq!(kernel, HostModel::KERNEL);
}
