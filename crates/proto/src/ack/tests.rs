//! Tests of the rules for acknowledging.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;

use super::density::DENSE_PACKETS;
use super::*;
use crate::error::TransportErrorCode;
use crate::frame::{Frame, FrameIter};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn tracker() -> AckTracker {
    AckTracker::new(AckConfig::default(), false)
}

/// The ranges of the ACK that the tracker writes, descending, with its raw delay and ECN counts.
fn write(t: &mut AckTracker, now: Instant) -> Option<(Vec<RangeInclusive<u64>>, u64, Option<EcnCounts>)> {
    let mut buf = Vec::new();
    let Reported { largest, .. } = t.write(now, &mut buf, 1200)?;
    match FrameIter::new(&buf).next() {
        Some(Ok(Frame::Ack(ack))) => {
            assert_eq!(ack.largest, largest);
            Some((ack.ranges().collect(), ack.raw_delay, ack.ecn))
        }
        other => panic!("{other:?}"),
    }
}

fn ranges(t: &mut AckTracker, now: Instant) -> Vec<RangeInclusive<u64>> {
    write(t, now).map(|(ranges, _, _)| ranges).unwrap_or_default()
}

/// Receives an ack-eliciting packet without ECN; if an ACK is due, writes it. Returns whether.
fn receive(t: &mut AckTracker, now: Instant, number: u64) -> bool {
    assert!(!t.is_duplicate(number));
    t.on_packet(now, number, Ecn::NotEct, true);
    let due = t.due(now);
    if due {
        assert!(write(t, now).is_some());
    }
    due
}

/// A tracker that has left the dense phase, with `per_rtt` packets arriving in each round trip of 100 ms; returns the
/// next number.
fn thinned(per_rtt: u64) -> (AckTracker, u64, Instant) {
    let mut t = tracker();
    t.set_rtt(100 * MS);
    let mut now = at(0);
    let mut number = 0;
    while number < DENSE_PACKETS + 3 * per_rtt {
        receive(&mut t, now, number);
        number += 1;
        now += 100 * MS / per_rtt as u32;
    }
    write(&mut t, now);
    (t, number, now)
}

/// How many packets in a row it takes until an ACK is due, all arriving at the same time.
fn packets_until_due(t: &mut AckTracker, mut number: u64, now: Instant) -> u64 {
    let first = number;
    while !receive(t, now, number) {
        number += 1;
    }
    number - first + 1
}

// ---- RFC 9000 section 13.2 ------------------------------------------------------------------------------------------

#[test]
fn initial_and_handshake_packets_must_be_acknowledged_at_once() {
    let mut t = AckTracker::new(AckConfig::default(), true);
    for number in 0..10 {
        assert!(receive(&mut t, at(number), number));
    }
}

#[test]
fn an_ack_is_due_after_two_ack_eliciting_packets() {
    let mut t = tracker();
    let acks: Vec<bool> = (0..6).map(|n| receive(&mut t, at(0), n)).collect();
    assert_eq!(acks, [false, true, false, true, false, true]);
}

#[test]
fn an_ack_must_not_be_held_back_longer_than_max_ack_delay() {
    let mut t = tracker();
    assert_eq!(t.timer(), None);
    assert!(!receive(&mut t, at(7), 0));
    assert!(t.pending());
    assert_eq!(t.timer(), Some(at(7 + 25)));
    assert!(!t.due(at(31)));
    assert!(t.due(at(32)));
    assert_eq!(ranges(&mut t, at(32)), [0..=0]);
    assert!(!t.due(at(1000)) && !t.pending());
    assert_eq!(t.timer(), None);
}

#[test]
fn packets_that_are_not_ack_eliciting_must_not_bring_about_an_ack_even_with_gaps() {
    let mut t = tracker();
    for number in [0, 5, 3, 9] {
        t.on_packet(at(0), number, Ecn::Ce, false);
        assert!(!t.due(at(10_000)) && !t.pending() && t.timer().is_none());
    }
    // When there is an ack-eliciting packet, they are acknowledged with it.
    assert!(receive(&mut t, at(1), 2));
    assert_eq!(ranges(&mut t, at(1)), [9..=9, 5..=5, 2..=3, 0..=0]);
}

