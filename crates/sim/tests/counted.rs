//! Counts: events that never came, events between two moments, and bytes on the wire.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, LossModel, Probability, RateModel, Spread, Windows};
use thalweg_sim::traffic::{Flows, Media};
use thalweg_sim::*;
use thalweg_units::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn link(rate: &str) -> DirectionConfig {
    DirectionConfig {
        rate: RateModel::Constant(rate.parse().unwrap()),
        delay: ms(10).into(),
        queue: "2 BDP".parse().unwrap(),
        ..DirectionConfig::default()
    }
}

/// 10 Mbps, 10 ms each way, one flow, 20 s.
fn plan(stack: &str, traffic: Traffic) -> Plan {
    let flow = FlowPlan { stack: stack.to_owned(), ..FlowPlan::new("f", traffic) };
    Plan {
        paths: vec![PathPlan::new("p", link("10 Mbps"), link("10 Mbps"))],
        flows: vec![flow],
        time_limit: Duration::from_secs(20),
        ..Plan::default()
    }
}

/// Everything is lost for the time given.
fn dark(mut plan: Plan, from: Duration, span: Duration) -> Plan {
    let path = &mut plan.paths[0];
    for direction in [&mut path.up, &mut path.down] {
        direction.outages.push(Windows::once(from, span));
    }
    plan
}

const MEDIA: Traffic = Traffic::Media(Media {
    up: false,
    interval: Duration::from_millis(20),
    frame: 1000,
    deadline: Some(Duration::from_millis(100)),
    frames: Some(250),
});

#[test]
fn an_endless_flow_that_delivers_nothing_has_failed() {
    for stack in ["thalweg", "tcp"] {
        let mut plan = plan(stack, Traffic::download(None));
        assert_eq!(run(&plan).unwrap().failed, None, "{stack}");
        plan.paths[0].down.loss.push(LossModel::Random(Probability::ALWAYS));
        let result = run(&plan).unwrap();
        assert!(result.failed.is_some_and(|reason| reason.contains("nothing had arrived")), "{stack}");
        // There was time until the limit, whether or not anything happened in it.
        assert_eq!(result.virtual_time, Duration::from_secs(20), "{stack}");
    }
}

#[test]
fn an_endless_flow_whose_connection_died_has_failed_and_the_time_goes_on() {
    let mut plan = dark(plan("thalweg", Traffic::download(None)), ms(2000), Duration::from_secs(100));
    plan.flows[0].client.max_idle_timeout = Some(Duration::from_secs(3));
    let result = run(&plan).unwrap();
    assert!(result.flows[0].failed.is_some() && result.failed.is_some());
    assert!(result.flows[0].bytes > 1_000_000);
    assert_eq!(result.virtual_time, Duration::from_secs(20));
}

#[test]
fn media_are_complete_only_if_something_of_their_last_second_arrives() {
    for stack in ["thalweg", "raw"] {
        let whole = run(&plan(stack, MEDIA)).unwrap();
        assert!(whole.failed.is_none() && whole.flows[0].completion.is_some(), "{stack}: {:?}", whole.failed);
        assert_eq!((whole.flows[0].frames.due, whole.flows[0].frames.missed()), (250, 0), "{stack}");
        // Dark from one second on: four of five seconds are lost.
        let cut = run(&dark(plan(stack, MEDIA), ms(1000), Duration::from_secs(100))).unwrap();
        let flow = &cut.flows[0];
        assert!(flow.failed.as_ref().is_some_and(|reason| reason.contains("last 50 frames")), "{stack}: {flow:?}");
        assert_eq!((flow.completion, cut.failed.is_some()), (None, true), "{stack}");
        assert_eq!(flow.frames.due, 250, "{stack}");
        assert!(flow.frames.missed() >= 199 && flow.frames.missed() <= 203, "{stack}: {}", flow.frames.missed());
        assert!(matches!(flow.frames.stalls[..], [stall] if stall > ms(3900) && stall < ms(4200)), "{stack}: {flow:?}");
        // Dark in between: a stall with an end, and complete.
        let held = run(&dark(plan(stack, MEDIA), ms(1000), ms(2000))).unwrap();
        assert_eq!(held.failed, None, "{stack}");
        assert!(matches!(held.flows[0].frames.stalls[..], [stall] if stall > ms(1950) && stall < ms(3500)), "{stack}");
    }
}

#[test]
fn media_over_a_connection_that_dies_count_the_frames_that_were_never_sent() {
    let mut plan = dark(plan("thalweg", MEDIA), ms(1000), Duration::from_secs(100));
    let flow = &mut plan.flows[0];
    for config in [&mut flow.client, &mut flow.server] {
        config.max_idle_timeout = Some(Duration::from_secs(2));
    }
    let flow = run(&plan).unwrap().flows.remove(0);
    assert!(flow.failed.is_some() && flow.frames.sent < 250);
    assert_eq!((flow.frames.due, flow.frames.never()), (250, 250 - flow.frames.received));
    assert!(flow.frames.stalls.last().unwrap() > &ms(3900), "{:?}", flow.frames.stalls);
}

