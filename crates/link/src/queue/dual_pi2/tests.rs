use super::*;
use crate::queue::testing::Bench;

const ECN: [Ecn; 2] = [Ecn::Ect1, Ecn::Ect0];

#[test]
fn the_base_probability_follows_the_delay() {
    let dual = DualPi2 { alpha: 0.16, beta: 3.2, ..DualPi2::default() };
    let mut controller = Controller::new(&dual);
    for (ms, expected) in [
        (0, 0.0),
        (5, 0.0144),
        (10, 0.0296),
        (20, 0.0624),
        (30, 0.0968),
        (30, 0.0992),
        (20, 0.068),
        (15, 0.052),
        (10, 0.0352),
        (0, 0.0008),
    ] {
        controller.update(ms * 1_000_000);
        let found = to_share(controller.probability);
        assert!((found - expected).abs() < 1e-9, "{ms} ms: {found}");
    }
}

/// A queue whose base probability stays what it is.
fn fixed(dual: DualPi2, base: u64) -> Managed<u64> {
    let dual = DualPi2 { alpha: 0.0, beta: 0.0, ..dual };
    let mut controller = Controller::new(&dual);
    controller.probability = base.min(controller.cap);
    Managed {
        low: Backlog::new(),
        classic: Backlog::new(),
        room: Room::new(crate::QueueLimit::Infinite, None),
        grid: Grid::new(Instant::ZERO, dual.update),
        controller,
        credit: dual.first_credit(),
        sums: Sums::default(),
        dice: crate::Streams::new(1).dice("queue"),
        dual,
    }
}

/// The shares of a hundred thousand packets that are marked and dropped, at a delay of no time.
fn shares(dual: DualPi2, base: u64, ecn: Ecn) -> (f64, f64) {
    let mut queue = fixed(dual, base);
    let (count, sent, mut dropped, mut marked) = (100_000, Instant::ZERO, Vec::new(), 0);
    // Ten stay, so that none is alone.
    for payload in 0..count + 10 {
        queue.push(sent, Packet { payload, size: 1500, flow: 0, connection: 0, ecn, sent, tail: false });
    }
    while queue.len_packets() > 10 {
        let queued = queue.dequeue(sent, &mut dropped);
        marked += u64::from(queued.is_some_and(|queued| queued.packet.ecn == Ecn::Ce));
    }
    (marked as f64 / count as f64, dropped.len() as f64 / count as f64)
}

#[test]
fn marks_of_l_are_coupled_to_the_square_root_of_those_of_c() {
    for (law, error) in [(DualLaw::Rfc9332, 2e-5), (DualLaw::Linux, 8e-3)] {
        let dual = DualPi2::law(law);
        let near = |found: (f64, f64), marked: f64, dropped: f64| {
            assert!((found.0 - marked).abs() <= error && (found.1 - dropped).abs() <= error, "{law:?}: {found:?}");
        };
        let base = ONE / 5;
        near(shares(dual.clone(), base, Ecn::Ect1), 0.4, 0.0);
        near(shares(dual.clone(), base, Ecn::Ect0), 0.04, 0.0);
        near(shares(dual.clone(), base, Ecn::NotEct), 0.0, 0.04);
    }
}

#[test]
fn under_overload_everything_is_dropped_alike() {
    // A base probability of 0.6: 0.36 are dropped, of L too, and the rest of L is marked.
    for (law, error) in [(DualLaw::Rfc9332, 2e-5), (DualLaw::Linux, 8e-3)] {
        let dual = DualPi2::law(law);
        let base = ratio(6, 10);
        for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
            let (marked, dropped) = shares(dual.clone(), base, ecn);
            assert!((dropped - 0.36).abs() < error, "{law:?} {ecn:?}: {dropped}");
            assert_eq!(marked > 0.0, ecn == Ecn::Ect1, "{law:?} {ecn:?}: {marked}");
        }
        // Unless it is asked not to: then the probability is capped at 1/k.
        let (marked, dropped) = shares(DualPi2 { drop_on_overload: false, ..dual }, base, Ecn::Ect1);
        assert!((marked - 1.0).abs() < 1e-3 && dropped == 0.0, "{law:?}: {marked} {dropped}");
    }
}

#[test]
fn l_has_a_ramp_of_its_own() {
    let mut queue = fixed(DualPi2::default(), 0);
    for payload in 0..3 {
        let sent = Instant::ZERO;
        queue.push(sent, Packet { payload, size: 1500, flow: 0, connection: 0, ecn: Ecn::Ect1, sent, tail: false });
    }
    let ramp = |queue: &Managed<u64>, micros| to_share(queue.ramp(Duration::from_micros(micros)));
    let found = [0, 800, 900, 1000, 1200, 9000].map(|micros| ramp(&queue, micros));
    assert_eq!(found, [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]);
    let step = fixed(DualPi2::law(DualLaw::Linux), 0);
    assert_eq!([999, 1000, 1001].map(|micros| ramp(&step, micros)), [0.0, 0.0, 1.0]);
    // Where nothing else waits, a packet is not marked by the ramp.
    let mut dropped = Vec::new();
    let late = Instant::from_nanos(20_000_000);
    let marks: Vec<bool> =
        std::iter::from_fn(|| queue.dequeue(late, &mut dropped)).map(|queued| queued.packet.ecn == Ecn::Ce).collect();
    assert_eq!(marks.last(), Some(&false), "{marks:?}");
}

#[test]
fn c_gets_its_share_and_l_goes_first() {
    for (weight_c, expected) in [(10, 10), (30, 30)] {
        let mut queue = fixed(DualPi2 { weight_c, ..DualPi2::default() }, 0);
        for payload in 0..400 {
            let sent = Instant::ZERO;
            let ecn = ECN[payload as usize % 2];
            queue.push(sent, Packet { payload, size: 1500, flow: 0, connection: 0, ecn, sent, tail: false });
        }
        let classic: Vec<bool> = (0..100).map(|_| queue.take().is_some_and(|(_, is_low)| !is_low)).collect();
        let count = classic.iter().filter(|classic| **classic).count();
        assert!(!classic[0] && count.abs_diff(expected) <= expected / 10 + 5, "{weight_c}: {count}");
    }
}

#[test]
fn l_waits_a_millisecond_where_c_waits_for_its_target() {
    // Twice what the link takes, half of it of each kind, none of which reacts: delays are what overload leaves, but
    // L's first packets pass C's.
    let mut bench = Bench::new(&DualPi2::default(), "12 Mbps", "unlimited");
    for n in 0..20 {
        bench.push(0, 1500, ECN[n as usize % 2]);
    }
    let served = bench.serve_all();
    let last_low = served.iter().rposition(|(_, packet)| packet.payload % 2 == 0).unwrap();
    assert!(last_low <= 11, "{last_low}");
    let order = |parity| served.iter().map(|(_, packet)| packet.payload).filter(move |n| n % 2 == parity);
    assert!(order(0).is_sorted() && order(1).is_sorted());
}

#[test]
fn an_idle_queue_forgets() {
    let mut bench = Bench::new(&DualPi2::default(), "12 Mbps", "unlimited");
    bench.burst(400, Ecn::NotEct);
    bench.serve(200_000);
    assert!(bench.signal("probability").unwrap() > 0.01);
    bench.serve_all();
    bench.push(3_600_000_000, 1500, Ecn::NotEct);
    assert_eq!(bench.signal("probability"), Some(0.0));
}
