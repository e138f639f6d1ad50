//! Tests of packets on their way.

use super::*;

/// Packets that leave a millisecond apart, and take 50 ms, and as much more as `more` says for each.
fn flight(more: impl Fn(u64) -> f64) -> Flight {
    let mut flight = Flight::default();
    let mut acks: Vec<(f64, u64)> = (0..400).map(|number| (number as f64 + 50.0 + more(number), number)).collect();
    acks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut acks = acks.into_iter().peekable();
    for now in 0..1000 {
        if now < 400 {
            flight.index += 1;
            flight.sent(now as f64, now, 1200, (1000, true));
        }
        while let Some((time, number)) = acks.next_if(|(time, _)| *time <= now as f64) {
            let ack = Ack { ranges: vec![(number, number)], ..Ack::default() };
            flight.acked(time, &ack, &mut |_, _| ());
        }
    }
    flight
}

#[test]
fn a_small_packet_is_on_the_bottleneck_for_less_time_than_a_full_one() {
    let mut flight = Flight::default();
    assert_eq!(flight.shortest(1200.0, 100.0), None);
    for (number, size, took) in [(0, 1200, 62.0), (1, 200, 53.0)] {
        let now = 100.0 * number as f64;
        flight.sent(now, number, size, (1000, true));
        flight.acked(now + took, &Ack { ranges: vec![(number, number)], ..Ack::default() }, &mut |_, _| ());
    }
    assert_eq!(flight.least, Some(53.0));
    assert_eq!(flight.shortest(1200.0, 100.0), Some(62.0), "it would have taken 63 ms");
    assert_eq!(flight.shortest(1200.0, 200.0), Some(58.0));
}

#[test]
fn the_last_data_had_come_before_the_receiver_told_so_and_what_is_left_comes_at_the_rate() {
    let mut flight = Flight::default();
    (0..3).for_each(|number| flight.sent(0.0, number, 1172, (1000, true)));
    let ack = Ack { ranges: vec![(0, 0)], delay: 25.0, ..Ack::default() };
    flight.acked(90.0, &ack, &mut |_, _| ());
    assert_eq!(flight.last_payload, Some(65.0));
    assert_eq!(flight.served(100.0), 90.0 + 24.0, "two are left");
    let ack = Ack { ranges: vec![(0, 1)], delay: 40.0, ..Ack::default() };
    flight.acked(95.0, &ack, &mut |_, _| ());
    assert_eq!(flight.last_payload, Some(65.0), "no earlier than what had come before");
}

#[test]
fn a_queue_is_where_all_packets_wait() {
    assert_eq!(flight(|_| 0.0).rates.queued.total(), 0.0);
    let single = |number: u64| if number % 8 == 7 { 7.5 } else { 0.0 };
    assert_eq!(flight(single).rates.queued.total(), 0.0, "some that are late by themselves");
    let queue = |number: u64| (number as f64 / 4.0).min(60.0);
    assert!(flight(queue).rates.queued.total() > 0.0);
}

#[test]
fn how_long_a_receiver_waits_with_acknowledgments_does_not_change_the_rate() {
    let rate = |delay: f64| {
        let mut flight = Flight::default();
        for number in 0..400_u64 {
            flight.sent(number as f64, number, 1200, (1000, true));
        }
        for last in (19..400_u64).step_by(20) {
            let delay = if last % 40 == 19 { delay } else { 0.0 };
            let ack = Ack { ranges: vec![(last - 19, last)], delay, ..Ack::default() };
            flight.acked(last as f64 + 500.0 + delay, &ack, &mut |_, _| ());
        }
        flight.rates.short.quantile(1.0).unwrap()
    };
    assert!((rate(15.0) / rate(0.0) - 1.0).abs() < 0.02, "{} and {}", rate(15.0), rate(0.0));
}

fn acked(flight: &mut Flight, now: f64, from: u64, to: u64) {
    flight.acked(now, &Ack { ranges: vec![(from, to)], ..Ack::default() }, &mut |_, _| ());
}

