//! Fluid vectors (synthetic arrivals, no senders), the literal form beside the one with prefix sums, and bad input.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use thalweg_units::{Ecn, math};

use super::candidate::Loads;
use super::history::History;
use super::*;
use crate::{QueueLimit, Streams};

const MS: u64 = 1_000_000;

fn rules() -> Rules {
    Predict::default().rules()
}

/// A link of its own: work arrives, and leaves at one nanosecond per nanosecond.
struct Fluid {
    forecast: Forecast,
    arrived: u64,
    queue: u64,
    fired: Vec<(u64, u64)>,
}

impl Fluid {
    fn new(rules: Rules) -> Fluid {
        Fluid { forecast: Forecast::new(rules), arrived: 0, queue: 0, fired: Vec::new() }
    }

    /// A slot in which so much work arrives.
    fn slot(&mut self, work: u64) {
        self.arrived += work;
        self.queue = (self.queue + work).saturating_sub(MS);
        if self.forecast.end_slot(self.arrived, self.queue).is_some() {
            let slot = self.forecast.history().newest();
            self.fired.push((slot, self.forecast.fired.unwrap()));
        }
    }

    fn slots(&mut self, count: u64, work: impl Fn(u64) -> u64) {
        (0..count).for_each(|slot| self.slot(work(slot)));
    }

    fn loads(&self, round_trip: u64, count: usize) -> Vec<u64> {
        Loads::new(self.forecast.history(), round_trip).unwrap().take(count).collect()
    }

    fn error(&self, rtt: u64) -> f64 {
        self.forecast.candidates().iter().find(|candidate| candidate.rtt == rtt).unwrap().error()
    }
}

/// Slow start with a round trip of 40 slots: the windows of packets of 0.6 ms leave spread over the round trip, and
/// double with each.
fn staircase(slot: u64) -> u64 {
    (MS / 1_000) << (slot / 40).min(40)
}

#[test]
fn the_loads_of_slow_start_double_at_every_phase_and_the_error_of_its_candidate_decays() {
    let mut fluid = Fluid::new(rules());
    let mut errors = Vec::new();
    for slot in 0..360 {
        fluid.slot(staircase(slot));
        // From three round trips on, below saturation: the load of a window that slides over the steps.
        if slot > 3 * 40 {
            let loads = fluid.loads(40, 3);
            assert_eq!((loads[0], loads[1]), (2 * loads[1], 2 * loads[2]), "slot {slot}");
            errors.push(fluid.error(40 * MS));
        }
    }
    assert!(fluid.fired.is_empty(), "twice the load is far from a round trip: {:?}", fluid.fired);
    assert!(errors.windows(2).all(|pair| pair[1] < pair[0]), "{errors:?}");
    assert!(*errors.last().unwrap() < 0.05, "{errors:?}");
}

#[test]
fn slow_start_fires_its_own_round_trip_before_the_link_is_full() {
    let mut fluid = Fluid::new(rules());
    fluid.slots(440, staircase);
    let (slot, rtt) = fluid.fired[0];
    assert!((33 * MS..=48 * MS).contains(&rtt), "{rtt}: the candidate itself, or a neighbor");
    // From slot 400 on 1.024 ms arrive per slot instead of 0.512: 3 of these make the load 22 ms, half of 1.1 × 40.
    assert!((403..=405).contains(&slot), "{slot}");
    assert_eq!(fluid.fired.len(), 1, "then it rests");
}

#[test]
fn growth_without_steps_is_off_by_the_ratio_of_candidate_and_round_trip() {
    let mut fluid = Fluid::new(rules());
    let work = |slot: u64| (1_000.0 * math::pow(2.0, slot as f64 / 80.0)) as u64;
    fluid.slots(720, work);
    for candidate in [20_u64, 40, 80, 160] {
        let loads = fluid.loads(candidate, 2);
        let log = math::ln(loads[0] as f64 / loads[1] as f64) / math::ln(2.0);
        let expected = candidate as f64 / 80.0;
        assert!((log - expected).abs() < 0.02 * expected, "{candidate}: {log} instead of {expected}");
    }
    assert!(fluid.error(80 * MS) < 0.02, "{}", fluid.error(80 * MS));
    assert!(fluid.error(40 * MS) > 0.4 && fluid.error(160 * MS) > 0.4);
}

