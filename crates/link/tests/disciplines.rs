//! Invariants of every queue discipline, whatever the traffic, the limit and the clock.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_link::queue::{
    Adaptation, CoDel, Cobalt, DelayEstimate, Discipline, Dropped, DualLaw, DualPi2, FqCodel, FqPie, HeadDrop, Hred,
    Kind, Law, NotEct, Pie, PieVariant, Predict, Queue, Red, Setup, SfqCodel, TailDrop,
};
use thalweg_link::{Direction, DirectionConfig, DropCause, Packet, QueueLimit, RateModel, Sink, Streams};
use thalweg_units::{Duration, Ecn, Instant, Rate};

const START: Instant = Instant::from_nanos(1_000_000_000);

type Build = fn(Setup) -> Box<dyn Queue<u64>>;

/// Every discipline, with options that change what it does.
const QUEUES: &[(&str, Build)] = &[
    ("tail-drop", |setup| TailDrop.build(setup)),
    ("head-drop", |setup| HeadDrop.build(setup)),
    ("codel", |setup| CoDel::default().build(setup)),
    ("codel, linux", |setup| CoDel { law: Law::Linux, ecn: false, ..CoDel::default() }.build(setup)),
    ("codel, l4s", |setup| {
        let ce_threshold = Some(Duration::from_millis(1));
        CoDel { ce_threshold, l4s: true, ..CoDel::default() }.build(setup)
    }),
    ("pie", |setup| Pie::default().build(setup)),
    ("pie, linux", |setup| Pie { bytes: true, ..Pie::variant(PieVariant::Linux) }.build(setup)),
    ("pie, ns-3", |setup| Pie::variant(PieVariant::Ns3).build(setup)),
    ("pie, paper", |setup| Pie { delay: DelayEstimate::Rate, ..Pie::variant(PieVariant::Paper) }.build(setup)),
    ("red", |setup| Red::default().build(setup)),
    ("red, adaptive", |setup| {
        let target = Some(Duration::from_millis(5));
        Red { adapt: Adaptation::Floyd, target, wait: false, nonlinear: true, ..Red::default() }.build(setup)
    }),
    ("red, bytes", |setup| {
        Red { adapt: Adaptation::Feng, bytes: true, gentle: false, hard_drop: false, ..Red::default() }.build(setup)
    }),
    ("hred", |setup| Hred::default().build(setup)),
    ("fq-codel", |setup| FqCodel::default().build(setup)),
    ("fq-codel, collisions", |setup| {
        let codel = CoDel { law: Law::Linux, ..CoDel::default() };
        FqCodel { queues: 2, codel, quantum: 300, ..FqCodel::default() }.build(setup)
    }),
    ("sfq-codel", |setup| SfqCodel::default().build(setup)),
    ("sfq-codel, collisions", |setup| SfqCodel { queues: 3, ..SfqCodel::default() }.build(setup)),
    ("fq-pie", |setup| FqPie::default().build(setup)),
    ("fq-pie, collisions", |setup| {
        FqPie { pie: Pie::variant(PieVariant::Linux), queues: 2, quantum: 300 }.build(setup)
    }),
    ("cobalt", |setup| Cobalt::default().build(setup)),
    ("dualpi2", |setup| DualPi2::default().build(setup)),
    ("dualpi2, linux", |setup| DualPi2::law(DualLaw::Linux).build(setup)),
    ("predict", |setup| Predict::default().build(setup)),
    ("predict, codel", |setup| {
        Predict { codel: true, not_ect: NotEct::Drop, mark_for: 16_000, theta: 100, ..Predict::default() }.build(setup)
    }),
];

#[test]
fn no_discipline_is_left_out() {
    for (name, ..) in Discipline::ALL {
        let is_here = QUEUES.iter().any(|(tested, _)| tested == name);
        // Disciplines with tests of their own in this form name them here.
        assert!(is_here, "add {name} to QUEUES");
    }
}

