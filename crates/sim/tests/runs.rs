//! Whole runs: that they repeat, that they end, and that they say what they should.
#![allow(clippy::unwrap_used)]

use thalweg_link::{
    DirectionConfig, DropCause, LossModel, Probability, QueueLimit, RateModel, Reorder, Spread, WifiProfile, Windows,
};
use thalweg_sim::traffic::{Flows, Media, Page, Requests, Transfer};
use thalweg_sim::*;
use thalweg_units::{Duration, Instant};

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

/// 20 Mbps, 20 ms each way, one flow.
fn plan(traffic: Traffic) -> Plan {
    Plan {
        paths: vec![PathPlan::new("p", link("20 Mbps", 20), link("20 Mbps", 20))],
        flows: vec![FlowPlan::new("f", traffic)],
        ..Plan::default()
    }
}

/// Enough going wrong that every kind of dice is thrown.
fn rough(traffic: Traffic) -> Plan {
    let mut plan = plan(traffic);
    let path = &mut plan.paths[0];
    path.down.loss.push(LossModel::Random(Probability::ratio(1, 200)));
    path.down.reorder.push(Reorder { share: Probability::ratio(1, 20), by: ms(5) });
    path.up.loss.push(LossModel::Random(Probability::ratio(1, 200)));
    path.down.corrupt = Probability::ratio(1, 2000);
    plan.perturb_start = true;
    plan
}

fn ok(plan: &Plan) -> RunResult {
    let result = run(plan).unwrap();
    assert_eq!(result.failed, None, "{plan:?}");
    result
}

const MB: u64 = 1_000_000;

#[test]
fn the_same_seed_gives_the_same_event_log() {
    let plan = rough(Traffic::download(Some(2 * MB)));
    let (first, second) = (ok(&plan), ok(&plan));
    assert_eq!(first.wire_hash, second.wire_hash);
    assert_eq!(first.flows[0].completion, second.flows[0].completion);
    assert_eq!(first.events, second.events);
    let other = ok(&Plan { seed: 2, ..plan });
    assert_ne!(first.wire_hash, other.wire_hash);
}

#[test]
fn the_same_seed_gives_the_same_event_log_on_another_thread() {
    let plan = rough(Traffic::download(Some(MB)));
    let here = ok(&plan).wire_hash;
    let there: Vec<u128> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| ok(&plan).wire_hash)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(there, [here, here]);
}

#[test]
fn the_null_cipher_gives_the_event_log_of_real_encryption() {
    for traffic in [Traffic::download(Some(2 * MB)), Traffic::upload(Some(MB))] {
        let real = rough(traffic);
        let null = Plan { crypto: Crypto::Null, ..real.clone() };
        assert_eq!(ok(&real).wire_hash, ok(&null).wire_hash);
    }
}

/// Completion of a clean download with ten seeds, of which nothing but the hosts' delays depends.
fn completions(stack: &str, host_delay: bool) -> Vec<Duration> {
    let with = |seed| {
        let mut plan = Plan { seed, endpoint_seed: Some(1), host_delay, ..plan(Traffic::download(Some(MB))) };
        stack.clone_into(&mut plan.flows[0].stack);
        ok(&plan).flows[0].completion.unwrap()
    };
    let mut all: Vec<Duration> = (1..=10).map(with).collect();
    all.sort_unstable();
    all
}

#[test]
fn hosts_that_delay_by_chance_make_every_seed_a_run_of_its_own() {
    for stack in ["thalweg", "tcp"] {
        let (mut at_once, mut delayed) = (completions(stack, false), completions(stack, true));
        let middle = [at_once[5], delayed[5]];
        at_once.dedup();
        delayed.dedup();
        assert_eq!((at_once.len(), delayed.len()), (1, 10), "{stack}: {delayed:?}");
        // A delay of a millisecond at most, in a transfer of a few round trips of 40 ms; losses fall differently.
        assert!(middle[1] > middle[0] * 9 / 10 && middle[1] < middle[0] * 11 / 10, "{stack}: {middle:?}");
    }
}

