//! A direction of a link against the arithmetic it promises.
#![allow(clippy::unwrap_used)]

use thalweg_link::queue::{Dropped, HeadDrop, Queue, Queued, TailDrop};
use thalweg_link::trace::Mahimahi;
use thalweg_link::*;
use thalweg_units::{Duration, Ecn, Instant, Rate};

const START: Instant = Instant::from_nanos(7_000_000_000);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn packet(payload: u64, size: u32, sent: Instant) -> Packet<u64> {
    Packet { payload, size, flow: 0, connection: 0, ecn: Ecn::NotEct, sent, tail: false }
}

/// What happened: deliveries and drops with their times.
#[derive(Default)]
struct Log {
    delivered: Vec<(Instant, Packet<u64>)>,
    dropped: Vec<(Instant, u64, DropCause)>,
    departed: Vec<(Instant, u64)>,
}

impl Log {
    fn arrivals(&self) -> Vec<(u64, u64)> {
        self.delivered.iter().map(|(at, packet)| (packet.payload, (*at - START).as_nanos() as u64)).collect()
    }

    fn dropped(&self) -> Vec<u64> {
        self.dropped.iter().map(|(_, payload, _)| *payload).collect()
    }
}

impl Sink<u64> for Log {
    fn deliver(&mut self, at: Instant, packet: Packet<u64>) {
        self.delivered.push((at, packet));
    }

    fn dropped(&mut self, at: Instant, packet: Packet<u64>, cause: DropCause) {
        self.dropped.push((at, packet.payload, cause));
    }

    fn departed(&mut self, at: Instant, packet: &Packet<u64>, _: Instant) {
        self.departed.push((at, packet.payload));
    }
}

fn build(config: &DirectionConfig) -> Direction<u64> {
    Direction::new(config, START, &Streams::new(1).scope("link")).unwrap()
}

/// Offers packets at these times, in order, and runs until the link is empty. Checks that no delivery is late.
fn run(config: &DirectionConfig, offers: impl IntoIterator<Item = (Duration, u32)>) -> (Log, DirectionStats) {
    let mut link = build(config);
    let mut log = Log::default();
    let step = |link: &mut Direction<u64>, log: &mut Log, at: Instant| {
        let known = log.delivered.len();
        link.advance(at, log);
        assert!(
            log.delivered[known..].iter().all(|(when, _)| *when == at),
            "a delivery at another time than announced"
        );
    };
    for (payload, (offset, size)) in (0..).zip(offers) {
        while let Some(at) = link.next_event().filter(|at| *at <= START + offset) {
            step(&mut link, &mut log, at);
        }
        link.send(START + offset, packet(payload, size, START + offset), &mut log);
    }
    let mut steps = 0;
    while let Some(at) = link.next_event() {
        step(&mut link, &mut log, at);
        steps += 1;
        assert!(steps < 10_000_000, "the link never ends");
    }
    assert!(link.is_empty());
    (log, link.stats().clone())
}

fn constant(rate: &str) -> DirectionConfig {
    DirectionConfig { rate: RateModel::Constant(rate.parse().unwrap()), ..DirectionConfig::default() }
}

#[test]
fn the_delivered_rate_is_the_configured_one_to_a_hundredth_of_a_percent() {
    // Sizes that do not divide evenly, on purpose, and more: 14.7 Mbps is nowhere near a whole number of anything.
    for rate in ["0.1 Mbps", "14.7 Mbps", "250 Mbps", "10 Gbps"] {
        for size in [1500, 1397, 64] {
            let mut config = constant(rate);
            config.delay = ms(10).into();
            let count = 100_000;
            let (log, stats) = run(&config, (0..count).map(|_| (Duration::ZERO, size)));
            let first = log.delivered[0].0 - START - ms(10);
            let span = log.delivered.last().unwrap().0 - log.delivered[0].0;
            let measured = Rate::from_bytes_over((count - 1) * u64::from(size), span).bps() as f64;
            let wanted = rate.parse::<Rate>().unwrap().bps() as f64;
            assert!((measured / wanted - 1.0).abs() < 1e-4, "{rate}, {size} bytes: {measured}");
            // Much better than that, in fact: rounding does not add up.
            let exact = rate.parse::<Rate>().unwrap().time_for(count * u64::from(size));
            assert_eq!(first + span, exact);
            assert_eq!(stats.delivered, count);
            assert_eq!(stats.busy, exact);
        }
    }
}

