use thalweg_units::Ecn;

use super::*;
use crate::Streams;
use crate::queue::testing::Bench;

/// The probability after an update with each of these delays in milliseconds.
fn probabilities(pie: &Pie, start: f64, delays: &[u64]) -> Vec<f64> {
    let control = Control::new(pie);
    let mut state = State { probability: from_share(start), ..State::default() };
    // The delay before is at the target in the vectors that do not start from nothing.
    state.delay = if start > 0.0 { 15_000_000 } else { 0 };
    let updates = delays.iter().map(|ms| {
        state.sojourn = ms * 1_000_000;
        state.burst = 0;
        state.update(&control, 1);
        to_share(state.probability)
    });
    updates.collect()
}

fn near(found: &[f64], expected: &[f64], error: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= expected * error + 1e-15, "{found} is not {expected}");
    }
}

#[test]
fn the_probability_follows_the_delay() {
    // The vectors are printed to seven digits.
    let found = probabilities(&Pie::default(), 0.0, &[0, 5, 10, 20, 30, 30, 40, 60, 80, 80, 80, 80, 40, 20]);
    let expected = [
        0.0,
        2.441406e-6,
        1.342773e-5,
        1.159668e-4,
        5.651855e-4,
        6.237793e-4,
        1.112061e-3,
        4.940186e-3,
        9.080811e-3,
        1.009644e-2,
        1.415894e-2,
        1.822144e-2,
        0.0,
        0.0,
    ];
    near(&found, &expected, 1e-6);
}

#[test]
fn large_probabilities_rise_in_small_steps() {
    let delays = [15, 50, 100, 200, 300, 400, 400, 400, 300, 200, 100, 50, 0];
    // The first delay comes after none.
    let control = Control::new(&Pie::default());
    let mut state = State { probability: from_share(0.05), ..State::default() };
    let found: Vec<f64> = delays
        .iter()
        .map(|ms| {
            state.sojourn = ms * 1_000_000;
            state.burst = 0;
            state.update(&control, 1);
            to_share(state.probability)
        })
        .collect();
    let expected = [0.059375, 0.0834375, 0.12, 0.14, 0.18, 0.22, 0.26, 0.30, 0.230625, 0.12875, 0.014375, 0.0, 0.0];
    near(&found, &expected, 1e-6);
    // ns-3 adds nothing above 250 ms.
    let ns3 = probabilities(&Pie::variant(PieVariant::Ns3), 0.2, &[260, 260]);
    near(&ns3, &[0.22, 0.24], 1e-6);
    near(&probabilities(&Pie::default(), 0.2, &[260, 260]), &[0.24, 0.28], 1e-6);
}

#[test]
fn a_standing_delay_is_answered_slowly() {
    let found = probabilities(&Pie::default(), 0.0, &[30; 400]);
    let at = |updates: usize| found[updates - 1];
    let expected = [
        (1, 1.923e-5),
        (2, 3.387e-5),
        (3, 4.852e-5),
        (5, 7.782e-5),
        (10, 2.829e-4),
        (20, 8.688e-4),
        (50, 7.373e-3),
        (100, 4.581e-2),
        (200, 0.1789),
        (400, 0.5539),
    ];
    for (updates, share) in expected {
        assert!((at(updates) / share - 1.0).abs() < 5e-4, "{updates}: {} is not {share}", at(updates));
    }
}

#[test]
fn an_idle_queue_forgets() {
    let decay = |variant, backlog| {
        let control = Control::new(&Pie { alpha: 0.0, beta: 0.0, ..Pie::variant(variant) });
        let mut state = State { probability: ONE / 2, ..State::default() };
        state.update(&control, backlog);
        to_share(state.probability)
    };
    near(&[decay(PieVariant::Rfc8033, 0), decay(PieVariant::Rfc8033, 1)], &[0.49, 0.49], 1e-12);
    near(&[decay(PieVariant::Linux, 0), decay(PieVariant::Linux, 1)], &[0.5 * 63.0 / 64.0, 0.5], 1e-12);
    // A delay from long ago is none where nothing waits any more.
    let control = Control::new(&Pie::default());
    let mut state = State { probability: ONE / 2, sojourn: 400_000_000, delay: 400_000_000, ..State::default() };
    while state.update(&control, 0) {}
    assert_eq!((state.probability, state.delay), (0, 0));
    assert_eq!(state.burst, control.burst, "calm: another burst may come");
}

/// How many of so many packets are dropped at this probability behind a standing queue, and the shortest and longest
/// distance between two drops.
fn drops(pie: &Pie, share: f64, packets: u64) -> (u64, u64, u64) {
    let (control, mut dice) = (Control::new(pie), Streams::new(1).dice("queue"));
    let mut state =
        State { probability: from_share(share), delay: 30_000_000, phase: Phase::Protecting, ..State::default() };
    let (mut count, mut last, mut least, mut most) = (0, 0, u64::MAX, 0);
    for packet in 0..packets {
        if state.arrive(&control, &mut dice, 1500, 100_000) == Admission::Signal {
            count += 1;
            (least, most) = (least.min(packet - last), most.max(packet - last));
            last = packet;
        }
    }
    (count, least, most)
}

