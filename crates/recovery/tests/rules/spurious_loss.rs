//! Reductions that are taken back (RFC 9438 section 4.9).

use super::*;

/// Ten packets in flight, 1 and 2 declared lost; returns the window before.
fn two_declared_lost(policies: &str) -> (Stage, u64) {
    let mut stage = Stage::sampled(policies);
    stage.send(10);
    let window = stage.window();
    stage.wait(100);
    stage.ack(3..=5);
    assert_eq!(stage.lost(), [1, 2]);
    assert!(stage.window() < window);
    (stage, window)
}

#[test]
fn rfc9438_4_9_a_reduction_is_taken_back_when_every_lost_packet_was_acknowledged() {
    for controller in ["cubic", "new-reno"] {
        let (mut stage, window) = two_declared_lost(&format!("controller={controller}"));
        stage.wait(1);
        stage.ack(2..=5);
        assert!(stage.out.acked[0].declared_lost);
        assert_eq!(stage.out.spurious, 1);
        assert!(stage.window() < window, "packet 1 is still missing");
        stage.wait(1);
        stage.ack(1..=5);
        assert_eq!(stage.window(), window);
        assert_eq!(stage.path().ssthresh(), None);
        assert_eq!(stage.path().state(), State::SlowStart);
        assert_eq!(stage.path().stats().undos, 1);
        assert_eq!(stage.path().stats().packets_spurious, 2);
        let events = stage.events();
        assert!(events.iter().any(|(_, event)| matches!(event, Event::Undo { episode: 1, window: w } if *w == window)));
        assert!(
            events
                .iter()
                .any(|(_, event)| matches!(event, Event::SpuriousLoss { number: 2, late_by, .. } if *late_by == ms(1)))
        );
    }
}

#[test]
fn rfc9438_4_9_bytes_in_flight_are_not_part_of_what_is_restored() {
    let (mut stage, _) = two_declared_lost("");
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 5 * DATAGRAM);
    stage.ack(1..=5);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 5 * DATAGRAM);
}

#[test]
fn undo_can_be_switched_off() {
    let (mut stage, window) = two_declared_lost("undo=off");
    stage.ack(1..=5);
    assert_eq!(stage.out.spurious, 2, "still reported");
    assert!(stage.window() < window);
    assert_eq!(stage.path().stats().undos, 0);
}

#[test]
fn a_loss_that_was_real_keeps_the_reduction() {
    let (mut stage, window) = two_declared_lost("");
    stage.ack(2..=10);
    assert!(stage.window() < window);
    // Long after, the first packet turns up: it is not remembered any more.
    stage.send(1);
    stage.wait(5_000);
    stage.ack(2..=11);
    stage.ack(1..=11);
    assert_eq!(stage.acked(), []);
    assert!(stage.window() < window);
}

#[test]
fn losses_that_join_an_episode_have_to_be_acknowledged_too() {
    let (mut stage, window) = two_declared_lost("");
    stage.ack(8..=10);
    assert_eq!(stage.lost(), [6, 7]);
    stage.ack(1..=5);
    assert!(stage.window() < window);
    stage.ack(1..=10);
    assert_eq!(stage.window(), window);
}

#[test]
fn an_undone_reduction_leaves_no_recovery_period_behind() {
    let (mut stage, window) = two_declared_lost("start=standard");
    stage.ack(1..=5);
    stage.wait(1);
    // Sent before the reduction that never should have been.
    stage.ack(1..=7);
    assert_eq!(stage.window(), window + 2 * DATAGRAM);
    stage.send(3);
    stage.wait(100);
    stage.ack(11..=13);
    assert_eq!(stage.lost(), [8, 9, 10]);
    assert_eq!(stage.path().stats().congestion_events, 2, "and its own loss counts");
}

#[test]
fn a_congestion_mark_confirms_the_reduction() {
    let mut stage = Stage::new(Config { policies: of_rfc9002("pacing=off"), ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.send(10);
    stage.wait(100);
    stage.ack_ecn(3..=5, 3, 0);
    assert_eq!(stage.lost(), [0, 1, 2]);
    let reduced = stage.window();
    stage.ack_ecn(3..=6, 3, 1);
    stage.ack_ecn(0..=7, 7, 1);
    assert_eq!(stage.out.spurious, 3);
    assert_eq!(stage.window(), reduced);
}

#[test]
fn even_persistent_congestion_is_taken_back() {
    // A path that holds everything for two seconds and then delivers it all, the last packets first.
    let mut stage = Stage::sampled("");
    let window = stage.window();
    for _ in 0..5 {
        stage.send(1);
        stage.wait(400);
    }
    stage.send(3);
    stage.wait(50);
    stage.ack(6..=8);
    assert!(stage.out.persistent_congestion);
    assert_eq!(stage.window(), 2 * DATAGRAM);
    stage.wait(1);
    stage.ack(1..=8);
    assert_eq!(stage.window(), window);
}
