//! Several paths over one packet number space.

use super::*;

#[test]
fn packets_on_another_path_do_not_count_as_reordering() {
    let mut stage = Stage::sampled("");
    let slow = stage.path;
    let fast = stage.recovery.add_path(stage.now, NewPath::new(1_200).assuming(ms(10)));
    stage.send_on(slow, 2);
    stage.send_on(fast, 50);
    stage.wait(10);
    stage.ack(3..=52);
    assert_eq!(stage.lost(), []);
    stage.wait(89);
    stage.ack(1..=52);
    assert_eq!(stage.acked(), [1, 2]);
    assert_eq!(stage.path().stats().packets_lost, 0);
}

#[test]
fn the_time_threshold_is_that_of_the_packets_own_path() {
    let mut stage = Stage::sampled("");
    let slow = stage.path;
    let fast = stage.recovery.add_path(stage.now, NewPath::new(1_200).assuming(ms(10)));
    stage.send_on(slow, 1);
    stage.send_on(fast, 1);
    stage.wait(10);
    stage.ack(2..=2);
    // 9/8 of 100 ms after it was sent, although the other path needs 10.
    assert_eq!(stage.recovery.timer(), Some(at(100) + Duration::from_micros(112_500)));
    stage.expire();
    assert_eq!(stage.lost(), [1]);
}

#[test]
fn samples_go_to_the_path_of_the_largest_acknowledged_and_events_to_where_packets_were_sent() {
    let mut stage = Stage::sampled("start=standard");
    let (first, old) = (stage.path, *stage.path().rtt());
    let second = stage.recovery.add_path(stage.now, NewPath::new(1_200));
    stage.recovery.set_active_path(second);
    stage.send_on(first, 2);
    stage.send_on(second, 3);
    let before = stage.window();
    stage.wait(40);
    stage.ack(1..=5);
    assert_eq!(*stage.path().rtt(), old);
    assert_eq!(stage.recovery.path(second).unwrap().rtt().latest, ms(40));
    assert_eq!(stage.window() - before, 2 * DATAGRAM);
    assert_eq!(stage.recovery.path(second).unwrap().window(), 12_000 + 3 * DATAGRAM);
}

#[test]
fn loss_on_one_path_leaves_the_window_of_the_other_alone() {
    let mut stage = Stage::sampled("");
    let first = stage.path;
    let second = stage.recovery.add_path(stage.now, NewPath::new(1_200));
    stage.send_on(first, 4);
    stage.send_on(second, 4);
    let before = stage.window();
    stage.wait(100);
    stage.ack_ranges(&[5..=8, 2..=4]);
    assert_eq!(stage.lost(), [1]);
    assert!(stage.window() < before);
    assert!(stage.recovery.path(second).unwrap().window() > 12_000);
}

#[test]
fn a_removed_path_serves_until_its_packets_are_settled() {
    let mut stage = Stage::sampled("");
    let first = stage.path;
    let second = stage.recovery.add_path(stage.now, NewPath::new(1_200));
    stage.recovery.set_active_path(second);
    stage.send_on(first, 2);
    stage.recovery.remove_path(first);
    assert_eq!(stage.recovery.bytes_in_flight(first), 2 * DATAGRAM);
    stage.send_on(second, 1);
    stage.wait(100);
    stage.ack(2..=3);
    stage.expire();
    assert_eq!(stage.lost(), [1]);
    assert_eq!(stage.recovery.bytes_in_flight(first), 0);
    stage.wait(10);
    stage.ack(1..=3);
    assert_eq!(stage.out.spurious, 1, "and a late one is still recognised");
    assert!(stage.recovery.path(first).is_none(), "the path is no longer kept");
    assert_eq!(stage.recovery.active_path(), second);
    stage.recovery.remove_path(second);
    stage.recovery.remove_path(second);
}

#[test]
fn the_probe_timer_follows_the_active_path() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    let second = stage.recovery.add_path(stage.now, NewPath::new(1_200).assuming(ms(1_000)));
    stage.recovery.set_active_path(second);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(3_025)));
}
