//! Window, trains and persistent congestion.

use super::*;

#[test]
fn it_is_twice_what_the_path_holds_and_what_comes_in_batches() {
    let mut stage = Stage::at(Phase::Refill);
    let most = 2 * BDP + stage.bbr.path.aggregation.extra();
    (0..40).for_each(|_| stage.ack(&Ack { in_flight: Some(BDP), ..Ack::default() }));
    assert!(stage.allowance().window <= most + BDP / 4 + 2 * DATAGRAM);
    assert!(stage.allowance().window >= 2 * BDP);
}

#[test]
fn it_rises_by_what_is_acknowledged_and_falls_at_once() {
    let mut stage = Stage::at(Phase::Cruise);
    stage.bbr.window = 10 * DATAGRAM;
    let low = Ack { in_flight: Some(5 * DATAGRAM), ..Ack::default() };
    stage.ack(&low);
    assert_eq!(stage.allowance().window, 15 * DATAGRAM, "an acknowledgment brings five");
    stage.bbr.window = 100 * BDP;
    stage.ack(&low);
    assert!(stage.allowance().window <= 2 * BDP + stage.bbr.path.aggregation.extra());
}

#[test]
fn it_is_never_below_four_datagrams() {
    let mut stage = Stage::new();
    let thin = Ack { rate: Rate::from_bps(64_000), rtt: ms(10), in_flight: Some(DATAGRAM), ..Ack::default() };
    (0..400).for_each(|_| stage.ack(&thin));
    assert!(stage.bbr.startup.full_pipe.reached);
    assert!(stage.allowance().window >= 4 * DATAGRAM && stage.allowance().window <= 6 * DATAGRAM + 1_000);
    let rate = stage.allowance().rate.unwrap();
    assert!(rate <= Rate::from_bps(64_000 * 5 / 4) && rate >= Rate::from_bps(64_000 * 85 / 100), "{rate}");
}

#[test]
fn trains_are_a_millisecond_of_the_rate_and_two_datagrams_at_least() {
    let stage = Stage::at(Phase::Cruise);
    assert_eq!(stage.allowance().quantum, 2 * DATAGRAM);
    let fast = Stage::new().allowance();
    assert_eq!(fast.quantum, fast.rate.unwrap().bytes_in(ms(1)));
}

#[test]
fn persistent_congestion_leaves_two_datagrams_and_what_is_acknowledged_opens_it() {
    let mut stage = Stage::at(Phase::Cruise);
    let low = Ack { in_flight: Some(DATAGRAM), ..Ack::default() };
    stage.ack(&Ack { persistent: true, ..low.clone() });
    assert_eq!(stage.allowance().window, 2 * DATAGRAM);
    stage.ack(&low);
    assert_eq!(stage.allowance().window, 7 * DATAGRAM);
    (0..100).for_each(|_| stage.ack(&low));
    assert!(stage.allowance().window > BDP, "{}", stage.allowance().window);
}

#[test]
fn a_restart_policy_may_limit_it() {
    let mut stage = Stage::at(Phase::Cruise);
    assert_eq!(stage.bbr.on_validation(stage.now, 20 * DATAGRAM), Change::Allowance);
    assert_eq!(stage.allowance().window, 20 * DATAGRAM);
}

#[test]
fn another_datagram_size_moves_the_initial_window_and_the_minimum() {
    let mut stage = Stage::new();
    stage.bbr.on_datagram_size(1_400);
    assert_eq!(stage.allowance().window, 14_000);
    let mut stage = Stage::at(Phase::Cruise);
    let window = stage.allowance().window;
    stage.bbr.on_datagram_size(1_400);
    assert_eq!(stage.allowance().window, window);
    stage.bbr.window = 0;
    stage.bbr.on_datagram_size(1_200);
    assert_eq!(stage.allowance().window, 4_800);
}