#[test]
fn a_queue_of_one_bdp_drops_exactly_when_it_should() {
    let mut config = constant("250 Mbps");
    config.delay = ms(300).into();
    config.round_trip = ms(600);
    config.queue = QueueLimit::Bdp(1000);
    // 18.75 MB are 12,500 packets of 1,500 bytes, and one is being serialized.
    let (log, stats) = run(&config, (0..12_503).map(|_| (Duration::ZERO, 1500)));
    assert_eq!(log.dropped(), [12_501, 12_502]);
    assert_eq!(stats.max_queue_bytes, 18_750_000);
    assert_eq!(stats.max_queue_packets, 12_500);
    assert_eq!(stats.dropped_by(DropCause::QueueFull), 2);
    // A place is free from the very nanosecond at which the first packet has left, 48 µs later.
    let at = |nanos| Duration::from_nanos(nanos);
    for (later, dropped) in [(47_999, true), (48_000, false)] {
        let offers = (0..12_501).map(|_| (Duration::ZERO, 1500)).chain([(at(later), 1500)]);
        assert_eq!(run(&config, offers).0.dropped().len(), usize::from(dropped), "{later} ns");
    }
}

#[test]
fn limits_in_packets_bytes_and_time_agree_where_they_mean_the_same() {
    let offers = || (0..30).map(|_| (Duration::ZERO, 1500));
    // Ten packets of 1,500 bytes take 10 ms at 12 Mbps.
    let all: Vec<_> = ["10 packets", "15 kB", "10 ms", "15.4 kB"]
        .map(|limit| {
            let config = DirectionConfig { queue: limit.parse().unwrap(), ..constant("12 Mbps") };
            run(&config, offers()).0.dropped()
        })
        .into();
    assert!(all.iter().all(|dropped| *dropped == (11..30).collect::<Vec<u64>>()), "{all:?}");
    let infinite = DirectionConfig { queue: QueueLimit::Infinite, ..constant("12 Mbps") };
    assert!(run(&infinite, offers()).0.dropped.is_empty());
}

#[test]
fn what_finds_the_link_idle_needs_no_place() {
    // The limit is smaller than a packet: one at a time passes, what comes while it is being sent is dropped.
    for discipline in [Discipline::from(TailDrop), HeadDrop.into()] {
        let config = DirectionConfig { queue: QueueLimit::Bytes(640), discipline, ..constant("12 Mbps") };
        let (log, stats) = run(&config, [0, 0, 1, 2].map(|at| (ms(at), 1500)));
        assert_eq!(log.arrivals(), [(0, 1_000_000), (2, 2_000_000), (3, 3_000_000)]);
        assert_eq!((log.dropped(), stats.max_queue_bytes), (vec![1], 0));
    }
    // Over a trace as well, whose link is idle when nothing waits for its next opportunity.
    let trace = RateModel::Mahimahi(Mahimahi::parse("1\n").unwrap());
    let config = DirectionConfig { rate: trace, queue: QueueLimit::Bytes(640), ..DirectionConfig::default() };
    let (log, _) = run(&config, [0, 0, 1].map(|at| (ms(at), 1500)));
    assert_eq!((log.arrivals().len(), log.dropped()), (2, vec![1]));
}

#[test]
fn a_bdp_smaller_than_a_packet_still_lets_two_wait() {
    // 256 kbps and 20 ms are 640 bytes.
    let config = DirectionConfig { queue: QueueLimit::Bdp(1000), round_trip: ms(20), ..constant("256 kbps") };
    assert_eq!(config.queue_limit(), QueueLimit::Bytes(3000));
    let (log, stats) = run(&config, (0..5).map(|_| (Duration::ZERO, 1500)));
    assert_eq!((log.dropped(), stats.max_queue_packets), (vec![3, 4], 2));
}

#[test]
fn head_drop_keeps_the_newest() {
    let config = DirectionConfig { queue: QueueLimit::Packets(2), discipline: HeadDrop.into(), ..constant("12 Mbps") };
    let (log, _) = run(&config, (0..6).map(|_| (Duration::ZERO, 1500)));
    assert_eq!(log.dropped(), [1, 2, 3]);
    assert_eq!(log.arrivals(), [(0, 1_000_000), (4, 2_000_000), (5, 3_000_000)]);
}

#[test]
fn mahimahi_semantics() {
    let trace = Mahimahi::parse("2\n2\n5\n").unwrap();
    let config = DirectionConfig { rate: RateModel::Mahimahi(trace), ..DirectionConfig::default() };
    let arrivals = |offers: &[(u64, u32)]| {
        let (log, _) = run(&config, offers.iter().map(|(at, size)| (ms(*at), *size)));
        log.arrivals().into_iter().map(|(payload, at)| (payload, at / 1_000_000)).collect::<Vec<_>>()
    };
    // Two opportunities at 2 ms, one at 5; then from 5 on again: 7, 7, 10, 12, 12.
    let big = [(0, 1500); 6];
    assert_eq!(arrivals(&big), [(0, 2), (1, 2), (2, 5), (3, 7), (4, 7), (5, 10)]);
    // Small packets share an opportunity, a large one takes several and leaves the rest of its last one to the next
    // packet.
    assert_eq!(arrivals(&[(0, 700), (0, 700), (0, 700)]), [(0, 2), (1, 2), (2, 2)]);
    assert_eq!(arrivals(&[(0, 100), (0, 3000), (0, 1400), (0, 100)]), [(0, 2), (1, 5), (2, 5), (3, 7)]);
    // An opportunity with nothing to send is lost, also at the wrap, and one that coincides with the arrival too.
    assert_eq!(arrivals(&[(2, 1500), (6, 1500), (10, 1500)]), [(0, 5), (1, 7), (2, 12)]);
    assert_eq!(arrivals(&[(999, 1500)]), [(0, 1000)]);
    assert_eq!(arrivals(&[(1000, 1500), (1002, 1500)]), [(0, 1002), (1, 1005)]);
}

