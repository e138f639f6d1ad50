//! Cuback against numbers computed from the draft's formulas, and against CUBIC, whose curves it inverts.

use super::*;
use crate::congestion::window::cubic::Cubic;
use crate::testing::{at, ms};

/// A datagram of 1000 bytes makes bytes read as thousandths of a segment.
const DATAGRAM: u64 = 1_000;
const ALPHA: (u64, u64) = Backoff::LOSS.alpha();

fn view(now: Instant, window: u64, rtt_ms: u64) -> View {
    View::new(now, window, DATAGRAM, ms(rtt_ms))
}

/// The epoch after a reduction from `w_max` segments, on a path of `rtt_ms`.
fn epoch(w_max: u64, rtt_ms: u64) -> Epoch {
    let plateau = w_max * DATAGRAM;
    let window = plateau * 7 / 10;
    Epoch { window, plateau, prior: plateau, rtt_micros: rtt_ms * 1_000, alpha: ALPHA, datagram: DATAGRAM }
}

/// A `Cuback` just reduced from `window` bytes, and the window that it has now.
fn reduced(window: u64, rtt_ms: u64) -> (Cuback, u64) {
    let mut cuback = Cuback::default();
    let reduced = cuback.reduce(view(Instant::ZERO, window, rtt_ms), Signal::Loss);
    (cuback, reduced)
}

#[test]
fn vectors_of_d() {
    // W_max in segments, round-trip time, and D in segments at six windows: from the draft's formulas in floating
    // point. In the first, third and fourth line some lie in the Reno-friendly region, and past W_max D is the window.
    type Row = (u64, u64, [(u64, f64); 6]);
    let table: [Row; 6] = [
        (10, 100, [(7, 13.222), (8, 15.111), (9, 17.0), (10, 10.0), (11, 11.0), (15, 15.0)]),
        (40, 100, [(28, 35.531), (32, 47.268), (38, 126.764), (40, 40.0), (44, 44.0), (60, 60.0)]),
        (100, 100, [(70, 47.388), (80, 62.453), (95, 166.36), (100, 671.17), (110, 110.0), (150, 33.114)]),
        (100, 10, [(70, 132.222), (80, 151.111), (95, 179.444), (100, 100.0), (110, 110.0), (150, 150.0)]),
        (
            1_000,
            100,
            [(700, 101.064), (800, 132.505), (950, 335.581), (1_000, 13_572.1), (1_100, 209.29), (1_500, 71.77)],
        ),
        (
            1_000,
            10,
            [(700, 1_010.64), (800, 1_325.05), (950, 1_794.44), (1_000, 1_000.0), (1_100, 1_100.0), (1_500, 1_500.0)],
        ),
    ];
    for (w_max, rtt, steps) in table {
        let epoch = epoch(w_max, rtt);
        for (window, expected) in steps {
            let step = epoch.step(window * DATAGRAM) as f64 / DATAGRAM as f64;
            assert!((step - expected).abs() < expected / 500.0, "D({window}) for {w_max}: {step}, not {expected}");
        }
    }
}

#[test]
fn in_the_reno_friendly_region_d_is_the_window_over_alpha_and_past_the_old_window_the_window() {
    let epoch = epoch(1_000, 1);
    for window in [700, 801, 999] {
        let expected = mul_div(window * DATAGRAM, ALPHA.1, ALPHA.0);
        assert!(epoch.step(window * DATAGRAM).abs_diff(expected) <= 2, "{window}");
    }
    for window in [1_000, 1_001, 1_700] {
        assert!(epoch.step(window * DATAGRAM).abs_diff(window * DATAGRAM) <= 2, "{window}");
    }
}

#[test]
fn the_window_never_grows_by_more_than_half_in_a_round_trip() {
    // So far past W_max that the curve would ask for less than a datagram.
    let epoch = epoch(1_000, 1_000);
    assert_eq!(epoch.step(100_000 * DATAGRAM), 2 * DATAGRAM);
    let (mut cuback, window) = reduced(100 * DATAGRAM, 3_000);
    let mut window = window;
    for _ in 0..20 {
        let grown = cuback.grow(view(at(0), window, 3_000), window);
        assert!(grown <= window * 3 / 2 + DATAGRAM, "{grown} after {window}");
        window = grown;
    }
    assert!(window > 20_000 * DATAGRAM, "nearly half as much again in most of twenty round trips: {window}");
}

#[test]
fn a_until_the_plateau_is_k_at_the_recorded_bandwidth() {
    let epoch = epoch(1_000, 100);
    let k = k_micros(epoch.plateau, epoch.window, DATAGRAM);
    assert_eq!(epoch.until(epoch.plateau), mul_div(k, epoch.prior, epoch.rtt_micros));
    assert_eq!(epoch.until(epoch.window), 0);
}

#[test]
fn a_never_falls_as_the_window_grows() {
    for (w_max, rtt) in [(4, 1), (10, 100), (100, 10), (1_000, 100), (20_000, 600)] {
        let epoch = epoch(w_max, rtt);
        let mut before = 0;
        for window in (epoch.window..3 * epoch.plateau).step_by((w_max * DATAGRAM / 50) as usize) {
            let now = epoch.until(window);
            assert!(now >= before, "{w_max} segments and {rtt} ms, at {window}");
            before = now;
        }
    }
}

#[test]
fn congestion_leaves_seven_tenths_and_records_the_bandwidth() {
    let (mut cuback, window) = reduced(100_000, 100);
    assert_eq!(window, 70_000);
    cuback.grow(view(at(0), window, 50), DATAGRAM);
    let epoch = cuback.epoch.unwrap();
    assert_eq!((epoch.prior, epoch.rtt_micros), (100_000, 100_000), "that of the congestion, not that of now");
}