#[test]
fn drops_are_spaced_evenly() {
    let (count, least, most) = drops(&Pie::default(), 0.02, 100_000);
    // None before the sum is 0.85, one at 8.5 at the latest.
    assert!(least >= 43 - 1 && most <= 425, "{least} to {most}");
    // On average after 42.5 + 50 packets.
    assert!((1_000..1_170).contains(&count), "{count}");
    // Without the spacing, as often as the probability says: 2,000, five deviations of 44 on either side.
    let (count, least, _) = drops(&Pie::variant(PieVariant::Ns3), 0.02, 100_000);
    assert!((1_780..2_220).contains(&count) && least < 10, "{count}");
    let (count, ..) = drops(&Pie { bytes: true, mean_packet: 3000, ..Pie::variant(PieVariant::Ns3) }, 0.02, 100_000);
    assert!((843..1_157).contains(&count), "half as large, half as often: {count}");
}

#[test]
fn some_packets_are_always_accepted() {
    let control = Control::new(&Pie::default());
    let mut dice = Streams::new(1).dice("queue");
    let full = State { probability: ONE, delay: 30_000_000, accumulated: ONE / 10 * 85, ..State::default() };
    let mut admission = |state: State, backlog| state.clone().arrive(&control, &mut dice, 1500, backlog);
    assert_eq!(admission(full.clone(), 3001), Admission::Signal);
    assert_eq!(admission(full.clone(), 3000), Admission::Accept, "two packets wait");
    assert_eq!(admission(State { burst: 1, ..full.clone() }, 9000), Admission::Accept, "a burst");
    let calm = State { probability: ONE / 5 - 1, delay: 7_499_999, ..full.clone() };
    assert_eq!(admission(calm.clone(), 9000), Admission::Accept, "below half the target");
    assert_eq!(admission(State { delay: 7_500_000, ..calm.clone() }, 9000), Admission::Signal);
    assert_eq!(admission(State { probability: ONE / 5, ..calm }, 9000), Admission::Signal);
}

#[test]
fn marks_end_at_a_tenth() {
    let mut packet =
        Packet { payload: 0u64, size: 1500, flow: 0, connection: 0, ecn: Ecn::Ect0, sent: Instant::ZERO, tail: false };
    let (rfc, ns3) = (Control::new(&Pie::default()), Control::new(&Pie::variant(PieVariant::Ns3)));
    let state = State { probability: from_share(0.1), ..State::default() };
    assert!(state.try_mark(&rfc, &mut packet) && !state.try_mark(&ns3, &mut packet));
    let above = State { probability: state.probability + 1, ..state };
    assert!(!above.try_mark(&rfc, &mut packet));
    assert_eq!(packet.ecn, Ecn::Ce);
}

#[test]
fn a_burst_is_let_through_and_then_no_more() {
    // Twice what the link takes, for two seconds.
    let drops = |variant| {
        let mut bench = Bench::new(&Pie::variant(variant), "12 Mbps", "unlimited");
        for n in 0..4000 {
            bench.push(500 * n, 1500, Ecn::NotEct);
            bench.serve(500 * n);
        }
        bench.drops.iter().map(|drop| drop.at.as_nanos() / 1_000_000).collect::<Vec<_>>()
    };
    for variant in [PieVariant::Rfc8033, PieVariant::Linux, PieVariant::Ns3, PieVariant::Paper] {
        let at = drops(variant);
        assert!(at.len() > 50, "{variant:?}: {}", at.len());
        let allowance = Pie::variant(variant).burst.as_millis() as u64;
        assert!(at[0] >= allowance, "{variant:?}: {}", at[0]);
    }
}

#[test]
fn the_departure_rate_is_that_of_the_link() {
    let pie = Pie { delay: DelayEstimate::Rate, ..Pie::default() };
    let mut bench = Bench::new(&pie, "12 Mbps", "unlimited");
    bench.burst(200, Ecn::NotEct);
    bench.serve(60_000);
    // 140 packets wait: 140 ms, as it was at the last update, and a thousandth of the burst is served per packet.
    let delay = bench.signal("delay_ms").unwrap();
    assert!((delay - 140.0).abs() < 15.0, "{delay}");
}

#[test]
fn an_idle_hour_is_as_many_updates() {
    let mut bench = Bench::new(&Pie::default(), "12 Mbps", "unlimited");
    for n in 0..4000 {
        bench.push(500 * n, 1500, Ecn::NotEct);
        bench.serve(500 * n);
    }
    bench.serve_all();
    assert!(bench.signal("probability").unwrap() > 0.01);
    bench.push(3_600_000_000, 1500, Ecn::NotEct);
    assert_eq!((bench.signal("probability"), bench.signal("burst_ms")), (Some(0.0), Some(150.0)));
}
