use thalweg_units::Ecn;

use super::*;
use crate::Streams;
use crate::queue::testing::Bench;

fn state(red: Red) -> State {
    State::new(&red, Instant::ZERO)
}

fn packets(state: &State) -> f64 {
    state.average as f64 / (1u64 << POINT) as f64
}

/// The average after arrival n has seen n packets, for some n.
fn averages(weight: f64) -> Vec<f64> {
    let mut state = state(Red { weight, ..Red::default() });
    let mut found = Vec::new();
    for n in 0..300 {
        state.sample(Instant::ZERO, n);
        if [9, 49, 99, 199, 299].contains(&n) {
            found.push(packets(&state));
        }
    }
    found
}

#[test]
fn the_average_follows_the_queue_by_its_weight() {
    for (weight, expected) in
        [(0.002, [0.0895, 2.3734, 9.2834, 35.0258, 74.241]), (0.02, [0.8536, 18.2085, 56.631, 150.8794, 250.1166])]
    {
        let found = averages(weight);
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4), "{found:?}");
    }
}

/// A state whose average is this many packets.
fn at(red: Red, average: f64) -> State {
    State { average: (average * (1u64 << POINT) as f64) as u64, ..state(red) }
}

#[test]
fn the_probability_rises_between_the_thresholds_and_gently_on() {
    let gentle = |average| to_share(at(Red::default(), average).by_average());
    for (average, expected) in
        [(4.0, 0.0), (7.5, 0.005), (10.0, 0.01), (15.0, 0.02), (20.0, 0.346667), (25.0, 0.673333), (30.0, 1.0)]
    {
        assert!((gentle(average) - expected).abs() < 1e-6, "{average}: {}", gentle(average));
    }
    let abrupt = |average| to_share(at(Red { gentle: false, ..Red::default() }, average).by_average());
    assert!(abrupt(14.999) < 0.02 && abrupt(15.0) == 1.0);
    let nonlinear = |average| to_share(at(Red { nonlinear: true, ..Red::default() }, average).by_average());
    // 1.5 × 0.5² of max_p; all of it is reached before the maximum.
    assert!((nonlinear(10.0) - 0.0075).abs() < 1e-9 && (nonlinear(14.0) - 0.02).abs() < 1e-9);
}

#[test]
fn signals_are_spaced() {
    let spaced = |wait, since| to_share(state(Red { wait, ..Red::default() }).spaced(ratio(1, 100), since));
    for (wait, since, expected) in [
        (false, 50, 0.02),
        (false, 90, 0.1),
        (false, 98, 0.5),
        (false, 99, 1.0),
        (false, 1000, 1.0),
        (true, 99, 0.0),
        (true, 101, 0.010101),
        (true, 150, 0.02),
        (true, 190, 0.1),
        (true, 199, 1.0),
        (true, 200, 1.0),
    ] {
        assert!((spaced(wait, since) - expected).abs() < 1e-6, "{wait} {since}: {}", spaced(wait, since));
    }
    assert!((to_share(state(Red::default()).spaced(ONE / 128, 128)) - 1.0 / 128.0).abs() < 1e-15);
}

#[test]
fn an_idle_link_forgets_as_many_packets_as_it_could_have_sent() {
    let mut state = at(Red::default(), 20.0);
    state.set_rate("12 Mbps".parse().unwrap());
    state.idle_since = Some(Instant::ZERO);
    // A hundred packets of a millisecond each; the weight of the sample itself is taken off again.
    state.sample(Instant::from_nanos(100_900_000), 0);
    assert!((packets(&state) / 0.998 - 16.3713).abs() < 1e-4, "{}", packets(&state));
    assert_eq!(state.idle_since, None);
}

#[test]
fn distances_between_signals_are_even_where_they_wait() {
    let distances = |wait| {
        let mut state = at(Red { wait, ..Red::default() }, 10.0);
        let (mut dice, mut last, mut distances) = (Streams::new(1).dice("queue"), 0u64, Vec::new());
        for packet in 1..200_000u64 {
            if state.judge(&mut dice, 1500) == Admission::Signal {
                distances.push(packet - last);
                last = packet;
            }
        }
        distances
    };
    // A probability of 1 %: uniform up to 100, or from 100 to 200.
    for (wait, least, most) in [(false, 1, 101), (true, 99, 201)] {
        let found = distances(wait);
        let mean = found.iter().sum::<u64>() as f64 / found.len() as f64;
        let middle = (least + most) as f64 / 2.0;
        assert!(found.iter().skip(1).all(|distance| (least..=most).contains(distance)), "{wait}: {found:?}");
        // Five deviations of a mean: 29 / √(200,000 / mean).
        assert!((mean - middle).abs() < 5.0 * 29.0 / (200_000.0 / middle).sqrt() + 1.0, "{wait}: {mean}");
    }
}