#[test]
fn a_packet_below_another_brings_an_ack_at_once() {
    let mut t = tracker();
    t.on_packet(at(0), 0, Ecn::NotEct, true);
    assert!(write(&mut t, at(0)).is_some());
    assert!(receive(&mut t, at(0), 2), "a gap opens");
    assert!(receive(&mut t, at(0), 1), "a gap is filled");
    assert!(!receive(&mut t, at(0), 3));
}

#[test]
fn an_old_gap_does_not_bring_an_ack_for_every_packet() {
    let mut t = tracker();
    receive(&mut t, at(0), 0);
    assert!(receive(&mut t, at(0), 5));
    let acks: Vec<bool> = (6..12).map(|n| receive(&mut t, at(0), n)).collect();
    assert_eq!(acks, [false, true, false, true, false, true]);
}

#[test]
fn a_ce_mark_brings_an_ack_at_once() {
    let mut t = tracker();
    for number in 0..3 {
        t.on_packet(at(0), number, Ecn::Ce, true);
        assert!(t.due(at(0)));
        write(&mut t, at(0));
    }
}

#[test]
fn the_caller_can_force_an_ack_before_and_after_the_packet_is_noted() {
    let mut t = tracker();
    t.force_due();
    assert!(!t.due(at(0)), "nothing to acknowledge");
    t.on_packet(at(0), 0, Ecn::NotEct, true);
    assert!(t.due(at(0)));
    write(&mut t, at(0));
    t.on_packet(at(0), 1, Ecn::NotEct, true);
    assert!(!t.due(at(0)));
    t.force_due();
    assert!(t.due(at(0)));
}

#[test]
fn the_delay_is_that_of_the_largest_packet_shifted_by_the_exponent() {
    let mut t = tracker();
    t.on_packet(at(10), 3, Ecn::NotEct, true);
    t.on_packet(at(18), 2, Ecn::NotEct, true);
    assert_eq!(write(&mut t, at(20)).map(|(_, delay, _)| delay), Some(10_000 >> 3));
}

#[test]
fn ecn_counts_are_reported_once_there_are_any() {
    let mut t = tracker();
    t.on_packet(at(0), 0, Ecn::NotEct, true);
    assert_eq!(write(&mut t, at(0)).map(|(_, _, ecn)| ecn), Some(None));
    for (number, ecn) in [(1, Ecn::Ect0), (2, Ecn::Ect1), (3, Ecn::Ce), (4, Ecn::Ect0), (5, Ecn::NotEct)] {
        t.on_packet(at(0), number, ecn, number % 2 == 0);
    }
    let counts = EcnCounts { ect0: 2, ect1: 1, ce: 1 };
    assert_eq!(write(&mut t, at(0)).map(|(_, _, ecn)| ecn), Some(Some(counts)));
    assert_eq!(t.counts(), counts);
}

