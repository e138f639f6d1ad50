//! Connections for which an earlier one has saved something.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, RateModel};
use thalweg_recovery::SavedPath;
use thalweg_sim::*;
use thalweg_units::Duration;

const BDP: u64 = 1_250_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 50 Mbps, 100 ms each way: a megabyte, which slow start needs seven round trips for.
fn transfer(traffic: Traffic, resume: &str, saved: SavedState, crypto: Crypto) -> RunResult {
    let link = || DirectionConfig {
        rate: RateModel::Constant("50 Mbps".parse().unwrap()),
        delay: ms(100).into(),
        queue: "1 BDP".parse().unwrap(),
        ..DirectionConfig::default()
    };
    let policies = format!("start=hystart++, resume={resume}").parse().unwrap();
    let flow = FlowPlan { saved, ..FlowPlan::new("f", traffic).policies(policies) };
    let plan = Plan { paths: vec![PathPlan::new("p", link(), link())], flows: vec![flow], crypto, ..Plan::default() };
    let result = run(&plan).unwrap();
    assert_eq!(result.failed, None);
    result
}

fn completion(result: &RunResult) -> Duration {
    result.flows[0].completion.unwrap()
}

fn saved_path() -> SavedPath {
    SavedPath { window: BDP, min_rtt: ms(200), rate: Some("50 Mbps".parse().unwrap()), age: Duration::ZERO }
}

const DOWN: Traffic = Traffic::download(Some(1_000_000));
const UP: Traffic = Traffic::upload(Some(1_000_000));

#[test]
fn a_saved_path_spares_round_trips_in_either_direction() {
    for traffic in [DOWN, UP] {
        let time = |resume| {
            let result = transfer(traffic.clone(), resume, SavedState::of_path(saved_path()), Crypto::Null);
            assert_eq!(
                result.flows[0].server.stats.path.packets_lost + result.flows[0].client.stats.path.packets_lost,
                0
            );
            completion(&result)
        };
        let [off, careful, half, full] = ["off", "careful", "handshake", "handshake(share=1)"].map(time);
        assert!(careful + ms(400) < off, "{traffic:?}: {careful:?} against {off:?}");
        assert!(half + ms(150) < careful, "{traffic:?}: {half:?} against {careful:?}");
        assert!(full + ms(40) < half, "{traffic:?}: {full:?} against {half:?}");
    }
}

#[test]
fn early_data_save_the_round_trip_of_the_handshake() {
    for crypto in [Crypto::Null, Crypto::Real] {
        let time = |early| completion(&transfer(DOWN, "off", SavedState::default().with_early_data(early), crypto));
        let saved = time(false) - time(true);
        assert!((ms(150)..ms(250)).contains(&saved), "{crypto:?}: {saved:?}");
    }
}

#[test]
fn a_saved_path_that_is_too_old_or_another_changes_nothing() {
    let unknown = transfer(DOWN, "careful", SavedState::of_path(SavedPath { window: 0, ..saved_path() }), Crypto::Null);
    for saved in [
        SavedPath { age: Duration::from_secs(2 * 3_600), ..saved_path() },
        SavedPath { min_rtt: ms(500), ..saved_path() },
        SavedPath { min_rtt: ms(15), ..saved_path() },
    ] {
        let result = transfer(DOWN, "careful", SavedState::of_path(saved), Crypto::Null);
        assert_eq!(completion(&result), completion(&unknown), "{saved:?}");
    }
}

#[test]
fn the_first_flight_is_no_larger_than_the_rule_allows_whatever_was_saved() {
    for window in [10 * BDP, u64::MAX] {
        for (resume, most) in [("careful", window / 2), ("handshake", window / 2), ("handshake(share=1)", window)] {
            let saved = SavedPath { window, rate: None, ..saved_path() };
            let result = transfer(DOWN, resume, SavedState::of_path(saved), Crypto::Null);
            let server = &result.flows[0].server.stats;
            assert!(server.path.max_window <= most.min(1 << 30) + 2_000_000, "{resume}: {}", server.path.max_window);
        }
    }
}

#[test]
fn a_stack_without_a_past_is_refused_one() {
    let flow = FlowPlan {
        stack: "tcp".to_owned(),
        saved: SavedState::default().with_early_data(true),
        ..FlowPlan::new("f", DOWN)
    };
    let plan = Plan {
        paths: vec![PathPlan::new("p", DirectionConfig::default(), DirectionConfig::default())],
        flows: vec![flow],
        ..Plan::default()
    };
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("the stack \"tcp\" has nothing saved from an earlier connection"), "{error}");
}
