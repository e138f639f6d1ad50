//! CUBIC against the numbers of RFC 9438 and of implementations that are known to follow it.

use super::*;
use crate::testing::{at, ms};

/// A datagram of 1000 bytes makes bytes read as thousandths of a segment.
const DATAGRAM: u64 = 1_000;

fn view(now: Instant, window: u64, rtt_ms: u64) -> View {
    View::new(now, window, DATAGRAM, ms(rtt_ms))
}

/// The epoch after a reduction from `w_max` segments.
fn epoch(w_max: u64) -> Epoch {
    let plateau = w_max * DATAGRAM;
    Epoch { start: Instant::ZERO, plateau, k_micros: k_micros(plateau, plateau * 7 / 10, DATAGRAM) }
}

/// A `Cubic` just reduced from `window` bytes at time zero, and the window that it has now.
fn reduced(window: u64) -> (Cubic, u64) {
    let mut cubic = Cubic::default();
    let reduced = cubic.reduce(view(Instant::ZERO, window, 100), Signal::Loss);
    (cubic, reduced)
}

#[test]
fn rfc9438_4_2_vectors_of_k_and_w() {
    // W_max in segments, K in seconds, W(0), W(1), W(2), W(5), W(10) in segments.
    let table: [(u64, f64, [f64; 5]); 5] = [
        (10, 1.9574, [7.0, 9.649, 10.000, 21.266, 218.087]),
        (40, 3.1072, [28.0, 36.257, 39.457, 42.712, 170.991]),
        (100, 4.2172, [70.0, 86.681, 95.640, 100.192, 177.354]),
        (1_000, 9.0856, [700.0, 788.555, 857.705, 972.721, 1_000.306]),
        (2_304, 12.0, [1_612.8, 1_771.6, 1_904.0, 2_166.8, 2_300.8]),
    ];
    for (w_max, k, windows) in table {
        let epoch = epoch(w_max);
        assert!((epoch.k_micros as f64 / 1e6 - k).abs() < 0.000_1, "K for {w_max}: {}", epoch.k_micros);
        for (second, expected) in [0, 1, 2, 5, 10].into_iter().zip(windows) {
            let window = epoch.at(second * 1_000_000, DATAGRAM) as f64 / DATAGRAM as f64;
            assert!((window - expected).abs() < 0.002, "W({second}) for {w_max}: {window} instead of {expected}");
        }
    }
    let s2n = epoch(2_304);
    assert_eq!(s2n.at(15_000_000, DATAGRAM) / 100, 23_148);
}

#[test]
fn rfc9438_4_2_k_is_exact_to_a_microsecond_however_large_the_window() {
    for w_max in [1, 10, 100_000, 10_000_000, 1_000_000_000] {
        let (w_max, window) = (w_max * DATAGRAM, w_max * DATAGRAM * 7 / 10);
        let k = u128::from(k_micros(w_max, window, DATAGRAM));
        let cube = u128::from(w_max - window) * 10 * MICROS_CUBED / (4 * u128::from(DATAGRAM));
        assert!(k.pow(3) <= cube && cube < (k + 1).pow(3));
    }
    // nginx's approximation is 0.76 s off here.
    let k = k_micros(100_000 * DATAGRAM, 70_000 * DATAGRAM, DATAGRAM);
    assert!(k.abs_diff(42_171_633) < 1_000, "{k}");
}

#[test]
fn rfc9438_4_6_congestion_leaves_seven_tenths() {
    assert_eq!(reduced(100_000).1, 70_000);
}

#[test]
fn rfc9438_4_7_fast_convergence_lowers_w_max_if_the_window_had_not_come_back() {
    let (mut cubic, _) = reduced(100_000);
    assert_eq!(cubic.w_max, Some(100_000));
    cubic.reduce(view(at(0), 80_000, 100), Signal::Loss);
    assert_eq!(cubic.w_max, Some(68_000), "0.85 of 80000");
    cubic.reduce(view(at(0), 90_000, 100), Signal::Loss);
    assert_eq!(cubic.w_max, Some(90_000), "beyond W_max: no reason to give way");
}

#[test]
fn n16_at_the_minimum_window_w_max_is_not_lowered_without_end() {
    let (mut cubic, _) = reduced(2 * DATAGRAM);
    for second in 0..100 {
        cubic.reduce(view(at(second * 1_000), 2 * DATAGRAM, 100), Signal::Loss);
        assert_eq!(cubic.w_max, Some(2 * DATAGRAM));
        let window = cubic.grow(view(at(second * 1_000), 2 * DATAGRAM, 100), DATAGRAM);
        assert!(window >= 2 * DATAGRAM);
        assert!(cubic.epoch.unwrap().k_micros < 10_000_000);
    }
}

