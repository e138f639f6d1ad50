//! Windows that are not used: pauses, and flights that leave room (RFC 9002 sections 7.7 and 7.8, RFC 5681 section 4.1,
//! RFC 2861, draft-ietf-ccwg-ratelimited-increase-10).

use super::*;

const INITIAL: u64 = 10 * DATAGRAM;

/// Fills the window and has all of it acknowledged, `rounds` times, 100 ms each; nothing is in flight afterwards.
fn full_rounds(stage: &mut Stage, rounds: u32) {
    for _ in 0..rounds {
        let first = stage.next[SpaceId::DATA.index()];
        let count = stage.fill();
        stage.wait(100);
        stage.ack(first..=first + count - 1);
    }
}

/// The same with flights of `count` packets, after each of which the transport has nothing more to send.
fn short_rounds(stage: &mut Stage, counts: &[u64]) -> Vec<u64> {
    let round = |count: &u64| {
        let first = stage.next[SpaceId::DATA.index()];
        stage.send(*count);
        stage.recovery.on_app_limited(stage.path);
        stage.wait(100);
        for number in first..first + count {
            stage.ack(number..=number);
        }
        stage.window() / DATAGRAM
    };
    counts.iter().map(round).collect()
}

/// How long nothing may be in flight before the window is in doubt.
fn timeout(stage: &Stage) -> u64 {
    stage.path().rtt().probe_base().as_millis() as u64
}

#[test]
fn rfc5681_4_1_what_a_pause_leaves_of_the_window() {
    for (policy, pause, expected) in [
        ("keep", 100, |window: u64| window),
        ("decay", 1, |window| window / 2),
        ("decay", 2, |window| window / 4),
        ("decay", 100, |_| INITIAL),
        ("initial", 1, |_| INITIAL),
        ("initial", 100, |_| INITIAL),
    ] as [(&str, u64, fn(u64) -> u64); 6]
    {
        let mut stage = Stage::sampled(&format!("start=standard, restart={policy}"));
        full_rounds(&mut stage, 4);
        let window = stage.window();
        assert!(window >= 100 * DATAGRAM, "{window}");
        stage.wait(timeout(&stage) * pause + 5);
        stage.send(1);
        assert_eq!(stage.window(), expected(window), "{policy}, {pause} timeouts");
    }
}

#[test]
fn a_pause_of_less_than_a_probe_timeout_leaves_the_window() {
    for policy in ["keep", "decay", "initial"] {
        let mut stage = Stage::sampled(&format!("start=standard, restart={policy}"));
        full_rounds(&mut stage, 4);
        let window = stage.window();
        stage.wait(timeout(&stage) - 1);
        stage.send(1);
        assert_eq!(stage.window(), window, "{policy}");
    }
}

/// A window that was validated grows again as slow start does, up to three quarters of what it was, and then slowly.
#[test]
fn rfc2861_3_slow_start_leads_back_to_three_quarters_of_the_window() {
    for policy in ["decay", "initial"] {
        let mut stage = Stage::sampled(&format!("controller=new-reno, start=standard, restart={policy}"));
        full_rounds(&mut stage, 4);
        let window = stage.window();
        stage.wait(timeout(&stage) * 100);
        full_rounds(&mut stage, 2);
        assert!(stage.window() >= 3 * INITIAL, "{policy}: slow start");
        full_rounds(&mut stage, 8);
        let after = stage.window();
        assert!(after >= window / 4 * 3 && after <= window / 4 * 3 + 10 * DATAGRAM, "{policy}: {after} of {window}");
    }
}

/// What was reduced before the pause does not come back by it: the threshold never falls, and never exceeds the window.
#[test]
fn rfc2861_3_a_pause_after_a_reduction_keeps_the_threshold() {
    for policy in ["decay", "initial"] {
        let mut stage = Stage::sampled(&format!("controller=new-reno, start=standard, restart={policy}"));
        full_rounds(&mut stage, 4);
        let first = stage.next[SpaceId::DATA.index()];
        let count = stage.fill();
        stage.wait(100);
        stage.ack(first + 10..=first + count - 1);
        let (reduced, threshold) = (stage.window(), stage.path().ssthresh());
        assert_eq!(Some(reduced), threshold, "no recovery that goes on");
        stage.wait(timeout(&stage) * 100);
        stage.send(1);
        assert!(stage.window() < reduced);
        assert_eq!(stage.path().ssthresh(), threshold, "{policy}");
    }
}