/// A flow keeps its marking, which DualPI2 goes by.
fn ecn_of(flow: u32) -> Ecn {
    [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct][flow as usize % 4]
}

#[derive(Copy, Clone, Debug)]
enum Step {
    Offer { flow: u32, size: u32 },
    Serve,
    Wait(Duration),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..9, 28u32..1501).prop_map(|(flow, size)| Step::Offer { flow, size }),
        1 => (any::<u32>(), 28u32..70_000).prop_map(|(flow, size)| Step::Offer { flow, size }),
        4 => Just(Step::Serve),
        // A clock that does not move, that crawls, that runs, and that jumps an hour.
        4 => (0u64..3_000_000).prop_map(|nanos| Step::Wait(Duration::from_nanos(nanos))),
        1 => (0u64..200).prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
    ];
    let jump = Just(Step::Wait(Duration::from_secs(3600)));
    proptest::collection::vec(prop_oneof![60 => step, 1 => jump], 1..400)
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Infinite),
        (1u64..60_000).prop_map(QueueLimit::Bytes),
        (1u64..60).prop_map(QueueLimit::Packets),
        (1u64..100).prop_map(|ms| QueueLimit::Time(Duration::from_millis(ms))),
    ]
}

/// What waits, as it must be.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<u64, Packet<u64>>,
    /// The last packet of each flow that came out.
    last: BTreeMap<u32, u64>,
}

impl Model {
    fn out(&mut self, packet: &Packet<u64>, in_order: bool) {
        let came = self.waiting.remove(&packet.payload).expect("a packet from nowhere, or a second time");
        let marked = packet.ecn == Ecn::Ce && came.ecn != Ecn::NotEct;
        assert!(packet.ecn == came.ecn || marked, "{:?} became {:?}", came.ecn, packet.ecn);
        assert_eq!((packet.size, packet.flow, packet.sent), (came.size, came.flow, came.sent));
        if in_order {
            let last = self.last.insert(packet.flow, packet.payload);
            assert!(last.is_none_or(|last| last < packet.payload), "flow {} is reordered", packet.flow);
        }
    }

