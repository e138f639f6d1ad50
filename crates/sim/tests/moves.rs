//! Clients whose address changes: a NAT that forgets them, another path with and without notice, a path that is lost.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, RateModel, Windows};
use thalweg_proto::AckPolicy;
use thalweg_sim::traffic::Media;
use thalweg_sim::*;
use thalweg_units::Duration;

const MB: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn path(name: &str, rate: &str, delay: u64) -> PathPlan {
    let link = DirectionConfig {
        rate: RateModel::Constant(rate.parse().unwrap()),
        delay: ms(delay).into(),
        queue: "1 BDP".parse().unwrap(),
        round_trip: ms(2 * delay),
        ..DirectionConfig::default()
    };
    PathPlan::new(name, link.clone(), link)
}

/// 20 Mbps over Wi-Fi, 10 Mbps over LTE; the flow begins on Wi-Fi.
fn plan(stack: &str, traffic: Traffic, moves: Vec<Move>) -> Plan {
    // A client that only receives is found again if it owes an acknowledgment when its address changes. At the times of
    // these tests it does with the acknowledgments that a receiver sends by itself.
    let policies = "start=hystart++, ack-rate=off".parse().unwrap();
    let mut flow = FlowPlan { stack: stack.to_owned(), moves, ..FlowPlan::new("f", traffic).policies(policies) };
    flow.client.acks = AckPolicy::Thinned;
    Plan { paths: vec![path("wifi", "20 Mbps", 10), path("lte", "10 Mbps", 30)], flows: vec![flow], ..Plan::default() }
}

fn rebind(at: u64) -> Move {
    Move { at: ms(at), what: AddressChange::Rebind }
}

fn to_lte(at: u64, notice: bool) -> Move {
    Move { at: ms(at), what: AddressChange::Move { route: vec![1], notice } }
}

fn home() -> AddressChange {
    AddressChange::Move { route: vec![0], notice: true }
}

fn without_wifi(mut plan: Plan, from: u64) -> Plan {
    let wifi = &mut plan.paths[0];
    for direction in [&mut wifi.up, &mut wifi.down] {
        direction.outages.push(Windows::once(ms(from), Duration::from_secs(3600)));
    }
    plan
}

fn ok(plan: &Plan) -> RunResult {
    let result = run(plan).unwrap();
    assert_eq!(result.failed, None);
    result
}

/// Bytes delivered: up and down over Wi-Fi, up and down over LTE.
fn delivered(result: &RunResult) -> [u64; 4] {
    [0, 1, 2, 3].map(|link| result.links[link].stats.delivered_bytes)
}

const DOWN: Traffic = Traffic::download(Some(5 * MB));
const UP: Traffic = Traffic::upload(Some(5 * MB));

#[test]
fn quic_goes_on_behind_a_nat_that_forgets_it() {
    for traffic in [DOWN, UP] {
        let still = ok(&plan("thalweg", traffic.clone(), vec![]));
        let rebound = ok(&plan("thalweg", traffic.clone(), vec![rebind(500), rebind(1000)]));
        assert_eq!(still.flows[0].astray, 0);
        // The server's packets on their way to the old port, among them at least acknowledgments.
        assert!(rebound.flows[0].astray > 0, "{traffic:?}");
        assert_ne!(still.wire_hash, rebound.wire_hash);
        let took = |result: &RunResult| result.flows[0].completion.unwrap();
        assert!(took(&rebound) < took(&still) * 2, "{traffic:?}: {:?} {:?}", took(&rebound), took(&still));
        assert_eq!(delivered(&rebound)[2..], [0, 0]);
    }
}

#[test]
fn quic_follows_its_client_to_another_path_with_and_without_notice() {
    for (traffic, data) in [(DOWN, 1), (UP, 0)] {
        for notice in [true, false] {
            for is_lost in [false, true] {
                let moved = plan("thalweg", traffic.clone(), vec![to_lte(1000, notice)]);
                let result = ok(&if is_lost { without_wifi(moved, 1000) } else { moved });
                let bytes = delivered(&result);
                // A second of 20 Mbps less the handshake and slow start, then the rest and what was lost.
                let said = format!("{traffic:?}, notice {notice}, lost {is_lost}: {bytes:?}");
                assert!((MB..5 * MB / 2).contains(&bytes[data]), "{said}");
                assert!((5 * MB / 2..5 * MB).contains(&bytes[data + 2]), "{said}");
                assert_eq!(result.flows[0].floor, None);
            }
        }
    }
}

#[test]
fn what_is_sent_to_the_old_address_arrives_by_the_old_path() {
    let result = ok(&plan("thalweg", DOWN, vec![to_lte(1000, true)]));
    assert_eq!(result.flows[0].astray, 0);
    assert_eq!(result.links[1].stats.delivered, result.links[1].stats.offered - result.links[1].stats.dropped_total());
    // Back on Wi-Fi, LTE falls silent.
    let home = Move { at: ms(1500), what: home() };
    let returned = ok(&plan("thalweg", DOWN, vec![to_lte(1000, true), home]));
    assert!(delivered(&returned)[3] < 4 * MB / 5, "{:?}", delivered(&returned));
    assert!(returned.flows[0].completion < result.flows[0].completion);
}

