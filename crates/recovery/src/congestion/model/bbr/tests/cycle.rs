//! The phases of ProbeBW and the long-term bound.

use super::*;

#[test]
fn it_goes_down_cruises_refills_and_probes() {
    let mut stage = Stage::at(Phase::Up);
    stage.to(Phase::Cruise);
    stage.to(Phase::Up);
    let begun = stage.phases.iter().position(|phase| *phase == Phase::Drain).unwrap();
    // There is no queue at the end of Drain: it has nothing to do in Down.
    let cycle = [Phase::Drain, Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down, Phase::Cruise, Phase::Refill];
    assert_eq!(stage.phases[begun..begun + cycle.len()], cycle, "{:?}", stage.phases);
}

#[test]
fn down_lasts_until_there_is_headroom_and_no_queue() {
    let mut stage = Stage::at(Phase::Drain);
    stage.bbr.path.inflight_long_term = BDP;
    stage.to(Phase::Down);
    let mut stage = stage;
    stage.ack(&Ack { in_flight: Some(BDP * 86 / 100), ..Ack::default() });
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(9 * 99, 1_000)));
    assert_eq!(stage.bbr.phase, Phase::Down, "15 % are to be left to others");
    stage.ack(&Ack { in_flight: Some(BDP * 85 / 100), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Cruise);
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(99, 100)));
    assert!(stage.allowance().window <= BDP * 85 / 100);

    let mut stage = Stage::at(Phase::Drain);
    stage.to(Phase::Down);
    stage.ack(&Ack { in_flight: Some(BDP + 1), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Down, "no bound, but a queue");
    stage.ack(&Ack { in_flight: Some(BDP), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Cruise);
}

#[test]
fn probes_come_after_two_to_three_seconds_or_63_rounds() {
    for seed in 0..10 {
        let mut stage = Stage::seeded(seed);
        stage.to(Phase::Cruise);
        let begun = stage.now;
        stage.until_other(&Ack { in_flight: Some(BDP * 9 / 10), ..Ack::default() }, 100);
        let waited = stage.now.saturating_since(begun);
        assert_eq!(stage.bbr.phase, Phase::Refill);
        assert!((ms(1_900)..=ms(3_100)).contains(&waited), "{waited:?}");
    }
    // 20 ms: 63 rounds are shorter. 5 datagrams: as many rounds.
    for (rtt, rate, rounds) in [(20, LINK.mul_ratio(5, 1), 61..=64), (100, LINK.mul_ratio(1, 10), 8..=11)] {
        let mut stage = Stage::new();
        let ack = Ack { rtt: ms(rtt), rate, in_flight: Some(3 * DATAGRAM), ..Ack::default() };
        while stage.bbr.phase != Phase::Cruise {
            stage.ack(&ack);
        }
        let waited = stage.until_other(&ack, 100);
        assert_eq!(stage.bbr.phase, Phase::Refill);
        assert!(rounds.contains(&waited), "{waited} rounds of {rtt} ms");
    }
}

#[test]
fn down_may_end_in_refill_when_the_queue_stays() {
    let mut stage = Stage::at(Phase::Drain);
    stage.to(Phase::Down);
    let begun = stage.now;
    stage.until_other(&Ack { in_flight: Some(2 * BDP), ..Ack::default() }, 100);
    assert_eq!(stage.bbr.phase, Phase::Refill);
    assert!(stage.now.saturating_since(begun) >= ms(2_000));
}

#[test]
fn refill_forgets_the_short_term_and_lasts_a_round() {
    let mut stage = Stage::at(Phase::Cruise);
    let losses = stage.losses(&[1], BDP);
    stage.ack(&Ack { losses, congestion: true, in_flight: Some(BDP * 9 / 10), ..Ack::default() });
    stage.round(&Ack { in_flight: Some(BDP * 9 / 10), ..Ack::default() });
    assert_ne!(stage.bbr.path.short_term.bandwidth, Rate::MAX);
    stage.to(Phase::Refill);
    assert_eq!((stage.bbr.path.short_term.bandwidth, stage.bbr.path.short_term.inflight), (Rate::MAX, UNBOUNDED));
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(99, 100)));
    let rounds = stage.until_other(&Ack::default(), 10);
    assert_eq!((stage.bbr.phase, rounds), (Phase::Up, 1));
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(5 * 99, 400)));
}