#[test]
fn delays_of_hosts_repeat_and_do_not_depend_on_the_cipher_or_the_thread() {
    for traffic in [Traffic::download(Some(2 * MB)), Traffic::upload(Some(MB))] {
        let real = Plan { host_delay: true, ..rough(traffic) };
        let null = Plan { crypto: Crypto::Null, ..real.clone() };
        let first = ok(&real).wire_hash;
        assert_eq!(first, ok(&null).wire_hash);
        let there = std::thread::scope(|scope| scope.spawn(|| ok(&real).wire_hash).join().unwrap());
        assert_eq!(first, there);
        assert_ne!(first, ok(&Plan { host_delay: false, ..real }).wire_hash);
    }
}

#[test]
fn delays_of_hosts_keep_the_order_of_packets() {
    let mut plan = Plan { host_delay: true, ..plan(Traffic::download(Some(4 * MB))) };
    plan.paths[0].down.queue = QueueLimit::Infinite;
    let result = ok(&plan);
    let sender = &result.flows[0].server.stats;
    assert_eq!((sender.path.packets_lost, sender.path.packets_spurious), (0, 0), "{sender:?}");
}

#[test]
fn another_flow_does_not_shift_the_delays_of_a_host() {
    let with = |others: usize| {
        let mut plan = Plan { host_delay: true, ..plan(Traffic::download(Some(MB))) };
        for n in 0..others {
            plan.paths.push(PathPlan::new(&format!("p{n}"), link("20 Mbps", 20), link("20 Mbps", 20)));
            plan.flows
                .push(FlowPlan { route: vec![n + 1], ..FlowPlan::new(&format!("f{n}"), Traffic::upload(Some(MB))) });
        }
        ok(&plan).flows[0].completion
    };
    assert_eq!(with(0), with(2));
}

#[test]
fn a_run_that_fails_says_what_the_links_dropped_and_why() {
    let mut plan = plan(Traffic::download(Some(MB)));
    plan.time_limit = Duration::from_secs(2);
    plan.paths[0].down.loss.push(LossModel::Random(Probability::ALWAYS));
    let reason = run(&plan).unwrap().failed.unwrap();
    let stats = run(&plan).unwrap().links[1].stats.clone();
    let (lost, offered) = (stats.dropped_by(DropCause::Loss), stats.offered);
    assert!(lost > 0 && lost == offered, "{stats:?}");
    let said = format!("; path \"p\" down dropped {lost} of {offered} packets: loss {lost}");
    assert!(reason.ends_with(&said), "{reason}");
    plan.paths[0].down.loss.clear();
    plan.paths[0].down.queue = QueueLimit::Bytes(4000);
    plan.time_limit = ms(300);
    let reason = run(&plan).unwrap().failed.unwrap();
    assert!(reason.contains("down dropped ") && reason.contains("packets: queue full (limit 4 kB) "), "{reason}");
}

#[test]
fn a_policy_changes_the_event_log() {
    let with = |policies: &str| {
        let mut plan = rough(Traffic::download(Some(2 * MB)));
        plan.flows[0] = plan.flows[0].clone().policies(policies.parse().unwrap());
        ok(&plan).wire_hash
    };
    assert_ne!(with("controller=cubic"), with("controller=new-reno"));
}

