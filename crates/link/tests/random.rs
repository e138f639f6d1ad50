//! Random configurations of a direction, and random traffic over it: nothing is late, nothing is lost without a trace.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use thalweg_link::queue::{HeadDrop, TailDrop};
use thalweg_link::trace::Mahimahi;
use thalweg_link::*;
use thalweg_units::{Duration, Ecn, Instant, Rate};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rates() -> impl Strategy<Value = RateModel> {
    let rate = || prop_oneof![1_000u64..1_000_000, 1_000_000u64..100_000_000].prop_map(Rate::from_bps);
    let steps = proptest::collection::vec((1u64..300, prop_oneof![1 => Just(Rate::ZERO), 3 => rate()]), 1..5);
    prop_oneof![
        rate().prop_map(RateModel::Constant),
        (rate(), steps, 1u64..500).prop_map(|(first, steps, rest)| {
            let mut at = 0;
            let mut all = vec![(Duration::ZERO, first)];
            for (gap, rate) in steps {
                at += gap;
                all.push((ms(at), rate));
            }
            RateModel::Schedule(Schedule::new(all, Some(ms(at + rest))).unwrap())
        }),
        proptest::collection::vec(1u64..200, 1..50)
            .prop_map(|times| RateModel::Mahimahi(Mahimahi::from_millis(times).unwrap())),
    ]
}

fn windows() -> impl Strategy<Value = Vec<Windows>> {
    let list = proptest::collection::vec((0u64..3000, 1u64..300, any::<bool>()), 0..6).prop_map(|list| {
        let window = |(start, length, lose_first)| Window { start: ms(start), end: ms(start + length), lose_first };
        Windows::List(list.into_iter().map(window).collect())
    });
    let periodic = (0u64..500, 100u64..900, 1u64..99).prop_map(|(first, every, length)| Windows::Periodic {
        first: ms(first),
        every: ms(every),
        length: ms(length),
    });
    let random =
        (50u64..900).prop_map(|gap| Windows::Random { gap: ms(gap), length: Spread::Exponential(ms(gap / 4)) });
    proptest::collection::vec(prop_oneof![list, periodic, random], 0..3)
}

fn queues() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Infinite),
        (1u64..100_000).prop_map(QueueLimit::Bytes),
        (1u64..100).prop_map(QueueLimit::Packets),
        (1u64..500).prop_map(|span| QueueLimit::Time(ms(span))),
        (1u64..3000).prop_map(QueueLimit::Bdp),
    ]
}

fn shares() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(Probability::NEVER), (0u64..400).prop_map(|share| Probability::ratio(share, 1000))]
}

prop_compose! {
    fn configs()(
        rate in rates(),
        delays in (0u64..100, 0u64..100, 1u64..900),
        queue in queues(),
        head_drop: bool,
        jitter in proptest::option::of((0u64..50, any::<bool>())),
        shares in [shares(), shares(), shares(), shares()],
        outages in windows(),
        suspend_before in windows(),
        suspend_after in windows(),
        shifts in proptest::collection::vec((0u64..300, 0u64..1_000_000), 0..4),
        policer in proptest::option::of((1u64..50_000_000, 1u64..100_000)),
        mtu in proptest::option::of(500u32..2000),
    ) -> DirectionConfig {
        let steps = vec![(ms(0), ms(delays.0)), (ms(delays.2), ms(delays.1))];
        let [loss, duplicate, corrupt, reorder] = shares;
        DirectionConfig {
            rate,
            delay: DelayModel::Schedule(Schedule::new(steps, Some(ms(1000))).unwrap()),
            queue,
            discipline: if head_drop { HeadDrop.into() } else { TailDrop.into() },
            jitter: jitter.map(|(mean, reorder)| Jitter { spread: Spread::Exponential(ms(mean)), reorder }),
            loss: vec![LossModel::Random(loss)],
            reorder: vec![Reorder { share: reorder, by: ms(7) }],
            shifts: shifts.into_iter().map(|(ordinal, nanos)| (ordinal, Duration::from_nanos(nanos))).collect(),
            duplicate,
            corrupt,
            outages,
            suspend_before,
            suspend_after,
            policer: policer.map(|(bps, burst)| Policer { rate: Rate::from_bps(bps), burst }),
            mtu: mtu.map(Schedule::constant),
            round_trip: ms(50),
            ..DirectionConfig::default()
        }
    }
}

/// Checks the times of events.
#[derive(Default)]
struct Checked {
    delivered: Vec<(Instant, u64)>,
    dropped: u64,
}

impl Sink<u64> for Checked {
    fn deliver(&mut self, at: Instant, packet: Packet<u64>) {
        self.delivered.push((at, packet.payload));
    }

    fn dropped(&mut self, _: Instant, _: Packet<u64>, _: DropCause) {
        self.dropped += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn nothing_is_late_and_nothing_vanishes(
        config in configs(),
        seed: u64,
        offers in proptest::collection::vec((0u64..20_000, 28u32..2000), 1..300),
    ) {
        let mut link: Direction<u64> = Direction::new(&config, START, &Streams::new(seed)).unwrap();
        let mut sink = Checked::default();
        let mut now = START;
        let mut steps = 0u64;
        let mut step = |link: &mut Direction<u64>, sink: &mut Checked, at: Instant| {
            let known = sink.delivered.len();
            link.advance(at, sink);
            steps += 1;
            assert!(steps < 2_000_000, "an event that never ends");
            sink.delivered[known..].iter().all(|(when, _)| *when == at)
        };
        for (payload, (gap, size)) in (0..).zip(&offers) {
            now += Duration::from_micros(*gap);
            while let Some(at) = link.next_event().filter(|at| *at <= now) {
                prop_assert!(step(&mut link, &mut sink, at), "a delivery at another time than announced");
            }
            link.send(now, Packet { payload, size: *size, flow: 0, connection: 0, ecn: Ecn::Ect0, sent: now, tail: false }, &mut sink);
        }
        while let Some(at) = link.next_event() {
            prop_assert!(step(&mut link, &mut sink, at), "a delivery at another time than announced");
        }
        let stats = link.stats();
        prop_assert!(link.is_empty());
        prop_assert_eq!(stats.offered, offers.len() as u64);
        prop_assert_eq!(stats.delivered + stats.dropped_total(), stats.offered + stats.duplicated);
        prop_assert_eq!(stats.delivered, sink.delivered.len() as u64);
        prop_assert_eq!(stats.dropped_total(), sink.dropped);
        prop_assert!(sink.delivered.is_sorted_by_key(|(at, _)| *at));
        let asked = config.reorder[0].share > Probability::NEVER || config.jitter.is_some_and(|jitter| jitter.reorder);
        prop_assert!(asked || stats.reordered == 0);
    }
}
