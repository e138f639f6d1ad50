//! ABBA against its author's vectors, with three fifths of the room and without a cap where those have none, and
//! against the bound that it states.

use super::super::cuback::Cuback;
use super::super::cubic::Cubic;
use super::*;
use crate::testing::{at, ms};
use proptest::prelude::*;
use thalweg_units::math;

const DATAGRAM: u64 = 1_200;

fn point(window: u64, rtt_ms: u64) -> Point {
    Point { window, rtt: ms(rtt_ms).nanos() }
}

fn nanos(rtt_ms: f64) -> u64 {
    (rtt_ms * 1e6) as u64
}

/// A period with this line, in which no cap applies to windows of more than a byte.
fn period(line: Option<Line>) -> Period {
    Period { high: Point { window: 0, rtt: 0 }, follows_recovery: true, beta: LOSS, low: None, line }
}

/// Bytes that so many acknowledged ones are worth.
fn more(line: Line, window: u64, rtt_ms: f64, acked: u64) -> u64 {
    period(Some(line)).acceleration(window, nanos(rtt_ms), acked) >> FRACTION_BITS
}

/// RTT = window / 1024 + `intercept`, in milliseconds.
fn line(intercept: f64) -> Line {
    Line { point: Point { window: 0, rtt: nanos(intercept) }, slope: (1_000_000, 1_024), is_beyond: false }
}

#[test]
fn the_line_keeps_two_thirds_of_the_slope_around_the_low_point() {
    let fit = Line::fit(point(100_000, 120), point(70_000, 100)).unwrap();
    assert_eq!(fit.rtt(70_000), ms(100).nanos());
    assert_eq!(fit.rtt(100_000) / 1_000, 113_333, "a rise of 20 ms keeps 13.3");
    assert_eq!(fit.rtt(40_000) / 1_000, 86_666);
}

#[test]
fn the_line_is_no_steeper_than_the_one_from_the_origin() {
    // 100 ms more for 30,000 bytes would be far below zero at the origin.
    let fit = Line::fit(point(100_000, 200), point(70_000, 100)).unwrap();
    assert_eq!(fit.rtt(0).div_ceil(1_000), 33_334, "two thirds of the slope to the origin leave a third");
}

#[test]
fn round_trip_times_less_than_5_ms_apart_make_no_line() {
    let low = point(70_000, 100);
    assert!(Line::fit(Point { window: 100_000, rtt: nanos(104.999) }, low).is_none());
    assert!(Line::fit(point(100_000, 105), low).is_some());
    assert!(Line::fit(point(100_000, 90), low).is_none());
}

#[test]
fn three_fifths_of_the_room_are_taken_per_window_of_acknowledgments() {
    // 1 ms per 1000 bytes above 50 ms: at 100 ms the line is for 50,000.
    let line = Line { point: Point { window: 0, rtt: nanos(50.0) }, slope: (1_000_000, 1_000), is_beyond: false };
    assert_eq!(more(line, 100_000, 100.0, 100_000), 30_000);
    assert_eq!(more(line, 100_000, 150.0, 100_000), 0, "at the line");
    assert_eq!(more(line, 100_000, 200.0, 100_000), 0, "above it");
    let origin = Line::from_origin(point(100_000, 100));
    assert_eq!(more(origin, 100_000, 20.0, 100_000), 48_000);
}

#[test]
fn vectors_of_a_small_shortfall() {
    let window = 65_536;
    for (intercept, rtt, expected) in
        [(49.5, 112.0, 921), (50.0, 112.0, 1_228), (50.5, 112.0, 1_536), (48.0, 112.0, 0), (0.0, 63.0, 614)]
    {
        assert_eq!(more(line(intercept), window, rtt, window), expected, "{intercept}");
    }
}

#[test]
fn one_ack_never_opens_the_window_by_more_than_half() {
    assert_eq!(more(line(100.0), 100_001, 20.0, 100_001), 50_000);
    assert_eq!(more(line(100.0), 100_000, 1.0, 10_000_000), 50_000);
}