#[test]
fn a_window_counts_what_happens_in_it_and_nothing_else() {
    for stack in ["thalweg", "tcp"] {
        let mut plan = dark(plan(stack, Traffic::download(None)), ms(12_000), ms(6000));
        let whole = run(&plan).unwrap();
        let window = |from, to| {
            let measured = run(&Plan { measure: Some((ms(from), ms(to))), ..plan.clone() }).unwrap();
            assert_eq!(measured.wire_hash, whole.wire_hash, "{stack}: measuring changes nothing");
            measured.window.unwrap()
        };
        let steady = window(2000, 12_000);
        assert_eq!((steady.from, steady.to), (ms(2000), ms(12_000)));
        let (bytes, served) = (steady.flows[0].bytes as f64 * 0.8, steady.links[1].served_bytes as f64 * 0.8);
        // 10 s at 10 Mbps, in thousandths.
        assert!(
            (9000e3..=9800e3).contains(&bytes) && (9900e3..=10_001e3).contains(&served),
            "{stack}: {bytes} {served}"
        );
        let packets = steady.flows[0].packets[1].unwrap();
        assert!(packets.sent > 8000 && packets.lost < packets.sent / 20, "{stack}: {packets:?}");
        assert!(steady.links[1].sojourn.count() > 8000 && steady.links[1].sojourn.max() < ms(60), "{stack}");
        // Nothing arrives while it is dark.
        let dark = window(12_100, 17_900);
        assert_eq!(dark.flows[0].bytes, 0, "{stack}");
        // Windows side by side add up to the whole.
        let parts: u64 = [(0, 12_000), (12_000, 17_000), (17_000, 20_000)]
            .map(|(from, to)| window(from, to).flows[0].bytes)
            .iter()
            .sum();
        assert_eq!(parts, whole.flows[0].bytes, "{stack}");
        // A run that ends before the window has nothing to say of it, one that ends within it ends it.
        plan.flows[0].traffic = Traffic::download(Some(5_000_000));
        let early = |from, to| run(&Plan { measure: Some((ms(from), ms(to))), ..plan.clone() }).unwrap();
        assert!(early(10_000, 12_000).window.is_none(), "{stack}");
        let cut = early(1000, 12_000);
        assert_eq!(cut.window.unwrap().to, cut.virtual_time, "{stack}");
    }
}

#[test]
fn raw_datagrams_are_44_bytes_more_on_the_wire() {
    // 250 frames each: in one datagram of 1,200 bytes, and in two of 1,456 and 44.
    for (frame, datagrams, wire) in [(1200, 1, 1244), (1456, 1, 1500), (1500, 2, 1588)] {
        let media =
            Traffic::Media(Media { up: true, interval: ms(20), frame, deadline: Some(ms(100)), frames: Some(250) });
        let result = run(&plan("raw", media)).unwrap();
        let up = &result.links[0].stats;
        assert_eq!((up.served, up.served_bytes), (250 * datagrams, 250 * wire), "{frame}");
        assert_eq!(result.flows[0].bytes, 250 * frame, "{frame}");
    }
}

#[test]
fn one_connection_that_dies_does_not_end_the_others() {
    for stack in ["thalweg", "tcp"] {
        // A new connection every 200 ms; those under way after 1 s die, those that begin after the outage do not.
        let arrivals = Spread::Fixed(ms(200));
        let traffic = Traffic::Flows(Flows { count: 40, arrivals, size: Size::Fixed(20_000), new_connections: true });
        let mut plan = dark(plan(stack, traffic), ms(1000), ms(3000));
        plan.time_limit = Duration::from_secs(60);
        let flow = &mut plan.flows[0];
        for config in [&mut flow.client, &mut flow.server] {
            config.max_idle_timeout = Some(ms(1500));
        }
        let flow = run(&plan).unwrap().flows.remove(0);
        let ended = flow.transfers.len();
        match stack {
            "thalweg" => assert!(flow.failed.is_some() && (25..40).contains(&ended), "{ended} {:?}", flow.failed),
            // TCP does not give up so soon.
            _ => assert!(flow.failed.is_none() && ended == 40, "{ended} {:?}", flow.failed),
        }
        assert_eq!(flow.due, 40);
    }
}

/// Whenever the run is cut off; the link also carries the headers of IP and UDP, which the transport does not count.
#[test]
fn the_delivery_rate_of_a_bulk_flow_is_that_of_the_link() {
    for seed in 1..=4 {
        for seconds in [4, 7, 10] {
            let mut plan = Plan { seed, ..plan("thalweg", Traffic::download(None)) };
            plan.time_limit = Duration::from_secs(seconds);
            let server = run(&plan).unwrap().flows.remove(0).server;
            let rate = server.stats.delivery_rate.unwrap().bps();
            assert!(rate > 9_500_000 && rate < 10_500_000, "seed {seed}, {seconds} s: {rate} bps");
        }
    }
}