#[test]
fn what_the_application_limits_in_refill_does_not_lower_the_bandwidth() {
    let mut stage = Stage::at(Phase::Refill);
    let slow = Ack { limited: true, rate: LINK.mul_ratio(1, 10), in_flight: Some(BDP / 10), ..Ack::default() };
    stage.until_other(&slow, 10);
    assert_eq!(stage.bbr.phase, Phase::Up);
    assert_eq!(stage.bbr.path.max_bandwidth.value(), LINK);
}

#[test]
fn up_ends_with_a_plateau_but_never_while_the_application_limits_it() {
    let mut stage = Stage::at(Phase::Up);
    assert_eq!(stage.until_other(&Ack { limited: true, in_flight: Some(BDP), ..Ack::default() }, 30), 30);
    assert_eq!(stage.bbr.phase, Phase::Up);
    let rounds = stage.until_other(&Ack::default(), 30);
    assert_eq!((stage.bbr.phase, rounds), (Phase::Down, 3));
    assert!(!stage.bbr.cycle_is_wary());
}

#[test]
fn up_takes_what_it_finds() {
    let mut stage = Stage::at(Phase::Up);
    let mut rate = LINK;
    for _ in 0..8 {
        rate = rate.mul_ratio(126, 100);
        stage.round(&Ack { rate, ..Ack::default() });
        assert_eq!(stage.bbr.phase, Phase::Up, "{rate}");
    }
    assert_eq!(stage.bbr.path.max_bandwidth.value(), rate);
}

/// The third of 100 losses in a flight crosses 2 %.
fn lose_in_up(limited: bool) -> (Stage, u64) {
    let mut stage = Stage::at(Phase::Up);
    stage.round(&Ack { limited, in_flight: Some(BDP), ..Ack::default() });
    let flight = 120 * DATAGRAM;
    let mut losses = stage.losses(&[3], flight);
    losses.iter_mut().for_each(|loss| loss.application_limited = limited);
    let before = stage.bbr.path.inflight_long_term;
    stage.ack(&Ack { losses, limited, congestion: true, in_flight: Some(QUEUED), ..Ack::default() });
    (stage, before)
}

#[test]
fn too_much_loss_ends_up_and_bounds_the_flight_where_it_was_crossed() {
    let (stage, before) = lose_in_up(false);
    assert_eq!(before, UNBOUNDED);
    assert_eq!(stage.bbr.phase, Phase::Down);
    // (0.02 × 119000 − 2000) / 0.98 = 387.
    assert_eq!(stage.bbr.path.inflight_long_term, 119_387);
    assert!(stage.bbr.cycle_is_wary());
}

#[test]
fn loss_ends_up_while_the_application_limits_it_but_says_nothing_of_the_flight() {
    let (stage, before) = lose_in_up(true);
    assert_eq!(stage.bbr.phase, Phase::Down);
    assert_eq!(stage.bbr.path.inflight_long_term, before);
}

#[test]
fn the_bound_never_falls_below_beta_of_the_target() {
    let mut stage = Stage::at(Phase::Up);
    let losses = stage.losses(&[3], 4 * DATAGRAM);
    stage.bbr.window = BDP;
    stage.ack(&Ack { losses, congestion: true, in_flight: Some(DATAGRAM), ..Ack::default() });
    assert_eq!(stage.bbr.path.inflight_long_term, BDP * 7 / 10);
}

#[test]
fn a_probe_is_answered_once() {
    let (mut stage, _) = lose_in_up(false);
    let bound = stage.bbr.path.inflight_long_term;
    let losses = stage.losses(&[50], 80 * DATAGRAM);
    let lost_of_sample = 50 * DATAGRAM;
    stage.ack(&Ack { losses, lost_of_sample, in_flight: Some(BDP), ..Ack::default() });
    assert_eq!(stage.bbr.path.inflight_long_term, bound);
}

