//! The reductions in QUIC: the published traces with packet numbers, congestion marks, timers, undo, and whole paths.

use std::collections::BTreeMap;

use crate::common::world::{Link, World};
use crate::common::{SIZE, Stage, at, ms, of_rfc9002, rfc9002};
use thalweg_recovery::trace::State;
use thalweg_recovery::{Budget, Config};
use thalweg_units::Duration;

const DATAGRAM: u64 = SIZE as u64;
const ALL: [&str; 6] = ["immediate", "rate-halving", "prr-ub", "prr-crb", "prr-ssrb", "prr"];

/// Twenty datagrams of window in congestion avoidance, all in flight as the packets from the returned number on. No ACK
/// is under way.
fn twenty_in_flight(policies: &str) -> (Stage, u64) {
    let mut stage = Stage::sampled(&format!("controller=new-reno, start=standard, {policies}"));
    settle_at_twenty(&mut stage);
    let first = stage.next[2];
    assert_eq!(stage.fill(), 20);
    stage.wait(100);
    (stage, first)
}

fn settle_at_twenty(stage: &mut Stage) {
    // 11, then 22, then 40 datagrams; and the loss of one makes them 20.
    for acked in [11, 18] {
        let first = stage.next[2];
        stage.fill();
        stage.wait(100);
        stage.ack(first..=first + acked - 1);
    }
    assert_eq!(stage.window(), 40 * DATAGRAM);
    let oldest = stage.next[2] - 4;
    stage.ack(oldest + 1..=oldest + 3);
    if stage.lost().is_empty() {
        stage.expire();
    }
    assert_eq!((stage.lost(), stage.path().ssthresh()), (vec![oldest], Some(20 * DATAGRAM)));
    stage.wait(1);
    // A repair, and its ACK: the reduction is over. What is missing to the target, slow start adds.
    let mut count = 1;
    stage.send(count);
    loop {
        stage.wait(100);
        stage.ack(stage.next[2] - count..=stage.next[2] - 1);
        stage.wait(1);
        if stage.window() == 20 * DATAGRAM {
            break;
        }
        count = stage.fill();
    }
}

/// How many packets leave on each ACK when the first of twenty is lost; the ACKs are for the other nineteen, for what
/// the first two of them released, and for the repair.
fn single_loss(policies: &str) -> Vec<u64> {
    let (mut stage, first) = twenty_in_flight(policies);
    assert_eq!(stage.window(), 20 * DATAGRAM, "{policies}");
    let mut sent = Vec::new();
    for number in first + 1..=first + 22 {
        stage.ack(first + 1..=number);
        // What is sent from now on is sent after the recovery period began.
        stage.now += Duration::from_micros(1);
        sent.push(stage.fill());
    }
    assert_eq!(stage.path().stats().congestion_events, 2);
    sent
}

/// recovery.md 3.4 (i): the trace of RFC 9937 holds unchanged, with the repair as packet 22.
#[test]
fn rfc9937_8_the_single_loss_of_the_table_in_quic() {
    let prr = [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1];
    assert_eq!(single_loss("reduction=prr"), prr);
    let immediate = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!(single_loss("reduction=immediate"), immediate);
    let halving = [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1];
    assert_eq!(single_loss("reduction=rate-halving")[..21], halving);
}

/// Packets in flight and packets sent after each of the ACKs when the first fifteen of twenty are lost: 15 to 19, and
/// then the repairs.
///
/// QUIC counts from the largest acknowledged, so that the first ACK declares thirteen packets lost and the next two one
/// each; TCP's scoreboard waits for three duplicates and declares fifteen.
fn fifteen_losses(policies: &str, acks: u64) -> (Vec<u64>, Vec<u64>, Stage) {
    let (mut stage, first) = twenty_in_flight(policies);
    let (mut in_flight, mut sent) = (Vec::new(), Vec::new());
    for number in first + 15..first + 15 + acks {
        stage.ack(first + 15..=number);
        stage.now += Duration::from_micros(1);
        in_flight.push(stage.recovery.bytes_in_flight(stage.path) / DATAGRAM);
        sent.push(stage.fill());
    }
    assert_eq!(stage.path().stats().packets_lost, 16);
    (in_flight, sent, stage)
}

