//! Random worlds: whatever a path does to packets, traffic over it finishes, and both ciphers agree on how.
#![allow(clippy::unwrap_used)]

use thalweg_link::{
    Dice, DirectionConfig, EcnTreatment, Interruption, Jitter, LossModel, Policer, Probability, QueueLimit, RateModel,
    Reorder, Schedule, Spread, Streams, Windows,
};
use thalweg_recovery::Policies;
use thalweg_sim::traffic::{Flows, Requests, Transfer};
use thalweg_sim::{Crypto, FlowPlan, HostModel, MinRto, PathPlan, Plan, Size, TcpConfig, TcpProfile, Traffic, run};
use thalweg_units::{Duration, Rate};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A direction in which each kind of harm is there or not.
fn direction(dice: &mut Dice) -> DirectionConfig {
    let mut config = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(500_000 + dice.below(50_000_000))),
        delay: ms(1 + dice.below(150)).into(),
        queue: QueueLimit::Bytes(20_000 + dice.below(500_000)),
        ..DirectionConfig::default()
    };
    let harm = dice.bits();
    let has = |bit: u32| harm >> (2 * bit) & 3 == 0;
    let windows = |dice: &mut Dice| {
        vec![Windows::Random { gap: ms(1000 + dice.below(3000)), length: Spread::Uniform(ms(1), ms(300)) }]
    };
    if has(0) {
        config.loss.push(LossModel::Random(Probability::ratio(dice.below(30), 1000)));
    }
    if has(1) {
        let share = Probability::ratio(dice.below(100), 1000);
        config.reorder.push(Reorder { share, by: ms(dice.below(50)) });
    }
    if has(2) {
        let spread = Spread::Exponential(ms(dice.below(20)));
        config.jitter = Some(Jitter { spread, reorder: dice.below(2) == 0 });
    }
    if has(3) {
        config.outages = windows(dice);
    }
    if has(4) {
        config.suspend_before = windows(dice);
    }
    if has(5) {
        config.suspend_after = windows(dice);
    }
    if has(6) {
        config.corrupt = Probability::ratio(dice.below(10), 1000);
        config.duplicate = Probability::ratio(dice.below(100), 1000);
    }
    if has(7) {
        config.mtu = Some(Schedule::constant(1228 + dice.below(300) as u32));
    }
    if has(8) {
        let treatments = [EcnTreatment::Bleach, EcnTreatment::MarkAll, EcnTreatment::Ect1ToEct0];
        config.ecn = Some(Schedule::constant(treatments[dice.below(3) as usize]));
    }
    if has(9) {
        let rate = Rate::from_bps(1_000_000 + dice.below(10_000_000));
        config.policer = Some(Policer { rate, burst: 10_000 + dice.below(50_000) });
    }
    config
}

fn world(seed: u64) -> Plan {
    let mut dice = Streams::new(seed).dice("world");
    let path = PathPlan::new("p", direction(&mut dice), direction(&mut dice));
    let pause = Spread::Exponential(ms(100));
    let traffic = match dice.below(5) {
        0 => Traffic::download(Some(300_000)),
        1 => Traffic::upload(Some(300_000)),
        2 => {
            let response = Size::Pareto { scale: 10_000, shape: 1.5 };
            Traffic::Requests(Requests { count: 10, request: Size::Fixed(300), response, think: pause })
        }
        kind => {
            Traffic::Flows(Flows { count: 10, arrivals: pause, size: Size::Fixed(20_000), new_connections: kind == 3 })
        }
    };
    let mut flow = FlowPlan::new("f", traffic);
    if dice.below(2) == 0 {
        flow.client_host = HostModel::LINUX;
        flow.server_host = HostModel::LINUX_COARSE;
    }
    let time_limit = Duration::from_secs(300);
    Plan { paths: vec![path], flows: vec![flow], seed, time_limit, perturb_start: true, ..Plan::default() }
}