#[test]
fn a_download_comes_close_to_its_floor_and_counts_its_bytes() {
    let plan = plan(Traffic::download(Some(10 * MB)));
    let result = ok(&plan);
    let (flow, floor) = (&result.flows[0], result.flows[0].floor.unwrap());
    let completion = flow.completion.unwrap();
    assert!(completion >= floor.total + floor.round_trip, "{completion:?} {floor:?}");
    assert!(completion < floor.total * 13 / 10, "{completion:?} {floor:?}");
    assert_eq!(flow.bytes, 10 * MB);
    assert_eq!(flow.transfers.len(), 1);
    assert!(flow.settings.contains("controller=regain") && flow.settings.contains("1452 B"), "{}", flow.settings);
    assert_eq!(flow.delivered.last().unwrap().1, 10 * MB);
    assert!(flow.delivered.is_sorted());
    assert!(flow.mean_byte.unwrap() > completion / 3 && flow.mean_byte.unwrap() < completion);
    assert!(flow.handshake.unwrap() >= ms(40) && flow.handshake.unwrap() < ms(45), "{:?}", flow.handshake);
    assert_eq!((flow.client.connections, flow.server.connections), (1, 1));
    // What limited the server adds up to about the time that it had.
    let limited: Duration = flow.server.limited_by.iter().sum();
    assert!(limited > completion / 2 && limited <= result.virtual_time, "{limited:?}");
    let down = &result.links[1];
    assert_eq!(down.name, "p/down");
    assert!(down.busy > floor.serialisation && down.busy < completion, "{:?} {floor:?} {completion:?}", down.busy);
    assert!(!down.queue.is_empty());
}

#[test]
fn every_kind_of_traffic_finishes() {
    let think = Spread::Exponential(ms(30));
    let size = Size::Pareto { scale: 20_000, shape: 1.5 };
    let flows = |new_connections| Traffic::Flows(Flows { count: 20, arrivals: think, size, new_connections });
    let media =
        |up| Traffic::Media(Media { up, interval: ms(20), frame: 3000, deadline: Some(ms(100)), frames: Some(100) });
    let object = |size, after: &[usize], delay| PageObject { size, after: after.to_vec(), delay: ms(delay) };
    let page = vec![
        object(30_000, &[], 0),
        object(80_000, &[0], 5),
        object(200_000, &[0], 0),
        object(15_000, &[1, 2], 10),
        object(0, &[1], 0),
    ];
    let all = [
        (Traffic::download(Some(MB)), 1),
        (Traffic::download(Some(0)), 1),
        (Traffic::upload(Some(MB)), 1),
        (Traffic::Requests(Requests { count: 10, request: Size::Fixed(500), response: size, think }), 10),
        (flows(true), 20),
        (flows(false), 20),
        (Traffic::Page(Page(page)), 5),
        (media(true), 0),
        (media(false), 0),
    ];
    for (traffic, transfers) in all {
        let result = ok(&plan(traffic.clone()));
        let flow = &result.flows[0];
        assert!(flow.completion.is_some(), "{traffic:?}");
        assert_eq!(flow.transfers.len(), transfers, "{traffic:?}");
        match traffic {
            Traffic::Transfer(Transfer { bytes, .. }) => assert_eq!(Some(flow.bytes), bytes),
            Traffic::Page(_) => assert_eq!(flow.bytes, 325_000),
            Traffic::Requests(_) => {
                let transferred: u64 = flow.transfers.iter().map(|transfer| transfer.bytes).sum();
                assert_eq!(flow.bytes, transferred);
            }
            Traffic::Flows(Flows { new_connections, .. }) => {
                assert_eq!(flow.client.connections, if new_connections { 20 } else { 1 });
            }
            Traffic::Media(_) => {
                assert_eq!((flow.frames.sent, flow.frames.received, flow.frames.missed()), (100, 100, 0));
                assert!(flow.frames.delay.quantile(1, 2) >= ms(19) && flow.frames.delay.max() < ms(60));
            }
            _ => {}
        }
        // And over a bad link.
        let rough = ok(&rough(traffic));
        assert_eq!(rough.flows[0].transfers.len(), transfers);
    }
}