#[test]
fn rfc9937_fifteen_losses_in_quic_end_without_a_burst() {
    // The first repair to be acknowledged (the sixth ACK) ends the recovery period, with 4 of 10 in flight. From then
    // on ACKs are safe: two leave for each that arrives until the window is there.
    let (in_flight, sent, stage) = fifteen_losses("reduction=prr", 14);
    assert_eq!(in_flight, [6, 5, 4, 4, 4, 4, 5, 6, 7, 8, 9, 9, 9, 9]);
    assert_eq!(sent, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
    assert_eq!(stage.window(), 10 * DATAGRAM);
    assert_eq!(stage.path().state(), State::CongestionAvoidance);
}

#[test]
fn rfc6937_fifteen_losses_in_quic_end_with_the_whole_difference_at_once() {
    for (policy, expected) in [
        ("prr-crb", [1, 1, 1, 1, 1, 6, 1, 1]),
        ("prr-ssrb", [2, 2, 2, 2, 2, 1, 1, 1]),
        ("prr-ub", [4, 2, 2, 1, 1, 1, 1, 1]),
        ("immediate", [4, 2, 2, 1, 1, 1, 1, 1]),
    ] {
        let (_, sent, _) = fifteen_losses(&format!("reduction={policy}"), 8);
        assert_eq!(sent, expected, "{policy}");
    }
    // Rate halving never lets the window rise; slow start brings it back afterwards.
    let (_, sent, stage) = fifteen_losses("reduction=rate-halving", 7);
    assert_eq!(sent[..5], [1; 5]);
    assert!(stage.window() < 10 * DATAGRAM);
    assert_eq!(stage.path().state(), State::SlowStart);
}

#[test]
fn a_congestion_mark_is_responded_to_in_the_same_way() {
    let sent = |policy: &str| {
        let policies = of_rfc9002(&format!("controller=new-reno, start=standard, pacing=off, reduction={policy}"));
        let mut stage = Stage::new(Config { policies, ..rfc9002() }, false);
        stage.recovery.set_handshake_confirmed(at(0));
        let count = stage.fill();
        stage.wait(100);
        let mut sent = Vec::new();
        for number in 0..count {
            stage.ack_ecn(0..=number, number, 1);
            stage.now += Duration::from_micros(1);
            sent.push(stage.fill());
        }
        assert_eq!(stage.path().ssthresh(), Some(5 * DATAGRAM));
        assert_eq!(stage.path().stats().ecn_events, 1, "{policy}");
        sent
    };
    assert_eq!(sent("immediate"), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1], "half a round trip of silence");
    assert_eq!(sent("prr"), [1, 0, 1, 0, 1, 0, 1, 0, 0, 1], "half the rate");
    assert_eq!(sent("rate-halving"), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
}

#[test]
fn losses_that_the_timer_finds_release_no_burst() {
    for policy in ALL {
        let mut stage = Stage::sampled(&format!("start=standard, reordering=time-only, reduction={policy}"));
        let count = stage.fill();
        stage.wait(100);
        stage.ack(count..=count);
        let sent = stage.fill();
        stage.expire();
        assert_eq!(stage.lost().len() as u64, count - 1, "{policy}");
        assert_eq!(stage.recovery.bytes_in_flight(stage.path), sent * DATAGRAM);
        match (policy, stage.fill()) {
            // The burst that proportional reduction is for.
            ("immediate" | "prr-ub", burst) => assert!(burst >= 5, "{policy}: {burst}"),
            (_, burst) => assert!((1..=2).contains(&burst), "{policy}: {burst}"),
        }
    }
}

#[test]
fn what_was_not_sent_can_be_sent_later() {
    let (mut stage, first) = twenty_in_flight("reduction=prr");
    stage.ack(first + 1..=first + 3);
    // Ten more arrive while the application has nothing to send; then it has.
    stage.ack(first + 1..=first + 13);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 6 * DATAGRAM);
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::Now(4 * DATAGRAM), "up to the target");
}

#[test]
fn probes_count_as_sent() {
    let (mut stage, first) = twenty_in_flight("reduction=prr");
    stage.ack(first + 1..=first + 3);
    assert_eq!(stage.fill(), 2, "two of three: half of the flight is above the target");
    stage.send(2);
    stage.ack(first + 1..=first + 7);
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::WindowFull, "7 arrived, 4 have left");
    stage.ack(first + 1..=first + 9);
    assert_eq!(stage.fill(), 1);
}