#[test]
fn a_constant_load_is_off_by_one_and_never_fires() {
    for share in [300_000, 900_000, MS] {
        let mut fluid = Fluid::new(rules());
        // The beginning of it is not constant.
        fluid.slots(8_000, |_| share);
        assert!(fluid.fired.is_empty(), "{share}: {:?}", fluid.fired);
        for candidate in fluid.forecast.candidates() {
            assert!((candidate.error() - 1.0).abs() < 0.01, "{share}: {} {}", candidate.rtt, candidate.error());
        }
    }
}

#[test]
fn a_burst_at_twice_the_rate_looks_like_every_round_trip_below_a_third_of_it() {
    for length in [60_u64, 150, 300] {
        let mut fluid = Fluid::new(Rules { newcomer: false, ..rules() });
        fluid.slots(2_000, |_| 0);
        fluid.slots(length, |_| 2 * MS);
        assert!(!fluid.fired.is_empty(), "this is the ambiguity that the veto is for");
        for (_, rtt) in &fluid.fired {
            assert!(*rtt < length * MS / 3, "{rtt} in a burst of {length} slots");
        }
    }
}

#[test]
fn a_candidate_that_tracks_keeps_those_that_fit_into_a_burst_from_firing() {
    // Bursts at twice the rate, once per round trip of 400 slots, that double: unpaced slow start.
    let burst = |slot: u64| if slot % 400 < 5 << (slot / 400) { 2 * MS } else { 0 };
    let mut fluid = Fluid::new(rules());
    fluid.slots(2_800, burst);
    let (slot, rtt) = fluid.fired[0];
    assert!((266 * MS..=600 * MS).contains(&rtt), "{rtt} at {slot}");
}

#[test]
fn a_newcomer_is_seen_on_top_of_a_constant_load() {
    // A link filled to nine tenths, and from slot 2,000 on a slow start of 50 slots per round trip.
    let newcomer = |slot: u64| 900_000 + if slot < 2_000 { 0 } else { 3_000 << ((slot - 2_000) / 50).min(9) };
    let mut with = Fluid::new(rules());
    with.slots(2_500, newcomer);
    let first = with.fired.first().expect("it fires");
    assert!((2_100..2_450).contains(&first.0), "{first:?}");
    let mut without = Fluid::new(Rules { newcomer: false, ..rules() });
    without.slots(first.0 + 1, newcomer);
    assert!(without.fired.is_empty(), "{:?}", without.fired);
}

#[test]
fn it_takes_less_than_a_mebibyte() {
    let forecast = Forecast::new(rules());
    assert_eq!(forecast.candidates().len(), 26);
    assert!(forecast.size() < 1 << 18, "{}", forecast.size());
    let most = Predict { max_rtt: Duration::from_millis(3_000), per_octave: 8, ..Predict::default() };
    assert!(Forecast::new(most.rules()).size() < 1 << 20);
    let finest =
        Predict { slot: Duration::from_micros(100), max_rtt: Duration::from_millis(300), ..Predict::default() };
    assert!(Forecast::new(finest.rules()).size() < 1 << 20);
}

/// The literal form: busy time in a rolling window of a round trip, kept for every slot, and the queue beside it.
struct Rolling {
    round_trip: usize,
    busy: Vec<u64>,
    sum: u64,
    sums: Vec<u64>,
    queues: Vec<u64>,
}

impl Rolling {
    fn slot(&mut self, busy: u64, queue: u64) {
        self.busy.push(busy);
        self.sum += busy;
        if let Some(tail) = self.busy.len().checked_sub(self.round_trip + 1) {
            self.sum -= self.busy[tail];
        }
        self.sums.push(self.sum);
        self.queues.push(queue);
    }

    /// History and queue at the end of a slot, counted from 1.
    fn load(&self, slot: u64) -> u64 {
        slot.checked_sub(1).map_or(0, |index| self.sums[index as usize] + self.queues[index as usize])
    }
}