#[test]
fn rfc9438_4_2_the_target_is_w_one_round_trip_ahead_but_no_more_than_half_above_the_window() {
    // One window acknowledged closes the whole distance to the target.
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    cubic.grow(view(at(0), window, 100), 0);
    let grown = cubic.grow(view(at(1_000), window, 100), window);
    assert_eq!(grown, epoch(1_000).at(1_100_000, DATAGRAM));
    // After a minute W is far beyond any sane window.
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    cubic.grow(view(at(0), window, 100), 0);
    let grown = cubic.grow(view(at(60_000), window, 100), window);
    assert_eq!(grown, window * 3 / 2);
}

#[test]
fn rfc9438_4_2_an_epoch_begins_with_the_first_growth_after_a_reduction() {
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    assert!(cubic.epoch.is_none());
    cubic.grow(view(at(300), window, 100), DATAGRAM);
    assert_eq!(cubic.epoch.unwrap().start, at(300));
}

#[test]
fn rfc9438_4_3_below_reno_the_window_is_reno_s() {
    // A short path: Reno gains more per second than the cubic function.
    let (mut cubic, mut window) = reduced(100 * DATAGRAM);
    let rtt = 5;
    for round in 0..20 {
        window = window.max(cubic.grow(view(at(round * rtt), window, rtt), window));
    }
    // Twenty round trips at 9/17 of a datagram, as every round acknowledges the window.
    let reno = 70 * DATAGRAM + 20 * DATAGRAM * 9 / 17;
    assert!(window.abs_diff(reno) <= 20, "{window} instead of {reno}");
}

#[test]
fn rfc9438_4_3_past_the_old_window_reno_s_increase_is_a_whole_datagram() {
    let (mut cubic, window) = reduced(10 * DATAGRAM);
    cubic.grow(view(at(0), window, 1), 0);
    cubic.reno = (10 * DATAGRAM) << FRACTION_BITS;
    assert_eq!(cubic.advance_reno(view(at(1), 10 * DATAGRAM, 1), 10 * DATAGRAM), 11 * DATAGRAM);
    cubic.reno = (9 * DATAGRAM) << FRACTION_BITS;
    assert_eq!(cubic.advance_reno(view(at(1), 10 * DATAGRAM, 1), 10 * DATAGRAM), 9 * DATAGRAM + 529);
}

#[test]
fn growth_does_not_depend_on_how_many_packets_an_ack_covers() {
    let after_ten_seconds = |per_ack: u64, rtt_ms: u64| {
        let (mut cubic, mut window) = reduced(200 * DATAGRAM);
        let (mut nanos, mut acked) = (0, 0);
        while nanos < 10_000_000_000 {
            acked += DATAGRAM;
            nanos += rtt_ms * 1_000_000 * DATAGRAM / window;
            if acked >= per_ack * DATAGRAM {
                window = window.max(cubic.grow(view(Instant::from_nanos(nanos), window, rtt_ms), acked));
                acked = 0;
            }
        }
        window
    };
    for rtt in [10, 100] {
        let each = after_ten_seconds(1, rtt);
        for per_ack in [2, 10, 40] {
            let other = after_ten_seconds(per_ack, rtt);
            assert!(each.abs_diff(other) * 50 < each, "RTT {rtt} ms: {each} at 1 per ACK, {other} at {per_ack}");
        }
    }
}

#[test]
fn rfc9438_5_8_application_limited_time_does_not_count() {
    let grow = |pause: bool| {
        let (mut cubic, window) = reduced(1_000 * DATAGRAM);
        cubic.grow(view(at(0), window, 100), 0);
        let mut end = 3_000;
        if pause {
            cubic.on_application_limited(at(1_000), true);
            cubic.on_application_limited(at(1_500), true);
            cubic.on_application_limited(at(61_000), false);
            cubic.on_application_limited(at(61_000), false);
            end += 60_000;
        }
        cubic.grow(view(at(end), window, 100), window)
    };
    assert_eq!(grow(true), grow(false));
}

#[test]
fn rfc9438_5_8_while_limited_t_stands_still() {
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    cubic.grow(view(at(0), window, 100), 0);
    cubic.on_application_limited(at(1_000), true);
    let epoch = cubic.epoch.unwrap();
    assert_eq!(cubic.elapsed_micros(epoch, at(1_000)), 1_000_000);
    assert_eq!(cubic.elapsed_micros(epoch, at(90_000)), 1_000_000);
}

#[test]
fn an_epoch_that_begins_while_limited_does_not_lose_its_time_twice() {
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    cubic.on_application_limited(at(1_000), true);
    cubic.grow(view(at(5_000), window, 100), DATAGRAM);
    cubic.on_application_limited(at(6_000), false);
    assert_eq!(cubic.epoch.unwrap().start, at(6_000));
}

/// The quiche trap: idle time that is added over and over must never push the epoch into the future.
#[test]
fn cubic_perpetual_recovery_trap() {
    let (mut cubic, mut window) = reduced(1_000 * DATAGRAM);
    cubic.grow(view(at(0), window, 100), 0);
    let before = window;
    for round in 1..600 {
        // The window empties before every send: limited, and no longer limited, at the same moment.
        cubic.on_application_limited(at(round * 100), true);
        cubic.on_application_limited(at(round * 100), false);
        window = window.max(cubic.grow(view(at(round * 100), window, 100), window));
        assert!(cubic.epoch.unwrap().start <= at(round * 100));
    }
    assert!(window > 2 * before, "{window}");
}