#[test]
fn traffic_finishes_in_every_world_and_both_ciphers_agree() {
    for seed in 0..60 {
        let real = world(seed);
        let null = Plan { crypto: Crypto::Null, ..real.clone() };
        let (first, second) = (run(&real).unwrap(), run(&null).unwrap());
        assert_eq!(first.failed, None, "seed {seed}: {real:?}");
        assert_eq!(first.wire_hash, second.wire_hash, "seed {seed}: {real:?}");
        for link in &first.links {
            let stats = &link.stats;
            assert!(stats.delivered + stats.dropped_total() <= stats.offered + stats.duplicated, "seed {seed}");
        }
    }
}

#[test]
fn tcp_traffic_finishes_in_every_world_and_repeats() {
    for seed in 0..120 {
        let mut dice = Streams::new(seed).dice("tcp");
        let mut pick = |names: &[&'static str]| names[dice.below(names.len() as u64) as usize];
        let policies = format!(
            "controller={}, reduction={}, reordering={}, start={}, pacing={}",
            pick(&["cubic", "new-reno"]),
            pick(&["immediate", "rate-halving", "prr-ub", "prr-crb", "prr-ssrb", "prr"]),
            pick(&["fixed", "half-in-flight", "time-only", "adaptive"]),
            pick(&["standard", "hystart++"]),
            pick(&["on", "off"]),
        );
        let policies: Policies = policies.parse().unwrap();
        let mut plan = world(seed);
        plan.flows[0] = plan.flows[0].clone().policies(policies);
        plan.flows[0].stack = "tcp".to_owned();
        plan.flows[0].settings = TcpConfig {
            // There is nothing here that would report a smaller path to a TCP.
            mtu: 1228,
            ecn: dice.below(2) == 0,
            tail_loss_probe: dice.below(2) == 0,
            time_threshold: dice.below(2) == 0,
            delayed_ack: ms(40 * dice.below(2)),
            min_rto: [MinRto::Linux, MinRto::Rfc6298, MinRto::At(ms(50))][dice.below(3) as usize],
            ..TcpConfig::new(TcpProfile::ALL[dice.below(3) as usize])
        }
        .into();
        let (first, second) = (run(&plan).unwrap(), run(&plan).unwrap());
        assert_eq!(first.failed, None, "seed {seed}: {plan:?}");
        assert_eq!(first.wire_hash, second.wire_hash, "seed {seed}");
        let least = match plan.flows[0].traffic {
            Traffic::Transfer(Transfer { bytes, .. }) => bytes.unwrap_or(0),
            Traffic::Flows(Flows { count, .. }) => count * 20_000,
            _ => 10 * 300,
        };
        assert!(first.flows[0].bytes >= least, "seed {seed}: {}", first.flows[0].bytes);
    }
}

#[test]
fn an_interruption_that_cannot_be_drawn_says_of_which_direction_it_is() {
    let endless = Interruption {
        stream: "outage 0".to_owned(),
        at: (ms(0), ms(0)),
        lasts: (Duration::from_nanos(100), Duration::from_nanos(200)),
        every: Some(Duration::from_nanos(300)),
        times: 0,
        random: false,
    };
    let link = DirectionConfig { delay: ms(10).into(), queue: QueueLimit::Infinite, ..DirectionConfig::default() };
    let refused = |set: fn(&mut PathPlan) -> &mut Vec<Windows>| {
        let mut path = PathPlan::new("p", link.clone(), link.clone());
        set(&mut path).push(Windows::Drawn(endless.clone()));
        let flows = vec![FlowPlan::new("f", Traffic::download(Some(1)))];
        run(&Plan { paths: vec![path], flows, ..Plan::default() }).unwrap_err().to_string()
    };
    for (message, direction) in [
        (refused(|path| &mut path.up.outages), "up"),
        (refused(|path| &mut path.down.outages), "down"),
        (refused(|path| &mut path.outages), "both directions"),
    ] {
        assert!(message.starts_with(&format!("path \"p\", {direction}: `outage 0`")), "{message}");
    }
}
