//! The short-term bounds.

use super::*;

#[test]
fn a_round_with_loss_lowers_the_bounds_once_and_the_next_without_does_not() {
    let mut stage = Stage::at(Phase::Cruise);
    let slow = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP * 9 / 10), ..Ack::default() };
    (0..2).for_each(|_| stage.round(&slow));
    let losses = stage.losses(&[1], BDP);
    stage.ack(&Ack { losses, congestion: true, ..slow.clone() });
    for _ in 0..5 {
        let losses = stage.losses(&[1], BDP);
        stage.ack(&Ack { losses, ..slow.clone() });
    }
    (0..2).for_each(|_| stage.round(&slow));
    assert_eq!(stage.bbr.path.short_term.bandwidth, LINK.mul_ratio(7, 10));
    assert_eq!(stage.bbr.path.bandwidth, LINK.mul_ratio(7, 10));
    assert_eq!(stage.bbr.path.max_bandwidth.value(), LINK, "the long term is not touched");
    (0..3).for_each(|_| stage.round(&slow));
    assert_eq!(stage.bbr.path.short_term.bandwidth, LINK.mul_ratio(7, 10));
    assert!(stage.allowance().window <= stage.bbr.path.short_term.inflight);
}

#[test]
fn loss_by_chance_that_costs_no_delivery_costs_no_bandwidth() {
    let mut stage = Stage::at(Phase::Cruise);
    for _ in 0..10 {
        let losses = stage.losses(&[1], BDP);
        stage.ack(&Ack { losses, congestion: true, in_flight: Some(BDP * 9 / 10), ..Ack::default() });
        stage.round(&Ack { in_flight: Some(BDP * 9 / 10), ..Ack::default() });
    }
    assert_eq!(stage.bbr.phase, Phase::Cruise);
    assert_eq!(stage.bbr.path.bandwidth, LINK);
}

#[test]
fn loss_while_probing_leaves_the_bounds_alone() {
    let mut stage = Stage::new();
    (0..2).for_each(|_| stage.round(&Ack { limited: true, ..Ack::default() }));
    for _ in 0..3 {
        let losses = stage.losses(&[1], BDP);
        stage.ack(&Ack { losses, congestion: true, limited: true, ..Ack::default() });
        stage.round(&Ack { limited: true, ..Ack::default() });
    }
    assert_eq!((stage.bbr.phase, stage.bbr.path.short_term.bandwidth), (Phase::Startup, Rate::MAX));
}
