use super::*;
use crate::profile::{Flight, InitialWindow, Profile};
use crate::trace::State;

const SEGMENT: u32 = 1_000;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Twenty segments of window, pacing off.
fn twenty(policies: &str, flight: Flight) -> SegmentPath {
    let policies = format!("controller=new-reno, start=standard, pacing=off, {policies}").parse().unwrap();
    let profile = Profile { initial_window: InitialWindow::Datagrams(20), flight, ..Profile::TCP };
    SegmentPath::new(&Config { policies, profile, trace: true, ..Config::default() }, at(0), 1_000)
}

fn fill(path: &mut SegmentPath, now: Instant, segments: &mut Vec<SegmentRecord>) {
    while let Budget::Now(_) = path.budget(now) {
        let next = (segments.len() as u64 + 1) * u64::from(SEGMENT);
        segments.push(path.on_sent(now, SEGMENT, next, true));
    }
}

#[test]
fn rfc6675_5_an_episode_lasts_until_the_recovery_point_is_acknowledged() {
    let (mut path, mut segments) = (twenty("reduction=immediate", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    assert_eq!(segments.len(), 20);
    for segment in &segments[1..4] {
        path.on_delivered(at(100), segment, 0);
    }
    path.on_lost(at(100), &mut segments[0], 0, LossTrigger::PacketThreshold);
    path.finish(at(100));
    assert!(path.is_in_episode());
    assert_eq!((path.path().window(), path.path().ssthresh()), (10_000, Some(10_000)));
    // The repair is acknowledged, but not all that was sent before it; another loss is of the same episode.
    let repair = path.on_sent(at(100), SEGMENT, 20_000, true);
    path.on_cumulative_ack(4_000);
    path.on_delivered(at(200), &repair, 0);
    path.on_lost(at(200), &mut segments[4], 4, LossTrigger::PacketThreshold);
    path.finish(at(200));
    assert!(path.is_in_episode());
    assert_eq!(path.path().stats().congestion_events, 1);
    assert_eq!(path.path().state(), State::Recovery);
    let repair = path.on_sent(at(200), SEGMENT, 20_000, true);
    path.on_cumulative_ack(20_000);
    path.on_delivered(at(300), &repair, 0);
    segments[5..].iter().for_each(|segment| path.on_delivered(at(300), segment, 0));
    path.finish(at(300));
    assert!(!path.is_in_episode());
    assert_eq!(path.path().bytes_in_flight(), 0);
    assert_eq!(path.path().window(), 2_000, "in flight and one segment (RFC 6582 section 3.2)");
    assert_eq!(path.path().state(), State::SlowStart);
    assert_eq!((path.path().repair_stats().episodes_ended, path.path().repair_stats().ended_in_slow_start), (1, 1));
}

/// Twenty in flight, of which the first `lost` are declared lost and repaired; the other ones have been SACKed.
fn repaired(path: &mut SegmentPath, lost: usize) -> (Vec<SegmentRecord>, Vec<SegmentRecord>) {
    let mut segments = Vec::new();
    fill(path, at(0), &mut segments);
    segments[lost..].iter().for_each(|segment| path.on_delivered(at(100), segment, 0));
    for (number, segment) in segments[..lost].iter_mut().enumerate() {
        path.on_lost(at(100), segment, number as u64, LossTrigger::PacketThreshold);
    }
    path.finish(at(100));
    let repairs = (0..lost).map(|_| path.on_sent(at(100), SEGMENT, 20_000, true)).collect();
    (segments, repairs)
}

#[test]
fn rfc5681_4_3_the_loss_of_a_retransmission_lowers_window_and_threshold_a_second_time() {
    let mut path = twenty("reduction=prr", Flight::Window);
    let (_, mut repairs) = repaired(&mut path, 6);
    assert_eq!((path.path().stats().congestion_events, path.path().ssthresh()), (1, Some(10_000)));
    // Nothing of it depends on the clock: the repairs left at the very instant at which the reduction began.
    path.on_delivered(at(200), &repairs[3], 0);
    for repair in &mut repairs[..2] {
        path.on_lost(at(200), repair, 0, LossTrigger::PacketThreshold);
    }
    path.finish(at(200));
    assert_eq!((path.path().stats().congestion_events, path.path().ssthresh()), (2, Some(5_000)));
    // What was sent before the second reduction is answered by it, later repairs by none.
    let mut again: Vec<SegmentRecord> = (0..2).map(|_| path.on_sent(at(200), SEGMENT, 20_000, true)).collect();
    path.on_lost(at(210), &mut repairs[2], 2, LossTrigger::PacketThreshold);
    path.finish(at(210));
    assert_eq!(path.path().ssthresh(), Some(5_000));
    path.on_lost(at(300), &mut again[0], 0, LossTrigger::PacketThreshold);
    path.finish(at(300));
    assert_eq!((path.path().stats().congestion_events, path.path().ssthresh()), (3, Some(2_500)));
}

#[test]
fn rfc5681_4_3_losses_in_two_successive_windows_lower_the_window_twice() {
    let mut path = twenty("reduction=prr", Flight::Window);
    let (_, repairs) = repaired(&mut path, 6);
    let mut new: Vec<SegmentRecord> = (21..=24).map(|n| path.on_sent(at(110), SEGMENT, n * 1_000, true)).collect();
    path.on_lost(at(210), &mut new[0], 20, LossTrigger::PacketThreshold);
    path.finish(at(210));
    assert_eq!((path.path().stats().congestion_events, path.path().ssthresh()), (2, Some(5_000)));
    // The episode now lasts until what was sent before the second reduction is acknowledged.
    path.on_cumulative_ack(20_000);
    repairs.iter().for_each(|repair| path.on_delivered(at(220), repair, 0));
    path.finish(at(220));
    assert!(path.is_in_episode());
    path.on_cumulative_ack(24_000);
    path.finish(at(330));
    assert!(!path.is_in_episode());
}

#[test]
fn a_second_reduction_that_proves_spurious_leaves_the_first_in_force() {
    let mut path = twenty("reduction=prr", Flight::Window);
    let (mut segments, repairs) = repaired(&mut path, 6);
    let mut new = path.on_sent(at(110), SEGMENT, 21_000, true);
    path.on_lost(at(210), &mut new, 20, LossTrigger::PacketThreshold);
    path.finish(at(210));
    assert_eq!(path.path().ssthresh(), Some(5_000));
    path.on_late(at(215), &new);
    path.finish(at(215));
    assert_eq!((path.path().stats().undos, path.path().ssthresh()), (1, Some(10_000)));
    assert!(path.is_in_episode());
    assert_eq!(path.path().state(), State::Recovery);
    // Another loss of the first flight belongs to the first reduction, one of what was sent since then does not.
    path.on_lost(at(220), &mut segments[7], 7, LossTrigger::PacketThreshold);
    path.finish(at(220));
    assert_eq!(path.path().stats().congestion_events, 2);
    path.on_cumulative_ack(20_000);
    repairs.iter().for_each(|repair| path.on_delivered(at(230), repair, 0));
    path.finish(at(230));
    assert!(!path.is_in_episode());
}

#[test]
fn rfc5681_3_1_a_timeout_leaves_one_segment_of_window_and_half_of_the_threshold() {
    let (mut path, mut segments) = (twenty("reduction=prr", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    for now in [at(1_000), at(3_000)] {
        path.on_timeout(now);
        for (number, segment) in segments.iter_mut().enumerate() {
            path.on_lost(now, segment, number as u64, LossTrigger::Timeout);
        }
        path.finish(now);
        assert_eq!((path.path().window(), path.path().ssthresh()), (1_000, Some(10_000)));
        assert_eq!(path.path().bytes_in_flight(), 0);
        segments = vec![path.on_sent(now, SEGMENT, 20_000, true)];
    }
    assert_eq!(path.timeouts(), 2);
    assert_eq!(path.backed_off(Duration::from_secs(1), Duration::from_secs(60)), Duration::from_secs(4));
    // Slow start from one segment.
    path.on_cumulative_ack(1_000);
    path.on_delivered(at(3_100), &segments[0], 0);
    path.finish(at(3_100));
    assert_eq!((path.path().window(), path.timeouts()), (2_000, 0));
    assert_eq!(path.path().stats().congestion_events, 1);
    assert_eq!(path.path().repair_stats().timeouts, 2);
}

#[test]
fn rfc5681_4_3_a_timeout_that_finds_a_retransmission_lost_lowers_the_threshold_a_second_time() {
    for (repairs_sent, threshold) in [(true, 5_000), (false, 10_000)] {
        let (mut path, mut segments) = (twenty("reduction=prr", Flight::Window), Vec::new());
        fill(&mut path, at(0), &mut segments);
        segments[10..].iter().for_each(|segment| path.on_delivered(at(100), segment, 0));
        path.on_lost(at(100), &mut segments[0], 0, LossTrigger::PacketThreshold);
        path.finish(at(100));
        let mut repair = repairs_sent.then(|| path.on_sent(at(100), SEGMENT, 20_000, true));
        path.on_timeout(at(1_000));
        for segment in segments[1..10].iter_mut().chain(&mut repair) {
            path.on_lost(at(1_000), segment, 0, LossTrigger::Timeout);
        }
        path.finish(at(1_000));
        assert_eq!((path.path().window(), path.path().ssthresh()), (1_000, Some(threshold)), "{repairs_sent}");
        // The timer's own retransmission is lost, too: no third time.
        let mut again = path.on_sent(at(1_000), SEGMENT, 20_000, true);
        path.on_timeout(at(3_000));
        path.on_lost(at(3_000), &mut again, 0, LossTrigger::Timeout);
        path.finish(at(3_000));
        assert_eq!((path.path().window(), path.path().ssthresh()), (1_000, Some(threshold)), "{repairs_sent}");
    }
}

#[test]
fn rfc6298_3_a_repeated_segment_gives_no_sample() {
    let mut path = twenty("", Flight::Window);
    let segment = path.on_sent(at(0), SEGMENT, 1_000, true);
    path.on_cumulative_ack(1_000);
    path.on_delivered(at(100), &segment, 0);
    path.on_rtt_sample(at(100), segment.sent(), true, Duration::ZERO);
    path.finish(at(100));
    assert!(!path.path().rtt().has_sample);
    path.on_rtt_sample(at(100), segment.sent(), false, Duration::ZERO);
    path.finish(at(100));
    assert_eq!(path.path().rtt().latest, Duration::from_millis(100));
}

#[test]
fn rfc2883_repeats_that_were_needless_take_the_whole_episode_back() {
    let (mut path, mut segments) = (twenty("reduction=prr", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    segments[2..5].iter().for_each(|segment| path.on_delivered(at(100), segment, 0));
    for number in [0, 1] {
        path.on_lost(at(100), &mut segments[number], number as u64, LossTrigger::PacketThreshold);
    }
    path.finish(at(100));
    assert_eq!(path.path().ssthresh(), Some(10_000));
    // One turns up before it is repeated, the other was repeated for nothing.
    path.on_cumulative_ack(1_000);
    path.on_late(at(110), &segments[0]);
    path.finish(at(110));
    assert_eq!(path.path().stats().undos, 0);
    path.on_needless_repeat(at(200), &segments[1]);
    path.finish(at(200));
    assert_eq!(path.path().stats().undos, 1);
    assert!(path.path().window() >= 20_000 && !path.is_in_episode());
}

#[test]
fn a_mark_is_responded_to_once_per_episode() {
    let (mut path, mut segments) = (twenty("reduction=immediate", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    for number in 0..3 {
        path.on_cumulative_ack(u64::from(SEGMENT) * (number + 1));
        path.on_delivered(at(100), &segments[number as usize], 0);
        path.on_ecn_echo(at(100));
        path.finish(at(100));
    }
    assert_eq!(path.path().stats().ecn_events, 1);
    assert_eq!(path.path().window(), 10_000);
}

#[test]
fn an_ack_says_what_it_did() {
    let (mut path, mut segments) = (twenty("reduction=immediate", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    path.on_cumulative_ack(2_000);
    segments[..2].iter().for_each(|segment| path.on_delivered(at(100), segment, 0));
    path.on_rtt_sample(at(100), at(0), false, Duration::ZERO);
    path.on_ecn_echo(at(100));
    assert_eq!(path.acked(), 2);
    let outcome = path.finish(at(100));
    let rtt_sample = Some(Duration::from_millis(100));
    assert_eq!(outcome, SegmentOutcome { acked: 2, rtt_sample, congestion: Some(CongestionCause::Ecn) });
    assert_eq!(path.finish(at(100)), SegmentOutcome::default());
    // A mark of the same episode calls for nothing.
    path.on_delivered(at(110), &segments[2], 0);
    path.on_ecn_echo(at(110));
    assert_eq!(path.finish(at(110)), SegmentOutcome { acked: 1, ..SegmentOutcome::default() });
}

#[test]
fn dup_acks_do_not_open_the_window_and_cumulative_ones_do() {
    let (mut path, mut segments) = (twenty("", Flight::Window), Vec::new());
    fill(&mut path, at(0), &mut segments);
    path.on_delivered(at(100), &segments[1], 0);
    path.finish(at(100));
    assert_eq!(path.path().window(), 20_000);
    path.on_cumulative_ack(2_000);
    path.on_delivered(at(101), &segments[0], 0);
    path.finish(at(101));
    assert_eq!(path.path().window(), 21_000, "what this ACK delivered");
}

#[test]
fn only_policies_that_work_by_time_lose_segments_by_time() {
    for (policy, expected) in
        [("fixed", Judgement::NotBefore(None)), ("time-only", Judgement::Lost(LossTrigger::TimeThreshold))]
    {
        let mut path = twenty(&format!("reordering={policy}"), Flight::Window);
        let segment = path.on_sent(at(0), SEGMENT, 1_000, true);
        assert_eq!(path.judge(at(5_000), &segment, 1, 20), expected, "{policy}");
    }
    let mut path = twenty("reordering=fixed", Flight::Window);
    let segment = path.on_sent(at(0), SEGMENT, 1_000, true);
    assert_eq!(path.judge(at(5), &segment, 3, 20), Judgement::Lost(LossTrigger::PacketThreshold));
}

/// A path of Linux's TCP: twenty segments of window, pacing off.
fn linux() -> SegmentPath {
    let policies = "controller=new-reno, start=standard, pacing=off, reduction=prr, mark=reduce".parse().unwrap();
    let initial_window = InitialWindow::Datagrams(20);
    let profile = Profile { initial_window, reduces_once: true, whole_windows: true, ..Profile::TCP };
    SegmentPath::new(&Config { policies, profile, trace: true, ..Config::default() }, at(0), 1_000)
}

#[test]
fn in_linux_an_episode_of_a_mark_ends_where_it_began_to_though_something_is_lost() {
    let (mut path, mut segments) = (linux(), Vec::new());
    fill(&mut path, at(0), &mut segments);
    path.on_cumulative_ack(1_000);
    path.on_delivered(at(100), &segments[0], 0);
    path.on_ecn_echo(at(100));
    path.finish(at(100));
    assert_eq!((path.path().ssthresh(), path.is_in_episode()), (Some(10_000), true));
    // Sent after the mark: a loss of the same episode, but beyond its end.
    let mut new = path.on_sent(at(100), SEGMENT, 21_000, true);
    path.on_lost(at(110), &mut segments[1], 1, LossTrigger::PacketThreshold);
    path.finish(at(110));
    assert_eq!(path.path().stats().congestion_events, 1);
    let repair = path.on_sent(at(110), SEGMENT, 21_000, true);
    path.on_cumulative_ack(20_000);
    path.on_delivered(at(210), &repair, 0);
    segments[2..].iter().for_each(|segment| path.on_delivered(at(210), segment, 0));
    path.finish(at(210));
    assert!(!path.is_in_episode());
    path.on_lost(at(220), &mut new, 20, LossTrigger::PacketThreshold);
    path.finish(at(220));
    assert_eq!((path.path().stats().congestion_events, path.path().ssthresh()), (2, Some(5_000)));
}

#[test]
fn in_linux_windows_are_whole_segments_and_the_ack_that_ends_an_episode_opens_them() {
    let (mut path, mut segments) = (linux(), Vec::new());
    // Slow start opens the window to 21, of which half is ten and a half.
    fill(&mut path, at(0), &mut segments);
    path.on_cumulative_ack(1_000);
    path.on_delivered(at(100), &segments[0], 0);
    path.finish(at(100));
    assert_eq!(path.path().window(), 21_000);
    path.on_lost(at(100), &mut segments[1], 1, LossTrigger::PacketThreshold);
    path.finish(at(100));
    assert_eq!(path.path().ssthresh(), Some(10_000));
    let repair = path.on_sent(at(100), SEGMENT, 20_000, true);
    segments[2..11].iter().for_each(|segment| path.on_delivered(at(110), segment, 0));
    path.finish(at(110));
    // Nine more in one ACK with the repair: ten datagrams, a window, are acknowledged as the episode ends.
    path.on_cumulative_ack(20_000);
    path.on_delivered(at(200), &repair, 0);
    segments[11..].iter().for_each(|segment| path.on_delivered(at(200), segment, 0));
    path.finish(at(200));
    assert!(!path.is_in_episode());
    assert_eq!(path.path().window(), 11_000);
}