#[test]
fn below_the_old_window_over_beta_the_gain_is_capped() {
    for (beta, prior, gain) in [(LOSS, 70_000, 2_684), (MARK, 85_000, 1_144)] {
        let period = Period { high: point(prior, 0), beta, ..period(Some(line(8.0))) };
        // The room would be all of the window.
        let more = |window| period.acceleration(window, nanos(8.0), 12_000) >> FRACTION_BITS;
        assert_eq!(more(99_999), 12_000 * gain / 10_000);
        assert_eq!(more(100_000), 7_200);
        assert_eq!(more(100_001), 7_200);
    }
}

#[test]
fn the_cap_is_beta_to_the_power_of_minus_two_thirds() {
    for beta in [LOSS, MARK] {
        let exact = math::pow(beta.ratio.0 as f64 / beta.ratio.1 as f64, -2.0 / 3.0) - 1.0;
        let ours = beta.most_gain as f64 / 10_000.0;
        assert!(ours <= exact && exact < ours + 0.000_1, "{ours} and {exact}");
    }
}

/// Reduced at a window and a round-trip time, with the samples of the recovery period.
fn reduced(window: u64, rtt_ms: u64, signal: Signal, samples: &[u64]) -> (Abba, u64) {
    let mut abba = Abba::new(Box::new(Cubic::default()));
    let window = abba.reduce(View::new(at(0), window, DATAGRAM, ms(rtt_ms)), signal);
    for sample in samples {
        abba.observe_sample(View::new(at(0), window, DATAGRAM, ms(*sample)), true);
    }
    (abba, window)
}

fn sample(abba: &mut Abba, window: u64, rtt_ms: f64) {
    abba.observe_sample(View::new(at(10), window, DATAGRAM, Duration::from_nanos(nanos(rtt_ms))), false);
}

#[test]
fn the_high_point_is_the_old_window_with_the_smallest_sample_until_recovery_ends() {
    let (mut abba, window) = reduced(100_000, 80, Signal::Loss, &[70, 75]);
    assert_eq!(abba.period.unwrap().high, point(100_000, 70));
    sample(&mut abba, window, 90.0);
    let period = abba.period.unwrap();
    assert_eq!((period.high, period.low), (point(100_000, 70), Some(point(70_000, 70))));
    assert!(period.line.is_none(), "flat until it has seen 5 ms less");
}

#[test]
fn the_high_point_of_a_mark_is_from_before_it() {
    let mut abba = Abba::new(Box::new(Cubic::default()));
    sample(&mut abba, 100_000, 80.0);
    sample(&mut abba, 100_000, 120.0);
    abba.reduce(View::new(at(11), 100_000, DATAGRAM, ms(120)), Signal::Mark);
    abba.observe_sample(View::new(at(20), 70_000, DATAGRAM, ms(60)), true);
    let period = abba.period.unwrap();
    assert_eq!((period.high, period.beta), (point(100_000, 80), LOSS));
    abba.reduce(View::new(at(30), 100_000, DATAGRAM, ms(120)), Signal::AbeMark);
    assert_eq!(abba.period.unwrap().beta, MARK, "which bounds what a round trip adds");
}

#[test]
fn the_low_point_follows_steps_of_a_millisecond() {
    let (mut abba, _) = reduced(100_000, 70, Signal::Loss, &[70]);
    sample(&mut abba, 70_000, 90.0);
    for rtt in [70.0, 69.5, 69.001] {
        sample(&mut abba, 76_000, rtt);
        assert_eq!(abba.period.unwrap().low, Some(point(70_000, 70)), "{rtt}");
    }
    sample(&mut abba, 76_000, 69.0);
    assert_eq!(abba.period.unwrap().low, Some(point(76_000, 69)));
    assert!(abba.period.unwrap().line.is_none());
    sample(&mut abba, 78_000, 65.0);
    let line = abba.period.unwrap().line.unwrap();
    assert_eq!(line, Line::fit(point(100_000, 70), point(78_000, 65)).unwrap());
}