#[test]
fn tcp_is_reset_when_its_client_has_another_address() {
    for (traffic, change) in [(UP, rebind(500)), (UP, to_lte(500, false)), (DOWN, to_lte(500, false))] {
        let result = run(&plan("tcp", traffic, vec![change])).unwrap();
        let reason = result.failed.unwrap();
        assert!(reason.contains("the connection was lost: the peer does not know it (RST)"), "{reason}");
        assert!(result.virtual_time < ms(1000), "{:?}", result.virtual_time);
    }
    // Who only receives notices it by the reset of an ACK that is owed just then. Otherwise it never does: what is sent
    // to the old port ends at the NAT.
    let ends = (500..530).step_by(3).map(|at| {
        let result = run(&plan("tcp", DOWN, vec![rebind(at)])).unwrap();
        (result.failed.unwrap(), result.flows[0].astray)
    });
    let (silent, reset): (Vec<_>, Vec<_>) = ends.partition(|(reason, _)| reason.contains("time limit"));
    assert!(!silent.is_empty() && silent.iter().all(|(_, astray)| *astray > 0), "{silent:?}");
    assert!(reset.iter().all(|(reason, _)| reason.contains("(RST)")), "{reset:?}");
}

#[test]
fn raw_datagrams_go_to_where_the_newest_came_from() {
    let media =
        |up| Traffic::Media(Media { up, interval: ms(20), frame: 1000, deadline: Some(ms(100)), frames: Some(100) });
    for notice in [true, false] {
        let up = ok(&plan("raw", media(true), vec![to_lte(1000, notice), rebind(1500)]));
        assert_eq!((up.flows[0].frames.received, up.flows[0].frames.missed()), (100, 0));
        // A server that only sends does not notice the move: its frames still come by Wi-Fi.
        let down = ok(&plan("raw", media(false), vec![to_lte(1000, notice)]));
        assert_eq!((down.flows[0].frames.received, delivered(&down)[3]), (100, 0));
    }
    // Behind a NAT it sends to nobody.
    let lost = run(&plan("raw", media(false), vec![rebind(1000)])).unwrap();
    assert!(lost.failed.unwrap().contains("datagrams were for an address that their client no longer had"));
}

#[test]
fn a_move_concerns_one_flow_and_its_network_card() {
    let mut both = plan("thalweg", DOWN, vec![to_lte(1000, true)]);
    let flow = &mut both.flows[0];
    (flow.client_host, flow.server_host) = (HostModel::LINUX, HostModel::LINUX);
    both.flows.push(FlowPlan { moves: vec![], ..FlowPlan { name: "g".to_owned(), ..both.flows[0].clone() } });
    let result = ok(&both);
    assert!(result.flows.iter().all(|flow| flow.astray == 0));
    assert!(result.flows[1].floor.is_some() && result.flows[0].floor.is_none());
    let bytes = delivered(&result);
    assert!(bytes[1] > 5 * MB + MB / 2 && bytes[3] > 2 * MB && bytes[3] < 5 * MB, "{bytes:?}");
    // The same seed is the same run, moves or not.
    assert_eq!(ok(&both).wire_hash, result.wire_hash);
}

#[test]
fn routes_that_begin_with_the_same_path_have_addresses_of_their_own() {
    for (stack, notice) in [("thalweg", true), ("thalweg", false), ("tcp", false)] {
        let via_lte = Move { at: ms(500), what: AddressChange::Move { route: vec![0, 1], notice } };
        let moved = plan(stack, UP, vec![via_lte]);
        let result = run(&moved).unwrap();
        // A TCP connection does not outlive the address of its client.
        assert_eq!(result.failed.is_none(), stack == "thalweg", "{stack}: {:?}", result.failed);
        assert!(stack == "tcp" || delivered(&result)[2] > MB, "{:?}", delivered(&result));
    }
}

#[test]
fn moves_that_cannot_be_are_refused_in_words() {
    let refused = |plan: Plan| run(&plan).unwrap_err().to_string();
    let message = refused(plan("tcp", DOWN, vec![to_lte(500, true)]));
    assert!(message.contains("\"tcp\" cannot be notified") && message.contains("without notice"), "{message}");
    let message = refused(plan("thalweg", DOWN, vec![rebind(500), rebind(400)]));
    assert!(message.contains("out of order"), "{message}");
    let elsewhere = Move { at: ms(1), what: AddressChange::Move { route: vec![2], notice: false } };
    let message = refused(plan("thalweg", DOWN, vec![elsewhere]));
    assert!(message.contains("path number 2"), "{message}");
    for moves in [vec![to_lte(500, true), rebind(600), to_lte(700, false)], vec![Move { at: ms(1), what: home() }]] {
        let message = refused(plan("thalweg", DOWN, moves));
        assert!(message.contains("leads to where it is already"), "{message}");
    }
}