#[test]
fn two_percent_of_loss_are_put_up_with() {
    let mut stage = Stage::at(Phase::Up);
    let losses = stage.losses(&[2], 120 * DATAGRAM);
    stage.ack(&Ack { losses, congestion: true, in_flight: Some(BDP), ..Ack::default() });
    assert_eq!((stage.bbr.phase, stage.bbr.path.inflight_long_term), (Phase::Up, UNBOUNDED));
    assert_eq!(stage.bbr.path.short_term.bandwidth, Rate::MAX);
}

#[test]
fn the_probe_after_one_that_was_too_high_stops_at_the_bound_and_another_follows_at_once() {
    let (mut stage, _) = lose_in_up(false);
    let bound = stage.bbr.path.inflight_long_term;
    stage.to(Phase::Up);
    let low = Some(bound - 10 * DATAGRAM);
    stage.ack(&Ack { in_flight: low, ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Up, "below the bound");
    stage.ack(&Ack { in_flight: Some(bound), ..Ack::default() });
    assert_eq!(
        (stage.bbr.phase, stage.bbr.path.inflight_long_term),
        (Phase::Down, bound.max(stage.bbr.path.inflight_long_term))
    );
    assert!(!stage.bbr.cycle_is_wary());
    let rounds = stage.until_other(&Ack { in_flight: Some(2 * BDP), ..Ack::default() }, 10);
    assert_eq!((stage.bbr.phase, rounds), (Phase::Refill, 1), "without a cruise");
    stage.to(Phase::Up);
    stage.ack(&Ack { in_flight: Some(stage.bbr.path.inflight_long_term), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Up, "this one goes on");
}

#[test]
fn the_bound_grows_by_one_two_four_datagrams_in_successive_rounds() {
    let (mut stage, _) = lose_in_up(false);
    stage.to(Phase::Refill);
    // As if the last probe had gone well.
    stage.bbr.cycle.forget_too_high();
    stage.to(Phase::Up);
    let mut grown = Vec::new();
    for _ in 0..5 {
        let before = stage.bbr.path.inflight_long_term;
        // Full, but below what the samples would prove by themselves.
        (0..ACKS).for_each(|_| {
            stage.bbr.window = stage.bbr.path.inflight_long_term;
            stage.bbr.connection.window_full = (true, true);
            stage.ack(&Ack { in_flight: Some(BDP), ..Ack::default() });
        });
        grown.push((stage.bbr.path.inflight_long_term - before) / DATAGRAM);
    }
    let mut total = 0;
    for (round, datagrams) in grown.iter().enumerate() {
        total += datagrams;
        // 1, 3, 7, 15, 31, or what it was a round before: a round of acknowledgments is not one of the test.
        let most = (2 << round) - 1;
        assert!((most / 2..=most).contains(&total), "{grown:?}");
    }
    assert_eq!(stage.bbr.phase, Phase::Up, "the bound, not the path, limits the rate");
}

#[test]
fn a_mark_ends_a_probe_and_at_other_times_lowers_the_short_term_bounds() {
    let mut stage = Stage::at(Phase::Up);
    stage.round(&Ack { in_flight: Some(BDP), ..Ack::default() });
    stage.ack(&Ack { ce: 1, congestion: true, in_flight: Some(QUEUED), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Down);
    assert!(stage.bbr.path.inflight_long_term < 2 * BDP);

    let mut stage = Stage::at(Phase::Cruise);
    let slower = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP * 9 / 10), ..Ack::default() };
    (0..2).for_each(|_| stage.round(&slower));
    stage.ack(&Ack { ce: 1, congestion: true, ..slower.clone() });
    (0..2).for_each(|_| stage.round(&slower));
    assert_eq!(stage.bbr.path.short_term.bandwidth, LINK.mul_ratio(7, 10));
}

#[test]
fn acknowledgments_are_wanted_densely_while_it_probes() {
    for (phase, dense) in [
        (Phase::Startup, true),
        (Phase::Refill, true),
        (Phase::Up, true),
        (Phase::ProbeRtt, true),
        (Phase::Drain, false),
        (Phase::Down, false),
        (Phase::Cruise, false),
    ] {
        let mut stage = Stage::new();
        stage.bbr.phase = phase;
        assert_eq!(stage.bbr.wants_dense_acks(), dense, "{phase:?}");
    }
}