#[test]
fn an_application_that_runs_out_of_data_ends_at_the_target_and_not_in_slow_start() {
    for policy in ["prr", "prr-crb", "prr-ssrb", "prr-ub"] {
        let (mut stage, first) = twenty_in_flight(&format!("reduction={policy}"));
        stage.ack(first + 1..=first + 3);
        stage.now += Duration::from_micros(1);
        stage.send(1);
        stage.recovery.on_app_limited(stage.path);
        stage.ack(first + 1..=first + 19);
        stage.wait(100);
        stage.ack(first + 1..=first + 20);
        assert_eq!(stage.window(), 10 * DATAGRAM, "{policy}");
        assert_ne!(stage.path().state(), State::SlowStart, "{policy}");
    }
}

#[test]
fn undo_brings_the_whole_window_back_from_the_middle_of_a_reduction() {
    for policy in ALL {
        let (mut stage, first) = twenty_in_flight(&format!("reduction={policy}"));
        stage.ack(first + 1..=first + 6);
        assert!(stage.window() < 20 * DATAGRAM);
        stage.ack(first..=first + 6);
        assert_eq!(stage.window(), 20 * DATAGRAM, "{policy}");
        assert_eq!(stage.path().ssthresh(), Some(20 * DATAGRAM));
        stage.ack(first..=first + 7);
        assert!(stage.window() >= 20 * DATAGRAM, "{policy}: and nothing holds it down any more");
    }
}

#[test]
fn a_second_reduction_starts_from_where_the_first_was_to_arrive() {
    let (mut stage, first) = twenty_in_flight("reduction=prr");
    stage.ack(first + 15..=first + 17);
    stage.now += Duration::from_micros(1);
    let next = stage.next[2];
    stage.send(4);
    stage.wait(100);
    stage.ack(next + 3..=next + 3);
    assert_eq!(stage.path().stats().congestion_events, 3, "a repair was lost too");
    assert_eq!(stage.path().ssthresh(), Some(5 * DATAGRAM), "half of ten, not of what was in flight");
}

#[test]
fn persistent_congestion_ends_a_reduction() {
    let (mut stage, first) = twenty_in_flight("reduction=prr");
    stage.ack(first + 1..=first + 4);
    stage.send(1);
    stage.wait(3_000);
    let next = stage.next[2];
    stage.send(4);
    stage.wait(100);
    stage.ack(next + 1..=next + 3);
    assert!(stage.out.persistent_congestion);
    assert_eq!((stage.window(), stage.path().state()), (2 * DATAGRAM, State::SlowStart));
}

/// Slow start has 80 packets in flight, of which the link loses 70 in a row: what leaves back to back on one ACK.
#[test]
fn heavy_loss_makes_a_burst_of_immediate_and_none_of_prr() {
    let largest_burst = |policy: &str| {
        let mut link = Link::new(100_000_000, ms(10), 10_000_000);
        link.lose = Box::new(|number, _| (72..142).contains(&number));
        let mut world = World::new(&format!("start=standard, pacing=off, reduction={policy}"), link);
        world.run(1_000, at(60_000));
        assert_eq!(world.path().stats().packets_lost, 70, "{policy}");
        let mut bursts: BTreeMap<_, u64> = BTreeMap::new();
        world.sends.iter().skip(150).for_each(|time| *bursts.entry(*time).or_default() += 1);
        bursts.into_values().max().unwrap()
    };
    assert_eq!(largest_burst("prr"), 2);
    for (policy, when) in [("prr-crb", "ends"), ("prr-ssrb", "ends"), ("prr-ub", "begins"), ("immediate", "begins")] {
        assert!(largest_burst(policy) >= 20, "{policy}: when the recovery period {when}");
    }
}

/// Real transfers over a path that loses one packet in a hundred come to the same goodput whatever the reduction,
/// within a fifth.
#[test]
fn every_reduction_keeps_a_lossy_path_busy() {
    let times = ALL.map(|policy| {
        let mut link = Link::new(20_000_000, ms(20), 100_000);
        link.lose = Box::new(|number, _| number % 100 == 57);
        let mut world = World::new(&format!("reduction={policy}"), link);
        world.run(5_000, at(120_000)).as_nanos()
    });
    let fastest = times.iter().min().unwrap();
    for (policy, time) in ALL.iter().zip(times) {
        assert!(time * 10 <= fastest * 13, "{policy}: {time} against {fastest}");
    }
}