#[test]
fn a_page_waits_for_what_its_objects_depend_on() {
    let object = |size, after: &[usize], delay| PageObject { size, after: after.to_vec(), delay: ms(delay) };
    let chain = vec![object(1000, &[], 0), object(1000, &[0], 0), object(1000, &[1], 0)];
    let flat = vec![object(1000, &[], 0), object(1000, &[], 0), object(1000, &[], 0)];
    let took = |objects| ok(&plan(Traffic::Page(Page(objects)))).flows[0].completion.unwrap();
    let (chain, flat) = (took(chain), took(flat));
    // Two round trips more, less what three replies at once take to be sent.
    assert!(chain - flat >= ms(79) && chain - flat < ms(90), "{chain:?} {flat:?}");
}

#[test]
fn a_suspension_makes_media_miss_their_deadline() {
    let media =
        Traffic::Media(Media { up: false, interval: ms(20), frame: 1000, deadline: Some(ms(100)), frames: Some(200) });
    let mut plan = plan(media.clone());
    plan.paths[0].down.suspend_before.push(Windows::once(ms(1000), ms(300)));
    plan.flows.push(FlowPlan { stack: "raw".to_owned(), ..FlowPlan::new("raw", media) });
    let result = ok(&plan);
    let [quic, raw] = &result.flows[..] else { panic!() };
    // 300 ms are 15 frames; those of the last 80 ms are still in time.
    assert!((10..=12).contains(&raw.frames.late), "{:?}", raw.frames);
    assert_eq!(raw.frames.received, 200);
    // One stall: from the last frame before the suspension to the first after it that was not late.
    assert!(matches!(raw.frames.stalls[..], [stall] if stall > ms(200) && stall < ms(340)), "{:?}", raw.frames.stalls);
    assert!(quic.frames.missed() >= 9 && quic.frames.missed() <= 20, "{:?}", quic.frames);
}

#[test]
fn adding_a_flow_on_another_path_leaves_the_first_alone() {
    let alone = rough(Traffic::download(Some(MB)));
    let mut both = alone.clone();
    both.paths.push(PathPlan::new("q", link("5 Mbps", 50), link("5 Mbps", 50)));
    both.flows.push(FlowPlan { route: vec![1], ..FlowPlan::new("g", Traffic::upload(Some(MB))) });
    let (alone, both) = (ok(&alone), ok(&both));
    assert_eq!(alone.flows[0].completion, both.flows[0].completion);
    assert_eq!(alone.flows[0].delivered, both.flows[0].delivered);
    assert_eq!(alone.flows[0].transfers, both.flows[0].transfers);
    assert_eq!(alone.flows[0].start, both.flows[0].start);
}

#[test]
fn two_flows_share_a_bottleneck() {
    let mut plan = plan(Traffic::download(Some(5 * MB)));
    plan.flows.push(FlowPlan::new("g", Traffic::download(Some(5 * MB))));
    let result = ok(&plan);
    let both: Vec<Duration> = result.flows.iter().map(|flow| flow.completion.unwrap()).collect();
    // 10 MB at 20 Mbps take four seconds.
    assert!(both.iter().max().unwrap() > &ms(4000) && both.iter().max().unwrap() < &ms(6500), "{both:?}");
}

#[test]
fn an_endless_flow_ends_with_the_others_or_at_the_limit() {
    let mut plan = plan(Traffic::download(Some(MB)));
    plan.flows.push(FlowPlan::new("background", Traffic::upload(None)));
    let result = ok(&plan);
    assert!(result.virtual_time < Duration::from_secs(5));
    let endless = ok(&Plan { time_limit: Duration::from_secs(3), flows: plan.flows.split_off(1), ..plan });
    assert_eq!(endless.virtual_time, Duration::from_secs(3));
    let bytes = endless.flows[0].bytes;
    assert!(bytes > 5 * MB && bytes < 7_500_000, "{bytes}");
    assert_eq!(endless.flows[0].completion, None);
}