#[test]
fn a_mahimahi_link_delivers_its_mean_rate() {
    // 1,500 bytes every millisecond: 12 Mbps.
    let trace = Mahimahi::parse("1\n").unwrap();
    let config = DirectionConfig { rate: RateModel::Mahimahi(trace), ..DirectionConfig::default() };
    let (log, stats) = run(&config, (0..50_000).map(|_| (Duration::ZERO, 1200)));
    assert_eq!(log.delivered.last().unwrap().0 - START, ms(40_000));
    assert_eq!(stats.busy, ms(40_000));
}

/// Spaced so far apart that each meets an empty queue.
fn spaced(count: u64, gap: Duration) -> impl Iterator<Item = (Duration, u32)> {
    (0..count).map(move |n| (gap * n as u32, 1000))
}

fn is_in_order(log: &Log) -> bool {
    log.delivered.is_sorted_by_key(|(_, packet)| packet.payload)
}

#[test]
fn nothing_is_reordered_unless_asked() {
    let jitters = [
        Spread::Uniform(ms(0), ms(30)),
        Spread::Normal { mean: ms(10), deviation: ms(5) },
        Spread::Exponential(ms(10)),
        Spread::LogNormal { median: ms(4), sigma: 1.0 },
        Spread::Pareto { scale: ms(10), shape: 2.5 },
        Spread::Contention(ms(7)),
    ];
    let steps = vec![(ms(0), ms(50)), (ms(500), ms(5)), (ms(900), ms(70))];
    let delay = DelayModel::Schedule(Schedule::new(steps, Some(ms(1000))).unwrap());
    for spread in jitters {
        let in_order = Some(Jitter { spread, reorder: false });
        let config = DirectionConfig { jitter: in_order, delay: delay.clone(), ..constant("100 Mbps") };
        let (log, stats) = run(&config, spaced(20_000, ms(1)));
        assert!(is_in_order(&log) && stats.reordered == 0 && stats.delivered == 20_000, "{spread:?}");
        let any_order = Some(Jitter { spread, reorder: true });
        let (log, stats) = run(&DirectionConfig { jitter: any_order, ..config }, spaced(20_000, ms(1)));
        assert!(!is_in_order(&log) && stats.reordered > 1000, "{spread:?}: {}", stats.reordered);
    }
}

#[test]
fn jitter_follows_its_changes() {
    let jitter = |millis| Jitter { spread: Spread::Fixed(ms(millis)), reorder: false };
    let changes = Schedule::new(vec![(ms(0), jitter(1)), (ms(100), jitter(12)), (ms(300), jitter(0))], None).unwrap();
    // What is said of all times gives way to what is said of each.
    let config = DirectionConfig { jitter: Some(jitter(40)), jitter_changes: Some(changes), ..constant("8 Mbps") };
    let (log, _) = run(&config, spaced(40, ms(10)));
    // 1000 bytes take a millisecond.
    let taken = |(at, packet): &(Instant, Packet<u64>)| (packet.payload, *at - packet.sent - ms(1));
    for (number, extra) in log.delivered.iter().map(taken) {
        let expected = match number {
            0..10 => ms(1),
            10..30 => ms(12),
            // In order: those behind the last late one wait for it.
            30 => ms(2),
            _ => ms(0),
        };
        assert_eq!(extra, expected, "{number}");
    }
    assert_eq!(log.delivered.len(), 40);
}