#[test]
fn a_low_point_beyond_the_high_one_leaves_the_line() {
    let (mut abba, _) = reduced(100_000, 120, Signal::Loss, &[]);
    sample(&mut abba, 70_000, 100.0);
    let before = abba.period.unwrap().line.unwrap();
    sample(&mut abba, 110_000, 80.0);
    assert_eq!(abba.period.unwrap().low, Some(point(110_000, 80)));
    assert_eq!(abba.period.unwrap().line, Some(before));
}

#[test]
fn far_beyond_the_old_window_the_line_goes_through_the_origin_and_keeps_what_it_said() {
    let (mut abba, _) = reduced(100_000, 120, Signal::Loss, &[]);
    sample(&mut abba, 70_000, 100.0);
    let fit = abba.period.unwrap().line.unwrap();
    sample(&mut abba, 130_000, 105.0);
    assert_eq!(abba.period.unwrap().line, Some(fit), "1.3 times the old window");
    sample(&mut abba, 130_001, 105.0);
    let line = abba.period.unwrap().line.unwrap();
    assert!(line.is_beyond);
    assert_eq!(line.rtt(130_001), fit.rtt(130_001));
    assert_eq!(line.rtt(260_002), 2 * fit.rtt(130_001));
    sample(&mut abba, 200_000, 60.0);
    assert_eq!(abba.period.unwrap().line, Some(line), "drawn once");
}

#[test]
fn without_a_line_it_starts_beyond_from_the_round_trip_time_of_now() {
    let (mut abba, _) = reduced(100_000, 50, Signal::Loss, &[]);
    sample(&mut abba, 70_000, 50.0);
    sample(&mut abba, 131_000, 50.0);
    let line = abba.period.unwrap().line.unwrap();
    assert_eq!((line.rtt(131_000), line.is_beyond), (ms(50).nanos(), true));
}

#[test]
fn before_the_first_congestion_and_after_a_persistent_one_it_is_the_growth_below_it() {
    let (mut abba, mut cubic) = (Abba::new(Box::new(Cubic::default())), Cubic::default());
    let mut window = 100_000;
    for step in 0..100 {
        let view = View::new(at(step * 10), window, DATAGRAM, ms(if step % 2 == 0 { 100 } else { 40 }));
        abba.observe_sample(view, false);
        let grown = abba.grow(view, 10_000);
        assert_eq!(grown, cubic.grow(view, 10_000));
        window = grown;
    }
    abba.reduce(View::new(at(1_000), window, DATAGRAM, ms(100)), Signal::Loss);
    abba.on_persistent_congestion();
    assert!(abba.period.is_none());
}

#[test]
fn single_bytes_add_up() {
    let (mut abba, _) = reduced(70_000, 100, Signal::Loss, &[]);
    abba.period.as_mut().unwrap().line = Some(line(8.0));
    let mut window = 110_000;
    for _ in 0..6 {
        let view = View { latest_rtt: ms(8), ..View::new(at(1), window, DATAGRAM, ms(100)) };
        window = abba.grow(view, 1);
    }
    assert_eq!(window, 110_003, "three fifths of a byte each");
}

#[test]
fn a_reduction_taken_back_brings_the_line_back() {
    let (mut abba, _) = reduced(100_000, 120, Signal::Loss, &[]);
    sample(&mut abba, 70_000, 100.0);
    let view = View::new(at(20), 90_000, DATAGRAM, ms(102));
    let mut copy = abba.snapshot();
    abba.reduce(view, Signal::Loss);
    assert!(abba.period.unwrap().line.is_none());
    let acceleration = copy.grow(view, 50_000) - 90_000;
    assert!(acceleration > 1_000, "{acceleration}");
}

