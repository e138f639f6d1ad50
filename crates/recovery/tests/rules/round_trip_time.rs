//! Samples of the round trip (RFC 9002 section 5).

use super::*;

#[test]
fn rfc9002_5_1_a_sample_is_taken_only_if_the_largest_is_newly_acknowledged() {
    let mut stage = Stage::confirmed("");
    stage.send(3);
    stage.wait(50);
    stage.ack(2..=2);
    assert_eq!(stage.out.rtt_sample, Some(ms(50)));
    stage.wait(50);
    stage.ack(0..=2);
    assert_eq!(stage.acked(), [0, 1]);
    assert_eq!(stage.out.rtt_sample, None);
    assert_eq!(stage.path().rtt().latest, ms(50));
}

#[test]
fn rfc9002_5_1_a_sample_needs_a_newly_acknowledged_ack_eliciting_packet() {
    let mut stage = Stage::confirmed("");
    stage.send_with(|packet| (packet.ack_eliciting, packet.in_flight) = (false, false));
    stage.wait(50);
    stage.ack(0..=0);
    assert_eq!(stage.out.rtt_sample, None);
    stage.send(1);
    stage.send_with(|packet| (packet.ack_eliciting, packet.in_flight) = (false, false));
    stage.wait(70);
    stage.ack(1..=2);
    assert_eq!(stage.out.rtt_sample, Some(ms(70)), "the largest need not be the ack-eliciting one");
}

#[test]
fn a_sample_that_returned_by_another_path_counts_as_one_by_the_own_or_not_at_all() {
    let mut stage = Stage::confirmed("");
    let mut number = 0;
    let mut sample = |way_back, millis| {
        stage.send(1);
        stage.wait(millis);
        stage.out.clear();
        let frame = AckFrame { way_back, ..AckFrame::new(stage.now, [number..=number].into_iter()) };
        stage.recovery.on_ack(stage.now, SpaceId::DATA, frame, &mut stage.out).unwrap();
        assert_eq!(stage.out.rtt_sample, Some(ms(millis)), "as measured");
        number += 1;
        let rtt = stage.path().rtt();
        (rtt.latest, rtt.min)
    };
    let other = WayBack::Other { own_min: ms(600), min: ms(320) };
    assert_eq!(sample(WayBack::Own, 600), (ms(600), ms(600)));
    assert_eq!(sample(WayBack::Ignored, 320), (ms(600), ms(600)));
    assert_eq!(sample(other, 350), (ms(630), ms(600)));
    // A queue on the way back has gone: the round trip is not below what the own way needs.
    assert_eq!(sample(other, 300), (ms(600), ms(600)));
}

#[test]
fn rfc9002_5_3_the_reported_delay_is_capped_once_the_handshake_is_confirmed() {
    let adjusted = |confirmed: bool, space: SpaceId| {
        let mut stage = Stage::new(rfc9002(), false);
        if confirmed {
            stage.recovery.set_handshake_confirmed(at(0));
        }
        stage.send_in(space, 1);
        stage.wait(100);
        stage.ack_in(space, 0..=0, Duration::ZERO);
        stage.send_in(space, 1);
        stage.wait(200);
        stage.ack_in(space, 1..=1, ms(60));
        stage.path().rtt().adjusted
    };
    assert_eq!(adjusted(true, DATA), ms(175), "25 ms is the peer's max_ack_delay");
    assert_eq!(adjusted(false, DATA), ms(140));
    assert_eq!(adjusted(false, SpaceId::Handshake), ms(140));
    assert_eq!(adjusted(false, SpaceId::Initial), ms(200), "Initial packets are acknowledged at once");
}

#[test]
fn rfc9000_9_4_a_new_path_starts_from_initial_values() {
    let mut stage = Stage::sampled("");
    let second = stage.recovery.add_path(stage.now, NewPath::new(1_200));
    assert!(!stage.recovery.path(second).unwrap().rtt().has_sample);
    assert_eq!(stage.recovery.path(second).unwrap().rtt().smoothed, ms(333));
    assert_eq!(stage.recovery.path(second).unwrap().window(), 12_000);
    let third = stage.recovery.add_path(stage.now, NewPath::new(1_200).assuming(ms(42)));
    assert_eq!(stage.recovery.path(third).unwrap().rtt().smoothed, ms(42));
    assert!(!stage.recovery.path(third).unwrap().rtt().has_sample, "a seed is not a sample");
}

#[test]
fn rfc9002_5_2_the_minimum_is_restarted_after_persistent_congestion() {
    let mut stage = Stage::sampled("");
    stage.wait(1);
    stage.send(1);
    stage.wait(2_000);
    stage.send(1);
    stage.send(3);
    stage.wait(180);
    stage.ack(3..=5);
    assert!(stage.out.persistent_congestion, "{:?}", stage.out);
    assert_eq!(stage.path().rtt().min, ms(180));
}

#[test]
fn rfc9002_5_2_persistent_congestion_found_by_the_loss_timer_restarts_the_minimum_with_the_next_sample() {
    let mut stage = Stage::sampled("reordering=time-only");
    stage.wait(1);
    stage.send(1);
    stage.wait(2_000);
    stage.send(1);
    stage.wait(1);
    stage.send(1);
    stage.wait(80);
    stage.ack(3..=3);
    assert!(!stage.out.persistent_congestion && stage.path().rtt().min < ms(100), "the second loss is not due yet");
    assert_eq!(stage.expire(), Timeout::Lost);
    assert!(stage.out.persistent_congestion, "{:?}", stage.out);
    stage.send(1);
    stage.wait(180);
    stage.ack(4..=4);
    assert_eq!(stage.path().rtt().min, ms(180));
    stage.send(1);
    stage.wait(190);
    stage.ack(5..=5);
    assert_eq!(stage.path().rtt().min, ms(180), "once");
}