#[test]
fn rfc9438_4_10_after_slow_start_without_loss_the_function_starts_on_its_plateau() {
    let mut cubic = Cubic::default();
    let window = 100 * DATAGRAM;
    cubic.on_start_exit(view(at(0), window, 100));
    cubic.grow(view(at(50), window, 100), DATAGRAM);
    let epoch = cubic.epoch.unwrap();
    assert_eq!((epoch.plateau, epoch.k_micros), (window, 0));
}

#[test]
fn rfc9438_4_8_after_persistent_congestion_k_is_zero() {
    let (mut cubic, _) = reduced(1_000 * DATAGRAM);
    cubic.on_persistent_congestion();
    cubic.grow(view(at(50), 2 * DATAGRAM, 100), DATAGRAM);
    let epoch = cubic.epoch.unwrap();
    assert_eq!((epoch.plateau, epoch.k_micros), (2 * DATAGRAM, 0));
}

#[test]
fn a_new_datagram_size_goes_on_from_the_present_window() {
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    let grown = cubic.grow(view(at(0), window, 100), window);
    cubic.on_datagram_size();
    let view = View { datagram: 1_400, ..view(at(100), grown, 100) };
    let next = cubic.grow(view, 1_400);
    assert!(next >= grown && next < grown + 2_800);
}

#[test]
fn no_time_and_no_window_overflows() {
    for window in [2 * DATAGRAM, 1 << 32, 1 << 44] {
        let (mut cubic, reduced) = reduced(window);
        for now in [Instant::ZERO, at(1), Instant::FAR_FUTURE] {
            let grown = cubic.grow(view(now, reduced, 100), reduced);
            assert!(grown <= reduced * 3 / 2 + DATAGRAM);
        }
    }
}

#[test]
fn two_teeth_last_twice_k() {
    let (mut cubic, window) = reduced(1_000 * DATAGRAM);
    assert_eq!(cubic.cycle(view(at(0), window, 100)), 0, "no epoch, no tooth");
    cubic.grow(view(at(0), window, 100), DATAGRAM);
    // K is 9.0856 s.
    assert_eq!(cubic.cycle(view(at(0), window, 100)), 181);
}

#[test]
fn rfc9438_4_3_and_4_7_alpha_and_fast_convergence_follow_from_beta() {
    assert_eq!((Backoff::LOSS.alpha(), Backoff::LOSS.convergence()), ((9, 17), (17, 20)));
    assert_eq!((Backoff::MARK.alpha(), Backoff::MARK.convergence()), ((9, 37), (37, 40)));
    for backoff in [Backoff::LOSS, Backoff::MARK] {
        let ((part, whole), alpha, convergence) = (backoff.beta, backoff.alpha(), backoff.convergence());
        assert_eq!(alpha.0 * (whole + part), alpha.1 * 3 * (whole - part));
        assert_eq!(convergence.0 * 2 * whole, convergence.1 * (whole + part));
    }
}

#[test]
fn rfc8511_3_1_a_mark_leaves_17_of_20_and_a_loss_after_it_is_a_loss() {
    let mut cubic = Cubic::default();
    let window = cubic.reduce(view(Instant::ZERO, 100_000, 100), Signal::AbeMark);
    assert_eq!((window, cubic.backoff), (85_000, Backoff::MARK));
    // In the Reno-friendly region of a short path a window of acknowledgments adds 9/37 of a datagram.
    let view = |window| View::new(at(1), window, DATAGRAM, Duration::from_micros(100));
    let before = cubic.grow(view(window), 0);
    let grown = (0..37).fold(before, |window, _| cubic.grow(view(window), window));
    assert!((grown - before).abs_diff(9 * DATAGRAM) < 200, "{}", grown - before);
    // It had not come back to where it was reduced from.
    assert_eq!(cubic.reduce(view(95_000), Signal::Loss), 66_500);
    assert_eq!((cubic.backoff, cubic.w_max), (Backoff::LOSS, Some(95_000 * 17 / 20)));
}

#[test]
#[cfg(feature = "study")]
fn quiche_does_not_restore_what_reno_would_have() {
    let reno = |mut cubic: Cubic| {
        let now = Instant::ZERO;
        cubic.reduce(view(now, 50 * DATAGRAM, 100), Signal::Loss);
        cubic.grow(view(now, 35 * DATAGRAM, 100), 1);
        let mut copy = cubic.clone();
        copy.on_return(now);
        copy.grow(view(now, 40 * DATAGRAM, 100), 0);
        copy.reno >> FRACTION_BITS
    };
    assert_eq!(reno(Cubic::default()), 35 * DATAGRAM);
    assert_eq!(reno(Cubic::forgetful()), 28 * DATAGRAM);
}