#[test]
fn a_packet_received_must_be_told_from_a_new_one() {
    let mut t = tracker();
    for number in [0, 1, 5] {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    let duplicates: Vec<u64> = (0..8).filter(|n| t.is_duplicate(*n)).collect();
    assert_eq!(duplicates, [0, 1, 5]);
    write(&mut t, at(0));
    t.on_ack_acked(Reported { from: 0, largest: 5 });
    assert!(t.is_duplicate(0) && !t.is_duplicate(2), "what is missing may still come");
    assert_eq!(t.largest(), Some(5));
}

// ---- what an ACK reports --------------------------------------------------------------------------------------------

#[test]
fn what_the_peer_knows_is_not_reported_again() {
    let mut t = tracker();
    for number in [0, 1, 3, 4, 7] {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    assert_eq!(ranges(&mut t, at(0)), [7..=7, 3..=4, 0..=1]);
    t.on_packet(at(0), 8, Ecn::NotEct, true);
    t.on_ack_acked(Reported { from: 0, largest: 7 });
    assert_eq!(ranges(&mut t, at(0)), [8..=8]);
    t.on_ack_acked(Reported { from: 0, largest: 8 });
    assert_eq!(write(&mut t, at(0)), None);
}

#[test]
fn a_late_packet_is_reported_until_an_ack_surely_told_of_it() {
    let mut t = tracker();
    for number in [0, 1, 2, 6] {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    assert_eq!(ranges(&mut t, at(0)), [6..=6, 0..=2]);
    // 4 arrives when an ACK with largest 6 is on its way, which does not acknowledge it.
    t.on_packet(at(1), 4, Ecn::NotEct, true);
    t.on_ack_acked(Reported { from: 0, largest: 6 });
    assert_eq!(ranges(&mut t, at(1)), [6..=6, 4..=4]);
    t.on_packet(at(2), 7, Ecn::NotEct, true);
    assert_eq!(ranges(&mut t, at(2)), [6..=7, 4..=4]);
    t.on_ack_acked(Reported { from: 0, largest: 7 });
    assert_eq!(write(&mut t, at(2)), None);
}

#[test]
fn the_most_recent_ranges_that_fit_are_reported() {
    let mut t = tracker();
    for number in (0..400).step_by(2) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    assert_eq!(ranges(&mut t, at(0)).len(), 64);
    let mut buf = vec![0; 10];
    assert_eq!(t.write(at(0), &mut buf, 10 + 4), None);
    assert_eq!(buf.len(), 10);
    assert_eq!(t.write(at(0), &mut buf, 9), None);
    assert_eq!(t.write(at(0), &mut buf, 10 + 20).map(|reported| reported.largest), Some(398));
    assert!(buf.len() <= 30);
    let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf[10..]).next() else { panic!() };
    assert_eq!(ack.ranges().take(2).collect::<Vec<_>>(), [398..=398, 396..=396]);
}

/// Every ACK reports the most recent 64 ranges; what it leaves out follows once those are known to the peer.
#[test]
fn rfc9000_13_2_3_ranges_that_found_no_room_are_reported_once_there_is() {
    let mut t = tracker();
    for number in (0..400).step_by(2) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    let mut told = BTreeSet::new();
    let mut acks = 0;
    let mut next = 400;
    while told.len() < 200 && acks < 10 {
        let mut buf = Vec::new();
        let reported = t.write(at(0), &mut buf, 1200).unwrap();
        let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf).next() else { panic!() };
        told.extend(ack.ranges().flatten().filter(|number| *number < 400));
        acks += 1;
        // The packet that acknowledges the ACK.
        t.on_ack_acked(reported);
        t.on_packet(at(1), next, Ecn::NotEct, true);
        next += 1;
    }
    assert_eq!((told.len(), acks), (200, 4), "64 ranges each");
    assert!(t.unreported().all(|range| range.start >= 400 - 2));
}

#[test]
fn the_memory_of_what_was_reported_is_bounded() {
    let mut t = AckTracker::new(AckConfig { max_ranges: 1, ..AckConfig::default() }, false);
    for number in (0..100_000).step_by(3) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
        t.on_packet(at(0), number + 2, Ecn::NotEct, true);
        let reported = t.write(at(0), &mut Vec::new(), 1200).unwrap();
        t.on_ack_acked(reported);
        assert!(t.reported.len_ranges() <= MAX_REPORTED_SPANS);
        assert!(t.late.len() <= MAX_LATE);
    }
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_counts_as_duplicate() {
    let mut t = tracker();
    for number in (0..100_000).step_by(2) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    assert_eq!(t.received.len_ranges(), MAX_KEPT_RANGES);
    assert!(t.is_duplicate(1) && !t.is_duplicate(99_999));
    // Late arrivals without end, none of whose ACKs is ever acknowledged.
    for number in (99_700..100_000).filter(|n| n % 2 == 1) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
    }
    for number in (100_001..200_000).step_by(2) {
        t.on_packet(at(0), number, Ecn::NotEct, true);
        t.on_packet(at(0), number - 1, Ecn::NotEct, true);
    }
    assert!(t.late.len() <= MAX_LATE);
}

