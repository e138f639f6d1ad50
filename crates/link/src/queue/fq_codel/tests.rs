use thalweg_units::{Duration, Ecn};

use super::*;
use crate::queue::testing::{Bench, at_micros};
use crate::{QueueLimit, Streams};

const A: u32 = 1;
const B: u32 = 2;

/// A queue with its own types, in which flows A and B do not collide.
struct Pair {
    queue: Managed<u64>,
    dropped: Vec<Dropped<u64>>,
    next: u64,
}

impl Pair {
    fn new(fq: &FqCodel, limit: QueueLimit) -> Pair {
        let rate = "10 Mbps".parse().unwrap();
        let mut setup = Setup { limit, rate, start: Instant::ZERO, dice: Streams::new(1).dice("queue") };
        Pair { queue: Managed::new(fq, &mut setup), dropped: Vec::new(), next: 0 }
    }

    fn push(&mut self, flow: u32, size: u32) {
        let packet = Packet {
            payload: self.next,
            size,
            flow,
            connection: 0,
            ecn: Ecn::NotEct,
            sent: Instant::ZERO,
            tail: false,
        };
        self.next += 1;
        self.queue.enqueue(Instant::ZERO, packet, &mut self.dropped);
    }

    fn pop(&mut self) -> Option<u32> {
        self.queue.dequeue(Instant::ZERO, &mut self.dropped).map(|queued| queued.packet.flow)
    }

    fn slot(&self, flow: u32) -> usize {
        self.queue.hash.slot(u64::from(flow), self.queue.queues)
    }

    /// What A and B may still send, and whether they take turns.
    fn deficits(&self) -> [(i64, bool); 2] {
        [A, B].map(|flow| self.queue.rounds.deficit(self.slot(flow)))
    }

    fn lengths(&self) -> [usize; 2] {
        [A, B].map(|flow| self.queue.lists.len_of(self.slot(flow)))
    }
}

#[test]
fn flows_take_turns_by_bytes() {
    let mut pair = Pair::new(&FqCodel { quantum: 90, ..FqCodel::default() }, QueueLimit::Infinite);
    assert_ne!(pair.slot(A), pair.slot(B));
    pair.push(A, 120);
    assert_eq!(pair.pop(), Some(A));
    assert_eq!(pair.deficits()[0], (-30, true));
    for flow in [A, A, B, B] {
        pair.push(flow, 120);
    }
    for (flow, a, b) in [(B, 60, -30), (A, -60, 60), (B, 30, -60), (A, -90, 30)] {
        assert_eq!(pair.pop(), Some(flow));
        assert_eq!(pair.deficits(), [(a, true), (b, true)]);
    }
    assert_eq!(pair.pop(), None);
    assert_eq!(pair.deficits(), [(90, false), (30, false)]);
}

#[test]
fn an_overflow_takes_half_of_the_longest_queue_from_its_head() {
    let mut pair = Pair::new(&FqCodel::default(), QueueLimit::Packets(4));
    for flow in [A, A, A, B, B] {
        pair.push(flow, 120);
    }
    assert_eq!(pair.lengths(), [1, 2]);
    assert_eq!(pair.dropped.iter().map(|drop| drop.packet.payload).collect::<Vec<_>>(), [0, 1]);
    assert!(pair.dropped.iter().all(|drop| drop.cause == DropCause::QueueFull));
    // A batch bounds it, and Linux counts it.
    let codel = CoDel { law: Law::Linux, ..CoDel::default() };
    let mut pair = Pair::new(&FqCodel { codel, batch: 3, ..FqCodel::default() }, QueueLimit::Packets(20));
    (0..21).for_each(|_| pair.push(A, 120));
    assert_eq!((pair.dropped.len(), pair.queue.states[pair.slot(A)].count()), (3, 3));
}

#[test]
fn a_packet_larger_than_the_limit_is_dropped_and_nothing_stalls() {
    let mut pair = Pair::new(&FqCodel::default(), QueueLimit::Bytes(1000));
    pair.push(A, 100);
    pair.push(B, 1500);
    assert_eq!((pair.lengths(), pair.dropped.len()), ([1, 0], 1));
    assert_eq!((pair.pop(), pair.pop()), (Some(A), None));
}

#[test]
fn a_thin_flow_does_not_wait_behind_a_thick_one() {
    let mut bench = Bench::new(&FqCodel::default(), "12 Mbps", "unlimited");
    for _ in 0..500 {
        bench.push_of(0, 1500, Ecn::NotEct, A);
    }
    let mut longest = 0;
    for n in 0..50 {
        // A packet of the thin flow every 10 ms, which the link takes in a tenth of a millisecond.
        bench.push_of(10_000 * n, 150, Ecn::NotEct, B);
        for (at, packet) in bench.serve(10_000 * (n + 1)) {
            if packet.flow == B {
                longest = longest.max(at - packet.sent.as_nanos() / 1000);
            }
        }
    }
    // A quantum is a packet and a little, for which a second one may go first.
    assert!(longest <= 2_000, "two packets of the other flow, not {longest} µs");
    assert!(bench.drops.iter().all(|drop| drop.packet.flow == A && drop.cause == DropCause::Aqm));
    assert!(!bench.drops.is_empty());
}

#[test]
fn what_waits_for_codel_is_the_flow_in_one_and_all_flows_in_the_other() {
    // One packet of B at a time behind a standing queue of A: for Linux, B's queue is standing too.
    let marked = |law| {
        let codel = CoDel { law, target: Duration::from_micros(100), ..CoDel::default() };
        let mut bench = Bench::new(&FqCodel { codel, ..FqCodel::default() }, "12 Mbps", "unlimited");
        for _ in 0..1000 {
            bench.push_of(0, 1500, Ecn::NotEct, A);
        }
        let mut marked = 0;
        for n in 0..300 {
            bench.push_of(2_000 * n, 1500, Ecn::Ect0, B);
            let served = bench.serve(2_000 * (n + 1));
            marked += served.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count();
        }
        marked
    };
    assert_eq!(marked(Law::Exact), 0);
    assert!(marked(Law::Linux) > 0);
}

#[test]
fn flows_that_collide_share_a_queue() {
    let mut bench = Bench::new(&FqCodel { queues: 1, ..FqCodel::default() }, "12 Mbps", "unlimited");
    for n in 0..20 {
        bench.push_of(0, 1500, Ecn::NotEct, n % 5);
    }
    let order: Vec<u64> = bench.serve_all().iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    assert_eq!(at_micros(0), Instant::ZERO);
}

#[test]
fn a_thin_connection_does_not_wait_behind_a_thick_one_of_the_same_flow() {
    let rate = "12 Mbps".parse().unwrap();
    let mut setup = Setup { limit: QueueLimit::Infinite, rate, start: Instant::ZERO, dice: Streams::new(1).dice("q") };
    let (mut queue, mut dropped) = (Managed::new(&FqCodel::default(), &mut setup), Vec::new());
    let packet = |payload: u64, connection| Packet {
        payload,
        size: 1500,
        flow: 7,
        connection,
        ecn: Ecn::NotEct,
        sent: Instant::ZERO,
        tail: false,
    };
    (0..10).for_each(|n| queue.enqueue(Instant::ZERO, packet(n, 0), &mut dropped));
    queue.enqueue(Instant::ZERO, packet(100, 1), &mut dropped);
    let order: Vec<u64> = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut dropped))
        .map(|queued| queued.packet.payload)
        .collect();
    // A quantum is a packet and a little, for which a second one goes first.
    assert_eq!(order.iter().position(|payload| *payload == 100), Some(2), "{order:?}");
}