#[test]
fn a_route_may_have_several_links() {
    let mut plan = plan(Traffic::download(Some(MB)));
    plan.paths.push(PathPlan::new("q", link("100 Mbps", 30), link("100 Mbps", 30)));
    plan.flows[0].route = vec![0, 1];
    let result = ok(&plan);
    assert!(result.flows[0].handshake.unwrap() >= ms(100));
    assert!(result.links[1].stats.delivered > 700 && result.links[3].stats.delivered > 700);
    assert!(result.flows[0].completion.unwrap() >= result.flows[0].floor.unwrap().total + ms(100));
}

#[test]
fn a_host_model_batches_and_delays() {
    let mut plan = plan(Traffic::download(Some(2 * MB)));
    let ideal = ok(&plan);
    let mut hashes = vec![ideal.wire_hash];
    for model in [HostModel::LINUX, HostModel::LINUX_COARSE] {
        plan.flows[0].client_host = model;
        plan.flows[0].server_host = model;
        let linux = ok(&plan);
        assert!(!hashes.contains(&linux.wire_hash));
        hashes.push(linux.wire_hash);
        let (ideal, linux) = (ideal.flows[0].completion.unwrap(), linux.flows[0].completion.unwrap());
        assert!(linux > ideal.mul_f64(0.9) && linux < ideal.mul_f64(1.2), "{ideal:?} {linux:?}");
    }
}

#[test]
fn starts_are_drawn_within_a_round_trip() {
    let mut starts = Vec::new();
    for seed in 1..=20 {
        let plan = Plan { seed, ..rough(Traffic::download(Some(1000))) };
        starts.push(ok(&plan).flows[0].start);
    }
    assert!(starts.iter().all(|start| *start < ms(40)));
    assert!(starts.iter().max().unwrap() > &ms(25) && starts.iter().min().unwrap() < &ms(15), "{starts:?}");
}

#[test]
fn series_are_kept_on_request() {
    let mut plan = rough(Traffic::download(Some(MB)));
    assert!(ok(&plan).flows[0].server.series.metrics.is_empty());
    plan.record = Record { metrics: true, packets: true, ..Record::default() };
    let result = ok(&plan);
    let (stats, series) = (&result.flows[0].server.stats, &result.flows[0].server.series);
    assert!(series.metrics.len() > 50 && series.metrics.is_sorted_by_key(|point| point.0));
    let count = |what| series.packets.iter().filter(|point| point.what == what).count() as u64;
    assert!(count(PacketFate::Sent) > 700 && count(PacketFate::Sent) <= stats.path.packets_sent);
    assert_eq!(count(PacketFate::Spurious), stats.path.packets_spurious);
    assert!(count(PacketFate::Lost) >= stats.path.packets_lost);
    let (sent, acked) = (count(PacketFate::Sent), count(PacketFate::Acked));
    assert!(acked <= sent && acked > sent * 8 / 10, "{acked} of {sent}");
}

#[test]
fn what_is_sent_twice_and_every_round_trip_are_counted() {
    // Packets 101 to 103 of the way down do not arrive: what they carried is sent once more, and nothing else is.
    let clean = plan(Traffic::download(Some(MB)));
    let mut lossy = clean.clone();
    lossy.paths[0].down.loss = vec![LossModel::List(vec![100, 101, 102])];
    let result = ok(&lossy);
    let side = &result.flows[0].server;
    assert_eq!(side.stats.path.packets_lost, 3);
    assert!(
        side.retransmitted > 3 * 1100 && side.retransmitted <= side.stats.path.bytes_lost,
        "{}",
        side.retransmitted
    );
    assert!(side.rtt.count() >= 20, "{}", side.rtt.count());
    // The queue adds up to one base round trip and a packet.
    let (smallest, largest, base) = (side.rtt.quantile(0, 1), side.rtt.max(), side.stats.min_rtt);
    assert!(smallest == base && largest < 3 * base, "{smallest:?} {largest:?} {base:?}");
    let small = ok(&plan(Traffic::download(Some(50_000))));
    assert_eq!((small.flows[0].server.stats.path.packets_lost, small.flows[0].server.retransmitted), (0, 0));
}

