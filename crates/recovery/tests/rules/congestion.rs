//! Congestion control as the path sees it (RFC 9002 section 7).

use super::*;

#[test]
fn rfc9002_7_3_2_the_window_is_reduced_once_per_recovery_period() {
    let mut stage = Stage::sampled("controller=new-reno, start=standard");
    stage.send(20);
    let window = stage.window();
    stage.wait(100);
    stage.ack(4..=6);
    assert_eq!(stage.lost(), [1, 2, 3]);
    assert_eq!(stage.window(), window / 2);
    assert_eq!(stage.path().state_label(), "recovery");
    stage.wait(1);
    stage.ack(10..=12);
    assert_eq!(stage.lost(), [7, 8, 9]);
    assert_eq!(stage.window(), window / 2, "sent before the recovery period began");
    stage.send(5);
    stage.wait(100);
    stage.ack(21..=21);
    assert_eq!(stage.path().state(), State::CongestionAvoidance);
    stage.ack(25..=25);
    assert_eq!(stage.path().stats().congestion_events, 2, "22 was sent after it");
}

#[test]
fn rfc9002_7_3_2_acknowledgments_of_earlier_packets_do_not_open_the_window_during_recovery() {
    let mut stage = Stage::sampled("");
    stage.send(10);
    stage.wait(100);
    stage.ack(2..=4);
    let reduced = stage.window();
    stage.ack(2..=10);
    assert_eq!(stage.window(), reduced);
}

#[test]
fn rfc9002_7_3_2_one_packet_may_repair_the_loss_above_the_window() {
    let mut stage = Stage::sampled("controller=new-reno, start=standard");
    stage.fill();
    stage.wait(100);
    stage.ack(2..=4);
    assert!(stage.recovery.bytes_in_flight(stage.path) + DATAGRAM > stage.window());
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::Now(DATAGRAM));
    stage.send(1);
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::WindowFull);
}

#[test]
fn rfc9002_7_6_3_persistent_congestion_example() {
    // In the example three probe timeouts are 6 units; with the samples of this test they are 1223 ms, so a unit is 180
    // to 203 ms.
    const UNIT: u64 = 180;
    let mut stage = Stage::sampled("controller=new-reno, start=standard");
    let start = stage.now;
    for time in [0u64, 1, 2, 3, 4, 5, 6, 8, 12] {
        stage.now = start + ms(time * UNIT);
        stage.send(1);
        if time == 1 {
            stage.now = start + ms(UNIT * 12 / 10);
            stage.ack(1..=1);
        }
    }
    stage.now = start + ms(UNIT * 122 / 10);
    stage.ack(9..=9);
    assert_eq!(stage.lost(), [2, 3, 4, 5, 6, 7, 8]);
    assert!(stage.out.persistent_congestion);
    assert_eq!(stage.window(), 2 * DATAGRAM);
}

#[test]
fn rfc9002_7_6_2_an_acknowledgment_between_the_losses_prevents_persistent_congestion() {
    let mut stage = Stage::sampled("");
    stage.wait(1);
    stage.send(1);
    stage.wait(600);
    stage.send(1);
    stage.wait(600);
    stage.send(1);
    stage.ack(2..=2);
    stage.wait(1);
    stage.send(3);
    stage.wait(100);
    stage.ack(4..=6);
    assert!(!stage.out.persistent_congestion);
    assert_eq!(stage.path().stats().persistent_congestions, 0);
}

#[test]
fn rfc9002_7_6_2_losses_found_one_after_the_other_add_up_to_persistent_congestion() {
    let mut stage = Stage::sampled("");
    stage.wait(1);
    stage.send(1);
    stage.wait(600);
    stage.send(1);
    stage.wait(600);
    stage.send(2);
    stage.wait(40);
    stage.ack(4..=4);
    assert_eq!(stage.lost(), [1, 2]);
    assert!(!stage.out.persistent_congestion, "600 ms apart, and three timeouts are 982 ms");
    stage.expire();
    assert_eq!(stage.lost(), [3]);
    assert!(stage.out.persistent_congestion, "1200 ms apart");
}

/// The order of sending decides, not a clock: a transport may send the repair in the same instant in which it finds
/// the loss.
#[test]
fn rfc9002_7_3_2_what_is_sent_in_the_instant_in_which_recovery_begins_is_sent_after_it() {
    let mut stage = Stage::sampled("controller=cubic");
    stage.send(10);
    stage.wait(100);
    stage.ack(2..=10);
    assert_eq!(stage.lost(), [1]);
    let reduced = stage.window();
    stage.send(5);
    stage.wait(100);
    stage.ack(12..=15);
    assert_eq!(stage.lost(), [11], "the repair is lost too");
    assert!(
        stage.window() < reduced,
        "{} after {reduced}: a loss of what was sent since is another congestion",
        stage.window()
    );
    assert_eq!(stage.path().stats().congestion_events, 2);
}

#[test]
fn rfc9002_7_3_2_the_window_grows_with_the_first_delivery_of_what_was_sent_when_recovery_began() {
    let mut stage = Stage::sampled("controller=new-reno");
    stage.send(10);
    stage.wait(100);
    stage.ack(2..=10);
    let reduced = stage.window();
    for _ in 0..2 {
        let first = stage.next[2];
        let sent = stage.fill();
        stage.wait(100);
        stage.ack(first..=first + sent - 1);
    }
    // Two flights of five open a window of five and a half by one, if both count.
    assert!(stage.window() > reduced, "{} after {reduced}", stage.window());
}