#[test]
fn the_asked_amount_is_reordered_by_the_asked_time() {
    let reorder = vec![
        Reorder { share: Probability::ratio(5, 100), by: ms(5) },
        Reorder { share: Probability::ratio(1, 100), by: Duration::from_micros(1500) },
    ];
    let config = DirectionConfig { reorder, delay: ms(20).into(), ..constant("50 Mbps") };
    let count = 200_000u64;
    // 50 Mbps, 1000 bytes: a packet every 160 µs.
    let gap = Duration::from_micros(160);
    let (log, stats) = run(&config, spaced(count, gap));
    let extra = |(at, packet): &(Instant, Packet<u64>)| *at - packet.sent - ms(20) - gap;
    let late = |by: Duration| log.delivered.iter().filter(|arrival| extra(arrival) == by).count() as f64;
    let check = |found: f64, share: f64| {
        let deviation = (count as f64 * share * (1.0 - share)).sqrt();
        assert!((found - count as f64 * share).abs() < 3.9 * deviation, "{found} of {count}, expected {share}");
    };
    check(late(ms(5)), 0.05);
    // The second only takes what the first has left.
    check(late(Duration::from_micros(1500)), 0.01 * 0.95);
    assert_eq!(late(Duration::ZERO) + late(ms(5)) + late(Duration::from_micros(1500)), count as f64);
    // Each late packet has been overtaken, but for the last few.
    assert!((stats.reordered as f64 - late(ms(5)) - late(Duration::from_micros(1500))).abs() < 40.0);
}

#[test]
fn a_shifted_packet_comes_later_and_nothing_overtakes_it() {
    let us = Duration::from_micros;
    // A packet of 1,000 bytes every 80 µs at 100 Mbps: one microsecond hurts nobody else, a hundred hold up those
    // behind.
    for (by, others) in [(us(1), vec![]), (us(200), vec![(6, us(120)), (7, us(40))])] {
        let config = DirectionConfig { delay: ms(10).into(), shifts: vec![(5, by)], ..constant("100 Mbps") };
        let (log, stats) = run(&config, spaced(100, us(80)));
        for (at, packet) in &log.delivered {
            let known = others.iter().find(|(payload, _)| *payload == packet.payload).map(|(_, by)| *by);
            let expected = if packet.payload == 5 { by } else { known.unwrap_or_default() };
            assert_eq!(*at - packet.sent, ms(10) + us(80) + expected, "packet {}", packet.payload);
        }
        assert!(is_in_order(&log) && stats.reordered == 0);
    }
}

#[test]
fn the_shift_of_a_lost_packet_does_not_keep_later_ones_from_theirs() {
    let us = Duration::from_micros;
    let shifts = vec![(5, us(1)), (7, us(1))];
    let loss = vec![LossModel::Periodic { every: 1000, first: 5, burst: 1 }];
    let config = DirectionConfig { delay: ms(10).into(), shifts, loss, ..constant("100 Mbps") };
    let (log, _) = run(&config, spaced(20, us(80)));
    assert_eq!(log.dropped(), [5]);
    for (at, packet) in &log.delivered {
        let shift = if packet.payload == 7 { us(1) } else { Duration::ZERO };
        assert_eq!(*at - packet.sent, ms(10) + us(80) + shift, "packet {}", packet.payload);
    }
}

#[test]
fn the_last_packets_of_messages_can_be_lost() {
    let config = DirectionConfig { loss: vec![LossModel::Tail], ..constant("100 Mbps") };
    let (mut link, mut log) = (build(&config), Log::default());
    for n in 0..9 {
        link.send(START, Packet { tail: n % 3 == 2, ..packet(n, 1000, START) }, &mut log);
    }
    link.advance(START + ms(100), &mut log);
    assert_eq!(log.dropped(), [2, 5, 8]);
    assert_eq!(link.stats().dropped_by(DropCause::Loss), 3);
}

#[test]
fn the_two_forms_of_suspension_are_told_apart() {
    // A packet per millisecond over 12 Mbps and 10 ms, suspended from 20 to 40 ms.
    let offers = || (0..60).map(|n| (ms(n), 1500));
    let windows = vec![Windows::once(ms(20), ms(20))];
    let base = DirectionConfig { delay: ms(10).into(), ..constant("12 Mbps") };
    let times = |log: &Log| log.arrivals().into_iter().map(|(_, at)| at / 1_000_000).collect::<Vec<_>>();

    let before = DirectionConfig { suspend_before: windows.clone(), ..base.clone() };
    let (log, stats) = run(&before, offers());
    // The packet on the line at 20 ms arrives at 30; the next leaves the sender's side at 40 and all follow at the
    // link's rate.
    assert_eq!(times(&log), (11..=30).chain(51..=90).collect::<Vec<_>>());
    assert_eq!(stats.max_queue_packets, 20);
    assert!(is_in_order(&log));

    let after = DirectionConfig { suspend_after: windows, ..base };
    let (log, stats) = run(&after, offers());
    // What would arrive from 20 to 39 ms arrives at 40, at once; the queue never knew.
    let expected: Vec<u64> = (11..=70).map(|at| if (20..40).contains(&at) { 40 } else { at }).collect();
    assert_eq!(times(&log), expected);
    assert_eq!(stats.max_queue_packets, 0);
    assert!(is_in_order(&log));
}