#[test]
fn fast_convergence_lowers_the_plateau_and_leaves_the_turn_of_reno() {
    let (mut cuback, _) = reduced(100_000, 100);
    let window = cuback.reduce(view(at(0), 80_000, 100), Signal::Loss);
    cuback.grow(view(at(0), window, 100), DATAGRAM);
    let epoch = cuback.epoch.unwrap();
    assert_eq!((epoch.plateau, epoch.prior, epoch.window), (68_000, 80_000, 56_000));
    cuback.reduce(view(at(0), 90_000, 100), Signal::Loss);
    assert_eq!(cuback.w_max, Some(90_000), "beyond W_max: no reason to give way");
}

#[test]
fn without_a_congestion_the_epoch_begins_on_its_plateau() {
    for forget in [Cuback::on_persistent_congestion as fn(&mut Cuback), |cuback| {
        cuback.on_start_exit(view(at(0), 1, 100));
    }] {
        let (mut cuback, _) = reduced(1_000 * DATAGRAM, 100);
        forget(&mut cuback);
        cuback.grow(view(at(50), 200 * DATAGRAM, 100), DATAGRAM);
        let epoch = cuback.epoch.unwrap();
        assert_eq!((epoch.plateau, epoch.window, epoch.prior), (200_000, 200_000, 200_000));
    }
}

#[test]
fn growth_does_not_depend_on_how_many_packets_an_ack_covers() {
    for rtt in [10, 100] {
        let mut windows = Vec::new();
        for per_ack in [1, 4, 16] {
            let (mut cuback, mut window) = reduced(200 * DATAGRAM, rtt);
            for _ in 0..32_000 / per_ack {
                window = cuback.grow(view(at(0), window, rtt), per_ack * DATAGRAM);
            }
            windows.push(window);
        }
        assert!(windows.iter().all(|window| *window == windows[0]), "{windows:?}");
    }
}

#[test]
fn nothing_grows_while_nothing_is_acknowledged() {
    let (mut cuback, window) = reduced(1_000 * DATAGRAM, 100);
    cuback.grow(view(at(0), window, 100), DATAGRAM);
    let pending = cuback.pending;
    assert_eq!(cuback.grow(view(at(3_600_000), window, 100), DATAGRAM), window, "an hour of silence");
    assert_eq!(cuback.pending, pending + DATAGRAM);
}

/// On a path whose rate is what it was at the congestion, both climb the same curve.
#[test]
fn at_the_recorded_bandwidth_it_follows_cubic() {
    for (w_max, rtt) in [(100, 100), (400, 50), (1_000, 100), (2_000, 20)] {
        let (mut cuback, mut ours) = reduced(w_max * DATAGRAM, rtt);
        let mut cubic = Cubic::default();
        let mut theirs = cubic.reduce(view(at(0), w_max * DATAGRAM, rtt), Signal::Loss);
        // What is acknowledged is the rate of the link, whatever the windows.
        let per_ms = w_max * DATAGRAM / rtt;
        let mut widest = 0;
        for now in 0..15_000 {
            ours = ours.max(cuback.grow(view(at(now), ours, rtt), per_ms));
            theirs = theirs.max(cubic.grow(view(at(now), theirs, rtt), per_ms));
            widest = widest.max(ours.abs_diff(theirs) * 100 / theirs);
        }
        assert!(widest <= 12, "{w_max} segments and {rtt} ms: {widest} % apart");
    }
}

#[test]
fn a_flow_that_loses_share_climbs_more_slowly_than_one_that_gains_it() {
    let climb = |per_ms: u64| {
        let (mut cuback, mut window) = reduced(1_000 * DATAGRAM, 100);
        for now in 0..6_000 {
            window = cuback.grow(view(at(now), window, 100), per_ms);
        }
        window
    };
    // 10,000 bytes a millisecond were recorded.
    assert!(climb(5_000) < climb(10_000) && climb(10_000) < climb(15_000));
}

#[test]
fn a_window_that_something_else_has_moved_gets_a_step_of_its_own() {
    let (mut cuback, window) = reduced(1_000 * DATAGRAM, 100);
    cuback.grow(view(at(0), window, 100), DATAGRAM);
    let epoch = cuback.epoch.unwrap();
    cuback.pending = 0;
    let moved = 950 * DATAGRAM;
    let step = epoch.step(moved);
    assert_eq!(cuback.grow(view(at(0), moved, 100), step - 1), moved);
    assert_eq!(cuback.grow(view(at(0), moved, 100), 1), moved + DATAGRAM);
}

#[test]
fn two_teeth_last_as_many_round_trips_as_windows_are_acknowledged_on_the_way() {
    let (mut cuback, window) = reduced(1_000 * DATAGRAM, 100);
    assert_eq!(cuback.cycle(view(at(0), window, 100)), 0, "no epoch, no tooth");
    cuback.grow(view(at(0), window, 100), DATAGRAM);
    // K is 9.0856 s: 90.9 times the old window.
    assert_eq!(cuback.cycle(view(at(0), 1_000 * DATAGRAM, 100)), 180);
}

#[test]
fn no_window_and_no_round_trip_overflows() {
    for window in [0, 1, 2 * DATAGRAM, 1 << 32, 1 << 44] {
        for rtt in [0, 1, 600_000] {
            let (mut cuback, reduced) = reduced(window, rtt);
            let acked = reduced.min(100 * DATAGRAM);
            let grown = cuback.grow(view(at(0), reduced, rtt), acked);
            assert!(grown <= reduced + acked / 2 + DATAGRAM, "{window} bytes, {rtt} ms");
        }
    }
}