#[test]
fn a_peer_that_never_acknowledges_our_acks_is_asked_to_once_in_a_while() {
    let mut t = tracker();
    let mut asked = 0;
    for number in (0..1000).filter(|n| n % 50 != 7) {
        if receive(&mut t, at(number), number) {
            asked += u64::from(t.should_elicit());
        }
    }
    assert!((5..20).contains(&asked), "{asked}");
    // Not if there is nothing to forget.
    let mut t = tracker();
    assert!((0..1000).all(|number| !receive(&mut t, at(number), number) || !t.should_elicit()));
}

proptest! {
    /// Packets arrive in any order, ACKs get lost or come through in any order, and have room for few ranges: what the
    /// peer learns is true, and after enough ACKs that are not lost it has learned of everything.
    #[test]
    fn every_packet_received_is_told_at_least_once(
        steps in vec((0u64..40, any::<bool>(), 0u8..10), 1..200), losses in vec(any::<bool>(), 64), max_ranges in 2usize..6,
    ) {
        let mut t = AckTracker::new(AckConfig { max_ranges, ..AckConfig::default() }, false);
        let mut received = BTreeSet::new();
        let mut told = BTreeSet::new();
        let mut in_flight: Vec<(Reported, Vec<RangeInclusive<u64>>)> = Vec::new();
        let mut base = 0;
        for (i, (jump, eliciting, action)) in steps.into_iter().enumerate() {
            let now = at(i as u64);
            base += jump / 16;
            let number = base + jump % 16;
            prop_assert_eq!(t.is_duplicate(number), received.contains(&number));
            if received.insert(number) {
                t.on_packet(now, number, Ecn::NotEct, eliciting);
            }
            if action < 4 {
                let mut buf = Vec::new();
                if let Some(reported) = t.write(now, &mut buf, 2000) {
                    let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf).next() else { panic!() };
                    prop_assert_eq!(reported.largest, *received.last().unwrap());
                    prop_assert!(ack.ranges().flatten().all(|n| received.contains(&n)), "never a packet not received");
                    prop_assert!(!t.pending() && !t.due(now));
                    in_flight.push((reported, ack.ranges().collect()));
                }
            } else if action < 8 && !in_flight.is_empty() {
                let (reported, ranges) = in_flight.remove(number as usize % in_flight.len());
                if !losses[i % 64] {
                    told.extend(ranges.into_iter().flatten());
                    t.on_ack_acked(reported);
                }
            }
        }
        for _ in 0..2 * received.len() + 8 {
            let mut buf = Vec::new();
            let Some(reported) = t.write(at(10_000), &mut buf, 1200) else { break };
            let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf).next() else { panic!() };
            told.extend(ack.ranges().flatten());
            // The peer's next packet has to be reported too, and makes the acknowledgment of this ACK newer than late
            // arrivals.
            let next = received.last().unwrap() + 2;
            received.insert(next);
            t.on_packet(at(10_000), next, Ecn::NotEct, true);
            told.insert(next);
            t.on_ack_acked(reported);
        }
        prop_assert_eq!(told, received);
    }

    #[test]
    fn the_largest_unacknowledged_delay_is_max_ack_delay(arrivals in vec((0u64..40, 1u64..4), 1..300)) {
        let mut t = tracker();
        t.set_rtt(50 * MS);
        let (mut now, mut number, mut oldest) = (at(0), 0, None);
        for (wait, step) in arrivals {
            let next = now + Duration::from_millis(wait);
            if let Some(timer) = t.timer().filter(|timer| *timer <= next) {
                prop_assert!(t.due(timer));
                prop_assert!(timer <= oldest.unwrap_or(timer) + 25 * MS);
                prop_assert!(write(&mut t, timer).is_some());
                oldest = None;
            }
            now = next;
            number += step;
            t.on_packet(now, number, Ecn::NotEct, true);
            oldest.get_or_insert(now);
            if t.due(now) {
                write(&mut t, now);
                oldest = None;
            }
        }
    }
}

// ---- thinning -------------------------------------------------------------------------------------------------------

#[test]
fn the_first_packets_are_acknowledged_densely() {
    let mut t = tracker();
    t.set_rtt(MS);
    let acks = (0..DENSE_PACKETS).filter(|n| receive(&mut t, at(*n), *n)).count() as u64;
    assert_eq!(acks, DENSE_PACKETS / 2);
}