proptest! {
    /// The load by prefix sums is that of the literal form. They differ only by what arrived in the one slot in which
    /// the round trip before ends: where a slot brings a packet at most, by one packet.
    #[test]
    fn prefix_sums_and_rolling_sums_agree(
        round_trip in 4_u64..60,
        slots in prop::collection::vec((0_u64..4, 0_u64..1_500_000), 200..400),
    ) {
        let mut history = History::new(MS, 1_024);
        let mut rolling =
            Rolling { round_trip: round_trip as usize, busy: vec![], sum: 0, sums: vec![], queues: vec![] };
        let (mut arrived, mut queue) = (0, 0);
        for (packets, size) in slots {
            let work = packets * size;
            arrived += work;
            let served = (queue + work).min(MS);
            queue = queue + work - served;
            history.end_slot(arrived, queue);
            rolling.slot(served, queue);
            let newest = history.newest();
            let (mut at, mut count) = (newest, 0);
            while at > round_trip && count < 4 {
                let before = history.one_round_trip_before(at, round_trip).unwrap();
                let load = history.arrived(at).unwrap() - history.arrived(before).unwrap();
                let next = history.arrived(before + 1).unwrap() - history.arrived(before).unwrap();
                let literal = rolling.load(at);
                prop_assert!(literal <= load && load - literal <= next, "{load} and {literal}, {next} in the slot");
                (at, count) = (before, count + 1);
            }
        }
    }

    /// Whatever arrives and whenever: what comes out came in, in order, and marks are all that changes.
    #[test]
    fn packets_come_out_in_order_and_once(
        steps in prop::collection::vec((0_u64..200_000_000, 0_u32..70_000, 0_u32..5, 0_u8..4, prop::bool::ANY), 1..300),
        drops in prop::bool::ANY,
        at_head in prop::bool::ANY,
    ) {
        let not_ect = if drops { NotEct::Drop } else { NotEct::Pass };
        let mark_at = if at_head { MarkAt::Head } else { MarkAt::Tail };
        let kind = Predict { not_ect, mark_at, ..Predict::default() };
        let mut queue = queue(&kind, QueueLimit::Bytes(200_000), 20_000_000);
        let (mut now, mut dropped, mut entered, mut left) = (Instant::ZERO, Vec::new(), Vec::new(), Vec::new());
        for (number, (wait, size, flow, ecn, takes)) in (0..).zip(steps) {
            now += Duration::from_nanos(wait);
            if takes {
                left.extend(queue.dequeue(now, &mut dropped).map(|queued| queued.packet.payload));
            } else {
                entered.push(number);
                queue.enqueue(now, Packet { ecn: Ecn::from_bits(ecn), flow, ..packet(number, size) }, &mut dropped);
            }
            prop_assert!(queue.len_bytes() <= 200_000);
        }
        while let Some(queued) = queue.dequeue(now, &mut dropped) {
            left.push(queued.packet.payload);
        }
        prop_assert!(left.windows(2).all(|pair| pair[0] < pair[1]));
        let mut all: Vec<u64> = left.iter().copied().chain(dropped.iter().map(|gone| gone.packet.payload)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, entered);
        prop_assert_eq!((queue.len_bytes(), queue.len_packets()), (0, 0));
    }
}

fn packet(payload: u64, size: u32) -> Packet<u64> {
    Packet { payload, size, flow: 0, connection: 0, ecn: Ecn::Ect0, sent: Instant::ZERO, tail: false }
}

fn queue(kind: &Predict, limit: QueueLimit, bps: u64) -> PredictQueue<u64> {
    let dice = Streams::new(1).dice("queue");
    PredictQueue::new(kind, Setup { limit, rate: Rate::from_bps(bps), start: Instant::ZERO, dice })
}

/// Packets of two flows that slow-start with a round trip of 50 ms over 20 Mbps, spread over the round trip. Returns
/// how many packets of each were marked, and how many were dropped.
fn two_flows(kind: &Predict, ecn: Ecn) -> ([usize; 2], usize) {
    let mut queue = queue(kind, QueueLimit::Infinite, 20_000_000);
    let (mut dropped, mut marked) = (Vec::new(), [0; 2]);
    let mut free = Instant::ZERO;
    for round in 0..7_u64 {
        let count = 2 << round;
        for number in 0..count {
            let now = Instant::from_nanos(round * 50 * MS + number * 50 * MS / count);
            while free <= now
                && let Some(queued) = queue.dequeue(free, &mut dropped)
            {
                marked[queued.packet.flow as usize] += usize::from(queued.packet.ecn == Ecn::Ce);
                free += queue.rate.time_for(1_500);
            }
            free = free.max(now);
            queue.enqueue(now, Packet { ecn, flow: (number % 2) as u32, ..packet(0, 1_500) }, &mut dropped);
        }
    }
    assert_eq!(queue.forecasts, 1);
    (marked, dropped.len())
}