/// A packet that was sent before persistent congestion and is declared lost after it has been answered by the
/// reduction before.
#[test]
fn rfc9002_7_6_2_a_straggler_after_persistent_congestion_does_not_reduce_again() {
    let mut stage = Stage::sampled("");
    stage.wait(1);
    stage.send(8);
    stage.wait(2_000);
    stage.send(6);
    let straggler = stage.next[2] - 2;
    stage.wait(100);
    stage.ack(12..=12);
    assert!(stage.out.persistent_congestion, "{:?}", stage.out);
    let threshold = stage.path().ssthresh().unwrap();
    let events = stage.path().stats().congestion_events;
    assert!(threshold > 2 * DATAGRAM, "{threshold}");
    stage.send(1);
    let next = stage.next[2];
    stage.wait(200);
    stage.ack(next - 1..=next - 1);
    assert!(stage.lost().contains(&straggler), "{:?}", stage.lost());
    assert_eq!(stage.path().ssthresh(), Some(threshold));
    assert_eq!(stage.path().stats().congestion_events, events);
    assert!(stage.window() > 2 * DATAGRAM, "and what was delivered opens the window: {}", stage.window());
}

#[test]
fn rfc9002_7_6_2_persistent_congestion_answers_everything_sent_before_it() {
    let mut stage = Stage::sampled("reordering=time-only");
    stage.wait(1);
    stage.send(1);
    stage.wait(2_000);
    stage.send(1);
    stage.wait(1);
    stage.send(3);
    stage.wait(80);
    stage.ack(3..=3);
    stage.send(2);
    assert_eq!(stage.expire(), Timeout::Lost);
    assert!(stage.out.persistent_congestion, "{:?}", stage.out);
    let (threshold, events) = (stage.path().ssthresh(), stage.path().stats().congestion_events);
    stage.send(1);
    let next = stage.next[2];
    stage.wait(200);
    stage.ack(next - 1..=next - 1);
    assert!(!stage.lost().is_empty());
    assert_eq!((stage.path().ssthresh(), stage.path().stats().congestion_events), (threshold, events));
}

/// An application that sends bursts of one initial window: how many packets one acknowledgment names does not
/// matter.
#[test]
fn rfc9002_7_8_bursts_that_fill_the_window_grow_it_alike_however_many_packets_an_ack_names() {
    let grown = |per_ack: u64| {
        let mut stage = Stage::confirmed("start=standard");
        let burst = stage.fill();
        assert_eq!(burst, 10);
        stage.recovery.on_app_limited(stage.path);
        stage.wait(100);
        for first in (0..burst).step_by(per_ack as usize) {
            stage.ack(first..=(first + per_ack - 1).min(burst - 1));
            stage.recovery.on_app_limited(stage.path);
        }
        stage.window() / DATAGRAM
    };
    assert_eq!([1, 2, 5, 10].map(grown), [20; 4]);
}

#[test]
fn rfc9002_7_8_bursts_that_leave_the_window_unused_do_not_grow_it() {
    let mut stage = Stage::confirmed("start=standard");
    let before = stage.window();
    for _ in 0..5 {
        let first = stage.next[2];
        stage.send(5);
        stage.recovery.on_app_limited(stage.path);
        stage.wait(100);
        stage.ack(first..=first + 4);
    }
    assert_eq!(stage.window(), before);
}

#[test]
fn rfc9002_7_8_a_full_window_grows_even_if_nothing_more_was_to_be_sent() {
    let mut stage = Stage::sampled("start=standard");
    let window = stage.window();
    let count = stage.fill();
    stage.recovery.on_app_limited(stage.path);
    assert!(!stage.path().is_application_limited());
    stage.wait(100);
    stage.ack(1..=count);
    assert_eq!(stage.window(), window + count * DATAGRAM);
}

#[test]
fn rfc9002_7_8_being_held_by_the_pacer_is_not_underutilisation() {
    let policies = of_rfc9002("start=standard, pacing=on");
    let mut stage = Stage::new(Config { policies, ecn: false, ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.send(1);
    stage.wait(100);
    stage.ack(0..=0);
    let mut count = 0;
    let window = stage.window();
    loop {
        match stage.recovery.budget(stage.now, stage.path) {
            Budget::Now(_) => {
                stage.send(1);
                count += 1;
            }
            Budget::Paced(_) => break,
            Budget::WindowFull => panic!("the pacer comes first"),
        }
    }
    assert!(stage.recovery.bytes_in_flight(stage.path) + DATAGRAM <= window);
    stage.wait(100);
    stage.ack(1..=count);
    assert_eq!(stage.window(), window + count * DATAGRAM);
}

#[test]
fn rfc9002_7_7_the_pacer_answers_with_a_time() {
    let mut stage = Stage::new(Config { ecn: false, ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.send(1);
    stage.wait(100);
    stage.ack(0..=0);
    // The initial window at once, then two windows per round trip: 13200 B × 2 / 100 ms = 264 kB/s.
    assert_eq!(stage.fill(), 10);
    let Budget::Paced(next) = stage.recovery.budget(stage.now, stage.path) else {
        panic!("paced");
    };
    assert!(next > stage.now && next <= stage.now + ms(10), "{next:?}");
    assert!(matches!(stage.recovery.budget(next, stage.path), Budget::Now(_)));
    assert_eq!(stage.path().pacing_rate().unwrap().bps(), 2_112_000);
}

#[test]
fn the_datagram_size_carries_through() {
    let mut stage = Stage::confirmed("");
    stage.recovery.path_mut(stage.path).unwrap().set_datagram_size(at(0), 1_452);
    assert_eq!(stage.path().datagram_size(), 1_452);
    assert_eq!(stage.window(), 14_520);
    assert_eq!(stage.recovery.budget(at(0), stage.path), Budget::Now(14_520));
    assert!(stage.events().iter().any(|(_, event)| matches!(event, Event::Metrics(m) if m.window == 14_520)));
}