/// One round trip after a reduction: a window of acknowledgments, each with a sample of its own. Returns the window at
/// its end.
fn round_trip(period: &mut Period, window: u64, samples: &[(u64, u64)]) -> u64 {
    let (mut now, mut left) = (window, window);
    let mut fraction = 0;
    for (share, rtt) in samples {
        let acked = (window * share / 100).min(left);
        left -= acked;
        period.on_sample(Point { window: now, rtt: *rtt }, false, *rtt);
        fraction += period.acceleration(now, *rtt, acked);
        now += fraction >> FRACTION_BITS;
        fraction &= (1 << FRACTION_BITS) - 1;
    }
    now
}

proptest! {
    /// The stated bound: what a round trip adds is less than what congestion took, whatever the samples say.
    #[test]
    fn it_yields_under_sustained_congestion(
        is_mark: bool,
        high in 1u64..2_000_000_000,
        recovery in 1u64..2_000_000_000,
        samples in proptest::collection::vec((0u64..40, 0u64..2_000_000_000), 1..20),
    ) {
        let beta = if is_mark { MARK } else { LOSS };
        let prior = 1_000_000;
        let mut period = Period {
            high: Point { window: prior, rtt: high },
            follows_recovery: !is_mark,
            beta,
            low: None,
            line: None,
        };
        let window = prior * beta.ratio.0 / beta.ratio.1;
        period.on_sample(Point { window, rtt: recovery }, true, recovery);
        let after = round_trip(&mut period, window, &samples);
        let bound = math::pow(beta.ratio.0 as f64 / beta.ratio.1 as f64, 1.0 / 3.0) * prior as f64;
        prop_assert!(after as f64 <= bound + 1.0, "{} of {}", after, prior);
    }

    /// The same over many reductions, with what CUBIC and Cuback grow by.
    #[test]
    fn congestion_in_every_round_trip_brings_the_window_to_its_minimum(
        is_driven_by_acks: bool,
        rounds in proptest::collection::vec((1u64..600, 1u64..600, 1u64..600), 40..60),
    ) {
        let base: Box<dyn Growth> =
            if is_driven_by_acks { Box::<Cuback>::default() } else { Box::<Cubic>::default() };
        let mut abba = Abba::new(base);
        let (mut window, mut now) = (2_000 * DATAGRAM, 0);
        for (congested, recovering, delivering) in rounds {
            let view = |window, sample, now| View { latest_rtt: ms(sample), ..View::new(at(now), window, DATAGRAM, ms(100)) };
            window = abba.reduce(view(window, congested, now), Signal::Loss).max(2 * DATAGRAM);
            abba.observe_sample(view(window, recovering, now), true);
            now += 100;
            for _ in 0..4 {
                let view = view(window, delivering, now);
                abba.observe_sample(view, false);
                window = window.max(abba.grow(view, window / 4));
            }
        }
        prop_assert!(window <= 10 * DATAGRAM, "{}", window);
    }

    #[test]
    fn nothing_overflows_and_no_ack_shrinks_the_window(
        high in (0u64.., 0u64..),
        samples in proptest::collection::vec((0u64.., 0u64.., 0u64..), 1..20),
    ) {
        let mut period = Period { high: Point { window: high.0, rtt: high.1 }, ..period(None) };
        for (window, rtt, acked) in samples {
            period.on_sample(Point { window, rtt }, false, rtt);
            prop_assert!(period.acceleration(window, rtt, acked) >> FRACTION_BITS <= window / 2);
        }
    }
}

/// The test above can fail: this is what the cap is for.
#[test]
fn without_the_cap_a_round_trip_can_add_more_than_congestion_took() {
    for beta in [LOSS, MARK] {
        let uncapped = Beta { most_gain: 10_000, ..beta };
        let prior = 1_000_000;
        let window = prior * beta.ratio.0 / beta.ratio.1;
        let mut steep = Period {
            high: point(prior, 500),
            follows_recovery: true,
            beta: uncapped,
            low: Some(point(window, 1)),
            line: Some(Line::from_origin(point(window, 400))),
        };
        assert!(round_trip(&mut steep, window, &[(100, nanos(1.0))]) > prior);
        steep.beta = beta;
        assert!(round_trip(&mut steep, window, &[(100, nanos(1.0))]) < prior);
    }
}
