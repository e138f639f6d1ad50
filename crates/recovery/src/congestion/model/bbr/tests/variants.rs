//! The variants: a start by trains, and a loss threshold for the short term.

use super::*;

fn stage(settings: Settings) -> Stage {
    let mut stage = Stage::new();
    let context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
    stage.bbr = Bbr::new(&context, settings);
    stage
}

const PATIENT: Settings = Settings { opens_by_trains: false, puts_up_with_loss: true };
const TRAINS: Settings = Settings { opens_by_trains: true, puts_up_with_loss: false };

/// Rounds of half the bandwidth, in which so much of a flight is lost, and marked.
fn cruise_with_loss(settings: Settings, lost_of_sample: u64, ce: u64) -> Rate {
    let mut stage = stage(settings);
    stage.to(Phase::Cruise);
    let slow = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP * 9 / 10), lost_of_sample, ..Ack::default() };
    (0..2).for_each(|_| stage.round(&slow));
    let losses = stage.losses(&[1], BDP);
    stage.ack(&Ack { losses, ce, congestion: true, ..slow.clone() });
    (0..2).for_each(|_| stage.round(&slow));
    stage.bbr.path.bandwidth
}

#[test]
fn threshold_puts_up_with_two_percent_and_no_more() {
    let sample = BDP * 9 / 10 + 2_500;
    assert_eq!(cruise_with_loss(PATIENT, sample / 50, 0), LINK, "the flight is 92.5 datagrams");
    assert_eq!(cruise_with_loss(PATIENT, sample / 50 + 1, 0), LINK.mul_ratio(7, 10));
    assert_eq!(cruise_with_loss(Settings::default(), sample / 50, 0), LINK.mul_ratio(7, 10), "bbr answers any loss");
}

#[test]
fn threshold_puts_up_with_no_mark() {
    assert_eq!(cruise_with_loss(PATIENT, 0, 1), LINK.mul_ratio(7, 10));
}

#[test]
fn trains_leave_a_short_path_to_startup() {
    let run = |settings| {
        let mut stage = stage(settings);
        let ack = Ack { rtt: ms(50), ..Ack::default() };
        stage.round(&ack);
        (stage.allowance(), stage.until_other(&ack, 10), stage.bbr.start_exit())
    };
    assert_eq!(run(TRAINS), run(Settings::default()));
}

#[test]
fn trains_open_a_long_path_wider_than_startup_and_hold_back_for_credit() {
    let first = |settings| {
        let mut stage = stage(settings);
        stage.ack(&Ack { rate: Rate::from_bps(100_000), rtt: ms(400), ..Ack::default() });
        stage.allowance()
    };
    let (plain, trains) = (first(Settings::default()), first(TRAINS));
    assert!(trains.window >= 4 * 10 * DATAGRAM, "an initial window for every 100 ms: {}", trains.window);
    assert!(trains.window > plain.window);
    assert!(trains.hold_until_credit >= 10 * DATAGRAM && plain.hold_until_credit == 0);
}

#[test]
fn trains_end_with_the_start_and_never_come_back() {
    let mut stage = stage(TRAINS);
    stage.to(Phase::Cruise);
    assert!(stage.bbr.startup.opening.is_none());
    assert!(stage.bbr.startup.full_pipe.reached && stage.bbr.start_exit().is_some());
    assert_eq!(stage.allowance().hold_until_credit, 0);
}
