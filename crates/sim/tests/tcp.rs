//! TCP flows: that they come close to what the link allows, and react as their rules say.
#![allow(clippy::unwrap_used)]

use thalweg_link::{
    DirectionConfig, EcnTreatment, LossModel, Policer, Probability, RateModel, Reorder, Schedule, Spread,
};
use thalweg_recovery::{InitialWindow, Policies};
use thalweg_sim::traffic::{Flows, Media, Page, Requests};
use thalweg_sim::*;
use thalweg_units::Duration;

const MB: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn link(rate: &str, delay: u64) -> DirectionConfig {
    DirectionConfig {
        rate: RateModel::Constant(rate.parse().unwrap()),
        delay: ms(delay).into(),
        queue: "1 BDP".parse().unwrap(),
        ..DirectionConfig::default()
    }
}

/// Three duplicates make a loss, unless said otherwise.
fn rfc6675(policies: &str) -> Policies {
    let default = if policies.contains("reordering=") { "" } else { "reordering=fixed, " };
    format!("{default}{policies}").parse().unwrap()
}

fn tcp(name: &str, traffic: Traffic, policies: &str) -> FlowPlan {
    let mut flow = FlowPlan::new(name, traffic).policies(rfc6675(policies));
    flow.stack = "tcp".to_owned();
    flow.settings = TcpConfig::new(TcpProfile::Shipped).into();
    flow
}

/// 20 Mbps, 20 ms each way, one flow.
fn plan(traffic: Traffic, policies: &str) -> Plan {
    Plan {
        paths: vec![PathPlan::new("p", link("20 Mbps", 20), link("20 Mbps", 20))],
        flows: vec![tcp("f", traffic, policies)],
        ..Plan::default()
    }
}

/// Changes the settings of the first flow.
fn set(plan: &mut Plan, change: impl FnOnce(&mut TcpConfig)) {
    let mut config = TcpConfig::from(&plan.flows[0].settings);
    change(&mut config);
    plan.flows[0].settings = config.into();
}

fn ok(plan: &Plan) -> RunResult {
    let result = run(plan).unwrap();
    assert_eq!(result.failed, None, "{plan:?}");
    result
}

fn lose(plan: &mut Plan, down: &[u64]) {
    plan.paths[0].down.loss.push(LossModel::List(down.to_vec()));
}

fn sender(result: &RunResult) -> TcpStats {
    result.flows[0].server.tcp.unwrap()
}

