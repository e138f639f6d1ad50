//! Connections that know something from an earlier one.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, RateModel};
use thalweg_recovery::PathMemory;
use thalweg_sim::*;
use thalweg_units::Duration;

const BDP: u64 = 1_250_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 50 Mbps, 100 ms each way: a megabyte, which slow start needs seven round trips for.
fn transfer(traffic: Traffic, resume: &str, resumed: Resumed, crypto: Crypto) -> RunResult {
    let link = || DirectionConfig {
        rate: RateModel::Constant("50 Mbps".parse().unwrap()),
        delay: ms(100).into(),
        queue: "1 BDP".parse().unwrap(),
        ..DirectionConfig::default()
    };
    let policies = format!("start=hystart++, resume={resume}").parse().unwrap();
    let flow = FlowPlan { resumed, ..FlowPlan::new("f", traffic).policies(policies) };
    let plan = Plan { paths: vec![PathPlan::new("p", link(), link())], flows: vec![flow], crypto, ..Plan::default() };
    let result = run(&plan).unwrap();
    assert_eq!(result.failed, None);
    result
}

fn completion(result: &RunResult) -> Duration {
    result.flows[0].completion.unwrap()
}

fn known() -> PathMemory {
    PathMemory { window: BDP, min_rtt: ms(200), rate: Some("50 Mbps".parse().unwrap()), age: Duration::ZERO }
}

const DOWN: Traffic = Traffic::download(Some(1_000_000));
const UP: Traffic = Traffic::upload(Some(1_000_000));

#[test]
fn a_known_path_saves_round_trips_in_either_direction() {
    for traffic in [DOWN, UP] {
        let time = |resume| {
            let result = transfer(traffic.clone(), resume, Resumed::remembering(known()), Crypto::Null);
            assert_eq!(
                result.flows[0].server.stats.path.packets_lost + result.flows[0].client.stats.path.packets_lost,
                0
            );
            completion(&result)
        };
        let [off, careful, half, full] = ["off", "careful", "handshake/half", "handshake/full"].map(time);
        assert!(careful + ms(400) < off, "{traffic:?}: {careful:?} against {off:?}");
        assert!(half + ms(150) < careful, "{traffic:?}: {half:?} against {careful:?}");
        assert!(full + ms(40) < half, "{traffic:?}: {full:?} against {half:?}");
    }
}

#[test]
fn early_data_save_the_round_trip_of_the_handshake() {
    for crypto in [Crypto::Null, Crypto::Real] {
        let time = |early| completion(&transfer(DOWN, "off", Resumed::default().with_early_data(early), crypto));
        let saved = time(false) - time(true);
        assert!((ms(150)..ms(250)).contains(&saved), "{crypto:?}: {saved:?}");
    }
}

#[test]
fn a_memory_that_is_too_old_or_of_another_path_changes_nothing() {
    let unknown = transfer(DOWN, "careful", Resumed::remembering(PathMemory { window: 0, ..known() }), Crypto::Null);
    for memory in [
        PathMemory { age: Duration::from_secs(2 * 3_600), ..known() },
        PathMemory { min_rtt: ms(500), ..known() },
        PathMemory { min_rtt: ms(15), ..known() },
    ] {
        let result = transfer(DOWN, "careful", Resumed::remembering(memory), Crypto::Null);
        assert_eq!(completion(&result), completion(&unknown), "{memory:?}");
    }
}

#[test]
fn the_first_flight_is_no_larger_than_the_rule_allows_whatever_is_remembered() {
    for window in [10 * BDP, u64::MAX] {
        for (resume, most) in [("careful", window / 2), ("handshake/half", window / 2), ("handshake/full", window)] {
            let memory = PathMemory { window, rate: None, ..known() };
            let result = transfer(DOWN, resume, Resumed::remembering(memory), Crypto::Null);
            let server = &result.flows[0].server.stats;
            assert!(server.path.max_window <= most.min(1 << 30) + 2_000_000, "{resume}: {}", server.path.max_window);
        }
    }
}

#[test]
fn a_stack_without_a_past_is_refused_one() {
    let flow = FlowPlan {
        stack: "tcp".to_owned(),
        resumed: Resumed::default().with_early_data(true),
        ..FlowPlan::new("f", DOWN)
    };
    let plan = Plan {
        paths: vec![PathPlan::new("p", DirectionConfig::default(), DirectionConfig::default())],
        flows: vec![flow],
        ..Plan::default()
    };
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("the stack \"tcp\" knows nothing from an earlier connection"), "{error}");
}