    fn check(&mut self, queue: &dyn Queue<u64>, dropped: &mut Vec<Dropped<u64>>) {
        for drop in dropped.drain(..) {
            assert!(matches!(drop.cause, DropCause::QueueFull | DropCause::Aqm));
            self.out(&drop.packet, false);
        }
        let bytes: u64 = self.waiting.values().map(|packet| u64::from(packet.size)).sum();
        assert_eq!((queue.len_bytes(), queue.len_packets()), (bytes, self.waiting.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_created_duplicated_reordered_or_forgotten(steps in steps(), limit in limits(), seed: u64) {
        let rate = Rate::from_bps(12_000_000);
        for (name, build) in QUEUES {
            let mut queue = build(Setup { limit, rate, start: START, dice: Streams::new(seed).dice("queue") });
            queue.set_rate(rate);
            let (mut now, mut model, mut dropped) = (START, Model::default(), Vec::new());
            for (payload, step) in (0..).zip(&steps) {
                match *step {
                    Step::Offer { flow, size } => {
                        let packet = Packet { payload, size, flow, connection: 0, ecn: ecn_of(flow), sent: now, tail: false };
                        model.waiting.insert(payload, packet.clone());
                        queue.enqueue(now, packet, &mut dropped);
                        let least = match limit {
                            QueueLimit::Bytes(bytes) => queue.len_bytes() <= bytes,
                            QueueLimit::Packets(packets) => queue.len_packets() as u64 <= packets,
                            QueueLimit::Time(span) => queue.len_bytes() <= rate.bytes_in(span).max(QueueLimit::LEAST),
                            _ => true,
                        };
                        prop_assert!(least, "{}: more waits than may", name);
                    }
                    Step::Serve => match queue.dequeue(now, &mut dropped) {
                        Some(queued) => {
                            prop_assert!(queued.at <= now);
                            model.out(&queued.packet, true);
                        }
                        None => prop_assert_eq!(queue.len_packets(), 0, "{} holds back", name),
                    },
                    Step::Wait(span) => now += span,
                }
                model.check(&*queue, &mut dropped);
                queue.signals(&mut |signal, value| assert!(value.is_finite(), "{signal}"));
            }
            // What is left comes out, in order and in bounded time.
            while let Some(queued) = queue.dequeue(now, &mut dropped) {
                model.out(&queued.packet, true);
                model.check(&*queue, &mut dropped);
            }
            model.check(&*queue, &mut dropped);
            prop_assert!(model.waiting.is_empty(), "{}: something is left", name);
        }
    }
}

#[derive(Default)]
struct Count(u64);

impl Sink<u64> for Count {
    fn deliver(&mut self, _: Instant, _: Packet<u64>) {
        self.0 += 1;
    }
}

/// A link whose queue is overloaded by half for four seconds: what was counted.
fn overload(discipline: Discipline, ecn: Ecn) -> (thalweg_link::DirectionStats, u64) {
    let config = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(12_000_000)),
        queue: QueueLimit::Packets(1000),
        discipline,
        ..DirectionConfig::default()
    };
    let mut link: Direction<u64> = Direction::new(&config, START, &Streams::new(1)).unwrap();
    let mut sink = Count::default();
    for payload in 0..6_000 {
        let now = START + Duration::from_micros(667) * payload;
        while let Some(at) = link.next_event().filter(|at| *at <= now) {
            link.advance(at, &mut sink);
        }
        let flow = payload % 4;
        let packet =
            Packet { payload: u64::from(payload), size: 1500, flow, connection: 0, ecn, sent: now, tail: false };
        link.send(now, packet, &mut sink);
    }
    while let Some(at) = link.next_event() {
        link.advance(at, &mut sink);
    }
    assert!(link.is_empty());
    (link.stats().clone(), sink.0)
}

#[test]
fn a_link_counts_drops_marks_and_delays_by_flow_and_none_stalls() {
    // Predict answers a load that grows, not one that stands.
    let is_managed = |discipline: &Discipline| {
        !matches!(discipline, Discipline::TailDrop(_) | Discipline::HeadDrop(_) | Discipline::Predict(_))
    };
    let managed = Discipline::every().filter(is_managed);
    for discipline in managed {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let (stats, delivered) = overload(discipline.clone(), ecn);
            assert_eq!(stats.offered, 6_000);
            assert_eq!(delivered + stats.dropped_total(), 6_000, "{discipline:?}");
            let sum = |cause: DropCause| stats.flows.iter().map(|flow| flow.dropped[cause.index()]).sum::<u64>();
            for cause in [DropCause::Aqm, DropCause::QueueFull] {
                assert_eq!(sum(cause), stats.dropped_by(cause));
            }
            assert_eq!(stats.flows.iter().map(|flow| flow.marked).sum::<u64>(), stats.marked);
            assert_eq!(stats.flows.iter().map(|flow| flow.sojourn.count()).sum::<u64>(), stats.sojourn.count());
            let longest = stats.flows.iter().map(|flow| flow.sojourn.max()).max();
            assert_eq!(longest, Some(stats.sojourn.max()));
            assert_eq!(stats.flows.len(), 4);
            let early = stats.dropped_by(DropCause::Aqm);
            if ecn == Ecn::NotEct {
                assert!(early > 0 && stats.marked == 0, "{discipline:?}: {early} {}", stats.marked);
            } else if discipline != SfqCodel::default().into() {
                assert!(stats.marked > 0, "{discipline:?}: nothing marked of {ecn:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_decides_the_same() {
    for discipline in [Discipline::from(Pie::default()), Red::default().into(), FqCodel::default().into()] {
        assert_eq!(overload(discipline.clone(), Ecn::NotEct), overload(discipline, Ecn::NotEct));
    }
}