#[test]
fn an_episode_marks_one_packet_of_every_flow() {
    assert_eq!(two_flows(&Predict::default(), Ecn::Ect0), ([1, 1], 0));
    assert_eq!(two_flows(&Predict::default(), Ecn::NotEct), ([0, 0], 0));
    let drops = Predict { not_ect: NotEct::Drop, ..Predict::default() };
    assert_eq!(two_flows(&drops, Ecn::NotEct), ([0, 0], 2));
    assert_eq!(two_flows(&drops, Ecn::Ect1), ([1, 1], 0));
    let head = Predict { mark_at: MarkAt::Head, ..drops };
    assert_eq!(two_flows(&head, Ecn::Ect0), ([1, 1], 0));
    assert_eq!(two_flows(&head, Ecn::NotEct), ([0, 0], 2));
}

/// A burst waits when the forecast comes: at the tail the mark waits as long, at the head it leaves with the next
/// packet.
#[test]
fn a_mark_at_the_head_leaves_ahead_of_what_waits() {
    let leaves = |mark_at| {
        let kind = Predict { mark_at, ..Predict::default() };
        let mut queue = queue(&kind, QueueLimit::Infinite, 20_000_000);
        let mut dropped = Vec::new();
        for number in 0..100 {
            queue.enqueue(Instant::ZERO, packet(number, 1_500), &mut dropped);
        }
        queue.episode.until = Instant::from_nanos(100 * MS);
        queue.enqueue(Instant::ZERO, packet(100, 1_500), &mut dropped);
        let left = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut dropped));
        let marked = |queued: Queued<u64>| (queued.packet.ecn == Ecn::Ce).then_some(queued.packet.payload);
        left.filter_map(marked).collect::<Vec<_>>()
    };
    assert_eq!(leaves(MarkAt::Tail), [100]);
    assert_eq!(leaves(MarkAt::Head), [0]);
}

#[test]
fn a_clock_that_stands_still_or_jumps_and_a_rate_of_anything_cost_a_bounded_time() {
    for bps in [0, 1, 8_000, 20_000_000, u64::MAX] {
        let mut queue = queue(&Predict::default(), QueueLimit::Packets(100), bps);
        let mut dropped = Vec::new();
        for number in 0..50_000 {
            queue.enqueue(Instant::ZERO, packet(number, 1_500), &mut dropped);
        }
        assert_eq!(queue.len_packets(), 100);
        let later = Instant::from_nanos(3_600_000 * MS);
        queue.enqueue(later, packet(0, u32::MAX), &mut dropped);
        assert!(queue.dequeue(later, &mut dropped).is_some());
        assert!(queue.dequeue(Instant::FAR_FUTURE, &mut dropped).is_some());
        queue.set_rate(Rate::from_bps(1_000));
        assert!(queue.dequeue(Instant::FAR_FUTURE, &mut dropped).is_some());
        let mut told = 0;
        queue.signals(&mut |_, value| told += u32::from(value.is_finite()));
        assert!(told >= 1);
    }
}

#[test]
fn a_rate_that_changes_leaves_the_history_in_order() {
    let mut queue = queue(&Predict::default(), QueueLimit::Infinite, 20_000_000);
    let mut dropped = Vec::new();
    for step in 0..3_000_u64 {
        let now = Instant::from_nanos(step * MS);
        if step % 100 == 0 {
            queue.set_rate(Rate::from_bps(1_000_000 << (step / 100 % 6)));
        }
        queue.enqueue(now, packet(step, 1_500), &mut dropped);
        queue.dequeue(now, &mut dropped);
        let history = queue.forecast.history();
        let newest = history.newest();
        if let Some(before) = history.one_round_trip_before(newest, 40) {
            assert!(before <= newest.saturating_sub(40));
        }
    }
}