#[test]
fn the_hash_may_be_left_out() {
    let mut plan = rough(Traffic::download(Some(MB)));
    let full = ok(&plan);
    plan.record.hash = false;
    let (first, second) = (ok(&plan), ok(&plan));
    assert_eq!(first.wire_hash, second.wire_hash);
    assert_eq!(first.flows[0].completion, full.flows[0].completion);
}

/// Delays of hosts are up to two packet times of the bottleneck: 0.24 ms here, and a millisecond on the slow path.
#[test]
fn what_leaves_by_a_fast_interface_does_not_wait_as_on_a_slow_one() {
    let slowest = |beside: &[&str]| {
        let mut plan = plan(Traffic::Requests(Requests {
            count: 200,
            request: Size::Fixed(100),
            response: Size::Fixed(100),
            think: Spread::Fixed(ms(5)),
        }));
        plan.host_delay = true;
        plan.paths[0] = PathPlan::new("fast", link("100 Mbps", 10), link("100 Mbps", 10));
        for name in beside {
            plan.flows[0].beside.push(vec![plan.paths.len()]);
            plan.paths.push(PathPlan::new(name, link("500 kbps", 40), link("500 kbps", 40)));
        }
        ok(&plan).flows[0].transfers.iter().skip(5).map(|transfer| transfer.took).max().unwrap()
    };
    let (alone, beside) = (slowest(&[]), slowest(&["slow"]));
    assert!(alone > ms(20) && alone < Duration::from_micros(20_600), "{alone:?}");
    assert!(beside < Duration::from_micros(20_600), "{beside:?} instead of {alone:?}");
}

#[test]
fn wifi_is_a_path_like_any_other() {
    let mut plan = plan(Traffic::Requests(Requests {
        count: 200,
        request: Size::Fixed(100),
        response: Size::Fixed(1000),
        think: Spread::Fixed(ms(50)),
    }));
    plan.paths[0].wifi = Some(WifiProfile { every: Duration::from_secs(1), ..WifiProfile::default() });
    let result = ok(&plan);
    let slow = result.flows[0].transfers.iter().filter(|transfer| transfer.took > ms(140)).count();
    assert!(slow > 3, "{slow}");
}

#[test]
fn a_path_that_loses_everything_fails_the_flow_and_says_why() {
    let mut plan = plan(Traffic::download(Some(MB)));
    plan.paths[0].down.loss.push(LossModel::Random(Probability::ALWAYS));
    let result = run(&plan).unwrap();
    let reason = result.failed.unwrap();
    assert!(reason.contains("\"f\"") && reason.contains("lost"), "{reason}");
    assert_eq!(result.flows[0].completion, None);
    assert!(result.virtual_time < Duration::from_secs(60));
}

#[test]
fn what_is_not_finished_at_the_time_limit_has_failed() {
    let plan = Plan { time_limit: ms(500), ..plan(Traffic::download(Some(100 * MB))) };
    let result = run(&plan).unwrap();
    let reason = result.failed.unwrap();
    assert!(reason.contains("500 ms") && reason.contains("\"f\""), "{reason}");
    assert_eq!(result.virtual_time, ms(500));
    assert!(result.flows[0].bytes > 0);
}

/// A stack whose hosts do nothing, or want to be called again and again at the same time.
struct Broken {
    restless: bool,
}

impl StackFactory for Broken {
    fn info(&self) -> StackInfo {
        StackInfo::new("broken")
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let host = || {
            let timer = self.restless.then_some(context.start);
            Box::new(Idle { timer, meter: Meter::new(context.origin, Duration::ZERO) })
        };
        Ok((host(), host()))
    }
}

struct Idle {
    timer: Option<Instant>,
    meter: Meter,
}