#[test]
fn a_suspension_may_take_its_first_packet_and_overflow_the_queue() {
    let window = Window { start: ms(20), end: ms(40), lose_first: true };
    let config = DirectionConfig {
        suspend_before: vec![Windows::List(vec![window])],
        queue: QueueLimit::Packets(10),
        ..constant("12 Mbps")
    };
    let (log, stats) = run(&config, (0..60).map(|n| (ms(n), 1500)));
    assert_eq!(stats.dropped_by(DropCause::Suspension), 1);
    assert_eq!(log.dropped.iter().find(|drop| drop.2 == DropCause::Suspension).unwrap().1, 20);
    assert!(stats.dropped_by(DropCause::QueueFull) >= 10);
}

#[test]
fn suspensions_hold_mahimahi_links_too() {
    let trace = Mahimahi::parse("1\n").unwrap();
    let config = DirectionConfig {
        rate: RateModel::Mahimahi(trace),
        suspend_before: vec![Windows::once(ms(20), ms(20))],
        ..DirectionConfig::default()
    };
    let (log, _) = run(&config, (0..60).map(|n| (ms(n), 1500)));
    let times: Vec<u64> = log.arrivals().into_iter().map(|(_, at)| at / 1_000_000).collect();
    assert_eq!(times, (1..20).chain(40..=80).collect::<Vec<_>>());
}

#[test]
fn an_outage_loses_what_leaves_the_queue_in_it() {
    let config = DirectionConfig { outages: vec![Windows::once(ms(20), ms(20))], ..constant("12 Mbps") };
    let (log, stats) = run(&config, (0..60).map(|n| (ms(n), 1500)));
    assert_eq!(log.dropped(), (19..39).collect::<Vec<_>>());
    assert_eq!(stats.dropped_by(DropCause::Outage), 20);
    // It took its time on the line all the same.
    assert_eq!(stats.served, 60);
}

#[test]
fn the_mtu_changes_at_its_time() {
    let mtu = Some(Schedule::new(vec![(ms(0), 1500), (ms(30), 1394)], None).unwrap());
    let config = DirectionConfig { mtu, ..constant("100 Mbps") };
    let sizes = [1500, 1394, 1501];
    let (log, stats) = run(&config, (0..60).map(|n| (ms(n), sizes[n as usize % 3])));
    let expected: Vec<u64> = (0..60).filter(|n| sizes[*n as usize % 3] > if *n < 30 { 1500 } else { 1394 }).collect();
    assert_eq!(log.dropped(), expected);
    assert_eq!(stats.dropped_by(DropCause::TooBig), expected.len() as u64);
}

#[test]
fn a_policer_drops_what_comes_too_fast_and_delays_nothing() {
    let config = DirectionConfig {
        policer: Some(Policer { rate: "12 Mbps".parse().unwrap(), burst: 15_000 }),
        ..constant("1 Gbps")
    };
    // Twice the rate for ten seconds.
    let (log, stats) = run(&config, (0..20_000).map(|n| (Duration::from_micros(500 * n), 1500)));
    let passed = stats.delivered;
    assert!((10_009..=10_011).contains(&passed), "{passed}");
    assert_eq!(stats.dropped_by(DropCause::Policed), 20_000 - passed);
    assert!(log.delivered.iter().all(|(at, packet)| *at - packet.sent == Duration::from_micros(12)));
}

#[test]
fn ecn_is_bleached_from_its_time_on() {
    let steps = vec![(ms(0), EcnTreatment::Keep), (ms(30), EcnTreatment::Bleach)];
    let config = DirectionConfig { ecn: Some(Schedule::new(steps, None).unwrap()), ..constant("100 Mbps") };
    let mut link = build(&config);
    let mut log = Log::default();
    for n in 0..60 {
        let at = START + ms(n);
        link.send(at, Packet { ecn: Ecn::Ect0, ..packet(n, 1000, at) }, &mut log);
    }
    link.advance(START + ms(100), &mut log);
    for (_, packet) in &log.delivered {
        let expected = if packet.payload < 30 { Ecn::Ect0 } else { Ecn::NotEct };
        assert_eq!(packet.ecn, expected, "{}", packet.payload);
    }
}

#[test]
fn duplicates_and_damage_come_in_their_share() {
    let config = DirectionConfig {
        duplicate: Probability::ratio(1, 10),
        corrupt: Probability::ratio(1, 20),
        ..constant("100 Mbps")
    };
    let count = 100_000;
    let (log, stats) = run(&config, spaced(count, Duration::from_micros(100)));
    assert_eq!(log.delivered.len() as u64, count + stats.duplicated);
    assert!((stats.duplicated as f64 - 10_000.0).abs() < 3.9 * 95.0, "{}", stats.duplicated);
    assert!((stats.corrupted as f64 - 5_000.0).abs() < 3.9 * 69.0, "{}", stats.corrupted);
    let mut intact = vec![0u32; count as usize];
    for (_, packet) in &log.delivered {
        if let Some(seen) = intact.get_mut(packet.payload as usize) {
            *seen += 1;
        }
    }
    // A damaged payload is another number, so its own is missing.
    let missing = intact.iter().filter(|seen| **seen == 0).count() as f64;
    assert!((missing - 5_000.0).abs() < 300.0, "{missing}");
}