#[test]
fn acks_thin_out_to_one_per_quarter_of_a_round_trip_between_2_and_10_packets() {
    for (per_rtt, expected) in [(4, 2), (8, 2), (20, 5), (32, 8), (40, 10), (400, 10), (5000, 10)] {
        let (mut t, number, now) = thinned(per_rtt);
        assert_eq!(packets_until_due(&mut t, number, now), expected, "{per_rtt} packets per round trip");
    }
}

#[test]
fn thinned_acks_still_keep_to_max_ack_delay() {
    let (mut t, number, now) = thinned(400);
    assert!(!receive(&mut t, now, number));
    assert!(t.due(now + 25 * MS));
}

#[test]
fn thinning_ends_after_a_pause() {
    let (mut t, number, now) = thinned(400);
    // Two seconds later the old rate means nothing.
    let later = now + 2000 * MS;
    assert_eq!(packets_until_due(&mut t, number, later), 2);
}

#[test]
fn reordering_is_reported_at_once_however_thin_acks_are() {
    let (mut t, number, now) = thinned(400);
    assert!(!receive(&mut t, now, number));
    assert!(receive(&mut t, now, number + 2));
    assert!(receive(&mut t, now, number + 1));
    assert!(!receive(&mut t, now, number + 3));
}

#[test]
fn a_sparse_receiver_acknowledges_twice_per_round_trip_or_every_64th_packet() {
    for (per_ms, packets) in [(1, 50), (10, 64)] {
        let mut t = AckTracker::new(
            AckConfig { policy: AckPolicy::Sparse, max_ack_delay: 1000 * MS, ..AckConfig::default() },
            false,
        );
        t.set_rtt(100 * MS);
        let warm = 400 * per_ms;
        for n in 0..warm {
            receive(&mut t, at(n / per_ms), n);
        }
        let acks = (warm..warm + 6_400).filter(|n| receive(&mut t, at(n / per_ms), *n)).count();
        assert_eq!(acks, 6_400 / packets, "{per_ms} packets per millisecond");
    }
}

/// Numbers from `from` on, eight per millisecond, of which `lost` do not arrive; returns how many ACKs were due and the
/// next number.
fn receive_all_but(t: &mut AckTracker, from: u64, count: u64, lost: &[u64]) -> (u64, u64) {
    let arrived = (from..from + count).filter(|number| !lost.contains(number));
    let due = arrived.filter(|number| receive(t, at(number / 8), *number)).count() as u64;
    (due, from + count)
}

/// A tracker that has thinned to every tenth packet, and the next number.
fn thinned_by(policy: AckPolicy) -> (AckTracker, u64) {
    let mut t = AckTracker::new(AckConfig { policy, max_ack_delay: 1000 * MS, ..AckConfig::default() }, false);
    t.set_rtt(100 * MS);
    let (_, next) = receive_all_but(&mut t, 0, 4_000, &[]);
    (t, next)
}

#[test]
fn missing_packets_make_acks_dense_for_a_while() {
    for (policy, expected) in [(AckPolicy::UntilLoss, 400), (AckPolicy::Thinned, 80), (AckPolicy::EverySecond, 400)] {
        let (mut t, from) = thinned_by(policy);
        // What is missing matters only when it is late no more.
        let (_, from) = receive_all_but(&mut t, from, 400, &[from + 10, from + 30, from + 50]);
        let (due, from) = receive_all_but(&mut t, from, 800, &[]);
        assert!(due.abs_diff(expected) <= 1, "{policy}: {due}");
        let (_, from) = receive_all_but(&mut t, from, 33_000, &[]);
        let (due, _) = receive_all_but(&mut t, from, 800, &[]);
        let later = if policy == AckPolicy::EverySecond { 400 } else { 80 };
        assert!(due.abs_diff(later) <= 1, "{policy}: {due}");
    }
}