#[test]
fn max_p_adapts_to_keep_the_average_in_the_middle() {
    let adapted = |average, max_p| {
        let mut state = at(Red { max_p, ..Red::default() }, average);
        state.adapt();
        to_share(state.max_p)
    };
    for (average, max_p, expected) in [
        (8.9, 0.02, 0.018),
        (10.0, 0.02, 0.02),
        (11.1, 0.02, 0.025),
        (20.0, 0.2, 0.21),
        (20.0, 0.6, 0.6),
        (3.0, 0.0099, 0.0099),
    ] {
        assert!((adapted(average, max_p) - expected).abs() < 1e-9, "{average}, {max_p}: {}", adapted(average, max_p));
    }
    let mut state = at(Red { adapt: Adaptation::Feng, max_p: 0.06, ..Red::default() }, 4.0);
    let mut crossing = |average: f64| {
        state.average = (average * (1u64 << POINT) as f64) as u64;
        state.cross();
        (to_share(state.max_p) * 1e6).round() / 1e6
    };
    let found = [4.0, 3.0, 10.0, 16.0, 40.0, 10.0, 16.0].map(&mut crossing);
    assert_eq!(found, [0.02, 0.02, 0.02, 0.04, 0.04, 0.04, 0.08], "once per crossing");
}

#[test]
fn a_target_sets_the_thresholds_by_the_rate() {
    let mut state = state(Red { target: Some(Duration::from_millis(5)), ..Red::default() });
    state.set_rate("10 Mbps".parse().unwrap());
    assert_eq!((state.min >> POINT, state.max >> POINT), (5, 15), "five packets at least");
    state.set_rate("120 Mbps".parse().unwrap());
    assert_eq!((state.min >> POINT, state.max >> POINT), (25, 75));
    // 10,000 packets per second: 1 - exp(-1/10,000).
    assert!((to_share(state.weight) - 9.9995e-5).abs() < 1e-9);
}

#[test]
fn bytes_count_instead_of_packets() {
    let signaled = |bytes, size: u32| {
        // The same number of packets; the average is in bytes if these count.
        let red = Red { bytes, wait: false, max_p: 0.1, ..Red::default() };
        let average = if bytes { 10.0 * 1500.0 } else { 10.0 };
        let (mut state, mut dice) = (at(red, average), Streams::new(1).dice("queue"));
        (0..100_000).filter(|_| state.judge(&mut dice, size) == Admission::Signal).count()
    };
    let (full, half) = (signaled(true, 1500), signaled(true, 750));
    assert!((full as f64 / half as f64 - 2.0).abs() < 0.1, "{full} {half}");
    assert_eq!(signaled(false, 1500), signaled(false, 750));
}

#[test]
fn marks_are_drops_where_the_probability_is_one() {
    let dropped = |red: Red, ecn| {
        let mut bench = Bench::new(&red, "12 Mbps", "unlimited");
        bench.burst(200, ecn);
        bench.drops.len()
    };
    let harsh = Red { weight: 1.0, ..Red::default() };
    let (hard, soft) =
        (dropped(harsh.clone(), Ecn::Ect0), dropped(Red { hard_drop: false, ..harsh.clone() }, Ecn::Ect0));
    assert!(hard > 100 && soft == 0, "{hard} {soft}");
    assert!(dropped(harsh.clone(), Ecn::NotEct) >= hard);
    assert!(dropped(Red { ecn: false, ..harsh }, Ecn::Ect0) >= hard);
}

#[test]
fn hred_answers_a_slow_start_that_red_does_not() {
    // As in slow start, where two packets arrive for each that leaves.
    let first_drop = |kind: &Red| {
        let mut bench = Bench::new(kind, "12 Mbps", "unlimited");
        for n in 0..2000 {
            bench.push(500 * n, 1500, Ecn::NotEct);
            bench.serve(500 * n);
        }
        bench.drops[0].at.as_nanos() / 1_000_000
    };
    let (red, hred) = (first_drop(&Red::default()), first_drop(&Hred::default().0));
    assert!(hred < 60 && red > 2 * hred, "{red} ms, {hred} ms");
}