#[test]
fn an_impairment_more_leaves_the_dice_of_the_others_alone() {
    let loss = LossModel::Random(Probability::ratio(1, 50));
    let base = DirectionConfig { loss: vec![loss], ..constant("100 Mbps") };
    let offers = || spaced(20_000, Duration::from_micros(100));
    let lost = |config: &DirectionConfig| -> Vec<u64> {
        let (log, _) = run(config, offers());
        log.dropped.iter().filter(|drop| drop.2 == DropCause::Loss).map(|drop| drop.1).collect()
    };
    let jitter = Some(Jitter { spread: Spread::Exponential(ms(3)), reorder: true });
    let more = DirectionConfig {
        jitter,
        duplicate: Probability::ratio(1, 10),
        corrupt: Probability::ratio(1, 10),
        reorder: vec![Reorder { share: Probability::ratio(1, 10), by: ms(5) }],
        ..base.clone()
    };
    let (plain, with_more) = (lost(&base), lost(&more));
    assert!((300..500).contains(&plain.len()));
    assert_eq!(plain, with_more);
    // A second loss model adds to the first.
    let periodic = LossModel::Periodic { every: 1000, first: 0, burst: 1 };
    let two = DirectionConfig { loss: [&base.loss[..], &[periodic]].concat(), ..base };
    let both = lost(&two);
    assert!(plain.iter().all(|ordinal| both.contains(ordinal)) && both.len() > plain.len());
}

#[test]
fn a_flow_more_leaves_the_dice_of_the_others_alone() {
    let share = |den| Probability::ratio(1, den);
    let config = DirectionConfig {
        loss: vec![LossModel::Random(share(20))],
        jitter: Some(Jitter { spread: Spread::Exponential(ms(1)), reorder: true }),
        reorder: vec![Reorder { share: share(10), by: ms(5) }],
        duplicate: share(30),
        corrupt: share(40),
        ..constant("1 Gbps")
    };
    // What becomes of flow 0, alone and with another flow between its packets: which arrive, how damaged, and how late.
    let fates = |others: u64| {
        let (mut link, mut log) = (build(&config), Log::default());
        for n in 0..5_000 {
            let at = START + Duration::from_micros(100 * n);
            link.advance(at, &mut log);
            link.send(at, packet(n << 32, 500, at), &mut log);
            for _ in 0..others {
                link.send(at, Packet { flow: 1, ..packet(u64::MAX, 500, at) }, &mut log);
            }
        }
        link.advance(START + Duration::from_secs(10), &mut log);
        let mine = log.delivered.iter().filter(|(_, packet)| packet.flow == 0);
        let mut mine: Vec<_> = mine.map(|(at, packet)| (packet.payload, *at - packet.sent)).collect();
        mine.sort_unstable();
        (mine, log.delivered.len())
    };
    let ((alone, few), (among, many)) = (fates(0), fates(3));
    assert_eq!(alone, among);
    assert!((4_500..5_200).contains(&few) && many > 3 * few, "{few} {many}");
}

#[test]
fn a_rate_that_drops_to_half_takes_effect_at_its_time() {
    let steps = vec![(ms(0), Rate::from_bps(12_000_000)), (ms(100), Rate::from_bps(6_000_000))];
    let config = DirectionConfig {
        rate: RateModel::Schedule(Schedule::new(steps, None).unwrap()),
        queue: QueueLimit::Time(ms(20)),
        ..DirectionConfig::default()
    };
    let (log, stats) = run(&config, (0..300).map(|n| (ms(n), 1500)));
    let in_first = log.delivered.iter().filter(|(at, _)| *at <= START + ms(100)).count();
    let in_second = log.delivered.iter().filter(|(at, _)| *at > START + ms(100) && *at <= START + ms(200)).count();
    assert_eq!((in_first, in_second), (100, 50));
    // 20 ms are 15,000 bytes at the lower rate.
    assert_eq!(stats.max_queue_bytes, 15_000);
    assert!(stats.sojourn.max() <= ms(20));
}

