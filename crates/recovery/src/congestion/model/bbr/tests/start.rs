//! Startup and Drain.

use super::super::startup::StartLosses;
use super::*;

#[test]
fn the_first_rate_is_the_initial_window_in_a_millisecond_then_in_a_round_trip() {
    let mut stage = Stage::new();
    let nominal = |rtt| Rate::from_bytes_over(10 * DATAGRAM, rtt).mul_ratio(277, 100);
    assert_eq!(stage.allowance().rate, Some(nominal(ms(1))));
    assert_eq!(stage.allowance().window, 10 * DATAGRAM);
    stage.ack(&Ack { rate: Rate::from_bps(800), ..Ack::default() });
    assert_eq!(stage.allowance().rate, Some(nominal(RTT)));
}

#[test]
fn three_rounds_without_a_quarter_of_growth_end_it() {
    let mut stage = Stage::new();
    let mut rate = 1_000_000;
    for round in 0..6 {
        stage.round(&Ack { rate: Rate::from_bps(rate), ..Ack::default() });
        assert_eq!(stage.bbr.phase, Phase::Startup, "round {round}");
        rate = rate * 126 / 100;
    }
    let plateau = Rate::from_bps(rate);
    let rounds = stage.until_other(&Ack { rate: plateau, ..Ack::default() }, 10);
    assert_eq!((stage.bbr.phase, rounds), (Phase::Drain, 4), "the first still shows growth");
    assert!(stage.bbr.startup.full_pipe.now && stage.bbr.startup.full_pipe.reached);
    assert_eq!(stage.bbr.path.max_bandwidth.value(), plateau);
    assert_eq!(stage.bbr.start_exit(), Some(StartExit::Plateau));
    assert_eq!(stage.bbr.path.inflight_long_term, UNBOUNDED);
}

#[test]
fn it_never_ends_while_the_application_limits_it_and_nothing_is_lost() {
    let mut stage = Stage::new();
    assert_eq!(stage.until_other(&Ack { limited: true, ..Ack::default() }, 100), 100);
    assert_eq!(stage.bbr.phase, Phase::Startup);
}

fn lose(ranges: &[u64], lost_of_sample: u64, limited: bool) -> Stage {
    let mut stage = Stage::new();
    (0..2).for_each(|_| stage.round(&Ack { limited, ..Ack::default() }));
    let losses = stage.losses(ranges, BDP);
    stage.ack(&Ack { losses, lost_of_sample, limited, congestion: true, ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Startup, "a round has to pass");
    (0..ACKS - 2).for_each(|_| stage.ack(&Ack { lost_of_sample, limited, ..Ack::default() }));
    assert_eq!(stage.bbr.phase, Phase::Startup, "all of it");
    (0..2).for_each(|_| stage.ack(&Ack { lost_of_sample, limited, in_flight: Some(3 * BDP), ..Ack::default() }));
    stage
}

#[test]
fn a_round_with_much_loss_in_six_places_ends_it_even_if_the_application_limits_it() {
    let stage = lose(&[1, 2, 1, 1, 1, 1], 7 * DATAGRAM, true);
    assert_eq!(stage.bbr.phase, Phase::Drain, "{:?}", stage.phases);
    assert!(stage.bbr.startup.full_pipe.reached);
    let latest = stage.bbr.path.signals.inflight;
    assert!(latest > 0);
    assert_eq!(stage.bbr.path.inflight_long_term, stage.bbr.bdp((1, 1)).max(latest));
    assert_eq!(stage.bbr.start_exit(), Some(StartExit::Congestion));
}

#[test]
fn five_places_or_two_percent_do_not_end_it() {
    assert_eq!(lose(&[1, 5, 1, 1, 1], 9 * DATAGRAM, true).bbr.phase, Phase::Startup);
    // The flight of the samples is that of the path and three times as much.
    assert_eq!(lose(&[1; 6], 2 * DATAGRAM, true).bbr.phase, Phase::Startup);
}

#[test]
fn a_run_of_neighbors_is_one_place_even_across_acknowledgments() {
    let mut losses = StartLosses::default();
    let stage = Stage::new();
    let run = stage.losses(&[3], BDP);
    run.iter().for_each(|loss| losses.on_loss(loss));
    let next = LossSample { order: run[2].order + 1, ..run[2] };
    losses.on_loss(&next);
    losses.on_loss(&LossSample { order: next.order + 2, ..next });
    assert!(format!("{losses:?}").contains("ranges: 2"), "{losses:?}");
}

#[test]
fn the_rate_only_rises() {
    let mut stage = Stage::new();
    (0..2).for_each(|_| stage.round(&Ack::default()));
    let rate = stage.allowance().rate.unwrap();
    assert_eq!(rate, LINK.mul_ratio(277 * 99, 10_000));
    stage.round(&Ack { rate: Rate::from_bps(1_000_000), limited: true, ..Ack::default() });
    assert_eq!(stage.allowance().rate, Some(rate));
}

#[test]
fn drain_halves_the_rate_until_the_flight_is_what_the_path_holds() {
    let mut stage = Stage::at(Phase::Drain);
    stage.ack(&Ack { in_flight: Some(2 * BDP), ..Ack::default() });
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(99, 200)));
    assert_eq!(stage.bbr.phase, Phase::Drain);
    stage.ack(&Ack { in_flight: Some(BDP + 1), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Drain);
    stage.ack(&Ack { in_flight: Some(BDP), ..Ack::default() });
    assert!(stage.bbr.phase.is_in_cycle());
}

#[test]
fn drain_ends_after_three_rounds_whatever_is_in_flight() {
    let mut stage = Stage::at(Phase::Drain);
    let rounds = stage.until_other(&Ack { in_flight: Some(3 * BDP), ..Ack::default() }, 10);
    assert_eq!((stage.bbr.phase, rounds), (Phase::Down, 4), "after more than three");
}

#[test]
fn a_mark_ends_it_a_round_later() {
    let mut stage = Stage::new();
    (0..2).for_each(|_| stage.round(&Ack { limited: true, ..Ack::default() }));
    stage.ack(&Ack { ce: 1, limited: true, congestion: true, ..Ack::default() });
    assert_eq!(stage.until_other(&Ack { limited: true, in_flight: Some(3 * BDP), ..Ack::default() }, 5), 1);
    assert_eq!(stage.bbr.start_exit(), Some(StartExit::Congestion));
    assert_ne!(stage.bbr.path.inflight_long_term, UNBOUNDED);
}