#[test]
fn a_number_that_the_peer_skipped_and_packets_that_come_late_are_no_loss() {
    let (mut t, from) = thinned_by(AckPolicy::UntilLoss);
    let (_, from) = receive_all_but(&mut t, from, 6_000, &[from + 100, from + 5_100]);
    let (due, from) = receive_all_but(&mut t, from, 800, &[]);
    assert!(due.abs_diff(80) <= 1, "{due}");
    let (_, next) = receive_all_but(&mut t, from, 100, &[from + 10, from + 11, from + 12]);
    for late in [10, 11, 12] {
        receive(&mut t, at(next / 8), from + late);
    }
    let (_, next) = receive_all_but(&mut t, next, 400, &[]);
    let (due, _) = receive_all_but(&mut t, next, 800, &[]);
    assert!(due.abs_diff(80) <= 1, "{due}");
}

#[test]
fn numbers_that_senders_skip_keep_no_acks_dense() {
    // One each time that the numbers double, as quinn does, and one among 65,536 later.
    let skipped: Vec<u64> =
        (5..17).map(|power| (1 << power) + 7).chain((2..6).map(|block| (block << 16) + 9)).collect();
    let mut t = AckTracker::new(AckConfig { max_ack_delay: 1000 * MS, ..AckConfig::default() }, false);
    t.set_rtt(100 * MS);
    let (_, next) = receive_all_but(&mut t, 0, 2_000, &skipped);
    let (due, _) = receive_all_but(&mut t, next, 300_000, &skipped);
    assert!(due < 31_000, "{due}");
}

#[test]
fn steady_loss_is_loss() {
    let (mut t, mut next) = thinned_by(AckPolicy::UntilLoss);
    for _ in 0..30 {
        (_, next) = receive_all_but(&mut t, next, 40, &[next + 10]);
    }
    let (due, _) = receive_all_but(&mut t, next, 800, &[]);
    assert!(due.abs_diff(400) <= 1, "{due}");
}

#[test]
fn loss_shows_in_packets_that_elicit_no_ack_too() {
    let (mut t, next) = thinned_by(AckPolicy::UntilLoss);
    // Three are missing, and what comes first after them is an ACK.
    t.on_packet(at(next / 8), next + 3, Ecn::NotEct, false);
    let (_, next) = receive_all_but(&mut t, next + 4, 400, &[]);
    let (due, _) = receive_all_but(&mut t, next, 800, &[]);
    assert!(due.abs_diff(400) <= 1, "{due}");
}

#[test]
fn acks_stay_dense_on_a_path_that_loses_whenever_they_are_thin() {
    let (mut t, mut next) = thinned_by(AckPolicy::UntilLoss);
    let (mut thin, mut rounds) = (0, 0);
    while next < 4_000_000 {
        let (due, after) = receive_all_but(&mut t, next, 200, &[]);
        next = after;
        rounds += 1;
        if due < 50 {
            thin += 1;
            (_, next) = receive_all_but(&mut t, next, 400, &[next + 10, next + 11]);
        }
    }
    // 32,768 dense packets after the first, then 131,072, 524,288 and so on.
    assert!((3..=7).contains(&thin), "thin in {thin} of {rounds}");
}

#[test]
fn the_names_of_policies_are_read() {
    for policy in AckPolicy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    let error = "dense".parse::<AckPolicy>().unwrap_err();
    assert!(error.contains("\"dense\"") && error.contains("every-second, until-loss, thinned, sparse"), "{error}");
}

#[test]
fn every_second_packet_can_be_asked_for() {
    let mut t = AckTracker::new(AckConfig { policy: AckPolicy::EverySecond, ..AckConfig::default() }, false);
    t.set_rtt(100 * MS);
    assert_eq!((0..2000).filter(|n| receive(&mut t, at(n / 10), *n)).count(), 1000);
}

#[test]
fn without_a_round_trip_time_nothing_is_thinned() {
    let mut t = tracker();
    assert_eq!((0..1000).filter(|n| receive(&mut t, at(0), *n)).count(), 500);
}

// ---- draft-ietf-quic-ack-frequency ----------------------------------------------------------------------------------

fn request(sequence: u64, threshold: u64, max_ack_delay: u64, reordering_threshold: u64) -> AckFrequency {
    AckFrequency { sequence, threshold, max_ack_delay, reordering_threshold }
}