#[test]
fn a_limit_in_time_stays_while_the_link_stands_still() {
    let steps = vec![(ms(0), Rate::from_bps(12_000_000)), (ms(10), Rate::ZERO), (ms(20), Rate::from_bps(12_000_000))];
    let config = DirectionConfig {
        rate: RateModel::Schedule(Schedule::new(steps, None).unwrap()),
        queue: QueueLimit::Time(ms(5)),
        ..DirectionConfig::default()
    };
    let (log, stats) = run(&config, (0..20).map(|n| (ms(n), 1500)));
    // One is being sent when the link stops, five wait, the rest is dropped.
    assert_eq!(log.dropped(), (16..20).collect::<Vec<_>>());
    assert_eq!(stats.delivered, 16);
}

#[test]
fn sojourn_times_are_those_of_the_queue() {
    let (_, stats) = run(&constant("12 Mbps"), (0..100).map(|_| (Duration::ZERO, 1500)));
    // 0, 1, 2, … 99 ms.
    assert_eq!(stats.sojourn.max(), ms(99));
    assert_eq!(stats.sojourn.mean(), Duration::from_micros(49_500));
    let median = stats.sojourn.quantile(1, 2);
    assert!(median <= ms(49) && median > ms(47), "{median:?}");
    assert_eq!(stats.events(), 300);
}

#[test]
fn a_link_that_dies_keeps_what_it_has_and_says_that_nothing_comes() {
    let steps = vec![(ms(0), Rate::from_bps(12_000_000)), (ms(5), Rate::ZERO)];
    let config = DirectionConfig {
        rate: RateModel::Schedule(Schedule::new(steps, None).unwrap()),
        ..DirectionConfig::default()
    };
    let mut link = build(&config);
    let mut log = Log::default();
    for n in 0..10 {
        link.send(START, packet(n, 1500, START), &mut log);
    }
    while let Some(at) = link.next_event() {
        link.advance(at, &mut log);
    }
    assert_eq!(log.delivered.len(), 5);
    assert!(!link.is_empty());
}

/// A queue from outside the crate: last in, first out, with a mark for every packet.
#[derive(Debug, Default)]
struct Stack(Vec<Queued<u64>>);

impl Queue<u64> for Stack {
    fn enqueue(&mut self, now: Instant, mut packet: Packet<u64>, _: &mut Vec<Dropped<u64>>) {
        packet.ecn = Ecn::Ce;
        self.0.push(Queued { packet, at: now });
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<u64>>) -> Option<Queued<u64>> {
        let top = self.0.pop()?;
        if top.packet.payload == 2 {
            dropped.push(Dropped { packet: top.packet, at: now, cause: DropCause::Aqm });
            return self.0.pop();
        }
        Some(top)
    }

    fn len_bytes(&self) -> u64 {
        self.0.iter().map(|queued| u64::from(queued.packet.size)).sum()
    }