impl Host for Idle {
    fn datagram(&mut self, _: Instant, _: Envelope, _: &mut [u8]) {}
    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }
    fn timer(&mut self, _: Instant) {}
    fn poll_send(&mut self, _: Instant, _: &mut Outbox<'_>) {}
    fn status(&self) -> Status {
        Status::Running
    }
    fn meter(&self) -> &Meter {
        &self.meter
    }
    fn report(&mut self, _: Instant) -> SideResult {
        SideResult::default()
    }
}

/// Ten responses of 20 kB, far apart.
fn responses() -> Traffic {
    let think = Spread::Fixed(ms(500));
    Traffic::Requests(Requests { count: 10, request: Size::Fixed(300), response: Size::Fixed(20_000), think })
}

#[test]
fn the_last_packet_of_each_response_can_be_lost_and_only_a_probe_brings_it_back() {
    let mut clean = plan(responses());
    clean.flows = clean
        .flows
        .into_iter()
        .map(|flow| flow.policies("ack-allowance=always, ack-rate=off".parse().unwrap()))
        .collect();
    let mut tail = clean.clone();
    tail.paths[0].down.loss.push(LossModel::Tail);
    let (clean, tail) = (ok(&clean), ok(&tail));
    assert_eq!(tail.links[1].stats.dropped_by(DropCause::Loss), 10);
    let (clean, tail) = (&clean.flows[0], &tail.flows[0]);
    assert_eq!((clean.server.stats.path.ptos, tail.server.stats.path.ptos), (0, 10));
    // The last loss may not be known before the end.
    assert!((9..=10).contains(&tail.server.stats.path.packets_lost));
    for (clean, tail) in clean.transfers.iter().zip(&tail.transfers) {
        // A smoothed round trip and 25 ms of ACK delay, and the way of the probe.
        assert!(tail.took > clean.took + ms(65), "{clean:?} {tail:?}");
    }
}

#[test]
fn tcp_loses_its_tails_too() {
    let mut plan = plan(responses());
    plan.flows[0].stack = "tcp".to_owned();
    let clean = ok(&plan);
    plan.paths[0].down.loss.push(LossModel::Tail);
    let tail = ok(&plan);
    assert_eq!(tail.links[1].stats.dropped_by(DropCause::Loss), 10);
    for (clean, tail) in clean.flows[0].transfers.iter().zip(&tail.flows[0].transfers) {
        assert!(tail.took > clean.took + ms(40), "{clean:?} {tail:?}");
    }
}

#[test]
fn probes_were_too_early_when_nothing_was_lost_and_not_when_all_was() {
    let early = |held: bool| {
        let mut plan = plan(Traffic::download(Some(4 * MB)));
        let window = Windows::once(ms(600), ms(800));
        let path = &mut plan.paths[0];
        for direction in [&mut path.up, &mut path.down] {
            let list = if held { &mut direction.suspend_after } else { &mut direction.outages };
            list.push(window.clone());
        }
        let server = ok(&plan).flows[0].server.clone();
        (server.stats.path.ptos, server.early_probes)
    };
    let (held, lost) = (early(true), early(false));
    assert!(held.0 >= 2 && held.1 == held.0, "{held:?}");
    assert!(lost.0 >= 2 && lost.1 == 0, "{lost:?}");
}

#[test]
fn the_endpoints_chance_can_be_changed_without_the_rest() {
    let plan = rough(Traffic::download(Some(MB)));
    let with = |endpoint_seed| ok(&Plan { endpoint_seed, ..plan.clone() });
    let (same, own, other) = (with(Some(plan.seed)), with(None), with(Some(77)));
    assert_eq!(same.wire_hash, own.wire_hash);
    assert_ne!(other.wire_hash, own.wire_hash);
    // The phase is drawn from the seed, not by the endpoint.
    assert_eq!(other.flows[0].start, own.flows[0].start);
}

