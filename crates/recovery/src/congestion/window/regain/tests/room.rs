//! When a path has room, and how the window goes up in it.

use super::*;

/// Reduced from a megabyte of which four tenths were in a queue, which has not been in use since.
fn after_a_queue() -> Regain {
    let mut regain = regain(1_000);
    round(&mut regain, &[166]);
    assert_eq!(regain.reduce(queued(1_000_000, 166), Signal::Loss), 700_000);
    assert_eq!(regain.carried, Some(602_409));
    regain.waits = Waits::new();
    regain
}

/// A round trip at this window, in which the smallest sample is this; the gain that the next one has for it.
fn gain_after(regain: &mut Regain, window: u64, latest_ms: u64) -> Option<u64> {
    let mut scene = path();
    for is_first in [true, false] {
        let event = scene.ack(0, Some(ms(latest_ms)), is_first);
        regain.observe(view(window, latest_ms), &event, false);
    }
    regain.room.gain
}

#[test]
fn there_is_room_if_three_eighths_more_are_on_the_way_and_two_round_trips_show_no_queue() {
    for (window, samples, has_room) in [
        (830_000, [100, 100, 100], true),
        (830_000, [104, 104, 100], true),
        (830_000, [105, 100, 100], false),
        (830_000, [100, 105, 100], false),
        (820_000, [100, 100, 100], false),
    ] {
        let mut regain = after_a_queue();
        // The gain of a round trip is set at its beginning, by those before.
        let gains = samples.map(|latest| gain_after(&mut regain, window, latest));
        assert_eq!(gains, [None, None, has_room.then_some(2)], "{window} {samples:?}");
    }
}

#[test]
fn after_a_start_that_losses_have_ended_there_is_room_if_two_round_trips_show_no_queue() {
    for (samples, has_room) in [([100, 100, 100], true), ([105, 100, 100], false), ([100, 105, 100], false)] {
        let starts = [
            |regain: &mut Regain| regain.reduce(view(1_000_000, 100), Signal::Loss),
            |regain: &mut Regain| {
                regain.on_start_exit(view(700_000, 100));
                700_000
            },
        ];
        for end in starts {
            let mut regain = Regain::new(Box::new(Cubic::default()));
            let window = end(&mut regain);
            regain.on_congested_start(window);
            let gains = samples.map(|latest| gain_after(&mut regain, 700_000, latest));
            assert_eq!(gains, [None, None, has_room.then_some(2)], "{samples:?}");
        }
    }
    let mut regain = Regain::new(Box::new(Cubic::default()));
    regain.reduce(view(1_000_000, 100), Signal::Mark);
    regain.on_congested_start(700_000);
    assert_eq!([100; 5].map(|latest| gain_after(&mut regain, 700_000, latest)), [None; 5], "a mark is of a queue");
}

#[test]
fn no_start_and_no_recovery_has_room() {
    let mut regain = Regain::new(Box::new(Cubic::default()));
    for _ in 0..5 {
        assert_eq!(gain_after(&mut regain, 1_000_000, 100), None, "nothing is known of the path yet");
    }
    let mut regain = after_a_queue();
    let mut scene = Scene::new();
    for _ in 0..5 {
        let event = scene.ack(0, Some(ms(100)), true);
        regain.observe(view(900_000, 100), &event, true);
    }
    assert_eq!(regain.room.gain, None);
}

#[test]
fn in_room_the_window_grows_by_an_eighth_a_quarter_and_then_by_halves() {
    let mut regain = after_a_queue();
    let mut gains = Vec::new();
    for _ in 0..6 {
        gains.push(gain_after(&mut regain, 900_000, 100));
    }
    assert_eq!(gains, [None, None, Some(2), Some(4), Some(8), Some(8)]);
    assert_eq!(regain.grow(view(900_000, 100), 80_000), 940_000);
    let mut scene = path();
    regain.observe(view(900_000, 105), &scene.ack(80_000, Some(ms(105)), false), false);
    assert!(regain.grow(view(900_000, 105), 80_000) < 901_000, "as CUBIC while a sample shows a queue");
}

#[test]
fn room_ends_with_the_first_round_trip_that_has_a_queue_and_cubic_begins_anew_there() {
    let mut regain = after_a_queue();
    for _ in 0..4 {
        gain_after(&mut regain, 900_000, 100);
    }
    gain_after(&mut regain, 1_500_000, 120);
    assert_eq!(gain_after(&mut regain, 1_500_000, 120), None);
    assert_eq!(regain.carried, Some(1_500_000));
    let mut cubic = Cubic::default();
    cubic.on_start_exit(view(1_500_000, 120));
    let (mut grown, mut expected) = (1_500_000, 1_500_000);
    for _ in 0..20 {
        grown = regain.grow(view(grown, 120), 80_000);
        expected = cubic.grow(view(expected, 120), 80_000);
    }
    assert_eq!(grown, expected);
    assert!(grown > 1_500_000);
}

#[test]
fn room_ends_where_packets_wait_in_a_queue_too_short_for_a_sample() {
    let mut regain = after_a_queue();
    for _ in 0..4 {
        gain_after(&mut regain, 900_000, 100);
    }
    for room in [true, false] {
        assert_eq!(regain.room.gain.is_some(), room);
        for _ in 0..3 {
            round(&mut regain, &[100, 102]);
        }
    }
    assert!(regain.was_empty(view(1_000_000, 102)));
}

#[test]
fn what_is_not_in_use_has_no_room_and_a_pause_ends_it() {
    let mut regain = after_a_queue();
    let mut scene = path();
    for _ in 0..5 {
        let event = AckEvent { application_limited: true, ..scene.ack(0, Some(ms(100)), true) };
        regain.observe(view(900_000, 100), &event, false);
    }
    assert_eq!(regain.room.gain, None);
    for _ in 0..2 {
        gain_after(&mut regain, 900_000, 100);
    }
    assert!(regain.room.gain.is_some());
    regain.on_application_limited(at(0), true);
    assert_eq!(regain.room.gain, None);
}

#[test]
fn congestion_ends_room() {
    for signal in [Signal::Loss, Signal::Mark] {
        let mut regain = after_a_queue();
        for _ in 0..4 {
            gain_after(&mut regain, 900_000, 100);
        }
        assert!(regain.room.gain.is_some());
        regain.reduce(view(1_200_000, 100), signal);
        assert_eq!((regain.room.gain, regain.carried), (None, Some(1_200_000)));
    }
}