/// Whatever the window is worth after a pause, it does not leave at once: no more than an initial window does, or two
/// milliseconds' worth of a fast path's rate, by which timers are late.
#[test]
fn rfc9002_7_7_after_a_pause_no_more_than_an_initial_window_leaves_at_once() {
    for policy in ["keep", "decay", "initial"] {
        let mut stage = Stage::sampled(&format!("start=standard, restart={policy}, pacing=on"));
        for _ in 0..40 {
            let first = stage.next[SpaceId::DATA.index()];
            let count = stage.fill();
            stage.wait(20);
            if count > 0 {
                stage.wait(80);
                stage.ack(first..=first + count - 1);
            }
        }
        stage.wait(10_000);
        let window = stage.window();
        assert!(window > 2 * INITIAL, "{policy}: {window}");
        let burst = stage.fill() * DATAGRAM;
        let rate = stage.path().pacing_rate().unwrap().bps();
        let most = INITIAL.max(rate / 8 / 500);
        assert!((2 * DATAGRAM..=most).contains(&burst), "{policy}: {burst} of {window}, at most {most}");
        assert!(most < window / 10);
    }
}

/// CUBIC's clock stands still in a pause (RFC 9438 section 5.8): the window does not jump to where it would be by now.
#[test]
fn rfc9438_5_8_time_without_use_of_the_window_does_not_count() {
    let grown = |pause: u64| {
        let mut stage = Stage::sampled("controller=cubic, start=standard");
        full_rounds(&mut stage, 4);
        let first = stage.next[SpaceId::DATA.index()];
        let count = stage.fill();
        stage.wait(100);
        stage.ack(first + 10..=first + count - 1);
        full_rounds(&mut stage, 3);
        stage.recovery.on_app_limited(stage.path);
        stage.wait(pause);
        full_rounds(&mut stage, 3);
        stage.window()
    };
    let (without, with) = (grown(0), grown(60_000));
    assert!(with <= without + DATAGRAM, "{with} instead of {without}");
}

/// The first example of the draft: a window of ten is full, and then four packets leave. Unconstrained it would be 24.
#[test]
fn ratelimited_increase_and_rfc9002_7_8_bound_a_small_flight_after_a_full_one() {
    for policy in ["unused", "flight"] {
        let mut stage = Stage::confirmed(&format!("start=standard, growth-limit={policy}"));
        assert_eq!(short_rounds(&mut stage, &[10, 4]), [20, 20], "{policy}");
    }
}

/// The appendix of the draft, in packets.
#[test]
fn ratelimited_increase_appendix_through_a_path() {
    let mut stage = Stage::confirmed("start=standard, growth-limit=flight");
    assert_eq!(short_rounds(&mut stage, &[4, 8, 4, 20]), [14, 20, 20, 40]);
    // RFC 9002 section 7.8 grows by full flights only, each by what it carried.
    let mut stage = Stage::confirmed("start=standard, growth-limit=unused");
    assert_eq!(short_rounds(&mut stage, &[4, 8, 4, 10]), [10, 10, 10, 20]);
}

/// Growth is not stuck: flights that almost fill the window still double it, and it ends at twice the largest.
#[test]
fn ratelimited_increase_flights_that_almost_fill_the_window_open_it() {
    let windows = |policy: &str| {
        let mut stage = Stage::confirmed(&format!("start=standard, growth-limit={policy}"));
        short_rounds(&mut stage, &[9; 20])
    };
    assert_eq!(windows("flight").last(), Some(&20));
    assert_eq!(windows("unused").last(), Some(&10));
}

#[test]
fn ratelimited_increase_a_reduction_starts_over_from_the_flight() {
    let mut stage = Stage::sampled("controller=new-reno, start=standard, growth-limit=flight");
    full_rounds(&mut stage, 4);
    let first = stage.next[SpaceId::DATA.index()];
    let count = stage.fill();
    stage.wait(100);
    stage.ack(first + 10..=first + count - 1);
    let reduced = stage.window() / DATAGRAM;
    let windows = short_rounds(&mut stage, &[4; 50]);
    assert!(windows.iter().all(|window| *window == reduced), "{windows:?}: no flight fills a part of {reduced}");
}