/// The packets after which an ACK is sent, if only reordering brings about ACKs.
fn acks_due_to_reordering(threshold: u64, packets: &[u64]) -> Vec<u64> {
    let mut t = tracker();
    t.on_ack_frequency(&request(0, 1000, 25_000, threshold)).unwrap();
    packets.iter().copied().filter(|n| receive(&mut t, at(0), *n)).collect()
}

#[test]
fn table_1_of_the_draft_reordering_threshold_3() {
    assert_eq!(acks_due_to_reordering(3, &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
}

#[test]
fn table_2_of_the_draft_reordering_threshold_5() {
    assert_eq!(acks_due_to_reordering(5, &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
}

#[test]
fn a_reordering_threshold_of_0_brings_no_immediate_acks() {
    assert_eq!(acks_due_to_reordering(0, &[0, 1, 3, 2, 9, 5, 20]), [0; 0]);
}

#[test]
fn a_reordering_threshold_of_1_reports_every_gap() {
    assert_eq!(acks_due_to_reordering(1, &[0, 1, 3, 4, 6, 5, 7]), [3, 6, 5]);
}

#[test]
fn a_packet_the_sender_has_declared_lost_is_reported_at_once() {
    // 6.2, second condition: 1 is at or below largest acknowledged - threshold.
    assert_eq!(acks_due_to_reordering(3, &[0, 2, 3, 4, 1]), [4, 1]);
}

#[test]
fn an_ack_is_due_when_more_packets_than_the_threshold_arrived() {
    for threshold in [0, 1, 5, 20] {
        let mut t = tracker();
        assert_eq!(t.on_ack_frequency(&request(7, threshold, 25_000, 1)), Ok(true));
        assert_eq!(packets_until_due(&mut t, 0, at(0)), threshold + 1);
    }
}

#[test]
fn the_requested_max_ack_delay_is_kept() {
    let mut t = tracker();
    t.on_ack_frequency(&request(0, 1000, 3_000, 1)).unwrap();
    receive(&mut t, at(0), 0);
    assert_eq!(t.timer(), Some(at(3)));
}

#[test]
fn an_ack_frequency_frame_that_does_not_raise_the_sequence_number_must_be_ignored() {
    let mut t = tracker();
    assert_eq!(t.on_ack_frequency(&request(5, 9, 5_000, 1)), Ok(true));
    assert_eq!(t.on_ack_frequency(&request(5, 0, 5_000, 1)), Ok(false));
    assert_eq!(t.on_ack_frequency(&request(4, 0, 5_000, 1)), Ok(false));
    assert_eq!(packets_until_due(&mut t, 0, at(0)), 10);
}

#[test]
fn an_impossible_max_ack_delay_must_be_a_protocol_violation() {
    let mut t = tracker();
    for (delay, ok) in [(999, false), (1000, true), ((1 << 14) * 1000 - 1, true), ((1 << 14) * 1000, false)] {
        let result = t.on_ack_frequency(&request(delay, 1, delay, 1));
        assert_eq!(result.is_ok(), ok, "{delay} us");
        if let Err(error) = result {
            assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
    }
}

#[test]
fn immediate_ack_brings_an_ack_at_once() {
    let mut t = tracker();
    t.on_ack_frequency(&request(0, 1000, 25_000, 0)).unwrap();
    assert!(!receive(&mut t, at(0), 0));
    t.on_immediate_ack();
    assert!(receive(&mut t, at(0), 1));
    assert!(!receive(&mut t, at(0), 2));
}

#[test]
fn only_the_first_of_consecutive_ce_marks_brings_an_ack_once_acks_are_to_be_few() {
    let mut t = tracker();
    t.on_ack_frequency(&request(0, 1000, 25_000, 1)).unwrap();
    let marks = [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ce];
    let due: Vec<bool> = (0..)
        .zip(marks)
        .map(|(number, ecn)| {
            t.on_packet(at(0), number, ecn, true);
            let due = t.due(at(0));
            if due {
                write(&mut t, at(0));
            }
            due
        })
        .collect();
    assert_eq!(due, [false, true, false, false, true]);
}
