//! Packets declared lost (RFC 9002 section 6.1).

use super::*;

#[test]
fn rfc9002_6_1_1_three_later_packets_acknowledged_make_a_packet_lost() {
    let mut stage = Stage::sampled("");
    stage.send(4);
    stage.wait(100);
    stage.ack(2..=3);
    assert_eq!(stage.lost(), []);
    stage.ack(4..=4);
    assert_eq!(stage.lost(), [1]);
    assert_eq!(stage.out.lost[0].trigger, LossTrigger::PacketThreshold);
    assert_eq!(stage.out.lost[0].data, 1);
}

#[test]
fn rfc9002_6_1_2_time_makes_a_packet_lost_when_the_timer_expires() {
    let mut stage = Stage::sampled("");
    stage.send(2);
    stage.wait(100);
    stage.ack(2..=2);
    assert_eq!(stage.expire(), Timeout::Lost);
    assert_eq!(stage.lost(), [1]);
    assert_eq!(stage.out.lost[0].trigger, LossTrigger::TimeThreshold);
    assert_eq!(stage.now, at(100) + Duration::from_micros(112_500));
}

#[test]
fn rfc9002_6_1_nothing_is_lost_before_something_sent_later_is_acknowledged() {
    let mut stage = Stage::sampled("");
    stage.send(20);
    stage.wait(100);
    stage.ack(1..=1);
    assert_eq!(stage.recovery.timer(), Some(at(100) + stage.recovery.pto(DATA)), "a probe, not a loss");
    stage.ack(3..=3);
    stage.expire();
    assert_eq!(stage.lost(), [2], "4 to 20 were sent after every acknowledged packet");
}

#[test]
fn rfc9002_6_1_spaces_do_not_affect_each_other() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send_in(SpaceId::Initial, 1);
    stage.send_in(SpaceId::Handshake, 10);
    stage.wait(1_000);
    stage.ack_in(SpaceId::Handshake, 0..=9, Duration::ZERO);
    assert_eq!(stage.lost(), []);
}

#[test]
fn skipped_numbers_do_not_count_as_reordering() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    stage.skip(10);
    stage.send(2);
    stage.wait(100);
    stage.ack(12..=13);
    assert_eq!(stage.lost(), [], "two packets are later, not twelve");
    stage.send(1);
    stage.ack(12..=14);
    assert_eq!(stage.lost(), [1]);
}

#[test]
fn rfc9000_13_1_acknowledging_a_packet_never_sent_is_an_error() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    stage.skip(1);
    stage.send(1);
    for (range, number) in [(0..=4, 4), (1..=3, 2), (2..=2, 2), (9..=u64::MAX, u64::MAX)] {
        let refused = stage.try_ack(DATA, &[range], Duration::ZERO, None);
        assert_eq!(refused, Err(AckOfUnsent { space: DATA, number }));
    }
    let error = stage.try_ack(DATA, &[7..=7], Duration::ZERO, None).unwrap_err();
    assert_eq!(error.to_string(), "the peer acknowledged packet 7 of the application_data space, which was never sent");
}

#[test]
fn packets_that_only_acknowledge_are_tracked_but_neither_count_nor_grow_without_bound() {
    let mut stage = Stage::sampled("");
    for _ in 0..5_000 {
        stage.send_with(|packet| (packet.ack_eliciting, packet.in_flight) = (false, false));
    }
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 0);
    assert_eq!(stage.recovery.timer(), None);
    assert_eq!(stage.recovery.outstanding_data(DATA).count(), 1_024);
    assert_eq!(stage.recovery.oldest_unacked(DATA), Some(5_000 - 1_023));
    let window = stage.window();
    stage.send(1);
    stage.wait(100);
    stage.ack(5_001..=5_001);
    assert!(stage.out.lost.iter().all(|packet| !packet.ack_eliciting));
    assert_eq!(stage.window(), window + DATAGRAM, "no congestion");
    assert_eq!(stage.path().stats().packets_lost, 0);
}

#[test]
fn discarded_packets_are_forgotten_without_congestion() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send_in(SpaceId::Initial, 3);
    stage.send_in(SpaceId::Handshake, 2);
    let window = stage.window();
    stage.recovery.discard(stage.now, SpaceId::Initial);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 2 * DATAGRAM);
    assert!(!stage.recovery.in_flight(SpaceId::Initial));
    assert!(stage.recovery.in_flight(SpaceId::Handshake));
    assert_eq!(stage.window(), window);
    stage.ack_in(SpaceId::Initial, 0..=2, Duration::ZERO);
    assert_eq!(stage.acked(), []);
}

#[test]
fn withdrawn_packets_come_back_once_without_congestion() {
    let mut stage = Stage::new(rfc9002(), true);
    stage.send(4);
    let window = stage.window();
    stage.out.clear();
    stage.recovery.withdraw(stage.now, DATA, &mut stage.out);
    assert_eq!(stage.lost(), [0, 1, 2, 3]);
    assert!(stage.out.lost.iter().all(|packet| packet.trigger == LossTrigger::Withdrawn));
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 0);
    assert_eq!((stage.window(), stage.path().stats().packets_lost), (window, 0));
    stage.send(1);
    assert_eq!(stage.recovery.oldest_unacked(DATA), Some(4), "numbers go on");
    stage.ack(0..=4);
    assert_eq!(stage.acked(), [4]);
}