#[test]
fn a_deadlock_is_reported_as_failed_and_does_not_hang() {
    let mut plan = plan(Traffic::download(Some(MB)));
    plan.flows[0].stack = "broken".to_owned();
    for (restless, expected) in [(false, "deadlock"), (true, "time stands still")] {
        let mut registry = Registry::default();
        registry.add(Box::new(Broken { restless }));
        let result = run_with(&plan, &registry).unwrap();
        let reason = result.failed.unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn plans_that_cannot_be_run_say_why() {
    let fails = |change: &dyn Fn(&mut Plan), needles: &[&str]| {
        let mut plan = plan(Traffic::download(Some(MB)));
        change(&mut plan);
        let message = run(&plan).unwrap_err().to_string();
        for needle in needles {
            assert!(message.contains(needle), "{message}");
        }
    };
    fails(&|plan| plan.flows.clear(), &["no flow"]);
    fails(&|plan| plan.time_limit = ms(0), &["time limit"]);
    fails(&|plan| plan.flows.push(plan.flows[0].clone()), &["two flows", "\"f\""]);
    fails(&|plan| plan.paths.push(plan.paths[0].clone()), &["two paths", "\"p\""]);
    fails(&|plan| plan.flows[0].route = vec![1], &["\"f\"", "path number 1"]);
    fails(&|plan| plan.flows[0].route.clear(), &["\"f\""]);
    fails(&|plan| plan.flows[0].stack = "tpc".to_owned(), &["\"tpc\"", "\"thalweg\"", "\"raw\""]);
    fails(&|plan| plan.paths[0].down.rate = RateModel::Constant("0 bps".parse().unwrap()), &["\"p\"", "down", "zero"]);
    fails(&|plan| plan.flows[0].traffic = Traffic::Page(Page(vec![])), &["\"f\"", "at least one object"]);
    fails(&|plan| plan.flows[0].stack = "raw".to_owned(), &["\"f\"", "media"]);
}

/// Counts what passes at the hosts: by client and sent.
#[derive(Default)]
struct Counter {
    counts: std::collections::BTreeMap<(bool, bool), u64>,
    newest: Duration,
    bytes: u64,
}

impl Tap for Counter {
    fn datagram(&mut self, seen: &Seen<'_>) {
        assert!(seen.at >= self.newest && seen.flow == 0);
        self.newest = seen.at;
        self.bytes += u64::from(seen.overhead) + seen.payload.len() as u64;
        *self.counts.entry((seen.at_client, seen.is_sent)).or_default() += 1;
    }
}

#[test]
fn a_tap_sees_every_datagram_at_both_hosts_and_changes_nothing() {
    let hosts = [HostModel::IDEAL, HostModel::LINUX, HostModel::KERNEL].map(|host| (true, host));
    for (host_delay, host) in hosts.into_iter().chain([(false, HostModel::IDEAL)]) {
        let mut plan = Plan { host_delay, ..rough(Traffic::download(Some(MB))) };
        (plan.flows[0].client_host, plan.flows[0].server_host) = (host, host);
        let mut counter = Counter::default();
        let tapped = run_tapped(&plan, &Registry::default(), &mut counter).unwrap();
        let plain = ok(&plan);
        assert_eq!((tapped.wire_hash, tapped.decisions_hash), (plain.wire_hash, plain.decisions_hash));
        let [up, down] = [0, 1].map(|at| &tapped.links[at].stats);
        let count = |at_client, is_sent| counter.counts[&(at_client, is_sent)];
        assert_eq!((count(false, false), count(true, false)), (up.delivered, down.delivered));
        assert!(counter.bytes > 2 * MB);
        if host.nic.is_none() {
            assert_eq!((count(true, true), count(false, true)), (up.offered, down.offered));
        }
        // What hosts still delay at the end has not been seen.
        let sent = count(true, true) + count(false, true);
        assert!(sent <= tapped.datagrams && sent + 20 >= tapped.datagrams, "{sent} of {}", tapped.datagrams);
    }
}