#[test]
fn bulk_in_either_direction_comes_close_to_its_floor() {
    for traffic in [Traffic::download(Some(10 * MB)), Traffic::upload(Some(10 * MB))] {
        for policies in ["controller=cubic, reduction=prr, pacing=off", "controller=new-reno", "start=standard"] {
            let plan = plan(traffic.clone(), policies);
            let result = ok(&plan);
            let flow = &result.flows[0];
            let floor = result.flows[0].floor.unwrap();
            assert_eq!((floor.payload_per_packet, floor.packet_size), (1460, 1500));
            let completion = flow.completion.unwrap();
            assert!(completion >= floor.total + floor.round_trip, "{policies}: {completion:?} {floor:?}");
            assert!(completion < floor.total * 13 / 10, "{policies}: {completion:?} {floor:?}");
            assert!(flow.bytes >= 10 * MB && flow.bytes < 10 * MB + 20);
            assert_eq!(flow.handshake, Some(floor.round_trip + Duration::from_nanos(2 * 52 * 400)), "SYN and SYN/ACK");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_event_log_and_another_does_not() {
    let mut plan = plan(Traffic::download(Some(2 * MB)), "");
    plan.paths[0].down.loss.push(LossModel::Random(Probability::ratio(1, 100)));
    let hash = |plan: &Plan| ok(plan).wire_hash;
    assert_eq!(hash(&plan), hash(&plan));
    let other = Plan { seed: 2, ..plan.clone() };
    assert_ne!(hash(&plan), hash(&other));
    let mut reno = plan.clone();
    reno.flows[0] = tcp("f", Traffic::download(Some(2 * MB)), "controller=new-reno");
    assert_ne!(hash(&plan), hash(&reno));
}

#[test]
fn rfc6928_and_rfc3390_the_first_flight_is_ten_segments_or_three() {
    for (window, bytes) in [(InitialWindow::Rfc6928, 14_600), (InitialWindow::Rfc3390, 4_380)] {
        let mut plan = plan(Traffic::download(Some(2 * MB)), "pacing=off");
        set(&mut plan, |tcp| tcp.initial_window = window);
        plan.record = Record { packets: true, ..Record::default() };
        let flow = ok(&plan).flows.remove(0);
        let sent = |packet: &&PacketPoint| packet.what == PacketFate::Sent;
        let packets = flow.server.series.packets;
        let first = packets.iter().find(sent).unwrap().at;
        let flight: u64 =
            packets.iter().filter(sent).filter(|packet| packet.at == first).map(|p| u64::from(p.size)).sum();
        assert_eq!(flight, bytes);
    }
}

#[test]
fn requests_pages_and_many_short_flows_are_answered() {
    let think = Spread::Fixed(ms(50));
    let requests =
        Traffic::Requests(Requests { count: 20, request: Size::Fixed(300), response: Size::Fixed(30_000), think });
    let result = ok(&plan(requests, ""));
    assert_eq!(result.flows[0].transfers.len(), 20);
    assert_eq!((result.flows[0].client.connections, result.flows[0].server.connections), (1, 1));
    let flows = Traffic::Flows(Flows {
        count: 50,
        arrivals: Spread::Exponential(ms(30)),
        size: Size::Fixed(20_000),
        new_connections: true,
    });
    let result = ok(&plan(flows, ""));
    assert_eq!((result.flows[0].transfers.len(), result.flows[0].server.connections), (50, 50));
    // A handshake and a request each: nothing is left over from one to the next.
    assert!(result.flows[0].transfers.iter().all(|transfer| transfer.took >= ms(40)));
    let objects =
        (0..6).map(|n| PageObject { size: 20_000, after: if n > 0 { vec![0] } else { vec![] }, delay: ms(0) });
    let result = ok(&plan(Traffic::Page(Page(objects.collect())), ""));
    assert_eq!(result.flows[0].transfers.len(), 6);
}

#[test]
fn media_are_refused() {
    let traffic =
        Traffic::Media(Media { up: true, interval: ms(20), frame: 1_000, deadline: Some(ms(100)), frames: Some(10) });
    let error = run(&plan(traffic, "")).unwrap_err().to_string();
    assert_eq!(error, "flow \"f\": its traffic is datagrams, which the stack \"tcp\" does not carry");
}

#[test]
fn rfc9293_every_second_segment_is_acknowledged_or_every_one() {
    let acks = |delay: u64| {
        let mut plan = plan(Traffic::download(Some(2 * MB)), "start=hystart++");
        plan.paths[0].down.queue = "20 BDP".parse().unwrap();
        set(&mut plan, |tcp| tcp.delayed_ack = ms(delay));
        let result = ok(&plan);
        assert_eq!(sender(&result).retransmissions, 0);
        (result.flows[0].client.stats.udp_sent.datagrams, result.flows[0].server.stats.path.packets_sent)
    };
    let ((delayed, data), (each, _)) = (acks(40), acks(0));
    assert!(delayed.abs_diff(data / 2) < data / 20, "{delayed} for {data}");
    assert!(each.abs_diff(data) < 5, "{each} for {data}");
}

/// The last two of nine segments are lost: the probe repeats the last, and its SACK shows the other to be missing.
#[test]
fn rfc8985_7_a_tail_loss_is_repaired_by_a_probe_and_counts_as_congestion() {
    let bytes = 9 * 1460;
    let run = |probes: bool| {
        let mut plan = plan(Traffic::download(Some(bytes)), "pacing=off");
        set(&mut plan, |tcp| tcp.tail_loss_probe = probes);
        // SYN/ACK is 0; the first segment of data is 1.
        lose(&mut plan, &[8, 9]);
        let result = ok(&plan);
        (result.flows[0].completion.unwrap(), sender(&result), result.flows[0].server.repairs)
    };
    let (with, stats, _) = run(true);
    assert_eq!((stats.tail_probes, stats.timeouts, stats.retransmissions), (1, 0, 2));
    let (without, stats, repairs) = run(false);
    assert_eq!((stats.tail_probes, stats.timeouts, stats.retransmissions), (0, 1, 2));
    assert_eq!(repairs.timeouts, 1);
    assert!(with + ms(50) < without, "{with:?} {without:?}");
    // The handshake, the response, the delayed ACK of its seventh segment, twice the smoothed round trip, and two
    // repairs.
    assert!(with < ms(40 + 40 + 40 + 2 * 48 + 2 * 40 + 10), "{with:?}");
}

#[test]
fn rfc8985_7_4_2_a_probe_that_repaired_a_loss_reduces_the_window() {
    let think = Spread::Fixed(ms(300));
    let traffic =
        Traffic::Requests(Requests { count: 3, request: Size::Fixed(10), response: Size::Fixed(5 * 1460), think });
    let mut plan = plan(traffic, "pacing=off, start=standard");
    lose(&mut plan, &[5]);
    let result = ok(&plan);
    assert_eq!((sender(&result).tail_probes, sender(&result).timeouts), (1, 0));
    assert_eq!(
        result.flows[0].server.stats.path.congestion_events, 1,
        "noticed when the next response is acknowledged"
    );
}

#[test]
fn rfc6298_5_timeouts_double_and_the_whole_flight_is_sent_again_in_slow_start() {
    let mut plan = plan(Traffic::download(Some(30 * 1460)), "pacing=off, start=standard, reduction=prr");
    set(&mut plan, |tcp| tcp.tail_loss_probe = false);
    set(&mut plan, |tcp| tcp.min_rto = MinRto::Rfc6298);
    // The first flight, the first two repairs, and two ACKs of the request, which is repeated, too.
    lose(&mut plan, &(1..=14).collect::<Vec<_>>());
    let result = ok(&plan);
    let stats = sender(&result);
    assert_eq!(stats.timeouts, 3);
    assert_eq!(stats.retransmissions, 2 + 10);
    assert_eq!(stats.lost_retransmissions, 0, "only what is found without a timeout");
    // 1 s, 2 s and 4 s.
    let completion = result.flows[0].completion.unwrap();
    assert!(completion > ms(7_000) && completion < ms(7_400), "{completion:?}");
    assert_eq!(result.flows[0].server.stats.path.congestion_events, 1);
}

#[test]
fn a_repair_that_is_lost_is_found_by_later_deliveries() {
    let mut plan = plan(Traffic::download(Some(100 * 1460)), "pacing=off, start=standard, reduction=prr");
    // Segment 5, and its repair: limited transmit and new data leave around it.
    plan.record = Record { packets: true, ..Record::default() };
    lose(&mut plan, &[5]);
    let before = ok(&plan);
    let again: Vec<Duration> = {
        let packets = &before.flows[0].server.series.packets;
        packets.iter().filter(|p| p.what == PacketFate::Sent && p.number == 4).map(|p| p.at).collect()
    };
    assert_eq!(again.len(), 2);
    let sent = &before.flows[0].server.series.packets;
    let place = sent.iter().filter(|p| p.what == PacketFate::Sent && p.at < again[1]).count();
    // SYN/ACK comes first; the ACK of the request is carried by the data.
    plan.paths[0].down.loss.clear();
    lose(&mut plan, &[5, place as u64 + 1]);
    let result = ok(&plan);
    let stats = sender(&result);
    assert_eq!((stats.lost_retransmissions, stats.retransmissions, stats.timeouts), (1, 2, 0));
    assert_eq!(result.flows[0].server.stats.path.congestion_events, 2, "two indications (RFC 5681 section 4.3)");
}

#[test]
fn rfc2883_reordering_is_undone_when_the_repeats_prove_needless() {
    let mut plan = plan(Traffic::download(Some(5 * MB)), "reduction=prr");
    plan.paths[0].down.queue = "20 BDP".parse().unwrap();
    plan.paths[0].down.reorder.push(Reorder { share: Probability::ratio(1, 200), by: ms(8) });
    let result = ok(&plan);
    let path = result.flows[0].server.stats.path;
    assert!(path.undos > 5, "{path:?}");
    assert!(sender(&result).needless_retransmissions > 5, "{:?}", sender(&result));
    assert!(path.undos * 10 >= path.congestion_events * 8, "{path:?}");
    // Waiting for proof before declaring anything lost avoids the repeats.
    let mut adaptive = plan.clone();
    adaptive.flows[0] = tcp("f", Traffic::download(Some(5 * MB)), "reduction=prr, reordering=adaptive");
    assert!(sender(&ok(&adaptive)).retransmissions * 2 < sender(&result).retransmissions);
}

#[test]
fn rfc3168_marks_reduce_the_window_once_per_round_trip_and_nothing_is_sent_again() {
    let mut plan = plan(Traffic::download(Some(5 * MB)), "controller=new-reno, start=standard");
    set(&mut plan, |tcp| tcp.ecn = true);
    plan.paths[0].down.queue = "20 BDP".parse().unwrap();
    let at = ms(400);
    plan.paths[0].down.ecn = Some(
        Schedule::new(
            vec![(ms(0), EcnTreatment::Keep), (at, EcnTreatment::MarkAll), (at + ms(30), EcnTreatment::Keep)],
            None,
        )
        .unwrap(),
    );
    let result = ok(&plan);
    let path = result.flows[0].server.stats.path;
    assert_eq!((path.ecn_events, path.congestion_events), (1, 1), "{path:?}");
    assert!(result.flows[0].client.stats.ecn_received[2] > 20);
    assert_eq!(sender(&result).retransmissions, 0);
    let mut without = plan.clone();
    set(&mut without, |tcp| tcp.ecn = false);
    assert_eq!(ok(&without).flows[0].client.stats.ecn_received, [0; 3]);
}

#[test]
fn a_mark_that_ends_slow_start_is_answered_and_later_marks_reduce_or_do_not() {
    let marks = |from: u64, until: u64| [(ms(from), EcnTreatment::MarkAll), (ms(until), EcnTreatment::Keep)];
    let once = [(ms(0), EcnTreatment::Keep)].into_iter().chain(marks(400, 430)).collect::<Vec<_>>();
    let twice = once.iter().copied().chain(marks(1_500, 1_530)).collect::<Vec<_>>();
    // A receiver repeats its echo until it sees CWR. If the first response kept that to itself, the echo would outlast
    // the quiet span and reduce the window.
    for (policy, schedule, events) in [
        ("end-start", &once, 0),
        ("end-start", &twice, 1),
        ("end-start(later=ignore)", &twice, 0),
        ("reduce", &once, 1),
    ] {
        let policies = format!("controller=new-reno, start=standard, mark={policy}");
        let mut plan = plan(Traffic::download(Some(5 * MB)), &policies);
        set(&mut plan, |tcp| tcp.ecn = true);
        plan.paths[0].down.queue = "20 BDP".parse().unwrap();
        plan.paths[0].down.ecn = Some(Schedule::new(schedule.clone(), None).unwrap());
        let result = ok(&plan);
        let path = result.flows[0].server.stats.path;
        assert_eq!((path.ecn_events, path.congestion_events), (events, events), "{policy}: {path:?}");
        assert!(result.flows[0].client.stats.ecn_received[2] > 20);
    }
}

#[test]
fn damaged_segments_are_dropped_and_repaired() {
    let mut plan = plan(Traffic::download(Some(2 * MB)), "");
    plan.paths[0].down.corrupt = Probability::ratio(1, 50);
    plan.paths[0].up.corrupt = Probability::ratio(1, 50);
    let result = ok(&plan);
    assert!(result.flows[0].client.stats.packets_dropped > 10);
    assert!(sender(&result).retransmissions > 10);
}

#[test]
fn a_connection_that_is_never_answered_is_given_up() {
    let mut plan = plan(Traffic::download(Some(MB)), "");
    plan.paths[0].up.loss.push(LossModel::Random(Probability::ratio(1, 1)));
    plan.time_limit = Duration::from_secs(300);
    let failed = run(&plan).unwrap().failed.unwrap();
    assert!(failed.contains("the peer does not answer"), "{failed}");
}

#[test]
fn the_peers_window_is_a_limit_of_its_own() {
    let mut plan = plan(Traffic::download(Some(MB)), "pacing=off");
    set(&mut plan, |tcp| tcp.receive_window = 14_600);
    let result = ok(&plan);
    let side = &result.flows[0].server;
    assert!(side.stats.path.max_bytes_in_flight <= 14_600);
    // Ten segments per round trip.
    let expected = ms(40) * (MB / 14_600) as u32;
    assert!(result.flows[0].completion.unwrap() > expected);
    let total: Duration = side.limited_by.iter().sum();
    let flow_control = side.limited_by[thalweg_proto::observe::Limit::FlowControl.index()];
    assert!(flow_control * 10 > total * 8, "{flow_control:?} of {total:?}");
}

#[test]
fn tcp_and_quic_share_a_bottleneck() {
    let mut plan = plan(Traffic::download(Some(15 * MB)), "reduction=prr");
    plan.flows.push(FlowPlan::new("quic", Traffic::download(Some(15 * MB))));
    let result = ok(&plan);
    let goodput: Vec<u64> = result.flows.iter().map(|flow| flow.goodput_bps().unwrap()).collect();
    // 20 Mbps less headers.
    assert!(goodput.iter().all(|rate| *rate > 7_000_000), "{goodput:?}");
}

/// Two endless downloads of one minute each over 20 Mbps and 105 ms with a BDP of queue.
fn pair(policies: &str) -> Plan {
    let download = || Traffic::download(None);
    let policies = format!("start=hystart++, {policies}");
    let flows = ["a", "b"].map(|name| {
        let mut flow = FlowPlan::new(name, download()).policies(policies.parse().unwrap());
        flow.stack = "tcp".to_owned();
        flow
    });
    Plan {
        paths: vec![PathPlan::new("p", link("20 Mbps", 5), link("20 Mbps", 100))],
        flows: flows.into(),
        time_limit: Duration::from_secs(60),
        ..Plan::default()
    }
}

/// Drops and offered packets of the bottleneck, and reductions of each flow.
fn congestion(plan: &Plan) -> (u64, u64, Vec<u64>) {
    let result = ok(plan);
    let stats = &result.links[1].stats;
    let reductions = result.flows.iter().map(|flow| flow.server.stats.path.congestion_events).collect();
    (stats.dropped.iter().sum(), stats.offered, reductions)
}

/// Losses found by time are found in retransmissions, too. Were those not answered, two flows would stay in one episode
/// for a minute and lose a quarter of what they send; ns-3 drops 581 packets here.
#[test]
fn rfc5681_4_3_two_flows_do_not_stay_in_recovery() {
    for controller in ["cubic", "new-reno"] {
        for reordering in ["rack", "fixed"] {
            for reduction in ["immediate", "prr"] {
                let policies = format!("controller={controller}, reordering={reordering}, reduction={reduction}");
                let (drops, offered, reductions) = congestion(&pair(&policies));
                assert!(drops < 581 * 2 && drops * 50 < offered, "{policies}: {drops} of {offered}");
                assert!(controller != "cubic" || drops > 581 * 7 / 10, "{policies}: {drops}");
                assert!(reductions.iter().all(|count| *count >= 5), "{policies}: {reductions:?}");
            }
        }
    }
}

/// A policer drops at once what comes faster than its rate, retransmissions included: sent again at the same window
/// they are lost again, and of what is sent a sixth is lost. The bucket holds four BDP.
#[test]
fn rfc5681_4_3_a_flow_through_a_policer_does_not_stay_in_recovery() {
    for controller in ["cubic", "new-reno"] {
        // Linux reduces once per episode: what it sends in one is kept down by its reduction, which is proportional.
        for (profile, reduction) in
            [(TcpProfile::Paced, "immediate"), (TcpProfile::Paced, "prr"), (TcpProfile::Linux, "prr")]
        {
            let policies = format!("controller={controller}, reduction={reduction}");
            let mut plan = pair(&policies);
            plan.flows.truncate(1);
            plan.flows[0].settings = TcpConfig::new(profile).into();
            plan.paths = vec![PathPlan::new("p", link("100 Mbps", 20), link("100 Mbps", 20))];
            plan.paths[0].down.policer = Some(Policer { rate: "10 Mbps".parse().unwrap(), burst: 200_000 });
            let result = ok(&plan);
            let stats = &result.links[1].stats;
            let (drops, offered) = (stats.dropped.iter().sum::<u64>(), stats.offered);
            assert!(drops * 100 < offered * 3, "{policies}: {drops} of {offered}");
            let flow = &result.flows[0];
            assert!(flow.server.stats.path.congestion_events > 40, "{policies}");
            // Three quarters of the rate in a minute.
            assert!(flow.bytes > 10_000_000 / 8 * 60 * 3 / 4, "{policies}: {}", flow.bytes);
        }
    }
}

/// How many segments of data leave at the same time, in the order in which they leave, by what the profile does to
/// CUBIC.
fn trains(profile: TcpProfile) -> Vec<usize> {
    let mut plan = plan(Traffic::download(Some(4 * MB)), "");
    plan.paths[0].down = DirectionConfig { queue: "4 BDP".parse().unwrap(), ..link("50 Mbps", 50) };
    plan.record.packets = true;
    let policies = profile.policies("controller=cubic, start=standard").unwrap();
    plan.flows[0] = plan.flows[0].clone().policies(policies);
    plan.flows[0].settings = TcpConfig::new(profile).into();
    let result = ok(&plan);
    let sent = result.flows[0].server.series.packets.iter().filter(|point| point.what == PacketFate::Sent);
    let mut trains: Vec<(Duration, usize)> = Vec::new();
    for point in sent {
        match trains.last_mut() {
            Some((at, count)) if *at == point.at => *count += 1,
            _ => trains.push((point.at, 1)),
        }
    }
    trains.into_iter().map(|(_, count)| count).collect()
}

#[test]
fn linux_sends_its_first_window_at_once_and_then_bursts_of_segmentation_offload() {
    let linux = trains(TcpProfile::Linux);
    assert_eq!(linux[0], 10, "{linux:?}");
    let later = &linux[1..];
    let lone = later.iter().filter(|count| **count == 1).count();
    assert!(lone * 20 < later.len(), "{lone} of {} bursts are one segment", later.len());
    // 50 Mbps is four segments in a 1024th of a second, at six fifths of the window more.
    assert!(later.iter().any(|count| *count >= 4), "{later:?}");
    let paced = trains(TcpProfile::Paced);
    assert!(paced.len() > linux.len(), "{} and {}", paced.len(), linux.len());
}
