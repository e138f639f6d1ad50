//! Taking back what was no loss.

use super::*;

#[test]
fn loss_that_was_none_returns_to_the_start() {
    let mut stage = Stage::new();
    (0..2).for_each(|_| stage.round(&Ack { limited: true, ..Ack::default() }));
    let losses = stage.losses(&[1; 8], BDP);
    stage.ack(&Ack { losses, limited: true, congestion: true, ..Ack::default() });
    let lost = Ack { lost_of_sample: 8 * DATAGRAM, limited: true, in_flight: Some(3 * BDP), ..Ack::default() };
    stage.until_other(&lost, 2);
    assert!(stage.phases.contains(&Phase::Drain), "{:?}", stage.phases);
    assert!(stage.bbr.undo(stage.now, stage.episode));
    assert_eq!((stage.bbr.phase, stage.bbr.path.inflight_long_term), (Phase::Startup, UNBOUNDED));
    assert!(!stage.bbr.startup.full_pipe.reached);
    assert_eq!(stage.bbr.start_exit(), None);
    assert!(!stage.bbr.undo(stage.now, stage.episode), "once");
}

#[test]
fn loss_that_was_none_returns_to_the_probe() {
    let mut stage = Stage::at(Phase::Up);
    stage.round(&Ack { in_flight: Some(BDP), ..Ack::default() });
    let losses = stage.losses(&[5], 120 * DATAGRAM);
    stage.ack(&Ack { losses, congestion: true, in_flight: Some(QUEUED), ..Ack::default() });
    assert_eq!(stage.bbr.phase, Phase::Down);
    assert_ne!(stage.bbr.path.inflight_long_term, UNBOUNDED);
    assert!(stage.bbr.undo(stage.now, stage.episode));
    assert_eq!((stage.bbr.phase, stage.bbr.path.inflight_long_term), (Phase::Refill, UNBOUNDED));
}

#[test]
fn the_bounds_return_to_what_they_were_at_least() {
    let mut stage = Stage::at(Phase::Cruise);
    let slow = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP * 9 / 10), ..Ack::default() };
    (0..2).for_each(|_| stage.round(&slow));
    let losses = stage.losses(&[1], BDP);
    stage.ack(&Ack { losses, congestion: true, ..slow.clone() });
    stage.round(&slow);
    let first = (stage.bbr.path.short_term.bandwidth, stage.bbr.path.short_term.inflight);
    let window = stage.allowance().window;
    stage.round(&slow);
    let losses = stage.losses(&[1], BDP);
    stage.ack(&Ack { losses, congestion: true, ..slow.clone() });
    (0..2).for_each(|_| stage.round(&slow));
    assert!(stage.bbr.path.short_term.bandwidth < first.0);
    assert!(stage.bbr.undo(stage.now, stage.episode));
    assert_eq!((stage.bbr.path.short_term.bandwidth, stage.bbr.path.short_term.inflight), first);
    assert!(stage.allowance().window >= window);
    assert!(stage.bbr.undo(stage.now, stage.episode - 1));
    assert_eq!(stage.bbr.path.short_term.bandwidth, Rate::MAX);
    assert_eq!(stage.bbr.path.bandwidth, LINK);
}

#[test]
fn persistent_congestion_that_was_none_gives_the_window_back() {
    let mut stage = Stage::at(Phase::Cruise);
    let window = stage.allowance().window;
    stage.ack(&Ack { persistent: true, in_flight: Some(DATAGRAM), ..Ack::default() });
    assert!(stage.bbr.undo(stage.now, stage.episode));
    assert_eq!(stage.allowance().window, window);
}

#[test]
fn an_episode_that_is_not_known_is_refused() {
    assert!(!Stage::at(Phase::Cruise).bbr.undo(at(0), 77));
}
