//! Connections of a flow are flows of their own to queues that keep flows apart.
#![allow(clippy::unwrap_used)]

use thalweg_link::queue::{CoDel, Discipline, FqCodel, FqPie, SfqCodel};
use thalweg_link::{DirectionConfig, RateModel, Spread};
use thalweg_sim::traffic::{Flows, Page};
use thalweg_sim::{FlowPlan, PageObject, PathPlan, Plan, Record, RunResult, Size, Traffic, run};
use thalweg_units::{Duration, Rate};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A flow with this traffic over 2 Mbps and 20 ms, behind this discipline.
fn result(stack: &str, traffic: Traffic, discipline: impl Into<Discipline>) -> RunResult {
    let direction = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(2_000_000)),
        delay: ms(10).into(),
        ..DirectionConfig::default()
    };
    let down = DirectionConfig { discipline: discipline.into(), ..direction.clone() };
    let flow = FlowPlan { stack: stack.to_owned(), ..FlowPlan::new("web", traffic) };
    let record = Record { step: Duration::from_nanos(1), ..Record::default() };
    let paths = vec![PathPlan::new("p", direction, down)];
    let result = run(&Plan { paths, flows: vec![flow], record, time_limit: ms(60_000), ..Plan::default() }).unwrap();
    assert_eq!(result.failed, None);
    result
}

/// The most queues that were in use at once on the way down.
fn most_queues(result: &RunResult) -> f64 {
    let down = result.links.iter().find(|link| link.name == "p/down").unwrap();
    let flows = down.signals.iter().find(|signal| signal.name == "flows").unwrap();
    flows.points.iter().map(|(_, flows)| *flows).fold(0.0, f64::max)
}

fn short_flows(new_connections: bool) -> Traffic {
    Traffic::Flows(Flows { count: 20, arrivals: Spread::Fixed(ms(40)), size: Size::Fixed(60_000), new_connections })
}

#[test]
fn each_connection_of_short_flows_has_a_queue_of_its_own() {
    for stack in ["tcp", "thalweg"] {
        let disciplines: [Discipline; 3] =
            [FqCodel::default().into(), SfqCodel::default().into(), FqPie::default().into()];
        for discipline in disciplines {
            let apart = most_queues(&result(stack, short_flows(true), discipline.clone()));
            // 12 Mbps are offered for 0.8 s, so that nearly all of them are there together in the end.
            assert!(apart > 5.0, "{stack}, {discipline:?}: {apart}");
            // Streams of one connection have one pair of ports.
            assert_eq!(most_queues(&result(stack, short_flows(false), discipline)), 1.0, "{stack}");
        }
    }
}

#[test]
fn a_page_is_one_connection_and_one_queue() {
    let object = |n: usize| PageObject { size: 30_000, after: if n > 0 { vec![0] } else { vec![] }, delay: ms(0) };
    let page = Traffic::Page(Page((0..10).map(object).collect()));
    assert_eq!(most_queues(&result("thalweg", page, FqCodel::default())), 1.0);
}

#[test]
fn the_same_plan_gives_the_same_run_and_flow_queuing_another_than_one_queue() {
    for stack in ["tcp", "thalweg"] {
        let runs = [0; 2].map(|_| result(stack, short_flows(true), FqCodel::default()));
        assert_eq!(runs[0].wire_hash, runs[1].wire_hash, "{stack}");
        assert_ne!(runs[0].wire_hash, result(stack, short_flows(true), CoDel::default()).wire_hash, "{stack}");
    }
}