#[test]
fn a_single_packet_that_may_have_been_acknowledged_late_says_nothing_of_the_rate() {
    let train = |may_be_late: bool| {
        let mut flight = Flight::default();
        // Eleven packets leave at once, and come apart at a packet in 0.1 ms; the last is acknowledged 20 ms late.
        (0..11).for_each(|number| flight.sent(0.0, number, 1200, (1000, true)));
        for last in [1, 3, 5, 7, 9] {
            acked(&mut flight, 80.0 + 0.1 * last as f64, last - 1, last);
        }
        let ack = Ack { ranges: vec![(10, 10)], may_be_late, ..Ack::default() };
        flight.acked(101.0, &ack, &mut |_, _| ());
        flight.finish();
        flight.rates.trains.quantile(0.5).unwrap()
    };
    let (skipped, counted) = (train(true), train(false));
    assert!((skipped / 12_000.0 - 1.0).abs() < 0.05 && counted < 1000.0, "{skipped} {counted}");
}

#[test]
fn two_packets_that_come_apart_slowly_tell_the_rate() {
    let rate = |apart: f64, is_undated: bool| {
        let mut flight = Flight::default();
        let acked = |flight: &mut Flight, now: f64, number: u64| {
            let ack = Ack { ranges: vec![(number, number)], is_undated, ..Ack::default() };
            flight.acked(now, &ack, &mut |_, _| ());
        };
        for pair in 0..20_u64 {
            let (now, number) = (100.0 * pair as f64, 2 * pair);
            [number, number + 1].into_iter().for_each(|number| flight.sent(now, number, 1200, (1000, true)));
            acked(&mut flight, now + 50.0, number);
            acked(&mut flight, now + 50.0 + apart, number + 1);
        }
        flight.finish();
        flight.rates.trains.quantile(0.5)
    };
    assert!(rate(16.0, false).is_some_and(|rate| (rate / 75.0 - 1.0).abs() < 0.05));
    assert_eq!(rate(2.0, false), None, "a host may have held one of them up");
    assert_eq!(rate(16.0, true), None, "the receiver may have answered late");
}

#[test]
fn an_acknowledgment_is_due_for_what_nothing_has_overtaken() {
    let mut flight = Flight::default();
    (0..4).for_each(|number| flight.sent(10.0 * number as f64, number, 1200, (1000, true)));
    acked(&mut flight, 50.0, 1, 2);
    assert_eq!(flight.outstanding(), Some((0, 3, 30.0)), "the first may never come");
}

#[test]
fn probes_for_the_mtu_are_given_up_without_being_counted() {
    let mut flight = Flight::default();
    for (number, size, has_data) in [(0, 1452, false), (1, 1200, true), (2, 1200, true), (3, 1200, true)] {
        flight.sent(number as f64, number, size, (1000, has_data));
    }
    acked(&mut flight, 50.0, 3, 3);
    flight.lost_oldest(50.0, 2);
    assert_eq!(flight.losses.lost.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(flight.outstanding(), None);
}

#[test]
fn what_is_forgotten_is_not_due() {
    let mut flight = Flight::default();
    (0..4).for_each(|number| flight.sent(number as f64, number, 1200, (1000, true)));
    flight.lost(40.0, 2);
    acked(&mut flight, 50.0, 1, 1);
    [0, 2].into_iter().for_each(|number| flight.forget(number));
    assert_eq!((flight.outstanding(), flight.ahead()), (Some((3, 3, 3.0)), 1));
    flight.lost(60.0, 3);
    assert_eq!(flight.losses.lost.keys().copied().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn what_a_timeout_declared_lost_and_came_in_order_was_not_lost() {
    let mut flight = Flight::default();
    (0..4).for_each(|number| flight.sent(number as f64, number, 1200, (1000, true)));
    flight.lost(300.0, 0);
    flight.lost(600.0, 1);
    acked(&mut flight, 900.0, 0, 0);
    assert_eq!((flight.losses.declared, flight.losses.spurious), (2, 1));
    assert_eq!(flight.losses.lost.keys().copied().collect::<Vec<_>>(), [1]);
    assert!(flight.losses.late.is_empty(), "nothing had overtaken it");
}