    fn len_packets(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn a_queue_may_come_from_elsewhere() {
    let streams = Streams::new(1);
    let mut link = Direction::with_queue(&constant("12 Mbps"), Box::new(Stack::default()), START, &streams).unwrap();
    let mut log = Log::default();
    for n in 0..4 {
        link.send(START, packet(n, 1500, START), &mut log);
    }
    link.advance(START + ms(10), &mut log);
    assert_eq!(log.arrivals(), [(0, 1_000_000), (3, 2_000_000), (1, 3_000_000)]);
    assert_eq!(link.stats().dropped_by(DropCause::Aqm), 1);
    assert_eq!(link.stats().marked, 3);
    assert_eq!(log.departed.len(), 3);
}

/// Holds every packet back for ten milliseconds, except those of flow 1, which pass the others.
#[derive(Debug, Default)]
struct Holding(Vec<(Queued<u64>, Instant)>);

impl Queue<u64> for Holding {
    fn enqueue(&mut self, now: Instant, packet: Packet<u64>, _: &mut Vec<Dropped<u64>>) {
        let hold = if packet.flow == 1 { ms(0) } else { ms(10) };
        self.0.push((Queued { packet, at: now }, now + hold));
    }

    fn dequeue(&mut self, now: Instant, _: &mut Vec<Dropped<u64>>) -> Option<Queued<u64>> {
        let at = self.0.iter().position(|(_, due)| *due <= now)?;
        Some(self.0.remove(at).0)
    }

    fn next_event(&self) -> Option<Instant> {
        self.0.iter().map(|(_, due)| *due).min()
    }

    fn len_bytes(&self) -> u64 {
        self.0.iter().map(|(queued, _)| u64::from(queued.packet.size)).sum()
    }

    fn len_packets(&self) -> usize {
        self.0.len()
    }
}

/// Offers packets of these flows at these milliseconds to a queue that holds back, and runs to the end.
fn held_back(config: &DirectionConfig, offers: &[(u64, u32)]) -> (Log, DirectionStats) {
    let mut link =
        Direction::with_queue(config, Box::new(Holding::default()), START, &Streams::new(1).scope("link")).unwrap();
    let mut log = Log::default();
    for (n, (at, flow)) in (0..).zip(offers) {
        while let Some(event) = link.next_event().filter(|event| *event <= START + ms(*at)) {
            link.advance(event, &mut log);
        }
        let now = START + ms(*at);
        link.send(now, Packet { flow: *flow, ..packet(n, 1500, now) }, &mut log);
    }
    let mut events = 0;
    while let Some(event) = link.next_event() {
        let delivered = log.delivered.len();
        link.advance(event, &mut log);
        assert!(log.delivered[delivered..].iter().all(|(at, _)| *at == event), "late: {:?}", log.delivered);
        events += 1;
        assert!(events < 1000, "time stands still");
    }
    assert!(link.is_empty() && link.queue_packets() == 0);
    (log, link.stats().clone())
}

#[test]
fn a_queue_may_hold_packets_back() {
    let link = constant("12 Mbps"); // 1,500 bytes per millisecond
    let nanos = |millis: &[(u64, u64)]| millis.iter().map(|(n, at)| (*n, at * 1_000_000)).collect::<Vec<_>>();
    // Three at once are due at 10 ms and leave one after the other.
    let (log, stats) = held_back(&link, &[(0, 0), (0, 0), (0, 0)]);
    assert_eq!(log.arrivals(), nanos(&[(0, 11), (1, 12), (2, 13)]));
    assert_eq!((stats.busy, stats.sojourn.max()), (ms(13), ms(12)));
    // One that need not wait is served while the others are held back, and one that is due waits for the one in
    // service.
    let (log, _) = held_back(&link, &[(0, 0), (4, 1), (9, 1), (9, 1)]);
    assert_eq!(log.arrivals(), nanos(&[(1, 5), (2, 10), (0, 11), (3, 12)]));
    // Holding back again after a rest.
    let (log, _) = held_back(&link, &[(0, 0), (50, 0)]);
    assert_eq!(log.arrivals(), nanos(&[(0, 11), (1, 61)]));
}

#[test]
fn holding_back_goes_together_with_delays_suspensions_and_traces() {
    let delayed = DirectionConfig { delay: ms(30).into(), ..constant("12 Mbps") };
    let (log, _) = held_back(&delayed, &[(0, 0)]);
    assert_eq!(log.arrivals(), [(0, 41_000_000)]);
    // Due while the link is suspended: leaves when both are over.
    let suspended = DirectionConfig { suspend_before: vec![Windows::once(ms(5), ms(15))], ..constant("12 Mbps") };
    let (log, _) = held_back(&suspended, &[(0, 0), (15, 0)]);
    assert_eq!(log.arrivals(), [(0, 21_000_000), (1, 26_000_000)]);
    // Opportunities that come before are lost.
    let rate = RateModel::Mahimahi(Mahimahi::parse("1\n4\n").unwrap());
    let (log, _) = held_back(&DirectionConfig { rate, ..DirectionConfig::default() }, &[(0, 0), (0, 1)]);
    assert_eq!(log.arrivals(), [(1, 1_000_000), (0, 12_000_000)]);
}

#[test]
fn the_same_seed_does_the_same() {
    let config = DirectionConfig {
        jitter: Some(Jitter { spread: Spread::LogNormal { median: ms(2), sigma: 0.7 }, reorder: true }),
        loss: vec![LossModel::Random(Probability::ratio(1, 100))],
        outages: vec![Windows::Random { gap: ms(500), length: Spread::Exponential(ms(20)) }],
        suspend_after: vec![Windows::Random { gap: ms(300), length: Spread::Uniform(ms(1), ms(50)) }],
        ..constant("20 Mbps")
    };
    let once = run(&config, spaced(20_000, Duration::from_micros(300)));
    let again = run(&config, spaced(20_000, Duration::from_micros(300)));
    assert_eq!(once.0.delivered, again.0.delivered);
    assert_eq!(once.1, again.1);
}

#[test]
fn every_packet_is_delivered_or_accounted_for() {
    let (mut up, mut down) = (constant("10 Mbps"), constant("10 Mbps"));
    let profile = WifiProfile { every: Duration::from_secs(2), ..WifiProfile::default() };
    profile.apply(&mut up, &mut down, &Streams::new(3), Duration::from_secs(60)).unwrap();
    for config in [up, down] {
        let (log, stats) = run(&config, (0..40_000).map(|n| (Duration::from_micros(1300 * n), 1500)));
        assert_eq!(stats.delivered + stats.dropped_total(), stats.offered);
        assert!(is_in_order(&log));
        assert!(stats.dropped_by(DropCause::Loss) > 20);
        // Events overlap now and then.
        assert!(stats.sojourn.max() > ms(150) && stats.sojourn.max() <= ms(900), "{:?}", stats.sojourn.max());
    }
}
